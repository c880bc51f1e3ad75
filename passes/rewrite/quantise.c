// Quantised contractions: sums of products of 8-bit integers, perhaps dequantised; scales and zero points are
// moved out of the sums:
//
//   sum over k of (a - za) * sa * (b - zb) * sb
//       = sa * sb * (sum a*b - za * sum b - zb * sum a + K * za * zb)
//
// The sums of a constant operand are constants, others small separate kernels. On x86 one operand is made
// unsigned and the other signed, on AArch64 both are made signed, as the dot product instructions require.
#include "ir/kernel/edit.h"
#include "ir/kernel/eval.h"
#include "ir/kernel/interp.h"
#include "ir/kernel/uses.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"
#include "passes/rewrite/quantise_impl.h"
#include <math.h>
#include <string.h>

enum { MOST_SCALES = 8 };

typedef struct factor {
    expr *read; // the stored integers
    expr *zero; // int32, subtracted from them; NULL: 0
} factor;

typedef struct match {
    kernel *k;
    stage *s;
    factor f[2];
    int nf;
    expr *scale[MOST_SCALES];
    int nscales;
    bool is_float;
    bool single;       // a sum has one product, whose factors depend on no axis of it
    bool takes_halves; // one factor may have 16 bits
} match;

typedef struct quantise {
    program *p;
    const target *t;
    arena *scratch;
    int8_t *sign; // preferred signedness by id of the root buffer: 1 unsigned, -1 signed
    const uses *uses;
    map flipped; // constant's id -> its copy of the other signedness
} quantise;

// ---------------------------------------------------------------- recognising
static bool reads_byte(const expr *e) { return e->op == X_READ && dtype_is_byte(e->buffer->dtype); }

static bool is_reduced(const match *m, expr *e) {
    return stage_reduces(m->k, m->s, e) || (m->single && expr_any(e, reads_byte));
}

static bool is_half(dtype t) { return t == DT_I16 || t == DT_U16; }
static bool is_int_const(const expr *e, int64_t v) { return dtype_is_int(e->dtype) && expr_is_int(e, v); }

static expr *flipped_value(kernel *k, expr *e, dtype to) {
    expr *top = x_int(k, DT_U8, 128);
    if (to == DT_U8) return x_bin(k, X_XOR, x_bitcast(k, e, DT_U8), top);
    return x_bitcast(k, x_bin(k, X_XOR, e, top), DT_I8);
}

// A byte value as the stored element plus the difference due to flipped signs.
static expr *stored_bytes(expr *e, int *added) {
    *added = 0;
    if (e->op == X_READ) return e;
    bool to_signed = e->op == X_BITCAST && e->dtype == DT_I8 && e->arg[0]->op == X_XOR &&
                     is_int_const(e->arg[0]->arg[1], 128);
    bool to_unsigned =
        e->op == X_XOR && e->dtype == DT_U8 && is_int_const(e->arg[1], 128) && e->arg[0]->op == X_BITCAST;
    if (!to_signed && !to_unsigned) return NULL;
    *added = to_signed ? -128 : 128;
    e = e->arg[0]->arg[0];
    return e->op == X_READ ? e : NULL;
}

// The zero point as an element of type t: a read of it contributes nothing.
static expr *zero_as_element(kernel *k, expr *zero, dtype t) {
    if (!zero) return x_int(k, t, 0);
    if (zero->op == X_CONST && zero->i >= dtype_int_min(t) && zero->i <= dtype_int_max(t))
        return x_int(k, t, zero->i);
    if (zero->op == X_CAST && zero->arg[0]->dtype == t) return zero->arg[0];
    return NULL;
}

// e: int32 (x - zero) or x, perhaps as float; it contributes 0 where guard (if any) does not hold.
static bool take_integer(match *m, expr *e, expr *guard) {
    kernel *k = m->k;
    expr *zero = NULL;
    int added;
    if (m->nf == 2) return false;
    if (e->op == X_CAST && e->dtype == DT_F32 && dtype_is_int(e->arg[0]->dtype)) e = e->arg[0];
    if (e->op == X_SUB && e->dtype == DT_I32 && (m->single || !is_reduced(m, e->arg[1])))
        zero = e->arg[1], e = e->arg[0];
    if (e->op == X_CAST && e->dtype == DT_I32) e = e->arg[0];
    if (!dtype_is_byte(e->dtype) && !(m->takes_halves && is_half(e->dtype))) return false;
    m->takes_halves &= dtype_is_byte(e->dtype);
    expr *read = stored_bytes(e, &added);
    if (!read) return false;
    if (guard) {
        expr *fill = zero_as_element(k, zero, e->dtype);
        if (!fill || (read->guard && read->guard != guard)) return false;
        if (added) fill = flipped_value(k, fill, read->dtype);
        read = x_read_guarded(k, read->buffer, read->index, guard, fill);
        if (read->op != X_READ) return false;
    }
    if (added) zero = x_sub(k, zero ? zero : x_int(k, DT_I32, 0), x_int(k, DT_I32, added));
    if (zero && is_int_const(zero, 0)) zero = NULL;
    m->f[m->nf++] = (factor){read, zero};
    return true;
}

static bool take_factor(match *m, expr *e, expr *guard) {
    if (!is_reduced(m, e)) {
        if (!m->is_float || m->nscales == MOST_SCALES) return false;
        m->scale[m->nscales++] = e;
        return true;
    }
    if (e->op == X_MUL && m->is_float)
        return take_factor(m, e->arg[0], guard) && take_factor(m, e->arg[1], guard);
    if (e->op == X_SELECT && e->arg[2]->op == X_CONST && e->arg[2]->i == 0 && (!guard || guard == e->arg[0]))
        return take_factor(m, e->arg[1], e->arg[0]);
    return take_integer(m, e, guard);
}

static bool match_integers(match *m) {
    const state *st = &m->s->states.at[0];
    if (st->step->op != X_MUL) return false;
    m->nf = m->nscales = 0;
    return take_factor(m, st->step->arg[0], NULL) && take_factor(m, st->step->arg[1], NULL) && m->nf == 2;
}

static int64_t magnitude(const factor *f) {
    int64_t lo = dtype_int_min(f->read->buffer->dtype), hi = dtype_int_max(f->read->buffer->dtype);
    if (f->zero && f->zero->op != X_CONST) return hi - lo;
    int64_t z = f->zero ? f->zero->i : 0;
    return hi - z > z - lo ? hi - z : z - lo;
}

static dim *sum_length(const match *m) {
    const stage *s = m->s; // its reduce axes follow the parallel ones
    int first = 0;
    while (first < s->axes.n && m->k->axes.at[s->axes.at[first]].kind == AXIS_PARALLEL) first++;
    return axes_extent(m->k, s->axes.at + first, s->axes.n - first);
}

static bool fits_int32(const match *m) {
    int64_t n = sum_length(m)->max, most;
    return !__builtin_mul_overflow(n, magnitude(&m->f[0]) * magnitude(&m->f[1]), &most) && most < INT32_MAX;
}

// ---- what strict floating point allows
// Products of two such numbers are exact in float32, and so are products with bytes.
static bool has_few_bits(double v) {
    int exponent;
    double scaled = frexp(v, &exponent) * 0x1p12;
    return scaled == rint(scaled) && (v == 0 || (fabs(v) > 0x1p-60 && fabs(v) < 0x1p60));
}

static bool scale_is_exact(const expr *e) {
    if (e->op == X_CONST) return has_few_bits(e->f);
    const constant *c = e->op == X_READ && e->buffer->role == BUF_CONST ? e->buffer->data : NULL;
    if (!c || c->elem != DT_F32) return false;
    for (int64_t j = 0; j < (c->kind == CONST_SPLAT ? 1 : c->count); j++)
        if (!has_few_bits(constant_float(c, j))) return false;
    return true;
}

static bool rounds_the_same(const match *m) {
    int64_t most = sum_length(m)->max, product = magnitude(&m->f[0]) * magnitude(&m->f[1]);
    if (m->nscales > 2 || __builtin_mul_overflow(most, product, &most) || most > 1 << 24) return false;
    for (int j = 0; j < m->nscales; j++)
        if (!scale_is_exact(m->scale[j])) return false;
    return true;
}

static bool has_form(const kernel *k) {
    if (k->stages.n != 1 || k->locals.n || k->stages.at[0]->states.n != 1) return false;
    const stage *s = k->stages.at[0];
    const state *st = &s->states.at[0];
    return !stage_scans(k, s) && stage_writes_at_end(s) && st->op == RED_SUM && expr_is_int(st->init, 0) &&
           (st->dtype == DT_F32 || st->dtype == DT_I32);
}

// ---------------------------------------------------------------- kernels
// times * the sum over k of a function of one factor, for each position of the axes on which the factor depends.
typedef struct factor_sum {
    const match *m;
    const factor *f;
    expr *value, *times; // NULL: 1
    int naxes, axes[MAX_RANK];
} factor_sum;

// A kernel of program `to` that computes it.
static kernel *sum_kernel(const factor_sum *x, program *to, buffer *out) {
    const match *m = x->m;
    kernel *k = kernel_new(to, arena_printf(to->arena, "%s_sum", m->k->name), m->k->loc);
    stage *s = kernel_stage(k);
    expr *index[MAX_RANK];
    expr **axis = ARENA_ARRAY(to->arena, expr *, m->k->axes.n + 1); // by axis of the matched kernel
    for (int j = 0; j < x->naxes; j++) {
        const struct axis *old = &m->k->axes.at[x->axes[j]];
        index[j] = axis[x->axes[j]] = stage_own_axis(k, s, AXIS_PARALLEL, old->name, old->extent);
    }
    for (int j = 0; j < m->s->axes.n; j++) {
        const struct axis *old = &m->k->axes.at[m->s->axes.at[j]];
        if (old->kind != AXIS_REDUCE) continue;
        axis[m->s->axes.at[j]] = stage_own_axis(k, s, AXIS_REDUCE, old->name, old->extent);
    }
    expr *value = expr_substitute(k, x->value, axis, NULL);
    expr *sum = stage_reduce(k, s, RED_SUM, x_cast(k, value, DT_I32, false));
    if (x->times) sum = x_mul(k, sum, x_int(k, DT_I32, x->times->i));
    stage_write(k, s, out, index, sum);
    return k;
}

// Finds the parallel axes on which the factor depends; false: more than a buffer has.
static bool find_axes(factor_sum *x) {
    const kernel *k = x->m->k;
    for (int a = 0; a < k->axes.n; a++) {
        if (k->axes.at[a].kind != AXIS_PARALLEL || !expr_uses_axis(x->f->read, a)) continue;
        if (x->naxes == MAX_RANK) return false;
        x->axes[x->naxes++] = a;
    }
    return true;
}

static void sum_dims(const factor_sum *x, dim **dims) {
    for (int j = 0; j < x->naxes; j++) dims[j] = x->m->k->axes.at[x->axes[j]].extent;
}

// The sums of a function of a constant factor at compile time; false if that is not possible.
static bool sum_constant(const quantise *q, const factor_sum *x, tensor *result) {
    const expr *read = x->f->read;
    const buffer *b = read->buffer;
    dim *dims[MAX_RANK];
    if (b->role != BUF_CONST || read->guard || !dim_is_const(sum_length(x->m))) return false;
    sum_dims(x, dims);
    for (int j = 0; j < x->naxes; j++)
        if (!dim_is_const(dims[j])) return false;
    program *alone = program_new(q->p->module);
    buffer *data = program_buffer(alone, b->name, BUF_CONST, b->dtype, b->rank, b->dims);
    data->data = b->data;
    buffer *out = program_buffer(alone, "sum", BUF_OUTPUT, DT_I32, x->naxes, dims);
    VEC_PUSH(alone->arena, &alone->outputs, out);
    kernel *k = sum_kernel(x, alone, out);
    state *st = &k->stages.at[0]->states.at[0];
    st->step = expr_swap_reads(k, st->step, b, data);
    step_kernel(alone, alone->main, k);
    const char *message;
    return interp_program(alone, q->p->arena, NULL, result, (interp_limits){0}, &message) == INTERP_OK;
}

static buffer *constant_sum(const quantise *q, const factor_sum *x) {
    tensor result;
    if (!sum_constant(q, x, &result)) return NULL;
    constant *c = constant_new(q->p->arena, DT_I32, result.rank, result.dims);
    c->data = result.data;
    return program_constant(q->p, arena_printf(q->p->arena, "%s_sum", x->f->read->buffer->name), c);
}

// The largest sum of magnitudes of a constant factor; INT64_MAX: not known.
static int64_t largest_sum(const quantise *q, const match *m, const factor *f) {
    kernel *k = m->k;
    factor_sum x = {.m = m, .f = f};
    if (!find_axes(&x) || (f->zero && f->zero->op != X_CONST)) return INT64_MAX;
    if (sum_length(m)->max > INT32_MAX / magnitude(f)) return INT64_MAX; // it may wrap itself
    expr *value = x_cast(k, f->read, DT_I32, false);
    if (f->zero) value = x_sub(k, value, f->zero);
    x.value = x_un(k, X_ABS, value);
    tensor sums;
    if (!sum_constant(q, &x, &sums)) return INT64_MAX;
    int64_t count = 1, most = 0;
    for (int j = 0; j < sums.rank; j++) count *= sums.dims[j];
    for (int64_t j = 0; j < count; j++) {
        int64_t v = ((const int32_t *)sums.data)[j];
        most = v > most ? v : most;
    }
    return most;
}

// Bytes times integers of 16 bits in long sums: as far as the constants let them grow.
static bool constant_fits_int32(const quantise *q, const match *m) {
    for (int j = 0; j < 2; j++) {
        int64_t most = largest_sum(q, m, &m->f[j]);
        if (most < INT32_MAX / magnitude(&m->f[1 - j])) return true;
    }
    return false;
}

static bool has_half(const match *m) {
    return !dtype_is_byte(m->f[0].read->buffer->dtype) || !dtype_is_byte(m->f[1].read->buffer->dtype);
}

static bool find_match(const quantise *q, kernel *k, match *m) {
    if (!has_form(k)) return false;
    *m = (match){.k = k, .s = k->stages.at[0], .is_float = k->stages.at[0]->states.at[0].dtype == DT_F32};
    m->single = dim_is(sum_length(m), 1);
    m->takes_halves = m->is_float && sums_halves(q->t);
    if (!match_integers(m)) return false;
    if (!m->is_float) return true;
    if (!fits_int32(m) && !(has_half(m) && constant_fits_int32(q, m))) return false;
    return q->t->fp != FP_STRICT || rounds_the_same(m);
}

// times * the sum of the factor's elements, as an expression of the matched kernel; NULL if it depends on too
// many axes.
static expr *sum_of(const quantise *q, region *r, const step *at, const match *m, const factor *f,
                    expr *times) {
    factor_sum x = {.m = m, .f = f, .value = f->read, .times = times};
    expr *index[MAX_RANK];
    dim *dims[MAX_RANK];
    if (!find_axes(&x)) return NULL;
    sum_dims(&x, dims);
    for (int j = 0; j < x.naxes; j++) index[j] = x_axis(m->k, x.axes[j]);
    buffer *b = constant_sum(q, &x);
    if (!b) {
        const char *name = arena_printf(q->p->arena, "%s.sum", f->read->buffer->name);
        b = program_temp(q->p, name, DT_I32, x.naxes, dims);
        b->region = f->read->buffer->region;
        if (b->role == BUF_HEAP) step_insert(q->p, r, step_index(r, at), STEP_ALLOC, m->k->loc)->buffer = b;
        insert_kernel(q->p, r, step_index(r, at), sum_kernel(&x, q->p, b));
    }
    return x_read(m->k, b, index);
}

// ---------------------------------------------------------------- rewriting
static bool is_const(const expr *e) { return e && e->op == X_CONST; }

// A constant of the same numbers in 16 bits; NULL: they do not fit.
static buffer *narrowed(program *p, const buffer *b) {
    constant *c = constant_new(p->arena, DT_I16, b->data->rank, b->data->dims);
    for (int64_t j = 0; j < c->count; j++) {
        int64_t v = constant_int(b->data, j);
        if (v < INT16_MIN || v > INT16_MAX) return NULL;
        eval_store(DT_I16, (void *)c->data, j, (cell){.i = v});
    }
    return program_constant(p, b->name, c);
}

// sum * zero, from sums of 16 bits where constants take scarce flash.
static expr *narrow_product(const quantise *q, kernel *k, const expr *sum, expr *zero) {
    buffer *narrow =
        q->t->freestanding && sum->buffer->role == BUF_CONST ? narrowed(q->p, sum->buffer) : NULL;
    if (!narrow) return NULL;
    return x_mul(k, x_cast(k, x_read(k, narrow, sum->index), DT_I32, false), zero);
}

// ---- weights of single channels
// Whether each reduce axis along which the read moves is part of a window, as in a depthwise convolution: sums of its elements
// would be as many as results, and its products are not taken in groups.
static bool is_window(const match *m, const expr *read) {
    const kernel *k = m->k;
    for (int r = 0; r < k->axes.n; r++) {
        if (k->axes.at[r].kind != AXIS_REDUCE || dim_is(k->axes.at[r].extent, 1)) continue;
        for (int d = 0; d < read->buffer->rank; d++) {
            bool slides = false;
            for (int o = 0; o < k->axes.n; o++)
                slides |= k->axes.at[o].kind == AXIS_PARALLEL && expr_uses_axis(read->index[d], o);
            if (expr_uses_axis(read->index[d], r) && !slides) return false;
        }
    }
    return true;
}

// Whether few results share the sums of what the read reads, as those of a channel of a depthwise convolution.
static bool has_few_results(const kernel *k, const expr *read) {
    enum { FEW = 4 };
    dim *n = dim_const(k->program->dims, 1);
    for (int a = 0; a < k->axes.n; a++)
        if (k->axes.at[a].kind == AXIS_PARALLEL && !index_uses_axis(read, a))
            n = dim_mul(n, k->axes.at[a].extent);
    return n->max <= FEW;
}

// The element of a constant that is read beside element j of `at`'s buffer. false: not found.
static bool element_beside(const expr *at, const expr *read, int64_t j, int64_t *value) {
    const buffer *z = read->buffer, *b = at->buffer;
    if (z->role != BUF_CONST || z->view_of || read->guard || !dtype_is_int(z->dtype)) return false;
    int64_t place = 0;
    for (int i = 0; i < z->rank; i++) {
        const expr *index = read->index[i];
        int d = index->op == X_AXIS ? dim_of_axis(b, at->index, index->axis, true) : -1;
        if (d < 0 && !expr_is_int(index, 0)) return false;
        int64_t below = 1;
        for (int x = b->rank - 1; x > d; x--) below *= dim_value(b->dims[x]);
        place = place * dim_value(z->dims[i]) + (d < 0 ? 0 : j / below % dim_value(b->dims[d]));
    }
    *value = constant_int(z->data, place);
    return true;
}

// The zero point of that element: a number, an element of a constant, or a difference of such, as after flipped signs.
static bool zero_of_element(const expr *at, const expr *zero, int64_t j, int64_t *value) {
    int64_t x, y;
    if (zero->op == X_CAST) return dtype_is_int(zero->dtype) && zero_of_element(at, zero->arg[0], j, value);
    if (zero->op == X_READ) return element_beside(at, zero, j, value);
    if (zero->op == X_CONST) *value = zero->i;
    if (zero->op != X_ADD && zero->op != X_SUB) return zero->op == X_CONST;
    if (!zero_of_element(at, zero->arg[0], j, &x) || !zero_of_element(at, zero->arg[1], j, &y)) return false;
    *value = zero->op == X_ADD ? x + y : x - y;
    return true;
}

// A constant of bytes less their zero points. NULL: these are not constants, or too far from bytes.
static buffer *centred(program *p, const expr *read, const expr *zero) {
    const buffer *b = read->buffer;
    constant *c = constant_new(p->arena, DT_I16, b->data->rank, b->data->dims);
    for (int64_t j = 0, z = 0; j < c->count; j++) {
        if (!zero_of_element(read, zero, j, &z)) return NULL;
        int64_t centred = constant_int(b->data, j) - z;
        if (centred < INT16_MIN || centred > INT16_MAX) return NULL;
        eval_store(DT_I16, (void *)c->data, j, (cell){.i = centred});
    }
    return program_constant(p, b->name, c);
}

// Sums of windows that few results share take as long as the products, and on bare machines scarce memory: the zero point is
// subtracted from the weights instead, which become integers of 16 bits.
static void move_zero_to_weights(const quantise *q, match *m) {
    for (int j = 0; j < 2; j++) {
        factor *f = &m->f[j];
        const buffer *b = f->read->buffer;
        const expr *other = m->f[1 - j].read;
        if (!f->zero || b->role != BUF_CONST || b->view_of || f->read->guard || dtype_bits(b->dtype) != 8 ||
            !is_window(m, other))
            continue;
        buffer *to =
            q->t->freestanding || has_few_results(m->k, other) ? centred(q->p, f->read, f->zero) : NULL;
        if (!to) continue;
        f->read = x_read(m->k, to, f->read->index);
        f->zero = NULL;
    }
}

// acc - the zero point of factor j * the sum of the other factor; NULL: impossible.
static expr *subtract_zero(const quantise *q, region *r, const step *at, const match *m, expr *acc, int j) {
    kernel *k = m->k;
    const factor *f = &m->f[1 - j];
    expr *zero = m->f[j].zero;
    if (!zero) return acc;
    bool narrows = q->t->freestanding && is_const(zero) && f->read->buffer->role == BUF_CONST;
    expr *sum = sum_of(q, r, at, m, f, is_const(zero) && !narrows ? zero : NULL);
    if (!sum) return NULL;
    expr *product = narrows ? narrow_product(q, k, sum, zero) : NULL;
    if (product) return x_sub(k, acc, product);
    if (narrows) sum = sum_of(q, r, at, m, f, zero);
    return x_sub(k, acc, is_const(zero) ? sum : x_mul(k, sum, zero));
}

static expr *corrected(const quantise *q, region *r, const step *at, const match *m) {
    kernel *k = m->k;
    expr *acc = x_state(k, 0, DT_I32), *za = m->f[0].zero, *zb = m->f[1].zero;
    for (int j = 0; j < 2 && acc; j++) acc = subtract_zero(q, r, at, m, acc, j);
    if (!acc || !za || !zb) return acc;
    expr *length = x_cast(k, x_dim(k, sum_length(m)), DT_I32, false);
    return x_add(k, acc, x_mul(k, length, x_mul(k, za, zb)));
}

static void rewrite(const quantise *q, region *r, const step *at, match *m) {
    kernel *k = m->k;
    move_zero_to_weights(q, m);
    expr *now = corrected(q, r, at, m);
    if (!now) return;
    if (m->is_float) now = x_cast(k, now, DT_F32, false);
    expr *scale = m->nscales ? m->scale[0] : NULL;
    for (int j = 1; j < m->nscales; j++) scale = x_mul(k, scale, m->scale[j]);
    if (scale) now = x_mul(k, now, scale);
    for (int j = 0; j < m->s->writes.n; j++) {
        write *w = &m->s->writes.at[j];
        w->value = expr_substitute(k, w->value, NULL, now);
        if (w->guard) w->guard = expr_substitute(k, w->guard, NULL, now);
    }
    expr *a = x_cast(k, m->f[0].read, DT_I32, false), *b = x_cast(k, m->f[1].read, DT_I32, false);
    state *st = &m->s->states.at[0];
    st->dtype = DT_I32;
    st->init = x_int(k, DT_I32, 0);
    st->step = x_mul(k, a, b);
}

// ---------------------------------------------------------------- signs
typedef struct flip {
    const quantise *q;
    kernel *k;
    const buffer *from; // NULL: all roots with a preferred signedness
    buffer *to;
} flip;

static bool has_preference(const flip *f, const buffer *b) {
    return b->role != BUF_LOCAL && b->role != BUF_CONST && f->q->sign[buffer_root(b)->id] &&
           dtype_is_byte(b->dtype);
}

// What surrounds an image whose signedness has changed, as an element of it: a zero point that has changed, too, is read as it is.
static expr *flipped_fill(kernel *k, expr *fill, const buffer *image) {
    int added;
    expr *stored = stored_bytes(fill, &added);
    bool same = stored && stored->op == X_READ && stored->buffer->dtype == image->dtype;
    return same ? x_read(k, stored->buffer, stored->index) : flipped_value(k, fill, image->dtype);
}

// Reads of a buffer whose signedness has changed: recovers the old value.
static expr *flip_read(void *user, kernel *k, const expr *read) {
    const flip *f = user;
    if (f->from ? read->buffer != f->from : !has_preference(f, read->buffer)) return NULL;
    buffer *to = f->from ? f->to : read->buffer;
    if (read->dtype == to->dtype) return NULL;
    expr *fill = read->guard ? flipped_fill(k, read->fill, to) : NULL;
    return flipped_value(k, x_read_guarded(k, to, read->index, read->guard, fill), read->dtype);
}

static void flip_kernel(flip *f, bool writes) {
    kernel_rewrite_reads(f->k, flip_read, f);
    write_list all = kernel_write_list(f->k);
    for (int j = 0; writes && j < all.n; j++) {
        write *w = all.at[j];
        if (has_preference(f, w->to) && w->value->dtype != w->to->dtype)
            w->value = flipped_value(f->k, w->value, w->to->dtype);
    }
}

static buffer *flipped_constant(quantise *q, const buffer *b) {
    buffer *known = map_get_number(&q->flipped, (uint64_t)b->id);
    if (known) return known;
    dtype t = b->dtype == DT_U8 ? DT_I8 : DT_U8;
    constant *c = constant_new(q->p->arena, t, b->data->rank, b->data->dims);
    for (int64_t j = 0; j < c->count; j++) ((uint8_t *)c->data)[j] = (uint8_t)constant_int(b->data, j) ^ 128;
    buffer *made = program_buffer(q->p, b->name, BUF_CONST, t, b->rank, b->dims);
    made->data = c;
    map_put_number(&q->flipped, (uint64_t)b->id, made);
    return made;
}

static void flip_constant(quantise *q, kernel *k, const buffer *b) {
    flip f = {q, k, b, flipped_constant(q, b)};
    flip_kernel(&f, false);
}

// Records the preferred signedness of an operand; false if another kernel needs the opposite, or it cannot
// change.
static bool prefer_sign(quantise *q, const buffer *b, int sign) {
    const buffer *root = buffer_root(b);
    if (root->role != BUF_TEMP || q->uses->of[root->id].by_others || q->sign[root->id] == -sign) return false;
    q->sign[root->id] = (int8_t)sign;
    return true;
}

static void prefer_signed(quantise *q, kernel *k, const buffer *b) {
    if (b->role != BUF_CONST) prefer_sign(q, b, -1);
    else if (b->dtype == DT_U8) flip_constant(q, k, b);
}

static bool is_everywhere(const expr *e, int64_t v) {
    while (e->op == X_CAST) e = e->arg[0];
    if (e->op == X_CONST) return e->i == v;
    if (e->op != X_READ || e->buffer->role != BUF_CONST || !dtype_is_int(e->buffer->dtype)) return false;
    const constant *c = e->buffer->data;
    for (int64_t j = 0; j < c->count; j++)
        if (constant_int(c, j) != v) return false;
    return true;
}

// Weights whose zero point becomes 0, so that no sums of the other operand are needed.
static void centre_weights(quantise *q, kernel *k, const match *m) {
    for (int j = 0; j < 2; j++) {
        const buffer *b = m->f[j].read->buffer;
        bool centred =
            b->role == BUF_CONST && b->dtype == DT_U8 && m->f[j].zero && is_everywhere(m->f[j].zero, 128);
        if (centred) flip_constant(q, k, b);
    }
}

// Of a zero point around an image, too: an image can have a halo of elements of another buffer, but not of a function of these.
static void prefer_sign_around(quantise *q, const expr *read) {
    int8_t sign = q->sign[buffer_root(read->buffer)->id];
    const expr *fill = read->guard ? read->fill : NULL;
    if (sign && fill && fill->op == X_READ && fill->buffer->dtype == read->buffer->dtype)
        prefer_sign(q, fill->buffer, sign);
}

static void choose_signs_of(quantise *q, kernel *k, const match *found) {
    match m = *found;
    buffer *a = m.f[0].read->buffer, *b = m.f[1].read->buffer;
    if (q->t->freestanding && !q->t->vector_bits) {
        centre_weights(q, k, &m);
        return;
    }
    if (q->t->arch.dot_signed) {
        prefer_signed(q, k, a);
        prefer_signed(q, k, b);
        return;
    }
    if (a->dtype != b->dtype) { // already right: neither may change
        for (int j = 0; j < 2; j++)
            prefer_sign(q, m.f[j].read->buffer, m.f[j].read->buffer->dtype == DT_U8 ? 1 : -1);
        return;
    }
    int sign = a->dtype == DT_I8 ? 1 : -1;
    if (sign > 0 && !q->t->arch.dot_unsigned) return; // others multiply signed by signed as well
    if (sign < 0 && b->role == BUF_CONST) flip_constant(q, k, b);
    else if (sign < 0 && a->role == BUF_CONST) flip_constant(q, k, a);
    else if (!prefer_sign(q, a, sign)) prefer_sign(q, b, sign);
}

static void choose_signs(quantise *q, kernel *k) {
    match m;
    if (!find_match(q, k, &m)) return;
    choose_signs_of(q, k, &m);
    for (int j = 0; j < 2; j++) prefer_sign_around(q, m.f[j].read);
}

static void flip_signs(quantise *q) {
    int nkernels = q->p->kernels.n, nbuffers = q->p->buffers.n;
    q->sign = ARENA_ARRAY(q->scratch, int8_t, nbuffers + 1);
    for (int j = 0; j < nkernels; j++) choose_signs(q, q->p->kernels.at[j]);
    for (int j = 0; j < nbuffers; j++) {
        buffer *b = q->p->buffers.at[j];
        int8_t sign = q->sign[buffer_root(b)->id];
        if (sign && dtype_is_byte(b->dtype)) b->dtype = sign > 0 ? DT_U8 : DT_I8;
    }
    for (int j = 0; j < nkernels; j++) flip_kernel(&(flip){q, q->p->kernels.at[j], NULL, NULL}, true);
}

// ---------------------------------------------------------------- storage
// A temporary that holds f(byte) for every element is stored as bytes, and f moves to its readers: fusion
// also appends a DequantizeLinear to its producer. The same for integers of 16 bits, whose products find_match takes.
typedef struct storage {
    write *w; // the only write
    kernel *k;
    int writes;
    expr *value, *byte; // as originally written
} storage;

static bool is_varying(const expr *e) {
    if (e->op == X_READ) return e->buffer->role == BUF_LOCAL || e->buffer->role == BUF_HEAP;
    return e->op == X_AXIS || e->op == X_STATE || e->op == X_OTHER || e->op == X_CHECK;
}
static bool varies(expr *e) {
    arena *scratch = arena_new();
    expr_list nodes = expr_nodes(scratch, e);
    bool found = false;
    for (int j = 0; j < nodes.n && !found; j++) found = is_varying(nodes.at[j]);
    arena_destroy(scratch);
    return found;
}

static bool is_stored(const quantise *q, dtype t) {
    return dtype_is_byte(t) || (is_half(t) && sums_halves(q->t));
}

// A byte that a float became, or one of another temporary or of several.
static bool makes_byte(const quantise *q, const expr *e) {
    if (e->op == X_CAST) return is_stored(q, e->to) && dtype_is_float(e->arg[0]->dtype);
    if (e->op == X_READ && e->buffer->role != BUF_TEMP) return false;
    return is_stored(q, e->dtype) && (e->op == X_READ || e->op == X_SELECT);
}

// The byte that e is a function of, by operations with invariant operands, and so many with two functions of it.
static expr *byte_under(const quantise *q, expr *e, int *several) {
    if (makes_byte(q, e)) return e;
    int n = expr_arity(e->op);
    if (n == 0 || n > 2 || e->op == X_CHECK) return NULL;
    bool first = varies(e->arg[0]), second = n == 2 && varies(e->arg[1]);
    if (first && second && (*several)-- <= 0) return NULL;
    expr *x = first ? byte_under(q, e->arg[0], several) : NULL;
    expr *y = second && (x || !first) ? byte_under(q, e->arg[1], several) : NULL;
    if (first && second) return x == y ? x : NULL;
    return first ? x : y;
}

// Whether no stage of the kernel has more positions than b has elements: none is computed again.
static bool reads_once(const kernel *k, const buffer *b) {
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        dim *positions = axes_extent(k, s->axes.at, s->axes.n);
        for (int a = 0; a < k->nouter; a++) positions = dim_mul(positions, k->axes.at[a].extent);
        if (dim_less_equal(positions, buffer_count(b)) != TRI_YES) return false;
    }
    return true;
}

// On bare machines with floating point, memory counts more than a function of a byte, which becomes a table, for each of a few
// readers.
static int several_functions(const quantise *q, const buffer *b) {
    enum { MOST = 8, READERS = 3 };
    const site_list *all = &q->uses->of[b->id].sites;
    bool few = q->t->freestanding && q->t->f32 && all->n <= READERS && !q->uses->of[b->id].viewed;
    for (int j = 0; j < all->n && few; j++)
        few = all->at[j]->s->kind == STEP_KERNEL && reads_once(all->at[j]->s->kernel, b);
    return few ? MOST : 0;
}

static read_map restore_read;

// f(byte) of another kernel as a function of `now` in kernel k; of: by id of the root buffer.
static expr *apply_to(kernel *k, storage *of, expr *e, const expr *byte, expr *now) {
    if (e == byte) return now;
    if (!varies(e)) return expr_rewrite_reads(k, e, restore_read, of);
    expr *a = apply_to(k, of, e->arg[0], byte, now),
         *b = expr_arity(e->op) == 2 ? apply_to(k, of, e->arg[1], byte, now) : NULL;
    if (e->op == X_CAST) return x_cast(k, a, e->to, e->saturate);
    if (e->op == X_ROUND_TO) return x_round_to(k, a, e->to, e->saturate);
    if (e->op == X_BITCAST) return x_bitcast(k, a, e->dtype);
    return b ? x_bin(k, e->op, a, b) : x_un(k, e->op, a);
}

static expr *restore_read(void *user, kernel *k, const expr *read) {
    storage *of = user;
    if (read->buffer->role != BUF_TEMP) return NULL;
    const storage *s = &of[buffer_root(read->buffer)->id];
    if (!s->byte || read->dtype == read->buffer->dtype) return NULL;
    expr *byte = x_read_guarded(k, read->buffer, read->index, read->guard, NULL);
    expr *v = apply_to(k, of, s->value, s->byte, byte);
    return read->guard ? x_select(k, read->guard, v, read->fill) : v;
}

static void find_writes(storage *of, kernel *k) {
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++) {
        if (all.at[j]->to->role != BUF_TEMP) continue;
        storage *s = &of[buffer_root(all.at[j]->to)->id];
        s->w = all.at[j], s->k = k, s->writes++;
    }
}

static void narrow_storage(quantise *q) {
    int n = q->p->buffers.n;
    storage *of = ARENA_ARRAY(q->scratch, storage, n + 1);
    for (int j = 0; j < q->p->kernels.n; j++) find_writes(of, q->p->kernels.at[j]);
    for (int j = 0; j < n; j++) {
        storage *s = &of[j];
        if (s->writes != 1 || q->uses->of[j].by_others || s->w->combine != COMBINE_SET ||
            (s->w->to->dtype != DT_F32 && s->w->to->dtype != DT_I32))
            continue;
        int several = several_functions(q, q->p->buffers.at[j]);
        s->byte = byte_under(q, s->w->value, &several);
        if (s->byte && kernel_reads(s->k, s->w->to)) s->byte = NULL;
        s->value = s->w->value;
    }
    for (int j = 0; j < n; j++) {
        buffer *b = q->p->buffers.at[j];
        const storage *s = &of[buffer_root(b)->id];
        if (s->byte) b->dtype = s->byte->op == X_CAST ? s->byte->to : s->byte->dtype;
    }
    for (int j = 0; j < n; j++)
        if (of[j].byte) of[j].w->value = of[j].byte;
    for (int j = 0; j < q->p->kernels.n; j++) kernel_rewrite_reads(q->p->kernels.at[j], restore_read, of);
}

// ---------------------------------------------------------------- entry
static void rewrite_kernels(quantise *q) {
    step_list steps = program_steps(q->scratch, q->p);
    for (int j = 0; j < steps.n; j++) {
        const step *s = steps.at[j].s;
        match m;
        if (s->kind != STEP_KERNEL || !has_form(s->kernel)) continue;
        if (find_match(q, s->kernel, &m)) rewrite(q, steps.at[j].region, s, &m);
        else quantise_weights(s->kernel, q->t->fp == FP_STRICT);
    }
}

static void run(const pass_context *c, void (*part)(quantise *q)) {
    quantise q = {.p = c->program, .t = c->target, .scratch = arena_new()};
    q.flipped.arena = q.scratch;
    q.uses = uses_build(q.scratch, q.p);
    part(&q);
    arena_destroy(q.scratch);
}

void pass_narrow(pass_context *c) { run(c, narrow_storage); }
void pass_signs(pass_context *c) { run(c, flip_signs); }
void pass_products(pass_context *c) { run(c, rewrite_kernels); }
