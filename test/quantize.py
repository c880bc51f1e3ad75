"""onnxc quantize: models of several kinds, every form and method; ONNX Runtime loads and runs what comes out.

usage: quantize.py ONNXC

Errors are measured by ONNX Runtime on samples that calibration has not seen, and compared with ONNX Runtime's own quantiser.
"""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ONNXC = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "onnxc"
ort.set_default_logger_severity(3)
passed = failed = 0


def check(condition, what):
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {what}", flush=True)


class Net:
    """Builds a model node by node; weights are random, as trained ones are spread."""

    def __init__(self, seed, opset=13):
        self.rng, self.nodes, self.weights, self.opset = np.random.default_rng(seed), [], [], opset
        self.inputs, self.outputs = [], []

    def input(self, name, shape, elem=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, elem, shape))
        return name

    def constant(self, value, name=None):
        name = name or f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape, scale=1.0):
        fan = np.prod(shape[1:]) if len(shape) > 2 else shape[0]
        spread = np.exp(0.5 * self.rng.standard_normal((shape[0],) + (1,) * (len(shape) - 1)))
        return self.constant((scale * spread * self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def op(self, op, *inputs, name=None, **attributes):
        name = name or f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name + "_out"], name=name, **attributes))
        return name + "_out"

    def conv(self, x, cin, cout, k=3, stride=1, group=1, **more):
        bias = self.constant((0.1 * self.rng.standard_normal(cout)).astype(np.float32))
        return self.op("Conv", x, self.weight(cout, cin // group, k, k), bias, kernel_shape=[k, k], strides=[stride] * 2,
                       pads=[k // 2] * 4, group=group, **more)

    def norm(self, x, c):
        rows = [1 + 0.2 * self.rng.standard_normal(c), 0.2 * self.rng.standard_normal(c), 0.2 * self.rng.standard_normal(c),
                np.exp(0.3 * self.rng.standard_normal(c))]
        return self.op("BatchNormalization", x, *[self.constant(r.astype(np.float32)) for r in rows])

    def model(self, *outputs):
        infos = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, infos, self.weights, doc_string="a net")
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8, producer_name="tests",
                                  doc_string="a model")
        helper.set_model_props(model, {"author": "somebody"})
        return model


def resnet():
    n = Net(1)
    x = n.op("Relu", n.norm(n.conv(n.input("x", ["N", 3, 32, 32]), 3, 16), 16))
    x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    for _ in range(2):
        y = n.op("Relu", n.norm(n.conv(x, 16, 16), 16))
        x = n.op("Relu", n.op("Add", n.norm(n.conv(y, 16, 16), 16), x))
    x = n.op("Flatten", n.op("GlobalAveragePool", x))
    return n.model(n.op("Gemm", x, n.weight(10, 16), n.constant(np.zeros(10, np.float32)), transB=1))


def mobilenet():
    n = Net(2, 14)
    zero, six = n.constant(np.float32(0)), n.constant(np.float32(6))
    x = n.op("HardSwish", n.conv(n.input("x", [1, 3, 32, 32]), 3, 16, stride=2))
    for _ in range(2):
        y = n.op("Clip", n.conv(x, 16, 48, 1), zero, six)
        y = n.op("Clip", n.conv(y, 48, 48, group=48), zero, six)
        gate = n.op("HardSigmoid", n.conv(n.op("GlobalAveragePool", y), 48, 48, 1))
        x = n.op("Add", n.conv(n.op("Mul", y, gate), 48, 16, 1), x)
    return n.model(n.op("Gemm", n.op("Flatten", n.op("GlobalAveragePool", x)), n.weight(16, 10)))


def yolo():
    n = Net(3)

    def block(x, cin, cout, k=3, stride=1):
        y = n.conv(x, cin, cout, k, stride)
        return n.op("Mul", y, n.op("Sigmoid", y))

    x = block(n.input("images", [1, 3, 64, 64]), 3, 8, stride=2)
    deep = block(x, 8, 16, stride=2)
    left, right = block(deep, 16, 8, 1), block(deep, 16, 8, 1)
    right = n.op("Add", block(block(right, 8, 8), 8, 8), right)
    deep = block(n.op("Concat", left, right, axis=1), 16, 16, 1)
    pools = [deep]
    for _ in range(2):
        pools.append(n.op("MaxPool", pools[-1], kernel_shape=[5, 5], pads=[2, 2, 2, 2]))
    deep = block(n.op("Concat", *pools, axis=1), 48, 16, 1)
    up = n.op("Resize", deep, "", n.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest",
              coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    x = block(n.op("Concat", up, x, axis=1), 24, 16)
    shape = n.constant(np.array([1, 12, -1], np.int64))
    heads = [n.op("Reshape", n.conv(h, 16, 12, 1), shape) for h in (x, deep)]
    return n.model(n.op("Sigmoid", n.op("Concat", *heads, axis=2)))


def transformer():
    n = Net(4, 17)
    ids, width = n.input("ids", [1, 24], TensorProto.INT64), 64
    x = n.op("Gather", n.constant((n.rng.standard_normal((1200, width))).astype(np.float32), "table"), ids, name="embed")

    def norm(x):
        return n.op("LayerNormalization", x, n.constant(np.ones(width, np.float32)), n.constant(np.zeros(width, np.float32)))

    def linear(x, a, b):
        return n.op("Add", n.op("MatMul", x, n.weight(a, b)), n.constant((0.1 * n.rng.standard_normal(b)).astype(np.float32)))

    def heads(x, order):
        return n.op("Transpose", n.op("Reshape", x, n.constant(np.array([1, 24, 4, 16], np.int64))), perm=order)

    for _ in range(2):
        q, k, v = (linear(x, width, width) for _ in range(3))
        scores = n.op("Div", n.op("MatMul", heads(q, [0, 2, 1, 3]), heads(k, [0, 2, 3, 1])), n.constant(np.float32(4)))
        y = n.op("MatMul", n.op("Softmax", scores, axis=-1), heads(v, [0, 2, 1, 3]))
        y = n.op("Reshape", n.op("Transpose", y, perm=[0, 2, 1, 3]), n.constant(np.array([1, 24, width], np.int64)))
        x = norm(n.op("Add", linear(y, width, width), x))
        h = linear(x, width, 4 * width)
        h = n.op("Mul", n.op("Mul", h, n.op("Add", n.op("Erf", n.op("Div", h, n.constant(np.float32(1.41421356)))),
                                            n.constant(np.float32(1)))), n.constant(np.float32(0.5)))
        x = norm(n.op("Add", linear(h, 4 * width, width), x))
    return n.model(x)


def decoder():
    """Convolutions that enlarge, and a recurrent network, which stays in float."""
    n = Net(5, 14)
    x = n.op("LeakyRelu", n.conv(n.input("x", [1, 4, 16, 16]), 4, 8, stride=2), alpha=0.1)
    x = n.op("ConvTranspose", x, n.weight(8, 6, 2, 2), n.constant(np.zeros(6, np.float32)), strides=[2, 2])
    x = n.op("Relu", n.op("ConvTranspose", n.op("Tanh", x), n.weight(6, 3, 2, 2), strides=[2, 2], group=2))
    x = n.op("Concat", n.conv(x, 6, 4), n.op("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), axis=1)
    x = n.op("Reshape", n.conv(x, 10, 4), n.constant(np.array([32, 1, 128], np.int64)))
    n.nodes.append(helper.make_node("GRU", [x, n.weight(1, 48, 128), n.weight(1, 48, 16)], ["states"], name="gru", hidden_size=16))
    return n.model(n.op("MatMul", "states", n.weight(16, 5)))


KINDS = {"resnet": resnet, "mobilenet": mobilenet, "yolo": yolo, "transformer": transformer, "decoder": decoder}


def sample(rng, model):
    made = {}
    for i in model.graph.input:
        shape = [d.dim_value or 2 for d in i.type.tensor_type.shape.dim]
        if i.type.tensor_type.elem_type == TensorProto.INT64:
            made[i.name] = np.minimum(rng.zipf(1.3, shape) - 1, 1199).astype(np.int64)
        else:
            z = rng.standard_normal(shape)
            level = rng.standard_normal(shape[:2] + [1] * (len(shape) - 2))
            made[i.name] = (z + np.roll(z, 1, -1) + np.roll(z, 1, -2) + level).astype(np.float32)
    return made


def quantize(*arguments):
    return subprocess.run([ONNXC, "quantize", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)


def answers(model, samples):
    session = ort.InferenceSession(model if isinstance(model, str) else model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [session.run(None, s) for s in samples]


def ratio(got, want):
    """Signal to noise, dB."""
    pairs = [(g.astype(np.float64), w.astype(np.float64)) for gs, ws in zip(got, want) for g, w in zip(gs, ws)]
    noise = sum(((g - w) ** 2).sum() for g, w in pairs)
    return 10 * np.log10(sum((w**2).sum() for _, w in pairs) / max(noise, 1e-30))


class Case:
    def __init__(self, name, folder):
        self.name, self.model = name, KINDS[name]()
        rng = np.random.default_rng(7)
        self.path, self.data = os.path.join(folder, name + ".onnx"), os.path.join(folder, name)
        onnx.save(self.model, self.path)
        os.mkdir(self.data)
        self.given, self.unseen = [sample(rng, self.model) for _ in range(16)], [sample(rng, self.model) for _ in range(8)]
        for i, s in enumerate(self.given):
            np.savez(os.path.join(self.data, f"{i:03d}.npz"), **s)
        self.want = answers(self.model, self.unseen)

    def run(self, *options, least, data=True, runtime=True):
        """Quantises, and checks the result; returns its signal-to-noise ratio."""
        out = self.path[:-5] + "_q.onnx"
        what = f"{self.name} {' '.join(options)}"
        ran = quantize(self.path, *(["--data", self.data] if data else []), *options, "-o", out)
        check(ran.returncode == 0, f"{what}: {ran.stdout.strip()}")
        if ran.returncode:
            return 0
        made = onnx.load(out)
        try:
            onnx.checker.check_model(made, full_check=True)
        except Exception as e:  # noqa: BLE001
            check(False, f"{what}: {e}")
        if not runtime:
            return self.by_onnxc(out, what, least)
        got = ratio(answers(out, self.unseen), self.want)
        check(got >= least, f"{what}: {got:.1f} dB, expected at least {least}")
        return got

    def by_onnxc(self, out, what, least):
        got = []
        for s in self.unseen[:2]:
            files = []
            for name, x in s.items():
                np.save(out + f".{name}.npy", x)
                files += ["--input", f"{name}={out}.{name}.npy"]
            output = onnx.load(out).graph.output[0].name
            subprocess.run([ONNXC, "run", out, *files, "--output", f"{output}={out}.y.npy"], check=True, stdout=subprocess.DEVNULL)
            got.append([np.load(out + ".y.npy")])
        got = ratio(got, self.want[:2])
        check(got >= least, f"{what} by onnxc: {got:.1f} dB, expected at least {least}")
        return got


def types_of(path, op):
    """Element types of the zero points of an operator."""
    graph = onnx.load(path).graph
    kinds = {i.name: i.data_type for i in graph.initializer}
    return {kinds.get(n.input[2]) for n in graph.node if n.op_type == op and len(n.input) > 2}


def static_forms(cases):
    for name, least in (("resnet", 32), ("mobilenet", 26), ("yolo", 26), ("transformer", 30), ("decoder", 24)):
        case = cases[name]
        best = case.run(least=least)
        case.by_onnxc(case.path[:-5] + "_q.onnx", f"{name}", least)
        own = by_onnxruntime(case)
        check(best >= own - 0.5, f"{name}: {best:.1f} dB, ONNX Runtime's quantiser {own:.1f}")
        case.run("--ranges=minmax", least=least - 2)
        case.run("--ranges=percentile", least=least - 8)
        case.run("--to=int16", least=least + 1)
    case = cases["resnet"]
    out = case.path[:-5] + "_q.onnx"
    for activations, kind in (("u8", TensorProto.UINT8), ("s8-symmetric", TensorProto.INT8), ("u8-symmetric", TensorProto.UINT8)):
        case.run("--activations", activations, least=26)
        check(types_of(out, "QuantizeLinear") == {kind}, f"--activations {activations}: {types_of(out, 'QuantizeLinear')}")
    case.run("--to=int16", "--activations=u16", least=36)
    check(types_of(out, "QuantizeLinear") == {TensorProto.UINT16}, "--activations u16")
    case.run("--ranges=entropy", least=20)
    case.run("--per-tensor", least=20)
    case.run("--weights=mse", "--reduce-range", least=26)


def by_onnxruntime(case):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(case.given)

        def get_next(self):
            return next(self.left, None)

    out = case.path[:-5] + "_ort.onnx"
    quant_pre_process(case.path, out + ".pre", skip_symbolic_shape=True)
    quantize_static(out + ".pre", out, Reader(), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QInt8,
                    weight_type=QuantType.QInt8)
    return ratio(answers(out, case.unseen), case.want)


def depthwise():
    """Channels of unequal range, inputs with a mean: rounded weights shift the outputs."""
    n = Net(11)
    x = n.op("Relu", n.conv(n.input("x", [1, 3, 24, 24]), 3, 24, stride=2))
    for _ in range(3):
        spread = np.exp(1.2 * n.rng.standard_normal((24, 1, 1, 1))) / 3
        weights = n.constant((spread * (n.rng.standard_normal((24, 1, 3, 3)) + 0.5)).astype(np.float32))
        x = n.op("Relu", n.op("Conv", x, weights, kernel_shape=[3, 3], pads=[1] * 4, group=24))
        x = n.op("Relu", n.conv(x, 24, 24, 1))
    x = n.op("Flatten", n.op("GlobalAveragePool", x))
    return n.model(n.op("Gemm", x, n.weight(10, 24), n.constant(np.zeros(10, np.float32)), transB=1))


def bias_correction(folder):
    KINDS["depthwise"] = depthwise
    case = Case("depthwise", folder)
    del KINDS["depthwise"]
    plain, corrected = (case.run("--per-tensor", *more, least=5) for more in ((), ("--bias-correction",)))
    check(corrected > plain + 1, f"--bias-correction: {plain:.1f} -> {corrected:.1f} dB")
    plain, corrected = (case.run(*more, least=15) for more in ((), ("--bias-correction",)))
    check(corrected > plain - 0.2, f"--bias-correction with a scale for each channel: {plain:.1f} -> {corrected:.1f} dB")


def spread(n, count, by=1.0):
    return np.exp(by * n.rng.standard_normal(count))


def uneven_mobilenet(activation):
    """Channels between two convolutions differ by factors that cancel out, as folded normalisations make them."""
    n = Net(12)
    bounds = [n.constant(np.float32(v)) for v in (0, 6)] if activation == "Clip" else []

    def conv(x, cin, cout, k, before, after, group=1, stride=1):
        w = n.rng.standard_normal((cout, cin // group, k, k)) / np.sqrt(cin // group * k * k)
        w *= after[:, None, None, None] / (before[:, None, None, None] if group > 1 else before[None, :, None, None])
        bias = n.constant((0.1 * after * n.rng.standard_normal(cout)).astype(np.float32))
        return n.op("Conv", x, n.constant(w.astype(np.float32)), bias, kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4, group=group)

    x = n.op(activation, conv(n.input("x", [1, 3, 32, 32]), 3, 16, 3, np.ones(3), np.ones(16), stride=2), *bounds)
    for _ in range(3):
        a, b = spread(n, 64), spread(n, 64)
        y = n.op(activation, conv(x, 16, 64, 1, np.ones(16), a), *bounds)
        y = n.op(activation, conv(y, 64, 64, 3, a, b, group=64), *bounds)
        x = n.op("Add", conv(y, 64, 16, 1, b, np.ones(16)), x)
    x = n.op("Flatten", n.op("GlobalAveragePool", x))
    return n.model(n.op("Gemm", x, n.weight(10, 16), n.constant(np.zeros(10, np.float32)), transB=1))


def uneven_chain():
    """Groups, transposed convolutions, slopes, pools, both forms of a matrix product."""
    n = Net(13)

    def row(c, by):
        return n.constant((0.1 * by * n.rng.standard_normal(c)).astype(np.float32))

    def weight(shape, out, outs, ins, group=1):
        """Axis `out` counts outputs; the other one counts within a group."""
        w = n.rng.standard_normal(shape) / np.sqrt(np.prod(shape) / len(outs))
        for index in np.ndindex(*shape[:2]):
            first, second = index
            other = first // (shape[0] // group) * shape[1] + second
            o, i = (first, other) if out == 0 else (other, first)
            w[index] *= outs[o] / ins[i]
        return n.constant(w.astype(np.float32))

    a, b, c, d, e = spread(n, 16), spread(n, 24), spread(n, 16), spread(n, 20), spread(n, 12)
    x = n.op("Conv", n.input("x", [1, 3, 16, 16]), weight((16, 3, 3, 3), 0, a, np.ones(3)), row(16, a), kernel_shape=[3, 3])
    x = n.op("LeakyRelu", x, alpha=0.2)
    x = n.op("Conv", x, weight((24, 8, 3, 3), 0, b, a, 2), row(24, b), kernel_shape=[3, 3], group=2)
    x = n.op("MaxPool", n.op("PRelu", x, n.constant(np.full((24, 1, 1), 0.1, np.float32))), kernel_shape=[2, 2], strides=[2, 2])
    x = n.op("ConvTranspose", x, weight((24, 8, 2, 2), 1, c, b, 2), row(16, c), kernel_shape=[2, 2], strides=[2, 2], group=2)
    x = n.op("Flatten", n.op("GlobalAveragePool", n.op("Relu", x)))
    x = n.op("Relu", n.op("Gemm", x, weight((20, 16), 0, d, c), row(20, d), transB=1))
    x = n.op("Relu", n.op("Add", n.op("MatMul", x, weight((20, 12), 1, e, d)), row(12, e)))
    return n.model(n.op("MatMul", x, weight((12, 6), 1, np.ones(6), e)))


def equalisation(folder):
    nets = {"uneven": lambda: uneven_mobilenet("Relu"), "uneven6": lambda: uneven_mobilenet("Clip"), "chain": uneven_chain}
    KINDS.update(nets)
    cases = {name: Case(name, folder) for name in nets}
    for name, pairs, gain in (("uneven", 6, 15), ("uneven6", 6, 8), ("chain", 5, 2)):
        case = cases[name]
        plain, equal = case.run(least=5), case.run("--equalise", least=25)
        check(equal > plain + gain, f"--equalise of {name}: {plain:.1f} -> {equal:.1f} dB")
        case.run("--equalize", "--to=int16", "--weights=mse", "--bias-correction", least=30)
        ran = quantize(case.path, "--data", case.data, "--equalize", "-o", case.path[:-5] + "_q.onnx")
        check(f"weights of {pairs} pairs of products are equalised" in ran.stdout, f"pairs of {name}: {ran.stdout}")
    plain, equal = (cases["uneven"].run("--per-tensor", *more, least=5) for more in ((), ("--equalise",)))
    check(equal > plain + 12, f"--equalise with one scale for all channels: {plain:.1f} -> {equal:.1f} dB")
    for name in nets:
        del KINDS[name]


def nodes_of(path):
    return {n.name: n for n in onnx.load(path).graph.node}


def reads_floats(path, name):
    """Whether a node's weights are a constant of floats."""
    model = onnx.load(path)
    kinds = {i.name: i.data_type for i in model.graph.initializer}
    return kinds.get(nodes_of(path)[name].input[1]) == TensorProto.FLOAT


def settings(cases):
    case = cases["resnet"]
    out = case.path[:-5] + "_q.onnx"
    convolutions = [n.name for n in case.model.graph.node if n.op_type == "Conv"]
    case.run("--keep", convolutions[0], least=30)
    check([reads_floats(out, c) for c in convolutions].count(True) == 1 and reads_floats(out, convolutions[0]), "--keep NAME")
    case.run("--keep", "Conv", least=38)
    check(all(reads_floats(out, c) for c in convolutions) and not reads_floats(out, nodes_of_type(case, "Gemm")), "--keep Conv")
    case.run("--keep", f"/^({convolutions[1]}|{convolutions[2]})$/", least=30)
    check([reads_floats(out, c) for c in convolutions].count(True) == 2, "--keep /REGEX/")
    case.run("--node", f"{convolutions[0]}=float", "--node", "Gemm=int16", "--node", "Add=percentile:99.9", least=26)
    check(reads_floats(out, convolutions[0]) and TensorProto.INT16 in types_of(out, "QuantizeLinear"), "--node")
    relu = nodes_of_type(case, "Relu")
    case.run("--node", f"{relu}=0..25.5", least=10)
    graph = onnx.load(out).graph
    scale = {i.name: i for i in graph.initializer}[[n for n in graph.node if n.op_type == "QuantizeLinear" and n.input[0] == relu + "_out"][0].input[1]]
    check(abs(float(numpy_helper.to_array(scale)) - 0.1) < 1e-6, "--node NODE=LO..HI")
    made = onnx.load(out)
    check((made.doc_string, made.producer_name, made.graph.doc_string, made.graph.name) == ("a model", "tests", "a net", "net"),
          "texts of the model")
    check({p.key: p.value for p in made.metadata_props}.get("author") == "somebody", "metadata")
    check([i.name for i in made.graph.input] == ["x"] and made.opset_import[0].version == 13, "inputs and opset")


def nodes_of_type(case, op):
    return next(n.name for n in case.model.graph.node if n.op_type == op)


def weights_alone(cases):
    case = cases["transformer"]
    out = case.path[:-5] + "_q.onnx"
    case.run("--to=int8-weights", least=32, data=False)
    case.run("--to=int8-weights", "--keep=Gather", least=33, data=False)
    sizes = {}
    reached = {w: case.run("--to=int4-weights", "--weights", w, "--block=16", least=14) for w in ("minmax", "mse", "kquant", "gptq")}
    check(reached["gptq"] > reached["minmax"] + 1 and reached["kquant"] >= reached["minmax"] - 0.3, f"int4: {reached}")
    own = case.run("--to=int4-weights", "--weights=gptq", "--block=16", "--blas=none", least=14)
    check(abs(own - reached["gptq"]) < 1, f"gptq without LAPACK: {own:.1f} dB, with it {reached['gptq']:.1f}")
    for symmetric in (False, True):
        case.run("--to=int4-weights", *(["--symmetric-weights"] if symmetric else []), least=9, data=False)
        kind = {i.data_type for i in onnx.load(out).graph.initializer}
        check((TensorProto.INT4 if symmetric else TensorProto.UINT4) in kind, "int4 or uint4")
        case.by_onnxc(out, "int4", 9)
    sizes[4] = os.path.getsize(out)
    case.run("--to=int2-weights", least=2, data=False, runtime=False)
    check(os.path.getsize(out) < sizes[4], "int2 is smaller than int4")
    case.run("--to=int4-weights", "--node", "MatMul=int8", least=32, data=False)
    cases["resnet"].run("--to=int4-weights", least=28)
    cases["yolo"].run("--to=int8-weights", least=30)


def halves(cases):
    for name in KINDS:
        cases[name].run("--to=f16", least=48, data=False)
        cases[name].run("--to=f16", least=48)
        cases[name].run("--to=bf16", least=26, data=False, runtime=False)
    n = Net(8)
    x = n.op("MatMul", n.input("x", [4, 8]), n.constant(np.full((8, 8), 300, np.float32)), name="large")
    x = n.op("Mul", n.op("Mul", x, n.constant(np.float32(100)), name="larger"), n.constant(np.float32(1e-5)), name="back")
    y = n.op("Add", n.op("Relu", x), n.constant(np.float32(1e-12)), name="epsilon")
    with tempfile.TemporaryDirectory() as folder:
        KINDS["overflow"] = lambda: n.model(y)
        case = Case("overflow", folder)
        del KINDS["overflow"]
        case.run("--to=f16", least=40)
        out = nodes_of(case.path[:-5] + "_q.onnx")
        check("larger" in out and not out["larger"].input[0].endswith("_f16"), "a node that overflows stays in float32")
        case.run("--to=f16", "--keep=/large/", least=40)
    masked = Net(9)
    x = masked.input("x", [4, 8])
    mask = masked.op("Log", masked.op("Cast", masked.op("Less", x, masked.constant(np.float32(1))), to=TensorProto.FLOAT))
    y = masked.op("Softmax", masked.op("Add", masked.op("MatMul", x, masked.weight(8, 8)), mask), axis=-1)
    with tempfile.TemporaryDirectory() as folder:
        KINDS["masked"] = lambda: masked.model(y)
        case = Case("masked", folder)
        del KINDS["masked"]
        case.run("--to=f16", least=40)


def mixture(case, more):
    """A mixture with a signal-to-noise ratio that is higher by `more` dB has no float nodes without need."""
    plain = case.run(least=20)
    mixed = case.run("--max-loss", f"sqnr={plain + more:.1f}", least=plain + 1.5)
    products = [n.name for n in case.model.graph.node if n.op_type in ("Conv", "Gemm")]
    kept = [name for name in products if reads_floats(case.path[:-5] + "_q.onnx", name)]
    check(0 < len(kept) < len(products), f"a mixture: {kept}, {plain:.1f} -> {mixed:.1f} dB")
    for spared in kept:
        others = [f"--keep={name}" for name in kept if name != spared]
        ran = quantize(case.path, "--data", case.data, "--measure", *others, "-o", case.path[:-5] + "_spared.onnx")
        ratio = re.search(r"signal-to-noise ratio ([0-9.]+) dB", ran.stdout)
        check(ratio and float(ratio[1]) < plain + more + 0.3, f"{spared} of {kept} is not needed: {ran.stdout}")


def mixtures(cases):
    mixture(cases["resnet"], 3)
    mixture(cases["mobilenet"], 9)
    case = cases["resnet"]
    out = case.path[:-5] + "_q.onnx"
    case.run("--max-loss=cos=0.9", least=30)
    kinds = [reads_floats(out, n.name) for n in case.model.graph.node if n.op_type in ("Conv", "Gemm")]
    check(not any(kinds), "a loose goal keeps nothing in float")
    case.run("--max-loss=top1=20%,cos=0.99", "--target=aarch64", least=20)
    ran = quantize(case.path, "--data", case.data, "--max-loss=sqnr=400", "-o", out)
    check(ran.returncode == 1 and "no mixture reaches the goal" in ran.stdout, ran.stdout)


def data_forms(cases, folder):
    """The same samples in other forms give the same model."""
    case = cases["mobilenet"]
    out = case.path[:-5] + "_q.onnx"
    case.run(least=20)
    want = open(out, "rb").read()
    images = np.stack([s["x"][0] for s in case.given])
    forms = {name: os.path.join(folder, name) for name in ("stack.npy", "files", "more", "tests", "named")}
    np.save(forms["stack.npy"], images)
    for name in ("files", "more", "tests", "named"):
        os.mkdir(forms[name])
    np.save(os.path.join(forms["more"], "a.npy"), images[:10][:, None])
    np.save(os.path.join(forms["more"], "b.npy"), images[10:][:, None])
    for i, s in enumerate(case.given):
        np.save(os.path.join(forms["files"], f"{i}.npy"), s["x"])
        for kind, path in (("tests", f"test_data_set_{i}"), ("named", f"{i}")):
            os.mkdir(os.path.join(forms[kind], path))
        with open(os.path.join(forms["tests"], f"test_data_set_{i}", "input_0.pb"), "wb") as f:
            f.write(numpy_helper.from_array(s["x"]).SerializeToString())
        np.save(os.path.join(forms["named"], f"{i}", "x.npy"), s["x"])
    for name, path in forms.items():
        ran = quantize(case.path, "--data", path, "-o", out)
        check(ran.returncode == 0 and "16 samples" in ran.stdout and open(out, "rb").read() == want, f"--data {name}: {ran.stdout}")
    ran = quantize(case.path, "--data", forms["stack.npy"], "--samples=5", "-o", out)
    check("5 samples" in ran.stdout, f"--samples: {ran.stdout}")


def external_data(cases, folder):
    case = cases["transformer"]
    path, out = os.path.join(folder, "external.onnx"), os.path.join(folder, "external_q.onnx")
    onnx.save(onnx.load(case.path), path, save_as_external_data=True, location="external.bin", size_threshold=0)
    ran = quantize(path, "--data", case.data, "-o", out)
    check(ran.returncode == 0 and os.path.exists(out + ".data"), f"external data: {ran.stdout}")
    check(ratio(answers(out, case.unseen), case.want) > 28, "external data: other answers")


def bodies(cases, folder):
    """Weights in the body of a Loop are quantised alone; int8 leaves the body in float and says so."""
    path, out, report = (os.path.join(folder, name) for name in ("body.onnx", "body_q.onnx", "body.txt"))
    n = Net(14)
    inner = helper.make_graph(
        [helper.make_node("MatMul", ["s", "w"], ["m"], name="inner"), helper.make_node("Tanh", ["m"], ["t"]),
         helper.make_node("Identity", ["c"], ["d"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("s", TensorProto.FLOAT, [1, 32])],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, []), helper.make_tensor_value_info("t", TensorProto.FLOAT, [1, 32])],
        [numpy_helper.from_array((n.rng.standard_normal((32, 32)) / 4).astype(np.float32), "w")])
    x = n.op("MatMul", n.input("x", [1, 16]), n.weight(16, 32), name="outer")
    onnx.save(n.model(n.op("Loop", n.constant(np.int64(5)), "", x, name="loop", body=inner)), path)
    samples = [{"x": n.rng.standard_normal((1, 16)).astype(np.float32)} for _ in range(8)]
    data = os.path.join(folder, "body")
    os.mkdir(data)
    for i, s in enumerate(samples):
        np.savez(os.path.join(data, f"{i}.npz"), **s)
    want = answers(path, samples)
    for to, count, least in (("int8", 1, 25), ("int8-weights", 2, 25), ("int4-weights", 2, 8)):
        ran = quantize(path, "--to", to, "--data", data, "--report", report, "-o", out)
        check(f"{count} of 2 products in {to}" in ran.stdout, f"bodies, {to}: {ran.stdout}")
        check(ratio(answers(out, samples), want) > least, f"bodies, {to}: {ratio(answers(out, samples), want):.1f} dB")
        left = "it is in the body of node 'loop' (Loop)" in open(report).read()
        check(left == (to == "int8"), f"the report of {to} on a body")


def reports(cases, folder):
    import json
    case = cases["yolo"]
    for ending in ("json", "html", "txt"):
        path = os.path.join(folder, "report." + ending)
        ran = quantize(case.path, "--data", case.data, "--report", path, "-o", os.path.join(folder, "r.onnx"))
        check(ran.returncode == 0 and os.path.getsize(path) > 1000, f"report.{ending}: {ran.stdout}")
    told = json.load(open(os.path.join(folder, "report.json")))
    nodes = {n["name"]: n for n in told["nodes"]}
    first = nodes[nodes_of_type(case, "Conv")]
    check(told["samples"] == 16 and 20 < told["sqnr"] < 80 and told["bytes_after"] < told["bytes_before"], "the report's figures")
    check(first["to"] == "int8" and first["weights_sqnr"] > 30 and first["sqnr"] > 20 and first["low"] < 0 < first["high"],
          f"the report of a node: {first}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        cases = {name: Case(name, folder) for name in KINDS}
        static_forms(cases)
        settings(cases)
        weights_alone(cases)
        halves(cases)
        mixtures(cases)
        data_forms(cases, folder)
        external_data(cases, folder)
        reports(cases, folder)
        bodies(cases, folder)
        bias_correction(folder)
        equalisation(folder)
    print(f"{passed} passed, {failed} failed, 0 skipped")


if __name__ == "__main__":
    main()
