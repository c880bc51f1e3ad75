// The door for untrusted protobuf: in, the bytes of a file; out, its message unpacked by protobuf-c after
// every byte was checked, with all raw_data left in the file and replaced by where it lies.
#ifndef ONNXC_COMPILER_IMPORT_WIRE_H
#define ONNXC_COMPILER_IMPORT_WIRE_H
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include <protobuf-c/protobuf-c.h>

// What TensorProto.raw_data holds once unpacked: place in the file, in the machine's byte order.
typedef struct wire_span {
    uint64_t offset, size;
} wire_span;

// A fatal error of d when the bytes are no message of that kind. The result and all it points to live in a.
ProtobufCMessage *wire_unpack(arena *a, diag *d, const ProtobufCMessageDescriptor *kind, const uint8_t *data,
                              size_t size);
#endif
