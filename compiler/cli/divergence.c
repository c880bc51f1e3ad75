// In: values of two runs. Out: the first in the order of the first run that differs.
#include "compiler/cli/divergence.h"
#include "compiler/run/probe_call.h"

// The values of one name in the first run.
typedef struct wanted {
    VEC(import_value *) at;
    VEC(int64_t) order;
    int compared;
} wanted;

static wanted *find(divergence *d, const char *name) {
    wanted *w = map_get(&d->wanted, name);
    if (w) return w;
    w = ARENA_NEW(d->arena, wanted);
    map_put(&d->wanted, name, w);
    return w;
}

static bool keep(void *user, const probe_event *e) {
    divergence *d = user;
    for (int i = 0; i < e->n; i++) {
        wanted *w = find(d, e->values[i].name);
        VEC_PUSH(d->arena, &w->at, probe_read(d->arena, &e->values[i], true));
        VEC_PUSH(d->arena, &w->order, d->count++);
    }
    return true;
}

static bool compare(void *user, const probe_event *e) {
    divergence *d = user;
    arena *scratch = arena_within(d->arena);
    for (int i = 0; i < e->n; i++) {
        const probe_value *v = &e->values[i];
        wanted *w = find(d, v->name);
        if (w->compared == w->at.n) continue;
        int k = w->compared++;
        if (d->node && w->order.at[k] > d->order) continue;
        if (compare_values(scratch, probe_read(scratch, v, false), w->at.at[k], d->tolerance).same) continue;
        d->how = compare_values(d->arena, probe_read(d->arena, v, true), w->at.at[k], d->tolerance);
        d->node = e->node, d->name = v->name, d->order = w->order.at[k];
    }
    arena_destroy(scratch);
    return true;
}

static void start(void *user) {
    divergence *d = user;
    for (int i = 0; i < d->wanted.n; i++) ((wanted *)d->wanted.slots[i].value)->compared = 0;
    d->node = NULL;
}

static probes *with(divergence *d, bool (*see)(void *user, const probe_event *e)) {
    probes *p = probes_new(d->arena);
    p->user = d;
    p->start = start, p->see = see;
    return p;
}

probes *divergence_wanted(divergence *d) {
    d->wanted.arena = d->arena;
    return with(d, keep);
}
probes *divergence_got(divergence *d) { return with(d, compare); }
