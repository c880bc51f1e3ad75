"""The exceptions. `code` is the error code of the C interface, `code_name` its name there."""

STATUS = {1: "ONNXC_NULL_POINTER", 2: "ONNXC_BAD_DIM", 3: "ONNXC_WORKSPACE_SIZE", 4: "ONNXC_WORKSPACE_ALIGN",
          5: "ONNXC_TOO_SMALL", 6: "ONNXC_TOO_LARGE", 7: "ONNXC_NO_MEMORY", 8: "ONNXC_CHECK_FAILED", 9: "ONNXC_CANCELLED",
          10: "ONNXC_BAD_CPU", 11: "ONNXC_BAD_WEIGHTS", 12: "ONNXC_NO_GPU", 13: "ONNXC_GPU_FAILED"}
RESULT = {1: "ONNXC_WRONG_MODEL", 2: "ONNXC_NOT_SUPPORTED", 3: "ONNXC_COMPILER_DEFECT", 5: "ONNXC_STOPPED"}


class Error(Exception):
    """Base class of all exceptions."""

    code, code_name = None, None


class InvalidArgument(Error, ValueError):
    """The session does not accept an argument: a name, a type or a rank. Nothing was run."""


class CompileError(Error, RuntimeError):
    """A compilation failed. `messages`: all messages of the compiler, each a Message."""

    def __init__(self, code, messages):
        errors = [m.full for m in messages if m.severity == "error"]
        super().__init__("\n".join(errors) or f"the compilation failed with code {code}")
        self.code, self.code_name, self.messages = code, RESULT.get(code), messages


class InvalidModel(CompileError):
    """The model or the options are wrong."""


class NotSupported(CompileError):
    """The model is valid but needs something that this build lacks."""


class CompilerDefect(CompileError):
    """A bug in onnxc."""


class Stopped(CompileError):
    """The compilation was cancelled."""


class RunError(Error, RuntimeError):
    """A run failed, or a model could not be opened."""

    def __init__(self, code, message):
        name = STATUS.get(code)
        super().__init__(f"{message or 'the run failed'} ({name or f'code {code}'})")
        self.code, self.code_name, self.message = code, name, message


def compile_error(code, messages):
    kind = {1: InvalidModel, 2: NotSupported, 3: CompilerDefect, 5: Stopped}.get(code, CompileError)
    return kind(code, messages)
