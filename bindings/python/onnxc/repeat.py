"""Calls whose sizes were seen before, for sessions of plain tensors and strings. In: a feed of arrays of the right types. Out: the outputs, or None
where anything is unlike the call that was seen; then session.Call looks at it as at a first one.

What a call needs besides its arrays is made once: for each set of input sizes a Plan, for each call that runs at the same time a Frame.
"""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from . import abi
from .errors import run_error
from .ports import Port
from .values import Memory, address, as_array, free_strings, from_space, read_strings, string_space

if TYPE_CHECKING:
    from .session import InferenceSession

Make = Tuple[Any, Any, int, bool]  # shape or count, dtype, count, whether the data decide the size

MOST_PLANS = 64
OBJECTS = np.dtype(object)
addressof = ctypes.addressof


def is_plain(port: Port) -> bool:
    return not (port.is_value or port.state or port.element.packed or (port.element.is_string and port.data_sized))


class Plan:
    """Of one set of input sizes: sizes of all inputs and outputs, bytes of workspace."""

    def __init__(self, dims: List[int], nin_dims: int, makes: List[Make], size: int) -> None:
        self.dims, self.found, self.makes, self.size = dims, dims[nin_dims:], makes, size
        self.capacity = [count for _, _, count, _ in makes]
        self.open = [j for j, make in enumerate(makes) if make[3]]  # outputs whose sizes the data decide
        self.strings = [j for j, make in enumerate(makes) if make[1] is OBJECTS]


class Frame:
    """Memory of one call at a time: its arguments, which stay in place, and the workspace."""

    def __init__(self, kinds: Sequence[Any], count: int, context: Any, align: int) -> None:
        self.data: Any
        self.dims: Any
        self.capacity: Any
        self.data, self.dims, self.capacity = (kind() for kind in kinds)
        self.data[count] = context
        self.message, self.align = ctypes.c_char_p(), align
        self.workspace: Optional[NDArray[np.uint8]] = None
        self.plan: Optional[Plan] = None
        self.arguments: Tuple[Any, ...] = ()

    def prepare(self, plan: Plan) -> None:
        self.dims[:len(plan.dims)], self.capacity[:len(plan.capacity)] = plan.dims, plan.capacity
        if self.workspace is None or self.workspace.size < plan.size + self.align:
            self.workspace = np.empty(plan.size + self.align, np.uint8)
        at = self.workspace.ctypes.data
        self.arguments = (addressof(self.data), addressof(self.dims), addressof(self.capacity), at + -at % self.align, plan.size,
                          addressof(self.message))
        self.plan = plan


class Repeated:
    """The plans and the frames of a session. It does not keep the session: that would keep it for the garbage collector."""

    def __init__(self, session: InferenceSession) -> None:
        self.run_at, self.outputs, self.most = abi.RUN_AT(session._model.run), session._outputs, session._most
        self.takes = [(port.name, port.element.dtype, port.element.dtype.alignment - 1, port if port.element.is_string else None)
                      for port in session._inputs]
        self.nin_dims, self.ndims = sum(port.rank for port in session._inputs), session._ndims
        self.for_frame = session._arguments, len(session._inputs) + len(session._outputs), session._context, session._align
        self.plans: Dict[Tuple[Any, ...], Plan] = {}
        self.frames: List[Frame] = []  # not in use

    @staticmethod
    def possible(session: InferenceSession) -> bool:
        """Whether dims of inputs lie in front of those of outputs too."""
        at = 0
        for port in [*session._inputs, *session._outputs]:
            if not is_plain(port) or port.first_dim != at:
                return False
            at += port.rank
        return at == session._ndims

    def learn(self, arrays: List[Any], size: int) -> None:
        """What a call has found; its dims are those of `arrays`, inputs and then outputs."""
        if any(a is None for a in arrays):  # left out: the model has a value
            return
        key = tuple(a.shape for a in arrays[:len(self.takes)])
        known = self.plans.get(key)
        if (known and not known.open) or not all(a.size for a in arrays):
            return
        makes = []
        for j, (port, array) in enumerate(zip(self.outputs, arrays[len(self.takes):])):
            count = max(array.size, self.most[j]) if port.data_sized else array.size
            makes.append((count if port.data_sized else array.shape, port.element.dtype, count, port.data_sized))
        if len(self.plans) >= MOST_PLANS:
            self.plans.clear()
        self.plans[key] = Plan([n for a in arrays for n in a.shape], self.nin_dims, makes, size)

    def run(self, feed: Any, into: Optional[List[Optional[NDArray[Any]]]] = None) -> Optional[List[Any]]:
        shapes: List[Any] = []
        arrays: List[Any] = []
        places: List[int] = []
        memory: Optional[Memory] = None  # of strings
        try:
            if len(feed) != len(self.takes):
                return None
            for name, dtype, aligned, strings in self.takes:
                array = feed[name]
                if type(array) is not np.ndarray or array.dtype is not dtype:
                    return None
                if strings:
                    memory = memory or Memory()
                    at = memory.of_few_strings(array) or memory.of_strings(as_array(array, strings.element, strings.what))
                else:
                    at = address(array)
                    if at & aligned or not array.flags.c_contiguous:
                        return None
                arrays.append(array)  # a feed that makes arrays does not keep them
                shapes.append(array.shape)
                places.append(at)
        except (KeyError, TypeError):
            return None
        plan = self.plans.get(tuple(shapes))
        if plan is None:
            return None
        if into is None:
            outputs = [np.empty(shape, dtype) for shape, dtype, _, _ in plan.makes]
        elif plan.open or plan.strings or not self._fit(plan, into, arrays, places):
            return None
        else:
            outputs = [np.empty(make[0], make[1]) if a is None else a for make, a in zip(plan.makes, into)]
        if not plan.strings:
            places += map(address, outputs)
            return self._call(plan, places, outputs)
        texts = [string_space(plan.capacity[j]) for j in plan.strings]
        for j, pairs in zip(plan.strings, texts):
            outputs[j] = pairs
        places += map(address, outputs)
        try:
            found = self._call(plan, places, outputs)
            for j, pairs in zip(plan.strings, texts if found else ()):
                outputs[j] = read_strings(pairs, plan.capacity[j]).reshape(plan.makes[j][0])
            return found
        finally:
            for pairs in texts:
                free_strings(pairs)

    @staticmethod
    def _fit(plan: Plan, into: List[Optional[NDArray[Any]]], arrays: List[NDArray[Any]], places: List[int]) -> bool:
        """Whether the outputs can be written into these arrays."""
        taken = [(at, at + a.nbytes) for at, a in zip(places, arrays)]
        for array, (shape, dtype, _, _) in zip(into, plan.makes):
            if array is None:
                continue
            if array.shape != shape or array.dtype is not dtype or not array.flags.carray:
                return False
            begin = address(array)
            end = begin + array.nbytes
            if any(begin < e and b < end for b, e in taken):
                return False
            taken.append((begin, end))
        return True

    def _call(self, plan: Plan, places: List[int], outputs: List[Any]) -> Optional[List[Any]]:
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = Frame(*self.for_frame)
        try:
            if frame.plan is not plan:
                frame.prepare(plan)
            frame.data[:len(places)] = places
            status = self.run_at(*frame.arguments)
            if status == abi.TOO_SMALL:
                return None
            if status:
                raise run_error(status, frame.message.value)
            if plan.open:
                return self._cut(frame, plan, outputs)
            return outputs if frame.dims[self.nin_dims:self.ndims] == plan.found else None
        finally:
            self.frames.append(frame)

    def _cut(self, frame: Frame, plan: Plan, outputs: List[Any]) -> List[Any]:
        """Outputs whose sizes the data decide as large as they are now."""
        for j in plan.open:
            port = self.outputs[j]
            outputs[j] = from_space(outputs[j], frame.dims[port.first_dim:port.first_dim + port.rank], port.element)
        return outputs
