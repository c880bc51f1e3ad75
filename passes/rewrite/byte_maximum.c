// Maxima of bytes. In: kernels that quantise the maximum of dequantised bytes. Out: where that is the greatest byte,
// the maximum of the bytes themselves:
//
//   s max= in[y, x] ? float(int32(q[y, x]) - z) * d : -inf      s max= in[y, x] ? q[y, x] : 0
//   out = byte(rint(s / d) + z)                                  out = s
//
// This holds if dequantisation never decreases and quantisation is its inverse, which is tried for all 256 bytes.
#include "ir/kernel/edit.h"
#include "ir/kernel/eval.h"
#include "passes/match/form.h"
#include "passes/passes.h"
#include <math.h>

enum { BYTES = 256 };

// ---------------------------------------------------------------- values
// x where `leaf` has the value v; false: x depends on anything else.
static bool value_of(const expr *x, const expr *leaf, cell v, cell *out) {
    cell arg[3] = {{0}};
    *out = v;
    if (x == leaf) return true;
    if (x->op == X_CONST) {
        if (dtype_is_float(x->dtype)) out->f = x->f;
        else out->i = x->i;
        return true;
    }
    if (!expr_arity(x->op) || x->op == X_CHECK) return false;
    for (int j = 0; j < expr_arity(x->op); j++)
        if (!value_of(x->arg[j], leaf, v, &arg[j])) return false;
    eval_op(x, 1, &arg[0], 0, &arg[1], 0, &arg[2], 0, out);
    return true;
}

static bool is_minus_infinity(const expr *x) { return x->op == X_CONST && x->f == -INFINITY; }
static bool is_byte(dtype t) { return t == DT_U8 || t == DT_I8; }

// The only byte that x reads; NULL: none or several.
static expr *byte_of(arena *a, expr *x) {
    expr *found = NULL;
    expr_list all = reads_only(expr_nodes(a, x));
    for (int j = 0; j < all.n; j++) {
        if (found && all.at[j] != found) return NULL;
        found = all.at[j];
    }
    return found && is_byte(found->dtype) ? found : NULL;
}

static const expr *state_of(arena *a, expr *x) {
    expr_list all = expr_nodes(a, x);
    for (int j = 0; j < all.n; j++)
        if (all.at[j]->op == X_STATE) return all.at[j];
    return NULL;
}

// Whether the written value of f(byte) is the byte, f never decreases, and no element at all gives the least byte.
static bool is_inverse(expr *f, const expr *byte, expr *written, const expr *s) {
    int64_t least = byte->dtype == DT_I8 ? -BYTES / 2 : 0;
    double last = -INFINITY;
    cell out;
    if (!value_of(written, s, (cell){.f = -INFINITY}, &out) || out.i != least) return false;
    for (int64_t j = least; j < least + BYTES; j++) {
        cell v;
        if (!value_of(f, byte, (cell){.i = j}, &v) || !(v.f >= last)) return false;
        if (!value_of(written, s, v, &out) || out.i != j) return false;
        last = v.f;
    }
    return true;
}

// ---------------------------------------------------------------- rewriting
static void rewrite_stage(kernel *k, stage *s) {
    if (s->states.n != 1 || s->writes.n != 1 || !stage_writes_at_end(s)) return;
    state *st = &s->states.at[0];
    write *w = &s->writes.at[0];
    if (st->op != RED_MAX || st->dtype != DT_F32 || !is_minus_infinity(st->init) || !is_byte(w->value->dtype))
        return;
    bool guarded = st->step->op == X_SELECT && is_minus_infinity(st->step->arg[2]);
    expr *f = guarded ? st->step->arg[1] : st->step, *byte = byte_of(k->arena, f);
    const expr *whole = state_of(k->arena, w->value);
    if (!byte || !whole || byte->dtype != w->value->dtype || !is_inverse(f, byte, w->value, whole)) return;
    expr *least = x_int(k, byte->dtype, byte->dtype == DT_I8 ? -BYTES / 2 : 0);
    st->step = guarded ? x_select(k, st->step->arg[0], byte, least) : byte;
    st->init = least, st->dtype = byte->dtype;
    w->value = x_state(k, 0, byte->dtype);
}

void pass_byte_maxima(pass_context *c) {
    program *p = c->program;
    for (int j = 0; j < p->kernels.n; j++) {
        kernel *k = p->kernels.at[j];
        for (int s = 0; s < k->stages.n; s++) rewrite_stage(k, k->stages.at[s]);
    }
}
