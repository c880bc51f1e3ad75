// Conversions between storage and compute types, and scalar expressions as instructions. In: values in
// registers or elements in memory. Out: instructions for any number of lanes.
#ifndef ONNXC_IR_LOOPS_CONVERT_H
#define ONNXC_IR_LOOPS_CONVERT_H
#include "ir/kernel/kernel.h"
#include "ir/loops/loops.h"

// Register kind of compute type t: I1 for bool, integers by width, F32, F64, I64 for complex64.
lkind compute_kind(dtype t);

// Loads element `index` from ptr, or `lanes` consecutive elements, in the compute type. Packed types: index
// counts from the first element of the byte at ptr; with several lanes it must be the first of a byte.
ins *load_element(lbuild *b, dtype storage, ins *ptr, ins *index, int lanes);
// Loads only the first n lanes (n of the index kind); the other lanes are 0, and their memory is not accessed.
ins *load_element_n(lbuild *b, dtype storage, ins *ptr, ins *index, int lanes, ins *n);
// The elements as loaded, of types that are not packed (n NULL: all lanes), and their values in the compute type.
ins *load_codes(lbuild *b, dtype storage, ins *ptr, ins *index, int lanes, ins *n);
ins *values_of_codes(lbuild *b, dtype storage, ins *codes);
// One element for each lane of `indices`.
ins *load_element_gather(lbuild *b, dtype storage, ins *ptr, ins *indices);
// The element of a packed type in the low bits of I32 lanes, in the compute type.
ins *element_of_bits(lbuild *b, dtype packed, ins *words);
// Converts value (compute type) as ONNX Cast does, saturating, and stores it. Stores of packed types read,
// modify and write bytes: elements of a byte must not be stored by several threads at once; with several
// lanes, index must be the first element of a byte and the lanes fill whole bytes.
void store_element(lbuild *b, dtype storage, ins *ptr, ins *index, ins *value, int lanes);
void store_element_n(lbuild *b, dtype storage, ins *ptr, ins *index, ins *value, int lanes, ins *n);
void store_element_scatter(lbuild *b, dtype storage, ins *ptr, ins *indices, ins *value);

// The code of a value in storage; packed types: one to a byte.
ins *element_code(lbuild *b, dtype storage, ins *value);

// Converts as x_cast of ir/kernel/kernel.h does; x and the result are in compute types.
ins *convert_value(lbuild *b, dtype from, dtype to, ins *x, bool saturate);
// Parts of it: the code of a small float (I32) to F32 and back, and F64 to F32 rounded to odd, which makes a
// second rounding harmless.
ins *float_of_code(lbuild *b, dtype t, ins *code);
ins *code_of_float(lbuild *b, dtype t, ins *x, bool saturate);
// The bits of an F32 rounded to 10 bits of mantissa, ties to even, in the places of f32: tf32.
ins *tf32_bits(lbuild *b, ins *x);
// Whether the target has an instruction that rounds this many lanes of f32 to bf16.
bool rounds_to_bf16(const struct target *t, int lanes);
ins *f64_to_odd(lbuild *b, ins *x);
// Applies an expression node to operand values: all of ir/kernel/expr_ops.def except leaves, X_CHECK, and
// X_BITCAST between widths.
ins *expr_apply(lbuild *b, const expr *e, ins *const *args);
#endif
