// The scores of a forest, by two kernels for each part of it:
//
//   leaf[n, t]: the leaf that row n of X reaches in tree t (tree_walk.c, tree_bits.c)
//   score[n, j] = sum (or minimum, maximum) over t of the weight of leaf[n, t] for target j
//
// Parts are trees of about the same size, by bits or by walks, whichever is faster for them. If the number of rows is not
// known, those that fill vectors may be walked by bits, and the rest from node to node.
#include "ir/ops/ml/tree.h"
#include <float.h>
#include <string.h>

// ---------------------------------------------------------------- tests
// Whether the test of mode m is true.
static expr *test(kernel *k, branch m, expr *v, expr *limit) {
    switch (m) {
    case LEQ: return x_bin(k, X_LE, v, limit);
    case LT: return x_lt(k, v, limit);
    case GTE: return x_bin(k, X_LE, limit, v);
    case GT: return x_lt(k, limit, v);
    case EQ: return x_bin(k, X_EQ, v, limit);
    case NEQ: return x_bin(k, X_NE, v, limit);
    case MEMBER:
    case BRANCHES: break;
    }
    return x_int(k, DT_BOOL, 0);
}

tree_modes tree_modes_of(const forest *f) {
    tree_modes m = {{false}, false};
    for (int i = 0; i < f->mode.n; i++) {
        if (f->row.at[i] >= 0) continue;
        m.used[f->mode.at[i]] = true;
        m.missing |= f->missing.at[i] != 0;
    }
    return m;
}

expr *tree_test(kernel *k, const tree_modes *m, expr *mode, expr *missing, expr *v, expr *limit) {
    expr *result = NULL;
    for (int j = 0; j < BRANCHES; j++) {
        if (!m->used[j]) continue;
        expr *one = test(k, (branch)j, v, limit);
        result = result ? x_select(k, x_bin(k, X_EQ, mode, x_int(k, mode->dtype, j)), one, result) : one;
    }
    if (!result) return x_int(k, DT_BOOL, 0);
    if (!m->missing) return result;
    expr *tracks = x_bin(k, X_NE, missing, x_int(k, missing->dtype, 0));
    return x_bin(k, X_OR, result, x_and(k, x_un(k, X_ISNAN, v), tracks));
}

// ---------------------------------------------------------------- parts
enum { GROUPS = 7, FEWEST = 16 }; // by leaves: up to 2, 4, 8, 16, 32, 64, more

typedef struct part {
    forest f; // with some of the trees
    bool by_bits;
} part;
typedef struct parts {
    part at[GROUPS];
    int n;
} parts;

static void add_tree(part *p, const forest *f, int t) {
    VEC_PUSH(f->arena, &p->f.root, f->root.at[t]);
    VEC_PUSH(f->arena, &p->f.depth_of, f->depth_of.at[t]);
    if (f->depth_of.at[t] > p->f.depth) p->f.depth = f->depth_of.at[t];
}

static part empty_part(const forest *f) {
    part p = {.f = *f};
    memset(&p.f.root, 0, sizeof p.f.root);
    memset(&p.f.depth_of, 0, sizeof p.f.depth_of);
    p.f.depth = 0;
    return p;
}

static int group_of(const forest *f, int t) {
    int64_t leaves = tree_bits_leaf_count(f, t);
    int group = 0;
    while (group < GROUPS - 1 && leaves > 2ll << group) group++;
    return leaves < 0 ? GROUPS - 1 : group;
}

// Groups of few trees join the next one. All trees that are not walked by bits are one part, the last. rows: that may
// be walked by bits; NULL: none.
static parts *make_parts(const lowering *l, const forest *f, const dim *rows) {
    part group[GROUPS], walked = empty_part(f);
    parts *all = ARENA_NEW(f->arena, parts);
    for (int g = 0; g < GROUPS; g++) group[g] = empty_part(f);
    for (int t = 0; t < f->root.n; t++) add_tree(&group[group_of(f, t)], f, t);
    for (int g = 0; g < GROUPS; g++) {
        const forest *own = &group[g].f;
        bool last = g == GROUPS - 1, few = own->root.n < FEWEST && !last,
             bits = rows && !few && own->root.n && tree_bits_pay(l, own, rows);
        part *to = few ? &group[g + 1] : &walked;
        group[g].by_bits = true;
        if (bits) all->at[all->n++] = group[g];
        for (int t = 0; !bits && t < own->root.n; t++) add_tree(to, own, t);
    }
    if (walked.f.root.n) all->at[all->n++] = walked;
    return all;
}

// ---------------------------------------------------------------- targets of trees
enum { NO_TARGET = -1, SEVERAL = -2 };

static int64_t both_targets(int64_t a, int64_t b) {
    return a == NO_TARGET || a == b ? b : b == NO_TARGET ? a : SEVERAL;
}

// Per row of the leaves their target.
static int64_t *row_targets(const forest *f) {
    int64_t *target = ARENA_ARRAY(f->arena, int64_t, f->rows + 1);
    for (int64_t i = 0; i < f->rows; i++) target[i] = NO_TARGET;
    for (int i = 0; i < f->target.n; i++)
        target[f->entry_row.at[i]] = both_targets(target[f->entry_row.at[i]], f->target.at[i]);
    return target;
}

// Per tree the target of its leaves.
static int64_t *tree_targets(const forest *f) {
    int64_t *of_row = row_targets(f), *target = ARENA_ARRAY(f->arena, int64_t, f->root.n + 1);
    int *seen = ARENA_ARRAY(f->arena, int, f->row.n + 1),
        *stack = ARENA_ARRAY(f->arena, int, 2 * f->row.n + 2);
    for (int t = 0; t < f->root.n; t++) {
        int top = 0;
        target[t] = NO_TARGET;
        stack[top++] = (int)f->root.at[t];
        while (top) {
            int at = stack[--top];
            if (seen[at] == t + 1) continue;
            seen[at] = t + 1;
            if (f->row.at[at] >= 0) target[t] = both_targets(target[t], of_row[f->row.at[at]]);
            else stack[top++] = (int)f->yes.at[at], stack[top++] = (int)f->no.at[at];
        }
    }
    return target;
}

// If each tree has a single target, as in boosting for several classes: sorts the trees by target, with trees of an empty
// leaf where a target has fewer, and returns how many each has. Otherwise 0.
static int sort_by_target(forest *f, int64_t empty) {
    int64_t *target = tree_targets(f), each = 0, *count = ARENA_ARRAY(f->arena, int64_t, f->targets + 1);
    for (int t = 0; t < f->root.n; t++) {
        if (target[t] < 0) return 0;
        if (++count[target[t]] > each) each = count[target[t]];
    }
    if (each * f->targets > f->root.n + f->root.n / 2) return 0;
    forest sorted = *f;
    memset(&sorted.root, 0, sizeof sorted.root);
    memset(&sorted.depth_of, 0, sizeof sorted.depth_of);
    for (int64_t t = 0; t < each * f->targets; t++) {
        VEC_PUSH(f->arena, &sorted.root, empty);
        VEC_PUSH(f->arena, &sorted.depth_of, (int64_t)0);
    }
    for (int t = f->root.n - 1; t >= 0; t--) {
        int64_t at = target[t] * each + --count[target[t]];
        sorted.root.at[at] = f->root.at[t], sorted.depth_of.at[at] = f->depth_of.at[t];
    }
    *f = sorted;
    return (int)each;
}

typedef struct scoring {
    lowering *l;
    const node *n;
    const forest *f; // all trees
    int64_t empty;   // a leaf without entries
    aggregate how;
    buffer *scores;
    double none;
} scoring;

// ---------------------------------------------------------------- weights
// The weights of all leaves for all targets; `none` where a leaf has no entry.
static double *leaf_weights(const forest *f, double none) {
    int64_t count = f->rows * f->targets;
    double *all = ARENA_ARRAY(f->arena, double, count + 1);
    bool *given = ARENA_ARRAY(f->arena, bool, count + 1);
    for (int64_t i = 0; i < count; i++) all[i] = none;
    for (int i = 0; i < f->target.n; i++) {
        int64_t at = f->entry_row.at[i] * f->targets + f->target.at[i];
        all[at] = given[at] && none == 0 ? all[at] + f->weight.at[i] : f->weight.at[i];
        given[at] = true;
    }
    return all;
}

// Whether each leaf has at most one target, so that two lists are sufficient.
static bool is_single(const forest *f) {
    bool *seen = ARENA_ARRAY(f->arena, bool, f->rows + 1);
    for (int i = 0; i < f->entry_row.n; i++) {
        if (seen[f->entry_row.at[i]]) return false;
        seen[f->entry_row.at[i]] = true;
    }
    return true;
}

static expr *single_weight(const scoring *s, kernel *k, dtype t, expr *row, expr *target) {
    lowering *l = s->l;
    const forest *f = s->f;
    int64_t count = f->rows ? f->rows : 1, *targets = ARENA_ARRAY(f->arena, int64_t, count);
    double *weights = ARENA_ARRAY(f->arena, double, count);
    for (int64_t i = 0; i < count; i++) targets[i] = -1;
    for (int i = 0; i < f->target.n; i++) {
        targets[f->entry_row.at[i]] = f->target.at[i];
        weights[f->entry_row.at[i]] = f->weight.at[i];
    }
    expr *weight = x_read(k, ml_floats(l, "weight", t, weights, count, 0), &row);
    expr *own = x_read(k, ml_ints(l, "target", targets, count), &row);
    return x_select(k, x_bin(k, X_EQ, own, target), weight, x_float(k, t, s->none));
}

// The weight of a place that has a single target.
static expr *direct_weight(const scoring *s, kernel *k, dtype t, const tree_leaves *v, expr *place) {
    const forest *f = s->f;
    double *all = leaf_weights(f, s->none), *of_place = ARENA_ARRAY(f->arena, double, v->places + 1);
    int64_t *target = row_targets(f);
    for (int64_t i = 0; i < v->places; i++) {
        int64_t row = v->row[i];
        of_place[i] = row < 0 ? 0 : all[row * f->targets + (target[row] > 0 ? target[row] : 0)];
    }
    return x_read(k, ml_floats(s->l, "weight", t, of_place, v->places, 0), &place);
}

static expr *weight_of(const scoring *s, kernel *k, dtype t, const tree_leaves *v, expr *leaf, expr *target) {
    const forest *f = s->f;
    if (v->direct) return direct_weight(s, k, t, v, leaf);
    if (is_single(f)) return single_weight(s, k, t, leaf, target);
    buffer *all = ml_floats(s->l, "weight", t, leaf_weights(f, s->none), f->rows * f->targets, f->targets);
    return x_read(k, all, (expr *[]){leaf, target});
}

// ---------------------------------------------------------------- kernels
// The final score of target j: with base values.
static expr *finished(const scoring *s, kernel *k, expr *v, expr *target) {
    const forest *f = s->f;
    dtype t = v->dtype;
    // A target without a leaf has score 0.
    if (s->none != 0) v = x_select(k, x_bin(k, X_EQ, v, x_float(k, t, s->none)), x_float(k, t, 0), v);
    if (s->how == AVERAGE) v = x_div(k, v, x_float(k, t, f->root.n));
    if (!f->base) return v;
    expr *which = f->nbase == 1 ? x_i64(k, 0) : target;
    return x_add(k, v, x_read(k, ml_floats(s->l, "base", t, f->base, f->nbase, 0), &which));
}

// Combines the scores of the parts before (NULL: none) with the scores of p.
static buffer *add_part(const scoring *s, part *p, tree_rows rows, buffer *before, bool last) {
    lowering *l = s->l;
    dims *d = l->program->dims;
    dtype t = s->scores->dtype;
    dim *targets = s->scores->dims[1], *sizes[] = {rows.count, targets};
    int each = sort_by_target(&p->f, s->empty);
    bool direct = each > 0;
    tree_leaves leaves = p->by_bits ? tree_bits_leaves(l, s->n, &p->f, p->f.wide ? DT_F64 : t, rows, direct)
                                    : tree_walk_leaves(l, s->n, &p->f, p->f.wide ? DT_F64 : t, rows, direct);
    buffer *to = last ? s->scores : lower_temp(l, s->n, "part", t, 2, sizes);
    kernel *k = lower_kernel(l, s->n, "raw");
    stage *st = kernel_stage(k);
    expr *at[2];
    for (int j = 0; j < 2; j++) at[j] = stage_own_axis(k, st, AXIS_PARALLEL, j ? "j" : "i", sizes[j]);
    expr *tree = stage_own_axis(k, st, AXIS_REDUCE, "t", dim_const(d, each ? each : p->f.root.n));
    if (each) tree = x_add(k, x_mul(k, at[1], x_i64(k, each)), tree);
    expr *leaf = x_read(k, leaves.leaf, leaves.turned ? (expr *[]){tree, at[0]} : (expr *[]){at[0], tree});
    expr *weight = weight_of(s, k, t, &leaves, x_cast(k, leaf, DT_I64, false), at[1]);
    reduce_op op = s->how == MINIMUM ? RED_MIN : s->how == MAXIMUM ? RED_MAX : RED_SUM;
    expr_op both = s->how == MINIMUM ? X_MIN : s->how == MAXIMUM ? X_MAX : X_ADD;
    expr *v = stage_reduce(k, st, op, weight);
    if (before) v = x_bin(k, both, x_read(k, before, at), v);
    if (last) v = finished(s, k, v, at[1]), at[0] = x_add(k, x_dim(k, rows.first), at[0]);
    stage_write(k, st, to, at, v);
    return to;
}

static void score_rows(const scoring *s, parts *all, tree_rows rows) {
    buffer *before = NULL;
    for (int j = 0; j < all->n; j++) before = add_part(s, &all->at[j], rows, before, j == all->n - 1);
}

static void check_width(lowering *l, const node *n, const forest *f, dim *features) {
    int64_t most = 0;
    for (int i = 0; i < f->feature.n; i++) most = f->feature.at[i] > most ? f->feature.at[i] : most;
    lower_check(l, n, dim_lt(dim_const(features->table, most), features),
                "X has fewer features than the trees use");
}

void tree_scores(lowering *l, const node *n, forest *f, aggregate how, buffer *scores) {
    double most = scores->dtype == DT_F64 ? DBL_MAX : (double)FLT_MAX;
    double none = how == MINIMUM ? most : how == MAXIMUM ? -most : 0;
    scoring s = {
        .l = l, .n = n, .f = f, .empty = tree_empty_leaf(f), .how = how, .scores = scores, .none = none};
    dim *rows, *features, *zero = dim_const(l->program->dims, 0);
    ml_matrix(n, &rows, &features);
    check_width(l, n, f, features);
    int64_t lanes = l->program->module->vector_bits / 32;
    if (dim_is_const(rows) || !lanes) {
        score_rows(&s, make_parts(l, f, rows), (tree_rows){zero, rows});
        return;
    }
    // Few rows after the last full vector are walked.
    dim *rest = dim_mod(rows, dim_const(rows->table, lanes)), *few = dim_const(rows->table, TREE_BITS_ROWS);
    dim *walked = dim_select(dim_lt(rest, few), rest, zero), *whole = dim_sub(rows, walked);
    parts *fast = make_parts(l, f, whole);
    bool split = fast->at[0].by_bits;
    score_rows(&s, fast, (tree_rows){zero, split ? whole : rows});
    if (split) score_rows(&s, make_parts(l, f, NULL), (tree_rows){whole, walked});
}
