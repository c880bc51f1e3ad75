// Small integers as floats. In: a cast of an integer of 64 bits, such as the number of positions of a window
// inside an image. Out: a conversion from 32 bits if the ranges of axes and dims bound the integer so. Few targets convert vectors of
// 64 bits, and few multiply them. Where positions are only compared with small bounds, they have 32 bits as well:
//
//   max(min(size - position, 3), 0):    max(min(clamp(size - first) - lane, 3), 0)
#include "ir/loops/convert.h"
#include "passes/schedule/common/emit.h"

enum { DEEPEST = 8, MOST_REACH = 1 << 16, SMALL = 1 << 29, BEYOND = 1 << 30 };

static bool is_small(const emitter *e, const expr *x) {
    return int_range_within(expr_range(e->k, x), (int_range){-SMALL, SMALL});
}

// The distance from lane to lane; 0: unknown, or lanes are far apart.
static int64_t lane_step(const emitter *e, expr *x) {
    const expr *slope = e->vaxis < 0 ? NULL : expr_slope(e->k, x, e->vaxis);
    bool near = slope && slope->op == X_CONST && slope->i < MOST_REACH && slope->i > -MOST_REACH;
    return near && slope->i * e->lanes < MOST_REACH && slope->i * e->lanes > -MOST_REACH ? slope->i : 0;
}

// Lanes of 32 bits: small values are as they are, others beyond all small ones on the same side. NULL: another form.
static ins *lanes_of(emitter *e, expr *x, int depth) {
    static const lop ops[X_COUNT] = {
        [X_ADD] = L_ADD, [X_SUB] = L_SUB, [X_MUL] = L_MUL, [X_MIN] = L_SMIN, [X_MAX] = L_SMAX};
    lbuild *b = &e->b;
    bool varies = emit_varies(e, x), bounds = x->op == X_MIN || x->op == X_MAX;
    int64_t step = varies ? lane_step(e, x) : 0;
    if (!varies || step) {
        ins *first = lb_bin(b, L_SMIN, emit_index(e, x), lb_idx(b, BEYOND));
        first = lb_conv(b, L_ITRUNC, LK_I32, lb_bin(b, L_SMAX, first, lb_idx(b, -BEYOND)));
        ins *all = lb_splat(b, first, e->lanes), *lane = lb_iota(b, lt(LK_I32, e->lanes));
        return step ? lb_add(b, all, lb_mul(b, lane, lb_int(b, lane->type, step))) : all;
    }
    if (depth > DEEPEST || !ops[x->op] ||
        (!bounds && !(is_small(e, x) && is_small(e, x->arg[0]) && is_small(e, x->arg[1]))))
        return NULL;
    ins *p = lanes_of(e, x->arg[0], depth + 1), *q = p ? lanes_of(e, x->arg[1], depth + 1) : NULL;
    return q ? lb_bin(b, ops[x->op], p, q) : NULL;
}

// NULL: the range is not known to fit, or it is a scalar.
static ins *short_of(emitter *e, expr *x) {
    if (lindex_kind(e->t) == LK_I64 && is_small(e, x) && emit_varies(e, x)) {
        ins *v = lanes_of(e, x, 0);
        if (v) return v;
    }
    if (!int_range_within(expr_range(e->k, x), (int_range){INT32_MIN, INT32_MAX})) return NULL;
    ins *v = emit_value(e, x);
    return v->type.lanes == 1 ? NULL : lb_conv(&e->b, L_ITRUNC, LK_I32, v);
}

ins *emit_small_as_float(emitter *e, const expr *x) {
    bool known = x->dtype == DT_F32 || x->dtype == DT_F64;
    if (e->lanes == 1 || !known || x->arg[0]->dtype != DT_I64) return NULL;
    ins *v = short_of(e, x->arg[0]);
    return v ? lb_conv(&e->b, L_SITOF, compute_kind(x->dtype), v) : NULL;
}
