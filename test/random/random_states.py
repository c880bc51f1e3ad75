"""Random models whose outputs are their next states: with --state the run writes only what changes, in place, and its answers must
be those of the run without it, which the reference evaluator confirms.

usage: random_states.py [--count N] [--seed S] [--only I,J...]

Each model reads and replaces parts of two states of a fixed size (columns, rows, elements, all of it; earlier versions as well as the
latest), and may extend a third one. Seed and number make the model. What fails is kept in build/random-failed. Ends with "N passed, N
failed, N skipped".
"""
import argparse
import glob
import os
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402

ROWS, TOLERANCE, INT64_MAX = 4, 1e-4, 2 ** 63 - 1
FAILED = os.path.join(harness.BUILD, "random-failed")


class Model:
    """u: [ROWS, 1] is new; a, b: [ROWS, columns] are states, g: [ROWS, P] grows; at: [1] is a column."""

    def __init__(self, dice):
        self.dice, self.nodes, self.constants = dice, [], []
        self.columns = dice.choice([2, 3, 5])
        self.vectors, self.wholes = ["u"], ["a", "b"]  # values of one column, and of all
        self.now = {"a": "a", "b": "b"}  # the latest versions of the states
        for _ in range(dice.randint(6, 14)):
            dice.choices([self.read, self.compute, self.replace, self.rewrite], [4, 5, 7, 1])[0]()
        for state in "ab":  # at the end, since nothing else says how large the result is
            for times in range(dice.choice([0, 0, 0, 0, 1, 1, 2])):
                self.replace_at(state, backwards=times == 1)
        self.grown = self.node("Concat", "g", dice.choice(self.vectors), axis=1) if dice.random() < 0.4 else None

    def node(self, op, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [f"t{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def constant(self, values, dtype=np.int64):
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def read(self):
        """A column of any version of a state, or what follows from all columns."""
        whole, column = self.dice.choice(self.wholes), self.dice.randrange(self.columns)
        form = self.dice.randrange(3)
        if form == 0:
            made = self.node("Gather", whole, self.constant([column]), axis=1)
        elif form == 1:
            made = self.node("Slice", whole, self.constant([column]), self.constant([column + 1]), self.constant([1]))
        else:
            made = self.node("ReduceMax", whole, self.constant([1]), keepdims=1)
        self.vectors.append(made)

    def compute(self):
        x, y = self.dice.choice(self.vectors), self.dice.choice(self.vectors)
        self.vectors.append(self.node(self.dice.choice(["Add", "Sub", "Max", "Min"]), x, self.node("Tanh", y)))

    def replace(self):
        """A part of the latest version of a state."""
        state = self.dice.choice("ab")
        column, row, new = self.dice.randrange(self.columns), self.dice.randrange(ROWS), self.dice.choice(self.vectors)
        old, form = self.now[state], self.dice.randrange(7)
        if form == 0:
            made = self.node("ScatterElements", old, self.constant([[column]] * ROWS), new, axis=1)
        elif form == 1:
            at = self.constant([[r, column] for r in range(ROWS)])
            made = self.node("ScatterND", old, at, self.node("Reshape", new, self.constant([ROWS])))
        elif form == 2:
            line = self.node("Gather", self.dice.choice(self.wholes), self.constant([self.dice.randrange(ROWS)]), axis=0)
            made = self.node("ScatterND", old, self.constant([[row]]), line)
        elif form == 3:
            hot = self.constant([[c == column for c in range(self.columns)]], np.bool_)
            made = self.node("Where", hot, new, old)
        elif form == 4:  # a part that is taken out, updated and put back, as exporters of torch write it
            line = self.node("Gather", old, self.constant([row]), axis=0)
            cell = self.node("Gather", new, self.constant([row]), axis=0)
            line = self.node("ScatterElements", line, self.constant([[column]]), cell, axis=1)
            if self.dice.random() < 0.3:
                self.vectors.append(self.node("Expand", self.node("ReduceMax", line, self.constant([1]), keepdims=1), self.constant([ROWS, 1])))
            made = self.node("ScatterND", old, self.constant([[row]]), line)
        elif form == 5:  # another order of axes
            turned = self.node("Transpose", old, perm=[1, 0])
            turned = self.node("ScatterND", turned, self.constant([[column]]), self.node("Transpose", new, perm=[1, 0]))
            made = self.node("Transpose", turned, perm=[1, 0])
        else:
            parts = [self.node("Slice", old, self.constant([0]), self.constant([column]), self.constant([1]))] if column else []
            rest = self.constant([column + 1]), self.constant([self.columns])
            parts += [new, *([self.node("Slice", old, *rest, self.constant([1]))] if column + 1 < self.columns else [])]
            made = self.node("Concat", *parts, axis=1)
        self.set(state, made)

    def replace_at(self, state, backwards):
        """The column at a position that the run gets to know, from the first or the last one."""
        at = self.node("Sub", self.constant([self.columns - 1]), "at") if backwards else "at"
        axis, after = self.constant([1]), self.node("Add", at, self.constant([1]))
        head = self.node("Slice", self.now[state], self.constant([0]), at, axis)
        tail = self.node("Slice", self.now[state], after, self.constant([INT64_MAX]), axis)
        self.set(state, self.node("Concat", head, self.dice.choice(self.vectors), tail, axis=1))

    def rewrite(self):
        """All of a state: by element, shifted by a column or by rows, or the other one."""
        state, form = self.dice.choice("ab"), self.dice.randrange(4)
        if form == 0:
            made = self.node("Max", self.now[state], self.dice.choice(self.wholes + self.vectors))
        elif form == 1:
            tail = self.node("Slice", self.now[state], self.constant([1]), self.constant([self.columns]), self.constant([1]))
            made = self.node("Concat", tail, self.dice.choice(self.vectors), axis=1)
        elif form == 2:
            rows = self.dice.randint(1, ROWS - 1)
            tail = self.node("Slice", self.now[state], self.constant([rows]), self.constant([ROWS]), self.constant([0]))
            first = self.node("Slice", self.dice.choice(self.wholes), self.constant([0]), self.constant([rows]), self.constant([0]))
            made = self.node("Concat", tail, first, axis=0)
        else:
            made = self.node("Identity", self.dice.choice(self.wholes))
        self.set(state, made)

    def set(self, state, made):
        self.now[state] = made
        self.wholes.append(made)

    def proto(self):
        def tensor(name, *dims):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

        read = self.node("Add", self.node("ReduceSum", self.dice.choice(self.wholes), self.constant([1]), keepdims=1), self.dice.choice(self.vectors))
        ends = {"y": read, "a.next": self.now["a"], "b.next": self.now["b"]}
        inputs = [tensor("u", ROWS, 1), tensor("a", ROWS, self.columns), tensor("b", ROWS, self.columns)]
        outputs = [tensor("y", ROWS, 1), tensor("a.next", ROWS, self.columns), tensor("b.next", ROWS, self.columns)]
        if any("at" in n.input for n in self.nodes):
            inputs.append(helper.make_tensor_value_info("at", TensorProto.INT64, [1]))
        if self.grown:
            ends["g.next"] = self.grown
            inputs.append(tensor("g", ROWS, "P"))
            outputs.append(tensor("g.next", ROWS, "P + 1"))
        nodes = [*self.nodes, *(helper.make_node("Identity", [of], [name]) for name, of in ends.items())]
        graph = helper.make_graph(nodes, "states", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def outputs(folder, options, feeds):
    for name in glob.glob(f"{folder}/output_*.pb"):
        os.remove(name)
    given = [x for name in feeds for x in ("--input", f"{name}={name}.npy")]
    ran = subprocess.run([harness.ONNXC, "run", "model.onnx", *given, *options, "--output-dir", "."], cwd=folder, capture_output=True, text=True, timeout=120)
    if ran.returncode:
        return None, ran.stderr
    names = sorted(glob.glob(f"{folder}/output_*.pb"))
    return [numpy_helper.to_array(onnx.load_tensor(name)) for name in names], ""


def why_wrong(folder, seed, number):
    """None: the answers are right."""
    model = Model(random.Random(f"{seed} {number}"))
    proto, values = model.proto(), np.random.default_rng([seed, number])
    onnx.save(proto, f"{folder}/model.onnx")
    feeds = {i.name: values.integers(0, model.columns, 1) if i.name == "at" else
             values.random((ROWS, i.type.tensor_type.shape.dim[1].dim_value or 3), np.float32) for i in proto.graph.input}
    for name, x in feeds.items():
        np.save(f"{folder}/{name}.npy", x)
    want = ReferenceEvaluator(proto).run(None, feeds)
    states = [x for name in feeds if name not in ("u", "at") for x in ("--state", f"{name}.next={name}")]
    for options in ([], [*states, *(["--dim", "P=0:9"] if model.grown else [])]):
        got, error = outputs(folder, options, feeds)
        if got is None:
            return f"{options}: {error}"
        for value, x, y in zip(proto.graph.output, want, got, strict=True):
            if x.shape != y.shape or not np.allclose(x, y, rtol=TOLERANCE, atol=TOLERANCE):
                return f"{options}: another {value.name}"
    return None


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--count", type=int, default=100)
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--only")
    args = args.parse_args()
    numbers = [int(x) for x in args.only.split(",")] if args.only else range(args.count)
    results = harness.Results("random-states")
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            why = why_wrong(folder, args.seed, number)
            if why:
                results.fail(f"model {number} of seed {args.seed}", why)
                shutil.copytree(folder, os.path.join(FAILED, f"states-{args.seed}-{number}"), dirs_exist_ok=True)
            else:
                results.add(1, 0, 0)
    results.report()


if __name__ == "__main__":
    main()
