// Products of few rows with weights of at most 8 bits, as sums of bytes. In: a contraction in f32 whose B is a constant
// of integers less zero points, times scales. Out, for each number of rows up to DIGIT_ROWS:
//
//   for r: a[r][k] = 2^e[r] * (d3 * 2^24 + d2 * 2^16 + d1 * 2^8 + d0), digits in -128..127       once a call
//   for columns, for blocks of K:
//     s[j] = -offset * sum of the block's d[j]
//     for k in the block: s[j] = dot4(s[j], B + offset, d[j][k .. k+4])                          exact in i32
//     acc += (((s3 * 256 + s2) * 256 + s1) * 256 + s0) * scale of the block
//   write f(acc * 2^e[r])
//
// A conversion to f32 costs an instruction or two for each vector of weights, which takes longer than reading it from
// memory does. Four digits are a fixed-point number: an element is off by at most 2^-31 of its row's largest magnitude, and those
// above 2^-7 of that keep all bits of f32.
#include "passes/schedule/cpu/contract_digits.h"
#include "compiler/base/round.h"
#include "ir/loops/convert.h"

enum { DIGITS = 4, BYTE = 8, MOST_K = 1 << 16 };

// ---------------------------------------------------------------- which
static int bits_of(const contraction *c) { return dtype_bits(c->b->buffer->dtype); }
static bool is_signed(const contraction *c) { return dtype_is_signed(c->b->buffer->dtype); }
static int half_of(const contraction *c) { return 1 << (bits_of(c) - 1); }
// Elements in a word of B, and words of digits beside it.
static int group_of(const contraction *c) { return WORD_BITS / bits_of(c); }
static int parts_of(const contraction *c) { return BYTE / bits_of(c); }

// The number of positions of K; 0: this kind of contraction has no digits.
static int64_t depth_of(const target *t, const contraction *c) {
    int64_t k = positions(c->k, &c->k_axes), m = positions(c->k, &c->m);
    bool types = c->s->states.at[0].dtype == DT_F32 && c->a->buffer->dtype == DT_F32 && bits_of(c) <= BYTE &&
                 dtype_is_int(c->b->buffer->dtype) && c->b->buffer->role == BUF_CONST &&
                 !c->b->buffer->view_of;
    bool unit = t->vnni && t->arch.dot == DOT_X86 && target_lanes(t, 32) >= group_of(c);
    bool allowed = t->fp == FP_FAST || (t->fp != FP_STRICT && t->precision != PRECISION_OWN);
    bool form =
        c->n >= 0 && c->term_a == c->a && !c->a->guard && !c->b->guard && !c->batch.n && !c->other_n.n;
    return types && unit && allowed && form && k > 0 && k <= MOST_K && m > 0 &&
                   (m == INT64_MAX || m <= DIGIT_ROWS)
               ? k
               : 0;
}

// ---------------------------------------------------------------- memory
// Of each row: digits, negative offsets times their sums in the order of a vector of digits, sums as f32.
static int64_t row_digits(const target *t, int64_t k) { return round_up(k, target_lanes(t, 32)); }
static int64_t row_words(const target *t, int64_t k) {
    int64_t vectors = row_digits(t, k) / target_lanes(t, 32);
    return 2 * row_digits(t, k) + round_up(vectors, target_lanes(t, 32));
}

int64_t digit_bytes(const target *t, const contraction *c) {
    int64_t k = depth_of(t, c), row_scales = 2 * DIGIT_ROWS;
    return k ? (DIGIT_ROWS * row_words(t, k) + row_scales) * (int64_t)sizeof(int32_t) : 0;
}

static ins *words_at(const tiling *t, int64_t at) {
    return lb_offset(&t->e->b, t->digits.at, lb_idx(&t->e->b, at), 4);
}
static ins *row_at(const tiling *t, ins *r, int64_t words) {
    return lb_offset(&t->e->b, words_at(t, words), r, t->digits.row * (int64_t)sizeof(int32_t));
}
static ins *digits_of_row(const tiling *t, ins *r) { return row_at(t, r, 0); }
static ins *sums_of_row(const tiling *t, ins *r) { return row_at(t, r, t->digits.depth); }
static ins *totals_of_row(const tiling *t, ins *r) { return row_at(t, r, 2 * t->digits.depth); }
static ins *scales_of_rows(const tiling *t) { return words_at(t, DIGIT_ROWS * t->digits.row); }

// ---------------------------------------------------------------- does it fit
// Whether e is q - *zero for all elements q of B.
static bool is_difference(const contraction *c, const expr *e, int64_t *zero) {
    if (e->dtype != DT_F32 || !word_is_function_of(e, c->b)) return false;
    for (int code = 0; code < 1 << bits_of(c); code++) {
        int q = is_signed(c) && code >= half_of(c) ? code - 2 * half_of(c) : code;
        double v = word_value(e, c->b, code), least = (double)q - 2 * half_of(c),
               most = (double)q + 2 * half_of(c);
        if (!(v >= least && v <= most) || v != (double)(int64_t)v) return false;
        if (code && *zero != q - (int64_t)v) return false;
        *zero = q - (int64_t)v;
    }
    return true;
}

// Sets the offset, which makes elements unsigned, and the zero point that is left.
static bool find_zero(tiling *t, expr *term) {
    const contraction *c = t->c;
    int64_t zero = 0, up = is_signed(c) ? half_of(c) : 0;
    int axis = t->k.at[t->k.n - 1];
    if (is_difference(c, term, &zero) && zero + up >= 0 && zero + up < 1 << BYTE) {
        t->digits.offset = (int)(zero + up);
        return true;
    }
    if (term->op != X_SUB || !is_difference(c, term->arg[0], &zero) || zero ||
        expr_uses_axis(term->arg[1], axis))
        return false;
    t->digits.offset = half_of(c);
    t->digits.zero = term->arg[1];
    return true;
}

// Whether a row's positions of K are neighbours, and B's are in panels of K's order.
static bool is_dense(const tiling *t) {
    int64_t step = 1;
    for (int j = t->k.n - 1; j >= 0; j--) {
        if (!expr_is_int(t->a->coef[t->k.at[j]], step)) return false;
        step *= dim_value(t->e->extent[t->k.at[j]]);
    }
    return t->words || panels_are_dense(t);
}

bool find_digits(tiling *t, ins *scratch) {
    const contraction *c = t->c;
    int64_t k = scratch ? depth_of(t->e->t, c) : 0;
    if (!k || !t->packed || t->m.n > 1 || (t->m.n && t->tile_m < 0) || !t->k.n || !is_dense(t)) return false;
    int axis = t->k.at[t->k.n - 1];
    int64_t inner = dim_value(t->e->extent[axis]), blocks = k / inner;
    if (t->words != (bits_of(c) < BYTE) || (t->words && axis != t->group_axis)) return false;
    if (blocks > 1 && inner % t->lanes) return false;
    if (!dim_is_const(t->e->extent[c->n])) return false;
    int64_t odd = t->lanes == PANEL ? 0 : dim_value(t->e->extent[c->n]) | t->vectors * t->lanes;
    if ((!t->words && odd % PANEL) || !rounds_to_int(t->e->t, t->lanes)) return false;
    split_word_factor(t->e, c, axis, &t->digits.factor);
    t->digits.row = row_words(t->e->t, k), t->digits.depth = row_digits(t->e->t, k);
    t->digits.inner = inner, t->digits.blocks = blocks;
    if (!find_zero(t, t->digits.factor.term)) return false;
    int64_t before = contraction_scratch(t->e->t, c) + widened_bytes(t->e->t, c);
    t->digits.at = lb_offset(&t->e->b, scratch, lb_idx(&t->e->b, before), 1);
    return true;
}

// ---------------------------------------------------------------- digits of rows
static ins *words_const(const tiling *t, int64_t v) {
    return lb_int(&t->e->b, lt(LK_I32, t->lanes), (int32_t)v);
}
static ins *as_ints(lbuild *b, ins *x) { return lb_bitcast(b, lt(LK_I32, x->type.lanes), x); }
static ins *as_floats(lbuild *b, ins *x) { return lb_bitcast(b, lt(LK_F32, x->type.lanes), x); }

// The elements of a row from position k on, n of them, NULL: a vector.
static ins *load_row(const tiling *t, ins *row, ins *k, ins *n) {
    lbuild *b = &t->e->b;
    ltype type = lt(LK_F32, t->lanes);
    return n ? lb_loadn(b, type, row, k, n) : lb_load(b, type, row, k, 4);
}

typedef struct row_pass { // over the vectors of a block of a row
    tiling *t;
    ins *row, *to;       // its elements and digits
    ins *largest, *sums; // variables
    ins *by, *lift;      // elements are multiplied by these powers of two
} row_pass;
typedef void vector_step(row_pass *p, ins *k, ins *n);

static void each_vector(row_pass *p, ins *begin, int64_t length, vector_step *step) {
    lbuild *b = &p->t->e->b;
    int64_t lanes = p->t->lanes, whole = length / lanes * lanes;
    if (whole) {
        ins *k = lb_for(b, "k", begin, idx_addk(b, begin, whole), lb_idx(b, lanes), LOOP_SERIAL);
        step(p, k, NULL);
        lb_end(b, k);
    }
    if (whole < length) step(p, idx_addk(b, begin, whole), lb_idx(b, length - whole));
}

// Magnitudes in the order of their bits, in which NaN is the largest.
static void take_largest(row_pass *p, ins *k, ins *n) {
    lbuild *b = &p->t->e->b;
    ins *size = lb_bin(b, L_AND, as_ints(b, load_row(p->t, p->row, k, n)), words_const(p->t, INT32_MAX));
    lb_set(b, p->largest, lb_bin(b, L_UMAX, lb_get(b, p->largest), size));
}

// From digits beside their elements to words of four elements each: the digits of a group one after the other.
static ins *sort_digits(const tiling *t, ins *x) {
    lbuild *b = &t->e->b;
    int mask[4 * PANEL], group = group_of(t->c), parts = parts_of(t->c), bytes = DIGITS * t->lanes;
    for (int g = 0; g < t->lanes; g += group)
        for (int j = 0; j < DIGITS; j++)
            for (int h = 0; h < parts; h++)
                for (int i = 0; i < 4; i++)
                    mask[4 * (g + j * parts + h) + i] = DIGITS * (g + parts * i + h) + j;
    ins *all = lb_bitcast(b, lt(LK_I8, bytes), x);
    return as_ints(b, lb_bitcast(b, lt(LK_I32, t->lanes), lb_shuffle(b, all, all, mask, bytes)));
}

static void split_vector(row_pass *p, ins *k, ins *n) {
    lbuild *b = &p->t->e->b;
    ltype type = lt(LK_F32, p->t->lanes);
    enum { CARRIES = 0x808080 };
    double most = (double)(1 << 30);
    ins *x = lb_mul(b, lb_mul(b, load_row(p->t, p->row, k, n), p->lift), p->by);
    x = lb_bin(b, L_FMAX, x, lb_float(b, type, -most)); // for infinities
    x = lb_bin(b, L_FMIN, x, lb_float(b, type, most));
    ins *whole = lb_conv(b, L_RINTI, LK_I32, x), *carries = words_const(p->t, CARRIES);
    ins *digits = sort_digits(p->t, lb_bin(b, L_XOR, lb_add(b, whole, carries), carries));
    lb_store(b, p->to, k, digits, 4);
    if (!p->sums) return;
    ins *offset = words_const(p->t, (int64_t)p->t->digits.offset * 0x01010101);
    lb_set(b, p->sums, lb_dot(b, L_DOT4_US, lb_get(b, p->sums), offset, digits));
}

// Each lane and those that hold other words of the same digit.
static ins *join_words(const tiling *t, ins *sums) {
    lbuild *b = &t->e->b;
    int group = group_of(t->c), parts = parts_of(t->c), mask[PANEL];
    for (int step = 1; step < t->lanes; step *= 2) {
        if (step >= parts && step < group) continue; // another digit
        for (int l = 0; l < t->lanes; l++) mask[l] = l ^ step;
        sums = lb_add(b, sums, lb_shuffle(b, sums, sums, mask, t->lanes));
    }
    return sums;
}

// s[3] ... s[0] as the digits of a number.
static ins *number_of(lbuild *b, ins *const *s) {
    ins *n = lb_conv(b, L_SITOF, LK_F32, s[DIGITS - 1]);
    ltype type = lt(LK_F32, n->type.lanes);
    for (int j = DIGITS - 2; j >= 0; j--)
        n = lb_muladd(b, n, lb_float(b, type, 256), lb_conv(b, L_SITOF, LK_F32, s[j]));
    return n;
}

static void store_sums(row_pass *p, ins *r, ins *block) {
    const tiling *t = p->t;
    lbuild *b = &t->e->b;
    ins *sums = join_words(t, lb_get(b, p->sums)), *digit[DIGITS];
    lb_store(b, sums_of_row(t, r), idx_mulk(b, block, t->lanes), lb_sub(b, words_const(t, 0), sums), 4);
    if (!t->digits.zero) return;
    for (int j = 0; j < DIGITS; j++) digit[j] = lb_extract(b, sums, j * parts_of(t->c));
    ins *one = lb_float(b, lt(LK_F32, 1), 1.0 / t->digits.offset);
    lb_store(b, totals_of_row(t, r), block, lb_mul(b, number_of(b, digit), one), 4);
}

static ins *power_of_two(lbuild *b, ins *biased_exponent) {
    enum { MANTISSA = 23 };
    return as_floats(b, lb_bin(b, L_SHL, biased_exponent, lb_int(b, lt(LK_I32, 1), MANTISSA)));
}

// Sets the powers of two by which a row is multiplied, and stores their inverses; infinite and NaN rows make the first
// of these infinite or NaN. Rows of tiny elements take two.
static void scale_row(row_pass *p, ins *r) {
    enum { MANTISSA = 23, BIAS = 127, TINY = 64, LIFT = 64, DIGIT_BITS = 30, INFINITE = 255 };
    lbuild *b = &p->t->e->b;
    ltype type = lt(LK_I32, 1);
    ins *largest = lb_hreduce(b, L_HUMAX, lb_get(b, p->largest));
    ins *exponent = lb_bin(b, L_LSHR, largest, lb_int(b, type, MANTISSA));
    ins *is_tiny = lb_cmp(b, L_SLT, exponent, lb_int(b, type, TINY));
    ins *up = lb_select(b, is_tiny, lb_int(b, type, LIFT), lb_int(b, type, 0));
    ins *near = lb_add(b, lb_bin(b, L_SMAX, exponent, lb_int(b, type, 1)), up);
    ins *by = power_of_two(b, lb_sub(b, lb_int(b, type, 2 * BIAS + DIGIT_BITS - 1), near));
    ins *back = as_ints(b, power_of_two(b, lb_sub(b, near, lb_int(b, type, DIGIT_BITS - 1))));
    ins *finite = lb_cmp(b, L_SLT, exponent, lb_int(b, type, INFINITE)), *bias = lb_int(b, type, BIAS);
    lb_store(b, scales_of_rows(p->t), r, lb_select(b, finite, back, largest), 4);
    lb_store(b, scales_of_rows(p->t), idx_addk(b, r, DIGIT_ROWS), power_of_two(b, lb_sub(b, bias, up)), 4);
    p->by = lb_splat(b, by, p->t->lanes);
    p->lift = lb_splat(b, power_of_two(b, lb_add(b, bias, up)), p->t->lanes);
}

static ins *row_start(tiling *t, ins *m) {
    emitter *e = t->e;
    scope mark = scope_open(e);
    for (int j = 0; j < t->k.n; j++) e->counter[t->k.at[j]] = lb_idx(&e->b, 0);
    if (t->tile_m >= 0) e->counter[t->tile_m] = m;
    ins *at = lb_offset(&e->b, pointer_of(e, t->c->a->buffer), emit_index(e, t->a->offset), sizeof(float));
    for (int j = 0; j < t->k.n; j++) e->counter[t->k.at[j]] = NULL;
    if (t->tile_m >= 0) e->counter[t->tile_m] = NULL;
    scope_close(e, mark);
    return at;
}

static void split_row(tiling *t, ins *m, ins *r) {
    lbuild *b = &t->e->b;
    row_pass p = {.t = t, .row = row_start(t, m), .to = digits_of_row(t, r)};
    int64_t inner = t->digits.inner, blocks = t->digits.blocks;
    p.largest = lb_var(b, "largest", words_const(t, 0));
    each_vector(&p, lb_idx(b, 0), inner * blocks, take_largest);
    scale_row(&p, r);
    if (!t->digits.offset) {
        each_vector(&p, lb_idx(b, 0), inner * blocks, split_vector);
        return;
    }
    ins *block = lb_for(b, "block", lb_idx(b, 0), lb_idx(b, blocks), lb_idx(b, 1), LOOP_SERIAL);
    p.sums = lb_var(b, "sums", words_const(t, 0));
    each_vector(&p, idx_mulk(b, block, inner), inner, split_vector);
    store_sums(&p, r, block);
    lb_end(b, block);
}

// ---------------------------------------------------------------- products
typedef struct digit_tile {
    tile x;
    ins *first;                    // number of its first row
    ins *acc[DIGIT_SUMS];          // f32, by row and vector
    ins *sum[DIGITS * DIGIT_SUMS]; // i32 of the block, by digit, row and vector
    ins *start_b;
} digit_tile;

static ins *row_of(const tiling *t, const digit_tile *d, int r) { return idx_addk(&t->e->b, d->first, r); }
static ins **sum_of(digit_tile *d, int r, int v) { return d->sum + (r * d->x.vectors + v) * DIGITS; }

// Bytes of `group` neighbours of each column, an element a byte. *left: positions that are left, NULL: enough.
static void load_words(tiling *t, const digit_tile *d, ins *at_b, ins *k, ins *left, ins **words) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int loads = PANEL / t->lanes, bytes = 4 * t->lanes, mask[4 * PANEL];
    request_ahead(t, &d->x, at_b, k, group_of(t->c));
    for (int v = 0; v < d->x.vectors; v += t->words ? 1 : loads) {
        ins *at = lb_add(b, at_b, column_offset(t, v)), *part[2] = {NULL, NULL};
        if (t->words) {
            words[v] = load_packed(e, t->c, at, t->lanes);
            continue;
        }
        ins *from = lb_offset(b, pointer_of(e, t->c->b->buffer), at, 1);
        for (int l = 0; l < loads; l++) {
            ins *begin = lb_idx(b, (int64_t)l * bytes);
            ins *some = left ? lb_sub(b, idx_mulk(b, left, PANEL), begin) : NULL;
            if (some) some = lb_bin(b, L_SMIN, lb_bin(b, L_SMAX, some, lb_idx(b, 0)), lb_idx(b, bytes));
            part[l] = some ? lb_loadn(b, lt(LK_I8, bytes), from, begin, some)
                           : lb_load(b, lt(LK_I8, bytes), from, begin, 1);
        }
        for (int l = 0; l < loads; l++) {
            for (int i = 0; i < bytes; i++) mask[i] = PANEL * (i % 4) + l * t->lanes + i / 4;
            ins *sorted = lb_shuffle(b, part[0], part[loads - 1], mask, bytes);
            words[v + l] = lb_bitcast(b, lt(LK_I32, t->lanes), sorted);
        }
    }
}

// Part h of words: bytes of one element each, without sign.
static ins *unsigned_part(const tiling *t, ins *word, int h) {
    lbuild *b = &t->e->b;
    int bits = bits_of(t->c);
    ins *low = h ? lb_bin(b, L_LSHR, word, words_const(t, (int64_t)h * bits)) : word;
    if (bits < BYTE) low = lb_bin(b, L_AND, low, words_const(t, 0x01010101 * ((1 << bits) - 1)));
    return is_signed(t->c) ? lb_bin(b, L_XOR, low, words_const(t, (int64_t)half_of(t->c) * 0x01010101)) : low;
}

// A group of neighbours along K from position k of the rows.
static void add_group(tiling *t, digit_tile *d, ins *k, ins *left) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *words[MAX_VECTORS];
    load_words(t, d, lb_add(b, emit_index(e, t->b->offset), d->start_b), k, left, words);
    for (int h = 0; h < parts_of(t->c); h++) {
        ins *u[MAX_VECTORS];
        for (int v = 0; v < d->x.vectors; v++) u[v] = unsigned_part(t, words[v], h);
        for (int r = 0; r < d->x.rows; r++)
            for (int j = 0; j < DIGITS; j++) {
                ins *at = idx_addk(b, k, (int64_t)j * parts_of(t->c) + h);
                ins *digit = lb_splat(b, lb_load(b, lt(LK_I32, 1), digits_of_row(t, row_of(t, d, r)), at, 4),
                                      t->lanes);
                for (int v = 0; v < d->x.vectors; v++) {
                    ins *sum = sum_of(d, r, v)[j];
                    lb_set(b, sum, lb_dot(b, L_DOT4_US, lb_get(b, sum), u[v], digit));
                }
            }
    }
}

static void begin_sums(tiling *t, digit_tile *d, ins *block) {
    lbuild *b = &t->e->b;
    for (int r = 0; r < d->x.rows; r++)
        for (int j = 0; j < DIGITS; j++) {
            ins *first = words_const(t, 0),
                *at = idx_addk(b, idx_mulk(b, block, t->lanes), (int64_t)j * parts_of(t->c));
            if (t->digits.offset)
                first =
                    lb_splat(b, lb_load(b, lt(LK_I32, 1), sums_of_row(t, row_of(t, d, r)), at, 4), t->lanes);
            for (int v = 0; v < d->x.vectors; v++) sum_of(d, r, v)[j] = lb_var(b, "sum", first);
        }
}

// Adds a block's sums, times its scales, to the rows' sums.
static void end_sums(tiling *t, digit_tile *d, ins *block) {
    lbuild *b = &t->e->b;
    expr *scale = t->digits.factor.scale, *zero = t->digits.zero;
    for (int v = 0; v < d->x.vectors; v++) {
        ins *by = scale ? emit_column(t, &d->x, v, scale, NULL, NULL) : NULL;
        ins *less = zero ? emit_column(t, &d->x, v, zero, NULL, NULL) : NULL;
        if (less && !is_signed(t->c)) less = lb_sub(b, less, lb_float(b, less->type, half_of(t->c)));
        for (int r = 0; r < d->x.rows; r++) {
            ins *s[DIGITS], *acc = d->acc[r * d->x.vectors + v];
            for (int j = 0; j < DIGITS; j++) s[j] = lb_get(b, sum_of(d, r, v)[j]);
            ins *n = number_of(b, s);
            if (less) {
                ins *total = lb_load(b, lt(LK_F32, 1), totals_of_row(t, row_of(t, d, r)), block, 4);
                n = lb_sub(b, n, lb_mul(b, less, lb_splat(b, total, t->lanes)));
            }
            lb_set(b, acc, by ? lb_muladd(b, n, by, lb_get(b, acc)) : lb_add(b, lb_get(b, acc), n));
        }
    }
}

static void block_sums(tiling *t, digit_tile *d, ins *block) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int axis = t->k.at[t->k.n - 1], group = group_of(t->c);
    int64_t inner = t->digits.inner, whole = inner / group * group;
    ins *first = idx_mulk(b, block, inner);
    unsigned sides = load_sides(t, &d->x);
    emit_hoist(e, t->b->offset);
    begin_sums(t, d, block);
    if (whole) {
        scope loop = scope_axis(e, axis, lb_idx(b, 0), lb_idx(b, whole), group, LOOP_SERIAL);
        add_group(t, d, lb_add(b, first, loop.head), NULL);
        scope_close(e, loop);
    }
    if (whole < inner) {
        scope rest = scope_open(e);
        e->counter[axis] = lb_idx(b, whole);
        add_group(t, d, idx_addk(b, first, whole), lb_idx(b, inner - whole));
        scope_close(e, rest);
    }
    e->counter[axis] = NULL;
    end_sums(t, d, block);
    forget_sides(t, sides);
}

// block: that of the positions of the axes outside of `depth`.
static void digit_loops(tiling *t, digit_tile *d, int depth, ins *block) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    if (depth == t->k.n - 1) {
        block_sums(t, d, block);
        return;
    }
    int a = t->k.at[depth];
    int64_t n = dim_value(e->extent[a]);
    unsigned sides = load_sides(t, &d->x);
    emit_hoist(e, t->b->offset);
    scope loop = scope_axis(e, a, lb_idx(b, 0), lb_idx(b, n), 1, LOOP_SERIAL);
    digit_loops(t, d, depth + 1, lb_add(b, idx_mulk(b, block, n), loop.head));
    scope_close(e, loop);
    e->counter[a] = NULL;
    forget_sides(t, sides);
}

// The rows of a tile are those from number `first` on.
static void digit_kernel(tiling *t, const tile *x, ins *first) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    digit_tile d = {.x = *x, .first = first};
    scope mark = scope_open(e);
    if (t->tile_m >= 0) e->counter[t->tile_m] = x->m0;
    e->counter[t->c->n] = x->n0;
    d.start_b = first_column(t, x);
    for (int j = 0; j < x->rows * x->vectors; j++)
        d.acc[j] = lb_var(b, "acc", emit_zero(b, lt(LK_F32, t->lanes)));
    digit_loops(t, &d, 0, lb_idx(b, 0));
    for (int j = 0; j < x->rows * x->vectors; j++) {
        for (int step = 0; step < 2; step++) {
            ins *row = idx_addk(b, row_of(t, &d, j / x->vectors), step * DIGIT_ROWS);
            ins *back = lb_splat(b, lb_load(b, lt(LK_F32, 1), scales_of_rows(t), row, 4), t->lanes);
            lb_set(b, d.acc[j], lb_mul(b, lb_get(b, d.acc[j]), back));
        }
    }
    scope_close(e, mark);
    write_tile(t, x, d.acc);
    if (t->tile_m >= 0) e->counter[t->tile_m] = NULL;
    e->counter[t->c->n] = NULL;
}

// ---------------------------------------------------------------- rows and columns
// Vectors of a tile: their sums, four of integers and one of floats each, and operands fit the registers.
static int vectors_of(const tiling *t, int rows) {
    int v = t->vectors, least = t->words ? 1 : PANEL / t->lanes;
    while (v > least && (t->vectors % v || v * t->lanes % PANEL ||
                         rows * v * (DIGITS + 1) + 2 * v + 2 > t->e->t->vector_regs))
        v--;
    return v;
}

static void rows_from(tiling *t, tile x, ins *first, int rows) {
    x.rows = rows;
    x.m0 = lb_add(&t->e->b, x.m0, first);
    digit_kernel(t, &x, first);
}

// x.rows 0: m rows, in tiles of as many as fit, and one of the rest.
static void row_tiles(tiling *t, const tile *x, ins *m) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    if (x->rows) {
        digit_kernel(t, x, lb_idx(b, 0));
        return;
    }
    ins *whole = emit_int_floor(b, m, DIGIT_TILE), *left = lb_sub(b, m, whole);
    scope loop = scope_for(e, "m", lb_idx(b, 0), whole, DIGIT_TILE, LOOP_PARALLEL);
    rows_from(t, *x, loop.head, DIGIT_TILE);
    scope_close(e, loop);
    for (int rows = 1; rows < DIGIT_TILE; rows++) {
        if (left->op == L_CONST && left->i != rows) continue;
        scope some = scope_if(e, left->op == L_CONST ? NULL : lb_cmp(b, L_EQ, left, lb_idx(b, rows)));
        rows_from(t, *x, whole, rows);
        scope_close(e, some);
    }
}

static void digit_columns(tiling *t, tile x, ins *m) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int64_t width = (int64_t)x.vectors * t->lanes, n = dim_value(e->extent[t->c->n]), rest = n % width;
    ins *begin, *end;
    piece_range(e, t->c->n, columns_of_task(t), &begin, &end);
    ins *full = rest ? lb_add(b, begin, emit_int_floor(b, lb_sub(b, end, begin), width)) : end;
    if (n >= width) {
        scope loop = scope_for(e, "n", begin, full, width, LOOP_PARALLEL);
        x.n0 = loop.head;
        row_tiles(t, &x, m);
        scope_close(e, loop);
    }
    if (!rest) return;
    scope some = scope_if(e, lb_cmp(b, L_SLT, full, end));
    x.n0 = lb_idx(b, n - rest);
    x.vectors = (int)((rest + t->lanes - 1) / t->lanes);
    x.last = rest % t->lanes ? lb_idx(b, rest % t->lanes) : NULL;
    row_tiles(t, &x, m);
    scope_close(e, some);
}

// The rows of this call.
static ins *rows_of_call(tiling *t, ins **begin) {
    ins *end = lb_idx(&t->e->b, 1);
    *begin = lb_idx(&t->e->b, 0);
    if (t->tile_m >= 0) piece_range(t->e, t->tile_m, t->row_piece, begin, &end);
    return lb_sub(&t->e->b, end, *begin);
}

void digit_rows(tiling *t) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *begin, *m = rows_of_call(t, &begin);
    scope each = scope_for(e, "row", lb_idx(b, 0), m, 1, LOOP_SERIAL);
    split_row(t, lb_add(b, begin, each.head), each.head);
    scope_close(e, each);
    for (int rows = 1; rows <= DIGIT_TILE; rows++) {
        bool last = rows == DIGIT_TILE, known = m->op == L_CONST;
        if (known && m->i != rows && !(last && m->i > rows)) continue;
        ins *is = known ? NULL : lb_cmp(b, last ? L_SLE : L_EQ, lb_idx(b, rows), m);
        scope some = scope_if(e, is);
        digit_columns(t, (tile){.rows = last ? 0 : rows, .vectors = vectors_of(t, rows), .m0 = begin}, m);
        scope_close(e, some);
    }
}

ins *digit_rows_only(tiling *t) {
    ins *begin, *m = rows_of_call(t, &begin);
    return m->op == L_CONST ? NULL : lb_cmp(&t->e->b, L_SLE, m, lb_idx(&t->e->b, DIGIT_ROWS));
}
