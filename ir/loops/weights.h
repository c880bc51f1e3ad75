// Constants as read-only data in the layout that kernels need, produced in chunks while the object is
// written; equal ones once.
#ifndef ONNXC_IR_LOOPS_WEIGHTS_H
#define ONNXC_IR_LOOPS_WEIGHTS_H
#include "compiler/base/sink.h"
#include "ir/kernel/program.h"
#include "ir/loops/loops.h"

// Data of BUF_CONST root b in its layout.
ldata *weights_new(arena *a, const buffer *b, const char *name, int align);
// Whether both have the same bytes; then `weights_hash` is equal too.
bool weights_equal(const buffer *x, const buffer *y);
uint64_t weights_hash(const buffer *b);
// Writes all bytes of d in chunks.
void weights_write(arena *a, const ldata *d, const sink *to);
#endif
