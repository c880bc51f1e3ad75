// Attention: a contraction whose rows are reduced (softmax) and then contracted again along the reduced axis
// becomes one kernel in canonical form:
//
//   for rows:  scores[j] = sum over d          top = max over j        weights[j] = exp(scores[j] - top)
//              total = sum over j of weights   out[e] = f(sum over j of weights[j] * v[j, e], total)
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"

// ---------------------------------------------------------------- matching
static bool reads_constant(const expr *e) { return e->op == X_READ && e->buffer->role == BUF_CONST; }

static bool plain_contraction(const kernel *k) {
    if (k->stages.n != 1 || k->stages.at[0]->states.n != 1 || !is_contraction(k)) return false;
    // A product with weights is faster over tiles of many rows.
    return !expr_any(k->stages.at[0]->states.at[0].step, reads_constant);
}

// Integer products are several times faster over tiles of many rows than float products within a row's
// kernel, and their results are bytes. Only with very many results does memory traffic matter more.
static bool reads_byte(const expr *e) {
    return e->op == X_READ && dtype_is_int(e->buffer->dtype) && dtype_bits(e->buffer->dtype) == 8;
}
static bool leaves_bytes(const kernel *k) {
    enum { MANY = 64 << 20 };
    const expr *step = k->stages.at[0]->states.at[0].step;
    if (step->op != X_MUL || !expr_any(step->arg[0], reads_byte) || !expr_any(step->arg[1], reads_byte))
        return false;
    double results = 1;
    for (int a = 0; a < k->axes.n; a++) {
        const dim *n = k->axes.at[a].extent;
        if (k->axes.at[a].kind == AXIS_PARALLEL && dim_is_const(n)) results *= (double)dim_value(n);
    }
    return results <= MANY;
}

static site *only_reader(fuse *f, const site *writer, const buffer *b) {
    site *r[MOST_READERS];
    return !f->uses->of[b->id].output && readers_of(f, writer, b, false, r) == 1 ? r[0] : NULL;
}

static site *contraction_before(fuse *f, const site *rows) {
    for (int j = 0; j < rows->reads.n; j++) {
        site *p = sole_writer(f, rows->reads.at[j]);
        if (p && p->region == rows->region && p->writes.n == 1 && p->s->kernel &&
            plain_contraction(p->s->kernel) && only_reader(f, p, rows->reads.at[j]) == rows)
            return p;
    }
    return NULL;
}

static bool reads_along(const kernel *k, const buffer *root, int axis) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(kernel_nodes(scratch, k, PART_ALL));
    bool uses = false;
    for (int j = 0; j < reads.n; j++)
        for (int d = 0; root_of(reads.at[j]->buffer) == root && d < reads.at[j]->buffer->rank; d++)
            uses |= expr_uses_axis(reads.at[j]->index[d], axis);
    arena_destroy(scratch);
    return uses;
}

static bool reduces_along(const kernel *k, const buffer *root) {
    for (int a = 0; a < k->axes.n; a++)
        if (k->axes.at[a].kind == AXIS_REDUCE && reads_along(k, root, a)) return true;
    return false;
}

// Schedules of attention keep queries and results of known sizes in registers. Rows of other sizes would be computed
// one by one, which takes three times as long as two products of tiles.
static bool has_known_heads(const kernel *before, const kernel *after, const buffer *weights) {
    for (int a = 0; a < before->axes.n; a++)
        if (before->axes.at[a].kind == AXIS_REDUCE && !dim_is_const(before->axes.at[a].extent)) return false;
    for (int a = 0; a < after->axes.n; a++)
        if (after->axes.at[a].kind == AXIS_PARALLEL && !dim_is_const(after->axes.at[a].extent) &&
            !reads_along(after, weights, a))
            return false;
    return true;
}

static site *contraction_after(fuse *f, const site *before, site *rows) {
    for (int j = 0; j < rows->writes.n; j++) {
        if (sole_writer(f, rows->writes.at[j]) != rows) continue;
        site *p = only_reader(f, rows, rows->writes.at[j]);
        if (!p || !plain_contraction(p->s->kernel)) continue;
        if (!reduces_along(p->s->kernel, rows->writes.at[j])) continue;
        if (has_known_heads(before->s->kernel, p->s->kernel, rows->writes.at[j])) return p;
    }
    return NULL;
}

static bool reduces_rows(const kernel *k) {
    bool reduces = false;
    for (int a = 0; a < k->axes.n; a++) {
        if (k->axes.at[a].kind == AXIS_SCAN) return false;
        reduces |= k->axes.at[a].kind == AXIS_REDUCE;
    }
    return reduces && k->stages.n > 1 && !is_contraction(k);
}

// ---------------------------------------------------------------- canonical form
typedef struct form {
    kernel *k, *old;
    arena *scratch;
    int weight, sum, value; // stages; sum -1: no stage sums the weights
    const buffer *weights;
    expr *kept;  // the part of the weights that depends on the key
    expr *scale; // the invariant factor, NULL: none
    bool divides;
    bool nan_is_zero; // NaN weights count as 0
    bool copies;      // the weights are a copy of another local
    expr **finish;    // by local: NULL, or the function that its readers apply to the state stored in it
} form;

static const write *stage_write_to(const stage *s, const buffer *b) {
    bool only = s->writes.n == 1 && s->writes.at[0].to == b && write_is_plain(&s->writes.at[0]);
    return only ? &s->writes.at[0] : NULL;
}

static bool is_axis(const expr *e, int axis) { return e->op == X_AXIS && e->axis == axis; }

// The number of the only stage that writes b, -1: none or several.
static int only_stage_writing(const kernel *k, const buffer *b) {
    int found = -1, n = 0;
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->writes.n; i++)
            if (k->stages.at[j]->writes.at[i].to == b) found = j, n++;
    return n == 1 ? found : -1;
}

// The stage that fills a local with one value per position of its only axis.
static int filling_stage(const kernel *k, const buffer *b) {
    int found = only_stage_writing(k, b);
    const stage *s = found < 0 ? NULL : k->stages.at[found];
    bool plain = s && stage_write_to(s, b) && b->rank == 1 && s->states.n == 0 && s->axes.n == 1 &&
                 is_axis(s->writes.at[0].index[0], s->axes.at[0]);
    return plain ? found : -1;
}

static bool find_weights(form *f) {
    f->value = f->old->stages.n - 1;
    const stage *s = f->old->stages.at[f->value];
    if (s->states.n != 1 || s->states.at[0].op != RED_SUM || s->states.at[0].step->op != X_MUL) return false;
    for (int j = 0; j < 2; j++) {
        const expr *e = s->states.at[0].step->arg[j];
        if (e->op != X_READ || e->guard || e->buffer->role != BUF_LOCAL || e->buffer->rank != 1) continue;
        f->weight = filling_stage(f->old, e->buffer);
        f->weights = e->buffer;
        if (f->weight >= 0 && kernel_only_read(f->old, e->buffer)) return true;
    }
    return false;
}

static bool is_zero(const expr *e) { return e->op == X_CONST && dtype_is_float(e->dtype) && e->f == 0; }

// Splits value = kept * scale or kept / scale with a scale that is the same for all keys; or that with 0 in
// place of NaN.
static void split_scale(form *f) {
    const stage *s = f->old->stages.at[f->weight];
    int axis = s->axes.at[0];
    f->kept = s->writes.at[0].value;
    const expr *e = f->kept;
    if (e->op == X_SELECT && e->arg[0]->op == X_ISNAN && e->arg[0]->arg[0] == e->arg[2] && is_zero(e->arg[1]))
        f->kept = e->arg[2], f->nan_is_zero = true;
    if (f->kept->op != X_MUL && f->kept->op != X_DIV) return;
    expr *a = f->kept->arg[0], *b = f->kept->arg[1];
    if (f->kept->op == X_MUL && !expr_uses_axis(a, axis)) {
        expr *t = a;
        a = b, b = t;
    }
    if (expr_uses_axis(b, axis)) return;
    f->divides = f->kept->op == X_DIV;
    f->kept = a, f->scale = b;
}

static void find_sum(form *f) {
    f->sum = -1;
    kernel *k = f->old;
    for (int j = 0; j < f->value; j++) {
        const stage *s = k->stages.at[j];
        if (s->states.n != 1 || s->states.at[0].op != RED_SUM || s->axes.n != 1) continue;
        int from = k->stages.at[f->weight]->axes.at[0], to = s->axes.at[0];
        if (dim_equal(k->axes.at[from].extent, k->axes.at[to].extent) == TRI_YES &&
            expr_substitute_axis(k, f->kept, from, x_axis(k, to)) == s->states.at[0].step)
            f->sum = j;
    }
}

static const buffer *row_scalar(const expr *e) {
    return e->op == X_READ && e->buffer->role == BUF_LOCAL && e->buffer->rank == 0 ? e->buffer : NULL;
}

// exp(score - maximum) is in [0, 1] or NaN; its sum over the row is at least 1, or NaN if any of them is. So
// the sum is NaN if a weight is.
static const buffer *sum_with_nan(const form *f) {
    const kernel *k = f->old;
    if (f->sum < 0 || !f->scale || f->kept->op != X_EXP || f->kept->arg[0]->op != X_SUB) return NULL;
    const buffer *top = row_scalar(f->kept->arg[0]->arg[1]);
    int writer = top ? only_stage_writing(k, top) : -1;
    const stage *max = writer < 0 ? NULL : k->stages.at[writer], *sum = k->stages.at[f->sum];
    if (!max || max->states.n != 1 || sum->writes.n != 1) return NULL;
    if (max->states.at[0].op != RED_MAX && max->states.at[0].op != RED_NUMBER_MAX) return NULL;
    const expr *score = f->kept->arg[0]->arg[0], *seen = max->states.at[0].step;
    if (score->op != X_READ || seen->op != X_READ || score->buffer != seen->buffer) return NULL;
    const buffer *total = sum->writes.at[0].to;
    return row_scalar(f->scale) == total ? total : NULL;
}

static bool is_function_of_state(arena *scratch, expr *e) {
    expr_list l = expr_nodes(scratch, e);
    int states = 0;
    for (int j = 0; j < l.n; j++) {
        expr_op op = l.at[j]->op;
        if (op == X_READ || op == X_AXIS || op == X_OTHER || op == X_CHECK) return false;
        states += op == X_STATE;
    }
    return states == 1 && l.n <= 4;
}

// Scalars of a row that are a small function of a sum store the sum itself; their readers apply the function.
static void find_finishes(form *f) {
    const kernel *k = f->old;
    f->finish = ARENA_ARRAY(f->scratch, expr *, k->locals.n + 1);
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        if (s->states.n != 1 || s->states.at[0].op != RED_SUM || s->writes.n != 1) continue;
        const write *w = &s->writes.at[0];
        if (w->to->role != BUF_LOCAL || w->to->rank || w->guard || w->value->op == X_STATE) continue;
        if (w->to->dtype == s->states.at[0].dtype && is_function_of_state(f->scratch, w->value))
            f->finish[w->to->id] = w->value;
    }
}

static expr *state_node(const kernel *k, int component, dtype t) {
    for (int j = 0; j < k->exprs.n; j++) {
        expr *e = k->exprs.at[j];
        if (e->op == X_STATE && e->axis == component && e->dtype == t) return e;
    }
    return NULL;
}

static expr *read_in_form(cloning *g, const expr *e, expr **index, expr *guard, expr *fill) {
    form *f = g->user;
    if (e->buffer->role != BUF_LOCAL) return NULL;
    if (f->copies && e->buffer == f->weights)
        return x_read_guarded(g->to, f->kept->buffer, index, guard, fill);
    expr *value = f->finish[e->buffer->id];
    if (!value) return NULL;
    cloning *inner = clone_same(f->scratch, g->to, f->old);
    inner->done[state_node(f->old, 0, e->buffer->dtype)->id] = x_read(g->to, e->buffer, NULL);
    return clone_expr(inner, value);
}

static cloning *form_cloning(form *f) {
    cloning *g = clone_same(f->scratch, f->k, f->old);
    g->read = read_in_form;
    g->user = f;
    return g;
}

static void form_stage(form *f, cloning *g, int number) {
    kernel *k = f->k;
    const stage *old = f->old->stages.at[number];
    stage *made = clone_stage(g, old);
    if (number == f->sum && !f->copies) {
        expr *at = x_axis(k, old->axes.at[0]);
        made->states.at[0].step = x_read(k, (buffer *)f->weights, &at);
    }
    if (number == f->value && f->scale) {
        const state *st = &old->states.at[0];
        expr *sum = x_state(k, 0, st->dtype), *scale = clone_expr(g, f->scale),
             *node = state_node(f->old, 0, st->dtype);
        expr *result = x_bin(k, f->divides ? X_DIV : X_MUL, sum, scale);
        if (f->nan_is_zero) {
            expr *total = x_read(k, (buffer *)sum_with_nan(f), NULL), *zero = x_zero(k, st->dtype);
            result = x_select(k, x_lt(k, zero, total), result, zero);
        }
        g = form_cloning(f);
        if (node) g->done[node->id] = result;
    }
    for (int i = 0; i < old->writes.n; i++) {
        write w = old->writes.at[i];
        if (number == f->weight) w.value = f->kept;
        else if (w.to->role == BUF_LOCAL && f->finish[w.to->id]) w.value = state_node(f->old, 0, w.to->dtype);
        clone_write(g, made, &w);
    }
}

static bool examine_form(form *f) {
    if (!find_weights(f)) return false;
    split_scale(f);
    find_sum(f);
    find_finishes(f);
    const stage *s = f->old->stages.at[f->weight];
    f->copies = f->kept->op == X_READ && f->kept->buffer->role == BUF_LOCAL && f->kept->buffer->rank == 1 &&
                !f->kept->guard && is_axis(f->kept->index[0], s->axes.at[0]);
    return !f->nan_is_zero || sum_with_nan(f);
}

static void to_one_form(const fuse *fu, site *at) {
    kernel *k = at->s->kernel;
    form f = {.k = k, .old = k, .scratch = arena_new()};
    if (!fu->strict && examine_form(&f)) {
        f.old = kernel_begin(k);
        cloning *g = form_cloning(&f);
        bool moved = f.sum >= 0 && f.sum < f.weight && !f.copies;
        for (int j = 0; j < f.old->stages.n; j++) {
            if (moved && j == f.sum) form_stage(&f, g, f.weight);
            if (j == f.weight && (moved || f.copies)) continue;
            form_stage(&f, g, j);
        }
    }
    arena_destroy(f.scratch);
}

// ---------------------------------------------------------------- the chain
void fuse_chain(fuse *f, site *rows) {
    if (!reduces_rows(rows->s->kernel)) return;
    site *before = contraction_before(f, rows), *after = before ? contraction_after(f, before, rows) : NULL;
    if (!after || leaves_bytes(before->s->kernel)) return;
    kernel *first = before->s->kernel, saved = *rows->s->kernel;
    if (!rows_join(f, before, rows, true)) return;
    if (rows_join(f, rows, after, true)) {
        to_one_form(f, after);
        return;
    }
    before->s->kernel = first;
    *rows->s->kernel = saved;
    fuse_changed(f, before);
    fuse_changed(f, rows);
}
