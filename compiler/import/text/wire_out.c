// Writes protobuf's wire format. Lengths of messages take five bytes, so that they can be filled in when the
// message ends.
#include "compiler/import/text/wire_out.h"
#include <stdbool.h>
#include <string.h>

wire_field *wire_field_named(wire_kind *kind, const char *name) {
    return protobuf_c_message_descriptor_get_field_by_name(kind, name);
}

size_t wire_begin(wire_out *o, wire_field *f) {
    pb_tag(o, (int)f->id, WIRE_BYTES);
    text_addn(o, "\0\0\0\0", LENGTH_BYTES);
    return o->n;
}

void wire_end(wire_out *o, size_t mark) { pb_fill_length(o->s + mark - LENGTH_BYTES, o->n - mark); }

void wire_int(wire_out *o, wire_field *f, uint64_t v) {
    ProtobufCType t = f->type;
    bool narrow = t == PROTOBUF_C_TYPE_FIXED32 || t == PROTOBUF_C_TYPE_SFIXED32;
    if (narrow || t == PROTOBUF_C_TYPE_FIXED64 || t == PROTOBUF_C_TYPE_SFIXED64) {
        pb_tag(o, (int)f->id, narrow ? WIRE_32 : WIRE_64);
        pb_fixed(o, v, narrow ? 4 : 8);
        return;
    }
    if (t == PROTOBUF_C_TYPE_SINT32 || t == PROTOBUF_C_TYPE_SINT64)
        v = v << 1 ^ (uint64_t)-(int64_t)(v >> 63);
    pb_int(o, (int)f->id, v);
}

void wire_real(wire_out *o, wire_field *f, double v) {
    bool wide = f->type == PROTOBUF_C_TYPE_DOUBLE;
    float narrow = (float)v;
    uint64_t bits = 0;
    memcpy(&bits, wide ? (void *)&v : (void *)&narrow, wide ? 8 : 4);
    pb_tag(o, (int)f->id, wide ? WIRE_64 : WIRE_32);
    pb_fixed(o, bits, wide ? 8 : 4);
}

void wire_bytes(wire_out *o, wire_field *f, const void *s, size_t n) { pb_bytes(o, (int)f->id, s, n); }
