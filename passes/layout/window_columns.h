// Convolutions of few inputs per result between row-major tensors, as products of matrices.
#ifndef ONNXC_PASSES_LAYOUT_WINDOW_COLUMNS_H
#define ONNXC_PASSES_LAYOUT_WINDOW_COLUMNS_H
#include "ir/kernel/program.h"
#include "ir/target.h"
#include "passes/match/contract.h"

// Whether the kernel, whose image and result stay row-major, had better read the windows of the image from a matrix of columns than
// write its result channels-last and have it transposed.
bool columns_pay(const kernel *k, const target *t, contraction *c);
// Inserts the kernel that writes this matrix before step s.
void read_columns(program *p, region *r, const step *s, const contraction *c);
#endif
