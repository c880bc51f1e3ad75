// Shared by the files of tree ensembles: the forest, and the test of a node.
#ifndef ONNXC_IR_OPS_ML_TREE_H
#define ONNXC_IR_OPS_ML_TREE_H
#include "ir/ops/ml/ml.h"

typedef enum branch { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, BRANCHES } branch;
typedef enum aggregate { AVERAGE, SUM, MINIMUM, MAXIMUM } aggregate;

typedef struct forest {
    arena *arena;
    const node *n;
    VEC(int64_t) feature, yes, no, missing, mode, row; // per node; row: of the leaf, -1 for inner nodes
    VEC(double) value;
    VEC(int64_t) root, depth_of;    // per tree
    bool wide;                      // split values are doubles
    int64_t rows;                   // number of leaves
    VEC(int64_t) entry_row, target; // entries: a leaf's weight for a target
    VEC(double) weight;
    int64_t targets, depth;
    double *base; // per target; NULL: none
    int nbase;
} forest;

// A new leaf without entries; returns its node.
int64_t tree_empty_leaf(forest *f);
// The tests that occur in a forest: modes of inner nodes, and whether NaN may pass one.
typedef struct tree_modes {
    bool used[BRANCHES], missing;
} tree_modes;
tree_modes tree_modes_of(const forest *f);
// Whether v passes the test of a node with that limit. mode and missing are only used if the forest has several modes,
// or tests that NaN passes.
expr *tree_test(kernel *k, const tree_modes *m, expr *mode, expr *missing, expr *v, expr *limit);

// The places of leaves that the trees reach: a kernel has written place[n, t], or place[t, n] if turned. row[place]: the
// leaf's row in the list of leaves, or -1. If `direct`, the buffer has the places, otherwise row[place].
typedef struct tree_leaves {
    buffer *leaf;
    bool turned, direct;
    const int64_t *row;
    int64_t places;
} tree_leaves;

// The rows of X with which they are concerned: `count` of them from `first`.
typedef struct tree_rows {
    dim *first, *count;
} tree_rows;

static inline expr *tree_element(kernel *k, buffer *table, expr *at) { return x_read(k, table, &at); }

// The walk from node to node (tree_walk.c).
tree_leaves tree_walk_leaves(lowering *l, const node *n, const forest *f, dtype t, tree_rows rows,
                             bool direct);

// The walk by bits (tree_bits.c), and whether it is the faster one. It is not possible for trees with -1 leaves: more
// than 64, or nodes with several parents. Features of f may be numbered anew.
enum { TREE_BITS_ROWS = 4 }; // fewer do not pay
int64_t tree_bits_leaf_count(const forest *f, int tree);
bool tree_bits_pay(const lowering *l, const forest *f, const dim *rows);
tree_leaves tree_bits_leaves(lowering *l, const node *n, forest *f, dtype t, tree_rows rows, bool direct);

// scores[n, j] of all targets, including base values (tree_scores.c).
void tree_scores(lowering *l, const node *n, forest *f, aggregate how, buffer *scores);
#endif
