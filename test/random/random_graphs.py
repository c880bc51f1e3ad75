"""Random models against their known answers, in many forms: finds wrong answers that no single-node case shows.

usage: random_graphs.py [--networks | --edges | --bits] [--count N] [--seed S] [--only I,J...] [--forms F,G...] [--all] [--reduce] [--room NAME] [-v]

A form is a name in FORMS, a target of random_targets.py, or several joined by "+": aarch64+strict.

Seed and number make the graph: the same ones give the same graph with the same packages installed. What fails is kept as a
case folder in build/random-failed and, with --reduce, cut down to the few nodes that fail. Ends with "N passed, N failed, N
skipped".
"""
import argparse
import collections
import os
import pickle
import re
import shutil
import sys
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("", "cases")]
import harness  # noqa: E402
from case_files import write_case  # noqa: E402
from random_build import IN_FLOAT, INTS, ML, TOLERANCE, Graph, elem_type, is_float, new_dice  # noqa: E402
from random_edges import random_bits, random_edges  # noqa: E402
from random_functions import outline  # noqa: E402
from random_networks import random_network  # noqa: E402
from random_nodes import add_nodes, chance  # noqa: E402
import random_layers  # noqa: F401 (its kinds)
import random_operators  # noqa: F401
from random_patterns import every_node  # noqa: E402
from random_targets import TARGETS, target_options  # noqa: E402

FORMS = {
    "interpret": ["--interpret"],
    "program": ["--interpret=program"],
    "llvm": [],
    "c99": ["--emit", "c"],
    "symbolic": ["--form", "symbolic"],
    "constant": ["--form", "constant"],
    "O0": ["-O0"],
    "O1": ["-O1"],
    "Os": ["-Os"],
    "O3": ["-O3"],
    "soft-float": ["--target", "thumbv7m-none-eabi", "-mcpu=cortex-m3", "--interpret=program"],
    "strict": ["--fp", "strict"],
    "gpu": ["--interpret=gpu"],
    "kept": ["--form", "kept"],
    "v1": ["--mcpu", "x86-64"],
    "v2": ["--mcpu", "x86-64-v2"],
    "v3": ["--mcpu", "x86-64-v3"],
    "threads1": ["--threads", "1"],
    "threads3": ["--threads", "3"],
    "range": ["--dim", "N=1:4"],
    "versions": ["--dim", "S=7,2:6"],
    "strict-c99": ["--fp", "strict", "--emit", "c"],
    "interpret-symbolic": ["--interpret", "--form", "symbolic"],
}
DEFAULT_FORMS = "interpret,llvm,symbolic"


PLAIN = (*TOLERANCE, *INTS, "bool")


# ---------------------------------------------------------------- making models
def random_graph(seed, index, why=None):
    dice = new_dice(seed, index)
    opset = dice.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 18, 19, 20, 21, 21, 22, 23, 23, 24, 25, 26, 28))
    floats = dice.choice([("float32",)] * 14 + [("float32", "float64")] * 2 + [("float64",)] + [("float32", "float16")] * 2
                         + [("float16",)] + ([("float32", "bfloat16"), ("bfloat16",)] if opset >= 13 else []))
    sizes = [{}] if dice.random() < 0.6 else [{"N": 3, "S": 5}, {"N": 1, "S": 7}, {"N": 4, "S": 2}]
    g = Graph(dice, opset, floats, sizes)
    for _ in range(dice.randint(1, 3)):
        start_input(g)
    add_nodes(g, dice.choice((3, 6, 10, 16, 25, 40, 60)), why)
    return g


def start_input(g):
    rank = g.dice.choice((1, 2, 2, 3, 3, 4, 4))
    spec = [g.dice.choice((*g.sizes[0], 1, 2, 3, 4, 5, 8, 11) if i < 2 else (1, 2, 3, 4, 5, 7, 8, 16)) for i in range(rank)]
    shapes = [tuple(k.get(d, d) for d in spec) for k in g.sizes]
    dtype = g.dice.choice(g.floats)
    g.input([g.data(dtype, s) for s in shapes])


def leaves(g):
    """What nobody uses, and now and then something else, even an input."""
    used = {n for node in g.nodes for n in node.input}
    used |= {n for node in g.nodes for a in node.attribute for inner in every_graph(a) for m in inner.node for n in m.input}
    inputs = {v.name for v in g.inputs}
    values = [v for v in g.values if not g.plain or v.dtype in PLAIN]
    found = [v for v in values if v.name not in used and v.name not in inputs]
    rest = [v for v in values if v not in found]
    if len(found) > 6 and chance(g, 0.7):
        found = g.dice.sample(found, 6)
    return found + (g.dice.sample(rest, min(len(rest), g.dice.randint(1, 2))) if chance(g, 0.25) or not found else [])


def every_graph(attribute):
    if attribute.HasField("g"):
        yield attribute.g
        for node in attribute.g.node:
            for a in node.attribute:
                yield from every_graph(a)


def make_model(g, graph, whole=False):
    opsets = [helper.make_opsetid("", g.opset)]
    version = 8 if g.opset < 7 else max(helper.find_min_ir_version_for(opsets), 8)
    if any(node.domain for node in every_node(graph.node)):
        opsets.append(helper.make_opsetid(ML, g.ml))
    functions = outline(graph, opsets, g.dice) if whole and g.dice.random() < 0.25 else []
    model = helper.make_model(graph, opset_imports=opsets, ir_version=version, producer_name="onnxc tests", functions=functions)
    onnx.checker.check_model(model)
    return model


def tolerance(g):
    if g.most:  # ONNX Runtime's answers in float
        return TOLERANCE["float16" if "float16" in g.floats else "float32"]
    names = [t for t in TOLERANCE if t in g.floats]
    return TOLERANCE[names[-1]] if names != ["float64"] or all_double(g) else TOLERANCE["float32"]


def all_double(g):
    """Nothing in it is computed in float."""
    if any(n.op_type in IN_FLOAT for n in every_node(g.nodes)):
        return False
    return all(not is_float(v.dtype) or v.dtype == "float64" for v in g.values)


def write_graph(g, folder, model, inputs, outputs):
    sets = [([v.of[k] for v in inputs], [v.of[k] for v in outputs]) for k in range(len(g.sizes))]
    write_case(folder, model, sets, *tolerance(g))


def answer_strictly(folder, inputs, outputs):
    """Replaces the answers of a case by those of code for x86-64-v1, exact ones."""
    data = os.path.join(folder, "test_data_set_0")
    options = [f"--input={v.name}={data}/input_{j}.pb" for j, v in enumerate(inputs)]
    options += [f"--output={v.name}={data}/output_{j}.pb" for j, v in enumerate(outputs)]
    ran = harness.run([harness.ONNXC, "run", os.path.join(folder, "model.onnx"), "--mcpu=x86-64", "--fp=strict", *options], timeout=120)
    if ran.code:
        print(f"v1+strict: FAIL {os.path.basename(folder)}: {ran.why()[:250]}", flush=True)
    with open(os.path.join(folder, "tolerance"), "w", encoding="utf-8") as f:
        f.write("0 0\n")


def make_case(job):
    """Writes one case; returns the operators in it, and why nodes did not fit."""
    make, seed, index, folder = job
    warnings.simplefilter("ignore")
    ort.set_default_logger_severity(4)
    why = collections.Counter()
    with np.errstate(all="ignore"):
        g = make(seed, index, why)
    outputs = leaves(g)
    prune(g, outputs)
    write_graph(g, folder, make_model(g, g.proto("random", outputs), True), g.inputs, outputs)
    if make is random_bits:
        answer_strictly(folder, g.inputs, outputs)
    return collections.Counter(n.op_type for n in g.nodes), why


def make_apart(job):
    """make_case in a process of its own: ONNX Runtime ends it where it meets what it did not expect."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(write, "wb") as out:
                pickle.dump(make_case(job), out)
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as made:
        answer = made.read()
    os.waitpid(child, 0)
    if answer:
        return pickle.loads(answer)
    shutil.rmtree(job[-1], ignore_errors=True)
    return collections.Counter(), collections.Counter(["an evaluator ended the process"])


def prune(g, outputs):
    """Takes away unused constants, and nodes that only a failed attempt left."""
    names = {n for node in g.nodes for n in node.input} | {v.name for v in outputs}
    names |= {n for node in g.nodes for a in node.attribute for inner in every_graph(a) for m in inner.node for n in m.input}
    g.initializers = {k: v for k, v in g.initializers.items() if k in names}


# ---------------------------------------------------------------- running and reducing
def form_options(form):
    return [o for name in form.split("+") for o in (target_options(name) if name in TARGETS else FORMS[name])]


def run_form(form, folder, jobs=harness.JOBS):
    """{name of the case: (verdict, message)} of those that did not pass, and how many did."""
    foreign = any(name in TARGETS for name in form.split("+"))
    seconds = 300 if foreign or "constant" in form else 60  # that form compiles once for each input; emulators are slow
    command = [harness.ONNXC, "test", *form_options(form), f"-j{jobs}", f"--timeout={seconds}", folder]
    ran = harness.run(command, timeout=3600)
    counts, _ = harness.split_summary(ran.out)
    if not counts:
        return {"all": ("FAIL", ran.why())}, 0
    bad = {}
    for line in ran.out.splitlines():
        match = re.match(r"(MISS|FAIL|DIFF) (\S+?): (.*)", line)
        if match:
            verdict = "MISS" if "--dim: the model has no name" in match[3] else match[1]
            bad[os.path.basename(match[2])] = (verdict, match[3])
    return bad, counts[0]


def submodel(g, kept, outputs):
    """The nodes `kept` with these outputs; what comes from elsewhere becomes an input."""
    needed, nodes = {v.name for v in outputs}, []
    for i in reversed(range(len(g.nodes))):
        node = g.nodes[i]
        if i in kept and needed & set(node.output):
            nodes.insert(0, node)
            needed |= {n for n in node.input if n}
            needed |= {n for a in node.attribute for inner in every_graph(a) for m in inner.node for n in m.input}
    made = {n for node in nodes for n in node.output}
    inputs = [v for v in g.values if v.name in needed and v.name not in made]
    infos = [helper.make_tensor_value_info(v.name, elem_type(v.of[0]), g.infos.get(v.name, v.shape if v.fixed else [None] * v.rank))
             for v in inputs]
    results = [helper.make_tensor_value_info(v.name, elem_type(v.of[0]), v.shape if v.fixed else [None] * v.rank) for v in outputs]
    constants = [c for n, c in g.initializers.items() if n in needed]
    return make_model(g, helper.make_graph(nodes, "reduced", infos, results, constants)), inputs, len(nodes)


def try_all(g, form, attempts, folder):
    """The attempts (kept, outputs) that fail, with their number of nodes."""
    shutil.rmtree(folder, ignore_errors=True)
    counts = {}
    for j, (kept, outputs) in enumerate(attempts):
        try:
            model, inputs, counts[j] = submodel(g, kept, outputs)
        except onnx.checker.ValidationError:
            continue
        write_graph(g, os.path.join(folder, str(j)), model, inputs, outputs)
    bad, _ = run_form(form, folder) if counts else ({}, 0)
    return sorted((counts[int(k)], int(k)) for k, (verdict, _) in bad.items() if k != "all" and verdict != "MISS")


def reduce(make, seed, index, form, folder):
    """Cuts a failing graph down: first to one output, then node after node becomes an input."""
    warnings.simplefilter("ignore")
    with np.errstate(all="ignore"):
        g = make(seed, index)
    by_name = {v.name: v for v in g.values}
    work = folder + "-work"
    every = frozenset(range(len(g.nodes)))
    attempts = [(every, [by_name[o]]) for n in g.nodes for o in n.output if o in by_name]
    failing = try_all(g, form, attempts, work)
    if not failing:
        shutil.rmtree(work, ignore_errors=True)
        return "only the whole graph fails"
    best = attempts[failing[0][1]]
    size = failing[0][0]
    while size > 1:
        attempts = [(best[0] - {i}, best[1]) for i in sorted(best[0])]
        failing = [f for f in try_all(g, form, attempts, work) if f[0] < size]
        if not failing:
            break
        size, best = failing[0][0], attempts[failing[0][1]]
    model, inputs, size = submodel(g, *best)
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    write_graph(g, folder, model, inputs, best[1])
    return f"{size} nodes in {folder}: " + "; ".join(
        f"{n.op_type}({', '.join(str(by_name[i].of[0].shape) + by_name[i].dtype if i in by_name else i for i in n.input)})"
        for n in model.graph.node if n.op_type != "Constant")


# ---------------------------------------------------------------- command
def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=60)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", default="")
    p.add_argument("--forms", default=DEFAULT_FORMS)
    p.add_argument("--networks", action="store_true", help="networks of common blocks in larger sizes")
    p.add_argument("--edges", action="store_true", help="single nodes on elements at the ends of their types")
    p.add_argument("--bits", action="store_true", help="the same, with the answers of x86-64-v1, which every form with strict repeats")
    p.add_argument("--plain", action="store_true", help="no inputs and outputs that programs for other machines cannot read")
    p.add_argument("--all", action="store_true", help="all forms")
    p.add_argument("--reduce", action="store_true")
    p.add_argument("--room", default="random", help="folder in build/ for the cases; those that fail are kept in NAME-failed")
    p.add_argument("-v", "--verbose", action="store_true", help="operators that were made and why others were not")
    o = p.parse_args()
    make = random_network if o.networks else random_bits if o.bits else random_edges if o.edges else random_graph
    forms = list(FORMS) if o.all else o.forms.split(",")
    numbers = [int(i) for i in o.only.split(",")] if o.only else range(o.count)
    out = os.path.join(harness.BUILD, o.room)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    Graph.plain = o.plain
    with ProcessPoolExecutor(harness.JOBS) as pool:
        made = list(pool.map(make_apart, [(make, o.seed, i, os.path.join(out, f"{o.seed}-{i}")) for i in numbers]))
    if o.verbose:
        for counts, limit in ((sum((m[0] for m in made), collections.Counter()), 400),
                              (sum((m[1] for m in made), collections.Counter()), 60)):
            print("\n".join(f"{n:5} {k}" for k, n in counts.most_common(limit)))
    sys.exit(run_forms(make, forms, out, o.reduce))


def run_forms(make, forms, out, shrink):
    passed = failed = skipped = 0
    for form in forms:
        bad, good = run_form(form, out)
        passed += good
        for name, (verdict, message) in sorted(bad.items()):
            skipped, failed = skipped + (verdict == "MISS"), failed + (verdict != "MISS")
            if verdict != "MISS":
                print(f"{form}: {verdict} {name}: {message[:250]}", flush=True)
            if verdict == "MISS" or name == "all":
                continue
            kept = os.path.join(f"{out}-failed", name)
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(os.path.join(out, name), kept)
            if shrink:
                print("    " + reduce(make, *map(int, name.split("-")), form, f"{kept}-{form}"), flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    main()
