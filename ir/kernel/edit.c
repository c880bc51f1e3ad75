// Edits kernels and programs in place. In: a kernel and the replacements of its reads or axes, or a program
// with dead parts. Out: the same kernel with other expressions, the program without the dead parts.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"

static expr *map_read(kernel *k, const expr *e, expr *const *done, read_map *map, void *user) {
    expr read = *e, *index[MAX_RANK];
    for (int j = 0; j < e->buffer->rank; j++) index[j] = done[e->index[j]->id];
    read.index = index;
    if (e->guard) read.guard = done[e->guard->id], read.fill = done[e->fill->id];
    return map(user, k, &read);
}

expr *expr_rewrite_reads(kernel *k, expr *e, read_map *map, void *user) {
    arena *scratch = arena_new();
    expr_list nodes = expr_nodes(scratch, e);
    expr **done = ARENA_ARRAY(scratch, expr *, e->id + 1);
    for (int j = 0; j < nodes.n; j++) {
        const expr *x = nodes.at[j];
        expr *mapped = x->op == X_READ ? map_read(k, x, done, map, user) : NULL;
        done[x->id] = mapped ? mapped : expr_rebuild(k, x, done);
    }
    expr *result = done[e->id];
    arena_destroy(scratch);
    return result;
}

typedef struct rewrite {
    kernel *k;
    read_map *map;
    void *user;
} rewrite;
static expr *rewrite_root(void *user, expr *e) {
    const rewrite *r = user;
    return expr_rewrite_reads(r->k, e, r->map, r->user);
}
void kernel_rewrite_reads(kernel *k, read_map *map, void *user) {
    kernel_map_roots(k, rewrite_root, &(rewrite){k, map, user});
}

typedef struct swap {
    const buffer *from;
    buffer *to;
} swap;
static expr *swap_read(void *user, kernel *k, const expr *read) {
    const swap *s = user;
    return read->buffer == s->from ? x_read_guarded(k, s->to, read->index, read->guard, read->fill) : NULL;
}
expr *expr_swap_reads(kernel *k, expr *e, const buffer *from, buffer *to) {
    return expr_rewrite_reads(k, e, swap_read, &(swap){from, to});
}
void kernel_swap_reads(kernel *k, const buffer *from, buffer *to) {
    kernel_rewrite_reads(k, swap_read, &(swap){from, to});
}

typedef struct replacement {
    int id;
    expr *by;
} replacement;
static expr *replace_read(void *user, kernel *k, const expr *read) {
    const replacement *r = user;
    (void)k;
    return read->id == r->id ? r->by : NULL;
}
void kernel_replace_read(kernel *k, const expr *read, expr *by) {
    kernel_rewrite_reads(k, replace_read, &(replacement){read->id, by});
}

typedef struct substitution {
    expr *const *axis; // NULL: only the axis `only`
    int only;
    expr *by, *state;
} substitution;
static expr *substitute(void *user, expr *e) {
    const substitution *s = user;
    if (e->op == X_STATE) return s->state;
    if (e->op != X_AXIS) return NULL;
    return s->axis ? s->axis[e->axis] : e->axis == s->only ? s->by : NULL;
}
expr *expr_substitute_axis(kernel *k, expr *e, int axis, expr *by) {
    if (!expr_uses_axis(e, axis) || (by->op == X_AXIS && by->axis == axis)) return e;
    return expr_rewrite(k, e, substitute, &(substitution){.only = axis, .by = by});
}
expr *expr_substitute(kernel *k, expr *e, expr *const *axis, expr *state) {
    return expr_rewrite(k, e, substitute, &(substitution){.axis = axis, .only = -1, .state = state});
}

kernel *kernel_copying(program *p, const char *name, const loc *at, buffer *from, buffer *to) {
    expr *index[MAX_RANK];
    kernel *k = kernel_new(p, name, at);
    stage *s = kernel_stage(k);
    for (int j = 0; j < from->rank; j++) index[j] = stage_own_axis(k, s, AXIS_PARALLEL, "i", from->dims[j]);
    stage_write(k, s, to, index, x_read(k, from, index));
    return k;
}

// ---------------------------------------------------------------- compaction
bool *kernel_locals_read(arena *a, const kernel *k) {
    bool *read = ARENA_ARRAY(a, bool, k->locals.n + 1);
    expr_list nodes = kernel_nodes(a, k, PART_ALL);
    for (int j = 0; j < nodes.n; j++) {
        const expr *e = nodes.at[j];
        if (e->op == X_READ && e->buffer->role == BUF_LOCAL) read[e->buffer->id] = true;
    }
    return read;
}

// Locals that are written stay even if nothing reads them any more: dead code is not eliminated here.
static void compact_locals(arena *scratch, kernel *k) {
    bool *used = kernel_locals_read(scratch, k);
    int n = 0;
    for (int s = 0; s < k->stages.n; s++)
        for (int j = 0; j < k->stages.at[s]->writes.n; j++) {
            const buffer *to = k->stages.at[s]->writes.at[j].to;
            if (to->role == BUF_LOCAL) used[to->id] = true;
        }
    for (int j = 0; j < k->locals.n; j++)
        if (used[j]) k->locals.at[n++] = k->locals.at[j];
    for (int j = 0; j < n; j++) k->locals.at[j]->id = j;
    k->locals.n = n;
}

static bool is_memory_step(const step *s) { return s->kind == STEP_ALLOC || s->kind == STEP_FREE; }
static bool is_dead(const step *s, const bool *used) {
    if (s->kind == STEP_KERNEL) return !s->kernel || !s->kernel->stages.n;
    return is_memory_step(s) && !used[s->buffer->id];
}
static void drop_dead_steps(region *r, const bool *used) {
    int n = 0;
    for (int j = 0; j < r->steps.n; j++) {
        step *s = r->steps.at[j];
        for (int b = 0; b < 2; b++)
            if (s->body[b]) drop_dead_steps(s->body[b], used);
        if (!is_dead(s, used)) r->steps.at[n++] = s;
    }
    r->steps.n = n;
}

static void use_buffer(bool *used, const buffer *b) {
    for (; b; b = b->view_of) used[b->id] = true;
}

void program_compact(program *p) {
    arena *scratch = arena_new();
    bool *used = ARENA_ARRAY(scratch, bool, p->buffers.n + 1);
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < p->inputs.n; j++) use_buffer(used, p->inputs.at[j]);
    for (int j = 0; j < p->outputs.n; j++) use_buffer(used, p->outputs.at[j]);
    p->kernels.n = 0;
    for (int j = 0; j < u->n; j++) {
        const site *at = &u->sites[j];
        kernel *k = at->s->kernel;
        for (int i = 0; i < at->accessed.n && !is_memory_step(at->s); i++)
            use_buffer(used, at->accessed.at[i]);
        if (at->s->kind != STEP_KERNEL || !k || !k->stages.n) continue;
        compact_locals(scratch, k);
        k->id = p->kernels.n;
        VEC_PUSH(p->arena, &p->kernels, k);
    }
    drop_dead_steps(p->main, used);
    int n = 0;
    for (int j = 0; j < p->buffers.n; j++)
        if (used[j]) p->buffers.at[n++] = p->buffers.at[j];
    for (int j = 0; j < n; j++) p->buffers.at[j]->id = j;
    p->buffers.n = n;
    arena_destroy(scratch);
}
