"""Writes ONNX's own backend test cases (of the installed onnx package) as folders that `onnxc test` takes.

usage: backend_cases.py OUT      OUT/KIND/NAME/{model.onnx, test_data_set_K/{input,output}_J.pb, tolerance}
"""
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests


def proto_of(value, type_proto):
    """One input or output as the bytes of its TensorProto, SequenceProto or OptionalProto."""
    kind = type_proto.WhichOneof("value") if type_proto is not None else "tensor_type"
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString()
    if kind == "sequence_type":
        return numpy_helper.from_list(list(value)).SerializeToString()
    if kind == "optional_type":
        return numpy_helper.from_optional(value).SerializeToString()
    return numpy_helper.from_array(np.array(value)).SerializeToString()


def write_values(folder, stem, values, infos):
    for j, value in enumerate(values):
        info = infos[j].type if j < len(infos) else None
        with open(os.path.join(folder, f"{stem}_{j}.pb"), "wb") as f:
            f.write(proto_of(value, info))


def write_case(out, case):
    folder = os.path.join(out, case.kind, case.name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "tolerance"), "w") as f:
        f.write(f"{case.rtol} {case.atol}\n")
    if case.model_dir:
        for name in sorted(os.listdir(case.model_dir)):
            source = os.path.join(case.model_dir, name)
            copy = shutil.copytree if os.path.isdir(source) else shutil.copyfile
            copy(source, os.path.join(folder, name))
        return
    onnx.save(case.model, os.path.join(folder, "model.onnx"))
    for k, (inputs, outputs) in enumerate(case.data_sets or []):
        data = os.path.join(folder, f"test_data_set_{k}")
        os.makedirs(data, exist_ok=True)
        write_values(data, "input", inputs, case.model.graph.input)
        write_values(data, "output", outputs, case.model.graph.output)


def main():
    out = sys.argv[1]
    shutil.rmtree(out, ignore_errors=True)
    count = 0
    for kind in ("node", "simple", "pytorch-converted", "pytorch-operator", "light"):
        if kind == "node":
            from onnx.backend.test.case.node import collect_testcases
            cases = collect_testcases(None)
        elif kind == "simple":
            from onnx.backend.test.case.model import collect_testcases as collect
            cases = [c for c in collect() if c.kind == "simple"]
        else:
            cases = load_model_tests(kind=kind)
        for case in cases:
            write_case(out, case)
            count += 1
    print(count, "cases")


if __name__ == "__main__":
    main()
