// Widening of columns. In: panels of f16 or bf16 constants, of which every tile of rows would convert the same
// elements again. Out: code that stores the columns of a tile as f32 before its rows, for one block of K:
//
//   for k in block, v < NV: wide[k][v] = f32(B[k][n0 + v L ...])
//
// so that tiles of rows read f32 from a cache, and memory is read at half its size.
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/schedule/cpu/contract_tiling.h"
#include "passes/schedule/cpu/schedule_groups.h"

static bool is_half(dtype t) { return t == DT_F16 || t == DT_BF16; }

// Rows of which there are fewer than two tiles gain nothing.
static bool gains(const contraction *c) {
    int64_t m = positions(c->k, &c->m);
    return m != INT64_MAX && m > 2 * MAX_ROWS;
}

int64_t widened_bytes(const target *t, const contraction *c) {
    int64_t k = positions(c->k, &c->k_axes);
    if (t->fp == FP_STRICT || c->n < 0 || c->s->states.at[0].dtype != DT_F32 || t->vector_bits < 128)
        return 0;
    if (c->term_b != c->b || c->b->guard || !is_half(c->b->buffer->dtype) || group_elements(c)) return 0;
    if (!is_packed_operand(c->b, c->n) || k == INT64_MAX || !gains(c)) return 0;
    return block_depth(t, c) * MAX_VECTORS * target_lanes(t, 32) * (int64_t)sizeof(float);
}

// The first position of the current block of K, and the number of positions.
static ins *begin_block(tiling *t) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    ins *n = lb_idx(b, 1);
    for (int j = t->k_begin ? t->block.k_at : 0; j < t->k.n; j++) {
        bool part = t->k_begin && j == t->block.k_at;
        e->counter[t->k.at[j]] = part ? t->k_begin : lb_idx(b, 0);
        n = lb_mul(b, n, part ? lb_sub(b, t->k_end, t->k_begin) : emit_dim(e, e->extent[t->k.at[j]]));
    }
    return n;
}

static void end_block(tiling *t) {
    for (int j = t->k_begin ? t->block.k_at : 0; j < t->k.n; j++) t->e->counter[t->k.at[j]] = NULL;
}

// Whether a panel is the positions of K in the order of their loops.
static bool is_dense(const tiling *t) {
    int64_t step = PANEL;
    for (int j = t->k.n - 1; j >= 0; j--) {
        if (!expr_is_int(t->b->coef[t->k.at[j]], step)) return false;
        step *= dim_value(t->e->extent[t->k.at[j]]);
    }
    return true;
}

void widen_columns(tiling *t, const tile *x, ins *first_column) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int64_t width = (int64_t)x->vectors * t->lanes;
    t->is_wide = width % PANEL == 0 && is_dense(t);
    if (!t->is_wide) return;
    scope mark = scope_open(e);
    ins *n = begin_block(t);
    t->wide_from = lb_add(b, emit_index(e, t->b->offset), first_column);
    end_block(t);
    scope_close(e, mark);
    ins *k = lb_for(b, "wide", lb_idx(b, 0), n, lb_idx(b, 1), LOOP_SERIAL);
    ins *from = lb_add(b, t->wide_from, idx_mulk(b, k, PANEL)), *to = idx_mulk(b, k, width);
    for (int v = 0; v < x->vectors; v++) {
        const buffer *of = t->c->b->buffer;
        ins *at = lb_add(b, from, column_offset(t, v));
        ins *loaded = load_element(b, of->dtype, pointer_of(e, of), at, t->lanes);
        lb_store(b, t->wide, idx_addk(b, to, (int64_t)v * t->lanes), loaded, 0);
    }
    lb_end(b, k);
}

ins *load_widened(tiling *t, const tile *x, ins *at, int v) {
    lbuild *b = &t->e->b;
    int64_t panels = (int64_t)x->vectors * t->lanes / PANEL;
    ins *place = idx_mulk(b, lb_sub(b, at, t->wide_from), panels);
    return lb_load(b, lt(LK_F32, t->lanes), t->wide, idx_addk(b, place, (int64_t)v * t->lanes), 0);
}
