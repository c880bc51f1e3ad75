"""Writes one model of a language model with random weights, as a tool exports it.

usage: make.py NAME FOLDER     NAME: FAMILY-EXPORT of decoders.py; writes FOLDER/model.onnx
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, os.pardir, "ort_tools")]

import onnx  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from torch import nn  # noqa: E402
from transformers.cache_utils import StaticLayer  # noqa: E402
from transformers.pytorch_utils import Conv1D  # noqa: E402

import generative  # noqa: E402
import networks  # noqa: E402
from families import CAPACITY, FAMILIES  # noqa: E402

LAST_NORMS = ("norm", "ln_f", "final_layer_norm")


def built(family):
    torch.manual_seed(0)
    module = FAMILIES[family](transformers).eval().float()
    for name, part in module.named_modules():  # rather than near 0, where nothing depends on the input
        if isinstance(part, (nn.Linear, Conv1D)):
            inputs = part.weight.shape[isinstance(part, nn.Linear)]
            nn.init.normal_(part.weight, std=inputs ** -0.5)
        if name.rsplit(".", 1)[-1] in LAST_NORMS and name.count(".") < 3:  # a tied embedding would choose the same token again
            nn.init.normal_(part.weight, mean=-1 if family.startswith("gemma") else 0)
    return module


def names_of(module):
    layers = module.config.num_hidden_layers
    return [f"{i}.{kind}" for i in range(layers) for kind in ("key", "value")]


def cache_shape(config, rows):
    if getattr(config, "kv_lora_rank", None):  # what all heads share
        return 1, 1, rows, config.kv_lora_rank
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 1, heads, rows, size


class Growing(nn.Module):
    """What optimum exports: the caches of the past in, those with the new rows out."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, input_ids, attention_mask, position_ids, past):
        cache = transformers.DynamicCache([(past[i], past[i + 1]) for i in range(0, len(past), 2)])
        made = self.inner(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache,
                          use_cache=True, return_dict=True)
        return made.logits, *(t for layer in made.past_key_values.layers for t in (layer.keys, layer.values))


class Flat(Growing):
    """The caches as arguments of their own, as the exporter by tracing wants them."""

    def forward(self, input_ids, attention_mask, position_ids, *past):
        return super().forward(input_ids, attention_mask, position_ids, past)


class Static(nn.Module):
    """Transformers' static cache: buffers of a fixed size, into which new rows are copied."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, input_ids, cache_position, past):
        cache = transformers.StaticCache(self.inner.config, max_cache_len=CAPACITY)
        cache.layers = [StaticLayer(max_cache_len=CAPACITY) for _ in cache.layers]  # rings depend on Python's numbers
        for layer, keys, values in zip(cache.layers, past[::2], past[1::2]):
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys.clone(), values.clone()
            layer.cumulative_length = cache_position[:1].clone()
        made = self.inner(input_ids=input_ids, position_ids=cache_position[None], past_key_values=cache, use_cache=True, return_dict=True)
        return made.logits, *(t for layer in cache.layers for t in (layer.keys, layer.values))


def growing(module, dynamo, path):
    names = names_of(module)
    past = [torch.randn(cache_shape(module.config, 5)) for _ in names]
    tokens, mask, positions = torch.randint(2, 500, (1, 3)), torch.ones(1, 8, dtype=torch.int64), torch.arange(5, 8)[None]
    inputs = ["input_ids", "attention_mask", "position_ids", *("past_key_values." + n for n in names)]
    outputs = ["logits", *("present." + n for n in names)]
    if dynamo:
        row, pasts, total = torch.export.Dim.DYNAMIC, torch.export.Dim.DYNAMIC, torch.export.Dim.DYNAMIC
        torch.onnx.export(Growing(module), (tokens, mask, positions, past), path, dynamo=True, input_names=inputs, output_names=outputs,
                          dynamic_shapes=({1: row}, {1: total}, {1: row}, [{2: pasts} for _ in names]), external_data=False)
    else:
        axes = {"input_ids": {1: "length"}, "attention_mask": {1: "total"}, "position_ids": {1: "length"},
                **{"past_key_values." + n: {2: "past"} for n in names}, **{"present." + n: {2: "total"} for n in names}}
        torch.onnx.export(Flat(module), (tokens, mask, positions, *past), path, dynamo=False, input_names=inputs, output_names=outputs,
                          dynamic_axes=axes, opset_version=17)


def static(module, path):
    names = names_of(module)
    past = [torch.zeros(cache_shape(module.config, CAPACITY)) for _ in names]
    row = torch.export.Dim("length", min=1, max=CAPACITY)
    torch.onnx.export(Static(module), (torch.randint(2, 500, (1, 3)), torch.arange(3), past), path, dynamo=True, external_data=False,
                      input_names=["input_ids", "cache_position", *("past_key_values." + n for n in names)],
                      output_names=["logits", *("present." + n for n in names)],
                      dynamic_shapes=({1: row}, {0: row}, [None for _ in names]))


def main():
    family, export = sys.argv[1].split("-", 1)
    folder = sys.argv[2]
    path = os.path.join(folder, "model.onnx")
    os.makedirs(folder, exist_ok=True)
    torch.set_num_threads(1)
    networks.LANGUAGE_MODELS[family] = lambda _: built(family)
    kind, *options = export.split("-")
    if kind in ("int4", "int8", "fp16", "fp32"):
        generative.make(family, kind, "cuda" if kind == "fp16" else "cpu", folder, *options)
    elif kind == "static":
        static(built(family), path)
    else:
        growing(built(family), kind == "dynamo", path)
    onnx.load(path)


if __name__ == "__main__":
    main()
