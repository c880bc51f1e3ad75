"""Writes pieces of networks in sizes that networks have, and what ONNX Runtime answers, as folders that `onnxc test` takes.

usage: large_cases.py OUT [SEED]

Most cases of the standard are tiny. Tiles, blocks, fetching ahead, layouts and algorithms depend on whether a tensor fits a
cache: only tensors that do not fit show them. Extents are drawn anew for each seed.
"""
import os
import random
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from case_files import Stamp, write_case

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from networks import Builder  # noqa: E402

PIECES = []


def piece(count):
    def keep(build):
        PIECES.extend((f"{build.__name__}_{i}", build) for i in range(count))
        return build
    return keep


class Piece(Builder):
    """A piece of a network, of extents that `dice` draws."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.dice = random.Random(f"{name} {seed}")
        # Sums of up to thousands of products, in another order, are right to a share of the largest element.
        self.share, self.answers, self.dtype = 2e-5, answers, np.float32
        self.opset = None  # other than the usual
        self.step = 0  # of quantised answers: rounding may fall on either side

    def normal(self, *dims, scale):
        return self.constant((self.random.standard_normal(dims) * scale).astype(self.dtype))

    def values(self, info):
        dims = [d.dim_value for d in info.type.tensor_type.shape.dim]
        if self.dtype == np.uint8:
            return self.random.integers(0, 256, dims).astype(self.dtype)
        return self.random.standard_normal(dims).astype(self.dtype)

    def near(self, middle, step=1):
        """About `middle`, a multiple of step."""
        return self.dice.randint(middle * 3 // 4 // step, middle * 5 // 4 // step) * step

    def prelu(self, x, channels):
        return self.op("PRelu", x, self.constant(self.random.uniform(0, 0.5, (channels, 1, 1)).astype(np.float32)))


# ---------------------------------------------------------------- images
@piece(4)
def inverted_residual(b):
    """As MobileNet's: 1x1 to many channels, 3x3 for each channel, 1x1 back, and the way around."""
    cin, size = b.dice.choice((16, 24, 40)), b.near(100)
    wide, stride = cin * b.dice.choice((4, 6)), b.dice.choice((1, 2))
    x = b.conv(b.input("x", [1, 3, size, b.near(size)]), 3, cin, 3)
    y = b.conv(b.conv(x, cin, wide, 1, act="Relu6"), wide, wide, b.dice.choice((3, 5)), stride, groups=wide, act="Relu6")
    y = b.conv(y, wide, cin, 1, act=None, gain=1.0)
    return b.op("Add", x, y) if stride == 1 else y


@piece(3)
def one_channel_last(b):
    """As Keras' networks of spectra begin: images of one channel, channels last, behind a Transpose."""
    size, wide = b.near(60), b.dice.choice((8, 20, 32))
    x = b.op("Transpose", b.input("x", [b.dice.choice((1, 2)), size, b.near(size), 1]), perm=[0, 3, 1, 2])
    y = b.op("MaxPool", b.conv(x, 1, wide, b.dice.choice((3, 5))), kernel_shape=[2, 2], strides=[2, 2])
    return b.op("Transpose", b.conv(y, wide, b.near(24), 3, b.dice.choice((1, 2))), perm=[0, 2, 3, 1])


@piece(3)
def bottleneck(b):
    """As ResNet-50's: 1x1, 3x3, 1x1, and a 1x1 convolution around them."""
    cin, size, stride = b.near(128, 16), b.near(48), b.dice.choice((1, 2))
    width, batch = cin // b.dice.choice((1, 2)), b.dice.choice((1, 2))
    x = b.conv(b.input("x", [batch, 3, size, size]), 3, cin, 3)
    y = b.conv(b.conv(b.conv(x, cin, width, 1), width, width, 3, stride), width, 2 * cin, 1, act=None)
    return b.op("Relu", b.op("Add", y, b.conv(x, cin, 2 * cin, 1, stride, act=None)))


@piece(3)
def plain_convolutions(b):
    """3x3 over images of any size, then over their half, some in groups, some with holes."""
    c, size = b.near(64, 8), b.near(70)
    x = b.conv(b.input("x", [1, 3, size, b.near(size)]), 3, c, 7, 2)
    x = b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]) if b.dice.random() < 0.5 else x
    x = b.conv(b.conv(x, c, c, 3), c, 2 * c, 3, 2, groups=b.dice.choice((1, 2, 8)))
    return b.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])


@piece(4)
def groups(b):
    """As ResNeXt's and RegNet's blocks: 3x3 in groups of few channels between 1x1; ShuffleNet's 1x1 in groups and its shuffle."""
    inner, outer, many, size = b.dice.choice((4, 8, 12, 16, 24, 40)), b.dice.choice((8, 16, 20)), b.near(6), b.near(40)
    x = b.conv(b.input("x", [b.dice.choice((1, 2)), 3, size, b.near(size)]), 3, inner * many, 1)
    y = b.conv(x, inner * many, outer * many, 3, b.dice.choice((1, 2)), groups=many)
    y = b.conv(y, outer * many, outer * many, 1, groups=many, act=None)
    y = b.op("Reshape", b.op("Reshape", y, b.ints(0, many, outer, -1)), b.ints(0, many * outer, -1, 1))
    y = b.op("Transpose", b.op("Reshape", y, b.ints(0, many, outer, -1)), perm=[0, 2, 1, 3])
    return b.conv(b.op("Reshape", y, b.ints(0, many * outer, -1, 1)), many * outer, 24, 1)


@piece(2)
def speech(b):
    """As wav2vec 2.0's first layers: rows that are normalised as they lie, for a convolution that wants them across."""
    c, n = b.near(40, 4), b.near(3000)
    x = b.op("Conv", b.input("x", [1, 1, n]), b.normal(c, 1, 10, scale=0.3), strides=[5])
    y = b.op("InstanceNormalization", b.op("Reshape", x, b.ints(0, c, -1)), b.normal(c, scale=1.0), b.normal(c, scale=0.1))
    return b.op("Conv", b.gelu(y), b.normal(24, c, 3, scale=(3 * c) ** -0.5), strides=[b.dice.choice((1, 2))])


@piece(2)
def chosen_rows(b):
    """Convolutions over the rows of an image that the data choose: their number is known in the run only."""
    c, size = b.near(80, 8), b.near(48)
    kept = b.op("Greater", b.input("row", [size]), b.number(-1))
    x = b.op("Compress", b.conv(b.input("x", [1, 3, size, size]), 3, c, 3), kept, axis=2)
    return b.conv(b.conv(b.conv(x, c, c, 3), c, 2 * c, 1), 2 * c, c, 3)


@piece(2)
def padded_in_the_run(b):
    """Convolutions of an image with a frame whose width data say."""
    c, size = b.near(48, 8), b.near(40)
    x = b.op("Relu", b.input("x", [1, c, size, size]))
    one = b.op("Cast", b.op("Greater", b.op("ReduceMax", x, keepdims=0), b.number(0)), to=TensorProto.INT64)
    x = b.op("Pad", x, b.op("Mul", b.ints(0, 0, 1, 2, 0, 0, b.dice.randint(-2, 5), 3), one))
    return b.conv(x, c, b.near(40), 3, b.dice.choice((1, 2)))


@piece(2)
def skip(b):
    """As U-Net's: down, up again, and both beside each other."""
    c, size = b.near(32, 4), 2 * b.near(36)
    x = b.conv(b.input("x", [1, 3, size, size]), 3, c, 3)
    y = b.conv(b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), c, 2 * c, 3, act=None)
    y = b.prelu(b.op("InstanceNormalization", y, b.constant(np.ones(2 * c, np.float32)), b.normal(2 * c, scale=0.1)), 2 * c)
    y = b.op("ConvTranspose", y, b.normal(2 * c, c, 2, 2, scale=c ** -0.5), kernel_shape=[2, 2], strides=[2, 2])
    return b.conv(b.op("Concat", x, y, axis=1), 2 * c, c, 3)


@piece(3)
def grown(b):
    """As decoders and generators end: a transposed convolution gives the answer, or what one more operator makes of it,
    seen in another shape or not."""
    c, cout, stride = b.near(48, 8), b.dice.choice((1, 3, 32)), b.dice.choice((2, 2, 3))
    kernel = b.dice.choice((stride, stride + 1, 2 * stride))
    x = b.conv(b.input("x", [b.dice.choice((1, 2)), 3, b.near(40), b.near(48)]), 3, c, 3)
    y = b.op("ConvTranspose", x, b.normal(c, cout, kernel, kernel, scale=c ** -0.5), b.normal(cout, scale=0.1),
             kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[0, kernel // 4] * 2)
    if b.dice.random() < 0.3:
        y = b.op("Softmax", b.op("Reshape", y, b.ints(0, cout, -1)), axis=1)
    return b.op("Tanh", y) if b.dice.random() < 0.5 else y


@piece(4)
def joined(b):
    """As SqueezeNet's and Inception's: several ways through an image, side by side; one of them read elsewhere too."""
    c, size, batch = b.near(24, 8), b.near(40), b.dice.choice((1, 2))
    x = b.conv(b.input("x", [batch, 3, size, b.near(size)]), 3, c, 3)
    one, three = b.near(40), b.near(40)
    ways = [(b.conv(x, c, one, 1), one), (b.conv(x, c, three, 3), three), (b.conv(x, c, 2 * c, 3, groups=c), 2 * c),
            (b.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4), c)]
    b.dice.shuffle(ways)
    ways = ways[:b.dice.choice((2, 3, 4))] + ways[:b.dice.choice((0, 1))]
    y = b.op("Concat", *(way for way, _ in ways), axis=1)
    size = b.dice.choice((1, 3))
    w = b.normal(c, sum(n for _, n in ways), size, size, scale=0.05 / size)
    return b.op("Conv", y, w, b.normal(c, scale=0.1), pads=[size // 2] * 4)


@piece(3)
def dense(b):
    """As DenseNet's and ESRGAN's: every layer reads all before it, with a normalisation or not, and one of them is read elsewhere."""
    c, k, size, plain = b.near(24, 4), b.near(16, 4), b.near(40), b.dice.random() < 0.5
    x = b.conv(b.input("x", [b.dice.choice((1, 2)), 3, size, b.near(size)]), 3, c, 3)
    layers, nested = [x], b.dice.random() < 0.5
    for n in range(b.dice.choice((3, 4))):
        y, wide = x, c + n * k
        if not plain:
            scale = b.constant(b.random.uniform(0.5, 1.5, (wide, 1, 1)).astype(np.float32))
            y = b.conv(b.op("Relu", b.op("Mul", y, scale)), wide, 2 * k, 1)
            wide = 2 * k
        layers.append(b.conv(y, wide, k, 3))
        x = b.op("Concat", *([x, layers[-1]] if nested else layers), axis=1)
    y = b.conv(x, c + len(layers[1:]) * k, k, 1, act=None)
    return b.op("Add", y, layers[2]) if b.dice.random() < 0.5 else y


@piece(3)
def split_and_joined(b):
    """As YOLO's: halves of an image, what becomes of one of them, and all beside each other; pools of pools; grown twofold."""
    h, size = b.near(24, 4), 2 * b.near(20)
    y = b.conv(b.input("x", [1, 3, size, 2 * b.near(20)]), 3, 2 * h, 3)
    parts = b.op("Split", y, b.ints(h, h), outputs=2, axis=1)
    for _ in range(b.dice.choice((1, 2))):
        parts.append(b.op("Add", parts[-1], b.conv(b.conv(parts[-1], h, h, 3), h, h, 3)))
    x = b.conv(b.op("Concat", *parts, axis=1), len(parts) * h, h, 1)
    pools = [b.conv(x, h, h, 3, 2)]
    for _ in range(2):
        pools.append(b.op("MaxPool", pools[-1], kernel_shape=[5, 5], pads=[2] * 4))
    y = b.conv(b.op("Concat", *pools, axis=1), 3 * h, h, 1)
    up = b.op("Resize", y, "", b.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest", nearest_mode="floor",
              coordinate_transformation_mode="asymmetric")
    return b.conv(b.op("Concat", up, x, axis=1), 2 * h, h, b.dice.choice((1, 3)))


@piece(2)
def channels_last(b):
    """As exporters write networks whose channels lie last: a transposition before and after, a Resize between."""
    c, size = b.near(48, 4), b.near(40)
    x = b.op("Transpose", b.input("x", [1, size, size, 3]), perm=[0, 3, 1, 2])
    x = b.conv(x, 3, c, 3, act="Sigmoid")
    x = b.op("Resize", x, "", b.constant(np.array([1, 1, 2, 2], np.float32)), mode=b.dice.choice(("linear", "nearest")))
    return b.op("Transpose", b.conv(x, c, 2 * c, 1), perm=[0, 2, 3, 1])


@piece(2)
def other_ranks(b):
    """Convolutions of one and of three axes."""
    c, ranks = b.near(80, 16), b.dice.choice((1, 3))
    dims = [b.near(1500)] if ranks == 1 else [b.near(10), b.near(20), b.near(20)]
    x = b.input("x", [2, 8, *dims])
    for cin, cout, stride in ((8, c, 1), (c, c, 2)):
        w = b.normal(cout, cin, *[3] * ranks, scale=(2 / cin / 3 ** ranks) ** 0.5)
        x = b.op("Relu", b.op("Conv", x, w, b.normal(cout, scale=0.1), kernel_shape=[3] * ranks, pads=[1] * 2 * ranks,
                              strides=[stride] * ranks))
    return x


# ---------------------------------------------------------------- between elements
def boxes(b, count, size, spread):
    """[count, 4] corners of boxes of up to about `spread` on an image of `size`, some of them partly outside."""
    start = b.op("Mul", b.op("Sigmoid", b.input("corner", [count, 2])), b.number(size))
    return b.op("Concat", start, b.op("Add", start, b.op("Mul", b.op("Abs", b.input("extent", [count, 2])), b.number(spread))), axis=1)


@piece(4)
def pooled_boxes(b):
    """As detectors': boxes of an image's features, which are all the channels at a few places each."""
    c, size, count = b.near(90), b.near(40), b.near(60)
    x = b.input("x", [2, c, size, b.near(size)])
    x = b.conv(x, c, b.near(150), 3) if b.dice.random() < 0.5 else x
    images = b.op("Cast", b.op("Greater", b.input("image", [count]), b.number(0)), to=TensorProto.INT64)
    return b.op("RoiAlign", x, boxes(b, count, 8 * size, 60), images, output_height=7, output_width=b.dice.choice((5, 7)),
                sampling_ratio=b.dice.choice((0, 2)), spatial_scale=1 / 8, mode=b.dice.choice(("avg", "avg", "max")))


@piece(2)
def boxes_that_stay(b):
    """More than the strips hold in which the kept ones lie, some of several classes moved apart as batched_nms does."""
    n, classes = b.near(2000), b.dice.choice((1, 3))
    apart = b.constant((b.random.integers(0, b.dice.choice((1, 20)), (1, n, 1)) * 40).astype(np.float32))
    found = b.op("NonMaxSuppression", b.op("Add", b.input("boxes", [1, n, 4]), apart), b.input("scores", [1, classes, n]),
                 b.ints(b.dice.choice((300, n))), b.number(b.dice.choice((0.1, 0.5))), b.number(-1))
    return b.op("Cast", found, to=TensorProto.FLOAT)


@piece(1)
def largest_in_boxes(b):
    c, size, count = b.near(40), b.near(40), b.near(20)
    rois = b.op("Concat", b.op("Mul", b.input("image", [count, 1]), b.number(0)), boxes(b, count, 8 * size, 60), axis=1)
    return b.op("MaxRoiPool", b.input("x", [1, c, size, size]), rois, pooled_shape=[7, 7], spatial_scale=1 / 8)


@piece(3)
def moved_pixels(b):
    """An image read at places that data say, with all its channels."""
    c, size, batch = b.near(60), b.near(50), b.dice.choice((1, 2))
    grid = b.op("Tanh", b.input("grid", [batch, size, b.near(size), 2]))
    x = b.input("x", [batch, c, size, b.near(size)])
    x = b.conv(x, c, b.near(70), 1) if b.dice.random() < 0.5 else x
    return b.op("GridSample", x, grid, mode=b.dice.choice(("bilinear", "bicubic")), align_corners=b.dice.choice((0, 1)))


@piece(2)
def sampled_points(b):
    """As Deformable DETR's attention: points of several images, weighted and summed, for each head."""
    heads, size, queries, points = b.dice.choice((2, 4)), b.dice.choice((16, 32)), b.near(50), b.dice.choice((2, 4))
    found = []
    for level in range(b.dice.choice((2, 3))):
        side = 16 >> level
        x = b.op("Reshape", b.input(f"x{level}", [1, side * side, heads * size]), b.ints(1, side * side, heads, size))
        x = b.op("Reshape", b.op("Transpose", x, perm=[0, 2, 3, 1]), b.ints(heads, size, side, side))
        at = b.op("Tanh", b.input(f"at{level}", [heads, queries, points, 2]))
        found.append(b.op("GridSample", x, at, mode="bilinear", align_corners=0))
    weights = b.input("weights", [heads, 1, queries, len(found) * points])
    y = b.op("ReduceSum", b.op("Mul", b.op("Concat", *found, axis=3), weights), b.ints(3), keepdims=0)
    return b.op("Transpose", b.op("Reshape", y, b.ints(1, heads * size, queries)), perm=[0, 2, 1])


@piece(2)
def moved_windows(b):
    b.opset = 19
    c, size, count = b.near(40), b.near(30), b.near(40)
    return b.op("DeformConv", b.input("x", [1, c, size, size]), b.normal(count, c, 3, 3, scale=(9 * c) ** -0.5),
                b.input("offset", [1, 18, size, size]), pads=[1] * 4, kernel_shape=[3, 3])


@piece(10)
def repeated_pixels(b):
    """Images that are repeated, mirrored and continued, one way after the other or with arithmetic between."""
    b.opset = 19
    x = b.input("x", [b.dice.choice((1, 2)), b.near(12), b.near(40), b.dice.choice((b.near(40), 64))])
    for _ in range(b.dice.choice((1, 1, 2))):
        kind = b.dice.choice(("Resize", "Tile", "reflect", "edge", "wrap"))
        if kind == "Resize":
            times = [1, 1, b.dice.choice((1, 2, 3)), b.dice.choice((2, 2, 3, 4, 8, 32))]
            x = b.op("Resize", x, "", b.constant(np.array(times, np.float32)), mode="nearest",
                     coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        elif kind == "Tile":
            x = b.op("Tile", x, b.ints(1, 1, b.dice.choice((1, 2)), b.dice.choice((2, 3))))
        else:
            x = b.op("Pad", x, b.ints(0, 0, *(b.dice.randint(-3, 20) for _ in "12"), 0, 0, *(b.dice.randint(-3, 20) for _ in "12")), mode=kind)
        x = b.op("Sigmoid", x) if b.dice.random() < 0.5 else x
    return x


@piece(2)
def grown_to_a_wave(b):
    """As vocoders end: one channel from overlapping windows, many elements for each position."""
    c, stride = b.near(60), b.dice.choice((8, 50, 64, 100))
    kernel, length = stride * b.dice.choice((2, 4)) + b.dice.choice((0, 0, 3)), b.near(40)
    y = b.op("ConvTranspose", b.input("x", [b.dice.choice((1, 2)), c, length]), b.normal(c, 1, kernel, scale=c ** -0.5), b.normal(1, scale=0.1),
             strides=[stride], pads=[b.dice.choice((0, stride // 2, stride))] * 2)
    return b.op("Tanh", y)


@piece(2)
def part_of_the_channels(b):
    """As MambaOut's and InceptionNeXt's: each channel of a part by itself, all of them channels-last."""
    c, part, size = b.near(60), b.dice.choice((16, 24)), b.near(30)
    x = b.linear(b.input("x", [b.dice.choice((1, 2)), size, b.near(30), c]), c, c + part)
    rest, part_of = b.op("Split", x, b.ints(c, part), outputs=2, axis=3)
    y = b.conv(b.op("Transpose", part_of, perm=[0, 3, 1, 2]), part, part, b.dice.choice((3, 7)), groups=part, act=None)
    return b.linear(b.op("Concat", b.gelu(rest), b.op("Transpose", y, perm=[0, 2, 3, 1]), axis=3), c + part, c)


# ---------------------------------------------------------------- rows
@piece(2)
def experts(b):
    """As mixtures of experts: each row times matrices that the data choose, and all rows times one of them."""
    count, rows, n, m = b.dice.choice((4, 6)), b.near(40), b.near(90), b.near(120)
    x = b.input("x", [rows, n])
    scores = b.linear(x, n, count)
    _, best = b.op("TopK", scores, b.ints(2), outputs=2)
    chosen = b.op("Gather", b.normal(count, n, m, scale=n ** -0.5), b.op("Reshape", best, b.ints(-1)))
    wide = b.op("Reshape", b.op("Expand", b.op("Unsqueeze", x, b.ints(1)), b.ints(rows, 2, n)), b.ints(2 * rows, 1, n))
    y = b.op("Reshape", b.op("MatMul", wide, chosen), b.ints(2 * rows, m))
    back = b.op("Gather", b.normal(count, n, m, scale=m ** -0.5), b.op("Reshape", best, b.ints(-1)))
    y = b.op("MatMul", back, b.op("Unsqueeze", b.op("Tanh", y), b.ints(2)))
    one = b.op("Gather", b.normal(count, n, m, scale=n ** -0.5), b.op("Squeeze", b.op("ArgMax", b.op("ReduceSum", scores, b.ints(0), keepdims=0))))
    z = b.op("MatMul", b.op("MatMul", x, one), b.op("Transpose", one, perm=[1, 0]))
    return b.op("Add", b.op("ReduceSum", b.op("Reshape", y, b.ints(rows, 2, n)), b.ints(1), keepdims=0), z)


@piece(3)
def products(b):
    """One behind the other: long sums, few or many rows, extents that no tile divides."""
    k = b.dice.choice((b.near(300), b.near(1400)))
    n, m = b.near(500), b.dice.choice((1, 7, b.near(90), b.near(700)))
    return b.linear(b.op("Tanh", b.linear(b.input("x", [m, k]), k, n)), n, b.near(200))


@piece(4)
def one_row(b):
    """A classifier's: columns that fill no panels, weights that lie either way; a 1x1 convolution of what a pool leaves."""
    c, n = b.near(700, 8), b.near(900)
    x = b.op("GlobalAveragePool", b.input("x", [1, c, 5, 4]))
    x = b.op("Tanh", b.op("Conv", x, b.normal(n, c, 1, 1, scale=c ** -0.5), b.normal(n, scale=0.1)))
    x = b.op("Flatten", x)
    if b.dice.random() < 0.5:
        return b.op("Gemm", x, b.normal(n + 1, n, scale=n ** -0.5), b.normal(n + 1, scale=0.1), transB=1)
    return b.linear(x, n, n + 1)


@piece(3)
def transformer(b):
    """A layer with attention, layer norms in words and GELU."""
    heads, size, length = b.dice.choice((3, 5, 8)), b.dice.choice((24, 32, 64)), b.near(160)
    n = heads * size
    x = b.input("x", [b.dice.choice((1, 2)), length, n])
    x = b.layer_norm(b.op("Add", b.attention(x, length, heads, size), x), n)
    return b.op("Add", b.linear(b.gelu(b.linear(x, n, 4 * n)), 4 * n, n), x)


@piece(2)
def both_inputs(b):
    """Products of two inputs, transposed or not, in batches."""
    batch, m, k, n = b.near(6), b.near(130), b.near(260), b.near(150)
    x, y = b.input("x", [batch, m, k]), b.input("y", [batch, n, k])
    s = b.op("MatMul", x, b.op("Transpose", y, perm=[0, 2, 1]))
    return b.op("MatMul", b.op("Softmax", b.op("Mul", s, b.number(k ** -0.5)), axis=-1), y)


@piece(2)
def recurrent(b):
    n, length, batch, directions = b.near(120), b.near(30), b.dice.choice((1, 3, 8)), b.dice.choice((1, 2))
    kind, gates = b.dice.choice((("LSTM", 4), ("GRU", 3)))
    w, r = (b.normal(directions, gates * n, n, scale=n ** -0.5) for _ in range(2))
    x = b.input("x", [length, batch, n])
    return b.op(kind, x, w, r, b.normal(directions, 2 * gates * n, scale=0.1), outputs=2, hidden_size=n,
                direction="bidirectional" if directions == 2 else "forward")[0]


@piece(2)
def long_rows(b):
    """Reductions over rows and columns that no cache holds."""
    rows, columns = b.near(60), b.near(9000)
    x = b.op("Softmax", b.input("x", [rows, columns]), axis=-1)
    y = b.op("ReduceL2", b.op("Mul", x, b.number(columns)), axes=[b.dice.choice((0, 1))], keepdims=1)
    return b.op("Add", b.op("ReduceMax", x, axes=[1], keepdims=1), b.op("ReduceMean", y, axes=[0, 1], keepdims=1))


@piece(2)
def long_sums(b):
    """What is added up is all of one sign: one sum of everything in turn would be wrong by 2e-5."""
    b.share, b.answers = 3e-6, lambda model, feed: [np.abs(feed["x"]).sum(0, np.float64).astype(np.float32)]
    x = b.op("Abs", b.input("x", [b.near(300_000), b.near(8)]))
    return b.op("ReduceSum", x, b.ints(0), keepdims=0)


@piece(3)
def rows_across(b):
    """Rows whose elements lie far apart."""
    batch, c, size = b.dice.choice((1, 3)), b.near(48, 8), b.near(50)
    x = b.op("Softmax", b.input("x", [batch, c, size, b.near(size)]), axis=1)
    x = b.op("InstanceNormalization", x, b.constant(np.ones(c, np.float32)), b.normal(c, scale=0.1))
    y = b.layer_norm(b.op("Transpose", x, perm=[0, 2, 3, 1]), c)
    return b.op("LpNormalization", b.op("Transpose", y, perm=[0, 3, 1, 2]), axis=1)


# ---------------------------------------------------------------- other types
def in_float64(dtype):
    """Exact answers, rounded to dtype: of the same nodes, which must be few and simple."""
    def evaluate(model, feed):
        wide = onnx.ModelProto()
        wide.CopyFrom(model)
        for t in wide.graph.initializer:
            if t.data_type in (TensorProto.FLOAT16, TensorProto.FLOAT):
                t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))
        for i in (*wide.graph.input, *wide.graph.output):
            i.type.tensor_type.elem_type = TensorProto.DOUBLE
        made = ReferenceEvaluator(wide).run(None, {n: a.astype(np.float64) for n, a in feed.items()})
        return [a.astype(dtype) for a in made]
    return evaluate


@piece(2)
def half(b):
    b.dtype, b.share, b.answers = np.float16, 2e-3, in_float64(np.float16)
    m, k, n = b.near(90), b.near(500), b.near(300)
    x = b.op("MatMul", b.input("x", [m, k], TensorProto.FLOAT16), b.normal(k, n, scale=k ** -0.5))
    return b.op("Relu", b.op("Add", x, b.normal(n, scale=0.1)))


@piece(2)
def half_convolution(b):
    b.dtype, b.share, b.answers = np.float16, 2e-3, in_float64(np.float16)
    c, size = b.near(32, 8), b.near(40)
    x = b.input("x", [1, c, size, size], TensorProto.FLOAT16)
    return b.op("Conv", x, b.normal(2 * c, c, 3, 3, scale=(9 * c) ** -0.5), b.normal(2 * c, scale=0.1), pads=[1] * 4)


@piece(2)
def double(b):
    b.dtype, b.share = np.float64, 1e-13
    k, n = b.near(1200), b.near(150)
    x = b.op("Gemm", b.input("x", [b.near(100), k], TensorProto.DOUBLE), b.normal(n, k, scale=k ** -0.5), b.normal(n, scale=0.1),
             transB=1)
    return b.op("MatMul", x, b.normal(n, b.near(100), scale=n ** -0.5))


@piece(3)
def large_inputs(b):
    """Products with matrices that are inputs, which caches do not hold; some of their rows begin in few sets of a cache."""
    m, k = b.dice.choice((8, b.near(20), b.near(100))), b.near(1100)
    crowded, open_width = b.input("w", [k, 1024]), b.input("z", [1024, b.near(1200)])
    return b.op("MatMul", b.op("Tanh", b.op("MatMul", b.input("x", [m, k]), crowded)), open_width)


@piece(4)
def few_rows(b):
    """Sums along the rows of both operands: products with a transposed input, and distances."""
    m, k, n = b.dice.randint(2, 14), b.near(400), b.near(150)
    y = b.op("Gemm", b.input("x", [m, k]), b.input("w", [n, k]), transB=1)
    y = b.op("Sub", b.op("Unsqueeze", y, b.ints(1)), b.input("z", [1, b.near(60), n]))
    return b.op("ReduceSumSquare", y, axes=[2], keepdims=0)


@piece(2)
def determinants(b):
    n = b.near(25)
    return b.op("Det", b.input("x", [b.near(4), n, n]))


def quantised(b, array, scale, point):
    """scale and zero point of each row, or of all."""
    made = np.clip(np.rint(array / np.reshape(scale, (-1,) + (1,) * (array.ndim - 1))) + point, -128, 127).astype(np.int8)
    return b.op("DequantizeLinear", b.constant(made), b.constant(np.float32(scale)),
                b.constant(np.full(np.shape(scale), point, np.int8)), axis=0)


def through_bytes(b, x, scale, point):
    s, z = b.number(scale), b.constant(np.array(point, np.uint8))
    return b.op("DequantizeLinear", b.op("QuantizeLinear", x, s, z), s, z)


@piece(3)
def quantised_chain(b):
    """As quantising exporters write convolutions: the sums are whole numbers, so the answers differ by a step at most."""
    c, size = b.near(40, 8), b.near(50)
    x = through_bytes(b, b.input("x", [1, c, size, size]), 1 / 32, 128)
    for stride, groups in ((1, 1), (b.dice.choice((1, 2)), b.dice.choice((1, c // 8, c)))):
        w = b.random.standard_normal((c, c // groups, 3, 3)) * (9 * c // groups) ** -0.5
        scales = np.abs(w).max((1, 2, 3)) / 127
        y = b.op("Conv", x, quantised(b, w, scales, 0), pads=[1] * 4, strides=[stride] * 2, group=groups)
        x = through_bytes(b, b.op("Relu", y), 1 / 64, 0)
    b.share, b.step = 0, 1 / 64
    return x


def convolved(b, x, c, to, size, **attributes):
    w = b.random.standard_normal((to, c, size, size)) * (size * size * c) ** -0.5
    return b.op("Conv", x, quantised(b, w, np.abs(w).max((1, 2, 3)) / 127, 0), pads=[size // 2] * 4, **attributes)


@piece(3)
def quantised_small_images(b):
    """Of few positions in a row, with a stride and a residual sum: rows of tiles go across those of the image."""
    c, to, size = b.near(40, 8), b.near(60, 8), b.dice.choice((6, 7, 9))
    x = through_bytes(b, b.input("x", [b.dice.choice((1, 2)), c, 2 * size, 2 * size]), 1 / 32, 128)
    x = through_bytes(b, b.op("Relu", convolved(b, x, c, to, 1, strides=[2, 2])), 1 / 32, 0)
    y = through_bytes(b, convolved(b, x, to, to, 3), 1 / 32, 128)
    b.share, b.step = 0, 1 / 32
    return through_bytes(b, b.op("Relu", b.op("Add", y, x)), 1 / 32, 0)


@piece(3)
def bytes_of_the_run(b):
    """As dynamic quantisation writes convolutions: zero points that only the run knows, around the images as well. Exact."""
    c, size = b.near(40, 8), b.near(50)
    x, b.share = b.input("x", [1, c, size, size]), 0
    for groups in (1, b.dice.choice((1, 2))):
        q, _, zero = b.op("DynamicQuantizeLinear", x, outputs=3)
        w = b.constant(b.random.integers(-127, 128, (c, c // groups, 3, 3)).astype(np.int8))
        y = b.op("ConvInteger", q, w, zero, pads=[1, b.dice.choice((0, 2)), 1, 1], strides=[b.dice.choice((1, 2))] * 2, group=groups)
        x = b.op("Cast", y, to=TensorProto.FLOAT)
    return x


@piece(2)
def whole_numbers(b):
    """uint8 times int8 with zero points: exact."""
    b.share, b.dtype = 0, np.uint8
    k, n = b.near(700), b.near(300)
    w = b.random.integers(-128, 128, (k, n)).astype(np.int8)
    return b.op("MatMulInteger", b.input("x", [b.near(60), k], TensorProto.UINT8), b.constant(w), b.constant(np.array(131, np.uint8)),
                b.constant(b.random.integers(-4, 4, n).astype(np.int8)))


# ---------------------------------------------------------------- cases
def answers(model, feed):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)


def write_piece(folder, name, build, seed):
    b = Piece(name, seed)
    model = b.model(build(b))
    if b.opset:
        model.opset_import[0].version = b.opset
    for o in model.graph.output:
        o.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(np.int32 if b.dtype == np.uint8 else b.dtype))
    feed = {i.name: b.values(i) for i in b.inputs}
    outputs = b.answers(model, feed)
    write_case(folder, model, [(list(feed.values()), outputs)], rtol=0,
               atol=max(b.share * max(float(np.abs(o).max()) for o in outputs), 1.01 * b.step))


def main():
    out, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    stamp = Stamp(out, __file__)
    if stamp.fresh() and seed == 0:
        return
    stamp.begin()
    for name, build in PIECES:
        write_piece(os.path.join(out, name), name, build, seed)
    if seed == 0:
        stamp.done()
    print(len(PIECES), "models")


if __name__ == "__main__":
    main()
