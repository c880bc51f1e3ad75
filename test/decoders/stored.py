"""Some of the models of decoders.py without torch: graphs in test/decoders/stored, with weights made up; greedy search with
caches that are new in every step, and in place.

usage: stored.py              all of them; prints "N passed, N failed, N skipped"
       stored.py NAME...      keeps these, from build/decoders
"""
import glob
import os
import sys

import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
STORED = os.path.join(HERE, "stored")
sys.path[:0] = [os.path.join(ROOT, "test", part) for part in ("exports", "cases")]

from exported_cases import fill_graph  # noqa: E402
from store import strip_graph  # noqa: E402

import greedy  # noqa: E402
from families import modes_of  # noqa: E402


def keep(name):
    model = onnx.load(os.path.join(ROOT, "build", "decoders", name, "model.onnx"))
    strip_graph(model.graph)
    del model.metadata_props[:], model.graph.value_info[:]
    os.makedirs(STORED, exist_ok=True)
    onnx.save(model, os.path.join(STORED, name + ".onnx"))


def main():
    if sys.argv[1:]:
        return [keep(name) for name in sys.argv[1:]]
    passed = failed = 0
    for path in sorted(glob.glob(os.path.join(STORED, "*.onnx"))):
        name = os.path.basename(path)[:-5]
        model = onnx.load(path)
        fill_graph(model.graph)
        for share in modes_of(name):
            same, line = greedy.search(model, share, [])
            passed, failed = passed + same, failed + (not same)
            if not same:
                print(f"{name} {'in place' if share else 'new caches'}: {line}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
