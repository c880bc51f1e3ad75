// Reductions along the vector axis: several sums of vectors side by side, whose lanes are reduced at the end. The last elements
// are a masked vector or, where the target has no masks, scalars.
//
//   for r in reduce axes, the last in steps of REDUCE_UNROLL * lanes:
//     acc[0 .. REDUCE_UNROLL][lanes] op= term
//   state = horizontal(acc[0] op acc[1] op ...); write
//
// Several positions of a parallel axis along which an operand stays, such as the rows of a product, are reduced together, so that
// it is loaded once for all of them:
//
//   for p in steps of positions:
//     for r in steps of lanes: for t < positions: acc[t][lanes] op= term at p + t
//     for t < positions: state = horizontal(acc[t]); write
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

// ---------------------------------------------------------------- positions side by side
static int positions_of(const nest *n) { return n->waxis >= 0 ? n->positions : 1; }

// The states of position t: those of scalars become the nest's, those of vectors are returned.
static ins **at_position(nest *n, int t, ins **vars, ins **rest) {
    if (n->waxis >= 0) n->e->counter[n->waxis] = idx_addk(&n->e->b, n->base, t);
    n->vars = rest + (size_t)t * (size_t)n->s->states.n;
    return vars + (size_t)t * (size_t)n->s->states.n * REDUCE_UNROLL;
}

static void leave_positions(nest *n) {
    if (n->waxis >= 0) n->e->counter[n->waxis] = NULL;
}

static bool moves(const access *a, int axis) { return !expr_is_int(a->coef[axis], 0); }

// The axis along which an operand moves that stays along `axis`, where another one moves; -1: none.
static int axis_of_shared(const nest *n, const expr_list *reads, int axis) {
    bool own = false;
    int shared = -1;
    for (int j = 0; j < reads->n; j++) {
        const access *a = entry_of(n->e, reads->at[j])->read;
        if (!a || !a->affine || reads->at[j]->guard) return -1;
        own |= moves(a, axis);
        for (int i = 0; i < n->nparallel && !moves(a, axis) && steps_by_one(a, n->vaxis); i++)
            if (moves(a, n->parallel[i])) shared = n->parallel[i];
    }
    return own ? shared : -1;
}

static int64_t extent_of(const nest *n, int axis) {
    const dim *extent = n->e->extent[axis];
    return dim_is_const(extent) ? dim_value(extent) : INT64_MAX - 1;
}

// Of two such axes the shorter one: the operand of the other is larger, and read less often. That axis becomes the last, so that
// the positions' own operands stay in the L1 cache.
void reduce_choose(nest *n) {
    enum { MOST = 8, REGISTERS = 16 };
    const target *t = n->e->t;
    bool plain = n->s->states.n == 1 && n->s->states.at[0].op != RED_CUSTOM && stage_writes_at_end(n->s);
    if (!n->reduce_vector || !plain || t->vector_regs < REGISTERS || t->compact || t->size_level) return;
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, PART_STEP));
    int64_t least = INT64_MAX;
    int last = -1;
    for (int j = 0; j < n->nparallel; j++) {
        int axis = n->parallel[j], other = axis_of_shared(n, &reads, axis);
        if (other < 0 || extent_of(n, axis) < 2 || extent_of(n, axis) >= least) continue;
        least = extent_of(n, axis), n->waxis = axis, last = other;
    }
    if (last < 0) return;
    int64_t tiles = (least - 1) / MOST + 1;
    n->tile = least == INT64_MAX - 1 ? MOST : (int)((least + tiles - 1) / tiles);
    nest_move_last(n->parallel, n->nparallel, last);
}

// ---------------------------------------------------------------- ranges
static void vector_terms(nest *n, ins **vars, ins **rest, ins *base, int unroll) {
    emitter *e = n->e;
    ins *next[64];
    for (int u = 0; u < unroll; u++)
        for (int t = 0; t < positions_of(n); t++) {
            scope mark = scope_open(e);
            ins **of = at_position(n, t, vars, rest) + u;
            e->counter[n->vaxis] = idx_addk(&e->b, base, (int64_t)u * n->lanes);
            nest_write(n, WRITE_BEFORE);
            next_states(n, of, REDUCE_UNROLL, next);
            set_states(n, of, REDUCE_UNROLL, next);
            scope_close(e, mark);
        }
    leave_positions(n);
}

static void scalar_rest(nest *n, ins **rest, ins *begin, ins *end) {
    emitter *e = n->e;
    int lanes = e->lanes;
    emitter_stage(e, n->s, n->vaxis, 1, false);
    scope loop = nest_open_loop(n, n->vaxis, begin, end, 1, LOOP_SERIAL);
    ins *next[64];
    for (int t = 0; t < positions_of(n); t++) {
        scope mark = scope_open(e);
        at_position(n, t, rest, rest);
        nest_write(n, WRITE_BEFORE);
        next_states(n, n->vars, 1, next);
        set_states(n, n->vars, 1, next);
        scope_close(e, mark);
    }
    leave_positions(n);
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

static void masked_rest(nest *n, ins **vars, ins **rest, ins *begin, ins *end) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    ins *next[64];
    scope part = open_partial_vector(e, n->vaxis, begin, end);
    ins *inside = first_lanes(b, e->active, n->lanes, compute_kind(n->s->states.at[0].dtype));
    for (int t = 0; t < positions_of(n); t++) {
        scope mark = scope_open(e);
        ins **of = at_position(n, t, vars, rest);
        nest_write(n, WRITE_BEFORE);
        for (int j = 0; j < n->s->states.n; j++) e->state[j] = lb_get(b, of[j * REDUCE_UNROLL]);
        for (int j = 0; j < n->s->states.n; j++)
            next[j] = state_inside(n, &n->s->states.at[j], inside, e->state[j]);
        set_states(n, of, REDUCE_UNROLL, next);
        scope_close(e, mark);
    }
    leave_positions(n);
    close_partial_vector(e, part);
}

static void reduce_range(nest *n, ins **vars, ins **rest, ins *begin, ins *end, int unroll) {
    scope loop = nest_open_loop(n, n->vaxis, begin, end, (int64_t)n->lanes * unroll, LOOP_SERIAL);
    vector_terms(n, vars, rest, loop.head, unroll);
    scope_close(n->e, loop);
}

// The states side by side as the first of them.
static void merge_sums(nest *n, ins **vars) {
    ins *acc[64], *from[64];
    int states = n->s->states.n;
    for (int t = 0; t < positions_of(n) && n->sums > 1; t++, vars += states * REDUCE_UNROLL) {
        for (int j = 0; j < states; j++) acc[j] = lb_get(&n->e->b, vars[j * REDUCE_UNROLL]);
        for (int u = 1; u < n->sums; u++) {
            for (int j = 0; j < states; j++) from[j] = lb_get(&n->e->b, vars[j * REDUCE_UNROLL + u]);
            nest_merge(n, acc, from);
        }
        set_states(n, vars, REDUCE_UNROLL, acc);
    }
}

// As many sums side by side as rows have vectors; short rows of open sizes skip the loop and merge nothing.
static void unrolled_range(nest *n, ins **vars, ins **rest, ins *end) {
    emitter *e = n->e;
    ins *zero = lb_idx(&e->b, 0);
    bool open = n->ninner == 1 && n->sums > 1 && end->op != L_CONST;
    scope some = scope_if(e, open ? lb_cmp(&e->b, L_SLT, zero, end) : NULL);
    reduce_range(n, vars, rest, zero, end, n->sums);
    if (n->ninner == 1) merge_sums(n, vars);
    scope_close(e, some);
}

static void reduce_last(nest *n, ins **vars, ins **rest) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    ins *extent = emit_dim(e, e->extent[n->vaxis]);
    ins *wide = emit_int_floor(b, extent, (int64_t)n->lanes * n->sums),
        *full = emit_int_floor(b, extent, n->lanes);
    unrolled_range(n, vars, rest, wide);
    if (!same_index(wide, full)) reduce_range(n, vars, rest, wide, full, 1);
    if (same_index(full, extent)) return;
    if (n->masked) masked_rest(n, vars, rest, full, extent);
    else scalar_rest(n, rest, full, extent);
}

static void reduce_loops(nest *n, ins **vars, ins **rest, int depth) {
    if (depth == n->ninner - 1) {
        reduce_last(n, vars, rest);
        return;
    }
    scope loop = nest_open_axis(n, n->inner[depth], LOOP_SERIAL);
    reduce_loops(n, vars, rest, depth + 1);
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
    enum { MUCH_WORK = 12, MANY_VECTORS = 64, ENOUGH = 8 };
    const dim *extent = n->e->extent[n->vaxis];
    int64_t vectors = dim_is_const(extent) ? dim_value(extent) / n->lanes : REDUCE_UNROLL;
    bool hidden = true; // RED_CUSTOM: what steps compute depends on the states
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        hidden &= st->op != RED_CUSTOM && value_work(n->e->scratch, st->step) >= MUCH_WORK;
    }
    if (vectors < 2 || (hidden && vectors < MANY_VECTORS)) return 1;
    int sums = vectors < REDUCE_UNROLL ? (int)vectors : REDUCE_UNROLL, enough = ENOUGH / positions_of(n);
    return sums < enough ? sums : enough > 1 ? enough : 1;
}

static void begin_states(nest *n, ins **vars, ins **rest) {
    emitter *e = n->e;
    for (int t = 0; t < positions_of(n); t++) {
        scope mark = scope_open(e);
        ins **of = at_position(n, t, vars, rest);
        for (int j = 0; j < n->s->states.n; j++) {
            const state *st = &n->s->states.at[j];
            n->vars[j] = lb_var(&e->b, "rest", nest_initial(n, st, 1));
            expr *start = st->op == RED_CUSTOM ? st->init : reduce_neutral(e->k, st->op, st->dtype);
            for (int u = 0; u < n->sums; u++)
                of[j * REDUCE_UNROLL + u] =
                    lb_var(&e->b, "acc", lb_splat(&e->b, emit_value(e, start), n->lanes));
        }
        scope_close(e, mark);
    }
    leave_positions(n);
}

static void end_states(nest *n, ins **vars, ins **rest) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    ins *acc[64], *from[64];
    int states = n->s->states.n;
    for (int t = 0; t < positions_of(n); t++) {
        scope mark = scope_open(e);
        ins **of = at_position(n, t, vars, rest);
        for (int j = 0; j < states; j++) acc[j] = lb_get(b, of[j * REDUCE_UNROLL]);
        nest_merge_lanes(n, acc);
        for (int j = 0; j < states; j++) from[j] = lb_get(b, n->vars[j]);
        if (has_rest(n)) nest_merge(n, acc, from);
        memcpy(e->state, acc, (size_t)states * sizeof *acc);
        nest_write(n, WRITE_END);
        scope_close(e, mark);
    }
    leave_positions(n);
}

void nest_point_reduced(nest *n) {
    emitter *e = n->e;
    size_t states = (size_t)n->s->states.n * (size_t)positions_of(n);
    ins **vars = ARENA_ARRAY(e->scratch, ins *, states * REDUCE_UNROLL + 1),
        **rest = ARENA_ARRAY(e->scratch, ins *, states + 1), **own = n->vars;
    scope mark = scope_open(e);
    n->sums = sums_of(n);
    begin_states(n, vars, rest);
    emitter_stage(e, n->s, n->vaxis, n->lanes, true);
    reduce_loops(n, vars, rest, 0);
    nest_leave_ranges(n);
    if (n->ninner > 1) merge_sums(n, vars);
    emitter_stage(e, n->s, -1, 1, false);
    end_states(n, vars, rest);
    n->vars = own;
    scope_close(e, mark);
}
