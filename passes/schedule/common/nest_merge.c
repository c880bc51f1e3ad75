// Merges the states of reductions: several states side by side, and the lanes of vectors.
#include "passes/schedule/common/nest.h"
#include <string.h>

void nest_merge(nest *n, ins **into, ins *const *from) {
    emitter *e = n->e;
    ins *merged[64];
    scope mark = scope_open(e);
    for (int j = 0; j < n->s->states.n; j++) e->state[j] = into[j], e->other[j] = from[j];
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        bool custom = st->op == RED_CUSTOM;
        merged[j] = !custom        ? emit_reduce(e, st->op, st->dtype, into[j], from[j])
                    : e->lanes > 1 ? emit_vector(e, st->merge)
                                   : emit_value(e, st->merge);
    }
    memcpy(into, merged, (size_t)n->s->states.n * sizeof *into);
    scope_close(e, mark);
}

// Lane i of the result is lane i + by.
static ins *lanes_from(lbuild *b, ins *v, int by) {
    int mask[64];
    for (int i = 0; i < v->type.lanes; i++) mask[i] = (i + by) % v->type.lanes;
    return lb_shuffle(b, v, v, mask, v->type.lanes);
}

void nest_merge_lanes(nest *n, ins **acc) {
    emitter *e = n->e;
    bool custom = false;
    ins *from[64];
    for (int j = 0; j < n->s->states.n; j++) custom |= n->s->states.at[j].op == RED_CUSTOM;
    for (int half = n->lanes / 2; custom && half; half /= 2) {
        for (int j = 0; j < n->s->states.n; j++) from[j] = lanes_from(&e->b, acc[j], half);
        nest_merge(n, acc, from);
    }
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        acc[j] = custom ? lb_extract(&e->b, acc[j], 0) : emit_horizontal(e, st->op, st->dtype, acc[j]);
    }
}
