"""Models as ES modules in Node.js, against the roofline of 128-bit SIMD that the same run measures, and against onnxruntime-web
if its package is installed.

usage: wasm.py ONNXC RUNTIME [--seconds S] [--ort FOLDER] [--options "..."] [MODEL.onnx...]
RUNTIME: libonnxc-rt.a for wasm32 (docs/wasm.md); FOLDER: node_modules/onnxruntime-web; without models, small networks that
this script makes. "Code" is the module without weights.
"""
import argparse
import json
import os
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
SIZE = 32  # of symbolic sizes


class Network:
    """An f32 model of one chain with weights of a normal distribution."""

    def __init__(self, name, *dims):
        self.name, self.nodes, self.weights, self.last, self.dims = name, [], [], "x", dims
        self.random = np.random.default_rng(0)

    def weight(self, *dims):
        array = self.random.standard_normal(dims).astype(np.float32) / np.sqrt(np.prod(dims[1:]) if len(dims) > 1 else 1)
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def op(self, kind, *more, first=None, **attributes):
        made = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [first or self.last, *more], [made], **attributes))
        self.last = made
        return made

    def conv(self, out, of, size=3, stride=1, group=1):
        pad = size // 2
        self.op("Conv", self.weight(out, of // group, size, size), self.weight(out), kernel_shape=[size, size], strides=[stride] * 2, pads=[pad] * 4, group=group)
        return self.op("Relu")

    def dense(self, out, of):
        self.op("MatMul", self.weight(of, out))
        return self.op("Add", self.weight(out))

    def save(self, folder):
        graph = helper.make_graph(self.nodes, self.name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.dims)],
                                  [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)], self.weights)
        path = os.path.join(folder, f"{self.name}.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)
        return path


def separable():
    """Convolutions apart by channel, as MobileNet v1 of width 0.5 has them, at 128 x 128."""
    n = Network("separable", 1, 3, 128, 128)
    n.conv(16, 3, stride=2)
    of = 16
    for out, stride in ((32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2), *[(256, 1)] * 5, (512, 2), (512, 1)):
        n.conv(of, of, stride=stride, group=of)
        n.conv(out, of, size=1)
        of = out
    n.op("GlobalAveragePool")
    n.op("Flatten")
    n.dense(1000, of)
    return n


def residual():
    """ResNet-8 of CIFAR images."""
    n = Network("residual", 1, 3, 32, 32)
    n.conv(16, 3)
    of = 16
    for out, stride in ((16, 1), (32, 2), (64, 2)):
        skip = n.last
        n.conv(out, of, stride=stride)
        n.op("Conv", n.weight(out, out, 3, 3), n.weight(out), kernel_shape=[3, 3], pads=[1] * 4)
        body = n.last
        if out != of:
            skip = n.op("Conv", n.weight(out, of, 1, 1), first=skip, strides=[stride] * 2)
        n.op("Add", skip, first=body)
        n.op("Relu")
        of = out
    n.op("GlobalAveragePool")
    n.op("Flatten")
    n.dense(10, of)
    return n


def encoder():
    """Six layers of MiniLM's size for 128 tokens."""
    rows, width, heads = 128, 384, 12
    n = Network("encoder", 1, rows, width)
    for _ in range(6):
        start, parts = n.last, []
        for _ in range(3):
            n.last = start
            parts.append(n.dense(width, width))
        n.op("Attention", parts[1], parts[2], first=parts[0], q_num_heads=heads, kv_num_heads=heads)
        n.dense(width, width)
        n.op("Add", start)
        start = n.op("LayerNormalization", n.weight(width), n.weight(width))
        n.dense(4 * width, width)
        n.op("Gelu")
        n.dense(width, 4 * width)
        n.op("Add", start)
        n.op("LayerNormalization", n.weight(width), n.weight(width))
    return n


def describe(onnxc, path, options):
    """Of the model: bytes of code and weights, multiplications and additions, and its inputs."""
    ran = subprocess.run([onnxc, "inspect", path, "--format=json", "--target=wasm32", *options], capture_output=True, text=True, check=True)
    report = json.loads(ran.stdout)
    inputs = {t["name"]: {"dims": [d if isinstance(d, int) else SIZE for d in t["dims"]], "type": t["dtype"], "most": 1 if t["dtype"] == "float" else 100}
              for t in report["inputs"]}
    return sum(k["macs"] for k in report["kernels"] if isinstance(k.get("macs"), int)), report["constants"]["bytes"], inputs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("onnxc")
    parser.add_argument("runtime")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--ort")
    parser.add_argument("--options", default="")
    parser.add_argument("--measure", default="", help="a command before node")
    asked = parser.parse_args()
    options = asked.options.split()
    with tempfile.TemporaryDirectory() as folder:
        peak = os.path.join(folder, "peak.wasm")
        subprocess.run(["clang-19", "--target=wasm32", "-nostdlib", "-O2", "-msimd128", "-Wl,--no-entry", os.path.join(HERE, "..", "web", "peak.c"), "-o", peak], check=True)
        facts, jobs = {}, []
        for path in asked.models or [make().save(folder) for make in (separable, residual, encoder)]:
            name = os.path.splitext(os.path.basename(path))[0]
            macs, weights, inputs = describe(asked.onnxc, path, options)
            made = os.path.join(folder, f"{name}.mjs")
            subprocess.run([asked.onnxc, path, f"--runtime={asked.runtime}", *options, "-o", made], check=True)
            subprocess.run([asked.onnxc, path, f"--runtime={asked.runtime}", *options, "-o", os.path.join(folder, f"{name}.wasm"), f"--weights={folder}/{name}.weights"], check=True)
            facts[name] = macs, weights, os.path.getsize(os.path.join(folder, f"{name}.wasm"))
            jobs.append(json.dumps({"name": name, "path": made, "inputs": inputs, "ort": asked.ort, "model": path}))
        flags = ["--experimental-wasm-relaxed-simd"] if "relaxed-simd" in asked.options else []
        print("model: ms; GFLOP/s and share of the roofline; code; onnxruntime-web")
        ran = subprocess.run([*asked.measure.split(), "node", *flags, os.path.join(HERE, "wasm.mjs"), peak, str(asked.seconds), *jobs], capture_output=True, text=True, check=True)
        for line in ran.stdout.splitlines():
            if not line.startswith("{"):
                continue
            got = json.loads(line)
            macs, weights, code = facts[got["name"]]
            rate = 2 * macs / got["ms"] / 1e6
            peer = f"{got['peer']:.1f} ms, {got['peer'] / got['ms']:.2f}x" if "peer" in got else "-"
            print(f"{got['name']}: {got['ms']:.2f} ms; {rate:.1f} GFLOP/s, {rate / got['f32']:.0%} of {got['f32']:.1f} (16-bit: {got['i16']:.1f}); {code / 1000:.0f} kB, weights {weights / 1e6:.1f} MB; {peer}")


if __name__ == "__main__":
    main()
