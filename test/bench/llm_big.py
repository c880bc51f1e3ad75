"""What it takes to compile a decoder of some gigabytes (llm_model.py) whose weights are external data, with --weights FILE.

usage: llm_big.py ONNXC [--gigabytes 8] [--folder FOLDER] [--anonymous 1000] [--options "..."]

The weights are random bytes of 4 bits each, in layers as wide as those of a decoder of 70 billion weights, so that none equals another. Printed:
seconds, megabytes of memory that are no pages of files (the largest of samples of RssAnon; they must not pass --anonymous), and the
seconds that copying the data took; before both, no page of the data is in memory. FOLDER needs three times the model's size.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import llm_model
import numpy as np
import onnx
from onnx import TensorProto

ALIGNMENT, LEAST = 4096, 1 << 16  # smaller tensors stay in the model


class Big(llm_model.Decoder):
    """A decoder of random bytes, whose large constants go to a file as they are made."""

    def __init__(self, shape, file):
        super().__init__(llm_model.Weights(shape, "int4"), "nbits", "group")
        self.file, self.random = file, np.random.default_rng(1)

    def constant(self, name, array, dtype=None):
        if array.nbytes < LEAST:
            return super().constant(name, array, dtype)
        offset = -(-self.file.tell() // ALIGNMENT) * ALIGNMENT
        self.file.seek(offset)
        array.tofile(self.file)
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        t = TensorProto(name=name, data_type=kind, dims=array.shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", os.path.basename(self.file.name)), ("offset", offset), ("length", array.nbytes)):
            t.external_data.add(key=key, value=str(value))
        self.constants.append(t)
        return name

    def linear(self, x, name, n, k):
        blocks = k // llm_model.BLOCK
        packed = np.frombuffer(self.random.bytes(n * k // 2), np.uint8).reshape(n, blocks, llm_model.BLOCK // 2)
        scale = (self.random.random((n, blocks), np.float32) + 0.5) * np.float32(0.2 / k ** 0.5)
        return self.op("MatMulNBits", x, self.constant(name, packed), self.constant(name + ".scale", scale), domain="com.microsoft",
                       K=k, N=n, bits=4, block_size=llm_model.BLOCK)


def shape_of(gigabytes):
    s = llm_model.Shape(layers=1, hidden=8192, heads=64, kv_heads=8, inner=28672)
    weights = s.hidden * (2 * s.hidden + 2 * s.kv_heads * s.head + 3 * s.inner)
    s.layers = max(1, round((gigabytes * 1e9 - s.vocabulary * s.hidden * 4) / (weights * 5 / 8)))  # 4 bits, and 32 for a block
    return s


def write(folder, gigabytes):
    """The model and its size."""
    path, shape = os.path.join(folder, "big.onnx"), shape_of(gigabytes)
    with open(os.path.join(folder, "big.data"), "wb") as file:
        onnx.save(Big(shape, file).model(2048), path)
        return path, shape, file.tell()


def anonymous(pid):
    """Megabytes of a process that are no pages of files."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return sum(int(line.split()[1]) for line in status if line.startswith(("RssAnon", "RssShmem"))) / 1e3
    except FileNotFoundError:
        return 0


def watch(command):
    """Seconds, and the most anonymous memory."""
    start, most = time.perf_counter(), 0
    process = subprocess.Popen(command)
    while process.poll() is None:
        most = max(most, anonymous(process.pid))
        time.sleep(0.01)
    if process.returncode:
        sys.exit(f"onnxc: code {process.returncode}")
    return time.perf_counter() - start, most


def forget(path):
    """Leaves the file on the disk only."""
    with open(path, "rb+") as file:
        os.fsync(file)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def copy(source, to):
    """Seconds to copy a file."""
    start = time.perf_counter()
    subprocess.run(["dd", f"if={source}", f"of={to}", "bs=16M", "status=none"], check=True)
    seconds = time.perf_counter() - start
    os.remove(to)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc", type=os.path.abspath)
    parser.add_argument("--gigabytes", type=float, default=8)
    parser.add_argument("--folder")
    parser.add_argument("--anonymous", type=float, default=1000)
    parser.add_argument("--options", default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path, shape, size = write(folder, arguments.gigabytes)
        states = [f"--state=present.{i}.{n}=past_key_values.{i}.{n}" for i in range(shape.layers) for n in ("key", "value")]
        data = os.path.join(folder, "big.data")
        forget(data)
        seconds, most = watch([arguments.onnxc, path, "-o", os.path.join(folder, "big.o"), "--weights", os.path.join(folder, "big.weights"),
                               "--dim=capacity=2048", "--dim=total=1:2048", *states, *arguments.options.split()])
        made = os.path.getsize(os.path.join(folder, "big.weights"))
        forget(data)
        copied = copy(data, os.path.join(folder, "copy"))
        print(f"{shape.layers} layers, {size / 1e9:.2f} GB: {seconds:.1f} s, {most:.0f} MB anonymous; weights {made / 1e9:.2f} GB, "
              f"object {os.path.getsize(os.path.join(folder, 'big.o')) / 1e6:.2f} MB; a copy of the data takes {copied:.1f} s")
        if most > arguments.anonymous:
            sys.exit("too much memory")


if __name__ == "__main__":
    main()
