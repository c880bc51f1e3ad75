// The loops over tiles of large kernels, as separate functions.
#ifndef ONNXC_IR_LOOPS_OUTLINE_H
#define ONNXC_IR_LOOPS_OUTLINE_H
#include "ir/loops/loops.h"

// Moves the body of f, which keeps its parameters, to a new function f_tiles(parameters ..., ends ..., env, numbers) that
// calls the functions that end its tiles by pointers: end(env, others ..., numbers). numbers is NULL. functions: those of
// the module, by name. NULL: nothing was done, since f is small, or has no such function.
lfunc *outline_tiles(lmodule *m, lfunc *f, const map *functions, diag *d);
#endif
