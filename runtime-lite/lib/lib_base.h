/* What library functions share: how they are declared, codes of element types. Also part of emitted C. */
#ifndef ONNXC_LIB_BASE_H
#define ONNXC_LIB_BASE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef ONNXC_LIB
#define ONNXC_LIB /* emitted C: static */
#endif
#if defined(__GNUC__)
#define ONNXC_MAYBE_UNUSED __attribute__((unused))
#else
#define ONNXC_MAYBE_UNUSED
#endif

/* ONNX's TensorProto.DataType */
enum {
    LIB_F32 = 1,
    LIB_U8 = 2,
    LIB_I8 = 3,
    LIB_U16 = 4,
    LIB_I16 = 5,
    LIB_I32 = 6,
    LIB_I64 = 7,
    LIB_STRING = 8,
    LIB_BOOL = 9,
    LIB_F16 = 10,
    LIB_F64 = 11,
    LIB_U32 = 12,
    LIB_U64 = 13,
    LIB_BF16 = 16
};
#endif
