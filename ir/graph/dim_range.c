// Ranges of dims by interval arithmetic, common divisors, and a small prover of lower bounds. In: dims. Out: min, max, divisor.
#include "compiler/base/integers.h"
#include "ir/graph/dim_impl.h"

int64_t gcd64(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x > INT64_MAX ? INT64_C(1) << 62 : (int64_t)x;
}

static int64_t multiple_in(const dim *d, const dim *atom) {
    int64_t all = 0;
    if (d->kind != DIM_POLY) return d == atom;
    for (int i = 0; i < d->nterms; i++) {
        int times = 0;
        for (int j = 0; j < d->terms[i].natoms; j++) times += d->terms[i].atoms[j] == atom;
        if (times > 1) return 1;
        if (times) all = gcd64(all, d->terms[i].coef);
    }
    return all;
}

int64_t dim_content(const dim *d) {
    int64_t all = 0;
    if (d->kind != DIM_POLY) return 1;
    for (int i = 0; i < d->nterms; i++) all = gcd64(all, d->terms[i].coef);
    return all;
}

int64_t dims_multiple(dim *const *d, int n, const dim *atom) {
    int64_t all = 0;
    for (int i = 0; i < n; i++) all = gcd64(all, multiple_in(d[i], atom));
    return all;
}

static int_range range_of(const dim *d) { return (int_range){d->min, d->max}; }

static int_range term_range(const dim_term *t) {
    int_range r = {t->coef, t->coef};
    for (int i = 0; i < t->natoms; i++) {
        int_range x = range_of(t->atoms[i]);
        // A square is not negative.
        if (i + 1 < t->natoms && t->atoms[i + 1] == t->atoms[i]) {
            x = int_range_mul(x, x);
            if (x.min < 0) x.min = 0;
            i++;
        }
        r = int_range_mul(r, x);
    }
    return r;
}

static int_range poly_range(const dim *d) {
    int_range r = {0, 0};
    for (int i = 0; i < d->nterms; i++) r = int_range_add(r, term_range(&d->terms[i]));
    return r;
}

static int_range lt_range(int_range a, int_range b) { return (int_range){a.max < b.min, a.min < b.max}; }

static int_range eq_range(int_range a, int_range b) {
    return (int_range){a.min == a.max && b.min == b.max && a.min == b.min && !is_infinite(a.min),
                       a.min <= b.max && b.min <= a.max};
}

static int_range computed_range(const dim *d) {
    int_range a = d->a ? range_of(d->a) : (int_range){0}, b = d->b ? range_of(d->b) : (int_range){0};
    switch (d->kind) {
    case DIM_CONST: return (int_range){d->value, d->value};
    case DIM_SYMBOL:
    case DIM_OPAQUE: return range_of(d);
    case DIM_POLY: return poly_range(d);
    case DIM_FLOORDIV: return int_range_floordiv(a, b);
    case DIM_MOD: return int_range_mod(a, b);
    case DIM_MIN: return int_range_min(a, b);
    case DIM_MAX: return int_range_max(a, b);
    case DIM_LT: return lt_range(a, b);
    case DIM_EQ: return eq_range(a, b);
    case DIM_SELECT: return int_range_hull(a, b);
    case DIM_OVERFLOW: return INT_RANGE_ALL;
    case DIM_BIGSUM: return int_range_add(a, b);
    case DIM_BIGMUL: return int_range_mul(a, b);
    }
    return INT_RANGE_ALL;
}

static int64_t mul_divisors(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? a : product;
}

static int64_t poly_divisor(const dim *d) {
    int64_t all = 0;
    for (int i = 0; i < d->nterms; i++) {
        int64_t one = gcd64(d->terms[i].coef, 0);
        for (int k = 0; k < d->terms[i].natoms; k++) one = mul_divisors(one, d->terms[i].atoms[k]->divisor);
        all = gcd64(all, one);
    }
    return all;
}

static int64_t computed_divisor(const dim *d) {
    switch (d->kind) {
    case DIM_CONST: return gcd64(d->value, 0);
    case DIM_SYMBOL:
    case DIM_OPAQUE: return d->divisor;
    case DIM_POLY: return poly_divisor(d);
    case DIM_FLOORDIV:
        if (dim_is_const(d->b) && d->b->value > 0 && d->a->divisor % d->b->value == 0)
            return d->a->divisor / d->b->value;
        return 1;
    case DIM_MOD:
    case DIM_MIN:
    case DIM_MAX:
    case DIM_SELECT:
    case DIM_BIGSUM: return gcd64(d->a->divisor, d->b->divisor);
    case DIM_BIGMUL: return mul_divisors(d->a->divisor, d->b->divisor);
    case DIM_LT:
    case DIM_EQ:
    case DIM_OVERFLOW: return 1;
    }
    return 1;
}

void dim_set_range(dim *d) {
    int_range r = computed_range(d);
    d->min = r.min;
    d->max = r.max;
    d->divisor = computed_divisor(d);
    if (d->divisor == 0 && !dim_is(d, 0)) d->divisor = 1;
}

// ---- The prover: an atom with a known relation to its operands is replaced by an operand, which
// can only lower the sum, and the interval of the result tried.

static dim *without_term(dim *d, int i) {
    dim_term terms[DIM_MAX_TERMS];
    int n = 0;
    for (int k = 0; k < d->nterms; k++)
        if (k != i) terms[n++] = d->terms[k];
    return dim_from_terms(d->table, terms, n);
}

static int64_t best(int64_t bound, dim *d, int depth) { return int_max(bound, dim_low(d, depth - 1)); }

// The bound of `rest` + coef * q where q = floor(x / c): c times the sum is bounded instead.
static int64_t low_of_quotient(dim *rest, int64_t coef, const dim *q, int depth) {
    int64_t c = q->b->value;
    dim *scaled = dim_mulk(rest, c);
    dim *x = coef < 0 ? q->a : dim_addk(q->a, 1 - c); // x - (c - 1) <= c * q <= x
    dim *sum = dim_add(scaled, dim_mulk(x, coef));
    if (sum->kind == DIM_OVERFLOW) return INT64_MIN;
    int64_t low = dim_low(sum, depth - 1);
    return is_infinite(low) ? INT64_MIN : -floor_div(-low, c);
}

static int64_t low_of_term(dim *d, int i, int depth) {
    const dim_term *t = &d->terms[i];
    if (t->natoms != 1) return INT64_MIN;
    dim *atom = t->atoms[0];
    int64_t bound = INT64_MIN;
    bool both = (atom->kind == DIM_MIN && t->coef < 0) || (atom->kind == DIM_MAX && t->coef > 0);
    bool quotient = atom->kind == DIM_FLOORDIV && dim_is_const(atom->b) && atom->b->value > 0;
    bool remainder = atom->kind == DIM_MOD && t->coef < 0 && atom->a->min >= 0 && atom->b->min >= 0;
    if (!both && !quotient && !remainder) return bound;
    dim *rest = without_term(d, i);
    if (quotient) return low_of_quotient(rest, t->coef, atom, depth);
    bound = best(bound, dim_add(rest, dim_mulk(atom->a, t->coef)), depth);
    if (both) bound = best(bound, dim_add(rest, dim_mulk(atom->b, t->coef)), depth);
    return bound;
}

int64_t dim_low(dim *d, int depth) {
    int64_t bound = d->kind == DIM_OVERFLOW ? INT64_MIN : d->min;
    if (d->kind != DIM_POLY || depth <= 0 || d->nterms > 8) return bound;
    for (int i = 0; i < d->nterms; i++) bound = int_max(bound, low_of_term(d, i, depth));
    return bound;
}

// ---- Bounds of symbols

// c * atom + rest >= lo
static void require_term(dim *d, int64_t lo) {
    int64_t rest = 0, need;
    const dim_term *term = NULL;
    for (int i = 0; i < d->nterms; i++) {
        if (d->terms[i].natoms == 0) rest = d->terms[i].coef;
        else if (term) return;
        else term = &d->terms[i];
    }
    if (!term || term->natoms != 1 || term->coef < 1 || __builtin_sub_overflow(lo, rest, &need)) return;
    dim_require(term->atoms[0], -floor_div(-need, term->coef));
}

// Of an opaque only the sign is required: messages about larger windows name the nodes that have them.
void dim_require(dim *d, int64_t lo) {
    int64_t scaled;
    if (d->min >= lo || is_infinite(lo)) return;
    if (d->kind == DIM_SYMBOL) dim_bound(d, lo, INT64_MAX, 1);
    if (d->kind == DIM_OPAQUE && lo >= 0) dim_bound(d, 0, INT64_MAX, 1);
    if (d->kind == DIM_POLY) require_term(d, lo);
    if (d->kind == DIM_MIN) {
        dim_require(d->a, lo);
        dim_require(d->b, lo);
    }
    if (d->kind != DIM_FLOORDIV || !dim_is_const(d->b) || d->b->value < 1) return;
    if (!__builtin_mul_overflow(lo, d->b->value, &scaled)) dim_require(d->a, scaled);
}
