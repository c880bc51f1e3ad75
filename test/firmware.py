"""The stage `firmware`: quantised kernels on microcontrollers in qemu: results beside the interpreter's, and instructions.

usage: firmware.py ONNXC. Ends with "N passed, N failed, N skipped"."""
import json
import os
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness import Results, parallel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench"))
import firmware as bench  # noqa: E402  pylint: disable=wrong-import-position
import tiny_networks  # noqa: E402  pylint: disable=wrong-import-position

CPUS = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55")
EXACT = ("cortex-m0plus", "cortex-m3")  # requantise in integers; others may fuse the multiply-add of f32
LEVELS = ("-O2", "-Os")
ESTIMATE = 0.15  # how far inspect's number of instructions may be off
TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int16": TensorProto.INT16, "uint16": TensorProto.UINT16, "float32": TensorProto.FLOAT}


class Network:
    """An ONNX model with inputs x (int8), u (uint8), r (a row of int8) and images p and s of 3 channels and 1, built output by output."""

    def __init__(self, image, row):
        self.rng = np.random.default_rng(7)
        self.nodes, self.constants, self.outputs, self.shapes = [], [], [], {"x": image, "u": image, "r": row, "p": (1, 3, 9, 8), "s": (1, 1, 14, 6)}
        self.kinds = {"x": "int8", "u": "uint8", "r": "int8", "p": "int8", "s": "uint8"}

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, op, inputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [f"v{len(self.nodes)}"], **attributes))
        return f"v{len(self.nodes) - 1}"

    def weights(self, kind, *shape):
        low, high = (-127, 128) if kind == "int8" else (0, 256)
        return self.rng.integers(low, high, shape).astype(kind)

    def output(self, value, kind):
        self.outputs.append(helper.make_tensor_value_info(value, kind, None))

    def integers(self, op, source, kind, *shape, zero=0, **attributes):
        """A product in whole numbers: ConvInteger or MatMulInteger."""
        zero = self.constant(np.array(zero, self.kinds[source]))
        self.output(self.node(op, [source, self.constant(self.weights(kind, *shape)), zero], **attributes), TensorProto.INT32)

    def dequantised(self, source, scale, zero, kind=None):
        return self.node("DequantizeLinear", [source, self.constant(np.float32(scale)), self.constant(np.array(zero, kind or self.kinds[source]))])

    def quantised(self, value, scale, zero, kind="int8"):
        return self.node("QuantizeLinear", [value, self.constant(np.float32(scale)), self.constant(np.array(zero, kind))])

    def layer(self, source, *shape, zero=3, relu=False, out=0.9, kind="int8", to="int8", swish=False, **attributes):
        """Dequantised image and weights, Conv with bias, quantised again; weights of uint8 have zero points."""
        scales = self.rng.uniform(0.002, 0.01, shape[0]).astype(np.float32)
        w = self.node("DequantizeLinear", [self.constant(self.weights(kind, *shape)), self.constant(scales),
                                           self.constant(np.full(shape[0], 0 if kind == "int8" else 129, kind))], axis=0)
        bias = self.constant(self.rng.uniform(-2, 2, shape[0]).astype(np.float32))
        v = self.node("Conv", [self.dequantised(source, 0.05, zero), w, bias], **attributes)
        v = self.node("Relu", [v]) if relu else v
        if swish:
            x = self.dequantised(self.quantised(v, out, zero, to), out, zero, to)
            gate = self.quantised(self.node("HardSigmoid", [x], alpha=1 / 6), 1 / 255, -128)
            v = self.node("Mul", [x, self.dequantised(gate, 1 / 255, -128, "int8")])
        least = -128 if to == "int8" else 0
        return self.quantised(v, out, least if relu else zero, to)

    def save(self, path, opset=13, ir_version=8):
        inputs = [helper.make_tensor_value_info(n, TYPES[self.kinds[n]], s) for n, s in self.shapes.items()
                  if any(n in node.input for node in self.nodes)]
        graph = helper.make_graph(self.nodes, "g", inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=ir_version), path)


def products(path):
    """Sums of bytes whose lengths, columns and signs fit vectors, and do not."""
    n = Network((1, 20, 7, 6), (3, 45))
    n.integers("ConvInteger", "x", "int8", 9, 20, 1, 1, zero=5)
    n.integers("ConvInteger", "x", "int8", 4, 20, 3, 3, pads=[1, 1, 1, 1], zero=-3)
    n.integers("ConvInteger", "u", "int8", 5, 20, 2, 3, strides=[2, 1], zero=7)
    n.integers("ConvInteger", "x", "int8", 6, 20, 2, 3, zero=1)
    n.integers("ConvInteger", "x", "uint8", 8, 20, 1, 1)
    n.integers("ConvInteger", "x", "int8", 8, 5, 3, 2, group=4, dilations=[2, 1])
    n.integers("ConvInteger", "x", "int8", 20, 1, 3, 3, group=20, pads=[1, 1, 1, 1])
    n.integers("ConvInteger", "u", "int8", 40, 1, 5, 1, group=20)
    n.integers("ConvInteger", "p", "int8", 9, 3, 3, 3, strides=[2, 2], pads=[1, 1, 1, 1], zero=2)
    n.integers("ConvInteger", "p", "uint8", 4, 3, 2, 2)
    n.integers("ConvInteger", "s", "uint8", 8, 1, 10, 4, pads=[4, 1, 5, 1], zero=9)
    n.integers("ConvInteger", "s", "int8", 6, 1, 5, 5)
    for columns in (1, 3, 4, 8, 17):
        n.integers("MatMulInteger", "r", "int8", 45, columns)
    n.save(path)


def rows(path):
    """Long rows, several words at a time, times few columns."""
    n = Network((1, 4, 1, 1), (1, 4096))
    for columns in (2, 8, 12):
        n.integers("MatMulInteger", "r", "int8", 4096, columns)
    n.save(path)


def layers(path):
    """Quantised layers: convolutions, depthwise ones, a residual, pools."""
    n = Network((1, 20, 7, 6), (3, 45))
    n.output(n.layer("x", 18, 20, 1, 1), TensorProto.INT8)
    n.output(n.layer("x", 7, 20, 3, 3, relu=True, pads=[1, 1, 1, 1]), TensorProto.INT8)
    n.output(n.layer("x", 20, 1, 3, 3, relu=True, group=20, pads=[1, 1, 1, 1], out=0.3), TensorProto.INT8)
    n.output(n.layer("p", 8, 3, 3, 3, relu=True, pads=[1, 1, 1, 1], strides=[2, 2]), TensorProto.INT8)
    added = n.node("Add", [n.dequantised("x", 0.05, 3), n.dequantised("u", 0.03, 120)])
    n.output(n.quantised(added, 0.06, -9), TensorProto.INT8)
    n.output(n.quantised(n.node("AveragePool", [n.dequantised("x", 0.05, 3)], kernel_shape=[3, 3]), 0.05, 3), TensorProto.INT8)
    n.output(n.quantised(n.node("MaxPool", [n.dequantised("x", 0.05, 3)], kernel_shape=[2, 2]), 0.05, 3), TensorProto.INT8)
    n.save(path)


def grouped(path):
    """Layers of groups, with several channels for one, and with weights that have zero points; all of them padded, and no number of channels for words."""
    n, sides = Network((1, 6, 9, 10), (1, 1)), {"pads": [1, 1, 1, 1]}
    n.output(n.layer("x", 9, 2, 3, 3, group=3, **sides), TensorProto.INT8)
    n.output(n.layer("x", 18, 1, 3, 3, group=6, relu=True, out=0.4, **sides), TensorProto.INT8)
    n.output(n.layer("x", 5, 6, 3, 3, kind="uint8", **sides), TensorProto.INT8)
    n.output(n.layer("x", 6, 1, 3, 3, kind="uint8", group=6, **sides), TensorProto.INT8)
    n.save(path)


def convolutions(path):
    """A convolution, a depthwise and a pointwise one, as in networks for images and sounds."""
    n = Network((1, 32, 12, 10), (3, 45))
    v = n.layer("x", 32, 32, 3, 3, relu=True, pads=[1, 1, 1, 1])
    for shape, group in (((32, 1, 3, 3), 32), ((64, 32, 1, 1), 1)):
        n.kinds[v] = "int8"
        v = n.layer(v, *shape, zero=-128, relu=True, group=group, pads=[shape[2] // 2] * 4)
    n.output(v, TensorProto.INT8)
    n.save(path)


def functions(path):
    """What stands between quantised values in networks for small cores: functions of one, sums, products and maxima of two."""
    n = Network((1, 16, 8, 8), (1, 1))
    for op, attributes in (("HardSwish", {}), ("LeakyRelu", {"alpha": 0.1}), ("Sigmoid", {}), ("Neg", {})):
        for source, zero in (("x", -8), ("u", 120)):
            n.output(n.quantised(n.node(op, [n.dequantised(source, 0.043, zero)], **attributes), 0.02, 3), TensorProto.INT8)
    v = n.layer("x", 16, 16, 1, 1)
    n.kinds[v] = "int8"
    limits = [n.constant(np.float32(v)) for v in (0, 6)]
    n.output(n.quantised(n.node("Clip", [n.dequantised(v, 0.9, 3), *limits]), 0.0351, -128), TensorProto.INT8)
    for op, scale in (("Add", 0.06), ("Sub", 0.0517), ("Mul", 0.0213), ("Max", 0.0391), ("Min", 0.0391)):
        pair = [n.dequantised("x", 0.04871, -8), n.dequantised("u", 0.03129, 120)]
        n.output(n.quantised(n.node(op, pair), scale, -9), TensorProto.INT8)
    n.save(path, 14)


MODELS = (products, rows, layers, grouped, convolutions, functions)

# Layers in row-major images, which a Cortex-M55 computes in a third of an M4's instructions: image, weights, attributes.
SIDES = {"pads": [1, 1, 1, 1]}
THIRDS = {"pointwise": ((1, 17, 12, 12), (19, 17, 1, 1), {}),
          "six channels alone": ((1, 6, 20, 20), (6, 1, 3, 3), {"group": 6, **SIDES}),
          "seventeen channels alone": ((1, 17, 21, 21), (17, 1, 5, 5), {"group": 17, "strides": [2, 2], "pads": [2, 2, 2, 2]}),
          "one channel for two": ((1, 8, 20, 20), (16, 1, 3, 3), {"group": 8, **SIDES}),
          "one channel for four": ((1, 8, 12, 12), (32, 1, 3, 3), {"group": 8, **SIDES}),
          "one channel for one": ((1, 1, 16, 16), (1, 1, 5, 5), {"pads": [2] * 4}),
          "one channel, pointwise": ((1, 1, 15, 15), (8, 1, 1, 1), {}),
          "one result": ((1, 16, 12, 11), (1, 16, 3, 3), SIDES),
          "four channels, pointwise": ((1, 4, 15, 15), (33, 4, 1, 1), {}),
          "groups of two": ((1, 16, 12, 12), (16, 2, 3, 3), {"group": 8, **SIDES}),
          "groups of four": ((1, 16, 12, 12), (16, 4, 3, 3), {"group": 4, **SIDES})}


# How many times as large as on an M4 code of an M55 is at most, where the last vector of channels has code of its own, and elsewhere.
LARGER = {"six channels alone": 1.6, "seventeen channels alone": 2, "one channel, pointwise": 1.7}
OWN_LARGER = 1.5
# How many times as many instructions an M4 takes at least: two channels of a group are one load and two products of it, too.
FEWER = {"groups of two": 2.5}


def single(path, image, shape, attributes):
    """One layer and its ReLU, or what `swish` asks for."""
    n = Network(image, (1, 1))
    n.output(n.layer("x", *shape, relu="swish" not in attributes, **attributes), TensorProto.INT8)
    n.save(path)


def sorted_rows(path):
    """TopK, which calls the runtime library."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 10])]
    outputs = [helper.make_tensor_value_info("v", TensorProto.FLOAT, [3, 4]), helper.make_tensor_value_info("i", TensorProto.INT64, [3, 4])]
    graph = helper.make_graph([helper.make_node("TopK", ["x", "k"], ["v", "i"])], "top", inputs, outputs, [numpy_helper.from_array(np.array([4]), "k")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def check_runtime(results, onnxc, folder):
    """Functions of the runtime library in an object for a bare machine."""
    _, flags, _ = bench.CPUS["cortex-m4"]
    bench.run("make", "-s", "-C", bench.ROOT, "runtime", f"B={folder}", f"CC=arm-none-eabi-gcc {flags}", "AR=arm-none-eabi-ar")
    sorted_rows(os.path.join(folder, "sorted.onnx"))
    _, differ, most = measured(Arguments(onnxc, f"-O2 --runtime={folder}/libonnxc-rt.a"), os.path.join(folder, "sorted.onnx"), "cortex-m4")
    results.check(differ == 0, "TopK on a Cortex-M4", f"{differ} elements differ, by up to {most}")


def check_one_channel(results, onnxc, path):
    """A convolution to one channel reads its image channels-last, too."""
    single(path, (1, 16, 12, 12), (1, 16, 3, 3), SIDES)
    count, differ, _ = measured(Arguments(onnxc, "-O2"), path, "cortex-m4")
    results.check(count < 100 and differ <= 1, "one channel on a Cortex-M4", f"{count} thousand instructions for 20,736 products, {differ} elements differ")


def check_ten_channels(results, onnxc, path):
    """Channels that are not a multiple of a loop's words are multiplied without a loop."""
    single(path, (1, 10, 12, 12), (10, 10, 3, 3), SIDES)
    count, differ, _ = measured(Arguments(onnxc, "-O2"), path, "cortex-m4")
    results.check(count < 300 and differ <= 1, "ten channels on a Cortex-M4", f"{count} thousand instructions for 129,600 products, {differ} elements differ")


def check_three_channels(results, onnxc, path):
    """The last word of a row of channels is one load, of which the bytes behind are multiplied by 0, also at the end of the image."""
    n, count = Network((1, 3, 25, 25), (1, 1)), {}
    v = n.layer("x", 3, 3, 1, 1)
    n.kinds[v] = "int8"
    v = n.layer(v, 16, 3, 3, 3, relu=True, strides=[2, 2])
    n.output(n.quantised(n.node("GlobalMaxPool", [n.dequantised(v, 0.9, -128, "int8")]), 0.9, -128), TensorProto.INT8)
    n.save(path)
    for cpu, most in ("cortex-m3", 430), ("cortex-m4", 240):
        count[cpu], differ, _ = measured(Arguments(onnxc, "-O2"), path, cpu)
        results.check(count[cpu] < most and differ <= 1, f"three channels on a {cpu}", f"thousand instructions for 67,833 products: {count}, {differ} elements differ")


def check_large_rows(results, onnxc, path):
    """Images within a kernel are in the workspace, not on the stack."""
    n = Network((1, 16, 9, 9), (1, 1))
    x = n.dequantised("x", 0.05, 3)
    low, high = (n.node("Clip", [x, n.constant(np.float32(a)), n.constant(np.float32(b))]) for a, b in ((-2, 2), (-6, 6)))
    v, scale, _ = (f"v{len(n.nodes)}{k}" for k in "ysz")
    n.nodes.append(helper.make_node("DynamicQuantizeLinear", [n.node("Concat", [low, high], axis=1)], [v, scale, v + "z"]))
    n.output(v, TensorProto.UINT8)
    n.save(path)
    with tempfile.TemporaryDirectory() as folder:
        case = bench.Case(onnxc, path, folder, folder)
        _, ram, stack, *_ = bench.measure(bench.Onnxc(Arguments(onnxc, "-O2"), "cortex-m4", case, folder), "cortex-m4", case.sizes, folder)
    image = 2 * 16 * 9 * 9 * 4
    results.check(stack < 512 and ram < 2.1 * image, "images on the stack of a Cortex-M4", f"{stack} bytes of stack, {ram} of workspace for {image} of images")


def check_small_weights(results, onnxc, path, cpu):
    """A convolution with weights of 4 bits takes about as long as one with bytes: they are taken apart once for all positions."""
    counts = {}
    for bits, kind in ((4, TensorProto.INT4), (8, TensorProto.INT8)):
        n = Network((1, 16, 12, 10), (1, 1))
        n.constants.append(helper.make_tensor("w", kind, (24, 16, 1, 1), n.rng.integers(-7, 8, 24 * 16).tolist()))
        n.constants.append(helper.make_tensor("z", kind, (), [0]))
        w = n.node("DequantizeLinear", ["w", n.constant(np.float32(0.03)), "z"])
        n.output(n.quantised(n.node("Conv", [n.dequantised("x", 0.05, 3), w]), 0.3, -5), TensorProto.INT8)
        n.save(path, 21, 10)
        counts[bits], differ, most = measured(Arguments(onnxc, "-O2"), path, cpu)
        results.check(differ <= 2 and most <= 1, f"weights of {bits} bits on a {cpu}", f"{differ} elements differ, by up to {most}")
    results.check(counts[4] < 1.3 * counts[8], f"weights of 4 bits beside bytes on a {cpu}", f"thousand instructions: {counts}")


# How many times as long as with bytes a dense layer of one row takes at most.
SMALL_ROWS = {"cortex-m0plus": 1.2, "cortex-m3": 1.3, "cortex-m4": 1.3, "cortex-m55": 2.1}


def check_small_row(results, onnxc, path, cpu):
    """A dense layer of one row with weights of 2 and 4 bits, signed and not, which are unpacked in registers."""
    counts = {}
    for source, kind, least, most in (("int8", "INT8", -128, 127), ("int8", "INT4", -8, 7), ("int8", "INT2", -2, 1), ("int8", "UINT4", 0, 15),
                                      ("uint8", "INT4", -8, 7), ("uint8", "UINT2", 0, 3)):
        n = Network((1, 1, 1, 1), (1, 272))
        n.kinds["r"], bits, rows = source, getattr(TensorProto, kind), n.rng.integers(least, most + 1, (272, 67))
        rows[:, 0], rows[:, 1] = least, most
        n.constants.append(helper.make_tensor("w", bits, rows.shape, rows.ravel().tolist()))
        w = n.node("DequantizeLinear", ["w", n.constant(np.float32(2 / (most - least)))])
        v = n.node("MatMul", [n.dequantised("r", 0.05, 3), w])
        n.output(n.quantised(v, 0.9, -5), TensorProto.INT8)
        n.save(path, 25, 13)
        counts[source, kind], differ, apart = measured(Arguments(onnxc, "-O2"), path, cpu)
        results.check(differ <= 2 and apart <= 1, f"a row of {source} times {kind} on a {cpu}", f"{differ} elements differ, by up to {apart}")
    results.check(max(counts.values()) < SMALL_ROWS[cpu] * counts["int8", "INT8"], f"a row times small weights on a {cpu}", f"thousand instructions: {counts}")


def check_halves(results, onnxc, path):
    """Layers between integers of 16 bits are sums of integers, whose results one product rounds; images take two bytes an element."""
    n = Network((1, 16, 8, 8), (1, 1))
    n.kinds["x"] = "int16"
    v = n.layer("x", 24, 16, 3, 3, zero=0, relu=True, out=0.00413, to="int16", pads=[1] * 4)
    scale = 0.00413
    for shape, group in (((24, 1, 3, 3), 24), ((20, 24, 1, 1), 1)):
        n.kinds[v] = "int16"
        w = n.node("DequantizeLinear", [n.constant(n.weights("int8", *shape)), n.constant(np.float32(0.0107)), n.constant(np.int8(0))])
        v = n.node("Conv", [n.dequantised(v, scale, 0, "int16"), w], group=group, pads=[shape[2] // 2] * 4)
        v, scale = n.quantised(v, 0.0123, 0, "int16"), 0.0123
    n.output(v, TYPES["int16"])
    n.save(path, 21, 10)
    for cpu, limit in (("cortex-m0plus", 2300), ("cortex-m3", 1050), ("cortex-m4", 480), ("cortex-m55", 200)):
        count, differ, most = measured(Arguments(onnxc, "-O2"), path, cpu)
        memory = inspected(Arguments(onnxc, "-O2"), path, cpu)["memory"]["workspace_bytes"]
        good = count < limit and memory < 6000 and most <= 1 and differ <= 40
        results.check(good, f"integers of 16 bits on a {cpu}", f"{count} thousand instructions for 265,728 products, {memory} bytes, {differ} elements differ, by up to {most}")


def recurrent(path, dynamic):
    """LSTM of floats whose weights are bytes: those of the dynamic quantiser's operator, or of DequantizeLinear."""
    n, steps, hidden = Network((1, 1, 1, 1), (8, 1, 20)), 8, 24
    n.kinds["r"] = "float32"
    names = []
    for inner in 20, hidden:
        w = n.weights("int8", 1, 4 * hidden, inner)
        w, scale, zero = n.constant(w.transpose(0, 2, 1) if dynamic else w), n.constant(np.full(dynamic, 0.0031, np.float32) if dynamic else np.float32(0.0031)), \
            n.constant(np.zeros(dynamic, np.int8) if dynamic else np.int8(0))
        names += [w, scale, zero] if dynamic else [n.node("DequantizeLinear", [w, scale, zero])]
    if dynamic:
        w, ws, wz, r, rs, rz = names
        n.nodes.append(helper.make_node("DynamicQuantizeLSTM", ["r", w, r, "", "", "", "", "", ws, wz, rs, rz], ["y"], domain="com.microsoft", hidden_size=hidden))
    else:
        n.nodes.append(helper.make_node("LSTM", ["r", *names], ["y"], hidden_size=hidden))
    n.outputs.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [steps, 1, 1, hidden]))
    n.save(path)


def check_recurrent(results, onnxc, path):
    """States in floats times weights of bytes are sums of integers without floating point; inputs are projected step by step."""
    for cpu, limit, options in (("cortex-m0plus", 2500, "-O2"), ("cortex-m3", 1000, "-O2"), ("cortex-m4", 400, "-Os"), ("cortex-m4", 400, "-O2 --max-workspace=1400")):
        for dynamic in 0, 1:
            recurrent(path, dynamic)
            count, _, most = measured(Arguments(onnxc, options), path, cpu)
            foreseen = estimated(Arguments(onnxc, options), path, cpu)
            memory = inspected(Arguments(onnxc, options), path, cpu)["memory"]["workspace_bytes"]
            good = count < limit and most < 1e-6 and abs(foreseen - count) < ESTIMATE * count and memory < 1400
            results.check(good, f"LSTM with weights of bytes on a {cpu} {options}, {'dynamic' if dynamic else 'dequantised'}",
                          f"{count} thousand instructions, {foreseen:.0f} estimated, {memory} bytes, off by up to {most}")


def check_quantised_inputs(results, onnxc, path):
    """A recurrent layer of f32 whose inputs were quantised multiplies their bytes by words; floats become signed bytes without divisions."""
    n, rng = Network((1, 1, 1, 1), (8, 1, 20)), np.random.default_rng(4)
    n.kinds["r"] = "float32"
    weights = [n.constant(rng.uniform(-0.3, 0.3, (1, 72, k)).astype(np.float32)) for k in (20, 24)]
    x = n.dequantised(n.quantised("r", 0.07, -3), 0.07, -3, "int8")
    n.nodes.append(helper.make_node("GRU", [x, *weights], ["y"], hidden_size=24, linear_before_reset=1))
    n.outputs.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 1, 1, 24]))
    n.save(path)
    for cpu, limit in (("cortex-m0plus", 2400), ("cortex-m3", 600), ("cortex-m4", 105)):
        count, _, most = measured(Arguments(onnxc, "-O2"), path, cpu)
        results.check(count < limit and most < 1e-6, f"GRU of quantised inputs on a {cpu}", f"{count} thousand instructions, off by up to {most}")


def check_no_numbers(results, onnxc, path):
    """What is no number passes functions, limits and comparisons with Helium's vectors as in scalars, and without floating point."""
    n = Network((1, 1, 1, 1), (8, 40))
    n.kinds["r"] = "float32"
    limits = [n.constant(np.float32(v)) for v in (-1, 1.5, 0, -np.inf, np.inf)]
    for op in ("Relu", "Sign", "HardSigmoid", "LeakyRelu", "Exp", "Sigmoid", "Erf", "Softplus"):
        n.output(n.node(op, ["r"]), TensorProto.FLOAT)
    n.output(n.node("Clip", ["r", *limits[:2]]), TensorProto.FLOAT)
    n.output(n.node("Max", ["r", limits[0]]), TensorProto.FLOAT)
    n.output(n.node("ReduceMax", ["r"], axes=[1]), TensorProto.FLOAT)
    for conditions in ([n.node("IsNaN", ["r"])], [n.node("Less", ["r", v]) for v in limits], [n.node(op, [v, "r"]) for op in ("GreaterOrEqual", "Less") for v in limits],
                       [n.node("LessOrEqual", ["r", v]) for v in limits]):
        for condition in conditions:
            n.output(n.node("Cast", [condition], to=TensorProto.INT32), TensorProto.INT32)
            n.output(n.node("Where", [n.node("Not", [condition]), "r", limits[0]]), TensorProto.FLOAT)
    n.save(path)
    x = np.random.default_rng(8).normal(0, 2, (8, 40)).astype(np.float32)
    x[:, ::9], x[:, 1::17], x[:, 2::17], x[:, 3::19], x[:, 4::19], x[:, 5::19], x[:, 6::19] = np.nan, np.inf, -np.inf, 0, -0.0, -1, 1.5
    for cpu in ("cortex-m55", "cortex-m3"):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "test_data_set_0"))
            with open(os.path.join(folder, "test_data_set_0", "input_0.pb"), "wb") as f:
                f.write(numpy_helper.from_array(x).SerializeToString())
            case = bench.Case(onnxc, path, folder, folder, ("--interpret",))
            got = bench.measure(bench.Onnxc(Arguments(onnxc, "-O2"), cpu, case, folder), cpu, case.sizes, folder)[4]
        bad = [j for j, (a, b) in enumerate(zip(got, case.want)) if not np.allclose(a, b, 1e-5, 1e-6, equal_nan=True)]
        results.check(not bad, f"what is no number on a {cpu}", f"outputs {bad} differ")


def check_signed_quantisers(results, onnxc, path):
    """Floats become signed bytes without a division, also where they may be no numbers, which become 0."""
    n = Network((1, 1, 1, 1), (1, 4000))
    n.kinds["r"] = "float32"
    n.output(n.quantised("r", 0.0305, 4), TensorProto.INT8)
    n.save(path)
    x = np.random.default_rng(5).uniform(-6, 6, (1, 4000)).astype(np.float32)
    x[0, 5:12] = np.nan, np.inf, -np.inf, -np.nan, 3e38, -3e38, 0
    for cpu, limit in (("cortex-m4", 150), ("cortex-m55", 25)):
        count, differ, _ = measured(Arguments(onnxc, "-O2"), path, cpu, [x])
        results.check(count < limit and not differ, f"signed bytes of 4000 floats on a {cpu}", f"{count} thousand instructions, {differ} differ")


def check_run_quantisers(results, onnxc, path):
    """Scale and zero point that only a run knows, of floats that may be no numbers; and images quantised by them, whose padding has the zero point."""
    x = np.random.default_rng(5).uniform(-60, 60, (1, 2000)).astype(np.float32)
    x[0, 5:12] = np.nan, np.inf, -np.inf, -np.nan, 3e38, -3e38, 0
    for kind in ("uint8", "int8"):
        n = Network((1, 1, 1, 1), x.shape)
        n.kinds = {"r": "float32", "s": "float32", "z": kind}
        n.shapes = {"r": x.shape, "s": (), "z": ()}
        n.output(n.node("QuantizeLinear", ["r", "s", "z"]), TYPES[kind])
        n.save(path)
        for cpu in ("cortex-m0plus", "cortex-m4", "cortex-m55"):
            _, differ, _ = measured(Arguments(onnxc, "-O2"), path, cpu, [x, np.float32(0.37), np.dtype(kind).type(77)])
            results.check(not differ, f"{kind} of 2000 floats by a scale of the run on a {cpu}", f"{differ} differ")
    n = Network((1, 1, 1, 1), (1, 8, 12, 12))
    n.kinds["r"] = "float32"
    n.nodes.append(helper.make_node("DynamicQuantizeLinear", ["r"], ["q", "scale", "zero"]))
    v = n.node("ConvInteger", ["q", n.constant(n.weights("int8", 16, 8, 3, 3)), "zero"], pads=[1, 1, 1, 1])
    n.output(n.node("Mul", [n.node("Cast", [v], to=TensorProto.FLOAT), "scale"]), TensorProto.FLOAT)
    n.save(path)
    for cpu, limit in (("cortex-m3", 960), ("cortex-m4", 360), ("cortex-m55", 53)):
        count, _, most = measured(Arguments(onnxc, "-O2"), path, cpu)
        results.check(count < limit and most < 1e-2, f"an image quantised in the run on a {cpu}", f"{count} thousand instructions for 165,888 products, off by up to {most}")


def check_biases(results, onnxc, path):
    """Products that are quantised before a bias of bytes is added, as in encoders: both roundings have constants alone, and the bias is one of them."""
    n = Network((1, 1, 1, 1), (20, 32))
    w, bias = (n.node("DequantizeLinear", [n.constant(n.weights("int8", *shape)), n.constant(np.float32(0.004)), n.constant(np.int8(0))])
               for shape in ((32, 32), (32,)))
    product = n.quantised(n.node("MatMul", [n.dequantised("r", 0.05, 3), w]), 0.09, -4)
    n.output(n.quantised(n.node("Add", [n.dequantised(product, 0.09, -4, "int8"), bias]), 0.085, 5), TensorProto.INT8)
    n.save(path)
    for cpu, limit in (("cortex-m0plus", 260), ("cortex-m3", 105), ("cortex-m4", 68), ("cortex-m55", 10)):
        count, differ, most = measured(Arguments(onnxc, "-O2"), path, cpu)
        memory = inspected(Arguments(onnxc, "-O2"), path, cpu)["memory"]["workspace_bytes"]
        good = count < limit and differ <= 3 and most <= 1 and not memory
        results.check(good, f"biases of quantised products on a {cpu}", f"{count} thousand instructions, {memory} bytes, {differ} of 640 bytes differ")


def check_fixed_rows(results, onnxc, path, cpu, times):
    """Rows of floats in fixed point: of any magnitude, of numbers far apart, with an infinity or NaN. All rows several times are more than would have a copy."""
    rng = np.random.default_rng(11)
    x = rng.standard_normal((9, 40)).astype(np.float32)
    x *= np.array([1, 0, 1e-30, 1e33, 1e-38, 1, 1, 1, 1], np.float32)[:, None]
    x[5] *= np.float32(10.0) ** rng.uniform(-6, 6, 40).astype(np.float32)
    x[6, 3], x[7, 4], x[8, 39] = np.inf, np.nan, -0.0
    rows = np.tile(x, (times, 1))
    for kind, least, most, zero in (("INT8", -128, 127, 0), ("UINT8", 0, 255, 200), ("INT4", -8, 7, 2), ("FLOAT", -9, 9, 0)):
        n, w = Network((1, 1, 1, 1), rows.shape), rng.integers(least, most + 1, (40, 11))
        n.kinds["r"], bits = "float32", getattr(TensorProto, kind)
        if kind == "FLOAT":  # some columns are small, large or 0
            w = ((w + rng.uniform(0.1, 0.9, w.shape)) * np.array([1e-20, 100, 0] + [1] * 8)).astype(np.float32)
        n.constants += [helper.make_tensor("w", bits, w.shape, w.ravel().tolist()), helper.make_tensor("z", bits, (), [zero])]
        factors = n.node("DequantizeLinear", ["w", n.constant(np.float32(0.5)), "z"]) if kind != "FLOAT" else n.constant(w * np.float32(0.5))
        n.output(n.node("MatMul", ["r", factors]), TensorProto.FLOAT)
        n.save(path, 21, 10)
        with tempfile.TemporaryDirectory() as folder:
            case = bench.Case(onnxc, path, folder, folder)
            case.arrays["r"] = np.where(np.isfinite(rows), rows, 0)
            compiled = bench.Onnxc(Arguments(onnxc, "-O2"), cpu, case, folder)
            values = ", ".join("0x%08x" % v for v in rows.view(np.uint32).ravel())
            struct = f"static const union {{ uint32_t u[{rows.size}]; float f[{rows.size}]; }} bits = {{{{{values}}}}};\n#define i0 bits.f"
            compiled.main = re.sub(rf"static const float i0\[{rows.size}\] = \{{.*?\}};", struct, compiled.main, flags=re.S)
            all_rows = measure_on(cpu)(compiled, cpu, case.sizes, folder)[4][0].reshape(times, 9, 11)
        got = all_rows[0]
        factor = (w - zero) * 0.5
        with np.errstate(invalid="ignore"):
            want, unit = x.astype(np.float64) @ factor, np.abs(x.astype(np.float64)) @ np.abs(factor)
        finite = [0, 1, 2, 3, 4, 5, 8]
        least = 2.0 ** -126 * np.abs(factor).sum(0)  # rows are multiples of the least normal number, or of a larger one
        apart = (np.maximum(np.abs(got - want)[finite] - least, 0) / np.maximum(unit[finite], 1e-35 * np.abs(factor).max(0) + 1e-38)).max()
        same = np.array_equal(got[6:8], want[6:8], equal_nan=True) and all(np.array_equal(more, got, equal_nan=True) for more in all_rows)
        good = apart < 2e-7 and same
        results.check(good, f"{len(rows)} rows in fixed point times {kind} on a {cpu}", f"off by {apart} of the sum of magnitudes; rows with infinity and NaN: {got[6:8, :3]}")


def check_float_products(results, onnxc, path):
    """Weights of f32 without floating point: sums of integers, of images, rows and states."""
    n = Network((1, 1, 1, 1), (1, 8, 9, 9))
    n.kinds["r"] = "float32"
    normal = lambda *shape: n.constant((n.rng.standard_normal(shape) / 8).astype(np.float32))  # noqa: E731
    v = n.node("Relu", [n.node("Conv", ["r", normal(12, 8, 3, 3), normal(12)], pads=[1, 1, 1, 1])])
    v = n.node("Conv", [n.node("Conv", [v, normal(12, 1, 3, 3), normal(12)], group=12, strides=[2, 2]), normal(16, 12, 1, 1)])
    v = n.node("Gemm", [n.node("Flatten", [v]), normal(256, 20), normal(20)])
    v = n.node("LSTM", [n.node("Reshape", [v, n.constant(np.array([5, 1, 4]))]), normal(1, 64, 4), normal(1, 64, 16)], hidden_size=16)
    n.output(v, TensorProto.FLOAT)
    n.save(path, 14)
    for cpu, limit in ("cortex-m0plus", 6200), ("cortex-m3", 1250):
        count, _, most = measured(Arguments(onnxc, "-O2"), path, cpu)
        results.check(count < limit and most < 2e-5, f"weights of floats on a {cpu}", f"{count} thousand instructions for 88,388 products, off by up to {most}")


def check_kept_images(results, onnxc, path):
    """Products of an image that is added to them, and of an input: its words are not in memory. An image of fixed point takes the place of one of floats."""
    n = Network((1, 1, 1, 1), (1, 3, 20, 20))
    n.kinds["r"] = "float32"
    normal = lambda *shape: n.constant((n.rng.standard_normal(shape) / 8).astype(np.float32))  # noqa: E731
    v = n.node("Relu", [n.node("Conv", ["r", normal(12, 3, 3, 3), normal(12)], pads=[1, 1, 1, 1])])
    v = n.node("Relu", [n.node("Add", [n.node("Conv", [v, normal(12, 12, 3, 3), normal(12)], pads=[1, 1, 1, 1]), v])])
    v = n.node("Relu", [n.node("Conv", [v, normal(48, 12, 1, 1), normal(48)])])
    v = n.node("Conv", [v, normal(48, 1, 3, 3), normal(48)], group=48, pads=[1, 1, 1, 1], strides=[2, 2])
    n.output(n.node("ReduceMean", [v], axes=[2, 3]), TensorProto.FLOAT)
    n.save(path, 14)
    for cpu, limit in ("cortex-m0plus", 52000), ("cortex-m3", 15000), ("rv32imac", 22000):
        count, _, most = measured(Arguments(onnxc, "-O2"), path, cpu)
        memory = inspected(Arguments(onnxc, "-O2"), path, cpu)["memory"]["workspace_bytes"]
        good = count < limit and memory < 90000 and most < 2e-5
        results.check(good, f"kept images of floats on a {cpu}", f"{count} thousand instructions for 921,600 products, {memory} bytes, off by up to {most}")


def half_functions(path):
    """Sums, differences and products of two tensors of 16 bits, rectified, of equal scales, and in a mean."""
    n = Network((1, 6, 7, 5), (1, 1))
    n.kinds["x"] = n.kinds["p"] = "int16"
    n.shapes["p"] = (1, 6, 7, 5)
    for op, scales, out in (("Add", (0.000122, 0.000171), 0.000239), ("Sub", (0.0001, 0.00037), 0.0003), ("Mul", (0.000122, 0.0000305), 0.000122),
                            ("Add", (0.25, 0.25), 0.5), ("Add", (0.125, 0.00003), 0.25)):
        v = n.node(op, [n.dequantised("x", scales[0], 0), n.dequantised("p", scales[1], 0)])
        n.output(n.quantised(v, out, 0, "int16"), TYPES["int16"])
    v = n.node("Relu", [n.node("Add", [n.dequantised("x", 0.000122, 0), n.dequantised("p", 0.000171, 0)])])
    v = n.node("GlobalAveragePool", [n.dequantised(n.quantised(v, 0.000239, 0, "int16"), 0.000239, 0, "int16")])
    n.output(n.quantised(v, 0.000239, 0, "int16"), TYPES["int16"])
    n.save(path, 21, 10)


def check_half_functions(results, onnxc, path):
    """Functions of two tensors of 16 bits are integers without floating point: equal, but where f32 rounds to a neighbour."""
    half_functions(path)
    rng = np.random.default_rng(5)
    images = [(rng.integers(-32768, 32768, (1, 6, 7, 5)) >> rng.integers(0, 15, (1, 6, 7, 5))).astype(np.int16) for _ in range(2)]
    for cpu, limit in (("cortex-m0plus", 230), ("cortex-m3", 70)):
        count, differ, most = measured(Arguments(onnxc, "-O2"), path, cpu, images)
        good = count < limit and most <= 1 and differ <= 6
        results.check(good, f"functions of 16 bits on a {cpu}", f"{count} thousand instructions for 1,266 results, {differ} elements differ, by up to {most}")
    _, differ, _ = measured(Arguments(onnxc, "-O2 --fp=strict"), path, "cortex-m3", images)
    results.check(differ == 0, "functions of 16 bits with --fp=strict on a Cortex-M3", f"{differ} elements differ")


def check_pairs(results, onnxc, path):
    """Products of pairs of 16 bits: of an odd number of channels, for few results, with weights of either sign, and of 16 bits."""
    for cpu in "cortex-m4", "cortex-m33":
        for kind, *shape in (("int8", 5, 3, 3, 3), ("uint8", 6, 3, 3, 1), ("int8", 1, 3, 1, 1), ("int8", 7, 3, 2, 3), ("int16", 5, 3, 1, 3)):
            n = Network((1, shape[1], 9, 7), (1, 1))
            n.kinds["x"] = "int16"
            w, zero = (n.rng.integers(-900, 901, shape).astype("int16"), 0) if kind == "int16" else (n.weights(kind, *shape), 129 * (kind == "uint8"))
            w = n.node("DequantizeLinear", [n.constant(w), n.constant(np.float32(0.0107)), n.constant(np.array(zero, kind))])
            n.output(n.quantised(n.node("Conv", [n.dequantised("x", 0.0041, 0), w]), 0.271, 0, "int16"), TYPES["int16"])
            n.save(path, 21, 10)
            for level in LEVELS:
                count, differ, most = measured(Arguments(onnxc, level), path, cpu)
                foreseen = estimated(Arguments(onnxc, level), path, cpu)
                good = most <= 1 and differ <= 3 and abs(foreseen - count) <= ESTIMATE * count + 1
                results.check(good, f"pairs of 16 bits times {kind} {shape} on a {cpu} {level}",
                              f"{differ} elements differ, by up to {most}; {count} thousand instructions, {foreseen:.1f} estimated")


def check_unsigned(results, onnxc, path):
    """Layers between unsigned bytes take as long as between signed ones on a Cortex-M55."""
    counts = {}
    for kind in ("uint8", "int8"):
        n = Network((1, 16, 12, 10), (1, 1))
        v = n.quantised(n.dequantised("x", 0.05, 3), 0.05, 0 if kind == "int8" else 128, kind)
        for channels in (16, 32):
            n.kinds[v] = kind
            v = n.layer(v, 32, channels, 3, 3, zero=-128 if kind == "int8" else 0, relu=True, pads=[1, 1, 1, 1], to=kind)
        n.output(v, TYPES[kind])
        n.save(path)
        counts[kind], *_ = measured(Arguments(onnxc, "-O2"), path, "cortex-m55")
    results.check(counts["uint8"] < 1.2 * counts["int8"], "unsigned bytes on a Cortex-M55", f"thousand instructions: {counts}")


def check_third(results, onnxc, name, path):
    """Instructions, and code that is not much larger."""
    single(path, *THIRDS[name])
    counts, flash, most = {}, {}, 0
    for cpu in ("cortex-m4", "cortex-m55"):
        counts[cpu], _, apart = measured(Arguments(onnxc, "-O2"), path, cpu)
        flash[cpu] = inspected(Arguments(onnxc, "-O2"), path, cpu)["footprint"]["flash_bytes"]
        most = max(most, apart)
    m4, m55 = counts.values()
    good = FEWER.get(name, 3) * m55 <= m4 and flash["cortex-m55"] < LARGER.get(name, OWN_LARGER) * flash["cortex-m4"] and most <= 1
    results.check(good, f"{name} on a Cortex-M55", f"{m55} thousand instructions, {m4} on an M4; bytes: {flash}; off by up to {most}")


def moved_bytes(path):
    """What chooses among bytes is computed without floats: windows that overlap, padding, repetition."""
    n, side = Network((1, 8, 9, 10), (1, 1)), np.array([0, 0, 1, 2, 0, 0, 1, 0], np.int64)
    x = n.dequantised("x", 0.05, 3)
    n.output(n.quantised(n.node("MaxPool", [x], kernel_shape=[3, 3], **SIDES), 0.05, 3), TensorProto.INT8)
    n.output(n.quantised(n.node("Pad", [x, n.constant(side)]), 0.05, 3), TensorProto.INT8)
    n.output(n.quantised(n.node("Resize", [x, "", n.constant(np.array([1, 1, 2, 2], np.float32))], mode="nearest"), 0.05, 3), TensorProto.INT8)
    n.save(path)


def check_moved_bytes(results, onnxc, path):
    moved_bytes(path)
    for cpu, limit in (("cortex-m3", 300), ("cortex-m55", 50)):
        count, differ, most = measured(Arguments(onnxc, "-O2"), path, cpu)
        memory = inspected(Arguments(onnxc, "-O2"), path, cpu)["memory"]["workspace_bytes"]
        good = count < limit and memory < 2000 and most <= 1 and differ <= 4
        results.check(good, f"bytes that are moved on a {cpu}",
                      f"{count} thousand instructions for 4,720 bytes, {memory} bytes of memory, {differ} elements differ, by up to {most}")


def check_table(results, onnxc, path):
    """A depthwise convolution whose results are looked up in a table: positions share what they read, and channels are lanes."""
    single(path, (1, 36, 12, 12), (36, 1, 5, 5), {"group": 36, "pads": [2] * 4, "swish": True})
    for cpu, limit in (("cortex-m3", 550), ("cortex-m4", 450), ("cortex-m55", 200)):
        count, _, apart = measured(Arguments(onnxc, "-O2"), path, cpu)
        results.check(count < limit and apart <= 1, f"a depthwise convolution and a table on a {cpu}", f"{count} thousand instructions for 129,600 products, off by up to {apart}")


def check_phases(results, onnxc, path):
    """A transposed convolution beside a branch: each of its phases writes bytes, and no image of floats."""
    n = Network((1, 12, 9, 9), (1, 1))
    w = n.node("DequantizeLinear", [n.constant(n.weights("int8", 12, 8, 3, 3)), n.constant(np.float32(0.01)), n.constant(np.int8(0))])
    v = n.node("Relu", [n.node("ConvTranspose", [n.dequantised("x", 0.05, 3), w], strides=[2, 2], pads=[1, 1, 0, 0])])
    up, side = n.quantised(v, 0.2, -128), n.quantised(n.node("Resize", [n.dequantised("x", 0.05, 3), "", n.constant(np.array([1, 1, 2, 2], np.float32))]), 0.05, 3)
    n.kinds[up] = n.kinds[side] = "int8"
    joined = n.node("Concat", [n.dequantised(side, 0.05, 3), n.dequantised(up, 0.2, -128)], axis=1)
    n.output(n.quantised(joined, 0.2, 3), TensorProto.INT8)
    n.save(path)
    for cpu, limit in (("cortex-m0plus", 8000), ("cortex-m4", 430), ("cortex-m55", 140)):
        count, differ, most = measured(Arguments(onnxc, "-O2"), path, cpu)
        memory = inspected(Arguments(onnxc, "-O2"), path, cpu)["memory"]["workspace_bytes"]
        good = count < limit and memory < 11000 and most <= 1 and differ <= 4
        results.check(good, f"a transposed convolution on a {cpu}", f"{count} thousand instructions for 69,984 products, {memory} bytes, {differ} elements differ, by up to {most}")


def check_zero_points(results, onnxc, path):
    """Depthwise weights with a zero point: no sums of windows are kept, which would take four times the memory of the image."""
    n = Network((1, 36, 12, 12), (1, 1))
    names = ["u", *(n.constant(v) for v in (np.float32(0.05), np.uint8(121), n.weights("uint8", 36, 1, 3, 3), np.float32(0.004), np.uint8(131),
                                            np.float32(0.3), np.uint8(116)))]
    n.output(n.node("QLinearConv", names, group=36, pads=[1] * 4), TensorProto.UINT8)
    n.save(path)
    for cpu, limit in (("cortex-m0plus", 1450), ("cortex-m4", 220), ("cortex-m55", 80)):
        count, differ, most = measured(Arguments(onnxc, "-O2"), path, cpu)
        memory = inspected(Arguments(onnxc, "-O2"), path, cpu)["memory"]["workspace_bytes"]
        good = count < limit and memory < 36 * 14 * 14 + 100 and most <= 1 and differ <= 4
        results.check(good, f"depthwise weights with a zero point on a {cpu}", f"{count} thousand instructions, {memory} bytes, {differ} elements differ, by up to {most}")


def check_shuffled(results, onnxc, path):
    """Channels in another order and an enlarged image, quantised by one scale before and after each step: integers are moved, and
    positions and weights are known."""
    counts, flash, apart = {}, {}, 0
    for kind in ("int16", "int8"):
        n = Network((1, 20, 10, 10), (1, 1))
        n.kinds["x"] = kind
        step = lambda op, *inputs, **attributes: n.dequantised(n.quantised(n.node(op, inputs, **attributes), 0.05, 3, kind), 0.05, 3, kind)
        v = step("Concat", *(step("Slice", n.dequantised("x", 0.05, 3), *(n.constant(np.array([at])) for at in (first, first + 10, 1))) for first in (10, 0)), axis=1)
        v = step("Transpose", step("Reshape", v, n.constant(np.array([1, 2, 10, 10, 10]))), perm=[0, 2, 1, 3, 4])
        v = step("Reshape", v, n.constant(np.array([1, 20, 10, 10])))
        v = n.node("Resize", [v, "", n.constant(np.array([1, 1, 2, 1.5], np.float32))], mode="linear")
        n.output(n.quantised(v, 0.05, 3, kind), TYPES[kind])
        n.save(path, 21, 10)
        for cpu in ("cortex-m4", "cortex-m55"):
            counts[kind, cpu], _, most = measured(Arguments(onnxc, "-O2"), path, cpu)
            flash[kind, cpu] = inspected(Arguments(onnxc, "-O2"), path, cpu)["footprint"]["flash_bytes"]
            apart = max(apart, most)
    good = max(counts.values()) < 500 and max(flash.values()) < 3000 and apart <= 1
    results.check(good, "shuffled and enlarged integers", f"thousand instructions: {counts} for 6,000 elements; bytes: {flash}; off by up to {apart}")


def check_stream(results, onnxc, path):
    """A step of a quantised stream: its states are bytes, and its sums are rounded where they are made."""
    n = Network((1, 16, 64), (1, 1))
    v = "x"
    for dilation in (1, 4, 8):
        n.kinds[v] = "int8"
        v = n.layer(v, 16, 1, 5, zero=-5, out=0.3, group=16, dilations=[dilation], pads=[4 * dilation, 0])
        n.kinds[v] = "int8"
        v = n.layer(v, 16, 16, 1, zero=-5, out=0.05)
    n.output(v, TensorProto.INT8)
    n.save(path)
    for cpu, limit in (("cortex-m0plus", 42000), ("cortex-m4", 18000), ("cortex-m55", 4000)):
        found = inspected(Arguments(onnxc, "-O2 --stream=x:2=1"), path, cpu)
        count, memory = found["estimate"]["instructions"], found["memory"]["workspace_bytes"]
        good = count < limit and memory < 1600
        results.check(good, f"a step of a stream on a {cpu}", f"{count} instructions for 1,008 products, {memory} bytes")


# Memory that the object has and the caller passes; in the second case kernels must run in patches.
POOLS = ("-O2 --pool fast=6K@.bss.fast --pool slow=8K", "-O2 --pool fast=1500 --pool slow=4K")


def inspected(arguments, path, cpu):
    triple, flags, _ = bench.CPUS[cpu]
    return json.loads(bench.run(arguments.onnxc, "inspect", path, "--format=json", f"--target={triple}", *flags.split(), *arguments.options.split()))


def estimated(arguments, path, cpu):
    """Thousand instructions of a run that inspect foresees."""
    estimate = inspected(arguments, path, cpu)
    kernels = sum(k["cycles"] for k in estimate["kernels"])
    if not 0.5 * estimate["estimate"]["cycles"] <= kernels <= estimate["estimate"]["cycles"] + len(estimate["kernels"]):
        raise RuntimeError(f"{kernels} cycles of kernels, {estimate['estimate']['cycles']} of all")
    return estimate["estimate"]["instructions"] / 1000


def quantised_floats(path):
    """Floats that are quantised: with scales of many bits and of few, such that some are halfway; infinite ones, and NaN."""
    n = Network((1, 1, 1, 1), (1, 600))
    n.kinds["r"] = "float32"
    for scale, zero, kind in ((0.1, 3, "int8"), (0.5, -128, "int8"), (0.0266839, 129, "uint8"), (0.029330377, 131, "uint8"), (1, 0, "uint8"), (3.7e-5, 0, "int8")):
        n.output(n.quantised("r", scale, zero, kind), TYPES[kind])
    huge = n.node("Mul", ["r", n.constant(np.float32(3e38))])
    for value in huge, n.node("Sub", [huge, huge]):
        n.output(n.quantised(value, 0.3, 5), TensorProto.INT8)
    n.save(path)
    rng = np.random.default_rng(9)
    halves = np.concatenate([(np.arange(-140, 140) + 0.5) * s for s in (0.1, 0.5)])
    return np.concatenate([halves, rng.standard_normal(36) * 10.0 ** rng.integers(-6, 6, 36), [0, -0.0, 1e-40, 3e38]])[None].astype(np.float32)


def check_quantised_floats(results, onnxc, path):
    """Bytes of floats are computed in integers without floating point: the same bytes. With it, rounding saturates."""
    x = quantised_floats(path)
    for cpu, limit in (("cortex-m0plus", 1000), ("cortex-m3", 500), ("cortex-m4", 80)):
        count, differ, most = measured(Arguments(onnxc, "-O2"), path, cpu, [x])
        results.check(count < limit and differ == 0, f"floats to bytes on a {cpu}", f"{count} thousand instructions for 4,800 bytes, {differ} elements differ, by up to {most}")


def check_floats_to_halves(results, onnxc, path):
    """Rounding saturates: integers of 16 bits of infinite floats, and of what is no number."""
    x = quantised_floats(path)
    x[0, 5:10] = np.nan, -np.nan, np.inf, -np.inf, -3e38
    n = Network((1, 1, 1, 1), x.shape)
    n.kinds["r"] = "float32"
    for scale, zero, kind in ((1e-3, 0, "int16"), (7e-4, 0, "uint16"), (2e-3, 30806, "uint16"), (0.5, 0, "int16")):
        n.output(n.quantised("r", scale, zero, kind), TYPES[kind])
    n.save(path, 21, 10)
    for cpu, limit in (("cortex-m0plus", 1800), ("cortex-m4", 40), ("cortex-m55", 14)):
        count, differ, _ = measured(Arguments(onnxc, "-O2"), path, cpu, [x])
        results.check(count < limit and not differ, f"floats to 16 bits on a {cpu}", f"{count} thousand instructions for 2,400 integers, {differ} differ")


def average_pools(path, scale=0.04, **attributes):
    """Averages of windows, within an image and at its sides."""
    n = Network((1, 24, 12, 12), (1, 1))
    n.output(n.quantised(n.node("AveragePool", [n.dequantised("x", 0.05, 3)], **attributes), scale, 3), TensorProto.INT8)
    n.save(path, 14)


def check_average_pools(results, onnxc, path):
    """Bytes are averaged without floats: each is read in several windows, and at the sides of an image their number varies."""
    average_pools(path, kernel_shape=[3, 3])
    for cpu, limit in (("cortex-m0plus", 250), ("cortex-m3", 88), ("cortex-m4", 70), ("cortex-m55", 26)):
        count, differ, most = measured(Arguments(onnxc, "-O2"), path, cpu)
        memory = inspected(Arguments(onnxc, "-O2"), path, cpu)["memory"]["workspace_bytes"]
        good = count < limit and memory == 0 and differ <= 20 and most <= 1
        results.check(good, f"averages of bytes on a {cpu}", f"{count} thousand instructions for 21,600 bytes, {memory} bytes, {differ} elements differ, by up to {most}")
    for cpu, limit in (("cortex-m3", 750), ("cortex-m4", 750), ("cortex-m55", 100)):
        average_pools(path, 0.05, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        count, differ, most = measured(Arguments(onnxc, "-O2"), path, cpu, host=())
        good = count < limit and differ == 0
        results.check(good, f"padded averages of bytes on a {cpu}", f"{count} thousand instructions for 3,456 averages, {differ} elements differ, by up to {most}")
    average_pools(path, 0.05, kernel_shape=[2, 2], strides=[2, 2])
    count, differ, most = measured(Arguments(onnxc, "-O2"), path, "cortex-m3", host=())
    results.check(count < 30 and differ == 0, "averages of four bytes", f"{count} thousand instructions for 864 averages, {differ} elements differ, by up to {most}")


def functions_of_floats(path):
    n = Network((1, 1, 1, 1), (1, 500))
    n.kinds["r"] = "float32"
    for op in ("Sigmoid", "Tanh", "Exp", "Softmax"):
        n.output(n.node(op, ["r"]), TensorProto.FLOAT)
    n.save(path)


def check_functions_of_floats(results, onnxc, path):
    """Exponentials and what consists of them, in integers without floating point."""
    functions_of_floats(path)
    x = np.random.default_rng(4).standard_normal((1, 500)).astype(np.float32) * 3
    for cpu, limit in (("cortex-m0plus", 1600), ("cortex-m3", 500)):
        count, _, most = measured(Arguments(onnxc, "-O2"), path, cpu, [x])
        foreseen = estimated(Arguments(onnxc, "-O2"), path, cpu)
        good = count < limit and most < 1e-2 and abs(foreseen - count) < ESTIMATE * count
        results.check(good, f"functions of floats on a {cpu}", f"{count} thousand instructions for 2,000 results, {foreseen:.0f} estimated, off by up to {most}")


def denormals(path):
    """Products, sums and maxima below 2^-126, made large."""
    rng = np.random.default_rng(3)
    small = [(rng.standard_normal((1, 37)) * 1e-39).astype(np.float32) for _ in range(2)]
    named = {"a": small[0], "b": small[1], "large": np.float32(1e30), "zero": np.float32(0)}
    nodes = [("Mul", "x", "a", "p"), ("Add", "p", "b", "s"), ("Max", "s", "zero", "m"), ("Mul", "m", "large", "y")]
    graph = helper.make_graph([helper.make_node(op, inputs, [out]) for op, *inputs, out in nodes], "denormals",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 37])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 37])],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in named.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def overwritten(path):
    """A 1x1 convolution between two others, all in f32 with weights of bytes: in the memory of its operand, if rows are outermost."""
    n = Network((1, 32, 25, 5), (1, 1))
    v = n.dequantised("x", 0.05, 3)
    for _ in range(3):
        w = n.node("DequantizeLinear", [n.constant(n.weights("int8", 32, 32, 1, 1)), n.constant(np.float32(0.01)), n.constant(np.int8(0))])
        v = n.node("Relu", [n.node("Conv", [v, w])])
    n.output(n.node("ReduceMean", [v], axes=[2, 3]), TensorProto.FLOAT)
    n.save(path)


def check_overwritten(results, onnxc, path):
    arguments, image = Arguments(onnxc, "-O2"), 32 * 25 * 5 * 4
    for cpu in ("cortex-m4", "cortex-m55"):
        *_, most = measured(arguments, path, cpu)
        memory = inspected(arguments, path, cpu)["memory"]["workspace_bytes"]
        results.check(memory < 1.5 * image and most < 1e-3, f"images in one memory {cpu}", f"{memory} bytes for images of {image}, off by up to {most}")


def check_columns_left(results, onnxc, path):
    """Pointwise convolutions of bytes, whose last column is in a loop of its own, and one with many products: in the memory of their operands."""
    for channels, height in (43, 20), (180, 30):
        n, image = Network((1, channels, height, 9), (1, 1)), channels * height * 9
        v = n.layer("x", channels, channels, 1, 1, relu=True, out=1.7)
        for _ in range(2):
            n.kinds[v] = "int8"
            v = n.layer(v, channels, channels, 1, 1, zero=-128, relu=True, out=70)
        n.output(n.node("ReduceMean", [n.dequantised(v, 70, -128, "int8")], axes=[2, 3]), TensorProto.FLOAT)
        n.save(path)
        for cpu in ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55")[1 if channels > 99 else 0:]:
            *_, most = measured(Arguments(onnxc, "-O2"), path, cpu)
            memory = inspected(Arguments(onnxc, "-O2"), path, cpu)["memory"]["workspace_bytes"]
            results.check(memory < 1.2 * image and most <= 70 / image, f"{channels} channels in one memory on a {cpu}", f"{memory} bytes for images of {image}, off by up to {most}")


def check_residuals(results, onnxc, path):
    """Images that several layers keep for a sum, beside those that overlap their operands: little more memory than two images of ResNet-8."""
    onnx.save(tiny_networks.resnet().model(), path)
    for cpu in ("cortex-m4", "cortex-m55"):
        *_, most = measured(Arguments(onnxc, "-O2"), path, cpu, host=())
        memory = inspected(Arguments(onnxc, "-O2"), path, cpu)["memory"]["workspace_bytes"]
        results.check(memory < 2.4 * 16 * 32 * 32 and most <= 1, f"ResNet-8 on a {cpu}", f"{memory} bytes for images of 16,384, off by up to {most}")


def check_expanded(results, onnxc, path):
    """A layer that expands channels, and one of a channel each: in limited memory some channels at a time, whose weights are in panels, too."""
    for channels, kernel, limit in ((48, 3, "20K"), (120, 5, "32K")):
        n = Network((1, 12, 24, 24), (1, 1))
        v = n.layer("x", channels, 12, 1, 1, relu=True)
        for shape, group in (((channels, 1, kernel, kernel), channels), ((12, channels, 1, 1), 1)):
            n.kinds[v] = "int8"
            v = n.layer(v, *shape, zero=-128, relu=True, group=group, pads=[shape[2] // 2] * 4, strides=[2 if shape[3] > 1 else 1] * 2)
        n.output(v, TensorProto.INT8)
        n.save(path)
        for cpu in ("cortex-m0plus", "cortex-m3", "cortex-m4"):
            whole = inspected(Arguments(onnxc, "-O2"), path, cpu)["estimate"]["instructions"] / 1000
            count, differ, most = measured(Arguments(onnxc, f"-O2 --max-workspace={limit}"), path, cpu)
            results.check(count < 1.15 * whole and most <= 1 and differ <= 2, f"{channels} channels, some at a time, on a {cpu}", f"{count} thousand instructions, {whole:.0f} at once, {differ} elements differ")


def attention(path):
    """Four heads of ten queries in f32: few keys, so blocks of them are mostly empty."""
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 10, 8]) for n in "qkv"]
    nodes = [helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "t"], ["s"]),
             helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    graph = helper.make_graph(nodes, "attention", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 10, 8])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def check_attention(results, onnxc, path):
    arguments = Arguments(onnxc, "-O2")
    *_, most = measured(arguments, path, "cortex-m55")
    memory = inspected(arguments, path, "cortex-m55")["memory"]["workspace_bytes"]
    results.check(memory < 1024 and most < 1e-4, "attention on a Cortex-M55", f"{memory} bytes, off by up to {most}")


def check_soft_floats(results, onnxc, path):
    """Sums and products of normal numbers without floating point, and exponentials of them: their instructions, as foreseen."""
    for cpu, limit in (("cortex-m0plus", 2400), ("cortex-m3", 1500)):
        arguments = Arguments(onnxc, "-O2")
        count, _, most = measured(arguments, path, cpu)
        foreseen = estimated(arguments, path, cpu)
        good = count < limit and abs(foreseen - count) < ESTIMATE * count and most < 1e-4
        results.check(good, f"attention in f32 on a {cpu}", f"{count} thousand instructions, {foreseen:.0f} estimated, for 6,400 products and 400 exponentials, off by up to {most}")


def check_fractions(results, onnxc, path):
    """Conversions from and to integers beside products with powers of two, which are one instruction of Helium, in functions that have these
    powers as numbers, too."""
    n = Network((1, 8, 5, 11), (3, 45))
    n.kinds["r"] = "float32"
    n.output(n.node("Softmax", [n.dequantised("x", 1 / 256, 0)]), TensorProto.FLOAT)
    n.output(n.node("Cast", [n.node("Mul", ["r", n.constant(np.float32(256))])], to=TensorProto.INT32), TensorProto.INT32)
    n.output(n.node("Cast", [n.node("Add", ["r", "r"])], to=TensorProto.INT32), TensorProto.INT32)
    n.save(path)
    for level in LEVELS:
        _, _, most = measured(Arguments(onnxc, level), path, "cortex-m55")
        results.check(most < 1e-6, f"fractions of powers of two on a Cortex-M55 {level}", f"off by up to {most}")


def measure_on(cpu):
    return bench.firmware_riscv.measure if cpu in bench.firmware_riscv.CPUS else bench.measure


def measured(arguments, path, cpu, arrays=(), host=("--interpret",)):
    """(thousand instructions of a run, elements that differ from those of `onnxc run` with the options, the largest difference); of these inputs, if any."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "test_data_set_0"))
        for j, array in enumerate(arrays):
            with open(os.path.join(folder, "test_data_set_0", f"input_{j}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(array).SerializeToString())
        case = bench.Case(arguments.onnxc, path, folder, folder, host)
        *_, count, got = measure_on(cpu)(bench.Onnxc(arguments, cpu, case, folder), cpu, case.sizes, folder)
        apart = [np.abs(g - w) for g, w in zip(got, case.want)]
        return count, sum(int((d > 0).sum()) for d in apart), max(float(d.max()) for d in apart)


class Arguments:
    def __init__(self, onnxc, options):
        self.onnxc, self.options = onnxc, options


def check(results, onnxc, name, path, level, cpu, counts):
    """Whole numbers are equal; a requantised byte in a thousand may be the next one where sums are fused."""
    arguments = Arguments(onnxc, level)
    try:
        count, differ, most = measured(arguments, path, cpu)
        foreseen = estimated(arguments, path, cpu)
    except RuntimeError as why:
        return results.fail(f"{name} {cpu} {level}", str(why)[:1500])
    counts[name, cpu, level] = count
    if abs(foreseen - count) > ESTIMATE * count:
        return results.fail(f"{name} {cpu} {level}", f"{foreseen:.0f} thousand instructions estimated, {count} run")
    good = differ == 0 or (name in ("layers", "grouped", "functions") and cpu not in EXACT and most <= 1 and differ <= 4)
    return results.check(good, f"{name} {cpu} {level}", f"{differ} elements differ, by up to {most}")


def main():
    onnxc, results, counts = os.path.abspath(sys.argv[1]), Results("firmware"), {}
    with tempfile.TemporaryDirectory() as folder:
        models = {make.__name__: os.path.join(folder, make.__name__ + ".onnx") for make in MODELS}
        for make in MODELS:
            make(models[make.__name__])
        jobs = [(m, models[m], level, cpu) for m in ("products", "rows", "layers", "grouped", "functions") for level in LEVELS for cpu in CPUS]
        jobs += [("convolutions", models["convolutions"], "-O2", cpu) for cpu in ("cortex-m4", "cortex-m55")]
        jobs += [("convolutions", models["convolutions"], options, "cortex-m3") for options in POOLS]
        jobs += [(m, models[m], "-O2", cpu) for m in ("products", "layers") for cpu in ("cortex-m33", "cortex-m52", "cortex-m85")]
        parallel(lambda job: check(results, onnxc, *job, counts), jobs)
        parallel(lambda name: check_third(results, onnxc, name, os.path.join(folder, name + ".onnx")), THIRDS)
        check_moved_bytes(results, onnxc, os.path.join(folder, "moved.onnx"))
        check_table(results, onnxc, os.path.join(folder, "table.onnx"))
        check_phases(results, onnxc, os.path.join(folder, "phases.onnx"))
        check_zero_points(results, onnxc, os.path.join(folder, "zero_points.onnx"))
        check_shuffled(results, onnxc, os.path.join(folder, "shuffled.onnx"))
        check_stream(results, onnxc, os.path.join(folder, "stream.onnx"))
        check_runtime(results, onnxc, folder)
        check_one_channel(results, onnxc, os.path.join(folder, "one_channel.onnx"))
        check_ten_channels(results, onnxc, os.path.join(folder, "ten_channels.onnx"))
        check_three_channels(results, onnxc, os.path.join(folder, "three_channels.onnx"))
        check_large_rows(results, onnxc, os.path.join(folder, "large_rows.onnx"))
        for cpu in ("cortex-m3", "cortex-m4", "cortex-m55"):
            check_small_weights(results, onnxc, os.path.join(folder, "small.onnx"), cpu)
        for cpu in SMALL_ROWS:
            check_small_row(results, onnxc, os.path.join(folder, "small_row.onnx"), cpu)
        check_halves(results, onnxc, os.path.join(folder, "halves.onnx"))
        check_recurrent(results, onnxc, os.path.join(folder, "recurrent.onnx"))
        check_float_products(results, onnxc, os.path.join(folder, "float_products.onnx"))
        check_quantised_inputs(results, onnxc, os.path.join(folder, "quantised_inputs.onnx"))
        check_no_numbers(results, onnxc, os.path.join(folder, "no_numbers.onnx"))
        check_signed_quantisers(results, onnxc, os.path.join(folder, "signed_quantisers.onnx"))
        check_run_quantisers(results, onnxc, os.path.join(folder, "run_quantisers.onnx"))
        check_biases(results, onnxc, os.path.join(folder, "biases.onnx"))
        for cpu, times in (("cortex-m3", 1), ("cortex-m3", 10), ("cortex-m0plus", 10), ("rv32imac", 10)):
            check_fixed_rows(results, onnxc, os.path.join(folder, "fixed_rows.onnx"), cpu, times)
        check_kept_images(results, onnxc, os.path.join(folder, "kept_images.onnx"))
        check_half_functions(results, onnxc, os.path.join(folder, "half_functions.onnx"))
        check_pairs(results, onnxc, os.path.join(folder, "pairs.onnx"))
        check_unsigned(results, onnxc, os.path.join(folder, "unsigned.onnx"))
        overwritten(os.path.join(folder, "overwritten.onnx"))
        check_overwritten(results, onnxc, os.path.join(folder, "overwritten.onnx"))
        check_columns_left(results, onnxc, os.path.join(folder, "columns_left.onnx"))
        check_residuals(results, onnxc, os.path.join(folder, "residuals.onnx"))
        check_expanded(results, onnxc, os.path.join(folder, "expanded.onnx"))
        attention(os.path.join(folder, "attention.onnx"))
        check_attention(results, onnxc, os.path.join(folder, "attention.onnx"))
        check_fractions(results, onnxc, os.path.join(folder, "fractions.onnx"))
        check_soft_floats(results, onnxc, os.path.join(folder, "attention.onnx"))
        check_quantised_floats(results, onnxc, os.path.join(folder, "quantised_floats.onnx"))
        check_floats_to_halves(results, onnxc, os.path.join(folder, "floats_to_halves.onnx"))
        check_average_pools(results, onnxc, os.path.join(folder, "average_pools.onnx"))
        check_functions_of_floats(results, onnxc, os.path.join(folder, "functions_of_floats.onnx"))
        denormals(os.path.join(folder, "denormals.onnx"))
        _, differ, most = measured(Arguments(onnxc, "-O2 --fp=strict"), os.path.join(folder, "denormals.onnx"), "cortex-m55")
        results.check(differ == 0, "denormal numbers with --fp=strict on a Cortex-M55", f"{differ} elements differ, by up to {most}")
    floats, _, most = measured(Arguments(onnxc, "-O2"), os.path.join(bench.ROOT, "samples", "digits", "digits.onnx"), "cortex-m4")
    results.check(floats < 150 and most < 1e-3, "digits in f32 on a Cortex-M4", f"{floats} thousand instructions, off by up to {most}")
    most = counts.get(("grouped", "cortex-m3", "-O2"), np.inf)
    results.check(most < 600, "groups on a Cortex-M3", f"{most} thousand instructions for 53,460 products")
    most = counts.get(("functions", "cortex-m3", "-O2"), np.inf)
    results.check(most < 500, "functions of bytes on a Cortex-M3", f"{most} thousand instructions for 14,336 bytes")
    m4, m55 = (counts.get(("convolutions", cpu, "-O2"), 0) for cpu in ("cortex-m4", "cortex-m55"))
    results.check(m55 and 3 * m55 <= m4, "convolutions on a Cortex-M55", f"{m55} thousand instructions, {m4} on an M4")
    if os.environ.get("FIRMWARE_VERBOSE"):
        for key, count in sorted(counts.items()):
            print(*key, count)
    sys.exit(results.report())


if __name__ == "__main__":
    main()
