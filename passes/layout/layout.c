// Layout assignment. Contractions decide: the image of a convolution prefers channels-last (its channels are
// K, and N of the convolution before) and a halo instead of guards; the N operand prefers panels of 16
// columns. The preferences are propagated to the kernels between contractions; inputs and outputs stay
// row-major and get explicit copies.
#include "passes/layout/layout.h"
#include "compiler/base/integers.h"
#include "ir/kernel/clone.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/layout/channels_last.h"
#include "passes/layout/layout_propagate.h"
#include "passes/layout/panels.h"
#include "passes/layout/straight.h"
#include "passes/layout/weight_groups.h"
#include "passes/layout/window_columns.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/schedule_contract.h"
#include "passes/schedule/cpu/schedule_groups.h"
#include "passes/schedule/cpu/schedule_words.h"
#include <string.h>

typedef struct assign {
    program *p;
    const target *t;
    int nbuffers;     // before the pass
    int *channel;     // by buffer id: the innermost logical axis, -1: row-major
    bool *pinned;     // by buffer id: its layout is fixed (views, inputs, outputs, constants ...)
    const uses *uses; // before the pass
    map packed;       // (buffer id, hash of layout) -> packed constant or copy
    map copies;       // input's buffer id -> its channels-last copy
    map sources;      // buffer id -> the buffer of the runtime value that fills its halo
    map filled;       // (kernel id, buffer id) -> that buffer, if its halo is filled before that kernel
    bool unpacks;     // constants of less than 8 bits may take memory as bytes
    buffer *small;    // such a constant of the kernel whose operands are packed, or NULL
    buffer *unpacked; // its bytes
    straight_operand straight; // of the kernel whose operands are packed
} assign;

// ---------------------------------------------------------------- rewriting kernels
static expr *drop_guard(void *user, kernel *k, const expr *read) {
    buffer *b = user;
    return read->buffer == b ? x_read(k, b, read->index) : NULL;
}

// The step of entry j along its logical axis: the product of the inner tiles of that axis.
static int64_t entry_scale(const layout *l, int j) {
    int64_t scale = 1;
    for (int i = j + 1; i < l->n; i++)
        if (l->order[i].axis == l->order[j].axis) scale *= l->order[i].tile;
    return scale;
}

// What is copied: a buffer at the same indices, or a straight operand.
typedef struct copy_source {
    buffer *from;
    const straight_operand *of;
} copy_source;

static expr *read_source(kernel *k, const copy_source *source, expr *const *index, expr *guard) {
    return source->of ? read_straight(k, source->of, index, guard)
                      : x_read_guarded(k, source->from, index, guard, NULL);
}

// A kernel that copies to all of `to`. Tiled axes of `to` are traversed tile by tile in physical order, so that it is written
// sequentially, with 0 in the padding of tiles.
static kernel *kernel_of_copy(program *p, const char *name, const loc *at, copy_source source, buffer *to) {
    kernel *k = kernel_new(p, name, at);
    stage *s = kernel_stage(k);
    expr *index[MAX_RANK], *guard = NULL;
    const layout *l = to->layout;
    for (int j = 0; j < to->rank; j++) index[j] = x_i64(k, 0);
    for (int j = 0; j < (l ? l->n : to->rank); j++) {
        int axis = l ? l->order[j].axis : j;
        int64_t scale = l ? entry_scale(l, j) : 1;
        bool lane = l && l->order[j].tile;
        dim *n = lane ? dim_const(p->dims, l->order[j].tile)
                      : dim_ceildiv(to->dims[axis], dim_const(p->dims, scale));
        expr *a = stage_own_axis(k, s, AXIS_PARALLEL, lane ? "lane" : scale > 1 ? "panel" : "i", n);
        index[axis] = x_add(k, index[axis], x_mul(k, a, x_i64(k, scale)));
        if (!lane || scale > 1) continue;
        expr *inside = x_lt(k, index[axis], x_dim(k, to->dims[axis]));
        guard = guard ? x_and(k, guard, inside) : inside;
    }
    stage_write(k, s, to, index, read_source(k, &source, index, guard));
    return k;
}

static kernel *copy_kernel(program *p, const char *name, const loc *at, buffer *from, buffer *to) {
    return kernel_of_copy(p, name, at, (copy_source){.from = from}, to);
}

// A buffer like b, allocated before step s of r if it is on the heap.
static buffer *clone_buffer(program *p, region *r, const step *s, const buffer *b, const char *suffix,
                            const layout *l) {
    buffer *c = program_temp(p, arena_printf(p->arena, "%s.%s", b->name, suffix), b->dtype, b->rank, b->dims);
    c->layout = l;
    c->region = b->region;
    if (c->role == BUF_HEAP) step_insert(p, r, step_index(r, s), STEP_ALLOC, s->loc)->buffer = c;
    return c;
}

// ---------------------------------------------------------------- constants in a layout
static uint64_t key_of_packed(const buffer *b, const layout *l) {
    uint64_t key = hash_bytes(hash_bytes(HASH_SEED, &b->id, sizeof b->id), l->order, sizeof l->order);
    return hash_bytes(key, &l->last, sizeof l->last);
}

static buffer *packed_constant_as(assign *a, const buffer *b, const layout *l, dtype as) {
    uint64_t key = key_of_packed(b, l);
    buffer *known = map_get_number(&a->packed, key);
    if (known) return known;
    const constant *data = b->dtype == as ? b->data : constant_rounded(a->p->arena, b->data, as);
    buffer *c = program_constant(a->p, b->name, data);
    c->layout = l;
    map_put_number(&a->packed, key, c);
    return c;
}
static buffer *packed_constant(assign *a, const buffer *b, const layout *l) {
    return packed_constant_as(a, b, l, b->dtype);
}

// ---------------------------------------------------------------- channels last
static bool is_temp_root(const buffer *b) {
    return (b->role == BUF_TEMP || b->role == BUF_HEAP) && !b->view_of;
}

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

// Buffers of the same rank that the same kernel axis traverses along the channels, one by one.
static int same_channel(const kernel *k, const layout_access *from, int channel, const layout_access *to) {
    if (to->buffer->rank != from->buffer->rank) return -1;
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

// An input image is copied once to a buffer with the preferred layout; an output is computed in such a buffer
// and copied. A constant of which data select elements needs no halo: it is stored in that layout.
static void copy_in(assign *a, region *r, const step *s, const conv_form *f) {
    buffer *from = f->image;
    kernel *k = s->kernel;
    if (!a->pinned[from->id] || suits_as_is(k, f)) return;
    const layout *l = layout_channels_last(a->p->arena, from->rank, f->channel);
    if (from->role == BUF_CONST && !from->view_of && kernel_only_gathers(k, from)) {
        kernel_swap_reads(k, from, packed_constant(a, from, l));
        return;
    }
    if (!reads_many(k, from)) return;
    bool input = from->role == BUF_INPUT && !from->view_of;
    buffer *to = input ? map_get_number(&a->copies, (uint64_t)from->id) : NULL;
    if (to) {
        kernel_swap_reads(k, from, to);
        return;
    }
    to = clone_buffer(a->p, r, s, from, "nhwc", l);
    kernel *copy = copy_kernel(a->p, arena_printf(a->p->arena, "layout_%s", from->name), k->loc, from, to);
    // Inputs never change: one copy at the start of the program serves all readers.
    if (input) map_put_number(&a->copies, (uint64_t)from->id, to);
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
// from other kernels between them. A transposed convolution is one kernel per phase.
static const step *last_writer(const assign *a, const region *r, const step *first, const buffer *b) {
    const buffer_uses *of = &a->uses->of[buffer_root(b)->id];
    int left = 0;
    for (int j = 0; j < of->sites.n; j++)
        left += of->sites.at[j]->s->kind == STEP_KERNEL && kernel_writes(of->sites.at[j]->s->kernel, b);
    if (left != 1 && of->by_others) return NULL;
    for (int j = step_index(r, first); j < r->steps.n; j++) {
        const step *s = r->steps.at[j];
        if (s->kind == STEP_ALLOC) continue;
        if (s->kind != STEP_KERNEL || touches_view(s->kernel, b)) return NULL;
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
    if (!a->pinned[out->id] || out->rank < 3 || !last || keeps_elements(a, k, out)) return;
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

static void copy_boundaries(assign *a, region *r, const step *s) {
    conv_form f;
    contraction c;
    if (s->kind != STEP_KERNEL) return;
    if (columns_pay(s->kernel, a->t, &c) && is_pinned(a, c.b->buffer) && is_pinned(a, c.w->to)) {
        read_columns(a->p, r, s, &c);
        return;
    }
    if (!find_conv(s->kernel, a->t, &f)) return;
    if (stays_row_major(a, s->kernel, &f)) return;
    if (f.image && f.image->id < a->nbuffers) copy_in(a, r, s, &f);
    if (find_conv(s->kernel, a->t, &f) && f.out && f.out->id < a->nbuffers) copy_out(a, r, s, &f);
}

// ---------------------------------------------------------------- halos
static bool has_halo(const buffer *b) {
    for (int j = 0; b->layout && j < b->rank; j++)
        if (b->layout->pad_lo[j] || b->layout->pad_hi[j]) return true;
    return false;
}

static double fill_value(const expr *e) { return dtype_is_float(e->dtype) ? e->f : (double)e->i; }

static bool fits_halo(const assign *a, const expr *read) {
    buffer *known = map_get_number(&a->sources, (uint64_t)read->buffer->id), *source = halo_source(read);
    if (source || known) return source == known || (!known && !has_halo(read->buffer));
    if (read->fill->op != X_CONST) return false;
    return !has_halo(read->buffer) || read->buffer->layout->fill == fill_value(read->fill);
}

// The halo that satisfies all guarded reads of the image.
typedef struct halo {
    const expr *read; // one of the reads
    int64_t lo[MAX_RANK], hi[MAX_RANK];
} halo;

// Whether a halo can replace the guard of this read as well.
static bool add_overhang(const assign *a, halo *h, kernel *k, const expr *e) {
    int64_t lo[MAX_RANK], hi[MAX_RANK];
    if (!fits_halo(a, e) || (h->read && h->read->fill != e->fill) || !halo_of_read(k, e, lo, hi))
        return false;
    h->read = e;
    for (int j = 0; j < e->buffer->rank; j++) {
        if (lo[j] > h->lo[j]) h->lo[j] = lo[j];
        if (hi[j] > h->hi[j]) h->hi[j] = hi[j];
    }
    return true;
}

// False if a halo cannot replace the guard of some read; h->read stays NULL if there is no guarded read.
static bool find_halo(const assign *a, halo *h, kernel *k, const buffer *image) {
    arena *scratch = arena_new();
    expr_list nodes = kernel_nodes(scratch, k, PART_ALL);
    bool possible = true;
    for (int j = 0; j < nodes.n && possible; j++) {
        const expr *e = nodes.at[j];
        if (e->op == X_READ && e->buffer == image && e->guard) possible = add_overhang(a, h, k, e);
    }
    arena_destroy(scratch);
    return possible;
}

static uint64_t kernel_and_buffer(const kernel *k, const buffer *b) {
    return (uint64_t)k->id << 32 | (uint64_t)b->id;
}

// Guarded reads of the image by kernel k become unguarded reads of an image with a halo.
static void give_halo(assign *a, kernel *k, buffer *b) {
    halo h = {0};
    const expr *far = far_window(k, k->stages.at[0], a->t);
    if (far && far->buffer == b) return;
    if (!is_temp_root(b) || !b->layout || !find_halo(a, &h, k, b) || !h.read) return;
    layout *l = ARENA_NEW(k->arena, layout);
    *l = *b->layout;
    buffer *source = halo_source(h.read);
    if (source) map_put_number(&a->sources, (uint64_t)b->id, source);
    else l->fill = fill_value(h.read->fill);
    for (int j = 0; j < b->rank; j++) {
        // The image of a window with strides, too, so that images of one size have one layout, and writers one kernel.
        bool both = h.lo[j] == h.hi[j] + 1 && !a->t->freestanding && !a->t->size_level;
        int64_t hi = both ? h.lo[j] : h.hi[j];
        if (h.lo[j] > l->pad_lo[j]) l->pad_lo[j] = h.lo[j];
        if (hi > l->pad_hi[j]) l->pad_hi[j] = hi;
    }
    b->layout = l;
    if (source) map_put_number(&a->filled, kernel_and_buffer(k, b), b);
    kernel_rewrite_reads(k, drop_guard, b);
}

// Convolutions have priority if two windows need different fill values.
static void give_halos(assign *a) {
    program *p = a->p;
    for (int j = 0; j < p->kernels.n; j++) {
        conv_form f;
        if (find_conv(p->kernels.at[j], a->t, &f) && f.image) give_halo(a, p->kernels.at[j], f.image);
    }
    for (int j = 0; j < p->kernels.n; j++) {
        buffer **all;
        int n = kernel_buffers(p->kernels.at[j], &all);
        for (int i = 0; i < n; i++) give_halo(a, p->kernels.at[j], all[i]);
    }
}

static void halo_stage(kernel *k, buffer *b, int axis, bool high, buffer *source) {
    const layout *l = b->layout;
    stage *s = kernel_stage(k);
    expr *index[MAX_RANK];
    for (int j = 0; j < l->n; j++) {
        int x = l->order[j].axis;
        int64_t pad = l->pad_lo[x] + l->pad_hi[x];
        dim *n = x != axis ? dim_addk(b->dims[x], pad)
                           : dim_const(k->program->dims, high ? l->pad_hi[x] : l->pad_lo[x]);
        expr *a = stage_own_axis(k, s, AXIS_PARALLEL, "i", n);
        index[x] =
            x != axis || !high ? x_add(k, a, x_i64(k, -l->pad_lo[x])) : x_add(k, a, x_dim(k, b->dims[x]));
    }
    stage_write(k, s, b, index,
                source ? x_read_first(k, source) : x_number(k, dtype_compute(b->dtype), l->fill));
}

static kernel *halo_kernel(const assign *a, buffer *b, const loc *at) {
    kernel *k = kernel_new(a->p, arena_printf(a->p->arena, "halo_%s", b->name), at);
    buffer *source = map_get_number(&a->sources, (uint64_t)b->id);
    for (int j = 0; j < b->rank; j++) {
        if (b->layout->pad_lo[j]) halo_stage(k, b, j, false, source);
        if (b->layout->pad_hi[j]) halo_stage(k, b, j, true, source);
    }
    return k;
}

// The first kernel that reads b, if kernels of this region alone use it. On bare machines its halo is filled there, so that
// the result may overlap what its writer reads.
static const step *first_reader(const assign *a, const region *r, const buffer *b) {
    const buffer_uses *of = &a->uses->of[b->id];
    const step *reader = NULL;
    if (!a->t->freestanding || of->viewed || of->by_others || of->output) return NULL;
    for (int j = 0; j < of->sites.n; j++) {
        const site *at = of->sites.at[j];
        if (at->s->kind != STEP_KERNEL || at->region != r) return NULL;
        if (!reader && site_reads(at, b)) reader = at->s;
    }
    return reader;
}

// Halos are filled after the step that allocates the buffer, or before the first kernel that writes it. A
// runtime fill value is available before each kernel whose guarded reads use it, so the halo is filled there.
static void fill_halos(assign *a, region *r, const step *s, uint8_t *filled) {
    if (s->kind == STEP_ALLOC && has_halo(s->buffer) && !map_get_number(&a->sources, (uint64_t)s->buffer->id))
        insert_kernel(a->p, r, step_index(r, s) + 1, halo_kernel(a, s->buffer, s->loc));
    if (s->kind != STEP_KERNEL) return;
    buffer **all;
    int n = kernel_buffers(s->kernel, &all);
    for (int i = 0; i < n; i++) {
        buffer *b = all[i];
        bool source = map_get_number(&a->sources, (uint64_t)b->id);
        if (source && !map_get_number(&a->filled, kernel_and_buffer(s->kernel, b))) continue;
        if (!source && (b->role == BUF_HEAP || filled[b->id] || !has_halo(b) || !kernel_writes(s->kernel, b)))
            continue;
        filled[b->id] = 1;
        const step *reader = source ? NULL : first_reader(a, r, b);
        insert_kernel(a->p, r, step_index(r, reader ? reader : s), halo_kernel(a, b, s->kernel->loc));
    }
}

// ---------------------------------------------------------------- panels
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
static bool reads_selected_part(const contraction *c) {
    const buffer *b = c->b->buffer;
    for (int j = 0; j < b->rank; j++) {
        bool moves = false;
        for (int a = 0; a < c->k->axes.n && !moves; a++) moves = expr_uses_axis(c->b->index[j], a);
        if (!moves && c->b->index[j]->op != X_CONST && !dim_is(b->dims[j], 1)) return true;
    }
    return false;
}

static bool worth_packing(const contraction *c, int group) {
    if (c->b->buffer->role == BUF_CONST) return true;
    return rows_of(c)->max >= least_packed_rows(c, group) && !reads_selected_part(c);
}

// A branch for a single row, whose kernel knows that.
static void branch_for_one_row(assign *a, region *r, const contraction *c, dim *rows) {
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
static step *open_packing(assign *a, region **r, step *s, const contraction *c, int group) {
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
static dtype type_of_side(const assign *a, const buffer *b) {
    bool narrows = a->t->narrow_scales && b->dtype == DT_F32 && constant_fits(b->data, DT_F16);
    return narrows ? DT_F16 : b->dtype;
}

// Scales and zero points of B's blocks.
static void pack_sides(assign *a, const contraction *c) {
    arena *scratch = arena_new();
    expr_list all = expr_nodes(scratch, c->term_b);
    for (int j = 0; j < all.n; j++) {
        const expr *read = all.at[j];
        if (read->op != X_READ || read == c->b || read->guard) continue;
        const buffer *b = read->buffer;
        int n_axis = dim_of_axis(b, read->index, c->n, true);
        if (b->role != BUF_CONST || b->view_of || b->layout || b->rank < 2 || n_axis < 0) continue;
        const layout *l = side_layout(a->p->arena, a->t, c, read, n_axis);
        kernel_swap_reads((kernel *)c->k, b, packed_constant_as(a, b, l, type_of_side(a, b)));
    }
    arena_destroy(scratch);
}

static bool writes_memory(const kernel *k, const buffer *b) {
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++)
        if (buffer_root(all.at[j]->to) == buffer_root(b)) return true;
    return false;
}

// A copy packed by an earlier kernel of these steps, since when nothing has written the original; NULL: none.
static buffer *packed_before(const assign *a, const region *r, const step *s, const buffer *b,
                             const layout *l) {
    buffer *to = map_get_number(&a->packed, key_of_packed(b, l));
    for (int j = step_index(r, s) - 1; to && j >= 0; j--) {
        const step *before = r->steps.at[j];
        if (before->kind == STEP_ALLOC) continue;
        if (before->kind != STEP_KERNEL) return NULL;
        if (writes_memory(before->kernel, to)) return to;
        if (writes_memory(before->kernel, b)) return NULL;
    }
    return NULL;
}

static buffer *pack_at_run(assign *a, region *r, step *s, const contraction *c, int group, const layout *l) {
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
static void pack_operand(assign *a, region *r, step *s, const contraction *c, bool alone) {
    if (c->n < 0 || c->a->guard || c->b->guard || is_packed_operand(c->b, c->n)) return;
    kernel *k = (kernel *)c->k;
    const buffer *b = c->b->buffer;
    int lanes = short_rows_axis(a->t, c), last = lanes < 0 ? -1 : dim_of_axis(b, c->b->index, lanes, true);
    if (last >= 0 && !b->layout && !b->view_of) {
        kernel_swap_reads(k, b, packed_constant(a, b, layout_channels_last(a->p->arena, b->rank, last)));
        return;
    }
    int n_axis = dim_of_axis(c->b->buffer, c->b->index, c->n, true), group = group_axis(a->t, c);
    dtype sum = c->s->states.at[0].dtype;
    bool plain =
        sum == DT_F32 || sum == DT_F64 || group >= 0 || widens_bytes(a->t, c) || multiplies_halves(a->t, c);
    if (n_axis < 0 || !plain || b->layout || !worth_packing(c, group) || copies_columns(a->t, c)) return;
    if (dtype_bits(b->dtype) < 8 && b->role != BUF_CONST) return;
    if (b->role == BUF_CONST ? b->view_of != NULL : !alone) return;
    bool across = across_axis(a->t, c) >= 0;
    bool columns = across || (group < 0 && c->batch.n + c->other_n.n == 0 && wastes_panels(a->t, c, n_axis));
    bool rows = !columns && a->t->freestanding && !a->t->vector_bits && !a->t->arch.is_text &&
                sum == DT_F32 && dtype_bits(b->dtype) == 32;
    const layout *l = across    ? vector_rows_layout(a->p->arena, a->t, c, n_axis)
                      : columns ? column_layout(a->p->arena, c, n_axis)
                      : rows    ? row_layout(a->p->arena, c, n_axis)
                                : panel_layout(a->p->arena, a->t, c, n_axis, group);
    buffer *to = b->role == BUF_CONST ? packed_constant(a, b, l) : packed_before(a, r, s, b, l);
    if (!to) to = pack_at_run(a, r, s, c, group, l);
    if (b->role == BUF_CONST && dtype_bits(b->dtype) <= 8 && c->s->states.at[0].dtype == DT_F32)
        pack_sides(a, c);
    // Queries may be rows of the same buffer as keys: they stay rows.
    if (b->role == BUF_CONST) kernel_swap_reads(k, b, to);
    else kernel_replace_read(k, c->b, x_read(k, to, c->b->index));
}

// Weights of one result get the order of their image, along which sums then run.
static void order_single_weights(assign *a, const contraction *c) {
    const buffer *b = c->a->buffer, *image = c->b->buffer;
    if (!a->t->freestanding || b->role != BUF_CONST || b->view_of || b->layout || dtype_bits(b->dtype) < 8 ||
        c->m.n || c->batch.n)
        return;
    const layout *l = image->layout;
    const expr *channel = c->b->index[l ? l->order[l->n - 1].axis : image->rank - 1];
    for (int j = 0; j < b->rank - 1; j++)
        if (channel->op == X_AXIS && c->a->index[j] == channel)
            kernel_swap_reads((kernel *)c->k, b,
                              packed_constant(a, b, layout_channels_last(a->p->arena, b->rank, j)));
}

// Depthwise weights get the layout of their image: the vectorised axis last.
static void order_weights(assign *a, const contraction *c) {
    const buffer *b = c->b->buffer, *out = c->w->to;
    if (b->role != BUF_CONST) b = c->a->buffer;
    const expr *weights = b == c->b->buffer ? c->b : c->a;
    const expr *channel =
        c->w->index[out->layout ? out->layout->order[out->layout->n - 1].axis : out->rank - 1];
    if (b->role != BUF_CONST || b->view_of || b->layout || dtype_bits(b->dtype) < 8) return;
    for (int j = 0; j < b->rank - 1; j++)
        if (channel->op == X_AXIS && weights->index[j] == channel)
            kernel_swap_reads((kernel *)c->k, b,
                              packed_constant(a, b, layout_channels_last(a->p->arena, b->rank, j)));
}

// ---- small integers
// Integers of less than 8 bits that bare machines multiply with many rows: bytes of a temporary, which costs less than taking them
// apart for each row. It has no more bytes than the other operand or the result.
static bool is_worth_unpacking(const assign *a, const contraction *c) {
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

static void unpack_small(assign *a, contraction *c) {
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
static void write_unpacked(assign *a, region *r, const step *s) {
    if (!a->unpacked || !kernel_reads(s->kernel, a->unpacked)) return;
    insert_kernel(a->p, r, step_index(r, s),
                  copy_kernel(a->p, arena_printf(a->p->arena, "unpack_%s", a->small->name), s->kernel->loc,
                              a->small, a->unpacked));
}

static void pack_operands(assign *a, region *r, step *s) {
    const kernel *k = s->kernel;
    contraction c;
    if (s->kind != STEP_KERNEL || calls_cblas(k)) return;
    if (contraction_find(s->kernel, &c)) {
        split_groups(a->p, &a->packed, &c);
        unpack_small(a, &c);
        if (c.n < 0 && c.w->to->rank) order_weights(a, &c);
        if (c.n >= 0) order_single_weights(a, &c);
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
        if (is_product(p->kernels.at[j], &c) && !find_conv(p->kernels.at[j], t, &f))
            a.pinned[c.w->to->id] = true;
    }
    for (int j = 0; j < p->kernels.n; j++) {
        conv_form f;
        if (!find_conv(p->kernels.at[j], t, &f)) continue;
        if (f.image) want_channel_last(&a, f.image, f.channel);
        if (f.out && !may_stay_row_major(&a, p->kernels.at[j], &f))
            want_channel_last(&a, f.out, f.out_channel);
    }
    propagate_layouts(&(propagation){p, a.channel, a.pinned, any_kernel, same_channel});
    step_list steps = program_steps(scratch, p);
    for (int j = 0; j < steps.n; j++) copy_boundaries(&a, steps.at[j].region, steps.at[j].s);
    for (int j = 0; j < a.nbuffers; j++)
        if (a.channel[j] >= 0)
            p->buffers.at[j]->layout = layout_channels_last(p->arena, p->buffers.at[j]->rank, a.channel[j]);
    arena_destroy(scratch);
}

void make_halos(program *p, const target *t) {
    arena *scratch = arena_new();
    assign a = {.p = p, .t = t, .sources.arena = scratch, .filled.arena = scratch};
    give_halos(&a);
    a.uses = uses_build(scratch, p);
    uint8_t *filled = ARENA_ARRAY(scratch, uint8_t, p->buffers.n + 1);
    step_list steps = program_steps(scratch, p);
    for (int j = 0; j < steps.n; j++) fill_halos(&a, steps.at[j].region, steps.at[j].s, filled);
    arena_destroy(scratch);
}

void pack_panels(program *p, const target *t, bool unpacks) {
    arena *scratch = arena_new();
    assign a = {.p = p, .t = t, .packed.arena = scratch, .unpacks = unpacks};
    step_list steps = program_steps(scratch, p);
    for (int j = 0; j < steps.n; j++) pack_operands(&a, steps.at[j].region, steps.at[j].s);
    read_tables_in_panels(p);
    program_compact(p); // drops the originals of packed copies
    arena_destroy(scratch);
}
