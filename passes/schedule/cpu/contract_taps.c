// Taps of windows that reach far beyond the image, as dilated ones do: a tile skips those that read zeros of the halo for all of
// its rows.
//
//   for taps k:                     for taps k with 0 <= last row + step * k and first row + step * k < size:
//     acc += a[row + step * k]        acc += a[row + step * k]
#include "compiler/base/integers.h"
#include "ir/kernel/program.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/contract_tiling.h"

// The dim of A's image that an axis of taps moves along.
typedef struct taps {
    int axis;
    int64_t size, base, step;
    expr *coef[MAX_AXES]; // of all axes, constants
} taps;

// Whether a write stays in the image: each index is an axis of its own or 0.
static bool stays_inside(const write *w) {
    for (int j = 0; j < w->to->rank; j++)
        if (w->index[j]->op != X_AXIS && !expr_is_int(w->index[j], 0)) return false;
    return true;
}

static bool is_zero(const expr *x) {
    return x->op == X_CONST && (dtype_is_float(x->dtype) ? x->f == 0 : x->i == 0);
}

// Whether only kernels write b, and zeros where they leave the image.
static bool has_halo_of_zeros(const program *p, const buffer *b) {
    if (b->role != BUF_TEMP || b->view_of) return false;
    for (int j = 0; j < p->buffers.n; j++)
        if (p->buffers.at[j]->view_of == b) return false;
    for (int j = 0; j < p->kernels.n; j++) {
        write_list all = kernel_write_list(p->kernels.at[j]);
        for (int i = 0; i < all.n; i++)
            if (all.at[i]->to == b && !is_zero(all.at[i]->value) && !stays_inside(all.at[i])) return false;
    }
    return true;
}

// Whether zeros times B's elements are zeros, and adding those changes nothing: of floats, infinities, NaN and the sign of 0 count.
static bool zeros_add_nothing(const tiling *t) {
    const expr *b = t->c->b;
    if (!dtype_is_float(t->c->s->states.at[0].dtype)) return true;
    if (t->e->t->fp == FP_STRICT || t->c->term_b != b || b->buffer->role != BUF_CONST) return false;
    return b->buffer->data && constant_is_finite(b->buffer->data);
}

// The dim; false: there is none, or other axes of K move along it, or some are joined with others.
static bool find_taps(const tiling *t, int a, taps *of) {
    const emitter *e = t->e;
    const buffer *image = t->c->a->buffer;
    expr *base;
    int d = -1;
    for (int j = 0; j < image->rank; j++)
        if (expr_uses_axis(t->c->a->index[j], a)) d = d < 0 ? j : image->rank;
    if (d < 0 || d == image->rank || !image->layout || !dim_is_const(image->dims[d])) return false;
    if (!image->layout->pad_lo[d] && !image->layout->pad_hi[d]) return false;
    if (!expr_affine(e->k, t->c->a->index[d], &base, of->coef) || base->op != X_CONST) return false;
    for (int p = 0; p < e->k->axes.n; p++) {
        if (of->coef[p]->op != X_CONST || of->coef[p]->i < 0) return false;
        bool other = p != a && axis_in(&t->c->k_axes, p), joined = e->extent[p] != e->k->axes.at[p].extent;
        if (of->coef[p]->i && !dim_is(e->k->axes.at[p].extent, 1) && (other || joined)) return false;
    }
    of->axis = a, of->size = dim_value(image->dims[d]), of->base = base->i, of->step = of->coef[a]->i;
    return of->step > 0 && dim_is_const(e->extent[a]);
}

// Positions of the axes other than that of the taps which move along the dim: at most one has several.
static bool find_rows(const tiling *t, const taps *of, int64_t *rows, int64_t *stride) {
    *rows = 1, *stride = 0;
    for (int p = 0; p < t->e->k->axes.n; p++) {
        const dim *extent = t->e->extent[p];
        if (p == of->axis || !of->coef[p]->i || dim_is(extent, 1)) continue;
        if (*stride || !dim_is_const(extent)) return false;
        *rows = dim_value(extent), *stride = of->coef[p]->i;
    }
    return true;
}

// Whether so many taps of all rows leave the image that loops with other bounds for each tile gain.
static bool many_leave(const tiling *t, const taps *of) {
    enum { ONE_OF = 8, MOST_ROWS = 4096 };
    int64_t rows, stride, outside = 0, n = dim_value(t->e->extent[of->axis]);
    if (!find_rows(t, of, &rows, &stride) || rows > MOST_ROWS) return false;
    for (int64_t k = 0; k < n; k++)
        for (int64_t r = 0; r < rows; r++) {
            int64_t at = of->base + r * stride + k * of->step;
            outside += at < 0 || at >= of->size;
        }
    return outside * ONE_OF >= rows * n;
}

// max(0, x) / by, rounded up.
static ins *steps_up(lbuild *b, ins *x, int64_t by) {
    ins *least = lb_bin(b, L_SMAX, x, lb_idx(b, 0));
    return lb_bin(b, L_SDIV, idx_addk(b, least, by - 1), lb_idx(b, by));
}

void skip_taps(const tiling *t, const tile *x, int a, ins **begin, ins **end) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    taps of;
    bool plain = !t->flat.n && t->c->term_a == t->c->a && !e->t->freestanding && find_taps(t, a, &of);
    if (!plain || !many_leave(t, &of) || !has_halo_of_zeros(e->k->program, t->c->a->buffer) ||
        !zeros_add_nothing(t))
        return;
    ins *first = lb_idx(b, of.base);
    int64_t reach = 0;
    for (int p = 0; p < e->k->axes.n; p++) {
        if (p == a || !of.coef[p]->i || dim_is(e->extent[p], 1)) continue;
        first = lb_add(b, first, idx_mulk(b, p == t->tile_m ? x->m0 : e->counter[p], of.coef[p]->i));
        if (p == t->tile_m) reach = (x->rows - 1) * of.coef[p]->i;
    }
    ins *before = lb_sub(b, lb_idx(b, -reach), first), *left = lb_sub(b, lb_idx(b, of.size), first);
    *begin = lb_bin(b, L_SMAX, *begin, steps_up(b, before, of.step));
    *end = lb_bin(b, L_SMIN, *end, steps_up(b, left, of.step));
}
