// Def-use analysis of buffers: see uses.h.
#include "ir/kernel/uses.h"
#include <string.h>

static bool lists(const buffer_list *l, const buffer *b) {
    for (int j = 0; j < l->n; j++)
        if (l->at[j] == b) return true;
    return false;
}
bool site_reads(const site *at, const buffer *root) { return lists(&at->reads, root); }
bool site_writes(const site *at, const buffer *root) { return lists(&at->writes, root); }

// ---------------------------------------------------------------- accesses of a step
static void access_buffer(uses *u, site *at, buffer_list *list, buffer *b) {
    if (!b || b->role == BUF_LOCAL) return;
    buffer_list_add(u->arena, &at->accessed, b);
    buffer_list_add(u->arena, list, (buffer *)buffer_root(b));
}

static void access_kernel(uses *u, site *at, const kernel *k) {
    arena *scratch = arena_new();
    expr_list nodes = kernel_nodes(scratch, k, PART_ALL);
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->writes.n; i++)
            access_buffer(u, at, &at->writes, k->stages.at[j]->writes.at[i].to);
    for (int j = 0; j < nodes.n; j++)
        if (nodes.at[j]->op == X_READ) access_buffer(u, at, &at->reads, nodes.at[j]->buffer);
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->writes.n; i++) {
            const write *w = &k->stages.at[j]->writes.at[i];
            if (w->combine != COMBINE_SET) access_buffer(u, at, &at->reads, w->to);
        }
    arena_destroy(scratch);
}

static void access_step(uses *u, site *at) {
    const step *s = at->s;
    switch (s->kind) {
    case STEP_KERNEL:
        if (s->kernel) access_kernel(u, at, s->kernel);
        break;
    case STEP_SET_DIM:
    case STEP_IF:
    case STEP_LOOP: access_buffer(u, at, &at->reads, s->buffer); break;
    case STEP_ALLOC:
    case STEP_FREE: access_buffer(u, at, &at->writes, s->buffer); break;
    case STEP_COPY:
    case STEP_MOVE:
        access_buffer(u, at, &at->writes, s->buffer);
        access_buffer(u, at, &at->reads, s->from);
        if (s->kind == STEP_MOVE) access_buffer(u, at, &at->writes, s->from);
        break;
    case STEP_LIB:
        for (int j = 0; j < s->nargs; j++)
            access_buffer(u, at, j < s->nwritten ? &at->writes : &at->reads, s->args[j]);
        break;
    case STEP_CHECK: break;
    }
}

// ---------------------------------------------------------------- def-use lists
static void insert_site(arena *a, site_list *l, site *at) {
    int to = l->n;
    while (to && l->at[to - 1]->time > at->time) to--;
    if (to && l->at[to - 1] == at) return;
    VEC_PUSH(a, l, at);
    for (int j = l->n - 1; j > to; j--) l->at[j] = l->at[j - 1];
    l->at[to] = at;
}

// Passes make new buffers while they keep the uses up to date: the list has room for buffer `id` afterwards.
static void make_room(uses *u, int id) {
    if (id < u->nof) return;
    buffer_uses *more = ARENA_ARRAY(u->arena, buffer_uses, 2 * id + 1);
    memcpy(more, u->of, (size_t)u->nof * sizeof *more);
    u->of = more;
    u->nof = 2 * id + 1;
}

// A kernel run by several steps counts as another kind of use from the second step on.
static void record(uses *u, site *at) {
    const step *s = at->s;
    bool memory_only = s->kind == STEP_ALLOC || s->kind == STEP_FREE;
    bool is_kernel = s->kind == STEP_KERNEL && s->kernel && u->of_kernel[s->kernel->id] == at;
    for (int j = 0; j < at->accessed.n; j++) {
        const buffer *b = at->accessed.at[j], *root = buffer_root(b);
        make_room(u, root->id);
        buffer_uses *of = &u->of[root->id];
        of->viewed |= b != root;
        of->by_others |= !is_kernel && !memory_only;
        insert_site(u->arena, &of->sites, at);
    }
}

static void build_region(uses *u, region *r, site *owner, int *time) {
    for (int j = 0; j < r->steps.n; j++) {
        step *s = r->steps.at[j];
        site *at = &u->sites[u->n++];
        *at = (site){.s = s, .region = r, .owner = owner, .depth = owner ? owner->depth + 1 : 0};
        at->time = ++*time;
        if (s->kind == STEP_KERNEL && s->kernel && !u->of_kernel[s->kernel->id])
            u->of_kernel[s->kernel->id] = at;
        access_step(u, at);
        record(u, at);
        for (int b = 0; b < 2; b++)
            if (s->body[b]) build_region(u, s->body[b], at, time);
        if (s->kind == STEP_LOOP) ++*time;
        at->end = *time;
        if (s->kind == STEP_LOOP) VEC_PUSH(u->arena, &u->loops, (live_range){at->time, at->end});
    }
}

uses *uses_build(arena *a, const program *p) {
    uses *u = ARENA_NEW(a, uses);
    int time = 0;
    u->arena = a;
    u->sites = ARENA_ARRAY(a, site, program_steps(a, p).n + 1);
    u->of_kernel = ARENA_ARRAY(a, site *, p->kernels.n + 1);
    u->nof = p->buffers.n + 1;
    u->of = ARENA_ARRAY(a, buffer_uses, u->nof);
    for (int j = 0; j < p->outputs.n; j++) u->of[buffer_root(p->outputs.at[j])->id].output = true;
    for (int j = 0; j < p->buffers.n; j++)
        if (p->buffers.at[j]->fallback) u->of[buffer_root(p->buffers.at[j]->fallback)->id].fallback = true;
    build_region(u, p->main, NULL, &time);
    return u;
}

void uses_update(uses *u, site *at) {
    at->accessed = at->reads = at->writes = (buffer_list){0};
    access_step(u, at);
    record(u, at);
}

bool uses_are_direct(const uses *u, const buffer *root, int n) {
    const buffer_uses *of = &u->of[root->id];
    return of->sites.n == n && !of->viewed && !of->fallback;
}

// ---------------------------------------------------------------- live ranges
// Extends r to all loops that it enters or leaves; inner loops first.
static live_range over_loops(const uses *u, live_range r) {
    for (int j = 0; j < u->loops.n; j++) {
        live_range loop = u->loops.at[j];
        bool touches = r.def <= loop.last_use && r.last_use >= loop.def;
        bool inside = r.def >= loop.def && r.last_use <= loop.last_use;
        if (!touches || inside) continue;
        if (loop.def < r.def) r.def = loop.def;
        if (loop.last_use > r.last_use) r.last_use = loop.last_use;
    }
    return r;
}

live_range uses_live_range(const uses *u, const buffer *root) {
    const site_list *l = &u->of[root->id].sites;
    if (!l->n) return (live_range){0, 0};
    live_range r = {l->at[0]->time, 0};
    for (int j = 0; j < l->n; j++) {
        const site *at = l->at[j];
        int last = at->s->kind == STEP_LOOP ? at->end : at->time; // its condition is read again at the end
        if (last > r.last_use) r.last_use = last;
    }
    return over_loops(u, r);
}

const site *uses_last_site(const uses *u, const buffer *root) {
    const site_list *l = &u->of[root->id].sites;
    const site *last = l->n ? l->at[0] : NULL;
    for (int j = 1; j < l->n; j++) {
        const site *at = l->at[j];
        while (last->region != at->region) {
            bool lift_last = last->depth >= at->depth, lift_at = at->depth >= last->depth;
            if (lift_last) last = last->owner;
            if (lift_at) at = at->owner;
        }
        if (at->time > last->time) last = at;
    }
    return last;
}

// ---------------------------------------------------------------- branches and loops
bool site_repeats(const site *at) {
    for (const site *x = at->owner; x; x = x->owner)
        if (x->s->kind == STEP_LOOP) return true;
    return false;
}

bool sites_exclude(const site *a, const site *b) {
    while (a->depth > b->depth) a = a->owner;
    while (b->depth > a->depth) b = b->owner;
    for (; a->owner != b->owner; b = b->owner) a = a->owner;
    return a->region != b->region && !site_repeats(a);
}
