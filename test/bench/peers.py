"""Whole networks against ONNX Runtime and OpenVINO, in turns in one process, outputs compared.

usage: peers.py ONNXC [--threads N] [--seconds S] [--precision bf16] [--options "..."] [NETWORK | FILE.onnx]...

For each network: compile time and size; each engine's median latency, and its ratio to the fastest engine but
onnxc; the largest difference to ONNX Runtime's outputs relative to their largest element, which must not pass 1e-4.
With --precision, onnxc and a second OpenVINO may round products to bf16; outputs may then differ by 2e-2.
With several threads also onnxc with one, and by how much the others make it faster. Other shapes than constant ones are
not for this script.
"""
import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time

import networks
import numpy as np
import onnx
from onnx import TensorProto

DIFFERENCE, ROUNDED = 1e-4, 2e-2
PAUSE = 2e-3  # threads of a pool spin for less
UNSET = ("OPENBLAS_CORETYPE",)  # would slow down a peer


class Compiled:
    """A model as a shared library, called through its generic interface. A library that is named and exists is not compiled again."""

    def __init__(self, onnxc, path, folder, options, library=None):
        library = library or os.path.join(folder, f"model{len(os.listdir(folder))}.so")
        start = time.perf_counter()
        if not os.path.exists(library):
            subprocess.run([onnxc, path, "-o", library, "--name", "model", *options], check=True)
        self.compile_seconds, self.bytes = time.perf_counter() - start, os.path.getsize(library)
        self.library = ctypes.CDLL(library)
        self.library.model_workspace_generic.restype = ctypes.c_int64

    def prepare(self, inputs, outputs):
        arrays = inputs + outputs
        self.keep = arrays
        self.data = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        sizes = [d for a in arrays for d in a.shape]
        self.dims = (ctypes.c_int64 * max(1, len(sizes)))(*sizes)
        self.capacity = (ctypes.c_int64 * len(outputs))(*[a.size for a in outputs])
        self.size = self.library.model_workspace_generic(self.dims)
        if self.size < 0:
            sys.exit("onnxc: the dims do not fit the model")
        room = np.zeros(self.size + 64, np.uint8)
        self.workspace = ctypes.c_void_p((room.ctypes.data + 63) // 64 * 64)
        self.keep.append(room)

    def run(self):
        message = ctypes.c_char_p()
        code = self.library.model_run_generic(self.data, self.dims, self.capacity, self.workspace,
                                              ctypes.c_size_t(self.size), ctypes.byref(message))
        if code:
            sys.exit(f"onnxc: code {code} {message.value}")


def ort_session(path, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def openvino_request(path, threads, precision="f32", bytes_allowed=True):
    """Beside packed weights OpenVINO quantises activations to bytes, in groups of 32, if nothing forbids it."""
    import openvino
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision}
    if not bytes_allowed:
        options["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
    return openvino.Core().compile_model(path, "CPU", options).create_infer_request()


def random_inputs(model, random):
    made = {}
    for i in model.graph.input:
        dims = [d.dim_value for d in i.type.tensor_type.shape.dim]
        if i.type.tensor_type.elem_type == TensorProto.INT64:
            made[i.name] = np.ones(dims, np.int64) if "mask" in i.name else random.integers(0, 1000, dims)
        else:
            made[i.name] = random.standard_normal(dims).astype(np.float32)
    return made


def in_turns(engines, seconds, best=False):
    """Medians (or the best) of the engines' times, measured in turns until the time is over, after a warm-up of three turns. Each turn
    begins with a run that does not count: what another engine's threads do after their work is over by then, and the
    caches hold this one's."""
    times, end = {name: [] for name in engines}, time.perf_counter() + seconds
    turns = 0
    while turns < 8 or time.perf_counter() < end:
        for name, run in engines.items():
            time.sleep(PAUSE)
            run()
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
        turns += 1
    return {name: float(min(t[3:]) if best else np.median(t[3:])) for name, t in times.items()}


def difference(a, b):
    return float(np.max(np.abs(a.astype(np.float64) - b)) / max(1e-30, np.max(np.abs(b)))) if b.size else 0.0


def bench(onnxc, name, arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = name
        if name in networks.NETWORKS:
            path = os.path.join(folder, name + ".onnx")
            onnx.save(networks.network(name), path)
        inputs = random_inputs(onnx.load(path, load_external_data=False), np.random.default_rng(1))
        session = ort_session(path, arguments.threads)
        wanted = session.run(None, inputs)
        options = arguments.options.split() + (["--precision", arguments.precision] if arguments.precision else [])
        ours = Compiled(onnxc, path, folder, ["--threads", str(arguments.threads), *options])
        arrays = [np.ascontiguousarray(inputs[i.name]) for i in session.get_inputs()]
        outputs = [np.empty_like(w) for w in wanted]
        ours.prepare(arrays, outputs)
        ours.run()
        worst = max(difference(a, b) for a, b in zip(outputs, wanted))
        engines = {"onnxc": ours.run, "ort": lambda: session.run(None, inputs)}
        if arguments.threads > 1:
            alone = Compiled(onnxc, path, folder, ["--threads", "1", *options])
            alone.prepare(arrays, [np.empty_like(w) for w in wanted])
            engines["onnxc-alone"] = alone.run
        try:
            request = openvino_request(path, arguments.threads)
            engines["openvino"] = lambda: request.infer(inputs)
            if arguments.precision:
                rounding = openvino_request(path, arguments.threads, arguments.precision)
                engines[f"openvino-{arguments.precision}"] = lambda: rounding.infer(inputs)
        except ImportError:
            pass
        medians = in_turns(engines, arguments.seconds)
        best = min(t for n, t in medians.items() if not n.startswith("onnxc"))
        print(f"{os.path.basename(name):14s} " + "  ".join(f"{n} {1e3 * t:8.2f} ms" for n, t in medians.items()) +
              f"  ratio {medians['onnxc'] / best:5.2f} (ort {medians['onnxc'] / medians['ort']:.2f})" +
              (f"  speed-up {medians['onnxc-alone'] / medians['onnxc']:.2f}" if arguments.threads > 1 else "") +
              f"  compile {ours.compile_seconds:5.1f} s  size {ours.bytes / 1e6:6.1f} MB" +
              f"  workspace {ours.size / 1e6:6.1f} MB  difference {worst:.1e}", flush=True)
        if not worst <= (ROUNDED if arguments.precision else DIFFERENCE):
            sys.exit(f"{name}: the answers differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc")
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--precision", choices=["bf16"])
    parser.add_argument("--options", default="")
    arguments = parser.parse_intermixed_args()
    if any(name in os.environ for name in UNSET):
        os.execve(sys.executable, [sys.executable, *sys.argv],
                  {k: v for k, v in os.environ.items() if k not in UNSET})
    for name in arguments.networks or networks.NETWORKS:
        bench(os.path.abspath(arguments.onnxc), name, arguments)


if __name__ == "__main__":
    main()
