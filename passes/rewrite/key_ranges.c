// Ranges of keys that a mask in memory allows. In: kernels of the form attention whose scores are masked by data along
// the keys. Out: a kernel that finds the first and the last key which any row may see, and attention within that range, so
// that schedules read nothing else of a cache.
//
//   score[j] = select(mask[i, j], s, -inf)           first = min over i, j of (mask[i, j] ? j : keys)
//                                                    end = max over i, j of (mask[i, j] ? j + 1 : 0)
//                                                    score[j] = select(first <= j & j < end & mask[i, j], s, -inf)
//
// A mask that is added, s + mask[i, j], hides a key by a number so low that the weight is 0 beside any other; if all
// keys are hidden in that way, the range has all of them. Kernels with the same mask share the range.
#include "ir/kernel/edit.h"
#include "ir/kernel/variant.h"
#include "passes/match/attention.h"
#include "passes/passes.h"
#include <math.h>
#include <string.h>

enum { FEW_KEYS = 128, MOST_TERMS = 8 };
#define LOW (-1e30)

// The condition as an expression of the pass's own kernel, in which equal ones are the same node.
typedef struct range {
    expr *sees;
    const region *region;
    buffer *first, *end;
    int outer[MAX_RANK], nouter; // axes of the attention kernel that index both
} range;

typedef struct finder {
    program *p;
    kernel *common;
    VEC(range) ranges;
} finder;

// ---------------------------------------------------------------- the mask
typedef struct mask {
    expr *sees; // NULL: none
    bool soft;  // hidden keys keep a finite score
} mask;

static bool is_foreign(const expr *x) {
    bool local = x->op == X_READ && x->buffer->role == BUF_LOCAL;
    return local || x->op == X_STATE || x->op == X_OTHER || x->op == X_CHECK;
}

static bool reads_along(expr *x, int axis) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(expr_nodes(scratch, x));
    bool found = false;
    for (int j = 0; j < reads.n; j++) found |= expr_uses_axis(reads.at[j], axis);
    arena_destroy(scratch);
    return found;
}

// Whether x depends on the key, by data or, if hidden keys keep a finite score, in any way: other comparisons of the key with a
// value of the row are left to schedules.
static bool is_mask(const attention *a, expr *x, bool soft) {
    return expr_uses_axis(x, a->j) && !expr_any(x, is_foreign) && (soft || reads_along(x, a->j));
}

static void add_conjuncts(kernel *k, const attention *a, expr *x, mask *m, bool soft) {
    if (x->op == X_AND) {
        for (int j = 0; j < 2; j++) add_conjuncts(k, a, x->arg[j], m, soft);
        return;
    }
    if (!is_mask(a, x, soft)) return;
    m->sees = m->sees ? x_and(k, m->sees, x) : x;
    m->soft |= soft;
}

static bool is_low(const expr *x) { return x->op == X_CONST && dtype_is_float(x->dtype) && x->f <= LOW; }

// Whether a term of the score may hide keys.
static bool may_hide(const attention *a, expr *x) { return is_mask(a, x, expr_any(x, is_low)); }

static mask find_mask(kernel *k, const attention *a) {
    mask m = {0};
    expr *x = a->score->writes.at[0].value;
    for (int depth = 0; depth < MOST_TERMS; depth++) {
        if (x->op == X_SELECT && is_low(x->arg[2])) {
            add_conjuncts(k, a, x->arg[0], &m, !isinf(x->arg[2]->f));
            x = x->arg[1];
        } else if (x->op == X_ADD && dtype_is_float(x->dtype)) {
            int term = may_hide(a, x->arg[1]);
            if (!term && !may_hide(a, x->arg[0])) return m;
            add_conjuncts(k, a, x_lt(k, x_float(k, x->dtype, LOW), x->arg[term]), &m, true);
            x = x->arg[1 - term];
        } else {
            return m;
        }
    }
    return m;
}

// ---------------------------------------------------------------- its range
// An axis of the common kernel for the axis of an attention kernel.
static expr *common_axis(kernel *common, int number, const axis *from) {
    const char *name = arena_printf(common->arena, "%d", number);
    for (int j = 0; j < common->axes.n; j++)
        if (common->axes.at[j].extent == from->extent && strcmp(common->axes.at[j].name, name) == 0)
            return x_axis(common, j);
    return x_axis(common, kernel_axis(common, AXIS_PARALLEL, name, from->extent));
}

static expr *in_common(const finder *f, const attention *a, expr *sees) {
    expr *axes[64];
    const kernel *k = a->k;
    for (int j = 0; j <= a->j; j++) {
        bool used = j < k->nouter || j == a->j;
        axes[j] = used ? common_axis(f->common, j < k->nouter ? j : k->nouter, &k->axes.at[j]) : NULL;
    }
    return expr_substitute(f->common, sees, axes, NULL);
}

static const range *find_range(const finder *f, const region *r, const expr *sees) {
    for (int j = 0; j < f->ranges.n; j++)
        if (f->ranges.at[j].sees == sees && f->ranges.at[j].region == r) return &f->ranges.at[j];
    return NULL;
}

static void write_range(kernel *k, const attention *a, const range *r, const mask *m, expr *const *axes) {
    expr *outer[MAX_RANK], *keys = x_dim(k, a->k->axes.at[a->j].extent), *none = x_i64(k, 0), *own[64];
    for (int j = 0; j < r->nouter; j++) outer[j] = axes[r->outer[j]];
    memcpy(own, axes, sizeof own);
    stage *s = kernel_stage(k);
    const axis *row = &a->k->axes.at[a->i];
    own[a->i] = stage_own_axis(k, s, AXIS_REDUCE, "i", row->extent);
    own[a->j] = stage_own_axis(k, s, AXIS_REDUCE, "j", a->k->axes.at[a->j].extent);
    expr *sees = expr_substitute(k, m->sees, own, NULL), *at = own[a->j];
    expr *first = stage_reduce(k, s, RED_MIN, x_select(k, sees, at, keys));
    expr *end = stage_reduce(k, s, RED_MAX, x_select(k, sees, x_add(k, at, x_i64(k, 1)), none));
    expr *hidden = x_bin(k, X_EQ, end, none);
    stage_write(k, s, r->first, outer, m->soft ? x_select(k, hidden, none, first) : first);
    stage_write(k, s, r->end, outer, m->soft ? x_select(k, hidden, keys, end) : end);
}

static const range *make_range(finder *f, region *r, step *at, const attention *a, const mask *m,
                               expr *common) {
    range made = {.sees = common, .region = r};
    expr *axes[64] = {NULL};
    dim *dims[MAX_RANK];
    kernel *k = variant_new(f->p, a->k, arena_printf(f->p->arena, "%s_keys", a->k->name), NULL);
    for (int j = 0; j < a->i; j++) {
        if (!expr_uses_axis(m->sees, j)) continue;
        axes[j] = x_axis(k, kernel_axis(k, AXIS_PARALLEL, a->k->axes.at[j].name, a->k->axes.at[j].extent));
        dims[made.nouter] = a->k->axes.at[j].extent;
        made.outer[made.nouter++] = j;
    }
    k->nouter = k->axes.n;
    made.first = program_temp(f->p, "first_key", DT_I64, made.nouter, dims);
    made.end = program_temp(f->p, "end_key", DT_I64, made.nouter, dims);
    write_range(k, a, &made, m, axes);
    step_insert(f->p, r, step_index(r, at), STEP_KERNEL, a->k->loc)->kernel = k;
    VEC_PUSH(f->p->arena, &f->ranges, made);
    return &f->ranges.at[f->ranges.n - 1];
}

// ---------------------------------------------------------------- attention within it
static void narrow(kernel *k, const attention *a, const range *r) {
    write *w = &((stage *)a->score)->writes.at[0];
    expr *outer[MAX_RANK], *value = w->value, *lowest = x_float(k, value->dtype, -INFINITY);
    for (int j = 0; j < r->nouter; j++) outer[j] = x_axis(k, r->outer[j]);
    expr *at = x_axis(k, a->j), *first = x_bin(k, X_LE, x_read(k, r->first, outer), at);
    expr *sees = x_and(k, first, x_lt(k, at, x_read(k, r->end, outer)));
    if (value->op == X_SELECT && value->arg[2] == lowest) {
        sees = x_and(k, sees, value->arg[0]);
        value = value->arg[1];
    }
    w->value = x_select(k, sees, value, lowest);
}

// Self-attention sees most of its keys, and few keys take as long as finding their range.
static bool may_gain(const kernel *k, const attention *a) {
    const dim *rows = k->axes.at[a->i].extent, *keys = k->axes.at[a->j].extent;
    return k->nouter <= MAX_RANK && k->axes.n <= 63 && keys->max > FEW_KEYS &&
           dim_equal(rows, keys) != TRI_YES && !dim_is_opaque(keys);
}

static void visit(finder *f, region *r, step *s) {
    attention a;
    kernel *k = s->kernel;
    if (!attention_match(k, &a) || a.kept || !may_gain(k, &a)) return;
    mask m = find_mask(k, &a);
    if (!m.sees) return;
    if (!f->common) f->common = kernel_new(f->p, "common", NULL);
    expr *common = in_common(f, &a, m.sees);
    const range *found = find_range(f, r, common);
    narrow(k, &a, found ? found : make_range(f, r, s, &a, &m, common));
}

void pass_key_ranges(pass_context *c) {
    program *p = c->program;
    finder f = {.p = p};
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++)
        if (steps.at[j].s->kind == STEP_KERNEL) visit(&f, steps.at[j].region, steps.at[j].s);
    if (f.common) program_compact(p);
}
