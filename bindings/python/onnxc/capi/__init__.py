"""The modules of ONNX Runtime's package `capi` that programs import by name, with the classes of onnxc.

Imports are absolute: after sys.modules["onnxruntime"] = onnxc these modules are also loaded as onnxruntime.capi, and both must
have the same classes.
"""
from onnxc.capi import _pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state

__all__ = ["_pybind_state", "onnxruntime_inference_collection", "onnxruntime_pybind11_state"]
