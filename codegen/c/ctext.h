// C99 from loops: readable functions, exact constants, no libm. In: a module without vectors. Out: text for
// any C99 compiler, without warnings under -std=c99 -pedantic -Wall -Wextra.
#ifndef ONNXC_CODEGEN_C_CTEXT_H
#define ONNXC_CODEGEN_C_CTEXT_H
#include "compiler/base/sink.h"
#include "ir/loops/loops.h"

// header: name for the #include line; NULL: none. Instructions that C cannot express are a defect, reported
// before anything is written.
//   signed overflow   integer arithmetic wraps by unsigned types, except index arithmetic on counters and sizes, and
//                     results that are provably in range;
//   square root       the machine's instruction if the compiler has a builtin for it, else integer arithmetic with
//                     the same bits;
//   contraction       pragmas of clang and gcc turn it off; L_MULADD is fused on machines where that is fast, unless
//                     the mode is strict.
void ctext_write(const lmodule *m, const char *header, const sink *out, diag *d);
#endif
