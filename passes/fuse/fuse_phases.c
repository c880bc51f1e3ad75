// Epilogues of values that several kernels write, such as the phases of a transposed convolution: a pointwise stage that reads
// all of it goes into each of them. For products of bytes on bare machines, for whose memory an image of floats before its bytes
// is large; of floats, the code of each phase would grow.
//
//   T[i, 2 j] = f(i, j)                       y[i, 2 j] = g(f(i, j))
//   T[i, 2 j + 1] = h(i, j)            =>     y[i, 2 j + 1] = g(h(i, j))
//   y[i, k] = g(T[i, k])
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/match/contract.h"

typedef struct phases {
    fuse *f;
    site *reader;
    stage *s;           // of the reader
    buffer *image;      // T
    int axis[MAX_RANK]; // of the reader, by dim of T; -1: T has one position
    site *writer[MOST_READERS];
    int nwriters;
    expr *value; // of the writer that is being rewritten
} phases;

// ---------------------------------------------------------------- matching
static bool is_open(const kernel *k) {
    arena *scratch = arena_new();
    dim_list dims = kernel_dims(scratch, k);
    bool open = false;
    for (int j = 0; j < dims.n; j++) open |= !dim_is_const(dims.at[j]);
    arena_destroy(scratch);
    return open;
}

static write *only_write(const kernel *k) {
    write_list all = kernel_write_list(k);
    return all.n == 1 && write_is_plain(all.at[0]) ? all.at[0] : NULL;
}

static bool multiplies_bytes(const kernel *k) {
    enum { BYTE = 8 };
    contraction c;
    return contraction_find(k, &c) && dtype_bits(c.a->buffer->dtype) <= BYTE &&
           dtype_bits(c.b->buffer->dtype) <= BYTE;
}

static bool add_writer(phases *p, site *at) {
    const write *w = at->s->kind == STEP_KERNEL && at->s->kernel ? only_write(at->s->kernel) : NULL;
    bool fits = w && w->to == p->image && at->region == p->reader->region && at->time < p->reader->time &&
                p->nwriters < MOST_READERS;
    if (!fits || is_fixed(at) || !multiplies_bytes(at->s->kernel) || is_open(at->s->kernel)) return false;
    p->writer[p->nwriters++] = at;
    return true;
}

static bool find_writers(phases *p) {
    const buffer_uses *u = &p->f->uses->of[p->image->id];
    p->nwriters = 0;
    if (p->image->role != BUF_TEMP || p->image->view_of || u->viewed || u->by_others || u->output ||
        (p->image->dtype != DT_F32 && p->image->dtype != DT_I32))
        return false;
    for (int j = 0; j < u->sites.n; j++)
        if (u->sites.at[j] != p->reader && !add_writer(p, u->sites.at[j])) return false;
    return p->nwriters > 1;
}

// Whether the read is of the whole image, position by position.
static bool takes_axes(phases *p, const expr *read) {
    const kernel *k = p->reader->s->kernel;
    for (int d = 0; d < p->image->rank; d++) {
        const expr *at = read->index[d];
        p->axis[d] = at->op == X_AXIS ? at->axis : -1;
        if (at->op != X_AXIS && !(dim_is(p->image->dims[d], 1) && expr_is_int(at, 0))) return false;
        if (at->op == X_AXIS &&
            (k->axes.at[at->axis].extent != p->image->dims[d] || k->axes.at[at->axis].kind != AXIS_PARALLEL))
            return false;
        for (int i = 0; i < d; i++)
            if (at->op == X_AXIS && p->axis[i] == at->axis) return false;
    }
    return !read->guard;
}

static bool is_axis_of_image(const phases *p, int axis) {
    for (int d = 0; d < p->image->rank; d++)
        if (p->axis[d] == axis) return true;
    return dim_is(p->reader->s->kernel->axes.at[axis].extent, 1);
}

// Whether b has the same contents, and nobody wants other ones, when the first writer runs.
static bool stays(const phases *p, const buffer *b, bool written) {
    const site_list *l = &p->f->uses->of[buffer_root(b)->id].sites;
    int first = p->reader->time;
    for (int j = 0; j < p->nwriters; j++)
        if (p->writer[j]->time < first) first = p->writer[j]->time;
    for (int j = 0; j < l->n; j++) {
        const site *at = l->at[j];
        bool between = at->time >= first && at->time < p->reader->time;
        if (between && (written ? site_touches(at, buffer_root(b)) : site_writes(at, buffer_root(b))))
            return false;
    }
    return b->role != BUF_LOCAL && b->role != BUF_HEAP;
}

// Whether the stage is a function of the image's elements, and of what there was before the writers.
static bool is_epilogue(phases *p) {
    const kernel *k = p->reader->s->kernel;
    const stage *s = p->s;
    expr_list reads = reads_only(stage_nodes(p->f->arena, s, PART_ALL));
    bool found = false;
    if (s->states.n || s->writes.n != 1 || !write_is_plain(&s->writes.at[0]) || stage_any(s, expr_is_check))
        return false;
    for (int j = 0; j < reads.n; j++) {
        const buffer *b = reads.at[j]->buffer;
        if (b == p->image ? !takes_axes(p, reads.at[j]) : b->role != BUF_CONST && !stays(p, b, false))
            return false;
        found |= b == p->image;
    }
    for (int j = 0; j < k->nouter && found; j++) found = is_axis_of_image(p, j);
    for (int j = 0; j < s->axes.n && found; j++) found = is_axis_of_image(p, s->axes.at[j]);
    return found && stays(p, s->writes.at[0].to, true);
}

// The positions [*from, *to) of an axis plus a constant; false: another index.
static bool range_of(const kernel *k, const expr *e, int64_t *from, int64_t *to) {
    const expr *axis = e->op == X_ADD && e->arg[1]->op == X_CONST ? e->arg[0] : e;
    *from = axis != e ? e->arg[1]->i : 0;
    if (axis->op != X_AXIS) return false;
    *to = *from + dim_value(k->axes.at[axis->axis].extent);
    return true;
}

static bool are_apart(const kernel *k, const write *x, const write *y) {
    int64_t from[2], to[2];
    for (int d = 0; d < x->to->rank; d++)
        if (range_of(k, x->index[d], &from[0], &to[0]) && range_of(k, y->index[d], &from[1], &to[1]) &&
            (to[0] <= from[1] || to[1] <= from[0]))
            return true;
    return false;
}

// Other stages of the reader neither read the image nor touch the elements that the stage writes.
static bool is_alone(const phases *p) {
    const kernel *k = p->reader->s->kernel;
    const write *w = &p->s->writes.at[0];
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        if (s == p->s) continue;
        expr_list reads = reads_only(stage_nodes(p->f->arena, s, PART_ALL));
        for (int i = 0; i < reads.n; i++)
            if (reads.at[i]->buffer == p->image || buffer_root(reads.at[i]->buffer) == buffer_root(w->to))
                return false;
        for (int i = 0; i < s->writes.n; i++)
            if (buffer_root(s->writes.at[i].to) == buffer_root(w->to) &&
                !(s->writes.at[i].to == w->to && are_apart(k, w, &s->writes.at[i])))
                return false;
    }
    return true;
}

// ---------------------------------------------------------------- rewriting
static expr *as_value(void *user, kernel *k, const expr *read) {
    const phases *p = user;
    (void)k;
    return read->buffer == p->image ? p->value : NULL;
}

static void rewrite(phases *p, site *at) {
    kernel *k = at->s->kernel;
    write *w = only_write(k);
    const write *old = &p->s->writes.at[0];
    expr **axis = ARENA_ARRAY(p->f->arena, expr *, p->reader->s->kernel->axes.n + 1), *index[MAX_RANK];
    for (int j = 0; j < p->reader->s->kernel->axes.n; j++) axis[j] = x_i64(k, 0);
    for (int d = 0; d < p->image->rank; d++)
        if (p->axis[d] >= 0) axis[p->axis[d]] = w->index[d];
    p->value = w->value;
    w->value = expr_rewrite_reads(k, expr_substitute(k, old->value, axis, NULL), as_value, p);
    for (int d = 0; d < old->to->rank; d++) index[d] = expr_substitute(k, old->index[d], axis, NULL);
    w->index = ARENA_ARRAY(p->f->p->arena, expr *, old->to->rank + 1);
    for (int d = 0; d < old->to->rank; d++) w->index[d] = index[d];
    w->to = old->to;
    merge_names(k, k, p->reader->s->kernel);
    fuse_changed(p->f, at);
}

static void drop_stage(phases *p) {
    kernel *k = p->reader->s->kernel;
    int n = 0;
    for (int j = 0; j < k->stages.n; j++)
        if (k->stages.at[j] != p->s) k->stages.at[n++] = k->stages.at[j];
    k->stages.n = n;
    if (n) fuse_changed(p->f, p->reader);
    else fuse_removed(p->f, p->reader);
}

static bool join_stage(fuse *f, site *reader, stage *s) {
    expr_list reads = reads_only(stage_nodes(f->arena, s, PART_VALUE));
    for (int j = 0; j < reads.n; j++) {
        phases p = {.f = f, .reader = reader, .s = s, .image = reads.at[j]->buffer};
        if (!find_writers(&p) || !is_epilogue(&p) || !is_alone(&p)) continue;
        for (int i = 0; i < p.nwriters; i++) rewrite(&p, p.writer[i]);
        drop_stage(&p);
        return true;
    }
    return false;
}

void fuse_phases(fuse *f) {
    for (int j = 0; j < f->order.n; j++) {
        site *at = f->order.at[j];
        if (!at->s->kernel || is_fixed(at) || is_open(at->s->kernel)) continue;
        for (int i = 0; at->s->kernel && i < at->s->kernel->stages.n; i++)
            if (join_stage(f, at, at->s->kernel->stages.at[i])) i--;
    }
}
