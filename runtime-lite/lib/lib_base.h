/* Shared by all library functions, also in emitted C: declarations, and element types (DT_... are the
 * codes of ONNX's TensorProto.DataType). */
#ifndef ONNXC_LIB_BASE_H
#define ONNXC_LIB_BASE_H
#include "runtime-lite/lib/dtypes.h"
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

/* Bytes of n elements; narrow ones are packed. */
ONNXC_MAYBE_UNUSED static int64_t lib_bytes(int64_t elem, int64_t n) {
    static const unsigned char bits[] = {
#define X(e, name, code, bits, ...) bits,
        DTYPES(X)
#undef X
    };
    if (elem == DT_STRING) return n * (int64_t)(sizeof(char *) + sizeof(size_t)); /* onnxc_string */
    return (n * bits[elem] + 7) / 8;
}
#endif
