"""What programs import from ONNX Runtime's module of this name."""
from onnxc.capi.onnxruntime_pybind11_state import *  # noqa: F403
