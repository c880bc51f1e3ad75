// Upgrade steps shared by operator families. They run before types are known, so anything that depends on
// ranks is emitted as shape arithmetic, which inference folds.
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
    return NODE(n, "CastLike", insert_scalar(n, DT_F32, v), like);
}

value *upgrade_shape(node *n, value *v) { return NODE(n, "Shape", v); }

void upgrade_reshape_output(node *n, int i, value *shape) {
    if (!node_out(n, i)) return;
    upgrade_set_int(insert_after(n, i, "Reshape", 1, &shape), "allowzero", 1);
    n->out[i]->type = (type){0}; // the declared type is that of the reshaped value
}

value *insert_ones(node *n, value *shape, dtype t) {
    value *v = NODE(n, "ConstantOfShape", shape);
    constant *one = constant_new(n->graph->module->arena, t, 1, (const int64_t[]){1});
    dtype_store_int(t, (uint8_t *)one->data, 0, 1);
    node_set_attr(v->def, (attr){.name = "value", .kind = ATTR_TENSOR, .tensor = one});
    return v;
}

void upgrade_set_string(node *n, const char *attribute, const char *s) {
    node_set_attr(n, (attr){.name = attribute, .kind = ATTR_STRING, .s = s, .size = strlen(s)});
}

void upgrade_align_input(node *n, int i, int64_t axis) {
    value *shape = upgrade_shape(n, n->in[i]);
    value *rank = upgrade_shape(n, shape);
    // The number of dims of input 0 from `axis` on: rank - axis, or -axis if it counts from the end.
    value *from_axis = insert_ints(n, (const int64_t[]){-axis}, 1);
    if (axis >= 0) from_axis = NODE(n, "Add", upgrade_shape(n, upgrade_shape(n, n->in[0])), from_axis);
    value *missing = NODE(n, "Sub", from_axis, rank);
    missing = NODE(n, "Max", missing, insert_ints(n, (const int64_t[]){0}, 1));
    value *aligned = with_int(NODE(n, "Concat", shape, insert_ones(n, missing, DT_I64)), "axis", 0);
    node_set_in(n, i, reshaped_to(n, n->in[i], aligned));
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
    if (x->type.kind != TYPE_TENSOR || !dtype_is_int(x->type.elem)) return;
    node_set_in(n, 0, with_int(NODE(n, "Cast", x), "to", DT_F64));
    insert_after(n, 0, "CastLike", 1, &x);
    n->out[0]->type = (type){0};
}
