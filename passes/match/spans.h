// Spans of elements that kernels read and write, to tell whether two accesses meet.
#ifndef PASSES_MATCH_SPANS_H
#define PASSES_MATCH_SPANS_H
#include "ir/kernel/kernel.h"

// Positions `low` to `low + extent` of a dim; NULL: unknown.
typedef struct span {
    dim *low, *extent;
} span;

void index_spans(const kernel *k, expr *const *index, int rank, span *spans);
// Whether the kernel reads, or writes by stages but `but` (NULL: by all), no elements of the buffer there.
bool reads_apart_from(const kernel *k, const buffer *b, const span *there);
bool writes_apart_from(const kernel *k, const stage *but, const buffer *b, const span *there);
#endif
