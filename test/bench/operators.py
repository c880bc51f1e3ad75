"""Single operators and small chains in several sizes and types, against ONNX Runtime on one thread.

usage: operators.py ONNXC [--old ONNXC] [--mcpu CPU] [--seconds S] [NAME...]     prints a line of docs/measurements.md for each

Times are this thread's processor time: the best of calls in turns, less that of a call that adds two numbers. With --old,
another compiler's code is measured beside them; --mcpu is for both. "Difference" is the largest from ONNX Runtime's answer, relative to its
largest element.
"""
import argparse
import os
import re
import tempfile
import time

import numpy as np
import onnx
from onnx import helper, parser
from peers import Compiled, difference, ort_session

TYPES = {"float": np.float32, "float16": np.float16, "uint8": np.uint8, "bool": bool, "int32": np.int32, "int64": np.int64}
SIZES = {"D": 64, "H": 14, "W": 14, "L": 1, "M": 3, "N": 5}  # of open dims
ATTENTION = "t = Transpose <perm = [0, 1, 3, 2]> (k)  s = MatMul (q, t)  p = Softmax <axis = -1> (s)  y = MatMul (p, v)"


def attention(heads, queries, keys, width):
    shapes = [f"float[1,{heads},{n},{width}] {name}" for name, n in (("q", queries), ("k", keys), ("v", keys))]
    return ", ".join(shapes), "float", ATTENTION


# name: inputs, type of the result, nodes
CASES = {
    "nothing": ("float[2] x", "float", "y = Add (x, x)"),
    "softmax 12x128x128": ("float[12,128,128] x", "float", "y = Softmax (x)"),
    "softmax 12x197x197": ("float[12,197,197] x", "float", "y = Softmax (x)"),
    "softmax 128x3072": ("float[128,3072] x", "float", "y = Softmax (x)"),
    "softmax, f16, 12x128x128": ("float16[12,128,128] x", "float16", "y = Softmax (x)"),
    "attention 12x128x128x64": attention(12, 128, 128, 64),
    "attention 12x197x197x64": attention(12, 197, 197, 64),
    "attention 8x1024x77x40": attention(8, 1024, 77, 40),
    "attention 12x128x128xD": attention(12, 128, 128, "D"),
    "softmax 4096x49": ("float[4096,49] x", "float", "y = Softmax (x)"),
    "softmax 512x33": ("float[512,33] x", "float", "y = Softmax (x)"),
    "Div, i32, 1024x256": ("int32[1024,256] x, int32[1024,256] z", "int32", "y = Div (x, z)"),
    "Div, u8, 1024x256": ("uint8[1024,256] x, uint8[1024,256] z", "uint8", "y = Div (x, z)"),
    "Mod, i32, 1024x256": ("int32[1024,256] x, int32[1024,256] z", "int32", "y = Mod (x, z)"),
    "ArgMax 64x1000": ("float[64,1000] x", "int64", "y = ArgMax <axis = 1> (x)"),
    "ArgMax 1x32000": ("float[1,32000] x", "int64", "y = ArgMax <axis = 1> (x)"),
    "Relu, f16, 64x4096": ("float16[64,4096] x", "float16", "y = Relu (x)"),
    "Sigmoid, f16, 64x4096": ("float16[64,4096] x", "float16", "y = Sigmoid (x)"),
    "Transpose, u8, 512x512": ("uint8[512,512] x", "uint8", "y = Transpose (x)"),
    "Transpose, f16, 512x512": ("float16[512,512] x", "float16", "y = Transpose (x)"),
    "16x512x1000, B a transposed input": ("float[16,512] x, float[1000,512] w", "float", "y = Gemm <transB = 1> (x, w)"),
    "100x512x1000, B a transposed input": ("float[100,512] x, float[1000,512] w", "float", "y = Gemm <transB = 1> (x, w)"),
    "32x768x768, B an input": ("float[32,768] x, float[768,768] w", "float", "y = MatMul (x, w)"),
    "32x4096x4096, B an input": ("float[32,4096] x, float[4096,4096] w", "float", "y = MatMul (x, w)"),
    "MaxPool 64x112x112, 3x3, stride 2": ("float[1,64,112,112] x", "float", "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)"),
    "MaxPool 64x112x112, 2x2, stride 2": ("float[1,64,112,112] x", "float", "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)"),
    "MaxPool 256x13x13, 5x5": ("float[1,256,13,13] x", "float", "y = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (x)"),
    "MaxPool 256x14x14, 3x3": ("float[1,256,14,14] x", "float", "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "MaxPool, u8, 64x112x112, 3x3, stride 2": ("uint8[1,64,112,112] x", "uint8", "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)"),
    "MaxPool 64x16000, 4, stride 4": ("float[1,64,16000] x", "float", "y = MaxPool <kernel_shape = [4], strides = [4]> (x)"),
    "AveragePool 64x56x56, 3x3": ("float[1,64,56,56] x", "float", "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "AveragePool 256x14x14, 3x3": ("float[1,256,14,14] x", "float", "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "AveragePool 64x56x56, 2x2, stride 2": ("float[1,64,56,56] x", "float", "y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)"),
    "Conv 64x56x56, 3x3, weights an input": ("float[1,64,56,56] x, float[64,64,3,3] w", "float", "y = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)"),
    "Conv 64x56x56, 1x1, weights an input": ("float[1,64,56,56] x, float[64,64,1,1] w", "float", "y = Conv <kernel_shape = [1, 1]> (x, w)"),
    "Compress 256x4096, axis 1": ("float[256,4096] x, bool[4096] c", "float", "y = Compress <axis = 1> (x, c)"),
    "Compress 4096x256, axis 0": ("float[4096,256] x, bool[4096] c", "float", "y = Compress <axis = 0> (x, c)"),
    "Compress 1048576": ("float[1048576] x, bool[1048576] c", "float", "y = Compress (x, c)"),
    "ReduceSum 1024x1024, axis 0": ("float[1024,1024] x", "float", "a = Constant <value = int64[1] {0}> ()  y = ReduceSum <keepdims = 0> (x, a)"),
    "ReduceMax 64x1024x64, axis 1": ("float[64,1024,64] x", "float", "a = Constant <value = int64[1] {1}> ()  y = ReduceMax <keepdims = 0> (x, a)"),
    "4x512x512, both transposed": ("float[512,4] x, float[512,512] w", "float", "y = Gemm <transA = 1, transB = 1> (x, w)"),
    "2x512x512, both transposed": ("float[512,2] x, float[512,512] w", "float", "y = Gemm <transA = 1, transB = 1> (x, w)"),
    "8x512x512, both transposed": ("float[512,8] x, float[512,512] w", "float", "y = Gemm <transA = 1, transB = 1> (x, w)"),
    "1x1024x8192, B an input": ("float[1,1024] x, float[1024,8192] w", "float", "y = MatMul (x, w)"),
    "4x1024x4096, B an input": ("float[4,1024] x, float[1024,4096] w", "float", "y = MatMul (x, w)"),
    "BatchNormalization 256x512": ("float[256,512] x, float[512] s, float[512] b, float[512] m", "float", "v = Mul (s, s)  y = BatchNormalization (x, s, b, m, v)"),
    "Pad 64x28x28, 1 around": ("float[1,64,28,28] x", "float", "p = Constant <value = int64[8] {0, 0, 1, 1, 0, 0, 1, 1}> ()  y = Pad (x, p)"),
    "Pad, u8, 3x224x224, 1 around": ("uint8[1,3,224,224] x", "uint8", "p = Constant <value = int64[8] {0, 0, 1, 1, 0, 0, 1, 1}> ()  y = Pad (x, p)"),
    "TopK 1x32000, 50": ("float[1,32000] x", "float", "k = Constant <value = int64[1] {50}> ()  y, i = TopK (x, k)"),
    "TopK 64x1000, 5": ("float[64,1000] x", "float", "k = Constant <value = int64[1] {5}> ()  y, i = TopK (x, k)"),
    "Trilu 1024x1024": ("float[1024,1024] x", "float", "y = Trilu (x)"),
    "CumSum 1024x1024, axis 0": ("float[1024,1024] x", "float", "a = Constant <value = int64 {0}> ()  y = CumSum (x, a)"),
    "Tanh 64x4096": ("float[64,4096] x", "float", "y = Tanh (x)"),
    "Resize 3x224x224 to 448x448": ("float[1,3,224,224] x", "float", "s = Constant <value = float[4] {1, 1, 2, 2}> ()  e = Constant <value = float[0] {}> ()  y = Resize <mode = \"linear\"> (x, e, s)"),
    "Exp 64x4096": ("float[64,4096] x", "float", "y = Exp (x)"),
    "ReduceSum 16x9x64x64, axis 1": ("float[16,9,64,64] x", "float", "a = Constant <value = int64[1] {1}> ()  y = ReduceSum <keepdims = 0> (x, a)"),
    "1x4096x4096, B an input, rows open": ("float[L,4096] x, float[4096,4096] w", "float", "y = MatMul (x, w)"),
    "8 x 1x64x1024, B an input, rows open": ("float[8,L,64] x, float[8,64,1024] w", "float", "y = MatMul (x, w)"),
    "3x512x512, B an input, rows open": ("float[M,512] x, float[512,512] w", "float", "y = MatMul (x, w)"),
    "5x512x512, B an input, rows open": ("float[N,512] x, float[512,512] w", "float", "y = MatMul (x, w)"),
    "MaxPool 64x14x14, 3x3, sizes open": ("float[1,64,H,W] x", "float", "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "NonMaxSuppression 20x8400, 100": ("float[1,8400,4] x, float[1,20,8400] s", "int64", "k = Constant <value = int64 {100}> ()  t = Constant <value = float {0.5}> ()  u = Constant <value = float {0}> ()  y = NonMaxSuppression (x, s, k, t, u)"),
    "TopK, axis 0, 1000x64, 5": ("float[1000,64] x", "float", "k = Constant <value = int64[1] {5}> ()  y, i = TopK <axis = 0> (x, k)"),
    "Slice 1024x256, begin an input": ("float[1024,256] x, int64[1] b", "float", "e = Constant <value = int64[1] {1024}> ()  y = Slice (x, b, e)"),
    "8 x 1x64x1024, B an input": ("float[8,1,64] x, float[8,64,1024] w", "float", "y = MatMul (x, w)"),
    "1x128x2048, B an input": ("float[1,128] x, float[128,2048] w", "float", "y = MatMul (x, w)"),
    "2x128x512, B an input": ("float[2,128] x, float[128,512] w", "float", "y = MatMul (x, w)"),
    "CumSum 16x128x64, axis 0": ("float[16,128,64] x", "float", "a = Constant <value = int64 {0}> ()  y = CumSum (x, a)"),
    "ConvTranspose 64x28x28, 2x2, weights an input": ("float[1,64,28,28] x, float[64,32,2,2] w", "float", "y = ConvTranspose <kernel_shape = [2, 2], strides = [2, 2]> (x, w)"),
    "AveragePool 64x14x14, 3x3, sizes open": ("float[1,64,H,W] x", "float", "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "Slice 1024x1024, step 2": ("float[1024,1024] x", "float", "b = Constant <value = int64[1] {0}> ()  e = Constant <value = int64[1] {1024}> ()  a = Constant <value = int64[1] {1}> ()  s = Constant <value = int64[1] {2}> ()  y = Slice (x, b, e, a, s)"),
    "Transpose, u8, 3x224x224, channels last": ("uint8[1,3,224,224] x", "uint8", "y = Transpose <perm = [0, 2, 3, 1]> (x)"),
    "Transpose, f16, 3x224x224, channels last": ("float16[1,3,224,224] x", "float16", "y = Transpose <perm = [0, 2, 3, 1]> (x)"),
    "Transpose 3x224x224, channels last": ("float[1,3,224,224] x", "float", "y = Transpose <perm = [0, 2, 3, 1]> (x)"),
    "Transpose, f16, 8x128x100": ("float16[8,128,100] x", "float16", "y = Transpose <perm = [0, 2, 1]> (x)"),
    "Transpose, u8, 8x128x100": ("uint8[8,128,100] x", "uint8", "y = Transpose <perm = [0, 2, 1]> (x)"),
    "ConvTranspose 64x28x28, 3x3, weights an input": ("float[1,64,28,28] x, float[64,32,3,3] w", "float", "y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]> (x, w)"),
    "Conv 64x28x28, 3x3, 4 groups, weights an input": ("float[1,64,28,28] x, float[64,16,3,3] w", "float", "y = Conv <group = 4, pads = [1, 1, 1, 1]> (x, w)"),
    "LabelEncoder, 65536 of 1000": ("int64[65536] x", "int64", f"y = ai.onnx.ml.LabelEncoder <keys_int64s = {list(range(0, 300, 3)) + list(range(300, 1200))}, values_int64s = {list(range(1000))}> (x)"),
    "TopK 1x10000, 1000": ("float[1,10000] x", "float", "k = Constant <value = int64[1] {1000}> ()  y, i = TopK (x, k)"),
    "TopK 64x1000, all": ("float[64,1000] x", "float", "k = Constant <value = int64[1] {1000}> ()  y, i = TopK (x, k)"),
    "Unique, i64, 65536": ("int64[65536] x", "int64", "y, i, j, c = Unique (x)"),
    "ScatterND 1000x256, 512 rows": ("float[1000,256] x, int64[512,1] i, float[512,256] u", "float", "y = ScatterND (x, i, u)"),
    "MaxUnpool 64x28x28": ("float[1,64,28,28] x, int64[1,64,28,28] i", "float", "y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, i)"),
}


def model_and_inputs(case):
    inputs, result, nodes = case
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 4]> g ({inputs}) => ({result} y) {{ {nodes} }}')
    random, feed = np.random.default_rng(1), {}
    for kind, dims, name in re.findall(r"(\w+)\[([\w,]+)\] (\w+)", inputs):
        normal = random.standard_normal([SIZES.get(d) or int(d) for d in dims.split(",")])
        feed[name] = (1 + np.abs(64 * normal) if "int" in kind else normal > 0 if kind == "bool" else normal).astype(TYPES[kind])
    return model, feed


def ort_call(session, feed, y):
    binding = session.io_binding()
    for name, a in feed.items():
        binding.bind_input(name, "cpu", 0, a.dtype, a.shape, a.ctypes.data)
    binding.bind_output("y", "cpu", 0, y.dtype, y.shape, y.ctypes.data)
    return lambda kept=(feed, y): session.run_with_iobinding(binding)  # the binding has their addresses only


def calls(compilers, case, folder, options=()):
    """The engines' calls, and the largest difference of our answers."""
    model, feed = model_and_inputs(case)
    # Without a shape, the parser's type is that of a scalar.
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", model.graph.output[0].type.tensor_type.elem_type, None))
    path = os.path.join(folder, f"model{len(os.listdir(folder))}.onnx")
    onnx.save(model, path)
    session, engines, worst = ort_session(path, 1), {}, 0
    wanted = session.run(None, feed)[0]
    for name, onnxc in compilers.items():
        ours, y = Compiled(onnxc, path, folder, ["--threads", "1", *options]), np.empty_like(wanted)
        ours.prepare(list(feed.values()), [y])
        ours.run()
        engines[name], worst = ours.run, max(worst, difference(y, wanted))
    engines["ort"] = ort_call(session, feed, np.empty_like(wanted))
    return engines, worst


def processor_time(run, times):
    start = time.thread_time()
    for _ in range(times):
        run()
    return (time.thread_time() - start) / times


def best_times(engines, seconds):
    times = {name: max(1, int(3e-4 / processor_time(run, 3))) for name, run in engines.items()}
    best, end, turns = dict.fromkeys(engines, 1e9), time.perf_counter() + seconds, 0
    while turns < 5 or time.perf_counter() < end:
        for name, run in engines.items():
            run()
            best[name] = min(best[name], processor_time(run, times[name]))
        turns += 1
    return best


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("onnxc")
    p.add_argument("names", nargs="*")
    p.add_argument("--old")
    p.add_argument("--mcpu")
    p.add_argument("--seconds", type=float, default=0.5)
    a = p.parse_intermixed_args()
    compilers = {"onnxc": os.path.abspath(a.onnxc), **({"old": os.path.abspath(a.old)} if a.old else {})}
    options = ["--mcpu", a.mcpu] if a.mcpu else []
    with tempfile.TemporaryDirectory() as folder:
        nothing = best_times(calls(compilers, CASES["nothing"], folder)[0], a.seconds)
        for name in a.names or [n for n in CASES if n != "nothing"]:
            engines, worst = calls(compilers, CASES[name], folder, options)
            t = {e: best - nothing[e] for e, best in best_times(engines, a.seconds).items()}
            before = f" {t['old'] / t['ort']:.2f} |" if a.old else ""
            print(f"| {name} | {1e6 * t['onnxc']:.1f} us | {1e6 * t['ort']:.1f} us | {t['onnxc'] / t['ort']:.2f} |{before} {worst:.1e} |", flush=True)


if __name__ == "__main__":
    main()
