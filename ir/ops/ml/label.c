// LabelEncoder: looks up each element among the sorted keys, then reads the value at that position.
// CategoryMapper is expanded to it, with keys and values selected by the type of the input.
#include "ir/ops/runtime_args.h"
#include "ir/ops/text/string.h"
#include <string.h>

// The list in one of the attributes NAME_tensor, NAME_strings, NAME_int64s, NAME_floats; NULL: none.
static constant *list_of(const node *n, const char *name) {
    arena *a = infer_arena(n);
    const attr *t = node_attr(n, arena_printf(a, "%s_tensor", name));
    const attr *s = node_attr(n, arena_printf(a, "%s_strings", name));
    const attr *i = node_attr(n, arena_printf(a, "%s_int64s", name));
    const attr *f = node_attr(n, arena_printf(a, "%s_floats", name));
    if (t) return t->tensor;
    if (s && s->n) return strings_constant(a, s->strings, NULL, s->n);
    if (i && i->n) return int64s_constant(a, i->ints, i->n);
    if (!f || !f->n) return NULL;
    int64_t count = f->n;
    constant *c = constant_new(a, DT_F32, 1, &count);
    for (int64_t j = 0; j < count; j++) dtype_store_float(DT_F32, (void *)c->data, j, f->floats[j], true);
    return c;
}

static constant *lists(const node *n, const char *name) {
    constant *c = list_of(n, name);
    if (!c) infer_error(n, "no attribute contains the %s", name);
    return c;
}

// Version 1: classes_strings are the keys of 0, 1, 2 ... or the reverse.
static void label_upgrade_2(node *n) {
    const attr *classes = node_attr(n, "classes_strings");
    if (!classes) infer_error(n, "attribute classes_strings is missing");
    int64_t *numbers = ARENA_ARRAY(infer_arena(n), int64_t, classes->n + 1);
    for (int i = 0; i < classes->n; i++) numbers[i] = i;
    bool to_numbers = n->in[0]->type.elem == DT_STRING;
    attr strings = *classes;
    strings.name = to_numbers ? "keys_strings" : "values_strings";
    attr ints = {.name = to_numbers ? "values_int64s" : "keys_int64s", .kind = ATTR_INTS, .n = classes->n};
    ints.ints = numbers;
    node_remove_attr(n, "classes_strings");
    node_set_attr(n, strings), node_set_attr(n, ints);
}

static constant *fallback(const node *n, dtype t) {
    const attr *given = node_attr(n, "default_tensor");
    int64_t one = 1;
    const char *text = node_string(n, "default_string", "_Unused");
    if (given) return given->tensor;
    if (t == DT_STRING) return strings_constant(infer_arena(n), &text, NULL, 1);
    constant *c = constant_new(infer_arena(n), t, 1, &one);
    bool own = t == DT_F32 || t == DT_I64;
    if (dtype_is_float(t))
        dtype_store_float(t, (void *)c->data, 0, own ? node_float(n, "default_float", -0.0) : -0.0, true);
    else dtype_store_int(t, (void *)c->data, 0, own ? node_int(n, "default_int64", -1) : -1);
    return c;
}

static void label_infer(node *n) {
    const type *in = infer_in(n, 0);
    const constant *keys = lists(n, "keys"), *values = lists(n, "values");
    if (keys->elem != in->elem)
        infer_error(n, "the keys are %s, the input is %s", dtype_name(keys->elem), dtype_name(in->elem));
    if (keys->count != values->count)
        infer_error(n, "there are %lld keys and %lld values", (long long)keys->count,
                    (long long)values->count);
    const constant *other = fallback(n, values->elem);
    if (other->elem != values->elem || other->count != 1)
        infer_error(n, "attribute default_tensor has %lld elements of type %s, not one of type %s",
                    (long long)other->count, dtype_name(other->elem), dtype_name(values->elem));
    infer_set(n, 0, values->elem, infer_rank(n, 0), in->dims);
}

// y = place < 0 ? default : values[place]
static void label_lower(lowering *l, node *n) {
    arena *a = l->program->arena;
    const constant *keys = lists(n, "keys"), *values = lists(n, "values");
    int64_t *order = ARENA_ARRAY(a, int64_t, keys->count + 1), count = sort_keys(keys, order);
    buffer *places = lower_find(l, n, n->in[0], pick_constant(a, keys, order, count));
    buffer *from = lower_constant(l, arena_printf(a, "%s.values", n->out[0]->name),
                                  pick_constant(a, values, order, count));
    buffer *other =
        lower_constant(l, arena_printf(a, "%s.default", n->out[0]->name), fallback(n, values->elem));
    buffer *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    expr *place = x_read(k, places, index), *known = x_bin(k, X_LE, x_i64(k, 0), place);
    expr *y = x_read_guarded(k, from, &place, known, x_read_first(k, other));
    stage_write(k, s, out, index, y);
}

OPERATOR_OF("ai.onnx.ml", LabelEncoder, .infer = label_infer, .lower = label_lower,
            .upgrades = {{2, label_upgrade_2}});

static attr renamed(const node *n, const char *from, const char *to) {
    const attr *a = node_attr(n, from);
    if (!a) infer_error(n, "attribute %s is missing", from);
    attr made = *a;
    made.name = to;
    return made;
}

static void category_infer(node *n) {
    const type *in = infer_in(n, 0);
    if (renamed(n, "cats_strings", "").n != renamed(n, "cats_int64s", "").n)
        infer_error(n, "attributes cats_strings and cats_int64s have different lengths");
    infer_set(n, 0, in->elem == DT_STRING ? DT_I64 : DT_STRING, infer_rank(n, 0), in->dims);
}

static void category_expand(node *n) {
    bool text = n->in[0]->type.elem == DT_STRING;
    node *to = node_new(n->graph, n, &op_LabelEncoder, n->loc, 1, n->in);
    node_set_attr(to, renamed(n, "cats_strings", text ? "keys_strings" : "values_strings"));
    node_set_attr(to, renamed(n, "cats_int64s", text ? "values_int64s" : "keys_int64s"));
    if (node_attr(n, "default_int64")) node_set_attr(to, *node_attr(n, "default_int64"));
    if (node_attr(n, "default_string")) node_set_attr(to, *node_attr(n, "default_string"));
    replace_output(n, 0, node_output(to, 0, NULL));
}

OPERATOR_OF("ai.onnx.ml", CategoryMapper, .infer = category_infer, .expand = category_expand);
