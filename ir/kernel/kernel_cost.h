// What a kernel has to do at least: arithmetic operations, and bytes of the buffers that it reads and writes,
// each counted once.
#ifndef ONNXC_IR_KERNEL_KERNEL_COST_H
#define ONNXC_IR_KERNEL_KERNEL_COST_H
#include "ir/kernel/kernel.h"

typedef struct kernel_cost {
    dim *flops, *read, *written;
} kernel_cost;
kernel_cost kernel_cost_of(const kernel *k);
// Operations for one element of a value, at their costs.
int value_work(arena *scratch, expr *value);
#endif
