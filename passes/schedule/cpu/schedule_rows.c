// Kernels of several stages: rows that are contiguous in memory run one by one, each stage vectorised
// separately; if adjacent elements belong to different rows (channels-last, softmax over outer axes), `lanes`
// rows run at a time, and each of their scalars is a vector:
//
//   for o in outer axes:               for o in outer axes, the last in steps of lanes:
//     for each stage: its nest           for each stage: its loops over [lanes]
#include "passes/schedule/cpu/schedule_rows.h"
#include "ir/kernel/kernel_cost.h"
#include "passes/schedule/common/nest.h"
#include "passes/schedule/cpu/schedule_contract.h"
#include "passes/schedule/cpu/schedule_slide.h"

struct row_vectors {
    emitter *e;
    int axis, lanes; // axis -1: rows one by one
    bool masked;
    ins **arrays; // by local: the memory of those that are arrays
    slide *slide; // rows one by one: how windows slide along them, NULL: otherwise
};

static row_vectors one_by_one(emitter *e) { return (row_vectors){.e = e, .axis = -1}; }

// ---------------------------------------------------------------- arrays of several rows
// Arrays among the locals hold a vector of rows per element: in scratch memory, if they are long. Those of open length are about as
// large as the part of an operand that they are computed from.
enum { LONGEST_ARRAYS = 1 << 20, LONGEST_WHERE_SCARCE = 1024 };

static bool arrays_fit(const emitter *e, int lanes) {
    bool scarce = !e->t->hosted || e->t->size_level;
    int64_t all = 0;
    for (int j = 0; j < e->k->locals.n; j++) {
        const buffer *b = e->k->locals.at[j];
        if (!b->rank) continue;
        dim *bytes = buffer_bytes(b);
        if (dtype_bits(b->dtype) < 8 || dtype_bits(b->dtype) > 64 || (scarce && !dim_is_const(bytes)))
            return false;
        if (dim_is_const(bytes)) all += dim_value(bytes) * lanes;
    }
    return all <= (scarce ? LONGEST_WHERE_SCARCE : LONGEST_ARRAYS);
}

// From now on, accesses to arrays are those of `lanes` rows of the axis; 0: of one row.
static void interleave_rows(emitter *e, int axis, int lanes) {
    e->row_axis = axis, e->row_lanes = lanes;
    for (int j = 0; j < e->k->stages.n; j++) {
        expr_list reads = reads_only(stage_nodes(e->scratch, e->k->stages.at[j], PART_ALL));
        for (int i = 0; i < reads.n; i++) {
            const buffer *b = reads.at[i]->buffer;
            if (b->role == BUF_LOCAL && b->rank) entry_of(e, reads.at[i])->read = NULL;
        }
    }
}

static void find_arrays(row_vectors *r) {
    emitter *e = r->e;
    r->arrays = ARENA_ARRAY(e->scratch, ins *, e->k->locals.n + 1);
    for (int j = 0; j < e->k->locals.n; j++)
        if (e->k->locals.at[j]->rank) r->arrays[j] = e->local[j];
}

// Positions along the row axis count from the first row of the vector.
static void place_arrays(const row_vectors *r) {
    emitter *e = r->e;
    for (int j = 0; j < e->k->locals.n; j++) {
        if (!r->arrays[j]) continue;
        ins *before = lb_sub(&e->b, lb_idx(&e->b, 0), e->counter[r->axis]);
        e->local[j] = lb_offset(&e->b, r->arrays[j], before, dtype_bits(e->k->locals.at[j]->dtype) / 8);
    }
}

// ---------------------------------------------------------------- choosing the axis
static int64_t elements_per_row(const nest *n) {
    int64_t all = 1;
    for (int j = 0; all && j < n->nparallel + n->ninner; j++) {
        const dim *extent = n->e->extent[j < n->nparallel ? n->parallel[j] : n->inner[j - n->nparallel]];
        all = extent->max < INT32_MAX / all ? all * extent->max : INT32_MAX;
    }
    return all;
}

// What the stages of `lanes` rows cost in simple operations, for rows that leave half of a vector empty.
typedef struct rows_cost {
    int64_t alone;    // row by row
    int64_t together; // in vectors of rows, whose elements are loaded and stored lane by lane
} rows_cost;

static void add_stage(emitter *e, const stage *s, int64_t elements, rows_cost *c) {
    int64_t lanes = target_lanes(e->t, 32), vectors = elements < 4 ? elements : (elements + 3) / 4;
    int64_t steps = 0, writes = 0, accesses = s->writes.n;
    expr_list reads = reads_only(stage_nodes(e->scratch, s, PART_ALL));
    for (int j = 0; j < reads.n; j++) accesses += reads.at[j]->buffer->role != BUF_LOCAL;
    for (int j = 0; j < s->states.n; j++) steps += value_work(e->scratch, s->states.at[j].step);
    for (int j = 0; j < s->writes.n; j++) writes += value_work(e->scratch, s->writes.at[j].value);
    int64_t each = s->states.n ? steps : writes, once = s->states.n ? writes : 0;
    c->alone += lanes * (vectors * each + once);
    c->together += elements * (each + lanes * accesses) + once;
}

// Whether vectors of rows pay even if they are scattered.
static bool rows_pay_scatters(emitter *e) {
    rows_cost c = {0};
    for (int j = 0; j < e->k->stages.n; j++) {
        int64_t elements = elements_per_row(nest_new(e, e->k->stages.at[j], false));
        if (2 * elements > target_lanes(e->t, 32)) return false;
        add_stage(e, e->k->stages.at[j], elements, &c);
    }
    return c.together < c.alone;
}

// The predicted benefit for all stages; 0: illegal for one of them.
static int score_of(emitter *e, int axis, row_vectors *r) {
    int all = 0;
    *r = (row_vectors){.e = e, .axis = axis, .lanes = 1 << 20, .masked = true};
    interleave_rows(e, axis, e->t->vector_bits / 8);
    bool scatters = rows_pay_scatters(e);
    for (int j = 0; j < e->k->stages.n; j++) {
        int lanes, score;
        nest *n = nest_new(e, e->k->stages.at[j], false);
        n->by_row = true, n->scatters = scatters;
        score = nest_vector_score(n, axis, false, &lanes);
        if (!score) return 0;
        all += score;
        r->masked &= nest_masks(n) && !scatters;
        if (lanes < r->lanes) r->lanes = lanes;
    }
    return all;
}

static row_vectors choose_axis(emitter *e) {
    const kernel *k = e->k;
    row_vectors best = one_by_one(e), r;
    int most = 0;
    if (!e->t->vector_bits) return best;
    for (int a = 0; a < k->nouter; a++) {
        int score = score_of(e, a, &r);
        if (score > most && arrays_fit(e, r.lanes)) most = score, best = r;
    }
    interleave_rows(e, best.axis, best.axis < 0 ? 0 : best.lanes);
    return best;
}

// ---------------------------------------------------------------- loops
static void one_of_stages(emitter *e, stage *s) {
    contraction c;
    if (contraction_in_stage(e->k, s, &c) && c.m.n && schedule_contraction(e, &c, NULL)) return;
    nest_stage(e, s, false, -1);
}

static void stages(const row_vectors *r, int lanes) {
    emitter *e = r->e;
    if (r->axis >= 0) place_arrays(r);
    if (r->slide) {
        schedule_slide(r->slide);
        return;
    }
    for (int j = 0; j < e->k->stages.n; j++) {
        stage *s = e->k->stages.at[j];
        if (r->axis < 0) {
            one_of_stages(e, s);
            continue;
        }
        nest *n = nest_new(e, s, false);
        emitter_stage(e, s, r->axis, lanes, lanes > 1);
        scope mark = scope_open(e);
        nest_loops(n);
        scope_close(e, mark);
    }
}

// Makes variables of the kernel hold a value per lane.
static void wide_variables(emitter *e, int lanes) {
    e->variables_vary = lanes > 1;
    for (int j = 0; j < e->k->locals.n; j++) {
        if (e->k->locals.at[j]->rank) continue;
        ltype t = lt(e->local[j]->type.kind, lanes);
        e->local[j] = lb_var(&e->b, e->k->locals.at[j]->name, lb_int(&e->b, t, 0));
    }
}

static void row_loop(const row_vectors *r, ins *begin, ins *end, int lanes) {
    emitter *e = r->e;
    wide_variables(e, lanes);
    scope loop = scope_axis(e, r->axis, begin, end, lanes, LOOP_PARALLEL);
    stages(r, lanes);
    scope_close(e, loop);
}

static void masked_rows(const row_vectors *r, ins *begin, ins *end) {
    scope part = open_partial_vector(r->e, r->axis, begin, end);
    stages(r, r->lanes);
    close_partial_vector(r->e, part);
}

// A task has as many rows as a vector has lanes.
static void vectors_of_rows(const row_vectors *r) {
    emitter *e = r->e;
    lbuild *b = &e->b;
    ins *begin, *end;
    piece_range(e, r->axis, r->lanes, &begin, &end);
    ins *full = lb_add(b, begin, emit_int_floor(b, lb_sub(b, end, begin), r->lanes));
    row_loop(r, begin, full, r->lanes);
    if (same_index(full, end)) return;
    if (r->masked) masked_rows(r, full, end);
    else row_loop(r, full, end, 1);
}

static void outer_loops(const row_vectors *r, int axis) {
    emitter *e = r->e;
    if (axis == e->k->nouter) {
        if (r->axis >= 0) vectors_of_rows(r);
        else stages(r, 1);
        return;
    }
    if (axis == r->axis) {
        outer_loops(r, axis + 1);
        return;
    }
    scope loop = scope_parallel(e, axis);
    outer_loops(r, axis + 1);
    scope_close(e, loop);
}

// ---------------------------------------------------------------- entry
// Different tasks must not share bytes nor combine the same elements.
static void choose_tasks(const row_vectors *r, int single) {
    emitter *e = r->e;
    for (int j = 0; j < e->k->stages.n; j++)
        if (!nest_writes_disjoint(e->k->stages.at[j])) return;
    if (r->axis < 0 && !r->slide && single < 0 && share_columns(e)) return;
    task_axes all = {.least = 2, .chunked = r->axis, .piece = r->lanes, .single = single};
    for (int a = 0; a < e->k->nouter && all.n < MAX_TASK_AXES; a++) all.axes[all.n++] = a;
    emitter_choose_tasks(e, &all);
}

void rows_choose_tasks(emitter *e, int single) {
    row_vectors r = one_by_one(e);
    choose_tasks(&r, single);
}
void schedule_rows_one_by_one(emitter *e) {
    row_vectors r = one_by_one(e);
    outer_loops(&r, 0);
}

row_vectors *rows_choose(emitter *e) {
    row_vectors *r = ARENA_NEW(e->scratch, row_vectors);
    *r = choose_axis(e);
    return r;
}

void schedule_rows(row_vectors *r) {
    if (r->axis >= 0) find_arrays(r);
    else r->slide = slide_find(r->e);
    choose_tasks(r, -1);
    outer_loops(r, 0);
}
