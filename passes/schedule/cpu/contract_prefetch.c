// Software prefetch in contractions. In: the position of a tile. Out: prefetches of a part of B's next tile
// while this one runs, one cache line in some steps of K; or, where few rows read B once, of what follows in its panels.
#include "passes/schedule/cpu/contract_tiling.h"

// The last columns of the chunk are followed by its first ones, with the next block of K where K is blocked.
static bool wraps(const tiling *t) { return t->m_begin && (!t->k_begin || t->block.k_at == t->k.n - 1); }
static ins *ends_chunk(tiling *t, const tile *x) {
    lbuild *b = &t->e->b;
    return lb_cmp(b, L_SLE, t->chunk_end, idx_addk(b, x->n0, (int64_t)x->vectors * t->lanes));
}
static ins *next_panel(tiling *t, const tile *x) {
    lbuild *b = &t->e->b;
    ins *next = lb_idx(b, t->prefetch_panels);
    if (!wraps(t)) return next;
    ins *first = emit_int_op(b, X_FLOORDIV, lb_sub(b, t->chunk, x->n0), lb_idx(b, t->panel));
    return lb_select(b, ends_chunk(t, x), first, next);
}

// The offset of the part of B's next tile that this tile prefetches: a different part for each tile of M.
// Tiles past the last part prefetch cached data.
ins *prefetch_offset(tiling *t, const tile *x) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int inner = t->k.at[t->k.n - 1], parts = t->prefetch_parts;
    if (!t->prefetch_panels) return NULL;
    ins *turn = emit_int_op(b, X_FLOORDIV, x->m0, lb_idx(b, x->rows));
    for (int j = t->m_begin ? t->block.m_at : 0; j < t->m.n; j++)
        if (t->m.at[j] != t->tile_m) turn = lb_add(b, turn, e->counter[t->m.at[j]]);
    if (t->m_begin) turn = lb_sub(b, turn, emit_int_op(b, X_FLOORDIV, t->m_begin, lb_idx(b, x->rows)));
    ins *depth = emit_dim(e, e->extent[inner]);
    if (t->k_begin && t->block.k_at == t->k.n - 1) depth = lb_sub(b, t->k_end, t->k_begin);
    ins *part = emit_int_op(b, X_MOD, turn, lb_idx(b, parts)), *count = lb_idx(b, parts);
    ins *panel = lb_add(b, emit_int_op(b, X_FLOORDIV, turn, count), next_panel(t, x));
    ins *length = idx_mulk(b, emit_int_op(b, X_FLOORDIV, depth, count), t->panel);
    ins *there = lb_add(b, lb_mul(b, panel, t->panel_stride), lb_mul(b, part, length));
    if (t->k_begin && wraps(t))
        there = lb_add(b, there,
                       lb_select(b, ends_chunk(t, x), lb_idx(b, t->block.k_step * t->panel), lb_idx(b, 0)));
    ins *any = lb_cmp(b, L_SLT, turn, lb_idx(b, (int64_t)t->prefetch_panels * parts));
    return lb_select(b, any, there, lb_idx(b, 0));
}

// Each step of K advances by a part of a row of B.
void emit_prefetch(tiling *t, ins *at_b) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int inner = t->k.at[t->k.n - 1];
    if (!t->prefetch || t->prefetch_done) return;
    ins *step = e->counter[inner];
    if (t->k_begin && t->block.k_at == t->k.n - 1) step = lb_sub(b, step, t->k_begin);
    ins *back = idx_mulk(b, step, t->panel - t->panel / t->prefetch_parts);
    ins *at = lb_add(b, lb_sub(b, at_b, back), t->prefetch);
    const buffer *buf = t->c->b->buffer;
    lb_prefetch(b, pointer_of(e, buf), idx_mulk(b, at, dtype_bits(buf->dtype) / 8));
}

// ---------------------------------------------------------------- B is read once
enum { AHEAD = 4096, LINE = 64, SMALL = 1 << 16 };

static int64_t panel_bytes(const tiling *t, int64_t elements) {
    return elements * dtype_bits(t->c->b->buffer->dtype) / 8;
}

bool reads_ahead(const tiling *t) {
    int64_t m = positions(t->e->k, &t->c->m), k = positions(t->e->k, &t->c->k_axes);
    bool few = m == INT64_MAX || m <= t->rows;
    const dim *bytes = buffer_bytes(t->c->b->buffer);
    return few && !t->e->k->resident && dim_is_const(bytes) && dim_value(bytes) > SMALL && t->packed &&
           t->k.n && k > 0 && k != INT64_MAX && t->panel_stride->op == L_CONST &&
           t->e->choices->ahead != NO && (!t->block.splits || t->k.n == 1) && panels_are_dense(t);
}

// How many bytes ahead of position k of a panel B is requested: out-of-order execution does not reach loads far enough
// beyond the arithmetic of a step, and hardware prefetchers stop at the end of a page. The end of a panel, or of its
// part in the block of K, requests the next tile's beginning; shorter panels: all of it.
static ins *bytes_ahead(const tiling *t, const tile *x, ins *k) {
    lbuild *b = &t->e->b;
    int64_t panels = ((int64_t)x->vectors * t->lanes + t->panel - 1) / t->panel,
            depth = positions(t->e->k, &t->c->k_axes), stride = panel_bytes(t, t->panel_stride->i),
            steps = AHEAD * depth / panel_bytes(t, depth * t->panel);
    ins *begin = t->k_begin ? t->k_begin : lb_idx(b, 0), *end = t->k_begin ? t->k_end : lb_idx(b, depth);
    if (panel_bytes(t, depth * t->panel) < 2 * AHEAD) return lb_idx(b, stride * panels);
    if (panels < 2 && !t->k_begin) return lb_idx(b, AHEAD);
    ins *part = idx_mulk(b, lb_sub(b, end, begin), panel_bytes(t, t->panel));
    ins *next = idx_addk(b, lb_sub(b, lb_idx(b, panels * stride), part), AHEAD);
    return lb_select(b, lb_cmp(b, L_SLE, idx_addk(b, end, -steps), k), next, lb_idx(b, AHEAD));
}

void request_ahead(tiling *t, const tile *x, ins *at_b, ins *k, int steps) {
    lbuild *b = &t->e->b;
    const buffer *from = t->c->b->buffer;
    int bits = dtype_bits(from->dtype);
    int64_t bytes = panel_bytes(t, (int64_t)steps * t->panel);
    ins *ahead = bytes_ahead(t, x, k);
    for (int v = 0; v < x->vectors; v++) {
        if (v * t->lanes % t->panel) continue;
        ins *at = lb_add(b, at_b, column_offset(t, v));
        at = bits < 8 ? emit_int_op(b, X_FLOORDIV, at, lb_idx(b, 8 / bits)) : idx_mulk(b, at, bits / 8);
        for (int64_t line = 0; line < bytes; line += LINE)
            lb_prefetch(b, pointer_of(t->e, from), idx_addk(b, lb_add(b, at, ahead), line));
    }
}

void request_side(tiling *t, const tile *x, const buffer *from, ins *at, ins *stride) {
    lbuild *b = &t->e->b;
    int bits = dtype_bits(from->dtype);
    int64_t panels = (int64_t)x->vectors * t->lanes / t->panel;
    if (!t->ahead || bits < 8 || stride->op != L_CONST) return;
    int64_t tile_bytes = stride->i * (panels ? panels : 1) * bits / 8;
    ins *ahead = lb_idx(b, tile_bytes < 2 * AHEAD ? tile_bytes : AHEAD / 8);
    lb_prefetch(b, pointer_of(t->e, from), lb_add(b, idx_mulk(b, at, bits / 8), ahead));
}

// The position in a panel of the current one along K.
static ins *depth_of(const tiling *t) {
    lbuild *b = &t->e->b;
    ins *k = lb_idx(b, 0);
    for (int j = 0; j < t->k.n; j++) {
        ins *at = t->e->counter[t->k.at[j]];
        k = lb_add(b, idx_mulk(b, k, dim_value(t->e->extent[t->k.at[j]])), at);
    }
    return k;
}

void emit_request(tiling *t, const tile *x, ins *at_b, int steps) {
    bool once = t->m.n == 0 || x->rows < t->rows || positions(t->e->k, &t->c->m) <= t->rows;
    if (t->ahead && once && !t->ahead_done) request_ahead(t, x, at_b, depth_of(t), steps);
}
