// Concat elision. In: a program whose layouts are assigned, except for halos. Out: the same program with
// fewer copies.
#ifndef ONNXC_PASSES_LAYOUT_CONCAT_ELISION_H
#define ONNXC_PASSES_LAYOUT_CONCAT_ELISION_H
#include "ir/kernel/program.h"
#include "ir/target.h"

// If a kernel copies whole temporaries into parts of another one, their producers write the parts directly:
//   t[n, c, h, w] = f(...)           joined[n, c + 64, h, w] = f(...)
//   joined[n, c + 64, h, w] = t[n, c, h, w]
// Other readers of a temporary read the part, unless that is slower or takes much more memory.
void elide_concats(program *p, const target *t);
#endif
