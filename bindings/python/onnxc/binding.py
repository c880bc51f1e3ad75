"""I/O binding: runs whose inputs and outputs lie in memory of the caller. In: a session and arrays. Out: outputs in place."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidArgument
from .memory import OrtValueVector
from .ortvalue import OrtValue, check_cpu, dtype_of, value_of
from .values import ElementType

if TYPE_CHECKING:
    from .options import RunOptions
    from .session import InferenceSession


def array_at(address: int, element_type: Any, shape: Sequence[int], what: str) -> NDArray[Any]:
    """The array in memory of the caller, which must outlive it."""
    dtype, shape = dtype_of(element_type), tuple(int(n) for n in shape)
    size = dtype.itemsize
    for n in shape:
        size *= n
    if dtype.kind == "O" or (size and not address):
        raise InvalidArgument(f"{what} needs the address of {dtype}{list(shape)}")
    memory = (ctypes.c_uint8 * max(size, 1)).from_address(address) if size else (ctypes.c_uint8 * max(dtype.itemsize, 1))()
    return np.ndarray(shape, dtype, memory)  # type: ignore[arg-type]


class IOBinding:
    """As in ONNX Runtime. Outputs are returned in the order in which they were bound; those without memory of the caller are new
    arrays in every run."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: Dict[str, Any] = {}
        self._outputs: Dict[str, Any] = {}  # None: a new array
        self._results: List[OrtValue] = []
        self._plan: Optional[Tuple[List[Optional[NDArray[Any]]], List[int], List[Optional[ElementType]]]] = None

    # ------------------------------------------------------------ inputs
    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an array of numpy or DLPack, which is read in every run."""
        self._check(name, self._session._input_names, "input")
        self._inputs[name] = arr_on_cpu

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int) -> None:
        """Binds dense memory at an address."""
        check_cpu(device_type)
        self.bind_cpu_input(name, array_at(buffer_ptr, element_type, shape, f"input '{name}'"))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self.bind_cpu_input(name, value_of(ortvalue))

    def synchronize_inputs(self) -> None:
        """Has no effect: memory of the CPU needs no synchronisation."""

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    # ------------------------------------------------------------ outputs
    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:
        """Binds dense memory at an address; without an address, a new array in every run."""
        check_cpu(device_type)
        self._check(name, self._session._output_places, "output")
        self._plan = None
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise InvalidArgument(f"output '{name}': an address needs an element type and a shape")
        self._outputs[name] = array_at(buffer_ptr, element_type, shape, f"output '{name}'")

    def bind_cpu_output(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an array of numpy or DLPack, which every run fills."""
        self._check(name, self._session._output_places, "output")
        self._outputs[name], self._plan = arr_on_cpu, None

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self.bind_cpu_output(name, ortvalue)

    def synchronize_outputs(self) -> None:
        """Has no effect: memory of the CPU needs no synchronisation."""

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._results, self._plan = [], None

    def get_outputs(self) -> List[OrtValue]:
        """The outputs of the last run."""
        return list(self._results)

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        return OrtValueVector(self._results)

    def copy_outputs_to_cpu(self) -> List[Any]:
        """The outputs of the last run as copies."""
        return [np.array(r.numpy()) if r.is_tensor() else r.numpy() for r in self._results]

    # ------------------------------------------------------------ the run
    def _check(self, name: str, known: Any, kind: str) -> None:
        if name not in known:
            raise InvalidArgument(f"the model has no {kind} '{name}', only {', '.join(map(repr, known))}")

    def _run(self, run_options: Optional[RunOptions]) -> None:
        s = self._session
        if not self._outputs:
            raise InvalidArgument("no output is bound: bind_output comes before run_with_iobinding")
        if self._plan is None:
            rooms, wanted = [s._room(port, self._outputs.get(port.name)) for port in s._outputs], s._wanted(list(self._outputs))
            ports = [s._outputs[i] for i in wanted]
            self._plan = rooms, wanted, [None if port.is_value or port.labels else port.element for port in ports]
        rooms, wanted, elements = self._plan
        found = s._picked(s._watched(self._inputs, run_options, rooms), wanted)
        self._results = [OrtValue(value, element) for value, element in zip(found, elements)]
