"""Writes a case for each type that each operator version allows for each of its type variables, as folders that
`onnxc test` takes.

usage: type_cases.py OUT    OUT/newest|older/DOMAIN.OPERATOR/VERSION-VARIABLE-TYPE/..., for the newest version of the operator
                            or an older one; `skip OPERATOR-VERSION VARIABLE TYPE: reason` where there is none

A case starts from the same nodes as those of version_cases.py. The values of one type variable become values of the wanted
type; the other variables keep their types as far as the version allows these. The expected result is that of the reference
evaluator if ONNX Runtime agrees or cannot run the case, else that of ONNX Runtime; if neither can run it, that of a stand-in:
an operator that only moves elements does to elements of any type what it does to numbers, and one that computes gives the
rounded results of doubles.
"""
import collections
import os
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import version_cases as vc
import version_extra
from case_files import Stamp, write_case
from version_cases import Unfit

SMALL = ("float8", "float4", "int4", "uint4", "int2", "uint2")
# Operators whose results are elements of their inputs, positions of these, or whether they are equal.
MOVES = set("""CenterCropPad Compress Concat ConcatFromSequence DepthToSpace DynamicSlice Equal Expand Flatten Gather
    GatherElements GatherND GridSample Identity NonZero OneHot Optional OptionalGetElement OptionalHasElement Pad Reshape Resize
    ReverseSequence Scatter ScatterElements ScatterND SequenceAt SequenceConstruct SequenceErase SequenceInsert SequenceLength
    Shape Size Slice SpaceToDepth Split SplitToSequence Squeeze TensorScatter Tile Transpose Trilu Unique Unsqueeze Upsample
    Where Col2Im""".split())
NOT_AN_INPUT = "no input has this variable"  # the types of inputs and attributes tell that of the output
SAMPLES = {"GridSample", "Resize", "Upsample", "Col2Im"}  # unless they are of mode nearest
# Type variables that only an attribute binds.
BY_ATTRIBUTE = {("Cast", "T2"): "to", ("BitCast", "T2"): "to", ("EyeLike", "T2"): "dtype", ("Bernoulli", "T2"): "dtype",
                ("RandomNormalLike", "T2"): "dtype", ("RandomUniformLike", "T2"): "dtype", ("RandomNormal", "T"): "dtype",
                ("RandomUniform", "T"): "dtype", ("Multinomial", "T2"): "dtype", ("BlackmanWindow", "T2"): "output_datatype",
                ("HannWindow", "T2"): "output_datatype", ("HammingWindow", "T2"): "output_datatype",
                ("MelWeightMatrix", "T3"): "output_datatype"}


def is_tensor(text):
    return text.startswith("tensor(")


def elem_of(text):
    return TensorProto.DataType.Value(text[text.rindex("(") + 1:].rstrip(")").upper())


def numbers_of(array):
    """The numbers of an array of any type; strings are numbered by their order."""
    if array.dtype == object or array.dtype.kind in "US":
        words = sorted(set(array.ravel().tolist()))
        return np.array([words.index(x) for x in array.ravel().tolist()], np.float64).reshape(array.shape)
    return (array.real if array.dtype.kind == "c" else array).astype(np.float64)


def as_type(array, text):
    """The same numbers in another type, as far as it has them."""
    elem = elem_of(text)
    if elem == TensorProto.STRING:
        if array.dtype == object or array.dtype.kind in "US":
            return array.astype(object)
        return np.array([f"{x:g}" if x else "" for x in numbers_of(array).ravel()], object).reshape(array.shape)
    wanted = helper.tensor_dtype_to_np_dtype(elem)
    if array.dtype == wanted:
        return array
    numbers = numbers_of(array)
    if wanted.kind == "c":
        return (numbers + np.where(numbers, 1j * (numbers + 1), 0)).astype(wanted)
    if wanted == np.bool_:
        return numbers != 0
    name = wanted.name
    if "int" in name:
        bits = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4}.get(name) or wanted.itemsize * 8
        high = 2 ** (min(bits, 31) - (0 if name.startswith("u") else 1)) - 1
        numbers = np.abs(numbers) if name.startswith("u") else numbers
        return np.clip(np.trunc(numbers), -high - 1 if not name.startswith("u") else 0, high).astype(wanted)
    if name.startswith("float8_e8m0"):
        return np.exp2(np.clip(np.round(numbers), -8, 8)).astype(wanted)
    if name.startswith(("float4", "float6", "float8")):
        numbers = np.clip(numbers, -float(ml_dtypes.finfo(wanted).max), float(ml_dtypes.finfo(wanted).max))
    return numbers.astype(wanted)


def type_text(value):
    if isinstance(value, list):
        return f"seq({type_text(value[0])})" if value else "seq(tensor(float))"
    return vc.tensor_text(value)


def converted(value, text):
    """An array, a list of arrays, None: with elements of the type of `text`."""
    if isinstance(value, list):
        return [converted(v, text) for v in value]
    return None if value is None else as_type(value, text)


class Case:
    """A node of one operator version with values, whose variables can be bound to types."""

    def __init__(self, schema, source):
        self.schema, self.op = schema, schema.name
        self.values = {k: vc.as_array(v) for k, v in source.values.items()}
        self.names = list(source.node.input)
        self.attributes = {a.name: helper.get_attribute_value(a) for a in source.node.attribute}
        vc.move_inputs(schema.name, schema.since_version, self.names, self.values, self.attributes)
        while self.names and not self.names[-1]:
            self.names.pop()
        if len(self.names) < schema.min_input:
            raise Unfit("too few inputs")
        self.formals = vc.formal_inputs(schema, self.names)
        vc.fit_attributes(schema, self.attributes)
        single = onnx.defs.OpSchema.FormalParameterOption.Single
        if any(not name and formal.option == single for name, formal in zip(self.names, self.formals)):
            raise Unfit("an input that this version needs")
        if not source.applies:
            vc.need_equal_shapes(schema, self.names, self.values)
        self.outputs = list(source.node.output)[:schema.max_output]
        self.node = source.node
        if any(isinstance(v, list) and not v for v in self.attributes.values()):
            raise Unfit("an empty attribute")
        self.reduction = self.attributes.get("reduction", b"none") if self.op.startswith("Scatter") else b"none"

    def bind(self, variable, text):
        """The node and its values with the variable bound to the type."""
        values, attributes = dict(self.values), dict(self.attributes)
        constraints = {c.type_param_str: list(c.allowed_type_strs) for c in self.schema.type_constraints}
        bound = {}
        for formal, name in zip(self.formals, self.names):
            if not name:
                continue
            value, var = values[name], formal.type_str
            allowed = constraints.get(var, [var])
            if var == variable:
                wanted = text
            elif var in bound:
                wanted = bound[var]
            else:
                wanted = self.kept(value, allowed)
                if self.op in ("DFT", "STFT") and wanted == "tensor(float)":
                    wanted = "tensor(double)"  # the reference evaluator's noise is small in it
            if isinstance(value, list) != wanted.startswith("seq("):
                raise Unfit("another kind of value")
            if wanted.startswith(("optional", "map", "sparse")):
                raise Unfit("a kind of value that these cases do not have")
            bound[var] = wanted
            values[name] = converted(value, wanted)
        if variable not in bound:
            self.bind_output(variable, text, attributes)
        self.adjust(values, attributes, bound)
        self.bound = bound
        made = helper.make_node(self.op, self.names, self.outputs, "node", domain=self.schema.domain, **attributes)
        return made, {n: values[n] for n in self.names if n}

    def adjust(self, values, attributes, bound):
        """What the types ask of other inputs and of attributes."""
        if "Linear" in self.op and not self.schema.domain:  # zero points of floats are 0
            for formal, name in zip(self.formals, self.names):
                if name and "zero_point" in formal.name and "float" in bound[formal.type_str]:
                    values[name] = np.zeros_like(values[name])
        if self.op == "DequantizeLinear" and bound.get("T2") == "tensor(float8e8m0)":
            attributes["output_dtype"] = TensorProto.FLOAT
        if self.op == "Dropout" and self.schema.since_version < 7:
            attributes["is_test"] = 1
        elif self.op == "Dropout" and len(self.names) > 1:  # no result of chance
            values[self.names[1]] = np.zeros_like(values[self.names[1]])
        if self.op.startswith("ReduceLog") and "int" in bound["T"]:  # the logarithm of 0 is not an integer
            values[self.names[0]] = values[self.names[0]] + np.ones((), values[self.names[0]].dtype)
        for name, formal in self.schema.attributes.items():
            if formal.type == onnx.defs.OpSchema.AttrType.FLOAT and isinstance(attributes.get(name), int):
                attributes[name] = float(attributes[name])
        if self.op == "TfIdfVectorizer" and bound["T"] == "tensor(string)":
            attributes["pool_strings"] = [str(x) if x else "" for x in attributes.pop("pool_int64s")]
        if self.op == "LabelEncoder" and self.schema.since_version > 1:
            self.adjust_keys(attributes, bound["T1"])
        if self.op == "Imputer":
            kind = "floats" if bound["T"] in ("tensor(float)", "tensor(double)") else "int64s"
            attributes.clear()
            attributes[f"imputed_value_{kind}"] = [7.0] if kind == "floats" else [7]
            attributes["replaced_value_float" if kind == "floats" else "replaced_value_int64"] = 2.0 if kind == "floats" else 2
        if self.op == "OneHotEncoder":
            strings = bound["T"] == "tensor(string)"
            attributes.clear()
            attributes["cats_strings" if strings else "cats_int64s"] = ["1", "3"] if strings else [1, 3]

    @staticmethod
    def adjust_keys(attributes, text):
        for k in [k for k in attributes if k.startswith("keys")]:
            keys = attributes.pop(k)
        numbers = np.arange(3) if isinstance(keys, onnx.TensorProto) or isinstance(keys[0], (int, float)) else np.arange(3)
        if text in ("tensor(double)", "tensor(int16)", "tensor(int32)"):
            attributes["keys_tensor"] = numpy_helper.from_array(as_type(numbers.astype(float), text), "keys")
        else:
            kind = {"tensor(float)": "floats", "tensor(int64)": "int64s", "tensor(string)": "strings"}[text]
            attributes[f"keys_{kind}"] = as_type(numbers.astype(float), text).tolist()

    @staticmethod
    def kept(value, allowed):
        actual = type_text(value)
        if actual in allowed:
            return actual
        for other in ("tensor(float)", "tensor(int64)", "seq(tensor(float))"):
            if other in allowed and isinstance(value, list) == other.startswith("seq("):
                return other
        return allowed[0]

    def bind_output(self, variable, text, attributes):
        attribute = BY_ATTRIBUTE.get((self.op, variable))
        if attribute:
            attributes[attribute] = elem_of(text) if self.schema.attributes[attribute].type != 3 else text[7:-1].upper()
        elif self.op in ("Constant", "ConstantOfShape"):
            for k in [k for k in attributes if k.startswith("value")]:
                del attributes[k]
            shape = (2, 3) if self.op == "Constant" else (1,)
            made = converted(np.arange(1, 1 + np.prod(shape), dtype=np.float64).reshape(shape), text)
            attributes["value"] = numpy_helper.from_array(made, "value")
        elif self.op == "SequenceEmpty":
            attributes["dtype"] = elem_of(text)
        else:
            raise Unfit(NOT_AN_INPUT)


# ---------------------------------------------------------------- nodes whose result is known
NUMBERS = np.array([[0, 1, 2], [3, 1, 0]], np.float64)  # that every type has, at least in part


def sample(text, count=0):
    """A tensor of the type, or a sequence of such."""
    if text.startswith("optional("):
        return sample(text[9:-1], count)
    if text.startswith("seq("):
        return [as_type(NUMBERS, text), as_type(NUMBERS[:1], text)]
    return as_type(NUMBERS[:, count:], text)


def type_of(text, shape=None):
    """The TypeProto of a type in a schema's words."""
    if text.startswith("optional("):
        return helper.make_optional_type_proto(type_of(text[9:-1], shape))
    if text.startswith("seq("):
        return helper.make_sequence_type_proto(type_of(text[4:-1]))
    return helper.make_tensor_type_proto(elem_of(text), shape)


def info(name, text, shape=None):
    return helper.make_value_info(name, type_of(text, shape))


def identity_graph(name, inputs, text, outputs, more=()):
    """A body that copies the value `v`."""
    nodes = [helper.make_node("Identity", [v], [o]) for v, o in outputs]
    return helper.make_graph(nodes, name, inputs, [*more, *(info(o, text) for _, o in outputs)])


def build_if(schema, variable, text):
    """if (b) y = v else y = v, of an outer value."""
    if variable == "B":
        text = "tensor(float)"
    if text.startswith("seq(") and text not in onnx.defs.get_schema("Identity").type_constraints[0].allowed_type_strs:
        raise Unfit("no operator makes such a sequence")
    bodies = {f"{k}_branch": identity_graph(k, [], text, [("v", f"{k}_y")]) for k in ("then", "else")}
    value = sample(text)
    return helper.make_node("If", ["b"], ["y"], "node", **bodies), {"b": np.array(True), "v": value}, [value]


def build_loop(schema, variable, text):
    """Three iterations that carry v and, if it is a tensor, list it."""
    if variable in "IB":
        text = "tensor(float)"
    value, listed = sample(text), is_tensor(text)
    inputs = [info("i", "tensor(int64)", []), info("more", "tensor(bool)", []), info("u", text)]
    copied = [] if text.startswith("seq(") else [("u", "w")] + [("u", "seen")] * listed  # no operator copies all sequences
    body = identity_graph("body", inputs, text, copied, [info("again", "tensor(bool)", [])])
    if not copied:
        body.output.append(info("u", text))
    body.node.append(helper.make_node("Identity", ["more"], ["again"]))
    node = helper.make_node("Loop", ["n", "b", "v"], ["y", "all"][:1 + listed], "node", body=body)
    return node, {"n": np.array(3), "b": np.array(True), "v": value}, [value] + ([np.stack([value] * 3)] if listed else [])


def build_scan(schema, variable, text):
    """Carries u and copies the rows of v."""
    if variable == "I":
        text = "tensor(float)"
    value, start = sample(text), sample(text, 1)
    shape = list(start.shape)
    body = identity_graph("body", [info("s", text, shape), info("row", text, [3])], text, [("s", "t"), ("row", "copy")])
    values, inputs, outputs = {"u": start, "v": value}, ["u", "v"], [start, value]
    if schema.since_version == 8:  # a batch, and lengths of its sequences
        values, inputs, outputs = {k: v[None] for k, v in values.items()}, ["", "u", "v"], [v[None] for v in outputs]
    return helper.make_node("Scan", inputs, ["last", "y"], "node", body=body, num_scan_inputs=1), values, outputs


def build_sequence_map(schema, variable, text):
    """Copies the items of a sequence and, for the other variable, of a second one or a tensor."""
    body_text = text if is_tensor(text) else text[4:-1]
    value = sample(f"seq({body_text})")
    names = ["v"]
    values = {"v": value}
    body = identity_graph("body", [info("item", body_text)], body_text, [("item", "copy")])
    outputs = [value]
    if variable == "V":
        values["w"] = sample(text)
        names.append("w")
        body.input.append(info("other", body_text))
        body.node.append(helper.make_node("Identity", ["other"], ["copy2"]))
        body.output.append(info("copy2", body_text))
        outputs.append(values["w"] if isinstance(values["w"], list) else [values["w"]] * 2)
    return helper.make_node("SequenceMap", names, ["y", "z"][:len(outputs)], "node", body=body), values, outputs


def build_identity(schema, variable, text):
    value = sample(text)
    return helper.make_node("Identity", ["v"], ["y"], "node"), {"v": value}, [value]


def build_optional(schema, variable, text):
    inner = text[9:-1] if text.startswith("optional(") else text
    value = sample(inner)
    return helper.make_node("Optional", ["v"], ["y"], "node"), {"v": value}, [value]


def build_get_element(schema, variable, text):
    value = sample(text if variable == "O" else f"optional({text})")
    return helper.make_node("OptionalGetElement", ["v"], ["y"], "node"), {"v": value}, [value]


def build_has_element(schema, variable, text):
    value = sample("tensor(float)" if variable == "B" else text)
    return helper.make_node("OptionalHasElement", ["v"], ["y"], "node"), {"v": value}, [np.array(True)]


def build_bit_cast(schema, variable, text):
    """Bits as the unsigned integers of their width, or from these."""
    value = sample(text)
    bits = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}.get(value.dtype.name, value.dtype.itemsize * 8)
    other = {2: "uint2", 4: "uint4", 128: "complex128"}.get(bits, f"uint{bits}")
    raw = value.view(np.uint8) if bits < 8 else value
    if bits == 2:
        raw = raw & 3
    elif bits == 4:
        raw = raw & 15
    wanted = helper.tensor_dtype_to_np_dtype(elem_of(f"tensor({other})"))
    numbers = raw.astype(wanted) if bits < 8 else value.view(wanted)
    one, two = (value, numbers) if variable == "T1" else (numbers, value)
    to = elem_of(f"tensor({other})") if variable == "T1" else elem_of(text)
    return helper.make_node("BitCast", ["x"], ["y"], "node", to=to), {"x": one}, [two]


def build_sequence(schema, variable, text):
    """Sequences of tensors of one type, by the operators that make, change and read them."""
    inner = text[4:-1] if text.startswith("seq(") else text
    op, position = schema.name, np.array(1, np.int64)
    if variable == "I":
        inner, position = "tensor(float)", np.array(1, helper.tensor_dtype_to_np_dtype(elem_of(text)))
    items = [sample(inner), sample(inner)[:1]]
    tensor = sample(inner)
    results = {
        "SequenceConstruct": ({"a": items[0], "b": items[1]}, {}, [items]),
        "SequenceInsert": ({"s": items, "t": tensor, "p": position}, {}, [[items[0], tensor, items[1]]]),
        "SequenceErase": ({"s": items, "p": position}, {}, [items[:1]]),
        "SequenceAt": ({"s": items, "p": position}, {}, [items[1]]),
        "SequenceLength": ({"s": items}, {}, [np.array(2)]),
        "SequenceEmpty": ({}, {"dtype": elem_of(inner)}, [[]]),
        "ConcatFromSequence": ({"s": items}, {"axis": 0}, [np.concatenate(items)]),
        "SplitToSequence": ({"t": np.concatenate(items), "n": np.array([2, 1], position.dtype)}, {"axis": 0}, [items]),
    }
    values, attributes, outputs = results[op]
    return helper.make_node(op, list(values), ["y"], "node", **attributes), values, outputs


def build_random(schema, variable, text):
    """Distributions with one possible result."""
    op, dtype = schema.name, TensorProto.FLOAT
    if op.endswith("Like"):
        like = sample(text if variable == "T1" else "tensor(float)")
        dtype = elem_of(text) if variable == "T2" else dtype
        names, values, shape = ["x"], {"x": like}, like.shape
    else:
        dtype, names, values, shape = elem_of(text), [], {}, (2, 3)
    given = {"dtype": dtype, "mean": 2.0, "scale": 0.0} if "Normal" in op else {"dtype": dtype, "low": 2.0, "high": 2.0}
    if not names:
        given["shape"] = shape
    result = np.full(shape, 2).astype(helper.tensor_dtype_to_np_dtype(dtype))
    return helper.make_node(op, names, ["y"], "node", **given), values, [result]


def build_draw(schema, variable, text):
    """Bernoulli with probabilities 0 and 1; Multinomial with one class that has nearly all weight."""
    source, wanted = (text, "tensor(int32)") if variable == "T1" else ("tensor(float)", text)
    if schema.name == "Bernoulli":
        result = np.minimum(NUMBERS, 1)
        return (helper.make_node("Bernoulli", ["x"], ["y"], "node", dtype=elem_of(wanted)), {"x": as_type(result, source)},
                [as_type(result, wanted)])
    weights = np.array([[-50, 50, -50], [50, -50, -50]])
    return (helper.make_node("Multinomial", ["x"], ["y"], "node", dtype=elem_of(wanted), sample_size=4),
            {"x": as_type(weights, source)}, [as_type(np.array([[1] * 4, [0] * 4]), wanted)])


def build_cast(schema, variable, text):
    """Between a type and float, by attribute or by the type of a second input."""
    value, number = sample(text), sample("tensor(float)")
    if text == "tensor(string)":
        number, value = number.astype(np.int64), np.array([[f"{x:.0f}" for x in row] for row in NUMBERS], object)
    else:
        number = value.astype(np.float32)
    one, two = (value, number) if variable == "T1" else (number, value)
    if schema.name == "CastLike":
        return helper.make_node("CastLike", ["x", "like"], ["y"], "node"), {"x": one, "like": two[:1]}, [two]
    to = elem_of(type_text(two))
    to = TensorProto.DataType.Name(to) if schema.since_version < 6 else to
    return helper.make_node("Cast", ["x"], ["y"], "node", to=to), {"x": one}, [two]


def build_constant(schema, variable, text):
    value = sample(text)
    return helper.make_node("Constant", [], ["y"], "node", value=numpy_helper.from_array(value)), {}, [value]


def build_quantised_product(schema, variable, text):
    """Exact products, stored as the wanted type; None: the evaluators have the case."""
    if variable != "T3" or "float8" not in text:
        return None
    one, zero = np.float32(1), np.zeros((), np.uint8)
    a, b = as_type(NUMBERS, "tensor(uint8)"), as_type(NUMBERS.T, "tensor(uint8)")
    values = {"a": a, "as": one, "az": zero, "b": b, "bs": one, "bz": zero, "ys": one * 2, "yz": as_type(np.zeros(()), text)}
    return helper.make_node("QLinearMatMul", list(values), ["y"], "node"), values, [as_type(NUMBERS @ NUMBERS.T / 2, text)]


BUILT = {"QLinearMatMul": build_quantised_product, "Cast": build_cast, "CastLike": build_cast, "Constant": build_constant, "If": build_if, "Loop": build_loop, "Scan": build_scan, "SequenceMap": build_sequence_map, "Identity": build_identity,
         "Optional": build_optional, "OptionalGetElement": build_get_element, "OptionalHasElement": build_has_element,
         "BitCast": build_bit_cast, "Bernoulli": build_draw, "Multinomial": build_draw,
         **dict.fromkeys(("SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength",
                          "SequenceEmpty", "ConcatFromSequence", "SplitToSequence"), build_sequence),
         **dict.fromkeys(("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"), build_random)}


def built_model(schema, node, values, outputs, variable, text):
    """The model of such a node, with the types of the standard."""
    def text_of(value):
        return type_text(value) if not (isinstance(value, list) and not value) else (text if text.startswith("seq(") else "seq(tensor(float))")

    optional_in = node.op_type in ("OptionalGetElement", "OptionalHasElement") and variable != "B" and not (
        variable == "O" and not text.startswith("optional("))
    infos = []
    for name, value in values.items():
        kind = text_of(value)
        infos.append(info(name, f"optional({kind})" if optional_in else kind, None if isinstance(value, list) else value.shape))
    ends = [info(n, f"optional({text_of(v)})" if node.op_type == "Optional" or (node.op_type in ("Identity", "If", "Loop") and text.startswith("optional(")) else text_of(v))
            for n, v in zip(node.output, outputs)]
    if node.op_type in ("Identity", "If", "Loop") and text.startswith("optional("):
        for at, i in enumerate(infos):
            if i.name == "v":
                infos[at] = info("v", text)
    graph = helper.make_graph([node], f"{schema.name}_{schema.since_version}", infos, ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", schema.since_version)], ir_version=10,
                             producer_name="onnxc tests")


# ---------------------------------------------------------------- what is right
def is_wrong(text):
    """The class of a type, for the table below."""
    return next((k for k in ("string", "complex", "int", "bool") if k in text), "float")


# Where the reference evaluator gives wrong answers: GridSample truncates its weights to the type of X, Resize drops imaginary
# parts, Trilu fills strings with numbers.
REFERENCE_WRONG = {("TreeEnsembleRegressor", "int"), ("LinearRegressor", "int"), ("SVMRegressor", "int"), ("GridSample", "int"), ("GridSample", "bool"), ("Resize", "complex"), ("Upsample", "complex"),
                   ("Trilu", "string"), ("GridSample", "string")}


def reference(schema, node, values):
    return vc.by_reference(schema, node, values)


def stand_in(case, variable, text):
    """The results of the same node on numbers, with elements of the wanted type in place of these."""
    schema = case.schema
    constraint = {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints}[variable]
    node, values = case.bind(variable, text)
    exact = case.op in MOVES and (case.op not in SAMPLES or text == "tensor(string)")
    wide = [t for t in (["tensor(int64)", "tensor(int32)"] if exact else []) + ["tensor(double)", "tensor(float)"]
            if t in constraint and t != text]
    if not wide:
        raise Unfit("no type that could stand in")
    if case.op in SAMPLES and text == "tensor(string)" and case.attributes.get("mode", b"linear" if case.op == "GridSample" else b"nearest") != b"nearest":
        raise Unfit("strings cannot be added")
    for t in wide:
        results, why = vc.attempt(stand_in_as, case, node, values, variable, text, t)
        if results is not None:
            return results
    raise Unfit(why)


def stand_in_as(case, node, values, variable, text, wide):
    schema, node = vc.as_other_version(case.schema, node)
    exact, elements = case.op in MOVES and "int" in wide, {}
    if not exact and "complex" in text:  # a linear operator
        parts = [{k: v.real if np.iscomplexobj(v) else v for k, v in values.items()},
                 {k: v.imag if np.iscomplexobj(v) else v for k, v in values.items()}]
        real, imaginary = (vc.by_reference(schema, node, p) for p in parts)
        return [r + 1j * i for r, i in zip(real, imaginary)]

    def numbered(value):
        if isinstance(value, list):
            return [numbered(v) for v in value]
        made = np.zeros(value.shape, np.int64)
        for at, x in np.ndenumerate(value):
            key = repr(x)
            zero = x == "" if isinstance(x, str) else not x
            made[at] = 0 if zero else elements.setdefault(key, (len(elements) + 1, x))[0]
        return made

    def back(value, like):
        if isinstance(value, list):
            return [back(v, like) for v in value]
        by_number = dict(elements.values())
        zero = "" if like == object else np.zeros((), like)[()]
        made = np.empty(value.shape, like)
        for at, x in np.ndenumerate(value):
            made[at] = by_number[int(x)] if int(x) else zero
        return made

    inputs = {}
    for formal, name in zip(case.formals, case.names):
        if not name:
            continue
        value = values[name]
        if formal.type_str == variable:
            value = converted(numbered(value) if exact and case.op != "Unique" else value, wide)
        inputs[name] = value
    results, why = vc.attempt(reference, schema, node, inputs)
    if results is None and case.op not in TRUSTED:
        results, why = vc.attempt(vc.by_runtime, schema, node, inputs)
    if results is None:
        raise Unfit(why)
    like = object if elem_of(text) == TensorProto.STRING else helper.tensor_dtype_to_np_dtype(elem_of(text))
    formal_out = list(schema.outputs)
    outs = []
    for j, r in enumerate(results):
        formal = formal_out[min(j, len(formal_out) - 1)]
        if formal.type_str != variable:
            outs.append(r)
        elif exact and case.op != "Unique":
            outs.append(back(r, like))
        else:
            outs.append(converted(r, text))
    return outs


def right(case, variable, text):
    schema = case.schema
    node, values = case.bind(variable, text)
    arrays = [v for v in values.values() if isinstance(v, np.ndarray)]
    rtol, atol = vc.tolerances(arrays)
    if (case.op, is_wrong(text)) in REFERENCE_WRONG or case.op in ("DFT", "STFT") and variable == "T1":
        return node, values, stand_in(case, variable, text), "stand-in"
    if text == "tensor(string)" and (case.op == "Col2Im" or case.reduction != b"none"):
        raise Unfit("strings cannot be added")
    if "complex" in text and case.reduction in (b"min", b"max"):
        raise Unfit("complex numbers have no order")
    trusted = TRUSTED.get(case.op, vc.TRUSTED.get(case.op, lambda v: "ort" if schema.domain else "any"))(schema.since_version)
    schema, other = vc.as_other_version(schema, node)
    by_reference, why = vc.attempt(reference, schema, other, values)
    by_runtime, why_runtime = vc.attempt(vc.by_runtime, schema, other, values)
    if by_reference is not None and by_runtime is not None:
        if vc.agree(by_reference, by_runtime, rtol, atol):
            return node, values, by_runtime, "both"
        return node, values, by_runtime if trusted == "ort" else by_reference, "differ"
    if trusted == "reference" and by_reference is None:
        return node, values, stand_in(case, variable, text), "stand-in"
    if by_runtime is not None:
        return node, values, by_runtime, "runtime"
    if by_reference is not None:
        return node, values, by_reference, "reference"
    return node, values, stand_in(case, variable, text), "stand-in"


# As in version_cases.py; ONNX Runtime omits base values of targets without leaves, and takes labels of one class for binary
# ones. The reference evaluator normalises by the largest absolute value instead of the largest number.
TRUSTED = dict.fromkeys(("TreeEnsembleRegressor", "TreeEnsembleClassifier"), lambda v: "reference")


def with_types(case, variable, text, outputs):
    """The outputs in the types to which the variables are bound."""
    formals, typed = list(case.schema.outputs), []
    for j, value in enumerate(outputs):
        var = formals[min(j, len(formals) - 1)].type_str
        wanted = text if var == variable else case.bound.get(var, var)
        same = isinstance(value, np.ndarray) and is_tensor(wanted) and type_text(value) != wanted
        typed.append(as_type(value, wanted) if same else value)
    return typed


def one_case(schema, source, variable, text):
    made = Case(schema, source)
    if sum(v.size for v in made.values.values() if isinstance(v, np.ndarray)) > 20000:
        raise Unfit("large")
    if source.answer and any(vc.tensor_text(v) == "tensor(string)" for v in made.values.values()) != ("string" in text):
        raise Unfit("another kind of type")
    if source.answer:
        node, values = made.bind(variable, text)
        outputs, how = source.answer(values, {a.name: helper.get_attribute_value(a) for a in node.attribute}), "known"
    else:
        node, values, outputs, how = right(made, variable, text)
    outputs = with_types(made, variable, text, outputs)
    if any(isinstance(o, np.ndarray) and o.dtype == object and not all(isinstance(x, (str, bytes)) for x in o.ravel()) for o in outputs):
        raise Unfit("the reference evaluator fills strings with numbers")
    infos = [vc.value_info(n, o) for n, o in zip([o for o in node.output if o], outputs)]
    return vc.model_of(schema, node, values, infos), list(values.values()), outputs, how


def cases_of(schema, starts, variable, text):
    """The first case that can be made of the sources; of types that operators rarely have, one for each set of attributes."""
    if schema.name in BUILT and not schema.domain and not text.startswith(("map", "sparse")):
        built = BUILT[schema.name](schema, variable, text)
        if built:
            node, values, outputs = built
            return [(built_model(schema, node, values, outputs, variable, text), list(values.values()), outputs, "known")]
    why = collections.Counter()
    found, most = {}, 6 if any(k in text for k in ("string", "complex", "bool", *SMALL)) else 1
    for source in starts:
        if len(found) == most:
            break
        sign = b"".join(a.SerializeToString() for a in source.node.attribute)
        try:
            if sign not in found and not (source.applies and not source.applies(schema.since_version)):
                found[sign] = one_case(schema, source, variable, text)
        except Unfit as e:
            why[str(e)] += 1
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError, onnx.checker.ValidationError) as e:
            why[f"{type(e).__name__} {str(e)[:80]}"] += 1
    if not found:
        raise Unfit(why.most_common(1)[0][0] if why else "no case of this operator to start from")
    return list(found.values())


def write_cases(out, label, folder, cases, counts):
    for k, (model, inputs, outputs, how) in enumerate(cases):
        counts[how] += 1
        if how == "differ":
            print(f"differ {label}")
        rtol, atol = vc.tolerances([v for v in inputs + list(outputs) if isinstance(v, np.ndarray)])
        write_case(os.path.join(out, f"{folder}-{k}" if k else folder), model, [(inputs, outputs)], rtol, atol)


def main():
    out = sys.argv[1]
    stamp = Stamp(out, __file__, vc.__file__, version_extra.__file__)
    if stamp.fresh():
        return
    stamp.begin()
    ort.set_default_logger_severity(4)
    starts, counts = vc.sources(), collections.Counter()
    for (domain, op), schemas in vc.all_schemas().items():
        for schema in schemas:
            age = "newest" if schema is schemas[-1] else "older"
            for constraint in schema.type_constraints:
                for text in sorted(constraint.allowed_type_strs):
                    variable = constraint.type_param_str
                    label = f"{op}-{schema.since_version} {variable} {text}"
                    folder = os.path.join(age, f"{domain}.{op}" if domain else op,
                                          f"{schema.since_version}-{variable}-{text.replace('(', '_').replace(')', '')}")
                    try:
                        write_cases(out, label, folder, cases_of(schema, starts.get((domain, op), []), variable, text), counts)
                    except Unfit as e:
                        if str(e) != NOT_AN_INPUT:
                            print(f"skip {label}: {e}")
    stamp.done()
    print(f"{sum(counts.values())} cases: " + ", ".join(f"{v} {k}" for k, v in counts.items()))


if __name__ == "__main__":
    main()
