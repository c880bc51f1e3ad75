"""DLPack: arrays of other libraries without copies. In: objects with __dlpack__ or their capsules, arrays of numpy. Out: the one as
the other.

numpy itself has no types for bfloat16 and 8-bit floats, so both directions read and write the structs of dlpack.h here: those of
version 1, which tell that memory is read-only, and those before it.
"""
from __future__ import annotations

import ctypes
import math
import weakref
from ctypes import CFUNCTYPE, POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidArgument

CPU, CUDA_HOST = 1, 3
DEVICES = {1: "cpu", 2: "cuda", 3: "cuda-host", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda-managed", 14: "oneapi"}


class DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class DLManagedTensor(Structure):
    _fields_ = [("tensor", DLTensor), ("manager", c_void_p), ("deleter", c_void_p)]


class DLManagedTensorVersioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
                ("tensor", DLTensor)]


Managed = Union[DLManagedTensor, DLManagedTensorVersioned]
READ_ONLY, IS_COPY = 1, 2
DELETER = CFUNCTYPE(None, c_void_p)
# By the name of the capsule, which must outlive it.
NAME, VERSIONED = ctypes.c_char_p(b"dltensor"), ctypes.c_char_p(b"dltensor_versioned")
USED, USED_VERSIONED = ctypes.c_char_p(b"used_dltensor"), ctypes.c_char_p(b"used_dltensor_versioned")
DESTRUCTOR = CFUNCTYPE(None, c_void_p)
_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, ctypes.c_char_p, DESTRUCTOR)(("PyCapsule_New", _api))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(("PyCapsule_SetName", _api))

CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
# (code, bits) of types that numpy lacks: their names in ml_dtypes
EXTRA = {(4, 16): "bfloat16", (10, 8): "float8_e4m3fn", (11, 8): "float8_e4m3fnuz", (12, 8): "float8_e5m2",
         (13, 8): "float8_e5m2fnuz", (14, 8): "float8_e8m0fnu"}


def _dtype(code: int, bits: int) -> Optional[np.dtype[Any]]:
    kind = {number: letter for letter, number in CODES.items()}.get(code)
    if kind:
        return np.dtype(bool) if kind == "b" else np.dtype(f"{kind}{bits // 8}")
    if (code, bits) not in EXTRA:
        return None
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(f"u{bits // 8}")
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, EXTRA[code, bits], f"u{bits // 8}"))
    return found


def _type_code(dtype: np.dtype[Any]) -> Tuple[int, int]:
    for key, name in EXTRA.items():
        if dtype.name == name:
            return key
    if dtype.kind not in CODES or not dtype.isnative:
        raise BufferError(f"DLPack has no type for {dtype}")
    return CODES[dtype.kind], 8 * dtype.itemsize


def _check_device(device: int, number: int, what: str) -> None:
    if device not in (CPU, CUDA_HOST):
        name = DEVICES.get(int(device), f"device type {int(device)}")
        raise InvalidArgument(f"{what} lies on {name}:{number}; copy it to the CPU first")


def _exported_by(value: Any) -> Any:
    try:
        return value.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before version 1
        return value.__dlpack__()


def _capsule(value: Any, what: str) -> Any:
    """Of an object with __dlpack__; a capsule is one already."""
    if not hasattr(value, "__dlpack__"):
        return value
    try:
        device = value.__dlpack_device__()
        capsule = _exported_by(value) if device[0] in (CPU, CUDA_HOST) else None
    except (AttributeError, BufferError, RuntimeError, ValueError) as error:
        raise InvalidArgument(f"{what}: {error}") from error
    _check_device(device[0], device[1], what)
    return capsule


def from_dlpack(value: Any, what: str) -> NDArray[Any]:
    """The array of an object with __dlpack__, or of a capsule, which shares its memory."""
    capsule = _capsule(value, what)
    versioned = bool(_is_valid(id(capsule), VERSIONED))
    name = VERSIONED if versioned else NAME
    if not versioned and not _is_valid(id(capsule), NAME):
        taken = _is_valid(id(capsule), USED) or _is_valid(id(capsule), USED_VERSIONED)
        problem = "the DLPack capsule was used before" if taken else f"there is no DLPack capsule, but {type(capsule).__name__}"
        raise InvalidArgument(f"{what}: {problem}")
    address = _pointer(id(capsule), name)
    managed = (DLManagedTensorVersioned if versioned else DLManagedTensor).from_address(address)
    if isinstance(managed, DLManagedTensorVersioned) and managed.major > 1:
        raise InvalidArgument(f"{what} has DLPack version {managed.major}.{managed.minor}, which is not supported")
    _check_device(managed.tensor.device_type, managed.tensor.device_id, what)
    dtype = _dtype(managed.tensor.code, managed.tensor.bits) if managed.tensor.lanes == 1 else None
    if dtype is None:
        raise InvalidArgument(f"{what} has DLPack type {managed.tensor.code} of {managed.tensor.bits} bits, which is not supported")
    _set_name(id(capsule), USED_VERSIONED if versioned else USED)
    array = _view(managed, address, dtype)
    array.flags.writeable = not (isinstance(managed, DLManagedTensorVersioned) and managed.flags & READ_ONLY)
    return array


def _view(managed: Managed, address: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Calls the deleter at the end of the array."""
    t = managed.tensor
    shape = tuple(t.shape[i] for i in range(t.ndim))
    if t.strides:
        strides = tuple(t.strides[i] * dtype.itemsize for i in range(t.ndim))
    else:
        strides = tuple(math.prod(shape[i + 1:]) * dtype.itemsize for i in range(t.ndim))
    ends = [(n - 1) * s for n, s in zip(shape, strides)]
    low = sum(min(e, 0) for e in ends)
    size = sum(max(e, 0) for e in ends) - low + dtype.itemsize
    if 0 in shape:
        memory, low = (c_uint8 * dtype.itemsize)(), 0
    else:
        memory = (c_uint8 * size).from_address(t.data + t.byte_offset + low)
    if managed.deleter:
        weakref.finalize(memory, DELETER(managed.deleter), address)
    return np.ndarray(shape, dtype, memory, -low, strides)  # type: ignore[arg-type]


# By address: what an exported tensor consists of.
_exported: Dict[int, Tuple[Any, ...]] = {}


def _delete(address: int) -> None:
    _exported.pop(address, None)


def _destroy(capsule: int) -> None:
    for name in (NAME, VERSIONED):
        if _is_valid(capsule, name):  # nobody has taken it
            _exported.pop(_pointer(capsule, name), None)


_deleter, _destructor = DELETER(_delete), DESTRUCTOR(_destroy)


def to_dlpack(array: NDArray[Any], max_version: Optional[Tuple[int, int]] = None, dl_device: Optional[Tuple[int, int]] = None,
              copy: Optional[bool] = None) -> Any:
    """A capsule with the array's memory; the arguments are those of __dlpack__."""
    if dl_device is not None and tuple(dl_device) != (CPU, 0):
        raise BufferError(f"the array lies on the CPU, not on DLPack device {tuple(dl_device)}")
    versioned = max_version is not None and max_version[0] >= 1
    code, bits = _type_code(array.dtype)
    array = array.copy() if copy else array
    if not array.flags.writeable and not versioned:
        raise BufferError("the array is read-only, which DLPack cannot tell before version 1; pass a copy")
    size = max(array.dtype.itemsize, 1)
    if any(s % size for s in array.strides):
        raise BufferError("the array has strides that are not a multiple of an element; pass a copy")
    shape, strides = (c_int64 * max(array.ndim, 1))(*array.shape), (c_int64 * max(array.ndim, 1))(*(s // size for s in array.strides))
    tensor = DLTensor(array.ctypes.data, CPU, 0, array.ndim, code, bits, 1, shape, strides, 0)
    deleter = ctypes.cast(_deleter, c_void_p)
    flags = (0 if array.flags.writeable else READ_ONLY) | (IS_COPY if copy else 0)
    managed: Managed = DLManagedTensor(tensor, None, deleter)
    if versioned:
        managed = DLManagedTensorVersioned(1, 0, None, deleter, flags, tensor)
    address = ctypes.addressof(managed)
    _exported[address] = managed, shape, strides, array
    return _new(address, VERSIONED if versioned else NAME, _destructor)
