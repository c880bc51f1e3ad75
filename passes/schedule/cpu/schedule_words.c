// Words of packed elements. In: a contraction and its operands. Out: which axis its words lie along, B's factor in parts,
// and the instructions that unpack a word.
#include "passes/schedule/cpu/schedule_words.h"
#include "ir/kernel/edit.h"
#include "ir/loops/convert.h"
#include "passes/match/form.h"

// ---------------------------------------------------------------- applicability
static int bits_of(const contraction *c) { return dtype_bits(c->b->buffer->dtype); }

int word_elements(const contraction *c) {
    const buffer *b = c->b->buffer;
    bool small = bits_of(c) < 8 && WORD_BITS % bits_of(c) == 0 && b->role == BUF_CONST && !b->view_of;
    dtype sum = c->s->states.at[0].dtype;
    return small && (sum == DT_F32 || sum == DT_I32) && !c->b->guard && !c->a->guard ? WORD_BITS / bits_of(c)
                                                                                     : 0;
}

// Whether each word holds positions of the axis only.
static bool fills_words(const contraction *c, expr *index, int axis, int64_t n) {
    expr *base, *coef[MAX_AXES];
    const dim *extent = c->k->axes.at[axis].extent;
    if (!dim_is_const(extent) || dim_value(extent) % n || dim_value(extent) == 0 ||
        !expr_affine((kernel *)c->k, index, &base, coef) || !expr_is_int(coef[axis], 1))
        return false;
    for (int j = 0; j < c->k->axes.n; j++)
        if (j != axis && coef[j] && !expr_is_multiple(coef[j], n)) return false;
    return expr_is_multiple(base, n);
}

int word_axis(const contraction *c) {
    int n = word_elements(c);
    for (int j = c->k_axes.n - 1; j >= 0 && n; j--) {
        int axis = c->k_axes.at[j], at = dim_of_axis(c->b->buffer, c->b->index, axis, false);
        if (at >= 0 && fills_words(c, c->b->index[at], axis, n)) return axis;
    }
    return -1;
}

// ---------------------------------------------------------------- B's factor
static bool is_invariant(const expr *e, int axis) { return !expr_uses_axis(e, axis); }

// Moves invariant factors of e to *scale and returns the rest.
static expr *without_scale(kernel *k, expr *e, int axis, expr **scale) {
    if (e->op != X_MUL) return e;
    for (int j = 0; j < 2; j++) {
        if (!is_invariant(e->arg[j], axis)) continue;
        *scale = *scale ? x_mul(k, *scale, e->arg[j]) : e->arg[j];
        return without_scale(k, e->arg[1 - j], axis, scale);
    }
    return e;
}

bool word_is_function_of(const expr *e, const expr *read) {
    if (e == read || e->op == X_CONST) return true;
    if (expr_op_class(e->op) == XC_LEAF || e->op == X_CHECK) return false;
    for (int j = 0; j < expr_arity(e->op); j++)
        if (!word_is_function_of(e->arg[j], read)) return false;
    return true;
}

// The largest part of e in f32 that depends on the read alone; NULL: none.
static expr *value_of_read(expr *e, const expr *read) {
    if (e->op == X_CONST || (expr_op_class(e->op) == XC_LEAF && e != read)) return NULL;
    if (e->dtype == DT_F32 && word_is_function_of(e, read)) return e;
    for (int j = 0; j < expr_arity(e->op) && e != read; j++) {
        expr *found = value_of_read(e->arg[j], read);
        if (found) return found;
    }
    return NULL;
}

static cell evaluate(const expr *e, const expr *read, cell element) {
    cell a[3] = {{0}};
    if (e == read) return element;
    if (e->op == X_CONST) return dtype_is_float(e->dtype) ? (cell){.f = e->f} : (cell){.i = e->i};
    for (int j = 0; j < expr_arity(e->op); j++) a[j] = evaluate(e->arg[j], read, element);
    return eval_scalar(e, a);
}

double word_value(const expr *e, const expr *read, int code) {
    uint16_t wide = (uint16_t)code;
    uint8_t byte = (uint8_t)code;
    const void *bits = dtype_bits(read->buffer->dtype) > 8 ? (const void *)&wide : &byte;
    return evaluate(e, read, eval_load(read->buffer->dtype, bits, 0)).f;
}

static ins *table_of(emitter *e, const word_factor *f, const expr *read) {
    lbuild *b = &e->b;
    ltype scalar = lt(LK_F32, 1);
    ins *table = lb_float(b, lt(LK_F32, f->lanes), 0);
    for (int lane = 0; lane < f->lanes; lane++) {
        double value = word_value(f->value, read, lane & ((1 << f->bits) - 1));
        table = lb_insert(b, table, lb_float(b, scalar, value), lane);
    }
    return table;
}

// Whether e is an integer that f32 represents, as is its difference to another.
static bool is_short(const expr *e) {
    return e->op == X_CAST && dtype_is_int(e->arg[0]->dtype) && e->arg[0]->op == X_READ &&
           dtype_bits(e->arg[0]->buffer->dtype) <= 16;
}

// float(q - zero) as float(q) - float(zero): the same number, whose first part a table gives.
static expr *with_float_difference(void *user, expr *e) {
    kernel *k = user;
    if (e->op != X_CAST || e->dtype != DT_F32 || e->arg[0]->op != X_SUB) return NULL;
    expr *x = e->arg[0]->arg[0], *y = e->arg[0]->arg[1];
    if (!is_short(x) || !is_short(y)) return NULL;
    return x_sub(k, x_cast(k, x, DT_F32, true), x_cast(k, y, DT_F32, true));
}

void split_word_factor(emitter *e, const contraction *c, int axis, word_factor *f) {
    *f = (word_factor){.bits = bits_of(c)};
    expr *term = expr_rewrite(e->k, c->term_b, with_float_difference, e->k);
    f->whole = term;
    f->term = without_scale(e->k, term, axis, &f->scale);
}

void find_word_factor(emitter *e, const contraction *c, int axis, int lanes, word_factor *f) {
    split_word_factor(e, c, axis, f);
    f->lanes = lanes;
    if (lanes == e->t->permuted_words && lanes >= 1 << f->bits) f->value = value_of_read(f->term, c->b);
    if (f->value) f->table = table_of(e, f, c->b);
}

// ---------------------------------------------------------------- instructions
ins *load_packed(emitter *e, const contraction *c, ins *at, int lanes) {
    ins *word = emit_int_op(&e->b, X_FLOORDIV, at, lb_idx(&e->b, WORD_BITS / bits_of(c)));
    return lb_load(&e->b, lt(LK_I32, lanes), pointer_of(e, c->b->buffer), word, 4);
}

// Without a table, the bits as the element's integer or code.
ins *word_element(emitter *e, const contraction *c, const word_factor *f, ins *words, int u,
                  const expr **value) {
    lbuild *b = &e->b;
    ins *low = u ? lb_bin(b, L_LSHR, words, lb_int(b, words->type, u * f->bits)) : words;
    *value = f->value;
    if (f->value) return lb_permute(b, f->table, low);
    *value = c->b;
    return element_of_bits(b, c->b->buffer->dtype, low);
}
