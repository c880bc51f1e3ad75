// Concatenations without copies. In: a program whose images lie as they will, but for halos; out: the same
// program with fewer copies.
#ifndef ONNXC_PASSES_LAYOUT_CONCAT_ELISION_H
#define ONNXC_PASSES_LAYOUT_CONCAT_ELISION_H
#include "ir/kernel/program.h"
#include "ir/target.h"

// Where a kernel copies whole temporaries into parts of another, the kernels that make them write the parts
// themselves:
//   t[n, c, h, w] = f(...)           joined[n, c + 64, h, w] = f(...)
//   joined[n, c + 64, h, w] = t[n, c, h, w]
// What else reads them reads the parts, unless that is slower or takes much more memory.
void elide_concats(program *p, const target *t);
#endif
