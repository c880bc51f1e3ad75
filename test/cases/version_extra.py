"""Starting points for version_cases.py that ONNX's own cases do not give: operators without a case, and meanings that
older versions had and newer ones lack (broadcast attributes, type names as strings, operands that became attributes).

EXTRA: {(domain, operator): [Source]}.
"""
import collections

import numpy as np
from onnx import TensorProto, helper

# A case to start from: a node and {input: value}. answer(values, attributes) gives the right outputs, None leaves it to
# the evaluators; applies(version) says for which versions it is, None: for all that it can be turned into.
Source = collections.namedtuple("Source", "node values answer applies", defaults=(None, None))
EXTRA = collections.defaultdict(list)
DICE = np.random.default_rng(5)
ML = "ai.onnx.ml"


def floats(*shape):
    return DICE.standard_normal(shape).astype(np.float32)


def ints(low, high, *shape, dtype=np.int64):
    return DICE.integers(low, high, shape).astype(dtype)


def add(op, values, attributes=None, answer=None, applies=lambda v: True, outputs=("y",), domain=""):
    """values in the order of the inputs; None: an input that is left out."""
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(values)]
    node = helper.make_node(op, names, list(outputs), domain=domain, **(attributes or {}))
    held = {n: v for n, v in zip(names, values) if n}
    EXTRA[domain, op].append(Source(node, held, answer, applies))


def old(v):
    return v < 7


def first(v):
    return v == 1


# ---------------------------------------------------------------- broadcasting by attributes
def stretched(a, b, axis):
    """b's axes stand at `axis` of a, by default at the end."""
    at = a.ndim - b.ndim if axis is None else axis % a.ndim
    return b.reshape(b.shape + (1,) * (a.ndim - at - b.ndim))


def broadcast_answer(function):
    return lambda v, a: [function(v["x0"], stretched(v["x0"], v["x1"], a.get("axis")))]


BINARY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "And": np.logical_and,
          "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal, "Greater": np.greater, "Less": np.less}
for op, function in BINARY.items():
    for shape, axis in (((4,), None), ((3, 4), None), ((3,), 1), ((2, 3), 0), ((1,), None), ((2,), -3)):
        a, b = floats(2, 3, 4), floats(*shape)
        if op == "Pow":
            a = np.abs(a)
        if op in ("And", "Or", "Xor"):
            a, b = a > 0, b > 0
        if op == "Equal":
            a, b = ints(0, 2, 2, 3, 4), ints(0, 2, *shape)
        given = {"broadcast": 1} if axis is None else {"broadcast": 1, "axis": axis}
        add(op, [a, b], given, broadcast_answer(function), old)


def gemm(v, a):
    left = v["x0"].T if a.get("transA") else v["x0"]
    right = v["x1"].T if a.get("transB") else v["x1"]
    return [(a.get("alpha", 1) * (left @ right) + a.get("beta", 1) * v["x2"]).astype(np.float32)]


add("Gemm", [floats(3, 4), floats(4, 5), floats(5)], {"broadcast": 1}, gemm, old)
add("Gemm", [floats(4, 3), floats(5, 4), floats(1)], {"broadcast": 1, "transA": 1, "transB": 1, "alpha": 0.5}, gemm, old)
add("Gemm", [floats(3, 4), floats(4, 5), floats(3, 5)], {"beta": 2.0}, gemm, old)
add("PRelu", [floats(2, 3, 4), floats(3)], {},
    lambda v, a: [np.where(v["x0"] < 0, v["x0"] * v["x1"][:, None], v["x0"])], old)
add("PRelu", [floats(2, 3, 4), floats(1)], {}, lambda v, a: [np.where(v["x0"] < 0, v["x0"] * v["x1"], v["x0"])], old)


# ---------------------------------------------------------------- normalisation of old
def batch_norm(v, a):
    x, scale, bias, mean, var = (v[f"x{i}"] for i in range(5))
    if a.get("spatial", 1):
        scale, bias, mean, var = (t.reshape(-1, *(1,) * (x.ndim - 2)) for t in (scale, bias, mean, var))
    return [((x - mean) / np.sqrt(var + a.get("epsilon", 1e-5)) * scale + bias).astype(np.float32)]


for spatial, shape in ((1, (3,)), (0, (3, 4, 2))):
    operands = [floats(2, 3, 4, 2), floats(*shape), floats(*shape), floats(*shape), np.abs(floats(*shape)) + 0.5]
    more = {"epsilon": 1e-2} if spatial else {"spatial": 0}
    add("BatchNormalization", operands, {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1], **more}, batch_norm, first)
    add("BatchNormalization", operands, {"is_test": 1, **more}, batch_norm, lambda v: v == 6)
    add("BatchNormalization", operands, more, batch_norm, lambda v: v == 7)
add("BatchNormalization", [floats(2, 3, 4), floats(3), floats(3), floats(3), np.abs(floats(3)) + 0.5], {}, batch_norm,
    lambda v: v == 9)


# ---------------------------------------------------------------- attributes and operands that changed places
for to, value in (("FLOAT", ints(-9, 9, 3, 4)), ("INT32", floats(3, 4) * 9), ("BOOL", ints(0, 2, 5)), ("INT64", floats(2) > 0),
                  ("DOUBLE", floats(2, 3)), ("FLOAT16", floats(2, 3))):
    made = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(to))
    add("Cast", [value], {"to": to}, lambda v, a, made=made: [v["x0"].astype(made)], first)
add("Clip", [floats(3, 4)], {"min": -0.5, "max": 0.7}, lambda v, a: [np.clip(v["x0"], np.float32(-0.5), np.float32(0.7))], first)
add("Clip", [floats(3, 4)], {"min": 0.1, "consumed_inputs": [0]}, lambda v, a: [np.maximum(v["x0"], np.float32(0.1))], first)
add("Dropout", [floats(3, 4)], {"is_test": 1, "ratio": 0.3}, lambda v, a: [v["x0"]], old)
add("Tile", [floats(2, 3), np.array(3, np.float32), np.array(1, np.float32)], {},
    lambda v, a: [np.tile(v["x0"], (1, 3))], first)
add("Split", [floats(2, 6)], {"axis": 1, "split": [2, 4]}, lambda v, a: [v["x0"][:, :2], v["x0"][:, 2:]], first, ("y", "z"))
add("Split", [floats(6, 2)], {"axis": 0}, lambda v, a: [v["x0"][:3], v["x0"][3:]], first, ("y", "z"))
add("Upsample", [floats(1, 2, 3, 4)], {"height_scale": 2.0, "width_scale": 3.0},
    lambda v, a: [v["x0"].repeat(2, 2).repeat(3, 3)], first)
for mode in ("nearest", "linear"):
    add("Resize", [floats(1, 2, 3, 4), np.array([1, 1, 2, 3], np.float32)], {"mode": mode}, None, lambda v: v == 10)
    add("Resize", [floats(1, 2, 6, 8), np.array([1, 1, 0.5, 0.75], np.float32)], {"mode": mode}, None, lambda v: v == 10)
for given in ({}, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, {"mode": "cubic"},
              {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}):
    add("Resize", [floats(1, 2, 3, 4), np.zeros(0, np.float32), np.array([1, 1, 2, 3], np.float32)], given, None,
        lambda v: v == 11)
add("RoiAlign", [np.abs(floats(1, 2, 8, 8)), np.array([[0, 0, 5, 5], [1, 2, 7, 6]], np.float32), np.array([0, 0])],
    {"output_height": 3, "output_width": 2, "sampling_ratio": 2}, None, lambda v: v == 10)


# ---------------------------------------------------------------- pooling
def windows(x):
    n, c, h, w = x.shape
    return np.abs(x.astype(np.float64)).reshape(n, c, h // 2, 2, w // 2, 2)


add("LpPool", [floats(1, 2, 4, 6)], {"kernel_shape": [2, 2], "strides": [2, 2], "p": 3.0},
    lambda v, a: [((windows(v["x0"]) ** 3).sum((3, 5)) ** (1 / 3)).astype(np.float32)], first)
for p in (1, 2, 3):
    def answer(v, a, p=p):
        return [((np.abs(v["x0"].astype(np.float64)) ** p).sum((2, 3), keepdims=True) ** (1 / p)).astype(v["x0"].dtype)]

    add("GlobalLpPool", [floats(2, 3, 4, 5)], {"p": float(p)}, answer, first)
    add("GlobalLpPool", [floats(2, 3, 4, 5)], {"p": p}, answer, lambda v: v > 1)
add("MaxRoiPool", [floats(1, 2, 8, 8), np.array([[0, 0, 0, 5, 5], [0, 1, 2, 7, 6]], np.float32)], {"pooled_shape": [2, 3]})


# ---------------------------------------------------------------- loops and sequences
def loop_body():
    """sum += x; the running sum is also scanned out."""
    infos = [helper.make_tensor_value_info(n, t, s) for n, t, s in
             (("i", TensorProto.INT64, []), ("more", TensorProto.BOOL, []), ("sum", TensorProto.FLOAT, [2]))]
    nodes = [helper.make_node("Add", ["sum", "x2"], ["next"]), helper.make_node("Identity", ["more"], ["again"]),
             helper.make_node("Identity", ["next"], ["seen"])]
    outs = [helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("seen", TensorProto.FLOAT, [2])]
    return helper.make_graph(nodes, "body", infos, outs)


def loop_answer(v, a):
    sums = [v["x2"] * (i + 2) for i in range(int(v["x0"]))]
    return [sums[-1] if sums else v["x2"], np.stack(sums) if sums else np.zeros((0, 2), np.float32)]


for trips in (3, 1, 0):
    add("Loop", [np.array(trips), np.array(True), floats(2)], {"body": loop_body()}, loop_answer, lambda v: v > 1, ("last", "all"))
tensors = [floats(2, 3), floats(1, 3), floats(4, 3)]
add("SequenceConstruct", tensors)
add("SequenceAt", [tensors, np.array(-2)])
add("SequenceAt", [tensors, np.array(2, np.int32)])
add("SequenceErase", [tensors, np.array(1)])
add("SequenceErase", [tensors])
add("SequenceLength", [tensors])
add("ConcatFromSequence", [tensors], {"axis": 0})
add("ConcatFromSequence", [[floats(2), floats(2)]], {"axis": 1, "new_axis": 1})

# ---------------------------------------------------------------- ai.onnx.ml, by ONNX Runtime
X = floats(5, 3)
add("Scaler", [X], {"offset": [0.5, -1.0, 2.0], "scale": [2.0, 0.25, 1.0]}, domain=ML)
add("Scaler", [ints(-9, 9, 5, 3)], {"offset": [0.5], "scale": [2.0]}, domain=ML)
for norm in ("MAX", "L1", "L2"):
    add("Normalizer", [X], {"norm": norm}, domain=ML)
add("Imputer", [np.where(X > 0.5, np.nan, X).astype(np.float32)],
    {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")}, domain=ML)
add("Imputer", [ints(-1, 3, 5, 3)], {"imputed_value_int64s": [7], "replaced_value_int64": -1}, domain=ML)
add("FeatureVectorizer", [X, floats(5, 2)], {"inputdimensions": [3, 2]}, domain=ML)
add("OneHotEncoder", [ints(0, 4, 6)], {"cats_int64s": [0, 1, 3]}, domain=ML)
add("OneHotEncoder", [np.array(["a", "c", "x"], object)], {"cats_strings": ["a", "b", "c"], "zeros": 1}, domain=ML)
add("LabelEncoder", [np.array(["a", "c", "x"], object)], {"classes_strings": ["a", "b", "c"], "default_int64": -5},
    lambda v, a: [np.array([0, 2, -5])], first, domain=ML)
add("LabelEncoder", [ints(0, 4, 6)], {"keys_int64s": [0, 1, 2], "values_floats": [0.5, 1.5, 2.5], "default_float": 9.0},
    None, lambda v: v > 1, domain=ML)
add("CategoryMapper", [np.array(["a", "c", "x"], object)],
    {"cats_strings": ["a", "b", "c"], "cats_int64s": [10, 20, 30], "default_int64": -1}, domain=ML)
for post in ("NONE", "SOFTMAX", "LOGISTIC"):
    add("LinearRegressor", [X], {"coefficients": [0.5, -1.0, 2.0, 1.0, 0.0, 0.25], "intercepts": [0.1, 0.2], "targets": 2,
                                 "post_transform": "NONE"}, domain=ML)
    add("LinearClassifier", [X], {"coefficients": [float(c) for c in floats(9)], "intercepts": [0.1, 0.2, 0.3],
                                  "classlabels_ints": [4, 5, 6], "post_transform": post}, outputs=("label", "scores"), domain=ML)
add("LinearClassifier", [X], {"coefficients": [float(c) for c in floats(9)], "intercepts": [0.1, 0.2, 0.3],
                              "classlabels_strings": ["a", "b", "c"]}, outputs=("label", "scores"), domain=ML)

TREE = {"nodes_treeids": [0, 0, 0, 1, 1, 1, 1, 1], "nodes_nodeids": [0, 1, 2, 0, 1, 2, 3, 4],
        "nodes_featureids": [0, 0, 0, 1, 0, 2, 0, 0], "nodes_values": [0.1, 0.0, 0.0, -0.2, 0.0, 0.3, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "BRANCH_GTE", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0, 1, 0, 3, 0, 0], "nodes_falsenodeids": [2, 0, 0, 2, 0, 4, 0, 0]}
LEAVES = {"treeids": [0, 0, 1, 1, 1], "nodeids": [1, 2, 1, 3, 4], "ids": [0, 1, 1, 0, 1], "weights": [0.5, 1.5, -0.25, 2.0, 0.75]}
for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
    add("TreeEnsembleRegressor", [X], {**TREE, **{f"target_{k}": v for k, v in LEAVES.items()}, "n_targets": 2,
                                       "aggregate_function": aggregate, "base_values": [0.25, -0.5]}, domain=ML)
for post in ("NONE", "SOFTMAX", "LOGISTIC"):
    add("TreeEnsembleClassifier", [X], {**TREE, **{f"class_{k}": v for k, v in LEAVES.items()}, "classlabels_int64s": [7, 8],
                                        "post_transform": post}, outputs=("label", "scores"), domain=ML)
for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
    add("SVMRegressor", [X], {"kernel_type": kernel, "kernel_params": [0.4, 0.5, 2.0], "n_supports": 2, "rho": [0.3],
                              "support_vectors": [float(c) for c in floats(6)], "coefficients": [0.7, -0.4]}, domain=ML)
    add("SVMClassifier", [X], {"kernel_type": kernel, "kernel_params": [0.4, 0.5, 2.0], "rho": [0.3, -0.1, 0.2],
                               "support_vectors": [float(c) for c in floats(12)], "vectors_per_class": [1, 2, 1],
                               "coefficients": [float(c) for c in floats(8)], "classlabels_ints": [1, 2, 3]},
        outputs=("label", "scores"), domain=ML)
