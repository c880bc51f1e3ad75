// Halos: elements around an image that hold the fill value of guarded reads, which then need no guard.
#include "ir/kernel/program.h"
#include "passes/match/contract.h"

bool index_reduces(const kernel *k, expr *e) {
    for (int a = 0; a < k->axes.n; a++)
        if (k->axes.at[a].kind == AXIS_REDUCE && expr_uses_axis(e, a)) return true;
    return false;
}

enum { MAX_HALO = 64 };

// How far an index exceeds [0, size) over the whole iteration space; false if not by a small constant.
static bool index_overhang(kernel *k, expr *index, const dim *size, int64_t *lo, int64_t *hi) {
    expr *base, *coef[MAX_AXES];
    if (k->axes.n > MAX_AXES || !expr_affine(k, index, &base, coef) || base->op != X_CONST) return false;
    dims *t = k->program->dims;
    dim *least = dim_const(t, base->i), *most = least;
    for (int a = 0; a < k->axes.n; a++) {
        if (coef[a]->op != X_CONST) return false;
        dim *reach = dim_mulk(dim_addk(k->axes.at[a].extent, -1), coef[a]->i);
        if (coef[a]->i > 0) most = dim_add(most, reach);
        else least = dim_add(least, reach);
    }
    dim *over = dim_addk(dim_sub(most, (dim *)size), 1);
    int64_t low = dim_lower(least), high = dim_upper(over);
    if (low < -MAX_HALO || high > MAX_HALO) return false;
    *lo = low < 0 ? -low : 0;
    *hi = high > 0 ? high : 0;
    return true;
}

buffer *halo_source(const expr *read) {
    const expr *f = read->fill;
    if (f->op != X_READ || f->guard || f->buffer->role == BUF_LOCAL ||
        f->buffer->dtype != read->buffer->dtype)
        return NULL;
    for (int j = 0; j < f->buffer->rank; j++)
        if (!dim_is(f->buffer->dims[j], 1)) return NULL;
    return f->buffer;
}

// Whether the window is so far apart that a halo costs more than bounds of its own for each position, which then share no elements
// in a tile: half of the image and more (measured for 3 x 3 windows of 33 x 33 and 112 x 112).
static bool reaches_far(const expr *read, const int64_t *lo, const int64_t *hi) {
    enum { FAR = 4 };
    double image = 1, all = 1;
    bool far = false;
    for (int j = 0; j < read->buffer->rank; j++) {
        const dim *size = read->buffer->dims[j];
        if ((lo[j] || hi[j]) && !dim_is_const(size)) return false;
        if (!lo[j] && !hi[j]) continue;
        far |= lo[j] >= FAR || hi[j] >= FAR;
        image *= (double)dim_value(size), all *= (double)(dim_value(size) + lo[j] + hi[j]);
    }
    return far && 2 * all > 3 * image;
}

// Whether terms outside of the image add nothing: of floats, infinities, NaN and the sign of 0 count.
static bool fill_adds_nothing(kernel *k, const state *st, const expr *read, const target *t) {
    if (read == st->step) return read->fill == reduce_neutral(k, st->op, st->dtype);
    if (st->op != RED_SUM || st->step->op != X_MUL || read->fill != x_number(k, read->dtype, 0)) return false;
    const expr *by = st->step->arg[st->step->arg[0] == read];
    bool constant = by->op == X_READ && !by->guard && by->buffer->role == BUF_CONST && by->buffer->data;
    return !dtype_is_float(st->dtype) ||
           (t->fp != FP_STRICT && constant && constant_is_finite(by->buffer->data));
}

expr *far_window(kernel *k, const stage *s, const target *t) {
    contraction c;
    int64_t lo[MAX_RANK], hi[MAX_RANK];
    if (!t->vector_bits || t->freestanding || s->states.n != 1 || s->states.at[0].op == RED_CUSTOM)
        return NULL;
    const state *st = &s->states.at[0];
    for (int j = 0; j < (st->step->op == X_MUL ? 2 : 1); j++) {
        expr *x = st->step->op == X_MUL ? st->step->arg[j] : st->step;
        if (x->op == X_READ && x->guard && fill_adds_nothing(k, st, x, t) && halo_of_read(k, x, lo, hi) &&
            reaches_far(x, lo, hi) && !(contraction_find(k, &c) && c.n >= 0))
            return x;
    }
    return NULL;
}

// Only windows get a halo: if a parallel axis alone leaves the image, the kernel is a Pad or a Concat.
bool halo_of_read(kernel *k, const expr *read, int64_t *lo, int64_t *hi) {
    if ((read->fill->op != X_CONST && !halo_source(read)) || !guard_is_bounds(read)) return false;
    for (int j = 0; j < read->buffer->rank; j++) {
        lo[j] = hi[j] = 0;
        if (!(read->index[j]->axes & read->guard->axes)) continue; // in bounds regardless of the guard
        if (!index_overhang(k, read->index[j], read->buffer->dims[j], &lo[j], &hi[j])) return false;
        if ((lo[j] || hi[j]) && !index_reduces(k, read->index[j])) return false;
    }
    return true;
}
