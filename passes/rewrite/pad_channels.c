// Few channels padded to whole groups. In: a program with channels-last images. Out: images whose channels are
// no multiple of a group of K (4 bytes, 2 of bf16) have more of them, which are 0 and which convolutions
// multiply by weights of 0:
//
//   x[n, c, y, x] = f(...)                  for c < 3   x'[n, c, y, x] = c < 3 ? f(...) : 0        for c < 4
//   s += x[n, c, y + i, x + j] * w[m, c, i, j]          s += x'[n, c, y + i, x + j] * w'[m, c, i, j]
//
// Then the columns of a window and their channels are one contiguous range of groups. A padded image is one that
// a pointwise kernel writes and that only such convolutions read.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "ir/target.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"
#include "passes/passes.h"
#include "passes/rewrite/storage_type.h"
#include <string.h>

typedef struct padding {
    program *p;
    const target *t;
    const uses *uses;
    const bool *fixed; // by id of the root: its type cannot change
    buffer *image;     // the one at hand
    int channel;       // its axis
    int64_t from, to;  // channels
    expr *known;       // whether a position is among the original channels
    map weights;       // id of a constant -> padded copy
} padding;

// ---------------------------------------------------------------- applicability
// Elements in a group of K, 1: none.
static int64_t group_of(const padding *p, const contraction *c) {
    const buffer *a = c->a->buffer, *b = c->b->buffer;
    dtype sum = c->s->states.at[0].dtype;
    bool bytes = (a->dtype == DT_U8 || a->dtype == DT_I8) && (b->dtype == DT_U8 || b->dtype == DT_I8);
    if (bytes && sum == DT_I32) return 4;
    bool plain = c->term_a == c->a && c->term_b == c->b;
    bool pairs =
        plain && p->t->precision == PRECISION_BF16 && p->t->bf16_products && !p->fixed[buffer_root(a)->id];
    return pairs && sum == DT_F32 && a->dtype == DT_F32 && b->dtype == DT_F32 ? 2 : 1;
}

static int reads_of(const kernel *k, const buffer *b) {
    int n = 0;
    for (int s = 0; s < k->stages.n; s++) {
        expr_list all = reads_only(stage_nodes(k->arena, k->stages.at[s], PART_ALL));
        for (int j = 0; j < all.n; j++) n += all.at[j]->buffer == b;
    }
    return n;
}

static bool is_innermost(const buffer *b, int axis) {
    return b->layout && b->layout->order[b->layout->n - 1].axis == axis &&
           !b->layout->order[b->layout->n - 1].tile;
}

// The reduce axis that counts the channels of the image; -1: none.
static int channels_of(const contraction *c) {
    const buffer *b = c->a->buffer;
    for (int j = 0; j < c->k_axes.n; j++) {
        int axis = c->k_axes.at[j], at = dim_of_axis(b, c->a->index, axis, true),
            in_b = dim_of_axis(c->b->buffer, c->b->index, axis, true);
        if (at < 0 || in_b < 0 || !is_innermost(b, at)) continue;
        dim *n = c->k->axes.at[axis].extent;
        return dim_is_const(n) && n == b->dims[at] && n == c->b->buffer->dims[in_b] ? axis : -1;
    }
    return -1;
}

// A window of more than one column: a product of matrices has nothing to gain.
static bool has_columns(const contraction *c, int channels) {
    for (int j = 0; j < c->k_axes.n; j++) {
        int a = c->k_axes.at[j];
        if (a != channels && c->k->axes.at[a].extent->min > 1) return true;
    }
    return false;
}

static bool pads(padding *p, const kernel *k, contraction *c) {
    if (!contraction_find(k, c) || c->n < 0 || k->stages.n != 1) return false;
    const buffer *b = c->b->buffer;
    int axis = channels_of(c);
    if (axis < 0 || b->role != BUF_CONST || b->view_of || b->layout || c->b->guard || !has_columns(c, axis))
        return false;
    int64_t n = dim_value(k->axes.at[axis].extent), group = group_of(p, c);
    p->channel = dim_of_axis(c->a->buffer, c->a->index, axis, true);
    p->from = n, p->to = (n + group - 1) / group * group;
    return n > 1 && p->to > n && reads_of(k, c->a->buffer) == 1;
}

static bool is_pointwise_writer(const kernel *k, const buffer *b, int channel) {
    if (k->stages.n != 1 || k->locals.n || k->messages.n) return false;
    const stage *s = k->stages.at[0];
    if (s->states.n || s->writes.n != 1 || s->writes.at[0].to != b) return false;
    const write *w = &s->writes.at[0];
    if (!write_is_plain(w) || reads_of(k, b)) return false;
    const expr *i = w->index[channel];
    return i->op == X_AXIS && k->axes.at[i->axis].kind == AXIS_PARALLEL &&
           k->axes.at[i->axis].extent == b->dims[channel] &&
           dim_of_axis(b, w->index, i->axis, true) == channel;
}

// The kernel that writes the image, if it is the only one, and all others are convolutions that pad it.
static kernel *writer_of(padding *p, const buffer *b) {
    const buffer_uses *u = &p->uses->of[b->id];
    kernel *writer = NULL;
    int64_t to = p->to;
    contraction c;
    if (b->role != BUF_TEMP || b->view_of || u->viewed || u->by_others || u->output) return NULL;
    for (int j = 0; j < u->sites.n; j++) {
        site *at = u->sites.at[j];
        kernel *k = at->s->kernel;
        if (at->s->kind != STEP_KERNEL || !k) return NULL;
        if (site_writes(at, b)) {
            if (writer) return NULL;
            writer = k;
        } else if (!pads(p, k, &c) || c.a->buffer != b || p->to != to) return NULL;
    }
    return writer && is_pointwise_writer(writer, b, p->channel) ? writer : NULL;
}

// ---------------------------------------------------------------- rewriting
static buffer *padded_image(const padding *p) {
    const buffer *b = p->image;
    dim *dims[MAX_RANK];
    for (int j = 0; j < b->rank; j++) dims[j] = b->dims[j];
    dims[p->channel] = dim_const(p->p->dims, p->to);
    buffer *to = program_temp(p->p, arena_printf(p->p->arena, "%s.padded", b->name), b->dtype, b->rank, dims);
    to->layout = b->layout;
    return to;
}

static void copy_elements(const constant *from, int64_t i, constant *to, int64_t at, int64_t n) {
    size_t size = (size_t)dtype_size(to->elem, 1);
    for (int64_t j = 0; j < n; j++) {
        const uint8_t *one = from->kind == CONST_SPLAT ? from->splat : from->data + (size_t)(i + j) * size;
        memcpy((uint8_t *)to->data + (size_t)(at + j) * size, one, size);
    }
}

static buffer *padded_weights(padding *p, const buffer *b, int axis) {
    buffer *known = map_get_number(&p->weights, (uint64_t)b->id);
    if (known) return known;
    int64_t dims[MAX_RANK], inner = 1, outer = 1;
    for (int j = 0; j < b->rank; j++) {
        dims[j] = dim_value(b->dims[j]);
        if (j < axis) outer *= dims[j];
        if (j > axis) inner *= dims[j];
    }
    dims[axis] = p->to;
    constant *c = constant_new(p->p->arena, b->dtype, b->rank, dims);
    for (int64_t o = 0; o < outer; o++)
        copy_elements(b->data, o * p->from * inner, c, o * p->to * inner, p->from * inner);
    known = program_constant(p->p, b->name, c);
    map_put_number(&p->weights, (uint64_t)b->id, known);
    return known;
}

static void pad_reader(padding *p, kernel *k, buffer *image) {
    contraction c;
    pads(p, k, &c);
    int axis = channels_of(&c), at = dim_of_axis(c.b->buffer, c.b->index, axis, true);
    buffer *weights = padded_weights(p, c.b->buffer, at);
    const buffer *old = c.b->buffer;
    k->axes.at[axis].extent = dim_const(p->p->dims, p->to);
    kernel_swap_reads(k, p->image, image);
    kernel_swap_reads(k, old, weights);
}

static expr *guarded(void *user, kernel *k, const expr *read) {
    const padding *p = user;
    expr *guard = read->guard ? x_and(k, p->known, read->guard) : p->known;
    return x_read_guarded(k, read->buffer, read->index, guard, read->guard ? read->fill : NULL);
}

static void pad_writer(padding *p, kernel *k, buffer *image) {
    write *w = &k->stages.at[0]->writes.at[0];
    expr *axis = w->index[p->channel];
    k->axes.at[axis->axis].extent = dim_const(p->p->dims, p->to); // first: comparisons are folded by it
    p->known = x_lt(k, axis, x_i64(k, p->from));
    expr *value = expr_rewrite_reads(k, w->value, guarded, p);
    w->value = x_select(k, p->known, value, x_zero(k, w->value->dtype));
    w->to = image;
}

static bool pad_image(padding *p, const kernel *first) {
    contraction c;
    if (!pads(p, first, &c)) return false;
    p->image = c.a->buffer;
    kernel *writer = writer_of(p, p->image);
    if (!writer) return false;
    pads(p, first, &c);
    buffer *image = padded_image(p);
    pad_writer(p, writer, image);
    const buffer_uses *u = &p->uses->of[p->image->id];
    for (int j = 0; j < u->sites.n; j++)
        if (u->sites.at[j]->s->kernel != writer) pad_reader(p, u->sites.at[j]->s->kernel, image);
    return true;
}

void pass_pad_channels(pass_context *context) {
    program *p = context->program;
    if (!context->target->vector_bits) return;
    arena *scratch = arena_new();
    padding x = {.p = p, .t = context->target, .weights = {.arena = scratch}};
    for (bool changed = true; changed;) {
        changed = false;
        x.uses = uses_build(scratch, p);
        x.fixed = fixed_types(scratch, p);
        for (int j = 0; j < p->kernels.n && !changed; j++) changed = pad_image(&x, p->kernels.at[j]);
    }
    program_compact(p);
    arena_destroy(scratch);
}
