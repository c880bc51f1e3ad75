"""Writes cases of DFT and STFT with lengths that have large prime factors, as folders that `onnxc test` takes.

usage: spectrum_cases.py OUT        OUT/LENGTH/CASE/...

numpy's transforms in double precision say what is right; the bound of the error is relative to the largest element.
"""
import os
import sys

import numpy as np
from onnx import helper, numpy_helper

from case_files import Stamp, write_case

DICE = np.random.default_rng(5)
BOUNDS = {np.float64: 2e-15, np.float32: 1e-6, np.float16: 1e-3}
LENGTHS = (13, 23, 58, 101, 127, 289, 303, 961, 1009, 2018)  # primes, their small multiples, squares of primes


def parts(z):
    return np.stack((z.real, z.imag), -1)


def signal(shape, dtype=np.float32):
    """As stored, and as complex numbers in double."""
    x = DICE.standard_normal(shape).astype(dtype)
    wide = x.astype(np.float64)
    return x, wide[..., 0] + (1j * wide[..., 1] if shape[-1] == 2 else 0)


def write(folder, node, inputs, constants, wanted):
    dtype = inputs["x"].dtype
    info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in inputs.items()]
    out = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(dtype), wanted.shape)
    held = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    model = helper.make_model(helper.make_graph([node], "spectrum", info, [out], held),
                              opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    share = BOUNDS[dtype.type] * float(np.abs(wanted).max())
    write_case(folder, model, [(list(inputs.values()), [wanted.astype(dtype)])], rtol=0, atol=share)


def dft(folder, shape, axis, wanted, dtype=np.float32, length=None, **attributes):
    """wanted: of the complex signal."""
    x, z = signal(shape, dtype)
    constants = {"axis": np.int64(axis)} | ({} if length is None else {"length": np.int64(length)})
    node = helper.make_node("DFT", ["x", "" if length is None else "length", "axis"], ["y"], **attributes)
    y = wanted(z)
    write(folder, node, {"x": x}, constants, parts(y) if np.iscomplexobj(y) else y[..., None])


def half_inverse(z, n):
    """The real part of the signal of a one-sided spectrum, of whose first element the imaginary part counts."""
    return np.fft.ifft(np.concatenate((z, np.conj(z[:, 1:n - n // 2][:, ::-1])), 1)).real


def transforms(folder, n):
    def to(name):
        return os.path.join(folder, name)
    for dtype in BOUNDS:
        dft(to(f"complex_{dtype.__name__}"), (3, n, 2), 1, np.fft.fft, dtype)
        dft(to(f"inverse_{dtype.__name__}"), (3, n, 2), -2, np.fft.ifft, dtype, inverse=1)
        dft(to(f"one_side_{dtype.__name__}"), (2, n, 1), 1, np.fft.rfft, dtype, onesided=1)
    dft(to("first_axis"), (n, 2, 3, 1), 0, lambda z: np.fft.fft(z, axis=0))
    dft(to("padded"), (2, n // 2, 5, 2), 1, lambda z: np.fft.fft(z, n, axis=1), length=n)
    dft(to("cut"), (2, n + 5, 2), 1, lambda z: np.fft.ifft(z, n), length=n, inverse=1)
    dft(to("half_inverse"), (2, n // 2 + 1, 2), 1, lambda z: half_inverse(z, n), length=n, inverse=1, onesided=1)


def frames(folder, n, onesided):
    x, z = signal((2, 3 * n, 1 if onesided else 2))
    window = DICE.random(n).astype(np.float32)
    cut = np.stack([z[:, at:at + n] for at in range(0, 2 * n + 1, n // 3)], 1)
    wanted = (np.fft.rfft if onesided else np.fft.fft)(cut * window)
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"], onesided=onesided)
    write(os.path.join(folder, f"frames_{onesided}"), node, {"x": x}, {"step": np.int64(n // 3), "window": window}, parts(wanted))


def main():
    stamp = Stamp(sys.argv[1], __file__)
    if stamp.fresh():
        return
    stamp.begin()
    for n in LENGTHS:
        folder = os.path.join(sys.argv[1], str(n))
        transforms(folder, n)
        for onesided in (0, 1):
            frames(folder, n, onesided)
    stamp.done()


if __name__ == "__main__":
    main()
