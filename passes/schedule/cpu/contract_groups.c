// The micro-kernel of contractions whose operands are in groups along K (schedule_groups.h). For groups of one word,
// with W words of A in a step:
//
//   for k in steps of W groups:
//     a[r] = A[m0 + r][k ...]                    a word in all lanes, or a register of four words
//     for w < W: for r, v: acc[r][v] = dot(acc[r][v], word w of a[r], B[n0 ...][k + w])
//
// Where the unit has no product for the operands' signs (flips_a), the bytes of A are off by -128 or 128, and so are the sums
// by that times B's bytes, which `extra` adds up for each vector:
//
//   for w < W: for v: extra[v] = dot(extra[v], 0x80808080, B[n0 ...][k + w])
//   for r, v: acc[r][v] -= extra[v]
//
// Blocks: acc[r][v] and acc[r + 1][v] of rows in pairs hold the left and the right blocks of vector v's columns.
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "ir/loops/loops_blocks.h"
#include "passes/schedule/cpu/contract_tiling.h"
#include "passes/schedule/cpu/schedule_groups.h"

enum {
    STEP_WORDS = 4, // a register of 128 bits of each row of A
    WORD_BYTES = 4,
    MOST_WORDS = 5 // in a step without vectors
};

typedef struct group_step {
    int words; // of A in a step
    ins *left; // elements that count, NULL: all
    ins *at_a;
    const tile *x;
    ins *a[MAX_ROWS]; // all words of each row, but for UNIT_WORDS
    ins **extra;      // NULL: A has its own sign
} group_step;

static group_unit unit_for(const tiling *t) { return unit_of(t->e->t, t->c, t->group); }
static int words_in_group(const tiling *t) { return t->group / group_elements(t->c); }

int sum_rows(const tiling *t, const tile *x) {
    bool blocks = t->group_axis >= 0 && unit_for(t) == UNIT_BLOCKS;
    return blocks ? (x->rows + 1) / 2 * 2 : x->rows;
}

// ---------------------------------------------------------------- operands
// Whether a word of A may be loaded of which less than all counts: B's other elements are 0. If so, all of A's last word is in memory.
static bool may_read_beyond(const tiling *t) {
    buffer *a = (buffer *)buffer_root(t->c->a->buffer);
    if (!is_microcontroller(t->e->t) || !t->e->t->dsp || a->role != BUF_TEMP ||
        t->c->b->buffer->role != BUF_CONST)
        return false;
    a->beyond = WORD_BYTES - 1;
    return true;
}

static ins *word_of_a(tiling *t, ins *at, const group_step *s, int w) {
    lbuild *b = &t->e->b;
    int64_t before = (int64_t)w * group_elements(t->c);
    ins *left = s->left ? lb_add(b, s->left, lb_idx(b, -before)) : NULL;
    if (left && left->op == L_CONST && left->i > 0 && left->i < group_elements(t->c) && may_read_beyond(t))
        return load_part_a(t->e, t->c, idx_addk(b, at, before), (int)left->i);
    if (left && left->op != L_CONST) {
        left = lb_bin(b, L_SMAX, left, lb_idx(b, 0));
        left = lb_bin(b, L_SMIN, left, lb_idx(b, group_elements(t->c)));
    }
    return load_word_a(t->e, t->c, idx_addk(b, at, before), left);
}

static ins *row_at(tiling *t, const group_step *s, int r) {
    return lb_add(&t->e->b, s->at_a, row_offset(t, s->x, r));
}

// The words of a row in the lanes of a vector.
static ins *words_of_a(tiling *t, ins *at, const group_step *s) {
    lbuild *b = &t->e->b;
    int size = dtype_bits(t->c->a->buffer->dtype) / 8;
    if (!s->left)
        return lb_load(b, lt(LK_I32, s->words), lb_offset(b, pointer_of(t->e, t->c->a->buffer), at, size),
                       lb_idx(b, 0), size);
    ins *all = lb_splat(b, word_of_a(t, at, s, 0), s->words);
    for (int w = 1; w < s->words; w++) all = lb_insert(b, all, word_of_a(t, at, s, w), w);
    return all;
}

// Words of two columns: those of the second one are bytes 1 and 3.
static bool has_two_columns(const tiling *t) { return are_halves(t->c) && interleaves_columns(t->c); }

// A register of words of B, from element `at`.
static ins *load_b(tiling *t, ins *at) {
    lbuild *b = &t->e->b;
    ins *p = lb_offset(b, pointer_of(t->e, t->c->b->buffer), at, dtype_bits(t->c->b->buffer->dtype) / 8);
    return lb_load(b, lt(LK_I32, t->lanes), p, lb_idx(b, 0), 4);
}

// The words of the left and the right half of a vector's columns.
static void load_halves(tiling *t, ins *at_b, int v, ins *half[2]) {
    lbuild *b = &t->e->b;
    ins *at = lb_add(b, at_b, column_offset(t, v));
    half[0] = load_b(t, at);
    half[1] = load_b(t, idx_addk(b, at, (int64_t)t->lanes / 2 * t->group));
}

// by[w]: word w of the groups of vector v's columns.
static void load_words(tiling *t, ins *at_b, int v, ins *by[BLOCK_WORDS]) {
    ins *half[2];
    load_halves(t, at_b, v, half);
    for (int w = 0; w < BLOCK_WORDS; w++) {
        int mask[PANEL];
        for (int l = 0; l < t->lanes; l++) mask[l] = BLOCK_WORDS * l + w;
        by[w] = lb_shuffle(&t->e->b, half[0], half[1], mask, t->lanes);
    }
}

static ins *top_bits(lbuild *b, ltype words) { return lb_int(b, words, (int32_t)0x80808080); }

// ---------------------------------------------------------------- products
static void add_product(tiling *t, const group_step *s, ins *sum, ins *a, ins *b) {
    lbuild *l = &t->e->b;
    group_form form = {unit_for(t), s->extra != NULL, t->halves};
    lb_set(l, sum, group_products(t->e, t->c, form, lb_get(l, sum), a, b));
}

static void add_extra(tiling *t, const group_step *s, int v, ins *b) {
    if (s->extra) add_product(t, s, s->extra[v], top_bits(&t->e->b, lt(LK_I32, t->lanes)), b);
}

// Word w of a row in all lanes. LLVM finds the instructions for pairs by a lane of floats.
static ins *splat_word(tiling *t, const group_step *s, int r, int w) {
    lbuild *b = &t->e->b;
    ins *words = s->a[r];
    if (!words) {
        words = word_of_a(t, row_at(t, s, r), s, w);
        if (s->extra) words = lb_bin(b, L_XOR, words, top_bits(b, words->type));
    }
    if (words->type.lanes == 1) return lb_splat(b, words, t->lanes);
    if (group_elements(t->c) == 2) words = lb_bitcast(b, lt(LK_F32, words->type.lanes), words);
    return lb_bitcast(b, lt(LK_I32, t->lanes), lb_splat(b, lb_extract(b, words, w), t->lanes));
}

// Pairs without a unit: `n` words of B from vector `from` on times the pair of A's elements at word w of the step.
static void add_pairs(tiling *t, const tile *x, ins **acc, const group_step *s, int w, int from, int n,
                      ins *const *words) {
    lbuild *b = &t->e->b;
    const buffer *a = t->c->a->buffer;
    for (int high = 0; high < 2; high++) {
        ins *fb[MAX_VECTORS];
        for (int v = 0; v < n; v++) fb[v] = half_of_pairs(b, words[v], high);
        for (int r = 0; r < x->rows; r++) {
            ins *at = idx_addk(b, row_at(t, s, r), 2 * w + high);
            ins *fa = lb_splat(b, load_element(b, a->dtype, pointer_of(t->e, a), at, 1), t->lanes);
            ins **sums = acc + r * x->vectors + from;
            for (int v = 0; v < n; v++) lb_set(b, sums[v], emit_muladd(b, fa, fb[v], lb_get(b, sums[v])));
        }
    }
}

static bool are_split_pairs(const tiling *t) {
    return group_elements(t->c) == 2 && !are_halves(t->c) && unit_for(t) == UNIT_WORDS &&
           !t->e->t->bf16_pairs;
}

// Wide groups as words, vector by vector: all of B's words would take too many registers.
static void add_halves(tiling *t, const tile *x, ins **acc, const group_step *s, ins *at_b, int g) {
    ins *fa[MAX_ROWS][BLOCK_WORDS];
    bool split = are_split_pairs(t);
    for (int r = 0; r < x->rows && !split; r++)
        for (int w = 0; w < BLOCK_WORDS; w++) fa[r][w] = splat_word(t, s, r, BLOCK_WORDS * g + w);
    for (int v = 0; v < x->vectors; v++) {
        ins *fb[BLOCK_WORDS];
        load_words(t, at_b, v, fb);
        for (int w = 0; w < BLOCK_WORDS && split; w++)
            add_pairs(t, x, acc, s, BLOCK_WORDS * g + w, v, 1, &fb[w]);
        for (int w = 0; w < BLOCK_WORDS && !split; w++) {
            for (int r = 0; r < x->rows; r++) add_product(t, s, acc[r * x->vectors + v], fa[r][w], fb[w]);
            add_extra(t, s, v, fb[w]);
        }
    }
}

// g: the group of the step, at at_b.
static void add_words(tiling *t, const tile *x, ins **acc, const group_step *s, ins *at_b, int g) {
    lbuild *b = &t->e->b;
    ins *fb[MAX_VECTORS];
    for (int v = 0; v < x->vectors; v++)
        fb[v] = has_two_columns(t) && v % 2 ? lb_bin(b, L_LSHR, fb[v - 1], lb_int(b, lt(LK_I32, 1), 8))
                                            : load_b(t, lb_add(b, at_b, column_offset(t, v)));
    if (are_split_pairs(t)) {
        add_pairs(t, x, acc, s, g, 0, x->vectors, fb);
        return;
    }
    for (int r = 0; r < x->rows; r++) {
        ins *fa = splat_word(t, s, r, g);
        for (int v = 0; v < x->vectors; v++) add_product(t, s, acc[r * x->vectors + v], fa, fb[v]);
    }
    for (int v = 0; v < x->vectors; v++) add_extra(t, s, v, fb[v]);
}

static ins *repeat_block(tiling *t, ins *one) {
    int mask[PANEL];
    for (int l = 0; l < t->lanes; l++) mask[l] = l % BLOCK_LANES;
    return t->lanes == BLOCK_LANES ? one : lb_shuffle(&t->e->b, one, one, mask, t->lanes);
}

static void add_blocks(tiling *t, const tile *x, ins **acc, const group_step *s, ins *at_b, int g) {
    lbuild *b = &t->e->b;
    ins *const *a = s->a;
    ins *pair[(MAX_ROWS + 1) / 2];
    int words = a[0]->type.lanes, first = BLOCK_WORDS * g;
    for (int r = 0; r < x->rows; r += 2) {
        ins *second = r + 1 < x->rows ? a[r + 1] : a[r];
        pair[r / 2] = lb_shuffle(b, a[r], second, (int[]){first, first + 1, words + first, words + first + 1},
                                 BLOCK_LANES);
        pair[r / 2] = repeat_block(t, pair[r / 2]);
    }
    for (int v = 0; v < x->vectors; v++) {
        ins *half[2];
        load_halves(t, at_b, v, half);
        for (int r = 0; r < x->rows; r += 2)
            for (int h = 0; h < 2; h++)
                add_product(t, s, acc[(r + h) * x->vectors + v], pair[r / 2], half[h]);
    }
}

static void add_step(tiling *t, const tile *x, ins **acc, ins *start_b, group_step s) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    s.x = x;
    ins *at_b = lb_add(b, emit_index(e, t->b->offset), start_b);
    s.at_a = emit_index(e, t->a->offset);
    for (int r = 0; r < x->rows && unit_for(t) != UNIT_WORDS; r++) {
        s.a[r] = words_of_a(t, row_at(t, &s, r), &s);
        if (s.extra) s.a[r] = lb_bin(b, L_XOR, s.a[r], top_bits(b, s.a[r]->type));
    }
    for (int g = 0; g < s.words / words_in_group(t); g++) {
        ins *group = idx_addk(b, at_b, (int64_t)g * t->group * t->panel);
        emit_prefetch(t, group);
        if (!g) emit_request(t, x, group, s.words * group_elements(t->c));
        (unit_for(t) == UNIT_BLOCKS ? add_blocks
         : words_in_group(t) > 1    ? add_halves
                                    : add_words)(t, x, acc, &s, group, g);
    }
}

// Whole steps from *begin on.
static void whole_steps(tiling *t, const tile *x, ins **acc, ins *start_b, ins **begin, group_step s) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int step = s.words * group_elements(t->c);
    ins *extent = emit_dim(e, e->extent[t->group_axis]), *end = emit_int_floor(b, extent, step);
    if (same_index(*begin, end)) return;
    scope loop = scope_axis(e, t->group_axis, *begin, end, step, LOOP_SERIAL);
    add_step(t, x, acc, start_b, s);
    scope_close(e, loop);
    *begin = end;
}

// Words of K in a step without vectors. With instructions for products of groups, the others around a step are as many as its
// products, so a step has several words, by which the number of groups is divisible.
static int scalar_words(const tiling *t, const ins *extent) {
    if (t->lanes > 1 || !t->e->t->dsp || t->e->t->size_level > 1 || extent->op != L_CONST) return 1;
    int64_t groups = extent->i / t->group;
    for (int words = MOST_WORDS; words > 1; words--)
        if (groups && groups % words == 0) return words;
    return 1;
}

int taps_in_step(const tiling *t, int64_t taps) {
    const dim *elements = t->e->extent[t->group_axis];
    if (t->lanes > 1 || !t->e->t->dsp || t->e->t->size_level > 1 || !dim_is_const(elements)) return 1;
    int64_t words = (dim_value(elements) + t->group - 1) / t->group * words_in_group(t);
    return taps > 0 && words > 0 && taps <= MOST_WORDS / words ? (int)taps : 1;
}

static void subtract_extra(tiling *t, const tile *x, ins **acc, ins *const *extra) {
    lbuild *b = &t->e->b;
    for (int i = 0; i < x->rows * x->vectors; i++)
        lb_set(b, acc[i], lb_sub(b, lb_get(b, acc[i]), lb_get(b, extra[i % x->vectors])));
}

void add_groups(tiling *t, const tile *x, ins **acc, ins *start_b) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *extent = emit_dim(e, e->extent[t->group_axis]), *begin = lb_idx(b, 0);
    ins *extra[MAX_VECTORS];
    bool flips = flips_a(e->t, t->c, t->group);
    for (int v = 0; v < x->vectors && flips; v++)
        extra[v] = lb_var(b, "extra", lb_int(b, lt(LK_I32, t->lanes), 0));
    group_step s = {.words = STEP_WORDS, .extra = flips ? extra : NULL};
    if (unit_for(t) != UNIT_WORDS) whole_steps(t, x, acc, start_b, &begin, s);
    s.words = scalar_words(t, extent) * words_in_group(t);
    whole_steps(t, x, acc, start_b, &begin, s);
    if (!same_index(begin, extent)) {
        ins *left = lb_sub(b, extent, begin);
        scope some = scope_if(e, left->op == L_CONST ? NULL : lb_cmp(b, L_SLT, lb_idx(b, 0), left));
        e->counter[t->group_axis] = begin;
        s.words = words_in_group(t), s.left = left;
        add_step(t, x, acc, start_b, s);
        scope_close(e, some);
    }
    e->counter[t->group_axis] = NULL;
    if (flips) subtract_extra(t, x, acc, extra);
}

// ---------------------------------------------------------------- blocks
// The sums of one of two rows, in the blocks of the left and of the right half of the columns.
static void mask_of_row(const tiling *t, int row, int *mask) {
    bool transposed = blocks_are_transposed(t->c);
    int half = t->lanes / 2;
    for (int l = 0; l < t->lanes; l++) {
        int block = l / half * t->lanes + l % half / 2 * BLOCK_LANES, column = l % 2;
        mask[l] = block + (transposed ? 2 * column + row : 2 * row + column);
    }
}

void split_blocks_of_sums(tiling *t, const tile *x, ins **acc) {
    lbuild *b = &t->e->b;
    if (t->group_axis < 0 || unit_for(t) != UNIT_BLOCKS) return;
    int masks[2][PANEL];
    for (int row = 0; row < 2; row++) mask_of_row(t, row, masks[row]);
    for (int r = 0; r < x->rows; r += 2)
        for (int v = 0; v < x->vectors; v++) {
            ins *first = acc[r * x->vectors + v], *second = acc[(r + 1) * x->vectors + v];
            ins *left = lb_get(b, first), *right = lb_get(b, second);
            lb_set(b, first, lb_shuffle(b, left, right, masks[0], t->lanes));
            lb_set(b, second, lb_shuffle(b, left, right, masks[1], t->lanes));
        }
}
