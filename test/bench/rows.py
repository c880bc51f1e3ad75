"""Rows of transformers (norms, GELU, softmax) alone and in chains, against ONNX Runtime and OpenVINO in f32 on one thread.

usage: rows.py ONNXC [--seconds S] [--options "..."] [NAME...]     prints a line of docs/measurements.md for each

Times are the best of calls in turns, less the best of a call that adds two numbers: the overhead of a call from Python, which
differs between the engines, is about as long as the shorter of these operators. "Difference" is the largest from ONNX
Runtime's answer, relative to its largest element.
"""
import argparse
import os
import tempfile
import time

import numpy as np
import onnx
import openvino
from onnx import TensorProto, helper, numpy_helper
from peers import PAUSE, Compiled, difference, ort_session

OPSET = 21


class Chain:
    """A model of one input and operators one after the other; `constants` are further inputs of an operator."""

    def __init__(self, *dims):
        self.dims, self.nodes, self.weights, self.last = dims, [], [], "x"
        self.random = np.random.default_rng(len(dims))

    def constant(self, array):
        self.weights.append(numpy_helper.from_array(np.asarray(array, np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def op(self, kind, *constants, first=None, **attributes):
        made = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [first or self.last, *constants], [made], **attributes))
        self.last = made
        return self

    def normal(self, *dims):
        return self.constant(self.random.standard_normal(dims))

    def norm(self):
        n = self.dims[-1]
        return self.op("LayerNormalization", self.normal(n), self.normal(n), epsilon=1e-5)

    def gelu(self, approximate="none"):
        return self.op("Gelu", approximate=approximate)

    def softmax(self):
        return self.op("Softmax", axis=-1)

    def residual(self):
        return self.op("Add", "x")

    def bias(self):
        return self.op("Add", self.normal(self.dims[-1]))

    def scale(self):
        return self.op("Mul", self.constant(0.125))

    def mask(self):
        return self.op("Add", self.constant(np.zeros((1, 1, self.dims[-1]))))

    def model(self):
        shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.dims) for name in ("x", self.last)]
        graph = helper.make_graph(self.nodes, "rows", shapes[:1], shapes[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


ROWS = {
    "LayerNorm 128x768": lambda: Chain(128, 768).norm(),
    "LayerNorm 197x768": lambda: Chain(197, 768).norm(),
    "LayerNorm 128x3072": lambda: Chain(128, 3072).norm(),
    "bias, GELU, LayerNorm 128x768": lambda: Chain(128, 768).bias().gelu().norm(),
    "GELU, residual, LayerNorm 128x768": lambda: Chain(128, 768).gelu().residual().norm(),
    "GELU 128x768": lambda: Chain(128, 768).gelu(),
    "GELU 128x3072": lambda: Chain(128, 3072).gelu(),
    "bias, GELU 128x3072": lambda: Chain(128, 3072).bias().gelu(),
    "tanh-GELU 128x3072": lambda: Chain(128, 3072).gelu("tanh"),
    "bias, tanh-GELU 197x3072": lambda: Chain(197, 3072).bias().gelu("tanh"),
    "softmax 12x128x128": lambda: Chain(12, 128, 128).softmax(),
    "softmax 12x197x197": lambda: Chain(12, 197, 197).softmax(),
    "softmax 128x3072": lambda: Chain(128, 3072).softmax(),
    "scale, mask, softmax 12x128x128": lambda: Chain(12, 128, 128).scale().mask().softmax(),
    "LayerNorm, GELU, softmax 128x768": lambda: Chain(128, 768).norm().gelu().softmax(),
}


def openvino_call(path, x):
    options = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(path, "CPU", options).create_infer_request()
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))
    return request.infer


def ort_call(path, x, y):
    session = ort_session(path, 1)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output(session.get_outputs()[0].name, "cpu", 0, np.float32, y.shape, y.ctypes.data)
    return lambda kept=(x, y): session.run_with_iobinding(binding)  # the binding has their addresses only


def calls(onnxc, chain, folder, options):
    """The engines' calls, and the difference of our answer."""
    path = os.path.join(folder, f"model{len(os.listdir(folder))}.onnx")
    onnx.save(chain.model(), path)
    x = (4 * np.random.default_rng(1).standard_normal(chain.dims)).astype(np.float32)
    y, theirs = np.empty_like(x), np.empty_like(x)
    ours = Compiled(onnxc, path, folder, ["--threads", "1", *options])
    ours.prepare([x], [y])
    engines = {"onnxc": ours.run, "ort": ort_call(path, x, theirs), "openvino": openvino_call(path, x)}
    for run in engines.values():
        run()
    return engines, difference(y, theirs)


def best_times(engines, seconds):
    best, end = dict.fromkeys(engines, 1e9), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in engines.items():
            time.sleep(PAUSE)
            for _ in range(8):
                start = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--options", default="")
    a = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        make = lambda chain: calls(os.path.abspath(a.onnxc), chain, folder, a.options.split())  # noqa: E731
        nothing, _ = make(Chain(2).bias())
        made = {name: make(ROWS[name]()) for name in a.names or ROWS}
        none = best_times(nothing, a.seconds)
        for name, (engines, worst) in made.items():
            t = {e: best - none[e] for e, best in best_times(engines, a.seconds).items()}
            print(f"| {name} | " + " | ".join(f"{1e6 * v:.1f} us" for v in t.values()) +
                  f" | {t['onnxc'] / t['ort']:.2f} | {t['onnxc'] / t['openvino']:.2f} | {worst:.1e} |", flush=True)


if __name__ == "__main__":
    main()
