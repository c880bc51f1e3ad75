"""Models compiled for several sizes (--dim N=1,8,1:64): right answers at each size and between, errors elsewhere, weights
once, the same bytes again. Bytes of code for all CPU levels. usage: sizes.py ONNXC"""
import itertools
import os
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
from harness import Results
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ONNXC = os.path.abspath(sys.argv[1])
RANDOM = numpy.random.default_rng(5)
RESULTS = Results("sizes")
check = RESULTS.check


def weights(name, *shape):
    return numpy_helper.from_array(RANDOM.standard_normal(shape, dtype=numpy.float32), name)


def tensor(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def save(path, nodes, inputs, outputs, constants, opset=18):
    graph = helper.make_graph(nodes, os.path.basename(path)[:-5], inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10 if opset > 20 else 9), path)


def blocks(name, k, n):
    """Weights of 4 bits with a scale for each block of 32 along K."""
    packed = TensorProto(name=name, data_type=TensorProto.INT4, dims=[k, n], raw_data=RANDOM.integers(0, 256, k * n // 2, numpy.uint8).tobytes())
    scales = (0.5 + RANDOM.random((k // 32, n), numpy.float32)) / 64
    node = helper.make_node("DequantizeLinear", [name, name + ".scale"], [name + ".real"], axis=0, block_size=32)
    return node, [packed, numpy_helper.from_array(scales, name + ".scale")]


def make_models(folder):
    """A network of products over N rows, convolutions over N images of S columns, and rows that the data choose."""
    node = helper.make_node
    save(f"{folder}/rows.onnx",
         [node("MatMul", ["x", "a"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "b"], ["g"]),
          node("Softmax", ["g"], ["y"], axis=1)],
         [tensor("x", "N", 96)], [tensor("y", "N", 40)], [weights("a", 96, 128), weights("b", 128, 40)])
    save(f"{folder}/images.onnx",
         [node("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]), node("Relu", ["h"], ["r"]),
          node("Conv", ["r", "v"], ["y"], strides=[2, 2])],
         [tensor("x", "N", 16, 20, "S")], [tensor("y", None, 24, None, None)], [weights("w", 32, 16, 3, 3), weights("v", 24, 32, 3, 3)])
    save(f"{folder}/chosen.onnx",
         [node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["i"]), node("Transpose", ["i"], ["t"], perm=[1, 0]),
          node("GatherND", ["x", "t"], ["y"])],
         [tensor("x", "N", 5)], [tensor("y", "K")], [])
    (first, a), (second, b) = blocks("a", 128, 192), blocks("b", 192, 160)
    save(f"{folder}/phases.onnx",
         [first, second, node("MatMul", ["x", "a.real"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "b.real"], ["y"])],
         [tensor("x", "N", 128)], [tensor("y", "N", 160)], [*a, *b], 21)


def run(*command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def answer(folder, model, options, x):
    numpy.save(f"{folder}/x.npy", x)
    if os.path.exists(f"{folder}/y.npy"):
        os.remove(f"{folder}/y.npy")
    ran = run(ONNXC, "run", model, *options, "--input", "x=x.npy", "--output", "y=y.npy", folder=folder)
    return ran, numpy.load(f"{folder}/y.npy") if ran.returncode == 0 else None


def close(got, want):
    """Sums of many products are right to a share of the largest value."""
    return got.shape == want.shape and numpy.abs(got - want).max(initial=0) <= 2e-4 * numpy.abs(want).max(initial=1)


def check_answers(folder, model, options, shapes):
    """Of the loaded code, the interpreter, C text, and a shared library for three CPU levels."""
    reference = ReferenceEvaluator(f"{folder}/{model}")
    made = run(ONNXC, model, *options, "-o", "model.so", folder=folder)
    check(made.returncode == 0, f"{model} {options} -o model.so", made.stderr)
    for shape in shapes:
        x = RANDOM.standard_normal(shape, dtype=numpy.float32)
        want = reference.run(None, {"x": x})[0]
        for program, more in ((model, options), (model, [*options, "--interpret"]), (model, [*options, "--emit=c"]), ("./model.so", [])):
            ran, got = answer(folder, program, more, x)
            check(got is not None and close(got, want), f"{program} {more} {shape}", ran.stderr or "another answer")


def check_errors(folder, model, options, shapes, message):
    run(ONNXC, model, *options, "-o", "model.so", folder=folder)
    for shape in shapes:
        x = numpy.zeros(shape, dtype=numpy.float32)
        for program, more in ((model, options), (model, [*options, "--interpret"]), ("./model.so", [])):
            ran, _ = answer(folder, program, more, x)
            check(ran.returncode == 1 and message in ran.stderr, f"{program} {more} {shape}", f"{ran.returncode} {ran.stderr}")


def symbols(folder, path):
    return [line.split()[-1] for line in run("nm", path, folder=folder).stdout.splitlines()]


def check_object(folder):
    """One copy of the weights, versions under their names, the same bytes again and from elsewhere."""
    options = ["--dim", "N=1,8,1:64", "--multiversion=x86-64-v3"]
    for name in ("a.o", "b.o"):
        made = run(ONNXC, "rows.onnx", "--name=rows", *options, "-o", name, folder=folder)
        check(made.returncode == 0, name, made.stderr)
    first, second = (open(f"{folder}/{n}", "rb").read() for n in ("a.o", "b.o"))
    check(first == second, "the same bytes")
    piped = run("sh", "-c", f"{ONNXC} - --name=rows {' '.join(options)} -o c.o <rows.onnx", folder=folder)
    check(piped.returncode == 0 and open(f"{folder}/c.o", "rb").read() == first, "the model through a pipe", piped.stderr)
    names = symbols(folder, "a.o")
    for function in ("rows_run", "rows_run_N1", "rows_run_N8", "rows_run_any"):
        check(function in names, function, names)
    for threads, flag in ((1, 0), (2, 1)):  # a library whose threads wait must not be unloaded
        run(ONNXC, "images.onnx", "--dim", "N=4", "--dim", "S=64", f"--threads={threads}", "-o", "images.so", folder=folder)
        shown = run("readelf", "-dW", "images.so", folder=folder).stdout
        check(shown.count("NODELETE") == flag, f"--threads={threads}: NODELETE", shown)
    data = [n for n in names if n.startswith("rows_data")]
    check(len(data) == 2, "two weights, each once", data)


def check_phases(folder):
    """One row and many: two kernels for each product over the same packed weights."""
    check_answers(folder, "phases.onnx", ["--dim", "N=1,2:512"], [(n, 128) for n in (1, 2, 3, 17, 512)])
    check_errors(folder, "phases.onnx", ["--dim", "N=1,2:512"], [(0, 128), (513, 128)], "N must be from 1 to 512")
    for options in (["--dim", "N=1,2:512"], ["--dim", "N=1,2:512", "--precision=bf16"]):
        made = run(ONNXC, "phases.onnx", "--name=phases", *options, "-o", "two.o", folder=folder)
        check(made.returncode == 0, "phases", made.stderr)
        data = [n for n in symbols(folder, "two.o") if n.startswith("phases_data")]
        check(len(data) == 4, f"phases {options}: weights and scales, each once", data)


FREESTANDING = """
#include "rows.h"
#include <stdio.h>
static float x[96 * 16], y[40 * 16];
static _Alignas(64) char workspace[1 << 20];
int main(void) {
    if (fread(x, 1, sizeof x, stdin) != sizeof x) return 1;
    for (int64_t n = 0; n < 10; n++) {
        rows_in in = {n, x};
        rows_out out = {-1, y};
        long long size = (long long)rows_workspace_bytes(n);
        int code = rows_run(&in, &out, workspace, sizeof workspace);
        printf("%d %d %lld\\n", code, (int)out.y_dim0, size);
        fwrite(y, sizeof *y, 40 * (size_t)n, stderr);
    }
}
"""


def check_freestanding(folder):
    """Through the structs, without the generic interface."""
    open(f"{folder}/main.c", "w").write(FREESTANDING)
    made = run("sh", "-c", f"{ONNXC} rows.onnx --freestanding --name=rows --dim N=1,8,3:5 -o rows.o && "
               "cc -no-pie main.c rows.o -o main", folder=folder)
    if not check(made.returncode == 0, "freestanding", made.stderr):
        return
    x = RANDOM.standard_normal((16, 96), dtype=numpy.float32)
    ran = subprocess.run([f"{folder}/main"], input=x.tobytes(), capture_output=True, timeout=60)
    got, at = numpy.frombuffer(ran.stderr, numpy.float32), 0
    reference = ReferenceEvaluator(f"{folder}/rows.onnx")
    for n, line in enumerate(ran.stdout.decode().splitlines()):
        code, rows, size = map(int, line.split())
        y, at = got[at:at + 40 * n].reshape(n, 40), at + 40 * n
        if n in (1, 3, 4, 5, 8):
            good = code == 0 and rows == n and 0 <= size < 2 ** 20 and close(y, reference.run(None, {"x": x[:n]})[0])
        else:
            good = code == 2 and size == -1
        check(good, f"freestanding N={n}", line)


def byte_network(path, count=8, channels=32):
    """Residual blocks of quantised convolutions, each with scales of its own, as tools make them."""
    nodes, constants = [], []

    def constant(array):
        constants.append(numpy_helper.from_array(array, f"c{len(constants)}"))
        return constants[-1].name

    def scale():
        return [constant(numpy.float32(RANDOM.uniform(0.01, 0.02))), constant(numpy.uint8(RANDOM.integers(100, 140)))]

    def node(op, *inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [f"t{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def quantised(x):
        own = scale()
        return node("DequantizeLinear", node("QuantizeLinear", x, *own), *own)

    def conv(x):
        bytes_of = constant(RANDOM.integers(-127, 128, (channels, channels, 3, 3)).astype(numpy.int8))
        w = node("DequantizeLinear", bytes_of, constant(RANDOM.uniform(1e-3, 2e-3, channels).astype(numpy.float32)),
                 constant(numpy.zeros(channels, numpy.int8)), axis=0)
        bias = constant(RANDOM.standard_normal(channels, dtype=numpy.float32))
        return quantised(node("Conv", x, w, bias, pads=[1, 1, 1, 1]))

    x = quantised("x")
    for _ in range(count):
        x = quantised(node("Add", conv(conv(x)), x))
    nodes.append(helper.make_node("Relu", [x], ["y"]))
    save(path, nodes, [tensor("x", 1, channels, 28, 28)], [tensor("y", None, None, None, None)], constants)


def pyramid_network(path, levels=5, channels=32):
    """A head with its weights on maps whose sizes are multiples of the input's."""
    node, nodes, outputs = helper.make_node, [], []
    constants = [weights("w", channels, channels, 3, 3), weights("v", 40, channels, 1, 1)]
    for j in range(levels):
        constants.append(numpy_helper.from_array(numpy.array([1, 1, 2**j, 2**j], numpy.float32), f"by{j}"))
        nodes += [node("Resize", ["x", "", f"by{j}"], [f"p{j}"], mode="nearest"), node("Conv", [f"p{j}", "w"], [f"h{j}"], pads=[1, 1, 1, 1]),
                  node("Relu", [f"h{j}"], [f"r{j}"]), node("Conv", [f"r{j}", "v"], [f"o{j}"])]
        outputs.append(tensor(f"o{j}", None, None, None, None))
    save(path, nodes, [tensor("x", 1, channels, "H", "W")], outputs, constants)


def layers_network(path, sizes=(256, 512, 384, 1024, 256, 640)):
    """Products that differ in their sizes."""
    nodes, constants, x = [], [], "x"
    for j, (k, n) in enumerate(itertools.pairwise(sizes)):
        constants.append(numpy_helper.from_array(RANDOM.standard_normal((k, n), dtype=numpy.float32) / numpy.float32(k), f"w{j}"))
        nodes += [helper.make_node("MatMul", [x, f"w{j}"], [f"h{j}"]), helper.make_node("Tanh", [f"h{j}"], [f"r{j}"])]
        x = f"r{j}"
    nodes.append(helper.make_node("Relu", [x], ["y"]))
    save(path, nodes, [tensor("x", "N", sizes[0])], [tensor("y", "N", sizes[-1])], constants)


def epilogue_network(path):
    """Products with the same number of elements, of weights of 4 bits, that differ in what follows them."""
    node, nodes, constants, x = helper.make_node, [], [], "x"
    for after in ("Relu", "Add", "Mul", "Sigmoid"):
        made, data = blocks(after, 512, 512)
        second = [x] if after in ("Add", "Mul") else []
        nodes += [made, node("MatMul", [x, f"{after}.real"], [f"{after}.sums"]), node(after, [f"{after}.sums", *second], [f"{after}.y"])]
        constants += data
        x = f"{after}.y"
    save(path, nodes, [tensor("x", "N", 512)], [tensor(x, "N", 512)], constants, 21)


def residual_network(path, k, n=48):
    """A product that is added to its input: the result may have that input's memory."""
    node = helper.make_node
    weight = numpy_helper.from_array(RANDOM.standard_normal((k, n), dtype=numpy.float32) / numpy.float32(k), "w")
    save(path, [node("Tanh", ["x"], ["a"]), node("MatMul", ["a", "w"], ["h"]), node("Exp", ["h"], ["g"]),
                node("MatMul", ["a", "w"], ["p"]), node("Add", ["p", "g"], ["y"])],
         [tensor("x", "N", k)], [tensor("y", "N", n)], [weight])


def image_network(path, blocks=6, channels=24):
    """Blocks of convolutions with a residual, for images of any size."""
    node, nodes, constants, x = helper.make_node, [], [], "x"
    for j in range(blocks):
        wide = channels + 16 * j
        constants += [weights(f"a{j}", wide, channels, 1, 1), weights(f"b{j}", channels, wide, 3, 3)]
        nodes += [node("Conv", [x, f"a{j}"], [f"p{j}"]), node("HardSwish", [f"p{j}"], [f"h{j}"]),
                  node("Conv", [f"h{j}", f"b{j}"], [f"c{j}"], pads=[1, 1, 1, 1]), node("Add", [f"c{j}", x], [f"y{j}"])]
        x = f"y{j}"
    save(path, nodes, [tensor("x", 1, channels, "H", "W")], [tensor(x, 1, channels, "H", "W")], constants)


def mobile_network(path, sizes=(16, 24, 40, 72, 24)):
    """Blocks of a 1x1, a depthwise and another 1x1 convolution around channels that are weighted by their means."""
    nodes, constants = [], []

    def node(op, *inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [f"t{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def conv(x, *shape, **attributes):
        constants.extend([weights(f"w{len(constants)}", *shape), weights(f"b{len(constants)}", shape[0])])
        return node("Conv", x, constants[-2].name, constants[-1].name, **attributes)

    x = "x"
    for before, after in itertools.pairwise(sizes):
        wide = 3 * before + 8
        y = node("HardSwish", conv(x, wide, before, 1, 1))
        y = node("HardSwish", conv(y, wide, 1, 3, 3, group=wide, pads=[1, 1, 1, 1]))
        mean = node("Relu", conv(node("GlobalAveragePool", y), 16, wide, 1, 1))
        y = node("Mul", y, node("HardSigmoid", conv(mean, wide, 16, 1, 1)))
        x = conv(y, after, wide, 1, 1)
    nodes[-1].output[0] = "y"
    save(path, nodes, [tensor("x", "N", sizes[0], "H", "W")], [tensor("y", "N", sizes[-1], "H", "W")], constants)


def means_network(path, channels=366):
    """Means over the images of any number of samples, which share nothing; the channels are no whole number of vectors."""
    node = helper.make_node
    save(path, [node("Conv", ["x", "w"], ["h"]), node("GlobalAveragePool", ["h"], ["m"]), node("Conv", ["m", "v"], ["y"])],
         [tensor("x", "N", 16, 6, 6)], [tensor("y", "N", 20, 1, 1)], [weights("w", channels, 16, 1, 1), weights("v", 20, channels, 1, 1)])


def classes_network(path, classes=12):
    """The rows that each class has, beside its number, which fills of computed sizes repeat."""
    node, nodes, constants, parts = helper.make_node, [], [], []
    constants.append(numpy_helper.from_array(numpy.array([0.5], numpy.float32), "least"))
    for j in range(classes):
        constants.append(numpy_helper.from_array(numpy.array(j), f"at{j}"))
        number = numpy_helper.from_array(numpy.array([j]), f"of{j}")
        nodes += [node("Gather", ["x", f"at{j}"], [f"g{j}"], axis=1), node("Greater", [f"g{j}", "least"], [f"m{j}"]),
                  node("NonZero", [f"m{j}"], [f"rows{j}"]), node("Shape", [f"rows{j}"], [f"s{j}"]),
                  node("ConstantOfShape", [f"s{j}"], [f"number{j}"], value=number)]
        parts += [f"rows{j}", f"number{j}"]
    nodes += [node("Concat", parts, ["all"], axis=1), node("Cast", ["all"], ["y"], to=TensorProto.FLOAT)]
    save(path, nodes, [tensor("x", "N", classes)], [tensor("y", 1, "K")], constants)


def resized_network(path):
    """A convolution to which a smaller map is added: its epilogue reads at positions that are data."""
    node = helper.make_node
    save(path, [node("Conv", ["x", "w", "b"], ["c"]), node("Shape", ["c"], ["s"]), node("Resize", ["z", "", "", "s"], ["r"], mode="nearest"),
                node("Add", ["c", "r"], ["y"])],
         [tensor("x", 1, 256, "H", "W"), tensor("z", 1, 128, "h", "v")], [tensor("y", None, None, None, None)],
         [weights("w", 128, 256, 1, 1), weights("b", 128)])


def square_network(path):
    """Convolutions of images whose 40 columns a height of tiles divides."""
    node = helper.make_node
    save(path, [node("Conv", ["x", "w"], ["h"]), node("Relu", ["h"], ["r"]), node("Conv", ["r", "v"], ["g"]), node("Relu", ["g"], ["y"])],
         [tensor("x", 1, 64, 40, 40)], [tensor("y", None, None, None, None)], [weights("w", 192, 64, 1, 1), weights("v", 48, 192, 1, 1)])


def strided_network(path, channels=40):
    """Images whose height and width follow from those of the input, with a residual connection on either side of a sum."""
    node = helper.make_node
    save(path, [node("Conv", ["x", "a"], ["h"], strides=[2, 2], pads=[1, 1, 1, 1]), node("Relu", ["h"], ["r"]), node("Conv", ["r", "b"], ["p"]),
                node("Add", ["p", "r"], ["q"]), node("Conv", ["q", "c"], ["s"], pads=[1, 1, 1, 1]), node("Add", ["q", "s"], ["t"]),
                node("Conv", ["t", "d"], ["y"], strides=[2, 2])],
         [tensor("x", "N", 3, "H", "W")], [tensor("y", None, None, None, None)],
         [weights("a", channels, 3, 3, 3), weights("b", channels, channels, 1, 1), weights("c", channels, channels, 3, 3), weights("d", 72, channels, 1, 1)])


def remainder_network(path):
    """Remainders of 64 bits, of which vectors have none."""
    node = helper.make_node
    save(path, [node("Cast", ["x"], ["i"], to=TensorProto.INT64), node("Mod", ["i", "by"], ["m"]), node("Gather", ["t", "m"], ["g"]), node("Mod", ["g", "by"], ["n"]),
                node("Cast", ["n"], ["y"], to=TensorProto.FLOAT)],
         [tensor("x", "N")], [tensor("y", "N")],
         [numpy_helper.from_array(numpy.array(91), "by"), numpy_helper.from_array(numpy.arange(91) * 7, "t")])


def parts_network(path, parts=60):
    """Parts of open lengths, the starts of which are sums of lengths."""
    names = [f"x{j}" for j in range(parts)]
    save(path, [helper.make_node("Concat", names, ["y"], axis=0)], [tensor(n, f"N{j}", 4) for j, n in enumerate(names)],
         [tensor("y", "N", 4)], [])


def check_rows(folder):
    """Any number of rows, with sums that are added to their memory, and with sums in parts."""
    for k in (40, 2560):
        residual_network(f"{folder}/residual.onnx", k)
        reference = ReferenceEvaluator(f"{folder}/residual.onnx")
        for level in ("--mcpu=x86-64-v2", "--mcpu=x86-64-v3", "--mcpu=x86-64-v4", "--multiversion=x86-64-v2"):
            made = run(ONNXC, "residual.onnx", level, "-o", "rows.so", folder=folder)
            check(made.returncode == 0, f"K={k} {level}", made.stderr)
            for n in range(1, 31):
                x = RANDOM.standard_normal((n, k), dtype=numpy.float32)
                ran, got = answer(folder, "./rows.so", [], x)
                check(got is not None and close(got, reference.run(None, {"x": x})[0]), f"{n} rows, K={k} {level}", ran.stderr)


def check_pixels(folder):
    """Images of fewer positions than a tile has rows."""
    strided_network(f"{folder}/strided.onnx")
    reference = ReferenceEvaluator(f"{folder}/strided.onnx")
    for level in ("--mcpu=x86-64-v3", "--mcpu=x86-64-v4", "--multiversion=x86-64-v2", "--multiversion=x86-64-v3"):
        made = run(ONNXC, "strided.onnx", level, "-o", "pixels.so", folder=folder)
        check(made.returncode == 0, f"pixels {level}", made.stderr)
        for n, h, w in ((1, 1, 1), (2, 1, 1), (1, 2, 3), (1, 3, 4), (3, 4, 1), (1, 5, 3), (1, 1, 9), (2, 6, 5), (1, 11, 12), (1, 23, 26)):
            x = RANDOM.standard_normal((n, 3, h, w), dtype=numpy.float32)
            ran, got = answer(folder, "./pixels.so", [], x)
            check(got is not None and close(got, reference.run(None, {"x": x})[0]), f"{n} images of {h}x{w}, {level}", ran.stderr)


def code_bytes(folder, model, *options):
    """Of the sections of an object that are executed; None: not compiled."""
    made = run(ONNXC, model, "--target", "x86_64-linux-gnu", *options, "-o", "all.o", folder=folder)
    if not check(made.returncode == 0, f"{model} {options} -o all.o", made.stderr):
        return None
    rows = re.findall(r"^ +\[ *\d+\] \S+ +PROGBITS +\w+ \w+ (\w+) \w+ +(\w+)", run("readelf", "-SW", "all.o", folder=folder).stdout, re.M)
    return sum(int(size, 16) for size, flags in rows if "X" in flags)


def check_code(folder):
    """All CPU levels: kernels that differ only in numbers, among them sizes, or use no feature of their level are stored once."""
    byte_network(f"{folder}/bytes.onnx")
    pyramid_network(f"{folder}/pyramid.onnx")
    layers_network(f"{folder}/layers.onnx")
    check_answers(folder, "layers.onnx", [], [(n, 256) for n in (1, 9, 33)])
    epilogue_network(f"{folder}/epilogues.onnx")
    image_network(f"{folder}/blocks.onnx")
    parts_network(f"{folder}/parts.onnx")
    mobile_network(f"{folder}/mobile.onnx")
    means_network(f"{folder}/means.onnx")
    classes_network(f"{folder}/classes.onnx")
    resized_network(f"{folder}/resized.onnx")
    square_network(f"{folder}/square.onnx")
    remainder_network(f"{folder}/remainder.onnx")
    check_answers(folder, "classes.onnx", [], [(1, 12), (37, 12)])
    check_answers(folder, "mobile.onnx", ["--multiversion=x86-64-v2"], [(1, 16, 7, 3), (3, 16, 2, 9)])
    check_answers(folder, "means.onnx", ["--multiversion=x86-64-v2"], [(1, 16, 6, 6), (3, 16, 6, 6), (17, 16, 6, 6)])
    for model, options, most in (("parts.onnx", ["--threads", "1"], 20600), ("epilogues.onnx", ["--threads", "1"], 92000), ("bytes.onnx", [], 51000),
                                 ("images.onnx", ["--dim", "S=20", "--precision=bf16"], 33500), ("pyramid.onnx", [], 106500), ("pyramid.onnx", ["-g"], 107500), ("layers.onnx", [], 43500),
                                 ("blocks.onnx", [], 251500), ("mobile.onnx", [], 146500), ("classes.onnx", ["--threads", "1"], 16800), ("resized.onnx", [], 21200),
                                 ("square.onnx", ["--mcpu=x86-64-v4"], 7500), ("means.onnx", [], 24200), ("remainder.onnx", [], 2500)):
        got = code_bytes(folder, model, *options)
        check(got is not None and got <= most, f"code of {model} {options}", f"{got} bytes, more than {most}")
    check_parts(folder)
    check_rolled(folder)
    check_tasks(folder)
    check_unwinding(folder)
    check_minor(folder)
    check_host_code(folder)


def chain_network(path, layers):
    """Layers of one shape and with one matrix, which calls of the same kernels compute."""
    node, nodes = helper.make_node, []
    for j in range(layers):
        nodes += [node("MatMul", [f"s{j - 1}" if j else "x", "w"], [f"m{j}"]), node("Softmax", [f"m{j}"], [f"s{j}"], axis=-1)]
    nodes.append(node("Neg", [f"s{layers - 1}"], ["y"]))
    save(path, nodes, [tensor("x", "N", 8)], [tensor("y", "N", 8)], [weights("w", 8, 8)])


def check_rolled(folder):
    """Calls that repeat are a loop: more of them take no more code, whatever they compute."""
    sizes = []
    for layers in (20, 200):
        chain_network(f"{folder}/chain.onnx", layers)
        sizes.append(code_bytes(folder, "chain.onnx", "--threads", "1"))
    check_answers(folder, "chain.onnx", [], [(1, 8), (37, 8)])
    check(sizes[1] <= sizes[0] + 64, "code of more layers", f"{sizes} bytes")


def check_parts(folder):
    """Parts of all lengths, none among them."""
    parts = [RANDOM.standard_normal((n % 7, 4), dtype=numpy.float32) for n in range(60)]
    for j, x in enumerate(parts):
        numpy.save(f"{folder}/x{j}.npy", x)
    given = [word for j in range(len(parts)) for word in ("--input", f"x{j}=x{j}.npy")]
    ran = run(ONNXC, "run", "parts.onnx", *given, "--output", "y=y.npy", folder=folder)
    right = ran.returncode == 0 and numpy.array_equal(numpy.load(f"{folder}/y.npy"), numpy.concatenate(parts))
    check(right, "parts of all lengths", ran.stderr or "another answer")


def check_tasks(folder):
    """Equal functions for the tasks of threads are one, not jumps to one: layers of one shape have such."""
    layers_network(f"{folder}/equal.onnx", [512] * 7)
    code_bytes(folder, "equal.onnx")
    lines = run("nm", "-S", "all.o", folder=folder).stdout.splitlines()
    sizes = [int(f[1], 16) for f in map(str.split, lines) if len(f) == 4 and f[3].endswith("_task")]
    check(sizes and min(sizes) > 16, "functions for tasks", f"{sizes}")


def check_unwinding(folder):
    """Kernels that call nothing have no unwinding tables but with -g, nor have the tasks that run them."""
    tables = []
    for options in ([], ["-g"]):
        run(ONNXC, "images.onnx", "--target", "x86_64-linux-gnu", *options, "-o", "all.o", folder=folder)
        tables.append(run("readelf", "--debug-dump=frames", "all.o", folder=folder).stdout.count(" FDE "))
    check(0 < tables[0] < tables[1] - 9, "unwinding tables", f"{tables}")


def check_minor(folder):
    """Kernels that take little of a run's time have code for the lowest CPU level only, unless they are most of the model."""
    node = helper.make_node
    product = [node("MatMul", ["x", "w"], ["p"]), node("ReduceMax", ["p"], ["m"], axes=[1]), node("Sin", ["m"], ["y"])]
    save(f"{folder}/minor.onnx", product, [tensor("x", "N", 2048)], [tensor("y", "N", 1)], [weights("w", 2048, 640)], 13)
    save(f"{folder}/major.onnx", [node("ReduceMax", ["x"], ["m"], axes=[1]), node("Sin", ["m"], ["y"])], [tensor("x", "N", 512)], [tensor("y", "N", 1)], [], 13)
    for model, several in (("minor.onnx", False), ("major.onnx", True)):
        code_bytes(folder, model)
        names = [line.split()[-1] for line in run("nm", "all.o", folder=folder).stdout.splitlines()]
        levels = {n[-3:] for n in names if "_k_" in n and "Sin" in n and n[-3:-1] == "_v"}
        check(bool(levels) and (len(levels) > 1) == several, f"levels of {model}", f"{sorted(levels)}")


def check_host_code(folder):
    """That of all CPU levels is one function, although their kernels differ."""
    code_bytes(folder, "images.onnx")
    lines = run("nm", "-S", "all.o", folder=folder).stdout.splitlines()
    sizes = {f[3].split("_run_")[1]: int(f[1], 16) for f in map(str.split, lines) if len(f) == 4 and "_run_" in f[3]}
    levels = [sizes.get(name, 0) for name in ("v2", "v3", "v4")]
    check(sizes.get("level", 0) > 500 and 0 < max(levels) < 200 and min(levels) > 0, "host code once", f"{sizes}")


def check_names(folder):
    """A name that another one ends with, as those of sections end with symbols, is not stored apart."""
    run(ONNXC, "images.onnx", "-o", "all.o", folder=folder)
    listed = run("readelf", "-p", ".strtab", "all.o", folder=folder).stdout.splitlines()
    names = [line.split("]  ")[1] for line in listed if "]  " in line]
    alone = [x for i, x in enumerate(names) if any(y.endswith(x) for k, y in enumerate(names) if k != i)]
    check(len(names) > 9 and not alone, "names of objects", f"{len(names)} names, among them {alone[:3]}")


def check_symbols(folder):
    """A library has names of kernels only with debug information."""
    for options, kept in (([], False), (["-g"], True)):
        run(ONNXC, "images.onnx", *options, "-o", "images.so", folder=folder)
        names = symbols(folder, "images.so")
        check(kept == any("_k_" in n for n in names), f"symbols of a library {options}", names[:9])
    check("images_run" in run("nm", "-D", "images.so", folder=folder).stdout, "exported symbols")


def main():
    with tempfile.TemporaryDirectory() as folder:
        make_models(folder)
        check_answers(folder, "rows.onnx", ["--dim", "N=1,8,1:64"], [(n, 96) for n in (1, 7, 8, 64)])
        check_errors(folder, "rows.onnx", ["--dim", "N=1,8,1:64"], [(0, 96), (65, 96)], "N must be from 1 to 64")
        check_answers(folder, "rows.onnx", ["--dim", "N=8,1"], [(1, 96), (8, 96)])
        check_errors(folder, "rows.onnx", ["--dim", "N=8,1"], [(2, 96)], "N must be 8 or 1")
        check_answers(folder, "rows.onnx", ["--dim", "N=4,:"], [(n, 96) for n in (0, 4, 200)])
        both = ["--dim", "N=1,2:4", "--dim", "S=24,6:"]
        check_answers(folder, "images.onnx", both, [(n, 16, 20, s) for n, s in itertools.product((1, 3), (24, 25))])
        check_errors(folder, "images.onnx", both, [(5, 16, 20, 24)], "N must be from 1 to 4")
        check_answers(folder, "chosen.onnx", ["--dim", "N=3,:"], [(3, 5), (6, 5)])
        check_object(folder)
        check_phases(folder)
        check_freestanding(folder)
        check_rows(folder)
        check_pixels(folder)
        check_code(folder)
        check_names(folder)
        check_symbols(folder)
    RESULTS.report()


if __name__ == "__main__":
    main()
