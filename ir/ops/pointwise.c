// The lowering and the type rules of all pointwise operators.
#include "ir/ops/pointwise.h"
#include <string.h>

void lower_numeric_only(lowering *l, const node *n) {
    for (int i = 0; i < n->nin + n->nout; i++) {
        const value *v = i < n->nin ? n->in[i] : n->out[i - n->nin];
        dtype_class class = v ? dtype_class_of(v->type.elem) : DC_NONE;
        if (class == DC_STRING || class == DC_COMPLEX)
            diag_fatal_missing(l->program->diag, n->loc, "%s tensors are not supported by this operator yet",
                               dtype_name(v->type.elem));
    }
}

buffer *lower_parts(lowering *l, buffer *b) {
    if (!b || dtype_class_of(b->dtype) != DC_COMPLEX) return b;
    if (b->rank == MAX_RANK)
        diag_fatal_missing(l->program->diag, b->value && b->value->def ? b->value->def->loc : NULL,
                           "'%s' is a tensor of complex numbers of rank %d", b->name, b->rank);
    dim *sizes[MAX_RANK];
    memcpy(sizes, b->dims, (size_t)b->rank * sizeof *sizes);
    sizes[b->rank] = dim_const(l->program->dims, 2);
    const char *name = arena_printf(l->program->arena, "%s.parts", b->name);
    buffer *parts = program_view(l->program, b, name, b->rank + 1, sizes);
    parts->dtype = b->dtype == DT_C64 ? DT_F32 : DT_F64;
    return parts;
}

// Operators with results of strings or complex numbers (Where) only select among their operands.
static bool moves_only(const node *n) {
    dtype_class class = n->nout && n->out[0] ? dtype_class_of(n->out[0]->type.elem) : DC_NONE;
    return class == DC_STRING || class == DC_COMPLEX;
}

// for i in out: out[i] = value(in0[i], in1[i], ...)
void lower_pointwise(lowering *l, node *n, pointwise_value *value) {
    if (!moves_only(n)) lower_numeric_only(l, n);
    if (lower_known_contents(l, n)) return;
    buffer *in[n->nin + 1];
    for (int i = 0; i < n->nin; i++) in[i] = lower_in(l, n, i);
    buffer *out = lower_out(l, n, 0);
    if (!out) return;
    kernel *k;
    expr *index[MAX_RANK], *x[n->nin + 1];
    stage *s = pointwise_stage(l, n, out, &k, index);
    for (int i = 0; i < n->nin; i++)
        x[i] =
            in[i] ? n->nin == 1 ? x_read(k, in[i], index) : read_broadcast(k, in[i], index, out->rank) : NULL;
    stage_write(k, s, out, index, value(k, n, x));
}

void infer_like_first(node *n) { infer_same(n, 0, 0); }

void infer_like_ranked_first(node *n) {
    infer_rank(n, 0);
    infer_same(n, 0, 0);
}

void infer_bool_like_first(node *n) {
    int rank = infer_rank(n, 0);
    infer_set(n, 0, DT_BOOL, rank, infer_in(n, 0)->dims);
}

void infer_broadcast_to(node *n, dtype elem) {
    dim *dims[MAX_RANK];
    int rank = infer_broadcast(n, 0, n->nin - 1, dims);
    if (rank == RANK_UNKNOWN) infer_set_unknown(n, 0, elem);
    else infer_set(n, 0, elem, rank, dims);
}

static dtype common_element(const node *n) {
    dtype t = infer_in(n, 0)->elem;
    for (int i = 1; i < n->nin; i++)
        if (infer_in(n, i)->elem != t)
            infer_error(n, "inputs 0 and %d have different element types: %s and %s", i, dtype_name(t),
                        dtype_name(infer_in(n, i)->elem));
    return t;
}

void infer_elementwise(node *n) { infer_broadcast_to(n, common_element(n)); }

void infer_comparison(node *n) {
    common_element(n);
    infer_broadcast_to(n, DT_BOOL);
}

void infer_like_first_broadcast(node *n) { infer_broadcast_to(n, infer_in(n, 0)->elem); }

expr *x_attr(kernel *k, const node *n, const char *name, double fallback, dtype t) {
    return x_number(k, t, node_float(n, name, fallback));
}

expr *x_as(kernel *k, expr *e, dtype t) { return e->dtype == t ? e : x_cast(k, e, t, true); }
