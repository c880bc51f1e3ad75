"""The C interface for ctypes: the structs of onnxc.h and onnxc_compiler.h, member by member.

In: a path. Out: a library with typed functions, or the model in a shared library compiled by onnxc.
"""
from __future__ import annotations

import ctypes
import os
import struct
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32,
                    c_void_p)
from typing import Any, Iterator, Optional, Tuple

INTERFACE = 2
TOO_SMALL = 5


# ---------------------------------------------------------------- onnxc.h
class Options(Structure):
    _fields_ = [("size", c_size_t), ("weights", c_char_p), ("data", c_void_p), ("data_size", c_size_t),
                ("device", c_int), ("device_pointers", c_int), ("stream", c_void_p), ("message", c_void_p), ("message_size", c_size_t),
                ("no_graphs", c_int)]


class Context(Structure):
    _fields_ = [("weights", c_void_p), ("weights_size", c_size_t), ("mapped", c_int), ("device", c_int), ("gpu", c_void_p)]


class Model(Structure):
    _fields_ = [("descriptor", c_void_p), ("run", c_void_p), ("workspace", c_void_p), ("open", c_void_p), ("close", c_void_p)]


class String(Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class Value(Structure):
    _fields_ = [("kind", c_int32), ("dtype", c_int32), ("rank", c_int64), ("count", c_int64), ("dims", POINTER(c_int64)),
                ("data", c_void_p)]


class Descriptor(Structure):
    _fields_ = [("magic", c_char * 8)] + [(name, c_uint32) for name in (
        "interface_version", "bytes", "name", "graph_name", "doc", "producer", "version", "target", "model_hash",
        "options_hash", "ninputs", "inputs", "noutputs", "outputs", "nsymbols", "symbols", "nmetadata", "metadata", "ndims",
        "workspace_align")] + [("workspace_bytes", c_int64), ("weights", c_uint32), ("unused", c_uint32)]


class TensorInfo(Structure):
    _fields_ = [("name", c_uint32), ("identifier", c_uint32), ("doc", c_uint32), ("dtype", c_int32), ("rank", c_uint32),
                ("dims", c_uint32), ("first_dim", c_uint32), ("data_sized", c_uint32), ("state", c_uint32),
                ("zero_point", c_int32), ("scale", c_float), ("kind", c_uint32), ("type", c_uint32), ("has_default", c_uint32),
                ("nlabels", c_uint32), ("labels", c_uint32), ("label_dtype", c_int32), ("room", c_uint32)]


class LabelInfo(Structure):
    _fields_ = [("number", c_int64), ("text", c_uint32), ("bytes", c_uint32)]


class DimInfo(Structure):
    _fields_ = [("value", c_int64), ("text", c_uint32), ("unused", c_uint32)]


RUN = CFUNCTYPE(c_int, POINTER(c_void_p), POINTER(c_int64), POINTER(c_int64), c_void_p, c_size_t, POINTER(c_char_p))
RUN_AT = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p)  # the same by addresses
WORKSPACE = CFUNCTYPE(c_int64, POINTER(c_int64))
OPEN = CFUNCTYPE(c_int, POINTER(Options), POINTER(c_void_p))
CLOSE = CFUNCTYPE(None, c_void_p)


# ---------------------------------------------------------------- onnxc_compiler.h
class CompilerMessage(Structure):
    _fields_ = [("severity", c_int), ("result", c_int), ("full", c_char_p), ("text", c_char_p), ("hint", c_char_p),
                ("file", c_char_p), ("node", c_char_p), ("op", c_char_p), ("version", c_int)]


MESSAGE = CFUNCTYPE(None, c_void_p, POINTER(CompilerMessage))
PRINT = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
CANCELLED = CFUNCTYPE(c_int, c_void_p)


class Job(Structure):
    _fields_ = [("size", c_size_t), ("model", c_char_p), ("data", c_char_p), ("data_size", c_size_t),
                ("data_folder", c_char_p), ("options", POINTER(c_char_p)), ("noptions", c_int), ("memory_limit", c_size_t),
                ("user", c_void_p), ("message", MESSAGE), ("print", PRINT), ("cancelled", CANCELLED)]


def open_compiler(path: str) -> Any:
    """libonnxc, with the types of its functions."""
    library = ctypes.CDLL(path)
    job = POINTER(Job)
    for name, result, *arguments in (
            ("onnxc_compile", c_int, job),
            ("onnxc_compile_to_memory", c_int, job, POINTER(c_void_p), POINTER(c_size_t)),
            ("onnxc_free", None, c_void_p),
            ("onnxc_load", c_int, job, POINTER(c_void_p)),
            ("onnxc_loaded_model", Model, c_void_p),
            ("onnxc_unload", None, c_void_p),
            ("onnxc_compiler_version", c_char_p)):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


# free() of the C library that models allocate with.
c_free = ctypes.CDLL(None).free
c_free.restype, c_free.argtypes = None, [c_void_p]


# ---------------------------------------------------------------- models in shared libraries
def exported_names(path: str) -> Iterator[str]:
    """The names that a 64-bit ELF file exports, from its dynamic symbols."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"'{path}' is not a 64-bit little-endian ELF file")
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    for section in sections:
        if section[1] != 11:  # SHT_DYNSYM
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, _, _, where = struct.unpack_from("<IBBH", data, at)
            if where:
                yield data[names + name:data.index(b"\0", names + name)].decode()


def library_model(path: str, name: Optional[str] = None) -> Tuple[Any, Model]:
    """(library, Model) of a file; name: the name of the model, None: the only one."""
    ending = "_descriptor"
    names = sorted(n[:-len(ending)] for n in exported_names(path) if n.endswith(ending) and len(n) > len(ending))
    if name is None and len(names) != 1:
        raise ValueError(f"'{path}' contains no model" if not names else f"'{path}' contains the models {', '.join(names)}: name one")
    if name is not None and name not in names:
        raise ValueError(f"'{path}' contains no model '{name}'")
    name = name or names[0]
    library = ctypes.CDLL(os.path.abspath(path))

    def address(of: str) -> Optional[int]:
        try:
            return ctypes.cast(getattr(library, name + of), c_void_p).value
        except AttributeError:
            return None
    return library, Model(address(ending), address("_run_generic"), address("_workspace_generic"), address("_open"),
                          address("_close"))
