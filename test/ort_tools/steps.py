"""What tools do with a model: each step reads a file and writes another; a recipe is a row of steps, "fuse1+dynamic+extended".

The tools are ONNX Runtime's: its transformer optimiser (fuse...), its quantisers (dynamic..., static..., int..., nf4), its
conversion to float16 (half...) and the models that a session saves (basic, extended, all). None of them needs torch.
"""
import os
import tempfile

import onnx
import onnxruntime as ort
from onnxruntime import quantization as q
from onnxruntime.transformers import float16
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_model

LEVELS = {"basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC, "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
          "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL}


UNTYPED = {"DefaultTensorType": onnx.TensorProto.FLOAT}  # of what shape inference does not know: outputs of fused nodes


class Source:
    """What a step knows of the network: its kind in the optimiser's words, its heads and width, and inputs to calibrate with."""

    def __init__(self, kind="bert", heads=0, width=0, feeds=()):
        self.kind, self.heads, self.width, self.feeds = kind, heads, width, list(feeds)


class Feeds(q.CalibrationDataReader):
    def __init__(self, feeds):
        self.left = iter(feeds)

    def get_next(self):
        return next(self.left, None)


# ---- The optimiser of transformers
def fuse(level, **wanted):
    def step(source, path, out):
        options = FusionOptions(source.kind)
        for name, value in wanted.items():
            assert hasattr(options, name), name
            setattr(options, name, value)
        made = optimize_model(path, source.kind, source.heads, source.width, options, opt_level=level)
        made.save_model_to_file(out)
    return step


def fused_half(source, path, out):
    made = optimize_model(path, source.kind, source.heads, source.width, opt_level=0)
    made.convert_float_to_float16(keep_io_types=True)
    made.save_model_to_file(out)


def half(keep):
    def step(_, path, out):
        onnx.save(float16.convert_float_to_float16(onnx.load(path), keep_io_types=keep), out)
    return step


# ---- Quantisers
def dynamic(weights=q.QuantType.QInt8, **more):
    def step(_, path, out):
        q.quantize_dynamic(path, out, weight_type=weights, extra_options=UNTYPED, **more)
    return step


def static(form, activations=q.QuantType.QUInt8, weights=q.QuantType.QInt8, extra=None, first=False, **more):
    def step(source, path, out):  # first: the calibration takes inputs of one size only
        feeds = Feeds(source.feeds[:1] if first else source.feeds)
        q.quantize_static(path, out, feeds, quant_format=form, activation_type=activations, weight_type=weights,
                          extra_options={**UNTYPED, **(extra or {})}, **more)
    return step


def weights_only(bits, block, symmetric, form=q.QuantFormat.QOperator, operators=("MatMul",), accuracy=None):
    def step(_, path, out):
        from onnxruntime.quantization import matmul_nbits_quantizer as nbits
        config = nbits.DefaultWeightOnlyQuantConfig(block_size=block, is_symmetric=symmetric, accuracy_level=accuracy, quant_format=form,
                                                    op_types_to_quantize=operators, bits=bits,
                                                    quant_axes=(("MatMul", 0), ("Gather", 1)))
        quantizer = nbits.MatMulNBitsQuantizer(onnx.load(path), algo_config=config)
        quantizer.process()
        quantizer.model.save_model_to_file(out)
    return step


def four_bit_floats(kind):
    def step(_, path, out):
        from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
        quantizer = MatMulBnb4Quantizer(onnx.load(path), kind, 32)
        quantizer.process()
        quantizer.model.save_model_to_file(out)
    return step


# ---- Models that a session saves
def saved(level):
    def step(_, path, out):
        options = ort.SessionOptions()
        options.graph_optimization_level, options.optimized_model_filepath, options.log_severity_level = LEVELS[level], out, 4
        ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return step


QDQ, OPERATORS = q.QuantFormat.QDQ, q.QuantFormat.QOperator
S8, U8, S16 = q.QuantType.QInt8, q.QuantType.QUInt8, q.QuantType.QInt16
STEPS = {
    **{f"fuse{level}": fuse(level) for level in (0, 1, 2, 99)},
    "heads": fuse(0, use_multi_head_attention=True),
    "plain": fuse(0, enable_skip_layer_norm=False, enable_embed_layer_norm=False, enable_bias_gelu=False),
    "approximate": fuse(0, enable_gelu_approximation=True),
    "fused_half": fused_half,
    "half": half(True),
    "half_all": half(False),
    "dynamic": dynamic(),
    "dynamic_u8": dynamic(U8),
    "dynamic_channels": dynamic(per_channel=True, reduce_range=True),
    "static_qdq": static(QDQ),
    "static_qdq_s8": static(QDQ, S8, per_channel=True),
    "static_qdq_s16": static(QDQ, S16, extra={"UseQDQContribOps": True}),
    "static_ops": static(OPERATORS),
    "static_ops_u8": static(OPERATORS, U8, U8),
    "static_ops_channels": static(OPERATORS, per_channel=True, reduce_range=True),
    "static_percentile": static(QDQ, first=True, calibrate_method=q.CalibrationMethod.Percentile),
    "int4": weights_only(4, 32, True),
    "int4_pairs": weights_only(4, 16, False),
    "int4_fast": weights_only(4, 32, True, accuracy=4),
    "int4_qdq": weights_only(4, 32, True, QDQ),
    "int4_gather": weights_only(4, 32, False, operators=("MatMul", "Gather")),
    "int8": weights_only(8, 64, True),
    "fp4": four_bit_floats(0),
    "nf4": four_bit_floats(1),
    **{level: saved(level) for level in LEVELS},
}


def tolerance(recipe):
    """Relative to the largest element: rounding to float16; where activations are rounded to integers, one step of them."""
    if any(s.startswith(("dynamic", "static")) for s in recipe.split("+")):
        return 2e-2
    return 5e-3 if "half" in recipe else 1e-3


def apply(recipe, source, path, out):
    """Writes the model that the steps make of the one at path."""
    with tempfile.TemporaryDirectory() as folder:
        words = recipe.split("+")
        for number, word in enumerate(words):
            last = number == len(words) - 1
            to = out if last else os.path.join(folder, f"{number}.onnx")
            STEPS[word](source, path, to)
            path = to
