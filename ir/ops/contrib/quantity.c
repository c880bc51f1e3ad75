// Conversions between real values and quantised ones.
#include "ir/ops/contrib/quantity.h"

value *scalar(node *n, value *v) {
    if (!v || v->type.rank == 0) return v;
    return reshaped(n, v, 0, NULL);
}

quantity quantity_at(node *n, int scale, int zero) {
    return (quantity){scalar(n, node_in(n, scale)), scalar(n, node_in(n, zero))};
}

value *real_of(node *n, value *x, quantity q) { return NODE(n, "DequantizeLinear", x, q.scale, q.zero); }

value *stored(node *n, value *v, quantity q, dtype t) {
    return NODE(n, "QuantizeLinear", v, q.scale, q.zero ? q.zero : insert_scalar(n, t, 0));
}

value *rounded(node *n, value *v, value *zero, dtype t) {
    return stored(n, v, (quantity){insert_scalar(n, DT_F32, 1), zero}, t);
}
