// Products of floats with constants on cores without floating point, as integers in fixed point. In: a sum of products of a
// temporary or input x of f32 and w, integers of at most 8 bits or f32. Out for the former, where x becomes two digits, the
// row's largest magnitude is below 2^e, and TOTAL = 2 b - 1 bits of it are kept:
//
//   for row: power[row] = 2^(e - TOTAL)
//   for row, k: d = trunc(x[row, k] / power[row]);  low[row, k] = d mod 2^b, about 0;  high[row, k] = (d - low) / 2^b
//   for row, n: s1 = sum of high[row, k] * w[n, k];  s0 = the same of low;  write f((s1 * 2^b + s0) * power[row])
//
// For w of f32, both become words, w here and with a power of each column, and sums have 64 bits. x becomes words, too, which
// replace it, where digits would take much memory:
//
//   for row, k: d[row, k] = trunc(x[row, k] / power[row])
//   for row, n: s = sum of d[row, k] * v[n, k];  write f(s * column_power[n] * power[row])
//
// An x that is integers already, such as a dequantised one whose scale is outside of the sum, needs no digits and no power:
//
//   for row, n: s = sum of (x[row, k] - zero) * v[n, k];  write f(s * column_power[n])
//
// An x that is needed as it is, or is an input, becomes words where they are multiplied, if these would take much memory.
//
// A sum in floats takes about 200 instructions for a product, which converts w, and two in integers about six. What a digit
// leaves out is smaller than what rounding the largest product to f32 does.
// The power of a row that contains an infinity or NaN is that one; infinities are 1 or -1 times it, and finite numbers 0.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "ir/target.h"
#include "passes/match/contract.h"
#include "passes/passes.h"
#include "passes/schedule/cpu/schedule_words.h"
#include <math.h>

enum { MANTISSA = 24, MOST_BITS = 15, LEAST_BITS = 13, FINITE = 0x7f800000 };
enum { MOST_WORD_BITS = 30, LEAST_WORD_BITS = 26, SUM_BITS = 62 };

typedef struct fixed {
    program *p;
    region *r;
    step *at;
    kernel *k; // the product
    stage *s;
    expr *x, *w;        // its reads
    int64_t zero;       // w's factor is w - zero
    bool floats, words; // w is of f32; x becomes words
    bool in_place;      // x becomes words in the product
    bool whole;         // x's factor is the integer x - whole_zero
    int64_t whole_zero;
    int bits, total;       // of a digit, of both; or of a word
    int word_bits;         // of w's words
    bool is_row[MAX_RANK]; // dims of x that count rows
    dim *place[MAX_RANK];  // of the row in a dim, such as that of a loop's iteration; NULL: all are used
    buffer *power, *digit[2];
    buffer *column_power; // of w's columns
    const uses *uses;
} fixed;

// ---------------------------------------------------------------- applicability
// Whether term is q - *zero for all elements q of the read; *most: the largest magnitude.
static bool is_difference(const expr *term, const expr *read, int64_t *zero, int64_t *most) {
    int bits = dtype_bits(read->buffer->dtype);
    *most = 0;
    if (!dtype_is_int(read->buffer->dtype) || bits > 16) return false;
    const int64_t limit = bits > 8 ? 2 << bits : 1 << 9;
    if (term->dtype != DT_F32 || !word_is_function_of(term, read)) return false;
    for (int code = 0; code < 1 << bits; code++) {
        bool negative = dtype_is_signed(read->buffer->dtype) && code >> (bits - 1);
        int q = negative ? code - (1 << bits) : code;
        double v = word_value(term, read, code);
        if (!(fabs(v) < (double)limit) || v != trunc(v)) return false;
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

// How often an element of x is multiplied, about.
static int64_t products_of_element(const fixed *f, int64_t of_x) {
    double n = 1;
    for (int j = 0; j < f->k->axes.n; j++) n *= (double)f->k->axes.at[j].extent->max;
    return (int64_t)fmin(n / (double)of_x, INT32_MAX);
}

// Digits take as much memory as x: no more than the weights do, or than hardly matters.
static bool digits_pay(const fixed *f, const contraction *c, int64_t workspace) {
    enum { LEAST_COLUMNS = 8, LITTLE = 2048, PART = 8 };
    int64_t bytes = 4 * elements(f), limit = dim_value(buffer_count(f->w->buffer)), columns = 1;
    if (f->floats) limit *= 4;
    if (limit < LITTLE) limit = LITTLE;
    if (workspace && limit > workspace / PART) limit = workspace / PART;
    axis_list over = f->x == c->a ? contraction_columns(c) : c->m;
    for (int j = 0; j < over.n; j++) columns *= f->k->axes.at[over.at[j]].extent->max;
    return bytes > 0 && bytes <= limit && (f->floats || columns >= LEAST_COLUMNS);
}

// Words take the place of an x that is not needed any longer. All of x must be there before: under a limit, an image may have to
// be computed row by row instead.
static bool may_become_words(const fixed *f, int64_t workspace) {
    enum { LEAST_PRODUCTS = 2, PART = 4 };
    int64_t n = elements(f);
    return (!workspace || 4 * n <= workspace / PART) && n > 0 && products_of_element(f, n) >= LEAST_PRODUCTS;
}

static bool words_pay(const fixed *f, int64_t workspace) {
    return may_become_words(f, workspace) && f->x->buffer->role == BUF_TEMP &&
           uses_are_direct(f->uses, f->x->buffer, 2);
}

// The largest magnitudes of f32 that column powers are for.
static bool is_float_constant(const buffer *b) {
    const double most = ldexp(1, 64);
    if (b->role != BUF_CONST || b->view_of || b->dtype != DT_F32 || !constant_is_finite(b->data))
        return false;
    for (int j = 0; j < b->rank; j++)
        if (!dim_is_const(b->dims[j])) return false;
    for (int64_t j = 0, n = dim_value(buffer_count(b)); j < n; j++)
        if (fabs(constant_float(b->data, j)) >= most) return false;
    return true;
}

// Whether each dim of w counts columns or is summed over, and no other kernel needs w as it is.
static bool has_columns(const fixed *f) {
    for (int j = 0; j < f->w->buffer->rank; j++) {
        if (!index_reduces(f->k, f->w->index[j])) continue;
        for (int a = 0; a < f->k->axes.n; a++)
            if (f->k->axes.at[a].kind == AXIS_PARALLEL && expr_uses_axis(f->w->index[j], a)) return false;
    }
    return uses_are_direct(f->uses, f->w->buffer, 1);
}

static bool has_float_columns(const fixed *f, const expr *term_w) {
    return term_w == f->w && is_float_constant(f->w->buffer) && has_columns(f);
}

// How many bits of x are kept, so that sums of `length` products with factors below 2^bits stay in range.
static bool find_word_bits(fixed *f, int64_t length, int bits) {
    while (length > 0) length >>= 1, bits++;
    f->words = true, f->total = SUM_BITS - bits > MOST_WORD_BITS ? MOST_WORD_BITS : SUM_BITS - bits;
    return f->total >= LEAST_WORD_BITS;
}

// As many bits of w as of x.
static bool find_equal_bits(fixed *f, int64_t length) {
    f->word_bits = MOST_WORD_BITS;
    while (find_word_bits(f, length, f->word_bits), f->total < f->word_bits) f->word_bits--;
    return f->word_bits >= LEAST_WORD_BITS;
}

static bool find_digit_bits(fixed *f, int64_t length, int64_t most) {
    for (f->bits = MOST_BITS; f->bits >= LEAST_BITS; f->bits--)
        if (length * most <= INT32_MAX >> (f->bits - 1)) break;
    f->total = 2 * f->bits - 1;
    return f->bits >= LEAST_BITS;
}

// As many bits of w as its products with integers of at most `most` leave.
static bool find_factor_bits(fixed *f, int64_t length, int64_t most) {
    int bits = 1;
    while (most > 0) most >>= 1, bits++;
    if (!find_word_bits(f, length, bits)) return false;
    f->whole = true, f->word_bits = f->total;
    return true;
}

static bool find_bits(fixed *f, const contraction *c, const expr *term_w, int64_t length, int64_t workspace) {
    enum { BITS_OF_SMALL = 9 };
    int64_t most;
    if (f->floats) {
        if (!has_float_columns(f, term_w)) return false;
        f->in_place = !words_pay(f, workspace) && !digits_pay(f, c, workspace);
        return find_equal_bits(f, length) && (!f->in_place || may_become_words(f, workspace));
    }
    if (!is_small_constant(f->w->buffer) || !is_difference(term_w, f->w, &f->zero, &most)) return false;
    if (digits_pay(f, c, workspace) && find_digit_bits(f, length, most)) return true;
    f->in_place = !words_pay(f, workspace);
    return may_become_words(f, workspace) && find_word_bits(f, length, BITS_OF_SMALL);
}

static bool find(fixed *f, int64_t workspace) {
    contraction c;
    if (f->k->algorithm || !contraction_find(f->k, &c)) return false;
    const state *st = &c.s->states.at[0];
    bool second = c.b->buffer->role == BUF_CONST;
    const expr *term_x = second ? c.term_a : c.term_b, *term_w = second ? c.term_b : c.term_a;
    f->s = c.s, f->x = second ? c.a : c.b, f->w = second ? c.b : c.a;
    f->floats = f->w->buffer->dtype == DT_F32;
    int64_t length = 1;
    for (int j = 0; j < c.k_axes.n; j++) {
        const dim *n = f->k->axes.at[c.k_axes.at[j]].extent;
        if (!dim_is_const(n) || dim_value(n) > INT16_MAX) return false;
        length *= dim_value(n);
    }
    if (st->dtype != DT_F32 || st->init->op != X_CONST || st->init->f != 0 || f->w->guard) return false;
    int64_t most;
    if (f->floats && is_difference(term_x, f->x, &f->whole_zero, &most))
        return has_float_columns(f, term_w) && find_factor_bits(f, length, most);
    return term_x == f->x && find_rows(f) && find_bits(f, &c, term_w, length, workspace);
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

static expr *magnitude_bits(kernel *k, expr *x) {
    return x_bin(k, X_AND, x_bitcast(k, x, DT_I32), word(k, INT32_MAX));
}

// A power of at least 2^-126, so rows of smaller numbers are multiples of that.
static kernel *power_kernel(fixed *f) {
    kernel *k = kernel_new(f->p, arena_printf(f->p->arena, "%s_power", f->k->name), f->k->loc);
    expr *index[MAX_RANK], *row[MAX_RANK];
    stage *s = stage_over_x(f, k, AXIS_REDUCE, index, row);
    f->power = temp(f, "power", DT_F32, true);
    expr *most = stage_reduce(k, s, RED_MAX, magnitude_bits(k, x_read(k, f->x->buffer, index)));
    expr *exponent =
        x_bin(k, X_AND, x_bin(k, X_MAX, most, word(k, (int64_t)f->total << 23)), word(k, FINITE));
    expr *power = x_sub(k, exponent, word(k, (int64_t)(f->total - 1) << 23));
    power = x_select(k, x_lt(k, most, word(k, FINITE)), power, most);
    stage_write(k, s, f->power, row, x_bitcast(k, power, DT_F32));
    return k;
}

// An element of x as an integer, from its bits alone. Denormal numbers are less than a power is, and become 0 like zeros, so that
// all may have the mantissa of normal ones.
static expr *number_of(const fixed *f, kernel *k, expr *x, expr *const *row) {
    expr *bits = x_bitcast(k, x, DT_I32), *one = word(k, 1 << (MANTISSA - 1)),
         *fraction = word(k, MANTISSA - 1);
    expr *exponent = x_bin(k, X_SHR, x_bin(k, X_AND, bits, word(k, INT32_MAX)), fraction);
    expr *number = x_bin(k, X_OR, x_bin(k, X_AND, bits, word(k, (1 << (MANTISSA - 1)) - 1)), one);
    expr *highest = x_bin(k, X_SHR, x_bitcast(k, x_read(k, f->power, row), DT_I32), fraction);
    expr *down = x_sub(k, x_add(k, highest, word(k, f->total - 1)), exponent);
    number = x_bin(k, X_SHL, number, word(k, f->total - MANTISSA));
    number = x_bin(k, X_SHR, number, down);
    expr *sign = x_bin(k, X_SHR, bits, word(k, 31));
    return x_sub(k, x_bin(k, X_XOR, number, sign), sign);
}

// The digits of x's elements: digit 1 is rounded to nearest, so that digit 0 has a sign, too.
static kernel *digit_kernel(fixed *f) {
    kernel *k = kernel_new(f->p, arena_printf(f->p->arena, "%s_digits", f->k->name), f->k->loc);
    expr *index[MAX_RANK], *row[MAX_RANK], *digit[MAX_RANK];
    stage *s = stage_over_x(f, k, AXIS_PARALLEL, index, row);
    index_of_digit(f, k, index, digit);
    expr *number = number_of(f, k, x_read(k, f->x->buffer, index), row);
    if (f->words) {
        f->digit[0] = temp(f, "fixed", DT_I32, false);
        stage_write(k, s, f->digit[0], digit, number);
        return k;
    }
    expr *half = word(k, 1 << (f->bits - 1)), *width = word(k, f->bits);
    expr *high = x_bin(k, X_SHR, x_add(k, number, half), width);
    expr *low = x_sub(k, number, x_bin(k, X_SHL, high, width));
    for (int j = 0; j < 2; j++) {
        f->digit[j] = temp(f, j ? "high" : "low", DT_I16, false);
        stage_write(k, s, f->digit[j], digit, x_cast(k, j ? high : low, DT_I16, false));
    }
    return k;
}

// ---------------------------------------------------------------- columns in fixed point
static int64_t column_of(const fixed *f, int64_t element) {
    const buffer *w = f->w->buffer;
    int64_t column = 0, size = 1;
    for (int j = w->rank - 1; j >= 0; j--) {
        int64_t n = dim_value(w->dims[j]);
        if (!index_reduces(f->k, f->w->index[j])) column += element % n * size, size *= n;
        element /= n;
    }
    return column;
}

// Exponents of columns: the largest magnitude is below 2^e.
static int *column_exponents(const fixed *f, arena *a, int64_t n, int64_t columns) {
    enum { LEAST = MOST_WORD_BITS - 126 }; // so that powers are normal
    int *exponent = ARENA_ARRAY(a, int, columns);
    for (int64_t j = 0; j < columns; j++) exponent[j] = LEAST;
    for (int64_t j = 0; j < n; j++) {
        int64_t column = column_of(f, j);
        int e = ilogb(constant_float(f->w->buffer->data, j)) + 1;
        if (constant_float(f->w->buffer->data, j) != 0 && e > exponent[column]) exponent[column] = e;
    }
    return exponent;
}

// The words of w, which is replaced, and the powers of its columns.
static buffer *fix_columns(fixed *f) {
    const buffer *w = f->w->buffer;
    arena *a = f->p->arena, *scratch = arena_new();
    int64_t dims[MAX_RANK], column_dims[MAX_RANK], n = dim_value(buffer_count(w)), columns = 1;
    for (int j = 0; j < w->rank; j++) {
        dims[j] = dim_value(w->dims[j]), column_dims[j] = index_reduces(f->k, f->w->index[j]) ? 1 : dims[j];
        columns *= column_dims[j];
    }
    constant *words = constant_new(a, DT_I32, w->rank, dims);
    constant *powers = constant_new(a, DT_F32, w->rank, column_dims);
    int *exponent = column_exponents(f, scratch, n, columns);
    for (int64_t j = 0; j < n; j++)
        ((int32_t *)words->data)[j] =
            (int32_t)rint(ldexp(constant_float(w->data, j), f->word_bits - exponent[column_of(f, j)]));
    for (int64_t j = 0; j < columns; j++) ((float *)powers->data)[j] = ldexpf(1, exponent[j] - f->word_bits);
    arena_destroy(scratch);
    f->column_power = program_constant(f->p, arena_printf(a, "%s.power", w->name), powers);
    return program_constant(f->p, arena_printf(a, "%s.fixed", w->name), words);
}

// ---------------------------------------------------------------- their products
static expr *difference(kernel *k, expr *x, int64_t zero) {
    return x_sub(k, x_cast(k, x, DT_I32, false), word(k, zero));
}

static expr *digit_sum(fixed *f, int j) {
    kernel *k = f->k;
    expr *at[MAX_RANK];
    index_of_digit(f, k, f->x->index, at);
    expr *digit = x_read_guarded(k, f->digit[j], at, f->x->guard, NULL);
    return stage_reduce(k, f->s, RED_SUM,
                        x_mul(k, x_cast(k, digit, DT_I32, false), difference(k, f->w, f->zero)));
}

static expr *sum_of_digits(fixed *f) {
    kernel *k = f->k;
    expr *low = digit_sum(f, 0), *high = digit_sum(f, 1);
    expr *sum = x_mul(k, x_cast(k, high, DT_I64, false), x_i64(k, 1 << f->bits));
    return x_cast(k, x_add(k, sum, x_cast(k, low, DT_I64, false)), DT_F32, true);
}

static void row_of_x(const fixed *f, expr **row) {
    for (int j = 0; j < f->x->buffer->rank; j++) row[j] = f->is_row[j] ? f->x->index[j] : x_i64(f->k, 0);
}

// The integer factor of x.
static expr *x_word(fixed *f) {
    expr *at[MAX_RANK];
    row_of_x(f, at);
    if (f->in_place) return number_of(f, f->k, f->x, at);
    if (f->whole) return difference(f->k, f->x, f->whole_zero);
    index_of_digit(f, f->k, f->x->index, at);
    return x_read_guarded(f->k, f->digit[0], at, f->x->guard, NULL);
}

static expr *sum_of_words(fixed *f) {
    kernel *k = f->k;
    expr *column[MAX_RANK];
    for (int j = 0; j < f->w->buffer->rank; j++)
        column[j] = index_reduces(k, f->w->index[j]) ? x_i64(k, 0) : f->w->index[j];
    expr *w = f->floats ? x_read(k, fix_columns(f), f->w->index) : difference(k, f->w, f->zero);
    expr *product = x_mul(k, x_cast(k, x_word(f), DT_I64, false), x_cast(k, w, DT_I64, false));
    expr *sum = x_cast(k, stage_reduce(k, f->s, RED_SUM, product), DT_F32, true);
    return f->floats ? x_mul(k, sum, x_read(k, f->column_power, column)) : sum;
}

static void multiply_digits(fixed *f) {
    kernel *k = f->k;
    expr *row[MAX_RANK];
    row_of_x(f, row);
    f->s->states.n = 0;
    expr *sum = f->words ? sum_of_words(f) : sum_of_digits(f);
    if (!f->whole) sum = x_mul(k, sum, x_read(k, f->power, row));
    write *w = &f->s->writes.at[0];
    w->value = expr_substitute(k, w->value, NULL, sum);
    k->algorithm = "fixed rows";
}

void pass_fixed_rows(pass_context *c) {
    const target *t = c->target;
    if (!t->freestanding || t->f32 || t->arch.is_text) return;
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, c->program);
    step_list steps = program_steps(c->program->arena, c->program);
    for (int j = 0; j < steps.n; j++) {
        fixed f = {.p = c->program, .r = steps.at[j].region, .at = steps.at[j].s, .uses = u};
        if (f.at->kind != STEP_KERNEL) continue;
        f.k = f.at->kernel;
        if (!find(&f, c->max_workspace)) continue;
        kernel *power = f.whole ? NULL : power_kernel(&f),
               *digits = f.whole || f.in_place ? NULL : digit_kernel(&f);
        multiply_digits(&f);
        if (power) insert_kernel(f.p, f.r, step_index(f.r, f.at), power);
        if (digits) insert_kernel(f.p, f.r, step_index(f.r, f.at), digits);
    }
    arena_destroy(scratch);
}
