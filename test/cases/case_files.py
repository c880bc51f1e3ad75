"""Writing test cases as folders: model.onnx, test_data_set_K/{input,output}_J.pb and tolerance ("rtol atol")."""
import hashlib
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

BFLOAT16_RTOL = 2**-6  # the rule of onnx.backend.test.runner: two units in the last place


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


def write_file(path, data):
    with open(path, "wb") as f:
        f.write(data)


def write_values(folder, stem, values, infos):
    for j, value in enumerate(values):
        info = infos[j].type if j < len(infos) else None
        write_file(os.path.join(folder, f"{stem}_{j}.pb"), proto_of(value, info))


def write_tolerance(folder, model, rtol, atol):
    kinds = {o.type.tensor_type.elem_type for o in model.graph.output}
    if TensorProto.BFLOAT16 in kinds:
        rtol = max(rtol, BFLOAT16_RTOL)
    write_file(os.path.join(folder, "tolerance"), f"{rtol} {atol}\n".encode())


def write_case(folder, model, data_sets, rtol=1e-3, atol=1e-7):
    """data_sets: (inputs, outputs) lists of arrays, lists (sequences) or protos, in the model's order."""
    os.makedirs(folder)
    write_file(os.path.join(folder, "model.onnx"), model.SerializeToString())
    for k, (inputs, outputs) in enumerate(data_sets):
        data = os.path.join(folder, f"test_data_set_{k}")
        os.makedirs(data)
        write_values(data, "input", inputs, model.graph.input)
        write_values(data, "output", outputs, model.graph.output)
    write_tolerance(folder, model, rtol, atol)


class Stamp:
    """Says whether a folder was already written by these scripts with this onnx package."""

    def __init__(self, out, *scripts):
        if out.startswith("-"):
            sys.exit(f"{out} is no folder to write cases to; the usage is at the top of {scripts[0]}")
        digest = hashlib.sha256(onnx.__version__.encode())
        for script in (__file__, *scripts):
            digest.update(open(script, "rb").read())
        self.out, self.path, self.wanted = out, os.path.join(out, "stamp"), digest.hexdigest()

    def fresh(self):
        return os.path.exists(self.path) and open(self.path).read() == self.wanted

    def begin(self, empty=True):
        """Not empty: other cases stay, and the folder is no longer that of a whole run."""
        if empty:
            shutil.rmtree(self.out, ignore_errors=True)
        os.makedirs(self.out, exist_ok=True)
        if os.path.exists(self.path):
            os.remove(self.path)

    def done(self):
        write_file(self.path, self.wanted.encode())
