// Interleaving of planes in registers. With L lanes and, say, 4 planes:
//
//   for other axes, for x0 in steps of L:
//     plane[c] = f(c, x0 .. x0 + L)                         for c < 4
//     write[4 * x0 .. 4 * (x0 + L)] = plane[0][0], plane[1][0], plane[2][0], plane[3][0], plane[0][1] ...
#include "passes/schedule/cpu/schedule_interleave.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"

enum { MOST_PLANES = 8, MOST_LANES = 256 };

// ---------------------------------------------------------------- recognition
static bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

static int planes_of(const emitter *e, int axis) {
    const dim *n = e->extent[axis];
    return dim_is_const(n) && dim_value(n) > 1 && dim_value(n) <= MOST_PLANES ? (int)dim_value(n) : 0;
}

static bool find_axes(interleave *i, const access *to) {
    const nest *n = i->n;
    i->channel = i->x = -1;
    for (int j = 0; j < n->nparallel; j++)
        if (steps_by_one(to, n->parallel[j])) i->channel = n->parallel[j];
    i->planes = i->channel < 0 ? 0 : planes_of(n->e, i->channel);
    for (int j = 0; j < n->nparallel && i->planes; j++)
        if (expr_is_int(to->coef[n->parallel[j]], i->planes)) i->x = n->parallel[j];
    return i->x >= 0;
}

// Positions that floats make are converted lane by lane on many CPUs.
static bool makes_position(const expr *x) {
    return x->op == X_CAST && x->dtype == DT_I64 && dtype_is_float(x->arg[0]->dtype);
}

// Whether values vary along x without reads that do.
static bool varies_by_position(const interleave *i) {
    const stage *s = i->n->s;
    bool varies = expr_uses_axis(s->writes.at[0].value, i->x);
    for (int j = 0; j < s->states.n; j++) varies |= expr_uses_axis(s->states.at[j].step, i->x);
    return varies && !stage_any(s, makes_position);
}

// Reads are contiguous along x, and not along the planes, or invariant.
static bool reads_planes(const interleave *i) {
    emitter *e = i->n->e;
    expr_list all = stage_nodes(e->scratch, i->n->s, PART_ALL);
    bool any = varies_by_position(i);
    for (int j = 0; j < all.n; j++) {
        expr *x = all.at[j];
        if (x->op == X_CHECK) return false;
        if (x->op != X_READ) continue;
        const access *a = entry_of(e, x)->read;
        if (!a || !a->coef[i->x] || steps_by_one(a, i->channel)) return false;
        if (!steps_by_one(a, i->x) && !expr_is_int(a->coef[i->x], 0)) return false;
        any |= steps_by_one(a, i->x);
    }
    return any;
}

// Of sums, each plane has a few terms: its loops are built once for every plane.
static bool sums_simply(const nest *n) {
    for (int j = 0; j < n->s->states.n; j++)
        if (n->s->states.at[j].op == RED_CUSTOM) return false;
    for (int j = 0; j < n->ninner; j++)
        if (n->e->k->axes.at[n->inner[j]].kind != AXIS_REDUCE) return false;
    return !n->ninner == !n->s->states.n && stage_writes_at_end(n->s);
}

bool interleave_find(nest *n, interleave *i) {
    *i = (interleave){.n = n};
    emitter *e = n->e;
    if (!sums_simply(n) || n->s->writes.n != 1 || n->nparallel < 2 || !e->t->vector_bits) return false;
    const write *w = &n->s->writes.at[0];
    int bits = dtype_bits(w->to->dtype);
    if (!write_is_plain(w) || w->to->role == BUF_LOCAL || !n->writes[0]->affine) return false;
    bool truths = w->to->dtype == DT_BOOL && n->e->b.codes != DT_BOOL;
    if (bits < 8 || bits > 64 || truths || w->to->dtype == DT_C64 ||
        dtype_class_of(w->to->dtype) == DC_STRING)
        return false;
    if (!find_axes(i, n->writes[0]) || !reads_planes(i)) return false;
    i->lanes = target_lanes(e->t, bits > 32 ? bits : 32);
    i->whole = bits <= 16 && is_power_of_two(i->planes);
    if (e->t->dot_across && i->planes > 2) return false; // a scatter for each plane
    bool tiles = bits > 16 && is_power_of_two(i->planes) && i->planes > 2 && !n->ninner;
    if (!i->whole && e->t->arch.strided_loads) return false; // one instruction for each plane
    return i->lanes * i->planes <= MOST_LANES && !tiles;
}

// ---------------------------------------------------------------- building
// Lanes of n vectors in turn: v[0][0], v[1][0] ... v[n - 1][0], v[0][1] ...
static ins *zip(lbuild *b, ins *const *v, int n) {
    ins *part[2][MOST_PLANES / 2];
    int mask[MOST_LANES];
    if (n == 1) return v[0];
    for (int j = 0; j < n; j++) part[j % 2][j / 2] = v[j];
    ins *even = zip(b, part[0], n / 2), *odd = zip(b, part[1], n / 2);
    int lanes = even->type.lanes;
    for (int j = 0; j < 2 * lanes; j++) mask[j] = j / 2 + (j % 2 ? lanes : 0);
    return lb_shuffle(b, even, odd, mask, 2 * lanes);
}

// Lanes from `from` on of what zip makes, which need not be a power of two: one plane after the other joins.
static ins *zip_part(lbuild *b, ins *const *v, int n, int from) {
    int mask[MOST_LANES], lanes = v[0]->type.lanes;
    ins *r = v[0];
    for (int c = 1; c < n; c++) {
        for (int j = 0; j < lanes; j++) {
            int plane = (from + j) % n, lane = (from + j) / n;
            mask[j] = plane == c ? lanes + lane : c == 1 && plane == 0 ? lane : j;
        }
        r = lb_shuffle(b, r, v[c], mask, lanes);
    }
    return r;
}

// Stores the first `left` elements of a vector (NULL: all) from element `at` on.
static void store_part(emitter *e, const buffer *to, ins *at, ins *v, ins *left) {
    if (left) lb_storen(&e->b, pointer_of(e, to), at, v, left);
    else lb_store(&e->b, pointer_of(e, to), at, v, 0);
}

static void store_planes(interleave *i, ins *at, ins *const *plane, ins *left) {
    emitter *e = i->n->e;
    lbuild *b = &e->b;
    const buffer *to = i->n->s->writes.at[0].to;
    if (left) left = idx_mulk(b, left, i->planes);
    if (i->whole) {
        store_part(e, to, at, zip(b, plane, i->planes), left);
        return;
    }
    for (int c = 0; c < i->planes; c++) {
        int from = c * i->lanes;
        ins *rest = left ? lb_bin(b, L_SMAX, lb_idx(b, 0), idx_subk(b, left, from)) : NULL;
        if (rest) rest = lb_bin(b, L_SMIN, rest, lb_idx(b, i->lanes));
        store_part(e, to, idx_addk(b, at, from), zip_part(b, plane, i->planes, from), rest);
    }
}

// Of a plane, some conditions are known, such as which operand of a concatenation has it.
static void decide_conditions(interleave *i, int plane) {
    emitter *e = i->n->e;
    expr_list all = stage_nodes(e->scratch, i->n->s, PART_ALL);
    for (int j = 0; j < all.n; j++) {
        expr *x = all.at[j];
        if (x->dtype != DT_BOOL || !expr_uses_axis(x, i->channel) || expr_any(x, expr_reads_or_checks))
            continue;
        const expr *known = expr_substitute_axis(e->k, x, i->channel, x_i64(e->k, plane));
        if (known->op == X_CONST) use_value(e, x, lb_int(&e->b, lt(LK_I1, 1), known->i != 0));
    }
}

// Lanes from x0 on; left: how many of them exist, NULL: all.
static void one_vector(interleave *i, ins *x0, ins *left) {
    emitter *e = i->n->e;
    lbuild *b = &e->b;
    const write *w = &i->n->s->writes.at[0];
    ins *plane[MOST_PLANES], *at = NULL;
    e->counter[i->x] = x0, e->active = left;
    for (int c = 0; c < i->planes; c++) {
        scope mark = scope_open(e);
        e->counter[i->channel] = lb_idx(b, c);
        decide_conditions(i, c);
        if (c == 0) at = emit_index(e, i->n->writes[0]->offset);
        nest_reduce(i->n);
        plane[c] = element_code(b, w->to->dtype, emit_vector(e, w->value));
        scope_close(e, mark);
    }
    e->counter[i->x] = e->counter[i->channel] = NULL, e->active = NULL;
    store_planes(i, at, plane, left);
}

static void along_x(interleave *i) {
    emitter *e = i->n->e;
    lbuild *b = &e->b;
    ins *end = emit_dim(e, e->extent[i->x]), *whole = emit_int_floor(b, end, i->lanes);
    scope loop = scope_for(e, "x", lb_idx(b, 0), whole, i->lanes, LOOP_SERIAL);
    one_vector(i, loop.head, NULL);
    scope_close(e, loop);
    if (same_index(whole, end)) return;
    ins *left = lb_sub(b, end, whole);
    scope some = scope_if(e, left->op == L_CONST ? NULL : lb_cmp(b, L_SLT, lb_idx(b, 0), left));
    one_vector(i, whole, left);
    scope_close(e, some);
}

static void other_loops(interleave *i, int depth) {
    emitter *e = i->n->e;
    if (depth == i->n->nparallel) {
        along_x(i);
        return;
    }
    int a = i->n->parallel[depth];
    if (a == i->x || a == i->channel) {
        other_loops(i, depth + 1);
        return;
    }
    scope loop = scope_parallel(e, a);
    other_loops(i, depth + 1);
    scope_close(e, loop);
}

// The longest other axis has the tasks.
static void choose_task_axis(const interleave *i) {
    emitter *e = i->n->e;
    task_axes all = {.chunked = -1, .single = -1};
    for (int j = 0; j < i->n->nparallel; j++) {
        int a = i->n->parallel[j];
        if (a == i->x || a == i->channel) continue;
        if (all.n && dim_less(e->extent[all.axes[0]], e->extent[a]) == TRI_YES) all.n = 0;
        all.axes[all.n++] = a;
    }
    emitter_choose_tasks(e, &all);
}

void schedule_interleave(interleave *i, bool alone) {
    emitter *e = i->n->e;
    if (alone) choose_task_axis(i);
    scope mark = scope_open(e);
    emitter_stage(e, i->n->s, i->x, i->lanes, false);
    other_loops(i, 0);
    emitter_stage(e, i->n->s, -1, 1, false);
    scope_close(e, mark);
}
