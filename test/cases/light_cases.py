"""Writes the `light` models of ONNX's backend tests with random weights, and what ONNX Runtime answers, as test folders.

usage: light_cases.py LIGHT OUT [all]     LIGHT: those models, as backend_cases.py wrote them

The package's own light models make every weight of one number, which cannot show a transposed or misplaced one. Without
`all` the three models with hundreds of megabytes of weights are left out.
"""
import os
import sys
import zlib

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from case_files import Stamp, write_case

LARGE = ("test_bvlc_alexnet", "test_vgg19", "test_zfnet512")


def users(graph):
    """{value: (node, which input)} of the first use that is no Reshape."""
    found = {}
    for node in reversed(graph.node):
        for j, name in enumerate(node.input):
            found[name] = found[node.output[0]] if node.op_type == "Reshape" and j == 0 else (node, j)
    return found


def random_weights(shape, use, dice):
    """Numbers that keep activations near one: by fan-in, and positive where a variance or a scale is wanted."""
    node, j = use
    if node.op_type == "BatchNormalization":
        return dice.uniform(0.5, 1.5, shape) if j in (1, 4) else dice.normal(0, 0.1, shape)
    if node.op_type in ("Conv", "Gemm", "MatMul") and j == 1:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        out_first = node.op_type == "Conv" or attributes.get("transB")
        fan_in = np.prod(shape[1:]) if out_first else shape[0]
        return dice.normal(0, np.sqrt(2 / fan_in), shape)
    return dice.normal(0, 0.5, shape)


def with_random_weights(model, dice):
    """Replaces each ConstantOfShape of a constant by an initialiser."""
    graph = model.graph
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    constants.update({n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in graph.node if n.op_type == "Constant"})
    use = users(graph)
    kept = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in constants:
            shape = [int(d) for d in constants[node.input[0]]]
            values = random_weights(shape, use[node.output[0]], dice).astype(np.float32)
            graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        else:
            kept.append(node)
    replaced = len(graph.node) - len(kept)
    del graph.node[:]
    graph.node.extend(kept)
    return replaced


def run_model(model, image):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = {t.name for t in model.graph.initializer}
    feed = next(i.name for i in model.graph.input if i.name not in names)
    return session.run(None, {feed: image})


def temper(model, image):
    """Scales the last layer so that the Softmax behind it gives more than a single one among zeros."""
    graph = model.graph
    made_by = {o: n for n in graph.node for o in n.output}
    softmax = made_by[graph.output[0].name]
    if softmax.op_type != "Softmax":
        return
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.output[0].name = softmax.input[0]
    spread = np.std(run_model(copy, image)[0])
    node = made_by[softmax.input[0]]
    scaled = list(node.input[1:])
    while node.op_type not in ("Gemm", "MatMul", "Conv"):
        node = made_by[node.input[0]]
        scaled += node.input[1:]
    scaled += [made_by[name].input[0] for name in scaled if name in made_by]
    for tensor in graph.initializer:
        if tensor.name in scaled and tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) / spread, tensor.name))


def write_light(source, folder):
    model = onnx.load(os.path.join(source, "model.onnx"))
    dice = np.random.default_rng(zlib.crc32(os.path.basename(source).encode()))
    if not with_random_weights(model, dice):
        raise SystemExit(f"{source}: no weights to replace")
    shape = numpy_helper.to_array(onnx.load_tensor(os.path.join(source, "test_data_set_0", "input_0.pb"))).shape
    image = dice.standard_normal(shape).astype(np.float32)
    temper(model, image)
    outputs = run_model(model, image)
    # Probabilities of deep networks: sums of thousands of products, in another order.
    write_case(folder, model, [([image], outputs)], rtol=2e-3, atol=1e-6)


def main():
    light, out = sys.argv[1:3]
    chosen = [n for n in sorted(os.listdir(light)) if "all" in sys.argv[3:] or n not in LARGE]
    stamp = Stamp(out, __file__)
    if stamp.fresh() and len(os.listdir(out)) > len(chosen):
        return
    stamp.begin()
    for name in chosen:
        write_light(os.path.join(light, name), os.path.join(out, name))
    stamp.done()
    print(len(chosen), "models")


if __name__ == "__main__":
    main()
