// The micro-kernel of contractions whose operand B has elements of 2 or 4 bits, in words of 32 (schedule_words.h): element by
// element, with factors that are invariant in a block. Sums of bytes times integers are products of four bytes where the target has an
// instruction for those of scalars. Of a word of g = 4 * p elements, element p * j + i is at bit i * bits of byte j:
//
//   for k in steps of g:
//     a[r][i] = A[m0 + r][k + i, k + i + p, k + i + 2 p, k + i + 3 p]             bytes of a word, for i < p
//     w[v] = B[n0 ...][k / g]
//     for i < p: for r, v: acc[r][v] = dot(acc[r][v], a[r][i], w[v] << up(i) & 0xf0f0f0f0)     elements of 4 bits, times 16
//   for r, v: acc[r][v] >>= 4
#include "passes/schedule/cpu/contract_tiling.h"
#include "passes/schedule/cpu/schedule_groups.h"

static scope open_words(tiling *t) {
    emitter *e = t->e;
    return scope_axis(e, t->group_axis, lb_idx(&e->b, 0), emit_dim(e, e->extent[t->group_axis]), t->group,
                      LOOP_SERIAL);
}

static void close_words(tiling *t, scope loop) {
    scope_close(t->e, loop);
    t->e->counter[t->group_axis] = NULL;
}

// ---------------------------------------------------------------- element by element
// A word of each column of B: one step of k for each of its elements. Sums of blocks leave out B's invariant
// factors.
static void accumulate_words(tiling *t, const tile *x, ins **acc, ins *start_b, bool sums_block) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int axis = t->group_axis;
    ins *words[MAX_VECTORS], *begin = e->counter[axis];
    ins *row = emit_index(e, t->row_stride), *at_b = lb_add(b, emit_index(e, t->b->offset), start_b);
    emit_request(t, x, at_b, t->group);
    for (int v = 0; v < x->vectors; v++)
        words[v] = load_packed(e, t->c, lb_add(b, at_b, column_offset(t, v)), t->lanes);
    for (int u = 0; u < t->group; u++) {
        scope step = scope_open(e);
        ins *fb[MAX_VECTORS];
        e->counter[axis] = idx_addk(b, begin, u);
        for (int v = 0; v < x->vectors; v++) {
            const expr *part;
            ins *value = word_element(e, t->c, &t->word, words[v], u, &part);
            fb[v] = emit_column(t, x, v, sums_block ? t->word.term : t->word.whole, part, value);
        }
        ins *at_a = emit_index(e, t->a->offset);
        for (int r = 0; r < x->rows; r++) {
            ins *fa = factor_a(t, lb_add(b, at_a, idx_mulk(b, row, r)));
            for (int v = 0; v < x->vectors; v++) {
                ins *var = acc[r * x->vectors + v];
                lb_set(b, var, emit_muladd(b, fa, fb[v], lb_get(b, var)));
            }
        }
        scope_close(e, step);
    }
    e->counter[axis] = begin;
}

static void word_loop(tiling *t, const tile *x, ins **acc, ins *start_b, bool sums_block) {
    scope loop = open_words(t);
    accumulate_words(t, x, acc, start_b, sums_block);
    close_words(t, loop);
}

// ---------------------------------------------------------------- in products of four bytes
static ins *masked(lbuild *b, ins *x, int shift, int32_t mask) {
    if (shift) x = lb_bin(b, shift > 0 ? L_SHL : L_LSHR, x, lb_int(b, x->type, shift > 0 ? shift : -shift));
    return mask == -1 ? x : lb_bin(b, L_AND, x, lb_int(b, x->type, mask));
}

// The even parts of *x and *y, of as many bits as the mask has in a row, in *x, and the odd ones in *y.
static void exchange(lbuild *b, ins **x, ins **y, int bits, int32_t mask) {
    ins *even = lb_bin(b, L_OR, masked(b, *x, 0, mask), masked(b, *y, bits, ~mask));
    *y = lb_bin(b, L_OR, masked(b, *x, -bits, mask), masked(b, *y, 0, ~mask));
    *x = even;
}

// The words of a row from element `at` on, transposed: byte j of word i is element words * j + i.
static void load_transposed(tiling *t, ins *at, int words, ins **a) {
    enum { HALVES = 0x0000ffff, BYTES = 0x00ff00ff };
    lbuild *b = &t->e->b;
    for (int i = 0; i < words; i++) a[i] = load_word_a(t->e, t->c, idx_addk(b, at, 4 * i), NULL);
    for (int i = 0; i < words / 2; i++) exchange(b, &a[i], &a[i + words / 2], 16, HALVES);
    for (int i = 0; i < words; i += 2) exchange(b, &a[i], &a[i + 1], 8, BYTES);
}

// Element `i` of each byte: the byte's high bits if it has a sign.
static ins *bytes_of_word(tiling *t, ins *word, int i) {
    int bits = t->word.bits, low = ((1 << bits) - 1) * 0x01010101;
    if (!dtype_is_signed(t->c->b->buffer->dtype)) return masked(&t->e->b, word, -bits * i, low);
    return masked(&t->e->b, word, 8 - bits * (i + 1), (int32_t)((uint32_t)low << (8 - bits)));
}

static void add_bytes(lbuild *b, const contraction *c, ins *sum, ins *x, ins *y) {
    bool first = dtype_is_signed(c->a->buffer->dtype), second = dtype_is_signed(c->b->buffer->dtype);
    lop op = first == second ? first ? L_DOT4_SS : L_DOT4_UU : L_DOT4_US;
    bool swaps = first && !second;
    lb_set(b, sum, lb_dot(b, op, lb_get(b, sum), swaps ? y : x, swaps ? x : y));
}

static void accumulate_bytes(tiling *t, const tile *x, ins **acc, ins *start_b) {
    enum { MOST = 4 };
    emitter *e = t->e;
    lbuild *b = &e->b;
    int n = t->group / 4;
    ins *words[MAX_VECTORS], *at_b = lb_add(b, emit_index(e, t->b->offset), start_b);
    ins *row = emit_index(e, t->row_stride), *at_a = emit_index(e, t->a->offset);
    for (int v = 0; v < x->vectors; v++)
        words[v] = load_packed(e, t->c, lb_add(b, at_b, column_offset(t, v)), 1);
    for (int r = 0; r < x->rows; r++) {
        ins *a[MOST];
        load_transposed(t, lb_add(b, at_a, idx_mulk(b, row, r)), n, a);
        for (int v = 0; v < x->vectors; v++)
            for (int i = 0; i < n; i++)
                add_bytes(b, t->c, acc[r * x->vectors + v], a[i], bytes_of_word(t, words[v], i));
    }
}

static bool widens_read(const expr *term, const expr *read) {
    return term->op == X_CAST && term->arg[0] == read;
}

// The sum of as many products of a byte and of an element in the high bits of one is of 32 bits.
static bool multiplies_bytes(const tiling *t) {
    enum { MOST_PRODUCTS = 1 << 16 };
    const contraction *c = t->c;
    const target *of = t->e->t;
    const dim *k = t->e->extent[t->group_axis];
    dtype a = c->a->buffer->dtype;
    return of->dsp && !of->vector_bits && c->s->states.at[0].dtype == DT_I32 && (a == DT_I8 || a == DT_U8) &&
           widens_read(c->term_a, c->a) && widens_read(c->term_b, c->b) && dim_value(k) <= MOST_PRODUCTS &&
           t->a->affine && expr_is_int(t->a->coef[t->group_axis], 1);
}

static void byte_block(tiling *t, const tile *x, ins **acc, ins *start_b) {
    lbuild *b = &t->e->b;
    ins *part[MAX_ROWS * MAX_VECTORS], *zero = emit_zero(b, acc[0]->type);
    int sums = x->rows * x->vectors, scale = dtype_is_signed(t->c->b->buffer->dtype) ? 8 - t->word.bits : 0;
    for (int j = 0; j < sums; j++) part[j] = lb_var(b, "block", zero);
    scope loop = open_words(t);
    accumulate_bytes(t, x, part, start_b);
    close_words(t, loop);
    for (int j = 0; j < sums; j++) {
        ins *sum = lb_bin(b, L_ASHR, lb_get(b, part[j]), lb_int(b, zero->type, scale));
        lb_set(b, acc[j], lb_add(b, lb_get(b, acc[j]), sum));
    }
}

// ---------------------------------------------------------------- blocks
// The words of a block, whose sum B's invariant factors multiply if there are registers for it.
void add_packed(tiling *t, const tile *x, ins **acc, ins *start_b) {
    if (multiplies_bytes(t)) {
        byte_block(t, x, acc, start_b);
        return;
    }
    unsigned sides = load_sides(t, x);
    if (t->word.scale && has_room_for_block(t, x)) {
        ins *part[MAX_ROWS * MAX_VECTORS];
        begin_block_sums(t, x, part);
        word_loop(t, x, part, start_b, true);
        end_block_sums(t, x, acc, part);
    } else {
        word_loop(t, x, acc, start_b, !t->word.scale);
    }
    forget_sides(t, sides);
}
