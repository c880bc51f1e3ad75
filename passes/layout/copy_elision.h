// Scatters without copies. A buffer that several kernels write and one copies as a whole, with its axes in another
// order, into a buffer without earlier uses becomes that buffer: a cache that an exporter transposes, updates
// and transposes back.
//
//   T[i, h, d] = past[h, i, d]                    present[h, i, d] = past[h, i, d]
//   T[at[r], h, d] = new[r, h, d]          =>     present[h, at[r], d] = new[r, h, d]
//   present[h, i, d] = T[i, h, d]
#ifndef ONNXC_PASSES_LAYOUT_COPY_ELISION_H
#define ONNXC_PASSES_LAYOUT_COPY_ELISION_H
#include "ir/kernel/program.h"

void elide_transpositions(program *p);
#endif
