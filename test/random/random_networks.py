"""Random networks in sizes that networks have: what random_graphs.py --networks makes its models of.

Blocks of image networks, sequence networks and their mixtures, each as exporters spell them, with weights that keep the
numbers near one. Sizes are large enough for tiles, panels, blocks and several threads. ONNX Runtime in float, with its
optimisations off, says what is right; for other dtypes each node's answer is rounded.
"""
import numpy as np
from onnx import helper

import version_cases as versions
from random_build import Graph, Unfit, Value, model_of, new_dice, np_type, runtime_of

BLOCKS = {"image": {}, "tokens": {}}  # name: (function, weight)
MOST = 300_000  # elements of a value
MOST_PRODUCTS = 150_000_000  # of one node


def block(kind, weight=2):
    def note(function):
        BLOCKS[kind][function.__name__] = (function, weight)
        return function
    return note


class Network(Graph):
    """A Graph whose values are what ONNX Runtime says."""

    most = MOST

    def evaluate(self, schema, node, inputs, by_runtime):
        dtype = self.floats[0]

        def narrow(a):
            return a.astype(np.float32) if a.dtype == np_type(dtype) else a
        given = [Value(v.name, [narrow(a) for a in v.of], constant=v.constant) for v in inputs]
        session = runtime_of(schema, model_of(schema, node, self.opset, given), given)
        if not session:
            raise Unfit("no evaluator")
        answers = []
        for k in range(len(self.sizes)):
            answer, why = versions.attempt(session.run, None, {v.name: v.of[k] for v in given})
            if answer is None:
                raise Unfit("runtime: " + why)
            if any(not a.size or a.size > MOST for a in answer):
                raise Unfit("size")
            answers.append([a.astype(np_type(dtype)) if a.dtype == np.float32 else a for a in answer])
            if any(a.dtype.kind == "f" and not np.abs(a).max() < 100 for a in answers[-1]):
                raise Unfit("numbers too large")
        return [Value(n, [a[j] for a in answers]) for j, n in enumerate(o for o in node.output if o)]

    # ------------------------------------------------------------ weights and shortcuts
    def weight(self, *shape, spread=None):
        """Numbers whose sum of products with a row of ones and minus ones is near one."""
        fan = max(int(np.prod(shape[1:])), 1)
        d = np.random.default_rng(self.dice.getrandbits(32))
        return self.constant((d.standard_normal(shape) * (spread or fan**-0.5)).astype(np_type(self.floats[0])))

    def about(self, shape, middle=1.0, spread=0.2):
        d = np.random.default_rng(self.dice.getrandbits(32))
        return self.constant((middle + spread * d.uniform(-1, 1, shape)).astype(np_type(self.floats[0])))

    def number(self, x):
        return self.constant(np.array(x, np_type(self.floats[0])))

    def chance(self, p):
        return self.dice.random() < p

    def pick(self, *choices):
        return self.dice.choice(choices)

    def move(self, v, *perm):
        return self.one("Transpose", [v], perm=list(perm))

    def reshape(self, v, *dims):
        return self.one("Reshape", [v, self.ints(list(dims))])

    def ints(self, numbers, dtype="int64"):
        return self.constant(np.array(numbers, dtype))

    def axis(self, a, rank):
        return a if self.opset >= 11 else a % rank

    def softmax(self, v, axis=-1):
        if self.opset < 13 and axis % v.rank != v.rank - 1:
            raise Unfit("an old Softmax flattens")
        return self.one("Softmax", [v], axis=self.axis(axis, v.rank))

    def mean(self, v, axes, keepdims=1):
        return self.one("ReduceMean", [v, self.ints([a % v.rank for a in axes])], keepdims=keepdims)


def channels(v):
    return v.shape[1]


# ---------------------------------------------------------------- activations
def activate(g, v):
    form = g.pick("Relu", "Relu", "none", "relu6", "silu", "gelu", "hard", "LeakyRelu", "prelu", "tanh", "elu", "mish")
    if form == "none":
        return v
    if form == "relu6":
        return g.one("Clip", [v, g.number(0), g.number(6)])
    if form == "silu":
        return g.one("Mul", [v, g.one("Sigmoid", [v])])
    if form == "gelu":
        e = g.one("Erf", [g.one("Div", [v, g.number(2**0.5)])])
        return g.one("Mul", [g.one("Mul", [v, g.one("Add", [e, g.number(1)])]), g.number(0.5)])
    if form == "hard":
        return g.one("Mul", [v, g.one("HardSigmoid", [v], alpha=1 / 6, beta=0.5)])
    if form == "prelu":
        return g.one("PRelu", [v, g.about((v.shape[1],) + (1,) * (v.rank - 2), 0.2)])
    if form == "mish":
        return g.one("Mul", [v, g.one("Tanh", [g.one("Softplus", [v])])])
    return g.one({"tanh": "Tanh", "elu": "Elu"}.get(form, form), [v])


def normalise(g, v):
    """By channels of an image, in one of the ways; or not."""
    c = channels(v)
    form = g.pick("batch", "batch", "none", "instance", "group", "lrn", "layer")
    if form == "batch":
        stats = [g.about((c,)), g.about((c,), 0), g.about((c,), 0), g.about((c,))]
        return g.one("BatchNormalization", [v, *stats])
    if form == "instance":
        return g.one("InstanceNormalization", [v, g.about((c,)), g.about((c,), 0)])
    if form == "group" and v.rank == 4:
        groups = g.dice.choice([n for n in (1, 2, 4, 8, 32, c) if c % n == 0])
        flat = g.reshape(v, 0, groups, -1)
        y = g.one("InstanceNormalization", [flat, g.about((groups,), 1, 0), g.about((groups,), 0, 0)])
        y = g.one("Reshape", [y, g.one("Shape", [v])])
        y = g.one("Mul", [y, g.about((c, 1, 1))])
        return g.one("Add", [y, g.about((c, 1, 1), 0)])
    if form == "lrn":
        return g.one("LRN", [v], size=g.pick(3, 5), alpha=0.1)
    if form == "layer" and v.shape[1] >= 8:  # over the channels, in the manner of ConvNeXt; few halves nearly agree at times
        to, back = [0, *range(2, v.rank), 1], [0, v.rank - 1, *range(1, v.rank - 1)]
        return g.move(layer_norm(g, g.move(v, *to)), *back)
    return v


def layer_norm(g, v):
    size = v.shape[-1]
    form = g.pick("op", "spelled", "rms") if g.opset >= 17 else g.pick("spelled", "rms")
    if form == "op":
        return g.one("LayerNormalization", [v, g.about((size,)), g.about((size,), 0)], axis=-1)
    d = g.one("Sub", [v, g.mean(v, [-1])]) if form == "spelled" else v
    root = g.one("Sqrt", [g.one("Add", [g.mean(g.one("Mul", [d, d]), [-1]), g.number(1e-3)])])
    y = g.one("Div", [d, root]) if g.chance(0.6) else g.one("Mul", [d, g.one("Reciprocal", [root])])
    return g.one("Mul", [y, g.about((size,))])


# ---------------------------------------------------------------- images
def convolve(g, v, out, kernel, groups=1, bias=None, **attributes):
    spatial = v.rank - 2
    kernel = [kernel] * spatial if isinstance(kernel, int) else kernel
    w = g.weight(out, channels(v) // groups, *kernel)
    if int(np.prod(v.shape)) * out // groups * int(np.prod(kernel)) > MOST_PRODUCTS:
        raise Unfit("long")
    bias = g.chance(0.5) if bias is None else bias
    return g.one("Conv", [v, w] + ([g.about((out,), 0)] if bias else []), group=groups, kernel_shape=kernel, **attributes)


def padding(g, kernel, spatial, dilation=1):
    """Attributes for a window that keeps the size, or nearly so."""
    reach = dilation * (kernel - 1)
    form = g.pick("same", "same", "upper", "lower", "none", "uneven", "wide")
    if form == "upper" or form == "lower":
        return {"auto_pad": f"SAME_{form.upper()}"}
    half = {"same": reach // 2, "wide": reach, "none": 0, "uneven": 0}[form]
    pads = [half] * (2 * spatial)
    if form == "uneven":
        pads = [g.dice.randint(0, reach) for _ in pads]
    return {"pads": pads}


WIDTHS = (3, 8, 12, 16, 17, 24, 32, 40, 64, 96)


@block("image", 8)
def convolution(g, v):
    spatial, kernel, out = v.rank - 2, g.pick(1, 1, 3, 3, 3, 5, 7, 2), g.pick(*WIDTHS)
    attributes = {"strides": [g.pick(1, 1, 1, 2, 3)] * spatial}
    dilation = g.pick(1, 1, 1, 1, 2, 3)
    if dilation > 1:
        attributes["dilations"] = [dilation] * spatial
    groups = 1
    if g.chance(0.2):
        groups = g.dice.choice([n for n in (2, 3, 4, 8) if channels(v) % n == 0] or [1])
        out += -out % groups
    attributes.update(padding(g, kernel, spatial, dilation))
    y = convolve(g, v, out, kernel, groups, **attributes)
    return activate(g, normalise(g, y))


@block("image", 3)
def depthwise(g, v):
    spatial, c = v.rank - 2, channels(v)
    wide = v
    if g.chance(0.5):  # an inverted residual
        c = c * g.pick(2, 4)
        wide = activate(g, normalise(g, convolve(g, v, c, 1)))
    kernel, stride = g.pick(3, 3, 5, 7), g.pick(1, 1, 2)
    y = convolve(g, wide, c * g.pick(1, 1, 1, 2), kernel, c, strides=[stride] * spatial, pads=[kernel // 2] * (2 * spatial))
    y = activate(g, normalise(g, y))
    if g.chance(0.4):
        y = squeeze_excite(g, y)
    y = normalise(g, convolve(g, y, channels(v), 1))
    return g.one("Add", [y, v]) if y.shapes == v.shapes else y


def squeeze_excite(g, v):
    c = channels(v)
    s = g.one("GlobalAveragePool", [v]) if g.chance(0.6) else g.mean(v, range(2, v.rank))
    s = activate(g, convolve(g, s, max(c // 4, 1), 1, bias=True))
    return g.one("Mul", [v, g.one("Sigmoid", [convolve(g, s, c, 1, bias=True)])])


@block("image", 4)
def residual(g, v):
    spatial, c = v.rank - 2, channels(v)
    y = v
    for _ in range(g.pick(1, 2)):
        y = activate(g, normalise(g, convolve(g, y, c, 3, pads=[1] * (2 * spatial))))
    y = g.one("Add", [y, v] if g.chance(0.5) else [v, y])
    return g.one("Relu", [y]) if g.chance(0.5) else y


@block("image", 3)
def branches(g, v):
    """Several ways side by side, joined along the channels or split from them."""
    spatial = v.rank - 2
    if g.chance(0.4) and channels(v) >= 2:
        half = channels(v) // 2
        first, second = split(g, v, [half, channels(v) - half])
    else:
        first = second = v
    ways = [convolve(g, first, g.pick(8, 16, 24), 1), convolve(g, second, g.pick(5, 16, 32), 3, pads=[1] * (2 * spatial))]
    if g.chance(0.5):
        ways.append(g.one(g.pick("MaxPool", "AveragePool"), [v], kernel_shape=[3] * spatial, pads=[1] * (2 * spatial),
                          strides=[1] * spatial))
    if g.chance(0.3):
        ways.append(v)
    y = g.one("Concat", [activate(g, w) for w in ways], axis=1)
    if g.chance(0.3) and v.rank == 4 and channels(y) % 2 == 0:  # channels shuffled
        sizes = y.shape[1] // 2
        wanted = [0, 2, sizes, -1, y.shape[3]]
        if len({s[3] for s in y.shapes}) > 1:
            raise Unfit("two sizes")
        y = g.reshape(g.move(g.reshape(y, *wanted), 0, 2, 1, 3, 4), 0, sizes * 2, -1, y.shape[3])
    return y


def split(g, v, sizes, axis=1):
    return g.add("Split", [v, g.ints(sizes)], len(sizes), axis=axis)


@block("image", 3)
def pool(g, v):
    spatial, kernel = v.rank - 2, g.pick(2, 2, 3, 3, 5)
    if min(v.shape[2:]) < kernel:  # no window fits: onnx's reference evaluator counts one all the same
        return v
    op = g.pick("MaxPool", "MaxPool", "AveragePool")
    attributes = {"kernel_shape": [kernel] * spatial, "strides": [g.pick(1, 2, 2, 3)] * spatial, **padding(g, kernel, spatial)}
    if "pads" in attributes:
        attributes["pads"] = [min(p, kernel - 1) for p in attributes["pads"]]
        if g.opset >= 10 and g.chance(0.3):
            attributes["ceil_mode"] = 1
    if op == "AveragePool" and g.chance(0.5) and not attributes.get("ceil_mode"):
        attributes["count_include_pad"] = 1
    return g.one(op, [v], **attributes)


@block("image", 3)
def enlarge(g, v):
    spatial = v.rank - 2
    form = g.pick("resize", "resize", "transposed", "shuffle", "pad")
    if form == "transposed":
        kernel, stride = g.pick(2, 3, 4), g.pick(1, 2, 2, 3)
        groups = channels(v) if g.chance(0.15) else 1
        out = g.pick(1, 2) if groups > 1 else g.pick(8, 16, 20)
        attributes = {"strides": [stride] * spatial, "pads": [g.dice.randint(0, kernel - 1) for _ in range(2 * spatial)]}
        if stride > 1 and g.chance(0.4):
            attributes["output_padding"] = [g.dice.randint(0, stride - 1)] * spatial
        if int(np.prod(v.shape)) * out * kernel**spatial > MOST_PRODUCTS:
            raise Unfit("long")
        w = g.weight(channels(v), out, *[kernel] * spatial, spread=(channels(v) // groups * kernel**spatial)**-0.5)
        return activate(g, g.one("ConvTranspose", [v, w], group=groups, **attributes))
    if form == "shuffle" and v.rank == 4 and channels(v) % 4 == 0:
        return g.one("DepthToSpace", [v], blocksize=2, **({"mode": g.pick("CRD", "DCR")} if g.opset >= 11 else {}))
    if form == "pad":
        pads = [0, 0, *(g.dice.randint(0, 2) for _ in range(spatial))] * 2
        return g.one("Pad", [v, g.ints(pads)], mode=g.pick("reflect", "edge", "constant"))
    scales = g.constant(np.array([1, 1] + [g.pick(2.0, 2.0, 1.5)] * spatial, np.float32))
    if g.opset < 11:
        raise Unfit("an old Resize")
    mode = g.pick(("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"), ("cubic", "half_pixel"))
    if mode[1] == "align_corners" and any(int(size * 1.5) != size * 1.5 for a in v.of for size in a.shape[2:]):
        raise Unfit("lengths that are fractions")  # ONNX Runtime rounds them first
    if v.rank != 4 and mode[0] != "nearest":
        raise Unfit("an image of another rank")
    extra = {"nearest_mode": "floor"} if mode[0] == "nearest" else {}
    nothing = g.constant(np.zeros(0, np.float32)) if g.opset < 13 else None
    return g.one("Resize", [v, nothing, scales], mode=mode[0], coordinate_transformation_mode=mode[1], **extra)


@block("image", 2)
def cross_connection(g, v):
    """With an earlier image of the same size: a sum, a product or side by side."""
    same = [o for o in g.values if o.rank == v.rank and o.dtype == v.dtype and o is not v and o.name in g.images
            and all(a[0] == b[0] and a[2:] == b[2:] for a, b in zip(o.shapes, v.shapes))]
    if not same:
        raise Unfit("none")
    other = g.dice.choice(same)
    if other.shapes == v.shapes:
        return g.one(g.pick("Add", "Mul", "Sub"), [v, other])
    return g.one("Concat", [other, v], axis=1)


@block("image", 2)
def focus(g, v):
    """Every other pixel, four times, side by side."""
    if v.rank != 4 or g.opset < 10 or any(n % 2 for s in v.shapes for n in s[2:]):
        raise Unfit("odd")
    parts = []
    for i in (0, 1):
        for j in (0, 1):
            big = 2**31 - 1
            parts.append(g.one("Slice", [v, g.ints([i, j]), g.ints([big, big]), g.ints([2, 3]), g.ints([2, 2])]))
    return g.one("Concat", parts, axis=1)


@block("image", 2)
def pixels_attend(g, v):
    """Attention among the pixels, with 1x1 convolutions before and after."""
    if v.rank != 4 or any(s[2] * s[3] > 260 for s in v.shapes):
        raise Unfit("many pixels")
    c, inner = channels(v), g.pick(8, 16, 20)
    q, k, w = (g.reshape(convolve(g, v, inner, 1), 0, inner, -1) for _ in range(3))
    scores = g.softmax(g.one("Mul", [g.one("MatMul", [g.move(q, 0, 2, 1), k]), g.number(inner**-0.5)]))
    y = g.one("MatMul", [w, g.move(scores, 0, 2, 1)])
    sizes = g.one("Slice", [g.one("Shape", [v]), g.ints([2]), g.ints([4]), g.ints([0])])
    wanted = g.one("Concat", [g.ints([0, inner]), sizes], axis=0)
    return g.one("Add", [v, convolve(g, g.one("Reshape", [y, wanted]), c, 1)])


# ---------------------------------------------------------------- tokens: batch, positions, features
def linear(g, v, out, bias=True):
    w = g.weight(out, v.shape[-1])
    rows = int(np.prod(v.shape))
    if rows * out > MOST_PRODUCTS:
        raise Unfit("long")
    y = g.one("MatMul", [v, g.constant(w.of[0].T.copy())]) if g.chance(0.7) else g.one("MatMul", [v, g.move(w, 1, 0)])
    return g.one("Add", [y, g.about((out,), 0)] if g.chance(0.5) else [g.about((out,), 0), y]) if bias else y


@block("tokens", 5)
def feed_forward(g, v):
    size, inner = v.shape[-1], g.pick(32, 48, 100, 128)
    y = layer_norm(g, v) if g.chance(0.6) else v
    if g.chance(0.3):  # gated
        y = g.one("Mul", [activate_row(g, linear(g, y, inner)), linear(g, y, inner)])
    else:
        y = activate_row(g, linear(g, y, inner))
    return g.one("Add", [v, linear(g, y, size)])


def activate_row(g, v):
    form = g.pick("Relu", "silu", "gelu", "tanh gelu")
    if form == "Relu":
        return g.one("Relu", [v])
    if form == "silu":
        return g.one("Mul", [v, g.one("Sigmoid", [v])])
    if form == "gelu":
        e = g.one("Add", [g.one("Erf", [g.one("Div", [v, g.number(2**0.5)])]), g.number(1)])
    else:
        cube = g.one("Mul", [g.one("Pow", [v, g.number(3)]), g.number(0.044715)])
        e = g.one("Tanh", [g.one("Mul", [g.one("Add", [v, cube]), g.number(0.7978846)])])
        e = g.one("Add", [e, g.number(1)])
    return g.one("Mul", [g.one("Mul", [v, g.number(0.5)]), e])


def heads_of(g, v, heads, size):
    return g.move(g.reshape(v, 0, -1, heads, size), 0, 2, 1, 3)


def rotate(g, v):
    """Rotary positions, spelled out with halves."""
    half = v.shape[-1] // 2
    first, second = split(g, v, [half, half], 3)
    turned = g.one("Concat", [g.one("Neg", [second]), first], axis=3)
    angle = np.arange(512)[:, None] / 10.0 ** (np.arange(half) / half)
    t = np_type(g.floats[0])
    tables = [g.constant(np.concatenate([f(angle)] * 2, 1).astype(t)) for f in (np.cos, np.sin)]
    length = g.one("Slice", [g.one("Shape", [v]), g.ints([2]), g.ints([3]), g.ints([0])])
    cos, sin = (g.one("Slice", [x, g.ints([0]), length, g.ints([0])]) for x in tables)
    return g.one("Add", [g.one("Mul", [v, cos]), g.one("Mul", [turned, sin])])


@block("tokens", 6)
def self_attention(g, v):
    heads, size = g.pick(1, 2, 3, 4), g.pick(8, 16, 20, 32)
    inner = heads * size
    y = layer_norm(g, v) if g.chance(0.5) else v
    groups = g.pick(1, 1, 2) if heads % 2 == 0 and g.opset >= 10 else 1
    if groups == 1 and g.chance(0.4):  # one product for all three
        q, k, w = split(g, linear(g, y, 3 * inner), [inner] * 3, 2)
    else:
        q, k, w = (linear(g, y, n) for n in (inner, inner // groups, inner // groups))
    q, k, w = heads_of(g, q, heads, size), heads_of(g, k, heads // groups, size), heads_of(g, w, heads // groups, size)
    if g.chance(0.3) and g.opset >= 10:
        q, k = rotate(g, q), rotate(g, k)
    if groups > 1:
        k, w = (repeat_heads(g, x, heads // groups, groups, size) for x in (k, w))
    scores = g.one("MatMul", [q, g.move(k, 0, 1, 3, 2)])
    scores = g.one("Div", [scores, g.number(size**0.5)]) if g.chance(0.5) else g.one("Mul", [scores, g.number(size**-0.5)])
    scores = masked(g, scores)
    y = g.move(g.one("MatMul", [g.softmax(scores), w]), 0, 2, 1, 3)
    return g.one("Add", [linear(g, g.reshape(y, 0, -1, inner), v.shape[-1]), v])


def repeat_heads(g, v, heads, times, size):
    wide = g.one("Unsqueeze", [v, g.ints([2])])
    ones = g.constant(np.ones((1, 1, times, 1, 1), np_type(g.floats[0])))
    wide = g.one("Mul", [wide, ones]) if g.chance(0.5) else g.one("Concat", [wide] * times, axis=2)
    return g.reshape(wide, 0, heads * times, -1, size)


def masked(g, scores):
    form = g.pick("none", "causal", "bias", "window")
    if form == "none" or (form == "causal" and g.opset < 14):
        return scores
    sizes = {s[-2:] for s in scores.shapes}
    if form == "causal":
        shape = g.one("Slice", [g.one("Shape", [scores]), g.ints([2]), g.ints([4]), g.ints([0])])
        ones = g.one("ConstantOfShape", [shape], value=helper.make_tensor("v", 9, [1], [1]))
        keep = g.one("Trilu", [ones, g.ints(0)], upper=0)
        return g.one("Where", [keep, scores, g.number(-90)])
    if len(sizes) > 1:
        raise Unfit("two sizes")
    if form == "bias":
        return g.one("Add", [scores, g.about((scores.shape[1], *sizes.pop()), 0, 1)])
    near = np.abs(np.subtract.outer(*map(np.arange, sizes.pop()))) < 5
    return g.one("Where", [g.constant(near), scores, g.number(-60)]) if g.opset >= 9 else scores


@block("tokens", 2)
def mix_positions(g, v):
    """A convolution, a product or a running sum along the positions."""
    size = v.shape[-1]
    form = g.pick("convolution", "depthwise", "einsum", "cumsum", "conv gate")
    if form == "einsum" and g.opset >= 12:
        return g.one("Add", [v, g.one("Einsum", [v, g.weight(size, size)], equation=g.pick("bsd,ed->bse", "bsd,de->bse"))])
    if form == "cumsum" and g.opset >= 11:
        return g.one("Mul", [g.one("CumSum", [v, g.constant(np.array(1))]), g.number(0.05)])
    t = g.move(v, 0, 2, 1)
    groups = size if form == "depthwise" else 1
    out = 2 * size if form == "conv gate" else size
    kernel = g.pick(3, 5, 9)
    pads = [kernel - 1, 0] if g.chance(0.4) else [kernel // 2] * 2
    y = convolve(g, t, out, [kernel], groups, pads=pads)
    if form == "conv gate":
        a, b = split(g, y, [size, size])
        y = g.one("Mul", [a, g.one("Sigmoid", [b])])
    return g.one("Add", [v, g.move(y, 0, 2, 1)])


@block("tokens", 1)
def recurrent(g, v):
    if g.opset < 7 or any(s[1] > 40 for s in v.shapes):
        raise Unfit("long")
    op, hidden = g.pick("LSTM", "GRU", "RNN"), g.pick(8, 16, 24)
    gates, count = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], g.pick(1, 2)
    spread = hidden**-0.5
    weights = [g.weight(count, gates * hidden, n, spread=spread / 2) for n in (v.shape[-1], hidden)]
    bias = g.weight(count, 2 * gates * hidden, spread=0.1)
    y = g.one(op, [g.move(v, 1, 0, 2), *weights, bias], hidden_size=hidden,
              direction="bidirectional" if count == 2 else g.pick("forward", "reverse"))
    y = g.reshape(g.move(y, 2, 0, 1, 3), 0, 0, count * hidden)
    return y


@block("tokens", 2)
def shifted(g, v):
    """Positions shifted or extended by a token."""
    big = 2**31 - 1
    if g.chance(0.5):
        start, rest = (g.one("Slice", [v, g.ints([a]), g.ints([b]), g.ints([1])]) for a, b in ((0, 1), (1, big)))
        return g.one("Concat", [rest, start], axis=1)
    token = g.weight(1, 1, v.shape[-1], spread=1)
    if g.opset < 8:
        raise Unfit("no Expand")
    count = g.one("Slice", [g.one("Shape", [v]), g.ints([0]), g.ints([1]), g.ints([0])])
    token = g.one("Expand", [token, g.one("Concat", [count, g.ints([1, 1])], axis=0)])
    return g.one("Concat", [token, v], axis=1)


# ---------------------------------------------------------------- from images to tokens and back
@block("image", 2)
def to_tokens(g, v):
    if v.rank < 3 or any(int(np.prod(s[2:])) > 400 for s in v.shapes):
        raise Unfit("many")
    y = g.move(g.reshape(v, 0, channels(v), -1), 0, 2, 1)
    return linear(g, y, g.pick(16, 32, 48, 64)) if g.chance(0.7) else y


@block("tokens", 1)
def to_image(g, v):
    t = g.move(v, 0, 2, 1)
    if g.chance(0.5) or g.opset < 13:
        return t
    return g.one("Unsqueeze", [t, g.ints([2])])


@block("image", 1)
def to_vector(g, v):
    y = g.one("Flatten", [g.one(g.pick("GlobalAveragePool", "GlobalMaxPool"), [v])], axis=1)
    w = g.weight(g.pick(10, 33, 100), channels(v))
    y = g.one("Gemm", [y, w, g.about((w.shape[0],), 0)], transB=1)
    return g.softmax(y) if g.chance(0.4) else y


# ---------------------------------------------------------------- the whole
def is_image(g, v):
    return v.name in g.images


def start(g):
    """An image of rank 3, 4 or 5, or tokens; sizes small enough for some dozen nodes."""
    sizes = g.sizes[0]
    if g.chance(0.35):
        dims = ["B" if "B" in sizes else g.pick(1, 2), "S" if "S" in sizes else g.pick(7, 33, 64, 129), g.pick(16, 24, 32, 40, 64)]
    else:
        rank = g.pick(3, 4, 4, 4, 4, 5)
        large = {3: (50, 100, 257), 4: (14, 16, 28, 31, 40, 56), 5: (6, 8, 11)}[rank]
        dims = ["B" if "B" in sizes else g.pick(1, 1, 2), g.pick(3, 3, 8, 16, 20, 32)]
        dims += [("H", "W")[i % 2] if "H" in sizes and rank == 4 else g.pick(*large) for i in range(rank - 2)]
    shapes = [tuple(k.get(d, d) for d in dims) for k in g.sizes]
    dtype = g.floats[0]
    v = g.input([np.random.default_rng(g.dice.getrandbits(32)).standard_normal(s).astype(np_type(dtype)) for s in shapes])
    g.infos[v.name] = dims
    if len(dims) > 3 or dims[2] not in (16, 24, 32, 40, 64):
        g.images.add(v.name)
    return v


def random_network(seed, index, why=None):
    dice = new_dice(f"network {seed}", index)
    opset = dice.choice((7, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22))
    floats = dice.choice([("float32",)] * 8 + [("float16",)] + [("float64",)])
    sizes = dice.choice([[{}]] * 3 + [[{"B": 2, "S": 21, "H": 20, "W": 24}, {"B": 1, "S": 40, "H": 33, "W": 17}]] * 2)
    g = Network(dice, opset, floats, sizes)
    g.images = set()
    v = start(g)
    for _ in range(dice.choice((2, 3, 5, 8))):
        kind = "image" if is_image(g, v) else "tokens"
        if v.rank < 3:
            break
        names = list(BLOCKS[kind])
        name = dice.choices(names, [BLOCKS[kind][n][1] for n in names])[0]
        try:
            made = BLOCKS[kind][name][0](g, v)
        except Unfit as e:
            if why is not None:
                why[f"{name}: {e}"] += 1
            continue
        if (kind == "image") != (name in ("to_tokens", "to_vector")) and name != "to_image" or name == "to_image":
            g.images.add(made.name)
        v = made
    g.last = v
    return g
