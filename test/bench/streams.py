"""The time of a step of a stream (--stream) with long pasts: ten dilated convolutions of 32 channels, whose pasts are rings, and
the same with -Os, which moves them. Prints a table of microseconds for each number of samples in a step.

usage: streams.py [ONNXC]   build/release/onnxc by default
"""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test"))

from streams import Network, convolve_then_cut  # noqa: E402

DILATIONS = {512: [2 ** i for i in range(10)], 2048: [1, 4, 16, 64, 256, 1024, 2048]}
STEPS = 1, 4, 16


def network(dilations):
    n = Network(32, np.random.default_rng(0))
    for d in dilations:
        x = n.x
        convolve_then_cut(n, 3, d)
        n.x = n.add("Add", n.add("Relu", n.x), x)
    return n.model()


def microseconds(onnxc, model, step, *options):
    ran = subprocess.run([onnxc, "bench", model, f"--stream=x:2={step}", *options], capture_output=True, text=True, check=True)
    number, unit = re.search(r"^ *\d+ +([\d.]+) (us|ms)", ran.stdout, re.MULTILINE).groups()
    return float(number) * (1000 if unit == "ms" else 1)


def main():
    onnxc = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "release", "onnxc")
    print("| dilations up to | samples in a step | rings | moved (`-Os`) |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for most, dilations in DILATIONS.items():
            path = os.path.join(folder, "tcn.onnx")
            onnx.save(network(dilations), path)
            for step in STEPS:
                times = [min(microseconds(onnxc, path, step, *o) for _ in range(3)) for o in ([], ["-Os"])]
                print(f"| {most:,} | {step} | {times[0]:.1f} µs | {times[1]:.1f} µs |", flush=True)


if __name__ == "__main__":
    main()
