// Tasks of a kernel. In: axes with their loops, of which some are open. Out: the axes whose positions or pieces threads share, and
// the ranges of the loops over them in a call for some of the tasks.
#include "passes/schedule/common/emit_tasks.h"
#include "passes/schedule/common/emit.h"

void emitter_tasks(emitter *e, int axis, dim *tasks) {
    if (!e->task_begin) return;
    e->task_axis = axis;
    e->code->tasks = tasks;
}

void emitter_task_pairs(emitter *e, int outer, int inner, dim *pieces) {
    emitter_tasks(e, inner, dim_mul(e->extent[outer], pieces));
    if (e->task_axis == inner) e->task_outer = outer, e->task_pieces = pieces;
}

void emitter_task_columns(emitter *e, int outer, int inner, const bool *columns, int64_t piece) {
    const dim *n = e->extent[inner];
    emitter_task_pairs(e, outer, inner, dim_const(n->table, dim_value(n) / piece));
    e->task_columns = columns, e->task_piece = piece;
}

void emitter_task_pieces(emitter *e, int outer, int inner, int64_t piece) {
    dim *n = e->extent[inner], *one = dim_const(n->table, 1),
        *pieces = dim_max(dim_floordiv(n, dim_const(n->table, piece)), one);
    if (outer >= 0) emitter_task_pairs(e, outer, inner, pieces);
    else emitter_tasks(e, inner, pieces);
    e->task_piece = piece;
}

void emitter_task_grid(emitter *e, int outer, int inner, dim *outer_pieces, dim *pieces) {
    emitter_tasks(e, inner, dim_mul(outer_pieces, pieces));
    e->task_outer = outer, e->task_pieces = pieces;
}

bool may_be_single(const dim *n) { return !dim_is_const(n) && n->min < 2; }

static bool has_fewer(const emitter *e, int axis, int64_t least) {
    const dim *n = e->extent[axis];
    return dim_is_const(n) && dim_value(n) < least;
}

void emitter_choose_tasks(emitter *e, const task_axes *a) {
    int first = 0, next;
    while (first < a->n - 1 && has_fewer(e, a->axes[first], a->least)) first++;
    if (first >= a->n) return;
    int outer = a->axes[first];
    bool pairs = outer != a->chunked && outer != a->single && may_be_single(e->extent[outer]);
    for (next = first + 1; next < a->n; next++) {
        bool cut = a->axes[next] == a->chunked && dim_is_const(e->extent[a->axes[next]]);
        if (a->axes[next] != a->single && !cut && !has_fewer(e, a->axes[next], 2)) break;
    }
    int64_t part = a->part ? a->part : a->piece;
    if (pairs && next == a->n && a->chunked >= 0 && !has_fewer(e, a->chunked, 2 * part)) {
        emitter_task_pieces(e, outer, a->chunked, part);
        return;
    }
    int axis = pairs && next < a->n ? a->axes[next] : outer;
    dim *pieces = e->extent[axis];
    if (axis == a->chunked) pieces = dim_ceildiv(pieces, dim_const(pieces->table, a->piece));
    if (axis != outer) emitter_task_pairs(e, outer, axis, pieces);
    else emitter_tasks(e, axis, pieces);
}

// The pieces of the inner axis of pairs at the current position of the outer one, or the positions of the outer one.
static void range_of_pairs(emitter *e, int axis, ins **begin, ins **end) {
    lbuild *b = &e->b;
    ins *pieces = emit_dim(e, e->task_pieces), *at = e->task_at ? e->task_at : e->counter[e->task_outer];
    if (axis != e->task_outer && !at) { // not within its loop: those at all of its positions
        *begin = lb_idx(b, 0), *end = pieces;
        return;
    }
    if (axis != e->task_outer) {
        ins *before = lb_mul(b, at, pieces);
        *begin = lb_bin(b, L_SMAX, lb_sub(b, e->task_begin, before), lb_idx(b, 0));
        *end = lb_bin(b, L_SMIN, lb_sub(b, e->task_end, before), pieces);
        return;
    }
    if (e->task_pieces->min < 1) pieces = lb_bin(b, L_SMAX, pieces, lb_idx(b, 1));
    *begin = lb_bin(b, L_SDIV, e->task_begin, pieces);
    *end = lb_bin(b, L_SDIV, lb_add(b, e->task_end, idx_subk(b, pieces, 1)), pieces);
}

void grid_range(emitter *e, ins **begin, ins **end) { range_of_pairs(e, e->task_outer, begin, end); }

// Whether the tasks are pieces of an axis whose length the emitter knows.
static bool has_pieces(const emitter *e, int axis) {
    if (!e->task_begin || !e->task_piece) return false;
    return e->task_columns ? e->task_columns[axis] : axis == e->task_axis;
}

// Positions of the pieces from begin to end, the last of which has those that are too few for a piece.
static void range_of_pieces(emitter *e, int axis, ins **begin, ins **end) {
    lbuild *b = &e->b;
    const dim *n = e->extent[axis];
    ins *last = *end;
    *begin = idx_mulk(b, *begin, e->task_piece), *end = idx_mulk(b, *end, e->task_piece);
    if (dim_is_const(n) && dim_value(n) % e->task_piece == 0) return;
    ins *pieces = emit_dim(e, e->task_outer >= 0 ? e->task_pieces : e->code->tasks);
    *end = lb_select(b, lb_cmp(b, L_SLE, pieces, last), emit_dim(e, e->extent[axis]), *end);
}

void axis_range(emitter *e, int axis, ins **begin, ins **end) {
    bool pieces = has_pieces(e, axis), task = e->task_begin && axis == e->task_axis;
    if (e->task_begin && e->task_outer >= 0 && (task || pieces || axis == e->task_outer)) {
        range_of_pairs(e, axis, begin, end);
    } else {
        *begin = task ? e->task_begin : lb_idx(&e->b, 0);
        *end = task ? e->task_end : emit_dim(e, e->extent[axis]);
    }
    if (pieces) range_of_pieces(e, axis, begin, end);
}

void piece_range(emitter *e, int axis, int64_t piece, ins **begin, ins **end) {
    lbuild *b = &e->b;
    ins *extent = emit_dim(e, e->extent[axis]);
    axis_range(e, axis, begin, end);
    if (!e->task_begin || axis != e->task_axis || has_pieces(e, axis)) return;
    *begin = idx_mulk(b, *begin, piece);
    *end = lb_bin(b, L_SMIN, idx_mulk(b, *end, piece), extent);
}
