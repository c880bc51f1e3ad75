"""Writes models that run long and decide sizes as they run, as folders that `onnxc test` takes: what they need must not
grow with the iterations.

usage: needle_cases.py OUT
"""
import os
import sys

import numpy as np
from onnx import TensorProto, helper

from case_files import Stamp, write_case

TURNS = 100_000
EVERY = 500  # turns between those that make the carried value longer


def tensor(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def scalar(name, dtype, value):
    return helper.make_node("Constant", [], [name], value=helper.make_tensor(name, dtype, [], [value]))


def model_of(name, nodes, inputs, outputs):
    graph = helper.make_graph(nodes, name, inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def grow_branch():
    nodes = [helper.make_node("Unsqueeze", ["i", "zero_axis"], ["one_more"]),
             helper.make_node("Concat", ["x", "one_more"], ["longer"], axis=0)]
    return helper.make_graph(nodes, "grow", [], [tensor("longer", TensorProto.INT64, [None])])


def keep_branch():
    return helper.make_graph([helper.make_node("Identity", ["x"], ["same"])], "keep", [],
                             [tensor("same", TensorProto.INT64, [None])])


def growing_loop():
    """x gets the turn's number at its end each EVERY turns; every turn's number times two is an output."""
    body = helper.make_graph(
        [scalar("every", TensorProto.INT64, EVERY), scalar("zero", TensorProto.INT64, 0),
         helper.make_node("Mod", ["i", "every"], ["rest"]), helper.make_node("Equal", ["rest", "zero"], ["grows"]),
         helper.make_node("If", ["grows"], ["x_next"], then_branch=grow_branch(), else_branch=keep_branch()),
         helper.make_node("Add", ["i", "i"], ["twice"]), helper.make_node("Identity", ["go"], ["go_on"])],
        "body", [tensor("i", TensorProto.INT64, []), tensor("go", TensorProto.BOOL, []),
                 tensor("x", TensorProto.INT64, [None])],
        [tensor("go_on", TensorProto.BOOL, []), tensor("x_next", TensorProto.INT64, [None]),
         tensor("twice", TensorProto.INT64, [])])
    zero_axis = helper.make_node("Constant", [], ["zero_axis"], value=helper.make_tensor("a", TensorProto.INT64, [1], [0]))
    loop = helper.make_node("Loop", ["turns", "", "start"], ["end", "all"], body=body)
    model = model_of("growing_loop", [zero_axis, loop],
                     [tensor("turns", TensorProto.INT64, []), tensor("start", TensorProto.INT64, [None])],
                     [tensor("end", TensorProto.INT64, [None]), tensor("all", TensorProto.INT64, [None])])
    start = np.array([-1], np.int64)
    end = np.concatenate([start, np.arange(0, TURNS, EVERY)])
    return model, [([np.array(TURNS, np.int64), start], [end, 2 * np.arange(TURNS)])]


def loop_until():
    """The condition ends the loop, in the last of the turns that are allowed or long before."""
    body = helper.make_graph(
        [scalar("one", TensorProto.FLOAT, 1.0), helper.make_node("Add", ["x", "one"], ["more"]),
         helper.make_node("Less", ["more", "most"], ["go_on"])],
        "body", [tensor("i", TensorProto.INT64, []), tensor("go", TensorProto.BOOL, []), tensor("x", TensorProto.FLOAT, [])],
        [tensor("go_on", TensorProto.BOOL, []), tensor("more", TensorProto.FLOAT, [])])
    true = helper.make_node("Constant", [], ["true"], value=helper.make_tensor("t", TensorProto.BOOL, [], [True]))
    loop = helper.make_node("Loop", ["", "true", "x0"], ["end"], body=body)
    model = model_of("loop_until", [true, loop],
                     [tensor("x0", TensorProto.FLOAT, []), tensor("most", TensorProto.FLOAT, [])],
                     [tensor("end", TensorProto.FLOAT, [])])
    return model, [([np.float32(0), np.float32(m)], [np.float32(max(m, 1))]) for m in (TURNS, 3, 0)]


def nonzero():
    """Where a long row, a square and an empty tensor are not zero."""
    node = helper.make_node("NonZero", ["x"], ["at"])
    model = model_of("nonzero", [node], [tensor("x", TensorProto.FLOAT, ["m", "n"])], [tensor("at", TensorProto.INT64, [2, "k"])])
    dice = np.random.default_rng(1)
    sets = []
    for shape, share in (((1, TURNS), 0.5), ((300, 300), 0.01), ((300, 300), 1.0), ((0, 5), 1.0), ((7, 9), 0.0)):
        x = (dice.random(shape) < share).astype(np.float32)
        sets.append(([x], [np.array(np.nonzero(x), np.int64)]))
    return model, sets


def main():
    stamp = Stamp(sys.argv[1], __file__)
    if stamp.fresh():
        return
    stamp.begin()
    for make in (growing_loop, loop_until, nonzero):
        model, data_sets = make()
        write_case(os.path.join(sys.argv[1], make.__name__), model, data_sets)
    stamp.done()


if __name__ == "__main__":
    main()
