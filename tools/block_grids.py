#!/usr/bin/env python3
"""Writes the vectors that the IQ formats of packed weights number, as runtime-lite/lib/lib_block_grids.h.

usage: block_grids.py >runtime-lite/lib/lib_block_grids.h       with ONNX Runtime, from its answers for blocks that hold each number
"""
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper


def answer(kind, blocks):
    """The values of blocks of 256 elements."""
    node = helper.make_node("GatherPacked", ["w", "i"], ["y"], domain="com.microsoft", packed_type=kind, K=256, output_dtype=1)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("w", TensorProto.UINT8, blocks.shape),
                                            helper.make_tensor_value_info("i", TensorProto.INT64, [len(blocks)])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [len(blocks), 256])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"w": blocks, "i": np.arange(len(blocks))})[0]


def grid(kind, size, count, each, place):
    """Vectors of `each` elements; place(blocks, i) writes each block's number as its first index."""
    blocks = np.zeros((count, size), np.uint8)
    blocks[:, :2] = np.frombuffer(np.float16(8).tobytes(), np.uint8)  # times (0.5 + 0) / 4 or / 2
    place(blocks, np.arange(count))
    values = answer(kind, blocks)[:, :each] / (2 if kind == 18 else 1)
    found = np.unique(values)
    codes = np.searchsorted(found, values)
    bits = 16 // each if each == 8 else 3
    assert list(found) == ([4, 12, 20, 28, 36, 44, 52, 62] if kind == 18 else [8, 25, 43])
    return (codes << np.arange(each) * bits).sum(1)


def low_byte(blocks, i):
    blocks[:, 2] = i


def two_bytes(blocks, i):
    blocks[:, 2], blocks[:, 3] = i & 255, i >> 8


def high_apart(blocks, i):
    blocks[:, 2], blocks[:, 66] = i & 255, i >> 8


def main():
    print("/* Vectors of the IQ formats (lib_block_format.h), written by tools/block_grids.py: 8 elements of 2 bits, which number\n"
          " * 8, 25 and 43, or 4 elements of 3 bits, which number 4, 12, 20, 28, 36, 44, 52 and 62. */")
    for name, arguments in {"IQ2_XXS": (16, 66, 256, 8, low_byte), "IQ2_XS": (17, 74, 512, 8, two_bytes),
                            "IQ2_S": (22, 82, 1024, 8, high_apart), "IQ3_XXS": (18, 98, 256, 4, low_byte)}.items():
        codes = grid(*arguments)
        print(f"static const uint16_t LIB_{name}[{len(codes)}] = {{")
        for i in range(0, len(codes), 12):
            print("    " + ", ".join(f"0x{c:04x}" for c in codes[i:i + 12]) + ",")
        print("};")


main()
