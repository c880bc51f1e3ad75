// Forests walked from node to node, for a vector of trees at a time. The successors of an inner node are adjacent: the one
// of a failed test, then the child of a passed one. A slot is a node at such a place:
//
//   place[n, t]: at = root[t]; for depth: at = child[at] + (x[n, feature[at]] <= value[at])
//
// A leaf's child is its own place, and its value is NaN, which no test passes: a walk stays at its leaf, and ends early
// when all its lanes are at theirs. Child and feature share a word. Trees are in blocks: a block's nodes are
// used for all rows while they are in the cache.
#include "ir/ops/ml/tree.h"
#include <math.h>

// The fields of a word, from the lowest bit: feature, whether NaN passes, mode, child. A word with a child that does not
// fit has a separate table for children.
typedef struct fields {
    int missing, mode, child, end;
} fields;

typedef struct slots {
    const forest *f;
    VEC(int64_t) node, child; // by slot
    int64_t *root;            // slot by tree
    tree_modes modes;
    fields at;
} slots;

static int bits_of(int64_t most) {
    int n = 0;
    while (most >> n) n++;
    return n;
}

// ---------------------------------------------------------------- slots
// Slots of the nodes below the root, breadth first. Nodes with several parents have several slots, but a single pair of
// successors.
static void add_tree(slots *s, int tree, int64_t *pair) {
    const forest *f = s->f;
    arena *a = f->arena;
    s->root[tree] = s->node.n;
    VEC_PUSH(a, &s->node, f->root.at[tree]);
    VEC_PUSH(a, &s->child, (int64_t)-1);
    for (int i = (int)s->root[tree]; i < s->node.n; i++) {
        int64_t node = s->node.at[i];
        bool leaf = f->row.at[node] >= 0, swapped = f->mode.at[node] == NEQ;
        if (!leaf && !pair[node]) {
            pair[node] = s->node.n;
            VEC_PUSH(a, &s->node, swapped ? f->yes.at[node] : f->no.at[node]);
            VEC_PUSH(a, &s->node, swapped ? f->no.at[node] : f->yes.at[node]);
            VEC_PUSH(a, &s->child, (int64_t)-1);
            VEC_PUSH(a, &s->child, (int64_t)-1);
        }
        s->child.at[i] = leaf ? i : pair[node];
    }
}

// The opposite of inequality is equality, which NaN as a limit fails like all other tests.
static int64_t mode_of(const forest *f, int64_t node) {
    return f->mode.at[node] == NEQ ? EQ : f->mode.at[node];
}
static bool passes_missing(const forest *f, int64_t node) {
    return f->missing.at[node] && f->mode.at[node] != NEQ && f->row.at[node] < 0;
}

static tree_modes slot_modes(const forest *f) {
    tree_modes m = {{false}, false};
    for (int i = 0; i < f->mode.n; i++) {
        if (f->row.at[i] >= 0) continue;
        m.used[mode_of(f, i)] = true;
        m.missing |= passes_missing(f, i);
    }
    return m;
}

static fields place_fields(const slots *s) {
    int64_t most = 0;
    int modes = 0;
    for (int i = 0; i < s->f->feature.n; i++) most = s->f->feature.at[i] > most ? s->f->feature.at[i] : most;
    for (int m = 0; m < BRANCHES; m++) modes += s->modes.used[m];
    fields at = {.missing = bits_of(most)};
    at.mode = at.missing + s->modes.missing;
    at.child = at.mode + (modes > 1 ? bits_of(BRANCHES - 1) : 0);
    at.end = at.child + bits_of(s->node.n);
    return at;
}

static slots make_slots(const forest *f) {
    slots s = {.f = f, .root = ARENA_ARRAY(f->arena, int64_t, f->root.n + 1), .modes = slot_modes(f)};
    int64_t *pair = ARENA_ARRAY(f->arena, int64_t, f->feature.n + 1);
    for (int t = 0; t < f->root.n; t++) add_tree(&s, t, pair);
    s.at = place_fields(&s);
    return s;
}

// ---------------------------------------------------------------- tables
static buffer *int_table(lowering *l, const char *name, const int64_t *v, int64_t n) {
    constant *c = constant_new(l->program->arena, DT_I32, 1, &n);
    for (int64_t j = 0; j < n; j++) dtype_store_int(DT_I32, (void *)c->data, j, v[j]);
    return program_constant(l->program, name, c);
}

typedef struct walk {
    const slots *s;
    buffer *x, *word, *child, *value; // child: NULL if the words have it
    dtype t;
} walk;

// A word is not negative.
static bool is_packed(const slots *s) { return s->at.end < 32; }

static walk make_walk(lowering *l, const slots *s, buffer *x, dtype t) {
    const forest *f = s->f;
    int64_t n = s->node.n, *word = ARENA_ARRAY(f->arena, int64_t, n + 1);
    double *value = ARENA_ARRAY(f->arena, double, n + 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t node = s->node.at[i];
        bool leaf = f->row.at[node] >= 0;
        word[i] = leaf ? 0 : f->feature.at[node];
        if (s->modes.missing) word[i] |= (int64_t)passes_missing(f, node) << s->at.missing;
        if (s->at.child > s->at.mode && !leaf) word[i] |= mode_of(f, node) << s->at.mode;
        if (is_packed(s)) word[i] |= s->child.at[i] << s->at.child;
        value[i] = leaf ? NAN : f->value.at[node];
    }
    walk w = {.s = s, .x = x, .t = t};
    w.word = int_table(l, "node", word, n);
    w.child = is_packed(s) ? NULL : int_table(l, "child", s->child.at, n);
    w.value = ml_floats(l, "value", t, value, n, 0);
    return w;
}

// ---------------------------------------------------------------- kernel
static expr *field(kernel *k, expr *word, int from, int to) {
    int64_t mask = (int64_t)((1ull << (to - from)) - 1);
    return x_bin(k, X_AND, x_bin(k, X_SHR, word, x_int(k, DT_I32, from)), x_int(k, DT_I32, mask));
}

static expr *next_place(kernel *k, const walk *w, expr *row, expr *place) {
    const fields *at = &w->s->at;
    expr *slot = x_cast(k, place, DT_I64, false), *word = tree_element(k, w->word, slot);
    expr *feature = x_cast(k, field(k, word, 0, at->missing), DT_I64, false);
    expr *v = ml_read(k, w->x, row, feature, w->t);
    expr *passes = tree_test(k, &w->s->modes, field(k, word, at->mode, at->child),
                             field(k, word, at->missing, at->mode), v, tree_element(k, w->value, slot));
    expr *child =
        w->child ? tree_element(k, w->child, slot) : x_bin(k, X_SHR, word, x_int(k, DT_I32, at->child));
    return x_add(k, child, x_cast(k, passes, DT_I32, false));
}

// Trees of a block, a multiple of the usual numbers of lanes if there are many.
static int block_of(int trees) {
    enum { UNIT = 16, MOST = 64 };
    int blocks = (trees + MOST - 1) / MOST, each = (trees + blocks - 1) / blocks;
    return blocks == 1 ? trees : (each + UNIT - 1) / UNIT * UNIT;
}

// The places where the walks begin; at a leaf in blocks that are not full.
static buffer *root_table(lowering *l, const slots *s, int n) {
    const forest *f = s->f;
    int64_t *root = ARENA_ARRAY(f->arena, int64_t, n + 1);
    int leaf = 0;
    while (f->row.at[s->node.at[leaf]] < 0) leaf++;
    for (int t = 0; t < n; t++) root[t] = t < f->root.n ? s->root[t] : leaf;
    return int_table(l, "root", root, n);
}

tree_leaves tree_walk_leaves(lowering *l, const node *n, const forest *f, dtype t, tree_rows rows,
                             bool direct) {
    slots s = make_slots(f);
    walk w = make_walk(l, &s, lower_in(l, n, 0), t);
    dims *d = l->program->dims;
    int block = block_of(f->root.n), blocks = (f->root.n + block - 1) / block, trees = blocks * block;
    int64_t *row = ARENA_ARRAY(f->arena, int64_t, s.node.n + 1);
    for (int i = 0; i < s.node.n; i++) row[i] = f->row.at[s.node.at[i]];
    buffer *leaf = lower_temp(l, n, "leaf", DT_I32, 2, (dim *[]){rows.count, dim_const(d, trees)});
    kernel *k = lower_kernel(l, n, "leaf");
    stage *st = kernel_stage(k);
    expr *b = stage_own_axis(k, st, AXIS_PARALLEL, "b", dim_const(d, blocks)),
         *i = stage_own_axis(k, st, AXIS_PARALLEL, "i", rows.count),
         *tree = stage_own_axis(k, st, AXIS_PARALLEL, "t", dim_const(d, block));
    stage_axis(k, st, kernel_axis(k, AXIS_SCAN, "depth", dim_const(d, f->depth)));
    tree = x_add(k, x_mul(k, b, x_i64(k, block)), tree);
    expr *place = stage_state(k, st, DT_I32, tree_element(k, root_table(l, &s, trees), tree));
    stage_step(st, 0, next_place(k, &w, x_add(k, x_dim(k, rows.first), i), place), NULL);
    expr *value =
        direct ? place : tree_element(k, int_table(l, "row", row, s.node.n), x_cast(k, place, DT_I64, false));
    stage_write(k, st, leaf, (expr *[]){i, tree}, value);
    return (tree_leaves){leaf, false, direct, row, s.node.n};
}
