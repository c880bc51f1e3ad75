"""Compilations in this process. In: a model and options. Out: files, bytes or a loaded model; errors as exceptions."""
import ctypes
import logging
import os
from typing import NamedTuple, Optional

from . import abi
from .errors import compile_error

SEVERITY = ("remark", "warning", "error")
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


_library = None


def use_library(path):
    """Uses this libonnxc.so instead of the one found by default. To be called before the first compilation."""
    global _library
    _library = abi.open_compiler(os.fspath(path))


def library():
    if _library is None:
        use_library(abi.compiler_path())
    return _library


def version():
    """The version of the compiler."""
    return library().onnxc_compiler_version().decode()


def option_words(options, keywords):
    """fp="strict" is --fp=strict, O=3 is -O3, dim={"N": 8} is --dim=N=8, remarks=True is --remarks; lists repeat an option;
    None and False omit it. `options` are options of the command line, for instance ["-O3", "--fp=strict"]."""
    if isinstance(options, (str, bytes)):
        raise TypeError("options must be a list of strings, not a single string")
    words = [os.fspath(w) for w in options or ()]
    for key, value in keywords.items():
        name = f"-{key}" if len(key) == 1 else f"--{key.replace('_', '-')}="
        if value is None or value is False:
            continue
        if isinstance(value, dict):
            value = [f"{k}={v}" for k, v in value.items()]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words.append(name.rstrip("=") if one is True else f"{name}{one}")
    return words


class Compilation:
    """One job and everything it points to. An exception in a callback (also Ctrl-C) stops it; wait() re-raises the exception."""

    def __init__(self, model, options=None, *, filename=None, data_folder=None, memory_limit=0, on_print=None, cancelled=None,
                 **keywords):
        self.messages, self.raised, self.on_print, self.is_cancelled = [], None, on_print, cancelled
        words = [w.encode() for w in option_words(options, keywords)]
        self.words = (ctypes.c_char_p * max(len(words), 1))(*words)
        job = self.job = abi.Job(size=ctypes.sizeof(abi.Job), options=self.words, noptions=len(words),
                                 memory_limit=memory_limit, message=abi.MESSAGE(self._message),
                                 print=abi.PRINT(self._print), cancelled=abi.CANCELLED(self._cancelled))
        if isinstance(model, (str, os.PathLike)):
            job.model = os.fsencode(model)
        else:
            data = model.SerializeToString() if hasattr(model, "SerializeToString") else bytes(model)
            job.model = os.fsencode(filename or "model")
            job.data, job.data_size = data, len(data)
        if data_folder is not None:
            job.data_folder = os.fsencode(data_folder)

    def wait(self, function, *arguments):
        """Calls a function of libonnxc that takes a job."""
        code = function(ctypes.byref(self.job), *arguments)
        if self.raised:
            raise self.raised
        if code:
            raise compile_error(code, self.messages)
        for m in self.messages:
            log.log(logging.WARNING if m.severity == "warning" else logging.INFO, "%s", m.full)

    def _guard(self, call, *arguments):
        try:
            return call(*arguments)
        except BaseException as error:  # it must not be lost in C
            self.raised = self.raised or error
            return None

    def _message(self, _, m):
        def add():
            texts = [t and t.decode(errors="replace") for t in (m[0].full, m[0].text, m[0].hint, m[0].file, m[0].node, m[0].op)]
            self.messages.append(Message(SEVERITY[m[0].severity], *texts, m[0].version))
        self._guard(add)

    def _print(self, _, name, text):
        if self.on_print:
            self._guard(self.on_print, *(t and t.decode(errors="replace") for t in (name, text)))

    def _cancelled(self, _):
        stop = self._guard(self.is_cancelled) if self.is_cancelled else False
        return 1 if stop or self.raised else 0


def compile(model, output=None, options=None, **keywords):
    """Compiles a model (a path, bytes or an onnx.ModelProto) to the file `output`, whose extension gives the kind of output;
    without `output`, returns the object (or the kind given by emit=) as bytes.

    Keywords are options of the command line (see option_words), and
      filename       name of a model in memory, for messages
      data_folder    folder of the external data of a model in memory
      memory_limit   maximum memory of the compiler in bytes
      on_print       function(pass, text) for print_after= and time_passes=
      cancelled      function called between passes; True stops the compilation
    """
    if output is not None:
        keywords["output"] = os.fspath(output)
        job = Compilation(model, options, **keywords)
        job.wait(library().onnxc_compile)
        return None
    job, made, size = Compilation(model, options, **keywords), ctypes.c_void_p(), ctypes.c_size_t()
    try:
        job.wait(library().onnxc_compile_to_memory, ctypes.byref(made), ctypes.byref(size))
        return ctypes.string_at(made, size.value) if made else b""
    finally:
        library().onnxc_free(made)


def load(model, options, keywords):
    """(function that unloads it, Model)"""
    compiler, loaded = library(), ctypes.c_void_p()
    Compilation(model, options, **keywords).wait(compiler.onnxc_load, ctypes.byref(loaded))
    return lambda: compiler.onnxc_unload(loaded), compiler.onnxc_loaded_model(loaded)
