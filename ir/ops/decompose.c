// Building graphs of standard operators in place of a node: thin forms of what ir/graph/op.h offers.
#include "ir/ops/decompose.h"
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

value *cast_to(node *n, value *v, dtype t) {
    if (v->type.kind == TYPE_TENSOR && v->type.elem == t) return v;
    return with_int(NODE(n, "Cast", v), "to", t);
}

value *number_like(node *n, double x, int i) { return insert_scalar(n, infer_in(n, i)->elem, x); }

value *transposed(node *n, value *v, int rank, const int64_t *order) {
    return with_ints(NODE(n, "Transpose", v), "perm", rank, order);
}

value *reshaped(node *n, value *v, int rank, const int64_t *sizes) {
    return NODE(n, "Reshape", v, insert_ints(n, sizes, rank));
}

value *sliced(node *n, value *v, int64_t axis, int64_t from, int64_t to) {
    return NODE(n, "Slice", v, insert_ints(n, &from, 1), insert_ints(n, &to, 1), insert_ints(n, &axis, 1));
}

void give_output(node *n, int i, value *v) {
    if (!node_out(n, i)) return;
    v->type = (type){0}; // what the model declares of the output stays
    replace_output(n, i, v);
}

void decompose_to(node *n, const char *op) {
    value *v = insert_before(n, op, n->nin, n->in, NULL);
    for (int i = 0; i < n->nattrs; i++) node_set_attr(v->def, n->attrs[i]);
    for (int i = n->nout - 1; i >= 0; i--)
        if (node_out(n, i)) give_output(n, i, output_of(v, i));
}
