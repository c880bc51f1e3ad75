// Operators that return or change shapes: Shape, Size, Reshape, Squeeze, Unsqueeze, Flatten, Expand. Shape arguments known
// only at run time are runtime symbols.
#include "ir/ops/branches.h"
#include "ir/ops/control/control.h"
#include "ir/ops/runtime_args.h"
#include <string.h>

static dim *const *in_dims(const node *n, int i) { return node_in(n, i)->type.dims; }

static void keep_contents(node *n) {
    int count;
    dim **contents = infer_contents(n, 0, &count);
    if (contents) infer_set_contents(n, 0, contents, count);
}

// ---------------------------------------------------------------- Shape, Size
static void shape_infer(node *n) {
    int rank = infer_in(n, 0)->rank;
    if (rank == RANK_UNKNOWN) {
        dim *length = infer_unknown_dim(n, "rank", infer_k(n, MAX_RANK));
        infer_set(n, 0, DT_I64, 1, &length);
        return;
    }
    int64_t from = node_int(n, "start", 0), to = node_int(n, "end", rank);
    from = from < -rank ? 0 : from < 0 ? from + rank : from > rank ? rank : from;
    to = to < -rank ? 0 : to < 0 ? to + rank : to > rank ? rank : to;
    int count = to > from ? (int)(to - from) : 0;
    dim *length = infer_k(n, count);
    infer_set(n, 0, DT_I64, 1, &length);
    infer_set_contents(n, 0, count ? in_dims(n, 0) + from : NULL, count);
}

static void size_infer(node *n) {
    const type *t = infer_in(n, 0);
    infer_set(n, 0, DT_I64, 0, NULL);
    if (t->rank == RANK_UNKNOWN) return;
    dim *count = dim_product(infer_dims(n), t->dims, t->rank);
    infer_set_contents(n, 0, &count, 1);
}

// By the time that a tensor exists its sizes are set, so that runtime symbols can be written, too.
static void lower_shape(lowering *l, node *n) {
    const value *v = node_out(n, 0);
    if (!v || v->constant) return;
    lower_arguments(l, n);
    buffer *out = lower_out(l, n, 0);
    kernel *k = lower_kernel(l, n, NULL);
    stage *s = kernel_stage(k);
    for (int j = 0; j < v->ncontents; j++) {
        expr *index = x_i64(k, j);
        stage_write(k, s, out, &index, x_dim(k, v->contents[j]));
    }
}

OPERATOR(Shape, .infer = shape_infer, .lower = lower_shape);
OPERATOR(Size, .infer = size_infer, .lower = lower_shape);

// ---------------------------------------------------------------- Reshape
typedef struct reshape {
    int rank;
    dim *dims[MAX_RANK];
    dim *valid; // no size below -1, at most one -1
    dim *plain; // no 0 that means the input's size where the size was taken literally
    dim *same;  // the number of elements of the input
} reshape;

// Term t divided by the atoms and the coefficient of d; NULL if d does not divide it.
static dim *divide_term(dims *t, const dim_term *term, int64_t coef, dim *const *by, int nby) {
    if (term->coef % coef) return NULL;
    dim *q = dim_const(t, term->coef / coef);
    int used = 0;
    for (int i = 0; i < term->natoms; i++) {
        if (used < nby && term->atoms[i] == by[used]) used++;
        else q = dim_mul(q, term->atoms[i]);
    }
    return used == nby ? q : NULL;
}

// a / b if b is a single product that divides every term of a for all values of the symbols; else NULL.
static dim *divide_exactly(dim *a, dim *b) {
    if (b->kind == DIM_CONST || (b->kind == DIM_POLY && b->nterms != 1)) return NULL;
    bool poly = b->kind == DIM_POLY;
    int64_t coef = poly ? b->terms[0].coef : 1;
    dim *const *by = poly ? b->terms[0].atoms : &b;
    int nby = poly ? b->terms[0].natoms : 1;
    if (a->kind != DIM_POLY) return a == b ? dim_const(a->table, 1) : NULL;
    dim *q = dim_const(a->table, 0);
    for (int i = 0; i < a->nterms; i++) {
        dim *one = divide_term(a->table, &a->terms[i], coef, by, nby);
        if (!one) return NULL;
        q = dim_add(q, one);
    }
    return q;
}

// a / b where b divides a, or is 0 and the quotient is irrelevant.
static dim *quotient(dim *a, dim *b) {
    dim *exact = divide_exactly(a, b), *zero = dim_const(b->table, 0);
    if (exact) return exact;
    if (b->min > 0 || b->max < 0) return dim_floordiv(a, b);
    return dim_floordiv(a, dim_select(dim_eq(b, zero), dim_const(b->table, 1), b));
}

// Whether size s is 0 only if the input's size is 0 as well, so that copying the latter makes no difference.
static bool copies_itself(dim *s, dim *in) {
    if (s->min > 0 || s == in || dim_is(in, 0) || divide_exactly(in, s)) return true;
    dim *factor = divide_exactly(s, in);
    return factor && dim_is_const(factor);
}

// Whether v is only an output of the model, so that no shape is computed from it.
static bool only_leaves(const value *v) {
    for (int i = 0; v && i < v->uses.n; i++)
        if (v->uses.at[i].node || v->uses.at[i].graph->outer) return false;
    return v != NULL;
}

// Whether element s of the shape at position j is a 0 that copies the input's size. The size of another
// tensor may be 0, too. For an output of the model the standard's rule applies; otherwise, where the select
// would hide that later sizes are equal, *plain becomes the condition that no size is copied.
static dim *copies(const node *n, const type *in, dim *s, int j, dim **plain) {
    dim *zero = infer_k(n, 0), *empty = dim_eq(s, zero);
    if (node_int(n, "allowzero", 0)) return zero;
    if (j >= in->rank) {
        if (dim_is(s, 0))
            infer_error(n, "the new shape has 0 at position %d, but the input has rank %d", j, in->rank);
        *plain = dim_and(*plain, dim_not(empty));
        return zero;
    }
    if (s->min < 0 || dim_is(s, 0)) return empty;
    if (copies_itself(s, in->dims[j])) return zero;
    if (only_leaves(node_out(n, 0))) return empty;
    *plain = dim_and(*plain, dim_or(dim_not(empty), dim_eq(in->dims[j], zero)));
    return zero;
}

// The size of the -1: the elements of the input divided by the known sizes. Equal sizes cancel, so that the
// result is right even if they are 0.
static dim *missing_size(const type *in, dim *const *shape, dim *const *copied, dim *const *missing,
                         int rank) {
    dims *t = shape[0]->table;
    dim *left[MAX_RANK], *one = dim_const(t, 1), *have = one;
    int nleft = in->rank;
    for (int j = 0; j < nleft; j++)
        left[j] = j < rank ? dim_select(copied[j], one, in->dims[j]) : in->dims[j];
    for (int j = 0; j < rank; j++) {
        dim *size = dim_select(dim_or(missing[j], copied[j]), one, shape[j]);
        int same = 0;
        while (same < nleft && left[same] != size) same++;
        if (same < nleft) left[same] = left[--nleft];
        else have = dim_mul(have, size);
    }
    return quotient(dim_product(t, left, nleft), have);
}

#define WRONG_SHAPE "the new shape has a size below -1, more than one -1, or with allowzero -1 and 0"
static reshape reshape_of(const node *n, dim *const *shape, int rank) {
    const type *in = infer_in(n, 0);
    reshape r = {.rank = rank, .valid = infer_k(n, 1), .plain = infer_k(n, 1)};
    dim *missing[MAX_RANK], *copied[MAX_RANK], *nmissing = infer_k(n, 0), *minus1 = infer_k(n, -1);
    dim *empty = infer_k(n, 0); // with allowzero: any size in the place of -1 would do
    for (int j = 0; j < rank; j++) {
        missing[j] = dim_eq(shape[j], minus1);
        copied[j] = copies(n, in, shape[j], j, &r.plain);
        nmissing = dim_add(nmissing, missing[j]);
        if (node_int(n, "allowzero", 0)) empty = dim_or(empty, dim_eq(shape[j], infer_k(n, 0)));
        r.valid = dim_and(r.valid, dim_at_most(minus1, shape[j]));
        r.dims[j] = j < in->rank ? dim_select(copied[j], in->dims[j], shape[j]) : shape[j];
    }
    r.valid = dim_and(r.valid, dim_at_most(nmissing, dim_select(empty, infer_k(n, 0), infer_k(n, 1))));
    if (!dim_is(nmissing, 0)) {
        dim *size = missing_size(in, shape, copied, missing, rank);
        for (int j = 0; j < rank; j++) r.dims[j] = dim_select(missing[j], size, r.dims[j]);
    }
    dims *t = infer_dims(n);
    r.same = dim_eq(dim_product(t, in->dims, in->rank), dim_product(t, r.dims, rank));
    return r;
}

static void reshape_infer(node *n) {
    const type *in = infer_in(n, 0);
    dim **shape;
    int rank;
    if (!infer_argument(n, 1, -1, &shape, &rank, in->elem)) return;
    infer_rank(n, 0);
    if (rank > MAX_RANK)
        infer_error(n, "the new shape has %d dims; at most %d are supported", rank, MAX_RANK);
    reshape r = reshape_of(n, shape, rank);
    if (dim_is(r.valid, 0)) infer_error(n, WRONG_SHAPE);
    if (dim_is(r.same, 0)) {
        arena *a = infer_arena(n);
        type to = type_tensor(a, in->elem, rank, r.dims);
        infer_error(n, "cannot reshape %s to %s: the numbers of elements differ", type_text(a, in),
                    type_text(a, &to));
    }
    infer_set(n, 0, in->elem, rank, r.dims);
    keep_contents(n);
}

static void reshape_lower(lowering *l, node *n) {
    int rank;
    dim **shape = lower_argument(l, n, 1, n->out[0]->type.rank, &rank);
    lower_arguments(l, n);
    reshape r = reshape_of(n, shape, rank);
    lower_check(l, n, r.valid, WRONG_SHAPE);
    lower_check(l, n, r.plain,
                "a size in the new shape is 0, which stands for the input's size at that axis");
    lower_check(l, n, r.same,
                node_string(n, RESHAPE_WRONG_COUNT,
                            "the new shape and the input have different numbers of elements"));
    lower_sizes(l, n, r.dims);
    lower_view(l, n, 0, 0);
}

// Version 1 has the shape as an attribute.
static void reshape_upgrade_5(node *n) {
    upgrade_ints_to_input(n, "shape", 1);
    upgrade_drop_consumed_inputs(n);
}

// Before version 14, a size of 0 copies the size of the input.
static bool reshape_undo_14(node *as) {
    const value *shape = node_in(as, 1);
    const constant *c = downgrade_constant(as, 1);
    bool zero = node_int(as, "allowzero", 0) != 0;
    for (int64_t i = 0; zero && c && i < c->count; i++)
        if (!constant_int(c, i)) return false;
    for (int i = 0; zero && !c && shape->contents && i < shape->ncontents; i++)
        if (shape->contents[i]->min <= 0 && shape->contents[i]->max >= 0) return false;
    if (zero && !c && !shape->contents) return false;
    node_remove_attr(as, "allowzero");
    return true;
}

static bool reshape_canonicalise(node *n) { return branch_on_length(n, 1, 0, BRANCHES_MOST); }

OPERATOR(Reshape, .upgrades = {{5, reshape_upgrade_5}, {14, NULL, reshape_undo_14}}, .infer = reshape_infer,
         .lower = reshape_lower, .is_view = true, .canonicalise = reshape_canonicalise);

// ---------------------------------------------------------------- Flatten
static void flatten_infer(node *n) {
    const type *in = infer_in(n, 0);
    int rank = infer_rank(n, 0);
    int64_t axis = node_int(n, "axis", 1);
    int split = axis == rank ? rank : infer_axis(n, axis, rank);
    dim *d[2] = {dim_product(infer_dims(n), in->dims, split),
                 dim_product(infer_dims(n), in->dims + split, rank - split)};
    infer_set(n, 0, in->elem, 2, d);
    keep_contents(n);
}

OPERATOR(Flatten, .infer = flatten_infer, .is_view = true);

// ---------------------------------------------------------------- Squeeze, Unsqueeze
static void axes_upgrade_13(node *n) { upgrade_ints_to_input(n, "axes", 1); }
static bool axes_undo_13(node *as) { return downgrade_input_to_ints(as, 1, "axes"); }

// For each of `rank` axes a dim that is 1 if it is among `axes`, given in [-rank, rank). Constant axes that
// are out of range or repeated are errors.
static void axis_set(const node *n, dim *const *axes, int count, int rank, dim **in_set) {
    for (int a = 0; a < rank; a++) in_set[a] = infer_k(n, 0);
    for (int i = 0; i < count; i++) {
        if (dim_is_const(axes[i])) {
            int a = infer_axis(n, dim_value(axes[i]), rank);
            if (dim_is(in_set[a], 1)) infer_error(n, "axis %d is given twice", a);
            in_set[a] = infer_k(n, 1);
            continue;
        }
        for (int a = 0; a < rank; a++) {
            in_set[a] = dim_or(in_set[a], dim_is_axis(axes[i], a, rank));
        }
    }
}

// The number of axes in the set: all of them if they are in range and distinct.
static dim *count_set(const node *n, dim *const *in_set, int rank) {
    dim *count = infer_k(n, 0);
    for (int a = 0; a < rank; a++) count = dim_add(count, in_set[a]);
    return count;
}

// The axes that Squeeze drops: those given, else all of size 1. A size that may be 1, and that
// squeeze_canonicalise did not handle, is assumed to differ from 1.
static int squeezed_axes(const node *n, dim *const *axes, int count, dim **in_set) {
    const type *in = infer_in(n, 0);
    if (axes) {
        axis_set(n, axes, count, in->rank, in_set);
        return count;
    }
    int dropped = 0;
    for (int a = 0; a < in->rank; a++) {
        bool drop = dim_equal(in->dims[a], infer_k(n, 1)) == TRI_YES;
        in_set[a] = infer_k(n, drop);
        dropped += drop;
    }
    return dropped;
}

// out[j] = the j-th dim outside the set; a select if the set is known only at run time.
static void remaining_dims(const node *n, dim *const *in_set, int rank, dim **out, int out_rank) {
    const type *in = infer_in(n, 0);
    for (int j = 0; j < out_rank; j++) {
        dim *before = infer_k(n, 0), *size = infer_k(n, 1);
        for (int a = 0; a < rank; a++) {
            dim *here = dim_and(dim_not(in_set[a]), dim_eq(before, infer_k(n, j)));
            size = dim_select(here, in->dims[a], size);
            before = dim_add(before, dim_not(in_set[a]));
        }
        out[j] = size;
    }
}

// Sizes that depend on the place of run-time axes are selects of selects. The larger ones become runtime symbols,
// which lower_sizes sets, so that what is computed from several of them stays small.
static void name_large_sizes(const node *n, dim **sizes, int rank) {
    enum { PARTS_MOST = 32 };
    for (int j = 0; j < rank; j++) {
        dim *own = infer_unknown_dim(n, "size", sizes[j]);
        if (dim_parts_count(sizes[j]) <= PARTS_MOST) continue;
        own->most = sizes[j];
        sizes[j] = own;
    }
}

static void squeeze_infer(node *n) {
    const type *in = infer_in(n, 0);
    dim **axes = NULL, *in_set[MAX_RANK], *out[MAX_RANK];
    int count = 0;
    if (node_in(n, 1) && !infer_argument(n, 1, -1, &axes, &count, in->elem)) return;
    int rank = infer_rank(n, 0), dropped = squeezed_axes(n, axes, count, in_set);
    if (dropped > rank) infer_error(n, "%d axes for an input of rank %d", dropped, rank);
    for (int a = 0; a < rank; a++)
        if (dim_is(in_set[a], 1) && dim_equal(in->dims[a], infer_k(n, 1)) == TRI_NO)
            infer_error(n, "axis %d has size %s, not 1", a, dim_text(infer_arena(n), in->dims[a]));
    remaining_dims(n, in_set, rank, out, rank - dropped);
    name_large_sizes(n, out, rank - dropped);
    infer_set(n, 0, in->elem, rank - dropped, out);
    keep_contents(n);
}

// Squeeze without axes: whether a size is 1 decides the rank of the result. Sizes that the run decides become
// branches (ir/ops/control/control.c carries the ranks on), one axis at a time:
//
//   y = If(x.shape[a] == 1) {squeeze(squeeze(x, [a]))} else {squeeze(x), with axes 0..a settled}
//
// That is a branch for each set of axes. Where there are too many, the axes become an input, whose length decides
// the rank: a branch for each number of axes.
//
//   y = Squeeze(x, NonZero(x.shape == 1))
static const char settled_axes[] = "settled_axes"; // how many leading axes are dropped only if known to be 1
enum { UNCERTAIN_MOST = 3 };

static int uncertain_axes(const node *n, int *first) {
    const type *in = infer_in(n, 0);
    int count = 0;
    for (int a = (int)node_int(n, settled_axes, 0); a < in->rank; a++) {
        if (dim_equal(in->dims[a], infer_k(n, 1)) != TRI_UNKNOWN) continue;
        if (!count++) *first = a;
    }
    return count;
}

static value *is_one(node *n, value *size) {
    return insert_before(n, "Equal", 2, (value *[]){size, value_int64(n->graph, 1)}, NULL);
}

static void squeeze_by_axes(node *n) {
    value *shape = insert_before(n, "Shape", 1, n->in, NULL), *ones = is_one(n, shape);
    value *axes = insert_before(n, "NonZero", 1, &ones, NULL);
    axes = insert_before(n, "Reshape", 2, (value *[]){axes, value_int64s(n->graph, NULL, (int64_t[]){-1}, 1)},
                         NULL);
    value *v = insert_before(n, n->op->name, 2, (value *[]){n->in[0], axes}, NULL);
    replace_output(n, 0, v);
    node_delete(n);
}

static void squeeze_branch(node *branches, const node *n, const char *name, int axis) {
    graph *outer = n->graph, *g = graph_new(outer->module, outer, name);
    value *x = n->in[0];
    bool drop = strcmp(name, "then_branch") == 0;
    if (drop) {
        value *in[] = {x, value_int64s(g, NULL, (int64_t[]){axis}, 1)};
        x = node_output(node_new(g, NULL, n->op, n->loc, 2, in), 0, NULL);
    }
    node *rest = node_new(g, NULL, n->op, n->loc, 1, &x);
    node_set_attr(rest, (attr){.name = settled_axes, .kind = ATTR_INT, .i = axis + !drop});
    graph_add_output(g, node_output(rest, 0, NULL));
    node_set_attr(branches, (attr){.name = name, .kind = ATTR_GRAPH, .graph = g});
}

static bool squeeze_canonicalise(node *n) {
    if (node_in(n, 1)) return infer_in(n, 0)->rank >= 0 && branch_on_length(n, 1, 0, infer_in(n, 0)->rank);
    int axis = 0, count = infer_in(n, 0)->rank < 0 ? 0 : uncertain_axes(n, &axis);
    if (!count) return false;
    if (count > UNCERTAIN_MOST) {
        squeeze_by_axes(n);
        return true;
    }
    value *shape = insert_before(n, "Shape", 1, n->in, NULL);
    value *drops =
        is_one(n, insert_before(n, "Gather", 2, (value *[]){shape, value_int64(n->graph, axis)}, NULL));
    node *branches;
    value *v = insert_before(n, "If", 1, &drops, &branches);
    squeeze_branch(branches, n, "then_branch", axis);
    squeeze_branch(branches, n, "else_branch", axis);
    node_set_attr(branches, (attr){.name = SQUEEZES_AXES, .kind = ATTR_INT, .i = 1});
    replace_output(n, 0, v);
    node_delete(n);
    return true;
}

static void squeeze_lower(lowering *l, node *n) {
    const type *in = infer_in(n, 0);
    dim **axes = NULL, *in_set[MAX_RANK], *out[MAX_RANK], *one = infer_k(n, 1);
    int count = 0;
    int rank = n->out[0]->type.rank;
    if (node_in(n, 1)) axes = lower_argument(l, n, 1, rank < 0 ? -1 : in->rank - rank, &count);
    lower_arguments(l, n);
    int dropped = squeezed_axes(n, axes, count, in_set);
    lower_check(l, n, dim_eq(count_set(n, in_set, in->rank), infer_k(n, dropped)),
                "the axes are not distinct axes of the input");
    for (int a = 0; a < in->rank; a++) {
        dim *is_one = dim_eq(in->dims[a], one);
        if (axes)
            lower_check(l, n, dim_or(dim_not(in_set[a]), is_one),
                        "an axis to squeeze has a size other than 1");
        else if (!dim_is(in_set[a], 1))
            lower_check(
                l, n, dim_not(is_one),
                in->dims[a]->kind == DIM_SYMBOL
                    ? arena_printf(infer_arena(n),
                                   "%s is 1, which changes the rank (compile with --dim %s=1)",
                                   in->dims[a]->name, in->dims[a]->name)
                    : "a size that was unknown at compile time is 1 at run time, which changes the rank "
                      "(--dim or --shape binds it)");
    }
    remaining_dims(n, in_set, in->rank, out, in->rank - dropped);
    lower_sizes(l, n, out);
    lower_view(l, n, 0, 0);
}

static void unsqueezed_dims(const node *n, dim *const *in_set, int rank, dim **out) {
    const type *in = infer_in(n, 0);
    for (int j = 0; j < rank; j++) {
        dim *place = infer_k(n, j), *size = infer_k(n, 1);
        for (int a = 0; a < j; a++) place = dim_sub(place, in_set[a]);
        for (int a = 0; a < in->rank; a++) size = dim_select(dim_eq(place, infer_k(n, a)), in->dims[a], size);
        out[j] = dim_select(in_set[j], infer_k(n, 1), size);
    }
}

static void unsqueeze_infer(node *n) {
    const type *in = infer_in(n, 0);
    dim **axes, *in_set[MAX_RANK], *out[MAX_RANK];
    int count;
    if (!infer_argument(n, 1, -1, &axes, &count, in->elem)) return;
    int rank = infer_supported_rank(n, infer_rank(n, 0) + count);
    axis_set(n, axes, count, rank, in_set);
    unsqueezed_dims(n, in_set, rank, out);
    name_large_sizes(n, out, rank);
    infer_set(n, 0, in->elem, rank, out);
    keep_contents(n);
}

static void unsqueeze_lower(lowering *l, node *n) {
    dim *in_set[MAX_RANK], *out[MAX_RANK];
    int count, rank = n->out[0]->type.rank;
    dim **axes = lower_argument(l, n, 1, rank - infer_in(n, 0)->rank, &count);
    lower_arguments(l, n);
    axis_set(n, axes, count, rank, in_set);
    lower_check(l, n, dim_eq(count_set(n, in_set, rank), infer_k(n, count)),
                "the axes are not distinct axes of the output");
    unsqueezed_dims(n, in_set, rank, out);
    lower_sizes(l, n, out);
    lower_view(l, n, 0, 0);
}

OPERATOR(Squeeze, .upgrades = {{13, axes_upgrade_13, axes_undo_13}}, .canonicalise = squeeze_canonicalise,
         .infer = squeeze_infer, .lower = squeeze_lower, .is_view = true);
static bool unsqueeze_canonicalise(node *n) {
    return infer_in(n, 0)->rank >= 0 && branch_on_length(n, 1, 0, BRANCHES_MOST - infer_in(n, 0)->rank);
}

OPERATOR(Unsqueeze, .upgrades = {{13, axes_upgrade_13, axes_undo_13}}, .infer = unsqueeze_infer,
         .lower = unsqueeze_lower, .is_view = true, .canonicalise = unsqueeze_canonicalise);

// ---------------------------------------------------------------- Expand
// Right-aligned broadcast of the input's size a with the requested size b; *fits: whether they are
// compatible.
static dim *expand_dim(const node *n, dim *a, dim *b, dim **fits) {
    dim *one = infer_k(n, 1), *a_one = dim_eq(a, one);
    *fits = dim_or(dim_or(a_one, dim_eq(b, one)), dim_eq(a, b));
    return dim_select(a_one, b, a);
}

static int expand_dims(const node *n, dim *const *shape, int count, dim **out, dim **fits) {
    const type *in = infer_in(n, 0);
    int rank = infer_supported_rank(n, in->rank > count ? in->rank : count);
    *fits = infer_k(n, 1);
    for (int j = 0; j < rank; j++) {
        int a = j - (rank - in->rank), b = j - (rank - count);
        dim *one_fits = infer_k(n, 1);
        out[j] = a < 0 ? shape[b] : b < 0 ? in->dims[a] : expand_dim(n, in->dims[a], shape[b], &one_fits);
        *fits = dim_and(*fits, one_fits);
    }
    return rank;
}

typedef struct expand_source {
    int rank, in_rank;
    int64_t in[MAX_RANK];
} expand_source;
static int64_t expand_position(const void *user, const int64_t *at) {
    const expand_source *s = user;
    int64_t p = 0;
    for (int a = 0; a < s->in_rank; a++)
        p = p * s->in[a] + (s->in[a] == 1 ? 0 : at[s->rank - s->in_rank + a]);
    return p;
}

static void expand_infer(node *n) {
    const type *in = infer_in(n, 0);
    dim **shape, *out[MAX_RANK], *fits;
    int count;
    if (!infer_argument(n, 1, -1, &shape, &count, in->elem)) return;
    infer_rank(n, 0);
    int rank = expand_dims(n, shape, count, out, &fits);
    if (dim_is(fits, 0)) {
        arena *a = infer_arena(n);
        type asked = type_tensor(a, in->elem, count, shape);
        infer_error(n, "cannot expand %s to %s", type_text(a, in), type_text(a, &asked));
    }
    infer_set(n, 0, in->elem, rank, out);
    expand_source s = {rank, in->rank, {0}};
    int64_t elements;
    if (infer_static(in, CONTENTS_MAX, s.in, &elements)) infer_move_contents(n, expand_position, &s);
}

static void expand_lower(lowering *l, node *n) {
    dim **shape, *dims[MAX_RANK], *fits;
    int count;
    int out_rank = n->out[0]->type.rank; // the length of the shape if the input's rank is smaller
    shape = lower_argument(l, n, 1, infer_in(n, 0)->rank < out_rank ? out_rank : -1, &count);
    lower_arguments(l, n);
    int rank = expand_dims(n, shape, count, dims, &fits);
    for (int j = 0; j < rank; j++) lower_check_size(l, n, dims[j], "the new shape has a negative size");
    lower_check(l, n, fits, "the input cannot be expanded to the new shape");
    lower_sizes(l, n, dims);
    if (lower_known_contents(l, n)) return;
    buffer *in = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    kernel *k;
    expr *index[MAX_RANK];
    stage *s = pointwise_stage(l, n, out, &k, index);
    stage_write(k, s, out, index, read_broadcast(k, in, index, rank));
}

// A shape of open length, where the result is declared with the input's rank: ones in front fill it up to that rank.
static bool complete_shape(node *n) {
    value *list = n->in[1];
    int count, rank = infer_in(n, 0)->rank;
    if (list->type.rank != 1 || dim_is_const(list->type.dims[0]) || infer_contents(n, 1, &count) ||
        declared_rank(n) != rank)
        return false;
    value *missing = NODE(n, "Sub", insert_ints(n, (int64_t[]){rank}, 1), NODE(n, "Shape", list));
    node_set_in(n, 1, with_int(NODE(n, "Concat", insert_ones(n, missing, DT_I64), list), "axis", 0));
    return true;
}

static bool expand_canonicalise(node *n) {
    return infer_in(n, 0)->rank >= 0 && (branch_on_length(n, 1, 0, BRANCHES_MOST) || complete_shape(n));
}

OPERATOR(Expand, .infer = expand_infer, .lower = expand_lower, .canonicalise = expand_canonicalise);
