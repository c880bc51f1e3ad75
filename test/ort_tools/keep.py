"""Keeps networks in little (tools.py --small) for the default tests: graphs without their weights (test/exports/store.py).

usage: keep.py      from build/tools-small to test/ort_tools/stored
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(HERE, "..", "exports"))
from store import store  # noqa: E402

KEPT = ("bert", "clip_text", "convolutions", "gpt2", "gpt2_cached", "recurrent", "t5_decoder", "vit", "whisper_decoder",
        "llama-int4", "phi3-fp16", "qwen3-int8", "gpt2_beam", "t5_beam")


def main():
    os.makedirs(os.path.join(HERE, "stored"), exist_ok=True)
    for name in KEPT:
        store(os.path.join(ROOT, "build", "tools-small", name), os.path.join(HERE, "stored", name + ".onnx"))


if __name__ == "__main__":
    main()
