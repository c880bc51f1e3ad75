"""Compares onnxc quantize with ONNX Runtime's quantize_static on the same samples.

usage: quantize.py ONNXC MODEL... [--samples DIR] [--test DIR] [--with "OPTIONS"] [--method MinMax]

A sample is an .npz file with a member for each input; without --samples, images with the spectrum of photographs and
rows of token numbers are made. Prints, for each model and quantiser: seconds, seconds of processors, bytes, signal-to-noise ratio of the outputs
and share of equal answers (the largest element of each row), both measured by ONNX Runtime on samples that calibration has
not seen. needs: onnx, onnxruntime
"""
import argparse
import glob
import os
import shlex
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

CALIBRATION, TEST = 16, 8


def picture(rng, shape):
    """Noise with the spectrum of photographs: amplitudes fall with the frequency."""
    n, c, h, w = shape
    frequency = np.sqrt(np.fft.fftfreq(h)[:, None] ** 2 + np.fft.fftfreq(w)[None] ** 2)
    amplitude = 1 / np.maximum(frequency, 1 / h)
    made = [np.fft.ifft2(np.fft.fft2(rng.standard_normal((h, w))) * amplitude).real for _ in range(n * c)]
    return np.array([(z - z.mean()) / z.std() for z in made], np.float32).reshape(shape)


def sample(rng, graph):
    constants = {i.name for i in graph.initializer}
    made = {}
    for i in graph.input:
        if i.name in constants:
            continue
        t = i.type.tensor_type
        shape = [d.dim_value or 1 for d in t.shape.dim]
        if t.elem_type == onnx.TensorProto.INT64 and "mask" in i.name:
            made[i.name] = np.ones(shape, np.int64)
            made[i.name][..., rng.integers(shape[-1] // 4, shape[-1] + 1):] = 0
        elif t.elem_type == onnx.TensorProto.INT64:
            made[i.name] = np.minimum(rng.zipf(1.3, shape) + 99, 1000).astype(np.int64)
        else:
            made[i.name] = picture(rng, shape) if len(shape) == 4 else rng.standard_normal(shape).astype(np.float32)
    return made


class Reader(CalibrationDataReader):
    def __init__(self, samples):
        self.left = iter(samples)

    def get_next(self):
        return next(self.left, None)


def load(folder):
    return [dict(np.load(path)) for path in sorted(glob.glob(os.path.join(folder, "*.npz")))]


def answers(path, samples):
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [session.run(None, s) for s in samples]


def quality(got, want):
    """Signal-to-noise ratio over all outputs in dB, and share of rows with the same largest element."""
    signal = sum(float((w.astype(np.float64) ** 2).sum()) for ws in want for w in ws)
    noise = sum(float(((w.astype(np.float64) - g) ** 2).sum()) for gs, ws in zip(got, want) for g, w in zip(gs, ws))
    same = [np.mean(np.argmax(gs[0], -1) == np.argmax(ws[0], -1)) for gs, ws in zip(got, want)]
    return 10 * np.log10(signal / max(noise, 1e-30)), float(np.mean(same))


def clocks():
    """Wall and processor time, with children."""
    t = os.times()
    return np.array([time.perf_counter(), t.user + t.system + t.children_user + t.children_system])


def by_onnxc(args, model, out, folder):
    started = clocks()
    subprocess.run([args.onnxc, "quantize", model, "--data", folder, "-o", out, *shlex.split(args.options)], check=True,
                   stdout=subprocess.DEVNULL)
    return clocks() - started


def by_onnxruntime(args, model, out, folder):
    """In a process of its own, like onnxc."""
    started = clocks()
    subprocess.run([sys.executable, "-W", "ignore", __file__, "--quantise", model, "--method", args.method, "-o", out, "--samples", folder],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return clocks() - started


def quantise_by_onnxruntime(args, model, out, samples):
    prepared = out + ".prepared.onnx"
    quant_pre_process(model, prepared, skip_symbolic_shape=True)
    quantize_static(prepared, out, Reader(samples), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
                    calibrate_method=CalibrationMethod[args.method])


def compare(args, model, work):
    rng = np.random.default_rng(0)
    graph = onnx.load(model, load_external_data=False).graph
    given = load(args.samples) if args.samples else [sample(rng, graph) for _ in range(CALIBRATION)]
    unseen = load(args.test) if args.test else [sample(rng, graph) for _ in range(TEST)]
    folder = os.path.join(work, "samples")
    os.makedirs(folder, exist_ok=True)
    for old in glob.glob(os.path.join(folder, "*")):
        os.remove(old)
    for i, s in enumerate(given):
        np.savez(os.path.join(folder, f"{i:04d}.npz"), **s)
    want = answers(model, unseen)
    print(f"{os.path.basename(model)}: {os.path.getsize(model)} bytes, {len(given)} samples")
    for name, quantise, data in (("onnxc", by_onnxc, folder), ("ONNX Runtime", by_onnxruntime, folder)):
        out = os.path.join(work, f"{name.split()[0]}.onnx")
        seconds = quantise(args, model, out, data)
        ratio, same = quality(answers(out, unseen), want)
        print(f"  {name:13} {seconds[0]:7.2f} s ({seconds[1]:.2f} s of processors) {os.path.getsize(out):10} bytes  SNR {ratio:6.2f} dB  equal answers {100 * same:5.1f} %",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc", nargs="?")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--quantise", help=argparse.SUPPRESS)  # one model, by ONNX Runtime
    parser.add_argument("-o", help=argparse.SUPPRESS)
    parser.add_argument("--samples")
    parser.add_argument("--test")
    parser.add_argument("--with", dest="options", default="")
    parser.add_argument("--method", default="MinMax")
    args = parser.parse_args()
    if args.quantise:
        quantise_by_onnxruntime(args, args.quantise, args.o, load(args.samples))
        return
    with tempfile.TemporaryDirectory() as work:
        for model in args.models:
            compare(args, model, work)


if __name__ == "__main__":
    sys.exit(main())
