// Protobuf writer: the output of the readers of text formats, which the wire walker reads like any file.
#ifndef ONNXC_COMPILER_IMPORT_TEXT_WIRE_OUT_H
#define ONNXC_COMPILER_IMPORT_TEXT_WIRE_OUT_H
#include "compiler/base/protobuf.h"
#include <protobuf-c/protobuf-c.h>

typedef text wire_out;
typedef const ProtobufCMessageDescriptor wire_kind;
typedef const ProtobufCFieldDescriptor wire_field;

// The field of that name; NULL: none.
wire_field *wire_field_named(wire_kind *kind, const char *name);
static inline wire_kind *wire_field_kind(wire_field *f) { return f->descriptor; }

// Fields of a nested message are written between begin and end, which takes the result of begin.
size_t wire_begin(wire_out *o, wire_field *f);
void wire_end(wire_out *o, size_t mark);
// Numbers of every integer type, enum and bool.
void wire_int(wire_out *o, wire_field *f, uint64_t v);
void wire_real(wire_out *o, wire_field *f, double v); // float, double
void wire_bytes(wire_out *o, wire_field *f, const void *s, size_t n);
#endif
