// Constants of channels. In: kernels. Out: in what they write, arithmetic on constants that is the same for all positions of a
// channel is done at compile time:
//
//   float(s) * (w_scale[m] * x_scale) + b[m]          =   float(s) * scale[m] + b[m]
//   (s - mean[m]) * (gamma[m] / sqrt(var[m] + eps))   =   (s - mean[m]) * scale[m]
#include "ir/kernel/edit.h"
#include "passes/match/contract.h"
#include "passes/passes.h"
#include "passes/rewrite/channel_values.h"

typedef struct folding {
    kernel *k;
    arena *scratch;
    bool of_integers; // the kernel sums products of integers
} folding;

// Whether the numbers take no more memory than the constants of which they are computed, by operations that round to the
// same bits at compile time and in a run.
static bool is_worth_it(const folding *f, expr *x, int64_t count) {
    expr_list nodes = expr_nodes(f->scratch, x);
    int64_t bytes = 0;
    for (int j = 0; j < nodes.n; j++) {
        const expr *e = nodes.at[j];
        expr_class c = expr_op_class(e->op);
        if (c != XC_LEAF && c != XC_CONVERT && c != XC_ARITHMETIC && e->op != X_SQRT) return false;
        if (e->op == X_READ) bytes += dtype_size(e->buffer->dtype, e->buffer->data->count);
    }
    return dtype_size(x->dtype, count) <= bytes;
}

static expr *fold_node(void *user, expr *x) {
    folding *f = user;
    kernel *k = f->k;
    channel_axes a = {.k = k};
    bool is_float = x->dtype == DT_F32 || (x->dtype == DT_F64 && !f->of_integers);
    if (!is_float || expr_op_class(x->op) != XC_ARITHMETIC || !channel_join(&a, x)) return NULL;
    int64_t count = a.n ? channel_count(&a) : 0;
    if (!count || (!f->of_integers && !is_worth_it(f, x, count))) return NULL;
    cell *all = ARENA_ARRAY(k->program->arena, cell, count);
    for (int64_t j = 0; j < count; j++) all[j] = channel_value(&a, x, j);
    return channel_numbers(&a, k, "scale", x->dtype, all);
}

static bool sums_integers(const kernel *k) {
    contraction c;
    return contraction_find(k, &c) && c.s->states.at[0].dtype == DT_I32;
}

void pass_fold_scales(pass_context *context) {
    program *p = context->program;
    arena *scratch = arena_new();
    for (int j = 0; j < p->kernels.n; j++) {
        kernel *k = p->kernels.at[j];
        folding f = {k, scratch, sums_integers(k)};
        for (int s = 0; s < k->stages.n; s++)
            for (int w = 0; w < k->stages.at[s]->writes.n; w++) {
                write *to = &k->stages.at[s]->writes.at[w];
                to->value = expr_rewrite(k, to->value, fold_node, &f);
            }
    }
    arena_destroy(scratch);
    program_compact(p);
}
