// Attention of few queries over many keys in pieces, for GPUs.
#ifndef ONNXC_SPLIT_ATTENTION_H
#define ONNXC_SPLIT_ATTENTION_H
#include "ir/program.h"
#include "ir/target.h"

void split_attentions(program *p, const target *t);
#endif
