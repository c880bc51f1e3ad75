"""More kinds of nodes for random_graphs.py: images sampled at positions, signals, losses, caches, narrow types, strings, and
the operators of ai.onnx.ml."""
import numpy as np
from onnx import helper, numpy_helper

from random_build import INTS, ML, Unfit, elem_type, np_type
from random_nodes import any_type, axes_of, axis_of, chance, float_type, image, index_type, kind, maybe, shape, some


# ---------------------------------------------------------------- images
def picture(g, dtypes=None):
    """An image of two axes and of one size."""
    found = [v for v in g.visible() if v.dtype in (dtypes or g.floats) and v.rank == 4 and v.fixed and 0 not in v.shape and v.shape[1] <= 16]
    if found and chance(g, 0.6):
        return g.dice.choice(found[-4:])
    shape_ = (g.dice.randint(1, 2), g.dice.choice((1, 2, 3, 4, 6, 8)), g.dice.randint(2, 9), g.dice.randint(2, 9))
    return g.fresh(g.dice.choice(list(dtypes or g.floats)), shape_)


def positions(g, dtype, shape_):
    """Numbers a little away from the places where the result jumps."""
    d = np.random.default_rng(g.dice.getrandbits(32))
    return g.constant((d.integers(-14, 15, shape_) / 10 + 0.0137).astype(np_type(dtype)))


@kind(2)
def grid_sample(g):
    v = image(g)
    if not v.fixed:
        raise Unfit("sizes")
    spatial = v.rank - 2
    out = [g.dice.choice((1, 2, 5)) for _ in range(spatial)]
    modes = ("bilinear", "nearest", "bicubic") if g.opset < 20 else ("linear", "nearest", "cubic")
    attributes = maybe(g, {"mode": g.dice.choice(modes[:2] if spatial != 2 else modes), "align_corners": 1,
                           "padding_mode": g.dice.choice(("zeros", "border", "reflection"))})
    g.add("GridSample", [v, positions(g, v.dtype, (v.shape[0], *out, spatial))], **attributes)


@kind(1)
def affine_grid(g):
    spatial, batch = g.dice.randint(2, 3), g.dice.randint(1, 3)
    size = [batch, 2, *(g.dice.randint(1, 5) for _ in range(spatial))]
    g.add("AffineGrid", [g.fresh(float_type(g), (batch, spatial, spatial + 1)), g.ints(size)], **maybe(g, {"align_corners": 1}))


@kind(1)
def regions(g):
    v = picture(g)
    count, side = g.dice.randint(0 if chance(g, 0.1) else 1, 3), max(v.shape[2:])
    d = np.random.default_rng(g.dice.getrandbits(32))
    boxes = (d.integers(-10, 10 * side, (count, 4)) / 10 + 0.0137).astype(np_type(v.dtype))
    height, width = g.dice.randint(1, 3), g.dice.randint(1, 4)
    if chance(g, 0.25):
        rows = np.concatenate([d.integers(0, v.shape[0], (count, 1)).astype(boxes.dtype), np.sort(boxes.reshape(count, 2, 2), 1).reshape(count, 4)], 1)
        g.add("MaxRoiPool", [v, g.constant(rows)], pooled_shape=[height, width], **maybe(g, {"spatial_scale": 0.5}))
        return
    attributes = maybe(g, {"spatial_scale": 0.5, "sampling_ratio": g.dice.randint(1, 3), "mode": g.dice.choice(("avg", "max")),
                           "output_height": height, "output_width": width})
    if g.opset >= 16:
        attributes.update(maybe(g, {"coordinate_transformation_mode": g.dice.choice(("half_pixel", "output_half_pixel"))}))
    at = g.fresh("int64", (count,), 0, v.shape[0] - 1)
    g.add("RoiAlign", [v, g.constant(boxes), at], **attributes)


@kind(1)
def boxes(g):
    """NonMaxSuppression of boxes on a grid, whose overlaps are not near the threshold."""
    batch, classes, count = g.dice.randint(1, 2), g.dice.randint(1, 3), g.dice.randint(1, 9)
    d = np.random.default_rng(g.dice.getrandbits(32))
    corner = d.integers(0, 5, (batch, count, 2))
    box = np.concatenate([corner, corner + d.integers(1, 4, (batch, count, 2))], 2).astype(np.float32)
    center = chance(g, 0.3)
    scores = d.permutation(batch * classes * count).reshape(batch, classes, count).astype(np.float32) / 64
    limits = [g.ints([g.dice.randint(0, 4)]), g.constant(np.array([g.dice.choice((0.0, 0.31, 0.57))], np.float32)),
              g.constant(np.array([g.dice.choice((-1.0, 0.1234))], np.float32))][:g.dice.randint(2, 3)]
    g.add("NonMaxSuppression", [g.input([box] * len(g.sizes)) if not g.outer else g.constant(box), g.constant(scores), *limits],
          **({"center_point_box": 1} if center else {}))


@kind(1)
def deformed(g):
    v = picture(g)
    channels = v.shape[1]
    group, parts = (g.dice.choice([n for n in range(1, channels + 1) if channels % n == 0]) for _ in range(2))
    kernel = [g.dice.randint(1, 3) for _ in range(2)]
    strides, dilations, pads = ([g.dice.randint(1, 2) for _ in range(2)], [g.dice.randint(1, 2) for _ in range(2)],
                                [g.dice.randint(0, 1) for _ in range(4)])
    out = [(v.shape[2 + i] + pads[i] + pads[2 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(2)]
    if min(out) < 1:
        raise Unfit("small")
    taps, n = kernel[0] * kernel[1], group * g.dice.choice((1, 2, 3))
    offsets = positions(g, v.dtype, (v.shape[0], 2 * parts * taps, *out))
    inputs = [v, g.fresh(v.dtype, (n, channels // group, *kernel), -0.7, 0.7), offsets,
              g.fresh(v.dtype, (n,)) if chance(g, 0.5) else None,
              g.fresh(v.dtype, (v.shape[0], parts * taps, *out)) if chance(g, 0.5) else None]
    g.add("DeformConv", inputs, strides=strides, dilations=dilations, pads=pads, group=group, offset_group=parts)


@kind(1)
def columns(g):
    spatial = g.dice.randint(1, 3)
    block, strides, dilations = ([g.dice.randint(1, 2) for _ in range(spatial)] for _ in range(3))
    pads = [g.dice.randint(0, 1) for _ in range(2 * spatial)]
    size = [g.dice.randint(3, 5) for _ in range(spatial)]
    count = [(size[i] + pads[i] + pads[spatial + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(spatial)]
    v = g.fresh(float_type(g), (g.dice.randint(1, 2), g.dice.randint(1, 3) * int(np.prod(block)), int(np.prod(count))))
    attributes = {k: a for k, a, plain in (("strides", strides, 1), ("dilations", dilations, 1), ("pads", pads, 0)) if set(a) != {plain} or chance(g, 0.3)}
    g.add("Col2Im", [v, g.ints(size), g.ints(block)], **attributes)


@kind(2)
def center(g):
    v = some(g, any_type(g), 1, 4)
    axes = axes_of(g, v.rank, 1)
    whole = chance(g, 0.3)
    size = [g.dice.randint(0 if chance(g, 0.1) else 1, 9) for _ in (range(v.rank) if whole else axes)]
    g.add("CenterCropPad", [v, g.ints(size, index_type(g))], **({} if whole else {"axes": axes}))


@kind(1)
def unpool(g):
    v = picture(g, ("float32",))
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    y, at = g.add("MaxPool", [v], 2, **attributes)
    g.add("MaxUnpool", [y, at], **attributes)


# ---------------------------------------------------------------- signals, losses, matrices
@kind(2)
def spectrum(g):
    dtype = g.dice.choice([t for t in g.floats if t != "bfloat16"] or ["float32"])
    length, batch, parts = g.dice.choice((1, 2, 3, 5, 8, 12, 16, 17)), g.dice.randint(1, 2), g.dice.randint(1, 2)
    attributes = maybe(g, {"inverse": 1}, 0.3)
    if chance(g, 0.3):
        step, window = g.dice.randint(1, 4), g.dice.choice((4, 6, 8))
        parts = 1
        inputs = [g.fresh(dtype, (batch, window + length, parts)), g.ints(step), g.fresh(dtype, (window,)) if chance(g, 0.6) else None]
        if inputs[2] is None or chance(g, 0.4):
            inputs.append(g.ints(window))
        g.add("STFT", inputs, **maybe(g, {"onesided": g.dice.randint(0, 1)}))
        return
    front = g.dice.randint(0, 1)
    v = g.fresh(dtype, (batch, length, 3, parts) if front else (batch, length, parts))
    axis = 1
    if parts == 1 and not attributes:
        attributes.update(maybe(g, {"onesided": 1}))
    inputs = [v, g.ints(g.dice.choice((length, length + 2, max(length - 1, 1)))) if chance(g, 0.4) else None]
    if g.opset >= 20:
        inputs.append(g.constant(np.array(axis - v.rank if chance(g, 0.3) else axis)) if axis != v.rank - 2 or chance(g, 0.5) else None)
    else:
        attributes["axis"] = axis
    g.add("DFT", inputs, **attributes)


@kind(1)
def mel(g):
    number = g.dice.choice(("int32", "int64"))
    values = [np.array(n, number) for n in (g.dice.randint(1, 6), g.dice.choice((8, 13, 32)), g.dice.choice((800, 1600)))]
    values += [np.array(n, np.float32) for n in (g.dice.choice((0, 20.5)), g.dice.choice((200.5, 390.25)))]
    g.add("MelWeightMatrix", [g.constant(a) for a in values])


@kind(2)
def loss(g):
    batch, classes = g.dice.randint(1, 4), g.dice.randint(1, 6)
    rest = [g.dice.randint(1, 4) for _ in range(g.dice.randint(0, 2))]
    dtype = float_type(g)
    x = g.fresh(dtype, (batch, classes, *rest))
    labels = g.fresh(index_type(g), (batch, *rest), 0, classes - 1)
    weights = g.fresh(dtype, (classes,), 0.2, 2) if chance(g, 0.4) else None
    attributes = maybe(g, {"reduction": g.dice.choice(("none", "sum", "mean")), "ignore_index": g.dice.randint(-1, classes)}, 0.6)
    if chance(g, 0.5):
        g.add("NegativeLogLikelihoodLoss", [x, labels, weights], **attributes)
    else:
        g.add("SoftmaxCrossEntropyLoss", [x, labels, weights], g.dice.randint(1, 2), **attributes)


@kind(1)
def determinant(g):
    n = g.dice.randint(1, 4)
    g.add("Det", [g.fresh(float_type(g), (*shape(g, 0, 2), n, n))])


@kind(2)
def cache(g):
    """TensorScatter into a cache of keys, which a causal attention may read."""
    batch, heads, length, size, new = g.dice.randint(1, 3), g.dice.randint(1, 2), g.dice.randint(4, 7), 4, g.dice.randint(1, 3)
    dtype = float_type(g)
    flat = chance(g, 0.3)
    past = g.fresh(dtype, (batch, length, size) if flat else (batch, heads, length, size))
    update = g.fresh(dtype, (batch, new, size) if flat else (batch, heads, new, size))
    circular = chance(g, 0.4)
    at = g.fresh("int64", (batch,), 0, length - 1 if circular else length - new) if chance(g, 0.8) else None
    attributes = {"axis": g.dice.choice((-2, past.rank - 2))} if chance(g, 0.4) else {}
    g.add("TensorScatter", [past, update, at], **attributes, **({"mode": "circular"} if circular else {}))


@kind(1)
def gated(g):
    v = some(g)
    g.add("SwiGLU", [v, g.fresh(v.dtype, v.shapes)], **maybe(g, {"alpha": 1.3}))


@kind(1)
def causal_convolution(g):
    batch, channels, length, taps = g.dice.randint(1, 2), g.dice.randint(1, 5), g.dice.randint(1, 6), g.dice.randint(1, 4)
    dtype = float_type(g)
    inputs = [g.fresh(dtype, (batch, channels, length)), g.fresh(dtype, (channels, 1, taps)),
              g.fresh(dtype, (channels,)) if chance(g, 0.5) else None,
              g.fresh(dtype, (batch, channels, taps - 1)) if chance(g, 0.5) and taps > 1 else None]
    g.add("CausalConvWithState", inputs, 2, **maybe(g, {"activation": g.dice.choice(("silu", "swish", "none"))}))


@kind(1)
def linear_attention(g):
    batch, heads, length, size, out = g.dice.randint(1, 2), g.dice.randint(1, 2), g.dice.randint(1, 5), g.dice.choice((2, 4)), g.dice.choice((2, 3))
    dtype = float_type(g)
    rule = g.dice.choice(("linear", "gated", "delta", "gated_delta"))
    q, k = (g.fresh(dtype, (batch, length, heads * size), -0.6, 0.6) for _ in range(2))
    v = g.fresh(dtype, (batch, length, heads * out))
    past = g.fresh(dtype, (batch, heads, size, out)) if chance(g, 0.5) else None
    decay = g.fresh(dtype, (batch, length, heads * (size if chance(g, 0.5) else 1)), -1, 0) if "gated" in rule else None
    beta = g.fresh(dtype, (batch, length, heads), 0, 1) if "delta" in rule else None
    g.add("LinearAttention", [q, k, v, past, decay, beta], 2, update_rule=rule, q_num_heads=heads, kv_num_heads=heads,
          **maybe(g, {"scale": 0.4, "chunk_size": 2}))


# ---------------------------------------------------------------- narrow types
NARROW = {"float8_e4m3fn": 19, "float8_e4m3fnuz": 19, "float8_e5m2": 19, "float8_e5m2fnuz": 19, "int4": 21, "uint4": 21, "float4_e2m1fn": 23,
          "int2": 25, "uint2": 25, "float8_e8m0fnu": 24}


def narrow_type(g):
    found = [t for t, since in NARROW.items() if since <= g.opset]
    if not found:
        raise Unfit("no narrow type")
    return g.dice.choice(found)


def narrow_data(g, dtype, shape_):
    """Elements that the type has."""
    wide = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}.get(dtype)
    d = np.random.default_rng(g.dice.getrandbits(32))
    if wide:
        return d.integers(*wide, shape_, endpoint=True).astype(np_type(dtype))
    if dtype == "float8_e8m0fnu":
        return (2.0 ** d.integers(-4, 5, shape_)).astype(np.float32).astype(np_type(dtype))
    return (d.integers(-12, 13, shape_) / 2).astype(np.float32).astype(np_type(dtype))


def narrow(g, least=0, most=4):
    dtype = narrow_type(g)
    found = [v for v in g.visible() if v.dtype in NARROW and least <= v.rank <= most]
    if found and chance(g, 0.6):
        return g.dice.choice(found)
    a = narrow_data(g, dtype, shape(g, least, most))
    if chance(g, 0.4) or g.outer:
        return g.constant(a)
    if chance(g, 0.5) and not g.plain:
        return g.input([a] * len(g.sizes))
    return g.one("Cast", [g.input([a.astype(np.float32)] * len(g.sizes))], to=int(elem_type(a)))


@kind(4)
def narrow_moves(g):
    v = narrow(g)
    form = g.dice.choice("transpose reshape identity concat gather slice flatten expand tile unsqueeze shape pad split where squeeze equal".split())
    if form == "transpose":
        g.add("Transpose", [v], perm=g.dice.sample(range(v.rank), v.rank))
    elif form == "reshape":
        g.add("Reshape", [v, g.ints([-1])])
    elif form == "concat" and v.rank:
        g.add("Concat", [v, v, v], axis=axis_of(g, v))
    elif form == "gather" and v.rank:
        axis = axis_of(g, v)
        if not v.shape[axis]:
            raise Unfit("nothing")
        g.add("Gather", [v, g.fresh("int64", (3,), 0, v.shape[axis] - 1)], axis=axis)
    elif form == "slice" and v.rank:
        axis = axis_of(g, v)
        g.add("Slice", [v, g.ints([g.dice.randint(0, 2)]), g.ints([99]), g.ints([axis]), g.ints([g.dice.choice((1, 2))])])
    elif form == "flatten":
        g.add("Flatten", [v])
    elif form == "expand":
        g.add("Expand", [v, g.ints([3, *([1] * v.rank)])])
    elif form == "tile":
        g.add("Tile", [v, g.ints([g.dice.randint(1, 3) for _ in v.shape])])
    elif form == "unsqueeze":
        g.add("Unsqueeze", [v, g.ints([0])])
    elif form == "shape":
        g.add("Shape", [v])
    elif form == "pad":
        g.add("Pad", [v, g.ints([g.dice.randint(0, 2) for _ in range(2 * v.rank)])])
    elif form == "split" and v.rank:
        g.add("Split", [v], 2, axis=axis_of(g, v), num_outputs=2)
    elif form == "where":
        g.add("Where", [g.fresh("bool", v.shape), v, g.constant(narrow_data(g, v.dtype, ()))])
    elif form == "equal":
        g.add("Equal", [v, g.constant(narrow_data(g, v.dtype, ()))])
    else:
        g.add("Identity", [v])


@kind(4)
def narrow_cast(g):
    """To a narrow type and back, and from one narrow type to another."""
    if chance(g, 0.4):
        v = narrow(g)
        to = g.dice.choice([*g.floats, "int32", "uint8", "int8", narrow_type(g), "bool"])
        if v.dtype.startswith("float") and to == "uint8":  # of a negative float it is undefined
            to = "int32"
    else:
        v, to = some(g, g.floats), narrow_type(g)
    attributes = maybe(g, {"saturate": g.dice.randint(0, 1)}, 0.4) if to.startswith("float8") else {}
    y = g.one("Cast", [v], to=int(helper.np_dtype_to_tensor_dtype(np_type(to))), **attributes)
    if y.dtype in NARROW and chance(g, 0.7):
        g.add("Cast", [y], to=int(helper.np_dtype_to_tensor_dtype(np_type(float_type(g)))))


@kind(4)
def narrow_quantise(g):
    """Per tensor, axis or block, and back."""
    if g.opset < 19:
        raise Unfit("no narrow type")
    v = some(g, [t for t in g.floats if t != "float64"] or ["float32"], 1, 3)
    to = g.dice.choice([t for t in (*NARROW, "int16", "uint16", "int8", "uint8") if NARROW.get(t, 21) <= g.opset and "e8m0" not in t])
    attributes, size = {}, ()
    form = g.dice.choice(("tensor", "axis", "block")) if v.fixed and 0 not in v.shape else "tensor"
    axis = axis_of(g, v)
    if form == "axis":
        attributes, size = {"axis": axis}, (v.shape[axis],)
    elif form == "block":
        block = g.dice.choice([b for b in range(1, v.shape[axis] + 1) if v.shape[axis] % b == 0])
        attributes = {"axis": axis, "block_size": block}
        size = tuple(s // block if i == axis % v.rank else s for i, s in enumerate(v.shape))
    if v.dtype == "float32":
        scale = g.fresh(v.dtype, size, 0.2, 0.9, constant=chance(g, 0.7) or None)
    else:  # the quotient is rounded to the type, which the reference evaluator in double precision does not do
        scale = g.constant(np.exp2(g.data("int32", size, -2, 0)).astype(np_type(v.dtype)))
    zero = g.constant(np.zeros(size, np_type(to)) if to.startswith("float") else narrow_data(g, to, size) if to in NARROW
                      else g.data(to, size, 0, 5))
    q = g.one("QuantizeLinear", [v, scale, zero], **attributes)
    g.add("DequantizeLinear", [q, scale, zero if chance(g, 0.8) or not to.startswith("float") else None], **attributes)


@kind(1)
def bit_cast(g):
    v = some(g, INTS)
    to = v.dtype[1:] if v.dtype[0] == "u" else "u" + v.dtype
    g.add("BitCast", [v], to=int(helper.np_dtype_to_tensor_dtype(np_type(to))))


# ---------------------------------------------------------------- strings
WORDS = ("", "a", "b", "abc", "A b", "x,y,,z", "  two  words ", "héé", "日本", "1", "-2.5", "1e3", "a.b.c", "abcabc", "NaN", "007")


def words(g, shape_=None, choices=WORDS):
    found = [v for v in g.visible() if v.dtype == "object" and not v.constant]
    if shape_ is None and found and chance(g, 0.6) and choices is WORDS:
        return g.dice.choice(found)
    size = shape(g, 0, 3) if shape_ is None else shape_
    a = np.array([g.dice.choice(choices) for _ in range(int(np.prod(size)))], object).reshape(size)
    return g.constant(a) if chance(g, 0.3) or g.outer or g.plain else g.input([a] * len(g.sizes))


@kind(4)
def strings(g):
    form = g.dice.choice("concat split match equal moves gather to from where unique normalize tile slice".split())
    v = words(g)
    if form == "concat":
        g.add("StringConcat", [v, words(g, g.dice.choice((v.shape, (), v.shape[-1:])))])
    elif form == "split":
        g.add("StringSplit", [v], 2, **maybe(g, {"delimiter": g.dice.choice((",", ".", " ", "", "bc")), "maxsplit": g.dice.randint(0, 2)}))
    elif form == "match":
        g.add("RegexFullMatch", [v], pattern=g.dice.choice(("a.*", "[a-c]+", "(abc)+", r"\w*", r"-?\d+(\.\d+)?", ".", "", "(?i)A B", "日.", "[^a]*", "a|b|", r"\s*\S+\s+\S+\s*")))
    elif form == "equal":
        g.add("Equal", [v, words(g, g.dice.choice((v.shape, ())))])
    elif form == "moves":
        g.add(*g.dice.choice((("Transpose", [v]), ("Identity", [v]), ("Flatten", [v]), ("Reshape", [v, g.ints([-1])]), ("Shape", [v]), ("Size", [v]),
                              ("Unsqueeze", [v, g.ints([0])]))))
    elif form == "gather" and v.rank and v.shape[0]:
        g.add("Gather", [v, g.fresh("int64", (2,), -v.shape[0], v.shape[0] - 1)], axis=0)
    elif form == "to":
        numbers = words(g, shape(g, 0, 2), ("1", "-2", "007", "12", "-0"))
        g.add("Cast", [numbers], to=int(helper.np_dtype_to_tensor_dtype(np_type(g.dice.choice((*INTS[:4], *g.floats))))))
    elif form == "from":
        g.add("Cast", [some(g, INTS + ("bool",))], to=8)
    elif form == "where":
        g.add("Where", [g.fresh("bool", v.shape), v, words(g, ())])
    elif form == "unique" and v.rank:
        g.add("Unique", [v], g.dice.randint(1, 4), **maybe(g, {"axis": axis_of(g, v), "sorted": 0}))
    elif form == "normalize":
        row = words(g, g.dice.choice(((4,), (1, 3))), ("a", "B", "abc", "aBc"))
        g.add("StringNormalizer", [row], **maybe(g, {"case_change_action": g.dice.choice(("LOWER", "UPPER", "NONE")), "is_case_sensitive": 1, "stopwords": ["a", "ABC"]}))
    elif form == "tile":
        g.add("Tile", [v, g.ints([2] * v.rank)])
    elif form == "slice" and v.rank:
        g.add("Slice", [v, g.ints([0]), g.ints([2]), g.ints([g.dice.randint(0, v.rank - 1)])])


@kind(1)
def n_grams(g):
    v = g.fresh("int64", g.dice.choice(((7,), (2, 6))), 0, 4) if chance(g, 0.5) else words(g, (6,), ("a", "b", "abc"))
    numbers = v.dtype == "int64"
    one, two, three = ([0, 1, 2, 3], [0, 1, 2, 2, 1, 3], [0, 1, 2]) if numbers else (["a", "b", "abc"], ["a", "b", "b", "abc"], ["a", "b", "abc"])
    pool, starts = one + two + three, [0, len(one), len(one + two)]
    count, longest = len(one) + len(two) // 2 + 1, g.dice.randint(1, 3)
    attributes = {"mode": g.dice.choice(("TF", "IDF", "TFIDF")), "min_gram_length": g.dice.randint(1, longest), "max_gram_length": longest,
                  "max_skip_count": g.dice.randint(0, 2), "ngram_counts": starts, "ngram_indexes": g.dice.sample(range(count), count),
                  ("pool_int64s" if numbers else "pool_strings"): pool}
    if chance(g, 0.5):
        attributes["weights"] = [0.5 + i for i in range(count)]
    g.add("TfIdfVectorizer", [v], **attributes)


# ---------------------------------------------------------------- ai.onnx.ml
def rows(g, dtypes=("float32", "float64", "int32", "int64")):
    dtypes = [t for t in dtypes if t in g.floats or not t.startswith("float")]
    if not dtypes:
        raise Unfit("dtype")
    found = [v for v in g.visible() if v.dtype in dtypes and v.rank == 2 and v.fixed and 0 < v.shape[1] <= 9 and v.shape[0]]
    return g.dice.choice(found) if found and chance(g, 0.7) else g.fresh(g.dice.choice(dtypes), (g.dice.randint(1, 4), g.dice.randint(1, 6)))


def numbers(g, count):
    return [round(g.dice.uniform(-1.5, 1.5), 2) for _ in range(count)]


POSTS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")


@kind(2)
def linear_model(g):
    v, count = rows(g), g.dice.randint(1, 4)
    n = v.shape[1]
    if chance(g, 0.5):
        g.add("LinearRegressor", [v], domain=ML, coefficients=numbers(g, count * n), targets=count,
              **maybe(g, {"intercepts": numbers(g, count)}), **maybe(g, {"post_transform": g.dice.choice(POSTS)} if count > 1 else {}))
        return
    count = max(count, 2)
    labels = {"classlabels_strings": [f"c{i}" for i in range(count)]} if chance(g, 0.4) else {"classlabels_ints": g.dice.sample(range(9), count)}
    g.add("LinearClassifier", [v], 2, domain=ML, coefficients=numbers(g, count * n), intercepts=numbers(g, count), **labels,
          **maybe(g, {"post_transform": g.dice.choice(POSTS), "multi_class": g.dice.randint(0, 1)}))


@kind(2)
def support_vectors(g):
    v, kept = rows(g), g.dice.randint(1, 4)
    n = v.shape[1]
    kernel = {"kernel_type": g.dice.choice(("LINEAR", "POLY", "RBF", "SIGMOID")), "kernel_params": [0.3, 0.2, float(g.dice.randint(1, 3))]}
    if chance(g, 0.5):
        g.add("SVMRegressor", [v], domain=ML, support_vectors=numbers(g, kept * n), coefficients=numbers(g, kept), n_supports=kept, rho=numbers(g, 1),
              **kernel, **maybe(g, {"one_class": 1}, 0.2))
        return
    classes = g.dice.randint(2, 3)
    per = [g.dice.randint(1, 2) for _ in range(classes)]
    pairs = classes * (classes - 1) // 2
    attributes = {"support_vectors": numbers(g, sum(per) * n), "vectors_per_class": per, "coefficients": numbers(g, (classes - 1) * sum(per)),
                  "rho": numbers(g, pairs), "classlabels_ints": list(range(classes)), **kernel}
    if chance(g, 0.4):
        attributes.update(prob_a=numbers(g, pairs), prob_b=numbers(g, pairs))
    g.add("SVMClassifier", [v], 2, domain=ML, **attributes, **maybe(g, {"post_transform": g.dice.choice(POSTS)}, 0.3))


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def grow_trees(g, features, whole):
    """(tree, node, feature, mode, threshold, true, false) of random trees; mode LEAF ends one."""
    table = []
    for tree in range(g.dice.randint(1, 3)):
        mode = g.dice.choice(MODES)
        depth, base, number = g.dice.randint(0, 3), len(table), 0
        todo = [(0, depth)]
        while todo:
            node, left = todo.pop(0)
            if left and (chance(g, 0.8) or node == 0):
                threshold = float(g.dice.randint(-3, 3)) if whole else g.dice.randint(-8, 8) / 4 + 0.0137
                table.append((tree, node, g.dice.randrange(features), mode, threshold, number + 1, number + 2))
                todo += [(number + 1, left - 1), (number + 2, left - 1)]
                number += 2
            else:
                table.append((tree, node, 0, "LEAF", 0.0, 0, 0))
        table[base:] = sorted(table[base:], key=lambda r: r[1])
    return table


@kind(3)
def trees(g):
    v = rows(g)
    table = grow_trees(g, v.shape[1], v.dtype.startswith("int"))
    targets = g.dice.randint(1, 3)
    leaves = [(t, n) for t, n, _, mode, *_ in table if mode == "LEAF"]
    regressor = chance(g, 0.5)
    prefix, classes = ("target", targets) if regressor else ("class", max(targets, 2))
    least = 1 if regressor else classes  # ONNX Runtime knows no label without a weight
    entries = [(t, n, i, w) for t, n in leaves for i, w in zip(g.dice.sample(range(classes), g.dice.randint(least, classes)), numbers(g, classes))]
    cols = list(zip(*table))
    attributes = dict(zip(("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values", "nodes_truenodeids", "nodes_falsenodeids"),
                          map(list, cols)))
    cols = list(zip(*entries))
    attributes.update(zip((f"{prefix}_treeids", f"{prefix}_nodeids", f"{prefix}_ids", f"{prefix}_weights"), map(list, cols)))
    if classes > 1:  # which ONNX Runtime does not transform alone
        attributes.update(maybe(g, {"post_transform": g.dice.choice(POSTS)}, 0.4))
    attributes.update(maybe(g, {"nodes_missing_value_tracks_true": [g.dice.randint(0, 1) for _ in table]}, 0.3))
    if not regressor and classes > 2:
        attributes.update(maybe(g, {"base_values": numbers(g, classes)}, 0.3))
    if regressor:
        attributes.update(maybe(g, {"aggregate_function": g.dice.choice(("SUM", "AVERAGE", "MIN", "MAX"))}))
        g.add("TreeEnsembleRegressor", [v], domain=ML, n_targets=targets, **attributes)
    else:
        labels = {"classlabels_strings": [f"c{i}" for i in range(classes)]} if chance(g, 0.3) else {"classlabels_int64s": list(range(3, 3 + classes))}
        g.add("TreeEnsembleClassifier", [v], 2, domain=ML, **labels, **attributes)


def tensor_of(a):
    return numpy_helper.from_array(np.asarray(a))


@kind(1)
def tree_ensemble(g):
    """The operator of version 5, whose branches are tensors: trees of one node with two leaves, with sets of members, too."""
    v = rows(g, ("float32", "float64", "float16"))
    count, targets = g.dice.randint(1, 3), g.dice.randint(1, 2)
    dtype = np_type(v.dtype)
    modes = [g.dice.choice(range(7)) for _ in range(count)]
    sets = [[float(i) for i in range(g.dice.randint(1, 4))] for mode in modes if mode == 6]
    members = [x for s in sets for x in [*s, float("nan")]]
    attributes = {"membership_values": tensor_of(np.array(members, dtype))} if members else {}
    g.add("TreeEnsemble", [v], domain=ML, n_targets=targets, tree_roots=list(range(count)), nodes_modes=tensor_of(np.array(modes, np.uint8)),
          nodes_featureids=[g.dice.randrange(v.shape[1]) for _ in modes], nodes_splits=tensor_of(np.array([g.dice.randint(-4, 4) / 4 + 0.0137 for _ in modes], dtype)),
          nodes_truenodeids=[2 * i for i in range(count)], nodes_falsenodeids=[2 * i + 1 for i in range(count)], nodes_trueleafs=[1] * count,
          nodes_falseleafs=[1] * count, leaf_targetids=[g.dice.randrange(targets) for _ in range(2 * count)],
          leaf_weights=tensor_of(np.array(numbers(g, 2 * count), dtype)), aggregate_function=g.dice.randint(0, 3), **attributes)


@kind(3)
def features(g):
    form = g.dice.choice("Scaler Normalizer Binarizer Imputer FeatureVectorizer ArrayFeatureExtractor OneHotEncoder LabelEncoder CategoryMapper".split())
    v = rows(g)
    n = v.shape[1]
    if form == "Scaler":
        count = g.dice.choice((1, n))
        g.add(form, [v], domain=ML, scale=numbers(g, count), offset=numbers(g, count))
    elif form == "Normalizer":
        g.add(form, [v], domain=ML, norm=g.dice.choice(("MAX", "L1", "L2")))
    elif form == "Binarizer":
        g.add(form, [v], domain=ML, **maybe(g, {"threshold": 0.5137}))
    elif form == "Imputer":
        whole = v.dtype.startswith("int")
        count = g.dice.choice((1, n))
        g.add(form, [v], domain=ML, **({"imputed_value_int64s": [7] * count, "replaced_value_int64": 2} if whole
                                      else {"imputed_value_floats": numbers(g, count), "replaced_value_float": 0.5}))
    elif form == "FeatureVectorizer":
        w = g.fresh(v.dtype, (v.shape[0], g.dice.randint(1, 3)))
        g.add(form, [v, w], domain=ML, inputdimensions=[n, w.shape[1]])
    elif form == "ArrayFeatureExtractor":
        g.add(form, [v, g.fresh("int64", (1, g.dice.randint(1, 3)), 0, n - 1)], domain=ML)
    elif form == "OneHotEncoder":
        g.add(form, [g.fresh(g.dice.choice(("int32", "int64", "float32")), shape(g, 1, 2), 0, 4)], domain=ML, cats_int64s=g.dice.sample(range(6), 3), **maybe(g, {"zeros": 1}))
    elif form == "CategoryMapper":
        x = words(g) if chance(g, 0.5) else g.fresh("int64", shape(g, 1, 2), 0, 4)
        g.add(form, [x], domain=ML, cats_strings=["a", "b", "abc"], cats_int64s=[1, 2, 3], **maybe(g, {"default_int64": 9, "default_string": "none"}))
    else:
        encode(g)


def encode(g):
    if chance(g, 0.4) and g.ml >= 4:
        types = ["int64", "int32", "int16", "float32", "float64", "object"]
        of, to = g.dice.choice(types), g.dice.choice(types)

        def keys(t):
            return np.array(["a", "b", "abc"], object) if t == "object" else np.array([1, 2, -3]).astype(t)
        x = words(g) if of == "object" else g.fresh(of, shape(g, 0, 2), -3, 3)
        default = np.array(["?"], object) if to == "object" else np.array([7]).astype(to)
        g.add("LabelEncoder", [x], domain=ML, keys_tensor=tensor_of(keys(of)), values_tensor=tensor_of(keys(to)), default_tensor=tensor_of(default))
        return
    names = {"object": ("strings", ["a", "b", "abc"]), "int64": ("int64s", [1, 2, 3]), "float32": ("floats", [1.0, -2.0, 0.5])}
    of, to = g.dice.choice(list(names)), g.dice.choice(list(names))
    x = words(g) if of == "object" else g.fresh(of, shape(g, 0, 2), -3, 3)
    if g.ml < 2:
        of = "object" if x.dtype == "object" else "int64"
        g.add("LabelEncoder", [x], domain=ML, classes_strings=["a", "b", "abc"], **maybe(g, {"default_int64": 9, "default_string": "none"}))
        return
    g.add("LabelEncoder", [x], domain=ML, **{f"keys_{names[of][0]}": names[of][1], f"values_{names[to][0]}": names[to][1]},
          **maybe(g, {"default_int64": 9, "default_string": "none", "default_float": 2.5}))
