"""Writes the training step of the digits network as one ONNX model: forward pass, loss, Gradient and Adam.

usage: model.py [FOLDER]     writes training.onnx and digits.bin (the images of ../digits/train.py: pixels and label, 65 bytes each)
needs: the packages of ../digits/requirements.txt
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "digits"))
import train  # noqa: E402

TRAINING = "ai.onnx.preview.training"
FEATURES = train.CHANNELS[2] * 4
SHAPES = {
    **{f"conv{i}_{part}": shape for i in (1, 2) for part, shape in (
        ("weight", (train.CHANNELS[i], train.CHANNELS[i - 1], 3, 3)), ("bias", (train.CHANNELS[i],)))},
    "fc_weight": (FEATURES, 10), "fc_bias": (10,),
}


def node(op, inputs, outputs, name, **attributes):
    return helper.make_node(op, inputs, outputs, name, **attributes)


def forward_nodes():
    nodes = [node("Mul", ["image", "scale"], ["x0"], "scale")]
    for i in (1, 2):
        nodes += [
            node("Conv", [f"x{i - 1}", f"conv{i}_weight", f"conv{i}_bias"], [f"c{i}"], f"conv{i}", kernel_shape=[3, 3],
                 pads=[1, 1, 1, 1]),
            node("Relu", [f"c{i}"], [f"r{i}"], f"relu{i}"),
            node("MaxPool", [f"r{i}"], [f"x{i}"], f"pool{i}", kernel_shape=[2, 2], strides=[2, 2]),
        ]
    return nodes + [node("Flatten", ["x2"], ["flat"], "flatten"),
                    node("Gemm", ["flat", "fc_weight", "fc_bias"], ["logits"], "fc")]


def training_nodes():
    """The loss, its gradient with respect to the parameters, and their next values."""
    names = list(SHAPES)
    lists = [*names, *(f"d_{n}" for n in names), *(f"{n}_mean" for n in names), *(f"{n}_square" for n in names)]
    outputs = [f"next_{n}" for n in (*names, *(f"{n}_mean" for n in names), *(f"{n}_square" for n in names))]
    return [
        node("SoftmaxCrossEntropyLoss", ["logits", "label"], ["loss"], "loss"),
        node("Gradient", [*names, "image", "label"], [f"d_{n}" for n in names], "gradient", domain=TRAINING, xs=names,
             zs=["image", "label"], y="loss"),
        node("Adam", ["rate", "step", *lists], outputs, "adam", domain=TRAINING, alpha=0.9, beta=0.999, epsilon=1e-8),
    ]


def model_of():
    floats, batch = TensorProto.FLOAT, train.BATCH
    states = {n + suffix: shape for suffix in ("", "_mean", "_square") for n, shape in SHAPES.items()}
    inputs = [("image", floats, [batch, 1, 8, 8]), ("label", TensorProto.INT64, [batch]), ("rate", floats, []),
              ("step", TensorProto.INT64, []), *((n, floats, shape) for n, shape in states.items())]
    outputs = [("loss", floats, []), ("logits", floats, [batch, 10]), *(("next_" + n, floats, shape) for n, shape in states.items())]
    graph = helper.make_graph(
        forward_nodes() + training_nodes(), "training", [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs], [numpy_helper.from_array(np.array(1 / 16, np.float32), "scale")])
    return helper.make_model(graph, producer_name="onnxc training sample", ir_version=8,
                             opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(TRAINING, 1)])


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    onnx.save(model_of(), os.path.join(folder, "training.onnx"))
    images, labels, test_images, test_labels = train.split(np.random.default_rng(20))
    pixels = np.concatenate([images, test_images]).reshape(-1, 64)
    rows = np.concatenate([pixels, np.concatenate([labels, test_labels])[:, None]], axis=1)
    rows.astype(np.uint8).tofile(os.path.join(folder, "digits.bin"))


if __name__ == "__main__":
    main()
