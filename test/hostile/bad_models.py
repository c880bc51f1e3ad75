"""The stage that gives onnxc well-formed models with a wrong node: indices out of range, unknown words, contradicting sizes.

Each must be refused with exit code 1 and one message that names the node (or the value) and says what is wrong with it.
usage: bad_models.py [WORD]: only models with this word in their names, and their messages.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import accept  # noqa: E402
from harness import parallel, run_stage  # noqa: E402
from hostile import complaint, fresh_folder, program, run_limited  # noqa: E402

CHANGED = 40  # models of accept.py
F = "float[2, 3] x"
IMAGE = "float[1, 1, 5, 5] x"

def model(inputs, nodes, output="y", opset=21, more="", kind="float"):
    return f'<ir_version: 10, opset_import: ["" : {opset}{more}]>\ng ({inputs}) => ({kind} {output}) {{ {nodes} }}\n'

def ints(name, *values):
    return f"{name} = Constant <value_ints = [{', '.join(map(str, values))}]> () "

def indices():
    """Constant positions that the tensor does not have."""
    i2 = ints("i", 0, 5)
    yield "gather", model(F, i2 + "y = Gather (x, i)"), ("Gather", "5")
    yield "gather_negative", model(F, ints("i", -3) + "y = Gather (x, i)"), ("Gather", "-3")
    yield "gather_of_constant", model("", "x = Constant <value_floats = [1.0, 2.0]> () " + i2 + "y = Gather (x, i)"), ("Gather", "5")
    yield "gather_elements", model(F, "i = Constant <value = int64[1, 3] {0, 1, 2}> () y = GatherElements (x, i)"), ("GatherElements", "2")
    yield "gather_nd", model(F, ints("i", 1, 3) + "y = GatherND (x, i)"), ("GatherND", "3")
    yield "scatter_elements", model(F, "i = Constant <value = int64[1, 3] {0, 1, 2}> () u = Constant <value = float[1, 3] {1, 1, 1}> () y = ScatterElements (x, i, u)"), ("ScatterElements", "2")
    yield "scatter_nd", model(F, "i = Constant <value = int64[1, 1] {-3}> () u = Constant <value = float[1, 3] {1, 1, 1}> () y = ScatterND (x, i, u)"), ("ScatterND", "-3")
    yield "scatter", model(F, "i = Constant <value = int64[1, 3] {0, 1, 2}> () u = Constant <value = float[1, 3] {1, 1, 1}> () y = Scatter (x, i, u)", opset=9), ("2",)
    yield "sequence_at", model(F, "s = SequenceConstruct (x, x) i = Constant <value_int = 2> () y = SequenceAt (s, i)"), ("SequenceAt", "2")
    yield "sequence_erase", model(F, "s = SequenceConstruct (x, x) i = Constant <value_int = -3> () t = SequenceErase (s, i) y = ConcatFromSequence <axis = 0> (t)"), ("SequenceErase", "-3")
    yield "sequence_insert", model(F, "s = SequenceConstruct (x, x) i = Constant <value_int = 3> () t = SequenceInsert (s, x, i) y = ConcatFromSequence <axis = 0> (t)"), ("SequenceInsert", "3")
    yield "tensor_scatter", model("float[1, 2, 3, 4] x, float[1, 2, 1, 4] u", "i = Constant <value_ints = [3]> () y = TensorScatter (x, u, i)", opset=24), ("TensorScatter",)

def shapes():
    """Declared shapes that contradict the computed ones, and inputs whose sizes do."""
    yield "kernel_conv", model(IMAGE + ", float[1, 1, 7, 3] w", "y = Conv (x, w)"), ("Conv", "7", "5")
    yield "kernel_conv_dilated", model(IMAGE + ", float[1, 1, 3, 3] w", "y = Conv <dilations = [3, 1]> (x, w)"), ("Conv", "7", "5")
    for op in ("MaxPool", "AveragePool", "LpPool"):
        yield f"kernel_{op}", model(IMAGE, f"y = {op} <kernel_shape = [3, 9], pads = [0, 1, 0, 1]> (x)"), (op, "9", "7")
        yield f"no_kernel_{op}", model(IMAGE, f"y = {op} <kernel_shape = [3, 0]> (x)"), (op, "kernel_shape", "0")
        yield f"no_stride_{op}", model(IMAGE, f"y = {op} <kernel_shape = [3, 3], strides = [0, 1]> (x)"), (op, "strides")
        yield f"dilation_{op}", model(IMAGE, f"y = {op} <kernel_shape = [3, 3], dilations = [1, -1]> (x)", opset=22), (op, "dilations")
        yield f"pads_{op}", model(IMAGE, f"y = {op} <kernel_shape = [3, 3], pads = [0, 1, -1, 1]> (x)"), (op, "pads")
        yield f"count_{op}", model(IMAGE, f"y = {op} <kernel_shape = [3]> (x)"), (op, "kernel_shape")
        yield f"auto_{op}", model(IMAGE, f'y = {op} <kernel_shape = [3, 3], auto_pad = "SAME"> (x)'), (op, "auto_pad", "SAME")
    yield "kernel_qlinear", model("uint8[1, 1, 5, 5] x, uint8[1, 1, 7, 3] w", "y = ConvInteger (x, w)", kind="int32"), ("ConvInteger", "7", "5")
    yield "kernel_deform", model(IMAGE + ", float[1, 1, 7, 7] w, float[1, 98, 1, 1] o", "y = DeformConv (x, w, o)"), ("DeformConv", "7")
    yield "kernel_shape_conv", model(IMAGE + ", float[1, 1, 3, 3] w", "y = Conv <kernel_shape = [5, 3]> (x, w)"), ("Conv", "kernel_shape", "5", "3")
    yield "group_conv", model("float[1, 4, 5, 5] x, float[4, 2, 3, 3] w", "y = Conv <group = 3> (x, w)"), ("Conv", "group")
    yield "no_group_conv", model("float[1, 4, 5, 5] x, float[4, 2, 3, 3] w", "y = Conv <group = 0> (x, w)"), ("Conv", "group", "0")
    yield "maps_conv", model("float[1, 4, 5, 5] x, float[3, 2, 3, 3] w", "y = Conv <group = 2> (x, w)"), ("Conv", "3", "2")
    yield "bias_conv", model(IMAGE + ", float[2, 1, 3, 3] w, float[3] b", "y = Conv (x, w, b)"), ("Conv", "3", "2")
    yield "reshape", model(F, ints("s", 4, -1) + "y = Reshape (x, s)"), ("Reshape", "4")
    yield "reshape_two", model(F, ints("s", -1, -1) + "y = Reshape (x, s)"), ("Reshape", "-1")
    yield "reshape_beside", model(F, ints("s", 0, -1) + "y = Reshape <allowzero = 1> (x, s)"), ("Reshape", "-1", "allowzero")
    yield "reshape_less", model(F, ints("s", -2, -3) + "y = Reshape (x, s)"), ("Reshape", "-2")
    yield "reshape_zero", model(F, ints("s", 2, 3, 0) + "y = Reshape (x, s)"), ("Reshape",)
    yield "expand", model(F, ints("s", 2, 4) + "y = Expand (x, s)"), ("Expand", "3", "4")
    yield "tile", model(F, ints("s", 2) + "y = Tile (x, s)"), ("Tile",)
    yield "tile_negative", model(F, ints("s", 2, -1) + "y = Tile (x, s)"), ("Tile", "-1")
    yield "squeeze", model(F, ints("s", 0) + "y = Squeeze (x, s)"), ("Squeeze", "2")
    yield "flatten", model(F, "y = Flatten <axis = 3> (x)"), ("Flatten", "3")
    yield "split_sum", model(F, ints("s", 1, 3) + "y, z = Split (x, s)"), ("Split",)
    yield "split_count", model(F, ints("s", 1, 1) + "y = Split (x, s)"), ("Split",)
    yield "split_negative", model(F, ints("s", 3, -1) + "y, z = Split (x, s)"), ("Split", "-1")
    yield "split_both", model(F, ints("s", 1, 1) + "y, z = Split <num_outputs = 2> (x, s)"), ("Split", "num_outputs")
    yield "split_outputs", model(F, "y, z = Split <num_outputs = 3> (x)"), ("Split", "num_outputs", "3")
    yield "concat_sizes", model(F + ", float[2, 4] z", "y = Concat <axis = 0> (x, z)"), ("Concat", "3", "4")
    yield "concat_ranks", model(F + ", float[2] z", "y = Concat <axis = 0> (x, z)"), ("Concat",)
    yield "pads", model(F, ints("p", 1, 1) + "y = Pad (x, p)"), ("Pad", "2", "4")
    yield "pads_all", model(F, ints("p", 0, -2, 0, -2) + "y = Pad (x, p)"), ("Pad",)
    yield "pads_axes", model(F, ints("p", 1, 1) + ints("a", 1, 0) + 'y = Pad (x, p, "", a)'), ("Pad",)
    yield "top_k", model(F, ints("k", 4) + "y, z = TopK (x, k)"), ("TopK", "4", "3")
    yield "top_k_negative", model(F, ints("k", -1) + "y, z = TopK (x, k)"), ("TopK", "-1")
    yield "depth", model("float[1, 3, 2, 2] x", "y = DepthToSpace <blocksize = 2> (x)"), ("DepthToSpace", "3")
    yield "no_depth", model("float[1, 3, 2, 2] x", "y = DepthToSpace <blocksize = 0> (x)"), ("DepthToSpace", "0")
    yield "space", model("float[1, 3, 3, 2] x", "y = SpaceToDepth <blocksize = 2> (x)"), ("SpaceToDepth", "3")
    yield "shuffle_mode", model("float[1, 4, 2, 2] x", 'y = DepthToSpace <blocksize = 2, mode = "RDC"> (x)'), ("DepthToSpace", "RDC")
    yield "gemm", model(F + ", float[4, 5] w", "y = Gemm (x, w)"), ("Gemm", "3", "4")
    yield "gemm_flag", model(F + ", float[3, 5] w", "y = Gemm <transA = 0, transB = 2> (x, w)"), ("Gemm", "3", "5")
    yield "matmul", model(F + ", float[4, 5] w", "y = MatMul (x, w)"), ("MatMul", "3", "4")
    yield "matmul_scalar", model(F + ", float w", "w0 = Constant <value_float = 1.0> () y = MatMul (x, w0)"), ("MatMul",)
    yield "einsum", model(F + ", float[4, 5] w", 'y = Einsum <equation = "ij,jk->ik"> (x, w)'), ("Einsum", "3", "4")
    yield "einsum_letters", model(F, 'y = Einsum <equation = "ijk->ik"> (x)'), ("Einsum",)
    yield "einsum_unknown", model(F, 'y = Einsum <equation = "ij->iz"> (x)'), ("Einsum", "iz")
    yield "one_hot_values", model("int64[3] x", "d = Constant <value_int = 4> () v = Constant <value_floats = [0.0, 1.0, 2.0]> () y = OneHot (x, d, v)"), ("OneHot", "3")
    yield "one_hot_depth", model("int64[3] x", "d = Constant <value_int = -4> () v = Constant <value_floats = [0.0, 1.0]> () y = OneHot (x, d, v)"), ("OneHot", "-4")
    yield "range", model("", "a = Constant <value_int = 0> () d = Constant <value_int = 0> () b = Constant <value_int = 5> () y = Range (a, b, d)", kind="int64"), ("Range", "0")
    yield "constant_of_shape", model("", ints("s", 2, -1) + "y = ConstantOfShape (s)"), ("ConstantOfShape", "-1")
    yield "constant_of_value", model("", ints("s", 2) + "y = ConstantOfShape <value = float[2] {1, 2}> (s)"), ("ConstantOfShape", "2")
    yield "layer_norm", model(F + ", float[2] s", "y = LayerNormalization (x, s)"), ("LayerNormalization",)
    yield "batch_norm", model("float[1, 3, 2] x, float[2] s", "y = BatchNormalization (x, s, s, s, s)"), ("BatchNormalization", "2", "3")
    yield "group_norm", model("float[1, 3, 2] x, float[3] s", "y = GroupNormalization <num_groups = 2> (x, s, s)"), ("GroupNormalization", "2", "3")
    yield "no_group_norm", model("float[1, 3, 2] x, float[3] s", "y = GroupNormalization <num_groups = 0> (x, s, s)"), ("GroupNormalization", "0")
    yield "lstm_weights", model("float[2, 1, 3] x, float[1, 8, 4] w, float[1, 8, 2] r", "y = LSTM <hidden_size = 2> (x, w, r)"), ("LSTM", "4", "3")
    yield "lstm_hidden", model("float[2, 1, 3] x, float[1, 8, 3] w, float[1, 8, 2] r", "y = LSTM <hidden_size = 3> (x, w, r)"), ("LSTM",)
    yield "lstm_direction", model("float[2, 1, 3] x, float[1, 8, 3] w, float[1, 8, 2] r", 'y = LSTM <hidden_size = 2, direction = "backward"> (x, w, r)'), ("LSTM", "backward")
    yield "lstm_activation", model("float[2, 1, 3] x, float[1, 8, 3] w, float[1, 8, 2] r", 'y = LSTM <hidden_size = 2, activations = ["Sigmoid", "Tan", "Tanh"]> (x, w, r)'), ("LSTM", "Tan")
    yield "lstm_activations", model("float[2, 1, 3] x, float[1, 8, 3] w, float[1, 8, 2] r", 'y = LSTM <hidden_size = 2, activations = ["Sigmoid", "Tanh"]> (x, w, r)'), ("LSTM", "2", "3")
    yield "gru_layout", model("float[2, 1, 3] x, float[1, 6, 3] w, float[1, 6, 2] r", "y = GRU <hidden_size = 2, layout = 2> (x, w, r)"), ("GRU", "layout", "2")
    yield "rnn_hidden", model("float[2, 1, 3] x, float[1, 2, 3] w, float[1, 2, 2] r", "y = RNN <hidden_size = -2> (x, w, r)"), ("RNN", "hidden_size", "-2")
    yield "attention_heads", model("float[1, 4, 6] q", "y = Attention <q_num_heads = 4, kv_num_heads = 4> (q, q, q)", opset=23), ("Attention", "6", "4")
    yield "attention_groups", model("float[1, 3, 4, 6] q, float[1, 2, 4, 6] k", "y = Attention (q, k, k)", opset=23), ("Attention", "3", "2")
    yield "rotary", model("float[1, 4, 6] x, float[4, 3] c", "y = RotaryEmbedding (x, c, c)", opset=23), ("RotaryEmbedding",)
    yield "quantize_axis", model(F + ", float[3] s", "y = QuantizeLinear <axis = 2> (x, s)", kind="uint8"), ("QuantizeLinear", "2")
    yield "dequantize_axis", model("uint8[3] x, float[3] s", "y = DequantizeLinear (x, s)"), ("DequantizeLinear", "axis", "1")
    yield "quantize_scale", model(F + ", float[2] s", "y = QuantizeLinear (x, s)", kind="uint8"), ("QuantizeLinear", "2", "3")
    yield "quantize_zero", model(F + ", float[3] s, uint8[2] z", "y = QuantizeLinear (x, s, z)", kind="uint8"), ("QuantizeLinear",)
    yield "quantize_block", model("float[4, 6] x, float[4, 3] s", "y = QuantizeLinear <block_size = -2> (x, s)", kind="uint8"), ("QuantizeLinear", "block_size", "-2")
    yield "quantize_type", model(F + ", float[3] s, uint8[3] z", "y = QuantizeLinear <output_dtype = 3> (x, s, z)", kind="int8"), ("QuantizeLinear",)
    yield "cast", model(F, "y = Cast <to = 99> (x)"), ("Cast", "99")
    yield "cast_none", model(F, "y = Cast <to = 0> (x)"), ("Cast", "0")
    yield "eye", model("float[2] x", "y = EyeLike (x)"), ("EyeLike",)
    yield "det", model("float[2, 3] x", "y = Det (x)"), ("Det", "2", "3")
    yield "nms", model("float[1, 4, 3] b, float[1, 2, 4] s", "y = NonMaxSuppression (b, s)", kind="int64"), ("NonMaxSuppression", "3")
    yield "roi_align", model("float[1, 1, 5, 5] x, float[2, 4] r, int64[3] b", "y = RoiAlign (x, r, b)"), ("RoiAlign", "2", "3")
    yield "roi_columns", model("float[1, 1, 5, 5] x, float[2, 3] r, int64[2] b", "y = RoiAlign (x, r, b)"), ("RoiAlign", "3")
    yield "grid", model("float[1, 1, 5, 5] x, float[1, 2, 2, 3] g", "y = GridSample (x, g)"), ("GridSample", "3")
    yield "where", model("bool[2] c, float[3] x, float[3] z", "y = Where (c, x, z)"), ("Where", "2", "3")
    yield "slice_step", model(F, ints("s", 0) + ints("e", 2) + ints("t", 0) + 'y = Slice (x, s, e, "", t)'), ("Slice", "0")
    yield "slice_counts", model(F, ints("s", 0, 0) + ints("e", 2) + "y = Slice (x, s, e)"), ("Slice", "1", "2")
    yield "slice_many", model(F, ints("s", 0, 0, 0) + ints("e", 2, 2, 2) + "y = Slice (x, s, e)"), ("Slice", "3", "2")
    yield "compress", model(F + ", bool[2, 2] c", "y = Compress <axis = 0> (x, c)"), ("Compress", "2")
    yield "cum_flag", model(F, "a = Constant <value_int = 0> () y = CumSum <exclusive = -2> (x, a)"), ("CumSum", "exclusive", "-2")
    yield "mod_flag", model(F, "y = Mod <fmod = 2> (x, x)"), ("Mod", "fmod", "2")
    yield "tf_idf_scalar", model("int64 x", 'y = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, ngram_counts = [0], ngram_indexes = [0], pool_int64s = [1]> (x)'), ("TfIdfVectorizer", "0")
    yield "cum_sum", model(F, "a = Constant <value_int = 2> () y = CumSum (x, a)"), ("CumSum", "2")
    yield "trilu", model("float[3] x", "y = Trilu (x)"), ("Trilu",)
    yield "mean_variance", model(F, "y = MeanVarianceNormalization <axes = [0, 2]> (x)"), ("2",)
    yield "nll", model("float[2, 3] x, int64[3] t", "y = NegativeLogLikelihoodLoss (x, t)"), ("NegativeLogLikelihoodLoss", "2", "3")
    yield "nll_weight", model("float[2, 3] x, int64[2] t, float[2] w", "y = NegativeLogLikelihoodLoss (x, t, w)"), ("NegativeLogLikelihoodLoss", "2", "3")
    yield "dft_axis", model("float[1, 8, 1] x", "a = Constant <value_int = 3> () y = DFT (x, \"\", a)"), ("DFT", "3")
    yield "stft", model("float[1, 8, 1] x", "s = Constant <value_int = 0> () l = Constant <value_int = 4> () y = STFT (x, s, \"\", l)"), ("STFT", "0")
    yield "col2im", model("float[1, 5, 4] x", ints("i", 4, 4) + ints("b", 1, 2) + "y = Col2Im (x, i, b)"), ("Col2Im",)
    yield "unpool", model("float[1, 1, 2, 2] x, int64[1, 1, 2, 3] i", "y = MaxUnpool <kernel_shape = [2, 2]> (x, i)"), ("MaxUnpool",)

def lone_numbers():
    """Inputs that must be one number, or one per channel, row or column, and have others; lists with too many axes."""
    deep = ", ".join(["1"] * 31)
    ms = ', "com.microsoft" : 1'
    yield "clip_min", model("float[8] x, float[3] a", "y = Clip (x, a)"), ("Clip", "minima", "3")
    yield "clip_max", model(f'float[8] x, float[{deep}, 2] a', 'y = Clip (x, "", a)'), ("Clip", "maxima", "2")
    yield "clip_empty", model("float[8] x, float[0] a", "y = Clip (x, a)"), ("Clip", "minima", "0")
    yield "dropout_ratio", model("float[8] x, float[2] r, bool t", "y = Dropout (x, r, t)"), ("Dropout", "ratios", "2")
    yield "dropout_mode", model(f"float x, float r, bool[{deep}, 3] t", "y = Dropout (x, r, t)"), ("Dropout", "training modes", "3")
    yield "pad_value", model(F + ", float[2] v", ints("p", 1, 1, 1, 1) + "y = Pad (x, p, v)"), ("Pad", "constant values", "2")
    yield "mel_edge", model("float[2] e", "b = Constant <value_int = 8> () f = Constant <value_float = 1.0> () y = MelWeightMatrix (b, b, b, f, e)"), ("MelWeightMatrix", "upper edges", "2")
    yield "reduce_axes", model(f"float[2] x, int64[{deep}, 40] a", "y = ReduceL1 (x, a)"), ("ReduceL1", "axes has rank 32")
    yield "reduce_axes_pairs", model("float[2, 3] x, int64[2, A] a", "y = ReduceMax (x, a)"), ("ReduceMax", "axes has rank 2")
    yield "conv_zero", model("uint8[1, 1, 5, 5] x, uint8[2, 1, 3, 3] w, uint8[2] z", "y = ConvInteger (x, w, z)", kind="int32"), ("ConvInteger", "zero points", "2")
    yield "conv_zeros", model("uint8[1, 1, 5, 5] x, uint8[2, 1, 3, 3] w, uint8[3] z", 'y = ConvInteger (x, w, "", z)', kind="int32"), ("ConvInteger", "3", "2")
    yield "product_zeros", model("uint8[4, 3] x, uint8[3, 2] w, uint8[3] z", "y = MatMulInteger (x, w, z)", kind="int32"), ("MatMulInteger", "3", "4")
    yield "product_columns", model("uint8[4, 3] x, uint8[3, 2] w, uint8[1, 3] z", 'y = MatMulInteger (x, w, "", z)', kind="int32"), ("MatMulInteger", "3", "2")
    for i, at in enumerate(("xs", "xz", "ws", "wz", "ys", "yz")):
        sizes = {name: "[3]" if name == at else "" for name in ("xs", "xz", "ws", "wz", "ys", "yz")}
        inputs = "".join(f", {'float' if name[1] == 's' else 'uint8'}{size} {name}" for name, size in sizes.items())
        yield f"qlinear_conv_{at}", model("uint8[1, 1, 5, 5] x, uint8[2, 1, 3, 3] w" + inputs, "y = QLinearConv (x, xs, xz, w, ws, wz, ys, yz)", kind="uint8"), ("QLinearConv", "3")
        yield f"qlinear_product_{at}", model("uint8[4, 5] x, uint8[5, 2] w" + inputs, "y = QLinearMatMul (x, xs, xz, w, ws, wz, ys, yz)", kind="uint8"), ("QLinearMatMul", "3")
    yield "momentum", model("float[2] r, int64 t, float[3] x, float[3] g, float[3] v", 'y, z = ai.onnx.preview.training.Momentum <alpha = 0.5, beta = 0.5, norm_coefficient = 0.0, mode = "standard"> (r, t, x, g, v)', more=', "ai.onnx.preview.training" : 1'), ("Momentum", "learning rates", "2")
    for count, kind in ((0, "int64"), (2, "int64"), (1, "float")):
        values = ", ".join(["7"] * count)
        yield f"label_{count}_{kind}", model("int64[2] x", f"y = ai.onnx.ml.LabelEncoder <keys_int64s = [1], values_int64s = [2], default_tensor = {kind}[{count}] {{{values}}}> (x)", more=', "ai.onnx.ml" : 4', kind="int64"), ("LabelEncoder", "default_tensor", f"{count} elements")
    deform = "float[2, 1, 3, 3] x, float[2, 1, 2, 2] w, float[2, 8, 2, 2] o"
    for sizes in ("1", "3", "2, 1"):
        yield f"deform_bias_{sizes.replace(', ', '_')}", model(f"{deform}, float[{sizes}] b", "y = DeformConv (x, w, o, b)", opset=22), ("DeformConv", "bias")
    yield "deform_mask", model(f"{deform}, float[1, 4, 2, 2] m", 'y = DeformConv (x, w, o, "", m)', opset=22), ("DeformConv", "batches of X and mask")
    yield "swiglu_deep", model(f"float[{deep}, 4] x", "y = com.microsoft.SwiGLU (x)", more=ms), ("SwiGLU", "33")
    yield "moe_scalar", model("float x, float[3, 2] p, float[3, 4, 4] w, float[3, 4, 4] v", 'y = com.microsoft.MoE (x, p, w, "", v)', more=ms), ("MoE", "rank 0")
    yield "group_norm_list", model("float[4] x, float[4] a, float[1, 4] s", "y = com.microsoft.SkipGroupNorm <groups = 2, activation = 0> (x, a, a, s)", more=ms), ("SkipGroupNorm", "1 axes too few")
    yield "conv_transpose_list", model("float[1] x, float[2] w, int64[1] p", "y = com.microsoft.ConvTransposeWithDynamicPads (x, w, p)", more=ms), ("ConvTransposeWithDynamicPads", "1 axes too few")

def control():
    """Branches and bodies that do not fit their node."""
    branch = "g{} () => ({}) {{ {} }}"
    one, two = branch.format(1, "float[2, 3] a", "a = Neg (x)"), branch.format(2, "float[2, 3] a, float[2, 3] b", "a = Neg (x) b = Neg (x)")
    yield "if_outputs", model("bool c, " + F, f"y = If (c) <then_branch = {one}, else_branch = {two}>"), ("If", "1", "2")
    yield "if_fewer", model("bool c, " + F, f"y, z = If (c) <then_branch = {one}, else_branch = {one}>"), ("If", "1", "2")
    yield "if_inputs", model("bool c, " + F, f"y = If (c) <then_branch = {one.replace('()', '(float q)')}, else_branch = {one}>"), ("If",)
    yield "if_two", model("bool[2] c, " + F, f"y = If (c) <then_branch = {one}, else_branch = {one}>"), ("If", "2")
    yield "if_float", model("float c, " + F, f"y = If (c) <then_branch = {one}, else_branch = {one}>"), ("If", "float")
    yield "if_types", model("bool c, " + F, f"y = If (c) <then_branch = {one}, else_branch = g3 () => (int64[2, 3] a) {{ a = Cast <to = 7> (x) }}>"), ("If", "int64")
    yield "if_const_two", model(F, f"c = Constant <value = bool[2] {{1, 0}}> () y = If (c) <then_branch = {one}, else_branch = {one}>"), ("If", "2")

    def loop(inputs, outputs, nodes, call="n, c, x", made="y", kinds="int64 n, bool c, " + F):
        return model(kinds, f"{made} = Loop ({call}) <body = b ({inputs}) => ({outputs}) {{ {nodes} }}>")

    good = ("int64 i, bool d, float[2, 3] a", "bool e, float[2, 3] o", "e = Identity (d) o = Neg (a)")
    yield "loop_inputs", loop("int64 i, bool d", *good[1:]).replace("(a)", "(x)"), ("Loop", "2", "3")
    yield "loop_more_inputs", loop(good[0] + ", float q", *good[1:]), ("Loop", "4", "3")
    yield "loop_outputs", loop(good[0], "bool e", good[2]), ("Loop", "1")
    yield "loop_no_outputs", loop(good[0], "", good[2]), ("Loop", "0")
    yield "loop_made", loop(*good, made="y, z"), ("Loop", "2")
    yield "loop_condition", loop("int64 i, bool d, float[2, 3] a", "float e, float[2, 3] o", "e = Constant <value_float = 1.0> () o = Neg (a)"), ("Loop", "float")
    yield "loop_condition_in", loop("int64 i, float d, float[2, 3] a", good[1], "e = Cast <to = 9> (d) o = Neg (a)"), ("Loop", "float")
    yield "loop_condition_two", loop(good[0], "bool[2] e, float[2, 3] o", "e = Constant <value = bool[2] {1, 1}> () o = Neg (a)"), ("Loop", "2")
    yield "loop_float", loop(*good, kinds="int64 n, float c, " + F), ("Loop", "float")
    yield "loop_two", loop(*good, kinds="int64 n, bool[2] c, " + F), ("Loop", "2")
    yield "loop_trips", loop(*good, kinds="int64[2] n, bool c, " + F), ("Loop", "2")
    yield "loop_trips_float", loop(*good, kinds="float n, bool c, " + F), ("Loop", "float")
    yield "loop_type", loop(good[0], "bool e, int64[2, 3] o", "e = Identity (d) o = Cast <to = 7> (a)"), ("Loop", "int64")
    yield "loop_iteration", loop("float i, bool d, float[2, 3] a", *good[1:]), ("Loop", "float")

    def scan(attributes="num_scan_inputs = 1", inputs="float[3] s, float[3] a", outputs="float[3] t, float[3] o", nodes="t = Add (s, a) o = Neg (t)", made="y, z", call="v, x"):
        return model("float[3] v, " + F, f"{made} = Scan <{attributes}> ({call}) <body = b ({inputs}) => ({outputs}) {{ {nodes} }}>".replace(f"<{attributes}> ({call}) <", f"({call}) <{attributes}, "))

    yield "scan_none", scan("num_scan_inputs = 0"), ("Scan", "0")
    yield "scan_many", scan("num_scan_inputs = 3"), ("Scan", "3")
    yield "scan_direction", scan("num_scan_inputs = 1, scan_input_directions = [2]"), ("Scan", "directions", "2")
    yield "scan_directions", scan("num_scan_inputs = 1, scan_input_directions = [0, 0]"), ("Scan", "directions", "2")
    yield "scan_out_direction", scan("num_scan_inputs = 1, scan_output_directions = [-1]"), ("Scan", "directions", "-1")
    yield "scan_out_directions", scan("num_scan_inputs = 1, scan_output_directions = [0, 1]"), ("Scan", "directions", "2")
    yield "scan_axis", scan("num_scan_inputs = 1, scan_input_axes = [2]"), ("Scan", "2")
    yield "scan_axes", scan("num_scan_inputs = 1, scan_input_axes = [0, 0]"), ("Scan", "2")
    yield "scan_out_axis", scan("num_scan_inputs = 1, scan_output_axes = [2]"), ("Scan", "2")
    yield "scan_inputs", scan(inputs="float[3] s").replace("(s, a)", "(s, s)"), ("Scan", "1", "2")
    yield "scan_outputs", scan(outputs="float[3] t"), ("Scan", "1", "2")
    yield "scan_state", scan(outputs="float[1, 3] t, float[3] o", nodes="q = Constant <value_ints = [0]> () p = Add (s, a) t = Unsqueeze (p, q) o = Neg (p)"), ("Scan",)
    yield "sequence_map", model("seq(float[2]) x", "y = SequenceMap (x) <body = b (float[2] a, float[2] c) => (float[2] o) { o = Add (a, c) }>", kind="seq(float[2])"), ("SequenceMap", "2", "1")

def attributes():
    """Words, axes and combinations of attributes that no operator has."""
    yield "gelu", model(F, 'y = Gelu <approximate = "Tanh"> (x)'), ("Gelu", "approximate", "Tanh")
    yield "cast_round", model(F, 'y = Cast <to = 24, round_mode = "upwards"> (x)', opset=24, kind="float8e8m0"), ("Cast", "round_mode", "upwards")
    yield "shift", model("uint8[2] x", 'y = BitShift <direction = "left"> (x, x)', kind="uint8"), ("BitShift", "direction", "left")
    yield "pad_mode", model(F, ints("p", 0, 0, 0, 0) + 'y = Pad <mode = "zero"> (x, p)'), ("Pad", "mode", "zero")
    yield "resize_mode", model(IMAGE, ints("s", 1, 1, 9, 9) + 'y = Resize <mode = "bilinear"> (x, "", "", s)'), ("Resize", "mode", "bilinear")
    yield "resize_nearest", model(IMAGE, ints("s", 1, 1, 9, 9) + 'y = Resize <nearest_mode = "round"> (x, "", "", s)'), ("Resize", "nearest_mode", "round")
    yield "resize_coordinates", model(IMAGE, ints("s", 1, 1, 9, 9) + 'y = Resize <coordinate_transformation_mode = "half"> (x, "", "", s)'), ("Resize", "coordinate_transformation_mode", "half")
    yield "resize_policy", model(IMAGE, ints("s", 9, 9) + 'y = Resize <axes = [2, 3], keep_aspect_ratio_policy = "keep"> (x, "", "", s)'), ("Resize", "keep_aspect_ratio_policy", "keep")
    yield "resize_both", model(IMAGE, ints("s", 1, 1, 9, 9) + 'f = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () y = Resize (x, "", f, s)'), ("Resize", "scales", "sizes")
    yield "resize_neither", model(IMAGE, "y = Resize (x)"), ("Resize", "scales", "sizes")
    yield "resize_count", model(IMAGE, ints("s", 9, 9) + 'y = Resize (x, "", "", s)'), ("Resize", "2", "4")
    yield "resize_axes", model(IMAGE, ints("s", 9, 9) + 'y = Resize <axes = [2, 2]> (x, "", "", s)'), ("Resize", "2", "twice")
    yield "resize_scale", model(IMAGE, 'f = Constant <value_floats = [1.0, 1.0, -2.0, 2.0]> () y = Resize (x, "", f)'), ("Resize", "-2")
    yield "resize_no_scale", model(IMAGE, 'f = Constant <value_floats = [1.0, 1.0, 0.0, 2.0]> () y = Resize (x, "", f)'), ("Resize", "0")
    yield "resize_roi", model(IMAGE, ints("s", 1, 1, 9, 9) + 'y = Resize <coordinate_transformation_mode = "tf_crop_and_resize"> (x, "", "", s)'), ("Resize", "roi")
    yield "upsample_scales", model(IMAGE, 'f = Constant <value = float[2] {1, 2}> () y = Upsample (x, f)', opset=9), ("2", "4")
    yield "perm", model(F, "y = Transpose <perm = [-1, 0]> (x)"), ("Transpose", "-1")
    yield "perm_count", model(F, "y = Transpose <perm = [0]> (x)"), ("Transpose", "1", "2")
    yield "perm_twice", model(F, "y = Transpose <perm = [1, 1]> (x)"), ("Transpose", "1")
    yield "perm_large", model(F, "y = Transpose <perm = [0, 2]> (x)"), ("Transpose", "2")
    for op in ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2", "ReduceLogSumExp"):
        yield f"axes_{op}", model(F, ints("a", 1, -1) + f"y = {op} (x, a)"), (op, "twice")
        yield f"axis_{op}", model(F, ints("a", 2) + f"y = {op} (x, a)"), (op, "2")
        yield f"old_axes_{op}", model(F, f"y = {op} <axes = [1, 1]> (x)", opset=11), (op, "twice")
    yield "unsqueeze", model(F, ints("a", 0, -4) + "y = Unsqueeze (x, a)"), ("Unsqueeze", "twice")
    yield "unsqueeze_far", model(F, ints("a", 4, 0) + "y = Unsqueeze (x, a)"), ("Unsqueeze", "4")
    yield "squeeze_twice", model("float[1, 3] x", ints("a", 0, -2) + "y = Squeeze (x, a)"), ("Squeeze", "twice")
    yield "slice_axes", model(F, ints("s", 0, 0) + ints("e", 2, 2) + ints("a", 1, -1) + "y = Slice (x, s, e, a)"), ("Slice", "twice")
    yield "pad_axes", model(F, ints("p", 1, 1, 1, 1) + ints("a", 1, 1) + 'y = Pad (x, p, "", a)'), ("Pad", "twice")
    yield "crop_axes", model(F, ints("s", 1, 1) + ints("a", 1, 1) + "y = CenterCropPad <axes = [1, 1]> (x, s)"), ("CenterCropPad", "twice")
    yield "mvn_axes", model(F, "y = MeanVarianceNormalization <axes = [1, 1]> (x)"), ("twice",)
    for op in ("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "LpNormalization", "Gather", "Concat", "Split", "GatherElements", "TopK", "Compress", "LayerNormalization", "QuantizeLinear"):
        extra = {"Gather": ", i", "GatherElements": ", j", "TopK": ", i", "Compress": ", c", "LayerNormalization": ", s", "QuantizeLinear": ", s"}.get(op, "")
        made = {"Split": "y, z", "TopK": "y, z"}.get(op, "y")
        more = ", num_outputs = 2" if op == "Split" else ""
        kind = {"ArgMax": "int64", "QuantizeLinear": "uint8"}.get(op, "float")
        for axis in (2, -3, 2**31, -2**63):
            yield f"axis{axis}_{op}", model(F + ", int64[1] i, int64[1, 1] j, bool[1] c, float[3] s", f"{made} = {op} <axis = {axis}{more}> (x{extra})", kind=kind), (op, str(axis))
    yield "scatter_reduction", model(F, "i = Constant <value = int64[1, 1] {0}> () u = Constant <value = float[1, 3] {1, 1, 1}> () y = ScatterND <reduction = \"sum\"> (x, i, u)"), ("ScatterND", "reduction", "sum")
    yield "scatter_elements_reduction", model(F + ", int64[1, 1] i, float[1, 1] u", 'y = ScatterElements <reduction = "sum"> (x, i, u)'), ("ScatterElements", "reduction", "sum")
    yield "roi_mode", model("float[1, 1, 5, 5] x, float[2, 4] r, int64[2] b", 'y = RoiAlign <mode = "mean"> (x, r, b)'), ("RoiAlign", "mode", "mean")
    yield "roi_ratio", model("float[1, 1, 5, 5] x, float[2, 4] r, int64[2] b", "y = RoiAlign <sampling_ratio = -1> (x, r, b)"), ("RoiAlign", "sampling_ratio", "-1")
    yield "roi_height", model("float[1, 1, 5, 5] x, float[2, 4] r, int64[2] b", "y = RoiAlign <output_height = 0> (x, r, b)"), ("RoiAlign", "output_height", "0")
    yield "grid_mode", model("float[1, 1, 5, 5] x, float[1, 2, 2, 2] g", 'y = GridSample <mode = "bilinear"> (x, g)', opset=20), ("GridSample", "mode", "bilinear")
    yield "grid_padding", model("float[1, 1, 5, 5] x, float[1, 2, 2, 2] g", 'y = GridSample <padding_mode = "edge"> (x, g)'), ("GridSample", "padding_mode", "edge")
    yield "nll_reduction", model("float[2, 3] x, int64[2] t", 'y = NegativeLogLikelihoodLoss <reduction = "max"> (x, t)'), ("reduction", "max")
    yield "loss_reduction", model("float[2, 3] x, int64[2] t", 'y = SoftmaxCrossEntropyLoss <reduction = "max"> (x, t)'), ("reduction", "max")
    yield "lp_p", model(F, "y = LpNormalization <p = 3> (x)"), ("LpNormalization", "3")
    yield "lp_pool_p", model(IMAGE, "y = LpPool <p = 0, kernel_shape = [2, 2]> (x)"), ("LpPool", "0")
    yield "lrn_size", model(IMAGE, "y = LRN <size = 0> (x)"), ("LRN", "size", "0")
    yield "string_case", model("string[2] x", 'y = StringNormalizer <case_change_action = "lower"> (x)', kind="string"), ("StringNormalizer", "case_change_action", "lower")
    yield "storage_order", model(IMAGE, "y = MaxPool <kernel_shape = [2, 2], storage_order = 2> (x)"), ("MaxPool", "storage_order", "2")
    yield "tf_idf", model("int64[4] x", 'y = TfIdfVectorizer <mode = "IF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, ngram_counts = [0], ngram_indexes = [0], pool_int64s = [1]> (x)'), ("TfIdfVectorizer", "mode", "IF")
    yield "affine", model("float[2, 2, 3] x", ints("s", 2, 1, 4) + "y = AffineGrid (x, s)"), ("AffineGrid",)
    yield "softmax_precision", model("float[1, 2, 4, 6] q", "y = Attention <softmax_precision = 7> (q, q, q)", opset=23), ("Attention", "softmax_precision", "7")
    yield "attention_matrix", model("float[1, 2, 4, 6] q", 'y, "", "", z = Attention <qk_matmul_output_mode = 5> (q, q, q)', opset=23), ("Attention", "qk_matmul_output_mode", "5")
    yield "multinomial_classes", model("float[2, 0] x", "y = Multinomial (x)", kind="int32"), ("Multinomial", "no classes")
    yield "multinomial", model(F, "y = Multinomial <sample_size = -2> (x)", kind="int32"), ("Multinomial", "sample_size", "-2")
    yield "dropout", model(F, "r = Constant <value_float = 1.5> () t = Constant <value = bool {1}> () y = Dropout (x, r, t)"), ("Dropout", "1.5")
    yield "top_k_old", model(F, "y, z = TopK <k = 0, axis = 5> (x)", opset=9), ("TopK", "5")
    yield "unique_axis", model(F, "y = Unique <axis = 2> (x)"), ("Unique", "2")

    yield "convtranspose_group", model("float[1, 3, 5, 5] x, float[3, 1, 3, 3] w", "y = ConvTranspose <group = 2> (x, w)"), ("ConvTranspose", "group")
    yield "convtranspose_shape", model(IMAGE + ", float[1, 1, 3, 3] w", "y = ConvTranspose <output_shape = [7]> (x, w)"), ("ConvTranspose", "output_shape")
    yield "auto_and_pads", model(IMAGE + ", float[1, 1, 3, 3] w", 'y = Conv <auto_pad = "SAME_UPPER", pads = [1, 1, 1, 1]> (x, w)'), ("Conv", "auto_pad", "pads")
    yield "seq_empty", model("", "y = SequenceEmpty <dtype = 99> ()", kind="seq(float)"), ("SequenceEmpty", "99")
    yield "split_to_seq", model(F, ints("s", 1, 3) + "t = SplitToSequence (x, s) y = ConcatFromSequence <axis = 0> (t)"), ("SplitToSequence",)
    yield "concat_new", model(F, "s = SequenceConstruct (x, x) y = ConcatFromSequence <axis = 3, new_axis = 1> (s)"), ("ConcatFromSequence", "3")
    yield "concat_flag", model(F, "s = SequenceConstruct (x, x) y = ConcatFromSequence <axis = 0, new_axis = 2> (s)"), ("ConcatFromSequence", "new_axis", "2")
    yield "tree_mode", model("float[1, 1] x", 'y = ai.onnx.ml.TreeEnsembleRegressor <nodes_treeids = [0], nodes_nodeids = [0], nodes_modes = ["LEAVES"], nodes_featureids = [0], nodes_values = [0.0], nodes_truenodeids = [0], nodes_falsenodeids = [0], target_treeids = [0], target_nodeids = [0], target_ids = [0], target_weights = [1.0], n_targets = 1> (x)', more=', "ai.onnx.ml" : 3'), ("LEAVES",)
    yield "normalizer", model(F, 'y = ai.onnx.ml.Normalizer <norm = "L3"> (x)', more=', "ai.onnx.ml" : 3'), ("Normalizer", "norm", "L3")
    yield "svm_kernel", model(F, 'y = ai.onnx.ml.SVMRegressor <kernel_type = "CUBE", coefficients = [1.0], support_vectors = [1.0, 2.0, 3.0], n_supports = 1, rho = [0.0]> (x)', more=', "ai.onnx.ml" : 3'), ("SVMRegressor", "CUBE")
    yield "post_transform", model(F, 'y = ai.onnx.ml.LinearRegressor <coefficients = [1.0, 1.0, 1.0], post_transform = "RELU"> (x)', more=', "ai.onnx.ml" : 3'), ("LinearRegressor", "RELU")
    yield "linear_count", model(F, 'y = ai.onnx.ml.LinearRegressor <coefficients = [1.0, 1.0], targets = 1> (x)', more=', "ai.onnx.ml" : 3'), ("LinearRegressor",)
    yield "scaler", model(F, "y = ai.onnx.ml.Scaler <offset = [0.0, 0.0], scale = [1.0, 1.0]> (x)", more=', "ai.onnx.ml" : 3'), ("Scaler", "2", "3")
    yield "extractor", model(F, ints("i", 3) + "y = ai.onnx.ml.ArrayFeatureExtractor (x, i)", more=', "ai.onnx.ml" : 3'), ("ArrayFeatureExtractor", "3")

def models():
    for kind in (indices, shapes, lone_numbers, control, attributes):
        yield from kind()

def bad_models(results, only=""):
    onnxc, folder = program(results) if not only else os.environ.get("ONNXC"), fresh_folder("test-bad-models")

    def give(item):
        name, text, words = item
        with open(os.path.join(folder, name + ".onnxtxt"), "w", encoding="utf-8") as f:
            f.write(text)
        ran = run_limited([onnxc, name + ".onnxtxt", "-o", name + ".kernels"], folder)
        left = ran.code != 0 and os.path.exists(os.path.join(folder, name + ".kernels"))
        return complaint(ran, (1,), words) or ("an output is left" if left else ""), ran.err

    some = [item for item in models() if only in item[0]]
    for item, (wrong, said) in zip(some, parallel(give, some)):
        if only:
            print(item[0], said, sep="\n    ")
        results.check(not wrong, item[0], wrong)
    for number in range(0 if only else CHANGED):
        model, what = accept.changed_model(accept.SEED, number)
        wrong = accept.defect(accept.give(onnxc, folder, f"changed{number}.onnx", model), f"changed{number}.onnx")
        results.check(not wrong, f"changed{number}: {what}", wrong)

if __name__ == "__main__":
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    sys.exit(run_stage("bad-models", lambda results: bad_models(results, word)).failed != 0)
