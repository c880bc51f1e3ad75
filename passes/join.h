// Concatenations without copies. In: a program with layouts; out: the same program.
#ifndef ONNXC_JOIN_H
#define ONNXC_JOIN_H
#include "ir/program.h"

// Where a kernel does nothing but copy whole temporaries into parts of another, and nobody else reads one of
// them, the kernel that makes it writes the part itself:
//   t[n, c, h, w] = f(...)           joined[n, c + 64, h, w] = f(...)
//   joined[n, c + 64, h, w] = t[n, c, h, w]
void join_parts(program *p);
#endif
