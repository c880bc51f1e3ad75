"""Models with other constants (SessionOptions.add_initializer). In: a model and arrays by name. Out: its bytes."""
from __future__ import annotations

import os
from typing import Any, Dict, Mapping

import numpy as np

from .errors import InvalidArgument
from .ortvalue import value_of


def with_initializers(model: Any, values: Mapping[str, Any], keywords: Dict[str, Any]) -> bytes:
    """The model with these initializers; its name and folder become keywords of the compiler."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise InvalidArgument("add_initializer needs the package onnx") from error
    if isinstance(model, bytes):
        proto = onnx.load_from_string(model)
    else:
        proto = onnx.load(model, load_external_data=False)
        keywords.setdefault("filename", os.fspath(model))
        keywords.setdefault("data_folder", os.path.dirname(os.path.abspath(model)))
    there = {tensor.name: tensor for tensor in proto.graph.initializer}
    for name, value in values.items():
        if name not in there:
            raise InvalidArgument(f"the model has no initializer '{name}'")
        made = numpy_helper.from_array(np.ascontiguousarray(value_of(value)), name)
        old = there[name]
        if (made.data_type, list(made.dims)) != (old.data_type, list(old.dims)):
            wanted, given = (f"{onnx.TensorProto.DataType.Name(t.data_type).lower()}{list(t.dims)}" for t in (old, made))
            raise InvalidArgument(f"initializer '{name}' is {wanted}, but the value given for it is {given}")
        old.CopyFrom(made)
    return bytes(proto.SerializeToString())
