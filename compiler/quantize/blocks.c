// Weights alone as integers of 8, 4 or 2 bits. In: constants that products read. Out: DequantizeLinear nodes with a scale,
// and a zero point, for every block of `--block` elements along the axis that is summed over.
//
//   minmax   from the smallest to the largest element
//   mse      the range with the least squared error
//   kquant   scale and zero point by weighted least squares; weights are the mean squares of the elements' factors in the
//            samples, or grow with the elements (as k-quants of llama.cpp do)
//   gptq     scales by least squares; errors are made up for in the elements that follow (gptq.c)
#include "compiler/quantize/blocks.h"
#include "compiler/base/clock.h"
#include "compiler/base/jobs.h"
#include <math.h>
#include <string.h>

// ---------------------------------------------------------------- one block
static double clamp(double v, double lo, double hi) { return v < lo ? lo : v > hi ? hi : v; }

static double round_scale(const block_format *f, double s) {
    if (f->scale == DT_F32) return (float)s;
    uint8_t stored[8];
    dtype_store_float(f->scale, stored, 0, s, true);
    return dtype_load_float(f->scale, stored, 0);
}

int block_code(const block_format *f, const block_scale *s, double w) {
    return (int)clamp(nearbyint(w / s->scale) + s->zero, f->least, f->most);
}

static double weight_at(const double *h, int i) { return h ? h[i] : 1; }

static double loss_of(const block_format *f, const block_scale *s, const float *w, const double *h, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double e = s->scale * (block_code(f, s, w[i]) - s->zero) - w[i];
        sum += weight_at(h, i) * e * e;
    }
    return sum;
}

static block_scale scale_for(const block_format *f, double lo, double hi) {
    block_scale s = {1, 0};
    double width = f->symmetric ? (hi > -lo ? hi : -lo) : hi - lo;
    if (width <= 0) return s;
    s.scale = round_scale(f, width / (f->symmetric ? f->most : f->most - f->least));
    if (!(s.scale > 0)) s.scale = 1;
    if (!f->symmetric) s.zero = (int)clamp(nearbyint(f->least - lo / s.scale), f->least, f->most);
    return s;
}

// The scale that suits these codes best: sum h w q / sum h q^2.
static block_scale refit(const block_format *f, block_scale s, const float *w, const double *h, int n) {
    double wq = 0, qq = 0;
    for (int i = 0; i < n; i++) {
        double q = block_code(f, &s, w[i]) - s.zero;
        wq += weight_at(h, i) * w[i] * q;
        qq += weight_at(h, i) * q * q;
    }
    double scale = qq > 0 ? round_scale(f, wq / qq) : 0;
    if (scale > 0) s.scale = scale;
    return s;
}

block_scale block_fit(const block_format *f, block_method method, const float *w, const double *h, int n) {
    enum { STEPS = 20 };
    double lo = 0, hi = 0, best;
    for (int i = 0; i < n; i++) {
        if (w[i] < lo) lo = w[i];
        if (w[i] > hi) hi = w[i];
    }
    block_scale found = scale_for(f, lo, hi);
    if (method == BLOCK_MINMAX || lo == hi) return found;
    best = loss_of(f, &found, w, h, n);
    for (int j = 0; j < STEPS; j++) {
        double part = 1.05 - 0.025 * j;
        block_scale s = scale_for(f, part * lo, part * hi);
        for (int k = 0; k < (method == BLOCK_MSE ? 1 : 3); k++) {
            double loss = loss_of(f, &s, w, h, n);
            if (loss < best) best = loss, found = s;
            if (method != BLOCK_MSE) s = refit(f, s, w, h, n);
        }
    }
    return found;
}

// ---------------------------------------------------------------- one constant
typedef struct work {
    plan *plan;
    block_weights *b;
    int64_t rows; // vectors along the axis
} work;

enum { ROWS_AT_A_TIME = 32 };

static int64_t place(const block_weights *b, int64_t row, int64_t k, int64_t size) {
    return (row / b->inner * size + k) * b->inner + row % b->inner;
}

// Without samples, larger elements count more.
static void own_weights(const float *w, int n, double *h) {
    double mean = 0;
    for (int i = 0; i < n; i++) mean += fabs(w[i]) / n;
    for (int i = 0; i < n; i++) h[i] = mean + fabs(w[i]);
}

static void fit_row(const block_weights *b, float *w, int *codes, block_scale *scales, double *h) {
    for (int64_t from = 0, k = 0; from < b->length; from += b->block, k++) {
        int n = (int)(b->length - from < b->block ? b->length - from : b->block);
        const double *used = NULL;
        if (b->method == BLOCK_KQUANT && b->moments) used = b->moments + from;
        if (b->method == BLOCK_KQUANT && !b->moments) own_weights(w + from, n, h), used = h;
        scales[k] = block_fit(&b->format, b->method, w + from, used, n);
        for (int i = 0; i < n; i++) codes[from + i] = block_code(&b->format, &scales[k], w[from + i]);
    }
}

static void quantise_rows(void *user, int index) {
    work *x = user;
    block_weights *b = x->b;
    arena *a = arena_new();
    int64_t from = (int64_t)index * ROWS_AT_A_TIME,
            to = from + ROWS_AT_A_TIME < x->rows ? from + ROWS_AT_A_TIME : x->rows;
    int n = (int)(to - from);
    float *w = ARENA_ARRAY(a, float, n * b->length + 1);
    int *codes = ARENA_ARRAY(a, int, n * b->length + 1);
    block_scale *scales = ARENA_ARRAY(a, block_scale, n * b->nblocks + 1);
    double *h = ARENA_ARRAY(a, double, b->block + 1);
    for (int r = 0; r < n; r++)
        for (int64_t k = 0; k < b->length; k++) w[r * b->length + k] = b->w[place(b, from + r, k, b->length)];
    if (b->method == BLOCK_GPTQ) gptq_rows(b, n, w, codes, scales);
    else
        for (int r = 0; r < n; r++)
            fit_row(b, w + r * b->length, codes + r * b->length, scales + r * b->nblocks, h);
    for (int r = 0; r < n; r++) {
        for (int64_t k = 0; k < b->length; k++)
            b->codes[place(b, from + r, k, b->length)] = (int8_t)codes[r * b->length + k];
        for (int64_t k = 0; k < b->nblocks; k++)
            b->scales[place(b, from + r, k, b->nblocks)] = scales[r * b->nblocks + k];
    }
    arena_destroy(a);
}

static void note_error(plan *p, const node *n, const block_weights *b, int64_t rows) {
    qnode *q = &p->nodes[n->id];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < b->length; k++) {
            int64_t at = place(b, r, k, b->length);
            const block_scale *s = &b->scales[place(b, r, k / b->block, b->nblocks)];
            double e = s->scale * (b->codes[at] - s->zero) - b->w[at];
            q->weight_signal += (double)b->w[at] * b->w[at];
            q->weight_noise += e * e;
        }
}

// ---------------------------------------------------------------- nodes
static value *stored(plan *p, node *n, const block_weights *b, const constant *c) {
    arena *a = p->arena;
    graph *g = n->graph;
    const char *name = n->in[b->input]->name;
    int64_t dims[MAX_RANK];
    memcpy(dims, c->dims, (size_t)c->rank * sizeof *dims);
    dims[b->axis] = b->nblocks;
    constant *q = constant_new(a, b->format.type, c->rank, c->dims),
             *s = constant_new(a, b->format.scale, c->rank, dims);
    constant *z = constant_new(a, b->format.type, c->rank, dims);
    for (int64_t i = 0; i < c->count; i++) dtype_store_int(q->elem, (void *)q->data, i, b->codes[i]);
    for (int64_t i = 0; i < s->count; i++) {
        dtype_store_float(s->elem, (void *)s->data, i, b->scales[i].scale, true);
        dtype_store_int(z->elem, (void *)z->data, i, b->scales[i].zero);
    }
    value *in[] = {value_constant(g, arena_printf(a, "%s_quantized", name), q),
                   value_constant(g, arena_printf(a, "%s_scale", name), s), NULL};
    if (!b->format.symmetric) in[2] = value_constant(g, arena_printf(a, "%s_zero_point", name), z);
    node *d =
        new_node(g, n, "DequantizeLinear", arena_printf(a, "%s_DequantizeLinear", name), in[2] ? 3 : 2, in);
    node_set_attr(d, (attr){.name = "axis", .kind = ATTR_INT, .i = b->axis});
    node_set_attr(d, (attr){.name = "block_size", .kind = ATTR_INT, .i = b->block});
    return new_output(d, arena_printf(a, "%s_dequantized", name));
}

static float *floats_of(arena *a, const constant *c) {
    float *w = arena_alloc(a, (size_t)c->count * sizeof *w + 1);
    for (int64_t i = 0; i < c->count; i++) w[i] = (float)constant_float(c, i);
    return w;
}

value *block_quantise(plan *p, node *n, block_weights b) {
    const constant *c = n->in[b.input]->constant;
    arena *a = arena_within(p->arena);
    b.w = floats_of(a, c);
    b.length = c->dims[b.axis], b.inner = 1;
    for (int i = b.axis + 1; i < c->rank; i++) b.inner *= c->dims[i];
    if (b.block > b.length || b.block == 0) b.block = b.length;
    b.nblocks = (b.length + b.block - 1) / b.block;
    int64_t rows = c->count / b.length;
    b.codes = arena_alloc(a, (size_t)c->count + 1);
    b.scales = ARENA_ARRAY(a, block_scale, rows * b.nblocks + 1);
    work x = {p, &b, rows};
    jobs_run((int)((rows + ROWS_AT_A_TIME - 1) / ROWS_AT_A_TIME), p->threads, quantise_rows, &x);
    note_error(p, n, &b, rows);
    value *d = stored(p, n, &b, c);
    arena_destroy(a);
    return d;
}
