"""Networks whose batch, or batch and other sizes, are known only at run time, beside those of fixed sizes.

usage: open_sizes.py ONNXC [--old ONNXC] [--mcpu CPU] [--seconds N] [NETWORK...]

Best times of one run of one sample with one and with two threads, of libraries that run in turns (`onnxc bench`); --old: also of another
compiler. NETWORK: of networks.py; by default resnet18, mobilenet_v2, unet and minilm.
"""
import argparse
import os
import re
import subprocess
import tempfile

import numpy as np
import onnx

from networks import network

SIZES = {"fixed": (), "batch": (0,), "all": (0, 1, 2, 3)}
UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}


def open_dims(model, axes):
    """The model with symbols for these axes of its inputs, but for the channels of images."""
    if not axes:
        return model
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for axis in axes:
            if axis < len(dims) and not (len(dims) == 4 and axis == 1):
                dims[axis].ClearField("dim_value")
                dims[axis].dim_param = "NCHW"[axis] if len(dims) == 4 else "BS"[axis]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model


def save_inputs(model, folder):
    random, options = np.random.default_rng(0), []
    for value in model.graph.input:
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        integers = value.type.tensor_type.elem_type == onnx.TensorProto.INT64
        data = np.ones(dims, np.int64) if integers else random.random(dims, np.float32)
        np.save(f"{folder}/{value.name}.npy", data)
        options += ["--input", f"{value.name}={folder}/{value.name}.npy"]
    return options


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("onnxc")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=[])
    parser.add_argument("--old")
    parser.add_argument("--mcpu", default="native")
    parser.add_argument("--seconds", default="2")
    args = parser.parse_intermixed_args()
    for name in args.networks or ["resnet18", "mobilenet_v2", "unet", "minilm"]:
        with tempfile.TemporaryDirectory() as folder:
            inputs, libraries = save_inputs(network(name), folder), []
            for sizes, axes in SIZES.items():
                onnx.save(open_dims(network(name), axes), f"{folder}/m.onnx")
                for compiler in [args.onnxc] + [args.old] * bool(args.old):
                    for threads in (1, 2):
                        library = f"{folder}/{sizes}-{threads}-{'new' if compiler == args.onnxc else 'old'}.so"
                        subprocess.run([compiler, f"{folder}/m.onnx", f"--mcpu={args.mcpu}", f"--threads={threads}", "-o", library], check=True)
                        libraries.append(library)
            shown = subprocess.run([args.onnxc, "bench", *libraries, *inputs, "--seconds", args.seconds], check=True, capture_output=True, text=True).stdout
            for line in shown.splitlines():
                found = re.match(r" *\d+ +([\d.]+) (\w+) .*?(\w+)-(\d)-(\w+)\.so$", line)
                if found:
                    print(f"{name:14} {found[3]:6} {found[4]} threads  {found[5]}  {float(found[1]) * UNITS[found[2]]:8.2f} ms", flush=True)


if __name__ == "__main__":
    main()
