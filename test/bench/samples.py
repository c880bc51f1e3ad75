"""Operators that read an image between its elements or move these, in the sizes of detectors, against ONNX Runtime on one thread.

usage: samples.py [NAME...]     prints a line of docs/measurements.md for each; all when none is named

Times are medians of this thread's processor time for a call from Python, in turns. "Difference" is the largest, relative to the
largest element of ONNX Runtime's answer.
"""
import os
import sys
import time

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "bindings", "python"))
import onnxc  # noqa: E402

SECONDS = float(os.environ.get("SAMPLES_SECONDS", "1"))
random = np.random.default_rng(0)


def normal(*dims):
    return random.standard_normal(dims).astype(np.float32)


def boxes(count, size):
    start = random.uniform(0, 0.75 * size, (count, 2))
    return np.concatenate([start, start + random.uniform(0.02, 0.25, (count, 2)) * size], 1).astype(np.float32)


def roi_align(samples):
    feed = {"x": normal(1, 256, 50, 50), "rois": boxes(1000, 800), "batch": np.zeros(1000, np.int64)}
    return feed, {}, {"output_height": 7, "output_width": 7, "sampling_ratio": samples, "spatial_scale": 1 / 16}


def max_roi_pool():
    rois = np.concatenate([np.zeros((100, 1), np.float32), boxes(100, 800)], 1)
    return {"x": normal(1, 64, 50, 50), "rois": rois}, {}, {"pooled_shape": [7, 7], "spatial_scale": 1 / 16}


def grid_sample(mode, padding="zeros"):
    y, x = np.meshgrid(np.linspace(-1, 1, 128), np.linspace(-1, 1, 128), indexing="ij")
    grid = (0.9 * np.stack([x, y], -1)[None] + 0.05 * random.standard_normal((1, 128, 128, 2))).astype(np.float32)
    return {"x": normal(1, 64, 128, 128), "grid": grid}, {}, {"mode": mode, "padding_mode": padding}


def deform_conv():
    return {"x": normal(1, 64, 50, 50)}, {"w": normal(64, 64, 3, 3)}, {"pads": [1] * 4, "kernel_shape": [3, 3]}


def resize(mode, scale=2):
    return {"x": normal(1, 64, 64, 64)}, {"scales": np.array([1, 1, scale, scale], np.float32)}, {"mode": mode}


def pad(mode):
    return {"x": normal(1, 64, 64, 64)}, {"pads": np.array([0, 0, 2, 2, 0, 0, 2, 2])}, {"mode": mode}


def tile():
    return {"x": normal(1, 64, 64, 64)}, {"repeats": np.array([1, 1, 2, 2])}, {}


# name: operator, opset, inputs in order, what makes feed, constants and attributes, text
CASES = {
    "roialign": ("RoiAlign", 16, "x rois batch", lambda: roi_align(2), "1000 boxes, 256 channels of 50×50, 7×7 bins of 2×2 samples"),
    "roialign_any": ("RoiAlign", 16, "x rois batch", lambda: roi_align(0), "the same, as many samples as a box is large"),
    "maxroipool": ("MaxRoiPool", 1, "x rois", max_roi_pool, "100 boxes, 64 channels of 50×50, 7×7 bins"),
    "grid_linear": ("GridSample", 20, "x grid", lambda: grid_sample("linear"), "linear, 64 channels of 128×128"),
    "grid_border": ("GridSample", 20, "x grid", lambda: grid_sample("linear", "border"), "the same, elements of the border outside"),
    "grid_nearest": ("GridSample", 20, "x grid", lambda: grid_sample("nearest"), "nearest"),
    "grid_cubic": ("GridSample", 20, "x grid", lambda: grid_sample("cubic"), "cubic"),
    "deformconv": ("DeformConv", 19, "x w offset", deform_conv, "3×3, 64 to 64 channels of 50×50"),
    "resize_linear": ("Resize", 18, "x  scales", lambda: resize("linear"), "linear, 64 channels of 64×64 to 128×128"),
    "resize_nearest": ("Resize", 18, "x  scales", lambda: resize("nearest"), "nearest"),
    "resize_cubic": ("Resize", 18, "x  scales", lambda: resize("cubic"), "cubic"),
    "resize_three_halves": ("Resize", 18, "x  scales", lambda: resize("nearest", 1.5), "nearest, to 96×96"),
    "resize_half": ("Resize", 18, "x  scales", lambda: resize("linear", 0.5), "linear, to 32×32"),
    "pad_reflect": ("Pad", 19, "x pads", lambda: pad("reflect"), "2 on each side of 64 channels of 64×64, mirrored"),
    "pad_edge": ("Pad", 19, "x pads", lambda: pad("edge"), "continued"),
    "pad_zero": ("Pad", 19, "x pads", lambda: pad("constant"), "zeros"),
    "tile": ("Tile", 13, "x repeats", tile, "64 channels of 64×64, 2×2 times"),
}


def model_of(kind, opset, names, constants, feed, attributes):
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feed.items()]
    node = helper.make_node(kind, names.split(" "), ["y"], **attributes)
    graph = helper.make_graph([node], "samples", inputs, [helper.make_tensor_value_info("y", 1, [None] * 4)],
                              [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()


def in_turns(runs):
    times, end = [[] for _ in runs], time.perf_counter() + SECONDS
    while len(times[0]) < 6 or time.perf_counter() < end:
        for run, kept in zip(runs, times):
            start = time.thread_time()
            run()
            kept.append(time.thread_time() - start)
    return [1e3 * float(np.median(t[1:])) for t in times]


def main():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    for name, (kind, opset, names, make, text) in CASES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        feed, constants, attributes = make()
        if kind == "DeformConv":
            feed["offset"] = normal(1, 18, 50, 50)
        model = model_of(kind, opset, names, constants, feed, attributes)
        ours = onnxc.InferenceSession(model, ["--threads=1"])
        theirs = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        (got,), (right,) = ours.run(None, feed), theirs.run(None, feed)
        difference = float(np.abs(got - right).max() / np.abs(right).max())
        a, b = in_turns([lambda: ours.run(None, feed), lambda: theirs.run(None, feed)])
        print(f"| {kind} | {text} | {a:.2f} ms | {b:.2f} ms | {a / b:.2f} | {difference:.1e} |", flush=True)


if __name__ == "__main__":
    main()
