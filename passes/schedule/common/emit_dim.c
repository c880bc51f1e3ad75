// Dims and index arithmetic as instructions. Divisions by powers of two, such as most tile sizes, become
// shifts.
#include "passes/schedule/common/emit_dim.h"
#include "ir/loops/convert.h"

bool idx_power_of_two(const ins *x) { return x->op == L_CONST && x->i > 0 && (x->i & (x->i - 1)) == 0; }

ins *emit_operation(lbuild *b, expr_op op, dtype t, ins *x, ins *y) {
    expr operand = {.op = X_STATE, .dtype = t};
    dtype result = expr_op_class(op) == XC_COMPARE ? DT_BOOL : t;
    expr apply = {.op = op, .dtype = result, .arg = {&operand, y ? &operand : NULL}};
    return expr_apply(b, &apply, (ins *[]){x, y});
}

ins *emit_int_op(lbuild *b, expr_op op, ins *x, ins *y) {
    if (x->type.lanes > 1 && y->type.lanes == 1 && y->op != L_CONST) y = lb_splat(b, y, x->type.lanes);
    if (y->type.lanes > 1 && x->type.lanes == 1) x = lb_splat(b, x, y->type.lanes);
    if (idx_power_of_two(y) && op == X_MOD) return lb_bin(b, L_AND, x, lb_int(b, x->type, y->i - 1));
    if (idx_power_of_two(y) && op == X_FLOORDIV)
        return lb_bin(b, L_ASHR, x, lb_int(b, x->type, __builtin_ctzll((uint64_t)y->i)));
    if (y->type.lanes != x->type.lanes) y = lb_splat(b, y, x->type.lanes);
    return emit_operation(b, op, x->type.kind == LK_I32 ? DT_I32 : DT_I64, x, y);
}

static ins *emit_op(const dim_source *s, expr_op op, ins *x, ins *y) {
    bool checked = s->checked && (op == X_ADD || op == X_MUL);
    return checked ? s->checked(s->user, op, x, y) : emit_int_op(s->b, op, x, y);
}

// A factor of a term; *coef loses what it contains.
static ins *emit_factor(const dim_source *s, const dim *d, int64_t *coef) {
    int64_t by = 1;
    ins *v = s->multiple ? s->multiple(s->user, d, &by) : NULL;
    if (!v || *coef % by) return emit_dim_value(s, d);
    *coef /= by;
    return v;
}

static ins *emit_poly(const dim_source *s, const dim *d) {
    lbuild *b = s->b;
    ins *sum = lb_int(b, lt(s->kind, 1), 0);
    for (int j = 0; j < d->nterms; j++) {
        int64_t coef = d->terms[j].coef;
        ins *term = lb_int(b, lt(s->kind, 1), 1);
        for (int i = 0; i < d->terms[j].natoms; i++)
            term = emit_op(s, X_MUL, term, emit_factor(s, d->terms[j].atoms[i], &coef));
        term = emit_op(s, X_MUL, term, lb_int(b, lt(s->kind, 1), coef));
        sum = emit_op(s, X_ADD, sum, term);
    }
    return sum;
}

static ins *emit_composite(const dim_source *s, const dim *d) {
    static const expr_op op[] = {[DIM_FLOORDIV] = X_FLOORDIV, [DIM_MOD] = X_MOD,   [DIM_MIN] = X_MIN,
                                 [DIM_MAX] = X_MAX,           [DIM_LT] = X_LT,     [DIM_EQ] = X_EQ,
                                 [DIM_BIGSUM] = X_ADD,        [DIM_BIGMUL] = X_MUL};
    lbuild *b = s->b;
    if (d->kind == DIM_POLY) return emit_poly(s, d);
    if (d->kind == DIM_OVERFLOW)
        diag_fatal(b->diag, NULL, "the model needs more memory than any machine has");
    ins *x = emit_dim_value(s, d->a), *y = emit_dim_value(s, d->b);
    if (d->kind == DIM_SELECT)
        return lb_select(b, lb_cmp(b, L_NE, emit_dim_value(s, d->c), lb_int(b, lt(s->kind, 1), 0)), x, y);
    ins *v = emit_op(s, op[d->kind], x, y);
    return v->type.kind == LK_I1 ? lb_conv(b, L_ZEXT, s->kind, v) : v;
}

ins *emit_dim_value(const dim_source *s, const dim *d) {
    if (d->kind == DIM_CONST && !s->checked) return lb_int(s->b, lt(s->kind, 1), d->value);
    ins *v = s->known(s->user, d);
    if (v) return v;
    v = emit_composite(s, d);
    if (s->keep) s->keep(s->user, d, v);
    return v;
}

ins *emit_int_floor(lbuild *b, ins *x, int64_t by) {
    if (by == 1 || (x->op == L_CONST && x->i % by == 0)) return x;
    if (x->op == L_CONST) return lb_int(b, x->type, x->i - x->i % by);
    return lb_sub(b, x, emit_int_op(b, X_MOD, x, lb_int(b, x->type, by)));
}

dim *extent_within(dim *const *extents, const int *axes, int depth) {
    dim *d = extents[axes[depth]], *zero = dim_const(d->table, 0);
    for (int i = 0; i < depth; i++)
        if (extents[axes[i]]->min <= 0) d = dim_select(dim_eq(extents[axes[i]], zero), zero, d);
    return d;
}
