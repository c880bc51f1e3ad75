"""Networks with the layers of MLPerf Tiny's, in int8 with random weights: an autoencoder of dense layers, ResNet-8, and MobileNet v1 of width 0.25.

usage: tiny_networks.py FOLDER      writes FOLDER/NAME/model.onnx, each with an input in test_data_set_0

Scales follow from the weights' and inputs' spreads such that three standard deviations of each layer's sums fit in a byte, so that few values
saturate: sizes and instructions are those of trained networks, answers mean nothing.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHT_SPREAD = 127 / 3 ** 0.5  # of uniform bytes
SIGMAS = 3


class Network:
    """A graph of QDQ layers; `value` is the name of the last tensor of bytes, (scale, zero) its quantisation."""

    def __init__(self, seed, shape):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.shape = [], [], shape
        self.first, self.value, self.scale, self.zero = shape, "x", 0.02, 0

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"n{len(self.nodes)}", **attributes))
        return name

    def real(self):
        """The last tensor as floats."""
        return self.node("DequantizeLinear", [self.value, self.constant(np.float32(self.scale)), self.constant(np.int8(self.zero))])

    def quantise(self, value, scale, zero):
        self.scale, self.zero = float(np.float32(scale)), zero
        self.value = self.node("QuantizeLinear", [value, self.constant(np.float32(scale)), self.constant(np.int8(zero))])

    def spread(self):
        """The standard deviation of the last tensor, about: it fills its range."""
        return self.scale * (127 if self.zero == 0 else 255) / SIGMAS

    def finish(self, value, spread, relu):
        if relu:
            value = self.node("Relu", [value])
        self.quantise(value, SIGMAS * spread / (255 if relu else 127), -128 if relu else 0)

    def weights(self, shape):
        """Bytes with a scale per channel, and a bias; their names, and the mean spread of the sums."""
        out, depth = shape[0], int(np.prod(shape[1:]))
        scales = (self.random.uniform(0.5, 2, out) / WEIGHT_SPREAD / depth ** 0.5).astype(np.float32)
        data = self.random.integers(-127, 128, shape).astype(np.int8)
        w = self.node("DequantizeLinear", [self.constant(data), self.constant(scales), self.constant(np.zeros(out, np.int8))], axis=0)
        products = (scales * np.float32(self.scale)).astype(np.float32)
        bias = np.rint(self.random.uniform(-1, 1, out) * self.spread() / products).astype(np.int32)
        b = self.node("DequantizeLinear", [self.constant(bias), self.constant(products), self.constant(np.zeros(out, np.int32))], axis=0)
        return w, b, 1.5 * self.spread()

    def conv(self, out, size, stride=1, depthwise=False, relu=True):
        _, channels, h, w = self.shape
        new = [-(-n // stride) for n in (h, w)]
        most = [max((m - 1) * stride + size - n, 0) for m, n in zip(new, (h, w))]
        pads = [p // 2 for p in most] + [p - p // 2 for p in most]
        value = self.real()
        weights, bias, spread = self.weights((out, 1 if depthwise else channels, size, size))
        value = self.node("Conv", [value, weights, bias], kernel_shape=[size] * 2, strides=[stride] * 2, pads=pads, group=channels if depthwise else 1)
        self.shape = (1, out, *new)
        self.finish(value, spread, relu)

    def dense(self, out, relu=True):
        value = self.real()
        weights, bias, spread = self.weights((out, self.shape[1]))
        self.shape = (1, out)
        self.finish(self.node("Gemm", [value, weights, bias], transB=1), spread, relu)

    def pool(self):
        value = self.node("GlobalAveragePool", [self.real()])
        self.quantise(value, self.scale, self.zero)
        self.shape = self.shape[:2]
        self.value = self.node("Reshape", [self.value, self.constant(np.array(self.shape, np.int64))])

    def place(self):
        return self.value, self.scale, self.zero, self.shape

    def add(self, other):
        """The sum of the last tensor and another, rectified."""
        spread, value = self.spread(), self.real()
        self.value, self.scale, self.zero, self.shape = other
        self.finish(self.node("Add", [value, self.real()]), (spread ** 2 + self.spread() ** 2) ** 0.5, True)

    def model(self):
        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(self.nodes, "tiny", [helper.make_tensor_value_info("x", TensorProto.INT8, self.first)],
                                  [helper.make_tensor_value_info("y", TensorProto.INT8, self.shape)], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


def autoencoder():
    n = Network(1, (1, 640))
    for out in [128] * 4 + [8] + [128] * 4:
        n.dense(out)
    n.dense(640, relu=False)
    return n


def resnet():
    n = Network(2, (1, 3, 32, 32))
    n.conv(16, 3)
    for out, stride in (16, 1), (32, 2), (64, 2):
        before = n.place()
        n.conv(out, 3, stride)
        n.conv(out, 3, relu=False)
        if stride > 1:
            main = n.place()
            n.value, n.scale, n.zero, n.shape = before
            n.conv(out, 1, stride, relu=False)
            before = main
        n.add(before)
    n.pool()
    n.dense(10, relu=False)
    return n


def mobilenet():
    n = Network(3, (1, 3, 96, 96))
    n.conv(8, 3, 2)
    for out, stride in [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)] + [(128, 1)] * 5 + [(256, 2), (256, 1)]:
        n.conv(n.shape[1], 3, stride, depthwise=True)
        n.conv(out, 1)
    n.pool()
    n.dense(2, relu=False)
    return n


NETWORKS = {"autoencoder_int8": autoencoder, "resnet8_int8": resnet, "mobilenet_int8": mobilenet}


def write(folder):
    """Writes the networks; returns their folders."""
    places = []
    for name, make in NETWORKS.items():
        network, place = make(), os.path.join(folder, name)
        os.makedirs(os.path.join(place, "test_data_set_0"), exist_ok=True)
        onnx.save(network.model(), os.path.join(place, "model.onnx"))
        x = np.clip(np.rint(network.random.standard_normal(network.first) * 127 / SIGMAS), -128, 127).astype(np.int8)
        with open(os.path.join(place, "test_data_set_0", "input_0.pb"), "wb") as f:
            f.write(numpy_helper.from_array(x, "x").SerializeToString())
        places.append(place)
    return places


if __name__ == "__main__":
    print("\n".join(write(sys.argv[1])))
