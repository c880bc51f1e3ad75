// Repeated instructions of host code become loops.
#ifndef ONNXC_IR_LOOPS_ROLL_H
#define ONNXC_IR_LOOPS_ROLL_H
#include "ir/loops/loops.h"

void roll_repeats(lmodule *m, diag *d);
#endif
