// Rows: the axes, stages and local scalars of kernels that walk rows of a tensor; see rows.h.
#include "ir/ops/rows.h"

rows rows_new(kernel *k, int rank, dim *const *dims, dim *const *mask) {
    rows r = {.k = k, .rank = rank};
    for (int i = 0; i < rank; i++) {
        dim *one = dim_const(dims[i]->table, 1);
        r.kept[i] = x_i64(k, 0);
        if (!dim_is(mask[i], 0)) r.walk[i] = dim_select(mask[i], dims[i], one);
        if (dim_is(mask[i], 1)) continue;
        dim *outer = dim_select(mask[i], one, dims[i]);
        r.kept[i] = x_axis(k, kernel_axis(k, AXIS_PARALLEL, "i", outer));
    }
    k->nouter = k->axes.n;
    return r;
}

void rows_mask(dims *t, int rank, int first, int last, dim **mask) {
    for (int i = 0; i < rank; i++) mask[i] = dim_const(t, i >= first && i < last);
}

void rows_mask_axes(dims *t, int rank, dim *const *axes, int count, dim **mask) {
    for (int i = 0; i < rank; i++) {
        mask[i] = dim_const(t, 0);
        for (int j = 0; j < count; j++) {
            dim *is = dim_or(dim_eq(axes[j], dim_const(t, i)), dim_eq(axes[j], dim_const(t, i - rank)));
            mask[i] = dim_or(mask[i], is);
        }
    }
}

bool rows_mask_known(int rank, dim *const *mask) {
    for (int i = 0; i < rank; i++)
        if (!dim_is_const(mask[i])) return false;
    return true;
}

void rows_check_axes(lowering *l, const node *n, int rank, dim *const *axes, int count) {
    dims *t = l->program->dims;
    for (int j = 0; j < count; j++) {
        dim *inside = dim_and(dim_at_most(dim_const(t, -rank), axes[j]), dim_lt(axes[j], dim_const(t, rank)));
        lower_check(l, n, inside, "an axis is out of range for the tensor's rank");
    }
}

stage *rows_stage(rows *r, axis_kind kind, expr **index) {
    kernel *k = r->k;
    stage *s = kernel_stage(k);
    for (int i = 0; i < r->rank; i++) {
        index[i] = r->kept[i];
        if (!r->walk[i]) continue;
        expr *a = stage_own_axis(k, s, kind, "r", r->walk[i]);
        index[i] = x_add(k, r->kept[i], a);
    }
    return s;
}

expr *rows_scalar(rows *r, stage *s, const char *name, expr *value) {
    dim *no_dims[1] = {NULL};
    expr *no_index[1] = {NULL};
    buffer *b = kernel_local(r->k, name, value->dtype, 0, no_dims);
    stage_write(r->k, s, b, no_index, value);
    return x_read(r->k, b, no_index);
}

expr *rows_count(rows *r, dtype t) {
    expr *count = x_i64(r->k, 1);
    for (int i = 0; i < r->rank; i++)
        if (r->walk[i]) count = x_mul(r->k, count, x_dim(r->k, r->walk[i]));
    return x_cast(r->k, count, t, true);
}

expr *rows_before(kernel *k, expr *a, expr *ia, expr *b, expr *ib, bool largest, bool last) {
    expr *better = largest ? x_lt(k, b, a) : x_lt(k, a, b), *equal = x_bin(k, X_EQ, a, b);
    if (dtype_is_float(a->dtype)) {
        expr *a_nan = x_un(k, X_ISNAN, a), *b_nan = x_un(k, X_ISNAN, b);
        better = x_bin(k, X_OR, better, x_and(k, a_nan, x_un(k, X_NOT, b_nan)));
        equal = x_bin(k, X_OR, equal, x_and(k, a_nan, b_nan));
    }
    expr *earlier = last ? x_lt(k, ib, ia) : x_lt(k, ia, ib);
    return x_bin(k, X_OR, better, x_and(k, equal, earlier));
}

expr *rows_arg(rows *r, stage *s, expr *x, expr *position, dim *extent, bool largest, bool last) {
    kernel *k = r->k;
    dtype t = x->dtype;
    expr *worst = reduce_neutral(k, largest ? RED_MAX : RED_MIN, t);
    // The initial position loses against every real one.
    expr *start = last ? x_i64(k, -1) : x_dim(k, extent);
    int value = s->states.n, at = value + 1;
    expr *v = stage_state(k, s, t, worst), *i = stage_state(k, s, DT_I64, start);
    expr *ov = x_other(k, value, t), *oi = x_other(k, at, DT_I64);
    expr *take = rows_before(k, x, position, v, i, largest, last);
    expr *take_other = rows_before(k, ov, oi, v, i, largest, last);
    stage_step(s, value, x_select(k, take, x, v), x_select(k, take_other, ov, v));
    stage_step(s, at, x_select(k, take, position, i), x_select(k, take_other, oi, i));
    return last ? x_bin(k, X_MAX, i, x_i64(k, 0)) : i;
}
