// Split-K: long sums with few results on GPUs, in pieces. After fusion, before the schedules.
#ifndef ONNXC_PASSES_REWRITE_SPLIT_SUM_H
#define ONNXC_PASSES_REWRITE_SPLIT_SUM_H
#include "ir/kernel/program.h"
#include "ir/target.h"

void split_sums(program *p, const target *t);
#endif
