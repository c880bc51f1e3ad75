"""Experimental operators of the first operator sets, of which ONNX Runtime still has kernels."""
import numpy as np
from contrib_build import Case, floats, maybe, numbers, op, pick
from normalization import epsilon, tolerances

SHAPES = ((7,), (2, 3, 5), (3, 1, 2, 4), (2, 0))


def number(dice):
    return float(np.float32(dice.uniform(-2, 2)))


def pointwise(dice, *names, required=False):
    attributes = {name: number(dice) for name in names if required or dice.integers(2)}
    return Case([floats(dice, *pick(dice, *SHAPES), scale=2)], attributes, opset=int(dice.integers(1, 10)))


@op("Affine", domain="")
def affine(dice):
    return pointwise(dice, "alpha", "beta")


@op("Scale", domain="")
def scale(dice):
    return pointwise(dice, "scale")


@op("ScaledTanh", domain="")
def scaled_tanh(dice):
    return pointwise(dice, "alpha", "beta", required=True)


@op("ParametricSoftplus", domain="")
def parametric_softplus(dice):
    return pointwise(dice, "alpha", "beta", required=True)


@op("ImageScaler", domain="")
def image_scaler(dice):
    channels = pick(dice, 1, 3)
    shape = (pick(dice, 0, 1, 2), channels, *[int(s) for s in dice.integers(1, 6, 2)])
    attributes = {"bias": [number(dice) for _ in range(channels)], **pick(dice, {}, {"scale": number(dice)})}
    return Case([floats(dice, *shape)], attributes, opset=int(dice.integers(1, 10)))


@op("Crop", domain="")
def crop(dice):
    border = [int(b) for b in dice.integers(0, 3, 4)]
    shape = (pick(dice, 1, 2), pick(dice, 1, 3), *[int(s) for s in dice.integers(4, 9, 2)])
    attributes = {"border": border, **pick(dice, {}, {"scale": [int(s) for s in dice.integers(1, 4, 2)]})}
    return Case([floats(dice, *shape)], attributes, opset=int(dice.integers(1, 10)))


@op("DynamicSlice", domain="")
def dynamic_slice(dice):
    dtype, index = pick(dice, np.float32, np.int64, np.uint8, bool), pick(dice, np.int32, np.int64)
    shape = pick(dice, (7,), (4, 5), (2, 3, 6))
    axes = np.sort(dice.permutation(len(shape))[:int(dice.integers(1, len(shape) + 1))])
    given = None if len(axes) == len(shape) and dice.integers(2) else axes
    x = numbers(dice, 0, 2 if dtype == bool else 100, *shape, dtype=dtype)
    inputs = [x, numbers(dice, -4, 3, len(axes), dtype=index), numbers(dice, 1, 9, len(axes), dtype=index)]
    inputs += [None if given is None else given.astype(index)]
    return Case(inputs, constants=pick(dice, (), (1, 2), (1, 2, 3) if given is not None else ()), opset=int(dice.integers(1, 10)))


@op("GivenTensorFill", domain="")
def given_tensor_fill(dice):
    """No kernel: by the definition of Caffe2's operator of that name"""
    shape, extra = [int(s) for s in dice.integers(1, 4, int(dice.integers(1, 4)))], pick(dice, [], [2], [1, 3])
    values = floats(dice, *shape, *extra)
    attributes = {"values": values.ravel().tolist(), **({"extra_shape": extra} if extra else {})}
    like = maybe(dice, floats(dice, *shape))
    if like is None:
        attributes["shape"] = shape
    return Case([like], attributes, opset=int(dice.integers(1, 10)), expected=[values])


# ---- Operators of the standard in versions before it had them


@op("LayerNormalization", domain="")
def layer_normalization(dice):
    dtype = pick(dice, np.float32, np.float64, np.float16)
    shape = pick(dice, (3, 5), (2, 3, 8), (1, 4, 33), (7,))
    axis = int(dice.integers(-len(shape), len(shape)))
    bias = maybe(dice, floats(dice, *shape[axis:], dtype=dtype))
    case = Case([floats(dice, *shape, dtype=dtype), floats(dice, *shape[axis:], dtype=dtype), bias],
                {"axis": axis, **epsilon(dice)}, outputs=pick(dice, 1, 3), opset=int(dice.integers(7, 17)), **tolerances(dtype))
    if dtype == np.float16:
        case.outputs = 1
    return case


@op("MeanVarianceNormalization", domain="")
def mean_variance_normalization(dice):
    attributes = {**pick(dice, {}, {"across_channels": 1}), **pick(dice, {}, {"normalize_variance": 0})}
    return Case([floats(dice, 2, pick(dice, 1, 3), 4, pick(dice, 2, 5))], attributes, opset=int(dice.integers(1, 9)), atol=1e-4)


@op("ThresholdedRelu", domain="")
def thresholded_relu(dice):
    return Case([floats(dice, *pick(dice, *SHAPES))], pick(dice, {}, {"alpha": 0.5}), opset=int(dice.integers(1, 10)))
