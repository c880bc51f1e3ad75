// Internals of the interpreter: memory of buffers, and one kernel.
#ifndef ONNXC_IR_KERNEL_INTERP_KERNEL_H
#define ONNXC_IR_KERNEL_INTERP_KERNEL_H
#include "ir/kernel/eval.h"
#include "ir/kernel/interp.h"
#include <setjmp.h>

typedef struct memory {
    uint8_t *data;
    int64_t bytes;
    int64_t dims[MAX_RANK];       // current
    int64_t stride[MAX_RANK];     // row-major, in elements
    int64_t extent[2 * MAX_RANK]; // by entry of the layout
    bool live;
    bool owned; // malloc'ed by STEP_ALLOC
} memory;

typedef struct interp interp;
struct interp {
    const program *p;
    arena *arena;
    arena *scratch; // of the running kernel
    const tensor *in;
    memory *at;     // by buffer id
    int64_t *value; // of atoms, by dim id
    bool *known;
    int ndims;
    interp_limits limits;
    int64_t work, bytes;
    void *made; // allocated by library functions
    const char *message;
    jmp_buf jump; // with an interp_result
    interp_hooks hooks;
};

_Noreturn void interp_stop(interp *in, interp_result r, const char *message);
int64_t interp_dim(interp *in, const dim *d); // ends the run if unknown
void interp_kernel(interp *in, const kernel *k);
// Sets dims, strides and extents from the current dims of the buffer; returns the bytes of its (physical)
// storage.
int64_t memory_shape(interp *in, memory *m, const buffer *b);
#endif
