// Clones expressions and stages with substitution, into another kernel or into the same one, rebuilt.
#include "ir/kernel/clone.h"

cloning *clone_new(arena *scratch, kernel *to, const kernel *from) {
    cloning *g = ARENA_NEW(scratch, cloning);
    g->to = to, g->from = from;
    g->axis = ARENA_ARRAY(scratch, expr *, from->axes.n + 1);
    g->number = ARENA_ARRAY(scratch, int, from->axes.n + 1);
    g->local = ARENA_ARRAY(scratch, buffer *, from->locals.n + 1);
    g->done = ARENA_ARRAY(scratch, expr *, from->exprs.n + 1);
    g->want = ARENA_ARRAY(scratch, uint8_t, from->exprs.n + 1);
    return g;
}

cloning *clone_same(arena *scratch, kernel *k, const kernel *old) {
    cloning *g = clone_new(scratch, k, old);
    for (int a = 0; a < old->axes.n; a++) g->axis[a] = x_axis(k, a), g->number[a] = a;
    for (int j = 0; j < old->locals.n; j++) g->local[j] = old->locals.at[j];
    return g;
}

kernel *kernel_begin(kernel *k) {
    kernel *old = ARENA_NEW(k->arena, kernel);
    *old = *k;
    k->stages.n = k->stages.cap = 0;
    k->exprs.n = k->exprs.cap = 0;
    k->shared = (map){.arena = k->arena};
    return old;
}

// ---------------------------------------------------------------- expressions
static expr *clone_read(cloning *g, const expr *e) {
    kernel *k = g->to;
    expr *index[MAX_RANK];
    for (int j = 0; j < e->buffer->rank; j++) index[j] = g->done[e->index[j]->id];
    expr *guard = x_both(k, e->guard ? g->done[e->guard->id] : NULL, g->guard);
    expr *fill = e->guard ? g->done[e->fill->id] : NULL;
    expr *other = g->read ? g->read(g, e, index, guard, fill) : NULL;
    if (other) return other;
    buffer *b = e->buffer->role == BUF_LOCAL ? g->local[e->buffer->id] : e->buffer;
    return x_read_guarded(k, b, index, guard, fill);
}

static expr *clone_check(cloning *g, const expr *e) {
    kernel *k = g->to;
    expr *a = g->done[e->arg[0]->id], *holds = g->done[e->arg[1]->id];
    if (g->guard) holds = x_bin(k, X_OR, holds, x_un(k, X_NOT, g->guard));
    return x_check(k, a, holds, kernel_message_of(k, e->message));
}

static expr *clone_node(cloning *g, const expr *e) {
    if (e->op == X_AXIS) return g->axis[e->axis];
    if (e->op == X_READ) return clone_read(g, e);
    if (e->op == X_CHECK) return clone_check(g, e);
    expr *other = g->node ? g->node(g, e) : NULL;
    return other ? other : expr_rebuild(g->to, e, g->done);
}

// Operands have smaller ids: mark needed expressions downwards, then build them upwards.
expr *clone_expr(cloning *g, expr *e) {
    if (!e || g->done[e->id]) return e ? g->done[e->id] : NULL;
    expr *operand[MAX_RANK + 3];
    g->want[e->id] = 1;
    for (int id = e->id; id >= 0; id--) {
        if (!g->want[id] || g->done[id]) continue;
        int n = expr_operands(g->from->exprs.at[id], operand);
        for (int j = 0; j < n; j++) g->want[operand[j]->id] = 1;
    }
    for (int id = 0; id <= e->id; id++)
        if (g->want[id] && !g->done[id]) g->done[id] = clone_node(g, g->from->exprs.at[id]);
    return g->done[e->id];
}

// ---------------------------------------------------------------- stages
stage *clone_stage(cloning *g, const stage *s) {
    kernel *k = g->to;
    stage *made = kernel_stage(k);
    for (int j = 0; j < s->axes.n; j++) stage_axis(k, made, g->number[s->axes.at[j]]);
    for (int j = 0; j < s->states.n; j++) {
        state st = s->states.at[j];
        st.init = clone_expr(g, st.init);
        st.step = clone_expr(g, st.step);
        st.merge = clone_expr(g, st.merge);
        VEC_PUSH(k->arena, &made->states, st);
    }
    return made;
}

write *clone_write(cloning *g, stage *s, const write *w) {
    expr *index[MAX_RANK];
    for (int j = 0; j < w->to->rank; j++) index[j] = clone_expr(g, w->index[j]);
    buffer *to = w->to->role == BUF_LOCAL ? g->local[w->to->id] : w->to;
    write *made = stage_write(g->to, s, to, index, clone_expr(g, w->value));
    made->when = w->when;
    made->combine = w->combine;
    made->guard = clone_expr(g, w->guard);
    return made;
}

kernel *kernel_copy(const kernel *old) {
    kernel *k = kernel_new(old->program, old->name, old->loc);
    arena *a = k->arena, *scratch = arena_new();
    k->nouter = old->nouter, k->in_place = old->in_place, k->algorithm = old->algorithm;
    for (int j = 0; j < old->nodes.n; j++)
        if (old->nodes.at[j] != old->loc) VEC_PUSH(a, &k->nodes, old->nodes.at[j]);
    for (int j = 0; j < old->axes.n; j++) VEC_PUSH(a, &k->axes, old->axes.at[j]);
    for (int j = 0; j < old->locals.n; j++) VEC_PUSH(a, &k->locals, old->locals.at[j]);
    for (int j = 0; j < old->messages.n; j++) VEC_PUSH(a, &k->messages, old->messages.at[j]);
    cloning *g = clone_same(scratch, k, old);
    for (int j = 0; j < old->stages.n; j++) {
        stage *s = clone_stage(g, old->stages.at[j]);
        for (int i = 0; i < old->stages.at[j]->writes.n; i++)
            clone_write(g, s, &old->stages.at[j]->writes.at[i]);
    }
    arena_destroy(scratch);
    return k;
}
