"""Running models on numpy arrays. In: a model, or a shared library compiled by onnxc. Out: a session that can be run any number
of times.

A run reads inputs in place, without copies, and writes into the arrays that it returns.
"""
from __future__ import annotations

import ctypes
import math
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from . import abi, compiler, dlpack
from .binding import IOBinding
from .call import Call
from .errors import CANCELLED, InvalidArgument, InvalidOption, RunError, run_error
from .initializers import with_initializers
from .memory import OrtMemoryInfo, fill
from .metadata import ModelMetadata, metadata
from .options import CPU_PROVIDER, CUDA_PROVIDER, LOG_LEVELS, Provider, RunOptions, SessionOptions, note_providers
from .ortvalue import OrtValue, value_of
from .ports import DescriptorReader, NodeArg, Port
from .profile import Profile
from .repeat import Repeated
from .values import Rows

if TYPE_CHECKING:
    from .compiler import Model

# Keywords of ONNX Runtime's sessions that have no meaning here.
IGNORED = ("disabled_optimizers", "enable_fallback", "read_config_from_model")
# Keywords that are not options of the compiler.
KEYWORDS = ("sess_options", "providers", "provider_options", "options", "device", "stream", "graphs", "device_pointers", "weights",
            "model_name", "filename", "data_folder", "memory_limit", "cache_size", "on_print", "cancelled", "log_level")
Feed = Union[Mapping[str, Any], Sequence[Any]]


def is_library(model: Any) -> bool:
    if not isinstance(model, (str, os.PathLike)) or not os.path.isfile(model):
        return False
    with open(model, "rb") as f:
        return f.read(4) == b"\x7fELF"


class InferenceSession:
    """A model that can be run, by any number of threads at the same time.

    path_or_bytes      path, bytes or onnx.ModelProto of a model, which is compiled for this machine; or the path of a shared
                       library compiled by onnxc
    sess_options       SessionOptions, also those of an installed ONNX Runtime, or options of the command line: ["-O3", "--fp=strict"]
    providers, provider_options    as for ONNX Runtime; models are compiled for the CPU, and other providers are noted in the log
    options            options of the command line, beside SessionOptions
    keywords           the same as keywords: O=3, fp="strict", dim={"N": 8}; see onnxc.compile for further ones. For a shared
                       library: model_name (one of several), weights (path of its weights file)
    device             "cpu", "cuda", or "cuda:1" for a given GPU; "cuda,cpu": a GPU, or the CPU if there is none
    stream             GPU: the address of a CUstream; None: the session creates one
    graphs             GPU: whether repeated runs are captured as CUDA graphs
    device_pointers    GPU: inputs and outputs are in GPU memory, for run_into
    """

    def __init__(self, path_or_bytes: Model, sess_options: Union[SessionOptions, Sequence[str], None] = None,
                 providers: Optional[Sequence[Provider]] = None,
                 provider_options: Optional[Sequence[Mapping[str, Any]]] = None, *,
                 options: Optional[Sequence[str]] = None, device: Optional[str] = None, stream: Optional[int] = None,
                 graphs: bool = True, device_pointers: bool = False, **keywords: Any) -> None:
        if hasattr(sess_options, "intra_op_num_threads"):
            if not isinstance(sess_options, SessionOptions):
                sess_options = SessionOptions._of(sess_options)
        elif sess_options is not None:
            options = [*_words(sess_options), *_words(options or ())]
            sess_options = None
        note_providers(providers, provider_options)
        keywords = {k: v for k, v in keywords.items() if k not in IGNORED}
        model: Any = path_or_bytes if compiler.is_path(path_or_bytes) else compiler.model_bytes(path_or_bytes)
        self._settings = sess_options or SessionOptions()
        self._made_with = _absolute(model), sess_options, options, device, stream, graphs, device_pointers, dict(keywords)
        kind, number = _device(device)
        self._on_device, self._stream = device_pointers, stream
        where = {"device": number, "stream": stream, "no_graphs": not graphs, "device_pointers": device_pointers}
        release: Optional[Callable[[], None]] = None
        if is_library(model):
            weights = self._of_library(model, options, **keywords)
        else:
            if kind:
                keywords["device"] = kind
            weights = None if keywords.get("weights") == "embed" else keywords.get("weights")
            release = self._compile(model, options, keywords)
        self._read_descriptor()
        try:
            self._context = self._open(weights, where)
            self._prepare()
        except BaseException:
            if release:
                release()
            raise
        self._end = weakref.finalize(self, _end, self._model, self._context, release)

    def _compile(self, model: Any, options: Optional[Sequence[str]], keywords: Dict[str, Any]) -> Callable[[], None]:
        settings = self._settings
        for name, value in settings._keywords().items():
            if name == "dim":
                keywords["dim"] = {**value, **_pairs(keywords.get("dim"))}
            else:
                keywords.setdefault(name, value)
        if settings._initializers:
            model = with_initializers(model, settings._initializers, keywords)
        if settings.log_severity_level in LOG_LEVELS:
            keywords["log_level"] = LOG_LEVELS[settings.log_severity_level]
        if settings.optimized_model_filepath:
            extra = {k: v for k, v in keywords.items() if k not in ("emit", "output", "weights")}
            compiler.compile(model, settings.optimized_model_filepath, options, emit="onnx", **extra)
        try:
            release, self._model = compiler.load(model, options, keywords)
        except InvalidOption as error:
            error.add_hint(keywords, KEYWORDS)
            raise
        return release

    def _of_library(self, path: Any, options: Optional[Sequence[str]], model_name: Optional[str] = None, weights: Any = None,
                    **others: Any) -> Any:
        if options or others:
            given = ", ".join([*(options or ()), *(f"{name}=" for name in others)])
            raise InvalidArgument(f"a shared library is compiled already: it takes no options ({given})")
        try:
            self._library, self._model = abi.library_model(os.fspath(path), model_name)
        except (OSError, ValueError) as error:
            raise InvalidArgument(str(error)) from error
        return weights

    def _read_descriptor(self) -> None:
        reader = self._descriptor = DescriptorReader(self._model.descriptor)
        d = reader.d
        self._inputs: List[Port] = reader.ports(d.inputs, d.ninputs, "input")
        self._outputs: List[Port] = reader.ports(d.outputs, d.noutputs, "output")
        self._input_names = [port.name for port in self._inputs]
        self._output_places = {port.name: i for i, port in enumerate(self._outputs)}
        self._ndims, self._align = int(d.ndims), max(int(d.workspace_align), 1)
        nin, nout = len(self._inputs), len(self._outputs)
        self._arguments = ctypes.c_void_p * (nin + nout + 2), ctypes.c_int64 * max(self._ndims, 1), ctypes.c_int64 * max(nout, 1)

    def _open(self, weights: Any, where: Dict[str, Any]) -> Any:
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

    def _prepare(self) -> None:
        self._run, self._workspace = abi.RUN(self._model.run), abi.WORKSPACE(self._model.workspace)
        self._workspaces: List[Tuple[NDArray[np.uint8], int]] = []  # not in use
        self._most: Dict[int, int] = {}            # by output whose size the data decide: elements it had at most
        self._seen: Dict[Any, List[Any]] = {}      # sizes of inputs: those of outputs
        self._bytes: Dict[Any, int] = {}           # sizes of inputs: bytes of workspace
        self._tables = [(i, Rows(port.labels)) for i, port in enumerate(self._outputs) if port.labels]
        self._repeated = Repeated(self) if Repeated.possible(self) else None
        self._profile = Profile(self._settings.profile_file_prefix) if self._settings.enable_profiling else None
        self._profile_start = self._profile.start if self._profile else 0

    @property
    def _model_path(self) -> str:
        """As in ONNX Runtime, where programs read it; "": the model was given as bytes."""
        return self._made_with[0] if isinstance(self._made_with[0], str) else ""

    @property
    def device(self) -> str:
        """The device on which it runs: "cpu" or "cuda:0"."""
        context = self._context and abi.Context.from_address(self._context.value)
        return f"cuda:{context.device}" if context and context.gpu else "cpu"

    # ------------------------------------------------------------ what it is
    def get_inputs(self) -> List[NodeArg]:
        return [port.node_arg() for port in self._inputs if not port.has_default]

    def get_overridable_initializers(self) -> List[NodeArg]:
        """Inputs that may be omitted because the model has default values for them (--override)."""
        return [port.node_arg() for port in self._inputs if port.has_default]

    def get_outputs(self) -> List[NodeArg]:
        return [port.node_arg() for port in self._outputs]

    def get_modelmeta(self) -> ModelMetadata:
        return metadata(self._descriptor, self._made_with[0])

    def get_session_options(self) -> SessionOptions:
        return self._settings

    def get_providers(self) -> List[str]:
        """Where the model runs, by the names of ONNX Runtime's providers."""
        return [CUDA_PROVIDER, CPU_PROVIDER] if self.device != "cpu" else [CPU_PROVIDER]

    def get_input_memory_infos(self) -> List[OrtMemoryInfo]:
        """Where inputs of run lie: at the CPU."""
        return [OrtMemoryInfo() for _ in self.get_inputs()]

    def get_output_memory_infos(self) -> List[OrtMemoryInfo]:
        """Where outputs of run lie: at the CPU."""
        return [OrtMemoryInfo() for _ in self._outputs]

    def get_provider_options(self) -> Dict[str, Dict[str, str]]:
        return {name: {} for name in self.get_providers()}

    def set_providers(self, providers: Optional[Sequence[Provider]] = None,
                      provider_options: Optional[Sequence[Mapping[str, Any]]] = None) -> None:
        """Has no effect but the notes of the constructor."""
        note_providers(providers, provider_options)

    def disable_fallback(self) -> None:
        """Has no effect: a session never changes its device."""

    def enable_fallback(self) -> None:
        """Has no effect: a session never changes its device."""

    def __repr__(self) -> str:
        model = self._made_with[0]
        name = os.path.basename(model) if isinstance(model, str) else f"{len(model)} bytes"
        ports = [", ".join(f"{a.name}: {a.type}{_shape_text(a.shape)}" for a in args) for args in (self.get_inputs(), self.get_outputs())]
        return f"<onnxc.InferenceSession {name} on {self.device}: ({ports[0]}) -> ({ports[1]})>"

    # Subclasses may have a state of their own, as those of programs for ONNX Runtime do.
    def __getstate__(self) -> Any:
        return self._made_with

    def __setstate__(self, made_with: Any) -> None:
        model, sess_options, options, device, stream, graphs, device_pointers, keywords = made_with
        InferenceSession.__init__(self, model, sess_options, options=options, device=device, stream=stream, graphs=graphs,
                                  device_pointers=device_pointers, **keywords)

    # ------------------------------------------------------------ running
    def run(self, output_names: Optional[Sequence[str]], input_feed: Feed, run_options: Optional[RunOptions] = None) -> List[Any]:
        """Returns the outputs with these names (None: all) for the inputs {name: value}, or for a list of values in the order of
        get_inputs. A tensor is an array of numpy or DLPack or an OrtValue (as an input also a number or nested lists), a
        sequence a list, a map a dict, an optional None or its value; a final ZipMap gives a list of dicts."""
        wanted = self._wanted(output_names) if output_names else None
        if run_options is not None or self._profile:
            return self._picked(self._watched(input_feed, run_options), wanted)
        return self._picked(self._execute(input_feed), wanted)

    def _execute(self, input_feed: Feed, into: Optional[List[Optional[NDArray[Any]]]] = None) -> List[Any]:
        """All outputs, with maps as tables."""
        if type(input_feed) is not dict:
            input_feed = self._named(input_feed)
        outputs = self._repeated.run(input_feed, into) if self._repeated else None
        return Call(self, self._feed(input_feed), into).run() if outputs is None else outputs

    def _picked(self, outputs: List[Any], wanted: Optional[List[int]]) -> List[Any]:
        for i, rows in self._tables:
            outputs[i] = rows.maps(outputs[i])
        return [outputs[i] for i in wanted] if wanted else outputs

    def _watched(self, input_feed: Feed, run_options: Optional[RunOptions],
                 into: Optional[List[Optional[NDArray[Any]]]] = None) -> List[Any]:
        """A run with options, or one that is recorded."""
        if run_options is not None:
            if not hasattr(run_options, "terminate"):
                raise InvalidArgument(f"run_options must be RunOptions, not {type(run_options).__name__}")
            if run_options.terminate:
                raise RunError(CANCELLED, "the run was not started: its RunOptions say terminate")
        if not self._profile:
            return self._execute(input_feed, into)
        with self._profile.event("model_run"):
            return self._execute(input_feed, into)

    def run_async(self, output_names: Optional[Sequence[str]], input_feed: Feed,
                  callback: Callable[[List[Any], Any, str], None], user_data: Any = None,
                  run_options: Optional[RunOptions] = None) -> None:
        """Runs in a thread of its own, which calls callback(outputs, user_data, error) at the end; error is "" after success."""
        def work() -> None:
            try:
                found, error = self.run(output_names, input_feed, run_options), ""
            except Exception as failed:
                found, error = [], str(failed)
            callback(found, user_data, error)
        threading.Thread(target=work, daemon=True).start()

    def run_with_ort_values(self, output_names: Optional[Sequence[str]], input_dict_ort_values: Feed,
                            run_options: Optional[RunOptions] = None) -> List[OrtValue]:
        """run, with OrtValues as outputs."""
        names = output_names or [port.name for port in self._outputs]
        found = self.run(names, input_dict_ort_values, run_options)
        ports = [self._outputs[i] for i in self._wanted(names)]
        return [OrtValue(value, None if port.is_value or port.labels else port.element) for port, value in zip(ports, found)]

    def run_with_ortvaluevector(self, run_options: Optional[RunOptions], feed_names: Sequence[str], feeds: Sequence[OrtValue],
                                fetch_names: Sequence[str], fetches: List[OrtValue], fetch_devices: Any = None) -> None:
        """run, whose outputs are written into the OrtValues of fetches; an empty one gets new values."""
        if len(feed_names) != len(feeds):
            raise InvalidArgument(f"there are {len(feed_names)} names of inputs, but {len(feeds)} values")
        fill(fetches, self.run_with_ort_values(fetch_names, dict(zip(feed_names, feeds)), run_options))

    def io_binding(self) -> IOBinding:
        """Inputs and outputs in memory of the caller, for run_with_iobinding."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Optional[RunOptions] = None) -> None:
        iobinding._run(run_options)

    def run_into(self, outputs: Mapping[str, Any], inputs: Feed) -> None:
        """Runs and writes the outputs into these arrays, {name: array}, which must have their types and shapes; other outputs are not
        returned. Arrays are numpy's or writable ones with __dlpack__; outputs whose memory is dense and not shared with other arrays
        are written in place, without a copy.

        For sessions with device_pointers, inputs and outputs are dense GPU arrays: anything with __cuda_array_interface__. The
        function returns without waiting: later work in the session's stream sees the outputs."""
        if not isinstance(outputs, Mapping):
            raise InvalidArgument(f"outputs must be a dict of names and arrays, not {type(outputs).__name__}")
        if self._on_device:
            self._run_on_device(outputs, inputs)
            return
        self._wanted(outputs)
        self._watched(inputs, None, [self._room(port, outputs.get(port.name)) for port in self._outputs])

    def _room(self, port: Port, given: Any) -> Optional[NDArray[Any]]:
        """The array that an output is written into."""
        given = value_of(given)
        if given is None:
            return None
        if port.is_value or port.labels:
            raise InvalidArgument(f"{port.what} cannot be written into an array")
        array = given if isinstance(given, np.ndarray) else dlpack.from_dlpack(given, port.what) if hasattr(given, "__dlpack__") else None
        if array is None:
            raise InvalidArgument(f"{port.what} is written into an array, not into {type(given).__name__}")
        if array.dtype != port.element.dtype and array.dtype != port.element.stored:
            raise InvalidArgument(f"{port.what} gives {port.element.name} ({port.element.dtype}), but the array given for it is {array.dtype}")
        if array.ndim != port.rank:
            raise InvalidArgument(f"{port.what} has rank {port.rank}, but an array of shape {array.shape} is given for it")
        if not array.flags.writeable:
            raise InvalidArgument(f"{port.what}: the array given for it is read-only")
        return array

    def _run_on_device(self, outputs: Mapping[str, Any], inputs: Feed) -> None:
        nin, nout = len(self._inputs), len(self._outputs)
        (data, dims, capacity), message = (kind() for kind in self._arguments), ctypes.c_char_p()
        feed = self._named(inputs)
        arrays = [_on_gpu(port, given) for ports, given in ((self._inputs, feed), (self._outputs, outputs)) for port in ports]
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
            raise run_error(status, message.value)

    def end_profiling(self) -> str:
        """Writes what SessionOptions.enable_profiling has recorded, an event for each run, to a file in the trace format of Chrome
        and Perfetto, and returns its name. "": nothing is recorded."""
        profile, self._profile = self._profile, None
        return profile.write() if profile else ""

    def get_profiling_start_time_ns(self) -> int:
        """When recording began, also after its end; 0: nothing was recorded."""
        return self._profile_start

    def get_tuning_results(self) -> List[Any]:
        """None: onnxc tunes when it compiles (tune=)."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """Has no effect."""

    # ------------------------------------------------------------ arguments
    def _wanted(self, names: Any) -> List[int]:
        known = self._output_places
        if isinstance(names, str):
            raise InvalidArgument(f"output_names must be a list of names, not the string '{names}'")
        unknown = [n for n in names if n not in known]
        if unknown:
            raise InvalidArgument(f"the model has no output '{unknown[0]}', only {', '.join(map(repr, known))}")
        return [known[n] for n in names]

    def _named(self, feed: Any) -> Mapping[str, Any]:
        """The feed as values by name."""
        if isinstance(feed, (list, tuple)):
            names = [port.name for port in self._inputs if not port.has_default]
            if len(feed) != len(names):
                raise InvalidArgument(f"the model has {len(names)} inputs ({', '.join(names)}), but {len(feed)} values are given")
            feed = dict(zip(names, feed))
        elif not isinstance(feed, Mapping):
            raise InvalidArgument(f"input_feed must be a dict of names and values, or a list of values, not {type(feed).__name__}")
        return dict(feed)

    def _feed(self, feed: Mapping[str, Any]) -> List[Any]:
        names = self._input_names
        for name in feed:
            if name not in names:
                raise InvalidArgument(f"the model has no input '{name}', only {', '.join(map(repr, names))}")
        for name, port in zip(names, self._inputs):
            if name not in feed and not port.has_default:
                raise InvalidArgument(f"input '{name}' is missing; the model needs {port.what}")
        return [value_of(feed.get(name)) for name in names]


def _absolute(model: Any) -> Any:
    return os.path.abspath(os.fspath(model)) if compiler.is_path(model) else model


def _words(options: Sequence[str]) -> Sequence[str]:
    words = None if isinstance(options, (str, bytes)) or not isinstance(options, Iterable) else list(options)
    if words is None or not all(isinstance(word, (str, os.PathLike)) for word in words):
        raise TypeError("sess_options must be SessionOptions or a list of options of the command line, not "
                        f"{options!r}")
    return words


def _pairs(dims: Any) -> Dict[str, Any]:
    """The keyword dim as a dict: {"N": 2}, "N=2" or a list of such strings."""
    if isinstance(dims, Mapping):
        return dict(dims)
    return dict(str(pair).split("=", 1) for pair in (dims if isinstance(dims, (list, tuple)) else [dims] if dims else []))


def _shape_text(shape: Sequence[Union[int, str]]) -> str:
    return f"[{', '.join(map(str, shape))}]" if shape else ""


def _device(said: Optional[str]) -> Tuple[Optional[str], int]:
    """(value of --device or None, GPU number; -1: the CPU)"""
    if said is None:
        return None, 0
    kind, _, number = str(said).lower().partition(":")
    if kind not in ("cpu", "cuda", "cuda,cpu") or (number and not (number.isdigit() and kind == "cuda")):
        raise InvalidArgument(f"device '{said}' is not one of 'cpu', 'cuda', 'cuda:N', 'cuda,cpu'")
    return kind, -1 if kind == "cpu" else int(number or 0)


def _on_gpu(port: Port, feed: Mapping[str, Any]) -> Tuple[int, Tuple[int, ...]]:
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


def _end(model: Any, context: Any, release: Optional[Callable[[], None]]) -> None:
    if context and model.close:
        abi.CLOSE(model.close)(context)
    if release:
        release()
