// Shared by the parts of the legaliser.
#ifndef ONNXC_IR_LOOPS_LEGALIZE_IMPL_H
#define ONNXC_IR_LOOPS_LEGALIZE_IMPL_H
#include "ir/loops/legalize.h"
#include "ir/target.h"

// Whether freestanding code for this target has no instructions for floats of kind k.
bool soft_float_kind(const target *t, lkind k);
// Expands x, with one lane, without float instructions of such kinds and conversions of 64-bit integers;
// operands and result keep their types. NULL: no expansion needed. Calls static functions of the module,
// built on first use.
ins *soft_float_expand(lmodule *m, lbuild *b, const ins *x);
// Whether 64-bit integers must be split.
bool is_small_freestanding(const target *t);
// Freestanding 32-bit targets: expands division, variable shifts and, where needed, products of 64-bit
// integers. NULL as above.
ins *soft_int_expand(lmodule *m, lbuild *b, const ins *x);

// Calls the helper of that name, which `make` builds on first use.
typedef void make_helper(lbuild *b, lfunc *f, int detail);
ins *call_helper(lmodule *m, lbuild *b, const char *name, ltype result, int nargs, ins *const *args,
                 make_helper *make, int detail);
// Builds it, for other helpers that call it by name.
lfunc *need_helper(lmodule *m, lbuild *b, const char *name, ltype result, int nargs, const ltype *types,
                   make_helper *make, int detail);
#endif
