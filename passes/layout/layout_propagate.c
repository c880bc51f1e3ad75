// Layout propagation. In: the innermost axes that contractions prefer. Out: the innermost axes of the buffers between
// them.
#include "passes/layout/layout_propagate.h"

typedef struct stage_accesses {
    const kernel *k;
    VEC(layout_access) list;
} stage_accesses;

static void note_access(arena *a, stage_accesses *s, layout_access x) {
    if (x.buffer->role == BUF_LOCAL) return;
    for (int j = 0; j < s->list.n; j++) {
        const layout_access *y = &s->list.at[j];
        bool same = y->buffer == x.buffer && y->writes == x.writes;
        for (int i = 0; same && i < x.buffer->rank; i++) same = y->index[i] == x.index[i];
        if (same) return;
    }
    VEC_PUSH(a, &s->list, x);
}

static stage_accesses find_accesses(arena *a, const kernel *k, const stage *s) {
    stage_accesses found = {.k = k};
    expr_list nodes = stage_nodes(a, s, PART_ALL);
    for (int j = 0; j < nodes.n; j++) {
        const expr *e = nodes.at[j];
        if (e->op == X_READ) note_access(a, &found, (layout_access){e->buffer, e->index, false});
    }
    for (int j = 0; j < s->writes.n; j++)
        note_access(a, &found, (layout_access){s->writes.at[j].to, s->writes.at[j].index, true});
    return found;
}

static bool propagate_in(const propagation *x, const stage_accesses *s) {
    bool changed = false;
    for (int i = 0; i < s->list.n; i++)
        for (int j = 0; j < s->list.n; j++) {
            const layout_access *from = &s->list.at[i], *to = &s->list.at[j];
            int channel = x->channel[from->buffer->id], *wanted = &x->channel[to->buffer->id];
            if (channel < 0 || x->fixed[from->buffer->id] || *wanted >= 0 || x->fixed[to->buffer->id])
                continue;
            *wanted = x->rule(s->k, from, channel, to);
            changed |= *wanted >= 0;
        }
    return changed;
}

void propagate_layouts(const propagation *x) {
    arena *scratch = arena_new();
    VEC(stage_accesses) stages = {0};
    for (int j = 0; j < x->p->kernels.n; j++) {
        const kernel *k = x->p->kernels.at[j];
        for (int i = 0; i < k->stages.n && x->takes_part(k); i++)
            VEC_PUSH(scratch, &stages, find_accesses(scratch, k, k->stages.at[i]));
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int j = 0; j < stages.n; j++) changed |= propagate_in(x, &stages.at[j]);
    }
    arena_destroy(scratch);
}

layout *layout_channels_last(arena *a, int rank, int channel) {
    layout *l = ARENA_NEW(a, layout);
    for (int j = 0; j < rank; j++)
        if (j != channel) l->order[l->n++] = (struct layout_entry){j, 0};
    l->order[l->n++] = (struct layout_entry){channel, 0};
    return l;
}
