"""Compilations in this process. In: a model and options. Out: files, bytes or a loaded model; errors as exceptions."""
from __future__ import annotations

import ctypes
import logging
import os
import re
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, overload

from . import abi, cache
from .errors import NoSuchFile, compile_error
from .paths import compiler_path

if TYPE_CHECKING:
    from onnx import ModelProto

    Model = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, ModelProto]
StrPath = Union[str, "os.PathLike[str]"]

SEVERITY = ("remark", "warning", "error")
LEVELS = {"remark": logging.INFO, "warning": logging.WARNING}
log = logging.getLogger("onnxc")


class Message(NamedTuple):
    """A message of the compiler. full: as the command line prints it; node, op, version: its location, None and 0 if unknown."""

    severity: str
    full: str
    text: str
    hint: Optional[str]
    file: Optional[str]
    node: Optional[str]
    op: Optional[str]
    version: int


class Compiled(NamedTuple):
    """The files of a compilation. output: the file that was asked for; header: its C header; files: these and all others that were
    written; sources: the files that were read."""

    output: Path
    header: Optional[Path]
    files: List[Path]
    sources: List[Path]


_library: Optional[Any] = None
_opening = threading.Lock()


def use_library(path: StrPath) -> None:
    """Uses this libonnxc.so instead of the one found by default. To be called before the first compilation."""
    global _library
    _library = abi.open_compiler(os.fspath(path))


def library() -> Any:
    if _library is None:
        with _opening:
            if _library is None:
                use_library(compiler_path())
    return _library


def version() -> str:
    """The version of the compiler."""
    return str(library().onnxc_compiler_version().decode())


def option_words(options: Optional[Sequence[str]], keywords: Mapping[str, Any]) -> List[str]:
    """fp="strict" is --fp=strict, O=3 is -O3, remarks=True is --remarks, dim={"N": 8} is --dim=N=8, shape={"x": (2, 4)} is
    --shape=x=2,4; lists repeat an option; None and False omit it. `options` are options of the command line, for instance ["-O3", "--fp=strict"]."""
    if isinstance(options, (str, bytes)):
        raise TypeError("options must be a list of strings, not a single string")
    words = [os.fspath(w) for w in options or ()]
    for key, value in keywords.items():
        name = f"-{key}" if len(key) == 1 else f"--{key.replace('_', '-')}="
        if value is None or value is False:
            continue
        if isinstance(value, Mapping):
            value = [f"{k}={','.join(map(str, v)) if isinstance(v, (list, tuple)) else v}" for k, v in value.items()]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words.append(name.rstrip("=") if one is True else f"{name}{os.fspath(one) if isinstance(one, os.PathLike) else one}")
    return words


def is_path(model: Any) -> bool:
    return isinstance(model, (str, os.PathLike))


def model_bytes(model: Any) -> bytes:
    if hasattr(model, "SerializeToString"):
        return bytes(model.SerializeToString())
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    raise TypeError(f"a model is a path, bytes or an onnx.ModelProto, not {type(model).__name__}")


def check_file(model: Any) -> None:
    if is_path(model) and os.fspath(model) != "-" and not os.path.exists(model):
        raise NoSuchFile(os.fspath(model))


class Compilation:
    """One job and everything it points to. An exception in a callback (also Ctrl-C) stops it; wait() re-raises the exception."""

    def __init__(self, model: Model, options: Optional[Sequence[str]] = None, *, filename: Optional[str] = None,
                 data_folder: Optional[StrPath] = None, memory_limit: int = 0, cache_size: int = cache.SIZE,
                 on_print: Optional[Callable[[Optional[str], Optional[str]], None]] = None,
                 cancelled: Optional[Callable[[], bool]] = None, log_level: int = logging.INFO, **keywords: Any) -> None:
        self.messages: List[Message] = []
        self.raised: Optional[BaseException] = None
        self.on_print, self.is_cancelled, self.log_level = on_print, cancelled, log_level
        check_file(model)
        keywords["cache"] = self.cache = cache.folder(keywords.get("cache"))
        self.cache_size = cache_size
        words = [w.encode() for w in option_words(options, keywords)]
        self.words = (ctypes.c_char_p * max(len(words), 1))(*words)
        job = self.job = abi.Job(size=ctypes.sizeof(abi.Job), options=self.words, noptions=len(words),
                                 memory_limit=memory_limit, message=abi.MESSAGE(self._message),
                                 print=abi.PRINT(self._print), cancelled=abi.CANCELLED(self._cancelled))
        if isinstance(model, (str, os.PathLike)):
            job.model = os.fsencode(model)
        else:
            data = model_bytes(model)
            job.model = os.fsencode(filename or "model")
            job.data, job.data_size = data, len(data)
        if data_folder is not None:
            job.data_folder = os.fsencode(data_folder)

    def wait(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls a function of libonnxc that takes a job."""
        code = function(ctypes.byref(self.job), *arguments)
        if self.cache:
            cache.prune(self.cache, self.cache_size)
        if self.raised:
            raise self.raised
        if code:
            raise compile_error(code, self.messages)
        for m in self.messages:
            level = LEVELS.get(m.severity, logging.INFO)
            if level >= self.log_level:
                log.log(level, "%s", m.full)

    def _guard(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except BaseException as error:  # it must not be lost in C
            self.raised = self.raised or error
            return None

    def _message(self, _: Any, m: Any) -> None:
        def add() -> None:
            full, text, *rest = (t and t.decode(errors="replace") for t in (m[0].full, m[0].text, m[0].hint, m[0].file, m[0].node,
                                                                            m[0].op))
            hint, file, node, op = rest
            self.messages.append(Message(SEVERITY[m[0].severity], full, text, hint, file, node, op, m[0].version))
        self._guard(add)

    def _print(self, _: Any, name: Optional[bytes], text: Optional[bytes]) -> None:
        if self.on_print:
            self._guard(self.on_print, *(t and t.decode(errors="replace") for t in (name, text)))

    def _cancelled(self, _: Any) -> int:
        stop = self._guard(self.is_cancelled) if self.is_cancelled else False
        return 1 if stop or self.raised else 0


@overload
def compile(model: Model, output: StrPath, options: Optional[Sequence[str]] = None, **keywords: Any) -> Compiled: ...
@overload
def compile(model: Model, output: None = None, options: Optional[Sequence[str]] = None, **keywords: Any) -> bytes: ...


def compile(model: Model, output: Optional[StrPath] = None, options: Optional[Sequence[str]] = None,
            **keywords: Any) -> Union[Compiled, bytes]:
    """Compiles a model (a path, bytes or an onnx.ModelProto) to the file `output`, whose extension gives the kind of output, and
    returns the paths of the files that were written. Without `output`, returns the object (or the kind given by emit=) as bytes.

    Keywords are options of the command line (see option_words), and
      filename       name of a model in memory, for messages
      data_folder    folder of the external data of a model in memory
      memory_limit   maximum memory of the compiler in bytes
      cache          folder for compiled code (--cache), True: cache.default_folder()
      cache_size     maximum size of that folder in bytes
      on_print       function(pass, text) for print_after= and time_passes=
      cancelled      function called between passes; True stops the compilation
    """
    if output is None:
        return _compile_to_memory(model, options, keywords)
    made: Dict[str, Any] = {"output": os.fspath(output)}
    given = _given_depfile(options, keywords)
    with tempfile.TemporaryDirectory() as folder:
        depfile = given or os.path.join(folder, "d")
        if not given:
            made["depfile"] = depfile
        Compilation(model, options, **{**made, **keywords}).wait(library().onnxc_compile)
        files, sources = _read_depfile(depfile)
    return Compiled(Path(output), next((f for f in files if f.suffix == ".h"), None), files or [Path(output)],
                    [] if not is_path(model) else sources)


def _compile_to_memory(model: Model, options: Optional[Sequence[str]], keywords: Mapping[str, Any]) -> bytes:
    job, made, size = Compilation(model, options, **keywords), ctypes.c_void_p(), ctypes.c_size_t()
    try:
        job.wait(library().onnxc_compile_to_memory, ctypes.byref(made), ctypes.byref(size))
        return ctypes.string_at(made, size.value) if made else b""
    finally:
        library().onnxc_free(made)


def _given_depfile(options: Optional[Sequence[str]], keywords: Mapping[str, Any]) -> Optional[str]:
    words = option_words(options, {k: v for k, v in keywords.items() if k == "depfile"})
    for word, after in zip(words, [*words[1:], ""]):
        if word in ("--depfile", "-MF"):
            return after
        if word.startswith(("--depfile=", "-MF")):
            return word.partition("=")[2] if word.startswith("--") else word[3:]
    return None


def _read_depfile(path: str) -> Tuple[List[Path], List[Path]]:
    """Targets and prerequisites of the first rule."""
    try:
        text = Path(path).read_text(errors="surrogateescape")
    except OSError:
        return [], []
    rule = text.replace("\\\n", " ").split("\n", 1)[0]
    words = [re.sub(r"\\([ #:\\])", r"\1", w).replace("$$", "$") for w in re.findall(r"(?:\\.|[^\s\\])+", rule)]
    end = next((i for i, w in enumerate(words) if w.endswith(":")), len(words) - 1)
    targets = [*words[:end], words[end].rstrip(":")] if words else []
    return [Path(w) for w in targets if w], [Path(w) for w in words[end + 1:]]


def load(model: Model, options: Optional[Sequence[str]], keywords: Dict[str, Any]) -> Tuple[Callable[[], None], Any]:
    """(function that unloads it, Model)"""
    compiler, loaded = library(), ctypes.c_void_p()
    Compilation(model, options, **keywords).wait(compiler.onnxc_load, ctypes.byref(loaded))
    return lambda: compiler.onnxc_unload(loaded), compiler.onnxc_loaded_model(loaded)
