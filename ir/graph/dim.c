// The table of dims: interning, symbols, polynomials in canonical form, ranges. In: arithmetic on dims. Out:
// the one dim that equals the result (ir/graph/dim_ops.c has division, minimum, comparison and the rest).
#include "ir/graph/dim_impl.h"
#include <stdlib.h>
#include <string.h>

// ---- Interning.

dims *dims_new(arena *a) {
    dims *t = ARENA_NEW(a, dims);
    t->arena = a;
    t->interned.arena = t->symbols.arena = t->opaques.arena = t->stems.arena = a;
    t->overflow = dim_intern(t, &(dim){.kind = DIM_OVERFLOW, .divisor = 1});
    return t;
}

static uint64_t hash_id(uint64_t h, const dim *d) {
    int id = d ? d->id : -1;
    return hash_bytes(h, &id, sizeof id);
}

static uint64_t hash_dim(const dim *d) {
    uint64_t h = hash_bytes(HASH_SEED, &d->kind, sizeof d->kind);
    h = hash_bytes(h, &d->value, sizeof d->value);
    if (d->name) h = hash_string(h, d->name);
    for (int i = 0; i < d->nterms; i++) {
        h = hash_bytes(h, &d->terms[i].coef, sizeof d->terms[i].coef);
        for (int k = 0; k < d->terms[i].natoms; k++) h = hash_id(h, d->terms[i].atoms[k]);
    }
    h = hash_id(hash_id(hash_id(h, d->a), d->b), d->c);
    return h ^ h >> 31;
}

// Higher degree first, then atoms by id; the constant term is the last.
static int compare_terms(const dim_term *a, const dim_term *b) {
    if (a->natoms != b->natoms) return a->natoms > b->natoms ? -1 : 1;
    for (int i = 0; i < a->natoms; i++)
        if (a->atoms[i] != b->atoms[i]) return a->atoms[i]->id < b->atoms[i]->id ? -1 : 1;
    return 0;
}

static bool same_terms(const dim *a, const dim *b) {
    if (a->nterms != b->nterms) return false;
    for (int i = 0; i < a->nterms; i++)
        if (a->terms[i].coef != b->terms[i].coef || compare_terms(&a->terms[i], &b->terms[i])) return false;
    return true;
}

static bool same_dim(const dim *a, const dim *b) {
    if (a->kind != b->kind || a->value != b->value || a->a != b->a || a->b != b->b || a->c != b->c)
        return false;
    if (!a->name != !b->name || (a->name && strcmp(a->name, b->name))) return false;
    return same_terms(a, b);
}

static dim_term *copy_terms(arena *a, const dim_term *terms, int n) {
    dim_term *copy = ARENA_ARRAY(a, dim_term, n);
    for (int i = 0; i < n; i++) {
        copy[i] = terms[i];
        copy[i].atoms = ARENA_ARRAY(a, dim *, terms[i].natoms);
        if (terms[i].natoms) memcpy(copy[i].atoms, terms[i].atoms, (size_t)terms[i].natoms * sizeof(dim *));
    }
    return copy;
}

dim *dim_intern(dims *t, const dim *d) {
    uint64_t h = hash_dim(d);
    dim *first = map_get_number(&t->interned, h);
    for (dim *x = first; x; x = x->next)
        if (same_dim(x, d)) return x;
    dim *made = ARENA_NEW(t->arena, dim);
    *made = *d;
    made->id = t->all.n;
    made->table = t;
    made->next = first;
    made->terms = copy_terms(t->arena, d->terms, d->nterms);
    VEC_PUSH(t->arena, &t->all, made);
    map_put_number(&t->interned, h, made);
    dim_set_range(made);
    return made;
}

dim *dim_const(dims *t, int64_t value) { return dim_intern(t, &(dim){.kind = DIM_CONST, .value = value}); }

dim *dim_symbol(dims *t, const char *name) {
    dim *d = map_get(&t->symbols, name);
    if (d) return d;
    dim fresh = {.kind = DIM_SYMBOL, .name = arena_strdup(t->arena, name), .max = INT64_MAX, .divisor = 1};
    d = dim_intern(t, &fresh);
    map_put(&t->symbols, name, d);
    return d;
}

dim *dim_opaque_named(dims *t, const char *name) {
    dim *d = map_get(&t->opaques, name);
    if (d) return d;
    dim fresh = {.kind = DIM_OPAQUE, .name = arena_strdup(t->arena, name), .divisor = 1};
    fresh.min = INT64_MIN, fresh.max = INT64_MAX;
    d = dim_intern(t, &fresh);
    map_put(&t->opaques, name, d);
    return d;
}

dim *dim_opaque(dims *t, const char *stem, int64_t lo, int64_t hi) {
    const char *name = arena_printf(t->arena, "?%s", stem);
    intptr_t n = (intptr_t)map_get(&t->stems, stem);
    while (map_get(&t->opaques, name) || map_get(&t->symbols, name))
        name = arena_printf(t->arena, "?%s.%d", stem, (int)++n);
    map_put(&t->stems, stem, (void *)n);
    dim *d = dim_opaque_named(t, name);
    dim_bound(d, lo, hi, 1);
    return d;
}

void dim_bound(dim *symbol, int64_t lo, int64_t hi, int64_t divisor) {
    if (lo > symbol->min && lo <= symbol->max) symbol->min = lo;
    if (hi < symbol->max && hi >= symbol->min) symbol->max = hi;
    int64_t both = divisor > 1 ? divisor / gcd64(symbol->divisor, divisor) : 1, lcm;
    if (!__builtin_mul_overflow(both, symbol->divisor, &lcm)) symbol->divisor = lcm;
    dims *t = symbol->table;
    for (int i = symbol->id + 1; i < t->all.n; i++) dim_set_range(t->all.at[i]);
}

// ---- Terms

static int order_terms(const void *a, const void *b) { return compare_terms(a, b); }

void dim_view_of(dim_view *v, dim *d) {
    if (d->kind == DIM_POLY) {
        v->terms = d->terms;
        v->n = d->nterms;
        return;
    }
    v->atom = d;
    v->one = d->kind == DIM_CONST ? (dim_term){d->value, 0, NULL} : (dim_term){1, 1, &v->atom};
    v->terms = &v->one;
    v->n = d->kind != DIM_CONST || d->value != 0;
}

bool dim_term_divide(const dim_term *a, const dim_term *b, dim_term *quotient, dim **atoms) {
    if (a->natoms < b->natoms || a->coef % b->coef || (a->coef == INT64_MIN && b->coef == -1)) return false;
    *quotient = (dim_term){a->coef / b->coef, 0, atoms};
    int k = 0;
    for (int i = 0; i < a->natoms; i++) {
        if (k < b->natoms && a->atoms[i] == b->atoms[k]) k++;
        else if (quotient->natoms < DIM_MAX_ATOMS) atoms[quotient->natoms++] = a->atoms[i];
        else return false;
    }
    return k == b->natoms;
}

// Adds up equal monomials of sorted terms; false on overflow.
static bool merge_terms(dim_term *terms, int *n) {
    int kept = 0;
    for (int i = 0; i < *n; i++) {
        if (kept && !compare_terms(&terms[kept - 1], &terms[i])) {
            if (__builtin_add_overflow(terms[kept - 1].coef, terms[i].coef, &terms[kept - 1].coef))
                return false;
        } else {
            if (kept && !terms[kept - 1].coef) kept--;
            terms[kept++] = terms[i];
        }
    }
    if (kept && !terms[kept - 1].coef) kept--;
    *n = kept;
    return true;
}

dim *dim_from_terms(dims *t, dim_term *terms, int n) {
    qsort(terms, (size_t)n, sizeof *terms, order_terms);
    if (!merge_terms(terms, &n)) return t->overflow;
    if (n > DIM_MAX_TERMS) return NULL;
    if (n == 0) return dim_const(t, 0);
    if (n == 1 && terms[0].natoms == 0) return dim_const(t, terms[0].coef);
    if (n == 1 && terms[0].natoms == 1 && terms[0].coef == 1) return terms[0].atoms[0];
    return dim_intern(t, &(dim){.kind = DIM_POLY, .nterms = n, .terms = terms});
}

// ---- Sums and products.

static dim *unexpanded(dim_kind kind, dim *a, dim *b) {
    bool swap = a->id > b->id;
    return dim_intern(a->table, &(dim){.kind = kind, .a = swap ? b : a, .b = swap ? a : b});
}

dim *dim_add(dim *a, dim *b) {
    dims *t = a->table;
    if (overflows(a, b)) return t->overflow;
    dim_term terms[2 * DIM_MAX_TERMS];
    dim_view x, y;
    dim_view_of(&x, a);
    dim_view_of(&y, b);
    memcpy(terms, x.terms, (size_t)x.n * sizeof *terms);
    memcpy(terms + x.n, y.terms, (size_t)y.n * sizeof *terms);
    dim *sum = dim_from_terms(t, terms, x.n + y.n);
    return sum ? sum : unexpanded(DIM_BIGSUM, a, b);
}

// x * y with atoms merged in order; false when a limit is exceeded; *overflow: the coefficient is.
static bool multiply_terms(dim_term *out, dim **atoms, const dim_term *x, const dim_term *y, bool *overflow) {
    if (x->natoms + y->natoms > DIM_MAX_ATOMS) return false;
    *out = (dim_term){0, 0, atoms};
    if (__builtin_mul_overflow(x->coef, y->coef, &out->coef)) *overflow = true;
    int i = 0, k = 0;
    while (i < x->natoms || k < y->natoms) {
        bool first = k == y->natoms || (i < x->natoms && x->atoms[i]->id <= y->atoms[k]->id);
        atoms[out->natoms++] = first ? x->atoms[i++] : y->atoms[k++];
    }
    return true;
}

dim *dim_mul(dim *a, dim *b) {
    dims *t = a->table;
    if (overflows(a, b)) return t->overflow;
    dim_view x, y;
    dim_view_of(&x, a);
    dim_view_of(&y, b);
    enum { MOST = 8 * DIM_MAX_TERMS }; // before equal monomials are merged
    if (x.n * y.n > MOST) return unexpanded(DIM_BIGMUL, a, b);
    dim_term terms[MOST];
    dim *atoms[MOST][DIM_MAX_ATOMS];
    bool overflow = false;
    for (int i = 0, n = 0; i < x.n; i++)
        for (int k = 0; k < y.n; k++, n++)
            if (!multiply_terms(&terms[n], atoms[n], &x.terms[i], &y.terms[k], &overflow))
                return unexpanded(DIM_BIGMUL, a, b);
    if (overflow) return t->overflow;
    dim *product = dim_from_terms(t, terms, x.n * y.n);
    return product ? product : unexpanded(DIM_BIGMUL, a, b);
}

dim *dim_neg(dim *a) { return dim_mulk(a, -1); }
dim *dim_sub(dim *a, dim *b) { return a == b ? dim_mulk(a, 0) : dim_add(a, dim_neg(b)); }
dim *dim_addk(dim *a, int64_t k) { return k ? dim_add(a, dim_const(a->table, k)) : a; }
dim *dim_mulk(dim *a, int64_t k) { return k == 1 ? a : dim_mul(a, dim_const(a->table, k)); }

dim *dim_product(dims *t, dim *const *d, int n) {
    dim *product = dim_const(t, 1);
    // A size of zero makes the product zero, however large the other sizes are.
    for (int i = 0; i < n; i++)
        if (dim_is(d[i], 0)) product = d[i];
    for (int i = 0; i < n; i++) product = dim_mul(product, d[i]);
    return product;
}

// ---- Questions about one dim.

bool dim_is_const(const dim *d) { return d->kind == DIM_CONST; }
bool dim_is(const dim *d, int64_t value) { return d->kind == DIM_CONST && d->value == value; }
int64_t dim_value(const dim *d) { return d->value; }
bool dim_nonzero(const dim *d) { return d->min > 0 || d->max < 0; }

bool dim_divisible(const dim *d, int64_t by) {
    if (by == 0) return dim_is(d, 0);
    if (by == 1 || by == -1) return d->kind != DIM_OVERFLOW;
    return by != INT64_MIN && d->divisor % by == 0;
}
