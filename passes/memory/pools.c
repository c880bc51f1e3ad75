// Memory pools. In: the intervals of a memory plan. Out: the pool of each, and its place there.
//
// Pools are given the fastest first. Of all temporaries, the one with most accesses for each byte and each step during
// which it occupies that byte comes first: it gets a place in the first pool that has room for it. If some find no
// room that way, the largest come first instead, which leaves smaller gaps.
#include "passes/memory/memory_plan_impl.h"
#include <stdlib.h>

enum { REPACKED_MOST = 256 }; // with more intervals, the ones that have a place keep it

// ---------------------------------------------------------------- accesses
// A read is repeated for the axes on which its position depends: schedules keep the element for all others.
static double read_count(const kernel *k, const expr *read) {
    double n = 1;
    for (int j = 0; j < k->axes.n; j++)
        if (read->axes >> (j < 63 ? j : 63) & 1) n *= (double)dim_upper(k->axes.at[j].extent);
    return n;
}

static double steps_of(const site *at) {
    double n = 1;
    for (const site *o = at->owner; o; o = o->owner)
        if (o->s->kind == STEP_LOOP && o->s->dim && dim_is_const(o->s->dim))
            n *= (double)dim_value(o->s->dim);
    return n;
}

static double element_count(const buffer *b) { return (double)dim_upper(buffer_count(b)); }

static void add_accesses(interval *const *of, const buffer *b, double n) {
    interval *i = of[buffer_root(b)->id];
    if (i) memory_of(i)->accesses += n;
}

// Returns the reads of the operand that is read most.
static double count_kernel(interval *const *of, const kernel *k, double times) {
    double most = 0;
    for (int j = 0; j < k->exprs.n; j++) {
        const expr *e = k->exprs.at[j];
        if (e->op != X_READ || e->buffer->role == BUF_LOCAL) continue;
        double n = times * read_count(k, e);
        add_accesses(of, e->buffer, n);
        if (n > most) most = n;
    }
    for (int s = 0; s < k->stages.n; s++)
        for (int j = 0; j < k->stages.at[s]->writes.n; j++) {
            const buffer *to = k->stages.at[s]->writes.at[j].to;
            if (to->role != BUF_LOCAL) add_accesses(of, to, times * element_count(to));
        }
    return most;
}

static void count_accesses(planner *n) {
    double *most = ARENA_ARRAY(n->p->arena, double, n->p->kernels.n + 1);
    for (int j = 0; j < n->uses->n; j++) {
        const site *at = &n->uses->sites[j];
        if (at->s->kind == STEP_KERNEL)
            most[at->s->kernel->id] += count_kernel(n->of, at->s->kernel, steps_of(at));
        for (int i = 0; i < at->accessed.n && at->s->kind != STEP_KERNEL; i++)
            add_accesses(n->of, at->accessed.at[i], steps_of(at) * element_count(at->accessed.at[i]));
    }
    for (int j = 0; j < n->intervals.n; j++)
        if (n->intervals.at[j]->kernel) n->intervals.at[j]->accesses = most[n->intervals.at[j]->kernel->id];
}

// ---------------------------------------------------------------- orders
static double gain(const interval *i) {
    return i->accesses / ((double)i->coef * (i->live.last_use - i->live.def + 1));
}

static int by_gain(const void *a, const void *b) {
    const interval *x = *(interval *const *)a, *y = *(interval *const *)b;
    double g = gain(x), h = gain(y);
    return g != h ? (g > h ? -1 : 1) : x->id - y->id;
}

static int by_size(const void *a, const void *b) {
    const interval *x = *(interval *const *)a, *y = *(interval *const *)b;
    return x->coef != y->coef ? (x->coef > y->coef ? -1 : 1) : by_gain(a, b);
}

// ---------------------------------------------------------------- places
typedef struct pool_places {
    int64_t most;
    interval **at;
    int n;
} pool_places;

static bool try_place(const planner *n, const pool_places *p, interval *i, int64_t at) {
    if (at + i->coef > p->most || !interval_fits(n, i, at, p->at, p->n)) return false;
    i->at = at;
    return true;
}

static bool finds_gap(const planner *n, const pool_places *p, interval *i) {
    if (try_place(n, p, i, 0)) return true;
    for (int j = 0; j < p->n; j++)
        if (try_place(n, p, i, p->at[j]->at + p->at[j]->coef)) return true;
    return false;
}

// All intervals of the pool may get other places.
static bool fits_repacked(const planner *n, const pool_places *p, interval *i) {
    arena *a = arena_new();
    int count = p->n + 1;
    interval **all = ARENA_ARRAY(a, interval *, count), **placed = ARENA_ARRAY(a, interval *, count);
    int64_t *before = ARENA_ARRAY(a, int64_t, count);
    for (int j = 0; j < count; j++) {
        all[j] = j < p->n ? p->at[j] : i;
        before[j] = all[j]->at;
    }
    bool fits = count <= REPACKED_MOST && pack_intervals(n, all, count, placed) <= p->most;
    for (int j = 0; j < p->n && !fits; j++) p->at[j]->at = before[j];
    arena_destroy(a);
    return fits;
}

// Returns the bytes for which there is no room.
static int64_t assign(planner *n, interval **order, int count, int (*before)(const void *, const void *)) {
    int last = n->pools->n;
    arena *a = arena_new();
    pool_places *places = ARENA_ARRAY(a, pool_places, last + 1);
    for (int j = 0; j <= last; j++) {
        places[j].most = j < last ? n->pools->at[j].bytes : INT64_MAX;
        places[j].at = ARENA_ARRAY(a, interval *, count + 1);
        n->plan.pool_bytes[j] = 0;
    }
    if (count) qsort(order, (size_t)count, sizeof *order, before);
    for (int j = 0; j < count; j++) {
        interval *i = order[j];
        int k = 0;
        while (!finds_gap(n, &places[k], i) && !fits_repacked(n, &places[k], i)) k++;
        i->pool = k;
        places[k].at[places[k].n++] = i;
    }
    for (int j = 0; j < count; j++) {
        int64_t end = order[j]->at + order[j]->coef, *most = &n->plan.pool_bytes[order[j]->pool];
        if (end > *most) *most = end;
    }
    arena_destroy(a);
    return n->plan.pool_bytes[last];
}

void place_in_pools(planner *n) {
    arena *a = n->p->arena;
    interval **order = ARENA_ARRAY(a, interval *, n->intervals.n + 1);
    int count = 0;
    n->plan.pool_bytes = ARENA_ARRAY(a, int64_t, n->pools->n + 1);
    count_accesses(n);
    for (int j = 0; j < n->intervals.n; j++) {
        interval *i = n->intervals.at[j];
        if (!dim_is(i->factor, 1)) {
            n->plan.unbounded = i->buffer ? i->buffer->name : i->kernel->name;
            n->plan.unbounded_size = i->factor;
        }
        if (!i->same) order[count++] = i;
    }
    int64_t left = assign(n, order, count, by_gain);
    if (left && assign(n, order, count, by_size) > left) assign(n, order, count, by_gain);
    for (int j = 0; j < n->intervals.n; j++) n->intervals.at[j]->pool = memory_of(n->intervals.at[j])->pool;
}
