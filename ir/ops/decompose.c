// Building graphs of standard operators in place of a node: thin forms of what ir/graph/op.h offers.
#include "ir/ops/decompose.h"
#include <math.h>
#include <string.h>

value *insert_node(node *n, const char *op, size_t nin, value *const *in) {
    while (nin && !in[nin - 1]) nin--;
    return insert_before(n, op, (int)nin, in, NULL);
}

static value *with(value *v, attr a) {
    node_set_attr(v->def, a);
    return v;
}

value *with_int(value *v, const char *name, int64_t i) {
    return with(v, (attr){.name = name, .kind = ATTR_INT, .i = i});
}

value *with_float(value *v, const char *name, double f) {
    return with(v, (attr){.name = name, .kind = ATTR_FLOAT, .f = (float)f});
}

value *with_string(value *v, const char *name, const char *s) {
    return with(v, (attr){.name = name, .kind = ATTR_STRING, .s = s, .size = strlen(s)});
}

value *with_ints(value *v, const char *name, int count, const int64_t *ints) {
    int64_t *copy = ARENA_ARRAY(v->graph->module->arena, int64_t, count + 1);
    memcpy(copy, ints, (size_t)count * sizeof *ints);
    return with(v, (attr){.name = name, .kind = ATTR_INTS, .ints = copy, .n = count});
}

value *with_attr_of(value *v, const node *n, const char *name) {
    const attr *a = node_attr(n, name);
    return a ? with(v, *a) : v;
}

value *output_of(value *v, int i) {
    return i < v->def->nout && v->def->out[i] ? v->def->out[i] : node_output(v->def, i, NULL);
}

value *inferred(value *v) {
    infer_node(v->def);
    return v;
}

value *cast_to(node *n, value *v, dtype t) {
    if (v->type.kind == TYPE_TENSOR && v->type.elem == t) return v;
    return with_int(NODE(n, "Cast", v), "to", t);
}

value *as_scalar(node *n, value *v) { return NODE(n, "Reshape", v, insert_ints(n, NULL, 0)); }
value *one_int(node *n, int64_t i) { return insert_ints(n, &i, 1); }
value *int64_scalar(node *n, int64_t i) { return insert_scalar(n, DT_I64, (double)i); }

value *number_like(node *n, double x, int i) { return insert_scalar(n, infer_in(n, i)->elem, x); }

value *transposed(node *n, value *v, int rank, const int64_t *order) {
    return with_ints(NODE(n, "Transpose", v), "perm", rank, order);
}

value *reshaped(node *n, value *v, int rank, const int64_t *sizes) {
    return NODE(n, "Reshape", v, insert_ints(n, sizes, rank));
}

value *reshaped_to(node *n, value *v, value *shape) {
    return with_int(NODE(n, "Reshape", v, shape), "allowzero", 1);
}

value *sliced(node *n, value *v, int64_t axis, int64_t from, int64_t to) {
    return NODE(n, "Slice", v, one_int(n, from), one_int(n, to), one_int(n, axis));
}

void give_output(node *n, int i, value *v) {
    if (!node_out(n, i)) return;
    // Outputs of new nodes have no type yet, and take what the model declares; an input of n keeps its own.
    if (!v->def || v->type.kind != TYPE_NONE) v = NODE(n, "Identity", v);
    replace_output(n, i, v);
}

void decompose_to(node *n, const char *op) {
    value *v = insert_before(n, op, n->nin, n->in, NULL);
    for (int i = 0; i < n->nattrs; i++) node_set_attr(v->def, n->attrs[i]);
    for (int i = n->nout - 1; i >= 0; i--)
        if (node_out(n, i)) give_output(n, i, output_of(v, i));
}

value *shape_part(node *n, value *v, int64_t from, int64_t to) {
    value *shape = with_int(NODE(n, "Shape", v), "start", from);
    return to == INT64_MAX ? shape : with_int(shape, "end", to);
}

value *joined(node *n, size_t count, value *const *parts) {
    return with_int(insert_node(n, "Concat", count, parts), "axis", 0);
}

dtype wide_type(dtype t) { return t == DT_F16 || t == DT_BF16 ? DT_F32 : t; }

value *widened(node *n, int i) {
    return node_in(n, i) ? cast_to(n, n->in[i], wide_type(infer_in(n, i)->elem)) : NULL;
}

value *narrowed(node *n, value *v, dtype t) { return t == wide_type(t) ? v : cast_to(n, v, t); }

value *reduced(node *n, const char *op, value *v, int64_t axis) {
    return with_int(NODE(n, op, v, insert_ints(n, &axis, 1)), "keepdims", 1);
}

value *split_last(node *n, value *v, value *rows) {
    value *last = NODE(n, "Div", shape_part(n, v, -1, INT64_MAX), rows);
    value *sizes = JOINED(n, shape_part(n, v, 0, -1), rows, last);
    return with_int(NODE(n, "Reshape", v, sizes), "allowzero", 1);
}

value *as_shape_of(node *n, value *v, value *x) {
    return with_int(NODE(n, "Reshape", v, shape_part(n, x, 0, INT64_MAX)), "allowzero", 1);
}

value *swapped_last(node *n, value *v, int rank) {
    int64_t order[MAX_RANK];
    for (int i = 0; i < rank; i++) order[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return transposed(n, v, rank, order);
}

value *channels_moved(node *n, value *v, int rank, bool last_to_second) {
    int64_t order[MAX_RANK] = {0};
    for (int i = 1; i < rank; i++)
        order[i] = last_to_second ? (i == 1 ? rank - 1 : i - 1) : (i == rank - 1 ? 1 : i + 1);
    return transposed(n, v, rank, order);
}

value *insert_floats(node *n, const float *v, int count) {
    constant *c = constant_new(n->graph->module->arena, DT_F32, 1, (const int64_t[]){count});
    for (int i = 0; i < count; i++) dtype_store_float(DT_F32, (void *)c->data, i, v[i], true);
    return value_constant(n->graph, NULL, c);
}

static value *slice_between(node *n, value *v, value *from, value *to) {
    return NODE(n, "Slice", v, from, to, one_int(n, 1));
}

// banned[b, i] = ids[b, i .. i + size - 2] are the last size - 1 ids; then scores[b, ids[b, i + size - 1]] = least
value *without_repeated_ngrams(node *n, value *scores, value *ids, int64_t size, value *least) {
    value *zero = one_int(n, 0), *one_less = one_int(n, size - 1);
    value *count = NODE(n, "Max", NODE(n, "Sub", shape_part(n, ids, 1, 2), one_less), zero), *banned = NULL;
    for (int64_t j = 0; j < size - 1; j++) {
        value *from = one_int(n, j);
        value *equal = NODE(n, "Equal", slice_between(n, ids, from, NODE(n, "Add", from, count)),
                            sliced(n, ids, 1, j - (size - 1), j == size - 2 ? INT64_MAX : j - (size - 2)));
        banned = banned ? NODE(n, "And", banned, equal) : equal;
    }
    value *tokens = slice_between(n, ids, one_less, NODE(n, "Add", one_less, count)), *bounds;
    if (banned) bounds = NODE(n, "Where", banned, least, insert_scalar(n, DT_F32, INFINITY));
    else bounds = NODE(n, "Expand", least, shape_part(n, tokens, 0, INT64_MAX));
    value *y = with_int(NODE(n, "ScatterElements", scores, tokens, bounds), "axis", 1);
    return with_string(y, "reduction", "min");
}
