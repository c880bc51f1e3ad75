"""Normalizations, with what is added before them, and embeddings."""
import ml_dtypes
import numpy as np
from contrib_build import Case, floats, maybe, numbers, op, pick

HALVES = (np.float32, np.float16, ml_dtypes.bfloat16)
TOLERANCE = {np.float16: 2e-3, ml_dtypes.bfloat16: 1e-2}  # two roundings


def tolerances(dtype):
    return {"rtol": TOLERANCE.get(dtype, 1e-3), "atol": 1e-5 if dtype in (np.float32, np.float64) else 1e-3}


def epsilon(dice):
    return pick(dice, {}, {"epsilon": 1e-5}, {"epsilon": 0.25})


def numpy_float(x):
    return x.astype(np.float64)


@op("SimplifiedLayerNormalization", domain="")
def simplified_layer_normalization(dice):
    dtype = pick(dice, np.float32, np.float32, np.float64, np.float16)
    shape = pick(dice, (3, 5), (2, 3, 8), (1, 4, 33), (2, 1, 3, 16), (7,), (2, 1))
    axis = int(dice.integers(-len(shape), len(shape)))
    inner = shape[axis:]
    wide = tuple(pick(dice, n, 1) for n in shape[:axis]) + inner
    size = pick(dice, inner, (int(np.prod(inner)),), wide) if dtype != np.float16 else pick(dice, inner, wide)
    case = Case([floats(dice, *shape, dtype=dtype, scale=2), floats(dice, *size, dtype=dtype)],
                {"axis": axis, **epsilon(dice)}, outputs=pick(dice, 1, 1, 2), constants=pick(dice, (), (1,)), **tolerances(dtype))
    if dtype == np.float16:
        case.outputs = 1
    return case


def skip_case(dice, dtype, biases):
    shape = pick(dice, (2, 3, 8), (1, 5, 16), (3, 1, 33), (4, 7), (2, 2, 1), (1, 1, 64), (2, 0, 4))
    hidden = shape[-1]
    skip = pick(dice, shape, shape, shape[-2:], (1, *shape[-2:])) if len(shape) == 3 else shape
    inputs = [floats(dice, *shape, dtype=dtype), floats(dice, *skip, dtype=dtype), floats(dice, hidden, dtype=dtype)]
    inputs += [maybe(dice, floats(dice, hidden, dtype=dtype)) for _ in range(biases)]
    return Case(inputs, epsilon(dice), outputs=pick(dice, 1, ["y0", "", "", "y3"]),
                constants=pick(dice, (), (2,)), **tolerances(dtype))


@op("SkipLayerNormalization")
def skip_layer_normalization(dice):
    case = skip_case(dice, pick(dice, np.float32, np.float64, *HALVES), 2)
    # ONNX Runtime squares before it subtracts the mean: a row of one element leaves it with rounding errors.
    if case.inputs[0].shape[-1] == 1:
        case.attributes["epsilon"] = 0.25
    return case


@op("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(dice):
    return skip_case(dice, pick(dice, np.float32, np.float64, *HALVES), 1)


@op("EmbedLayerNormalization")
def embed_layer_normalization(dice):
    batch, length, hidden = pick(dice, (2, 3, 8), (1, 5, 16), (3, 1, 33))
    words, places = int(dice.integers(2, 9)), length + int(dice.integers(0, 4))
    segments = dice.random() < 0.7
    ids = lambda high, *shape: numbers(dice, 0, high, *shape, dtype=np.int32)
    inputs = [ids(words, batch, length), ids(2, batch, length) if segments else None, floats(dice, words, hidden),
              floats(dice, places, hidden), floats(dice, 2, hidden) if segments else None, floats(dice, hidden),
              floats(dice, hidden), maybe(dice, ids(2, batch, length)),
              maybe(dice, ids(places, pick(dice, batch, 1), length))]
    return Case(inputs, epsilon(dice), outputs=pick(dice, 1, 2, 3, ["y0", "", "y2"]), constants=pick(dice, (), (2, 3)))


# ---- Groups of channels: for GPUs only, so by their definition in numpy
def group_normalized(x, gamma, beta, attributes):
    y = np.moveaxis(x, -1, 1) if attributes["channels_last"] else x
    rows = y.reshape(y.shape[0], attributes["groups"], -1)
    mean, variance = rows.mean(-1, keepdims=True), rows.var(-1, keepdims=True)
    y = ((rows - mean) / np.sqrt(variance + attributes.get("epsilon", 1e-5))).reshape(y.shape)
    y = y * numpy_float(gamma)[:, None, None] + numpy_float(beta)[:, None, None]
    if attributes["activation"]:
        y = y / (1 + np.exp(-y))
    return np.moveaxis(y, 1, -1) if attributes["channels_last"] else y


def group_case(dice):
    dtype, wide = pick(dice, np.float32, np.float16), pick(dice, np.float32, np.float16)
    groups = pick(dice, 1, 2, 4)
    channels, last = groups * pick(dice, 1, 3, 4), int(dice.integers(2))
    image = (int(dice.integers(1, 5)), int(dice.integers(2, 5)))
    shape = (2, *image, channels) if last else (2, channels, *image)
    inputs = [floats(dice, *shape, dtype=dtype), floats(dice, channels, dtype=wide), floats(dice, channels, dtype=wide)]
    attributes = {"groups": groups, "channels_last": last, "activation": int(dice.integers(2)), **epsilon(dice)}
    return Case(inputs, attributes, **tolerances(dtype))


@op("GroupNorm")
def group_norm(dice):
    case = group_case(dice)
    x, gamma, beta = case.inputs
    case.expected = [group_normalized(numpy_float(x), gamma, beta, case.attributes).astype(x.dtype)]
    return case


@op("SkipGroupNorm")
def skip_group_norm(dice):
    case = group_case(dice)
    x, gamma, beta = case.inputs
    last = case.attributes["channels_last"]
    channels = gamma.size
    shape = pick(dice, x.shape, (2, 1, 1, channels) if last else (2, channels, 1, 1), (2, channels))
    skip, bias = floats(dice, *shape, dtype=x.dtype), maybe(dice, floats(dice, channels, dtype=x.dtype))
    case.inputs += [skip, bias]
    wide = numpy_float(skip)
    if skip.ndim == 2:
        wide = wide[:, None, None, :] if last else wide[:, :, None, None]
    total = numpy_float(x) + wide
    if bias is not None:
        total = total + (numpy_float(bias) if last else numpy_float(bias)[:, None, None])
    case.outputs = pick(dice, 1, 2)
    case.expected = [group_normalized(total, gamma, beta, case.attributes).astype(x.dtype), total.astype(x.dtype)][:case.outputs]
    return case


# ---- Branches and heads
@op("GatedRMSNorm")
def gated_rms_norm(dice):
    dtype, size, heads = pick(dice, np.float32, np.float16), pick(dice, 1, 8, 33), pick(dice, 1, 3)
    shape = (*pick(dice, (2, 3), (5,), (1, 2, 2), (2, 0)), heads * size)
    inputs = [floats(dice, *shape, dtype=dtype), floats(dice, size, dtype=dtype), floats(dice, *shape, dtype=dtype)]
    attributes = {**epsilon(dice), **pick(dice, {}, {"activation": pick(dice, "silu", "swish", "sigmoid")})}
    return Case(inputs, attributes, constants=pick(dice, (), (1,)), **tolerances(dtype))


@op("BranchwiseRMSNorm")
def branchwise_rms_norm(dice):
    dtype, branches, hidden = pick(dice, *HALVES), pick(dice, 1, 2, 4), pick(dice, 1, 8, 33)
    flat = dice.integers(2)
    outer = pick(dice, (2, 3), (5,), (1, 2, 2), (0, 3))
    x = floats(dice, *outer, *((branches * hidden,) if flat else (branches, hidden)), dtype=dtype)
    shape = pick(dice, (branches * hidden,), (branches, hidden), (hidden,))
    attributes = {**epsilon(dice), **({"num_branches": branches} if flat else {})}
    return Case([x, maybe(dice, floats(dice, *shape, dtype=pick(dice, *HALVES)), 0.8)], attributes, **tolerances(dtype))
