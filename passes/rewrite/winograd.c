// Winograd convolution. In: a contraction that is a 3x3 convolution of stride 1 with constant weights. Out:
// one kernel over blocks of rows of T x T tiles, whose intermediate values stay in the cache, and the
// constant U = G g G'. T is 4 or 2, S = T + 2, P = S S:
//
//   for n, block:
//     for r, tx, c:     V[P, r tx, c] = B' d B           d: S x S of the image, overlapping by 2
//     for p, r, tx, m:  M[p, r tx, m] = sum over c of V[p, r tx, c] * U[p, c, m]
//     for r, tx, m:     T x T of Y[T r, T tx, m] = A' M A, or at once of the output
//     for y, x, m:      out[n, m, y of the block, x] = f(Y[y, x, m])    f: the epilogue of the convolution
//
// Threads share the blocks. If there is only one block and several threads are possible, each step is a
// separate kernel, and threads share its points and rows.
//
// T = 4 needs a quarter of the multiplications of the direct algorithm and four times its weights; T = 2
// needs 1/2.25 of the multiplications and 1.8 times the weights, and suits small images.
//
// The products are an ordinary contraction. Edges: reads outside of the image are guarded (halos replace the
// guards), and results of tiles beyond the output stay in Y.
#include "passes/rewrite/winograd.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/kernel_cost.h"
#include "ir/kernel/variant.h"
#include "passes/match/contract.h"
#include <math.h>
#include <string.h>

enum { TAPS = 3, MOST_TILE = 4, MOST_SPAN = 6, MOST_POINTS = MOST_SPAN * MOST_SPAN };

typedef struct line {
    expr *at[MOST_SPAN];
} line;

// F(tile x tile, 3 x 3) of span x span of the image.
typedef struct transform {
    int tile, span;
    line (*in)(kernel *, const line *), (*out)(kernel *, const line *); // B' d, A' m
    double g[MOST_SPAN][TAPS];
    int in_operations, out_operations; // per tile and channel, with loads and stores
} transform;
static int points_of(const transform *t) { return t->span * t->span; }

// ---------------------------------------------------------------- recognition
typedef struct winograd {
    kernel *k;
    const transform *t;
    const expr *image, *weights;
    const write *w;
    int n, c, m, out[2], tap[2]; // axes; n: -1 if there is one image
    expr *base[2];               // image row = out + tap + base
} winograd;

static int plain_axis(const kernel *k, const expr *e, axis_kind kind) {
    return e->op == X_AXIS && k->axes.at[e->axis].kind == kind ? e->axis : -1;
}

// index = out + tap + base, with 3 taps.
static bool match_space(winograd *f, int space) {
    kernel *k = f->k; // only gets index expressions
    expr *coef[MAX_AXES];
    f->out[space] = f->tap[space] = -1;
    if (!expr_affine(k, f->image->index[2 + space], &f->base[space], coef)) return false;
    for (int a = 0; a < k->axes.n; a++) {
        if (coef[a]->op != X_CONST) return false;
        if (coef[a]->i == 0) continue;
        int *role = k->axes.at[a].kind == AXIS_REDUCE ? &f->tap[space] : &f->out[space];
        if (coef[a]->i != 1 || *role >= 0) return false;
        *role = a;
    }
    return f->out[space] >= 0 && f->tap[space] >= 0 && dim_is(k->axes.at[f->tap[space]].extent, TAPS);
}

static bool match_image(winograd *f) {
    const kernel *k = f->k;
    const expr *x = f->image, *n = x->index[0];
    f->n = plain_axis(k, n, AXIS_PARALLEL);
    f->c = plain_axis(k, index_in_part(x->index[1]), AXIS_REDUCE);
    if (f->c < 0 || (f->n < 0 && !(n->op == X_CONST && n->i == 0))) return false;
    if (x->guard && (x->fill->op != X_CONST || x->fill->f != 0 || !guard_is_bounds(x))) return false;
    return match_space(f, 0) && match_space(f, 1) && f->tap[0] != f->tap[1] && f->out[0] != f->out[1];
}

static bool is_stored_for_f32(const buffer *b) {
    return b->dtype == DT_F32 || b->dtype == DT_F16 || b->dtype == DT_BF16;
}

static bool match_weights(winograd *f) {
    const expr *w = f->weights;
    const buffer *b = w->buffer;
    if (b->role != BUF_CONST || b->layout || b->view_offset || w->guard || !is_stored_for_f32(b))
        return false;
    f->m = plain_axis(f->k, w->index[0], AXIS_PARALLEL);
    if (f->m < 0 || f->m == f->n || f->m == f->out[0] || f->m == f->out[1]) return false;
    if (f->k->axes.at[f->m].extent != b->dims[0] || f->k->axes.at[f->c].extent != b->dims[1]) return false;
    if (!dim_is_const(b->dims[0]) || !dim_is_const(b->dims[1])) return false;
    return plain_axis(f->k, w->index[1], AXIS_REDUCE) == f->c &&
           plain_axis(f->k, w->index[2], AXIS_REDUCE) == f->tap[0] &&
           plain_axis(f->k, w->index[3], AXIS_REDUCE) == f->tap[1];
}

// Only these seven axes: no others are reduced or repeated.
static bool match_axes(const winograd *f) {
    for (int a = 0; a < f->k->axes.n; a++) {
        bool known = a == f->n || a == f->c || a == f->m || a == f->out[0] || a == f->out[1] ||
                     a == f->tap[0] || a == f->tap[1];
        if (!known && !dim_is(f->k->axes.at[a].extent, 1)) return false;
    }
    return true;
}

static winograd *match(arena *scratch, kernel *k, const transform *t) {
    contraction c;
    if (!contraction_find(k, &c) || c.term_a != c.a || c.term_b != c.b) return NULL;
    bool first = c.a->buffer->role == BUF_CONST;
    winograd *f = ARENA_NEW(scratch, winograd);
    *f = (winograd){.k = k, .t = t, .image = first ? c.b : c.a, .weights = first ? c.a : c.b, .w = c.w};
    const expr *init = c.s->states.at[0].init;
    if (c.s->states.at[0].dtype != DT_F32 || init->op != X_CONST || init->f != 0) return NULL;
    if (f->image->buffer->rank != 4 || f->weights->buffer->rank != 4 || !is_stored_for_f32(f->image->buffer))
        return NULL;
    return match_image(f) && match_weights(f) && match_axes(f) ? f : NULL;
}

// ---------------------------------------------------------------- sizes
static dim *extent_of(const winograd *f, int axis) {
    return axis < 0 ? dim_const(f->k->program->dims, 1) : f->k->axes.at[axis].extent;
}
static dim *tiles_of(const winograd *f, int space) {
    dim *n = extent_of(f, f->out[space]);
    return dim_ceildiv(n, dim_const(n->table, f->t->tile));
}

static double likely(const dim *d, int64_t usual) {
    int64_t v;
    return dim_usual(d, usual, &v) ? (double)v : (double)usual;
}

typedef struct sizes {
    double n, c, m, height, width, ty, tx;
} sizes;
// The likely height or width of a feature map of a model with a typical input image: maps with many channels
// are small.
static double likely_side(const winograd *f, int space, double channels) {
    enum { IMAGE = 224, SMALL = 16, BOTH = 8192 };
    const dim *d = extent_of(f, f->out[space]);
    double side = likely(d, IMAGE);
    return dim_is_const(d) ? side : fmin(side, fmax(SMALL, BOTH / channels));
}
static sizes likely_sizes(const winograd *f) {
    sizes s = {likely(extent_of(f, f->n), 1), likely(extent_of(f, f->c), 0), likely(extent_of(f, f->m), 0)};
    s.height = likely_side(f, 0, s.c), s.width = likely_side(f, 1, s.c);
    s.ty = ceil(s.height / f->t->tile), s.tx = ceil(s.width / f->t->tile);
    return s;
}

// Channels are vectorised: up to whole vectors of the widest machines.
static double whole_vectors(double channels) { return 16 * ceil(channels / 16); }

static algorithm_cost direct_cost(const void *form) {
    sizes s = likely_sizes(form);
    double outs = s.n * s.height * s.width;
    return (algorithm_cost){.flops = 2 * TAPS * TAPS * outs * s.c * whole_vectors(s.m),
                            .cached = 4 * outs * (s.c + s.m),
                            .constants = 4 * TAPS * TAPS * s.c * s.m};
}

// The cost with blocks of `rows` rows of tiles. U is loaded again for each block unless it fits into the L2
// cache with the block's values (half of it is prefetched); values beyond the L2 cache are written, read for
// ownership and read again. Tiles of few rows stall on loads of U, short sums on the latency of results.
// Guarded reads take twice the instructions.
static algorithm_cost cost_of_rows(const winograd *f, double rows) {
    enum { CACHE = L2_BYTES, FULL_TILE = 14, TURN = 6 };
    sizes s = likely_sizes(f);
    bool guards = !dim_is_const(extent_of(f, f->out[0])) || !dim_is_const(extent_of(f, f->out[1]));
    int points = points_of(f->t);
    double blocks = s.n * ceil(s.ty / rows), tiles = rows * s.tx, all = blocks * tiles,
           c = whole_vectors(s.c), m = whole_vectors(s.m);
    double height = tiles / ceil(tiles / FULL_TILE), weights = 4.0 * points * s.c * m,
           stored = 4 * tiles * points * (c + m);
    algorithm_cost r = {.constants = weights, .workspace = stored};
    r.flops = 2.0 * points * all * s.c * m * (1 + 1 / height) * (1 + TURN / s.c);
    r.flops += 2 * all * ((guards ? 2 : 1) * f->t->in_operations * c + f->t->out_operations * m);
    r.cached = blocks * (stored + (stored > CACHE * 3 / 4 ? 3 * stored : 0)) +
               4 * s.n * s.height * s.width * (s.c + s.m);
    if (weights > CACHE) r.constants *= blocks;
    else if (stored + weights > CACHE) r.cached += (blocks - 1) * weights / 2;
    return r;
}

static int64_t choose_rows(const winograd *f) {
    int64_t best = 1, most = (int64_t)likely_sizes(f).ty;
    algorithm_cost least = cost_of_rows(f, 1);
    for (int64_t rows = 2; rows <= most; rows++) {
        algorithm_cost c = cost_of_rows(f, (double)rows);
        if (algorithm_cycles(&c, NULL) >= algorithm_cycles(&least, NULL)) continue;
        best = rows;
        least = c;
    }
    return best;
}

static algorithm_cost winograd_cost(const void *form) {
    return cost_of_rows(form, (double)choose_rows(form));
}

// ---------------------------------------------------------------- the transforms of a column or a row
static expr *scaled(kernel *k, expr *x, double by) { return x_mul(k, x, x_float(k, DT_F32, by)); }
//        | 4  0 -5  0  1  0 |
//        | 0 -4 -4  1  1  0 |
//   B' = | 0  4 -4 -1  1  0 |
//        | 0 -2 -1  2  1  0 |
//        | 0  2 -1 -2  1  0 |
//        | 0  4  0 -5  0  1 |
static line four_in(kernel *k, const line *x) {
    expr *const *d = x->at;
    expr *even = x_sub(k, d[4], scaled(k, d[2], 4)), *odd = x_sub(k, d[3], scaled(k, d[1], 4));
    expr *near = x_sub(k, d[4], d[2]), *twice = scaled(k, x_sub(k, d[3], d[1]), 2);
    line r;
    r.at[0] = x_add(k, x_sub(k, d[4], scaled(k, d[2], 5)), scaled(k, d[0], 4));
    r.at[1] = x_add(k, even, odd);
    r.at[2] = x_sub(k, even, odd);
    r.at[3] = x_add(k, near, twice);
    r.at[4] = x_sub(k, near, twice);
    r.at[5] = x_add(k, x_sub(k, d[5], scaled(k, d[3], 5)), scaled(k, d[1], 4));
    return r;
}

//        | 1  1  1  1  1  0 |
//   A' = | 0  1 -1  2 -2  0 |
//        | 0  1  1  4  4  0 |
//        | 0  1 -1  8 -8  1 |
static line four_out(kernel *k, const line *x) {
    expr *const *m = x->at;
    expr *sum1 = x_add(k, m[1], m[2]), *difference1 = x_sub(k, m[1], m[2]);
    expr *sum2 = x_add(k, m[3], m[4]), *difference2 = x_sub(k, m[3], m[4]);
    line r = {0};
    r.at[0] = x_add(k, x_add(k, m[0], sum1), sum2);
    r.at[1] = x_add(k, difference1, scaled(k, difference2, 2));
    r.at[2] = x_add(k, sum1, scaled(k, sum2, 4));
    r.at[3] = x_add(k, x_add(k, difference1, scaled(k, difference2, 8)), m[5]);
    return r;
}

//        | 1  0 -1  0 |
//   B' = | 0  1  1  0 |      A' = | 1  1  1  0 |
//        | 0 -1  1  0 |           | 0  1 -1  1 |
//        | 0 -1  0  1 |
static line two_in(kernel *k, const line *x) {
    expr *const *d = x->at;
    return (line){{x_sub(k, d[0], d[2]), x_add(k, d[1], d[2]), x_sub(k, d[2], d[1]), x_sub(k, d[3], d[1])}};
}
static line two_out(kernel *k, const line *x) {
    expr *const *m = x->at;
    return (line){{x_add(k, m[0], x_add(k, m[1], m[2])), x_add(k, x_sub(k, m[1], m[2]), m[3])}};
}

static const transform four = {.tile = 4,
                               .span = 6,
                               .in = four_in,
                               .out = four_out,
                               .g = {{1.0 / 4, 0, 0},
                                     {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                     {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                     {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                     {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                     {0, 0, 1}},
                               .in_operations = 160,
                               .out_operations = 100};
static const transform two = {.tile = 2,
                              .span = 4,
                              .in = two_in,
                              .out = two_out,
                              .g = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
                              .in_operations = 64,
                              .out_operations = 44};

// f over the columns, then over the rows of the result (`rows` of them).
static void transform_square(kernel *k, line (*f)(kernel *, const line *), int span, expr *const *from,
                             int rows, expr **to) {
    line half[MOST_SPAN];
    for (int col = 0; col < span; col++) {
        line column = {0};
        for (int row = 0; row < span; row++) column.at[row] = from[row * span + col];
        half[col] = f(k, &column);
    }
    for (int row = 0; row < rows; row++) {
        line across = {0};
        for (int col = 0; col < span; col++) across.at[col] = half[col].at[row];
        across = f(k, &across);
        for (int col = 0; col < rows; col++) to[row * rows + col] = across.at[col];
    }
}

static double weight_at(const transform *t, const double *g, int row, int col) {
    double sum = 0;
    for (int i = 0; i < TAPS; i++)
        for (int j = 0; j < TAPS; j++) sum += t->g[row][i] * g[i * TAPS + j] * t->g[col][j];
    return sum;
}

// U[p, c, m] of w[m, c, 3, 3], computed in double and rounded once.
static constant *transform_weights(arena *a, const transform *t, const constant *w, int64_t outs,
                                   int64_t channels) {
    int points = points_of(t);
    constant *u = constant_new(a, DT_F32, 3, (const int64_t[]){points, channels, outs});
    float *to = (float *)u->data;
    for (int64_t m = 0; m < outs; m++)
        for (int64_t c = 0; c < channels; c++) {
            double g[TAPS * TAPS];
            for (int j = 0; j < TAPS * TAPS; j++)
                g[j] = constant_float(w, (m * channels + c) * TAPS * TAPS + j);
            for (int p = 0; p < points; p++)
                to[(p * channels + c) * outs + m] = (float)weight_at(t, g, p / t->span, p % t->span);
        }
    return u;
}

// ---------------------------------------------------------------- building the kernel
typedef struct builder {
    kernel *k;
    const winograd *f;
    int tile, span, points;
    dim *rows;         // of tiles in a block
    dim *blocks, *tx;  // blocks; tiles in a row
    expr *n, *block;   // outer axes
    buffer *v, *m, *y; // NULL if the transform writes the output
    expr *channel;     // of the epilogue's current element
    // if each stage is a separate kernel
    bool apart;
    program *p;
    region *r;
    step *last;
} builder;

static expr *parallel(builder *b, stage *s, const char *name, dim *extent) {
    return stage_own_axis(b->k, s, AXIS_PARALLEL, name, extent);
}
static expr *times_plus(kernel *k, expr *a, int64_t by, expr *c) {
    return x_add(k, x_mul(k, a, x_i64(k, by)), c);
}
static expr *row_in_block(builder *b, dim *rows, expr *r) {
    return x_add(b->k, x_mul(b->k, b->block, x_dim(b->k, rows)), r);
}
static dim *constant_dim(builder *b, int64_t n) { return dim_const(b->k->program->dims, n); }

static buffer *between_stages(builder *b, const char *name, dim *const *dims) {
    if (!b->apart) return kernel_local(b->k, name, DT_F32, 3, dims);
    return program_temp(b->p, arena_printf(b->p->arena, "%s.%s", b->f->w->to->name, name), DT_F32, 3, dims);
}

// A plane per point with an odd number of tiles and a number of lines per tile that is not a multiple of
// eight: this avoids conflicts of a tile's lines in few cache sets.
static buffer *points_buffer(builder *b, const char *name, dim *channels) {
    enum { LINE = 16 };
    dim *tiles = dim_mul(b->tx, b->rows), *two = constant_dim(b, 2);
    int64_t lines = (dim_value(channels) + LINE - 1) / LINE;
    if (lines % 8 == 0) lines++;
    dim *d[3] = {constant_dim(b, b->points), dim_addk(dim_mulk(dim_floordiv(tiles, two), 2), 1),
                 constant_dim(b, LINE * lines)};
    return between_stages(b, name, d);
}

static bool is_multiple(const dim *d, int64_t of) { return dim_is_const(d) && dim_value(d) % of == 0; }
static bool fills_blocks(const builder *b) {
    const dim *height = extent_of(b->f, b->f->out[0]);
    return dim_is_const(b->rows) && is_multiple(height, b->tile * dim_value(b->rows));
}

// The transform writes the output directly if tiles are whole and the epilogue, which it repeats per element,
// is short.
static bool writes_at_once(const builder *b) {
    enum { SHORT = 6 };
    return value_work(b->f->k->arena, b->f->w->value) <= SHORT && fills_blocks(b) &&
           is_multiple(extent_of(b->f, b->f->out[1]), b->tile);
}

static expr *keep_leaves(void *user, expr *e) {
    (void)user, (void)e;
    return NULL;
}

// Whether a guard of bounds (guard_is_bounds) has one for this index.
static bool bounds_index(const expr *guard, const expr *index) {
    if (guard->op == X_AND) return bounds_index(guard->arg[0], index) || bounds_index(guard->arg[1], index);
    return guard->arg[0] == index || guard->arg[1] == index;
}

// d[row][col] of a tile: 0 outside of the image, and in channels and images that a Pad adds.
static expr *read_image(builder *b, expr *const tile[2], expr *c, int row, int col) {
    kernel *k = b->k;
    buffer *x = b->f->image->buffer;
    const expr *image = b->f->image;
    expr *axis[MAX_AXES] = {0}, *guard = x_int(k, DT_BOOL, 1);
    axis[b->f->c] = c;
    expr *index[4] = {b->n, expr_substitute(k, image->index[1], axis, NULL)};
    for (int j = 0; j < 2; j++) {
        expr *base = expr_rewrite(k, b->f->base[j], keep_leaves, NULL);
        expr *i = index[2 + j] = times_plus(k, tile[j], b->tile, x_add(k, base, x_i64(k, j ? col : row)));
        guard = x_and(k, guard, x_bin(k, X_LE, x_i64(k, 0), i));
        guard = x_and(k, guard, x_lt(k, i, x_dim(k, x->dims[2 + j])));
    }
    for (int j = 0; j < 2; j++) {
        if (!image->guard || !bounds_index(image->guard, image->index[j])) continue;
        if (index[j]->op != X_AXIS) guard = x_and(k, guard, x_bin(k, X_LE, x_i64(k, 0), index[j]));
        guard = x_and(k, guard, x_lt(k, index[j], x_dim(k, x->dims[j])));
    }
    return x_read_guarded(k, x, index, guard, NULL);
}

static expr *tile_number(builder *b, expr *r, expr *tx) {
    return x_add(b->k, x_mul(b->k, r, x_dim(b->k, b->tx)), tx);
}

static void stage_in(builder *b) {
    kernel *k = b->k;
    stage *s = kernel_stage(k);
    expr *r = parallel(b, s, "r", b->rows), *tx = parallel(b, s, "tx", b->tx);
    expr *c = parallel(b, s, "c", extent_of(b->f, b->f->c)), *d[MOST_POINTS] = {0}, *t[MOST_POINTS];
    expr *tile[2] = {row_in_block(b, b->rows, r), tx};
    for (int j = 0; j < b->points; j++) d[j] = read_image(b, tile, c, j / b->span, j % b->span);
    transform_square(k, b->f->t->in, b->span, d, b->span, t);
    for (int j = 0; j < b->points; j++)
        stage_write(k, s, b->v, (expr *[]){x_i64(k, j), tile_number(b, r, tx), c}, t[j]);
}

static void stage_products(builder *b, buffer *u) {
    kernel *k = b->k;
    stage *s = kernel_stage(k);
    expr *p = parallel(b, s, "p", constant_dim(b, b->points)), *r = parallel(b, s, "r", b->rows);
    expr *tx = parallel(b, s, "tx", b->tx), *m = parallel(b, s, "m", extent_of(b->f, b->f->m));
    expr *c = stage_own_axis(k, s, AXIS_REDUCE, "c", extent_of(b->f, b->f->c)), *tile = tile_number(b, r, tx);
    expr *term = x_mul(k, x_read(k, b->v, (expr *[]){p, tile, c}), x_read(k, u, (expr *[]){p, c, m}));
    stage_write(k, s, b->m, (expr *[]){p, tile, m}, stage_reduce(k, s, RED_SUM, term));
}

static write *write_out(builder *b, stage *s, expr *y, expr *x, expr *sum) {
    const winograd *f = b->f;
    expr *index[MAX_RANK], **axis = ARENA_ARRAY(b->k->arena, expr *, f->k->axes.n + 1);
    if (f->n >= 0) axis[f->n] = b->n;
    axis[f->m] = b->channel, axis[f->out[0]] = y, axis[f->out[1]] = x;
    for (int j = 0; j < f->w->to->rank; j++) index[j] = expr_substitute(b->k, f->w->index[j], axis, sum);
    return stage_write(b->k, s, f->w->to, index, expr_substitute(b->k, f->w->value, axis, sum));
}

static void stage_out(builder *b) {
    kernel *k = b->k;
    stage *s = kernel_stage(k);
    expr *r = parallel(b, s, "r", b->rows), *tx = parallel(b, s, "tx", b->tx);
    expr *m = b->channel = parallel(b, s, "m", extent_of(b->f, b->f->m)), *from[MOST_POINTS],
         *t[MOST_TILE * MOST_TILE];
    expr *row = b->y ? r : row_in_block(b, b->rows, r);
    for (int j = 0; j < b->points; j++)
        from[j] = x_read(k, b->m, (expr *[]){x_i64(k, j), tile_number(b, r, tx), m});
    transform_square(k, b->f->t->out, b->span, from, b->tile, t);
    for (int j = 0; j < b->tile * b->tile; j++) {
        expr *y = times_plus(k, row, b->tile, x_i64(k, j / b->tile)),
             *x = times_plus(k, tx, b->tile, x_i64(k, j % b->tile));
        if (b->y) stage_write(k, s, b->y, (expr *[]){y, x, m}, t[j]);
        else write_out(b, s, y, x, t[j]);
    }
}

static void stage_epilogue(builder *b) {
    kernel *k = b->k;
    stage *s = kernel_stage(k);
    dim *height = extent_of(b->f, b->f->out[0]), *rows = dim_mulk(b->rows, b->tile);
    expr *y = parallel(b, s, "y", rows), *x = parallel(b, s, "x", extent_of(b->f, b->f->out[1]));
    expr *row = row_in_block(b, rows, y);
    b->channel = parallel(b, s, "m", extent_of(b->f, b->f->m));
    write *made = write_out(b, s, row, x, x_read(k, b->y, (expr *[]){y, x, b->channel}));
    if (!fills_blocks(b)) made->guard = x_lt(k, row, x_dim(k, height));
}

static void empty_kernel(kernel *k) {
    memset(&k->axes, 0, sizeof k->axes);
    memset(&k->stages, 0, sizeof k->stages);
    memset(&k->exprs, 0, sizeof k->exprs);
    k->shared = (map){.arena = k->arena};
    k->nouter = 0;
}

static const char *variant_name(const winograd *f) {
    return f->t == &four ? winograd_algorithm.name : small_winograd_algorithm.name;
}

static void without_outer_axes(builder *b, kernel *k) {
    b->k = k;
    b->n = b->block = x_i64(k, 0);
}

// Starts the kernel of the next stage, except the last one.
static void next_kernel(builder *b, const char *name) {
    const kernel *old = b->f->k;
    if (!b->apart) return;
    const char *full = arena_printf(b->p->arena, "%s_%s", old->name, name);
    kernel *k = variant_new(b->p, old, full, variant_name(b->f));
    step_insert(b->p, b->r, step_index(b->r, b->last), STEP_KERNEL, old->loc)->kernel = k;
    without_outer_axes(b, k);
}

static void outer_axes(builder *b, kernel *k) {
    b->k = k;
    b->n = x_axis(k, kernel_axis(k, AXIS_PARALLEL, "n", extent_of(b->f, b->f->n)));
    b->block = x_axis(k, kernel_axis(k, AXIS_PARALLEL, "block", b->blocks));
    k->nouter = 2;
}

// `last` becomes the kernel of all stages, or of the last one.
static void build_stages(builder *b, kernel *last, buffer *u) {
    const winograd *f = b->f;
    dim *m = extent_of(f, f->m);
    if (!b->apart) outer_axes(b, last);
    next_kernel(b, "tiles");
    b->v = points_buffer(b, "tiles", extent_of(f, f->c));
    stage_in(b);
    next_kernel(b, "products");
    b->m = points_buffer(b, "products", m);
    stage_products(b, u);
    if (!writes_at_once(b)) {
        next_kernel(b, "rows");
        b->y = between_stages(b, "rows", (dim *[]){dim_mulk(b->rows, b->tile), dim_mulk(b->tx, b->tile), m});
        stage_out(b);
    }
    if (b->apart) without_outer_axes(b, last);
    if (b->y) stage_epilogue(b);
    else stage_out(b);
}

// Images of unknown height have blocks of about equal height: no more rows than there are.
static void choose_blocks(builder *b, int64_t rows) {
    dim *ty = tiles_of(b->f, 0), *one = constant_dim(b, 1);
    b->rows = constant_dim(b, rows);
    b->blocks = dim_ceildiv(ty, b->rows);
    if (!dim_is_const(ty) && rows > 1) b->rows = dim_ceildiv(ty, dim_max(b->blocks, one));
}

static bool is_one_block(const winograd *f, int64_t rows) {
    const dim *n = f->n < 0 ? NULL : extent_of(f, f->n), *ty = tiles_of(f, 0);
    return (!n || dim_is(n, 1)) && dim_is_const(ty) && dim_value(ty) <= rows;
}

static void winograd_apply(program *p, region *r, step *last, const void *form, const target *t) {
    winograd f = *(const winograd *)form;
    kernel *k = last->kernel, *old = ARENA_NEW(p->arena, kernel);
    *old = *k;
    f.k = old;
    dim *c = extent_of(&f, f.c), *m = extent_of(&f, f.m);
    constant *weights = transform_weights(p->arena, f.t, f.weights->buffer->data, dim_value(m), dim_value(c));
    buffer *u = program_constant(p, arena_printf(p->arena, "%s.winograd", f.weights->buffer->name), weights);
    int64_t rows = choose_rows(&f);
    builder b = {.k = k,
                 .f = &f,
                 .tile = f.t->tile,
                 .span = f.t->span,
                 .points = points_of(f.t),
                 .tx = tiles_of(&f, 1),
                 .apart = t->hosted && t->threads != 1 && is_one_block(&f, rows),
                 .p = p,
                 .r = r,
                 .last = last};
    choose_blocks(&b, rows);
    empty_kernel(k);
    k->algorithm = variant_name(&f);
    build_stages(&b, k, u);
}

// ---------------------------------------------------------------- for layout assignment
// The last dim of the buffer that the kernel's axis indexes, else `found`.
static int match_channel(const buffer *b, expr *const *index, int axis, int found) {
    for (int j = 0; j < b->rank; j++) {
        const expr *i = index_in_part(index[j]);
        if (i->op == X_AXIS && i->axis == axis) found = j;
    }
    return found;
}

int winograd_channel(const kernel *k, const buffer *b) {
    const char *name = k->algorithm ? k->algorithm : "";
    bool is = !strcmp(name, winograd_algorithm.name) || !strcmp(name, small_winograd_algorithm.name);
    if (!is || b->rank < 3 || b->role == BUF_CONST) return -1;
    const stage *s = k->stages.at[kernel_writes(k, b) ? k->stages.n - 1 : 0];
    int vector = s->axes.at[s->axes.n - 1], found = -1;
    expr_list reads = reads_only(stage_nodes(k->arena, s, PART_ALL));
    for (int j = 0; j < reads.n; j++)
        if (reads.at[j]->buffer == b) found = match_channel(b, reads.at[j]->index, vector, found);
    for (int j = 0; j < s->writes.n; j++)
        if (s->writes.at[j].to == b) found = match_channel(b, s->writes.at[j].index, vector, found);
    return found;
}

static choice winograd_choice(const algorithm_options *o) { return o->winograd; }

static void *match_four(arena *scratch, kernel *k) { return match(scratch, k, &four); }
static void *match_two(arena *scratch, kernel *k) { return match(scratch, k, &two); }

// Measured differences from the direct algorithm are 3e-6 to 1e-5 of the largest result (16 to 512 channels),
// with small tiles up to 2e-6.
const algorithm winograd_algorithm = {"winograd",  winograd_choice, match_four, winograd_cost,
                                      direct_cost, winograd_apply,  2e-5};
const algorithm small_winograd_algorithm = {"winograd-2x2", winograd_choice, match_two, winograd_cost,
                                            direct_cost,    winograd_apply,  1e-5};
