"""Matrix products and convolutions with what ONNX Runtime's optimizer fused into them."""
import numpy as np
from contrib_build import Case, floats, maybe, numbers, op, pick
from normalization import tolerances

# ---- Matrix products


def fused_matmul_case(dice, dtype, batch_flags):
    rank_a, rank_b = pick(dice, (2, 2), (3, 3), (4, 4), (3, 2), (4, 2), (2, 3), (1, 2), (2, 1), (1, 1), (5, 5))
    m, k, n = pick(dice, 1, 5, 16), pick(dice, 1, 7, 32), pick(dice, 1, 3, 17)
    batch = [int(s) for s in dice.integers(1, 4, max(rank_a, rank_b) - 2)] if max(rank_a, rank_b) > 2 else []
    attributes = {}

    def operand(rank, rows, columns, side):
        if rank == 1:
            return floats(dice, k, dtype=dtype)
        swap, shift = int(dice.integers(2)), int(dice.integers(2)) if batch_flags and rank_a == rank_b > 2 else 0
        shape = [*batch[len(batch) - (rank - 2):], rows, columns] if rank > 2 else [rows, columns]
        if swap:
            shape[-2:] = shape[:-3:-1]
        if shift:  # axis 0 becomes the last but one
            shape = [shape[-2], *shape[:-2], shape[-1]]
        attributes[f"trans{side}"] = swap
        if shift:
            attributes[f"transBatch{side}"] = 1
        return floats(dice, *shape, dtype=dtype)
    a, b = operand(rank_a, m, k, "A"), operand(rank_b, k, n, "B")
    attributes |= pick(dice, {}, {"alpha": 0.5}, {"alpha": -3.0})
    case = Case([a, b], attributes, constants=pick(dice, (), (1,)))
    # ONNX Runtime multiplies a vector by a transposed A as if A were not transposed in memory.
    if rank_a > 1 and rank_b == 1 and attributes["transA"]:
        case.expected = [attributes.get("alpha", 1) * np.swapaxes(a, -1, -2) @ b]
    return case


@op("FusedMatMul")
def fused_matmul(dice):
    return fused_matmul_case(dice, pick(dice, np.float32, np.float64), True)


@op("TransposeMatMul")
def transpose_matmul(dice):
    return fused_matmul_case(dice, np.float32, False)


GEMM_ACTIVATIONS = {"Celu": ("alpha",), "Elu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",),
                    "ParametricSoftplus": ("alpha", "beta"), "Relu": (), "ScaledTanh": ("alpha", "beta"),
                    "Selu": ("alpha", "gamma"), "Sigmoid": (), "Softplus": (), "Softsign": (), "Tanh": (),
                    "ThresholdedRelu": ("alpha",)}


@op("FusedGemm", count=40)
def fused_gemm(dice):
    m, k, n = pick(dice, 1, 5, 16), pick(dice, 1, 7, 32), pick(dice, 1, 3, 17)
    swap_a, swap_b = int(dice.integers(2)), int(dice.integers(2))
    a, b = floats(dice, *((k, m) if swap_a else (m, k))), floats(dice, *((n, k) if swap_b else (k, n)))
    c = maybe(dice, floats(dice, *pick(dice, (m, n), (n,), (1, n), (m, 1), (1,))), 0.7)
    name = pick(dice, *GEMM_ACTIVATIONS)
    attributes = {"transA": swap_a, "transB": swap_b, **pick(dice, {}, {"alpha": 0.5}), **pick(dice, {}, {"beta": -1.5})}
    attributes |= pick(dice, {}, *[{"activation": name}] * 8)
    if "activation" in attributes:
        attributes |= {f"activation_{p}": float(dice.uniform(0.2, 1.5)) for p in GEMM_ACTIVATIONS[name]}
    return Case([a, b, c], attributes, constants=pick(dice, (), (1,)))


# ---- Convolutions
def activation(dice):
    return pick(dice, {}, {"activation": "Relu"}, {"activation": "Tanh"}, {"activation": "Sigmoid"},
                {"activation": "HardSwish"}, {"activation": "LeakyRelu", "activation_params": [0.125]},
                {"activation": "Clip", "activation_params": [-0.5, 0.75]},
                {"activation": "HardSigmoid", "activation_params": [0.25, 0.4]})


def conv_attributes(dice, kernel, channels, group):
    rank = len(kernel)
    attributes = {"group": group, **pick(dice, {}, {"kernel_shape": list(kernel)}), **pick(dice, {}, {"strides": [2] * rank}),
                  **pick(dice, {}, {"dilations": [2] * rank})}
    attributes |= pick(dice, {}, {"pads": [int(p) for p in dice.integers(0, 2, 2 * rank)]}, {"auto_pad": "SAME_UPPER"},
                       {"auto_pad": "VALID"})
    if "dilations" in attributes:
        attributes.pop("auto_pad", None)
    return attributes


@op("FusedConv")
def fused_conv(dice):
    rank, group = pick(dice, 1, 2, 2, 2, 3), pick(dice, 1, 1, 2)
    kernel = [int(k) for k in dice.integers(1, 4, rank)]
    image = [int(s) for s in dice.integers(6, 9, rank)]
    channels, filters = group * pick(dice, 1, 3), group * pick(dice, 1, 4)
    attributes = {**conv_attributes(dice, kernel, channels, group), **activation(dice)}
    inputs = [floats(dice, pick(dice, 1, 2), channels * 1, *image), floats(dice, filters, channels // group, *kernel),
              maybe(dice, floats(dice, filters)), None]
    case = Case(inputs, attributes, constants=pick(dice, (), (1,), (1, 2) if inputs[2] is not None else (1,)))
    if dice.random() < 0.5:
        inputs[3] = floats(dice, *convolved_shape(case))
    return case


def convolved_shape(case):
    from contrib_build import answer
    return answer("com.microsoft", "FusedConv", Case(case.inputs[:3], case.attributes))[0].shape


def channels_last(x):
    return np.moveaxis(x, 1, -1)


def nhwc_case(dice, with_sum):
    """By FusedConv on channels first"""
    from contrib_build import answer
    dtype = pick(dice, np.float32, np.float16)
    case = fused_conv(dice)
    case.inputs[:] = [v if v is None else v.astype(dtype) for v in case.inputs]
    if not with_sum:
        case.inputs[3:] = []
        case.attributes = {k: v for k, v in case.attributes.items() if not k.startswith("activation")}
    wide = [v if v is None else v.astype(np.float32) for v in case.inputs]
    y = answer("com.microsoft", "FusedConv", Case(wide, case.attributes))[0]
    case.inputs[0] = channels_last(case.inputs[0])
    if not with_sum:
        case.inputs[1] = channels_last(case.inputs[1])
    if with_sum and case.inputs[3] is not None:
        case.inputs[3] = channels_last(case.inputs[3])
    case.expected = [channels_last(y).astype(dtype)]
    vars(case).update(tolerances(dtype))
    return case


@op("NhwcConv")
def nhwc_conv(dice):
    return nhwc_case(dice, False)


@op("NhwcFusedConv")
def nhwc_fused_conv(dice):
    return nhwc_case(dice, True)


@op("NhwcMaxPool")
def nhwc_max_pool(dice):
    rank = pick(dice, 1, 2, 2, 3)
    kernel = [int(k) for k in dice.integers(1, 4, rank)]
    shape = (pick(dice, 1, 2), *[int(s) for s in dice.integers(6, 9, rank)], pick(dice, 1, 3, 16))
    attributes = {"kernel_shape": kernel, **pick(dice, {}, {"strides": [2] * rank}), **pick(dice, {}, {"dilations": [2] * rank}),
                  **pick(dice, {}, {"ceil_mode": 1})}
    attributes |= pick(dice, {}, {"pads": [0 if k == 1 else 1 for k in kernel * 2]}, {"auto_pad": "SAME_LOWER"})
    if "dilations" in attributes:
        attributes.pop("auto_pad", None)
    dtype = pick(dice, np.int8, np.uint8)
    return Case([numbers(dice, np.iinfo(dtype).min, np.iinfo(dtype).max, *shape, dtype=dtype)], attributes)
