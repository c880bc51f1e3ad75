// Lifetimes of heap buffers. In: a program whose steps allocate. Out: the same with a STEP_FREE behind the
// step that uses the buffer last, in the innermost region that has all its uses: so what a loop's body makes
// for itself dies in every iteration, and what is carried dies after the loop.
#include "passes/memory/memory_plan.h"

void step_buffers(const step *s, void (*visit)(void *user, buffer *b), void *user) {
    buffer **all;
    int n = s->kind == STEP_KERNEL ? kernel_buffers(s->kernel, &all) : 0;
    for (int j = 0; j < n; j++) visit(user, all[j]);
    if (s->buffer) visit(user, s->buffer);
    if (s->from) visit(user, s->from);
    for (int j = 0; j < s->nargs; j++)
        if (s->args[j]) visit(user, s->args[j]);
}

typedef struct place { // a region and where it hangs
    region *region;
    struct place *outer;
    int owner, depth; // step of the outer region that has it
} place;

typedef struct life {
    place *at;
    int last; // step of at->region
} life;

typedef struct lifetimes {
    program *p;
    life *of; // by buffer id
    place *here;
    int step;
} lifetimes;

static void note_use(void *user, buffer *b) {
    lifetimes *l = user;
    const buffer *root = buffer_root(b);
    if (root->role != BUF_HEAP) return;
    life *f = &l->of[root->id];
    place *new = l->here;
    int last = l->step;
    if (!f->at) *f = (life){new, last};
    while (f->at != new) {
        bool lift_old = f->at->depth >= new->depth, lift_new = new->depth >= f->at->depth;
        if (lift_old) *f = (life){f->at->outer, f->at->owner};
        if (lift_new) last = new->owner, new = new->outer;
    }
    f->last = last > f->last ? last : f->last;
}

static void find_uses(lifetimes *l, place *here) {
    for (int j = 0; j < here->region->steps.n; j++) {
        step *s = here->region->steps.at[j];
        l->here = here, l->step = j;
        step_buffers(s, note_use, l);
        for (int i = 0; i < 2; i++) {
            if (!s->body[i]) continue;
            place *inner = ARENA_NEW(l->p->arena, place);
            *inner = (place){s->body[i], here, j, here->depth + 1};
            find_uses(l, inner);
        }
    }
}

static bool ends_life(const step *s, const buffer *b) {
    return (s->kind == STEP_FREE && s->buffer == b) || (s->kind == STEP_MOVE && s->from == b);
}

static void free_in(lifetimes *l, region *r) {
    program *p = l->p;
    region new = {0};
    for (int j = 0; j < r->steps.n; j++) {
        step *s = r->steps.at[j];
        for (int i = 0; i < 2; i++)
            if (s->body[i]) free_in(l, s->body[i]);
        VEC_PUSH(p->arena, &new.steps, s);
        for (int i = 0; i < p->buffers.n; i++) {
            const life *f = &l->of[i];
            if (!f->at || f->at->region != r || f->last != j || ends_life(s, p->buffers.at[i])) continue;
            step_new(p, &new, STEP_FREE, s->loc)->buffer = p->buffers.at[i];
        }
    }
    *r = new;
}

static bool has_heap(const program *p) {
    for (int j = 0; j < p->buffers.n; j++)
        if (p->buffers.at[j]->role == BUF_HEAP) return true;
    return false;
}

void insert_frees(program *p) {
    if (!has_heap(p)) return;
    lifetimes l = {.p = p, .of = ARENA_ARRAY(p->arena, life, p->buffers.n + 1)};
    place top = {.region = p->main};
    find_uses(&l, &top);
    free_in(&l, p->main);
}
