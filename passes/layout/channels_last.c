// Kernels that prefer channels-last: convolutions, Winograd transforms, and samples of images.
#include "passes/layout/channels_last.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"
#include "passes/rewrite/winograd.h"

static bool is_axis_of_kind(const kernel *k, const expr *e, axis_kind kind) {
    return e->op == X_AXIS && k->axes.at[e->axis].kind == kind;
}

static bool find_transform(const kernel *k, conv_form *f) {
    buffer **all;
    int n = kernel_buffers(k, &all);
    *f = (conv_form){0};
    for (int j = 0; j < n; j++) {
        int channel = winograd_channel(k, all[j]);
        if (channel < 0) continue;
        if (kernel_writes(k, all[j])) f->out = all[j], f->out_channel = channel;
        else f->image = all[j], f->channel = channel;
    }
    return f->image || f->out;
}

// Whether the weights have separate columns, as in a product for each group.
static bool has_columns(const kernel *k, const expr *image, const expr *weights) {
    for (int a = 0; a < k->axes.n; a++) {
        const axis *x = &k->axes.at[a];
        bool counts = x->kind == AXIS_PARALLEL && !dim_is(x->extent, 1);
        if (counts && index_uses_axis(weights, a) && !index_uses_axis(image, a)) return true;
    }
    return false;
}

static bool takes_steps(const kernel *k, expr *index) {
    for (int a = 0; a < k->axes.n; a++) {
        if (k->axes.at[a].kind != AXIS_PARALLEL || !expr_uses_axis(index, a)) continue;
        const expr *step = expr_slope((kernel *)k, index, a);
        if (!step || step->op != X_CONST || step->i > 1) return true;
    }
    return false;
}

// Whether a row has vectors of neighbours, where the channels are a small part of a vector. One of unknown size is assumed to have them,
// unless windows take steps, whose vectors are gathered.
static bool suits_rows(const kernel *k, const target *t, const expr *image, int channel) {
    enum { FEW = 3, PART = 2, LONG = 16, VECTORS = 2 }; // measured
    const buffer *b = image->buffer;
    int last = b->rank - 1 - (channel == b->rank - 1);
    int lanes = t->widest_bits / dtype_bits(DT_F32);
    if (last < 1 || b->dims[channel]->max > FEW || b->dims[channel]->max * PART >= lanes) return false;
    const dim *row = b->dims[last];
    if (takes_steps(k, image->index[last])) return row->min >= VECTORS * lanes;
    return !dim_is_const(row) || dim_value(row) >= LONG;
}

// Depthwise: each output channel has its own input channel, so the axis indexes image, weights and output; or several output
// channels have one, whose axis counts groups of them. Vectors of neighbours in a row suit the latter better.
static void find_depthwise(const kernel *k, const target *t, const expr *image, const expr *weights,
                           const write *w, conv_form *f) {
    for (int j = 0; j < image->buffer->rank; j++)
        for (int o = 0; o < w->to->rank; o++) {
            const expr *i = index_in_part(image->index[j]);
            expr *groups;
            int digit = index_digit(k, index_in_part(w->index[o]), &groups);
            if (!is_axis_of_kind(k, i, AXIS_PARALLEL) || !index_uses_axis(weights, i->axis)) continue;
            bool several = groups == i && digit != i->axis && (!t->vector_bits || t->dot_across);
            bool one = digit == i->axis && !groups && !has_columns(k, image, weights);
            if (several || (one && !suits_rows(k, t, image, j))) f->channel = j, f->out_channel = o;
        }
}

// Whether the image is read in windows, unlike the operand of a matrix product.
static bool is_window(const kernel *k, const expr *image, int channel) {
    for (int j = 0; j < image->buffer->rank; j++)
        if (j != channel && image->index[j]->op != X_AXIS && index_reduces(k, image->index[j])) return true;
    return false;
}

// Whether an axis of the sum moves a window of the image that is smaller than what an axis of the result passes over, as one of
// unknown size is taken to be. In gradients of weights it is the other way round.
static bool slides_window(const kernel *k, const expr *image, const expr *other) {
    for (int j = 0; j < image->buffer->rank; j++)
        for (int p = 0; p < k->axes.n; p++)
            for (int r = 0; r < k->axes.n; r++) {
                const dim *size = k->axes.at[r].extent;
                if (k->axes.at[p].kind != AXIS_PARALLEL || k->axes.at[r].kind != AXIS_REDUCE) continue;
                if (index_uses_axis(other, p)) continue; // a group of channels
                if (!expr_uses_axis(image->index[j], p) || !expr_uses_axis(image->index[j], r)) continue;
                if (size->max < k->axes.at[p].extent->max || !dim_is_const(size)) return true;
            }
    return false;
}

// ---- samples
// Reads at data-dependent positions (samples of an image between its elements) that are the same for all
// channels: vectors of channels share the arithmetic on positions and weights. Plain lookups have little of
// it.
enum { MUCH_ARITHMETIC = 24, FEW_CHANNELS = 8 };

// The parallel axis that counts channels in an index, alone or within groups; -1: none.
static int counted_axis(const kernel *k, const expr *index) {
    expr *groups;
    int axis = index_digit(k, index, &groups);
    return axis >= 0 && k->axes.at[axis].kind == AXIS_PARALLEL ? axis : -1;
}

// The only index of the read that counts an axis not used by its other indices.
static int channel_of_sample(const kernel *k, const expr *read) {
    bool data = false;
    int found = -1;
    for (int j = 0; j < read->buffer->rank && !data; j++) data = expr_any(read->index[j], expr_is_read);
    for (int j = 0; data && j < read->buffer->rank; j++) {
        int axis = counted_axis(k, read->index[j]), uses = 0;
        if (axis < 0) continue;
        for (int i = 0; i < read->buffer->rank; i++) uses += expr_uses_axis(read->index[i], axis);
        if (uses == 1) found = j;
    }
    return found;
}

// A read of an image at such positions if all of its reads index the channels by the same kernel axis
// (*axis); NULL: none, or several images.
static const expr *find_sample(const kernel *k, const expr_list *all, int *axis) {
    const expr *image = NULL;
    for (int j = 0; j < all->n; j++) {
        const expr *e = all->at[j];
        if (e->op != X_READ || (image && image->buffer != e->buffer)) continue;
        if (e->buffer->role == BUF_LOCAL || e->buffer->rank < 3 || dtype_bits(e->buffer->dtype) < 8) continue;
        int channel = channel_of_sample(k, e);
        if (channel < 0) continue;
        if (image && image->index[channel] != e->index[channel]) return NULL;
        image = e, *axis = counted_axis(k, e->index[channel]);
    }
    return image;
}

// Operations that are invariant along the axis. The channel itself is needed only in the output's index, or a
// plain index of another read.
static int arithmetic_without(const expr_list *all, int axis) {
    int n = 0;
    for (int j = 0; j < all->n; j++) {
        const expr *e = all->at[j];
        if (e->op == X_CONST || e->op == X_AXIS || e->op == X_DIM) continue;
        if (!expr_uses_axis(all->at[j], axis)) n += e->op == X_CAST || e->op == X_DIV ? 4 : 1;
    }
    return n;
}

// The write whose layout suits the samples of a stage: its own or, if it computes a local for each position of
// the outer axes, the only other one of the kernel. NULL: none.
static const write *write_of_samples(const kernel *k, const stage *st, int axis) {
    const write *w = st->writes.n == 1 ? &st->writes.at[0] : NULL;
    if (w && w->to->role == BUF_LOCAL) {
        write_list all = kernel_write_list(k);
        w = NULL;
        for (int j = 0; j < all.n && axis < k->nouter; j++) {
            if (all.at[j]->to->role == BUF_LOCAL) continue;
            if (w) return NULL;
            w = all.at[j];
        }
    }
    bool plain = w && w->combine == COMBINE_SET && !w->guard && w->to->rank >= 3;
    return plain ? w : NULL;
}

static bool find_samples_in(const kernel *k, const stage *st, conv_form *f) {
    expr_list all = stage_nodes(k->arena, st, PART_ALL);
    int axis = -1;
    const expr *image = find_sample(k, &all, &axis);
    const write *w = image ? write_of_samples(k, st, axis) : NULL;
    if (!w || k->axes.at[axis].extent->max < FEW_CHANNELS) return false;
    *f = (conv_form){.image = image->buffer, .channel = -1, .out = w->to, .out_channel = -1};
    for (int j = 0; j < image->buffer->rank; j++)
        if (counted_axis(k, image->index[j]) == axis) f->channel = j;
    for (int j = 0; j < w->to->rank; j++) {
        if (!expr_uses_axis(w->index[j], axis)) continue;
        if (counted_axis(k, w->index[j]) != axis || f->out_channel >= 0) return false;
        f->out_channel = j;
    }
    if (arithmetic_without(&all, axis) < MUCH_ARITHMETIC || f->channel < 0 || f->out_channel < 0)
        return false;
    if (f->channel == f->image->rank - 1) f->image = NULL;
    if (f->out_channel == f->out->rank - 1) f->out = NULL;
    return f->image || f->out;
}

static bool find_samples(const kernel *k, conv_form *f) {
    for (int j = 0; j < k->stages.n; j++)
        if (find_samples_in(k, k->stages.at[j], f)) return true;
    return false;
}

// Whether an index counts channels by an axis of this kind, alone or within groups that all operands have.
static bool is_channel(const contraction *c, const expr *index, axis_kind kind) {
    expr *groups;
    int digit = index_digit(c->k, index, &groups);
    if (digit < 0 || c->k->axes.at[digit].kind != kind) return false;
    for (int a = 0; groups && a < c->k->axes.n; a++)
        if (expr_uses_axis(groups, a) && !axis_in(&c->batch, a)) return false;
    return kind == AXIS_REDUCE || !axis_in(&c->batch, digit);
}

static bool index_uses_digit(const kernel *k, const expr *read, const expr *index) {
    expr *groups;
    return index_uses_axis(read, index_digit(k, index, &groups));
}

// The channel dim of an image with a single channel, which no kernel axis indexes: the output's channel dim (-1: it has one channel,
// too), or the last one after a Transpose to channels-last. -1: none.
static int only_channel(const expr *image, int out_channel) {
    enum { CHANNEL = 1 };
    int last = image->buffer->rank - 1, same = out_channel < 0 ? CHANNEL : out_channel;
    if (same <= last && image->index[same]->op == X_CONST) return same;
    return image->index[last]->op == X_CONST && dim_is(image->buffer->dims[last], 1) ? last : -1;
}

// Axes that the operands share are at most the groups of the channels.
static bool shares_groups_only(const contraction *c, const expr *channel) {
    expr *groups;
    index_digit(c->k, index_in_part(channel), &groups);
    return groups ? c->batch.n == 1 && expr_uses_axis(groups, c->batch.at[0]) : !c->batch.n;
}

// Whether an axis of this operand alone takes steps of several elements in each of the result's rows, as the phases of a
// transposed convolution do: a product that writes rows in place has no columns for tiles.
static bool spreads_result(const contraction *c, const expr *image, const expr *weights) {
    int rank = c->w->to->rank;
    for (int a = 0; rank && a < c->k->axes.n; a++) {
        const expr *last = c->w->index[rank - 1];
        const expr *step =
            index_uses_axis(image, a) && !index_uses_axis(weights, a) && expr_uses_axis(last, a)
                ? expr_slope((kernel *)c->k, (expr *)last, a)
                : NULL;
        if (step && step->op == X_CONST && step->i > 1) return true;
    }
    return false;
}

// Whether the result is an image as the operand is, not heads of it or a transposed matrix.
static bool is_image(const buffer *operand, const buffer *result) {
    return operand->rank == result->rank && result->rank > 3;
}

// Constants are weights, unless they alone are read in a window: an image, with weights that the run computes.
static bool is_known_weights(const kernel *k, const expr *weights, const expr *image) {
    return weights->buffer->role == BUF_CONST &&
           (!slides_window(k, weights, image) || slides_window(k, image, weights));
}

// The channels of an image and of its result.
static void find_channels(const contraction *c, const expr *image, const expr *weights, conv_form *f) {
    *f = (conv_form){.image = image->buffer, .channel = -1, .out = c->w->to, .out_channel = -1};
    for (int j = 0; j < image->buffer->rank; j++)
        if (is_channel(c, index_in_part(image->index[j]), AXIS_REDUCE)) f->channel = j;
    for (int j = 0; j < c->w->to->rank; j++) {
        const expr *index = index_in_part(c->w->index[j]);
        if (is_channel(c, index, AXIS_PARALLEL) && index_uses_digit(c->k, weights, index) &&
            !index_uses_digit(c->k, image, index))
            f->out_channel = j;
    }
}

bool find_conv(const kernel *k, const target *t, conv_form *f) {
    contraction c;
    if (find_transform(k, f) || find_samples(k, f)) return true;
    if (!contraction_find(k, &c)) return false;
    expr *image = c.a, *weights = c.b;
    if (is_known_weights(k, image, weights)) image = c.b, weights = c.a;
    bool known = is_known_weights(k, weights, image);
    if (!known && (slides_window(k, weights, image) || spreads_result(&c, weights, image)))
        image = c.b, weights = c.a;
    if (!known && !slides_window(k, image, weights) && !spreads_result(&c, image, weights)) return false;
    if (!known && slides_window(k, weights, image)) return false;
    if ((image->buffer->role == BUF_CONST && known) || image->buffer->rank < 2) return false;
    find_channels(&c, image, weights, f);
    if (image->buffer->rank < 3 && !is_window(k, image, f->channel)) return false;
    if (!known)
        return f->channel >= 0 && f->out_channel >= 0 && shares_groups_only(&c, image->index[f->channel]);
    if (f->channel < 0) find_depthwise(k, t, image, weights, c.w, f);
    if (f->channel < 0) f->channel = only_channel(image, f->out_channel);
    if (f->out_channel < 0 && t->freestanding && is_window(k, image, f->channel)) {
        f->out = NULL; // it has one channel
        return f->channel >= 0;
    }
    // The image of a window may be channels-last already, after a Transpose: it still gets a halo. And results of groups follow it,
    // and images.
    bool last = f->channel == image->buffer->rank - 1,
         follows = f->out_channel < c.w->to->rank - 1 && (c.batch.n || is_image(image->buffer, c.w->to));
    return f->channel >= 0 && f->out_channel >= 0 && (!last || follows || is_window(k, image, f->channel));
}

static bool is_axis_or_0(const kernel *k, const expr *index, axis_kind kind) {
    return is_axis_of_kind(k, index, kind) || expr_is_int(index, 0);
}

// Whether plain axes index everything but the channels.
static bool has_places(const kernel *k, expr *const *index, const buffer *b, int channel) {
    bool plain = true;
    for (int j = 0; j < b->rank; j++) plain &= j == channel || is_axis_or_0(k, index[j], AXIS_PARALLEL);
    return plain;
}

// Axes of the result that only this operand has.
static int own_axes(const kernel *k, const expr *operand, const expr *other) {
    int n = 0;
    for (int a = 0; a < k->axes.n; a++)
        n += k->axes.at[a].kind == AXIS_PARALLEL && index_uses_axis(operand, a) && !index_uses_axis(other, a);
    return n;
}

bool find_places(const kernel *k, conv_form *f) {
    contraction c;
    if (!contraction_find(k, &c) || c.a->guard || c.b->guard) return false;
    bool second = own_axes(k, c.a, c.b) < own_axes(k, c.b, c.a);
    const expr *image = second ? c.b : c.a, *weights = second ? c.a : c.b;
    if (image->buffer->role == BUF_CONST || weights->buffer->role == BUF_CONST) return false;
    if (!is_image(image->buffer, c.w->to) || own_axes(k, image, weights) < 2 ||
        own_axes(k, weights, image) != 1)
        return false;
    find_channels(&c, image, weights, f);
    return f->channel >= 0 && f->channel < f->image->rank - 1 && f->out_channel == f->channel &&
           shares_groups_only(&c, image->index[f->channel]) &&
           has_places(k, image->index, f->image, f->channel) &&
           has_places(k, c.w->index, f->out, f->out_channel);
}

bool multiplies_rows(const kernel *k, const conv_form *f) {
    contraction c;
    if (!f->image || !f->out || !contraction_find(k, &c)) return false;
    const expr *image = c.a->buffer == f->image ? c.a : c.b;
    bool plain = image->buffer == f->image && !image->guard && c.w->to == f->out;
    return plain && has_places(k, image->index, f->image, f->channel) &&
           is_axis_or_0(k, image->index[f->channel], AXIS_REDUCE) && has_places(k, c.w->index, f->out, -1);
}
