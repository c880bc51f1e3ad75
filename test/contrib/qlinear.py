"""Operators on quantised tensors.

Results are exact: with scales that are powers of two even for ties, and with others as long as no tie depends on the last bit of a
float, which in ONNX Runtime depends on the processor. In 8,000 random cases none did.
"""
from dataclasses import replace

import ml_dtypes
import numpy as np
from contrib_build import Case, answer, maybe, numbers, op, pick

EXACT = {"rtol": 0, "atol": 0}
RANGES = {np.int8: (-128, 128), np.uint8: (0, 256)}


def integers(dice, dtype, *shape):
    return numbers(dice, *RANGES[dtype], *shape, dtype=dtype)


def quantities(dice, dtype, count, optional=True):
    """Scale and zero point, count times; the scales are all powers of two or none."""
    shape, powers, pairs = pick(dice, (), (), (1,)), dice.random() < 0.5, []
    for _ in range(count):
        scale = np.full(shape, 2.0 ** (dice.integers(-6, 2) if powers else dice.uniform(-6, 2)), np.float32)
        zero = integers(dice, dtype, *shape)
        pairs.append((scale, maybe(dice, zero, 0.8) if optional else zero))
    return pairs


def parameters(dice, inputs, data):
    """The numbers of the inputs that are initializers: most models have scales there."""
    return tuple(i for i, v in enumerate(inputs) if i not in data and v is not None) if dice.random() < 0.7 else ()


def case(dice, inputs, data, attributes):
    return Case(inputs, attributes, constants=parameters(dice, inputs, data), **EXACT)


def asked(drawn, zeros):
    """ONNX Runtime's shape inference refuses zero points left out and scales of shape [1]."""
    plain = [v if i not in zeros and i + 1 not in zeros else drawn.inputs[0].dtype.type(0) if v is None else v.reshape(())
             for i, v in enumerate(drawn.inputs)]
    return replace(drawn, asked=replace(drawn, inputs=[np.asarray(v) for v in plain], constants=()))


SHAPES = ((7,), (2, 3, 5), (1, 4), (3, 1, 2, 4), (2, 33), (), (0, 3), (3, 70))
PAIRS = (((7,), (7,)), ((2, 3, 5), (3, 1)), ((4, 1), (1, 40)), ((), (5, 3)), ((33,), (1,)), ((2, 1, 4), (4,)), ((2, 65), (2, 65)), ((0, 2), (1, 2)))


def binary(dice):
    dtype, shapes = pick(dice, np.int8, np.uint8), pick(dice, *PAIRS)
    shapes = pick(dice, shapes, shapes[::-1])
    a, b, c = quantities(dice, dtype, 3)
    inputs = [integers(dice, dtype, *shapes[0]), *a, integers(dice, dtype, *shapes[1]), *b, *c]
    return asked(case(dice, inputs, (0, 3), {}), (2, 5, 7))


@op("QLinearAdd")
def qlinear_add(dice):
    return binary(dice)


@op("QLinearMul")
def qlinear_mul(dice):
    return binary(dice)


def unary(dice, **attributes):
    dtype = pick(dice, np.int8, np.uint8)
    x, y = quantities(dice, dtype, 2)
    inputs = [integers(dice, dtype, *pick(dice, *SHAPES)), *x, *y]
    return asked(case(dice, inputs, (0,), attributes), (2, 4))


@op("QLinearLeakyRelu")
def qlinear_leaky_relu(dice):
    return unary(dice, **pick(dice, {}, {"alpha": 0.5}, {"alpha": 0.1}, {"alpha": -0.3}))


@op("QLinearSigmoid")
def qlinear_sigmoid(dice):
    drawn = unary(dice)
    drawn.inputs[3] = np.full(drawn.inputs[3].shape, dice.uniform(1, 3) / 256, np.float32)
    return asked(drawn, (2, 4))


@op("QLinearWhere")
def qlinear_where(dice):
    dtype, shapes = pick(dice, np.int8, np.uint8), pick(dice, *PAIRS)
    x, y, z = quantities(dice, dtype, 3, optional=False)
    if dice.random() < 0.3:
        z = x
    condition = numbers(dice, 0, 2, *pick(dice, *shapes, ()), dtype=bool)
    inputs = [condition, integers(dice, dtype, *shapes[0]), *x, integers(dice, dtype, *shapes[1]), *y, *z]
    return case(dice, inputs, (0, 1, 4), {})


@op("QLinearConcat")
def qlinear_concat(dice):
    dtype, shape = pick(dice, np.int8, np.uint8), list(pick(dice, (7,), (2, 3, 5), (1, 4), (3, 1, 2, 4)))
    axis = int(dice.integers(len(shape)))
    count = pick(dice, 1, 2, 3, 4)
    pairs = quantities(dice, dtype, count + 1, optional=False)
    inputs = list(pairs[0])
    for pair in pairs[1:]:
        shape[axis] = pick(dice, 1, 2, 0, 5)
        inputs += [integers(dice, dtype, *shape), *pick(dice, pair, pair, pairs[0])]
    return case(dice, inputs, range(2, len(inputs), 3), {"axis": pick(dice, axis, axis - len(shape))})


@op("QLinearSoftmax")
def qlinear_softmax(dice):
    dtype, shape = pick(dice, np.int8, np.uint8), pick(dice, (7,), (2, 3, 5), (1, 4), (3, 1, 2, 4), (2, 33), (2, 300))
    axis = int(dice.integers(-len(shape), len(shape)))
    attributes = {"opset": pick(dice, 11, 13, 12, 17), **pick(dice, {}, {"axis": axis})}
    steps, of = pick(dice, 256, 200, 213), pick(dice, (), (1,))
    low, high = RANGES[dtype]
    # what exceeds the range, ONNX Runtime wraps for int8
    zero = np.full(of, pick(dice, low, low + 3) if dtype == np.int8 and steps < 256 else low, dtype)
    zero = zero if dtype == np.int8 else integers(dice, dtype, *of)
    inputs = [integers(dice, dtype, *shape), np.full(of, 2.0 ** dice.uniform(-6, -1), np.float32),
              maybe(dice, integers(dice, dtype, *of)), np.full(of, 1 / steps, np.float32), zero]
    drawn = case(dice, inputs, (0,), attributes)
    flat, at = attributes["opset"] < 13, attributes.get("axis", 1 if attributes["opset"] < 13 else -1)
    if -len(shape) <= at < len(shape) and np.prod(shape[at:] if flat else shape[at]) == 1:  # its table of exponentials overflows
        whole = np.floor(1 / inputs[3].max()) + zero.max()
        drawn.expected = [np.full(shape, min(whole, high - 1), dtype)]
    return drawn


def pool_attributes(dice, axes):
    attributes = {"kernel_shape": [int(dice.integers(1, 4)) for _ in range(axes)]}
    if dice.random() < 0.7:
        attributes["strides"] = [int(dice.integers(1, 4)) for _ in range(axes)]
    if dice.random() < 0.3:
        attributes["auto_pad"] = pick(dice, "SAME_UPPER", "SAME_LOWER", "VALID")
    elif dice.random() < 0.7:
        attributes["pads"] = [int(dice.integers(0, attributes["kernel_shape"][i % axes])) for i in range(2 * axes)]
    return attributes


def image(dice, dtype, axes, last):
    spatial = [int(dice.integers(3, 9)) for _ in range(axes)]
    channels = pick(dice, 1, 3, 8, 17)
    return integers(dice, dtype, pick(dice, 1, 2), *([*spatial, channels] if last else [channels, *spatial]))


@op("QLinearAveragePool")
def qlinear_average_pool(dice):
    dtype, axes, last = pick(dice, np.int8, np.uint8), pick(dice, 1, 2, 2, 3), pick(dice, 0, 1)
    x, y = quantities(dice, dtype, 2)
    attributes = {**pool_attributes(dice, axes), **pick(dice, {}, {"count_include_pad": 1}), **pick(dice, {}, {"ceil_mode": 1})}
    if last or dice.random() < 0.5:
        attributes["channels_last"] = last
    return asked(case(dice, [image(dice, dtype, axes, last), *x, *y], (0,), attributes), (2, 4))


@op("QLinearGlobalAveragePool")
def qlinear_global_average_pool(dice):
    dtype, axes, last = pick(dice, np.int8, np.uint8), pick(dice, 1, 2, 3), pick(dice, 0, 1)
    x, y = quantities(dice, dtype, 2, optional=False)
    attributes = {"channels_last": last} if last or dice.random() < 0.5 else {}
    return case(dice, [image(dice, dtype, axes, last), *x, *y], (0,), attributes)


@op("QLinearConv")
def qlinear_conv(dice):
    x_type, last, axes = pick(dice, np.int8, np.uint8), pick(dice, 0, 1), pick(dice, 1, 2, 2, 3)
    w_type = np.int8 if x_type == np.int8 else pick(dice, np.int8, np.uint8)
    x, w, y = quantities(dice, x_type, 3, optional=False)
    data = image(dice, x_type, axes, last)
    channels = data.shape[-1 if last else 1]
    group, filters = pick(dice, (1, 4), (1, 9), (channels, channels))
    attributes = {**pool_attributes(dice, axes), **pick(dice, {}, {"group": group}), **pick(dice, {}, {"channels_last": last})}
    if attributes.get("group", 1) == 1:
        group = 1
    if last:
        attributes["channels_last"] = 1
    if dice.random() < 0.5 and "auto_pad" not in attributes:
        attributes["dilations"] = [int(dice.integers(1, 3)) for _ in range(axes)]
    weights = integers(dice, w_type, filters, channels // group, *attributes["kernel_shape"])
    # without VNNI, ONNX Runtime's products of uint8 and int8 saturate: weights of 7 bits do not
    weights = weights // 2 if w_type == np.int8 and x_type == np.uint8 else weights
    per_filter = dice.random() < 0.5
    w_scale = np.array([w[0].item() * 2.0**-dice.integers(0, 3) for _ in range(filters)], np.float32) if per_filter else w[0]
    w_zero = np.zeros_like(w_scale, dtype=w_type) if w_type == np.int8 else np.full_like(w_scale, 128, dtype=w_type)
    bias = maybe(dice, numbers(dice, -500, 500, filters, dtype=np.int32))
    y_scale = y[0] * np.float32(2.0**8)
    inputs = [data, *x, weights, w_scale, w_zero, y_scale, y[1], bias]
    constants = tuple(i for i in range(1, 9) if inputs[i] is not None)
    return Case(inputs, attributes, constants=constants if dice.random() < 0.7 else constants[2:5], **EXACT)


@op("QuantizeLinear")
def quantize_linear(dice):
    return converted(dice, True)


@op("DequantizeLinear")
def dequantize_linear(dice):
    return converted(dice, False)


def converted(dice, quantize):
    shape = pick(dice, (7,), (2, 3, 5), (1, 4), (3, 1, 2, 4), (2, 33))
    axis = int(dice.integers(len(shape)))
    attributes = pick(dice, {}, {"axis": axis}, {"axis": axis - len(shape)})
    of = (shape[axis],) if attributes else pick(dice, (), (1,))
    wide = pick(dice, np.int8, np.uint8, np.int16, np.uint16, ml_dtypes.int4, ml_dtypes.uint4)
    if not quantize and dice.random() < 0.15:
        wide = np.int32
    low, high = {ml_dtypes.int4: (-8, 8), ml_dtypes.uint4: (0, 16), np.int32: (-1000, 1000)}.get(wide) or (np.iinfo(wide).min, np.iinfo(wide).max + 1)
    scale = (2.0 ** dice.uniform(-4, 2, of)).astype(np.float32)
    zero = np.zeros(of, wide) if wide == np.int32 else numbers(dice, low, high, *of).astype(wide)
    if quantize:
        data = (dice.standard_normal(shape) * high / 2).astype(np.float32)
        zero = zero if wide != np.uint8 else maybe(dice, zero, 0.7)
    else:
        data, zero = numbers(dice, low, high, *shape).astype(wide), maybe(dice, zero, 0.8)
    inputs = [data, scale, zero]
    nibbles = [i for i, v in enumerate(inputs) if v is not None and v.dtype in (ml_dtypes.int4, ml_dtypes.uint4)]
    constants = tuple({*nibbles, *((1, 2) if dice.random() < 0.7 and zero is not None else ())})
    drawn = Case(inputs, attributes, constants=constants, rtol=0 if quantize else 1e-6, atol=0)
    if quantize and nibbles:  # ONNX Runtime's Python interface cannot return them
        spread = [1 if i != axis else -1 for i in range(len(shape))] if attributes else ()
        steps = np.rint(data / scale.reshape(spread)) + zero.astype(np.float32).reshape(spread)
        drawn.expected = [np.clip(steps, low, high - 1).astype(wide)]
        return drawn
    return halves(drawn, quantize) if (not quantize or high <= 256) and dice.random() < 0.25 else drawn


def halves(drawn, quantize):
    """The CPU provider lacks float16. Quantising divides in float16, the type of the scale, as the text of the standard's operator says;
    dequantising rounds at the end."""
    data, scale, zero = drawn.inputs
    scale = np.asarray(scale, np.float16)
    if quantize:
        drawn.inputs = [data.astype(np.float16), scale, zero]
        along = [-1 if i == drawn.attributes["axis"] % data.ndim else 1 for i in range(data.ndim)] if scale.size > 1 else ()
        steps = np.rint(drawn.inputs[0] / scale.reshape(along)).astype(np.float32) + (0 if zero is None else zero.reshape(along))
        limits = np.iinfo(np.uint8 if zero is None else zero.dtype)
        drawn.expected = [np.clip(steps, limits.min, limits.max).astype(limits.dtype)]
    else:
        wide = replace(drawn, inputs=[data, np.asarray(scale, np.float32), zero])
        drawn.inputs = [data, scale, zero]
        drawn.expected = [answer("com.microsoft", "DequantizeLinear", wide)[0].astype(np.float16)]
    return drawn


def real(x, scale, zero):
    return (x.astype(np.float32) - (0 if zero is None else zero.astype(np.float32))) * scale


@op("QLinearReduceMean")
def qlinear_reduce_mean(dice):
    dtype, shape = pick(dice, np.int8, np.uint8), pick(dice, (7,), (2, 3, 5), (1, 4), (3, 1, 2, 4), (2, 33))
    x, y = quantities(dice, dtype, 2)
    axes = sorted({int(dice.integers(-len(shape), 0)) for _ in range(2)})
    keep = pick(dice, 0, 1)
    inputs = [integers(dice, dtype, *shape), *x, *y]
    mean = real(inputs[0], *x).mean(tuple(axes), keepdims=bool(keep), dtype=np.float64)
    steps = np.rint(mean / y[0].item()) + (0 if y[1] is None else y[1].item())
    expected = np.clip(steps, RANGES[dtype][0], RANGES[dtype][1] - 1).astype(dtype)
    drawn = case(dice, inputs, (0,), {"axes": axes, "keepdims": keep})
    drawn.expected = [expected]
    return drawn


@op("ReduceSumInteger")
def reduce_sum_integer(dice):
    dtype, shape = pick(dice, np.int8, np.uint8), pick(dice, (7,), (2, 3, 5), (1, 4), (3, 1, 2, 4), (2, 33))
    axes = sorted({int(dice.integers(-len(shape), 0)) for _ in range(2)})
    keep = pick(dice, 0, 1)
    x = integers(dice, dtype, *shape)
    total = x.astype(np.int64).sum(tuple(axes), keepdims=bool(keep)).astype(np.uint32 if dtype == np.uint8 else np.int32)
    return Case([x], {"axes": axes, "keepdims": keep}, expected=[total], **EXACT)


@op("MulInteger")
def mul_integer(dice):
    dtype, shapes = pick(dice, np.int8, np.uint8), pick(dice, *PAIRS)
    a, b = (integers(dice, dtype, *s) for s in shapes)
    za, zb = (maybe(dice, integers(dice, dtype, *pick(dice, (), (1,)))) for _ in range(2))
    product = np.multiply(*(v.astype(np.int32) - (0 if z is None else z.astype(np.int32).reshape(())) for v, z in ((a, za), (b, zb))))
    return Case([a, za, b, zb], expected=[product], **EXACT)
