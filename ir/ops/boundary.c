// Boundary forms. In: a module as imported. Out: a module whose input or output has another layout or type.
// The conversion is a Transpose, Cast or DequantizeLinear node, which later passes fuse with the readers or
// the producer of the tensor.
#include "ir/graph/boundary.h"
#include <string.h>

// ---------------------------------------------------------------- inputs
// A new value with the name of input i takes its place; the old one is left without a producer.
static value *replace_input(module *m, int i, type t) {
    graph *g = m->main;
    value *old = g->inputs.at[i], *new = graph_add_input(g, NULL, t);
    const char *name = old->name;
    g->inputs.n--;
    g->inputs.at[i] = new;
    new->def_index = i;
    new->doc = old->doc;
    map_put(&m->names, new->name, old), map_put(&m->names, name, new);
    old->name = new->name, new->name = name;
    return new;
}

// Replaces the old input by output 0 of n for all of its readers.
static void give(value *old, node *n) {
    value *out = node_output(n, 0, old->name);
    out->type = old->type;
    value_replace(old, out);
    old->graph = NULL;
}

static node *first_node(const graph *g) { return g->nodes.n ? g->nodes.at[0] : NULL; }

static const loc *boundary_loc(module *m, const char *what, const char *name) {
    loc *at = ARENA_NEW(m->arena, loc);
    *at = (loc){.file = m->file,
                .node = arena_printf(m->arena, "%s:%s", what, name),
                .op = what,
                .graph = m->main->name};
    return at;
}

static const char *name_of(const module *m, bool output, int i) {
    return output ? m->main->output_names.at[i] : m->main->inputs.at[i]->name;
}

static value *value_at(const module *m, bool output, int i) {
    return output ? m->main->outputs.at[i] : m->main->inputs.at[i];
}

// ---------------------------------------------------------------- layout
static node *add_transpose(module *m, const char *name, value *v, node *before, const int64_t *perm,
                           int rank) {
    attr a = {.name = "perm", .kind = ATTR_INTS, .n = rank, .ints = ARENA_ARRAY(m->arena, int64_t, rank + 1)};
    memcpy(a.ints, perm, (size_t)rank * sizeof *perm);
    node *n = node_new(m->main, before, op_find("", "Transpose"), boundary_loc(m, "io-layout", name), 1, &v);
    node_set_attr(n, a);
    return n;
}

static bool is_channels_last(const char *s, int rank) {
    static const char *const known[] = {"nwc", "nhwc", "ndhwc"};
    return rank >= 3 && rank <= 5 && strcmp(s, known[rank - 3]) == 0;
}
static bool is_channels_first(const char *s, int rank) {
    static const char *const known[] = {"ncw", "nchw", "ncdhw"};
    return rank >= 3 && rank <= 5 && strcmp(s, known[rank - 3]) == 0;
}

void boundary_layout(module *m, bool output, int i, const char *layout) {
    const char *name = name_of(m, output, i);
    value *v = value_at(m, output, i);
    int rank = v->type.kind == TYPE_TENSOR && v->type.rank >= 0 ? v->type.rank : (int)strlen(layout);
    if (is_channels_first(layout, rank)) return;
    if (!is_channels_last(layout, rank) || (v->type.kind != TYPE_TENSOR && v->type.kind != TYPE_NONE)) {
        diag_hint(m->diag, "nwc, nhwc and ndhwc are for 3, 4 and 5 axes");
        diag_error(m->diag, NULL, "--io-layout %s=%s: '%s' is %s", name, layout, name,
                   type_text(m->arena, &v->type));
        return;
    }
    // The permutations from the model's axes to the channels-last ones, and back.
    int64_t to_last[8] = {0}, to_first[8] = {0};
    for (int j = 1; j < rank; j++)
        to_last[j] = j + 1 < rank ? j + 1 : 1, to_first[j] = j > 1 ? j - 1 : rank - 1;
    if (output) {
        node *n = add_transpose(m, name, v, NULL, to_last, rank);
        graph_set_output(m->main, i, node_output(n, 0, NULL));
        return;
    }
    if (v->type.rank < 0) {
        diag_hint(m->diag, "--shape %s=... gives it", name);
        diag_error(m->diag, NULL, "--io-layout %s: the model does not give the rank of '%s'", name, name);
        return;
    }
    dim *dims[8];
    for (int j = 0; j < rank; j++) dims[j] = v->type.dims[to_last[j]];
    value *new = replace_input(m, i, type_tensor(m->arena, v->type.elem, rank, dims));
    give(v, add_transpose(m, name, new, first_node(m->main), to_first, rank));
}

// ---------------------------------------------------------------- the last position
void boundary_last(module *m, int i) {
    enum { LAST = -1, AXIS = -2 };
    constant *position = constant_new(m->arena, DT_I64, 1, (int64_t[]){1});
    memcpy((void *)position->data, &(int64_t){LAST}, sizeof(int64_t));
    value *in[] = {m->main->outputs.at[i], value_constant(m->main, NULL, position)};
    const loc *at = boundary_loc(m, "last", m->main->output_names.at[i]);
    node *n = node_new(m->main, NULL, op_find("", "Gather"), at, 2, in);
    node_set_attr(n, (attr){.name = "axis", .kind = ATTR_INT, .i = AXIS});
    graph_set_output(m->main, i, node_output(n, 0, NULL));
}

// ---------------------------------------------------------------- quantised forms
static bool is_op(const node *n, const char *name) { return n && n->op == op_find("", name); }

// NULL if v is not a single known number.
static const constant *scalar_of(const value *v) {
    const constant *c = v->constant;
    const attr *a = is_op(v->def, "Constant") ? node_attr(v->def, "value") : NULL;
    if (a && a->kind == ATTR_TENSOR) c = a->tensor;
    return c && c->count == 1 ? c : NULL;
}

static dtype quantised_type(const node *n) {
    const value *zero = node_in(n, 2);
    if (zero && scalar_of(zero)) return scalar_of(zero)->elem;
    if (zero && zero->type.elem != DT_NONE) return zero->type.elem;
    dtype t = dtype_from_onnx((int)node_int(n, "output_dtype", 0));
    return t != DT_NONE ? t : DT_U8;
}

static bool is_scalar(const value *v) { return !v || scalar_of(v); }

// Whether n is Q(x) = round(x / scale) + zero with one constant scale, and gives type t.
static bool quantises_to(const node *n, dtype t) {
    return is_op(n, "QuantizeLinear") && quantised_type(n) == t && is_scalar(node_in(n, 1)) &&
           is_scalar(node_in(n, 2));
}

static bool same_scalar(const value *a, const value *b) {
    double x = a ? constant_float(scalar_of(a), 0) : 0, y = b ? constant_float(scalar_of(b), 0) : 0;
    return x == y;
}

static node *find_quantiser(const value *v, dtype t) {
    for (int j = 0; j < v->uses.n; j++)
        if (v->uses.at[j].index == 0 && quantises_to(v->uses.at[j].node, t)) return v->uses.at[j].node;
    return NULL;
}

static void note_scale(module *m, bool output, int i, const value *scale, const value *zero) {
    io_scale s = {.output = output,
                  .index = i,
                  .scale = (float)constant_float(scalar_of(scale), 0),
                  .zero_point = zero ? (int)constant_int(scalar_of(zero), 0) : 0};
    VEC_PUSH(m->arena, &m->scales, s);
}

// Readers that quantise in the same way read the input itself; the others read it dequantised.
static void quantise_input(module *m, int i, node *q, dtype t) {
    value *old = m->main->inputs.at[i], *scale = node_in(q, 1), *zero = node_in(q, 2);
    const char *name = old->name;
    value *new = replace_input(m, i, type_tensor(m->arena, t, old->type.rank, old->type.dims));
    note_scale(m, false, i, scale, zero);
    for (int j = old->uses.n - 1; j >= 0; j--) {
        node *n = j < old->uses.n ? old->uses.at[j].node : NULL;
        if (!n || old->uses.at[j].index != 0 || !quantises_to(n, t)) continue;
        if (!same_scalar(node_in(n, 1), scale) || !same_scalar(node_in(n, 2), zero)) continue;
        value_replace(n->out[0], new);
        node_delete(n);
    }
    if (!value_uses(old)) {
        old->graph = NULL;
        return;
    }
    value *in[] = {new, value_constant(m->main, NULL, (constant *)(uintptr_t)scalar_of(scale)), zero};
    if (zero) in[2] = value_constant(m->main, NULL, (constant *)(uintptr_t)scalar_of(zero));
    node *d = node_new(m->main, first_node(m->main), op_find("", "DequantizeLinear"),
                       boundary_loc(m, "io-dtype", name), zero ? 3 : 2, in);
    give(old, d);
}

static node *add_cast(module *m, const char *name, value *v, node *before, dtype to) {
    node *n = node_new(m->main, before, op_find("", "Cast"), boundary_loc(m, "io-dtype", name), 1, &v);
    node_set_attr(n, (attr){.name = "to", .kind = ATTR_INT, .i = (int)to});
    node_set_attr(n, (attr){.name = "saturate", .kind = ATTR_INT, .i = 1});
    return n;
}

static void input_dtype(module *m, int i, dtype t) {
    value *v = m->main->inputs.at[i];
    node *q = find_quantiser(v, t);
    if (q) {
        quantise_input(m, i, q, t);
        return;
    }
    if (!dtype_is_float(t) || !dtype_is_float(v->type.elem)) {
        diag_error(
            m->diag, NULL,
            "--io-dtype %s=%s: no QuantizeLinear with a single scale converts to %s from input '%s' (%s)",
            v->name, dtype_name(t), dtype_name(t), v->name, type_text(m->arena, &v->type));
        return;
    }
    const char *name = v->name;
    dtype own = v->type.elem;
    value *new = replace_input(m, i, type_tensor(m->arena, t, v->type.rank, v->type.dims));
    give(v, add_cast(m, name, new, first_node(m->main), own));
}

// ---------------------------------------------------------------- strings as indices
// The string labels of the model's maps, else of the classifier that produces v; NULL if there are none.
static const constant *labels_of(module *m, const value *v) {
    const constant *labels;
    for (int j = 0; j < m->main->outputs.n; j++)
        if (value_table(m->main->outputs.at[j], &labels) && labels->elem == DT_STRING) return labels;
    const node *n = v->def;
    while (n && n->nin && n->in[0] && (n->op->is_view || is_op(n, "Cast"))) n = n->in[0]->def;
    const attr *a = n ? node_attr(n, "classlabels_strings") : NULL;
    if (!a || a->kind != ATTR_STRINGS || !a->n) return NULL;
    int64_t count = a->n;
    constant *c = constant_new(m->arena, DT_STRING, 1, &count);
    for (int64_t j = 0; j < count; j++)
        c->strings[j] = a->strings[j], c->string_sizes[j] = strlen(a->strings[j]);
    return c;
}

// Adds a node that maps the strings of output i to their indices among the labels, -1 for other strings.
static void index_output(module *m, int i) {
    value *v = m->main->outputs.at[i];
    const char *name = m->main->output_names.at[i];
    const constant *labels = labels_of(m, v);
    if (!labels) {
        diag_error(m->diag, NULL,
                   "--io-dtype %s=int64: '%s' is string, but the model has no list of labels for it", name,
                   name);
        return;
    }
    int count = (int)labels->count;
    attr keys = {.name = "keys_strings", .kind = ATTR_STRINGS, .n = count, .strings = labels->strings};
    attr values = {.name = "values_int64s", .kind = ATTR_INTS, .n = count};
    values.ints = ARENA_ARRAY(m->arena, int64_t, count + 1);
    for (int j = 0; j < count; j++) values.ints[j] = j;
    node *n = node_new(m->main, NULL, op_find("ai.onnx.ml", "LabelEncoder"),
                       boundary_loc(m, "io-dtype", name), 1, &v);
    node_set_attr(n, keys), node_set_attr(n, values);
    node_set_attr(n, (attr){.name = "default_int64", .kind = ATTR_INT, .i = -1});
    graph_set_output(m->main, i, node_output(n, 0, NULL));
    VEC_PUSH(m->arena, &m->indices, ((io_index){i, labels}));
}

static void output_dtype(module *m, int i, dtype t) {
    value *v = m->main->outputs.at[i];
    const node *d = v->def;
    const char *name = m->main->output_names.at[i];
    if (v->type.elem == DT_STRING && t == DT_I64) {
        index_output(m, i);
        return;
    }
    bool dequantised = is_op(d, "DequantizeLinear") && is_scalar(node_in(d, 1)) && is_scalar(node_in(d, 2));
    dtype stored = DT_NONE;
    if (dequantised) stored = node_in(d, 2) ? quantised_type(d) : d->in[0]->type.elem;
    if (dequantised && stored == DT_NONE && is_op(d->in[0]->def, "QuantizeLinear"))
        stored = quantised_type(d->in[0]->def);
    if (stored == t && t != DT_NONE) {
        note_scale(m, true, i, node_in(d, 1), node_in(d, 2));
        graph_set_output(m->main, i, d->in[0]);
        return;
    }
    if (!dtype_is_float(t) || (v->type.elem != DT_NONE && !dtype_is_float(v->type.elem))) {
        diag_error(m->diag, NULL,
                   "--io-dtype %s=%s: no DequantizeLinear with a single scale produces output '%s' from %s",
                   name, dtype_name(t), name, dtype_name(t));
        return;
    }
    graph_set_output(m->main, i, node_output(add_cast(m, name, v, NULL, t), 0, NULL));
}

void boundary_dtype(module *m, bool output, int i, dtype t) {
    const type *own = &value_at(m, output, i)->type;
    if (own->kind != TYPE_TENSOR && own->kind != TYPE_NONE) {
        diag_error(m->diag, NULL, "--io-dtype %s=%s: '%s' is %s", name_of(m, output, i), dtype_name(t),
                   name_of(m, output, i), type_text(m->arena, own));
        return;
    }
    if (value_at(m, output, i)->type.elem == t) return;
    if (output) output_dtype(m, i, t);
    else input_dtype(m, i, t);
}
