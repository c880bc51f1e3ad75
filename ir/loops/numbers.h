// Kernels that are equal up to numbers become equal.
#ifndef ONNXC_IR_LOOPS_NUMBERS_H
#define ONNXC_IR_LOOPS_NUMBERS_H
#include "ir/loops/loops.h"

void share_numbers(lmodule *m, diag *d);
#endif
