// Recognises attention. In: a kernel. Out: whether its stages are scores, their maximum, weights, the sum of
// the weights and weighted values, and the operands of these.
#include "passes/match/attention.h"
#include "ir/kernel/edit.h"
#include "passes/match/form.h"

// Inlines a local: its reads become its value, over axis `to` instead of `from`.
typedef struct inlining {
    const buffer *local;
    expr *value;
    int from, to;
} inlining;
static expr *inline_local(void *user, kernel *k, const expr *read) {
    const inlining *in = user;
    if (read->buffer != in->local) return NULL;
    return expr_substitute_axis(k, in->value, in->from, x_axis(k, in->to));
}

static const write *only_write(const stage *s, int rank) {
    if (s->writes.n != 1) return NULL;
    const write *w = &s->writes.at[0];
    return write_is_plain(w) && w->to->role == BUF_LOCAL && w->to->rank == rank ? w : NULL;
}
static bool is_read_at(const expr *x, const buffer *b, int axis) {
    return x->op == X_READ && x->buffer == b &&
           (b->rank == 0 || (x->index[0]->op == X_AXIS && x->index[0]->axis == axis));
}
static bool is_single_sum(const stage *s, reduce_op op) {
    return s->states.n == 1 && s->states.at[0].op == op && s->states.at[0].dtype == DT_F32;
}
static bool is_state(const expr *x) { return x->op == X_STATE && x->axis == 0; }

// exp(score - top), perhaps with a finite number in place of top = -inf.
static bool is_weight(const expr *x, const buffer *score, const buffer *top, int axis) {
    if (x->op != X_EXP || x->arg[0]->op != X_SUB || !is_read_at(x->arg[0]->arg[0], score, axis)) return false;
    const expr *m = x->arg[0]->arg[1];
    if (m->op == X_SELECT && m->arg[0]->op == X_EQ && m->arg[1]->op == X_CONST) m = m->arg[2];
    return is_read_at(m, top, -1);
}

typedef struct stages {
    const stage *max, *weight, *sum; // weight may be NULL: not stored
    const write *score, *top, *weights, *total;
} stages;

static bool find_stages(const kernel *k, attention *a, stages *s) {
    int n = k->stages.n;
    stage *const *at = k->stages.at;
    if (n > 4 && !at[n - 1]->axes.n && !at[n - 1]->states.n) a->kept = at[--n];
    if (n != 4 && n != 5) return false;
    a->score = at[0], s->max = at[1], s->weight = n == 5 ? at[2] : NULL, s->sum = at[n - 2],
    a->value = at[n - 1];
    s->score = only_write(a->score, 1), s->top = only_write(s->max, 0), s->total = only_write(s->sum, 0);
    s->weights = s->weight ? only_write(s->weight, 1) : NULL;
    if (!s->score || !s->top || !s->total || (s->weight && (!s->weights || s->weight->axes.n != 1)))
        return false;
    if (a->score->axes.n != 2 || s->max->axes.n != 1 || s->sum->axes.n != 1 || a->value->axes.n != 2)
        return false;
    if (!is_single_sum(a->score, RED_SUM) ||
        (!is_single_sum(s->max, RED_MAX) && !is_single_sum(s->max, RED_NUMBER_MAX)) ||
        !is_single_sum(s->sum, RED_SUM) || !is_single_sum(a->value, RED_SUM))
        return false;
    a->j = a->score->axes.at[0], a->d = a->score->axes.at[1], a->e = a->value->axes.at[0],
    a->jv = a->value->axes.at[1];
    return is_state(s->top->value) && is_state(s->total->value) && s->score->index[0]->op == X_AXIS &&
           s->score->index[0]->axis == a->j;
}

// x over its own key axis, with stored weights inlined and the key axis renamed to j.
static expr *resolve(kernel *k, const attention *a, const stages *s, expr *x, int axis) {
    if (s->weights) {
        inlining in = {s->weights->to, s->weights->value, s->weight->axes.at[0], axis};
        x = expr_rewrite_reads(k, x, inline_local, &in);
    }
    return expr_substitute_axis(k, x, axis, x_axis(k, a->j));
}

static bool split_product(expr *x, int axis, expr **without, expr **with) {
    if (x->op != X_MUL) return false;
    bool first = expr_uses_axis(x->arg[0], axis);
    if (first == expr_uses_axis(x->arg[1], axis)) return false;
    *with = x->arg[first ? 0 : 1], *without = x->arg[first ? 1 : 0];
    return true;
}

// Whether the expression reads no local but `a` and `b`.
static bool reads_only_locals(arena *scratch, expr *x, const buffer *a, const buffer *b) {
    expr_list reads = reads_only(expr_nodes(scratch, x));
    for (int j = 0; j < reads.n; j++) {
        const buffer *from = reads.at[j]->buffer;
        if (from->role == BUF_LOCAL && from != a && from != b) return false;
    }
    return true;
}

bool attention_match(kernel *k, attention *a) {
    stages s;
    *a = (attention){.k = k, .i = k->nouter - 1};
    if (k->nouter < 1 || !find_stages(k, a, &s)) return false;
    expr *weight;
    if (!split_product(a->score->states.at[0].step, a->j, &a->q, &a->key)) return false;
    if (!split_product(a->value->states.at[0].step, a->e, &weight, &a->v)) return false;
    weight = resolve(k, a, &s, weight, a->jv);
    int sum_axis = s.sum->axes.at[0], max_axis = s.max->axes.at[0];
    if (!is_weight(weight, s.score->to, s.top->to, a->j) ||
        !is_read_at(s.max->states.at[0].step, s.score->to, max_axis))
        return false;
    if (resolve(k, a, &s, s.sum->states.at[0].step, sum_axis) != weight) return false;
    if (expr_uses_axis(a->key, a->i) || expr_uses_axis(a->v, a->i)) return false;
    if (a->value->writes.n != 1 || a->value->writes.at[0].when != WRITE_END) return false;
    a->total = s.total->to, a->top = s.top->to;
    for (int j = 0; a->kept && j < a->kept->writes.n; j++) {
        const expr *x = a->kept->writes.at[j].value;
        if (!is_read_at(x, a->top, -1) && !is_read_at(x, a->total, -1)) return false;
    }
    return reads_only_locals(k->arena, a->value->writes.at[0].value, a->total, a->top) &&
           reads_only_locals(k->arena, s.score->value, NULL, NULL);
}
