"""Exports the trained decoder by torch.onnx, with caches of keys and values of a fixed size, and keeps its matrices in four bits.

usage: export.py TRAINED.pt     writes speaker.onnx, merges.h (the tokenizer) and expected.txt (a prompt, and torch's greedy tokens)
"""
import os
import sys

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional

import tokens
from decoder import BLOCK, CONTEXT, KV_HEADS, LAYERS, SIZE, Decoder, Matrix, quantised, turned

HERE = os.path.dirname(os.path.abspath(__file__))
CACHES = [f"{kind}{i}" for i in range(LAYERS) for kind in "kv"]
PROMPT = "When an exception occurs, the interpreter"
COUNT = 100


def scattered(cache, new, position):
    """The cache with new rows from a position on."""
    if torch.onnx.is_in_onnx_export():
        return torch.onnx.ops.symbolic("TensorScatter", (cache, new, position), {"axis": -2}, dtype=cache.dtype, shape=cache.shape,
                                       version=24)
    return cache.index_copy(2, position + torch.arange(new.shape[2]), new)


class Step(nn.Module):
    """Tokens, the position of the first and the caches in; logits and the caches out."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, tokens, position, caches):
        at = position + torch.arange(tokens.shape[1])
        cosine, sine = self.decoder.cosine[at], self.decoder.sine[at]
        mask = torch.arange(CONTEXT)[None] <= at[:, None]
        made = []

        def attend(i, q, k, v):
            q, k = turned(q, cosine, sine), turned(k, cosine, sine)
            k, v = scattered(caches[2 * i], k, position), scattered(caches[2 * i + 1], v, position)
            made.extend([k, v])
            return functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)

        logits = self.decoder(tokens, attend)
        return logits, *made


def exported(step):
    arguments = (torch.zeros(1, 3, dtype=torch.int64), torch.zeros(1, dtype=torch.int64),
                 [torch.zeros(1, KV_HEADS, CONTEXT, SIZE) for _ in CACHES])
    rows = torch.export.Dim("rows", min=1, max=CONTEXT)
    program = torch.onnx.export(step, arguments, dynamo=True, opset_version=24, input_names=["tokens", "position", *CACHES],
                                output_names=["logits", *("next_" + c for c in CACHES)],
                                dynamic_shapes=({1: rows}, None, [None for _ in CACHES]))
    return program.model_proto


def matrices(graph):
    """The names of matrices, and the axis of each along which products sum."""
    products = {node.input[1]: 0 for node in graph.node if node.op_type == "MatMul"}
    tables = {node.input[0]: 1 for node in graph.node if node.op_type == "Gather"}
    return {t.name: {**products, **tables}[t.name] for t in graph.initializer if len(t.dims) == 2 and t.name in products | tables}


def four_bits(graph):
    """Matrices as DequantizeLinear of blocks of integers of four bits."""
    axes, kept, nodes = matrices(graph), [], []
    for tensor in graph.initializer:
        if tensor.name not in axes:
            kept.append(tensor)
            continue
        axis, values = axes[tensor.name], torch.from_numpy(numpy_helper.to_array(tensor).copy())
        integers, scale = (t.numpy() if axis else t.numpy().T for t in quantised(values if axis else values.T.contiguous()))
        packed = integers.astype(np.int8).reshape(-1, 2) & 15
        names = [tensor.name + ".integers", tensor.name + ".scale"]
        kept.append(TensorProto(name=names[0], data_type=TensorProto.INT4, dims=tensor.dims,
                                raw_data=(packed[:, 0] | packed[:, 1] << 4).astype(np.uint8).tobytes()))
        kept.append(numpy_helper.from_array(np.ascontiguousarray(scale), names[1]))
        nodes.append(helper.make_node("DequantizeLinear", names, [tensor.name], name=tensor.name, axis=axis, block_size=BLOCK))
    nodes.extend(graph.node)
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept), graph.node.extend(nodes)


def strip(model):
    """Removes what exporters add for people, and names the dim."""
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        part.ClearField("metadata_props"), part.ClearField("doc_string")
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = "rows"


def greedy(step, prompt, count):
    """The most likely tokens after a prompt, by torch."""
    caches = [torch.zeros(1, KV_HEADS, CONTEXT, SIZE) for _ in CACHES]
    made, given, position = [], prompt, 0
    with torch.no_grad():
        while len(made) < count:
            logits, *caches = step(torch.tensor([given]), torch.tensor([position]), caches)
            position += len(given)
            given = [int(logits[0, -1].argmax())]
            made += given
    return made


def write_merges(merges):
    lines, row = [], ""
    for left, right in merges:
        item = f"{{{left}, {right}}},"
        if len(row) + len(item) > 120:
            lines.append(row.rstrip())
            row = ""
        row += item + " "
    with open(os.path.join(HERE, "merges.h"), "w", encoding="utf-8") as file:
        file.write("/* The tokenizer of speaker.onnx: token 256 + i joins two others (tokenizer.h). Made by export.py. */\n#include <stdint.h>\n\n"
                   "// clang-format off\nstatic const uint16_t merges[][2] = {\n" + "\n".join([*lines, row.rstrip()]) + "\n};\n")


def main():
    torch.set_num_threads(1)
    trained = torch.load(sys.argv[1])
    decoder = Decoder().eval()
    decoder.load_state_dict(trained["model"])
    merges = trained["merges"]
    step = Step(decoder).eval()
    model = exported(step)
    four_bits(model.graph)
    strip(model)
    onnx.checker.check_model(model)
    onnx.save(model, os.path.join(HERE, "speaker.onnx"))
    write_merges(merges)
    for module in decoder.modules():
        if isinstance(module, Matrix):
            module.rounded = True
    made = greedy(step, tokens.encode(PROMPT.encode(), merges), COUNT)
    with open(os.path.join(HERE, "expected.txt"), "w", encoding="utf-8") as file:
        file.write(PROMPT + "\n" + " ".join(map(str, made)) + "\n")
    print(b"".join(tokens.spellings(merges)[t] for t in made).decode(errors="replace"))


if __name__ == "__main__":
    main()
