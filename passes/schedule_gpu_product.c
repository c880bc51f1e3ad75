// Contractions on GPUs. In: a kernel that sums products of two operands. Out, in every block:
//
//   for k0 in steps of SLICE: shared_a = a[k0.., rows], shared_b = b[k0.., columns]; barrier
//                             each thread: acc[EACH][EACH] += a * b from shared memory; barrier
//   each thread writes its EACH x EACH results
#include "codegen/convert.h"
#include "ir/program.h"
#include "passes/emit_dim.h"
#include "passes/schedule_gpu_impl.h"

enum { THREADS = 256, TILE = 64, SLICE = 16, EACH = 4, SIDE = TILE / EACH };

typedef struct product {
    gpu *g;
    const contraction *c;
    int m[MAX_AXES], nm, n[MAX_AXES], nn, outer[MAX_AXES], nouter;
    dim *rows, *columns, *depth;
    ins *shared_a, *shared_b; // [SLICE][TILE]
    ins *m0, *n0;
} product;

bool gpu_product_fits(const contraction *c) {
    dtype t = c->s->states.at[0].dtype;
    const expr *init = c->s->states.at[0].init;
    return (t == DT_F32 || t == DT_F64 || t == DT_I32) && init->op == X_CONST && init->i == 0;
}

// One slice of an operand: element (k0 + row, first + column) or 0, row by row of the shared tile.
static void load_slice(product *p, expr *term, const int *axes, int naxes, dim *extent, ins *first, ins *k0,
                       ins *shared) {
    gpu *g = p->g;
    emitter *e = g->e;
    lbuild *b = g->b;
    lkind kind = compute_kind(p->c->s->states.at[0].dtype);
    ins *i = lb_for(b, "i", g->thread, lb_idx(b, SLICE * TILE), lb_idx(b, THREADS), LOOP_SERIAL);
    ins *column = gpu_rest(b, i, lb_idx(b, TILE)), *row = gpu_quotient(b, i, lb_idx(b, TILE));
    ins *at = lb_bin(b, L_ADD, first, column), *k = lb_bin(b, L_ADD, k0, row);
    ins *zero = lkind_is_float(kind) ? lb_float(b, lt(kind, 1), 0) : lb_int(b, lt(kind, 1), 0),
        *v = lb_var(b, "v", zero);
    ins *inside = lb_bin(b, L_AND, lb_cmp(b, L_SLT, at, emit_dim(e, extent)),
                         lb_cmp(b, L_SLT, k, emit_dim(e, p->depth)));
    ins *valid = lb_if(b, inside);
    int mark = scope_open(e);
    gpu_set_counters(g, axes, naxes, at);
    gpu_set_counters(g, p->c->k_axes.at, p->c->k_axes.n, k);
    lb_set(b, v, emit_value(e, term));
    gpu_clear_counters(g, axes, naxes);
    gpu_clear_counters(g, p->c->k_axes.at, p->c->k_axes.n);
    scope_close(e, mark);
    lb_end(b, valid);
    lb_store(b, shared, i, lb_get(b, v), 0);
    lb_end(b, i);
}

static void multiply_slice(product *p, ins **acc, ins *my_row, ins *my_column) {
    lbuild *b = p->g->b;
    lkind kind = compute_kind(p->c->s->states.at[0].dtype);
    ins *k = lb_for(b, "k", lb_idx(b, 0), lb_idx(b, SLICE), lb_idx(b, 1), LOOP_UNROLL),
        *base = lb_bin(b, L_MUL, k, lb_idx(b, TILE));
    ins *fa[EACH], *fb[EACH];
    for (int j = 0; j < EACH; j++) { // strided by SIDE, so that neighbouring threads read neighbouring words
        ins *step = lb_idx(b, j * SIDE);
        fa[j] =
            lb_load(b, lt(kind, 1), p->shared_a, lb_bin(b, L_ADD, lb_bin(b, L_ADD, base, my_row), step), 0);
        fb[j] = lb_load(b, lt(kind, 1), p->shared_b,
                        lb_bin(b, L_ADD, lb_bin(b, L_ADD, base, my_column), step), 0);
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            ins *var = acc[i * EACH + j], *old = lb_get(b, var);
            lb_set(b, var,
                   lkind_is_float(kind) ? lb_muladd(b, fa[i], fb[j], old)
                                        : lb_bin(b, L_ADD, lb_bin(b, L_MUL, fa[i], fb[j]), old));
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
            ins *inside = lb_if(b, lb_bin(b, L_AND, lb_cmp(b, L_SLT, m, emit_dim(e, p->rows)),
                                          lb_cmp(b, L_SLT, n, emit_dim(e, p->columns))));
            int mark = scope_open(e);
            gpu_set_counters(g, p->m, p->nm, m);
            gpu_set_counters(g, p->n, p->nn, n);
            e->state[0] = lb_get(b, acc[i * EACH + j]);
            emit_write(e, p->c->w, to, NULL);
            gpu_clear_counters(g, p->m, p->nm);
            gpu_clear_counters(g, p->n, p->nn);
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
    p->rows = gpu_product_of(p->g->e, p->m, p->nm);
    p->columns = gpu_product_of(p->g->e, p->n, p->nn);
    p->depth = gpu_product_of(p->g->e, c->k_axes.at, c->k_axes.n);
}

void gpu_schedule_product(gpu *g, const contraction *c) {
    emitter *e = g->e;
    lbuild *b = g->b;
    product p = {.g = g, .c = c};
    e->code->schedule = "tiled product";
    product_axes(&p);
    dim *tile = dim_const(e->k->program->dims, TILE), *tiles_m = dim_ceildiv(p.rows, tile),
        *tiles_n = dim_ceildiv(p.columns, tile);
    emitter_stage(e, c->s, -1, 1, false);
    e->state = ARENA_ARRAY(e->scratch, ins *, 1);
    access *to = access_make(e, c->w->to, c->w->index);
    gpu_launch(g, dim_mul(dim_mul(tiles_m, tiles_n), gpu_product_of(e, p.outer, p.nouter)), THREADS);
    ins *tm = emit_dim(e, tiles_m), *tn = emit_dim(e, tiles_n);
    p.n0 = lb_bin(b, L_MUL, gpu_rest(b, g->grid, tn), lb_idx(b, TILE));
    ins *rest = gpu_quotient(b, g->grid, tn);
    p.m0 = lb_bin(b, L_MUL, gpu_rest(b, rest, tm), lb_idx(b, TILE));
    gpu_set_counters(g, p.outer, p.nouter, gpu_quotient(b, rest, tm));
    lkind kind = compute_kind(c->s->states.at[0].dtype);
    p.shared_a = lb_local(b, kind, SLICE * TILE, 16, true);
    p.shared_b = lb_local(b, kind, SLICE * TILE, 16, true);
    ins *my_column = gpu_rest(b, g->thread, lb_idx(b, SIDE)),
        *my_row = gpu_quotient(b, g->thread, lb_idx(b, SIDE)), *acc[EACH * EACH];
    for (int j = 0; j < EACH * EACH; j++)
        acc[j] =
            lb_var(b, "acc", lkind_is_float(kind) ? lb_float(b, lt(kind, 1), 0) : lb_int(b, lt(kind, 1), 0));
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
    gpu_land(g);
}
