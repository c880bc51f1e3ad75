"""Layers of test/streams.py that take frames, differences and first samples of the signal, as exporters write them. Each maps n.x, of
[1, channels, T], to a causal function of it."""
import numpy as np

LONG = np.iinfo(np.int64).max


def frames(n, length=3, stride=1, before=2):
    """Indices of frames from those of their first samples, as unfold is exported; then a dense layer of each frame."""
    x = n.add("Pad", n.x, n.ints(0, 0, before, 0, 0, 0))
    count = n.add("Sub", n.add("Gather", n.add("Shape", x), n.constant(np.int64(2))), n.constant(np.int64(length - 1)))
    firsts = n.add("Range", n.constant(np.int64(0)), count, n.constant(np.int64(stride)))
    places = n.add("Add", n.add("Unsqueeze", firsts, n.ints(1)), n.constant(np.arange(length).reshape(1, length)))
    x = n.add("Transpose", n.add("Gather", x, places, axis=2), perm=[0, 2, 1, 3])
    x = n.add("MatMul", n.add("Reshape", x, n.ints(1, -1, n.channels * length)), n.weight(n.channels * length, n.channels))
    n.x = n.add("Transpose", x, perm=[0, 2, 1])
    n.rate *= stride


def frames_behind(n):
    """With zeros of its own before the first samples."""
    frames(n, length=3, before=5)
    n.x = n.add("Tanh", n.x)


def frames_apart(n):
    frames(n, length=4, stride=2, before=3)


def cut(n, x, first, last):
    return n.add("Slice", x, n.ints(first), n.ints(last), n.ints(2))


def differences(n, order=1, before=0.0):
    """Of each sample and an earlier one; what stands before them is constant."""
    d = n.add("Sub", cut(n, n.x, order, LONG), cut(n, n.x, 0, -order))
    n.x = n.add("Concat", n.constant(np.full((1, n.channels, order), before, np.float32)), d, axis=2)


def far_differences(n):
    differences(n, 3, 0.5)


def emphasis(n):
    """x[0], then x[t] - 0.97 x[t - 1]."""
    d = n.add("Sub", cut(n, n.x, 1, LONG), n.add("Mul", cut(n, n.x, 0, -1), n.constant(np.float32(0.97))))
    n.x = n.add("Concat", n.add("Unsqueeze", n.add("Gather", n.x, n.constant(np.int64(0)), axis=2), n.ints(2)), d, axis=2)


def repeated_first(n):
    """x[t] - x[t - 1], where x[0] stands before the first sample."""
    n.x = n.add("Sub", n.x, cut(n, n.add("Concat", cut(n, n.x, 0, 1), n.x, axis=2), 0, -1))


def from_first(n):
    """The difference from the first sample, a mean of its channels; and a cell that begins with it."""
    first = cut(n, n.x, 0, 1)
    x = n.add("Sub", n.x, n.add("ReduceMean", first, n.ints(1)))
    w = lambda: n.weight(1, n.channels, n.channels)  # noqa: E731
    y = n.add("RNN", n.add("Transpose", x, perm=[2, 0, 1]), w(), w(), "", "", n.add("Transpose", first, perm=[2, 0, 1]), hidden_size=n.channels)
    n.x = n.add("Transpose", n.add("Squeeze", y, n.ints(1)), perm=[1, 2, 0])


def first_of_its_own(n):
    """A constant sample before the signal, then a convolution without padding."""
    x = n.add("Concat", n.weight(1, n.channels, 1), n.x, axis=2)
    n.x = n.add("Conv", x, n.weight(n.channels, n.channels, 2))


def late_first(n):
    """The first sample of a signal of which a step of four knows none at first."""
    x = cut(n, n.x, 5, LONG)
    n.x = n.add("Sub", x, cut(n, x, 0, 1))


FRAMES = [first_of_its_own, emphasis, repeated_first, from_first, frames, frames_apart, differences, far_differences]
