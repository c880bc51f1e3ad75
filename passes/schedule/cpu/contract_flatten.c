// Loop flattening: where the extents of M's axes are known only at run time, as those of images are, rows of a tile are
// positions of all of them. An image's row may be shorter than a tile, or a tile and a little more:
//
//   for m0 in steps of MR of N * H * W:
//     n, h, w = position m0                                  by division
//     for r < MR: sum[r] = n * stride_n + h * stride_h + w * stride_w, the next position: of w, and where that ends, of h ...
//     for k: acc[r][v] += broadcast(A[k + sum[r]]) * b[v]
//
// The accesses of A, of the result and of the epilogue's operands have such a sum as a part of their offsets. Its value is that
// of the row before plus a stride, that of the axis that goes on less the lengths of those that begin again.
#include "ir/kernel/edit.h"
#include "passes/schedule/cpu/contract_tiling.h"

// ---------------------------------------------------------------- which axes
// Short sums would take less time than the positions of their rows.
static bool can_flatten(const tiling *t) {
    enum { LEAST_STEPS = 48 };
    if (t->tile_m < 0 || t->m.n < 2 || t->m.at[t->m.n - 1] != t->tile_m) return false;
    if (dim_is_const(t->e->extent[t->tile_m]) || t->lanes < 2) return false;
    if (positions(t->e->k, &t->c->k_axes) / t->group < LEAST_STEPS) return false;
    return !t->words && !can_unpack(t->c) && !is_microcontroller(t->e->t);
}

// The place among M's axes from which on all are flattened.
static int first_flat_axis(const tiling *t) {
    int first = t->m.n - 1;
    while (first > 0 && t->m.n - first < MAX_FLAT &&
           !varies_beyond_read(t->c->term_a, t->c->a, t->m.at[first - 1]))
        first--;
    return first;
}

// Whether neighbouring rows have one distance, which is the innermost axis' stride.
static bool is_even(const tiling *t, expr *const *stride) {
    kernel *k = t->e->k;
    for (int j = 1; j < t->flat.n; j++)
        if (stride[j - 1] != x_mul(k, stride[j], x_dim(k, t->flat.extent[j]))) return false;
    return true;
}

// Makes the terms of the flat axes one term of the access' offset. NULL: it is not linear in them, or does not use them.
static row_sum *split_offset(tiling *t, access *a) {
    kernel *k = t->e->k;
    row_sum s = {.sum = x_i64(k, 0)};
    expr *rest = a->offset;
    bool any = false;
    for (int j = 0; j < t->flat.n; j++) {
        int axis = t->flat.axis[j];
        s.stride[j] = a->coef[axis];
        if (!s.stride[j]) return NULL;
        any |= !expr_is_int(s.stride[j], 0);
        s.sum = x_add(k, s.sum, x_mul(k, x_axis(k, axis), s.stride[j]));
        rest = expr_substitute_axis(k, rest, axis, x_i64(k, 0));
    }
    if (!any) return NULL;
    a->offset = x_add(k, rest, s.sum);
    for (int j = 0; j < t->flat.sums.n; j++)
        if (t->flat.sums.at[j]->sum == s.sum) return t->flat.sums.at[j];
    row_sum *made = ARENA_NEW(t->e->scratch, row_sum);
    *made = s;
    made->even = is_even(t, s.stride);
    VEC_PUSH(t->e->scratch, &t->flat.sums, made);
    return made;
}

static void split_epilogue(tiling *t) {
    emitter *e = t->e;
    split_offset(t, t->write);
    expr_list all = reads_only(expr_nodes(e->scratch, t->c->w->value));
    for (int j = 0; j < all.n; j++) {
        access *a = entry_of(e, all.at[j])->read;
        if (a && a != t->a && a->affine) split_offset(t, a);
    }
}

void flatten_rows(tiling *t) {
    emitter *e = t->e;
    int first = can_flatten(t) ? first_flat_axis(t) : t->m.n - 1;
    if (first >= t->m.n - 1) return;
    dim *rows = dim_const(e->k->program->dims, 1);
    for (int j = first; j < t->m.n; j++) {
        dim *extent = e->extent[t->m.at[j]];
        t->flat.axis[t->flat.n] = t->m.at[j];
        t->flat.extent[t->flat.n++] = extent;
        rows = dim_mul(rows, extent);
    }
    t->flat.a = split_offset(t, t->a);
    split_epilogue(t);
    t->m.at[first] = t->tile_m;
    t->m.n = first + 1;
    e->extent[t->tile_m] = rows;
}

// ---------------------------------------------------------------- rows of a tile
void enter_row(tiling *t, ins *m) {
    lbuild *b = &t->e->b;
    for (int j = t->flat.n - 1; j > 0; j--) {
        ins *extent = emit_dim(t->e, t->flat.extent[j]), *outer = lb_bin(b, L_SDIV, m, extent);
        t->e->counter[t->flat.axis[j]] = lb_sub(b, m, lb_mul(b, outer, extent));
        m = outer;
    }
    if (t->tile_m >= 0) t->e->counter[t->flat.n ? t->flat.axis[0] : t->tile_m] = m;
}

// The position after those at `at`, or the same one if there is none. ends[j]: whether axis j begins again.
static void next_position(const tiling *t, ins *const *at, ins *there, ins **next, ins **ends) {
    lbuild *b = &t->e->b;
    ins *zero = lb_idx(b, 0), *one = lb_idx(b, 1), *step = there ? lb_select(b, there, one, zero) : one;
    for (int j = t->flat.n - 1; j > 0; j--) {
        ins *sum = lb_add(b, at[j], step);
        ends[j] = lb_cmp(b, L_EQ, sum, emit_dim(t->e, t->flat.extent[j]));
        next[j] = lb_select(b, ends[j], zero, sum);
        step = lb_select(b, ends[j], one, zero);
    }
    next[0] = lb_add(b, at[0], step);
}

// The sum at a position less that at the one before.
static ins *step_of_sum(const tiling *t, const row_sum *s, ins *const *ends, ins *there) {
    lbuild *b = &t->e->b;
    ins *back = lb_idx(b, 0), *step = emit_index(t->e, s->stride[t->flat.n - 1]);
    for (int j = t->flat.n - 1; j > 0; j--) {
        ins *last = idx_subk(b, emit_dim(t->e, t->flat.extent[j]), 1);
        back = lb_add(b, back, lb_mul(b, last, emit_index(t->e, s->stride[j])));
        step = lb_select(b, ends[j], lb_sub(b, emit_index(t->e, s->stride[j - 1]), back), step);
    }
    return there ? lb_select(b, there, step, lb_idx(b, 0)) : step;
}

// The elements from the first row to row r, or to the last one that there is.
static ins *rows_apart(const tiling *t, const tile *x, expr *stride, int r) {
    lbuild *b = &t->e->b;
    ins *row = emit_index(t->e, stride);
    if (!x->left || r < x->sure) return idx_mulk(b, row, r);
    return lb_mul(b, row, lb_bin(b, L_SMIN, lb_idx(b, r), idx_subk(b, x->left, 1)));
}

static void place_sum(const tiling *t, const tile *x, row_sum *s, int r, ins *const *ends, ins *there) {
    emitter *e = t->e;
    lbuild *b = &e->b;
    int inner = t->flat.n - 1;
    if (s->even)
        s->at[r] = lb_add(b, lb_mul(b, x->m0, emit_index(e, s->stride[inner])),
                          rows_apart(t, x, s->stride[inner], r));
    else if (r) s->at[r] = lb_add(b, s->at[r - 1], step_of_sum(t, s, ends, there));
    else s->at[r] = emit_index(e, s->sum);
}

void place_rows(tiling *t, const tile *x) {
    emitter *e = t->e;
    flat_axes *f = &t->flat;
    enter_row(t, x->m0);
    for (int j = 0; j < f->n; j++) f->at[0][j] = e->counter[f->axis[j]];
    for (int r = 0; r < x->rows && f->n; r++) {
        ins *there = is_row(t, x, r), *ends[MAX_FLAT];
        if (r) next_position(t, f->at[r - 1], there, f->at[r], ends);
        for (int j = 0; j < f->sums.n; j++) place_sum(t, x, f->sums.at[j], r, ends, there);
    }
    if (f->a && f->a->even) emit_cache(e, f->a->sum, 1, f->a->at[0]);
}

void enter_row_of_tile(tiling *t, const tile *x, int r) {
    emitter *e = t->e;
    flat_axes *f = &t->flat;
    if (!f->n && t->tile_m >= 0) e->counter[t->tile_m] = idx_addk(&e->b, x->m0, r);
    for (int j = 0; j < f->n; j++) e->counter[f->axis[j]] = f->at[r][j];
    for (int j = 0; j < f->sums.n; j++) emit_cache(e, f->sums.at[j]->sum, 1, f->sums.at[j]->at[r]);
}

ins *row_offset(const tiling *t, const tile *x, int r) {
    const row_sum *s = t->flat.a;
    if (s && !s->even) return lb_sub(&t->e->b, s->at[r], s->at[0]);
    return rows_apart(t, x, s ? s->stride[t->flat.n - 1] : t->row_stride, r);
}
