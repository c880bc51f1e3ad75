// Kernels of many stages that copy, such as the concatenation of what a detector finds for each of 90 classes: the loops over
// contiguous elements are a function, which every stage calls.
//
//   for i < n: to[i + begin] = from[i]      becomes      copy(to + begin, from, n)
#include "passes/schedule/cpu/schedule_copy.h"
#include "passes/schedule/common/emit.h"

enum { MANY_STAGES = 8 };

// ---------------------------------------------------------------- which
// The elements from one position of the outermost axis to the next if both accesses are contiguous along all axes; else 0.
static int64_t contiguous_width(const nest *n, const access *to, const access *from) {
    int64_t width = 1;
    if (!to->affine || !from->affine) return 0;
    for (int j = n->nparallel - 1; j >= 0; j--) {
        int axis = n->parallel[j];
        const dim *extent = n->e->extent[axis];
        if (!expr_is_int(to->coef[axis], width) || !expr_is_int(from->coef[axis], width)) return 0;
        if (!j) return width;
        if (!dim_is_const(extent) || dim_value(extent) > INT32_MAX / width) return 0;
        width *= dim_value(extent);
    }
    return 0;
}

static bool is_plain_copy(const nest *n) {
    const stage *s = n->s;
    if (n->ninner || s->states.n || s->writes.n != 1) return false;
    const write *w = &s->writes.at[0];
    const expr *x = w->value;
    bool copies = x->op == X_READ && !x->guard && !w->guard && w->combine == COMBINE_SET;
    return copies && x->buffer->dtype == w->to->dtype && dtype_bits(w->to->dtype) >= 8 &&
           w->to->dtype != DT_C128 && !emit_is_variable(n->e, w->to) && !emit_is_variable(n->e, x->buffer);
}

// ---------------------------------------------------------------- the function
static void copy_rest(lbuild *b, const target *t, ins *to, ins *from, ins *begin, ins *end, ltype whole) {
    int bits = lkind_bits((lkind)whole.kind);
    if (t->avx512 || (t->masked && bits >= 32)) {
        ins *left = lb_bin(b, L_SUB, end, begin), *some = lb_if(b, lb_cmp(b, L_SLT, begin, end));
        ins *at = lb_offset(b, from, begin, bits / 8), *out = lb_offset(b, to, begin, bits / 8);
        lb_storen(b, out, lb_idx(b, 0), lb_loadn(b, whole, at, lb_idx(b, 0), left), left);
        lb_end(b, some);
        return;
    }
    ins *i = lb_for(b, "i", begin, end, lb_idx(b, 1), LOOP_SERIAL);
    lb_store(b, to, i, lb_load(b, lt((lkind)whole.kind, 1), from, i, 0), 0);
    lb_end(b, i);
}

// copy(to, from, n), for elements that do not overlap.
static lfunc *make_copier(emitter *e, dtype d) {
    lkind kind = lkind_of(d);
    lfunc *f =
        lfunc_new(e->module, arena_printf(e->scratch, "%s_copy%d", e->code->f->name, e->module->funcs.n),
                  lt(LK_VOID, 1));
    f->target = e->t;
    f->kernel = f->noalias = true;
    ins *to = lfunc_param(f, "to", lt_ptr(), kind, d, false),
        *from = lfunc_param(f, "from", lt_ptr(), kind, d, true);
    ins *n = lfunc_param(f, "n", lt(lindex_kind(e->t), 1), LK_VOID, DT_I64, true);
    lbuild own = lbuild_new(f, e->t, e->b.diag), *b = &own;
    int lanes = target_lanes(e->t, lkind_bits(kind));
    ins *full = emit_int_floor(b, n, lanes);
    ins *i = lb_for(b, "i", lb_idx(b, 0), full, lb_idx(b, lanes), LOOP_SERIAL);
    lb_store(b, to, i, lb_load(b, lt(kind, lanes), from, i, 0), 0);
    lb_end(b, i);
    copy_rest(b, e->t, to, from, full, n, lt(kind, lanes));
    return f;
}

bool schedule_copy(nest *n) {
    emitter *e = n->e;
    if (e->k->stages.n < MANY_STAGES || e->k->nouter || !e->t->vector_bits || !e->t->hosted ||
        !is_plain_copy(n))
        return false;
    const write *w = &n->s->writes.at[0];
    const access *to = n->writes[0], *from = entry_of(e, w->value)->read;
    int64_t width = from ? contiguous_width(n, to, from) : 0;
    if (!width) return false;
    if (!e->copier) e->copier = make_copier(e, w->to->dtype);
    if (e->copier->params.at[0].dtype != w->to->dtype) return false;
    lbuild *b = &e->b;
    int bytes = dtype_bits(w->to->dtype) / 8;
    scope mark = scope_open(e);
    ins *args[] = {lb_offset(b, pointer_of(e, to->buffer), emit_index(e, to->base), bytes),
                   lb_offset(b, pointer_of(e, from->buffer), emit_index(e, from->base), bytes),
                   lb_bin(b, L_MUL, emit_dim(e, e->extent[n->parallel[0]]), lb_idx(b, width))};
    lb_call(b, lt(LK_VOID, 1), e->copier->name, 3, args);
    scope_close(e, mark);
    return true;
}
