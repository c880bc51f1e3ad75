// What the convolutions of com.microsoft and com.microsoft.nchwc share.
#ifndef ONNXC_IR_OPS_CONTRIB_FUSED_H
#define ONNXC_IR_OPS_CONTRIB_FUSED_H
#include "ir/ops/decompose.h"

value *conv_activated(node *n, value *v); // v with n's activation, in the type of n's input 0 (wide_type)
value *with_conv_attrs(value *v, const node *n); // the attributes that a standard Conv has
#endif
