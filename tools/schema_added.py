"""Schemas of operators of projects that have no registry of them, by their documentation, and by the attributes that their
sources read: QONNX (github.com/fastmachinelearning/qonnx) and plug-ins of TensorRT (github.com/NVIDIA/TensorRT)."""
import onnx
from onnx.defs import OpSchema

GENERAL, CHANNELS_LAST = "qonnx.custom_op.general", "qonnx.custom_op.channels_last"
FLOATS = ["tensor(float)", "tensor(float16)", "tensor(double)", "tensor(bfloat16)"]
WIDTHS = FLOATS + [f"tensor(int{bits})" for bits in (8, 16, 32, 64)] + [f"tensor(uint{bits})" for bits in (8, 16, 32, 64)]
# Of TensorRT. Bytes hold floats of 8 bits where the exporter's framework lacks these.
HALVES, F8, BYTES = ["tensor(float)", "tensor(float16)", "tensor(bfloat16)"], ["tensor(float8e4m3fn)"], ["tensor(uint8)"]
TYPES = {"T": FLOATS, "S": FLOATS, "B": WIDTHS, "I": ["tensor(int32)"], "H": HALVES, "E": F8, "C": F8 + BYTES, "N": ["tensor(int4)"],
         "U": BYTES, "P": ["tensor(float8e8m0)"] + BYTES, "F": ["tensor(float4e2m1)"]}
TYPES["Q"] = TYPES["C"] + TYPES["N"] + TYPES["F"] + ["tensor(int8)"]


def parameter(text):
    """NAME:TYPE, with a question mark if it may be left out. TYPE: a key of TYPES, and a digit where two differ."""
    name, letter = text.rstrip("?").split(":")
    option = OpSchema.FormalParameterOption
    return OpSchema.FormalParameter(name, letter, param_option=option.Optional if text[-1] == "?" else option.Single)


def attribute(name, value):
    """value: the default, the type of an attribute that must be there, or None: an integer that may be left out."""
    if value is None:
        return OpSchema.Attribute(name, OpSchema.AttrType.INT, required=False)
    if isinstance(value, type):
        return OpSchema.Attribute(name, {int: OpSchema.AttrType.INT, list: OpSchema.AttrType.INTS}[value])
    return OpSchema.Attribute(name, onnx.helper.make_attribute(name, value))


def operator(name, inputs, outputs="Y:T", since=1, domain=GENERAL, **attributes):
    inputs, outputs = inputs.split(), outputs.split()
    types = sorted({text.rstrip("?").split(":")[1] for text in inputs + outputs})
    return OpSchema(name, domain, since, inputs=[parameter(text) for text in inputs], outputs=[parameter(text) for text in outputs],
                    type_constraints=[(t, TYPES[t[0]], "") for t in types],
                    attributes=[attribute(name, value) for name, value in attributes.items()])


def integers(name):
    return operator(name, "X:T scale:S zeropt:B2 bitwidth:B", signed=1, narrow=0, rounding_mode="ROUND")


def linear(name, inputs, outputs):
    return operator(name, inputs, outputs, domain="TRT", axis=None, block_size=0, output_dtype=0, saturate=1)


def added_schemas():
    return [
        operator("EfficientNMS_TRT", "boxes:T scores:T anchors:T?",
                 "num_detections:I detection_boxes:T detection_scores:T detection_classes:I", domain="TRT",
                 score_threshold=0.25, iou_threshold=0.5, max_output_boxes=100, background_class=-1, score_activation=0,
                 class_agnostic=0, box_coding=0, plugin_version="1"),
        linear("QuantizeLinear", "X:H scale:H2 zero_point:Q?", "Y:Q2"),
        linear("DequantizeLinear", "X:Q scale:H zero_point:Q2?", "Y:H2"),
        linear("TRT_FP8QuantizeLinear", "X:H scale:H2 zero_point:E?", "Y:C"),
        linear("TRT_FP8DequantizeLinear", "X:C scale:H zero_point:C?", "Y:H2"),
        linear("TRT_INT4QuantizeLinear", "X:H scale:H2 zero_point:N?", "Y:N"),
        linear("TRT_INT4DequantizeLinear", "X:N scale:H zero_point:N?", "Y:H2"),
        operator("TRT_MXFP8DynamicQuantize", "X:H", "Y:C scale:U", domain="TRT", axis=-1, block_size=32, output_dtype=17),
        operator("TRT_MXFP8DequantizeLinear", "X:C scale:P", "Y:H", domain="TRT", axis=-1, block_size=32, output_dtype=1),
        operator("TRT_FP4DynamicQuantize", "X:H unit:H2", "Y:F scale:E", domain="TRT", axis=-1, block_size=16, scale_type=17),
        integers("IntQuant"), integers("Quant"),
        operator("BipolarQuant", "X:T scale:S"),
        operator("FloatQuant", "X:T scale:S exponent_bitwidth:B mantissa_bitwidth:B2 exponent_bias:B3? max_val:S2?",
                 rounding_mode="ROUND", has_inf=0, has_nan=0, has_subnormal=0, saturation=1),
        operator("Trunc", "X:T scale:S zeropt:B3 in_bitwidth:B out_bitwidth:B2", rounding_mode="FLOOR"),
        operator("Trunc", "X:T scale:S zeropt:B3 in_bitwidth:B out_scale:S3 out_bitwidth:B2", since=2, rounding_mode="FLOOR",
                 signed=1, narrow=0),
        operator("Im2Col", "X:T", stride=list, kernel_size=list, input_shape="", pad_amount=[0, 0, 0, 0], pad_value=0,
                 depthwise=0, dilations=[1, 1]),
        operator("MaxPoolNHWC", "X:T", kernel_shape=list, strides=list, pads=[0, 0, 0, 0], ceil_mode=0),
        operator("MultiThreshold", "X:T thresholds:S", out_dtype="", out_scale=1.0, out_bias=0.0, data_layout=""),
        operator("QuantAvgPool2d", "X:T", stride=int, kernel=int, ibits=int, obits=int, signed=0, data_layout="NCHW"),
        operator("XnorPopcountMatMul", "A:T B:T"),
    ]


def channels_last():
    """The newest of the standard's operators on tensors whose last axis is that of the channels."""
    return [onnx.defs.get_schema(name) for name in ("BatchNormalization", "Conv", "MaxPool")]
