// Contractions: kernels of one stage that sum products of two reads. MatMul, Gemm, Conv and their
// decompositions by exporters all have this form; layout assignment and the schedules examine nothing else.
#ifndef ONNXC_PASSES_MATCH_CONTRACT_H
#define ONNXC_PASSES_MATCH_CONTRACT_H
#include "ir/kernel/kernel.h"
#include "ir/target.h"

enum { MAX_AXES = 64 };
typedef struct axis_list {
    int n, at[MAX_AXES];
} axis_list;

// out[batch, m, n] = f(sum over k of a[batch, m, k] * b[batch, n, k])
typedef struct contraction {
    const kernel *k;
    stage *s;
    write *w;
    expr *a, *b;           // the reads: a has the M axes, b the N axis
    expr *term_a, *term_b; // the factors: the reads, perhaps with casts and zero points
    axis_list batch;       // in both
    axis_list m;           // in a only (and axes that neither reads)
    int n;                 // the vectorised axis: in b only, -1: none
    axis_list other_n;     // other axes of b only
    axis_list k_axes;      // reduce axes, in loop order
} contraction;

// False if k has another form. n is the axis of b along which the output is contiguous in its layout; -1 if
// there is none.
bool contraction_find(const kernel *k, contraction *c);
axis_list contraction_columns(const contraction *c); // other_n, then n
// The same for one stage of several, with fixed outer axes.
bool contraction_in_stage(const kernel *k, stage *s, contraction *c);
// Whether k is a product that a CBLAS computes (passes/rewrite/cblas.c).
bool calls_cblas(const kernel *k);
bool axis_in(const axis_list *l, int axis);
// Whether an index of the read depends on the axis (its guard does not count).
bool index_uses_axis(const expr *read, int axis);
// The axis that an index advances by one: of a plain axis itself, of a * n + b with n positions of b, b; -1:
// none. *rest: the factor of n, NULL for a plain axis.
int index_digit(const kernel *k, const expr *index, expr **rest);
// An index into a part of a larger tensor, relative to the part.
const expr *index_in_part(const expr *index);
// Whether the guard of a read holds exactly where its indices are in bounds.
bool guard_is_bounds(const expr *read);
bool index_reduces(const kernel *k, expr *index); // whether the index uses a reduce axis
// Whether a guarded read needs no guard if its buffer has a halo of lo and hi elements on each axis that
// holds the fill value.
bool halo_of_read(kernel *k, const expr *read, int64_t *lo, int64_t *hi);
// The guarded read of a reduction that needs no elements outside of the image, if a halo would enlarge it by half or more: loops
// leave these elements out. NULL: none.
expr *far_window(kernel *k, const stage *s, const target *t);
// The buffer of the single element that fills a guarded read outside of the image (a runtime zero point);
// NULL: another value.
buffer *halo_source(const expr *read);
// e as axis + low; axis -1: low alone. False: e has another form.
bool shifted_axis(const kernel *k, const expr *e, int *axis, dim **low);
#endif
