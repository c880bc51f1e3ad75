"""ONNX's backend interface (onnx.backend.base). In: models and nodes. Out: representations that run on lists of values.

    from onnxc.backend import OnnxcBackend
    tests = onnx.backend.test.BackendTest(OnnxcBackend, __name__)
"""
from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple, Union

import numpy as np
import onnx
from onnx import TensorProto, TypeProto, helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from onnxc.session import InferenceSession  # absolute as in onnxc.capi

NOT_OPTIONS = ("rtol", "atol")  # what ONNX's test runner hands to every function


class OnnxcRep(BackendRep):  # type: ignore[misc, unused-ignore]
    """A compiled model. `session` is its InferenceSession."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """inputs: a dict by name, or values in the order of the model's inputs (an array is a single input)."""
        ports = self.session.get_inputs()
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, dict):
            if len(inputs) != len(ports):
                raise ValueError(f"the model has {len(ports)} inputs, but {len(inputs)} values are given")
            inputs = {port.name: value for port, value in zip(ports, inputs)}
        names = [port.name for port in self.session.get_outputs()]
        return namedtupledict("Outputs", names)(*self.session.run(None, inputs))


def type_of(value: Any) -> TypeProto:
    """The TypeProto of an input of a single node."""
    if isinstance(value, (list, tuple)):
        if not value:
            raise ValueError("the type of an empty sequence is unknown")
        return helper.make_sequence_type_proto(type_of(value[0]))
    array = np.asarray(value)
    number = TensorProto.STRING if array.dtype.kind in "OUST" else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_type_proto(number, array.shape)


def model_of(node: onnx.NodeProto, inputs: Sequence[Any], outputs_info: Optional[Sequence[Tuple[Any, Sequence[int]]]],
             opset_version: Optional[int]) -> Tuple[onnx.ModelProto, Dict[str, Any]]:
    """A model of one node. Without outputs_info the types of outputs are inferred."""
    names = list(dict.fromkeys(n for n in node.input if n))
    values = dict(zip((n for n in node.input if n), inputs))
    ports = [helper.make_value_info(n, type_of(values[n])) for n in names]
    outputs = [n for n in node.output if n]
    if outputs_info:
        types = [helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(t)), shape) for t, shape in outputs_info]
    else:
        types = [TypeProto() for _ in outputs]
    graph = helper.make_graph([node], "node", ports, [helper.make_value_info(n, t) for n, t in zip(outputs, types)])
    opset = helper.make_opsetid(node.domain, opset_version or onnx.defs.onnx_opset_version())
    if node.domain and not opset_version:
        opset = helper.make_opsetid(node.domain, max(s.since_version for s in onnx.defs.get_all_schemas_with_history()
                                                     if s.domain == node.domain))
    model = helper.make_model(graph, opset_imports=[opset])
    return model if outputs_info else onnx.shape_inference.infer_shapes(model), values


class OnnxcBackend(Backend):  # type: ignore[misc, unused-ignore]
    """Compiles for this machine's CPU, in this process. Keywords are those of InferenceSession."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"

    @classmethod
    def prepare(cls, model: Union[onnx.ModelProto, str, bytes], device: str = "CPU", **kwargs: Any) -> OnnxcRep:
        if not cls.supports_device(device):
            raise ValueError(f"device '{device}' is not supported, only 'CPU'")
        return OnnxcRep(InferenceSession(model, **{k: v for k, v in kwargs.items() if k not in NOT_OPTIONS}))

    @classmethod
    def run_model(cls, model: Union[onnx.ModelProto, str, bytes], inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU",
                 outputs_info: Optional[Sequence[Tuple[Any, Sequence[int]]]] = None, **kwargs: Any) -> Any:
        opset_version = kwargs.pop("opset_version", None)
        model, values = model_of(node, inputs, outputs_info, opset_version)
        return cls.prepare(model, device, **kwargs).run(values)


prepare = OnnxcBackend.prepare
run_model = OnnxcBackend.run_model
run_node = OnnxcBackend.run_node
is_compatible = OnnxcBackend.is_compatible
supports_device = OnnxcBackend.supports_device
