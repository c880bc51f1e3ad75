// Operations on dims other than sums and products: division, remainder, minimum, comparison, selection. In:
// operands. Out: the simplest equal dim found; a divisor that may be 0 is never assumed not to be.
#include "ir/graph/dim_impl.h"

static dim *binary(dim_kind kind, dim *a, dim *b) {
    dim *d = dim_intern(a->table, &(dim){.kind = kind, .a = a, .b = b});
    bool defined = (kind != DIM_FLOORDIV && kind != DIM_MOD) || dim_nonzero(b);
    bool one_value = d->min == d->max && d->min != INT64_MIN && d->min != INT64_MAX;
    return defined && one_value ? dim_const(a->table, d->min) : d;
}

// ---- Comparisons. The difference decides; the prover sees more than its interval.

static dim *difference(const dim *a, const dim *b) { return dim_sub((dim *)a, (dim *)b); }

enum { PROOF_DEPTH = 3 };

int64_t dim_lower(dim *d) { return dim_low(d, PROOF_DEPTH); }

int64_t dim_upper(dim *d) {
    int64_t low = dim_low(dim_neg(d), PROOF_DEPTH);
    return low == INT64_MIN ? INT64_MAX : -low;
}

static bool at_least(const dim *a, const dim *b, int64_t by) {
    if (overflows(a, b)) return false;
    if (by == 0 && (dim_is(a, INT64_MAX) || dim_is(b, INT64_MIN))) return true;
    if (b->max != INT64_MAX && a->min != INT64_MIN && (__int128)a->min - b->max >= by) return true;
    return dim_low(difference(a, b), PROOF_DEPTH) >= by;
}

tri dim_less_equal(const dim *a, const dim *b) {
    if (at_least(b, a, 0)) return TRI_YES;
    return at_least(a, b, 1) ? TRI_NO : TRI_UNKNOWN;
}

tri dim_less(const dim *a, const dim *b) {
    if (at_least(b, a, 1)) return TRI_YES;
    return at_least(a, b, 0) ? TRI_NO : TRI_UNKNOWN;
}

// A constant that no sum of the other terms equals, because they are all multiples of a number that does not divide it.
static bool never_zero(const dim *d) {
    if (d->kind != DIM_POLY || d->terms[d->nterms - 1].natoms) return false;
    dim *rest =
        dim_addk((dim *)d, d->terms[d->nterms - 1].coef == INT64_MIN ? 0 : -d->terms[d->nterms - 1].coef);
    return rest->divisor > 1 && d->terms[d->nterms - 1].coef % rest->divisor != 0;
}

tri dim_equal(const dim *a, const dim *b) {
    if (overflows(a, b)) return TRI_UNKNOWN;
    if (a == b) return TRI_YES;
    if (at_least(a, b, 1) || at_least(b, a, 1)) return TRI_NO;
    dim *d = difference(a, b);
    if (dim_is(d, 0)) return TRI_YES;
    return never_zero(d) ? TRI_NO : TRI_UNKNOWN;
}

dim *dim_lt(dim *a, dim *b) {
    if (overflows(a, b)) return a->table->overflow;
    tri t = dim_less(a, b);
    return t == TRI_UNKNOWN ? binary(DIM_LT, a, b) : dim_const(a->table, t == TRI_YES);
}

dim *dim_eq(dim *a, dim *b) {
    if (overflows(a, b)) return a->table->overflow;
    tri t = dim_equal(a, b);
    if (t != TRI_UNKNOWN) return dim_const(a->table, t == TRI_YES);
    if (dim_is_const(a)) return dim_eq(b, a);
    // min(x, 64) == 1 is x == 1
    bool cut = dim_is_const(b) && (a->kind == DIM_MIN || a->kind == DIM_MAX);
    for (int j = 0; cut && j < 2; j++) {
        dim *limit = j ? a->a : a->b, *x = j ? a->b : a->a;
        if (dim_is_const(limit) && (a->kind == DIM_MIN ? b->value < limit->value : b->value > limit->value))
            return dim_eq(x, b);
    }
    return a->id > b->id ? binary(DIM_EQ, b, a) : binary(DIM_EQ, a, b);
}

// ---- Minimum and maximum.

// min(min(x, 5), 3) is min(x, 3): constants of nested operations of the same kind meet.
static dim *extreme(dim_kind kind, dim *a, dim *b, dim *(*op)(dim *, dim *)) {
    if (dim_is_const(a)) return extreme(kind, b, a, op);
    if (a->kind == kind && dim_is_const(b)) {
        if (dim_is_const(a->a)) return op(a->b, op(a->a, b));
        if (dim_is_const(a->b)) return op(a->a, op(a->b, b));
    }
    bool swap = !dim_is_const(b) && a->id > b->id;
    return swap ? binary(kind, b, a) : binary(kind, a, b);
}

dim *dim_min(dim *a, dim *b) {
    if (overflows(a, b)) return a->table->overflow;
    if (a == b || at_least(b, a, 0)) return a;
    return at_least(a, b, 0) ? b : extreme(DIM_MIN, a, b, dim_min);
}

dim *dim_max(dim *a, dim *b) {
    if (overflows(a, b)) return a->table->overflow;
    if (a == b || at_least(a, b, 0)) return a;
    return at_least(b, a, 0) ? b : extreme(DIM_MAX, a, b, dim_max);
}

// ---- Choice.

// The operand selected where x == k holds may have x replaced by k: select(x == 1, min(x, 64), x) is x.
typedef struct known_atom {
    const dim *x;
    dim *k;
} known_atom;
static dim *put_known(void *user, dim *atom) {
    const known_atom *known = user;
    return atom == known->x ? known->k : atom;
}
static dim *under_condition(dim *c, dim *a) {
    if (c->kind != DIM_EQ) return a;
    known_atom known = {c->a, c->b};
    if (dim_is_const(c->a)) known = (known_atom){c->b, c->a};
    bool atom = known.x->kind == DIM_SYMBOL || known.x->kind == DIM_OPAQUE;
    return atom && dim_is_const(known.k) ? dim_substitute(a, put_known, &known) : a;
}
static bool is_condition_value(const dim *c, const dim *a, const dim *b) {
    return c->kind == DIM_EQ && dim_is_const(a) && ((c->a == b && c->b == a) || (c->b == b && c->a == a));
}

dim *dim_select(dim *c, dim *a, dim *b) {
    if (c->kind == DIM_OVERFLOW) return c;
    if (dim_is(c, 0)) return b;
    if (a->kind == DIM_SELECT && a->c == c) a = a->a;
    if (b->kind == DIM_SELECT && b->c == c) b = b->b;
    if (dim_nonzero(c) || a == b) return a;
    dim *chosen = under_condition(c, a);
    if (is_condition_value(c, chosen, b)) return b;
    if (dim_is_const(chosen)) a = chosen;
    if (dim_is(a, 1) && dim_is(b, 0) && c->min >= 0 && c->max <= 1) return c;
    if (c->kind == DIM_LT && c->a == a && c->b == b) return dim_min(a, b);
    if (c->kind == DIM_LT && c->a == b && c->b == a) return dim_max(a, b);
    return dim_intern(c->table, &(dim){.kind = DIM_SELECT, .a = a, .b = b, .c = c});
}

// ---- Division.

// Splits a = c * q + r with r's coefficients smaller than c; the constant of r is in 0..c-1.
static void split_by_const(dim *a, int64_t c, dim **q, dim **r) {
    dim_term quotient[DIM_MAX_TERMS], rest[DIM_MAX_TERMS];
    int nq = 0, nr = 0;
    dim_view v;
    dim_view_of(&v, a);
    for (int i = 0; i < v.n; i++) {
        int64_t coef = v.terms[i].coef, whole = v.terms[i].natoms ? coef / c : floor_div(coef, c);
        quotient[nq] = rest[nr] = v.terms[i];
        quotient[nq].coef = whole;
        rest[nr].coef = coef - whole * c;
        if (whole) nq++;
        if (rest[nr].coef) nr++;
    }
    *q = dim_from_terms(a->table, quotient, nq);
    *r = dim_from_terms(a->table, rest, nr);
}

static int64_t constant_term(dim *a) {
    dim_view v;
    dim_view_of(&v, a);
    return v.n && !v.terms[v.n - 1].natoms ? v.terms[v.n - 1].coef : 0;
}

// The largest number that divides c and all coefficients but the constant one.
static int64_t common_factor(dim *a, int64_t c) {
    dim_view v;
    dim_view_of(&v, a);
    for (int i = 0; i < v.n; i++)
        if (v.terms[i].natoms) c = gcd64(c, v.terms[i].coef);
    return c;
}

// floordiv(r, c) for the remainder r of split_by_const.
static dim *divide_rest(dim *r, int64_t c) {
    dims *t = r->table;
    if (r->min != INT64_MIN && r->max != INT64_MAX && floor_div(r->min, c) == floor_div(r->max, c))
        return dim_const(t, floor_div(r->min, c));
    // floor((g*x + k) / (g*c)) = floor((x + floor(k/g)) / c)
    int64_t g = common_factor(r, c), k = constant_term(r);
    if (g > 1) {
        dim *q, *zero;
        split_by_const(dim_addk(r, -k), g, &q, &zero);
        return dim_floordiv(dim_addk(q, k / g), dim_const(t, c / g));
    }
    // floor((floor(x / d) + k) / c) = floor((x + k*d) / (c*d))
    dim *inner = k ? dim_addk(r, -k) : r;
    int64_t d, all, shift;
    if (inner->kind == DIM_FLOORDIV && dim_is_const(inner->b) && (d = inner->b->value) > 0 &&
        !__builtin_mul_overflow(c, d, &all) && !__builtin_mul_overflow(k, d, &shift)) {
        dim *x = dim_addk(inner->a, shift);
        if (x->kind != DIM_OVERFLOW) return dim_floordiv(x, dim_const(t, all));
    }
    return binary(DIM_FLOORDIV, r, dim_const(t, c));
}

static dim *floordiv_const(dim *a, int64_t c) {
    dims *t = a->table;
    if (c == 1) return a;
    if (dim_is_const(a)) {
        if (a->value == INT64_MIN && c == -1) return t->overflow;
        return dim_const(t, floor_div(a->value, c));
    }
    if (c < 0) {
        dim *negated = c == INT64_MIN ? t->overflow : dim_neg(a);
        if (negated->kind == DIM_OVERFLOW) return binary(DIM_FLOORDIV, a, dim_const(t, c));
        return floordiv_const(negated, -c);
    }
    dim *q, *r;
    split_by_const(a, c, &q, &r);
    return dim_add(q, divide_rest(r, c));
}

// Long division by b's leading term, as far as possible: a = q * b + r. Terms that the leading term does not
// divide remain in r.
static void divide_poly(dim *a, dim *b, dim **q, dim **r) {
    dims *t = a->table;
    dim_view divisor, v;
    dim_view_of(&divisor, b);
    *q = dim_const(t, 0);
    *r = a;
    for (int step = 0; step < DIM_MAX_TERMS; step++) {
        dim_view_of(&v, *r);
        dim *atoms[DIM_MAX_ATOMS], *next = NULL, *part = NULL;
        for (int i = 0; i < v.n && !next; i++) {
            dim_term one;
            if (!dim_term_divide(&v.terms[i], &divisor.terms[0], &one, atoms)) continue;
            part = dim_from_terms(t, &one, 1);
            next = dim_sub(*r, dim_mul(part, b));
            dim_view after;
            dim_view_of(&after, next);
            // With several terms in b only a step that shortens r is one toward an exact quotient.
            if (next->kind == DIM_OVERFLOW || next->kind == DIM_BIGSUM || after.n > v.n) next = NULL;
        }
        if (!next) break;
        *q = dim_add(*q, part);
        *r = next;
        if (dim_is(next, 0)) break;
    }
}

// a = q * b + r; for a b of several terms only an exact or nearly exact quotient makes it simpler.
static void divide(dim *a, dim *b, dim **q, dim **r) {
    divide_poly(a, b, q, r);
    if (b->kind != DIM_POLY || b->nterms == 1 || dim_is_const(*r)) return;
    *q = dim_const(a->table, 0);
    *r = a;
}

// Divides all terms of a and b by a common factor that is known not to be 0.
static bool cancel(dim **a, dim **b) {
    dim_view x, y;
    dim_view_of(&x, *a);
    dim_view_of(&y, *b);
    int64_t coef = 0;
    for (int i = 0; i < x.n; i++) coef = gcd64(coef, x.terms[i].coef);
    for (int i = 0; i < y.n; i++) coef = gcd64(coef, y.terms[i].coef);
    dim *factor = dim_const((*a)->table, coef > 1 ? coef : 1);
    for (int k = 0; x.n && k < y.terms[0].natoms && dim_is(factor, 1); k++)
        if (y.terms[0].atoms[k]->min > 0) {
            dim_term one = {1, 1, &y.terms[0].atoms[k]}, unused;
            dim *atoms[DIM_MAX_ATOMS];
            bool all = true;
            for (int i = 0; i < x.n; i++) all = all && dim_term_divide(&x.terms[i], &one, &unused, atoms);
            for (int i = 0; i < y.n; i++) all = all && dim_term_divide(&y.terms[i], &one, &unused, atoms);
            if (all) factor = one.atoms[0];
        }
    if (dim_is(factor, 1)) return false;
    dim *ra, *rb;
    divide_poly(*a, factor, a, &ra);
    divide_poly(*b, factor, b, &rb);
    return true;
}

dim *dim_floordiv(dim *a, dim *b) {
    dims *t = a->table;
    if (overflows(a, b)) return t->overflow;
    if (dim_is(b, 0)) return binary(DIM_FLOORDIV, a, b);
    if (dim_is_const(b)) return floordiv_const(a, b->value);
    if (dim_is(a, 0) && dim_nonzero(b)) return a;
    if (!dim_is(a, 0) && cancel(&a, &b)) return dim_floordiv(a, b);
    if (!dim_nonzero(b)) return binary(DIM_FLOORDIV, a, b);
    dim *q, *r;
    divide(a, b, &q, &r);
    if (dim_is(r, 0)) return q;
    if (b->min > 0 && dim_low(r, PROOF_DEPTH) >= 0 && at_least(b, r, 1)) return q;
    return dim_is(q, 0) ? binary(DIM_FLOORDIV, a, b) : dim_add(q, binary(DIM_FLOORDIV, r, b));
}

dim *dim_quotient(dim *a, dim *b) {
    if (overflows(a, b) || dim_is(b, 0)) return NULL;
    dim *q, *r;
    divide_poly(a, b, &q, &r);
    return dim_is(r, 0) ? q : NULL;
}

dim *dim_ceildiv(dim *a, dim *b) {
    // floor((a + b - 1) / b) has the better range; it needs b > 0 (b = 0 has no value either way).
    if (b->min >= 0 && b->kind != DIM_OVERFLOW) {
        dim *sum = dim_addk(dim_add(a, b), -1);
        if (sum->kind != DIM_OVERFLOW || a->kind == DIM_OVERFLOW) return dim_floordiv(sum, b);
    }
    return dim_neg(dim_floordiv(dim_neg(a), b));
}

// b is not negative.
static dim *truncdiv_by_positive(dim *a, dim *b) {
    dim *zero = dim_const(a->table, 0);
    return dim_select(dim_lt(a, zero), dim_neg(dim_floordiv(dim_neg(a), b)), dim_floordiv(a, b));
}

dim *dim_truncdiv(dim *a, dim *b) {
    dims *t = a->table;
    if (overflows(a, b)) return t->overflow;
    if (b->min >= 0) return truncdiv_by_positive(a, b);
    if (b->max < 0) return truncdiv_by_positive(dim_neg(a), dim_neg(b));
    dim *zero = dim_const(t, 0), *up = dim_max(b, zero), *down = dim_max(dim_neg(b), zero);
    return dim_select(dim_lt(b, zero), truncdiv_by_positive(dim_neg(a), down), truncdiv_by_positive(a, up));
}

// ---- Remainder.

// Drops terms that are multiples of c for all values of their atoms.
static dim *reduce_terms(dim *a, int64_t c) {
    dim_term terms[DIM_MAX_TERMS];
    dim_view v;
    dim_view_of(&v, a);
    int n = 0;
    for (int i = 0; i < v.n; i++) {
        dim *one =
            dim_from_terms(a->table, &(dim_term){v.terms[i].coef, v.terms[i].natoms, v.terms[i].atoms}, 1);
        if (!dim_divisible(one, c)) terms[n++] = v.terms[i];
    }
    dim *q, *r;
    split_by_const(dim_from_terms(a->table, terms, n), c, &q, &r);
    return r;
}

static dim *mod_const(dim *a, int64_t c) {
    dims *t = a->table;
    if (c == 1 || c == -1) return dim_const(t, 0);
    if (dim_is_const(a)) {
        int64_t rest = a->value % c;
        return dim_const(t, rest && (rest < 0) != (c < 0) ? rest + c : rest);
    }
    if (c < 0) return binary(DIM_MOD, a, dim_const(t, c));
    dim *r = reduce_terms(a, c);
    if (dim_is_const(r)) return mod_const(r, c);
    if (r->min >= 0 && r->max < c) return r;
    // mod(g*x + k, g*c) = g * mod(x + k/g, c) when g divides k too
    int64_t g = common_factor(r, c);
    if (g > 1 && constant_term(r) % g == 0) {
        dim *q, *zero;
        split_by_const(r, g, &q, &zero);
        return dim_mulk(mod_const(q, c / g), g);
    }
    if (r->kind == DIM_MOD && dim_is_const(r->b) && r->b->value > 0 && r->b->value % c == 0)
        return mod_const(r->a, c);
    return binary(DIM_MOD, r, dim_const(t, c));
}

dim *dim_mod(dim *a, dim *b) {
    if (overflows(a, b)) return a->table->overflow;
    if (dim_is(b, 0)) return binary(DIM_MOD, a, b);
    if (dim_is_const(b)) return mod_const(a, b->value);
    if (!dim_nonzero(b)) return binary(DIM_MOD, a, b);
    dim *q, *r;
    divide(a, b, &q, &r);
    if (dim_is(r, 0)) return r;
    if (b->min > 0 && dim_low(r, PROOF_DEPTH) >= 0 && at_least(b, r, 1)) return r;
    return binary(DIM_MOD, r, b);
}
