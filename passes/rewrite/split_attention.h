// Flash-Decoding: attention of few queries in pieces of the keys, for GPUs.
#ifndef ONNXC_PASSES_REWRITE_SPLIT_ATTENTION_H
#define ONNXC_PASSES_REWRITE_SPLIT_ATTENTION_H
#include "ir/kernel/program.h"

void split_attentions(program *p);
#endif
