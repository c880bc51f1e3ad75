// The epilogue of a contraction, unrolled for each vector of a tile or, if it is long, in a loop over the
// tile on the stack; and sums that wait for the next block of K instead.
#include "ir/kernel/kernel_cost.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/schedule/cpu/contract_tiling.h"

enum { HEAVY_EPILOGUE = 14, HEAVY_AFTER_LONG_SUM = 4, LONG_SUM = 64, ROUNDING = 6, POSITION = 3 };

// Without one for their sum, four products of bytes take several, and two of bf16 are multiply-adds.
static int instructions_of_group(const tiling *t) {
    enum { WIDENED_BYTES = 4, WIDENED_PAIR = 2 };
    if (t->group == 4) return t->e->t->vnni ? 1 : WIDENED_BYTES;
    return t->group == 2 && !t->e->t->bf16mm ? WIDENED_PAIR : 1;
}

// Positions that are data, as those of a resized image, are read for each row of a tile.
static int work_of_positions(arena *scratch, const write *w) {
    expr_list all = reads_only(expr_nodes(scratch, w->value));
    int work = 0;
    for (int j = 0; j < all.n; j++)
        for (int i = 0; i < all.at[j]->buffer->rank; i++)
            if (reads_only(expr_nodes(scratch, all.at[j]->index[i])).n) work += POSITION;
    return work;
}

// There are tiles of two heights, and of up to five where the number of rows is open, so that an epilogue such as a
// requantisation would be most of their code. After a long sum, the loop over the stored tile costs no time.
//
// The code of packed constants that are unpacked for many rows, and multiplied otherwise by few, is so long that products
// share it (ir/loops/outline.c): what differs is in the function.
bool is_heavy_epilogue(const tiling *t) {
    const contraction *c = t->c;
    int work = value_work(c->k->arena, c->w->value) + work_of_positions(t->e->scratch, c->w);
    if (dtype_bits(c->w->to->dtype) == 16 && !rounds_to_bf16(t->e->t, t->lanes)) work += ROUNDING;
    int64_t sum = positions(t->e->k, &c->k_axes) / t->group * instructions_of_group(t);
    bool few = !t->e->t->vector_bits && rounds_to_int(t->e->t, 1); // no more instructions than a call
    bool share = sum >= LONG_SUM && !few, whole_words = t->e->t->hosted && t->e->t->ptr_bits == 64;
    if (share && whole_words && !t->e->t->arch.is_text && unpacks_for_rows(t->e->t, c)) return true;
    return work > (share ? HEAVY_AFTER_LONG_SUM : HEAVY_EPILOGUE);
}

bool epilogue_reads_rows(arena *scratch, const contraction *c) {
    expr_list all = reads_only(expr_nodes(scratch, c->w->value));
    for (int j = 0; j < all.n; j++)
        for (int m = 0; m < c->m.n; m++)
            if (expr_uses_axis(all.at[j], c->m.at[m])) return true;
    return false;
}

// A vector of the current row.
static void finish_vector(tiling *t, ins *n, ins *columns, ins *value) {
    emitter *e = t->e;
    scope mark = scope_open(e);
    e->counter[t->c->n] = n;
    e->active = columns;
    e->state[0] = value;
    emit_write(e, t->c->w, t->write, NULL);
    e->active = NULL;
    scope_close(e, mark);
}

bool writes_once(const tiling *t) {
    return t->k_begin || t->heavy || epilogue_reads_rows(t->e->scratch, t->c);
}

ins *is_row(const tiling *t, const tile *x, int r) {
    lbuild *b = &t->e->b;
    return x->left && r >= x->sure ? lb_cmp(b, L_SLT, lb_idx(b, r), x->left) : NULL;
}

static ins *is_row_left(const tiling *t, const tile *x, int r) {
    lbuild *b = &t->e->b;
    ins *first = x->done && r < x->rows - 1 ? lb_cmp(b, L_SLE, x->done, lb_idx(b, r)) : NULL,
        *last = is_row(t, x, r);
    return first && last ? lb_bin(b, L_AND, first, last) : first ? first : last;
}

// ---------------------------------------------------------------- sums over blocks of K
ins *partial_place(tiling *t, const tile *x) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    const block_plan *p = &t->block;
    ins *row = lb_idx(b, 0);
    if (p->nested) {
        ins *outer = lb_sub(b, e->counter[t->m.at[p->m_at - 1]], t->outer_begin);
        row = lb_mul(b, outer, lb_sub(b, t->m_end, t->m_begin));
    }
    for (int j = p->m_at; j < t->m.n; j++) {
        ins *at = t->m.at[j] == t->tile_m ? x->m0 : e->counter[t->m.at[j]];
        if (j == p->m_at) at = lb_sub(b, at, t->m_begin);
        else row = lb_mul(b, row, emit_dim(e, e->extent[t->m.at[j]]));
        row = lb_add(b, row, at);
    }
    ins *panel = idx_mulk(b, lb_sub(b, x->n0, t->chunk), p->m_step * p->m_inner);
    return lb_add(b, panel, idx_mulk(b, row, (int64_t)x->vectors * t->lanes));
}

void load_partial(tiling *t, const tile *x, ins **acc, ins *at) {
    lbuild *b = &t->e->b;
    ins *more = lb_if(b, t->further);
    for (int r = 0; r < x->rows; r++) {
        scope some = scope_if(t->e, is_row(t, x, r));
        for (int j = r * x->vectors; j < (r + 1) * x->vectors; j++) {
            ins *place = idx_addk(b, at, (int64_t)j * t->lanes);
            lb_set(b, acc[j], lb_load(b, acc[j]->type, t->partial, place, 0));
        }
        scope_close(t->e, some);
    }
    lb_end(b, more);
}

void store_partial(tiling *t, const tile *x, ins **acc, ins *at) {
    lbuild *b = &t->e->b;
    for (int r = 0; r < x->rows; r++) {
        scope some = scope_if(t->e, is_row_left(t, x, r));
        for (int j = r * x->vectors; j < (r + 1) * x->vectors; j++)
            lb_store(b, t->partial, idx_addk(b, at, (int64_t)j * t->lanes), lb_get(b, acc[j]), 0);
        scope_close(t->e, some);
    }
}

// ---------------------------------------------------------------- results
static void finish(tiling *t, const tile *x, ins **acc) {
    lbuild *b = &t->e->b;
    for (int r = 0; r < x->rows; r++) {
        scope some = scope_if(t->e, is_row_left(t, x, r));
        enter_row_of_tile(t, x, r);
        for (int v = 0; v < x->vectors; v++)
            finish_vector(t, idx_addk(b, x->n0, (int64_t)v * t->lanes), v == x->vectors - 1 ? x->last : NULL,
                          lb_get(b, acc[r * x->vectors + v]));
        scope_close(t->e, some);
    }
}

// ---------------------------------------------------------------- long ones
// A tile on the stack.
typedef struct stored_tile {
    ins *at, *m0, *n0; // its memory, first row and column
    ins *rows, *width; // elements from row to row
    ins *whole, *left; // columns in whole vectors, in the last one (0: none)
} stored_tile;

static bool has_part_vectors(const tiling *t) {
    const dim *n = t->e->extent[t->c->n];
    return !dim_is_const(n) || dim_value(n) % t->lanes;
}

static void finish_rows(tiling *t, const stored_tile *s) {
    lbuild *b = &t->e->b;
    ltype type = lt(compute_kind(t->c->s->states.at[0].dtype), t->lanes);
    ins *zero = lb_idx(b, 0);
    ins *r = lb_for(b, "row", zero, s->rows, lb_idx(b, 1), LOOP_SERIAL);
    ins *base = lb_mul(b, r, s->width);
    enter_row(t, lb_add(b, s->m0, r));
    ins *v = lb_for(b, "col", zero, s->whole, lb_idx(b, t->lanes), LOOP_SERIAL);
    finish_vector(t, lb_add(b, s->n0, v), NULL, lb_load(b, type, s->at, lb_add(b, base, v), 0));
    lb_end(b, v);
    if (has_part_vectors(t) && !(s->left->op == L_CONST && s->left->i == 0)) {
        ins *some = lb_if(b, lb_cmp(b, L_SLT, zero, s->left));
        finish_vector(t, lb_add(b, s->n0, s->whole), s->left,
                      lb_load(b, type, s->at, lb_add(b, base, s->whole), 0));
        lb_end(b, some);
    }
    lb_end(b, r);
}

// The loop over the tile as a function: within the kernel its constants would be hoisted out of all loops,
// and the sums would be spilled for them. f(buffers ..., dims ..., tile, counters ...)
enum { TILE_PARAMS = 7 };

static lfunc *make_finisher(tiling *t) {
    emitter *e = t->e;
    arena *a = e->scratch;
    kernel_code *code = ARENA_NEW(a, kernel_code);
    code->kernel = e->k;
    code->f = lfunc_new(e->module, arena_printf(a, "%s_end%d", e->code->f->name, e->module->funcs.n),
                        lt(LK_VOID, 1));
    code->f->target = e->t;
    code->f->kernel = true;
    code->f->strict_fp = e->code->f->strict_fp;
    code->f->ends_tiles = true;
    emitter *own = emitter_new(e->module, e->k, e->t, e->b.diag, code);
    emitter_signature(own, false, NULL);
    ltype index = lt(lindex_kind(e->t), 1);
    static const char *const names[TILE_PARAMS] = {"tile", "m0", "n0", "rows", "width", "whole", "left"};
    ins *p[TILE_PARAMS];
    for (int j = 0; j < TILE_PARAMS; j++)
        p[j] = lfunc_param(code->f, names[j], j ? index : lt_ptr(), LK_VOID, j ? DT_I64 : DT_NONE, true);
    for (int x = 0; x < e->k->axes.n; x++)
        if (e->counter[x])
            own->counter[x] = lfunc_param(code->f, e->k->axes.at[x].name, index, LK_VOID, DT_I64, true);
    // Accesses as in the kernel: its axes may be collapsed.
    own->extent = e->extent;
    own->nentries = e->nentries;
    own->entries = arena_alloc(a, (size_t)e->nentries * sizeof *own->entries + 1);
    for (int j = 0; j < e->nentries; j++) own->entries[j] = (struct emit_entry){.read = e->entries[j].read};
    own->state = ARENA_ARRAY(a, ins *, 1);
    emitter_stage(own, t->c->s, t->c->n, t->lanes, true);
    tiling inside = *t;
    inside.e = own;
    finish_rows(&inside, &(stored_tile){p[0], p[1], p[2], p[3], p[4], p[5], p[6]});
    emitter_store_status(own);
    return code->f;
}

static void call_finisher(tiling *t, const stored_tile *s) {
    emitter *e = t->e;
    if (!t->finisher) t->finisher = make_finisher(t);
    ins **args = ARENA_ARRAY(e->scratch, ins *, t->finisher->params.n + e->k->axes.n);
    int n = 0;
    for (int j = 0; j < e->code->nbuffers; j++) args[n++] = pointer_of(e, e->code->buffers[j]);
    for (int j = 0; j < e->code->ndims; j++) args[n++] = emit_dim(e, e->code->dims[j]);
    if (e->status_param) args[n++] = e->status_param;
    ins *const own[TILE_PARAMS] = {s->at, s->m0, s->n0, s->rows, s->width, s->whole, s->left};
    for (int j = 0; j < TILE_PARAMS; j++) args[n++] = own[j];
    for (int x = 0; x < e->k->axes.n; x++)
        if (e->counter[x]) args[n++] = e->counter[x];
    if (n != t->finisher->params.n)
        diag_defect(e->b.diag, e->k->loc, "kernel %s: its tiles end in different loops", e->k->name);
    lb_call(&e->b, lt(LK_VOID, 1), t->finisher->name, n, args);
}

static void finish_stored(tiling *t, const tile *x, ins **acc) {
    lbuild *b = &t->e->b;
    int64_t width = (int64_t)x->vectors * t->lanes;
    ins *at = lb_local(b, (lkind)acc[0]->type.kind, x->rows * width, 64, false);
    for (int j = 0; j < x->rows * x->vectors; j++)
        lb_store(b, at, lb_idx(b, (int64_t)j * t->lanes), lb_get(b, acc[j]), 0);
    stored_tile s = {.at = at,
                     .m0 = x->m0,
                     .n0 = x->n0,
                     .rows = lb_idx(b, x->rows),
                     .width = lb_idx(b, width),
                     .whole = lb_idx(b, x->last ? width - t->lanes : width),
                     .left = x->last ? x->last : lb_idx(b, 0)};
    if (x->left) s.rows = lb_bin(b, L_SMIN, s.rows, x->left);
    if (x->done) {
        s.at = lb_offset(b, at, lb_mul(b, x->done, s.width), dtype_bits(t->c->s->states.at[0].dtype) / 8);
        s.m0 = lb_add(b, s.m0, x->done);
        s.rows = lb_sub(b, s.rows, x->done);
    }
    if (!t->e->k->locals.n) call_finisher(t, &s);
    else finish_rows(t, &s);
}

void write_tile(tiling *t, const tile *x, ins **acc) {
    if (t->heavy) finish_stored(t, x, acc);
    else finish(t, x, acc);
}
