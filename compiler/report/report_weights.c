// What weights contain. In: the constants that a graph's nodes read. Out: "weights" of the page: for each its range,
// moments, special values and a histogram; the few elements of small tensors as they are.
#include "compiler/report/report_impl.h"
#include "ir/graph/op.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 40, HISTOGRAMS_MOST = 2000, SHOWN_MOST = 16, TEXT_MOST = 60 };

typedef struct weights {
    arena *arena;
    map seen; // by id of a value + 1
    VEC(const value *) all;
} weights;

static void collect_value(weights *w, const value *v) {
    if (!v || !v->constant || v->def || map_get_number(&w->seen, (uint64_t)v->id + 1)) return;
    map_put_number(&w->seen, (uint64_t)v->id + 1, w);
    VEC_PUSH(w->arena, &w->all, v);
}

static void collect_graph(weights *w, const graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = g->nodes.at[i];
        for (int k = 0; k < n->nin; k++) collect_value(w, n->in[k]);
        for (int k = 0; node_region(n, k); k++) collect_graph(w, node_region(n, k));
    }
    for (int i = 0; i < g->outputs.n; i++) collect_value(w, g->outputs.at[i]);
}

static int by_size(const void *a, const void *b) {
    const value *x = *(value *const *)a, *y = *(value *const *)b;
    int64_t m = dtype_size(x->constant->elem, x->constant->count),
            n = dtype_size(y->constant->elem, y->constant->count);
    return m != n ? (m < n) - (m > n) : x->id - y->id;
}

// ---------------------------------------------------------------- elements
static double element(const constant *c, int64_t i) {
    if (dtype_is_float(c->elem)) return constant_float(c, i);
    return c->elem == DT_U64 ? (double)(uint64_t)constant_int(c, i) : (double)constant_int(c, i);
}

// Elements of a block as doubles; f32 in memory without a call for each.
enum { BLOCK = 1024 };
static int read_block(const constant *c, int64_t from, double *to) {
    int n = c->count - from < BLOCK ? (int)(c->count - from) : BLOCK;
    if (c->kind == CONST_BYTES && c->elem == DT_F32) {
        float x[BLOCK];
        memcpy(x, c->data + from * (int64_t)sizeof *x, (size_t)n * sizeof *x);
        for (int i = 0; i < n; i++) to[i] = x[i];
    } else {
        for (int i = 0; i < n; i++) to[i] = element(c, from + i);
    }
    return n;
}

typedef struct statistics {
    int64_t finite, zeros, nans, infinities;
    double min, max, mean, squares; // squares: sum of squared differences from the mean
    int64_t bins[BINS];
} statistics;

enum { LANES = 8 }; // independent sums, which the C compiler can keep in vectors

// Moves the finite elements to the front and counts the others. Mostly all are finite: products with 0 are then 0.
static int keep_finite(statistics *s, double *x, int n) {
    double zero[LANES] = {0};
    for (int i = 0; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) zero[k] += x[i + k] * 0;
    double all = 0;
    for (int k = 0; k < LANES; k++) all += zero[k];
    for (int i = n - n % LANES; i < n; i++) all += x[i] * 0;
    if (all == 0) return n;
    int m = 0;
    for (int i = 0; i < n; i++) {
        s->nans += isnan(x[i]) != 0;
        s->infinities += isinf(x[i]) != 0;
        if (isfinite(x[i])) x[m++] = x[i];
    }
    return m;
}

static double sum_of(const double *x, int n) {
    double sums[LANES] = {0}, sum = 0;
    for (int i = 0; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) sums[k] += x[i + k];
    for (int k = 0; k < LANES; k++) sum += sums[k];
    for (int i = n - n % LANES; i < n; i++) sum += x[i];
    return sum;
}

static double squares_of(const double *x, int n, double mean) {
    double sums[LANES] = {0}, sum = 0;
    for (int i = 0; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) sums[k] += (x[i + k] - mean) * (x[i + k] - mean);
    for (int k = 0; k < LANES; k++) sum += sums[k];
    for (int i = n - n % LANES; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

// Moments block by block (Chan et al.), so that large means cost no digits.
static void add_block(statistics *s, double *x, int n) {
    int m = keep_finite(s, x, n);
    if (!m) return;
    if (!s->finite) s->min = s->max = x[0];
    for (int i = 0; i < m; i++) {
        s->min = x[i] < s->min ? x[i] : s->min;
        s->max = x[i] > s->max ? x[i] : s->max;
        s->zeros += x[i] == 0;
    }
    double mean = sum_of(x, m) / m, delta = mean - s->mean, all = (double)(s->finite + m);
    s->squares += squares_of(x, m, mean) + delta * delta * (double)s->finite * m / all;
    s->mean += delta * m / all;
    s->finite += m;
}

static void fill_bins(statistics *s, const constant *c) {
    double x[BLOCK], width = s->max / BINS - s->min / BINS, from = s->min / width;
    for (int64_t i = 0; width > 0 && i < c->count; i += BLOCK) {
        int n = read_block(c, i, x);
        for (int k = 0; k < n; k++) {
            double bin = x[k] / width - from;
            if (isfinite(bin)) s->bins[bin < 0 ? 0 : bin < BINS ? (int)bin : BINS - 1]++;
        }
    }
}

static statistics statistics_of(const constant *c, bool histogram) {
    statistics s = {0};
    double x[BLOCK];
    for (int64_t i = 0; i < c->count; i += BLOCK) add_block(&s, x, read_block(c, i, x));
    if (histogram) fill_bins(&s, c);
    return s;
}

// ---------------------------------------------------------------- JSON
// A height of 0 to 35 for each bin, as a digit; bins with few elements differ from empty ones.
static void json_bins(json *j, const statistics *s) {
    char digits[BINS + 1] = {0};
    int64_t most = 0;
    for (int i = 0; i < BINS; i++)
        if (s->bins[i] > most) most = s->bins[i];
    if (!most) return;
    for (int i = 0; i < BINS; i++) {
        int height = (int)ceil(35.0 * (double)s->bins[i] / (double)most);
        digits[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[height];
    }
    json_text(j, "bins", digits);
    json_int(j, "most", most);
}

static void json_statistics(json *j, const constant *c, bool histogram) {
    // The elements of a splat are equal, and may be more than memory could hold.
    constant one = *c;
    if (c->kind == CONST_SPLAT && c->count) one.count = 1;
    statistics s = statistics_of(&one, histogram);
    int64_t times = one.count ? c->count / one.count : 0;
    if (s.finite) {
        json_number(j, "min", s.min), json_number(j, "max", s.max), json_number(j, "mean", s.mean);
        json_number(j, "std", sqrt(s.squares / (double)s.finite));
    }
    json_int(j, "zeros", s.zeros * times);
    if (s.nans) json_int(j, "nans", s.nans * times);
    if (s.infinities) json_int(j, "infinities", s.infinities * times);
    json_bins(j, &s);
}

static void json_elements(json *j, const constant *c) {
    json_open(j, "elements", '[');
    for (int64_t i = 0; i < c->count; i++) {
        text t = {.arena = j->out.arena};
        if (c->kind == CONST_STRINGS) text_add_safe(&t, c->strings[i], TEXT_MOST);
        else if (dtype_is_float(c->elem)) text_printf(&t, "%.7g", constant_float(c, i));
        else if (c->elem == DT_U64) text_printf(&t, "%llu", (unsigned long long)constant_int(c, i));
        else text_printf(&t, "%lld", (long long)constant_int(c, i));
        json_text(j, NULL, text_str(&t));
    }
    json_close(j, ']');
}

static void json_weight(json *j, const value *v, bool histogram) {
    const constant *c = v->constant;
    json_open(j, NULL, '{');
    json_text(j, "name", v->name);
    json_text(j, "dtype", dtype_name(c->elem));
    json_int(j, "bits", dtype_bits(c->elem));
    json_open(j, "dims", '[');
    for (int i = 0; i < c->rank; i++) json_int(j, NULL, c->dims[i]);
    json_close(j, ']');
    json_int(j, "count", c->count);
    json_int(j, "bytes", dtype_size(c->elem, c->count));
    if (c->count <= SHOWN_MOST) json_elements(j, c);
    if (c->kind != CONST_STRINGS && dtype_class_of(c->elem) != DC_COMPLEX)
        json_statistics(j, c, histogram && c->count > SHOWN_MOST);
    json_close(j, '}');
}

void report_weights(json *j, const graph *g) {
    weights w = {.arena = j->out.arena, .seen.arena = j->out.arena};
    collect_graph(&w, g);
    if (w.all.n) qsort(w.all.at, (size_t)w.all.n, sizeof *w.all.at, by_size);
    json_open(j, "weights", '[');
    for (int i = 0; i < w.all.n; i++) json_weight(j, w.all.at[i], i < HISTOGRAMS_MOST);
    json_close(j, ']');
}
