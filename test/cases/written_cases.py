"""Models that onnxc writes. usage: written_cases.py ONNXC FOLDER...

Each FOLDER is a case of ONNX's layout. Its model is written in several ways; onnx.checker must accept the file,
and ONNX Runtime must compute the outputs of the case from it where it does so from the case's own model. Forms in
text must be read by onnx as the same model, and by onnxc as the model of the same object.
"""
import glob
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnxruntime
from google.protobuf import json_format, text_format

WAYS = {
    "optimised": [],
    "as read": ["--stop-after=import"],
    "opset 13": ["--opset=13"],
    "opset 17": ["--opset=17"],
    "opset 21": ["--opset=21"],
    "opset 25": ["--opset=25", "--stop-after=import"],
}
MISSING = ("NOT_IMPLEMENTED", "NotImplemented", "Could not find an implementation", "is not a registered function",
           "is under development", "No Op registered for")


def parse_text(text):
    return onnx.parser.parse_model(text)


FORMS = {
    "textproto": (".textproto", lambda text: text_format.Parse(text, onnx.ModelProto())),
    "onnx-json": (".json", lambda text: json_format.Parse(text, onnx.ModelProto())),
    "onnxtxt": (".onnxtxt", parse_text),
}


def read_value(path, kind):
    with open(path, "rb") as f:
        data = f.read()
    if kind == "sequence_type":
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(data))


def read_set(folder, model):
    """Inputs and expected outputs of a test data set."""
    both = []
    for stem, infos in ("input", model.graph.input), ("output", model.graph.output):
        paths = [os.path.join(folder, f"{stem}_{i}.pb") for i in range(len(infos))]
        both.append({info.name: read_value(path, info.type.WhichOneof("value"))
                     for path, info in zip(paths, infos) if os.path.exists(path)})
    return both


def close(got, want):
    if isinstance(want, list):
        return len(got) == len(want) and all(close(g, w) for g, w in zip(got, want))
    if want is None or isinstance(got, (list, dict)):
        return True
    want = np.asarray(want)
    got = np.asarray(got)
    if got.shape != want.shape:
        return False
    if want.dtype.kind in "USO":
        return [str(x) for x in got.flatten()] == [x.decode() if isinstance(x, bytes) else str(x) for x in want.flatten()]
    if got.dtype != want.dtype or want.dtype.itemsize * 8 < 8 or want.dtype.kind == "V":
        return True
    return np.allclose(got.astype(np.complex128), want.astype(np.complex128), rtol=2e-2 if want.dtype == np.float16 else 1e-3,
                       atol=1e-2 if want.dtype == np.float16 else 1e-5, equal_nan=True)


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_session(path, sets):
    """Why ONNX Runtime does not compute the outputs of the case from this file; "": it does."""
    try:
        s = session(path)
        names = [o.name for o in s.get_outputs()]
        for inputs, want in sets:
            known = {i.name for i in s.get_inputs()}
            got = dict(zip(names, s.run(None, {k: v for k, v in inputs.items() if k in known})))
            for name in want:
                if name in got and not close(got[name], want[name]):
                    return f"output '{name}' differs"
    except Exception as e:  # of many kinds
        return str(e)
    return ""


def write(onnxc, model, path, options):
    ran = subprocess.run([onnxc, model, "-o", path, *options], capture_output=True, text=True, timeout=300)
    return ran.returncode, ran.stderr


def refused(model, **options):
    """Why the checker refuses a model; "": it does not."""
    try:
        onnx.checker.check_model(model, **options)
    except Exception as e:  # of several kinds
        return "the checker refuses it: " + str(e)
    return ""


def check_written(path, sets, own, own_refused):
    why = "" if own_refused else refused(path, full_check=True)
    if why or own:
        return why
    why = run_session(path, sets)
    return "" if any(w in why for w in MISSING) else why


def object_of(onnxc, path, folder):
    made = os.path.join(folder, "m.o")
    ran = subprocess.run([onnxc, path, "-o", made, "--name", "model", "-O0", "--mcpu", "x86-64-v3"], capture_output=True,
                         text=True, timeout=300)
    if ran.returncode:
        return ran.returncode, ran.stderr.split("error:")[-1]
    with open(made, "rb") as f:
        return 0, f.read()


def check_form(onnxc, model, folder, form, binary, wanted):
    """What is wrong with the model in that form of text, whose object must be the wanted one; "": nothing."""
    ending, parse = FORMS[form]
    path = os.path.join(folder, "text" + ending)
    code, said = write(onnxc, model, path, ["--emit", form, "--stop-after=import"])
    if code:
        return said
    with open(path, encoding="utf-8") as f:
        text = f.read()
    try:
        read = parse(text)
    except Exception as e:
        return f"onnx cannot read the {form}: {e}"
    if form != "onnxtxt" and read.SerializeToString(deterministic=True) != binary.SerializeToString(deterministic=True):
        return f"the {form} is another model"
    why = "" if refused(binary) else refused(read)
    if why:
        return why
    if object_of(onnxc, path, folder) != wanted:
        return f"the {form} gives another object"
    return ""


def check_case(onnxc, case):
    """(what, problem) for each way and form; a problem of None: refused, as it may be."""
    path = os.path.join(case, "model.onnx")
    model = onnx.load(path, load_external_data=False)
    results = []
    folders = sorted(glob.glob(os.path.join(case, "test_data_set_*")))[:1]
    try:
        sets = [read_set(f, model) for f in folders]
    except Exception:  # values that this reader does not know
        sets = []
    own, own_refused = run_session(path, sets), refused(path, full_check=True)
    with tempfile.TemporaryDirectory() as folder:
        for way, options in WAYS.items():
            written = os.path.join(folder, way + ".onnx")
            code, said = write(onnxc, path, written, options)
            if code == 2 or (code and way.startswith("opset") and "cannot be written in opset" in said):
                results.append((way, None))
            else:
                results.append((way, said if code else check_written(written, sets, own, own_refused)))
        read = os.path.join(folder, "as read.onnx")
        if os.path.exists(read):
            binary, wanted = onnx.load(read), object_of(onnxc, read, folder)
            results += [(form, check_form(onnxc, path, folder, form, binary, wanted)) for form in FORMS]
    return case, results


def main():
    onnxc, passed, failed, skipped = os.path.abspath(sys.argv[1]), 0, 0, 0
    by = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, results in pool.map(lambda c: check_case(onnxc, c), sys.argv[2:]):
            for what, why in results:
                passed, failed, skipped = passed + (why == ""), failed + bool(why), skipped + (why is None)
                count = by.setdefault(what, [0, 0, 0])
                count[0 if why == "" else 2 if why is None else 1] += 1
                if why:
                    print(f"FAIL {case}: {what}: {' '.join(why.split())[:300]}", flush=True)
    for what, (good, bad, refused) in by.items():
        print(f"{what}: {good} passed, {bad} failed, {refused} refused")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    main()
