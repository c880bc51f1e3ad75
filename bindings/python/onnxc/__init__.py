"""onnxc for Python: compile ONNX models and run them on numpy arrays.

    session = onnxc.InferenceSession("model.onnx")
    scores, = session.run(None, {"image": image})

In: models as paths, bytes, onnx.ModelProto or shared libraries compiled by onnxc. Out: arrays, or compiled files. Programs for
ONNX Runtime run with `import onnxc as onnxruntime`. docs/python.md has examples; onnxc.backend implements ONNX's backend
interface.
"""
import os
import platform
from typing import Any

import numpy

from . import capi
from ._version import __version__
from .binding import IOBinding
from .cache import clear_cache
from .compiler import Compiled, Message, compile, use_library, version
from .errors import (CompilerDefect, CompileError, Error, InvalidArgument, InvalidModel, InvalidOption, NoSuchFile, NotSupported, RunError,
                     ShapeError, Stopped)
from .memory import OrtDeviceMemoryType, OrtMemoryInfo, copy_tensors
from .metadata import ModelMetadata
from .options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions,
                      disable_telemetry_events, enable_telemetry_events, get_all_providers, get_available_providers, get_device,
                      has_collective_ops, preload_dlls, set_default_logger_severity, set_default_logger_verbosity,
                      set_global_thread_pool_sizes, set_seed)
from .ortvalue import OrtAllocatorType, OrtDevice, OrtMemType, OrtValue
from .paths import get_cmake_dir, get_include, get_library_dir, get_make_include
from .ports import NodeArg
from .session import InferenceSession

SessionIOBinding = IOBinding  # its name in ONNX Runtime's C++


def get_version_string() -> str:
    """The version of the compiler."""
    return version()


package_name = "onnxc"
cuda_version = ""

# Parts of ONNX Runtime that programs may look for, and why they are not here.
_ABSENT = {"sparse tensors are not supported": ("OrtSparseFormat", "SparseTensor"),
           "adapters are not supported; merge them into the model's weights": ("AdapterFormat", "LoraAdapter"),
           "onnxc.compile(model, \"model.so\") makes a library that InferenceSession loads": ("ModelCompiler", "OrtCompileApiFlags"),
           "there are no execution providers: device=\"cuda\" selects a GPU":
               ("OrtEpDevice", "OrtHardwareDevice", "get_ep_devices", "register_execution_provider_library",
                "unregister_execution_provider_library"),
           "memory is that of numpy arrays, or of GPU arrays for run_into":
               ("OrtArenaCfg", "OrtSyncStream", "create_and_register_allocator", "create_and_register_allocator_v2")}


def __getattr__(name: str) -> Any:
    why = next((f": {why}" for why, names in _ABSENT.items() if name in names), "")
    raise AttributeError(f"module 'onnxc' has no attribute '{name}'{why}")


def get_build_info() -> str:
    return f"onnxc {version()}"


def print_debug_info() -> None:
    """Prints the versions of the compiler, of Python and of numpy, and the platform, for reports of defects."""
    print(f"{get_build_info()} at {os.path.dirname(__file__)}\nPython {platform.python_version()}, numpy {numpy.__version__}\n{platform.platform()}")


__all__ = ["CompileError", "Compiled", "CompilerDefect", "Error", "ExecutionMode", "ExecutionOrder",
           "GraphOptimizationLevel", "IOBinding", "InferenceSession", "InvalidArgument", "InvalidModel",
           "InvalidOption", "Message", "ModelMetadata", "NoSuchFile", "NodeArg", "NotSupported", "OrtAllocatorType",
           "OrtDevice", "OrtDeviceMemoryType", "OrtMemType", "OrtMemoryInfo", "OrtValue", "RunError", "RunOptions",
           "SessionIOBinding", "SessionOptions", "ShapeError", "Stopped", "__version__", "capi", "clear_cache",
           "compile", "copy_tensors", "cuda_version", "disable_telemetry_events", "enable_telemetry_events",
           "get_all_providers", "get_available_providers", "get_build_info", "get_cmake_dir", "get_device",
           "get_include", "get_library_dir", "get_make_include", "get_version_string", "has_collective_ops",
           "package_name", "preload_dlls", "print_debug_info", "set_default_logger_severity",
           "set_default_logger_verbosity", "set_global_thread_pool_sizes", "set_seed", "use_library", "version"]
