"""Cases of operators.py: single operators and small chains, in the text form of onnx.parser.

A case is its inputs, its results and its nodes. An input whose name is upper-case is an initializer, and names say what strings hold:
words, texts of eight words, or numbers. A type alone is that of the result y.
"""

ATTENTION = "t = Transpose <perm = [0, 1, 3, 2]> (k)  s = MatMul (q, t)  p = Softmax <axis = -1> (s)  y = MatMul (p, v)"


def attention(heads, queries, keys, width):
    shapes = [f"float[1,{heads},{n},{width}] {name}" for name, n in (("q", queries), ("k", keys), ("v", keys))]
    return ", ".join(shapes), "float", ATTENTION


# name: inputs, type of the result, nodes
CASES = {
    "nothing": ("float[2] x", "float", "y = Add (x, x)"),
    "softmax 12x128x128": ("float[12,128,128] x", "float", "y = Softmax (x)"),
    "softmax 12x197x197": ("float[12,197,197] x", "float", "y = Softmax (x)"),
    "softmax 128x3072": ("float[128,3072] x", "float", "y = Softmax (x)"),
    "softmax, f16, 12x128x128": ("float16[12,128,128] x", "float16", "y = Softmax (x)"),
    "attention 12x128x128x64": attention(12, 128, 128, 64),
    "attention 12x197x197x64": attention(12, 197, 197, 64),
    "attention 8x1024x77x40": attention(8, 1024, 77, 40),
    "attention 12x128x128xD": attention(12, 128, 128, "D"),
    "softmax 4096x49": ("float[4096,49] x", "float", "y = Softmax (x)"),
    "softmax 512x33": ("float[512,33] x", "float", "y = Softmax (x)"),
    "Div, i32, 1024x256": ("int32[1024,256] x, int32[1024,256] z", "int32", "y = Div (x, z)"),
    "Div, u8, 1024x256": ("uint8[1024,256] x, uint8[1024,256] z", "uint8", "y = Div (x, z)"),
    "Mod, i32, 1024x256": ("int32[1024,256] x, int32[1024,256] z", "int32", "y = Mod (x, z)"),
    "ArgMax 64x1000": ("float[64,1000] x", "int64", "y = ArgMax <axis = 1> (x)"),
    "ArgMax 1x32000": ("float[1,32000] x", "int64", "y = ArgMax <axis = 1> (x)"),
    "Relu, f16, 64x4096": ("float16[64,4096] x", "float16", "y = Relu (x)"),
    "Sigmoid, f16, 64x4096": ("float16[64,4096] x", "float16", "y = Sigmoid (x)"),
    "Transpose, u8, 512x512": ("uint8[512,512] x", "uint8", "y = Transpose (x)"),
    "Transpose, f16, 512x512": ("float16[512,512] x", "float16", "y = Transpose (x)"),
    "3x2048x2048, B a transposed input": ("float[3,2048] x, float[2048,2048] w", "float", "y = Gemm <transB = 1> (x, w)"),
    "8x2048x2048, B a transposed input": ("float[8,2048] x, float[2048,2048] w", "float", "y = Gemm <transB = 1> (x, w)"),
    "16x512x1000, B a transposed input": ("float[16,512] x, float[1000,512] w", "float", "y = Gemm <transB = 1> (x, w)"),
    "100x512x1000, B a transposed input": ("float[100,512] x, float[1000,512] w", "float", "y = Gemm <transB = 1> (x, w)"),
    "32x768x768, B an input": ("float[32,768] x, float[768,768] w", "float", "y = MatMul (x, w)"),
    "32x4096x4096, B an input": ("float[32,4096] x, float[4096,4096] w", "float", "y = MatMul (x, w)"),
    "MaxPool 64x112x112, 3x3, stride 2": ("float[1,64,112,112] x", "float", "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)"),
    "MaxPool 64x112x112, 2x2, stride 2": ("float[1,64,112,112] x", "float", "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)"),
    "MaxPool 256x13x13, 5x5": ("float[1,256,13,13] x", "float", "y = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (x)"),
    "MaxPool 256x14x14, 3x3": ("float[1,256,14,14] x", "float", "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "MaxPool, u8, 64x112x112, 3x3, stride 2": ("uint8[1,64,112,112] x", "uint8", "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)"),
    "MaxPool 64x16000, 4, stride 4": ("float[1,64,16000] x", "float", "y = MaxPool <kernel_shape = [4], strides = [4]> (x)"),
    "AveragePool 64x56x56, 3x3": ("float[1,64,56,56] x", "float", "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "AveragePool 256x14x14, 3x3": ("float[1,256,14,14] x", "float", "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "AveragePool 64x56x56, 2x2, stride 2": ("float[1,64,56,56] x", "float", "y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)"),
    "Tile P x P to 4P x 8P": ("float[P,P] x", "float", "s = Constant <value = int64[2] {4, 8}> ()  y = Tile (x, s)"),
    "Pad 64xPxP, reflected": ("float[64,P,P] x", "float", "s = Constant <value = int64[6] {0, 3, 3, 0, 3, 3}> ()  y = Pad <mode = \"reflect\"> (x, s)"),
    "Pad 64xPxP, wrapped": ("float[64,P,P] x", "float", "s = Constant <value = int64[6] {0, 3, 3, 0, 3, 3}> ()  y = Pad <mode = \"wrap\"> (x, s)"),
    "Add, Sigmoid, Mul of sizes with names of their own": ("float[64,D] x, float[64,E] z, float[F] w", "float", "a = Add (x, z)  b = Sigmoid (a)  y = Mul (b, w)"),
    "DeformConv 64x14x14, sizes open": ("float[1,E,H,W] x, float[16,64,3,3] K, float[1,18,H,W] o", "float", "y = DeformConv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, K, o)"),
    "64x256x256, u8 and s8 inputs, sizes open": ("uint8[D,G] x, int8[G,G] w", "int32", "y = MatMulInteger (x, w)"),
    "Where, sizes with names of their own": ("bool[A,G] c, float[B,I] x, float[J] z", "float", "y = Where (c, x, z)"),
    "RoiAlign 64x50x50, 50 boxes": ("float[1,64,50,50] x, float[50,4] r, int64[50] b", "float", "z = Sub (b, b)  q = Constant <value = float[1,4] {5, 5, 25, 30}> ()  k = Add (r, q)  y = RoiAlign <output_height = 7, output_width = 7, sampling_ratio = 2> (x, k, z)"),
    "Conv 64x56x56, 3x3, weights an input": ("float[1,64,56,56] x, float[64,64,3,3] w", "float", "y = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)"),
    "Conv 64x56x56, 1x1, weights an input": ("float[1,64,56,56] x, float[64,64,1,1] w", "float", "y = Conv <kernel_shape = [1, 1]> (x, w)"),
    "Compress 256x4096, axis 1": ("float[256,4096] x, bool[4096] c", "float", "y = Compress <axis = 1> (x, c)"),
    "Compress 4096x256, axis 0": ("float[4096,256] x, bool[4096] c", "float", "y = Compress <axis = 0> (x, c)"),
    "Compress 1048576": ("float[1048576] x, bool[1048576] c", "float", "y = Compress (x, c)"),
    "ReduceSum 1024x1024, axis 0": ("float[1024,1024] x", "float", "a = Constant <value = int64[1] {0}> ()  y = ReduceSum <keepdims = 0> (x, a)"),
    "ReduceMax 64x1024x64, axis 1": ("float[64,1024,64] x", "float", "a = Constant <value = int64[1] {1}> ()  y = ReduceMax <keepdims = 0> (x, a)"),
    "4x512x512, both transposed": ("float[512,4] x, float[512,512] w", "float", "y = Gemm <transA = 1, transB = 1> (x, w)"),
    "2x512x512, both transposed": ("float[512,2] x, float[512,512] w", "float", "y = Gemm <transA = 1, transB = 1> (x, w)"),
    "8x512x512, both transposed": ("float[512,8] x, float[512,512] w", "float", "y = Gemm <transA = 1, transB = 1> (x, w)"),
    "1x1024x8192, B an input": ("float[1,1024] x, float[1024,8192] w", "float", "y = MatMul (x, w)"),
    "4x1024x4096, B an input": ("float[4,1024] x, float[1024,4096] w", "float", "y = MatMul (x, w)"),
    "BatchNormalization 256x512": ("float[256,512] x, float[512] s, float[512] b, float[512] m", "float", "v = Mul (s, s)  y = BatchNormalization (x, s, b, m, v)"),
    "Pad 64x28x28, 1 around": ("float[1,64,28,28] x", "float", "p = Constant <value = int64[8] {0, 0, 1, 1, 0, 0, 1, 1}> ()  y = Pad (x, p)"),
    "Pad, u8, 3x224x224, 1 around": ("uint8[1,3,224,224] x", "uint8", "p = Constant <value = int64[8] {0, 0, 1, 1, 0, 0, 1, 1}> ()  y = Pad (x, p)"),
    "TopK 1x32000, 50": ("float[1,32000] x", "float", "k = Constant <value = int64[1] {50}> ()  y, i = TopK (x, k)"),
    "TopK 64x1000, 5": ("float[64,1000] x", "float", "k = Constant <value = int64[1] {5}> ()  y, i = TopK (x, k)"),
    "Trilu 1024x1024": ("float[1024,1024] x", "float", "y = Trilu (x)"),
    "CumSum 1024x1024, axis 0": ("float[1024,1024] x", "float", "a = Constant <value = int64 {0}> ()  y = CumSum (x, a)"),
    "Tanh 64x4096": ("float[64,4096] x", "float", "y = Tanh (x)"),
    "Resize 3x224x224 to 448x448": ("float[1,3,224,224] x", "float", "s = Constant <value = float[4] {1, 1, 2, 2}> ()  e = Constant <value = float[0] {}> ()  y = Resize <mode = \"linear\"> (x, e, s)"),
    "Resize 3x480x640 to 224x224": ("float[1,3,480,640] x", "float", "s = Constant <value = int64[4] {1, 3, 224, 224}> ()  y = Resize <mode = \"linear\"> (x, , , s)"),
    "Exp 64x4096": ("float[64,4096] x", "float", "y = Exp (x)"),
    "ReduceSum 16x9x64x64, axis 1": ("float[16,9,64,64] x", "float", "a = Constant <value = int64[1] {1}> ()  y = ReduceSum <keepdims = 0> (x, a)"),
    "1x4096x4096, B an input, rows open": ("float[L,4096] x, float[4096,4096] w", "float", "y = MatMul (x, w)"),
    "8 x 1x64x1024, B an input, rows open": ("float[8,L,64] x, float[8,64,1024] w", "float", "y = MatMul (x, w)"),
    "3x512x512, B an input, rows open": ("float[M,512] x, float[512,512] w", "float", "y = MatMul (x, w)"),
    "5x512x512, B an input, rows open": ("float[N,512] x, float[512,512] w", "float", "y = MatMul (x, w)"),
    "MaxPool 64x14x14, 3x3, sizes open": ("float[1,64,H,W] x", "float", "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "NonMaxSuppression 20x8400, 100": ("float[1,8400,4] x, float[1,20,8400] s", "int64", "k = Constant <value = int64 {100}> ()  t = Constant <value = float {0.5}> ()  u = Constant <value = float {0}> ()  y = NonMaxSuppression (x, s, k, t, u)"),
    "TopK, axis 0, 1000x64, 5": ("float[1000,64] x", "float", "k = Constant <value = int64[1] {5}> ()  y, i = TopK <axis = 0> (x, k)"),
    "Slice 1024x256, begin an input": ("float[1024,256] x, int64[1] b", "float", "e = Constant <value = int64[1] {1024}> ()  y = Slice (x, b, e)"),
    "8 x 1x64x1024, B an input": ("float[8,1,64] x, float[8,64,1024] w", "float", "y = MatMul (x, w)"),
    "1x128x2048, B an input": ("float[1,128] x, float[128,2048] w", "float", "y = MatMul (x, w)"),
    "2x128x512, B an input": ("float[2,128] x, float[128,512] w", "float", "y = MatMul (x, w)"),
    "CumSum 16x128x64, axis 0": ("float[16,128,64] x", "float", "a = Constant <value = int64 {0}> ()  y = CumSum (x, a)"),
    "ConvTranspose 64x28x28, 2x2, weights an input": ("float[1,64,28,28] x, float[64,32,2,2] w", "float", "y = ConvTranspose <kernel_shape = [2, 2], strides = [2, 2]> (x, w)"),
    "AveragePool 64x14x14, 3x3, sizes open": ("float[1,64,H,W] x", "float", "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "Slice 1024x1024, step 2": ("float[1024,1024] x", "float", "b = Constant <value = int64[1] {0}> ()  e = Constant <value = int64[1] {1024}> ()  a = Constant <value = int64[1] {1}> ()  s = Constant <value = int64[1] {2}> ()  y = Slice (x, b, e, a, s)"),
    "Transpose, u8, 3x224x224, channels last": ("uint8[1,3,224,224] x", "uint8", "y = Transpose <perm = [0, 2, 3, 1]> (x)"),
    "Transpose, f16, 3x224x224, channels last": ("float16[1,3,224,224] x", "float16", "y = Transpose <perm = [0, 2, 3, 1]> (x)"),
    "Transpose 3x224x224, channels last": ("float[1,3,224,224] x", "float", "y = Transpose <perm = [0, 2, 3, 1]> (x)"),
    "Transpose, f16, 8x128x100": ("float16[8,128,100] x", "float16", "y = Transpose <perm = [0, 2, 1]> (x)"),
    "Transpose, u8, 8x128x100": ("uint8[8,128,100] x", "uint8", "y = Transpose <perm = [0, 2, 1]> (x)"),
    "ConvTranspose 64x28x28, 3x3, weights an input": ("float[1,64,28,28] x, float[64,32,3,3] w", "float", "y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]> (x, w)"),
    "Conv 64x28x28, 3x3, 4 groups, weights an input": ("float[1,64,28,28] x, float[64,16,3,3] w", "float", "y = Conv <group = 4, pads = [1, 1, 1, 1]> (x, w)"),
    "LabelEncoder, 65536 of 1000": ("int64[65536] x", "int64", f"y = ai.onnx.ml.LabelEncoder <keys_int64s = {list(range(0, 300, 3)) + list(range(300, 1200))}, values_int64s = {list(range(1000))}> (x)"),
    "TopK 1x10000, 1000": ("float[1,10000] x", "float", "k = Constant <value = int64[1] {1000}> ()  y, i = TopK (x, k)"),
    "TopK 64x1000, all": ("float[64,1000] x", "float", "k = Constant <value = int64[1] {1000}> ()  y, i = TopK (x, k)"),
    "Unique, i64, 65536": ("int64[65536] x", "int64", "y, i, j, c = Unique (x)"),
    "ScatterND 1000x256, 512 rows": ("float[1000,256] x, int64[512,1] i, float[512,256] u", "float", "y = ScatterND (x, i, u)"),
    "MaxUnpool 64x28x28": ("float[1,64,28,28] x, int64[1,64,28,28] i", "float", "y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, i)"),
}

def quantity(name, scale=0.05, zero=3, kind="uint8"):
    return f"{name}_s = Constant <value = float {{{scale}}}> ()  {name}_z = Constant <value = {kind} {{{zero}}}> ()  "


def ml(nodes):
    return nodes.replace("ml.", "ai.onnx.ml.")


def floats(count):
    return [round((i * 37 % 101 - 50) / 50, 2) for i in range(count)]


def svm(kernel, features, classes, vectors, probable):
    n, pairs = classes * vectors, classes * (classes - 1) // 2
    probabilities = f", prob_a = {floats(pairs)}, prob_b = {floats(pairs)}" if probable else ""
    return ml(f"l, y = ml.SVMClassifier <kernel_type = \"{kernel}\", kernel_params = [0.1, 0.5, 3.0], classlabels_ints = {list(range(classes))}, "
              f"vectors_per_class = {[vectors] * classes}, support_vectors = {floats(n * features)}, coefficients = {floats(n * (classes - 1))}, "
              f"rho = {floats(pairs)}{probabilities}> (x)")


WORDS = [f"word{i:03d}" for i in range(1000)]


def strings(values):
    return "[" + ", ".join(f'"{v}"' for v in values) + "]"


def tfidf(pool, mode, kind):
    ones = list(range(pool))
    twos = [v for i in range(pool) for v in (i, (7 * i + 3) % pool)]
    grams = f"pool_int64s = {ones + twos}" if kind == "int64" else f"pool_strings = {strings([WORDS[i] for i in ones + twos])}"
    return (f'y = TfIdfVectorizer <mode = "{mode}", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1, ngram_counts = [0, {pool}], '
            f"ngram_indexes = {list(range(2 * pool))}, {grams}> (words)")


CASES |= {
    "Det 128x128": ("float[128,128] x", "float", "y = Det (x)"),
    "Det 1000x3x3": ("float[1000,3,3] x", "float", "y = Det (x)"),
    "Det 64x16x16": ("float[64,16,16] x", "float", "y = Det (x)"),
    "AveragePool 64x56x56, 3x3, sizes open": ("float[1,64,P,P] x", "float", "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "MaxPool 64x56x56, 3x3, sizes open": ("float[1,64,P,P] x", "float", "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "MaxPool 64x56x56, 3x3, stride 2, sizes open": ("float[1,64,P,P] x", "float", "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)"),
    "DFT 16x257": ("float[16,257,1] x", "float", "e = Constant <value = int64 {1}> ()  n = Constant <value = int64 {257}> ()  y = DFT (x, n, e)"),
    "DFT 16x1009": ("float[16,1009,1] x", "float", "e = Constant <value = int64 {1}> ()  n = Constant <value = int64 {1009}> ()  y = DFT (x, n, e)"),
    "DFT 16x256": ("float[16,256,1] x", "float", "e = Constant <value = int64 {1}> ()  n = Constant <value = int64 {256}> ()  y = DFT (x, n, e)"),
    "DFT 16x400, one side": ("float[16,400,1] x", "float", "e = Constant <value = int64 {1}> ()  n = Constant <value = int64 {400}> ()  y = DFT <onesided = 1> (x, n, e)"),
    "DFT 64x512, length open": ("float[64,Q,1] x", "float", "e = Constant <value = int64 {1}> ()  y = DFT (x, , e)"),
    "DFT 16x1009, length open": ("float[16,R,1] x", "float", "e = Constant <value = int64 {1}> ()  y = DFT (x, , e)"),
    "STFT 98 x 400, length open": ("float[1,16000,1] x, float[T] w", "float", "s = Constant <value = int64 {160}> ()  y = STFT (x, s, w)"),
    "MatMulInteger 1x1024x1024, B an input": ("uint8[1,1024] x, uint8[1024,1024] w", "int32", "y = MatMulInteger (x, w)"),
    "MatMulInteger 16x1024x1024, B an input": ("uint8[16,1024] x, int8[1024,1024] w", "int32", "y = MatMulInteger (x, w)"),
    "TopK 64x100, 10": ("float[64,100] x", "float", "k = Constant <value = int64[1] {10}> ()  y, i = TopK (x, k)"),
    "TopK 1x100000, 1000": ("float[1,100000] x", "float", "k = Constant <value = int64[1] {1000}> ()  y, i = TopK (x, k)"),
    "Sigmoid of bytes, 64x4096": ("uint8[64,4096] x", "uint8", quantity("x") + quantity("o", 0.004, 0) + "a = DequantizeLinear (x, x_s, x_z)  b = Sigmoid (a)  y = QuantizeLinear (b, o_s, o_z)"),
    "Cast, f32 to f16, 64x4096": ("float[64,4096] x", "float16", "y = Cast <to = 10> (x)"),
    "Cast, f16 to f32, 64x4096": ("float16[64,4096] x", "float", "y = Cast <to = 1> (x)"),
    "Cast, f32 to i64, 64x4096": ("float[64,4096] x", "int64", "y = Cast <to = 7> (x)"),
    "Cast, u8 to f32, 64x4096": ("uint8[64,4096] x", "float", "y = Cast <to = 1> (x)"),
    "Cast, f32 to u8, 64x4096": ("float[64,4096] x", "uint8", "p = Abs (x)  y = Cast <to = 2> (p)"),
    "LogSoftmax 128x1000": ("float[128,1000] x", "float", "y = LogSoftmax (x)"),
    "softmax 4096x10": ("float[4096,10] x", "float", "y = Softmax (x)"),
    "LogSoftmax 4096x10": ("float[4096,10] x", "float", "y = LogSoftmax (x)"),
    "Col2Im 1x32, 3x3 of 28x28": ("float[1,288,676] x", "float", "i = Constant <value = int64[2] {28, 28}> ()  b = Constant <value = int64[2] {3, 3}> ()  y = Col2Im (x, i, b)"),
    "Pad, u8, 64xPxP, edge": ("uint8[64,P,P] x", "uint8", "s = Constant <value = int64[6] {0, 3, 3, 0, 3, 3}> ()  y = Pad <mode = \"edge\"> (x, s)"),
    "Pad, u8, 64xPxP, reflected": ("uint8[64,P,P] x", "uint8", "s = Constant <value = int64[6] {0, 3, 3, 0, 3, 3}> ()  y = Pad <mode = \"reflect\"> (x, s)"),
    "Pad 64xPxP, edge": ("float[64,P,P] x", "float", "s = Constant <value = int64[6] {0, 3, 3, 0, 3, 3}> ()  y = Pad <mode = \"edge\"> (x, s)"),
    "Pad 64xPxP, zeros": ("float[64,P,P] x", "float", "s = Constant <value = int64[6] {0, 3, 3, 0, 3, 3}> ()  y = Pad <mode = \"constant\"> (x, s)"),
    "Pad 3x224x224, 1 around": ("float[1,3,224,224] x", "float", "s = Constant <value = int64[8] {0, 0, 1, 1, 0, 0, 1, 1}> ()  y = Pad <mode = \"constant\"> (x, s)"),
    "Pad 64x56x56, 3 around": ("float[64,56,56] x", "float", "s = Constant <value = int64[6] {0, 3, 3, 0, 3, 3}> ()  y = Pad <mode = \"constant\"> (x, s)"),
    "Col2Im 1x16, 2x2 of 28x28, stride 2": ("float[1,64,196] x", "float", "i = Constant <value = int64[2] {28, 28}> ()  b = Constant <value = int64[2] {2, 2}> ()  y = Col2Im <strides = [2, 2]> (x, i, b)"),
    "Col2Im 1x32, 16 of 412, stride 4": ("float[1,512,100] x", "float", "i = Constant <value = int64[1] {412}> ()  b = Constant <value = int64[1] {16}> ()  y = Col2Im <strides = [4]> (x, i, b)"),
    "Conv 1x16000 to 512, 10, stride 5": ("float[1,1,16000] x, float[512,1,10] W", "float", "y = Conv <strides = [5]> (x, W)"),
    "Conv 1x16000 to 512, 10, stride 5, weights an input": ("float[1,1,16000] x, float[512,1,10] w", "float", "y = Conv <strides = [5]> (x, w)"),
    "Conv 1x4000 to 64, 7": ("float[1,1,4000] x, float[64,1,7] W", "float", "y = Conv <pads = [3, 3]> (x, W)"),
    "ConvTranspose 512x1000 to 1, 16, stride 8": ("float[1,512,1000] x, float[512,1,16] W", "float", "y = ConvTranspose <strides = [8]> (x, W)"),
    "ConvTranspose 256x1600 to 1, 20, stride 10": ("float[1,256,1600] x, float[256,1,20] W", "float", "y = ConvTranspose <strides = [10]> (x, W)"),
    "ConvTranspose 64xT to 1, 16, stride 8": ("float[1,64,T] x, float[64,1,16] W", "float", "y = ConvTranspose <strides = [8]> (x, W)"),
    "ConvTranspose 514x100 to 1, 512, stride 128": ("float[1,514,100] x, float[514,1,512] W", "float", "y = ConvTranspose <strides = [128]> (x, W)"),
    "ConvTranspose 64x4000 to 4, 8, stride 4": ("float[1,64,4000] x, float[64,4,8] W", "float", "y = ConvTranspose <strides = [4]> (x, W)"),
    "ConvTranspose 64x32x32 to 3, 4x4, stride 2": ("float[1,64,32,32] x, float[64,3,4,4] W", "float", "y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (x, W)"),
    "ConvTranspose 56x64x64 to 1, 9x9, stride 3": ("float[1,56,64,64] x, float[56,1,9,9] W", "float", "y = ConvTranspose <strides = [3, 3], pads = [4, 4, 4, 4], output_padding = [2, 2]> (x, W)"),
    "ConvTranspose 64x112x112 to 1, 2x2, stride 2": ("float[1,64,112,112] x, float[64,1,2,2] W", "float", "y = ConvTranspose <strides = [2, 2]> (x, W)"),
    "512x1000 to 16 rows, A constant": ("float[1,512,1000] x, float[16,512] W", "float", "y = MatMul (W, x)"),
    "Conv 256x300 to 96, 1": ("float[1,256,300] x, float[96,256,1] W", "float", "y = Conv (x, W)"),
    "Conv 64x28x28, 3x3": ("float[1,64,28,28] x, float[64,64,3,3] W", "float", "y = Conv <pads = [1, 1, 1, 1]> (x, W)"),
    "Conv 32x56x56 to 3, 3x3": ("float[1,32,56,56] x, float[3,32,3,3] W", "float", "y = Conv <pads = [1, 1, 1, 1]> (x, W)"),
    "AffineGrid 4x64x64": ("float[4,2,3] t", "float", "s = Constant <value = int64[4] {4, 3, 64, 64}> ()  y = AffineGrid (t, s)"),
    "AffineGrid 2x16x32x32": ("float[2,3,4] t", "float", "s = Constant <value = int64[5] {2, 3, 16, 32, 32}> ()  y = AffineGrid (t, s)"),
    # strings
    "StringConcat 4096": ("string[4096] words, string[4096] texts", "string", "y = StringConcat (words, texts)"),
    "StringConcat 4096, with one": ("string[4096] words, string[1] texts", "string", "y = StringConcat (words, texts)"),
    "StringSplit 1024": ("string[1024] texts", "string y, int64[1024] n", "y, n = StringSplit <delimiter = \" \"> (texts)"),
    "RegexFullMatch 4096": ("string[4096] texts", "bool", "y = RegexFullMatch <pattern = \"(word[0-9]+ ?)+\"> (texts)"),
    "StringNormalizer 4096, lower": ("string[4096] texts", "string", "y = StringNormalizer <locale = \"C.UTF-8\", case_change_action = \"LOWER\"> (texts)"),
    "StringNormalizer 4096, upper, 100 stop words": ("string[4096] words", "string", f"y = StringNormalizer <locale = \"C.UTF-8\", case_change_action = \"UPPER\", is_case_sensitive = 0, stopwords = {strings(WORDS[:100])}> (words)"),
    "StringNormalizer 4096, 100 stop words": ("string[4096] words", "string", f"y = StringNormalizer <locale = \"C.UTF-8\", is_case_sensitive = 1, stopwords = {strings(WORDS[:100])}> (words)"),
    "Cast, string to f32, 4096": ("string[4096] numbers", "float", "y = Cast <to = 1> (numbers)"),
    "Cast, f32 to string, 4096": ("float[4096] x", "string", "y = Cast <to = 8> (x)"),
    "Cast, i64 to string, 4096": ("int64[4096] x", "string", "y = Cast <to = 8> (x)"),
    "Equal, string, 4096": ("string[4096] words, string[1] words2", "bool", "y = Equal (words, words2)"),
    "Tokenizer 1024": ("string[1024] texts", "string", "y = com.microsoft.Tokenizer <mark = 0, mincharnum = 1, pad_value = \"#\", separators = [\" \"]> (texts)"),
    "Gather, string, 4096 of 1000": ("string[1000] words, int64[4096] i", "string", "y = Gather (words, i)"),
    "Unique, string, 4096": ("string[4096] words", "string", "y = Unique (words)"),
    "Where, string, 4096": ("bool[4096] c, string[4096] words, string[4096] words2", "string", "y = Where (c, words, words2)"),
    "TfIdfVectorizer 64x200 of 2000, i64": ("int64[64,200] words", "float", tfidf(1000, "TF", "int64")),
    "TfIdfVectorizer 64x200 of 2000, string": ("string[64,200] words", "float", tfidf(1000, "TFIDF", "string")),
    # ai.onnx.ml
    "LabelEncoder, 4096 strings of 1000": ("string[4096] words", "int64", ml(f"y = ml.LabelEncoder <keys_strings = {strings(WORDS)}, values_int64s = {list(range(1000))}> (words)")),
    "LabelEncoder, 4096 of 1000 to strings": ("int64[4096] x", "string", ml(f"y = ml.LabelEncoder <keys_int64s = {list(range(1000))}, values_strings = {strings(WORDS)}> (x)")),
    "OneHotEncoder 4096 of 20": ("int64[4096] x", "float", ml(f"y = ml.OneHotEncoder <cats_int64s = {list(range(20))}, zeros = 1> (x)")),
    "OneHotEncoder 4096 of 20, string": ("string[4096] words", "float", ml(f"y = ml.OneHotEncoder <cats_strings = {strings(WORDS[:20])}, zeros = 1> (words)")),
    "OneHotEncoder 1000 of 500": ("int64[1000] x", "float", ml(f"y = ml.OneHotEncoder <cats_int64s = {list(range(500))}, zeros = 1> (x)")),
    "Scaler 1000x30": ("float[1000,30] x", "float", ml(f"y = ml.Scaler <offset = {floats(30)}, scale = {floats(30)}> (x)")),
    "Scaler, f64, 1000x30": ("double[1000,30] x", "float", ml(f"y = ml.Scaler <offset = {floats(30)}, scale = {floats(30)}> (x)")),
    "Scaler, i64, 1000x30": ("int64[1000,30] x", "float", ml(f"y = ml.Scaler <offset = {floats(30)}, scale = {floats(30)}> (x)")),
    "Normalizer, L2, 1000x30": ("float[1000,30] x", "float", ml("y = ml.Normalizer <norm = \"L2\"> (x)")),
    "Normalizer, L1, 1000x30": ("float[1000,30] x", "float", ml("y = ml.Normalizer <norm = \"L1\"> (x)")),
    "Normalizer, MAX, 1000x30": ("float[1000,30] x", "float", ml("y = ml.Normalizer <norm = \"MAX\"> (x)")),
    "Imputer 1000x30": ("float[1000,30] x", "float", ml(f"y = ml.Imputer <imputed_value_floats = {floats(30)}, replaced_value_float = 0.0> (x)")),
    "Imputer, i64, 1000x30": ("int64[1000,30] x", "int64", ml(f"y = ml.Imputer <imputed_value_int64s = {list(range(30))}, replaced_value_int64 = 7> (x)")),
    "Binarizer 1000x30": ("float[1000,30] x", "float", ml("y = ml.Binarizer <threshold = 0.5> (x)")),
    "FeatureVectorizer 1000x(10+20)": ("float[1000,10] x, float[1000,20] z", "float", ml("y = ml.FeatureVectorizer <inputdimensions = [10, 20]> (x, z)")),
    "FeatureVectorizer, i64, 1000x(1+1+20)": ("int64[1000,1] x, int64[1000,1] v, int64[1000,20] z", "float", ml("y = ml.FeatureVectorizer <inputdimensions = [1, 1, 20]> (x, v, z)")),
    "ArrayFeatureExtractor 1000x30, 8": ("float[1000,30] x", "float", ml("i = Constant <value = int64[8] {3, 1, 4, 15, 9, 26, 5, 0}> ()  y = ml.ArrayFeatureExtractor (x, i)")),
    "ArrayFeatureExtractor 1000x30, 1": ("float[1000,30] x", "float", ml("i = Constant <value = int64[1] {3}> ()  y = ml.ArrayFeatureExtractor (x, i)")),
    "LinearClassifier 1000x30, 10": ("float[1000,30] x", "int64 l, float y", ml(f"l, y = ml.LinearClassifier <classlabels_ints = {list(range(10))}, coefficients = {floats(300)}, intercepts = {floats(10)}, post_transform = \"SOFTMAX\"> (x)")),
    "LinearClassifier 1000x30, 2": ("float[1000,30] x", "int64 l, float y", ml(f"l, y = ml.LinearClassifier <classlabels_ints = [0, 1], coefficients = {floats(60)}, intercepts = {floats(2)}, post_transform = \"LOGISTIC\"> (x)")),
    "LinearClassifier 1x30, 10": ("float[1,30] x", "int64 l, float y", ml(f"l, y = ml.LinearClassifier <classlabels_ints = {list(range(10))}, coefficients = {floats(300)}, intercepts = {floats(10)}, post_transform = \"SOFTMAX\"> (x)")),
    "LinearRegressor 1000x30": ("float[1000,30] x", "float", ml(f"y = ml.LinearRegressor <coefficients = {floats(30)}, intercepts = [0.5]> (x)")),
    **{f"SVMClassifier, {kernel}, {rows}x30, {classes} classes of 100{', probabilities' if p else ''}":
       (f"float[{rows},30] x", "int64 l, float y", svm(kernel, 30, classes, 100, p))
       for kernel in ("LINEAR", "RBF", "POLY", "SIGMOID") for rows, classes, p in ((100, 3, 0), (100, 3, 1), (1, 3, 1))},
    "SVMClassifier, RBF, 100x30, 10 classes of 50": ("float[100,30] x", "int64 l, float y", svm("RBF", 30, 10, 50, 0)),
    "SVMClassifier, RBF, 100x30, 10 classes of 50, probabilities": ("float[100,30] x", "int64 l, float y", svm("RBF", 30, 10, 50, 1)),
    "SVMRegressor, RBF, 100x30, 300": ("float[100,30] x", "float", ml(f"y = ml.SVMRegressor <kernel_type = \"RBF\", kernel_params = [0.1, 0.5, 3.0], n_supports = 300, support_vectors = {floats(9000)}, coefficients = {floats(300)}, rho = [0.5]> (x)")),
    "SVMRegressor, LINEAR, 100x30, 300": ("float[100,30] x", "float", ml(f"y = ml.SVMRegressor <kernel_type = \"LINEAR\", kernel_params = [0.1, 0.5, 3.0], n_supports = 300, support_vectors = {floats(9000)}, coefficients = {floats(300)}, rho = [0.5]> (x)")),
    # com.microsoft
    "CDist 100x300x64": ("float[100,64] x, float[300,64] z", "float", "y = com.microsoft.CDist <metric = \"euclidean\"> (x, z)"),
    "CDist 100x300x64, squares": ("float[100,64] x, float[300,64] z", "float", "y = com.microsoft.CDist <metric = \"sqeuclidean\"> (x, z)"),
    "BiasGelu 128x3072": ("float[128,3072] x, float[3072] b", "float", "y = com.microsoft.BiasGelu (x, b)"),
    "FastGelu 128x3072": ("float[128,3072] x, float[3072] b", "float", "y = com.microsoft.FastGelu (x, b)"),
    "QuickGelu 128x3072": ("float[128,3072] x", "float", "y = com.microsoft.QuickGelu (x)"),
    "SkipLayerNormalization 128x768": ("float[1,128,768] x, float[1,128,768] z, float[768] g, float[768] b", "float", "y = com.microsoft.SkipLayerNormalization (x, z, g, b)"),
    "com.microsoft.Gelu 128x3072": ("float[128,3072] x", "float", "y = com.microsoft.Gelu (x)"),
    "FusedMatMul 128x256x256, both transposed": ("float[256,128] x, float[256,256] w", "float", "y = com.microsoft.FusedMatMul <transA = 1, transB = 1, alpha = 0.5> (x, w)"),
    "FusedGemm 128x256x256, Relu": ("float[128,256] x, float[256,256] W, float[256] B", "float", "y = com.microsoft.FusedGemm <activation = \"Relu\"> (x, W, B)"),
    "FusedConv 64x28x28, 3x3, Relu": ("float[1,64,28,28] x, float[64,64,3,3] W, float[64] B", "float", "y = com.microsoft.FusedConv <activation = \"Relu\", pads = [1, 1, 1, 1]> (x, W, B)"),
    "QLinearAdd 64x4096": ("uint8[64,4096] x, uint8[64,4096] z", "uint8", quantity("x") + quantity("z", 0.03, 5) + quantity("o", 0.1, 7) + "y = com.microsoft.QLinearAdd (x, x_s, x_z, z, z_s, z_z, o_s, o_z)"),
    "QLinearMul 64x4096": ("uint8[64,4096] x, uint8[64,4096] z", "uint8", quantity("x") + quantity("z", 0.03, 5) + quantity("o", 0.1, 7) + "y = com.microsoft.QLinearMul (x, x_s, x_z, z, z_s, z_z, o_s, o_z)"),
    "QLinearAdd, scalar, 64x4096": ("uint8[64,4096] x, uint8[1] z", "uint8", quantity("x") + quantity("z", 0.03, 5) + quantity("o", 0.1, 7) + "y = com.microsoft.QLinearAdd (x, x_s, x_z, z, z_s, z_z, o_s, o_z)"),
    "QLinearSigmoid 64x4096": ("uint8[64,4096] x", "uint8", quantity("x") + quantity("o", 0.004, 0) + "y = com.microsoft.QLinearSigmoid (x, x_s, x_z, o_s, o_z)"),
    "QLinearLeakyRelu 64x4096": ("uint8[64,4096] x", "uint8", quantity("x") + quantity("o", 0.04, 4) + "y = com.microsoft.QLinearLeakyRelu (x, x_s, x_z, o_s, o_z)"),
    "QLinearSoftmax 128x1000": ("uint8[128,1000] x", "uint8", quantity("x") + quantity("o", 0.004, 0) + "y = com.microsoft.QLinearSoftmax <axis = 1, opset = 13> (x, x_s, x_z, o_s, o_z)"),
    "QLinearAveragePool 64x56x56, 3x3": ("uint8[1,64,56,56] x", "uint8", quantity("x") + quantity("o", 0.04, 4) + "y = com.microsoft.QLinearAveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, x_s, x_z, o_s, o_z)"),
    "QLinearGlobalAveragePool 256x14x14": ("uint8[1,256,14,14] x", "uint8", quantity("x") + quantity("o", 0.04, 4) + "y = com.microsoft.QLinearGlobalAveragePool <channels_last = 0> (x, x_s, x_z, o_s, o_z)"),
    "QLinearConcat 2x64x28x28": ("uint8[1,64,28,28] x, uint8[1,64,28,28] z", "uint8", quantity("x") + quantity("z", 0.03, 5) + quantity("o", 0.1, 7) + "y = com.microsoft.QLinearConcat <axis = 1> (o_s, o_z, x, x_s, x_z, z, z_s, z_z)"),
    "QLinearWhere 64x4096": ("bool[64,4096] c, uint8[64,4096] x, uint8[64,4096] z", "uint8", quantity("x") + quantity("z", 0.03, 5) + quantity("o", 0.1, 7) + "y = com.microsoft.QLinearWhere (c, x, x_s, x_z, z, z_s, z_z, o_s, o_z)"),
    "QGemm 64x256x256": ("uint8[64,256] x, uint8[256,256] W", "uint8", quantity("x") + quantity("w", 0.03, 128) + quantity("o", 0.9, 7) + "y = com.microsoft.QGemm (x, x_s, x_z, W, w_s, w_z, , o_s, o_z)"),
    "MatMulIntegerToFloat 64x256x256": ("uint8[64,256] x, uint8[256,256] W", "float", quantity("x") + quantity("w", 0.03, 128) + "y = com.microsoft.MatMulIntegerToFloat (x, W, x_s, w_s, x_z, w_z)"),
    "DynamicQuantizeMatMul 64x256x256": ("float[64,256] x, uint8[256,256] W", "float", quantity("w", 0.03, 128) + "y = com.microsoft.DynamicQuantizeMatMul (x, W, w_s, w_z)"),
    "CropAndResize 16x64, 14x14 of 32x32": ("float[1,64,32,32] x", "float", "r = Constant <value = float[4,4] {0.1, 0.1, 0.5, 0.6, 0.2, 0.0, 0.7, 0.9, 0.0, 0.0, 1.0, 1.0, 0.3, 0.3, 0.9, 0.8}> ()  b = Constant <value = int32[4] {0, 0, 0, 0}> ()  c = Constant <value = int32[2] {14, 14}> ()  y = com.microsoft.CropAndResize (x, r, b, c)"),
    "MurmurHash3 65536": ("int32[65536] x", "uint32", "y = com.microsoft.MurmurHash3 (x)"),
    "MurmurHash3, string, 4096": ("string[4096] words", "uint32", "y = com.microsoft.MurmurHash3 (words)"),
    "Inverse 100x4x4": ("float[100,4,4] x", "float", "y = com.microsoft.Inverse (x)"),
    "Inverse 64x64": ("float[64,64] x", "float", "y = com.microsoft.Inverse (x)"),
    "com.microsoft.Unique 65536": ("float[65536] x", "float", "y, i, c = com.microsoft.Unique (x)"),
    "MaxpoolWithMask 64x28x28": ("float[1,64,28,28] x, int32[1,1,28,28] m", "float", "y = com.microsoft.MaxpoolWithMask <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, m)"),
    "com.microsoft.Pad 64x28x28": ("float[1,64,28,28] x", "float", "p = Constant <value = int64[8] {0, 0, 1, 1, 0, 0, 1, 1}> ()  y = com.microsoft.Pad (x, p)"),
    "RotaryEmbedding 128x12x64": ("float[1,12,128,64] x, float[128,32] c, float[128,32] s", "float", "p = Constant <value = int64[1] {0}> ()  y = com.microsoft.RotaryEmbedding (x, p, c, s)"),
    "NhwcMaxPool 56x56x64, 3x3": ("uint8[1,56,56,64] x", "uint8", "y = com.microsoft.NhwcMaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
    "NGramRepeatBlock 8x512": ("int64[8,512] i, float[8,4096] x", "float", "y = com.microsoft.NGramRepeatBlock <ngram_size = 3> (i, x)"),
    "softmax 4096x2": ("float[4096,2] x", "float", "y = Softmax (x)"),
    "softmax 4096x3": ("float[4096,3] x", "float", "y = Softmax (x)"),
    "LogSoftmax 4096x3": ("float[4096,3] x", "float", "y = LogSoftmax (x)"),
    "sine and cosine of 1024x3, twice, beside it": ("float[1024,3] x", "float", "a = Sin (x)  b = Cos (x)  c = Add (x, x)  d = Sin (c)  e = Cos (c)  y = Concat <axis = -1> (x, a, b, d, e)"),
    "Sigmoid 4096x4 beside Tanh 4096x3": ("float[4096,4] x, float[4096,3] z", "float", "a = Sigmoid (x)  b = Tanh (z)  y = Concat <axis = -1> (a, b)"),
    "MLP of 1x1, 192x14x14, after LayerNormalization": ("float[1,14,14,192] x, float[192] S, float[192] B, float[768,192,1,1] W, float[192,768,1,1] V", "float", "a = LayerNormalization (x, S, B)  b = Transpose <perm = [0, 3, 1, 2]> (a)  c = Conv (b, W)  d = Relu (c)  y = Conv (d, V)"),
    "MLP of 1x1, 384x7x7, after LayerNormalization": ("float[1,7,7,384] x, float[384] S, float[384] B, float[1536,384,1,1] W, float[384,1536,1,1] V", "float", "a = LayerNormalization (x, S, B)  b = Transpose <perm = [0, 3, 1, 2]> (a)  c = Conv (b, W)  d = Relu (c)  y = Conv (d, V)"),
    "Conv 256x33x33, 3x3, dilation 12": ("float[1,256,33,33] x, float[64,256,3,3] W", "float", "a = Relu (x)  b = Conv <pads = [12, 12, 12, 12], dilations = [12, 12]> (a, W)  y = Relu (b)"),
    "Conv 256x33x33, 3x3, dilation 18": ("float[1,256,33,33] x, float[64,256,3,3] W", "float", "a = Relu (x)  b = Conv <pads = [18, 18, 18, 18], dilations = [18, 18]> (a, W)  y = Relu (b)"),
    "Conv 256x33x33, 3x3, dilation 24": ("float[1,256,33,33] x, float[64,256,3,3] W", "float", "a = Relu (x)  b = Conv <pads = [24, 24, 24, 24], dilations = [24, 24]> (a, W)  y = Relu (b)"),
    "Conv 3 groups of 32x64x64, 3x3, weights computed": ("float[1,96,64,64] x, float[3,16,32,3,3] w", "float", "s = Constant <value = int64[4] {48, 32, 3, 3}> ()  v = Relu (w)  u = Reshape (v, s)  y = Conv <group = 3, pads = [1, 1, 1, 1]> (x, u)"),
    "Conv of a constant 64x16x16, 3x3, weights an input": ("float[1,64,16,16] X, float[64,64,3,3] w", "float", "y = Conv <pads = [1, 1, 1, 1]> (X, w)"),
    "variance weighted by a softmax, 400x192": ("float[1,400,192] x, float[1,400,192] z", "float", "a = Softmax <axis = 1> (x)  i = Constant <value_ints = [1]> ()  b = Mul (a, z)  m = ReduceSum <keepdims = 0> (b, i)  c = Mul (b, z)  v = ReduceSum <keepdims = 0> (c, i)  s = Mul (m, m)  y = Sub (v, s)"),
    "variance weighted by a softmax, T x 192": ("float[1,T,192] x, float[1,T,192] z", "float", "a = Softmax <axis = 1> (x)  i = Constant <value_ints = [1]> ()  b = Mul (a, z)  m = ReduceSum <keepdims = 0> (b, i)  c = Mul (b, z)  v = ReduceSum <keepdims = 0> (c, i)  s = Mul (m, m)  y = Sub (v, s)"),
    "GridSample of a constant 3x16x32x32 at 1024 places, summed": ("float[3,1,1024,2] x, float[3,16,32,32] C", "float", "i = Constant <value_ints = [0]> ()  g = GridSample (C, x)  y = ReduceSum <keepdims = 0> (g, i)"),
    "Conv 1x16000 to 512, 10, stride 5": ("float[1,1,16000] x, float[512,1,10] W", "float", "y = Conv <strides = [5]> (x, W)"),
    "Conv 1x16000 to 512, 16, stride 8": ("float[1,1,16000] x, float[512,1,16] W", "float", "y = Conv <strides = [8]> (x, W)"),
    "Conv 1x4000 to 256, 3": ("float[1,1,4000] x, float[256,1,3] W", "float", "y = Conv <pads = [1, 1]> (x, W)"),
    "1024x16x4096, B an input": ("float[1024,16] x, float[16,4096] z", "float", "y = MatMul (x, z)"),
}
