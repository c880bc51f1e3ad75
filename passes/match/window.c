// In: an index and an axis of its kernel. Out: the positions that the index has at one position on the axis.
#include "passes/match/window.h"

bool expr_known_int(const expr *e, int64_t *v) {
    if (e->op == X_CONST) return *v = e->i, true;
    if (e->op == X_DIM && dim_is_const(e->dim)) return *v = dim_value(e->dim), true;
    return false;
}

window_fit window_of_index(kernel *k, expr *index, int axis, index_window *w) {
    enum { AXES = 256 };
    expr *base, *coef[AXES];
    int64_t c, whole = 0; // after the division
    *w = (index_window){.down = 1};
    if (index->op == X_ADD && index->arg[0]->op == X_FLOORDIV && expr_known_int(index->arg[1], &whole))
        index = index->arg[0];
    if (index->op == X_FLOORDIV && expr_known_int(index->arg[1], &w->down) && w->down > 0)
        index = index->arg[0];
    else w->down = 1;
    if (k->axes.n > AXES || !expr_affine(k, index, &base, coef)) return WINDOW_COMPUTED;
    w->base = base;
    if (!expr_known_int(base, &w->lo)) return WINDOW_BASE;
    if (__builtin_mul_overflow(whole, w->down, &whole) || __builtin_add_overflow(w->lo, whole, &w->lo))
        return WINDOW_COMPUTED;
    w->hi = w->lo;
    for (int j = 0; j < k->axes.n; j++) {
        if (!expr_known_int(coef[j], &c)) return WINDOW_COMPUTED;
        if (j == axis) w->at = c;
        if (!c || j == axis) continue;
        w->other = j;
        if (!dim_is_const(k->axes.at[j].extent)) return WINDOW_EXTENT;
        int64_t reach, *end = c > 0 ? &w->hi : &w->lo;
        if (__builtin_mul_overflow(c, dim_value(k->axes.at[j].extent) - 1, &reach) ||
            __builtin_add_overflow(*end, reach, end))
            return WINDOW_COMPUTED;
    }
    return WINDOW_FITS;
}
