"""Writes cases for functions of a model, as folders that `onnxc test` takes.

usage: function_cases.py OUT        OUT/Constant/FORM-WAY: each form of Constant's value in a function, as a literal, by a
                                    reference to an attribute, to one with a default, to one that another function passes on,
                                    and in a branch
                                    OUT/OPERATOR/K: bodies that the standard gives for operators, as functions of the model
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

import version_cases as vc
from case_files import Stamp, write_case

DOMAIN, OPSET = "ours", 21
PER_OPERATOR = 3
# Bodies that are not of this type system (constants of float for every type), or whose results are of chance.
OTHERS = {"MeanVarianceNormalization", "Bernoulli", "Dropout"}

DENSE = np.array([0, 5, 0, 7], np.float32)
SPARSE = helper.make_sparse_tensor(numpy_helper.from_array(DENSE[[1, 3]], "v"), numpy_helper.from_array(np.array([1, 3]), "i"), [4])
FORMS = {"value": (numpy_helper.from_array(DENSE, "t"), DENSE), "sparse_value": (SPARSE, DENSE),
         "value_float": (1.5, np.float32(1.5)), "value_floats": ([1.5, 2.5], np.array([1.5, 2.5], np.float32)),
         "value_int": (3, np.int64(3)), "value_ints": ([3, 4, 5], np.array([3, 4, 5])),
         "value_string": ("ab", np.array("ab", object)), "value_strings": (["ab", ""], np.array(["ab", ""], object))}


def opsets(*domains):
    return [helper.make_opsetid("", OPSET)] + [helper.make_opsetid(d, 1) for d in domains]


def linked(op, inputs, outputs, name, to, value, domain=""):
    """A node whose attribute is that of the function that holds it."""
    node = helper.make_node(op, inputs, outputs, domain=domain)
    node.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=to, type=helper.make_attribute(name, value).type))
    return node


def constant_model(way, form, value, result):
    constant = linked("Constant", [], ["y"], form, "a", value)
    name, inputs, given, functions = "F", [], {"a": value}, []
    out = vc.value_info("y", result)
    if way == "literal":
        constant, given = helper.make_node("Constant", [], ["y"], **{form: value}), {}
    body, defaults, own = [constant], [], ["a"] if given else []
    if way == "default":
        own, defaults, given = [], [helper.make_attribute("a", value)], {}
    if way == "branch":
        other = linked("Constant", [], ["z"], form, "a", value)
        then, less = (helper.make_graph([n], n.output[0], [], [vc.value_info(n.output[0], result)]) for n in (constant, other))
        body, inputs = [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=less)], ["c"]
    functions.append(helper.make_function(DOMAIN, "F", inputs, ["y"], body, opsets(), attributes=own, attribute_protos=defaults))
    if way == "passed":
        call = linked("F", [], ["y"], "a", "b", value, DOMAIN)
        functions.append(helper.make_function(DOMAIN, "G", [], ["y"], [call], opsets(DOMAIN), attributes=["b"]))
        name, given = "G", {"b": value}
    node = helper.make_node(name, inputs, ["y"], "node", domain=DOMAIN, **given)
    graph = helper.make_graph([node], f"{form}_{way}", [vc.value_info("c", np.array(True))] if inputs else [], [out])
    return helper.make_model(graph, functions=functions, opset_imports=opsets(DOMAIN), ir_version=10)


def body_of(schema, node, types):
    """The standard's body as a function of the model; the defaults of the operator are those of the function."""
    if schema.has_function:
        body = schema.function_body
    else:
        text = schema.get_context_dependent_function(node.SerializeToString(), [t.SerializeToString() for t in types])
        body = onnx.FunctionProto.FromString(text)
    made = onnx.FunctionProto()
    made.CopyFrom(body)
    made.domain, made.name = DOMAIN, schema.name
    for name in list(made.attribute):
        default = schema.attributes[name].default_value
        if default.name and not any(a.name == name for a in node.attribute):
            made.attribute.remove(name)
            made.attribute_proto.append(default)
    if not made.opset_import:
        made.opset_import.append(helper.make_opsetid("", schema.since_version))
    return made


def body_model(case):
    """One of ONNX's cases with its operator replaced by a function of the model; None: that has no body."""
    node, old = case.model.graph.node[0], case.model
    schema = defs.get_schema(node.op_type, old.opset_import[0].version, node.domain) if not node.domain else None
    if not schema or not (schema.has_function or schema.has_context_dependent_function) or node.op_type in OTHERS:
        return None
    types = {i.name: i.type for i in old.graph.input}
    function = body_of(schema, node, [types[n] if n else onnx.TypeProto() for n in node.input])
    made = onnx.ModelProto()
    made.CopyFrom(old)
    made.graph.node[0].domain, made.ir_version = DOMAIN, 10
    made.functions.append(function)
    made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return made


def main():
    out = sys.argv[1]
    stamp = Stamp(out, __file__, vc.__file__)
    if stamp.fresh():
        return
    stamp.begin()
    for form, (value, result) in FORMS.items():
        for way in ("literal", "reference", "default", "passed", "branch"):
            inputs = [np.array(True)] if way == "branch" else []
            result = np.asarray(result)
            write_case(os.path.join(out, "Constant", f"{form}-{way}"), constant_model(way, form, value, result), [(inputs, [result])])
    made = {}
    for case in vc.load_model_tests(kind="node"):
        op = case.model.graph.node[0].op_type
        if len(case.model.graph.node) != 1 or case.model.graph.initializer or not case.data_sets or made.get(op, 0) == PER_OPERATOR:
            continue
        model = body_model(case)
        if model:
            made[op] = made.get(op, 0) + 1
            write_case(os.path.join(out, op, str(made[op])), model, case.data_sets[:1], case.rtol, case.atol)
    stamp.done()
    print(f"{5 * len(FORMS) + sum(made.values())} cases, bodies of {len(made)} operators")


if __name__ == "__main__":
    main()
