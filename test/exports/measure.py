"""One exported folder: compiles it, compares all its answers with ONNX Runtime's, and measures both in turns.

usage: measure.py FOLDER [OPTION...]     the compiler's options. Prints one line; exit code 1 where something is wrong.
Where even ONNX Runtime's answers differ as much with and without its optimisations nothing is wrong: "UNDECIDED".
"""
import collections
import glob
import os
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "bindings", "python"))
import onnxc  # noqa: E402

SECONDS = float(os.environ.get("EXPORTS_SECONDS", "2"))


def arrays(folder, stem):
    made = []
    while os.path.exists(path := os.path.join(folder, f"{stem}_{len(made)}.pb")):
        with open(path, "rb") as f:
            made.append(numpy_helper.to_array(onnx.TensorProto.FromString(f.read())))
    return made


def difference(got, right):
    """The largest, relative to the largest element; infinite where shapes, types or integers differ."""
    if got.shape != right.shape or got.dtype != right.dtype:
        return np.inf
    if right.dtype.kind != "f":
        return 0.0 if np.array_equal(got, right) else np.inf
    if not right.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        apart = np.where(got == right, 0, np.abs(got.astype(np.float64) - right))
    worst = float(np.max(apart) / max(1e-30, np.max(np.abs(right))))
    return worst if worst == worst else np.inf


def in_order_of(got, right):
    """The outputs' rows, which belong together, in the order of the nearest ones of what is right."""
    if any(a.shape != b.shape for a, b in zip(got, right)) or not len(right[0]):
        return got
    apart = sum(np.abs((a[:, None].astype(np.float64) - b[None]) / max(1e-30, np.max(np.abs(b))))
                .reshape(len(a), len(b), -1).sum(-1) for a, b in zip(got, right))
    order = []
    for j in range(len(right[0])):
        order.append(int(np.argmin(apart[:, j])))
        apart[order[-1]] = np.inf
    return [a[order] for a in got]


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from nodes_of(inner)


def distance(folder, data, made):
    """Between the outputs of a run and the right ones of a data set."""
    right = arrays(data, "output")
    if os.path.exists(os.path.join(folder, "unordered")):
        made = in_order_of(made, right)
    return max(difference(a, b) for a, b in zip(made, right))


def in_turns(ours, theirs):
    """Medians of both in this thread's processor time, after a warm-up: other programs' work counts less than in wall time."""
    times, end = ([], []), time.perf_counter() + SECONDS
    while len(times[0]) < 8 or time.perf_counter() < end:
        for run, kept in zip((ours, theirs), times):
            start = time.thread_time()
            run()
            kept.append(time.thread_time() - start)
    return [float(np.median(kept[3:])) for kept in times]


def main():
    folder, options = sys.argv[1], sys.argv[2:]
    path = os.path.join(folder, "model.onnx")
    model = onnx.load(path)
    nodes = [n for part in (model.graph, *model.functions) for n in nodes_of(part)]
    kinds = collections.Counter(n.op_type for n in nodes)
    with open(os.path.join(folder, "tolerance")) as f:
        rtol = float(f.read().split()[0])
    label = f"{os.path.basename(folder):30s} {len(nodes):5d} nodes {len(kinds):3d} operators"
    start = time.perf_counter()
    try:
        session = onnxc.InferenceSession(path, ["--threads=1", *options])
    except onnxc.Error as error:
        print(label, "FAILED", type(error).__name__, str(error).strip())
        sys.exit(1)
    seconds, worst, timed = time.perf_counter() - start, 0.0, None
    names = [i.name for i in session.get_inputs()]
    sets = sorted(glob.glob(os.path.join(folder, "test_data_set_*")))
    for data in sets:
        feed = dict(zip(names, arrays(data, "input")))
        timed = timed or feed
        try:
            made = session.run(None, feed)
        except onnxc.Error as error:
            print(label, "FAILED", os.path.basename(data), type(error).__name__, str(error).strip())
            sys.exit(1)
        worst = max(worst, distance(folder, data, made))
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads, settings.log_severity_level = 1, 1, 4
    peer = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    verdict = ""
    if worst > rtol:
        again = max(distance(folder, data, peer.run(None, dict(zip(names, arrays(data, "input"))))) for data in sets)
        verdict = "  WRONG" if again <= rtol or worst > 10 * again else "  UNDECIDED: ONNX Runtime with optimisations differs too"
    ours, theirs = in_turns(lambda: session.run(None, timed), lambda: peer.run(None, timed))
    print(f"{label}  compile {seconds:5.1f} s  onnxc {1e3 * ours:8.2f} ms  ort {1e3 * theirs:8.2f} ms  "
          f"ratio {ours / theirs:5.2f}  difference {worst:.1e}{verdict}")
    sys.exit(verdict == "  WRONG")


if __name__ == "__main__":
    main()
