// Reductions along the vector axis: several sums of vectors side by side, whose lanes are reduced at the end. The last elements
// are a masked vector or, where the target has no masks, scalars.
//
//   for r in reduce axes, the last in steps of REDUCE_UNROLL * lanes:
//     acc[0 .. REDUCE_UNROLL][lanes] op= term
//   state = horizontal(acc[0] op acc[1] op ...); write
#include "ir/kernel/kernel_cost.h"
#include "ir/loops/convert.h"
#include "passes/schedule/common/emit.h"
#include "passes/schedule/common/nest.h"
#include <limits.h>
#include <string.h>

enum { REDUCE_UNROLL = 4 };

// The next states from those in the variables; steps may read all of them.
static void next_states(nest *n, ins *const *vars, int apart, ins **next) {
    emitter *e = n->e;
    for (int j = 0; j < n->s->states.n; j++) e->state[j] = lb_get(&e->b, vars[j * apart]);
    for (int j = 0; j < n->s->states.n; j++) next[j] = nest_next_state(n, &n->s->states.at[j], e->state[j]);
}

static void set_states(nest *n, ins *const *vars, int apart, ins *const *next) {
    for (int j = 0; j < n->s->states.n; j++) lb_set(&n->e->b, vars[j * apart], next[j]);
}

static void vector_terms(nest *n, ins **vars, ins *base, int unroll) {
    emitter *e = n->e;
    ins *next[64];
    for (int u = 0; u < unroll; u++) {
        scope mark = scope_open(e);
        e->counter[n->vaxis] = idx_addk(&e->b, base, (int64_t)u * n->lanes);
        nest_write(n, WRITE_BEFORE);
        next_states(n, vars + u, REDUCE_UNROLL, next);
        set_states(n, vars + u, REDUCE_UNROLL, next);
        scope_close(e, mark);
    }
}

static void scalar_rest(nest *n, ins *begin, ins *end) {
    emitter *e = n->e;
    int lanes = e->lanes;
    emitter_stage(e, n->s, n->vaxis, 1, false);
    scope loop = nest_open_loop(n, n->vaxis, begin, end, 1, LOOP_SERIAL);
    ins *next[64];
    nest_write(n, WRITE_BEFORE);
    next_states(n, n->vars, 1, next);
    set_states(n, n->vars, 1, next);
    scope_close(e, loop);
    emitter_stage(e, n->s, n->vaxis, lanes, true);
}

// What a state of the partial last vector becomes: lanes past the end contribute the neutral element, or stay.
static ins *state_inside(nest *n, const state *st, ins *inside, ins *old) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    if (st->op == RED_CUSTOM) return lb_select(b, inside, emit_vector(e, st->step), old);
    ins *neutral = lb_splat(b, emit_value(e, reduce_neutral(e->k, st->op, st->dtype)), n->lanes);
    return emit_reduce(e, st->op, st->dtype, old, lb_select(b, inside, emit_vector(e, st->step), neutral));
}

// Which lanes are below n, compared as integers as wide as the values that they are of: then one mask does for these and for
// their loads.
static ins *first_lanes(lbuild *b, ins *n, int lanes, lkind value) {
    static const lkind by_bytes[9] = {[1] = LK_I8, [2] = LK_I16, [4] = LK_I32, [8] = LK_I64};
    ltype number = lt(lanes > INT8_MAX ? LK_I16 : by_bytes[lkind_bytes(value)], lanes);
    if (lkind_bits((lkind)n->type.kind) < lkind_bits((lkind)number.kind)) number.kind = n->type.kind;
    if (n->type.kind != number.kind) n = lb_conv(b, L_ITRUNC, (lkind)number.kind, n);
    return lb_cmp(b, L_SLT, lb_iota(b, number), lb_splat(b, n, lanes));
}

static void masked_rest(nest *n, ins **vars, ins *begin, ins *end) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    ins *next[64];
    scope part = open_partial_vector(e, n->vaxis, begin, end);
    ins *inside = first_lanes(b, e->active, n->lanes, compute_kind(n->s->states.at[0].dtype));
    nest_write(n, WRITE_BEFORE);
    for (int j = 0; j < n->s->states.n; j++) e->state[j] = lb_get(b, vars[j * REDUCE_UNROLL]);
    for (int j = 0; j < n->s->states.n; j++)
        next[j] = state_inside(n, &n->s->states.at[j], inside, e->state[j]);
    set_states(n, vars, REDUCE_UNROLL, next);
    close_partial_vector(e, part);
}

static void reduce_range(nest *n, ins **vars, ins *begin, ins *end, int unroll) {
    scope loop = nest_open_loop(n, n->vaxis, begin, end, (int64_t)n->lanes * unroll, LOOP_SERIAL);
    vector_terms(n, vars, loop.head, unroll);
    scope_close(n->e, loop);
}

// The states side by side as the first of them.
static void merge_sums(nest *n, ins **vars) {
    ins *acc[64], *from[64];
    int states = n->s->states.n;
    for (int j = 0; j < states; j++) acc[j] = lb_get(&n->e->b, vars[j * REDUCE_UNROLL]);
    for (int u = 1; u < n->sums; u++) {
        for (int j = 0; j < states; j++) from[j] = lb_get(&n->e->b, vars[j * REDUCE_UNROLL + u]);
        nest_merge(n, acc, from);
    }
    if (n->sums > 1) set_states(n, vars, REDUCE_UNROLL, acc);
}

// As many sums side by side as rows have vectors; short rows of open sizes skip the loop and merge nothing.
static void unrolled_range(nest *n, ins **vars, ins *end) {
    emitter *e = n->e;
    ins *zero = lb_idx(&e->b, 0);
    bool open = n->ninner == 1 && n->sums > 1 && end->op != L_CONST;
    scope some = scope_if(e, open ? lb_cmp(&e->b, L_SLT, zero, end) : NULL);
    reduce_range(n, vars, zero, end, n->sums);
    if (n->ninner == 1) merge_sums(n, vars);
    scope_close(e, some);
}

static void reduce_last(nest *n, ins **vars) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    ins *extent = emit_dim(e, e->extent[n->vaxis]);
    ins *wide = emit_int_floor(b, extent, (int64_t)n->lanes * n->sums),
        *full = emit_int_floor(b, extent, n->lanes);
    unrolled_range(n, vars, wide);
    if (!same_index(wide, full)) reduce_range(n, vars, wide, full, 1);
    if (same_index(full, extent)) return;
    if (n->masked) masked_rest(n, vars, full, extent);
    else scalar_rest(n, full, extent);
}

static void reduce_loops(nest *n, ins **vars, int depth) {
    if (depth == n->ninner - 1) {
        reduce_last(n, vars);
        return;
    }
    scope loop = nest_open_axis(n, n->inner[depth], LOOP_SERIAL);
    reduce_loops(n, vars, depth + 1);
    scope_close(n->e, loop);
}

// Whether the states of the scalar tail, which begin with the initial values, differ from neutral elements.
static bool has_rest(const nest *n) {
    const dim *extent = n->e->extent[n->vaxis];
    bool tail = !n->masked && !(dim_is_const(extent) && dim_value(extent) % n->lanes == 0);
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        tail |= st->op == RED_CUSTOM || st->init != reduce_neutral(n->e->k, st->op, st->dtype);
    }
    return tail;
}

// Several sums hide the latency of additions. Terms of much arithmetic hide it themselves: then only long rows have several,
// whose rounding errors are smaller.
static int sums_of(const nest *n) {
    enum { MUCH_WORK = 12, MANY_VECTORS = 64 };
    const dim *extent = n->e->extent[n->vaxis];
    int64_t vectors = dim_is_const(extent) ? dim_value(extent) / n->lanes : REDUCE_UNROLL;
    bool hidden = true; // RED_CUSTOM: what steps compute depends on the states
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        hidden &= st->op != RED_CUSTOM && value_work(n->e->scratch, st->step) >= MUCH_WORK;
    }
    if (vectors < 2 || (hidden && vectors < MANY_VECTORS)) return 1;
    return vectors < REDUCE_UNROLL ? (int)vectors : REDUCE_UNROLL;
}

void nest_point_reduced(nest *n) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    scope mark = scope_open(e);
    ins *vars[64 * REDUCE_UNROLL], *acc[64], *from[64];
    int states = n->s->states.n;
    n->sums = sums_of(n);
    for (int j = 0; j < states; j++) {
        const state *st = &n->s->states.at[j];
        n->vars[j] = lb_var(b, "rest", nest_initial(n, st, 1));
        expr *start = st->op == RED_CUSTOM ? st->init : reduce_neutral(e->k, st->op, st->dtype);
        for (int u = 0; u < n->sums; u++)
            vars[j * REDUCE_UNROLL + u] = lb_var(b, "acc", lb_splat(b, emit_value(e, start), n->lanes));
    }
    emitter_stage(e, n->s, n->vaxis, n->lanes, true);
    reduce_loops(n, vars, 0);
    if (n->ninner > 1) merge_sums(n, vars);
    for (int j = 0; j < states; j++) acc[j] = lb_get(b, vars[j * REDUCE_UNROLL]);
    nest_merge_lanes(n, acc);
    emitter_stage(e, n->s, -1, 1, false);
    for (int j = 0; j < states; j++) from[j] = lb_get(b, n->vars[j]);
    if (has_rest(n)) nest_merge(n, acc, from);
    memcpy(e->state, acc, (size_t)states * sizeof *acc);
    nest_write(n, WRITE_END);
    scope_close(e, mark);
}
