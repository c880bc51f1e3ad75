// Functions with equal bodies share one: networks repeat a kernel for every layer. The first of them, the original, owns the
// body; the other ones have their own parameters, with its instructions as values.
#ifndef ONNXC_IR_LOOPS_LOOPS_SHARE_H
#define ONNXC_IR_LOOPS_LOOPS_SHARE_H
#include "ir/loops/loops.h"

// Whether the blocks have the same instructions, with the same numbers. Names of parameters do not matter, those of counters
// and variables only if `named`.
bool lblock_same(const lblock *a, const lblock *b, bool named);
// The original for a kernel, the functions of the module from `first` on: the kernel's own, and parts that it alone calls. NULL: it
// has none, and is added to `bodies`, by hash. The body of the original calls the parts of the original.
lfunc *lfunc_original(const lmodule *m, map *bodies, int first);
// A copy of f's head in the module's arena, with the body of the original.
lfunc *lfunc_sharing(lmodule *m, const lfunc *f, lfunc *original);
// Functions whose pointers may alias get another body than those whose pointers do not: later passes treat them differently.
void lfuncs_separate(lmodule *m);
// A new function outside of any module, with a copy of f's body.
lfunc lfunc_copy(const lfunc *f);
// f has the body of the original, whose parameters are the same.
void lfunc_share(lfunc *f, lfunc *original);
// Takes over what a pass did to the body of the original.
void lfunc_follow(lfunc *f);
#endif
