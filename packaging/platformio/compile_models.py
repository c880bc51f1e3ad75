"""Compiles the models that platformio.ini names, to C:

    [env:board]
    lib_deps = onnxc
    custom_onnxc_models =
        models/kws.onnx
        models/gesture.onnx --name gesture --dim batch=1
    custom_onnxc = /opt/onnxc/bin/onnxc      ; default: onnxc in PATH

Each model NAME.onnx becomes NAME.c and NAME.h; sources of the project include NAME.h.
"""
import os
import shlex
import subprocess
import sys

Import("env")  # noqa: F821

ONNXC = env.GetProjectOption("custom_onnxc", "onnxc")  # noqa: F821
PROJECT = env.subst("$PROJECT_DIR")  # noqa: F821
OUT = os.path.join(env.subst("$BUILD_DIR"), "onnxc")  # noqa: F821


def compile_model(line):
    """In: a model and options. Out: its C file, compiled anew if something it depends on is newer."""
    model, *options = shlex.split(line)
    name = os.path.splitext(os.path.basename(model))[0]
    source = os.path.join(OUT, name, name + ".c")
    os.makedirs(os.path.dirname(source), exist_ok=True)
    command = [ONNXC, os.path.join(PROJECT, model), "--freestanding", "--threads", "1", *options, "-o", source, "-MF", source + ".d"]
    if is_old(source, command):
        print("Compiling ONNX model " + model)
        if subprocess.run(command).returncode:
            sys.exit(1)
        with open(source + ".command", "w", encoding="utf-8") as f:
            f.write(repr(command))
    return source


def is_old(source, command):
    try:
        with open(source + ".command", encoding="utf-8") as f:
            if f.read() != repr(command):
                return True
        with open(source + ".d", encoding="utf-8") as f:
            needed = shlex.split(f.read().replace("\\\n", " ").split(": ", 1)[1])
        return any(os.path.getmtime(path) > os.path.getmtime(source) for path in needed)
    except (OSError, IndexError):
        return True


LINES = [line.strip() for line in env.GetProjectOption("custom_onnxc_models", "").splitlines()]  # noqa: F821
SOURCES = [compile_model(line) for line in LINES if line]
FOLDERS = [os.path.dirname(source) for source in SOURCES]
env.Append(CPPPATH=FOLDERS)  # noqa: F821
for builder in env.GetLibBuilders():  # noqa: F821
    builder.env.Append(CPPPATH=FOLDERS)
DefaultEnvironment().Append(CPPPATH=FOLDERS)  # noqa: F821
for folder in FOLDERS:
    env.BuildSources(os.path.join(folder, "objects"), folder, src_filter="+<*.c>")  # noqa: F821
