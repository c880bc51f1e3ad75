"""Makes case folders: a network exported, what a recipe of tools makes of it, a generative model of the builder, or a search.

usage: make.py    lines from its input, each done in a process forked after the packages are imported and answered by its exit code:
    source NAME FOLDER                      see networks.py
    recipe NAME RECIPE SOURCE FOLDER        SOURCE: the folder of the former
    generative NAME PRECISION PROVIDER FOLDER [KEY=VALUE...]
    search NAME FOLDER                      see search.py
What the tools print goes to FOLDER.log.
"""
import glob
import json
import os
import shutil
import sys
import tempfile
import traceback

import numpy as np
import onnx
import torch
from onnx import numpy_helper

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "exports"))
import export  # noqa: E402
import generative  # noqa: E402
import networks  # noqa: E402
import search  # noqa: E402
import steps  # noqa: E402
from judge import session_of, write  # noqa: E402

OPSET = 17


def arrays(data):
    count = len(glob.glob(os.path.join(data, "input_*.pb")))
    return [numpy_helper.to_array(onnx.load_tensor(os.path.join(data, f"input_{j}.pb"))) for j in range(count)]


def source(name, folder):
    export.make("tools_" + name, "legacy", OPSET, folder)


def recipe(name, text, given, folder):
    path, sets = os.path.join(given, "model.onnx"), [arrays(d) for d in sorted(glob.glob(os.path.join(given, "test_data_set_*")))]
    names = [i.name for i in onnx.load(path).graph.input]
    about = steps.Source(networks.KINDS[name], networks.HEADS, networks.WIDE, [dict(zip(names, s)) for s in sets])
    with tempfile.TemporaryDirectory() as made:
        out = os.path.join(made, "made.onnx")
        steps.apply(text, about, path, out)
        write(onnx.load(out), folder, sets, steps.tolerance(text))


def values(inputs, head, batch, length, past, dice):
    """Inputs of a generative model: the names of its dims and inputs are the builder's."""
    sizes = {"batch_size": batch, "sequence_length": length, "past_sequence_length": past, "total_sequence_length": past + length,
             "past_sliding_length": networks.WINDOW, "kv_cache_dim": head}
    for i in inputs:
        shape = [n if isinstance(n, int) else sizes[n] for n in i.shape]
        if i.name == "input_ids":
            yield dice.integers(2, networks.VOCABULARY - 2, shape)
        elif i.name == "attention_mask":
            yield np.ones(shape)
        elif i.name == "position_ids":
            yield np.arange(past, past + length) + np.zeros(shape)
        else:
            yield dice.normal(0, 1, shape)


def generative_model(name, precision, provider, folder, *options):
    with tempfile.TemporaryDirectory() as made:
        generative.make(name, precision, provider, made, *options)
        path, dice = os.path.join(made, "model.onnx"), np.random.default_rng(1)
        inputs = session_of(path).get_inputs()
        with open(os.path.join(made, "genai_config.json"), encoding="utf-8") as f:
            head = json.load(f)["model"]["decoder"]["head_size"]
        sets = [list(values(inputs, head, *size, dice)) for size in ((2, 9, 0), (1, 1, 7), (2, 1, networks.WINDOW - 1))]
        write(onnx.load(path), folder, sets, 5e-3 if precision == "fp16" else 1e-3)


def searching(inputs, batch, length, dice):
    """Inputs of a model with a search; the tools fix the sizes of sounds."""
    for i in inputs:
        if i.type == "tensor(float)":
            yield dice.normal(0, 1, (batch, 80, 3000))
        elif i.name == "input_ids":
            yield dice.integers(2, networks.VOCABULARY, (batch, length))
        elif i.name == "decoder_input_ids":
            yield dice.integers(2, networks.VOCABULARY, (batch, 3))
        else:  # masks
            shape = [networks.VOCABULARY] if len(i.shape) == 1 else [batch, length if i.name == "attention_mask" else networks.VOCABULARY]
            yield np.ones(shape) if i.name == "attention_mask" else dice.random(shape) < 0.9


def search_model(name, folder):
    with tempfile.TemporaryDirectory() as made:
        path, dice = search.make(name, made), np.random.default_rng(1)
        inputs = session_of(path).get_inputs()
        sets = [list(searching(inputs, *size, dice)) for size in ((2, 9), (1, 5))]
        write(onnx.load(path), folder, sets, 1e-3)


WHAT = {"source": source, "recipe": recipe, "generative": generative_model, "search": search_model}


def forked(words):
    """The exit code of a child that does this line."""
    folder = words[{"source": 2, "recipe": 4, "generative": 4, "search": 2}[words[0]]]
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    log = os.open(folder + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        WHAT[words[0]](*words[1:])
        code = 0
    except BaseException:  # SystemExit too: the child must not go on with the loop
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main():
    torch.set_num_threads(1)  # threads do not survive a fork
    for line in sys.stdin:
        print(forked(line.split()), flush=True)


if __name__ == "__main__":
    main()
