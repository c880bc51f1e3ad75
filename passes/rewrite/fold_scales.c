// Constants of channels. In: kernels that sum products of integers. Out: in what they write, arithmetic on
// constants that is the same for all positions of a channel is done at compile time:
//
//   float(s) * (w_scale[m] * x_scale) + b[m]   =   float(s) * scale[m] + b[m]
#include "ir/kernel/edit.h"
#include "ir/kernel/eval.h"
#include "passes/match/contract.h"
#include "passes/passes.h"

enum { NOTHING = -1, SEVERAL = -2, CHANNELS_MOST = 1 << 14 };

// The axis whose position decides on the value, if it is computed from constants and reads of constants.
static int axis_of(const expr *x) {
    int axis = NOTHING;
    if (x->op == X_CONST) return NOTHING;
    bool read =
        x->op == X_READ && !x->guard && x->buffer->role == BUF_CONST && dtype_bits(x->buffer->dtype) >= 8;
    if (!read && (!expr_arity(x->op) || x->op == X_CHECK)) return SEVERAL;
    for (int j = 0; j < (read ? x->buffer->rank : expr_arity(x->op)); j++) {
        const expr *part = read ? x->index[j] : x->arg[j];
        int own = read && part->op == X_AXIS ? part->axis : axis_of(part);
        if (own == NOTHING) continue;
        if (own == SEVERAL || (axis != NOTHING && axis != own)) return SEVERAL;
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

static cell value_at(const expr *x, int64_t position) {
    cell arg[3] = {{0}}, v = {0};
    if (x->op == X_READ) return element_at(x, position);
    if (x->op == X_CONST) {
        if (dtype_is_float(x->dtype)) v.f = x->f;
        else v.i = x->i;
        return v;
    }
    for (int j = 0; j < expr_arity(x->op); j++) arg[j] = value_at(x->arg[j], position);
    eval_op(x, 1, &arg[0], 0, &arg[1], 0, &arg[2], 0, &v);
    return v;
}

// Reads have constant indices or plain axes only.
static bool has_plain_reads(expr *x) {
    if (x->op != X_READ) {
        for (int j = 0; j < expr_arity(x->op); j++)
            if (!has_plain_reads(x->arg[j])) return false;
        return true;
    }
    for (int j = 0; j < x->buffer->rank; j++)
        if (x->index[j]->op != X_CONST && x->index[j]->op != X_AXIS) return false;
    return true;
}

static expr *fold_node(void *user, expr *x) {
    kernel *k = user;
    int axis = x->dtype == DT_F32 && expr_op_class(x->op) == XC_ARITHMETIC ? axis_of(x) : NOTHING;
    if (axis < 0 || !has_plain_reads(x)) return NULL;
    const dim *n = k->axes.at[axis].extent;
    if (!dim_is_const(n) || dim_value(n) < 1 || dim_value(n) > CHANNELS_MOST) return NULL;
    int64_t count = dim_value(n);
    constant *c = constant_new(k->program->arena, DT_F32, 1, &count);
    for (int64_t j = 0; j < count; j++) eval_store(DT_F32, (void *)c->data, j, value_at(x, j));
    expr *index = x_axis(k, axis);
    return x_read(k, program_constant(k->program, "scale", c), &index);
}

void pass_fold_scales(pass_context *context) {
    program *p = context->program;
    contraction c;
    for (int j = 0; j < p->kernels.n; j++) {
        kernel *k = p->kernels.at[j];
        if (!contraction_find(k, &c) || c.s->states.at[0].dtype != DT_I32) continue;
        c.w->value = expr_rewrite(k, c.w->value, fold_node, k);
    }
    program_compact(p);
}
