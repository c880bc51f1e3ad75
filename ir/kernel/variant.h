// Kernels that replace another one.
#ifndef ONNXC_IR_KERNEL_VARIANT_H
#define ONNXC_IR_KERNEL_VARIANT_H
#include "ir/kernel/program.h"

// A new kernel for the same nodes as `old`, with its messages.
kernel *variant_new(program *p, const kernel *old, const char *name, const char *algorithm);
// Runs first and last in place of the kernel of step `at`; condition: where it is not 0, NULL: always.
void variant_replace(program *p, region *r, step *at, kernel *first, kernel *last, dim *condition);
// The row-major position of indices on n axes of `old` (axes NULL: the first ones); index: by its axes.
expr *variant_position(kernel *k, const kernel *old, const int *axes, int n, expr *const *index);
#endif
