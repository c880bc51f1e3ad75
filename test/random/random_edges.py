"""Single nodes on elements at the ends of their types: what random_graphs.py --edges makes its models of.

Infinities, NaN, zeros of both signs, denormal and largest numbers, the least and largest integers, sizes of 0 and 1. The
evaluators compute in the type of the elements, and must agree where both have the node. With --bits they need not, and sums
may overflow: then code for x86-64-v1 says what is right, which every machine repeats to the bit.
"""
import ml_dtypes
import numpy as np

import version_cases as versions
from random_build import INTS, Graph, Unfit, Value, agree, is_float, model_of, new_dice, np_type, output_ranks, output_types, reference_of, runtime_of, wide
from random_nodes import add_node

# Kinds of nodes that give edges to their operators: names in random_nodes and its companions.
NODES = ("unary binary compare logic where clip variadic cast reduce arg_reduce cumulate softmax lp_normalize row_norm reshape view transpose "
         "expand concat split slice_ pad gather scatter make_tensor matmul gemm einsum conv pool quantise quantise_dynamic integer_layer top_k unique "
         "narrow_cast narrow_quantise center gated loss features trees tree_ensemble linear_model").split()

BY_ELEMENT = {"Abs", "Neg", "Relu", "Max", "Min", "Clip", "Where", "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Expand", "Tile",
              "Concat", "Split", "Slice", "Pad", "Gather", "GatherElements", "GatherND", "Compress", "Flatten", "MaxPool", "GlobalMaxPool",
              "ReduceMax", "ReduceMin", "Sign", "Floor", "Ceil", "Round", "IsNaN", "IsInf", "Equal", "Less", "Greater", "LessOrEqual",
              "GreaterOrEqual", "ArgMax", "ArgMin", "TopK", "Unique", "NonZero", "Trilu", "Cast", "CastLike", "QuantizeLinear"}


class Edges(Graph):
    """A Graph whose numbers are often at the end of their type."""

    def data(self, dtype, shape, low=None, high=None):
        a = super().data(dtype, shape, low, high)
        if not is_float(dtype) and dtype not in INTS or low is not None or not a.size:
            return a
        d = np.random.default_rng(self.dice.getrandbits(32))
        picked = d.random(a.shape) < self.dice.choice((0.1, 0.4, 0.9))
        return np.where(picked, d.choice(self.ends(dtype), a.shape), a).astype(a.dtype)

    def ends(self, dtype):
        if not is_float(dtype):
            info = np.iinfo(dtype)
            return np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1], dtype)
        tiny = {"float16": 6e-8, "bfloat16": 1e-40, "float32": 1e-40, "float64": 1e-310}[dtype]
        most = {"float16": 65504, "bfloat16": 3e38, "float32": 3.4e38, "float64": 1.7e308}[dtype]
        every = [0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, most, -most, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 88.9, -104.0, 1e-3]
        count = self.dice.randint(1, len(every))
        with np.errstate(all="ignore"):
            return np.array(self.dice.sample(every, count)).astype(np_type(dtype))

    def __init__(self, dice, opset, floats, bits):
        super().__init__(dice, opset, floats)
        self.bits = bits

    def evaluate(self, schema, node, inputs, by_runtime):
        if not self.bits and node.op_type not in BY_ELEMENT and any(is_float(v.dtype) and (np.abs(finite(v.of[0])) > 1e30).any() for v in inputs):
            raise Unfit("sums whose order decides whether they overflow")
        model = model_of(schema, node, schema.since_version, inputs)
        types, ranks = output_types(model), output_ranks(model)
        reference = None if by_runtime else reference_of(schema, model, widen=False)
        runtime = runtime_of(schema, model, inputs)
        feeds = {v.name: v.of[0] for v in inputs}
        right = self.attempted(reference, feeds, types) if reference else None
        other = versions.attempt(runtime.run, None, feeds)[0] if runtime else None
        if right is None and other is None:
            raise Unfit("no evaluator")
        if not self.bits and right is not None and other is not None and not agree(right, other):
            raise Unfit(f"{node.op_type}: the evaluators disagree")
        right = other if right is None else right
        if not self.bits and is_float(inputs[0].dtype) and silent(node.op_type, inputs[0].of[0], right[0].dtype):
            raise Unfit("of these floats ONNX says nothing")
        if any(r is not None and r != a.ndim for r, a in zip(ranks, right)):
            raise Unfit(f"{node.op_type}: an evaluator gives another rank")
        return [Value(n, [a]) for n, a in zip([o for o in node.output if o], right)]

    def attempted(self, reference, feeds, types):
        answer = versions.attempt(reference.run, None, feeds)[0]
        if answer is None:
            return None
        answer = [np.asarray(a) for a in answer]
        return answer if all(a.dtype == t for a, t in zip(answer, types)) else None


def finite(a):
    a = wide(a)
    return np.where(np.isfinite(a), a, 0)


def silent(op, a, dtype):
    """Whether the standard does not say what the operator makes of some of the elements."""
    a = wide(a)
    if "Quantize" in op or op in ("Unique", "MaxPool"):
        return not np.isfinite(a).all()
    if "Cast" not in op or "int" not in dtype.name:
        return False
    info = ml_dtypes.iinfo(dtype)
    return not np.isfinite(a).all() or (np.trunc(a) < info.min).any() or (np.trunc(a) > info.max).any()


def random_bits(seed, index, why=None):
    return random_edges(seed, index, why, True)


def random_edges(seed, index, why=None, bits=False):
    dice = new_dice(seed, index)
    opset = dice.choice((7, 9, 11, 12, 13, 14, 17, 18, 19, 21, 22, 23, 24, 25, 26, 28))
    floats = dice.choice([("float32",)] * 4 + [("float64",), ("float16",), ("bfloat16",)])
    g = Edges(dice, opset, floats, bits)
    wanted, done = dice.randint(1, 4), 0
    for _ in range(20):
        name = dice.choice(NODES)
        g.values, kept = [], g.values  # nodes see no results of others
        done += add_node(g, name, why)
        g.values = kept + g.values
        if done == wanted:
            break
    return g
