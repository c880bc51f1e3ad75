// Tasks of kernels of several stages that are columns of a matrix, such as channels of a convolution. In: a kernel whose outer
// loops may run once, as that over a batch. Out: an axis of each stage from some on, such that a position of it depends
// on the same position of the axes of stages before, and on what the other stages compute:
//
//   for n in N:                                     tasks: n, pieces of the channels m
//     V[c] = ...                                    in each task, if it is the first one of this n in its call
//     M[m] = sum over c of V[c] * U[c][m]           m, out[m]: those of the task
//     out[n][m] = f(M[m])
#include "passes/schedule/cpu/schedule_rows.h"

typedef struct column_search {
    emitter *e;
    const dim *extent;
    int *axis; // of each stage, -1: it computes everything
    int *
        place; // of each local by id: the index that is the axis; WHOLE: all of it is needed, NOT_READ: so far
    bool fails;
} column_search;

enum { WHOLE = -1, NOT_READ = -2 };

static int place_of_axis(const buffer *b, expr *const *index, int axis) {
    for (int j = 0; j < b->rank && axis >= 0; j++)
        if (index[j]->op == X_AXIS && index[j]->axis == axis) return j;
    return WHOLE;
}

static void read_locals(column_search *c, int stage) {
    emitter *e = c->e;
    expr_list reads = reads_only(stage_nodes(e->scratch, e->k->stages.at[stage], PART_ALL));
    for (int j = 0; j < reads.n; j++) {
        const buffer *b = reads.at[j]->buffer;
        if (b->role != BUF_LOCAL) continue;
        int place = place_of_axis(b, reads.at[j]->index, c->axis[stage]), *known = &c->place[b->id];
        if (*known != NOT_READ && *known != place) c->fails = true;
        *known = place;
    }
}

static bool has_axis(const column_search *c, const stage *s, int axis) {
    for (int j = 0; j < s->axes.n; j++)
        if (s->axes.at[j] == axis)
            return c->e->k->axes.at[axis].kind == AXIS_PARALLEL && c->e->extent[axis] == c->extent;
    return false;
}

// The axis of a stage whose results are read; the last one's is given.
static void find_axis(column_search *c, int stage) {
    const struct stage *s = c->e->k->stages.at[stage];
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        int place = w->to->role == BUF_LOCAL ? c->place[w->to->id] : WHOLE;
        if (place < 0) continue;
        const expr *at = w->index[place];
        if (at->op == X_AXIS && has_axis(c, s, at->axis)) c->axis[stage] = at->axis;
    }
}

// Writes of a stage with an axis are at its positions, those of the others are of locals.
static void check_writes(column_search *c, int stage) {
    const struct stage *s = c->e->k->stages.at[stage];
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        int place = place_of_axis(w->to, w->index, c->axis[stage]);
        if (w->to->role != BUF_LOCAL) c->fails |= place == WHOLE;
        else if (c->place[w->to->id] != NOT_READ) c->fails |= c->place[w->to->id] != place;
    }
}

static bool find_columns(column_search *c, int axis) {
    const kernel *k = c->e->k;
    c->fails = false;
    for (int j = 0; j < k->stages.n; j++) c->axis[j] = -1;
    for (int j = 0; j < k->locals.n; j++) c->place[k->locals.at[j]->id] = NOT_READ;
    for (int j = k->stages.n - 1; j >= 0 && !c->fails; j--) {
        if (j == k->stages.n - 1) c->axis[j] = axis;
        else find_axis(c, j);
        check_writes(c, j);
        read_locals(c, j);
    }
    return !c->fails;
}

// The innermost of the outer axes, if all of them may have one position only.
static int single_axis(const emitter *e) {
    int single = -1;
    for (int a = 0; a < e->k->nouter; a++) {
        if (dim_is(e->extent[a], 1)) continue;
        if (!may_be_single(e->extent[a])) return -1;
        single = a;
    }
    return single;
}

// Columns of a task: those of a wide tile, or of half of one; 0: there would be one task only.
static int64_t piece_of(const dim *n) {
    enum { WIDE = 64, NARROW = 32 };
    if (!dim_is_const(n)) return 0;
    for (int64_t piece = WIDE; piece >= NARROW; piece /= 2)
        if (dim_value(n) > piece && dim_value(n) % piece == 0) return piece;
    return 0;
}

bool share_columns(emitter *e) {
    const kernel *k = e->k;
    int outer = single_axis(e), last = k->stages.n - 1;
    if (outer < 0 || !e->task_begin || last < 1 || e->t->amx_int8 || e->t->amx_bf16) return false;
    column_search c = {.e = e, .axis = ARENA_ARRAY(e->scratch, int, k->stages.n)};
    int ids = 0;
    for (int j = 0; j < k->locals.n; j++)
        if (k->locals.at[j]->id >= ids) ids = k->locals.at[j]->id + 1;
    c.place = ARENA_ARRAY(e->scratch, int, ids + 1);
    const stage *s = k->stages.at[last];
    for (int j = 0; j < s->axes.n; j++) {
        int a = s->axes.at[j];
        c.extent = e->extent[a];
        int64_t piece = piece_of(c.extent);
        if (!piece || k->axes.at[a].kind != AXIS_PARALLEL || !find_columns(&c, a)) continue;
        bool *columns = ARENA_ARRAY(e->scratch, bool, k->axes.n);
        for (int i = 0; i <= last; i++)
            if (c.axis[i] >= 0) columns[c.axis[i]] = true;
        emitter_task_columns(e, outer, a, columns, piece);
        return true;
    }
    return false;
}
