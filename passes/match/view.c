// Index arithmetic through reshapes: see view.h.
#include "passes/match/view.h"
#include "ir/kernel/program.h"
#include "passes/match/form.h"

// An index as base + sum of coef * x, where no x is a sum.
enum { MOST_TERMS = 24 };
typedef struct linear {
    int n;
    struct {
        expr *x;
        dim *coef;
    } term[MOST_TERMS];
    dim *base;
    bool whole; // false: too many terms
} linear;

static void add_term(linear *l, expr *x, dim *coef) {
    for (int j = 0; j < l->n; j++) {
        if (l->term[j].x != x) continue;
        l->term[j].coef = dim_add(l->term[j].coef, coef);
        return;
    }
    if (l->n == MOST_TERMS) l->whole = false;
    else l->term[l->n].x = x, l->term[l->n++].coef = coef;
}

static void flatten(kernel *k, expr *e, dim *coef, linear *l, int depth) {
    dim *d = expr_known_dim(k, e);
    if (d) {
        l->base = dim_add(l->base, dim_mul(coef, d));
    } else if (e->op == X_ADD && depth < MOST_TERMS) {
        flatten(k, e->arg[0], coef, l, depth + 1);
        flatten(k, e->arg[1], coef, l, depth + 1);
    } else if (e->op == X_SUB && depth < MOST_TERMS) {
        flatten(k, e->arg[0], coef, l, depth + 1);
        flatten(k, e->arg[1], dim_neg(coef), l, depth + 1);
    } else if (e->op == X_MUL && depth < MOST_TERMS && (d = expr_known_dim(k, e->arg[1]))) {
        flatten(k, e->arg[0], dim_mul(coef, d), l, depth + 1);
    } else if (e->op == X_MUL && depth < MOST_TERMS && (d = expr_known_dim(k, e->arg[0]))) {
        flatten(k, e->arg[1], dim_mul(coef, d), l, depth + 1);
    } else {
        add_term(l, e, coef);
    }
}

// c * q * floordiv(x, q) + c * mod(x, q) is c * x.
static bool join_division(kernel *k, linear *l) {
    for (int i = 0; i < l->n; i++) {
        expr *f = l->term[i].x;
        if (f->op != X_FLOORDIV) continue;
        dim *q = expr_known_dim(k, f->arg[1]);
        for (int j = 0; q && j < l->n; j++) {
            expr *m = l->term[j].x;
            if (m->op != X_MOD || m->arg[0] != f->arg[0] || m->arg[1] != f->arg[1]) continue;
            dim *c = l->term[j].coef;
            if (dim_equal(dim_mul(c, q), l->term[i].coef) != TRI_YES) continue;
            expr *x = f->arg[0];
            int high = i > j ? i : j, low = i > j ? j : i;
            l->term[high] = l->term[--l->n];
            l->term[low] = l->term[--l->n];
            flatten(k, x, c, l, 0);
            return true;
        }
    }
    return false;
}

static linear linear_of(kernel *k, expr *e) {
    dims *t = k->program->dims;
    linear l = {.base = dim_const(t, 0), .whole = true};
    flatten(k, e, dim_const(t, 1), &l, 0);
    while (l.whole && join_division(k, &l)) {
    }
    return l;
}

static expr *expr_of(kernel *k, const linear *l) {
    expr *sum = NULL;
    for (int j = 0; j < l->n; j++) {
        if (dim_is(l->term[j].coef, 0)) continue;
        expr *x = x_mul(k, l->term[j].x, x_dim(k, l->term[j].coef));
        sum = sum ? x_add(k, sum, x) : x;
    }
    expr *base = x_dim(k, l->base);
    return sum ? x_add(k, sum, base) : base;
}

static bool has_division(const expr *e, int depth) {
    if (depth > MOST_TERMS) return true;
    if (e->op == X_FLOORDIV || e->op == X_MOD) return true;
    for (int j = 0; j < expr_arity(e->op); j++)
        if (has_division(e->arg[j], depth + 1)) return true;
    return false;
}

expr *join_divisions(kernel *k, expr *e) {
    if (!has_division(e, 0)) return e;
    linear l = linear_of(k, e);
    return l.whole ? expr_of(k, &l) : e;
}

// The largest value of a non-negative x; NULL: unknown.
static dim *most_of(kernel *k, const expr *x) {
    if (x->op == X_AXIS) return dim_addk(k->axes.at[x->axis].extent, -1);
    dim *d = x->op == X_MOD || x->op == X_FLOORDIV ? expr_known_dim(k, x->arg[1]) : NULL;
    if (!d || d->min < 0) return NULL;
    if (x->op == X_MOD) return dim_addk(d, -1);
    dim *most = most_of(k, x->arg[0]);
    return most && d->min > 0 ? dim_floordiv(most, d) : NULL;
}

// coef / d if the division is exact, else NULL.
static dim *exact_quotient(dim *coef, dim *d) {
    if (coef == d) return dim_const(d->table, 1);
    if (dim_is_const(coef) && dim_is_const(d))
        return dim_value(d) && dim_value(coef) % dim_value(d) == 0
                   ? dim_const(d->table, dim_value(coef) / dim_value(d))
                   : NULL;
    if (dim_is(d, 0)) return NULL;
    dim *q = dim_floordiv(coef, d);
    return dim_equal(dim_mul(q, d), coef) == TRI_YES ? q : NULL;
}

// e = quotient * d + rest with 0 <= rest < d, for e >= 0. d is the extent of an axis with iterations, so it
// is not 0.
static void divide(kernel *k, expr *e, dim *d, expr **quotient, expr **rest) {
    linear l = linear_of(k, e), q = {.base = dim_const(d->table, 0)}, r = q;
    dim *most = r.base, *c;
    bool known = l.whole;
    for (int j = 0; j < l.n && known; j++) {
        if ((c = exact_quotient(l.term[j].coef, d))) {
            q.term[q.n].x = l.term[j].x, q.term[q.n++].coef = c;
            continue;
        }
        r.term[r.n++].x = l.term[j].x, r.term[r.n - 1].coef = l.term[j].coef;
        dim *m = most_of(k, l.term[j].x);
        known = m && l.term[j].coef->min >= 0;
        if (known) most = dim_add(most, dim_mul(m, l.term[j].coef));
    }
    if (known && (c = exact_quotient(l.base, d))) q.base = c;
    else r.base = l.base;
    known = known && r.base->min >= 0 && dim_less(dim_add(most, r.base), d) == TRI_YES;
    expr *by = x_dim(k, d);
    e = l.whole ? expr_of(k, &l) : e;
    *quotient = known ? expr_of(k, &q) : x_bin(k, X_FLOORDIV, e, by);
    *rest = known ? expr_of(k, &r) : x_bin(k, X_MOD, e, by);
}

// ---------------------------------------------------------------- reshapes
static dim *range_product(const buffer *b, const int *at, int from, int to) {
    dim *n = dim_const(b->dims[-1]->table, 1);
    for (int j = from; j < to; j++) n = dim_mul(n, b->dims[at[j]]);
    return n;
}

static int wide_axes(const buffer *b, int *at) {
    int n = 0;
    for (int j = 0; j < b->rank; j++)
        if (!dim_is(b->dims[j], 1)) at[n++] = j;
    return n;
}

typedef struct reshape {
    kernel *k;
    const buffer *from, *to;
    int a[MAX_RANK], na, b[MAX_RANK], nb; // axes with more than one element
    expr *const *index;
    expr **out;
} reshape;

// Axes a[i0..i1) of one shape correspond to axes b[j0..j1) of the other.
static void map_group(reshape *r, int i0, int i1, int j0, int j1) {
    kernel *k = r->k;
    expr *flat = x_i64(k, 0);
    for (int i = i0; i < i1; i++) {
        expr *at = r->index[r->a[i]];
        flat = i == i0 ? at : x_add(k, x_mul(k, flat, x_dim(k, r->from->dims[r->a[i]])), at);
    }
    if (i1 - i0 > 1) flat = join_divisions(k, flat);
    for (int j = j1 - 1; j > j0; j--) divide(k, flat, r->to->dims[r->b[j]], &flat, &r->out[r->b[j]]);
    if (j1 > j0) r->out[r->b[j0]] = flat;
}

// The smallest groups starting at i and j with the same number of elements.
static void next_group(const reshape *r, int i, int j, int *i1, int *j1) {
    for (int size = 2; size <= r->na - i + r->nb - j; size++) {
        for (int m = 1; m < size; m++) {
            if (i + m > r->na || j + size - m > r->nb) continue;
            dim *x = range_product(r->from, r->a, i, i + m), *y = range_product(r->to, r->b, j, j + size - m);
            if (dim_equal(x, y) != TRI_YES) continue;
            *i1 = i + m, *j1 = j + size - m;
            return;
        }
    }
    *i1 = r->na, *j1 = r->nb;
}

bool is_plain_view(const buffer *b) {
    for (; b; b = b->view_of)
        if (b->view_offset || b->layout) return false;
    return true;
}

bool view_index(kernel *k, const buffer *from, const buffer *to, expr *const *index, expr **out) {
    if (from == to) {
        for (int j = 0; j < from->rank; j++) out[j] = index[j];
        return true;
    }
    if (!is_plain_view(from) || !is_plain_view(to)) return false;
    reshape r = {.k = k, .from = from, .to = to, .index = index, .out = out};
    for (int j = 0; j < to->rank; j++) out[j] = x_i64(k, 0);
    r.na = wide_axes(from, r.a), r.nb = wide_axes(to, r.b);
    for (int i = 0, j = 0; i < r.na || j < r.nb;) {
        int i1, j1;
        next_group(&r, i, j, &i1, &j1);
        map_group(&r, i, i1, j, j1);
        i = i1, j = j1;
    }
    return true;
}

// ---------------------------------------------------------------- counting
static int divisions_below(const expr *e, int depth) {
    if (depth > MOST_TERMS || e->op == X_READ) return 0;
    int n = e->op == X_FLOORDIV || e->op == X_MOD;
    for (int j = 0; j < expr_arity(e->op); j++) n += divisions_below(e->arg[j], depth + 1);
    return n;
}

int divisions_in(const expr *e) { return divisions_below(e, 0); }

int count_divisions(const kernel *k) {
    arena *scratch = arena_new();
    expr_list l = kernel_nodes(scratch, k, PART_ALL);
    int n = 0;
    for (int j = 0; j < l.n; j++) n += l.at[j]->op == X_FLOORDIV || l.at[j]->op == X_MOD;
    arena_destroy(scratch);
    return n;
}
