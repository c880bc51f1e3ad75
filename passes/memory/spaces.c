// Memory spaces. In: a program whose kernels will run on a GPU. Out: a space for every buffer, and steps that
// copy between host and device. A host step that accesses a device buffer uses a host copy of it: copied to
// the host before the step if it reads, back to the device after it if it writes.
#include "passes/memory/spaces.h"
#include "ir/kernel/uses.h"

typedef struct pair {
    const buffer *of; // on the device
    buffer *copy;     // on the host
} pair;
typedef VEC(pair) pairs;

typedef struct placing {
    program *p;
    int n;               // buffers before the pass
    bool *kernel, *host; // by buffer id: whether kernels, host steps access it
    buffer **host_input; // by buffer id of an input that kernels also read: its copy for host steps
} placing;

// ---------------------------------------------------------------- users of buffers
// Copies and moves run in the space of their buffers.
static bool is_host_step(const step *s) {
    return s->kind == STEP_LIB || s->kind == STEP_SET_DIM || s->kind == STEP_IF || s->kind == STEP_LOOP;
}

// Moved memory stays in its space.
static bool merge_moved(placing *x, const step *s) {
    int a = buffer_root(s->buffer)->id, b = buffer_root(s->from)->id;
    bool *const marks[] = {x->kernel, x->host}, changed = false;
    for (int j = 0; j < 2; j++) {
        changed |= marks[j][a] != marks[j][b];
        marks[j][a] = marks[j][b] = marks[j][a] || marks[j][b];
    }
    return changed;
}

static void find_users(placing *x) {
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, x->p);
    for (int j = 0; j < u->n; j++) {
        const site *at = &u->sites[j];
        for (int i = 0; i < at->accessed.n; i++) {
            int id = buffer_root(at->accessed.at[i])->id;
            x->kernel[id] |= at->s->kind == STEP_KERNEL;
            x->host[id] |= is_host_step(at->s);
        }
    }
    for (bool again = true; again;) {
        again = false;
        for (int j = 0; j < u->n; j++)
            if (u->sites[j].s->kind == STEP_MOVE) again |= merge_moved(x, u->sites[j].s);
    }
    arena_destroy(scratch);
}

// ---------------------------------------------------------------- the caller's buffers
static buffer *like(placing *x, const buffer *b, const char *name, buffer_role role, space where) {
    buffer *c = program_buffer(x->p, name, role, b->dtype, b->rank, b->dims);
    c->layout = b->layout;
    c->io = b->io;
    c->value = b->value;
    c->region = b->region;
    c->space = where;
    return c;
}

static const char *host_name(const placing *x, const buffer *b) {
    return arena_printf(x->p->arena, "%s.host", b->name);
}

static step *copy_at(placing *x, region *r, int at, buffer *to, buffer *from, const loc *where) {
    step *s = step_insert(x->p, r, at, STEP_COPY, where);
    s->buffer = to, s->from = from;
    return s;
}

// The buffer that the steps use becomes a temporary, and a new one the caller's.
static buffer *split(placing *x, buffer *b, space where) {
    buffer *outside = like(x, b, b->name, b->role, SPACE_CALLER);
    b->role = BUF_TEMP;
    b->space = where;
    for (int j = 0; j < x->n; j++) {
        buffer *v = x->p->buffers.at[j];
        if (v->view_of && buffer_root(v) == b) v->role = BUF_TEMP;
    }
    return outside;
}

static bool is_state(const program *p, int input) {
    for (int j = 0; p->state && j < p->outputs.n; j++)
        if (p->state[j] == input + 1) return true;
    return false;
}

// Strings and values are structs of host pointers.
static bool is_boxed(const buffer *b) { return b->holds || b->dtype == DT_STRING; }

// Splits an input or output that steps use; returns the caller's buffer, NULL: no step uses it.
static buffer *split_used(placing *x, buffer **io) {
    buffer *b = *io;
    if (is_boxed(b)) return NULL;
    b->space = SPACE_CALLER;
    if (!x->kernel[b->id] && !x->host[b->id]) return NULL;
    return *io = split(x, b, x->kernel[b->id] ? SPACE_DEVICE : SPACE_HOST);
}

static void place_input(placing *x, int i) {
    buffer *b = x->p->inputs.at[i], *outside = split_used(x, &x->p->inputs.at[i]);
    if (!outside) return;
    if (!is_state(x->p, i)) b->caller = outside; // a state is overwritten before its last use
    copy_at(x, x->p->main, 0, b, outside, NULL);
    if (b->space == SPACE_HOST || !x->host[b->id]) return;
    buffer *copy = x->host_input[b->id] = like(x, b, host_name(x, b), BUF_TEMP, SPACE_HOST);
    copy->caller = b->caller;
    copy_at(x, x->p->main, 0, copy, outside, NULL);
}

static void place_output(placing *x, int i) {
    buffer *b = x->p->outputs.at[i], *outside = split_used(x, &x->p->outputs.at[i]);
    if (!outside) return;
    if (b->space == SPACE_DEVICE && !(x->p->state && x->p->state[i])) b->caller = outside;
    copy_at(x, x->p->main, x->p->main->steps.n, outside, b, NULL);
}

// Temporaries accessed only by copies are on the device.
static void place_temporary(placing *x, buffer *b) {
    if (b->role != BUF_TEMP && b->role != BUF_HEAP) return;
    b->space = x->host[b->id] && !x->kernel[b->id] ? SPACE_HOST : SPACE_DEVICE;
}

// ---------------------------------------------------------------- host steps
static bool on_device(const buffer *b) { return b && buffer_root(b)->space == SPACE_DEVICE; }

static void remark(const placing *x, const step *s, const buffer *b, const char *direction) {
    diag_remark(x->p->diag, s->loc, "'%s' is copied %s for %s", b->name, direction,
                s->kind == STEP_LIB       ? s->lib
                : s->kind == STEP_SET_DIM ? "a size"
                                          : "a condition");
}

// A host copy of a device buffer, allocated here if it is on the heap; *at skips the inserted steps.
static buffer *host_copy(placing *x, region *r, int *at, const buffer *root, const loc *where) {
    buffer *copy = like(x, root, host_name(x, root), root->role, SPACE_HOST);
    if (copy->role == BUF_HEAP) step_insert(x->p, r, (*at)++, STEP_ALLOC, where)->buffer = copy;
    return copy;
}

static buffer *known_copy(const placing *x, const pairs *known, const buffer *root) {
    if (root->id < x->n && x->host_input[root->id]) return x->host_input[root->id];
    for (int j = 0; j < known->n; j++)
        if (known->at[j].of == root) return known->at[j].copy;
    return NULL;
}

static buffer *readable(placing *x, region *r, int *at, pairs *known, const step *s, buffer *b) {
    buffer *root = (buffer *)buffer_root(b), *copy = known_copy(x, known, root);
    if (copy) return copy;
    copy = host_copy(x, r, at, root, s->loc);
    copy_at(x, r, (*at)++, copy, root, s->loc);
    remark(x, s, b, "to the host");
    VEC_PUSH(x->p->arena, known, ((pair){root, copy}));
    return copy;
}

// The view of the copy that corresponds to b.
static buffer *same_view(placing *x, const buffer *b, buffer *copy) {
    if (!b->view_of) return copy;
    buffer *v = program_view(x->p, same_view(x, b->view_of, copy), host_name(x, b), b->rank, b->dims);
    v->dtype = b->dtype;
    v->layout = b->layout;
    v->view_offset = b->view_offset;
    v->space = SPACE_HOST;
    return v;
}

static void forget(pairs *known, const buffer *b) {
    const buffer *root = b ? buffer_root(b) : NULL;
    for (int j = 0; j < known->n; j++)
        if (known->at[j].of == root) known->at[j--] = known->at[--known->n];
}

static void forget_written(pairs *known, const step *s) {
    buffer **all;
    int n = s->kind == STEP_KERNEL ? kernel_buffers(s->kernel, &all) : 0;
    for (int j = 0; j < n; j++)
        if (kernel_writes(s->kernel, all[j])) forget(known, all[j]);
    for (int j = 0; j < s->nwritten; j++) forget(known, s->args[j]);
    if (s->kind != STEP_SET_DIM) forget(known, s->buffer);
    if (s->kind == STEP_MOVE) forget(known, s->from);
    if (s->body[0]) known->n = 0;
}

// Library functions write only their first arguments, and all of these.
static void library_arguments(placing *x, region *r, int *at, pairs *known, step *s) {
    buffer **args = ARENA_ARRAY(x->p->arena, buffer *, s->nargs + 1);
    for (int j = s->nwritten; j < s->nargs; j++)
        args[j] = on_device(s->args[j]) ? same_view(x, s->args[j], readable(x, r, at, known, s, s->args[j]))
                                        : s->args[j];
    pairs made = {0};
    for (int j = 0; j < s->nwritten; j++) {
        args[j] = s->args[j];
        if (!on_device(s->args[j])) continue;
        buffer *root = (buffer *)buffer_root(s->args[j]);
        // The elements outside of a view must be preserved.
        buffer *copy = s->args[j]->view_of ? readable(x, r, at, known, s, s->args[j])
                                           : host_copy(x, r, at, root, s->loc);
        args[j] = same_view(x, s->args[j], copy);
        VEC_PUSH(x->p->arena, &made, ((pair){root, copy}));
    }
    forget_written(known, s);
    s->args = args;
    for (int j = 0; j < made.n; j++) {
        copy_at(x, r, ++*at, (buffer *)made.at[j].of, made.at[j].copy, s->loc);
        remark(x, s, made.at[j].of, "to the device");
        VEC_PUSH(x->p->arena, known, made.at[j]);
    }
}

static void place_region(placing *x, region *r);

// The condition is read in every iteration.
static void loop_condition(placing *x, region *r, int *at, step *s) {
    pairs fresh = {0};
    buffer *b = s->buffer, *root = (buffer *)buffer_root(b);
    buffer *copy = readable(x, r, at, &fresh, s, b);
    s->buffer = same_view(x, b, copy);
    if (fresh.n) copy_at(x, s->body[0], s->body[0]->steps.n, copy, root, s->loc);
}

static void place_step(placing *x, region *r, int *at, pairs *known, step *s) {
    for (int j = 0; j < 2; j++)
        if (s->body[j]) place_region(x, s->body[j]);
    switch (s->kind) {
    case STEP_LIB: library_arguments(x, r, at, known, s); return;
    case STEP_SET_DIM:
    case STEP_IF:
        if (on_device(s->buffer))
            s->buffer = same_view(x, s->buffer, readable(x, r, at, known, s, s->buffer));
        break;
    case STEP_LOOP:
        if (on_device(s->buffer)) loop_condition(x, r, at, s);
        break;
    case STEP_KERNEL:
    case STEP_CHECK:
    case STEP_ALLOC:
    case STEP_FREE:
    case STEP_COPY:
    case STEP_MOVE: break;
    }
    forget_written(known, s);
}

static void place_region(placing *x, region *r) {
    pairs known = {0};
    for (int j = 0; j < r->steps.n; j++) place_step(x, r, &j, &known, r->steps.at[j]);
}

void assign_spaces(program *p) {
    placing x = {.p = p, .n = p->buffers.n};
    x.kernel = ARENA_ARRAY(p->arena, bool, x.n + 1);
    x.host = ARENA_ARRAY(p->arena, bool, x.n + 1);
    x.host_input = ARENA_ARRAY(p->arena, buffer *, x.n + 1);
    find_users(&x);
    for (int j = 0; j < x.n; j++) place_temporary(&x, p->buffers.at[j]);
    for (int j = 0; j < p->inputs.n; j++) place_input(&x, j);
    for (int j = 0; j < p->outputs.n; j++) place_output(&x, j);
    for (int j = 0; j < x.n; j++)
        if (p->buffers.at[j]->view_of) p->buffers.at[j]->space = buffer_root(p->buffers.at[j])->space;
    place_region(&x, p->main);
}
