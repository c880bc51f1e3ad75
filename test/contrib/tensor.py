"""Operators that move, pad and measure tensors, complex numbers, padding of sequences."""
import numpy as np
from contrib_build import Case, floats, maybe, numbers, op, pick
from normalization import numpy_float, tolerances

TYPES = (np.float32, np.float64, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16, np.uint32, np.uint64, bool)


def some(dice, dtype, *shape):
    return floats(dice, *shape, dtype=dtype) if np.issubdtype(dtype, np.floating) else numbers(dice, 0, 2 if dtype is bool else 100,
                                                                                             *shape, dtype=dtype)


def strings(dice, *shape):
    words = np.array(["", "a", "naïve", "two words", "1.5"], object)
    return words[dice.integers(0, len(words), shape)]


@op("ExpandDims")
def expand_dims(dice):
    shape = pick(dice, (3,), (2, 3), (2, 0, 4), (1, 2, 3, 2))
    size = int(np.prod(shape))
    axis = int(dice.integers(-min(len(shape) + 1, size), min(len(shape), size) + 1)) if size else 0
    x = strings(dice, *shape) if dice.integers(5) == 0 else some(dice, pick(dice, *TYPES), *shape)
    return Case([x, np.array(axis, np.int32)], constants=(1,))


@op("SampleOp")
def sample_op(dice):
    return Case([floats(dice, *pick(dice, (3,), (2, 3), (2, 0, 4), ()))])


@op("Pad")
def pad(dice):
    dtype, shape = pick(dice, np.float32, np.float64, np.float32), pick(dice, (7,), (4, 5), (2, 3, 6))
    mode = pick(dice, None, "constant", "edge", "reflect")
    pads = numbers(dice, 0 if mode == "reflect" else -1, 3, 2 * len(shape))
    if mode == "reflect":
        pads = np.minimum(pads, 1)
    value = maybe(dice, floats(dice, *pick(dice, (), (1,)), dtype=dtype))
    return Case([floats(dice, *shape, dtype=dtype), pads.reshape(pick(dice, (-1,), (1, -1))), value],
                {} if mode is None else {"mode": mode}, constants=pick(dice, (), (1,)))


@op("Range")
def range_of(dice):
    dtype, shape = pick(dice, np.int16, np.int32, np.int64, np.float32, np.float64), pick(dice, (), (1,))
    delta = pick(dice, 1, 2, 3) * pick(dice, 1, -1)
    start = int(dice.integers(-5, 6))
    values = [start, start + delta * int(dice.integers(-2, 9)), delta]
    if np.issubdtype(dtype, np.floating):
        values[2] += 0.25
    inputs = [np.full(shape, v, dtype) for v in values]
    if dice.integers(4) == 0:
        inputs[1:] = [np.full(shape, start + int(dice.integers(0, 9)), dtype), None]
    return Case(inputs, constants=pick(dice, (), (0, 1)))


@op("UnfoldTensor")
def unfold_tensor(dice):
    shape = pick(dice, (9,), (4, 6), (2, 7, 5), (2, 6, 3, 5))
    axis = int(dice.integers(-len(shape), len(shape)))
    size = int(dice.integers(1, shape[axis] + 1))
    attributes = {"size": size, "dim": axis, **pick(dice, {}, {"step": 2}, {"step": 3})}
    dtype = pick(dice, *TYPES)
    case = Case([some(dice, dtype, *shape)], attributes)
    if np.dtype(dtype).itemsize < 4 or dtype in (np.uint32, np.uint64):  # ONNX Runtime has no code for these types
        windows = np.lib.stride_tricks.sliding_window_view(case.inputs[0], size, axis % len(shape))
        steps = slice(None, None, attributes.get("step", 1))
        case.expected = [np.ascontiguousarray(windows[(slice(None),) * (axis % len(shape)) + (steps,)])]
    return case


@op("Trilu")
def trilu(dice):
    dtype, shape = pick(dice, np.float32, np.float64, np.int64), pick(dice, (3, 4), (5, 5), (2, 3, 4), (2, 1, 4, 2))
    k = maybe(dice, np.array(int(dice.integers(-3, 4))))
    return Case([some(dice, dtype, *shape), k], pick(dice, {}, {"upper": 0}, {"upper": 1}), constants=pick(dice, (), (1,)) if k is not None else ())


@op("GatherND")
def gather_nd(dice):
    shape, index = pick(dice, (5,), (3, 4), (2, 3, 4)), pick(dice, np.int32, np.int64)
    depth = int(dice.integers(1, len(shape) + 1))
    outer = pick(dice, (), (3,), (2, 2))
    indices = np.stack([dice.integers(-s, s, outer) for s in shape[:depth]], -1).astype(index)
    x = strings(dice, *shape) if dice.integers(5) == 0 else some(dice, pick(dice, *TYPES), *shape)
    return Case([x, indices])


@op("Unique")
def unique(dice):
    return Case([numbers(dice, 0, 6, pick(dice, 1, 7, 30)).astype(np.float32)], outputs=3)


@op("CDist")
def cdist(dice):
    dtype, size = pick(dice, np.float32, np.float64), pick(dice, 1, 5, 33)
    inputs = [floats(dice, pick(dice, 1, 4, 17), size, dtype=dtype), floats(dice, pick(dice, 1, 3, 16), size, dtype=dtype)]
    # ONNX Runtime subtracts the product from the squares: what is near to nothing is left with rounding errors.
    return Case(inputs, pick(dice, {}, {"metric": "euclidean"}, {"metric": "sqeuclidean"}), atol=1e-3)


# ---- For GPUs only: their definitions in numpy
@op("TorchEmbedding")
def torch_embedding(dice):
    rows, dtype = pick(dice, 3, 9), pick(dice, np.float32, np.float16, np.int32)
    table, indices = some(dice, dtype, rows, pick(dice, 1, 8)), numbers(dice, 0, rows, *pick(dice, (5,), (2, 3), ()))
    inputs = [table, indices, maybe(dice, np.array(1))]
    if inputs[2] is not None:
        inputs.append(maybe(dice, np.array(False)))
    return Case(inputs, expected=[table[indices]])


@op("IsAllFinite")
def is_all_finite(dice):
    inputs = [floats(dice, *pick(dice, (5,), (2, 3), (), (0,)), dtype=pick(dice, np.float32, np.float64, np.float16))
              for _ in range(int(dice.integers(1, 4)))]
    inputs = [v.astype(inputs[0].dtype) for v in inputs]
    if inputs[0].size:
        inputs[0].flat[0] = pick(dice, 1, 1, np.inf, -np.inf, np.nan)
    attributes = pick(dice, {}, {"isinf_only": 1}, {"isnan_only": 1})
    odd = {"isinf_only": np.isinf, "isnan_only": np.isnan}.get(next(iter(attributes), None), lambda v: ~np.isfinite(v))
    return Case(inputs, attributes, expected=[np.array(not any(odd(v).any() for v in inputs))])


def complex_case(dice, conjugate):
    dtype, shape = pick(dice, np.float32, np.float64), pick(dice, (3, 2), (2, 5, 2))
    a, b = floats(dice, *shape, dtype=dtype), floats(dice, *pick(dice, shape, shape[-2:]), dtype=dtype)
    x, y = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    z = x * (y.conj() if conjugate else y)
    return Case([a, b], expected=[np.stack([z.real, z.imag], -1).astype(dtype)])


@op("ComplexMul")
def complex_mul(dice):
    return complex_case(dice, False)


@op("ComplexMulConj")
def complex_mul_conj(dice):
    return complex_case(dice, True)


def parts(z, dtype):
    return np.stack([z.real, z.imag], -1).astype(dtype)


@op("Rfft")
def rfft(dice):
    dtype = pick(dice, np.float32, np.float64, np.float16)
    x = floats(dice, *pick(dice, (), (3,), (2, 3)), pick(dice, 2, 8, 12), dtype=dtype)
    attributes = {"normalized": 0, "onesided": 1, "signal_ndim": 1}
    return Case([x], attributes, expected=[parts(np.fft.rfft(numpy_float(x)), dtype)], **(tolerances(dtype) | {"atol": 1e-4 if dtype != np.float16 else 1e-2}))


@op("Irfft")
def irfft(dice):
    dtype = pick(dice, np.float32, np.float64, np.float16)
    x = floats(dice, *pick(dice, (), (3,), (2, 3)), pick(dice, 2, 5, 7), 2, dtype=dtype)
    wide = numpy_float(x)
    attributes = {"normalized": 0, "onesided": 1, "signal_ndim": 1}
    y = np.fft.irfft(wide[..., 0] + 1j * wide[..., 1]).astype(dtype)
    # The first and the last number of such a spectrum are real.
    x[..., 0, 1] = x[..., -1, 1] = 0
    return Case([x], attributes, expected=[y], **(tolerances(dtype) | {"atol": 1e-4 if dtype != np.float16 else 1e-2}))


def offsets_of(counts, length):
    used = np.arange(length) < counts[:, None]
    flat = used.ravel()
    return used, np.concatenate([np.flatnonzero(flat), np.flatnonzero(~flat)]).reshape(len(counts), length).astype(np.int32)


@op("RemovePadding")
def remove_padding(dice):
    batch, length, dtype = pick(dice, 1, 3), pick(dice, 1, 5), pick(dice, np.float32, np.float16)
    x, counts = floats(dice, batch, length, pick(dice, 1, 4), dtype=dtype), numbers(dice, 0, length + 1, batch, dtype=np.int32)
    used, offsets = offsets_of(counts, length)
    sums = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return Case([x, counts], outputs=4, expected=[x[used], offsets, sums, counts.max(keepdims=True)])


@op("RestorePadding")
def restore_padding(dice):
    batch, length, dtype = pick(dice, 1, 3), pick(dice, 1, 5), pick(dice, np.float32, np.float16)
    counts = numbers(dice, 0, length + 1, batch, dtype=np.int32)
    used, offsets = offsets_of(counts, length)
    x = floats(dice, int(counts.sum()), pick(dice, 1, 4), dtype=dtype)
    y = np.zeros((batch, length, x.shape[1]), dtype)
    y[used] = x
    return Case([x, offsets], expected=[y])
