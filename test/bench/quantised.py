"""The networks of bytes and halves that ONNX Runtime's tools make, against ONNX Runtime and OpenVINO on one thread.

usage: quantised.py ONNXC [--forms FORM,...] [NETWORK ...]     prints a line of docs/measurements.md for each network and form

Forms: u8 activations and s8 weights with a scale for each channel, between QuantizeLinear and DequantizeLinear (qdq); u16
activations; weights of s8 or u8 and bytes whose scales the run computes (dynamic); halves with floats at both ends (f16);
operators of bytes (qop), and weights of u8, which have zero points. "Difference"
is the largest from ONNX Runtime's answers without optimisations, relative to the largest element; in brackets that of ONNX
Runtime with optimisations, whose sums round elsewhere: one step of a byte in the middle of a network is seen in all of its answers.
"""
import argparse
import logging
import os
import tempfile

import networks
import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.transformers.float16 import convert_float_to_float16
from peers import Compiled, difference, in_turns, openvino_request, ort_session, random_inputs

NAMES = ("resnet18", "resnet50", "mobilenet_v2", "minilm")
FORMS = ("qdq u8 s8", "qdq u16 s8", "dynamic s8", "f16")
TYPES = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8, "u16": QuantType.QUInt16}
FORMATS = {"qdq": QuantFormat.QDQ, "qop": QuantFormat.QOperator}


class Samples(CalibrationDataReader):
    def __init__(self, model, count=3):
        self.rest = [random_inputs(model, np.random.default_rng(seed)) for seed in range(count)]

    def get_next(self):
        return self.rest.pop() if self.rest else None


def in_order(model):
    """Its nodes behind those that they use: the tools append theirs."""
    known = {v.name for part in (model.graph.input, model.graph.initializer) for v in part} | {""}
    left, nodes = list(model.graph.node), []
    while left:
        ready = [n for n in left if known.issuperset(n.input)]
        known.update(o for n in ready for o in n.output)
        nodes += ready
        left = [n for n in left if n not in ready]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def made(model, form, path, folder):
    source = os.path.join(folder, "f32.onnx")
    onnx.save(model, source)
    kind, *types = form.split()
    if kind in FORMATS:
        quantize_static(source, path, Samples(model), quant_format=FORMATS[kind], activation_type=TYPES[types[0]],
                        weight_type=TYPES[types[1]], per_channel=types[1] == "s8")
    elif kind == "dynamic":
        quantize_dynamic(source, path, weight_type=TYPES[types[0]])
    else:
        onnx.save(in_order(convert_float_to_float16(model, keep_io_types=True)), path)


def exact_session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def bench(onnxc, name, form, seconds):
    with tempfile.TemporaryDirectory() as folder:
        path, model = os.path.join(folder, "model.onnx"), networks.network(name)
        made(model, form, path, folder)
        inputs, session = random_inputs(model, np.random.default_rng(9)), ort_session(path, 1)
        right, theirs = exact_session(path).run(None, inputs), session.run(None, inputs)
        ours = Compiled(onnxc, path, folder, ["--threads", "1"])
        outputs = [np.empty_like(r) for r in right]
        ours.prepare([np.ascontiguousarray(inputs[i.name]) for i in session.get_inputs()], outputs)
        ours.run()
        worst, apart = (max(difference(a, b) for a, b in zip(x, right)) for x in (outputs, theirs))
        engines = {"onnxc": ours.run, "ort": lambda: session.run(None, inputs)}
        try:
            request = openvino_request(path, 1)
            engines["openvino"] = lambda: request.infer(inputs)
        except RuntimeError:
            pass  # it lacks an operator
        times = in_turns(engines, seconds)
        shown = [f"{1e3 * times[e]:.2f} ms" if e in times else "" for e in ("onnxc", "ort", "openvino")]
        shown += [f"{times['onnxc'] / times[e]:.2f}" if e in times else "" for e in ("ort", "openvino")]
        print(f"| {name} | {form} | " + " | ".join(shown) + f" | {worst:.1e} ({apart:.1e}) |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onnxc")
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--seconds", type=float, default=2)
    arguments = parser.parse_intermixed_args()
    logging.disable(logging.WARNING)
    for name in arguments.networks or NAMES:
        for form in arguments.forms.split(","):
            bench(os.path.abspath(arguments.onnxc), name, form, arguments.seconds)


if __name__ == "__main__":
    main()
