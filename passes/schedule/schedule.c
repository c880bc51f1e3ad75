// Schedules for the CPU: selects the schedule of a kernel, and has the one for everything that is not a
// contraction. Each stage becomes a nest over its parallel axes; one axis is vectorised:
//
//   for p in parallel axes:            for p in parallel axes:
//     for v in steps of lanes:           acc[lanes] = neutral
//       state[lanes] = init              for r in reduce axes, the last in steps of lanes:
//       for r in reduce axes: step         acc = acc op term
//       write v .. v + lanes             state = horizontal(acc); write
#include "passes/schedule/common/schedule.h"
#include "ir/kernel/kernel_cost.h"
#include "ir/loops/convert.h"
#include "passes/memory/memory_plan.h"
#include "passes/schedule/common/emit.h"
#include "passes/schedule/common/nest.h"
#include "passes/schedule/cpu/contract_bytes.h"
#include "passes/schedule/cpu/schedule_attention.h"
#include "passes/schedule/cpu/schedule_cblas.h"
#include "passes/schedule/cpu/schedule_contract.h"
#include "passes/schedule/cpu/schedule_copy.h"
#include "passes/schedule/cpu/schedule_groups.h"
#include "passes/schedule/cpu/schedule_interleave.h"
#include "passes/schedule/cpu/schedule_rows.h"
#include "passes/schedule/cpu/schedule_tiles.h"
#include "passes/schedule/cpu/schedule_transpose.h"
#include "passes/schedule/cpu/tile_parts.h"
#include "passes/schedule/gpu/schedule_gpu.h"
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// ---------------------------------------------------------------- choosing the vector axis
// Terms of the cost of vectorising an axis: numbers of contiguous, uniform (broadcast), nearly contiguous and
// gathered accesses. Small strides count as nothing.
typedef struct vector_cost {
    emitter *e;
    int axis;
    int unit, uniform, adjacent, gather;
    int bits;   // widest element or value of a vector
    bool all;   // values vary along the axis even if they do not use it: states, row by row
    bool whole; // vectors start at multiples of the lanes
    bool parts; // reads are linear in parts of the axis
    int work;   // simple operations on values that vary along the axis
} vector_cost;

static void widen(vector_cost *v, dtype t) {
    dtype codes = v->e->b.codes;
    int bits = t == DT_BOOL ? 8 : dtype_bits(codes && t == DT_F32 ? codes : dtype_compute(t));
    if (bits > v->bits) v->bits = bits;
}
// Reads of adjacent elements, each repeated a power of two times: they fill vectors evenly.
static bool repeats_evenly(const vector_cost *v, const access *a) {
    int64_t c = v->whole && a->repeats && dtype_bits(a->buffer->dtype) >= 8 ? a->repeats[v->axis] : 0;
    return c > 0 && (c & (c - 1)) == 0;
}
static bool may_run(const vector_cost *v, const access *a) {
    return v->whole && a->runs && a->runs[v->axis] && dtype_bits(a->buffer->dtype) >= 8;
}
static void cost_of_access(vector_cost *v, const access *a) {
    const expr *c = a->coef[v->axis];
    if (!c && (v->parts || repeats_evenly(v, a) || may_run(v, a))) v->adjacent++;
    else if (!c && expr_uses_axis(a->offset, v->axis)) v->gather++;
    else if (!c) v->uniform++;
    else if (expr_is_int(c, 0)) v->uniform++;
    else if (expr_is_int(c, 1)) v->unit++;
    else if (!v->e->t->dot_across && !access_stride(a, v->axis)) v->gather++;
}
// Vectors are divided lane by lane where there are 64 bits. Positions are divided in other ways.
static bool divides_lanes(const expr *x) {
    bool divides = x->op == X_DIV || x->op == X_FLOORDIV || x->op == X_MOD || x->op == X_FMOD;
    if (!divides || x->dtype != DT_I64) return false;
    const expr *by = x->arg[1];
    return by->op != X_CONST || by->i <= 0 || (by->i & (by->i - 1));
}

static void cost_of_expr(vector_cost *v, expr *x, bool only_index) {
    if (x->op == X_READ) {
        access *a = entry_of(v->e, x)->read;
        if (a) cost_of_access(v, a);
        bool guarded = x->guard && expr_uses_axis(x->guard, v->axis);
        if (a && a->coef[v->axis] && expr_is_int(a->coef[v->axis], 0) && !guarded) return;
        widen(v, x->dtype);
    } else if (!v->all && !expr_uses_axis(x, v->axis)) {
        return;
    } else if (x->op != X_CONST && x->op != X_AXIS && x->op != X_DIM && x->dtype != DT_I64) {
        widen(v, x->dtype);
    }
    if (x->op == X_CAST && !only_index) widen(v, x->dtype);
}

// Whether the operands of x are only needed for an index that fits 32 bits, as x itself is, or as such a read.
static bool narrows(vector_cost *v, expr *x, bool only_index) {
    bool small = lindex_kind(v->e->t) == LK_I32;
    if (x->op == X_READ) return !x->guard && (small || emit_gathers_narrow(v->e, x, v->axis));
    return only_index && x->dtype == DT_I64 && (x->op == X_ADD || x->op == X_SUB || x->op == X_MUL);
}

static void cost_of_value(vector_cost *v, expr *value) {
    expr_list all = expr_nodes(v->e->scratch, value);
    bool *wide = ARENA_ARRAY(v->e->scratch, bool, v->e->k->exprs.n + 1);
    bool *computed = ARENA_ARRAY(v->e->scratch, bool, v->e->k->exprs.n + 1); // not only for positions
    wide[value->id] = computed[value->id] = true;
    for (int j = all.n - 1; j >= 0; j--) {
        expr *operand[MAX_RANK + 3], *x = all.at[j];
        int n = expr_operands(x, operand);
        bool narrow = narrows(v, x, !wide[x->id]);
        for (int i = 0; i < n; i++) wide[operand[i]->id] |= !narrow;
        for (int i = 0; i < n && x->op != X_READ; i++) computed[operand[i]->id] |= computed[x->id];
        if (!computed[x->id] || !expr_uses_axis(x, v->axis)) continue;
        v->work += expr_op_cost(x->op);
        v->gather += divides_lanes(x);
    }
    for (int j = 0; j < all.n; j++) cost_of_expr(v, all.at[j], !wide[all.at[j]->id]);
}

static vector_cost vector_cost_of(nest *n, int axis, bool reduce) {
    vector_cost v = {.e = n->e, .axis = axis, .bits = 8, .whole = !reduce && !n->by_row};
    nest_parts parts;
    nest_run run;
    v.parts = !reduce && (nest_parts_find(n, axis, &parts) || nest_run_find(n, axis, &run));
    for (int j = 0; j < n->s->states.n; j++) {
        v.all = n->by_row || n->s->states.at[j].op == RED_CUSTOM;
        cost_of_value(&v, n->s->states.at[j].step);
        widen(&v, n->s->states.at[j].dtype);
    }
    v.all = n->by_row || n->s->states.n;
    bool open = !dim_is_const(n->e->extent[axis]); // lanes of a tail cost even if they are not stored
    for (int j = 0; j < n->s->writes.n; j++) {
        cost_of_value(&v, n->s->writes.at[j].value);
        if (open) widen(&v, n->s->writes.at[j].to->dtype);
    }
    return v;
}

static bool reads_variable(const emitter *e, expr *x) {
    expr_list reads = reads_only(expr_nodes(e->scratch, x));
    for (int j = 0; j < reads.n; j++)
        if (emit_is_variable(e, reads.at[j]->buffer)) return true;
    return false;
}
// A guard must be uniform over the lanes. Rows that are vectorised have their own copies of variables.
static bool guard_allows(const nest *n, expr *guard, int axis) {
    if (!guard) return true;
    return !(n->by_row && reads_variable(n->e, guard)) && !expr_uses_axis(guard, axis);
}

// At most how many iterations a reduction has, where an empty axis counts as one; 0: the nest does not reduce.
static int64_t reduced_positions(const nest *n) {
    int64_t all = 1;
    for (int j = 0; j < n->ninner; j++) {
        int64_t most = n->e->extent[n->inner[j]]->max > 1 ? n->e->extent[n->inner[j]]->max : 1;
        all = most < INT32_MAX / all ? all * most : INT32_MAX;
    }
    return n->s->states.n && stage_writes_at_end(n->s) ? all : 0;
}

// A scatter, one store per lane, is cheap compared with much arithmetic.
static bool may_scatter(const nest *n, const write *w, const access *a, int axis) {
    enum { MUCH_WORK = 12 };
    const expr *step = a->coef[axis];
    int64_t work = n->s->states.n ? reduced_positions(n) : value_work(n->e->scratch, w->value);
    bool cheap = n->by_row ? n->scatters : n->e->t->dot_across || work >= MUCH_WORK;
    return cheap && a->affine && !expr_is_int(step, 0) && w->combine == COMBINE_SET;
}

static bool writes_allow(nest *n, int axis, bool *scatters) {
    for (int j = 0; j < n->s->writes.n; j++) {
        const write *w = &n->s->writes.at[j];
        const access *a = n->writes[j];
        if (!guard_allows(n, w->guard, axis)) return false;
        if (n->by_row && emit_is_variable(n->e, w->to)) continue;
        if (!a->coef[axis]) return false;
        if (!expr_is_int(a->coef[axis], 1)) {
            if (!may_scatter(n, w, a, axis)) return false;
            *scatters = true;
        }
        if (dtype_bits(w->to->dtype) < 8 || w->to->dtype == DT_C128) return false;
    }
    return true;
}

// Values that a reduction keeps are elements side by side in memory.
static bool keeps_vectors(const nest *n, int axis) {
    for (int j = 0; j < n->s->writes.n; j++)
        if (n->s->writes.at[j].when != WRITE_END && !steps_by_one(n->writes[j], axis)) return false;
    return stage_keeps_terms(n->s);
}

static bool reduces_allow(nest *n, int axis) {
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        bool reorders = dtype_is_float(st->dtype) && (st->op == RED_SUM || st->op == RED_PROD);
        if ((st->op == RED_CUSTOM && !st->merge) || (reorders && n->e->t->fp == FP_STRICT)) return false;
    }
    for (int j = 0; j < n->ninner; j++)
        if (n->e->k->axes.at[n->inner[j]].kind != AXIS_REDUCE) return false;
    return n->s->states.n > 0 && keeps_vectors(n, axis);
}

static int lanes_for(nest *n, const vector_cost *v, const dim *extent) {
    int lanes = target_lanes(n->e->t, v->bits);
    if (dim_is_const(extent))
        while (lanes > 1 && lanes > dim_value(extent)) lanes /= 2;
    return lanes < 4 && !(v->bits == 64 && lanes == 2) ? 1 : lanes;
}

// Whether Helium would add up the lanes of hardly more than a vector and round each result alone.
static bool is_short_sum(const nest *n, int axis, int lanes) {
    const dim *extent = n->e->extent[axis];
    return n->e->t->dot_across && n->nparallel && dim_is_const(extent) && dim_value(extent) < 2 * lanes;
}

// Whether rows are so short that merging what the lanes found, in log2(lanes) steps, costs more than to gather the elements of
// several rows: of states that have an expression that merges them, such as a maximum with its position.
static bool merge_is_expensive(const nest *n, int lanes) {
    const dim *extent = n->ninner == 1 && !n->by_row ? n->e->extent[n->inner[0]] : NULL;
    bool custom = false;
    int steps = 0;
    for (int j = 0; j < n->s->states.n; j++) custom |= n->s->states.at[j].op == RED_CUSTOM;
    while (lanes >> (steps + 1)) steps++;
    return custom && extent && dim_is_const(extent) && dim_value(extent) < steps * lanes;
}

static bool writes_along(const nest *n, int axis) {
    for (int j = 0; j < n->s->writes.n; j++)
        if (!n->writes[j] || !steps_by_one(n->writes[j], axis)) return false;
    return true;
}

// Whether the axis moves a window of unknown size that slides along adjacent results: these are more than the window's positions.
static bool moves_open_window(const nest *n, int axis) {
    if (dim_is_const(n->e->extent[axis])) return false;
    for (int j = 0; j < n->s->states.n; j++) {
        expr_list reads = reads_only(expr_nodes(n->e->scratch, n->s->states.at[j].step));
        for (int i = 0; i < reads.n; i++) {
            const buffer *b = reads.at[i]->buffer;
            const expr *last = b->rank ? reads.at[i]->index[b->rank - 1] : NULL;
            for (int p = 0; last && p < n->nparallel && expr_uses_axis(last, axis); p++)
                if (expr_uses_axis(last, n->parallel[p]) && writes_along(n, n->parallel[p])) return true;
        }
    }
    return false;
}

// A gather costs as much as loads of scalars do, so that vectors gain where much is computed.
static bool outweighs_gathers(const vector_cost *v) {
    enum { WORK_OF_GATHER = 4 };
    return v->work > WORK_OF_GATHER * v->gather;
}

int nest_vector_score(nest *n, int axis, bool reduce, int *lanes) {
    emitter *e = n->e;
    if (e->extent[axis]->max < 2) return 0;
    bool scatters = false;
    if (reduce ? !reduces_allow(n, axis) : !writes_allow(n, axis, &scatters)) return 0;
    vector_cost v = vector_cost_of(n, axis, reduce);
    enum { MUCH_REDUCED = 8 }; // Helium scatters by one instruction, after all steps of a reduction
    v.gather += scatters && !(e->t->dot_across && reduced_positions(n) >= MUCH_REDUCED);
    *lanes = lanes_for(n, &v, e->extent[axis]);
    if (*lanes == 1) return 0;
    bool across = merge_is_expensive(n, *lanes);
    if (reduce && (across || is_short_sum(n, axis, *lanes) || moves_open_window(n, axis))) return 1;
    int score = 2 + 2 * v.unit + v.uniform + v.adjacent - (across ? 0 : 3 * v.gather);
    return *lanes * (score <= 0 && outweighs_gathers(&v) ? 1 : score);
}

static void consider(nest *n, int axis, bool reduce, int forced, int *best) {
    int lanes, score = forced < 0 || axis == forced ? nest_vector_score(n, axis, reduce, &lanes) : 0;
    if (!score || score <= *best) return;
    *best = score;
    n->vaxis = axis, n->lanes = lanes, n->reduce_vector = reduce;
}

// The best axis with a positive score or, if it is legal, the forced one (-1: none).
static void consider_axes(nest *n, int forced) {
    int best = forced < 0 ? 0 : INT_MIN;
    for (int j = n->nparallel - 1; j >= 0; j--) consider(n, n->parallel[j], false, forced, &best);
    for (int j = n->ninner - 1; j >= 0; j--) consider(n, n->inner[j], true, forced, &best);
}

void nest_move_last(int *axes, int n, int axis) {
    int at = 0;
    while (axes[at] != axis) at++;
    memmove(axes + at, axes + at + 1, (size_t)(n - at - 1) * sizeof *axes);
    axes[n - 1] = axis;
}

static bool is_strided(const access *a, int axis) {
    return a->affine && !steps_by_one(a, axis) && !expr_is_int(a->coef[axis], 0);
}

// Loop interchange: if a read is strided along the vector axis, the axis along which it is contiguous comes
// next to it, so that its cache lines are reused. In scalar code, data-dependent positions are hoisted out of
// the axis along which they are invariant.
static void interchange(nest *n) {
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, PART_ALL));
    int found = -1;
    for (int j = 0; j < reads.n; j++) {
        const access *a = entry_of(n->e, reads.at[j])->read;
        if (!a || (n->vaxis < 0 ? a->affine : !is_strided(a, n->vaxis))) continue;
        for (int i = 0; i < n->nparallel; i++)
            if (steps_by_one(a, n->parallel[i])) found = n->parallel[i];
    }
    if (found >= 0) nest_move_last(n->parallel, n->nparallel, found);
    if (found >= 0 && n->vaxis >= 0) nest_move_last(n->parallel, n->nparallel, n->vaxis);
}

// AVX2 has masked loads and stores of 32 and 64 bits only.
static bool reads_narrow(const expr *x) { return x->op == X_READ && dtype_bits(x->buffer->dtype) < 32; }
bool nest_masks(const nest *n) {
    const dim *extent = n->vaxis < 0 ? NULL : n->e->extent[n->vaxis];
    bool one = extent && dim_is_const(extent) && dim_value(extent) % n->lanes == 1;
    if (n->e->t->dot_across) return !one || n->s->states.n; // a scalar costs less, if there is no loop for it
    if (n->e->t->avx512 || !n->e->t->masked) return n->e->t->avx512;
    for (int j = 0; j < n->s->writes.n; j++)
        if (dtype_bits(n->s->writes.at[j].to->dtype) < 32) return false;
    return !stage_any(n->s, reads_narrow);
}

// Whether the last vector of a scatter, which has no masks, may overlap the one before.
static bool may_overlap(const nest *n) {
    const dim *extent = n->e->extent[n->vaxis];
    return dim_is_const(extent) && dim_value(extent) >= n->lanes && nest_writes_twice(n);
}

// Some CPUs with AVX2 take ten cycles and more for a masked store.
static bool masks_slowly(const target *t) { return t->masked_least > 8; }

static void choose_vector(nest *n, int lanes) {
    n->vaxis = -1, n->lanes = 1;
    if (!n->e->t->vector_bits) {
        interchange(n);
        return;
    }
    consider_axes(n, -1);
    if (n->e->choices->axis) consider_axes(n, n->e->choices->axis - 1);
    if (lanes >= 0) consider_axes(n, lanes);
    if (n->vaxis < 0) return;
    if (n->reduce_vector) {
        nest_move_last(n->inner, n->ninner, n->vaxis);
    } else {
        nest_move_last(n->parallel, n->nparallel, n->vaxis);
        interchange(n);
    }
    bool scatters = false;
    if (!n->reduce_vector) writes_allow(n, n->vaxis, &scatters);
    n->masked = nest_masks(n) && !scatters;
    n->overlaps = scatters && (n->e->t->dot_across || n->s->states.n) && may_overlap(n);
    if (!scatters) n->lanes *= vectors_at_once(n);
    // Tasks, which are pieces of a longer axis, must not write the same elements.
    bool overlaps = masks_slowly(n->e->t) && !n->reduce_vector && n->e->extent[n->vaxis]->max <= NEST_GRAIN;
    overlaps |= n->e->t->dot_across && !n->reduce_vector && n->s->states.n; // each load would be predicated
    if (n->masked && overlaps && may_overlap(n)) n->masked = false, n->overlaps = true;
}

// ---------------------------------------------------------------- loops
scope nest_open_axis(nest *n, int axis, loop_role role) {
    ins *begin, *end;
    if (role == LOOP_SERIAL) nest_range(n, axis, &begin, &end);
    else nest_update_range(n, axis, &begin, &end);
    return nest_open_loop(n, axis, begin, end, 1, role);
}

// ---------------------------------------------------------------- bodies
void nest_use_states(nest *n) {
    for (int j = 0; j < n->s->states.n; j++) n->e->state[j] = lb_get(&n->e->b, n->vars[j]);
}

void nest_write(nest *n, write_when when) {
    for (int j = 0; j < n->s->writes.n; j++) {
        const write *w = &n->s->writes.at[j];
        if (w->when != when) continue;
        emit_write(n->e, w, n->writes[j], NULL);
    }
}

static bool is_byte(const expr *x, dtype t) {
    return x->op == X_CAST && x->dtype == DT_I32 && x->arg[0]->dtype == t;
}

// Products of unsigned and signed bytes, widened, are multiplied and added by one instruction: of the four bytes of a
// widened unsigned one, three are 0.
static ins *add_byte_product(emitter *e, const state *st, ins *old) {
    const expr *x = st->step;
    bool sum = st->op == RED_SUM && st->dtype == DT_I32 && x->op == X_MUL && old->type.lanes == e->lanes;
    if (!sum || e->lanes < 4 || !e->t->vnni || e->t->arch.dot != DOT_X86) return NULL;
    for (int j = 0; j < 2; j++)
        if (is_byte(x->arg[j], DT_U8) && is_byte(x->arg[1 - j], DT_I8))
            return lb_dot(&e->b, L_DOT4_US, old, emit_vector(e, x->arg[j]), emit_vector(e, x->arg[1 - j]));
    return NULL;
}

// A fused multiply-add if the step is a product.
ins *nest_next_state(nest *n, const state *st, ins *old) {
    emitter *e = n->e;
    const expr *x = st->step;
    if (st->op == RED_CUSTOM) return emit_vector(e, st->step);
    if (st->op == RED_SUM && x->op == X_MUL && dtype_is_float(x->dtype) && !entry_of(e, x)->value) {
        ins *a = emit_value(e, x->arg[0]), *b = emit_value(e, x->arg[1]);
        int lanes = old->type.lanes;
        if (lanes > 1 && a->type.lanes == 1) a = lb_splat(&e->b, a, lanes);
        if (lanes > 1 && b->type.lanes == 1) b = lb_splat(&e->b, b, lanes);
        return lb_muladd(&e->b, a, b, old);
    }
    ins *sum = add_byte_product(e, st, old);
    return sum ? sum : emit_reduce(e, st->op, st->dtype, old, emit_value(e, st->step));
}

void nest_step(nest *n) {
    emitter *e = n->e;
    ins *next[64];
    scope mark = scope_open(e);
    nest_use_states(n);
    nest_write(n, WRITE_BEFORE);
    for (int j = 0; j < n->s->states.n; j++) next[j] = nest_next_state(n, &n->s->states.at[j], e->state[j]);
    for (int j = 0; j < n->s->states.n; j++) lb_set(&e->b, n->vars[j], next[j]);
    scope_close(e, mark); // values of the old states are stale
    mark = scope_open(e);
    nest_use_states(n);
    nest_write(n, WRITE_AFTER);
    scope_close(e, mark);
}

static void inner_loops(nest *n, int depth) {
    if (depth == n->ninner) {
        nest_step(n);
        return;
    }
    if (depth == n->ninner - 1 && (n->piecewise || n->apart > 1)) {
        nest_sum(n);
        return;
    }
    if (nest_iterates(n)) {
        iterate(n);
        return;
    }
    scope loop = nest_open_axis(n, n->inner[depth], LOOP_SERIAL);
    inner_loops(n, depth + 1);
    scope_close(n->e, loop);
}

ins *nest_initial(nest *n, const state *st, int lanes) {
    ins *v = emit_value(n->e, st->init);
    return lanes > 1 && v->type.lanes == 1 ? lb_splat(&n->e->b, v, lanes) : v;
}

void nest_init(nest *n) {
    for (int j = 0; j < n->s->states.n; j++)
        n->vars[j] = lb_var(&n->e->b, "acc", nest_initial(n, &n->s->states.at[j], n->e->lanes));
}

void nest_reduce(nest *n) {
    nest_init(n);
    nest_choose_sums(n);
    if (n->s->states.n || n->ninner) inner_loops(n, 0);
    nest_leave_ranges(n);
    nest_use_states(n);
}

void nest_point(nest *n) {
    emitter *e = n->e;
    bool c128 = false;
    for (int j = 0; j < n->s->writes.n; j++) c128 |= n->s->writes.at[j].to->dtype == DT_C128;
    for (e->half = 0; e->half <= c128; e->half++) {
        scope mark = scope_open(e);
        nest_reduce(n);
        nest_write(n, WRITE_END);
        scope_close(e, mark);
    }
    e->half = 0;
}

// ---------------------------------------------------------------- nests
static void parallel_loops(nest *n, int depth);
void nest_loops(nest *n) { parallel_loops(n, 0); }

// The axis has no counter inside: otherwise hoisted values would be valid for one position only.
static void tile_of(nest *n, ins *begin, ins *end, int depth) {
    scope loop = nest_open_loop(n, n->waxis, begin, end, n->positions, LOOP_PARALLEL);
    n->base = loop.head;
    n->e->counter[n->waxis] = NULL;
    parallel_loops(n, depth + 1);
    scope_close(n->e, loop);
}

static int half_tile(const nest *n) {
    enum { NARROW = 128, FEW = 16 }; // code for CPUs of such registers only is short rather than fast
    const target *t = n->e->t;
    bool old = t->vector_bits <= NARROW && t->vector_regs <= FEW;
    return t->size_level || old ? 1 : n->tile / 2;
}

// The positions of a window's axis in tiles, then the tail: as one tile if its size is constant, else in tiles of half the size and
// one by one, which share nothing.
static void tiled_loop(nest *n, int depth) {
    lbuild *b = &n->e->b;
    ins *begin, *end;
    axis_range(n->e, n->waxis, &begin, &end);
    ins *size = lb_sub(b, end, begin);
    bool known = size->op == L_CONST;
    int halves = half_tile(n),
        tiles[] = {n->tile, known ? (int)(size->i % n->tile) : halves, known || halves < 2 ? 0 : 1};
    for (int j = 0; j < 3 && tiles[j]; j++) {
        n->positions = tiles[j];
        ins *next = lb_add(b, begin, emit_int_floor(b, lb_sub(b, end, begin), n->positions));
        tile_of(n, begin, next, depth);
        begin = next;
    }
}

static void parallel_loops(nest *n, int depth) {
    bool vector_here = n->vaxis >= 0 && !n->reduce_vector;
    if (depth == n->nparallel - (vector_here ? 1 : 0)) {
        if (vector_here) nest_vector_axis(n);
        else if (n->reduce_vector) nest_point_reduced(n);
        else nest_any_point(n);
        return;
    }
    if (n->parallel[depth] == n->waxis) {
        tiled_loop(n, depth);
        return;
    }
    scope loop = nest_open_axis(n, n->parallel[depth], LOOP_PARALLEL);
    parallel_loops(n, depth + 1);
    scope_close(n->e, loop);
}

static void add_axis(nest *n, int a) {
    const emitter *e = n->e;
    if (dim_is(e->extent[a], 1) && e->k->axes.at[a].kind == AXIS_PARALLEL) return; // x_axis folded it to 0
    if (dim_is(e->extent[a], 1) && n->s->states.n == 0 && stage_writes_at_end(n->s)) return;
    if (e->k->axes.at[a].kind == AXIS_PARALLEL) n->parallel[n->nparallel++] = a;
    else n->inner[n->ninner++] = a;
}

static void collapse(nest *n) {
    n->nparallel = collapse_axes(n->e, n->writes, n->parallel, n->nparallel);
    n->ninner = collapse_axes(n->e, n->writes, n->inner, n->ninner);
}

// How far apart elements of the result are along an axis; -1: only a run knows.
static int64_t result_step(const nest *n, int a) {
    const expr *step = n->writes[0]->coef[a];
    return step && step->op == X_CONST ? llabs(step->i) : -1;
}

// On bare machines, elements are computed in the order of the result in memory, so that it may take an operand's place.
static void order_by_result(nest *n) {
    if (n->e->t->vector_bits || !n->e->t->freestanding || n->s->states.n || n->s->writes.n != 1) return;
    for (int j = 0; j < n->nparallel; j++)
        if (result_step(n, n->parallel[j]) < 0) return;
    for (int j = 1; j < n->nparallel; j++) // insertion sort
        for (int i = j, a = n->parallel[j]; i > 0 && result_step(n, n->parallel[i - 1]) < result_step(n, a);
             i--)
            n->parallel[i] = n->parallel[i - 1], n->parallel[i - 1] = a;
}

nest *nest_new(emitter *e, const stage *s, bool alone) {
    nest *n = ARENA_NEW(e->scratch, nest);
    *n = (nest){.e = e, .s = s, .vaxis = -1, .lanes = 1, .waxis = -1};
    if (s->axes.n + e->k->nouter > 60 || s->states.n > 60)
        diag_fatal_missing(e->b.diag, e->k->loc,
                           "kernel %s has more axes or states than this build schedules", e->k->name);
    n->vars = ARENA_ARRAY(e->scratch, ins *, s->states.n + 1);
    e->state = ARENA_ARRAY(e->scratch, ins *, s->states.n + 1);
    e->other = ARENA_ARRAY(e->scratch, ins *, s->states.n + 1);
    emitter_stage(e, s, -1, 1, false);
    n->writes = ARENA_ARRAY(e->scratch, access *, s->writes.n + 1);
    for (int j = 0; j < s->writes.n; j++)
        n->writes[j] = access_make(e, s->writes.at[j].to, s->writes.at[j].index);
    if (alone)
        for (int a = 0; a < e->k->nouter; a++) add_axis(n, a);
    for (int j = 0; j < s->axes.n; j++) add_axis(n, s->axes.at[j]);
    if (alone) order_by_result(n);
    // What stages share may be in rows of these axes. Vectors may be of rows instead.
    if (alone || !(e->k->nouter || e->k->locals.n || e->t->vector_bits)) collapse(n);
    return n;
}

bool nest_writes_disjoint(const stage *s) {
    for (int j = 0; j < s->writes.n; j++)
        if (s->writes.at[j].combine != COMBINE_SET || dtype_bits(s->writes.at[j].to->dtype) < 8) return false;
    return true;
}

// Tasks are positions of the first axis with several of them, or chunks of it if it is the vector axis. Positions that are reduced
// together stay together. Reductions of one sample have enough work in the lanes of a few vectors.
static void choose_tasks(nest *n) {
    enum { LEAST_TASKS = 4, LANES = 64 };
    task_axes all = {.least = LEAST_TASKS, .chunked = n->vaxis, .piece = NEST_GRAIN, .single = n->waxis};
    if (n->ninner && n->vaxis >= 0 && !n->reduce_vector && !n->e->t->size_level) all.part = LANES;
    if (!nest_writes_disjoint(n->s)) return;
    for (int j = 0; j < n->nparallel; j++)
        if (!n->reduce_vector || n->parallel[j] != n->waxis || j == n->nparallel - 1)
            all.axes[all.n++] = n->parallel[j];
    emitter_choose_tasks(n->e, &all);
}

// True: the stage is done. Otherwise the branches opened in ifs[] stay open around the loops that follow, for sizes below a tile. Those
// below a large tile have small ones.
static bool transposed(nest *n, bool alone, ins **ifs, int *count) {
    transpose t;
    lbuild *b = &n->e->b;
    if (!transpose_find(n, &t)) return false;
    if (alone) transpose_tasks(&t);
    do {
        if (!t.always) ifs[*count] = lb_if(b, transpose_fits(&t));
        schedule_transpose(&t);
        if (!t.always) lb_else(b, ifs[(*count)++]);
    } while (!t.always && transpose_narrow(&t));
    return t.always;
}

static void whole_stage(emitter *e, const stage *s, bool alone, int lanes) {
    nest *n = nest_new(e, s, alone);
    ins *ifs[TRANSPOSE_TILES];
    int branches = 0;
    interleave planes;
    bool windows = n->ninner && n->nparallel; // rows of which several are computed at once
    if (!alone && e->t->vector_bits && !windows && !e->t->freestanding) collapse(n);
    if (interleave_find(n, &planes)) {
        schedule_interleave(&planes, alone);
        return;
    }
    if (schedule_copy(n)) return;
    if (!transposed(n, alone, ifs, &branches)) {
        choose_vector(n, lanes);
        window_choose(n);
        reduce_choose(n);
        if (alone && !branches) choose_tasks(n);
        scope mark = scope_open(e);
        parallel_loops(n, 0);
        scope_close(e, mark);
    }
    while (branches) lb_end(&e->b, ifs[--branches]);
}

void nest_stage(emitter *e, const stage *s, bool alone, int lanes) {
    e->b.codes = emit_moved(e, s);
    whole_stage(e, s, alone, lanes);
    e->b.codes = DT_NONE;
}

// ---------------------------------------------------------------- entry
// A C identifier from the kernel's name: names of nodes may contain any character.
static const char *function_name(arena *a, const kernel *k) {
    enum { LONGEST = 44 }; // parts of the kernel have longer names
    char *s = arena_strdup(a, k->name);
    for (char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return arena_printf(a, "k_%s_%d", fit_identifier(a, s, LONGEST), k->id);
}

kernel_code *schedule_kernel(lmodule *m, kernel *k, const target *t, diag *d) {
    kernel_code *code = ARENA_NEW(m->arena, kernel_code);
    code->kernel = k;
    code->f = lfunc_new(m, function_name(m->arena, k), lt(LK_VOID, 1));
    code->f->target = t;
    code->f->kernel = true;
    code->f->noalias = true;
    code->f->strict_fp = t->fp == FP_STRICT;
    code->f->comment = kernel_print(m->arena, k);
    emitter *e = emitter_new(m, k, t, d, code);
    if (t->arch.is_gpu) {
        schedule_gpu(e);
        return code;
    }
    attention a;
    bool attends = attention_find(k, t, &a);
    contraction c;
    bool contracts = contraction_find(k, &c);
    int lanes = contracts ? lanes_axis(t, &c) : -1;
    contracts &= lanes < 0;
    int64_t partial = contracts ? contraction_scratch(t, &c) + widened_bytes(t, &c) + digit_bytes(t, &c) : 0;
    tile_parts *parts = contracts ? tile_parts_find(e->scratch, t, &c) : NULL;
    dim *own = attends ? a.scratch : partial ? dim_const(c.k->axes.at[0].extent->table, partial) : NULL;
    dim *bytes = contracts ? byte_rows_scratch(t, &c) : NULL,
        *more[] = {bytes, contracts ? pairs_scratch(t, &c) : NULL,
                   parts ? tile_parts_scratch(parts, &c) : NULL};
    for (int j = 0; j < 3; j++)
        if (more[j]) own = own ? dim_max(own, more[j]) : more[j];
    if (parts) own = dim_addk(own, MARK_BYTES);
    row_vectors *rows = contracts || attends || k->stages.n == 1 ? NULL : rows_choose(e);
    ins *scratch = emitter_signature(e, t->threads != 1 && t->hosted, own);
    if (contracts && calls_cblas(k) && schedule_cblas(e, &c)) code->schedule = "cblas";
    else if (contracts && schedule_tiles(e, &c, parts, scratch)) code->schedule = "matrix tiles";
    else if (contracts && schedule_contraction(e, &c, partial || bytes ? scratch : NULL))
        code->schedule = "tiled contraction";
    else if (attends)
        rows_choose_tasks(e, a.i), schedule_attention(e, &a, scratch), code->schedule = "online attention";
    else if (rows) schedule_rows(rows);
    else nest_stage(e, k->stages.at[0], true, lanes);
    emitter_finish(e);
    return code;
}
