"""Instructions per multiply-accumulate with RISC-V's vectors, counted by a plugin of QEMU, beside kernels as XNNPACK has them.

usage: riscv.py ONNXC RUNTIME [MODEL...]

RUNTIME is libonnxc-rt.a for riscv64-linux-gnu. MODEL is an ONNX file whose sizes are known. Printed for each model and length of registers,
as rows of docs/riscv.md:

    instructions    of a run, per multiply-accumulate of the model
    share           of them multiply-adds of vectors
"""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, load, numpy_helper, save

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CROSS = os.path.join(ROOT, "test", "cross")
TRIPLE = "riscv64-linux-gnu"
LENGTHS = (128, 256, 512)
M, K, N = 112, 256, 128
TYPES = {TensorProto.FLOAT: ("float", 4), TensorProto.INT8: ("int8_t", 1), TensorProto.UINT8: ("uint8_t", 1), TensorProto.INT32: ("int32_t", 4)}


def run(*command):
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(" ".join(command) + "\n" + ran.stdout)
    return ran.stdout


class Bench:
    def __init__(self, onnxc, runtime, folder):
        self.onnxc, self.runtime, self.folder = onnxc, runtime, folder
        self.plugin = os.path.join(folder, "count.so")
        run("cc", "-shared", "-fPIC", "-O1", os.path.join(CROSS, "count_plugin.c"), "-o", self.plugin)

    def path(self, name):
        return os.path.join(self.folder, name)

    def counts(self, length, program, *arguments):
        """(instructions, multiply-adds) of one more run of the model."""
        found = []
        for times in ("1", "3"):
            text = run("qemu-riscv64", "-cpu", f"rv64,v=true,vext_spec=v1.0,vlen={length}", "-plugin", self.plugin, program, *arguments, times)
            found.append([int(re.search(rf"^{what} (\d+)$", text, re.MULTILINE)[1]) for what in ("instructions", "multiply-adds")])
        return [(many - few) / 2 for few, many in zip(*found)]

    def compiled(self, model, length):
        """A program that runs the model as often as it is told."""
        run(self.onnxc, model, f"--target={TRIPLE}", f"-march=rv64gcv_zvl{length}b", "--threads=1", f"--runtime={self.runtime}", "--name=m", "-o",
            self.path("m.a"))
        graph, text = load(model).graph, '#include "m.h"\n#include <stdlib.h>\n'
        constants = {c.name for c in graph.initializer}
        with open(self.path("m.h"), encoding="utf-8") as f:
            header = f.read()
        sets = {}
        for kind, values in (("in", [v for v in graph.input if v.name not in constants]), ("out", graph.output)):
            body = re.search(r"typedef struct m_%s \{(.*?)\} " % kind, header, re.DOTALL)[1]
            members = [name for name in re.findall(r"\*(\w+);", body) if name != "message"]
            for name, value in zip(members, values):
                shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
                text += f"static {TYPES[value.type.tensor_type.elem_type][0]} {kind}_{name}[{int(np.prod(shape))}];\n"
            sets[kind] = ", ".join(f".{name} = {kind}_{name}" for name in members)
        text += ("static unsigned char w[M_WORKSPACE_BYTES + 1] __attribute__((aligned(64)));\nint main(int argc, char **argv) {\n"
                 "    int failed = argc < 2;\n    for (int i = atoi(argv[1]); i > 0; i--) {\n"
                 f"        m_in in = {{{sets['in']}}};\n        m_out out = {{{sets['out']}}};\n        failed |= m_run(&in, &out, w, sizeof w);\n    }}\n"
                 "    return failed;\n}\n")
        with open(self.path("main.c"), "w", encoding="utf-8") as f:
            f.write(text)
        run(f"{TRIPLE}-gcc", "-O1", "-static", f"-I{self.folder}", self.path("main.c"), self.path("m.a"), "-lpthread", "-o", self.path("main"))
        return self.path("main")

    def macs(self, model):
        return int(re.search(r"kernels: \d+, (\d+) MACs", run(self.onnxc, "inspect", model))[1])

    def rows(self, name, model):
        macs = self.macs(model)
        for length in LENGTHS:
            self.row(name, "onnxc", length, macs, self.counts(length, self.compiled(model, length)))

    def peers(self, name, which):
        for length in LENGTHS:
            program = self.path("peer")
            run("clang-19", f"--target={TRIPLE}", f"-march=rv64gcv_zvl{length}b", "-O3", f"-I/usr/{TRIPLE}/include", "-c",
                os.path.join(CROSS, "rvv_kernels.c"), "-o", program + ".o")
            run(f"{TRIPLE}-gcc", "-static", program + ".o", "-o", program)
            self.row(name, "as XNNPACK", length, M * K * N, self.counts(length, program, which))

    def row(self, name, engine, length, macs, counts):
        print(f"| {name} | {engine} | {length} | {counts[0] / macs:.4f} | {100 * counts[1] / counts[0]:.0f} % |", flush=True)


def write(path, nodes, inputs, outputs, constants):
    tensors = [[helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *tensors, [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def models(bench):
    random = np.random.default_rng(1)
    weights = random.integers(-127, 128, (K, N)).astype(np.int8)
    f32, s8 = np.float32, np.int8
    common = {"xs": f32(0.02), "xz": s8(0), "ws": f32(0.01), "wz": s8(0), "ys": f32(0.5), "yz": s8(3)}
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    yield "dense f32", write(bench.path("a.onnx"), [helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, [M, K])],
                             [("y", TensorProto.FLOAT, [M, N])], {"w": weights.astype(f32)}), "f32"
    yield "dense int8", write(bench.path("b.onnx"), [helper.make_node("QLinearMatMul", names, ["y"])], [("x", TensorProto.INT8, [M, K])],
                              [("y", TensorProto.INT8, [M, N])], {"w": weights, **common}), "s8"
    image, result = [1, 64, 28, 28], [1, 64, 28, 28]
    taps = random.integers(-127, 128, (64, 64, 3, 3)).astype(s8)
    yield "3 × 3, 64 channels, f32", write(bench.path("c.onnx"), [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)],
                                           [("x", TensorProto.FLOAT, image)], [("y", TensorProto.FLOAT, result)], {"w": taps.astype(f32)}), None
    yield "3 × 3, 64 channels, int8", write(bench.path("d.onnx"), [helper.make_node("QLinearConv", names, ["y"], pads=[1] * 4)],
                                            [("x", TensorProto.INT8, image)], [("y", TensorProto.INT8, result)], {"w": taps, **common}), None
    yield "3 × 3 by channel, 64 channels, int8", write(bench.path("e.onnx"), [helper.make_node("QLinearConv", names, ["y"], pads=[1] * 4, group=64)],
                                                       [("x", TensorProto.INT8, image)], [("y", TensorProto.INT8, result)],
                                                       {"w": taps[:, :1], **common}), None


def main():
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), folder)
        print("| model | code | bits of a register | instructions per multiply-accumulate | share |\n| --- | --- | --- | --- | --- |")
        for name, model, peer in models(bench) if len(sys.argv) < 4 else [(os.path.basename(m), m, None) for m in sys.argv[3:]]:
            bench.rows(name, model)
            if peer:
                bench.peers(name, peer)


if __name__ == "__main__":
    main()
