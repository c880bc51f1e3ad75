// Reads at a small constant stride along the vector axis: whole vectors are loaded, and shuffles keep some lanes.
//
//   stride 2, four lanes:    v = x[at .. at + 4), w = x[at + 3 .. at + 7)
//                            v[0], v[2], w[1], w[3]
#include "ir/loops/convert.h"
#include "passes/schedule/common/emit.h"

enum { MOST_STRIDE = 4, MOST_LANES = 256 };

int access_stride(const access *a, int axis) {
    const expr *c = a->coef[axis];
    bool plain = dtype_bits(a->buffer->dtype) >= 8 && a->buffer->dtype != DT_C128;
    if (!plain || !c || c->op != X_CONST || c->i < -MOST_STRIDE || c->i > MOST_STRIDE) return 0;
    return c->i == 0 || c->i == 1 ? 0 : (int)c->i;
}

// A vector of the elements between the first and the last lane, from `first` on; with inactive lanes, as far as
// the element of the last active one.
static ins *load_between(emitter *e, const access *a, ins *first, int from, int stride) {
    lbuild *b = &e->b;
    ins *left = NULL;
    if (e->active && !emit_has_gap(e, a, e->lanes * stride)) {
        left = idx_addk(b, idx_mulk(b, e->active, stride), 1 - stride - from);
        left = lb_bin(b, L_SMAX, lb_bin(b, L_SMIN, left, lb_idx(b, e->lanes)), lb_idx(b, 0));
    }
    ins *at = idx_addk(b, first, from);
    return load_codes(b, a->buffer->dtype, pointer_of(e, a->buffer), at, e->lanes, left);
}

ins *emit_strided(emitter *e, const access *a) {
    int stride = e->vaxis < 0 || e->lanes > MOST_LANES ? 0 : access_stride(a, e->vaxis), lanes = e->lanes;
    if (!stride || (stride < 0 && e->active)) return NULL;
    int step = stride < 0 ? -stride : stride, span = (lanes - 1) * step + 1, mask[MOST_LANES];
    ins *first = emit_index(e, a->offset), *all = NULL;
    if (stride < 0) first = idx_subk(&e->b, first, span - 1);
    for (int j = 0; j < step; j++) {
        bool beyond = (j + 1) * lanes > span && !e->active; // instead, the vector ends with the last element
        int from = beyond ? span - lanes : j * lanes;
        ins *part = load_between(e, a, first, from, step);
        for (int i = 0; i < lanes; i++) {
            int at = (stride < 0 ? lanes - 1 - i : i) * step;
            mask[i] = at / lanes == j ? at - from + (all ? lanes : 0) : all ? i : 0;
        }
        all = lb_shuffle(&e->b, all ? all : part, part, mask, lanes);
    }
    return values_of_codes(&e->b, a->buffer->dtype, all);
}
