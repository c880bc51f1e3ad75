// The micro-kernel of contractions whose operand B has elements of 2 or 4 bits, in words of 32 (schedule_words.h): element by
// element, with factors that are invariant in a block. Sums of bytes times integers are those of two products of 16 bits where the target
// has an instruction for them. A word of g elements has element i in its lower half and element i + g / 2 at the same place of its upper
// half:
//
//   for k in steps of g:
//     a[r][i] = A[m0 + r][k + i, k + i + g / 2]                                   for i < g / 2
//     w[v] = B[n0 ...][k / g]
//     for i < g / 2: for r, v: acc[r][v] += dot(a[r][i], w[v] << up(i) & 0xf000f000)     elements of 4 bits, times 2^12
//   for r, v: acc[r][v] >>= 12
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

// ---------------------------------------------------------------- in products of pairs
static ins *masked(lbuild *b, ins *x, int shift, int32_t mask) {
    if (shift) x = lb_bin(b, shift > 0 ? L_SHL : L_LSHR, x, lb_int(b, x->type, shift > 0 ? shift : -shift));
    return mask == -1 ? x : lb_bin(b, L_AND, x, lb_int(b, x->type, mask));
}

// The lower halves of *x and *y in *x, and the upper ones in *y.
static void exchange(lbuild *b, ins **x, ins **y) {
    enum { LOW = 0x0000ffff };
    ins *low = lb_bin(b, L_OR, masked(b, *x, 0, LOW), masked(b, *y, 16, ~LOW));
    *y = lb_bin(b, L_OR, masked(b, *x, -16, LOW), masked(b, *y, 0, ~LOW));
    *x = low;
}

// The words of a row from element `at` on. Word i, and the one half of all words later, become pairs of bytes of both: the first two of
// each, and the last two.
static void load_pairs(tiling *t, ins *at, int words, ins **a) {
    lbuild *b = &t->e->b;
    for (int i = 0; i < words; i++) a[i] = load_word_a(t->e, t->c, idx_addk(b, at, 4 * i), NULL);
    for (int i = 0; i < words / 2; i++) exchange(b, &a[i], &a[i + words / 2]);
}

// Element `i` of each half: the half's high bits if it has a sign.
static ins *halves_of_word(tiling *t, ins *word, int i) {
    int bits = t->word.bits, low = ((1 << bits) - 1) * 0x00010001;
    if (!dtype_is_signed(t->c->b->buffer->dtype)) return masked(&t->e->b, word, -bits * i, low);
    return masked(&t->e->b, word, 16 - bits * (i + 1), (int32_t)((uint32_t)low << (16 - bits)));
}

static void accumulate_fields(tiling *t, const tile *x, ins **acc, ins *start_b) {
    enum { MOST = 4 };
    emitter *e = t->e;
    lbuild *b = &e->b;
    int n = t->group / 4;
    lop op = dtype_is_signed(t->c->a->buffer->dtype) ? L_DOT2_S8 : L_DOT2_U8;
    ins *words[MAX_VECTORS], *at_b = lb_add(b, emit_index(e, t->b->offset), start_b);
    ins *row = emit_index(e, t->row_stride), *at_a = emit_index(e, t->a->offset);
    for (int v = 0; v < x->vectors; v++)
        words[v] = load_packed(e, t->c, lb_add(b, at_b, column_offset(t, v)), 1);
    for (int r = 0; r < x->rows; r++) {
        ins *a[MOST];
        load_pairs(t, lb_add(b, at_a, idx_mulk(b, row, r)), n, a);
        for (int v = 0; v < x->vectors; v++)
            for (int i = 0; i < 2 * n; i++) {
                ins *sum = acc[r * x->vectors + v], *pairs = a[i / 4 + i / 2 % 2 * (n / 2)];
                ins *bytes = masked(b, pairs, i % 2 ? -8 : 0, -1);
                lb_set(b, sum, lb_dot(b, op, lb_get(b, sum), halves_of_word(t, words[v], i), bytes));
            }
    }
}

static bool widens_read(const expr *term, const expr *read) {
    return term->op == X_CAST && term->arg[0] == read;
}

// The sum of as many products of a byte and an element is of 32 bits.
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

// In blocks whose sums of 16-bit products fit 32 bits.
static void byte_block(tiling *t, const tile *x, ins **acc, ins *start_b) {
    enum { MOST_IN_HIGH_BITS = 256 };
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *part[MAX_ROWS * MAX_VECTORS], *zero = emit_zero(b, acc[0]->type);
    bool high = dtype_is_signed(t->c->b->buffer->dtype);
    int sums = x->rows * x->vectors, scale = high ? 16 - t->word.bits : 0;
    int64_t all = dim_value(e->extent[t->group_axis]), block = high ? MOST_IN_HIGH_BITS : all;
    scope blocks = scope_for(e, "block", lb_idx(b, 0), lb_idx(b, all), block, LOOP_SERIAL);
    for (int j = 0; j < sums; j++) part[j] = lb_var(b, "block", zero);
    ins *end = lb_bin(b, L_SMIN, idx_addk(b, blocks.head, block), lb_idx(b, all));
    scope loop = scope_axis(e, t->group_axis, blocks.head, end, t->group, LOOP_SERIAL);
    accumulate_fields(t, x, part, start_b);
    close_words(t, loop);
    for (int j = 0; j < sums; j++) {
        ins *sum = lb_bin(b, L_ASHR, lb_get(b, part[j]), lb_int(b, zero->type, scale));
        lb_set(b, acc[j], lb_add(b, lb_get(b, acc[j]), sum));
    }
    scope_close(e, blocks);
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
