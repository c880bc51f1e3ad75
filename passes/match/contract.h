// Contractions: kernels of one stage that sum products of two reads. MatMul, Gemm, Conv and what exporters
// make of them all have this form; layout assignment and the schedules look at nothing else.
#ifndef ONNXC_PASSES_MATCH_CONTRACT_H
#define ONNXC_PASSES_MATCH_CONTRACT_H
#include "ir/kernel/kernel.h"

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
    expr *term_a, *term_b; // the factors: the reads themselves, or with casts and zero points around them
    axis_list batch;       // in both
    axis_list m;           // in a only (and axes of extent that neither reads)
    int n;                 // the axis that runs in vectors: in b only
    axis_list other_n;     // further axes of b only
    axis_list k_axes;      // reduce axes, in loop order
} contraction;

// False when k has another form. `n` is the N axis that makes the output contiguous when laid out as it is;
// when none does, the last axis of the operand that the constant (weights) is.
bool contraction_find(const kernel *k, contraction *c);
// The same of one stage among several; the kernel's outer axes stand still.
bool contraction_in_stage(const kernel *k, stage *s, contraction *c);
bool axis_in(const axis_list *l, int axis);
// Whether expression x depends on the axis through anything but the guard of a read.
bool index_uses_axis(const expr *read, int axis);
// The axis that counts single elements of an index: of a plain axis itself, of a * n + b, where b has n
// positions, b; -1: none. rest: what is multiplied by n, NULL for a plain axis.
int index_digit(const kernel *k, const expr *index, expr **rest);
// An index into a part of a larger tensor as it counts in the part.
const expr *index_in_part(const expr *index);
// Whether the guard of a read holds wherever its indices are inside of the buffer, and nowhere else.
bool guard_is_bounds(const expr *read);
bool index_reduces(const kernel *k, expr *index); // whether it uses a reduce axis
// Whether a guarded read needs no guard where its buffer has so many elements around it on each axis, which
// hold the fill.
bool halo_of_read(kernel *k, const expr *read, int64_t *lo, int64_t *hi);
// The buffer of one element that a guarded read takes outside of the image (a zero point of the run); NULL:
// another value.
buffer *halo_source(const expr *read);
// e as axis + low; axis -1: low alone. False: it is something else.
bool shifted_axis(const kernel *k, const expr *e, int *axis, dim **low);
#endif
