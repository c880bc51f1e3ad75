"""One call of a model: its memory and sizes. In: values. Out: arrays, or outputs written into arrays of the caller."""
from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from . import abi
from .errors import InvalidArgument, run_error
from .ports import Port
from .values import Memory, address, as_array, free_strings, free_value, from_space, read_value, space

if TYPE_CHECKING:
    from .session import InferenceSession


class Call:
    """One call: its memory and sizes."""

    def __init__(self, session: InferenceSession, values: Sequence[Any],
                 into: Optional[Sequence[Optional[NDArray[Any]]]] = None) -> None:
        self.s, self.memory = session, Memory()
        self.into = into or [None] * len(session._outputs)
        self.data: Any
        self.dims: Any
        self.capacity: Any
        nin, nout = len(session._inputs), len(session._outputs)
        self.data, self.dims, self.capacity = (kind() for kind in session._arguments)
        self.data[nin + nout] = session._context
        self.arrays: List[Optional[NDArray[Any]]] = []
        self.outputs: List[Any] = [None] * nout
        for j, (port, value) in enumerate(zip(session._inputs, values)):
            self._input(j, port, value)
        self.key = tuple(a.shape for a in self.arrays if a is not None)

    def _input(self, j: int, port: Port, value: Any) -> None:
        if port.is_value:
            self.arrays.append(None)
            self.data[j] = self.memory.of_value(value, port.element, port.key, port.what)
            return
        if value is None and port.has_default:
            self.arrays.append(None)
            self.dims[port.first_dim:port.first_dim + port.rank] = port.dims
            return
        array = as_array(value, port.element, port.what)
        if array.ndim != port.rank:
            raise InvalidArgument(f"{port.what} has rank {port.rank}, but an array of shape {array.shape} is given")
        self.arrays.append(array)
        self.dims[port.first_dim:port.first_dim + port.rank] = array.shape
        self.data[j] = self.memory.of_array(array, port.element)

    def run(self) -> List[Any]:
        s, message, tries = self.s, ctypes.c_char_p(), len(self.outputs) + 3
        size, workspace = self._workspace()
        sizes = self._known_sizes()
        try:
            while True:
                self._make_outputs(sizes)
                status = s._run(self.data, self.dims, self.capacity, workspace[1], size, ctypes.byref(message))
                tries -= 1
                if status != abi.TOO_SMALL or not tries:
                    break
                self._release()
                exact = [self._dims(port) for port in s._outputs]
                self._check_into(exact)
                sizes = list(exact)
            if status:
                raise run_error(status, message.value, self._given())
            found = self._read()
            if s._repeated:
                s._repeated.learn([*self.arrays, *found], size)
            return found
        finally:
            self._release()
            s._workspaces.append(workspace)

    def _dims(self, port: Port) -> List[int]:
        return list(self.dims[port.first_dim:port.first_dim + port.rank])

    def _workspace(self) -> Tuple[int, Tuple[NDArray[np.uint8], int]]:
        """(bytes, (array, aligned address)): the session's, where one is free and large enough."""
        s = self.s
        size = s._bytes.get(self.key)
        if size is None:
            size = max(s._workspace(self.dims), 0)
            if len(s._bytes) < 64:
                s._bytes[self.key] = size
        try:
            workspace = s._workspaces.pop()
        except IndexError:
            workspace = None
        if workspace is None or workspace[0].size < size + s._align:
            made = np.empty(size + s._align, np.uint8)
            workspace = made, made.ctypes.data + -made.ctypes.data % s._align
        return size, workspace

    def _known_sizes(self) -> List[Optional[List[int]]]:
        """Dims of outputs, as far as they are known before the run; None: not known."""
        seen = self.s._seen.get(self.key)
        if seen is not None:
            return seen
        symbols = {d: n for port, a in zip(self.s._inputs, self.arrays) if a is not None
                   for d, n in zip(port.dims, a.shape) if isinstance(d, str)}
        found = [[symbols.get(d) if isinstance(d, str) else d for d in port.dims] for port in self.s._outputs]
        return [None if port.is_value or None in dims else [d for d in dims if d is not None]
                for port, dims in zip(self.s._outputs, found)]

    def _given(self) -> str:
        """The shapes of the inputs, for messages."""
        return ", ".join(f"{port.name} {a.shape}" for port, a in zip(self.s._inputs, self.arrays) if a is not None)

    def _make_outputs(self, sizes: List[Optional[List[int]]]) -> None:
        nin = len(self.s._inputs)
        for j, port in enumerate(self.s._outputs):
            if port.is_value:
                self.outputs[j] = abi.Value()
                self.data[nin + j], self.capacity[j] = ctypes.addressof(self.outputs[j]), 1
                continue
            if port.state:
                made = self.outputs[j] = self._state(port).reshape(-1)
                self.data[port.state - 1] = address(made)
                count = made.size
            else:
                made, count = self._output(j, port, sizes[j])
                self.outputs[j] = made
            self.data[nin + j], self.capacity[j] = address(made), count

    def _output(self, j: int, port: Port, dims: Optional[List[int]]) -> Tuple[NDArray[Any], int]:
        """(memory of an output, elements that fit)"""
        given = self.into[j]
        if given is not None and self._is_direct(j, port, given):
            return given, given.size
        count = math.prod(dims) if dims is not None else 0
        if port.data_sized:
            count = max(count, self.s._most.get(j, 256))
        return space(count, port.element), count

    def _is_direct(self, j: int, port: Port, given: NDArray[Any]) -> bool:
        """Whether the model can write into an array of the caller."""
        if port.element.is_string or port.element.packed or port.state or port.data_sized or not given.flags.carray:
            return False
        others = [a for a in self.arrays if a is not None] + [a for i, a in enumerate(self.into) if a is not None and i != j]
        return not any(np.may_share_memory(given, a) for a in others)

    def _check_into(self, sizes: Sequence[Sequence[int]]) -> None:
        """The arrays of the caller must have the shapes of the results."""
        for port, given, dims in zip(self.s._outputs, self.into, sizes):
            if given is not None and given.shape != tuple(dims):
                raise InvalidArgument(f"{port.what} has shape {tuple(dims)}, but an array of shape {given.shape} is given for it")

    def _state(self, port: Port) -> NDArray[Any]:
        """The memory of a state: a copy of its input, with room for what a state that grows may get."""
        given = np.asarray(self.arrays[port.state - 1])
        if not port.room:
            return np.array(given)
        axis, shape = self._growth(port), list(given.shape)
        if shape[axis] > port.room:
            return np.array(given)  # the run refuses it
        shape[axis] = port.room
        made = np.zeros(shape, given.dtype)
        made[(slice(None),) * axis + (slice(given.shape[axis]),)] = given
        return made

    def _growth(self, port: Port) -> int:
        """The axis along which a state grows."""
        before = self.s._inputs[port.state - 1].dims
        return next(i for i, (a, b) in enumerate(zip(before, port.dims)) if a != b)

    def _grown(self, port: Port, made: NDArray[Any], dims: List[int]) -> NDArray[Any]:
        axis, shape = self._growth(port), list(dims)
        shape[axis] = port.room
        part = made.reshape(shape)[(slice(None),) * axis + (slice(dims[axis]),)]
        return np.ascontiguousarray(part).reshape(-1)

    def _read(self) -> List[Any]:
        s = self.s
        found: List[Any] = []
        self._check_into([self._dims(port) for port in s._outputs])
        for j, (port, made) in enumerate(zip(s._outputs, self.outputs)):
            if port.is_value:
                found.append(read_value(made))
                continue
            dims = self._dims(port)
            if port.room:
                made = self._grown(port, made, dims)
            if port.data_sized:
                s._most[j] = max(s._most.get(j, 256), math.prod(dims))
            found.append(self._result(j, port, made, dims))
        if self.key not in s._seen and len(s._seen) < 64:
            s._seen[self.key] = [None if p.is_value or p.data_sized else self._dims(p) for p in s._outputs]
        return found

    def _result(self, j: int, port: Port, made: NDArray[Any], dims: List[int]) -> NDArray[Any]:
        given = self.into[j]
        if given is None:
            return from_space(made, dims, port.element)
        if given is not made:
            given[...] = from_space(made, dims, port.element)
        return given

    def _release(self) -> None:
        """Frees what a run allocated."""
        for port, made in zip(self.s._outputs, self.outputs):
            if port.is_value and made is not None:
                free_value(made)
            elif made is not None and port.element.is_string:
                free_strings(made)
