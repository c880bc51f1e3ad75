// Accesses: from logical indices to element offsets in the buffer's layout, their movement along axes, and
// collapsing of axes.
#include "ir/kernel/edit.h"
#include "passes/schedule/common/emit.h"

static expr *row_major_offset(kernel *k, buffer *b, expr *const *index) {
    dim *stride = b->dims[-1];
    expr *offset = x_i64(k, 0);
    for (int j = b->rank - 1; j >= 0; j--) {
        offset = x_add(k, x_mul(k, index[j], x_dim(k, stride)), offset);
        stride = dim_mul(stride, b->dims[j]);
    }
    return offset;
}

// Elements from one row of a panel to the next, in terms of the column.
static expr *row_of_panel(kernel *k, const last_panel *p, expr *column) {
    expr *is_whole = x_bin(k, X_LT, column, x_i64(k, p->number * p->tile));
    return x_select(k, is_whole, x_i64(k, p->tile), x_i64(k, p->columns));
}

static expr *layout_offset(kernel *k, buffer *b, expr *const *index) {
    const layout *l = b->layout;
    expr *left[MAX_RANK], *offset = x_i64(k, 0);
    bool last[2 * MAX_RANK] = {0}; // outermost entry of its axis: takes the remaining quotient
    for (int j = 0; j < b->rank; j++) left[j] = x_add(k, index[j], x_i64(k, l->pad_lo[j]));
    for (int a = 0; a < b->rank; a++)
        for (int j = 0; j < l->n; j++)
            if (l->order[j].axis == a) {
                last[j] = true;
                break;
            }
    dim *scale = b->dims[-1];
    last_panel panel = {0};
    if (l->last) panel = layout_last_panel(b);
    expr *row = l->last ? row_of_panel(k, &panel, left[l->order[panel.entry].axis]) : NULL;
    for (int j = l->n - 1; j >= 0; j--) {
        int a = l->order[j].axis;
        dim *extent = layout_extent(b, j);
        expr *n = x_dim(k, extent), *step = x_dim(k, scale);
        if (row && j > panel.entry && j < l->n - 1)
            step = x_mul(k, x_i64(k, dim_value(scale) / panel.tile), row);
        expr *digit = last[j] ? left[a] : x_bin(k, X_MOD, left[a], n);
        if (!last[j]) left[a] = x_bin(k, X_FLOORDIV, left[a], n);
        offset = x_add(k, offset, x_mul(k, digit, step));
        scale = dim_addk(dim_mul(scale, extent), layout_gap(l, j - 1));
    }
    return offset;
}

// base + coef * axis ..., outermost axis first, so that the outer terms are loop-invariant in inner loops.
static expr *canonical_offset(kernel *k, const access *a) {
    expr *sum = a->base;
    for (int j = 0; j < k->axes.n; j++) sum = x_add(k, sum, x_mul(k, x_axis(k, j), a->coef[j]));
    return sum;
}

// Variables of the kernel may differ between the rows of a vector of rows, whichever axes they use.
static bool is_own(const expr *x) {
    return x->op == X_STATE || x->op == X_OTHER ||
           (x->op == X_READ && x->buffer->role == BUF_LOCAL && x->buffer->rank == 0);
}

// c if the offset is floordiv(axis, c) plus terms that do not use the axis: each element is read c times.
static int64_t repeats_of(const expr *x, int axis) {
    while (x->op == X_ADD || x->op == X_SUB) {
        bool first = expr_uses_axis(x->arg[0], axis);
        if (first == expr_uses_axis(x->arg[1], axis) || (x->op == X_SUB && !first)) return 0;
        x = x->arg[first ? 0 : 1];
    }
    bool divides = x->op == X_FLOORDIV && x->arg[0]->op == X_AXIS && x->arg[0]->axis == axis;
    return divides && x->arg[1]->op == X_CONST && x->arg[1]->i > 1 ? x->arg[1]->i : 0;
}

// By how much an expression changes from one position of an axis to the next, at least and at most.
typedef struct movement {
    int64_t least, most;
} movement;
enum { ANY = 1 << 30, LEAST_RUN = 32 }; // ANY: unbounded

static movement movement_of(expr *x, int axis);
static int64_t bounded(int64_t v) { return v > ANY ? ANY : v < -ANY ? -ANY : v; }
static bool is_known(movement m) { return m.least > -ANY && m.most < ANY; }

static movement movement_of_scaled(expr *x, int axis) {
    bool first = x->arg[0]->op == X_CONST;
    movement m = movement_of(x->arg[first ? 1 : 0], axis);
    const expr *c = x->arg[first ? 0 : 1];
    if (c->op != X_CONST || c->i < -ANY || c->i > ANY || !is_known(m)) return (movement){-ANY, ANY};
    int64_t p = bounded(m.least * c->i), q = bounded(m.most * c->i);
    return p < q ? (movement){p, q} : (movement){q, p};
}

static movement movement_of(expr *x, int axis) {
    const movement any = {-ANY, ANY};
    if (!expr_uses_axis(x, axis)) return (movement){0, 0};
    if (x->op == X_AXIS) return (movement){1, 1};
    if (x->dtype != DT_I64 || expr_arity(x->op) != 2) return any;
    if (x->op == X_MUL) return movement_of_scaled(x, axis);
    movement m = movement_of(x->arg[0], axis), n = movement_of(x->arg[1], axis);
    if (x->op == X_ADD) return (movement){bounded(m.least + n.least), bounded(m.most + n.most)};
    if (x->op == X_SUB) return (movement){bounded(m.least - n.most), bounded(m.most - n.least)};
    if (x->op == X_MIN || x->op == X_MAX)
        return (movement){m.least < n.least ? m.least : n.least, m.most > n.most ? m.most : n.most};
    // A growing number modulo a constant wraps to 0 occasionally.
    bool wraps = x->op == X_MOD && m.least >= 0 && x->arg[1]->op == X_CONST && x->arg[1]->i >= LEAST_RUN;
    return wraps ? (movement){-ANY, m.most} : any;
}

static void find_slopes(emitter *e, access *a) {
    kernel *k = e->k;
    bool own = expr_any(a->offset, is_own);
    for (int j = 0; j < k->axes.n; j++) a->coef[j] = own ? NULL : expr_slope(k, a->offset, j);
    if (own) return;
    a->repeats = ARENA_ARRAY(e->scratch, int64_t, k->axes.n + 1);
    a->runs = ARENA_ARRAY(e->scratch, bool, k->axes.n + 1);
    for (int j = 0; j < k->axes.n; j++) {
        a->repeats[j] = repeats_of(a->offset, j);
        a->runs[j] = !a->coef[j] && movement_of(a->offset, j).most == 1;
    }
}

static void find_form(emitter *e, access *a) {
    a->coef = ARENA_ARRAY(e->scratch, expr *, e->k->axes.n + 1);
    a->affine = expr_affine(e->k, a->offset, &a->base, a->coef);
    if (a->affine) a->offset = canonical_offset(e->k, a);
    else find_slopes(e, a);
}

access *access_make(emitter *e, buffer *b, expr *const *index) {
    access *a = ARENA_NEW(e->scratch, access);
    a->buffer = b;
    a->index = b->layout || b->role == BUF_LOCAL ? NULL : index;
    a->offset = b->layout ? layout_offset(e->k, b, index) : row_major_offset(e->k, b, index);
    if (e->row_lanes && b->role == BUF_LOCAL && b->rank)
        a->offset = x_add(e->k, x_mul(e->k, a->offset, x_i64(e->k, e->row_lanes)), x_axis(e->k, e->row_axis));
    find_form(e, a);
    return a;
}

access *access_at(emitter *e, const access *a, expr *offset) {
    access *to = ARENA_NEW(e->scratch, access);
    *to = (access){.buffer = a->buffer, .offset = offset};
    find_form(e, to);
    return to;
}

// ---------------------------------------------------------------- other positions
struct saved_value {
    int id;
    struct emit_entry was;
};
saved_values values_save(emitter *e, expr *what, int axis) {
    saved_values a = {.e = e, .axis = axis};
    expr_list all = expr_nodes(e->scratch, what);
    for (int j = 0; j < all.n; j++) {
        struct emit_entry *entry = entry_of(e, all.at[j]);
        if (!entry->value && !entry->index && !entry->vindex && !entry->narrow) continue;
        if (!expr_uses_axis(all.at[j], axis)) continue;
        VEC_PUSH(e->scratch, &a.list, ((struct saved_value){all.at[j]->id, *entry}));
        entry->value = entry->index = entry->vindex = entry->narrow = NULL;
    }
    return a;
}
void values_restore(saved_values *a) {
    for (int j = 0; j < a->list.n; j++) a->e->entries[a->list.at[j].id] = a->list.at[j].was;
}

// ---------------------------------------------------------------- collapsing
typedef struct axis_search {
    int a, b;
    bool found;
    emitter *e;
    bool *seen; // by expression: shared ones are searched once
} axis_search;

static bool linear_read(const axis_search *s, const expr *x) {
    const access *a = x->op == X_READ ? entry_of(s->e, x)->read : NULL;
    return a && a->coef[s->a] && a->coef[s->b];
}

// Whether the axis is used as a value, by a guard, or in an index that is not linear in it.
static void find_axis_use(axis_search *s, expr *x) {
    if (s->found || s->seen[x->id]) return;
    s->seen[x->id] = true;
    if (x->op == X_AXIS && (x->axis == s->a || x->axis == s->b)) s->found = true;
    for (int j = 0; j < expr_arity(x->op); j++) find_axis_use(s, x->arg[j]);
    if (x->op != X_READ) return;
    if (!linear_read(s, x))
        for (int j = 0; j < x->buffer->rank; j++) find_axis_use(s, x->index[j]);
    if (x->guard) find_axis_use(s, x->guard), find_axis_use(s, x->fill);
}

static bool axes_are_free(emitter *e, int a, int b) {
    axis_search s = {a, b, false, e, ARENA_ARRAY(e->scratch, bool, e->k->exprs.n + 1)};
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

// Axes of which a task has a piece stay apart.
static bool can_join(emitter *e, int a, int b, access **all, int nall) {
    if (e->task_columns && (e->task_columns[a] || e->task_columns[b])) return false;
    expr *n = x_dim(e->k, e->extent[b]);
    for (int j = 0; j < nall; j++)
        if (!all[j]->coef[a] || !all[j]->coef[b] || all[j]->coef[a] != x_mul(e->k, all[j]->coef[b], n))
            return false;
    return axes_are_free(e, a, b);
}

// Removes a collapsed axis from an access.
static void leave_axis(emitter *e, access *x, int a) {
    expr *zero = x->coef[a] = x_i64(e->k, 0);
    x->index = NULL;
    x->offset = x->affine ? canonical_offset(e->k, x) : expr_substitute_axis(e->k, x->offset, a, zero);
}

// All accesses of the stage: its writes, then its reads.
static access **stage_accesses(emitter *e, access *const *writes, int *n) {
    expr_list reads = reads_only(stage_nodes(e->scratch, e->stage, PART_ALL));
    access **all = ARENA_ARRAY(e->scratch, access *, e->stage->writes.n + reads.n);
    for (*n = 0; *n < e->stage->writes.n; ++*n) all[*n] = writes[*n];
    for (int j = 0; j < reads.n; j++) {
        access *a = entry_of(e, reads.at[j])->read;
        if (a) all[(*n)++] = a;
    }
    return all;
}

int collapse_axes(emitter *e, access *const *writes, int *order, int n) {
    int nall;
    access **all = stage_accesses(e, writes, &nall);
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
