"""Small networks as torch's exporters wrote them (test/exported), with weights made up and what ONNX Runtime answers.

usage: exported_cases.py OUT

The graphs come from test/exports; each weight has its shape, and its mean and deviation as a comment (test/exports/store.py).
"""
import glob
import json
import os
import sys
import zlib

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from case_files import Stamp, write_case

HERE = os.path.dirname(os.path.abspath(__file__))


def fill_tensor(tensor):
    if not tensor.doc_string:
        return
    mean, deviation = map(float, tensor.doc_string.split())
    dice = np.random.default_rng(zlib.crc32(tensor.name.encode()))
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if dtype == np.uint8:
        values = dice.integers(0, 256, tuple(tensor.dims), dtype=np.uint8)
    else:
        values = dice.normal(mean, deviation, tuple(tensor.dims)).astype(dtype)
    # Variances stay positive.
    tensor.CopyFrom(numpy_helper.from_array(np.abs(values) if "var" in tensor.name else values, tensor.name))


def fill_graph(graph):
    for tensor in graph.initializer:
        fill_tensor(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                fill_tensor(attribute.t)
            if attribute.HasField("g"):
                fill_graph(attribute.g)


def made_up(inputs, dice):
    return [np.array(i["elements"], np.int64) if "elements" in i else dice.normal(0, 1, i["shape"]).astype(np.float32)
            for i in inputs]


def answers(model, data_sets):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(None, {i.name: a for i, a in zip(model.graph.input, arrays)}) for arrays in data_sets]


def main():
    out = sys.argv[1]
    files = sorted(glob.glob(os.path.join(HERE, "..", "exported", "*.onnx")))
    stamp = Stamp(out, __file__, *files)
    if stamp.fresh():
        return
    stamp.begin()
    for path in files:
        name, dice = os.path.basename(path)[:-5], np.random.default_rng(1)
        model = onnx.load(path)
        fill_graph(model.graph)
        sets = [made_up(inputs, dice) for inputs in json.loads(model.metadata_props[0].value)]
        right = answers(model, sets)
        write_case(os.path.join(out, name), model, list(zip(sets, right)), rtol=2e-3, atol=1e-4)
    stamp.done()


if __name__ == "__main__":
    main()
