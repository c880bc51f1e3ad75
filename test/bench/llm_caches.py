"""A decoder's step (llm_model.py) for capacities of its caches, and for the spellings of a cache: the times are to be equal.

usage: llm_caches.py ONNXC [--folder FOLDER] [--compile-only] [--seconds S] [--threads N] [--small] [--cached 1024]
                     [--capacities 2048,32768] [--spellings group,scatter,concat] [--within 0.05]

All variants run in turns in one process, with the same weights and caches of the same numbers, and must give the same logits. Printed:
the best time of each, and by how much the slowest exceeds the fastest, which must not pass --within. Compiled models stay in
--folder and are found there by the next call, so that compilations and measurements can be apart.
"""
import argparse
import os
import sys
import tempfile

import llm
import llm_model
import numpy as np
import onnx
import peers

DIFFERENCE = 1e-4


class Variant(llm.Onnxc):
    """A step of one spelling with caches of one capacity."""

    def __init__(self, arguments, shape, spelling, capacity):
        self.name = f"{spelling}-{capacity}"
        folder = os.path.join(arguments.folder, self.name)
        path = os.path.join(folder, "model.onnx")
        if not os.path.exists(path):
            os.makedirs(folder, exist_ok=True)
            onnx.save(llm_model.decoder(shape, "int4", "nbits", spelling, capacity=capacity), path)
        own = argparse.Namespace(**vars(arguments), cache=spelling, capacity=capacity, precision=None, options="")
        super().__init__(own, shape, path, folder, os.path.join(folder, f"threads{arguments.threads}.so"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc", type=os.path.abspath)
    parser.add_argument("--folder")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--cached", type=int, default=1024)
    parser.add_argument("--capacities", default="2048,32768")
    parser.add_argument("--spellings", default="group,scatter,concat")
    parser.add_argument("--within", type=float, default=0.05)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments.folder = arguments.folder or folder
        compare(arguments, llm_model.SMALL if arguments.small else llm_model.Shape())


def compare(arguments, shape):
    variants = [Variant(arguments, shape, spelling, capacity) for spelling in arguments.spellings.split(",")
                for capacity in map(int, arguments.capacities.split(","))]
    if arguments.compile_only:
        return
    logits = {}
    for v in variants:
        v.prepare([7], arguments.cached)
        logits[v.name] = np.array(v.run())
    times = peers.in_turns({v.name: v.run for v in variants}, arguments.seconds, best=True)
    first = variants[0].name
    for name, time in times.items():
        print(f"step at {arguments.cached}  {name:14s} {1e3 * time:8.3f} ms"
              f"  difference to {first} {peers.difference(logits[name], logits[first]):.1e}")
    slower = max(times.values()) / min(times.values()) - 1
    print(f"the slowest exceeds the fastest by {100 * slower:.1f} %")
    if not all(peers.difference(made, logits[first]) <= DIFFERENCE for made in logits.values()):
        sys.exit("the answers differ")
    if slower > arguments.within:
        sys.exit("the times differ")


if __name__ == "__main__":
    main()
