"""Writes cases for options of operators that ONNX's own cases leave out, as folders that `onnxc test` takes.

usage: option_cases.py OUT        OUT/OPERATOR/K/...; `skip OPERATOR/K: reason` where there is none

Each table below gives nodes and inputs; ONNX Runtime with its optimisations off says what is right, or the reference
evaluator where a table says so.
"""
import itertools
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from case_files import Stamp, write_case

DICE = np.random.default_rng(11)
CASES = []  # (operator, node, inputs by name, opset, evaluator, names of inputs that are constants)
ML = "ai.onnx.ml"


def floats(*shape, dtype=np.float32):
    return DICE.standard_normal(shape).astype(dtype)


def case(op, inputs, attributes=None, outputs=1, opset=22, by="ort", constants=(), domain=""):
    """inputs in order, None where left out."""
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
    wanted = outputs if isinstance(outputs, (list, tuple)) else [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, wanted, name="node", domain=domain, **(attributes or {}))
    values = {n: np.asarray(v) for n, v in zip(names, inputs) if n}
    CASES.append((op, node, values, opset, by, {f"x{i}" for i in constants}))


# ---------------------------------------------------------------- LSTM, GRU, RNN
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
EACH = {"LSTM": 3, "GRU": 2, "RNN": 1}


def recurrent(op, direction="forward", length=5, batch=3, inputs=4, hidden=6, bias=True, lengths=None, start=False,
              peepholes=False, constants=False, scale=1, outputs=None, **attributes):
    d, g = 2 if direction == "bidirectional" else 1, GATES[op]
    batchwise = attributes.get("layout", 0)
    state = (batch, d, hidden) if batchwise else (d, batch, hidden)
    x = floats(batch, length, inputs) if batchwise else floats(length, batch, inputs)
    values = [x * scale, floats(d, g * hidden, inputs), floats(d, g * hidden, hidden),
              floats(d, 2 * g * hidden) if bias else None, None if lengths is None else np.array(lengths, np.int32),
              floats(*state) if start else None]
    if op == "LSTM":
        values += [floats(*state) if start else None, floats(d, 3 * hidden) if peepholes else None]
    while values[-1] is None:
        values.pop()
    case(op, values, {"hidden_size": hidden, "direction": direction, **attributes},
         outputs or (3 if op == "LSTM" else 2),
         constants=(1, 2, 3) if constants else ())


for op in GATES:
    for direction in ("forward", "reverse", "bidirectional"):
        recurrent(op, direction)
        recurrent(op, direction, lengths=[5, 2, 3], start=True, constants=True)
        recurrent(op, direction, batch=1, hidden=16, length=7, constants=True)
        recurrent(op, direction, bias=False, clip=0.5, start=True)
        recurrent(op, direction, lengths=[0, 5, 1], peepholes=True)
    recurrent(op, "forward", length=1, start=True)
    recurrent(op, "forward", outputs=["y"])
    recurrent(op, "forward", outputs=["", "h"])
    recurrent(op, "forward", batch=8, hidden=40, inputs=33, constants=True)
    for names in (("Relu", "Tanh", "Softsign"), ("HardSigmoid", "Softplus", "Tanh"), ("Sigmoid", "LeakyRelu", "Elu"),
                  ("Affine", "ScaledTanh", "ThresholdedRelu"), ("sigmoid", "relu", "TANH")):
        names = names[:EACH[op]]
        if "Affine" not in names:  # ONNX Runtime's defaults of Affine and ScaledTanh are all 0
            recurrent(op, "forward", activations=list(names), length=3, scale=0.25)
        recurrent(op, "bidirectional", activations=list(names) * 2, length=3, scale=0.25,
                  activation_alpha=[0.3, 0.2, 0.6, 0.1, 0.4, 0.5],
                  activation_beta=[0.4, 0.1, 0.2, 0.3])
for linear in (0, 1):
    for direction in ("forward", "bidirectional"):
        recurrent("GRU", direction, linear_before_reset=linear, lengths=[4, 5, 1], start=True, constants=True)
        recurrent("GRU", direction, linear_before_reset=linear, bias=False)
recurrent("LSTM", "forward", input_forget=1, peepholes=True, start=True)
recurrent("LSTM", "bidirectional", peepholes=True, start=True, clip=0.7, lengths=[1, 5, 4])


# ---------------------------------------------------------------- Resize, Upsample
EMPTY = np.zeros(0, np.float32)


def resize(mode, how, scales=None, sizes=None, roi=None, shape=(1, 2, 5, 6), held=True, dtype=np.float32, **attributes):
    x = (floats(*shape) * 8).astype(dtype) if dtype != np.uint8 else DICE.integers(0, 256, shape).astype(dtype)
    inputs = [x, None if roi is None else np.array(roi, np.float32)]
    inputs += [np.array(scales, np.float32)] if scales else [None, np.array(sizes, np.int64)]
    case("Resize", inputs, {"mode": mode, "coordinate_transformation_mode": how, **attributes}, opset=19, by="reference",
         constants=(1, 2, 3) if held else ())


HOWS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")
for k, (how, mode) in enumerate(itertools.product(HOWS, ("nearest", "linear", "cubic"))):
    roi = [0, 0, -0.2, 0.3, 1, 1, 0.7, 1.2] if how == "tf_crop_and_resize" else None
    some = {"extrapolation_value": 2.5} if roi else {}
    resize(mode, how, scales=[1, 1, 1.7, 0.6], roi=roi, held=k % 2 == 0, **some)
    resize(mode, how, sizes=[1, 2, 3, 11], roi=roi, held=k % 2 == 1, **some)
    resize(mode, how, scales=[2, 3], axes=[2, 3], held=k % 2 == 1, roi=[0.1, 0.2, 0.8, 0.9] if roi else None, **some)
    if mode != "nearest":
        resize(mode, how, scales=[1, 1, 0.7, 0.4], roi=roi, held=k % 2 == 0, exclude_outside=1, **some)
        if how != "tf_crop_and_resize":
            resize(mode, how, scales=[1, 1, 0.4, 1.4], held=k % 2 == 0, antialias=1, shape=(1, 1, 9, 7))
            resize(mode, how, sizes=[1, 1, 3, 3], held=k % 2 == 1, antialias=1, exclude_outside=1, shape=(1, 1, 9, 7))
for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
    for how in ("half_pixel", "asymmetric", "align_corners"):
        resize("nearest", how, scales=[1, 1, 2, 3], nearest_mode=rounding)
        resize("nearest", how, sizes=[1, 2, 7, 4], nearest_mode=rounding, held=False)
for policy in ("not_larger", "not_smaller"):
    resize("linear", "half_pixel", sizes=[7, 5], axes=[3, 2], keep_aspect_ratio_policy=policy, held=False)
    resize("nearest", "asymmetric", sizes=[9, 11], axes=[2, 3], keep_aspect_ratio_policy=policy)
    resize("linear", "half_pixel", sizes=[3, 2], axes=[3, 2], antialias=1, keep_aspect_ratio_policy=policy, held=False)
for dtype in (np.uint8, np.int8, np.int32, np.float16, np.float64):
    resize("linear", "half_pixel", scales=[1, 1, 1.5, 0.5], dtype=dtype)
    resize("nearest", "half_pixel", scales=[1, 1, 2, 2], dtype=dtype)
resize("cubic", "half_pixel", scales=[2.0], shape=(6,), cubic_coeff_a=-0.5)
resize("linear", "align_corners", sizes=[4, 4, 4], shape=(3, 2, 5))
resize("linear", "half_pixel", sizes=[1, 1, 1, 1], shape=(1, 1, 3, 4))
# A region that ends at the last element does not reach beyond it.
END = [floats(1, 1, 8, 8), np.array([0, 0, 0.3, 0.3, 1, 1, 0.9, 1], np.float32), None, np.array([1, 1, 4, 4])]
for constants in ((1, 3), ()):
    case("Resize", END, {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}, opset=19, constants=constants)
for mode in ("nearest", "linear"):
    for op, opset in (("Resize", 10), ("Upsample", 9)):
        for scales in ([1, 1, 2, 2.5], [1, 1, 1.5, 3]) + (([1, 1, 0.6, 0.5],) if op == "Resize" else ()):
            case(op, [floats(1, 2, 4, 5), np.array(scales, np.float32)], {"mode": mode}, opset=opset)


# ---------------------------------------------------------------- GridSample, AffineGrid, RoiAlign, MaxRoiPool, DeformConv
for mode, padding, corners in itertools.product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)):
    case("GridSample", [floats(2, 3, 5, 6), floats(2, 4, 3, 2) * 1.5],
         {"mode": mode, "padding_mode": padding, "align_corners": corners}, opset=20,
         by="reference" if mode == "cubic" and padding == "border" else "ort")
    if mode != "cubic":
        case("GridSample", [floats(1, 2, 3, 4, 5), floats(1, 2, 3, 2, 3) * 1.2],
             {"mode": mode, "padding_mode": padding, "align_corners": corners}, opset=20)
case("GridSample", [floats(1, 2, 7), floats(1, 5, 1)], {"mode": "linear"}, opset=20, by="reference")
case("GridSample", [floats(1, 2, 5, 4), floats(1, 3, 3, 2)], {"mode": "bicubic"}, opset=16)
for corners in (0, 1):
    case("AffineGrid", [floats(2, 2, 3), np.array([2, 3, 4, 5])], {"align_corners": corners}, by="reference")
    case("AffineGrid", [floats(2, 3, 4), np.array([2, 3, 4, 5, 3])], {"align_corners": corners}, by="reference",
         constants=(1,))
ROIS = np.array([[0.5, 1, 6, 7.5], [2, 2, 2.5, 2.5], [-3, -2, 12, 13], [4, 4, 3, 3]], np.float32)
for mode, how, ratio in itertools.product(("avg", "max"), ("half_pixel", "output_half_pixel"), (0, 2)):
    case("RoiAlign", [floats(2, 3, 8, 9), ROIS, np.array([0, 1, 1, 0])],
         {"mode": mode, "coordinate_transformation_mode": how, "sampling_ratio": ratio, "output_height": 3,
          "output_width": 2, "spatial_scale": 0.8}, opset=16, by="reference")
case("MaxRoiPool", [floats(2, 3, 8, 9), np.array([[0, 0.5, 1, 6, 7.5], [1, 2, 2, 2.5, 2.5], [1, 3, 3, 20, 20]], np.float32)],
     {"pooled_shape": [3, 2], "spatial_scale": 0.7}, opset=13)
case("DeformConv", [floats(2, 4, 7, 6), floats(6, 2, 3, 2), floats(2, 24, 4, 4), floats(6), floats(2, 12, 4, 4)],
     {"group": 2, "offset_group": 2, "strides": [2, 1], "pads": [1, 0, 1, 0], "dilations": [1, 2]}, opset=19,
     by="reference")


# ---------------------------------------------------------------- random numbers, losses, optimisers, sizes
for dtype, low, high in ((1, -1.0, 2.5), (10, 0.0, 1.0), (11, -1.0, 2.5)):
    case("RandomUniform", [], {"shape": [5, 61], "seed": 3.0, "low": low, "high": high, "dtype": dtype}, by="reference")
case("RandomUniformLike", [floats(2, 3)], {"seed": 7.0}, by="reference")
case("Bernoulli", [DICE.random((4, 50)).astype(np.float32)], {"seed": 5.0, "dtype": 6}, by="reference")
for reduction in ("none", "sum", "mean"):
    x, target = floats(3, 5, 4), DICE.integers(0, 5, (3, 4))
    for weight in (None, np.abs(floats(5))):
        case("NegativeLogLikelihoodLoss", [x, target] + [weight] * (weight is not None), {"reduction": reduction}, by="reference")
        case("SoftmaxCrossEntropyLoss", [x, target.astype(np.int32)] + [weight] * (weight is not None),
             {"reduction": reduction, "ignore_index": 2}, 2, opset=13, by="reference")
for sizes in ([4, 9], [5, 2], [8, 8]):
    case("CenterCropPad", [floats(5, 6, 3), np.array(sizes)], {"axes": [0, -2]}, by="reference", opset=18)
    case("CenterCropPad", [floats(6, 5), np.array(sizes)], {}, by="reference", opset=18, constants=(1,))
for attributes in ({}, {"pads": [1, 0, 1, 2]}, {"strides": [2, 1], "dilations": [1, 2]}):
    count, height = {0: 12, 1: 30, 2: 4}[len(attributes)], 5
    case("Col2Im", [floats(2, 12, count), np.array([height, 4]), np.array([2, 2])], attributes, by="reference", opset=18)
case("Det", [floats(2, 3, 5, 5)], by="reference")
case("Det", [np.array([[0, 2, 1], [0, 0, 3], [4, 1, 1]], np.float32)], by="reference")
case("Det", [np.zeros((2, 4, 4), np.float64)], by="reference")


# ---------------------------------------------------------------- signals
for length in (1, 2, 7, 12, 30, 37, 64):
    x = floats(2, 3, length, 2)
    case("DFT", [x], by="reference", opset=20)
    case("DFT", [x], {"inverse": 1}, by="reference", opset=20)
    case("DFT", [x[..., :1]], {"onesided": 1}, by="reference", opset=20)
    case("DFT", [x.astype(np.float64), np.array(length + 3), np.array(-2)], by="reference", opset=20, constants=(2,))
    case("DFT", [floats(length, 3, 1), np.array(max(length - 2, 1)), np.array(0)], by="reference", opset=20,
         constants=(1, 2))
    case("DFT", [floats(2, length, 2)], {"axis": 1}, by="reference", opset=17)
    if length > 1:
        case("DFT", [floats(2, length // 2 + 1, 2), np.array(length)], {"inverse": 1, "onesided": 1}, by="reference",
             opset=20, constants=(1,) if length % 2 else ())
for step in (3, 8):
    case("STFT", [floats(2, 40, 1), np.array(step), floats(12)], by="reference", opset=17)
    case("STFT", [floats(2, 40, 1), np.array(step), None, np.array(8)], {"onesided": 0}, by="reference", opset=17,
         constants=(1, 3))
    case("STFT", [floats(2, 40, 2), np.array(step), floats(16), np.array(16)], {"onesided": 0}, by="reference", opset=17)
case("MelWeightMatrix", [np.array(8), np.array(64), np.array(16000), np.float32(20), np.float32(7600)], by="reference",
     opset=17)


# ---------------------------------------------------------------- trees
def trees(op, count, classes, ids, post="NONE", signed=False, base=None, wide=False, dtype=np.float32, **more):
    """`count` full trees of depth 2; each leaf is for one class (ids in turn) or, when wide, for all of them."""
    what = "class" if op == "TreeEnsembleClassifier" else "target"
    nodes = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                             "missing_value_tracks_true")}
    leaves = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for t in range(count):
        for i in range(7):
            inner = i < 3
            row = (t, i, int(DICE.integers(0, 4)) if inner else 0, float(np.float32(DICE.standard_normal())) if inner else 0.0,
                   "BRANCH_LEQ" if inner else "LEAF", 2 * i + 1 if inner else 0, 2 * i + 2 if inner else 0, t % 2)
            for k, v in zip(nodes, row):
                nodes[k].append(v)
            for c in ids if wide and not inner else [ids[t % len(ids)]] if not inner else []:
                weight = DICE.standard_normal() if signed else DICE.random() / count
                for k, v in zip(leaves, (t, i, c, float(np.float32(weight)))):
                    leaves[k].append(v)
    labels = {"classlabels_int64s": list(range(10, 10 + classes))} if what == "class" else {"n_targets": classes}
    x = floats(9, 4, dtype=dtype)
    x[0, 1] = np.nan
    attributes = {**{f"nodes_{k}": v for k, v in nodes.items()}, **{f"{what}_{k}": v for k, v in leaves.items()}, **labels,
                  "post_transform": post, **more}
    if base:
        attributes["base_values"] = base
    case(op, [x], attributes, 2 if what == "class" else 1, opset=3, domain=ML)


for post in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
    trees("TreeEnsembleClassifier", 6, 3, [0, 1, 2], post, signed=True)
    trees("TreeEnsembleClassifier", 5, 4, [0, 1, 2, 3], post, wide=True, base=[0.1, 0.2, -0.3, 0.0])
trees("TreeEnsembleRegressor", 5, 1, [0], signed=True, base=[0.5])
for post in ("NONE", "LOGISTIC"):
    trees("TreeEnsembleClassifier", 6, 2, [0], post, signed=True)
    trees("TreeEnsembleClassifier", 6, 2, [0], post)
trees("TreeEnsembleClassifier", 6, 2, [0], "LOGISTIC", signed=True, base=[0.4])
for how in ("SUM", "AVERAGE", "MIN", "MAX"):
    trees("TreeEnsembleRegressor", 5, 3, [0, 1, 2], signed=True, wide=True, aggregate_function=how, base=[0.5, 1.0, -1.0])
    trees("TreeEnsembleRegressor", 7, 1, [0], signed=True, aggregate_function=how, dtype=np.float64)


def grown(count, most, dice):
    """A tree as its nodes: numbers of the successors, or None; with `count` leaves, None: at most `most`."""
    tree, ends = [None], [0]
    while len(ends) < (count or int(dice.integers(1, most + 1))):
        at = ends.pop(int(dice.integers(len(ends))))
        tree[at] = (len(tree), len(tree) + 1)
        ends += tree[at]
        tree += [None, None]
    return tree


def forest(leaves, rows, modes, missing=False, count=5, dice=DICE, **more):
    """Trees of up to `leaves` leaves, the first of so many, that grow at random, with tests of several modes on few values, so that ties and NaN occur."""
    nodes = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                             "missing_value_tracks_true")}
    targets = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for t in range(count):
        tree = grown(leaves if t == 0 else None, leaves, dice)
        for i, inner in enumerate(tree):
            mode = "BRANCH_" + str(dice.choice(modes)) if inner else "LEAF"
            row = (t, i, int(dice.integers(0, 4)) if inner else 0, float(dice.integers(-3, 4)) / 2 if inner else 0.0, mode,
                   *(inner or (0, 0)), int(missing and dice.random() < 0.5))
            for k, v in zip(nodes, row):
                nodes[k].append(v)
            for target in (0, 1) if not inner else ():
                for k, v in zip(targets, (t, i, target, float(dice.integers(-8, 9)) / 4)):
                    targets[k].append(v)
    x = (dice.integers(-4, 5, (rows, 4)) / 2).astype(np.float32)
    x[dice.random(x.shape) < 0.1] = np.nan
    case("TreeEnsembleRegressor", [x], {**{f"nodes_{k}": v for k, v in nodes.items()},
                                        **{f"target_{k}": v for k, v in targets.items()}, "n_targets": 2, **more},
         opset=3, domain=ML)


for size in (2, 31, 32, 33, 63, 64, 65):
    forest(size, 19, ["LEQ"])
    forest(size, 19, ["LT", "GTE", "NEQ"], missing=size % 2 == 1)
    forest(size, 3, ["GT", "EQ", "NEQ"], missing=True, aggregate_function="MAX")
forest(24, 40, ["LEQ", "GT"], count=70)
forest(90, 5, ["LEQ", "LT"], count=70, aggregate_function="AVERAGE")

DEEP = np.random.default_rng(5)


def ensemble(leaves, rows, modes, count, targets=1, dtype=np.float32, missing=False, **more):
    """The same as TreeEnsemble-5, whose nodes and leaves are separate lists; mode 6 tests for members of a set."""
    nodes = {k: [] for k in ("featureids", "splits", "modes", "truenodeids", "falsenodeids", "trueleafs", "falseleafs",
                             "missing_value_tracks_true")}
    roots, weights, members = [], [], []
    for t in range(count):
        tree = grown(leaves if t == 0 else max(2, leaves * (t % 4) // 4), 0, DEEP)
        number, first = {}, len(nodes["modes"])
        for i, inner in enumerate(tree):
            number[i] = first + sum(1 for n in tree[:i] if n) if inner else len(weights)
            if not inner:
                weights.append(float(DEEP.integers(-8, 9)) / 4)
        roots.append(first)
        for inner in filter(None, tree):
            mode = int(DEEP.choice(modes))
            if mode == 6:
                members += [float(v) for v in DEEP.choice(np.arange(1, 5), 2, replace=False)] + [float("nan")]
            row = (int(DEEP.integers(0, 4)), float(DEEP.integers(-3, 4)), mode, *(number[i] for i in inner),
                   *(int(not tree[i]) for i in inner), int(missing and mode < 4 and DEEP.random() < 0.5))
            for k, v in zip(nodes, row):
                nodes[k].append(v)
    attributes = {f"nodes_{k}": v for k, v in nodes.items()}
    for name, values, kind in (("nodes_splits", nodes["splits"], dtype), ("nodes_modes", nodes["modes"], np.uint8),
                               ("leaf_weights", weights, dtype), ("membership_values", members, dtype)):
        attributes[name] = numpy_helper.from_array(np.array(values, kind), name)
    if not members:
        del attributes["membership_values"]
    x = DEEP.integers(-4, 5, (rows, 4)).astype(dtype)
    if missing:
        x[DEEP.random(x.shape) < 0.1] = np.nan
    case("TreeEnsemble", [x], {**attributes, "leaf_targetids": [int(DEEP.integers(targets)) for _ in weights], "tree_roots": roots,
                               "n_targets": targets, "aggregate_function": 1, "post_transform": 0, **more}, opset=5, domain=ML)


for rows in (1, 3, 37):
    forest(300, rows, ["LEQ"], count=20, dice=DEEP)
    forest(300, rows, ["LT", "GTE", "EQ", "NEQ"], missing=True, count=40, dice=DEEP)
    forest(64, rows, ["LEQ", "LT"], missing=True, count=100, dice=DEEP)
    ensemble(200, rows, [0], 70)
    ensemble(200, rows, [0, 3, 5, 6], 20, targets=2, missing=True)
    ensemble(30, rows, [0, 1], 90, missing=True, dtype=np.float64)
    ensemble(12, rows, [2], 40, missing=True, aggregate_function=2)
forest(200, 19, ["GT"], missing=True, count=66, dice=DEEP, aggregate_function="MIN")

# ---------------------------------------------------------------- support vectors
def machine(classes, kernel, post="NONE", probable=False, linear=False):
    each, pairs = [2, 3, 1, 2][:classes], classes * (classes - 1) // 2
    attributes = {"kernel_type": kernel, "kernel_params": [0.4, 0.5, 2.0], "post_transform": post,
                  "classlabels_ints": list(range(3, 3 + classes))}
    if linear:
        attributes.update(rho=[0.3], coefficients=[float(c) for c in floats(classes * 4)])
    else:
        attributes.update(rho=[float(c) for c in floats(pairs)], vectors_per_class=each,
                          support_vectors=[float(c) for c in floats(sum(each) * 4)],
                          coefficients=[float(c) for c in floats(sum(each) * (classes - 1))])
    if probable:
        attributes.update(prob_a=[-1.5 - 0.1 * i for i in range(pairs)], prob_b=[0.2 - 0.1 * i for i in range(pairs)])
    case("SVMClassifier", [floats(6, 4)], attributes, 2, opset=1, domain=ML)


for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
    machine(3, kernel)
    machine(2, kernel)
    machine(4, kernel, probable=True)
machine(2, "RBF", probable=True)
machine(3, "LINEAR", linear=True)
machine(3, "LINEAR", "SOFTMAX", linear=True)
machine(3, "RBF", "LOGISTIC")
for kernel in ("LINEAR", "RBF"):
    case("SVMRegressor", [floats(6, 4)], {"kernel_type": kernel, "kernel_params": [0.4, 0.5, 2.0], "n_supports": 3,
                                          "rho": [0.3], "support_vectors": [float(c) for c in floats(12)],
                                          "coefficients": [0.7, -0.4, 0.1], "one_class": int(kernel == "RBF")}, opset=1, domain=ML)
case("SVMRegressor", [floats(6, 4)], {"kernel_type": "LINEAR", "rho": [0.3], "coefficients": [0.7, -0.4, 0.1, 1.0]}, opset=1,
     domain=ML)


# ---------------------------------------------------------------- Scan-8 with lengths of sequences
def scan_body():
    info = [helper.make_tensor_value_info(n, 1, [2]) for n in ("sum", "next", "total", "element")]
    nodes = [helper.make_node("Add", ["sum", "next"], ["total"]), helper.make_node("Mul", ["total", "next"], ["element"])]
    return helper.make_graph(nodes, "body", info[:2], info[2:])


for direction in (0, 1):
    case("Scan", [np.array([2, 4, 1]), floats(3, 2), floats(3, 4, 2)],
         {"body": scan_body(), "num_scan_inputs": 1, "directions": [direction]}, 2, opset=8)
case("Scan", [None, floats(3, 2), floats(3, 4, 2)], {"body": scan_body(), "num_scan_inputs": 1}, 2, opset=8)


# ---------------------------------------------------------------- DFT along an axis that only the run knows
for axis, shape in ((0, (6,)), (-2, (5,)), (0, (4, 3)), (1, (4, 3)), (-3, (2, 9)), (2, (2, 3, 5)), (-4, (3, 1, 4)), (1, (2, 8, 3))):
    for length in (None, 7):
        held = (1,) if axis % 2 else ()
        at = [None if length is None else np.array(length), np.array(axis)]
        x = floats(*shape, 2)
        case("DFT", [x, *at], by="reference", opset=20, constants=held[:length or 0])
        case("DFT", [x, *at], {"inverse": 1}, by="reference", opset=20)
        case("DFT", [x[..., :1].astype(np.float64), *at], {"onesided": 1}, by="reference", opset=20)
        case("DFT", [x, *at], {"inverse": 1, "onesided": 1}, by="reference", opset=20)


# ---------------------------------------------------------------- words and categories
for mode in ("TF", "IDF", "TFIDF"):  # weights go with n-grams, which ngram_indexes gives columns in any order
    case("TfIdfVectorizer", [np.array([1, 2, 1, 3, 1, 2])],
         {"mode": mode, "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1, "ngram_counts": [0, 1],
          "ngram_indexes": [2, 0], "weights": [0.5, 2.0], "pool_int64s": [2, 1, 3]}, opset=9)
    case("TfIdfVectorizer", [np.array([["a", "b", "a", "c"], ["c", "a", "a", "b"]])],
         {"mode": mode, "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 2],
          "ngram_indexes": [1, 2, 0], "weights": [0.5, 2.0, 3.0], "pool_strings": ["a", "b", "a", "c"]}, opset=9)
CATEGORIES = {"cats_strings": ["a", "b"], "cats_int64s": [5, 6]}
case("CategoryMapper", [np.array(["a", "q", "b"])], {**CATEGORIES, "default_int64": 77}, opset=1, domain=ML)
case("CategoryMapper", [np.array([[5, 9], [6, 5]])], CATEGORIES, opset=1, domain=ML)
case("CategoryMapper", [np.array([5, 9])], {**CATEGORIES, "default_string": "none"}, opset=1, domain=ML)
# Numbers of all magnitudes, in few digits and in many.
SPREAD = floats(300) * np.float32(10) ** DICE.integers(-20, 20, 300).astype(np.float32)
for x in (SPREAD, np.float32([0, -0.0, 1, 9.5, 99.5, 1e8, 9.9999998e-5, 2.0 ** -20, 2.0 ** 24, 3.4e38, 0.1, 0.3]),
          DICE.integers(0, 10 ** 6, 200).astype(np.float32) / np.float32(1000), floats(200, dtype=np.float16), SPREAD.astype(np.float64)):
    case("Cast", [x], {"to": onnx.TensorProto.STRING}, by="reference", opset=19)
DECIMALS = [f"{v:.{p}{k}}" for v in SPREAD[:60] for p, k in ((3, "f"), (9, "e"), (12, "g"))] + ["16777217", "1.5", "-0.", ".5", "+7", "0.30000001192092896"]
for to in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
    case("Cast", [np.array(DECIMALS, object)], {"to": to}, opset=19)
# Many keys, of all sizes, some of which are the beginning or the end of others, and values that are none.
TEXTS = [("straße Ünïcode 日本語 " * 2)[i:j] for i in range(20) for j in range(i, 40, 1 + i % 3)]
TEXTS = [TEXTS[i] for i in DICE.permutation(len(TEXTS)) if TEXTS[i] not in TEXTS[:i]]
WORDS, OTHERS = TEXTS[::2], TEXTS[1::2] + ["", "s", "日"]
SOUGHT = np.array([(WORDS + OTHERS)[i] for i in DICE.integers(0, len(WORDS + OTHERS), 300)], object)
NUMBERS = [-2**63, 2**63 - 1, 0, -1, *(int(i) << int(b) for i, b in zip(DICE.integers(-2**30, 2**30, 700), DICE.integers(0, 33, 700)))]
NUMBERS = list(dict.fromkeys(NUMBERS))
for count in (1, 2, 3, 7, 64, len(WORDS)):
    case("LabelEncoder", [SOUGHT], {"keys_strings": WORDS[:count], "values_int64s": list(range(count))}, opset=2, domain=ML)
for count in (1, 5, 100, len(NUMBERS)):
    x = np.array([NUMBERS[i] + d for i, d in zip(DICE.integers(0, len(NUMBERS), 200), DICE.integers(0, 2, 200)) if NUMBERS[i] < 2**63 - 1])
    case("LabelEncoder", [x], {"keys_int64s": NUMBERS[:count], "values_strings": [str(i) for i in range(count)]}, opset=2, domain=ML)
REALS = [float(v) for v in floats(50)] + [float("inf"), float("-inf"), 0.0]
case("LabelEncoder", [np.array(REALS[::2] + [-0.0, 7.0, float("nan")], np.float32)],
     {"keys_floats": REALS, "values_int64s": list(range(len(REALS)))}, opset=2, domain=ML)
case("OneHotEncoder", [SOUGHT[:20]], {"cats_strings": WORDS, "zeros": 1}, opset=1, domain=ML)
# Keys whose hashes (runtime-lite/lib/lib_slots.h) are equal with each seed: the topmost bits of the first eight bytes, and of the last eight's halves.
SAME = [b"0123456789abcdef", b"0123456\xb789a\xe2cde\xe6"]
case("LabelEncoder", [np.array(["b", "0123456789abcdef", "c"], object)], {"keys_strings": SAME + [b"b"], "values_int64s": [1, 2, 3]}, opset=2, domain=ML)
for longest, skipped in ((1, 0), (3, 0), (3, 2)):
    grams = np.concatenate([np.sort(DICE.choice(5 ** n, 5 ** n // 2 + 1, replace=False))[:60][:, None] // 5 ** np.arange(n) % 5
                            for n in range(1, longest + 1)], None)
    starts = np.cumsum([0] + [n * min(60, 5 ** n // 2 + 1) for n in range(1, longest)])
    columns = sum(min(60, 5 ** n // 2 + 1) for n in range(1, longest + 1))
    case("TfIdfVectorizer", [DICE.integers(0, 7, (4, 50))],
         {"mode": "TF", "min_gram_length": 1, "max_gram_length": longest, "max_skip_count": skipped, "ngram_counts": list(starts),
          "ngram_indexes": [int(i) for i in DICE.permutation(columns)], "pool_int64s": [int(i) for i in grams]}, opset=9)
MIXED = np.array(["@AZ[`az{", "plain lower case of more than eight", "ÀÉÎ mixed IN the Middle ÿ", "", "Ab", "STOPWORD", "stopWord", "\x7f@Z"], object)
for change, sensitive in itertools.product(("NONE", "LOWER", "UPPER"), (0, 1)):
    case("StringNormalizer", [MIXED], {"case_change_action": change, "is_case_sensitive": sensitive, "locale": "C.UTF-8",
                                       "stopwords": ["stopWord", "ab", "@az[`AZ{", *(f"w{i}" for i in range(30))]}, opset=10)
for delimiter in ("", " ", "ab", "日", "aab"):
    texts = ["a b  c", " ", "abab", "xab日ab", "日", "aaab aab", "b"]
    case("StringSplit", [np.array(texts, object)], {"delimiter": delimiter}, outputs=2, opset=20)


# ---------------------------------------------------------------- complex numbers that are only moved
for dtype in (np.complex64, np.complex128):
    x = (floats(3, 4) + 1j * floats(3, 4)).astype(dtype)
    case("Expand", [x[:, :1], np.array([2, 3, 4])], by="reference")
    case("OneHot", [np.array([0, 2, 1]), np.array(4), x[0, :2]], by="reference")
    case("Pad", [x, np.array([1, 0, 2, 1])], by="reference")
    case("Pad", [x, np.array([1, 2]), x[0, 0], np.array([1])], by="reference")
    case("Trilu", [x, np.array(1)], by="reference")
    case("CenterCropPad", [x, np.array([5, 2])], by="reference")
    case("Where", [DICE.random((3, 4)) < 0.5, x, x[1]], by="reference")
    case("ScatterND", [x, np.array([[0], [2]]), x[1:]], by="reference")


# ---------------------------------------------------------------- ConvTranspose: padding by auto_pad, strides beyond the kernel
for mode, (kernel, stride, dilation, extra) in itertools.product(
        ("SAME_UPPER", "SAME_LOWER", "VALID"),
        ((3, 2, 1, 0), (4, 2, 1, 1), (2, 2, 1, 0), (1, 3, 1, 0), (2, 3, 1, 0), (2, 5, 2, 0), (2, 5, 1, 2))):
    case("ConvTranspose", [floats(2, 3, 5, 4), floats(3, 2, kernel, 3)],
         {"auto_pad": mode, "strides": [stride, 2], "dilations": [dilation, 1], "output_padding": [extra, 0]})


# ---------------------------------------------------------------- RotaryEmbedding: angles that batches or rows share
for shape, attributes in (((3, 2, 5, 8), {}), ((3, 5, 16), {"num_heads": 2, "interleaved": 1, "rotary_embedding_dim": 4})):
    half = attributes.get("rotary_embedding_dim", 8) // 2
    for batches, rows in ((1, 5), (3, 1), (1, 1)):
        case("RotaryEmbedding", [floats(*shape), floats(batches, rows, half), floats(batches, rows, half)], attributes, opset=23,
             by="reference")
        case("RotaryEmbedding", [floats(*shape), floats(9, half), floats(9, half), DICE.integers(0, 9, (batches, rows))], attributes,
             opset=23, by="reference")


# ---------------------------------------------------------------- ConvTranspose to few channels, as products that are added up
for sizes, kernel, attributes in (
        ((40,), (16,), {"strides": [8]}),
        ((40,), (20,), {"strides": [10], "pads": [3, 5], "output_padding": [4]}),
        ((50,), (3,), {"strides": [7], "output_padding": [5]}),
        ((37,), (5,), {"strides": [2], "dilations": [3], "pads": [4, 2]}),
        ((9, 7), (4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((9, 7), (5, 3), {"strides": [3, 1], "pads": [2, 0, 1, 2]}),
        ((9, 7), (3, 4), {"strides": [2, 3], "auto_pad": "SAME_UPPER"}),
        ((9, 7), (2, 2), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
        ((9, 20), (3, 3), {"pads": [1, 1, 1, 1], "dilations": [1, 2]}),
        ((3, 5, 4), (2, 3, 2), {"strides": [2, 1, 2], "pads": [0, 1, 0, 1, 0, 1]})):
    for channels, batch, dtype in ((1, 1, np.float32), (3, 2, np.float32), (2, 1, np.float64)):
        if len(sizes) < 3 or dtype == np.float32:
            case("ConvTranspose", [floats(batch, 8, *sizes, dtype=dtype), floats(8, channels, *kernel, dtype=dtype),
                                   floats(channels, dtype=dtype) if channels > 1 else None], attributes,
                 by="reference" if dtype == np.float64 else "ort", constants=(1, 2) if batch == 1 else ())


# ---------------------------------------------------------------- writing
# ---------------------------------------------------------------- rows with NaN and infinities
def rows_of_specials(n):
    x = 5 * np.random.default_rng(n).standard_normal((8, n)).astype(np.float32)
    x[1, 0], x[2, -1], x[3] = np.nan, np.nan, np.nan
    x[4], x[5, n // 2], x[6] = -np.inf, np.inf, -np.inf
    x[6, n // 2] = np.nan
    return x


for length in (1, 3, 19, 64, 150):
    case("Softmax", [rows_of_specials(length)], {"axis": -1}, by="reference")
    case("Softmax", [rows_of_specials(length).T.copy()], {"axis": 0}, by="reference")
    case("LogSoftmax", [rows_of_specials(length)], {"axis": -1}, by="reference")
    case("ReduceLogSumExp", [rows_of_specials(length)[:4], np.array([1])], {"keepdims": 1}, by="reference", constants=(1,))


# ---------------------------------------------------------------- versions whose definition was replaced
for version in (18, 20):  # one scale and bias per group
    case("GroupNormalization", [floats(2, 6, 5), floats(3), floats(3)], {"num_groups": 3}, opset=version)

# ---------------------------------------------------------------- more coefficients than features, as in ONNX Runtime's example
case("LinearClassifier", [floats(5, 2)],
     {"coefficients": floats(12).tolist(), "intercepts": floats(3).tolist(), "classlabels_ints": [0, 1, 2], "multi_class": 0,
      "post_transform": "LOGISTIC"}, outputs=2, opset=1, domain=ML)

# ---------------------------------------------------------------- coefficients below 0, for which the formula is not the function's body
case("Celu", [floats(3, 5)], {"alpha": -2.0}, opset=12)

# ---------------------------------------------------------------- whole positions, not a little more or less
for scale, length, rounding in ((1.5, 3, "ceil"), (0.5, 7, "ceil"), (2.5, 7, "ceil"), (0.75, 5, "floor"), (1.5, 3, "floor")):
    resize("nearest", "half_pixel_symmetric", scales=[scale], shape=(length,), nearest_mode=rounding)


def model_of(node, values, outputs, opset, constants):
    info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in values.items() if n not in constants]
    wanted = [n for n in node.output if n]
    out = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
           for n, v in zip(wanted, outputs)]
    held = [numpy_helper.from_array(values[n], n) for n in values if n in constants]
    versions = [helper.make_opsetid("", opset)] if not node.domain else \
        [helper.make_opsetid("", 18), helper.make_opsetid(node.domain, opset)]
    return helper.make_model(helper.make_graph([node], "case", info, out, held), opset_imports=versions, ir_version=10)


def answer(node, values, opset, by):
    wanted = [n for n in node.output if n]
    given = [np.zeros(0, np.float32)] * len(wanted)
    model = model_of(node, values, given, opset, ())
    for o in model.graph.output:
        o.type.Clear()
    if by == "reference":
        return ReferenceEvaluator(model).run(wanted, dict(values))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options).run(wanted, dict(values))


def main():
    out = sys.argv[1]
    stamp = Stamp(out, __file__)
    if stamp.fresh():
        return
    stamp.begin()
    numbers = {}
    for op, node, values, opset, by, constants in CASES:
        numbers[op] = number = numbers.get(op, -1) + 1
        try:
            outputs = answer(node, values, opset, by)
        except Exception as e:  # whatever an evaluator lacks
            print(f"skip {op}/{number}: {str(e).splitlines()[0][:160]}")
            continue
        outputs = [np.asarray(o) for o in outputs]
        model = model_of(node, values, outputs, opset, constants)
        inputs = [v for n, v in values.items() if n not in constants]
        write_case(os.path.join(out, op, str(number)), model, [(inputs, outputs)], rtol=1e-3, atol=1e-5)
    stamp.done()


if __name__ == "__main__":
    main()
