// The order of kernels. In: a program. Out: kernels that do not depend on each other run in the order with the smallest
// peak of memory:
//
//   a = ...; b = f(a); c = ...; d = g(c); y = b + d      instead of      a = ...; c = ...; b = f(a); d = g(c); y = b + d
//
// The search goes over sets of kernels that have run, by their number: of the ways to a set, the one with the smallest peak
// remains. It is exact unless there are too many sets of one size; then those with the smallest peaks go on. The order only
// changes if the memory plan shrinks for all sizes.
#include "ir/kernel/uses.h"
#include "ir/target.h"
#include "passes/memory/memory_plan.h"
#include <stdlib.h>

// Sets of one size; of a long run of kernels; how far a kernel may overtake others.
enum { SETS_MOST = 1024, SETS_OF_LONG = 64, LONG = 96, WINDOW = 64, KERNELS_MOST = 4096 };
enum { USUAL_SIZE = 64 };

// A temporary that kernels of the run use.
typedef struct item {
    int64_t bytes;
    VEC(int) users;     // kernels of the run
    bool before, after; // other steps use it before, after the run
} item;

typedef struct op {
    step *s;
    VEC(int) needs; // kernels that must run before
    VEC(int) items; // that it accesses
    VEC(int) made;  // the ones of these that it is the first to write
    VEC(int) given; // of these, those in whose memory its result may be
} op;

typedef struct run {
    arena *arena;
    const program *p;
    const target *target;
    int n;
    op *ops;
    item *items;
    int nitems;
} run;

typedef struct set {
    const struct set *from;
    int last; // kernel
    int64_t peak, live;
    int first;     // that has not run
    uint64_t done; // of the WINDOW kernels from there on
} set;
typedef VEC(const set *) set_list;

// ---------------------------------------------------------------- dependences
static int64_t bytes_of(const buffer *b) {
    int64_t bytes;
    return dim_usual(buffer_bytes(b), USUAL_SIZE, &bytes) && bytes > 0 ? bytes : 0;
}

// The buffer whose memory this is: a state's output is stored in its input.
static int memory_of(const program *p, const buffer *b) {
    int input = b->role == BUF_OUTPUT && p->state ? p->state[b->io] : 0;
    return input ? p->inputs.at[input - 1]->id : b->id;
}

// Accesses to some memory: the last kernel that writes it, and the kernels that have read it since; -1: none.
typedef struct accesses {
    bool written;
    int writer;
    VEC(int) readers;
} accesses;

static void add_needs(run *r, op *o, accesses *of, const site *at, int number) {
    for (int j = 0; j < at->reads.n; j++) {
        accesses *x = &of[memory_of(r->p, at->reads.at[j])];
        if (x->written) VEC_PUSH(r->arena, &o->needs, x->writer);
        VEC_PUSH(r->arena, &x->readers, number);
    }
    for (int j = 0; j < at->writes.n; j++) {
        accesses *x = &of[memory_of(r->p, at->writes.at[j])];
        if (x->written) VEC_PUSH(r->arena, &o->needs, x->writer);
        for (int i = 0; i < x->readers.n; i++)
            if (x->readers.at[i] != number) VEC_PUSH(r->arena, &o->needs, x->readers.at[i]);
        x->written = true, x->writer = number, x->readers.n = 0;
    }
}

// Whether the result of k may be in the memory of `from`, if it is read for the last time.
static bool may_give(const run *r, const kernel *k, const buffer *from, const buffer *to) {
    if (from == to || from->role != BUF_TEMP || to->role != BUF_TEMP) return false;
    return r->target->freestanding || writes_in_place(k, from, to);
}

static void add_items(run *r, const uses *u, op *o, const site *at, int *item_of, int first, int last) {
    const buffer_list *lists[] = {&at->reads, &at->writes};
    for (int l = 0; l < 2; l++)
        for (int j = 0; j < lists[l]->n; j++) {
            const buffer *b = lists[l]->at[j];
            if (b->role != BUF_TEMP || (l == 1 && site_reads(at, b))) continue;
            if (!item_of[b->id]) {
                live_range live = uses_live_range(u, b);
                r->items[r->nitems] =
                    (item){.bytes = bytes_of(b), .before = live.def<first, .after = live.last_use> last};
                item_of[b->id] = ++r->nitems;
                if (live.def >= first) VEC_PUSH(r->arena, &o->made, item_of[b->id] - 1);
            }
            VEC_PUSH(r->arena, &r->items[item_of[b->id] - 1].users, (int)(o - r->ops));
            VEC_PUSH(r->arena, &o->items, item_of[b->id] - 1);
            if (l == 0 && at->writes.n == 1 && may_give(r, o->s->kernel, b, at->writes.at[0]))
                VEC_PUSH(r->arena, &o->given, item_of[b->id] - 1);
        }
}

static run run_new(arena *a, const program *p, const target *t, const uses *u, site *const *sites, int n) {
    run r = {.arena = a, .p = p, .target = t, .n = n};
    r.ops = ARENA_ARRAY(a, op, n);
    r.items = ARENA_ARRAY(a, item, p->buffers.n + 1);
    int *item_of = ARENA_ARRAY(a, int, p->buffers.n + 1);
    accesses *of = ARENA_ARRAY(a, accesses, p->buffers.n + 1);
    for (int j = 0; j < n; j++) {
        r.ops[j].s = sites[j]->s;
        add_items(&r, u, &r.ops[j], sites[j], item_of, sites[0]->time, sites[n - 1]->time);
        add_needs(&r, &r.ops[j], of, sites[j], j);
    }
    return r;
}

// ---------------------------------------------------------------- the search
static bool has_run(const set *s, int k) {
    return k < s->first || (k < s->first + WINDOW && s->done >> (k - s->first) & 1);
}

static bool is_ready(const run *r, const set *s, int k) {
    if (has_run(s, k)) return false;
    for (int j = 0; j < r->ops[k].needs.n; j++)
        if (!has_run(s, r->ops[k].needs.at[j])) return false;
    return true;
}

// Whether k is the last kernel that uses the item.
static bool is_last_use(const run *r, const set *s, int i, int k) {
    const item *x = &r->items[i];
    for (int j = x->users.n - 1; j >= 0 && x->users.at[j] >= s->first; j--)
        if (x->users.at[j] != k && !has_run(s, x->users.at[j])) return false;
    return !x->after;
}

// The memory while the kernel runs: its result may share the memory of one operand.
static int64_t while_running(const run *r, const set *s, int k) {
    const op *o = &r->ops[k];
    int64_t made = 0, given = 0;
    for (int j = 0; j < o->made.n; j++) made += r->items[o->made.at[j]].bytes;
    for (int j = 0; j < o->given.n; j++) {
        int i = o->given.at[j];
        if (is_last_use(r, s, i, k) && r->items[i].bytes > given) given = r->items[i].bytes;
    }
    return s->live + made - (given < made ? given : made);
}

static set after_kernel(const run *r, const set *s, int k) {
    const op *o = &r->ops[k];
    int64_t now = while_running(r, s, k);
    set to = {s, k, s->peak > now ? s->peak : now, s->live, s->first, s->done};
    to.done |= (uint64_t)1 << (k - s->first);
    for (; to.done & 1; to.done >>= 1) to.first++;
    for (int j = 0; j < o->made.n; j++) to.live += r->items[o->made.at[j]].bytes;
    for (int j = 0; j < o->items.n; j++) {
        int i = o->items.at[j];
        if (is_last_use(r, s, i, k)) to.live -= r->items[i].bytes;
    }
    return to;
}

typedef struct by_set {
    const set *s;
    int number;
} by_set;

static bool same_set(const set *a, const set *b) { return a->first == b->first && a->done == b->done; }

static int equal_together(const void *x, const void *y) {
    const by_set *a = x, *b = y;
    if (a->s->first != b->s->first) return a->s->first < b->s->first ? -1 : 1;
    if (a->s->done != b->s->done) return a->s->done < b->s->done ? -1 : 1;
    if (a->s->peak != b->s->peak) return a->s->peak < b->s->peak ? -1 : 1;
    return a->number - b->number;
}

static int best_first(const void *x, const void *y) {
    const by_set *a = x, *b = y;
    if (a->s->peak != b->s->peak) return a->s->peak < b->s->peak ? -1 : 1;
    if (a->s->live != b->s->live) return a->s->live < b->s->live ? -1 : 1;
    return a->number - b->number;
}

static const set *keep_set(const run *r, set s) {
    set *kept = ARENA_NEW(r->arena, set);
    *kept = s;
    return kept;
}

// The best way to each of the sets, of at most `most` sets.
static set_list best_sets(const run *r, arena *scratch, const set *all, int count, int most) {
    by_set *sorted = ARENA_ARRAY(scratch, by_set, count + 1);
    set_list kept = {0};
    int n = 0;
    for (int j = 0; j < count; j++) sorted[j] = (by_set){&all[j], j};
    if (count) qsort(sorted, (size_t)count, sizeof *sorted, equal_together);
    for (int j = 0; j < count; j++)
        if (!j || !same_set(sorted[j].s, sorted[j - 1].s)) sorted[n++] = sorted[j];
    if (n) qsort(sorted, (size_t)n, sizeof *sorted, best_first);
    for (int j = 0; j < n && j < most; j++) VEC_PUSH(r->arena, &kept, keep_set(r, *sorted[j].s));
    return kept;
}

static const set *first_set(const run *r) {
    set *s = ARENA_NEW(r->arena, set);
    for (int j = 0; j < r->nitems; j++)
        if (r->items[j].before) s->live += r->items[j].bytes;
    s->peak = s->live;
    return s;
}

static int64_t peak_as_is(const run *r) {
    set s = *first_set(r);
    for (int k = 0; k < r->n; k++) s = after_kernel(r, &s, k);
    return s.peak;
}

// The last set of the best order; NULL: none has a smaller peak than the present one.
static const set *best_order(const run *r) {
    int64_t bound = peak_as_is(r);
    set_list level = {0};
    VEC_PUSH(r->arena, &level, first_set(r));
    for (int n = 0; n < r->n && level.n; n++) {
        arena *scratch = arena_new();
        VEC(set) next = {0};
        for (int j = 0; j < level.n; j++) {
            const set *s = level.at[j];
            for (int k = s->first; k < r->n && k < s->first + WINDOW; k++) {
                if (!is_ready(r, s, k) || while_running(r, s, k) >= bound) continue;
                VEC_PUSH(scratch, &next, after_kernel(r, s, k));
            }
        }
        level = best_sets(r, scratch, next.at, next.n, r->n > LONG ? SETS_OF_LONG : SETS_MOST);
        arena_destroy(scratch);
    }
    return level.n ? level.at[0] : NULL;
}

// ---------------------------------------------------------------- the program
static dim *planned(program *p, const target *t) {
    return plan_memory(p, SPACE_HOST, NULL, t->freestanding ? 16 : 64, 0, NULL, NULL).workspace;
}

static void put_order(region *main, int from, step *const *order, int n) {
    for (int j = 0; j < n; j++) main->steps.at[from + j] = order[j];
}

static bool reorder(program *p, const target *t, arena *a, const uses *u, site *const *sites, int from,
                    int n) {
    region *main = p->main;
    run r = run_new(a, p, t, u, sites, n);
    const set *best = best_order(&r);
    if (!best) return false;
    step **before = ARENA_ARRAY(a, step *, n), **after = ARENA_ARRAY(a, step *, n);
    for (int j = 0; j < n; j++) before[j] = main->steps.at[from + j];
    for (int j = n - 1; j >= 0; j--, best = best->from) after[j] = r.ops[best->last].s;
    dim *was = planned(p, t);
    put_order(main, from, after, n);
    dim *gain = dim_sub(was, planned(p, t));
    if (gain->min >= 0 && gain->max > 0) return true;
    put_order(main, from, before, n);
    return false;
}

// Kernels change places with neighbours only: other steps may have effects.
bool order_kernels(program *p, const target *t) {
    arena *a = arena_new();
    const uses *u = uses_build(a, p);
    bool changed = false;
    int first = 0, n = 0;
    site **sites = ARENA_ARRAY(a, site *, u->n + 1);
    for (int j = 0; j <= u->n; j++) {
        const site *at = &u->sites[j];
        if (j < u->n && at->depth > 0) continue;
        bool kernel = j < u->n && at->s->kind == STEP_KERNEL;
        if (kernel) {
            if (!n) first = step_index(p->main, at->s);
            sites[n++] = &u->sites[j];
            continue;
        }
        if (n > 2 && n <= KERNELS_MOST) changed |= reorder(p, t, a, u, sites, first, n);
        n = 0;
    }
    arena_destroy(a);
    return changed;
}
