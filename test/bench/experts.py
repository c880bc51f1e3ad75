"""Mixtures of experts (MoE, QMoE of com.microsoft) against ONNX Runtime on one thread.

usage: experts.py ONNXC [--old ONNXC] [--mcpu CPU] [--seconds S] [TOKENS...]     prints a line of docs/measurements.md for each

16 experts of which each token uses 2, hidden and inner sizes of 1024, SwiGLU; weights in f32, and in 4 and 8 bits in blocks of 32.
Times are this thread's processor time, the best of calls in turns. "Difference" is the largest from ONNX Runtime's answer, relative to its
largest element: with 8 bits it rounds activations to bytes.
"""
import argparse
import os
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper
from peers import Compiled, difference, ort_session

EXPERTS, CHOSEN, HIDDEN, INNER, BLOCK = 16, 2, 1024, 1024, 32


def constant(name, values, kind):
    return helper.make_tensor(name, kind, values.shape, values.tobytes(), raw=True)


def layer(number, columns, rows, bits, random):
    """Initializers of one layer's weights."""
    if bits == 32:
        return [constant(f"w{number}", (random.standard_normal((EXPERTS, columns, rows)) / 32).astype(np.float32), TensorProto.FLOAT)]
    codes = random.integers(0, 256, (EXPERTS, columns, rows * bits // 8), dtype=np.uint8)
    scales = (random.random((EXPERTS, columns, rows // BLOCK)) * 2.0**-bits / 8).astype(np.float32)
    return [constant(f"w{number}", codes, TensorProto.UINT8), constant(f"s{number}", scales, TensorProto.FLOAT)]


def model_of(tokens, bits):
    random = np.random.default_rng(0)
    first, second = layer(0, 2 * INNER, HIDDEN, bits, random), layer(1, HIDDEN, INNER, bits, random)
    options = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": CHOSEN, "normalize_routing_weights": 1}
    if bits == 32:
        node = helper.make_node("MoE", ["x", "p", "w0", "", "w1"], ["y"], domain="com.microsoft", **options)
    else:
        node = helper.make_node("QMoE", ["x", "p", "w0", "s0", "", "w1", "s1"], ["y"], domain="com.microsoft",
                                block_size=BLOCK, expert_weight_bits=bits, **options)
    floats = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, [tokens, width])
    graph = helper.make_graph([node], "experts", [floats("x", HIDDEN), floats("p", EXPERTS)], [floats("y", HIDDEN)], first + second)
    versions = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


def best_times(engines, seconds):
    times, end = {name: [] for name in engines}, time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["onnxc"]) < 8:
        for name, run in engines.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    return {name: min(t) for name, t in times.items()}


def measure(arguments, tokens, bits, folder):
    path = os.path.join(folder, "experts.onnx")
    onnx.save(model_of(tokens, bits), path)
    random = np.random.default_rng(1)
    inputs = [random.standard_normal((tokens, n)).astype(np.float32) for n in (HIDDEN, EXPERTS)]
    session = ort_session(path, 1)
    feeds = dict(zip(("x", "p"), inputs))
    wanted, output = session.run(None, feeds)[0], np.empty((tokens, HIDDEN), np.float32)
    options = ["--threads", "1", "--mcpu", arguments.mcpu]
    ours = Compiled(arguments.onnxc, path, folder, options)
    ours.prepare(inputs, [output])
    ours.run()
    engines, worst = {"onnxc": ours.run, "ort": lambda: session.run(None, feeds)}, difference(output, wanted)
    if arguments.old:
        old = Compiled(arguments.old, path, folder, options)
        old.prepare(inputs, [np.empty_like(output)])
        engines["old"] = old.run
    t = best_times(engines, arguments.seconds)
    more = f" {t['onnxc'] / t['old']:.2f} |" if arguments.old else ""
    print(f"| {bits} bits | {tokens} | {1e3 * t['onnxc']:.3g} | {1e3 * t['ort']:.3g} | {t['onnxc'] / t['ort']:.2f} | {worst:.1e} |{more}",
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("onnxc")
    parser.add_argument("tokens", nargs="*", type=int, default=[1, 4, 64, 512])
    parser.add_argument("--old")
    parser.add_argument("--mcpu", default="native")
    parser.add_argument("--seconds", type=float, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for bits in (32, 4, 8):
            for tokens in arguments.tokens:
                measure(arguments, tokens, bits, folder)


main()
