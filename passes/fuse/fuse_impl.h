// Shared by the files of the fusion passes.
//
//   fuse.c             the passes of the group, legality of moving kernels, names
//   fuse_concat.c      chains of growing concatenations become one
//   fuse_updates.c     versions of a value that is updated in parts become one
//   fuse_constants.c   kernels that read nothing are run
//   fuse_view.c        views with joined axes
//   fuse_cost.c        cost of recomputing a value
//   fuse_inline.c      pointwise producers are inlined into their consumers
//   fuse_epilogue.c    pointwise consumers become the epilogue of their producers
//   fuse_phases.c      epilogues of values that several kernels write
//   fuse_rows.c        kernels over the same rows become stages of one kernel
//   fuse_attention.c   contraction, rows, contraction: attention
//   fuse_states.c      outputs in the memory of an input
//   fuse_outputs.c     temporaries that are an output in another shape
//   fuse_reciprocal.c  divisions by a value of the row
//   fuse_dce.c         dead code elimination
#ifndef ONNXC_PASSES_FUSE_FUSE_IMPL_H
#define ONNXC_PASSES_FUSE_FUSE_IMPL_H
#include "ir/kernel/clone.h"
#include "ir/kernel/program.h"
#include "ir/kernel/uses.h"
#include "passes/match/form.h"
#include "passes/match/view.h"

// Limits of a fused kernel, so that the passes are linear and kernels compile in reasonable time.
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
    bool strict;  // values that are no longer stored are still rounded to the type of their storage
    arena *arena; // lives as long as the def-use lists
    uses *uses;
    site_list order;     // kernels in program order
    site_list sets;      // steps that set a dim
    VEC(buffer *) views; // views with merged axes
    bool late;           // arithmetic may be inlined into kernels that only move data
    bool changed;
    bool bare;       // on bare machines, where elements of several pieces are not selected twice
    bool sums_bytes; // sums of dequantised bytes become sums of integers
    int factor_bits; // of the widest integers whose products the target adds as integers
} fuse;

bool is_fixed(const site *at); // its kernel must not be changed
// The only writer of b (a root that it does not read, not an output) if that is a kernel, else NULL.
site *sole_writer(fuse *f, const buffer *b);
// The kernels that read b, in program order; -1 if there are too many, or if a reader is not a kernel, is in
// another region or precedes the writer. With `inner` regions within the writer's are allowed.
int readers_of(fuse *f, const site *writer, const buffer *b, bool inner, site **out /* MOST_READERS */);
bool reads_constants(const site *at);                           // and nothing else
bool read_elsewhere(fuse *f, const buffer *b, const site *but); // by any other step
// Whether the buffers that a reads still have the same contents when the later kernel b of its region runs, or, if
// they are constants, of a region within it.
bool can_compute_later(fuse *f, const site *a, const site *b);
// Whether a may run immediately before b instead.
bool can_move_down(fuse *f, const site *a, const site *b);
void fuse_changed(fuse *f, site *at); // updates the uses of its kernel
void fuse_removed(fuse *f, site *at);
void merge_names(kernel *into, const kernel *head, const kernel *tail);
void clone_all(cloning *g);         // all stages and writes
bool small_enough(const kernel *k); // within the limits of nodes, stages and buffers

// value as it would be after a store to and a load from memory of type t.
expr *as_stored(const fuse *f, kernel *k, expr *value, dtype t);

// ---------------------------------------------------------------- indices
// Merges axes of the buffer in a view if that saves divisions in the access.
buffer *merge_access(fuse *f, kernel *k, buffer *b, expr **index);

// ---------------------------------------------------------------- cost
typedef struct cost {
    int work;    // operations per element
    int reads;   // that vary along the innermost axis
    bool moves;  // only moves elements
    int bits;    // of the widest element read from a buffer that is not a constant
    bool scales; // a single element, converted, minus a zero point, times a scale (dequantisation)
} cost;
cost cost_of(const kernel *k, const write *w);
int innermost_dim(const write *w);   // whose index varies, -1: none
bool is_pointwise(const kernel *k);  // one stage without states, all of whose writes set
bool is_movement(const kernel *k);   // or dequantises
bool only_moves(const kernel *k);    // and does not dequantise
bool is_plain_copy(const kernel *k); // a movement of each element to its own place, as of a product by 1
// Whether the kernel copies each element of one buffer to its place in another one of the same sizes.
bool copies_whole(const kernel *k, buffer **from, buffer **to);
bool has_states(const kernel *k);
bool stage_contracts(const kernel *k, const stage *s); // sums products of two operands
bool is_contraction(const kernel *k);
bool sums_one_product(const kernel *k); // for each result
// Whether k makes a byte of each element of the buffer, or of the greatest or least of several, or with `sums` of their sum: it can do
// so from the bytes that they were before they were dequantised.
bool makes_bytes(const kernel *k, const buffer *root, bool sums);
// Whether k is still a contraction with affine indices and guards that halos can replace, if `old` was one.
bool still_contracts(kernel *k, kernel *old);
// Whether k multiplies windows of the buffer, which overlap, by constant floats.
bool multiplies_windows(kernel *k, const buffer *root);
bool keeps_windows(kernel *k, kernel *old); // whether paddings of reduced windows stay halos
// How often each element of the buffer is read by k on average; HUGE_VAL: unknown.
double demand_of(const kernel *k, const buffer *root, bool *in_contraction);

// ---------------------------------------------------------------- the parts
void merge_concats(program *p);
void move_views(program *p, buffer *const *now); // to the buffers that are now those with these ids, or NULL
void merge_updates(program *p);
void merge_parts(program *p);
void merge_carried(program *p, bool late);
void free_order(kernel *k); // of updates whose places are now known to be distinct
void fuse_constants(fuse *f);
void fuse_inline(fuse *f);
void fuse_epilogue(fuse *f);
void fuse_phases(fuse *f);
void fuse_rows(fuse *f);
void fuse_chains(fuse *f); // fuse_chain for every kernel
// Prepends p1's stages to p2's kernel; force: regardless of shape and size.
bool rows_join(fuse *f, site *p1, site *p2, bool force);
void fuse_chain(fuse *f, site *rows); // fuses it with the contractions before and after it
void fuse_divide(fuse *f);
void eliminate_dead_code(program *p);
#endif
