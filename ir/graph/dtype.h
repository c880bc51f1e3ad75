// Element types: ONNX's, with how they are stored and what a kernel computes in.
#ifndef ONNXC_IR_GRAPH_DTYPE_H
#define ONNXC_IR_GRAPH_DTYPE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// X(enumerator, name in onnxc's text, ONNX TensorProto.DataType code, bits, class)
#define DTYPES(X)                                                                                            \
    X(DT_NONE, "none", 0, 0, DC_NONE)                                                                        \
    X(DT_F32, "float", 1, 32, DC_FLOAT)                                                                      \
    X(DT_U8, "uint8", 2, 8, DC_UINT)                                                                         \
    X(DT_I8, "int8", 3, 8, DC_INT)                                                                           \
    X(DT_U16, "uint16", 4, 16, DC_UINT)                                                                      \
    X(DT_I16, "int16", 5, 16, DC_INT)                                                                        \
    X(DT_I32, "int32", 6, 32, DC_INT)                                                                        \
    X(DT_I64, "int64", 7, 64, DC_INT)                                                                        \
    X(DT_STRING, "string", 8, 128, DC_STRING)                                                                \
    X(DT_BOOL, "bool", 9, 8, DC_BOOL)                                                                        \
    X(DT_F16, "float16", 10, 16, DC_FLOAT)                                                                   \
    X(DT_F64, "double", 11, 64, DC_FLOAT)                                                                    \
    X(DT_U32, "uint32", 12, 32, DC_UINT)                                                                     \
    X(DT_U64, "uint64", 13, 64, DC_UINT)                                                                     \
    X(DT_C64, "complex64", 14, 64, DC_COMPLEX)                                                               \
    X(DT_C128, "complex128", 15, 128, DC_COMPLEX)                                                            \
    X(DT_BF16, "bfloat16", 16, 16, DC_FLOAT)                                                                 \
    X(DT_F8E4M3FN, "float8e4m3fn", 17, 8, DC_FLOAT)                                                          \
    X(DT_F8E4M3FNUZ, "float8e4m3fnuz", 18, 8, DC_FLOAT)                                                      \
    X(DT_F8E5M2, "float8e5m2", 19, 8, DC_FLOAT)                                                              \
    X(DT_F8E5M2FNUZ, "float8e5m2fnuz", 20, 8, DC_FLOAT)                                                      \
    X(DT_U4, "uint4", 21, 4, DC_UINT)                                                                        \
    X(DT_I4, "int4", 22, 4, DC_INT)                                                                          \
    X(DT_F4E2M1, "float4e2m1", 23, 4, DC_FLOAT)                                                              \
    X(DT_F8E8M0, "float8e8m0", 24, 8, DC_FLOAT)                                                              \
    X(DT_U2, "uint2", 25, 2, DC_UINT)                                                                        \
    X(DT_I2, "int2", 26, 2, DC_INT)

typedef enum dtype {
#define X(e, name, code, bits, class) e = code,
    DTYPES(X)
#undef X
        DT_COUNT
} dtype;
typedef enum dtype_class { DC_NONE, DC_FLOAT, DC_INT, DC_UINT, DC_BOOL, DC_COMPLEX, DC_STRING } dtype_class;

const char *dtype_name(dtype t);
dtype dtype_from_name(const char *name); // DT_NONE when there is none of that name
dtype dtype_from_onnx(int code);         // DT_NONE when unknown
int dtype_bits(dtype t);                 // as stored; 2 and 4 for packed types
dtype_class dtype_class_of(dtype t);
bool dtype_is_float(dtype t);  // all real floating types, also f8 and f4
bool dtype_is_int(dtype t);    // signed or unsigned, not bool
bool dtype_is_signed(dtype t); // ints and floats with negative values
// What a kernel computes in: f16, bf16, f8*, f4 -> f32; (u)int4 and (u)int2 -> (u)int8; others themselves.
dtype dtype_compute(dtype t);
// Bytes of n elements as ONNX stores them (packed types: two or four to a byte, low bits first);
// -1 when the product overflows int64.
int64_t dtype_size(dtype t, int64_t n);
// Smallest and largest value of an integer type (uint64: its maximum does not fit, INT64_MAX is given).
int64_t dtype_int_min(dtype t);
int64_t dtype_int_max(dtype t);

// Element i of packed or plain storage, exact; float kinds through double, ints through int64 (uint64 by
// two's complement). The other class converts: ints and bools load as floats, floats load as ints toward
// zero (clamped, NaN is 0); complex numbers give their real part.
double dtype_load_float(dtype t, const void *data, int64_t i);
int64_t dtype_load_int(dtype t, const void *data, int64_t i);
// Round to nearest even; saturate says what float8 does beyond its range (ONNX Cast's attribute). float4
// always saturates and float8e8m0 rounds up, the default of Cast's round_mode. Stores of a float to an
// integer type go toward zero and clamp.
void dtype_store_float(dtype t, void *data, int64_t i, double v, bool saturate);
void dtype_store_int(dtype t, void *data, int64_t i, int64_t v); // wraps

// The code of |v| as float8e8m0 under Cast's round_mode: away from zero, toward zero, or to the nearest with
// ties up. Out of range (also 0): the nearest end when saturating, else NaN.
typedef enum e8m0_round { E8M0_UP, E8M0_DOWN, E8M0_NEAREST } e8m0_round;
uint8_t dtype_to_e8m0(double v, e8m0_round mode, bool saturate);
#endif
