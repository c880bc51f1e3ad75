// A lower bound of the work of a kernel: arithmetic operations, and bytes of the buffers that it reads and
// writes, once each.
#ifndef ONNXC_IR_KERNEL_KERNEL_COST_H
#define ONNXC_IR_KERNEL_KERNEL_COST_H
#include "ir/kernel/kernel.h"
#include "ir/kernel/program.h"

typedef struct kernel_cost {
    dim *flops, *read, *written;
    dim *work; // flops, where functions and divisions count as several
    dim *macs; // multiply-accumulates, the products summed by reductions; counted in flops as well
} kernel_cost;
kernel_cost kernel_cost_of(const kernel *k);
bool is_counted_loop(const step *s); // sizes, not data, tell how often its body runs
// Multiply-accumulates of a run: of two branches the larger one counts, and the body of a loop as often as it runs, or once where
// data decide how often. Patches of images count as whole ones at their ends, too.
dim *program_macs(const program *p);
dim **kernel_macs(arena *a, const program *p); // of all calls of each kernel in a run, by its id
// The cost of computing one element of a value.
int value_work(arena *scratch, expr *value);
#endif
