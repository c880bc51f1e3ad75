"""Models of several gigabytes with external data: time, beside that of a copy, memory beside mapped files, and answers.

usage: big.py ONNXC FOLDER [--kind int4|f32] [--gigabytes X] [--emit shared|exe|weights]

FOLDER needs room for the model and what is compiled from it. The compiler's own memory must stay below 1 GB. Before it runs and before
the copy, no page of the data is in memory.
"""
import argparse
import os
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

SIZE, BLOCK, MEMORY = 4096, 32, 1 << 20  # memory in kB


class Data:
    """A file of tensors, each at a page of its own."""

    def __init__(self, path):
        self.path, self.file, self.tensors = path, open(path, "wb"), []

    def add(self, name, dtype, dims, array):
        self.file.write(b"\0" * (-self.file.tell() % 4096))
        t = TensorProto(name=name, data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", os.path.basename(self.path)), ("offset", self.file.tell()), ("length", array.nbytes)):
            t.external_data.add(key=key, value=str(value))
        self.file.write(array.tobytes())
        self.tensors.append(t)
        return name


def make_model(path, kind, gigabytes):
    """Square products in a row; the weights of each are those of the first, moved."""
    random, data, nodes = np.random.default_rng(1), Data(path + ".data"), []
    quarters = random.integers(0, 256, SIZE * SIZE // 2, np.uint8)
    floats = random.standard_normal(SIZE * SIZE, np.float32) / np.float32(SIZE**0.5)
    scales = np.tile(np.float32([0.003, -0.003]), SIZE * SIZE // BLOCK // 2)  # the integers' mean of -1/2 cancels out
    each = quarters.nbytes + scales.nbytes if kind == "int4" else floats.nbytes
    for i in range(int(gigabytes * 2**30 // each)):
        x, y = f"h{i}", f"h{i + 1}"
        if kind == "int4":
            w = data.add(f"w{i}", TensorProto.UINT8, [SIZE, SIZE // BLOCK, BLOCK // 2], np.roll(quarters, 977 * i))
            s = data.add(f"s{i}", TensorProto.FLOAT, [SIZE, SIZE // BLOCK], scales * np.float32(1 + i % 8 / 1000))
            nodes.append(helper.make_node("MatMulNBits", [x, w, s], [y], domain="com.microsoft", K=SIZE, N=SIZE, bits=4, block_size=BLOCK))
        else:
            w = data.add(f"w{i}", TensorProto.FLOAT, [SIZE, SIZE], np.roll(floats, 977 * i))
            nodes.append(helper.make_node("MatMul", [x, w], [y]))
    data.file.close()
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["S", SIZE]) for n in ("h0", y)]
    graph = helper.make_graph(nodes, "big", ends[:1], ends[1:], data.tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return len(nodes), floats


def anonymous(pid):
    """kB that belong to no file."""
    try:
        lines = open(f"/proc/{pid}/status").read().splitlines()
    except OSError:
        return 0
    return max((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), default=0)


def forget(path):
    """Leaves the file on the disk only."""
    with open(path, "rb+") as file:
        os.fsync(file)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measured(command):
    start, most, process = time.perf_counter(), 0, subprocess.Popen(command)
    while process.poll() is None:
        most = max(most, anonymous(process.pid))
        time.sleep(0.01)
    if process.returncode:
        sys.exit(f"{command}: exit code {process.returncode}")
    return time.perf_counter() - start, most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc", type=os.path.abspath)
    parser.add_argument("folder")
    parser.add_argument("--kind", choices=["int4", "f32"], default="int4")
    parser.add_argument("--gigabytes", type=float, default=3.2)
    parser.add_argument("--emit", choices=["shared", "exe", "weights"], default="weights")
    a = parser.parse_args()
    os.chdir(a.folder)
    count, floats = make_model("big.onnx", a.kind, a.gigabytes)
    options = {"shared": ["-o", "big.so"], "exe": ["--emit=exe", "-o", "big"], "weights": ["--weights", "big.weights", "-o", "big.so"]}[a.emit]
    forget("big.onnx.data")
    copied, _ = measured(["cp", "big.onnx.data", "copy"])
    os.remove("copy")
    forget("big.onnx.data")
    seconds, most = measured([a.onnxc, "big.onnx", *options])
    print(f"{count} products, {os.path.getsize('big.onnx.data') / 1e9:.2f} GB: {seconds:.1f} s, {most / 1024:.0f} MB beside mapped files; "
          f"a copy takes {copied:.1f} s", flush=True)
    x = np.random.default_rng(3).standard_normal((1, SIZE), np.float32)
    np.save("x.npy", x)
    program = ["./big"] if a.emit == "exe" else [a.onnxc, "run", "./big.so"]
    subprocess.run([*program, "--input", "h0=x.npy", "--output", f"h{count}=y.npy"], check=True, stdout=subprocess.DEVNULL)
    got = np.load("y.npy")
    if a.kind == "f32":
        for i in range(count):
            x = x @ np.roll(floats, 977 * i).reshape(SIZE, SIZE)
        if np.abs(got - x).max() > 1e-3 * np.abs(x).max():
            sys.exit("another answer")
    if not np.isfinite(got).all() or most > MEMORY:
        sys.exit("not finite, or more than 1 GB of memory")


if __name__ == "__main__":
    main()
