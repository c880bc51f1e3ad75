// In: an expression of a kernel. Out: the axis on which it depends, if it is computed from constants, and its values.
#include "passes/rewrite/channel_values.h"

int channel_axis(const expr *x) {
    int axis = NO_CHANNEL;
    if (x->op == X_CONST) return NO_CHANNEL;
    bool read =
        x->op == X_READ && !x->guard && x->buffer->role == BUF_CONST && dtype_bits(x->buffer->dtype) >= 8;
    if (!read && (!expr_arity(x->op) || x->op == X_CHECK)) return SEVERAL_CHANNELS;
    for (int j = 0; j < (read ? x->buffer->rank : expr_arity(x->op)); j++) {
        const expr *part = read ? x->index[j] : x->arg[j];
        int own = read && part->op == X_AXIS ? part->axis : channel_axis(part);
        if (own == NO_CHANNEL) continue;
        if (own == SEVERAL_CHANNELS || (axis != NO_CHANNEL && axis != own)) return SEVERAL_CHANNELS;
        axis = own;
    }
    return axis;
}

static cell element_at(const expr *read, int64_t position) {
    const constant *c = read->buffer->data;
    int64_t at = 0;
    if (c->kind == CONST_SPLAT) return eval_load(c->elem, c->splat, 0);
    for (int j = 0; j < read->buffer->rank; j++) {
        const expr *i = read->index[j];
        at = at * dim_value(read->buffer->dims[j]) + (i->op == X_CONST ? i->i : position);
    }
    return eval_load(c->elem, c->data, at);
}

cell channel_value(const expr *x, int64_t position) {
    cell arg[3] = {{0}}, v = {0};
    if (x->op == X_READ) return element_at(x, position);
    if (x->op == X_CONST) {
        if (dtype_is_float(x->dtype)) v.f = x->f;
        else v.i = x->i;
        return v;
    }
    for (int j = 0; j < expr_arity(x->op); j++) arg[j] = channel_value(x->arg[j], position);
    eval_op(x, 1, &arg[0], 0, &arg[1], 0, &arg[2], 0, &v);
    return v;
}

bool has_plain_reads(const expr *x) {
    if (x->op != X_READ) {
        for (int j = 0; j < expr_arity(x->op); j++)
            if (!has_plain_reads(x->arg[j])) return false;
        return true;
    }
    for (int j = 0; j < x->buffer->rank; j++)
        if (x->index[j]->op != X_CONST && x->index[j]->op != X_AXIS) return false;
    return true;
}
