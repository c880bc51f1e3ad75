"""Case folders of models that tools made, with what ONNX Runtime answers when it optimises nothing."""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cases"))
from case_files import write_case  # noqa: E402

NUMBERS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def plain_softmax(node, graph):
    """QLinearSoftmax as the nodes that it stands for: ONNX Runtime's kernel, which rounds 1 / y_scale down, overflows where
    that is large."""
    x, x_scale, x_zero, y_scale, y_zero = node.input
    scale = next(numpy_helper.to_array(i) for i in graph.initializer if i.name == y_scale)
    graph.initializer.append(numpy_helper.from_array(1 / np.floor(1 / scale), node.output[0] + "/scale"))
    (y,), axis = node.output, next((a.i for a in node.attribute if a.name == "axis"), -1)
    return [helper.make_node("DequantizeLinear", [x, x_scale, x_zero], [y + "/x"]),
            helper.make_node("Softmax", [y + "/x"], [y + "/y"], axis=axis),
            helper.make_node("QuantizeLinear", [y + "/y", y + "/scale", y_zero], [y])]


def exact(model):
    """The model that says what is right: where ONNX Runtime's kernels are coarser than the definition, other nodes or attributes.

    With accuracy_level it may round activations of MatMulNBits to bytes."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    nodes = [n for node in copy.graph.node for n in (plain_softmax(node, copy.graph) if node.op_type == "QLinearSoftmax" else [node])]
    for node in nodes:
        kept = [a for a in node.attribute if a.name != "accuracy_level"]
        del node.attribute[:]
        node.attribute.extend(kept)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy


def session_of(model):
    options = ort.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def write(model, folder, sets, rtol, strict=False):
    """The case: the model of a tool, the inputs, and what ONNX Runtime answers. Elements may be off by rtol of the largest one,
    as in test/exports/measure.py; strict: and by no more than rtol of 1."""
    session = session_of(exact(model).SerializeToString())
    inputs = session.get_inputs()
    sets = [[a.astype(NUMBERS.get(i.type, a.dtype)) for i, a in zip(inputs, values)] for values in sets]
    right = [session.run(None, {i.name: a for i, a in zip(inputs, values)}) for values in sets]
    if not all(np.isfinite(a).all() for made in right for a in made):
        sys.exit("ONNX Runtime's answers are not finite")
    largest = max(float(np.abs(a).max(initial=0)) for made in right for a in made)
    write_case(folder, model, list(zip(sets, right)), rtol=rtol, atol=rtol * min(1, largest) if strict else rtol * largest)
