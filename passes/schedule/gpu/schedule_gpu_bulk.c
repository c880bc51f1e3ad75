// Bulk copies (cp.async.bulk) of a product's operands: constants stored in the order in which warpgroups read
// them,
//
//   [other axes][slices of K][rows / 8][8 chunks of 16 bytes along K][8 rows][elements of a chunk]
//
// so that a block's part of a K tile is contiguous. In: an operand with this layout (layout_gpu.c). Out: for
// each K tile
//
//   announce the number of bytes; copy them    one thread, into the buffer of the slice before the last
//   wait for them                              all threads, at the barrier of that buffer
#include "compiler/base/integers.h"
#include "ir/kernel/program.h"
#include "passes/match/cores.h"
#include "passes/match/form.h"
#include "passes/schedule/gpu/schedule_gpu_product.h"

// Whether the index of a dim of `size` advances with `axis`: by whole pieces of `many` positions, or over the
// whole dim, so that only padding follows its end.
static bool counts(const kernel *k, const expr *index, const dim *size, int axis, int many) {
    expr *rest;
    const dim *n = k->axes.at[axis].extent;
    if (index_digit(k, index, &rest) != axis || !dim_is_const(n)) return false;
    return dim_value(n) % many == 0 || (!rest && dim_is(size, dim_value(n)));
}

// The only axis with several positions, -1: none or several.
static int only_axis(const kernel *k, const int *axes, int n) {
    int found = -1, count = 0;
    for (int j = 0; j < n; j++)
        if (!dim_is(k->axes.at[axes[j]].extent, 1)) found = axes[j], count++;
    return count == 1 ? found : -1;
}

// The row axis of an operand, -1: several.
static int row_axis(const contraction *c, const expr *read) {
    axis_list rows = read == c->a ? c->m : contraction_columns(c);
    return only_axis(c->k, rows.at, rows.n);
}

// The kernel's reduce axis along which K tiles may be cut: the only one, or the contiguous one of the other
// operand if it is a multiple of K tiles.
static int slice_axis(const contraction *c, const expr *read, int depth) {
    const kernel *k = c->k;
    const expr *other = read == c->a ? c->b : c->a;
    int only = only_axis(k, c->k_axes.at, c->k_axes.n);
    if (only >= 0) return only;
    const buffer *b = other->buffer;
    int last = b->layout ? b->layout->order[b->layout->n - 1].axis : b->rank - 1;
    const expr *index = last >= 0 ? index_in_part(other->index[last]) : NULL;
    int axis = index && index->op == X_AXIS ? index->axis : -1;
    if (axis < 0 || !axis_in(&c->k_axes, axis)) return -1;
    const dim *n = k->axes.at[axis].extent;
    return dim_is_const(n) && dim_value(n) % depth == 0 ? axis : -1;
}

// The only dim of the buffer that the kernel's axis indexes, -1: none.
static int buffer_axis(const contraction *c, const expr *read, int axis, int many) {
    int d = dim_of_axis(read->buffer, read->index, axis, false);
    return d >= 0 && counts(c->k, read->index[d], read->buffer->dims[d], axis, many) ? d : -1;
}

bool gpu_find_cores(const target *t, const contraction *c, const expr *read, core_axes *found) {
    const tensor_type *tensor = gpu_tensor_type(t, c);
    const expr *term = read == c->a ? c->term_a : c->term_b;
    if (!t->warpgroups || !tensor || read->guard || !gpu_is_plain(term, read)) return false;
    if (tensor->as && read->buffer->dtype != tensor->as) return false;
    if (tensor->as == DT_F32 && !read->buffer->tf32) return false;
    int depth = SLICE_BYTES * 8 / dtype_bits(read->buffer->dtype);
    int row = row_axis(c, read), k = slice_axis(c, read, depth);
    if (row < 0 || k < 0) return false;
    *found = (core_axes){.row = buffer_axis(c, read, row, CORE_ROWS), .k = buffer_axis(c, read, k, depth)};
    found->reduced = k;
    return found->row >= 0 && found->k >= 0 && found->row != found->k;
}

bool gpu_prefers_warpgroups(const target *t, const contraction *c) {
    axis_list columns = contraction_columns(c);
    dim *m = axes_extent(c->k, c->m.at, c->m.n), *n = axes_extent(c->k, columns.at, columns.n);
    product_size s = gpu_product_size(t, m, n, axes_extent(c->k, c->batch.at, c->batch.n));
    bool warpgroups = t->warpgroups && gpu_product_fits(c);
    if (warpgroups) gpu_choose_tile(&s, true, &warpgroups, false);
    return warpgroups;
}

int gpu_core_axis(const target *t, const contraction *c, const expr *read) {
    core_axes x;
    const buffer *b = read->buffer;
    if (!b->layout || b->role != BUF_CONST || !gpu_find_cores(t, c, read, &x)) return -1;
    layout want = layout_of_cores(b, &x);
    return layout_equal(b->layout, &want) ? x.reduced : -1;
}

// ---------------------------------------------------------------- copies

static ins *mbarrier_of(product *p, ins *slice) { return lb_offset(p->g->b, p->mbarriers, slice, 8); }

static ins *as_i32(lbuild *b, ins *x) { return x->type.kind == LK_I32 ? x : lb_conv(b, L_ITRUNC, LK_I32, x); }

void gpu_make_mbarriers(product *p) {
    lbuild *b = p->g->b;
    p->mbarriers = lb_local(b, LK_I64, p->stages, 8, true);
    for (int s = 0; s < p->stages; s++)
        lb_gpu(b, (gpu_ins){GPU_MBARRIER_INIT}, (ins *[]){mbarrier_of(p, lb_idx(b, s))});
    lb_gpu(b, (gpu_ins){GPU_MBARRIER_FENCE}, NULL);
    lb_barrier(b);
}

// Bytes of the block's rows in a K tile: rows are padded to whole core matrices.
static ins *slice_bytes(product *p, const operand *o) {
    lbuild *b = p->g->b;
    int64_t all = round_up(dim_value(o->extent), CORE_ROWS);
    ins *rows = lb_idx(b, o->side);
    if (all % o->side) rows = lb_bin(b, L_SMIN, rows, lb_sub(b, lb_idx(b, all), o->first));
    return as_i32(b, idx_mulk(b, rows, SLICE_BYTES));
}

static void copy_slice(product *p, operand *o, ins *k0, ins *slice) {
    gpu *g = p->g;
    lbuild *b = g->b;
    scope mark = gpu_open_element(p, o, o->first, k0);
    ins *offset = emit_index(g->e, entry_of(g->e, o->read)->read->offset);
    ins *from =
        lb_offset(b, pointer_of(g->e, o->read->buffer), offset, dtype_bits(o->read->buffer->dtype) / 8);
    ins *to = lb_offset(b, o->shared, idx_mulk(b, slice, gpu_slice_words(p, o)), 4);
    ins *args[] = {to, from, slice_bytes(p, o), mbarrier_of(p, slice), lb_int(b, lt(LK_I32, 1), p->threads)};
    lb_gpu(b, (gpu_ins){GPU_BULK_COPY}, args);
    gpu_close_element(p, o, mark);
}

// The mbarrier counts one arrival per phase, which announces the bytes of all operands.
void gpu_copy_slices(product *p, ins *k0, ins *slice) {
    lbuild *b = p->g->b;
    operand *const both[] = {&p->a, &p->b};
    ins *bytes = NULL;
    for (int j = 0; j < 2; j++) {
        ins *own = both[j]->cores ? slice_bytes(p, both[j]) : NULL;
        bytes = own && bytes ? lb_add(b, bytes, own) : own ? own : bytes;
    }
    if (!bytes) return;
    lb_gpu(b, (gpu_ins){GPU_MBARRIER_EXPECT}, (ins *[]){mbarrier_of(p, slice), bytes});
    for (int j = 0; j < 2; j++)
        if (both[j]->cores) copy_slice(p, both[j], k0, slice);
}

void gpu_wait_slice(product *p, ins *number) {
    lbuild *b = p->g->b;
    ins *all = lb_idx(b, p->stages), *parity = lb_bin(b, L_AND, gpu_div(b, number, all), lb_idx(b, 1));
    ins *args[] = {mbarrier_of(p, gpu_mod(b, number, all)), as_i32(b, parity)};
    lb_gpu(b, (gpu_ins){.op = GPU_MBARRIER_WAIT, .count = p->stages > 2}, args);
}
