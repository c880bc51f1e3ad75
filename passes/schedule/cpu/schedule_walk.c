// Iterations: scans that do the same at every position. Once a step changes no lane's state, no later one does:
//
//   for n times: state[lanes] = step(state)       loop: next[lanes] = step(state); until next == state, or n times
//
// A walk reads at positions that the state says (the nodes of a tree). Its steps wait for the loads of the one
// before, so several vectors of lanes walk side by side.
#include "passes/schedule/common/nest.h"

bool nest_iterates(const nest *n) {
    if (n->ninner != 1 || n->e->k->axes.at[n->inner[0]].kind != AXIS_SCAN || !n->s->states.n) return false;
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        if (st->op != RED_CUSTOM || st->dtype == DT_C128 || expr_uses_axis(st->step, n->inner[0]))
            return false;
    }
    return stage_writes_at_end(n->s);
}

static bool reads_by_state(const expr *x) {
    if (x->op != X_READ) return false;
    for (int j = 0; j < x->buffer->rank; j++)
        if (expr_any(x->index[j], expr_is_state)) return true;
    return false;
}

bool nest_walks(const nest *n) {
    bool walks = false;
    for (int j = 0; j < n->s->states.n; j++) walks |= expr_any(n->s->states.at[j].step, reads_by_state);
    return walks && nest_iterates(n);
}

int walk_vectors(const nest *n) {
    enum { MOST = 4 };
    int most = n->e->t->vector_regs / (4 * n->s->states.n);
    return most > MOST ? MOST : most;
}

// Floats compare as bits: 0 differs from -0.
static ins *bits_of(lbuild *b, ins *v) {
    if (!lkind_is_float(v->type.kind)) return v;
    int bits = lkind_bits(v->type.kind);
    return lb_conv(b, L_BITCAST, bits == 64 ? LK_I64 : bits == 32 ? LK_I32 : LK_I16, v);
}

static ins *any_changed(nest *n, ins *const *old) {
    lbuild *b = &n->e->b;
    ins *any = NULL;
    for (int j = 0; j < n->s->states.n; j++) {
        ins *one = lb_cmp(b, L_NE, bits_of(b, lb_get(b, n->vars[j])), bits_of(b, old[j]));
        any = any ? lb_bin(b, L_OR, any, one) : one;
    }
    return any->type.lanes > 1 ? lb_hreduce(b, L_HOR, any) : any;
}

void iterate(nest *n) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    if (nest_walks(n) && e->t->avx512 && !e->t->gathers) e->code->f->half_vectors = true;
    ins *old[64], *extent = emit_dim(e, e->extent[n->inner[0]]), *steps = lb_var(b, "steps", lb_idx(b, 0));
    emit_hoist_stage(e, n->s, n->writes);
    scope mark = scope_open(e);
    mark.head = lb_loop(b);
    ins *now = lb_get(b, steps);
    lb_break(b, lb_cmp(b, L_SLE, extent, now));
    for (int j = 0; j < n->s->states.n; j++) old[j] = lb_get(b, n->vars[j]);
    nest_step(n);
    lb_set(b, steps, idx_addk(b, now, 1));
    lb_break(b, lb_cmp(b, L_EQ, any_changed(n, old), lb_int(b, lt(LK_I1, 1), 0)));
    scope_close(e, mark);
}
