// In: a contraction that is a 3x3 convolution of stride 1 with constant weights. Out: three kernels,
//
//   for n, ty, tx, c:    V[36, n, ty, tx, c] = B' d B        d: 6 x 6 of the image, overlapping by 2
//   for p, n, ty, tx, m: M[p, n, ty, tx, m] = sum over c of V[p, n, ty, tx, c] * U[p, c, m]
//   for n, ty, tx, m:    4 x 4 of the output = f(A' M A)     f: the epilogue of the convolution
//
// and the constant U = G g G'. The products are a contraction like any other. Edges: reads outside of the
// image are guarded (a halo replaces the guards), and the last row and column of tiles have stages that write
// what is there.
#include "passes/winograd.h"
#include "passes/contract.h"
#include <string.h>

enum { TILE = 4, SPAN = 6, POINTS = SPAN * SPAN, TAPS = 3 };

// ---------------------------------------------------------------- recognition
typedef struct winograd {
    const kernel *k;
    const expr *image, *weights;
    const write *w;
    int n, c, m, out[2], tap[2]; // axes; n: -1 when there is one image
    expr *base[2];               // image row = out + tap + base
} winograd;

static int plain_axis(const kernel *k, const expr *e, axis_kind kind) {
    return e->op == X_AXIS && k->axes.at[e->axis].kind == kind ? e->axis : -1;
}

// index = out + tap + base, with 3 taps.
static bool match_space(winograd *f, int space) {
    kernel *k = (kernel *)f->k; // only to make index expressions
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
    f->c = plain_axis(k, x->index[1], AXIS_REDUCE);
    if (f->c < 0 || (f->n < 0 && !(n->op == X_CONST && n->i == 0))) return false;
    if (x->guard && (x->fill->op != X_CONST || x->fill->f != 0 || !guard_is_bounds(x))) return false;
    return match_space(f, 0) && match_space(f, 1) && f->tap[0] != f->tap[1] && f->out[0] != f->out[1];
}

static bool match_weights(winograd *f) {
    const expr *w = f->weights;
    const buffer *b = w->buffer;
    if (b->role != BUF_CONST || b->layout || b->view_offset || w->guard || b->dtype != DT_F32) return false;
    f->m = plain_axis(f->k, w->index[0], AXIS_PARALLEL);
    if (f->m < 0 || f->m == f->n || f->m == f->out[0] || f->m == f->out[1]) return false;
    if (f->k->axes.at[f->m].extent != b->dims[0] || f->k->axes.at[f->c].extent != b->dims[1]) return false;
    if (!dim_is_const(b->dims[0]) || !dim_is_const(b->dims[1])) return false;
    return plain_axis(f->k, w->index[1], AXIS_REDUCE) == f->c &&
           plain_axis(f->k, w->index[2], AXIS_REDUCE) == f->tap[0] &&
           plain_axis(f->k, w->index[3], AXIS_REDUCE) == f->tap[1];
}

// No axis but the seven: nothing else may be summed or repeated.
static bool match_axes(const winograd *f) {
    for (int a = 0; a < f->k->axes.n; a++) {
        bool known = a == f->n || a == f->c || a == f->m || a == f->out[0] || a == f->out[1] ||
                     a == f->tap[0] || a == f->tap[1];
        if (!known && !dim_is(f->k->axes.at[a].extent, 1)) return false;
    }
    return true;
}

// Sizes that only a step of the program knows do not go into the workspace.
static void find_opaque(void *user, const dim *atom) {
    if (atom->kind == DIM_OPAQUE) *(bool *)user = true;
}
static bool sizes_known_at_entry(const winograd *f) {
    bool opaque = false;
    for (int a = 0; a < f->k->axes.n; a++) dim_atoms(f->k->axes.at[a].extent, find_opaque, &opaque);
    return !opaque && f->w->to->role != BUF_HEAP;
}

static void *winograd_match(arena *scratch, const kernel *k) {
    contraction c;
    if (!contraction_find(k, &c) || c.term_a != c.a || c.term_b != c.b) return NULL;
    bool first = c.a->buffer->role == BUF_CONST;
    winograd *f = ARENA_NEW(scratch, winograd);
    *f = (winograd){.k = k, .image = first ? c.b : c.a, .weights = first ? c.a : c.b, .w = c.w};
    const expr *init = c.s->states.at[0].init;
    if (c.s->states.at[0].dtype != DT_F32 || init->op != X_CONST || init->f != 0) return NULL;
    if (f->image->buffer->rank != 4 || f->weights->buffer->rank != 4 || f->image->buffer->dtype != DT_F32)
        return NULL;
    return match_image(f) && match_weights(f) && match_axes(f) && sizes_known_at_entry(f) ? f : NULL;
}

// ---------------------------------------------------------------- sizes
static dim *extent_of(const winograd *f, int axis) {
    return axis < 0 ? dim_const(f->k->program->dims, 1) : f->k->axes.at[axis].extent;
}
static dim *tiles_of(const winograd *f, int space) {
    dim *n = extent_of(f, f->out[space]);
    return dim_ceildiv(n, dim_const(n->table, TILE));
}

static bool likely_size(void *user, const dim *atom, int64_t *v) {
    int64_t usual = *(int64_t *)user;
    *v = usual < atom->min ? atom->min : usual > atom->max ? atom->max : usual;
    return true;
}
static double likely(const dim *d, int64_t usual) {
    int64_t v;
    return dim_eval(d, likely_size, &usual, &v) ? (double)v : (double)usual;
}

typedef struct sizes {
    double n, c, m, height, width, tiles;
} sizes;
static sizes likely_sizes(const winograd *f) {
    sizes s = {likely(extent_of(f, f->n), 1), likely(extent_of(f, f->c), 0), likely(extent_of(f, f->m), 0)};
    s.height = likely(extent_of(f, f->out[0]), 64), s.width = likely(extent_of(f, f->out[1]), 64);
    s.tiles = s.n * likely(tiles_of(f, 0), 64) * likely(tiles_of(f, 1), 64);
    return s;
}

static algorithm_cost direct_cost(const void *form) {
    sizes s = likely_sizes(form);
    double outs = s.n * s.height * s.width;
    return (algorithm_cost){.flops = 2 * TAPS * TAPS * outs * s.c * s.m,
                            .cached = 4 * outs * (s.c + s.m),
                            .constants = 4 * TAPS * TAPS * s.c * s.m};
}

// A transform of 6 x 6 takes some 160 additions and multiplications for each channel that are not fused.
static algorithm_cost winograd_cost(const void *form) {
    enum { IN_OPERATIONS = 160, OUT_OPERATIONS = 100 };
    sizes s = likely_sizes(form);
    double products = 2.0 * POINTS * s.tiles * s.c * s.m,
           transforms = 2 * s.tiles * (IN_OPERATIONS * s.c + OUT_OPERATIONS * s.m);
    double stored = 4 * POINTS * s.tiles * (s.c + s.m);
    return (algorithm_cost){.flops = products + transforms,
                            .cached = 2 * stored + 4 * s.n * s.height * s.width * (s.c + s.m),
                            .constants = 4.0 * POINTS * s.c * s.m,
                            .workspace = stored};
}

// ---------------------------------------------------------------- the transforms of six (or three) values
typedef struct six {
    expr *at[SPAN];
} six;

static expr *scaled(kernel *k, expr *x, double by) { return x_mul(k, x, x_float(k, DT_F32, by)); }
static expr *minus(kernel *k, expr *a, expr *b) { return x_bin(k, X_SUB, a, b); }

//        | 4  0 -5  0  1  0 |
//        | 0 -4 -4  1  1  0 |
//   B' = | 0  4 -4 -1  1  0 |
//        | 0 -2 -1  2  1  0 |
//        | 0  2 -1 -2  1  0 |
//        | 0  4  0 -5  0  1 |
static six transform_in(kernel *k, const six *x) {
    expr *const *d = x->at;
    expr *even = minus(k, d[4], scaled(k, d[2], 4)), *odd = minus(k, d[3], scaled(k, d[1], 4));
    expr *near = minus(k, d[4], d[2]), *twice = scaled(k, minus(k, d[3], d[1]), 2);
    six r;
    r.at[0] = x_add(k, minus(k, scaled(k, d[0], 4), scaled(k, d[2], 5)), d[4]);
    r.at[1] = x_add(k, even, odd);
    r.at[2] = minus(k, even, odd);
    r.at[3] = x_add(k, near, twice);
    r.at[4] = minus(k, near, twice);
    r.at[5] = x_add(k, minus(k, scaled(k, d[1], 4), scaled(k, d[3], 5)), d[5]);
    return r;
}

//        | 1  1  1  1  1  0 |
//   A' = | 0  1 -1  2 -2  0 |
//        | 0  1  1  4  4  0 |
//        | 0  1 -1  8 -8  1 |
static six transform_out(kernel *k, const six *x) {
    expr *const *m = x->at;
    expr *sum1 = x_add(k, m[1], m[2]), *difference1 = minus(k, m[1], m[2]);
    expr *sum2 = x_add(k, m[3], m[4]), *difference2 = minus(k, m[3], m[4]);
    six r = {0};
    r.at[0] = x_add(k, x_add(k, m[0], sum1), sum2);
    r.at[1] = x_add(k, difference1, scaled(k, difference2, 2));
    r.at[2] = x_add(k, sum1, scaled(k, sum2, 4));
    r.at[3] = x_add(k, x_add(k, difference1, scaled(k, difference2, 8)), m[5]);
    return r;
}

// f over the columns, then over the rows of what that gives (rows of them).
static void transform_square(kernel *k, six (*f)(kernel *, const six *), expr *const *from, int rows,
                             expr **to) {
    six half[SPAN];
    for (int col = 0; col < SPAN; col++) {
        six column;
        for (int row = 0; row < SPAN; row++) column.at[row] = from[row * SPAN + col];
        half[col] = f(k, &column);
    }
    for (int row = 0; row < rows; row++) {
        six line;
        for (int col = 0; col < SPAN; col++) line.at[col] = half[col].at[row];
        line = f(k, &line);
        for (int col = 0; col < rows; col++) to[row * rows + col] = line.at[col];
    }
}

static const double G[SPAN][TAPS] = {
    {1.0 / 4, 0, 0},
    {-1.0 / 6, -1.0 / 6, -1.0 / 6},
    {-1.0 / 6, 1.0 / 6, -1.0 / 6},
    {1.0 / 24, 1.0 / 12, 1.0 / 6},
    {1.0 / 24, -1.0 / 12, 1.0 / 6},
    {0, 0, 1},
};

static double weight_at(const double *g, int row, int col) {
    double sum = 0;
    for (int i = 0; i < TAPS; i++)
        for (int j = 0; j < TAPS; j++) sum += G[row][i] * g[i * TAPS + j] * G[col][j];
    return sum;
}

// U[p, c, m] of w[m, c, 3, 3], computed in double and rounded once.
static constant *transform_weights(arena *a, const constant *w, int64_t outs, int64_t channels) {
    constant *u = constant_new(a, DT_F32, 3, (const int64_t[]){POINTS, channels, outs});
    float *to = (float *)u->data;
    for (int64_t m = 0; m < outs; m++)
        for (int64_t c = 0; c < channels; c++) {
            double g[TAPS * TAPS];
            for (int j = 0; j < TAPS * TAPS; j++)
                g[j] = constant_float(w, (m * channels + c) * TAPS * TAPS + j);
            for (int p = 0; p < POINTS; p++)
                to[(p * channels + c) * outs + m] = (float)weight_at(g, p / SPAN, p % SPAN);
        }
    return u;
}

// ---------------------------------------------------------------- building the kernels
static expr *stage_parallel(kernel *k, stage *s, const char *name, dim *extent) {
    int a = kernel_axis(k, AXIS_PARALLEL, name, extent);
    stage_axis(k, s, a);
    return x_axis(k, a);
}

static expr *keep_leaves(void *user, expr *e) {
    (void)user, (void)e;
    return NULL;
}

static kernel *new_kernel(program *p, const winograd *f, const char *suffix) {
    kernel *k = kernel_new(p, arena_printf(p->arena, "%s_%s", f->k->name, suffix), NULL);
    k->loc = f->k->loc;
    for (int j = 0; j < f->k->nodes.n; j++) VEC_PUSH(p->arena, &k->nodes, f->k->nodes.at[j]);
    k->algorithm = winograd_algorithm.name;
    return k;
}

// d[row][col] of a tile: 0 outside of the image.
static expr *read_image(kernel *k, const winograd *f, expr *const *at, int row, int col) {
    buffer *b = f->image->buffer;
    expr *index[4] = {at[0], at[3]}, *guard = x_int(k, DT_BOOL, 1);
    for (int j = 0; j < 2; j++) {
        expr *base = expr_rewrite(k, f->base[j], keep_leaves, NULL),
             *first = x_mul(k, at[1 + j], x_i64(k, TILE));
        expr *i = index[2 + j] = x_add(k, first, x_add(k, base, x_i64(k, j ? col : row)));
        guard = x_and(k, guard, x_bin(k, X_LE, x_i64(k, 0), i));
        guard = x_and(k, guard, x_lt(k, i, x_dim(k, b->dims[2 + j])));
    }
    return x_read_guarded(k, b, index, guard, NULL);
}

static kernel *kernel_in(program *p, const winograd *f, buffer *v) {
    kernel *k = new_kernel(p, f, "in");
    stage *s = kernel_stage(k);
    expr *at[4], *d[POINTS], *t[POINTS];
    static const char *const names[] = {"n", "ty", "tx", "c"};
    for (int j = 0; j < 4; j++) at[j] = stage_parallel(k, s, names[j], v->dims[1 + j]);
    for (int j = 0; j < POINTS; j++) d[j] = read_image(k, f, at, j / SPAN, j % SPAN);
    transform_square(k, transform_in, d, SPAN, t);
    for (int j = 0; j < POINTS; j++)
        stage_write(k, s, v, (expr *[]){x_i64(k, j), at[0], at[1], at[2], at[3]}, t[j]);
    return k;
}

static kernel *kernel_products(program *p, const winograd *f, buffer *v, buffer *u, buffer *to) {
    kernel *k = new_kernel(p, f, "products");
    stage *s = kernel_stage(k);
    expr *at[5];
    static const char *const names[] = {"p", "n", "ty", "tx", "m"};
    for (int j = 0; j < 5; j++) at[j] = stage_parallel(k, s, names[j], to->dims[j]);
    int reduce = kernel_axis(k, AXIS_REDUCE, "c", v->dims[4]);
    stage_axis(k, s, reduce);
    expr *c = x_axis(k, reduce);
    expr *term = x_mul(k, x_read(k, v, (expr *[]){at[0], at[1], at[2], at[3], c}),
                       x_read(k, u, (expr *[]){at[0], c, at[4]}));
    stage_write(k, s, to, at, stage_reduce(k, s, RED_SUM, term));
    return k;
}

// ---- the last kernel, with the epilogue of the old one
typedef struct last {
    kernel *k;
    const winograd *f;
    buffer *m;
    stage *s;
    expr *n, *channel, *tile[2]; // in the stage
    expr *out[2], *sum;          // of the element that is written
} last;

static expr *from_old(void *user, expr *e) {
    last *l = user;
    const winograd *f = l->f;
    if (e->op == X_STATE) return l->sum;
    if (e->op != X_AXIS) return NULL;
    return e->axis == f->n        ? l->n
           : e->axis == f->m      ? l->channel
           : e->axis == f->out[0] ? l->out[0]
                                  : l->out[1];
}

static void write_element(last *l, expr *value, expr *guard) {
    const write *w = l->f->w;
    expr *index[MAX_RANK];
    l->sum = value;
    for (int j = 0; j < w->to->rank; j++) index[j] = expr_rewrite(l->k, w->index[j], from_old, l);
    write *made = stage_write(l->k, l->s, w->to, index, expr_rewrite(l->k, w->value, from_old, l));
    if (guard->op != X_CONST) made->guard = guard;
}

// Rows (or columns) of a tile: all of whole tiles; of the one behind them what remains, and that under a
// guard where it is not known.
typedef struct part {
    dim *tiles;
    dim *first; // of the tiles
    dim *rows;  // in a tile
} part;
static int parts_of(const winograd *f, int space, part *out) {
    dim *n = extent_of(f, f->out[space]), *four = dim_const(n->table, TILE), *whole = dim_floordiv(n, four),
        *rest = dim_mod(n, four);
    int count = 0;
    if (!dim_is(whole, 0)) out[count++] = (part){whole, dim_const(n->table, 0), four};
    if (!dim_is(rest, 0)) out[count++] = (part){dim_sub(tiles_of(f, space), whole), whole, rest};
    return count;
}

static void stage_out(last *l, const part *y, const part *x) {
    kernel *k = l->k;
    expr *m[POINTS], *t[TILE * TILE];
    l->s = kernel_stage(k);
    l->n = stage_parallel(k, l->s, "n", l->m->dims[1]);
    l->tile[0] = x_add(k, stage_parallel(k, l->s, "ty", y->tiles), x_dim(k, y->first));
    l->tile[1] = x_add(k, stage_parallel(k, l->s, "tx", x->tiles), x_dim(k, x->first));
    l->channel = stage_parallel(k, l->s, "m", l->m->dims[4]);
    for (int j = 0; j < POINTS; j++)
        m[j] = x_read(k, l->m, (expr *[]){x_i64(k, j), l->n, l->tile[0], l->tile[1], l->channel});
    transform_square(k, transform_out, m, TILE, t);
    for (int j = 0; j < TILE * TILE; j++) {
        int at[2] = {j / TILE, j % TILE};
        expr *guard = x_int(k, DT_BOOL, 1);
        for (int i = 0; i < 2; i++) {
            guard = x_and(k, guard, x_lt(k, x_i64(k, at[i]), x_dim(k, i ? x->rows : y->rows)));
            l->out[i] = x_add(k, x_mul(k, l->tile[i], x_i64(k, TILE)), x_i64(k, at[i]));
        }
        if (!(guard->op == X_CONST && !guard->i)) write_element(l, t[j], guard);
    }
}

// k becomes the kernel that ends what it was. old: k as it was.
static void become_last(kernel *k, const winograd *f, buffer *m) {
    k->axes.n = k->nouter = k->stages.n = 0;
    k->exprs.n = 0;
    k->axes.at = NULL, k->axes.cap = 0; // the old ones are still read
    k->stages.at = NULL, k->stages.cap = 0;
    k->exprs.at = NULL, k->exprs.cap = 0;
    k->shared = (map){.arena = k->arena};
    k->algorithm = winograd_algorithm.name;
    k->name = arena_printf(k->arena, "%s_out", k->name);
    last l = {.k = k, .f = f, .m = m};
    part y[2], x[2];
    int ny = parts_of(f, 0, y), nx = parts_of(f, 1, x);
    for (int i = 0; i < ny; i++)
        for (int j = 0; j < nx; j++) stage_out(&l, &y[i], &x[j]);
}

static void put_step(program *p, region *r, int at, kernel *k) {
    step *s = ARENA_NEW(p->arena, step);
    *s = (step){.kind = STEP_KERNEL, .kernel = k, .loc = k->loc};
    VEC_PUSH(p->arena, &r->steps, NULL);
    memmove(r->steps.at + at + 1, r->steps.at + at, (size_t)(r->steps.n - 1 - at) * sizeof *r->steps.at);
    r->steps.at[at] = s;
}

static buffer *stored(program *p, const winograd *f, const char *suffix, dim *channels) {
    dim *d[5] = {dim_const(p->dims, POINTS), extent_of(f, f->n), tiles_of(f, 0), tiles_of(f, 1), channels};
    buffer *b =
        program_buffer(p, arena_printf(p->arena, "%s.%s", f->k->name, suffix), BUF_TEMP, DT_F32, 5, d);
    b->region = f->w->to->region;
    return b;
}

static int winograd_apply(program *p, region *r, int at, const void *form) {
    const winograd *f = form;
    kernel *k = r->steps.at[at]->kernel, *old = ARENA_NEW(p->arena, kernel);
    winograd was = *f;
    *old = *k;
    was.k = old;
    dim *c = extent_of(f, f->c), *m = extent_of(f, f->m);
    buffer *v = stored(p, f, "tiles", c), *products = stored(p, f, "products", m);
    constant *weights = transform_weights(p->arena, f->weights->buffer->data, dim_value(m), dim_value(c));
    buffer *u = program_constant(p, arena_printf(p->arena, "%s.winograd", f->weights->buffer->name), weights);
    put_step(p, r, at, kernel_in(p, &was, v));
    put_step(p, r, at + 1, kernel_products(p, &was, v, u, products));
    become_last(k, &was, products);
    return at + 2;
}

// ---------------------------------------------------------------- for layout assignment
typedef struct channel_search {
    const buffer *b;
    int vector, found; // axis of the kernel, of the buffer
} channel_search;
static void match_channel(channel_search *s, const buffer *b, expr *const *index) {
    if (b != s->b) return;
    for (int j = 0; j < b->rank; j++)
        if (index[j]->op == X_AXIS && index[j]->axis == s->vector) s->found = j;
}
static void match_channel_read(void *user, expr *e) {
    if (e->op == X_READ) match_channel(user, e->buffer, e->index);
}

int winograd_channel(const kernel *k, const buffer *b) {
    if (k->algorithm != winograd_algorithm.name || k->stages.at[0]->states.n || b->rank != 4 ||
        b->role == BUF_CONST)
        return -1;
    const stage *s = k->stages.at[0];
    channel_search c = {b, s->axes.at[s->axes.n - 1], -1};
    stage_walk(s, match_channel_read, &c);
    for (int j = 0; j < s->writes.n; j++) match_channel(&c, s->writes.at[j].to, s->writes.at[j].index);
    return c.found;
}

static choice winograd_wish(const algorithm_options *o) { return o->winograd; }

// Measured differences from the direct sum are 2e-6 to 5e-6 of the largest result.
const algorithm winograd_algorithm = {
    "winograd", winograd_wish, winograd_match, winograd_cost, direct_cost, winograd_apply, 1e-5};
