// Quantisation to bytes in few instructions: what QuantizeLinear, and DequantizeLinear behind it, make of floats
// in registers. The results have the bits of the plain expressions (ir/kernel/eval.c).
#ifndef ONNXC_PASSES_SCHEDULE_COMMON_REQUANTISE_H
#define ONNXC_PASSES_SCHEDULE_COMMON_REQUANTISE_H
#include "passes/schedule/common/emit.h"

// The value of a cast that varies along the vector axis; NULL: it has another form, or the target lacks the
// instructions.
ins *emit_requantised(emitter *e, expr *x);
// Whether that value will be an i32 vector that L_SATU8 or L_SATS8 makes bytes.
bool emit_saturates(emitter *e, const expr *x);
// Bytes of four vectors of 16 lanes, each saturated by the same instruction, in order; and 32 of them.
ins *emit_packed_bytes(lbuild *b, ins *const part[4]);
ins *emit_half(lbuild *b, ins *x, int half);
#endif
