// In: a kernel over rows that computes a function of each element in two stages. Out: the first one keeps it in an array of the
// row for the second.
//
//   for r: sum += exp(x[r] - max)                 for r: e[r] = exp(x[r] - max), sum += exp(x[r] - max)
//   for r: y[r] = exp(x[r] - max) * scale   =>    for r: y[r] = e[r] * scale
//
// Where sums must be in order (--fp strict), which excludes vectors, a separate stage computes it in vectors.
// Without vectors, memory is scarcer than time: the values replace what the row's array had before, or the row is short.
// Rows whose elements are not adjacent are vectorised across: they stay as they are, since arrays would hold a vector of rows
// per element.
#include "ir/kernel/edit.h"
#include "ir/target.h"
#include "passes/match/attention.h"
#include "passes/match/form.h"
#include "passes/passes.h"

enum { ROW_BYTES = 256 << 10, SHORT_ROW_BYTES = 256 };

typedef struct repeated {
    kernel *k;
    int first;              // the first stage that computes the value
    expr *value, *axis;     // by that stage's only axis
    expr *here, *here_axis; // the same in another stage
    buffer *kept;           // array of the values
    bool scarce;            // memory is
} repeated;

static bool is_function(const expr *e) { return expr_op_class(e->op) == XC_FUNCTION; }

// The only axis of the stage itself; NULL: it has several, or runs in order.
static expr *own_axis(kernel *k, const stage *s) {
    bool one = s->axes.n == 1 && k->axes.at[s->axes.at[0]].kind != AXIS_SCAN;
    return one && stage_writes_at_end(s) ? x_axis(k, s->axes.at[0]) : NULL;
}
static dim *extent_of(const repeated *r, const expr *axis) { return r->k->axes.at[axis->axis].extent; }

// ---------------------------------------------------------------- matching
static bool computes(const stage *s, const expr *value) {
    arena *scratch = arena_new();
    expr_list all = stage_nodes(scratch, s, PART_STEP | PART_VALUE);
    bool found = false;
    for (int j = 0; j < all.n; j++) found |= all.at[j] == value;
    arena_destroy(scratch);
    return found;
}

static bool in_stage(repeated *r, const stage *s) {
    r->here_axis = own_axis(r->k, s);
    if (!r->here_axis || dim_equal(extent_of(r, r->here_axis), extent_of(r, r->axis)) != TRI_YES)
        return false;
    r->here = expr_substitute_axis(r->k, r->value, r->axis->axis, r->here_axis);
    return computes(s, r->here);
}

// Whether the kernel keeps what the value reads as it is from the first stage on.
static bool is_stable(const repeated *r) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(expr_nodes(scratch, r->value));
    bool stable = true;
    for (int j = 0; j < r->k->stages.n; j++) {
        const stage *s = r->k->stages.at[j];
        for (int i = 0; i < s->writes.n * reads.n; i++) {
            const buffer *to = s->writes.at[i % s->writes.n].to, *b = reads.at[i / s->writes.n]->buffer;
            bool local = to->role == BUF_LOCAL && b->role == BUF_LOCAL;
            stable &= local ? to != b || j < r->first : root_of(to) != root_of(b);
        }
    }
    arena_destroy(scratch);
    return stable;
}

// Whether neighbours along the axis are neighbours in memory where the stage writes.
static bool writes_along(const stage *s, const expr *axis) {
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        const layout *l = w->to->layout;
        int d = l ? l->order[l->n - 1].axis : w->to->rank - 1;
        while (!l && d > 0 && dim_is(w->to->dims[d], 1)) d--;
        if (w->to->role == BUF_LOCAL || d < 0 || w->index[d]->op != X_AXIS || w->index[d]->axis != axis->axis)
            return false;
    }
    return s->writes.n > 0;
}

static expr *without_value(void *user, expr *e) {
    const repeated *r = user;
    return e == r->here ? x_zero(r->k, e->dtype) : NULL;
}

static bool reads_array(arena *scratch, expr *e, const buffer *b) {
    expr_list reads = reads_only(expr_nodes(scratch, e));
    bool found = false;
    for (int j = 0; j < reads.n; j++) found |= reads.at[j]->buffer == b;
    return found;
}

// Whether the stages from the first one on need the array b for the value alone.
static bool is_spent(repeated *r, const buffer *b) {
    enum { OTHER_PARTS = PART_ALL & ~(PART_STEP | PART_VALUE) };
    arena *scratch = arena_new();
    bool spent = true;
    for (int j = r->first; j < r->k->stages.n && spent; j++) {
        stage *s = r->k->stages.at[j];
        r->here = NULL;
        in_stage(r, s);
        expr_list all = reads_only(stage_nodes(scratch, s, OTHER_PARTS));
        for (int i = 0; i < all.n; i++) spent &= all.at[i]->buffer != b;
        for (int i = 0; i < s->states.n; i++)
            spent &= !reads_array(scratch, expr_rewrite(r->k, s->states.at[i].step, without_value, r), b);
        for (int i = 0; i < s->writes.n; i++) {
            const write *w = &s->writes.at[i];
            spent &= w->to != b && !reads_array(scratch, expr_rewrite(r->k, w->value, without_value, r), b);
        }
    }
    arena_destroy(scratch);
    return spent;
}

// The array whose elements the value replaces; NULL: it needs one of its own.
static buffer *find_array(repeated *r) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(expr_nodes(scratch, r->value));
    buffer *found = NULL;
    for (int j = 0; j < reads.n && !found; j++) {
        buffer *b = reads.at[j]->buffer;
        bool row = b->role == BUF_LOCAL && b->rank == 1 && b->dtype == r->value->dtype &&
                   reads.at[j]->index[0] == r->axis && b->dims[0] == extent_of(r, r->axis);
        if (row && is_spent(r, b)) found = b;
    }
    arena_destroy(scratch);
    return found;
}

static bool fits(repeated *r) {
    const dim *n = extent_of(r, r->axis);
    int64_t most = r->scarce ? SHORT_ROW_BYTES : ROW_BYTES;
    if (dim_is_const(n) ? dim_value(n) * dtype_bits(r->value->dtype) / 8 <= most : !r->scarce) return true;
    return r->scarce && find_array(r);
}

static bool repeats(repeated *r) {
    if (!expr_uses_axis(r->value, r->axis->axis) || !dtype_is_float(r->value->dtype) || !fits(r))
        return false;
    bool again = false;
    for (int j = r->first + 1; j < r->k->stages.n; j++) {
        const stage *s = r->k->stages.at[j];
        again |= !s->states.n && in_stage(r, s) && writes_along(s, r->here_axis);
    }
    return again && is_stable(r);
}

static bool find(repeated *r) {
    kernel *k = r->k;
    arena *scratch = arena_new();
    bool found = false;
    for (r->first = 0; r->first < k->stages.n - 1 && !found; r->first += !found) {
        const stage *s = k->stages.at[r->first];
        r->axis = own_axis(k, s);
        expr_list all = stage_nodes(scratch, s, PART_STEP | PART_VALUE);
        for (int j = all.n - 1; j >= 0 && r->axis && !found; j--) {
            r->value = all.at[j];
            found = expr_any(r->value, is_function) && repeats(r);
        }
        if (found) break;
    }
    arena_destroy(scratch);
    return found;
}

// ---------------------------------------------------------------- keeping
static expr *keep(void *user, expr *e) {
    const repeated *r = user;
    return e == r->here ? x_read(r->k, r->kept, (expr *[]){r->here_axis}) : NULL;
}

static void read_kept(repeated *r, stage *s) {
    if (!in_stage(r, s)) return;
    for (int j = 0; j < s->states.n; j++)
        s->states.at[j].step = expr_rewrite(r->k, s->states.at[j].step, keep, r);
    for (int j = 0; j < s->writes.n; j++)
        s->writes.at[j].value = expr_rewrite(r->k, s->writes.at[j].value, keep, r);
}

static void insert_stage(repeated *r) {
    kernel *k = r->k;
    stage *made = kernel_stage(k);
    expr *axis = stage_own_axis(k, made, AXIS_PARALLEL, "e", extent_of(r, r->axis));
    stage_write(k, made, r->kept, (expr *[]){axis}, expr_substitute_axis(k, r->value, r->axis->axis, axis));
    for (int j = r->first; j < k->stages.n - 1; j++) read_kept(r, k->stages.at[j]);
    for (int j = k->stages.n - 1; j > r->first; j--) k->stages.at[j] = k->stages.at[j - 1];
    k->stages.at[r->first] = made;
}

static void keep_terms(repeated *r) {
    kernel *k = r->k;
    stage_write(k, k->stages.at[r->first], r->kept, &r->axis, r->value)->when = WRITE_BEFORE;
    for (int j = r->first + 1; j < k->stages.n; j++) read_kept(r, k->stages.at[j]);
}

static void keep_values(repeated *r, bool in_order) {
    const stage *first = r->k->stages.at[r->first];
    buffer *spent = r->scarce ? find_array(r) : NULL;
    r->kept = spent;
    if (!spent) r->kept = kernel_local(r->k, "kept", r->value->dtype, 1, (dim *[]){extent_of(r, r->axis)});
    if (first->states.n && !in_order && !spent) keep_terms(r);
    else insert_stage(r);
}

void pass_row_values(pass_context *c) {
    for (int j = 0; j < c->program->kernels.n; j++) {
        repeated r = {.k = c->program->kernels.at[j], .scarce = !c->target->vector_bits};
        attention a;
        if (r.k->stages.n > 1 && !attention_match(r.k, &a) && find(&r))
            keep_values(&r, c->target->fp == FP_STRICT);
    }
}
