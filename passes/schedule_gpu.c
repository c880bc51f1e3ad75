// Schedules for GPUs, as loops with the roles GRID and THREAD around everything:
//
//   points         one thread for each position of the parallel axes
//   rows           one block for each position of the outer axes; its threads share the positions of every stage,
//                  reductions meet in shared memory; a barrier between stages
//   contractions   one block for each TILE x TILE of the result: slices of both operands go through shared memory,
//                  each thread accumulates EACH x EACH results in registers
#include "passes/schedule_gpu.h"
#include "codegen/convert.h"
#include "ir/program.h"
#include "passes/contract.h"
#include "passes/emit_dim.h"
#include "passes/nest.h"

enum { THREADS = 256, ROW_THREADS = 128, TILE = 64, SLICE = 16, EACH = 4, SIDE = TILE / EACH };

typedef struct gpu {
    emitter *e;
    lbuild *b;
    ins *grid, *thread; // loops
    ins *tx;            // this thread
} gpu;

static dim *product_of(emitter *e, const int *axes, int n) {
    dim *p = dim_const(e->k->program->dims, 1);
    for (int j = 0; j < n; j++) p = dim_mul(p, e->extent[axes[j]]);
    return p;
}

static void launch(gpu *g, dim *blocks, int threads) {
    emitter *e = g->e;
    dims *t = e->k->program->dims;
    e->code->grid[0] = blocks, e->code->block[0] = dim_const(t, threads);
    e->code->f->threads[0] = threads;
    e->code->f->grid[0] = dim_is_const(blocks) ? dim_value(blocks) : 0;
    g->grid = lb_for(g->b, "block", lb_idx(g->b, 0), emit_dim(e, blocks), lb_idx(g->b, 1), LOOP_GRID_X);
    g->thread = lb_for(g->b, "thread", lb_idx(g->b, 0), lb_idx(g->b, threads), lb_idx(g->b, 1), LOOP_THREAD_X);
    g->tx = g->thread;
    emitter_status(e);
}
static void land(gpu *g) {
    lb_end(g->b, g->thread);
    lb_end(g->b, g->grid);
}

// Counters of the axes from a position in their row-major product.
static void set_counters(gpu *g, const int *axes, int n, ins *position) {
    emitter *e = g->e;
    for (int j = n - 1; j >= 0; j--) {
        ins *extent = emit_dim(e, e->extent[axes[j]]);
        e->counter[axes[j]] = j ? emit_int_op(g->b, X_MOD, position, extent) : position;
        if (j) position = emit_int_op(g->b, X_FLOORDIV, position, extent);
    }
}
static void clear_counters(gpu *g, const int *axes, int n) {
    for (int j = 0; j < n; j++) g->e->counter[axes[j]] = NULL;
}

// Writes that combine may meet in one element: only one thread may make them.
static bool writes_collide(const kernel *k) {
    for (int s = 0; s < k->stages.n; s++)
        for (int j = 0; j < k->stages.at[s]->writes.n; j++)
            if (k->stages.at[s]->writes.at[j].combine != COMBINE_SET) return true;
    return false;
}

// ---------------------------------------------------------------- one thread does all
static void serial_nest(gpu *g, nest *n, int depth) {
    emitter *e = g->e;
    if (depth == n->nparallel) {
        nest_point(n);
        return;
    }
    int a = n->parallel[depth];
    ins *loop = lb_for(g->b, e->k->axes.at[a].name, lb_idx(g->b, 0), emit_dim(e, e->extent[a]), lb_idx(g->b, 1), LOOP_SERIAL);
    int mark = scope_open(e);
    e->counter[a] = loop;
    serial_nest(g, n, depth + 1);
    e->counter[a] = NULL;
    scope_close(e, mark);
    lb_end(g->b, loop);
}

// ---------------------------------------------------------------- points
static void schedule_points(gpu *g, nest *n) {
    emitter *e = g->e;
    dim *count = product_of(e, n->parallel, n->nparallel);
    launch(g, dim_ceildiv(count, dim_const(count->table, THREADS)), THREADS);
    ins *at = lb_bin(g->b, L_ADD, lb_bin(g->b, L_MUL, g->grid, lb_idx(g->b, THREADS)), g->tx);
    ins *inside = lb_if(g->b, lb_cmp(g->b, L_SLT, at, emit_dim(e, count)));
    int mark = scope_open(e);
    set_counters(g, n->parallel, n->nparallel, at);
    nest_point(n);
    clear_counters(g, n->parallel, n->nparallel);
    scope_close(e, mark);
    emitter_finish(e);
    lb_end(g->b, inside);
    land(g);
}

// ---------------------------------------------------------------- rows
static bool states_split(const stage *s) {
    for (int j = 0; j < s->states.n; j++)
        if (s->states.at[j].op == RED_CUSTOM) return false;
    for (int j = 0; j < s->writes.n; j++)
        if (s->writes.at[j].when != WRITE_END) return false;
    return s->states.n > 0;
}
static bool only_reduces(const emitter *e, const nest *n) {
    for (int j = 0; j < n->ninner; j++)
        if (e->k->axes.at[n->inner[j]].kind != AXIS_REDUCE) return false;
    return n->ninner > 0;
}

// All threads' values of one state to one, left in element 0 of a shared array.
static ins *tree(gpu *g, const state *st, ins *mine) {
    emitter *e = g->e;
    lbuild *b = g->b;
    lkind kind = compute_kind(st->dtype), as = kind == LK_I1 ? LK_I8 : kind;
    ins *shared = lb_local(b, as, ROW_THREADS, 16, true);
    lb_store(b, shared, g->tx, kind == LK_I1 ? lb_conv(b, L_ZEXT, as, mine) : mine, 0);
    lb_barrier(b);
    for (int half = ROW_THREADS / 2; half; half /= 2) {
        ins *low = lb_if(b, lb_cmp(b, L_SLT, g->tx, lb_idx(b, half)));
        ins *x = lb_load(b, lt(as, 1), shared, g->tx, 0), *y = lb_load(b, lt(as, 1), shared, lb_bin(b, L_ADD, g->tx, lb_idx(b, half)), 0);
        ins *r = NULL;
        if (kind == LK_I1) r = lb_bin(b, st->op == RED_AND || st->op == RED_MIN || st->op == RED_PROD ? L_AND : L_OR, x, y);
        else r = emit_reduce(e, st->op, st->dtype, x, y);
        lb_store(b, shared, g->tx, r, 0);
        lb_end(b, low);
        lb_barrier(b);
    }
    ins *all = lb_load(b, lt(as, 1), shared, lb_idx(b, 0), 0);
    return kind == LK_I1 ? lb_cmp(b, L_NE, all, lb_int(b, lt(as, 1), 0)) : all;
}

// The whole block reduces over the stage's reduce axes; one thread writes.
static void block_reduction(gpu *g, nest *n) {
    emitter *e = g->e;
    lbuild *b = g->b;
    int mark = scope_open(e);
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        n->vars[j] = lb_var(b, "acc", emit_value(e, reduce_neutral(e->k, st->op, st->dtype)));
    }
    ins *count = emit_dim(e, product_of(e, n->inner, n->ninner));
    ins *i = lb_for(b, "i", g->tx, count, lb_idx(b, ROW_THREADS), LOOP_SERIAL);
    int inner = scope_open(e);
    set_counters(g, n->inner, n->ninner, i);
    nest_step(n);
    clear_counters(g, n->inner, n->ninner);
    scope_close(e, inner);
    lb_end(b, i);
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        e->state[j] = emit_reduce(e, st->op, st->dtype, tree(g, st, lb_get(b, n->vars[j])), emit_value(e, st->init));
    }
    ins *first = lb_if(b, lb_cmp(b, L_EQ, g->tx, lb_idx(b, 0)));
    inner = scope_open(e);
    nest_write(n, WRITE_END);
    scope_close(e, inner);
    lb_end(b, first);
    scope_close(e, mark);
}

static void block_stage(gpu *g, const stage *s) {
    emitter *e = g->e;
    lbuild *b = g->b;
    nest *n = nest_new(e, s, false);
    if (n->nparallel == 0 && states_split(s) && only_reduces(e, n)) {
        block_reduction(g, n);
    } else if (n->nparallel == 0) { // ordered: one thread
        ins *first = lb_if(b, lb_cmp(b, L_EQ, g->tx, lb_idx(b, 0)));
        int mark = scope_open(e);
        nest_point(n);
        scope_close(e, mark);
        lb_end(b, first);
    } else {
        ins *i = lb_for(b, "i", g->tx, emit_dim(e, product_of(e, n->parallel, n->nparallel)), lb_idx(b, ROW_THREADS), LOOP_SERIAL);
        int mark = scope_open(e);
        set_counters(g, n->parallel, n->nparallel, i);
        nest_point(n);
        clear_counters(g, n->parallel, n->nparallel);
        scope_close(e, mark);
        lb_end(b, i);
    }
    lb_barrier(b);
}

static void schedule_rows(gpu *g) {
    emitter *e = g->e;
    int outer[MAX_AXES];
    for (int a = 0; a < e->k->nouter; a++) outer[a] = a;
    launch(g, product_of(e, outer, e->k->nouter), ROW_THREADS);
    emitter_block_locals(e, g->grid);
    set_counters(g, outer, e->k->nouter, g->grid);
    int mark = scope_open(e);
    for (int s = 0; s < e->k->stages.n; s++) block_stage(g, e->k->stages.at[s]);
    scope_close(e, mark);
    emitter_finish(e);
    land(g);
}

// ---------------------------------------------------------------- contractions
typedef struct product {
    gpu *g;
    const contraction *c;
    int m[MAX_AXES], nm, n[MAX_AXES], nn, outer[MAX_AXES], nouter;
    dim *rows, *columns, *depth;
    ins *shared_a, *shared_b; // [SLICE][TILE]
    ins *m0, *n0;
} product;

static bool contraction_fits(const contraction *c) {
    dtype t = c->s->states.at[0].dtype;
    const expr *init = c->s->states.at[0].init;
    return (t == DT_F32 || t == DT_F64 || t == DT_I32) && init->op == X_CONST && init->i == 0;
}

// One slice of an operand: element (k0 + row, first + column) or 0, row by row of the shared tile.
static void load_slice(product *p, expr *term, const int *axes, int naxes, dim *extent, ins *first, ins *k0, ins *shared) {
    gpu *g = p->g;
    emitter *e = g->e;
    lbuild *b = g->b;
    lkind kind = compute_kind(p->c->s->states.at[0].dtype);
    ins *i = lb_for(b, "i", g->tx, lb_idx(b, SLICE * TILE), lb_idx(b, THREADS), LOOP_SERIAL);
    ins *column = emit_int_op(b, X_MOD, i, lb_idx(b, TILE)), *row = emit_int_op(b, X_FLOORDIV, i, lb_idx(b, TILE));
    ins *at = lb_bin(b, L_ADD, first, column), *k = lb_bin(b, L_ADD, k0, row);
    ins *zero = lkind_is_float(kind) ? lb_float(b, lt(kind, 1), 0) : lb_int(b, lt(kind, 1), 0), *v = lb_var(b, "v", zero);
    ins *inside = lb_bin(b, L_AND, lb_cmp(b, L_SLT, at, emit_dim(e, extent)), lb_cmp(b, L_SLT, k, emit_dim(e, p->depth)));
    ins *valid = lb_if(b, inside);
    int mark = scope_open(e);
    set_counters(g, axes, naxes, at);
    set_counters(g, p->c->k_axes.at, p->c->k_axes.n, k);
    lb_set(b, v, emit_value(e, term));
    clear_counters(g, axes, naxes);
    clear_counters(g, p->c->k_axes.at, p->c->k_axes.n);
    scope_close(e, mark);
    lb_end(b, valid);
    lb_store(b, shared, i, lb_get(b, v), 0);
    lb_end(b, i);
}

static void multiply_slice(product *p, ins **acc, ins *my_row, ins *my_column) {
    lbuild *b = p->g->b;
    lkind kind = compute_kind(p->c->s->states.at[0].dtype);
    ins *k = lb_for(b, "k", lb_idx(b, 0), lb_idx(b, SLICE), lb_idx(b, 1), LOOP_UNROLL), *base = lb_bin(b, L_MUL, k, lb_idx(b, TILE));
    ins *fa[EACH], *fb[EACH];
    for (int j = 0; j < EACH; j++) { // strided by SIDE, so that neighbouring threads read neighbouring words
        ins *step = lb_idx(b, j * SIDE);
        fa[j] = lb_load(b, lt(kind, 1), p->shared_a, lb_bin(b, L_ADD, lb_bin(b, L_ADD, base, my_row), step), 0);
        fb[j] = lb_load(b, lt(kind, 1), p->shared_b, lb_bin(b, L_ADD, lb_bin(b, L_ADD, base, my_column), step), 0);
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            ins *var = acc[i * EACH + j], *old = lb_get(b, var);
            lb_set(b, var, lkind_is_float(kind) ? lb_muladd(b, fa[i], fb[j], old) : lb_bin(b, L_ADD, lb_bin(b, L_MUL, fa[i], fb[j]), old));
        }
    lb_end(b, k);
}

static void write_results(product *p, ins **acc, ins *my_row, ins *my_column, access *to) {
    gpu *g = p->g;
    emitter *e = g->e;
    lbuild *b = g->b;
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            ins *m = lb_bin(b, L_ADD, lb_bin(b, L_ADD, p->m0, my_row), lb_idx(b, i * SIDE));
            ins *n = lb_bin(b, L_ADD, lb_bin(b, L_ADD, p->n0, my_column), lb_idx(b, j * SIDE));
            ins *inside = lb_if(b, lb_bin(b, L_AND, lb_cmp(b, L_SLT, m, emit_dim(e, p->rows)), lb_cmp(b, L_SLT, n, emit_dim(e, p->columns))));
            int mark = scope_open(e);
            set_counters(g, p->m, p->nm, m);
            set_counters(g, p->n, p->nn, n);
            e->state[0] = lb_get(b, acc[i * EACH + j]);
            emit_write(e, p->c->w, to, NULL);
            clear_counters(g, p->m, p->nm);
            clear_counters(g, p->n, p->nn);
            scope_close(e, mark);
            lb_end(b, inside);
        }
}

static void product_axes(product *p) {
    const contraction *c = p->c;
    for (int j = 0; j < c->m.n; j++) p->m[p->nm++] = c->m.at[j];
    for (int j = 0; j < c->other_n.n; j++) p->n[p->nn++] = c->other_n.at[j];
    if (c->n >= 0) p->n[p->nn++] = c->n;
    for (int j = 0; j < c->batch.n; j++) p->outer[p->nouter++] = c->batch.at[j];
    p->rows = product_of(p->g->e, p->m, p->nm);
    p->columns = product_of(p->g->e, p->n, p->nn);
    p->depth = product_of(p->g->e, c->k_axes.at, c->k_axes.n);
}

static void schedule_product(gpu *g, const contraction *c) {
    emitter *e = g->e;
    lbuild *b = g->b;
    product p = {.g = g, .c = c};
    product_axes(&p);
    dim *tile = dim_const(e->k->program->dims, TILE), *tiles_m = dim_ceildiv(p.rows, tile), *tiles_n = dim_ceildiv(p.columns, tile);
    emitter_stage(e, c->s, -1, 1, false);
    e->state = ARENA_ARRAY(e->scratch, ins *, 1);
    access *to = access_make(e, c->w->to, c->w->index);
    launch(g, dim_mul(dim_mul(tiles_m, tiles_n), product_of(e, p.outer, p.nouter)), THREADS);
    ins *tm = emit_dim(e, tiles_m), *tn = emit_dim(e, tiles_n);
    p.n0 = lb_bin(b, L_MUL, emit_int_op(b, X_MOD, g->grid, tn), lb_idx(b, TILE));
    ins *rest = emit_int_op(b, X_FLOORDIV, g->grid, tn);
    p.m0 = lb_bin(b, L_MUL, emit_int_op(b, X_MOD, rest, tm), lb_idx(b, TILE));
    set_counters(g, p.outer, p.nouter, emit_int_op(b, X_FLOORDIV, rest, tm));
    lkind kind = compute_kind(c->s->states.at[0].dtype);
    p.shared_a = lb_local(b, kind, SLICE * TILE, 16, true);
    p.shared_b = lb_local(b, kind, SLICE * TILE, 16, true);
    ins *my_column = emit_int_op(b, X_MOD, g->tx, lb_idx(b, SIDE)), *my_row = emit_int_op(b, X_FLOORDIV, g->tx, lb_idx(b, SIDE)), *acc[EACH * EACH];
    for (int j = 0; j < EACH * EACH; j++) acc[j] = lb_var(b, "acc", lkind_is_float(kind) ? lb_float(b, lt(kind, 1), 0) : lb_int(b, lt(kind, 1), 0));
    int mark = scope_open(e);
    ins *k0 = lb_for(b, "k0", lb_idx(b, 0), emit_dim(e, p.depth), lb_idx(b, SLICE), LOOP_SERIAL);
    load_slice(&p, c->term_a, p.m, p.nm, p.rows, p.m0, k0, p.shared_a);
    load_slice(&p, c->term_b, p.n, p.nn, p.columns, p.n0, k0, p.shared_b);
    lb_barrier(b);
    multiply_slice(&p, acc, my_row, my_column);
    lb_barrier(b);
    lb_end(b, k0);
    write_results(&p, acc, my_row, my_column, to);
    scope_close(e, mark);
    emitter_finish(e);
    land(g);
}

// ---------------------------------------------------------------- entry
void schedule_gpu(emitter *e) {
    gpu g = {.e = e, .b = &e->b};
    contraction c;
    emitter_signature_gpu(e);
    if (contraction_find(e->k, &c) && contraction_fits(&c)) {
        e->code->schedule = "tiled product";
        schedule_product(&g, &c);
    } else if (e->k->stages.n > 1 || e->k->locals.n) {
        e->code->schedule = "rows";
        schedule_rows(&g);
    } else {
        nest *n = nest_new(e, e->k->stages.at[0], true);
        e->code->schedule = "points";
        if (!writes_collide(e->k)) {
            schedule_points(&g, n);
            return;
        }
        launch(&g, dim_const(e->k->program->dims, 1), 1);
        serial_nest(&g, n, 0);
        emitter_finish(e);
        land(&g);
    }
}
