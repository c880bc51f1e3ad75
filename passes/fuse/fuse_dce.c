// What nobody reads goes: writes, stages, kernels, allocations, buffers.
#include "passes/fuse/fuse_impl.h"
#include <string.h>

typedef struct dead {
    program *p;
    arena *arena;
    int *readers; // by id of the root buffer: kernels and steps that read it
} dead;

static bool is_output(const program *p, const buffer *root) {
    for (int j = 0; j < p->outputs.n; j++)
        if (root_of(p->outputs.at[j]) == root) return true;
    return false;
}

typedef struct reading {
    dead *d;
    const kernel *k;
    int *seen; // by root id: last kernel counted, + 1
    int by;
} reading;

static void count_read(void *user, expr *e) {
    reading *r = user;
    if (e->op != X_READ || e->buffer->role == BUF_LOCAL) return;
    r->d->readers[root_of(e->buffer)->id] += r->by;
}

// Every read of a kernel counts: a kernel that goes takes all of its own back.
static void count_kernel(dead *d, const kernel *k, int by) {
    reading r = {.d = d, .k = k, .by = by};
    kernel_each(k, count_read, &r);
}

static void count_buffer(dead *d, const buffer *b) {
    if (b) d->readers[root_of(b)->id]++;
}

static void count_step(void *user, region *r, step *s) {
    dead *d = user;
    (void)r;
    switch (s->kind) {
    case STEP_KERNEL: count_kernel(d, s->kernel, 1); break;
    case STEP_SET_DIM:
    case STEP_IF:
    case STEP_LOOP: count_buffer(d, s->buffer); break;
    // What is copied or moved to may be read in the next iteration.
    case STEP_COPY:
    case STEP_MOVE: count_buffer(d, s->from), count_buffer(d, s->buffer); break;
    case STEP_LIB:
        for (int j = 0; j < s->nargs; j++) count_buffer(d, s->args[j]);
        break;
    case STEP_CHECK:
    case STEP_ALLOC:
    case STEP_FREE: break;
    }
}

typedef struct own_read {
    const buffer *root;
    bool found;
} own_read;
static void look_own(void *user, expr *e) {
    own_read *o = user;
    if (e->op == X_READ && e->buffer->role != BUF_LOCAL) o->found |= root_of(e->buffer) == o->root;
}
// Whether the kernel uses what w writes for more than w: a value that a loop carries from one run of the
// kernel to the next.
static bool is_carried(const kernel *k, const write *w) {
    own_read o = {root_of(w->to), false};
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        for (int i = 0; i < s->states.n; i++) {
            expr_walk(s->states.at[i].init, look_own, &o);
            expr_walk(s->states.at[i].step, look_own, &o);
        }
        for (int i = 0; i < s->writes.n; i++)
            if (&s->writes.at[i] != w) expr_walk(s->writes.at[i].value, look_own, &o);
    }
    return o.found;
}

// Without the kernel's own reads.
static bool is_live(const dead *d, const kernel *k, const write *w) {
    return w->to->role == BUF_LOCAL || w->to->role == BUF_OUTPUT || d->readers[root_of(w->to)->id] > 0 ||
           is_carried(k, w);
}

typedef struct local_reads {
    uint8_t *read;
} local_reads;
static void look_local(void *user, expr *e) {
    local_reads *l = user;
    if (e->op == X_READ && e->buffer->role == BUF_LOCAL) l->read[e->buffer->id] = 1;
}

// Drops writes that nobody wants and stages without writes; true when something went.
static bool prune(dead *d, kernel *k, const uint8_t *local_read) {
    bool changed = false;
    int stages = 0;
    for (int j = 0; j < k->stages.n; j++) {
        stage *s = k->stages.at[j];
        int n = 0;
        for (int i = 0; i < s->writes.n; i++) {
            const write *w = &s->writes.at[i];
            bool keep = w->to->role == BUF_LOCAL ? local_read[w->to->id] : is_live(d, k, w);
            if (keep) s->writes.at[n++] = *w;
        }
        changed |= n != s->writes.n;
        s->writes.n = n;
        if (n) k->stages.at[stages++] = s;
    }
    k->stages.n = stages;
    return changed;
}

static bool prune_kernel(dead *d, kernel *k) {
    arena *scratch = arena_new();
    bool changed = false;
    for (bool again = true; again && k->stages.n;) {
        local_reads l = {ARENA_ARRAY(scratch, uint8_t, k->locals.n + 1)};
        kernel_each(k, look_local, &l);
        count_kernel(d, k, -1);
        again = prune(d, k, l.read);
        count_kernel(d, k, 1);
        changed |= again;
    }
    arena_destroy(scratch);
    return changed;
}

static void prune_region(dead *d, region *r, bool *changed) {
    int n = r->steps.n;
    for (int j = r->steps.n - 1; j >= 0; j--) {
        step *s = r->steps.at[j];
        for (int b = 1; b >= 0; b--)
            if (s->body[b]) prune_region(d, s->body[b], changed);
        if (s->kind != STEP_KERNEL) continue;
        *changed |= prune_kernel(d, s->kernel);
        if (s->kernel->stages.n == 0) r->steps.at[j] = NULL, n--;
    }
    int to = 0;
    for (int j = 0; j < r->steps.n; j++)
        if (r->steps.at[j]) r->steps.at[to++] = r->steps.at[j];
    r->steps.n = n;
}

void fuse_dead(program *p) {
    dead d = {.p = p, .arena = arena_new()};
    d.readers = ARENA_ARRAY(d.arena, int, p->buffers.n + 1);
    program_walk(p, count_step, &d);
    for (int j = 0; j < p->buffers.n; j++)
        if (is_output(p, root_of(p->buffers.at[j]))) d.readers[root_of(p->buffers.at[j])->id]++;
    bool changed = true; // loops carry values backwards: until nothing goes
    for (int j = 0; j < 8 && changed; j++) {
        changed = false;
        prune_region(&d, p->main, &changed);
    }
    arena_destroy(d.arena);
}

// ---------------------------------------------------------------- buffers and kernels without use
typedef struct compact {
    uint8_t *buffer, *touched; // by id: kept; used by more than its allocation
    VEC(kernel *) kernels;
    arena *arena;
} compact;

static void keep_buffer(compact *c, const buffer *b) {
    for (; b; b = b->view_of) c->buffer[b->id] = c->touched[b->id] = 1;
}
static void keep_read(void *user, expr *e) {
    if (e->op == X_READ && e->buffer->role != BUF_LOCAL) keep_buffer(user, e->buffer);
}
static void keep_step(void *user, region *r, step *s) {
    compact *c = user;
    (void)r;
    if (s->kind == STEP_ALLOC || s->kind == STEP_FREE) return;
    keep_buffer(c, s->buffer);
    keep_buffer(c, s->from);
    for (int j = 0; j < s->nargs; j++) keep_buffer(c, s->args[j]);
    if (s->kind != STEP_KERNEL) return;
    VEC_PUSH(c->arena, &c->kernels, s->kernel);
    kernel_each(s->kernel, keep_read, c);
    for (int j = 0; j < s->kernel->stages.n; j++)
        for (int i = 0; i < s->kernel->stages.at[j]->writes.n; i++) {
            buffer *to = s->kernel->stages.at[j]->writes.at[i].to;
            if (to->role != BUF_LOCAL) keep_buffer(c, to);
        }
}

static void drop_allocations(compact *c, region *r) {
    int n = 0;
    for (int j = 0; j < r->steps.n; j++) {
        step *s = r->steps.at[j];
        for (int b = 0; b < 2; b++)
            if (s->body[b]) drop_allocations(c, s->body[b]);
        bool memory = s->kind == STEP_ALLOC || s->kind == STEP_FREE;
        if (!memory || c->touched[s->buffer->id]) r->steps.at[n++] = s;
    }
    r->steps.n = n;
}

// Locals that are still used, numbered anew.
static void compact_locals(kernel *k) {
    arena *scratch = arena_new();
    local_reads l = {ARENA_ARRAY(scratch, uint8_t, k->locals.n + 1)};
    kernel_each(k, look_local, &l);
    int n = 0;
    for (int j = 0; j < k->locals.n; j++)
        if (l.read[j]) k->locals.at[n++] = k->locals.at[j];
    for (int j = 0; j < n; j++) k->locals.at[j]->id = j;
    k->locals.n = n;
    arena_destroy(scratch);
}

void fuse_compact(program *p) {
    arena *scratch = arena_new();
    compact c = {.arena = scratch};
    c.buffer = ARENA_ARRAY(scratch, uint8_t, p->buffers.n + 1);
    c.touched = ARENA_ARRAY(scratch, uint8_t, p->buffers.n + 1);
    for (int j = 0; j < p->inputs.n; j++) keep_buffer(&c, p->inputs.at[j]);
    for (int j = 0; j < p->outputs.n; j++) keep_buffer(&c, p->outputs.at[j]);
    program_walk(p, keep_step, &c);
    drop_allocations(&c, p->main);
    int n = 0;
    for (int j = 0; j < p->buffers.n; j++)
        if (c.buffer[p->buffers.at[j]->id]) p->buffers.at[n++] = p->buffers.at[j];
    for (int j = 0; j < n; j++) p->buffers.at[j]->id = j;
    p->buffers.n = n;
    p->kernels.n = 0;
    for (int j = 0; j < c.kernels.n; j++) {
        kernel *k = c.kernels.at[j];
        compact_locals(k);
        k->id = p->kernels.n;
        VEC_PUSH(p->arena, &p->kernels, k);
    }
    arena_destroy(scratch);
}
