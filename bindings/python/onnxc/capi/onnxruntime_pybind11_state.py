"""ONNX Runtime's exceptions, and what it defines in C++, by its names."""
from onnxc.binding import IOBinding
from onnxc.errors import CompileError, Error, InvalidArgument, InvalidModel, NoSuchFile, NotSupported, RunError, Stopped
from onnxc.memory import OrtDeviceMemoryType, OrtMemoryInfo, OrtValueVector, copy_tensors
from onnxc.metadata import ModelMetadata
from onnxc.options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions,
                           disable_telemetry_events, enable_telemetry_events, get_all_providers, get_available_providers, get_device,
                           has_collective_ops, set_default_logger_severity, set_default_logger_verbosity,
                           set_global_thread_pool_sizes, set_seed)
from onnxc.ortvalue import OrtAllocatorType, OrtDevice, OrtMemType, OrtValue
from onnxc.ports import NodeArg


class NeverRaised(Error):
    """For what cannot happen here."""


EPFail = EngineError = ModelLoaded = ModelRequiresCompilation = NoModel = NotFound = NeverRaised
Fail = CompileError
InvalidGraph = InvalidProtobuf = InvalidModel
ModelLoadCanceled = Stopped
NotImplemented = NotSupported
RuntimeException = RunError
SessionIOBinding = IOBinding

__all__ = ["EPFail", "EngineError", "ExecutionMode", "ExecutionOrder", "Fail", "GraphOptimizationLevel", "InvalidArgument",
           "InvalidGraph", "InvalidProtobuf", "ModelLoadCanceled", "ModelLoaded", "ModelMetadata", "ModelRequiresCompilation",
           "NoModel", "NoSuchFile", "NodeArg", "NotFound", "NotImplemented", "OrtAllocatorType", "OrtDevice", "OrtDeviceMemoryType",
           "OrtMemType", "OrtMemoryInfo", "OrtValue", "OrtValueVector", "RunOptions", "RuntimeException", "SessionIOBinding", "SessionOptions", "copy_tensors", "disable_telemetry_events",
           "enable_telemetry_events", "get_all_providers", "get_available_providers", "get_device", "has_collective_ops",
           "set_default_logger_severity", "set_default_logger_verbosity", "set_global_thread_pool_sizes", "set_seed"]
