// A run of bytes that lives in an arena.
#ifndef ONNXC_COMPILER_BASE_BYTES_H
#define ONNXC_COMPILER_BASE_BYTES_H
#include <stddef.h>

typedef struct bytes {
    const void *at;
    size_t n;
} bytes;
#endif
