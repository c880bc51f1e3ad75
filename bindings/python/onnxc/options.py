"""What ONNX Runtime calls session options, run options and providers. In: the settings of a program for ONNX Runtime. Out: options of
the compiler; what has no meaning here is accepted and does nothing, with a note in the log where a user might expect an effect.
"""
from __future__ import annotations

import enum
import logging
import threading
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple, Union

from .errors import InvalidArgument

log = logging.getLogger("onnxc")
CPU_PROVIDER, CUDA_PROVIDER = "CPUExecutionProvider", "CUDAExecutionProvider"
Provider = Union[str, Tuple[str, Mapping[str, Any]]]

_noted: Set[str] = set()
_lock = threading.Lock()


def note_once(text: str) -> None:
    """A warning in the log, once per process."""
    with _lock:
        if text in _noted:
            return
        _noted.add(text)
    log.warning("%s", text)


class GraphOptimizationLevel(enum.IntEnum):
    """Accepted and ignored: the option O= selects the level (onnxc's -O0 to -O3)."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Accepted and ignored: kernels run one after the other, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Accepted and ignored."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Entries:
    """Pairs of strings that are kept and have no effect. Slots, here and below, so that a misspelt option is an AttributeError."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: Dict[str, str] = {}

    def _add(self, key: str, value: str) -> None:
        self._entries[str(key)] = str(value)

    def _get(self, key: str) -> str:
        if key not in self._entries:
            raise InvalidArgument(f"there is no configuration entry '{key}'")
        return self._entries[key]


class SessionOptions(_Entries):
    """The options of ONNX Runtime's sessions. These have an effect:

    intra_op_num_threads      most threads that a run uses; 0: as many as there are CPUs
    log_severity_level        0 or 1: remarks and warnings of the compiler are logged, 2: warnings, 3 and 4: neither
    enable_profiling          runs are recorded in a trace, see InferenceSession.end_profiling
    profile_file_prefix       the beginning of the name of that file
    optimized_model_filepath  where the model after graph optimisation is written, as .onnx
    logid                     a name in messages of the log
    add_free_dimension_override_by_name, add_initializer, add_external_initializers

    The others can be set and read.
    """

    __slots__ = ("intra_op_num_threads", "inter_op_num_threads", "graph_optimization_level", "execution_mode", "execution_order",
                 "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "enable_profiling", "profile_file_prefix",
                 "optimized_model_filepath", "log_severity_level", "log_verbosity_level", "logid", "use_deterministic_compute",
                 "use_per_session_threads", "_dims", "_initializers")

    def __init__(self) -> None:
        super().__init__()
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order = ExecutionOrder.DEFAULT
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self.enable_profiling = False
        self.profile_file_prefix = "onnxc_profile_"
        self.optimized_model_filepath = ""
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.use_deterministic_compute = False
        self.use_per_session_threads = True
        self._dims: Dict[str, int] = {}
        self._initializers: Dict[str, Any] = {}

    @classmethod
    def _of(cls, theirs: Any) -> SessionOptions:
        """The same as an object of ONNX Runtime."""
        ours = cls()
        for name in cls.__slots__:
            if name.startswith("_"):
                continue
            value = getattr(ours, name)
            found = getattr(theirs, name, value)
            setattr(ours, name, type(value)(int(found)) if isinstance(value, enum.Enum) else found)
        note_once("of ONNX Runtime's SessionOptions only values that can be read apply: sizes of dimensions, initializers, "
                  "configuration entries and libraries of operators are set with onnxc.SessionOptions")
        return ours

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keeps the entry, which has no effect."""
        self._add(key, value)

    def get_session_config_entry(self, key: str) -> str:
        return self._get(key)

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Binds a symbolic dimension, as --dim NAME=N does."""
        self._dims[name] = int(value)

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Has no effect: dimensions are bound by name."""
        note_once("dimensions are bound by name (add_free_dimension_override_by_name), not by denotation")

    def add_initializer(self, name: str, value: Any) -> None:
        """Replaces the initializer of that name by an OrtValue or an array. Sessions with these options need the package onnx."""
        self._initializers[name] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        self._initializers.update(zip(names, values))

    def add_external_initializers_from_files_in_memory(self, *arguments: Any) -> None:
        raise InvalidArgument("files of initializers in memory are not supported; add_external_initializers takes their values")

    def register_custom_ops_library(self, path: str) -> None:
        raise InvalidArgument(f"'{path}': libraries of custom operators for ONNX Runtime cannot be loaded; functions in C are given "
                              "by custom_op= and custom_lib= (docs/python.md)")

    def add_provider(self, name: str, options: Optional[Mapping[str, Any]] = None) -> None:
        note_providers([(name, options or {})])

    def has_providers(self) -> bool:
        return False

    def _keywords(self) -> Dict[str, Any]:
        """What they are as keywords of the compiler."""
        threads = self.intra_op_num_threads
        if not hasattr(threads, "__index__"):
            raise InvalidArgument(f"intra_op_num_threads is {threads!r}, which is not an integer")
        if threads < 0:
            raise InvalidArgument(f"intra_op_num_threads is {threads}, which is negative")
        made: Dict[str, Any] = {}
        if threads:
            made["threads"] = threads
        if self._dims:
            made["dim"] = dict(self._dims)
        return made


class RunOptions(_Entries):
    """Options of one run. `terminate = True` makes runs with these options fail before they start; the others can be set and
    read."""

    __slots__ = ("log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches", "synchronize_execution_providers",
                 "terminate", "training_mode")

    def __init__(self) -> None:
        super().__init__()
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.synchronize_execution_providers = True
        self.terminate = False
        self.training_mode = False

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._add(key, value)

    def get_run_config_entry(self, key: str) -> str:
        return self._get(key)


# ---------------------------------------------------------------- providers
def note_providers(providers: Optional[Sequence[Provider]], options: Optional[Sequence[Mapping[str, Any]]] = None) -> None:
    """Says once for each provider but the CPU's that it is not used."""
    if isinstance(providers, str) or not isinstance(providers or (), Iterable):
        given = f"the string '{providers}'" if isinstance(providers, str) else repr(providers)
        raise InvalidArgument(f"providers must be a list of names, not {given}")
    for provider in providers or ():
        name = provider[0] if isinstance(provider, (tuple, list)) and provider else provider
        if not isinstance(name, str):
            raise InvalidArgument(f"a provider is a name, or a name and a dict of options, not {provider!r}")
        if name == CUDA_PROVIDER:
            note_once(f"the provider '{name}' is ignored: device=\"cuda\" selects a GPU")
        elif name != CPU_PROVIDER:
            note_once(f"the provider '{name}' is ignored: models are compiled for the CPU")
    if options is not None and providers is not None and len(options) != len(providers):
        raise InvalidArgument(f"there are {len(providers)} providers, but {len(options)} provider_options")


def get_available_providers() -> List[str]:
    """The CPU. GPUs are selected by the keyword device of InferenceSession."""
    return [CPU_PROVIDER]


def get_all_providers() -> List[str]:
    return [CPU_PROVIDER]


def get_device() -> str:
    return "CPU"


# ---------------------------------------------------------------- the process
LOG_LEVELS = {0: logging.DEBUG, 1: logging.INFO, 2: logging.WARNING, 3: logging.ERROR, 4: logging.CRITICAL}


def set_default_logger_severity(severity: int) -> None:
    """Sets the level of the logger "onnxc": 0 verbose, 1 info, 2 warning, 3 error, 4 fatal."""
    if severity not in LOG_LEVELS:
        raise InvalidArgument(f"severity {severity} is not one of 0 to 4")
    log.setLevel(LOG_LEVELS[severity])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Has no effect."""


def set_seed(seed: int) -> None:
    """Has no effect: the seeds of random operators are attributes of their nodes, or differ in every run."""
    note_once("set_seed has no effect: random operators take their seed from the model")


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Has no effect: the threads of a session are those of its options."""


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: Optional[str] = None) -> None:
    """Has no effect: code for GPUs loads the driver itself."""


def has_collective_ops() -> bool:
    """No: a model runs in one process."""
    return False


def disable_telemetry_events() -> None:
    """Has no effect: there is no telemetry."""


def enable_telemetry_events() -> None:
    """Has no effect: there is no telemetry."""
