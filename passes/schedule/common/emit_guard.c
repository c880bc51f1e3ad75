// Reads under a guard, where some lanes of a vector may be out of bounds, and comparisons of positions.
#include "ir/loops/convert.h"
#include "passes/schedule/common/emit.h"

// Lane by lane under a varying guard, through the stack.
static ins *load_guarded_lanes(emitter *e, const expr *x, access *a, ins *guard, ins *fill) {
    lbuild *b = &e->b;
    int n = e->lanes;
    lkind kind = fill->type.kind, as = kind == LK_I1 ? LK_I8 : kind;
    ins *value = lb_local(b, as, n, 64, false), *index = lb_local(b, lindex_kind(e->t), n, 64, false);
    ins *valid = lb_local(b, LK_I8, n, 64, false), *zero = lb_idx(b, 0);
    lb_store(b, value, zero, kind == LK_I1 ? lb_conv(b, L_ZEXT, as, fill) : fill, 0);
    lb_store(b, index, zero, emit_indices(e, a->offset), 0);
    lb_store(b, valid, zero, lb_conv(b, L_ZEXT, LK_I8, guard), 0);
    ins *j = lb_for(b, "lane", zero, lb_idx(b, n), lb_idx(b, 1), LOOP_SERIAL);
    ins *on = lb_if(b, lb_cmp(b, L_NE, lb_load(b, lt(LK_I8, 1), valid, j, 0), lb_int(b, lt(LK_I8, 1), 0)));
    ins *v = load_element(b, x->buffer->dtype, pointer_of(e, x->buffer),
                          lb_load(b, lt(lindex_kind(e->t), 1), index, j, 0), 1);
    lb_store(b, value, j, kind == LK_I1 ? lb_conv(b, L_ZEXT, as, v) : v, 0);
    lb_end(b, on);
    lb_end(b, j);
    v = lb_load(b, lt(as, n), value, zero, 0);
    return kind == LK_I1 ? lb_cmp(b, L_NE, v, lb_int(b, lt(as, n), 0)) : v;
}

static ins *active_lanes(emitter *e, ins *which) {
    lbuild *b = &e->b;
    if (!e->active) return which;
    ltype t = lt(e->active->type.kind, e->lanes);
    return lb_bin(b, L_AND, which, lb_cmp(b, L_SLT, lb_iota(b, t), lb_splat(b, e->active, e->lanes)));
}

// Inactive lanes read the first element, which exists as one lane is active.
static ins *load_some_lanes(emitter *e, access *a, ins *guard, ins *fill) {
    lbuild *b = &e->b;
    ins *at = emit_indices(e, a->offset);
    at = emit_active_indices(e, lb_select(b, guard, at, lb_int(b, at->type, 0)));
    return lb_select(b, guard, load_element_gather(b, a->buffer->dtype, pointer_of(e, a->buffer), at), fill);
}

// Whether the whole vector is within the buffer: lanes that the guard excludes are elements of the buffer as well.
static ins *is_within_buffer(emitter *e, access *a) {
    lbuild *b = &e->b;
    const buffer *buf = a->buffer;
    bool plain = !buf->layout && dtype_bits(buf->dtype) >= 8 && buf->dtype != DT_C128;
    if (!plain || !steps_by_one(a, e->vaxis)) return NULL;
    ins *at = emit_index(e, a->offset), *end = idx_addk(b, at, e->lanes),
        *count = emit_dim(e, buffer_count(buf));
    return lb_bin(b, L_AND, lb_cmp(b, L_SLE, lb_idx(b, 0), at), lb_cmp(b, L_SLE, end, count));
}

static ins *load_between(emitter *e, access *a, ins *guard, ins *fill) {
    ins *p = pointer_of(e, a->buffer), *at = emit_index(e, a->offset);
    return lb_select(&e->b, guard, load_element(&e->b, a->buffer->dtype, p, at, e->lanes), fill);
}

// A read with the guard true for some of its lanes.
static void load_partly(emitter *e, expr *x, access *a, ins *guard, ins *fill, ins *result) {
    lbuild *b = &e->b;
    if (dtype_bits(a->buffer->dtype) < 8) {
        lb_set(b, result, load_guarded_lanes(e, x, a, guard, fill));
        return;
    }
    ins *within = is_within_buffer(e, a);
    scope branch = scope_if(e, within);
    if (within) {
        lb_set(b, result, load_between(e, a, guard, fill));
        scope_else(e, branch);
    }
    lb_set(b, result, load_some_lanes(e, a, guard, fill));
    scope_close(e, branch);
}

// ---------------------------------------------------------------- positions
enum { MOST_LANES = 64 };
static const int64_t far_away = INT64_C(1) << 60;

// Whether the difference from a position might overflow, or differ from lane to lane otherwise than along the axis.
static bool is_data(const expr *x) {
    if (x->op == X_CONST) return x->i > far_away || x->i < -far_away;
    if (x->op == X_FLOORDIV || x->op == X_MOD) return x->arg[1]->op != X_CONST || x->arg[1]->i < 1;
    return x->op != X_AXIS && x->op != X_DIM && x->op != X_ADD && x->op != X_SUB && x->op != X_MUL;
}

static lkind lane_kind(const emitter *e) {
    int bits = e->t->vector_bits / e->lanes;
    return bits < 16 ? LK_I8 : bits < 32 ? LK_I16 : bits < 64 ? LK_I32 : LK_I64;
}

// A comparison of first + lane with a limit that is the same for all lanes.
typedef struct position_compare {
    lop op;
    expr *position, *limit;
    bool second; // the position is the second operand
} position_compare;

static bool compares_positions(emitter *e, expr *x, position_compare *c) {
    static const lop ops[X_COUNT] = {[X_LT] = L_SLT, [X_LE] = L_SLE, [X_EQ] = L_EQ, [X_NE] = L_NE};
    if (!e->t->vector_bits || !ops[x->op] || x->arg[0]->dtype != DT_I64 || e->lanes == 1 ||
        e->lanes > MOST_LANES || e->vaxis < 0 || lindex_kind(e->t) != LK_I64 ||
        expr_any(x->arg[0], is_data) || expr_any(x->arg[1], is_data))
        return false;
    bool second = emit_varies(e, x->arg[1]);
    *c = (position_compare){ops[x->op], x->arg[second], x->arg[!second], second};
    const expr *step = emit_varies(e, c->limit) ? NULL : expr_slope(e->k, c->position, e->vaxis);
    return step && expr_is_int(step, 1);
}

// Of the lane with limit - first, in integers as wide as the lanes of a vector are, since vectors of positions take up to
// eight times the registers.
ins *emit_position_compare(emitter *e, expr *x) {
    lbuild *b = &e->b;
    position_compare c;
    if (!compares_positions(e, x, &c)) return NULL;
    ins *d = lb_sub(b, emit_index(e, c.limit), emit_index(e, c.position));
    d = lb_bin(b, L_SMAX, lb_bin(b, L_SMIN, d, lb_idx(b, e->lanes)), lb_idx(b, -1));
    ltype t = lt(lane_kind(e), e->lanes);
    if (t.kind != d->type.kind) d = lb_conv(b, L_ITRUNC, t.kind, d);
    ins *lane = lb_iota(b, t), *at = lb_splat(b, d, e->lanes);
    return lb_cmp(b, c.op, c.second ? at : lane, c.second ? lane : at);
}

// Whether bounds of positions hold for all active lanes, which their ends tell; NULL: x is no such condition.
static ins *bounds_hold(emitter *e, expr *x) {
    lbuild *b = &e->b;
    position_compare c;
    if (!emit_varies(e, x)) return emit_value(e, x);
    if (x->op == X_AND) {
        ins *one = bounds_hold(e, x->arg[0]), *other = one ? bounds_hold(e, x->arg[1]) : NULL;
        return other ? lb_bin(b, L_AND, one, other) : NULL;
    }
    if ((x->op != X_LT && x->op != X_LE) || !compares_positions(e, x, &c)) return NULL;
    ins *first = emit_index(e, c.position), *limit = emit_index(e, c.limit);
    if (c.second) return lb_cmp(b, c.op, limit, first);
    ins *more = e->active ? idx_subk(b, e->active, 1) : lb_idx(b, e->lanes - 1);
    return lb_cmp(b, c.op, lb_add(b, first, more), limit);
}

// ---------------------------------------------------------------- guarded reads
static void load_where(emitter *e, expr *x, access *a, ins *guard, ins *fill, ins *result) {
    scope any = scope_if(e, lb_hreduce(&e->b, L_HOR, active_lanes(e, guard)));
    load_partly(e, x, a, guard, fill, result);
    scope_close(e, any);
}

// Of vectors within the bounds, which most are, no lane is compared.
static void load_in_bounds(emitter *e, expr *x, access *a, ins *fill, ins *result, ins *all) {
    lbuild *b = &e->b;
    scope branch = scope_if(e, all);
    lb_set(b, result, load_access(e, a, true));
    scope_else(e, branch);
    load_where(e, x, a, emit_value(e, guard_of(e, x)), fill, result);
    scope_close(e, branch);
}

ins *load_guarded(emitter *e, expr *x, access *a, bool vector) {
    lbuild *b = &e->b;
    if (expr_is_int(guard_of(e, x), 0)) return splat_to(e, emit_value(e, x->fill), vector);
    bool bounds = vector && !e->t->avx512 && emit_varies(e, guard_of(e, x)) && emit_varies(e, a->offset) &&
                  !emit_is_variable(e, x->buffer) && !entry_of(e, guard_of(e, x))->value;
    ins *all = bounds ? bounds_hold(e, guard_of(e, x)) : NULL;
    ins *guard = all ? NULL : emit_value(e, guard_of(e, x)),
        *fill = splat_to(e, emit_value(e, x->fill), vector);
    if (emit_is_variable(e, x->buffer))
        return lb_select(b, splat_to(e, guard, vector),
                         splat_to(e, lb_get(b, pointer_of(e, x->buffer)), vector), fill);
    ins *result = lb_var(b, x->buffer->name, fill);
    // Offsets may be computed here for use after the branch; loads must stay inside of it.
    emit_hoist(e, a->offset);
    if (all) {
        load_in_bounds(e, x, a, fill, result, all);
        return lb_get(b, result);
    }
    all = guard->type.lanes > 1 ? lb_hreduce(b, L_HAND, guard) : guard;
    if (guard->type.lanes > 1 && e->active) all = lb_int(b, lt(LK_I1, 1), 0);
    scope branch = scope_if(e, all);
    lb_set(b, result, splat_to(e, load_access(e, a, vector && emit_varies(e, a->offset)), vector));
    if (guard->type.lanes > 1) {
        scope_else(e, branch);
        load_where(e, x, a, guard, fill, result);
    }
    scope_close(e, branch);
    return lb_get(b, result);
}
