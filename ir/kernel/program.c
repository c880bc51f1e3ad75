// Programs: buffers and steps built, walked, verified.
#include "ir/kernel/uses.h"
#include <string.h>

program *program_new(module *m) {
    program *p = ARENA_NEW(m->arena, program);
    p->arena = m->arena;
    p->diag = m->diag;
    p->dims = m->dims;
    p->module = m;
    p->name = m->name;
    p->main = ARENA_NEW(m->arena, region);
    return p;
}

buffer *program_temp(program *p, const char *name, dtype t, int rank, dim *const *d) {
    return program_buffer(p, name, dims_are_opaque(d, rank) ? BUF_HEAP : BUF_TEMP, t, rank, d);
}

buffer *program_constant(program *p, const char *name, const constant *c) {
    dim *d[MAX_RANK];
    for (int j = 0; j < c->rank; j++) d[j] = dim_const(p->dims, c->dims[j]);
    buffer *b = program_buffer(p, name, BUF_CONST, c->elem, c->rank, d);
    b->data = c;
    return b;
}

buffer *program_view(program *p, buffer *of, const char *name, int rank, dim *const *d) {
    dtype elem = of->dtype;
    while (of->view_of && !of->view_offset) of = of->view_of; // long chains would be walked at every use
    buffer *b = program_buffer(p, name, of->role, elem, rank, d);
    b->view_of = of;
    b->data = of->data;
    b->io = of->io;
    b->region = of->region;
    return b;
}

buffer *root_of(const buffer *b) { return (buffer *)buffer_root(b); }
const buffer *buffer_root(const buffer *b) {
    while (b->view_of) b = b->view_of;
    return b;
}

// ---------------------------------------------------------------- states
int state_axis(const program *p, int output) {
    if (!p->state || !p->state[output]) return -1;
    const buffer *in = p->inputs.at[p->state[output] - 1], *out = p->outputs.at[output];
    for (int j = 0; j < in->rank; j++)
        if (dim_equal(in->dims[j], out->dims[j]) != TRI_YES) return j;
    return -1;
}

int64_t state_room(const program *p, int output) {
    int axis = state_axis(p, output);
    return axis < 0 ? 0 : p->inputs.at[p->state[output] - 1]->dims[axis]->max;
}

const char *state_full_message(const program *p, int output) {
    return arena_printf(p->arena, "state '%s' would have more than %lld elements along axis %d",
                        p->inputs.at[p->state[output] - 1]->name, (long long)state_room(p, output),
                        state_axis(p, output));
}

// ---------------------------------------------------------------- steps
step *step_insert(program *p, region *r, int at, step_kind kind, const loc *where) {
    step *s = ARENA_NEW(p->arena, step);
    s->kind = kind;
    s->loc = where;
    VEC_PUSH(p->arena, &r->steps, s);
    memmove(r->steps.at + at + 1, r->steps.at + at, (size_t)(r->steps.n - 1 - at) * sizeof *r->steps.at);
    return r->steps.at[at] = s;
}

step *step_new(program *p, region *r, step_kind kind, const loc *at) {
    return step_insert(p, r, r->steps.n, kind, at);
}

step *insert_kernel(program *p, region *r, int at, kernel *k) {
    step *s = step_insert(p, r, at, STEP_KERNEL, k->loc);
    s->kernel = k;
    return s;
}

step *step_kernel(program *p, region *r, kernel *k) { return insert_kernel(p, r, r->steps.n, k); }

int step_index(const region *r, const step *s) {
    int at = 0;
    while (r->steps.at[at] != s) at++;
    return at;
}

void step_branch(program *p, step *s, dim *condition) {
    for (int j = 0; j < 2; j++) s->body[j] = ARENA_NEW(p->arena, region);
    s->kind = STEP_IF, s->kernel = NULL, s->dim = condition;
}

step *step_library(program *p, region *r, const char *lib, const loc *at, int nwritten, int nargs,
                   int nnumbers) {
    step *s = step_new(p, r, STEP_LIB, at);
    s->lib = lib;
    s->nwritten = nwritten, s->nargs = nargs, s->nnumbers = nnumbers;
    s->args = ARENA_ARRAY(p->arena, buffer *, nargs + 1);
    s->numbers = ARENA_ARRAY(p->arena, dim *, nnumbers + 1);
    return s;
}

const char *check_compares(const step *s) {
    const dim *a = s->dim->a;
    if (s->dim->kind != DIM_EQ || (a->min >= 0 && a->max <= 1)) return NULL; // a truth value
    return dim_is_const(s->dim->b) ? ", not " : " and ";
}

static bool is_whole_call(const step *s) {
    for (int j = 0; j < s->nnumbers; j++)
        if (!s->numbers[j]) return false;
    return s->lib && s->nwritten <= s->nargs && (!s->nargs || s->args);
}

static void list_region(arena *a, step_list *list, region *r, int depth) {
    for (int j = 0; j < r->steps.n; j++) {
        step *s = r->steps.at[j];
        VEC_PUSH(a, list, (step_site){s, r, j, depth});
        for (int b = 0; b < 2; b++)
            if (s->body[b]) list_region(a, list, s->body[b], depth + 1);
    }
}

step_list program_steps(arena *a, const program *p) {
    step_list list = {0};
    list_region(a, &list, p->main, 0);
    return list;
}

static void verify_memory(const program *p) {
    arena *scratch = arena_within(p->arena);
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        const step *def = u->of[j].sites.n ? u->of[j].sites.at[0]->s : NULL;
        if (b->role != BUF_HEAP || !def || def->kind == STEP_ALLOC) continue;
        if (def->kind != STEP_MOVE || buffer_root(def->buffer) != b)
            diag_defect(p->diag, def->loc, "'%s' is used before it is allocated", b->name);
    }
    arena_destroy(scratch);
}

static void verify_step(const program *p, const step *s) {
    bool ok = true;
    switch (s->kind) {
    case STEP_KERNEL:
        ok = s->kernel != NULL;
        if (ok) kernel_verify(s->kernel, p->diag);
        break;
    case STEP_CHECK: ok = s->dim && s->message; break;
    case STEP_SET_DIM: ok = s->target && s->target->kind == DIM_OPAQUE && (s->dim || s->buffer); break;
    case STEP_ALLOC:
    case STEP_FREE: ok = s->buffer && s->buffer->role == BUF_HEAP; break;
    case STEP_COPY: ok = s->buffer && s->from && s->buffer->dtype == s->from->dtype; break;
    case STEP_MOVE:
        ok = s->buffer && s->from && s->buffer->role == BUF_HEAP && s->from->role == BUF_HEAP;
        break;
    case STEP_IF: ok = (s->buffer || s->dim) && s->body[0] && s->body[1]; break;
    case STEP_LOOP: ok = s->target && s->body[0]; break;
    case STEP_LIB: ok = is_whole_call(s); break;
    }
    if (!ok) diag_defect(p->diag, s->loc, "program step %d is malformed", (int)s->kind);
}

void program_verify(program *p) {
    arena *scratch = arena_within(p->arena);
    step_list steps = program_steps(scratch, p);
    for (int j = 0; j < steps.n; j++) verify_step(p, steps.at[j].s);
    arena_destroy(scratch);
    verify_memory(p);
}
