"""QONNX's operators, which ONNX Runtime lacks: by their documentation, and for what that leaves open by qonnx 1.0."""
import numpy as np
from contrib_build import Case, floats, maybe, op, pick

GENERAL, CHANNELS_LAST = "qonnx.custom_op.general", "qonnx.custom_op.channels_last"
SHAPES = ((7,), (3, 5), (2, 4, 9), (2, 4, 5, 3))
NEAREST = ("ROUND", "round", "HALF_EVEN")
OTHERS = ("CEIL", "floor", "UP", "DOWN", "HALF_UP", "half_down")
ROUNDINGS = {
    "ROUND": np.round, "HALF_EVEN": np.round, "CEIL": np.ceil, "FLOOR": np.floor, "DOWN": np.trunc,
    "UP": lambda v: np.copysign(np.ceil(np.abs(v)), v),
    "HALF_UP": lambda v: np.copysign(np.floor(np.abs(v) + np.float32(0.5)), v),
    "HALF_DOWN": lambda v: np.copysign(np.ceil(np.abs(v) - np.float32(0.5)), v)}


def number(value):
    return np.array(value, np.float32)


def powers(dice, *shape):
    """Scales that divide without rounding, so that ties stay ties."""
    return np.exp2(dice.integers(-4, 2, shape)).astype(np.float32)


def scales_of(dice, x):
    """One scale, or one for each element along one of x's axes, or for each of x's elements."""
    kind = dice.integers(4)
    shape = () if kind == 0 else (1,) * dice.integers(1, x.ndim + 1) if kind == 1 else x.shape
    if kind == 2:
        axis = dice.integers(x.ndim)
        shape = tuple(n if i == axis else 1 for i, n in enumerate(x.shape))
    return powers(dice, *shape)


def limits(bits, signed, narrow):
    if signed:
        return -2.0 ** (bits - 1) + narrow, 2.0 ** (bits - 1) - 1
    return 0.0, 2.0 ** bits - 1 - narrow


def sometimes_constant(dice, case, *places):
    case.constants = tuple(places) if dice.random() < 0.75 else ()
    case.spelled = pick(dice, None, None, "onnx.brevitas", "finn.custom_op.general")
    return case


def with_ties(dice, x):
    return np.round(x * 4) / 4 if dice.random() < 0.7 else x


def whole(dice, zero):
    """The zero point as QKeras' converter writes it, an integer."""
    return zero.astype(np.int64) if dice.random() < 0.3 and (zero == np.round(zero)).all() else zero


def int_quant(dice):
    x = with_ties(dice, floats(dice, *pick(dice, *SHAPES), scale=pick(dice, 1, 10, 60)))
    scale, bits = scales_of(dice, x), pick(dice, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 12, 16)
    zero = number(pick(dice, 0, 0, 0, 1, 3, -2, 0.5)) if dice.random() < 0.8 else floats(dice, *scale.shape).round()
    signed, narrow, mode = int(dice.integers(2)), int(dice.integers(2)), pick(dice, *NEAREST, *NEAREST, *OTHERS)
    q = x / scale + zero
    if bits == 1 and signed:
        q = np.where(q >= 0, 1, -1).astype(np.float32)
    else:
        q = ROUNDINGS[mode.upper()](np.clip(q, *map(np.float32, limits(bits, signed, narrow))))
    y = ((q - zero) * scale).astype(np.float32)
    width = np.array(bits, pick(dice, np.float32, np.int32, np.uint8))
    attributes = {"signed": signed, "narrow": narrow, "rounding_mode": mode}
    case = sometimes_constant(dice, Case([x, scale, whole(dice, zero), width], attributes, expected=[y]), 1, 2, 3)
    if case.constants and dice.random() < 0.3:
        case.constants = pick(dice, (0, 1, 2, 3), (1, 2), (3,))
    return case


op("IntQuant", GENERAL, count=60)(int_quant)
op("Quant", GENERAL, count=30)(int_quant)


@op("BipolarQuant", GENERAL)
def bipolar_quant(dice):
    x = floats(dice, *pick(dice, *SHAPES))
    x.flat[0] = pick(dice, 0.0, -0.0)
    scale = scales_of(dice, x)
    return sometimes_constant(dice, Case([x, scale], expected=[np.where(x >= 0, scale, -scale).astype(np.float32)]), 1)


@op("Trunc", GENERAL, count=40)
def trunc(dice):
    x = floats(dice, *pick(dice, *SHAPES), scale=20).round()
    scale, zero, mode = number(pick(dice, 0.25, 0.5, 1.0)), number(pick(dice, 0, 0, 4, -8)), pick(dice, *NEAREST, *OTHERS)
    rounded, before, after = ROUNDINGS[mode.upper()], pick(dice, 8, 10), pick(dice, 3, 4, 6)
    q = np.round(x / scale + zero)
    if dice.random() < 0.5:
        y = (rounded(q / np.float32(2.0 ** (before - after))) - zero) * scale
        inputs, attributes = [x, scale, whole(dice, zero), number(before), number(after)], {}
    else:
        signed, narrow, ratio = int(dice.integers(2)), int(dice.integers(2)), np.float32(2.0 ** int(dice.integers(0, 5)))
        out_scale = scale * ratio * np.float32(pick(dice, 1, 1, 1.1))
        y = (rounded(np.clip(q / ratio, *map(np.float32, limits(after, signed, narrow)))) - zero / ratio) * out_scale
        inputs = [x, scale, whole(dice, zero), number(before), out_scale, number(after)]
        attributes = {"signed": signed, "narrow": narrow}
    case = Case(inputs, attributes | {"rounding_mode": mode}, expected=[y.astype(np.float32)], version=len(inputs) - 4)
    return sometimes_constant(dice, case, *range(1, len(inputs)))


@op("FloatQuant", GENERAL, count=40)
def float_quant(dice):
    x = floats(dice, *pick(dice, *SHAPES), scale=pick(dice, 0.01, 1, 100, 1e4))
    x.flat[:2] = pick(dice, (0, 1), (1e-30, -2), (4, -0.5))
    scale, exponent, mantissa = scales_of(dice, x), pick(dice, 2, 3, 4, 5), pick(dice, 1, 2, 3, 7)
    bias = pick(dice, 2.0 ** (exponent - 1) - 1, 1.0, 8.0)
    greatest = (2 - 2.0 ** -mantissa) * 2.0 ** (2.0 ** exponent - 1 - bias)
    most = pick(dice, greatest, greatest, greatest / 2, 2 * greatest, 448.0)
    flags, mode = {name: int(dice.integers(2)) for name in ("has_inf", "has_nan")}, pick(dice, *NEAREST, *OTHERS)
    flags |= {"saturation": int(dice.integers(2)) if any(flags.values()) else 1, "has_subnormal": 1}
    scaled = (x / scale).astype(np.float64)
    place = np.where(scaled == 0, -1000, np.frexp(scaled)[1] - 1)
    unit = np.exp2(np.maximum(place - mantissa, 1 - bias - mantissa))
    rounded, limit = unit * ROUNDINGS[mode.upper()](scaled / unit), min(most, greatest)
    y = np.clip(rounded, -limit, limit)
    if not flags["saturation"]:
        y = np.where(np.abs(rounded) > limit, np.copysign(np.inf, rounded) if flags["has_inf"] else np.nan, y)
    inputs = [x, scale, number(exponent), number(mantissa), number(bias), number(most)]
    case = Case(inputs, flags | {"rounding_mode": mode}, expected=[(y * scale).astype(np.float32)])
    return sometimes_constant(dice, case, *range(1, 6))


@op("MultiThreshold", GENERAL)
def multi_threshold(dice):
    shape = pick(dice, *SHAPES[1:], (2, 3, 2, 2, 2))
    layout = pick(dice, "", {2: "NC", 3: "NCW", 4: "NHWC", 5: "NCDHW"}[len(shape)])
    axis = layout.index("C") if layout else 2 if len(shape) == 3 else 1
    x = with_ties(dice, floats(dice, *shape, scale=3))
    steps = np.sort(with_ties(dice, floats(dice, pick(dice, 1, shape[axis]), pick(dice, 1, 7, 15), scale=3)), axis=-1)
    reached = (np.moveaxis(x, axis, -1)[..., None] >= steps).sum(-1)
    scale, bias = pick(dice, 1.0, 0.5, 2.0), pick(dice, 0.0, -8.0)
    y = np.moveaxis(reached, -1, axis) * scale + bias
    attributes = {"out_dtype": "UINT4", "out_scale": scale, "out_bias": bias, "data_layout": layout}
    return sometimes_constant(dice, Case([x, steps], attributes, expected=[y.astype(np.float32)]), 1)


@op("XnorPopcountMatMul", GENERAL)
def xnor_popcount(dice):
    a, b = (dice.integers(0, 2, shape).astype(np.float32) for shape in (pick(dice, (3, 16), (2, 5, 16)), (16, 7)))
    y = (a[..., None] == b).sum(-2)
    return sometimes_constant(dice, Case([a, b], expected=[y.astype(np.float32)]), 1)


def windows(x, kernel, strides, dilations=(1, 1)):
    """Of an image (N, H, W, C): (N, H', W', kernel, C)."""
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[1:3], kernel, strides, dilations)]
    parts = [x[:, i * dilations[0]:, j * dilations[1]:][:, ::strides[0], ::strides[1]][:, :sizes[0], :sizes[1]]
             for i in range(kernel[0]) for j in range(kernel[1])]
    return np.stack(parts, axis=3)


def image(dice):
    return floats(dice, pick(dice, 1, 2), 9, 8, pick(dice, 1, 3, 5), scale=10).round()


@op("Im2Col", GENERAL)
def im2col(dice):
    x, kernel, strides, dilations = image(dice), pick(dice, [1, 1], [3, 2]), pick(dice, [1, 1], [2, 3]), pick(dice, [1, 1], [2, 1])
    pads, filler = pick(dice, [0, 0, 0, 0], [1, 2, 0, 1]), pick(dice, 0, -1)
    padded = np.pad(x, ((0, 0), pads[::2], pads[1::2], (0, 0)), constant_values=filler)
    y = windows(padded, kernel, strides, dilations)
    attributes = {"kernel_size": kernel, "stride": strides, "dilations": dilations, "pad_amount": pads, "pad_value": filler,
                  "input_shape": str(x.shape)}
    return Case([x], attributes, expected=[y.reshape(*y.shape[:3], -1)])


@op("MaxPoolNHWC", GENERAL)
def max_pool_nhwc(dice):
    x, kernel, strides, pads = image(dice), pick(dice, [2, 2], [3, 1]), pick(dice, [1, 1], [2, 3]), pick(dice, [0] * 4, [1, 0, 0, 0])
    padded = np.pad(x, ((0, 0), pads[::2], pads[1::2], (0, 0)), constant_values=-np.inf)
    y = windows(padded, kernel, strides).max(3)
    return Case([x], {"kernel_shape": kernel, "strides": strides, "pads": pads}, expected=[y])


@op("QuantAvgPool2d", GENERAL)
def quant_avg_pool(dice):
    x, k, stride, bits, layout = np.abs(image(dice)), pick(dice, 2, 3), pick(dice, 1, 2), pick(dice, 4, 6), pick(dice, "NCHW", "NHWC")
    shift = int((2**bits - 1) * k * k).bit_length() - pick(dice, bits, 2, 20)
    y = windows(x, (k, k), (stride, stride)).sum(3).astype(np.int64) >> max(shift, 0)
    attributes = {"kernel": k, "stride": stride, "ibits": bits, "signed": 0, "data_layout": layout,
                  "obits": int((2**bits - 1) * k * k).bit_length() - shift}
    moved = (lambda v: v.transpose(0, 3, 1, 2)) if layout == "NCHW" else lambda v: v
    return Case([np.ascontiguousarray(moved(x))], attributes, expected=[np.ascontiguousarray(moved(y)).astype(np.float32)])


# ---- Channels last
@op("Conv", CHANNELS_LAST)
def conv(dice):
    x, kernel, strides = image(dice), pick(dice, (1, 1), (3, 2)), pick(dice, (1, 1), (2, 3))
    w = floats(dice, 4, *kernel, x.shape[-1])
    bias = maybe(dice, floats(dice, 4))
    y = np.einsum("nhwkc,okc->nhwo", windows(x, kernel, strides), w.reshape(4, -1, x.shape[-1]))
    y = y + (0 if bias is None else bias)
    inputs = [x, w] + ([] if bias is None else [bias])
    return Case(inputs, {"kernel_shape": kernel, "strides": strides, "pads": [0] * 4}, expected=[y.astype(np.float32)], atol=1e-3,
                constants=pick(dice, (), (1,)), version=pick(dice, 1, 11))


@op("MaxPool", CHANNELS_LAST)
def max_pool(dice):
    x, kernel, strides = image(dice), pick(dice, (2, 2), (3, 1)), pick(dice, (1, 1), (2, 3))
    return Case([x], {"kernel_shape": kernel, "strides": strides, "pads": [0] * 4}, expected=[windows(x, kernel, strides).max(3)])


@op("BatchNormalization", CHANNELS_LAST)
def batch_normalization(dice):
    x = floats(dice, *pick(dice, *SHAPES[1:]))
    scale, bias, mean = (floats(dice, x.shape[-1]) for _ in range(3))
    variance = np.abs(floats(dice, x.shape[-1])) + np.float32(0.1)
    y = (x - mean) / np.sqrt(variance + 1e-5) * scale + bias
    return Case([x, scale, bias, mean, variance], {"epsilon": 1e-5}, expected=[y.astype(np.float32)],
                constants=pick(dice, (), (1, 2, 3, 4)), rtol=1e-4, atol=1e-4, version=14)
