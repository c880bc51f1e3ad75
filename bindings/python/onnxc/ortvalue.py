"""OrtValue: a value with ONNX Runtime's interface. In: arrays of numpy or DLPack, lists, dicts, None. Out: the same."""
from __future__ import annotations

import enum
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from . import dlpack
from .errors import InvalidArgument
from .values import ELEMENTS, NUMBERS, ElementType


class OrtMemType(enum.IntEnum):
    """Accepted and ignored."""

    CPU_INPUT = -2
    CPU_OUTPUT = CPU = -1
    DEFAULT = 0


class OrtAllocatorType(enum.IntEnum):
    """Accepted and ignored."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtDevice:
    """A device: the CPU."""

    def __init__(self, device_type: str = "cpu", device_id: int = 0) -> None:
        check_cpu(device_type)
        self._id = device_id

    @staticmethod
    def make(device_type: str, device_id: int) -> OrtDevice:
        return OrtDevice(device_type, device_id)

    @staticmethod
    def cpu() -> int:
        return 0

    def device_type(self) -> int:
        """The number of the CPU's type, as cpu()."""
        return self.cpu()

    def device_id(self) -> int:
        return self._id

    def device_mem_type(self) -> int:
        return 0

    def device_vendor_id(self) -> int:
        return 0


def check_cpu(device_type: str) -> None:
    if str(device_type).lower() != "cpu":
        raise InvalidArgument(f"memory of device '{device_type}' is not supported here, only of 'cpu'; for GPUs there is "
                              "InferenceSession.run_into")


def element_of(dtype: np.dtype[Any]) -> ElementType:
    for element in ELEMENTS.values():
        if element.dtype == dtype:
            return element
    if dtype.kind in "OUST":
        return ELEMENTS[NUMBERS["string"]]
    raise InvalidArgument(f"ONNX has no element type for {dtype}")


def dtype_of(element_type: Any) -> np.dtype[Any]:
    """Of a type of numpy, or of a number of ONNX's TensorProto.DataType."""
    if isinstance(element_type, int) and not isinstance(element_type, bool):
        if element_type not in ELEMENTS:
            raise InvalidArgument(f"element type {element_type} is unknown")
        return ELEMENTS[element_type].dtype
    made: np.dtype[Any] = np.dtype(element_type)
    return made


class OrtValue:
    """A tensor, a sequence (list), a map (dict) or an optional (None or its value). Tensors share the memory of their array."""

    def __init__(self, value: Any, element: Optional[ElementType] = None) -> None:
        self._value = value
        self._element = element or (element_of(value.dtype) if isinstance(value, np.ndarray) else None)

    # ------------------------------------------------------------ making
    @staticmethod
    def ortvalue_from_numpy(numpy_obj: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1) -> OrtValue:
        check_cpu(device_type)
        return OrtValue(np.asarray(numpy_obj))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: NDArray[Any], onnx_element_type: int) -> OrtValue:
        """The bits of an array as another element type of the same size: uint16 as bfloat16."""
        dtype = dtype_of(int(onnx_element_type))
        if data.dtype.itemsize != dtype.itemsize:
            raise InvalidArgument(f"elements of {data.dtype} do not have the size of {ELEMENTS[int(onnx_element_type)].name}")
        return OrtValue(data.view(dtype), ELEMENTS[int(onnx_element_type)])

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any = np.float32, device_type: str = "cpu",
                                     device_id: int = 0, vendor_id: int = -1) -> OrtValue:
        check_cpu(device_type)
        return OrtValue(np.zeros(tuple(shape), dtype_of(element_type)))

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """Shares the memory of an object with __dlpack__, or of its capsule."""
        array = dlpack.from_dlpack(data, "the array")
        return OrtValue(array.view(np.bool_) if is_bool_tensor and array.dtype == np.uint8 else array)

    # ------------------------------------------------------------ asking
    def is_tensor(self) -> bool:
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        return False

    def has_value(self) -> bool:
        return self._value is not None

    def device_name(self) -> str:
        return "cpu"

    def shape(self) -> List[int]:
        return list(self._tensor().shape)

    def data_type(self) -> str:
        """As in NodeArg.type: "tensor(float)"."""
        if self.is_tensor():
            return f"tensor({self._known().name})"
        return {list: "seq", dict: "map", type(None): "optional"}.get(type(self._value), type(self._value).__name__)

    def element_type(self) -> int:
        """The number in ONNX's TensorProto.DataType."""
        self._tensor()
        return NUMBERS[self._known().name]

    def data_ptr(self) -> int:
        return int(self._tensor().ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        return int(self._tensor().nbytes)

    def _known(self) -> ElementType:
        assert self._element is not None
        return self._element

    def _tensor(self) -> NDArray[Any]:
        if not isinstance(self._value, np.ndarray):
            raise InvalidArgument(f"the value is not a tensor but {self.data_type()}")
        return self._value

    # ------------------------------------------------------------ reading and writing
    def numpy(self) -> Any:
        """The array, which shares the tensor's memory; the value itself if it is not a tensor."""
        return self._value

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> NDArray[Any]:
        array = self._tensor()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def update_inplace(self, np_arr: NDArray[Any]) -> None:
        """Writes an array of the same shape and type into the tensor."""
        array = self._tensor()
        if np_arr.shape != array.shape or np_arr.dtype != array.dtype:
            raise InvalidArgument(f"the tensor is {array.dtype}{list(array.shape)}, but the array is {np_arr.dtype}{list(np_arr.shape)}")
        array[...] = np_arr

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        return dlpack.to_dlpack(self._tensor(), max_version, dl_device, copy)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return dlpack.CPU, 0

    def to_dlpack(self) -> Any:
        return self.__dlpack__()

    def __repr__(self) -> str:
        if self.is_tensor():
            return f"<onnxc.OrtValue {self.data_type()} {self.shape()}>"
        return f"<onnxc.OrtValue {self.data_type()}>"


def value_of(value: Any) -> Any:
    """What an OrtValue contains; other values themselves."""
    return value._value if isinstance(value, OrtValue) else value

