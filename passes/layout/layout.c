// Channels-last images. Contractions decide: the image of a convolution prefers channels-last (its channels are K, and N of the
// convolution before). The preferences are propagated to the kernels between contractions; inputs and outputs stay row-major and get
// explicit copies.
#include "passes/layout/layout.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/layout/channels_last.h"
#include "passes/layout/layout_copies.h"
#include "passes/layout/layout_propagate.h"
#include "passes/layout/window_columns.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"

typedef struct assign {
    program *p;
    const target *t;
    int nbuffers;     // before the pass
    int *channel;     // by buffer id: the innermost logical axis, -1: row-major
    bool *pinned;     // by buffer id: its layout is fixed (views, inputs, outputs, constants ...)
    const uses *uses; // before the pass
    map packed;       // (buffer id, hash of layout) -> packed constant
    map copies;       // key_of_copy -> a buffer's last channels-last copy
} assign;
// ---------------------------------------------------------------- channels last
static void want_channel_last(assign *a, const buffer *b, int axis) {
    if (b->id < a->nbuffers && !a->pinned[b->id] && a->channel[b->id] < 0) a->channel[b->id] = axis;
}

// Matrix products, whose columns are innermost as they are.
static bool is_product(const kernel *k, contraction *c) {
    return contraction_find(k, c) && c->n >= 0 && c->m.n;
}
static bool counts_products(const kernel *k, int axis) {
    contraction c;
    return is_product(k, &c) && axis_in(&c.batch, axis);
}

static bool goes_along(const kernel *k, expr *index, int axis) {
    const expr *slope = expr_uses_axis(index, axis) ? expr_slope((kernel *)k, index, axis) : NULL;
    return slope && expr_is_int(slope, 1);
}

// Whether both access the same places of images at channels that the same axes count, maybe in another order: a channel shuffle.
static bool shuffles(const kernel *k, const layout_access *from, int channel, const layout_access *to) {
    for (int d = 0; d < to->buffer->rank; d++)
        if (d != channel && from->index[d] != to->index[d]) return false;
    bool any = false;
    for (int a = 0; a < k->axes.n; a++) {
        bool counts = expr_uses_axis(to->index[channel], a);
        if (counts != expr_uses_axis(from->index[channel], a)) return false;
        if (!counts) continue;
        any = true;
        bool affine = expr_slope((kernel *)k, from->index[channel], a) &&
                      expr_slope((kernel *)k, to->index[channel], a);
        if (!affine || k->axes.at[a].kind != AXIS_PARALLEL || counts_products(k, a)) return false;
    }
    return any;
}

// Buffers of the same rank that the same kernel axis traverses along the channels, one by one.
static int same_channel(const kernel *k, const layout_access *from, int channel, const layout_access *to) {
    if (to->buffer->rank != from->buffer->rank) return -1;
    if (to->buffer->rank > 3 && shuffles(k, from, channel, to)) return channel;
    for (int i = 0; i < k->axes.n; i++)
        if (k->axes.at[i].kind == AXIS_PARALLEL && goes_along(k, from->index[channel], i) &&
            goes_along(k, to->index[channel], i))
            return counts_products(k, i) ? -1 : channel;
    return -1;
}
static bool any_kernel(const kernel *k) { return k != NULL; }

// ---------------------------------------------------------------- boundaries
// Locals are computed for each position of the outer axes.
static bool varies_along(const kernel *k, expr *index, int axis) {
    return expr_uses_axis(index, axis) || (axis < k->nouter && expr_any(index, reads_local));
}

// The part of the elements of its buffer that a read touches, at most.
static double part_read(const kernel *k, const expr *read) {
    const buffer *b = read->buffer;
    double part = 1;
    for (int d = 0; d < b->rank; d++) {
        double places = 1;
        for (int a = 0; a < k->axes.n; a++)
            if (varies_along(k, read->index[d], a)) places *= (double)k->axes.at[a].extent->max;
        if (dim_is_const(b->dims[d]) && places < (double)dim_value(b->dims[d]))
            part *= places / (double)dim_value(b->dims[d]);
    }
    return part;
}

// Whether the kernel reads enough elements of b for a copy of all of them to pay: the window of a ring has few of its samples.
// Transforms of tiles have a read for each place of a tile; reads at positions that data select are of the same neighbourhood.
static bool reads_many(const kernel *k, const buffer *b) {
    double places = 0, samples = 0;
    for (int j = 0; j < k->exprs.n; j++) {
        const expr *read = k->exprs.at[j];
        if (read->op != X_READ || read->buffer != b) continue;
        double part = part_read(k, read);
        if (!is_chosen_by_data(read)) places += part;
        else if (part > samples) samples = part;
    }
    return places + samples >= 1.0 / 8;
}

// Whether the image is channels-last as it is, and needs no halo.
static bool suits_as_is(const kernel *k, const conv_form *f) {
    bool suits = f->channel == f->image->rank - 1;
    for (int j = 0; j < k->exprs.n && suits; j++) {
        const expr *x = k->exprs.at[j];
        suits = x->op != X_READ || x->buffer != f->image || !x->guard;
    }
    return suits;
}

static uint64_t key_of_copy(const buffer *b, int channel) {
    return (uint64_t)b->id * MAX_RANK + (uint64_t)channel;
}

// A copy of the buffer that has the same elements before the step; NULL: none. Inputs never change: their copies are made at the start.
static buffer *earlier_copy(const assign *a, const region *r, const step *s, const buffer *from,
                            int channel) {
    buffer *to = map_get_number(&a->copies, key_of_copy(from, channel));
    bool input = from->role == BUF_INPUT && !from->view_of;
    return to && (input || is_current_copy(r, s, from, to)) ? to : NULL;
}

// An input image is copied once to a buffer with the preferred layout; an output is computed in such a buffer
// and copied. A constant of which data select elements needs no halo: it is stored in that layout.
static void copy_in(assign *a, region *r, const step *s, const conv_form *f) {
    buffer *from = f->image;
    kernel *k = s->kernel;
    if ((!a->pinned[from->id] && a->channel[from->id] >= 0) || suits_as_is(k, f)) return;
    const layout *l = layout_channels_last(a->p->arena, from->rank, f->channel);
    if (from->role == BUF_CONST && !from->view_of && kernel_only_gathers(k, from)) {
        kernel_swap_reads(k, from, packed_constant(a->p, &a->packed, from, l));
        return;
    }
    if (!reads_many(k, from)) return;
    bool input = from->role == BUF_INPUT && !from->view_of;
    buffer *to = earlier_copy(a, r, s, from, f->channel);
    if (to) {
        kernel_swap_reads(k, from, to);
        return;
    }
    to = clone_buffer(a->p, r, s, from, "nhwc", l);
    kernel *copy = copy_kernel(a->p, arena_printf(a->p->arena, "layout_%s", from->name), k->loc, from, to);
    map_put_number(&a->copies, key_of_copy(from, f->channel), to);
    if (input && r != a->p->main) insert_kernel(a->p, a->p->main, 0, copy);
    else insert_kernel(a->p, r, step_index(r, s), copy);
    kernel_swap_reads(k, from, to);
}

static bool touches_view(const kernel *k, const buffer *b) {
    buffer **all;
    int n = kernel_buffers(k, &all);
    for (int i = 0; i < n; i++)
        if (all[i] != b && buffer_root(all[i]) == b) return true;
    return false;
}

// The step of the last kernel that writes b, starting at `first`; NULL if the writers are not adjacent, apart
// from other kernels between them, or if this pass has made b. A transposed convolution is one kernel per phase.
static const step *last_writer(const assign *a, const region *r, const step *first, const buffer *b) {
    if (buffer_root(b)->id >= a->nbuffers) return NULL;
    const buffer_uses *of = &a->uses->of[buffer_root(b)->id];
    int left = 0;
    for (int j = 0; j < of->sites.n; j++)
        left += of->sites.at[j]->s->kind == STEP_KERNEL && kernel_writes(of->sites.at[j]->s->kernel, b);
    if (left != 1 && of->by_others) return NULL;
    for (int j = step_index(r, first); j < r->steps.n; j++) {
        const step *s = r->steps.at[j];
        if (s->kind == STEP_ALLOC) continue;
        if (s->kind != STEP_KERNEL || (of->viewed && touches_view(s->kernel, b))) return NULL;
        if (!kernel_writes(s->kernel, b)) continue;
        if (!kernel_only_sets(s->kernel, b)) return NULL;
        if (--left == 0) return s;
    }
    return NULL;
}

static void write_elsewhere(kernel *k, const buffer *from, buffer *to) {
    kernel_swap_reads(k, from, to);
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++)
        if (all.at[j]->to == from) all.at[j]->to = to;
}

static bool sets_all(const kernel *k, const buffer *b) {
    write_list all = kernel_write_list(k);
    if (all.n != 1 || !write_is_plain(all.at[0])) return false;
    int whole = 0;
    for (int i = 0; i < k->axes.n; i++) {
        int d = dim_of_axis(b, all.at[0]->index, i, true);
        whole += d >= 0 && k->axes.at[i].kind == AXIS_PARALLEL && k->axes.at[i].extent == b->dims[d];
    }
    return whole == b->rank;
}

// Whether an iteration leaves elements of b as an earlier one has set them, such as the rows of a scan output.
static bool keeps_elements(const assign *a, const kernel *k, const buffer *b) {
    const buffer *root = buffer_root(b);
    live_range range = uses_live_range(a->uses, root);
    int time = a->uses->of_kernel[k->id]->time;
    for (int j = 0; j < a->uses->loops.n; j++) {
        live_range loop = a->uses->loops.at[j];
        if (time < loop.def || time > loop.last_use) continue;
        bool outlives =
            a->uses->of[root->id].output || range.def < loop.def || range.last_use > loop.last_use;
        if (outlives && !sets_all(k, b)) return true;
    }
    return false;
}

static void copy_out(assign *a, region *r, const step *s, const conv_form *f) {
    buffer *out = f->out;
    const kernel *k = s->kernel;
    const step *last = last_writer(a, r, s, out);
    if (!last || !a->pinned[out->id] || out->rank < 3 || keeps_elements(a, k, out)) return;
    buffer *made =
        clone_buffer(a->p, r, s, out, "nhwc", layout_channels_last(a->p->arena, out->rank, f->out_channel));
    int end = step_index(r, last) + 1;
    for (int j = step_index(r, s); j < end; j++)
        if (r->steps.at[j]->kind == STEP_KERNEL) write_elsewhere(r->steps.at[j]->kernel, out, made);
    insert_kernel(a->p, r, end,
                  copy_kernel(a->p, arena_printf(a->p->arena, "layout_%s", out->name), k->loc, made, out));
}

static bool is_pinned(const assign *a, const buffer *b) { return b->id < a->nbuffers && a->pinned[b->id]; }

// Copies of a row-major image for a convolution of single places, and of its result, cost more than they gain if it has few channels.
// Where rows fill vectors of columns, as those of a matrix do, more channels are few.
static bool may_stay_row_major(const assign *a, const kernel *k, const conv_form *f) {
    enum { LEAST_POSITIONS = 1024, FEW_CHANNELS = 48, LONG_ROW = 64, FEW_BESIDE_ROWS = 100 }; // measured
    if (!multiplies_rows(k, f) || !is_pinned(a, f->image)) return false;
    if (!dtype_is_float(f->image->dtype) || dtype_bits(f->image->dtype) < 32 || !a->t->vector_bits)
        return false;
    const dim *from = f->image->dims[f->channel], *to = f->out->dims[f->out_channel];
    dim *positions =
        dim_product(from->table, f->image->dims + f->channel + 1, f->image->rank - f->channel - 1);
    bool fills = f->image->dims[f->image->rank - 1]->min >= LONG_ROW;
    if (!dim_is_const(from) || !dim_is_const(to) || (!fills && positions->min < LEAST_POSITIONS))
        return false;
    double c = (double)dim_value(from), m = (double)dim_value(to);
    return c * m <= (fills ? FEW_BESIDE_ROWS : FEW_CHANNELS) * (c + m);
}

// If no reader wants its result channels-last either, or only its result would be copied.
static bool stays_row_major(const assign *a, const kernel *k, const conv_form *f) {
    if (!f->image || !f->out || !is_pinned(a, f->image)) return false;
    if (is_pinned(a, f->out) && multiplies_rows(k, f) && suits_as_is(k, f)) return true;
    return f->out->id < a->nbuffers && a->channel[f->out->id] < 0 && may_stay_row_major(a, k, f);
}

// The innermost axis of a buffer from before the pass; -1: it is row-major or has no memory.
static int channel_of(const assign *a, const buffer *b) {
    return b->role != BUF_LOCAL && b->id < a->nbuffers ? a->channel[b->id] : -1;
}

// Whether the result is channels-last as it is, with one place behind each channel.
static bool has_one_place(const buffer *b, int channel) {
    bool one = true;
    for (int d = channel + 1; d < b->rank; d++) one &= dim_is(b->dims[d], 1);
    return one;
}

// The kernel's only write to a buffer that is not local; NULL: it has several.
static const write *only_write(const kernel *k) {
    write_list all = kernel_write_list(k);
    const write *found = NULL;
    for (int j = 0; j < all.n; j++) {
        if (all.at[j]->to->role == BUF_LOCAL) continue;
        if (found) return NULL;
        found = all.at[j];
    }
    return found;
}

// A kernel that would gather each element of its row-major result from channels-last images: one that shuffles their channels, or
// that reduces windows of them. It writes channels-last, too, and the result is copied; not where memory counts more.
static bool gathers_result(const assign *a, const kernel *k, conv_form *f) {
    const write *w = only_write(k);
    if (!w || !is_pinned(a, w->to) || a->t->freestanding) return false;
    layout_access to = {w->to, w->index, true};
    expr_list reads = reads_only(kernel_nodes(k->arena, k, PART_ALL));
    bool reduces = false;
    for (int j = 0; j < k->stages.n; j++) reduces |= k->stages.at[j]->states.n > 0;
    for (int j = 0; j < reads.n; j++) {
        const expr *x = reads.at[j];
        int channel = channel_of(a, x->buffer);
        layout_access from = {x->buffer, x->index, false};
        if (channel < 0 || x->buffer->rank != w->to->rank || has_one_place(w->to, channel)) continue;
        bool plain = w->index[channel]->op == X_AXIS;
        if (plain ? !reduces || same_channel(k, &from, channel, &to) != channel
                  : !shuffles(k, &from, channel, &to))
            continue;
        *f = (conv_form){.out = w->to, .out_channel = channel};
        return true;
    }
    return false;
}

// Whether products of matrices of each channel read one of their operands from a channels-last image, so that neither its rows nor
// its columns are next to each other: vectors of channels are not possible, since the other operands have theirs elsewhere.
static bool reads_matrices_apart(const assign *a, const contraction *c, const expr *x) {
    enum { LEAST = 8 }; // rows or columns for which an element is read
    int channel = channel_of(a, x->buffer), other = x == c->a ? c->n : c->m.at[0];
    if (channel < 0 || x->guard || x->index[channel]->op != X_AXIS) return false;
    const dim *n = c->k->axes.at[other].extent;
    return axis_in(&c->batch, x->index[channel]->axis) && (!dim_is_const(n) || dim_value(n) >= LEAST) &&
           !dim_is(x->buffer->dims[channel], 1);
}

static void read_matrices(assign *a, region *r, const step *s, const contraction *c) {
    const expr *operands[] = {c->a, c->b};
    bool apart[2];
    for (int j = 0; j < 2; j++) apart[j] = reads_matrices_apart(a, c, operands[j]);
    if (apart[0] == apart[1] || a->t->freestanding) return;
    buffer *from = operands[apart[1]]->buffer, *to = clone_buffer(a->p, r, s, from, "rows", NULL);
    kernel *copy = copy_kernel(a->p, arena_printf(a->p->arena, "layout_%s", from->name), s->loc, from, to);
    insert_kernel(a->p, r, step_index(r, s), copy);
    kernel_swap_reads(s->kernel, from, to);
}

static void copy_boundaries(assign *a, region *r, const step *s) {
    conv_form f;
    contraction c;
    if (s->kind != STEP_KERNEL) return;
    if (gathers_result(a, s->kernel, &f)) {
        copy_out(a, r, s, &f);
        return;
    }
    if (columns_pay(s->kernel, a->t, &c) && is_pinned(a, c.b->buffer) && is_pinned(a, c.w->to)) {
        read_columns(a->p, r, s, &c);
        return;
    }
    if (find_places(s->kernel, &f) && channel_of(a, f.image) == f.channel) {
        copy_out(a, r, s, &f);
        return;
    }
    if (!find_conv(s->kernel, a->t, &f)) {
        if (is_product(s->kernel, &c)) read_matrices(a, r, s, &c);
        return;
    }
    if (stays_row_major(a, s->kernel, &f)) return;
    if (f.image && f.image->id < a->nbuffers) copy_in(a, r, s, &f);
    if (find_conv(s->kernel, a->t, &f) && f.out && f.out->id < a->nbuffers) copy_out(a, r, s, &f);
}

// Later kernels read the copy of an input, too, if they write images along its channels.
static void read_copies_in(const assign *a, kernel *k, const stage *st) {
    expr_list reads = reads_only(stage_nodes(k->arena, st, PART_ALL));
    const write *w = st->writes.n == 1 ? &st->writes.at[0] : NULL;
    int channel = w ? channel_of(a, w->to) : -1;
    for (int j = 0; j < reads.n && channel >= 0; j++) {
        const expr *x = reads.at[j];
        buffer *copy = x->buffer->role == BUF_INPUT && !x->buffer->view_of
                           ? map_get_number(&a->copies, key_of_copy(x->buffer, channel))
                           : NULL;
        layout_access from = {x->buffer, x->index, false}, to = {w->to, w->index, true};
        if (copy && same_channel(k, &to, channel, &from) == channel) kernel_swap_reads(k, x->buffer, copy);
    }
}

static void read_copies(const assign *a, const step *s) {
    for (int j = 0; s->kind == STEP_KERNEL && j < s->kernel->stages.n; j++)
        read_copies_in(a, s->kernel, s->kernel->stages.at[j]);
}

// Whether the stage reduces windows of row-major images alone to this channels-last result.
static bool reduces_rows(const assign *a, const kernel *k, const stage *st, const buffer *out, int channel) {
    expr_list reads = reads_only(stage_nodes(k->arena, st, PART_ALL));
    layout_access to = {out, st->writes.at[0].index, true};
    bool any = false;
    for (int j = 0; j < reads.n; j++) {
        const expr *x = reads.at[j];
        layout_access from = {x->buffer, x->index, false};
        if (x->buffer->role == BUF_CONST) continue;
        if (!is_pinned(a, x->buffer) || x->buffer->role == BUF_LOCAL) return false;
        if (x->buffer->rank != out->rank || same_channel(k, &to, channel, &from) != channel) return false;
        any = true;
    }
    return any;
}

// The write of a kernel of one stage to a channels-last result that it could write row-major as well; NULL: another one.
static const write *write_along_channels(const assign *a, const region *r, const step *s) {
    const kernel *k = s->kernel;
    const stage *st = s->kind == STEP_KERNEL && k->stages.n == 1 ? k->stages.at[0] : NULL;
    if (!st || st->writes.n != 1 || a->t->freestanding) return NULL;
    buffer *out = st->writes.at[0].to;
    int channel = channel_of(a, out);
    bool wide = channel >= 0 && !dim_is(out->dims[channel], 1) && !has_one_place(out, channel);
    return wide && last_writer(a, r, s, out) == s && !keeps_elements(a, k, out) ? &st->writes.at[0] : NULL;
}

static void write_rows(assign *a, region *r, const step *s, buffer *out, const layout *l) {
    buffer *made = clone_buffer(a->p, r, s, out, "rows", l);
    write_elsewhere(s->kernel, out, made);
    insert_kernel(
        a->p, r, step_index(r, s) + 1,
        copy_kernel(a->p, arena_printf(a->p->arena, "layout_%s", out->name), s->kernel->loc, made, out));
}

// Windows of a row-major image are reduced to a row-major result, which is copied: along the channels each element would be gathered.
static void reduce_in_rows(assign *a, region *r, const step *s) {
    const write *w = write_along_channels(a, r, s);
    const stage *st = w ? s->kernel->stages.at[0] : NULL;
    if (st && st->states.n && reduces_rows(a, s->kernel, st, w->to, channel_of(a, w->to)))
        write_rows(a, r, s, w->to, NULL);
}

static bool is_row_major(const assign *a, const buffer *b) {
    return b->role != BUF_CONST && b->role != BUF_LOCAL && b->id < a->nbuffers && a->channel[b->id] < 0;
}

// Whether tiles in registers can transpose what is read.
static bool suits_tiles(const kernel *k, const expr *read) {
    bool unit = false;
    for (int d = 0; d < read->buffer->rank; d++)
        for (int i = 0; i < k->axes.n; i++) {
            if (!expr_uses_axis(read->index[d], i)) continue;
            const expr *slope = expr_slope((kernel *)k, read->index[d], i);
            if (!slope) return false;
            unit |= d == read->buffer->rank - 1 && expr_is_int(slope, 1);
        }
    return unit && !read->guard;
}

enum { LEAST_ROW = 8, LONG_ROW = 16 }; // elements

// The dim of a read along which elements lie as those of the axis do, in pieces of at least a row; -1: none.
static int dim_along(const kernel *k, const expr *read, int axis) {
    for (int d = 0; d < read->buffer->rank - 1; d++) {
        expr *i = read->index[d];
        bool pieces = i->op == X_MOD && i->arg[0]->op == X_AXIS && i->arg[0]->axis == axis &&
                      i->arg[1]->op == X_CONST && i->arg[1]->i >= LEAST_ROW;
        if (pieces || goes_along(k, i, axis)) return d;
    }
    return -1;
}

// A read of a row-major image that varies along the axis, and that a channels-last result would take element by element; NULL: none.
static const expr *read_apart(const assign *a, const kernel *k, int axis) {
    expr_list reads = reads_only(kernel_nodes(k->arena, k, PART_ALL));
    for (int j = 0; j < reads.n; j++) {
        const expr *x = reads.at[j];
        int rank = x->buffer->rank;
        if (rank < 2 || !is_row_major(a, x->buffer) || !index_uses_axis(x, axis)) continue;
        if (dim_is(x->buffer->dims[rank - 1], 1) || goes_along(k, x->index[rank - 1], axis)) continue;
        if (!suits_tiles(k, x)) return x;
    }
    return NULL;
}

// Elements of a row-major image that are moved otherwise than in tiles, as by a padding, to a channels-last result come from a copy of
// it; or the result is, if channels are chosen otherwise than one by one.
static void move_along_channels(assign *a, region *r, const step *s) {
    enum { MOST = 4 };
    const write *w = write_along_channels(a, r, s);
    const expr *channels = w ? w->index[channel_of(a, w->to)] : NULL;
    kernel *k = s->kernel;
    if (!w || k->stages.at[0]->states.n || channels->op != X_AXIS || !a->t->vector_bits ||
        k->axes.at[channels->axis].extent->min < LEAST_ROW)
        return;
    const expr *x, *row = w->index[w->to->rank - 1];
    for (int j = 0; j < MOST && (x = read_apart(a, k, channels->axis)); j++) {
        if (dim_less_equal(buffer_count(x->buffer), buffer_count(w->to)) != TRI_YES) return;
        conv_form f = {.image = x->buffer, .channel = dim_along(k, x, channels->axis)};
        if (f.channel >= 0) copy_in(a, r, s, &f);
        else if (row->op != X_AXIS || !goes_along(k, x->index[x->buffer->rank - 1], row->axis)) return;
        else {
            write_rows(a, r, s, w->to, NULL);
            return;
        }
    }
}

// A read of a row-major image whose elements along the axis lie apart, while those of another axis are beside them. Tiles transpose it
// where nothing else is done. NULL: none.
static const expr *read_across_tiles(const assign *a, const kernel *k, int axis, bool scans) {
    expr_list reads = reads_only(kernel_nodes(k->arena, k, PART_ALL));
    for (int j = 0; j < reads.n; j++) {
        const expr *x = reads.at[j];
        int last = x->buffer->rank - 1;
        bool apart = last > 0 && is_row_major(a, x->buffer) && index_uses_axis(x, axis) &&
                     !expr_uses_axis(x->index[last], axis);
        for (int i = 0; i < k->axes.n && apart; i++) {
            bool beside = k->axes.at[i].kind != AXIS_REDUCE && k->axes.at[i].extent->max > 1;
            if (beside && goes_along(k, x->index[last], i) && (scans || !suits_tiles(k, x))) return x;
        }
    }
    return NULL;
}

// What tiles cannot transpose, such as a padding or sums of what is before, comes from a copy for a row-major result, too.
static void move_across(assign *a, region *r, const step *s) {
    enum { MOST = 4 };
    kernel *k = s->kernel;
    const stage *st = s->kind == STEP_KERNEL && k->stages.n == 1 && !k->nouter ? k->stages.at[0] : NULL;
    const write *w = st && st->writes.n == 1 ? &st->writes.at[0] : NULL;
    if (!w || !w->to->rank || w->combine != COMBINE_SET || channel_of(a, w->to) >= 0) return;
    if (a->t->freestanding || !a->t->vector_bits || (st->states.n && !stage_scans(k, st))) return;
    const expr *row = w->index[w->to->rank - 1], *x;
    if (row->op != X_AXIS || k->axes.at[row->axis].extent->min < (st->states.n ? LEAST_ROW : LONG_ROW))
        return;
    bool along = k->axes.at[row->axis].kind == AXIS_PARALLEL; // not each sum after the other
    for (int j = 0; j < MOST && along && (x = read_across_tiles(a, k, row->axis, st->states.n)); j++) {
        conv_form f = {.image = x->buffer, .channel = dim_along(k, x, row->axis)};
        if (f.channel < 0) return;
        copy_in(a, r, s, &f);
    }
}

// The image whose elements of a row lie apart, while the next row's are beside them, where those of the result lie side by side;
// NULL: none. *channel: the image's axis along a row.
static buffer *image_across(const assign *a, const kernel *k, int *channel) {
    const write *w = k->nouter ? only_write(k) : NULL;
    if (!w || !w->to->rank) return NULL;
    int inner = channel_of(a, w->to), last = inner < 0 ? w->to->rank - 1 : inner;
    const expr *along = w->index[last];
    if (along->op != X_AXIS || along->axis < k->nouter || k->axes.at[along->axis].kind != AXIS_PARALLEL ||
        k->axes.at[along->axis].extent->min < LEAST_ROW)
        return NULL;
    expr_list reads = reads_only(kernel_nodes(k->arena, k, PART_ALL));
    for (int j = 0; j < reads.n; j++) {
        const expr *x = reads.at[j];
        const buffer *b = x->buffer;
        bool image = b->rank > 1 && is_row_major(a, b);
        const expr *beside = image ? x->index[b->rank - 1] : NULL;
        if (!beside || beside->op != X_AXIS || beside->axis >= k->nouter) continue;
        for (int d = 0; d < b->rank - 1 && !dim_is(k->axes.at[beside->axis].extent, 1); d++) {
            *channel = d;
            if (x->index[d]->op == X_AXIS && x->index[d]->axis >= k->nouter) return x->buffer;
        }
    }
    return NULL;
}

// A row-major image that is read in windows, and whose rows are not those of the result.
typedef struct window_across {
    buffer *image;
    int channel; // its dim along a row of the result
    int beside;  // the axis of the kernel along its own rows
} window_across;

static bool find_window_across(const assign *a, const kernel *k, int along, window_across *f) {
    expr_list reads = reads_only(kernel_nodes(k->arena, k, PART_ALL));
    for (int j = 0; j < reads.n; j++) {
        const expr *x = reads.at[j];
        int end = x->buffer->rank - 1;
        if (end < 1 || !is_row_major(a, x->buffer) || !read_slides(k, x)) continue;
        *f = (window_across){.image = x->buffer, .beside = -1};
        for (int i = 0; i < k->axes.n; i++)
            if (k->axes.at[i].kind == AXIS_PARALLEL && !dim_is(k->axes.at[i].extent, 1) &&
                expr_uses_axis(x->index[end], i))
                f->beside = i;
        if (f->beside < 0 || expr_uses_axis(x->index[end], along)) continue;
        for (f->channel = 0; f->channel < end; f->channel++)
            if (expr_uses_axis(x->index[f->channel], along)) return true;
    }
    return false;
}

// Windows across a row-major image, as of a pool after a Transpose, are read from a copy; or, where rows of the result are short, they
// are reduced to a result with rows of the image, which is copied.
static void reduce_across(assign *a, region *r, const step *s) {
    kernel *k = s->kernel;
    const write *w = k->stages.at[0]->states.n ? only_write(k) : NULL;
    conv_form conv;
    window_across f;
    if (!w || !w->to->rank || find_conv(k, a->t, &conv)) return;
    int inner = channel_of(a, w->to), last = inner < 0 ? w->to->rank - 1 : inner;
    const expr *along = w->index[last];
    if (along->op != X_AXIS || !find_window_across(a, k, along->axis, &f)) return;
    if (!k->nouter && k->axes.at[along->axis].extent->min >= LEAST_ROW) {
        copy_in(a, r, s, &(conv_form){.image = f.image, .channel = f.channel});
        return;
    }
    if (!k->nouter) return;
    int row = dim_of_axis(w->to, w->index, f.beside, true);
    if (row >= 0 && last_writer(a, r, s, w->to) == s && !keeps_elements(a, k, w->to))
        write_rows(a, r, s, w->to, layout_channels_last(a->p->arena, w->to->rank, row));
}

// Whether a kernel of several stages reads rows of row-major images, such as *read, but its result has other rows.
static bool reads_other_rows(const assign *a, const kernel *k, int along, const expr **read) {
    expr_list reads = reads_only(kernel_nodes(k->arena, k, PART_ALL));
    *read = NULL;
    for (int j = 0; j < reads.n; j++) {
        const expr *x = reads.at[j];
        int last = x->buffer->rank - 1;
        if (last < 1 || !is_row_major(a, x->buffer)) continue;
        if (expr_uses_axis(x->index[last], along)) return false;
        if (x->index[last]->op == X_AXIS && k->axes.at[x->index[last]->axis].extent->min >= LEAST_ROW)
            *read = x;
    }
    return *read != NULL;
}

// A result whose rows lie across those of the images, as that of a normalisation before a Transpose, is copied from one whose rows do
// not. Sums of what is before are computed one after the other in a row, and side by side across rows of a copy.
static void write_across(assign *a, region *r, const step *s) {
    kernel *k = s->kernel;
    const write *w = k->nouter ? only_write(k) : NULL;
    if (!w || !w->to->rank || w->combine != COMBINE_SET) return;
    int inner = channel_of(a, w->to), last = inner < 0 ? w->to->rank - 1 : inner;
    const expr *along = w->index[last];
    if (along->op != X_AXIS || dim_is(k->axes.at[along->axis].extent, 1)) return;
    bool scans = k->axes.at[along->axis].kind == AXIS_SCAN;
    if (along->axis >= k->nouter && !scans) return;
    const expr *x;
    if (!reads_other_rows(a, k, along->axis, &x)) return;
    int rows = x->index[x->buffer->rank - 1]->axis;
    if (k->axes.at[rows].kind == AXIS_SCAN) {
        conv_form f = {.image = x->buffer, .channel = dim_along(k, x, along->axis)};
        if (f.channel >= 0 && k->axes.at[along->axis].extent->min >= LEAST_ROW) copy_in(a, r, s, &f);
        return;
    }
    int row = dim_of_axis(w->to, w->index, rows, true);
    if (row >= 0 && last_writer(a, r, s, w->to) == s && !keeps_elements(a, k, w->to))
        write_rows(a, r, s, w->to, layout_channels_last(a->p->arena, w->to->rank, row));
}

// Rows across a row-major image, as of a normalisation after a Transpose, are read from a copy.
static void read_across(assign *a, region *r, const step *s) {
    enum { MOST = 4 };
    kernel *k = s->kernel;
    if (s->kind != STEP_KERNEL || a->t->freestanding || !a->t->vector_bits) return;
    contraction c;
    conv_form f = {0};
    for (int j = 0; j < k->stages.n; j++)
        if (k->nouter && contraction_in_stage(k, k->stages.at[j], &c)) return;
    for (int j = 0; j < MOST && (f.image = image_across(a, k, &f.channel)); j++) copy_in(a, r, s, &f);
    if (k->stages.n <= 2) reduce_across(a, r, s);
    write_across(a, r, s);
}

// Results of products of an image's places are as the image is. False: they were.
static bool want_like_images(assign *a) {
    bool any = false;
    for (int j = 0; j < a->p->kernels.n; j++) {
        conv_form f;
        if (!find_places(a->p->kernels.at[j], &f) || channel_of(a, f.image) != f.channel) continue;
        bool before = channel_of(a, f.out) >= 0;
        want_channel_last(a, f.out, f.out_channel);
        any |= !before && channel_of(a, f.out) >= 0;
    }
    return any;
}

// ---------------------------------------------------------------- entry
void assign_channels(program *p, const target *t) {
    arena *scratch = arena_new();
    assign a = {.p = p, .t = t, .nbuffers = p->buffers.n, .copies.arena = scratch, .packed.arena = scratch};
    a.channel = ARENA_ARRAY(scratch, int, a.nbuffers + 1);
    a.pinned = ARENA_ARRAY(scratch, bool, a.nbuffers + 1);
    a.uses = uses_build(scratch, p);
    for (int j = 0; j < a.nbuffers; j++) {
        a.channel[j] = -1;
        a.pinned[j] |= !is_temp_root(p->buffers.at[j]) || a.uses->of[j].by_others;
        if (p->buffers.at[j]->view_of) a.pinned[buffer_root(p->buffers.at[j])->id] = true;
    }
    for (int j = 0; j < p->kernels.n; j++) {
        contraction c;
        conv_form f;
        if (is_product(p->kernels.at[j], &c) && !find_conv(p->kernels.at[j], t, &f) &&
            !find_places(p->kernels.at[j], &f))
            a.pinned[c.w->to->id] = true;
    }
    for (int j = 0; j < p->kernels.n; j++) {
        conv_form f;
        if (!find_conv(p->kernels.at[j], t, &f)) continue;
        if (f.image) want_channel_last(&a, f.image, f.channel);
        if (f.out && !may_stay_row_major(&a, p->kernels.at[j], &f))
            want_channel_last(&a, f.out, f.out_channel);
    }
    propagation follow = {p, a.channel, a.pinned, any_kernel, same_channel};
    do propagate_layouts(&follow);
    while (want_like_images(&a));
    step_list steps = program_steps(scratch, p);
    for (int j = 0; j < steps.n; j++) {
        copy_boundaries(&a, steps.at[j].region, steps.at[j].s);
        read_copies(&a, steps.at[j].s);
        move_along_channels(&a, steps.at[j].region, steps.at[j].s);
        reduce_in_rows(&a, steps.at[j].region, steps.at[j].s);
        move_across(&a, steps.at[j].region, steps.at[j].s);
        read_across(&a, steps.at[j].region, steps.at[j].s);
    }
    for (int j = 0; j < a.nbuffers; j++)
        if (a.channel[j] >= 0)
            p->buffers.at[j]->layout = layout_channels_last(p->arena, p->buffers.at[j]->rank, a.channel[j]);
    arena_destroy(scratch);
}
