"""Weights quantised in blocks."""
from dataclasses import replace

import ml_dtypes
import numpy as np
from contrib_build import Case, answer, floats, maybe, numbers, op, pick


def leading(dice):
    return pick(dice, (), (1,), (3,), (2, 3), (2, 1, 5))


def zero_points(dice, rows, blocks, bits, dtype):
    kind = dice.integers(4)
    if kind == 0:
        return None
    if kind == 1:
        return (dice.random((rows, blocks)) * 2**bits).astype(dtype)
    shape = pick(dice, (rows, -(-blocks * bits // 8)), (rows * -(-blocks * bits // 8),))
    return numbers(dice, 0, 256, *shape, dtype=np.uint8)


def unpacked(data, bits):
    """The elements of bytes along the last axis, lowest bits first."""
    if bits == 8:
        return data
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((data[..., None] >> shifts) & (2**bits - 1)).reshape(*data.shape[:-1], -1)


def nbits_matrix(b, scales, zero, groups, rows, columns, block, bits):
    """What the document of MatMulNBits says the weights are."""
    blocks = -(-columns // block)
    order = np.arange(columns) // block if groups is None else groups[:columns]
    if zero is None:
        zero = np.full((rows, blocks), 2 ** (bits - 1))
    elif zero.dtype == np.uint8:
        zero = unpacked(zero.reshape(rows, -1), bits)[:, :blocks]
    weights = unpacked(b.reshape(rows, -1), bits)[:, :columns].astype(np.float64)
    zero, scales = (v.reshape(rows, blocks).astype(np.float64)[:, order] for v in (zero, scales))
    return (weights - zero) * scales


def nbits_product(a, b, scales, zero=None, groups=None, bias=None, *, K, N, block_size, bits=4, accuracy_level=0):
    y = a.astype(np.float64) @ nbits_matrix(b, scales, zero, groups, N, K, block_size, bits).T
    return [(y if bias is None else y + bias.astype(np.float64)).astype(a.dtype)]


@op("MatMulNBits", count=40)
def matmul_nbits(dice):
    bits, block = pick(dice, 2, 4, 4, 8), pick(dice, 16, 32, 64, 128)
    rows, columns = pick(dice, 1, 3, 16, 33), pick(dice, block, 2 * block, 3 * block, block + 5, 7)
    dtype = pick(dice, np.float32, np.float32, np.float16, ml_dtypes.bfloat16)
    blocks = -(-columns // block)
    groups = maybe(dice, numbers(dice, 0, blocks, pick(dice, columns, blocks * block), dtype=np.int32), 0.25)
    if groups is not None and dice.random() < 0.3:
        groups = np.arange(columns, dtype=np.int32) // block
    inputs = [floats(dice, *leading(dice), columns, dtype=dtype),
              numbers(dice, 0, 256, rows, blocks, block * bits // 8, dtype=np.uint8),
              (dice.random(pick(dice, (rows, blocks), (rows * blocks,))) * 2.0**-bits).astype(dtype),
              zero_points(dice, rows, blocks, bits, dtype), groups, maybe(dice, floats(dice, rows, dtype=dtype))]
    attributes = {"K": columns, "N": rows, "block_size": block, **pick(dice, {}, {"accuracy_level": 0}, {"accuracy_level": 1})}
    if bits != 4 or dice.random() < 0.5:
        attributes["bits"] = bits
    constants = tuple(i for i in range(1, 6) if inputs[i] is not None) if dice.random() < 0.7 else ()
    case = Case(inputs, attributes, constants=constants, rtol=1e-3, atol=1e-4 if dtype == np.float32 else 4e-3)
    # ONNX Runtime lacks bfloat16 and 8 bits for float16; with groups it ignores packed zero points, and reads 2 bits as 4.
    if dtype == ml_dtypes.bfloat16 or (dtype == np.float16 and bits == 8) or groups is not None:
        case.expected = nbits_product(*inputs, **attributes)
    if dice.random() < 0.2:  # here ONNX Runtime rounds A to bytes; a higher accuracy is as good
        case = replace(case, asked=case, attributes={**attributes, "accuracy_level": 4})
    return case


SMALL_FLOATS = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
                ml_dtypes.float4_e2m1fn)


def gather_indices(dice, size):
    """A few of them out of range: their rows are zeros."""
    return numbers(dice, -size - (dice.random() < 0.3), size + (dice.random() < 0.3), *pick(dice, (), (1,), (5,), (2, 3)),
                   dtype=pick(dice, np.int32, np.int64))


def gather_bytes(dice):
    bits, block = pick(dice, 2, 4, 8), pick(dice, 16, 32, 64)
    lead = pick(dice, (5,), (1,), (7, 2), (3, 1, 4))
    columns = pick(dice, block, 2 * block, block + 8, 8, 3 * block)
    shape, blocks = (*lead, columns), -(-columns // block)
    data = numbers(dice, 0, 256, *lead, columns * bits // 8, dtype=np.uint8)
    scales = floats(dice, *lead, blocks, dtype=pick(dice, np.float32, np.float16, ml_dtypes.bfloat16))
    zero = numbers(dice, 0, 256, *lead, -(-blocks * bits // 8), dtype=np.uint8)
    last = len(shape) - 1
    attributes = {"bits": bits, "block_size": block, "quantize_axis": pick(dice, last, -1), **pick(dice, {}, {"gather_axis": 0})}
    inputs = [data, gather_indices(dice, lead[0]), scales, maybe(dice, zero)]
    case = Case(inputs, attributes, constants=held(pick(dice, (0, 2, 3), (0, 2, 3), ()), inputs))
    if scales.dtype == ml_dtypes.bfloat16:  # the CPU provider lacks it
        wide = replace(case, inputs=[*inputs[:2], scales.astype(np.float32), inputs[3]])
        case.expected = [answer("com.microsoft", "GatherBlockQuantized", wide)[0].astype(ml_dtypes.bfloat16)]
    return case


def held(constants, inputs):
    return tuple(i for i in constants if i < len(inputs) and inputs[i] is not None)


def nibbles(dice, dtype, *shape):
    return numbers(dice, *((-8, 8) if dtype is ml_dtypes.int4 else (0, 16)), *shape).astype(dtype)


def gather_nibbles(dice):
    dtype, block = pick(dice, ml_dtypes.int4, ml_dtypes.uint4), pick(dice, 16, 32)
    shape = [pick(dice, 1, 3, 5, 32) for _ in range(pick(dice, 1, 2, 3))]
    quantize, gather = dice.integers(len(shape)), dice.integers(len(shape))
    shape[quantize] = pick(dice, block, 2 * block, block + 3, 5)
    sizes = [-(-d // block) if i == quantize else d for i, d in enumerate(shape)]
    attributes = {"block_size": block, "quantize_axis": int(quantize), "gather_axis": int(pick(dice, gather, gather - len(shape)))}
    inputs = [nibbles(dice, dtype, *shape), gather_indices(dice, shape[gather]),
              floats(dice, *sizes, dtype=pick(dice, np.float32, np.float16)), maybe(dice, nibbles(dice, dtype, *sizes))]
    return Case(inputs, attributes, constants=held(pick(dice, (0, 2, 3), (0, 3)), inputs))


def gather_floats(dice):
    dtype, block = pick(dice, *SMALL_FLOATS), pick(dice, 0, 16, 32)
    shape = [pick(dice, 1, 3, 5, 32) for _ in range(pick(dice, 1, 2, 3))]
    quantize, gather = dice.integers(len(shape)), dice.integers(len(shape))
    shape[quantize] = pick(dice, 16, 32, 35, 5)
    sizes = [-(-d // (block or d)) if i == quantize else pick(dice, d, d, 1) for i, d in enumerate(shape)]
    attributes = {"block_size": block, "quantize_axis": int(quantize), "gather_axis": int(gather)}
    inputs = [floats(dice, *shape).astype(dtype), gather_indices(dice, shape[gather]),
              floats(dice, *sizes, dtype=pick(dice, np.float32, np.float16))]
    return Case(inputs, attributes, constants=pick(dice, (0, 2), (0,)))


@op("GatherBlockQuantized", count=60)
def gather_block_quantized(dice):
    return pick(dice, gather_bytes, gather_nibbles, gather_floats)(dice)


def projection(dice, rows, columns, block, bits, dtype):
    """Weights, scales, bias, and the floats that the weights stand for. There is no CPU kernel: the document says what is right."""
    blocks = -(-columns // block)
    b = numbers(dice, 0, 256, rows, blocks, block * bits // 8, dtype=np.uint8)
    scales = (dice.random((rows, blocks)) * 2.0**-bits).astype(dtype)
    return [b, scales, maybe(dice, floats(dice, rows, dtype=dtype))], nbits_matrix(b, scales, None, None, rows, columns, block, bits)


def normalised(dice, columns, dtype, epsilon, always):
    shape = (*leading(dice), columns)
    a, skip, scale = (floats(dice, *s, dtype=dtype) for s in (shape, shape, (columns,)))
    if not always and dice.random() < 0.3:
        return [a, None, None], a, a
    skip = maybe(dice, skip)
    total = a if skip is None else a + skip
    x = total.astype(np.float64)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * scale.astype(np.float64)
    return [a, skip, scale], total, x.astype(dtype)


def projected(x, layer):
    (_, _, bias), matrix = layer
    return x.astype(np.float64) @ matrix.T + (0 if bias is None else bias.astype(np.float64))


def fused(dice):
    block, bits, dtype = pick(dice, 16, 32), pick(dice, 2, 4, 4, 8), pick(dice, np.float32, np.float16)
    columns, epsilon = pick(dice, block, 3 * block, block + 5), pick(dice, 1e-6, 1e-3)
    attributes = {"K": columns, "block_size": block, "epsilon": epsilon, **({} if bits == 4 else {"bits": bits})}
    return block, bits, dtype, columns, epsilon, attributes


def fused_case(dice, inputs, attributes, outputs, expected):
    wanted = [f"y{i}" for i in range(outputs)]
    if inputs[1] is None or dice.random() < 0.5:
        wanted, expected = wanted[:-1], expected[:-1]
    half = inputs[0].dtype == np.float16
    return Case(inputs, attributes, outputs=wanted, constants=tuple(i for i, v in enumerate(inputs) if i > 1 and v is not None), expected=expected,
                rtol=1e-2 if half else 1e-3, atol=2e-2 if half else 1e-4)


@op("MatMulNBitsMlp")
def matmul_nbits_mlp(dice):
    block, bits, dtype, columns, epsilon, attributes = fused(dice)
    rows, name = pick(dice, 1, 16, 33), pick(dice, "silu", "relu")
    front, total, x = normalised(dice, columns, dtype, epsilon, False)
    gate, up = (projection(dice, rows, columns, block, bits, dtype) for _ in range(2))
    g = projected(x, gate)
    y = (np.maximum(g, 0) if name == "relu" else g / (1 + np.exp(-g))) * projected(x, up)
    return fused_case(dice, [*front, *gate[0], *up[0]], {**attributes, "N": rows, "activation": name}, 2, [y.astype(dtype), total])


@op("MatMulNBitsQkv")
def matmul_nbits_qkv(dice):
    block, bits, dtype, columns, epsilon, attributes = fused(dice)
    rows = [pick(dice, 1, 16, 33), pick(dice, 4, 8)]
    front, total, x = normalised(dice, columns, dtype, epsilon, True)
    layers = [projection(dice, n, columns, block, bits, dtype) for n in (*rows, rows[1])]
    expected = [projected(x, layer).astype(dtype) for layer in layers]
    inputs = front + [v for layer in layers for v in layer[0]]
    return fused_case(dice, inputs, {**attributes, "Nq": rows[0], "Nkv": rows[1]}, 4, [*expected, total])


@op("MatMulFpQ4")
def matmul_fpq4(dice):
    kind = pick(dice, 0, 1, 2)
    block, columns, rows = 64 if kind == 2 else 32, pick(dice, 1, 32, 33, 64, 96, 130), pick(dice, 1, 3, 16, 33)
    blocks = rows * -(-columns // block)
    parts = [(dice.random((blocks, 1)) / 16).astype(np.float32).view(np.uint8)]
    if kind == 1:
        parts.append(numbers(dice, 0, 16, blocks, 1, dtype=np.uint8))
    data = np.concatenate([*parts, numbers(dice, 0, 256, blocks, block // 2, dtype=np.uint8)], 1).reshape(-1)
    attributes = pick(dice, {}, {"blk_quant_type": 1}) if kind == 1 else {"blk_quant_type": kind}
    inputs = [floats(dice, *(leading(dice) or (1,)), columns), data, np.array([columns, rows], np.int64)]
    return Case(inputs, attributes, constants=(1, 2), rtol=1e-3, atol=1e-4)


def blocks_of(dice, rows, columns, block, bits, dtype):
    """Weights and scales of a matrix in blocks along its columns."""
    blocks = -(-columns // block)
    return [numbers(dice, 0, 256, rows, blocks, block * bits // 8, dtype=np.uint8), (dice.random((rows, blocks)) * 2.0**-bits * 0.3).astype(dtype)]


@op("MatMulNBitsQLoRA")
def matmul_nbits_qlora(dice):
    """The CPU provider has none: by its documentation."""
    bits, block, low_bits, low_block = pick(dice, 2, 4, 8), pick(dice, 16, 32, 64), pick(dice, 2, 4, 8), pick(dice, 16, 32)
    rows, columns, rank, dtype = pick(dice, 1, 16, 33), pick(dice, 7, 32, 70), pick(dice, 1, 8, 20), pick(dice, np.float32, np.float16)
    x = floats(dice, *leading(dice), columns, dtype=dtype)
    base, down, up = (blocks_of(dice, *sizes, dtype) for sizes in (
        (rows, columns, block, bits), (rank, columns, low_block, low_bits), (rows, rank, low_block, low_bits)))
    attributes = {"K": columns, "N": rows, **({} if (bits, block) == (4, 32) else {"bits": bits, "block_size": block}),
                  **({} if (low_bits, low_block) == (8, 32) else {"lora_bits": low_bits, "lora_block_size": low_block}),
                  **pick(dice, {}, {"accuracy_level": 4})}
    product = lambda a, m, n, k, size, width: (
        a.astype(np.float64) @ nbits_matrix(*m, None, None, n, k, size, width).T).astype(dtype)
    y, low = product(x, base, rows, columns, block, bits), product(x, down, rank, columns, low_block, low_bits)
    empty = dice.random()
    if empty < 0.2:
        down[0], low = down[0][:0], np.zeros_like(low)
    elif empty < 0.4:
        up[0] = up[0][:, :0]
    if not 0.2 <= empty < 0.4:
        y = y + product(low, up, rows, rank, low_block, low_bits)
    constants = pick(dice, (), (1, 2), (1, 2, 3, 4, 5, 6))
    return Case([x, *base, *down, *up], attributes, constants=constants, rtol=2e-3 if dtype == np.float32 else 1e-2,
                atol=1e-3 if dtype == np.float32 else 2e-2, expected=[y])
