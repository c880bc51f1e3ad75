"""The exceptions. `code` is the error code of the C interface, `code_name` its name there."""
from __future__ import annotations

import errno
import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Iterable, List, Optional

if TYPE_CHECKING:
    from .compiler import Message

STATUS = {1: "ONNXC_NULL_POINTER", 2: "ONNXC_BAD_DIM", 3: "ONNXC_WORKSPACE_SIZE", 4: "ONNXC_WORKSPACE_ALIGN",
          5: "ONNXC_TOO_SMALL", 6: "ONNXC_TOO_LARGE", 7: "ONNXC_NO_MEMORY", 8: "ONNXC_CHECK_FAILED", 9: "ONNXC_CANCELLED",
          10: "ONNXC_BAD_CPU", 11: "ONNXC_BAD_WEIGHTS", 12: "ONNXC_NO_GPU", 13: "ONNXC_GPU_FAILED"}
RESULT = {1: "ONNXC_WRONG_MODEL", 2: "ONNXC_NOT_SUPPORTED", 3: "ONNXC_COMPILER_DEFECT", 5: "ONNXC_STOPPED"}
BAD_DIM = 2
CANCELLED = 9


class Error(Exception):
    """Base class of all exceptions."""

    code: Optional[int] = None
    code_name: Optional[str] = None


class InvalidArgument(Error, ValueError):
    """The session does not accept an argument: a name, a type or a shape."""


class CompileError(Error, RuntimeError):
    """A compilation failed. `messages`: all messages of the compiler, each a Message."""

    def __init__(self, code: int, messages: List[Message]) -> None:
        errors = [m.full for m in messages if m.severity == "error"]
        super().__init__("\n".join(errors) or f"the compilation failed with code {code}")
        self.code, self.code_name, self.messages = code, RESULT.get(code), messages

    def __reduce__(self) -> Any:
        return type(self), (self.code, self.messages)


class InvalidModel(CompileError):
    """The model is wrong, or does not fit the options."""


class InvalidOption(CompileError, InvalidArgument, TypeError):
    """The compiler does not have an option or a keyword, or does not accept its value."""

    def add_hint(self, keywords: Iterable[str], known: Iterable[str]) -> None:
        """keywords: those given, one of which may be meant as one of `known`, which the compiler does not know."""
        near = [n for k in keywords if f"unknown option '--{k.replace('_', '-')}'" in str(self) for n in get_close_matches(k, list(known), 1, 0.8)]
        if near:
            self.args = (f"{self}\nhint: did you mean {near[0]}=?",)


class NotSupported(CompileError):
    """The model is valid but needs something that this build lacks."""


class CompilerDefect(CompileError):
    """A bug in onnxc."""


class Stopped(CompileError):
    """The compilation was cancelled, or reached its memory limit."""


class NoSuchFile(InvalidModel, FileNotFoundError):
    """The file of the model does not exist."""

    def __init__(self, path: str) -> None:
        FileNotFoundError.__init__(self, errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.code, self.code_name, self.messages = 1, RESULT[1], []
        self.errno, self.strerror, self.filename = errno.ENOENT, os.strerror(errno.ENOENT), path

    def __reduce__(self) -> Any:
        return NoSuchFile, (self.filename,)


class RunError(Error, RuntimeError):
    """A run failed, or a model could not be opened."""

    def __init__(self, code: Optional[int], message: Optional[str]) -> None:
        name = STATUS.get(code) if code is not None else None
        known = name or (f"code {code}" if code is not None else None)
        super().__init__(f"{message or 'the run failed'}" + (f" ({known})" if known else ""))
        self.code, self.code_name, self.message = code, name, message

    def __reduce__(self) -> Any:
        return type(self), (self.code, self.message)


class ShapeError(RunError, InvalidArgument):
    """The shape of an input does not fit the model, or the shapes of several do not fit each other."""


def compile_error(code: int, messages: List[Message]) -> CompileError:
    errors = [m for m in messages if m.severity == "error"]
    if code == 1 and errors and not any(m.file for m in errors):  # errors of options have no file
        return InvalidOption(code, messages)
    kind = {1: InvalidModel, 2: NotSupported, 3: CompilerDefect, 5: Stopped}.get(code, CompileError)
    return kind(code, messages)


def run_error(code: int, message: Optional[bytes], given: str = "") -> RunError:
    """given: the shapes of the inputs, for messages about shapes."""
    text = message.decode(errors="replace") if message else None
    if code != BAD_DIM:
        return RunError(code, text)
    return ShapeError(code, f"{text or 'the shapes of the inputs do not fit'}{f'; given: {given}' if given else ''}")
