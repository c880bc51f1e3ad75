// Constants of channels. In: kernels that sum products of integers. Out: in what they write, arithmetic on
// constants that is the same for all positions of a channel is done at compile time:
//
//   float(s) * (w_scale[m] * x_scale) + b[m]   =   float(s) * scale[m] + b[m]
#include "ir/kernel/edit.h"
#include "passes/match/contract.h"
#include "passes/passes.h"
#include "passes/rewrite/channel_values.h"

static expr *fold_node(void *user, expr *x) {
    kernel *k = user;
    int axis = x->dtype == DT_F32 && expr_op_class(x->op) == XC_ARITHMETIC ? channel_axis(x) : NO_CHANNEL;
    if (axis < 0 || !has_plain_reads(x)) return NULL;
    const dim *n = k->axes.at[axis].extent;
    if (!dim_is_const(n) || dim_value(n) < 1 || dim_value(n) > CHANNELS_MOST) return NULL;
    int64_t count = dim_value(n);
    constant *c = constant_new(k->program->arena, DT_F32, 1, &count);
    for (int64_t j = 0; j < count; j++) eval_store(DT_F32, (void *)c->data, j, channel_value(x, j));
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
