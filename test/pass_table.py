"""Every pass by its name: it can be printed after, and a model is right without it.

usage: pass_table.py ONNXC

The names are those of the message about a pass that there is not. The models below have something for every pass; the
interpreter, which runs before all passes over the program, says what is right. Prints "N passed, N failed, N skipped".
"""
import math
import os
import re
import subprocess
import sys
import tempfile

import harness

MODELS = {
    # Convolutions in a chain, with halos, parts of a concatenation, and 3x3 ones for Winograd.
    "image": """g (float[2, 8, 16, 16] x) => (float[2, 40, 16, 16] y)
<float[8, 8, 3, 3] v = ?, float[16, 8, 3, 3] w = ?, float[16, 24, 3, 3] u = ?> {
  a = Conv <pads = [1, 1, 1, 1]> (x, v)   b = Relu (a)
  c = Conv <pads = [1, 1, 1, 1]> (b, w)   d = Concat <axis = 1> (b, c)
  e = Conv <pads = [1, 1, 1, 1]> (d, u)   y = Concat <axis = 1> (d, e) }""",
    # Channels are shuffled between convolutions, the last of which has its result in another shape.
    "shuffled": """g (float[2, 12, 8, 8] x) => (float[2, 12, 64] y)
<float[12, 4, 1, 1] w = ?, float[12, 1, 3, 3] v = ?, int64[5] by = {2, 3, 4, 8, 8}, int64[4] image = {2, 12, 8, 8}, int64[3] rows = {2, 12, 64}> {
  a = Conv <group = 3> (x, w)   b = Reshape (a, by)   c = Transpose <perm = [0, 2, 1, 3, 4]> (b)   d = Reshape (c, image)
  e = Conv <group = 12, pads = [1, 1, 1, 1]> (d, v)   y = Reshape (e, rows) }""",
    # A product, a softmax and a product; what a row has in common is computed once.
    "attention": """g (float[4, 32, 16] q, float[4, 16, 64] k, float[4, 64, 16] v) => (float[4, 32, 16] y) {
  s = MatMul (q, k)   p = Softmax <axis = -1> (s)   y = MatMul (p, v) }""",
    # Keys times a constant.
    "scaled": """g (float[4, 32, 16] q, float[4, 64, 16] k) => (float[4, 32, 64] y) <float r = {0.5}> {
  t = Transpose <perm = [0, 2, 1]> (k)   u = Mul (t, r)   s = MatMul (q, u)   y = Softmax <axis = -1> (s) }""",
    # A normalisation after a product.
    "normalised": """g (float[4, 8] x) => (float[4, 16] y) <float[8, 16] w = ?, float[16] b = ?, float[16] c = ?> {
  s = MatMul (x, w)   t = Add (s, b)   u = Mul (t, c)   y = Relu (u) }""",
    "rows": """g (float[64, 96] x) => (float[64, 96] y) <int64[1] last = {1}> {
  m = ReduceMax <keepdims = 1> (x, last)   a = Sub (x, m)   e = Exp (a)   t = ReduceSum <keepdims = 1> (e, last)
  y = Div (e, t) }""",
    # Rows that are replaced one after the other.
    "assigned": """g (float[4, 8] x, float[1, 8] u) => (float[4, 8] y) <int64[1, 1] p = {0}, int64[1, 1] q = {2}> {
  a = ScatterND (x, p, u)   v = Exp (u)   y = ScatterND (a, q, v) }""",
    # A row of a matrix that is taken out, replaced and put back.
    "parts": """g (float[2, 4, 8] x, float[1, 8] u) => (float[2, 4, 8] y) <int64 from = {1}, int64[1, 1] p = {2}, int64[1, 1] q = {1}, int64[1] first = {0}> {
  a = Gather (x, from)   b = ScatterND (a, p, u)   c = Unsqueeze (b, first)   y = ScatterND (x, q, c) }""",
    # Rows of a value that a loop carries.
    "turns": """g (float[4, 8] x) => (float[4, 8] y) <int64 n = {4}, bool go = {1}, int64[2] one = {1, 1}, int64[1] zero = {0}> {
  y = Loop (n, go, x) <body = b (int64 i, bool c, float[4, 8] s) => (bool d, float[4, 8] t) {
    r = Gather (s, i)   e = Exp (r)   f = Unsqueeze (e, zero)   p = Reshape (i, one)   t = ScatterND (s, p, f)   d = Identity (c) }> }""",
    # Concatenations that grow.
    "dense": """g (float[2, 16, 8, 8] x) => (float[2, 64, 8, 8] y) <float[16, 16, 3, 3] u = ?, float[16, 32, 3, 3] v = ?, float[16, 48, 3, 3] w = ?> {
  a = Conv <pads = [1, 1, 1, 1]> (x, u)   b = Concat <axis = 1> (x, a)
  c = Conv <pads = [1, 1, 1, 1]> (b, v)   d = Concat <axis = 1> (b, c)
  e = Conv <pads = [1, 1, 1, 1]> (d, w)   f = Concat <axis = 1> (d, e)   y = Relu (f) }""",
    "halves": """g (float16[64, 32] x, float16[32, 48] w) => (float16[64, 48] y) { a = MatMul (x, w)   b = Neg (a)   y = Exp (b) }""",
    # Layers of one shape.
    "layers": "g (float[4, 8] x) => (float[4, 8] y) <float[8, 8] w = ?> {\n" + "".join(
        f"  m{j} = MatMul ({f's{j - 1}' if j else 'x'}, w)   s{j} = Softmax <axis = -1> (m{j})\n" for j in range(16)) + "  y = Neg (s15) }",
    # Heads become parts of a row.
    "heads": """g (float[3, 8, 32] x) => (float[8, 96] y, float r) <int64[2] by = {8, 96}, int64[2] both = {0, 1}> {
  t = Transpose <perm = [1, 0, 2]> (x)   f = Reshape (t, by)   y = Exp (f)   r = ReduceMax <keepdims = 0> (f, both) }""",
    # Only the first row is read.
    "row": """g (float[4, 8, 16] x) => (float[4, 8] y) <float[16, 32] w = ?, float[32, 16] u = ?, float[16, 8] v = ?, int64 first = {0}> {
  a = MatMul (x, w)   b = Relu (a)   c = MatMul (b, u)   d = Softmax <axis = -1> (c)   e = Gather <axis = 1> (d, first)
  y = MatMul (e, v) }""",
    # Large enough for a CBLAS.
    "product": """g (float[128, 128] a, float[128, 128] b, float[128] c) => (float[128, 128] y) { s = MatMul (a, b)   y = Add (s, c) }""",
    # Quantised: a product of dequantised values, and what one byte decides.
    "bytes": """g (float[40, 64] x) => (float[40, 32] y, float[40, 32] i)
<int8[64, 32] w = ?, float[32, 32] o = ?, float r = {0.03125}, float s = {0.0625}, float t = {0.25}, int8 z = {0}> {
  a = QuantizeLinear (x, r, z)   b = DequantizeLinear (a, r, z)   v = DequantizeLinear (w, s, z)
  c = MatMul (b, v)   d = QuantizeLinear (c, t, z)   e = DequantizeLinear (d, t, z)   f = Sigmoid (e)
  h = QuantizeLinear (f, r, z)   y = DequantizeLinear (h, r, z)   i = MatMul (y, o) }""",
    # A quantised image of few channels, and a maximum of bytes.
    "picture": """g (float[2, 3, 12, 12] x) => (float[2, 8, 6, 6] y)
<int8[8, 3, 3, 3] w = ?, float[8] o = ?, float r = {0.03125}, float s = {0.0625}, float t = {0.25}, float u = {1.5}, int8 z = {0}> {
  a = QuantizeLinear (x, r, z)   b = DequantizeLinear (a, r, z)   p = Exp (o)   v = DequantizeLinear <axis = 0> (w, p)
  c = Conv <pads = [1, 1, 1, 1]> (b, v)   d = QuantizeLinear (c, t, z)   e = DequantizeLinear (d, t, z)
  f = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (e)   h = QuantizeLinear (f, t, z)
  y = DequantizeLinear (h, t, z) }""",
    # An average of bytes.
    "average": """g (float[2, 8, 6, 6] x) => (float[2, 8, 1, 1] y) <float r = {0.03125}, float t = {0.0625}, int8 z = {3}> {
  a = QuantizeLinear (x, r, z)   b = DequantizeLinear (a, r, z)   c = GlobalAveragePool (b)   d = QuantizeLinear (c, t, z)
  y = DequantizeLinear (d, t, z) }""",
    # Positions and weights that depend on sizes alone.
    "resize": """g (float[1, 2, 6, 6] x) => (float[1, 2, 12, 9] y) <float[4] by = {1, 1, 2, 1.5}> { y = Resize <mode = "linear"> (x, , by) }""",
    # An operand of which only a run knows whether it is broadcast.
    "unknown": """g (float[8] x) => (float[8] y) <float low = {-100}> { c = Greater (x, low)   b = Compress (x, c)   y = Add (x, b) }""",
    # An image of few channels, larger than the one it is made of.
    "upscale": """g (float[2, 16, 6, 8] x) => (float[2, 3, 12, 16] y) <float[16, 3, 4, 4] w = ?, float[3] b = ?> {
  y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w, b) }""",
    # Windows of rows that overlap.
    "windows": """g (float[2, 8, 20, 20] x) => (float[2, 8, 10, 10] y) {
  y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x) }""",
    # Products that differ in a number.
    "scales": """g (float[40, 64] x) => (float[40, 64] y) <float[64, 64] u = ?, float[64, 64] v = ?, float r = {0.5}, float s = {2}> {
  a = MatMul (x, u)   b = Max (a, r)   c = MatMul (b, v)   y = Max (c, s) }""",
    # Two large values that need not exist at the same time.
    "branches": """g (float[8, 64] x) => (float[8, 4] y) <float[64, 512] u = ?, float[64, 512] v = ?, float[512, 4] w = ?> {
  a = MatMul (x, u)   b = MatMul (x, v)   c = MatMul (a, w)   d = MatMul (b, w)   y = Add (c, d) }""",
    # Few channels for several threads.
    "channels": """g (float[1, 4, 180, 192] x) => (float[1, 4, 180, 192] y) <float[4] s = ?, float[4] b = ?> {
  y = InstanceNormalization (x, s, b) }""",
    # Equal nodes, nodes that nobody uses, shapes that are constants, an If.
    "graph": """g (float[6, 4] x) => (float[4, 6] y) <int64[2] by = {4, 6}, float[6, 4] u = ?, float[6, 4] v = ?, bool yes = {1}> {
  a = Exp (x)   b = Exp (x)   w = Add (u, v)   f = Add (a, b)   c = Add (f, w)   unused = Log (c)   d = Reshape (c, by)
  y = If (yes) <then_branch = t () => (float[4, 6] p) { p = Neg (d) }, else_branch = e () => (float[4, 6] q) { q = Abs (d) }> }""",
}
OPTIONS = {"product": ["--blas=cblas"], "channels": ["--threads=4"]}  # that models are compiled with for CPUs
GPU = {"split-sums", "split-attention", "split-stages", "round", "gpu-layout"}  # passes of GPU code
UNSEEN = {"sizes", "state-rows", "phases", "split-attention", "key-ranges", "heads", "states", "round", "precision", "narrow", "spread-rows", "fixed-point", "float-tables", "fixed-rows", "patches", "sink", "exact-halves"}  # they want inputs of open sizes, long keys, large weights, --state, --precision, --max-workspace, tiles, deep quantised networks, and targets without floats
WITH_GPU = {"images", "place"}  # and those that need NVRTC


def model_text(body):
    """'= ?' becomes small numbers on both sides of zero."""
    def fill(found):
        count = math.prod(map(int, found[2].split(",")))
        numbers = ((i * 7 % 13 - 6) / (32 if found[1] == "float" else 1) for i in range(count))
        return f"{found[0][:-1]}{{{', '.join(f'{x:g}' for x in numbers)}}}"

    return '<ir_version: 10, opset_import: ["": 22]>\n' + re.sub(r"(\w+)\[([\d, ]+)\] \w+ = \?", fill, body)


class Passes:
    def __init__(self, onnxc, folder):
        self.onnxc, self.folder, self.passed, self.failed = onnxc, folder, 0, 0
        for name, body in MODELS.items():
            with open(self.path(name), "w") as f:
                f.write(model_text(body))

    def path(self, name):
        return os.path.join(self.folder, f"{name}.txt")

    def run(self, *args):
        return subprocess.run([self.onnxc, *args], capture_output=True, text=True, cwd=self.folder, timeout=120)

    def check(self, good, what, ran):
        self.passed += good
        self.failed += not good
        if not good:
            print(f"{what}:\n{ran.stdout[-1000:]}{ran.stderr[-1000:]}")

    def names(self):
        said = re.search(r"passes: (.*); groups: (.*)", self.run(self.path("graph"), "--print-after=nothing").stderr)
        return said[1].split(", "), said[2].split(", ")

    def changes(self, model, *args):
        """Names of the passes that do something to the model."""
        ran = self.run(self.path(model), "--print-after=all", "--mcpu=x86-64-v3", *args)
        after = re.findall(r"^=== after (\S+) ===\n(.*)", ran.stdout, re.M)
        self.check(ran.returncode == 0, f"--print-after=all {model}", ran)
        return {name for name, line in after if line != "no change"}

    def prints(self, name):
        gpu = ["--device=cuda", "--emit=loops"] if name in GPU else []
        ran = self.run(self.path("halves"), f"--print-after={name}", "--mcpu=x86-64-v3", *gpu, "-o", f"{name}.{'loops' if gpu else 'o'}")
        self.check(ran.returncode == 0 and (f"=== after {name} ===\n" in ran.stdout or name in WITH_GPU), f"--print-after={name}", ran)

    def is_required(self, name):
        return "is required" in self.run(self.path("graph"), f"--disable-pass={name}", "--stop-after=import").stderr

    def right_without(self, name, model):
        inputs = [f"--input={i}=random" for i in re.findall(r"\] (\w+)[,)]", MODELS[model].split("=>")[0])]
        near = ["--rtol=1e-2", "--atol=1e-2"] if model in ("halves", "bytes") else []
        ran = self.run("run", self.path(model), *inputs, *(["--interpret=gpu"] if name in GPU else OPTIONS.get(model, [])),
                       f"--disable-pass={name}", "--compare", "interpret", *near)
        self.check(ran.returncode == 0, f"{model} without {name}", ran)


def main():
    with tempfile.TemporaryDirectory() as folder:
        p = Passes(os.path.abspath(sys.argv[1]), folder)
        rows, groups = p.names()
        harness.parallel(p.prints, rows + groups)
        optional = [name for name in rows if not p.is_required(name)]
        cpu = {model: p.changes(model, "-o", f"{model}.o", *OPTIONS.get(model, [])) for model in MODELS}
        gpu = {model: p.changes(model, "-o", f"{model}.loops", "--device=cuda") for model in MODELS}
        pairs = [(name, model) for name in optional for model in MODELS if name in (gpu if name in GPU else cpu)[model]]
        idle = set(optional) - {name for name, _ in pairs} - UNSEEN
        p.passed, p.failed = p.passed + (not idle), p.failed + bool(idle)
        if idle:
            print("no model shows what these passes do:", ", ".join(sorted(idle)))
        harness.parallel(lambda each: p.right_without(*each), pairs + [(name, "image") for name in groups if not p.is_required(name)])
        print(f"{p.passed} passed, {p.failed} failed, 0 skipped")
        sys.exit(p.failed != 0)


if __name__ == "__main__":
    main()
