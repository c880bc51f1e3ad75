// Small integers as floats. In: a cast of an integer of 64 bits, such as the number of positions of a window inside an image.
// Out: a conversion from 32 bits if the ranges of axes and dims bound the integer so. Few targets convert vectors of 64 bits.
#include "ir/loops/convert.h"
#include "passes/schedule/common/emit.h"

typedef struct bounds {
    int64_t least, most; // at most LARGE away from 0, which stands for all beyond
} bounds;

enum { DEEPEST = 12 };
static const int64_t LARGE = INT64_MAX / 4;
static const bounds unknown = {-(INT64_MAX / 4), INT64_MAX / 4};

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t limited(int64_t v) { return most_of(-LARGE, least_of(v, LARGE)); }

static int64_t product(int64_t a, int64_t b) {
    int64_t p;
    if (__builtin_mul_overflow(a, b, &p)) return (a < 0) == (b < 0) ? LARGE : -LARGE;
    return limited(p);
}

static bounds bounds_of_product(bounds a, bounds b) {
    int64_t p[] = {product(a.least, b.least), product(a.least, b.most), product(a.most, b.least),
                   product(a.most, b.most)};
    return (bounds){least_of(least_of(p[0], p[1]), least_of(p[2], p[3])),
                    most_of(most_of(p[0], p[1]), most_of(p[2], p[3]))};
}

static bounds bounds_of(const kernel *k, const expr *x, int depth) {
    if (x->dtype != DT_I64 || depth > DEEPEST) return unknown;
    if (x->op == X_CONST) return (bounds){limited(x->i), limited(x->i)};
    if (x->op == X_AXIS) return (bounds){0, limited(k->axes.at[x->axis].extent->max)};
    if (x->op == X_DIM) return (bounds){limited(x->dim->min), limited(x->dim->max)};
    if (x->op != X_ADD && x->op != X_SUB && x->op != X_MUL && x->op != X_MIN && x->op != X_MAX)
        return unknown;
    bounds a = bounds_of(k, x->arg[0], depth + 1), b = bounds_of(k, x->arg[1], depth + 1);
    if (x->op == X_MUL) return bounds_of_product(a, b);
    if (x->op == X_MIN) return (bounds){least_of(a.least, b.least), least_of(a.most, b.most)};
    if (x->op == X_MAX) return (bounds){most_of(a.least, b.least), most_of(a.most, b.most)};
    if (x->op == X_SUB) b = (bounds){-b.most, -b.least};
    return (bounds){limited(a.least + b.least), limited(a.most + b.most)};
}

ins *emit_small_as_float(emitter *e, const expr *x) {
    if (e->lanes == 1 || (x->dtype != DT_F32 && x->dtype != DT_F64) || x->arg[0]->dtype != DT_I64)
        return NULL;
    bounds r = bounds_of(e->k, x->arg[0], 0);
    if (r.least < INT32_MIN || r.most > INT32_MAX) return NULL;
    ins *v = emit_value(e, x->arg[0]);
    if (v->type.lanes == 1) return NULL;
    return lb_conv(&e->b, L_SITOF, compute_kind(x->dtype), lb_conv(&e->b, L_ITRUNC, LK_I32, v));
}
