"""Layers of test/streams.py that resize the signal, or pad it with samples of its own. Each maps n.x, of [1, channels, T], to a function of it."""
import numpy as np
from onnx import TensorProto

LONG = np.iinfo(np.int64).max


def average(n):
    n.x = n.add("AveragePool", n.x, kernel_shape=[2], strides=[2])
    n.rate *= 2


def upsample(n):
    x = n.add("ConvTranspose", n.x, n.weight(n.channels, n.channels, 4), strides=[2])
    n.x = n.add("Slice", x, n.ints(0), n.ints(-2), n.ints(2))
    average(n)
    n.rate //= 2


def upsample_by_many(n):
    """To one channel, whose phases one kernel computes."""
    n.x = n.add("ConvTranspose", n.x, n.weight(n.channels, 1, 24), strides=[8])
    n.x = n.add("Slice", n.x, n.ints(0), n.ints(-16), n.ints(2))
    n.x = n.add("Conv", n.x, n.weight(n.channels, 1, 8), strides=[8])


def repeat(n):
    x = n.add("Resize", n.x, "", n.constant(np.array([1, 1, 2], np.float32)), mode="nearest", nearest_mode="floor",
              coordinate_transformation_mode="asymmetric")
    n.x = x
    average(n)
    n.rate //= 2


def shrink(n, scale=0.5, **attributes):
    n.x = n.add("Resize", n.x, "", n.constant(np.array([1, 1, scale], np.float32)), **attributes)
    n.rate *= int(1 / scale)


def shrink_to_nearest(n):
    shrink(n, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")


def shrink_to_middle(n):
    shrink(n, 0.25, mode="nearest", nearest_mode="round_prefer_ceil", coordinate_transformation_mode="half_pixel")


def shrink_linearly(n):
    shrink(n, mode="linear", coordinate_transformation_mode="pytorch_half_pixel")


def upsample_linearly(n, scale=2.0, mode="linear", transform="half_pixel"):
    """And every scale-th sample, so that the rate stays the same."""
    x = n.add("Resize", n.x, "", n.constant(np.array([1, 1, scale], np.float32)), mode=mode, coordinate_transformation_mode=transform)
    n.x = n.add("Conv", x, n.weight(n.channels, n.channels, int(scale)), strides=[int(scale)])


def upsample_by_three(n):
    upsample_linearly(n, 3.0)


def upsample_from_start(n):
    upsample_linearly(n, 5.0, transform="asymmetric")


def upsample_for_pytorch(n):
    upsample_linearly(n, 2.0, transform="pytorch_half_pixel")


def upsample_by_cubes(n):
    upsample_linearly(n, 4.0, "cubic")


def upsample_aligned(n):
    upsample_linearly(n, 2.0, transform="align_corners")


def interpolated(n, last=None):
    """Twice as many samples, each between two of the signal, at positions that the model computes; `last`: of the earlier ones."""
    one, two, half = (n.constant(np.float32(v)) for v in (1, 2, 0.5))
    length = n.add("Gather", n.add("Shape", n.x), n.constant(np.int64(2)))
    places = n.add("Range", n.constant(np.int64(0)), n.add("Mul", length, n.constant(np.int64(2))), n.constant(np.int64(1)))
    places = n.add("Sub", n.add("Div", n.add("Add", n.add("Cast", places, to=TensorProto.FLOAT), half), two), half)
    places = n.add("Max", places, n.constant(np.float32(0)))
    floor = n.add("Floor", places)
    before = n.add("Cast", floor, to=TensorProto.INT64)
    before = n.add("Min", before, n.constant(np.int64(last))) if last else before
    after = n.add("Min", n.add("Add", before, n.constant(np.int64(1))), n.add("Sub", length, n.constant(np.int64(1))))
    share = n.add("Sub", places, floor)
    before, after = (n.add("Gather", n.x, at, axis=2) for at in (before, after))
    n.x = n.add("Add", n.add("Mul", before, n.add("Sub", one, share)), n.add("Mul", after, share))


def interpolated_and_shrunk(n):
    interpolated(n)
    n.x = n.add("Conv", n.x, n.weight(n.channels, n.channels, 2), strides=[2])


def interpolated_up_to_100(n):
    interpolated(n, 100)


def padded(n, mode, before, after=0, kernel=3):
    """Of all axes; the result has as many channels."""
    x = n.add("Pad", n.x, n.ints(0, 1, before, 0, 0, after), mode=mode)
    x = n.add("Slice", x, n.ints(0), n.ints(-1), n.ints(1))
    n.x = n.add("Conv", x, n.weight(n.channels, n.channels, kernel))


def filled(n, mode, kernel=4, stride=2):
    """The last frame is filled up; its length is computed in floats, as by torch's exporter."""
    size = n.add("Cast", n.add("Gather", n.add("Shape", n.x), n.constant(np.int64(2))), to=1)
    frames = n.add("Ceil", n.add("Div", n.add("Sub", size, n.constant(np.float32(stride))), n.constant(np.float32(stride))))
    more = n.add("Sub", n.add("Mul", n.add("Add", frames, n.constant(np.float32(1))), n.constant(np.float32(stride))), size)
    more = n.add("Reshape", n.add("Cast", more, to=7), n.ints(1))
    x = n.add("Pad", n.x, n.add("Concat", n.ints(0, 0, kernel - stride, 0, 0), more, axis=0), mode=mode)
    n.x = n.add("Conv", x, n.weight(n.channels, n.channels, kernel), strides=[stride])
    n.rate *= stride


def filled_by_zeros(n):
    filled(n, "constant")


def filled_by_reflection(n):
    filled(n, "reflect", 6)


def cut_to_size(n):
    """All samples of padded ones, as by their size."""
    x = n.add("Pad", n.x, n.ints(0, 0, 3, 0, 0, 0), mode="reflect")
    x = n.add("Slice", x, n.ints(0), n.add("Slice", n.add("Shape", x), n.ints(2), n.ints(3)), n.ints(2))
    n.x = n.add("Conv", n.add("Relu", n.add("Mul", x, x)), n.weight(n.channels, n.channels, 4))


def repeated(n):
    padded(n, "edge", 2)


def repeated_more(n):
    padded(n, "edge", 7, kernel=8)


def reflected(n):
    padded(n, "reflect", 4, kernel=5)


def reflected_around(n):
    padded(n, "reflect", 2, 2, kernel=5)


def twice(n, outer, inner=("edge", 2)):
    """Padding of padded samples."""
    for mode, before in inner, outer:
        n.x = n.add("Pad", n.x, n.ints(0, 0, before, 0, 0, 0), mode=mode)
    n.x = n.add("Conv", n.x, n.weight(n.channels, n.channels, 1 + outer[1] + inner[1]))


def repeated_twice(n):
    twice(n, ("edge", 3))


def reflected_repeated(n):
    twice(n, ("reflect", 3))


def repeated_reflected(n):
    twice(n, ("edge", 3), ("reflect", 2))


def zeros_repeated(n):
    twice(n, ("edge", 1), ("constant", 2))


def zeros_reflected(n):
    twice(n, ("reflect", 3), ("constant", 2))


def repeated_after_zeros(n):
    twice(n, ("constant", 1))


def samples_before_repeated(n):
    n.x = n.add("Pad", n.x, n.ints(0, 0, 2, 0, 0, 0), mode="edge")
    n.x = n.add("Concat", n.weight(1, n.channels, 2), n.x, axis=2)
    n.x = n.add("Conv", n.x, n.weight(n.channels, n.channels, 5))


def repeated_around(n):
    padded(n, "edge", 1, 1)


def halve(n):
    n.x = n.add("Conv", n.x, n.weight(n.channels, n.channels, 2), strides=[2])
    n.rate *= 2


def residual_repeated(n):
    x = n.x
    repeated(n)
    n.x = n.add("Add", n.add("Tanh", n.x), x)


def convolve_ahead(n):
    n.x = n.add("Conv", n.x, n.weight(n.channels, n.channels, 5), pads=[2, 2])


def samples_before(n):
    """Two constant samples before the signal."""
    n.x = n.add("Concat", n.weight(1, n.channels, 2), n.x, axis=2)
    n.x = n.add("Conv", n.x, n.weight(n.channels, n.channels, 3))


def parts_before(n):
    n.x = n.add("Concat", n.weight(1, n.channels, 2), n.weight(1, n.channels, 1), n.x, axis=2)


def first_ones_again(n):
    """x[3], x[1], then the signal; the first one is behind its end."""
    first = n.add("Gather", n.x, n.ints(3, 1), axis=2)
    n.x = n.add("Conv", n.add("Concat", first, n.x, axis=2), n.weight(n.channels, n.channels, 3))


# Layers, by how many samples their output comes later, and the samples of a step.
EDGES = [([repeated], 0, [1, 2, 12]), ([repeated_more, residual_repeated], 0, [1, 4, 12]), ([repeated, halve, repeated], 0, [2, 8]),
         ([reflected], 0, [5, 8]), ([reflected, halve, reflected], 0, [12, 16]), ([halve, reflected_around, repeated], 2, [8, 12]),
         ([repeated_twice], 0, [1, 4]), ([reflected_repeated], 0, [4, 6]), ([repeated_reflected], 0, [3, 6]), ([zeros_repeated], 0, [1, 4]),
         ([zeros_reflected], 0, [2, 6]), ([repeated_after_zeros], 0, [1, 4]), ([samples_before_repeated], 0, [1, 4]), ([convolve_ahead, repeated_twice], 2, [3, 6]),
         ([repeated_around], 1, [1, 4]), ([repeated_around, repeated_around], 2, [2, 4]), ([repeated_around, repeated_around], 3, [1]), ([reflected_around, reflected_around], 4, [8, 12]),
         ([convolve_ahead, repeated_more], 2, [3, 12]), ([convolve_ahead, repeated_more], 9, [1, 2]), ([convolve_ahead, reflected], 2, [8, 12]), ([convolve_ahead, samples_before], 2, [3, 4]),
         ([samples_before, repeated], 0, [1, 4]), ([first_ones_again], 0, [4, 6]), ([convolve_ahead, first_ones_again], 2, [6, 12]),
         ([filled_by_zeros, filled_by_zeros], 0, [4, 12]), ([filled_by_reflection, filled_by_reflection], 0, [12, 16]),
         ([cut_to_size], 0, [4, 5, 12]), ([repeated, cut_to_size], 0, [4, 12]),
         ([upsample_linearly], 1, [1, 4]), ([upsample_by_three], 1, [1, 4]), ([upsample_from_start], 1, [1, 4]), ([upsample_for_pytorch], 1, [1, 4]),
         ([upsample_by_cubes], 2, [1, 4]), ([interpolated_and_shrunk], 1, [1, 4]), ([repeated, interpolated_and_shrunk], 1, [4]), ([convolve_ahead, upsample_by_three, repeated], 3, [4, 5])]
