/* ONNX's element types, in one table: for the compiler (ir/graph/dtype.h) and the runtime. */
#ifndef ONNXC_DTYPES_H
#define ONNXC_DTYPES_H

/* X(enumerator, name in onnxc's text, ONNX TensorProto.DataType code, bits, class, bits of a float's
 * exponent, bits of its fraction, what its largest exponent means, type in C, numpy's code without byte
 * order, field of TensorProto that holds it) */
#define DTYPES(X)                                                                                            \
    X(DT_NONE, "none", 0, 0, DC_NONE, 0, 0, FORMAT_NONE, "void", "", NO_DATA)                                \
    X(DT_F32, "float", 1, 32, DC_FLOAT, 8, 23, FORMAT_IEEE, "float", "f4", FLOAT_DATA)                       \
    X(DT_U8, "uint8", 2, 8, DC_UINT, 0, 0, FORMAT_NONE, "uint8_t", "u1", INT32_DATA)                         \
    X(DT_I8, "int8", 3, 8, DC_INT, 0, 0, FORMAT_NONE, "int8_t", "i1", INT32_DATA)                            \
    X(DT_U16, "uint16", 4, 16, DC_UINT, 0, 0, FORMAT_NONE, "uint16_t", "u2", INT32_DATA)                     \
    X(DT_I16, "int16", 5, 16, DC_INT, 0, 0, FORMAT_NONE, "int16_t", "i2", INT32_DATA)                        \
    X(DT_I32, "int32", 6, 32, DC_INT, 0, 0, FORMAT_NONE, "int32_t", "i4", INT32_DATA)                        \
    X(DT_I64, "int64", 7, 64, DC_INT, 0, 0, FORMAT_NONE, "int64_t", "i8", INT64_DATA)                        \
    X(DT_STRING, "string", 8, 128, DC_STRING, 0, 0, FORMAT_NONE, "onnxc_string", "", STRING_DATA)            \
    X(DT_BOOL, "bool", 9, 8, DC_BOOL, 0, 0, FORMAT_NONE, "uint8_t", "b1", INT32_DATA)                        \
    X(DT_F16, "float16", 10, 16, DC_FLOAT, 5, 10, FORMAT_IEEE, "uint16_t", "f2", INT32_DATA)                 \
    X(DT_F64, "double", 11, 64, DC_FLOAT, 11, 52, FORMAT_IEEE, "double", "f8", DOUBLE_DATA)                  \
    X(DT_U32, "uint32", 12, 32, DC_UINT, 0, 0, FORMAT_NONE, "uint32_t", "u4", UINT64_DATA)                   \
    X(DT_U64, "uint64", 13, 64, DC_UINT, 0, 0, FORMAT_NONE, "uint64_t", "u8", UINT64_DATA)                   \
    X(DT_C64, "complex64", 14, 64, DC_COMPLEX, 0, 0, FORMAT_NONE, "float", "c8", FLOAT_DATA)                 \
    X(DT_C128, "complex128", 15, 128, DC_COMPLEX, 0, 0, FORMAT_NONE, "double", "c16", DOUBLE_DATA)           \
    X(DT_BF16, "bfloat16", 16, 16, DC_FLOAT, 8, 7, FORMAT_IEEE, "uint16_t", "V2", INT32_DATA)                \
    X(DT_F8E4M3FN, "float8e4m3fn", 17, 8, DC_FLOAT, 4, 3, FORMAT_FN, "uint8_t", "V1", INT32_DATA)            \
    X(DT_F8E4M3FNUZ, "float8e4m3fnuz", 18, 8, DC_FLOAT, 4, 3, FORMAT_FNUZ, "uint8_t", "V1", INT32_DATA)      \
    X(DT_F8E5M2, "float8e5m2", 19, 8, DC_FLOAT, 5, 2, FORMAT_IEEE, "uint8_t", "V1", INT32_DATA)              \
    X(DT_F8E5M2FNUZ, "float8e5m2fnuz", 20, 8, DC_FLOAT, 5, 2, FORMAT_FNUZ, "uint8_t", "V1", INT32_DATA)      \
    X(DT_U4, "uint4", 21, 4, DC_UINT, 0, 0, FORMAT_NONE, "uint8_t", "V1", INT32_DATA)                        \
    X(DT_I4, "int4", 22, 4, DC_INT, 0, 0, FORMAT_NONE, "uint8_t", "V1", INT32_DATA)                          \
    X(DT_F4E2M1, "float4e2m1", 23, 4, DC_FLOAT, 2, 1, FORMAT_FINITE, "uint8_t", "V1", INT32_DATA)            \
    X(DT_F8E8M0, "float8e8m0", 24, 8, DC_FLOAT, 8, 0, FORMAT_NONE, "uint8_t", "V1", INT32_DATA)              \
    X(DT_U2, "uint2", 25, 2, DC_UINT, 0, 0, FORMAT_NONE, "uint8_t", "V1", INT32_DATA)                        \
    X(DT_I2, "int2", 26, 2, DC_INT, 0, 0, FORMAT_NONE, "uint8_t", "V1", INT32_DATA)                          \
    X(DT_F6E2M3, "float6e2m3", 27, 8, DC_FLOAT, 2, 3, FORMAT_FINITE, "uint8_t", "V1", INT32_DATA)            \
    X(DT_F6E3M2, "float6e3m2", 28, 8, DC_FLOAT, 3, 2, FORMAT_FINITE, "uint8_t", "V1", INT32_DATA)

typedef enum dtype {
#define X(e, name, code, ...) e = code,
    DTYPES(X)
#undef X
        DT_COUNT
} dtype;
#endif
