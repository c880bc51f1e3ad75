// Contractions in groups of 4 bytes along K: dot4 instructions, and pairs of bf16.
#include "passes/schedule/cpu/schedule_groups.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/schedule_contract.h"
#include "passes/schedule/cpu/schedule_words.h"

// ---------------------------------------------------------------- which
static bool is_plain_byte(const expr *term, const expr *read) {
    dtype t = read->buffer->dtype;
    return term->op == X_CAST && term->dtype == DT_I32 && term->arg[0] == read && !read->guard &&
           (t == DT_I8 || t == DT_U8);
}

// No target multiplies two unsigned operands.
static bool are_bytes(const contraction *c) {
    if (c->s->states.at[0].dtype != DT_I32 || !is_plain_byte(c->term_a, c->a) ||
        !is_plain_byte(c->term_b, c->b))
        return false;
    return c->a->buffer->dtype == DT_I8 || c->b->buffer->dtype == DT_I8;
}

static bool are_pairs(const contraction *c) {
    return c->s->states.at[0].dtype == DT_F32 && c->term_a == c->a && c->term_b == c->b && !c->a->guard &&
           !c->b->guard && c->a->buffer->dtype == DT_BF16 && c->b->buffer->dtype == DT_BF16 &&
           c->b->buffer->role == BUF_CONST;
}

int group_elements(const contraction *c) { return are_bytes(c) ? 4 : are_pairs(c) ? 2 : word_elements(c); }

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
    return elements == 4 ? neighbour_axis(c) : elements == 2 ? pair_axis(c) : -1;
}

// The axis of B's buffer along which its groups are.
static int grouped_in_b(const contraction *c, int axis) {
    return axis < 0 ? -1 : dim_of_axis(c->b->buffer, c->b->index, axis, !word_elements(c));
}

int group_axis(const contraction *c) { return grouped_in_b(c, grouped_axis(c)); }

bool is_grouped_operand(const contraction *c, int *k) {
    const layout *l = c->b->buffer->layout;
    int elements = group_elements(c);
    if (!elements || !l || l->n < 3 || l->order[l->n - 1].tile != elements ||
        l->order[l->n - 2].tile != PANEL)
        return false;
    const expr *n = c->b->index[l->order[l->n - 2].axis];
    *k = grouped_axis(c);
    return n->op == X_AXIS && n->axis == c->n && *k >= 0 && grouped_in_b(c, *k) == l->order[l->n - 1].axis;
}

// Pairs are two vectors of f32 each. Without VNNI x86 widens bytes to 16 bits, so B takes two registers per vector and A two. Without vectors, 2
// x 2 sums and their operands fill the registers.
int grouped_rows(const target *t, const contraction *c, int vectors) {
    bool both_signed = c->a->buffer->dtype == DT_I8 && c->b->buffer->dtype == DT_I8;
    if (!t->vector_bits) return 2;
    if (word_elements(c)) return (t->vector_regs - 2 * vectors - 2) / vectors;
    if (group_elements(c) == 2) return (t->vector_regs - 2 * vectors - 3) / vectors;
    if (!t->vnni) return (t->vector_regs - 2 * vectors - 3) / vectors;
    return (t->vector_regs - (both_signed ? 2 * vectors + 3 : vectors + 1)) / vectors;
}

// ---------------------------------------------------------------- instructions
static ins *one_byte(emitter *e, const contraction *c, ins *at) {
    ins *v = lb_load(&e->b, lt(LK_I8, 1), pointer_of(e, c->a->buffer), at, 1);
    return lb_conv(&e->b, L_ZEXT, LK_I32, v);
}

static ins *some_bytes(emitter *e, const contraction *c, ins *at, ins *n) {
    lbuild *b = &e->b;
    if (n->op == L_CONST) {
        ins *word = one_byte(e, c, at);
        for (int j = 1; j < n->i; j++) {
            ins *byte = one_byte(e, c, idx_addk(b, at, j));
            word = lb_bin(b, L_OR, word, lb_bin(b, L_SHL, byte, lb_int(b, lt(LK_I32, 1), 8 * j)));
        }
        return word;
    }
    ins *word = lb_var(b, "quad", lb_int(b, lt(LK_I32, 1), 0));
    ins *j = lb_for(b, "byte", lb_idx(b, 0), n, lb_idx(b, 1), LOOP_SERIAL);
    ins *up = idx_mulk(b, j, 8);
    if (up->type.kind != LK_I32) up = lb_conv(b, L_ITRUNC, LK_I32, up);
    ins *byte = lb_bin(b, L_SHL, one_byte(e, c, lb_add(b, at, j)), up);
    lb_set(b, word, lb_bin(b, L_OR, lb_get(b, word), byte));
    lb_end(b, j);
    return lb_get(b, word);
}

ins *load_group_a(emitter *e, const contraction *c, ins *at, ins *n) {
    lbuild *b = &e->b;
    int size = dtype_bits(c->a->buffer->dtype) / 8;
    ins *word;
    if (n) word = some_bytes(e, c, at, n);
    else
        word = lb_load(b, lt(LK_I32, 1), lb_offset(b, pointer_of(e, c->a->buffer), at, size), lb_idx(b, 0),
                       size);
    return lb_splat(b, word, e->lanes);
}

ins *load_group_b(emitter *e, const contraction *c, ins *at) {
    ins *p = lb_offset(&e->b, pointer_of(e, c->b->buffer), at, dtype_bits(c->b->buffer->dtype) / 8);
    return lb_load(&e->b, lt(LK_I32, e->lanes), p, lb_idx(&e->b, 0), 4);
}

// The low or high bf16 of each lane as f32.
static ins *half_of_pair(lbuild *b, ins *x, bool high) {
    ins *bits = high ? lb_bin(b, L_AND, x, lb_int(b, x->type, (int64_t)0xffff0000))
                     : lb_bin(b, L_SHL, x, lb_int(b, x->type, 16));
    return lb_bitcast(b, lt(LK_F32, x->type.lanes), bits);
}

static ins *pair_products(lbuild *b, ins *acc, ins *x, ins *y) {
    for (int high = 0; high < 2; high++)
        acc = lb_muladd(b, half_of_pair(b, x, high), half_of_pair(b, y, high), acc);
    return acc;
}

ins *group_products(emitter *e, const contraction *c, ins *acc, ins *a, ins *b) {
    if (group_elements(c) == 2) return pair_products(&e->b, acc, a, b);
    if (c->a->buffer->dtype == DT_U8) return lb_dot(&e->b, L_DOT4_US, acc, a, b);
    return c->b->buffer->dtype == DT_U8 ? lb_dot(&e->b, L_DOT4_US, acc, b, a)
                                        : lb_dot(&e->b, L_DOT4_SS, acc, a, b);
}
