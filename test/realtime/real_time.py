"""The stage `real-time`: runs that the compiler calls safe in real-time threads neither allocate nor lock nor call the system.

usage: real_time.py ONNXC CASES. Cases of ONNX's operators and networks made here are compiled with --threads 1, as objects and as C. What
their headers say is compared with the functions that the objects may reach, through the members of the runtime library too, and with runs
in which the allocator and locks are counted and every system call is fatal. Ends with "N passed, N failed, N skipped"."""
import glob
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.dirname(HERE))
from harness import Results, parallel, run  # noqa: E402

ONNXC, CASES = os.path.abspath(sys.argv[1]), sys.argv[2:]
RUNTIME = os.path.join(os.path.dirname(ONNXC), "libonnxc-rt.a")
RESULTS = Results("real-time")

# Functions that neither allocate nor wait, as objects and C code may need them.
COPIES = {"memcpy", "memmove", "memset", "memcmp", "_GLOBAL_OFFSET_TABLE_"}
MATHS = {name + end for name in ("sqrt", "fma", "floor", "ceil", "trunc", "rint", "nearbyint", "fmod", "fabs", "exp", "log", "pow", "erf", "ldexp",
                                 "sin", "cos", "tanh", "lrint") for end in ("", "f")}
FEATURES = {"getauxval", "__getauxval", "__tls_get_addr", "__stack_chk_fail"}


def must(*command, folder):
    ran = run(command, timeout=300, cwd=folder)
    if ran.code != 0:
        raise ValueError(ran.why())
    return ran.out


# ---------------------------------------------------------------- symbols
def symbols(path):
    """{member: (defined, undefined)} of an object or an archive."""
    found, member = {}, ""
    for line in subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if line.endswith(":"):
            member = line[:-1]
        elif len(words) >= 2:
            defined, undefined = found.setdefault(member, (set(), set()))
            (undefined if words[-2] in "Uw" else defined).add(words[-1])
    return found


class Runtime:
    """Which functions of other libraries those of the runtime library may reach."""

    def __init__(self, path):
        self.members = symbols(path)
        self.definer = {name: member for member, (defined, _) in self.members.items() for name in defined}

    def reached(self, names):
        seen, left, members = set(), list(names), set()
        while left:
            name = left.pop()
            member = self.definer.get(name)
            if member is None:
                seen.add(name)
            elif member not in members:
                members.add(member)
                left += self.members[member][1]
        return seen


def undefined(path):
    return set().union(*(names for _, names in symbols(path).values()))


# ---------------------------------------------------------------- networks
def big_product(folder):
    """Bytes times constant bytes, for which CPU levels with matrix tiles have code."""
    weights = numpy.arange(256 * 256, dtype=numpy.int64).reshape(256, 256).astype(numpy.int8)
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", [helper.make_tensor_value_info("x", TensorProto.UINT8, [64, 256])],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, [64, 256])], [numpy_helper.from_array(weights, "w")])
    return save(folder, "product", graph, [numpy.ones((64, 256), numpy.uint8)], [numpy.zeros((64, 256), numpy.int32)])


def save(folder, name, graph, inputs, outputs):
    case = os.path.join(folder, name)
    data = os.path.join(case, "test_data_set_0")
    os.makedirs(data)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), os.path.join(case, "model.onnx"))
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for i, array in enumerate(arrays):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(array).SerializeToString())
    return case


def digits(folder):
    model = onnx.load(os.path.join(ROOT, "samples", "digits", "digits.onnx"))
    shapes = [[d.dim_value or 1 for d in v.type.tensor_type.shape.dim] for v in (*model.graph.input, *model.graph.output)]
    arrays = [numpy.zeros(shape, numpy.float32) for shape in shapes]
    case = save(folder, "digits", model.graph, arrays[:1], arrays[1:])
    onnx.save(model, os.path.join(case, "model.onnx"))
    return case


# ---------------------------------------------------------------- tensors
class Unusual(Exception):
    """Inputs or outputs that are not plain tensors."""


def tensors(case, kind):
    found = []
    for i in range(len(glob.glob(os.path.join(case, "test_data_set_0", f"{kind}_*.pb")))):
        with open(os.path.join(case, "test_data_set_0", f"{kind}_{i}.pb"), "rb") as f:
            found.append(f.read())
    values = onnx.load(os.path.join(case, "model.onnx"), load_external_data=False).graph
    values = values.input if kind == "input" else values.output
    if len(values) != len(found) or any(v.type.WhichOneof("value") != "tensor_type" for v in values):
        raise Unusual
    arrays = []
    for data in found:
        proto = TensorProto.FromString(data)
        if proto.data_type not in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13):
            raise Unusual
        arrays.append(numpy_helper.to_array(proto))
    return arrays


def write_inputs(case, path):
    inputs, outputs = tensors(case, "input"), tensors(case, "output")
    every = inputs + outputs
    dims = [d for array in every for d in array.shape]
    numbers = [len(every), len(dims), len(outputs), *dims, *(array.size for array in outputs)]
    with open(path, "wb") as f:
        f.write(struct.pack(f"{len(numbers)}q", *numbers))
        for i, array in enumerate(every):
            data = numpy.ascontiguousarray(array).tobytes()
            f.write(struct.pack("q", len(data)) + (data if i < len(inputs) else bytes(len(data))))


# ---------------------------------------------------------------- compiled models
class Compiled:
    def __init__(self, number, case, form):
        self.case, self.form, self.name = case, form, f"m{number}"
        self.label = f"{os.path.basename(case)} ({form})"
        self.error, self.runs, self.safe, self.said = None, False, False, ""


FORMS = {"v3": ["--mcpu=x86-64-v3", "-o", "{}.o"], "levels": ["-o", "{}.o"], "c": ["-o", "{}.c"]}


def compile_model(m, folder):
    options = [o.format(m.name) for o in FORMS[m.form]]
    ran = run([ONNXC, os.path.join(m.case, "model.onnx"), "--threads", "1", *options], timeout=120, cwd=folder)
    if ran.code != 0:
        m.error = ran.why()
        return m
    if m.form == "c":
        must("cc", "-std=c99", "-O1", "-w", "-c", f"{m.name}.c", "-o", f"{m.name}.o", folder=folder)
    with open(os.path.join(folder, f"{m.name}.h"), encoding="utf-8") as f:
        said = re.search(r"(//.*)\n#define \w+_REAL_TIME ([01])", f.read())
    m.said, m.safe = said[1], said[2] == "1"
    try:
        write_inputs(m.case, os.path.join(folder, f"{m.name}.in"))
        m.runs = True
    except Unusual:
        pass
    return m


def check_symbols(models, folder):
    runtime, allowed = Runtime(RUNTIME), COPIES | FEATURES
    for m in models:
        needs = runtime.reached(undefined(os.path.join(folder, f"{m.name}.o")))
        more = needs - allowed - (MATHS if m.form == "c" else set())
        RESULTS.check(m.safe == (not more), f"symbols of {m.label}", f"{m.said}\nreached: {' '.join(sorted(more))}")


def watch(models, folder):
    """Runs the models that can be; {name: (code, code with a small workspace, calls, system call)}."""
    rows = [f'#include "{m.name}.h"' for m in models] + ["static const onnxc_model models[] = {"]
    rows += [f"    {m.name.upper()}_MODEL," for m in models] + ["};"]
    with open(os.path.join(folder, "rows.h"), "w", encoding="utf-8") as f:
        f.write("\n".join(rows) + "\n")
    must("cc", "-O1", "-w", f"-I{ROOT}/runtime-lite", "-I.", f"{HERE}/watch.c", *[f"{m.name}.o" for m in models], RUNTIME, "-lpthread", "-lm",
         "-ldl", "-o", "watch", folder=folder)
    ran = run(["./watch", *[f"{m.name}.in" for m in models]], timeout=120, cwd=folder)
    if ran.code == 77:
        RESULTS.skip("runs", "this system has no filters of system calls")
        return {}
    if not RESULTS.check(ran.code == 0, "watch", ran.why()):
        return {}
    return {m.name: tuple(map(int, line.split())) for m, line in zip(models, ran.out.splitlines())}


def check_runs(models, folder):
    seen = watch(models, folder)
    for m in models:
        if m.name not in seen:
            continue
        code, small, calls, system = seen[m.name]
        if m.safe:
            RESULTS.check(calls == 0 and not system and code == 0 and small, m.label,
                          f"{m.said}\nbut {calls} calls, system call: {system}; codes {code} and {small}")
        else:
            RESULTS.check(calls != 0 or system, m.label, f"{m.said}\nbut nothing was called")


def check_bare(cases, folder):
    """Firmware: nothing undefined but copies."""
    for case in cases:
        ran = run([ONNXC, os.path.join(case, "model.onnx"), "--target=thumbv7em-none-eabihf", "--mcpu=cortex-m4", "--real-time", "-o", "bare.o"],
                  timeout=60, cwd=folder)
        if ran.code == 0:
            more = undefined(os.path.join(folder, "bare.o")) - COPIES
            RESULTS.check(not more, f"symbols of {os.path.basename(case)} (Cortex-M4)", more)
        else:
            RESULTS.check("allocat" in ran.err or "runtime library" in ran.err, f"{os.path.basename(case)} (Cortex-M4)", ran.why())


def check_promise(safe, unsafe, folder):
    """--real-time, and the report."""
    ran = run([ONNXC, os.path.join(unsafe, "model.onnx"), "--real-time", "-o", "u.o"], cwd=folder)
    RESULTS.check(ran.code == 1 and "error: --real-time: node" in ran.err and not os.path.exists(os.path.join(folder, "u.o")),
                  "--real-time refuses", ran.why())
    ran = run([ONNXC, os.path.join(safe, "model.onnx"), "--real-time", "-o", "s.o"], cwd=folder)
    RESULTS.check(ran.code == 0 and "onnxc_rt_message" not in undefined(os.path.join(folder, "s.o")), "--real-time accepts", ran.why())
    for case, good in ((safe, True), (unsafe, False)):
        told = json.loads(must(ONNXC, "inspect", os.path.join(case, "model.onnx"), "--threads=1", "--format=json", folder=folder))["real_time"]
        RESULTS.check(told["safe"] == good == (not told["faults"]), "inspect", told)


SPECIAL = ("test_if", "test_loop11", "test_range_float_type_positive_delta", "test_scan9_sum", "test_lstm_defaults", "test_gru_defaults",
           "test_top_k", "test_nonzero_example", "test_nonmaxsuppression_center_point_box_format", "test_unique_not_sorted_without_axis",
           "test_compress_0", "test_det_2d", "test_gridsample", "test_attention_4d", "test_softmax_axis_1", "test_conv_with_strides_padding")


def main():
    nodes = os.path.dirname(CASES[0])
    special = [os.path.join(nodes, name) for name in SPECIAL]
    special = [case for case in special if os.path.isdir(case)]
    with tempfile.TemporaryDirectory() as folder:
        special = [digits(folder), big_product(folder), *special]
        wanted = [(case, form) for case in special for form in ("v3", "c")] + [(case, "levels") for case in special[:4]] + [(case, "v3") for case in CASES if case not in special]
        models = parallel(lambda x: compile_model(Compiled(x[0], *x[1]), folder), list(enumerate(wanted)))
        models = [m for m in models if m.error is None]
        RESULTS.check(len(models) > len(wanted) * 0.9, "most cases are compiled", f"{len(models)} of {len(wanted)}")
        RESULTS.check(sum(m.safe for m in models) > 0.8 * len(models), "most cases are safe", "")
        check_symbols(models, folder)
        check_runs([m for m in models if m.runs], folder)
        check_bare(special, folder)
        check_promise(special[0], os.path.join(nodes, "test_loop11"), folder)
    RESULTS.report()


main()
