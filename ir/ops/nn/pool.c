// MaxPool, AveragePool, LpPool and their Global forms: reductions over windows of the spatial axes.
//
//   for n, c, o...:  out[n, c, o...] = reduce over k... of x[n, c, o*stride - pad + k*dilation ...]
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/rows.h"
#include <math.h>
#include <string.h>

// ---- Windows of pools

static window pool_window(const node *n, int rank, dim *const *dims) {
    int count, spatial = rank - 2;
    const int64_t *shape = node_ints(n, "kernel_shape", &count);
    if (!shape || count != spatial)
        infer_error(n, "attribute kernel_shape has %d values for %d spatial axes", count, spatial);
    dim *kernel[MAX_RANK];
    for (int i = 0; i < count; i++) {
        if (shape[i] < 1)
            infer_error(n, "attribute kernel_shape holds %lld; it must be positive", (long long)shape[i]);
        kernel[i] = infer_k(n, shape[i]);
    }
    return window_of(n, spatial, dims + 2, kernel, true);
}

static int pool_rank(const node *n) {
    int rank = infer_rank(n, 0);
    if (rank < 3)
        infer_error(n, "the input has rank %d; it must have a batch, a channel and spatial axes", rank);
    return rank;
}

static int pool_dims(const node *n, dim **dims) {
    int rank = pool_rank(n);
    const type *x = infer_in(n, 0);
    window w = pool_window(n, rank, x->dims);
    dims[0] = x->dims[0], dims[1] = x->dims[1];
    memcpy(dims + 2, w.out, (size_t)w.n * sizeof *dims);
    return rank;
}

static void pool_infer(node *n) {
    dim *dims[MAX_RANK];
    int rank = pool_dims(n, dims);
    infer_set(n, 0, infer_in(n, 0)->elem, rank, dims);
}

typedef struct pool {
    kernel *k;
    stage *s;
    buffer *x, *out;
    window w;
    expr *index[MAX_RANK], *at[MAX_RANK], *guard; // output index; input index and its guard
} pool;

static pool pool_begin(lowering *l, const node *n, buffer *out) {
    pool p = {.x = lower_in(l, n, 0), .out = out};
    p.w = pool_window(n, p.x->rank, p.x->dims);
    window_check(l, n, &p.w);
    p.k = lower_kernel(l, n, NULL);
    p.s = kernel_stage(p.k);
    axes_over(p.k, p.s, out, p.index);
    expr *tap[MAX_RANK];
    window_taps(p.k, p.s, &p.w, tap);
    p.at[0] = p.index[0], p.at[1] = p.index[1];
    p.guard = window_index(p.k, &p.w, p.index + 2, tap, p.at + 2);
    return p;
}

// ---- MaxPool

static void max_pool_infer(node *n) {
    dim *dims[MAX_RANK];
    node_flag(n, "storage_order", 0);
    int rank = pool_dims(n, dims);
    infer_set(n, 0, infer_in(n, 0)->elem, rank, dims);
    infer_set(n, 1, DT_I64, rank, dims);
}

// Row-major position of the input element within its channel.
static expr *spatial_position(pool *p) {
    expr *flat = x_i64(p->k, 0);
    for (int i = 0; i < p->w.n; i++)
        flat = x_add(p->k, x_mul(p->k, flat, x_dim(p->k, p->w.in[i])), p->at[i + 2]);
    return flat;
}

// The same position in column-major order, with the first spatial axis innermost.
static expr *column_major(pool *p, expr *flat) {
    kernel *k = p->k;
    expr *coordinate[MAX_RANK], *out = x_i64(k, 0);
    for (int i = p->w.n - 1; i >= 0; i--) {
        coordinate[i] = x_bin(k, X_MOD, flat, x_dim(k, p->w.in[i]));
        flat = x_bin(k, X_FLOORDIV, flat, x_dim(k, p->w.in[i]));
    }
    for (int i = p->w.n - 1; i >= 0; i--) out = x_add(k, x_mul(k, out, x_dim(k, p->w.in[i])), coordinate[i]);
    return out;
}

// State (value, position), with position -1 before the first element; the first of equal elements wins, or of NaNs.
static void max_pool_indices(pool *p, buffer *indices, bool by_columns) {
    kernel *k = p->k;
    dtype t = dtype_compute(p->x->dtype);
    expr *lowest = reduce_neutral(k, RED_MAX, t), *none = x_i64(k, -1), *zero = x_i64(k, 0);
    expr *best = stage_state(k, p->s, t, lowest), *place = stage_state(k, p->s, DT_I64, none);
    expr *v = x_read_guarded(k, p->x, p->at, p->guard, lowest), *flat = spatial_position(p);
    expr *first = x_lt(k, place, zero);
    expr *wins = x_bin(k, X_OR, first, rows_before(k, v, flat, best, place, true, false));
    if (p->guard) wins = x_and(k, p->guard, wins);
    expr *other = x_other(k, 0, t), *there = x_other(k, 1, DT_I64);
    expr *takes = x_bin(k, X_OR, first, rows_before(k, other, there, best, place, true, false));
    takes = x_and(k, x_bin(k, X_LE, zero, there), takes);
    stage_step(p->s, 0, x_select(k, wins, v, best), x_select(k, takes, other, best));
    stage_step(p->s, 1, x_select(k, wins, flat, place), x_select(k, takes, there, place));
    if (p->out) stage_write(k, p->s, p->out, p->index, best);
    expr *channel = x_add(k, x_mul(k, p->index[0], x_dim(k, p->x->dims[1])), p->index[1]);
    dim *space = dim_product(p->x->dims[0]->table, p->w.in, p->w.n);
    expr *within = by_columns ? column_major(p, place) : place;
    stage_write(k, p->s, indices, p->index, x_add(k, x_mul(k, channel, x_dim(k, space)), within));
}

static void max_pool_lower(lowering *l, node *n) {
    buffer *out = lower_out(l, n, 0), *indices = lower_out(l, n, 1);
    pool p = pool_begin(l, n, out ? out : indices);
    p.out = out;
    if (indices) {
        max_pool_indices(&p, indices, node_int(n, "storage_order", 0) != 0);
        return;
    }
    expr *lowest = reduce_neutral(p.k, RED_MAX, dtype_compute(p.x->dtype));
    expr *v = x_read_guarded(p.k, p.x, p.at, p.guard, lowest);
    stage_write(p.k, p.s, out, p.index, stage_reduce(p.k, p.s, RED_MAX, v));
}

OPERATOR(MaxPool, .infer = max_pool_infer, .lower = max_pool_lower);

// ---- AveragePool

// The number of window positions on axis i in [0, end), with position 0 at `start`.
static expr *positions_before(pool *p, int i, expr *start, expr *end) {
    kernel *k = p->k;
    int64_t d = p->w.dilation[i];
    expr *zero = x_i64(k, 0), *size = x_dim(k, p->w.kernel[i]), *room = x_sub(k, end, start);
    expr *to = x_bin(k, X_FLOORDIV, x_add(k, room, x_i64(k, d - 1)), x_i64(k, d));
    return x_bin(k, X_MAX, x_bin(k, X_MIN, to, size), zero);
}

// The divisor's factor of axis i: positions inside the input, or inside the padded input.
static expr *axis_count(pool *p, int i, bool with_padding) {
    kernel *k = p->k;
    const window *w = &p->w;
    dim *zero = dim_const(w->lo[i]->table, 0);
    bool no_padding = dim_less_equal(w->lo[i], zero) == TRI_YES && dim_less_equal(w->hi[i], zero) == TRI_YES;
    if (w->fits && (with_padding || no_padding)) return x_dim(k, w->kernel[i]);
    expr *start = x_mul(k, p->index[i + 2], x_i64(k, w->stride[i]));
    if (with_padding)
        return positions_before(p, i, start, x_dim(k, dim_add(w->in[i], dim_add(w->lo[i], w->hi[i]))));
    start = x_sub(k, start, x_dim(k, w->lo[i]));
    expr *inside = positions_before(p, i, start, x_dim(k, w->in[i]));
    if (dim_less_equal(w->lo[i], zero) == TRI_YES) return inside;
    return x_sub(k, inside, positions_before(p, i, start, x_i64(k, 0)));
}

static void average_pool_lower(lowering *l, node *n) {
    pool p = pool_begin(l, n, lower_out(l, n, 0));
    bool with_padding = node_int(n, "count_include_pad", 0) != 0;
    expr *count = x_i64(p.k, 1);
    for (int i = 0; i < p.w.n; i++) count = x_mul(p.k, count, axis_count(&p, i, with_padding));
    expr *sum = stage_reduce(p.k, p.s, RED_SUM, x_read_guarded(p.k, p.x, p.at, p.guard, NULL));
    stage_write(p.k, p.s, p.out, p.index, x_div(p.k, sum, x_cast(p.k, count, sum->dtype, false)));
}

OPERATOR(AveragePool, .infer = pool_infer, .lower = average_pool_lower);

// ---- LpPool: (sum of |x|^p)^(1/p), padding counting as 0

// Before version 2 p was a float. Whole numbers become ints, others stay floats; the formula is the same.
static void lp_upgrade_2(node *n) {
    const attr *p = node_attr(n, "p");
    if (p && p->kind == ATTR_FLOAT && p->f == rintf(p->f))
        node_set_attr(n, (attr){.name = "p", .kind = ATTR_INT, .i = (int64_t)p->f});
}

static double lp_of(const node *n) {
    const attr *p = node_attr(n, "p");
    double v = p && p->kind == ATTR_FLOAT ? (double)p->f : (double)node_int(n, "p", 2);
    if (!(v > 0)) infer_error(n, "attribute p is %g; it must be positive", v);
    return v;
}

static expr *lp_norm(kernel *k, stage *s, expr *v, double p) {
    dtype t = v->dtype;
    if (p == 2) return x_un(k, X_SQRT, stage_reduce(k, s, RED_SUM, x_mul(k, v, v)));
    v = x_un(k, X_ABS, v);
    if (p == 1) return stage_reduce(k, s, RED_SUM, v);
    expr *sum = stage_reduce(k, s, RED_SUM, x_power(k, v, p));
    return x_bin(k, X_POW, sum, x_float(k, t, 1 / p));
}

static void lp_pool_lower(lowering *l, node *n) {
    pool p = pool_begin(l, n, lower_out(l, n, 0));
    expr *v = x_read_guarded(p.k, p.x, p.at, p.guard, NULL);
    stage_write(p.k, p.s, p.out, p.index, lp_norm(p.k, p.s, v, lp_of(n)));
}

OPERATOR(LpPool, .upgrades = {{2, lp_upgrade_2}}, .infer = pool_infer, .lower = lp_pool_lower);

// ---- Global pools: the window is the whole of space

static void global_pool_infer(node *n) {
    int rank = infer_rank(n, 0);
    const type *x = infer_in(n, 0);
    if (rank < 2) infer_error(n, "the input has rank %d; it must have a batch and a channel axis", rank);
    dim *dims[MAX_RANK] = {x->dims[0], x->dims[1]};
    for (int i = 2; i < rank; i++) dims[i] = infer_k(n, 1);
    infer_set(n, 0, x->elem, rank, dims);
}

typedef struct global_pool {
    kernel *k;
    stage *s;
    buffer *x, *out;
    expr *index[MAX_RANK], *read;
} global_pool;

static global_pool global_pool_begin(lowering *l, const node *n) {
    global_pool p = {.x = lower_in(l, n, 0), .out = lower_out(l, n, 0)};
    p.k = lower_kernel(l, n, NULL);
    p.s = kernel_stage(p.k);
    axes_over(p.k, p.s, p.out, p.index);
    expr *at[MAX_RANK] = {p.index[0], p.index[1]};
    for (int i = 2; i < p.x->rank; i++)
        at[i] = stage_own_axis(p.k, p.s, AXIS_REDUCE, arena_printf(p.k->arena, "k%d", i - 2), p.x->dims[i]);

    p.read = x_read(p.k, p.x, at);
    return p;
}

static void global_average_pool_lower(lowering *l, node *n) {
    global_pool p = global_pool_begin(l, n);
    dim *count = dim_product(p.x->dims[0]->table, p.x->dims + 2, p.x->rank - 2);
    expr *sum = stage_reduce(p.k, p.s, RED_SUM, p.read);
    expr *mean = x_div(p.k, sum, x_cast(p.k, x_dim(p.k, count), sum->dtype, false));
    stage_write(p.k, p.s, p.out, p.index, mean);
}

static void global_max_pool_lower(lowering *l, node *n) {
    global_pool p = global_pool_begin(l, n);
    stage_write(p.k, p.s, p.out, p.index, stage_reduce(p.k, p.s, RED_MAX, p.read));
}

static void global_lp_pool_lower(lowering *l, node *n) {
    global_pool p = global_pool_begin(l, n);
    stage_write(p.k, p.s, p.out, p.index, lp_norm(p.k, p.s, p.read, lp_of(n)));
}

OPERATOR(GlobalAveragePool, .infer = global_pool_infer, .lower = global_average_pool_lower);
OPERATOR(GlobalMaxPool, .infer = global_pool_infer, .lower = global_max_pool_lower);
OPERATOR(GlobalLpPool, .upgrades = {{2, lp_upgrade_2}}, .infer = global_pool_infer,
         .lower = global_lp_pool_lower);
