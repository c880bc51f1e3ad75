// Operands of products in panels. In: products. Out: their operands in the order in which their schedules read them, constants and copies.
#include "compiler/base/integers.h"
#include "ir/kernel/clone.h"
#include "ir/kernel/edit.h"
#include "passes/layout/layout.h"
#include "passes/layout/layout_copies.h"
#include "passes/layout/layout_propagate.h"
#include "passes/layout/panels.h"
#include "passes/layout/straight.h"
#include "passes/layout/weight_groups.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/schedule_contract.h"
#include "passes/schedule/cpu/schedule_groups.h"
#include "passes/schedule/cpu/schedule_words.h"

typedef struct packing {
    program *p;
    const target *t;
    map packed;                // (buffer id, hash of layout) -> packed constant or copy
    bool unpacks;              // constants of less than 8 bits may take memory as bytes
    buffer *small;             // such a constant of the kernel whose operands are packed, or NULL
    buffer *unpacked;          // its bytes
    straight_operand straight; // of the kernel whose operands are packed
} packing;

static const dim *rows_of(const contraction *c) { return axes_extent(c->k, c->m.at, c->m.n); }

// A single row uses each element of B once and reads columns nearly as fast as panels. Panels do not pay off
// if the padding of the last one exceeds this size (half of the size for a classifier of 1000 classes).
static bool wastes_panels(const target *t, const contraction *c, int n_axis) {
    enum { FILL_BYTES = 8192 };
    const buffer *b = c->b->buffer;
    dim *columns = b->dims[n_axis], *all = buffer_bytes(b);
    if (b->role != BUF_CONST || rows_of(c)->max > 1 || dim_value(columns) == 0) return false;
    int64_t fill = round_up(dim_value(columns), panel_for(t, columns)) - dim_value(columns);
    return dim_value(all) / dim_value(columns) * fill > FILL_BYTES;
}

// The axis that moves along adjacent elements of a row-major operand, -1: none.
static int last_axis(const expr *read) {
    const expr *last = read->buffer->rank ? read->index[read->buffer->rank - 1] : NULL;
    return last && last->op == X_AXIS ? last->axis : -1;
}

// Operands that are not constant are packed for enough rows: where columns are adjacent, a product without groups reads them
// in place nearly as fast, until caches evict the rows of B between tiles. Few rows are sums along K, if K is adjacent in
// both operands, each of which ends with the sum of its lanes.
static int least_packed_rows(const contraction *c, int group) {
    enum { ROWS_ACROSS = 6, LONG_ROWS_ACROSS = 13, LONG = 256, ROWS_APART = 2, ROWS_ALONG = 65 };
    bool along = group < 0 && last_axis(c->b) == c->n, apart = axis_in(&c->m, last_axis(c->a)),
         floats = dtype_is_float(c->s->states.at[0].dtype);
    if (along) return ROWS_ALONG;
    if (apart) return ROWS_APART;
    return floats && axes_extent(c->k, c->k_axes.at, c->k_axes.n)->min >= LONG ? LONG_ROWS_ACROSS
                                                                               : ROWS_ACROSS;
}

// Whether data or a loop of the host code select a part of the operand: all of it would be packed for each.
static bool reads_selected_part(const kernel *k, const expr *read) {
    const buffer *b = read->buffer;
    for (int j = 0; j < b->rank; j++) {
        bool moves = false;
        for (int a = 0; a < k->axes.n && !moves; a++) moves = expr_uses_axis(read->index[j], a);
        if (!moves && read->index[j]->op != X_CONST && !dim_is(b->dims[j], 1)) return true;
    }
    return false;
}

static bool worth_packing(const contraction *c, int group) {
    if (c->b->buffer->role == BUF_CONST) return true;
    return rows_of(c)->max >= least_packed_rows(c, group) && !reads_selected_part(c->k, c->b);
}

// A branch for a single row, whose kernel knows that.
static void branch_for_one_row(packing *a, region *r, const contraction *c, dim *rows) {
    program *p = a->p;
    dim *one = dim_const(p->dims, 1);
    kernel *others = kernel_copy(c->k);
    restore_operand(&a->straight, others);
    step *s = step_kernel(p, r, others);
    if (dim_equal(rows, one) == TRI_NO) return;
    kernel *single = kernel_copy(others);
    for (int j = 0; j < c->m.n; j++) single->axes.at[c->m.at[j]].extent = one;
    step_branch(p, s, dim_eq(rows, one));
    step_kernel(p, s->body[0], single);
    step_kernel(p, s->body[1], others);
}

// If a run may have fewer rows: a branch that packs the operand, and one whose kernel reads it as it is. Returns the step of the
// former, in *r.
static step *open_packing(packing *a, region **r, step *s, const contraction *c, int group) {
    program *p = a->p;
    dim *rows = axes_extent(c->k, c->m.at, c->m.n),
        *most = dim_const(p->dims, least_packed_rows(c, group) - 1);
    if (a->t->freestanding || dim_less(most, rows) == TRI_YES) return s;
    kernel *k = s->kernel;
    step_branch(p, s, dim_lt(most, rows));
    branch_for_one_row(a, s->body[1], c, rows);
    *r = s->body[0];
    return step_kernel(p, *r, k);
}

// Scales of small blocks are a fifth of what a row reads.
static dtype type_of_side(const packing *a, const buffer *b) {
    bool narrows = a->t->narrow_scales && b->dtype == DT_F32 && constant_fits(b->data, DT_F16);
    return narrows ? DT_F16 : b->dtype;
}

// Scales and zero points of B's blocks.
static void pack_sides(packing *a, const contraction *c) {
    arena *scratch = arena_new();
    expr_list all = expr_nodes(scratch, c->term_b);
    for (int j = 0; j < all.n; j++) {
        const expr *read = all.at[j];
        if (read->op != X_READ || read == c->b || read->guard) continue;
        const buffer *b = read->buffer;
        int n_axis = dim_of_axis(b, read->index, c->n, true);
        if (b->role != BUF_CONST || b->view_of || b->layout || b->rank < 2 || n_axis < 0) continue;
        const layout *l = side_layout(a->p->arena, a->t, c, read, n_axis);
        kernel_swap_reads((kernel *)c->k, b, packed_constant_as(a->p, &a->packed, b, l, type_of_side(a, b)));
    }
    arena_destroy(scratch);
}

// A copy packed before that still has the operand's elements; NULL: none.
static buffer *packed_before(const packing *a, const region *r, const step *s, const buffer *b,
                             const layout *l) {
    buffer *to = map_get_number(&a->packed, key_of_packed(b, l));
    return to && is_current_copy(r, s, b, to) ? to : NULL;
}

static buffer *pack_at_run(packing *a, region *r, step *s, const contraction *c, int group, const layout *l) {
    const buffer *b = c->b->buffer;
    const region *whole = r;
    s = open_packing(a, &r, s, c, group);
    buffer *to = clone_buffer(a->p, r, s, b, "panels", l);
    if (b->dtype == DT_F16 || b->dtype == DT_BF16) to->dtype = DT_F32; // read many times
    copy_source source = {.from = b == a->unpacked ? a->small : (buffer *)b};
    if (a->straight.read && b == a->straight.by_axes) source.of = &a->straight;
    kernel *pack = kernel_of_copy(a->p, arena_printf(a->p->arena, "pack_%s", b->name), c->k->loc, source, to);
    insert_kernel(a->p, r, step_index(r, s), pack);
    if (r == whole) map_put_number(&a->packed, key_of_packed(b, l), to);
    return to;
}

// In kernels of several stages only constants are packed: other operands may change between iterations of the
// outer axes.
static void pack_operand(packing *a, region *r, step *s, const contraction *c, bool alone) {
    if (c->n < 0 || c->a->guard || c->b->guard || is_packed_operand(c->b, c->n)) return;
    kernel *k = (kernel *)c->k;
    const buffer *b = c->b->buffer;
    int lanes = short_rows_axis(a->t, c), last = lanes < 0 ? -1 : dim_of_axis(b, c->b->index, lanes, true);
    if (last >= 0 && !b->layout && !b->view_of) {
        kernel_swap_reads(
            k, b, packed_constant(a->p, &a->packed, b, layout_channels_last(a->p->arena, b->rank, last)));
        return;
    }
    int n_axis = dim_of_axis(c->b->buffer, c->b->index, c->n, true), group = group_axis(a->t, c);
    dtype sum = c->s->states.at[0].dtype;
    bool plain = sum == DT_F32 || sum == DT_F64 || group >= 0 || widens_bytes(a->t, c) ||
                 multiplies_halves(a->t, c) || multiplies_words(a->t, c);
    if (n_axis < 0 || !plain || b->layout || !worth_packing(c, group) || copies_columns(a->t, c)) return;
    if (dtype_bits(b->dtype) < 8 && b->role != BUF_CONST) return;
    if (b->role == BUF_CONST ? b->view_of != NULL : !alone) return;
    bool across = across_axis(a->t, c) >= 0;
    bool columns = across || (group < 0 && c->batch.n + c->other_n.n == 0 && wastes_panels(a->t, c, n_axis));
    bool rows = !columns && a->t->freestanding && !a->t->vector_bits && !a->t->arch.is_text &&
                (sum == DT_F32 || sum == DT_I64) && dtype_bits(b->dtype) == 32;
    const layout *l = across    ? vector_rows_layout(a->p->arena, a->t, c, n_axis)
                      : columns ? column_layout(a->p->arena, c, n_axis)
                      : rows    ? row_layout(a->p->arena, c, n_axis)
                                : panel_layout(a->p->arena, a->t, c, n_axis, group);
    buffer *to =
        b->role == BUF_CONST ? packed_constant(a->p, &a->packed, b, l) : packed_before(a, r, s, b, l);
    if (!to) to = pack_at_run(a, r, s, c, group, l);
    if (b->role == BUF_CONST && dtype_bits(b->dtype) <= 8 && c->s->states.at[0].dtype == DT_F32)
        pack_sides(a, c);
    // Queries may be rows of the same buffer as keys: they stay rows.
    if (b->role == BUF_CONST) kernel_swap_reads(k, b, to);
    else kernel_replace_read(k, c->b, x_read(k, to, c->b->index));
}

// A copy of an operand that the run computes, in this layout.
static buffer *copy_at_run(packing *a, region *r, const step *s, const buffer *b, const layout *l) {
    buffer *to = packed_before(a, r, s, b, l);
    if (to) return to;
    to = clone_buffer(a->p, r, s, b, "order", l);
    const char *name = arena_printf(a->p->arena, "layout_%s", b->name);
    insert_kernel(a->p, r, step_index(r, s), copy_kernel(a->p, name, s->kernel->loc, (buffer *)b, to));
    map_put_number(&a->packed, key_of_packed(b, l), to);
    return to;
}

// Whether weights that the run computes are read for more results than a copy of them takes.
static bool worth_ordering(const target *t, const kernel *k, const expr *weights) {
    enum { LEAST_USES = 8 };
    int64_t uses = 1;
    for (int j = 0; j < k->axes.n; j++) {
        const axis *x = &k->axes.at[j];
        if (x->kind == AXIS_PARALLEL && !index_uses_axis(weights, j) && uses < LEAST_USES)
            uses *= x->extent->max < LEAST_USES ? x->extent->max : LEAST_USES;
    }
    return uses >= LEAST_USES && !t->freestanding && t->vector_bits && !weights->guard &&
           !reads_selected_part(k, weights);
}

// Whether elements along this axis of a row-major buffer follow each other.
static bool is_adjacent(const buffer *b, int axis) {
    for (int j = axis + 1; j < b->rank; j++)
        if (!dim_is(b->dims[j], 1)) return false;
    return true;
}

// Weights get the order of an image, whose innermost axis `channel` counts: vectors then lie along it in both.
static void order_like(packing *a, region *r, const step *s, const expr *weights, const expr *channel) {
    kernel *k = s->kernel;
    const buffer *b = weights->buffer;
    bool known = b->role == BUF_CONST;
    if (channel->op != X_AXIS || b->layout || dtype_bits(b->dtype) < 8) return;
    if (known ? b->view_of != NULL : !worth_ordering(a->t, k, weights)) return;
    for (int j = 0; j < b->rank - 1; j++) {
        if (weights->index[j] != channel || is_adjacent(b, j)) continue;
        const layout *l = layout_channels_last(a->p->arena, b->rank, j);
        kernel_swap_reads(k, b, known ? packed_constant(a->p, &a->packed, b, l) : copy_at_run(a, r, s, b, l));
        return;
    }
}

static const expr *innermost_index(const buffer *b, expr *const *index) {
    return index[b->layout ? b->layout->order[b->layout->n - 1].axis : b->rank - 1];
}

// Weights of one result are ordered like their image, along which sums then run.
static void order_single_weights(packing *a, region *r, const step *s, const contraction *c) {
    const expr *weights = c->a, *image = c->b;
    bool known = weights->buffer->role == BUF_CONST;
    if (c->m.n || c->batch.n || !image->buffer->rank || (known && !a->t->freestanding)) return;
    order_like(a, r, s, weights, innermost_index(image->buffer, image->index));
}

// Depthwise weights are ordered like the result: the vectorised axis last.
static void order_depthwise_weights(packing *a, region *r, const step *s, const contraction *c) {
    const expr *weights = c->b->buffer->role == BUF_CONST ? c->b : c->a;
    if (weights->buffer->role == BUF_CONST)
        order_like(a, r, s, weights, innermost_index(c->w->to, c->w->index));
}

// ---- small integers
// Integers of less than 8 bits that bare machines multiply with many rows: bytes of a temporary, which costs less than taking them
// apart for each row. It has no more bytes than the other operand or the result.
static bool is_worth_unpacking(const packing *a, const contraction *c) {
    enum { LEAST_ROWS = 16 };
    const buffer *b = c->b->buffer;
    bool small = b->role == BUF_CONST && !b->view_of && !b->layout && dtype_is_int(b->dtype) &&
                 dtype_bits(b->dtype) < 8;
    if (!small || !a->t->freestanding || a->t->arch.is_text || a->t->size_level > 1 || c->n < 0) return false;
    if (c->s->states.at[0].dtype != DT_I32 || !dtype_is_int(c->a->dtype) || rows_of(c)->min < LEAST_ROWS)
        return false;
    const dim *bytes = buffer_count(b), *image = buffer_count(c->a->buffer), *out = buffer_count(c->w->to);
    return bytes->max <= image->min || bytes->max <= out->min;
}

static void unpack_small(packing *a, contraction *c) {
    a->unpacked = a->small = NULL;
    if (!a->unpacks || !is_worth_unpacking(a, c)) return;
    kernel *k = (kernel *)c->k;
    a->small = c->b->buffer;
    a->unpacked =
        program_temp(a->p, arena_printf(a->p->arena, "%s.bytes", a->small->name),
                     dtype_is_signed(a->small->dtype) ? DT_I8 : DT_U8, a->small->rank, a->small->dims);
    a->unpacked->region = c->a->buffer->region;
    kernel_swap_reads(k, a->small, a->unpacked);
    contraction_find(k, c);
}

// Unless it is packed otherwise already.
static void write_unpacked(packing *a, region *r, const step *s) {
    if (!a->unpacked || !kernel_reads(s->kernel, a->unpacked)) return;
    insert_kernel(a->p, r, step_index(r, s),
                  copy_kernel(a->p, arena_printf(a->p->arena, "unpack_%s", a->small->name), s->kernel->loc,
                              a->small, a->unpacked));
}

static void pack_operands(packing *a, region *r, step *s) {
    const kernel *k = s->kernel;
    contraction c;
    if (s->kind != STEP_KERNEL || calls_cblas(k)) return;
    if (contraction_find(s->kernel, &c)) {
        split_groups(a->p, &a->packed, &c);
        unpack_small(a, &c);
        if (c.n < 0 && c.w->to->rank) order_depthwise_weights(a, r, s, &c);
        if (c.n >= 0) order_single_weights(a, r, s, &c);
        straighten_operand(a->p, a->t, &c, &a->straight);
        pack_operand(a, r, s, &c, true);
        restore_operand(&a->straight, (kernel *)c.k);
        write_unpacked(a, r, s);
        return;
    }
    for (int j = 0; j < k->stages.n; j++)
        if (contraction_in_stage(s->kernel, k->stages.at[j], &c)) pack_operand(a, r, s, &c, false);
}

// ---------------------------------------------------------------- entry
void pack_panels(program *p, const target *t, bool unpacks) {
    arena *scratch = arena_new();
    packing a = {.p = p, .t = t, .packed.arena = scratch, .unpacks = unpacks};
    step_list steps = program_steps(scratch, p);
    for (int j = 0; j < steps.n; j++) pack_operands(&a, steps.at[j].region, steps.at[j].s);
    read_tables_in_panels(p);
    program_compact(p); // drops the originals of packed copies
    arena_destroy(scratch);
}
