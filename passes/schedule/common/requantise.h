// Quantisation to bytes in few instructions: QuantizeLinear, and DequantizeLinear after it, on floats in registers. The
// results have the bits of the plain expressions (ir/kernel/eval.c).
#ifndef ONNXC_PASSES_SCHEDULE_COMMON_REQUANTISE_H
#define ONNXC_PASSES_SCHEDULE_COMMON_REQUANTISE_H
#include "passes/schedule/common/emit.h"

// The value of a cast that varies along the vector axis; NULL: the cast has another form, or the target lacks the
// instructions.
ins *emit_requantised(emitter *e, expr *x);
// A select, one of whose values takes many instructions because the target has none for floats; NULL: another one.
ins *emit_selected(emitter *e, expr *x);
// Whether that value will be an i32 vector that L_SATU8 or L_SATS8 makes bytes.
bool emit_saturates(emitter *e, const expr *x);
// The bytes of four such values, in order, by one instruction for all; and a half of a vector.
ins *pack_saturated(lbuild *b, ins *const part[4]);
ins *half_of_vector(lbuild *b, ins *x, int half);
#endif
