"""Streams (--stream): models that are run sample by sample give what they give for the whole signal. Prints N passed, N failed,
N skipped.

usage: streams.py [--seeds N]   networks of random layers besides those written down here, 12 by default
"""
import argparse
import os
import subprocess
import sys
import tempfile
import wave

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))

import onnxc  # noqa: E402
import stream_edges  # noqa: E402
from stream_edges import EDGES, average, repeat, shrink_linearly, shrink_to_middle, shrink_to_nearest, upsample, upsample_by_many  # noqa: E402
from stream_frames import FRAMES, differences, emphasis, far_differences, frames_apart, frames_behind, from_first, late_first, repeated_first  # noqa: E402
from stream_overlap import BAKED, OVERLAPS, baked_between_ahead, baked_scores, baked_scores_traced, picked_scores, relative_scores, relative_scores_joined  # noqa: E402
from stream_loops import LOOPS, REFUSED, gathered, gathered_ahead, last_of_loop, listed, sliced_in_body  # noqa: E402

F32, LONG = TensorProto.FLOAT, np.iinfo(np.int64).max


class Network:
    """Layers over [1, channels, T], or [1, T, channels] after a transposition."""

    def __init__(self, channels, random):
        self.nodes, self.weights, self.random = [], [], random
        self.x, self.inputs, self.channels = "x", channels, channels
        self.rate = 1  # samples of x to one of self.x

    def weight(self, *shape, dtype=np.float32):
        return self.constant((self.random.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(dtype))

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, f"{op}_{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    def model(self, names=None, length="T", batch=1):
        names = names or [self.x]
        opset = 26 if any(n.op_type == "CumProd" for n in self.nodes) else 20
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", F32, [batch, self.inputs, length])],
                                  [helper.make_empty_tensor_value_info(n) for n in names], self.weights)
        for o in graph.output:
            o.type.tensor_type.elem_type = F32
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


# ---------------------------------------------------------------- layers: each maps n.x to a causal function of it
def pad_then_convolve(n, kernel=3, dilation=2, groups=1):
    shift = (kernel - 1) * dilation
    x = n.add("Pad", n.x, n.ints(0, 0, shift, 0, 0, 0))
    n.x = n.add("Conv", x, n.weight(n.channels, n.channels // groups, kernel), n.weight(n.channels), dilations=[dilation], group=groups)


def convolve_then_cut(n, kernel=3, dilation=1):
    shift = (kernel - 1) * dilation
    x = n.add("Conv", n.x, n.weight(n.channels, n.channels, kernel), dilations=[dilation], pads=[shift, shift])
    n.x = n.add("Slice", x, n.ints(0), n.ints(-shift), n.ints(2))


def convolve_causally(n, kernel=4, stride=1):
    n.x = n.add("Conv", n.x, n.weight(n.channels, n.channels, kernel), n.weight(n.channels), pads=[kernel - 1, 0], strides=[stride])
    n.rate *= stride


def concatenate_ones(n):
    x = n.add("Concat", n.constant(np.ones((1, n.channels, 2), np.float32)), n.x, axis=2)
    n.x = n.add("Conv", x, n.weight(n.channels, n.channels, 3))


def residual(n):
    x = n.x
    pad_then_convolve(n)
    n.x = n.add("Add", n.add("Relu", n.x), x)


def difference(n):
    x = n.add("Slice", n.add("Pad", n.x, n.ints(0, 0, 1, 0, 0, 0)), n.ints(0), n.ints(-1), n.ints(2))
    n.x = n.add("Sub", n.x, x)


def gate(n):
    x = n.add("Conv", n.x, n.weight(2 * n.channels, n.channels, 1))
    a, b = n.add("Split", x, outputs=2, axis=1, num_outputs=2)
    n.x = n.add("Mul", n.add("Tanh", a), n.add("Sigmoid", b))


def normalise_channels(n):
    x = n.add("Transpose", n.x, perm=[0, 2, 1])
    x = n.add("LayerNormalization", x, n.weight(n.channels), n.weight(n.channels))
    x = n.add("Softmax", n.add("MatMul", x, n.weight(n.channels, n.channels)), axis=-1)
    n.x = n.add("Transpose", x, perm=[0, 2, 1])


def batch_normalise(n):
    n.x = n.add("BatchNormalization", n.x, n.weight(n.channels), n.weight(n.channels), n.weight(n.channels),
                n.constant(np.full(n.channels, 0.5, np.float32)))


def largest(n):
    n.x = n.add("MaxPool", n.x, kernel_shape=[3], pads=[2, 0])


def subsample(n):
    n.x = n.add("Slice", n.x, n.ints(0), n.ints(LONG), n.ints(2), n.ints(2))
    n.rate *= 2


def stack_samples(n):
    x = n.add("Transpose", n.x, perm=[0, 2, 1])
    x = n.add("Reshape", x, n.ints(1, -1, 2 * n.channels))
    x = n.add("MatMul", x, n.weight(2 * n.channels, n.channels))
    n.x = n.add("Transpose", x, perm=[0, 2, 1])
    n.rate *= 2


def recurrent(n, op="GRU"):
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[op]
    x = n.add("Transpose", n.x, perm=[2, 0, 1])
    y = n.add(op, x, n.weight(1, gates * n.channels, n.channels), n.weight(1, gates * n.channels, n.channels),
              n.weight(1, 2 * gates * n.channels), hidden_size=n.channels)
    n.x = n.add("Transpose", n.add("Squeeze", y, n.ints(1)), perm=[1, 2, 0])


def lstm(n):
    recurrent(n, "LSTM")


def recurrent_over_channels(n, op="GRU", direction="bidirectional"):
    """Along the channels of each sample: the samples are the batch, and every layer begins with zeros."""
    x = n.add("Transpose", n.x, perm=[1, 2, 0])
    y = n.add(op, x, n.weight(2, 9, 1), n.weight(2, 9, 3), hidden_size=3, direction=direction)
    y = n.add("Transpose", y, perm=[2, 0, 1, 3])
    y = n.add("Reshape", n.add("MatMul", n.add("Reshape", y, n.ints(0, n.channels, 6)), n.weight(6, 1)), n.ints(1, -1, n.channels))
    n.x = n.add("Add", n.x, n.add("Transpose", y, perm=[0, 2, 1]))


def best_channels(n):
    """The sum of the two largest of each sample, and the place of the larger one."""
    values, places = n.add("TopK", n.x, n.ints(2), outputs=2, axis=1)
    first = n.add("Cast", n.add("Slice", places, n.ints(0), n.ints(1), n.ints(1)), to=F32)
    n.x = n.add("Add", n.add("Add", n.x, first), n.add("ReduceSum", values, n.ints(1)))


def shaped_recurrent(n):
    """Zeros of the batch's size as first state, made by the model."""
    batch = n.add("Slice", n.add("Shape", n.x), n.ints(0), n.ints(1))
    zeros = n.add("ConstantOfShape", n.add("Concat", n.ints(1), batch, n.ints(n.channels), axis=0))
    x = n.add("Transpose", n.x, perm=[2, 0, 1])
    y = n.add("RNN", x, n.weight(1, n.channels, n.channels), n.weight(1, n.channels, n.channels), "", "", zeros,
              hidden_size=n.channels)
    n.x = n.add("Transpose", n.add("Squeeze", y, n.ints(1)), perm=[1, 2, 0])


def scanned(n, inputs=1, start=0.0, **attributes):
    """A cell of its own as the body of a Scan over [T, 1, channels]: h = g * h + (1 - g) * tanh(x + h W)."""
    xs = [n.add("Transpose", n.x, perm=[2, 0, 1])]
    if inputs > 1:
        pad_then_convolve(n)
        xs.append(n.add("Transpose", n.x, perm=[2, 0, 1]))
    w, one = n.weight(n.channels, n.channels), n.constant(np.float32(1))
    body = [helper.make_node("Sigmoid", ["x1" if inputs > 1 else "x0"], ["g"]), helper.make_node("MatMul", ["h", w], ["hw"]),
            helper.make_node("Add", ["x0", "hw"], ["sum"]), helper.make_node("Tanh", ["sum"], ["c"]), helper.make_node("Sub", ["c", "h"], ["d"]),
            helper.make_node("Sub", [one, "g"], ["keep"]), helper.make_node("Mul", ["keep", "d"], ["change"]),
            helper.make_node("Add", ["h", "change"], ["next"]), helper.make_node("Identity", ["next"], ["y"]), helper.make_node("Relu", ["next"], ["z"])]
    names = ["h"] + [f"x{i}" for i in range(inputs)]
    graph = helper.make_graph(body, "cell", [helper.make_tensor_value_info(v, F32, [1, n.channels]) for v in names],
                              [helper.make_tensor_value_info(v, F32, [1, n.channels]) for v in ("next", "y", "z")])
    h, y, z = n.add("Scan", n.constant(np.full((1, n.channels), start, np.float32)), *xs, outputs=3, body=graph, num_scan_inputs=inputs,
                    scan_output_axes=[0, 2], **attributes)
    n.x = n.add("Add", n.add("Transpose", y, perm=[1, 2, 0]), z)


def scanned_twice(n):
    scanned(n, inputs=2, start=0.5)


def scanned_backwards(n):
    scanned(n, scan_input_directions=[1])


def scattered(n):
    """One sample of the whole signal, not of every step."""
    n.x = n.add("ScatterElements", n.x, n.constant(np.zeros((1, 1, 1), np.int64)), n.weight(1, 1, 1), axis=1)


def scattered_at_end(n):
    n.x = n.add("ScatterND", n.x, n.constant(np.array([[0, 1, -1]])), n.weight(1))


def running_sum(n, op="CumSum", exclusive=0, axis=2):
    n.x = n.add(op, n.x, n.constant(np.int64(axis)), exclusive=exclusive)


def exclusive_sum(n):
    running_sum(n, exclusive=1, axis=-1)


def running_product(n):
    n.x = n.add("Tanh", n.x)
    running_sum(n, "CumProd")


def product_and_convolution(n):
    """Before the first sample the one has ones, the other zeros."""
    x = n.add("Tanh", n.x)
    product = n.add("CumProd", x, n.constant(np.int64(2)))
    n.x = n.add("Add", n.add("Conv", x, n.weight(n.channels, n.channels, 3), pads=[2, 0]), product)


def running_mean(n):
    """Of all samples so far."""
    length = n.add("Gather", n.add("Shape", n.x), n.constant(np.int64(2)))
    places = n.add("Range", n.constant(np.int64(0)), length, n.constant(np.int64(1)))
    count = n.add("Add", n.add("Cast", places, to=F32), n.constant(np.float32(1)))
    running_sum(n)
    n.x = n.add("Div", n.x, count)


def counted_mean(n):
    """The same by sums of ones, as ones_like(x[:, :1]).cumsum(2) is exported, and of ones in all channels."""
    one = numpy_helper.from_array(np.array([1], np.float32))
    first = n.add("Slice", n.x, n.ints(0), n.ints(1), n.ints(1))
    ones = [n.add("ConstantOfShape", n.add("Shape", x), value=one) for x in (first, n.x)]
    places = [n.add("CumSum", x, n.constant(np.int64(2))) for x in ones]
    running_sum(n)
    n.x = n.add("Add", n.add("Div", n.x, places[0]), n.add("Sqrt", places[1]))


def sum_channels(n):
    """Along another axis, backwards: no state."""
    n.x = n.add("CumSum", n.x, n.constant(np.int64(1)), reverse=1)


def first_positions(n):
    """The first rows of a table of 200, as many as there are samples."""
    length = n.add("Slice", n.add("Shape", n.x), n.ints(2), n.ints(3))
    n.x = n.add("Add", n.x, n.add("Slice", n.weight(1, n.channels, 200), n.ints(0), length, n.ints(2)))


def reshape_by_shape(n):
    length = n.add("Slice", n.add("Shape", n.x), n.ints(2), n.ints(3))
    x = n.add("Reshape", n.x, n.add("Concat", n.ints(1, n.channels // 2, 2), length, axis=0))
    x = n.add("Softmax", x, axis=2)
    n.x = n.add("Reshape", x, n.add("Concat", n.ints(1, n.channels), length, axis=0))


def quantised(n):
    scale, zero = n.constant(np.float32(0.05)), n.constant(np.uint8(120))
    x = n.add("DequantizeLinear", n.add("QuantizeLinear", n.x, scale, zero), scale, zero)
    x = n.add("Pad", x, n.ints(0, 0, 2, 0, 0, 0))
    w = n.add("DequantizeLinear", n.constant(n.random.integers(-127, 127, (n.channels, n.channels, 3)).astype(np.int8)),
              n.constant(np.float32(0.01)))
    x = n.add("Conv", x, w)
    n.x = n.add("DequantizeLinear", n.add("QuantizeLinear", x, scale, zero), scale, zero)


def quantised_causally(n, zero=np.int8(-128), dilation=1):
    """Bytes between layers, with a zero point, which is what precedes the signal."""
    scale, zero = n.constant(np.float32(0.05)), n.constant(zero)
    x = n.add("DequantizeLinear", n.add("QuantizeLinear", n.x, scale, zero), scale, zero)
    w = n.add("DequantizeLinear", n.constant(n.random.integers(-127, 127, (n.channels, n.channels, 3)).astype(np.int8)),
              n.constant(np.float32(0.01)))
    n.x = n.add("Relu", n.add("Conv", x, w, dilations=[dilation], pads=[2 * dilation, 0]))


def pad_with_value(n):
    x = n.add("Pad", n.x, n.ints(0, 0, 2, 0, 0, 0), n.constant(np.float32(0.75)))
    n.x = n.add("Conv", n.add("Relu", x), n.weight(n.channels, n.channels, 3))


def attention(n, mask, heads=2, width=2):
    """Two heads over the samples that the mask allows; mask(n, positions of queries, of keys) adds to scores."""
    x = n.add("Transpose", n.x, perm=[0, 2, 1])
    split, order = n.ints(1, -1, heads, width), [0, 2, 1, 3]
    q, k, v = (n.add("Transpose", n.add("Reshape", n.add("MatMul", x, n.weight(n.channels, heads * width)), split), perm=order)
               for _ in range(3))
    scores = n.add("MatMul", q, n.add("Transpose", k, perm=[0, 1, 3, 2]))
    length = n.add("Gather", n.add("Shape", n.x), n.constant(np.int64(2)))
    places = n.add("Range", n.constant(np.int64(0)), length, n.constant(np.int64(1)))
    weights = n.add("Softmax", mask(n, scores, n.add("Unsqueeze", places, n.ints(1)), n.add("Unsqueeze", places, n.ints(0))), axis=-1)
    y = n.add("Reshape", n.add("Transpose", n.add("MatMul", weights, v), perm=order), n.ints(1, -1, heads * width))
    y = n.add("MatMul", y, n.weight(heads * width, n.channels))
    n.x = n.add("Add", n.add("Transpose", y, perm=[0, 2, 1]), n.x)


def last_samples(n, scores, queries, keys, count=6):
    """Where-s with -inf, as masked_fill is exported."""
    distance = n.add("Sub", queries, keys)
    allowed = n.add("And", n.add("GreaterOrEqual", distance, n.ints(0)), n.add("Less", distance, n.ints(count)))
    return n.add("Where", n.add("Not", allowed), n.constant(np.float32(-np.inf)), scores)


def added_mask(n, scores, queries, keys):
    """A mask of zeros and large negative numbers."""
    late = n.add("Cast", n.add("Or", n.add("Greater", keys, queries), n.add("Less", n.add("Add", keys, n.ints(4)), queries)), to=F32)
    return n.add("Add", scores, n.add("Mul", late, n.constant(np.float32(np.finfo(np.float32).min))))


def behind_mask(n, scores, queries, keys):
    """Two samples ahead."""
    distance = n.add("Abs", n.add("Sub", queries, keys))
    return n.add("Where", n.add("LessOrEqual", distance, n.ints(2)), scores, n.constant(np.float32(-np.inf)))


def causal_mask(n, scores, queries, keys):
    return n.add("Where", n.add("LessOrEqual", keys, queries), scores, n.constant(np.float32(-np.inf)))


def triangles(n, scores, queries, keys):
    """tril and triu of ones."""
    length = n.add("Shape", scores)
    size = n.add("Slice", length, n.ints(2), n.ints(4))
    ones = n.add("ConstantOfShape", size, value=numpy_helper.from_array(np.array([1], np.int64)))
    band = n.add("Trilu", n.add("Trilu", ones, n.constant(np.int64(0)), upper=0), n.constant(np.int64(-5)), upper=1)
    return n.add("Where", n.add("Equal", band, n.ints(0)), n.constant(np.float32(-1e9)), scores)


def late_change(n, scores, queries, keys):
    """Other keys from sample 2,000 on."""
    late = n.add("And", n.add("GreaterOrEqual", queries, n.ints(2000)), n.add("Less", keys, queries))
    return last_samples(n, n.add("Where", late, n.constant(np.float32(-np.inf)), scores), queries, keys)


def biased_mask(n, scores, queries, keys):
    """A bias by distance for each head, then a mask."""
    distance = n.add("Sub", queries, keys)
    near = n.add("Min", n.add("Max", n.add("Add", distance, n.ints(8)), n.ints(0)), n.ints(15))
    scores = n.add("Add", scores, n.add("Transpose", n.add("Gather", n.weight(16, 2), near), perm=[2, 0, 1]))
    return last_samples(n, scores, queries, keys)


def blocks_of_four(n, scores, queries, keys):
    """A query sees its own block of four samples up to itself, and the block before."""
    block = [n.add("Div", p, n.ints(4)) for p in (queries, keys)]
    allowed = n.add("And", n.add("GreaterOrEqual", n.add("Add", block[1], n.ints(1)), block[0]), n.add("LessOrEqual", keys, queries))
    return n.add("Where", allowed, scores, n.constant(np.float32(-np.inf)))


def chunks_of_four(n, scores, queries, keys):
    """A query sees all of its own chunk, and the chunk before; scores of positions are added."""
    scores = n.add("Add", scores, n.add("Mul", n.add("Cast", n.add("Sub", queries, keys), to=F32), n.constant(np.float32(0.1))))
    chunk = [n.add("Div", p, n.ints(4)) for p in (queries, keys)]
    allowed = n.add("And", n.add("GreaterOrEqual", n.add("Add", chunk[1], n.ints(1)), chunk[0]), n.add("LessOrEqual", chunk[1], chunk[0]))
    return n.add("Where", allowed, scores, n.constant(np.float32(-np.inf)))


def conformer(n):
    """Attention to the last samples, a causal depthwise convolution, layers of each sample."""
    attention(n, last_samples)
    normalise_channels(n)
    gate(n)
    pad_then_convolve(n, kernel=5, dilation=1, groups=n.channels)
    normalise_channels(n)


def attentions(checks):
    for name, layers, delay in (("last samples", [lambda n: attention(n, last_samples)], 0),
                                ("added mask", [lambda n: attention(n, added_mask)], 0),
                                ("samples ahead", [lambda n: attention(n, behind_mask)], 2),
                                ("triangles", [lambda n: attention(n, triangles)], 0),
                                ("biased", [lambda n: attention(n, biased_mask)], 0),
                                ("blocks", [lambda n: attention(n, blocks_of_four)], 0),
                                ("chunks twice", [lambda n: attention(n, chunks_of_four), lambda n: attention(n, chunks_of_four)], 6),
                                ("by distance", [relative_scores, relative_scores_joined], 0),
                                ("by distance, half the rate", [lambda n: convolve_causally(n, stride=2), relative_scores, picked_scores], 0),
                                ("by distance, samples ahead", [look_ahead, relative_scores], 2),
                                ("after samples ahead", [look_ahead, lambda n: attention(n, last_samples)], 2),
                                ("many samples", [lambda n: attention(n, lambda *a: last_samples(*a, count=30))], 0),
                                ("conformer", [average, conformer, conformer], 0)):
        n = Network(4, np.random.default_rng(4))
        for layer in layers:
            layer(n)
        steps = [4, 8] if name == "chunks twice" else [n.rate, 4, 12]
        agree(checks, f"attention, {name}", n.model(), steps, delay=delay, exact=False)
    for capacity in 48, 70:
        n = Network(4, np.random.default_rng(4))
        attention(n, causal_mask), attention(n, last_samples), attention(n, causal_mask)
        agree(checks, f"attention to {capacity} samples", n.model(), [1, 4, 12], exact=False, more=[f"--stream-capacity={capacity}"])
    n = Network(4, np.random.default_rng(4))
    attention(n, late_change)
    checks.refused("mask that changes", n.model(), ["Where", "depends on positions beyond the first 1024"], options=["--stream=x:2=4"])
    n = Network(4, np.random.default_rng(4))
    relative_scores(n, table=8)
    checks.refused("too few distances", n.model(), ["Slice", "scores of 1024 distances, of which a step needs 2005"], options=["--stream=x:2=2000"])
    for mask in causal_mask, lambda n, scores, queries, keys: scores:
        n = Network(4, np.random.default_rng(4))
        attention(n, mask)
        checks.refused("attention to all samples", n.model(), ["reads the whole signal"], options=["--stream=x:2=4"])


# ---------------------------------------------------------------- layers whose constants are for a signal of LENGTH samples
LENGTH = 48


def baked_reshape(n):
    x = n.add("Reshape", n.x, n.ints(1, n.channels // 2, 2, LENGTH))
    x = n.add("Reshape", n.add("Softmax", x, axis=2), n.ints(0, -1, LENGTH))
    n.x = n.add("Expand", x, n.ints(1, n.channels, LENGTH))


def baked_stack(n):
    x = n.add("Reshape", n.add("Transpose", n.x, perm=[0, 2, 1]), n.ints(LENGTH // 2, 2 * n.channels))
    x = n.add("Reshape", n.add("MatMul", x, n.weight(2 * n.channels, 2 * n.channels)), n.ints(1, LENGTH, n.channels))
    n.x = n.add("Transpose", x, perm=[0, 2, 1])


def baked_slice(n):
    x = n.add("Conv", n.x, n.weight(n.channels, n.channels, 3), pads=[2, 2])
    n.x = n.add("Slice", n.add("Slice", x, n.ints(0), n.ints(LENGTH), n.ints(-1)), n.ints(0), n.ints(99), n.ints(2))


def baked_resize(n):
    x = n.add("Resize", n.x, "", "", n.ints(1, n.channels, 2 * LENGTH), mode="nearest", nearest_mode="floor",
              coordinate_transformation_mode="asymmetric")
    n.x = n.add("AveragePool", x, kernel_shape=[2], strides=[2])


def baked_table(n):
    n.x = n.add("Add", n.add("Mul", n.x, n.weight(n.channels, LENGTH)), n.constant(np.full((1, LENGTH), 0.5, np.float32)))


def baked_counts(n):
    running_sum(n)
    n.x = n.add("Div", n.x, n.constant(np.arange(1, LENGTH + 1, dtype=np.float32)))


def baked_attention(n, mask):
    x = n.add("Transpose", n.x, perm=[2, 0, 1])
    split = n.ints(LENGTH, 2, n.channels // 2)
    q, k, v = (n.add("Transpose", n.add("Reshape", n.add("MatMul", x, n.weight(n.channels, n.channels)), split), perm=[1, 0, 2])
               for _ in range(3))
    scores = n.add("Add", n.add("MatMul", q, n.add("Transpose", k, perm=[0, 2, 1])), n.constant(mask))
    weights = n.add("Softmax", n.add("Reshape", scores, n.ints(1, 2, LENGTH, LENGTH)), axis=-1)
    x = n.add("MatMul", n.add("Reshape", weights, n.ints(2, LENGTH, LENGTH)), v)
    x = n.add("Reshape", n.add("Transpose", x, perm=[1, 0, 2]), n.ints(LENGTH, n.channels))
    x = n.add("Reshape", n.add("Gemm", x, n.weight(n.channels, n.channels)), n.ints(LENGTH, 1, n.channels))
    n.x = n.add("Add", n.add("Transpose", x, perm=[1, 2, 0]), n.x)


def mask_of(allowed):
    q, k = np.ogrid[:LENGTH, :LENGTH]
    return np.where(allowed(q, k), 0, -np.inf).astype(np.float32)


MASKS = {"window": mask_of(lambda q, k: (k <= q) & (q - k < 7)),
         "blocks": mask_of(lambda q, k: (k <= q) & (q // 4 - k // 4 < 2)),
         "biased": (mask_of(lambda q, k: (k <= q) & (q - k < 5)) + np.abs(np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH)))[None]
                    * np.array([0.25, -0.5], np.float32)[:, None, None]).astype(np.float32)}


def baked_loop(n):
    gathered(n, n.constant(np.int64(LENGTH)))


def exports(checks):
    """Models exported for one length, run for it and, where they do not read tables of positions, for another."""
    for layers in ([baked_reshape], [baked_stack], [baked_slice], [baked_resize], [baked_table], [baked_counts], [first_positions], [baked_loop],
                   [baked_slice, baked_reshape, baked_table, baked_stack, baked_counts]):
        for length in LENGTH, "T":
            if length == "T" and not {baked_slice, baked_resize, baked_reshape, baked_loop}.isdisjoint(layers):
                continue  # no size tells which constants are of time
            n = Network(4, np.random.default_rng(6))
            for layer in layers:
                layer(n)
            name = " ".join(layer.__name__ for layer in layers)
            agree(checks, f"{name}, {length}", n.model(length=length), [2, 4, 12], samples=LENGTH)
    for layer in BAKED:
        n = Network(4, np.random.default_rng(6))
        layer(n, LENGTH)
        agree(checks, layer.__name__, n.model(length=LENGTH), [2, 4, 12], samples=LENGTH)
    for name, layers, length, delay in (("", [baked_scores, baked_scores_traced], LENGTH, 0), (", samples ahead", [lambda n, _: look_ahead(n), baked_scores], LENGTH, 2),
                                        (", half the rate", [lambda n, _: convolve_causally(n, stride=2), baked_scores_traced], LENGTH // 2, 0)):
        n = Network(4, np.random.default_rng(6))
        for layer in layers:
            layer(n, length)
        agree(checks, f"scores by distance{name}", n.model(length=LENGTH), [n.rate, 4, 12], samples=LENGTH, delay=delay, exact=False)
    n = Network(4, np.random.default_rng(6))
    baked_between_ahead(n, LENGTH)
    agree(checks, "samples between others", n.model(length=LENGTH), [2, 4, 12], samples=LENGTH, delay=1)
    session = onnxc.InferenceSession(n.model(length=LENGTH), options=["--stream=x:2=12", "--stream-delay=1"])
    ramp = np.arange(4 * LENGTH, dtype=np.float32)[None, None] + np.zeros((1, 4, 1), np.float32)
    got = np.concatenate(streamed(session, ramp, 2, 12, [n.x])[0], 2)[0, 0, 1:]
    want = np.maximum((np.arange(len(got)) + 0.5) / 2 - 0.5, 0)
    checks.check("samples between others, beyond the signal of the export", np.array_equal(got, want), f"{got[:8]}, {np.abs(got - want).max()}")
    for name, mask in MASKS.items():
        for length in LENGTH, "T":
            n = Network(4, np.random.default_rng(6))
            baked_attention(n, mask)
            agree(checks, f"mask {name}, {length}", n.model(length=length), [1, 4, 12], samples=LENGTH, exact=False)
    n = Network(4, np.random.default_rng(6))
    baked_attention(n, n.random.standard_normal((LENGTH, LENGTH)).astype(np.float32))
    checks.refused("mask of noise", n.model(length=LENGTH), ["Add", "48 by 48 samples"], options=["--stream=x:2=4"])
    n = Network(4, np.random.default_rng(6))
    baked_table(n)
    session = onnxc.InferenceSession(n.model(length=LENGTH), options=["--stream=x:2=12"])
    try:
        streamed(session, np.zeros((1, 4, LENGTH + 12), np.float32), 2, 12, [n.x])
        checks.check("end of a table", False, "no error")
    except Exception as error:
        checks.check("end of a table", "out of range" in str(error), error)


LAYERS = [pad_then_convolve, convolve_then_cut, convolve_causally, concatenate_ones, residual, difference, gate, normalise_channels,
          batch_normalise, largest, average, subsample, stack_samples, upsample, upsample_by_many, repeat, shrink_to_nearest, shrink_to_middle, shrink_linearly,
           recurrent, lstm, shaped_recurrent, scanned, scanned_twice, recurrent_over_channels, best_channels,
          reshape_by_shape, quantised, pad_with_value, running_sum, exclusive_sum, running_product, running_mean, counted_mean, sum_channels,
          first_positions, *FRAMES, *LOOPS, *OVERLAPS]


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, good, why=""):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        if not good:
            print(f"FAIL {name}: {why}", flush=True)

    def refused(self, name, model, words, **options):
        try:
            onnxc.InferenceSession(model, **options)
            self.check(name, False, "compiles")
        except Exception as error:  # the package's own classes
            self.check(name, all(w in str(error) for w in words), error)


def streamed(session, x, axis, step, outputs):
    """The outputs of all steps, one after the other."""
    types = {"tensor(float)": "float32", "tensor(double)": "float64"}
    states = {i.name: np.zeros([d if isinstance(d, int) else len(x) for d in i.shape], types.get(i.type, i.type[7:-1]))
              for i in session.get_inputs() if i.name != "x"}
    names = [o.name for o in session.get_outputs()]
    parts = []
    for at in range(0, x.shape[axis] - step + 1, step):
        got = dict(zip(names, session.run(names, {"x": np.take(x, range(at, at + step), axis)} | states)))
        states = {s: got[s + "_next"] for s in states}
        parts.append([got[n] for n in outputs])
    return [list(p) for p in zip(*parts)]


def agree(checks, name, model, steps, axis=2, time=2, delay=0, samples=48, exact=True, batch=1, more=()):
    """`delay`: by how many samples of the output it comes later."""
    data = model.SerializeToString()
    x = np.random.default_rng(5).standard_normal((batch, model.graph.input[0].type.tensor_type.shape.dim[1].dim_value, samples)).astype(np.float32)
    outputs = [o.name for o in model.graph.output]
    whole = onnxc.InferenceSession(data, fp="strict").run(outputs, {"x": x})
    for step in steps:
        try:
            options = {"options": [f"--stream=x:{axis}={step}", "--fp=strict", f"--stream-delay={delay}", *more]}
            session = onnxc.InferenceSession(data, **options)
        except Exception as error:
            checks.check(f"{name}, {step} samples", False, error)
            continue
        for o, parts, want in zip(outputs, streamed(session, x, axis, step, outputs), whole):
            got = np.concatenate(parts, time)
            got = np.take(got, range(delay, got.shape[time]), time)
            n = min(got.shape[time], want.shape[time])
            got, want = np.take(got, range(n), time), np.take(want, range(n), time)
            same = np.array_equal(got, want) if exact else np.allclose(got, want, 1e-5, 1e-6)
            checks.check(f"{name}, {step} samples: {o}", n and same,
                         f"{n} samples, {np.abs(got - want).max() if n else 0} at {np.argwhere(got != want)[:1]}")


def batches(checks):
    """A batch of symbolic size."""
    for layer in pad_then_convolve, pad_with_value, largest, recurrent, residual, average:
        n = Network(4, np.random.default_rng(2))
        layer(n)
        agree(checks, f"batch of {layer.__name__}", n.model(batch="B"), [4], batch=3)


def networks(checks, seeds):
    for layer in LAYERS:
        n = Network(4, np.random.default_rng(1))
        layer(n)
        agree(checks, layer.__name__, n.model(), [n.rate, 4, 12])
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        n = Network(4, random)
        chosen = random.choice(LAYERS, random.integers(3, 8))
        for layer in chosen:
            if n.rate > 4 and layer in (average, frames_apart, subsample, stack_samples, shrink_to_nearest, shrink_to_middle, shrink_linearly, *OVERLAPS):
                continue
            layer(n)
        agree(checks, f"seed {seed}: " + " ".join(layer.__name__ for layer in chosen), n.model(), [n.rate, 2 * n.rate, 24 // n.rate * n.rate],
              samples=96)


def convolve_far(n):
    """A past of 64 samples, and one of 20 of the same values."""
    x = n.x
    pad_then_convolve(n, kernel=3, dilation=32)
    far, n.x = n.x, x
    pad_then_convolve(n, kernel=2, dilation=20)
    n.x = n.add("Add", n.add("Tanh", far), n.x)


def convolve_far_in_rows(n):
    """Over [T, 1, channels]: time is the first axis."""
    x = n.add("Transpose", n.x, perm=[2, 0, 1])
    x = n.add("Pad", x, n.ints(40, 0, 0, 0, 0, 0))
    x = n.add("Add", n.add("Slice", x, n.ints(0), n.ints(-40), n.ints(0)), n.add("Slice", x, n.ints(40), n.ints(LONG), n.ints(0)))
    n.x = n.add("Transpose", x, perm=[1, 2, 0])


def convolve_far_around(n):
    n.x = n.add("Conv", n.x, n.weight(n.channels, n.channels, 3), pads=[32, 32], dilations=[32])


def rings(checks):
    """Long pasts, which stay where they are: each sample is there twice."""
    for layers, delay, batch in (([convolve_far], 0, 1), ([convolve_far], 0, "B"), ([convolve_far, lstm, convolve_far], 0, 1),
                                 ([convolve_far_in_rows], 0, 1), ([convolve_far_around], 32, 1), ([convolve_far_around, convolve_far], 32, 1),
                                 ([average, convolve_far], 0, 1)):
        n = Network(32, np.random.default_rng(8))
        for layer in layers:
            layer(n)
        name = "ring: " + " ".join(layer.__name__ for layer in layers)
        agree(checks, name, n.model(batch=batch), [n.rate, 2 * n.rate], samples=240, delay=delay, batch=2 if batch == "B" else 1)
    n = Network(32, np.random.default_rng(8))
    convolve_far(n)
    for options, want in (([], [[1], [1, 32, 20], [1, 32, 2 * (64 + 2)]]), (["-Os"], [[1, 32, 20], [1, 32, 64]])):
        session = onnxc.InferenceSession(n.model(), options=["--stream=x:2=2", *options])
        shapes = sorted([i.shape for i in session.get_inputs() if i.name != "x"])
        checks.check(f"states of a ring {options}", shapes == want, shapes)


def narrow_states(checks):
    """Of what is dequantised, the bytes are kept."""
    for kind, zero, dilation in (("int8", -128, 1), ("int8", 0, 2), ("uint8", 120, 1), ("int16", 0, 1), ("int8", 0, 60), ("int8", 5, 60)):
        n = Network(24, np.random.default_rng(3))
        for _ in range(2):
            quantised_causally(n, np.array(zero, kind), dilation)
        model, name = n.model(), f"states of {kind}, zero point {zero}, dilation {dilation}"
        model.opset_import[0].version, model.ir_version = 21, 10
        agree(checks, name, model, [1, 4, 5], samples=240)
        session = onnxc.InferenceSession(model, options=["--stream=x:2=4"])
        types = {i.type for i in session.get_inputs() if i.name not in ("x", "stream_steps")}
        checks.check(name, zero and dilation > 1 or types == {f"tensor({kind})"}, types)


def look_ahead(n, kernel=5):
    n.x = n.add("Conv", n.x, n.weight(n.channels, n.channels, kernel), n.weight(n.channels), pads=[kernel // 2, kernel // 2])


def largest_around(n):
    n.x = n.add("MaxPool", n.x, kernel_shape=[3], pads=[1, 1])


def convolve_inner(n):
    """Without padding: output t is of samples t to t + 2."""
    n.x = n.add("Conv", n.x, n.weight(n.channels, n.channels, 3), n.weight(n.channels))


def residual_ahead(n):
    x = n.x
    look_ahead(n, 3)
    n.x = n.add("Add", n.add("Relu", n.x), x)


def delays(checks):
    """Outputs that come later; the results before the first sample that earlier layers compute are not seen by later ones."""
    for layers, delay in (([look_ahead], 2), ([look_ahead, look_ahead], 4), ([look_ahead, largest_around, pad_with_value], 3),
                          ([residual_ahead, residual_ahead], 2), ([convolve_inner, convolve_inner], 4),
                          ([convolve_inner, pad_then_convolve], 2), ([look_ahead, average, largest_around], 2),
                          ([quantised, look_ahead, quantised], 2), ([look_ahead, recurrent], 2), ([look_ahead, lstm, look_ahead, lstm], 4),
                          ([look_ahead, look_ahead, shaped_recurrent], 4), ([look_ahead, scanned], 2), ([look_ahead, recurrent_over_channels], 2), ([look_ahead, scanned_twice, look_ahead, scanned], 4), ([look_ahead, running_sum], 2),
                          ([gathered_ahead], 1), ([look_ahead, listed], 2), ([look_ahead, sliced_in_body], 2), ([gathered_ahead, gathered_ahead, residual], 2),
                          ([look_ahead, exclusive_sum, look_ahead, running_product], 4), ([look_ahead, product_and_convolution], 2), ([concatenate_ones, recurrent], 0),
                          ([look_ahead, concatenate_ones], 2), ([look_ahead, differences], 2), ([look_ahead, far_differences, lstm], 2), ([look_ahead, frames_behind], 0),
                          ([differences, look_ahead, frames_apart], 1), ([emphasis, look_ahead], 2), ([from_first, residual_ahead], 1)):
        n = Network(4, np.random.default_rng(3))
        for layer in layers:
            layer(n)
        name = " ".join(layer.__name__ for layer in layers)
        agree(checks, name, n.model(), [n.rate, 4, 12], delay=delay)
        if delay:
            checks.refused(name, n.model(), ["reads ahead", f"{delay} samples"],
                           options=["--stream=x:2=4", f"--stream-delay={delay - 1}"])
    n = Network(4, np.random.default_rng(3))
    scanned_backwards(n)
    checks.refused("scan backwards", n.model(), ["Scan", "reads the signal backwards"], options=["--stream=x:2=4"])
    for layer, words in (scattered, ["ScatterElements", "at fixed positions"]), (scattered_at_end, ["ScatterND", "at computed positions"]), \
            (late_first, ["Slice", "sample 0 of its input, which is not known after the first step"]):
        n = Network(4, np.random.default_rng(3))
        layer(n)
        checks.refused(layer.__name__, n.model(), words, options=["--stream=x:2=4"])
    for layer, words in REFUSED:
        n = Network(4, np.random.default_rng(3))
        layer(n)
        checks.refused(f"loop {layer.__name__}", n.model(), ["Loop", words], options=["--stream=x:2=4"])


def edges(checks):
    for layers, delay, steps in EDGES:
        n = Network(4, np.random.default_rng(3))
        for layer in layers:
            layer(n)
        agree(checks, " ".join(layer.__name__ for layer in layers), n.model(), steps, delay=delay)
    for layers, words in ((["reflected"], ["sample 4 of its input, which is not known after the first step"]),
                          (["convolve_ahead", "parts_before"], ["Concat", "puts samples before a signal"]),
                          (["interpolated_up_to_100"], ["Min", "depends on the length of the signal"]),
                          (["upsample_aligned"], ["Resize", "depends on the length of the signal"])):
        n = Network(4, np.random.default_rng(3))
        for layer in layers:
            getattr(stream_edges, layer)(n)
        checks.refused(" ".join(layers), n.model(), words, options=["--stream=x:2=4", "--stream-delay=9"])


def last_state(n):
    x = n.add("Transpose", n.x, perm=[2, 0, 1])
    y, h = n.add("GRU", x, n.weight(1, 3 * n.channels, n.channels), n.weight(1, 3 * n.channels, n.channels), outputs=2, hidden_size=n.channels)
    n.nodes[-1].output[0] = ""
    n.x = n.add("MatMul", n.add("Squeeze", h, n.ints(0)), n.weight(n.channels, 3))


def last_sample(n):
    n.x = n.add("Softmax", n.add("Gather", n.x, n.constant(np.int64(-1)), axis=2))


def last_samples_but_one(n):
    n.x = n.add("ReduceMean", n.add("Slice", n.x, n.ints(-6), n.ints(-1), n.ints(2)), n.ints(2), keepdims=0)


def cut_end(n):
    n.x = n.add("Slice", n.x, n.ints(0), n.ints(-2), n.ints(2))


def add_last_state(n):
    x = n.add("Transpose", n.x, perm=[2, 0, 1])
    y, h = n.add("RNN", x, n.weight(1, n.channels, n.channels), n.weight(1, n.channels, n.channels), outputs=2, hidden_size=n.channels)
    n.x = n.add("Add", n.add("Squeeze", y, n.ints(1)), h)


def ends(checks):
    """What is known at the end of the signal: after each step, as if the signal ended with it."""
    for layers in ([last_state], [pad_then_convolve, last_state], [last_sample], [residual, average, last_sample], [last_samples_but_one],
                   [convolve_inner, last_sample], [convolve_inner, last_state], [last_of_loop], [pad_then_convolve, gathered, last_of_loop], [cut_end, last_sample], [concatenate_ones, last_state]):
        n = Network(4, np.random.default_rng(7))
        for layer in layers:
            layer(n)
        name = "end: " + " ".join(layer.__name__ for layer in layers)
        x = np.random.default_rng(5).standard_normal((1, 4, 48)).astype(np.float32)
        whole = onnxc.InferenceSession(n.model(), fp="strict")
        for step in 2, 4, 12:
            try:
                session = onnxc.InferenceSession(n.model(), options=[f"--stream=x:2={step}", "--fp=strict"])
            except Exception as error:
                checks.check(f"{name}, {step} samples", False, error)
                continue
            for k, got in enumerate(streamed(session, x, 2, step, [n.x])[0]):
                if (k + 1) * step < 12:
                    continue  # shorter than what it reads
                want = whole.run([n.x], {"x": x[:, :, :(k + 1) * step]})[0]
                checks.check(f"{name}, {step} samples, step {k}", np.array_equal(got, want), f"{got}, not {want}")
    for layers, words in (([add_last_state], ["Add", "combines samples with what is known at the end"]),
                          ([look_ahead, last_state], ["Conv", "reads ahead", "2 samples after"]),
                          ([look_ahead, last_sample], ["Conv", "reads ahead", "2 samples after"]),
                          ([cut_end, last_state], ["GRU", "an earlier node cuts off"])):
        n = Network(4, np.random.default_rng(7))
        for layer in layers:
            layer(n)
        checks.refused(f"end: {layers[-1].__name__}", n.model(), words, options=["--stream=x:2=4"])


def sample(checks):
    """The program of samples/stream hears all keys on every target, and the levels of its chunks are those of the whole model."""
    folder, keys = os.path.join(ROOT, "samples", "stream"), "0123456789*#ABCD"
    model = onnxc.InferenceSession(os.path.join(folder, "tones.onnx"))
    with tempfile.TemporaryDirectory() as place:
        for kind in "host", "c99", "aarch64":
            command = ["make", "-s", "-C", folder, kind, f"B={place}", f"ONNXC={ROOT}/build/release/onnxc", f"PYTHON={sys.executable}"]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
            checks.check(f"sample, {kind}", ran.returncode == 0 and keys in ran.stdout.split(), ran.stdout + ran.stderr)
            if ran.returncode:
                continue
            with wave.open(f"{place}/{kind}/keys.wav") as sound:
                x = np.frombuffer(sound.readframes(sound.getnframes()), "<i2").astype(np.float32) / 32768
            x = np.pad(x, (0, -len(x) % 160))
            want = model.run(None, {"x": x[None, None]})[0][0]
            got = np.concatenate(np.fromfile(f"{place}/{kind}/levels.bin", np.float32).reshape(-1, *want.shape[:1], 2), 1)
            checks.check(f"sample, {kind}: levels", got.shape == want.shape and np.allclose(got, want, 1e-5, 1e-6), np.abs(got - want).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    arguments = parser.parse_args()
    checks = Checks()
    networks(checks, arguments.seeds)
    delays(checks)
    edges(checks)
    batches(checks)
    rings(checks)
    narrow_states(checks)
    attentions(checks)
    exports(checks)
    ends(checks)
    sample(checks)
    print(f"{checks.passed} passed, {checks.failed} failed, 0 skipped")
    sys.exit(checks.failed > 0)


if __name__ == "__main__":
    main()
