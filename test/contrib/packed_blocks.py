"""Weights in the block formats of GGML."""
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from contrib_build import Case, answer, floats, maybe, numbers, op, pick

bfloat16 = ml_dtypes.bfloat16
GATHERED = (0, 1, 2, 6, 8, 13, 14, 16, 17, 18, 20, 22, 23, 30, 42)  # by ONNX Runtime's CPU provider


@dataclass
class Format:
    elements: int
    bytes: int
    halves: tuple = (0,)  # where scales of f16 lie
    values: object = None  # a function of blocks, (rows, bytes), that gives (rows, elements); None: ONNX Runtime gathers them


def half(b, at):
    return b[:, at:at + 2].copy().view(np.float16).astype(np.float32)


def nibbles(b, at, size, run=32):
    """Elements of 4 bits: those of a run share its bytes."""
    bytes_ = b[:, at:at + size].reshape(len(b), -1, 1, run // 2)
    return (bytes_ >> np.array([0, 4], np.uint8)[:, None] & 15).reshape(len(b), -1)


def crumbs(b, at, size):
    """Elements of 2 bits: 128 share 32 bytes."""
    return (b[:, at:at + size].reshape(len(b), -1, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3).reshape(len(b), -1)


def spread(v, group):
    return np.repeat(v, group, -1).astype(np.float32)


def q4_1(b):
    return nibbles(b, 4, 16) * half(b, 0) + half(b, 2)


def q5_1(b):
    high = np.unpackbits(b[:, 4:8], axis=1, bitorder="little")
    return (nibbles(b, 8, 16) + 16 * high) * half(b, 0) + half(b, 2)


def q2_k(b):
    scales = b[:, :16]
    return crumbs(b, 16, 64) * spread(half(b, 80) * (scales & 15), 16) - spread(half(b, 82) * (scales >> 4), 16)


def q3_k(b):
    low = np.concatenate([b[:, 96:104] & 15, b[:, 96:104] >> 4], 1)
    high = np.concatenate([b[:, 104:108] >> s & 3 for s in (0, 2, 4, 6)], 1)
    top = np.concatenate([b[:, :32] >> s & 1 for s in range(8)], 1)
    return (crumbs(b, 32, 64) + 4.0 * top - 4) * spread(half(b, 108) * ((low | high << 4).astype(np.float32) - 32), 16)


def q4_k(b):
    first, second, third = b[:, 4:8], b[:, 8:12], b[:, 12:16]
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], 1)
    least = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], 1)
    return nibbles(b, 16, 128, 64) * spread(half(b, 0) * scales, 32) - spread(half(b, 2) * least, 32)


def fp4(codes):
    return codes.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def mxfp4(b):
    return fp4(nibbles(b, 1, 16)) * np.exp2(b[:, :1].astype(np.float32) - 127)


def nvfp4(b):
    scales = (b[:, :4] & 127).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    return fp4(nibbles(b, 4, 32, 16)) * spread(np.nan_to_num(scales, nan=0), 16)


FORMATS = {
    0: Format(1, 4, ()), 1: Format(1, 2), 2: Format(32, 18), 3: Format(32, 20, (0, 2), q4_1), 6: Format(32, 22),
    7: Format(32, 24, (0, 2), q5_1), 8: Format(32, 34), 10: Format(256, 84, (80, 82), q2_k), 11: Format(256, 110, (108,), q3_k),
    12: Format(256, 144, (0, 2), q4_k), 13: Format(256, 176, (0, 2)), 14: Format(256, 210, (208,)), 16: Format(256, 66),
    17: Format(256, 74), 18: Format(256, 98), 20: Format(32, 18), 22: Format(256, 82), 23: Format(256, 136), 30: Format(1, 2, ()),
    39: Format(32, 17, (), mxfp4), 40: Format(64, 36, (), nvfp4), 42: Format(64, 18),
}


def packed(dice, kind, rows, columns):
    """Random rows whose scales are finite."""
    f = FORMATS[kind]
    if kind in (0, 1, 30):
        return floats(dice, rows, columns, dtype={0: np.float32, 1: np.float16, 30: bfloat16}[kind], scale=0.1).view(np.uint8)
    b = numbers(dice, 0, 256, rows * (columns // f.elements), f.bytes, dtype=np.uint8)
    for at in f.halves:
        b[:, at:at + 2] = (dice.standard_normal((len(b), 1)) * 0.02).astype(np.float16).view(np.uint8)
    if kind == 39:
        b[:, 0] = numbers(dice, 110, 130, len(b))
    return b.reshape(rows, -1)


def columns_of(dice, kind):
    block = FORMATS[kind].elements
    return block * int(dice.integers(1, 4)) if block > 1 else int(dice.integers(1, 9)) * 8


def gather(kind, data, indices, columns, dtype=1):
    attributes = {"packed_type": kind, "K": columns, "output_dtype": dtype}
    return Case([data, indices], attributes, rtol=0, atol=0)


def real(kind, data, columns):
    """What the rows stand for, in floats."""
    values = FORMATS[kind].values
    if values:
        return values(data.reshape(-1, FORMATS[kind].bytes)).astype(np.float32).reshape(len(data), -1)
    return answer("com.microsoft", "GatherPacked", gather(kind, data, np.arange(len(data)), columns))[0]


@op("GatherPacked", count=60)
def gather_packed(dice):
    kind, rows = pick(dice, *FORMATS), int(dice.integers(1, 9))
    columns = columns_of(dice, kind)
    dtype = pick(dice, (1, np.float32), (10, np.float16), (16, bfloat16))
    data = packed(dice, kind, rows, columns)
    indices = numbers(dice, -2, rows + 2, *pick(dice, (), (3,), (2, 4), (0,)), dtype=pick(dice, np.int32, np.int64))
    case = gather(kind, data, indices, columns, dtype[0])
    if kind not in GATHERED:
        inside = np.where((indices >= 0) & (indices < rows), indices, 0)
        case.expected = [real(kind, data, columns)[inside].astype(dtype[1])]
        case.rtol = 0 if dtype[0] == 1 else 1e-2
    case.constants = pick(dice, (), (0,), (0,))
    return case


def activated(name, y):
    y = y.astype(np.float32)
    if name == "silu":
        return y / (1 + np.exp(-y))
    return np.maximum(y, 0)**2 if name.startswith("relu") else y


@op("MatMulPacked", count=60)
def matmul_packed(dice):
    """The CPU provider has no kernel: by the documentation, with weights that are not rounded."""
    kind, rows = pick(dice, *FORMATS), pick(dice, 1, 5, 16, 33)
    columns, dtype = columns_of(dice, kind), pick(dice, np.float16, bfloat16)
    data = packed(dice, kind, rows, columns)
    a = floats(dice, *pick(dice, (), (1,), (3,), (2, 5), (40,)), columns, dtype=dtype)
    scale = np.float32(dice.random() + 0.5) if kind == 40 and dice.random() < 0.7 else None
    name = pick(dice, None, None, "none", "relu2", "relu_squared", "silu")
    exact = a.astype(np.float64) @ real(kind, data, columns).astype(np.float64).T
    y = (exact * (1 if scale is None else scale)).astype(dtype)
    inputs = [a, data] + ([np.array(scale, np.float32)] if scale is not None else [])
    attributes = {"packed_type": kind, "N": rows, "K": columns, **({"activation_type": name} if name else {})}
    steps = 2e-3 if dtype == np.float16 else 1.6e-2
    return Case(inputs, attributes, constants=pick(dice, (), (1,), (1,), (1,)), rtol=steps * (2 if name else 1), atol=steps * 0.1,
                expected=[activated(name or "none", y).astype(dtype)])


# ---- Mixtures of experts
def mixing_of(scores, weights, k, normalised, epsilon, factor):
    """The chosen experts of each row, and their weights."""
    scores = scores.astype(np.float32)
    if weights is None:
        e = np.exp(scores - scores.max(-1, keepdims=True))
        scores = weights = e / e.sum(-1, keepdims=True)
    chosen = np.argsort(-scores, axis=-1, kind="stable")[:, :k]
    mixing = np.take_along_axis(weights.astype(np.float32), chosen, -1)
    if normalised:
        total = mixing.sum(-1, keepdims=True) + np.float32(epsilon)
        mixing = np.where(total == 0, 0, mixing / np.where(total == 0, 1, total))
    return chosen, mixing * np.float32(factor)


@op("MoEPacked", count=30)
def moe_packed(dice):
    """The CPU provider has no kernel: by the documentation."""
    kinds, dtype = [pick(dice, *FORMATS) for _ in range(3)], pick(dice, np.float16, bfloat16)
    hidden, inner, count = 256, pick(dice, 256, 512), pick(dice, 3, 5)
    tokens, k = pick(dice, (5,), (1,), (2, 3), (40,), (2, 2, 4), ()), pick(dice, 1, 2, 3)
    rows, gated = int(np.prod(tokens)), bool(dice.integers(2))
    sizes = [(inner, hidden), (inner, hidden), (hidden, inner)]
    data = [packed(dice, kind, count * n, m).reshape(count, n, -1) for kind, (n, m) in zip(kinds, sizes)]
    gate, up, down = (real(kind, w.reshape(count * n, -1), m).reshape(count, n, m) * 1.0
                      for kind, w, (n, m) in zip(kinds, data, sizes))
    x, routing = floats(dice, *tokens, hidden, dtype=dtype, scale=0.1), pick(dice, np.float32, dtype)
    scores = dice.permuted(np.tile(np.linspace(-2, 2, count), (rows, 1)), axis=-1).astype(routing)
    weights = maybe(dice, dice.random((rows, count)).astype(routing))
    options = {"k": k}
    normalised = pick(dice, 1, 1, 0)
    if not normalised or dice.random() < 0.5:
        options["normalize_routing_weights"] = normalised
    epsilon, factor = (pick(dice, 0, 0.125), pick(dice, 1, 2.5)) if weights is not None else (0, 1)
    options |= ({"routing_epsilon": epsilon} if epsilon else {}) | ({"routed_scaling_factor": factor} if factor != 1 else {})
    attributes = {"gate_type": kinds[0], "down_type": kinds[2], **options,
                  **({"up_type": kinds[1]} if gated else {"activation_type": pick(dice, "relu2", "relu_squared")})}
    chosen, mixing = mixing_of(scores, weights, k, normalised, epsilon, factor)
    tokens_of = x.astype(np.float64).reshape(rows, hidden)
    y = np.zeros((rows, hidden))
    for i in range(rows):
        for expert, weight in zip(chosen[i], mixing[i]):
            g = gate[expert] @ tokens_of[i]
            h = g / (1 + np.exp(-g)) * (up[expert] @ tokens_of[i]) if gated else np.maximum(g, 0)**2
            y[i] += weight * (down[expert] @ h)
    inputs = [x, scores, data[0], data[1] if gated else None, data[2], weights]
    while inputs[-1] is None:
        inputs.pop()
    constants = tuple(i for i in (2, 3, 4) if inputs[i] is not None) if dice.random() < 0.8 else ()
    steps = 2e-3 if dtype == np.float16 else 1.6e-2
    return Case(inputs, attributes, constants=constants, rtol=steps, atol=steps * float(np.abs(y).max()),
                expected=[y.reshape(*tokens, hidden).astype(dtype)])
