"""Top-1 of trained networks before and after quantisation, by onnxc quantize and by ONNX Runtime's quantisers.

usage: digits.py ONNXC [--epochs N]

Trains a CNN, an MLP and a network of depthwise convolutions on scikit-learn's handwritten digits (split and training of
samples/digits/train.py). Calibration gets 100 of the training images; the 360 test images are in neither. Prints the share
of right answers, and the signal-to-noise ratio of the logits. needs: numpy, onnx, onnxruntime, scikit-learn
"""
import argparse
import logging
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.shape_inference import quant_pre_process

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples", "digits"))
import train as digits  # noqa: E402

ort.set_default_logger_severity(3)
logging.disable(logging.INFO)
CALIBRATION = 100
FORMS = ("int8", "int8 --bias-correction", "int8-weights", "int4-weights", "int2-weights")


# Layers: forward(params, x) -> (y, what backward needs); backward(params, saved, dy) -> (gradients, dx); nodes of ONNX.
class Dense:
    def __init__(self, name, cin, cout):
        self.name, self.shape, self.fan = name, (cin, cout), cin

    def forward(self, p, x):
        flat = x.reshape(len(x), -1)
        return flat @ p[self.name + ".weight"] + p[self.name + ".bias"], (flat, x.shape)

    def backward(self, p, saved, dy):
        flat, shape = saved
        gradients = {self.name + ".weight": flat.T @ dy, self.name + ".bias": dy.sum(0)}
        return gradients, (dy @ p[self.name + ".weight"].T).reshape(shape)

    def nodes(self, x, y):
        n = self.name
        return [helper.make_node("Flatten", [x], [n + ".flat"], n + ".flatten"),
                helper.make_node("MatMul", [n + ".flat", n + ".weight"], [n + ".product"], n),
                helper.make_node("Add", [n + ".product", n + ".bias"], [y], n + ".add")]


class Conv:
    """Of 3x3 windows."""

    def __init__(self, name, cin, cout):
        self.name, self.shape, self.fan, self.group = name, (cout, cin, 3, 3), 9 * cin, 1

    def forward(self, p, x):
        y, columns = digits.conv_forward(x, p[self.name + ".weight"], p[self.name + ".bias"])
        return y, (columns, x.shape)

    def backward(self, p, saved, dy):
        dweight, dbias, dx = digits.conv_backward(dy, p[self.name + ".weight"], *saved)
        return {self.name + ".weight": dweight, self.name + ".bias": dbias}, dx

    def nodes(self, x, y):
        k = self.shape[-1]
        return [helper.make_node("Conv", [x, self.name + ".weight", self.name + ".bias"], [y], self.name, kernel_shape=[k, k],
                                 pads=[k // 2] * 4, group=self.group)]


class Depthwise(Conv):
    """Of 3x3 windows, each channel for itself."""

    def __init__(self, name, channels):
        self.name, self.shape, self.fan, self.group = name, (channels, 1, 3, 3), 9, channels

    def forward(self, p, x):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return np.einsum("nchwij,cij->nchw", view, p[self.name + ".weight"][:, 0]) + p[self.name + ".bias"][:, None, None], view

    def backward(self, p, view, dy):
        weight, (h, w) = p[self.name + ".weight"][:, 0], dy.shape[2:]
        dx = np.zeros(dy.shape[:2] + (h + 2, w + 2), np.float32)
        for i in range(3):
            for j in range(3):
                dx[:, :, i:i + h, j:j + w] += dy * weight[:, i, j, None, None]
        dweight = np.einsum("nchwij,nchw->cij", view, dy)[:, None]
        return {self.name + ".weight": dweight, self.name + ".bias": dy.sum((0, 2, 3))}, dx[:, :, 1:-1, 1:-1]


class Point(Conv):
    """Of 1x1 windows."""

    def __init__(self, name, cin, cout):
        self.name, self.shape, self.fan, self.group = name, (cout, cin, 1, 1), cin, 1

    def forward(self, p, x):
        return np.einsum("nchw,oc->nohw", x, p[self.name + ".weight"][:, :, 0, 0], optimize=True) + p[self.name + ".bias"][:, None, None], x

    def backward(self, p, x, dy):
        dweight = np.einsum("nohw,nchw->oc", dy, x, optimize=True)[:, :, None, None]
        dx = np.einsum("nohw,oc->nchw", dy, p[self.name + ".weight"][:, :, 0, 0], optimize=True)
        return {self.name + ".weight": dweight, self.name + ".bias": dy.sum((0, 2, 3))}, dx


class Relu:
    shape = None

    def __init__(self, name):
        self.name = name

    def forward(self, p, x):
        return np.maximum(x, 0), x > 0

    def backward(self, p, positive, dy):
        return {}, dy * positive

    def nodes(self, x, y):
        return [helper.make_node("Relu", [x], [y], self.name)]


class Pool(Relu):
    def forward(self, p, x):
        return digits.pool_forward(x)

    def backward(self, p, where, dy):
        return {}, digits.pool_backward(dy, where)

    def nodes(self, x, y):
        return [helper.make_node("MaxPool", [x], [y], self.name, kernel_shape=[2, 2], strides=[2, 2])]


def separable(i, cin, cout):
    return [Depthwise(f"depthwise{i}", cin), Relu(f"relu{i}a"), Point(f"pointwise{i}", cin, cout), Relu(f"relu{i}b")]


NETWORKS = {
    "CNN": [Conv("conv1", 1, 12), Relu("relu1"), Pool("pool1"), Conv("conv2", 12, 24), Relu("relu2"), Pool("pool2"),
            Dense("fc", 96, 10)],
    "MLP": [Dense("fc1", 64, 96), Relu("relu1"), Dense("fc2", 96, 64), Relu("relu2"), Dense("fc3", 64, 10)],
    "depthwise": [Conv("conv1", 1, 16), Relu("relu1"), *separable(2, 16, 32), Pool("pool2"), *separable(3, 32, 32), Pool("pool3"),
                  Dense("fc", 128, 10)],
}


def forward(layers, p, pixels):
    x, saved = pixels * np.float32(1 / 16), []
    for layer in layers:
        x, s = layer.forward(p, x)
        saved.append(s)
    return x, saved


def gradients(layers, p, pixels, labels):
    """Of the mean cross entropy."""
    logits, saved = forward(layers, p, pixels)
    e = np.exp(logits - logits.max(1, keepdims=True))
    d = e / e.sum(1, keepdims=True)
    d[np.arange(len(d)), labels] -= 1
    d /= len(d)
    all_of = {}
    for layer, s in zip(reversed(layers), reversed(saved)):
        own, d = layer.backward(p, s, d)
        all_of.update(own)
    return all_of


def trained(layers, images, labels, rng):
    p = {}
    for layer in layers:
        if layer.shape:
            p[layer.name + ".weight"] = rng.normal(0, np.sqrt(2 / layer.fan), layer.shape).astype(np.float32)
            p[layer.name + ".bias"] = np.zeros(layer.shape[1 if len(layer.shape) == 2 else 0], np.float32)
    digits.gradients = lambda p, pixels, labels: gradients(layers, p, pixels, labels)
    digits.train(p, images, labels, rng)
    return p


def model_of(layers, p):
    nodes, x = [helper.make_node("Mul", ["image", "scale"], ["x"], "scale_pixels")], "x"
    for layer in layers:
        y = "logits" if layer is layers[-1] else layer.name + ".out"
        nodes += layer.nodes(x, y)
        x = y
    constants = {"scale": np.array(1 / 16, np.float32), **p}
    graph = helper.make_graph(nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


class Reader(CalibrationDataReader):
    def __init__(self, images):
        self.left = iter(images)

    def get_next(self):
        image = next(self.left, None)
        return None if image is None else {"image": image[None]}


def by_onnxruntime(form, model, out, images):
    """False: it has no such form."""
    if form == "int8":
        quant_pre_process(model, out + ".prepared", skip_symbolic_shape=True)
        quantize_static(out + ".prepared", out, Reader(images), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8)
        return True
    if form == "int8 --bias-correction":
        return False
    q = MatMulNBitsQuantizer(onnx.load(model), bits=int(form[3]), block_size=32, is_symmetric=False, quant_format=QuantFormat.QOperator)
    q.process()
    q.model.save_model_to_file(out)
    return True


def by_onnxc(onnxc, form, model, out, images):
    np.save(out + ".npy", images)
    subprocess.run([onnxc, "quantize", model, "--to", *form.split(), "--data", out + ".npy", "-o", out], check=True, stdout=subprocess.DEVNULL)


def logits_of(onnxc, model, images, form):
    if form != "int2-weights":  # onnxc's, which ONNX Runtime does not read
        return ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"image": images})[0]
    np.save(model + ".x.npy", images)
    subprocess.run([onnxc, "run", model, "--input", f"image={model}.x.npy", "--output", f"logits={model}.y.npy"], check=True,
                   stdout=subprocess.DEVNULL)
    return np.load(model + ".y.npy")


def figures(got, want, labels):
    noise = float(((got.astype(np.float64) - want) ** 2).sum())
    right = int((got.argmax(1) == labels).sum())
    return f"{100 * right / len(labels):.1f} % ({10 * np.log10(float((want.astype(np.float64) ** 2).sum()) / max(noise, 1e-30)):.1f} dB)"


def compare(onnxc, name, folder, data):
    images, labels, test, answers = data
    layers = NETWORKS[name]
    model = os.path.join(folder, name + ".onnx")
    onnx.save(model_of(layers, trained(layers, images, labels, np.random.default_rng(20))), model)
    want = logits_of(onnxc, model, test, "")
    print(f"| {name} | float | {100 * np.mean(want.argmax(1) == answers):.1f} % | |", flush=True)
    for form in FORMS:
        out = os.path.join(folder, "q.onnx")
        by_onnxc(onnxc, form, model, out, images[:CALIBRATION])
        own = figures(logits_of(onnxc, out, test, form), want, answers)
        other = "-"
        if by_onnxruntime(form, model, out, images[:CALIBRATION]):
            other = figures(logits_of(onnxc, out, test, ""), want, answers)
        print(f"| | {form} | {own} | {other} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc")
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()
    digits.EPOCHS = args.epochs
    data = digits.split(np.random.default_rng(20))
    print("| network | form | onnxc | ONNX Runtime |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name in NETWORKS:
            compare(args.onnxc, name, folder, data)


if __name__ == "__main__":
    sys.exit(main())
