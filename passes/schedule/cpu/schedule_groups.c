// Contractions in groups along K: which ones, the width of their groups, and their instructions.
#include "passes/schedule/cpu/schedule_groups.h"
#include "ir/kernel/program.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/schedule_contract.h"
#include "passes/schedule/cpu/schedule_words.h"

// ---------------------------------------------------------------- applicability
static bool is_plain_byte(const expr *term, const expr *read) {
    dtype t = read->buffer->dtype;
    return term->op == X_CAST && term->dtype == DT_I32 && term->arg[0] == read && !read->guard &&
           (t == DT_I8 || t == DT_U8);
}

static bool are_bytes(const contraction *c) {
    return c->s->states.at[0].dtype == DT_I32 && is_plain_byte(c->term_a, c->a) &&
           is_plain_byte(c->term_b, c->b);
}

static bool is_plain_short(const expr *term, const expr *read) {
    dtype t = read->buffer->dtype;
    bool short_integer = dtype_is_int(t) && (dtype_bits(t) == 8 || dtype_bits(t) == 16);
    return term->op == X_CAST && term->dtype == DT_I32 && term->arg[0] == read && !read->guard &&
           short_integer;
}

bool multiplies_halves(const target *t, const contraction *c) {
    return sums_halves(t) && !t->arch.is_text && c->s->states.at[0].dtype == DT_I32 && !are_bytes(c) &&
           is_plain_short(c->term_a, c->a) && is_plain_short(c->term_b, c->b);
}

static bool is_word(const expr *term) {
    return term->op == X_CAST && term->dtype == DT_I64 && term->arg[0]->dtype == DT_I32;
}

// From floats.
static bool converts(const expr *term) { return term->arg[0]->op != X_READ; }

// Without an instruction that adds a product to 64 bits, tiles pay only where words are converted once for several columns.
bool multiplies_words(const target *t, const contraction *c) {
    return t->freestanding && !t->f32 && !t->vector_bits && !t->arch.is_text && t->size_level < 2 &&
           c->s->states.at[0].dtype == DT_I64 && is_word(c->term_a) && is_word(c->term_b) &&
           (t->adds_wide_products || converts(c->term_a) || converts(c->term_b));
}

bool widens_bytes(const target *t, const contraction *c) {
    return (t->arch.widens_products || t->tile_regs) && are_bytes(c);
}

static bool are_pairs(const contraction *c) {
    const buffer *a = c->a->buffer, *b = c->b->buffer;
    bool pairs = a->dtype == DT_BF16 || (a->dtype == DT_F32 && buffer_root(a)->rounded);
    return pairs && c->s->states.at[0].dtype == DT_F32 && c->term_a == c->a && c->term_b == c->b &&
           !c->a->guard && !c->b->guard && b->dtype == DT_BF16 && b->role == BUF_CONST;
}

static bool may_be_halves(const contraction *c) {
    dtype b = c->b->buffer->dtype;
    return c->s->states.at[0].dtype == DT_I32 && is_plain_short(c->term_a, c->a) &&
           is_plain_short(c->term_b, c->b) && c->a->buffer->dtype == DT_I16 && b != DT_U16 &&
           c->b->buffer->role == BUF_CONST;
}

bool are_halves(const contraction *c) {
    const layout *l = c->b->buffer->layout;
    return l && l->n >= 3 && l->order[l->n - 1].tile == 2 && may_be_halves(c);
}

int group_elements(const contraction *c) {
    return are_bytes(c) ? 4 : are_pairs(c) || are_halves(c) ? 2 : word_elements(c);
}

// The logical axis along which memory is contiguous; -1 if tiled.
static int innermost(const buffer *b) {
    const layout *l = b->layout;
    for (int j = (l ? l->n : b->rank) - 1; j >= 0; j--) {
        int axis = l ? l->order[j].axis : j;
        if (l && l->order[j].tile) return -1;
        if (!dim_is(b->dims[axis], 1) || (l && l->pad_lo[axis] + l->pad_hi[axis])) return axis;
    }
    return -1;
}

static bool index_steps_by_one(const contraction *c, expr *index, int axis) {
    expr *base, *coef[MAX_AXES];
    if (!expr_affine((kernel *)c->k, index, &base, coef)) return false;
    return expr_is_int(coef[axis], 1);
}

static int axis_in_b(const contraction *c, int axis) {
    return dim_of_axis(c->b->buffer, c->b->index, axis, true);
}

// The longest reduce axis along which A is contiguous.
static int neighbour_axis(const contraction *c) {
    int last = innermost(c->a->buffer), best = -1;
    if (last < 0) return -1;
    for (int j = 0; j < c->k_axes.n; j++) {
        int a = c->k_axes.at[j];
        if (!index_steps_by_one(c, c->a->index[last], a) || axis_in_b(c, a) < 0) continue;
        if (best < 0 || dim_less(c->k->axes.at[best].extent, c->k->axes.at[a].extent) == TRI_YES) best = a;
    }
    for (int j = 0; best >= 0 && j < c->a->buffer->rank; j++) // it indexes nothing else
        if (j != last && expr_uses_axis(c->a->index[j], best)) return -1;
    return best;
}

int pair_axis(const contraction *c) {
    int a = neighbour_axis(c);
    const dim *n = a < 0 ? NULL : c->k->axes.at[a].extent;
    return n && dim_is_const(n) && dim_value(n) % 2 == 0 ? a : -1;
}

static int grouped_axis(const contraction *c) {
    int elements = group_elements(c);
    if (word_elements(c)) return word_axis(c);
    if (may_be_halves(c)) return neighbour_axis(c);
    return elements == 4 ? neighbour_axis(c) : elements == 2 ? pair_axis(c) : -1;
}

// The axis of B's buffer along which its groups are.
static int grouped_in_b(const contraction *c, int axis) {
    return axis < 0 ? -1 : dim_of_axis(c->b->buffer, c->b->index, axis, !word_elements(c));
}

int group_axis(const target *t, const contraction *c) {
    bool apart = may_be_halves(c) && (!t->dsp || t->vector_bits || t->arch.is_text);
    return apart || widens_bytes(t, c) ? -1 : grouped_in_b(c, grouped_axis(c));
}

bool interleaves_columns(const contraction *c) {
    return may_be_halves(c) && dtype_bits(c->b->buffer->dtype) == 8;
}

int packed_elements(const target *t, const contraction *c) {
    int elements = may_be_halves(c) ? 2 : group_elements(c), axis = grouped_axis(c);
    const dim *k = axis < 0 ? NULL : c->k->axes.at[axis].extent;
    bool several = axes_extent(c->k, c->m.at, c->m.n)->max > 1;
    bool wide =
        t->wide_groups && !word_elements(c) && several && k && !(dim_is_const(k) && dim_value(k) <= elements);
    return wide ? 2 * elements : elements;
}

int grouped_operand(const contraction *c, int *k) {
    const layout *l = c->b->buffer->layout;
    bool alternate = l && interleaves(l);
    int place = l && l->n >= 3 ? l->n - 1 - alternate : 0;
    int elements = group_elements(c), packed = place ? l->order[place].tile : 0;
    *k = -1;
    if (!elements || (packed != elements && packed != 2 * elements) ||
        panel_of(c->b->buffer, true) < LEAST_PANEL || alternate != (are_halves(c) && interleaves_columns(c)))
        return 0;
    const expr *n = c->b->index[l->order[place - 1].axis];
    int axis = grouped_axis(c);
    if (n->op != X_AXIS || n->axis != c->n || axis < 0 || grouped_in_b(c, axis) != l->order[place].axis)
        return 0;
    *k = axis;
    return packed;
}

static int64_t positions(const contraction *c, int axis) {
    const dim *extent = c->k->axes.at[axis].extent;
    return dim_is_const(extent) ? dim_value(extent) : 0;
}

// Whether vectors of B's bytes can be taken apart along the axis: the sum of all products, with elements in the high bits of a byte,
// fits 32 bits.
static bool has_small_columns(const target *t, const contraction *c, int axis) {
    enum { MOST_PRODUCTS = 1 << 16 };
    const buffer *b = c->b->buffer;
    bool plain = is_plain_byte(c->term_a, c->a) && c->term_b->op == X_CAST && c->term_b->arg[0] == c->b &&
                 dtype_is_int(b->dtype);
    const dim *all = axes_extent(c->k, c->k_axes.at, c->k_axes.n);
    return plain && c->s->states.at[0].dtype == DT_I32 && axis >= 0 && axis == word_axis(c) &&
           positions(c, axis) >= t->vector_bits / dtype_bits(b->dtype) && all->max >= 0 &&
           all->max <= MOST_PRODUCTS;
}

int across_axis(const target *t, const contraction *c) {
    if (!t->dot_across || c->n < 0 || !dim_is_const(c->k->axes.at[c->n].extent)) return -1;
    int axis = word_elements(c) || group_elements(c) == 4 ? neighbour_axis(c) : -1;
    return word_elements(c) && !has_small_columns(t, c, axis) ? -1 : axis;
}

// The only axis that both operands have in common; -1: none, or several.
static int axis_of_groups(const contraction *c) {
    int found = -1;
    for (int j = 0; j < c->batch.n; j++) {
        if (positions(c, c->batch.at[j]) == 1) continue;
        if (found >= 0) return -1;
        found = c->batch.at[j];
    }
    return found;
}

static double filled_lanes(int64_t n, int lanes) {
    return (double)n / (double)((n + lanes - 1) / lanes * lanes);
}

// Bytes, or bytes times integers of 16 bits.
static bool are_short(const contraction *c) {
    return c->s->states.at[0].dtype == DT_I32 && is_plain_byte(c->term_a, c->a) &&
           (is_plain_byte(c->term_b, c->b) || c->b->buffer->dtype == DT_I16);
}

int short_rows_axis(const target *t, const contraction *c) {
    enum { SHORT_ROW = 2 };
    int groups = axis_of_groups(c), lanes = target_lanes(t, 32), last = innermost(c->a->buffer);
    if (!t->dot_across || !are_short(c) || c->b->buffer->role != BUF_CONST || c->n < 0 || c->other_n.n ||
        groups < 0 || last < 0 || !expr_uses_axis(c->a->index[last], groups))
        return -1;
    int row = neighbour_axis(c);
    if (row >= 0 && (!positions(c, row) || positions(c, row) > SHORT_ROW)) return -1;
    int64_t few = positions(c, c->n), many = positions(c, groups);
    int axis = few >= lanes && filled_lanes(few, lanes) >= filled_lanes(many, lanes) ? c->n : groups;
    return positions(c, axis) >= lanes ? axis : -1;
}

// Whether the columns are places of a window that slides along them.
static bool slides_along(const contraction *c, int axis) {
    const expr *image = c->b;
    for (int j = 0; j < image->buffer->rank; j++)
        for (int i = 0; i < c->k_axes.n && expr_uses_axis(image->index[j], axis); i++)
            if (positions(c, c->k_axes.at[i]) > 1 && expr_uses_axis(image->index[j], c->k_axes.at[i]))
                return true;
    return false;
}

int lanes_axis(const target *t, const contraction *c) {
    bool single = t->dot_across && are_short(c) && c->a->buffer->role == BUF_CONST && !c->m.n && !c->batch.n;
    bool window = single && c->n >= 0 && c->other_n.n && slides_along(c, c->n);
    return window && across_axis(t, c) < 0 ? c->n : short_rows_axis(t, c);
}

group_unit unit_of(const target *t, const contraction *c, int packed) {
    int elements = group_elements(c);
    if (packed > elements && (elements == 4 ? t->i8mm : t->bf16mm)) return UNIT_BLOCKS;
    return t->arch.dot_lanes && (elements == 4 ? t->vector_bits > 0 : t->bf16mm) ? UNIT_LANES : UNIT_WORDS;
}

bool flips_a(const target *t, const contraction *c, int packed) {
    if (group_elements(c) != 4 || word_elements(c) || !t->vector_bits || unit_of(t, c, packed) == UNIT_BLOCKS)
        return false;
    bool mixed = c->a->buffer->dtype != c->b->buffer->dtype;
    return t->arch.dot_signed ? mixed && !t->i8mm
                              : t->arch.dot_unsigned && t->vnni && !mixed && c->a->buffer->dtype == DT_U8;
}

// Blocks: half of a register of A for each row. Lanes: a register of A for each row, since its four words are taken
// one after the other, and two more for words of wide groups. Words: pairs are two vectors of f32 each. Without VNNI x86
// widens bytes to 16 bits, so B takes two registers per vector and A two. Without vectors, 2 x 2 sums and their operands
// fill the registers.
int grouped_rows(const target *t, const contraction *c, int packed, int vectors) {
    bool both_signed = c->a->buffer->dtype == DT_I8 && c->b->buffer->dtype == DT_I8;
    int free = t->vector_regs - 3;
    if (!t->vector_bits) return 2;
    if (word_elements(c)) return (t->vector_regs - 2 * vectors - 2) / vectors;
    if (flips_a(t, c, packed)) free -= vectors + 1;
    switch (unit_of(t, c, packed)) {
    case UNIT_BLOCKS: return 2 * free / (2 * vectors + 1) / 2 * 2;
    case UNIT_LANES: return (free - vectors - (packed > group_elements(c) ? 2 : 0)) / (vectors + 1);
    case UNIT_WORDS: break;
    }
    if (group_elements(c) == 2 ? !t->bf16_pairs : !t->vnni) return (free - 2 * vectors) / vectors;
    return (t->vector_regs - (both_signed ? 2 * vectors + 3 : vectors + 1)) / vectors;
}

bool adds_halves(const target *t, const contraction *c) {
    const buffer *b = c->b->buffer;
    int axis = grouped_in_b(c, grouped_axis(c));
    bool needed = t->arch.dot == DOT_AARCH64 && !t->vnni && group_elements(c) == 4;
    if (!needed || axis < 0 || b->dtype != DT_I8 || b->role != BUF_CONST) return false;
    const constant *data = b->data;
    if (data->kind != CONST_BYTES) return data->kind == CONST_SPLAT && (int8_t)data->splat[0] != INT8_MIN;
    int64_t stride = 1;
    for (int j = axis + 1; j < data->rank; j++) stride *= data->dims[j];
    for (int64_t i = 0; i < data->count - stride; i++) {
        bool first = i / stride % data->dims[axis] % 2 == 0;
        if (first && (int8_t)data->data[i] == INT8_MIN && (int8_t)data->data[i + stride] == INT8_MIN)
            return false;
    }
    return true;
}

// ---------------------------------------------------------------- instructions
// A byte, or 16 bits, in 32.
static ins *one_element(emitter *e, const contraction *c, ins *at) {
    int bits = dtype_bits(c->a->buffer->dtype);
    ins *v = lb_load(&e->b, lt(bits == 8 ? LK_I8 : LK_I16, 1), pointer_of(e, c->a->buffer), at, bits / 8);
    return lb_conv(&e->b, L_ZEXT, LK_I32, v);
}

static ins *some_elements(emitter *e, const contraction *c, ins *at, ins *n) {
    lbuild *b = &e->b;
    int bits = dtype_bits(c->a->buffer->dtype);
    if (n->op == L_CONST) {
        ins *word = one_element(e, c, at);
        for (int j = 1; j < n->i; j++) {
            ins *next = one_element(e, c, idx_addk(b, at, j));
            word = lb_bin(b, L_OR, word, lb_bin(b, L_SHL, next, lb_int(b, lt(LK_I32, 1), bits * j)));
        }
        return word;
    }
    ins *word = lb_var(b, "word", lb_int(b, lt(LK_I32, 1), 0));
    ins *j = lb_for(b, "element", lb_idx(b, 0), n, lb_idx(b, 1), LOOP_SERIAL);
    ins *up = idx_mulk(b, j, bits);
    if (up->type.kind != LK_I32) up = lb_conv(b, L_ITRUNC, LK_I32, up);
    ins *next = lb_bin(b, L_SHL, one_element(e, c, lb_add(b, at, j)), up);
    lb_set(b, word, lb_bin(b, L_OR, lb_get(b, word), next));
    lb_end(b, j);
    return lb_get(b, word);
}

ins *load_word_a(emitter *e, const contraction *c, ins *at, ins *n) {
    lbuild *b = &e->b;
    int size = dtype_bits(c->a->buffer->dtype) / 8, elements = 4 / size;
    if (n && n->op == L_CONST && n->i <= 0) return lb_int(b, lt(LK_I32, 1), 0);
    if (n && !(n->op == L_CONST && n->i >= elements)) return some_elements(e, c, at, n);
    return lb_load(b, lt(LK_I32, 1), lb_offset(b, pointer_of(e, c->a->buffer), at, size), lb_idx(b, 0), size);
}

ins *load_part_a(emitter *e, const contraction *c, ins *at, int n) {
    lbuild *b = &e->b;
    int size = dtype_bits(c->a->buffer->dtype) / 8;
    ins *p = lb_offset(b, pointer_of(e, c->a->buffer), at, size);
    return lb_load_part(b, lt(LK_I32, 1), p, lb_idx(b, 0), n * size);
}

ins *half_of_pairs(lbuild *b, ins *x, bool high) {
    ins *bits = high ? lb_bin(b, L_AND, x, lb_int(b, x->type, (int32_t)0xffff0000))
                     : lb_bin(b, L_SHL, x, lb_int(b, x->type, 16));
    return lb_bitcast(b, lt(LK_F32, x->type.lanes), bits);
}

// The products of a unit: of bytes by whether A and B are signed, and of bf16.
typedef struct products {
    lop bytes[2][2], bf16;
} products;
static const products of_blocks = {{{L_BLOCK_UU8, L_BLOCK_US8}, {L_BLOCK_US8, L_BLOCK_SS8}}, L_BLOCK_BF16};
static const products of_lanes = {{{L_DOT4_UU, L_DOT4_US}, {L_DOT4_US, L_DOT4_SS}}, L_DOT2_BF16};
static const products of_words = {{{L_DOT4_UU, L_DOT4_US}, {L_DOT4_US, L_DOT4_SS}}, L_PAIR_BF16};

// *swaps: its first operand must be B.
static lop product_of(const contraction *c, const products *p, bool flipped, bool *swaps) {
    bool a = (c->a->buffer->dtype == DT_I8) != flipped, b = c->b->buffer->dtype == DT_I8;
    *swaps = a && !b && group_elements(c) == 4;
    if (are_halves(c)) return dtype_bits(c->b->buffer->dtype) == 16 ? L_DOT2 : b ? L_DOT2_S8 : L_DOT2_U8;
    return group_elements(c) == 2 ? p->bf16 : p->bytes[a][b];
}

ins *group_products(emitter *e, const contraction *c, group_form form, ins *acc, ins *a, ins *b) {
    static const products *const of[] = {
        [UNIT_WORDS] = &of_words, [UNIT_LANES] = &of_lanes, [UNIT_BLOCKS] = &of_blocks};
    bool swaps;
    lop op = product_of(c, of[form.unit], form.flipped, &swaps);
    if (form.halves && op == L_DOT4_SS) op = L_DOT4_SH;
    if (form.unit == UNIT_LANES && op != L_DOT4_US)
        swaps = true; // the processor takes a lane of its last operand
    return lb_dot(&e->b, op, acc, swaps ? b : a, swaps ? a : b);
}

bool blocks_are_transposed(const contraction *c) {
    bool swaps;
    product_of(c, &of_blocks, false, &swaps);
    return swaps;
}
