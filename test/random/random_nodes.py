"""One function for each kind of node (or pattern of exporters) that random_graphs.py may add to a graph.

Each takes the graph, chooses inputs among its values (or makes new ones) and attributes, and adds nodes. What turns out
to be invalid or ill-conditioned raises Unfit and leaves the graph as it was.
"""
import numpy as np
from onnx import helper

from random_build import FLOATS, INTS, Unfit, is_float, np_type

KINDS = {}  # name: (function, weight)
DIMS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 11, 16, 17)


def kind(weight=1):
    def note(function):
        KINDS[function.__name__] = (function, weight)
        return function
    return note


# ---------------------------------------------------------------- choosing
def chance(g, p):
    return g.dice.random() < p


def shape(g, least=0, most=4):
    rank = g.dice.choice([r for r in (0, 1, 2, 2, 3, 3, 4, 4, 5, 6) if least <= r <= most] or [least])
    return tuple(g.dice.choice(DIMS[0 if chance(g, 0.03) else 1:]) for _ in range(rank))


def float_type(g):
    return g.dice.choice(g.floats)


def some(g, dtypes=None, least=0, most=6, p_old=0.85, accept=None):
    """A value of the graph, a late one rather than an early one; or a new one."""
    dtypes = dtypes or g.floats
    found = [v for v in g.visible() if v.dtype in dtypes and least <= v.rank <= most and not v.constant
             and (not accept or accept(v))]
    if found and chance(g, p_old):
        late = found[-6:]
        return g.dice.choice(late if chance(g, 0.7) else found)
    if accept:
        raise Unfit("no such value")
    return g.fresh(g.dice.choice(list(dtypes)), shape(g, least, min(most, max(4, least))))


def partner_shapes(g, v):
    """Shapes that broadcast with v, one for each of the sizes."""
    drop = g.dice.randint(0, v.rank) if chance(g, 0.4) else 0
    ones = [chance(g, 0.25) for _ in range(v.rank)]
    lead = shape(g, 0, 2) if chance(g, 0.07) and v.rank < 4 and not drop else ()
    return [lead + tuple(1 if o else d for o, d in zip(ones, s))[drop:] for s in v.shapes]


def fits(a, b):
    try:
        return all(np.prod(np.broadcast_shapes(s, t), dtype=np.int64) < 6000 for s, t in zip(a.shapes, b.shapes))
    except ValueError:
        return False


def partner(g, v, dtype=None, low=None, high=None):
    """A value that broadcasts with v."""
    dtype = dtype or v.dtype
    found = [o for o in g.visible() if o.dtype == dtype and fits(v, o)]
    if found and chance(g, 0.6):
        return g.dice.choice(found[-8:])
    return g.fresh(dtype, partner_shapes(g, v), low, high)


def axis_of(g, v):
    if v.rank == 0:
        raise Unfit("a scalar")
    return g.dice.randint(-v.rank, v.rank - 1)


def axes_of(g, rank, least=0):
    count = g.dice.randint(min(least, rank), rank)
    return [a - rank if chance(g, 0.3) else a for a in g.dice.sample(range(rank), count)]


def maybe(g, attributes, p=0.5):
    """Each attribute with this probability."""
    return {k: v for k, v in attributes.items() if chance(g, p)}


def swap(g, a, b):
    return (a, b) if chance(g, 0.5) else (b, a)


def index_type(g):
    return g.dice.choice(("int64", "int64", "int32"))


# ---------------------------------------------------------------- elementwise
UNARY = ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Exp Floor HardSigmoid HardSwish Identity LeakyRelu Log "
         "Mish Neg Reciprocal Relu Round Selu Celu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh "
         "ThresholdedRelu Gelu").split()


@kind(8)
def unary(g):
    op = g.dice.choice(UNARY)
    attributes = {"Elu": {"alpha": 0.7}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "LeakyRelu": {"alpha": 0.2},
                  "Selu": {"alpha": 1.2, "gamma": 0.8}, "Celu": {"alpha": 1.5}, "Shrink": {"bias": 0.3, "lambd": 0.6},
                  "ThresholdedRelu": {"alpha": 0.5}, "Gelu": {"approximate": "tanh"}, "Swish": {"alpha": 1.3}}.get(op, {})
    dtypes = g.floats
    if op in ("Abs", "Neg", "Sign", "Identity", "Relu") and chance(g, 0.3):
        dtypes = INTS
    v = some(g, dtypes)
    if op in ("Log", "Sqrt", "Acosh") and is_float(v.dtype):
        v = g.one("Abs", [v])
    g.add(op, [v], **maybe(g, attributes))


@kind(10)
def binary(g):
    op = g.dice.choice("Add Sub Mul Div Add Mul Sub Pow PRelu Mod BitShift BitwiseAnd BitwiseOr BitwiseXor".split())
    dtypes = g.floats if chance(g, 0.75) and not op.startswith("Bit") else INTS
    a = some(g, dtypes)
    attributes, bounds = {}, (None, None)
    if not is_float(a.dtype):
        bounds = {"Div": (1, 9), "Mod": (1, 9), "Pow": (0, 2), "BitShift": (0, 7)}.get(op, (None, None))
        if op == "BitShift":
            attributes["direction"] = g.dice.choice(("LEFT", "RIGHT"))
        if op == "Mod" and chance(g, 0.4):
            attributes["fmod"] = 1
    elif op == "Mod":
        attributes["fmod"] = 1
    elif op == "Pow":
        a, bounds = g.one("Abs", [a]), (-1, 3)
    if bounds != (None, None):
        b = g.fresh(a.dtype, partner_shapes(g, a), *bounds)
        g.add(op, [a, b], **attributes)
    elif op == "PRelu":
        shapes = partner_shapes(g, a) if g.opset >= 7 else [(1,)] * len(g.sizes)
        g.add(op, [a, g.fresh(a.dtype, [s[-a.rank:] if a.rank else () for s in shapes])])
    else:
        g.add(op, swap(g, a, partner(g, a)), **attributes)


@kind(3)
def compare(g):
    v = some(g, g.floats if chance(g, 0.6) else INTS)
    g.add(g.dice.choice("Equal Greater Less GreaterOrEqual LessOrEqual".split()), swap(g, v, partner(g, v)))


@kind(3)
def logic(g):
    op = g.dice.choice("And Or Xor Not BitwiseNot IsNaN IsInf".split())
    if op == "Not":
        g.add(op, [some(g, ("bool",))])
    elif op == "BitwiseNot":
        g.add(op, [some(g, INTS)])
    elif op.startswith("Is"):
        g.add(op, [some(g)], **(maybe(g, {"detect_negative": 0, "detect_positive": 0}) if op == "IsInf" else {}))
    else:
        v = some(g, ("bool",))
        g.add(op, swap(g, v, partner(g, v)))


@kind(4)
def where(g):
    v = some(g, g.floats if chance(g, 0.7) else INTS + ("bool",))
    g.add("Where", [partner(g, v, "bool"), *swap(g, v, partner(g, v))])


@kind(3)
def clip(g):
    v = some(g, g.floats if chance(g, 0.7) else INTS)
    low, high = (-1.25, 1.5) if is_float(v.dtype) else (1 if v.dtype[0] == "u" else -3, 6)
    bounds = [g.constant(np.array(b, np_type(v.dtype))) if chance(g, 0.7) else None for b in (low, high)]
    if all(b is None for b in bounds) and chance(g, 0.8):
        raise Unfit("no bounds")
    g.add("Clip", [v, *bounds])


@kind(3)
def variadic(g):
    v = some(g, g.floats if chance(g, 0.8) else INTS)
    more = [partner(g, v) for _ in range(g.dice.randint(0, 3))]
    g.add(g.dice.choice("Max Min Sum Mean".split()), g.dice.sample([v, *more], len(more) + 1))


@kind(5)
def cast(g):
    v = some(g, FLOATS + INTS + ("bool",))
    to = g.dice.choice(list(g.floats) * 2 + list(INTS) + ["bool"])
    if is_float(v.dtype) and to[0] == "u":
        v = g.one("Abs", [v])
    if is_float(v.dtype) and to in INTS and any((np.abs(a.astype(np.float64)) > np.iinfo(to).max).any() for a in v.of):
        to = "int64"  # of floats beyond the range ONNX says nothing
    if chance(g, 0.15):
        g.add("CastLike", [v, some(g, (to,))])
    else:
        g.add("Cast", [v], to=helper.np_dtype_to_tensor_dtype(np_type(to)))


# ---------------------------------------------------------------- rows
REDUCTIONS = ("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
              "ReduceSumSquare ReduceSum ReduceMean").split()


@kind(6)
def reduce(g):
    op = g.dice.choice(REDUCTIONS)
    v = some(g, g.floats if chance(g, 0.8) else ("int32", "int64"), 0, 6)
    if op == "ReduceLogSum":
        v = g.one("Abs", [v])
    attributes = maybe(g, {"keepdims": g.dice.randint(0, 1)}, 0.7)
    axes = None
    if chance(g, 0.8):
        axes = axes_of(g, v.rank, 0 if chance(g, 0.1) and g.opset >= 18 else 1)
    if chance(g, 0.15):
        attributes["noop_with_empty_axes"] = 1
    g.add(op, [v, g.ints(axes) if axes is not None else None], **attributes)


@kind(2)
def arg_reduce(g):
    v = some(g, g.floats if chance(g, 0.7) else INTS, 1)
    attributes = maybe(g, {"axis": axis_of(g, v), "keepdims": 0, "select_last_index": 1})
    g.add(g.dice.choice(("ArgMax", "ArgMin")), [v], **attributes)


@kind(2)
def cumulate(g):
    v = some(g, g.floats if chance(g, 0.7) else ("int32", "int64"), 1)
    op = "CumProd" if chance(g, 0.2) else "CumSum"
    axis = g.constant(np.array(axis_of(g, v), index_type(g)))
    g.add(op, [v, axis], **maybe(g, {"exclusive": 1, "reverse": 1}))


@kind(5)
def softmax(g):
    v = some(g, None, 1)
    attributes = maybe(g, {"axis": axis_of(g, v)}, 0.8)
    if g.opset < 11:
        attributes = {k: a % v.rank for k, a in attributes.items()}
    g.add(g.dice.choice("Softmax Softmax LogSoftmax Hardmax".split()), [v], **attributes)


@kind(2)
def lp_normalize(g):
    v = some(g, None, 1)
    if chance(g, 0.6):
        g.add("LpNormalization", [v], **maybe(g, {"axis": axis_of(g, v), "p": g.dice.randint(1, 2)}))
    else:
        g.add("MeanVarianceNormalization", [v], **({"axes": sorted(a % v.rank for a in axes_of(g, v.rank, 1))}
                                                  if chance(g, 0.8) else {}))


@kind(5)
def row_norm(g):
    v = some(g, None, 1)
    axis = axis_of(g, v)
    tails = [s[axis:] for s in v.shapes]
    scale, bias = (g.fresh(v.dtype, tails) for _ in range(2))
    op = "RMSNormalization" if chance(g, 0.3) else "LayerNormalization"
    inputs = [v, scale] + ([bias] if op[0] == "L" and chance(g, 0.7) else [])
    attributes = {"axis": axis, **maybe(g, {"epsilon": 1e-3})}
    outputs = 1
    if op[0] == "L" and chance(g, 0.2):
        outputs = [True, chance(g, 0.7), True]
    g.add(op, inputs, outputs, **attributes)


@kind(4)
def channel_norm(g):
    v = some(g, None, 2)
    channels = [(s[1],) for s in v.shapes]
    scale, bias, mean = (g.fresh(v.dtype, channels) for _ in range(3))
    variance = g.fresh(v.dtype, channels, 0.3, 2)
    op = g.dice.choice("BatchNormalization BatchNormalization InstanceNormalization GroupNormalization LRN".split())
    attributes = maybe(g, {"epsilon": 1e-3})
    if op == "BatchNormalization":
        g.add(op, [v, scale, bias, mean, variance], **attributes)
    elif op == "InstanceNormalization":
        g.add(op, [v, scale, bias], **attributes)
    elif op == "LRN":
        g.add(op, [v], size=g.dice.randint(1, 5), **maybe(g, {"alpha": 0.1, "beta": 0.6, "bias": 1.5}))
    else:
        groups = g.dice.choice([n for n in range(1, 9) if v.shape[1] % n == 0])
        size = (groups,) if g.opset < 21 else channels
        g.add(op, [v, g.fresh(v.dtype, size), g.fresh(v.dtype, size)], num_groups=groups, **attributes)


# ---------------------------------------------------------------- shapes and moves
def any_type(g):
    return g.floats if chance(g, 0.75) else INTS + ("bool",)


def target_shape(g, v):
    """Another shape for v's elements, in the words of Reshape."""
    dims = list(v.shape)
    for _ in range(g.dice.randint(1, 3)):
        if len(dims) > 1 and chance(g, 0.5):
            i = g.dice.randint(0, len(dims) - 2)
            dims[i:i + 2] = [dims[i] * dims[i + 1]]
        elif len(dims) < 6:
            i = g.dice.randint(0, len(dims))
            if i < len(dims) and dims[i] > 1:
                factor = g.dice.choice([f for f in range(1, dims[i] + 1) if dims[i] % f == 0])
                dims[i:i + 1] = [factor, dims[i] // factor]
            else:
                dims.insert(i, 1)
    for i, d in enumerate(dims):
        if i < v.rank and v.shape[i] == d and chance(g, 0.3):
            dims[i] = 0
    free = [i for i, d in enumerate(dims) if d > 0]
    varies = not v.fixed
    if free and (varies or chance(g, 0.4)) and 0 not in v.shape:
        dims[free[0] if varies else g.dice.choice(free)] = -1
    return dims


@kind(5)
def reshape(g):
    v = some(g, any_type(g))
    g.add("Reshape", [v, g.ints(target_shape(g, v))])


@kind(4)
def view(g):
    v = some(g, any_type(g))
    op = g.dice.choice("Flatten Squeeze Unsqueeze Unsqueeze".split())
    if op == "Flatten":
        g.add(op, [v], **maybe(g, {"axis": g.dice.randint(-v.rank if g.opset >= 11 else 0, v.rank)}))
    elif op == "Squeeze":
        ones = [i for i in range(v.rank) if all(s[i] == 1 for s in v.shapes)]
        axes = g.ints(g.dice.sample(ones, g.dice.randint(1, len(ones)))) if ones and chance(g, 0.8) else None
        g.add(op, [v, axes])
    else:
        count = g.dice.randint(1, 2)
        rank = v.rank + count
        axes = [a - rank if chance(g, 0.3) and g.opset >= 11 else a for a in g.dice.sample(range(rank), count)]
        g.add(op, [v, g.ints(axes)])


@kind(5)
def transpose(g):
    v = some(g, any_type(g), 1)
    g.add("Transpose", [v], **maybe(g, {"perm": g.dice.sample(range(v.rank), v.rank)}, 0.85))


@kind(3)
def expand(g):
    v = some(g, any_type(g), 0, 4)
    if chance(g, 0.5):
        wanted = [g.dice.choice((1, d, 3 if d == 1 else d)) for d in v.shape]
        g.add("Expand", [v, g.ints(list(shape(g, 0, 1)) + wanted)])
    else:
        g.add("Tile", [v, g.ints([g.dice.choice((0, 1, 1, 2, 3)) if chance(g, 0.9) else 1 for _ in v.shape])])


@kind(5)
def concat(g):
    v = some(g, any_type(g), 1)
    axis = axis_of(g, v)
    parts = [v]
    for _ in range(g.dice.randint(0, 3)):
        same = [o for o in g.visible() if o.dtype == v.dtype and o.rank == v.rank and not o.constant
                and all(s[:axis % v.rank] + s[axis % v.rank + 1:] == t[:axis % v.rank] + t[axis % v.rank + 1:]
                        for s, t in zip(o.shapes, v.shapes))]
        if same and chance(g, 0.6):
            parts.append(g.dice.choice(same))
        else:
            size = g.dice.choice(DIMS)
            parts.append(g.fresh(v.dtype, [s[:axis % v.rank] + (size,) + s[axis % v.rank + 1:] for s in v.shapes]))
    g.add("Concat", g.dice.sample(parts, len(parts)), axis=axis if g.opset >= 11 else axis % v.rank)


@kind(4)
def split(g):
    v = some(g, any_type(g), 1)
    axis = axis_of(g, v)
    size, count = v.shape[axis], g.dice.randint(1, 4)
    attributes = {"axis": axis if g.opset >= 11 else axis % v.rank}
    if chance(g, 0.5):
        cuts = sorted(g.dice.randint(0, size) for _ in range(count - 1))
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size])]
        g.add("Split", [v, g.ints(sizes)], len(sizes), **attributes)
    else:
        if g.opset >= 18:
            attributes["num_outputs"] = count
        elif size % count:
            raise Unfit("uneven")
        g.add("Split", [v], count, **attributes)


@kind(6)
def slice_(g):
    v = some(g, any_type(g), 1)
    axes = axes_of(g, v.rank, 1)
    starts, ends, steps = [], [], []
    for a in axes:
        n = v.shape[a]
        step = g.dice.choice((1, 1, 1, 2, 3, -1, -2))
        lo, hi = sorted((g.dice.randint(0, n), g.dice.randint(0, n + 1)))
        start, end = (lo, hi) if step > 0 else (hi, lo - 1)
        if chance(g, 0.2):
            end = 2**31 - 1 if step > 0 else -(2**31)
        elif step < 0 and end < 0:
            end = -n - 1
        elif chance(g, 0.2) and 0 < end <= n:
            end -= n
        if chance(g, 0.2) and 0 < start <= n:
            start -= n
        starts.append(start), ends.append(end), steps.append(step)
    if g.opset < 10 and any(s != 1 for s in steps):
        raise Unfit("steps")
    t = index_type(g)
    inputs = [v, g.ints(starts, t), g.ints(ends, t), g.ints(axes, t)]
    g.add("Slice", inputs + ([g.ints(steps, t)] if any(s != 1 for s in steps) else []))


@kind(4)
def pad(g):
    v = some(g, g.floats if chance(g, 0.85) else ("int32", "int64"), 1, 5)
    mode = g.dice.choice("constant constant reflect edge wrap".split())
    least = -1 if chance(g, 0.2) else 0
    pads = [g.dice.randint(least, 3) if chance(g, 0.7) else 0 for _ in range(2 * v.rank)]
    if mode in ("reflect", "wrap"):
        pads = [min(p, v.shape[i % v.rank] - 1) for i, p in enumerate(pads)]
    inputs = [v, g.ints(pads)]
    if mode == "constant" and chance(g, 0.5):
        inputs.append(g.constant(np.array(1.5 if is_float(v.dtype) else 3, np_type(v.dtype))))
    if g.opset >= 18 and chance(g, 0.3):
        axes = axes_of(g, v.rank, 1)
        picked = [pads[a % v.rank] for a in axes] + [pads[a % v.rank + v.rank] for a in axes]
        inputs = [v, g.ints(picked), inputs[2] if len(inputs) > 2 else None, g.ints(axes)]
    g.add("Pad", inputs, **({} if mode == "constant" and chance(g, 0.5) else {"mode": mode}))


def indices(g, count_shape, size, low=None):
    if size == 0:
        raise Unfit("nothing to index")
    low = -size if low is None and chance(g, 0.5) and g.opset >= 11 else low or 0
    return g.fresh(index_type(g), count_shape, low, size - 1)


@kind(5)
def gather(g):
    v = some(g, any_type(g), 1, 5)
    op = g.dice.choice("Gather Gather GatherElements GatherND Compress".split())
    axis = axis_of(g, v)
    if g.opset < 11:
        axis %= v.rank
    if op == "Gather":
        g.add(op, [v, indices(g, shape(g, 0, 2), v.shape[axis])], axis=axis)
    elif op == "GatherElements":
        size = list(v.shape)
        size[axis] = g.dice.choice(DIMS)
        g.add(op, [v, indices(g, size, v.shape[axis])], axis=axis)
    elif op == "GatherND":
        batch = g.dice.randint(0, min(v.rank - 1, 1)) if g.opset >= 12 else 0
        depth = g.dice.randint(1, v.rank - batch)
        rows = list(v.shape[:batch]) + [g.dice.randint(1, 4)]
        most = min(v.shape[batch:batch + depth])
        if most == 0:
            raise Unfit("nothing to index")
        made = g.fresh("int64", rows + [depth], -most, most - 1)
        g.add(op, [v, made], **({"batch_dims": batch} if batch else {}))
    else:
        keep = g.fresh("bool", (v.shape[axis] if chance(g, 0.6) else max(v.shape[axis] - 1, 0),))
        g.add(op, [v, keep], axis=axis)


@kind(4)
def scatter(g):
    v = some(g, g.floats if chance(g, 0.7) else ("int32", "int64"), 1, 4, accept=lambda v: v.fixed and 0 not in v.shape)
    reduction = g.dice.choice("none none add mul max min".split())
    attributes = {} if reduction == "none" else {"reduction": reduction}
    if chance(g, 0.5):
        axis = axis_of(g, v)
        size = [g.dice.randint(1, d) for d in v.shape]
        if reduction == "none":  # an index that occurs twice has no answer
            rows = np.stack([g.dice.sample(range(v.shape[axis]), size[axis])
                             for _ in range(int(np.prod(size)) // size[axis])], -1).reshape(
                                 [size[axis]] + [s for i, s in enumerate(size) if i != axis % v.rank])
            at = g.ints(np.moveaxis(rows, 0, axis))
        else:
            at = indices(g, size, v.shape[axis])
        op = "Scatter" if g.opset < 11 else "ScatterElements"
        g.add(op, [v, at, g.fresh(v.dtype, size)], axis=axis if g.opset >= 11 else axis % v.rank, **attributes)
        return
    depth = g.dice.randint(1, v.rank)
    spots = list(np.ndindex(*v.shape[:depth]))
    count = g.dice.randint(1, min(5, len(spots)))
    rows = g.dice.sample(spots, count) if reduction == "none" else [g.dice.choice(spots) for _ in range(count)]
    g.add("ScatterND", [v, g.ints(rows), g.fresh(v.dtype, (count,) + v.shape[depth:])], **attributes)


@kind(3)
def make_tensor(g):
    op = g.dice.choice("Range ConstantOfShape EyeLike OneHot NonZero Trilu Shape Size HannWindow".split())
    if op == "Range":
        dtype = g.dice.choice(("int32", "int64", "int16", "float32", "float64"))
        start, step = g.dice.randint(-5, 5), g.dice.choice((1, 2, 3, -1, -2))
        numbers = (start, start + step * g.dice.randint(-1, 9) + g.dice.randint(-1, 1), step)
        g.add(op, [g.constant(np.array(n, dtype)) for n in numbers])
    elif op == "ConstantOfShape":
        value = helper.make_tensor("value", helper.np_dtype_to_tensor_dtype(np.dtype("float32")), [1], [0.75])
        g.add(op, [g.ints(shape(g, 0, 3))], **({"value": value} if chance(g, 0.7) else {}))
    elif op == "EyeLike":
        g.add(op, [some(g, None, 2, 2)], **maybe(g, {"k": g.dice.randint(-2, 2)}))
    elif op == "OneHot":
        v = some(g, ("int32", "int64"), 0, 3)
        values = g.constant(np.array([0.25, 2], np_type(float_type(g))))
        g.add(op, [v, g.constant(np.array(g.dice.randint(1, 7), "int64")), values], axis=g.dice.randint(-v.rank - 1, v.rank))
    elif op == "NonZero":
        g.add(op, [some(g, g.floats + ("bool", "int32"))])
    elif op == "Trilu":
        v = some(g, any_type(g), 2)
        k = g.constant(np.array(g.dice.randint(-4, 4), "int64")) if chance(g, 0.6) else None
        g.add(op, [v, k], **maybe(g, {"upper": g.dice.randint(0, 1)}))
    elif op == "HannWindow":
        g.add(g.dice.choice((op, "HammingWindow", "BlackmanWindow")), [g.constant(np.array(g.dice.randint(2, 12), "int64"))],
              **maybe(g, {"periodic": 0}))
    elif op == "Shape" and g.opset >= 15:
        v = some(g)
        g.add(op, [v], **maybe(g, {"start": g.dice.randint(-2, 2), "end": g.dice.randint(-1, 4)}, 0.4))
    else:
        g.add(op, [some(g)])


@kind(2)
def blocks(g):
    v = some(g, None, 4, 4, accept=lambda v: v.rank == 4)
    block = g.dice.choice((1, 2, 2, 3))
    if chance(g, 0.5):
        if any(a.shape[1] % block**2 for a in v.of):
            raise Unfit("channels")  # the reference evaluator takes it where another size is 0
        g.add("DepthToSpace", [v], blocksize=block, **({"mode": "CRD"} if g.opset >= 11 and chance(g, 0.5) else {}))
    else:
        if any(size % block for a in v.of for size in a.shape[2:]):
            raise Unfit("sizes")
        g.add("SpaceToDepth", [v], blocksize=block)


@kind(1)
def reverse(g):
    v = some(g, None, 2, 4, accept=lambda v: v.fixed and v.rank >= 2 and 0 not in v.shape)
    time = g.dice.randint(0, 1)
    lengths = g.fresh("int64", (v.shape[1 - time],), 1, v.shape[time])
    g.add("ReverseSequence", [v, lengths], time_axis=time, batch_axis=1 - time)


# ---------------------------------------------------------------- contractions
@kind(7)
def matmul(g):
    v = some(g, g.floats if chance(g, 0.9) else ("int32", "int64"), 1, 4)
    n = g.dice.choice(DIMS)
    if chance(g, 0.5):
        lead = [()] * len(v.shapes) if chance(g, 0.7) else [s[:-2] for s in v.shapes]
        shapes = [t + ((s[-1],) if chance(g, 0) else (s[-1], n)) for t, s in zip(lead, v.shapes)]
        if chance(g, 0.1):
            shapes = [(s[-1],) for s in v.shapes]
        g.add("MatMul", [v, g.fresh(v.dtype, shapes, -1, 1)])
    else:
        inner = -2 if v.rank > 1 else -1
        shapes = [(n, s[inner]) for s in v.shapes]
        if chance(g, 0.15):
            shapes = [(s[inner],) for s in v.shapes]
        elif chance(g, 0.3):
            shapes = [tuple(1 if chance(g, 0) else d for d in s[:-2]) + t for s, t in zip(v.shapes, shapes)]
        g.add("MatMul", [g.fresh(v.dtype, shapes, -1, 1), v])


@kind(4)
def matmul_own(g):
    """Both factors from the graph: v and its transposed self, or a Gram matrix."""
    v = some(g, None, 2, 4)
    perm = list(range(v.rank))
    perm[-2:] = perm[:-3:-1]
    t = g.one("Transpose", [v], perm=perm)
    g.add("MatMul", swap(g, v, t))


@kind(4)
def gemm(g):
    v = some(g, g.floats if chance(g, 0.9) else ("int32",), 2, 2)
    n, trans_a, trans_b = g.dice.choice(DIMS), g.dice.randint(0, 1), g.dice.randint(0, 1)
    b = [(n, s[1 - trans_a]) if trans_b else (s[1 - trans_a], n) for s in v.shapes]
    attributes = maybe(g, {"alpha": 0.5, "beta": 2.0} if is_float(v.dtype) else {"alpha": 2.0, "beta": 3.0}, 0.4)
    if trans_a or chance(g, 0.3):
        attributes["transA"] = trans_a
    if trans_b:
        attributes["transB"] = 1
    c = None
    if g.opset < 11 or chance(g, 0.7):
        rows = [s[trans_a] for s in v.shapes]
        c = g.fresh(v.dtype, g.dice.choice([[(n,)] * len(rows), [(r, n) for r in rows], [(r, 1) for r in rows],
                                            [(1, n)] * len(rows), [()] * len(rows), [(1,)] * len(rows)]))
    if g.opset < 7 and c is not None and c.rank < 2:
        attributes["broadcast"] = 1
    g.add("Gemm", [v, g.fresh(v.dtype, b, -1, 1), c], **attributes)


@kind(3)
def einsum(g):
    v = some(g, g.floats if chance(g, 0.9) else ("int64",), 2, 4)
    letters = "abcd"[:v.rank]
    if chance(g, 0.3):
        out = "".join(g.dice.sample(letters, g.dice.randint(0, v.rank)))
        g.add("Einsum", [v], equation=f"{letters}->{out}" if chance(g, 0.8) else letters)
        return
    shared = g.dice.sample(range(v.rank), g.dice.randint(1, min(2, v.rank)))
    other = "".join(letters[i] for i in shared) + "z"
    n = g.dice.choice(DIMS[1:])
    order = g.dice.sample(range(len(other)), len(other))
    w = g.fresh(v.dtype, [tuple(([s[i] for i in shared] + [n])[j] for j in order) for s in v.shapes], -1, 1)
    other = "".join(other[j] for j in order)
    left = [c for c in letters + "z" if c not in other or c == "z" or chance(g, 0.4)]
    out = "".join(g.dice.sample(left, len(left)))
    g.add("Einsum", [v, w], equation=f"{letters},{other}->{out}")


def window(g, v, kernel=(1, 1, 2, 3, 3, 4, 5)):
    """Attributes of a convolution or pool over v."""
    spatial = v.rank - 2
    kernel = [g.dice.choice([k for k in kernel if k <= max(s, 1) + 2]) for s in v.shape[2:]]
    a = {"kernel_shape": kernel}
    if chance(g, 0.5):
        a["strides"] = [g.dice.choice((1, 1, 2, 3)) for _ in range(spatial)]
    if chance(g, 0.3):
        a["dilations"] = [g.dice.choice((1, 2, 3)) for _ in range(spatial)]
    if chance(g, 0.25):
        a["auto_pad"] = g.dice.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif chance(g, 0.7):
        a["pads"] = [g.dice.randint(0, max(kernel[i % spatial] - 1, 0)) for i in range(2 * spatial)]
    return a


def image(g, dtypes=None):
    found = [v for v in g.visible() if v.dtype in (dtypes or g.floats) and 3 <= v.rank <= 5 and 0 not in v.shape
             and v.shape[1] <= 32]
    if found and chance(g, 0.75):
        return g.dice.choice(found[-5:])
    spatial = g.dice.choice((1, 2, 2, 2, 3))
    size = [g.dice.choice((1, 2, 5, 7, 8, 13) if spatial < 3 else (1, 3, 4, 6)) for _ in range(spatial)]
    shapes = [(g.dice.choice((1, 1, 2, 3)), g.dice.choice((1, 2, 3, 4, 6, 8, 16)), *size)] * len(g.sizes)
    if g.sizes[0] and chance(g, 0.7):
        symbol = g.dice.choice(list(g.sizes[0]))
        at = g.dice.choice((0, 0, 2))
        shapes = [s[:at] + (k[symbol],) + s[at + 1:] for s, k in zip(shapes, g.sizes)]
    return g.fresh(g.dice.choice(list(dtypes or g.floats)), shapes, constant=False if not g.outer else None)


@kind(7)
def conv(g):
    v = image(g)
    channels = v.shape[1]
    groups = g.dice.choice([n for n in range(1, channels + 1) if channels % n == 0]) if chance(g, 0.4) else 1
    out = groups * g.dice.choice((1, 1, 2, 3, 4, 8, 16))
    attributes = window(g, v)
    w = g.fresh(v.dtype, (out, channels // groups, *attributes["kernel_shape"]), -0.7, 0.7,
                constant=True if chance(g, 0.8) else None)
    bias = [g.fresh(v.dtype, (out,))] if chance(g, 0.6) else []
    if chance(g, 0.3):
        del attributes["kernel_shape"]
    g.add("Conv", [v, w, *bias], **attributes, **({"group": groups} if groups > 1 else {}))


@kind(3)
def conv_transpose(g):
    v = image(g)
    channels = v.shape[1]
    groups = g.dice.choice([n for n in range(1, channels + 1) if channels % n == 0]) if chance(g, 0.4) else 1
    out = g.dice.choice((1, 2, 3, 5))
    attributes = window(g, v, (1, 2, 3))
    strides = attributes.get("strides", [1] * (v.rank - 2))
    if chance(g, 0.2):
        attributes["output_padding"] = [g.dice.randint(0, s - 1) for s in strides]
    if attributes.get("auto_pad", "VALID") != "VALID" and any(s > k for s, k in zip(strides, attributes["kernel_shape"])):
        raise Unfit("zeros past the end, which only the reference evaluator adds")
    w = g.fresh(v.dtype, (channels, out, *attributes["kernel_shape"]), -0.7, 0.7)
    bias = [g.fresh(v.dtype, (out * groups,))] if chance(g, 0.6) else []
    g.add("ConvTranspose", [v, w, *bias], **attributes, **({"group": groups} if groups > 1 else {}))


def past_the_end(v, a):
    """Whether a window is larger than an image with its padding."""
    n = v.rank - 2
    spans = [(k - 1) * d + 1 for k, d in zip(a["kernel_shape"], a.get("dilations", [1] * n))]
    pads = a.get("pads", [0] * 2 * n)
    return any(spans[i] > x.shape[i + 2] + pads[i] + pads[n + i] for x in v.of for i in range(n))


def is_larger(v, attributes):
    """Whether no window fits into the padded image."""
    spatial = v.rank - 2
    pads, dilations = attributes.get("pads", [0] * 2 * spatial), attributes.get("dilations", [1] * spatial)
    spans = [(k - 1) * d + 1 for k, d in zip(attributes["kernel_shape"], dilations)]
    same = attributes.get("auto_pad", "VALID") != "VALID"
    return not same and any(v.shape[i + 2] + pads[i] + pads[i + spatial] < spans[i] for i in range(spatial))


@kind(5)
def pool(g):
    v = image(g)
    op = g.dice.choice("MaxPool MaxPool AveragePool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool".split())
    if op.startswith("Global"):
        g.add(op, [v], **({"p": 1} if op == "GlobalLpPool" and chance(g, 0.5) else {}))
        return
    attributes = window(g, v)
    if (op == "MaxPool" and g.opset < 10) or (op == "AveragePool" and g.opset < 19) or (op == "LpPool" and g.opset < 18):
        attributes.pop("dilations", None)
    if chance(g, 0.3) and (op != "LpPool" or g.opset >= 18):
        attributes["ceil_mode"] = 1
    if "ceil_mode" in attributes and past_the_end(v, attributes):
        raise Unfit("a window past the end, of which the reference evaluator has no mean")
    if v.dtype == "bfloat16":  # the reference evaluator alone gives size 0
        attributes.pop("auto_pad", None)
    if is_larger(v, attributes):
        raise Unfit("a window larger than the image, for which the reference evaluator rounds the number of positions up")
    if op == "AveragePool" and chance(g, 0.5):
        attributes["count_include_pad"] = 1
    if op == "LpPool":
        attributes["p"] = g.dice.randint(1, 3)
    outputs = 1
    if op == "MaxPool" and chance(g, 0.25) and g.opset >= 8 and v.dtype != "bfloat16":  # the reference forgets the image
        outputs = 2
        attributes["storage_order"] = g.dice.randint(0, 1)
    g.add(op, [v], outputs, **attributes)


# ---------------------------------------------------------------- quantised
def scale_of(g, v, most, size=()):
    top = max(float(np.abs(a.astype(np.float64)).max()) if a.size else 1 for a in v.of) or 1.0
    return g.constant(np.full(size, top / most * g.dice.choice((0.5, 0.93, 1.1)), np_type(v.dtype)))


@kind(5)
def quantise(g):
    v = some(g, ("float32",), 1)
    t = g.dice.choice(("int8", "uint8"))
    size, axis = (), None
    if chance(g, 0.3) and v.fixed and g.opset >= 13:
        axis = axis_of(g, v)
        size = (v.shape[axis],)
    scale, zero = scale_of(g, v, 127, size), g.fresh(t, size, constant=True)
    attributes = {} if axis is None else {"axis": axis}
    q = g.one("QuantizeLinear", [v, scale, zero if t == "int8" or chance(g, 0.8) else None], **attributes)
    if q.dtype == t:
        g.add("DequantizeLinear", [q, scale, zero], **attributes)


@kind(3)
def quantised_layer(g):
    """DequantizeLinear of activations and weights, MatMul or Conv, QuantizeLinear, DequantizeLinear."""
    convolve = chance(g, 0.5)
    v = image(g, ("float32",)) if convolve else some(g, ("float32",), 2, 3)
    zero = g.constant(np.array(g.dice.randint(0, 9), "uint8"))
    scale = scale_of(g, v, 120)
    x = g.one("DequantizeLinear", [g.one("QuantizeLinear", [v, scale, zero]), scale, zero])
    n = g.dice.choice((1, 3, 8, 16))
    w_shape = (n, v.shape[1], *[g.dice.choice((1, 3)) for _ in v.shape[2:]]) if convolve else (v.shape[-1], n)
    per_channel = chance(g, 0.5) and g.opset >= 13
    w_scale = g.fresh("float32", (n,) if per_channel else (), 0.005, 0.02, constant=True)
    w_zero = g.constant(np.zeros((n,) if per_channel else (), np.int8))
    w = g.one("DequantizeLinear", [g.fresh("int8", w_shape, -127, 127, constant=True), w_scale, w_zero],
              **({"axis": 0 if convolve else 1} if per_channel else {}))
    y = g.one("Conv", [x, w], pads=[g.dice.randint(0, 1)] * (2 * v.rank - 4)) if convolve else g.one("MatMul", [x, w])
    if chance(g, 0.5):
        y = g.one("Relu", [y])
    y_scale = scale_of(g, y, 120)
    g.add("DequantizeLinear", [g.one("QuantizeLinear", [y, y_scale, zero]), y_scale, zero])


@kind(2)
def integer_layer(g):
    v = some(g, ("int8", "uint8"), 2, 4)
    t = g.dice.choice(("int8", "uint8"))
    op = g.dice.choice(("MatMulInteger", "QLinearMatMul", "ConvInteger", "QLinearConv"))
    zero = g.fresh(v.dtype, (), constant=True)
    scale = g.constant(np.array(0.02, np.float32))
    if "Conv" in op:
        v = image(g, ("int8", "uint8"))
        zero = g.fresh(v.dtype, (), constant=True)
        attributes = window(g, v)
        w = g.fresh(t, (g.dice.choice((1, 4, 9)), v.shape[1], *attributes["kernel_shape"]))
    else:
        attributes = {}
        w = g.fresh(t, [(s[-1], 5) for s in v.shapes])
    w_zero = g.fresh(t, (), constant=True)
    if op in ("MatMulInteger", "ConvInteger"):
        g.add(op, [v, w, zero if chance(g, 0.7) else None, w_zero if chance(g, 0.7) else None], **attributes)
    else:
        bias = [g.fresh("int32", (w.shape[0],))] if op == "QLinearConv" and chance(g, 0.5) else []
        y_scale = g.constant(np.array(0.11, np.float32))
        g.add(op, [v, scale, zero, w, scale, w_zero, y_scale, g.fresh(v.dtype, (), constant=True), *bias], **attributes)


@kind(1)
def quantise_dynamic(g):
    y, scale, zero = g.add("DynamicQuantizeLinear", [some(g, ("float32",))], 3)
    g.add("DequantizeLinear", [y, scale, zero])


def add_node(g, name, why=None):
    """Whether a node of this kind fits; `why` counts what did not."""
    try:
        KINDS[name][0](g)
    except Unfit as e:
        if why is not None:
            why[f"{name}: {e}"] += 1
        return False
    return True


def add_nodes(g, count, why=None):
    """Adds up to `count` kinds of nodes; `why` counts what did not fit."""
    names, weights = list(KINDS), [w for _, w in KINDS.values()]
    done = 0
    for _ in range(3 * count):
        done += add_node(g, g.dice.choices(names, weights)[0], why)
        if done == count:
            return
