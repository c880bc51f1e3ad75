// Versions of a contraction. In: one that the CPU schedules by tiles. Out: its loops; for a number of rows that is open, those for
// many rows, which share the widening or unpacking of B's columns, and those for few, chosen at run time.
#include "ir/kernel/program.h"
#include "passes/schedule/cpu/contract_digits.h"
#include "passes/schedule/cpu/contract_tiling.h"
#include "passes/schedule/cpu/schedule_groups.h"

// A version for least_unpacked_rows or more, whose tiling is t; if there may be fewer, one that leaves B as it is has the same tasks.
// `before`: the emitter as it was before t.
static void by_number_of_rows(emitter *e, tiling *t, emitter *before, ins *scratch) {
    emitter *own = t->e;
    dim *rows = axes_extent(own->k, t->c->m.at, t->c->m.n);
    bool always = has_many_rows(own->t, t->c);
    ins *least = lb_idx(&own->b, least_unpacked_rows(own->t, t->c));
    scope many = scope_if(own, always ? NULL : lb_cmp(&own->b, L_SLE, least, emit_dim(own, rows)));
    tiling_loops(t, NULL);
    if (!always) {
        many = scope_else(own, many);
        before->b = own->b, before->task_axis = own->task_axis;
        before->task_outer = own->task_outer, before->task_pieces = own->task_pieces;
        schedule_contraction_in_tasks(before, t->c, t, scratch);
        own->b = before->b;
    }
    scope_close(own, many);
    *e = *own;
}

// Columns of halves stored as f32, or pairs for which the target has no unit. With a separate emitter, since it may turn out
// that they do not fit.
static bool by_widening(emitter *e, const contraction *c, ins *scratch) {
    if (!scratch || !widens(e->t, c)) return false;
    emitter own = emitter_apart(e), before = emitter_apart(e);
    tiling t = tiling_of(&own, c, scratch);
    t.pairs = widens_pairs(e->t, c);
    if (!prepare_tiling(&t) || !panels_are_dense(&t)) return false;
    flatten_rows(&t);
    choose_tile(&t);
    choose_blocks(&t);
    by_number_of_rows(e, &t, &before, scratch);
    return true;
}

bool find_unpacking(tiling *t) {
    bool fits =
        prepare_tiling(t) && panels_are_dense(t) && (!t->words || t->k.at[t->k.n - 1] == t->group_axis);
    t->unpacks = true, t->group_axis = -1;
    return fits;
}

// Constants of a byte or less, unpacked for all rows.
static bool by_unpacking(emitter *e, const contraction *c, ins *scratch) {
    if (!scratch || !unpacks_for_rows(e->t, c)) return false;
    emitter own = emitter_apart(e), before = emitter_apart(e);
    tiling t = tiling_of(&own, c, scratch);
    if (!find_unpacking(&t)) return false;
    find_pairs(&t, scratch);
    choose_tile(&t);
    choose_blocks(&t);
    by_number_of_rows(e, &t, &before, scratch);
    return true;
}

static bool by_bytes(emitter *e, const contraction *c, ins *scratch) {
    if (!scratch || !byte_rows_scratch(e->t, c)) return false;
    emitter own = emitter_apart(e);
    tiling t = {.e = &own, .c = c, .tile_m = -1, .group_axis = -1, .row_piece = PIECE_ROWS};
    if (!prepare_tiling(&t) || !find_byte_rows(&t, scratch)) return false;
    choose_tile(&t);
    tiling_loops(&t, NULL);
    *e = own;
    return true;
}

bool schedule_contraction(emitter *e, const contraction *c, ins *scratch) {
    tiling t = tiling_of(e, c, scratch);
    if (!keeps_order(e->t, c)) return false;
    if (c->n >= 0 && schedule_across(e, c)) return true;
    if (by_widening(e, c, scratch) || by_bytes(e, c, scratch) || by_unpacking(e, c, scratch)) return true;
    if (!copies_columns(e->t, c)) t.wide = NULL;
    if (!prepare_tiling(&t)) return false;
    flatten_rows(&t);
    choose_tile(&t);
    choose_blocks(&t);
    t.copies = t.block.splits && t.wide;
    tiling_loops(&t, scratch);
    return true;
}

void schedule_contraction_in_tasks(emitter *e, const contraction *c, const tiling *like, ins *scratch) {
    tiling t = {.e = e, .c = c, .tile_m = -1, .group_axis = -1};
    t.row_piece = like->row_piece, t.column_piece = like->column_piece;
    if (!prepare_tiling(&t)) diag_defect(e->b.diag, e->k->loc, "kernel %s is not a contraction", e->k->name);
    find_byte_rows(&t, scratch);
    if (like->flat.n) flatten_rows(&t);
    t.vectors = like->vectors;
    tiling_loops(&t, scratch);
}
