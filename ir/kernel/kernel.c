// Kernels, stages and buffers: construction, queries, verification.
#include "ir/kernel/eval.h"
#include "ir/kernel/program.h"
#include <math.h>
#include <string.h>

// ---------------------------------------------------------------- buffers
dim *buffer_count(const buffer *b) { return dim_product(b->dims[-1]->table, b->dims, b->rank); }

static dim *entry_extent(const buffer *b, int entry) {
    const layout *l = b->layout;
    int axis = l->order[entry].axis;
    dims *t = b->dims[-1]->table;
    if (l->order[entry].tile) return dim_const(t, l->order[entry].tile);
    if (l->room[axis]) return dim_const(t, l->room[axis]);
    dim *n = dim_addk(b->dims[axis], l->pad_lo[axis] + l->pad_hi[axis]);
    int64_t tile = 1;
    for (int j = 0; j < l->n; j++)
        if (l->order[j].axis == axis && l->order[j].tile) tile *= l->order[j].tile;
    return dim_ceildiv(n, dim_const(t, tile));
}

dim *layout_extent(const buffer *b, int entry) { return b->layout ? entry_extent(b, entry) : b->dims[entry]; }

int64_t layout_gap(const layout *l, int entry) { return entry == l->gap_entry ? l->gap : 0; }

static dim *stride_of_whole(const buffer *b, int entry) {
    dim *n = dim_const(b->dims[-1]->table, 1);
    for (int j = b->layout->n - 1; j > entry; j--)
        n = dim_addk(dim_mul(n, entry_extent(b, j)), layout_gap(b->layout, j - 1));
    return n;
}

last_panel layout_last_panel(const buffer *b) {
    const layout *l = b->layout;
    last_panel p = {.columns = l->last, .tile = l->order[l->n - 1].tile};
    while (l->order[p.entry].axis != l->order[l->n - 1].axis) p.entry++;
    int64_t stride = dim_value(stride_of_whole(b, p.entry));
    p.number = dim_value(entry_extent(b, p.entry)) - 1;
    p.first = p.number * stride;
    p.rows = (stride - layout_gap(l, p.entry)) / p.tile;
    return p;
}

dim *layout_stride(const buffer *b, int entry) {
    if (!b->layout->last) return stride_of_whole(b, entry);
    last_panel p = layout_last_panel(b);
    return entry < p.entry ? dim_const(b->dims[-1]->table, p.first + (p.rows - 1) * p.columns + p.tile)
                           : stride_of_whole(b, entry);
}

dim *buffer_physical_count(const buffer *b) { return b->layout ? layout_stride(b, -1) : buffer_count(b); }

dim *buffer_bytes(const buffer *b) {
    enum { VALUE_BYTES = 40 }; // a struct onnxc_value where pointers have 64 bits
    if (b->holds) return dim_const(b->dims[-1]->table, VALUE_BYTES);
    dim *n = buffer_physical_count(b);
    int bits = dtype_bits(b->dtype);
    return bits >= 8 ? dim_mulk(n, bits / 8) : dim_ceildiv(dim_mulk(n, bits), dim_const(n->table, 8));
}

bool layout_equal(const layout *a, const layout *b) {
    if (!a || !b) return a == b;
    if (a->n != b->n || memcmp(&a->fill, &b->fill, sizeof a->fill) != 0) return false;
    if (a->gap != b->gap || a->gap_entry != b->gap_entry || a->last != b->last) return false;
    for (int j = 0; j < a->n; j++)
        if (a->order[j].axis != b->order[j].axis || a->order[j].tile != b->order[j].tile) return false;
    return memcmp(a->room, b->room, sizeof a->room) == 0 &&
           memcmp(a->pad_lo, b->pad_lo, sizeof a->pad_lo) == 0 &&
           memcmp(a->pad_hi, b->pad_hi, sizeof a->pad_hi) == 0;
}

// ---------------------------------------------------------------- building
kernel *kernel_new(program *p, const char *name, const loc *at) {
    kernel *k = ARENA_NEW(p->arena, kernel);
    k->arena = p->arena;
    k->program = p;
    k->name = arena_strdup(p->arena, name);
    k->loc = at;
    k->shared.arena = p->arena;
    k->id = p->kernels.n;
    if (at) VEC_PUSH(p->arena, &k->nodes, at);
    VEC_PUSH(p->arena, &p->kernels, k);
    return k;
}

int kernel_axis(kernel *k, axis_kind kind, const char *name, dim *extent) {
    VEC_PUSH(k->arena, &k->axes, (axis){arena_strdup(k->arena, name), kind, extent});
    return k->axes.n - 1;
}

stage *kernel_stage(kernel *k) {
    stage *s = ARENA_NEW(k->arena, stage);
    VEC_PUSH(k->arena, &k->stages, s);
    return s;
}

void stage_axis(kernel *k, stage *s, int axis) { VEC_PUSH(k->arena, &s->axes, axis); }

expr *stage_own_axis(kernel *k, stage *s, axis_kind kind, const char *name, dim *extent) {
    int a = kernel_axis(k, kind, name, extent);
    stage_axis(k, s, a);
    return x_axis(k, a);
}

static cell neutral(reduce_op op, dtype t) {
    bool f = dtype_is_float(t), one = op == RED_PROD;
    switch (op) {
    case RED_SUM:
    case RED_OR:
    case RED_PROD: return f ? (cell){.f = one} : (cell){.i = one};
    case RED_AND: return (cell){.i = t == DT_BOOL ? 1 : -1};
    case RED_MIN:
        if (f) return (cell){.f = INFINITY};
        return (cell){.i = t == DT_BOOL ? 1 : t == DT_U64 ? -1 : dtype_int_max(t)};
    case RED_MAX:
    case RED_NUMBER_MAX:
        if (f) return (cell){.f = -INFINITY};
        return (cell){.i = t == DT_BOOL ? 0 : dtype_int_min(t)};
    case RED_CUSTOM: break;
    }
    return (cell){0};
}

expr *reduce_neutral(kernel *k, reduce_op op, dtype t) {
    if (op == RED_CUSTOM) return NULL;
    cell v = neutral(op, t);
    return dtype_is_float(t) ? x_float(k, t, v.f) : x_int(k, t, v.i);
}

bool state_begins_neutral(const state *s) {
    if (s->op == RED_CUSTOM || s->init->op != X_CONST) return false;
    return s->init->dtype == s->dtype && s->init->i == neutral(s->op, s->dtype).i;
}

expr *stage_reduce(kernel *k, stage *s, reduce_op op, expr *term) {
    VEC_PUSH(k->arena, &s->states, (state){term->dtype, op, reduce_neutral(k, op, term->dtype), term, NULL});
    return x_state(k, s->states.n - 1, term->dtype);
}

expr *stage_state(kernel *k, stage *s, dtype t, expr *init) {
    VEC_PUSH(k->arena, &s->states, (state){t, RED_CUSTOM, init, NULL, NULL});
    return x_state(k, s->states.n - 1, t);
}

void stage_step(stage *s, int component, expr *step, expr *merge) {
    s->states.at[component].step = step;
    s->states.at[component].merge = merge;
}

write *stage_write(kernel *k, stage *s, buffer *to, expr *const *index, expr *v) {
    write w = {.to = to, .value = v};
    w.index = ARENA_ARRAY(k->arena, expr *, to->rank ? to->rank : 1);
    for (int j = 0; j < to->rank; j++) w.index[j] = index[j];
    VEC_PUSH(k->arena, &s->writes, w);
    return &s->writes.at[s->writes.n - 1];
}

static buffer *buffer_make(program *p, const char *name, buffer_role role, dtype t, int rank, dim *const *d) {
    buffer *b = ARENA_NEW(p->arena, buffer);
    b->name = arena_strdup(p->arena, name);
    b->role = role;
    b->dtype = t;
    b->rank = rank;
    // dims[-1] gives access to the table of dims also for rank 0.
    b->dims = ARENA_ARRAY(p->arena, dim *, rank + 1) + 1;
    b->dims[-1] = dim_const(p->dims, 1);
    for (int j = 0; j < rank; j++) b->dims[j] = d[j];
    return b;
}

buffer *kernel_local(kernel *k, const char *name, dtype t, int rank, dim *const *d) {
    buffer *b = buffer_make(k->program, name, BUF_LOCAL, t, rank, d);
    b->id = k->locals.n;
    VEC_PUSH(k->arena, &k->locals, b);
    return b;
}

buffer *program_buffer(program *p, const char *name, buffer_role role, dtype t, int rank, dim *const *d) {
    // Inside the program, strings are handles.
    bool inside = role == BUF_TEMP || role == BUF_HEAP;
    buffer *b = buffer_make(p, name, role, inside && t == DT_STRING ? DT_I64 : t, rank, d);
    b->id = p->buffers.n;
    VEC_PUSH(p->arena, &p->buffers, b);
    return b;
}

// ---------------------------------------------------------------- looking
void buffer_list_add(arena *a, buffer_list *l, buffer *b) {
    for (int j = 0; j < l->n; j++)
        if (l->at[j] == b) return;
    VEC_PUSH(a, l, b);
}

static void add_buffer(const kernel *k, buffer_list *l, buffer *b) {
    if (b->role != BUF_LOCAL) buffer_list_add(k->arena, l, b);
}

int kernel_buffers(const kernel *k, buffer ***out) {
    buffer_list l = {0};
    arena *scratch = arena_new();
    for (int s = 0; s < k->stages.n; s++)
        for (int j = 0; j < k->stages.at[s]->writes.n; j++)
            add_buffer(k, &l, k->stages.at[s]->writes.at[j].to);
    for (int s = 0; s < k->stages.n; s++) {
        expr_list reads = reads_only(stage_nodes(scratch, k->stages.at[s], PART_ALL));
        for (int j = 0; j < reads.n; j++) add_buffer(k, &l, reads.at[j]->buffer);
    }
    arena_destroy(scratch);
    *out = l.at;
    return l.n;
}

bool kernel_writes(const kernel *k, const buffer *b) {
    for (int s = 0; s < k->stages.n; s++)
        for (int j = 0; j < k->stages.at[s]->writes.n; j++)
            if (k->stages.at[s]->writes.at[j].to == b) return true;
    return false;
}

bool kernel_only_sets(const kernel *k, const buffer *b) {
    for (int s = 0; s < k->stages.n; s++)
        for (int j = 0; j < k->stages.at[s]->writes.n; j++) {
            const write *w = &k->stages.at[s]->writes.at[j];
            if (w->to == b && w->combine != COMBINE_SET) return false;
        }
    return true;
}

bool stage_reads(const stage *s, const buffer *b) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(stage_nodes(scratch, s, PART_ALL));
    bool found = false;
    for (int j = 0; j < reads.n; j++) found |= reads.at[j]->buffer == b;
    arena_destroy(scratch);
    return found;
}
bool kernel_reads(const kernel *k, const buffer *b) {
    for (int s = 0; s < k->stages.n; s++)
        if (stage_reads(k->stages.at[s], b)) return true;
    return false;
}

expr *kernel_only_read(const kernel *k, const buffer *root) {
    arena *scratch = arena_new();
    expr_list reads = reads_only(kernel_nodes(scratch, k, PART_ALL));
    expr *found = NULL;
    int n = 0;
    for (int j = 0; j < reads.n; j++)
        if (buffer_root(reads.at[j]->buffer) == root) found = reads.at[j], n++;
    arena_destroy(scratch);
    return n == 1 ? found : NULL;
}

static void map_write(kernel *k, write *w, expr *(*map)(void *user, expr *root), void *user) {
    expr **index = ARENA_ARRAY(k->arena, expr *, w->to->rank + 1); // others may have the same array
    for (int j = 0; j < w->to->rank; j++) index[j] = map(user, w->index[j]);
    w->index = index;
    w->value = map(user, w->value);
    if (w->guard) w->guard = map(user, w->guard);
}
void kernel_map_roots(kernel *k, expr *(*map)(void *user, expr *root), void *user) {
    for (int s = 0; s < k->stages.n; s++) {
        stage *st = k->stages.at[s];
        for (int j = 0; j < st->states.n; j++) {
            state *x = &st->states.at[j];
            if (x->init) x->init = map(user, x->init);
            if (x->step) x->step = map(user, x->step);
            if (x->merge) x->merge = map(user, x->merge);
        }
        for (int j = 0; j < st->writes.n; j++) map_write(k, &st->writes.at[j], map, user);
    }
}

typedef struct node_map {
    kernel *k;
    expr *(*map)(void *user, expr *e);
    void *user;
} node_map;
static expr *rewrite_root(void *user, expr *root) {
    const node_map *m = user;
    return expr_rewrite(m->k, root, m->map, m->user);
}
void kernel_rewrite(kernel *k, expr *(*map)(void *user, expr *e), void *user) {
    kernel_map_roots(k, rewrite_root, &(node_map){k, map, user});
}

// ---------------------------------------------------------------- verifying
typedef struct verify {
    const kernel *k;
    const stage *s;
    diag *d;
    bool reduce_allowed; // axes of reduce and scan kind may appear
    const char *where;
    arena *scratch;
} verify;

#define REQUIRE(v, holds, format, ...)                                                                       \
    do {                                                                                                     \
        if (!(holds)) diag_defect((v)->d, (v)->k->loc, "kernel %s: " format, (v)->k->name, __VA_ARGS__);     \
    } while (0)

static void check_axis(verify *v, const expr *e) {
    REQUIRE(v, e->axis >= 0 && e->axis < v->k->axes.n, "axis %d of %d", e->axis, v->k->axes.n);
    const axis *x = &v->k->axes.at[e->axis];
    bool own = e->axis < v->k->nouter;
    for (int j = 0; j < v->s->axes.n; j++) own |= v->s->axes.at[j] == e->axis;
    REQUIRE(v, own, "%s uses axis '%s' of another stage", v->where, x->name);
    REQUIRE(v, v->reduce_allowed || x->kind == AXIS_PARALLEL, "%s uses reduce axis '%s'", v->where, x->name);
}

static void verify_read(verify *v, const expr *e) {
    const buffer *b = e->buffer;
    REQUIRE(v, e->dtype == dtype_compute(b->dtype), "%s reads %s '%s' as %s", v->where, dtype_name(b->dtype),
            b->name, dtype_name(e->dtype));
    for (int j = 0; j < b->rank; j++)
        REQUIRE(v, e->index[j]->dtype == DT_I64, "index %d of '%s' is %s", j, b->name,
                dtype_name(e->index[j]->dtype));
}

static void verify_expr(verify *v, const expr *e) {
    if (e->op == X_AXIS) check_axis(v, e);
    if (e->op == X_STATE || e->op == X_OTHER)
        REQUIRE(v, e->axis < v->s->states.n && v->s->states.at[e->axis].dtype == e->dtype,
                "%s reads state %d of %d", v->where, e->axis, v->s->states.n);
    if (e->op == X_READ) verify_read(v, e);
    if (e->op == X_SELECT)
        REQUIRE(v, e->arg[0]->dtype == DT_BOOL && e->arg[1]->dtype == e->arg[2]->dtype,
                "select of %s, %s, %s", dtype_name(e->arg[0]->dtype), dtype_name(e->arg[1]->dtype),
                dtype_name(e->arg[2]->dtype));
}

static void verify_part(verify *v, expr *e, const char *where, bool reduce_allowed, dtype t) {
    v->where = where;
    v->reduce_allowed = reduce_allowed;
    REQUIRE(v, e, "%s is missing", where);
    REQUIRE(v, t == DT_NONE || e->dtype == t, "%s is %s, not %s", where, dtype_name(e->dtype), dtype_name(t));
    expr_list nodes = expr_nodes(v->scratch, e);
    for (int j = 0; j < nodes.n; j++) verify_expr(v, nodes.at[j]);
}

static void verify_stage(verify *v) {
    const stage *s = v->s;
    for (int j = 0; j < s->states.n; j++) {
        const state *st = &s->states.at[j];
        verify_part(v, st->init, "init", false, st->dtype);
        verify_part(v, st->step, "step", true, st->dtype);
        if (st->merge) verify_part(v, st->merge, "merge", false, st->dtype);
    }
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        bool inside = w->when != WRITE_END;
        if (w->to->role == BUF_CONST || w->to->role == BUF_INPUT)
            diag_defect(v->d, v->k->loc, "kernel %s writes '%s'", v->k->name, w->to->name);
        for (int i = 0; i < w->to->rank; i++) verify_part(v, w->index[i], "write index", inside, DT_I64);
        verify_part(v, w->value, "write value", inside, dtype_compute(w->to->dtype));
        if (w->guard) verify_part(v, w->guard, "write guard", inside, DT_BOOL);
    }
    bool past_parallel = false;
    for (int j = 0; j < s->axes.n; j++) {
        bool parallel = v->k->axes.at[s->axes.at[j]].kind == AXIS_PARALLEL;
        REQUIRE(v, !parallel || !past_parallel, "parallel axis '%s' after a reduce axis",
                v->k->axes.at[s->axes.at[j]].name);
        past_parallel |= !parallel;
    }
}

void kernel_verify(const kernel *k, diag *d) {
    verify v = {.k = k, .d = d, .scratch = arena_within(k->arena)};
    for (int a = 0; a < k->nouter; a++)
        REQUIRE(&v, k->axes.at[a].kind == AXIS_PARALLEL, "outer axis '%s' is not parallel",
                k->axes.at[a].name);
    for (int j = 0; j < k->stages.n; j++) {
        v.s = k->stages.at[j];
        verify_stage(&v);
    }
    arena_destroy(v.scratch);
}
