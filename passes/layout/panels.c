// Layouts of the N operand of products: the order in which their loops read it. In: a contraction. Out: a layout, in memory of the
// arena.
#include "passes/layout/panels.h"
#include "ir/kernel/program.h"
#include "passes/schedule/cpu/schedule_contract.h"
#include "passes/schedule/cpu/schedule_groups.h"
#include <string.h>

// Position of the logical axis that the kernel's `axis` indexes in the physical order of the buffer.
static int physical_place(const expr *read, int axis) {
    const buffer *b = read->buffer;
    for (int j = 0; j < b->rank; j++) {
        int logical = b->layout ? b->layout->order[j].axis : j;
        if (expr_uses_axis(read->index[logical], axis)) return j;
    }
    return b->rank;
}

static bool has_entry(const layout *l, int axis) {
    for (int j = 0; j < l->n; j++)
        if (l->order[j].axis == axis) return true;
    return false;
}

static void add_entries_by_axis(layout *l, const expr *b, int axis, int skip) {
    for (int j = 0; j < b->buffer->rank; j++) {
        bool fresh = j != skip && expr_uses_axis(b->index[j], axis) && !has_entry(l, j);
        if (fresh) l->order[l->n++] = (struct layout_entry){j, 0};
    }
}

// Several panels are read at a time: at distances of a multiple of a page their lines compete for the same
// cache sets (6 x 64 tiles run at 78 % of peak instead of 96 %). One more line separates them; panels of
// which two fit the L1 cache do without (no difference within 0.4 %, and smaller objects).
static void spread_panels(layout *l, const buffer *b, int n_axis, int64_t row) {
    enum { PAGE = 4096, LINE = 64, SHORT = L1_BYTES / 2 };
    buffer panels = *b;
    panels.layout = l;
    while (l->order[l->gap_entry].axis != n_axis) l->gap_entry++;
    int64_t bits = dtype_bits(b->dtype), line = 8 * LINE / bits;
    const dim *n = dim_mulk(layout_stride(&panels, l->gap_entry), bits);
    if (dim_is_const(n) && (dim_value(n) <= 8 * SHORT || dim_value(n) % (8 * PAGE))) return;
    l->gap = row > line ? row : line;
}

// A dim that no kernel axis indexes. Among the axes of K, which begin at entry `from`, it has the place of a tap: so the phases
// of a transposed convolution, each with some of the taps, share one layout. 0: outermost, as dims of one element, and those that
// data or loops of the host code select a matrix by.
static void add_entry_without_axis(layout *l, int axis, int from) {
    int at = from;
    while (from && at < l->n - 1 && l->order[at].axis < axis) at++;
    memmove(l->order + at + 1, l->order + at, (size_t)(l->n++ - at) * sizeof *l->order);
    l->order[at] = (struct layout_entry){axis, 0};
}

layout *column_layout(arena *a, const contraction *c, int n_axis) {
    layout *l = ARENA_NEW(a, layout);
    int k[MAX_AXES];
    for (int j = 0; j < c->k_axes.n; j++) { // insertion sort by A's physical order
        int i = j;
        for (; i > 0 && physical_place(c->a, k[i - 1]) > physical_place(c->a, c->k_axes.at[j]); i--)
            k[i] = k[i - 1];
        k[i] = c->k_axes.at[j];
    }
    for (int j = 0; j < c->batch.n; j++) add_entries_by_axis(l, c->b, c->batch.at[j], n_axis);
    for (int j = 0; j < c->other_n.n; j++) add_entries_by_axis(l, c->b, c->other_n.at[j], n_axis);
    l->order[l->n++] = (struct layout_entry){n_axis, 0};
    int first_k = l->n;
    for (int j = 0; j < c->k_axes.n; j++) add_entries_by_axis(l, c->b, k[j], n_axis);
    for (int j = 0; j < c->b->buffer->rank; j++) {
        bool tap = c->b->index[j]->op == X_CONST && !dim_is(c->b->buffer->dims[j], 1);
        if (!has_entry(l, j)) add_entry_without_axis(l, j, tap ? first_k : 0);
    }
    return l;
}

layout *vector_rows_layout(arena *a, const target *t, const contraction *c, int n_axis) {
    enum { MOST_VECTORS = 3 }; // longer rows take less for the masks of their last vectors than their padding
    layout *l = column_layout(a, c, n_axis);
    const dim *row = axes_extent(c->k, c->k_axes.at, c->k_axes.n);
    int64_t width = t->vector_bits / 8, k = dim_is_const(row) ? dim_value(row) : 0;
    bool few = k > 0 && k <= MOST_VECTORS * width && k % width && !c->batch.n && !c->other_n.n;
    if (few && c->b->buffer->role == BUF_CONST && dtype_bits(c->b->buffer->dtype) == 8)
        l->pad_hi[n_axis] = (width - 1 + k - 1) / k;
    return l;
}

// Rows of the last panel omit the missing columns if padding them would take much memory. Only tiles
// of f32 or f64 whose factors are read in place support this.
static void narrow_last_panel(const target *t, const contraction *c, layout *l) {
    enum { LEAST_FILL = 1024 };
    buffer b = *c->b->buffer;
    dtype type = c->s->states.at[0].dtype;
    bool reads = c->k->stages.n == 1 && t->fp != FP_STRICT && t->precision == PRECISION_OWN;
    bool plain = b.dtype == type && (type == DT_F32 || type == DT_F64) && c->batch.n + c->other_n.n == 0;
    if (b.role != BUF_CONST || !reads || !plain) return;
    b.layout = l;
    l->last = dim_value(b.dims[l->order[l->n - 1].axis]) % l->order[l->n - 1].tile;
    if (!l->last) return;
    last_panel p = layout_last_panel(&b);
    int64_t fill = p.rows * (p.tile - p.columns) * dtype_bits(type) / 8;
    bool alone = true;
    for (int j = 0; j < p.entry; j++) alone &= dim_is(b.dims[l->order[j].axis], 1);
    if (!alone || fill < LEAST_FILL) l->last = 0;
}

layout *panel_layout(arena *a, const target *t, const contraction *c, int n_axis, int group) {
    int elements = group >= 0 ? packed_elements(t, c) : 1;
    int together = group >= 0 && interleaves_columns(c) ? 2 : 1;
    layout *l = column_layout(a, c, n_axis);
    int panel = panel_for(t, c->b->buffer->dims[n_axis]);
    l->order[l->n++] = (struct layout_entry){n_axis, panel / together};
    if (group >= 0) l->order[l->n++] = (struct layout_entry){group, elements};
    if (together > 1) l->order[l->n++] = (struct layout_entry){n_axis, together};
    spread_panels(l, c->b->buffer, n_axis, (int64_t)panel * elements);
    narrow_last_panel(t, c, l);
    return l;
}

layout *row_layout(arena *a, const contraction *c, int n_axis) {
    layout *l = column_layout(a, c, n_axis);
    int j = 0;
    while (l->order[j].axis != n_axis) j++;
    memmove(l->order + j, l->order + j + 1, (size_t)(l->n - 1 - j) * sizeof *l->order);
    l->order[l->n - 1] = (struct layout_entry){n_axis, 0};
    return l;
}

layout *side_layout(arena *a, const target *t, const contraction *c, const expr *read, int n_axis) {
    const buffer *b = read->buffer;
    layout *l = ARENA_NEW(a, layout);
    for (int i = 0; i < b->rank; i++)
        if (i != n_axis && !index_reduces(c->k, read->index[i]))
            l->order[l->n++] = (struct layout_entry){i, 0};
    l->order[l->n++] = (struct layout_entry){n_axis, 0};
    for (int i = 0; i < b->rank; i++)
        if (!has_entry(l, i)) l->order[l->n++] = (struct layout_entry){i, 0};
    l->order[l->n++] = (struct layout_entry){n_axis, panel_for(t, b->dims[n_axis])};
    return l;
}
