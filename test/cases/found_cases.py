"""Small models that once gave wrong answers or messages, as folders that `onnxc test` takes.

usage: found_cases.py OUT

A case is a graph in ONNX's text syntax and its inputs, each a dtype, a shape and the numbers (repeated to fill the shape).
The reference evaluator says what is right, or the last member of the case where it cannot. A case name says what went wrong.
"""
import os
import sys

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
from onnx.reference import ReferenceEvaluator

from case_files import Stamp, write_case


def array(dtype, shape, numbers):
    made = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return np.resize(np.array(numbers, np.float64), shape).astype(made)


def slices(turns):
    """Each size is made of the one before, which it has several times."""
    text = "y0 = Relu (x)\n"
    for i in range(turns):
        text += f"""s{i} = Shape (y{i}) h{i} = Div (s{i}, three) f{i} = Sub (h{i}, one) e{i} = Sub (s{i}, h{i})
                    t{i} = Slice (y{i}, f{i}, e{i}) y{i + 1} = Concat <axis = 0> (t{i}, y{i})\n"""
    return f"g (float[N] x) => (float[M] y) <int64[1] three = {{3}}, int64[1] one = {{1}}> {{ {text} y = Neg (y{turns}) }}"


def by_branch(body, outputs="float[A] y"):
    """Tensors a and d have other ranks in one branch than in the other."""
    return f"""g (float[N, C] x, bool q, bool p) => ({outputs}) <int64[1] one = {{1}}, int64[1] all = {{-1}}, int64 three = {{3}},
        bool yes = {{1}}> {{
        a = If (q) <then_branch = t () => (float[P] b) {{ b = ReduceSum <keepdims = 0> (x, one) }},
                    else_branch = f () => (float[Q, R] c) {{ c = Identity (x) }}>
        w = Shape (x)
        d = If (p) <then_branch = t2 () => (float[S] e) {{ e = ReduceMax <keepdims = 0, axes = [0]> (x) }},
                    else_branch = f2 () => (float[U, V] h) {{ h = Abs (x) }}>
        {body} }}"""


RANKS = {
    "shapes": ("""n = Neg (a) i = Identity (n) j = Add (i, x) s = Shape (n) ones = Expand (one, s) k = Mul (j, j) m = Add (n, k)
                  o = Sum (m, k, a) y = Reshape (o, all) z = Reshape (k, w) more = Mul (ones, s) at = Reshape (more, all)""",
               "float[A] y, int64[K] at, float[B, D] z"),
    "captured": ("""n = If (p) <then_branch = t3 () => (float[E] b1) { b0 = Neg (a) b1 = Reshape (b0, all) },
                                else_branch = f3 () => (float[F] c1) { c0 = Abs (a) c1 = Reshape (c0, all) }>
                    y = Add (n, n)""", "float[A] y"),
    "both": ("z = Add (a, d) u = Neg (d) v = Mul (u, z) y = Reshape (v, all)", "float[A] y"),
    "in_a_loop": ("""v = Reshape (x, all) r = ReduceSum <keepdims = 0> (v)
                     l = Loop (three, yes, r) <body = b (int64 i, bool c0, float s) => (bool c1, float s1)
                         { c1 = Identity (c0) n = Reshape (a, all) ns = ReduceSum <keepdims = 0> (n) s1 = Add (s, ns) }>
                     y = Reshape (l, all)""", "float[A] y"),
}

X = (0.5, -1.25, 2, 0.75, -0.5, 1.5, -2)
NAN, INF = float("nan"), float("inf")


def spectra():
    frames = np.stack([np.resize(np.array(X, np.float32), (2, 24))[:, i:i + 8] for i in range(0, 17, 4)], 1)
    window = np.array((0, 0.25, 0.5, 1, 1, 0.5, 0.25, 0))
    half, whole = np.fft.rfft(frames * window), np.fft.fft(frames)
    return [np.stack([s.real, s.imag], -1) for s in (half, whole)]


SPECTRA = [("float32", s.shape, s.ravel()) for s in spectra()]

# name: (opset, graph, inputs[, outputs])
CASES = {
    # Sums of one factor were moved into kernels that lacked the messages of its checks.
    "checked_positions_in_sums_of_bytes": (21, """
        g (uint8[4, 6] x, int64[3] at) => (float[4] y) <float s = {0.25}, uint8 z = {2}, int64[1] one = {1}> {
            d = DequantizeLinear (x, s, z) e = Gather <axis = 1> (d, at) y = ReduceSumSquare <keepdims = 0> (e, one) }""",
        [("uint8", (4, 6), range(24)), ("int64", (3,), (0, 5, 2))]),
    # A scan axis of one element was dropped, and the kernel's body with it.
    "scatter_of_one_update": (18, """
        g (float[8, 5] x, float[1] u) => (float[8, 5] y)
        <int64[1, 2] at = {0, 2}> { y = ScatterND <reduction = "add"> (x, at, u) }""",
        [("float32", (8, 5), X), ("float32", (1,), (3,))]),
    # Values that were quantised to 4 bits were clamped to a byte's.
    "four_bits_out_of_range": (21, """
        g (float[3, 40] x, float[1, 40] b) => (float[3, 40] y, float[3, 40] z)
        <float s = {0.05}, uint4 n = {3}, int4 m = {-2}> { a = Add (x, b) q = QuantizeLinear (a, s, n) y = DequantizeLinear (q, s, n)
          u = QuantizeLinear (a, s, m) z = DequantizeLinear (u, s, m) }""",
        [("float32", (3, 40), X), ("float32", (1, 40), X)]),
    # Filters that reach beyond small images: with strides, dilations, groups, unequal pads, and as bytes.
    "filters_beyond_small_images": (18, """
        g (float[2, 4, 1, 2] x, float[6, 4, 3, 3] w, float[4, 2, 5, 7] v, uint8[2, 4, 1, 2] b, uint8[6, 4, 3, 3] u, float[1, 3, 2] s, float[2, 3, 9] f) =>
          (float[2, 6, 1, 2] y, float[2, 4, 2, 2] z, int32[2, 6, 1, 1] c, float[1, 2, 3] l, float[2, 6, 3, 2] t)
        { y = Conv <pads = [1, 1, 1, 1]> (x, w)
          p = Abs (x) z = Conv <group = 2, pads = [3, 6, 2, 6], dilations = [1, 2]> (p, v)
          zero = Constant <value = uint8 {7}> () c = ConvInteger <pads = [1, 1, 1, 1], strides = [2, 2]> (b, u, zero)
          from = Constant <value = int64[1] {0}> () to = Constant <value = int64[1] {1}> () axis = Constant <value = int64[1] {2}> ()
          s1 = Slice (s, from, to, axis) s2 = Concat <axis = 2> (s, s1) l = Conv <auto_pad = "SAME_UPPER"> (s2, f)
          t = Conv <pads = [2, 1, 2, 1]> (x, w) }""",
        [("float32", (2, 4, 1, 2), X), ("float32", (6, 4, 3, 3), X), ("float32", (4, 2, 5, 7), X), ("uint8", (2, 4, 1, 2), range(16)),
         ("uint8", (6, 4, 3, 3), range(216)), ("float32", (1, 3, 2), X), ("float32", (2, 3, 9), X)]),
    # 0 in the padding times an infinity is NaN, also where no window has that tap in the image.
    "infinite_weight_beyond_a_small_image": (17, """
        g (float[1, 1, 1, 1] x) => (float[1, 2, 1, 1] y)
        <float[2, 1, 3, 1] w = {inf, 2, 3, 1, 2, 3}> { y = Conv <pads = [1, 0, 1, 0]> (x, w) }""",
        [("float32", (1, 1, 1, 1), (1.5,))], [("float32", (1, 2, 1, 1), (np.nan, 3))]),
    # The blocks of a contraction were counted by the extent of an axis without elements: a division by zero.
    "contraction_of_no_matrices": (16, """
        g (float[11, 5, 1, 1] x, float[1, 3] a, float[3, 7] b) => (float[11, 0, 1, 7] y)
        <int64[3] parts = {1, 4, 0}> { p, q, r = Split <axis = 1> (x, parts) y = Einsum <equation = "...i,ij,jk->...k"> (r, a, b) }""",
        [("float32", (11, 5, 1, 1), X), ("float32", (1, 3), X), ("float32", (3, 7), X)]),
    # The check of an output's size stood in the loop, before the size was set.
    "scan_output_with_a_declared_size": (11, """
        g (double[1, 2, D, 8] x, double[2, E, 8] s) => (double[1, 2, 1, 8] y)
        { t, y = Scan <num_scan_inputs = 1, body = b (double[2, E, 8] p, double[2, D, 8] q)
          => (double[2, F, 8] r, double[2, F, 8] o) { o = Sub (p, q)
            r = Identity (o) }> (s, x) }""",
        [("float64", (1, 2, 1, 8), X), ("float64", (2, 1, 8), X)]),
    # A start below all positions, known at run time only, was taken for a size that no memory has.
    "slice_from_below_all_positions": (18, """
        g (int32[N, M] x, int64[2] s, int64[2] e) => (int32[A, B] y)
        <int64[2] axes = {-1, 0}, int64[2] steps = {1, -2}> { y = Slice (x, s, e, axes, steps) }""",
        [("int32", (3, 5), range(15)), ("int64", (2,), (-2**63, 2**62)), ("int64", (2,), (-1, -2**63))]),
    # Slices of lists decide how many axes are cut: their length is not known when compiling, and the rank was lost.
    "slice_by_slices": (18, """
        g (float[3, 4] x, int64[1] i, int64[1] j, int64[5] c, int64[5] t) => (float[A, B] y, float[C, D] z)
        <int64[1] one = {1}> { s = Slice (c, i, j) k = Add (i, one) m = Add (j, one) e = Slice (c, k, m) d = Slice (t, i, j)
          y0 = Slice (x, s, e) y = Neg (y0) z = Slice (x, s, e, , d) }""",
        [("float32", (3, 4), X), ("int64", (1,), (1,)), ("int64", (1,), (3,)), ("int64", (5,), (0, -3, 1, 9, -1)),
         ("int64", (5,), (0, 2, 3, 1, 1))]),
    # Names that a body defines were taken for those of later nodes, and the nodes for a cycle.
    "names_of_bodies_that_later_nodes_have": (18, """
        g (float[N] x, int64 n) => (float[N] y) <bool yes = {1}> { t = Abs (x)
          r = Loop (n, yes, x) <body = l (int64 i, bool k, float[N] s) => (bool go, float[N] y)
            { go = Identity (k) u = Add (s, t)
              y = If (k) <then_branch = a () => (float[N] z) { z = Mul (u, t) }, else_branch = b () => (float[N] z) { z = Identity (s) }> }>
          u = Neg (r) z = Add (u, t) y = Relu (z) }""",
        [("float32", (3,), X), ("int64", (), (2,))]),
    # Lists whose lengths only the run knows, with axes among them, were refused.
    "slice_and_pad_by_lists_of_open_length": (18, """
        g (float[A, B, C] x, int64[K] s, int64[K] e, int64[K] axes, int64[K] t, int64[M] pads, int64[K] to) =>
          (float[D, E, F] y, float[G, H, I] z)
        { y = Slice (x, s, e, axes, t) z = Pad (x, pads, , to) }""",
        [("float32", (3, 4, 5), range(60)), ("int64", (2,), (-2, 7)), ("int64", (2,), (9, -9)), ("int64", (2,), (-1, 0)),
         ("int64", (2,), (1, -2)), ("int64", (4,), (1, 0, 2, 3)), ("int64", (2,), (2, -3))]),
    "columns_to_image_by_lists_of_open_length": (18, """
        g (float[N, C, L] x, int64[K] s, int64[K] b, int64[M] d) => (float[] y, float[D, E, F, G] z)
        { u = Col2Im (x, s, b) y = Neg (u) z = Col2Im <strides = [1, 1]> (x, s, d) }""",
        [("float32", (1, 12, 9), X), ("int64", (2,), (4, 5)), ("int64", (2,), (2, 3)), ("int64", (2,), (2, 3))]),
    # Phases of the strides: of blocks that are multiples of a stride and others, with and without dilation.
    "columns_to_image_by_phases": (18, """
        g (float[2, 30, 60] x, int32[1, 12, 9] v) => (float[2, 5, 21, 31] y, int32[1, 3, 19] z, int32[1, 2, 28] w)
        { s = Constant <value = int64[2] {21, 31}> () b = Constant <value = int64[2] {2, 3}> ()
          y = Col2Im <strides = [4, 3], dilations = [1, 1], pads = [0, 1, 1, 0]> (x, s, b)
          t = Constant <value = int64[1] {19}> () c = Constant <value = int64[1] {4}> ()
          z = Col2Im <strides = [2], pads = [1, 0]> (v, t, c)
          u = Constant <value = int64[1] {28}> () d = Constant <value = int64[1] {6}> ()
          w = Col2Im <strides = [2], dilations = [3], pads = [2, 2]> (v, u, d) }""",
        [("float32", (2, 30, 60), X), ("int32", (1, 12, 9), (1, -2, 3, 5, 7))]),
    "expansion_by_a_list_of_open_length_to_a_declared_rank": (20, """
        g (float[A, B] x, int64[K] s, int64[1] first, float[N, P, Q] theta, int64[L] size) =>
          (float[] y, float[C, D] z, float[E, F] w, float[] grid)
        { r = Reshape (x, s) y = Neg (r) z = Expand (x, s) n = Shape (s) some = Slice (s, first, n) w = Expand (x, some) a = AffineGrid (theta, size) grid = Abs (a) }""",
        [("float32", (2, 3), X), ("int64", (2,), (2, 3)), ("int64", (1,), (1,)), ("float32", (1, 2, 3), X),
         ("int64", (4,), (1, 2, 3, 4))]),
    # Items of sequences and optionals whose rank only the run knows were refused where nodes compute with them.
    "items_of_any_rank": (18, """
        g (float[A, B] x, float[A, B, C] z, int64 p) => (float[] y, float t, float[] w, seq(float[]) parts)
        { q = SequenceConstruct (x, z) v = SequenceAt (q, p) i = Identity (v) y = Transpose (i)
          t = ReduceSum <keepdims = 0> (v) n = Neg (v) s = SequenceConstruct (v, n)
          j = ConcatFromSequence <axis = 0> (s) w = Relu (j) parts = SplitToSequence <axis = 0> (v) }""",
        [("float32", (3, 2), X), ("float32", (3, 2, 4), X), ("int64", (), (1,))]),
    "items_of_any_rank_in_bodies": (18, """
        g (float[A, B] x, float[A, B, C] z) => (seq(float[]) m, seq(float[]) t, float sum) <bool yes = {1}, float none = {0}>
        { q = SequenceConstruct (x, z) empty = SequenceEmpty () n = SequenceLength (q)
          m = SequenceMap <body = b (float[] v) => (float[] w) { w = Relu (v) }> (q)
          t, sum = Loop (n, yes, empty, none) <body = l (int64 i, bool c, seq(float[]) s, float a) => (bool d, seq(float[]) u, float e)
            { d = Identity (c) v = SequenceAt (q, i) w = Transpose (v) u = SequenceInsert (s, w)
              h = ReduceSum <keepdims = 0> (v) e = Add (a, h) }> }""",
        [("float32", (3, 2), X), ("float32", (3, 2, 4), X)]),
    # A constant step beyond all sizes made the size too large to compute.
    "slice_by_steps_beyond_all_sizes": (18, """
        g (float[N, M] x) => (float[A, B] y)
        <int64[2] s = {-2, 7}, int64[2] e = {9223372036854775807, -9223372036854775808}, int64[2] axes = {0, 1},
         int64[2] steps = {9223372036854775807, -9223372036854775807}> { y = Slice (x, s, e, axes, steps) }""",
        [("float32", (3, 5), X)]),
    # One expression for all operands was nested too deep.
    "sums_of_many_operands": (13, f"""
        g (float[N, 3] x, float[3] z) => (float[N, 3] y, float[N, 3] m)
        {{ y = Max ({", ".join(["x"] * 60000)}) m = Mean ({", ".join(["x", "z", "x"] * 50)}) }}""",
        [("float32", (2, 3), X), ("float32", (3,), (0.25, 3, -1))]),
    # The attributes were cut to integers instead of the result.
    "shrink_of_integers": (18, """
        g (int8[N] x, uint16[N] u) => (int8[N] y, uint16[N] v)
        { y = Shrink <bias = 0.5, lambd = 1.5> (x) v = Shrink <bias = 1.5, lambd = 2.5> (u) }""",
        [("int8", (6,), (-5, -2, -1, 1, 2, 100)), ("uint16", (6,), (0, 1, 2, 3, 4, 65535))]),
    # Only the branch with another size than declared set the size that is checked afterwards.
    "if_with_a_declared_size": (18, """
        g (bool c, float[7, 8] x) => (float[7, 8] y)
        { y = If (c) <then_branch = t () => (float[P, 8] p) <int64[1] five = {5}, int64[1] zero = {0}>
            { p = Slice (x, zero, five) }, else_branch = e () => (float[7, 8] q) { q = Neg (x) }> }""",
        [("bool", (), (0,)), ("float32", (7, 8), X)]),
    # The check of the channels went away with a node that nobody needs (the symbolic form shows it).
    "channels_checked_by_a_dead_node": (18, """
        g (float[1, 2, 4, 4] x) => (float[1, 1, 4, 4] y)
        <float[3, 2, 1, 1] w = {1, 2, 3, 4, 5, 6}, float[1, 2, 1, 1] v = {1, -2}>
        { dead = Conv (x, w)
          y = Conv (x, v) }""",
        [("float32", (1, 2, 4, 4), X)]),
    # Sizes of the scale were not checked against the input's.
    "scale_of_a_normalised_block": (18, """
        g (float[2, 3] x) => (float[2, 3] y) <float[2, 3] s = {1, 2, 3, 4, 5, 6}>
        { y = LayerNormalization <axis = 0> (x, s) }""",
        [("float32", (2, 3), X)]),
    # The length of the index tuples is not known, but data of rank 1 leaves no choice.
    "gathered_with_tuples_of_unknown_length": (18, """
        g (float[4] x, int64[3, L] i) => (float[3] y) { g = GatherND (x, i)
          y = Neg (g) }""",
        [("float32", (4,), X), ("int64", (3, 1), (2, -1, 0))]),
    # Columns that are left over began at the first column of their panel.
    "product_with_a_symbolic_number_of_columns": (18, """
        g (double[2, 4] x, double[4, N] w, float[2, 4] p, float[4, M] q) => (double[2, N] y, float[2, M] z)
        { y = MatMul (x, w)
          z = MatMul (p, q) }""",
        [("float64", (2, 4), X), ("float64", (4, 43), X), ("float32", (2, 4), X), ("float32", (4, 59), X)]),
    # The kernel stood before the step that allocates what it writes.
    "pooled_to_a_size_that_the_run_decides": (18, """
        g (float[3, 8, 8] x, int64[4] s) => (float[A, B, 1, 1] y, float[C, D] z, float[E, F, G, H] n)
        <float[8] ones = {1, 1, 1, 1, 1, 1, 1, 1}>
        { r = Reshape (x, s)
          y = GlobalMaxPool (r)
          z = Einsum <equation = "abcd->ab"> (r)
          n = InstanceNormalization (r, ones, ones) }""",
        [("float32", (3, 8, 8), X), ("int64", (4,), (3, 8, 2, 4))]),
    # A size that folding found stayed unknown elsewhere, and no step set it.
    "gathered_where_a_constant_is_positive": (18, """
        g (float[4] x) => (float[2] y)
        <float[4] c = {1, -2, 3, -4}, float z = {0}>
        { p = Greater (c, z)
          n = NonZero (p)
          t = Transpose <perm = [1, 0]> (n)
          y = GatherND (x, t) }""",
        [("float32", (4,), X)]),
    # A vector of guards before a scalar of the kernel's own, which was loaded as if it had an address.
    "joined_with_the_only_element_of_a_row": (21, """
        g (float[1, 1, 1, 1] x) => (float[4, 1, 1, 1] y)
        <float[1, 1] s = {-1.5}, float[1, 1] b = {0.25}, float step = {0.0044}, uint8 zero = {9}>
        { n = LayerNormalization <axis = -2> (x, s, b)
          c = Concat <axis = 0> (x, n, x, x)
          q = QuantizeLinear (c, step, zero)
          y = DequantizeLinear (q, step, zero) }""",
        [("float32", (1, 1, 1, 1), X)]),
    # Two buffers became bytes; what the second one's bytes mean was lost when the first one's reads were rewritten.
    "bytes_made_of_bytes": (21, """
        g (float[6, 8] x, float[8, 8] v, float[8, 8] w) => (float[6, 8] y, int64[2, D] z, float[6, 8] t)
        <float step = {0.05}, uint8 zero = {90}>
        { m = MatMul (x, v)
          p = QuantizeLinear (m, step, zero)
          a = DequantizeLinear (p, step, zero)
          s = Sigmoid (a)
          y = MatMul (s, w)
          product = Mul (s, x)
          size = Abs (product)
          root = Sqrt (size)
          q = QuantizeLinear (root, step, zero)
          b = DequantizeLinear (q, step, zero)
          z = NonZero (b)
          t = Softmax (b) }""",
        [("float32", (6, 8), X), ("float32", (8, 8), X), ("float32", (8, 8), X[1:])]),
    # A sum of nothing over an axis that goes in blocks was not written, and neither what is added to it.
    "sums_of_nothing": (18, """
        g (float[M, K] a, float[K, N] b, float[M, N] c, uint8[M, K] i, uint8[K, N] j, float[2, K, P] d)
          => (float[M, N] y, int32[M, N] z, float[M, N] t, float[M, M] u)
        { y = Gemm <alpha = 0.5> (a, b, c)
          z = MatMulInteger (i, j)
          p = MatMul (a, b)
          q = Softmax (p)
          t = Add (q, c)
          u = Einsum <equation = "mk,bkp,nk->mn"> (a, d, a) }""",
        [("float32", (3, 0), X), ("float32", (0, 20), X), ("float32", (3, 20), X), ("uint8", (3, 0), (1,)),
         ("uint8", (0, 20), (1,)), ("float32", (2, 0, 3), X)]),
    # Each turn of a loop had the same random numbers.
    "random_numbers_of_a_loop_go_on": (18, """
        g (float[1] x) => (float[5, 3, 101] y)
        <int64 n = {5}>
        { y = Loop (n, , ) <body = b (int64 i, bool c) => (bool d, float[3, 101] u)
            { d = Identity (c)
              u = RandomUniform <shape = [3, 101], seed = 3.0> () }> }""",
        [("float32", (1,), X)], [("float32", (5, 3, 101), np.random.RandomState(3).random_sample(1515))]),
    "random_numbers_of_a_loop_with_growing_sizes": (18, """
        g (float[1] x) => (float[D] y)
        <int64 n = {10}, int64 two = {2}, int64 zero = {0}>
        { y = Loop (n, , x) <body = b (int64 i, bool c, float[E] s) => (bool d, float[F] t)
            { d = Identity (c)
              r = Mod (i, two)
              even = Equal (r, zero)
              t = If (even) <then_branch = a () => (float[G] p)
                { u = RandomUniformLike <seed = 7.0> (s)
                  p = Concat <axis = 0> (s, u) }, else_branch = e () => (float[H] q) { q = Identity (s) }> }> }""",
        [("float32", (1,), X)], [("float32", (32,), [0.5, *np.random.RandomState(7).random_sample(31)])]),
    # Code for sizes grew with all the ways to what they share: no memory was enough.
    "sizes_that_share_their_parts": (18, slices(8), [("float32", (7,), X)]),
    # A copy for a convolution had its place in the workspace, though only the run knows its size; the second one
    # has a halo around it.
    "convolution_of_a_size_in_the_data": (18, """
        g (float[1, 2, H, W] x, float scale) => (float[1, 3, h, w] y)
        <float[2] one = {1, 1}, int64[1] minus = {-1}, float from = {-1}, float to = {1.25}, float step = {0.03125},
         int64[4] small = {4, 2, 3, 3}, int64[1] most = {108}, int64[4] next = {3, 4, 3, 3}, int64[1] zero = {0}>
        { grown = Reshape (scale, minus)
          both = Concat <axis = 0> (one, grown, grown)
          r = Resize <mode = "nearest"> (x, , both)
          v = Range (from, to, step)
          w = Reshape (v, small)
          a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (r, w)
          b = Relu (a)
          vv = Concat <axis = 0> (v, v)
          u = Slice (vv, zero, most)
          z = Reshape (u, next)
          y = Conv <pads = [1, 1, 1, 1]> (b, z) }""",
        [("float32", (1, 2, 5, 7), X), ("float32", (), (1.5,))]),
    # So had the sums of rows of bytes.
    "products_of_bytes_of_chosen_rows": (18, """
        g (uint8[N, 4] x, bool[N] c) => (int32[n, 3] y)
        <int8[4, 3] w = {1, -2, 3, 4, -5, 6, 7, 1, 2, -9, 8, 0}, uint8 zero = {5}, int8 other = {3}>
        { k = Compress <axis = 0> (x, c)
          y = MatMulInteger (k, w, zero, other) }""",
        [("uint8", (5, 4), (1, 200, 7, 31, 5, 90)), ("bool", (5,), (1, 0, 1, 1, 0))]),
    # "As many as there are", in the manner of torch, was taken for a size; of all boxes, whose number the data say.
    "boxes_without_a_limit": (18, """
        g (float[N, 4] boxes, float[N] scores, bool[N] c, int64[1] most) => (int64[n, 3] y, int64[m, 3] z)
        <int64[1] zero = {0}, int64[2] zeros = {0, 1}, float[1] overlap = {0.5}, int64[1] all = {9223372036854775807}>
        { k = Compress <axis = 0> (boxes, c)
          s = Compress <axis = 0> (scores, c)
          b = Unsqueeze (k, zero)
          t = Unsqueeze (s, zeros)
          y = NonMaxSuppression (b, t, all, overlap)
          z = NonMaxSuppression (b, t, most, overlap) }""",
        [("float32", (5, 4), (0, 0, 2, 2, 5, 5, 7, 7, 0, 0, 2, 2.5, 1, 3, 4, 6, 2, 2, 9, 9)),
         ("float32", (5,), (0.5, 0.25, 0.75, 0.5, 0.1)), ("bool", (5,), (1, 1, 1, 0, 1)),
         ("int64", (1,), (2**62,))]),
    # Attention wrote whole vectors of a row where the next kernel wants heads side by side in memory.
    "attention_whose_heads_are_mixed": (18, """
        g (float[2, 2, 8, 5] q, float[2, 2, 5, 8] k, float[2, 2, 8, 5] v, float[8, 8] mask)
          => (float[2, 2, 8, 13] y, float[2, 3, 8, 5] z)
        <float half = {0.5}, float[2, 2, 1, 1] w = {1, -2, 0.5, 0.25}, float[3, 2, 1, 1] u = {1, -2, 0.5, 0.25, 3, 1}>
        { product = MatMul (q, k)
          scaled = Mul (product, half)
          score = Add (scaled, mask)
          weight = Softmax (score)
          heads = MatMul (weight, v)
          y = ConvTranspose <strides = [1, 3]> (heads, w)
          z = Conv (heads, u) }""",
        [("float32", (2, 2, 8, 5), X), ("float32", (2, 2, 5, 8), X[2:]), ("float32", (2, 2, 8, 5), X[1:]),
         ("float32", (8, 8), X[:5])]),
    # What is known of small tensors ignored that numbers wrap around, or are rounded, in their type.
    "constants_that_leave_their_type": (24, """
        g (float[N] x) => (bool[2] a, int64[2] b, uint8[2] c, uint32[1] d, bool[1] e, bool[1] f, int64[1] h, int64[2] k, float[N] y)
        <int8[2] i8 = {100, -100}, uint8[2] u8 = {3, 5}, uint32[1] u32 = {2}, float[1] f32 = {16777216}, float[1] one = {1},
         int64[1] i64 = {9223372036854775807}, int64[2] low = {-9223372036854775808, -1}, int32[2] i32 = {2147483647, 7},
         uint8 two = {2}, uint32 three = {3}>
        { a8 = Add (i8, i8) a = Less (a8, i8) b = Cast <to = 7> (a8) s8 = Sub (u8, two) t8 = Sub (s8, two) c = Div (t8, two)
          d32 = Sub (u32, three) d = Div (d32, three) sum = Add (f32, one) e = Equal (sum, f32)
          next = Add (i64, i64) f = Less (next, i64) h = Abs (next) k = Abs (low)
          y = Neg (x) }""",
        [("float32", (3,), X)]),
    "sizes_that_leave_their_type": (24, """
        g (float[N] x) => (bool[1] a, int64[1] b, int64[1] c)
        <int32[1] most = {2147483646}, int64[1] more = {9223372036854775806}, int32[1] one = {1}, int8[1] seven = {7}>
        { n = Shape (x) n32 = Cast <to = 6> (n) s = Add (most, n32) a = Less (s, most) b = Cast <to = 7> (s)
          t = Add (n, more) c = Abs (t) }""",
        [("float32", (3,), X)]),
    # Refused, though the checker and both evaluators take it.
    "an_output_listed_twice": (18, """
        g (float[N] x) => (float[N] y, float[N] x, float[N] y, float[N] x) { y = Neg (x) }""", [("float32", (3,), X)]),
    # Saturated where the next node took it at once.
    "infinities_of_small_floats": (21, """
        g (float[N] x) => (float[N] y, double[N] z)
        { a = Cast <to = 19, saturate = 0> (x) y = Cast <to = 1> (a)
          b = Cast <to = 17, saturate = 0> (x) z = Cast <to = 11> (b) }""",
        [("float32", (5,), (1e6, -70000, 57344, 500, 2))],
        [("float32", (5,), (np.inf, -np.inf, 57344, 512, 2)), ("float64", (5,), (np.nan, np.nan, np.nan, np.nan, 2))]),
    # A guard that never holds was none: what lies beside the image was read.
    "windows_that_see_only_padding": (19, """
        g (float[1, 2, 5, 3] x, uint8[1, 2, 5, 3] b) => (float[1, 3, h, 1] y, float[1, 2, u, 1] z, float[1, 2, v, 1] t,
                                                         int32[1, 1, w, 1] i, uint8[1, 1, w, 1] q)
        <float[3, 2, 1, 1] k = {1, 2, 3, 4, 5, 6}, int8[1, 2, 1, 1] c = {3, -7}, uint8 zero = {110}, float one = {1},
         int8 none = {0}>
        { y = Conv <pads = [2, 1, 1, 1], strides = [1, 5]> (x, k)
          z = AveragePool <kernel_shape = [2, 2], pads = [0, 1, 0, 0], strides = [1, 3]> (x)
          t = LpPool <kernel_shape = [2, 2], pads = [0, 1, 0, 0], strides = [1, 3]> (x)
          i = ConvInteger <pads = [0, 1, 0, 1], strides = [1, 5]> (b, c, zero)
          q = QLinearConv <pads = [0, 1, 0, 1], strides = [1, 5]> (b, one, zero, c, one, none, one, zero) }""",
        [("float32", (1, 2, 5, 3), X), ("uint8", (1, 2, 5, 3), (9, 200, 31, 77))]),
    # A grid of one position with the corners aligned was not a number.
    "a_grid_of_one_position": (20, """
        g (float[1, 2, 3] x, int64[4] s) => (float[1, H, W, 2] y, float[1, 1, 2, 2] z) <int64[4] one = {1, 1, 1, 2}>
        { y = AffineGrid <align_corners = 1> (x, s) z = AffineGrid <align_corners = 1> (x, one) }""",
        [("float32", (1, 2, 3), (1, 2, 4, -1, 0.5, 8)), ("int64", (4,), (1, 1, 3, 1))],
        [("float32", (1, 3, 1, 2), (1, 8.5, 3, 9, 5, 9.5)), ("float32", (1, 1, 2, 2), (1, 8.5, 3, 6.5))]),
    # Elements of a shape that folding found stayed unknown in the sizes made of them.
    "a_shape_that_is_folded": (18, """
        g (float[N] x) => (float[A, B] y, float[P, Q] z, float[N] t)
        <int64[2] one = {2, 1}, int64 zero = {0}, float[6] six = {1, 2, 3, 4, 5, 6}, uint64[2] bits = {1, 12}, uint64 two = {2}>
        { s = CumSum (one, zero) c = ConstantOfShape (s) y = Cos (c)
          u = BitShift <direction = "RIGHT"> (bits, two) v = Cast <to = 7> (u) w = Sub (v, one) m = Add (w, s)
          r = Reshape (six, s) z = Add (r, c) t = Neg (x) }""",
        [("float32", (3,), X)],
        [("float32", (2, 3), (1,)), ("float32", (2, 3), (1, 2, 3, 4, 5, 6)), ("float32", (3,), (-0.5, 1.25, -2))]),
    # Limits that folding made constant: what made the range took its size for known, the others for one of the run.
    "ranges_with_limits_that_are_folded": (18, """
        g (float[N, 4, 64, 48] x) => (float[A, B] y)
        <int64 two = {2}, int64 three = {3}, int64 eight = {8}, float half = {0.5}, float quarter = {0.25}, float one = {1},
         int64[1] unit = {1}>
        { s = Shape (x) h = Gather (s, two) w = Gather (s, three) m = Div (h, eight) n = Div (w, eight) f = Cast <to = 1> (m)
          e = Cast <to = 1> (n) rows = Range (half, f, one) columns = Range (quarter, e, one) p = Shape (rows) q = Shape (columns)
          both = Concat <axis = 0> (p, q) line = Concat <axis = 0> (unit, q) r = Reshape (columns, line) t = Expand (r, both)
          column = Concat <axis = 0> (p, unit) c = Reshape (rows, column) y = Add (t, c) }""",
        [("float32", (1, 4, 64, 48), X)]),
    # Of two equal nodes one went away, and with it what set the size in the other one's readers.
    "sizes_of_nodes_that_are_merged": (18, """
        g (float[N] x, float k) => (int64[A, B] y, int64[1] n, float[C, D] z)
        <float zero = {0}, float one = {1}, int64[2] column = {-1, 1}, int64[2] row = {1, -1}>
        { r = NonZero (x) s = NonZero (x) y = Add (r, s) t = Transpose (s) u = Shape <end = 1> (t) n = Neg (u)
          a = Range (zero, k, one) b = Range (zero, k, one) c = Reshape (a, column) d = Reshape (b, row) z = Mul (c, d) }""",
        [("float32", (5,), (0, 1, 2, 0, 3)), ("float32", (), (4.5,))]),
    # Refused: without the axis of one element that the standard wants behind a real signal's length, as torch writes it.
    "signals_without_parts": (17, """
        g (float[N, 24] x) => (float[N, A, B, 2] y, float[N, C, 8, 2] z)
        <int64 step = {4}, int64 length = {8}, float[8] window = {0, 0.25, 0.5, 1, 1, 0.5, 0.25, 0}>
        { y = STFT <onesided = 1> (x, step, window, length) z = STFT <onesided = 0> (x, step, , length) }""",
        [("float32", (2, 24), X)], SPECTRA),
    # Functions of one byte are tables: all bytes of both signs, and what reads one through another.
    "functions_of_bytes": (21, """
        g (uint8[16, 16] a, int8[16, 16] b) => (uint8[16, 16] y, int8[16, 16] z, float[16, 16] t, float[16, 16] u)
        <float one = {0.03125}, float two = {0.0078125}, float three = {0.25}, uint8 p = {130}, int8 q = {-3}, uint8 none = {0},
         float half = {0.5}>
        { d = DequantizeLinear (a, one, p) s = Sigmoid (d) m = Mul (d, s) y = QuantizeLinear (m, three, p)
          e = DequantizeLinear (b, one, q) f = Erf (e) g1 = QuantizeLinear (f, two, q) h = DequantizeLinear (g1, two, q)
          k = Mul (h, half) l = HardSwish (k) z = QuantizeLinear (l, two, q)
          n = DequantizeLinear (y, three, p) o = Tanh (n) v = DequantizeLinear (z, two, q) w = Softplus (v) t = Add (o, w)
          r = Add (n, v) r1 = QuantizeLinear (r, one, none) r2 = DequantizeLinear (r1, one, none) u = Elu (r2) }""",
        [("uint8", (16, 16), tuple(range(256))), ("int8", (16, 16), tuple(range(-128, 128)))]),
    # A turned operand was added in tiles that overlap, in place of the other operand: some elements twice.
    "turned_and_added_in_place": (17, """
        g (float[2, 20, 24] x, float[2, 24, 20] y, float[20, 20] v, float[20, 3] w) => (float[2, 24, 3] z, float[2, 24, 3] s)
        { e = MatMul (y, v) s = MatMul (e, w) t = Transpose <perm = [0, 2, 1]> (x) a = Add (t, e) z = MatMul (a, w) }""",
        [("float32", (2, 20, 24), X), ("float32", (2, 24, 20), X), ("float32", (20, 20), X), ("float32", (20, 3), X)]),
    # Reads at computed indices, and indices of writes, kept the old type of a buffer that is stored as bytes or turned to
    # the other sign: the index was the byte and not the number that it stands for.
    "gathered_at_what_it_gathers": (19, """
        g (float[8, 4] x) => (float[8, 4] y, float[8, 4] z) <float s = {0.5}, uint8 zp = {0}>
        { r = Relu (x) q = QuantizeLinear (r, s, zp) d = DequantizeLinear (q, s, zp) i = Cast <to = 7> (d)
          y = GatherElements <axis = 0> (d, i) z = Softmax (d) }""",
        [("float32", (8, 4), (0.5, 2.25, -1, 3, 1.5, 1, 2.75))]),
    "scattered_at_dequantised_indices": (19, """
        g (float[8, 4] x, float[16, 4] data, float[8, 4] upd) => (float[16, 4] y, float[8, 4] z)
        <float s = {0.5}, uint8 zp = {0}>
        { r = Relu (x) q = QuantizeLinear (r, s, zp) d = DequantizeLinear (q, s, zp) i = Cast <to = 7> (d)
          y = ScatterElements <axis = 0> (data, i, upd) z = Softmax (d) }""",
        [("float32", (8, 4), tuple(j // 4 + 0.25 * (j % 2) for j in range(32))), ("float32", (16, 4), X),
         ("float32", (8, 4), (7, -3, 5, 0.5, 11))]),
    "gathered_at_bytes_of_a_product": (19, """
        g (float[8, 8] x, int8[8, 8] w) => (int32[8, 8] m, int8[8, 8] y) <float s = {0.5}, int8 zp = {0}>
        { r = Relu (x) q = QuantizeLinear (r, s, zp) m = MatMulInteger (q, w) i = Cast <to = 7> (q)
          y = GatherElements <axis = 0> (q, i) }""",
        [("float32", (8, 8), (0.5, 2.25, -1, 3, 1.5, 1, 2.75)), ("int8", (8, 8), (3, -7, 127, -128, 5))]),
    # A branch that fits no size with which it is reached (torch's squeeze(0) before a Conv) was an error.
    "branch_that_cannot_run": (17, """
        g (float[N, 2, 5] x) => (float[N, 3, C] y) <float[3, 2, 3] w = {1, -2, 3, 0.5, 1.5, -1, 2, 2, -3, 1, 0, 1, -1, 4, 2, 0.25, -0.5, 1},
          int64[1] zero = {0}, int64 first = {0}, int64 two = {2}>
        { s = Shape (x) n = Gather (s, first) c = Equal (n, two)
          v = If (c) <then_branch = t () => (a) { a = ReduceSum <keepdims = 0> (x, zero) }, else_branch = e () => (b) { b = Identity (x) }>
          y = Conv (v, w) }""",
        [("float32", (1, 2, 5), X)]),
    # ONNX Script's `break`: the standard ignores the condition, ONNX Runtime stops.
    "loop_that_breaks": (17, """
        g (int64 m, float[2] x) => (float[2] y, float[T, 2] z) <int64 seven = {7}, int64 one = {1}>
        { y, z = Loop (m, "", x) <body = b (int64 i, bool c, float[2] a) => (bool go, float[2] r, float[2] e)
          { f = Cast <to = 1> (i) r = Add (a, f) e = Neg (r) j = Add (i, one) go = Less (j, seven) }> }""",
        [("int64", (), (9,)), ("float32", (2,), (1, 2))],
        [("float32", (2,), (22, 23)), ("float32", (7, 2), (-1, -2, -2, -3, -4, -5, -7, -8, -11, -12, -16, -17, -22, -23))]),
    # Each iteration converted the layout of all images of the scan output, but had the memory of its own only.
    "scan_output_of_a_convolution": (17, """
        g (float[1, 3, 9, 9] x, float[8, 3, 3, 3] w, float[3, 3, 3, 3] v) => (float[3, 8, 9, 9] z) <int64 m = {3}, bool yes = {1},
          int64[1] first = {0}, int64[4] all = {3, 8, 9, 9}>
        { y, e = Loop (m, yes, x) <body = b (int64 i, bool c, float[1, 3, 9, 9] a) => (bool go, float[1, 3, 9, 9] r, float[8, 9, 9] e1)
          { go = Identity (c) e0 = Conv <pads = [1, 1, 1, 1]> (a, w) e1 = Squeeze (e0, first)
            f = Conv <pads = [1, 1, 1, 1]> (a, v) r = Sigmoid (f) }> z = Reshape (e, all) }""",
        [("float32", (1, 3, 9, 9), (0.5, 1.25, 2, 0.75)), ("float32", (8, 3, 3, 3), (0.25, 0.5)), ("float32", (3, 3, 3, 3), (1, 0.5, 0.25))]),
    # The number of axes, and with it the rank of a result, is known only at run time: they were refused.
    "sum_over_some_axes": (21, """
        g (float[A, B, C] x, int64[K] axes) => (float[D, E, F] y) { s = ReduceSum (x, axes) m = ReduceMax (x, axes) y = Sub (s, m) }""",
        [("float32", (2, 3, 4), X), ("int64", (2,), (-1, 0))]),
    "sum_over_no_axes": (21, """
        g (float[A, B, C] x, int64[K] axes) => (float[D, E, F] y, float[D, E, F] z) { y = ReduceSum (x, axes)
          z = ReduceMean <noop_with_empty_axes = 1> (x, axes) }""",
        [("float32", (2, 3, 4), X), ("int64", (0,), (0,))]),
    "sum_without_the_axes": (21, """
        g (float[A, B, C] x, int64[K] axes) => (float[D] y) <int64[1] all = {-1}> { s = ReduceSum <keepdims = 0> (x, axes)
          n = Neg (s) y = Reshape (n, all) }""",
        [("float32", (2, 3, 4), X), ("int64", (2,), (-1, 0))]),
    "squeezed_by_some_axes": (21, """
        g (float[A, B, C] x, int64[K] axes) => (float[D] y) <int64[1] all = {-1}> { s = Squeeze (x, axes) u = Unsqueeze (s, axes)
          t = Add (u, x) y = Reshape (t, all) }""",
        [("float32", (1, 3, 1), X), ("int64", (2,), (0, 2))]),
    "reshaped_to_some_rank": (21, """
        g (float[A, B] x, int64[K] shape) => (float[D] y) <int64[1] all = {-1}> { r = Reshape (x, shape) e = Exp (r)
          y = Reshape (e, all) }""",
        [("float32", (2, 6), X), ("int64", (3,), (2, -1, 3))]),
    # Squeeze without axes, where a symbolic size is 1 at run time: it was refused.
    "squeezed_to_a_rank_of_the_run": (17, """
        g (float[N, 1, 6] x, float[6] r) => (float[C] y) <int64[1] ends = {4}, int64[1] begins = {1}, int64[1] axes = {0}>
        { q = Squeeze (x) p = Add (q, r) z = Slice (p, begins, ends, axes) y = Relu (z) }""",
        [("float32", (1, 1, 6), X), ("float32", (6,), X)]),
    "squeezed_output": (17, """
        g (float[N, 1] x) => (float[N] y) <float two = {2}> { q = Squeeze (x) y = Mul (q, two) }""",
        [("float32", (3, 1), X)]),
    # Of several symbolic axes the output kept all that are 1, not only as many as it declares.
    "squeezed_output_of_several_symbolic_axes": (17, """
        g (float[N, M] x) => (float[K] y) { q = Squeeze (x) y = Neg (q) }""",
        [("float32", (3, 1), X)]),
    # Of four symbolic axes or more, none was taken to be 1.
    "squeezed_to_a_rank_of_many_axes": (17, """
        g (float[A, B, C, D, E] x, float[3, 2] r) => (float[F] y) <int64[1] all = {-1}>
        { q = Squeeze (x) p = MatMul (q, r) m = ReduceMax <keepdims = 1, axes = [0]> (p) y = Reshape (m, all) }""",
        [("float32", (1, 4, 1, 3, 1), X), ("float32", (3, 2), X)]),
    # The check of a size in a branch that cannot run was done for the copy of its node that ran.
    "squeezed_operand_of_a_product": (10, """
        g (float[A, B] x, int64[D, 1] i) => (float[P, Q, R] y) <float[3, 1] c = {1, 2, 3}>
        { q = Squeeze (x) p = MatMul (q, c) y = Gather <axis = 1> (p, i) }""",
        [("float32", (4, 3), X), ("int64", (5, 1), (0,))]),
    # A declared size of an output whose rank depends on the data was checked before it was known.
    "squeezed_output_of_a_size_of_the_data": (17, """
        g (float[N, 3] x) => (int64[2, K] y) { i = NonZero (x) y = Squeeze (i) }""",
        [("float32", (2, 3), X)]),
    # A body whose number of the iteration is declared as a list of one, as exporters once wrote, was given a scalar.
    "iteration_as_a_list_of_one": (11, """
        g (float[A, 4] x, int64 n, float[4] z) => (float[4] y, float[K, 4] s) <bool yes = {1}>
        { y, s = Loop (n, yes, z) <body = b (int64[1] i, bool c, float[4] t) => (bool go, float[4] u, float[4] v)
            { k = Squeeze <axes = [0]> (i) r = Gather <axis = 0> (x, k) u = Add (t, r) v = Identity (u) go = Identity (c) }> }""",
        [("float32", (3, 4), X), ("int64", (), (3,)), ("float32", (4,), X)]),
    # Parts of a split by ones, whose number only the run knows: an Expand to one of them was refused.
    "parts_by_a_list_of_ones": (17, """
        g (float[N, 3] x, int64[N] t) => (float[M, 3] y) <bool yes = {1}, int64[1] three = {3}>
        { n = Shape <start = 0, end = 1> (t) k = Squeeze (n) ones = ConstantOfShape <value = int64[1] {1}> (n)
          p = SplitToSequence <axis = 0> (x, ones) q = SplitToSequence <axis = 0> (t, ones) e = SequenceEmpty <dtype = 1> ()
          r = Loop (k, yes, e) <body = b (int64 i, bool c, s) => (bool go, u)
            { go = Identity (c) v = SequenceAt (p, i) w = SequenceAt (q, i) l = Concat <axis = 0> (w, three) m = Expand (v, l) u = SequenceInsert (s, m) }>
          y = ConcatFromSequence <axis = 0> (r) }""",
        [("float32", (3, 3), X), ("int64", (3,), (2, 1, 4))]),
    # Each branch of another rank gave the list its own length, also for the other branches.
    "pads_of_a_tensor_of_some_rank": (13, """
        g (float[A, B] x, int64[K] shape, int64[L] pads) => (float y) <int64 none = {0}>
        { s = Add (shape, none) r = Reshape (x, s) p = Add (pads, none) q = Pad (r, p) e = Exp (q) y = ReduceSum <keepdims = 0> (e) }""",
        [("float32", (2, 3), X), ("int64", (2,), (3, 2)), ("int64", (4,), (1, 0, 0, 1))]),
    # Nodes that depend on two tensors of some rank: the second one had no type yet.
    "sum_of_tensors_of_some_ranks": (13, """
        g (float[A] x, int64[K] s, int64[L] t) => (float y)
        { p = Reshape (x, s) q = Reshape (x, t) n = Neg (p) a = Abs (q) z = Add (n, a) y = ReduceSum <keepdims = 0> (z) }""",
        [("float32", (6,), X), ("int64", (2,), (2, 3)), ("int64", (3,), (2, 1, 3))]),
    # Of a column of equal results, only every fourth was written.
    "function_of_repeated_rows": (13, """
        g (float[A] x, int64[B, 1] i) => (float[P, Q] y) <int64[2] sizes = {7, 8}, float c = {1.5}>
        { r = GatherND (x, i) e = Expand (r, sizes) d = Div (e, c) y = Erf (d) }""",
        [("float32", (9,), X), ("int64", (8, 1), range(8))]),
    "convolution_of_channels_that_a_pad_adds": (21, """
        g (float[N, C, H, W] x) => (float[N, 32, H, W] y) <int64[1] none = {0}, int64[1] axis = {1}, int64[1] block = {16},
            int64[4] sizes = {32, 16, 3, 3}, float first = {0}, float last = {4608}, float next = {1}, float small = {0.001}>
        { s = Shape <start = 1, end = 2> (x) m = Neg (s) r = Mod (m, block) pads = Concat <axis = 0> (none, r)
          p = Pad (x, pads, , axis) n = Range (first, last, next) t = Sin (n) u = Mul (t, small) w = Reshape (u, sizes)
          c = Conv <pads = [1, 1, 1, 1]> (p, w) y = Relu (c) }""",
        [("float32", (1, 12, 12, 12), (0.5, 2.25, -1, 3, 1.5, 1, -2.75))]),
    # The memory of a tensor without elements, which may be nowhere, was read for rows outside of it.
    "transposed_padding_of_no_rows": (21, """
        g (float[N, 64] x, float16[N, 64] h) => (float[64, M] y, float16[64, M] z) <int64[4] pads = {32, 0, 32, 0}>
        { p = Pad (x, pads) y = Transpose <perm = [1, 0]> (p) q = Pad (h, pads) z = Transpose <perm = [1, 0]> (q) }""",
        [("float32", (0, 64), ()), ("float16", (0, 64), ())]),
    # Truths that are moved are bytes; those that are read as conditions are not.
    "moved_truths": (21, """
        g (bool[3, 21, 35] x, bool[21, 35] c, float[21, 35] z) => (bool[35, 21, 3] y, bool[3, 35, 21] t, bool[63, 70] r, float[35, 21] w)
          <int64[2] shape = {63, 35}, int64[2] repeats = {1, 2}, float zero = {0}>
        { y = Transpose <perm = [2, 1, 0]> (x) t = Transpose <perm = [0, 2, 1]> (x) f = Reshape (x, shape) r = Tile (f, repeats)
          v = Where (c, z, zero) w = Transpose (v) }""",
        [("bool", (3, 21, 35), [i % 7 % 3 == 1 for i in range(3 * 21 * 35)]), ("bool", (21, 35), [i % 5 < 2 for i in range(21 * 35)]),
         ("float32", (21, 35), range(21 * 35))]),
    # One best element is found as ArgMax does, which knows no order in which NaN is the largest of the smallest.
    "best_elements": (21, """
        g (float[N, 5] x) => (float[N, 1] v, int64[N, 1] i, float[N, 1] w, int64[N, 1] j) <int64[1] k = {1}>
        { v, i = TopK (x, k) w, j = TopK <largest = 0> (x, k) }""",
        [("float32", (3, 5), (1, NAN, 3, NAN, 0, -INF, -INF, -INF, -INF, -INF, 2, 7, -0.0, 7, 0))],
        [("float32", (3, 1), (NAN, -INF, 7)), ("int64", (3, 1), (1, 0, 1)), ("float32", (3, 1), (0, -INF, -0.0)), ("int64", (3, 1), (4, 0, 2))]),
    # Of a value that branches hide, a reduction and an operator outside the standard asked for the type too early.
    "sum_of_a_hidden_value": (18, """
        g (float[A, B] x, int64[K] axes) => (float y)
        { r = ReduceSum <keepdims = 0> (x, axes) n = Abs (r) y = ReduceSum <keepdims = 0> (n) }""",
        [("float32", (2, 3), (1, 2, -4)), ("int64", (1,), (0,))]),
    "quick_gelu_of_a_hidden_value": (18, """
        g (float[A, B] x, int64[K] axes) => (float y)
        { r = ReduceSum <keepdims = 0> (x, axes) n = Abs (r) q = com.microsoft.QuickGelu <alpha = 0.0> (n)
          y = ReduceSum <keepdims = 0> (q) }""",
        [("float32", (2, 3), (1, 2, -4)), ("int64", (1,), (0,))], [("float32", (), (7,))]),
    # The elements of a Reshape to a scalar, in a branch that cannot run, were folded into the memory of one.
    "constant_reshaped_to_some_rank": (19, """
        g (int64[K] axes, int64[L] shape) => (int64[D] y) <int64[60, 1, 1, 1, 1, 1, 1] c = {"""
        + ", ".join(str(i) for i in range(60)) + """}, int64[7] t = {1, 5, 4, 1, 1, 3, 1}, int64[1] all = {-1}, int64 none = {0}>
        { w = Reshape (c, t) a = Add (axes, none) u = Unsqueeze (w, a) s = Add (shape, none) r = Reshape (u, s)
          y = Reshape (r, all) }""",
        [("int64", (1,), (2,)), ("int64", (3,), (5, 3, 4))]),
    # Sums and products of elements wrap, those of positions do not: only of these (3 x) % 3 is 0, and 2^40 x not negative.
    "products_of_elements_wrap": (
        17, """g (int64[N] x, uint32[N] u) => (int64[N] y, bool[N] z) <int64 five = {5}, int64 three = {3}, int64 big = {1099511627776}, int64 zero = {0}> {
             a = Add (x, five) p = Mul (a, three) y = Mod (p, three) c = Cast <to = 7> (u) q = Mul (c, big) z = Less (q, zero) }""",
        [("int64", (4,), (2**62, -2**62, 7, 0)), ("uint32", (4,), (2**32 - 1, 2**23, 1, 0))]),
    # Inference took the branch of the first iteration for that of all, as the size was still a constant.
    "branch_on_a_size_that_grows": (17, """
        g (float[1] x) => (float[A] y, float[4] z) <int64 trips = {4}, bool yes = {1}, int64[1] one = {1}, float unit = {1}>
        { y, z = Loop (trips, yes, x) <body = b (int64 i, bool c, float[K] s) => (bool go, float[L] t, float w)
            { go = Identity (c) n = Shape (s) e = Equal (n, one) f = Squeeze (e)
              w = If (f) <then_branch = p () => (float a) { a = Identity (unit) },
                          else_branch = q () => (float a) { a = ReduceSum <keepdims = 0> (s) }>
              t = If (f) <then_branch = p () => (float[P] a) { a = Concat <axis = 0> (s, s) },
                          else_branch = q () => (float[Q] a) { a = Concat <axis = 0> (s, s, s) }> }> }""",
        [("float32", (1,), X)], [("float32", (54,), X[:1]), ("float32", (4,), (1, 1, 3, 9))]),
    "branch_on_a_size_that_grows_in_two_loops": (17, """
        g (float[1] x, int64 m) => (float[A] y) <int64 trips = {3}, bool yes = {1}, int64[1] one = {1}>
        { y = Loop (trips, yes, x) <body = b (int64 i, bool c, float[K] s) => (bool go, float[L] t)
            { go = Identity (c) d = Concat <axis = 0> (s, s)
              t = Loop (m, yes, s) <body = d (int64 j, bool u, float[P] v) => (bool goes, float[Q] w)
                { goes = Identity (u) n = Shape (v) e = Equal (n, one) f = Squeeze (e)
                  w = If (f) <then_branch = p () => (float[S] a) { a = Concat <axis = 0> (v, d) },
                              else_branch = q () => (float[T] a) { a = Neg (v) }> }> }> }""",
        [("float32", (1,), X), ("int64", (), (2,))]),
    # For wide vectors, whether a read varies was asked of itself, without end.
    "frames_of_a_signal": (17, """
        g (float[N] x) => (float[A, 16] y) <float[16] window = {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1}, int32[1, 2] pair = {0, 1},
            int32 none = {0}, int32 one = {1}, int32 hop = {8}, int32 size = {16}, int32[1] width = {16}, int32[1] block = {8},
            int32[1] single = {1}, int32[1] begin = {0}, int64[1] first = {0}>
        { s = Shape (x) c = Cast <to = 6> (s) n = Squeeze (c) h = Sub (n, size) l = Div (h, hop) k = Add (one, l) m = Max (none, k)
          r = Range (none, m, one) mu = Unsqueeze (m, first) uc = Concat <axis = 0> (mu, single) us = Cast <to = 7> (uc)
          u = Reshape (r, us) i = Add (u, pair) fc = Concat <axis = 0> (mu, width) fs = Cast <to = 7> (fc)
          d = Div (n, hop) e = Mul (d, hop) t = Unsqueeze (e, first) w = Slice (x, begin, t)
          du = Unsqueeze (d, first) bc = Concat <axis = 0> (du, block) bs = Cast <to = 7> (bc) b = Reshape (w, bs)
          g = Gather <axis = 0> (b, i) f = Reshape (g, fs) y = Mul (f, window) }""",
        [("float32", (45,), range(45))]),
    # A value that a loop carries had to keep its rank.
    "rank_that_grows": (17, """
        g (float[N] x, int64 m) => (float[A] y, float[B, C, D] z, float[T] s) <int64 two = {2}, bool yes = {1}, int64[1] all = {-1}, int64[1] first = {0}>
        { r, h, s = Loop (m, yes, x, x) <body = b (int64 i, bool c, v, float[K] h) => (bool go, w, float[L] k, float o)
            { go = Identity (c) u = Unsqueeze (v, first) w = Neg (u) k = Concat <axis = 0> (h, x) o = ReduceSum <keepdims = 0> (w) }>
          f = Reshape (r, all) y = Sub (f, x)
          z = Loop (two, yes, x) <body = d (int64 i, bool c, v) => (bool go, w) { go = Identity (c) w = Unsqueeze (v, first) }> }""",
        [("float32", (3,), X), ("int64", (), (3,))],
        [("float32", (3,), (-1, 2.5, -4)), ("float32", (1, 1, 3), X), ("float32", (3,), (-1.25, 1.25, -1.25))]),
    "rank_that_falls": (17, """
        g (float[1, 1, N] x) => (float[A] y) <bool yes = {1}, int64[1] first = {0}, int64 top = {100}, int64 one = {1}>
        { y = Loop (top, yes, x) <body = b (int64 i, bool c, v) => (bool go, w)
            { w = Squeeze (v, first) n = Shape (w) m = Size (n) go = Greater (m, one) }> }""",
        [("float32", (1, 1, 3), X)]),
    # Exponents were rounded to f32.
    "powers_of_large_integers": (15, """
        g (float[4] x, int32[4] e, uint32[4] u) => (float[4] y, float[4] z, float[4] w) <int32 odd = {16777219}>
        { y = Pow (x, e) z = Pow (x, u) w = Pow (x, odd) }""",
        [("float32", (4,), (-1, 1.0000001192092896, -0.9999999403953552, 1)), ("int32", (4,), (2**31 - 1, 16777217, 16777219, 2**31 - 1)),
         ("uint32", (4,), (2**32 - 1, 2**24 + 1, 2**24 + 3, 5))]),
    # Rounded to 53 bits first, and then to those of the type.
    "integers_of_64_bits_to_short_floats": (25, """
        g (int64[3] x) => (float[3] b, float[3] e, float[3] c)
            <int64[3] far = {1157425104234217473, -1157425104234217473, 9007199254740993}>
        { n = Add (x, far) h = Cast <to = 16> (n) b = Cast <to = 1> (h) u = Abs (n) p = Cast <to = 24> (u) e = Cast <to = 1> (p)
          k = Cast <to = 16> (far) c = Cast <to = 1> (k) }""",
        [("int64", (3,), (0,))],
        [("float32", (3,), (2**60 + 2**53, -2**60 - 2**53, 2**53)), ("float32", (3,), (2**61, 2**61, 2**54)),
         ("float32", (3,), (2**60 + 2**53, -2**60 - 2**53, 2**53))]),
    # Once the channels were known, the last size of an item had the name that the channels had had.
    "items_of_sizes_known_later": (17, """
        g (float[A, B, C] x, float[D, E, 1] w, float[P] a) => (float[N, 1, L] y, float[N, 2, L] z, float[N, M, L] v)
            <float[2, 3, 1] k = {1, 2, 3, 4, 5, 6}, int64[3] shape = {1, 1, -1}, int64 zero = {0}>
        { s = SequenceConstruct (x, x) i = SequenceAt (s, zero) y = Conv (i, w) z = Conv (x, k)
          c = ConcatFromSequence <axis = 0> (s) m = Conv (c, w) r = Reshape (a, shape) v = Add (m, r) }""",
        [("float32", (1, 3, 2), (1, 2.5, -4, 3, 0.5, 2)), ("float32", (1, 3, 1), X), ("float32", (2,), (1, 2))]),
    # Exporters declare the number of labels of one text; normalising texts without stop words keeps their number.
    "labels_of_several_texts": (
        17, """g (int64[N] x) => (int64[1] y) <int64[1] all = {-1}, int64[4] labels = {7, 8, 9, 10}> {
            s = Cast <to = 8> (x) n = StringNormalizer <case_change_action = "LOWER"> (s) r = Reshape (n, all)
            i = Cast <to = 7> (r) y = Gather (labels, i) }""", [("int64", (3,), (2, 0, 3))], [("int64", (3,), (9, 7, 10))]),
    # Paddle's exporter adds lists of one to scalars: the condition changed its rank as well.
    "condition_of_changing_rank": (17, """
        g (bool c, int64 zero, float[N] x) => (int64[1] n, float[N] y)
        { n, y = Loop (, c, zero, x) <body = b (int64[1] k, bool d, int64 i, float[N] v) => (bool go, int64 j, float[N] w)
            <int64[1] one = {1}, int64 three = {3}> { j = Add (i, one) w = Add (v, v) go = Less (j, three) }> }""",
        [("bool", (), (1,)), ("int64", (), (0,)), ("float32", (3,), X)], [("int64", (1,), (3,)), ("float32", (3,), [8 * x for x in X[:3]])]),
    # The default axes are those of images.
    "normalisation_without_images": (13, """
        g (float[2, 2, 3] x, float[3, 2] v) => (float[2, 2, 3] y, float[3, 2] w) {
        y = MeanVarianceNormalization (x) w = MeanVarianceNormalization (v) }""",
        [("float32", (2, 2, 3), (1, 3, 1, 5, 5, 5, 3, 1, 3, 7, 7, 7)), ("float32", (3, 2), (0, 1, 2, 1, 1, 1))],
        [("float32", (2, 2, 3), (-1, 1, -1, -1, -1, -1, 1, -1, 1, 1, 1, 1)), ("float32", (3, 2), (-1.2247449, 0, 1.2247449, 0, 0, 0))]),
    # The condition is as long as the data, in their shape.
    "condition_in_the_shape_of_the_data": (17, """
        g (float[A, B] x, bool[A, B] c) => (float[K] y) { y = Compress (x, c) }""",
        [("float32", (2, 3), X), ("bool", (2, 3), (1, 0, 1, 0, 0, 1))], [("float32", (3,), (X[0], X[2], X[5]))]),
    # Three sizes of an image as a matrix were written to an array of two.
    "transposed_convolution_of_few_channels": (18, """
        g (float[2, 8, 4, 5] x) => (float[2, 2, 9, 11] y) <float zero = {0}, float n = {144}, float step = {1}>
        { s = Constant <value = int64[4] {8, 2, 3, 3}> () r = Range (zero, n, step) v = Sin (r) w = Reshape (v, s)
          y = ConvTranspose <strides = [2, 2]> (x, w) }""",
        [("float32", (2, 8, 4, 5), X)]),
    # Exporters that trace a model declare the sizes of one run.
    "declared_sizes_of_another_run": (17, """
        g (float[N] x, int64 top) => (float[2] y, int64[1, 2] z) <float[2] p, int64[1, 7] q, float zero = {0}, bool yes = {1}>
        { p = Loop (top, yes) <body = b (int64 i, bool c) => (bool go, float v) { v = Gather (x, i) go = Greater (v, zero) }> y = Neg (p)
          q = NonZero (x) z = Neg (q) }""",
        [("float32", (5,), (1, 2, 0, 3, 4)), ("int64", (), (4,))], [("float32", (3,), (-1, -2, 0)), ("int64", (1, 4), (0, -1, -3, -4))]),
}
# Models that onnxc wrote in a way that nobody could read (the stage `written`).
IMAGE = ("float32", (1, 1, 2, 5), range(10))
CASES.update({f"written_{name}": case for name, case in {
    "input_as_output": (17, "g (float[N] x) => (float[N] x, float[N] y) { y = Neg (x) }", [("float32", (3,), X)]),
    "constant_as_output": (17, "g (float[N] x) => (float[2] c, float[N] y) <float[2] c = {1, 2}> { y = Neg (x) }", [("float32", (3,), X)]),
    "float8_that_passes": (19, "g (float8e4m3fn[2] q) => (float8e4m3fn[2] p) { p = Identity (q) }", [("float8_e4m3fn", (2,), (0.5, -2))]),
    "growing": (9, """g (float[1, 1, 2, 5] x) => (float[1, 1, 4, 5] y) <float[4] s = {1, 1, 2, 1}> { y = Upsample <mode = "nearest"> (x, s) }""",
                [IMAGE], [("float32", (1, 1, 4, 5), [*range(5)] * 2 + [*range(5, 10)] * 2)]),
    "shrinking": (10, """g (float[1, 1, 2, 5] x) => (float[1, 1, 2, 3] y) <float[4] s = {1, 1, 1, 0.6}> { y = Resize <mode = "nearest"> (x, s) }""",
                  [IMAGE], [("float32", (1, 1, 2, 3), (0, 2, 4, 5, 7, 9))]),
    "growing_and_shrinking": (10, """
        g (float[1, 1, 2, 5] x) => (float[1, 1, 4, 3] y) <float[4] s = {1, 1, 2, 0.6}> { y = Resize <mode = "nearest"> (x, s) }""",
        [IMAGE], [("float32", (1, 1, 4, 3), (0, 2, 4, 0, 2, 4, 5, 7, 9, 5, 7, 9))]),
    "scales_of_the_run": (10, """g (float[1, 1, 2, 5] x, float[4] s) => (float[1, 1, C, D] y) { y = Resize <mode = "nearest"> (x, s) }""",
                          [IMAGE, ("float32", (4,), (1, 1, 1, 0.6))], [("float32", (1, 1, 2, 3), (0, 2, 4, 5, 7, 9))]),
}.items()})
# Branches that give other ranks.
CASES.update({f"branches_of_other_ranks_{kind}_{q}{p}": (
    17, by_branch(*RANKS[kind]), [("float32", (2, 2), X), ("bool", (), (q,)), ("bool", (), (p,))])
    for kind in RANKS for q in (0, 1) for p in (0, 1)})


def model_of(name, opset, text):
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1], producer_name: "onnxc tests">{text}')
    model.graph.name = name
    return model


def main():
    out = sys.argv[1]
    stamp = Stamp(out, __file__)
    if stamp.fresh():
        return
    stamp.begin()
    for name, (opset, text, inputs, *outputs) in CASES.items():
        model, arrays = model_of(name, opset, text), [array(*i) for i in inputs]
        feeds = {i.name: a for i, a in zip(model.graph.input, arrays)}
        right = [array(*o) for o in outputs[0]] if outputs else ReferenceEvaluator(model).run(None, feeds)
        write_case(os.path.join(out, name), model, [(arrays, right)], 1e-5, 1e-6)
    stamp.done()


if __name__ == "__main__":
    main()
