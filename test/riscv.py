"""The stage `riscv`: code with RISC-V's vectors (V 1.0) for several lengths of registers, run by emulated CPUs with registers of that
length and of longer ones, against the interpreter; and the instructions that its inner loops must have.

usage: riscv.py. Ends with "N passed, N failed, N skipped"."""
import os
import re
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

import foreign
from harness import BUILD, ONNXC, ROOT, Results, parallel, run

TRIPLE = "riscv64-linux-gnu"
FOLDER = os.path.join(BUILD, "test-riscv")
# (bits that code may assume of a register, 0: there are none; bits that it has)
LENGTHS = [(0, 128), (128, 128), (128, 512), (256, 256), (256, 512), (512, 512)]
BYTES = {"s": (np.int8, TensorProto.INT8), "u": (np.uint8, TensorProto.UINT8)}


class Model:
    def __init__(self, name):
        self.name, self.nodes, self.inputs, self.outputs, self.constants = name, [], {}, [], {}
        self.random = np.random.default_rng(len(name))

    def input(self, kind, *shape):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = helper.make_tensor_value_info(name, kind, shape)
        return name

    def constant(self, array, dtype=None):
        name = f"c{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.asarray(array, dtype), name)
        return name

    def bytes(self, kind, *shape):
        limits = np.iinfo(BYTES[kind][0])
        return self.constant(self.random.integers(limits.min, limits.max + 1, shape), BYTES[kind][0])

    def floats(self, *shape):
        return self.constant(self.random.uniform(-1, 1, shape), np.float32)

    def add(self, op, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [f"t{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def output(self, name, kind):
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))

    def write(self):
        graph = helper.make_graph(self.nodes, "g", list(self.inputs.values()), self.outputs, list(self.constants.values()))
        path = os.path.join(FOLDER, self.name + ".onnx")
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return path


def products():
    """Products of bytes with all signs, with constants and with two inputs, of odd sizes; the sums are exact."""
    m = Model("products")
    for a in BYTES:
        for b in BYTES:
            x = m.input(BYTES[a][1], 37, 53)
            zeros = [m.constant(5, BYTES[a][0]), m.constant(m.random.integers(0, 100, 29), BYTES[b][0])]
            m.output(m.add("MatMulInteger", x, m.bytes(b, 53, 29)), TensorProto.INT32)
            m.output(m.add("MatMulInteger", x, m.bytes(b, 53, 29), *zeros), TensorProto.INT32)
            m.output(m.add("MatMulInteger", m.input(BYTES[a][1], 3, 9, 70), m.input(BYTES[b][1], 3, 70, 33)), TensorProto.INT32)
    x = m.input(TensorProto.UINT8, 1, 11, 9, 7)
    m.output(m.add("ConvInteger", x, m.bytes("s", 21, 11, 3, 3), m.constant(7, np.uint8), pads=[1, 1, 1, 1]), TensorProto.INT32)
    m.output(m.add("MatMulInteger", m.input(TensorProto.INT8, 1, 300), m.bytes("s", 300, 77)), TensorProto.INT32)
    return m


def quantised():
    """Sums that become bytes again: dense, convolutions of all kinds, averages."""
    m = Model("quantised")
    number = lambda v: m.constant(v, np.float32)  # noqa: E731
    for kind in BYTES:
        dtype, element = BYTES[kind]
        zero = m.constant(3, dtype)
        x = m.input(element, 2, 18, 11, 13)
        weights = [m.bytes("s", 33, 18, 3, 3), m.constant(m.random.uniform(1e-3, 2e-3, 33), np.float32), m.constant(np.zeros(33), np.int8)]
        y = m.add("QLinearConv", x, number(0.02), zero, *weights, number(0.05), zero, m.constant(m.random.integers(-999, 999, 33), np.int32),
                  pads=[1, 1, 1, 1])
        m.output(y, element)
        depthwise = [m.bytes("s", 33, 1, 3, 3), number(0.004), m.constant(0, np.int8)]
        z = m.add("QLinearConv", y, number(0.05), zero, *depthwise, number(0.04), zero, group=33, strides=[2, 2], pads=[1, 1, 1, 1])
        m.output(z, element)
        f = m.add("DequantizeLinear", z, number(0.04), zero)
        m.output(m.add("QuantizeLinear", m.add("GlobalAveragePool", f), number(0.02), zero), element)
        m.output(m.add("QLinearMatMul", m.input(element, 23, 41), number(0.02), zero, m.bytes("s", 41, 19), number(0.01), m.constant(0, np.int8),
                       number(0.03), zero), element)
    return m


def floats():
    """Contractions, reductions along each axis, rows and elementwise functions of f32 and f64."""
    m = Model("floats")
    out = lambda name, kind=TensorProto.FLOAT: m.output(name, kind)  # noqa: E731
    x = m.input(TensorProto.FLOAT, 29, 67)
    out(m.add("Gemm", x, m.floats(67, 51), m.floats(51)))
    out(m.add("MatMul", m.input(TensorProto.FLOAT, 2, 13, 31), m.input(TensorProto.FLOAT, 2, 31, 21)))
    out(m.add("MatMul", m.input(TensorProto.DOUBLE, 9, 20), m.constant(m.random.uniform(-1, 1, (20, 11)), np.float64)), TensorProto.DOUBLE)
    image = m.input(TensorProto.FLOAT, 1, 19, 11, 9)
    out(m.add("Relu", m.add("Conv", image, m.floats(37, 19, 3, 3), pads=[1, 1, 1, 1])))
    out(m.add("Conv", image, m.floats(19, 1, 3, 3), group=19, strides=[2, 2]))
    out(m.add("MaxPool", image, kernel_shape=[3, 3], strides=[2, 2]))
    out(m.add("Transpose", image, perm=[0, 2, 3, 1]))
    for axis in (0, 1):
        out(m.add("Softmax", x, axis=axis))
        out(m.add("ReduceMax", x, m.constant([axis], np.int64)))
        out(m.add("ReduceSum", x, m.constant([axis], np.int64)))
    out(m.add("LayerNormalization", x, m.floats(67), m.floats(67)))
    for op in ("Exp", "Tanh", "Erf", "Sigmoid", "Floor", "Round", "Sqrt"):
        out(m.add(op, x))
    out(m.add("Cast", x, to=TensorProto.INT8), TensorProto.INT8)
    out(m.add("Gather", x, m.constant(m.random.integers(0, 67, 40), np.int64), axis=1))
    q, k, v = (m.input(TensorProto.FLOAT, 2, 25, 32) for _ in range(3))
    scores = m.add("Softmax", m.add("MatMul", q, m.add("Transpose", k, perm=[0, 2, 1])))
    out(m.add("MatMul", scores, v))
    return m


def halves():
    m = Model("halves")
    weights = m.constant(m.random.uniform(-1, 1, (45, 39)), np.float16)
    m.output(m.add("Relu", m.add("MatMul", m.input(TensorProto.FLOAT16, 21, 45), weights)), TensorProto.FLOAT16)
    m.output(m.add("Cast", m.input(TensorProto.FLOAT, 77), to=TensorProto.FLOAT16), TensorProto.FLOAT16)
    return m


def panels():
    """Constants packed in panels as wide as four registers, of several types; few columns, or some beyond the last panel; few rows and many."""
    m = Model("panels")
    for columns in (17, 40, 150):
        for rows in (3, 70):
            x = m.input(TensorProto.FLOAT, rows, 96)
            half = m.constant(m.random.uniform(-1, 1, (96, columns)), np.float16)
            m.output(m.add("MatMul", x, m.add("Cast", half, to=TensorProto.FLOAT)), TensorProto.FLOAT)
            scales = m.constant(m.random.uniform(0.01, 0.02, (3, columns)), np.float32)
            for kind in (TensorProto.INT8, TensorProto.INT4):
                few = 8 if kind == TensorProto.INT4 else 128
                name = f"c{len(m.constants)}"
                m.constants[name] = helper.make_tensor(name, kind, (96, columns), m.random.integers(-few, few, 96 * columns))
                m.output(m.add("MatMul", x, m.add("DequantizeLinear", name, scales, axis=0, block_size=32)), TensorProto.FLOAT)
        m.output(m.add("MatMul", m.input(TensorProto.DOUBLE, 33, 20), m.constant(m.random.uniform(-1, 1, (20, columns)), np.float64)), TensorProto.DOUBLE)
    return m


def transposes():
    """Elements of all sizes, in sizes that vectors divide and others, also while they are converted."""
    m = Model("transposes")
    for kind in (TensorProto.INT8, TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE):
        for shape in ((2, 64, 28), (3, 37, 131), (5, 6, 7)):
            x = m.input(kind, *shape)
            for perm in ((0, 2, 1), (2, 1, 0), (1, 2, 0)):
                m.output(m.add("Transpose", x, perm=perm), kind)
    x = m.add("DequantizeLinear", m.input(TensorProto.UINT8, 37, 131), m.constant(0.5, np.float32), m.constant(7, np.uint8))
    m.output(m.add("Transpose", x, perm=(1, 0)), TensorProto.FLOAT)
    back = m.add("Transpose", m.input(TensorProto.FLOAT, 37, 131), perm=(1, 0))
    m.output(m.add("QuantizeLinear", back, m.constant(0.02, np.float32), m.constant(7, np.uint8)), TensorProto.UINT8)
    return m


# (model, extensions of its CPUs, how near answers must be)
def by_channel():
    """A depthwise convolution alone, of sums that take pairs of registers."""
    m = Model("by_channel")
    step, zero = m.constant(0.02, np.float32), m.constant(3, np.int8)
    m.output(m.add("QLinearConv", m.input(TensorProto.INT8, 1, 64, 7, 9), step, zero, m.bytes("s", 64, 1, 3, 3), step, m.constant(0, np.int8), step, zero,
                   group=64, pads=[1, 1, 1, 1]), TensorProto.INT8)
    return m


MODELS = [(by_channel, "", ["--rtol=0", "--atol=0"]), (products, "", ["--rtol=0", "--atol=0"]), (quantised, "", ["--rtol=0", "--atol=0"]), (floats, "", []), (panels, "", []),
          (transposes, "", ["--rtol=0", "--atol=0"]), (halves, "", ["--atol=0.02"]),
          (halves, "_zfh_zvfh", ["--atol=0.02"])]
LIMITS = {TensorProto.INT8: "-128..127", TensorProto.UINT8: "0..255", TensorProto.FLOAT: "-3..3", TensorProto.FLOAT16: "-2..2", TensorProto.DOUBLE: "-3..3"}


def answers(results, runtime, model, path, extensions, near, length, own):
    cpu = f"rv64,v=true,vext_spec=v1.0,vlen={own}" + (",Zfh=true" if extensions else "")
    inputs = [w for name, info in model.inputs.items() for w in ("--input", f"{name}=random:{LIMITS[info.type.tensor_type.elem_type]}")]
    march = f"rv64gcv_zvl{length}b{extensions}" if length else "rv64gc"
    ran = run([ONNXC, "run", path, f"--target={TRIPLE}", f"-march={march}", "--threads=1", f"--runtime={runtime}",
               f"--linker={TRIPLE}-gcc", f"--runner=qemu-riscv64 -L /usr/{TRIPLE} -cpu {cpu}", *inputs, "--compare=interpret", *near], timeout=240)
    results.check(ran.code == 0, f"{model.name}{extensions} for {length} bits on {own}", ran.out[-600:] + ran.why())


def level(results, runtime, plugin, path, own, vectors):
    """The default object on a CPU with registers of so many bits, 0: without vectors: which of its variants runs."""
    cpu = f"rv64,v=true,vext_spec=v1.0,vlen={own}" if own else "rv64"
    ran = run([ONNXC, "run", path, f"--target={TRIPLE}", "--threads=1", f"--runtime={runtime}", f"--linker={TRIPLE}-gcc",
               f"--runner=qemu-riscv64 -L /usr/{TRIPLE} -plugin {plugin} -cpu {cpu}", "--dim=N=9", "--input", "a=random",
               "--input", "b=random", "--compare=interpret"], timeout=240)
    count = re.search(r"^multiply-adds (\d+)", ran.text, re.MULTILINE)
    results.check(ran.code == 0 and count and (int(count[1]) > 0) == vectors, f"levels on {own} bits", ran.text[-600:] + ran.why())


def levels(results, runtime):
    plugin, path = os.path.join(FOLDER, "count.so"), os.path.join(ROOT, "test", "cross", "product.onnxtxt")
    made = run(["cc", "-shared", "-fPIC", "-O1", os.path.join(ROOT, "test", "cross", "count_plugin.c"), "-o", plugin])
    if results.check(made.code == 0, "the plugin", made.why()):
        parallel(lambda job: level(results, runtime, plugin, path, *job), [(0, False), (128, True), (256, True)])


def instructions(path, march):
    code = path.replace(".onnx", f".{march}.o")
    made = run([ONNXC, path, f"--target={TRIPLE}", f"-march={march}", "--threads=1", "-o", code], timeout=120)
    shown = run(["llvm-objdump-19", "-d", "--no-show-raw-insn", code], timeout=60)
    return made, re.findall(r"^\s+[0-9a-f]+:\s+(.*?)\s*$", shown.out, re.MULTILINE)


# (model, -march, what must occur, what must not)
EXPECTED = [("products", "rv64gcv", [r"vwmacc\.vx", r"vsext\.vf2", r"vwmaccus\.vx|vwmacc\.vx", r"vset.*e32, m4"], [r"vmacc\.vv", r"vmadd\.vv"]),
            ("products", "rv64gcv_zvl256b", [r"vwmacc\.vx", r"vset.*e16, m2", r"vset.*e32, m4"], [r"vmacc\.vv", r"vmadd\.vv"]),
            ("products", "rv64gcv_zvl512b", [r"vwmacc\.vx", r"vset.*e16, m2"], [r"vmacc\.vv", r"vmadd\.vv"]),
            ("by_channel", "rv64gcv", [r"vset.*e32, m2"], []), ("by_channel", "rv64gcv_zvl512b", [r"vset.*e32, m2"], []),
            ("quantised", "rv64gcv", [r"vwmacc\.vx", r"vfcvt\.x\.f\.v", r"vnclip\.wi", r"vset.*e32, m4"], [r"vfcvt\.rtz"]),
            ("floats", "rv64gcv", [r"vfmacc\.vf", r"vset.*e32, m4", r"vset.*e64, m4"], []),
            ("floats", "rv64gcv_zvl256b", [r"vfmacc\.vf", r"vset.*e32, m4"], []),
            ("floats", "rv64gcv_zvl512b", [r"vfmacc\.vf", r"vset.*e32, m4"], []),
            ("halves", "rv64gcv_zfh_zvfh", [r"vfwcvt\.f\.f\.v|vfwmacc", r"vfncvt\.f\.f\.w"], []),
            ("transposes", "rv64gcv", [r"vlse8\.v", r"vlse16\.v", r"vlse32\.v", r"vlse64\.v"], [r"vrgather"]),
            ("floats", "rv64gc", [r"fmadd\.s"], [r"v[a-z]+\.v[a-z]*", r"vset"])]


def look(results, paths, name, march, wanted, unwanted):
    made, found = instructions(paths[name], march)
    if not results.check(made.code == 0 and found, f"{name} for {march}", made.why()):
        return
    for pattern in wanted:
        results.check(any(re.match(pattern, line) for line in found), f"{name} for {march}: {pattern} occurs")
    for pattern in unwanted:
        line = next((line for line in found if re.match(pattern, line)), None)
        results.check(line is None, f"{name} for {march}: no {pattern}", line)


def riscv(results):
    os.makedirs(FOLDER, exist_ok=True)
    runtime = foreign.runtime_for(results, TRIPLE)
    if not runtime:
        return
    models = {make: make() for make, _, _ in MODELS}
    paths = {m.name: m.write() for m in models.values()}
    parallel(lambda job: answers(results, runtime, models[job[0]], paths[models[job[0]].name], *job[1:]),
             [(*row, *lengths) for row in MODELS for lengths in LENGTHS])
    parallel(lambda job: look(results, paths, *job), EXPECTED)
    levels(results, runtime)


def main():
    results = Results("riscv")
    riscv(results)
    sys.exit(results.report())


if __name__ == "__main__":
    main()
