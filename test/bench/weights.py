"""Products of a few rows with weights of every kind, on one thread: milliseconds by the number of rows.

usage: weights.py [OPTION...]     the compiler's options, such as --mcpu=x86-64-v3. Prints a line of docs/measurements.md for each kind

One version is for one row and one for more, as of a language model. Times are the best of calls in turns.
"""
import os
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "bindings", "python"))

import onnxc  # noqa: E402

K, N, BLOCK, ROUNDS = 2048, 5632, 32, 20
ROWS = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128]
WHOLE, COLUMNS, BLOCKS = "f = Identity (w)", "f = DequantizeLinear <axis = 1> (w, s)", "f = DequantizeLinear <axis = 0, block_size = 32> (w, s)"
WIDENED, POWERS = "f = Cast <to = 1> (w)", "t = Cast <to = 1> (s) f = DequantizeLinear <axis = 0, block_size = 32> (w, t)"
KINDS = {
    "f32": (T.FLOAT, 32, WHOLE), "f16": (T.FLOAT16, 16, WIDENED), "bf16": (T.BFLOAT16, 16, WIDENED), "float8": (T.FLOAT8E4M3FN, 8, COLUMNS),
    "int8 by channel": (T.INT8, 8, COLUMNS), "int8 in blocks": (T.INT8, 8, BLOCKS), "int4": (T.INT4, 4, BLOCKS), "int2": (T.INT2, 2, BLOCKS),
    "MXFP4": (T.FLOAT4E2M1, 4, POWERS),
}


def model_of(kind, bits, spelled):
    random = np.random.default_rng(0)
    plain = (random.standard_normal(K * N) / 45).astype(np.float32)
    known = {T.FLOAT: plain, T.FLOAT16: plain.astype(np.float16), T.BFLOAT16: (plain.view(np.uint32) >> 16).astype(np.uint16)}
    data = known[kind] if kind in known else random.integers(0, 120, K * N * bits // 8, np.uint8)
    model = onnx.parser.parse_model(f'<ir_version: 13, opset_import: ["": 25]> g (float[M, {K}] x) => (float[M, {N}] y) {{ {spelled} y = MatMul (x, f) }}')
    dims = [N] if spelled == COLUMNS else [K // BLOCK, N]
    count = int(np.prod(dims))
    scales = random.integers(118, 122, count, np.uint8) if spelled == POWERS else random.random(count, np.float32) / 4096
    model.graph.initializer.append(helper.make_tensor("w", kind, [K, N], data.tobytes(), raw=True))
    if bits < 16:
        model.graph.initializer.append(helper.make_tensor("s", T.FLOAT8E8M0 if spelled == POWERS else T.FLOAT, dims, scales.tobytes(), raw=True))
    return model


def times(options):
    x = {n: np.random.default_rng(1).standard_normal((n, K)).astype(np.float32) for n in ROWS}
    sessions = {kind: onnxc.InferenceSession(model_of(*how), ["--dim=M=1,2:128", "--threads=1", *options]) for kind, how in KINDS.items()}
    best = {(kind, n): np.inf for kind in KINDS for n in ROWS}
    for _ in range(ROUNDS):
        for kind, n in best:
            begin = time.process_time()
            sessions[kind].run(None, {"x": x[n]})
            best[kind, n] = min(best[kind, n], time.process_time() - begin)
    return best


def main():
    best = times(sys.argv[1:])
    for kind in KINDS:
        print(f"| {kind} | " + " | ".join(f"{1e3 * best[kind, n]:.2f}" for n in ROWS) + " |", flush=True)


if __name__ == "__main__":
    main()
