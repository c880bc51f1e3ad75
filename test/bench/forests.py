"""Tree ensembles against ONNX Runtime on one thread, and against lleaves and tl2cgen where these are installed.

usage: forests.py ONNXC [--seconds S] [FOREST]...     prints a line of docs/measurements.md for each forest and number of rows

Random trees grow by splitting a random leaf, as LightGBM's do, until they have so many leaves: they are deeper than balanced
ones. The trained forests (LightGBM, XGBoost, scikit-learn) are measured where these packages, onnxmltools and skl2onnx are installed;
lleaves 1.3 needs llvmlite before 0.45.
A single row is another one in each call, so that no branch predictor learns the way through the trees. Times are the first quartile of the
thread's CPU time, in turns; the columns after onnxc's are ratios of onnxc's time to the others'. "Difference" is the largest
from ONNX Runtime's answers, relative to the largest.
"""
import argparse
import ctypes
import importlib.util
import os
import subprocess
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper
from peers import Compiled, difference, ort_session

FEATURES = 30
DIFFERENT = 64  # rows, for calls with one
TL2CGEN_NODES, LLEAVES_NODES = 40000, 150000  # their compilers take minutes for more
RANDOM = {"500 of 31 leaves": (500, 31), "500 of 64 leaves": (500, 64), "100 of 1000 leaves": (100, 1000)}


def installed(*names):
    return all(importlib.util.find_spec(n) for n in names)


# ---------------------------------------------------------------- random trees
def grown(leaves, random):
    """Per node the numbers of its successors, or None for a leaf."""
    tree, ends = [None], [0]
    while len(ends) < leaves:
        at = ends.pop(random.integers(len(ends)))
        tree[at] = (len(tree), len(tree) + 1)
        ends += tree[at]
        tree += [None, None]
    return tree


def random_forest(trees, leaves):
    """Per tree a list of nodes: successors or None, feature, threshold or weight."""
    random = np.random.default_rng(0)
    return [[(inner, int(random.integers(FEATURES)), float(np.float32(random.standard_normal()))) for inner in grown(leaves, random)]
            for _ in range(trees)]


def random_model(forest, rows):
    nodes = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    targets = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for t, tree in enumerate(forest):
        for i, (inner, feature, value) in enumerate(tree):
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


def lightgbm_text(forest):
    """The forest in LightGBM's format, which lleaves and treelite read."""
    parts = []
    for t, tree in enumerate(forest):
        inner = [i for i, n in enumerate(tree) if n[0]]
        number = {i: j for j, i in enumerate(inner)}
        number.update({i: -1 - j for j, i in enumerate(i for i, n in enumerate(tree) if not n[0])})
        lists = {"split_feature": [tree[i][1] for i in inner], "split_gain": [1] * len(inner),
                 "threshold": [repr(tree[i][2]) for i in inner], "decision_type": [2] * len(inner),
                 "left_child": [number[tree[i][0][0]] for i in inner], "right_child": [number[tree[i][0][1]] for i in inner],
                 "leaf_value": [repr(n[2]) for n in tree if not n[0]]}
        for name in ("leaf_weight", "leaf_count"):
            lists[name] = [1] * (len(inner) + 1)
        for name in ("internal_value", "internal_weight", "internal_count"):
            lists[name] = [1] * len(inner)
        text = "\n".join(f"{k}={' '.join(map(str, v))}" for k, v in lists.items())
        parts.append(f"Tree={t}\nnum_leaves={len(inner) + 1}\nnum_cat=0\n{text}\nis_linear=0\nshrinkage=1\n\n\n")
    names = " ".join(f"Column_{i}" for i in range(FEATURES))
    ranges = " ".join(["[-10:10]"] * FEATURES)
    return (f"tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx={FEATURES - 1}\n"
            f"objective=regression\nfeature_names={names}\nfeature_infos={ranges}\n"
            f"tree_sizes={' '.join(str(len(p)) for p in parts)}\n\n{''.join(parts)}end of trees\n\nend of parameters\n\npandas_categorical:null\n")


# ---------------------------------------------------------------- trained forests
def training_set(rows):
    random = np.random.default_rng(2)
    x = random.standard_normal((rows, FEATURES)).astype(np.float32)
    y = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + np.abs(x[:, 3:8]).sum(1) + 0.3 * random.standard_normal(rows)
    return x, y.astype(np.float32)


def columns(data_types):
    return [("x", data_types.FloatTensorType([None, FEATURES]))]


def train_lightgbm():
    import lightgbm
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common import data_types
    model = lightgbm.LGBMRegressor(n_estimators=500, num_leaves=31, n_jobs=1, verbose=-1).fit(*training_set(20000))
    return convert_lightgbm(model, initial_types=columns(data_types)), model.booster_.model_to_string(), None


def train_xgboost():
    import treelite
    import xgboost
    from onnxmltools import convert_xgboost
    from onnxmltools.convert.common import data_types
    model = xgboost.XGBRegressor(n_estimators=500, max_depth=7, n_jobs=1).fit(*training_set(20000))
    return convert_xgboost(model, initial_types=columns(data_types)), None, treelite.frontend.from_xgboost(model.get_booster())


def train_sklearn():
    from skl2onnx import convert_sklearn
    from skl2onnx.common import data_types
    from sklearn.ensemble import RandomForestRegressor
    model = RandomForestRegressor(500, max_features=6, n_jobs=1, random_state=0).fit(*training_set(4000))
    return convert_sklearn(model, initial_types=columns(data_types)), None, None


TRAINED = {"LightGBM, 500 of 31 leaves": (train_lightgbm, ("lightgbm", "onnxmltools")),
           "XGBoost, 500 of depth 7": (train_xgboost, ("xgboost", "onnxmltools", "treelite")),
           "random forest, 500 unlimited": (train_sklearn, ("sklearn", "skl2onnx"))}


def with_rows(model, rows):
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value in (made.graph.input[0], *made.graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims):
            dims[0].dim_value = rows
    return made


def node_count(model):
    return sum(len(a.ints) for n in model.graph.node for a in n.attribute if a.name == "nodes_nodeids")


# ---------------------------------------------------------------- engines
def onnxc_runs(onnxc, path, folder, batches):
    """A function per batch; their answers; the seconds that the compiler took."""
    ours, calls, answers = Compiled(onnxc, path, folder, ["--threads", "1", "--mcpu=native"]), [], []
    for x in batches:
        y = np.empty((len(x), 1), np.float32)
        ours.prepare([x], [y])
        state = dict(vars(ours))

        def run(state=state):
            vars(ours).update(state)
            ours.run()
        run()
        calls.append(run)
        answers.append(y)
    return calls, answers, ours.compile_seconds


def written(text, folder):
    path = os.path.join(folder, "model.txt")
    with open(path, "w") as f:
        f.write(text)
    return path


def lleaves_runs(text, folder, batches):
    import lleaves
    cache, library = (os.path.join(folder, n) for n in ("lleaves.o", "lleaves.so"))
    model = lleaves.Model(model_file=written(text, folder))
    model.compile(cache=cache)
    subprocess.run(["cc", "-shared", "-o", library, cache, "-lm"], check=True)
    forest = ctypes.CDLL(library).forest_root
    calls = []
    for x in batches:
        data, y = x.astype(np.float64), np.empty((len(x), 1))
        arguments = (ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_int(0), ctypes.c_int(len(x)))

        def run(arguments=arguments, keep=(data, y)):
            forest(*arguments)
        calls.append(run)
    return calls


def tl2cgen_runs(model, folder, batches):
    import tl2cgen
    library = os.path.join(folder, "tl2cgen.so")
    tl2cgen.export_lib(model, toolchain="gcc", libpath=library, params={"parallel_comp": 8})
    predictor = tl2cgen.Predictor(library, nthread=1)
    return [lambda d=tl2cgen.DMatrix(x): predictor.predict(d) for x in batches]


def in_turns(engines, seconds):
    """First quartiles of the CPU time of a call; each engine runs through its batches once in a turn, after a call that does not count."""
    times, end = {name: [] for name in engines}, time.perf_counter() + seconds
    while len(times["onnxc"]) < 8 or time.perf_counter() < end:
        for name, calls in engines.items():
            calls[-1]()
            start = time.thread_time()
            for call in calls:
                call()
            times[name].append((time.thread_time() - start) / len(calls))
    return {name: float(np.quantile(t, 0.25)) for name, t in times.items()}


def bench(onnxc, name, rows, model, text, tree_model, seconds):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "forest.onnx")
        onnx.save(model, path)
        random = np.random.default_rng(1)
        batches = [random.standard_normal((rows, FEATURES)).astype(np.float32) for _ in range(DIFFERENT if rows == 1 else 1)]
        session = ort_session(path, 1)
        source = session.get_inputs()[0].name
        right = [session.run(None, {source: x})[0] for x in batches]
        ours, answers, compile_seconds = onnxc_runs(onnxc, path, folder, batches)
        engines = {"onnxc": ours, "ort": [lambda x=x: session.run(None, {source: x}) for x in batches]}
        if text and installed("lleaves") and node_count(model) < LLEAVES_NODES:
            engines["lleaves"] = lleaves_runs(text, folder, batches)
        if text and not tree_model and installed("treelite"):
            import treelite
            tree_model = treelite.frontend.load_lightgbm_model(written(text, folder))
        if tree_model and installed("tl2cgen") and node_count(model) < TL2CGEN_NODES:
            engines["tl2cgen"] = tl2cgen_runs(tree_model, folder, batches)
        times = in_turns(engines, seconds)
        ratios = " | ".join(f"{times['onnxc'] / times[n]:.2f}" if n in times else "" for n in ("ort", "lleaves", "tl2cgen"))
        worst = max(difference(a, b) for a, b in zip(answers, right))
        print(f"| {name} | {rows} | {1e6 * times['onnxc']:.1f} us | {1e6 * times['ort']:.1f} us | {ratios} | {compile_seconds:.1f} s | "
              f"{worst:.1e} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc")
    parser.add_argument("forests", nargs="*", help="parts of names; default: all")
    parser.add_argument("--seconds", type=float, default=2)
    arguments = parser.parse_args()
    onnxc = os.path.abspath(arguments.onnxc)

    def asked(name):
        return not arguments.forests or any(f in name for f in arguments.forests)
    for name, (trees, leaves) in RANDOM.items():
        forest = random_forest(trees, leaves) if asked(name) else None
        for rows in (1, 1000) if forest else ():
            bench(onnxc, name, rows, random_model(forest, rows), lightgbm_text(forest), None, arguments.seconds)
    for name, (train, packages) in TRAINED.items():
        if not asked(name) or not installed(*packages):
            continue
        model, text, tree_model = train()
        for rows in (1, 1000):
            bench(onnxc, name, rows, with_rows(model, rows), text, tree_model, arguments.seconds)


if __name__ == "__main__":
    main()
