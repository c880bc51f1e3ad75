"""Random cases of operators that ONNX Runtime adds to the standard: what the families in this folder share.

A family's file has one function per operator, marked @op(NAME): it takes a random generator (numpy) and gives a Case with
random types, sizes, attributes and optional inputs. contrib_cases.py calls each with a row of seeds, and ONNX Runtime's CPU
provider, with its optimisations off, says what is right. What it refuses is drawn again.
"""
import ctypes
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

MICROSOFT = "com.microsoft"
OPERATORS = {}  # (domain, name, count): function of a random generator that gives a Case


@dataclass
class Case:
    """inputs in order, None where one is left out; outputs: a count, or names of which "" is not wanted."""

    inputs: list
    attributes: dict = field(default_factory=dict)
    outputs: object = 1
    constants: tuple = ()  # numbers of the inputs that are initializers
    rtol: float = 1e-3
    atol: float = 1e-5
    element_types: dict = field(default_factory=dict)  # ONNX's type of an input whose numpy type does not tell it
    opset: int = 21  # of the standard's domain
    version: int = 1  # of the operator's domain
    spelled: str = None  # another name of that domain
    model: object = None  # a whole model, with inputs x0 and so on, in place of one node
    output_types: dict = field(default_factory=dict)  # numpy's type of an output that ONNX Runtime does not infer
    asked: object = None  # the Case with the same answer that ONNX Runtime is asked, where it refuses this one
    unwritten: object = None  # the value of elements that ONNX Runtime does not write
    corrected: object = None  # a function of ONNX Runtime's outputs that gives the right ones
    expected: list = None  # the outputs, where the CPU provider has no kernel: from a definition in numpy


def op(name, domain=MICROSOFT, count=20):
    def mark(function):
        OPERATORS[domain, name] = (function, count)
        return function
    return mark


# ---- Random values
def pick(dice, *choices):
    return choices[dice.integers(len(choices))]


def maybe(dice, value, chance=0.5):
    return value if dice.random() < chance else None


def floats(dice, *shape, dtype=np.float32, scale=1.0):
    return (dice.standard_normal(shape) * scale).astype(dtype)


def numbers(dice, low, high, *shape, dtype=np.int64):
    return dice.integers(low, high, shape, dtype=np.int64).astype(dtype)


# ---- Models
def onnx_type(case, i):
    value = case.inputs[i]
    if i in case.element_types:
        return case.element_types[i]
    if value.dtype == ml_dtypes.bfloat16:
        return TensorProto.BFLOAT16
    return helper.np_dtype_to_tensor_dtype(value.dtype)


def stored_bytes(value):
    """As ONNX has them: two elements of four bits in a byte."""
    if value.dtype not in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn):
        return value.tobytes()
    codes = np.append(value.reshape(-1).view(np.uint8) & 15, np.uint8(0))
    return (codes[:-1:2] | codes[1::2] << 4).tobytes()


def names_of(case):
    wanted = [f"y{i}" for i in range(case.outputs)] if isinstance(case.outputs, int) else case.outputs
    return [f"x{i}" if v is not None else "" for i, v in enumerate(case.inputs)], wanted


def untyped(case, i, name):
    if i not in case.output_types:
        return onnx.ValueInfoProto(name=name)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(case.output_types[i])), None)


def make_model(domain, name, case, outputs, constants):
    """A model of one node; outputs: arrays, or None while their types are not known."""
    if case.model is not None:
        return case.model
    ins, outs = names_of(case)
    domain = domain if case.spelled is None else case.spelled
    node = helper.make_node(name, ins, outs, name="node", domain=domain, **case.attributes)
    infos, held = [], []
    for i, value in enumerate(case.inputs):
        if value is None:
            continue
        if i in constants:
            held.append(helper.make_tensor(ins[i], onnx_type(case, i), value.shape, stored_bytes(value), raw=True))
        else:
            infos.append(helper.make_tensor_value_info(ins[i], onnx_type(case, i), value.shape))
    wanted = [n for n in outs if n]
    given = [untyped(case, outs.index(n), n) for n in wanted] if outputs is None else [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in zip(wanted, outputs)]
    versions = [helper.make_opsetid("", case.opset)] + [helper.make_opsetid(domain, case.version)] * (domain != "")
    return helper.make_model(helper.make_graph([node], "case", infos, given, held), opset_imports=versions, ir_version=10)


def answer(domain, name, case):
    """ONNX Runtime's outputs."""
    if case.expected is not None:
        return case.expected
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    corrected, case = case.corrected, case.asked or case
    model = make_model(domain, name, case, None, case.constants)
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    ins, _ = names_of(case)
    feeds = {n: v for i, (n, v) in enumerate(zip(ins, case.inputs)) if n and i not in case.constants}
    outputs = run(session, feeds)
    if case.unwritten is not None:
        outputs = run_into(session, feeds, [np.full_like(v, case.unwritten) for v in outputs])
    return corrected(outputs) if corrected else outputs


def run_into(session, feeds, outputs):
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    for output, value in zip(session.get_outputs(), outputs):
        binding.bind_output(output.name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)
    session.run_with_iobinding(binding)
    return outputs


def run(session, feeds):
    """session.run, which takes no bfloat16: the elements lie where the values' addresses say."""
    if not any(v.dtype == ml_dtypes.bfloat16 for v in feeds.values()):
        return session.run(None, feeds)
    half = TensorProto.BFLOAT16
    values = {n: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(v.view(np.uint16), half) if v.dtype == ml_dtypes.bfloat16
              else ort.OrtValue.ortvalue_from_numpy(v) for n, v in feeds.items()}
    return [array_of(v) for v in session.run_with_ort_values(None, values)]


def array_of(value):
    if value.element_type() != TensorProto.BFLOAT16:
        return value.numpy()
    held = (ctypes.c_uint16 * int(np.prod(value.shape()))).from_address(value.data_ptr())
    return np.array(held, np.uint16).view(ml_dtypes.bfloat16).reshape(value.shape())
