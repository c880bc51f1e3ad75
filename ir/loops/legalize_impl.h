// Between the parts of the legaliser.
#ifndef ONNXC_IR_LOOPS_LEGALIZE_IMPL_H
#define ONNXC_IR_LOOPS_LEGALIZE_IMPL_H
#include "ir/loops/legalize.h"
#include "ir/target.h"

// Does freestanding code for this target do without instructions for floats of kind k?
bool soft_float_kind(const target *t, lkind k);
// x without float instructions of such kinds and without conversions of 64-bit integers, for one lane;
// operands and result in their own types. NULL: x needs none. Calls static functions of the module, built
// when first needed.
ins *soft_float_expand(lmodule *m, lbuild *b, const ins *x);
// Must integers of 64 bits be done in pieces?
bool is_small_freestanding(const target *t);
// Freestanding 32-bit targets: division, variable shifts and where needed products of 64-bit integers. NULL
// as above.
ins *soft_int_expand(lmodule *m, lbuild *b, const ins *x);

// The helper function of that name, made by `make` when the module has none yet.
typedef void make_helper(lbuild *b, lfunc *f, int detail);
ins *call_helper(lmodule *m, lbuild *b, const char *name, ltype result, int nargs, ins *const *args,
                 make_helper *make, int detail);
#endif
