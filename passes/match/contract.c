// Recognition of contractions by their structure.
#include "passes/match/contract.h"
#include "ir/kernel/program.h"
#include "passes/match/form.h"
#include <string.h>

bool calls_cblas(const kernel *k) { return k->algorithm && strcmp(k->algorithm, "cblas") == 0; }

bool axis_in(const axis_list *l, int axis) {
    for (int j = 0; j < l->n; j++)
        if (l->at[j] == axis) return true;
    return false;
}

bool index_uses_axis(const expr *read, int axis) {
    for (int j = 0; j < read->buffer->rank; j++)
        if (expr_uses_axis(read->index[j], axis)) return true;
    return false;
}

int index_digit(const kernel *k, const expr *index, expr **rest) {
    *rest = NULL;
    if (index->op == X_AXIS) return index->axis;
    for (int j = 0; index->op == X_ADD && j < 4; j++) {
        expr *digit = index->arg[j & 1], *more = index->arg[1 - (j & 1)];
        if (digit->op != X_AXIS || more->op != X_MUL || expr_uses_axis(more, digit->axis)) continue;
        const expr *n = more->arg[j >> 1];
        if (n->op != X_CONST || !dim_is(k->axes.at[digit->axis].extent, n->i)) continue;
        *rest = more->arg[1 - (j >> 1)];
        return digit->axis;
    }
    return -1;
}

// A bound of at least the size of the axis also implies that the index is in bounds.
static bool covers(const expr *e, dim *size) {
    return e->op == X_DIM ? dim_less_equal(size, e->dim) == TRI_YES
                          : e->op == X_CONST && dim_upper(size) <= e->i;
}
static bool is_bound(const expr *read, const expr *g) {
    if (g->op == X_AND) return is_bound(read, g->arg[0]) && is_bound(read, g->arg[1]);
    for (int j = 0; j < read->buffer->rank; j++) {
        const expr *a = g->arg[0], *b = g->arg[1], *i = read->index[j];
        if (g->op == X_LE && a->op == X_CONST && a->i == 0 && b == i) return true;
        if (g->op == X_LT && a == i && covers(b, read->buffer->dims[j])) return true;
    }
    return false;
}
bool guard_is_bounds(const expr *read) { return !read->guard || is_bound(read, read->guard); }

// 0 if the read uses no reduce axis of the stage, else the number of its axes.
static int uses_reduce(const kernel *k, const stage *s, const expr *read) {
    int n = 0;
    for (int j = 0; j < s->axes.n; j++)
        n += k->axes.at[s->axes.at[j]].kind == AXIS_REDUCE && index_uses_axis(read, s->axes.at[j]);
    if (!n) return 0;
    for (int a = 0; a < k->axes.n; a++) n += k->axes.at[a].kind == AXIS_PARALLEL && index_uses_axis(read, a);
    return n;
}
// The only read of a factor that depends on most reduce axes. Reads that depend on none (zero points) or
// fewer (scales of blocks) do not count.
static expr *factor_read(const kernel *k, const stage *s, expr *term) {
    expr_list reads = reads_only(expr_nodes(k->arena, term));
    expr *found = NULL;
    int most = 0, count = 0;
    for (int j = 0; j < reads.n; j++) {
        int uses = uses_reduce(k, s, reads.at[j]);
        if (!uses || uses < most) continue;
        count = uses > most ? 1 : count + 1;
        found = reads.at[j], most = uses;
    }
    return count == 1 ? found : NULL;
}

static bool find_terms(contraction *c) {
    const state *st = &c->s->states.at[0];
    if (st->op != RED_SUM || st->step->op != X_MUL) return false;
    c->term_a = st->step->arg[0], c->term_b = st->step->arg[1];
    c->a = factor_read(c->k, c->s, c->term_a);
    c->b = factor_read(c->k, c->s, c->term_b);
    return c->a && c->b && c->a != c->b;
}

static bool has_form(const kernel *k, const stage *s) {
    if (s->states.n != 1 || s->writes.n != 1 || !write_is_plain(&s->writes.at[0])) return false;
    bool reduces = false;
    for (int j = 0; j < s->axes.n; j++) reduces |= k->axes.at[s->axes.at[j]].kind == AXIS_REDUCE;
    return reduces && !stage_scans(k, s) && k->axes.n <= MAX_AXES;
}

static void sort_axis(contraction *c, int axis, axis_list *only_a, axis_list *only_b) {
    if (c->k->axes.at[axis].kind == AXIS_REDUCE) {
        c->k_axes.at[c->k_axes.n++] = axis;
        return;
    }
    if (dim_is(c->k->axes.at[axis].extent, 1)) return;
    bool a = index_uses_axis(c->a, axis), b = index_uses_axis(c->b, axis);
    axis_list *l = a && b ? &c->batch : b ? only_b : only_a;
    l->at[l->n++] = axis;
}

static void swap_operands(contraction *c) {
    expr *t = c->a;
    c->a = c->b, c->b = t;
    t = c->term_a;
    c->term_a = c->term_b, c->term_b = t;
}

const expr *index_in_part(const expr *index) {
    for (int j = 0; index->op == X_ADD && j < 2; j++)
        if (index->arg[j]->op == X_CONST || index->arg[j]->op == X_DIM) return index->arg[1 - j];
    return index;
}

// The axis that advances the output by one element in its layout: the axis of the innermost physical one, or of
// the columns of one group in it.
static int contiguous_axis(const contraction *c) {
    const buffer *b = c->w->to;
    int last = b->layout ? b->layout->order[b->layout->n - 1].axis : b->rank - 1;
    while (!b->layout && last > 0 && dim_is(b->dims[last], 1)) last--;
    if (last < 0 || !b->rank) return -1;
    expr *groups;
    int digit = index_digit(c->k, index_in_part(c->w->index[last]), &groups);
    for (int a = 0; groups && a < c->k->axes.n; a++)
        if (expr_uses_axis(groups, a) && !axis_in(&c->batch, a)) return -1;
    return digit;
}

static bool find(const kernel *k, stage *s, int nouter, contraction *c) {
    if (!has_form(k, s)) return false;
    *c = (contraction){.k = k, .s = s, .n = -1};
    c->w = &c->s->writes.at[0];
    if (!find_terms(c)) return false;
    axis_list only_a = {0}, only_b = {0};
    for (int a = 0; a < nouter; a++) sort_axis(c, a, &only_a, &only_b);
    for (int j = 0; j < c->s->axes.n; j++) sort_axis(c, c->s->axes.at[j], &only_a, &only_b);
    int n = contiguous_axis(c);
    if (n >= 0 && axis_in(&only_a, n)) {
        swap_operands(c);
        axis_list t = only_a;
        only_a = only_b, only_b = t;
    }
    if (!axis_in(&only_b, n)) n = -1;
    c->n = n;
    c->m = only_a;
    for (int j = 0; j < only_b.n; j++)
        if (only_b.at[j] != n) c->other_n.at[c->other_n.n++] = only_b.at[j];
    return true;
}

axis_list contraction_columns(const contraction *c) {
    axis_list l = c->other_n;
    if (c->n >= 0) l.at[l.n++] = c->n;
    return l;
}

bool contraction_find(const kernel *k, contraction *c) {
    return k->stages.n == 1 && !k->locals.n && find(k, k->stages.at[0], k->nouter, c);
}

bool contraction_in_stage(const kernel *k, stage *s, contraction *c) { return find(k, s, 0, c); }

// ---------------------------------------------------------------- shifted axes
bool shifted_axis(const kernel *k, const expr *e, int *axis, dim **low) {
    dim *d = expr_known_dim(k, e);
    *axis = -1, *low = d ? d : dim_const(k->program->dims, 0);
    if (d) return true;
    if (e->op == X_AXIS) return *axis = e->axis, true;
    if (e->op != X_ADD) return false;
    for (int j = 0; j < 2; j++) {
        d = expr_known_dim(k, e->arg[j]);
        if (!d || e->arg[1 - j]->op != X_AXIS) continue;
        *axis = e->arg[1 - j]->axis, *low = d;
        return true;
    }
    return false;
}
