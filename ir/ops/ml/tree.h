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

typedef struct tables {
    lowering *l;
    const forest *f;
    dtype t;
    buffer *x, *feature, *value, *yes, *no, *missing, *mode, *row;
} tables;

expr *tree_value(kernel *k, buffer *table, expr *node);
// Whether v passes the test of the node.
expr *tree_test(const tables *s, kernel *k, expr *node, expr *v);

// The walk by bits (tree_bits.c): whether it is the faster one, and leaf[t, n], the row of the leaf that row n of
// X reaches in tree t.
bool tree_bits_pay(const lowering *l, const forest *f, const dim *rows);
buffer *tree_bits_leaves(lowering *l, const node *n, const forest *f, dtype t, dim *rows, dim *features);
#endif
