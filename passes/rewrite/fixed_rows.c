// Products of floats with constants of at most 8 bits on cores without floating point: a row becomes two digits in fixed
// point, whose products are integers. In: a sum of products of a temporary or input x of f32 and integers w. Out, where
// the row's largest magnitude is below 2^e, and TOTAL = 2 b - 1 bits of it are kept:
//
//   for row: power[row] = 2^(e - TOTAL)
//   for row, k: d = trunc(x[row, k] / power[row]);  low[row, k] = d mod 2^b, about 0;  high[row, k] = (d - low) / 2^b
//   for row, n: s1 = sum of high[row, k] * w[n, k];  s0 = the same of low;  write f((s1 * 2^b + s0) * power[row])
//
// A sum in floats takes about 200 instructions for a product, which converts w, and two in integers about six. What a digit
// leaves out is smaller than what rounding the largest product to f32 does.
// The power of a row that contains an infinity or NaN is that one; infinities are 1 or -1 times it, and finite numbers 0.
#include "ir/kernel/edit.h"
#include "ir/target.h"
#include "passes/match/contract.h"
#include "passes/passes.h"
#include "passes/schedule/cpu/schedule_words.h"
#include <math.h>

enum { MANTISSA = 24, MOST_BITS = 15, LEAST_BITS = 13, FINITE = 0x7f800000 };

typedef struct fixed {
    program *p;
    region *r;
    step *at;
    kernel *k; // the product
    stage *s;
    expr *x, *w;           // its reads
    int64_t zero;          // w's factor is w - zero
    int bits, total;       // of a digit, of both
    bool is_row[MAX_RANK]; // dims of x that count rows
    dim *place[MAX_RANK];  // of the row in a dim, such as that of a loop's iteration; NULL: all are used
    buffer *power, *digit[2];
} fixed;

// ---------------------------------------------------------------- applicability
// Whether term is q - *zero for all elements q of the read; *most: the largest magnitude.
static bool is_difference(const expr *term, const expr *read, int64_t *zero, int64_t *most) {
    int bits = dtype_bits(read->buffer->dtype);
    *most = 0;
    if (term->dtype != DT_F32 || !word_is_function_of(term, read)) return false;
    for (int code = 0; code < 1 << bits; code++) {
        bool negative = dtype_is_signed(read->buffer->dtype) && code >> (bits - 1);
        int q = negative ? code - (1 << bits) : code;
        double v = word_value(term, read, code);
        if (!(fabs(v) < 1 << 9) || v != trunc(v)) return false;
        if (code && *zero != q - (int64_t)v) return false;
        *zero = q - (int64_t)v;
        if (fabs(v) > (double)*most) *most = (int64_t)fabs(v);
    }
    return true;
}

static bool is_small_constant(const buffer *b) {
    return b->role == BUF_CONST && !b->view_of && dtype_is_int(b->dtype) && dtype_bits(b->dtype) <= 8;
}

static bool is_zero(const expr *e) { return !e || (e->op == X_CONST && e->f == 0); }

static bool is_of_run(const expr *e) { return e->op == X_DIM || e->op == X_READ; }

// Whether the product reads x's elements wherever they are, at most padded with 0; which dims count its rows.
static bool find_rows(fixed *f) {
    const buffer *b = f->x->buffer;
    if (b->dtype != DT_F32 || b->role == BUF_CONST || (f->x->guard && !is_zero(f->x->fill))) return false;
    for (int j = 0; j < b->rank; j++) {
        const expr *i = f->x->index[j];
        f->place[j] = i->op == X_DIM ? i->dim : NULL;
        if (!dim_is_const(b->dims[j]) || (!f->place[j] && expr_any(f->x->index[j], is_of_run))) return false;
        f->is_row[j] = i->op == X_AXIS && f->k->axes.at[i->axis].kind == AXIS_PARALLEL;
    }
    return true;
}

static int64_t elements(const fixed *f) {
    int64_t n = 1;
    for (int j = 0; j < f->x->buffer->rank; j++) n *= f->place[j] ? 1 : dim_value(f->x->buffer->dims[j]);
    return n;
}

// The digits take as much memory as x: no more than the weights do, or than hardly matters. Each is used by some sums.
static bool pays(const fixed *f, const contraction *c, int64_t workspace) {
    enum { LEAST_COLUMNS = 8, LITTLE = 2048, PART = 8 };
    int64_t bytes = 4 * elements(f), columns = 1, limit = dim_value(buffer_count(f->w->buffer));
    axis_list n = f->x == c->a ? contraction_columns(c) : c->m;
    for (int j = 0; j < n.n; j++) columns *= f->k->axes.at[n.at[j]].extent->max;
    if (limit < LITTLE) limit = LITTLE;
    if (workspace && limit > workspace / PART) limit = workspace / PART;
    return bytes > 0 && bytes <= limit && columns >= LEAST_COLUMNS;
}

static bool find(fixed *f, const target *t, int64_t workspace) {
    contraction c;
    if (f->k->algorithm || !contraction_find(f->k, &c)) return false;
    const state *st = &c.s->states.at[0];
    bool second = is_small_constant(c.b->buffer);
    const expr *term_x = second ? c.term_a : c.term_b, *term_w = second ? c.term_b : c.term_a;
    f->s = c.s, f->x = second ? c.a : c.b, f->w = second ? c.b : c.a;
    int64_t length = 1, most;
    for (int j = 0; j < c.k_axes.n; j++) {
        const dim *n = f->k->axes.at[c.k_axes.at[j]].extent;
        if (!dim_is_const(n) || dim_value(n) > INT16_MAX) return false;
        length *= dim_value(n);
    }
    if (st->dtype != DT_F32 || st->init->op != X_CONST || st->init->f != 0 || term_x != f->x || f->w->guard ||
        !is_small_constant(f->w->buffer) || !is_difference(term_w, f->w, &f->zero, &most) || !find_rows(f))
        return false;
    for (f->bits = MOST_BITS; f->bits >= LEAST_BITS; f->bits--)
        if (length * most <= INT32_MAX >> (f->bits - 1)) break;
    f->total = 2 * f->bits - 1;
    return f->bits >= LEAST_BITS && t->freestanding && pays(f, &c, workspace);
}

// ---------------------------------------------------------------- rows in fixed point
static buffer *temp(const fixed *f, const char *suffix, dtype t, bool rows_only) {
    const buffer *x = f->x->buffer;
    dim *dims[MAX_RANK];
    for (int j = 0; j < x->rank; j++)
        dims[j] = !f->place[j] && (f->is_row[j] || !rows_only) ? x->dims[j] : dim_const(f->p->dims, 1);
    return program_temp(f->p, arena_printf(f->p->arena, "%s.%s", x->name, suffix), t, x->rank, dims);
}

static expr *word(kernel *k, int64_t v) { return x_int(k, DT_I32, v); }

// The indices of x's elements; those of their row in `row`.
static stage *stage_over_x(const fixed *f, kernel *k, axis_kind inner, expr **index, expr **row) {
    const buffer *x = f->x->buffer;
    stage *s = kernel_stage(k);
    for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j < x->rank; j++) {
            if (f->is_row[j] != !pass) continue;
            if (f->place[j]) {
                index[j] = x_dim(k, f->place[j]), row[j] = x_i64(k, 0);
                continue;
            }
            index[j] = stage_own_axis(k, s, pass ? inner : AXIS_PARALLEL, pass ? "k" : "row", x->dims[j]);
            row[j] = pass ? x_i64(k, 0) : index[j];
        }
    return s;
}

// Of the element among the digits.
static void index_of_digit(const fixed *f, kernel *k, expr *const *index, expr **digit) {
    for (int j = 0; j < f->x->buffer->rank; j++) digit[j] = f->place[j] ? x_i64(k, 0) : index[j];
}

static expr *magnitude_bits(kernel *k, const fixed *f, expr *const *index) {
    expr *bits = x_bitcast(k, x_read(k, f->x->buffer, index), DT_I32);
    return x_bin(k, X_AND, bits, word(k, INT32_MAX));
}

// A power of at least 2^-126, so rows of smaller numbers are multiples of that.
static kernel *power_kernel(fixed *f) {
    kernel *k = kernel_new(f->p, arena_printf(f->p->arena, "%s_power", f->k->name), f->k->loc);
    expr *index[MAX_RANK], *row[MAX_RANK];
    stage *s = stage_over_x(f, k, AXIS_REDUCE, index, row);
    f->power = temp(f, "power", DT_F32, true);
    expr *most = stage_reduce(k, s, RED_MAX, magnitude_bits(k, f, index));
    expr *exponent =
        x_bin(k, X_AND, x_bin(k, X_MAX, most, word(k, (int64_t)f->total << 23)), word(k, FINITE));
    expr *power = x_sub(k, exponent, word(k, (int64_t)(f->total - 1) << 23));
    power = x_select(k, x_lt(k, most, word(k, FINITE)), power, most);
    stage_write(k, s, f->power, row, x_bitcast(k, power, DT_F32));
    return k;
}

// The digits of x's elements, from their bits alone: digit 1 is rounded to nearest, so that digit 0 has a sign, too.
static kernel *digit_kernel(fixed *f) {
    kernel *k = kernel_new(f->p, arena_printf(f->p->arena, "%s_digits", f->k->name), f->k->loc);
    expr *index[MAX_RANK], *row[MAX_RANK], *digit[MAX_RANK];
    stage *s = stage_over_x(f, k, AXIS_PARALLEL, index, row);
    index_of_digit(f, k, index, digit);
    expr *bits = x_bitcast(k, x_read(k, f->x->buffer, index), DT_I32),
         *magnitude = magnitude_bits(k, f, index);
    expr *exponent = x_bin(k, X_SHR, magnitude, word(k, MANTISSA - 1)), *one = word(k, 1 << (MANTISSA - 1));
    expr *normal = x_lt(k, word(k, 0), exponent);
    expr *number = x_bin(k, X_AND, magnitude, word(k, (1 << (MANTISSA - 1)) - 1));
    number = x_select(k, normal, x_bin(k, X_OR, number, one), number);
    exponent = x_select(k, normal, exponent, word(k, 1));
    expr *highest = x_bin(k, X_SHR, x_bitcast(k, x_read(k, f->power, row), DT_I32), word(k, MANTISSA - 1));
    expr *down = x_sub(k, x_add(k, highest, word(k, f->total - 1)), exponent);
    number = x_bin(k, X_SHL, number, word(k, f->total - MANTISSA));
    number = x_bin(k, X_SHR, number, x_bin(k, X_MIN, down, word(k, 31)));
    number = x_select(k, x_lt(k, bits, word(k, 0)), x_un(k, X_NEG, number), number);
    expr *half = word(k, 1 << (f->bits - 1)), *width = word(k, f->bits);
    expr *high = x_bin(k, X_SHR, x_add(k, number, half), width);
    expr *low = x_sub(k, number, x_bin(k, X_SHL, high, width));
    for (int j = 0; j < 2; j++) {
        f->digit[j] = temp(f, j ? "high" : "low", DT_I16, false);
        stage_write(k, s, f->digit[j], digit, x_cast(k, j ? high : low, DT_I16, false));
    }
    return k;
}

// ---------------------------------------------------------------- their products
static expr *digit_sum(fixed *f, int j) {
    kernel *k = f->k;
    expr *at[MAX_RANK];
    index_of_digit(f, k, f->x->index, at);
    expr *digit = x_read_guarded(k, f->digit[j], at, f->x->guard, NULL);
    expr *factor = x_sub(k, x_cast(k, f->w, DT_I32, false), word(k, f->zero));
    return stage_reduce(k, f->s, RED_SUM, x_mul(k, x_cast(k, digit, DT_I32, false), factor));
}

static void multiply_digits(fixed *f) {
    kernel *k = f->k;
    expr *row[MAX_RANK];
    for (int j = 0; j < f->x->buffer->rank; j++) row[j] = f->is_row[j] ? f->x->index[j] : x_i64(k, 0);
    f->s->states.n = 0;
    expr *low = digit_sum(f, 0), *high = digit_sum(f, 1);
    expr *sum = x_mul(k, x_cast(k, high, DT_F32, true), x_float(k, DT_F32, 1 << f->bits));
    sum = x_add(k, sum, x_cast(k, low, DT_F32, true));
    sum = x_mul(k, sum, x_read(k, f->power, row));
    write *w = &f->s->writes.at[0];
    w->value = expr_substitute(k, w->value, NULL, sum);
    k->algorithm = "fixed rows";
}

void pass_fixed_rows(pass_context *c) {
    const target *t = c->target;
    if (!t->freestanding || t->f32 || t->arch.is_text) return;
    step_list steps = program_steps(c->program->arena, c->program);
    for (int j = 0; j < steps.n; j++) {
        fixed f = {.p = c->program, .r = steps.at[j].region, .at = steps.at[j].s};
        if (f.at->kind != STEP_KERNEL) continue;
        f.k = f.at->kernel;
        if (!find(&f, t, c->max_workspace)) continue;
        kernel *power = power_kernel(&f), *digits = digit_kernel(&f);
        multiply_digits(&f);
        insert_kernel(f.p, f.r, step_index(f.r, f.at), power);
        insert_kernel(f.p, f.r, step_index(f.r, f.at), digits);
    }
}
