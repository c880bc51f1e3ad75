// C99 from loops: readable functions, exact constants, nothing of libm. In: a module whose values all have
// one lane. Out: text for any C99 compiler, clean under -std=c99 -pedantic -Wall -Wextra.
#ifndef ONNXC_CODEGEN_C_CTEXT_H
#define ONNXC_CODEGEN_C_CTEXT_H
#include "compiler/base/sink.h"
#include "ir/loops/loops.h"

// header: name for the #include line, NULL for none. What the text cannot say is a defect, before a byte is
// written.
//   signed overflow   integer arithmetic wraps through unsigned types, except index arithmetic of kernels on
//                     counters and sizes, and what provably stays in range;
//   square root       the machine's instruction where the compiler names it, else by whole numbers: the same
//                     bits;
//   contraction       the C compiler fuses nothing of its own accord, which the text says with the pragmas of
//                     clang and gcc; L_MULADD is fused where the machine is fast at it, unless strict.
void ctext_write(const lmodule *m, const char *header, const sink *out, diag *d);
#endif
