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
