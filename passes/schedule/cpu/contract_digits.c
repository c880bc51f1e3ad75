// Products of few rows with weights of at most 8 bits, as sums of bytes. In: a contraction in f32 whose B is a constant
// of integers less zero points, times scales. Out, for each number of rows up to DIGIT_ROWS:
//
//   split the rows into digits (contract_digit_rows.c)                                           once a matrix
//   for columns:
//     for segments of K:
//       s[j] = -offset * sum of the segment's d[j]
//       for k in the segment: s[j] = dot4(s[j], B + offset, d[j][k .. k+4])                      exact in i32
//       acc += (((s3 * 256 + s2) * 256 + s1) * 256 + s0) * 2^e[segment] * scale of the block
//     for listed k: acc += rest[k] * B[k]
//     write f(acc)
//
// A conversion to f32 costs an instruction or two for each vector of weights, which takes longer than reading it from
// memory does.
#include "passes/schedule/cpu/contract_digits.h"
#include "compiler/base/integers.h"
#include "ir/loops/convert.h"
#include "passes/match/form.h"

enum { MOST_K = 1 << 16 };

// ---------------------------------------------------------------- applicability
static bool is_signed(const contraction *c) { return dtype_is_signed(c->b->buffer->dtype); }
static int half_of(const contraction *c) { return 1 << (weight_bits(c) - 1); }

// The number of positions of K; 0: this kind of contraction has no digits.
static int64_t depth_of(const target *t, const contraction *c) {
    int64_t k = positions(c->k, &c->k_axes), m = positions(c->k, &c->m);
    bool types = c->s->states.at[0].dtype == DT_F32 && c->a->buffer->dtype == DT_F32 &&
                 weight_bits(c) <= BYTE && dtype_is_int(c->b->buffer->dtype) &&
                 c->b->buffer->role == BUF_CONST && !c->b->buffer->view_of;
    bool unit = t->vnni && t->arch.dot == DOT_X86 && target_lanes(t, 32) >= digit_group(c);
    bool form = c->n >= 0 && c->term_a == c->a && !c->a->guard && !c->b->guard;
    return types && unit && t->fp != FP_STRICT && form && k > 0 && k <= MOST_K && m > 0 &&
                   (m == INT64_MAX || m <= DIGIT_ROWS)
               ? k
               : 0;
}

int64_t digit_bytes(const target *t, const contraction *c) {
    int64_t k = depth_of(t, c);
    return k ? digit_rows_bytes(t, k) : 0;
}

// ---------------------------------------------------------------- does it fit
// Whether e is q - *zero for all elements q of B.
static bool is_difference(const contraction *c, const expr *e, int64_t *zero) {
    if (e->dtype != DT_F32 || !word_is_function_of(e, c->b)) return false;
    for (int code = 0; code < 1 << weight_bits(c); code++) {
        int q = is_signed(c) && code >= half_of(c) ? code - 2 * half_of(c) : code;
        double v = word_value(e, c->b, code), least = (double)q - 2 * half_of(c),
               most = (double)q + 2 * half_of(c);
        if (!(v >= least && v <= most) || v != (double)(int64_t)v) return false;
        if (code && *zero != q - (int64_t)v) return false;
        *zero = q - (int64_t)v;
    }
    return true;
}

// Whether e is an integer of at most 8 bits, whose products with sums of digits f32 represents.
static bool is_small_integer(const expr *e) {
    while (e->op == X_CAST) e = e->arg[0];
    return e->op == X_READ && dtype_is_int(e->buffer->dtype) && dtype_bits(e->buffer->dtype) <= BYTE;
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
        expr_uses_axis(term->arg[1], axis) || !is_small_integer(term->arg[1]))
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

// The positions of a segment: a block, or a part of a long one, so that few elements are small beside the largest.
static int64_t segment_of(int64_t inner) {
    enum { LEAST = 32, USUAL = 128, MOST = 256 };
    if (inner <= MOST) return inner;
    for (int64_t n = USUAL; n >= LEAST; n -= PANEL)
        if (inner % n == 0) return n;
    for (int64_t n = USUAL; n <= MOST; n += PANEL)
        if (inner % n == 0) return n;
    return inner;
}

// Sums of digits times zero points, and their differences, are exact in f32.
static bool fits_zeros(const tiling *t) {
    enum { MANTISSA = 24 };
    int bits = BYTE - 1 + weight_bits(t->c) + 1;
    return !t->digits.zero || t->digits.segment <= INT64_C(1) << (MANTISSA - bits);
}

bool find_digits(tiling *t, ins *scratch) {
    const contraction *c = t->c;
    int64_t k = scratch ? depth_of(t->e->t, c) : 0;
    if (!k || !t->packed || t->m.n > 1 || (t->m.n && t->tile_m < 0) || !t->k.n || !is_dense(t)) return false;
    int axis = t->k.at[t->k.n - 1];
    int64_t inner = dim_value(t->e->extent[axis]), blocks = k / inner;
    if (t->words != (weight_bits(c) < BYTE) || (t->words && axis != t->group_axis)) return false;
    if (blocks > 1 && inner % t->lanes) return false;
    if (!dim_is_const(t->e->extent[c->n])) return false;
    int64_t odd = t->lanes == PANEL ? 0 : dim_value(t->e->extent[c->n]) | t->vectors * t->lanes;
    if ((!t->words && odd % PANEL) || !rounds_to_int(t->e->t, t->lanes)) return false;
    split_word_factor(t->e, c, axis, &t->digits.factor);
    t->digits.inner = inner, t->digits.segment = segment_of(inner),
    t->digits.segments = k / segment_of(inner);
    if (!find_zero(t, t->digits.factor.term) || !fits_zeros(t)) return false;
    int64_t before = contraction_scratch(t->e->t, c) + widened_bytes(t->e->t, c);
    t->digits.at = lb_offset(&t->e->b, scratch, lb_idx(&t->e->b, before), 1);
    return true;
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
    request_ahead(t, &d->x, at_b, k, digit_group(t->c));
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
    int bits = weight_bits(t->c);
    ins *low = h ? lb_bin(b, L_LSHR, word, word_const(t, (int64_t)h * bits)) : word;
    if (bits < BYTE) low = lb_bin(b, L_AND, low, word_const(t, 0x01010101 * ((1 << bits) - 1)));
    return is_signed(t->c) ? lb_bin(b, L_XOR, low, word_const(t, (int64_t)half_of(t->c) * 0x01010101)) : low;
}

// A group of neighbours along K from position k of the rows.
static void add_group(tiling *t, digit_tile *d, ins *k, ins *left) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *words[MAX_VECTORS];
    load_words(t, d, lb_add(b, emit_index(e, t->b->offset), d->start_b), k, left, words);
    for (int h = 0; h < digit_parts(t->c); h++) {
        ins *u[MAX_VECTORS];
        for (int v = 0; v < d->x.vectors; v++) u[v] = unsigned_part(t, words[v], h);
        for (int r = 0; r < d->x.rows; r++)
            for (int j = 0; j < DIGITS; j++) {
                ins *at = idx_addk(b, k, (int64_t)j * digit_parts(t->c) + h);
                ins *digit = lb_splat(b, lb_load(b, lt(LK_I32, 1), digits_of_row(t, row_of(t, d, r)), at, 4),
                                      t->lanes);
                for (int v = 0; v < d->x.vectors; v++) {
                    ins *sum = sum_of(d, r, v)[j];
                    lb_set(b, sum, lb_dot(b, L_DOT4_US, lb_get(b, sum), u[v], digit));
                }
            }
    }
}

static void begin_sums(tiling *t, digit_tile *d, ins *segment) {
    lbuild *b = &t->e->b;
    for (int r = 0; r < d->x.rows; r++)
        for (int j = 0; j < DIGITS; j++) {
            ins *first = lb_int(b, lt(LK_I32, t->lanes), 0), *row = row_of(t, d, r);
            if (t->digits.offset) first = lb_splat(b, digit_offset(t, row, segment, j), t->lanes);
            for (int v = 0; v < d->x.vectors; v++) sum_of(d, r, v)[j] = lb_var(b, "sum", first);
        }
}

// s[3] ... s[0] as the digits of a number.
static ins *number_of(lbuild *b, ins *const *s) {
    ins *n = s[DIGITS - 1];
    for (int j = DIGITS - 2; j >= 0; j--) n = lb_muladd(b, n, lb_float(b, n->type, 256), s[j]);
    return n;
}

// Adds a segment's sums, times its power of two and its scales, to the rows' sums.
static void end_sums(tiling *t, digit_tile *d, ins *segment) {
    lbuild *b = &t->e->b;
    expr *scale = t->digits.factor.scale, *zero = t->digits.zero;
    for (int v = 0; v < d->x.vectors; v++) {
        ins *by = scale ? emit_column(t, &d->x, v, scale, NULL, NULL) : NULL;
        ins *less = zero ? emit_column(t, &d->x, v, zero, NULL, NULL) : NULL;
        if (less && !is_signed(t->c)) less = lb_sub(b, less, lb_float(b, less->type, half_of(t->c)));
        for (int r = 0; r < d->x.rows; r++) {
            ins *s[DIGITS], *acc = d->acc[r * d->x.vectors + v], *row = row_of(t, d, r);
            for (int j = 0; j < DIGITS; j++) {
                s[j] = lb_conv(b, L_SITOF, LK_F32, lb_get(b, sum_of(d, r, v)[j]));
                if (!less) continue;
                ins *total = lb_splat(b, digit_total(t, row, segment, j), t->lanes);
                s[j] = lb_sub(b, s[j], lb_mul(b, less, total)); // exact
            }
            ins *n = lb_mul(b, number_of(b, s), lb_splat(b, digit_power(t, row, segment), t->lanes));
            lb_set(b, acc, by ? lb_muladd(b, n, by, lb_get(b, acc)) : lb_add(b, lb_get(b, acc), n));
        }
    }
}

// first: the segment's position in its block.
static void segment_sums(tiling *t, digit_tile *d, ins *segment, ins *first) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int axis = t->k.at[t->k.n - 1], group = digit_group(t->c);
    int64_t length = t->digits.segment, whole = length / group * group;
    ins *row = lb_sub(b, idx_mulk(b, segment, length), first), *end = idx_addk(b, first, whole);
    begin_sums(t, d, segment);
    if (whole) {
        scope loop = scope_axis(e, axis, first, end, group, LOOP_SERIAL);
        add_group(t, d, lb_add(b, row, loop.head), NULL);
        scope_close(e, loop);
    }
    if (whole < length) {
        scope rest = scope_open(e);
        e->counter[axis] = end;
        add_group(t, d, lb_add(b, row, end), lb_idx(b, length - whole));
        scope_close(e, rest);
    }
    e->counter[axis] = NULL;
    end_sums(t, d, segment);
}

static void block_sums(tiling *t, digit_tile *d, ins *block) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int64_t length = t->digits.segment, n = t->digits.inner / length;
    unsigned sides = load_sides(t, &d->x);
    emit_hoist(e, t->b->offset);
    scope each = scope_for(e, "segment", lb_idx(b, 0), lb_idx(b, n), 1, LOOP_SERIAL);
    segment_sums(t, d, lb_add(b, idx_mulk(b, block, n), each.head), idx_mulk(b, each.head, length));
    scope_close(e, each);
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

// ---------------------------------------------------------------- rests
// Sets the counters of K to position k of a row.
static void set_depth(tiling *t, ins *k) {
    lbuild *b = &t->e->b;
    for (int j = t->k.n - 1; j >= 0; j--) {
        ins *n = lb_idx(b, dim_value(t->e->extent[t->k.at[j]]));
        t->e->counter[t->k.at[j]] = j ? emit_int_op(b, X_MOD, k, n) : k;
        k = j ? emit_int_op(b, X_FLOORDIV, k, n) : k;
    }
}

// B's factor of vector v at the current position of K: of words, their first element's, with the position in them.
static ins *factor_here(tiling *t, const digit_tile *d, ins *at_b, ins *in_word, int v) {
    lbuild *b = &t->e->b;
    ins *at = lb_add(b, at_b, column_offset(t, v));
    if (!t->words) return factor_b(t, &d->x, at, v);
    ins *bits = lb_int(b, lt(LK_I32, 1), weight_bits(t->c));
    ins *shift = lb_mul(b, lb_conv(b, L_ITRUNC, LK_I32, in_word), bits);
    ins *low = lb_bin(b, L_LSHR, load_packed(t->e, t->c, at, t->lanes), lb_splat(b, shift, t->lanes));
    ins *element = element_of_bits(b, t->c->b->buffer->dtype, low);
    return emit_column(t, &d->x, v, t->digits.factor.whole, t->c->b, element);
}

// Adds what digits leave out of row r.
static void add_rests(tiling *t, digit_tile *d, int r) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *row = row_of(t, d, r);
    scope each = scope_for(e, "rest", lb_idx(b, 0), digit_rests(t, row), 1, LOOP_SERIAL);
    ins *k = digit_rest_at(t, row, each.head), *in_word = NULL;
    if (t->words) {
        in_word = emit_int_op(b, X_MOD, k, lb_idx(b, t->group));
        k = lb_sub(b, k, in_word);
    }
    set_depth(t, k);
    ins *rest = lb_splat(b, digit_rest(t, row, each.head), t->lanes);
    unsigned sides = load_sides(t, &d->x);
    ins *at_b = lb_add(b, emit_index(e, t->b->offset), d->start_b);
    for (int v = 0; v < d->x.vectors; v++) {
        ins *acc = d->acc[r * d->x.vectors + v];
        lb_set(b, acc, lb_muladd(b, rest, factor_here(t, d, at_b, in_word, v), lb_get(b, acc)));
    }
    forget_sides(t, sides);
    for (int j = 0; j < t->k.n; j++) e->counter[t->k.at[j]] = NULL;
    scope_close(e, each);
}

// ---------------------------------------------------------------- tiles
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
    for (int r = 0; r < x->rows; r++) add_rests(t, &d, r);
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

ins *digit_rows_split(tiling *t) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *begin, *m = rows_of_call(t, &begin), *fits = lb_var(b, "fits", lb_int(b, lt(LK_I1, 1), 0));
    scope few = scope_if(e, m->op == L_CONST ? NULL : lb_cmp(b, L_SLE, m, lb_idx(b, DIGIT_ROWS)));
    ins *most = lb_var(b, "most", lb_idx(b, 0));
    scope each = scope_for(e, "row", lb_idx(b, 0), m, 1, LOOP_SERIAL);
    ins *rests = split_row(t, lb_add(b, begin, each.head), each.head);
    lb_set(b, most, lb_bin(b, L_SMAX, lb_get(b, most), rests));
    scope_close(e, each);
    lb_set(b, fits, lb_cmp(b, L_SLE, lb_get(b, most), lb_idx(b, rests_room(t))));
    scope_close(e, few);
    return lb_get(b, fits);
}

void digit_rows(tiling *t) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *begin, *m = rows_of_call(t, &begin);
    for (int rows = 1; rows <= DIGIT_TILE; rows++) {
        bool last = rows == DIGIT_TILE, known = m->op == L_CONST;
        if (known && m->i != rows && !(last && m->i > rows)) continue;
        ins *is = known ? NULL : lb_cmp(b, last ? L_SLE : L_EQ, lb_idx(b, rows), m);
        scope some = scope_if(e, is);
        digit_columns(t, (tile){.rows = last ? 0 : rows, .vectors = vectors_of(t, rows), .m0 = begin}, m);
        scope_close(e, some);
    }
}
