// Ranges of dims: interval arithmetic with INT64_MIN and INT64_MAX as infinities, common divisors, and a
// small prover of lower bounds. In: dims. Out: min, max, divisor.
#include "ir/graph/dim_impl.h"

int64_t floor_div(int64_t a, int64_t b) {
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

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

typedef struct range {
    int64_t min, max;
} range;

static bool infinite(int64_t v) { return v == INT64_MIN || v == INT64_MAX; }

static int64_t clamp(__int128 v) {
    return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

static range add_ranges(range a, range b) {
    return (range){
        a.min == INT64_MIN || b.min == INT64_MIN ? INT64_MIN : clamp((__int128)a.min + b.min),
        a.max == INT64_MAX || b.max == INT64_MAX ? INT64_MAX : clamp((__int128)a.max + b.max),
    };
}

static int64_t mul_ends(int64_t a, int64_t b) {
    if (a == 0 || b == 0) return 0;
    if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return clamp((__int128)a * b);
}

static void widen(range *r, int64_t v) {
    if (v < r->min) r->min = v;
    if (v > r->max) r->max = v;
}

static range mul_ranges(range a, range b) {
    int64_t first = mul_ends(a.min, b.min);
    range r = {first, first};
    widen(&r, mul_ends(a.min, b.max));
    widen(&r, mul_ends(a.max, b.min));
    widen(&r, mul_ends(a.max, b.max));
    return r;
}

static range range_of(const dim *d) { return (range){d->min, d->max}; }

static range term_range(const dim_term *t) {
    range r = {t->coef, t->coef};
    for (int i = 0; i < t->natoms; i++) {
        range x = range_of(t->atoms[i]);
        // A square is not negative.
        if (i + 1 < t->natoms && t->atoms[i + 1] == t->atoms[i]) {
            x = mul_ranges(x, x);
            if (x.min < 0) x.min = 0;
            i++;
        }
        r = mul_ranges(r, x);
    }
    return r;
}

static range poly_range(const dim *d) {
    range r = {0, 0};
    for (int i = 0; i < d->nterms; i++) r = add_ranges(r, term_range(&d->terms[i]));
    return r;
}

static int64_t div_ends(int64_t a, int64_t b) {
    if (infinite(b)) return (a < 0) == (b < 0) || a == 0 ? 0 : -1;
    if (infinite(a)) return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return floor_div(a, b);
}

// The quotient is monotonic in each operand while b keeps its sign; b = 0 never counts.
static range floordiv_range(range a, range b) {
    int64_t ends[4] = {b.min, b.max, 1, -1};
    range r = {INT64_MAX, INT64_MIN};
    for (int i = 0; i < 4; i++) {
        if (ends[i] == 0 || ends[i] < b.min || ends[i] > b.max) continue;
        widen(&r, div_ends(a.min, ends[i]));
        widen(&r, div_ends(a.max, ends[i]));
    }
    return r.min > r.max ? (range){INT64_MIN, INT64_MAX} : r;
}

static range mod_range(range a, range b) {
    range r = {b.min < 0 ? (b.min == INT64_MIN ? b.min : b.min + 1) : 0,
               b.max > 0 ? (b.max == INT64_MAX ? b.max : b.max - 1) : 0};
    if (b.min >= 0 && a.min >= 0 && a.max < r.max) r.max = a.max;
    return r;
}

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

static range lt_range(range a, range b) { return (range){a.max < b.min, a.min < b.max}; }

static range eq_range(range a, range b) {
    return (range){a.min == a.max && b.min == b.max && a.min == b.min && !infinite(a.min),
                   a.min <= b.max && b.min <= a.max};
}

static range computed_range(const dim *d) {
    range a = d->a ? range_of(d->a) : (range){0}, b = d->b ? range_of(d->b) : (range){0};
    switch (d->kind) {
    case DIM_CONST: return (range){d->value, d->value};
    case DIM_SYMBOL:
    case DIM_OPAQUE: return range_of(d);
    case DIM_POLY: return poly_range(d);
    case DIM_FLOORDIV: return floordiv_range(a, b);
    case DIM_MOD: return mod_range(a, b);
    case DIM_MIN: return (range){lesser(a.min, b.min), lesser(a.max, b.max)};
    case DIM_MAX: return (range){greater(a.min, b.min), greater(a.max, b.max)};
    case DIM_LT: return lt_range(a, b);
    case DIM_EQ: return eq_range(a, b);
    case DIM_SELECT: return (range){lesser(a.min, b.min), greater(a.max, b.max)};
    case DIM_OVERFLOW: return (range){INT64_MIN, INT64_MAX};
    case DIM_BIGSUM: return add_ranges(a, b);
    case DIM_BIGMUL: return mul_ranges(a, b);
    }
    return (range){INT64_MIN, INT64_MAX};
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
    range r = computed_range(d);
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

static int64_t best(int64_t bound, dim *d, int depth) { return greater(bound, dim_low(d, depth - 1)); }

// The bound of `rest` + coef * q where q = floor(x / c): c times the sum is bounded instead.
static int64_t low_of_quotient(dim *rest, int64_t coef, const dim *q, int depth) {
    int64_t c = q->b->value;
    dim *scaled = dim_mulk(rest, c);
    dim *x = coef < 0 ? q->a : dim_addk(q->a, 1 - c); // x - (c - 1) <= c * q <= x
    dim *sum = dim_add(scaled, dim_mulk(x, coef));
    if (sum->kind == DIM_OVERFLOW) return INT64_MIN;
    int64_t low = dim_low(sum, depth - 1);
    return infinite(low) ? INT64_MIN : -floor_div(-low, c);
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
    for (int i = 0; i < d->nterms; i++) bound = greater(bound, low_of_term(d, i, depth));
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
    if (d->min >= lo || infinite(lo)) return;
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
