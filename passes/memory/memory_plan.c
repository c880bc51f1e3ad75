// The memory plan. Steps are numbered in order; a temporary lives from its first to its last use, and through
// all of a loop when a use lies outside of it. Sizes are taken apart as coefficient times symbolic factor:
// those of one factor (all constants; all multiples of the batch size) share an area, planned as if the
// factor were 1, so the plan is right for every value of the symbols:
//
//   offset = sum of the areas before + factor * place in the area
#include "passes/memory/memory_plan.h"
#include "compiler/base/round.h"
#include <stdlib.h>
#include <string.h>

typedef struct item {
    const buffer *buffer; // or:
    const kernel *kernel; // whose scratch memory it is
    dim *size, *factor;
    int64_t coef, at; // bytes for each unit of the factor
    int first, last;
    struct item *same; // lies in this one's memory
    int id;
} item;
typedef struct span {
    int first, last;
} span;

typedef struct planner {
    program *p;
    space where;
    int64_t align;
    dim *const *scratch;
    VEC(item *) items;
    item **of;   // by buffer id
    bool *moved; // by buffer id: heap memory that changes hands
    int64_t bounded;
    VEC(span) loops;
    int now;
    memory_plan plan;
} planner;

static item *new_item(planner *n, dim *size) {
    item *i = ARENA_NEW(n->p->arena, item);
    *i = (item){.size = size, .first = n->now, .last = n->now, .id = n->items.n};
    VEC_PUSH(n->p->arena, &n->items, i);
    return i;
}

static item *memory_of(item *i) {
    while (i->same) i = i->same;
    return i;
}

static void note_moves(void *user, region *r, step *s) {
    planner *n = user;
    (void)r;
    if (s->kind == STEP_MOVE)
        n->moved[buffer_root(s->buffer)->id] = n->moved[buffer_root(s->from)->id] = true;
}

// The bytes that b needs in the workspace, NULL when it does not lie there. What only the run knows takes as
// much as it can ever be.
static dim *planned_size(planner *n, const buffer *b) {
    if (b->space != n->where) return NULL;
    if (b->role == BUF_TEMP) return buffer_bytes(b);
    if (b->role != BUF_HEAP || n->moved[b->id]) return NULL;
    dim *bytes = buffer_bytes(b);
    bool bounded = bytes->max <= n->bounded;
    for (int j = 0; j < b->rank; j++) bounded &= b->dims[j]->max <= n->bounded && b->dims[j]->min >= 0;
    return bounded ? dim_const(n->p->dims, bytes->max) : NULL;
}

// ---------------------------------------------------------------- lifetimes
static void note_use(void *user, buffer *b) {
    planner *n = user;
    const buffer *root = buffer_root(b);
    item **i = &n->of[root->id];
    if (!*i) {
        dim *size = planned_size(n, root);
        if (!size) return;
        *i = new_item(n, size);
        (*i)->buffer = root;
    }
    (*i)->last = n->now;
}

static void number_region(planner *n, const region *r) {
    for (int j = 0; j < r->steps.n; j++) {
        const step *s = r->steps.at[j];
        int begin = ++n->now;
        step_buffers(s, note_use, n);
        if (s->kind == STEP_KERNEL && n->scratch && n->scratch[s->kernel->id])
            new_item(n, n->scratch[s->kernel->id])->kernel = s->kernel;
        for (int i = 0; i < 2; i++)
            if (s->body[i]) number_region(n, s->body[i]);
        if (s->kind != STEP_LOOP) continue;
        n->now++;                              // a place of its own for the loop's end
        if (s->buffer) note_use(n, s->buffer); // the condition is read again
        VEC_PUSH(n->p->arena, &n->loops, (span){begin, n->now});
    }
}

// Loops come inner ones first.
static void extend_over_loops(planner *n) {
    for (int j = 0; j < n->items.n; j++) {
        item *i = n->items.at[j];
        for (int l = 0; l < n->loops.n; l++) {
            span loop = n->loops.at[l];
            bool touches = i->first <= loop.last && i->last >= loop.first;
            bool inside = i->first >= loop.first && i->last <= loop.last;
            if (!touches || inside) continue;
            if (loop.first < i->first) i->first = loop.first;
            if (loop.last > i->last) i->last = loop.last;
        }
    }
}

// ---------------------------------------------------------------- in place
typedef struct read_search {
    const buffer *root;
    const write *w;
    int reads;
    bool differs;
} read_search;

static void compare_read(void *user, expr *x) {
    read_search *s = user;
    if (x->op != X_READ || buffer_root(x->buffer) != s->root) return;
    const buffer *from = x->buffer, *to = s->w->to;
    s->reads++;
    s->differs |=
        from->rank != to->rank || from->view_offset || x->guard || !layout_equal(from->layout, to->layout);
    for (int j = 0; j < to->rank && !s->differs; j++)
        s->differs |= from->dims[j] != to->dims[j] || x->index[j] != s->w->index[j];
}

// Whether every element of `from` is read only where the same element of the result is made, after all sums:
// schedules of one stage read such an element before they write it, and never again.
static bool reads_like_write(const kernel *k, const buffer *from) {
    const stage *s = k->stages.at[0];
    read_search all = {.root = from, .w = &s->writes.at[0]}, of_write = all;
    stage_walk(s, compare_read, &all);
    expr_walk(all.w->value, compare_read, &of_write);
    return all.reads && !all.differs && all.reads == of_write.reads;
}

// Whether each element of the one result is written once.
static bool writes_once(const kernel *k) {
    if (k->stages.n != 1) return false;
    const stage *s = k->stages.at[0];
    for (int j = 0; j < s->axes.n; j++)
        if (k->axes.at[s->axes.at[j]].kind == AXIS_SCAN) return false;
    if (s->writes.n != 1) return false;
    const write *w = &s->writes.at[0];
    return w->combine == COMBINE_SET && w->when == WRITE_END && !w->guard && dtype_bits(w->to->dtype) >= 8;
}

bool writes_in_place(const kernel *k, const buffer *from, const buffer *to) {
    return writes_once(k) && k->stages.at[0]->writes.at[0].to == to && reads_like_write(k, buffer_root(from));
}

static void try_in_place(planner *n, const kernel *k, int at) {
    buffer **all, *to = writes_once(k) ? k->stages.at[0]->writes.at[0].to : NULL;
    item *out = to && !to->view_of ? n->of[to->id] : NULL;
    if (!out || out->first != at) return;
    int count = kernel_buffers(k, &all);
    for (int j = 0; j < count; j++) {
        const buffer *from = buffer_root(all[j]);
        item *in = from->role != BUF_LOCAL && from != to ? n->of[from->id] : NULL;
        if (!in || memory_of(in)->last != at || dtype_bits(from->dtype) != dtype_bits(to->dtype)) continue;
        if (in->size != out->size || !reads_like_write(k, from)) continue;
        out->same = memory_of(in);
        out->same->last = out->last;
        n->plan.in_place[k->id] = true;
        return;
    }
}

static void find_in_place(planner *n, const region *r, int *at) {
    for (int j = 0; j < r->steps.n; j++) {
        const step *s = r->steps.at[j];
        ++*at;
        if (s->kind == STEP_KERNEL) try_in_place(n, s->kernel, *at);
        for (int i = 0; i < 2; i++)
            if (s->body[i]) find_in_place(n, s->body[i], at);
        if (s->kind == STEP_LOOP) ++*at;
    }
}

// ---------------------------------------------------------------- places
static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b, b = r;
    }
    return a < 0 ? -a : a;
}

// coef becomes a multiple of the alignment: large ones are rounded up, small ones count a block of units.
static void align_unit(planner *n, item *i, int64_t g) {
    int64_t units = n->align / common_divisor(g, n->align);
    i->coef = round_up(g, n->align);
    if (units == 1 || g >= 16 * n->align || dim_is(i->factor, 1)) return;
    i->coef = g * units;
    i->factor = dim_ceildiv(i->factor, dim_const(n->p->dims, units));
}

static void take_apart(planner *n, item *i) {
    int64_t g = 1;
    i->factor = i->size;
    if (dim_is_const(i->size)) {
        g = dim_value(i->size);
        i->factor = dim_const(n->p->dims, 1);
    } else if (i->size->kind == DIM_POLY) {
        g = 0;
        for (int j = 0; j < i->size->nterms; j++) g = common_divisor(g, i->size->terms[j].coef);
        i->factor = dim_floordiv(i->size, dim_const(n->p->dims, g));
        if (dim_mulk(i->factor, g) != i->size) g = 1, i->factor = i->size;
    }
    align_unit(n, i, g);
}

static int larger_first(const void *a, const void *b) {
    const item *x = *(item *const *)a, *y = *(item *const *)b;
    if (x->coef != y->coef) return x->coef > y->coef ? -1 : 1;
    return x->id - y->id;
}
static int lower_first(const void *a, const void *b) {
    const item *x = *(item *const *)a, *y = *(item *const *)b;
    return x->at < y->at ? -1 : x->at > y->at;
}

// The tightest gap between those of others[] that live at the same time.
static int64_t find_gap(const item *i, item **others, int count) {
    int64_t end = 0, best = -1, best_size = INT64_MAX;
    for (int j = 0; j < count; j++) {
        const item *o = others[j];
        if (o->last < i->first || o->first > i->last) continue;
        int64_t gap = o->at - end;
        if (gap >= i->coef && gap < best_size) best = end, best_size = gap;
        if (o->at + o->coef > end) end = o->at + o->coef;
    }
    return best >= 0 ? best : end;
}

// Places the items of one factor, the largest first; returns the area's size.
static int64_t place_area(item **all, int count, item **placed) {
    int64_t size = 0;
    qsort(all, (size_t)count, sizeof *all, larger_first);
    for (int j = 0; j < count; j++) {
        item *i = all[j];
        i->at = find_gap(i, placed, j);
        if (i->at + i->coef > size) size = i->at + i->coef;
        int k = j;
        for (; k > 0 && lower_first(&placed[k - 1], &i) > 0; k--) placed[k] = placed[k - 1];
        placed[k] = i;
    }
    return size;
}

static void set_offset(planner *n, const item *i, dim *base) {
    dim *offset = dim_add(base, dim_mulk(i->factor, i->at));
    if (i->buffer) n->p->buffers.at[i->buffer->id]->offset = offset;
    else n->plan.scratch_offset[i->kernel->id] = offset;
}

static void place_all(planner *n) {
    arena *a = n->p->arena;
    item **area = ARENA_ARRAY(a, item *, n->items.n + 1), **placed = ARENA_ARRAY(a, item *, n->items.n + 1);
    bool *done = ARENA_ARRAY(a, bool, n->items.n + 1);
    dim *base = dim_const(n->p->dims, 0);
    for (int j = 0; j < n->items.n; j++) {
        int count = 0;
        for (int i = j; i < n->items.n; i++) {
            item *x = n->items.at[i];
            if (done[i] || x->same || x->factor != n->items.at[j]->factor) continue;
            area[count++] = x;
            done[i] = true;
        }
        if (!count) continue;
        int64_t size = place_area(area, count, placed);
        for (int i = 0; i < count; i++) set_offset(n, area[i], base);
        base = dim_add(base, dim_mulk(area[0]->factor, size));
    }
    n->plan.workspace = base;
}

static void note_place(planner *n, const item *i) {
    memory_place m = {i->buffer, i->kernel, NULL, i->size, i->first, i->last};
    m.offset = i->buffer ? n->p->buffers.at[i->buffer->id]->offset : n->plan.scratch_offset[i->kernel->id];
    VEC_PUSH(n->p->arena, &n->plan.places, m);
}

memory_plan plan_memory(program *p, space where, dim *const *scratch, int64_t align, int64_t bounded) {
    planner n = {.p = p, .where = where, .align = align, .scratch = scratch, .bounded = bounded};
    n.of = ARENA_ARRAY(p->arena, item *, p->buffers.n + 1);
    n.plan.scratch_offset = ARENA_ARRAY(p->arena, dim *, p->kernels.n + 1);
    n.plan.in_place = ARENA_ARRAY(p->arena, bool, p->kernels.n + 1);
    n.moved = ARENA_ARRAY(p->arena, bool, p->buffers.n + 1);
    for (int j = 0; j < p->buffers.n; j++)
        if (p->buffers.at[j]->space == where) p->buffers.at[j]->offset = NULL;
    program_walk(p, note_moves, &n);
    number_region(&n, p->main);
    extend_over_loops(&n);
    int at = 0;
    find_in_place(&n, p->main, &at);
    n.plan.sum = dim_const(p->dims, 0);
    for (int j = 0; j < n.items.n; j++) {
        take_apart(&n, n.items.at[j]);
        n.plan.sum = dim_add(n.plan.sum, n.items.at[j]->size);
    }
    place_all(&n);
    for (int j = 0; j < n.items.n; j++) {
        const item *i = n.items.at[j];
        if (i->same) p->buffers.at[i->buffer->id]->offset = memory_of(n.items.at[j])->buffer->offset;
    }
    for (int j = 0; j < n.items.n; j++) note_place(&n, n.items.at[j]);
    p->workspace = n.plan.workspace;
    return n.plan;
}
