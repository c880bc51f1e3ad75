"""Layers of test/streams.py whose recurrence is a Loop over the samples, as exporters of scripted modules and of TensorFlow write
it. Each maps n.x, of [1, channels, T], to a causal function of it."""
import numpy as np
from onnx import TensorProto, helper

F32, I32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL


def info(name, kind=F32, shape=()):
    return helper.make_tensor_value_info(name, kind, list(shape))


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], **attributes)


def size(n, x, axis):
    return n.add("Gather", n.add("Shape", x), n.constant(np.int64(axis)))


def cell(n, x="xt"):
    """h = tanh(x W + h U), of [1, channels]."""
    w, u = n.weight(n.channels, n.channels), n.weight(n.channels, n.channels)
    return [node("MatMul", [x, w], "xw"), node("MatMul", ["h", u], "hu"), node("Add", ["xw", "hu"], "sum"), node("Tanh", ["sum"], "h_next")]


def zeros(n):
    return n.constant(np.zeros((1, n.channels), np.float32))


def loop(n, nodes, trips, states, outputs, condition="", keep=None, results=None):
    """states: (name, what follows it, initial value, element type, shape); outputs: names of results of each iteration."""
    keep = keep or node("Identity", ["c_in"], "c_out")
    body = helper.make_graph([*nodes, keep], "body",
                             [info("t", I64), info("c_in", BOOL)] + [s[3] if hasattr(s[3], "name") else info(s[0], s[3], s[4]) for s in states],
                             [info("c_out", BOOL)] + [helper.make_empty_tensor_value_info(s[1]) for s in states] +
                             [helper.make_empty_tensor_value_info(o) for o in outputs])
    for v in body.output[1:]:
        v.type.tensor_type.elem_type = F32
    for s, v in zip(states, body.output[1:]):
        if hasattr(s[3], "name"):
            v.type.CopyFrom(s[3].type)
        else:
            v.type.tensor_type.elem_type = s[3]
    made = n.add("Loop", trips, condition, *[s[2] for s in states], outputs=len(states) + len(outputs), body=body)
    return made if isinstance(made, list) else [made]


def gathered(n, trips=None):
    """for t in range(T): h = cell(x[:, t], h); y.append(h): a scan output."""
    x = n.add("Transpose", n.x, perm=[0, 2, 1])
    nodes = [node("Gather", [x, "t"], "xt", axis=1), *cell(n), node("Relu", ["h_next"], "y")]
    _, y = loop(n, nodes, trips or size(n, x, 1), [("h", "h_next", zeros(n), F32, (1, n.channels))], ["y"], n.constant(np.array(True)))
    n.x = n.add("Transpose", y, perm=[1, 2, 0])


def layered(n):
    """for i in range(3): x = relu(conv(x, weights[i])): a loop over layers, not over samples."""
    c = n.channels
    weights = n.weight(3, c, c, 3)
    nodes = [node("Gather", [weights, "t"], "w"), node("Conv", ["s", "w"], "v", pads=[2, 0]), node("Relu", ["v"], "s_next")]
    n.x, = loop(n, nodes, n.constant(np.array(3)), [("s", "s_next", n.x, F32, (1, c, None))], [], n.constant(np.array(True)))


def sequence_info(name):
    v = helper.make_tensor_sequence_value_info(name, F32, None)
    return v


def listed(n, new_axis=1):
    """inputs = x.unbind(0); for i in range(len(inputs)): h = cell(inputs[i], h); outputs += [h]; torch.stack(outputs, 2), or cat"""
    x = n.add("Transpose", n.x, perm=[2, 0, 1])
    samples = n.add("SplitToSequence", x, axis=0, keepdims=0)
    after = "h_next" if new_axis else "row"
    nodes = [node("SequenceAt", [samples, "t"], "xt"), *cell(n)]
    if not new_axis:
        nodes.append(node("Unsqueeze", ["h_next", n.ints(2)], "row"))
    nodes += [node("SequenceInsert", ["list", after], "list_next"), node("Cast", [n.constant(np.array(1))], "c_out", to=BOOL)]
    list_, _ = loop(n, nodes[:-1], n.add("SequenceLength", samples),
                    [("list", "list_next", n.add("SequenceEmpty", dtype=F32), sequence_info("list"), ()),
                     ("h", "h_next", zeros(n), F32, (1, n.channels))], [], n.constant(np.array(True)), keep=nodes[-1])
    n.x = n.add("ConcatFromSequence", list_, axis=2, new_axis=new_axis)


def joined(n):
    listed(n, 0)


def smoothed(n):
    """m = x[:, :, 0]; all = [m]; for t in range(1, T): m = 0.9 * m + 0.1 * x[:, :, t]; all += [m]; torch.stack(all, 2)"""
    first = n.add("Gather", n.x, n.constant(np.int64(0)), axis=2)
    nodes = [node("Add", ["t", n.constant(np.int64(1))], "at"), node("Gather", [n.x, "at"], "xt", axis=2),
             node("Mul", ["m", n.constant(np.float32(0.9))], "old"), node("Mul", ["xt", n.constant(np.float32(0.1))], "new"),
             node("Add", ["old", "new"], "m_next"), node("SequenceInsert", ["list", "m_next"], "list_next")]
    list_, _ = loop(n, nodes, n.add("Sub", size(n, n.x, 2), n.constant(np.int64(1))),
                    [("list", "list_next", n.add("SequenceConstruct", first), sequence_info("list"), ()), ("m", "m_next", first, F32, (1, n.channels))],
                    [], n.constant(np.array(True)), keep=node("Cast", [n.constant(np.array(1))], "c_out", to=BOOL))
    n.x = n.add("ConcatFromSequence", list_, axis=2, new_axis=1)


def counted(n):
    """while i < T, with a counter and a limit among the states, of samples as TensorFlow's lists have them."""
    x = n.add("Transpose", n.x, perm=[2, 0, 1])
    length = n.add("Cast", size(n, x, 0), to=I32)
    first = n.add("Less", n.constant(np.int32(0)), length)
    nodes = [node("Unsqueeze", ["i", n.ints(0)], "at"), node("Gather", ["list", "at"], "row"), node("Squeeze", ["row", n.ints(0)], "xt"), *cell(n),
             node("Add", ["i", n.constant(np.int32(1))], "i_next"), node("Less", ["i_next", "limit"], "below"),
             node("Identity", ["limit"], "limit_next"), node("Identity", ["list"], "list_next"), node("Identity", ["h_next"], "y")]
    made = loop(n, nodes, n.constant(np.int64(2**63 - 1)),
                [("i", "i_next", n.constant(np.int32(0)), I32, ()), ("limit", "limit_next", length, I32, ()),
                 ("list", "list_next", x, F32, ("t", 1, n.channels)), ("h", "h_next", zeros(n), F32, (1, n.channels))], ["y"], first,
                keep=node("And", ["below", "c_in"], "c_out"))
    n.x = n.add("Transpose", made[-1], perm=[1, 2, 0])


def counters(n):
    """A counter for each channel, each with a start of its own."""
    x = n.add("Transpose", n.x, perm=[2, 0, 1])
    nodes = [node("Gather", [x, "t"], "xt"), *cell(n), node("Add", ["k", n.constant(np.int64(1))], "k_next"), node("Cast", ["k"], "place", to=F32),
             node("Mul", ["h_next", "place"], "y")]
    made = loop(n, nodes, size(n, x, 0), [("k", "k_next", n.ints(*range(n.channels)), I64, (n.channels,)), ("h", "h_next", zeros(n), F32, (1, n.channels))],
                ["y"])
    n.x = n.add("Transpose", made[-1], perm=[1, 2, 0])


def sliced_in_body(n):
    """x[:, :, t:t + 1] of a transposition and a product that the body repeats; every third sample begins anew."""
    w = n.weight(n.channels, n.channels)
    nodes = [node("Transpose", [n.x], "xs", perm=[0, 2, 1]), node("MatMul", ["xs", w], "xp"), node("Add", ["t", n.constant(np.int64(1))], "end"),
             node("Unsqueeze", ["t", n.ints(0)], "from"), node("Unsqueeze", ["end", n.ints(0)], "to"),
             node("Slice", ["xp", "from", "to", n.ints(1)], "row"), node("Squeeze", ["row", n.ints(1)], "xt"), *cell(n),
             node("Mod", ["t", n.constant(np.int64(3))], "place"), node("Equal", ["place", n.constant(np.int64(2))], "ends"),
             node("Where", ["ends", zeros(n), "h_next"], "h_new"), node("Identity", ["h_next"], "y")]
    _, y = loop(n, nodes, size(n, n.x, 2), [("h", "h_new", zeros(n), F32, (1, n.channels))], ["y"])
    n.x = n.add("Transpose", y, perm=[1, 2, 0])


def with_previous(n):
    """for t in range(1, T + 1): cell(x[t] - x[t - 1], h), where x has a sample of zeros before the first one."""
    x = n.add("Transpose", n.add("Pad", n.x, n.ints(0, 0, 1, 0, 0, 0)), perm=[2, 0, 1])
    one = n.constant(np.int64(1))
    nodes = [node("Add", ["t", one], "now"), node("Gather", [x, "now"], "a"), node("Gather", [x, "t"], "b"), node("Sub", ["a", "b"], "xt"), *cell(n),
             node("Identity", ["h_next"], "y")]
    _, y = loop(n, nodes, n.add("Sub", size(n, x, 0), one), [("h", "h_next", zeros(n), F32, (1, n.channels))], ["y"])
    n.x = n.add("Transpose", y, perm=[1, 2, 0])


def gathered_ahead(n):
    """x[t + 1] in iteration t."""
    one = n.constant(np.int64(1))
    nodes = [node("Add", ["t", one], "now"), node("Gather", [n.x, "now"], "xt", axis=2), *cell(n), node("Identity", ["h_next"], "y")]
    _, y = loop(n, nodes, n.add("Sub", size(n, n.x, 2), one), [("h", "h_next", zeros(n), F32, (1, n.channels))], ["y"])
    n.x = n.add("Transpose", y, perm=[1, 2, 0])


def gathered_at(n, *place):
    """x at a place computed from t and T by these nodes, whose last result is "at"."""
    length = size(n, n.x, 2)
    nodes = [*(node(op, [{"T": length, "1": n.constant(np.int64(1)), "2": n.constant(np.int64(2))}.get(i, i) for i in inputs], out) for op, inputs, out in place),
             node("Gather", [n.x, "at"], "xt", axis=2), *cell(n), node("Identity", ["h_next"], "y")]
    _, y = loop(n, nodes, length, [("h", "h_next", zeros(n), F32, (1, n.channels))], ["y"])
    n.x = n.add("Transpose", y, perm=[1, 2, 0])


def backwards(n):
    gathered_at(n, ("Sub", "T1", "last"), ("Sub", ("last", "t"), "at"))


def before(n):
    gathered_at(n, ("Sub", "t1", "at"))


def every_other(n):
    gathered_at(n, ("Div", "t2", "at"))


def until(n):
    """Ends when a state is large."""
    x = n.add("Transpose", n.x, perm=[2, 0, 1])
    nodes = [node("Gather", [x, "t"], "xt"), *cell(n), node("ReduceMax", ["h_next"], "most", keepdims=0), node("Identity", ["h_next"], "y")]
    _, y = loop(n, nodes, size(n, x, 0), [("h", "h_next", zeros(n), F32, (1, n.channels))], ["y"], n.constant(np.array(True)),
                keep=node("Less", ["most", n.constant(np.float32(2))], "c_out"))
    n.x = n.add("Transpose", y, perm=[1, 2, 0])


def growing(n):
    """A state to which every iteration adds a row, as a cache."""
    x = n.add("Transpose", n.x, perm=[2, 0, 1])
    nodes = [node("Gather", [x, "t"], "xt"), node("Concat", ["h", "xt"], "h_next", axis=0), node("ReduceSum", ["h_next", n.ints(0)], "y")]
    _, y = loop(n, nodes, size(n, x, 0), [("h", "h_next", zeros(n), F32, (None, n.channels))], ["y"])
    n.x = n.add("Transpose", y, perm=[1, 2, 0])


def last_of_loop(n):
    """The state after the last sample."""
    nodes = [node("Gather", [n.x, "t"], "xt", axis=2), *cell(n)]
    n.x, = loop(n, nodes, size(n, n.x, 2), [("h", "h_next", zeros(n), F32, (1, n.channels))], [])


LOOPS = [smoothed, layered, gathered, listed, joined, counted, counters, sliced_in_body, with_previous]
REFUSED = [(backwards, "reads the signal backwards"), (before, "begins with samples from the end of the signal"),
           (every_other, "reads samples at computed positions"), (until, "ends under a condition"), (growing, "a state whose size changes")]
