"""Makes the small models of the command-line tests (needs the onnx package; the results are kept in the repository)."""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))


def tensor(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def save(name, nodes, inputs, outputs, constants=(), ml=False):
    graph = helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(v, k) for k, v in constants])
    versions = [helper.make_opsetid("", 21)] + [helper.make_opsetid("ai.onnx.ml", 3)] * ml
    model = helper.make_model(graph, opset_imports=versions, ir_version=10, producer_name="onnxc-tests")
    onnx.save(model, os.path.join(HERE, name + ".onnx"))


def main():
    save("add", [helper.make_node("Add", ["a", "b"], ["c"], name="sum")], [tensor("a", [2, 3]), tensor("b", [3])], [tensor("c", [2, 3])])
    weights = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
    save("mlp", [helper.make_node("MatMul", ["x", "w"], ["h"], name="dense"), helper.make_node("Relu", ["h"], ["y"], name="act")],
         [tensor("x", ["N", 4])], [tensor("y", ["N", 3])], [("w", weights)])
    square = (np.arange(64, dtype=np.float32).reshape(8, 8) % 5 - 2) / 4
    save("deep", [helper.make_node("MatMul", ["x", "w1"], ["h1"], name="first"), helper.make_node("Softmax", ["h1"], ["h2"], name="soft"),
                  helper.make_node("MatMul", ["h2", "w2"], ["h3"], name="second"), helper.make_node("MatMul", ["h3", "w1"], ["y"], name="third")],
         [tensor("x", ["N", 8])], [tensor("y", ["N", 8])], [("w1", square), ("w2", square.T.copy())])
    save("count", [helper.make_node("Add", ["total", "x"], ["next"], name="add"), helper.make_node("ReduceSum", ["next"], ["all"], name="sum", keepdims=0)],
         [tensor("x", [4]), tensor("total", [4])], [tensor("all", []), tensor("next", [4])])
    save("slide", [helper.make_node("Slice", ["past", "one", "end"], ["tail"], name="tail"), helper.make_node("Concat", ["tail", "x"], ["next"], name="push", axis=0),
                   helper.make_node("ReduceMean", ["next"], ["mean"], name="mean", keepdims=0)],
         [tensor("x", [1]), tensor("past", [3])], [tensor("mean", []), tensor("next", [3])], [("one", np.array([1])), ("end", np.array([3]))])
    scales = [("s", np.float32(0.125)), ("z", np.uint8(3))]
    save("image", [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="in"), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="out"),
                   helper.make_node("Conv", ["d", "w"], ["c"], name="conv"), helper.make_node("QuantizeLinear", ["c", "s", "z"], ["qc"], name="in2"),
                   helper.make_node("DequantizeLinear", ["qc", "s", "z"], ["y"], name="out2")],
         [tensor("x", [1, 2, 3, 4])], [tensor("y", [1, 2, 3, 4])], scales + [("w", np.array([1, 2, -1, 0.5], np.float32).reshape(2, 2, 1, 1))])
    save("mismatch", [helper.make_node("Add", ["a", "b"], ["c"], name="sum")], [tensor("a", [2, 3]), tensor("b", [4])], [tensor("c", [2, 3])])
    save("strings", [helper.make_node("StringConcat", ["a", "b"], ["c"], name="cat")],
         [tensor("a", [2], TensorProto.STRING), tensor("b", [2], TensorProto.STRING)], [tensor("c", [2], TensorProto.STRING)])
    save("picture", [helper.make_node("ImageDecoder", ["file"], ["pixels"], name="decode")],
         [tensor("file", ["N"], TensorProto.UINT8)], [tensor("pixels", [None, None, None], TensorProto.UINT8)])
    save("positive", [helper.make_node("Greater", ["x", "zero"], ["above"], name="above"), helper.make_node("Compress", ["x", "above"], ["y"], name="keep", axis=0)],
         [tensor("x", ["N"])], [tensor("y", [None])], [("zero", np.zeros((), np.float32))])
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, None)))
    save("flowers", [helper.make_node("LinearClassifier", ["x"], ["label", "scores"], name="linear", domain="ai.onnx.ml", coefficients=[1.0, 0, 0, 1, -1, -1],
                                      intercepts=[0.0, 0, 1], classlabels_strings=["setosa", "versi color", "virginica"]),
                     helper.make_node("ZipMap", ["scores"], ["probabilities"], name="zip", domain="ai.onnx.ml",
                                      classlabels_strings=["setosa", "versi color", "virginica"])],
         [tensor("x", ["N", 2])], [tensor("label", ["N"], TensorProto.STRING), helper.make_value_info("probabilities", maps)], ml=True)
    with open(os.path.join(HERE, "text.onnx"), "w") as f:
        f.write("<!DOCTYPE html><html>not a model</html>\n")


if __name__ == "__main__":
    main()
