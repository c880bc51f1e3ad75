// What the files of the fusion pass share.
//
//   fuse.c             the passes of the group, what may move where, names
//   fuse_concat.c      concatenations that grow become one
//   fuse_view.c        index arithmetic through reshapes
//   fuse_cost.c        what computing a value again would cost
//   fuse_inline.c      pointwise producers go into the reads of their consumers
//   fuse_epilogue.c    pointwise consumers go into the writes of their producers
//   fuse_rows.c        kernels over the same rows become stages of one kernel
//   fuse_attention.c   contraction, rows, contraction: attention
//   fuse_reciprocal.c  divisions by what is the same for a row
//   fuse_dce.c         what nobody reads goes
#ifndef ONNXC_PASSES_FUSE_FUSE_IMPL_H
#define ONNXC_PASSES_FUSE_FUSE_IMPL_H
#include "ir/kernel/clone.h"
#include "ir/kernel/uses.h"
#include "passes/fuse/fuse.h"

// A fused kernel stays within these, so that the pass is linear and kernels compile in reasonable time.
enum {
    MOST_NODES = 400,
    MOST_DIVISIONS = 12,
    MOST_BUFFERS = 48,
    MOST_STAGES = 24,
    MOST_READERS = 24,
    MOST_NAME = 96
};

// ---------------------------------------------------------------- def-use of the program
typedef struct fuse {
    program *p;
    const fuse_options *o;
    arena *arena; // of the uses
    uses *uses;
    site_list order;     // kernels in program order
    site_list sets;      // steps that set a dim
    VEC(buffer *) views; // made by merging axes
    bool late;           // arithmetic may go into what only moves data
    bool changed;
} fuse;

bool is_fixed(const site *at); // its kernel must stay as it is
// The only one that writes b (a root, not read by its writer and no output), when it is a kernel; else NULL.
site *sole_writer(fuse *f, const buffer *b);
// The kernels that read b, in order; -1 when they are too many or something else reads it, in another region
// or before the writer.
int readers_of(fuse *f, const site *writer, const buffer *b, site **out /* MOST_READERS */);
bool read_elsewhere(fuse *f, const buffer *b, const site *but); // by anything else than that kernel
// Whether what a reads is still the same while the later kernel b of its region runs.
bool can_compute_later(fuse *f, const site *a, const site *b);
// Whether a may run there instead.
bool can_move_down(fuse *f, const site *a, const site *b);
void fuse_changed(fuse *f, site *at); // its kernel
void fuse_removed(fuse *f, site *at);
void merge_names(kernel *into, const kernel *head, const kernel *tail);
bool small_enough(const kernel *k); // nodes, stages and buffers within the limits

// value as it would be after a pass through memory of type t.
expr *as_stored(const fuse *f, kernel *k, expr *value, dtype t);

// ---------------------------------------------------------------- indices
// The index into `to` of the element that index[] denotes in `from`; both are views of one root.
bool view_index(kernel *k, const buffer *from, const buffer *to, expr *const *index, expr **out);
// Makes an access with fewer divisions by joining axes of the buffer in a view.
buffer *merge_access(fuse *f, kernel *k, buffer *b, expr **index);
int count_divisions(const kernel *k);

// ---------------------------------------------------------------- cost
typedef struct cost {
    int work;    // operations for each element
    int reads;   // that differ from element to element
    bool moves;  // only takes elements from elsewhere
    int bits;    // of the widest element read that is no constant
    bool scales; // the one element read, converted, shifted down and multiplied by what is the same for a row
} cost;
cost cost_of(const kernel *k, const stage *s, const write *w);
bool is_pointwise(const kernel *k); // one stage, no states, nothing but SET writes
bool is_movement(const kernel *k);  // or dequantises
bool has_states(const kernel *k);
bool stage_contracts(const kernel *k, const stage *s); // sums of products of different things
bool is_contraction(const kernel *k);
// k is a contraction along affine indices, with guards that halos may replace, when old was one.
bool still_contracts(kernel *k, kernel *old);
// How often the elements of b (count of them) are asked for by all of k's reads, on average; HUGE_VAL:
// unknown.
double demand_of(const kernel *k, const buffer *root, bool *in_contraction);
bool affine_terms(kernel *k); // all reads in the terms of reductions have affine indices

// ---------------------------------------------------------------- the parts
void merge_concats(program *p);
void fuse_literals(fuse *f);
void fuse_inline(fuse *f);
void fuse_epilogue(fuse *f);
void fuse_rows(fuse *f);
void fuse_chains(fuse *f); // fuse_chain at every kernel
// Makes p1's stages the first ones of p2's kernel; force: whatever its shape and size.
bool rows_join(fuse *f, site *p1, site *p2, bool force);
void fuse_chain(fuse *f, site *rows); // with a contraction before and one after it
void fuse_divide(fuse *f);
void eliminate_dead_code(program *p);
#endif
