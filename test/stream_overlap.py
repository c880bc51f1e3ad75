"""Layers of test/streams.py whose frames are added where they overlap, as inverse transforms and decoders add them, and frames whose
places are constants. Each maps n.x, of [1, channels, T], to a causal function of it."""
import numpy as np

from stream_edges import average

LONG = np.iinfo(np.int64).max
HOP, FRAME = 2, 5


def frames(n, channels):
    """A frame of FRAME samples, of so many channels, for every HOP samples: [1, channels * FRAME, T / HOP]."""
    return n.add("Conv", n.x, n.weight(channels * FRAME, n.channels, 4), strides=[HOP], pads=[4 - HOP, 0])


def length_of(n, x, axis=2):
    return n.add("Slice", n.add("Shape", x), n.ints(axis), n.ints(axis + 1))


def cut(n, x, samples):
    """Frames begin with the first sample; what they have of samples after the last one is cut off."""
    n.x = n.add("Slice", x, n.ints(0), n.ints(-samples), n.ints(2))
    average(n)


def after_frames(n, count):
    """The end of the last of `count` frames."""
    return n.add("Add", n.add("Mul", count, n.ints(HOP)), n.ints(FRAME - HOP))


def fold(n, size, **attributes):
    x = frames(n, n.channels)
    return n.add("Col2Im", x, size(x), n.ints(1, FRAME), strides=[1, HOP], **attributes)


def folded(n):
    """torch's fold of one row."""
    x = fold(n, lambda x: n.add("Concat", n.ints(1), after_frames(n, length_of(n, x)), axis=0))
    cut(n, n.add("Squeeze", x, n.ints(2)), FRAME - HOP)


def folded_inside(n):
    """The pads cut off the first two samples, and the last one; the channels are rows of the image."""
    x = n.add("Conv", n.x, n.weight(n.channels * FRAME, n.channels, 4), strides=[HOP], pads=[4 - HOP, 0])
    size = n.add("Concat", n.add("Sub", after_frames(n, length_of(n, x)), n.ints(3)), n.ints(n.channels), axis=0)
    x = n.add("Col2Im", x, size, n.ints(FRAME, n.channels), strides=[HOP, 1], pads=[1, 0, 2, 0])
    x = n.add("Transpose", n.add("Squeeze", x, n.ints(1)), perm=[0, 2, 1])
    n.x = n.add("Pad", x, n.ints(0, 0, 1, 0, 0, 0))
    average(n)


def scattered_frames(n, order=None):
    """Samples of [1, T / HOP, FRAME, channels] are added to zeros, at places that depend on positions."""
    x = n.add("Reshape", frames(n, n.channels), n.ints(n.channels, FRAME, -1))
    x = n.add("Transpose", x, perm=[2, 1, 0])
    count = length_of(n, x, 0)
    begins = n.add("Mul", n.add("Range", n.constant(np.int64(0)), n.add("Squeeze", count), n.constant(np.int64(1))), n.constant(np.int64(HOP)))
    places = n.add("Add", n.add("Unsqueeze", begins, n.ints(1)), n.constant(np.array(order or range(FRAME))))
    zeros = n.add("ConstantOfShape", n.add("Concat", after_frames(n, count), n.ints(n.channels), axis=0))
    y = n.add("ScatterND", zeros, n.add("Unsqueeze", places, n.ints(2)), x, reduction="add")
    cut(n, n.add("Unsqueeze", n.add("Transpose", y, perm=[1, 0]), n.ints(0)), FRAME - HOP)


def scattered_in_order(n):
    scattered_frames(n, [3, 0, 4, 1, 2])


def resized_to_input(n):
    """To the size that the signal had two layers before."""
    size = n.add("Shape", n.x)
    x = n.add("Conv", n.x, n.weight(n.channels, n.channels, 2), strides=[2], pads=[0, 0])
    n.x = n.add("Resize", x, "", "", size, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")
    average(n)


OVERLAPS = [folded, folded_inside, scattered_frames, scattered_in_order, resized_to_input]


# ---------------------------------------------------------------- with constants for a signal of `length` samples
def baked_fold(n, length):
    cut(n, n.add("Squeeze", fold(n, lambda x: n.ints(1, length + FRAME - HOP)), n.ints(2)), FRAME - HOP)


def baked_scatter(n, length):
    x = n.add("Reshape", n.add("Transpose", frames(n, 1), perm=[0, 2, 1]), n.ints(1, length // HOP * FRAME))
    places = HOP * np.arange(length // HOP)[:, None] + np.arange(FRAME)
    y = n.add("ScatterND", n.constant(np.zeros((length + FRAME - HOP, 1), np.float32)), n.constant(places.reshape(-1, 1)),
              n.add("Transpose", x, perm=[1, 0]), reduction="add")
    cut(n, n.add("Unsqueeze", n.add("Transpose", y, perm=[1, 0]), n.ints(0)), FRAME - HOP)
    n.x = n.add("Mul", n.x, n.weight(1, n.channels, 1))


def baked_frames(n, length):
    """Of four samples, two apart."""
    x = n.add("Pad", n.x, n.ints(0, 0, 2, 0, 0, 0))
    x = n.add("Gather", x, n.constant(2 * np.arange(length // 2)[:, None] + np.arange(4)), axis=2)
    x = n.add("Reshape", n.add("Transpose", x, perm=[0, 2, 1, 3]), n.ints(1, length // 2, 4 * n.channels))
    n.x = n.add("Transpose", n.add("MatMul", x, n.weight(4 * n.channels, n.channels)), perm=[0, 2, 1])
    n.rate *= 2


def baked_zeros(n, length):
    x = n.add("Concat", n.constant(np.zeros((1, 1, length), np.float32)), n.x, axis=1)
    n.x = n.add("Conv", x, n.weight(n.channels, n.channels + 1, 1))


def baked_period(n, length):
    """Weights that repeat every four samples."""
    n.x = n.add("Mul", n.x, n.constant(np.tile(np.array([1, 0.5, -2, 3], np.float32), length // 4)))


def between(n, length, places):
    """Samples between two of the signal, by constant indices and weights."""
    before = np.floor(places).astype(np.int64)
    share = (places - before).astype(np.float32)
    after = np.minimum(before + 1, length - 1)
    before, after = (n.add("Gather", n.x, n.constant(at), axis=2) for at in (before, after))
    n.x = n.add("Add", n.add("Mul", before, n.constant(1 - share)), n.add("Mul", after, n.constant(share)))


def baked_between(n, length):
    """Three times as many, none of them later than the sample of the output."""
    between(n, length, np.maximum(np.arange(3 * length) / 3 - 1, 0))
    n.rate = n.rate / 3


def baked_between_ahead(n, length):
    """As `interpolate` of torch has them."""
    between(n, length, np.maximum((np.arange(2 * length) + 0.5) / 2 - 0.5, 0))


def baked_nearest(n, length):
    n.x = n.add("Gather", n.x, n.constant(np.arange(2 * length) // 2), axis=2)


def baked_crop(n, length):
    """As networks of convolutions without padding have their residuals: the last samples of the input, as many as there are of the output."""
    x = n.add("Pad", n.x, n.ints(0, 0, 3, 0, 0, 0))
    y = n.add("Conv", x, n.weight(n.channels, n.channels, 2))
    x = n.add("Add", y, n.add("Slice", x, n.ints(-length - 2), n.ints(np.iinfo(np.int64).max), n.ints(2), n.ints(1)))
    y = n.add("Conv", x, n.weight(n.channels, n.channels, 3))
    n.x = n.add("Add", y, n.add("Slice", x, n.ints(-length), n.ints(2 * length), n.ints(-1)))


def baked_states(n, length):
    """Recurrent layers over the channels of each sample, whose first states are constants for all samples of the export."""
    x = n.add("Transpose", n.x, perm=[1, 2, 0])
    for op, gates, states, inputs in ("GRU", 3, 1, 1), ("LSTM", 4, 2, 3):
        first = [n.constant(np.tile(n.random.standard_normal((2, 1, 3)).astype(np.float32), (1, length, 1))) for _ in range(states)]
        y = n.add(op, x, n.weight(2, 3 * gates, inputs), n.weight(2, 3 * gates, 3), "", "", *first, hidden_size=3, direction="bidirectional")
        x = n.add("ReduceMean", y, n.ints(1), keepdims=0)
    n.x = n.add("Transpose", n.add("MatMul", x, n.weight(3, 1)), perm=[2, 0, 1])


BAKED = [baked_between, baked_nearest, baked_fold, baked_scatter, baked_frames, baked_zeros, baked_period, baked_crop, baked_states]


# ---------------------------------------------------------------- scores by distance
def relative_scores(n, table=400, pad=True):
    """As Transformer-XL and Conformers have them: products with a table of distances, whose rows are shifted by reshaping."""
    x = n.add("Transpose", n.x, perm=[0, 2, 1])
    q, k, v = (n.add("MatMul", x, n.weight(n.channels, n.channels)) for _ in range(3))
    length = length_of(n, n.x)
    first, last = n.add("Sub", n.ints(table), length), n.add("Add", n.ints(table - 1), length)
    rows = n.add("MatMul", n.add("Slice", n.weight(1, 2 * table - 1, n.channels), first, last, n.ints(1)), n.weight(n.channels, n.channels))
    by_distance = n.add("MatMul", q, n.add("Transpose", rows, perm=[0, 2, 1]))
    if pad:
        shifted = n.add("Pad", by_distance, n.ints(0, 0, 1, 0, 0, 0))
    else:
        shifted = n.add("Concat", n.add("Expand", n.constant(np.float32(0)), n.add("Concat", n.ints(1), length, n.ints(1), axis=0)), by_distance, axis=2)
    shifted = n.add("Reshape", shifted, n.add("Concat", n.ints(1, -1), length, axis=0))
    shifted = n.add("Reshape", n.add("Slice", shifted, n.ints(1), n.ints(LONG), n.ints(1)), n.add("Concat", n.ints(1), length, n.ints(-1), axis=0))
    shifted = n.add("Slice", shifted, n.ints(0), length, n.ints(2))
    scores = n.add("Add", n.add("MatMul", q, n.add("Transpose", k, perm=[0, 2, 1])), shifted)
    places = n.add("Range", n.constant(np.int64(0)), n.add("Squeeze", length), n.constant(np.int64(1)))
    distance = n.add("Sub", n.add("Unsqueeze", places, n.ints(1)), n.add("Unsqueeze", places, n.ints(0)))
    near = n.add("And", n.add("GreaterOrEqual", distance, n.ints(0)), n.add("Less", distance, n.ints(6)))
    weights = n.add("Softmax", n.add("Where", near, scores, n.constant(np.float32(-1e9))), axis=-1)
    n.x = n.add("Add", n.x, n.add("Transpose", n.add("MatMul", weights, v), perm=[0, 2, 1]))


def picked_scores(n, table=60):
    """Products with the distances from -length + 1 on, of which indices pick those of each query."""
    x = n.add("Transpose", n.x, perm=[0, 2, 1])
    q, k, v = (n.add("MatMul", x, n.weight(n.channels, n.channels)) for _ in range(3))
    length, one = length_of(n, n.x), n.constant(np.int64(1))
    by_distance = n.add("MatMul", q, n.add("Slice", n.weight(n.channels, 2 * table - 1), n.add("Sub", n.ints(table), length),
                                           n.add("Add", n.ints(table - 1), length), n.ints(1)))
    places = n.add("Range", n.constant(np.int64(0)), n.add("Squeeze", length), one)
    distance = n.add("Sub", n.add("Unsqueeze", places, n.ints(1)), n.add("Unsqueeze", places, n.ints(0)))
    column = n.add("Sub", n.add("Sub", length, one), distance)
    shifted = n.add("GatherElements", by_distance, n.add("Unsqueeze", column, n.ints(0)), axis=2)
    near = n.add("And", n.add("GreaterOrEqual", distance, n.ints(0)), n.add("Less", distance, n.ints(6)))
    scores = n.add("Add", n.add("MatMul", q, n.add("Transpose", k, perm=[0, 2, 1])), shifted)
    weights = n.add("Softmax", n.add("Where", near, scores, n.constant(np.float32(-1e9))), axis=-1)
    n.x = n.add("Add", n.x, n.add("Transpose", n.add("MatMul", weights, v), perm=[0, 2, 1]))


def relative_scores_joined(n):
    relative_scores(n, table=60, pad=False)


def baked_scores(n, length, heads=2, traced=False):
    """As Conformers exported for one length have them, in several heads; the mask is a constant, too. `traced`: sizes are computed from those of tensors."""
    table, width = n.constant(n.random.standard_normal((1, 2 * length - 1, n.channels)).astype(np.float32)), n.channels // heads
    x = n.add("Transpose", n.x, perm=[0, 2, 1])

    def shape(of, *sizes):
        """None: the rows of a tensor."""
        rows = length_of(n, of, axis=1 if of == x else 2) if traced else n.ints(length)
        return n.add("Concat", *[rows if size is None else n.ints(size) for size in sizes], axis=0)

    def split(x, rows, perm):
        x = n.add("Reshape", n.add("MatMul", x, n.weight(n.channels, n.channels)), shape(x, 1, rows, heads, width))
        return n.add("Transpose", x, perm=perm)
    q, k, v = split(x, None, [0, 2, 1, 3]), split(x, None, [0, 2, 3, 1]), split(x, None, [0, 2, 1, 3])
    scores = n.add("MatMul", n.add("Add", q, n.weight(heads, 1, width)), split(table, 2 * length - 1, [0, 2, 3, 1]))
    if traced:
        shifted = n.add("Pad", scores, n.ints(0, 0, 0, 1, 0, 0, 0, 0))
    else:
        shifted = n.add("Concat", n.constant(np.zeros((1, heads, length, 1), np.float32)), scores, axis=3)
    shifted = n.add("Reshape", shifted, shape(scores, 1, heads, -1, None))
    shifted = n.add("Slice", shifted, n.ints(1), n.ints(LONG), n.ints(2))
    shifted = n.add("Reshape", shifted, n.add("Shape", scores) if traced else n.ints(1, heads, length, 2 * length - 1))
    shifted = n.add("Slice", shifted, n.ints(0), shape(scores, None), n.ints(3))
    scores = n.add("Mul", n.add("Add", n.add("MatMul", q, k), shifted), n.constant(np.float32(width ** -0.5)))
    distance = np.subtract.outer(np.arange(length), np.arange(length))
    scores = n.add("Add", scores, n.constant(np.where((distance >= 0) & (distance < 6), 0, -1e9).astype(np.float32)))
    y = n.add("Transpose", n.add("MatMul", n.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    y = n.add("MatMul", n.add("Reshape", y, shape(x, 1, None, n.channels)), n.weight(n.channels, n.channels))
    n.x = n.add("Add", n.x, n.add("Transpose", y, perm=[0, 2, 1]))


def baked_scores_traced(n, length):
    baked_scores(n, length)
    baked_scores(n, length, traced=True)
