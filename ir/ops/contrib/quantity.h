// Scales and zero points of quantised tensors, in graphs that stand for operators of com.microsoft. A real value is
// (x - zero) * scale.
#ifndef ONNXC_IR_OPS_CONTRIB_QUANTITY_H
#define ONNXC_IR_OPS_CONTRIB_QUANTITY_H
#include "ir/ops/decompose.h"

typedef struct quantity {
    value *scale, *zero; // scalars; zero NULL: 0
} quantity;

value *scalar(node *n, value *v);                   // an input of one element as a scalar; NULL stays NULL
quantity quantity_at(node *n, int scale, int zero); // of these inputs
value *real_of(node *n, value *x, quantity q);
value *stored(node *n, value *v, quantity q, dtype t);   // saturate(round(v / scale) + zero)
value *rounded(node *n, value *v, value *zero, dtype t); // saturate(round(v) + zero)
#endif
