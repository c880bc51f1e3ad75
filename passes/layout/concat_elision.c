// Concatenations without copies: see concat_elision.h.
#include "passes/layout/concat_elision.h"
#include "ir/kernel/edit.h"
#include "passes/fuse/fuse_impl.h"
#include "passes/match/contract.h"
#include "passes/memory/memory_plan.h"

// Who uses a buffer or its views.
typedef struct usage {
    VEC(kernel *) kernels; // in the order of the program
    region *region;        // of all of them, NULL: of several
    int first, last;       // steps between which it lives
    int born, writers;     // the step that used it first when the pass began; kernels that wrote it
    bool viewed, others;   // views show it; other steps than kernels use it
    bool gone;             // it lies in another one now
} usage;

typedef struct join {
    program *p;
    arena *arena;
    usage *of;  // by id of the root
    int *order; // by kernel id: its step, counted from 1
    int now;
    region *region; // of the step at hand
    kernel *kernel; // that it runs, NULL: another step
    double limit;   // bytes that may live at once
} join;

static void note_use(void *user, buffer *b) {
    join *j = user;
    usage *u = &j->of[buffer_root(b)->id];
    if (!u->first) u->region = j->region, u->first = u->born = j->now;
    if (u->region != j->region) u->region = NULL;
    u->others |= !j->kernel;
    u->writers += j->kernel && kernel_writes(j->kernel, b);
    if (j->kernel && (u->last != j->now || !u->kernels.n)) VEC_PUSH(j->arena, &u->kernels, j->kernel);
    u->last = j->now;
}

static void note_step(void *user, region *r, step *s) {
    join *j = user;
    j->region = r;
    j->now++;
    bool again = s->kind == STEP_KERNEL && j->order[s->kernel->id];
    j->kernel = again ? NULL : s->kernel;
    if (j->kernel) j->order[s->kernel->id] = j->now;
    step_buffers(s, note_use, j);
}

// ---------------------------------------------------------------- parts
// Elements from `low` on, `extent` of them along each dim, which kernel axis `axis` walks (-1: one element).
typedef struct box {
    int axis[MAX_RANK];
    dim *low[MAX_RANK], *extent[MAX_RANK];
} box;

// A buffer that stages of a kernel copy to the elements of another that lie `shift` further along each dim.
typedef struct part {
    buffer *from, *to;
    dim *shift[MAX_RANK];
    box box; // of `from`, as far as the stages found copy it
    int stages;
} part;

static bool is_plain_temp(const buffer *b) {
    return b->role == BUF_TEMP && !b->view_of && b->space == SPACE_HOST && dtype_bits(b->dtype) >= 8;
}

// Elements that are neighbours in one are so in the other.
static bool lies_alike(const layout *part, const layout *whole) {
    if (!part || !whole) return part == whole;
    if (part->n != whole->n || part->gap || whole->gap) return false;
    for (int j = 0; j < part->n; j++) {
        int axis = part->order[j].axis;
        if (axis != whole->order[j].axis || part->order[j].tile || whole->order[j].tile) return false;
        if (part->pad_lo[axis] || part->pad_hi[axis] || whole->pad_lo[axis] || whole->pad_hi[axis])
            return false;
    }
    return true;
}

static bool find_box(const kernel *k, const buffer *b, expr *const *index, box *x) {
    for (int d = 0; d < b->rank; d++) {
        if (!shifted_axis(k, index[d], &x->axis[d], &x->low[d])) return false;
        for (int e = 0; e < d; e++)
            if (x->axis[e] == x->axis[d] && x->axis[d] >= 0) return false;
        x->extent[d] = x->axis[d] < 0 ? dim_const(k->program->dims, 1) : k->axes.at[x->axis[d]].extent;
    }
    return true;
}

// A stage that does nothing but copy.
static bool is_copy(const kernel *k, const stage *s, part *found) {
    box target;
    if (s->states.n || s->writes.n != 1) return false;
    const write *w = &s->writes.at[0];
    const expr *value = w->value;
    if (w->guard || w->combine != COMBINE_SET || value->op != X_READ || value->guard) return false;
    buffer *from = value->buffer, *to = w->to;
    if (!is_plain_temp(from) || !is_plain_temp(to) || from == to) return false;
    if (from->rank != to->rank || from->dtype != to->dtype || !lies_alike(from->layout, to->layout))
        return false;
    *found = (part){.from = from, .to = to, .stages = 1};
    if (!find_box(k, from, value->index, &found->box) || !find_box(k, to, w->index, &target)) return false;
    for (int d = 0; d < to->rank; d++) {
        if (found->box.axis[d] != target.axis[d]) return false;
        found->shift[d] = dim_sub(target.low[d], found->box.low[d]);
    }
    return true;
}

static bool is_same(const dim *a, const dim *b) { return dim_equal(a, b) == TRI_YES; }

// What more copies of the same buffer, to the same place in the other, goes on where the part ends.
static bool add_piece(part *p, const part *more) {
    int along = -1;
    for (int d = 0; d < p->to->rank; d++) {
        if (!is_same(p->shift[d], more->shift[d])) return false;
        if (is_same(p->box.low[d], more->box.low[d]) && is_same(p->box.extent[d], more->box.extent[d]))
            continue;
        if (along >= 0) return false;
        along = d;
    }
    if (along < 0 || !is_same(dim_add(p->box.low[along], p->box.extent[along]), more->box.low[along]))
        return false;
    p->box.extent[along] = dim_add(p->box.extent[along], more->box.extent[along]);
    p->stages++;
    return true;
}

static bool copies(const kernel *k, const stage *s, const part *p) {
    part x;
    return is_copy(k, s, &x) && x.from == p->from && x.to == p->to;
}

// Whether an access to the whole leaves the part alone, as the positions along one dim tell.
static bool is_apart(const kernel *k, const part *p, expr *const *index) {
    for (int d = 0; d < p->to->rank; d++) {
        int axis;
        dim *low, *end = dim_add(p->shift[d], p->from->dims[d]);
        if (!shifted_axis(k, index[d], &axis, &low)) continue;
        dim *extent = axis < 0 ? dim_const(k->program->dims, 1) : k->axes.at[axis].extent;
        if (dim_less_equal(end, low) == TRI_YES) return true;
        if (dim_less_equal(dim_add(low, extent), p->shift[d]) == TRI_YES) return true;
    }
    return false;
}

static bool writes_apart(const kernel *k, const stage *s, const part *p) {
    for (int i = 0; i < s->writes.n; i++)
        if (s->writes.at[i].to == p->to && !is_apart(k, p, s->writes.at[i].index)) return false;
    return true;
}

// Whether no other stage touches these elements of the whole: then it does not matter which comes first.
static bool stands_apart(const kernel *k, const part *p) {
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        if (copies(k, s, p)) continue;
        if (stage_reads(s, p->from) || stage_reads(s, p->to) || !writes_apart(k, s, p)) return false;
    }
    return true;
}

// A whole buffer that stages of the kernel copy, stage `first` before others.
static bool find_part(const kernel *k, int first, part *p) {
    part more;
    if (!is_copy(k, k->stages.at[first], p)) return false;
    for (int j = 0; j < first; j++)
        if (copies(k, k->stages.at[j], p)) return false;
    for (int j = first + 1; j < k->stages.n; j++)
        if (copies(k, k->stages.at[j], p) && (!is_copy(k, k->stages.at[j], &more) || !add_piece(p, &more)))
            return false;
    for (int d = 0; d < p->from->rank; d++)
        if (!dim_is(p->box.low[d], 0) || !is_same(p->box.extent[d], p->from->dims[d])) return false;
    return stands_apart(k, p);
}

// ---------------------------------------------------------------- readers
// How kernels read a buffer.
typedef struct reading {
    kernel *k;
    const buffer *b;
    bool windows;  // with guards that a halo replaces
    bool plain;    // in sums of products, without guards
    bool products; // in sums of products
} reading;

static void see_read(void *user, expr *e) {
    reading *r = user;
    int64_t lo[MAX_RANK], hi[MAX_RANK];
    if (e->op != X_READ || e->buffer != r->b) return;
    r->windows |= e->guard && halo_of_read(r->k, e, lo, hi);
    r->plain |= r->products && !e->guard;
}

static void see_kernel(reading *r, kernel *k) {
    contraction c;
    r->k = k;
    for (int j = 0; j < k->stages.n; j++) {
        r->products = contraction_in_stage(k, k->stages.at[j], &c) || contraction_find(k, &c);
        stage_walk(k->stages.at[j], see_read, r);
    }
}

static reading readers_of_all(const usage *u, const buffer *b) {
    reading r = {.b = b};
    for (int j = 0; j < u->kernels.n; j++) see_kernel(&r, u->kernels.at[j]);
    return r;
}

// Products that walk over all elements of an image make tiles of rows where it has a halo: short ones waste
// them.
static bool has_short_rows(const buffer *b) {
    enum { SHORT = 20 };
    const layout *l = b->layout;
    const dim *row = l && l->n > 1 ? b->dims[l->order[l->n - 2].axis] : NULL;
    return row && dim_is_const(row) && dim_value(row) < SHORT;
}

// A halo that one of them needs is around the other, too.
static bool shares_halo(const join *j, const part *p) {
    if (!has_short_rows(p->to)) return true;
    reading part = readers_of_all(&j->of[p->from->id], p->from);
    reading whole = readers_of_all(&j->of[p->to->id], p->to);
    return !(part.windows && whole.plain && !whole.windows) &&
           !(whole.windows && part.plain && !part.windows);
}

// Products fetch so many bytes at once, from places that are multiples of it.
static bool stays_aligned(const part *p) {
    enum { FETCH_BITS = 128 };
    for (int d = 0; d < p->to->rank; d++) {
        if (dim_is(p->shift[d], 0) && is_same(p->from->dims[d], p->to->dims[d])) continue;
        const dim *both[] = {p->shift[d], p->to->dims[d]};
        for (int j = 0; j < 2; j++)
            if (!dim_is_const(both[j]) || dim_value(both[j]) * dtype_bits(p->to->dtype) % FETCH_BITS)
                return false;
    }
    return true;
}

static bool reads_as_well(const part *p, kernel *k) {
    reading r = {.b = p->from};
    see_kernel(&r, k);
    return (!r.plain && !r.windows) || stays_aligned(p);
}

// ---------------------------------------------------------------- memory
static double bytes_of(const buffer *b) {
    enum { USUAL = 64 };
    int64_t n;
    return dim_usual(buffer_bytes(b), USUAL, &n) ? (double)n : 0;
}

// The most bytes of the workspace that live at once, without what schedules add.
static double peak_of(const join *j) {
    arena *scratch = arena_new();
    double *change = ARENA_ARRAY(scratch, double, j->now + 2), live = 0, most = 0;
    for (int i = 0; i < j->p->buffers.n; i++) {
        const usage *u = &j->of[i];
        const buffer *b = j->p->buffers.at[i];
        if (!u->first || u->gone || b->role != BUF_TEMP || b->view_of) continue;
        change[u->first] += bytes_of(b), change[u->last + 1] -= bytes_of(b);
    }
    for (int i = 0; i < j->p->kernels.n; i++) {
        const kernel *k = j->p->kernels.at[i];
        for (int l = 0; l < k->locals.n; l++) {
            double bytes = bytes_of(k->locals.at[l]);
            change[j->order[k->id]] += bytes, change[j->order[k->id] + 1] -= bytes;
        }
    }
    for (int i = 0; i <= j->now; i++) {
        live += change[i];
        most = live > most ? live : most;
    }
    arena_destroy(scratch);
    return most;
}

// The whole lives as long as the part did.
static void merge_lives(const join *j, const part *p) {
    usage *from = &j->of[p->from->id], *to = &j->of[p->to->id];
    if (from->first < to->first) to->first = from->first;
    if (from->last > to->last) to->last = from->last;
    from->gone = true;
}

static bool fits_memory(const join *j, const part *p) {
    usage *from = &j->of[p->from->id], *to = &j->of[p->to->id], was[] = {*from, *to};
    merge_lives(j, p);
    bool fits = peak_of(j) <= j->limit;
    *from = was[0], *to = was[1];
    return fits;
}

// ---------------------------------------------------------------- joining
static expr **shifted(kernel *k, const part *p, expr *const *index) {
    expr **out = ARENA_ARRAY(k->arena, expr *, p->to->rank + 1);
    for (int d = 0; d < p->to->rank; d++) out[d] = x_add(k, index[d], x_dim(k, p->shift[d]));
    return out;
}

static expr *move_read(void *user, kernel *k, const expr *read) {
    const part *p = user;
    if (read->buffer != p->from) return NULL;
    return x_read_guarded(k, p->to, shifted(k, p, read->index), read->guard, read->fill);
}

static void move_part(kernel *k, const part *p) {
    part copy = *p;
    if (kernel_reads(k, p->from)) kernel_rewrite_reads(k, move_read, &copy);
    for (int j = 0; j < k->stages.n; j++)
        for (int i = 0; i < k->stages.at[j]->writes.n; i++) {
            write *w = &k->stages.at[j]->writes.at[i];
            if (w->to == p->from) w->index = shifted(k, p, w->index), w->to = p->to;
        }
}

static void drop_copies(kernel *k, const part *p) {
    int n = 0;
    for (int j = 0; j < k->stages.n; j++)
        if (!copies(k, k->stages.at[j], p)) k->stages.at[n++] = k->stages.at[j];
    k->stages.n = n;
}

typedef struct place_search {
    const kernel *k;
    const part *p;
    bool meets;
} place_search;
static void see_place(void *user, expr *e) {
    place_search *s = user;
    s->meets |= e->op == X_READ && e->buffer == s->p->to && !is_apart(s->k, s->p, e->index);
}

// Whether nobody else touches the part's elements of the whole before kernel k fills them, nor, where others
// read the part, changes them afterwards.
static bool is_free(const join *j, const region *r, const kernel *k, const part *p, bool others) {
    const usage *to = &j->of[p->to->id];
    int now = j->order[k->id];
    if (to->born == now && !others) return true;
    if (to->region != r || to->others || (to->viewed && (to->born != now || to->writers > 1))) return false;
    for (int i = 0; i < to->kernels.n; i++) {
        const kernel *x = to->kernels.at[i];
        place_search s = {x, p, false};
        for (int l = 0; l < x->stages.n && x != k; l++) {
            bool before = j->order[x->id] < now;
            if (before) stage_walk(x->stages.at[l], see_place, &s);
            if (s.meets || ((before || others) && !writes_apart(x, x->stages.at[l], p))) return false;
        }
    }
    return true;
}

// Whether all that use the part of kernel k can use the whole instead: first kernels that make it, then,
// after k or before it, others that read it.
static bool can_join(const join *j, const region *r, const kernel *k, const part *p, bool alone) {
    const usage *from = &j->of[p->from->id];
    int readers = 0, now = j->order[k->id];
    if (from->region != r || from->viewed || from->others || from->gone) return false;
    for (int i = 0; i < from->kernels.n; i++) {
        kernel *x = from->kernels.at[i];
        bool writes = kernel_writes(x, p->from), reads = kernel_reads(x, p->from);
        if (x == k || (!writes && !reads)) continue;
        if (writes && (reads || readers || j->order[x->id] > now || !kernel_only_sets(x, p->from)))
            return false;
        if (reads && (alone || !reads_as_well(p, x))) return false;
        readers += reads;
    }
    if (!is_free(j, r, k, p, readers > 0)) return false;
    return readers == 0 || (shares_halo(j, p) && fits_memory(j, p));
}

// In the order of the program.
static void add_user(const join *j, usage *u, kernel *k) {
    int at = 0;
    while (at < u->kernels.n && j->order[u->kernels.at[at]->id] < j->order[k->id]) at++;
    if (at < u->kernels.n && u->kernels.at[at] == k) return;
    VEC_PUSH(j->arena, &u->kernels, k);
    for (int i = u->kernels.n - 1; i > at; i--) u->kernels.at[i] = u->kernels.at[i - 1];
    u->kernels.at[at] = k;
}

static void join_part(const join *j, kernel *k, const part *p) {
    const usage *from = &j->of[p->from->id];
    drop_copies(k, p);
    for (int i = 0; i < from->kernels.n; i++) {
        kernel *x = from->kernels.at[i];
        if (x == k) continue;
        for (int l = 0; l < k->nodes.n && kernel_writes(x, p->from); l++)
            VEC_PUSH(x->arena, &x->nodes, k->nodes.at[l]);
        move_part(x, p);
        add_user(j, &j->of[p->to->id], x);
    }
    merge_lives(j, p);
}

// Parts that nobody else reads first: the more of them are gone, the less memory the others take.
static void join_kernel(const join *j, const region *r, kernel *k) {
    part p;
    for (int alone = 1; alone >= 0; alone--)
        for (int i = 0; i < k->stages.n; i++)
            if (find_part(k, i, &p) && can_join(j, r, k, &p, alone)) join_part(j, k, &p), i--;
}

static void join_region(join *j, region *r) {
    int n = 0;
    for (int i = 0; i < r->steps.n; i++) {
        const step *s = r->steps.at[i];
        for (int b = 0; b < 2; b++)
            if (s->body[b]) join_region(j, s->body[b]);
        if (s->kind == STEP_KERNEL) join_kernel(j, r, s->kernel);
    }
    for (int i = 0; i < r->steps.n; i++) {
        step *s = r->steps.at[i];
        if (s->kind != STEP_KERNEL || s->kernel->stages.n) r->steps.at[n++] = s;
    }
    r->steps.n = n;
}

void join_parts(program *p, const target *t) {
    arena *scratch = arena_new();
    join j = {.p = p, .arena = scratch};
    j.of = ARENA_ARRAY(scratch, usage, p->buffers.n + 1);
    j.order = ARENA_ARRAY(scratch, int, p->kernels.n + 1);
    for (int i = 0; i < p->buffers.n; i++)
        if (p->buffers.at[i]->view_of) j.of[buffer_root(p->buffers.at[i])->id].viewed = true;
    program_walk(p, note_step, &j);
    // A tenth more memory buys time where there is enough of it.
    j.limit = peak_of(&j) * (t->freestanding || t->size_level ? 1 : 1.1);
    join_region(&j, p->main);
    fuse_compact(p);
    arena_destroy(scratch);
}
