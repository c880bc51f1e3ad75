// Rows of f32 as integers of four signed bytes, in segments along K that each have a power of two. For each row:
//
//   for segments:
//     e = that of the largest magnitude, less 29
//     for k in the segment:
//       n = round(a[k] * 2^-e) = d3 * 2^24 + d2 * 2^16 + d1 * 2^8 + d0, digits in -128..127
//       rest = a[k] - n * 2^e                                                                    exact
//       if |rest| > 2^-22 |a[k]|: list k and rest
//
// Elements above 2^-7 of their segment's largest magnitude keep all bits, and those above 2^-9 all but the last two; what
// smaller ones lack is listed, so that no element, and no product with it, is off by more than 2^-22 of itself: less than
// the rounding errors of a sum in f32. Rows with too long a list, or with a segment that is infinite, NaN or out of the
// range in which powers of two are exact, are not multiplied in this way.
#include "compiler/base/integers.h"
#include "ir/loops/convert.h"
#include "passes/schedule/cpu/contract_digits.h"

// ---------------------------------------------------------------- memory
// Of each row: digits; of each segment negative offsets times the sums of its digits in the order of a vector of digits,
// these sums as f32, and a power of two; positions and values of what is listed, and their number.
typedef struct row_layout {
    int64_t digits, offsets, totals, powers, places, rests, count, words;
} row_layout;

static int64_t room_for(int64_t k) { return k / 16 + 4; }

static row_layout layout_of(const target *t, int64_t k) {
    int64_t lanes = target_lanes(t, 32), depth = round_up(k, lanes), segments = depth / lanes;
    row_layout l = {.offsets = depth, .totals = 2 * depth};
    l.powers = l.totals + DIGITS * segments;
    l.places = l.powers + segments;
    l.rests = l.places + room_for(k) + 1;
    l.count = l.rests + room_for(k) + 1;
    l.words = round_up(l.count + 1, lanes);
    return l;
}

int64_t digit_rows_bytes(const target *t, int64_t k) {
    return DIGIT_ROWS * layout_of(t, k).words * (int64_t)sizeof(int32_t);
}

static int64_t depth_of(const tiling *t) { return t->digits.segments * t->digits.segment; }
int64_t rests_room(const tiling *t) { return room_for(depth_of(t)); }

static row_layout parts(const tiling *t) { return layout_of(t->e->t, depth_of(t)); }
static ins *part_of_row(const tiling *t, ins *r, int64_t words) {
    ins *part = lb_offset(&t->e->b, t->digits.at, lb_idx(&t->e->b, words), 4);
    return lb_offset(&t->e->b, part, r, parts(t).words * (int64_t)sizeof(int32_t));
}

static ins *load_int(const tiling *t, ins *from, ins *at) {
    return lb_load(&t->e->b, lt(LK_I32, 1), from, at, 4);
}
static ins *load_float(const tiling *t, ins *from, ins *at) {
    return lb_load(&t->e->b, lt(LK_F32, 1), from, at, 4);
}

ins *digits_of_row(const tiling *t, ins *r) { return part_of_row(t, r, parts(t).digits); }
ins *digit_offset(const tiling *t, ins *r, ins *segment, int j) {
    ins *at = idx_mulk(&t->e->b, segment, t->lanes);
    return load_int(t, part_of_row(t, r, parts(t).offsets),
                    idx_addk(&t->e->b, at, (int64_t)j * digit_parts(t->c)));
}
ins *digit_total(const tiling *t, ins *r, ins *segment, int j) {
    ins *at = idx_mulk(&t->e->b, segment, DIGITS);
    return load_float(t, part_of_row(t, r, parts(t).totals), idx_addk(&t->e->b, at, j));
}
ins *digit_power(const tiling *t, ins *r, ins *segment) {
    return load_float(t, part_of_row(t, r, parts(t).powers), segment);
}
ins *digit_rests(const tiling *t, ins *r) {
    ins *n = load_int(t, part_of_row(t, r, parts(t).count), lb_idx(&t->e->b, 0));
    return lb_conv(&t->e->b, L_SEXT, lindex_kind(t->e->t), n);
}
ins *digit_rest_at(const tiling *t, ins *r, ins *i) {
    return lb_conv(&t->e->b, L_SEXT, lindex_kind(t->e->t),
                   load_int(t, part_of_row(t, r, parts(t).places), i));
}
ins *digit_rest(const tiling *t, ins *r, ins *i) {
    return load_float(t, part_of_row(t, r, parts(t).rests), i);
}

// ---------------------------------------------------------------- digits of rows
static ins *as_ints(lbuild *b, ins *x) { return lb_bitcast(b, lt(LK_I32, x->type.lanes), x); }
static ins *as_floats(lbuild *b, ins *x) { return lb_bitcast(b, lt(LK_F32, x->type.lanes), x); }

// The elements of a row from position k on, n of them, NULL: a vector.
static ins *load_row(const tiling *t, ins *row, ins *k, ins *n) {
    lbuild *b = &t->e->b;
    ltype type = lt(LK_F32, t->lanes);
    return n ? lb_loadn(b, type, row, k, n) : lb_load(b, type, row, k, 4);
}

typedef struct row_pass { // over the vectors of a segment of a row
    tiling *t;
    ins *r, *row;                // its number and elements
    ins *largest, *sums, *count; // variables
    ins *by, *back;              // elements are multiplied by this power of two; its inverse
    ins *found;                  // a vector of what digits leave out
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

// The bits of magnitudes, in whose order NaN is the largest.
static ins *magnitude(const tiling *t, ins *x) {
    return lb_bin(&t->e->b, L_AND, as_ints(&t->e->b, x), word_const(t, INT32_MAX));
}

static void take_largest(row_pass *p, ins *k, ins *n) {
    lbuild *b = &p->t->e->b;
    ins *size = magnitude(p->t, load_row(p->t, p->row, k, n));
    lb_set(b, p->largest, lb_bin(b, L_UMAX, lb_get(b, p->largest), size));
}

// From digits beside their elements to words of four elements each: the digits of a group one after the other.
static ins *sort_digits(const tiling *t, ins *x) {
    lbuild *b = &t->e->b;
    int mask[4 * PANEL], group = digit_group(t->c), parts = digit_parts(t->c), bytes = DIGITS * t->lanes;
    for (int g = 0; g < t->lanes; g += group)
        for (int j = 0; j < DIGITS; j++)
            for (int h = 0; h < parts; h++)
                for (int i = 0; i < 4; i++)
                    mask[4 * (g + j * parts + h) + i] = DIGITS * (g + parts * i + h) + j;
    ins *all = lb_bitcast(b, lt(LK_I8, bytes), x);
    return as_ints(b, lb_bitcast(b, lt(LK_I32, t->lanes), lb_shuffle(b, all, all, mask, bytes)));
}

// Lists the lanes of `rest`, from position k on, that are not 0; past the end of the list, only counts them.
static void list_rests(row_pass *p, ins *k, ins *rest) {
    const tiling *t = p->t;
    lbuild *b = &t->e->b;
    ins *any = lb_hreduce(b, L_HUMAX, magnitude(t, rest)), *zero = lb_int(b, lt(LK_I32, 1), 0);
    ins *some = lb_if(b, lb_cmp(b, L_NE, any, zero));
    lb_store(b, p->found, lb_idx(b, 0), rest, 4);
    ins *lane = lb_for(b, "lane", lb_idx(b, 0), lb_idx(b, t->lanes), lb_idx(b, 1), LOOP_SERIAL);
    ins *value = load_float(t, p->found, lane), *count = lb_get(b, p->count);
    ins *at = lb_bin(b, L_SMIN, count, lb_idx(b, rests_room(t)));
    lb_store(b, part_of_row(t, p->r, parts(t).places), at, lb_conv(b, L_ITRUNC, LK_I32, lb_add(b, k, lane)),
             4);
    lb_store(b, part_of_row(t, p->r, parts(t).rests), at, value, 4);
    ins *is = lb_cmp(b, L_NE, value, lb_float(b, lt(LK_F32, 1), 0));
    lb_set(b, p->count, lb_add(b, count, lb_select(b, is, lb_idx(b, 1), lb_idx(b, 0))));
    lb_end(b, lane);
    lb_end(b, some);
}

static void split_vector(row_pass *p, ins *k, ins *n) {
    const tiling *t = p->t;
    lbuild *b = &t->e->b;
    ltype type = lt(LK_F32, t->lanes);
    enum { CARRIES = 0x808080 };
    double most = (double)(1 << 30), exact = 1.0 / (1 << 22);
    ins *x = load_row(t, p->row, k, n), *scaled = lb_mul(b, x, p->by);
    scaled = lb_bin(b, L_FMAX, scaled, lb_float(b, type, -most)); // of rows that are not multiplied
    scaled = lb_bin(b, L_FMIN, scaled, lb_float(b, type, most));
    ins *whole = lb_conv(b, L_RINTI, LK_I32, scaled), *carries = word_const(t, CARRIES);
    ins *digits = sort_digits(t, lb_bin(b, L_XOR, lb_add(b, whole, carries), carries));
    lb_store(b, digits_of_row(t, p->r), k, digits, 4);
    if (t->digits.offset) {
        ins *offset = word_const(t, (int64_t)t->digits.offset * 0x01010101);
        lb_set(b, p->sums, lb_dot(b, L_DOT4_US, lb_get(b, p->sums), offset, digits));
    }
    ins *rest = lb_sub(b, x, lb_mul(b, lb_conv(b, L_SITOF, LK_F32, whole), p->back));
    ins *least = lb_mul(b, lb_un(b, L_FABS, x), lb_float(b, type, exact));
    ins *is = lb_cmp(b, L_SLT, least, lb_un(b, L_FABS, rest));
    list_rests(p, k, lb_select(b, is, rest, lb_float(b, type, 0)));
}

// Each lane and those that hold other words of the same digit.
static ins *join_words(const tiling *t, ins *sums) {
    lbuild *b = &t->e->b;
    int group = digit_group(t->c), parts = digit_parts(t->c), mask[PANEL];
    for (int step = 1; step < t->lanes; step *= 2) {
        if (step >= parts && step < group) continue; // another digit
        for (int l = 0; l < t->lanes; l++) mask[l] = l ^ step;
        sums = lb_add(b, sums, lb_shuffle(b, sums, sums, mask, t->lanes));
    }
    return sums;
}

static void store_sums(row_pass *p, ins *segment) {
    const tiling *t = p->t;
    lbuild *b = &t->e->b;
    ins *sums = join_words(t, lb_get(b, p->sums));
    ins *negative = lb_sub(b, word_const(t, 0), sums);
    lb_store(b, part_of_row(t, p->r, parts(t).offsets), idx_mulk(b, segment, t->lanes), negative, 4);
    if (!t->digits.zero) return;
    ins *by = lb_int(b, lt(LK_I32, 1), t->digits.offset);
    for (int j = 0; j < DIGITS; j++) {
        ins *total = lb_bin(b, L_SDIV, lb_extract(b, sums, j * digit_parts(t->c)), by);
        ins *at = idx_addk(b, idx_mulk(b, segment, DIGITS), j);
        lb_store(b, part_of_row(t, p->r, parts(t).totals), at, lb_conv(b, L_SITOF, LK_F32, total), 4);
    }
}

static ins *power_of_two(lbuild *b, ins *biased_exponent) {
    enum { MANTISSA = 23 };
    return as_floats(b, lb_bin(b, L_SHL, biased_exponent, lb_int(b, lt(LK_I32, 1), MANTISSA)));
}

// Sets the powers of two of a segment. Those out of range, infinite and NaN segments make the list too long.
static void scale_segment(row_pass *p, ins *segment) {
    enum { MANTISSA = 23, BIAS = 127, DIGIT_BITS = 30, LEAST = 30, MOST = 230 };
    lbuild *b = &p->t->e->b;
    ltype type = lt(LK_I32, 1);
    ins *largest = lb_hreduce(b, L_HUMAX, lb_get(b, p->largest));
    ins *exponent = lb_bin(b, L_LSHR, largest, lb_int(b, type, MANTISSA));
    ins *inside =
        lb_bin(b, L_SMIN, lb_bin(b, L_SMAX, exponent, lb_int(b, type, LEAST)), lb_int(b, type, MOST));
    ins *differs = lb_cmp(b, L_NE, inside, exponent), *any = lb_cmp(b, L_NE, largest, lb_int(b, type, 0));
    ins *too_many =
        lb_select(b, lb_bin(b, L_AND, differs, any), lb_idx(b, rests_room(p->t) + 1), lb_idx(b, 0));
    lb_set(b, p->count, lb_add(b, lb_get(b, p->count), too_many));
    ins *by = power_of_two(b, lb_sub(b, lb_int(b, type, 2 * BIAS + DIGIT_BITS - 1), inside));
    ins *back = power_of_two(b, lb_sub(b, inside, lb_int(b, type, DIGIT_BITS - 1)));
    lb_store(b, part_of_row(p->t, p->r, parts(p->t).powers), segment, back, 4);
    p->by = lb_splat(b, by, p->t->lanes);
    p->back = lb_splat(b, back, p->t->lanes);
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

ins *split_row(tiling *t, ins *m, ins *r) {
    lbuild *b = &t->e->b;
    int64_t length = t->digits.segment;
    row_pass p = {.t = t, .r = r, .row = row_start(t, m), .count = lb_var(b, "count", lb_idx(b, 0))};
    p.found = lb_local(b, LK_F32, t->lanes, 64, false);
    ins *segment =
        lb_for(b, "segment", lb_idx(b, 0), lb_idx(b, t->digits.segments), lb_idx(b, 1), LOOP_SERIAL);
    ins *begin = idx_mulk(b, segment, length);
    p.largest = lb_var(b, "largest", word_const(t, 0));
    p.sums = lb_var(b, "sums", word_const(t, 0));
    each_vector(&p, begin, length, take_largest);
    scale_segment(&p, segment);
    each_vector(&p, begin, length, split_vector);
    if (t->digits.offset) store_sums(&p, segment);
    lb_end(b, segment);
    lb_store(b, part_of_row(t, r, parts(t).count), lb_idx(b, 0),
             lb_conv(b, L_ITRUNC, LK_I32, lb_get(b, p.count)), 4);
    return lb_get(b, p.count);
}
