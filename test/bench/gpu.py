"""Whole networks and products on this machine's GPU, beside onnxruntime-gpu, TensorRT and torch where they are installed.

usage: gpu.py ONNXC [--runs N] [--batch 1,8,64] [--precision f32,tf32,f16,bf16] [--nvrtc PATH] [NETWORK | gemmN]...

For each network, batch and precision: the median latency of a run that is waited for, what runs without waiting in between come
to in a second, the share of the GPU's peak, which the same program measures, and the largest difference to what the CPU computes.
Inputs and outputs lie on the GPU. Without a GPU it says so and ends.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import networks
import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))
NETWORKS = ["resnet50", "bert_base", "gemm4096"]
NEAR = {"f32": 1e-3, "tf32": 2e-2, "f16": 2e-2, "bf16": 1e-1}


# ---------------------------------------------------------------- the driver
class Gpu:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        if self.cuda.cuInit(0) or self.cuda.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
            raise OSError("no GPU")
        self.check("cuDeviceGet", ctypes.byref(device), 0)
        self.device = device.value
        self.check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.check("cuCtxPushCurrent_v2", context)
        self.stream = ctypes.c_void_p()
        self.check("cuStreamCreate", ctypes.byref(self.stream), 0)
        self.sm = 10 * self.attribute(75) + self.attribute(76)

    def check(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} answers {code}")

    def attribute(self, number):
        value = ctypes.c_int()
        self.check("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def wait(self):
        self.check("cuStreamSynchronize", self.stream)

    def copy_of(self, array):
        at = ctypes.c_uint64()
        self.check("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(max(array.nbytes, 1)))
        self.check("cuMemcpyHtoDAsync_v2", at, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), self.stream)
        self.wait()
        return Array(at.value, array)

    def read(self, there):
        here = np.empty(there.shape, there.dtype)
        self.check("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(here.ctypes.data), ctypes.c_uint64(there.at), ctypes.c_size_t(here.nbytes),
                   self.stream)
        self.wait()
        return here

    def free(self, there):
        self.check("cuMemFree_v2", ctypes.c_uint64(there.at))


class Array:
    def __init__(self, at, like):
        self.at, self.shape, self.dtype = at, like.shape, like.dtype
        self.__cuda_array_interface__ = {"shape": like.shape, "typestr": like.dtype.str, "data": (at, False), "version": 3}


# ---------------------------------------------------------------- the peak
PEAK = r"""
#define MMA(name, shape, types, nb) extern "C" __global__ void name(float *out, int n) { \
    float d[8][4] = {}; unsigned a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {4, threadIdx.x}; \
    for (int i = 0; i < n; i++) _Pragma("unroll") for (int j = 0; j < 8; j++) \
        asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
            : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3]) \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
    for (int j = 0; j < 8; j++) out[threadIdx.x] += d[j][0] + d[j][1] + d[j][2] + d[j][3]; }
MMA(peak_f16, "m16n8k16", "f32.f16.f16.f32", 2)
MMA(peak_bf16, "m16n8k16", "f32.bf16.bf16.f32", 2)
MMA(peak_tf32, "m16n8k8", "f32.tf32.tf32.f32", 2)
extern "C" __global__ void peak_f32(float *out, int n) {
    float d[16], x = threadIdx.x * 1e-9f;
    for (int j = 0; j < 16; j++) d[j] = j;
    for (int i = 0; i < n; i++) _Pragma("unroll") for (int j = 0; j < 16; j++) d[j] = fmaf(d[j], x, x);
    for (int j = 0; j < 16; j++) out[threadIdx.x] += d[j];
}
"""
OPERATIONS = {"f16": 8 * 2 * 16 * 8 * 16 / 32, "bf16": 8 * 2 * 16 * 8 * 16 / 32, "tf32": 8 * 2 * 16 * 8 * 8 / 32, "f32": 16 * 2}


def nvrtc_library(path):
    for name in [path] if path else ["libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError("no NVRTC")


def compile_peak(sm, path=None):
    """PTX of the kernels above."""
    nvrtc, program, size = nvrtc_library(path), ctypes.c_void_p(), ctypes.c_size_t()
    arch = (ctypes.c_char_p * 1)(f"--gpu-architecture=compute_{sm}".encode())
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), PEAK.encode(), b"peak.cu", 0, None, None)
    if nvrtc.nvrtcCompileProgram(program, 1, arch):
        raise RuntimeError("NVRTC does not take the peak's kernels")
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx


def measure_peak(gpu, kinds, path):
    """{precision: operations in a second}; those that could not be measured are left out."""
    module, peaks = ctypes.c_void_p(), {}
    try:
        ptx = compile_peak(min(gpu.sm, 90), path)
        gpu.check("cuModuleLoadDataEx", ctypes.byref(module), ptx, 0, None, None)
        out = gpu.copy_of(np.zeros(1024, np.float32))
        for kind in kinds:
            function, n, blocks, threads = ctypes.c_void_p(), 20000, 4 * gpu.attribute(16), 512
            gpu.check("cuModuleGetFunction", ctypes.byref(function), module, f"peak_{kind}".encode())
            arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(v) for v in (ctypes.c_uint64(out.at), ctypes.c_int(n))])
            seconds = []
            for _ in range(5):
                start = time.perf_counter()
                gpu.check("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, gpu.stream, arguments, None)
                gpu.wait()
                seconds.append(time.perf_counter() - start)
            peaks[kind] = OPERATIONS[kind] * n * blocks * threads / min(seconds)
        gpu.free(out)
    except RuntimeError as error:
        print(f"the peak is not measured: {error}")
    return peaks


# ---------------------------------------------------------------- models
def gemm(n, batch):
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "w"], ["y"])], "gemm", [
        helper.make_tensor_value_info(v, TensorProto.FLOAT, [n, n]) for v in "aw"], [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [n, n])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8) if batch == 1 else None


def model_of(name, batch):
    """None: it has no batches."""
    if name.startswith("gemm"):
        return gemm(int(name[4:]), batch)
    model = networks.network(name)
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


def inputs_of(model):
    random = np.random.default_rng(1)
    shapes = {v.name: ([d.dim_value for d in v.type.tensor_type.shape.dim], v.type.tensor_type.elem_type) for v in model.graph.input}
    return {n: random.integers(0, 2, s) if t == TensorProto.INT64 else random.standard_normal(s, dtype=np.float32)
            for n, (s, t) in shapes.items()}


def operations(onnxc, path):
    kernels = json.loads(subprocess.run([onnxc, path, "--emit=json", "-o", "-"], capture_output=True, check=True).stdout)["kernels"]
    return sum(k["flops"] for k in kernels if isinstance(k.get("flops"), (int, float)))


# ---------------------------------------------------------------- engines
class Onnxc:
    def __init__(self, gpu, path, precision, inputs, like, nvrtc):
        import onnxc
        options = {"precision": precision} if precision != "f32" else {}
        options.update({"nvrtc": nvrtc} if nvrtc else {}, gpu_arch=f"sm_{gpu.sm}")
        self.gpu = gpu
        self.session = onnxc.InferenceSession(path, device="cuda", device_pointers=True, stream=gpu.stream.value, **options)
        self.inputs = {n: gpu.copy_of(a) for n, a in inputs.items()}
        self.outputs = {n: gpu.copy_of(a) for n, a in like.items()}

    def run(self):
        self.session.run_into(self.outputs, self.inputs)

    def wait(self):
        self.gpu.wait()

    def answers(self):
        return {n: self.gpu.read(a) for n, a in self.outputs.items()}

    def close(self):
        self.gpu.wait()
        self.session._end()
        for a in [*self.inputs.values(), *self.outputs.values()]:
            self.gpu.free(a)


class Ort:
    """ONNX Runtime with one of its providers."""

    def __init__(self, provider, path, precision, inputs):
        import onnxruntime
        options = {"use_tf32": int(precision == "tf32")} if provider.startswith("CUDA") else {"trt_fp16_enable": precision == "f16"}
        self.session = onnxruntime.InferenceSession(path, providers=[(provider, options)])
        if provider not in self.session.get_providers():
            raise RuntimeError(f"{provider} does not start")
        self.binding = self.session.io_binding()
        for name, a in inputs.items():
            self.binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(a, "cuda", 0))
        for out in self.session.get_outputs():
            self.binding.bind_output(out.name, "cuda")

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def wait(self):
        self.binding.synchronize_outputs()

    def answers(self):
        return dict(zip([o.name for o in self.session.get_outputs()], self.binding.copy_outputs_to_cpu()))

    def close(self):
        self.session = self.binding = None


class Torch:
    """Products by cuBLAS."""

    def __init__(self, precision, inputs):
        import torch
        if not torch.cuda.is_available():
            raise RuntimeError("torch has no GPU")
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        kind = {"f16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
        self.torch, (self.a, self.w) = torch, [torch.from_numpy(inputs[v]).to("cuda", kind) for v in "aw"]

    def run(self):
        self.y = self.torch.matmul(self.a, self.w)

    def wait(self):
        self.torch.cuda.synchronize()

    def answers(self):
        return {"y": self.y.float().cpu().numpy()}

    def close(self):
        self.a = self.w = self.y = None


def engines(gpu, name, path, precision, inputs, like, nvrtc):
    yield "onnxc", lambda: Onnxc(gpu, path, precision, inputs, like, nvrtc)
    try:
        import onnxruntime
        there = onnxruntime.get_available_providers()
    except ImportError:
        there = []
    for label, provider, kinds in (("onnxruntime", "CUDAExecutionProvider", ("f32", "tf32")),
                                   ("TensorRT", "TensorrtExecutionProvider", ("tf32", "f16"))):
        if provider in there and precision in kinds:
            yield label, lambda provider=provider: Ort(provider, path, precision, inputs)
    if name.startswith("gemm"):
        yield "torch", lambda: Torch(precision, inputs)


# ---------------------------------------------------------------- measuring
def measure(engine, runs):
    """(median seconds of a run that is waited for, seconds of one among many)"""
    for _ in range(3):
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


def on_cpu(path, inputs):
    import onnxc
    session = onnxc.InferenceSession(path)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))


def bench(gpu, said, name, batch, peaks):
    """Whether all answers of onnxc were near enough."""
    model, good = model_of(name, batch), True
    if model is None:
        return True
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path)
        inputs, flops = inputs_of(model), operations(said.onnxc, path)
        want = on_cpu(path, inputs)
        for precision in said.precision:
            for label, make in engines(gpu, name, path, precision, inputs, want, said.nvrtc):
                try:
                    engine = make()
                except (ImportError, RuntimeError) as error:
                    if label == "onnxc":
                        raise
                    print(f"{name:12} {batch:5} {precision:5} {label:12} is left out: {str(error).splitlines()[0]}")
                    continue
                latency, many = measure(engine, said.runs)
                far = difference(engine.answers(), want)
                engine.close()
                share = f"{100 * flops / many / peaks[precision]:6.1f}%" if precision in peaks else "      ?"
                print(f"{name:12} {batch:5} {precision:5} {label:12} {1e3 * latency:10.3f} ms {batch / many:12.1f}/s {share} of the peak,"
                      f" differs by {far:.1e}", flush=True)
                good &= label != "onnxc" or far <= NEAR[precision]
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("onnxc")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--batch", type=lambda s: [int(n) for n in s.split(",")], default=[1, 8, 64])
    parser.add_argument("--precision", type=lambda s: s.split(","), default=["f32", "tf32", "f16", "bf16"])
    parser.add_argument("--nvrtc")
    said = parser.parse_intermixed_args()
    try:
        gpu = Gpu()
    except OSError:
        print("bench-gpu: there is no GPU: nothing is measured")
        return 0
    peaks = measure_peak(gpu, said.precision, said.nvrtc)
    print(f"sm_{gpu.sm}, peak: " + ", ".join(f"{k} {1e-12 * v:.1f} TFLOP/s" for k, v in peaks.items()))
    good = [bench(gpu, said, name, batch, peaks) for name in said.names or NETWORKS for batch in said.batch]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
