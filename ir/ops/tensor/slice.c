// Operators that cut or extend axes: Split, Slice, Pad. Sizes and positions are dims, constant or not; the
// kernels are index maps with guards.
#include "ir/ops/rows.h"
#include "ir/ops/runtime_args.h"
#include <string.h>

// ---------------------------------------------------------------- lists of open length
// Runtime symbols for `count` elements of input i, a list whose length only the run knows. NULL: not such a list.
static dim **open_list(const node *n, int i, int count) {
    const value *v = n->in[i];
    if (v->type.rank != 1 || !dtype_is_int(v->type.elem)) return NULL;
    dim **list = ARENA_ARRAY(infer_arena(n), dim *, count + 1);
    for (int j = 0; j < count; j++)
        list[j] = dim_opaque_named(infer_dims(n), arena_printf(infer_arena(n), "?%s.%d", v->name, j));
    return list;
}

// Sets symbol j of that list to its element at `place`; to 0 if the list is shorter.
static void set_open(lowering *l, node *n, int i, dim *const *symbols, int j, dim *place) {
    buffer *list = lower_in(l, n, i);
    const char *name = arena_printf(infer_arena(n), "%d_%d", i, j);
    buffer *at = lower_temp(l, n, name, DT_I64, 0, NULL);
    kernel *k = lower_kernel(l, n, name);
    expr *index = x_dim(k, place), *inside = x_lt(k, index, x_dim(k, list->dims[0]));
    stage_write(k, kernel_stage(k), at, NULL,
                x_cast(k, x_read_guarded(k, list, &index, inside, NULL), DT_I64, false));
    lower_set_dim(l, n, symbols[j], at, 0);
}

// Whether entry i of `axes` (NULL: all in order) is axis a, 0 or 1 if that is known. length: that of a list of
// open length, else NULL.
static dim *listed_axis(const node *n, dim *const *axes, dim *length, int i, int a, int rank) {
    dim *named = axes ? dim_is_axis(axes[i], a, rank) : infer_k(n, i == a);
    return length ? dim_and(dim_lt(infer_k(n, i), length), named) : named;
}

// ---------------------------------------------------------------- Split
// Version 1 also accepts the sizes as a second input, of the data's type.
static void split_upgrade_2(node *n) {
    if (!node_in(n, 1)) return;
    node_set_in(n, 1, with_int(NODE(n, "Cast", n->in[1]), "to", DT_I64));
    node_remove_attr(n, "split");
}
static void split_upgrade_13(node *n) { upgrade_ints_to_input(n, "split", 1); }
// Since version 18 splitting into equal parts requires an attribute.
static void split_upgrade_18(node *n) {
    if (!node_in(n, 1)) upgrade_set_int(n, "num_outputs", n->nout);
}

// The sizes of the parts; false if their number is unknown.
static bool split_sizes(node *n, int axis, dim **sizes) {
    const type *in = infer_in(n, 0);
    dim *total = in->dims[axis], *zero = infer_k(n, 0), **given;
    int count;
    if (node_in(n, 1)) {
        if (node_attr(n, "num_outputs"))
            infer_error(n, "input 'split' and attribute 'num_outputs' are both given");
        if (!infer_argument(n, 1, n->nout, &given, &count, in->elem)) return false;
        if (count != n->nout) infer_error(n, "%d sizes are given for %d outputs", count, n->nout);
        memcpy(sizes, given, (size_t)count * sizeof *sizes);
        return true;
    }
    int64_t parts = node_int(n, "num_outputs", n->nout);
    if (parts != n->nout)
        infer_error(n, "attribute 'num_outputs' is %lld, but there are %d outputs", (long long)parts,
                    n->nout);
    dim *part = dim_ceildiv(total, infer_k(n, parts));
    for (int i = 0; i < n->nout; i++)
        sizes[i] = dim_max(dim_min(part, dim_sub(total, dim_mulk(part, i))), zero);
    // A simpler form if all parts are equal.
    for (int i = 0; i < n->nout; i++)
        if (dim_divisible(total, parts)) sizes[i] = part;
    return true;
}

static dim *split_total(const node *n, dim *const *sizes) {
    dim *sum = infer_k(n, 0);
    for (int i = 0; i < n->nout; i++) sum = dim_add(sum, sizes[i]);
    return sum;
}

static void split_infer_contents(node *n, int axis, dim *const *sizes) {
    int count;
    dim **contents = infer_contents(n, 0, &count);
    if (!contents || infer_in(n, 0)->rank != 1 || axis != 0) return;
    int64_t at = 0;
    for (int i = 0; i < n->nout; i++) {
        if (!dim_is_const(sizes[i]) || at + dim_value(sizes[i]) > count) return;
        infer_set_contents(n, i, contents + at, (int)dim_value(sizes[i]));
        at += dim_value(sizes[i]);
    }
}

static void split_infer(node *n) {
    const type *in = infer_in(n, 0);
    int rank = infer_rank(n, 0), axis = node_axis(n, 0, rank);
    dim **sizes = ARENA_ARRAY(infer_arena(n), dim *, n->nout + 1);
    if (!split_sizes(n, axis, sizes)) return;
    if (dim_equal(split_total(n, sizes), in->dims[axis]) == TRI_NO)
        infer_error(n, "the sizes add up to %s, but axis %d has size %s",
                    dim_text(infer_arena(n), split_total(n, sizes)), axis,
                    dim_text(infer_arena(n), in->dims[axis]));
    dim *out[MAX_RANK];
    memcpy(out, in->dims, (size_t)rank * sizeof *out);
    for (int i = 0; i < n->nout; i++) {
        out[axis] = sizes[i];
        infer_set(n, i, in->elem, rank, out);
    }
    split_infer_contents(n, axis, sizes);
}

static void split_lower(lowering *l, node *n) {
    const type *t = infer_in(n, 0);
    int axis = node_axis(n, 0, t->rank);
    dim **sizes = ARENA_ARRAY(infer_arena(n), dim *, n->nout + 1), *offset = infer_k(n, 0);
    lower_arguments(l, n);
    if (!split_sizes(n, axis, sizes)) lower_unknown_length(l, n);
    for (int i = 0; i < n->nout; i++) lower_check_size(l, n, sizes[i], "a part has a negative size");
    if (node_in(n, 1))
        lower_check(l, n, dim_eq(split_total(n, sizes), t->dims[axis]),
                    "the sizes do not add up to the input's size");
    buffer *in = lower_in(l, n, 0);
    for (int i = 0; i < n->nout; i++) {
        buffer *out = lower_out(l, n, i);
        if (out) {
            kernel *k;
            expr *index[MAX_RANK], *from[MAX_RANK];
            stage *s = suffixed_stage(l, n, arena_printf(l->program->arena, "%d", i), out, &k, index);
            memcpy(from, index, sizeof from);
            from[axis] = x_add(k, index[axis], x_dim(k, offset));
            stage_write(k, s, out, index, x_read(k, in, from));
        }
        offset = dim_add(offset, sizes[i]);
    }
}

static bool split_undo_13(node *as) { return downgrade_input_to_ints(as, 1, "split"); }

// Without sizes, older versions split into equal parts only.
static bool split_undo_18(node *as) {
    int64_t count = node_int(as, "num_outputs", 0), axis = node_int(as, "axis", 0), parts[2];
    node_remove_attr(as, "num_outputs");
    if (node_in(as, 1)) return true;
    if (!count || (as->loc->version && as->loc->version < 18 && strcmp(as->loc->op, "Split") == 0))
        return true;
    const type *t = downgrade_has_rank(as, 0) ? &as->in[0]->type : NULL;
    axis += t && axis < 0 ? t->rank : 0;
    if (!t || axis < 0 || axis >= t->rank || !dim_is_const(t->dims[axis])) return false;
    int64_t size = dim_value(t->dims[axis]);
    parts[0] = (size + count - 1) / count;
    parts[1] = size - parts[0] * (count - 1);
    return parts[0] == parts[1];
}

OPERATOR(Split,
         .upgrades = {{2, split_upgrade_2},
                      {13, split_upgrade_13, split_undo_13},
                      {18, split_upgrade_18, split_undo_18}},
         .infer = split_infer, .lower = split_lower);

// ---------------------------------------------------------------- Slice
typedef struct cut {
    dim *start, *step, *count; // start is irrelevant if count is 0
} cut;

typedef struct cuts {
    int rank;
    cut at[MAX_RANK];
    dim *valid;              // no step is 0
    int64_t sizes[MAX_RANK]; // of the input, if constant
} cuts;

// Position p, counted from the end if negative. Distant ones are clamped first, to avoid overflow. INT_MAX
// and beyond mean the end of an axis of unknown size.
static dim *from_end(dim *p, dim *size) {
    dims *t = size->table;
    if (dim_is_const(p) && !dim_is_const(size)) {
        int64_t v = dim_value(p);
        if (v >= INT32_MAX) return size;
        if (v <= INT32_MIN) return dim_const(t, -1);
        return v < 0 ? dim_addk(size, v) : p;
    }
    if (p->min >= 0 && !dim_is_const(p)) return p;
    dim *near = dim_max(dim_min(p, size), dim_addk(dim_neg(size), -1));
    return dim_add(near, dim_select(dim_lt(near, dim_const(t, 0)), size, dim_const(t, 0)));
}

// step > 0: start in [0, size], end in [0, size]. Bounds that matter only for an empty result are omitted.
static cut cut_forward(dim *size, dim *start, dim *end, dim *step) {
    dim *zero = dim_const(size->table, 0);
    cut c = {dim_max(from_end(start, size), zero), step, NULL};
    dim *stop = dim_min(from_end(end, size), size);
    bool last = dim_is_const(start) && dim_value(start) < 0 && dim_value(start) > INT32_MIN && stop == size;
    if (last && dim_is(step, 1))
        c.count = dim_min(size, dim_const(size->table, -dim_value(start))); // the last positions
    else c.count = dim_max(dim_ceildiv(dim_sub(stop, c.start), step), zero);
    return c;
}

// step < 0: start in [0, size - 1], end in [-1, size - 1].
static cut cut_backward(dim *size, dim *start, dim *end, dim *step) {
    dims *t = size->table;
    dim *last = dim_addk(size, -1), *from = from_end(start, size);
    cut c = {dim_equal(from, last) == TRI_YES ? last : dim_min(dim_max(from, dim_const(t, 0)), last), step,
             NULL};
    dim *stop = dim_max(from_end(end, size), dim_const(t, -1));
    c.count = dim_max(dim_ceildiv(dim_sub(c.start, stop), dim_neg(step)), dim_const(t, 0));
    return c;
}

// Any step beyond the size selects one element. The nearest such step is used, to avoid overflow.
static dim *near_step(dim *step, dim *size) {
    int64_t beyond = INT64_C(1) << 44; // more elements than any axis has
    bool known = dim_is_const(step);
    if (known && dim_value(step) < beyond && dim_value(step) > -beyond) return step;
    dim *most = dim_addk(size, 1);
    if (known) return dim_value(step) > 0 ? most : dim_neg(most);
    return dim_max(dim_min(step, most), dim_neg(most));
}

static cut cut_of(dim *size, dim *start, dim *end, dim *step) {
    dims *t = size->table;
    step = near_step(step, size);
    dim *zero = dim_const(t, 0), *one = dim_const(t, 1);
    if (step->min > 0) return cut_forward(size, start, end, step);
    if (step->max < 0) return cut_backward(size, start, end, step);
    cut f = cut_forward(size, start, end, dim_max(step, one));
    cut b = cut_backward(size, start, end, dim_min(step, dim_const(t, -1)));
    dim *back = dim_lt(step, zero);
    return (cut){dim_select(back, b.start, f.start), step, dim_select(back, b.count, f.count)};
}

typedef struct slice_args {
    int count;
    dim *length; // number of listed axes if known only at run time, else NULL
    dim **start, **end, **axes, **step;
} slice_args;

static dim ***list_of(slice_args *s, int i) {
    return i == 1 ? &s->start : i == 2 ? &s->end : i == 3 ? &s->axes : &s->step;
}

// Lists of open length have an element for each axis; the run sets the first ones.
static bool open_arguments(node *n, slice_args *s) {
    if (!infer_has_rank(n, 0)) return false;
    s->count = infer_in(n, 0)->rank;
    for (int i = 1; i < 5; i++) {
        const value *v = node_in(n, i);
        if (!v) continue;
        dim **list = *list_of(s, i) = open_list(n, i, s->count);
        if (!list) return false;
        s->length =
            s->length ? infer_same_dim(n, v->type.dims[0], s->length, "number of axes") : v->type.dims[0];
    }
    return true;
}

static bool slice_arguments(node *n, slice_args *s) {
    dtype elem = infer_in(n, 0)->elem;
    int ends, others, length = infer_common_length(n, 1, 4);
    *s = (slice_args){0};
    if (length < 0 && open_arguments(n, s)) return true;
    *s = (slice_args){0};
    if (!infer_argument(n, 1, length, &s->start, &s->count, elem)) return false;
    if (!infer_argument(n, 2, length, &s->end, &ends, elem)) return false;
    if (ends != s->count) infer_error(n, "there are %d starts and %d ends", s->count, ends);
    for (int i = 3; i < 5; i++) {
        if (!node_in(n, i)) continue;
        if (!infer_argument(n, i, s->count, list_of(s, i), &others, elem)) return false;
        if (others != s->count)
            infer_error(n, "there are %d starts and %d %s", s->count, others, i == 3 ? "axes" : "steps");
    }
    return true;
}

static cuts slice_cuts(const node *n, const slice_args *s) {
    const type *in = infer_in(n, 0);
    dim *zero = infer_k(n, 0), *one = infer_k(n, 1);
    cuts c = {.rank = in->rank, .valid = one};
    if (s->count > in->rank) infer_error(n, "%d starts for an input of rank %d", s->count, in->rank);
    if (s->axes) infer_distinct_axes(n, s->axes, s->count, in->rank);
    for (int i = 0; i < s->count; i++) {
        if (!s->step) continue;
        dim *one_each = s->length ? dim_lt(infer_k(n, i), s->length) : one;
        c.valid = dim_and(c.valid, dim_not(dim_and(one_each, dim_eq(s->step[i], zero))));
    }
    for (int a = 0; a < in->rank; a++) {
        c.at[a] = (cut){zero, one, in->dims[a]};
        for (int i = 0; i < s->count; i++) {
            dim *hit = listed_axis(n, s->axes, s->length, i, a, in->rank);
            if (dim_is(hit, 0)) continue;
            cut asked = cut_of(in->dims[a], s->start[i], s->end[i], s->step ? s->step[i] : one);
            c.at[a].start = dim_select(hit, asked.start, c.at[a].start);
            c.at[a].step = dim_select(hit, asked.step, c.at[a].step);
            c.at[a].count = dim_select(hit, asked.count, c.at[a].count);
        }
    }
    return c;
}

static int64_t slice_position(const void *user, const int64_t *at) {
    const cuts *c = user;
    int64_t in[MAX_RANK];
    for (int a = 0; a < c->rank; a++) {
        if (!dim_is_const(c->at[a].start) || !dim_is_const(c->at[a].step)) return -1;
        in[a] = dim_value(c->at[a].start) + at[a] * dim_value(c->at[a].step);
    }
    return flat_position(in, c->sizes, c->rank);
}

static void slice_infer(node *n) {
    const type *in = infer_in(n, 0);
    slice_args args;
    dim *out[MAX_RANK];
    if (!slice_arguments(n, &args)) return;
    int rank = infer_rank(n, 0);
    cuts c = slice_cuts(n, &args);
    if (dim_is(c.valid, 0)) infer_error(n, "a step is 0");
    for (int a = 0; a < rank; a++) out[a] = c.at[a].count;
    infer_set(n, 0, in->elem, rank, out);
    int64_t count;
    if (infer_static(in, CONTENTS_MAX, c.sizes, &count)) infer_move_contents(n, slice_position, &c);
}

static void slice_places(lowering *l, node *n) {
    slice_args s = {0};
    if (infer_common_length(n, 1, 4) >= 0 || !open_arguments(n, &s)) return;
    for (int i = 1; i < 5; i++)
        for (int j = 0; node_in(n, i) && j < s.count; j++)
            set_open(l, n, i, *list_of(&s, i), j, infer_k(n, j));
    lower_check(l, n, dim_at_most(s.length, infer_k(n, s.count)), "there are more starts than axes");
}

static void slice_lower(lowering *l, node *n) {
    slice_args args;
    slice_places(l, n);
    lower_arguments(l, n);
    if (!slice_arguments(n, &args)) lower_unknown_length(l, n);
    cuts c = slice_cuts(n, &args);
    lower_check(l, n, c.valid, "a step is 0");
    if (args.axes) rows_check_axes(l, n, c.rank, args.axes, args.count);
    if (lower_known_contents(l, n)) return;
    buffer *in = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    for (int a = 0; a < c.rank; a++)
        from[a] = x_add(k, x_dim(k, c.at[a].start), x_mul(k, index[a], x_dim(k, c.at[a].step)));
    stage_write(k, s, out, index, x_read(k, in, from));
}

// Version 1 has starts, ends and axes as attributes.
static void slice_upgrade_10(node *n) {
    upgrade_ints_to_input(n, "starts", 1);
    upgrade_ints_to_input(n, "ends", 2);
    upgrade_ints_to_input(n, "axes", 3);
}

static bool slice_undo_10(node *as) {
    const constant *steps = downgrade_constant(as, 4);
    if (node_in(as, 4) && !steps) return false;
    for (int64_t i = 0; steps && i < steps->count; i++)
        if (constant_int(steps, i) != 1) return false;
    downgrade_set_input(as, 4, NULL);
    return downgrade_input_to_ints(as, 3, "axes") && downgrade_input_to_ints(as, 2, "ends") &&
           downgrade_input_to_ints(as, 1, "starts");
}

OPERATOR(Slice, .upgrades = {{10, slice_upgrade_10, slice_undo_10}}, .infer = slice_infer,
         .lower = slice_lower);

// ---------------------------------------------------------------- Pad
typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode;

static pad_mode pad_mode_of(const node *n) {
    return (pad_mode)node_choice(n, "mode", "constant reflect edge wrap");
}

// The padding before and after each axis; negative amounts crop.
typedef struct padding {
    int rank, count;
    dim *lo[MAX_RANK], *hi[MAX_RANK];
    dim **axes,
        **pads;  // the `count` listed axes, NULL: all; their padding before, then after
    dim *length; // number of listed axes if known only at run time, else NULL
} padding;

// Both lists of open length: an element for each axis of the input; the run sets the first ones.
static bool open_padding(node *n, padding *p) {
    dim **axes = node_in(n, 3) && p->rank >= 0 ? open_list(n, 3, p->rank) : NULL;
    dim **pads = axes ? open_list(n, 1, 2 * p->rank) : NULL;
    if (!pads) return false;
    p->count = p->rank, p->axes = axes, p->pads = pads, p->length = infer_in(n, 3)->dims[0];
    infer_same_dim(n, infer_in(n, 1)->dims[0], dim_mulk(p->length, 2), "number of pads");
    return true;
}

static bool pad_arguments(node *n, padding *p) {
    dtype elem = infer_in(n, 0)->elem;
    int count, given = infer_common_length(n, 1, 1);
    *p = (padding){.rank = infer_in(n, 0)->rank};
    if (given < 0 && infer_common_length(n, 3, 3) < 0 && open_padding(n, p)) return true;
    p->count = p->rank;
    if (node_in(n, 3) && !infer_argument(n, 3, given < 0 ? -1 : given / 2, &p->axes, &p->count, elem))
        return false;
    infer_rank(n, 0);
    if (!infer_argument(n, 1, 2 * p->count, &p->pads, &count, elem)) return false;
    if (count != 2 * p->count)
        infer_error(n, "there are %d pads for %d axes, not %d", count, p->count, 2 * p->count);
    return true;
}

static bool padding_of(node *n, padding *p) {
    dim *zero = infer_k(n, 0);
    if (!pad_arguments(n, p)) return false;
    if (p->axes) infer_distinct_axes(n, p->axes, p->count, p->rank);
    for (int a = 0; a < p->rank; a++) {
        p->lo[a] = p->hi[a] = zero;
        for (int i = 0; i < p->count; i++) {
            dim *hit = listed_axis(n, p->axes, p->length, i, a, p->rank);
            p->lo[a] = dim_select(hit, p->pads[i], p->lo[a]);
            p->hi[a] = dim_select(hit, p->pads[p->count + i], p->hi[a]);
        }
    }
    return true;
}

static void pad_infer(node *n) {
    const type *in = infer_in(n, 0);
    padding p;
    dim *out[MAX_RANK];
    pad_mode_of(n);
    infer_one_element(n, 2, "constant values");
    if (!padding_of(n, &p)) return;
    for (int a = 0; a < p.rank; a++) out[a] = dim_add(in->dims[a], dim_add(p.lo[a], p.hi[a]));
    infer_set(n, 0, in->elem, p.rank, out);
}

// An axis after cropping by negative pads: where the rest starts, its size, and the padding before it.
typedef struct pad_axis {
    dim *start, *size, *before;
    bool outside; // positions outside of the rest may be read
    dim *near;    // whether they are less than its size away
} pad_axis;

static pad_axis pad_axis_of(dim *size, dim *lo, dim *hi) {
    dim *zero = dim_const(size->table, 0);
    pad_axis a = {dim_max(dim_neg(lo), zero), NULL, dim_max(lo, zero),
                  !dim_is(dim_max(lo, zero), 0) || !dim_is(dim_max(hi, zero), 0)};
    a.size = dim_sub(size, dim_add(a.start, dim_max(dim_neg(hi), zero)));
    a.near = dim_lt(dim_max(a.before, hi), a.size);
    return a;
}

static expr *where_near(kernel *k, const pad_axis *a, expr *near, expr *far) {
    return x_select(k, x_bin(k, X_LT, x_i64(k, 0), x_dim(k, a->near)), near, far);
}

// i modulo the size, without a division where i is near.
static expr *wrapped(kernel *k, expr *i, const pad_axis *a) {
    expr *n = x_dim(k, a->size), *before = x_bin(k, X_LT, i, x_i64(k, 0)), *after = x_bin(k, X_LE, n, i);
    expr *near = x_select(k, before, x_add(k, i, n), x_select(k, after, x_sub(k, i, n), i));
    return where_near(k, a, near, x_bin(k, X_MOD, i, n));
}

// The same for the distance from position 0 of what is repeated backwards; a single element has period 0, and remainder 0.
static expr *reflected(kernel *k, expr *i, const pad_axis *a) {
    expr *period = x_dim(k, dim_mulk(dim_addk(a->size, -1), 2));
    expr *near = x_bin(k, X_MAX, i, x_sub(k, x_i64(k, 0), i));
    expr *m = where_near(k, a, near, x_bin(k, X_MOD, i, period));
    return x_bin(k, X_MIN, m, x_sub(k, period, m));
}

// The position in the rest for position i, which may be outside of [0, size).
static expr *pad_position(kernel *k, pad_mode mode, expr *i, const pad_axis *a) {
    expr *last = x_dim(k, dim_addk(a->size, -1));
    switch (mode) {
    case PAD_CONSTANT: return i;
    case PAD_EDGE: return x_bin(k, X_MAX, x_bin(k, X_MIN, i, last), x_i64(k, 0));
    case PAD_WRAP: return wrapped(k, i, a);
    case PAD_REFLECT: return reflected(k, i, a);
    }
    return i;
}

static void pad_places(lowering *l, node *n) {
    padding p;
    if (!pad_arguments(n, &p) || !p.length) return;
    for (int i = 0; i < p.count; i++) {
        set_open(l, n, 3, p.axes, i, infer_k(n, i));
        set_open(l, n, 1, p.pads, i, infer_k(n, i));
        set_open(l, n, 1, p.pads, p.count + i, dim_addk(p.length, i));
    }
    lower_check(l, n, dim_at_most(p.length, infer_k(n, p.rank)), "there are more axes than the input has");
}

static void pad_lower(lowering *l, node *n) {
    const type *t = infer_in(n, 0);
    pad_mode mode = pad_mode_of(n);
    padding p;
    pad_places(l, n);
    lower_arguments(l, n);
    if (!padding_of(n, &p)) lower_unknown_length(l, n);
    if (p.axes) rows_check_axes(l, n, p.rank, p.axes, p.count);
    const type *to = &n->out[0]->type;
    for (int a = 0; a < p.rank; a++) {
        pad_axis x = pad_axis_of(t->dims[a], p.lo[a], p.hi[a]);
        lower_check_size(l, n, x.size, "negative pads remove more elements than the axis has");
        if (mode == PAD_CONSTANT || !x.outside) continue;
        dim *empty = dim_at_most(x.size, infer_k(n, 0)), *none = dim_eq(to->dims[a], infer_k(n, 0));
        lower_check(l, n, dim_or(dim_not(empty), none),
                    "an axis without elements can only be padded with a constant");
    }
    buffer *in = lower_in(l, n, 0), *fill = mode == PAD_CONSTANT ? lower_in(l, n, 2) : NULL,
           *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK], *from[MAX_RANK], *guard = NULL;
    stage *s = pointwise_stage(l, n, out, &k, index);
    for (int a = 0; a < p.rank; a++) {
        pad_axis x = pad_axis_of(t->dims[a], p.lo[a], p.hi[a]);
        expr *i = x_sub(k, index[a], x_dim(k, x.before));
        if (x.outside && mode == PAD_CONSTANT) guard = x_both(k, guard, x_inside(k, i, x.size));
        from[a] = x_add(k, x.outside ? pad_position(k, mode, i, &x) : i, x_dim(k, x.start));
    }
    expr *v =
        guard ? x_read_guarded(k, in, from, guard, fill ? x_read_first(k, fill) : NULL) : x_read(k, in, from);
    stage_write(k, s, out, index, v);
}

// Version 1 calls the pads `paddings`.
static void pad_upgrade_2(node *n) {
    const attr *old = node_attr(n, "paddings");
    if (!old) return;
    attr renamed = *old;
    renamed.name = "pads";
    node_remove_attr(n, "paddings");
    node_set_attr(n, renamed);
}

// Version 2 has pads and value as attributes.
static void pad_upgrade_11(node *n) {
    upgrade_ints_to_input(n, "pads", 1);
    double fill = node_float(n, "value", 0);
    node_remove_attr(n, "value");
    if (fill != 0) upgrade_set_input(n, 2, upgrade_scalar_like(n, fill, n->in[0]));
}

static bool pad_undo_11(node *as) {
    return !node_in(as, 3) && downgrade_input_to_float(as, 2, "value") &&
           downgrade_input_to_ints(as, 1, "pads");
}
static bool pad_undo_19(node *as) { return strcmp(node_string(as, "mode", ""), "wrap") != 0; }

OPERATOR(Pad, .upgrades = {{2, pad_upgrade_2}, {11, pad_upgrade_11, pad_undo_11}, {19, NULL, pad_undo_19}},
         .infer = pad_infer, .lower = pad_lower);
