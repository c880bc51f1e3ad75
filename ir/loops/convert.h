// Between storage types and compute types, and scalar expressions as instructions. In: values in registers or
// elements in memory. Out: instructions for any number of lanes.
#ifndef ONNXC_IR_LOOPS_CONVERT_H
#define ONNXC_IR_LOOPS_CONVERT_H
#include "ir/kernel/kernel.h"
#include "ir/loops/loops.h"

// Kind of a value of compute type t in registers: bool I1, ints by width, F32, F64, complex64 I64.
lkind compute_kind(dtype t);

// Element number `index` of storage at ptr, in its compute type; `lanes` consecutive elements from there.
// Packed types: index counts elements from the first of the byte at ptr; with several lanes it must be the
// first of a byte too.
ins *load_element(lbuild *b, dtype storage, ins *ptr, ins *index, int lanes);
// The first n lanes (n of the index kind); the others are 0 and not touched.
ins *load_element_n(lbuild *b, dtype storage, ins *ptr, ins *index, int lanes, ins *n);
// One element for each lane of `indices`.
ins *load_element_gather(lbuild *b, dtype storage, ins *ptr, ins *indices);
// value (compute type) is converted as ONNX Cast does, saturating. Stores of packed types read, change and
// write bytes: elements of one byte must not be stored by several threads at once. With several lanes index
// must be the first element of a byte and lanes fill whole bytes.
void store_element(lbuild *b, dtype storage, ins *ptr, ins *index, ins *value, int lanes);
void store_element_n(lbuild *b, dtype storage, ins *ptr, ins *index, ins *value, int lanes, ins *n);
void store_element_scatter(lbuild *b, dtype storage, ins *ptr, ins *indices, ins *value);

// x_cast of ir/kernel/kernel.h: from storage meaning to storage meaning, x and the result in compute types.
ins *convert_value(lbuild *b, dtype from, dtype to, ins *x, bool saturate);
// The parts: a small float's code (I32) to F32 and back, and F64 to F32 "to odd", which makes a second
// rounding to a small format harmless.
ins *float_of_code(lbuild *b, dtype t, ins *code);
ins *code_of_float(lbuild *b, dtype t, ins *x, bool saturate);
ins *f64_to_odd(lbuild *b, ins *x);
// An expression node on operand values; all of ir/kernel/expr_ops.def but leaves, X_BITCAST between kinds of
// different width, and X_CHECK.
ins *expr_apply(lbuild *b, const expr *e, ins *const *args);
#endif
