// One unscheduled kernel, over strips of cells: the axis with the most independent positions is walked in
// strips, other kernels one position at a time.
#include "compiler/base/integers.h"
#include "ir/kernel/interp_stage.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool varies_along(run *r, const expr *e) {
    if (e->op == X_AXIS) return e->axis == r->strip_axis || r->lane_at[e->axis];
    if (e->op == X_STATE || e->op == X_OTHER) return r->lanes > 1;
    bool v = false;
    for (int j = 0; j < expr_arity(e->op); j++) v |= r->varies[e->arg[j]->id];
    if (e->op != X_READ) return v;
    for (int j = 0; j < e->buffer->rank; j++) v |= r->varies[e->index[j]->id];
    if (e->guard) v |= r->varies[e->guard->id] || r->varies[e->fill->id];
    return v;
}

static memory *memory_of(run *r, const buffer *b) {
    return b->role == BUF_LOCAL ? &r->local[b->id] : &r->in->at[b->id];
}

static _Noreturn void out_of_range(run *r, const char *verb, const buffer *b, int axis, int64_t index,
                                   int64_t n) {
    diag_defect(r->in->p->diag, r->k->loc, "kernel %s %s '%s' at %lld on axis %d of size %lld", r->k->name,
                verb, b->name, (long long)index, axis, (long long)n);
}

// Halos and the rest of a last tile may be accessed too.
static bool index_is_inside(const buffer *b, int axis, int64_t index, int64_t n) {
    const layout *l = b->layout;
    if (!l) return index >= 0 && index < n;
    int64_t tile = 1;
    for (int j = 0; j < l->n; j++)
        if (l->order[j].axis == axis && l->order[j].tile) tile *= l->order[j].tile;
    int64_t size = round_up(n + l->pad_lo[axis] + l->pad_hi[axis], tile);
    return index >= -l->pad_lo[axis] && index < size - l->pad_lo[axis];
}

// From the offset in panels that are all equally wide.
static int64_t offset_in_panels(const buffer *b, int64_t whole) {
    last_panel p = layout_last_panel(b);
    int64_t at = whole - p.first;
    return at < 0 ? whole : p.first + at / p.tile * p.columns + at % p.tile;
}

// Element offset under the buffer's layout, checking each logical index.
static int64_t element_offset(run *r, const char *verb, const buffer *b, const memory *m, expr *const *index,
                              int64_t lane) {
    int64_t at[MAX_RANK], offset = 0;
    for (int j = 0; j < b->rank; j++) {
        at[j] = r->cells[index[j]->id][r->varies[index[j]->id] ? lane : 0].i;
        if (!index_is_inside(b, j, at[j], m->dims[j])) out_of_range(r, verb, b, j, at[j], m->dims[j]);
        offset += at[j] * m->stride[j];
    }
    if (!b->layout) return offset;
    const layout *l = b->layout;
    int64_t scale = 1;
    int64_t left[MAX_RANK];
    for (int j = 0; j < b->rank; j++) left[j] = at[j] + l->pad_lo[j];
    offset = 0;
    for (int j = l->n - 1; j >= 0; j--) { // innermost first: take each entry's digit
        int axis = l->order[j].axis;
        int64_t extent = m->extent[j];
        offset += (left[axis] % extent) * scale;
        left[axis] /= extent;
        scale = scale * extent + layout_gap(l, j - 1);
    }
    return l->last ? offset_in_panels(b, offset) : offset;
}

// The same for n lanes; those whose guard does not hold have any offset.
static const int64_t *strip_offsets(run *r, const char *verb, const buffer *b, const memory *m,
                                    expr *const *index, const expr *guard, int64_t n) {
    const cell *live = guard ? r->cells[guard->id] : NULL;
    int per_lane = guard && r->varies[guard->id];
    bool slow = b->layout != NULL, outside = false;
    memset(r->offset, 0, (size_t)n * sizeof *r->offset);
    for (int j = 0; j < b->rank && !slow; j++) {
        const cell *at = r->cells[index[j]->id];
        int step = r->varies[index[j]->id];
        for (int64_t lane = 0; lane < n; lane++) {
            int64_t i = at[lane * step].i;
            outside |= (uint64_t)i >= (uint64_t)m->dims[j] && (!live || live[lane * per_lane].i);
            r->offset[lane] += (int64_t)((uint64_t)i * (uint64_t)m->stride[j]);
        }
    }
    for (int64_t lane = 0; lane < n && (slow || outside); lane++)
        if (!live || live[lane * per_lane].i) r->offset[lane] = element_offset(r, verb, b, m, index, lane);
    return r->offset;
}

static cell load(run *r, const memory *m, dtype t, int64_t at) {
    if (t != DT_C128) return eval_load(t, m->data, at);
    return eval_load(DT_C64, m->data, 2 * at + r->half);
}
static void store(run *r, const memory *m, dtype t, int64_t at, cell v) {
    if (t == DT_C128) eval_store(DT_C64, m->data, 2 * at + r->half, v);
    else eval_store(t, m->data, at, v);
}

static void eval_read(run *r, const expr *e, int64_t n, cell *out) {
    const memory *m = memory_of(r, e->buffer);
    if (!m->live)
        diag_defect(r->in->p->diag, r->k->loc, "kernel %s reads '%s', which has no memory", r->k->name,
                    e->buffer->name);
    const int64_t *at = strip_offsets(r, "reads", e->buffer, m, e->index, e->guard, n);
    for (int64_t j = 0; j < n; j++)
        out[j] = e->guard && !strip_result(r, e->guard, j).i ? strip_result(r, e->fill, j)
                                                             : load(r, m, e->buffer->dtype, at[j]);
}

static void stop_check(run *r, const expr *e, int64_t lane) {
    const expr *index, *size;
    arena *a = r->in->arena;
    if (!check_operands(e, &index, &size)) interp_stop(r->in, INTERP_FAILED, failure_text(a, r->k, e->axis));
    interp_stop(r->in, INTERP_FAILED,
                text_numbered(a, failure_numbered(a, r->k, e->axis), strip_result(r, index, lane).i,
                              strip_result(r, size, lane).i));
}

static void eval_check(run *r, const expr *e, int64_t n, cell *out) {
    const cell *a = r->cells[e->arg[0]->id], *b = r->cells[e->arg[1]->id];
    int sa = r->varies[e->arg[0]->id], sb = r->varies[e->arg[1]->id];
    for (int64_t j = 0; j < n; j++) {
        if (!b[j * sb].i) stop_check(r, e, j);
        out[j] = a[j * sa];
    }
}

static void eval_leaf(run *r, const expr *e, int64_t n, cell *out) {
    switch (e->op) {
    case X_CONST: out[0].i = e->i; return;
    case X_AXIS:
        for (int64_t j = 0; j < n; j++)
            out[j].i = r->lane_at[e->axis] ? r->lane_at[e->axis][j] : r->pos[e->axis] + j;
        return;
    case X_DIM: out[0].i = interp_dim(r->in, e->dim); return;
    case X_STATE: memcpy(out, r->state[e->axis], (size_t)n * sizeof *out); return;
    case X_OTHER: memcpy(out, r->other[e->axis], (size_t)n * sizeof *out); return;
    case X_READ: eval_read(r, e, n, out); return;
    case X_COUNT:
#define LEAF(...)
#define OP(op, ...) case op:
#include "ir/kernel/expr_ops.def"
        return;
    }
}

static void eval_expr(run *r, const expr *e, int64_t n) {
    cell *out = r->cells[e->id];
    if (!r->varies[e->id]) n = 1;
    if (expr_op_class(e->op) == XC_LEAF) return eval_leaf(r, e, n, out);
    if (e->op == X_CHECK) return eval_check(r, e, n, out);
    cells in[3] = {{0}};
    for (int j = 0; j < expr_arity(e->op); j++)
        in[j] = (cells){r->cells[e->arg[j]->id], r->varies[e->arg[j]->id]};
    eval_op(e, n, in, out);
}

void strip_eval(run *r, const expr_list *c, int64_t n) {
    for (int j = 0; j < c->n; j++) eval_expr(r, c->at[j], n);
}
void strip_charge(run *r, int64_t work) {
    r->in->work += work;
    if (r->in->limits.work && r->in->work > r->in->limits.work) interp_stop(r->in, INTERP_LIMIT, "work");
}
static void eval_code(run *r, const expr_list *c, int64_t n) {
    strip_eval(r, c, n);
    strip_charge(r, n * c->n);
}

// ---------------------------------------------------------------- writes
static cell combine(write_combine op, dtype t, cell old, cell v) {
    bool f = dtype_is_float(t);
    bool less = f ? v.f < old.f : t == DT_U64 ? (uint64_t)v.i < (uint64_t)old.i : v.i < old.i;
    bool nan = f && (old.f != old.f || v.f != v.f);
    switch (op) {
    case COMBINE_SET: return v;
    case COMBINE_ADD:
        return f ? (cell){.f = old.f + v.f} : (cell){.i = (int64_t)((uint64_t)old.i + (uint64_t)v.i)};
    case COMBINE_MUL:
        return f ? (cell){.f = old.f * v.f} : (cell){.i = (int64_t)((uint64_t)old.i * (uint64_t)v.i)};
    case COMBINE_MIN: return nan ? (cell){.f = old.f + v.f} : less ? v : old;
    case COMBINE_MAX: return nan ? (cell){.f = old.f + v.f} : less ? old : v;
    }
    return v;
}

void strip_writes(run *r, write_when when, int64_t n) {
    for (int j = 0; j < r->s->writes.n; j++) {
        const write *w = &r->s->writes.at[j];
        if (w->when != when) continue;
        memory *m = memory_of(r, w->to);
        if (!m->live)
            diag_defect(r->in->p->diag, r->k->loc, "kernel %s writes '%s', which has no memory", r->k->name,
                        w->to->name);
        const int64_t *at = strip_offsets(r, "writes", w->to, m, w->index, w->guard, n);
        for (int64_t lane = 0; lane < n; lane++) {
            if (w->guard && !strip_result(r, w->guard, lane).i) continue;
            cell v = strip_result(r, w->value, lane);
            if (w->combine != COMBINE_SET)
                v = combine(w->combine, w->value->dtype, load(r, m, w->to->dtype, at[lane]), v);
            store(r, m, w->to->dtype, at[lane], v);
        }
    }
}

static expr_list writes_code(run *r, write_when when) {
    stage some = {0};
    for (int j = 0; j < r->s->writes.n; j++)
        if (r->s->writes.at[j].when == when) VEC_PUSH(r->arena, &some.writes, r->s->writes.at[j]);
    return stage_nodes(r->arena, &some, PART_WRITES);
}

// ---------------------------------------------------------------- states
static cell reduce_cells(reduce_op op, dtype t, cell s, cell v) {
    switch (op) {
    // Sums of floats stay in double until the end: the oracle should be nearer the truth than what it judges.
    case RED_SUM: return combine(COMBINE_ADD, t, s, v);
    case RED_PROD: return combine(COMBINE_MUL, t, s, v);
    case RED_MIN: return combine(COMBINE_MIN, t, s, v);
    case RED_MAX: return combine(COMBINE_MAX, t, s, v);
    case RED_NUMBER_MAX:
        return dtype_is_float(t) ? (cell){.f = fmax(s.f, v.f)} : combine(COMBINE_MAX, t, s, v);
    case RED_AND: return (cell){.i = s.i & v.i};
    case RED_OR: return (cell){.i = s.i | v.i};
    case RED_CUSTOM: break;
    }
    return v;
}

// One step of all states for n lanes; when the strip axis is a reduce axis, folds the lanes into lane 0.
static void step_states(run *r, int64_t n, bool fold) {
    const stage *s = r->s;
    for (int j = 0; j < s->states.n; j++) {
        const state *st = &s->states.at[j];
        if (st->op == RED_CUSTOM) continue;
        for (int64_t lane = 0; lane < n; lane++) {
            cell *to = &r->state[j][fold ? 0 : lane];
            *to = reduce_cells(st->op, st->dtype, *to, strip_result(r, st->step, lane));
        }
    }
    for (int j = 0; j < s->states.n; j++) { // after all were computed from the old ones
        const state *st = &s->states.at[j];
        if (st->op != RED_CUSTOM) continue;
        for (int64_t lane = 0; lane < n; lane++) r->state[j][lane] = strip_result(r, st->step, lane);
    }
}

void strip_round(run *r, int64_t n) {
    for (int j = 0; j < r->s->states.n; j++) {
        const state *st = &r->s->states.at[j];
        if (st->op == RED_CUSTOM) continue;
        for (int64_t lane = 0; lane < n; lane++)
            r->state[j][lane] = eval_cast(r->state[j][lane], st->dtype, st->dtype, true);
    }
}

// ---------------------------------------------------------------- one stage
static void init_states(run *r, const plan *p, int64_t n) {
    eval_code(r, &p->init, n);
    for (int j = 0; j < r->s->states.n; j++)
        for (int64_t lane = 0; lane < (p->fold ? 1 : n); lane++)
            r->state[j][lane] = strip_result(r, r->s->states.at[j].init, p->fold ? 0 : lane);
}

static void inner_step(run *r, const plan *p, int64_t n) {
    if (p->before.n) eval_code(r, &p->before, n), strip_writes(r, WRITE_BEFORE, n);
    eval_code(r, &p->step, n);
    step_states(r, n, p->fold);
    if (p->after.n) eval_code(r, &p->after, n), strip_writes(r, WRITE_AFTER, n);
}

static void inner_loop(run *r, const plan *p, int depth, int64_t n) {
    if (depth == p->ninner) {
        inner_step(r, p, n);
        return;
    }
    int a = p->inner[depth];
    if (a == r->strip_axis) {
        for (int64_t i = 0; i < r->extent[a]; i += STRIP) {
            r->pos[a] = i;
            r->lanes = r->extent[a] - i < STRIP ? r->extent[a] - i : STRIP;
            inner_step(r, p, r->lanes);
        }
        return;
    }
    for (int64_t i = 0; i < r->extent[a]; i++) {
        r->pos[a] = i;
        inner_loop(r, p, depth + 1, n);
    }
}

static void at_point(run *r, const plan *p, int64_t n) {
    bool c128 = false;
    for (int j = 0; j < r->s->writes.n; j++) c128 |= r->s->writes.at[j].to->dtype == DT_C128;
    for (r->half = 0; r->half <= c128; r->half++) {
        init_states(r, p, n);
        if (r->s->states.n || p->ninner) inner_loop(r, p, 0, n);
        strip_round(r, p->fold ? 1 : n);
        if (p->end.n) {
            eval_code(r, &p->end, p->fold ? 1 : n);
            strip_writes(r, WRITE_END, p->fold ? 1 : n);
        }
    }
}

static void parallel_loop(run *r, const plan *p, int depth) {
    if (depth == p->nparallel) {
        at_point(r, p, 1);
        return;
    }
    int a = p->parallel[depth];
    if (a == r->strip_axis) { // always the last
        for (int64_t i = 0; i < r->extent[a]; i += STRIP) {
            r->pos[a] = i;
            r->lanes = r->extent[a] - i < STRIP ? r->extent[a] - i : STRIP;
            at_point(r, p, r->lanes);
        }
        return;
    }
    for (int64_t i = 0; i < r->extent[a]; i++) {
        r->pos[a] = i;
        parallel_loop(r, p, depth + 1);
    }
}

static int longest(const run *r, const int *axes, int n) {
    int best = -1;
    for (int j = 0; j < n; j++)
        if (r->extent[axes[j]] > 1 && (best < 0 || r->extent[axes[j]] >= r->extent[axes[best]])) best = j;
    return best;
}
static void move_last(int *axes, int n, int which) {
    int a = axes[which];
    memmove(axes + which, axes + which + 1, (size_t)(n - which - 1) * sizeof *axes);
    axes[n - 1] = a;
}

// Folding along a reduce axis needs states that are plain reductions and no ordered writes.
static bool can_fold(const run *r, const plan *p) {
    for (int j = 0; j < r->s->states.n; j++)
        if (r->s->states.at[j].op == RED_CUSTOM) return false;
    for (int j = 0; j < r->s->writes.n; j++)
        if (r->s->writes.at[j].when != WRITE_END || r->s->writes.at[j].combine != COMBINE_SET) return false;
    for (int j = 0; j < p->ninner; j++)
        if (r->k->axes.at[p->inner[j]].kind != AXIS_REDUCE) return false;
    return true;
}

static void choose_strip(run *r, plan *p) {
    r->strip_axis = -1;
    r->lanes = 1;
    int par = longest(r, p->parallel, p->nparallel),
        red = can_fold(r, p) ? longest(r, p->inner, p->ninner) : -1;
    int64_t pn = par < 0 ? 0 : r->extent[p->parallel[par]], rn = red < 0 ? 0 : r->extent[p->inner[red]];
    if (rn > 4 * pn) {
        move_last(p->inner, p->ninner, red);
        r->strip_axis = p->inner[p->ninner - 1];
        p->fold = true;
    } else if (par >= 0) {
        move_last(p->parallel, p->nparallel, par);
        r->strip_axis = p->parallel[p->nparallel - 1];
    }
    r->lanes = r->strip_axis < 0 ? 1 : 2;
}

void strip_cells(run *r, const expr_list *c) {
    for (int j = 0; j < c->n; j++) {
        const expr *e = c->at[j];
        r->varies[e->id] = varies_along(r, e);
        if (!r->cells[e->id]) r->cells[e->id] = ARENA_ARRAY(r->arena, cell, STRIP);
    }
}

// States are per lane except while folding, where lanes are positions of the reduce axis.
static void make_code(run *r, plan *p) {
    const stage *s = r->s;
    for (int j = 0; j < s->states.n; j++)
        if (!r->state[j]) r->state[j] = ARENA_ARRAY(r->arena, cell, STRIP);
    p->init = stage_nodes(r->arena, s, PART_INIT);
    p->step = stage_nodes(r->arena, s, PART_STEP);
    p->before = writes_code(r, WRITE_BEFORE);
    p->after = writes_code(r, WRITE_AFTER);
    p->end = writes_code(r, WRITE_END);
    strip_cells(r, &p->init);
    strip_cells(r, &p->step);
    strip_cells(r, &p->before);
    strip_cells(r, &p->after);
    strip_cells(r, &p->end);
}

// Everything about a stage that does not change between iterations of the outer axes.
static plan *plan_stage(run *r, const stage *s, bool outer_too) {
    plan *p = ARENA_NEW(r->arena, plan);
    r->s = s;
    r->varies = p->varies = ARENA_ARRAY(r->arena, uint8_t, r->k->exprs.n + 1);
    if (outer_too)
        for (int a = 0; a < r->k->nouter; a++) p->parallel[p->nparallel++] = a;
    for (int j = 0; j < s->axes.n; j++) {
        int a = s->axes.at[j];
        if (r->k->axes.at[a].kind == AXIS_PARALLEL) p->parallel[p->nparallel++] = a;
        else p->inner[p->ninner++] = a;
    }
    choose_strip(r, p);
    p->strip_axis = r->strip_axis;
    make_code(r, p);
    p->product = product_find(r, p);
    return p;
}

static void run_stage(run *r, const stage *s, const plan *p) {
    r->s = s;
    if (p->product) {
        product_run(r, p, p->product);
        return;
    }
    r->varies = p->varies;
    r->strip_axis = p->strip_axis;
    parallel_loop(r, p, 0);
}

static void outer_loop(run *r, plan **plans, int depth) {
    if (depth == r->k->nouter) {
        for (int j = 0; j < r->k->stages.n; j++) run_stage(r, r->k->stages.at[j], plans[j]);
        return;
    }
    for (int64_t i = 0; i < r->extent[depth]; i++) {
        r->pos[depth] = i;
        outer_loop(r, plans, depth + 1);
    }
}

static void make_locals(run *r) {
    r->local = ARENA_ARRAY(r->arena, memory, r->k->locals.n + 1);
    for (int j = 0; j < r->k->locals.n; j++) {
        memory *m = &r->local[j];
        m->bytes = memory_shape(r->in, m, r->k->locals.at[j]);
        m->data = arena_alloc(r->arena, (size_t)m->bytes + 16);
        m->live = true;
    }
}

void interp_kernel(interp *in, const kernel *k) {
    run r = {.in = in, .k = k, .arena = arena_new()};
    in->scratch = r.arena;
    r.extent = ARENA_ARRAY(r.arena, int64_t, k->axes.n + 1);
    r.pos = ARENA_ARRAY(r.arena, int64_t, k->axes.n + 1);
    r.offset = ARENA_ARRAY(r.arena, int64_t, STRIP);
    r.lane_at = ARENA_ARRAY(r.arena, int64_t *, k->axes.n + 1);
    r.cells = ARENA_ARRAY(r.arena, cell *, k->exprs.n + 1);
    for (int a = 0; a < k->axes.n; a++) r.extent[a] = interp_dim(in, k->axes.at[a].extent);
    make_locals(&r);
    bool one = k->stages.n == 1;
    plan **plans = ARENA_ARRAY(r.arena, plan *, k->stages.n + 1);
    for (int j = 0; j < k->stages.n; j++) plans[j] = plan_stage(&r, k->stages.at[j], one);
    if (one) run_stage(&r, k->stages.at[0], plans[0]);
    else outer_loop(&r, plans, 0);
    in->scratch = NULL;
    arena_destroy(r.arena);
}
