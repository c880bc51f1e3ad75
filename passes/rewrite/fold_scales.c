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
    channel_axes a = {.k = k};
    if (x->dtype != DT_F32 || expr_op_class(x->op) != XC_ARITHMETIC || !channel_join(&a, x)) return NULL;
    int64_t count = a.n ? channel_count(&a) : 0;
    if (!count) return NULL;
    cell *all = ARENA_ARRAY(k->program->arena, cell, count);
    for (int64_t j = 0; j < count; j++) all[j] = channel_value(&a, x, j);
    return channel_numbers(&a, k, "scale", DT_F32, all);
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
