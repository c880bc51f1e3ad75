"""Compares which models onnxc accepts with what ONNX's strict shape inference and ONNX Runtime accept.

ONNX's test models are changed at random: an attribute, a size or element of an initializer, an element type, an input left
out, given twice or swapped. Seed and number determine a model. Printed are the disagreements:

    accepted    onnxc compiles it, but ONNX or ONNX Runtime refuses it
    refused     onnxc refuses it as wrong, but both accept it, and ONNX Runtime runs it
    defect      onnxc crashes, runs longer than its time limit, or reports more or less than one clear error

usage: accept.py [--count N] [--seed N] [--only N] [--match WORD].
The stage bad-models runs a few, for the third kind only.
"""
import argparse
import collections
import glob
import multiprocessing
import os
import random
import re
import sys

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import BUILD, ONNXC  # noqa: E402
from hostile import complaint, fresh_folder, run_limited  # noqa: E402

SEED, COUNT, ERRORS_MOST = 3, 300, 21
IR_VERSION = 10  # this and older ones are known to every ONNX Runtime
# What ONNX Runtime says of what it lacks, not of what is wrong.
LACKS = re.compile(r"NOT_IMPLEMENTED|is till opset|not a registered|locale|is not supported|not supported|has unsupported type|has the following type|Type Error: Type 'tensor")
INTS = (-(2**63), -(2**31), -7, -3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 100, 2**31, 2**63 - 1)
FLOATS = (-1e30, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 1e30, float("nan"), float("inf"))
WORDS = ("", "none", "NOTSET", "VALID", "linear", "reflect", "mean", "max", "SAME", "Sum", "forward", "LEFT")
SIZES = (0, 1, 2, 3, 5, 7)
TYPES = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8, TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.STRING)


def case_models(match=""):
    return [p for p in sorted(glob.glob(os.path.join(BUILD, "cases", "node", "*", "model.onnx"))) if match in p]


def fill_inputs(dice, model, folder):
    """Turns integer inputs into initializers, with the data of the case: then their elements can be checked."""
    for i, name in enumerate([v.name for v in model.graph.input]):
        path = os.path.join(folder, "test_data_set_0", f"input_{i}.pb")
        v = next(v for v in model.graph.input if v.name == name)
        if not v.type.HasField("tensor_type") or v.type.tensor_type.elem_type not in (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL):
            continue
        if os.path.exists(path) and dice.random() < 0.7:
            t = onnx.load_tensor(path)
            t.name = name
            model.graph.initializer.append(t)
            model.graph.input.remove(v)


def change_attribute(dice, model):
    some = [(n, a) for n in model.graph.node for a in n.attribute]
    if not some:
        return None
    n, a = dice.choice(some)
    if a.type == AttributeProto.INT:
        a.i = dice.choice((*INTS, *(v for v in (a.i + 1, a.i - 1, -a.i) if abs(v) < 2**63)))
    elif a.type == AttributeProto.FLOAT:
        a.f = dice.choice(FLOATS)
    elif a.type == AttributeProto.STRING:
        a.s = dice.choice((*WORDS, a.s.decode().swapcase(), a.s.decode()[:-1])).encode()
    elif a.type == AttributeProto.INTS and a.ints:
        how = dice.randrange(4)
        if how == 0:
            del a.ints[-1]
        elif how == 1:
            a.ints.append(dice.choice(a.ints))
        else:
            a.ints[dice.randrange(len(a.ints))] = dice.choice((*INTS, a.ints[0]))
    else:
        n.attribute.remove(a)
    return f"attribute {a.name} of {n.op_type}"


def change_initializer(dice, model):
    some = [t for t in model.graph.initializer if numpy_helper.to_array(t).size]
    if not some:
        return None
    t = dice.choice(some)
    array = numpy_helper.to_array(t).copy()
    if dice.random() < 0.3:
        new = np.resize(array, dice.choice(((1,), (2,), (), (2, 2), (array.size + 1,))))
    else:
        new = array
        limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
        value = dice.choice(INTS)
        new.reshape(-1)[dice.randrange(array.size)] = min(max(value, limits.min), limits.max) if limits else bool(value)
    t.CopyFrom(numpy_helper.from_array(new, t.name))
    return f"initializer {t.name}"


def change_size(dice, model):
    some = [d for v in (*model.graph.input, *model.graph.value_info) if v.type.HasField("tensor_type") for d in v.type.tensor_type.shape.dim]
    if not some:
        return None
    dice.choice(some).dim_value = dice.choice(SIZES)
    return "a size of an input"


def change_rank(dice, model):
    some = [v.type.tensor_type.shape for v in model.graph.input if v.type.HasField("tensor_type")]
    if not some:
        return None
    shape = dice.choice(some)
    if shape.dim and dice.random() < 0.5:
        del shape.dim[dice.randrange(len(shape.dim))]
    else:
        shape.dim.add().dim_value = dice.choice(SIZES)
    return "a rank of an input"


def change_type(dice, model):
    some = [v.type.tensor_type for v in model.graph.input if v.type.HasField("tensor_type")]
    if not some:
        return None
    dice.choice(some).elem_type = dice.choice(TYPES)
    return "a type of an input"


def change_inputs(dice, model):
    some = [n for n in model.graph.node if n.input]
    if not some:
        return None
    n, names = dice.choice(some), [v.name for v in (*model.graph.input, *model.graph.initializer)]
    how, at = dice.randrange(4), dice.randrange(len(n.input))
    if how == 0:
        del n.input[at]
    elif how == 1:
        n.input[at] = ""
    elif how == 2:
        n.input.append(dice.choice(names))
    else:
        n.input[at] = dice.choice(names)
    return f"inputs of {n.op_type}"


CHANGES = (change_attribute,) * 4 + (change_initializer,) * 3 + (change_size,) * 2 + (change_rank, change_type, change_inputs)


def changed_model(seed, number, match=""):
    """The model, and what was changed."""
    dice = random.Random(f"{seed} {number}")
    path = dice.choice(case_models(match))
    model = onnx.load(path)
    model.ir_version = min(model.ir_version, IR_VERSION)
    for v in model.graph.output:  # declared for the case: a wrong one would hide other errors
        if v.type.HasField("tensor_type"):
            v.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    fill_inputs(dice, model, os.path.dirname(path))
    changes = [made for _ in range(dice.choice((1, 1, 2))) for made in [dice.choice(CHANGES)(dice, model)] if made]
    return model, f"{os.path.basename(os.path.dirname(path))}: {', '.join(changes) or 'nothing'}"


def onnx_says(model, send):
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        send.send(("", ""))
    except Exception as error:  # of many kinds
        send.send(("inference", str(error).strip().replace("\n", " ")[-160:]))


def zeros(value):
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(bool)": np.bool_, "tensor(string)": np.str_,
             **{f"tensor({t})": np.dtype(t) for t in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")}}
    return np.zeros([d if isinstance(d, int) else 2 for d in value.shape], kinds[value.type])


def runtime_says(model, send):
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of many kinds
        return send.send(("session", str(error).strip().replace("\n", " ")[-160:]))
    try:
        session.run(None, {v.name: zeros(v) for v in session.get_inputs()})
        send.send(("", ""))
    except Exception as error:  # of many kinds
        send.send(("run", str(error).strip().replace("\n", " ")[-160:]))


def apart(function, *arguments):
    """Some models crash ONNX, too."""
    receive, send = multiprocessing.Pipe(False)
    process = multiprocessing.Process(target=function, args=(*arguments, send))
    process.start()
    send.close()
    try:
        said = receive.recv() if receive.poll(20) else ("time", "no answer")
    except EOFError:
        said = ("crash", "a crash")
    process.kill()
    process.join()
    return said


def give(onnxc, folder, name, model):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(model.SerializeToString())
    return run_limited([onnxc, name, "-o", name + ".kernels"], folder)


def defect(ran, name):
    return complaint(ran, (0, 1, 2), (name,), ERRORS_MOST)


def disagreement(folder, seed, number, match):
    model, what = changed_model(seed, number, match)
    name = f"changed{number}.onnx"
    ran = give(ONNXC, folder, name, model)
    if defect(ran, name):
        return "defect", f"{number} {what}\n    {defect(ran, name)}"
    if ran.code == 2:
        return "", ""
    (refused, said), (stage, runtime) = apart(onnx_says, model), apart(runtime_says, model)
    if ran.code == 0 and (refused == "inference" or stage == "session") and not LACKS.search(runtime):
        return "accepted", f"{number} {what}\n    onnx: {said}\n    runtime: {runtime}"
    if ran.code == 1 and not refused and not stage:
        return "refused", f"{number} {what}\n    {ran.err.strip()[:300]}"
    return "", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", type=int)
    parser.add_argument("--match", default="")
    given = parser.parse_args()
    folder = fresh_folder(f"test-accept-{given.seed}")
    counts = collections.Counter()
    for number in range(given.count) if given.only is None else [given.only]:
        kind, text = disagreement(folder, given.seed, number, given.match)
        counts[kind or "agreed"] += 1
        if kind:
            print(f"{kind}: {text}", flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))


if __name__ == "__main__":
    main()
