"""Tree ensembles with random trees against ONNX Runtime on one thread.

usage: forests.py ONNXC [--seconds S]     prints a line of docs/performance.md for each forest and number of rows

Trees grow by splitting a random leaf, as LightGBM's do, until they have so many leaves: they are deeper than balanced ones. Times
are medians, in turns; "difference" is the largest from ONNX Runtime's answers, relative to the largest.
"""
import argparse
import os
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper
from peers import Compiled, difference, in_turns, ort_session

FEATURES = 30
FORESTS = ((500, 31), (500, 64), (100, 1000))  # trees, leaves of each


def grown(leaves, random):
    """Per node the numbers of its successors, or None for a leaf."""
    tree, ends = [None], [0]
    while len(ends) < leaves:
        at = ends.pop(random.integers(len(ends)))
        tree[at] = (len(tree), len(tree) + 1)
        ends += tree[at]
        tree += [None, None]
    return tree


def forest(trees, leaves, rows):
    random = np.random.default_rng(0)
    nodes = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    targets = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for t in range(trees):
        for i, inner in enumerate(grown(leaves, random)):
            feature, value = int(random.integers(FEATURES)), float(np.float32(random.standard_normal()))
            row = (t, i, feature, value, "BRANCH_LEQ", *inner) if inner else (t, i, 0, 0.0, "LEAF", 0, 0)
            for k, v in zip(nodes, row):
                nodes[k].append(v)
            for k, v in zip(targets, (t, i, 0, value)) if not inner else ():
                targets[k].append(v)
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1,
                            **{f"nodes_{k}": v for k, v in nodes.items()}, **{f"target_{k}": v for k, v in targets.items()})
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [rows, d]) for n, d in (("x", FEATURES), ("y", 1))]
    opsets = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    return helper.make_model(helper.make_graph([node], "forest", values[:1], values[1:]), opset_imports=opsets, ir_version=8)


def bench(onnxc, trees, leaves, rows, seconds):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "forest.onnx")
        onnx.save(forest(trees, leaves, rows), path)
        x = np.random.default_rng(1).standard_normal((rows, FEATURES)).astype(np.float32)
        session = ort_session(path, 1)
        right = session.run(None, {"x": x})[0]
        ours, y = Compiled(onnxc, path, folder, ["--threads", "1"]), np.empty_like(right)
        ours.prepare([x], [y])
        ours.run()
        times = in_turns({"onnxc": ours.run, "ort": lambda: session.run(None, {"x": x})}, seconds)
        print(f"| {trees} of {leaves} leaves | {rows} | {1e6 * times['onnxc']:.1f} us | {1e6 * times['ort']:.1f} us | "
              f"{times['onnxc'] / times['ort']:.2f} | {ours.compile_seconds:.1f} s | {difference(y, right):.1e} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc")
    parser.add_argument("--seconds", type=float, default=2)
    arguments = parser.parse_args()
    for trees, leaves in FORESTS:
        for rows in (1, 1000):
            bench(os.path.abspath(arguments.onnxc), trees, leaves, rows, arguments.seconds)


if __name__ == "__main__":
    main()
