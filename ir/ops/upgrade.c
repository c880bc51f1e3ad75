// Upgrade steps shared by operator families. They run before types are known, so whatever depends on
// ranks is written as shape arithmetic, which inference folds.
#include "ir/ops/upgrade.h"
#include <string.h>

void upgrade_set_input(node *n, int i, value *v) { node_set_in(n, i, v); }

void upgrade_ints_to_input(node *n, const char *attribute, int i) {
    int count;
    if (!node_attr(n, attribute)) return;
    const int64_t *v = node_ints(n, attribute, &count);
    upgrade_set_input(n, i, insert_ints(n, v, count));
    node_remove_attr(n, attribute);
}

void upgrade_set_int(node *n, const char *attribute, int64_t i) {
    node_set_attr(n, (attr){.name = attribute, .kind = ATTR_INT, .i = i});
}

value *upgrade_scalar_like(node *n, double v, value *like) {
    if (like->type.kind == TYPE_TENSOR && like->type.elem != DT_NONE)
        return insert_scalar(n, like->type.elem, v);
    value *in[] = {insert_scalar(n, DT_F32, v), like};
    return insert_before(n, "CastLike", 2, in, NULL);
}

value *upgrade_shape(node *n, value *v) { return insert_before(n, "Shape", 1, &v, NULL); }

value *upgrade_reshape(node *n, value *v, value *shape) {
    node *reshape;
    value *in[] = {v, shape};
    value *out = insert_before(n, "Reshape", 2, in, &reshape);
    upgrade_set_int(reshape, "allowzero", 1);
    return out;
}

void upgrade_reshape_output(node *n, int i, value *shape) {
    if (!node_out(n, i)) return;
    upgrade_set_int(insert_after(n, i, "Reshape", 1, &shape), "allowzero", 1);
    n->out[i]->type = (type){0}; // what the model declares is the reshaped type
}

// int64[count] of ones; count is an int64[1] tensor.
static value *ones(node *n, value *count) {
    node *made;
    value *v = insert_before(n, "ConstantOfShape", 1, &count, &made);
    constant *one = constant_new(n->graph->module->arena, DT_I64, 1, (const int64_t[]){1});
    dtype_store_int(DT_I64, (uint8_t *)one->data, 0, 1);
    node_set_attr(made, (attr){.name = "value", .kind = ATTR_TENSOR, .tensor = one});
    return v;
}

static value *binary(node *n, const char *op, value *a, value *b) {
    value *in[] = {a, b};
    return insert_before(n, op, 2, in, NULL);
}

void upgrade_align_input(node *n, int i, int64_t axis) {
    value *shape = upgrade_shape(n, n->in[i]);
    value *rank = upgrade_shape(n, shape);
    // Dims of input 0 from `axis` on: rank - axis, or -axis when it counts from the end.
    value *from_axis = insert_ints(n, (const int64_t[]){-axis}, 1);
    if (axis >= 0) from_axis = binary(n, "Add", upgrade_shape(n, upgrade_shape(n, n->in[0])), from_axis);
    value *missing = binary(n, "Sub", from_axis, rank);
    missing = binary(n, "Max", missing, insert_ints(n, (const int64_t[]){0}, 1));
    node *concat;
    value *parts[] = {shape, ones(n, missing)};
    value *aligned = insert_before(n, "Concat", 2, parts, &concat);
    upgrade_set_int(concat, "axis", 0);
    node_set_in(n, i, upgrade_reshape(n, n->in[i], aligned));
}

void upgrade_drop_consumed_inputs(node *n) { node_remove_attr(n, "consumed_inputs"); }

void upgrade_old_broadcast(node *n) {
    upgrade_drop_consumed_inputs(n);
    if (node_int(n, "broadcast", 0) && node_attr(n, "axis"))
        upgrade_align_input(n, 1, node_int(n, "axis", 0));
    node_remove_attr(n, "broadcast");
    node_remove_attr(n, "axis");
}

void upgrade_real_function(node *n) {
    value *x = n->in[0];
    node *cast;
    if (x->type.kind != TYPE_TENSOR || !dtype_is_int(x->type.elem)) return;
    node_set_in(n, 0, insert_before(n, "Cast", 1, &x, &cast));
    upgrade_set_int(cast, "to", DT_F64);
    insert_after(n, 0, "CastLike", 1, &x);
    n->out[0]->type = (type){0};
}
