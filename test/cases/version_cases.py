"""Writes cases for every operator version that the installed onnx package lists, as folders that `onnxc test` takes.

usage: version_cases.py OUT       OUT/OPERATOR/VERSION-K/...; `skip OPERATOR-VERSION: reason` where there is none

A case starts from one of ONNX's own node cases of the operator (made for its newest version) or from version_extra.py.
It is turned into the older version: inputs that were attributes go back, attributes and dtypes that the version does not
have are given up, dtypes vary. What is right is what the reference evaluator and ONNX Runtime (optimisations off) agree
on; where only one of them can run the version, that one; TRUSTED says which one when they differ.
"""
import collections
import hashlib
import os
import random
import sys
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, defs, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.reference import ReferenceEvaluator

from case_files import Stamp, write_case
from version_extra import EXTRA, Source

PER_VERSION = 4  # cases of an operator version
TRIES = 14       # candidates tried for them

# Where one evaluator is known to be wrong, by operator: a function of the version that names the right one.
TRUSTED = {
    # the reference normalises along one axis, while versions before 13 flatten
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), lambda v: "ort" if v < 13 else "both"),
    "BatchNormalization": lambda v: "ort" if v < 14 else "both",
    "Resize": lambda v: "ort" if v < 13 else "both",
    "RoiAlign": lambda v: "ort" if v < 16 else "both",
}
# Versions that no evaluator has, and another one that means the same for the attributes that both have.
SAME_AS = {("AveragePool", 1): 7, ("RNN", 1): 7, ("Clip", 1): 6, ("Dropout", 6): 7, ("Dropout", 1): 7,
           ("BatchNormalization", 1): 7, ("BatchNormalization", 6): 7, ("LpPool", 1): 2, ("GlobalLpPool", 1): 2,
           ("MaxRoiPool", 22): 1}
# Attributes without influence on the result that only the old version has, or whose type changed.
IGNORED = {"consumed_inputs", "is_test"}
# Elementwise operators that did not broadcast by themselves before version 7.
EQUAL_SHAPES = {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", "PRelu", "Gemm"}

# Inputs that were attributes before a version: {operator: (version, {input: attribute})}.
MOVED = {
    "Squeeze": (13, {1: "axes"}), "Unsqueeze": (13, {1: "axes"}), "ReduceSum": (13, {1: "axes"}),
    **{f"Reduce{k}": (18, {1: "axes"}) for k in
       ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")},
    "Clip": (11, {1: "min", 2: "max"}), "Slice": (10, {1: "starts", 2: "ends", 3: "axes"}),
    "Pad": (11, {1: "pads", 2: "value"}), "Dropout": (12, {1: "ratio"}), "TopK": (10, {1: "k"}),
    "Split": (13, {1: "split"}), "Upsample": (9, {1: "scales"}), "Reshape": (5, {1: "shape"}),
    "DFT": (20, {2: "axis"}),
}
# Attributes that had another name: {operator: (version, {new: old})}.
RENAMED = {"Pad": (2, {"pads": "paddings"})}
# Random results, and functions of training that no inference model has.
NOT_COMPARED = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}

INTS = ("tensor(int8)", "tensor(int16)", "tensor(int32)", "tensor(int64)", "tensor(uint8)", "tensor(uint16)",
        "tensor(uint32)", "tensor(uint64)")
FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)", "tensor(bfloat16)")


class Unfit(Exception):
    """This candidate cannot be made or checked in this version."""


def all_schemas():
    """{(domain, operator): [schema of every version, old to new]}"""
    table = collections.defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if not schema.deprecated:
            table[schema.domain, schema.name].append(schema)
    return {k: sorted(v, key=lambda s: s.since_version) for k, v in sorted(table.items())}


def sources():
    """{(domain, operator): [Source]}: the node cases with a single node, and version_extra.py."""
    table = collections.defaultdict(list)
    for case in load_model_tests(kind="node"):
        graph = case.model.graph
        if len(graph.node) != 1 or graph.initializer or not case.data_sets:
            continue
        node = graph.node[0]
        values = dict(zip([i.name for i in graph.input], case.data_sets[0][0]))
        table[node.domain, node.op_type].append(Source(node, values))
    table.update({k: table[k] + v for k, v in EXTRA.items()})
    return table


# ---------------------------------------------------------------- going back to an older version
def tensor_text(array):
    """The type of an array in a schema's words."""
    if array.dtype == object or array.dtype.kind in "US":
        return "tensor(string)"
    name = TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(array.dtype)).lower()
    return f"tensor({name})"


def array_type(text):
    return helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(text[7:-1].upper()))


def as_array(value):
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def move_inputs(op, version, names, values, attributes):
    """Inputs that were attributes in this version become attributes."""
    since, moved = MOVED.get(op, (0, {}))
    if version >= since:
        return
    for at, attribute in moved.items():
        if at >= len(names) or not names[at]:
            continue
        value = values.pop(names[at])
        attributes[attribute] = value.item() if value.ndim == 0 or attribute == "k" else value.tolist()
    if op == "Slice" and len(names) > 4 and names[4] and np.any(values.pop(names[4]) != 1):
        raise Unfit("steps")
    if op == "Pad" and len(names) > 3 and names[3]:
        raise Unfit("axes")
    first = min(moved)
    if op == "Dropout" and len(names) > 2 and names[2] and values.pop(names[2]):
        raise Unfit("training")
    del names[first:]


def fit_attributes(schema, attributes):
    """Drops attributes that the version lacks, where they have their default value."""
    since, renamed = RENAMED.get(schema.name, (0, {}))
    for new, old in renamed.items():
        if schema.since_version < since and new in attributes:
            attributes[old] = attributes.pop(new)
    newest = defs.get_schema(schema.name, domain=schema.domain)
    for name in list(attributes):
        if name in schema.attributes:
            continue
        default = newest.attributes[name].default_value if name in newest.attributes else None
        if default is None or not default.name or helper.get_attribute_value(default) != attributes[name]:
            raise Unfit(f"attribute '{name}'")
        del attributes[name]
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in attributes:
            raise Unfit(f"no attribute '{name}'")


def formal_inputs(schema, names):
    """The formal parameter of each actual input."""
    formals = list(schema.inputs)
    if not formals:
        if names:
            raise Unfit("inputs")
        return []
    variadic = formals[-1].option == defs.OpSchema.FormalParameterOption.Variadic
    if len(names) > len(formals) and not variadic:
        raise Unfit("inputs")
    return [formals[min(i, len(formals) - 1)] for i in range(len(names))]


def cast(array, text):
    """The same numbers in another dtype, as far as it has them."""
    wanted = array_type(text)
    if array.dtype == wanted:
        return array
    if text == "tensor(string)" or array.dtype == object:
        raise Unfit("strings")
    numbers = array.astype(np.float64)
    if text == "tensor(bool)":
        return numbers != 0
    if text in INTS:
        limits = np.iinfo(wanted)
        numbers = np.abs(numbers) if limits.min == 0 else numbers
        return np.clip(numbers, limits.min, min(limits.max, 2**31)).astype(wanted)
    made = numbers.astype(wanted)
    if np.any(np.isfinite(numbers) & ~np.isfinite(made.astype(np.float64))):
        raise Unfit("numbers too large for the dtype")
    return made


def choose_types(schema, formals, names, values, dice):
    """Casts all inputs of each type variable to one dtype that the version allows, a different one in each case."""
    chosen = {}
    for formal, name in zip(formals, names):
        if not name or not isinstance(values[name], np.ndarray):
            continue
        array = values[name]
        allowed = sorted(t for t in formal.types if t.startswith("tensor("))
        actual = tensor_text(array)
        if formal.type_str not in chosen:
            family = [t for t in allowed if t in INTS] if actual in INTS else [t for t in allowed if t in FLOATS]
            others = [t for t in allowed if t in FLOATS + INTS]
            pool = family or others
            if actual in allowed and (dice.random() < 0.4 or actual not in FLOATS + INTS):
                chosen[formal.type_str] = actual
            elif pool:
                chosen[formal.type_str] = dice.choice(pool if actual in allowed or family else others)
            else:
                raise Unfit(f"dtype {actual}")
        values[name] = cast(array, chosen[formal.type_str])


def need_equal_shapes(schema, names, values):
    if schema.name in EQUAL_SHAPES and schema.since_version < 7 and len({values[n].shape for n in names}) > 1:
        raise Unfit("shapes that this version does not broadcast")


def candidate(schema, source, dice):
    """A model of this version and its inputs."""
    node, values = source.node, {k: as_array(v) for k, v in source.values.items()}
    names = list(node.input)
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    move_inputs(schema.name, schema.since_version, names, values, attributes)
    while names and not names[-1]:
        names.pop()
    if len(names) < schema.min_input:
        raise Unfit("too few inputs")
    formals = formal_inputs(schema, names)
    fit_attributes(schema, attributes)
    if not source.applies:
        need_equal_shapes(schema, names, values)
    if not any(a.g.node or a.graphs for a in node.attribute) and not source.answer:
        choose_types(schema, formals, names, values, dice)
    outputs = list(node.output)[: schema.max_output]
    if any(isinstance(v, list) and not v for v in attributes.values()):
        raise Unfit("an empty attribute")
    made = helper.make_node(schema.name, names, outputs, "node", domain=schema.domain, **attributes)
    return made, {n: values[n] for n in names if n}


# ---------------------------------------------------------------- what is right
def value_info(name, value):
    if value is None or isinstance(value, dict):
        raise Unfit("a value that is not a tensor and no sequence")
    if isinstance(value, list):
        first = value[0] if value else np.zeros(0, np.float32)
        return helper.make_tensor_sequence_value_info(name, helper.np_dtype_to_tensor_dtype(first.dtype), None)
    dtype = TensorProto.STRING if value.dtype == object or value.dtype.kind in "US" else helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, dtype, value.shape)


def model_of(schema, node, values, outputs):
    """outputs: {name: value} once known, else only names."""
    graph = helper.make_graph([node], f"{schema.name}_{schema.since_version}",
                              [value_info(k, v) for k, v in values.items()], outputs)
    opsets = [helper.make_opsetid(schema.domain, schema.since_version)]
    if schema.domain:
        opsets.append(helper.make_opsetid("", 17))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="onnxc tests")


def untyped(names):
    infos = [onnx.ValueInfoProto() for _ in names]
    for info, name in zip(infos, names):
        info.name = name
    return infos


def by_reference(schema, node, values):
    names = [o for o in node.output if o]
    model = model_of(schema, node, values, untyped(names))
    results = [r if isinstance(r, (list, dict)) else np.asarray(r) for r in ReferenceEvaluator(model).run(None, values)]
    known, _ = attempt(inferred, schema, node, values)
    for info, result in zip(known.graph.output if known else [], results):
        if info.type.HasField("tensor_type") and isinstance(result, np.ndarray):
            check_dtype(info.type.tensor_type.elem_type, result)
    return results


def check_dtype(elem_type, result):
    """The reference evaluator now and then answers in the dtype of the wrong input."""
    if elem_type not in (0, TensorProto.STRING) and helper.tensor_dtype_to_np_dtype(elem_type) != result.dtype:
        raise Unfit("the reference evaluator gives another dtype")


def inferred(schema, node, values):
    """Output types as shape inference gives them: ONNX Runtime wants the dtype."""
    model = model_of(schema, node, values, untyped([o for o in node.output if o]))
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def for_runtime(array):
    if array.dtype.name == "bfloat16" or array.dtype.name.startswith(("float8", "int4", "uint4", "float4", "int2", "uint2")):
        raise Unfit("dtype that its Python binding does not take")
    return array


def by_runtime(schema, node, values):
    model = inferred(schema, node, values)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    feeds = {k: [for_runtime(x) for x in v] if isinstance(v, list) else for_runtime(v) for k, v in values.items()}
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = session.run(None, feeds)
    return results


def tolerances(arrays):
    """(rtol, atol) by the least precise dtype of the case: results of different but sound orders of rounding agree."""
    names = {a.dtype.name for a in arrays if isinstance(a, np.ndarray)}
    if any(n.startswith("float8") or n.startswith("float4") for n in names):
        return 0.13, 1e-2
    if "bfloat16" in names:
        return 2e-2, 2e-2
    if "float16" in names:
        return 4e-3, 2e-3
    return 1e-3, 1e-6


def agree(one, two, rtol, atol):
    if len(one) != len(two):
        return False
    for a, b in zip(one, two):
        if isinstance(a, list) or isinstance(b, list):
            if type(a) is not type(b) or not agree(a, b, rtol, atol):
                return False
            continue
        if a.shape != b.shape or (a.dtype != b.dtype and {a.dtype.kind, b.dtype.kind} - set("OUS")):
            return False
        if a.dtype == object or a.dtype.kind in "US":
            if a.astype(str).tolist() != b.astype(str).tolist():
                return False
        elif a.dtype.kind in "cfV" or a.dtype.name == "bfloat16":
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            if not np.allclose(a.astype(wide), b.astype(wide), rtol, atol, equal_nan=True):
                return False
        elif not np.array_equal(a, b):
            return False
    return True


def attempt(function, *arguments):
    """The result, or why there is none."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function(*arguments), ""
    except Exception as e:  # noqa: BLE001 an evaluator may fail in any way
        return None, str(e).strip().split("\n")[0][:100] or type(e).__name__


def as_other_version(schema, node):
    """The node in the version that stands for it in SAME_AS."""
    other = SAME_AS.get((schema.name, schema.since_version))
    if not other:
        return schema, node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for a in node.attribute:
        value = helper.get_attribute_value(a)
        if a.name not in IGNORED:
            copy.attribute.append(helper.make_attribute(a.name, int(value) if a.name == "p" else value))
    return defs.get_schema(schema.name, other, schema.domain), copy


def expected(schema, node, values, rtol, atol):
    """The right outputs; Unfit where nobody knows them."""
    schema, node = as_other_version(schema, node)
    reference, why_reference = attempt(by_reference, schema, node, values)
    runtime, why_runtime = attempt(by_runtime, schema, node, values)
    trusted = TRUSTED.get(schema.name, lambda v: "both")(schema.since_version)
    if reference is not None and runtime is not None:
        if agree(reference, runtime, rtol, atol):
            return runtime
        if trusted == "both":
            raise Unfit("the evaluators disagree")
        return runtime if trusted == "ort" else reference
    if reference is not None and trusted != "ort":
        return reference
    if runtime is not None and trusted != "reference":
        return runtime
    raise Unfit(f"reference: {why_reference or 'not trusted'}; runtime: {why_runtime or 'not trusted'}")


# ---------------------------------------------------------------- cases
def make_case(schema, source, dice):
    node, values = candidate(schema, source, dice)
    arrays = [v for v in values.values() if isinstance(v, np.ndarray)]
    if sum(a.size for a in arrays) > 20000:
        raise Unfit("large")
    rtol, atol = tolerances(arrays)
    if source.answer:
        outputs = source.answer(values, {a.name: helper.get_attribute_value(a) for a in node.attribute})
    else:
        _, wrong = attempt(onnx.checker.check_node, node, checker_context(schema))
        if wrong:
            raise Unfit(wrong)
        outputs = expected(schema, node, values, rtol, atol)
    if any(isinstance(o, np.ndarray) and o.size > 20000 for o in outputs):
        raise Unfit("large")
    rtol, atol = tolerances(arrays + list(outputs))
    infos = [value_info(n, o) for n, o in zip([o for o in node.output if o], outputs)]
    return model_of(schema, node, values, infos), list(values.values()), outputs, rtol, atol


def checker_context(schema):
    context = onnx.checker.C.CheckerContext()
    context.ir_version = 10
    context.opset_imports = {schema.domain: schema.since_version, **({"": 17} if schema.domain else {})}
    return context


def signature(model, inputs):
    """What makes a case different from another one: dtypes, attributes, ranks."""
    node = model.graph.node[0]
    kinds = [(str(i.dtype), i.ndim) if isinstance(i, np.ndarray) else "seq" for i in inputs]
    return str(kinds) + "".join(a.SerializeToString().hex() for a in node.attribute)


def version_cases(schema, candidates):
    """Up to PER_VERSION cases, and why there are none."""
    name = f"{schema.name}-{schema.since_version}"
    dice = random.Random(int(hashlib.sha256(f"{schema.domain} {name}".encode()).hexdigest()[:8], 16))
    extra = [s for s in candidates if s.applies and s.applies(schema.since_version)]
    plain = [s for s in candidates if not s.applies]
    order = extra + [plain[i] for i in dice.sample(range(len(plain)), len(plain))]
    if not order:
        return [], "no case of this operator to start from"
    cases, seen, why = [], set(), collections.Counter()
    for source in (order * TRIES)[: max(TRIES, len(extra))]:
        if len(cases) >= max(PER_VERSION, len(extra)):
            break
        try:
            case = make_case(schema, source, dice)
        except Unfit as e:
            why[str(e)] += 1
            continue
        sign = signature(case[0], case[1])
        if sign not in seen:
            seen.add(sign)
            cases.append(case)
    return cases, why.most_common(1)[0][0] if why else ""


def main():
    out = sys.argv[1]
    here = os.path.dirname(os.path.abspath(__file__))
    stamp = Stamp(out, __file__, os.path.join(here, "version_extra.py"))
    if stamp.fresh():
        return
    stamp.begin()
    ort.set_default_logger_severity(4)
    starts, total, versions, missing = sources(), 0, 0, []
    for (domain, op), schemas in all_schemas().items():
        for schema in schemas:
            if op in NOT_COMPARED or schema.domain.startswith("ai.onnx.preview"):
                cases, why = [], "its result is random" if op in NOT_COMPARED else "preview"
            else:
                cases, why = version_cases(schema, starts.get((domain, op), []))
            versions += bool(cases)
            if not cases:
                missing.append(f"skip {op}-{schema.since_version}: {why}")
            for k, (model, inputs, outputs, rtol, atol) in enumerate(cases):
                write_case(os.path.join(out, op, f"{schema.since_version}-{k}"), model, [(inputs, outputs)], rtol, atol)
            total += len(cases)
    stamp.done()
    print("\n".join(missing))
    print(f"{total} cases of {versions} operator versions, {len(missing)} versions without")


if __name__ == "__main__":
    main()
