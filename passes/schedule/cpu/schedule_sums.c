// The innermost loop of reductions that go on in each lane by itself.
//
// Sums of many terms are split into blocks with separate partial sums, because a single running sum rounds each term to the precision
// of the whole sum (N. Higham, The accuracy of floating point summation, 1993).
//
// A step waits for the result of the one before. Where a position has few vectors, several states side by side hide that latency:
//
//   for r < extent:                       for r < extent in steps of 4:
//     s op= term[r]                         s0 op= term[r], s1 op= term[r + 1], s2 op= term[r + 2], s3 op= term[r + 3]
//                                         s = s0 op s1 op s2 op s3
#include "ir/kernel/kernel_cost.h"
#include "passes/match/form.h"
#include "passes/schedule/common/nest.h"

enum { SUM_BLOCK = 128, SIDE_BY_SIDE = 4 };

static bool only_reduces(const nest *n) {
    for (int j = 0; j < n->ninner; j++)
        if (n->e->k->axes.at[n->inner[j]].kind != AXIS_REDUCE) return false;
    return n->ninner && n->s->states.n && stage_keeps_terms(n->s);
}

static bool sums_in_blocks(const nest *n) {
    const emitter *e = n->e;
    int64_t terms = 1;
    if (e->t->fp == FP_STRICT || !only_reduces(n)) return false;
    for (int j = 0; j < n->ninner; j++) {
        const dim *extent = e->extent[n->inner[j]];
        if (!dim_is_const(extent) || dim_value(extent) > 2 * SUM_BLOCK) terms = 2 * SUM_BLOCK;
        else if (terms < 2 * SUM_BLOCK) terms *= dim_value(extent);
    }
    for (int j = 0; j < n->s->states.n; j++)
        if (n->s->states.at[j].op != RED_SUM || !dtype_is_float(n->s->states.at[j].dtype)) return false;
    return terms >= 2 * SUM_BLOCK;
}

// Integers take a cycle; much arithmetic hides the latency.
static bool waits(const nest *n, const state *st) {
    enum { MUCH_WORK = 12 };
    bool reorders = st->op == RED_SUM || st->op == RED_PROD;
    return dtype_is_float(st->dtype) && st->op != RED_CUSTOM && !(reorders && n->e->t->fp == FP_STRICT) &&
           value_work(n->e->scratch, st->step) < MUCH_WORK;
}

// Windows of open size are small.
static bool is_short(const nest *n) {
    enum { SHORT = 4 * SIDE_BY_SIDE };
    const dim *extent = n->e->extent[n->inner[n->ninner - 1]];
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, PART_STEP));
    bool slides = false;
    for (int j = 0; j < reads.n; j++) slides |= read_slides(n->e->k, reads.at[j]);
    return extent->max < SHORT || (slides && !dim_is_const(extent));
}

// How many states side by side keep the CPU busy.
static int side_by_side(const nest *n) {
    enum { REGISTERS = 16 };
    const emitter *e = n->e;
    const target *t = e->t;
    bool vectors = !n->reduce_vector && e->lanes > 1 && t->vector_regs >= REGISTERS;
    if (!vectors || t->compact || t->size_level || n->waxis >= 0 || nest_iterates(n) || !only_reduces(n) ||
        is_short(n))
        return 1;
    int registers = 0;
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        if (!waits(n, st)) return 1;
        int lanes = target_lanes(t, dtype_bits(st->dtype));
        registers += (e->lanes + lanes - 1) / lanes;
    }
    return registers < SIDE_BY_SIDE ? SIDE_BY_SIDE / registers : 1;
}

void nest_choose_sums(nest *n) {
    n->piecewise = sums_in_blocks(n);
    n->apart = side_by_side(n);
}

static ins **neutral_states(nest *n, const char *name) {
    emitter *e = n->e;
    ins **vars = ARENA_ARRAY(e->scratch, ins *, n->s->states.n);
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        vars[j] = lb_var(&e->b, name, emit_vector(e, reduce_neutral(e->k, st->op, st->dtype)));
    }
    return vars;
}

static void merge_into(nest *n, ins **into, ins **from) {
    lbuild *b = &n->e->b;
    ins *acc[64], *other[64];
    for (int j = 0; j < n->s->states.n; j++) acc[j] = lb_get(b, into[j]), other[j] = lb_get(b, from[j]);
    nest_merge(n, acc, other);
    for (int j = 0; j < n->s->states.n; j++) lb_set(b, into[j], acc[j]);
}

static void steps_one_by_one(nest *n, ins *begin, ins *end) {
    scope loop = nest_open_loop(n, n->inner[n->ninner - 1], begin, end, 1, LOOP_SERIAL);
    nest_step(n);
    scope_close(n->e, loop);
}

// The steps from begin to end; returns where the rest of them begins.
static ins *steps_side_by_side(nest *n, ins *begin, ins *end) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    int axis = n->inner[n->ninner - 1];
    ins **own[SIDE_BY_SIDE] = {n->vars}, *none = lb_idx(b, 0);
    for (int u = 1; u < n->apart; u++) own[u] = neutral_states(n, "side");
    ins *count = lb_bin(b, L_SMAX, lb_sub(b, end, begin), none);
    ins *rest = lb_add(b, begin, emit_int_floor(b, count, n->apart));
    scope loop = nest_open_loop(n, axis, begin, rest, n->apart, LOOP_SERIAL);
    for (int u = 0; u < n->apart; u++) {
        scope mark = scope_open(e);
        e->counter[axis] = idx_addk(b, loop.head, u);
        n->vars = own[u];
        nest_step(n);
        scope_close(e, mark);
    }
    scope_close(e, loop);
    n->vars = own[0];
    for (int u = 1; u < n->apart; u++) merge_into(n, n->vars, own[u]);
    return rest;
}

static void steps(nest *n, ins *begin, ins *end) {
    if (n->apart > 1) begin = steps_side_by_side(n, begin, end);
    if (!same_index(begin, end)) steps_one_by_one(n, begin, end);
}

static void sum_of_block(nest *n, ins *begin, ins *end) {
    ins **total = n->vars, **piece = neutral_states(n, "piece");
    n->vars = piece;
    steps(n, begin, end);
    n->vars = total;
    merge_into(n, total, piece);
}

void nest_sum(nest *n) {
    emitter *e = n->e;
    lbuild *b = &e->b;
    ins *begin, *end;
    nest_range(n, n->inner[n->ninner - 1], &begin, &end);
    if (!n->piecewise) {
        steps(n, begin, end);
        return;
    }
    if (end->op == L_CONST && end->i <= 2 * SUM_BLOCK) {
        sum_of_block(n, begin, end);
        return;
    }
    scope loop = scope_for(e, "piece", begin, end, SUM_BLOCK, LOOP_SERIAL);
    ins *next = idx_addk(b, loop.head, SUM_BLOCK);
    sum_of_block(n, loop.head, lb_bin(b, L_SMIN, next, end));
    scope_close(e, loop);
}
