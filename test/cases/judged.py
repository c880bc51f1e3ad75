"""ONNX's backend cases whose expected values no implementation can match, judged by what the standard says.

usage: judged.py CASES      CASES: the folder of backend_cases.py; prints a line for each failure, then N passed, N failed, N skipped

Bernoulli: the expected numbers come from a generator in an unknown state. Judged by the distribution of many draws for each
probability p of the case's input. (The standard's function body, of which the expanded cases are made, compares in the wrong
direction, Greater(random, p): it draws 1 with probability 1 - p, unlike the text of the operator.) DFT (inverse): the expected values contain the rounding errors of another algorithm, about
2e-7 where the exact result is 0. Judged by the exact result: the error is at most that of the expected values.
"""
import glob
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))
import onnxc  # noqa: E402

DRAWS = 4000
BERNOULLI = ("test_bernoulli", "test_bernoulli_double", "test_bernoulli_double_expanded", "test_bernoulli_expanded",
             "test_bernoulli_seed", "test_bernoulli_seed_expanded")
DFT = ("test_dft_inverse", "test_dft_inverse_opset19")


def read(folder, name):
    tensor = onnx.TensorProto()
    with open(os.path.join(folder, "test_data_set_0", name + ".pb"), "rb") as f:
        tensor.ParseFromString(f.read())
    return numpy_helper.to_array(tensor)


def bernoulli(folder):
    """What is wrong, or ""."""
    model = onnx.load(os.path.join(folder, "model.onnx"))
    p, wanted = read(folder, "input_0"), read(folder, "output_0")
    y, = onnxc.InferenceSession(model).run(None, {model.graph.input[0].name: p})
    if y.shape != wanted.shape or y.dtype != wanted.dtype:
        return f"{y.dtype}{list(y.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    del model.graph.value_info[:]
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    y, = onnxc.InferenceSession(model).run(None, {model.graph.input[0].name: np.repeat(p, DRAWS)})
    if not np.isin(y, (0, 1)).all():
        return "values other than 0 and 1"
    if "expanded" in folder:
        p = 1 - p
    means, spread = y.astype(np.float64).reshape(len(p), DRAWS).mean(1), np.sqrt(p * (1 - p) / DRAWS)
    return "" if (np.abs(means - p) <= 5 * spread + 1e-9).all() else f"means {means} for probabilities {p}"


def dft(folder):
    model = onnx.load(os.path.join(folder, "model.onnx"))
    x, wanted = read(folder, "input_0"), read(folder, "output_0")
    inputs = [read(folder, os.path.basename(path)[:-3]) for path in sorted(glob.glob(os.path.join(folder, "test_data_set_0", "input_*.pb")))]
    y, = onnxc.InferenceSession(model).run(None, {i.name: v for i, v in zip(model.graph.input, inputs)})
    exact = np.fft.ifft(x[..., 0].astype(np.float64) + 1j * x[..., 1], axis=1)
    exact = np.stack((exact.real, exact.imag), axis=-1)
    ours, theirs = np.abs(y - exact).max(), np.abs(wanted - exact).max()
    return "" if y.shape == exact.shape and ours <= theirs else f"error {ours:.2g}; the expected values have {theirs:.2g}"


def main():
    failed = 0
    for names, judge in ((BERNOULLI, bernoulli), (DFT, dft)):
        for name in names:
            wrong = judge(os.path.join(sys.argv[1], "node", name))
            failed += bool(wrong)
            if wrong:
                print(f"FAIL {name}: {wrong}")
    print(f"{len(BERNOULLI) + len(DFT) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
