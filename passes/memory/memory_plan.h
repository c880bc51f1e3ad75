// The memory plan: offsets of temporaries and of the scratch memory of kernels in the caller's workspace.
#ifndef ONNXC_PASSES_MEMORY_MEMORY_PLAN_H
#define ONNXC_PASSES_MEMORY_MEMORY_PLAN_H
#include "ir/kernel/program.h"
#include "ir/target.h"

// A temporary or the scratch memory of a kernel in the workspace. Steps are numbered in program order.
typedef struct allocation {
    const buffer *buffer; // or:
    const kernel *kernel;
    dim *offset, *size; // bytes
    int first, last;    // live range
    int pool;           // number
} allocation;

// Memory of a size that the user gives. Without a section, the caller passes it.
typedef struct memory_pool {
    const char *name, *section;
    int64_t bytes;
} memory_pool;
typedef VEC(memory_pool) memory_pools; // the fastest first

// At which distances the result of a kernel may overlap an operand that it reads for the last time: it overwrites
// only what it has read.
typedef struct overlap {
    const kernel *kernel;
    const buffer *from, *to;
    int64_t first; // bytes from the start of `from` to the start of `to`, a multiple of the plan's alignment
    int n;         // of distances
    bool *may;     // by distance, in steps of the alignment
} overlap;
typedef VEC(overlap) overlaps;

typedef struct memory_plan {
    dim **scratch_offset; // by kernel id: bytes from the workspace's start, NULL: the kernel needs none
    int *scratch_pool;    // by kernel id
    bool *in_place;       // by kernel id: its result shares the memory of an operand
    dim *workspace;       // bytes
    dim *sum;             // of all temporaries without reuse
    VEC(allocation) allocations;
    // With pools:
    int64_t *pool_bytes;   // in use; the last one has what fits none
    const char *unbounded; // a temporary whose size has no bound; or NULL
    dim *unbounded_size;   // a multiple of it
} memory_plan;

// Stores temporaries that --precision=bf16 rounds as the variant for t does: bf16, or f32 if t has no unit for bf16.
// Memory is planned for f32 if there is such a variant.
void store_rounded(program *p, const target *t);
// Sets the offsets of temporaries and p->workspace. scratch: bytes by kernel id, NULL for none. All offsets
// are multiples of align. Heap buffers of at most `bounded` bytes are placed in the workspace too. Buffers of
// other memory spaces are ignored. o: what may overlap; NULL: nothing but elements in place.
// pools: where temporaries are, instead of in one workspace; NULL or none: there.
memory_plan plan_memory(program *p, space where, dim *const *scratch, int64_t align, int64_t bounded,
                        const overlaps *o, const memory_pools *pools);
// Outputs stored in the memory of an input (p->state): if the input is read after the output is written, the
// output becomes a temporary that is copied at the end. Sets in_place of kernels.
void place_states(program *p);
// Kernels of the program run in the order with the smallest peak of memory; false: none is smaller.
bool order_kernels(program *p, const target *t);
// Whether k may write `to` in the memory of `from`: it reads each element only where it writes the same one.
bool writes_in_place(const kernel *k, const buffer *from, const buffer *to);
// Whether the result may so share the memory of any operand: then no element may be written twice.
bool may_be_in_place(const kernel *k, const buffer *to);
// Inserts a STEP_FREE after the last use of every heap buffer. Freeing a buffer that was moved has no effect.
void insert_frees(program *p);
#endif
