// TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier: the attributes' lists of nodes and leaves
// become a forest, whose scores tree_scores.c computes.
#include "ir/ops/ml/tree.h"
#include <math.h>
#include <string.h>

static int add_node(forest *f, int64_t feature, branch mode, double value, bool missing) {
    arena *a = f->arena;
    VEC_PUSH(a, &f->feature, feature);
    VEC_PUSH(a, &f->mode, (int64_t)mode);
    VEC_PUSH(a, &f->value, value);
    VEC_PUSH(a, &f->missing, (int64_t)missing);
    VEC_PUSH(a, &f->yes, f->feature.n - 1);
    VEC_PUSH(a, &f->no, f->feature.n - 1);
    VEC_PUSH(a, &f->row, (int64_t)-1);
    return f->feature.n - 1;
}

int64_t tree_empty_leaf(forest *f) {
    int at = add_node(f, 0, LEQ, 0, false);
    f->row.at[at] = f->rows++;
    return at;
}

static void add_entry(forest *f, int64_t row, int64_t target, double weight) {
    if (target < 0 || target >= f->targets)
        infer_error(f->n, "a leaf refers to target %lld of %lld", (long long)target, (long long)f->targets);
    VEC_PUSH(f->arena, &f->entry_row, row);
    VEC_PUSH(f->arena, &f->target, target);
    VEC_PUSH(f->arena, &f->weight, weight);
}

// By depth, and otherwise as they are.
static void sort_trees(forest *f) {
    int64_t *root = ARENA_ARRAY(f->arena, int64_t, f->root.n),
            *depth = ARENA_ARRAY(f->arena, int64_t, f->root.n);
    for (int t = 0; t < f->root.n; t++)
        if (f->depth_of.at[t] > f->depth) f->depth = f->depth_of.at[t];
    int n = 0, *count = ARENA_ARRAY(f->arena, int, f->depth + 2);
    for (int t = 0; t < f->root.n; t++) count[f->depth_of.at[t] + 1]++;
    for (int64_t d = 0; d <= f->depth; d++) count[d + 1] += count[d];
    for (int t = 0; t < f->root.n; t++) {
        n = count[f->depth_of.at[t]]++;
        root[n] = f->root.at[t], depth[n] = f->depth_of.at[t];
    }
    memcpy(f->root.at, root, (size_t)f->root.n * sizeof *root);
    memcpy(f->depth_of.at, depth, (size_t)f->root.n * sizeof *depth);
}

// Sets the depths: the longest paths from a root to a leaf. A cycle is an error.
static void measure(forest *f) {
    enum { FRESH, OPEN, DONE };
    int count = f->feature.n, *stack = ARENA_ARRAY(f->arena, int, 2 * count + 2);
    uint8_t *state = ARENA_ARRAY(f->arena, uint8_t, count + 1);
    int64_t *depth = ARENA_ARRAY(f->arena, int64_t, count + 1);
    for (int t = 0; t < f->root.n; t++) {
        int top = 0;
        stack[top++] = (int)f->root.at[t];
        while (top) {
            int at = stack[top - 1];
            int64_t next[] = {f->yes.at[at], f->no.at[at]};
            if (state[at] == DONE || f->row.at[at] >= 0) {
                state[at] = DONE, top--;
            } else if (state[at] == FRESH) {
                state[at] = OPEN;
                for (int j = 0; j < 2; j++) {
                    if (state[next[j]] == OPEN) infer_error(f->n, "the nodes of tree %d form a cycle", t);
                    if (state[next[j]] == FRESH && top < 2 * count + 1) stack[top++] = (int)next[j];
                }
            } else {
                int64_t longest = depth[next[0]] > depth[next[1]] ? depth[next[0]] : depth[next[1]];
                depth[at] = longest + 1, state[at] = DONE, top--;
            }
        }
        VEC_PUSH(f->arena, &f->depth_of, depth[f->root.at[t]]);
    }
    sort_trees(f);
}

// ---------------------------------------------------------------- attributes
typedef struct numbers {
    const int64_t *ints;
    const float *floats;
    const constant *tensor;
    int n;
} numbers;

static numbers list_of(const node *n, const char *name) {
    const attr *a = node_attr(n, name);
    if (!a) return (numbers){0};
    if (a->kind == ATTR_INTS) return (numbers){.ints = a->ints, .n = a->n};
    if (a->kind == ATTR_FLOATS) return (numbers){.floats = a->floats, .n = a->n};
    if (a->kind == ATTR_TENSOR) return (numbers){.tensor = a->tensor, .n = (int)a->tensor->count};
    infer_error(n, "attribute %s is not a list of numbers", name);
}

// The list, or the tensor attribute of the same name.
static numbers either_of(const node *n, const char *name) {
    numbers v = list_of(n, name);
    return v.n ? v : list_of(n, arena_printf(infer_arena(n), "%s_as_tensor", name));
}

static double number(const numbers *v, int i, double fallback) {
    if (i >= v->n) return fallback;
    if (v->ints) return (double)v->ints[i];
    return v->floats ? (double)v->floats[i] : constant_float(v->tensor, i);
}
static int64_t whole(const numbers *v, int i) {
    if (v->ints) return v->ints[i];
    return v->tensor ? constant_int(v->tensor, i) : (int64_t)v->floats[i];
}

static void need_length(const node *n, const char *name, int have, int want) {
    if (have != want) infer_error(n, "attribute %s has %d values, not %d", name, have, want);
}

static void read_base(forest *f) {
    numbers base = either_of(f->n, "base_values");
    f->nbase = base.n;
    f->base = base.n ? ARENA_ARRAY(f->arena, double, base.n) : NULL;
    for (int i = 0; i < base.n; i++) f->base[i] = number(&base, i, 0);
}

// ---- Lists of nodes named by tree and number: TreeEnsembleRegressor and TreeEnsembleClassifier

static uint64_t node_key(const node *n, int64_t tree, int64_t number) {
    if (tree < 0 || number < 0 || tree > INT32_MAX || number > INT32_MAX)
        infer_error(n, "node %lld of tree %lld has an invalid id", (long long)number, (long long)tree);
    return (uint64_t)tree << 32 | (uint64_t)number;
}

// Where the nodes are. Exporters list tree by tree, with numbers from 0, so that a tree's first node says where they are;
// other lists need a map of all nodes.
typedef struct node_places {
    numbers trees, ids;
    bool ordered;
    map first, all; // by tree, and by tree and number: position + 1
} node_places;

static bool is_ordered(forest *f, node_places *p) {
    for (int i = 0; i < p->trees.n; i++) {
        int64_t tree = whole(&p->trees, i), id = whole(&p->ids, i);
        node_key(f->n, tree, id);
        if (id == 0 && !map_get_number(&p->first, (uint64_t)tree))
            map_put_number(&p->first, (uint64_t)tree, (void *)(intptr_t)(i + 1));
        else if (!i || tree != whole(&p->trees, i - 1) || id != whole(&p->ids, i - 1) + 1) return false;
    }
    return true;
}

static node_places place_nodes(forest *f) {
    const node *n = f->n;
    node_places p = {.trees = list_of(n, "nodes_treeids"), .ids = list_of(n, "nodes_nodeids")};
    p.first.arena = p.all.arena = f->arena;
    need_length(n, "nodes_nodeids", p.ids.n, p.trees.n);
    p.ordered = is_ordered(f, &p);
    for (int i = 0; !p.ordered && i < p.trees.n; i++) {
        int64_t tree = whole(&p.trees, i);
        uint64_t key = node_key(n, tree, whole(&p.ids, i));
        if (map_get_number(&p.all, key)) infer_error(n, "tree %lld has a duplicate node", (long long)tree);
        map_put_number(&p.all, key, (void *)(intptr_t)(i + 1));
    }
    return p;
}

static int find_node(const forest *f, const node_places *p, int64_t tree, int64_t number) {
    uint64_t key = node_key(f->n, tree, number);
    int64_t place = p->ordered ? (intptr_t)map_get_number(&p->first, (uint64_t)tree)
                               : (intptr_t)map_get_number(&p->all, key);
    if (p->ordered && place) place += number;
    if (!place || place > p->trees.n || whole(&p->trees, (int)place - 1) != tree)
        infer_error(f->n, "tree %lld has no node %lld", (long long)tree, (long long)number);
    return (int)place - 1;
}

static branch branch_of(const node *n, const char *name) {
    static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                        "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
    for (int i = 0; i < 6; i++)
        if (strcmp(names[i], name) == 0) return (branch)i;
    infer_error(n, "attribute nodes_modes holds '%s'", name);
}

static void read_nodes(forest *f, const node_places *p) {
    const node *n = f->n;
    numbers missing = list_of(n, "nodes_missing_value_tracks_true");
    numbers features = list_of(n, "nodes_featureids"), values = either_of(n, "nodes_values");
    const attr *modes = node_attr(n, "nodes_modes");
    if (!modes || modes->kind != ATTR_STRINGS) infer_error(n, "attribute nodes_modes is missing");
    f->wide = values.tensor && values.tensor->elem == DT_F64;
    need_length(n, "nodes_treeids", p->trees.n, modes->n);
    need_length(n, "nodes_featureids", features.n, modes->n);
    map seen = {.arena = f->arena};
    for (int i = 0; i < modes->n; i++) {
        bool leaf = strcmp(modes->strings[i], "LEAF") == 0;
        add_node(f, leaf ? 0 : whole(&features, i), leaf ? LEQ : branch_of(n, modes->strings[i]),
                 leaf ? 0 : number(&values, i, 0), number(&missing, i, 0) != 0);
        if (leaf) f->row.at[i] = f->rows++;
        uint64_t tree = (uint64_t)whole(&p->trees, i);
        if (map_get_number(p->ordered ? &p->first : &seen, tree) !=
            (p->ordered ? (void *)(intptr_t)(i + 1) : NULL))
            continue;
        if (!p->ordered) map_put_number(&seen, tree, f);
        VEC_PUSH(f->arena, &f->root, (int64_t)i);
    }
}

static void link_nodes(forest *f, const node_places *places) {
    numbers trees = list_of(f->n, "nodes_treeids"), yes = list_of(f->n, "nodes_truenodeids");
    numbers no = list_of(f->n, "nodes_falsenodeids");
    need_length(f->n, "nodes_truenodeids", yes.n, f->feature.n);
    need_length(f->n, "nodes_falsenodeids", no.n, f->feature.n);
    for (int i = 0; i < f->feature.n; i++) {
        if (f->row.at[i] >= 0) continue;
        f->yes.at[i] = find_node(f, places, whole(&trees, i), whole(&yes, i));
        f->no.at[i] = find_node(f, places, whole(&trees, i), whole(&no, i));
    }
}

// `what` is "target" or "class".
static void read_listed(forest *f, const char *what, const char *ids_name) {
    const node *n = f->n;
    node_places places = place_nodes(f);
    read_nodes(f, &places);
    link_nodes(f, &places);
    numbers trees = list_of(n, arena_printf(f->arena, "%s_treeids", what));
    numbers nodes = list_of(n, arena_printf(f->arena, "%s_nodeids", what)), ids = list_of(n, ids_name);
    numbers weights = either_of(n, arena_printf(f->arena, "%s_weights", what));
    need_length(n, "of trees of leaves", trees.n, ids.n);
    need_length(n, "of nodes of leaves", nodes.n, ids.n);
    need_length(n, "of weights", weights.n, ids.n);
    for (int i = 0; i < ids.n; i++) {
        int at = find_node(f, &places, whole(&trees, i), whole(&nodes, i));
        if (f->row.at[at] >= 0) add_entry(f, f->row.at[at], whole(&ids, i), number(&weights, i, 0));
    }
    read_base(f);
}

// ---- Lists of nodes and of leaves: TreeEnsemble

// The node with that number, or the leaf, which is numbered after the nodes.
static int64_t successor(const forest *f, int nodes, const numbers *ids, const numbers *leaves, int i) {
    bool leaf = whole(leaves, i) != 0;
    int64_t id = whole(ids, i), at = leaf ? nodes + id : id;
    if (id < 0 || (!leaf && id >= nodes) || at >= nodes + f->rows)
        infer_error(f->n, "node %d leads to %s %lld, which does not exist", i, leaf ? "leaf" : "node",
                    (long long)id);
    return at;
}

// Turns a set membership test into a chain of equality tests.
static void expand_members(forest *f, int at, const numbers *members, int *next) {
    int64_t yes = f->yes.at[at], no = f->no.at[at];
    bool first = true;
    for (; *next < members->n && !isnan(number(members, *next, NAN)); ++*next) {
        double v = number(members, *next, 0);
        if (first) {
            f->mode.at[at] = EQ, f->value.at[at] = v;
        } else {
            int more = add_node(f, f->feature.at[at], EQ, v, false);
            f->no.at[at] = more, at = more;
        }
        f->yes.at[at] = yes, f->no.at[at] = no;
        first = false;
    }
    ++*next;
    if (!first) return;
    f->mode.at[at] = LT, f->value.at[at] = -INFINITY; // never true: the set is empty
}

static void read_ensemble(forest *f) {
    const node *n = f->n;
    numbers features = list_of(n, "nodes_featureids"), modes = list_of(n, "nodes_modes");
    numbers splits = list_of(n, "nodes_splits"), missing = list_of(n, "nodes_missing_value_tracks_true");
    numbers yes = list_of(n, "nodes_truenodeids"), no = list_of(n, "nodes_falsenodeids");
    numbers yes_leaf = list_of(n, "nodes_trueleafs"), no_leaf = list_of(n, "nodes_falseleafs");
    numbers targets = list_of(n, "leaf_targetids"), weights = list_of(n, "leaf_weights");
    numbers roots = list_of(n, "tree_roots"), members = list_of(n, "membership_values");
    const numbers *all[] = {&modes, &splits, &yes, &no, &yes_leaf, &no_leaf};
    for (int j = 0; j < 6; j++) need_length(n, "of nodes", all[j]->n, features.n);
    need_length(n, "leaf_weights", weights.n, targets.n);
    f->wide = splits.tensor && splits.tensor->elem == DT_F64;
    f->rows = targets.n;
    for (int i = 0; i < features.n; i++) {
        int64_t mode = whole(&modes, i);
        if (mode < 0 || mode >= BRANCHES) infer_error(n, "attribute nodes_modes holds %lld", (long long)mode);
        add_node(f, whole(&features, i), (branch)mode, number(&splits, i, 0), number(&missing, i, 0) != 0);
        f->yes.at[i] = successor(f, features.n, &yes, &yes_leaf, i);
        f->no.at[i] = successor(f, features.n, &no, &no_leaf, i);
    }
    for (int i = 0; i < targets.n; i++) {
        int leaf = add_node(f, 0, LEQ, 0, false); // may move f->row.at
        f->row.at[leaf] = i;
        add_entry(f, i, whole(&targets, i), number(&weights, i, 0));
    }
    for (int i = 0, next = 0; i < features.n; i++)
        if (f->mode.at[i] == MEMBER) expand_members(f, i, &members, &next);
    for (int i = 0; i < roots.n; i++) {
        int64_t root = whole(&roots, i);
        if (root < 0 || root >= features.n) infer_error(n, "tree %d has root %lld", i, (long long)root);
        VEC_PUSH(f->arena, &f->root, root);
    }
}

static void check_features(const forest *f) {
    dim *rows, *features;
    ml_matrix(f->n, &rows, &features);
    for (int i = 0; i < f->feature.n; i++)
        if (f->feature.at[i] < 0 || (dim_is_const(features) && f->feature.at[i] >= dim_value(features)))
            infer_error(f->n, "a node tests feature %lld, but X has %s features", (long long)f->feature.at[i],
                        dim_text(f->arena, features));
    if (!f->root.n) infer_error(f->n, "there are no trees");
}

// ---------------------------------------------------------------- the operators
static forest new_forest(const node *n, int64_t targets) {
    if (targets < 1 || targets > 1 << 20) infer_error(n, "there are %lld targets", (long long)targets);
    return (forest){.arena = infer_arena(n), .n = n, .targets = targets};
}

static void finish_forest(const forest *f) {
    if (f->nbase > 1 && f->nbase != f->targets)
        infer_error(f->n, "%d base values do not match %lld targets", f->nbase, (long long)f->targets);
    check_features(f);
}

// ---------------------------------------------------------------- TreeEnsemble, TreeEnsembleRegressor
static forest regression_forest(const node *n) {
    forest f = new_forest(n, node_int(n, "n_targets", 1));
    if (node_is(n, "TreeEnsemble")) read_ensemble(&f);
    else read_listed(&f, "target", "target_ids");
    finish_forest(&f);
    measure(&f);
    return f;
}

static aggregate aggregate_of(const node *n) {
    const attr *a = node_attr(n, "aggregate_function");
    if (!a) return SUM;
    if (a->kind != ATTR_INT) return (aggregate)node_choice(n, a->name, "AVERAGE SUM MIN MAX");
    if (a->i < 0 || a->i > 3) infer_error(n, "attribute aggregate_function is %lld", (long long)a->i);
    return (aggregate)a->i;
}

static ml_transform transform_of(const node *n) {
    const attr *a = node_attr(n, "post_transform");
    if (!a || a->kind != ATTR_INT) return ml_transform_of(n);
    if (a->i < 0 || a->i > 4) infer_error(n, "attribute post_transform is %lld", (long long)a->i);
    return (ml_transform)a->i;
}

static void regressor_infer(node *n) {
    dim *rows, *features;
    ml_matrix(n, &rows, &features);
    forest f = regression_forest(n);
    aggregate_of(n);
    transform_of(n);
    bool own = node_is(n, "TreeEnsemble");
    infer_set(n, 0, own ? infer_in(n, 0)->elem : DT_F32, 2, (dim *[]){rows, infer_k(n, f.targets)});
}

static void regressor_lower(lowering *l, node *n) {
    forest f = regression_forest(n);
    buffer *out = lower_out(l, n, 0);
    buffer *raw = lower_temp(l, n, "raw", ml_type(n), 2, out->dims);
    tree_scores(l, n, &f, aggregate_of(n), raw);
    ml_apply(l, n, transform_of(n), raw, out);
}

// ---------------------------------------------------------------- TreeEnsembleClassifier
// pair: two classes, and all leaves are for the same one, so that there is a single score.
typedef struct classes {
    int count;
    bool pair, positive; // no weight is negative
} classes;

static classes classes_of(const node *n) {
    classes c = {.count = ml_label_count(n, "classlabels_int64s"), .positive = true};
    numbers ids = list_of(n, "class_ids"), weights = either_of(n, "class_weights");
    if (c.count < 1) infer_error(n, "there are no class labels");
    c.pair = c.count == 2;
    for (int i = 1; i < ids.n; i++) c.pair &= whole(&ids, i) == whole(&ids, 0);
    for (int i = 0; i < weights.n; i++) c.positive &= number(&weights, i, 0) >= 0;
    return c;
}

static forest classification_forest(const node *n, const classes *c) {
    forest f = new_forest(n, c->count);
    read_listed(&f, "class", "class_ids");
    if (c->pair) { // a single target; the second of two base values belongs to it
        f.targets = 1;
        for (int i = 0; i < f.target.n; i++) f.target.at[i] = 0;
        if (f.nbase == 2) f.base[0] = f.base[1], f.nbase = 1;
    }
    finish_forest(&f);
    measure(&f);
    return f;
}

static void classifier_infer(node *n) {
    dim *rows, *features;
    ml_matrix(n, &rows, &features);
    classes c = classes_of(n);
    classification_forest(n, &c);
    ml_infer_classes(n, rows, infer_k(n, c.count));
}

// The second label if the score is above a half, or above 0 if weights have both signs.
static void pair_label(lowering *l, const node *n, const classes *c, buffer *raw, buffer *labels) {
    kernel *k;
    expr *row;
    if (!labels) return;
    buffer *all = ml_labels(l, n, "classlabels_int64s");
    stage *s = suffixed_stage(l, n, "label", labels, &k, &row);
    expr *v = x_read(k, raw, (expr *[]){row, x_i64(k, 0)});
    expr *second = x_lt(k, x_float(k, v->dtype, c->positive ? 0.5 : 0), v);
    expr *at = x_select(k, second, x_i64(k, 1), x_i64(k, 0));
    stage_write(k, s, labels, &row, x_read(k, all, &at));
}

static void classifier_lower(lowering *l, node *n) {
    classes c = classes_of(n);
    forest f = classification_forest(n, &c);
    buffer *labels = lower_out(l, n, 0), *out = lower_out(l, n, 1);
    dim *rows, *features;
    ml_matrix(n, &rows, &features);
    dims *t = l->program->dims;
    buffer *raw = lower_temp(l, n, "raw", ml_type(n), 2, (dim *[]){rows, dim_const(t, f.targets)});
    tree_scores(l, n, &f, SUM, raw);
    ml_transform how = ml_transform_of(n);
    if (!c.pair) {
        ml_apply(l, n, how, raw, out);
        ml_label(l, n, raw, "classlabels_int64s", labels);
        return;
    }
    bool probability = c.positive && (how == ML_NONE || how == ML_PROBIT);
    buffer *both = ml_pair_scores(l, n, "pair", raw, probability);
    ml_apply(l, n, how, both, out);
    pair_label(l, n, &c, raw, labels);
}

#define TREES(op, stem) OPERATOR_OF("ai.onnx.ml", op, .infer = stem##_infer, .lower = stem##_lower)
TREES(TreeEnsemble, regressor);
TREES(TreeEnsembleRegressor, regressor);
TREES(TreeEnsembleClassifier, classifier);
