"""More kinds of nodes for random_graphs.py: recurrent layers, quantised chains, Resize, TopK, Einsum, Scan, sequences,
optionals, and sizes, axes and counts that only the run knows."""
import numpy as np
from onnx import TensorProto, helper

from random_build import FLOATS, INTS, Graph, Unfit, Value, elem_type, is_float, np_type, round_to, wide
from random_nodes import (DIMS, add_nodes, any_type, axes_of, axis_of, chance, float_type, image, kind, maybe, partner,
                          scale_of, shape, some, swap)
from random_patterns import NESTED, body, captured, depth

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


# ---------------------------------------------------------------- recurrent layers
def lengths_of(g, shapes, batch_axis):
    """Lengths of the sequences, at most the time axis of each size."""
    made = [np.array([g.dice.randint(1 if chance(g, 0.9) else 0, s[1 - batch_axis]) for _ in range(s[batch_axis])], np.int32)
            for s in shapes]
    return g.constant(made[0]) if len(set(map(len, made))) == 1 and len(made) == 1 and chance(g, 0.4) else g.input(made)


@kind(5)
def recurrent(g):
    if g.opset < 7:
        raise Unfit("version 1 says how many outputs it has")
    op = g.dice.choice(list(GATES))
    v = some(g, None, 3, 3, p_old=0.7)
    layout = 1 if g.opset >= 14 and chance(g, 0.15) else 0
    if any(0 in s or s[0] > 12 or s[1] > 12 for s in v.shapes):
        raise Unfit("long")
    direction = g.dice.choice(("forward", "reverse", "bidirectional"))
    count, gates, hidden = 1 + (direction == "bidirectional"), GATES[op], g.dice.choice((1, 2, 3, 5, 8))
    batch_axis = 1 - layout
    states = [(s[0], count, hidden) if layout else (count, s[1], hidden) for s in v.shapes]
    weights = [[(count, gates * hidden, s[2]) for s in v.shapes], (count, gates * hidden, hidden)]
    inputs = [v, *(g.fresh(v.dtype, s, -0.7, 0.7) for s in weights)]
    inputs.append(g.fresh(v.dtype, (count, 2 * gates * hidden), -0.5, 0.5) if chance(g, 0.7) else None)
    inputs.append(lengths_of(g, v.shapes, batch_axis) if chance(g, 0.4) else None)
    inputs.append(g.fresh(v.dtype, states, -1, 1) if chance(g, 0.4) else None)
    attributes = maybe(g, {"clip": g.dice.choice((0.4, 1.5))}, 0.15)
    if op == "LSTM":
        inputs.append(g.fresh(v.dtype, states, -1, 1) if chance(g, 0.4) else None)
        inputs.append(g.fresh(v.dtype, (count, 3 * hidden), -0.5, 0.5) if chance(g, 0.3) else None)
        attributes.update(maybe(g, {"input_forget": 1}, 0.1))
    elif op == "GRU":
        attributes.update(maybe(g, {"linear_before_reset": 1}))
    if chance(g, 0.2):
        attributes["activations"] = [g.dice.choice(("Sigmoid", "Tanh", "Relu", "Softsign")) for _ in DEFAULTS[op] * count]
    if layout:
        attributes["layout"] = 1
    if direction != "forward" or chance(g, 0.3):
        attributes["direction"] = direction
    wanted = [chance(g, 0.8) for _ in range(3 if op == "LSTM" else 2)]
    while wanted and not wanted[-1]:
        wanted.pop()
    made = g.add(op, inputs, wanted or [True], hidden_size=hidden, **attributes)
    if chance(g, 0.4) and made[0].rank == 4 and not layout:  # as exporters go on: the directions side by side
        y = g.one("Transpose", [made[0]], perm=[0, 2, 1, 3])
        g.add("Reshape", [y, g.ints([0, 0, -1])])


# ---------------------------------------------------------------- TopK, Resize, Unique, Einsum
@kind(4)
def top_k(g):
    v = some(g, g.floats if chance(g, 0.7) else INTS, 1, 5)
    axis = axis_of(g, v)
    most = min(s[axis] for s in v.shapes)
    k = g.ints([g.dice.randint(0 if chance(g, 0.1) else min(1, most), most)])
    attributes = maybe(g, {"largest": 0} if g.opset >= 11 else {})
    g.add("TopK", [v, k], 2, axis=axis if g.opset >= 11 else axis % v.rank, **attributes)


HOWS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")


@kind(4)
def resize(g):
    v = image(g, ("float32",)) if chance(g, 0.8) else some(g, ("float32",), 1, 4)
    if any(0 in s for s in v.shapes):
        raise Unfit("nothing to interpolate")
    mode = g.dice.choice(("nearest", "linear", "cubic"))
    if g.opset < 11:
        scales = [1.0] * min(v.rank, 2) + [g.dice.choice((1.0, 2.0, 3.0)) for _ in range(v.rank - 2)]
        op = "Resize" if g.opset == 10 else "Upsample"
        g.add(op, [v, g.constant(np.array(scales, np.float32))], mode="nearest",
              by_runtime=op == "Resize")
        return
    how = g.dice.choice(HOWS[:5 if g.opset >= 19 else 1]) if chance(g, 0.5) else g.dice.choice(HOWS[2:])
    attributes = {"mode": mode, "coordinate_transformation_mode": how}
    if mode == "nearest":
        attributes.update(maybe(g, {"nearest_mode": g.dice.choice(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))}))
    elif mode == "cubic":
        attributes.update(maybe(g, {"cubic_coeff_a": -0.5}))
    if mode != "nearest":
        attributes.update(maybe(g, {"exclude_outside": 1} if mode == "cubic" else {}, 0.3))
        attributes.update(maybe(g, {"antialias": 1} if g.opset >= 18 else {}, 0.25))
    spatial = list(range(min(2, v.rank - 1), v.rank))
    axes = spatial if g.opset >= 18 and chance(g, 0.4) else None
    own = axes or range(v.rank)
    if axes:
        attributes["axes"] = [a - v.rank if chance(g, 0.3) else a for a in axes]
    nothing = g.constant(np.zeros(0, np.float32)) if g.opset < 13 else None
    if chance(g, 0.5):
        scales = [g.dice.choice((0.5, 1.0, 1.25, 1.5, 2.0, 3.0)) if a in spatial else 1.0 for a in own]
        given = np.array(scales, np.float32)
        g.add("Resize", [v, nothing, g.exact_input(given) if chance(g, 0.2) else g.constant(given)], **attributes)
        return
    if not v.fixed:
        raise Unfit("the sizes of the other axes vary")
    if axes and chance(g, 0.3):
        attributes["keep_aspect_ratio_policy"] = g.dice.choice(("not_larger", "not_smaller"))
    sizes = [g.dice.choice((1, 2, 3, 5, 8)) if a in spatial else v.shape[a] for a in own]
    g.add("Resize", [v, nothing, nothing, g.ints(sizes)], **attributes)


@kind(2)
def unique(g):
    v = some(g, g.floats[:1] if chance(g, 0.5) else ("int64", "int8"), 1, 3)
    if any(0 in s for s in v.shapes):
        raise Unfit("ONNX Runtime ends the process")
    attributes = maybe(g, {"axis": axis_of(g, v), "sorted": 0})
    g.add("Unique", [v], [True, *(chance(g, 0.5) for _ in range(2)), True], **attributes)


@kind(3)
def einsum_of_many(g):
    """Diagonals, an ellipsis, three factors, a sum over everything."""
    v = some(g, g.floats, 2, 4)
    form = g.dice.choice(("diagonal", "ellipsis", "three", "outer"))
    n = g.dice.choice(DIMS[1:])
    if form == "diagonal":
        square = g.fresh(v.dtype, [(s[-1], s[-1]) for s in v.shapes])
        g.add("Einsum", [square, v], equation=g.dice.choice(("ii,...i->...", "ii,...i->...i", "ij,...j->...i")))
    elif form == "ellipsis":
        w = g.fresh(v.dtype, [(s[-1], n) for s in v.shapes], -1, 1)
        g.add("Einsum", [v, w], equation=g.dice.choice(("...a,ab->...b", "...a,ab->b...", "...a,ab")))
    elif form == "three":
        a, b = g.fresh(v.dtype, [(s[-1], 3) for s in v.shapes], -1, 1), g.fresh(v.dtype, (3, n), -1, 1)
        g.add("Einsum", [v, a, b], equation=g.dice.choice(("...i,ij,jk->...k", "...i,ij,jk->k...", "...i,ij,jk->...jk")))
    else:
        w = g.fresh(v.dtype, (g.dice.randint(1, 4),), -1, 1)
        g.add("Einsum", [v, w], equation="...,a->...a")


# ---------------------------------------------------------------- quantised chains
def quantised(g, v, dtype):
    """v stored in bytes: (bytes, scale, zero)."""
    zero = g.constant(np.array(g.dice.randint(-4, 9) if dtype == "int8" else g.dice.randint(90, 140), dtype))
    scale = scale_of(g, v, 110)
    return g.one("QuantizeLinear", [v, scale, zero]), scale, zero


@kind(3)
def quantised_chain(g):
    """Several layers in bytes with moves of bytes between them and a sum over a branch."""
    v = image(g, ("float32",)) if chance(g, 0.6) else some(g, ("float32",), 2, 3)
    convolve = v.rank > 3 and chance(g, 0.8)
    dtype = g.dice.choice(("uint8", "int8"))
    x = g.one("DequantizeLinear", list(quantised(g, v, dtype)))
    first, channels = x, v.shape[1] if convolve else v.shape[-1]
    for _ in range(g.dice.randint(1, 3)):
        n = channels if chance(g, 0.5) else g.dice.choice((1, 3, 8, 16))
        per_channel = chance(g, 0.5) and g.opset >= 13
        w_shape = (n, channels, *[g.dice.choice((1, 3)) for _ in v.shape[2:]]) if convolve else (channels, n)
        w_scale = g.fresh("float32", (n,) if per_channel else (), 0.005, 0.02, constant=True)
        w_zero = g.constant(np.zeros(w_scale.shape, np.int8))
        w = g.one("DequantizeLinear", [g.fresh("int8", w_shape, -127, 127, constant=True), w_scale, w_zero],
                  **({"axis": 0 if convolve else 1} if per_channel else {}))
        y = g.one("Conv", [x, w], auto_pad="SAME_UPPER") if convolve else g.one("MatMul", [x, w])
        if chance(g, 0.5):
            y = g.one("Relu", [y])
        if y.shapes == first.shapes and chance(g, 0.7):
            y = g.one("Add", [y, first])
        stored, scale, zero = quantised(g, y, dtype)
        if chance(g, 0.3):
            stored = g.one("Transpose", [stored], perm=[0, 1, *reversed(range(2, stored.rank))])
        elif convolve and chance(g, 0.3) and g.opset >= 12:
            stored = g.one("MaxPool", [stored], kernel_shape=[2] * (v.rank - 2), auto_pad="SAME_LOWER")
        x, channels = g.one("DequantizeLinear", [stored, scale, zero]), n


@kind(2)
def blocked_weights(g):
    """Weights with a scale for each block of rows, in 4 or 8 bits."""
    v = some(g, ("float32",), 2, 3)
    rows = v.shape[-1]
    if not v.fixed or rows == 0 or g.opset < 21:
        raise Unfit("blocks")
    block = g.dice.choice([b for b in range(1, rows + 1) if rows % b == 0])
    n = g.dice.choice((1, 4, 9, 16))
    w = g.fresh("int8", (rows, n), -127, 127, constant=True)
    scales = g.fresh("float32", (rows // block, n), 0.005, 0.02, constant=True)
    zeros = g.fresh("int8", (rows // block, n), -3, 3, constant=True) if chance(g, 0.5) else None
    g.add("MatMul", [v, g.one("DequantizeLinear", [w, scales, zeros], axis=0, block_size=block)])


@kind(3)
def quantised_positions(g):
    """Gathers and scatters at positions that are computed from quantised values, which others read as well."""
    if g.opset < 16:
        raise Unfit("no reductions")
    rows, columns = g.dice.choice((4, 8, 16)), g.dice.choice((3, 4, 8, 17))
    dtype = g.dice.choice(("uint8", "int8"))
    quarters = g.one("Cast", [g.fresh("int8", (rows, columns), -40, 40, constant=False)], to=TensorProto.FLOAT)
    x = g.one("Mul", [quarters, g.constant(np.float32(0.25))])  # exact, so that every evaluator rounds to the same bytes
    if chance(g, 0.6):
        x = g.one(g.dice.choice(("Relu", "Abs")), [x])
    scale, zero = g.constant(np.float32(g.dice.choice((0.25, 0.5, 1)))), g.constant(np.array(g.dice.randint(0, 5), dtype))
    q = g.one("QuantizeLinear", [x, scale, zero])
    d = g.one("DequantizeLinear", [q, scale, zero])
    whole = g.one("Cast", [g.dice.choice((q, d))], to=TensorProto.INT64)
    data = g.dice.choice((q, d, d, g.fresh("float32", (rows, columns))))
    axis = g.dice.randint(0, 1)
    form = g.dice.choice("gather elements tuples scatter add".split())
    at = g.one("Mod", [whole, g.constant(np.array((rows, columns)[axis], np.int64))])
    if form == "gather":
        g.add("Gather", [data, at], axis=axis)
    elif form == "elements":
        y = g.one("GatherElements", [data, at], axis=axis)
        if y.dtype == "float32" and chance(g, 0.5):
            g.add("GatherElements", [y, at], axis=axis)
    elif form == "tuples":
        pairs = g.one("Mod", [g.one("Slice", [whole, g.ints([0]), g.ints([2]), g.ints([1])]),
                              g.constant(np.array((rows, columns), np.int64))])
        g.add("GatherND", [data, pairs])
    elif form == "scatter":
        g.add("ScatterElements", [data, g.constant(np.argsort(g.data("float32", (rows, columns)), axis)), data], axis=axis)
    else:
        to = g.fresh("float32", (rows, columns))
        g.add("ScatterElements", [to, at, g.dice.choice((d, x))], axis=axis, reduction="add")
    if chance(g, 0.5):
        g.add("Softmax", [d])
    if chance(g, 0.5):
        g.add("MatMulInteger", [q, g.fresh("int8", (columns, 8), -9, 9, constant=True)])


# ---------------------------------------------------------------- Scan
@kind(2)
def scan_of_many(g):
    """Two scanned inputs along any axis in any direction; scan outputs too."""
    if depth(g) >= NESTED or g.opset < 9:
        raise Unfit("deep")
    v = some(g, g.floats, 2, 4)
    axis = g.dice.randint(0, v.rank - 1)
    if any(s[axis] == 0 for s in v.shapes):
        raise Unfit("no turns")
    other_shapes = [(s[axis], 2) for s in v.shapes]
    other = g.fresh(v.dtype, other_shapes, -1, 1)
    inner = body(g)
    rest = [s[:axis] + s[axis + 1:] for s in v.shapes]
    start = g.fresh(v.dtype, rest)
    state = Value(inner.name("b"), start.of, start.shadows)
    row = Value(inner.name("b"), [np.take(a, 0, axis) for a in v.of], [[np.take(s, 0, axis) for s in k] for k in v.shadows])
    pair = Value(inner.name("b"), [a[0] for a in other.of], [[s[0] for s in k] for k in other.shadows])
    inner.values += [state, row, pair]
    step = inner.one("Add", [state, row])
    add_nodes(inner, g.dice.randint(0, 3))
    half = inner.one("Mul", [step, inner.constant(np.array(0.5, np_type(v.dtype)))])
    out = inner.one("Identity", [g.dice.choice(inner.values[2:])])
    graph = inner.proto("body", [half, out], inputs=[state, row, pair])
    attributes = maybe(g, {"scan_input_directions": [g.dice.randint(0, 1) for _ in range(2)],
                           "scan_output_directions": [1],
                           "scan_output_axes": [g.dice.randint(-1 if g.opset >= 11 else 0, out.rank)]}, 0.4)
    g.add("Scan", [start, v, other], 2, captured=captured(g, inner), body=graph, num_scan_inputs=2,
          by_runtime="scan_output_axes" in attributes or "scan_output_directions" in attributes,
          scan_input_axes=[axis, 0], **attributes)


# ---------------------------------------------------------------- sequences and optionals: the results are known
def joined(values, axis, new_axis):
    """What ConcatFromSequence makes of tensors: (of, shadows)."""
    def join(parts):
        return np.stack(parts, axis) if new_axis else np.concatenate(parts, axis)
    of = [join(parts) for parts in zip(*(v.of for v in values))]
    return of, [[join([v.shadows[k][s] for v in values]) for s in range(len(values[0].shadows[k]))] for k in range(len(of))]


def take_out(g, sequence, items):
    """Tensors out of a sequence (its name) of known items."""
    if chance(g, 0.6):
        axis_least, rank = -1 if g.opset >= 13 else 0, items[0].rank
        new_axis = g.dice.randint(0, 1) if len({tuple(i.shapes) for i in items}) == 1 else 0
        if rank == 0 and not new_axis:
            raise Unfit("scalars")
        axis = g.dice.randint(0, rank - 1 + new_axis)
        if not new_axis and any(a[:axis] + a[axis + 1:] != b[:axis] + b[axis + 1:]
                                for i in items for a, b in zip(i.shapes, items[0].shapes)):
            raise Unfit("sizes")
        given = axis - (rank + new_axis) if axis_least < 0 and chance(g, 0.3) else axis
        name = g.raw("ConcatFromSequence", [sequence], axis=given, new_axis=new_axis)[0]
        g.known(name, *joined(items, axis, new_axis))
    else:
        at = g.dice.randint(-len(items), len(items) - 1)
        name = g.raw("SequenceAt", [sequence, g.ints(at).name])[0]
        g.known(name, items[at].of, items[at].shadows)
    if chance(g, 0.3):
        count = np.array(len(items))
        g.known(g.raw("SequenceLength", [sequence])[0], [count] * len(g.sizes), None)


def similar(g, v):
    """A tensor like v, with perhaps another size along axis 0."""
    found = [o for o in g.visible() if o.dtype == v.dtype and o.rank == v.rank and o is not v]
    return g.dice.choice(found[-6:]) if found and chance(g, 0.4) else g.fresh(v.dtype, v.shapes)


def listed(g):
    """Dtypes that a sequence or an optional may hold."""
    dtypes = tuple(t for t in any_type(g) if t != "bfloat16")
    if not dtypes:
        raise Unfit("bfloat16")
    return dtypes


@kind(3)
def sequence(g):
    v = some(g, listed(g), 0, 4)
    items = [v] + [similar(g, v) for _ in range(g.dice.randint(0, 2))]
    if chance(g, 0.7):
        name = g.raw("SequenceConstruct", [i.name for i in items])[0]
    else:
        name, items = g.raw("SequenceEmpty", [], dtype=int(elem_type(v.of[0])))[0], []
    for _ in range(g.dice.randint(0, 3)):
        if items and chance(g, 0.25) and len(items) > 1:
            at = g.dice.randint(-len(items), len(items) - 1)
            name = g.raw("SequenceErase", [name, g.ints(at).name])[0]
            del items[at]
        else:
            new = similar(g, v)
            at = g.dice.randint(-len(items), len(items)) if chance(g, 0.6) else None
            name = g.raw("SequenceInsert", [name, new.name] + ([] if at is None else [g.ints(at).name]))[0]
            items.insert(len(items) if at is None else at, new)
    if items:
        take_out(g, name, items)


@kind(2)
def split_to_sequence(g):
    v = some(g, listed(g), 1, 4)
    axis = axis_of(g, v)
    size = v.shape[axis]
    if any(s[axis] != size for s in v.shapes) or size == 0:
        raise Unfit("the count varies")
    if chance(g, 0.4):
        keep, split, sizes = g.dice.randint(0, 1), None, [1] * size
    elif chance(g, 0.5):
        part = g.dice.randint(1, size)
        keep, split = 1, g.ints(part)
        sizes = [min(part, size - i) for i in range(0, size, part)]
    else:
        cuts = sorted(g.dice.randint(0, size) for _ in range(g.dice.randint(0, 3)))
        keep, sizes = 1, [b - a for a, b in zip([0, *cuts], [*cuts, size])]
        split = g.ints(sizes)
    inputs = [v.name] + ([split.name] if split else [])
    name = g.raw("SplitToSequence", inputs, axis=axis, **({"keepdims": keep} if not split else {}))[0]
    ends = np.cumsum([0, *sizes])

    def part(a, i):
        at = (slice(None),) * (axis % v.rank)
        return a[(*at, ends[i])] if not keep else a[(*at, slice(ends[i], ends[i + 1]))]
    items = [Value("", [part(a, i) for a in v.of], [[part(s, i) for s in k] for k in v.shadows]) for i in range(len(sizes))]
    take_out(g, name, items)


def scaled(v, factor):
    """v * factor: (of, shadows)."""
    of = [round_to(wide(a) * factor, a.dtype) for a in v.of]
    return of, [[s * factor for s in k] for k in v.shadows]


@kind(2)
def sequence_in_loop(g):
    """A loop that appends v * i, or puts it in front, to a sequence that it carries."""
    if depth(g) >= NESTED or g.opset < 13:
        raise Unfit("deep")
    v = some(g, ("float32",), 0, 3)
    trips, front = g.dice.randint(1, 4), chance(g, 0.3)
    i, keep, carried, n, product, grown, again = (g.name("b") for _ in range(7))
    nodes = [helper.make_node("Cast", [i], [n], to=TensorProto.FLOAT), helper.make_node("Mul", [v.name, n], [product]),
             helper.make_node("Identity", [keep], [again])]
    extra = []
    if front:
        extra = [g.name("b")]
        nodes.append(helper.make_node("Constant", [], extra, value_int=0))
    nodes.append(helper.make_node("SequenceInsert", [carried, product, *extra], [grown]))
    kind_of = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    scalar = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "body", [scalar(i, TensorProto.INT64, []), scalar(keep, TensorProto.BOOL, []), helper.make_value_info(carried, kind_of)],
        [scalar(again, TensorProto.BOOL, []), helper.make_value_info(grown, kind_of)])
    empty = g.raw("SequenceEmpty", [], dtype=TensorProto.FLOAT)[0]
    name = g.raw("Loop", [g.ints(trips).name, "", empty], body=graph)[0]
    items = [Value("", *scaled(v, t)) for t in range(trips)]
    take_out(g, name, items[::-1] if front else items)


@kind(1)
def sequence_map(g):
    """SequenceMap over a sequence of two, whose body adds a captured value."""
    if g.opset < 17:
        raise Unfit("the opset does not have it")
    v = some(g, ("float32",), 1, 3)
    item, out = g.name("b"), g.name("b")
    info = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Neg", [item], [out])], "body", [info(item, TensorProto.FLOAT, None)],
                              [info(out, TensorProto.FLOAT, None)])
    items = [v, similar(g, v)]
    name = g.raw("SequenceConstruct", [i.name for i in items])[0]
    name = g.raw("SequenceMap", [name], body=graph)[0]
    take_out(g, name, [Value("", *scaled(i, -1)) for i in items])


@kind(2)
def optional(g):
    """An optional that holds a tensor or nothing, asked by an If."""
    if depth(g) >= NESTED or g.opset < 15:
        raise Unfit("the opset does not have it")
    v = some(g, listed(g), 0, 4)
    held = chance(g, 0.7)
    if held:
        name = g.raw("Optional", [v.name])[0]
    else:
        t = helper.make_tensor_type_proto(elem_type(v.of[0]), None)
        name = g.raw("Optional", [], type=t)[0]
    has = g.raw("OptionalHasElement", [name])[0]
    if held and chance(g, 0.4):
        g.known(g.raw("OptionalGetElement", [name])[0], v.of, v.shadows)
        return
    other = similar(g, v) if chance(g, 0.5) else v
    if other.shapes != v.shapes:
        raise Unfit("sizes")
    info = helper.make_tensor_value_info
    elem, one, two = elem_type(v.of[0]), g.name("b"), g.name("b")
    then = helper.make_graph([helper.make_node("OptionalGetElement", [name], [one])], "then", [], [info(one, elem, None)])
    else_ = helper.make_graph([helper.make_node("Identity", [other.name], [two])], "else", [], [info(two, elem, None)])
    made = g.raw("If", [has], then_branch=then, else_branch=else_)[0]
    right = v if held else other
    g.known(made, right.of, right.shadows)


# ---------------------------------------------------------------- sizes that data decide
@kind(4)
def sized_by_data(g):
    """Slices, ranges, repeats and pads whose numbers the graph computes, and what is then done with the result."""
    v = some(g, any_type(g), 1, 4)
    axis = g.dice.randint(0, v.rank - 1)
    least = min(s[axis] for s in v.shapes)
    form = g.dice.choice("slice tile pad range expand split squeeze onehot".split())
    if form == "slice":
        end = g.argument(np.array([g.dice.randint(0, least + 1)]))
        y = g.one("Slice", [v, g.ints([g.dice.randint(0, 1)]), end, g.ints([axis])])
        if is_float(y.dtype) and chance(g, 0.5):
            g.add("ReduceSum", [y, g.ints([axis])], keepdims=g.dice.randint(0, 1))
    elif form == "tile":
        g.add("Tile", [v, g.argument(np.array([g.dice.randint(0 if chance(g, 0.1) else 1, 2) for _ in range(v.rank)]))])
    elif form == "pad":
        y = g.one("Pad", [v, g.argument(np.array([g.dice.randint(0, 2) for _ in range(2 * v.rank)]))])
        if is_float(y.dtype):
            g.add("Relu", [y])
    elif form == "range":
        y = g.one("Range", [g.ints(g.dice.randint(-2, 2)), g.argument(np.array(g.dice.randint(-1, 7))), g.ints(1)])
        z = g.one("Cast", [y], to=int(elem_type(np.zeros(0, np_type(float_type(g))))))
        g.add(g.dice.choice(("Tanh", "Neg")), [z])
    elif form == "expand":
        g.add("Expand", [v, g.argument(np.array([g.dice.randint(1, 3), *[1] * v.rank]))])
    elif form == "split" and v.fixed:
        first = g.dice.randint(0, least)
        parts = g.add("Split", [v, g.argument(np.array([first, least - first]))], 2, axis=axis)
        g.add("Concat", swap(g, *parts), axis=axis)
    elif form == "squeeze":
        rank = v.rank + 1
        y = g.one("Unsqueeze", [v, g.argument(np.array([g.dice.randint(-rank, rank - 1)]))])
        g.add("Reshape", [y, g.argument(np.array([0, -1]))])
    else:
        index = g.argument(np.array([g.dice.randint(0, 3) for _ in range(3)]))
        g.add("OneHot", [index, g.argument(np.array(g.dice.randint(1, 6))), g.constant(np.array([0, 1.5], np_type(float_type(g))))])


@kind(2)
def picked_by_data(g):
    """What a condition or a threshold picks, and statistics over it."""
    v = some(g, ("float32",), 1, 3)
    positive = g.one("Greater", [v, g.constant(np.array(0.1, np.float32))])
    where = g.one("NonZero", [positive])
    if chance(g, 0.5):
        picked = g.one("GatherND", [v, g.one("Transpose", [where], perm=[1, 0])])
    else:
        picked = g.one("Compress", [v, g.one("Reshape", [positive, g.ints([-1])])])
    y = g.one(g.dice.choice(("Tanh", "Neg", "Relu")), [picked])
    if chance(g, 0.5):
        g.add("ReduceSum", [y, g.ints([0])], keepdims=g.dice.randint(0, 1))
    if chance(g, 0.3):
        g.add("ScatterND", [v, g.one("Transpose", [where], perm=[1, 0]), y])
