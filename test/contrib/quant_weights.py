"""Weights quantised in blocks."""
import ml_dtypes
import numpy as np
from contrib_build import Case, floats, maybe, numbers, op, pick


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
        case.asked, case.attributes = attributes, {**attributes, "accuracy_level": 4}
    return case
