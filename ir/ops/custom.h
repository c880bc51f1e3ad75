// Operators that a C function of the user's computes (--custom-op; runtime-lite/onnxc_custom.h).
#ifndef ONNXC_IR_OPS_CUSTOM_H
#define ONNXC_IR_OPS_CUSTOM_H
#include "ir/graph/op.h"

typedef struct custom_op {
    const char *domain, *name, *symbol;
    bool same;               // outputs without a declared shape have the type of input 0
    bool shape;              // SYMBOL_shape sets the sizes that are not constant
    bool workspace;          // SYMBOL_workspace sets the size of the workspace; else:
    int64_t workspace_bytes; // 0: none
} custom_op;

const op_def *custom_op_new(arena *a, custom_op of);
// The call for n. Inputs other than tensors of numbers are passed as their handles.
void lower_custom(lowering *l, node *n);
#endif
