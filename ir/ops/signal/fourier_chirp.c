// The discrete Fourier transform of a length N with a large prime factor, as a convolution (Bluestein 1970).
// As 2 n k = n^2 + k^2 - (k - n)^2, with the chirp c[n] = exp(-pi i n^2 / N):
//
//   a[k] = c[k] * sum over n < N of (c[n] * x[n]) * conj(c[k - n])
//
// This convolution is cyclic of a length M >= 2 N - 1 with factors up to 5: the product of the spectra of
// c[n] x[n], followed by zeros, and of conj(c), which is a constant. The chirp of the inverse is conj(c).
#include "ir/ops/signal/fourier.h"

typedef struct complex_values {
    double *re, *im;
} complex_values;

static complex_values complex_zeros(arena *a, int64_t n) {
    return (complex_values){arena_calloc(a, (size_t)n, sizeof(double)),
                            arena_calloc(a, (size_t)n, sizeof(double))};
}

// One pass of fourier.c at compile time, of factor p after factors with the product `before`.
static void pass_values(complex_values from, complex_values to, complex_values turns, int64_t length,
                        int64_t before, int64_t p) {
    int64_t after = length / (before * p);
    for (int64_t frequency = 0; frequency < before * p; frequency++) {
        for (int64_t j = 0; j < after; j++) {
            double re = 0, im = 0;
            for (int64_t q = 0; q < p; q++) {
                int64_t at = (frequency % before * p + q) * after + j;
                int64_t w = frequency * q % (before * p) * after;
                re += from.re[at] * turns.re[w] - from.im[at] * turns.im[w];
                im += from.re[at] * turns.im[w] + from.im[at] * turns.re[w];
            }
            to.re[frequency * after + j] = re, to.im[frequency * after + j] = im;
        }
    }
}

static complex_values spectrum_values(arena *a, complex_values v, int64_t length) {
    int64_t factors[MOST_FACTORS], before = 1;
    int count = length_factors(length, factors);
    complex_values turns = complex_zeros(a, length), to = complex_zeros(a, length), from = v;
    for (int64_t i = 0; i < length; i++)
        exact_turn((length - i) % length, length, &turns.re[i], &turns.im[i]);
    for (int j = 0; j < count; before *= factors[j++]) {
        pass_values(from, to, turns, length, before, factors[j]);
        complex_values swap = from;
        from = to, to = swap;
    }
    return from;
}

static void store_values(const transform *f, const char *name, complex_values v, int64_t count, double scale,
                         buffer **pair) {
    for (int c = 0; c < 2; c++) {
        constant *values = constant_new(f->l->program->arena, f->t, 1, &count);
        for (int64_t i = 0; i < count; i++)
            dtype_store_float(f->t, (uint8_t *)values->data, i, (c ? v.im : v.re)[i] * scale, false);
        pair[c] =
            program_constant(f->l->program, arena_printf(f->l->program->arena, "%s%d", name, c), values);
    }
}

// The chirp of f, and the spectrum of its conjugate of the given length with the scale of both inverses.
static void chirp_constants(transform *f, int64_t length) {
    arena *a = arena_within(f->l->program->arena);
    int64_t n = dim_value(f->length);
    complex_values chirp = complex_zeros(a, n), around = complex_zeros(a, length);
    for (int64_t i = 0; i < n; i++) {
        int64_t square = i * i % (2 * n);
        exact_turn(f->inverse || !square ? square : 2 * n - square, 2 * n, &chirp.re[i], &chirp.im[i]);
        int64_t mirrored = i ? length - i : 0;
        around.re[i] = around.re[mirrored] = chirp.re[i];
        around.im[i] = around.im[mirrored] = -chirp.im[i];
    }
    double scale = 1 / ((double)length * (f->inverse ? (double)n : 1));
    store_values(f, "chirp", chirp, n, 1, f->chirp);
    store_values(f, "chirp_spectrum", spectrum_values(a, around, length), length, scale, f->spectrum);
    arena_destroy(a);
}

static complex_expr times_chirp(const transform *f, kernel *k, expr *at, expr *guard, complex_expr v) {
    return complex_multiply(k, v, complex_read(k, f->whole->chirp, &at, guard));
}

static complex_expr read_chirped(const transform *f, kernel *k, expr *const *index, expr *guard) {
    expr *at = index[f->axis];
    guard = x_both(k, guard, x_lt(k, at, x_dim(k, f->whole->length)));
    return times_chirp(f, k, at, guard, f->whole->read(f->whole, k, index, guard));
}

static void write_product(const transform *f, kernel *k, stage *s, expr *const *index, complex_expr v) {
    v = complex_multiply(k, v, complex_read(k, f->whole->spectrum, &index[f->axis], NULL));
    stage_write(k, s, f->whole->product[0], index, v.re);
    stage_write(k, s, f->whole->product[1], index, v.im);
}

static complex_expr read_product(const transform *f, kernel *k, expr *const *index, expr *guard) {
    return complex_read(k, f->whole->product, index, guard);
}

static void write_chirped(const transform *f, kernel *k, stage *s, expr *const *index, complex_expr v) {
    expr *at = index[f->axis], *guard = x_lt(k, at, x_dim(k, f->kept));
    write_spectrum(f, k, s, index, times_chirp(f, k, at, guard, v));
}

// The cheapest length of at least `least` with few odd factors, so that most passes have whole vectors.
static int64_t smooth_length(int64_t least) {
    static const int64_t odd[] = {1, 3, 5, 9};
    int64_t best = 0;
    for (int j = 0; j < 4; j++) {
        int64_t length = odd[j];
        while (length < least) length *= 2;
        if (!best || factors_cost(length) < factors_cost(best)) best = length;
    }
    return best;
}

// The length of the convolution; 0: passes over the factors of n are better. The convolution needs more memory,
// so it has to save a fifth of the operations.
static int64_t chirp_length(int64_t n) {
    if (n > LARGEST_TABLE / 2) return 0;
    int64_t length = smooth_length(2 * n - 1), cost = 2 * factors_cost(length) + 2 * length;
    return cost + cost / 4 < factors_cost(n) ? length : 0;
}

bool transform_by_chirp(transform *f) {
    int64_t length = dim_is_const(f->length) ? chirp_length(dim_value(f->length)) : 0;
    if (!length) return false;
    dims *table = f->length->table;
    transform to = *f;
    to.whole = f, to.prefix = "chirp_", to.given = f->length, to.inverse = false;
    to.length = to.kept = to.dims[f->axis] = dim_const(table, length);
    transform back = to;
    to.read = read_chirped, to.write = write_product;
    back.prefix = "", back.inverse = true, back.given = NULL, back.kept = f->kept;
    back.read = read_product, back.write = write_chirped;
    chirp_constants(f, length);
    for (int c = 0; c < 2; c++)
        f->product[c] =
            lower_temp(f->l, f->n, c ? "product_imaginary" : "product_real", f->t, f->rank, to.dims);
    transform_by_factors(&to);
    transform_by_factors(&back);
    return true;
}
