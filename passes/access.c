// Accesses: from logical indices to element offsets under the buffer's layout, and joining of axes.
#include "ir/program.h"
#include "passes/emit.h"

static expr *row_major_offset(kernel *k, buffer *b, expr *const *index) {
    dim *stride = b->dims[-1];
    expr *offset = x_i64(k, 0);
    for (int j = b->rank - 1; j >= 0; j--) {
        offset = x_add(k, x_mul(k, index[j], x_dim(k, stride)), offset);
        stride = dim_mul(stride, b->dims[j]);
    }
    return offset;
}

static expr *layout_offset(kernel *k, buffer *b, expr *const *index) {
    const layout *l = b->layout;
    expr *left[MAX_RANK], *offset = x_i64(k, 0);
    bool last[2 * MAX_RANK] = {0}; // outermost entry of its axis: takes the rest
    for (int j = 0; j < b->rank; j++) left[j] = x_add(k, index[j], x_i64(k, l->pad_lo[j]));
    for (int a = 0; a < b->rank; a++)
        for (int j = 0; j < l->n; j++)
            if (l->order[j].axis == a) {
                last[j] = true;
                break;
            }
    dim *scale = b->dims[-1];
    for (int j = l->n - 1; j >= 0; j--) {
        int a = l->order[j].axis;
        dim *extent = layout_extent(b, j);
        expr *n = x_dim(k, extent);
        expr *digit = last[j] ? left[a] : x_bin(k, X_MOD, left[a], n);
        if (!last[j]) left[a] = x_bin(k, X_FLOORDIV, left[a], n);
        offset = x_add(k, offset, x_mul(k, digit, x_dim(k, scale)));
        scale = dim_addk(dim_mul(scale, extent), layout_gap(l, j - 1));
    }
    return offset;
}

// base + coef * axis ..., outermost axis first, so that outer parts leave inner loops.
static expr *canonical_offset(kernel *k, const access *a) {
    expr *sum = a->base;
    for (int j = 0; j < k->axes.n; j++) sum = x_add(k, sum, x_mul(k, x_axis(k, j), a->coef[j]));
    return sum;
}

// Values of the kernel's own may differ from one row of a vector of rows to the next, whatever axes they
// name.
static void find_own(void *user, expr *x) {
    *(bool *)user |= x->op == X_STATE || x->op == X_OTHER ||
                     (x->op == X_READ && x->buffer->role == BUF_LOCAL && x->buffer->rank == 0);
}

static void find_slopes(kernel *k, access *a) {
    bool own = false;
    expr_walk(a->offset, find_own, &own);
    for (int j = 0; j < k->axes.n; j++) a->coef[j] = own ? NULL : expr_slope(k, a->offset, j);
}

access *access_make(emitter *e, buffer *b, expr *const *index) {
    access *a = ARENA_NEW(e->scratch, access);
    a->buffer = b;
    a->offset = b->layout ? layout_offset(e->k, b, index) : row_major_offset(e->k, b, index);
    a->coef = ARENA_ARRAY(e->scratch, expr *, e->k->axes.n + 1);
    a->affine = expr_affine(e->k, a->offset, &a->base, a->coef);
    if (a->affine) a->offset = canonical_offset(e->k, a);
    else find_slopes(e->k, a);
    return a;
}

// ---------------------------------------------------------------- collapsing
typedef struct axis_search {
    int a, b;
    bool found;
    emitter *e;
} axis_search;

static bool linear_read(const axis_search *s, const expr *x) {
    const access *a = x->op == X_READ ? entry_of(s->e, x)->read : NULL;
    return a && a->coef[s->a] && a->coef[s->b];
}

// Axis used as a value, by a guard, or in an index that is not linear in it.
static void find_axis_use(axis_search *s, expr *x) {
    if (s->found) return;
    if (x->op == X_AXIS && (x->axis == s->a || x->axis == s->b)) s->found = true;
    for (int j = 0; j < expr_arity(x->op); j++) find_axis_use(s, x->arg[j]);
    if (x->op != X_READ) return;
    if (!linear_read(s, x))
        for (int j = 0; j < x->buffer->rank; j++) find_axis_use(s, x->index[j]);
    if (x->guard) find_axis_use(s, x->guard), find_axis_use(s, x->fill);
}

static bool axes_are_free(emitter *e, int a, int b) {
    axis_search s = {a, b, false, e};
    const stage *st = e->stage;
    for (int j = 0; j < st->states.n; j++) {
        find_axis_use(&s, st->states.at[j].init);
        find_axis_use(&s, st->states.at[j].step);
    }
    for (int j = 0; j < st->writes.n; j++) {
        find_axis_use(&s, st->writes.at[j].value);
        if (st->writes.at[j].guard) find_axis_use(&s, st->writes.at[j].guard);
    }
    return !s.found;
}

static bool can_join(emitter *e, int a, int b, access **all, int nall) {
    expr *n = x_dim(e->k, e->extent[b]);
    for (int j = 0; j < nall; j++)
        if (!all[j]->coef[a] || !all[j]->coef[b] || all[j]->coef[a] != x_mul(e->k, all[j]->coef[b], n))
            return false;
    return axes_are_free(e, a, b);
}

typedef struct left_axis {
    kernel *k;
    int axis;
} left_axis;
static expr *at_zero(void *user, expr *x) {
    const left_axis *l = user;
    return x->op == X_AXIS && x->axis == l->axis ? x_i64(l->k, 0) : NULL;
}

// What the axis did is done by another one.
static void leave_axis(emitter *e, access *x, int a) {
    left_axis l = {e->k, a};
    x->coef[a] = x_i64(e->k, 0);
    x->offset = x->affine ? canonical_offset(e->k, x) : expr_rewrite(e->k, x->offset, at_zero, &l);
}

int collapse_axes(emitter *e, int *order, int n, access **all, int nall) {
    for (int j = n - 1; j > 0; j--) {
        int a = order[j - 1], b = order[j];
        if (!can_join(e, a, b, all, nall)) continue;
        e->extent[b] = dim_mul(e->extent[a], e->extent[b]);
        e->extent[a] = dim_const(e->extent[a]->table, 1);
        for (int i = 0; i < nall; i++) leave_axis(e, all[i], a);
        for (int i = j - 1; i < n - 1; i++) order[i] = order[i + 1];
        n--;
    }
    return n;
}
