"""Calls from Python with next to no work in them, against ONNX Runtime on one thread.

usage: calls.py [NAME...]       prints a line of docs/measurements.md for each; all when none is named

Times are lower quartiles of this thread's processor time, of 100 calls each, in turns.
"""
import os
import sys
import time

import numpy as np
import onnxruntime
from onnx import parser

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "bindings", "python"))
import onnxc  # noqa: E402

ROUNDS, CALLS = 200, 100


def sums(count, dims):
    names = [f"x{i}" for i in range(count)]
    steps = ["t0 = Relu (x0)", *(f"t{i} = Add (t{i - 1}, x{i})" for i in range(1, count)), f"y = Neg (t{count - 1})"]
    inputs = ", ".join(f"float[{dims}] {name}" for name in names)
    return f"g ({inputs}) => (float[{dims}] y) {{ {'  '.join(steps)} }}", {name: np.ones((2, 4), np.float32) for name in names}


X = np.ones((2, 4), np.float32)
# name: model, feed, names of outputs
CASES = {f"{n} inputs, {kind}": (*sums(n, dims), None) for n in (1, 2, 5) for kind, dims in (("constant", "2, 4"), ("dynamic", "N, 4"))}
CASES |= {
    "2 inputs, output named": (*sums(2, "2, 4"), ["y"]),
    "3 outputs, dynamic": ("g (float[N, 4] x) => (float[N, 4] a, float[N, 4] b, float[N, 4] c) { a = Relu (x)  b = Neg (x)  c = Abs (x) }", {"x": X}, None),
    "output sized by data": ("g (float[N] x) => (int64[1, K] y) { y = NonZero (x) }", {"x": X[0]}, None),
}


def measure(text, feed, outputs):
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]>\n{text}')
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = [onnxc.InferenceSession(model, threads=1),
                onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])]
    for found, want in zip(*(s.run(outputs, feed) for s in sessions)):
        np.testing.assert_array_equal(found, want)
    times = [[], []]
    for turn in range(2 * ROUNDS):
        run = sessions[turn % 2].run
        start = time.thread_time_ns()
        for _ in range(CALLS):
            run(outputs, feed)
        times[turn % 2].append((time.thread_time_ns() - start) / CALLS / 1e3)
    return [sorted(t)[len(t) // 4] for t in times]


def main():
    for name in sys.argv[1:] or CASES:
        ours, theirs = measure(*CASES[name])
        print(f"| {name} | {ours:.1f} µs | {theirs:.1f} µs | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
