"""Keeps the networks in little (exports.py --small) for the default tests: graphs without their weights.

usage: store.py [NAME-EXPORTER]...     from build/exports-small to test/exported
Of each weight its shape, mean and deviation stay: test/cases/exported_cases.py makes up numbers like them. So do the shapes of
inputs, and the integers in them.
"""
import glob
import json
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# One of each kind of network, from both exporters in turn.
KEPT = ("bert-legacy", "bert_eager-dynamo", "chosen_elements-dynamo", "cond-dynamo", "convnext_tiny-dynamo",
        "densenet121-legacy", "distilbert-legacy", "efficientnet_b0-dynamo", "faster_rcnn_mobilenet-legacy",
        "fastspeech2-legacy", "gat-dynamo", "gpt2-legacy", "gpt2_cached-dynamo", "gru_lm-dynamo",
        "llama_cached-dynamo", "lstm_both_ways-dynamo", "lstm_lm-legacy", "mamba2-dynamo", "mixtral-dynamo",
        "mixtral_eager-legacy", "mobilenet_v2-legacy", "mobilenet_v3_small-legacy", "resnet18-legacy",
        "resnet50-dynamo", "rnn_lm-legacy", "scripted_list-legacy", "scripted_loop-legacy",
        "shufflenet_v2_x1_0-legacy", "squeezenet1_1-dynamo", "swin_t-legacy", "t5_decoder-legacy",
        "t5_encoder-dynamo", "timm_efficientformerv2_s0-dynamo", "timm_mambaout_femto-legacy", "unet-dynamo",
        "unet-legacy", "vae_decoder-dynamo", "vit_b_32-dynamo", "vocos-dynamo", "wavlm-legacy",
        "whisper_decoder-dynamo", "whisper_encoder-dynamo", "yolo-dynamo", "yolo-legacy")

WEIGHTS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.UINT8)  # bytes: packed integers of a few bits


def strip_tensor(tensor):
    values = numpy_helper.to_array(tensor)
    if tensor.data_type not in WEIGHTS or values.size < 32:
        return
    kept = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    kept.doc_string = f"{np.mean(values, dtype=np.float64):.4g} {np.std(values, dtype=np.float64):.4g}"
    tensor.CopyFrom(kept)


def strip_graph(graph):
    """Without weights, and without the stacks and comments that the dynamo exporter writes."""
    for tensor in graph.initializer:
        strip_tensor(tensor)
    for part in (graph, *graph.node, *graph.value_info, *graph.input, *graph.output):
        part.doc_string = ""
        del part.metadata_props[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and node.op_type == "Constant":
                strip_tensor(attribute.t)
            if attribute.HasField("g"):
                strip_graph(attribute.g)


def inputs_of(folder):
    """For each data set a list: shapes of floats, elements of integers."""
    made = []
    for data in sorted(glob.glob(os.path.join(folder, "test_data_set_*"))):
        paths = glob.glob(os.path.join(data, "input_*.pb"))
        arrays = [numpy_helper.to_array(onnx.load_tensor(os.path.join(data, f"input_{j}.pb"))) for j in range(len(paths))]
        made.append([{"shape": a.shape} if a.dtype.kind == "f" else {"elements": a.tolist()} for a in arrays])
    return json.dumps(made)


def store(folder, path):
    model = onnx.load(os.path.join(folder, "model.onnx"))
    strip_graph(model.graph)
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, {"inputs": inputs_of(folder)})
    onnx.save(model, path)


def main():
    for name in sys.argv[1:] or KEPT:
        store(os.path.join(ROOT, "build", "exports-small", name), os.path.join(ROOT, "test", "exported", name + ".onnx"))


if __name__ == "__main__":
    main()
