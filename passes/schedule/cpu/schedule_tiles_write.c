// Results of matrix tiles: computes f of the previous block's sums, row by row, and writes them.
#include "ir/loops/convert.h"
#include "passes/schedule/common/requantise.h"
#include "passes/schedule/cpu/schedule_tiles_impl.h"
#include <string.h>

void store_sums(tiles *x, int row, int column) {
    lbuild *b = &x->t.e->b;
    ins *at = lb_idx(b, (int64_t)column * SCRATCH_COLUMN);
    if (row) at = lb_add(b, at, idx_mulk(b, x->region->high[0], COLUMNS));
    lb_tile_store(b, accumulator(row, column), lb_offset(b, x->scratch, at, TILE_GROUP),
                  lb_idx(b, TILE_BYTES));
}

// The writer is a separate emitter, as values cached for the current block are not those of the previous.
static void begin_writing(tiles *x) {
    emitter *e = x->t.e, *w = x->writer;
    arena *a = e->scratch;
    *w = *e;
    w->counter = ARENA_ARRAY(a, ins *, e->k->axes.n);
    w->entries = ARENA_ARRAY(a, struct emit_entry, e->nentries);
    for (int j = 0; j < e->nentries; j++) w->entries[j] = (struct emit_entry){.read = e->entries[j].read};
    memset(&w->log, 0, sizeof w->log);
    w->state = ARENA_ARRAY(a, ins *, 1);
    for (int j = 0; j < e->k->axes.n; j++)
        w->counter[j] = x->old[j] ? lb_get(&e->b, x->old[j]) : e->counter[j];
    emitter_stage(w, x->t.c->s, x->t.c->n, x->t.lanes, true);
}

// The counters of a row of the previous block.
static void set_row(tiles *x, ins *row) {
    emitter *w = x->writer;
    const tiling *t = &x->t;
    lbuild *b = &w->b;
    ins *m = lb_get(b, x->old[t->tile_m]);
    if (x->region->across) {
        ins *second = lb_cmp(b, L_SLE, x->region->high[0], row), *zero = lb_idx(b, 0);
        w->counter[x->r.pair_axis] =
            lb_add(b, lb_get(b, x->old[x->r.pair_axis]), lb_select(b, second, lb_idx(b, 1), zero));
        m = lb_sub(b, m, lb_select(b, second, x->region->high[0], zero));
    }
    m = lb_add(b, m, row);
    if (x->r.pitch) {
        ins *line = emit_int_op(b, X_FLOORDIV, m, lb_idx(b, x->r.pitch));
        int64_t width = dim_value(w->extent[t->tile_m]);
        w->counter[x->r.pair_axis] = line;
        m = lb_sub(b, m, idx_mulk(b, line, x->r.pitch));
        x->inside = lb_cmp(b, L_SLT, m, lb_idx(b, width));
        m = lb_bin(b, L_SMIN, m, lb_idx(b, width - 1));
    }
    w->counter[t->tile_m] = m;
}

// The counter and the sums of a vector of columns.
static void set_column(tiles *x, ins *row, int column) {
    emitter *w = x->writer;
    const tiling *t = &x->t;
    lbuild *b = &w->b;
    ltype type = lt(compute_kind(t->c->s->states.at[0].dtype), t->lanes);
    ins *at = idx_addk(b, idx_mulk(b, row, COLUMNS), (int64_t)column * SCRATCH_COLUMN);
    w->counter[t->c->n] = idx_addk(b, lb_get(b, x->old_n), (int64_t)column * COLUMNS);
    w->state[0] = lb_load(b, type, x->scratch, at, 0);
}

static void write_row(tiles *x, ins *row) {
    emitter *w = x->writer;
    scope mark = scope_open(w);
    set_row(x, row);
    scope some = scope_if(w, x->inside);
    for (int v = 0; v < x->columns; v++) {
        scope column = scope_open(w);
        set_column(x, row, v);
        w->active = v == x->columns - 1 ? x->last : NULL;
        emit_write(w, x->t.c->w, x->t.write, NULL);
        w->active = NULL;
        scope_close(w, column);
    }
    scope_close(w, some);
    scope_close(w, mark);
}

// Two rows of saturated bytes: the four vectors are packed at once. The second row is the first one again where
// the block ends there.
static void write_two_rows(tiles *x, ins *row) {
    emitter *w = x->writer;
    lbuild *b = &w->b;
    const write *to = x->t.c->w;
    ins *part[4], *at[2], *inside[2], *last = lb_sub(b, lb_get(b, x->rows_left), lb_idx(b, 1));
    ins *rows[2] = {row, lb_bin(b, L_SMIN, idx_addk(b, row, 1), last)};
    for (int j = 0; j < 4; j++) {
        scope mark = scope_open(w);
        set_row(x, rows[j / 2]);
        set_column(x, rows[j / 2], j % 2);
        if (j % 2 == 0) at[j / 2] = emit_index(w, x->t.write->offset), inside[j / 2] = x->inside;
        part[j] = emit_vector(w, to->value);
        scope_close(w, mark);
    }
    ins *bytes = pack_saturated(b, part);
    for (int j = 0; j < 2; j++) {
        scope some = scope_if(w, inside[j]);
        lb_store(b, pointer_of(w, to->to), at[j], half_of_vector(b, bytes, j), 0);
        scope_close(w, some);
    }
}

// Whether write_two_rows can write them.
static bool packs_rows(tiles *x) {
    const emitter *e = x->t.e;
    const write *w = x->t.c->w;
    bool bytes = w->to->dtype == DT_U8 || w->to->dtype == DT_I8;
    return bytes && e->t->avx512 && write_is_plain(w) && x->columns == 2 && !x->last &&
           steps_by_one(x->t.write, x->t.c->n) && emit_saturates(x->t.e, w->value);
}

void write_rows_before(tiles *x, ins *end) {
    emitter *e = x->t.e;
    lbuild *b = &e->b;
    ins *row = lb_get(b, x->row), *all = lb_get(b, x->rows_left);
    bool two = packs_rows(x);
    end = end ? lb_bin(b, L_SMIN, end, all) : all;
    begin_writing(x);
    ins *loop = lb_for(b, "row", row, end, lb_idx(b, two ? 2 : 1), LOOP_SERIAL);
    x->writer->b = *b;
    if (two) write_two_rows(x, loop);
    else write_row(x, loop);
    b->block = x->writer->b.block;
    lb_end(b, loop);
    lb_set(b, x->row, lb_bin(b, L_SMAX, row, end));
}

void write_rows(tiles *x, int64_t n) {
    lbuild *b = &x->t.e->b;
    write_rows_before(x, idx_addk(b, lb_get(b, x->row), n));
}

void write_first_rows(tiles *x) {
    lbuild *b = &x->t.e->b;
    ins *row = lb_get(b, x->row), *left = lb_sub(b, x->region->high[0], row);
    write_rows_before(x, lb_add(b, row, emit_int_floor(b, left, 2)));
}
