// Constants as read-only data: in the layout that the kernels want, made in chunks while the object is
// written, equal ones once.
#ifndef ONNXC_IR_LOOPS_WEIGHTS_H
#define ONNXC_IR_LOOPS_WEIGHTS_H
#include "compiler/base/sink.h"
#include "ir/kernel/program.h"
#include "ir/loops/loops.h"

// Data of BUF_CONST root b under its layout.
ldata *weights_new(arena *a, const buffer *b, const char *name, int align);
// Whether both have the same bytes; `weights_hash` is equal then.
bool weights_equal(const buffer *x, const buffer *y);
uint64_t weights_hash(const buffer *b);
// All bytes of d, of which few are in memory at a time.
void weights_write(arena *a, const ldata *d, const sink *to);
// Must the module's data lie out of reach of 32-bit addresses (.lrodata)?
bool data_is_large(const lmodule *m);
#endif
