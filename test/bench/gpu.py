"""Whole networks and products on this machine's GPU, beside torch, onnxruntime-gpu and TensorRT where they are installed.

usage: gpu.py ONNXC [--runs N] [--batch 1,8,64] [--precision f32,tf32,f16,bf16] [--engines onnxc,torch,...] [--each SECONDS]
       [--limit SECONDS] [--nvrtc PATH] [NETWORK | gemmN | denseN]...

For each network, batch and precision: the median latency of a run that is waited for, what runs without waiting in between come
to in a second, the share of the GPU's peak, which the same program measures, the largest difference to what the CPU computes,
and how long onnxc takes of each other engine's time. Inputs and outputs lie on the GPU. What measures is a process of its own,
so that an engine that fails, crashes or takes longer than --each costs its own lines only; lines come as they are measured, and
after --limit seconds it ends. Without a GPU it says so and ends.
"""
import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import gpu_engines
import networks
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NETWORKS = ["gemm4096", "resnet50", "bert_base", "dense4096"]
NEAR = {"f32": 1e-3, "tf32": 2e-2, "f16": 2e-2, "bf16": 1e-1}
HERE = os.path.abspath(__file__)


# ---------------------------------------------------------------- models
def product(n, constant):
    """a @ w; w is an input or a constant."""
    values = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [n, n]) for v in "awy"]
    w = np.random.default_rng(2).standard_normal((n, n), dtype=np.float32)
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "w"], ["y"])], "product", values[:1] if constant else values[:2],
                              values[2:], [numpy_helper.from_array(w, "w")] if constant else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def model_of(name, batch):
    """None: it has no batches."""
    for kind in "gemm", "dense":
        if name.startswith(kind):
            return product(int(name[len(kind):]), kind == "dense") if batch == 1 else None
    model = networks.network(name)
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]  # shapes of the old batch
    return model


def inputs_of(model):
    random = np.random.default_rng(1)
    shapes = {v.name: ([d.dim_value for d in v.type.tensor_type.shape.dim], v.type.tensor_type.elem_type) for v in model.graph.input}
    return {n: random.integers(0, 2, s) if t == TensorProto.INT64 else random.standard_normal(s, dtype=np.float32)
            for n, (s, t) in shapes.items()}


def operations(onnxc, path):
    kernels = json.loads(subprocess.run([onnxc, path, "--emit=json", "-o", "-"], capture_output=True, check=True).stdout)["kernels"]
    return sum(k["flops"] for k in kernels if isinstance(k.get("flops"), (int, float)))


def on_cpu(path, inputs):
    import onnxc
    session = onnxc.InferenceSession(path)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))


# ---------------------------------------------------------------- in a process of its own
def measure(engine, runs):
    """(median seconds of a run that is waited for, seconds of one among many)"""
    for _ in range(5):
        engine.run()
    engine.wait()
    each = []
    for _ in range(runs):
        start = time.perf_counter()
        engine.run()
        engine.wait()
        each.append(time.perf_counter() - start)
    start = time.perf_counter()
    for _ in range(runs):
        engine.run()
    engine.wait()
    return statistics.median(each), (time.perf_counter() - start) / runs


def difference(got, want):
    return max(float(np.abs(got[n].astype(np.float64) - w).max() / max(np.abs(w).max(), 1e-30)) for n, w in want.items())


def tell(**values):
    print(json.dumps(values), flush=True)


def work(said):
    """Each task ENGINE/PRECISION of the folder's model, in turn."""
    inputs, want = (dict(np.load(os.path.join(said.worker, f"{f}.npz"))) for f in ("inputs", "want"))
    for task in said.tasks:
        label, precision = task.split("/")
        tell(begin=task)
        try:
            engine = gpu_engines.ENGINES[label][1](os.path.join(said.worker, "model.onnx"), precision, inputs, want, said.nvrtc)
            latency, many = measure(engine, said.runs)
            tell(done=task, latency=latency, many=many, far=difference(engine.answers(), want))
            engine.close()
        except Exception as error:  # whatever a peer raises
            why = f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')[:200]}"
            absent, sound = isinstance(error, ImportError), isinstance(error, (ImportError, NotImplementedError))
            tell(done=task, why=why, absent=absent, last=not sound)
            if not sound:
                return  # who knows in what state the GPU's context is


def probe(said):
    path, _ = gpu_engines.find_nvrtc(said.onnxc, said.nvrtc)
    try:
        gpu = gpu_engines.Gpu()
    except OSError as error:
        return tell(none=str(error))
    tell(sm=gpu.sm)
    peaks, why = gpu_engines.measure_peaks(gpu, said.precision, path)
    return tell(peaks=peaks, why=why)


# ---------------------------------------------------------------- the parent, which never touches the GPU
class Worker:
    """Its answers, as they come."""

    def __init__(self, said, *arguments):
        command = [sys.executable, "-W", "ignore", HERE, said.onnxc, "--runs", str(said.runs), "--precision", ",".join(said.precision),
                   *(["--nvrtc", said.nvrtc] if said.nvrtc else []), *arguments]
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, stdin=subprocess.DEVNULL, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(json.loads(line))
        self.lines.put(None)

    def answer(self, seconds):
        """None: it ended; raises queue.Empty after that long."""
        return self.lines.get(timeout=max(seconds, 0.1))

    def why(self):
        code = self.process.wait()
        self.errors.seek(0)
        last = [line for line in self.errors.read().splitlines() if line.strip()][-1:]
        return f"its process ended with {code}" + (f": {last[0].strip()[:200]}" if last else "")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


class Bench:
    def __init__(self, said):
        self.said, self.end, self.peaks, self.bad, self.left = said, time.monotonic() + said.limit, {}, 0, []

    def rest(self):
        return self.end - time.monotonic()

    def find_gpu(self):
        worker, seen = Worker(self.said, "--probe"), {}
        try:
            while (told := worker.answer(min(self.rest(), 120))) is not None:
                seen.update(told)
        except queue.Empty:
            seen.setdefault("why", ["it took too long"])
        if "sm" not in seen:
            print(f"bench-gpu: there is no GPU: nothing is measured ({seen.get('none') or worker.why()})")
            return False
        worker.close()
        self.peaks = seen.get("peaks", {})
        for why in seen.get("why", []):
            print(f"a peak is not measured: {why}")
        print(f"sm_{seen['sm']}, peak: " + ", ".join(f"{k} {1e-12 * v:.1f} TFLOP/s" for k, v in self.peaks.items()), flush=True)
        return True

    def prepare(self, folder, name, batch):
        """(operations, tasks); None: nothing is to do."""
        model = model_of(name, batch)
        if model is None:
            return None
        path, inputs = os.path.join(folder, "model.onnx"), inputs_of(model)
        onnx.save(model, path)
        np.savez(os.path.join(folder, "inputs.npz"), **inputs)
        np.savez(os.path.join(folder, "want.npz"), **on_cpu(path, inputs))
        tasks = [f"{label}/{precision}" for label in self.said.engines for precision in self.said.precision
                 if precision in gpu_engines.ENGINES[label][0]]
        return operations(self.said.onnxc, path), tasks

    def one(self, name, batch):
        with tempfile.TemporaryDirectory() as folder:
            prepared = self.prepare(folder, name, batch)
            flops, tasks = prepared or (0, [])
            own = {}
            while tasks and self.rest() > 0:
                worker = Worker(self.said, "--worker", folder, "--tasks", ",".join(tasks))
                try:
                    tasks = self.follow(worker, tasks, lambda task, told: self.show(name, batch, task, told, flops, own))
                finally:
                    worker.close()
            self.left += [f"{name} {batch} {task}" for task in tasks]

    def follow(self, worker, tasks, show):
        """Shows what it measures, and what it fails at; answers what is left then."""
        limit, tasks = time.monotonic() + self.said.each, list(tasks)
        while tasks:
            try:
                told = worker.answer(min(limit, self.end) - time.monotonic())
            except queue.Empty:
                if self.rest() > 0:
                    show(tasks.pop(0), {"why": f"it took more than {self.said.each} s"})
                return tasks
            if told is None:
                show(tasks.pop(0), {"why": worker.why()})
                return tasks
            if "done" in told:
                show(tasks.pop(0), told)
                limit = time.monotonic() + self.said.each
                if told.get("last"):
                    return tasks
        return tasks

    def show(self, name, batch, task, told, flops, own):
        label, precision = task.split("/")
        head = f"{name:12} {batch:5} {precision:5} {label:13}"
        if told.get("absent") and label != "onnxc":
            if label in self.said.engines:
                self.said.engines.remove(label)
                print(f"{label} is left out: {told['why']}", flush=True)
            return
        if "why" in told:
            self.bad += label == "onnxc"
            print(f"{head} is left out: {told['why']}", flush=True)
            return
        latency, many, far = told["latency"], told["many"], told["far"]
        share = f"{100 * flops / many / self.peaks[precision]:6.1f}%" if precision in self.peaks else "      ?"
        beside = f", onnxc takes {own[precision] / many:.2f} of it" if precision in own else ""
        print(f"{head} {1e3 * latency:10.3f} ms {batch / many:12.1f}/s {1e-12 * flops / many:8.1f} TFLOP/s {share} of the peak,"
              f" differs by {far:.1e}{beside}", flush=True)
        if label == "onnxc":
            own[precision] = many
            self.bad += not far <= NEAR[precision]

    def run(self):
        if not self.find_gpu():
            return 0
        for name in self.said.names or NETWORKS:
            for batch in self.said.batch:
                try:
                    if self.rest() > 0:
                        self.one(name, batch)
                    else:
                        self.left.append(f"{name} {batch}")
                except Exception as error:
                    self.bad += 1
                    print(f"{name:12} {batch:5} is left out: {type(error).__name__}: {error}", flush=True)
        if self.left:
            print(f"after {self.said.limit} s these were not measured: {', '.join(self.left)}")
        return 1 if self.bad else 0


def main():
    def words(text):
        return text.split(",")

    parser = argparse.ArgumentParser()
    parser.add_argument("onnxc")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--batch", type=lambda s: [int(n) for n in s.split(",")], default=[1, 8, 64])
    parser.add_argument("--precision", type=words, default=["f32", "tf32", "f16", "bf16"])
    parser.add_argument("--engines", type=words, default=list(gpu_engines.ENGINES), help=", ".join(gpu_engines.ENGINES))
    parser.add_argument("--each", type=int, default=90)
    parser.add_argument("--limit", type=int, default=540)
    parser.add_argument("--nvrtc")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--tasks", type=words, help=argparse.SUPPRESS)
    parser.add_argument("--probe", action="store_true", help=argparse.SUPPRESS)
    said = parser.parse_intermixed_args()
    unknown = [e for e in said.engines if e not in gpu_engines.ENGINES] + [p for p in said.precision if p not in NEAR]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if said.probe:
        return probe(said)
    said.nvrtc = gpu_engines.find_nvrtc(said.onnxc, said.nvrtc)[1] if not said.worker else said.nvrtc
    return work(said) if said.worker else Bench(said).run()


if __name__ == "__main__":
    sys.exit(main())
