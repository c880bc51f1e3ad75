"""Metadata of a model. In: its descriptor, and the model itself for what descriptors leave out. Out: ModelMetadata."""
from __future__ import annotations

import ctypes
import io
import os
from typing import Any, BinaryIO, Dict, Iterator, NamedTuple, Optional, Tuple, Union

from .ports import DescriptorReader

# Fields of ModelProto and GraphProto.
DOMAIN, MODEL_VERSION, GRAPH, GRAPH_DOC = 4, 5, 7, 10
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class ModelMetadata(NamedTuple):
    """As in ONNX Runtime, with the model's C name, its target and the version of the compiler. domain, version and graph_description are
    empty for models that are not .onnx files."""

    name: str
    graph_name: str
    description: str
    producer_name: str
    compiler_version: str
    target: str
    custom_metadata_map: Dict[str, str]
    domain: str = ""
    version: int = 0
    graph_description: str = ""


def _varint(f: BinaryIO) -> int:
    value = shift = 0
    while True:
        byte = f.read(1)
        if not byte or shift > 63:
            raise EOFError
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return value
        shift += 7


def _fields(f: BinaryIO, end: int) -> Iterator[Tuple[int, int, int]]:
    """(number, wire type, value or size) of a message's fields; the contents of one that is not read are skipped."""
    while f.tell() < end:
        key = _varint(f)
        kind = key & 7
        if kind not in (VARINT, FIXED64, BYTES, FIXED32):
            raise EOFError
        value = _varint(f) if kind in (VARINT, BYTES) else {FIXED64: 8, FIXED32: 4}[kind]
        after = f.tell() + (0 if kind == VARINT else value)
        yield key >> 3, kind, value
        f.seek(after)


def _text(f: BinaryIO, size: int, end: int) -> str:
    return f.read(min(size, end)).decode(errors="replace")


def _read(f: BinaryIO, end: int) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    try:
        for number, kind, value in _fields(f, end):
            if (number, kind) == (DOMAIN, BYTES):
                found["domain"] = _text(f, value, end)
            elif (number, kind) == (MODEL_VERSION, VARINT):
                found["version"] = value - (1 << 64) if value >> 63 else value
            elif (number, kind) == (GRAPH, BYTES):
                for inner, wire, size in _fields(f, f.tell() + value):
                    if (inner, wire) == (GRAPH_DOC, BYTES):
                        found["graph_description"] = _text(f, size, end)
    except EOFError:
        return {}
    return found


def read_model(model: Union[str, bytes, None]) -> Dict[str, Any]:
    """What the descriptor leaves out, from a path or the bytes of a model; nothing from files of another kind."""
    if isinstance(model, bytes):
        return _read(io.BytesIO(model), len(model))
    if model is None or not model.endswith(".onnx"):
        return {}
    try:
        with open(model, "rb") as f:
            return _read(f, os.fstat(f.fileno()).st_size)
    except OSError:
        return {}


def metadata(reader: DescriptorReader, model: Optional[Union[str, bytes]]) -> ModelMetadata:
    d, text = reader.d, reader.text
    pairs = reader.array(ctypes.c_uint32, d.metadata, 2 * d.nmetadata)
    values = [text(p.value) for p in pairs]
    return ModelMetadata(text(d.name), text(d.graph_name), text(d.doc), text(d.producer), text(d.version), text(d.target),
                         dict(zip(values[::2], values[1::2])), **read_model(model))
