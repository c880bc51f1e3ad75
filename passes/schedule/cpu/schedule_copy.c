// Kernels of many stages that copy, such as the concatenation of what a detector finds for each of 90 classes: every stage calls
// memcpy, so that they take less code, and are the same for all CPU levels.
//
//   for i < n: to[i + begin] = from[i]      becomes      memcpy(to + begin, from, n * bytes)
#include "passes/schedule/cpu/schedule_copy.h"
#include "passes/schedule/common/emit.h"

enum { MANY_STAGES = 8 };

// ---------------------------------------------------------------- applicability
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

// ---------------------------------------------------------------- calls
bool schedule_copy(nest *n) {
    emitter *e = n->e;
    if (e->k->stages.n < MANY_STAGES || e->k->nouter || !e->t->vector_bits || !e->t->hosted ||
        !is_plain_copy(n))
        return false;
    const write *w = &n->s->writes.at[0];
    const access *to = n->writes[0], *from = entry_of(e, w->value)->read;
    int64_t width = from ? contiguous_width(n, to, from) : 0;
    if (!width) return false;
    lbuild *b = &e->b;
    int bytes = dtype_bits(w->to->dtype) / 8;
    scope mark = scope_open(e);
    ins *args[] = {lb_offset(b, pointer_of(e, to->buffer), emit_index(e, to->base), bytes),
                   lb_offset(b, pointer_of(e, from->buffer), emit_index(e, from->base), bytes),
                   lb_bin(b, L_MUL, emit_dim(e, e->extent[n->parallel[0]]), lb_idx(b, width * bytes))};
    lb_call(b, lt_ptr(), "memcpy", 3, args);
    scope_close(e, mark);
    return true;
}
