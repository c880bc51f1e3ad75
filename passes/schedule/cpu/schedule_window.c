// Small windows over adjacent positions (depthwise convolution, pooling, stencils): several positions of one
// axis at a time with unrolled taps, so that sums stay in registers and overlapping taps are loaded once.
//
//   for p in steps of positions:              (by the loops of schedule.c)
//     for v in steps of lanes:
//       acc[positions][lanes] = init
//       for every tap, the last axes unrolled: for t < positions: step at p + t
//       write p + t, v .. v + lanes
//
// Without vectors, sums of integers over a row that does not depend on p have several positions, too: what is loaded of it
// serves all of them.
#include "passes/schedule/common/nest.h"
#include <string.h>

enum {
    MOST_TAPS = 64,
    WIDE_TAPS = 8,
    HELIUM_TAPS = 16,
    MOST_POSITIONS = 8,
    SCALAR_TAPS = 9,
    SCALAR_POSITIONS = 5,
    SCALAR_SUMS = 4,
    ROW_STEPS = 4
};

// ---------------------------------------------------------------- legality
static bool moves(const access *a, int axis) {
    return !(a->coef[axis]->op == X_CONST && a->coef[axis]->i == 0);
}

// A dimension that waxis and an inner axis index together: positions share elements.
static bool shares_elements(const nest *n, const expr *read) {
    for (int d = 0; d < read->buffer->rank; d++)
        for (int i = 0; i < n->ninner; i++)
            if (expr_uses_axis(read->index[d], n->waxis) && expr_uses_axis(read->index[d], n->inner[i]))
                return true;
    return false;
}

static bool window_shares(const nest *n) {
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, PART_STEP));
    for (int j = 0; j < reads.n; j++)
        if (shares_elements(n, reads.at[j])) return true;
    return false;
}

// Whether it is a window: waxis and an inner axis both index a read. Where small code is preferred, positions also share
// elements of it, as otherwise unrolled code saves counting only. What is read once for each result, such as a table, may lie
// anywhere.
static bool has_window(const nest *n) {
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, PART_STEP));
    bool window = false, small = n->vaxis < 0 && n->e->t->size_level;
    for (int j = 0; j < reads.n; j++) {
        const access *a = entry_of(n->e, reads.at[j])->read;
        if (!a || !a->affine || reads.at[j]->guard) return false;
        if (small && !shares_elements(n, reads.at[j])) continue;
        for (int i = 0; i < n->ninner; i++) window |= moves(a, n->inner[i]) && moves(a, n->waxis);
    }
    return window;
}

// For sums side by side: registers, and code.
static bool has_room(const target *t) { return !t->no_wide_product && !t->size_level; }

static bool adds_integers(const nest *n) {
    for (int j = 0; j < n->s->states.n; j++)
        if (n->s->states.at[j].op != RED_SUM || !dtype_is_int(n->s->states.at[j].dtype)) return false;
    return true;
}

// Whether positions load anything in common: elements, or an operand that does not depend on the position.
static bool positions_share(const nest *n) {
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, PART_STEP));
    for (int j = 0; j < reads.n; j++) {
        const access *a = entry_of(n->e, reads.at[j])->read;
        for (int i = 0; i < n->ninner && a && a->affine; i++)
            if (moves(a, n->inner[i]) && !moves(a, n->waxis)) return true;
    }
    return window_shares(n);
}

// Whether the last inner axis goes along a row for all positions, and all reads are affine.
static bool shares_row(const nest *n) {
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, PART_STEP));
    bool any = false;
    for (int j = 0; j < reads.n; j++) {
        const access *a = entry_of(n->e, reads.at[j])->read;
        if (!a || !a->affine || reads.at[j]->guard) return false;
        any |= moves(a, n->inner[n->ninner - 1]) && !moves(a, n->waxis);
    }
    return any;
}

static bool states_allow(const nest *n) {
    for (int j = 0; j < n->s->writes.n; j++)
        if (n->s->writes.at[j].when != WRITE_END || n->s->writes.at[j].guard) return false;
    return n->s->states.n > 0 && n->s->states.n <= 2;
}

static bool scatters(const nest *n) {
    for (int j = 0; j < n->s->writes.n; j++)
        if (!steps_by_one(n->writes[j], n->vaxis)) return true;
    return false;
}

// Rows of a window in a loop take less code, which wide vectors wait for longer than for the loop. Helium's eight registers hold
// no more than the taps of small windows, nor sums that wait for others to be scattered.
static int64_t most_taps(const nest *n, int64_t row) {
    if (n->vaxis < 0) return SCALAR_TAPS;
    if (n->e->t->dot_across && row > 1) return scatters(n) || n->e->t->size_level ? row : HELIUM_TAPS;
    return (n->e->t->vector_bits > 128 || n->e->t->compact) && row > 1 ? WIDE_TAPS : MOST_TAPS;
}

// Finds the inner axes from *first on that are small enough to unroll; returns the number of taps.
static int64_t unrolled_taps(const nest *n, int *first) {
    int64_t taps = 1;
    for (*first = n->ninner; *first > 0; --*first) {
        const dim *extent = n->e->extent[n->inner[*first - 1]];
        if (!dim_is_const(extent) || dim_value(extent) * taps > most_taps(n, taps)) break;
        taps *= dim_value(extent);
    }
    return taps;
}

// Positions per tile: as many sums as fit in registers, with a small tail.
static int choose_positions(const target *t, const dim *extent, int states) {
    int room = t->vector_regs / (t->compact ? 4 : 2);
    int most = (room < MOST_POSITIONS ? room : MOST_POSITIONS) / states;
    if (!dim_is_const(extent) || dim_value(extent) <= most)
        return dim_is_const(extent) ? (int)dim_value(extent) : most;
    int64_t n = dim_value(extent), tiles = (n + most - 1) / most;
    return (int)((n + tiles - 1) / tiles);
}

// Without vectors, code for a tail would cost as many bytes as a larger tile.
static int choose_scalar_positions(const dim *extent, int most) {
    if (!dim_is_const(extent)) return 2;
    while (most > 2 && dim_value(extent) % most) most--;
    return most;
}

// Positions that share nothing, such as the samples of a global average, hide the latency of additions only, as vectors side by
// side do. A loop over many taps does as well as unrolled code.
static void choose_apart(nest *n, int64_t taps) {
    enum { FEW_TAPS = 16 };
    const target *t = n->e->t;
    int vectors = n->lanes * dtype_bits(dtype_compute(n->s->states.at[0].dtype)) / t->vector_bits;
    if (vectors > 1) n->tile /= vectors;
    if (taps > FEW_TAPS) n->unrolled = n->ninner;
}

// Whether sums may take pairs of registers where vectors of the target take single ones.
static bool fills_pairs(const nest *n) {
    const target *t = n->e->t;
    const dim *extent = n->e->extent[n->vaxis];
    return t->arch.vector_lengths && t->vector_bits == t->register_bits && dim_is_const(extent) &&
           dim_value(extent) >= 2 * n->lanes;
}

// The loop next to the vectors, or an outer one whose positions share elements where those of the next one do not, as
// results of one channel do, which have separate weights.
static void choose_axis(nest *n, bool scalar) {
    int last = n->nparallel - (scalar ? 1 : 2);
    for (int j = last; j >= 0 && !scalar; j--) {
        n->waxis = n->parallel[j];
        if (n->e->extent[n->waxis]->max < 2 || !window_shares(n)) continue;
        memmove(n->parallel + j, n->parallel + j + 1, (size_t)(last - j) * sizeof *n->parallel);
        n->parallel[last] = n->waxis;
        return;
    }
    n->waxis = n->parallel[last];
}

void window_choose(nest *n) {
    bool scalar = n->vaxis < 0;
    if (scalar && (n->e->t->vector_bits || n->e->t->arch.is_text || n->e->t->size_level > 1)) return;
    if (n->reduce_vector || n->nparallel < (scalar ? 1 : 2) || !n->ninner || !states_allow(n)) return;
    choose_axis(n, scalar);
    const dim *extent = n->e->extent[n->waxis];
    int64_t taps = unrolled_taps(n, &n->unrolled);
    if (taps > 1 && has_window(n))
        n->tile = scalar ? choose_scalar_positions(extent, SCALAR_POSITIONS)
                         : choose_positions(n->e->t, extent, n->s->states.n);
    else if (scalar && has_room(n->e->t) && adds_integers(n) && shares_row(n))
        n->unrolled = n->ninner, n->tile = choose_scalar_positions(extent, SCALAR_SUMS / n->s->states.n);
    if (!scalar && n->tile && !positions_share(n)) choose_apart(n, taps);
    if (n->tile < 2) n->waxis = -1, n->tile = 0;
    if (n->waxis >= 0 && !scalar && fills_pairs(n)) n->lanes *= 2;
}

// ---------------------------------------------------------------- loops
typedef struct window {
    nest *n;
    ins **vars[MOST_POSITIONS]; // states by position
} window;

static void at_position(window *w, int t) {
    emitter *e = w->n->e;
    e->counter[w->n->waxis] = idx_addk(&e->b, w->n->base, t);
    w->n->vars = w->vars[t];
}

// Steps along a row in the body of its loop.
static int row_steps(const nest *n, int depth) {
    const dim *extent = n->e->extent[n->inner[depth]];
    bool row = n->vaxis < 0 && depth == n->ninner - 1 && dim_is_const(extent);
    int steps = row ? ROW_STEPS : 1;
    while (steps > 1 && dim_value(extent) % steps) steps /= 2;
    return steps;
}

static void window_steps(window *w, int depth) {
    nest *n = w->n;
    emitter *e = n->e;
    if (depth == n->ninner) {
        for (int t = 0; t < n->positions; t++) at_position(w, t), nest_step(n);
        return;
    }
    int axis = n->inner[depth];
    if (depth < n->unrolled) {
        int steps = row_steps(n, depth);
        scope loop = scope_axis(e, axis, lb_idx(&e->b, 0), emit_dim(e, e->extent[axis]), steps, LOOP_SERIAL);
        ins *first = e->counter[axis];
        for (int i = 0; i < steps; i++) {
            e->counter[axis] = idx_addk(&e->b, first, i);
            window_steps(w, depth + 1);
        }
        e->counter[axis] = first;
        scope_close(e, loop);
        return;
    }
    for (int64_t i = 0; i < dim_value(e->extent[axis]); i++) {
        e->counter[axis] = lb_idx(&e->b, i);
        window_steps(w, depth + 1);
    }
    e->counter[axis] = NULL;
}

void window_point(nest *n) {
    emitter *e = n->e;
    window w = {.n = n};
    ins **own = n->vars;
    for (int t = 0; t < n->positions; t++) {
        scope mark = scope_open(e);
        w.vars[t] = ARENA_ARRAY(e->scratch, ins *, n->s->states.n + 1);
        at_position(&w, t);
        nest_init(n);
        scope_close(e, mark);
    }
    window_steps(&w, 0);
    for (int t = 0; t < n->positions; t++) {
        scope mark = scope_open(e);
        at_position(&w, t);
        nest_use_states(n);
        nest_write(n, WRITE_END);
        scope_close(e, mark);
    }
    e->counter[n->waxis] = NULL;
    n->vars = own;
}
