"""Writes cases with maps, as exporters of scikit-learn, LightGBM and XGBoost make them: classifiers that end with a ZipMap, and
models whose input is a map.

usage: map_cases.py OUT        OUT/NAME/...

ONNX Runtime with its optimisations off says what is right; where its Python interface has no such maps, a few lines here. Files hold maps as onnx.numpy_helper writes Python's: float values as
doubles.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from case_files import Stamp, write_case

DICE = np.random.default_rng(3)
ML = "ai.onnx.ml"
KEYS = {TensorProto.INT64: "int64", TensorProto.STRING: "string"}


def floats(*shape):
    return DICE.standard_normal(shape).astype(np.float32)


# ---------------------------------------------------------------- maps as protos
def map_type(key, value=TensorProto.FLOAT, shape=None):
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, shape))


def map_proto(entries, key, dtype=np.float64):
    made = onnx.MapProto(key_type=key)
    for k, v in entries.items():
        if key == TensorProto.STRING:
            made.string_keys.append(k.encode())
        else:
            made.keys.append(k)
        made.values.tensor_values.append(numpy_helper.from_array(np.array(v, dtype)))
    made.values.elem_type = onnx.SequenceProto.TENSOR
    return made


def map_list(rows, key):
    return onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=[map_proto(row, key) for row in rows])


# ---------------------------------------------------------------- cases
def tensor(name, elem=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, elem, shape)


def run(model, feed):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options).run(None, feed)


def model_of(name, nodes, inputs, outputs, constants=(), functions=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(v, k) for k, v in constants])
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)]
    if functions:
        versions.append(helper.make_opsetid("own", 1))
    return helper.make_model(graph, opset_imports=versions, ir_version=8, functions=functions)


def as_file(value, info):
    """What a file of that output holds."""
    kind = info.type.WhichOneof("value")
    if kind != "sequence_type":
        return value
    return map_list(value, info.type.sequence_type.elem_type.map_type.key_type)


def as_input(value, info):
    if info.type.WhichOneof("value") != "map_type":
        return value
    of = info.type.map_type
    elem = of.value_type.tensor_type.elem_type
    return map_proto(value, of.key_type, {TensorProto.STRING: object, TensorProto.INT64: np.int64}.get(elem, np.float64))


def case(out, name, model, feeds, answers=None):
    """answers: by feed the outputs; None: ONNX Runtime's."""
    graph, sets = model.graph, []
    for k, feed in enumerate(feeds):
        found = answers[k] if answers else run(model, feed)
        sets.append(([as_input(feed[i.name], i) for i in graph.input], [as_file(v, o) for v, o in zip(found, graph.output)]))
    write_case(os.path.join(out, name), model, sets, rtol=1e-4, atol=1e-6)


# ---------------------------------------------------------------- ZipMap
def labels_of(key, count):
    if key == TensorProto.INT64:
        return {"classlabels_int64s": [7, -3, 10**12, 0, 5, 6, 8, 9][:count]}
    return {"classlabels_strings": ["setosa", "", "Versi color", "\u00e4\u00f6", "b", "c", "d", "e"][:count]}


def zip_map(table, key, count, name="output_probability"):
    return helper.make_node("ZipMap", [table], [name], name=f"ZipMap_{name}", domain=ML, **labels_of(key, count))


def maps_info(key, name="output_probability", shape=None):
    return helper.make_value_info(name, helper.make_sequence_type_proto(map_type(key, shape=shape)))


def linear(key, classes, features=4):
    """As skl2onnx writes a scaler and a logistic regression."""
    label = labels_of(key, classes)
    label["classlabels_ints" if key == TensorProto.INT64 else "classlabels_strings"] = label.popitem()[1]
    classifier = helper.make_node("LinearClassifier", ["variable"], ["label", "raw"], name="LinearClassifier", domain=ML,
                                  coefficients=floats(classes * features).tolist(), intercepts=floats(classes).tolist(),
                                  multi_class=1, post_transform="SOFTMAX" if classes > 2 else "LOGISTIC", **label)
    nodes = [helper.make_node("Scaler", ["X"], ["variable"], name="Scaler", domain=ML, offset=floats(features).tolist(),
                              scale=np.abs(floats(features)).tolist()),
             classifier,
             helper.make_node("Normalizer", ["raw"], ["probability"], name="Normalizer", domain=ML, norm="L1"),
             zip_map("probability", key, classes)]
    elem = TensorProto.INT64 if key == TensorProto.INT64 else TensorProto.STRING
    return model_of("linear", nodes, [tensor("X", shape=[None, features])], [tensor("label", elem, [None]), maps_info(key)])


def trees(key, classes=3):
    """As LightGBM's and XGBoost's exporters write it: a root and two leaves for each class."""
    label = labels_of(key, classes)
    roots, n = range(classes), 3 * classes
    node = helper.make_node(
        "TreeEnsembleClassifier", ["X"], ["label", "probability"], name="Trees", domain=ML, post_transform="SOFTMAX",
        nodes_treeids=[t for t in roots for _ in range(3)], nodes_nodeids=[0, 1, 2] * classes,
        nodes_featureids=[t % 4 if i == 0 else 0 for t in roots for i in range(3)], nodes_values=floats(n).tolist(),
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * classes, nodes_truenodeids=[1, 0, 0] * classes,
        nodes_falsenodeids=[2, 0, 0] * classes, nodes_missing_value_tracks_true=[0] * n, nodes_hitrates=[1.0] * n,
        class_treeids=[t for t in roots for _ in range(2)], class_nodeids=[1, 2] * classes,
        class_ids=[t for t in roots for _ in range(2)], class_weights=floats(2 * classes).tolist(), **label)
    elem = TensorProto.INT64 if key == TensorProto.INT64 else TensorProto.STRING
    return model_of("trees", [node, zip_map("probability", key, classes)], [tensor("X", shape=["N", 4])],
                    [tensor("label", elem, ["N"]), maps_info(key, shape=[1])])


def plain(key, shape, classes=3, table="x"):
    return model_of("zip", [zip_map("x", key, classes)], [tensor("x", shape=shape)], [maps_info(key, shape=[])])


def write_zip(out):
    for key, word in KEYS.items():
        rows = [{"X": floats(n, 4)} for n in (1, 3, 0, 20)]
        case(out, f"zip_linear_{word}", linear(key, 3), rows)
        case(out, f"zip_linear_two_{word}", linear(key, 2), rows)
        case(out, f"zip_trees_{word}", trees(key), rows)
        case(out, f"zip_row_{word}", plain(key, [3]), [{"x": floats(3)}])
        case(out, f"zip_one_{word}", plain(key, ["N", 1], 1), [{"x": floats(n, 1)} for n in (2, 0, 1)])
        case(out, f"zip_open_{word}", plain(key, ["N", "C"], 8), [{"x": floats(n, 8)} for n in (2, 0, 1)])
    int64 = TensorProto.INT64
    twice = helper.make_node("ZipMap", ["x"], ["y"], domain=ML, classlabels_int64s=[4, 2, 4])
    case(out, "zip_equal_labels", model_of("twice", [twice], [tensor("x", shape=["N", 3])], [maps_info(int64, "y")]), [{"x": floats(2, 3)}])
    both = [helper.make_node("Softmax", ["x"], ["p"]), zip_map("p", int64, 3, "y"), zip_map("p", TensorProto.STRING, 3, "z")]
    case(out, "zip_table_too", model_of("both", both, [tensor("x", shape=["N", 3])],
                                        [maps_info(int64, "y"), tensor("p", shape=["N", 3]), maps_info(TensorProto.STRING, "z")]),
         [{"x": floats(n, 3)} for n in (2, 0)])
    chosen = [helper.make_node("Compress", ["x", "keep"], ["p"], axis=0), zip_map("p", int64, 3, "y")]
    case(out, "zip_rows_of_data", model_of("chosen", chosen, [tensor("x", shape=["N", 3]), tensor("keep", TensorProto.BOOL, ["N"])],
                                           [maps_info(int64, "y")]),
         [{"x": floats(4, 3), "keep": np.array(k)} for k in ([True, False, True, True], [False] * 4)])
    held = model_of("held", [zip_map("p", int64, 3, "y")], [], [maps_info(int64, "y")], [("p", floats(2, 3))])
    case(out, "zip_constant", held, [{}])
    body = [helper.make_node("Softmax", ["a"], ["b"]), zip_map("b", int64, 3, "c")]
    function = helper.make_function("own", "classify", ["a"], ["c"], body, [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)])
    call = helper.make_node("classify", ["x"], ["y"], domain="own")
    case(out, "zip_function", model_of("call", [call], [tensor("x", shape=["N", 3])], [maps_info(int64, "y")], functions=[function]),
         [{"x": floats(2, 3)}])


# ---------------------------------------------------------------- CastMap
def map_model(op, key, value, elem, shape=None, declared=None, **attributes):
    node = helper.make_node(op, ["x"], ["y"], name=op, domain=ML, **attributes)
    return model_of(op, [node], [helper.make_value_info("x", map_type(key, value, declared))], [tensor("y", elem, shape)])


FORMS = {"TO_FLOAT": TensorProto.FLOAT, "TO_INT64": TensorProto.INT64, "TO_STRING": TensorProto.STRING}
TEXTS = {"TO_FLOAT": np.float32, "TO_INT64": lambda s: np.int64(float(s)), "TO_STRING": str}


def cast_text(entries, form, to, length):
    """CastMap of strings."""
    make = TEXTS[to]
    values = [make(v) for _, v in sorted(entries.items())]
    if form == "SPARSE":
        values = [make(entries[k]) if k in entries else make("0.f" if to == "TO_STRING" else "0") for k in range(length)]
    return np.array([values], {"TO_STRING": object, "TO_INT64": np.int64}.get(to, np.float32))


def write_cast(out):
    int64 = TensorProto.INT64
    numbers = [{3: 1.5, 0: -2.75, 1: 1e10}, {4: 0.1}, {2: 7.0, 3: -0.5, 0: 1 / 3, 1: -1e-9, 4: 12345.678}]
    # keys in the order of std::map, and keys that a sparse map has no place for
    more = [{-5: 1.5, 10**15: 2.5, 0: 3.5}]
    texts = [{3: "1.5", 0: "-2.75", 1: "100"}, {4: "1e3"}, {}]
    for to, elem in FORMS.items():
        for form in ("DENSE", "SPARSE"):
            options = {"cast_to": to, "map_form": form, "max_map": 5}
            feeds = [{"x": n} for n in numbers + (more if form == "DENSE" else [{1: 1.0, 5: 2.0, 99: 3.0}])]
            case(out, f"cast_{to}_{form}", map_model("CastMap", int64, TensorProto.FLOAT, elem, **options), feeds)
            model = map_model("CastMap", int64, TensorProto.STRING, elem, [1, None], [1], **options)
            case(out, f"cast_text_{to}_{form}", model, [{"x": t} for t in texts], [[cast_text(t, form, to, 5)] for t in texts])
    case(out, "cast_default", map_model("CastMap", int64, TensorProto.FLOAT, TensorProto.FLOAT), [{"x": numbers[0]}])
    plain = map_model("CastMap", int64, TensorProto.FLOAT, TensorProto.FLOAT)
    case(out, "cast_empty", plain, [{"x": {}}], [[np.zeros((1, 0), np.float32)]])
    many = {int(k): float(v) for k, v in zip(DICE.permutation(3000) - 1000, floats(3000))}
    case(out, "cast_many", plain, [{"x": many}])
    nodes = [helper.make_node("CastMap", ["x"], ["row"], domain=ML, map_form="SPARSE", max_map=4),
             helper.make_node("MatMul", ["row", "w"], ["p"]), zip_map("p", int64, 3, "y")]
    case(out, "cast_zip", model_of("chain", nodes, [helper.make_value_info("x", map_type(int64))], [maps_info(int64, "y")], [("w", floats(4, 3))]),
         [{"x": {2: 1.0, 0: 2.0}}, {"x": {7: 1.0}}])


# ---------------------------------------------------------------- DictVectorizer
def write_dict(out):
    float_, int64, string = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
    words = {"string_vocabulary": ["a", "c", "b", "z", "", "\u00e4"]}
    numbers = {"int64_vocabulary": [5, -1, 7, 10**12]}
    feeds = [{"x": m} for m in ({"a": 4.0, "c": 8.5}, {"z": 1.0, "": 2.0, "\u00e4": 0.1, "other": 9.0}, {"other": 1.0})]
    case(out, "dict_string_float", map_model("DictVectorizer", string, float_, float_, **words), feeds)
    case(out, "dict_shape", map_model("DictVectorizer", string, float_, float_, [1, 6], [1], **words), feeds)
    number_feeds = [{"x": m} for m in ({5: 0.5, 7: -1.5, 10**12: 3.0}, {99: 1.0}, {-1: 0.1, 5: 2.0})]
    case(out, "dict_int64_float", map_model("DictVectorizer", int64, float_, float_, **numbers), number_feeds)
    for name, key, value, options, entries, want in (
            ("list", string, float_, words, {"c": 0.5, "": 2.0}, np.array([0, 0.5, 0, 0, 2, 0], np.float32)),
            ("string_double", string, TensorProto.DOUBLE, words, {"c": 0.1}, np.array([[0, 0.1, 0, 0, 0, 0]])),
            ("int64_double", int64, TensorProto.DOUBLE, numbers, {7: 0.1, 5: 1e300}, np.array([[1e300, 0, 0.1, 0]])),
            ("string_int64", string, int64, words, {"b": 2**60 + 1}, np.array([[0, 0, 2**60 + 1, 0, 0, 0]])),
            ("int64_string", int64, string, numbers, {7: "x", -1: "\u00e4 y"}, np.array([["", "\u00e4 y", "x", ""]], object)),
            ("empty", string, float_, words, {}, np.zeros((1, 6), np.float32)),
            ("equal_words", string, float_, {"string_vocabulary": ["a", "b", "a"]}, {"a": 3.0}, np.array([[3, 0, 3]], np.float32))):
        case(out, f"dict_{name}", map_model("DictVectorizer", key, value, value, want.shape, **options), [{"x": entries}], [[want]])
    many = {f"w{i}": float(i) for i in DICE.permutation(500)}
    vocabulary = {"string_vocabulary": [f"w{i}" for i in range(0, 900, 3)]}
    case(out, "dict_many", map_model("DictVectorizer", string, float_, float_, **vocabulary), [{"x": many}])
    nodes = [helper.make_node("DictVectorizer", ["x"], ["variable"], name="DictVectorizer", domain=ML, **words),
             helper.make_node("LinearClassifier", ["variable"], ["label", "raw"], name="LinearClassifier", domain=ML, multi_class=1,
                              coefficients=floats(18).tolist(), intercepts=floats(3).tolist(), post_transform="LOGISTIC", **labels_of(string, 3)),
             helper.make_node("Normalizer", ["raw"], ["probability"], name="Normalizer", domain=ML, norm="L1"),
             zip_map("probability", string, 3)]
    case(out, "dict_linear", model_of("linear", nodes, [helper.make_value_info("x", map_type(string, shape=[1]))],
                                      [tensor("label", string, [None]), maps_info(string)]), feeds)


def main():
    out = sys.argv[1]
    stamp = Stamp(out, __file__)
    if stamp.fresh():
        return
    stamp.begin()
    write_zip(out)
    write_cast(out)
    write_dict(out)
    stamp.done()


if __name__ == "__main__":
    main()
