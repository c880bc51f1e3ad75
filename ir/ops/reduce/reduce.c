// Reductions: Reduce*, ArgMax, ArgMin. One kernel each, with the kept dims as outer axes (two stages for
// ReduceLogSumExp). The axes, and their number, may be known only at run time.
#include "ir/ops/branches.h"
#include "ir/ops/contents.h"
#include "ir/ops/rows.h"
#include "ir/ops/upgrade.h"

// ---------------------------------------------------------------- which axes
// The mask of reduced dims (see rows.h) from the axes input; false if not even the number of axes is known.
static bool reduced_mask(node *n, int rank, dim **mask) {
    int count = 0;
    if (node_in(n, 1) && infer_in(n, 1)->rank > 1)
        infer_error(n, "axes has rank %d, not 1", infer_in(n, 1)->rank);
    dim **axes = node_in(n, 1) ? infer_contents_or_opaque(n, 1, &count) : NULL;
    if (node_in(n, 1) && !axes) return false;
    infer_distinct_axes(n, axes, count, rank);
    if (count) rows_mask_axes(infer_dims(n), rank, axes, count, mask);
    else rows_mask(infer_dims(n), rank, 0, node_int(n, "noop_with_empty_axes", 0) ? 0 : rank, mask);
    return true;
}

// Each dim of the mask is a runtime symbol; lower_open_mask sets them.
static void open_mask(const node *n, int rank, dim **mask) {
    for (int i = 0; i < rank; i++) mask[i] = infer_unknown_dim(n, "reduced", infer_k(n, 1));
}

// The dim at position j of a result without the reduced dims: the kept dim with j kept dims before it.
static dim *kept_dim(const type *x, dim *const *mask, int j) {
    dims *t = mask[0]->table;
    dim *size = dim_const(t, 1);
    for (int i = x->rank - 1; i >= 0; i--) {
        dim *before = dim_const(t, i);
        for (int p = 0; p < i; p++) before = dim_sub(before, mask[p]);
        dim *here = dim_and(dim_not(mask[i]), dim_eq(before, dim_const(t, j)));
        size = dim_select(here, x->dims[i], size);
    }
    return size;
}

// x's dims, with 1 for the reduced ones.
static void reduced_dims(const type *x, dim *const *mask, dim **out) {
    for (int i = 0; i < x->rank; i++) out[i] = dim_select(mask[i], dim_const(mask[i]->table, 1), x->dims[i]);
}

// The sum, product, minimum or maximum of a symbolic value.
typedef dim *contents_combine(dim *a, dim *b);
static void reduce_contents(node *n, contents_combine *combine, int rank, dim *const *mask) {
    int count;
    dim **a = rank <= 1 && combine ? infer_contents(n, 0, &count) : NULL;
    if (!a || (rank && !dim_is_const(mask[0]))) return;
    if (rank == 0 || dim_is(mask[0], 0)) {
        infer_set_contents(n, 0, a, count);
        return;
    }
    if (count == 0) return;
    dim *all = a[0];
    for (int i = 1; i < count; i++) all = combine(all, a[i]);
    infer_set_contents(n, 0, &all, 1);
}

static void infer_reduce(node *n, contents_combine *combine) {
    int rank = infer_rank(n, 0), nout = rank, count = 0;
    const type *x = infer_in(n, 0);
    dim *mask[MAX_RANK], *out[MAX_RANK];
    bool open = !reduced_mask(n, rank, mask), keep = node_int(n, "keepdims", 1);
    int declared = declared_rank(n);
    if (open && !keep && (declared < 0 || declared > rank)) {
        infer_set_unknown(n, 0, x->elem);
        return;
    }
    if (open) open_mask(n, rank, mask);
    if (keep) {
        reduced_dims(x, mask, out);
    } else if (open) {
        nout = declared;
        for (int j = 0; j < nout; j++) out[j] = kept_dim(x, mask, j);
    } else {
        infer_contents(n, 1, &count);
        if (rows_mask_known(rank, mask)) {
            for (int i = 0; i < rank; i++) nout -= dim_is(mask[i], 1);
        } else {
            nout -= count;
        }
        if (nout < 0) infer_error(n, "%d axes for a tensor of rank %d", count, rank);
        for (int j = 0; j < nout; j++) out[j] = kept_dim(x, mask, j);
    }
    infer_set(n, 0, x->elem, nout, out);
    reduce_contents(n, combine, rank, mask);
}

// The kernel of a reduction: rows over input 0, and the position of a row's result.
typedef struct reduction {
    rows rows;
    buffer *x, *out;
    expr *index[MAX_RANK];
} reduction;

// reduced[a] = whether one of the axes is a, or the list is empty and means all axes
static void lower_open_mask(lowering *l, node *n, int rank) {
    buffer *axes = lower_in(l, n, 1);
    dim *extent = infer_k(n, rank);
    buffer *reduced = lower_temp(l, n, "reduced", DT_I64, 1, &extent);
    kernel *k = lower_kernel(l, n, "reduced");
    stage *s = kernel_stage(k);
    expr *a = stage_own_axis(k, s, AXIS_PARALLEL, "a", extent), *zero = x_i64(k, 0), *one = x_i64(k, 1);
    expr *e = stage_own_axis(k, s, AXIS_REDUCE, "e", axes->dims[0]);
    expr *axis = x_checked_index(k, x_read(k, axes, &e), extent, true,
                                 "an axis is out of range for the tensor's rank");
    expr *hits = stage_reduce(k, s, RED_SUM, x_select(k, x_bin(k, X_EQ, axis, a), one, zero));
    expr *none = x_bin(k, X_EQ, x_dim(k, axes->dims[0]), zero);
    expr *all = node_int(n, "noop_with_empty_axes", 0) ? zero : one;
    stage_write(k, s, reduced, &a, x_select(k, none, all, x_bin(k, X_MIN, hits, one)));
    for (int i = 0; i < rank; i++) lower_set_dim(l, n, infer_made_dim(n, i), reduced, i);
}

// The mask at run time. Axes that were found after inference set its symbols, too.
static void lower_mask(lowering *l, node *n, int rank, dim **mask) {
    bool open = !reduced_mask(n, rank, mask);
    if (open) lower_open_mask(l, n, rank);
    for (int i = 0; i < rank && infer_made_dim(n, i); i++) {
        if (open) mask[i] = infer_made_dim(n, i);
        else lower_set_dim(l, n, infer_made_dim(n, i), NULL, 0)->dim = mask[i];
    }
    lower_arguments(l, n);
}

static void lower_check_different(lowering *l, node *n, int rank, dim *const *mask, int count,
                                  const char *message) {
    dim *different = infer_k(n, 0);
    for (int i = 0; i < rank; i++) different = dim_add(different, mask[i]);
    lower_check(l, n, dim_eq(different, infer_k(n, count)), message);
}

static reduction reduction_new(lowering *l, node *n) {
    reduction r = {.x = lower_in(l, n, 0)};
    const type *x = infer_in(n, 0);
    dim *mask[MAX_RANK], *kept[MAX_RANK];
    int count = 0;
    lower_mask(l, n, x->rank, mask);
    dim **axes = node_in(n, 1) ? infer_contents(n, 1, &count) : NULL;
    bool known = rows_mask_known(x->rank, mask), keep = node_int(n, "keepdims", 1);
    if (!known && axes) {
        rows_check_axes(l, n, x->rank, axes, count);
        lower_check_different(l, n, x->rank, mask, count, "an axis is given twice");
    } else if (!known && !keep) {
        lower_check_different(l, n, x->rank, mask, x->rank - n->out[0]->type.rank,
                              "the axes do not leave the declared rank of the output");
    }
    r.out = lower_out(l, n, 0);
    reduced_dims(x, mask, kept);
    if (!known && !keep) r.out = program_view(l->program, r.out, "reduced", x->rank, kept);
    r.rows = rows_new(lower_kernel(l, n, NULL), x->rank, x->dims, mask);
    int rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (keep || !known || dim_is(mask[i], 0)) r.index[rank++] = r.rows.kept[i];
    return r;
}

// ---------------------------------------------------------------- Reduce*
static expr *term_itself(kernel *k, expr *x) {
    (void)k;
    return x;
}
static expr *term_abs(kernel *k, expr *x) { return x_un(k, X_ABS, x); }
static expr *term_square(kernel *k, expr *x) { return x_mul(k, x, x); }

static expr *end_mean(rows *r, expr *sum) { return x_div(r->k, sum, rows_count(r, sum->dtype)); }

// For integers: computed in double and truncated.
static expr *end_sqrt(rows *r, expr *sum) {
    if (dtype_is_float(sum->dtype)) return x_un(r->k, X_SQRT, sum);
    return x_cast(r->k, x_un(r->k, X_SQRT, x_cast(r->k, sum, DT_F64, true)), sum->dtype, true);
}
static expr *end_log(rows *r, expr *sum) { return x_un(r->k, X_LOG, sum); }

typedef struct reducer {
    reduce_op op, bool_op;
    expr *(*term)(kernel *k, expr *x);
    expr *(*end)(rows *r, expr *sum); // NULL: the sum itself
} reducer;

// for kept: sum = neutral; for reduced: sum = op(sum, term(x)); out = end(sum)
static void lower_reduce(lowering *l, node *n, const reducer *how) {
    if (lower_known_contents(l, n)) return;
    reduction r = reduction_new(l, n);
    kernel *k = r.rows.k;
    expr *index[MAX_RANK];
    stage *s = rows_stage(&r.rows, AXIS_REDUCE, index);
    expr *x = x_read(k, r.x, index);
    expr *sum = stage_reduce(k, s, x->dtype == DT_BOOL ? how->bool_op : how->op, how->term(k, x));
    stage_write(k, s, r.out, r.index, how->end ? how->end(&r.rows, sum) : sum);
}

// for kept: m = max x, 0 if infinite; out = log(sum exp(x - m)) + m
static void lower_log_sum_exp(lowering *l, node *n) {
    reduction r = reduction_new(l, n);
    kernel *k = r.rows.k;
    expr *index[MAX_RANK];
    stage *s = rows_stage(&r.rows, AXIS_REDUCE, index);
    expr *max = stage_reduce(k, s, RED_NUMBER_MAX, x_read(k, r.x, index));
    max = x_select(k, x_un(k, X_ISINF, max), x_zero(k, max->dtype), max);
    max = rows_scalar(&r.rows, s, "max", max);
    s = rows_stage(&r.rows, AXIS_REDUCE, index);
    expr *x = x_read(k, r.x, index);
    expr *sum = stage_reduce(k, s, RED_SUM, x_un(k, X_EXP, x_sub(k, x, max)));
    stage_write(k, s, r.out, r.index, x_add(k, x_un(k, X_LOG, sum), max));
}

static void upgrade_axes(node *n) { upgrade_ints_to_input(n, "axes", 1); }

// Without the reduced axes, their number decides the rank of the result.
static bool reduce_canonicalise(node *n) {
    return !node_int(n, "keepdims", 1) && infer_in(n, 0)->rank >= 0 &&
           branch_on_length(n, 1, 0, infer_in(n, 0)->rank);
}

#define REDUCE(op_name, since, op, bool_op, term, end, combine, ...)                                         \
    static void lower_##op_name(lowering *l, node *n) {                                                      \
        lower_reduce(l, n, &(reducer){op, bool_op, term, end});                                              \
    }                                                                                                        \
    static void infer_##op_name(node *n) { infer_reduce(n, combine); }                                       \
    OPERATOR(op_name, .upgrades = {{since, upgrade_axes, undo_axes}, __VA_ARGS__}, .infer = infer_##op_name, \
             .lower = lower_##op_name, .canonicalise = reduce_canonicalise)

REDUCE(ReduceSum, 13, RED_SUM, RED_OR, term_itself, NULL, dim_add, );
REDUCE(ReduceMean, 18, RED_SUM, RED_OR, term_itself, end_mean, NULL, );
REDUCE(ReduceMax, 18, RED_MAX, RED_OR, term_itself, NULL, dim_max, );
REDUCE(ReduceMin, 18, RED_MIN, RED_AND, term_itself, NULL, dim_min, );
REDUCE(ReduceProd, 18, RED_PROD, RED_AND, term_itself, NULL, dim_mul, );
REDUCE(ReduceSumSquare, 18, RED_SUM, RED_OR, term_square, NULL, NULL, );
REDUCE(ReduceL1, 18, RED_SUM, RED_OR, term_abs, NULL, NULL, );
REDUCE(ReduceL2, 18, RED_SUM, RED_OR, term_square, end_sqrt, NULL, );
REDUCE(ReduceLogSum, 18, RED_SUM, RED_OR, term_itself, end_log, NULL,
       {28, upgrade_real_function, undo_nothing});

static void infer_log_sum_exp(node *n) { infer_reduce(n, NULL); }
OPERATOR(ReduceLogSumExp,
         .upgrades = {{18, upgrade_axes, undo_axes}, {28, upgrade_real_function, undo_nothing}},
         .infer = infer_log_sum_exp, .lower = lower_log_sum_exp, .canonicalise = reduce_canonicalise);

// ---------------------------------------------------------------- ArgMax, ArgMin
static void infer_arg(node *n) {
    int rank = infer_rank(n, 0), nout = 0;
    const type *x = infer_in(n, 0);
    int axis = node_axis(n, 0, rank);
    dim *out[MAX_RANK];
    for (int i = 0; i < rank; i++)
        if (i != axis) out[nout++] = x->dims[i];
        else if (node_int(n, "keepdims", 1)) out[nout++] = infer_k(n, 1);
    infer_set(n, 0, DT_I64, nout, out);
}

// for kept: best = none; for i along the axis: best = better of (x, i) and best; out = position of best
static void lower_arg(lowering *l, node *n, bool largest) {
    buffer *x = lower_in(l, n, 0), *out = lower_out(l, n, 0);
    int axis = node_axis(n, 0, x->rank), rank = 0;
    dim *mask[MAX_RANK];
    rows_mask(l->program->dims, x->rank, axis, axis + 1, mask);
    rows r = rows_new(lower_kernel(l, n, NULL), x->rank, x->dims, mask);
    expr *index[MAX_RANK], *at[MAX_RANK];
    stage *s = rows_stage(&r, AXIS_REDUCE, index);
    expr *best = rows_arg(&r, s, x_read(r.k, x, index), index[axis], x->dims[axis], largest,
                          node_int(n, "select_last_index", 0));
    for (int i = 0; i < x->rank; i++)
        if (i != axis || node_int(n, "keepdims", 1)) at[rank++] = r.kept[i];
    stage_write(r.k, s, out, at, best);
}

static void lower_argmax(lowering *l, node *n) { lower_arg(l, n, true); }
static void lower_argmin(lowering *l, node *n) { lower_arg(l, n, false); }
OPERATOR(ArgMax, .infer = infer_arg, .lower = lower_argmax);
OPERATOR(ArgMin, .infer = infer_arg, .lower = lower_argmin);
