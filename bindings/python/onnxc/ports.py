"""What a model's descriptor says. In: its address. Out: inputs and outputs, types and metadata."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from . import abi
from .errors import RunError
from .values import NUMBERS, ElementType, element_type

Dim = Union[int, str]


class NodeArg(NamedTuple):
    """An input or output, as in ONNX Runtime: shape has numbers, and the expressions of sizes that are not constant; type is
    'tensor(float)', 'seq(tensor(int64))' ..."""

    name: str
    shape: List[Dim]
    type: str


class Port:
    """An input or output, read from the descriptor."""

    def __init__(self, descriptor: DescriptorReader, info: Any, kind: str) -> None:
        text = descriptor.text
        self.name, self.is_value = text(info.name), info.kind != 0
        self.state: int = info.state
        self.room: int = info.room
        self.has_default: bool = info.has_default != 0
        self.data_sized: bool = info.data_sized != 0
        self.first_dim: int = info.first_dim
        self.rank: int = info.rank
        self.key: Optional[ElementType] = None
        dims = descriptor.array(abi.DimInfo, info.dims, info.rank)
        self.dims: List[Dim] = [d.value if d.value >= 0 else text(d.text) for d in dims]
        self.labels = descriptor.labels(info)
        if not self.is_value:
            self.element = element_type(info.dtype)
            self.type = type_text(text(info.type)) if self.labels else f"tensor({self.element.name})"
            self.what = f"{kind} '{self.name}' of {self.type} {[*self.dims]}"
            return
        self.type = type_text(text(info.type))
        self.element = element_type(NUMBERS.get(self.type.split("tensor(")[-1].rstrip(")"), 0))
        _, is_map, rest = self.type.partition("map(")
        self.key = element_type(NUMBERS.get(rest.split(",")[0], 0)) if is_map else None
        self.what = f"{kind} '{self.name}' of {self.type}"

    def node_arg(self) -> NodeArg:
        return NodeArg(self.name, [] if self.is_value or self.labels else list(self.dims), self.type)


def type_text(text: str) -> str:
    """A type as ONNX Runtime writes it: "sequence(map(string, float[]))" is "seq(map(string,tensor(float)))"."""
    kind, _, rest = text.partition("(")
    if kind == "map":
        key, _, value = rest[:-1].partition(", ")
        return f"map({key},{type_text(value)})"
    if kind in ("sequence", "optional"):
        return f"{kind.replace('sequence', 'seq')}({type_text(rest[:-1])})"
    return f"tensor({text.split('[')[0]})"


class DescriptorReader:
    def __init__(self, address: int) -> None:
        self.address = address
        self.d: Any = abi.Descriptor.from_address(address)
        if self.d.magic != b"onnxc-m" or self.d.interface_version != abi.INTERFACE:
            raise RunError(None, f"the model has interface version {self.d.interface_version}, but this package needs {abi.INTERFACE}; "
                                 "compile it again")

    def text(self, offset: int) -> str:
        return ctypes.string_at(self.address + offset).decode(errors="replace")

    def array(self, kind: Any, offset: int, count: int) -> List[Any]:
        return [kind.from_address(self.address + offset + i * ctypes.sizeof(kind)) for i in range(count)]

    def labels(self, info: Any) -> Optional[Sequence[Union[int, str]]]:
        """The keys of the maps that a table represents, by column; None: an ordinary tensor."""
        found = self.array(abi.LabelInfo, info.labels, info.nlabels)
        if info.label_dtype != NUMBERS["string"]:
            return [label.number for label in found] or None
        return [ctypes.string_at(self.address + label.text, label.bytes).decode(errors="replace") for label in found]

    def ports(self, offset: int, count: int, kind: str) -> List[Port]:
        return [Port(self, info, kind) for info in self.array(abi.TensorInfo, offset, count)]
