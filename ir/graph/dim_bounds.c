// Bounds of dims without opaques. In: a dim, with opaques that are at most some other dim. Out: a dim of symbols alone that
// it never exceeds.
#include "ir/graph/dim_impl.h"

typedef struct bounds {
    dim *low, *high; // NULL: not known
} bounds;

static dim *max_of(dim *a, dim *b) { return a && b ? dim_max(a, b) : NULL; }
static dim *min_of(dim *a, dim *b) { return a && b ? dim_min(a, b) : NULL; }
static dim *sum_of(dim *a, dim *b) { return a && b ? dim_add(a, b) : NULL; }
static dim *quotient(dim *a, dim *b) { return a ? dim_floordiv(a, b) : NULL; }

// x * y, both not negative.
static bounds product(bounds x, bounds y) {
    return (bounds){x.low && y.low ? dim_mul(x.low, y.low) : NULL,
                    x.high && y.high ? dim_mul(x.high, y.high) : NULL};
}

static bounds scaled(bounds x, int64_t by) {
    dim *low = x.low ? dim_mulk(x.low, by) : NULL, *high = x.high ? dim_mulk(x.high, by) : NULL;
    return by < 0 ? (bounds){high, low} : (bounds){low, high};
}

static bool is_negative(dim *d) { return dim_lower(d) < 0; }

static dim *dim_most(dim *d, int depth);

static bounds of_opaque(const dim *d, int depth) {
    enum { DEEPEST = 16 };
    return (bounds){.high = d->most && depth < DEEPEST ? dim_most(d->most, depth + 1) : NULL};
}

static bounds of_term(const dim_walk *w, const bounds *known, dims *t, const dim_term *term) {
    bounds b = {dim_const(t, 1), dim_const(t, 1)};
    for (int i = 0; i < term->natoms; i++) {
        if (is_negative(term->atoms[i])) return (bounds){0};
        b = product(b, known[dim_walk_place(w, term->atoms[i])]);
    }
    return scaled(b, term->coef);
}

static bounds of_poly(const dim_walk *w, const bounds *known, const dim *d) {
    bounds sum = {dim_const(d->table, 0), dim_const(d->table, 0)};
    for (int i = 0; i < d->nterms; i++) {
        bounds x = of_term(w, known, d->table, &d->terms[i]);
        sum = (bounds){sum_of(sum.low, x.low), sum_of(sum.high, x.high)};
    }
    return sum;
}

static bounds of_operands(const dim *d, bounds a, bounds b) {
    switch (d->kind) {
    case DIM_MIN:
        return (bounds){min_of(a.low, b.low), a.high && b.high ? dim_min(a.high, b.high)
                                              : a.high         ? a.high
                                                               : b.high};
    case DIM_MAX:
        return (bounds){a.low && b.low ? dim_max(a.low, b.low)
                        : a.low        ? a.low
                                       : b.low,
                        max_of(a.high, b.high)};
    case DIM_SELECT: return (bounds){min_of(a.low, b.low), max_of(a.high, b.high)};
    case DIM_BIGSUM: return (bounds){sum_of(a.low, b.low), sum_of(a.high, b.high)};
    case DIM_BIGMUL: return is_negative(d->a) || is_negative(d->b) ? (bounds){0} : product(a, b);
    case DIM_FLOORDIV:
        if (dim_is_opaque(d->b) || dim_lower(d->b) <= 0) return (bounds){0};
        return (bounds){quotient(a.low, d->b), quotient(a.high, d->b)};
    case DIM_CONST:
    case DIM_SYMBOL:
    case DIM_OPAQUE:
    case DIM_POLY:
    case DIM_MOD:
    case DIM_LT:
    case DIM_EQ:
    case DIM_OVERFLOW: break;
    }
    return (bounds){0};
}

static bounds of_part(const dim_walk *w, const bounds *known, const dim *d, int depth) {
    if (!dim_is_opaque(d)) return (bounds){(dim *)d, (dim *)d};
    bounds b = {0};
    if (d->kind == DIM_OPAQUE) b = of_opaque(d, depth);
    else if (d->kind == DIM_POLY) b = of_poly(w, known, d);
    else if (d->a && d->b) b = of_operands(d, known[dim_walk_place(w, d->a)], known[dim_walk_place(w, d->b)]);
    int64_t low = dim_lower((dim *)d), high = dim_upper((dim *)d);
    if (!b.low && low > INT64_MIN / 2) b.low = dim_const(d->table, low);
    if (!b.high && high < INT64_MAX / 2) b.high = dim_const(d->table, high);
    return b;
}

// dim_largest; depth: of opaques that are bounded by opaques.
static dim *dim_most(dim *d, int depth) {
    arena *scratch = arena_new();
    dim_walk w;
    dim_walk_init(&w, scratch, d);
    bounds *known = ARENA_ARRAY(scratch, bounds, w.n);
    for (int i = 0; i < w.n; i++) known[i] = of_part(&w, known, w.at[i], depth);
    dim *most = known[w.n - 1].high;
    arena_destroy(scratch);
    return most;
}

dim *dim_largest(dim *d) { return dim_most(d, 0); }
