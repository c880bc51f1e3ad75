"""Products of quantised matrices."""
import numpy as np
from contrib_build import Case, floats, maybe, numbers, op, pick
from qlinear import integers


def types(dice):
    a = pick(dice, np.int8, np.uint8)
    return a, np.int8 if a == np.int8 else pick(dice, np.int8, np.uint8)


def weights(dice, dtype, *shape):
    """Of 7 bits: without VNNI, ONNX Runtime's products of uint8 and int8 saturate."""
    return numbers(dice, -64, 64, *shape, dtype=dtype) if dtype == np.int8 else integers(dice, dtype, *shape)


def some_scales(dice, *shape):
    return (2.0 ** dice.uniform(-7, -3, shape)).astype(np.float32)


def constants(dice, inputs, free):
    return tuple(i for i, v in enumerate(inputs) if i not in free and v is not None) if dice.random() < 0.7 else ()


@op("QGemm")
def qgemm(dice):
    a_type, b_type = types(dice)
    m, k, n = (pick(dice, 1, 3, 16, 33) for _ in range(3))
    turn_a, turn_b = pick(dice, 0, 1), pick(dice, 0, 1)
    of, one = pick(dice, (), (1,), (n,)), pick(dice, (), (1,))
    c = numbers(dice, -5000, 5000, *pick(dice, (), (1,), (n,), (1, n), (m, 1), (m, n)), dtype=np.int32)
    y = [some_scales(dice, *one) * np.float32(30), integers(dice, a_type, *one)] if dice.random() < 0.6 else [None, None]
    inputs = [integers(dice, a_type, *((k, m) if turn_a else (m, k))), some_scales(dice, *one), integers(dice, a_type, *one),
              weights(dice, b_type, *((n, k) if turn_b else (k, n))), some_scales(dice, *of), weights(dice, b_type, *of), maybe(dice, c), *y]
    attributes = {**pick(dice, {}, {"alpha": 0.5}, {"alpha": 1.7}), **pick(dice, {}, {"transA": turn_a}), **pick(dice, {}, {"transB": turn_b})}
    for name, turn, i in (("transA", turn_a, 0), ("transB", turn_b, 3)):
        if turn and name not in attributes:
            inputs[i] = inputs[i].T.copy()
    while inputs[-1] is None:
        inputs.pop()
    return Case(inputs, attributes, constants=constants(dice, inputs, (0,)), rtol=1e-6 if y[0] is None else 0, atol=0)


def matrices(dice):
    m, k, n = (pick(dice, 1, 3, 16, 33) for _ in range(3))
    a, b = pick(dice, ((m, k), (k, n)), ((2, m, k), (k, n)), ((2, 1, m, k), (3, k, n)), ((k,), (k, n)))
    return a, b, n


@op("MatMulIntegerToFloat")
def matmul_integer_to_float(dice):
    a_type, b_type = types(dice)
    a, b, n = matrices(dice)
    of, one = pick(dice, (), (1,), (n,)) if len(b) == 2 else pick(dice, (), (1,)), pick(dice, (), (1,))
    inputs = [integers(dice, a_type, *a), weights(dice, b_type, *b), some_scales(dice, *one), some_scales(dice, *of),
              maybe(dice, integers(dice, a_type, *one)), maybe(dice, weights(dice, b_type, *of)), maybe(dice, floats(dice, n))]
    return Case(inputs, constants=constants(dice, inputs, (0,)), rtol=1e-5, atol=1e-4)


@op("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(dice):
    _, b_type = types(dice)
    a, b, n = matrices(dice)
    of = pick(dice, (), (1,), (n,)) if len(b) == 2 else pick(dice, (), (1,))
    data = floats(dice, *a) + np.float32(pick(dice, 0, 0, 5, -5))
    inputs = [data * np.float32(pick(dice, 0, 1, 1, 1)), weights(dice, b_type, *b), some_scales(dice, *of),
              maybe(dice, weights(dice, b_type, *of)), maybe(dice, floats(dice, n))]
    return Case(inputs, constants=constants(dice, inputs, (0,)), rtol=1e-5, atol=1e-4)


@op("MatMulInteger16")
def matmul_integer16(dice):
    a, b, _ = matrices(dice)
    inputs = [numbers(dice, -2000, 2000, *s, dtype=np.int16) for s in (a, b)]
    return Case(inputs, constants=pick(dice, (), (1,)), rtol=0, atol=0)


FP4 = np.array([0, 1 / 192, 2 / 3, 1, 1 / 3, 0.5, 1 / 6, 0.25])
NF4 = np.array([-1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0, 0.0795803, 0.1609302, 0.2461123,
                0.33791524, 0.44070983, 0.562617, 0.72295684, 1])
TABLES = (np.concatenate([FP4, -FP4]), NF4)


@op("MatMulBnb4")
def matmul_bnb4(dice):
    block, columns, rows = pick(dice, 16, 32, 64), pick(dice, 1, 16, 33, 64, 96), pick(dice, 1, 3, 16, 33)
    turned = pick(dice, 1, 1, 0)
    shape = (*pick(dice, (), (1,), (3,), (2, 3)), columns if turned else rows)
    count = rows * columns
    attributes = {"K": columns, "N": rows, "block_size": block, "quant_type": pick(dice, 0, 1), **pick(dice, {}, {"training_mode": 0})}
    if not turned or dice.random() < 0.5:
        attributes["transB"] = turned
    inputs = [floats(dice, *shape), integers(dice, np.uint8, (count + 1) // 2), some_scales(dice, -(-count // block))]
    case = Case(inputs, attributes, constants=pick(dice, (1, 2), (1, 2), ()), rtol=1e-4, atol=1e-5)
    if not turned:  # ONNX Runtime multiplies with the transpose all the same
        codes = np.stack([inputs[1] >> 4, inputs[1] & 15], -1).reshape(-1)[:count]
        matrix = TABLES[attributes["quant_type"]][codes] * np.repeat(inputs[2], block)[:count]
        case.expected = [(inputs[0] @ matrix.reshape(rows, columns)).astype(np.float32)]
    return case
