// The discrete Fourier transform of a signal of any length: one kernel per prime factor of the length N (4
// counts as one factor). With the factor p, the product L of the factors before it, and M = N / (L p):
//
//   a[k1 L + k0][j] = sum over q < p of w^(q (k1 L + k0)) * before[k0][q M + j]      w = exp(-2 pi i / (L p))
//
// where before[k][j] is frequency k of the subsequence j, j + N / L, ... of the signal, so that the first
// `before` is the signal itself. Lengths with large prime factors are transformed otherwise (fourier_chirp.c). A
// length known only at run time is left to a library function (fourier_library.c), or is a single factor.
#include "ir/ops/signal/fourier.h"
#include <math.h>
#include <string.h>

enum { UNROLLED_FACTOR = 5, LARGEST_FACTOR = 1 << 20 };

complex_expr complex_multiply(kernel *k, complex_expr a, complex_expr b) {
    if (!a.im) return (complex_expr){x_mul(k, a.re, b.re), x_mul(k, a.re, b.im)};
    return (complex_expr){x_sub(k, x_mul(k, a.re, b.re), x_mul(k, a.im, b.im)),
                          x_add(k, x_mul(k, a.re, b.im), x_mul(k, a.im, b.re))};
}

complex_expr complex_read(kernel *k, buffer *const *parts, expr *const *index, expr *guard) {
    return (complex_expr){x_read_guarded(k, parts[0], index, guard, NULL),
                          x_read_guarded(k, parts[1], index, guard, NULL)};
}

void exact_turn(int64_t turn, int64_t n, double *re, double *im) {
    // From the nearest multiple of a quarter turn, so that the angle is at most pi / 4.
    int64_t octant = 8 * turn / n, rest = 8 * turn - octant * n;
    double angle = 0.78539816339744830962 * (double)(octant % 2 ? n - rest : rest) / (double)n;
    bool swapped = (octant + 1) & 2;
    double x = swapped ? sin(angle) : cos(angle), y = swapped ? cos(angle) : sin(angle);
    *re = (octant + 2) & 4 ? -x : x;
    *im = octant & 4 ? -y : y;
}

// The table of cos and -sin (of the inverse: sin) of 2 pi i / N for i < N: a constant, or computed at run
// time if N is large or unknown.
static buffer *turn_table(const transform *f, bool sine) {
    lowering *l = f->l;
    const double turn = 6.28318530717958647692;
    double sign = sine && !f->inverse ? -1 : 1;
    const char *name = sine ? "sine" : "cosine";
    if (dim_is_const(f->length) && dim_value(f->length) <= LARGEST_TABLE) {
        int64_t n = dim_value(f->length);
        constant *c = constant_new(l->program->arena, f->t, 1, &n);
        for (int64_t i = 0; i < n; i++) {
            double re, im;
            exact_turn(i, n, &re, &im);
            dtype_store_float(f->t, (uint8_t *)c->data, i, sine ? sign * im : re, false);
        }
        return program_constant(l->program, name, c);
    }
    buffer *table = lower_temp(l, f->n, name, f->t, 1, &f->length);
    kernel *k;
    expr *i;
    stage *s = suffixed_stage(l, f->n, name, table, &k, &i);
    expr *part = x_div(k, x_cast(k, i, DT_F64, false), x_cast(k, x_dim(k, f->length), DT_F64, false));
    expr *v = x_un(k, sine ? X_SIN : X_COS, x_mul(k, part, x_float(k, DT_F64, turn)));
    stage_write(k, s, table, &i, x_cast(k, x_mul(k, v, x_float(k, DT_F64, sign)), f->t, false));
    return table;
}

// The pass of one factor: from a pair of buffers (or the signal) to another pair (or the output).
typedef struct pass {
    const transform *f;
    kernel *k;
    stage *s;
    dim *factor, *before, *after; // p, L, M
    buffer *const *from;          // operands; NULL: the signal
    expr *index[MAX_RANK];        // positions on the other axes
    expr *k1, *k0, *j;
} pass;

static expr *pass_axis(pass *p, axis_kind kind, const char *name, dim *extent) {
    return stage_own_axis(p->k, p->s, kind, name, extent);
}

// Term q: the twiddle factor times the element.
static complex_expr pass_term(pass *p, expr *q) {
    kernel *k = p->k;
    const transform *f = p->f;
    dim *span = dim_mul(p->before, p->factor);
    expr *at =
        x_add(k, x_mul(k, x_add(k, x_mul(k, p->k0, x_dim(k, p->factor)), q), x_dim(k, p->after)), p->j);
    p->index[f->axis] = at;
    complex_expr v = p->from ? complex_read(k, p->from, p->index, NULL) : f->read(f, k, p->index, NULL);
    if (q->op == X_CONST && q->i == 0) return v;
    expr *frequency = x_add(k, x_mul(k, p->k1, x_dim(k, p->before)), p->k0);
    expr *turn = x_mul(k, x_bin(k, X_MOD, x_mul(k, frequency, q), x_dim(k, span)), x_dim(k, p->after));
    complex_expr w = {x_read(k, f->cosine, &turn), x_read(k, f->sine, &turn)};
    return complex_multiply(k, v, w);
}

// Whether term q is padding: all of its elements are past the given ones.
static bool term_is_zero(const pass *p, int64_t q) {
    const dim *given = p->f->given;
    return !p->from && given && dim_is_const(given) && dim_value(given) <= q * dim_value(p->after);
}

static complex_expr pass_sum(pass *p) {
    kernel *k = p->k;
    if (!dim_is_const(p->factor) || dim_value(p->factor) > UNROLLED_FACTOR) {
        complex_expr term = pass_term(p, pass_axis(p, AXIS_REDUCE, "q", p->factor));
        expr *re = stage_reduce(k, p->s, RED_SUM, term.re);
        return (complex_expr){re, stage_reduce(k, p->s, RED_SUM, term.im)};
    }
    complex_expr sum = pass_term(p, x_i64(k, 0));
    if (!sum.im) sum.im = x_zero(k, p->f->t);
    for (int64_t q = 1; q < dim_value(p->factor) && !term_is_zero(p, q); q++) {
        complex_expr term = pass_term(p, x_i64(k, q));
        sum = (complex_expr){x_add(k, sum.re, term.re), x_add(k, sum.im, term.im)};
    }
    return sum;
}

void write_spectrum(const transform *f, kernel *k, stage *s, expr *const *index, complex_expr v) {
    expr *to[MAX_RANK], *guard = NULL;
    memcpy(to, index, (size_t)f->rank * sizeof *to);
    if (dim_equal(f->kept, f->length) != TRI_YES) guard = x_lt(k, index[f->axis], x_dim(k, f->kept));
    expr *length = x_cast(k, x_dim(k, f->length), f->t, false);
    for (int c = 0; c < (f->real ? 1 : 2); c++) {
        expr *part = c ? v.im : v.re;
        to[f->rank] = x_i64(k, c);
        if (f->inverse && !f->whole) part = x_div(k, part, length);
        stage_write(k, s, f->out, to, x_cast(k, part, f->out->dtype, true))->guard = guard;
    }
}

// The last pass leaves out values of k1 that have no frequency to be kept.
static dim *last_extent(const transform *f, dim *factor, dim *before) {
    if (!dim_is_const(f->kept) || !dim_is_const(before)) return factor;
    return dim_min(factor, dim_ceildiv(f->kept, before));
}

static void run_pass(const transform *f, int number, dim *factor, dim *before, dim *after,
                     buffer *const *from, buffer *const *to) {
    pass p = {.f = f, .factor = factor, .before = before, .after = after, .from = from};
    p.k = lower_kernel(f->l, f->n, arena_printf(f->l->program->arena, "%spass%d", f->prefix, number));
    p.s = kernel_stage(p.k);
    for (int j = 0; j < f->axis; j++) p.index[j] = pass_axis(&p, AXIS_PARALLEL, "i", f->dims[j]);
    p.k1 = pass_axis(&p, AXIS_PARALLEL, "u", to ? factor : last_extent(f, factor, before));
    p.k0 = pass_axis(&p, AXIS_PARALLEL, "k", before);
    p.j = pass_axis(&p, AXIS_PARALLEL, "j", after);
    for (int j = f->axis + 1; j < f->rank; j++) p.index[j] = pass_axis(&p, AXIS_PARALLEL, "i", f->dims[j]);
    complex_expr v = pass_sum(&p);
    expr *frequency = x_add(p.k, x_mul(p.k, p.k1, x_dim(p.k, before)), p.k0);
    p.index[f->axis] = x_add(p.k, x_mul(p.k, frequency, x_dim(p.k, after)), p.j);
    if (!to) {
        f->write(f, p.k, p.s, p.index, v);
        return;
    }
    stage_write(p.k, p.s, to[0], p.index, v.re);
    stage_write(p.k, p.s, to[1], p.index, v.im);
}

int length_factors(int64_t length, int64_t *factors) {
    int count = 0;
    int64_t rest = length;
    for (int64_t p = 4; rest > 1; p = p == 4 ? 2 : p == 2 ? 3 : p + 2) {
        if (p > LARGEST_FACTOR || (p > 4 && p * p > rest))
            p = rest; // the remaining factor, prime unless too large
        for (; rest % p == 0; rest /= p) factors[count++] = p;
    }
    if (!count) factors[count++] = 1;
    return count;
}

void transform_by_factors(transform *f) {
    dims *table = f->length->table;
    dim *size[MAX_RANK], *before = dim_const(table, 1), *after = f->length;
    int64_t factors[MOST_FACTORS];
    bool known = dim_is_const(f->length);
    int count = known ? length_factors(dim_value(f->length), factors) : 1;
    f->cosine = turn_table(f, false);
    f->sine = turn_table(f, true);
    memcpy(size, f->dims, (size_t)f->rank * sizeof *size);
    size[f->axis] = f->length;
    buffer *pairs[MOST_FACTORS][2], **from = NULL;
    for (int j = 0; j < count; j++) {
        dim *factor = known ? dim_const(table, factors[j]) : f->length;
        after = known ? dim_floordiv(after, factor) : before;
        for (int c = 0; c < 2 && j < count - 1; c++) {
            const char *name =
                arena_printf(f->l->program->arena, "%s%s%d", f->prefix, c ? "imaginary" : "real", j);
            pairs[j][c] = lower_temp(f->l, f->n, name, f->t, f->rank, size);
        }
        buffer **to = j < count - 1 ? pairs[j] : NULL;
        run_pass(f, j, factor, before, after, from, to);
        before = dim_mul(before, factor);
        from = to;
    }
}

void run_transform(transform *f) {
    dim *zero = dim_const(f->length->table, 0);
    lower_check(f->l, f->n, dim_lt(zero, f->length), "the length is not positive");
    f->prefix = "", f->write = write_spectrum;
    if (!transform_by_chirp(f) && !transform_by_library(f)) transform_by_factors(f);
}

int64_t factors_cost(int64_t length) {
    int64_t factors[MOST_FACTORS], sum = 0;
    int count = length_factors(length, factors);
    // A loop over the terms of a sum computes where each twiddle factor is.
    for (int j = 0; j < count; j++) sum += factors[j] > UNROLLED_FACTOR ? 3 * factors[j] : factors[j];
    return length * sum;
}
