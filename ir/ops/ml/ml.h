// Helpers of the operators of ai.onnx.ml: constants from attributes, transforms of scores, labels.
#ifndef ONNXC_IR_OPS_ML_ML_H
#define ONNXC_IR_OPS_ML_ML_H
#include "ir/ops/runtime_args.h"

// A rank-1 (columns 0) or [count / columns, columns] constant.
buffer *ml_floats(lowering *l, const char *name, dtype t, const double *v, int64_t count, int64_t columns);
buffer *ml_ints(lowering *l, const char *name, const int64_t *v, int64_t count);
buffer *ml_float_table(lowering *l, const char *name, dtype t, const float *v, int64_t count,
                       int64_t columns);
const float *ml_float_list(const node *n, const char *attribute, int *count); // NULL and 0 if left out
// Rows and features of X, which may be a single row of rank 1.
void ml_matrix(const node *n, dim **rows, dim **features);
// X[row, feature] in type t.
expr *ml_read(kernel *k, buffer *x, expr *row, expr *feature, dtype t);
dtype ml_type(const node *n); // compute type of the scores

typedef enum ml_transform { ML_NONE, ML_SOFTMAX, ML_LOGISTIC, ML_SOFTMAX_ZERO, ML_PROBIT } ml_transform;
ml_transform ml_transform_of(const node *n);
// to = transform(from), both [rows, scores].
void ml_apply(lowering *l, const node *n, ml_transform f, buffer *from, buffer *to);
// labels[row] = the label of the row's largest score, or its number if there are no labels.
void ml_label(lowering *l, const node *n, buffer *scores, const char *attribute, buffer *labels);
// The labels: classlabels_strings, else the attribute `ints`; NULL if neither is given.
buffer *ml_labels(lowering *l, const node *n, const char *ints);
int ml_label_count(const node *n, const char *ints);
void ml_infer_classes(node *n, dim *rows, dim *scores);
// [rows, 2] from a single score s per row: the other class has -s, or 1 - s if s is a probability.
buffer *ml_pair_scores(lowering *l, const node *n, const char *name, buffer *single, bool probability);
#endif
