// Fusion: turns a program with one or more kernels per node into fewer, larger kernels. This file has the
// shared legality checks: def-use questions, moving kernels, names. The table in compiler/driver/pipeline.c
// lists the order of the passes.
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/passes.h"
#include <string.h>

// ---------------------------------------------------------------- questions
// Packed elements of bytes.
static bool is_packed_view(const buffer *b) {
    return dtype_class_of(b->dtype) == DC_UINT && dtype_bits(b->dtype) < dtype_bits(buffer_root(b)->dtype);
}

// Complex numbers, strings, buffers with a layout, and views of another type that is not packed in it.
static bool is_odd(const buffer *b) {
    return dtype_class_of(b->dtype) == DC_COMPLEX || b->dtype == DT_STRING || b->layout ||
           (b->role != BUF_LOCAL && b->dtype != buffer_root(b)->dtype && !is_packed_view(b));
}
bool is_fixed(const site *at) {
    bool odd = false;
    for (int j = 0; j < at->accessed.n; j++) odd |= is_odd(at->accessed.at[j]);
    for (int j = 0; j < at->s->kernel->locals.n; j++) odd |= is_odd(at->s->kernel->locals.at[j]);
    return odd;
}

site *sole_writer(fuse *f, const buffer *b) {
    if (b->role != BUF_TEMP && b->role != BUF_HEAP) return NULL;
    site *found = NULL;
    const site_list *l = &f->uses->of[b->id].sites;
    for (int j = 0; j < l->n; j++) {
        site *at = l->at[j];
        if (at->s->kind == STEP_ALLOC || at->s->kind == STEP_FREE || !site_writes(at, b)) continue;
        if (at->s->kind != STEP_KERNEL || found) return NULL;
        found = at;
    }
    return found && !is_fixed(found) && !site_reads(found, b) ? found : NULL;
}

// Whether a step of the region contains it, at any depth, or is it.
static bool is_within(const site *at, const region *r) {
    while (at && at->region != r) at = at->owner;
    return at != NULL;
}

int readers_of(fuse *f, const site *writer, const buffer *b, bool inner, site **out) {
    const site_list *l = &f->uses->of[b->id].sites;
    int n = 0;
    if (l->n > 8 * MOST_READERS) return -1;
    for (int j = 0; j < l->n; j++) {
        site *at = l->at[j];
        if (!site_reads(at, b)) continue;
        bool reachable = inner ? is_within(at, writer->region) : at->region == writer->region;
        if (at->s->kind != STEP_KERNEL || n == MOST_READERS || is_fixed(at) || !reachable ||
            at->time <= writer->time)
            return -1;
        out[n++] = at;
    }
    return n;
}

bool read_elsewhere(fuse *f, const buffer *b, const site *but) {
    const site_list *l = &f->uses->of[b->id].sites;
    bool read = f->uses->of[b->id].output || b->role == BUF_OUTPUT;
    for (int j = 0; j < l->n && !read; j++) read = l->at[j] != but && site_reads(l->at[j], b);
    return read;
}

// Steps in nested regions between the two count as well.
static bool is_between(const site *at, const site *a, const site *b) {
    return at->time > a->time && at->time < b->time;
}
static bool used_between(const fuse *f, const buffer *root, const site *a, const site *b,
                         bool (*uses)(const site *at, const buffer *root)) {
    const site_list *l = &f->uses->of[root->id].sites;
    for (int j = 0; j < l->n; j++)
        if (is_between(l->at[j], a, b) && uses(l->at[j], root)) return true;
    return false;
}

static bool kernel_uses_dim(const kernel *k, const dim *target) {
    bool found = false;
    arena *scratch = arena_new();
    dim_list used = kernel_dims(scratch, k);
    for (int j = 0; j < used.n && !found; j++) found = dim_has_atom(used.at[j], target);
    arena_destroy(scratch);
    return found;
}

bool reads_constants(const site *at) {
    for (int j = 0; j < at->reads.n; j++)
        if (at->reads.at[j]->role != BUF_CONST) return false;
    return true;
}

// Whether a kernel between the two updates a part of the state that the input is: its memory is that of the input.
static bool updated_between(const fuse *f, const buffer *in, const site *a, const site *b) {
    const program *p = f->p;
    for (int j = 0; p->state && in->role == BUF_INPUT && j < p->outputs.n; j++) {
        const buffer *out = p->outputs.at[j];
        if (p->state[j] != in->io + 1 || state_axis(p, j) >= 0) continue;
        const site_list *l = &f->uses->of[out->id].sites;
        int writers = 0;
        for (int i = 0; i < l->n; i++) writers += site_writes(l->at[i], out);
        return writers > 1 && used_between(f, out, a, b, site_writes);
    }
    return false;
}

bool can_compute_later(fuse *f, const site *a, const site *b) {
    if (a->time >= b->time || !a->s->kernel) return false;
    if (a->region != b->region && !(reads_constants(a) && is_within(b, a->region))) return false;
    for (int j = 0; j < a->reads.n; j++)
        if (site_writes(b, a->reads.at[j]) || used_between(f, a->reads.at[j], a, b, site_writes) ||
            updated_between(f, a->reads.at[j], a, b))
            return false;
    for (int j = 0; j < f->sets.n; j++) {
        const site *set = f->sets.at[j];
        if (is_between(set, a, b) && kernel_uses_dim(a->s->kernel, set->s->target)) return false;
    }
    return true;
}

bool can_move_down(fuse *f, const site *a, const site *b) {
    for (int j = 0; j < a->writes.n; j++)
        if (used_between(f, a->writes.at[j], a, b, site_touches)) return false;
    return can_compute_later(f, a, b);
}

// ---------------------------------------------------------------- changes
void fuse_changed(fuse *f, site *at) {
    f->changed = true;
    uses_update(f->uses, at);
}

void fuse_removed(fuse *f, site *at) {
    at->s->kernel = NULL;
    fuse_changed(f, at);
}

// "Conv_conv1" and "Relu_relu1" become "Conv_conv1_Relu".
void merge_names(kernel *into, const kernel *head, const kernel *tail) {
    size_t n = strlen(head->name), op = strcspn(tail->name, "_");
    const char *name = head->name;
    if (n + op + 1 <= MOST_NAME) name = arena_printf(into->arena, "%s_%.*s", head->name, (int)op, tail->name);
    const loc **nodes = ARENA_ARRAY(into->arena, const loc *, head->nodes.n + tail->nodes.n + 1);
    int count = 0;
    for (int j = 0; j < head->nodes.n; j++) nodes[count++] = head->nodes.at[j];
    for (int j = 0; j < tail->nodes.n; j++) {
        bool known = false;
        for (int i = 0; i < head->nodes.n && i < 64 && !known; i++)
            known = head->nodes.at[i] == tail->nodes.at[j];
        if (!known) nodes[count++] = tail->nodes.at[j];
    }
    into->loc = head->loc;
    into->name = name;
    into->nodes.at = nodes, into->nodes.n = into->nodes.cap = count;
}

bool small_enough(const kernel *k) {
    arena *scratch = arena_new();
    expr_list nodes = kernel_nodes(scratch, k, PART_ALL);
    buffer_list read = {0};
    for (int j = 0; j < nodes.n && nodes.n <= MOST_NODES && read.n <= MOST_BUFFERS; j++)
        if (nodes.at[j]->op == X_READ) buffer_list_add(scratch, &read, nodes.at[j]->buffer);
    arena_destroy(scratch);
    return nodes.n <= MOST_NODES && read.n <= MOST_BUFFERS && k->stages.n <= MOST_STAGES;
}

// ---------------------------------------------------------------- literals
static bool literal_value(const expr *e, expr **const index, int64_t *at) {
    const constant *c = e->buffer->data;
    if (!c || e->buffer->role != BUF_CONST || c->kind == CONST_STRINGS || c->count == 0) return false;
    dtype_class class = dtype_class_of(c->elem);
    if (class == DC_COMPLEX || class == DC_STRING || c->elem != e->buffer->dtype) return false;
    *at = 0;
    if (c->count == 1 || c->kind == CONST_SPLAT) return true;
    if (e->buffer->view_of || c->kind != CONST_BYTES) return false;
    for (int j = 0; j < e->buffer->rank; j++) {
        if (index[j]->op != X_CONST || index[j]->i < 0 || index[j]->i >= c->dims[j]) return false;
        *at = *at * c->dims[j] + index[j]->i;
    }
    return true;
}

// Elements of a constant as the integers first + by[0] * index[0] + ...; dims of which the index is known count as one position.
typedef struct progression {
    int64_t first, by[MAX_RANK];
    int64_t at, stride[MAX_RANK], size[MAX_RANK]; // of the elements
} progression;

static bool begin_progression(const constant *c, expr *const *index, progression *r) {
    int64_t stride = 1;
    bool varies = false;
    if (c->kind != CONST_BYTES || (c->elem != DT_I64 && c->elem != DT_I32) || !c->count) return false;
    for (int d = c->rank - 1; d >= 0; d--) {
        bool known = index[d]->op == X_CONST;
        if (known && (index[d]->i < 0 || index[d]->i >= c->dims[d])) return false;
        r->stride[d] = stride, r->size[d] = known ? 1 : c->dims[d];
        if (known) r->at += index[d]->i * stride;
        varies |= r->size[d] > 1;
        stride *= c->dims[d];
    }
    r->first = constant_int(c, r->at);
    for (int d = 0; d < c->rank; d++)
        if (r->size[d] > 1 &&
            __builtin_sub_overflow(constant_int(c, r->at + r->stride[d]), r->first, &r->by[d]))
            return false;
    return varies;
}

static bool is_progression(const constant *c, const progression *r) {
    int64_t i[MAX_RANK] = {0}, at = r->at;
    while (true) {
        int64_t want = r->first, part;
        for (int d = 0; d < c->rank; d++)
            if (__builtin_mul_overflow(i[d], r->by[d], &part) || __builtin_add_overflow(want, part, &want))
                return false;
        if (constant_int(c, at) != want) return false;
        int d = c->rank - 1;
        for (; d >= 0 && ++i[d] == r->size[d]; d--) at -= (r->size[d] - 1) * r->stride[d], i[d] = 0;
        if (d < 0) return true;
        at += r->stride[d];
    }
}

static expr *literal(cloning *g, const expr *e, expr **index) {
    const constant *c = e->buffer->data;
    int64_t at;
    if (literal_value(e, index, &at)) {
        dtype t = dtype_compute(c->elem);
        return dtype_is_float(t) ? x_float(g->to, t, constant_float(c, at))
                                 : x_int(g->to, t, constant_int(c, at));
    }
    bool plain = c && e->buffer->role == BUF_CONST && !e->buffer->view_of && c->elem == e->buffer->dtype;
    progression r = {0};
    if (!plain || !begin_progression(c, index, &r) || !is_progression(c, &r)) return NULL;
    expr *v = x_i64(g->to, r.first);
    for (int d = c->rank - 1; d >= 0; d--)
        if (r.by[d]) v = x_add(g->to, x_mul(g->to, index[d], x_i64(g->to, r.by[d])), v);
    return x_cast(g->to, v, c->elem, false);
}

static expr *read_literal(cloning *g, const expr *e, expr **index, expr *guard, expr *fill) {
    expr *v = literal(g, e, index);
    if (!v) return NULL;
    return guard ? x_select(g->to, guard, v, fill ? fill : x_zero(g->to, v->dtype)) : v;
}

void clone_all(cloning *g) {
    for (int j = 0; j < g->from->stages.n; j++) {
        stage *s = clone_stage(g, g->from->stages.at[j]);
        for (int i = 0; i < g->from->stages.at[j]->writes.n; i++)
            clone_write(g, s, &g->from->stages.at[j]->writes.at[i]);
    }
}

static void remake_with_literals(kernel *k) {
    arena *scratch = arena_new();
    cloning *g = clone_same(scratch, k, kernel_begin(k));
    g->read = read_literal;
    clone_all(g);
    arena_destroy(scratch);
    free_order(k);
}

static void fuse_literals(fuse *f) {
    for (int j = 0; j < f->order.n; j++) {
        const site *at = f->order.at[j];
        bool constants = false;
        for (int i = 0; i < at->reads.n; i++) constants |= at->reads.at[i]->role == BUF_CONST;
        if (constants && !is_fixed(at)) remake_with_literals(at->s->kernel);
    }
}

// ---------------------------------------------------------------- the passes
static fuse fuse_begin(program *p, bool strict, bool late) {
    fuse f = {.p = p, .strict = strict, .arena = arena_new(), .late = late};
    f.uses = uses_build(f.arena, p);
    for (int j = 0; j < f.uses->n; j++) {
        site *at = &f.uses->sites[j];
        if (at->s->kind == STEP_KERNEL) VEC_PUSH(f.arena, &f.order, at);
        if (at->s->kind == STEP_SET_DIM || at->s->kind == STEP_LOOP) VEC_PUSH(f.arena, &f.sets, at);
    }
    return f;
}

static void run(pass_context *c, bool late, void (*part)(fuse *f)) {
    program *p = c->program;
    fuse f = fuse_begin(p, c->target && c->target->fp == FP_STRICT, late);
    f.bare = c->target && c->target->freestanding;
    f.sums_bytes = c->target && !c->target->arch.is_gpu && !f.strict;
    f.factor_bits = c->target && sums_halves(c->target) ? 16 : 8;
    part(&f);
    c->changed = f.changed;
    if (f.changed) {
        eliminate_dead_code(p);
        program_compact(p);
    }
    arena_destroy(f.arena);
}

void pass_constants(pass_context *c) { run(c, false, fuse_constants); }
void pass_late_constants(pass_context *c) { run(c, true, fuse_constants); }
void pass_literals(pass_context *c) { run(c, false, fuse_literals); }
void pass_merge_concats(pass_context *c) { merge_concats(c->program); }
void pass_merge_updates(pass_context *c) { merge_updates(c->program); }
void pass_merge_parts(pass_context *c) { merge_parts(c->program); }
void pass_early_carried(pass_context *c) { merge_carried(c->program, false); }
void pass_late_carried(pass_context *c) { merge_carried(c->program, true); }
void pass_dead_code(pass_context *c) {
    eliminate_dead_code(c->program);
    program_compact(c->program);
}
void pass_early_epilogue(pass_context *c) { run(c, false, fuse_epilogue); }
void pass_early_inline(pass_context *c) { run(c, false, fuse_inline); }
void pass_early_rows(pass_context *c) { run(c, false, fuse_rows); }
void pass_early_attention(pass_context *c) { run(c, false, fuse_chains); }
void pass_late_epilogue(pass_context *c) { run(c, true, fuse_epilogue); }
void pass_late_inline(pass_context *c) { run(c, true, fuse_inline); }
void pass_late_rows(pass_context *c) { run(c, true, fuse_rows); }
void pass_late_attention(pass_context *c) { run(c, true, fuse_chains); }
void pass_phases(pass_context *c) {
    if (c->target->freestanding) run(c, true, fuse_phases);
}
void pass_reciprocal(pass_context *c) { run(c, true, fuse_divide); }

// Half floats are computed as f32 within a kernel; other small types must be representable.
expr *as_stored(const fuse *f, kernel *k, expr *value, dtype t) {
    if (dtype_compute(t) == t || (value->op == X_READ && value->buffer->dtype == t)) return value;
    if ((t == DT_F16 || t == DT_BF16) && !f->strict) return value;
    // Like a store: the cast that made a float8 decided on saturation.
    return dtype_is_float(t) ? x_round_to(k, value, t, dtype_bits(t) != 8) : x_cast(k, value, t, true);
}
