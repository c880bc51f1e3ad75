// Discrete Fourier transforms of a length n that only the run knows, in doubles. Written: real and imaginary parts of
// frequencies [outer, kept, inner], scratch of n * (14 + 12 * lanes) doubles. Read: real and imaginary parts (NULL: all 0)
// of signals [outer, n, inner]. Numbers: dtype (float or double), outer, n, inner, kept, whether inverse (not divided by n),
// lanes: the number of signals that are transformed side by side.
//
// Each prime factor of n (4 counts as one) is a pass, which leaves the frequencies in order (Stockham 1966). With a factor
// above 13, the transform becomes a convolution with a chirp (Bluestein 1970), by transforms of a smooth length.
#include "runtime-lite/lib/lib.h"

enum { FOURIER_LARGEST = 13 };

typedef struct fourier_values {
    double *re, *im;
} fourier_values;

// The next count complex numbers of the scratch memory.
static fourier_values fourier_take(double **scratch, int64_t count) {
    fourier_values v;
    v.re = *scratch, v.im = v.re + count, *scratch += 2 * count;
    return v;
}

// exp(-2 pi i turn / n) for 0 <= turn < n, from the nearest multiple of a quarter turn, by the series of Taylor.
static void fourier_turn(int64_t turn, int64_t n, double *re, double *im) {
    int64_t octant = 8 * turn / n, rest = 8 * turn - octant * n;
    double angle = 0.78539816339744830962 * (double)(octant % 2 ? n - rest : rest) / (double)n;
    double z = angle * angle, sine, cosine;
    int swapped = (octant + 1) & 2;
    sine = 1.0 / 6227020800.0 - z * (1.0 / 1307674368000.0 - z / 355687428096000.0);
    sine = 1.0 / 5040.0 - z * (1.0 / 362880.0 - z * (1.0 / 39916800.0 - z * sine));
    sine = angle - angle * z * (1.0 / 6.0 - z * (1.0 / 120.0 - z * sine));
    cosine = 1.0 / 479001600.0 - z * (1.0 / 87178291200.0 - z / 20922789888000.0);
    cosine = 1.0 / 720.0 - z * (1.0 / 40320.0 - z * (1.0 / 3628800.0 - z * cosine));
    cosine = 1.0 - z * (0.5 - z * (1.0 / 24.0 - z * cosine));
    *re = swapped ? sine : cosine, *im = swapped ? cosine : sine;
    if ((octant + 2) & 4) *re = -*re;
    if (!(octant & 4)) *im = -*im;
}

static void fourier_turns(fourier_values turns, int64_t n) {
    int64_t i;
    for (i = 0; i < n; i++) fourier_turn(i, n, &turns.re[i], &turns.im[i]);
}

// The factor of the next pass over what remains of a length.
static int64_t fourier_factor(int64_t rest) {
    int64_t p;
    if (rest % 4 == 0) return 4;
    for (p = 2; p <= FOURIER_LARGEST; p++)
        if (rest % p == 0) return p;
    return rest;
}

static int fourier_is_smooth(int64_t n) {
    while (n > FOURIER_LARGEST) {
        int64_t p = fourier_factor(n);
        if (p > FOURIER_LARGEST) return 0;
        n /= p;
    }
    return 1;
}

// The least 2^i * odd >= n with odd of 1, 3, 5 and 9, which is less than 4 n / 3 + 1.
static int64_t fourier_smooth(int64_t n) {
    static const unsigned char odd[] = {1, 3, 5, 9};
    int64_t best = 0, length;
    int j;
    for (j = 0; j < 4; j++) {
        for (length = odd[j]; length < n;) length *= 2;
        if (!best || length < best) best = length;
    }
    return best;
}

// One step of a pass: p numbers, each `gap` after the last, for each of `count` neighbours. root: exp(-2 pi i r / p);
// w: the factor of each of the p results, of which the first is 1.
typedef struct fourier_step {
    int64_t count, gap, p;
    fourier_values root, w;
} fourier_step;

static void fourier_two(const fourier_step *f, const double *restrict re, const double *restrict im,
                        double *restrict to_re, double *restrict to_im) {
    double wr = f->w.re[1], wi = f->w.im[1];
    int64_t i, n = f->count, gap = f->gap;
    for (i = 0; i < n; i++) {
        double dr = re[i] - re[i + gap], di = im[i] - im[i + gap];
        to_re[i] = re[i] + re[i + gap], to_im[i] = im[i] + im[i + gap];
        to_re[i + n] = dr * wr - di * wi, to_im[i + n] = dr * wi + di * wr;
    }
}

static void fourier_four(const fourier_step *f, const double *restrict re, const double *restrict im,
                         double *restrict to_re, double *restrict to_im) {
    double ar = f->w.re[1], ai = f->w.im[1], br = f->w.re[2], bi = f->w.im[2], cr = f->w.re[3],
           ci = f->w.im[3];
    int64_t i, n = f->count, gap = f->gap;
    for (i = 0; i < n; i++) {
        double r0 = re[i] + re[i + 2 * gap], i0 = im[i] + im[i + 2 * gap];
        double r1 = re[i] - re[i + 2 * gap], i1 = im[i] - im[i + 2 * gap];
        double r2 = re[i + gap] + re[i + 3 * gap], i2 = im[i + gap] + im[i + 3 * gap];
        double r3 = im[i + gap] - im[i + 3 * gap], i3 = re[i + 3 * gap] - re[i + gap];
        double xr = r1 + r3, xi = i1 + i3, yr = r0 - r2, yi = i0 - i2, zr = r1 - r3, zi = i1 - i3;
        to_re[i] = r0 + r2, to_im[i] = i0 + i2;
        to_re[i + n] = xr * ar - xi * ai, to_im[i + n] = xr * ai + xi * ar;
        to_re[i + 2 * n] = yr * br - yi * bi, to_im[i + 2 * n] = yr * bi + yi * br;
        to_re[i + 3 * n] = zr * cr - zi * ci, to_im[i + 3 * n] = zr * ci + zi * cr;
    }
}

// An odd p: elements r and p - r have conjugate factors.
static inline void fourier_odd(const fourier_step *f, int p, const double *restrict re,
                               const double *restrict im, double *restrict to_re, double *restrict to_im) {
    int64_t i, n = f->count, gap = f->gap;
    int r, t, half = p / 2;
    for (i = 0; i < n; i++) {
        double sr[FOURIER_LARGEST / 2 + 1], si[FOURIER_LARGEST / 2 + 1]; // sums and differences of both
        double dr[FOURIER_LARGEST / 2 + 1], di[FOURIER_LARGEST / 2 + 1];
        double all_r = re[i], all_i = im[i];
        for (r = 1; r <= half; r++) {
            const double *x = re + i + gap * r, *y = im + i + gap * r;
            int64_t other = gap * (p - 2 * r);
            sr[r] = x[0] + x[other], si[r] = y[0] + y[other];
            dr[r] = x[0] - x[other], di[r] = y[0] - y[other];
            all_r += sr[r], all_i += si[r];
        }
        to_re[i] = all_r, to_im[i] = all_i;
        for (t = 1; t <= half; t++) {
            double xr = re[i], xi = im[i], yr = 0, yi = 0;
            int64_t a = i + n * t, b = i + n * (p - t);
            for (r = 1; r <= half; r++) {
                double c = f->root.re[r * t % p], s = f->root.im[r * t % p];
                xr += c * sr[r], xi += c * si[r], yr -= s * di[r], yi += s * dr[r];
            }
            to_re[a] = (xr + yr) * f->w.re[t] - (xi + yi) * f->w.im[t];
            to_im[a] = (xr + yr) * f->w.im[t] + (xi + yi) * f->w.re[t];
            to_re[b] = (xr - yr) * f->w.re[p - t] - (xi - yi) * f->w.im[p - t];
            to_im[b] = (xr - yr) * f->w.im[p - t] + (xi - yi) * f->w.re[p - t];
        }
    }
}

static void fourier_run_step(const fourier_step *f, const double *re, const double *im, double *to_re,
                             double *to_im) {
    switch (f->p) {
    case 2: fourier_two(f, re, im, to_re, to_im); return;
    case 3: fourier_odd(f, 3, re, im, to_re, to_im); return;
    case 4: fourier_four(f, re, im, to_re, to_im); return;
    case 5: fourier_odd(f, 5, re, im, to_re, to_im); return;
    default: fourier_odd(f, (int)f->p, re, im, to_re, to_im); return;
    }
}

// Transforms `lanes` signals of a smooth length n, whose element i is at i * lanes. The result is in the memory of the
// signals or in spare.
static fourier_values fourier_passes(fourier_values from, fourier_values spare, fourier_values turns,
                                     int64_t n, int64_t lanes) {
    double memory[4][FOURIER_LARGEST];
    fourier_values swap;
    fourier_step f;
    int64_t rest, j, r, after = 0;
    f.root.re = memory[0], f.root.im = memory[1], f.w.re = memory[2], f.w.im = memory[3], f.count = lanes;
    for (rest = n; rest > 1; rest = after, f.count *= f.p) {
        f.p = fourier_factor(rest), after = rest / f.p, f.gap = after * f.count;
        for (r = 0; r < f.p; r++) f.root.re[r] = turns.re[n / f.p * r], f.root.im[r] = turns.im[n / f.p * r];
        for (j = 0; j < after; j++) {
            int64_t at = j * f.count, to = at * f.p;
            for (r = 0; r < f.p; r++)
                f.w.re[r] = turns.re[n / rest * j * r], f.w.im[r] = turns.im[n / rest * j * r];
            fourier_run_step(&f, from.re + at, from.im + at, spare.re + to, spare.im + to);
        }
        swap = from, from = spare, spare = swap;
    }
    return from;
}

typedef struct fourier_plan {
    int64_t n, length; // of the signals; of the passes, more if there is a chirp
    fourier_values turns, chirp, spectrum, a, b;
} fourier_plan;

// x[i] = x[i] * v[i] for each lane
static void fourier_multiply(fourier_values x, fourier_values v, int64_t n, int64_t lanes) {
    int64_t i, j;
    for (i = 0; i < n; i++)
        for (j = i * lanes; j < (i + 1) * lanes; j++) {
            double re = x.re[j] * v.re[i] - x.im[j] * v.im[i];
            x.im[j] = x.re[j] * v.im[i] + x.im[j] * v.re[i];
            x.re[j] = re;
        }
}

// The chirp exp(-pi i k^2 / n), and the spectrum of its conjugate, repeated at both ends, with the scale of the inverse.
static void fourier_make_chirp(fourier_plan *f, double **scratch) {
    int64_t n = f->n, m = f->length, i;
    fourier_values v = f->a;
    double scale = 1 / (double)m;
    f->chirp = fourier_take(scratch, n), f->spectrum = fourier_take(scratch, m);
    memset(v.re, 0, (size_t)m * sizeof *v.re), memset(v.im, 0, (size_t)m * sizeof *v.im);
    for (i = 0; i < n; i++) {
        fourier_turn(i * i % (2 * n), 2 * n, &f->chirp.re[i], &f->chirp.im[i]);
        v.re[i] = v.re[(m - i) % m] = f->chirp.re[i] * scale;
        v.im[i] = v.im[(m - i) % m] = -f->chirp.im[i] * scale;
    }
    v = fourier_passes(v, f->b, f->turns, m, 1);
    memcpy(f->spectrum.re, v.re, (size_t)m * sizeof *v.re);
    memcpy(f->spectrum.im, v.im, (size_t)m * sizeof *v.im);
}

static fourier_plan fourier_make_plan(int64_t n, int64_t lanes, double *scratch) {
    fourier_plan f = {0};
    f.n = n, f.length = fourier_is_smooth(n) ? n : fourier_smooth(2 * n - 1);
    f.turns = fourier_take(&scratch, f.length);
    f.a = fourier_take(&scratch, f.length * lanes), f.b = fourier_take(&scratch, f.length * lanes);
    fourier_turns(f.turns, f.length);
    if (f.length != n) fourier_make_chirp(&f, &scratch);
    return f;
}

static fourier_values fourier_exchanged(fourier_values v) {
    fourier_values w;
    w.re = v.im, w.im = v.re;
    return w;
}

// Transforms the signals in f->a.
static fourier_values fourier_transform(const fourier_plan *f, int64_t lanes) {
    int64_t n = f->n, m = f->length;
    size_t padding = (size_t)((m - n) * lanes) * sizeof(double);
    fourier_values v = f->a;
    if (m == n) return fourier_passes(v, f->b, f->turns, n, lanes);
    fourier_multiply(v, f->chirp, n, lanes);
    memset(v.re + n * lanes, 0, padding), memset(v.im + n * lanes, 0, padding);
    v = fourier_passes(v, f->b, f->turns, m, lanes);
    fourier_multiply(v, f->spectrum, m, lanes);
    // The inverse is the transform with the parts exchanged.
    v = fourier_exchanged(v);
    v = fourier_passes(v, fourier_exchanged(v.im == f->a.re ? f->b : f->a), f->turns, m, lanes);
    v = fourier_exchanged(v);
    fourier_multiply(v, f->chirp, n, lanes);
    return v;
}

// Lane j of every `lanes`th number, from and to elements `step` apart.
static void fourier_load(double *to, int64_t lanes, const void *from, int64_t at, int64_t step, int64_t n,
                         int64_t elem) {
    int64_t i;
    if (!from)
        for (i = 0; i < n; i++) to[i * lanes] = 0;
    else if (elem == DT_F64)
        for (i = 0; i < n; i++) to[i * lanes] = ((const double *)from)[at + i * step];
    else
        for (i = 0; i < n; i++) to[i * lanes] = (double)((const float *)from)[at + i * step];
}

static void fourier_store(void *to, int64_t at, int64_t step, const double *from, int64_t lanes, int64_t n,
                          int64_t elem) {
    int64_t i;
    if (elem == DT_F64)
        for (i = 0; i < n; i++) ((double *)to)[at + i * step] = from[i * lanes];
    else
        for (i = 0; i < n; i++) ((float *)to)[at + i * step] = (float)from[i * lanes];
}

ONNXC_LIB int onnxc_lib_fourier(void **call, void *const *data, const int64_t *numbers) {
    int64_t elem = numbers[0], n = numbers[2], inner = numbers[3], kept = numbers[4], lanes = numbers[6];
    int64_t signals = numbers[1] * inner, first, j;
    const int re = numbers[5] ? 1 : 0, im = 1 - re; // the inverse is the transform with the parts exchanged
    fourier_plan f;
    (void)call;
    if (signals <= 0) return 0;
    f = fourier_make_plan(n, lanes, (double *)data[2]);
    for (first = 0; first < signals; first += lanes) {
        int64_t count = signals - first < lanes ? signals - first : lanes;
        fourier_values v;
        for (j = 0; j < count; j++) {
            int64_t at = (first + j) / inner * n * inner + (first + j) % inner;
            fourier_load(f.a.re + j, count, data[3 + re], at, inner, n, elem);
            fourier_load(f.a.im + j, count, data[3 + im], at, inner, n, elem);
        }
        v = fourier_transform(&f, count);
        for (j = 0; j < count; j++) {
            int64_t at = (first + j) / inner * kept * inner + (first + j) % inner;
            fourier_store(data[re], at, inner, v.re + j, count, kept, elem);
            fourier_store(data[im], at, inner, v.im + j, count, kept, elem);
        }
    }
    return 0;
}
