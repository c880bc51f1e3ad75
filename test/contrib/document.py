"""Operators without a kernel for CPUs: what is right is a definition in numpy, from their documentation."""
import math

import ml_dtypes
import numpy as np
from contrib_build import Case, floats, maybe, numbers, op, pick

HALF = (np.float16, ml_dtypes.bfloat16)
erf = np.vectorize(math.erf, otypes=[np.float64])


def f64(x):
    return x.astype(np.float64)


def tolerance(dtype):
    return {np.float32: 1e-4, np.float16: 4e-3}.get(dtype, 3e-2)


def fast_gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


# ---- Products with an activation
@op("GemmFastGelu")
def gemm_fast_gelu(dice):
    dtype, rows, inner, columns = pick(dice, np.float32, *HALF), pick(dice, 1, 5), pick(dice, 1, 8, 17), pick(dice, 1, 6)
    shape = pick(dice, (rows,), (2, rows), (1, 3, rows))
    x, w = floats(dice, *shape, inner, dtype=dtype), floats(dice, inner, columns, dtype=dtype, scale=0.3)
    bias = maybe(dice, floats(dice, columns, dtype=dtype))
    y = fast_gelu(f64(x) @ f64(w) + (0 if bias is None else f64(bias)))
    return Case([x, w, bias], expected=[y.astype(dtype)], rtol=tolerance(dtype), atol=tolerance(dtype), constants=pick(dice, (), (1,)))


@op("FusedMatMulActivation")
def fused_matmul_activation(dice):
    dtype, rows, inner, columns = pick(dice, np.float32, np.float64), pick(dice, 1, 5), pick(dice, 1, 8), pick(dice, 1, 6)
    a, b = floats(dice, 2, rows, inner, dtype=dtype), floats(dice, inner, columns, dtype=dtype, scale=0.5)
    flags = {"transA": int(dice.integers(2)), "transB": int(dice.integers(2)), "alpha": pick(dice, 1.0, 0.5)}
    y = flags["alpha"] * (f64(a) @ f64(b))
    name, values, result = pick(dice, ("Relu", {}, np.maximum(y, 0)), ("Tanh", {}, np.tanh(y)),
                                ("LeakyRelu", {"activation_alpha": 0.25}, np.where(y < 0, 0.25 * y, y)),
                                ("Elu", {"activation_alpha": 0.5}, np.where(y < 0, 0.5 * np.expm1(y), y)),
                                ("HardSigmoid", {"activation_alpha": 0.5, "activation_beta": 0.25}, np.clip(0.5 * y + 0.25, 0, 1)))
    a, b = (a.swapaxes(1, 2).copy() if flags["transA"] else a), (b.T.copy() if flags["transB"] else b)
    return Case([a, b], {"activation": name, **flags, **values}, expected=[result.astype(dtype)], rtol=1e-4, atol=1e-4)


# ---- Weights in floats of 4 and 8 bits
def scaled(weights, scales, block, dtype):
    wide = np.repeat(scales, block, 1)[:, :weights.shape[1]]
    return f64((weights * wide).astype(dtype))


@op("MatMulBlockQuantizedFp4Weight")
def matmul_fp4(dice):
    dtype, rows, columns, block = pick(dice, *HALF), pick(dice, 1, 5), pick(dice, 1, 6), pick(dice, 16, 16, 32)
    inner = pick(dice, 16, 20, 64) if block == 16 else pick(dice, 32, 96)
    x, packed = floats(dice, *pick(dice, (), (2,)), rows, inner, dtype=dtype), numbers(dice, 0, 256, columns, inner // 2, dtype=np.uint8)
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(columns, inner)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    weights = np.where(codes < 8, 1, -1) * table[codes & 7]
    scale = np.abs(floats(dice, columns, -(-inner // block))).astype(ml_dtypes.float8_e4m3fn)
    every, bias = np.float32(pick(dice, 0.5, 0.013)), maybe(dice, floats(dice, columns, dtype=dtype))
    y = f64(x) @ scaled(weights, scale.astype(np.float32) * every, block, dtype).T + (0 if bias is None else f64(bias))
    inputs = [x, packed, scale.view(np.uint8), every.reshape(pick(dice, (), (1,))), maybe(dice, np.float32(1).reshape(())), bias]
    return Case(inputs, pick(dice, {"block_size": block}, {"block_size": block} if block != 16 else {}), expected=[y.astype(dtype)],
                rtol=tolerance(dtype), atol=10 * tolerance(dtype), constants=pick(dice, (), (1, 2), (1, 2, 3)))


@op("MatMulBlockQuantizedFp8Weight")
def matmul_fp8(dice):
    dtype, rows, columns, block = pick(dice, *HALF), pick(dice, 1, 5), pick(dice, 1, 6), pick(dice, 16, 32, 128)
    inner = pick(dice, 1, 2) * block - pick(dice, 0, 3)
    x, weights = floats(dice, *pick(dice, (), (2,)), rows, inner, dtype=dtype), floats(dice, columns, inner).astype(ml_dtypes.float8_e4m3fn)
    scale = np.abs(floats(dice, columns, -(-inner // block))) + np.float32(0.1)
    a_scale, bias = maybe(dice, np.float32(0.5)), maybe(dice, floats(dice, columns, dtype=dtype))
    a = f64(x) if a_scale is None else f64((x.astype(np.float32) / a_scale).astype(ml_dtypes.float8_e4m3fn)) * float(a_scale)
    y = a @ scaled(weights.astype(np.float32), scale, block, dtype).T + (0 if bias is None else f64(bias))
    inputs = [x, weights, scale, None if a_scale is None else a_scale.reshape(()), bias]
    return Case(inputs, {"block_size": block}, expected=[y.astype(dtype)], rtol=tolerance(dtype), atol=10 * tolerance(dtype),
                constants=pick(dice, (), (1, 2)), element_types={1: 17})


# ---- Sequences of different lengths
@op("VarlenCausalConvWithState")
def varlen_causal_conv(dice):
    dtype, batch, channels = pick(dice, np.float32, *HALF), pick(dice, 1, 2, 3), pick(dice, 1, 4)
    taps, dilation, room = pick(dice, 1, 2, 4), pick(dice, 1, 1, 2, 3), pick(dice, 0, 0, 2, 8)
    lengths, before = dice.integers(1, 6, batch), (taps - 1) * dilation
    ends = np.append(0, np.cumsum(lengths)).astype(np.int32)
    x, w = floats(dice, ends[-1], channels, dtype=dtype), floats(dice, channels, 1, taps, dtype=dtype)
    bias, state = maybe(dice, floats(dice, channels, dtype=dtype)), floats(dice, batch, channels, before, dtype=dtype)
    count = numbers(dice, -1, 9, batch, dtype=np.int32) if room else None
    name = pick(dice, None, "none", "silu", "swish")
    y, final, update = np.zeros((ends[-1], channels)), np.zeros_like(state), np.zeros((batch, room, channels), dtype)
    for b in range(batch):
        own = np.concatenate([state[b].T, x[ends[b]:ends[b + 1]]])
        for t in range(lengths[b]):
            y[ends[b] + t] = sum(f64(own[t + j * dilation]) * f64(w[:, 0, j]) for j in range(taps)) + (0 if bias is None else f64(bias))
        final[b] = own[len(own) - before:].T
        used = 0 if count is None else max(0, min(count[b], room, lengths[b]))
        update[b, :used] = x[ends[b]:ends[b] + used]
    y = silu(y) if name in ("silu", "swish") else y
    attributes = {**({"activation": name} if name else {}), **({"dilation": dilation} if dilation > 1 else {}),
                  **({"state_update_capacity": room} if room else {})}
    # The number of taps must be known.
    return Case([x, w, ends, bias, state, count], attributes, outputs=3 if room else 2, constants=pick(dice, (1,), (1, 3)), rtol=tolerance(dtype),
                atol=tolerance(dtype), expected=[y.astype(dtype), final, update][:3 if room else 2])


# ---- Matrices in rows or in columns
def quantise(x, scale):
    return np.clip(np.rint(x / scale), -128, 127).astype(np.int8)


def scale_of(dice):
    return np.float32(2.0 ** -int(dice.integers(2, 6))).reshape(pick(dice, (), (1,)))


def in_order(x, source, target):
    if source == target or x.ndim < 2:
        return x
    if source == 1:
        return x.swapaxes(-1, -2).copy().reshape(x.shape)
    return x.reshape(*x.shape[:-2], x.shape[-1], x.shape[-2]).swapaxes(-1, -2).copy()


def ordered(dice):
    shape = pick(dice, (7,), (3, 5), (2, 3, 4), (1, 1))
    return shape, {"order_input": int(dice.integers(2)), "order_output": int(dice.integers(2))}


@op("QuantizeWithOrder")
def quantize_with_order(dice):
    (shape, orders), dtype, scale = ordered(dice), pick(dice, np.float32, np.float16), scale_of(dice)
    x = floats(dice, *shape, dtype=dtype, scale=3)
    y = in_order(quantise(x.astype(np.float32), scale.item()), orders["order_input"], orders["order_output"])
    return Case([x, scale], orders, expected=[y])


@op("DequantizeWithOrder")
def dequantize_with_order(dice):
    (shape, orders), to, scale = ordered(dice), pick(dice, 1, 10), scale_of(dice)
    x = numbers(dice, -128, 128, *shape, dtype=np.int8)
    y = in_order(x * scale.item(), orders["order_input"], orders["order_output"])
    return Case([x, scale], {**orders, "to": to}, expected=[y.astype(np.float32 if to == 1 else np.float16)])


@op("QOrderedGelu")
def qordered_gelu(dice):
    x, a, b, order = numbers(dice, -128, 128, *pick(dice, (5,), (2, 7)), dtype=np.int8), scale_of(dice), scale_of(dice), int(dice.integers(2))
    real = x * float(a.item())
    y = quantise(0.5 * real * (1 + erf(real / math.sqrt(2))), b.item())
    return Case([x, a, b], pick(dice, {}, {"order_X": order, "order_Y": order}), expected=[y], atol=1)


@op("QOrderedLayerNormalization")
def qordered_layer_norm(dice):
    width, dtype = pick(dice, 4, 9), pick(dice, np.float32, np.float16)
    x, gamma = numbers(dice, -128, 128, *pick(dice, (3,), (2, 3)), width, dtype=np.int8), floats(dice, width, dtype=dtype)
    beta, a, b, epsilon = maybe(dice, floats(dice, width, dtype=dtype)), scale_of(dice), scale_of(dice), pick(dice, 1e-5, 1e-3)
    real = x * float(a.item())
    y = (real - real.mean(-1, keepdims=True)) / np.sqrt(real.var(-1, keepdims=True) + epsilon)
    y = quantise(y * f64(gamma) + (0 if beta is None else f64(beta)), b.item())
    return Case([x, a, gamma, beta, b], {"epsilon": epsilon, **pick(dice, {}, {"order_X": 1, "order_Y": 1}), **pick(dice, {}, {"axis": -1})},
                expected=[y], atol=1)


@op("QOrderedMatMul")
def qordered_matmul(dice):
    batch, rows, inner, columns = pick(dice, 1, 2), pick(dice, 1, 3), pick(dice, 4, 9), pick(dice, 1, 5)
    a, many = numbers(dice, -20, 20, batch, rows, inner, dtype=np.int8), pick(dice, (), (batch,))
    b = numbers(dice, -20, 20, *many, inner, columns, dtype=np.int8)
    scale_a, scale_y = scale_of(dice), scale_of(dice)
    scale_b = pick(dice, scale_of(dice), 2.0 ** -numbers(dice, 2, 6, columns).astype(np.float32))
    bias, c = maybe(dice, floats(dice, columns)), maybe(dice, numbers(dice, -128, 128, pick(dice, 1, batch), rows, columns, dtype=np.int8))
    scale_c = None if c is None else scale_of(dice)
    y = (f64(a) @ f64(b)) * scale_a.item() * scale_b + (0 if bias is None else bias) + (0 if c is None else c * scale_c.item())
    return Case([a, scale_a, in_order(b, 1, 0), scale_b, scale_y, bias, c, scale_c], {"order_A": 1, "order_B": 0, "order_Y": 1},
                expected=[quantise(y, scale_y.item())], atol=1)
