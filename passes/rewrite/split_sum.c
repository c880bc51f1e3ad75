// Split-K: sums of products with too few results to keep a GPU busy. In: a contraction whose sums have
// constant lengths,
//
//   for m, n: out = f(sum over k < K of t[k])
//
// Out: a kernel that sums pieces in parallel, and one that adds them up in order:
//
//   for p < P, m, n: parts[p, m, n] = sum over i < K / P of t[p * K / P + i]
//   for m, n:        out = f(sum over p of parts[p, m, n])
//
// If the number of rows (or columns) is known only at run time, the program selects there between these
// kernels, if there are few, and the original one.
#include "ir/kernel/edit.h"
#include "ir/kernel/variant.h"
#include "ir/target.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"
#include "passes/passes.h"

// Blocks are tiles of SIDE x SIDE results; a piece of at least LEAST terms is worth a block.
enum { SIDE = 64, LEAST = 128, STEP = 32, ROUNDS = 4 };

typedef struct split {
    program *p;
    const target *t;
    contraction c;
    kernel *old;
    int axis; // the K axis that is split
    int64_t pieces;
    int parallel[MAX_AXES], nparallel; // with constant extents
    int open[MAX_AXES], nopen;         // the others; their product is `rows`
    dim *rows;
    int64_t few; // rows up to which splitting is profitable
    buffer *parts;
    kernel *k;   // under construction
    expr **axes; // by axis of the original kernel
    expr *state;
} split;

// ---------------------------------------------------------------- matching

// The product of extents; -1: out of range or unknown.
static int64_t extent_of(const kernel *k, const int *axes, int n) {
    int64_t product = 1;
    for (int j = 0; j < n; j++) {
        const dim *d = k->axes.at[axes[j]].extent;
        if (!dim_is_const(d) || dim_value(d) > INT32_MAX || product > INT32_MAX) return -1;
        product *= dim_value(d);
    }
    return product;
}

typedef struct sizes {
    int64_t m, n, batch, k;
} sizes;

// The axes with a constant extent.
static axis_list known(const kernel *k, const int *axes, int n) {
    axis_list l = {0};
    for (int j = 0; j < n; j++)
        if (dim_is_const(k->axes.at[axes[j]].extent)) l.at[l.n++] = axes[j];
    return l;
}

// Axes of unknown extent, which must be all rows or all columns, are assumed to be few.
static sizes sizes_of(split *s) {
    const contraction *c = &s->c;
    axis_list columns = contraction_columns(c);
    axis_list m = known(c->k, c->m.at, c->m.n), n = known(c->k, columns.at, columns.n);
    sizes z = {extent_of(c->k, m.at, m.n), extent_of(c->k, n.at, n.n),
               extent_of(c->k, c->batch.at, c->batch.n), extent_of(c->k, c->k_axes.at, c->k_axes.n)};
    if (m.n == c->m.n && n.n == columns.n) return z;
    if ((m.n < c->m.n && n.n < columns.n) || z.m < 1 || z.n < 1) return (sizes){0};
    int64_t *side = m.n < c->m.n ? &z.m : &z.n;
    s->few = *side < SIDE ? SIDE / *side : 1;
    *side *= s->few;
    return z;
}

static int64_t tiles(int64_t extent) { return (extent + SIDE - 1) / SIDE; }

// The number of pieces that fills ROUNDS waves of blocks, without adding more memory traffic than the operands have.
static int64_t most_pieces(const sizes *z, const target *t) {
    if (z->m < 1 || z->n < 1 || z->batch < 1 || z->k < 1) return 1;
    double results = (double)z->m * (double)z->n * (double)z->batch,
           blocks = (double)(tiles(z->m) * tiles(z->n));
    double most = ROUNDS * t->processors / (blocks * (double)z->batch),
           traffic = ((double)z->m + (double)z->n) * (double)z->k * (double)z->batch / results;
    if (blocks * (double)z->batch >= t->processors) return 1;
    if (traffic < most) most = traffic;
    return most > (double)(z->k / LEAST) ? z->k / LEAST : (int64_t)most;
}

// Pieces of an axis have equal length and, if it is the only K axis, consist of whole K tiles.
static int64_t pieces_of(int64_t extent, int64_t most, bool alone) {
    int64_t best = 1;
    for (int64_t n = 2; n <= most && n <= extent; n++)
        if (extent % n == 0 && (!alone || extent / n % STEP == 0)) best = n;
    return best;
}

// Other passes leave unused axes.
static bool is_walked(const split *s, int axis) {
    bool walked = axis < s->old->nouter;
    for (int j = 0; j < s->c.s->axes.n; j++) walked |= s->c.s->axes.at[j] == axis;
    return walked;
}

static bool choose(split *s) {
    const contraction *c = &s->c;
    const state *st = &c->s->states.at[0];
    bool sums = st->dtype == DT_F32 || st->dtype == DT_F64 || st->dtype == DT_I32;
    if (!sums || st->init->op != X_CONST || st->init->i != 0) return false;
    sizes z = sizes_of(s);
    int64_t most = most_pieces(&z, s->t);
    s->pieces = 1;
    for (int j = 0; j < c->k_axes.n && most > 1; j++) {
        int64_t n = pieces_of(extent_of(c->k, &c->k_axes.at[j], 1), most, c->k_axes.n == 1);
        if (n > s->pieces) s->pieces = n, s->axis = c->k_axes.at[j];
    }
    s->rows = dim_const(s->p->dims, 1);
    for (int a = 0; a < s->old->axes.n; a++) {
        const axis *x = &s->old->axes.at[a];
        if (x->kind != AXIS_PARALLEL || !is_walked(s, a)) continue;
        if (dim_is_const(x->extent)) {
            s->parallel[s->nparallel++] = a;
            continue;
        }
        if (dim_is_opaque(x->extent))
            return false; // not known at entry, so the workspace could not be planned
        s->open[s->nopen++] = a;
        s->rows = dim_mul(s->rows, x->extent);
    }
    return s->pieces > 1 && s->nparallel + 1 < MAX_RANK && s->rows->min <= (s->nopen ? s->few : 1);
}

// ---------------------------------------------------------------- the two kernels

static expr *moved(split *s, expr *e) { return expr_substitute(s->k, e, s->axes, s->state); }

static stage *begin_kernel(split *s, const char *name) {
    s->k = variant_new(s->p, s->old, name, "split");
    s->axes = ARENA_ARRAY(s->k->arena, expr *, s->old->axes.n + 1);
    return kernel_stage(s->k);
}

static void add_axes(split *s, stage *st, axis_kind kind) {
    for (int a = 0; a < s->old->axes.n; a++) {
        const axis *x = &s->old->axes.at[a];
        if (x->kind != kind || !is_walked(s, a)) continue;
        dim *extent = kind == AXIS_REDUCE && a == s->axis
                          ? dim_const(s->p->dims, dim_value(x->extent) / s->pieces)
                          : x->extent;
        s->axes[a] = stage_own_axis(s->k, st, kind, x->name, extent);
    }
}

// The indices of parts[p, row, known axes...]: rows are collapsed into one axis of bounded size.
static void part_index(const split *s, expr *piece, expr **index) {
    index[0] = piece;
    index[1] = variant_position(s->k, s->old, s->open, s->nopen, s->axes);
    for (int j = 0; j < s->nparallel; j++) index[j + 2] = s->axes[s->parallel[j]];
}

static void make_parts(split *s) {
    stage *st = begin_kernel(s, arena_printf(s->p->arena, "%s_parts", s->old->name));
    dim *dims[MAX_RANK],
        *piece = dim_const(s->p->dims, dim_value(s->old->axes.at[s->axis].extent) / s->pieces);
    expr *index[MAX_RANK],
        *p = stage_own_axis(s->k, st, AXIS_PARALLEL, "p", dim_const(s->p->dims, s->pieces));
    add_axes(s, st, AXIS_PARALLEL);
    add_axes(s, st, AXIS_REDUCE);
    s->axes[s->axis] = x_add(s->k, x_mul(s->k, p, x_dim(s->k, piece)), s->axes[s->axis]);
    dims[0] = dim_const(s->p->dims, s->pieces);
    dims[1] = s->nopen ? dim_min(s->rows, dim_const(s->p->dims, s->few)) : s->rows;
    for (int j = 0; j < s->nparallel; j++) dims[j + 2] = s->old->axes.at[s->parallel[j]].extent;
    const state *sum = &s->c.s->states.at[0];
    s->parts = program_temp(s->p, arena_printf(s->p->arena, "%s.parts", s->c.w->to->name), sum->dtype,
                            s->nparallel + 2, dims);
    part_index(s, p, index);
    stage_write(s->k, st, s->parts, index, stage_reduce(s->k, st, RED_SUM, moved(s, sum->step)));
}

static void make_sum(split *s) {
    const write *w = s->c.w;
    stage *st = begin_kernel(s, s->old->name);
    expr *index[MAX_RANK];
    add_axes(s, st, AXIS_PARALLEL);
    part_index(s, stage_own_axis(s->k, st, AXIS_REDUCE, "p", dim_const(s->p->dims, s->pieces)), index);
    s->state = stage_reduce(s->k, st, RED_SUM, x_read(s->k, s->parts, index));
    for (int j = 0; j < w->to->rank; j++) index[j] = moved(s, w->index[j]);
    stage_write(s->k, st, w->to, index, moved(s, w->value));
}

static void split_step(program *p, const target *t, region *r, step *at) {
    split s = {.p = p, .t = t, .old = at->kernel};
    if (!contraction_find(s.old, &s.c) || !choose(&s)) return;
    make_parts(&s);
    kernel *parts = s.k;
    make_sum(&s);
    dim *few = s.nopen ? dim_lt(s.rows, dim_const(p->dims, s.few + 1)) : NULL;
    variant_replace(p, r, at, parts, s.k, few);
}

void pass_split_sums(pass_context *c) {
    program *p = c->program;
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++) {
        step *s = steps.at[j].s;
        if (s->kind == STEP_KERNEL && !s->kernel->algorithm) split_step(p, c->target, steps.at[j].region, s);
    }
    program_compact(p);
}
