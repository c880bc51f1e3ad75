"""A decoder like Llama's with random weights, in the spellings in which tools write one, and as a GGUF file.

All files of one kind of weights hold the same numbers: blocks of 32 along the inputs with f16 scales and, in four bits, a zero
point of 8, which GGUF calls Q4_0 and Q8_0. So the logits of all engines can be compared.
"""
import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32
EPSILON = 1e-5
TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}


@dataclasses.dataclass
class Shape:
    layers: int = 8
    hidden: int = 2048
    heads: int = 32
    kv_heads: int = 4
    inner: int = 5632
    vocabulary: int = 32000

    @property
    def head(self):
        return self.hidden // self.heads


SMALL = Shape(layers=2, hidden=256, heads=4, kv_heads=2, inner=512, vocabulary=512)


class Weights:
    """Named matrices [outputs, inputs], made when asked for: the same name gives the same numbers."""

    def __init__(self, shape, kind):
        self.shape, self.kind = shape, kind  # kind: int4, int8, f16, f32

    def random(self, name):
        return np.random.default_rng(list(name.encode()))

    def norm(self, name):
        return (1 + 0.1 * self.random(name).standard_normal(self.shape.hidden)).astype(np.float32)

    def embedding(self):
        return self.random("embedding").standard_normal((self.shape.vocabulary, self.shape.hidden), np.float32)

    def quantised(self, name, n, k):
        """Integers around zero [n, k], and f16 scales: [n, k / BLOCK] in four bits, [n, 1] in eight."""
        random, levels = self.random(name), 8 if self.kind == "int4" else 128
        q = random.integers(-levels, levels, (n, k), np.int8)
        groups = k // BLOCK if self.kind == "int4" else 1
        spread = (0.8 + 0.4 * random.random((n, groups))) * 3 ** 0.5 / levels / k ** 0.5
        return q, spread.astype(np.float16)

    def dense(self, name, n, k):
        if self.kind in ("f16", "f32"):
            matrix = self.random(name).standard_normal((n, k), np.float32) * np.float32(k ** -0.5)
            return matrix if self.kind == "f32" else matrix.astype(np.float16)
        q, scale = self.quantised(name, n, k)
        return (q.reshape(n, scale.shape[1], -1) * scale.astype(np.float32)[:, :, None]).reshape(n, k)


def nibbles(q):
    """Pairs of the last axis in a byte, the first in the low bits."""
    u = (q & 15).astype(np.uint8)
    return u[..., 0::2] | u[..., 1::2] << 4


class Decoder:
    """The graph of one file. `spelling`: nbits (com.microsoft's MatMulNBits) or qdq (DequantizeLinear before MatMul); `cache`:
    group (GroupQueryAttention over a shared buffer), scatter (TensorScatter and Attention) or concat (Concat of past and new)."""

    def __init__(self, weights, spelling, cache, dynamic=False, accuracy_level=0):
        self.w, self.s, self.spelling, self.cache, self.dynamic = weights, weights.shape, spelling, cache, dynamic
        self.accuracy_level = accuracy_level
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []

    def constant(self, name, array, dtype=None):
        array = np.ascontiguousarray(array)
        if dtype:  # four bits: the packed bytes
            rows = list(array.shape[:-1]) + [array.shape[-1] * 2]
            t = TensorProto(name=name, data_type=dtype, dims=rows, raw_data=array.tobytes())
        else:
            t = numpy_helper.from_array(array, name)
        self.constants.append(t)
        return name

    def op(self, kind, *inputs, outputs=1, domain="", **attributes):
        made = [f"{kind}_{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, name=made[0], domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def input(self, name, dtype, dims):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def output(self, name, value, dtype, dims):
        """Renames the value."""
        for node in self.nodes:
            for values in (node.input, node.output):
                for i, v in enumerate(values):
                    values[i] = name if v == value else v
        self.outputs.append(helper.make_tensor_value_info(name, dtype, dims))

    # ------------------------------------------------------------ products
    def linear(self, x, name, n, k):
        if self.w.kind == "f16":
            wide = self.op("Cast", self.constant(name, self.w.dense(name, n, k).T), to=TensorProto.FLOAT)
            return self.op("MatMul", x, wide)
        if self.w.kind == "f32":
            return self.op("MatMul", x, self.constant(name, self.w.dense(name, n, k).T))
        q, scale = self.w.quantised(name, n, k)
        scale = scale.astype(np.float32)
        if self.dynamic:
            return self.dynamic_product(x, name, q, scale)
        if self.spelling == "nbits" and self.w.kind == "int4":
            return self.op("MatMulNBits", x, self.constant(name, nibbles(q + 8).reshape(n, k // BLOCK, BLOCK // 2)),
                           self.constant(name + ".scale", scale), domain="com.microsoft", K=k, N=n, bits=4, block_size=BLOCK,
                           accuracy_level=self.accuracy_level)
        if self.w.kind == "int4":
            w = self.op("DequantizeLinear", self.constant(name, nibbles(q.T), TensorProto.INT4),
                        self.constant(name + ".scale", scale.T), axis=0, block_size=BLOCK)
        else:
            w = self.op("DequantizeLinear", self.constant(name, q.T), self.constant(name + ".scale", scale[:, 0]), axis=1)
        return self.op("MatMul", x, w)

    def dynamic_product(self, x, name, q, scale):
        bytes_, by, zero = self.op("DynamicQuantizeLinear", x, outputs=3)
        total = self.op("MatMulInteger", bytes_, self.constant(name, q.T), zero)
        factor = self.op("Mul", by, self.constant(name + ".scale", scale[:, 0]))
        return self.op("Mul", self.op("Cast", total, to=TensorProto.FLOAT), factor)

    # ------------------------------------------------------------ layers
    def norm(self, x, name):
        return self.op("RMSNormalization", x, self.constant(name, self.w.norm(name)), axis=-1, epsilon=EPSILON)

    def rotation(self, capacity):
        half = self.s.head // 2
        angle = np.arange(capacity)[:, None] * 10000.0 ** (-np.arange(half) / half)[None]
        return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def attention(self, layer, q, k, v):
        s, names = self.s, (f"past_key_values.{layer}.key", f"past_key_values.{layer}.value")
        past = [self.input(n, TensorProto.FLOAT, [1, s.kv_heads, self.past, s.head]) for n in names]
        if self.cache == "group":
            y, *present = self.op("GroupQueryAttention", q, k, v, *past, self.lengths, self.total, "cos", "sin", outputs=3,
                                  domain="com.microsoft", num_heads=s.heads, kv_num_heads=s.kv_heads, do_rotary=1,
                                  rotary_interleaved=0)
        else:
            y, present = self.standard_attention(q, k, v, past)
        for name, value in zip(("key", "value"), present):
            self.output(f"present.{layer}.{name}", value, TensorProto.FLOAT, [1, s.kv_heads, self.present, s.head])
        return y

    def heads(self, x, n):
        shape = self.constant(f"{x}.heads", np.array([0, 0, n, self.s.head], np.int64))
        return self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def standard_attention(self, q, k, v, past):
        s = self.s
        q, k, v = self.heads(q, s.heads), self.heads(k, s.kv_heads), self.heads(v, s.kv_heads)
        q, k = (self.op("RotaryEmbedding", x, "cos", "sin", "position_ids") for x in (q, k))
        if self.cache == "scatter":
            present = [self.op("TensorScatter", p, x, "write_indices") for p, x in zip(past, (k, v))]
            y = self.op("Attention", q, *present, "attention_mask")
        else:
            present = [self.op("Concat", p, x, axis=2) for p, x in zip(past, (k, v))]
            y = self.op("Attention", q, *present, "attention_mask")
        y = self.op("Transpose", y, perm=[0, 2, 1, 3])
        return self.op("Reshape", y, self.constant(f"{y}.rows", np.array([0, 0, s.hidden], np.int64))), present

    def layer(self, i, x):
        s, at = self.s, f"layer{i}."
        h = self.norm(x, at + "attention_norm")
        q = self.linear(h, at + "q", s.hidden, s.hidden)
        k, v = (self.linear(h, at + n, s.kv_heads * s.head, s.hidden) for n in "kv")
        x = self.op("Add", x, self.linear(self.attention(i, q, k, v), at + "o", s.hidden, s.hidden))
        h = self.norm(x, at + "inner_norm")
        gate, up = (self.linear(h, at + n, s.inner, s.hidden) for n in ("gate", "up"))
        gate = self.op("Mul", gate, self.op("Sigmoid", gate))
        return self.op("Add", x, self.linear(self.op("Mul", gate, up), at + "down", s.hidden, s.inner))

    def positions(self, capacity):
        """What tells the attention where the new rows belong."""
        cos, sin = self.rotation(capacity)
        self.constant("cos", cos), self.constant("sin", sin)
        if self.cache == "group":
            self.past = self.present = "capacity"
            mask = self.input("attention_mask", TensorProto.INT64, [1, "total"])
            last = self.op("Sub", self.op("ReduceSum", mask, self.constant("one", np.array([1], np.int64)), keepdims=0),
                           self.constant("first", np.array(1, np.int64)))
            self.lengths = self.op("Cast", last, to=TensorProto.INT32)
            size = self.op("Gather", self.op("Shape", mask), self.constant("second", np.array(1, np.int64)))
            self.total = self.op("Cast", size, to=TensorProto.INT32)
            return
        self.past, self.present = ("capacity", "capacity") if self.cache == "scatter" else ("past", "total")
        self.input("position_ids", TensorProto.INT64, [1, "S"])
        self.input("attention_mask", TensorProto.BOOL, ["S", self.present])
        if self.cache == "scatter":
            self.input("write_indices", TensorProto.INT64, [1])

    def model(self, capacity):
        s = self.s
        ids = self.input("input_ids", TensorProto.INT64, [1, "S"])
        self.positions(capacity)
        x = self.op("Gather", self.constant("embedding", self.w.embedding()), ids)
        for i in range(s.layers):
            x = self.layer(i, x)
        logits = self.linear(self.norm(x, "norm"), "head", s.vocabulary, s.hidden)
        self.output("logits", logits, TensorProto.FLOAT, [1, "S", s.vocabulary])
        graph = helper.make_graph(self.nodes, "decoder", self.inputs, self.outputs, self.constants)
        domains = [helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=11)


def decoder(shape, kind, spelling="nbits", cache="group", dynamic=False, capacity=2048, accuracy_level=0):
    return Decoder(Weights(shape, kind), spelling, cache, dynamic, accuracy_level).model(capacity)


# ---------------------------------------------------------------- GGUF
def interleaved(rows, heads):
    """Rows of a projection in the order in which GGUF's rotation pairs them."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def gguf_blocks(kind, q, scale):
    """Q4_0 or Q8_0: the scale, then 32 integers; in four bits element j beside j + 16."""
    n, k = q.shape
    scale = np.repeat(scale, k // BLOCK // scale.shape[1], axis=1)
    q = q.reshape(n, k // BLOCK, BLOCK)
    if kind == "int4":
        u = (q + 8).astype(np.uint8)
        q = u[..., :16] | u[..., 16:] << 4
    return np.concatenate([scale[..., None].view(np.uint8), q.view(np.uint8)], axis=2).reshape(n, -1)


def write_gguf(path, shape, kind):
    import gguf
    s, w = shape, Weights(shape, kind)
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(65536), out.add_embedding_length(s.hidden), out.add_block_count(s.layers)
    out.add_feed_forward_length(s.inner), out.add_head_count(s.heads), out.add_head_count_kv(s.kv_heads)
    out.add_layer_norm_rms_eps(EPSILON), out.add_rope_dimension_count(s.head), out.add_rope_freq_base(10000.0)
    out.add_vocab_size(s.vocabulary), out.add_tokenizer_model("none")

    def matrix(name, source, n, k, heads=0):
        if kind in ("f16", "f32"):
            m = w.dense(source, n, k)
            return out.add_tensor(name, interleaved(m, heads) if heads else m)
        q, scale = (interleaved(m, heads) if heads else m for m in w.quantised(source, n, k))
        raw = gguf.GGMLQuantizationType.Q4_0 if kind == "int4" else gguf.GGMLQuantizationType.Q8_0
        out.add_tensor(name, gguf_blocks(kind, q, scale), raw_dtype=raw)

    out.add_tensor("token_embd.weight", w.embedding())
    out.add_tensor("output_norm.weight", w.norm("norm"))
    matrix("output.weight", "head", s.vocabulary, s.hidden)
    for i in range(s.layers):
        a, b = f"blk.{i}.", f"layer{i}."
        out.add_tensor(a + "attn_norm.weight", w.norm(b + "attention_norm"))
        out.add_tensor(a + "ffn_norm.weight", w.norm(b + "inner_norm"))
        matrix(a + "attn_q.weight", b + "q", s.hidden, s.hidden, s.heads)
        matrix(a + "attn_k.weight", b + "k", s.kv_heads * s.head, s.hidden, s.kv_heads)
        matrix(a + "attn_v.weight", b + "v", s.kv_heads * s.head, s.hidden)
        matrix(a + "attn_output.weight", b + "o", s.hidden, s.hidden)
        for name, of, n, k in (("gate", "gate", s.inner, s.hidden), ("up", "up", s.inner, s.hidden),
                               ("down", "down", s.hidden, s.inner)):
            matrix(a + f"ffn_{name}.weight", b + of, n, k)
    out.write_header_to_file(), out.write_kv_data_to_file(), out.write_tensors_to_file()
    out.close()
