// Sums of products in the interpreter, by matrices: both factors are evaluated once for each position that they
// depend on. The factors may be any expressions: im2col with its padding, conversions, arithmetic.
//
//   for batch axes:                            in both factors
//     for blocks of rows, blocks of columns:   axes of one factor each
//       sum[row, col] = init
//       for blocks of depth:                   reduce axes, flattened
//         a[row, depth], b[depth, col] = the factors
//         sum += a * b
//       writes, row by row
//
// Products are rounded and added in the order of position by position: the same bits, unless a CBLAS multiplies. Those of
// integers of few bits are exact in double precision.
#include "compiler/base/integers.h"
#include "ir/kernel/interp_stage.h"
#include <math.h>
#include <string.h>

enum {
    ROWS = 512,         // of a block; its columns and depth: STRIP
    FEW_ROWS = 4,       // uses of a column that pay for evaluating it separately
    SMALL = 1 << 12,    // multiplications position by position
    FOR_BLAS = 1 << 20, // multiplications that pay for calling a CBLAS
    PER_OPERATION = 8,  // multiplications in the time of an operation of other stages
    GROUP = MAX_RANK * 4,
};

typedef struct axis_group {
    int n, axis[GROUP];
    int64_t count;         // of positions
    int64_t *lanes[GROUP]; // STRIP positions
} axis_group;

struct product {
    axis_group batch, row, col, depth;
    expr *a, *b; // factors: of rows, of columns
    expr_list code_a, code_b;
    uint8_t *varies_depth, *varies_col; // by expression id, along strips of these
    double *at, *bt, *sum;              // blocks: [row][depth], [depth][col], [row][col]
    bool rounds;                        // products to f32
    bool integers;
    interp_dgemm *dgemm; // NULL: exact order
};

// A block of the sums, and the range of the depth that is added to it.
typedef struct block {
    int64_t row, rows, col, cols, from, depth;
} block;

// ---------------------------------------------------------------- recognising
static bool add_axis(const run *r, axis_group *g, int axis) {
    g->axis[g->n++] = axis;
    return !__builtin_mul_overflow(g->count, r->extent[axis], &g->count);
}

static bool sort_axes(run *r, const plan *p, product *x) {
    bool fits = true;
    for (int j = 0; j < p->nparallel; j++) {
        int axis = p->parallel[j];
        bool a = expr_uses_axis(x->a, axis), b = expr_uses_axis(x->b, axis);
        fits &= add_axis(r, a && b ? &x->batch : b ? &x->col : &x->row, axis);
    }
    for (int j = 0; j < p->ninner; j++) {
        if (r->k->axes.at[p->inner[j]].kind != AXIS_REDUCE) return false;
        fits &= add_axis(r, &x->depth, p->inner[j]);
    }
    return fits;
}

static bool has_form(const run *r, const plan *p) {
    const stage *s = r->s;
    if (s->states.n != 1 || p->before.n || p->after.n || !p->ninner) return false;
    const state *st = &s->states.at[0];
    if (st->op != RED_SUM || st->step->op != X_MUL) return false;
    if (st->dtype != st->step->dtype || (st->dtype != DT_F32 && st->dtype != DT_F64 && st->dtype != DT_I32))
        return false;
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        if (w->when != WRITE_END || w->combine != COMBINE_SET || w->to->dtype == DT_C128) return false;
    }
    return true;
}

static void take_lanes(run *r, axis_group *g) {
    for (int j = 0; j < g->n; j++) r->lane_at[g->axis[j]] = g->lanes[j];
}
static void drop_lanes(run *r, const axis_group *g) {
    for (int j = 0; j < g->n; j++) r->lane_at[g->axis[j]] = NULL;
}

static uint8_t *vary_along(run *r, axis_group *g) {
    for (int j = 0; j < g->n; j++) g->lanes[j] = ARENA_ARRAY(r->arena, int64_t, STRIP);
    r->strip_axis = -1;
    take_lanes(r, g);
    return r->varies = ARENA_ARRAY(r->arena, uint8_t, r->k->exprs.n + 1);
}

static void make_product(run *r, const plan *p, product *x) {
    x->code_a = expr_nodes(r->arena, x->a);
    x->code_b = expr_nodes(r->arena, x->b);
    x->varies_depth = vary_along(r, &x->depth);
    strip_cells(r, &x->code_a);
    strip_cells(r, &x->code_b);
    drop_lanes(r, &x->depth);
    x->varies_col = vary_along(r, &x->col);
    strip_cells(r, &p->init);
    strip_cells(r, &p->end);
    drop_lanes(r, &x->col);
    int64_t rows = int_min(x->row.count, ROWS), cols = int_min(x->col.count, STRIP),
            depth = int_min(x->depth.count, STRIP);
    x->at = ARENA_ARRAY(r->arena, double, rows *depth);
    x->bt = ARENA_ARRAY(r->arena, double, depth *cols);
    x->sum = ARENA_ARRAY(r->arena, double, rows *cols);
}

// The largest magnitude of an integer, of which elements of few bits decide; 0: not known. levels: operations to look through.
static int64_t magnitude(const expr *e, int levels) {
    if (!levels) return 0;
    if (e->op == X_CONST)
        return dtype_is_int(e->dtype) && e->i > INT32_MIN ? (e->i < 0 ? -e->i : e->i) + 1 : 0;
    if (e->op == X_CAST) return dtype_is_int(e->arg[0]->dtype) ? magnitude(e->arg[0], levels - 1) : 0;
    if (e->op == X_READ) {
        dtype t = e->buffer->dtype;
        int64_t own = dtype_is_int(t) && dtype_bits(t) <= 16 ? (int64_t)1 << dtype_bits(t) : 0,
                outside = e->guard && e->fill ? magnitude(e->fill, levels - 1) : own;
        return own && outside ? (own > outside ? own : outside) : 0;
    }
    if (e->op != X_ADD && e->op != X_SUB) return 0;
    int64_t a = magnitude(e->arg[0], levels - 1), b = magnitude(e->arg[1], levels - 1);
    return a && b ? a + b : 0;
}

// Whether neither products of 32 bits wrap nor sums in double precision round.
static bool is_exact(const product *x) {
    enum { LEVELS = 8 };
    int64_t a = magnitude(x->a, LEVELS), b = magnitude(x->b, LEVELS), product, sum;
    return a && b && !__builtin_mul_overflow(a, b, &product) && product < INT32_MAX &&
           !__builtin_mul_overflow(product, x->depth.count, &sum) && sum < (int64_t)1 << 52;
}

product *product_find(run *r, const plan *p) {
    if (!has_form(r, p)) return NULL;
    expr *const *factor = r->s->states.at[0].step->arg;
    product *x = ARENA_NEW(r->arena, product);
    for (int swap = 0; swap < 2; swap++) { // strips of writes are along the columns
        *x = (product){.a = factor[swap], .b = factor[1 - swap]};
        x->batch.count = x->row.count = x->col.count = x->depth.count = 1;
        if (!sort_axes(r, p, x)) return NULL;
        if (x->col.count >= x->row.count) break;
    }
    int64_t n;
    if (x->row.count < FEW_ROWS || x->batch.count < 1 ||
        __builtin_mul_overflow(x->row.count, x->col.count, &n) ||
        __builtin_mul_overflow(n, x->depth.count, &n) || n < SMALL)
        return NULL;
    x->rounds = r->s->states.at[0].dtype == DT_F32;
    x->integers = r->s->states.at[0].dtype == DT_I32;
    if (x->integers && !is_exact(x)) return NULL;
    if (r->in->hooks.dgemm && n >= FOR_BLAS) x->dgemm = r->in->hooks.dgemm(r->in->hooks.user);
    make_product(r, p, x);
    return x;
}

// ---------------------------------------------------------------- positions
static void go_to(run *r, const axis_group *g, int64_t at) {
    for (int j = g->n - 1; j >= 0; j--) {
        r->pos[g->axis[j]] = at % r->extent[g->axis[j]];
        at /= r->extent[g->axis[j]];
    }
}

// Lanes: n positions of the group from `at` on.
static void set_lanes(run *r, axis_group *g, uint8_t *varies, int64_t at, int64_t n) {
    r->varies = varies;
    r->strip_axis = -1;
    r->lanes = n;
    take_lanes(r, g);
    for (int64_t lane = 0; lane < n; lane++) {
        go_to(r, g, at + lane);
        for (int j = 0; j < g->n; j++) g->lanes[j][lane] = r->pos[g->axis[j]];
    }
}

// ---------------------------------------------------------------- multiplying
// Columns [col, col + cols) of block c, of whose depth [from, from + depth) is added.
static void multiply_part(const product *x, const block *c, const block *part) {
    for (int64_t i = 0; i < c->rows; i++) {
        double *sum = x->sum + i * c->cols + part->col;
        for (int64_t k = part->from; k < part->from + part->depth; k++) {
            double v = x->at[i * c->depth + k];
            const double *b = x->bt + k * c->cols + part->col;
            if (x->rounds)
                for (int64_t j = 0; j < part->cols; j++) sum[j] += (double)(float)(v * b[j]);
            else
                for (int64_t j = 0; j < part->cols; j++) sum[j] += v * b[j];
        }
    }
}

static void multiply_in_order(const product *x, const block *c) {
    enum { COLS = 256, STEPS = 16 }; // of the depth: their part of b stays in the L1 cache
    for (int64_t j = 0; j < c->cols; j += COLS)
        for (int64_t d = 0; d < c->depth; d += STEPS) {
            block part = {.col = j, .cols = int_min(c->cols - j, COLS)};
            part.from = d, part.depth = int_min(c->depth - d, STEPS);
            multiply_part(x, c, &part);
        }
}

static double largest(const double *v, int64_t n) {
    double most = 0;
    for (int64_t j = 0; j < n; j++) most = fabs(v[j]) <= most ? most : isfinite(v[j]) ? fabs(v[j]) : INFINITY;
    return most;
}

// What is not finite, or would become so in f32, propagates as the order of the sum says.
static bool stays_finite(const product *x, const block *c) {
    double a = largest(x->at, c->rows * c->depth), b = largest(x->bt, c->depth * c->cols);
    return a < 0x1p500 && b < 0x1p500 && (!x->rounds || a * b < 0x1p100);
}

static void multiply(const product *x, const block *c) {
    enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };
    int m = (int)c->rows, n = (int)c->cols, k = (int)c->depth;
    if (!x->dgemm || !stays_finite(x, c)) multiply_in_order(x, c);
    else x->dgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, m, n, k, 1, x->at, k, x->bt, n, 1, x->sum, n);
}

// ---------------------------------------------------------------- blocks
static double number_of(run *r, const product *x, expr *e, int64_t lane) {
    cell v = strip_result(r, e, lane);
    return x->integers ? (double)v.i : v.f;
}

static void pack(run *r, product *x, const block *c) {
    int64_t depth = c->depth;
    set_lanes(r, &x->depth, x->varies_depth, c->from, depth);
    for (int64_t i = 0; i < c->rows; i++) {
        go_to(r, &x->row, c->row + i);
        strip_eval(r, &x->code_a, depth);
        for (int64_t d = 0; d < depth; d++) x->at[i * depth + d] = number_of(r, x, x->a, d);
    }
    for (int64_t j = 0; j < c->cols; j++) {
        go_to(r, &x->col, c->col + j);
        strip_eval(r, &x->code_b, depth);
        for (int64_t d = 0; d < depth; d++) x->bt[d * c->cols + j] = number_of(r, x, x->b, d);
    }
    drop_lanes(r, &x->depth);
}

static void begin_sums(run *r, const plan *p, product *x, const block *c) {
    int64_t n = c->cols;
    set_lanes(r, &x->col, x->varies_col, c->col, n);
    for (int64_t i = 0; i < c->rows; i++) {
        go_to(r, &x->row, c->row + i);
        strip_eval(r, &p->init, n);
        for (int64_t j = 0; j < n; j++) x->sum[i * n + j] = number_of(r, x, r->s->states.at[0].init, j);
    }
    drop_lanes(r, &x->col);
}

static void write_sums(run *r, const plan *p, product *x, const block *c) {
    int64_t n = c->cols;
    set_lanes(r, &x->col, x->varies_col, c->col, n);
    for (int64_t i = 0; i < c->rows; i++) {
        go_to(r, &x->row, c->row + i);
        for (int64_t j = 0; j < n; j++) {
            double sum = x->sum[i * n + j];
            r->state[0][j] = x->integers ? (cell){.i = (int64_t)sum} : (cell){.f = sum};
        }
        strip_round(r, n);
        strip_eval(r, &p->end, n);
        strip_writes(r, WRITE_END, n);
    }
    drop_lanes(r, &x->col);
}

static void run_block(run *r, const plan *p, product *x, block c) {
    strip_charge(r, c.rows * c.cols * (p->init.n + p->end.n));
    begin_sums(r, p, x, &c);
    for (c.from = 0; c.from < x->depth.count; c.from += STRIP) {
        c.depth = int_min(x->depth.count - c.from, STRIP);
        strip_charge(r, c.rows * c.cols * c.depth / PER_OPERATION);
        pack(r, x, &c);
        multiply(x, &c);
    }
    write_sums(r, p, x, &c);
}

void product_run(run *r, const plan *p, product *x) {
    r->half = 0;
    for (int64_t b = 0; b < x->batch.count; b++)
        for (int64_t i = 0; i < x->row.count; i += ROWS)
            for (int64_t j = 0; j < x->col.count; j += STRIP) {
                go_to(r, &x->batch, b);
                block c = {.row = i, .rows = int_min(x->row.count - i, ROWS)};
                c.col = j, c.cols = int_min(x->col.count - j, STRIP);
                run_block(r, p, x, c);
            }
}
