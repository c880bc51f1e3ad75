"""Values between numpy and the C interface. In: arrays, lists (sequences), dicts (maps), None (empty optionals). Out: their memory
as a model takes it, without copies where possible; and vice versa.

Types that numpy lacks are those of ml_dtypes. Without that package they are represented by their bits (uint16, uint8), and
4-bit and 2-bit integers by int8 and uint8. Strings are arrays of objects: str, or bytes of UTF-8.
"""
from __future__ import annotations

import ctypes
import math
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from . import abi, dlpack
from .errors import InvalidArgument

ml_dtypes: Any
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


class ElementType:
    """One of ONNX's element types. bits: size of an element in C memory, where those below 8 are packed."""

    def __init__(self, name: str, stored: str, bits: int, extra: Optional[str] = None) -> None:
        self.name, self.bits = name, bits
        self.stored: np.dtype[Any] = np.dtype(stored)  # what numpy holds without ml_dtypes
        self.dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, extra)) if extra and hasattr(ml_dtypes, extra) else self.stored
        self.is_string = name == "string"
        self.packed = bits < 8


ELEMENTS = {
    1: ElementType("float", "f4", 32), 2: ElementType("uint8", "u1", 8), 3: ElementType("int8", "i1", 8),
    4: ElementType("uint16", "u2", 16), 5: ElementType("int16", "i2", 16), 6: ElementType("int32", "i4", 32),
    7: ElementType("int64", "i8", 64), 8: ElementType("string", "O", 128), 9: ElementType("bool", "?", 8),
    10: ElementType("float16", "f2", 16), 11: ElementType("double", "f8", 64), 12: ElementType("uint32", "u4", 32),
    13: ElementType("uint64", "u8", 64), 14: ElementType("complex64", "c8", 64), 15: ElementType("complex128", "c16", 128),
    16: ElementType("bfloat16", "u2", 16, "bfloat16"), 17: ElementType("float8e4m3fn", "u1", 8, "float8_e4m3fn"),
    18: ElementType("float8e4m3fnuz", "u1", 8, "float8_e4m3fnuz"), 19: ElementType("float8e5m2", "u1", 8, "float8_e5m2"),
    20: ElementType("float8e5m2fnuz", "u1", 8, "float8_e5m2fnuz"), 21: ElementType("uint4", "u1", 4, "uint4"),
    22: ElementType("int4", "i1", 4, "int4"), 23: ElementType("float4e2m1", "u1", 4, "float4_e2m1fn"),
    24: ElementType("float8e8m0", "u1", 8, "float8_e8m0fnu"), 25: ElementType("uint2", "u1", 2, "uint2"),
    26: ElementType("int2", "i1", 2, "int2"), 27: ElementType("float6e2m3", "u1", 8, "float6_e2m3fn"),
    28: ElementType("float6e3m2", "u1", 8, "float6_e3m2fn"),
}
NUMBERS = {element.name: number for number, element in ELEMENTS.items()}


def element_type(number: int) -> ElementType:
    if number not in ELEMENTS:
        raise InvalidArgument(f"element type {number} is unknown")
    return ELEMENTS[number]


def address(array: NDArray[Any]) -> int:
    """The address of the elements. numpy's own way takes twice the time; it is used for arrays that are empty, read-only or of a type
    of ml_dtypes."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return int(array.ctypes.data)


# ---------------------------------------------------------------- from numpy
FEW_STRINGS = 8  # more of them are converted together


def is_text(value: Any) -> bool:
    """Whether it is a string that UTF-8 has, or bytes; surrogates stand for bytes that are no UTF-8."""
    if not isinstance(value, str) or value.isascii():
        return isinstance(value, (str, bytes))
    try:
        value.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def ascii_text(texts: List[Any]) -> Optional[str]:
    """All of them, with a zero after each; None: some are not strings of ASCII characters."""
    try:
        joined = "\0".join(texts) + "\0"
    except TypeError:
        return None
    return joined if joined.isascii() else None


def as_array(value: Any, element: ElementType, what: str) -> NDArray[Any]:
    """The value as a dense array of that type; the value itself if it already is one. Numbers and lists become arrays; an array
    of another type is an error."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidArgument(f"{what} takes an array without masked elements; value.filled(...) replaces them")
    if element.is_string:
        array = np.asarray(value, None if isinstance(value, (np.ndarray, np.generic)) else object)
        if array.dtype.kind not in "OUST" and array.size:
            raise InvalidArgument(f"{what} takes strings, not {array.dtype}")
        array = array.astype(object)
        if ascii_text(array.reshape(-1).tolist()) is None:
            for text in array.reshape(-1):
                if not is_text(text):
                    raise InvalidArgument(f"{what} takes strings, not {text!r:.60}")
        return array
    if not isinstance(value, (np.ndarray, np.generic)):
        value = dlpack.from_dlpack(value, what) if hasattr(value, "__dlpack__") else converted(value, element, what)
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    if value.dtype != element.dtype and value.dtype != element.stored:
        raise InvalidArgument(f"{what} takes {element.name} ({element.dtype}), not {value.dtype}")
    if element.packed and value.dtype == element.stored:
        check_range(value, element, what)
    if isinstance(value, np.ndarray) and value.flags.carray:
        return value
    return np.require(value, requirements=["C", "ALIGNED"])


def check_range(array: Any, element: ElementType, what: str) -> None:
    """Bytes that stand for elements of fewer bits."""
    signed = element.stored.kind == "i"
    low, high = (-(1 << element.bits - 1), (1 << element.bits - 1) - 1) if signed else (0, (1 << element.bits) - 1)
    wrong = array[(array < low) | (array > high)]
    if wrong.size:
        raise InvalidArgument(f"{what} takes {element.name} from {low} to {high}, not {wrong.reshape(-1)[0]}")


def converted(value: Any, element: ElementType, what: str) -> NDArray[Any]:
    """Numbers and nested lists as an array; fractions do not become integers."""
    if value is None:
        raise InvalidArgument(f"{what} is None")
    try:
        if element.name.startswith(("int", "uint", "bool")) and np.size(value) and np.asarray(value).dtype.kind in "fc":
            raise TypeError("it is not an integer")
        return np.asarray(value, element.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"{what} does not take {value!r:.60}: {error}") from error


def as_list(values: Iterable[Any], element: ElementType, what: str) -> NDArray[Any]:
    """Keys or values of a map as an array. Integers are accepted as floats, but not vice versa."""
    values = list(values)
    kinds = "OUS" if element.is_string else "biuf" if element.stored.kind == "f" else "biu"
    made = np.array(values, object) if element.is_string else np.asarray(values)
    wrong = [v for v in values if is_text(v) != element.is_string]
    if values and (wrong or made.ndim != 1 or made.dtype.kind not in kinds):
        raise InvalidArgument(f"{what} takes {element.name} in a map, not {repr([*wrong, *values][0]):.40}")
    return made.astype(element.dtype)


def pack(array: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """The elements of an array of bytes packed to `bits` bits each, the first one in the low bits."""
    each = 8 // bits
    flat = array.reshape(-1).view(np.uint8) & (2**bits - 1)
    flat = np.concatenate([flat, np.zeros(-flat.size % each, np.uint8)]).reshape(-1, each)
    made: NDArray[np.uint8] = np.bitwise_or.reduce(flat << (np.arange(each, dtype=np.uint8) * bits), axis=1).astype(np.uint8)
    return made


def unpack(packed: NDArray[Any], element: ElementType, count: int) -> NDArray[Any]:
    bits = element.bits
    each = 8 // bits
    flat = packed[:, None] >> (np.arange(each, dtype=np.uint8) * bits) & (2**bits - 1)
    flat = flat.reshape(-1)[:count].astype(np.uint8)
    if element.stored.kind == "i":
        flat = ((flat ^ (1 << bits - 1)) - (1 << bits - 1)).astype(np.uint8)
    made: NDArray[Any] = flat.view(element.dtype)
    return made


class Memory:
    """Memory that a call points to; lives as long as this object."""

    def __init__(self) -> None:
        self.kept: List[Any] = []

    def keep(self, thing: Any) -> Any:
        self.kept.append(thing)
        return thing

    def of_array(self, array: NDArray[Any], element: ElementType) -> int:
        """The address of a dense array's elements as C takes them."""
        if element.is_string:
            return self.of_strings(array)
        return address(self.keep(pack(array, element.bits) if element.packed else array))

    def of_few_strings(self, array: NDArray[Any]) -> Optional[int]:
        """None: they are too many, or not strings alone that UTF-8 has."""
        if array.size > FEW_STRINGS:
            return None
        try:
            return self._of_bytes([text.encode() for text in array.reshape(-1).tolist()])
        except (AttributeError, UnicodeEncodeError):
            return None

    def _of_bytes(self, texts: List[bytes]) -> int:
        pairs = self.keep((ctypes.c_char_p * max(2 * len(texts), 2))())
        sizes = (ctypes.c_size_t * len(pairs)).from_buffer(pairs)
        for j, text in enumerate(texts):
            pairs[2 * j] = text  # which the array keeps
            sizes[2 * j + 1] = len(text)
        return ctypes.addressof(pairs)

    def of_strings(self, array: NDArray[Any]) -> int:
        texts = array.reshape(-1).tolist()
        count = len(texts)
        joined = ascii_text(texts) if count > FEW_STRINGS else None
        if joined is None:
            texts = [t.encode(errors="surrogateescape") if isinstance(t, str) else bytes(t) for t in texts]
        if count <= FEW_STRINGS:
            return self._of_bytes(texts)
        sizes = np.fromiter(map(len, texts), np.uint64, count)
        data = self.keep(joined.encode() if joined else b"\0".join(texts) + b"\0")
        strings = np.zeros((count, 2), np.uint64)
        strings[:, 1] = sizes
        strings[1:, 0] = np.cumsum(sizes + np.uint64(1))[:-1]
        strings[:, 0] += np.uint64(np.frombuffer(data, np.uint8).ctypes.data)
        return int(self.keep(strings).ctypes.data)

    def of_value(self, value: Any, element: ElementType, key: Optional[ElementType], what: str) -> int:
        """A struct onnxc_value, by its address. key: type of the keys of maps; None: no maps."""
        made = self.keep(abi.Value())
        self._fill(made, value, element, key, what)
        return ctypes.addressof(made)

    def _fill(self, made: Any, value: Any, element: ElementType, key: Optional[ElementType], what: str) -> None:
        if value is None:
            return
        if isinstance(value, dict):
            if not key:
                raise InvalidArgument(f"{what} does not take a dict")
            parts = self.keep((abi.Value * 2)())
            self._fill(parts[0], as_list(value.keys(), key, what), key, None, what)
            self._fill(parts[1], as_list(value.values(), element, what), element, None, what)
            made.kind, made.count, made.data = 3, len(value), ctypes.addressof(parts)
            return
        if isinstance(value, (list, tuple)):
            items = self.keep((abi.Value * max(len(value), 1))())
            for item, one in zip(items, value):
                self._fill(item, one, element, key, what)
            made.kind, made.count, made.data = 2, len(value), ctypes.addressof(items)
            return
        array = self.keep(as_array(value, element, what))
        made.kind, made.dtype, made.rank, made.count = 1, NUMBERS[element.name], array.ndim, array.size
        made.dims = self.keep((ctypes.c_int64 * max(array.ndim, 1))(*array.shape))
        made.data = self.of_array(array, element)


# ---------------------------------------------------------------- to numpy
def space(count: int, element: ElementType) -> NDArray[Any]:
    """Memory for `count` elements, to be filled by C; strings are zeroed."""
    if element.is_string:
        return np.zeros((max(count, 1), 2), np.uint64)
    if element.packed:
        return np.empty(max(-(-count * element.bits // 8), 1), np.uint8)
    return np.empty(max(count, 1), element.dtype)


def string_space(count: int) -> Any:
    """Addresses and sizes of strings, to be filled by C: zeros, in an array of ctypes if they are few."""
    return (ctypes.c_size_t * max(2 * count, 2))() if count <= FEW_STRINGS else np.zeros((count, 2), np.uint64)


def from_space(memory: NDArray[Any], dims: Sequence[int], element: ElementType) -> NDArray[Any]:
    """The array that C wrote to such memory: a view of it if no conversion is needed."""
    count = math.prod(dims)
    if element.is_string:
        return read_strings(memory, count).reshape(dims)
    if element.packed:
        return unpack(memory[:-(-count * element.bits // 8)], element, count).reshape(dims)
    if 2 * count < memory.size - 64:
        memory = memory[:count].copy()
    return memory[:count].reshape(dims)


def read_strings(pairs: Any, count: int) -> NDArray[Any]:
    made = np.empty(count, object)
    words = pairs.reshape(-1).tolist() if isinstance(pairs, np.ndarray) else pairs[:]
    begins, sizes = words[:2 * count:2], words[1:2 * count:2]
    many = count > FEW_STRINGS
    made[:] = texts_at(begins, sizes) if many else [text_at(at, size) for at, size in zip(begins, sizes)]
    return made


def text_at(at: int, size: int) -> str:
    return ctypes.string_at(at, size).decode(errors="surrogateescape") if size else ""


def texts_at(begins: List[int], sizes: List[int]) -> List[str]:
    """Strings that a run has put into one block of memory, which is read at once if it has little else."""
    used = [(at, at + size) for at, size in zip(begins, sizes) if size]
    if not used:
        return [""] * len(sizes)
    first, end = min(used)[0], max(at for _, at in used)
    if end - first > 2 * sum(sizes) + 16 * len(sizes):
        return [text_at(at, size) for at, size in zip(begins, sizes)]
    block = ctypes.string_at(first, end - first)
    if not block.isascii():
        return [block[at - first:at - first + size].decode(errors="surrogateescape") if size else "" for at, size in zip(begins, sizes)]
    text = block.decode()
    return [text[at - first:at - first + size] if size else "" for at, size in zip(begins, sizes)]


def free_strings(pairs: Any) -> None:
    at = (0, 0) if isinstance(pairs, np.ndarray) else 0  # the first string begins what C has allocated
    if pairs[at]:
        abi.c_free(int(pairs[at]))
    pairs[at] = 0


def read_value(v: Any) -> Any:
    """A struct onnxc_value as an array, a list, a dict or None; copies everything."""
    if v.kind == 0:
        return None
    if v.kind == 2:
        items = ctypes.cast(v.data, ctypes.POINTER(abi.Value))
        return [read_value(items[i]) for i in range(v.count)]
    if v.kind == 3:
        parts = ctypes.cast(v.data, ctypes.POINTER(abi.Value))
        return dict(zip(read_value(parts[0]).tolist(), read_value(parts[1]).tolist()))
    element, dims = element_type(v.dtype), [v.dims[i] for i in range(v.rank)]
    memory = space(v.count, element)
    size = 16 * v.count if element.is_string else -(-v.count * element.bits // 8)
    if size:
        ctypes.memmove(memory.ctypes.data, v.data, size)
    return from_space(memory, dims, element)


def free_value(v: Any) -> None:
    abi.c_free(v.data)
    v.kind, v.data = 0, None


class Rows:
    """A table with labelled columns, as maps: one per row, keys in ascending order. The last one of equal labels wins."""

    def __init__(self, labels: Sequence[Union[int, str]]) -> None:
        places = sorted({label: i for i, label in enumerate(labels)}.items(), key=lambda p: p[0].encode() if isinstance(p[0], str) else p[0])
        self.keys, self.columns = [key for key, _ in places], [i for _, i in places]
        self.in_order = self.columns == list(range(len(labels)))

    def maps(self, table: NDArray[Any]) -> List[Dict[Union[int, str], Any]]:
        if table.ndim < 2 or not self.in_order:
            table = np.atleast_2d(table)[:, self.columns]
        return [dict(zip(self.keys, row)) for row in table.tolist()]
