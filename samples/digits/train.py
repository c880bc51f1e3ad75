"""Trains the digits sample: a small CNN on scikit-learn's 8x8 handwritten digits, with numpy alone.

usage: train.py [FOLDER]     writes digits.onnx (the trained model) and digits_data.h (test images for main.c)
needs: requirements.txt in this folder; takes about a minute on one core
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

CHANNELS = (1, 12, 24)
EPOCHS, BATCH, RATE = 60, 32, 2e-3
SHOWN = 20  # images in digits_data.h: the first test images of each digit


def split(rng):
    """1,437 images to train on and 360 to test on, pixels 0..16."""
    data = load_digits()
    order = rng.permutation(len(data.target))
    images = data.images[order].astype(np.float32)[:, None]
    labels = data.target[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def windows(x):
    """The 3x3 neighbourhoods of every pixel, zeros outside: [n, h, w, 9 * channels]."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def conv_forward(x, weight, bias):
    columns = windows(x)
    y = columns @ weight.reshape(len(weight), -1).T + bias
    return y.transpose(0, 3, 1, 2), columns


def conv_backward(dy, weight, columns, x_shape):
    m = len(weight)
    rows = dy.transpose(0, 2, 3, 1).reshape(-1, m)
    dweight = (rows.T @ columns.reshape(len(rows), -1)).reshape(weight.shape)
    n, c, h, w = x_shape
    patches = (rows @ weight.reshape(m, -1)).reshape(n, h, w, c, 3, 3)
    dx = np.zeros((n, c, h + 2, w + 2), np.float32)
    for i in range(3):
        for j in range(3):
            dx[:, :, i : i + h, j : j + w] += patches[..., i, j].transpose(0, 3, 1, 2)
    return dweight, rows.sum(0), dx[:, :, 1:-1, 1:-1]


def pool_forward(x):
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
    y = blocks.max((3, 5))
    return y, blocks == y[:, :, :, None, :, None]


def pool_backward(dy, where):
    share = where / where.sum((3, 5), keepdims=True)
    dx = share * dy[:, :, :, None, :, None]
    n, c, h, _, w, _ = dx.shape
    return dx.reshape(n, c, 2 * h, 2 * w).astype(np.float32)


def new_params(rng):
    params = {}
    for i in (1, 2):
        shape = (CHANNELS[i], CHANNELS[i - 1], 3, 3)
        params[f"conv{i}.weight"] = rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        params[f"conv{i}.bias"] = np.zeros(shape[0])
    features = CHANNELS[2] * 4
    params["fc.weight"] = rng.normal(0, np.sqrt(1 / features), (features, 10))
    params["fc.bias"] = np.zeros(10)
    return {k: v.astype(np.float32) for k, v in params.items()}


def forward(p, pixels):
    """Logits and what the backward pass needs."""
    x, saved = pixels * np.float32(1 / 16), []
    for i in (1, 2):
        y, columns = conv_forward(x, p[f"conv{i}.weight"], p[f"conv{i}.bias"])
        pooled, where = pool_forward(np.maximum(y, 0))
        saved.append((columns, x.shape, y > 0, where))
        x = pooled
    flat = x.reshape(len(x), -1)
    return flat @ p["fc.weight"] + p["fc.bias"], (saved, flat, x.shape)


def gradients(p, pixels, labels):
    """Of the mean cross entropy."""
    logits, (saved, flat, shape) = forward(p, pixels)
    e = np.exp(logits - logits.max(1, keepdims=True))
    d = e / e.sum(1, keepdims=True)
    d[np.arange(len(d)), labels] -= 1
    d /= len(d)
    g = {"fc.weight": flat.T @ d, "fc.bias": d.sum(0)}
    dx = (d @ p["fc.weight"].T).reshape(shape)
    for i in (2, 1):
        columns, x_shape, positive, where = saved[i - 1]
        dy = pool_backward(dx, where) * positive
        g[f"conv{i}.weight"], g[f"conv{i}.bias"], dx = conv_backward(dy, p[f"conv{i}.weight"], columns, x_shape)
    return g


def shifted(images, rng):
    """Every image moved by up to one pixel, so that the network does not learn positions by heart."""
    dy, dx = rng.integers(-1, 2, 2)
    return np.roll(np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1))), (dy, dx), (2, 3))[:, :, 1:-1, 1:-1]


def train(p, images, labels, rng):
    """Adam with a learning rate that falls to zero along a cosine."""
    mean = {k: np.zeros_like(v) for k, v in p.items()}
    square = {k: np.zeros_like(v) for k, v in p.items()}
    steps, step = EPOCHS * (len(images) // BATCH), 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        for at in range(0, len(images) - BATCH + 1, BATCH):
            pick = order[at : at + BATCH]
            g = gradients(p, shifted(images[pick], rng), labels[pick])
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for k in p:
                mean[k] += 0.1 * (g[k] - mean[k])
                square[k] += 0.001 * (g[k] ** 2 - square[k])
                m, s = mean[k] / (1 - 0.9**step), square[k] / (1 - 0.999**step)
                p[k] = (p[k] - rate * m / (np.sqrt(s) + 1e-8)).astype(np.float32)


def model_of(p):
    """The trained network as ONNX: one image in, ten logits out, all shapes fixed."""
    nodes = [helper.make_node("Mul", ["image", "scale"], ["x0"], "scale")]
    for i in (1, 2):
        nodes += [
            helper.make_node("Conv", [f"x{i - 1}", f"conv{i}.weight", f"conv{i}.bias"], [f"c{i}"], f"conv{i}",
                             kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", [f"c{i}"], [f"r{i}"], f"relu{i}"),
            helper.make_node("MaxPool", [f"r{i}"], [f"x{i}"], f"pool{i}", kernel_shape=[2, 2], strides=[2, 2]),
        ]
    nodes += [
        helper.make_node("Flatten", ["x2"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "fc"),
    ]
    constants = {"scale": np.array(1 / 16, np.float32), **p}
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    return helper.make_model(graph, producer_name="onnxc digits sample", ir_version=8,
                             opset_imports=[helper.make_opsetid("", 17)])


def header_of(images, labels):
    """The first images of each digit as C arrays."""
    picked = [i for k in range(SHOWN // 10) for d in range(10) for i in np.flatnonzero(labels == d)[k : k + 1]]
    rows = [", ".join(str(int(v)) for v in images[i].ravel()) for i in picked]
    truth = ", ".join(str(labels[i]) for i in picked)
    lines = [
        "/* Handwritten digits that the network was not trained on, pixels 0 to 16 row by row. Written by train.py. */",
        f"#define DIGITS_SHOWN {len(picked)}",
        f"static const unsigned char digits_label[DIGITS_SHOWN] = {{{truth}}};",
        "static const unsigned char digits_image[DIGITS_SHOWN][64] = {",
        *(f"    {{{r}}}," for r in rows),
        "};",
    ]
    return "\n".join(lines) + "\n"


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    rng = np.random.default_rng(20)
    images, labels, test_images, test_labels = split(rng)
    params = new_params(rng)
    train(params, images, labels, rng)
    correct = int((forward(params, test_images)[0].argmax(1) == test_labels).sum())
    model = model_of(params)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(folder, "digits.onnx"))
    with open(os.path.join(folder, "digits_data.h"), "w") as f:
        f.write(header_of(test_images, test_labels))
    print(f"{correct} of {len(test_labels)} test images right ({100 * correct / len(test_labels):.1f} %)")


if __name__ == "__main__":
    main()
