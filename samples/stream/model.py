"""Writes tones.onnx: how much of a sound at 8 kHz the eight tones of telephone keys have, every 10 ms.

  x: float[1, 1, T], samples from -1 to 1        levels: float[1, 8, T / 80], each 1 for that tone alone, 0.5 for a key's two

A bank of 16 filters correlates the last 30 ms with a sine and a cosine of each tone; their power is compared with that of the
sound, and averaged over three frames. Nothing is trained.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RATE, HOP, WINDOW, SMOOTH = 8000, 80, 240, 3
TONES = [697, 770, 852, 941, 1209, 1336, 1477, 1633]


def constants():
    window = np.hanning(WINDOW + 2)[1:-1]
    turns = 2 * np.pi * np.outer(TONES, np.arange(WINDOW)) / RATE
    filters = np.stack([np.cos(turns), np.sin(turns)], 1) * window  # tone, phase, sample
    scale = 2 / window.sum()
    return {"filters": filters.reshape(2 * len(TONES), 1, WINDOW) * scale,
            "pairs": np.kron(np.eye(len(TONES)), [[1, 1]])[:, :, None],
            "energy": (2 * window / window.sum()).reshape(1, 1, WINDOW),
            "least": np.full((1,), 1e-5)}


def main():
    before = {"pads": [WINDOW - HOP, 0], "strides": [HOP]}
    nodes = [helper.make_node("Conv", ["x", "filters"], ["phases"], "filter", **before),
             helper.make_node("Mul", ["phases", "phases"], ["squares"], "square"),
             helper.make_node("Conv", ["squares", "pairs"], ["power"], "add_phases"),
             helper.make_node("Mul", ["x", "x"], ["loudness"], "square_sound"),
             helper.make_node("Conv", ["loudness", "energy"], ["total"], "add_sound", **before),
             helper.make_node("Add", ["total", "least"], ["some"], "not_zero"),
             helper.make_node("Div", ["power", "some"], ["share"], "compare"),
             helper.make_node("AveragePool", ["share"], ["levels"], "smooth", kernel_shape=[SMOOTH], pads=[SMOOTH - 1, 0],
                              count_include_pad=1)]
    floats = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants().items()]
    graph = helper.make_graph(nodes, "tones", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, "T"])],
                              [helper.make_tensor_value_info("levels", TensorProto.FLOAT, [1, len(TONES), "F"])], floats)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8, producer_name="samples/stream/model.py")
    onnx.checker.check_model(model)
    onnx.save(model, "tones.onnx")


if __name__ == "__main__":
    main()
