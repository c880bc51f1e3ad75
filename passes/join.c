// Concatenations without copies: see join.h.
#include "passes/join.h"
#include "passes/fuse_impl.h"
#include "passes/memory.h"

// Who uses a buffer or its views, in the order of the program.
typedef struct usage {
    region *region; // of all steps that use it, NULL: of several
    int first, last, steps;
    bool viewed;
    bool joined; // by kernels that did not use it when they were counted
} usage;

typedef struct join {
    usage *of; // by id of the root
    region *region;
    int now;
} join;

static void note_use(void *user, buffer *b) {
    join *j = user;
    usage *u = &j->of[buffer_root(b)->id];
    if (!u->steps) u->region = j->region, u->first = j->now;
    if (u->region != j->region) u->region = NULL;
    if (u->last == j->now) return; // by the same step
    u->last = j->now;
    u->steps++;
}

// Whether a write lies outside of what the model knows of its buffer, in the halo.
static bool is_outside(const kernel *k, const write *w) {
    for (int d = 0; d < w->to->rank; d++) {
        int axis;
        dim *low;
        if (!shifted_axis(k, w->index[d], &axis, &low) || axis < 0) continue;
        dim *end = dim_add(low, k->axes.at[axis].extent);
        if (dim_less_equal(end, dim_const(k->program->dims, 0)) == TRI_YES) return true;
        if (dim_less_equal(w->to->dims[d], low) == TRI_YES) return true;
    }
    return false;
}

// A kernel that fills nothing but halos may run before or after those that write what lies inside: of what it
// uses, only what it reads counts.
static bool fills_halos(const kernel *k) {
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        for (int i = 0; i < s->writes.n; i++)
            if (!is_outside(k, &s->writes.at[i]) || kernel_reads(k, s->writes.at[i].to)) return false;
    }
    return true;
}

static void note_reads(join *j, const kernel *k) {
    buffer **all;
    int n = kernel_buffers(k, &all);
    for (int i = 0; i < n; i++)
        if (kernel_reads(k, all[i])) note_use(j, all[i]);
}

static void note_step(void *user, region *r, step *s) {
    join *j = user;
    j->region = r;
    j->now++;
    if (s->kind == STEP_KERNEL && fills_halos(s->kernel)) note_reads(j, s->kernel);
    else step_buffers(s, note_use, j);
}

// ---------------------------------------------------------------- parts
// A stage that copies all of `from` to the elements of `to` that lie `low` further along each dim.
typedef struct part {
    buffer *from, *to;
    dim *low[MAX_RANK];
} part;

static bool is_plain_temp(const buffer *b) {
    return b->role == BUF_TEMP && !b->view_of && b->space == SPACE_HOST && dtype_bits(b->dtype) >= 8;
}

// Elements that are neighbours in one are so in the other, halos aside, which only the whole may have.
static bool lies_alike(const layout *part, const layout *whole) {
    if (!part || !whole) return part == whole;
    if (part->n != whole->n || part->gap || whole->gap) return false;
    for (int j = 0; j < part->n; j++) {
        int axis = part->order[j].axis;
        if (axis != whole->order[j].axis || part->order[j].tile || whole->order[j].tile) return false;
        if (part->pad_lo[axis] || part->pad_hi[axis]) return false;
    }
    return true;
}

static bool is_part(const kernel *k, const stage *s, part *found) {
    if (s->states.n || s->writes.n != 1) return false;
    const write *w = &s->writes.at[0];
    const expr *value = w->value;
    if (w->guard || w->combine != COMBINE_SET || value->op != X_READ || value->guard) return false;
    buffer *from = value->buffer, *to = w->to;
    if (!is_plain_temp(from) || !is_plain_temp(to) || from == to) return false;
    if (from->rank != to->rank || from->dtype != to->dtype || !lies_alike(from->layout, to->layout))
        return false;
    *found = (part){from, to, {0}};
    int axis[MAX_RANK];
    for (int d = 0; d < to->rank; d++) {
        int read_axis;
        dim *none;
        if (!shifted_axis(k, w->index[d], &axis[d], &found->low[d]) ||
            !shifted_axis(k, value->index[d], &read_axis, &none))
            return false;
        if (axis[d] != read_axis || !dim_is(none, 0)) return false;
        for (int e = 0; e < d; e++)
            if (axis[e] == axis[d] && axis[d] >= 0) return false;
        dim *extent = axis[d] < 0 ? dim_const(k->program->dims, 1) : k->axes.at[axis[d]].extent;
        if (dim_equal(extent, from->dims[d]) != TRI_YES) return false;
    }
    return true;
}

// ---------------------------------------------------------------- makers
static int stages_reading(const kernel *k, const buffer *b) {
    int n = 0;
    for (int j = 0; j < k->stages.n; j++) n += stage_reads(k->stages.at[j], b);
    return n;
}

// The one kernel that makes the part, NULL: there is none, or what it makes has other uses.
static kernel *maker_of(const join *j, const region *r, int at, const part *p) {
    const usage *from = &j->of[p->from->id], *to = &j->of[p->to->id];
    if (from->region != r || from->steps != 2 || from->viewed || from->joined) return NULL;
    if (to->first != from->last) return NULL; // the whole is used before
    if (stages_reading(r->steps.at[at]->kernel, p->from) != 1) return NULL;
    for (int i = at - 1; i >= 0; i--) {
        const step *s = r->steps.at[i];
        if (s->kind != STEP_KERNEL || !kernel_writes(s->kernel, p->from)) continue;
        bool plain = !kernel_reads(s->kernel, p->from) && kernel_only_sets(s->kernel, p->from);
        return plain ? s->kernel : NULL;
    }
    return NULL;
}

static void write_part(kernel *k, const part *p) {
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->writes.n; i++) {
            write *w = &k->stages.at[j]->writes.at[i];
            if (w->to != p->from) continue;
            expr **index = ARENA_ARRAY(k->arena, expr *, p->to->rank + 1);
            for (int d = 0; d < p->to->rank; d++) index[d] = x_add(k, w->index[d], x_dim(k, p->low[d]));
            w->to = p->to;
            w->index = index;
        }
}

// ---------------------------------------------------------------- entry
static void join_kernel(const join *j, region *r, int at) {
    kernel *k = r->steps.at[at]->kernel;
    int n = 0;
    part p;
    for (int i = 0; i < k->stages.n; i++)
        if (!is_part(k, k->stages.at[i], &p)) return;
    for (int i = 0; i < k->stages.n; i++) {
        stage *s = k->stages.at[i];
        kernel *maker = is_part(k, s, &p) ? maker_of(j, r, at, &p) : NULL;
        if (!maker) {
            k->stages.at[n++] = s;
            continue;
        }
        write_part(maker, &p);
        for (int l = 0; l < k->nodes.n; l++) VEC_PUSH(maker->arena, &maker->nodes, k->nodes.at[l]);
        j->of[p.to->id].joined = true;
    }
    k->stages.n = n;
}

static void join_region(join *j, region *r) {
    for (int i = 0; i < r->steps.n; i++) {
        const step *s = r->steps.at[i];
        for (int b = 0; b < 2; b++)
            if (s->body[b]) join_region(j, s->body[b]);
        if (s->kind == STEP_KERNEL) join_kernel(j, r, i);
    }
    int n = 0;
    for (int i = 0; i < r->steps.n; i++) {
        step *s = r->steps.at[i];
        if (s->kind != STEP_KERNEL || s->kernel->stages.n) r->steps.at[n++] = s;
    }
    r->steps.n = n;
}

void join_parts(program *p) {
    arena *scratch = arena_new();
    join j = {.of = ARENA_ARRAY(scratch, usage, p->buffers.n + 1)};
    for (int i = 0; i < p->buffers.n; i++)
        if (p->buffers.at[i]->view_of) j.of[buffer_root(p->buffers.at[i])->id].viewed = true;
    program_walk(p, note_step, &j);
    join_region(&j, p->main);
    fuse_compact(p);
    arena_destroy(scratch);
}
