// The gated activation of feed-forward networks and experts: g * sigmoid(alpha * g) * (u + beta), of limited g and u.
#ifndef ONNXC_IR_OPS_CONTRIB_SWIGLU_H
#define ONNXC_IR_OPS_CONTRIB_SWIGLU_H
#include "ir/ops/decompose.h"

typedef struct swiglu_limit {
    bool given;
    double value;      // g is at most this; u lies between this and its negative
    bool on_activated; // not g is limited, but g * sigmoid(alpha * g)
} swiglu_limit;
// Of floats, with n's attributes activation_alpha and activation_beta. rounded: g * sigmoid(alpha * g) is rounded to
// that type; DT_NONE: to none.
value *swiglu_of(node *n, value *gate, value *up, swiglu_limit limit, dtype rounded);
// Part i (0: gate, 1: up) of v, whose last of `rank` axes holds one after the other, or one beside the other in turn.
value *swiglu_part(node *n, value *v, int rank, bool alternate, int64_t i);
#endif
