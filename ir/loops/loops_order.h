// Other orders of the parallel loops at the top of a function: their iterations are independent.
#ifndef ONNXC_IR_LOOPS_LOOPS_ORDER_H
#define ONNXC_IR_LOOPS_LOOPS_ORDER_H
#include "ir/loops/loops.h"

// Exchanges the outermost loop that runs several times with the loop in it, if nothing else is in it that memory or
// variables see. False: the loops are otherwise.
bool loops_exchange(lfunc *f);
// The outermost loop that runs several times counts down.
bool loops_reverse(lfunc *f);
// The loops at the top become one, if each has, or has in it, one over the range of the last of them, and none reads what
// another one writes.
bool loops_join(const lmodule *m, lfunc *f);
#endif
