"""Writes cases for Gradient: one for each rule, against central differences in double precision.

usage: gradient_cases.py OUT        OUT/OPERATOR/K/...; second derivatives are in OUT/OPERATOR/K-2

A model computes p = op(x0, x1, ...) * weights and the gradient of p with respect to some of x0, x1, ..., or, for second
derivatives, of that gradient times other weights. ONNX's reference evaluator computes op at the neighbouring points.
"""
import math
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from case_files import Stamp, write_case

DICE = np.random.default_rng(23)
TRAINING = "ai.onnx.preview.training"
CASES = []  # (operator, inputs, attributes, indices of the variables, opset, outputs, whether the 2nd derivative is smooth)
STEP = 1e-4


def reals(*shape):
    return DICE.standard_normal(shape)


def apart(*shape):
    """Different values, none close to another or to 0, so that maxima and kinks are away from every point."""
    count = int(np.prod(shape))
    return (DICE.permutation(count) - count // 2 + 0.37).reshape(shape) * 0.31


def positive(*shape):
    return DICE.uniform(0.3, 2, shape)


def within(*shape):
    return DICE.uniform(-0.8, 0.8, shape)


def ints(*values):
    return np.array(values, np.int64)


def case(op, inputs, attributes=None, xs=None, opset=22, outputs=1, second=True):
    """xs: of these inputs, all of doubles if left out."""
    if xs is None:
        xs = [i for i, v in enumerate(inputs) if v is not None and v.dtype == np.float64]
    CASES.append((op, inputs, attributes or {}, xs, opset, outputs, second))


# ---------------------------------------------------------------- pointwise
for op, make in {
    "Identity": reals, "Neg": reals, "Abs": apart, "Reciprocal": positive, "Sqrt": positive, "Exp": reals, "Log": positive,
    "Sin": reals, "Cos": reals, "Tan": within, "Asin": within, "Acos": within, "Atan": reals, "Sinh": reals, "Cosh": reals,
    "Tanh": reals, "Asinh": reals, "Atanh": within, "Erf": reals, "Sigmoid": reals, "Softplus": reals, "Softsign": apart,
    "Relu": apart, "LeakyRelu": apart, "ThresholdedRelu": apart, "Elu": apart, "Celu": apart, "Selu": apart, "HardSigmoid": apart,
    "HardSwish": apart, "Mish": reals, "Gelu": reals, "Shrink": apart, "Floor": apart, "Ceil": apart, "Sign": apart,
}.items():
    case(op, [make(2, 3)])
case("Acosh", [1 + positive(5)])
case("Gelu", [reals(4)], {"approximate": "tanh"})
case("Elu", [apart(7)], {"alpha": 0.6})
case("Celu", [apart(7)], {"alpha": 0.6})
case("Selu", [apart(7)], {"alpha": 1.2, "gamma": 0.7})
case("HardSigmoid", [apart(9)], {"alpha": 0.3, "beta": 0.4})
case("Swish", [reals(5)], {"alpha": 1.5}, opset=24)
SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((3, 1), (2, 1, 4)), ((), (2, 2)), ((1, 3), (2, 1))]
for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum", "Pow", "Mod"):
    for a, b in SHAPES:
        if op in ("Max", "Min"):
            case(op, [apart(*a), apart(*b) + 0.05])
        elif op == "Pow":
            case(op, [positive(*a), reals(*b)])
        elif op == "Mod":
            case(op, [5 * positive(*a), positive(*b)], {"fmod": 1}, xs=[0])
        else:
            case(op, [reals(*a), positive(*b)])
case("Pow", [reals(2, 3), np.array(3.0)], xs=[0])
case("Pow", [reals(2, 3), np.array(2, np.int64)], xs=[0])
case("Mul", [reals(2, 3), reals(2, 3)], xs=[1])
case("Sum", [reals(2, 3), reals(3), reals(2, 1)])
case("Max", [apart(2, 3), apart(3) + 0.05, apart(2, 1) + 0.11])
case("Clip", [apart(9), np.array(-0.55), np.array(0.6)])
case("Clip", [apart(9), np.array(-0.55)])
case("Clip", [apart(9), None, np.array(0.6)])
case("Where", [DICE.random((2, 3)) < 0.5, reals(2, 3), reals(3)])
case("PRelu", [apart(2, 3, 4), reals(3, 1)])
case("Cast", [reals(4)], {"to": TensorProto.DOUBLE})
case("Dropout", [reals(4)])

# ---------------------------------------------------------------- movement
case("Reshape", [reals(2, 6), ints(3, -1)])
case("Flatten", [reals(2, 3, 4)], {"axis": 2})
case("Squeeze", [reals(2, 1, 3), ints(1)])
case("Unsqueeze", [reals(2, 3), ints(0, 2)])
case("Expand", [reals(3, 1), ints(2, 3, 4)])
case("Transpose", [reals(2, 3, 4)])
case("Transpose", [reals(2, 3, 4)], {"perm": [1, 2, 0]})
case("Concat", [reals(2, 3), reals(2, 1), reals(2, 4)], {"axis": -1})
case("Concat", [reals(2, 3), reals(1, 3)], {"axis": 0}, xs=[1])
case("Split", [reals(6, 2), ints(2, 4)], {"axis": 0}, outputs=2)
case("Slice", [reals(5, 6), ints(1, -2), ints(4, -6), ints(0, 1), ints(2, -1)])
case("Slice", [reals(5, 6), ints(1), ints(3)])
case("Pad", [reals(3, 4), ints(1, 0, 2, 3), np.array(0.5)], xs=[0])
case("Pad", [reals(3, 4), ints(0, -1, 0, 2)])
for mode in ("edge", "reflect", "wrap"):
    case("Pad", [reals(3, 4), ints(1, 2, 2, 1)], {"mode": mode})
case("Gather", [reals(5, 3), ints(4, 0, 0, -1).reshape(2, 2)])
case("Gather", [reals(2, 5), ints(3, 1, 3)], {"axis": 1})
case("GatherElements", [reals(3, 4), ints(0, 0, 2, 1).reshape(1, 4)], {"axis": 0})
case("GatherND", [reals(3, 4, 2), ints(0, 1, 2, -1, 0, 1).reshape(3, 2)])
case("ScatterElements", [reals(3, 4), ints(0, 2).reshape(1, 2), reals(1, 2)], {"axis": 0})
case("ScatterElements", [reals(3, 4), ints(0, 0).reshape(2, 1), reals(2, 1)], {"axis": 1, "reduction": "add"})
case("ScatterND", [reals(4, 2), ints(1, 3).reshape(2, 1), reals(2, 2)])
case("ScatterND", [reals(4, 2), ints(1, 1).reshape(2, 1), reals(2, 2)], {"reduction": "add"})
case("Tile", [reals(2, 3), ints(2, 2)])
case("Compress", [reals(4, 2), np.array([True, False, True, True])], {"axis": 0})
case("DepthToSpace", [reals(1, 8, 2, 3)], {"blocksize": 2})
case("SpaceToDepth", [reals(1, 2, 4, 6)], {"blocksize": 2})
case("ReverseSequence", [reals(4, 3), ints(1, 4, 2)])
case("Trilu", [reals(3, 4)], {"upper": 0})
for exclusive in (0, 1):
    for reverse in (0, 1):
        case("CumSum", [reals(3, 4), np.array(1, np.int64)], {"exclusive": exclusive, "reverse": reverse})

# ---------------------------------------------------------------- reductions
for op in ("Sum", "Mean", "Max", "Min", "SumSquare", "L1", "L2", "LogSum", "LogSumExp"):
    make = positive if op == "LogSum" else apart
    case("Reduce" + op, [make(2, 3, 2)])
    case("Reduce" + op, [make(2, 3, 2), ints(-1, 0)], {"keepdims": 0})
    case("Reduce" + op, [make(2, 3), ints(1)], {"keepdims": 1})
for op in ("Softmax", "LogSoftmax"):
    case(op, [reals(2, 4)])
    case(op, [reals(2, 4, 3)], {"axis": 1})
for reduction in ("mean", "sum", "none"):
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        case(op, [reals(3, 4), ints(0, 3, 1), positive(4)], {"reduction": reduction}, xs=[0])
        case(op, [reals(2, 3, 2), ints(0, 2, 1, 1).reshape(2, 2)], {"reduction": reduction, "ignore_index": 1}, xs=[0])
case("LpNormalization", [reals(3, 4)], {"axis": 1})
case("MeanVarianceNormalization", [reals(2, 2, 3, 2)])
case("InstanceNormalization", [reals(2, 3, 4), reals(3), reals(3)])
case("LayerNormalization", [reals(2, 3, 4), reals(4), reals(4)])
case("LayerNormalization", [reals(2, 3, 4), reals(3, 4)], {"axis": 1})
case("RMSNormalization", [reals(2, 3, 4), reals(4)], opset=23)
case("GroupNormalization", [reals(2, 4, 3), reals(4), reals(4)], {"num_groups": 2})
case("BatchNormalization", [reals(2, 3, 4), reals(3), reals(3), reals(3), positive(3)])

# ---------------------------------------------------------------- products
for a, b in (((3, 4), (4, 2)), ((2, 3, 4), (4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4, 2)), ((2, 3, 4), (4,)), ((4,), (4,))):
    case("MatMul", [reals(*a), reals(*b)])
case("Gemm", [reals(3, 4), reals(4, 2), reals(2)])
case("Gemm", [reals(4, 3), reals(2, 4), reals(3, 1)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0})
case("Gemm", [reals(3, 4), reals(4, 2)])
case("Einsum", [reals(2, 3), reals(3, 4)], {"equation": "ij,jk->ik"})
case("Einsum", [reals(2, 3), reals(3, 4)], {"equation": "ij, jk"})
case("Einsum", [reals(2, 3, 4)], {"equation": "ijk->j"})
case("Einsum", [reals(2, 1), reals(3, 4)], {"equation": "ij,jk->ik"})
case("Einsum", [reals(2, 3), reals(1, 4)], {"equation": "ij,jk->ik"})
case("Einsum", [reals(1, 3), reals(2, 3)], {"equation": "ij,ij->ij"})
case("Einsum", [reals(2, 3), reals(3, 4), reals(4)], {"equation": "ij,jk,k->i"})

# ---------------------------------------------------------------- windows
for attributes, x, w in (
    ({}, (1, 2, 5, 4), (3, 2, 3, 2)),
    ({"pads": [1, 1, 1, 1]}, (2, 2, 4, 4), (3, 2, 3, 3)),
    ({"strides": [2, 2], "pads": [1, 0, 0, 1]}, (1, 2, 6, 5), (2, 2, 3, 2)),
    ({"dilations": [2, 1], "strides": [1, 3]}, (1, 1, 6, 8), (2, 1, 2, 3)),
    ({"group": 2, "pads": [1, 1]}, (2, 4, 5), (6, 2, 3)),
    ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (1, 1, 5, 4), (1, 1, 2, 3)),
):
    case("Conv", [reals(*x), reals(*w), reals(w[0])], attributes, second=len(x) == 3)
for attributes, x, w in (
    ({}, (1, 2, 3, 4), (2, 3, 3, 2)),
    ({"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}, (1, 2, 3, 3), (2, 3, 3, 2)),
    ({"group": 2, "strides": [2]}, (2, 4, 4), (4, 3, 3)),
):
    case("ConvTranspose", [reals(*x), reals(*w)], attributes, second=len(x) == 3)
case("MaxPool", [apart(1, 2, 4, 6)], {"kernel_shape": [2, 2], "strides": [2, 2]})
case("MaxPool", [apart(1, 2, 5, 5)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})
case("AveragePool", [reals(2, 2, 4, 6)], {"kernel_shape": [2, 3], "strides": [2, 1]})
case("AveragePool", [reals(1, 2, 5, 5)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})
case("AveragePool", [reals(1, 2, 5, 5)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1})
case("GlobalAveragePool", [reals(2, 3, 2, 4)])
case("GlobalMaxPool", [apart(2, 3, 2, 4)])


# ---------------------------------------------------------------- models
def info(name, value):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def gelu(v, a):
    return v[0] * (1 + (erf(v[0] / np.sqrt(2)) if not a else np.tanh(np.sqrt(2 / np.pi) * (v[0] + 0.044715 * v[0]**3)))) / 2


def group_normalization(v, a):
    x = v[0].reshape(v[0].shape[0], a["num_groups"], -1)
    x = (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-5)
    return x.reshape(v[0].shape) * v[1][:, None] + v[2][:, None]


def mean_variance_normalization(v, a):
    axes = (0, 2, 3)
    return (v[0] - v[0].mean(axes, keepdims=True)) / np.sqrt(v[0].var(axes, keepdims=True) + 1e-9)


def cropped(v, a):
    """Pad at the ends only, where less than nothing takes elements away."""
    ends = v[1][len(v[1]) // 2:]
    taken = v[0][tuple(slice(b, None) for b in -np.minimum(v[1][:len(ends)], 0))]
    return np.pad(taken, [(max(b, 0), max(e, 0)) for b, e in zip(v[1], ends)], constant_values=v[2] if len(v) > 2 else 0)


def transposed_convolution(v, a):
    """In groups, one axis, without padding."""
    (n, _, length), (_, m, taps), g, s = v[0].shape, v[1].shape, a["group"], a["strides"][0]
    y = np.zeros((n, g * m, (length - 1) * s + taps))
    for x, w, part in zip(np.split(v[0], g, 1), np.split(v[1], g), np.split(y, g, 1)):
        for i in range(length):
            part[:, :, i * s:i * s + taps] += np.einsum("nc,cmk->nmk", x[:, :, i], w)
    return y


erf = np.vectorize(math.erf, otypes=[float])
# Where the reference evaluator rounds to single precision, or fails.
EXACT = {
    "Erf": lambda v, a: erf(v[0]), "Gelu": gelu, "GroupNormalization": group_normalization,
    "MeanVarianceNormalization": mean_variance_normalization, "Mean": lambda v, a: sum(v) / len(v),
}


def exact_of(op, attributes):
    if op == "Pad" and not attributes:
        return cropped
    if op == "ConvTranspose" and attributes.get("group", 1) > 1:
        return transposed_convolution
    return EXACT.get(op)


def function_of(op, inputs, attributes, opset, outputs):
    """f(values): the outputs of op, by the reference evaluator."""
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
    ys = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, ys, "node", **attributes)
    graph = helper.make_graph([node], "g", [info(n, v) for n, v in zip(names, inputs) if n],
                              [helper.make_empty_tensor_value_info(y) for y in ys])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    exact = exact_of(op, attributes)
    if exact:
        return node, lambda values: [exact(values, attributes)]
    session = ReferenceEvaluator(model)
    return node, lambda values: session.run(None, {n: v for n, v in zip(names, values) if n})


def moved(values, i, step):
    return [v + step if k == i else v for k, v in enumerate(values)]


def unit_steps(v):
    for place in np.ndindex(v.shape):
        step = np.zeros_like(v)
        step[place] = STEP
        yield place, step


def difference(f, values, i, step):
    return (f(moved(values, i, step)) - f(moved(values, i, -step))) / (2 * STEP)


def gradient(f, values, i):
    """df/dx_i by central differences."""
    result = np.zeros(values[i].shape)
    for place, step in unit_steps(values[i]):
        result[place] = difference(f, values, i, step)
    return result


def model_of(node, inputs, xs, opset, weights, directions):
    """The weighted outputs p, their gradients with respect to xs, and, with directions, the gradients of these times directions."""
    constants = {f"w{k}": w for k, w in enumerate(weights)} | {f"d{i}": d for i, d in (directions or {}).items()}
    nodes, names = [node], [n for n in node.input if n]
    for k, y in enumerate(node.output):
        nodes.append(helper.make_node("Mul", [y, f"w{k}"], [f"t{k}"]))
        nodes.append(helper.make_node("ReduceSum", [f"t{k}"], [f"s{k}"], keepdims=0))
    nodes.append(helper.make_node("Sum", [f"s{k}" for k in range(len(node.output))], ["p"]))
    chosen = [f"x{i}" for i in xs]
    others = [n for n in names if n not in chosen]

    def gradient_node(y, wanted):
        zs = {"zs": others} if others else {}
        nodes.append(helper.make_node("Gradient", chosen + others, wanted, f"gradient of {y}", domain=TRAINING, xs=chosen, y=y, **zs))

    outputs = [f"dp_d{x}" for x in chosen]
    gradient_node("p", outputs)
    if directions is not None:
        for i in xs:
            nodes.append(helper.make_node("Mul", [f"dp_dx{i}", f"d{i}"], [f"u{i}"]))
            nodes.append(helper.make_node("ReduceSum", [f"u{i}"], [f"v{i}"], keepdims=0))
        nodes.append(helper.make_node("Sum", [f"v{i}" for i in xs], ["q"]))
        outputs = [f"dq_d{x}" for x in chosen]
        gradient_node("q", outputs)
    graph = helper.make_graph(
        nodes, "gradient", [info(n, inputs[int(n[1:])]) for n in names],
        [info(o, inputs[i]) for o, i in zip(outputs, xs)], [numpy_helper.from_array(v, k) for k, v in constants.items()])
    return helper.make_model(graph, ir_version=10,
                             opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(TRAINING, 1)])


def write(out, count, op, inputs, attributes, xs, opset, outputs, second):
    node, run = function_of(op, inputs, attributes, opset, outputs)
    weights = [np.asarray(DICE.standard_normal(np.shape(y))) for y in run(inputs)]
    given = [v for v in inputs if v is not None]

    def weighted(values):
        return sum(float(np.sum(np.asarray(y, np.float64) * w)) for y, w in zip(run(values), weights))

    expected = [gradient(weighted, inputs, i) for i in xs]
    folder = os.path.join(out, op, str(count))
    write_case(folder, model_of(node, inputs, xs, opset, weights, None), [(given, expected)], 1e-5, 1e-6)
    if not second:
        return
    directions = {i: np.asarray(DICE.standard_normal(inputs[i].shape)) for i in xs}

    def directional(values):
        """The derivative of the weighted outputs along the directions."""
        ahead, behind = ([v + sign * STEP * directions[i] if i in directions else v for i, v in enumerate(values)] for sign in (1, -1))
        return (weighted(ahead) - weighted(behind)) / (2 * STEP)

    expected = [gradient(directional, inputs, i) for i in xs]
    write_case(f"{folder}-2", model_of(node, inputs, xs, opset, weights, directions), [(given, expected)], 1e-4, 1e-5)


def main():
    out = sys.argv[1]
    stamp = Stamp(out, __file__)
    if stamp.fresh():
        return
    stamp.begin()
    counts = {}
    for op, *rest in CASES:
        count = counts.setdefault(op, 0)
        counts[op] += 1
        write(out, count, op, *rest)
    stamp.done()


if __name__ == "__main__":
    main()
