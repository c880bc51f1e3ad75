"""Streams of hyper-connections, gates, sums with a bias, dropout."""
import math

import numpy as np
from contrib_build import Case, floats, maybe, op, pick
from normalization import HALVES, epsilon, numpy_float, tolerances


def streams(dice, dtype):
    """x, its sizes before the branches, branches, hidden, attributes"""
    branches, hidden, flat = pick(dice, 1, 2, 4), pick(dice, 1, 8, 17), dice.integers(2)
    outer = pick(dice, (2, 3), (5,), (1, 2, 2), (0, 3))
    shape = (*outer, branches * hidden) if flat else (*outer, branches, hidden)
    return floats(dice, *shape, dtype=dtype), outer, branches, hidden, ({"num_branches": branches} if flat else {})


@op("HyperConnectionPreMix")
def hyper_connection_pre_mix(dice):
    dtype = pick(dice, *HALVES)
    x, outer, branches, hidden, attributes = streams(dice, dtype)
    shapes = [(branches,), (branches, 1), (branches, hidden)] + ([(branches * hidden,)] if attributes else [])
    mix = floats(dice, *outer, *pick(dice, *shapes), dtype=pick(dice, *HALVES))
    attributes |= pick(dice, {}, {"reduction_scale": 0.25})
    return Case([x, mix], attributes, **tolerances(dtype))


@op("HyperConnectionPostMix")
def hyper_connection_post_mix(dice):
    dtype, mixing = pick(dice, *HALVES), pick(dice, *HALVES)
    x, outer, branches, hidden, attributes = streams(dice, dtype)
    post = floats(dice, *outer, *pick(dice, (branches,), (branches, 1), (branches, hidden)), dtype=mixing)
    matrix = maybe(dice, floats(dice, *outer, branches, branches, dtype=mixing))
    return Case([x, floats(dice, *outer, hidden, dtype=dtype), post, matrix], attributes, **tolerances(dtype))


@op("EngramGate")
def engram_gate(dice):
    dtype = pick(dice, np.float32, np.float16)
    batch, length, branches, hidden = pick(dice, 1, 2), pick(dice, 0, 1, 3), pick(dice, 1, 2, 4), pick(dice, 1, 8, 17)
    many = lambda: floats(dice, batch, length, branches, hidden, dtype=dtype)
    scale = lambda: floats(dice, branches, hidden, dtype=dtype)
    outputs = pick(dice, 1, 2)
    conv = scale() if outputs == 2 else maybe(dice, scale())
    return Case([many(), many(), floats(dice, batch, length, hidden, dtype=dtype), scale(), scale(), conv],
                epsilon(dice), outputs=outputs, **tolerances(dtype))


@op("GatedAdd")
def gated_add(dice):
    dtype = pick(dice, np.float32, np.float16)
    shape = (*pick(dice, (2, 3), (5,), (), (0, 2)), pick(dice, 1, 8, 33))
    inputs = [floats(dice, *shape, dtype=dtype), floats(dice, *shape, dtype=dtype), floats(dice, *shape[:-1], 1, dtype=dtype)]
    case = Case(inputs, **tolerances(dtype))
    if dice.random() < 0.3:  # a gate that is computed, which the CPU provider lacks
        inner = pick(dice, 1, 8, 17)
        inputs[2:] = floats(dice, *shape[:-1], inner, dtype=dtype), floats(dice, inner, 1, dtype=dtype)
        gate = 1 / (1 + np.exp(-(inputs[2].astype(np.float64) @ inputs[3].astype(np.float64))))
        case.expected = [(inputs[0] + inputs[1] * gate).astype(dtype)]
    return case


@op("HyperConnectionLowRankMix")
def hyper_connection_low_rank_mix(dice):
    """The CPU provider has none: by its documentation, which rounds every step to the type."""
    dtype, branches, hidden, low = pick(dice, *HALVES), pick(dice, 1, 2, 4), pick(dice, 1, 8, 17), pick(dice, 1, 4)
    outer, wide = pick(dice, (2, 3), (5,), ()), branches * hidden
    real, cast = (lambda v: v.astype(np.float64)), (lambda v: np.asarray(v).astype(dtype).astype(np.float64))
    inputs = [floats(dice, *outer, wide, dtype=dtype), floats(dice, wide, dtype=dtype), floats(dice, wide, low, dtype=dtype, scale=0.3),
              floats(dice, low, wide, dtype=dtype, scale=0.3), floats(dice, wide, branches, dtype=dtype, scale=0.3)]
    options = {"epsilon": 1e-5, "silu_alpha": 1.0, "reduction_scale": 1.0, "gate_div": 1.0, "gate_mul": 1.0}
    attributes = pick(dice, {}, {"silu_alpha": 1.5, "reduction_scale": 0.5, "gate_div": 4.0, "gate_mul": 2.0, "epsilon": 1e-3})
    options |= attributes
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    streams = real(inputs[0]).reshape(*outer, branches, hidden)
    if dice.random() < 0.5:
        inputs += [floats(dice, *outer, hidden, dtype=dtype), floats(dice, *outer, branches, dtype=dtype)]
        streams = cast(streams + real(inputs[6])[..., None] * real(inputs[5])[..., None, :])
    normal = streams / np.sqrt((streams**2).mean(-1, keepdims=True) + options["epsilon"])
    hn = cast(normal * real(inputs[1]).reshape(branches, hidden)).reshape(*outer, wide)
    z = cast(options["silu_alpha"] * cast(hn @ real(inputs[2])))
    gate = cast(sigmoid(cast(cast(z * cast(sigmoid(z))) @ real(inputs[3]))))
    pre = options["reduction_scale"] * (hn * gate).reshape(*outer, branches, hidden).sum(-2)
    post = cast(cast(sigmoid(cast(cast(hn @ real(inputs[4])) / options["gate_div"]))) * options["gate_mul"])
    case = Case(inputs, {"num_branches": branches, **attributes}, pick(dice, 2, 3), **tolerances(dtype))
    case.atol = case.rtol = 2e-2 if dtype != np.float32 else 1e-4
    case.expected = [v.astype(dtype) for v in (pre, post, streams.reshape(*outer, wide))][:case.outputs]
    return case


# ---- For GPUs only: their definitions in numpy
def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def sums_of(case, *expected):
    case.expected = [v.astype(case.inputs[0].dtype) for v in expected]
    return case


@op("BiasAdd")
def bias_add(dice):
    dtype, channels = pick(dice, np.float32, np.float16), pick(dice, 1, 8, 33)
    shape = (pick(dice, 1, 2), pick(dice, 1, 5), channels)
    x, bias, skip = floats(dice, *shape, dtype=dtype), floats(dice, channels, dtype=dtype), floats(dice, *shape, dtype=dtype)
    return sums_of(Case([x, bias, skip], **tolerances(dtype)), numpy_float(x) + numpy_float(bias) + numpy_float(skip))


@op("BiasSplitGelu")
def bias_split_gelu(dice):
    dtype, width = pick(dice, np.float32, np.float16), pick(dice, 2, 8, 34)
    x, bias = floats(dice, pick(dice, 1, 2), pick(dice, 1, 5), width, dtype=dtype), floats(dice, width, dtype=dtype)
    left, right = np.split(numpy_float(x) + numpy_float(bias), 2, axis=-1)
    return sums_of(Case([x, bias], **tolerances(dtype)), left * right * (1 + erf(right / math.sqrt(2))) / 2)


@op("BiasSoftmax")
def bias_softmax(dice):
    dtype = pick(dice, np.float32, np.float64, np.float16)
    shape, inner = (2, 3, 4, 5), int(dice.integers(2))
    bias = pick(dice, (2, 1, 1, 5), (2, 1, 4, 5)) if inner else pick(dice, (4, 5), (1, 1, 4, 5), (3, 4, 5))
    axis = pick(dice, 3, -1, 2, 1, None)
    x, bias = floats(dice, *shape, dtype=dtype, scale=3), floats(dice, *bias, dtype=dtype)
    rows = (numpy_float(x) + numpy_float(bias)).reshape(*shape[:axis or 1], -1)
    exps = np.exp(rows - rows.max(-1, keepdims=True))
    attributes = {"is_inner_broadcast": inner, **({} if axis is None else {"axis": axis})}
    return sums_of(Case([x, bias], attributes, **tolerances(dtype)),
                   (exps / exps.sum(-1, keepdims=True)).reshape(shape))


def all_bits(count):
    return np.full((count + 31) // 32, 0xFFFFFFFF, np.uint32)


def dropout(dice, biased, mask):
    dtype = pick(dice, np.float32, np.float64, np.float16)
    shape = pick(dice, (2, 3, 8), (5, 33), (64,))
    inputs = [floats(dice, *shape, dtype=dtype)]
    total = numpy_float(inputs[0])
    if biased:
        bias, residual = floats(dice, *pick(dice, shape, shape[-1:]), dtype=dtype), maybe(dice, floats(dice, *shape, dtype=dtype))
        inputs += [bias, residual]
        total = total + numpy_float(bias) + (0 if residual is None else numpy_float(residual))
    ratio = maybe(dice, np.array(0.25, np.float32))
    inputs += [ratio, maybe(dice, np.array(False)) if ratio is not None else None]
    case = Case(inputs, pick(dice, {}, {"seed": 7}), outputs=pick(dice, 1, 2), **tolerances(dtype))
    case.expected = [total.astype(dtype), mask(shape)][:case.outputs]
    return case


@op("BitmaskDropout")
def bitmask_dropout(dice):
    return dropout(dice, False, lambda shape: all_bits(math.prod(shape)))


@op("BiasDropout")
def bias_dropout(dice):
    return dropout(dice, True, lambda shape: np.ones(shape, bool))


@op("BitmaskBiasDropout")
def bitmask_bias_dropout(dice):
    return dropout(dice, True, lambda shape: all_bits(math.prod(shape)))
