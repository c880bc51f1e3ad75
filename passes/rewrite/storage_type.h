// Which buffers can get another element type.
#ifndef ONNXC_PASSES_REWRITE_STORAGE_TYPE_H
#define ONNXC_PASSES_REWRITE_STORAGE_TYPE_H
#include "ir/kernel/program.h"

// By id of the root: whether the type must stay, as the caller, a library function, a view of another type or a
// combining write sees it.
bool *fixed_types(arena *scratch, const program *p);
// Gives the roots in `wanted` and their views the type t. `wanted` is by id, of the first n buffers.
void change_types(program *p, const bool *wanted, int n, dtype t);
#endif
