// Classification of kernels, and the cost of recomputing their values.
#include "passes/fuse/fuse_impl.h"
#include "passes/match/contract.h"
#include <math.h>
#include <string.h>

// ---------------------------------------------------------------- one value
// The cost of a value along its innermost axis: index arithmetic, guards and invariant operands are free.
typedef struct value_terms {
    const write *w;
    int inner;       // axis, -1: none
    uint8_t *varies; // by id
    uint8_t *wanted; // by id: an operand other than an index
    cost c;
    bool one_chain; // only conversions, and products and differences with parameters
    int elements;   // reads that are not parameters
    bool narrow;    // their elements are narrower than the result
} value_terms;

static void examine_varies(value_terms *l, const expr *e) {
    expr *operand[MAX_RANK + 3];
    int n = expr_operands(e, operand);
    bool v = e->op == X_AXIS && e->axis == l->inner;
    for (int j = 0; j < n; j++) v |= l->varies[operand[j]->id];
    l->varies[e->id] = v;
}

// A read shared by several elements of a row or column: scales and zero points of channels or blocks.
static bool is_parameter(const value_terms *l, const expr *e) {
    for (int j = 0; j < l->w->to->rank; j++) {
        const expr *i = l->w->index[j];
        bool plain = i->op != X_AXIS;
        for (int d = 0; d < e->buffer->rank && !plain; d++)
            plain = e->index[d]->op != X_FLOORDIV && expr_uses_axis(e->index[d], i->axis);
        if (!plain) return true;
    }
    return false;
}

static bool is_parametric(const value_terms *l, const expr *e) {
    while (e->op == X_CAST) e = e->arg[0];
    return !l->varies[e->id] || (e->op == X_READ && is_parameter(l, e));
}

static void examine_costs(value_terms *l, const expr *e) {
    if (!l->varies[e->id]) return;
    if (e->op == X_READ) l->c.reads++;
    if (e->op == X_READ && !is_parameter(l, e)) {
        l->elements++;
        int bits = e->buffer->role == BUF_CONST ? 0 : dtype_bits(e->buffer->dtype);
        if (bits > l->c.bits) l->c.bits = bits;
        l->narrow =
            dtype_bits(e->buffer->dtype) <= 16 && dtype_bits(e->buffer->dtype) < dtype_bits(l->w->to->dtype);
    }
    l->c.work += expr_op_cost(e->op);
    l->c.moves &= expr_op_cost(e->op) == 0 && e->op != X_AXIS;
    bool chain = e->op == X_READ || e->op == X_CAST;
    if (e->op == X_MUL || e->op == X_SUB) chain = is_parametric(l, e->arg[0]) != is_parametric(l, e->arg[1]);
    l->one_chain &= chain;
}

// Index arithmetic is not free if it calls functions: buckets of relative positions are logarithms.
static void examine_index(value_terms *l, const expr *e) {
    enum { CALL = 12 };
    if (l->wanted[e->id] || !l->varies[e->id] || expr_op_cost(e->op) < CALL) return;
    l->c.work += expr_op_cost(e->op);
    l->c.moves = l->one_chain = false;
}

static void want_operands(value_terms *l, const expr *e) {
    for (int j = 0; j < expr_arity(e->op); j++) l->wanted[e->arg[j]->id] = 1;
    if (e->op == X_READ && e->guard) l->wanted[e->fill->id] = 1;
}

int innermost_dim(const write *w) {
    for (int j = w->to->rank - 1; j >= 0; j--)
        if (w->index[j]->op != X_CONST && w->index[j]->op != X_DIM) return j;
    return -1;
}

static int inner_axis(const kernel *k, const write *w) {
    int d = innermost_dim(w);
    for (int a = 0; d >= 0 && a < k->axes.n; a++)
        if (expr_uses_axis(w->index[d], a)) return a;
    return -1;
}

cost cost_of(const kernel *k, const write *w) {
    arena *scratch = arena_new();
    value_terms l = {.w = w, .inner = inner_axis(k, w), .c = {.moves = true}, .one_chain = true};
    l.varies = ARENA_ARRAY(scratch, uint8_t, w->value->id + 1);
    l.wanted = ARENA_ARRAY(scratch, uint8_t, w->value->id + 1);
    expr_list all = expr_nodes(scratch, w->value);
    for (int j = 0; j < all.n; j++) examine_varies(&l, all.at[j]);
    l.wanted[w->value->id] = 1;
    for (int j = all.n - 1; j >= 0; j--) {
        if (!l.wanted[all.at[j]->id]) {
            examine_index(&l, all.at[j]);
            continue;
        }
        examine_costs(&l, all.at[j]);
        want_operands(&l, all.at[j]);
    }
    bool single = w->value->op == X_READ || w->value->op == X_CONST || w->value->op == X_DIM;
    l.c.moves &= l.c.reads <= 1 && (l.inner >= 0 || single);
    l.c.scales = l.one_chain && (l.c.reads == 1 || (l.elements == 1 && l.narrow));
    arena_destroy(scratch);
    return l.c;
}

// ---------------------------------------------------------------- kinds of kernels
bool has_states(const kernel *k) {
    for (int j = 0; j < k->stages.n; j++)
        if (k->stages.at[j]->states.n) return true;
    return false;
}

static bool plain_writes(const stage *s) {
    for (int j = 0; j < s->writes.n; j++)
        if (s->writes.at[j].when != WRITE_END || s->writes.at[j].combine != COMBINE_SET) return false;
    return true;
}

bool is_pointwise(const kernel *k) {
    if (k->stages.n != 1 || k->locals.n || k->stages.at[0]->states.n) return false;
    const stage *s = k->stages.at[0];
    for (int j = 0; j < s->axes.n; j++)
        if (k->axes.at[s->axes.at[j]].kind != AXIS_PARALLEL) return false;
    return plain_writes(s);
}

// Dequantisation is inlined like data movement, so that the narrow elements are stored.
static bool widens(arena *scratch, const write *w) {
    expr_list reads = reads_only(expr_nodes(scratch, w->value));
    bool found = false;
    for (int j = 0; j < reads.n; j++) {
        int bits = dtype_bits(reads.at[j]->buffer->dtype);
        found |= bits < dtype_bits(w->to->dtype) && bits <= 8;
    }
    return found && dtype_is_float(w->to->dtype);
}

static bool moves_all(const kernel *k, bool dequantised) {
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        if (s->states.n || !plain_writes(s)) return false;
        for (int i = 0; i < s->writes.n; i++) {
            const write *w = &s->writes.at[i];
            cost c = cost_of(k, w);
            if (!c.reads || !(c.moves || (dequantised && c.scales && widens(k->arena, w)))) return false;
        }
    }
    return true;
}

bool is_movement(const kernel *k) { return moves_all(k, true); }

bool only_moves(const kernel *k) { return moves_all(k, false); }

bool is_plain_copy(const kernel *k) {
    const stage *s = k->stages.n == 1 && !k->stages.at[0]->states.n ? k->stages.at[0] : NULL;
    const write *w = s && s->writes.n == 1 && plain_writes(s) ? &s->writes.at[0] : NULL;
    const expr *x = w ? w->value : NULL;
    if (!x || x->op != X_READ || x->guard || w->guard || x->buffer->rank != w->to->rank) return false;
    for (int d = 0; d < w->to->rank; d++)
        if (x->index[d] != w->index[d]) return false;
    return x->buffer->dtype == w->to->dtype;
}

// ---------------------------------------------------------------- contractions
static bool is_reduce(const kernel *k, const stage *s, int axis) {
    for (int j = 0; j < s->axes.n; j++)
        if (s->axes.at[j] == axis) return k->axes.at[axis].kind == AXIS_REDUCE;
    return false;
}

// The axes (by bit) in the reads of a factor that depend on a reduce axis; false: there is no such read. Each row has its own locals.
static bool factor_axes(const kernel *k, const stage *s, expr *factor, uint64_t *axes) {
    expr_list reads = reads_only(expr_nodes(k->arena, factor));
    bool any = false;
    *axes = 0;
    for (int j = 0; j < reads.n; j++) {
        uint64_t used = 0;
        bool reduces = false;
        for (int a = 0; a < k->axes.n && a < 64; a++)
            if (index_uses_axis(reads.at[j], a)) used |= UINT64_C(1) << a, reduces |= is_reduce(k, s, a);
        if (reads.at[j]->buffer->role == BUF_LOCAL)
            used |= k->nouter < 64 ? (UINT64_C(1) << k->nouter) - 1 : UINT64_MAX;
        if (reduces) *axes |= used, any = true;
    }
    return any;
}

bool stage_contracts(const kernel *k, const stage *s) {
    for (int j = 0; j < s->states.n; j++) {
        const state *st = &s->states.at[j];
        uint64_t a, b;
        if (st->op != RED_SUM || st->step->op != X_MUL) continue;
        if (factor_axes(k, s, st->step->arg[0], &a) && factor_axes(k, s, st->step->arg[1], &b) && a != b)
            return true;
    }
    return false;
}

bool is_contraction(const kernel *k) {
    for (int j = 0; j < k->stages.n; j++)
        if (stage_contracts(k, k->stages.at[j])) return true;
    return false;
}

// As contractions do whose images have one channel.
bool sums_one_product(const kernel *k) {
    const stage *s = k->stages.n == 1 ? k->stages.at[0] : NULL;
    if (!s || s->states.n != 1 || s->states.at[0].op != RED_SUM || s->states.at[0].step->op != X_MUL)
        return false;
    for (int j = 0; j < s->axes.n; j++)
        if (is_reduce(k, s, s->axes.at[j]) && !dim_is(k->axes.at[s->axes.at[j]].extent, 1)) return false;
    return true;
}

// An element of the buffer, or another value outside of it.
static bool is_element(const expr *x, const buffer *root) {
    if (x->op == X_SELECT && x->arg[2]->op == X_CONST) x = x->arg[1];
    return x->op == X_READ && buffer_root(x->buffer) == root;
}

bool makes_bytes(const kernel *k, const buffer *root, bool sums) {
    const stage *s = k->stages.n == 1 && !k->locals.n ? k->stages.at[0] : NULL;
    if (!s || s->states.n > 1 || s->writes.n != 1) return false;
    const write *w = &s->writes.at[0];
    const state *st = s->states.n ? &s->states.at[0] : NULL;
    bool plain = write_is_plain(w) && dtype_is_byte(w->to->dtype) && w->value->dtype == w->to->dtype;
    bool chooses = !st || st->op == RED_MAX || st->op == RED_MIN;
    if (!plain || !(chooses || (sums && st->op == RED_SUM))) return false;
    int elements = 0, others = 0;
    expr_list reads = reads_only(kernel_nodes(k->arena, k, PART_ALL));
    for (int j = 0; j < reads.n; j++) {
        const buffer *b = reads.at[j]->buffer;
        if (buffer_root(b) == root) elements++;
        else others += b->role != BUF_CONST || b->rank;
    }
    return elements == 1 && !others && (!st || is_element(st->step, root));
}

static expr_list term_reads(const kernel *k) { return reads_only(kernel_nodes(k->arena, k, PART_STEP)); }

// The axes (by bit) along which one factor of a kernel's only sum of products may advance by data, from one matrix to
// the next: those along which both factors advance, and, if the columns are its own, those of its own rows too.
static uint64_t selecting_axes(const kernel *k, const stage *s, uint64_t own, uint64_t other) {
    const write *w = s->writes.n == 1 ? &s->writes.at[0] : NULL;
    const expr *last = w && w->to->rank ? w->index[w->to->rank - 1] : NULL;
    if (!last || last->op != X_AXIS || last->axis >= 64) return 0;
    uint64_t columns = UINT64_C(1) << last->axis,
             axes = own & columns ? own & ~columns : own & other & ~columns;
    for (int j = 0; j < k->axes.n && j < 64; j++)
        if (k->axes.at[j].kind != AXIS_PARALLEL) axes &= ~(UINT64_C(1) << j);
    return axes;
}

static bool uses_only(const kernel *k, const expr *e, uint64_t axes) {
    for (int j = 0; j < k->axes.n; j++)
        if (expr_uses_axis(e, j) && (j >= 64 || !(axes >> j & 1))) return false;
    return true;
}

// Whether an axis of the sum alone is the index, from its end on: channels in reverse order are copied.
static bool is_reversed(kernel *k, expr *index) {
    for (int a = 0; a < k->axes.n; a++) {
        if (k->axes.at[a].kind != AXIS_REDUCE || !expr_uses_axis(index, a)) continue;
        const expr *slope = expr_slope(k, index, a);
        for (int b = 0; b < k->axes.n; b++)
            if (b != a && expr_uses_axis(index, b)) return false;
        return slope && slope->op == X_CONST && slope->i < 0;
    }
    return false;
}

// Whether this is the index of a block of the sum, such as that of a scale, or of a group of matrices; rows that an image repeats are
// copied.
static bool is_block(const kernel *k, const expr *index, uint64_t selecting) {
    if (index->op != X_FLOORDIV || index->arg[1]->op != X_CONST) return false;
    for (int a = 0; a < k->axes.n; a++) {
        bool sums = k->axes.at[a].kind == AXIS_REDUCE, selects = a < 64 && selecting >> a & 1;
        if (!sums && !selects && expr_uses_axis(index, a) && !dim_is(k->axes.at[a].extent, 1)) return false;
    }
    return true;
}

static bool is_affine_read(kernel *k, const expr *read, uint64_t selecting) {
    expr *base, *coef[256];
    // Channels of windows in another order are copied once, with a halo, rather than selected for each element of a window.
    if (selecting && read_slides(k, read)) selecting = 0;
    for (int j = 0; j < read->buffer->rank && k->axes.n <= 256; j++) {
        expr *i = read->index[j];
        if (is_block(k, i, selecting)) i = i->arg[0];
        if (!expr_affine(k, i, &base, coef) && !uses_only(k, i, selecting)) return false;
        if (is_reversed(k, i)) return false;
    }
    return true;
}

static bool affine_reads(kernel *k, expr_list reads, uint64_t selecting) {
    for (int j = 0; j < reads.n; j++)
        if (!is_affine_read(k, reads.at[j], selecting)) return false;
    return true;
}

// Whether all reads in reduction terms have affine indices.
static bool affine_terms(kernel *k) {
    uint64_t a, b;
    const stage *s = k->stages.n == 1 ? k->stages.at[0] : NULL;
    const expr *x = s && s->states.n == 1 ? s->states.at[0].step : NULL;
    if (!x || x->op != X_MUL || !factor_axes(k, s, x->arg[0], &a) || !factor_axes(k, s, x->arg[1], &b))
        return affine_reads(k, term_reads(k), 0);
    return affine_reads(k, reads_only(expr_nodes(k->arena, x->arg[0])), selecting_axes(k, s, a, b)) &&
           affine_reads(k, reads_only(expr_nodes(k->arena, x->arg[1])), selecting_axes(k, s, b, a));
}

// Whether reads in reduction terms have no guard, or one that a halo can replace.
static bool open_terms(kernel *k) {
    int64_t lo[MAX_RANK], hi[MAX_RANK];
    expr_list reads = term_reads(k);
    for (int j = 0; j < reads.n; j++)
        if (reads.at[j]->guard && !halo_of_read(k, reads.at[j], lo, hi)) return false;
    return true;
}

bool still_contracts(kernel *k, kernel *old) {
    if (!is_contraction(old)) return true;
    if (!is_contraction(k) || (affine_terms(old) && !affine_terms(k))) return false;
    return !open_terms(old) || open_terms(k);
}

static bool reads_floats(const expr *e, arena *scratch) {
    expr_list reads = reads_only(expr_nodes(scratch, (expr *)e));
    for (int j = 0; j < reads.n; j++)
        if (reads.at[j]->buffer->role != BUF_CONST || !dtype_is_float(reads.at[j]->buffer->dtype))
            return false;
    return reads.n > 0;
}

// Whether windows of the read have elements in common: its step from one to the next is shorter than a window.
static bool windows_overlap(kernel *k, const expr *read) {
    for (int d = 0; d < read->buffer->rank; d++)
        for (int p = 0; p < k->axes.n; p++)
            for (int r = 0; r < k->axes.n; r++) {
                expr *i = read->index[d];
                if (k->axes.at[p].kind != AXIS_PARALLEL || k->axes.at[r].kind != AXIS_REDUCE) continue;
                if (!expr_uses_axis(i, p) || !expr_uses_axis(i, r)) continue;
                const expr *step = expr_slope(k, i, p), *tap = expr_slope(k, i, r);
                bool known = step && tap && step->op == X_CONST && tap->op == X_CONST;
                if (known && step->i < tap->i * k->axes.at[r].extent->max) return true;
            }
    return false;
}

bool multiplies_windows(kernel *k, const buffer *root) {
    const stage *s = k->stages.n == 1 ? k->stages.at[0] : NULL;
    const expr *x = s && s->states.n == 1 ? s->states.at[0].step : NULL;
    for (int j = 0; x && x->op == X_MUL && j < 2; j++) {
        expr_list reads = reads_only(expr_nodes(k->arena, x->arg[j]));
        for (int i = 0; i < reads.n; i++)
            if (root_of(reads.at[i]->buffer) == root && windows_overlap(k, reads.at[i]))
                return reads_floats(x->arg[1 - j], k->arena);
    }
    return false;
}

static bool has_guard(const kernel *k) {
    expr_list reads = term_reads(k);
    for (int j = 0; j < reads.n; j++)
        if (reads.at[j]->guard) return true;
    return false;
}

bool keeps_windows(kernel *k, kernel *old) {
    return is_contraction(old) || !has_guard(old) || !open_terms(old) || open_terms(k);
}

// ---------------------------------------------------------------- demand
typedef struct demand {
    const kernel *k;
    const buffer *root;
    arena *scratch;
    int *axes, naxes; // loops around the current reads, outermost first
    double total;
    bool seen;
} demand;

static double ratio(dim *loops, dim *count) {
    if (dim_less_equal(loops, count) == TRI_YES) return 1;
    if (dim_is_const(loops) && dim_is_const(count))
        return dim_value(count) ? (double)dim_value(loops) / (double)dim_value(count) : 1;
    dim *q = count->min > 0 || count->max < 0 ? dim_floordiv(loops, count) : NULL;
    return q && dim_is_const(q) ? (double)dim_value(q) : HUGE_VAL;
}

// Loops inside the innermost one that the index uses hit the same element.
static double times_read(const demand *d, const expr *e) {
    dims *t = d->k->program->dims;
    dim *used = dim_const(t, 1);
    int last = -1, nused = 0, wide = 0;
    double again = 1;
    for (int j = 0; j < d->naxes; j++)
        if (index_uses_axis(e, d->axes[j])) last = j;
    for (int j = 0; j <= last; j++) {
        dim *n = d->k->axes.at[d->axes[j]].extent;
        if (index_uses_axis(e, d->axes[j])) used = dim_mul(used, n), nused++;
        else again *= dim_is_const(n) ? (double)dim_value(n) : HUGE_VAL;
    }
    for (int j = 0; j < e->buffer->rank; j++) wide += !dim_is(e->buffer->dims[j], 1);
    if (last < 0) return 1;
    double more = ratio(used, buffer_count(e->buffer));
    if (more == HUGE_VAL && nused <= wide) more = 1; // windows have more loops than the buffer has dims
    return again * more;
}

static void examine_demand(demand *d, expr *e) {
    expr_list reads = reads_only(expr_nodes(d->scratch, e));
    for (int j = 0; j < reads.n; j++) {
        if (root_of(reads.at[j]->buffer) != d->root) continue;
        d->seen = true;
        d->total += times_read(d, reads.at[j]);
    }
}

double demand_of(const kernel *k, const buffer *root, bool *in_contraction) {
    demand d = {.k = k, .root = root, .scratch = arena_new()};
    d.axes = ARENA_ARRAY(d.scratch, int, k->axes.n + 1);
    for (int j = 0; j < k->stages.n; j++) {
        const stage *s = k->stages.at[j];
        int nparallel = k->nouter, n = k->nouter;
        for (int a = 0; a < k->nouter; a++) d.axes[a] = a;
        for (int i = 0; i < s->axes.n; i++) {
            d.axes[n++] = s->axes.at[i];
            if (k->axes.at[s->axes.at[i]].kind == AXIS_PARALLEL) nparallel = n;
        }
        d.naxes = n, d.seen = false;
        for (int i = 0; i < s->states.n; i++) examine_demand(&d, s->states.at[i].step);
        if (d.seen && stage_contracts(k, s)) *in_contraction = true;
        for (int i = 0; i < s->writes.n; i++) {
            const write *w = &s->writes.at[i];
            d.naxes = w->when == WRITE_END ? nparallel : n;
            for (int x = 0; x < w->to->rank; x++) examine_demand(&d, w->index[x]);
            examine_demand(&d, w->value);
            if (w->guard) examine_demand(&d, w->guard);
        }
        d.naxes = nparallel;
        for (int i = 0; i < s->states.n; i++) examine_demand(&d, s->states.at[i].init);
    }
    arena_destroy(d.scratch);
    return d.total;
}
