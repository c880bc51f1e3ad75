"""Memory in ONNX Runtime's words. In: OrtValues. Out: vectors and copies of them, and where memory lies: always at the CPU."""
from __future__ import annotations

import enum
from typing import Any, Callable, List, Optional, Sequence

from .errors import InvalidArgument
from .ortvalue import OrtAllocatorType, OrtMemType, OrtValue, value_of


class OrtDeviceMemoryType(enum.IntEnum):
    """Accepted and ignored."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfo:
    """A kind of memory: that of the CPU."""

    def __init__(self, name: str = "Cpu", allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_DEVICE_ALLOCATOR, device_id: int = 0,
                 mem_type: OrtMemType = OrtMemType.DEFAULT) -> None:
        if name.lower() != "cpu":
            raise InvalidArgument(f"memory '{name}' is not supported here, only 'Cpu'")
        self.name, self.allocator_type, self.device_id, self.mem_type = "Cpu", allocator_type, device_id, mem_type
        self.device_mem_type, self.device_vendor_id = OrtDeviceMemoryType.DEFAULT, 0

    def __repr__(self) -> str:
        return f"<onnxc.OrtMemoryInfo {self.name}>"


class OrtValueVector(List[OrtValue]):
    """A list of OrtValues."""

    def push_back(self, value: OrtValue) -> None:
        self.append(value)

    def reserve(self, count: int) -> None:
        """Has no effect."""

    def shrink_to_fit(self) -> None:
        """Has no effect."""

    def element_type_at(self, index: int) -> int:
        """The number of the element type in ONNX's TensorProto.DataType."""
        return self[index].element_type()

    def dlpack_at(self, index: int) -> Any:
        return self[index].to_dlpack()

    def to_dlpacks(self, to_tensor: Optional[Callable[[Any], Any]] = None) -> List[Any]:
        """The capsules of all values, or what to_tensor makes of each."""
        made = [value.to_dlpack() for value in self]
        return [to_tensor(capsule) for capsule in made] if to_tensor else made


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies the elements of each tensor of src into that of dst, which must have the same shape and type."""
    if len(src) != len(dst):
        raise InvalidArgument(f"there are {len(src)} tensors to copy from, but {len(dst)} to copy to")
    for value, room in zip(src, dst):
        room.update_inplace(value._tensor())


def fill(values: List[OrtValue], found: Sequence[OrtValue]) -> None:
    """Writes results into the tensors of a vector, which an empty one gets."""
    if not values:
        values.extend(found)
        return
    if len(values) != len(found):
        raise InvalidArgument(f"there are {len(found)} outputs, but {len(values)} values for them")
    for i, value in enumerate(found):
        if value.is_tensor() and value_of(values[i]) is not None:
            values[i].update_inplace(value._tensor())
        else:
            values[i] = value
