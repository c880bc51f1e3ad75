// Stages that only move elements of a small float type, as transpositions, slices and paddings do: their values are codes,
// as stored: no conversion is needed, and vectors hold more of them. So are truths that are copied.
#include "passes/schedule/common/emit.h"

static bool is_f32(const expr *x) { return x->dtype == DT_F32; }

// Whether x is no f32 and computed from none, or an element of type t, a constant, or a choice between such.
static bool moves(const expr *x, dtype t) {
    bool any = false;
    for (int j = 0; j < expr_arity(x->op); j++) any |= is_f32(x->arg[j]);
    if (!is_f32(x)) return !any;
    if (x->op == X_READ) return x->buffer->dtype == t && x->buffer->role != BUF_LOCAL;
    return x->op == X_CONST || x->op == X_SELECT;
}

static bool is_truth_read(const expr *x) { return x->op == X_READ && x->buffer->dtype == DT_BOOL; }

// Whether truths are read to be written only, not as conditions.
static bool copies_truths(emitter *e, const stage *s) {
    expr_list all = stage_nodes(e->scratch, s, PART_ALL);
    for (int j = 0; j < all.n; j++) {
        expr *operand[MAX_RANK + 3];
        int n = expr_operands(all.at[j], operand);
        for (int i = 0; i < n; i++)
            if (is_truth_read(operand[i])) return false;
    }
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        if (!is_truth_read(w->value) || w->value->guard || w->guard || w->value->buffer->role == BUF_LOCAL)
            return false;
    }
    return true;
}

dtype emit_moved(emitter *e, const stage *s) {
    dtype t = s->writes.n && !e->t->arch.is_gpu ? s->writes.at[0].to->dtype : DT_NONE;
    bool small = dtype_is_float(t) && dtype_bits(t) >= 8 && dtype_bits(t) <= 16;
    if (s->states.n || !(small || t == DT_BOOL)) return DT_NONE;
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        if (w->to->dtype != t || w->to->role == BUF_LOCAL || w->combine != COMBINE_SET) return DT_NONE;
    }
    if (t == DT_BOOL) return copies_truths(e, s) ? t : DT_NONE;
    expr_list all = stage_nodes(e->scratch, s, PART_ALL);
    for (int j = 0; j < all.n; j++)
        if (!moves(all.at[j], t)) return DT_NONE;
    return t;
}
