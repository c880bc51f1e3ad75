"""Single operators and small chains in several sizes and types, against ONNX Runtime on one thread.

usage: operators.py ONNXC [--old ONNXC] [--mcpu CPU] [--seconds S] [--structures] [NAME...]     prints a line of docs/measurements.md for each

--structures: small networks instead, with each operator before and after convolutions (structure_cases.py).

Times are this thread's processor time: the best of calls in turns, less that of a call that adds two numbers. With --old,
another compiler's code is measured beside them; --mcpu is for both. "Difference" is the largest from ONNX Runtime's answer, relative to its
largest element.
"""
import argparse
import ctypes
import os
import re
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser
from operator_cases import CASES
from peers import Compiled, difference, ort_session
from structure_cases import STRUCTURES

TYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "bool": bool, "string": object,
         **{t: np.dtype(t) for t in ("uint8", "int8", "int32", "int64", "uint32")}}
SIZES = {"A": 64, "B": 64, "D": 64, "E": 64, "F": 64, "G": 256, "I": 256, "J": 256, "H": 14, "W": 14, "K": 13, "L": 1, "M": 3, "N": 5, "P": 56, "Q": 512, "R": 1009, "T": 400}  # of open dims
TEXT = np.dtype([("data", np.uint64), ("size", np.uint64)])  # onnxc_string
LIBRARY_C = ctypes.CDLL(None)
LIBRARY_C.free.argtypes = [ctypes.c_void_p]


def random_strings(name, shape, random):
    words = [[f"Word{i:03d}" for i in row] for row in random.integers(0, 1000, (int(np.prod(shape)), 8))]
    made = [" ".join(w) if "text" in name else f"{random.standard_normal():.5f}" if "number" in name else w[0].lower() for w in words]
    return np.array(made, dtype=object).reshape(shape)


def random_values(kind, name, shape, random):
    if kind == "string":
        return random_strings(name, shape, random)
    normal = random.standard_normal(shape)
    return (1 + np.abs(64 * normal) if "int" in kind else normal > 0 if kind == "bool" else normal).astype(TYPES[kind])


def model_and_inputs(case):
    inputs, results, nodes = case
    results = results if " " in results else results + " y"
    opsets = '"": 21, "ai.onnx.ml": 4, "com.microsoft": 1'
    random, feed, constants = np.random.default_rng(1), {}, []
    for kind, dims, name in re.findall(r"(\w+)\[([\w,]+)\] (\w+)", inputs):
        value = random_values(kind, name, [SIZES.get(d) or int(d) for d in dims.split(",")], random)
        if name.isupper():
            constants.append(numpy_helper.from_array(value, name))
        else:
            feed[name] = value
    variable = ", ".join(i for i in re.findall(r"\w+\[[\w,]+\] \w+", inputs) if not i.split()[1].isupper())
    model = parser.parse_model(f"<ir_version: 10, opset_import: [{opsets}]> g ({variable}) => ({results}) {{ {nodes} }}")
    model.graph.initializer.extend(constants)
    for r in model.graph.output:  # without a shape, the parser's type is that of a scalar
        r.CopyFrom(helper.make_tensor_value_info(r.name, r.type.tensor_type.elem_type, None))
    return model, feed


class Strings:
    """An array of strings as onnxc has them; kept: their bytes."""

    def __init__(self, values):
        self.kept = [str(v).encode() for v in values.reshape(-1)]
        self.array = np.zeros(values.shape, TEXT)
        flat = self.array.reshape(-1)
        for i, s in enumerate(self.kept):
            flat[i] = (ctypes.cast(ctypes.c_char_p(s), ctypes.c_void_p).value, len(s))

    @staticmethod
    def values(array):
        flat = [ctypes.string_at(int(s["data"]), int(s["size"])).decode() if s["size"] else "" for s in array.reshape(-1)]
        return np.array(flat, dtype=object).reshape(array.shape)


def string_value(array, folder):
    """ONNX Runtime makes no value of strings from an array: one from a model."""
    flat = [str(v).encode() for v in array.reshape(-1)]
    constant = helper.make_tensor("c", TensorProto.STRING, array.shape, flat)
    graph = helper.make_graph([helper.make_node("Identity", ["c"], ["y"])], "strings", [],
                              [helper.make_tensor_value_info("y", TensorProto.STRING, array.shape)], [constant])
    path = os.path.join(folder, f"model{len(os.listdir(folder))}.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    session = ort_session(path, 1)
    binding = session.io_binding()
    binding.bind_output("y", "cpu")
    session.run_with_iobinding(binding)
    return binding.get_outputs()[0]


def ort_call(session, feed, results, folder):
    binding = session.io_binding()
    for name, a in feed.items():
        if a.dtype == object:
            binding.bind_ortvalue_input(name, string_value(a, folder))
        else:
            binding.bind_input(name, "cpu", 0, a.dtype, a.shape, a.ctypes.data)
    for output, y in zip(session.get_outputs(), results):
        if y.dtype == object:
            binding.bind_output(output.name, "cpu")
        else:
            binding.bind_output(output.name, "cpu", 0, y.dtype, y.shape, y.ctypes.data)
    return lambda kept=(feed, results): session.run_with_iobinding(binding)  # the binding has addresses only


def unequal(ours, wanted):
    return float(np.mean(ours != wanted)) if ours.dtype == object else difference(ours, wanted)


def our_call(ours, feed, wanted):
    """The call, and a function that gives its results."""
    inputs = [Strings(a) if a.dtype == object else a for a in feed.values()]
    results = [np.zeros(w.shape, TEXT) if w.dtype == object else np.empty_like(w) for w in wanted]
    texts = [r for r in results if r.dtype == TEXT and r.size]
    ours.prepare([i.array if isinstance(i, Strings) else i for i in inputs], results)

    ours.strings = inputs

    def run():
        for t in texts:
            LIBRARY_C.free(int(t.flat[0]["data"]) or None)
        ours.run()
    return run if texts else ours.run, lambda: [Strings.values(r) if r.dtype == TEXT else r for r in results]


def calls(compilers, case, folder, options=()):
    """The engines' calls, and the largest difference of our answers."""
    model, feed = model_and_inputs(case)
    path = os.path.join(folder, f"model{len(os.listdir(folder))}.onnx")
    onnx.save(model, path)
    session, engines, worst = ort_session(path, 1), {}, 0
    wanted = session.run(None, feed)
    for name, onnxc in compilers.items():
        run, answers = our_call(Compiled(onnxc, path, folder, ["--threads", "1", *options]), feed, wanted)
        run()
        engines[name], worst = run, max([worst, *map(unequal, answers(), wanted)])
    engines["ort"] = ort_call(session, feed, wanted, folder)
    return engines, worst


def processor_time(run, times):
    start = time.thread_time()
    for _ in range(times):
        run()
    return (time.thread_time() - start) / times


def best_times(engines, seconds):
    times = {name: max(1, int(3e-4 / processor_time(run, 3))) for name, run in engines.items()}
    best, end, turns = dict.fromkeys(engines, 1e9), time.perf_counter() + seconds, 0
    while turns < 5 or time.perf_counter() < end:
        for name, run in engines.items():
            run()
            best[name] = min(best[name], processor_time(run, times[name]))
        turns += 1
    return best


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("onnxc")
    p.add_argument("names", nargs="*")
    p.add_argument("--old")
    p.add_argument("--mcpu")
    p.add_argument("--seconds", type=float, default=0.5)
    p.add_argument("--structures", action="store_true")
    a = p.parse_intermixed_args()
    compilers = {"onnxc": os.path.abspath(a.onnxc), **({"old": os.path.abspath(a.old)} if a.old else {})}
    options = ["--mcpu", a.mcpu] if a.mcpu else []
    with tempfile.TemporaryDirectory() as folder:
        nothing = best_times(calls(compilers, CASES["nothing"], folder)[0], a.seconds)
        cases = STRUCTURES if a.structures else CASES
        for name in a.names or [n for n in cases if n != "nothing"]:
            engines, worst = calls(compilers, cases[name], folder, options)
            t = {e: best - nothing[e] for e, best in best_times(engines, a.seconds).items()}
            before = f" {t['old'] / t['ort']:.2f} |" if a.old else ""
            print(f"| {name} | {1e6 * t['onnxc']:.1f} us | {1e6 * t['ort']:.1f} us | {t['onnxc'] / t['ort']:.2f} |{before} {worst:.1e} |", flush=True)


if __name__ == "__main__":
    main()
