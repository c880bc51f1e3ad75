"""--max-workspace: networks of random layers give the same with kernels that run a few rows at a time. Prints N passed, N failed, N skipped.

usage: patches.py [--seeds N]   networks, 6 by default; every other one is quantised
"""
import argparse
import os
import re
import shutil
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness import ONNXC, ROOT, Results, run

HERE = ["--mcpu=native"]
FIRMWARE = ["--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]


class Network:
    """Layers over an image of [1, channels, height, width]; quantised: every value is rounded to a byte."""

    def __init__(self, random, quantised, channels, height, width):
        self.nodes, self.weights, self.random, self.quantised = [], [], random, quantised
        self.x, self.channels, self.height, self.width = "x", channels, height, width
        self.shape = [1, channels, height, width]
        if quantised:
            self.round()

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape):
        if not self.quantised:
            return self.constant((self.random.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32))
        scale = self.constant(np.full(shape[0], 0.02, np.float32))
        zero = self.constant(np.zeros(shape[0], np.int8))
        return self.add("DequantizeLinear", self.constant(self.random.integers(-127, 127, shape).astype(np.int8)), scale, zero, axis=0)

    def add(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], f"{op}_{len(self.nodes)}", **attributes))
        return name

    def round(self):
        if self.quantised:
            scale, zero = self.constant(np.float32(0.04)), self.constant(np.int8(-7))
            self.x = self.add("DequantizeLinear", self.add("QuantizeLinear", self.x, scale, zero), scale, zero)

    def model(self):
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
                                  [helper.make_empty_tensor_value_info(self.x)], self.weights)
        graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def convolve(n, kernel=3, stride=1, groups=1, to=None, dilation=1):
    to = to or n.channels
    pad = dilation * (kernel - 1) // 2
    n.x = n.add("Conv", n.x, n.weight(to, n.channels // groups, kernel, kernel), pads=[pad] * 4, strides=[stride] * 2, group=groups,
                dilations=[dilation] * 2)
    n.channels, n.height, n.width = to, (n.height - 1) // stride + 1, (n.width - 1) // stride + 1
    n.round()


def pointwise(n):
    convolve(n, 1, to=int(n.random.integers(2, 7)) * 2)


def depthwise(n):
    convolve(n, int(n.random.choice([3, 5])), groups=n.channels)


def strided(n):
    if n.height > 8 and n.width > 8:
        convolve(n, 3, 2, to=n.channels + 2)


def dilated(n):
    convolve(n, 3, dilation=2)


def relu(n):
    n.x = n.add("Relu", n.x)
    n.round()


def largest(n):
    n.x = n.add("MaxPool", n.x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    n.round()


def average(n):
    if n.height % 2 == 0 and n.width % 2 == 0 and n.height > 8:
        n.x = n.add("AveragePool", n.x, kernel_shape=[2, 2], strides=[2, 2])
        n.height, n.width = n.height // 2, n.width // 2
        n.round()


def residual(n):
    before, channels = n.x, n.channels
    depthwise(n)
    convolve(n, 1, to=channels)
    n.x = n.add("Add", n.x, before)
    n.round()


def squeeze(n):
    before, channels = n.x, n.channels
    convolve(n, 1, to=channels)
    left = n.x
    n.x = before
    convolve(n, 3, to=channels)
    n.x = n.add("Concat", left, n.x, axis=1)
    n.channels = 2 * channels
    pointwise(n)


def enlarge(n):
    if n.height < 24:
        n.x = n.add("Resize", n.x, "", n.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest", nearest_mode="floor",
                    coordinate_transformation_mode="asymmetric")
        n.height, n.width = 2 * n.height, 2 * n.width


def valid(n):
    n.x = n.add("Conv", n.x, n.weight(n.channels, n.channels, 3, 3))
    n.height, n.width = n.height - 2, n.width - 2
    n.round()


LAYERS = [convolve, pointwise, depthwise, strided, dilated, relu, largest, average, residual, squeeze, enlarge, valid]


def network(seed):
    random = np.random.default_rng(seed)
    n = Network(random, seed % 2 == 0, int(random.integers(1, 5)), int(random.integers(12, 33)), int(random.integers(9, 21)))
    convolve(n, 3, to=8)
    for _ in range(int(random.integers(3, 9))):
        random.choice(LAYERS)(n)
    if seed % 3:
        n.x = n.add("GlobalAveragePool", n.x)
        n.round()
    return n


def bits(folder, model, output, options):
    out = os.path.join(folder, "out.npy")
    ran = run([ONNXC, "run", model, "--input", f"x={folder}/x.npy", "--output", f"{output}={out}", *options])
    return np.load(out) if ran.code == 0 else None, ran


def least(results, name, folder, model, options):
    """The smallest limit that is kept: refusals tell it."""
    limit = 1
    for _ in range(8):
        ran = run([ONNXC, model, "-o", os.path.join(folder, "m.o"), f"--max-workspace={limit}", *options])
        needs = re.search(r"the workspace needs (\d+) bytes", ran.err)
        if ran.code == 0:
            return limit
        if not results.check(needs, f"{name}: compiles or tells what it needs", ran.why()):
            return None
        limit = int(needs[1])
    results.fail(name, "no limit is kept")
    return None


def workspace(model, options, folder):
    run([ONNXC, model, "-o", os.path.join(folder, "m.o"), *options])
    with open(os.path.join(folder, "m.h"), encoding="utf-8") as f:
        return int(re.search(r"WORKSPACE_BYTES (\d+)", f.read())[1])


def check(results, seed, gains):
    n = network(seed)
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "m.onnx")
        onnx.save(n.model(), model)
        np.save(os.path.join(folder, "x.npy"), np.random.default_rng(seed).uniform(-3, 3, n.shape).astype(np.float32))
        name = f"seed {seed}"
        want, ran = bits(folder, model, n.x, ["--interpret"])
        if not results.check(want is not None, f"{name}: runs", ran.why()):
            return
        for options in [HERE, FIRMWARE]:
            if options is HERE:
                got, ran = bits(folder, model, n.x, ["--interpret", "--max-workspace=1"])
                results.check(got is not None and same(got, want, n), f"{name}: interpreted", ran.why() if got is None else difference(got, want))
            limit = least(results, name, folder, model, options)
            if limit is None:
                continue
            whole = workspace(model, options, folder)
            gains.append(whole / limit)
            results.check(limit <= whole, f"{name}: needs no more {' '.join(options)}", f"{limit} instead of {whole}")
            if options is FIRMWARE and seed < 2:
                check_on_board(results, name, model, limit)
            if options is HERE:
                want_here, _ = bits(folder, model, n.x, [])
                got, ran = bits(folder, model, n.x, [f"--max-workspace={limit}"])
                results.check(got is not None and same(got, want_here, n), f"{name}: compiled", ran.why() if got is None else difference(got, want_here))


def check_on_board(results, name, model, limit):
    """In qemu, against this machine."""
    if not shutil.which("qemu-system-arm") or not shutil.which("arm-none-eabi-gcc"):
        results.skip(name, "qemu-system-arm or arm-none-eabi-gcc is missing")
        return
    bench = os.path.join(ROOT, "test", "bench", "firmware.py")
    ran = run([sys.executable, bench, ONNXC, f"--options=--max-workspace={limit}", model])
    row = re.search(r"\| ([-+.e\d]+) \|$", ran.out.strip())
    results.check(row and float(row[1]) < 1e-4, f"{name}: on a Cortex-M4F", ran.why())


def same(got, want, n):
    return np.array_equal(got, want) if n.quantised else np.allclose(got, want, rtol=1e-5, atol=1e-6)


def difference(got, want):
    return f"{got.shape} {want.shape} differ by {np.abs(got - want).max() if got.shape == want.shape else ''}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    results, gains = Results("patches"), []
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        check(results, seed, gains)
    results.check(np.median(gains) > 1.5, "networks need less", f"the median network needs 1/{np.median(gains):.2f}")
    print(f"the median network needs 1/{np.median(gains):.2f} of the memory, from 1/{max(gains):.2f} to 1/{min(gains):.2f}")
    return results.report()


if __name__ == "__main__":
    sys.exit(main())
