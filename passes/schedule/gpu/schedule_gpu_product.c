// Sums of products on GPUs. In: a kernel that is a contraction. Out, in every block, for its t.m x t.n
// results, double buffering of K tiles (slices) in shared memory with register staging:
//
//   fetch slice 0 of a and b into registers, store it into shared memory; barrier
//   for each slice: fetch the next slice into registers
//                   each thread or warp: acc += a * b from shared memory
//                   store the next slice into the other half of shared memory; barrier
//   each thread writes its results
//
// or, if copies to shared memory are asynchronous (gpu_choose_async), a software pipeline of S stages, each a
// K tile of both operands:
//
//   start slices 0 .. S - 2
//   for each slice: wait for its copies; barrier
//                   start slice + S - 1 in the place of the one before
//                   each warp: acc += a * b from shared memory
//
// or, if warpgroups multiply (sm_90a):
//
//   start slices 0 .. S - 2
//   for each slice: wait for its copies; fence; barrier
//                   begin acc += a * b from shared memory; start slice + S - 1; wait for acc
//
// or, with one more stage, start slice + S - 2 in the buffer of the slice before the last, and wait only for
// the products of the last one.
//
// Constants stored in core matrices are loaded by one bulk copy per slice (schedule_gpu_bulk.c).
#include "passes/schedule/gpu/schedule_gpu_product.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include <string.h>

enum { GROUP = 4, WARP = 32, MOST_EACH = 8 };

// By multiply-adds: a thread's results are groups of 4 x 4.
static const tile by_threads[] = {
    {128, 128, 8, 8, 8, 1.0}, {128, 64, 8, 8, 8, 0.9}, {64, 128, 8, 8, 8, 0.9}, {64, 64, 4, 4, 16, 0.6},
    {32, 32, 4, 4, 16, 0.4},  {16, 64, 4, 4, 16, 0.4}, {64, 16, 4, 4, 16, 0.4}, {8, 128, 4, 4, 16, 0.35},
};
// By tensor cores: a warp's results are fragments of 16 x 8, of which a thread has 2 x 2. Warps of 64 x 64
// results read two thirds as much shared memory as tiles of 64 x 32, but a block has half as many of
// them: it takes an occupancy of two blocks to keep a processor busy.
static const tile by_warps[] = {
    {128, 128, 8, 16, 16, 1.1, .occupancy = 2, .least_sm = 80},
    {128, 128, 8, 8, 16, 1.0},
    {128, 64, 8, 8, 16, 0.8},
    {64, 128, 8, 8, 16, 0.8},
    {64, 64, 4, 8, 16, 0.5},
    {32, 32, 2, 4, 16, 0.25},
    {16, 64, 2, 4, 16, 0.25},
};
// By warpgroups, each with 64 rows and all columns of the block. The largest tile has an occupancy of one
// block.
static const tile by_warpgroups[] = {
    {128, 256, 2, 64, 32, 2.0, 4}, {128, 128, 2, 32, 32, 1.7, 3}, {128, 64, 2, 16, 32, 1.3, 3},
    {64, 128, 2, 32, 32, 1.3, 3},  {64, 64, 2, 16, 32, 0.8, 3},
};
enum { BY_WARPGROUPS = sizeof by_warpgroups / sizeof *by_warpgroups };
enum { BY_THREADS = sizeof by_threads / sizeof *by_threads, BY_WARPS = sizeof by_warps / sizeof *by_warps };

bool gpu_product_fits(const contraction *c) {
    dtype t = c->s->states.at[0].dtype;
    const expr *init = c->s->states.at[0].init;
    return (t == DT_F32 || t == DT_F64 || t == DT_I32) && init->op == X_CONST && init->i == 0;
}

// ---------------------------------------------------------------- tiles

// Runtime sizes are assumed to be large.
static double likely(const dim *d) {
    enum { LIKELY = 512 };
    if (dim_is_const(d)) return (double)dim_value(d);
    return (double)(d->max < LIKELY ? d->max : d->min > LIKELY ? d->min : LIKELY);
}
static double blocks_of(double extent, int side) { return (double)(((int64_t)extent + side - 1) / side); }

static double block_count(const product_size *s, const tile *t) {
    return blocks_of(likely(s->m), t->m) * blocks_of(likely(s->n), t->n) * likely(s->batch);
}

// Waves of blocks over the processors, times the cost of a block.
static double cost(const product_size *s, const tile *t) {
    return blocks_of(block_count(s, t), s->processors) * t->m * t->n / t->speed;
}

// Doubles take two registers each; K tiles leave room for the mbarriers of bulk copies.
static bool tile_fits(const product_size *s, const tile *t) {
    enum { BARRIERS = 64 };
    int bytes = t->stages * (t->m + t->n) * t->words * 4;
    if (bytes && bytes + BARRIERS > s->shared_most) return false;
    if (t->least_sm > s->sm || (t->occupancy && block_count(s, t) < t->occupancy * s->processors))
        return false;
    return !s->doubles || t->each_m * t->each_n < 64;
}

// Chooses the cheapest tile, if it costs less than *least, which is updated; *least < 0: any.
static bool choose_of(const product_size *s, const tile *all, int n, double *least, tile *chosen) {
    bool better = false;
    for (int j = 0; j < n; j++) {
        double c = cost(s, &all[j]);
        if (!tile_fits(s, &all[j]) || (*least >= 0 && c >= *least)) continue;
        *least = c;
        *chosen = all[j];
        better = true;
    }
    return better;
}

product_size gpu_product_size(const target *t, const dim *m, const dim *n, const dim *batch) {
    return (product_size){m, n, batch, t->processors, t->shared_most, t->sm, false};
}

tile gpu_choose_tile(const product_size *s, bool tensor, bool *warpgroups, bool only) {
    double least = -1;
    tile t = {0};
    if (!only) choose_of(s, tensor ? by_warps : by_threads, tensor ? BY_WARPS : BY_THREADS, &least, &t);
    *warpgroups = *warpgroups && choose_of(s, by_warpgroups, BY_WARPGROUPS, &least, &t);
    return t;
}

static void choose_tile(product *p) {
    product_size s =
        gpu_product_size(p->g->e->t, p->a.extent, p->b.extent, gpu_product_of(p->g->e, p->outer, p->nouter));
    s.doubles = p->kind == LK_F64;
    p->warpgroups = p->tensor && p->g->e->t->warpgroups;
    p->t = gpu_choose_tile(&s, p->tensor, &p->warpgroups, p->a.cores || p->b.cores);
    if (p->warpgroups) {
        p->a.transposed = !p->a.along_k && p->tensor->per == 2;
        p->b.transposed = !p->b.along_k && p->tensor->per == 2;
    }
    p->threads = p->t.m * p->t.n / (p->t.each_m * p->t.each_n);
    p->a.side = p->t.m, p->b.side = p->t.n;
}

// ---------------------------------------------------------------- operands

static bool is_contiguous(const emitter *e, const expr *read, int axis) {
    const access *a = entry_of((emitter *)e, read)->read;
    return a->affine && steps_by_one(a, axis);
}
static bool is_last_contiguous(const product *p, const operand *o, const int *axes, int n) {
    return n && is_contiguous(p->g->e, o->read, axes[n - 1]);
}

// The type to which factors are converted, DT_NONE: they are stored in the multiplied type. What is rounded to
// tf32 still has type f32.
static dtype factor_type(const product *p, const expr *read, const expr *term) {
    const tensor_type *t = p->tensor;
    if (!t) return DT_NONE;
    bool plain = gpu_is_plain(term, read);
    if (!t->as) return plain ? DT_NONE : t->a;
    bool stored = read->buffer->dtype == t->as && (t->as != DT_F32 || buffer_root(read->buffer)->tf32);
    return plain && stored ? DT_NONE : t->as;
}

void gpu_set_operand(product *p, operand *o, const expr *read, expr *term) {
    const axis_list *k = &p->c->k_axes;
    o->read = read;
    o->term = term;
    o->as = factor_type(p, read, term);
    o->extent = gpu_product_of(p->g->e, o->axes, o->naxes);
    o->cores = gpu_core_axis(p->g->e->t, p->c, read) >= 0;
    bool by_rows = is_last_contiguous(p, o, o->axes, o->naxes);
    o->along_k = o->cores || (!by_rows && is_last_contiguous(p, o, k->at, k->n));
}

// Loop interchange: the K axis along which most operands are contiguous comes last, the longest of such: the
// channels of a channels-last convolution. K tiles of core matrices determine it. This reorders the terms.
static contraction with_runs(const emitter *e, const contraction *c) {
    contraction own = *c;
    axis_list *k = &own.k_axes;
    int best = -1, most = 0;
    for (int j = 0; j < k->n && e->t->fp != FP_STRICT; j++) {
        int axis = k->at[j], runs = is_contiguous(e, c->a, axis) + is_contiguous(e, c->b, axis);
        bool longer = best >= 0 && e->extent[axis]->max > e->extent[k->at[best]]->max;
        if (gpu_core_axis(e->t, c, c->a) == axis || gpu_core_axis(e->t, c, c->b) == axis) runs = 3;
        if (runs > most || (runs && runs == most && longer)) best = j, most = runs;
    }
    if (best < 0) return own;
    int last = k->at[best];
    memmove(k->at + best, k->at + best + 1, (size_t)(k->n - best - 1) * sizeof *k->at);
    k->at[k->n - 1] = last;
    return own;
}

static void set_operands(product *p) {
    const contraction *c = p->c;
    for (int j = 0; j < c->m.n; j++) p->a.axes[p->a.naxes++] = c->m.at[j];
    for (int j = 0; j < c->other_n.n; j++) p->b.axes[p->b.naxes++] = c->other_n.at[j];
    if (c->n >= 0) p->b.axes[p->b.naxes++] = c->n;
    for (int j = 0; j < c->batch.n; j++) p->outer[p->nouter++] = c->batch.at[j];
    p->depth = gpu_product_of(p->g->e, c->k_axes.at, c->k_axes.n);
    gpu_set_operand(p, &p->a, c->a, c->term_a);
    gpu_set_operand(p, &p->b, c->b, c->term_b);
}

// ---------------------------------------------------------------- results

// The positions of a thread's results: row i is unit * size of a unit + lane + a step for i.
static void set_lanes(product *p) {
    lbuild *b = p->g->b;
    ins *thread = p->g->thread;
    if (!p->tensor) {
        ins *columns = lb_idx(b, p->t.n / p->t.each_n);
        p->lane_n[1] = idx_mulk(b, gpu_mod(b, thread, columns), GROUP);
        p->lane_m[1] = idx_mulk(b, gpu_div(b, thread, columns), GROUP);
        return;
    }
    ins *lane = gpu_modk(b, thread, WARP), *warp = gpu_divk(b, thread, WARP),
        *warps = lb_idx(b, p->t.n / (p->t.each_n * 4));
    p->lane_n[0] = gpu_mod(b, warp, warps), p->lane_m[0] = gpu_div(b, warp, warps);
    p->lane_n[1] = idx_mulk(b, gpu_modk(b, lane, 4), 2);
    p->lane_m[1] = gpu_divk(b, lane, 4);
}

static ins *plus_times(lbuild *b, ins *base, ins *x, int by) { return lb_add(b, base, idx_mulk(b, x, by)); }

// The position in the block of row i (column i if `column`) of the thread's results.
static ins *position(product *p, ins *i, bool column) {
    lbuild *b = p->g->b;
    ins *const *lane = column ? p->lane_n : p->lane_m;
    int side = column ? p->t.n : p->t.m, each = column ? p->t.each_n : p->t.each_m;
    int pack = !p->tensor ? GROUP : column ? 2 : 1; // adjacent results of a thread
    int far = !p->tensor ? side / each * GROUP : 8; // distance of packs
    ins *at = plus_times(b, lane[1], gpu_divk(b, i, pack), far);
    if (pack > 1) at = lb_add(b, at, gpu_modk(b, i, pack));
    return p->tensor ? plus_times(b, at, lane[0], column ? each * 4 : each * 8) : at;
}

// Fragments are stored consecutively, each as 2 x 2.
static ins *result_at(product *p, ins *i, ins *j) {
    lbuild *b = p->g->b;
    ins *two = lb_idx(b, 2);
    if (!p->tensor) return plus_times(b, j, i, p->t.each_n);
    ins *fragment = plus_times(b, gpu_div(b, j, two), gpu_div(b, i, two), p->t.each_n / 2);
    return plus_times(b, plus_times(b, gpu_mod(b, j, two), gpu_mod(b, i, two), 2), fragment, 4);
}

// Opens the bounds check of partial tiles; NULL: all tiles are full.
static scope open_guard(product *p, const operand *o, ins *at) {
    bool whole = dim_is_const(o->extent) && dim_value(o->extent) % o->side == 0;
    return scope_if(p->g->e, whole ? NULL : lb_cmp(p->g->b, L_SLT, at, emit_dim(p->g->e, o->extent)));
}

static void write_result(product *p, ins *i, access *to) {
    gpu *g = p->g;
    emitter *e = g->e;
    ins *j = gpu_unroll(g->b, "j", p->t.each_n);
    ins *at = lb_add(g->b, p->b.first, position(p, j, true));
    scope inside = open_guard(p, &p->b, at);
    gpu_set_counters(g, p->b.axes, p->b.naxes, at);
    e->state[0] = lb_load(g->b, lt(p->kind, 1), p->acc, result_at(p, i, j), 0);
    emit_write(e, p->c->w, to, NULL);
    gpu_clear_counters(g, p->b.axes, p->b.naxes);
    scope_close(e, inside);
    lb_end(g->b, j);
}

static bool is_pair_type(dtype t) { return dtype_bits(t) == 16 || dtype_bits(t) == 32; }

static scope open_column(product *p, ins *column) {
    scope mark = scope_open(p->g->e);
    ins *at = lb_add(p->g->b, p->b.first, position(p, column, true));
    gpu_set_counters(p->g, p->b.axes, p->b.naxes, at);
    return mark;
}
static void close_column(product *p, scope mark) {
    gpu_clear_counters(p->g, p->b.axes, p->b.naxes);
    scope_close(p->g->e, mark);
}

// What the epilogue reads in adjacent columns from adjacent elements, always aligned.
static expr_list find_pair_reads(product *p) {
    expr_list all = reads_only(expr_nodes(p->g->e->scratch, p->c->w->value)), found = {0, all.at};
    for (int j = 0; j < all.n; j++) {
        expr *x = all.at[j];
        ins *when;
        bool fits = !x->guard && is_pair_type(x->buffer->dtype) &&
                    gpu_pairs_fit(p, entry_of(p->g->e, x)->read, x->buffer, &when);
        if (fits && !when) found.at[found.n++] = x;
    }
    return found;
}

// What the epilogue reads in pairs of columns, loaded for some columns before any of them are stored: memory
// then serves all of these loads at once.
typedef struct pair_reads {
    expr_list reads;
    ins **loaded; // by read: elements of `columns` columns
    int columns;
} pair_reads;

static pair_reads make_pair_reads(product *p) {
    enum { MOST_COLUMNS = 32 };
    emitter *e = p->g->e;
    pair_reads r = {.reads = find_pair_reads(p)};
    r.columns = p->t.each_n < MOST_COLUMNS ? p->t.each_n : MOST_COLUMNS;
    r.loaded = ARENA_ARRAY(e->scratch, ins *, r.reads.n + 1);
    for (int j = 0; j < r.reads.n; j++)
        r.loaded[j] = lb_local(p->g->b, lkind_of(r.reads.at[j]->buffer->dtype), r.columns, 8, false);
    return r;
}

static ins *open_pairs(lbuild *b, const char *name, int columns, int step) {
    return lb_for(b, name, lb_idx(b, 0), lb_idx(b, columns), lb_idx(b, step), LOOP_UNROLL);
}

static void load_pairs(product *p, const pair_reads *r, ins *first) {
    emitter *e = p->g->e;
    lbuild *b = p->g->b;
    ins *j = open_pairs(b, "j", r->columns, 2);
    scope mark = open_column(p, lb_add(b, first, j));
    for (int n = 0; n < r->reads.n; n++) {
        const expr *x = r->reads.at[n];
        int bytes = dtype_bits(x->buffer->dtype) / 8;
        ins *offset = emit_index(e, entry_of(e, x)->read->offset);
        lb_gpu(b, (gpu_ins){.op = GPU_COPY, .count = 2 * bytes},
               (ins *[]){lb_offset(b, r->loaded[n], j, bytes),
                         lb_offset(b, pointer_of(e, x->buffer), offset, bytes)});
    }
    close_column(p, mark);
    lb_end(b, j);
}

static void use_loaded(emitter *e, const pair_reads *r, ins *column) {
    for (int n = 0; n < r->reads.n; n++)
        use_value(e, r->reads.at[n],
                  load_element(&e->b, r->reads.at[n]->buffer->dtype, r->loaded[n], column, 1));
}

// Stores two results of tensor cores in adjacent columns from first + j on, together if they fit (NULL: they do).
static void write_pair(product *p, ins *i, access *to, const pair_reads *r, ins *first, ins *j, ins *fits) {
    emitter *e = p->g->e;
    lbuild *b = p->g->b;
    const buffer *into = p->c->w->to;
    int bits = dtype_bits(into->dtype);
    ins *pair = lb_local(b, lkind_of(into->dtype), 2, 8, false), *v[2], *offset[2];
    for (int c = 0; c < 2; c++) {
        ins *near = idx_addk(b, j, c), *column = lb_add(b, first, near);
        scope mark = open_column(p, column);
        use_loaded(e, r, near);
        e->state[0] = lb_load(b, lt(p->kind, 1), p->acc, result_at(p, i, column), 0);
        v[c] = emit_stored(e, into, emit_value(e, p->c->w->value));
        offset[c] = emit_index(e, to->offset);
        close_column(p, mark);
    }
    ins *wide = fits ? lb_if(b, fits) : NULL, *place = lb_offset(b, pointer_of(e, into), offset[0], bits / 8);
    for (int c = 0; c < 2; c++) store_element(b, into->dtype, pair, lb_idx(b, c), v[c], 1);
    lb_gpu(b, (gpu_ins){.op = GPU_COPY, .count = bits / 4}, (ins *[]){place, pair});
    if (!wide) return;
    lb_else(b, wide);
    for (int c = 0; c < 2; c++) store_element(b, into->dtype, pointer_of(e, into), offset[c], v[c], 1);
    lb_end(b, wide);
}

static void write_pairs(product *p, ins *i, access *to, const pair_reads *r, ins *fits) {
    lbuild *b = p->g->b;
    ins *first = open_pairs(b, "j0", p->t.each_n, r->columns);
    if (r->reads.n) load_pairs(p, r, first);
    ins *j = open_pairs(b, "j", r->columns, 2);
    write_pair(p, i, to, r, first, j, fits);
    lb_end(b, j);
    lb_end(b, first);
}

// Whether results are stored in pairs; *when as in gpu_pairs_fit.
static bool pairs_fit(product *p, const access *to, ins **when) {
    const write *w = p->c->w;
    bool whole = dim_is_const(p->b.extent) && dim_value(p->b.extent) % p->b.side == 0;
    if (!p->tensor || !whole || w->guard || w->combine != COMBINE_SET || !is_pair_type(w->to->dtype))
        return false;
    return gpu_pairs_fit(p, to, w->to, when);
}

static void write_results(product *p, access *to) {
    gpu *g = p->g;
    ins *when;
    bool pairs = pairs_fit(p, to, &when);
    pair_reads reads = pairs ? make_pair_reads(p) : (pair_reads){0};
    ins *i = gpu_unroll(g->b, "i", p->t.each_m);
    ins *at = lb_add(g->b, p->a.first, position(p, i, false));
    scope inside = open_guard(p, &p->a, at);
    gpu_set_counters(g, p->a.axes, p->a.naxes, at);
    if (pairs) write_pairs(p, i, to, &reads, when);
    else write_result(p, i, to);
    gpu_clear_counters(g, p->a.axes, p->a.naxes);
    scope_close(g->e, inside);
    lb_end(g->b, i);
}

// ---------------------------------------------------------------- multiply-adds

static void load_factors(product *p, operand *o, bool column, int each, ins *slice, ins *k, ins **to) {
    lbuild *b = p->g->b;
    ins *half = idx_mulk(b, slice, gpu_slice_words(p, o));
    for (int i = 0; i < each; i++) {
        ins *at = gpu_shared_at(p, o, position(p, lb_idx(b, i), column), k);
        to[i] = lb_load(b, lt(p->kind, 1), o->shared, lb_add(b, half, at), 0);
    }
}

static void multiply_threads(product *p, ins *slice) {
    lbuild *b = p->g->b;
    ins *fa[MOST_EACH], *fb[MOST_EACH], *k = gpu_unroll(b, "k", p->t.words);
    load_factors(p, &p->a, false, p->t.each_m, slice, k, fa);
    load_factors(p, &p->b, true, p->t.each_n, slice, k, fb);
    for (int i = 0; i < p->t.each_m; i++)
        for (int j = 0; j < p->t.each_n; j++) {
            ins *sum = p->sums[i * p->t.each_n + j], *old = lb_get(b, sum);
            lb_set(b, sum, emit_muladd(b, fa[i], fb[j], old));
        }
    lb_end(b, k);
}

// Spills the results to an array that loops can index.
static void keep_sums(product *p) {
    lbuild *b = p->g->b;
    for (int i = 0; i < p->t.each_m * p->t.each_n; i++)
        lb_store(b, p->acc, lb_idx(b, i), lb_get(b, p->sums[i]), 0);
}

// ---------------------------------------------------------------- the kernel

static void open_block(product *p) {
    gpu *g = p->g;
    emitter *e = g->e;
    lbuild *b = g->b;
    dims *d = e->k->program->dims;
    dim *tiles_m = dim_ceildiv(p->a.extent, dim_const(d, p->t.m)),
        *tiles_n = dim_ceildiv(p->b.extent, dim_const(d, p->t.n));
    gpu_launch(g, dim_mul(dim_mul(tiles_m, tiles_n), gpu_product_of(e, p->outer, p->nouter)), p->threads);
    ins *tm = emit_dim(e, tiles_m), *tn = emit_dim(e, tiles_n), *rest = gpu_div(b, g->grid, tn);
    p->b.first = idx_mulk(b, gpu_mod(b, g->grid, tn), p->t.n);
    p->a.first = idx_mulk(b, gpu_mod(b, rest, tm), p->t.m);
    gpu_set_counters(g, p->outer, p->nouter, gpu_div(b, rest, tm));
}

static void make_memory(product *p) {
    lbuild *b = p->g->b;
    operand *const both[] = {&p->a, &p->b};
    for (int j = 0; j < 2; j++) gpu_choose_units(p, both[j]);
    gpu_choose_async(p);
    for (int j = 0; j < 2; j++) {
        operand *o = both[j];
        o->shared = lb_local(b, p->word, p->stages * gpu_slice_words(p, o), p->warpgroups ? 1024 : 16, true);
        if (!p->async) o->staged = lb_local(b, p->word, gpu_staged_words(p, o), 16, false);
    }
    if (p->a.cores || p->b.cores) gpu_make_mbarriers(p);
    int n = p->t.each_m * p->t.each_n;
    ins *zero = emit_zero(b, lt(p->kind, 1));
    p->acc = lb_local(b, p->kind, n, 16, false);
    if (!p->tensor) {
        p->sums = ARENA_ARRAY(p->g->e->scratch, ins *, n);
        for (int j = 0; j < n; j++) p->sums[j] = lb_var(b, "sum", zero);
        return;
    }
    ins *i = gpu_unroll(b, "i", n);
    lb_store(b, p->acc, i, zero, 0);
    lb_end(b, i);
}

static void load_slices(product *p, ins *k0) {
    gpu_load_slice(p, &p->a, k0);
    gpu_load_slice(p, &p->b, k0);
}
static void store_slices(product *p, ins *slice) {
    gpu_store_slice(p, &p->a, slice);
    gpu_store_slice(p, &p->b, slice);
}

static void sum_slices(product *p) {
    lbuild *b = p->g->b;
    int deep = gpu_slice_depth(p);
    load_slices(p, lb_idx(b, 0));
    store_slices(p, lb_idx(b, 0));
    lb_barrier(b);
    ins *depth = emit_dim(p->g->e, p->depth),
        *k0 = lb_for(b, "k0", lb_idx(b, 0), depth, lb_idx(b, deep), LOOP_SERIAL);
    ins *slice = gpu_modk(b, gpu_divk(b, k0, deep), 2), *other = lb_sub(b, lb_idx(b, 1), slice),
        *next = idx_addk(b, k0, deep);
    ins *more = lb_cmp(b, L_SLT, next, depth), *fetch = lb_if(b, more);
    load_slices(p, next);
    lb_end(b, fetch);
    if (p->tensor) gpu_multiply_tensors(p, slice);
    else multiply_threads(p, slice);
    ins *keep = lb_if(b, more);
    store_slices(p, other);
    lb_end(b, keep);
    lb_barrier(b);
    lb_end(b, k0);
}

// Starts the copies of the K tile at k0, if it exists. Every iteration commits a group of copies, also an
// empty one, so that waits count iterations.
static void issue_slices(product *p, ins *k0, ins *slice) {
    lbuild *b = p->g->b;
    ins *more = lb_if(b, lb_cmp(b, L_SLT, k0, emit_dim(p->g->e, p->depth)));
    scope mark = scope_open(p->g->e);
    operand *const both[] = {&p->a, &p->b};
    gpu_copy_slices(p, k0, slice);
    for (int j = 0; j < 2; j++)
        if (!both[j]->cores) gpu_issue_slice(p, both[j], k0, slice);
    scope_close(p->g->e, mark);
    lb_end(b, more);
    if (p->copies || p->mbarriers) lb_gpu(b, (gpu_ins){GPU_CP_ASYNC_COMMIT}, NULL);
}

static void sum_slices_async(product *p) {
    lbuild *b = p->g->b;
    int deep = gpu_slice_depth(p), ahead = p->stages - 1 - p->overlaps;
    ins *depth = emit_dim(p->g->e, p->depth);
    for (int s = 0; s < ahead; s++) issue_slices(p, lb_idx(b, s * deep), lb_idx(b, s));
    ins *k0 = lb_for(b, "k0", lb_idx(b, 0), depth, lb_idx(b, deep), LOOP_SERIAL);
    ins *number = gpu_divk(b, k0, deep), *all = lb_idx(b, p->stages);
    if (p->copies) lb_gpu(b, (gpu_ins){.op = GPU_CP_ASYNC_WAIT, .count = ahead == 2}, NULL);
    if (p->mbarriers) gpu_wait_slice(p, number);
    bool written = !p->a.cores || !p->b.cores; // by threads
    if (p->warpgroups && written) lb_gpu(b, (gpu_ins){GPU_PROXY_FENCE}, NULL);
    lb_barrier(b);
    if (p->warpgroups) gpu_begin_wgmma(p, gpu_mod(b, number, all));
    issue_slices(p, idx_addk(b, k0, ahead * deep), gpu_mod(b, idx_addk(b, number, ahead), all));
    if (p->warpgroups) gpu_wait_wgmma(p);
    else gpu_multiply_tensors(p, gpu_mod(b, number, all));
    lb_end(b, k0);
    if (p->overlaps) gpu_finish_wgmma(p);
}

void gpu_schedule_product(gpu *g, const contraction *c) {
    emitter *e = g->e;
    product p = {.g = g, .c = c, .tensor = gpu_tensor_type(e->t, c)};
    p.kind = compute_kind(c->s->states.at[0].dtype);
    p.word = p.tensor ? LK_I32 : p.kind;
    e->code->schedule = p.tensor ? "tensor product" : "tiled product";
    emitter_stage(e, c->s, -1, 1, false);
    contraction own = with_runs(e, c);
    p.c = &own;
    e->state = ARENA_ARRAY(e->scratch, ins *, 1);
    set_operands(&p);
    choose_tile(&p);
    access *to = access_make(e, c->w->to, c->w->index);
    open_block(&p);
    set_lanes(&p);
    make_memory(&p);
    scope mark = scope_open(e);
    if (p.async) e->code->schedule = p.warpgroups ? "warp-group product" : "asynchronous tensor product";
    if (p.async) sum_slices_async(&p);
    else sum_slices(&p);
    if (!p.tensor) keep_sums(&p);
    write_results(&p, to);
    scope_close(e, mark);
    gpu_land(g);
}
