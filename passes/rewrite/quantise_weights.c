// Weights that are dequantised when they are read: scales are moved out of the sums, and axes quantised in
// blocks are split in two, so that scale and zero point of a block are read once per block.
//
//   sum over k of a[k] * ((b[k] - z) * s)
//       = s * sum over k of a[k] * (b[k] - z)
//   sum over k of a[k] * (b[k] - z[k / 32]) * s[k / 32]
//       = sum over i of s[i] * sum over j of a[32 i + j] * (b[32 i + j] - z[i])
#include "ir/kernel/edit.h"
#include "passes/match/form.h"
#include "passes/rewrite/quantise_impl.h"

// ---------------------------------------------------------------- scales
typedef struct pull {
    kernel *k;
    const stage *s;
    expr *scale; // product of the factors moved out
} pull;

// Moves factors of e that are invariant along the reduce axes to p->scale and returns the rest.
static expr *without_scales(pull *p, expr *e) {
    kernel *k = p->k;
    if (e->op == X_SELECT && e->arg[2]->op == X_CONST && e->arg[2]->f == 0)
        return x_select(k, e->arg[0], without_scales(p, e->arg[1]), e->arg[2]);
    if (e->op != X_MUL) return e;
    for (int j = 0; j < 2; j++) {
        if (stage_reduces(k, p->s, e->arg[j])) continue;
        p->scale = p->scale ? x_mul(k, p->scale, e->arg[j]) : e->arg[j];
        return without_scales(p, e->arg[1 - j]);
    }
    expr *a = without_scales(p, e->arg[0]), *b = without_scales(p, e->arg[1]);
    return x_mul(k, a, b);
}

static bool is_dequantised(const expr *e) {
    if (e->op == X_CAST) return e->dtype == DT_F32 && dtype_is_int(e->arg[0]->dtype);
    return e->op == X_READ && dtype_is_float(e->buffer->dtype) && dtype_bits(e->buffer->dtype) <= 8;
}

static void pull_scales(kernel *k) {
    stage *s = k->stages.at[0];
    state *st = &s->states.at[0];
    if (st->dtype != DT_F32 || st->step->op != X_MUL || !expr_any(st->step, is_dequantised)) return;
    pull p = {.k = k, .s = s};
    expr *step = without_scales(&p, st->step);
    if (!p.scale || step->op != X_MUL) return;
    st->step = step;
    expr *now = x_mul(k, x_state(k, 0, DT_F32), p.scale);
    for (int j = 0; j < s->writes.n; j++)
        s->writes.at[j].value = expr_substitute(k, s->writes.at[j].value, NULL, now);
}

// ---------------------------------------------------------------- blocks
// The last floordiv of a reduce axis by a divisor of its extent; NULL: none.
static const expr *find_block(const kernel *k, expr *step) {
    expr_list all = expr_nodes(k->arena, step);
    for (int j = all.n - 1; j >= 0; j--) {
        const expr *e = all.at[j];
        if (e->op != X_FLOORDIV || e->arg[0]->op != X_AXIS || e->arg[1]->op != X_CONST) continue;
        const axis *a = &k->axes.at[e->arg[0]->axis];
        if (a->kind == AXIS_REDUCE && dim_is_const(a->extent) && dim_value(a->extent) % e->arg[1]->i == 0)
            return e;
    }
    return NULL;
}

// False if there is no axis to split.
static bool split_block(kernel *k) {
    stage *s = k->stages.at[0];
    const expr *block = find_block(k, s->states.at[0].step);
    if (!block) return false;
    int axis = block->arg[0]->axis;
    dim *size = dim_const(k->program->dims, block->arg[1]->i);
    int outer = kernel_axis(k, AXIS_REDUCE, "block", dim_floordiv(k->axes.at[axis].extent, size));
    int inner = kernel_axis(k, AXIS_REDUCE, k->axes.at[axis].name, size);
    expr *now = x_add(k, x_mul(k, x_axis(k, outer), block->arg[1]), x_axis(k, inner));
    s->states.at[0].step = expr_substitute_axis(k, s->states.at[0].step, axis, now);
    for (int j = 0; j < s->axes.n; j++)
        if (s->axes.at[j] == axis) s->axes.at[j] = outer;
    stage_axis(k, s, inner);
    return true;
}

void quantise_weights(kernel *k, bool strict) {
    if (!strict) pull_scales(k);
    while (split_block(k)) {
    }
}
