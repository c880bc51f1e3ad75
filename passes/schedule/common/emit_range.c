// Small integers as floats. In: a cast of an integer of 64 bits, such as the number of positions of a window inside an image.
// Out: a conversion from 32 bits if the ranges of axes and dims bound the integer so. Few targets convert vectors of 64 bits.
#include "ir/loops/convert.h"
#include "passes/schedule/common/emit.h"

ins *emit_small_as_float(emitter *e, const expr *x) {
    if (e->lanes == 1 || (x->dtype != DT_F32 && x->dtype != DT_F64) || x->arg[0]->dtype != DT_I64)
        return NULL;
    int_range narrow = {INT32_MIN, INT32_MAX};
    if (!int_range_within(expr_range(e->k, x->arg[0]), narrow)) return NULL;
    ins *v = emit_value(e, x->arg[0]);
    if (v->type.lanes == 1) return NULL;
    return lb_conv(&e->b, L_SITOF, compute_kind(x->dtype), lb_conv(&e->b, L_ITRUNC, LK_I32, v));
}
