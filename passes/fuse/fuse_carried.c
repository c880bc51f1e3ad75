// Values that a loop carries are updated where they are. In: loops that end with a copy of the next value. Out: loops without it, if
// nothing reads the old value after the next one has begun. A copy that the next value begins with goes, too: only what changes is
// written. Such values first, before other kernels are fused with those that read the old value; all others are temporaries until then.
//
//   loop ?t < T:                            loop ?t < T:
//     next[i] = value[i]
//     next[?t] = x[i]                         value[?t] = x[i]
//     ... reads next                          ... reads value
//     copy value = next
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/memory/memory_plan.h"

typedef struct carried {
    const uses *u;
    const site *end; // the copy
    buffer *value, *next;
    const site *begin; // a kernel that copies the whole value, or NULL
} carried;

static bool is_single(const uses *u, const site *at) {
    return at->s->kind == STEP_KERNEL && at->s->kernel && u->of_kernel[at->s->kernel->id] == at;
}

static bool has_same_memory(const buffer *a, const buffer *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank && a->space == b->space && !a->view_of &&
                !b->view_of && !a->layout && !b->layout;
    for (int d = 0; d < a->rank && same; d++) same = a->dims[d] == b->dims[d];
    return same;
}

static bool find_carried(carried *c) {
    const step *s = c->end->s;
    if (s->kind != STEP_COPY || !c->end->owner || c->end->owner->s->kind != STEP_LOOP) return false;
    c->value = s->buffer, c->next = s->from;
    return c->next->role == BUF_TEMP && (c->value->role == BUF_TEMP || c->value->role == BUF_OUTPUT) &&
           has_same_memory(c->value, c->next);
}

// Whether the copy is the last use of the next value, and kernels of the iteration make all other uses.
static bool stays_within(carried *c) {
    const buffer_uses *all = &c->u->of[c->next->id];
    buffer *from, *to;
    if (all->fallback || all->output || all->sites.at[all->sites.n - 1] != c->end) return false;
    for (int j = 0; j < all->sites.n - 1; j++) {
        const site *at = all->sites.at[j];
        bool writes = site_writes(at, c->next);
        if (!is_single(c->u, at) || at->time < c->end->owner->time) return false;
        if (at->region != c->end->region && (writes || !j)) return false;
        if (!j && !writes) return false;
    }
    const site *first = all->sites.at[0];
    bool copies = copies_whole(first->s->kernel, &from, &to) && from == c->value && to == c->next;
    c->begin = copies ? first : NULL;
    return true;
}

// The first kernel that changes elements; the end, if none does.
static int begin_of_changes(const carried *c) {
    const site_list *l = &c->u->of[c->next->id].sites;
    for (int j = c->begin != NULL; j < l->n; j++)
        if (site_writes(l->at[j], c->next)) return l->at[j]->time;
    return c->end->time;
}

// Whether no use of the old value in the iteration is at or after a change, but for a kernel that computes each element from itself.
static bool is_past(const carried *c) {
    const site_list *l = &c->u->of[c->value->id].sites;
    int changes = begin_of_changes(c);
    for (int j = 0; j < l->n; j++) {
        const site *at = l->at[j];
        if (at->time <= c->end->owner->time || at->time > c->end->owner->end || at == c->end ||
            at == c->begin)
            continue;
        bool in_place = !c->begin && at->time == changes && writes_in_place(at->s->kernel, c->value, c->next);
        if (site_writes(at, c->value) || (at->end >= changes && !in_place)) return false;
    }
    return true;
}

static void update_in_place(const carried *c) {
    const site_list *l = &c->u->of[c->next->id].sites;
    if (c->begin) c->begin->s->kernel->stages.n = 0;
    for (int j = c->begin != NULL; j < l->n - 1; j++) {
        kernel *k = l->at[j]->s->kernel;
        kernel_swap_reads(k, c->next, c->value);
        write_list all = kernel_write_list(k);
        for (int i = 0; i < all.n; i++)
            if (all.at[i]->to == c->next) all.at[i]->to = c->value;
    }
    *c->end->s = (step){.kind = STEP_KERNEL, .loc = c->end->s->loc}; // no longer a step
}

void merge_carried(program *p, bool late) {
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    buffer **now = ARENA_ARRAY(scratch, buffer *, p->buffers.n + 1);
    bool any = false;
    for (int j = 0; j < u->n; j++) {
        carried c = {.u = u, .end = &u->sites[j]};
        if (!find_carried(&c) || now[c.value->id] || now[c.next->id] || !stays_within(&c)) continue;
        if ((!late && !c.begin) || !is_past(&c)) continue;
        update_in_place(&c);
        now[c.next->id] = now[c.value->id] = c.value;
        any = true;
    }
    if (any) move_views(p, now);
    if (any) program_compact(p);
    arena_destroy(scratch);
}
