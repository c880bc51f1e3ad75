// Forests of small trees, walked by bits (QuickScorer: Lucchese et al., "QuickScorer: a fast algorithm to rank
// documents with additive ensembles of regression trees", SIGIR 2015; vectorised as in Lucchese et al. 2016).
// A tree's leaves are numbered from the one that is reached by true tests only. A false test excludes the leaves
// of the true branch; the row reaches the first leaf that is left:
//
//   left = all ones;  for all nodes i of tree t: left &= x[n, feature[i]] <= value[i] ? all ones : mask[i]
//   leaf[t, n] = row[t, trailing zeros of left]
//
// All nodes are tested, but without branches or gathers, for a vector of rows at a time: X is transposed.
#include "ir/ops/ml/tree.h"
#include <math.h>
#include <string.h>

typedef struct small_trees {
    const forest *f;
    int64_t nodes, leaves; // the largest numbers of a tree
} small_trees;

// Nodes of tree t in an order in which the leaves come as numbered; *count: how many, -1: more than 127 or a node
// twice.
enum { MOST_LEAVES = 64, MOST_NODES = 2 * MOST_LEAVES - 1 };
static void list_nodes(const forest *f, int t, int *nodes, int *count) {
    int stack[MOST_NODES + 1], top = 0;
    *count = 0;
    stack[top++] = (int)f->root.at[t];
    while (top) {
        int at = stack[--top];
        for (int j = 0; j < *count; j++)
            if (nodes[j] == at) *count = MOST_NODES;
        if (*count == MOST_NODES) {
            *count = -1;
            return;
        }
        nodes[(*count)++] = at;
        if (f->row.at[at] >= 0) continue;
        if (top + 2 > MOST_NODES) {
            *count = -1;
            return;
        }
        stack[top++] = (int)f->no.at[at];
        stack[top++] = (int)f->yes.at[at];
    }
}

int64_t tree_bits_leaf_count(const forest *f, int tree) {
    int nodes[MOST_NODES], count;
    list_nodes(f, tree, nodes, &count);
    int leaves = (count + 1) / 2;
    return count < 0 || leaves > MOST_LEAVES ? -1 : leaves;
}

static bool are_small(const forest *f, small_trees *s) {
    *s = (small_trees){.f = f};
    for (int t = 0; t < f->root.n; t++) {
        int64_t leaves = tree_bits_leaf_count(f, t);
        if (leaves < 0) return false;
        if (leaves > s->leaves) s->leaves = leaves;
    }
    s->nodes = s->leaves - 1;
    return true;
}

// Relative times of a node's test for a vector, and of a step of the walk for an element.
bool tree_bits_pay(const lowering *l, const forest *f, const dim *rows) {
    enum { TEST = 3, STEP = 2 };
    small_trees s;
    if ((dim_is_const(rows) && dim_value(rows) < TREE_BITS_ROWS) || !are_small(f, &s)) return false;
    int64_t lanes = l->program->module->vector_bits / (s.leaves > 32 || f->wide ? 64 : 32);
    return lanes > 1 && s.nodes * TEST < STEP * f->depth * lanes;
}

// ---------------------------------------------------------------- tables
typedef struct bit_tables {
    buffer *feature, *value, *missing, *mode, *mask;
    int64_t *row; // by place
    dtype bits;
} bit_tables;

// Fills tree t's part of the tables; unused places exclude no leaf.
static void fill_tree(const small_trees *s, int t, int64_t *node, uint64_t *mask, int64_t *row) {
    const forest *f = s->f;
    int nodes[MOST_NODES], count, inner = 0, leaf = 0, first[MOST_NODES];
    list_nodes(f, t, nodes, &count);
    for (int j = 0; j < count; j++) {
        first[j] = leaf;
        if (f->row.at[nodes[j]] >= 0) row[t * s->leaves + leaf++] = f->row.at[nodes[j]];
    }
    for (int j = 0; j < count; j++) {
        if (f->row.at[nodes[j]] >= 0) continue;
        int other = 0;
        while (nodes[other] != f->no.at[nodes[j]]) other++;
        int64_t at = t * s->nodes + inner++;
        int below = first[other] - first[j]; // leaves of the true branch
        node[at] = nodes[j];
        mask[at] = ~((below == 64 ? ~0ull : (1ull << below) - 1) << first[j]);
    }
}

static buffer *int_table(lowering *l, const char *name, dtype t, const int64_t *v, int64_t n) {
    constant *c = constant_new(l->program->arena, t, 1, &n);
    for (int64_t j = 0; j < n; j++) dtype_store_int(t, (void *)c->data, j, v[j]);
    return program_constant(l->program, name, c);
}

static buffer *picked(lowering *l, const char *name, const int64_t *from, const int64_t *node, int64_t n) {
    int64_t *to = ARENA_ARRAY(l->program->arena, int64_t, n + 1);
    for (int64_t j = 0; j < n; j++) to[j] = from[node[j]];
    return int_table(l, name, DT_I32, to, n);
}

static bit_tables make_tables(lowering *l, const small_trees *s, dtype t) {
    const forest *f = s->f;
    arena *a = f->arena;
    int64_t n = f->root.n * s->nodes, leaves = f->root.n * s->leaves, *node = ARENA_ARRAY(a, int64_t, n + 1);
    uint64_t *mask = ARENA_ARRAY(a, uint64_t, n + 1);
    double *value = ARENA_ARRAY(a, double, n + 1);
    bit_tables b = {.row = ARENA_ARRAY(a, int64_t, leaves + 1), .bits = s->leaves > 32 ? DT_I64 : DT_I32};
    for (int64_t j = 0; j < leaves; j++) b.row[j] = -1;
    memset(mask, 0xff, (size_t)n * sizeof *mask);
    for (int j = 0; j < f->root.n; j++) fill_tree(s, j, node, mask, b.row);
    for (int64_t j = 0; j < n; j++) value[j] = f->value.at[node[j]];
    b.feature = picked(l, "feature", f->feature.at, node, n);
    b.missing = picked(l, "missing", f->missing.at, node, n);
    b.mode = picked(l, "mode", f->mode.at, node, n);
    b.value = ml_floats(l, "value", t, value, n, 0);
    b.mask = int_table(l, "mask", b.bits, (const int64_t *)mask, n);
    return b;
}

// ---------------------------------------------------------------- kernels
// The infinity that passes all tests that NaN passes; 0: none does.
static double infinity_of(const forest *f) {
    double found = 0;
    for (int i = 0; i < f->mode.n; i++) {
        if (f->row.at[i] >= 0 || !f->missing.at[i]) continue;
        bool below = f->mode.at[i] == LEQ || f->mode.at[i] == LT;
        bool above = f->mode.at[i] == GTE || f->mode.at[i] == GT;
        double own = below ? -INFINITY : INFINITY;
        if (!(below || above) || !isfinite(f->value.at[i]) || (found != 0 && found != own)) return 0;
        found = own;
    }
    return found;
}

// Features of tests that NaN passes are `count` further on. The lists belong to other parts of the forest as well.
static void number_anew(forest *f, int64_t count) {
    int n = f->mode.n;
    int64_t *feature = ARENA_ARRAY(f->arena, int64_t, n), *missing = ARENA_ARRAY(f->arena, int64_t, n);
    for (int at = 0; at < n; at++) feature[at] = f->feature.at[at] + (f->missing.at[at] ? count : 0);
    f->feature.at = feature;
    f->missing.at = missing;
}

// X transposed. If an infinity can stand for NaN, there is a second copy with it, which the tests read that NaN passes.
static buffer *feature_rows(lowering *l, const node *n, forest *f, dtype t, tree_rows rows) {
    dim *all, *features;
    double infinity = infinity_of(f);
    ml_matrix(n, &all, &features);
    bool twice = infinity != 0 && dim_is_const(features);
    int64_t count = twice ? dim_value(features) : 0;
    buffer *to =
        lower_temp(l, n, "features", t, 2, (dim *[]){twice ? dim_mulk(features, 2) : features, rows.count});
    kernel *k = lower_kernel(l, n, "features");
    stage *s = kernel_stage(k);
    expr *j = stage_own_axis(k, s, AXIS_PARALLEL, "j", features),
         *i = stage_own_axis(k, s, AXIS_PARALLEL, "i", rows.count);
    expr *v = ml_read(k, lower_in(l, n, 0), x_add(k, x_dim(k, rows.first), i), j, t);
    stage_write(k, s, to, (expr *[]){j, i}, v);
    if (!twice) return to;
    expr *filled = x_select(k, x_un(k, X_ISNAN, v), x_float(k, t, infinity), v);
    stage_write(k, s, to, (expr *[]){x_add(k, j, x_i64(k, count)), i}, filled);
    number_anew(f, count);
    return to;
}

// The exponent of the lowest bit as a float; of the sign bit, too.
static expr *trailing_zeros(kernel *k, expr *bits) {
    bool wide = bits->dtype == DT_I64;
    expr *low = x_bin(k, X_AND, bits, x_un(k, X_NEG, bits));
    expr *code = x_bitcast(k, x_cast(k, low, wide ? DT_F64 : DT_F32, false), bits->dtype);
    expr *exponent = x_bin(k, X_AND, x_bin(k, X_SHR, code, x_int(k, code->dtype, wide ? 52 : 23)),
                           x_int(k, code->dtype, wide ? 2047 : 255));
    return x_cast(k, x_sub(k, exponent, x_int(k, code->dtype, wide ? 1023 : 127)), DT_I64, false);
}

tree_leaves tree_bits_leaves(lowering *l, const node *n, forest *f, dtype t, tree_rows rows, bool direct) {
    small_trees s;
    buffer *x = feature_rows(l, n, f, t, rows);
    are_small(f, &s);
    bit_tables b = make_tables(l, &s, t);
    tree_modes modes = tree_modes_of(f);
    dims *d = l->program->dims;
    buffer *leaf = lower_temp(l, n, "leaf", DT_I32, 2, (dim *[]){dim_const(d, f->root.n), rows.count});
    kernel *k;
    expr *at[2];
    stage *st = suffixed_stage(l, n, "leaf", leaf, &k, at);
    int step = kernel_axis(k, AXIS_SCAN, "node", dim_const(d, s.nodes));
    stage_axis(k, st, step);
    expr *left = stage_state(k, st, b.bits, x_int(k, b.bits, -1));
    expr *node = x_add(k, x_mul(k, at[0], x_i64(k, s.nodes)), x_axis(k, step));
    expr *feature = x_cast(k, tree_element(k, b.feature, node), DT_I64, false);
    expr *v = x_read(k, x, (expr *[]){feature, at[1]});
    expr *passes = tree_test(k, &modes, tree_element(k, b.mode, node), tree_element(k, b.missing, node), v,
                             tree_element(k, b.value, node));
    expr *rest = x_bin(k, X_AND, left, tree_element(k, b.mask, node));
    stage_step(st, 0, x_select(k, passes, left, rest), NULL);
    expr *place = x_add(k, x_mul(k, at[0], x_i64(k, s.leaves)), trailing_zeros(k, left));
    int64_t places = f->root.n * s.leaves;
    expr *row = direct ? x_cast(k, place, DT_I32, false)
                       : tree_element(k, int_table(l, "row", DT_I32, b.row, places), place);
    stage_write(k, st, leaf, at, row);
    return (tree_leaves){leaf, true, direct, b.row, places};
}
