// Protobuf's wire format, written field by field. Lengths of messages take five bytes, so that they can be
// filled in when the message ends.
#include "compiler/import/text/wire_out.h"
#include <stdbool.h>
#include <string.h>

enum { LENGTH_BYTES = 5, WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

wire_field *wire_field_named(wire_kind *kind, const char *name) {
    return protobuf_c_message_descriptor_get_field_by_name(kind, name);
}

static uint8_t *grow(wire_out *o, size_t n) {
    if (o->room - o->size < n) {
        size_t room = 2 * o->room + n + 256;
        o->data = arena_grow(o->arena, o->data, o->size, room);
        o->room = room;
    }
    o->size += n;
    return o->data + o->size - n;
}

static void varint(wire_out *o, uint64_t v) {
    for (; v >= 0x80; v >>= 7) *grow(o, 1) = (uint8_t)(v | 0x80);
    *grow(o, 1) = (uint8_t)v;
}

static void tag(wire_out *o, wire_field *f, int wire) { varint(o, (uint64_t)f->id << 3 | (uint64_t)wire); }

static void fixed(wire_out *o, uint64_t v, int bytes) {
    uint8_t *to = grow(o, (size_t)bytes);
    for (int j = 0; j < bytes; j++) to[j] = (uint8_t)(v >> 8 * j);
}

size_t wire_begin(wire_out *o, wire_field *f) {
    tag(o, f, WIRE_BYTES);
    grow(o, LENGTH_BYTES);
    return o->size;
}

void wire_end(wire_out *o, size_t mark) {
    uint64_t n = o->size - mark;
    uint8_t *to = o->data + mark - LENGTH_BYTES;
    for (int j = 0; j < LENGTH_BYTES; j++)
        to[j] = (uint8_t)(n >> 7 * j & 0x7f) | (j < LENGTH_BYTES - 1 ? 0x80 : 0);
}

void wire_int(wire_out *o, wire_field *f, uint64_t v) {
    ProtobufCType t = f->type;
    bool narrow = t == PROTOBUF_C_TYPE_FIXED32 || t == PROTOBUF_C_TYPE_SFIXED32;
    if (narrow || t == PROTOBUF_C_TYPE_FIXED64 || t == PROTOBUF_C_TYPE_SFIXED64) {
        tag(o, f, narrow ? WIRE_32 : WIRE_64);
        fixed(o, v, narrow ? 4 : 8);
        return;
    }
    if (t == PROTOBUF_C_TYPE_SINT32 || t == PROTOBUF_C_TYPE_SINT64)
        v = v << 1 ^ (uint64_t)-(int64_t)(v >> 63);
    tag(o, f, WIRE_VARINT);
    varint(o, v);
}

void wire_real(wire_out *o, wire_field *f, double v) {
    if (f->type == PROTOBUF_C_TYPE_DOUBLE) {
        uint64_t bits;
        memcpy(&bits, &v, sizeof bits);
        tag(o, f, WIRE_64);
        fixed(o, bits, 8);
        return;
    }
    float narrow = (float)v;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    tag(o, f, WIRE_32);
    fixed(o, bits, 4);
}

void wire_bytes(wire_out *o, wire_field *f, const void *s, size_t n) {
    tag(o, f, WIRE_BYTES);
    varint(o, n);
    uint8_t *to = grow(o, n);
    if (n) memcpy(to, s, n);
}
