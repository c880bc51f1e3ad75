// Writing protobuf's wire format by field numbers, as bytes at the end of a text.
#ifndef ONNXC_COMPILER_BASE_PROTOBUF_H
#define ONNXC_COMPILER_BASE_PROTOBUF_H
#include "compiler/base/arena.h"

// Wire types, and the bytes of a length that is filled in when its message ends.
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5, LENGTH_BYTES = 5 };

static inline void pb_varint(text *t, uint64_t v) {
    char s[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) s[n++] = (char)(v | 0x80);
    s[n++] = (char)v;
    text_addn(t, s, n);
}

// At most 8 bytes, the lowest first.
static inline void pb_fixed(text *t, uint64_t v, int bytes) {
    char s[8];
    for (int i = 0; i < bytes; i++) s[i] = (char)(v >> 8 * i);
    text_addn(t, s, (size_t)bytes);
}

static inline void pb_tag(text *t, int field, int wire) {
    pb_varint(t, (uint64_t)field << 3 | (unsigned)wire);
}

static inline void pb_int(text *t, int field, uint64_t v) {
    pb_tag(t, field, WIRE_VARINT);
    pb_varint(t, v);
}

static inline void pb_bytes(text *t, int field, const void *s, size_t n) {
    pb_tag(t, field, WIRE_BYTES);
    pb_varint(t, n);
    text_addn(t, s, n);
}

// Stores n as a varint of LENGTH_BYTES bytes.
static inline void pb_fill_length(void *to, size_t n) {
    for (int i = 0; i < LENGTH_BYTES; i++, n >>= 7)
        ((uint8_t *)to)[i] = (uint8_t)((n & 0x7f) | (i < LENGTH_BYTES - 1 ? 0x80 : 0));
}
#endif
