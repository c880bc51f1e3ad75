"""The stage `overlap`: networks for bare machines, whose results lie in the memory of operands, give the answers of hosted code, in which none do.

usage: overlap.py ONNXC. Ends with "N passed, N failed, N skipped"."""
import os
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness import Results, parallel, run

CHAINS = 40
# Of each form: (options, compiler of the object or text with main.c). C text has scalars only, as small processors do.
FORMS = {"c": (["--freestanding"], "m.c", ["gcc", "-O1", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"]),
         "object": (["--target=x86_64-linux-gnu", "--freestanding", "-O2"], "m.o", ["gcc", "-O1"])}
with open("/proc/cpuinfo", encoding="utf-8") as info:
    if " avx2 " in info.read():  # partial vectors
        FORMS["masks"] = (["--target=x86_64-linux-gnu", "--freestanding", "-O2", "-mcpu=x86-64-v3"], "m.o", ["gcc", "-O1"])
MAIN = """#include "m.h"
#include <stdio.h>
#include <string.h>
static %(kind)s x[%(nin)d], y[%(nout)d];
enum { GUARD = 64 };
static unsigned char memory[GUARD + M_WORKSPACE_BYTES + GUARD] __attribute__((aligned(64)));
int main(void) {
    FILE *f = fopen("x.bin", "rb");
    if (!f || fread(x, sizeof x[0], %(nin)d, f) != %(nin)d) return 2;
    memset(memory, 0x5a, sizeof memory);
    int code = m_run(&(m_in){.x = x}, &(m_out){.y = y}, memory + GUARD, M_WORKSPACE_BYTES);
    for (int i = 0; i < GUARD; i++)
        if (memory[i] != 0x5a || memory[GUARD + M_WORKSPACE_BYTES + i] != 0x5a) return 3;
    f = fopen("y.bin", "wb");
    fwrite(y, sizeof y[0], %(nout)d, f);
    fclose(f);
    return code;
}
"""


class Chain:
    """A random network of windows, sums and pointwise operators over an image, of floats or of bytes with scales."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.bytes = seed % 2 == 1
        self.nodes, self.constants, self.count = [], [], 0
        c, h, w = (int(self.random.integers(low, high)) for low, high in ((1, 9), (5, 17), (5, 17)))
        self.shape = self.first = (1, c, h, w)
        self.value, self.saved = "x", None
        if self.bytes:
            self.constant("scale", np.float32(0.05)), self.constant("zero", np.int8(-3))
            self.constant("wscale", np.float32(0.02)), self.constant("wzero", np.int8(0))
        for _ in range(int(self.random.integers(3, 8))):
            self.layer()
        self.nodes[-1].output[0] = "y"

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, **attributes):
        self.count += 1
        self.nodes.append(helper.make_node(op, inputs, [f"t{self.count}"], name=f"n{self.count}", **attributes))
        return f"t{self.count}"

    def real(self):
        return self.node("DequantizeLinear", [self.value, "scale", "zero"]) if self.bytes else self.value

    def keep(self, value):
        self.value = self.node("QuantizeLinear", [value, "scale", "zero"]) if self.bytes else value

    def weights(self, shape):
        self.count += 1
        name = f"w{self.count}"
        if not self.bytes:
            return self.constant(name, self.random.uniform(-1, 1, shape).astype(np.float32) / np.float32(np.prod(shape[1:]) ** 0.5))
        self.constant(name, self.random.integers(-90, 90, shape).astype(np.int8))
        return self.node("DequantizeLinear", [name, "wscale", "wzero"])

    def window(self):
        """Kernel, strides and paddings of two axes, and the size they give."""
        kernel = [int(self.random.choice([1, 1, 2, 3, 3, 5])) for _ in range(2)]
        kernel = [min(k, n) for k, n in zip(kernel, self.shape[2:])]
        strides = [int(self.random.choice([1, 1, 1, 2])) for _ in range(2)]
        pads = [int(self.random.integers(0, (k + 1) // 2 + 1)) if k > 1 else 0 for k in kernel * 2]
        size = [(n + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1 for i, n in enumerate(self.shape[2:])]
        return kernel, {"kernel_shape": kernel, "strides": strides, "pads": pads}, size

    def layer(self):
        kind = self.random.choice(["conv", "conv", "depthwise", "depthwise", "pool", "relu", "add", "save"])
        _, c, _, _ = self.shape
        if kind == "save":
            self.saved = (self.value, self.shape)
            kind = "conv"
        if kind == "add" and self.saved and self.saved[1] == self.shape and self.saved[0] != self.value:
            other, self.value = self.value, self.saved[0]
            first = self.real()
            self.value = other
            self.keep(self.node("Add", [first, self.real()]))
        elif kind in ("conv", "depthwise"):
            kernel, attributes, size = self.window()
            out = c if kind == "depthwise" else int(self.random.integers(1, 13))
            value = self.real()
            weights = self.weights((out, 1 if kind == "depthwise" else c, *kernel))
            value = self.node("Conv", [value, weights], group=c if kind == "depthwise" else 1, **attributes)
            self.shape = (1, out, *size)
            self.keep(self.node("Relu", [value]) if self.random.random() < 0.5 else value)
        elif kind == "pool":
            _, attributes, size = self.window()
            attributes["pads"] = [0] * 4
            size = [(n - k) // s + 1 for n, k, s in zip(self.shape[2:], attributes["kernel_shape"], attributes["strides"])]
            self.keep(self.node(str(self.random.choice(["MaxPool", "AveragePool"])), [self.real()], **attributes))
            self.shape = (1, c, *size)
        else:
            self.keep(self.node("Relu", [self.real()]))

    def model(self):
        kind = TensorProto.INT8 if self.bytes else TensorProto.FLOAT
        graph = helper.make_graph(self.nodes, "m", [helper.make_tensor_value_info("x", kind, self.first)],
                                  [helper.make_tensor_value_info("y", kind, self.shape)], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def make(folder, *command):
    ran = run(command, timeout=120, cwd=folder)
    if ran.code != 0:
        raise RuntimeError(" ".join(command) + "\n" + ran.why())


def answers(onnxc, seed, folder):
    """For each form what is wrong; nothing: ""."""
    chain = Chain(seed)
    path = os.path.join(folder, "m.onnx")
    onnx.save(chain.model(), path)
    random = np.random.default_rng(seed)
    x = random.integers(-128, 128, chain.first).astype(np.int8) if chain.bytes else random.uniform(-2, 2, chain.first).astype(np.float32)
    np.save(os.path.join(folder, "x.npy"), x)
    x.tofile(os.path.join(folder, "x.bin"))
    make(folder, onnxc, "run", path, "--fp", "strict", "--input", "x=x.npy", "--output", "y=y.npy")
    want = np.load(os.path.join(folder, "y.npy")).astype(np.float64).ravel()
    with open(os.path.join(folder, "main.c"), "w", encoding="utf-8") as f:
        f.write(MAIN % {"kind": "int8_t" if chain.bytes else "float", "nin": x.size, "nout": want.size})
    for form, (options, made, compiler) in FORMS.items():
        make(folder, onnxc, path, *options, "--fp", "strict", "--name", "m", "-o", made)
        make(folder, *compiler, "main.c", made, "-lm", "-o", form)
        make(folder, os.path.join(folder, form))
        got = np.fromfile(os.path.join(folder, "y.bin"), x.dtype).astype(np.float64)
        most = 0 if chain.bytes else 1e-4 * max(1, np.abs(want).max())
        yield form, "" if np.abs(got - want).max() <= most else f"differs by {np.abs(got - want).max()}"


def check(results, onnxc, seed):
    with tempfile.TemporaryDirectory() as folder:
        try:
            for form, wrong in answers(onnxc, seed, folder):
                results.check(not wrong, f"chain {seed}, {form}", wrong)
        except RuntimeError as why:
            results.fail(f"chain {seed}", str(why)[:1500])


def workspace(results, onnxc, name, channels, depthwise, most, flags):
    """A chain of layers of one size needs the memory of one image, and of what is in flight, not of two."""
    shape, layers = (1, channels, 20, 20), []
    constants = []
    for i, deep in enumerate(depthwise):
        constants.append(numpy_helper.from_array(np.ones((channels, 1 if deep else channels, *((3, 3) if deep else (1, 1))), np.float32), f"w{i}"))
        layers.append(helper.make_node("Conv", ["x" if i == 0 else f"t{i}", f"w{i}"], ["y" if i == len(depthwise) - 1 else f"t{i + 1}"],
                                       group=channels if deep else 1, pads=[deep] * 4))
    graph = helper.make_graph(layers, "m", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], constants)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
        ran = run([onnxc, path, *flags, "--emit=header", "-o", "-"], timeout=120)
        found = re.search(r"WORKSPACE_BYTES (\d+)", ran.out)
        image = 4 * channels * 22 * 22  # with its halo
        results.check(found and int(found[1]) <= most * image, f"workspace, {name}", f"{found[1]} bytes" if found else ran.text)


def main():
    onnxc, results = os.path.abspath(sys.argv[1]), Results("overlap")
    parallel(lambda seed: check(results, onnxc, seed), range(CHAINS))
    workspace(results, onnxc, "scalars", 16, (0, 1, 0, 1), 1.05, ["--target=thumbv7em-none-eabi", "-mcpu=cortex-m4"])
    workspace(results, onnxc, "partial vectors", 18, (1, 1, 1, 1), 1.2, ["--target=thumbv8.1m.main-none-eabihf", "-mcpu=cortex-m55", "-mfloat-abi=hard", "-O2"])
    sys.exit(results.report())


if __name__ == "__main__":
    main()
