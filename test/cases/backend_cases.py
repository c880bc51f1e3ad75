"""Writes ONNX's own backend test cases (of the installed onnx package) as folders that `onnxc test` takes.

usage: backend_cases.py OUT      OUT/KIND/NAME/{model.onnx, test_data_set_K/{input,output}_J.pb, tolerance}

The same cases, inputs and tolerances as onnx.backend.test.runner uses. Does nothing when OUT is up to date.
"""
import os
import shutil
import sys

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

from case_files import Stamp, write_case, write_tolerance

KINDS = {"node": "node", "simple": "simple", "pytorch-converted": "pytorch-converted",
         "pytorch-operator": "pytorch-operator", "real": "light"}


def light_case(case):
    """A model whose weights are constants: the runner feeds 0, 1/n, 2/n ... and the package holds the outputs."""
    path = os.path.join(os.path.dirname(onnx.__file__), *case.url.split("/")[1:])
    model = onnx.load(path)
    constants = {t.name for t in model.graph.initializer}
    inputs = []
    for info in model.graph.input:
        if info.name in constants:
            continue
        shape = [d.dim_value if d.HasField("dim_value") else 1 for d in info.type.tensor_type.shape.dim]
        n = int(np.prod(shape))
        inputs.append((np.arange(n).reshape(shape) / n).astype(np.float32))
    outputs = [onnx.load_tensor(f"{path[:-5]}_output_{j}.pb") for j in range(len(model.graph.output))]
    return model, [(inputs, outputs)]


def write_backend_case(out, case):
    folder = os.path.join(out, KINDS[case.kind], case.name)
    if case.model_dir:
        shutil.copytree(case.model_dir, folder)
        write_tolerance(folder, onnx.load(os.path.join(folder, "model.onnx")), case.rtol, case.atol)
        return
    model, data_sets = light_case(case) if case.kind == "real" else (case.model, case.data_sets)
    write_case(folder, model, data_sets, case.rtol, case.atol)


def main():
    out = sys.argv[1]
    stamp = Stamp(out, __file__)
    if stamp.fresh():
        return
    stamp.begin()
    cases = [c for kind in KINDS for c in load_model_tests(kind=kind)]
    for case in cases:
        write_backend_case(out, case)
    stamp.done()
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
