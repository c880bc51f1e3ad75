"""What gpu.py measures: onnxc, ONNX Runtime's providers, torch, each with its inputs and outputs on the GPU, and the GPU's peak."""
import ctypes
import glob
import os
import re
import subprocess
import sys
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))


# ---------------------------------------------------------------- the driver
class Gpu:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        error = self.cuda.cuInit(0) or self.cuda.cuDeviceGetCount(ctypes.byref(count))
        if error or not count.value:
            raise OSError(f"the driver starts with error {error} and has {count.value} GPUs")
        self.check("cuDeviceGet", ctypes.byref(device), 0)
        self.device = device.value
        self.check("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.check("cuCtxPushCurrent_v2", context)
        self.stream = ctypes.c_void_p()
        self.check("cuStreamCreate", ctypes.byref(self.stream), 0)
        self.sm = 10 * self.attribute(75) + self.attribute(76)

    def check(self, name, *arguments):
        code, text = getattr(self.cuda, name)(*arguments), ctypes.c_char_p()
        if code:
            self.cuda.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{name} answers {code} ({(text.value or b'?').decode()})")

    def attribute(self, number):
        value = ctypes.c_int()
        self.check("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def wait(self):
        self.check("cuStreamSynchronize", self.stream)

    def copy_of(self, array):
        at, array = ctypes.c_uint64(), np.ascontiguousarray(array)
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


# ---------------------------------------------------------------- NVRTC
def find_nvrtc(onnxc, asked=None):
    """(path of NVRTC's library, what --nvrtc must say): the one that onnxc finds, else the one of PyPI beside this Python."""
    beside = sorted(glob.glob(os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "nvidia", "*", "lib", "libnvrtc.so.*")))
    for where in [asked] if asked else [None, *map(os.path.dirname, reversed(beside))]:
        ran = subprocess.run([onnxc, "--list-targets", *(["--nvrtc", where] if where else [])], capture_output=True, text=True, check=False)
        found = re.search(r"of NVRTC [\d.]+, (.*):$", ran.stdout, re.MULTILINE)
        if found:
            return found[1], where
    return None, asked


class Nvrtc:
    def __init__(self, path):
        if not path:
            raise RuntimeError("there is no NVRTC")
        self.library = ctypes.CDLL(path)

    def __call__(self, text, arch):
        """A cubin for sm_NN, PTX for compute_NN."""
        program, size, log = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.create_string_buffer(1 << 16)
        option = (ctypes.c_char_p * 1)(f"--gpu-architecture={arch}".encode())
        kind = "CUBIN" if arch.startswith("sm_") else "PTX"
        self.library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"peak.cu", 0, None, None)
        if self.library.nvrtcCompileProgram(program, 1, option):
            self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            if size.value < len(log):
                self.library.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"NVRTC does not take the peak's kernels for {arch}: {log.value.decode(errors='replace')[:200]}")
        self.library[f"nvrtcGet{kind}Size"](program, ctypes.byref(size))
        code = ctypes.create_string_buffer(max(size.value, 1))
        self.library[f"nvrtcGet{kind}"](program, code)
        return code


# ---------------------------------------------------------------- the peak
PLAIN = r"""
extern "C" __global__ void peak_f32(float *out, int n) {
    float d[16], x = threadIdx.x * 1e-9f;
    for (int j = 0; j < 16; j++) d[j] = j;
    for (int i = 0; i < n; i++) _Pragma("unroll") for (int j = 0; j < 16; j++) d[j] = fmaf(d[j], x, x);
    for (int j = 0; j < 16; j++) out[threadIdx.x] += d[j];
}
"""
WARPS = r"""
#define MMA(name, shape, types) extern "C" __global__ void name(float *out, int n) { \
    float d[8][4] = {}; unsigned a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {4, threadIdx.x}; \
    for (int i = 0; i < n; i++) _Pragma("unroll") for (int j = 0; j < 8; j++) \
        asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
            : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3]) \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
    for (int j = 0; j < 8; j++) out[threadIdx.x] += d[j][0] + d[j][1] + d[j][2] + d[j][3]; }
MMA(peak_f16, "m16n8k16", "f32.f16.f16.f32")
MMA(peak_bf16, "m16n8k16", "f32.bf16.bf16.f32")
MMA(peak_tf32, "m16n8k8", "f32.tf32.tf32.f32")
"""
# Core matrices of 8 rows of 16 bytes, two of them along K; numbers from 0.5 to 1, as zeros would draw less power.
GROUPS = r"""
#define WGMMA(name, shape, types, flags, one, random) extern "C" __global__ void __launch_bounds__(128) name(float *out, int n) { \
    __shared__ __align__(128) unsigned tile[(64 + 256) * 8]; \
    float d[128]; \
    unsigned at = (unsigned)__cvta_generic_to_shared(tile); \
    for (unsigned i = threadIdx.x; i < (64 + 256) * 8; i += 128) tile[i] = one | (i * 2654435761u & random); \
    for (int j = 0; j < 128; j++) d[j] = 0; \
    asm volatile("fence.proxy.async;" ::: "memory"); \
    __syncthreads(); \
    unsigned long long step = (unsigned long long)(128 >> 4) << 16 | (unsigned long long)(256 >> 4) << 32, \
        a = step | (at >> 4 & 0x3fff), b = step | ((at + 64 * 32) >> 4 & 0x3fff); \
    for (int i = 0; i < n; i++) { \
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); \
        _Pragma("unroll") for (int j = 0; j < 4; j++) \
            asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned." shape ".f32." types \
                " {REGISTERS}, %128, %129, p, " flags ";}" : OPERANDS : "l"(a), "l"(b)); \
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory"); \
    } \
    for (int j = 0; j < 128; j++) out[threadIdx.x] += d[j]; }
WGMMA(peak_f16, "m64n256k16", "f16.f16", "1, 1, 0, 0", 0x38003800u, 0x83ff83ffu)
WGMMA(peak_bf16, "m64n256k16", "bf16.bf16", "1, 1, 0, 0", 0x3f003f00u, 0x807f807fu)
WGMMA(peak_tf32, "m64n256k8", "tf32.tf32", "1, 1", 0x3f000000u, 0x807fe000u)
""".replace("REGISTERS", ", ".join(f"%{i}" for i in range(128))).replace("OPERANDS", ", ".join(f'"+f"(d[{i}])' for i in range(128)))
# Of a thread and a turn.
OPERATIONS = {"f32": 16 * 2}
WARP_OPERATIONS = {"f16": 8 * 2 * 16 * 8 * 16 / 32, "bf16": 8 * 2 * 16 * 8 * 16 / 32, "tf32": 8 * 2 * 16 * 8 * 8 / 32}
GROUP_OPERATIONS = {"f16": 4 * 2 * 64 * 256 * 16 / 128, "bf16": 4 * 2 * 64 * 256 * 16 / 128, "tf32": 4 * 2 * 64 * 256 * 8 / 128}


def time_of(gpu, function, at, turns, blocks, threads):
    """Of the fastest of some launches."""
    values, seconds = (ctypes.c_uint64(at), ctypes.c_int(turns)), []
    arguments = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
    for _ in range(6):
        start = time.perf_counter()
        gpu.check("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, gpu.stream, arguments, None)
        gpu.wait()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def peaks_of(gpu, nvrtc, kinds, text, arch, operations, threads):
    """{precision: operations in a second} of those kernels."""
    module, function, peaks, turns, blocks = ctypes.c_void_p(), ctypes.c_void_p(), {}, 20000, 4 * max(gpu.attribute(16), 1)
    gpu.check("cuModuleLoadDataEx", ctypes.byref(module), nvrtc(text, arch), 0, None, None)
    out = gpu.copy_of(np.zeros(1024, np.float32))
    for kind in [k for k in kinds if k in operations]:
        gpu.check("cuModuleGetFunction", ctypes.byref(function), module, f"peak_{kind}".encode())
        seconds = time_of(gpu, function, out.at, turns, blocks, threads)
        peaks[kind] = operations[kind] * turns * blocks * threads / seconds
    gpu.free(out)
    gpu.check("cuModuleUnload", module)
    return peaks


def measure_peaks(gpu, kinds, path):
    """({precision: operations in a second}, what could not be measured and why)"""
    ways = [(PLAIN, f"sm_{gpu.sm}", OPERATIONS, 512)]
    if gpu.sm >= 80:
        ways.append((WARPS, f"sm_{gpu.sm}", WARP_OPERATIONS, 512))
    if gpu.sm == 90:
        ways.append((GROUPS, "sm_90a", GROUP_OPERATIONS, 128))
    peaks, why = {}, []
    try:
        nvrtc = Nvrtc(path)
    except (OSError, RuntimeError) as error:
        return peaks, [str(error)]
    for way in ways:
        try:
            for kind, speed in peaks_of(gpu, nvrtc, kinds, *way).items():
                peaks[kind] = max(speed, peaks.get(kind, 0))
        except RuntimeError as error:
            why.append(str(error))
    return peaks, why


# ---------------------------------------------------------------- engines
class Onnxc:
    def __init__(self, path, precision, inputs, like, nvrtc):
        import onnxc
        options = {"precision": precision} if precision != "f32" else {}
        options.update({"nvrtc": nvrtc} if nvrtc else {})
        self.gpu = gpu = Gpu()
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
        if provider not in onnxruntime.get_available_providers():
            raise ImportError(f"this onnxruntime has no {provider}")
        if hasattr(onnxruntime, "preload_dlls"):
            onnxruntime.preload_dlls()  # CUDA's libraries as PyPI has them
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
    """The graph's nodes as torch has them, in a CUDA graph, compiled by torch or not."""

    def __init__(self, path, precision, inputs, compiled=False, device="cuda"):
        import torch
        from torch_graph import TorchGraph
        if device == "cuda" and not torch.cuda.is_available():
            raise RuntimeError("torch has no GPU")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.benchmark = True
        kind = {"f16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
        graph = TorchGraph(path, kind, device)
        self.torch, self.inputs, self.names = torch, [graph.value(inputs[n]) for n in graph.inputs], graph.outputs
        self.call = torch.compile(graph, dynamic=False) if compiled else graph
        self.replay = None
        with torch.no_grad():
            self.eager()
        if device == "cuda":
            self.capture()

    def eager(self):
        self.made = self.call(*self.inputs)

    def capture(self):
        torch, stream = self.torch, self.torch.cuda.Stream()
        with torch.no_grad():
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self.eager()
            torch.cuda.synchronize()
            self.replay = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.replay):
                self.eager()

    def run(self):
        if self.replay:
            self.replay.replay()
        else:
            self.eager()

    def wait(self):
        if self.replay:
            self.torch.cuda.synchronize()

    def answers(self):
        return {n: y.float().cpu().numpy() for n, y in zip(self.names, self.made)}

    def close(self):
        self.made = self.inputs = self.call = self.replay = None


# label: (precisions, engine)
ENGINES = {
    "onnxc": (("f32", "tf32", "f16", "bf16"), lambda at, precision, inputs, like, nvrtc: Onnxc(at, precision, inputs, like, nvrtc)),
    "torch": (("f32", "tf32", "f16", "bf16"), lambda at, precision, inputs, like, nvrtc: Torch(at, precision, inputs)),
    "onnxruntime": (("f32", "tf32"), lambda at, precision, inputs, like, nvrtc: Ort("CUDAExecutionProvider", at, precision, inputs)),
    "TensorRT": (("tf32", "f16"), lambda at, precision, inputs, like, nvrtc: Ort("TensorrtExecutionProvider", at, precision, inputs)),
    "torch.compile": (("tf32", "f16", "bf16"), lambda at, precision, inputs, like, nvrtc: Torch(at, precision, inputs, compiled=True)),
}
