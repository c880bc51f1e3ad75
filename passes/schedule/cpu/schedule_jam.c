// Unroll-and-jam over vectors: if most work of a loop body is scalar and invariant along the vector axis (the
// position of a sample, the weights of its neighbours), several vectors share it.
//
//   for p, for v in steps of lanes:             for p, for v in steps of 4 * lanes:
//     indices, weights                            indices, weights
//     out[p, v ..] = f(image[indices, v ..])      out[p, v ..] = f(image[indices, v ..]), four vectors wide
//
// Reductions and scans down the columns of a matrix read whole cache lines one after the other in each row, as prefetchers
// do.
#include "passes/match/contract.h"
#include "passes/schedule/common/nest.h"

// ---------------------------------------------------------------- cost of a step
typedef struct work {
    const nest *n;
    int scalar, vector;
    bool indirect; // loads vectors at data-dependent positions
} work;

// Scalar conversions between floats and integers also clamp.
static int cost_of(const expr *x) { return x->op == X_CAST ? 6 : expr_op_cost(x->op); }

// Whether x is computed in each iteration of the inner loops, instead of being hoisted.
static bool is_repeated(const nest *n, expr *x) {
    for (int j = 0; j < n->ninner; j++)
        if (expr_uses_axis(x, n->inner[j])) return true;
    return false;
}

// Positions that are found by data, or in floats; others are clamped at most.
static bool is_found(const work *w, expr *position) {
    expr_list all = expr_nodes(w->n->e->scratch, position);
    for (int j = 0; j < all.n; j++)
        if (all.at[j]->op == X_READ || all.at[j]->op == X_CAST) return true;
    return false;
}

static void add_work(work *w, expr *x) {
    if (expr_uses_axis(x, w->n->vaxis) && x->dtype != DT_I64) w->vector += cost_of(x);
    else if (is_repeated(w->n, x)) w->scalar += cost_of(x);
    const access *a = x->op == X_READ ? entry_of(w->n->e, x)->read : NULL;
    if (a && !a->affine && a->coef[w->n->vaxis] && expr_uses_axis(a->offset, w->n->vaxis))
        w->indirect |= is_found(w, a->offset);
}

static bool is_plain(dtype t) {
    return t == DT_F32 || t == DT_F64 || t == DT_I32 || t == DT_I64 || t == DT_U32 || t == DT_BOOL;
}
static bool reads_odd(const expr *x) { return x->op == X_READ && !is_plain(x->buffer->dtype); }

// Types whose conversion instructions have a fixed width are excluded.
static bool is_simple(const nest *n) {
    for (int j = 0; j < n->s->writes.n; j++)
        if (!is_plain(n->s->writes.at[j].to->dtype)) return false;
    return !stage_any(n->s, reads_odd);
}

// ---------------------------------------------------------------- unroll factor
// Sums and terms must stay in registers.
static int most_vectors(const nest *n) {
    int states = n->s->states.n > 1 ? n->s->states.n : 1;
    return n->e->t->vector_regs / (4 * states);
}

// The tail is one more iteration under a mask, or scalar.
static bool fits(const nest *n, int vectors) {
    const dim *extent = n->e->extent[n->vaxis];
    int64_t lanes = (int64_t)vectors * n->lanes;
    if (!dim_is_const(extent)) return n->masked;
    return dim_value(extent) >= lanes && (n->masked || dim_value(extent) % lanes == 0);
}

static bool is_distance(const expr *x) { return !expr_is_int(x, 0) && !expr_is_int(x, 1); }

// Whether a long inner loop reads a vector at each step, a stride apart: down the columns of a matrix.
static bool reads_columns(const nest *n) {
    enum { LONG = 8 };
    if (!n->ninner || n->e->extent[n->inner[n->ninner - 1]]->max < LONG) return false;
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, n->s->states.n ? PART_STEP : PART_ALL));
    bool any = false;
    for (int j = 0; j < reads.n; j++) {
        const access *a = entry_of(n->e, reads.at[j])->read;
        if (!a || !a->affine || reads.at[j]->guard) return false;
        any |= steps_by_one(a, n->vaxis) && is_distance(a->coef[n->inner[n->ninner - 1]]);
    }
    return any;
}

// Whether each step of an inner loop writes a row at a position that data say, as a scatter does.
static bool writes_found_rows(const nest *n) {
    work w = {.n = n};
    for (int j = 0; j < n->s->writes.n; j++) {
        const access *to = n->writes[j];
        if (to->affine || !to->coef[n->vaxis] || !steps_by_one(to, n->vaxis) || !is_found(&w, to->offset))
            return false;
    }
    return n->ninner && !n->s->states.n;
}

// Runs in the rows of a matrix: the longer, the better for what is fetched ahead, and more so where results go to as many
// rows. Terms are few, and may be loaded by the instruction that adds them.
static int column_vectors(const nest *n) {
    enum { MOST_OF_SUMS = 8 };
    int states = n->s->states.n > 1 ? n->s->states.n : 1, most = n->e->t->vector_regs / (2 * states);
    return stage_writes_at_end(n->s) && most > MOST_OF_SUMS ? MOST_OF_SUMS : most;
}

static int as_fit(const nest *n, int vectors) {
    while (vectors > 1 && !fits(n, vectors)) vectors /= 2;
    return vectors > 1 ? vectors : 1;
}

// A function is a chain of some twenty instructions that wait for each other. CPUs look about a hundred ahead, which are few chains
// where vectors are narrow: several vectors side by side keep them busy. AVX-512 has tables in registers for functions of one vector. Tails of
// rows of open length, which may be short, are not wide.
static int function_vectors(const nest *n, const expr_list *all) {
    enum { FUNCTION = 12, MOST = 4, FEW = 4, LONG = 4, REGISTERS = 16 };
    const target *t = n->e->t;
    const dim *extent = n->e->extent[n->vaxis];
    bool narrow = !t->avx512 && !t->dot_across && !t->arch.vector_lengths && t->vector_regs >= REGISTERS;
    int vectors = 1, functions = 0;
    if (!narrow || t->compact || t->size_level || t->freestanding ||
        (!n->reduce_vector && (n->ninner || n->s->states.n)))
        return 1;
    for (int j = 0; j < all->n; j++) {
        const expr *x = all->at[j];
        bool function = dtype_is_float(x->dtype) && expr_op_cost(x->op) >= FUNCTION;
        if (!function || !expr_uses_axis(x, n->vaxis)) continue;
        bool many = ++functions > FEW || expr_arity(x->op) > 1; // registers
        vectors = many || vectors == MOST / 2 || !dim_is_const(extent) ? MOST / 2 : MOST;
    }
    if (!dim_is_const(extent)) return as_fit(n, vectors);
    while (vectors > 1 && extent->max < (int64_t)LONG * vectors * n->lanes) vectors /= 2;
    return as_fit(n, vectors);
}

int vectors_at_once(const nest *n) {
    work w = {.n = n};
    if (n->reduce_vector) {
        expr_list step = stage_nodes(n->e->scratch, n->s, PART_STEP);
        return is_simple(n) ? function_vectors(n, &step) : 1;
    }
    if (nest_walks(n) && is_simple(n)) return as_fit(n, walk_vectors(n));
    if (is_simple(n) && (reads_columns(n) || writes_found_rows(n))) return as_fit(n, column_vectors(n));
    // The bounds of its loops are the same for all vectors.
    if (is_simple(n) && far_window(n->e->k, n->s, n->e->t)) return as_fit(n, most_vectors(n));
    expr_list all = stage_nodes(n->e->scratch, n->s, PART_ALL);
    for (int j = 0; j < all.n; j++) add_work(&w, all.at[j]);
    if (!is_simple(n)) return 1;
    if (!w.indirect) return function_vectors(n, &all);
    int vectors = 1, most = most_vectors(n);
    while (2 * vectors <= most && fits(n, 2 * vectors) && w.scalar > vectors * w.vector) vectors *= 2;
    return vectors;
}
