#!/usr/bin/env python3
# Writes proto/onnx.proto (to standard output) from the descriptors of the installed onnx package:
# models, data files (sequences, optionals, maps) and operator sets in one proto2 file.
import sys

import onnx
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as F
from onnx import onnx_data_pb2, onnx_ml_pb2, onnx_operators_ml_pb2

LABEL = {F.LABEL_OPTIONAL: "optional ", F.LABEL_REPEATED: "repeated ", F.LABEL_REQUIRED: "required "}


def type_name(field):
    if field.type_name:
        return field.type_name.removeprefix(".onnx.")
    return F.Type.Name(field.type).removeprefix("TYPE_").lower()


def write_enum(enum, pad):
    yield f"{pad}enum {enum.name} {{"
    for value in enum.value:
        yield f"{pad}  {value.name} = {value.number};"
    yield pad + "}"


def field_line(field, label):
    options = []
    if field.default_value:
        options.append(f"default = {field.default_value}")
    if field.options.packed:
        options.append("packed = true")
    text = f" [{', '.join(options)}]" if options else ""
    return f"{label}{type_name(field)} {field.name} = {field.number}{text};"


def write_fields(message, pad):
    opened = None
    for field in message.field:
        group = field.oneof_index if field.HasField("oneof_index") else None
        if opened is not None and group != opened:
            yield pad + "}"
        if group is not None and group != opened:
            yield f"{pad}oneof {message.oneof_decl[group].name} {{"
        opened = group
        if group is None:
            yield pad + field_line(field, LABEL[field.label])
        else:
            yield pad + "  " + field_line(field, "")
    if opened is not None:
        yield pad + "}"


def oneofs_together(message):
    """Fields with those of a oneof made adjacent (descriptors keep them in file order)."""
    order, seen = [], set()
    for field in message.field:
        if not field.HasField("oneof_index"):
            order.append(field)
        elif field.oneof_index not in seen:
            seen.add(field.oneof_index)
            order += [f for f in message.field if f.HasField("oneof_index") and f.oneof_index == field.oneof_index]
    copy = descriptor_pb2.DescriptorProto()
    copy.CopyFrom(message)
    del copy.field[:]
    copy.field.extend(order)
    return copy


def write_message(message, pad=""):
    message = oneofs_together(message)
    inner = pad + "  "
    yield f"{pad}message {message.name} {{"
    for enum in message.enum_type:
        yield from write_enum(enum, inner)
    for nested in message.nested_type:
        yield from write_message(nested, inner)
    yield from write_fields(message, inner)
    for span in message.reserved_range:
        last = span.end - 1
        yield f"{inner}reserved {span.start};" if span.start == last else f"{inner}reserved {span.start} to {last};"
    for name in message.reserved_name:
        yield f'{inner}reserved "{name}";'
    yield pad + "}"


def main():
    print(f"// The ONNX file format, IR version {onnx.IR_VERSION}. Made by tools/proto.py from onnx {onnx.__version__}; do not edit.")
    print('syntax = "proto2";\n\npackage onnx;')
    for module in (onnx_ml_pb2, onnx_data_pb2, onnx_operators_ml_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for enum in file.enum_type:
            print("\n" + "\n".join(write_enum(enum, "")))
        for message in file.message_type:
            print("\n" + "\n".join(write_message(message)))


if __name__ == "__main__":
    sys.exit(main())
