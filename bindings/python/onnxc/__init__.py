"""onnxc for Python: compile ONNX models and run them on numpy arrays.

    session = onnxc.InferenceSession("model.onnx")
    scores, = session.run(None, {"image": image})

In: models as paths, bytes, onnx.ModelProto or shared libraries compiled by onnxc. Out: arrays, or compiled files.
docs/python.md has examples; onnxc.backend implements ONNX's backend interface.
"""
from .compiler import Message, compile, use_library, version
from .errors import (CompilerDefect, CompileError, Error, InvalidArgument, InvalidModel, NotSupported, RunError,
                     Stopped)
from .session import InferenceSession, ModelMetadata, NodeArg

__all__ = ["CompileError", "CompilerDefect", "Error", "InferenceSession", "InvalidArgument", "InvalidModel", "Message",
           "ModelMetadata", "NodeArg", "NotSupported", "RunError", "Stopped", "compile", "use_library", "version"]
