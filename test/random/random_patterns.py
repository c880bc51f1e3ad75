"""What random_graphs.py adds besides plain nodes: attention, patterns as exporters spell them out, and control flow."""
import numpy as np

from random_build import Graph, Unfit, Value, np_type
from random_nodes import add_nodes, any_type, chance, float_type, kind, maybe, some, swap


# ---------------------------------------------------------------- attention
@kind(3)
def attention(g):
    batch, heads, groups, q_len, kv_len, size, v_size = (g.dice.choice(c) for c in
        ((1, 2), (1, 2, 4), (1, 2), (1, 3, 8), (1, 5, 9), (4, 8), (4, 6)))
    kv_heads = heads // groups if heads % groups == 0 else heads
    dtype = float_type(g)
    flat = chance(g, 0.3)
    shapes = [(batch, heads, q_len, size), (batch, kv_heads, kv_len, size), (batch, kv_heads, kv_len, v_size)]
    attributes = maybe(g, {"is_causal": 1, "scale": 0.4, "softcap": 1.5, "qk_matmul_output_mode": g.dice.randint(0, 3)}, 0.3)
    if flat:
        shapes = [(b, n, h * d) for b, h, n, d in shapes]
        attributes.update(q_num_heads=heads, kv_num_heads=kv_heads)
    inputs = [g.fresh(dtype, s) for s in shapes]
    past = g.dice.choice((0, 0, 3))
    if chance(g, 0.4):
        mask = g.dice.choice(((q_len, kv_len + past), (1, 1, q_len, kv_len + past), (batch, heads, q_len, kv_len + past)))
        inputs.append(g.fresh("bool" if chance(g, 0.4) else dtype, mask))
    if past:
        inputs += [None] * (4 - len(inputs))
        inputs += [g.fresh(dtype, (batch, kv_heads, past, size)), g.fresh(dtype, (batch, kv_heads, past, v_size))]
    outputs = [True, bool(past), bool(past), chance(g, 0.3)]
    if outputs[3] and not attributes.get("qk_matmul_output_mode"):
        attributes.pop("softcap", None)  # which the reference evaluator applies to the raw product, too
    while not outputs[-1]:
        outputs.pop()
    g.add("Attention", inputs, outputs, **attributes)


@kind(2)
def rotary(g):
    batch, heads, length, size = g.dice.choice((1, 2)), g.dice.choice((1, 3)), g.dice.choice((1, 4)), g.dice.choice((4, 8))
    dtype = float_type(g)
    attributes = maybe(g, {"interleaved": 1})
    rotated = size
    if chance(g, 0.3):
        rotated = attributes["rotary_embedding_dim"] = size // 2
    if chance(g, 0.5):
        x = g.fresh(dtype, (batch, heads, length, size))
    else:
        x = g.fresh(dtype, (batch, length, heads * size))
        attributes["num_heads"] = heads
    if chance(g, 0.5):
        caches = [g.fresh(dtype, (12, rotated // 2)) for _ in range(2)]
        g.add("RotaryEmbedding", [x, *caches, g.fresh("int64", (batch, length), 0, 11)], **attributes)
    else:
        g.add("RotaryEmbedding", [x] + [g.fresh(dtype, (batch, length, rotated // 2)) for _ in range(2)], **attributes)


# ---------------------------------------------------------------- what exporters spell out
def number(g, v, x):
    return g.constant(np.array(x, np_type(v.dtype)))


def mean_last(g, v):
    return g.one("ReduceMean", [v, g.ints([-1])], keepdims=1)


@kind(3)
def layer_norm_spelled(g):
    v = some(g, None, 2)
    d = g.one("Sub", [v, mean_last(g, v)])
    square = g.one("Pow", [d, number(g, v, 2)]) if chance(g, 0.5) else g.one("Mul", [d, d])
    root = g.one("Sqrt", [g.one("Add", [mean_last(g, square), number(g, v, 1e-3)])])
    y = g.one("Div", [d, root])
    y = g.one("Mul", [y, g.fresh(v.dtype, [s[-1:] for s in v.shapes])])
    g.add("Add", [y, g.fresh(v.dtype, [s[-1:] for s in v.shapes])])


@kind(3)
def gelu_spelled(g):
    v = some(g)
    if chance(g, 0.5):
        y = g.one("Add", [g.one("Erf", [g.one("Div", [v, number(g, v, 1.4142135)])]), number(g, v, 1)])
    else:
        cube = g.one("Mul", [g.one("Mul", [v, g.one("Mul", [v, v])]), number(g, v, 0.044715)])
        y = g.one("Add", [g.one("Tanh", [g.one("Mul", [g.one("Add", [v, cube]), number(g, v, 0.7978846)])]), number(g, v, 1)])
    g.add("Mul", [g.one("Mul", [v, number(g, v, 0.5)]), y])


@kind(4)
def attention_spelled(g):
    """Projections, heads, scores with a mask, softmax, weighted values, heads together."""
    v = some(g, None, 3, 3)
    heads, size = g.dice.choice((1, 2, 3)), g.dice.choice((2, 4, 5))
    parts = []
    for _ in range(3):
        w = g.fresh(v.dtype, [(s[-1], heads * size) for s in v.shapes], -0.6, 0.6)
        p = g.one("Reshape", [g.one("MatMul", [v, w]), g.ints([0, -1, heads, size])])
        parts.append(g.one("Transpose", [p], perm=[0, 2, 1, 3]))
    q, k, values = parts
    scores = g.one("MatMul", [q, g.one("Transpose", [k], perm=[0, 1, 3, 2])])
    scores = g.one(*(("Div", [scores, number(g, v, size**0.5)]) if chance(g, 0.5) else ("Mul", [scores, number(g, v, 0.5)])))
    if chance(g, 0.5):
        scores = g.one("Add", [scores, g.fresh(v.dtype, [(s[1], s[1]) for s in v.shapes])])
    elif chance(g, 0.5):
        keep = g.fresh("bool", [(1, 1, s[1], s[1]) for s in v.shapes])
        scores = g.one("Where", [keep, scores, number(g, v, -100)])
    y = g.one("MatMul", [g.one("Softmax", [scores], axis=-1 if g.opset >= 11 else 3), values])
    g.add("Reshape", [g.one("Transpose", [y], perm=[0, 2, 1, 3]), g.ints([0, 0, heads * size])])


@kind(5)
def shape_arithmetic(g):
    """Shape, Gather, arithmetic, Concat, Reshape (or Expand, Slice, ConstantOfShape, Range)."""
    v = some(g, any_type(g), 1, 5)
    s = g.one("Shape", [v])
    form = g.dice.choice("flatten slice expand fill range resize".split())
    at = g.dice.randint(0, v.rank - 1)
    dim = g.one("Gather", [s, g.ints(at)], axis=0)
    if form == "flatten":
        one = g.one("Unsqueeze", [dim, g.ints([0])])
        shape_ = g.one("Concat", [one, g.ints([-1])], axis=0)
        g.add("Reshape", [v, shape_])
    elif form == "slice":
        half = g.one("Unsqueeze", [g.one("Div", [dim, g.ints(2)]), g.ints([0])])
        g.add("Slice", [v, *swap(g, g.ints([0]), half), g.ints([at])])
    elif form == "expand":
        bigger = g.one("Concat", [g.ints([2]), s], axis=0)
        g.add("Expand", [v, bigger])
    elif form == "fill":
        fill = g.one("ConstantOfShape", [s])
        g.add("Add", [v, fill])
    elif form == "range":
        count = g.one("Range", [g.ints(0), dim, g.ints(1)])
        g.add("Gather", [v, count], axis=at)
    else:
        first = g.one("Slice", [s, g.ints([0]), g.ints([at]), g.ints([0])])
        last = g.one("Slice", [s, g.ints([at]), g.ints([9]), g.ints([0])])
        g.add("Reshape", [v, g.one("Concat", [first, g.ints([1]), last], axis=0)])


@kind(3)
def residual(g):
    """A diamond: v, something of v, their sum, used again."""
    v = some(g, None, 1)
    y = g.one(g.dice.choice(("Tanh", "Sigmoid", "Relu", "Softsign")), [v])
    s = g.one("Add", [v, y])
    z = g.one("Mul", [s, y])
    g.add(g.dice.choice(("Sub", "Max" if g.opset >= 8 else "Sub")), [z, s])


@kind(2)
def dropout(g):
    g.add("Dropout", [some(g)], g.dice.randint(1, 2) if g.opset >= 7 else 1)


# ---------------------------------------------------------------- control flow
def body(g):
    return Graph(g.dice, g.opset, g.floats, g.sizes, g)


def grow(g, least, most):
    """Some nodes of any kind; at least one."""
    add_nodes(g, g.dice.randint(least, most))
    if not g.values:
        raise Unfit("an empty body")


def captured(g, inner):
    """Values of the graph and those around it that the body uses."""
    used = {n for node in every_node(inner.nodes) for n in node.input} | set(inner.infos)
    return [v for v in g.visible() if v.name in used]


def every_node(nodes):
    for node in nodes:
        yield node
        for a in node.attribute:
            if a.HasField("g"):
                yield from every_node(a.g.node)


NESTED = 2


def depth(g):
    return 1 + depth(g.outer) if g.outer else 0


@kind(2)
def if_(g):
    if depth(g) >= NESTED:
        raise Unfit("deep")
    condition = some(g, ("bool",), 0, 0, accept=lambda v: True) if chance(g, 0.3) else g.fresh("bool", ())
    then, other = body(g), body(g)
    grow(then, 1, 4), grow(other, 1, 4)
    result = g.dice.choice(then.values)
    same = [v for v in other.values if v.dtype == result.dtype and v.rank == result.rank]
    if same:
        second = g.dice.choice(same)
    else:
        second = other.one("Identity", [other.fresh(result.dtype, result.shapes)])
    g.add("If", [condition], 1, captured=captured(g, then) + captured(g, other),
          then_branch=then.proto("then", [result]), else_branch=other.proto("else", [second]))


@kind(2)
def loop(g):
    if depth(g) >= NESTED:
        raise Unfit("deep")
    start = some(g, g.floats + ("int64",), 0, 4)
    inner = body(g)
    count = len(g.sizes)
    at, keep = (Value(inner.name("b"), [np.array(a)] * count) for a in (np.int64(0), np.bool_(True)))
    state = Value(inner.name("b"), start.of, start.shadows)
    inner.values += [at, keep, state]
    grow(inner, 1, 5)
    made = inner.values[3:]
    same = [v for v in made if v.dtype == state.dtype and v.shapes == state.shapes]
    after = g.dice.choice(same) if same else inner.one("Identity", [state])
    scans = g.dice.sample(made, g.dice.randint(0, min(2, len(made))))
    scans = [inner.one("Identity", [s]) for s in scans]
    trips = g.fresh("int64", (), 0, 4)
    again = inner.one("Identity", [keep])
    if chance(g, 0.3):
        again = inner.one("Less", [at, inner.ints(g.dice.randint(0, 3))])
    graph = inner.proto("body", [again, after, *scans], inputs=[at, keep, state])
    condition = g.fresh("bool", ()) if chance(g, 0.3) else None
    # Without a condition the reference evaluator makes no turn.
    g.add("Loop", [trips, condition, start], 1 + len(scans), captured=captured(g, inner), by_runtime=condition is None,
          body=graph)


@kind(2)
def rows_in_loop(g):
    """A loop that carries two values and replaces rows of them; it reads them before, between and after."""
    if depth(g) >= NESTED or g.opset < 13:
        raise Unfit("deep")
    first = some(g, g.floats, 2, 3, accept=lambda v: all(0 not in s for s in v.shapes))
    starts = [first, g.one("Neg", [first])]
    inner = body(g)
    count = len(g.sizes)
    at, keep = (Value(inner.name("b"), [np.array(a)] * count) for a in (np.int64(1), np.bool_(True)))
    states = [Value(inner.name("b"), s.of, s.shadows) for s in starts]
    inner.values += [at, keep, *states]
    rows = inner.one("Gather", [inner.one("Shape", [states[0]]), inner.ints(0)])
    place = inner.one("Reshape", [inner.one("Mod", [at, rows]), inner.ints([1, 1])])
    made, newest = list(states), list(states)
    for _ in range(g.dice.randint(1, 4)):
        row = inner.one("Gather", [g.dice.choice(made), inner.ints([0])])
        which = g.dice.randint(0, 1)
        newest[which] = inner.one("ScatterND", [newest[which], place, inner.one("Sigmoid", [row])])
        if chance(g, 0.4):
            newest[which] = inner.one("Add", [newest[which], g.dice.choice(made)])
        made.append(newest[which])
    if chance(g, 0.2):
        newest.reverse()
    scans = [inner.one("Identity", [g.dice.choice(made)]) for _ in range(g.dice.randint(0, 1))]
    again = inner.one("Identity", [keep])
    newest = [inner.one("Identity", [n]) if n in states else n for n in newest]
    graph = inner.proto("body", [again, *newest, *scans], inputs=[at, keep, *states])
    g.add("Loop", [g.fresh("int64", (), 0, 4), g.fresh("bool", ()), *starts], 2 + len(scans), captured=captured(g, inner),
          by_runtime=True, body=graph)


@kind(1)
def scan(g):
    if depth(g) >= NESTED or g.opset < 9:
        raise Unfit("deep")
    v = some(g, g.floats, 2, 4, accept=lambda v: v.rank >= 2 and all(s[0] for s in v.shapes))
    inner = body(g)
    state_at = [s[1:] for s in v.shapes]
    start = g.fresh(v.dtype, state_at)
    state = Value(inner.name("b"), start.of, start.shadows)
    row = Value(inner.name("b"), [a[0] for a in v.of], [[s[0] for s in k] for k in v.shadows])
    inner.values += [state, row]
    first = inner.one(g.dice.choice(("Add", "Max", "Sub", "Mul")) if g.opset >= 8 else "Add", [state, row])
    grow(inner, 0, 3)
    made = [x for x in inner.values[2:] if x.dtype == v.dtype and x.shapes == state.shapes]
    after = g.dice.choice(made or [first])
    out = inner.one("Identity", [g.dice.choice(inner.values[2:])])
    again = inner.one("Identity", [after])
    graph = inner.proto("body", [again, out], inputs=[state, row])
    g.add("Scan", [start, v], 2, captured=captured(g, inner), body=graph, num_scan_inputs=1,
          **maybe(g, {"scan_input_directions": [1], "scan_output_directions": [1]}, 0.3))
