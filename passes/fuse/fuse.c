// Fusion: a program of kernels, one or more for each node, becomes one of fewer and larger kernels.
//
//   literals, growing concatenations, dead kernels
//   until nothing changes: epilogue, inline, rows   (kernels that only move data stay, to be read through)
//   until nothing changes: the same, with arithmetic also inlined into kernels that only move data
#include "passes/fuse/fuse_impl.h"
#include <string.h>

buffer *root_of(const buffer *b) { return (buffer *)buffer_root(b); }

// ---------------------------------------------------------------- who touches a buffer where
typedef struct frame { // the regions around a step, inner ones first
    struct frame *out;
    step *s;
    int region, position;
} frame;

static void record(fuse *f, touch_list *lists, const buffer *b, const frame *at) {
    if (!b) return;
    bool inside = false;
    for (; at; at = at->out, inside = true)
        VEC_PUSH(f->arena, &lists[root_of(b)->id], (touch){at->s, at->region, at->position, inside});
}

typedef struct find_buffers {
    fuse *f;
    buffer **list;
    int n;
    uint8_t *seen; // by root id
    bool complex;
} find_buffers;

static void add_buffer(find_buffers *b, const buffer *x) {
    b->complex |= dtype_class_of(x->dtype) == DC_COMPLEX || x->dtype == DT_STRING || x->layout;
    b->complex |= x->role != BUF_LOCAL && x->dtype != root_of(x)->dtype; // the same bits as another type
    if (x->role == BUF_LOCAL) return;
    buffer *root = root_of(x);
    for (int j = 0; j < b->n; j++)
        if (b->list[j] == root) return;
    b->list = arena_grow(b->f->arena, b->list, (size_t)b->n * sizeof *b->list,
                         (size_t)(b->n + 1) * sizeof *b->list);
    b->list[b->n++] = root;
}
static void add_read(void *user, expr *e) {
    if (e->op == X_READ) add_buffer(user, e->buffer);
}

static void look_at_kernel(fuse *f, const kernel *k, place *at) {
    find_buffers reads = {.f = f}, writes = {.f = f};
    kernel_each(k, add_read, &reads);
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->writes.n; i++) {
            const write *w = &k->stages.at[j]->writes.at[i];
            add_buffer(&writes, w->to);
            if (w->combine != COMBINE_SET) add_buffer(&reads, w->to);
        }
    at->reads = reads.list, at->nreads = reads.n;
    at->writes = writes.list, at->nwrites = writes.n;
    at->fixed = reads.complex || writes.complex;
}

static void record_kernel(fuse *f, const place *at, const frame *in) {
    for (int j = 0; j < at->nreads; j++) record(f, f->reads, at->reads[j], in);
    for (int j = 0; j < at->nwrites; j++) record(f, f->writes, at->writes[j], in);
}

static void record_region(fuse *f, region *r, frame *out, int *regions);

static void record_step(fuse *f, step *s, frame *in, int *regions) {
    switch (s->kind) {
    case STEP_KERNEL: {
        place *at = &f->at[s->kernel->id];
        *at = (place){.s = s, .region = in->region, .position = in->position};
        look_at_kernel(f, s->kernel, at);
        record_kernel(f, at, in);
        VEC_PUSH(f->arena, &f->order, at);
        break;
    }
    case STEP_SET_DIM:
        record(f, f->reads, s->buffer, in);
        for (frame *fr = in; fr; fr = fr->out)
            VEC_PUSH(f->arena, &f->sets, (dim_set){fr->region, fr->position, s->target});
        break;
    case STEP_IF: record(f, f->reads, s->buffer, in); break;
    case STEP_LOOP:
        record(f, f->reads, s->buffer, in);
        for (frame *fr = in; fr; fr = fr->out)
            VEC_PUSH(f->arena, &f->sets, (dim_set){fr->region, fr->position, s->target});
        break;
    case STEP_COPY:
    case STEP_MOVE:
        record(f, f->reads, s->from, in);
        record(f, f->writes, s->buffer, in);
        if (s->kind == STEP_MOVE) record(f, f->writes, s->from, in);
        break;
    case STEP_LIB:
        for (int j = 0; j < s->nargs; j++)
            if (s->args[j]) record(f, j < s->nwritten ? f->writes : f->reads, s->args[j], in);
        break;
    case STEP_FREE: record(f, f->writes, s->buffer, in); break;
    case STEP_CHECK:
    case STEP_ALLOC: break;
    }
    for (int b = 0; b < 2; b++)
        if (s->body[b]) record_region(f, s->body[b], in, regions);
}

static void record_region(fuse *f, region *r, frame *out, int *regions) {
    int number = (*regions)++;
    for (int j = 0; j < r->steps.n; j++) {
        frame in = {out, r->steps.at[j], number, j};
        record_step(f, r->steps.at[j], &in, regions);
    }
}

static fuse look_at(program *p, const fuse_options *o, bool late) {
    fuse f = {.p = p, .o = o, .arena = arena_new(), .late = late};
    f.reads = ARENA_ARRAY(f.arena, touch_list, p->buffers.n + 1);
    f.writes = ARENA_ARRAY(f.arena, touch_list, p->buffers.n + 1);
    f.output = ARENA_ARRAY(f.arena, bool, p->buffers.n + 1);
    f.at = ARENA_ARRAY(f.arena, place, p->kernels.n + 1);
    for (int j = 0; j < p->outputs.n; j++) f.output[root_of(p->outputs.at[j])->id] = true;
    int regions = 0;
    record_region(&f, p->main, NULL, &regions);
    return f;
}

// ---------------------------------------------------------------- questions
static bool gone(const touch *t) { return t->s->kind == STEP_KERNEL && !t->s->kernel; }
static place *place_of(fuse *f, const touch *t) {
    return t->s->kind == STEP_KERNEL && t->s->kernel ? &f->at[t->s->kernel->id] : NULL;
}

bool lists_buffer(buffer *const *list, int n, const buffer *b) {
    for (int j = 0; j < n; j++)
        if (list[j] == b) return true;
    return false;
}

place *sole_writer(fuse *f, const buffer *b) {
    if (b->role != BUF_TEMP && b->role != BUF_HEAP) return NULL;
    place *found = NULL;
    const touch_list *w = &f->writes[b->id];
    for (int j = 0; j < w->n; j++) {
        const touch *t = &w->at[j];
        if (gone(t) || t->inside || t->s->kind == STEP_FREE) continue;
        place *at = place_of(f, t);
        if (!at || (found && at != found)) return NULL;
        if (lists_buffer(at->writes, at->nwrites, b)) found = at;
    }
    return found && !found->fixed && !lists_buffer(found->reads, found->nreads, b) ? found : NULL;
}

static bool has_place(place *const *list, int n, const place *p) {
    for (int j = 0; j < n; j++)
        if (list[j] == p) return true;
    return false;
}

int readers_of(fuse *f, const place *writer, const buffer *b, place **out) {
    const touch_list *r = &f->reads[b->id];
    int n = 0;
    if (r->n > 8 * MOST_READERS) return -1;
    for (int j = 0; j < r->n; j++) {
        const touch *t = &r->at[j];
        place *at = place_of(f, t);
        if (gone(t) || t->inside) continue;
        if (at && (has_place(out, n, at) || !lists_buffer(at->reads, at->nreads, b))) continue;
        if (!at || n == MOST_READERS || at->fixed || at->region != writer->region ||
            at->position <= writer->position)
            return -1;
        out[n++] = at;
    }
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && out[j - 1]->position > out[j]->position; j--) {
            place *t = out[j];
            out[j] = out[j - 1], out[j - 1] = t;
        }
    return n;
}

bool read_elsewhere(fuse *f, const buffer *b, const place *but) {
    if (f->output[b->id] || b->role == BUF_OUTPUT) return true;
    const touch_list *r = &f->reads[b->id];
    for (int j = 0; j < r->n; j++) {
        const touch *t = &r->at[j];
        place *at = place_of(f, t);
        if (gone(t) || t->inside || at == but || (at && !lists_buffer(at->reads, at->nreads, b))) continue;
        return true;
    }
    return false;
}

static bool touched_between(const touch_list *l, const place *a, const place *b) {
    for (int j = 0; j < l->n; j++) {
        const touch *t = &l->at[j];
        if (!gone(t) && t->region == a->region && t->position > a->position && t->position < b->position)
            return true;
    }
    return false;
}

typedef struct dim_search {
    const dim *target;
    bool found;
} dim_search;
static void match_atom(void *user, const dim *atom) {
    dim_search *s = user;
    s->found |= atom == s->target;
}
static void search_dim(dim_search *s, const dim *d) { dim_atoms(d, match_atom, s); }
static void search_expr(void *user, expr *e) {
    if (e->op == X_DIM) search_dim(user, e->dim);
    if (e->op != X_READ) return;
    for (int j = 0; j < e->buffer->rank; j++) search_dim(user, e->buffer->dims[j]);
}
static bool kernel_uses_dim(const kernel *k, const dim *target) {
    dim_search s = {target, false};
    for (int a = 0; a < k->axes.n; a++) search_dim(&s, k->axes.at[a].extent);
    for (int j = 0; j < k->stages.n && !s.found; j++)
        for (int i = 0; i < k->stages.at[j]->writes.n; i++) {
            const buffer *to = k->stages.at[j]->writes.at[i].to;
            for (int d = 0; d < to->rank; d++) search_dim(&s, to->dims[d]);
        }
    if (!s.found) kernel_each(k, search_expr, &s);
    return s.found;
}

bool can_compute_later(fuse *f, const place *a, const place *b) {
    if (a->region != b->region || a->position >= b->position || !a->s->kernel) return false;
    for (int j = 0; j < a->nreads; j++)
        if (lists_buffer(b->writes, b->nwrites, a->reads[j]) ||
            touched_between(&f->writes[a->reads[j]->id], a, b))
            return false;
    for (int j = 0; j < f->sets.n; j++) {
        const dim_set *s = &f->sets.at[j];
        if (s->region == a->region && s->position > a->position && s->position < b->position &&
            kernel_uses_dim(a->s->kernel, s->target))
            return false;
    }
    return true;
}

bool can_move_down(fuse *f, const place *a, const place *b) {
    for (int j = 0; j < a->nwrites; j++)
        if (touched_between(&f->writes[a->writes[j]->id], a, b) ||
            touched_between(&f->reads[a->writes[j]->id], a, b))
            return false;
    return can_compute_later(f, a, b);
}

// ---------------------------------------------------------------- changes
void place_update(fuse *f, place *at) {
    f->changed = true;
    look_at_kernel(f, at->s->kernel, at);
    frame in = {NULL, at->s, at->region, at->position};
    record_kernel(f, at, &in);
}

void place_remove(fuse *f, place *at) {
    f->changed = true;
    at->s->kernel = NULL;
}

static void drop_removed(region *r) {
    int n = 0;
    for (int j = 0; j < r->steps.n; j++) {
        step *s = r->steps.at[j];
        for (int b = 0; b < 2; b++)
            if (s->body[b]) drop_removed(s->body[b]);
        if (s->kind != STEP_KERNEL || s->kernel) r->steps.at[n++] = s;
    }
    r->steps.n = n;
}

// "Conv_conv1" and "Relu_relu1" make "Conv_conv1_Relu".
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

typedef struct size {
    const buffer *list[MOST_BUFFERS + 1];
    int buffers, nodes;
} size;
static void measure(void *user, expr *e) {
    size *s = user;
    s->nodes++;
    if (e->op != X_READ || s->buffers > MOST_BUFFERS) return;
    for (int j = 0; j < s->buffers; j++)
        if (s->list[j] == e->buffer) return;
    s->list[s->buffers++] = e->buffer;
}
bool small_enough(const kernel *k) {
    size s = {.nodes = 0};
    kernel_each(k, measure, &s);
    return s.nodes <= MOST_NODES && s.buffers <= MOST_BUFFERS && k->stages.n <= MOST_STAGES;
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

static expr *read_literal(graft *g, const expr *e, expr **index, expr *guard, expr *fill) {
    int64_t at;
    if (!literal_value(e, index, &at)) return NULL;
    const constant *c = e->buffer->data;
    dtype t = dtype_compute(c->elem);
    expr *v =
        dtype_is_float(t) ? x_float(g->to, t, constant_float(c, at)) : x_int(g->to, t, constant_int(c, at));
    return guard ? x_select(g->to, guard, v, fill ? fill : x_zero(g->to, t)) : v;
}

static void remake_with_literals(fuse *f, kernel *k) {
    kernel *old = kernel_begin(k);
    arena *scratch = arena_new();
    graft *g = graft_same(scratch, k, old);
    g->read = read_literal;
    for (int j = 0; j < old->stages.n; j++) {
        stage *s = graft_stage(g, old->stages.at[j]);
        for (int i = 0; i < old->stages.at[j]->writes.n; i++)
            graft_write(g, s, &old->stages.at[j]->writes.at[i]);
    }
    arena_destroy(scratch);
    (void)f;
}

void fuse_literals(fuse *f) {
    for (int j = 0; j < f->order.n; j++) {
        place *at = f->order.at[j];
        bool constants = false;
        for (int i = 0; i < at->nreads; i++) constants |= at->reads[i]->role == BUF_CONST;
        if (constants && !at->fixed) remake_with_literals(f, at->s->kernel);
    }
}

// ---------------------------------------------------------------- the pass
static bool run(program *p, const fuse_options *o, bool late, void (*part)(fuse *f)) {
    fuse f = look_at(p, o, late);
    part(&f);
    if (f.changed) {
        drop_removed(p->main);
        fuse_dead(p);
        fuse_compact(p);
    }
    arena_destroy(f.arena);
    return f.changed;
}

enum { ROUNDS = 4 };

// What a product ends with comes first, so that it is not computed again.
static bool fuse_values(program *p, const fuse_options *o, bool late) {
    bool any = false;
    for (int round = 0; round < ROUNDS; round++) {
        bool changed = run(p, o, late, fuse_epilogue);
        changed |= run(p, o, late, fuse_inline);
        if (!changed) break;
        any = true;
    }
    return any;
}

void fuse_program(program *p, const fuse_options *o) {
    run(p, o, false, fuse_literals);
    fuse_grow(p);
    fuse_dead(p);
    fuse_compact(p);
    for (int late = 0; late < 2; late++)
        for (int round = 0; round < ROUNDS; round++) {
            bool changed = fuse_values(p, o, late);
            changed |= run(p, o, late, fuse_rows);
            if (!changed) break;
        }
    run(p, o, true, fuse_literals); // places that became known
    if (!o->strict) run(p, o, true, fuse_divide);
    program_verify(p);
}
