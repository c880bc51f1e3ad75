"""Graphs that grow node by node with every value known: what random_graphs.py makes its models of.

Graph.add evaluates the new node at once and raises Unfit where its answer is not known or not stable. The right answer is
the reference evaluator's in double precision, rounded to the dtype; ONNX Runtime with optimisations off must agree where
it has the node. A value carries SHADOWS more versions of itself with small errors in them, as other sound orders of
rounding would leave: a node whose outputs depend on such errors is not taken.
"""
import random

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import random_reference
import version_cases as versions
from version_cases import Unfit

SHADOWS = 2
ML = "ai.onnx.ml"
RUN_TIME = 0.12  # how often numbers like axes and sizes are not constant
MOST_ELEMENTS = 6000
ORT_OPSET = 24  # what the installed ONNX Runtime takes without complaint

# Relative error that one node may make, and the largest magnitude that a value may have.
EPSILON = {"float64": 1e-13, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}
LARGEST = {"float64": 1e5, "float32": 1e5, "float16": 300, "bfloat16": 300}
# Of a graph whose least precise dtype this is: (rtol, atol).
TOLERANCE = {"float64": (1e-7, 1e-8), "float32": (1e-3, 1e-4), "float16": (1.5e-2, 1e-2), "bfloat16": (6e-2, 6e-2)}
FLOATS = tuple(EPSILON)
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
# Operators that round nothing.
EXACT = {"Abs", "Neg", "Relu", "Max", "Min", "Clip", "Where", "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze",
         "Expand", "Tile", "Concat", "Split", "Slice", "Pad", "Gather", "GatherElements", "GatherND", "Compress", "Flatten",
         "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "DepthToSpace", "SpaceToDepth", "ReverseSequence", "Trilu",
         "Floor", "Ceil", "Round", "Sign", "Scatter", "Dropout", "TensorScatter"}
# Operators that compute in float by default, whatever their dtype.
IN_FLOAT = {"LayerNormalization", "RMSNormalization", "Erf", "Attention"}
# What an evaluator is known to get wrong: never asked.
# Gemm-6 leaves out beta where broadcast is 0, AveragePool-1 counts the padding, MaxPool-1 shares pads out to both sides,
# LpNormalization with p = 1 sums without absolute values, regressors give the type of the input.
NO_REFERENCE = {("LRN", 99), ("Gemm", 7), ("AveragePool", 7), ("MaxPool", 8),
                ("LinearRegressor", 99), ("SVMRegressor", 99), ("TreeEnsembleRegressor", 99), ("LpNormalization", 99), ("Softmax", 13), ("LogSoftmax", 13), ("Hardmax", 13), ("BatchNormalization", 14)}
# (operator, version): before this version
NO_RUNTIME = set()


def np_type(name):
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


class Value:
    """of[k]: the array at the k-th sizes of the symbols; shadows[k]: its copies with errors, in double precision."""

    def __init__(self, name, of, shadows=None, constant=False):
        self.name, self.of, self.constant = name, of, constant
        self.shadows = shadows or [[a] * SHADOWS for a in of]

    dtype = property(lambda self: self.of[0].dtype.name)
    shape = property(lambda self: self.of[0].shape)
    rank = property(lambda self: self.of[0].ndim)
    shapes = property(lambda self: [a.shape for a in self.of])
    fixed = property(lambda self: len(set(self.shapes)) == 1)


def is_float(dtype):
    return dtype in EPSILON


def elem_type(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def wide(array):
    return array.astype(np.float64) if is_float(array.dtype.name) else array


def disturb(array, epsilon, dice):
    """Errors relative to the element, and a little to the largest one."""
    if not array.size:
        return array
    size = np.where(np.isfinite(array), np.abs(array), 0)
    noise = np.array(dice.random(array.shape) * 2 - 1)
    return array + noise * epsilon * (size + 0.1 * size.max())


class Graph:
    """A graph, or the body of a control-flow node in `outer`."""

    plain = False  # whether inputs and outputs have types that programs read and write
    most = None  # elements of a value, where that is not MOST_ELEMENTS

    def __init__(self, dice, opset, floats=("float32",), sizes=({},), outer=None):
        self.dice, self.opset, self.floats, self.sizes, self.outer = dice, opset, floats, sizes, outer
        self.root = outer.root if outer else self
        self.nodes, self.initializers, self.inputs, self.values = [], {}, [], []
        self.infos = {}  # of inputs: dims, with names
        self.counter = 0
        self.noise = outer.noise if outer else np.random.default_rng(dice.getrandbits(32))
        self.ml = outer.ml if outer else dice.randint(1, 5)  # version of the classical operators

    def name(self, stem="v"):
        self.root.counter += 1
        return f"{stem}{self.root.counter}"

    def visible(self):
        return self.values + (self.outer.visible() if self.outer else [])

    # ------------------------------------------------------------ values from outside
    def data(self, dtype, shape, low=None, high=None):
        if dtype not in (*FLOATS, *INTS, "bool"):
            raise Unfit("a dtype whose data have a maker of their own")
        d = np.random.default_rng(self.dice.getrandbits(32))
        if dtype == "bool":
            return d.random(shape) < 0.5
        if is_float(dtype):
            low, high = (-2.5, 2.5) if low is None else (low, high)
            return np.asarray(d.uniform(low, high, shape)).astype(np_type(dtype))
        low, high = (0 if dtype.startswith("u") else -9, 10) if low is None else (low, high)
        return np.asarray(d.integers(low, high, shape, endpoint=True)).astype(np_type(dtype))

    def fresh(self, dtype, shape, low=None, high=None, constant=None):
        """A new value of a shape, or of one shape for each of the sizes."""
        many = isinstance(shape, list) and shape and isinstance(shape[0], tuple)
        shapes = shape if many else [tuple(shape)] * len(self.sizes)
        if any(np.prod(s, dtype=np.int64) > MOST_ELEMENTS for s in shapes):
            raise Unfit("large")
        if len(set(shapes)) > 1:
            return self.input([self.data(dtype, s, low, high) for s in shapes])
        if constant is None:
            constant = self.outer is not None or self.dice.random() < 0.55
        if constant:
            return self.constant(self.data(dtype, shapes[0], low, high))
        return self.input([self.data(dtype, s, low, high) for s in shapes])

    def input(self, arrays):
        if self.outer:
            return self.root.input(arrays)
        value = Value(self.name("x"), [np.asarray(a) for a in arrays])
        self.inputs.append(value)
        self.infos[value.name] = [self.dim_name([a.shape[i] for a in arrays]) for i in range(arrays[0].ndim)]
        self.values.append(value)
        return value

    def dim_name(self, sizes):
        if len(set(sizes)) == 1 and (len(sizes) > 1 or self.dice.random() < 0.9):
            return sizes[0]
        for symbol in self.sizes[0]:
            if [s[symbol] for s in self.sizes] == sizes:
                return symbol
        return self.name("D")

    def constant(self, array):
        array = np.asarray(array)
        value = Value(self.name("c"), [array] * len(self.sizes), constant=True)
        if self.dice.random() < 0.3:
            proto = numpy_helper.from_array(array)
            self.nodes.append(helper.make_node("Constant", [], [value.name], self.name("node"), value=proto))
        else:
            self.initializers[value.name] = numpy_helper.from_array(array, value.name)
        return value

    def ints(self, numbers, dtype="int64"):
        """Sizes, axes and the like: mostly constants."""
        if self.opset >= 13 and self.dice.random() < RUN_TIME:
            return self.argument(np.array(numbers, dtype))
        return self.constant(np.array(numbers, dtype))

    def argument(self, array):
        """Numbers that only the run knows: an input, or what the graph computes from one."""
        form = self.dice.choice(("input", "sum", "picked"))
        if form == "sum":
            less = self.dice.randint(-3, 3)
            return self.one("Add", [self.exact_input(array - less), self.constant(np.array(less, array.dtype))])
        if form == "picked" and array.ndim == 1 and array.size:
            padded = np.concatenate([array, array[::-1], array])
            at = self.constant(np.arange(array.size) + array.size * self.dice.choice((0, 2)))
            return self.one("Gather", [self.exact_input(padded.astype(array.dtype)), at], axis=0)
        return self.exact_input(array)

    def exact_input(self, array):
        """An input of the same size and contents in every run."""
        value = self.input([array] * len(self.sizes))
        self.root.infos[value.name] = list(array.shape)
        return value

    def raw(self, op, inputs, outputs=1, domain="", **attributes):
        """A node whose results the caller knows: names in, names out."""
        schema_of(op, self.version_of(domain), domain)
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, self.name("node"), domain=domain, **attributes))
        return names

    def known(self, name, of, shadows):
        """A tensor that a raw node makes."""
        if any(a.size > MOST_ELEMENTS for a in of):
            raise Unfit("large")
        self.values.append(Value(name, of, shadows))
        return self.values[-1]

    def version_of(self, domain):
        return self.ml if domain == ML else self.opset

    # ------------------------------------------------------------ nodes
    def add(self, op, inputs, outputs=1, domain="", captured=(), by_runtime=False, **attributes):
        """Outputs: a count, or a list with False for those left out. by_runtime: ONNX Runtime alone says what is right,
        where the reference evaluator lacks an option. Returns the values made."""
        schema = schema_of(op, self.version_of(domain), domain)
        inputs = list(inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        named = {v.name: v for v in [*inputs, *captured] if v is not None}
        names = [v.name if v is not None else "" for v in inputs]
        plain = {n: v.of[0] for n, v in named.items()}
        versions.move_inputs(op, schema.since_version, names, plain, attributes)
        moved = [n for n in named if n not in plain]
        if any(not named[n].constant for n in moved):
            raise Unfit("an attribute must be constant")
        versions.fit_attributes(schema, attributes)
        check_types(schema, names, named)
        flags = outputs if isinstance(outputs, list) else [True] * outputs
        if len(flags) > schema.max_output:
            raise Unfit("outputs")
        made = [self.name() if f else "" for f in flags]
        if any(isinstance(a, list) and not a for a in attributes.values()):
            raise Unfit("an empty attribute")
        node = helper.make_node(op, names, made, self.name("node"), domain=domain, **attributes)
        values = self.evaluate(schema, node, [named[n] for n in named if n in plain], by_runtime)
        self.nodes.append(node)
        self.values += values
        return values

    def one(self, *arguments, **options):
        return self.add(*arguments, **options)[0]

    def evaluate(self, schema, node, inputs, by_runtime):
        control = any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute)
        version = self.opset if control else schema.since_version
        model = model_of(schema, node, version, inputs)
        types, ranks = output_types(model), output_ranks(model)
        reference = None if by_runtime else reference_of(schema, model)
        runtime = runtime_of(schema, model, inputs)
        if not reference and not runtime:
            raise Unfit("no evaluator")
        arrays, shadows = [], []
        for k in range(len(self.sizes)):
            feeds = {v.name: v.of[k] for v in inputs}
            answer = self.answer(reference, runtime, feeds, types, node)
            copies = [answer] * SHADOWS
            if reference:
                copies = [run_reference(reference, {v.name: v.shadows[k][s] for v in inputs}, types) for s in range(SHADOWS)]
            if any(r is not None and r != a.ndim for r, a in zip(ranks, answer)):
                raise Unfit(f"{node.op_type}: an evaluator gives another rank")
            arrays.append(answer)
            shadows.append([self.checked(node, a, copies, j) for j, a in enumerate(answer)])
        if any(len({a[j].ndim for a in arrays}) > 1 for j in range(len(types))):
            raise Unfit("a rank that depends on sizes")
        names = [o for o in node.output if o]
        return [Value(n, [a[j] for a in arrays], [s[j] for s in shadows]) for j, n in enumerate(names)]

    def answer(self, reference, runtime, feeds, types, node):
        right = run_reference(reference, feeds, types) if reference else None
        if right is not None:
            right = [round_to(a, t) for a, t in zip(right, types)]
        if runtime:
            other, why = versions.attempt(runtime.run, None, feeds)
            if other is None:
                raise Unfit("runtime: " + why)
            if right is None:
                return other
            if not agree(right, other):
                raise Unfit(f"{node.op_type}: the evaluators disagree")
        return right

    def checked(self, node, array, copies, j):
        """The shadows of an output with this node's own error in them; Unfit where they stray from it."""
        dtype = array.dtype.name
        if array.size > MOST_ELEMENTS:
            raise Unfit("large")
        made = [wide(np.asarray(c[j])) for c in copies]
        if any(m.shape != array.shape for m in made):
            raise Unfit("a size that depends on rounding")
        if not is_float(dtype):
            if any(not np.array_equal(m, array) for m in made):
                raise Unfit("a result that depends on rounding")
            return made
        numbers = wide(array)
        if not np.all(np.isfinite(numbers)) or (array.size and np.abs(numbers).max() > LARGEST[dtype]):
            raise Unfit("numbers too large for the dtype")
        if node.op_type not in EXACT:
            epsilon = EPSILON[dtype] if node.op_type not in IN_FLOAT else max(EPSILON[dtype], EPSILON["float32"])
            made = [disturb(m, epsilon, self.noise) for m in made]
        rtol, atol = TOLERANCE[dtype if dtype != "float64" else "float32"]
        if any(not np.all(np.abs(m - numbers) <= rtol / 4 * np.abs(numbers) + atol / 4) for m in made):
            raise Unfit("ill-conditioned")
        return made

    # ------------------------------------------------------------ protos
    def proto(self, name, outputs, inputs=None):
        """The graph with some of its values as outputs; `inputs`: Value of a body's inputs."""
        if inputs is None:
            inputs = [helper.make_tensor_value_info(v.name, elem_type(v.of[0]), self.infos[v.name]) for v in self.inputs]
        else:
            inputs = [helper.make_tensor_value_info(v.name, elem_type(v.of[0]), None) for v in inputs]
        rank_only = [[None] * v.rank if not v.fixed else list(v.shape) for v in outputs]
        infos = [helper.make_tensor_value_info(v.name, elem_type(v.of[0]), r if not self.outer else None)
                 for v, r in zip(outputs, rank_only)]
        return helper.make_graph(self.nodes, name, inputs, infos, list(self.initializers.values()))


def schema_of(op, opset, domain):
    try:
        schema = defs.get_schema(op, opset, domain)
    except Exception as e:
        raise Unfit("the opset does not have the operator") from e
    if schema.deprecated:
        raise Unfit("deprecated")
    return schema


def check_types(schema, names, named):
    chosen = {}
    for formal, name in zip(versions.formal_inputs(schema, names), names):
        if not name:
            continue
        text = versions.tensor_text(named[name].of[0])
        if text not in formal.types:
            raise Unfit(f"dtype {text}")
        variadic = formal.option == defs.OpSchema.FormalParameterOption.Variadic and not formal.is_homogeneous
        if not variadic and chosen.setdefault(formal.type_str, text) != text:
            raise Unfit("different dtypes")


# ---------------------------------------------------------------- evaluators of one node
def model_of(schema, node, version, inputs):
    infos = [helper.make_tensor_value_info(v.name, elem_type(v.of[0]), [None] * v.rank if not v.fixed else v.shape)
             for v in inputs]
    graph = helper.make_graph([node], "one", infos, versions.untyped([o for o in node.output if o]))
    opsets = [helper.make_opsetid(schema.domain, version)] + ([helper.make_opsetid("", 17)] if schema.domain else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    model, why = versions.attempt(onnx.shape_inference.infer_shapes, model, True, True)
    if model is None:
        raise Unfit(why)
    return model


def output_types(model):
    types = [o.type.tensor_type.elem_type for o in model.graph.output]
    if not all(types):
        raise Unfit("an output without type")
    return [helper.tensor_dtype_to_np_dtype(t) for t in types]


def output_ranks(model):
    types = [o.type.tensor_type for o in model.graph.output]
    return [len(t.shape.dim) if t.HasField("shape") else None for t in types]


def reference_of(schema, model, widen=True):
    if any(schema.name == op and schema.since_version < before for op, before in NO_REFERENCE):
        return None
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        for a in node.attribute:
            if widen and node.op_type == "Cast" and a.name == "to" and helper.tensor_dtype_to_np_dtype(a.i).name in FLOATS:
                a.i = TensorProto.DOUBLE
    return versions.attempt(lambda: ReferenceEvaluator(copy, new_ops=random_reference.OPERATORS))[0]


def run_reference(reference, feeds, types):
    result, why = versions.attempt(reference.run, None, {n: wide(a) for n, a in feeds.items()})
    if result is None:
        raise Unfit("reference: " + why)
    result = [np.asarray(r) for r in result]
    for r, t in zip(result, types):
        if not is_float(t.name) and r.dtype != t:
            raise Unfit("the reference evaluator gives another dtype")
    return result


def round_to(array, dtype):
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def runtime_of(schema, model, inputs):
    if schema.name in NO_RUNTIME or schema.since_version > ORT_OPSET or any(v.dtype == "bfloat16" for v in inputs):
        return None
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return versions.attempt(ort.InferenceSession, model.SerializeToString(), options, ["CPUExecutionProvider"])[0]


def agree(right, other):
    for a, b in zip(right, other):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.name not in TOLERANCE:
            if not np.array_equal(a, b):
                return False
            continue
        rtol, atol = TOLERANCE[a.dtype.name]
        with np.errstate(all="ignore"):  # infinities
            if not np.allclose(wide(a), wide(b), rtol, atol, equal_nan=True):
                return False
    return True


def new_dice(seed, index):
    return random.Random(f"{seed} {index}")
