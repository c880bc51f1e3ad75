// SwiGLU of com.microsoft, and RouterGateUpProj, the first product of a layer of experts with a shared one.
#include "ir/ops/contrib/swiglu.h"

static value *limited(node *n, value *v, double limit, bool both) {
    value *high = insert_scalar(n, DT_F32, limit);
    return both ? NODE(n, "Clip", v, insert_scalar(n, DT_F32, -limit), high) : NODE(n, "Min", v, high);
}

value *swiglu_of(node *n, value *gate, value *up, swiglu_limit limit, dtype rounded) {
    if (limit.given && !limit.on_activated) gate = limited(n, gate, limit.value, false);
    value *active = with_float(NODE(n, "Swish", gate), "alpha", node_float(n, "activation_alpha", 1));
    if (limit.given && limit.on_activated) active = limited(n, active, limit.value, false);
    if (rounded != DT_NONE) active = cast_to(n, cast_to(n, active, rounded), DT_F32);
    if (limit.given) up = limited(n, up, limit.value, true);
    double beta = node_float(n, "activation_beta", 0);
    return NODE(n, "Mul", active, beta != 0 ? NODE(n, "Add", up, insert_scalar(n, DT_F32, beta)) : up);
}

value *swiglu_part(node *n, value *v, int rank, bool alternate, int64_t i) {
    int64_t pairs[MAX_RANK + 1] = {0};
    pairs[rank - 1] = alternate ? -1 : 2, pairs[rank] = alternate ? 2 : -1;
    v = NODE(n, "Gather", reshaped(n, v, rank + 1, pairs), insert_scalar(n, DT_I64, i));
    return with_int(v, "axis", alternate ? rank : rank - 1);
}

// Attribute `limit`: zero or less is none.
static swiglu_limit own_limit(const node *n) {
    double limit = node_float(n, "limit", 0);
    return (swiglu_limit){.given = limit > 0, .value = limit};
}

static void swiglu_decompose(node *n) {
    dtype t = infer_in(n, 0)->elem, rounded = node_int(n, "round_activation", 0) ? t : DT_NONE;
    value *x = cast_to(n, n->in[0], DT_F32), *gate = x, *up = node_in(n, 1);
    int rank = infer_rank(n, 0);
    if (rank < 1) infer_error(n, "the gate is a scalar");
    if (up) up = cast_to(n, up, DT_F32);
    else gate = swiglu_part(n, x, rank, false, 0), up = swiglu_part(n, x, rank, false, 1);
    give_output(n, 0, cast_to(n, swiglu_of(n, gate, up, own_limit(n), rounded), t));
}
MICROSOFT_OP(SwiGLU, swiglu_decompose);

// x * w, whose columns are those of the router, of the gate and of the linear half
static void router_gate_up(node *n) {
    dtype t = infer_in(n, 0)->elem;
    int64_t router = node_int(n, "router_size", 0);
    node_choice(n, "activation", "swiglu");
    if (router < 0) infer_error(n, "attribute router_size is %lld", (long long)router);
    if (infer_rank(n, 1) != 2) infer_error(n, "W has rank %d, not 2", infer_rank(n, 1));
    dim *columns = infer_in(n, 1)->dims[1];
    infer_same_dim(n, dim_max(columns, infer_k(n, router)), columns, "router_size and columns of W");
    value *y = NODE(n, "MatMul", n->in[0], n->in[1]);
    value *half = cast_to(n, sliced(n, y, -1, router, INT64_MAX), DT_F32);
    int rank = infer_rank(n, 0);
    value *gate = swiglu_part(n, half, rank, false, 0), *up = swiglu_part(n, half, rank, false, 1);
    if (node_out(n, 1)) give_output(n, 1, cast_to(n, swiglu_of(n, gate, up, own_limit(n), DT_NONE), t));
    give_output(n, 0, sliced(n, y, -1, 0, router));
}
MICROSOFT_OP(RouterGateUpProj, router_gate_up);
