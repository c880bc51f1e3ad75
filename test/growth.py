"""Models of n and 2n nodes: processor time and memory of the passes grow about as fast. usage: growth.py ONNXC

The time of machine code is not in it. A pass that takes time with the square of the nodes, or more, fails."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from harness import Results, parallel
from onnx import TensorProto, helper, numpy_helper

ONNXC = os.path.abspath(sys.argv[1])
RESULTS = Results("growth")
SMALL, MOST_RATIO, MOST_MEMORY = 1000, 3.2, 700e6
FREE_SECONDS = {"dense": 6}  # so many edges take more than the square of the time of the layers


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(nodes, inputs, output, constants=None):
    def value(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", [value(*i) for i in inputs.items()], [value(output, None)], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(op, **attributes):
    return lambda n: model([node(op, f"v{i}", f"v{i + 1}", **attributes) for i in range(n)], {"v0": [4, 8]}, f"v{n}")


def sums(n):
    """Of an open size, with values that are read again."""
    nodes = [node("Add", f"v{i} c" if i % 3 else f"v{i} v{max(0, i - 5)}", f"v{i + 1}") for i in range(n)]
    return model(nodes, {"v0": ["N", 8]}, f"v{n}", {"c": np.ones(8, np.float32)})


def residual(n):
    nodes = []
    for i in range(n // 3):
        nodes += [node("Conv", f"v{i} w", f"a{i}", pads=[1, 1, 1, 1]), node("Relu", f"a{i}", f"b{i}"), node("Add", f"v{i} b{i}", f"v{i + 1}")]
    return model(nodes, {"v0": [1, 4, 8, 8]}, f"v{n // 3}", {"w": np.ones((4, 4, 3, 3), np.float32)})


def longer_and_longer(n):
    """A list to which every node appends."""
    nodes = [node("Concat", f"v{i} x{i % 64}", f"v{i + 1}", axis=0) for i in range(n)]
    return model(nodes, {name: [1, 8] for name in ("v0", *(f"x{i}" for i in range(64)))}, f"v{n}")


def dense(n):
    """Every convolution reads the results of all before it: the edges grow with n."""
    layers, nodes = int((8 * n)**0.5), []
    for i in range(layers):
        nodes += [node("Concat", " ".join(f"v{k}" for k in range(i + 1)), f"c{i}", axis=1), node("Conv", f"c{i} w{i}", f"v{i + 1}")]
    weights = {f"w{i}": np.ones((4, 4 * (i + 1), 1, 1), np.float32) for i in range(layers)}
    return model(nodes, {"v0": [1, 4, 4, 4]}, f"v{layers}", weights)


def side_by_side(n):
    """Nodes in any order: a search for the order with the least memory."""
    nodes = [node("ReduceMean" if i % 2 else "ReduceMax", "x", f"v{i}", axes=[1]) for i in range(n)]
    nodes.append(node("Concat", " ".join(f"v{i}" for i in range(n)), "y", axis=1))
    return model(nodes, {"x": [4, 8]}, "y")


def rows(n):
    nodes = [node("Slice", f"x s{i} s{i + 1}", f"v{i}") for i in range(n)] + [node("Softmax", f"v{i}", f"r{i}") for i in range(n)]
    nodes.append(node("Concat", " ".join(f"r{i}" for i in range(n)), "y", axis=0))
    return model(nodes, {"x": [n, 8]}, "y", {f"s{i}": np.array([i]) for i in range(n + 1)})


KINDS = {"softmax": chain("Softmax", axis=-1), "functions": chain("Sigmoid"), "sums": sums, "residual": residual, "longer": lambda n: longer_and_longer(2 * n),
         "dense": dense, "side_by_side": side_by_side, "rows": rows}


def cost(made):
    """Processor seconds, bytes; the first None: it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        onnx.save(made, path)
        command = [ONNXC, path, "--mcpu=x86-64-v3", "--threads=1", "--stop-after=roll"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
    return used.ru_utime + used.ru_stime if status == 0 else None, used.ru_maxrss * 1024


def grow(name):
    """What is wrong; "": nothing. Other work on the machine makes times longer, never shorter."""
    once, _ = cost(KINDS[name](SMALL))
    for _ in range(3):
        twice, memory = cost(KINDS[name](2 * SMALL))
        if once is None or twice is None:
            return "onnxc fails"
        if memory > MOST_MEMORY:
            return f"{2 * SMALL} nodes take {memory / 1e6:.0f} MB"
        if twice <= MOST_RATIO * once + FREE_SECONDS.get(name, 0.3):
            return ""
    return f"{SMALL} nodes take {once:.2f} s, {2 * SMALL} {twice:.2f} s"


for name, wrong in zip(KINDS, parallel(grow, KINDS)):
    RESULTS.check(not wrong, name, wrong)
sys.exit(RESULTS.report())
