"""TensorRT's quantisation, which ONNX Runtime's CPU provider lacks: by NVIDIA's documentation of its layers."""
import ml_dtypes
import numpy as np
from contrib_build import Case, floats, maybe, op, pick

F8, E8, F4, I4 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn, ml_dtypes.int4
SHAPES = ((64,), (3, 32), (2, 3, 64), (2, 64, 4))
SPELLED = ("trt", "trt", "trt.plugins", "")
LARGEST = {F8: 448, I4: 7}


def clipped(x, t):
    least, most = (-8, 7) if t == I4 else (-448, 448)
    return np.clip(np.round(x) if t == I4 else x, least, most).astype(t)


def scales_of(dice, x, t):
    """One, one for each element along an axis, or one for each block along one; with attributes, and as large as x."""
    kind, axis = dice.integers(3), int(dice.integers(x.ndim))
    if kind == 0:
        scale = floats(dice, dtype=x.dtype)
    elif kind == 1:
        scale = floats(dice, x.shape[axis], dtype=x.dtype)
    else:
        axis = x.shape.index(max(x.shape))
        scale = floats(dice, *[n // 16 if i == axis else n for i, n in enumerate(x.shape)], dtype=x.dtype)
    scale = ((np.abs(scale) + x.dtype.type(0.5)) / LARGEST[t]).astype(x.dtype)
    attributes = {} if kind == 0 else {"axis": axis}
    whole = scale
    if kind == 1:
        whole = scale.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        attributes = attributes if axis or dice.integers(2) else {}
    if kind == 2:
        whole = np.repeat(scale, 16, axis)
        attributes = {"axis": axis, "block_size": 16}
    return scale, whole, attributes


def quantize(dice, t):
    x = floats(dice, *pick(dice, *SHAPES), dtype=pick(dice, np.float32, np.float32, np.float16))
    scale, whole, attributes = scales_of(dice, x, t)
    return Case([x, scale], attributes, constants=pick(dice, (), (1,)), opset=pick(dice, 13, 19, 21), spelled=pick(dice, *SPELLED),
                expected=[clipped(x / whole, t)])


def dequantize(dice, t):
    values = floats(dice, *pick(dice, *SHAPES))
    scale, whole, attributes = scales_of(dice, values, t)
    x = clipped(values / whole, t)
    given = x.view(np.uint8) if t == F8 and dice.integers(2) else x
    constants = pick(dice, (), (0, 1))
    if constants and x.ndim == scale.ndim > 1 and dice.integers(2):
        attributes = pick(dice, {}, {"axis": 0, "block_size": 64})  # sizes decide
    return Case([given, scale], attributes, constants=constants, opset=pick(dice, 13, 19, 21),
                spelled=pick(dice, *SPELLED), expected=[x.astype(np.float32) * whole])


@op("TRT_FP8QuantizeLinear", "TRT")
def fp8_quantize(dice):
    return quantize(dice, F8)


@op("TRT_FP8DequantizeLinear", "TRT")
def fp8_dequantize(dice):
    return dequantize(dice, F8)


@op("TRT_INT4QuantizeLinear", "TRT")
def int4_quantize(dice):
    return quantize(dice, I4)


@op("TRT_INT4DequantizeLinear", "TRT")
def int4_dequantize(dice):
    return dequantize(dice, I4)


# ---- Scales of blocks from their elements
def blocks(dice, size):
    """x, its greatest sizes by block, its axis of blocks, and attributes."""
    x = floats(dice, *pick(dice, *SHAPES[1:]), dtype=pick(dice, np.float32, np.float16), scale=pick(dice, 1, 100))
    axis = x.shape.index(max(x.shape))
    if dice.integers(2):
        x[(0,) * x.ndim] = 0
    if dice.integers(2):
        np.moveaxis(x, axis, 0)[:size] = 0
    split = x.astype(np.float32).reshape(*x.shape[:axis], -1, size, *x.shape[axis + 1:])
    last = axis == x.ndim - 1
    return x, np.abs(split).max(axis + 1), axis, {"axis": pick(dice, axis, axis - x.ndim), "block_size": size} if not last else {}


def powers(greatest):
    with np.errstate(divide="ignore"):
        return (np.clip(np.ceil(np.log2(greatest.astype(np.float64) / 448)), -127, 127) + 127).astype(np.uint8)


@op("TRT_MXFP8DynamicQuantize", "TRT")
def mxfp8_dynamic_quantize(dice):
    x, greatest, axis, attributes = blocks(dice, 32)
    codes = powers(greatest)
    whole = np.repeat(np.exp2(codes.astype(np.float64) - 127), 32, axis)
    y = clipped(x / whole, F8)
    return Case([x], attributes, outputs=2, expected=[y, codes], spelled=pick(dice, *SPELLED))


@op("TRT_MXFP8DequantizeLinear", "TRT")
def mxfp8_dequantize(dice):
    x, greatest, axis, attributes = blocks(dice, 32)
    codes = powers(np.maximum(greatest, np.float32(1e-3)))
    whole = np.exp2(np.repeat(codes, 32, axis).astype(np.float32) - 127)
    q = clipped(x / whole, F8)
    to = maybe(dice, 10)
    y = (q.astype(np.float32) * whole).astype(np.float16 if to else np.float32)
    given = pick(dice, q, q.view(np.uint8)), pick(dice, codes, codes.view(E8))
    return Case(list(given), {**attributes, **({"output_dtype": to} if to else {})}, spelled=pick(dice, *SPELLED), expected=[y],
                constants=pick(dice, (), (0, 1)))


@op("TRT_FP4DynamicQuantize", "TRT")
def fp4_dynamic_quantize(dice):
    x, greatest, axis, attributes = blocks(dice, 16)
    unit = np.float32(pick(dice, 1.0, 0.25, np.abs(x).max() / 6 / 448))
    scale = np.minimum(greatest / np.float32(6) / unit, np.float32(448)).astype(F8)
    whole = np.repeat(scale.astype(np.float32) * unit, 16, axis)
    y = np.clip(x / np.where(whole == 0, np.float32(1), whole), -6, 6).astype(F4)
    return Case([x, np.array(unit)], attributes, outputs=2, expected=[y, scale], spelled=pick(dice, *SPELLED), constants=pick(dice, (), (1,)))


# ---- The standard's names, whose types are those of the zero point
def with_zero(case, t):
    zero = np.zeros(case.inputs[1].shape, t)
    return Case([*case.inputs, zero], case.attributes, constants=case.constants, opset=case.opset, spelled="trt", expected=case.expected)


@op("QuantizeLinear", "TRT")
def quantize_linear(dice):
    t = pick(dice, F8, I4)
    case = quantize(dice, t)
    if dice.integers(2):
        return with_zero(case, t)
    case.attributes["output_dtype"], case.spelled = {F8: 17, I4: 22}[t], "trt"
    return case


@op("DequantizeLinear", "TRT")
def dequantize_linear(dice):
    t = pick(dice, F8, I4)
    return with_zero(dequantize(dice, t), t)
