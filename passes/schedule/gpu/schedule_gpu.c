// Schedules for GPUs, as loops with the roles GRID and THREAD around everything:
//
//   points         one thread per position of the parallel axes
//   reductions     one block per position of the parallel axes, if there are few positions or they are not
//                  contiguous in memory
//   rows           one block per position of the outer axes; its threads share the positions of each stage,
//                  reduce through shared memory, and meet at a barrier between stages
//   contractions   one block per TILE x TILE of the result, in schedule_gpu_product.c
//   attention      one block per 64 rows of queries, in schedule_gpu_attention.c
//   one thread     combining writes to elements that other threads combine into as well
#include "passes/schedule/gpu/schedule_gpu.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/schedule/common/nest.h"
#include "passes/schedule/gpu/schedule_gpu_impl.h"

enum { THREADS = 256, ROW_THREADS = 128, WARP = 32 };

dim *gpu_product_of(const emitter *e, const int *axes, int n) {
    dim *p = dim_const(e->k->program->dims, 1);
    for (int j = 0; j < n; j++) p = dim_mul(p, e->extent[axes[j]]);
    return p;
}

void gpu_launch(gpu *g, dim *blocks, int threads) {
    emitter *e = g->e;
    dims *t = e->k->program->dims;
    e->code->grid[0] = blocks, e->code->block[0] = dim_const(t, threads);
    e->code->f->threads[0] = threads;
    e->code->f->threads[1] = e->code->f->threads[2] = 1;
    e->code->f->grid[0] = dim_is_const(blocks) ? dim_value(blocks) : 0;
    g->grid = lb_for(g->b, "block", lb_idx(g->b, 0), emit_dim(e, blocks), lb_idx(g->b, 1), LOOP_GRID_X);
    g->thread =
        lb_for(g->b, "thread", lb_idx(g->b, 0), lb_idx(g->b, threads), lb_idx(g->b, 1), LOOP_THREAD_X);
    emitter_status(e);
}
void gpu_land(gpu *g) {
    emitter_finish(g->e);
    lb_end(g->b, g->thread);
    lb_end(g->b, g->grid);
}

// An empty axis is never executed.
static bool is_nothing(const ins *x) { return x->op == L_CONST && x->i == 0; }
ins *gpu_mod(lbuild *b, ins *x, ins *by) {
    if (is_nothing(by)) return lb_int(b, x->type, 0);
    return idx_power_of_two(by) ? emit_int_op(b, X_MOD, x, by) : lb_bin(b, L_UREM, x, by);
}
ins *gpu_div(lbuild *b, ins *x, ins *by) {
    if (is_nothing(by)) return lb_int(b, x->type, 0);
    return idx_power_of_two(by) ? emit_int_op(b, X_FLOORDIV, x, by) : lb_bin(b, L_UDIV, x, by);
}

void gpu_set_counters(gpu *g, const int *axes, int n, ins *position) {
    emitter *e = g->e;
    for (int j = n - 1; j >= 0; j--) {
        ins *extent = emit_dim(e, e->extent[axes[j]]);
        e->counter[axes[j]] = j ? gpu_mod(g->b, position, extent) : position;
        if (j) position = gpu_div(g->b, position, extent);
    }
}
void gpu_clear_counters(gpu *g, const int *axes, int n) {
    for (int j = 0; j < n; j++) g->e->counter[axes[j]] = NULL;
}

// ---------------------------------------------------------------- a single thread
// Combining writes may collide in an element, and sub-byte elements in a byte: only one thread may perform
// them.
static bool writes_collide(const stage *s) {
    for (int j = 0; j < s->writes.n; j++) {
        const write *w = &s->writes.at[j];
        if (w->combine != COMBINE_SET || dtype_bits(w->to->dtype) < 8) return true;
    }
    return false;
}
static bool any_collide(const kernel *k) {
    for (int s = 0; s < k->stages.n; s++)
        if (writes_collide(k->stages.at[s])) return true;
    return false;
}

static scope open_serial(gpu *g, int axis) {
    return scope_axis(g->e, axis, lb_idx(g->b, 0), emit_dim(g->e, g->e->extent[axis]), 1, LOOP_SERIAL);
}

static void serial_nest(gpu *g, nest *n, int depth) {
    if (depth == n->nparallel) {
        nest_point(n);
        return;
    }
    scope loop = open_serial(g, n->parallel[depth]);
    serial_nest(g, n, depth + 1);
    scope_close(g->e, loop);
}

static void serial_stage(gpu *g, nest *n) {
    scope mark = scope_open(g->e);
    serial_nest(g, n, 0);
    scope_close(g->e, mark);
}

static void serial_rows(gpu *g, int depth) {
    emitter *e = g->e;
    if (depth == e->k->nouter) {
        for (int s = 0; s < e->k->stages.n; s++) serial_stage(g, nest_new(e, e->k->stages.at[s], false));
        return;
    }
    scope loop = open_serial(g, depth);
    serial_rows(g, depth + 1);
    scope_close(e, loop);
}

static void schedule_serial(gpu *g) {
    g->e->code->schedule = "one thread";
    gpu_launch(g, dim_const(g->e->k->program->dims, 1), 1);
    emitter_block_locals(g->e, lb_idx(g->b, 0));
    serial_rows(g, 0);
    gpu_land(g);
}

// ---------------------------------------------------------------- points
// Coalescing: adjacent threads write adjacent elements, also if the output has another layout.
static void order_positions(nest *n) {
    const access *to = n->s->writes.n ? n->writes[0] : NULL;
    if (!to || !to->affine || !n->s->writes.at[0].to->layout) return;
    for (int j = 0; j < n->nparallel; j++) {
        int axis = n->parallel[j];
        if (!steps_by_one(to, axis)) continue;
        for (int i = j; i < n->nparallel - 1; i++) n->parallel[i] = n->parallel[i + 1];
        n->parallel[n->nparallel - 1] = axis;
        return;
    }
}

static void at_point(gpu *g, nest *n, ins *position) {
    gpu_set_counters(g, n->parallel, n->nparallel, position);
    nest_point(n);
    gpu_clear_counters(g, n->parallel, n->nparallel);
}

static void schedule_points(gpu *g, nest *n) {
    emitter *e = g->e;
    order_positions(n);
    e->code->schedule = "points";
    dim *count = gpu_product_of(e, n->parallel, n->nparallel);
    gpu_launch(g, dim_ceildiv(count, dim_const(count->table, THREADS)), THREADS);
    ins *at = lb_add(g->b, idx_mulk(g->b, g->grid, THREADS), g->thread);
    scope inside = scope_if(e, lb_cmp(g->b, L_SLT, at, emit_dim(e, count)));
    at_point(g, n, at);
    scope_close(e, inside);
    gpu_land(g);
}

// ---------------------------------------------------------------- reductions by a block
static bool only_reduces(const emitter *e, const nest *n) {
    for (int j = 0; j < n->ninner; j++)
        if (e->k->axes.at[n->inner[j]].kind != AXIS_REDUCE) return false;
    return n->ninner > 0;
}

// Whether threads may reduce parts of the terms, which reorders them.
static bool states_split(const emitter *e, const nest *n) {
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        bool rounds =
            !dtype_is_int(st->dtype) && st->dtype != DT_BOOL && (st->op == RED_SUM || st->op == RED_PROD);
        if (st->op == RED_CUSTOM || (rounds && e->t->fp == FP_STRICT)) return false;
    }
    for (int j = 0; j < n->s->writes.n; j++)
        if (n->s->writes.at[j].when != WRITE_END || n->s->writes.at[j].to->dtype == DT_C128) return false;
    return n->s->states.n > 0 && only_reduces(e, n);
}

static ins *meet(gpu *g, const state *st, ins *x, ins *y) {
    if (st->dtype != DT_BOOL) return emit_reduce(g->e, st->op, st->dtype, x, y);
    bool all = st->op == RED_AND || st->op == RED_MIN || st->op == RED_PROD;
    return lb_bin(g->b, all ? L_AND : L_OR, x, y);
}

// Reduces a state over all threads to a value that every thread gets: within warps by shuffles, then through
// shared memory.
static ins *block_value(gpu *g, const state *st, ins *mine) {
    lbuild *b = g->b;
    lkind kind = compute_kind(st->dtype), as = kind == LK_I1 ? LK_I32 : kind;
    if (kind == LK_I1) mine = lb_conv(b, L_ZEXT, as, mine);
    for (int lane = WARP / 2; lane; lane /= 2) mine = meet(g, st, mine, lb_shfl_xor(b, mine, lane));
    ins *shared = lb_local(b, as, ROW_THREADS / WARP, 16, true);
    ins *first = lb_if(b, lb_cmp(b, L_EQ, gpu_modk(b, g->thread, WARP), lb_idx(b, 0)));
    lb_store(b, shared, gpu_divk(b, g->thread, WARP), mine, 0);
    lb_end(b, first);
    lb_barrier(b);
    ins *all = lb_load(b, lt(as, 1), shared, lb_idx(b, 0), 0);
    for (int w = 1; w < ROW_THREADS / WARP; w++)
        all = meet(g, st, all, lb_load(b, lt(as, 1), shared, lb_idx(b, w), 0));
    return kind == LK_I1 ? lb_cmp(b, L_NE, all, lb_int(b, lt(as, 1), 0)) : all;
}

static scope if_first_thread(gpu *g) {
    return scope_if(g->e, lb_cmp(g->b, L_EQ, g->thread, lb_idx(g->b, 0)));
}

// The whole block reduces over the stage's reduce axes; one thread writes the result.
static void block_reduction(gpu *g, nest *n) {
    emitter *e = g->e;
    lbuild *b = g->b;
    scope mark = scope_open(e);
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        n->vars[j] = lb_var(b, "acc", emit_value(e, reduce_neutral(e->k, st->op, st->dtype)));
    }
    ins *count = emit_dim(e, gpu_product_of(e, n->inner, n->ninner));
    scope loop = scope_for(e, "i", g->thread, count, ROW_THREADS, LOOP_SERIAL);
    gpu_set_counters(g, n->inner, n->ninner, loop.head);
    nest_step(n);
    gpu_clear_counters(g, n->inner, n->ninner);
    scope_close(e, loop);
    for (int j = 0; j < n->s->states.n; j++) {
        const state *st = &n->s->states.at[j];
        e->state[j] = emit_reduce(e, st->op, st->dtype, block_value(g, st, lb_get(b, n->vars[j])),
                                  emit_value(e, st->init));
    }
    scope first = if_first_thread(g);
    nest_write(n, WRITE_END);
    scope_close(e, first);
    scope_close(e, mark);
}

static bool has_unit_stride(const nest *n) {
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, PART_ALL));
    for (int j = 0; j < reads.n; j++) {
        const access *a = entry_of(n->e, reads.at[j])->read;
        if (a && a->affine && steps_by_one(a, n->inner[n->ninner - 1])) return true;
    }
    return false;
}

// Whether one thread per output would give too few threads, or uncoalesced reads.
static bool blocks_reduce(const gpu *g, nest *n) {
    enum { LONG = 4 * WARP, FEW = 4096 };
    if (!states_split(g->e, n)) return false;
    dim *outputs = gpu_product_of(g->e, n->parallel, n->nparallel),
        *terms = gpu_product_of(g->e, n->inner, n->ninner);
    if (dim_is_const(terms) && dim_value(terms) < LONG) return false;
    return has_unit_stride(n) || (dim_is_const(outputs) && dim_value(outputs) < FEW);
}

static void schedule_reduction(gpu *g, nest *n) {
    emitter *e = g->e;
    e->code->schedule = "reduction by blocks";
    gpu_launch(g, gpu_product_of(e, n->parallel, n->nparallel), ROW_THREADS);
    scope mark = scope_open(e);
    gpu_set_counters(g, n->parallel, n->nparallel, g->grid);
    block_reduction(g, n);
    gpu_clear_counters(g, n->parallel, n->nparallel);
    scope_close(e, mark);
    gpu_land(g);
}

// ---------------------------------------------------------------- rows
static void in_first_thread(gpu *g, nest *n) {
    scope first = if_first_thread(g);
    serial_nest(g, n, 0);
    scope_close(g->e, first);
}

static void in_all_threads(gpu *g, nest *n) {
    ins *count = emit_dim(g->e, gpu_product_of(g->e, n->parallel, n->nparallel));
    scope loop = scope_for(g->e, "i", g->thread, count, ROW_THREADS, LOOP_SERIAL);
    at_point(g, n, loop.head);
    scope_close(g->e, loop);
}

// Buffers accessed since the last barrier: elements that a thread wrote must not be accessed by others before
// the next barrier, nor elements that others read be written.
typedef enum toucher {
    BY_ANY,
    BY_POSITION, // each thread accesses only elements at its own positions
    BY_FIRST,    // only the first thread
} toucher;
typedef struct touch {
    const buffer *b;
    toucher who;
} touch;
typedef VEC(touch) touch_list;
typedef struct rows {
    gpu *g;
    touch_list read, written;
} rows;
typedef struct stage_touches {
    nest *n;
    const int *axes; // whose product is the thread's position
    int naxes;
    bool in_order; // only the first thread runs it
    touch_list read, written;
} stage_touches;

static bool at_own_position(const stage_touches *u, const access *a) {
    kernel *k = u->n->e->k;
    if (!a || !a->affine || !u->naxes || !expr_is_int(a->base, 0)) return false;
    for (int j = 0; j < u->n->s->axes.n; j++) {
        int axis = u->n->s->axes.at[j], at = 0;
        while (at < u->naxes && u->axes[at] != axis) at++;
        dim *stride = at < u->naxes ? gpu_product_of(u->n->e, u->axes + at + 1, u->naxes - at - 1)
                                    : dim_const(k->program->dims, 0);
        if (a->coef[axis] != x_dim(k, stride)) return false;
    }
    return true;
}

static void add_touch(arena *a, touch_list *l, touch u) {
    u.b = buffer_root(u.b);
    for (int j = 0; j < l->n; j++)
        if (l->at[j].b == u.b) {
            if (l->at[j].who != u.who) l->at[j].who = BY_ANY;
            return;
        }
    VEC_PUSH(a, l, u);
}
static void add_touches(arena *a, touch_list *l, const touch_list *more) {
    for (int j = 0; j < more->n; j++) add_touch(a, l, more->at[j]);
}
static toucher toucher_of(const stage_touches *u, const access *a) {
    return u->in_order ? BY_FIRST : at_own_position(u, a) ? BY_POSITION : BY_ANY;
}

static bool meet_in_memory(const touch_list *a, const touch_list *b) {
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            if (a->at[i].b == b->at[j].b && (a->at[i].who != b->at[j].who || a->at[i].who == BY_ANY))
                return true;
    return false;
}

static stage_touches touches_of(nest *n, bool reduction) {
    stage_touches u = {.n = n, .axes = n->nparallel ? n->parallel : n->inner};
    u.naxes = n->nparallel ? n->nparallel : n->ninner;
    u.in_order = !n->nparallel && !reduction;
    expr_list reads = reads_only(stage_nodes(n->e->scratch, n->s, PART_ALL));
    for (int j = 0; j < reads.n; j++) {
        toucher who = toucher_of(&u, entry_of(n->e, reads.at[j])->read);
        add_touch(n->e->scratch, &u.read, (touch){reads.at[j]->buffer, who});
    }
    for (int j = 0; j < n->s->writes.n; j++) {
        toucher who = reduction ? BY_FIRST : toucher_of(&u, n->writes[j]);
        add_touch(n->e->scratch, &u.written, (touch){n->s->writes.at[j].to, who});
    }
    return u;
}

static void block_stage(rows *r, const stage *s) {
    gpu *g = r->g;
    nest *n = nest_new(g->e, s, false);
    bool reduction = !n->nparallel && states_split(g->e, n);
    stage_touches u = touches_of(n, reduction);
    bool waits = meet_in_memory(&u.read, &r->written);
    if (!reduction) waits |= meet_in_memory(&u.written, &r->written) || meet_in_memory(&u.written, &r->read);
    if (waits) lb_barrier(g->b);
    if (waits || reduction) *r = (rows){.g = g}; // a reduction has a barrier before its writes
    add_touches(g->e->scratch, &r->read, &u.read);
    add_touches(g->e->scratch, &r->written, &u.written);
    if (n->nparallel) in_all_threads(g, n);
    else if (reduction) block_reduction(g, n);
    else in_first_thread(g, n); // sequential
}

static void schedule_rows(gpu *g) {
    emitter *e = g->e;
    int outer[MAX_AXES];
    rows r = {.g = g};
    if (e->k->nouter > MAX_AXES)
        diag_fatal_missing(e->b.diag, e->k->loc, "kernel %s has %d outer axes; this build schedules %d",
                           e->k->name, e->k->nouter, MAX_AXES);
    e->code->schedule = "rows";
    for (int a = 0; a < e->k->nouter; a++) outer[a] = a;
    gpu_launch(g, gpu_product_of(e, outer, e->k->nouter), ROW_THREADS);
    emitter_block_locals(e, g->grid);
    gpu_set_counters(g, outer, e->k->nouter, g->grid);
    scope mark = scope_open(e);
    for (int s = 0; s < e->k->stages.n; s++) block_stage(&r, e->k->stages.at[s]);
    scope_close(e, mark);
    gpu_land(g);
}

// ---------------------------------------------------------------- entry
static void use_32_bits(emitter *e) {
    target *t = ARENA_NEW(e->scratch, target);
    *t = *e->t;
    t->ptr_bits = 32; // for positions; pointers keep their size
    e->t = e->b.target = e->code->f->target = t;
}

static void schedule_one_stage(gpu *g) {
    nest *n = nest_new(g->e, g->e->k->stages.at[0], true);
    if (blocks_reduce(g, n)) schedule_reduction(g, n);
    else schedule_points(g, n);
}

void schedule_gpu(emitter *e) {
    gpu g = {.e = e, .b = &e->b};
    contraction c;
    attention a;
    bool collide = any_collide(e->k), attends = !collide && gpu_attention_fits(e, &a);
    if (gpu_index_fits_32(e)) use_32_bits(e);
    emitter_signature_gpu(e, !attends);
    if (collide) schedule_serial(&g);
    else if (attends) gpu_schedule_attention(&g, &a);
    else if (contraction_find(e->k, &c) && gpu_product_fits(&c)) gpu_schedule_product(&g, &c);
    else if (e->k->stages.n > 1 || e->k->locals.n) schedule_rows(&g);
    else schedule_one_stage(&g);
}
