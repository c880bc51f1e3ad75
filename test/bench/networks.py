"""The networks of `make bench`, as exporters write them, with seeded random weights. network(NAME) is a ModelProto.

Random weights are scaled so that activations keep their size through the layers: outputs then compare well.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Builder:
    """A graph under construction: `b.op("Relu", x)` adds a node and answers its output's name."""

    def __init__(self, name, seed=0):
        self.name, self.random = name, np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []

    def input(self, name, dims, dtype=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def number(self, value):
        return self.constant(np.array(value, np.float32))

    def normal(self, *dims, scale):
        return self.constant((self.random.standard_normal(dims) * scale).astype(np.float32))

    def op(self, kind, *inputs, outputs=1, **attributes):
        made = [f"{kind}_{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, name=made[0], **attributes))
        return made[0] if outputs == 1 else made

    def model(self, *outputs):
        infos = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, infos, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)

    # ------------------------------------------------------------ layers
    def conv(self, x, cin, cout, kernel, stride=1, pad=None, groups=1, act="Relu", gain=2.0):
        pad = kernel // 2 if pad is None else pad
        fan = cin // groups * kernel * kernel
        w = self.normal(cout, cin // groups, kernel, kernel, scale=(gain / fan) ** 0.5)
        y = self.op("Conv", x, w, self.normal(cout, scale=0.1), kernel_shape=[kernel] * 2, strides=[stride] * 2,
                    pads=[pad] * 4, group=groups, dilations=[1, 1])
        if act == "Relu6":
            return self.op("Clip", y, self.number(0), self.number(6))
        return self.op(act, y) if act else y

    def linear(self, x, n, m):
        return self.op("Add", self.normal(m, scale=0.05), self.op("MatMul", x, self.normal(n, m, scale=n ** -0.5)))

    def layer_norm(self, x, n):
        """As torch spells it before opset 17."""
        d = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        v = self.op("ReduceMean", self.op("Pow", d, self.number(2)), axes=[-1])
        y = self.op("Div", d, self.op("Sqrt", self.op("Add", v, self.number(1e-12))))
        return self.op("Add", self.op("Mul", y, self.constant(np.ones(n, np.float32))), self.normal(n, scale=0.05))

    def gelu(self, x):
        e = self.op("Add", self.op("Erf", self.op("Div", x, self.number(2 ** 0.5))), self.number(1))
        return self.op("Mul", self.op("Mul", x, e), self.number(0.5))

    def heads(self, x, length, heads, size, key=False):
        y = self.op("Reshape", x, self.ints(0, length, heads, size))
        return self.op("Transpose", y, perm=[0, 2, 3, 1] if key else [0, 2, 1, 3])

    def attention(self, x, length, heads, size, mask=None):
        n = heads * size
        q, k, v = (self.heads(self.linear(x, n, n), length, heads, size, part == "k") for part in "qkv")
        s = self.op("Div", self.op("MatMul", q, k), self.number(size ** 0.5))
        s = self.op("Add", s, mask) if mask else s
        y = self.op("Transpose", self.op("MatMul", self.op("Softmax", s, axis=-1), v), perm=[0, 2, 1, 3])
        return self.linear(self.op("Reshape", y, self.ints(0, length, n)), n, n)

    def classify(self, x, n, m=1000):
        y = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        return self.op("Gemm", y, self.normal(m, n, scale=n ** -0.5), self.normal(m, scale=0.05), transB=1)


def resnet(name, blocks, bottleneck):
    b = Builder(name)
    x = b.conv(b.input("image", [1, 3, 224, 224]), 3, 64, 7, 2)
    x = b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    cin = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        cout = width * (4 if bottleneck else 1)
        for i in range(count):
            stride = 2 if stage and not i else 1
            short = x if cin == cout and stride == 1 else b.conv(x, cin, cout, 1, stride, act=None, gain=1.0)
            if bottleneck:
                y = b.conv(b.conv(x, cin, width, 1), width, width, 3, stride)
                y = b.conv(y, width, cout, 1, act=None, gain=0.3)
            else:
                y = b.conv(b.conv(x, cin, width, 3, stride), width, cout, 3, act=None, gain=0.3)
            x, cin = b.op("Relu", b.op("Add", y, short)), cout
    return b.model(b.classify(x, cin))


def mobilenet_v2():
    b = Builder("mobilenet_v2")
    x, cin = b.conv(b.input("image", [1, 3, 224, 224]), 3, 32, 3, 2, act="Relu6"), 32
    for expand, cout, count, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                       (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            stride, wide = first if i == 0 else 1, cin * expand
            y = b.conv(x, cin, wide, 1, act="Relu6") if expand > 1 else x
            y = b.conv(y, wide, wide, 3, stride, groups=wide, act="Relu6")
            y = b.conv(y, wide, cout, 1, act=None, gain=1.0)
            x = b.op("Add", x, y) if stride == 1 and cin == cout else y
            cin = cout
    return b.model(b.classify(b.conv(x, cin, 1280, 1, act="Relu6"), 1280))


def bert(name, layers, heads, size, wide, length=128, words=30522):
    b, n = Builder(name), heads * size
    tokens = b.input("input_ids", [1, length], TensorProto.INT64)
    mask = b.input("attention_mask", [1, length], TensorProto.INT64)
    m = b.op("Cast", b.op("Unsqueeze", mask, b.ints(1, 2)), to=TensorProto.FLOAT)
    m = b.op("Mul", b.op("Sub", b.number(1), m), b.number(-10000))
    x = b.op("Add", b.op("Gather", b.normal(words, n, scale=0.5), tokens), b.normal(1, length, n, scale=0.5))
    x = b.layer_norm(x, n)
    for _ in range(layers):
        x = b.layer_norm(b.op("Add", b.attention(x, length, heads, size, m), x), n)
        x = b.layer_norm(b.op("Add", b.linear(b.gelu(b.linear(x, n, wide)), wide, n), x), n)
    return b.model(x)


def vit(name, layers, heads, size):
    b, n, length = Builder(name), heads * size, 197
    y = b.conv(b.input("image", [1, 3, 224, 224]), 3, n, 16, 16, pad=0, act=None, gain=1.0)
    y = b.op("Transpose", b.op("Reshape", y, b.ints(0, n, 196)), perm=[0, 2, 1])
    x = b.op("Add", b.op("Concat", b.normal(1, 1, n, scale=0.5), y, axis=1), b.normal(1, length, n, scale=0.5))
    for _ in range(layers):
        x = b.op("Add", x, b.attention(b.layer_norm(x, n), length, heads, size))
        x = b.op("Add", x, b.linear(b.gelu(b.linear(b.layer_norm(x, n), n, 4 * n)), 4 * n, n))
    y = b.op("Gather", b.layer_norm(x, n), b.constant(np.array(0, np.int64)), axis=1)  # the class token
    return b.model(b.linear(y, n, 1000))


def gpt2(layers=12, heads=12, size=64, length=128, words=50257):
    """A prompt; logits of all positions. Linear layers are Gemm on rows, as the exporter of GPT-2's Conv1D writes them."""
    b, n = Builder("gpt2"), heads * size
    table = b.random.standard_normal((words, n)).astype(np.float32) * np.float32(n ** -0.5)

    def dense(x, k, m):
        y = b.op("Gemm", b.op("Reshape", x, b.ints(-1, k)), b.normal(k, m, scale=k ** -0.5), b.normal(m, scale=0.05))
        return b.op("Reshape", y, b.ints(1, length, m))

    def norm(x):
        return b.op("LayerNormalization", x, b.constant(np.ones(n, np.float32)), b.normal(n, scale=0.05), axis=-1, epsilon=1e-5)

    def gelu(x):
        cubic = b.op("Mul", b.op("Pow", x, b.number(3)), b.number(0.044715))
        t = b.op("Tanh", b.op("Mul", b.op("Add", x, cubic), b.number((2 / np.pi) ** 0.5)))
        return b.op("Mul", b.op("Mul", x, b.number(0.5)), b.op("Add", t, b.number(1)))

    def attention(x, causal):
        q, k, v = b.op("Split", dense(x, n, 3 * n), b.ints(n, n, n), outputs=3, axis=2)
        q, k, v = (b.heads(part, length, heads, size, part is k) for part in (q, k, v))
        s = b.op("Div", b.op("MatMul", q, k), b.number(size ** 0.5))
        s = b.op("Softmax", b.op("Where", causal, s, b.number(np.finfo(np.float32).min)), axis=-1)
        y = b.op("Transpose", b.op("MatMul", s, v), perm=[0, 2, 1, 3])
        return dense(b.op("Reshape", y, b.ints(1, length, n)), n, n)

    x = b.op("Gather", b.constant(table), b.input("input_ids", [1, length], TensorProto.INT64))
    x = b.op("Add", x, b.normal(1, length, n, scale=0.02))
    causal = b.constant(np.tril(np.ones((1, 1, length, length), bool)))
    for _ in range(layers):
        x = b.op("Add", x, attention(norm(x), causal))
        x = b.op("Add", x, dense(gelu(dense(norm(x), n, 4 * n)), 4 * n, n))
    return b.model(b.op("MatMul", norm(x), b.constant(table.T)))


def unet(width=32, size=128):
    b = Builder("unet")

    def double(x, cin, cout):
        return b.conv(b.conv(x, cin, cout, 3), cout, cout, 3)

    x, skips, c = double(b.input("image", [1, 3, size, size]), 3, width), [], width
    for _ in range(3):
        skips.append(x)
        x = double(b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), c, 2 * c)
        c *= 2
    for skip in reversed(skips):
        w = b.normal(c, c // 2, 2, 2, scale=c ** -0.5)
        x = b.op("ConvTranspose", x, w, kernel_shape=[2, 2], strides=[2, 2])
        x = double(b.op("Concat", skip, x, axis=1), c, c // 2)
        c //= 2
    return b.model(b.conv(x, c, 2, 1, act=None))


def lstm(layers=2, n=256, length=64, words=1000):
    b = Builder("lstm_lm")
    x = b.op("Gather", b.normal(words, n, scale=1.0), b.input("tokens", [length, 1], TensorProto.INT64))
    for _ in range(layers):
        w, r = (b.normal(1, 4 * n, n, scale=n ** -0.5) for _ in range(2))
        y = b.op("LSTM", x, w, r, b.normal(1, 8 * n, scale=0.1), outputs=3, hidden_size=n)[0]
        x = b.op("Squeeze", y, b.ints(1))
    return b.model(b.linear(x, n, words))


def tiny():
    """What no second thread can help."""
    b = Builder("tiny")
    x = b.op("Relu", b.linear(b.input("x", [1, 64]), 64, 32))
    return b.model(b.op("Softmax", b.linear(x, 32, 10), axis=-1))


NETWORKS = {
    "tiny": tiny,
    "resnet18": lambda: resnet("resnet18", (2, 2, 2, 2), False),
    "resnet50": lambda: resnet("resnet50", (3, 4, 6, 3), True),
    "mobilenet_v2": mobilenet_v2,
    "bert_base": lambda: bert("bert_base", 12, 12, 64, 3072),
    "minilm": lambda: bert("minilm", 6, 12, 32, 1536),
    "vit_small": lambda: vit("vit_small", 12, 6, 64),
    "vit_base": lambda: vit("vit_base", 12, 12, 64),
    "gpt2": gpt2,
    "unet": unet,
    "lstm_lm": lstm,
}


def network(name):
    model = onnx.shape_inference.infer_shapes(NETWORKS[name](), strict_mode=True)
    onnx.checker.check_model(model)
    return model
