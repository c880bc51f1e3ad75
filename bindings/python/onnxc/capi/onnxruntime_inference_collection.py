"""Sessions and values, by the name of ONNX Runtime's module."""
from onnxc.binding import IOBinding
from onnxc.ortvalue import OrtDevice, OrtValue
from onnxc.session import InferenceSession

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue"]
