// Packing. In: intervals of one factor, and the places where two of them may overlap. Out: the place of each.
//
// Intervals are placed one by one, the largest first, where the memory grows least. As long as the memory is larger than what lives
// at one step, other orders are tried: an interval at an end of the memory, or one beside it, gets another turn, and has
// it from then on unless the memory grows. The work for that is bounded.
#include "passes/memory/memory_plan_impl.h"
#include <stdlib.h>
#include <string.h>

// Orders that are tried at most, and the number of comparisons of two intervals after which no further one is.
enum { ORDERS_MOST = 300, WORK_MOST = 4000000 };

// ---------------------------------------------------------------- apart
static int larger_first(const void *a, const void *b) {
    const interval *x = *(interval *const *)a, *y = *(interval *const *)b;
    if (x->coef != y->coef) return x->coef > y->coef ? -1 : 1;
    return x->id - y->id;
}
static int lower_first(const void *a, const void *b) {
    const interval *x = *(interval *const *)a, *y = *(interval *const *)b;
    return x->at < y->at ? -1 : x->at > y->at;
}

// Best fit: the tightest gap between the intervals of others[] that live at the same time.
static int64_t best_fit(const interval *i, interval **others, int count) {
    int64_t end = 0, best = -1, best_size = INT64_MAX;
    for (int j = 0; j < count; j++) {
        const interval *o = others[j];
        if (o->live.last_use < i->live.def || o->live.def > i->live.last_use) continue;
        int64_t gap = o->at - end;
        if (gap >= i->coef && gap < best_size) best = end, best_size = gap;
        if (o->at + o->coef > end) end = o->at + o->coef;
    }
    return best >= 0 ? best : end;
}

// ---------------------------------------------------------------- overlaps
const relation *relation_of(const interval *i, const interval *other) {
    for (int j = 0; j < i->related.n; j++)
        if (i->related.at[j].other == other) return &i->related.at[j];
    return NULL;
}

static bool may_overlap(const planner *n, const relation *r, int64_t at, int64_t other) {
    int64_t distance = r->result ? at - other : other - at, step = (distance - r->how->first) / n->align;
    return distance >= r->how->first && step < r->how->n && r->how->may[step];
}

static bool live_together(const interval *i, const interval *o) {
    return o->live.last_use >= i->live.def && o->live.def <= i->live.last_use;
}

bool interval_fits(const planner *n, const interval *i, int64_t at, interval **others, int count) {
    for (int j = 0; j < count; j++) {
        const interval *o = others[j];
        if (!live_together(i, o) || at >= o->at + o->coef || at + i->coef <= o->at) continue;
        const relation *r = relation_of(i, o);
        if (!r || !may_overlap(n, r, at, o->at)) return false;
    }
    return true;
}

// The memory so far, which may begin below 0: all is moved in the end.
typedef struct extent {
    int64_t low, high, work; // work: comparisons
} extent;

static void try_at(const planner *n, interval *i, int64_t at, interval **others, int count, extent *now,
                   int64_t *best) {
    int64_t high = at + i->coef > now->high ? at + i->coef : now->high, low = at < now->low ? at : now->low;
    now->work++;
    if (high - low >= *best) return;
    now->work += count;
    if (!interval_fits(n, i, at, others, count)) return;
    *best = high - low;
    i->at = at;
}

// The place with which the memory grows least: at ends of others, or where it may overlap others.
static void place_least(const planner *n, interval *i, interval **others, int count, extent *now) {
    int64_t best = INT64_MAX;
    for (int j = -1; j < count; j++) {
        const interval *o = j < 0 ? NULL : others[j];
        if (o && !live_together(i, o)) continue;
        try_at(n, i, o ? o->at + o->coef : now->low, others, count, now, &best);
        if (o) try_at(n, i, o->at - i->coef, others, count, now, &best);
        const relation *r = o ? relation_of(i, o) : NULL;
        for (int k = 0; r && k < r->how->n; k++) {
            int64_t distance = r->how->first + k * n->align;
            if (r->how->may[k])
                try_at(n, i, r->result ? o->at + distance : o->at - distance, others, count, now, &best);
        }
    }
    if (i->at < now->low) now->low = i->at;
    if (i->at + i->coef > now->high) now->high = i->at + i->coef;
}

// Places of intervals some of which may overlap, in this order.
static int64_t pack_related(const planner *n, interval **all, int count, int64_t *work) {
    extent now = {0};
    for (int j = 0; j < count; j++) place_least(n, all[j], all, j, &now);
    for (int j = 0; j < count; j++) all[j]->at -= now.low;
    *work += now.work;
    return now.high - now.low;
}

static bool any_related(interval **all, int count) {
    bool any = false;
    for (int j = 0; j < count; j++) any |= all[j]->related.n > 0;
    return any;
}

static int64_t pack_apart(interval **all, int count, interval **placed, int64_t *work) {
    int64_t size = 0;
    for (int j = 0; j < count; j++) {
        interval *i = all[j];
        i->at = best_fit(i, placed, j);
        if (i->at + i->coef > size) size = i->at + i->coef;
        int k = j;
        for (; k > 0 && lower_first(&placed[k - 1], &i) > 0; k--) placed[k] = placed[k - 1];
        placed[k] = i;
        *work += j;
    }
    return size;
}

// ---------------------------------------------------------------- orders
typedef struct packing {
    const planner *n;
    interval **order, **placed;
    int count;
    bool related;
    int64_t size, work;
    uint32_t random;
} packing;

static int64_t pack_in_order(packing *p) {
    return p->related ? pack_related(p->n, p->order, p->count, &p->work)
                      : pack_apart(p->order, p->count, p->placed, &p->work);
}

// What lives at the step at which i begins, less what may overlap: no plan needs less.
static int64_t live_with(const packing *p, const interval *i) {
    int64_t bytes = 0;
    for (int j = 0; j < p->count; j++) {
        const interval *o = p->order[j];
        if (o->live.def > i->live.def || o->live.last_use < i->live.def) continue;
        bytes += o->coef;
        for (int k = 0; k < o->related.n; k++) {
            const relation *r = &o->related.at[k];
            if (r->result && r->other->live.def <= i->live.def && r->other->live.last_use >= i->live.def)
                bytes -= o->coef < r->other->coef ? o->coef : r->other->coef;
        }
    }
    return bytes;
}

static int64_t least_size(const packing *p) {
    int64_t least = 0;
    for (int j = 0; j < p->count; j++) {
        int64_t bytes = live_with(p, p->order[j]);
        if (bytes > least) least = bytes;
        if (p->order[j]->coef > least) least = p->order[j]->coef;
    }
    return least;
}

static int random_below(packing *p, int n) {
    p->random = p->random * 1664525u + 1013904223u;
    return (int)((p->random >> 8) % (uint32_t)n);
}

// An interval at an end of the memory, or one that lives at the same time as one there: its position in the order.
static int pick(packing *p) {
    int start = random_below(p, p->count), at = start;
    const interval *end = NULL;
    for (int j = 0; j < p->count && !end; j++) {
        at = (start + j) % p->count;
        const interval *i = p->order[at];
        if (i->at == 0 || i->at + i->coef == p->size) end = i;
    }
    if (!end || random_below(p, 2)) return at;
    start = random_below(p, p->count);
    for (int j = 0; j < p->count; j++)
        if (live_together(p->order[(start + j) % p->count], end)) return (start + j) % p->count;
    return at;
}

static void move_to(interval **order, int from, int to) {
    interval *i = order[from];
    if (from < to) memmove(order + from, order + from + 1, (size_t)(to - from) * sizeof *order);
    else memmove(order + to + 1, order + to, (size_t)(from - to) * sizeof *order);
    order[to] = i;
}

static void keep_places(const packing *p, int64_t *at, bool restore) {
    for (int j = 0; j < p->count; j++)
        if (restore) p->order[j]->at = at[j];
        else at[j] = p->order[j]->at;
}

static void try_orders(packing *p, int64_t least) {
    arena *a = arena_new();
    int64_t *kept = ARENA_ARRAY(a, int64_t, p->count + 1);
    for (int j = 0; j < ORDERS_MOST && p->size > least && p->work < WORK_MOST; j++) {
        int from = pick(p), to = random_below(p, p->count);
        if (from == to) continue;
        keep_places(p, kept, false);
        move_to(p->order, from, to);
        int64_t size = pack_in_order(p);
        if (size <= p->size) {
            p->size = size;
            continue;
        }
        move_to(p->order, to, from);
        keep_places(p, kept, true);
    }
    arena_destroy(a);
}

int64_t pack_intervals(const planner *n, interval **all, int count, interval **placed) {
    packing p = {.n = n, .order = all, .placed = placed, .count = count, .related = any_related(all, count)};
    if (count) qsort(all, (size_t)count, sizeof *all, larger_first);
    p.size = pack_in_order(&p);
    if (count > 1) try_orders(&p, least_size(&p));
    return p.size;
}
