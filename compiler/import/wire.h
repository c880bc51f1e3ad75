// Unpacks untrusted protobuf: protobuf-c sees the bytes only after all have been checked. raw_data stays in
// the file and is replaced by its location.
#ifndef ONNXC_COMPILER_IMPORT_WIRE_H
#define ONNXC_COMPILER_IMPORT_WIRE_H
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include <protobuf-c/protobuf-c.h>

// Contents of TensorProto.raw_data once unpacked: a location in the file, in native byte order.
typedef struct wire_span {
    uint64_t offset, size;
} wire_span;

// A fatal error of d if the bytes are not a message of that type. The result and everything it points to live
// in a.
ProtobufCMessage *wire_unpack(arena *a, diag *d, const ProtobufCMessageDescriptor *kind, const uint8_t *data,
                              size_t size);
#endif
