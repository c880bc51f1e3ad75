// Parts of a value that are taken out, updated and put back are updated where they are, as rows of a cache in a tensor with the caches
// of all layers. In: kernels after fusion. Out: the same without `part`.
//
//   part[i] = old[i, 3]
//   part[at] = x                         new[i, j] = old[i, j]
//   new[i, j] = old[i, j]                new[at, 3] = x
//   new[i, 3] = part[i]
//
// The same where `old` and `new` are one buffer, for versions of a value that are copies of all of it in another order of axes, and for
// parts of another shape, as the rows of all blocks of a paged cache.
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/match/form.h"
#include "passes/match/view.h"
#include <limits.h>

// Where the elements of a buffer are in another one: index d is low[d] + step[d] * i, where i is the index along from[d]; -1: none.
// Indices by axes of a kernel may be of several, from from[d] to last[d], that together count the positions.
typedef struct place {
    int rank, from[MAX_RANK], last[MAX_RANK];
    dim *low[MAX_RANK];
    int64_t step[MAX_RANK];
} place;

// A kernel that only copies, with both indices by axes of the kernel.
typedef struct copying {
    kernel *k;
    buffer *from, *to;
    place read, write;
} copying;

// ---------------------------------------------------------------- copies
// Adds the axes whose multiples are summed; an axis of one position counts as none.
typedef struct axis_sum {
    int n, axis[MAX_RANK];
    int64_t step[MAX_RANK];
} axis_sum;

static bool sum_axes(const kernel *k, const expr *e, axis_sum *s) {
    if (e->op == X_ADD) return sum_axes(k, e->arg[0], s) && sum_axes(k, e->arg[1], s);
    int64_t step = 1;
    if (e->op == X_MUL && e->arg[1]->op == X_CONST && e->arg[1]->i > 0) step = e->arg[1]->i, e = e->arg[0];
    if (e->op != X_AXIS || s->n == MAX_RANK) return false;
    if (dim_is(k->axes.at[e->axis].extent, 1)) return true;
    s->axis[s->n] = e->axis, s->step[s->n++] = step;
    return true;
}

// Whether the axes, each within the one before it, count positions without gaps.
static bool counts_positions(const kernel *k, const axis_sum *s) {
    for (int j = 0; j < s->n; j++) {
        const dim *inner = j + 1 < s->n ? k->axes.at[s->axis[j + 1]].extent : NULL;
        if (inner && (s->axis[j + 1] != s->axis[j] + 1 || !dim_is_const(inner))) return false;
        int64_t size = inner ? dim_value(inner) : 1, step = inner ? s->step[j + 1] : 1;
        if (size <= 0 || s->step[j] % size || s->step[j] / size != step) return false;
    }
    return true;
}

static bool is_linear(const kernel *k, const expr *e, place *p, int d) {
    axis_sum s = {0};
    p->from[d] = p->last[d] = -1, p->step[d] = 1, p->low[d] = expr_known_dim(k, e);
    if (p->low[d]) return true;
    p->low[d] = dim_const(k->program->dims, 0);
    for (int j = 0; e->op == X_ADD && j < 2; j++) {
        dim *known = expr_known_dim(k, e->arg[j]);
        if (!known) continue;
        p->low[d] = known, e = e->arg[1 - j];
        break;
    }
    if (!sum_axes(k, e, &s) || (s.n > 1 && !counts_positions(k, &s))) return false;
    if (!s.n) return true;
    p->from[d] = s.axis[0], p->last[d] = s.axis[s.n - 1], p->step[d] = s.step[s.n - 1];
    return true;
}

// In a shape of the buffer's elements.
static bool find_place(kernel *k, const buffer *b, const buffer *shape, expr *const *index, place *p) {
    const buffer *root = buffer_root(b);
    expr *at[MAX_RANK];
    if (b->role == BUF_LOCAL || root->layout || !view_index(k, b, shape, index, at)) return false;
    p->rank = shape->rank;
    for (int d = 0; d < p->rank; d++)
        if (!is_linear(k, at[d], p, d) || !dim_is_const(p->low[d])) return false;
    return true;
}

// Whether each axis of more than one position is in exactly one index.
static bool uses_each_axis(const kernel *k, const place *p) {
    uint64_t seen = 0;
    for (int d = 0; d < p->rank; d++)
        for (int a = p->from[d]; a >= 0 && a <= p->last[d]; a++) {
            if (a >= 64 || (seen >> a & 1)) return false;
            seen |= UINT64_C(1) << a;
        }
    for (int a = 0; a < k->axes.n; a++)
        if (!dim_is(k->axes.at[a].extent, 1) && (a >= 64 || !(seen >> a & 1))) return false;
    return true;
}

static bool find_copying(const site *at, copying *c) {
    kernel *k = at->s->kind == STEP_KERNEL ? at->s->kernel : NULL;
    const stage *s = k && k->stages.n == 1 && !k->nouter ? k->stages.at[0] : NULL;
    if (!s || s->states.n || s->writes.n != 1) return false;
    const write *w = &s->writes.at[0];
    const expr *x = w->value;
    if (w->combine != COMBINE_SET || w->guard || x->op != X_READ || x->guard ||
        x->buffer->dtype != w->to->dtype)
        return false;
    *c = (copying){.k = k, .from = (buffer *)buffer_root(x->buffer), .to = (buffer *)buffer_root(w->to)};
    return true;
}

// The shapes are those of the buffers, or others of the same elements.
static bool find_places(copying *c, const buffer *from, const buffer *to) {
    const write *w = &c->k->stages.at[0]->writes.at[0];
    const expr *x = w->value;
    return find_place(c->k, x->buffer, from, x->index, &c->read) &&
           find_place(c->k, w->to, to, w->index, &c->write) && uses_each_axis(c->k, &c->read) &&
           uses_each_axis(c->k, &c->write);
}

static dim *extent_along(const kernel *k, const place *p, int d) {
    dim *n = dim_const(k->program->dims, 1);
    for (int a = p->from[d]; a >= 0 && a <= p->last[d]; a++) n = dim_mul(n, k->axes.at[a].extent);
    return n;
}

// Whether the copy has all elements of b, whose indices are `own`; then *out tells where they are in the other buffer.
static bool covers(const copying *c, const buffer *b, const place *own, const place *other, place *out) {
    int dim_of[64] = {0};
    for (int d = 0; d < b->rank; d++) {
        if (extent_along(c->k, own, d) != b->dims[d] || own->step[d] != 1 || !dim_is(own->low[d], 0))
            return false;
        if (own->from[d] >= 0) dim_of[own->from[d]] = d;
    }
    *out = *other;
    for (int d = 0; d < out->rank; d++) {
        if (out->from[d] < 0) continue;
        int from = dim_of[out->from[d]];
        if (own->from[from] != out->from[d] || own->last[from] != out->last[d]) return false;
        out->from[d] = out->last[d] = from;
    }
    return true;
}

// Where elements are in a third buffer.
static place composed(const place *first, const place *second) {
    place p = *second;
    for (int d = 0; d < p.rank; d++) {
        int via = second->from[d];
        if (via < 0) continue;
        p.from[d] = p.last[d] = first->from[via];
        p.low[d] = dim_add(p.low[d], dim_mulk(first->low[via], second->step[d]));
        p.step[d] = p.from[d] < 0 ? 1 : first->step[via] * second->step[d];
    }
    return p;
}

static bool is_same_place(const place *a, const place *b) {
    bool same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++)
        same = a->from[d] == b->from[d] && a->low[d] == b->low[d] &&
               (a->from[d] < 0 || a->step[d] == b->step[d]);
    return same;
}

// ---------------------------------------------------------------- uses
static const site *first_use(const uses *u, const buffer *b) {
    const site *first = NULL;
    for (int j = 0; j < u->of[b->id].sites.n; j++) {
        const site *at = u->of[b->id].sites.at[j];
        if (site_touches(at, b) && (!first || at->time < first->time)) first = at;
    }
    return first;
}

// Whether a site between both writes b, or with `any` uses it.
static bool is_used_between(const uses *u, const buffer *b, int after, int before, bool any) {
    for (int j = 0; j < u->of[b->id].sites.n; j++) {
        const site *at = u->of[b->id].sites.at[j];
        if (at->time > after && at->time < before && (any ? site_touches(at, b) : site_writes(at, b)))
            return true;
    }
    return false;
}

// Whether only kernels of this region use b, but for one step, and by indices that can be those of another buffer.
static bool may_move(const uses *u, const buffer *b, const region *r, const site *but) {
    const buffer_uses *all = &u->of[b->id];
    if (b->role != BUF_TEMP || b->layout || (all->by_others && !but) || all->fallback || all->output)
        return false;
    for (int j = 0; j < all->sites.n; j++) {
        const site *at = all->sites.at[j];
        if (!site_touches(at, b) || at == but) continue;
        if (at->s->kind != STEP_KERNEL || at->region != r || u->of_kernel[at->s->kernel->id] != at)
            return false;
        for (int i = 0; i < at->accessed.n; i++)
            if (buffer_root(at->accessed.at[i]) == b && !is_plain_view(at->accessed.at[i])) return false;
    }
    return true;
}

static int count_writers(const uses *u, const buffer *b) {
    int n = 0;
    for (int j = 0; j < u->of[b->id].sites.n; j++) n += site_writes(u->of[b->id].sites.at[j], b);
    return n;
}

// ---------------------------------------------------------------- moving
typedef struct moving {
    const buffer *from;
    buffer *to;
    buffer *view; // of `to`, in whose shape `at` is
    const place *at;
} moving;

static bool move_index(const moving *m, kernel *k, const buffer *b, expr *const *index, expr **out) {
    expr *own[MAX_RANK];
    if (!view_index(k, b, m->from, index, own)) return false;
    for (int d = 0; d < m->view->rank; d++) {
        int from = m->at->from[d];
        expr *low = x_dim(k, m->at->low[d]);
        out[d] = from < 0 ? low : x_add(k, x_mul(k, own[from], x_i64(k, m->at->step[d])), low);
    }
    return true;
}

static expr *move_read(void *user, kernel *k, const expr *read) {
    const moving *m = user;
    expr *index[MAX_RANK];
    bool here = read->buffer->role != BUF_LOCAL && buffer_root(read->buffer) == m->from;
    if (!here || !move_index(m, k, read->buffer, read->index, index)) return NULL;
    return x_read_guarded(k, m->view, index, read->guard, read->fill);
}

static void move_writes(const moving *m, kernel *k) {
    write_list all = kernel_write_list(k);
    expr *index[MAX_RANK];
    for (int j = 0; j < all.n; j++) {
        write *w = all.at[j];
        expr **own = ARENA_ARRAY(k->arena, expr *, m->to->rank + 1);
        if (w->to->role == BUF_LOCAL || buffer_root(w->to) != m->from ||
            !move_index(m, k, w->to, w->index, index) || !view_index(k, m->view, m->to, index, own))
            continue;
        w->to = m->to, w->index = own;
    }
}

static void remove_site(uses *u, site *at) {
    at->s->kernel = NULL;
    uses_update(u, at);
}

// Everything that uses `from` uses its place in `to`, which is in terms of `shape`.
static void move(program *p, uses *u, const buffer *from, buffer *to, const buffer *shape, const place *at) {
    bool own = buffer_root(shape) == to;
    buffer *view = own ? (buffer *)shape : program_view(p, to, to->name, shape->rank, shape->dims);
    moving m = {from, to, view, at};
    for (int j = 0; j < u->of[from->id].sites.n; j++) {
        site *x = u->of[from->id].sites.at[j];
        if (!site_touches(x, from)) continue;
        kernel_rewrite_reads(x->s->kernel, move_read, &m);
        move_writes(&m, x->s->kernel);
        uses_update(u, x);
    }
}

// ---------------------------------------------------------------- versions, and parts
// A whole version that the next one begins as, in the order of its axes.
static bool move_version(uses *u, site *at, const copying *put, const place *to) {
    place back;
    program *p = at->s->kernel->program;
    if (!covers(put, put->to, &put->write, &put->read, &back) ||
        (put->to->role != BUF_TEMP && put->to->role != BUF_OUTPUT))
        return false;
    if (first_use(u, put->to) != at || is_used_between(u, put->from, at->time, INT_MAX, true) ||
        count_writers(u, put->from) < 2)
        return false;
    remove_site(u, at);
    move(p, u, put->from, put->to, put->to, to);
    return true;
}

// Whether reads of the part after it was put back find the same elements in the whole.
static bool stays(const uses *u, const site *at, const copying *put) {
    const buffer *part = put->from;
    int last = at->time;
    for (int j = 0; j < u->of[part->id].sites.n; j++) {
        const site *x = u->of[part->id].sites.at[j];
        if (x->time > at->time && site_writes(x, part)) return false;
        if (site_reads(x, part) && x->time > last) last = x->time;
    }
    return last == at->time || !is_used_between(u, put->to, at->time, last + 1, false);
}

// Whether the sizes of `to` are known as early as those of `from`.
static bool has_known_sizes(const buffer *to, const buffer *from) {
    for (int d = 0; d < to->rank; d++) {
        bool known = dim_is_const(to->dims[d]);
        for (int i = 0; i < from->rank; i++) known |= from->dims[i] == to->dims[d];
        if (!known) return false;
    }
    return true;
}

// The places of a part in the shapes of the values from which it was taken, and to which it is put back.
typedef struct part {
    place from, to;
    const buffer *taken, *put;
} part;

// The step that makes the whole of the value from which the part was taken, before the part is put back; NULL: there is no such
// step, or the value changes.
static site *beginning(uses *u, const site *at, const site *take, const copying *taken, const copying *put,
                       const part *x) {
    copying all;
    place back;
    site *begin = (site *)first_use(u, put->to);
    if (!begin || begin->time >= at->time || begin->region != at->region || !find_copying(begin, &all) ||
        all.to != put->to || !has_known_sizes(all.to, all.from) || all.from != taken->from ||
        !find_places(&all, x->taken, x->put) || !covers(&all, x->put, &all.write, &all.read, &back))
        return NULL;
    place both = composed(&x->to, &back);
    int first = take->time < begin->time ? take->time : begin->time, last = take->time + begin->time - first;
    bool same = is_same_place(&both, &x->from) && !is_used_between(u, put->to, begin->time, at->time, true);
    return same && !is_used_between(u, taken->from, first, last, false) ? begin : NULL;
}

// The part is in the value itself, or in one that begins as a copy of it; then the copy is made where the part was taken.
static bool begins(uses *u, site *at, site *take, const copying *taken, const copying *put, const part *x) {
    if (taken->from == put->to) {
        if (!is_same_place(&x->from, &x->to) || is_used_between(u, put->to, take->time, at->time, true))
            return false;
        remove_site(u, take);
        return true;
    }
    site *begin = beginning(u, at, take, taken, put, x);
    if (!begin) return false;
    kernel *k = begin->s->kernel;
    bool later = begin->time > take->time;
    remove_site(u, later ? begin : take);
    if (later) {
        take->s->kernel = k, u->of_kernel[k->id] = take;
        uses_update(u, take);
    }
    return true;
}

// Whether the places are found in these shapes.
static bool find_part(copying *taken, copying *put, part *x) {
    return find_places(taken, x->taken, taken->to) && find_places(put, put->from, x->put) &&
           covers(taken, taken->to, &taken->write, &taken->read, &x->from) &&
           covers(put, put->from, &put->read, &put->write, &x->to);
}

static bool move_part(uses *u, site *at, copying *put) {
    copying taken;
    site *take = (site *)first_use(u, put->from);
    if (!take || take->time >= at->time || !find_copying(take, &taken) || taken.to != put->from ||
        taken.from == put->from || taken.from->space != put->to->space || !stays(u, at, put))
        return false;
    part x = {.taken = taken.from, .put = put->to};
    if (!find_part(&taken, put, &x)) {
        x.taken = x.put = taken.k->stages.at[0]->writes.at[0].value->buffer;
        if (!find_part(&taken, put, &x)) return false;
    }
    program *p = put->k->program;
    if (!begins(u, at, take, &taken, put, &x)) return false;
    remove_site(u, at);
    move(p, u, put->from, put->to, x.put, &x.to);
    return true;
}

static bool visit(uses *u, site *at) {
    copying put;
    place to;
    if (!find_copying(at, &put) || put.from == put.to || put.from->space != put.to->space ||
        !may_move(u, put.from, at->region, NULL))
        return false;
    bool whole = find_places(&put, put.from, put.to) && covers(&put, put.from, &put.read, &put.write, &to);
    return (whole && move_version(u, at, &put, &to)) || move_part(u, at, &put);
}

// ---------------------------------------------------------------- states
//   t[i, j] = v[i, j]       v is a view of a state      next[k, i, j] = state[k, i, j]
//   t[1, at] = x                                        next[0, 1, at] = x
//   copy next = t           in another shape

static bool has_same_dims(const buffer *a, const buffer *b) {
    bool same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = a->dims[d] == b->dims[d];
    return same;
}

// The step that makes t of the state; NULL: there is none.
static const site *beginning_as(const uses *u, const buffer *t, const buffer *state) {
    const site *at = first_use(u, t);
    if (!at || at->s->kind != STEP_KERNEL || !is_plain_copy(at->s->kernel)) return NULL;
    const write *w = &at->s->kernel->stages.at[0]->writes.at[0];
    const buffer *from = w->value->buffer;
    copying c;
    bool whole = w->to == t && buffer_root(from) == state && is_plain_view(from) && has_same_dims(from, t) &&
                 find_copying(at, &c) && find_places(&c, from, t) &&
                 covers(&c, t, &c.write, &c.read, &c.read);
    return whole ? at : NULL;
}

// Whether the step ends with a state in the memory of which its value, of another shape, can be made.
static bool ends_state(const program *p, const uses *u, const site *at) {
    const buffer *to = at->s->buffer, *from = at->s->from;
    if (at->s->kind != STEP_COPY || at->depth || to->role != BUF_OUTPUT || to->view_of || to->layout)
        return false;
    if (!p->state || !p->state[to->io] || !is_plain_view(from)) return false;
    const buffer *t = buffer_root(from), *in = p->inputs.at[p->state[to->io] - 1];
    return t->dtype == to->dtype && from->dtype == to->dtype && t->space == to->space &&
           has_same_dims(in, to) && may_move(u, t, at->region, at) && first_use(u, to) == at &&
           count_writers(u, to) == 1 && !is_used_between(u, t, at->time, INT_MAX, false);
}

static bool make_in_state(program *p, uses *u, site *at) {
    if (!ends_state(p, u, at)) return false;
    buffer *to = at->s->buffer, *t = (buffer *)buffer_root(at->s->from),
           *in = p->inputs.at[p->state[to->io] - 1];
    const site *begin = beginning_as(u, t, in);
    if (!begin || begin->region != at->region) return false;
    place same = {.rank = t->rank};
    for (int d = 0; d < t->rank; d++)
        same.from[d] = same.last[d] = d, same.step[d] = 1, same.low[d] = dim_const(p->dims, 0);
    *at->s = (step){.kind = STEP_KERNEL, .loc = at->s->loc};
    remove_site(u, at);
    move(p, u, t, to, t, &same);
    begin->s->kernel = kernel_copying(p, to->name, begin->s->loc, in, to);
    return true;
}

// Values that become states in another shape.
static bool make_in_states(program *p) {
    arena *scratch = arena_new();
    uses *u = uses_build(scratch, p);
    bool any = false;
    for (int j = 0; p->state && j < u->n && !any; j++) any = make_in_state(p, u, &u->sites[j]);
    arena_destroy(scratch);
    return any;
}

void merge_parts(program *p) {
    enum { MOST_ROUNDS = 8 }; // a part of a part may become one of the whole
    arena *scratch = arena_new();
    uses *u = uses_build(scratch, p);
    bool changed = true, any = false;
    for (int n = 0; n < MOST_ROUNDS && changed; n++) {
        changed = false;
        for (int j = 0; j < u->n; j++) changed |= visit(u, &u->sites[j]);
        any |= changed;
    }
    while (make_in_states(p)) any = true;
    if (any) program_compact(p);
    arena_destroy(scratch);
}
