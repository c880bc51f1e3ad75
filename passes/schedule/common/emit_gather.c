// Gathers by indices of 32 bits: a vector holds twice as many of them as of 64 bits. Indices that vary from lane to
// lane add up to such an offset, and uniform ones move the pointer.
#include "ir/loops/convert.h"
#include "passes/schedule/common/emit.h"

static bool is_modular(const expr *x) {
    return x->dtype == DT_I64 && (x->op == X_ADD || x->op == X_SUB || x->op == X_MUL);
}

static bool has_lanes(const expr *x) { return x->op == X_STATE || x->op == X_OTHER; }

// Whether x differs from lane to lane; before the lanes are chosen: if they are positions of that axis (-1: they are).
static bool differs(emitter *e, const expr *x, int axis) {
    if (axis < 0) return emit_varies(e, x);
    return expr_uses_axis(x, axis) || expr_any((expr *)x, has_lanes);
}

// Whether x can be computed from values of 32 bits, modulo 2^32.
static bool is_narrow(emitter *e, const expr *x, int axis) {
    if (!differs(e, x, axis) || x->op == X_AXIS) return true;
    if (is_modular(x)) return is_narrow(e, x->arg[0], axis) && is_narrow(e, x->arg[1], axis);
    return x->op == X_CAST && x->dtype == DT_I64 && x->arg[0]->dtype == DT_I32;
}

// Whether the offsets that the varying indices add up to are narrow and known to fit.
static bool fits_narrow(emitter *e, const access *a, int axis, bool *varying) {
    const buffer *b = a->buffer;
    int64_t stride = 1, reach = 0; // stride 0: too large, or not known
    if (!a->index || lindex_kind(e->t) != LK_I64 || dtype_bits(b->dtype) < 32 || b->dtype == DT_C128)
        return false;
    for (int j = b->rank - 1; j >= 0; j--) {
        int64_t most = b->dims[j]->max;
        bool fits = stride && most <= (INT32_MAX - reach) / stride;
        varying[j] = differs(e, a->index[j], axis);
        if (varying[j] && !(fits && is_narrow(e, a->index[j], axis))) return false;
        if (varying[j]) reach += most * stride;
        stride = fits && dim_is_const(b->dims[j]) ? stride * most : 0;
    }
    return true;
}

// The byte that is the position in a list of bytes that has all such positions, where these are looked up
// (codegen/llvm/llvm_lookup.c); NULL: another access.
static expr *looked_up(const emitter *e, const access *a) {
    const buffer *b = a->buffer;
    const expr *at = a->index && b->rank == 1 ? a->index[0] : NULL;
    bool table = e->t->arch.looks_up_bytes && (b->dtype == DT_U8 || b->dtype == DT_I8) && at &&
                 dim_is_const(b->dims[0]) && dim_value(b->dims[0]) > UINT8_MAX;
    bool byte = table && at->op == X_CAST && at->dtype == DT_I64 && at->arg[0]->dtype == DT_U8;
    return byte ? at->arg[0] : NULL;
}

bool emit_gathers_narrow(emitter *e, const expr *x, int axis) {
    bool varying[MAX_RANK];
    const access *a = entry_of(e, x)->read;
    return a && !steps_by_one(a, axis) && (looked_up(e, a) || fits_narrow(e, a, axis, varying));
}

// A narrow expression modulo 2^32; scalar if x does not vary.
static ins *narrow_of(emitter *e, expr *x) {
    lbuild *b = &e->b;
    if (!emit_varies(e, x)) {
        ins *v = emit_index(e, x);
        return lb_conv(b, L_ITRUNC, LK_I32, v);
    }
    ins *v = entry_of(e, x)->narrow;
    if (v) return v;
    if (x->op == X_AXIS) {
        ins *base = lb_conv(b, L_ITRUNC, LK_I32, emit_index(e, x));
        v = lb_add(b, lb_splat(b, base, e->lanes), lb_iota(b, lt(LK_I32, e->lanes)));
    } else if (is_modular(x)) {
        ins *p = lb_splat(b, narrow_of(e, x->arg[0]), e->lanes),
            *q = lb_splat(b, narrow_of(e, x->arg[1]), e->lanes);
        v = lb_bin(b, x->op == X_ADD ? L_ADD : x->op == X_SUB ? L_SUB : L_MUL, p, q);
    } else {
        v = emit_value(e, x->arg[0]);
    }
    return emit_cache(e, x, 3, v);
}

ins *emit_narrow_gather(emitter *e, const access *a) {
    lbuild *b = &e->b;
    const buffer *buf = a->buffer;
    bool varying[MAX_RANK];
    expr *byte = looked_up(e, a); // its lanes are all positions, whether they are active or not
    if (byte) {
        ins *at = lb_conv(b, L_ZEXT, lindex_kind(e->t), lb_splat(b, emit_value(e, byte), e->lanes));
        ins *v = lb_gather(b, lt(LK_I8, e->lanes), pointer_of(e, buf), at);
        v->i = dim_value(buf->dims[0]);
        return v;
    }
    if (!fits_narrow(e, a, -1, varying)) return NULL;
    ins *base = lb_idx(b, 0), *at = lb_int(b, lt(LK_I32, e->lanes), 0);
    dim *stride = buf->dims[-1];
    for (int j = buf->rank - 1; j >= 0; j--) {
        if (varying[j]) {
            ins *i = narrow_of(e, a->index[j]);
            at = lb_add(b, at, lb_mul(b, i, lb_int(b, i->type, dim_value(stride))));
        } else {
            base = lb_add(b, base, lb_mul(b, emit_index(e, a->index[j]), emit_dim(e, stride)));
        }
        stride = dim_mul(stride, buf->dims[j]);
    }
    ins *p = lb_offset(b, pointer_of(e, buf), base, dtype_bits(buf->dtype) / 8);
    return load_element_gather(b, buf->dtype, p, emit_active_indices(e, at));
}
