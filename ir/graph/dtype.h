// Element types: ONNX's, with how they are stored and what a kernel computes in.
#ifndef ONNXC_IR_GRAPH_DTYPE_H
#define ONNXC_IR_GRAPH_DTYPE_H
#include "runtime-lite/lib/dtypes.h"
#include "runtime-lite/lib/small_float.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dtype_class { DC_NONE, DC_FLOAT, DC_INT, DC_UINT, DC_BOOL, DC_COMPLEX, DC_STRING } dtype_class;
// The field of TensorProto for elements outside raw_data.
typedef enum dtype_field {
    NO_DATA,
    FLOAT_DATA,
    INT32_DATA,
    INT64_DATA,
    UINT64_DATA,
    DOUBLE_DATA,
    STRING_DATA
} dtype_field;
const char *dtype_name(dtype t);
dtype dtype_from_name(const char *name); // DT_NONE: no type has this name
dtype dtype_from_onnx(int code);         // DT_NONE when unknown
int dtype_bits(dtype t);                 // as stored; 2 and 4 for packed types
dtype_class dtype_class_of(dtype t);
dtype_field dtype_field_of(dtype t);
const char *dtype_c(dtype t);   // C type of an element; of packed types: of their bytes
const char *dtype_npy(dtype t); // numpy's code without the byte order, "f4"; "": numpy has no such type
// Formats of up to 16 bits with a sign, which integer arithmetic converts; NULL: not one of these.
const float_format *dtype_small_float(dtype t);
int dtype_precision(dtype t); // bits of a float's fraction, with the leading one
bool dtype_is_float(dtype t); // all real floating types, also f8 and f4
static inline bool dtype_is_byte(dtype t) { return t == DT_I8 || t == DT_U8; }
bool dtype_is_int(dtype t);    // signed or unsigned, not bool
bool dtype_is_signed(dtype t); // ints and floats with negative values
// The type in which kernels compute: f16, bf16, f8*, f4 -> f32; (u)int4 and (u)int2 -> (u)int8; others
// unchanged.
dtype dtype_compute(dtype t);
// Bytes of n elements as ONNX stores them (packed types: two or four to a byte, low bits first);
// -1 when the product overflows int64.
int64_t dtype_size(dtype t, int64_t n);
// Bytes of n elements in raw_data: as in memory, except that four float6 take three bytes, in memory four.
int64_t dtype_raw_size(dtype t, int64_t n);
// Elements of such a type from raw_data to memory, and back.
void dtype_unpack(void *to, const void *raw, int64_t n);
void dtype_pack(void *raw, const void *from, int64_t n);
// Smallest and largest value of an integer type (uint64: its maximum does not fit, INT64_MAX is given).
int64_t dtype_int_min(dtype t);
int64_t dtype_int_max(dtype t);

// Element i of packed or plain storage, exact; float kinds through double, ints through int64 (uint64 by
// two's complement). The other class converts: ints and bools load as floats, floats load as ints toward
// zero (clamped, NaN is 0); complex numbers give their real part.
double dtype_load_float(dtype t, const void *data, int64_t i);
int64_t dtype_load_int(dtype t, const void *data, int64_t i);
// Round to nearest even; saturate says what float8 does beyond its range (ONNX Cast's attribute). float4
// and float6 always saturate and float8e8m0 rounds up, the default of Cast's round_mode. Stores of a float to an
// integer type go toward zero and clamp.
void dtype_store_float(dtype t, void *data, int64_t i, double v, bool saturate);
void dtype_store_int(dtype t, void *data, int64_t i, int64_t v); // wraps
// to[at] = from[i], loaded and stored with the functions above (saturating).
void dtype_copy(dtype to_type, void *to, int64_t at, dtype from_type, const void *from, int64_t i);

// The code of |v| as float8e8m0 under Cast's round_mode: away from zero, toward zero, or to the nearest with
// ties up. Out of range (also 0): the nearest end when saturating, else NaN.
typedef enum e8m0_round { E8M0_UP, E8M0_DOWN, E8M0_NEAREST } e8m0_round;
uint8_t dtype_to_e8m0(double v, e8m0_round mode, bool saturate);
#endif
