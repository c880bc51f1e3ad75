"""Running models on numpy arrays. In: a model, or a shared library compiled by onnxc. Out: a session that can be run any number
of times.

A run reads inputs in place, without copies, and writes into the arrays that it returns.
"""
import ctypes
import math
import os
import weakref
from typing import NamedTuple

import numpy as np

from . import abi, compiler
from .errors import InvalidArgument, RunError
from .repeat import Repeated
from .values import (NUMBERS, Memory, Rows, address, as_array, element_type, free_strings, free_value, from_space, read_value,
                     space)


class NodeArg(NamedTuple):
    """An input or output, as in ONNX Runtime: shape has numbers, and the expressions of sizes that are not constant; type is
    'tensor(float)', 'seq(tensor(int64))' ..."""

    name: str
    shape: list
    type: str


class ModelMetadata(NamedTuple):
    name: str
    graph_name: str
    description: str
    producer_name: str
    compiler_version: str
    target: str
    custom_metadata_map: dict


class Port:
    """An input or output, read from the descriptor."""

    def __init__(self, descriptor, info, kind):
        text = descriptor.text
        self.name, self.is_value, self.state = text(info.name), info.kind != 0, info.state
        self.room = info.room
        self.has_default = info.has_default != 0
        self.data_sized, self.first_dim, self.rank = info.data_sized != 0, info.first_dim, info.rank
        dims = descriptor.array(abi.DimInfo, info.dims, info.rank)
        self.dims = [d.value if d.value >= 0 else text(d.text) for d in dims]
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

    def node_arg(self):
        return NodeArg(self.name, [] if self.is_value or self.labels else list(self.dims), self.type)


def type_text(text):
    """A type as ONNX Runtime writes it: "sequence(map(string, float[]))" is "seq(map(string,tensor(float)))"."""
    kind, _, rest = text.partition("(")
    if kind == "map":
        key, _, value = rest[:-1].partition(", ")
        return f"map({key},{type_text(value)})"
    if kind in ("sequence", "optional"):
        return f"{kind.replace('sequence', 'seq')}({type_text(rest[:-1])})"
    return f"tensor({text.split('[')[0]})"


class DescriptorReader:
    def __init__(self, address):
        self.address, self.d = address, abi.Descriptor.from_address(address)
        if self.d.magic != b"onnxc-m" or self.d.interface_version != abi.INTERFACE:
            raise RunError(None, f"the model does not have interface version {abi.INTERFACE}")

    def text(self, offset):
        return ctypes.string_at(self.address + offset).decode(errors="replace")

    def array(self, kind, offset, count):
        return [kind.from_address(self.address + offset + i * ctypes.sizeof(kind)) for i in range(count)]

    def labels(self, info):
        """The keys of the maps that a table represents, by column; None: an ordinary tensor."""
        found = self.array(abi.LabelInfo, info.labels, info.nlabels)
        if info.label_dtype != NUMBERS["string"]:
            return [label.number for label in found] or None
        return [ctypes.string_at(self.address + label.text, label.bytes).decode(errors="replace") for label in found]

    def ports(self, offset, count, kind):
        return [Port(self, info, kind) for info in self.array(abi.TensorInfo, offset, count)]

    def metadata(self):
        d, text = self.d, self.text
        pairs = self.array(ctypes.c_uint32, d.metadata, 2 * d.nmetadata)
        values = [text(p.value) for p in pairs]
        return ModelMetadata(text(d.name), text(d.graph_name), text(d.doc), text(d.producer), text(d.version), text(d.target),
                             dict(zip(values[::2], values[1::2])))


def is_library(model):
    if not isinstance(model, (str, os.PathLike)) or not os.path.isfile(model):
        return False
    with open(model, "rb") as f:
        return f.read(4) == b"\x7fELF"


class InferenceSession:
    """A model that can be run, by any number of threads at the same time.

    model       path, bytes or onnx.ModelProto of a model, which is compiled for this machine; or the path of a shared library
                compiled by onnxc
    options     options of the command line: ["-O3", "--fp=strict"]
    keywords    the same as keywords: O=3, fp="strict", dim={"N": 8}; see onnxc.compile for further ones. For a shared library:
                model_name (one of several), weights (path of its weights file)
    device      "cpu", "cuda", or "cuda:1" for a given GPU; "cuda,cpu": a GPU, or the CPU if there is none
    stream      GPU: the address of a CUstream; None: the session creates one
    graphs      GPU: whether repeated runs are captured as CUDA graphs
    device_pointers    GPU: inputs and outputs are in GPU memory, for run_into
    """

    def __init__(self, model, options=None, device=None, stream=None, graphs=True, device_pointers=False, **keywords):
        kind, number = _device(device)
        self._on_device, self._stream = device_pointers, stream
        where = {"device": number, "stream": stream, "no_graphs": not graphs, "device_pointers": device_pointers}
        if kind and not is_library(model):
            keywords["device"] = kind
        if is_library(model):
            weights = self._of_library(model, options, **keywords)
            release = None
        else:
            weights = keywords.get("weights")
            weights = None if weights == "embed" else weights
            release, self._model = compiler.load(model, options, keywords)
        reader = self._descriptor = DescriptorReader(self._model.descriptor)
        d = reader.d
        self._inputs, self._outputs = reader.ports(d.inputs, d.ninputs, "input"), reader.ports(d.outputs, d.noutputs, "output")
        self._input_names = [port.name for port in self._inputs]
        self._output_places = {port.name: i for i, port in enumerate(self._outputs)}
        self._ndims, self._align = d.ndims, max(d.workspace_align, 1)
        self._run, self._workspace = abi.RUN(self._model.run), abi.WORKSPACE(self._model.workspace)
        self._workspaces = []  # not in use
        self._most = {}        # by output whose size the data decide: elements it had at most
        self._seen = {}        # sizes of inputs: those of outputs
        self._bytes = {}       # sizes of inputs: bytes of workspace
        nin, nout = len(self._inputs), len(self._outputs)
        self._arguments = ctypes.c_void_p * (nin + nout + 2), ctypes.c_int64 * max(self._ndims, 1), ctypes.c_int64 * max(nout, 1)
        try:
            self._context = self._open(weights, where)
        except Exception:
            if release:
                release()
            raise
        self._tables = [(i, Rows(port.labels)) for i, port in enumerate(self._outputs) if port.labels]
        self._repeated = Repeated(self) if Repeated.possible(self) else None
        self._end = weakref.finalize(self, _end, self._model, self._context, release)

    def _of_library(self, path, options, model_name=None, weights=None):
        if options:
            raise InvalidArgument("a shared library is compiled already: it takes no options")
        try:
            self._library, self._model = abi.library_model(os.fspath(path), model_name)
        except (OSError, ValueError) as error:
            raise InvalidArgument(str(error)) from error
        return weights

    def _open(self, weights, where):
        context, why = ctypes.c_void_p(), ctypes.create_string_buffer(512)
        if self._model.open:
            path = os.fsencode(weights) if weights else None
            options = abi.Options(size=ctypes.sizeof(abi.Options), weights=path, message=ctypes.addressof(why), message_size=len(why),
                                  **where)
            status = abi.OPEN(self._model.open)(ctypes.byref(options), ctypes.byref(context))
            if status:
                raise RunError(status, why.value.decode(errors="replace") or "the model cannot be opened")
        elif where["device"] > 0 or where["stream"] or where["device_pointers"]:
            raise InvalidArgument("the model has no code for a GPU")
        return context

    @property
    def device(self):
        """The device on which it runs: "cpu" or "cuda:0"."""
        context = self._context and abi.Context.from_address(self._context.value)
        return f"cuda:{context.device}" if context and context.gpu else "cpu"

    # ------------------------------------------------------------ what it is
    def get_inputs(self):
        return [port.node_arg() for port in self._inputs if not port.has_default]

    def get_overridable_initializers(self):
        """Inputs that may be omitted because the model has default values for them (--override)."""
        return [port.node_arg() for port in self._inputs if port.has_default]

    def get_outputs(self):
        return [port.node_arg() for port in self._outputs]

    def get_modelmeta(self):
        return self._descriptor.metadata()

    # ------------------------------------------------------------ running
    def run(self, output_names, input_feed):
        """Returns the outputs with these names (None: all) for the inputs {name: value}. A tensor is an array (as an input also a
        number or nested lists), a sequence a list, a map a dict, an optional None or its value; a final ZipMap gives a list
        of dicts."""
        wanted = self._wanted(output_names) if output_names else None
        outputs = self._repeated.run(input_feed) if self._repeated else None
        if outputs is None:
            outputs = Call(self, self._feed(input_feed)).run()
        for i, rows in self._tables:
            outputs[i] = rows.maps(outputs[i])
        return [outputs[i] for i in wanted] if wanted else outputs

    def run_into(self, outputs, inputs):
        """Runs on dense GPU arrays, {name: array}: anything with __cuda_array_interface__. Returns without waiting: later work in
        the session's stream sees the outputs. For sessions with device_pointers."""
        if not self._on_device:
            raise InvalidArgument("run_into is for sessions with device_pointers=True")
        nin, nout = len(self._inputs), len(self._outputs)
        (data, dims, capacity), message = (kind() for kind in self._arguments), ctypes.c_char_p()
        arrays = [_on_gpu(port, feed) for ports, feed in ((self._inputs, inputs), (self._outputs, outputs)) for port in ports]
        for j, (port, (address, shape)) in enumerate(zip([*self._inputs, *self._outputs], arrays)):
            data[j], dims[port.first_dim:port.first_dim + port.rank] = address, shape
            if j >= nin:
                capacity[j - nin] = math.prod(shape)
        data[nin + nout] = self._context
        size = max(self._workspace(dims), 0)
        workspace = np.empty(size + self._align, np.uint8)
        address = workspace.ctypes.data + -workspace.ctypes.data % self._align
        status = self._run(data, dims, capacity, address, size, ctypes.byref(message))
        if status:
            raise RunError(status, message.value.decode(errors="replace") if message.value else None)

    def _wanted(self, names):
        known = self._output_places
        unknown = [n for n in names if n not in known]
        if unknown:
            raise InvalidArgument(f"the model has no output '{unknown[0]}', only {', '.join(map(repr, known))}")
        return [known[n] for n in names]

    def _feed(self, feed):
        names = self._input_names
        for name in feed:
            if name not in names:
                raise InvalidArgument(f"the model has no input '{name}', only {', '.join(map(repr, names))}")
        for name, port in zip(names, self._inputs):
            if name not in feed and not port.has_default:
                raise InvalidArgument(f"input '{name}' is missing")
        return [feed.get(name) for name in names]


def _device(said):
    """(value of --device or None, GPU number; -1: the CPU)"""
    if said is None:
        return None, 0
    kind, _, number = str(said).lower().partition(":")
    if kind not in ("cpu", "cuda", "cuda,cpu") or (number and not (number.isdigit() and kind == "cuda")):
        raise InvalidArgument(f"device '{said}' is not one of 'cpu', 'cuda', 'cuda:N', 'cuda,cpu'")
    return kind, -1 if kind == "cpu" else int(number or 0)


def _on_gpu(port, feed):
    """(address, shape) of an array on a GPU."""
    what = port.what
    if port.is_value:
        raise InvalidArgument(f"{what} is not in GPU memory")
    if port.name not in feed:
        raise InvalidArgument(f"{what} is missing")
    about = getattr(feed[port.name], "__cuda_array_interface__", None)
    if about is None:
        raise InvalidArgument(f"{what} is not a GPU array: it has no __cuda_array_interface__")
    shape, size = tuple(about["shape"]), np.dtype(about["typestr"]).itemsize
    dense, step = about.get("strides"), size
    for n, stride in zip(reversed(shape), reversed(dense or ())):
        if n > 1 and stride != step:
            raise InvalidArgument(f"{what} must be dense")
        step *= n
    if len(shape) != port.rank:
        raise InvalidArgument(f"{what} has rank {port.rank}, but an array of shape {shape} is given")
    if port.element.packed or size != port.element.stored.itemsize:
        raise InvalidArgument(f"{what} is given as '{about['typestr']}'")
    return about["data"][0], shape


def _end(model, context, release):
    if context and model.close:
        abi.CLOSE(model.close)(context)
    if release:
        release()


class Call:
    """One call: its memory and sizes."""

    def __init__(self, session, values):
        self.s, self.memory = session, Memory()
        nin, nout = len(session._inputs), len(session._outputs)
        self.data, self.dims, self.capacity = (kind() for kind in session._arguments)
        self.data[nin + nout] = session._context
        self.arrays, self.outputs = [], [None] * nout
        for j, (port, value) in enumerate(zip(session._inputs, values)):
            self._input(j, port, value)
        self.key = tuple(a.shape for a in self.arrays if a is not None)

    def _input(self, j, port, value):
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

    def run(self):
        s, message, tries = self.s, ctypes.c_char_p(), len(self.outputs) + 3
        size, workspace = self._workspace()
        self._known_sizes()
        try:
            while True:
                self._make_outputs()
                status = s._run(self.data, self.dims, self.capacity, workspace[1], size, ctypes.byref(message))
                tries -= 1
                if status != abi.TOO_SMALL or not tries:
                    break
                self._release()
                self.sizes = [self._dims(port) for port in s._outputs]
            if status:
                raise RunError(status, message.value.decode(errors="replace") if message.value else None)
            found = self._read()
            if s._repeated:
                s._repeated.learn([*self.arrays, *found], size)
            return found
        finally:
            self._release()
            s._workspaces.append(workspace)

    def _dims(self, port):
        return list(self.dims[port.first_dim:port.first_dim + port.rank])

    def _workspace(self):
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

    def _known_sizes(self):
        """Dims of outputs, as far as they are known before the run; None: not known."""
        self.sizes = self.s._seen.get(self.key)
        if self.sizes is not None:
            return
        symbols = {d: n for port, a in zip(self.s._inputs, self.arrays) if a is not None
                   for d, n in zip(port.dims, a.shape) if isinstance(d, str)}
        found = [[symbols.get(d) if isinstance(d, str) else d for d in port.dims] for port in self.s._outputs]
        self.sizes = [None if port.is_value or None in dims else dims for port, dims in zip(self.s._outputs, found)]

    def _make_outputs(self):
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
                count = math.prod(self.sizes[j]) if self.sizes[j] is not None else 0
                if port.data_sized:
                    count = max(count, self.s._most.get(j, 256))
                made = self.outputs[j] = space(count, port.element)
            self.data[nin + j], self.capacity[j] = address(made), count

    def _state(self, port):
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

    def _growth(self, port):
        """The axis along which a state grows."""
        before = self.s._inputs[port.state - 1].dims
        return next(i for i, (a, b) in enumerate(zip(before, port.dims)) if a != b)

    def _grown(self, port, made, dims):
        axis, shape = self._growth(port), list(dims)
        shape[axis] = port.room
        part = made.reshape(shape)[(slice(None),) * axis + (slice(dims[axis]),)]
        return np.ascontiguousarray(part).reshape(-1)

    def _read(self):
        s, found = self.s, []
        for j, (port, made) in enumerate(zip(s._outputs, self.outputs)):
            if port.is_value:
                found.append(read_value(made))
                continue
            dims = self._dims(port)
            if port.room:
                made = self._grown(port, made, dims)
            if port.data_sized:
                s._most[j] = max(s._most.get(j, 256), math.prod(dims))
            found.append(from_space(made, dims, port.element))
        if self.key not in s._seen and len(s._seen) < 64:
            s._seen[self.key] = [None if p.is_value or p.data_sized else self._dims(p) for p in s._outputs]
        return found

    def _release(self):
        """Frees what a run allocated."""
        for port, made in zip(self.s._outputs, self.outputs):
            if port.is_value and made is not None:
                free_value(made)
            elif made is not None and port.element.is_string:
                free_strings(made)
