// In: two models with matched constants. Out: how their elements differ.
#include "compiler/cli/diff.h"
#include "compiler/values/values.h"
#include <math.h>
#include <string.h>

// The ratio of the power of the signal to the power of the error.
double signal_to_noise(const tensor *got, const tensor *want) {
    double signal = 0, noise = 0;
    for (int64_t i = 0; i < want->count; i++) {
        double w = dtype_load_float(want->dtype, want->data, i),
               e = dtype_load_float(got->dtype, got->data, i) - w;
        signal += w * w, noise += e * e;
    }
    return noise > 0 ? 10 * log10(signal / noise) : INFINITY;
}

static bool same_shape(const constant *a, const constant *b) {
    bool same = a->rank == b->rank;
    for (int j = 0; same && j < a->rank; j++) same = a->dims[j] == b->dims[j];
    return same;
}

static const char *type_of(diff *d, const constant *c) {
    tensor t = {.dtype = c->elem, .rank = c->rank};
    memcpy(t.dims, c->dims, (size_t)c->rank * sizeof *t.dims);
    return tensor_text(d->arena, &t);
}

static bool identical(const constant *a, const constant *b) {
    bool bytes = a->kind == CONST_BYTES && b->kind == CONST_BYTES && a->elem == b->elem && same_shape(a, b);
    return bytes && (!a->count || memcmp(a->data, b->data, (size_t)dtype_size(a->elem, a->count)) == 0);
}

// c with elements of type t.
static tensor converted(arena *a, const constant *c, dtype t) {
    tensor x = tensor_of(a, c);
    if (x.dtype == t) return x;
    tensor y = tensor_new(a, t, x.rank, x.dims);
    for (int64_t i = 0; i < x.count; i++) dtype_copy(t, y.data, i, x.dtype, x.data, i);
    return y;
}

static const constant *constant_at(const diff_side *s, const diff_node *n, int i) {
    bool known = i < n->is->as.nin && n->in[i].from == FROM_CONSTANT;
    return known ? s->constants.at[n->in[i].at].data : NULL;
}

static int64_t int_attr(const diff_node *n, const char *name, int64_t fallback) {
    for (int i = 0; i < n->is->as.nattrs; i++)
        if (strcmp(n->is->as.attrs[i].name, name) == 0) return n->is->as.attrs[i].i;
    return fallback;
}

// (x - zero point) * scale, where a scale is for the tensor, for an index of the axis, or for a block along it.
static tensor dequantised(arena *a, const diff_side *s, const diff_constant *x) {
    const diff_node *n = &s->nodes.at[x->dequantised];
    const constant *scale = constant_at(s, n, 1), *zero = constant_at(s, n, 2), *q = x->data;
    tensor y = tensor_new(a, DT_F64, q->rank, q->dims);
    int64_t axis = int_attr(n, "axis", 1), block = int_attr(n, "block_size", 0), size = 1, inner = 1;
    if (axis < 0) axis += q->rank;
    if (axis >= 0 && axis < q->rank) size = q->dims[axis];
    else axis = q->rank; // one scale; the attribute may also be wrong, as types are not known yet
    if (block < 1) block = 1;
    for (int64_t j = axis + 1; j < q->rank; j++) inner *= q->dims[j];
    for (int64_t i = 0; i < q->count; i++) {
        int64_t at = i / inner % size / block, k = 0;
        if (scale && scale->count > 1)
            k = scale->rank == 1 ? at
                                 : (i / inner / size * ((size - 1) / block + 1) + at) * inner + i % inner;
        double z = zero && k < zero->count ? constant_float(zero, k) : 0;
        double f = scale && k < scale->count ? constant_float(scale, k) : 1;
        dtype_store_float(DT_F64, y.data, i, (constant_float(q, i) - z) * f, true);
    }
    return y;
}

static tensor elements_of(arena *a, const diff_side *s, const diff_constant *x, dtype t) {
    return x->dequantised >= 0 ? dequantised(a, s, x) : converted(a, x->data, t);
}

static void compare_numbers(diff *d, diff_section *s, const diff_constant *x, const diff_constant *y) {
    arena *scratch = arena_within(d->arena);
    comparison *c = ARENA_NEW(d->arena, comparison);
    diff_item item = {.sign = '~', .kind = "constant", .name = x->name, .snr = NAN};
    bool same_type = x->data->elem == y->data->elem && x->dequantised < 0 && y->dequantised < 0;
    dtype wide = same_type ? x->data->elem : DT_F64;
    tensor want = elements_of(scratch, &d->side[0], x, wide),
           got = elements_of(scratch, &d->side[1], y, wide);
    *c = compare_tensors(d->arena, &got, &want, (tolerance){0, 0});
    text t = {.arena = d->arena};
    if (!same_type) text_printf(&t, "%s -> %s; ", type_of(d, x->data), type_of(d, y->data));
    if (same_type) text_add(&t, comparison_text(d->arena, c));
    else text_printf(&t, "max abs %.3g, max rel %.3g", c->max_abs, c->max_rel);
    if (dtype_is_float(wide) && c->differing) {
        item.snr = signal_to_noise(&got, &want);
        text_printf(&t, ", SNR %.1f dB", item.snr);
    }
    item.text = text_str(&t), item.numbers = c;
    if (!c->same || !same_type) diff_add(d, s, item);
    arena_destroy(scratch);
}

static void compare(diff *d, diff_section *s, const diff_constant *x, const diff_constant *y) {
    if (identical(x->data, y->data)) return;
    bool strings = x->data->elem == DT_STRING || y->data->elem == DT_STRING;
    if (same_shape(x->data, y->data) && (!strings || x->data->elem == y->data->elem)) {
        compare_numbers(d, s, x, y);
        return;
    }
    diff_add(
        d, s,
        (diff_item){.sign = '~',
                    .kind = "constant",
                    .name = x->name,
                    .snr = NAN,
                    .text = arena_printf(d->arena, "%s -> %s", type_of(d, x->data), type_of(d, y->data))});
}

void diff_weights(diff *d) {
    diff_section *s = diff_begin(d, "weights");
    int alike = 0, changed = 0, only[2] = {0};
    for (int k = 0; k < 2; k++) {
        for (int j = 0; j < d->side[k].constants.n; j++) {
            const diff_constant *x = &d->side[k].constants.at[j];
            int before = s->items.n;
            if (x->match >= 0) {
                if (k) continue;
                compare(d, s, x, &d->side[1].constants.at[x->match]);
                alike += s->items.n == before, changed += s->items.n != before;
                continue;
            }
            only[k]++;
            diff_add(d, s,
                     (diff_item){.sign = k ? '+' : '-',
                                 .kind = "constant",
                                 .name = x->name,
                                 .snr = NAN,
                                 .text = type_of(d, x->data)});
        }
    }
    s->summary =
        arena_printf(d->arena, "%d -> %d constants: %d alike, %d changed, %d removed, %d added",
                     d->side[0].constants.n, d->side[1].constants.n, alike, changed, only[0], only[1]);
}
