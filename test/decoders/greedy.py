"""Greedy search over a language model of any export: ONNX Runtime's tokens, and whether onnxc's logits choose the same.

usage: greedy.py MODEL [OPTION...]     the compiler's options. Prints one line; exit code 1 where tokens differ.
--share: onnxc updates the caches in place (--state). They have a fixed size from the start if the model has GroupQueryAttention or
a static cache; others grow by Concat, with room for as many rows. One version is for single tokens, one for more, and the prompt comes in
pieces.
"""
import os
import sys
import time

import numpy as np
import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "bindings", "python"), os.path.join(ROOT, "test", "ort_tools")]

import onnxc  # noqa: E402
from judge import exact, session_of  # noqa: E402

from families import CAPACITY, HEAD, WINDOW  # noqa: E402

STEPS = 64
PROMPT = [5, 17, 401, 33, 250, 77, 8, 129, 300, 2, 44]
PIECES = [PROMPT[:5], PROMPT[5:9], PROMPT[9:10], PROMPT[10:]]
TIE = 1e-3  # two logits closer than this part of the largest one: rounding decides
SLIDING = "past_sliding_length"  # of a cache that is a ring
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


def new_cache(name):
    """The output that a cache comes back in. Caches of convolutions are past.LAYER.conv."""
    return name.replace("past_key_values", "present").replace("past.", "present.")


class Search:
    """One engine with caches of its own."""

    def __init__(self, session, rows):
        self.session = session
        self.ports = {i.name: i for i in session.get_inputs()}
        self.outputs = [o.name for o in session.get_outputs()]
        self.caches = {n: np.zeros(self.cache_shape(i.shape, rows), TYPES[i.type]) for n, i in self.ports.items() if n.startswith("past")}
        self.position, self.seconds = 0, 0

    @staticmethod
    def cache_shape(shape, rows):
        """Batch, heads, rows and size of a head, of which some have names."""
        known = {0: 1, 2: WINDOW if shape[2] == SLIDING else rows, 3: HEAD}
        return [n if isinstance(n, int) else known[axis] for axis, n in enumerate(shape)]

    def feed(self, tokens):
        total = self.position + len(tokens)
        positions = np.arange(self.position, total)
        made = {"input_ids": np.array([tokens]), "attention_mask": np.ones((1, total)), "position_ids": positions[None],
                "cache_position": positions}
        return {n: made[n].astype(np.int64) for n in self.ports if n in made} | self.caches

    def step(self, tokens):
        """The logits after these tokens."""
        feed = self.feed(tokens)
        begin = time.perf_counter()
        outputs = dict(zip(self.outputs, self.session.run(None, feed)))
        self.seconds += time.perf_counter() - begin
        self.position += len(tokens)
        self.caches = {n: outputs[new_cache(n)] for n in self.caches}
        return outputs["logits"][0, -1].astype(np.float64)


def grows(model):
    """Whether caches are concatenations of the past and what is new."""
    past = [i for i in model.graph.input if i.name.startswith("past")]
    symbolic = any(i.type.tensor_type.shape.dim[2].dim_param for i in past)
    return symbolic and not any(n.op_type == "GroupQueryAttention" for n in model.graph.node)


def states_of(model):
    """The options that keep caches in place."""
    inputs = {i.name: [d.dim_param for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    states = [f"--state={new_cache(name)}={name}" for name in inputs if name.startswith("past")]
    rows = {dims[2] for name, dims in inputs.items() if name.startswith("past")} - {""}
    if grows(model):
        return [*states, *(f"--dim={n}=0:{CAPACITY}" for n in rows)]
    return [*states, *(f"--dim={n}={WINDOW if n == SLIDING else CAPACITY}" for n in rows)]


def phases_of(model):
    """The option for a version of one token and one of more."""
    length = next(i for i in model.graph.input if i.name == "input_ids").type.tensor_type.shape.dim[-1].dim_param
    return f"--dim={length}=1,2:{CAPACITY}"


def compare(right, ours, prompt):
    """(the tokens that differ, the ties that rounding decides, the largest difference of logits)"""
    wrong, ties, worst, tokens = [], 0, 0.0, []
    for i in range(STEPS):
        given = prompt[i] if i < len(prompt) else tokens[-1:]
        want, got = right.step(given), ours.step(given)
        size = np.abs(want).max()
        worst = max(worst, np.abs(want - got).max() / size) if np.isfinite(got).all() else np.inf
        best, other = int(want.argmax()), int(got.argmax())
        if best != other:
            if want[best] - want[other] > TIE * size:
                wrong.append(i)
            ties += 1
        tokens.append(best)
    return wrong, ties, worst, tokens


def search(model, share, options, path=None):
    """(whether all tokens are the same, a line); path: of the file, where it has external data."""
    right = session_of(exact(model).SerializeToString())
    begin = time.perf_counter()
    ours = onnxc.InferenceSession(path or model, [*options, *([*states_of(model), phases_of(model)] if share else [])])
    compiled = time.perf_counter() - begin
    rows = CAPACITY if share and not grows(model) else 0
    a, b = Search(right, rows), Search(ours, rows)
    wrong, ties, worst, tokens = compare(a, b, PIECES if share else [PROMPT])
    return not wrong, (
        f"{'WRONG at ' + str(wrong[:6]) if wrong else 'same tokens'}, {len(set(tokens))} different, {ties} ties, logits off by {worst:.1e}; "
        f"compiled in {compiled:.1f} s, step {1e3 * b.seconds / STEPS:.2f} ms, ONNX Runtime without optimisations {1e3 * a.seconds / STEPS:.2f} ms")


def main():
    path, *options = sys.argv[1:]
    same, line = search(onnx.load(path), "--share" in options, [o for o in options if o != "--share"], path)
    print(line)
    sys.exit(not same)


if __name__ == "__main__":
    main()
