"""Small models as tools made them: the graphs in test/ort_tools/stored with weights made up, changed by the tools that need no torch.

usage: stand_ins.py OUT

The graphs are networks of test/ort_tools/networks.py in little, and models of the generative builder and of search.py, which
stay as they are.
"""
import glob
import json
import os
import sys
import tempfile

import numpy as np
import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "cases"))
import judge  # noqa: E402
import steps  # noqa: E402
from case_files import Stamp  # noqa: E402
import exported_cases  # noqa: E402

# name: (kind, recipes); "": as it is. basic+fuse0 is what fuse1 does, which asks torch for its version
RECIPES = {
    "bert": ("bert", ["fuse0", "heads", "approximate", "extended", "int8", "int4_gather", "basic+fuse0+int4", "basic+fuse0+dynamic",
                      "basic+fuse0+half", "basic+fuse0+static_qdq", "static_qdq+extended"]),
    "clip_text": ("clip", ["basic+fuse0", "extended"]),
    "convolutions": ("bert", ["extended", "dynamic", "static_ops", "static_qdq_s8+extended"]),
    "gpt2": ("gpt2", ["fuse0", "extended", "fuse0+dynamic"]),
    "gpt2_cached": ("gpt2", ["fuse0", "fuse0+half"]),
    "recurrent": ("bert", ["dynamic", "half"]),
    "t5_decoder": ("t5", ["fuse0", "basic"]),
    "vit": ("vit", ["fuse0", "basic+fuse0+half", "static_ops"]),
    "whisper_decoder": ("bart", ["fuse0", "dynamic"]),
    "llama-int4": ("", [""]),
    "phi3-fp16": ("", [""]),
    "qwen3-int8": ("", [""]),
    "gpt2_beam": ("", [""]),
    "t5_beam": ("", [""]),
}
HEADS, WIDE = 2, 32


def made(recipe, source, model):
    if not recipe:
        return model
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "model.onnx"), os.path.join(folder, "made.onnx")
        onnx.save(model, path)
        steps.apply(recipe, source, path, out)
        return onnx.load(out)


def main():
    out = sys.argv[1]
    paths = sorted(glob.glob(os.path.join(HERE, "stored", "*.onnx")))
    stamp = Stamp(out, __file__, judge.__file__, steps.__file__, exported_cases.__file__, *paths)
    if stamp.fresh():
        return
    stamp.begin()
    for path in paths:
        name, dice = os.path.basename(path)[:-5], np.random.default_rng(1)
        model = onnx.load(path)
        exported_cases.fill_graph(model.graph)
        sets = [exported_cases.made_up(inputs, dice) for inputs in json.loads(model.metadata_props[0].value)]
        names, (kind, recipes) = [i.name for i in model.graph.input], RECIPES[name]
        source = steps.Source(kind or "bert", HEADS, WIDE, [dict(zip(names, arrays)) for arrays in sets])
        for recipe in recipes:
            folder = os.path.join(out, f"{name}-{recipe}" if recipe else name)
            rtol = 5e-3 if name.endswith("fp16") else steps.tolerance(recipe)
            judge.write(made(recipe, source, model), folder, sets, rtol, strict=True)
    stamp.done()


if __name__ == "__main__":
    main()
