// Operators of com.microsoft that move, pad and sample tensors, or measure them: most have a form in the standard.
#include "ir/ops/decompose.h"
#include <string.h>

static const int64_t all = INT64_MAX;

static value *as_vector(node *n, value *v) { return NODE(n, "Reshape", v, one_int(n, -1)); }

// ---- Shapes
static void expand_dims(node *n) {
    value *axis = cast_to(n, as_vector(n, n->in[1]), DT_I64);
    const constant *known = infer_constant(n, 1);
    if (known && known->count == 1) axis = one_int(n, constant_int(known, 0));
    give_output(n, 0, NODE(n, "Unsqueeze", n->in[0], axis));
}

static void sample_op(node *n) { give_output(n, 0, NODE(n, "Identity", n->in[0])); }

static void pad(node *n) {
    value *number = node_in(n, 2) ? as_scalar(n, n->in[2]) : NULL;
    give_output(n, 0, with_attr_of(NODE(n, "Pad", n->in[0], as_vector(n, n->in[1]), number), n, "mode"));
}

static void range(node *n) {
    value *delta = node_in(n, 2) ? as_scalar(n, n->in[2]) : number_like(n, 1, 0);
    give_output(n, 0, NODE(n, "Range", as_scalar(n, n->in[0]), as_scalar(n, n->in[1]), delta));
}

// The windows at 0, step, 2 * step ... of axis `dim`; their elements are a new last axis.
static void unfold_tensor(node *n) {
    int rank = infer_rank(n, 0), axis = infer_axis(n, node_int(n, "dim", -1), rank);
    int64_t size = node_int(n, "size", 0), step = node_int(n, "step", 1), order[MAX_RANK + 1];
    if (size < 1 || step < 1)
        infer_error(n, "attributes size and step are %lld and %lld, but must be positive", (long long)size,
                    (long long)step);
    value *last = NODE(n, "Sub", shape_part(n, n->in[0], axis, axis + 1), one_int(n, size - 1));
    value *zero = insert_scalar(n, DT_I64, 0), *by = insert_scalar(n, DT_I64, (double)step);
    value *starts = NODE(n, "Range", zero, as_scalar(n, last), by), *places;
    places = NODE(n, "Range", zero, insert_scalar(n, DT_I64, (double)size), insert_scalar(n, DT_I64, 1));
    value *index = NODE(n, "Add", NODE(n, "Unsqueeze", starts, one_int(n, 1)), places);
    value *y = with_int(NODE(n, "Gather", n->in[0], index), "axis", axis);
    for (int i = 0; i <= rank; i++) order[i] = i <= axis ? i : i == rank ? axis + 1 : i + 1;
    give_output(n, 0, transposed(n, y, rank + 1, order));
}
MICROSOFT_OP(ExpandDims, expand_dims);
MICROSOFT_OP(SampleOp, sample_op);
MICROSOFT_OP(Pad, pad);
MICROSOFT_OP(Range, range);
MICROSOFT_OP(UnfoldTensor, unfold_tensor);

// ---- Elements
static void trilu(node *n) {
    give_output(n, 0, with_attr_of(NODE(n, "Trilu", n->in[0], node_in(n, 1)), n, "upper"));
}

static void gather_nd(node *n) {
    give_output(n, 0, NODE(n, "GatherND", n->in[0], cast_to(n, n->in[1], DT_I64)));
}

static void torch_embedding(node *n) { give_output(n, 0, NODE(n, "Gather", n->in[0], n->in[1])); }

// Values in the order of their first places; the place of each element among them; counts.
static void unique(node *n) {
    value *y = with_int(NODE(n, "Unique", n->in[0]), "sorted", 0);
    if (node_out(n, 1)) give_output(n, 1, output_of(y, 2));
    if (node_out(n, 2)) give_output(n, 2, output_of(y, 3));
    give_output(n, 0, y);
}

// One boolean: no input has an element that is infinite, or no number.
static void is_all_finite(node *n) {
    bool no_nan = node_int(n, "isinf_only", 0), no_inf = node_int(n, "isnan_only", 0);
    value *bad = NULL;
    if (no_nan && no_inf) infer_error(n, "only one of the attributes isinf_only and isnan_only can be set");
    for (int i = 0; i < n->nin; i++) {
        value *x = cast_to(n, n->in[i], wide_type(infer_in(n, i)->elem)), *odd = NULL;
        if (!no_inf) odd = NODE(n, "IsInf", x);
        if (!no_nan) odd = odd ? NODE(n, "Or", odd, NODE(n, "IsNaN", x)) : NODE(n, "IsNaN", x);
        value *any = with_int(NODE(n, "ReduceMax", as_vector(n, odd), one_int(n, 0)), "keepdims", 0);
        bad = bad ? NODE(n, "Or", bad, any) : any;
    }
    if (!bad) infer_error(n, "at least one input is required");
    give_output(n, 0, NODE(n, "Not", bad));
}
MICROSOFT_OP(Trilu, trilu);
MICROSOFT_OP(GatherND, gather_nd);
MICROSOFT_OP(TorchEmbedding, torch_embedding);
MICROSOFT_OP(Unique, unique);
MICROSOFT_OP(IsAllFinite, is_all_finite);

// ---- Distances of rows
static void cdist(node *n) {
    const char *metric = node_string(n, "metric", "sqeuclidean");
    bool root = strcmp(metric, "euclidean") == 0;
    if (!root && strcmp(metric, "sqeuclidean") != 0)
        infer_error(n, "attribute metric is '%s', but must be euclidean or sqeuclidean", metric);
    value *a = NODE(n, "Unsqueeze", n->in[0], one_int(n, 1)),
          *b = NODE(n, "Unsqueeze", n->in[1], one_int(n, 0));
    value *y = NODE(n, "ReduceSumSquare", NODE(n, "Sub", a, b), one_int(n, 2));
    with_int(y, "keepdims", 0);
    give_output(n, 0, root ? NODE(n, "Sqrt", y) : y);
}
MICROSOFT_OP(CDist, cdist);

// ---- Complex numbers, whose parts are the last axis
static value *part(node *n, int i, int64_t which) {
    return NODE(n, "Slice", n->in[i], one_int(n, which), one_int(n, which + 1), one_int(n, -1));
}

// (a + b i) * (c + d i), or with c - d i
static void complex_product(node *n, bool conjugate) {
    value *a = part(n, 0, 0), *b = part(n, 0, 1), *c = part(n, 1, 0), *d = part(n, 1, 1);
    value *ac = NODE(n, "Mul", a, c), *bd = NODE(n, "Mul", b, d), *ad = NODE(n, "Mul", a, d);
    value *bc = NODE(n, "Mul", b, c);
    value *real = NODE(n, conjugate ? "Add" : "Sub", ac, bd);
    value *imaginary = conjugate ? NODE(n, "Sub", bc, ad) : NODE(n, "Add", ad, bc);
    give_output(n, 0, with_int(NODE(n, "Concat", real, imaginary), "axis", -1));
}

static void complex_mul(node *n) { complex_product(n, false); }
static void complex_mul_conj(node *n) { complex_product(n, true); }

static void need_one_signal(const node *n) {
    if (node_int(n, "normalized", 0) || !node_int(n, "onesided", 1) || node_int(n, "signal_ndim", 1) != 1)
        infer_error(n, "attributes normalized, onesided and signal_ndim must be 0, 1 and 1");
}

// Real numbers along the last axis to the first half of their spectrum.
static void rfft(node *n) {
    need_one_signal(n);
    value *x = NODE(n, "Unsqueeze", widened(n, 0), one_int(n, -1));
    value *y = NODE(n, "DFT", x, NULL, insert_scalar(n, DT_I64, -2));
    give_output(n, 0, narrowed(n, with_int(y, "onesided", 1), infer_in(n, 0)->elem));
}

// The other half of a real signal's spectrum: its conjugate from the last but one number down to the second.
static void irfft(node *n) {
    need_one_signal(n);
    int rank = infer_rank(n, 0);
    if (rank < 2)
        infer_error(n, "the input has rank %d, but needs a signal and the parts of complex numbers", rank);
    value *x = widened(n, 0), *axis = one_int(n, rank - 2),
          *signs = insert_floats(n, (const float[]){1, -1}, 2);
    value *back = NODE(n, "Slice", x, one_int(n, -2), one_int(n, 0), axis, one_int(n, -1));
    back = NODE(n, "Mul", back, cast_to(n, signs, wide_type(infer_in(n, 0)->elem)));
    value *whole = with_int(NODE(n, "Concat", x, back), "axis", rank - 2);
    value *y = with_int(NODE(n, "DFT", whole, NULL, insert_scalar(n, DT_I64, -2)), "inverse", 1);
    y = NODE(n, "Squeeze", NODE(n, "Slice", y, one_int(n, 0), one_int(n, 1), one_int(n, -1)), one_int(n, -1));
    give_output(n, 0, narrowed(n, y, infer_in(n, 0)->elem));
}
MICROSOFT_OP(ComplexMul, complex_mul);
MICROSOFT_OP(ComplexMulConj, complex_mul_conj);
MICROSOFT_OP(Rfft, rfft);
MICROSOFT_OP(Irfft, irfft);

// ---- Padding of sequences: input (batch, length, hidden), tokens of each sequence

// Places of tokens, row by row, and those of the padding.
static value *places_of(node *n, value *mask) { return as_vector(n, NODE(n, "NonZero", as_vector(n, mask))); }

static void remove_padding(node *n) {
    value *counts = n->in[1], *zero = insert_scalar(n, DT_I32, 0), *one = insert_scalar(n, DT_I32, 1);
    value *sizes = shape_part(n, n->in[0], 0, 2), *length = shape_part(n, n->in[0], 1, 2);
    value *steps = NODE(n, "Range", zero, as_scalar(n, cast_to(n, length, DT_I32)), one);
    value *mask = NODE(n, "Less", steps, NODE(n, "Unsqueeze", counts, one_int(n, 1)));
    value *used = places_of(n, mask), *unused = places_of(n, NODE(n, "Not", mask));
    value *rows = NODE(n, "Reshape", n->in[0], JOINED(n, one_int(n, -1), shape_part(n, n->in[0], 2, 3)));
    value *offsets = with_int(NODE(n, "Concat", used, unused), "axis", 0);
    value *sums = NODE(n, "CumSum", counts, insert_scalar(n, DT_I32, 0));
    value *first = NODE(n, "Reshape", zero, one_int(n, 1));
    give_output(n, 0, NODE(n, "Gather", rows, used));
    give_output(n, 1, NODE(n, "Reshape", cast_to(n, offsets, DT_I32), sizes));
    give_output(n, 2, with_int(NODE(n, "Concat", first, sums), "axis", 0));
    give_output(n, 3, with_int(NODE(n, "ReduceMax", counts, one_int(n, 0)), "keepdims", 1));
}

static void restore_padding(node *n) {
    value *sizes = shape_part(n, n->in[1], 0, all), *hidden = shape_part(n, n->in[0], 1, 2);
    value *zero = number_like(n, 0, 0), *shape = JOINED(n, sizes, hidden);
    value *zeros = NODE(n, "Expand", zero, JOINED(n, shape_part(n, as_vector(n, n->in[1]), 0, 1), hidden));
    value *places = cast_to(n, as_vector(n, n->in[1]), DT_I64);
    places = NODE(n, "Slice", places, one_int(n, 0), shape_part(n, n->in[0], 0, 1), one_int(n, 0));
    value *y = NODE(n, "ScatterND", zeros, NODE(n, "Unsqueeze", places, one_int(n, 1)), n->in[0]);
    give_output(n, 0, NODE(n, "Reshape", y, shape));
}
MICROSOFT_OP(RemovePadding, remove_padding);
MICROSOFT_OP(RestorePadding, restore_padding);
