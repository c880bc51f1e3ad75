// Products of packed words with rows rounded to bytes (--precision=int8). In: a contraction of f32 whose constant has
// elements of 2 or 4 bits with a scale for each block along K. Out: at the start of a call, each block of a row becomes
//
//   scale[row][block] = max |a| / 127,   bytes[row][k] = rint(a / scale),   sum[row][block] = sum of these bytes
//
// and the loops of words (schedule_words.h) add products of bytes in i32, block by block:
//
//   part[r][v] = sum over words w, u < 8 / bits: dot4(w >> bits u & mask, bytes[r][elements of these fields])
//   acc[r][v] += (part[r][v] - zero[v] * sum[r]) * (scale_b[v] * scale[r])
//
// An element of a word's field u in byte b has number (8 / bits) b + u, so bytes are stored in the order of the fields. The
// error of a product is at most max |a| / 254 times |b|.
#include "passes/schedule/cpu/contract_bytes.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/contract_tiling.h"
#include "passes/schedule/cpu/schedule_groups.h"
#include <math.h>

enum { BYTE = 8, FIELDS = 4, LEAST_BLOCK = 16, MOST_BLOCK = 1 << 15, MOST_ZERO = 255, MOST_STEPS = 8 };

// ---------------------------------------------------------------- applicability
static bool is_eligible(const target *t, const contraction *c) {
    int axis;
    return t->precision == PRECISION_INT8 && t->fp != FP_STRICT && t->vnni &&
           (rounds_to_int(t, target_lanes(t, 32)) || t->round_instr) && c->n >= 0 && word_elements(c) &&
           grouped_operand(c, &axis) && c->term_a == c->a && c->a->buffer->dtype == DT_F32 &&
           positions(c->k, &c->k_axes) != INT64_MAX;
}

dim *byte_rows_scratch(const target *t, const contraction *c) {
    if (!is_eligible(t, c)) return NULL;
    dim *n = dim_addk(buffer_physical_count(c->a->buffer), 2 * MOST_BLOCK);
    return dim_addk(dim_mulk(dim_ceildiv(n, dim_const(n->table, LEAST_BLOCK)), LEAST_BLOCK + 8), 64);
}

static int bits_of(const tiling *t) { return dtype_bits(t->c->b->buffer->dtype); }
static int fields(const tiling *t) { return BYTE / bits_of(t); } // elements of a byte
static int64_t last_extent(const tiling *t) { return dim_value(t->e->extent[t->k.at[t->k.n - 1]]); }

// Elements that are rounded together: vectors, and whole words.
static int64_t piece_of(const tiling *t) { return t->lanes > t->group ? t->lanes : t->group; }

// Whether every step of A but that along a block is one of whole blocks.
static bool has_whole_blocks(const tiling *t, int64_t block) {
    for (int j = 0; j < t->e->k->axes.n; j++) {
        const expr *step = t->a->coef[j];
        if (j == t->k.at[t->k.n - 1] || dim_is(t->e->extent[j], 1)) continue;
        if (!step || step->op != X_CONST || step->i % block) return false;
    }
    return t->a->affine && expr_is_multiple(t->a->base, block) && rows_are_compact(t);
}

// The integer of these bits.
static int64_t element_of_code(const tiling *t, int code) {
    int bits = bits_of(t);
    bool negative = dtype_is_signed(t->c->b->buffer->dtype) && code >> (bits - 1);
    return negative ? code - (1 << bits) : code;
}

// The constant z if B's term is its element minus z.
static bool constant_zero(const tiling *t, const expr *term, int64_t *z) {
    const expr *read = t->c->b;
    if (!word_is_function_of(term, read)) return false;
    for (int code = 0; code < 1 << bits_of(t); code++) {
        double v = word_value(term, read, code);
        int64_t element = element_of_code(t, code);
        if (v != rint(v) || fabs(v) > MOST_ZERO || (code && element - (int64_t)v != *z)) return false;
        *z = element - (int64_t)v;
    }
    return true;
}

static bool find_zero(const tiling *t, const expr *term, byte_rows *r) {
    const expr *read = t->c->b;
    if (!dtype_is_int(read->buffer->dtype)) return false;
    r->is_signed = dtype_is_signed(read->buffer->dtype);
    if (!constant_zero(t, term, &r->offset)) {
        int64_t none;
        if (term->op != X_SUB || !constant_zero(t, term->arg[0], &none) || none != 0) return false;
        r->zero = term->arg[1], r->offset = 0;
        if (expr_uses_axis(r->zero, t->group_axis) || word_is_function_of(r->zero, read)) return false;
    }
    if (r->is_signed) r->offset += 1 << (bits_of(t) - 1);
    return true;
}

bool find_byte_rows(tiling *t, ins *scratch) {
    const contraction *c = t->c;
    emitter *e = t->e;
    if (!scratch || !is_eligible(e->t, c) || t->k.n < 1 || t->k.at[t->k.n - 1] != t->group_axis) return false;
    int64_t block = last_extent(t);
    byte_rows *r = ARENA_NEW(e->scratch, byte_rows);
    word_factor f;
    split_word_factor(e, c, t->group_axis, &f);
    r->scale = f.scale;
    if (block < LEAST_BLOCK || block > MOST_BLOCK || block % piece_of(t) ||
        !steps_by_one(t->a, t->group_axis) || !has_whole_blocks(t, block) || !find_zero(t, f.term, r))
        return false;
    r->block = block, r->bytes = scratch;
    t->bytes = r;
    return true;
}

// ---------------------------------------------------------------- rows
static ins *lanes_of(lbuild *b, double v, int lanes) { return lb_float(b, lt(LK_F32, lanes), v); }

// The largest magnitude of a block, plus NaN if an element is not finite.
static ins *largest(tiling *t, ins *at) {
    lbuild *b = &t->e->b;
    int lanes = t->lanes;
    const buffer *a = t->c->a->buffer;
    ins *zero = lanes_of(b, 0, lanes), *most = lb_var(b, "most", zero), *none = lb_var(b, "none", zero);
    ins *j = lb_for(b, "j", lb_idx(b, 0), lb_idx(b, t->bytes->block), lb_idx(b, lanes), LOOP_SERIAL);
    ins *x = load_element(b, a->dtype, pointer_of(t->e, a), lb_add(b, at, j), lanes);
    lb_set(b, most, lb_bin(b, L_FMAX, lb_un(b, L_FABS, x), lb_get(b, most)));
    lb_set(b, none, lb_muladd(b, x, zero, lb_get(b, none)));
    lb_end(b, j);
    ins *top = emit_horizontal(t->e, RED_MAX, DT_F32, lb_get(b, most));
    return lb_add(b, top, lb_hreduce(b, L_HADD, lb_get(b, none)));
}

// The bytes of two vectors as one.
static ins *joined(lbuild *b, ins *x, ins *y) {
    int mask[4 * PANEL], n = 2 * x->type.lanes;
    for (int j = 0; j < n; j++) mask[j] = j;
    return lb_shuffle(b, x, y, mask, n);
}

// Bytes in the order of a word's fields.
static ins *in_fields(tiling *t, ins *x) {
    int mask[4 * PANEL], n = x->type.lanes, per = fields(t);
    for (int j = 0; j < n; j++) {
        int inside = j % t->group, field = inside / FIELDS, byte = inside % FIELDS;
        mask[j] = j - inside + byte * per + field;
    }
    return lb_shuffle(&t->e->b, x, x, mask, n);
}

// Elements from number `at` on as i32 in -127 .. 127.
static ins *rounded(tiling *t, ins *at, ins *inverse) {
    enum { MOST = 127 };
    lbuild *b = &t->e->b;
    const buffer *a = t->c->a->buffer;
    ins *x = load_element(b, a->dtype, pointer_of(t->e, a), at, t->lanes);
    x = lb_mul(b, x, lb_splat(b, inverse, t->lanes));
    x = lb_bin(b, L_FMAX, x, lanes_of(b, -MOST, t->lanes)); // NaN, too
    x = lb_bin(b, L_FMIN, x, lanes_of(b, MOST, t->lanes));
    if (rounds_to_int(t->e->t, t->lanes)) return lb_conv(b, L_RINTI, LK_I32, x);
    return lb_conv(b, L_FTOSI, LK_I32, lb_un(b, L_RINT, x));
}

// Stores the bytes of a block; returns their sum.
static ins *store_bytes(tiling *t, ins *at, ins *to, ins *inverse) {
    enum { MOST_VECTORS = 8 };
    lbuild *b = &t->e->b;
    int n = (int)piece_of(t) / t->lanes;
    ins *sum = lb_var(b, "sum", lb_int(b, lt(LK_I32, t->lanes), 0)), *part[MOST_VECTORS];
    ins *j = lb_for(b, "j", lb_idx(b, 0), lb_idx(b, t->bytes->block), lb_idx(b, piece_of(t)), LOOP_SERIAL);
    for (int i = 0; i < n; i++) {
        ins *x = rounded(t, idx_addk(b, lb_add(b, at, j), (int64_t)i * t->lanes), inverse);
        lb_set(b, sum, lb_add(b, lb_get(b, sum), x));
        part[i] = lb_conv(b, L_ITRUNC, LK_I8, x);
    }
    for (; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++) part[i] = joined(b, part[2 * i], part[2 * i + 1]);
    lb_store(b, t->bytes->bytes, lb_add(b, to, j), in_fields(t, part[0]), 1);
    lb_end(b, j);
    return lb_hreduce(b, L_HADD, lb_get(b, sum));
}

static void round_block(tiling *t, ins *number) {
    byte_rows *r = t->bytes;
    lbuild *b = &t->e->b;
    ltype one = lt(LK_F32, 1);
    ins *place = idx_mulk(b, number, r->block), *at = lb_add(b, r->from, place);
    ins *top = largest(t, at), *inverse = lb_bin(b, L_FDIV, lb_float(b, one, 127), top);
    // Denormal maxima have no reciprocal.
    inverse = lb_select(b, lb_cmp(b, L_SLT, lb_float(b, one, 0x1p-100), top), inverse, lb_float(b, one, 0));
    lb_store(b, r->scales, number, lb_mul(b, top, lb_float(b, one, 1.0 / 127)), 4);
    ins *sum = store_bytes(t, at, place, inverse);
    if (r->zero) sum = lb_conv(b, L_SITOF, LK_F32, sum);
    else sum = lb_mul(b, sum, lb_int(b, sum->type, -r->offset));
    lb_store(b, r->sums, number, sum, 4);
}

void round_to_bytes(tiling *t) {
    byte_rows *r = t->bytes;
    lbuild *b = &t->e->b;
    ins *n = range_of_rows(t, r->block, &r->from), *room = idx_addk(b, n, 63);
    ins *blocks = emit_int_op(b, X_FLOORDIV, idx_addk(b, n, r->block - 1), lb_idx(b, r->block));
    room = emit_int_floor(b, idx_addk(b, room, r->block), 64);
    r->scales = lb_offset(b, r->bytes, room, 1);
    r->sums = lb_offset(b, r->scales, blocks, 4);
    ins *j = lb_for(b, "block", lb_idx(b, 0), blocks, lb_idx(b, 1), LOOP_SERIAL);
    round_block(t, j);
    lb_end(b, j);
}

// ---------------------------------------------------------------- products
// The place of a row's bytes, and the number of its block, at the current counters.
static ins *bytes_at(tiling *t, int row) {
    lbuild *b = &t->e->b;
    ins *at = lb_sub(b, emit_index(t->e, t->a->offset), t->bytes->from);
    return lb_add(b, at, idx_mulk(b, emit_index(t->e, t->row_stride), row));
}

static void add_words(tiling *t, const tile *x, ins **part, ins *start_b) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int bits = bits_of(t);
    ins *words[MAX_VECTORS], *at_b = lb_add(b, emit_index(e, t->b->offset), start_b);
    ltype type = lt(LK_I32, t->lanes);
    int64_t each = UINT32_MAX / ((1 << bits) - 1), mask = INT64_C(0x01010101) * ((1 << bits) - 1),
            top = each << (bits - 1);
    emit_request(t, x, at_b, t->group);
    for (int v = 0; v < x->vectors; v++) {
        words[v] = load_packed(e, t->c, lb_add(b, at_b, column_offset(t, v)), t->lanes);
        if (t->bytes->is_signed) words[v] = lb_bin(b, L_XOR, words[v], lb_int(b, type, (int32_t)top));
    }
    for (int u = 0; u < fields(t); u++) {
        ins *field[MAX_VECTORS];
        for (int v = 0; v < x->vectors; v++) {
            ins *low = u ? lb_bin(b, L_LSHR, words[v], lb_int(b, type, (int64_t)u * bits)) : words[v];
            field[v] = lb_bin(b, L_AND, low, lb_int(b, type, mask));
        }
        for (int r = 0; r < x->rows; r++) {
            ins *from = lb_offset(b, t->bytes->bytes, bytes_at(t, r), 1);
            ins *a = lb_splat(b, lb_load(b, lt(LK_I32, 1), from, lb_idx(b, u), 1), t->lanes);
            for (int v = 0; v < x->vectors; v++) {
                ins *sum = part[r * x->vectors + v];
                lop op = e->t->arch.dot_signed ? L_DOT4_SS : L_DOT4_US;
                lb_set(b, sum, lb_dot(b, op, lb_get(b, sum), field[v], a));
            }
        }
    }
}

// Short blocks are unrolled.
static void add_all_words(tiling *t, const tile *x, ins **part, ins *start_b) {
    emitter *e = t->e;
    int64_t block = t->bytes->block;
    if (block / t->group > MOST_STEPS) {
        scope loop =
            scope_axis(e, t->group_axis, lb_idx(&e->b, 0), lb_idx(&e->b, block), t->group, LOOP_SERIAL);
        add_words(t, x, part, start_b);
        scope_close(e, loop);
    } else {
        for (int64_t k = 0; k < block; k += t->group) {
            scope step = scope_open(e);
            e->counter[t->group_axis] = lb_idx(&e->b, k);
            add_words(t, x, part, start_b);
            scope_close(e, step);
        }
    }
    e->counter[t->group_axis] = NULL;
}

static ins *block_number(tiling *t, int row) {
    emitter *e = t->e;
    scope mark = scope_open(e);
    e->counter[t->group_axis] = lb_idx(&e->b, 0);
    ins *at = bytes_at(t, row);
    e->counter[t->group_axis] = NULL;
    scope_close(e, mark);
    return emit_int_op(&e->b, X_FLOORDIV, at, lb_idx(&e->b, t->bytes->block));
}

void add_byte_block(tiling *t, const tile *x, ins **acc, ins *start_b) {
    byte_rows *r = t->bytes;
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *part[MAX_ROWS * MAX_VECTORS], *number[MAX_ROWS];
    unsigned sides = load_sides(t, x);
    for (int i = 0; i < x->rows; i++) {
        number[i] = block_number(t, i);
        ins *first = lb_int(b, lt(LK_I32, 1), 0);
        if (!r->zero) first = lb_load(b, lt(LK_I32, 1), r->sums, number[i], 4);
        for (int v = 0; v < x->vectors; v++)
            part[i * x->vectors + v] = lb_var(b, "part", lb_splat(b, first, t->lanes));
    }
    add_all_words(t, x, part, start_b);
    for (int v = 0; v < x->vectors; v++) {
        ins *scale = r->scale ? emit_column(t, x, v, r->scale, NULL, NULL) : NULL;
        ins *zero = r->zero ? emit_column(t, x, v, r->zero, NULL, NULL) : NULL;
        if (zero) zero = lb_add(b, zero, lanes_of(b, (double)r->offset, t->lanes));
        for (int i = 0; i < x->rows; i++) {
            int j = i * x->vectors + v;
            ins *sum = lb_conv(b, L_SITOF, LK_F32, lb_get(b, part[j]));
            ins *by = lb_splat(b, lb_load(b, lt(LK_F32, 1), r->scales, number[i], 4), t->lanes);
            if (zero) {
                ins *all = lb_splat(b, lb_load(b, lt(LK_F32, 1), r->sums, number[i], 4), t->lanes);
                sum = lb_sub(b, sum, lb_mul(b, zero, all));
            }
            lb_set(b, acc[j], lb_muladd(b, sum, scale ? lb_mul(b, scale, by) : by, lb_get(b, acc[j])));
        }
    }
    forget_sides(t, sides);
}
