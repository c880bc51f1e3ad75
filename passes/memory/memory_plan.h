// The memory plan: where temporaries and the scratch memory of kernels lie in the caller's workspace.
#ifndef ONNXC_PASSES_MEMORY_MEMORY_PLAN_H
#define ONNXC_PASSES_MEMORY_MEMORY_PLAN_H
#include "ir/kernel/program.h"

// A temporary or the scratch memory of a kernel in the workspace. Steps are numbered in the order in which
// they stand.
typedef struct allocation {
    const buffer *buffer; // or:
    const kernel *kernel;
    dim *offset, *size; // bytes
    int first, last;    // its live range
} allocation;

typedef struct memory_plan {
    dim **scratch_offset; // by kernel id: bytes from the workspace's start, NULL: the kernel needs none
    bool *in_place;       // by kernel id: two of its buffers are the same memory
    dim *workspace;       // bytes
    dim *sum;             // of all temporaries, as if nothing were reused
    VEC(allocation) allocations;
} memory_plan;

// Sets the offsets of temporaries and p->workspace. scratch: bytes by kernel id, NULL for none. All offsets
// are multiples of align. Heap buffers of at most `bounded` bytes get a place too: that is what they then
// use. Buffers in other places are left alone.
memory_plan plan_memory(program *p, space where, dim *const *scratch, int64_t align, int64_t bounded);
// Outputs that take the memory of an input (p->state): where the input is read after the output is written,
// the output becomes a temporary that is copied at the end.
void place_states(program *p);
// Whether k may write `to` into the memory of `from`: it reads every element only where it writes the same
// one.
bool writes_in_place(const kernel *k, const buffer *from, const buffer *to);
// Inserts a STEP_FREE after the last use of every heap buffer. Freeing what was moved away is nothing.
void insert_frees(program *p);
#endif
