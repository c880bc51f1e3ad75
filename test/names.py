"""The stage `names`: identifiers of at most 63 characters for a model whose names have hundreds, of which the ends tell them apart.

usage: names.py ONNXC. Ends with "N passed, N failed, N skipped"."""
import os
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness import Results, run

ONNXC = os.path.abspath(sys.argv[1])
RESULTS, MOST = Results("names"), 63
LAYERS = 3


def scope(end):
    """As exporters of nested modules name values."""
    return "/model/" + "/".join(f"transformer_block.{i}.module_list.self_attention_wrapper" for i in range(7)) + f"/{end}"


def network(path):
    """Products large enough for threads, a constant for each, sizes known only at run time, tokens in a quantised product."""
    weights = [numpy_helper.from_array(numpy.full((256, 256), i + 1, numpy.float32), scope(f"weight_{i}")) for i in range(LAYERS)]
    batch, value = scope("batch"), scope("input")
    tensors = [helper.make_tensor_value_info(value, TensorProto.FLOAT, [batch, 256])]
    nodes = []
    for i in range(LAYERS):
        nodes.append(helper.make_node("MatMul", [value, weights[i].name], [scope(f"product_{i}")], name=scope(f"MatMul_{i}")))
        nodes.append(helper.make_node("Softmax", [scope(f"product_{i}")], [scope(f"softmax_{i}")], name=scope(f"Softmax_{i}")))
        value = scope(f"softmax_{i}")
    nodes.append(helper.make_node("Compress", [value, scope("choice")], [scope("chosen")], name=scope("Compress"), axis=0))
    nodes.append(helper.make_node("Relu", [value], [scope("output")], name=scope("Relu")))
    tensors += [helper.make_tensor_value_info(scope("choice"), TensorProto.BOOL, [scope("choices")])]
    results = [helper.make_tensor_value_info(scope("output"), TensorProto.FLOAT, [batch, 256]),
               helper.make_tensor_value_info(scope("chosen"), TensorProto.FLOAT, [scope("chosen_batch"), 256])]
    graph = helper.make_graph(nodes, "g" * 300, tensors, results, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def identifiers(path):
    """Of C, outside of comments and strings."""
    with open(path, encoding="utf-8") as f:
        text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', " ", f.read(), flags=re.DOTALL)
    return set(re.findall(r"[A-Za-z_]\w*", text))


def symbols(path):
    lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1] for line in lines if not line.split()[-1].startswith(".L")}


def check_lengths(label, names):
    long = sorted(name for name in names if len(name) > MOST)
    RESULTS.check(names and not long, f"{label}: at most {MOST} characters", " ".join(long[:3]))


# Kind of output, options; the name of the model is as long as that of a file may make it, or as short as a user makes it.
OUTPUTS = [("o", []), ("o", ["--dim", f"{scope('batch')}=1,4,1:64"]), ("o", ["--name", "net", "--mcpu=x86-64-v3", "-g"]), ("c", []), ("c", ["--name", "net"]),
           ("o", ["--target=thumbv7em-none-eabihf", "--mcpu=cortex-m4", "--dim", f"{scope('batch')}=2", "--dim", f"{scope('choices')}=2"])]
FILE = "a_file_name_that_training_runs_with_many_settings_make_2026_11_23_epoch_400"


def check_output(model, kind, options, folder):
    label = " ".join([kind, *(option.replace(scope("batch"), "batch") for option in options)])
    out = os.path.join(folder, f"{FILE}.{kind}")
    ran = run([ONNXC, model, *options, "-o", out], timeout=120)
    if not RESULTS.check(ran.code == 0, label, ran.why()):
        return
    header = os.path.join(folder, f"{FILE}.h")
    members = identifiers(header)
    check_lengths(f"{label}: header", members)
    check_lengths(label, symbols(out) if kind == "o" else identifiers(out))
    for end in ("input", "output", "chosen", "choice"):  # read by their ends
        RESULTS.check(any(re.fullmatch(rf"model_\w+_{end}", name) for name in members), f"{label}: member {end}", sorted(members))
    names = symbols(out) if kind == "o" else identifiers(out)
    for end in [f"MatMul_{i}" for i in range(LAYERS)] if "-g" in options or kind == "c" else []:
        RESULTS.check(any(end in name for name in names), f"{label}: kernel {end}", sorted(names))
    language = ["-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    ran = run(["cc", *language, header if kind == "o" else out], timeout=120)
    RESULTS.check(ran.code == 0, f"{label}: the C compiler", ran.why())


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.onnx")
        network(model)
        for kind, options in OUTPUTS:
            check_output(model, kind, options, folder)
        ran = run([ONNXC, "run", model, "--dim", f"{scope('batch')}=2", "--dim", f"{scope('choices')}=2", "--input", f"{scope('input')}=random",
                   "--input", f"{scope('choice')}=random", "--compare", "interpret"], timeout=60)
        RESULTS.check(ran.code == 0, "run", ran.why())
    RESULTS.report()


main()
