// Updates of a cache from which rows leave at its front.
#ifndef ONNXC_PASSES_MEMORY_SLIDE_H
#define ONNXC_PASSES_MEMORY_SLIDE_H
#include "ir/kernel/uses.h"

// If the kernel at this site is such an update of `in`: the rows that stay move in the memory of `in` before it, in steps
// in which any leave, and the kernel replaces elements where they are.
void slide_in_place(program *p, const site *at, buffer *in, buffer *out);
#endif
