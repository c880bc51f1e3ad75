// In: expressions of a kernel. Out: the axes on which they depend, if they are computed from constants, and their values.
#include "passes/rewrite/channel_values.h"
#include "ir/kernel/edit.h"

// ---------------------------------------------------------------- axes
static bool join_axis(channel_axes *a, int axis) {
    int at = 0;
    while (at < a->n && a->axis[at] < axis) at++;
    if (at < a->n && a->axis[at] == axis) return true;
    if (a->n == CHANNEL_AXES) return false;
    for (int j = a->n++; j > at; j--) a->axis[j] = a->axis[j - 1];
    a->axis[at] = axis;
    return true;
}

static bool join_all(channel_axes *a, const expr *x) {
    if (x->op == X_CONST) return true;
    if (x->op == X_AXIS) return join_axis(a, x->axis);
    bool read =
        x->op == X_READ && !x->guard && x->buffer->role == BUF_CONST && dtype_bits(x->buffer->dtype) >= 8;
    if (!read && (!expr_arity(x->op) || x->op == X_CHECK)) return false;
    for (int j = 0; j < (read ? x->buffer->rank : expr_arity(x->op)); j++)
        if (!join_all(a, read ? x->index[j] : x->arg[j])) return false;
    int64_t elements = read ? dim_value(buffer_count(x->buffer)) : 0;
    if (elements > a->elements) a->elements = elements;
    return true;
}

static int64_t positions(const channel_axes *a) {
    int64_t count = 1;
    for (int j = 0; j < a->n && count <= CHANNELS_MOST; j++) {
        const dim *n = a->k->axes.at[a->axis[j]].extent;
        if (!dim_is_const(n) || dim_value(n) < 1 || dim_value(n) > CHANNELS_MOST) return 0;
        count *= dim_value(n);
    }
    return count;
}

// Whether x is an integer as a float that takes fewer values than the axes in it have positions.
static bool join_number(channel_axes *a, const channel_axes *joined, const expr *x) {
    enum { VALUES_MOST = 256 };
    if (x->op != X_CAST || x->arg[0]->dtype != DT_I64 || a->n || joined->elements) return false;
    if (a->number) return a->number == x->arg[0];
    int_range r = expr_range(a->k, x->arg[0]);
    int64_t count = positions(joined);
    bool few = r.min >= 0 && r.max - r.min < VALUES_MOST && (!count || r.max - r.min + 1 < count);
    if (few) a->number = x->arg[0], a->values = r;
    return few;
}

bool channel_join(channel_axes *a, const expr *x) {
    channel_axes joined = *a;
    if (!join_all(&joined, x)) return false;
    if (joined.n > a->n && join_number(a, &joined, x)) return true;
    if (joined.n && a->number) return false;
    *a = joined;
    return true;
}

int64_t channel_count(const channel_axes *a) {
    if (a->number) return a->values.max - a->values.min + 1;
    int64_t count = positions(a);
    return count > CHANNELS_MOST || (a->n > 1 && count > a->elements) ? 0 : count;
}

// ---------------------------------------------------------------- values
static int64_t axis_position(const channel_axes *a, int axis, int64_t channel) {
    int j = a->n - 1;
    for (; a->axis[j] != axis; j--) channel /= dim_value(a->k->axes.at[a->axis[j]].extent);
    return channel % dim_value(a->k->axes.at[axis].extent);
}

static cell element_at(const channel_axes *a, const expr *read, int64_t channel) {
    const constant *c = read->buffer->data;
    int64_t at = 0;
    if (c->kind == CONST_SPLAT) return eval_load(c->elem, c->splat, 0);
    for (int j = 0; j < read->buffer->rank; j++)
        at = at * dim_value(read->buffer->dims[j]) + channel_value(a, read->index[j], channel).i;
    return eval_load(c->elem, c->data, at);
}

cell channel_value(const channel_axes *a, const expr *x, int64_t channel) {
    cell arg[3] = {{0}}, v = {0};
    if (x == a->number) return (cell){.i = a->values.min + channel};
    if (x->op == X_READ) return element_at(a, x, channel);
    if (x->op == X_AXIS) return (cell){.i = axis_position(a, x->axis, channel)};
    if (x->op == X_CONST) {
        if (dtype_is_float(x->dtype)) v.f = x->f;
        else v.i = x->i;
        return v;
    }
    for (int j = 0; j < expr_arity(x->op); j++) arg[j] = channel_value(a, x->arg[j], channel);
    return eval_scalar(x, arg);
}

int channel_index(const channel_axes *a, kernel *k, expr **index, int64_t *sizes) {
    if (a->number) {
        index[0] = x_sub(k, a->number, x_i64(k, a->values.min)), sizes[0] = channel_count(a);
        return 1;
    }
    for (int j = 0; j < a->n; j++)
        index[j] = x_axis(k, a->axis[j]), sizes[j] = dim_value(k->axes.at[a->axis[j]].extent);
    return a->n;
}

expr *channel_numbers(const channel_axes *a, kernel *k, const char *name, dtype t, const cell *v) {
    int64_t count = channel_count(a), sizes[CHANNEL_AXES];
    bool same = true, is_float = dtype_is_float(t);
    for (int64_t j = 1; j < count; j++) same &= is_float ? v[j].f == v[0].f : v[j].i == v[0].i;
    if (same) return is_float ? x_float(k, t, v[0].f) : x_int(k, t, v[0].i);
    expr *index[CHANNEL_AXES];
    int rank = channel_index(a, k, index, sizes);
    constant *data = constant_new(k->program->arena, t, rank, sizes);
    for (int64_t j = 0; j < count; j++) eval_store(t, (void *)data->data, j, v[j]);
    return x_read(k, program_constant(k->program, name, data), index);
}
