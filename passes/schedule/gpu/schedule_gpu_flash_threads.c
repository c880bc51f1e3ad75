// Attention by multiply-adds of f32: the products of schedule_gpu_attention.c, each as in
// schedule_gpu_product.c. 16 threads share 4 rows: a thread has 4 columns of each 64. K tiles of Q, K and V
// share one area of shared memory, one product after the other; the weights have another.
#include "compiler/base/integers.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/schedule/gpu/schedule_gpu_flash.h"

enum { KEYS = 64, RUN = 64, THREADS = 256, OF_ROW = 16, GROUP = 4, WIDEST = 256, FEW_ROWS = 16, SLICE = 16 };

// Fewer rows leave most of a block idle; a runtime number of rows is assumed to be large.
static bool many_rows(const emitter *e, const attention *a) {
    int64_t rows = 1;
    for (int j = 0; j < e->k->nouter; j++) {
        const dim *n = e->k->axes.at[j].extent;
        if (expr_uses_axis(a->key, j) || expr_uses_axis(a->v, j)) rows = 1;
        else if (!dim_is_const(n)) return true;
        else rows *= dim_value(n);
    }
    return rows >= FEW_ROWS;
}

static bool fits(const emitter *e, const attention *a) {
    const dim *width = e->k->axes.at[a->e].extent;
    bool floats = compute_kind(a->q->dtype) == LK_F32 && compute_kind(a->key->dtype) == LK_F32 &&
                  compute_kind(a->v->dtype) == LK_F32 && a->score->states.at[0].dtype == DT_F32 &&
                  a->value->states.at[0].dtype == DT_F32;
    return floats && dim_is_const(width) && dim_value(width) <= WIDEST && many_rows(e, a);
}

static void products(flash *f) {
    int width = (int)round_up(dim_value(f->e->extent[f->a->e]), RUN);
    product qk = {.kind = LK_F32, .word = LK_F32, .stages = 2, .threads = THREADS}, pv = qk;
    qk.t = (tile){.m = FLASH_ROWS, .n = KEYS, .words = SLICE};
    pv.t = (tile){.m = FLASH_ROWS, .n = width, .words = width % (2 * RUN) ? SLICE : SLICE / 2};
    f->each = GROUP, f->per = GROUP, f->far = RUN, f->threads_of_row = OF_ROW;
    f->block = KEYS, f->width = width;
    flash_set_products(f, qk, pv);
}

static void rows(flash *f) {
    lbuild *b = f->b;
    ins *row = idx_mulk(b, gpu_divk(b, f->g->thread, OF_ROW), GROUP);
    f->column = f->result_column = idx_mulk(b, gpu_modk(b, f->g->thread, OF_ROW), GROUP);
    for (int r = 0; r < GROUP; r++) f->row[r] = lb_add(b, f->qk.a.first, idx_addk(b, row, r));
}

// ---------------------------------------------------------------- memory

static void add_operand(flash *f, product *p, operand *o) {
    gpu_choose_units(p, o);
    if (o->side / o->unit_rows * (p->t.words / o->unit_words) % THREADS) o->unit_rows = o->unit_words = 1;
    o->staged = lb_local(f->b, LK_F32, gpu_staged_words(p, o), 16, false);
}

static void memory(flash *f) {
    product *qk = &f->qk, *pv = &f->pv;
    add_operand(f, qk, &qk->a), add_operand(f, qk, &qk->b), add_operand(f, pv, &pv->b);
    int q = 2 * gpu_slice_words(qk, &qk->a), k = 2 * gpu_slice_words(qk, &qk->b),
        v = 2 * gpu_slice_words(pv, &pv->b);
    qk->a.shared = pv->b.shared = lb_local(f->b, LK_F32, q + k > v ? q + k : v, 16, true);
    qk->b.shared = lb_offset(f->b, qk->a.shared, lb_idx(f->b, q), 4);
    product weights = {.t = {.words = KEYS}}; // laid out like an operand
    f->weights = lb_local(f->b, LK_F32, gpu_slice_words(&weights, &qk->a), 16, true);
    f->scores = lb_local(f->b, LK_F32, GROUP * GROUP, 16, false);
    f->acc = lb_local(f->b, LK_F32, GROUP * f->width / OF_ROW, 16, false);
}

static void weigh(flash *f, ins *run, int r, ins *top) {
    (void)run; // there is only one
    lbuild *b = f->b;
    for (int c = 0; c < GROUP; c++) {
        ins *row = lb_sub(b, f->row[r], f->qk.a.first);
        ins *at = gpu_shared_at(&f->qk, &f->qk.a, row, idx_addk(b, f->column, c));
        lb_store(b, f->weights, at, flash_weight(f, lb_idx(b, 0), r, c, top), 0);
    }
}

// ---------------------------------------------------------------- products

static void load_slice(flash *f, product *p, ins *k0) {
    emitter_stage(f->e, p->c->s, -1, 1, false);
    scope mark = scope_open(f->e);
    if (p == &f->qk) gpu_load_slice(p, &p->a, k0);
    gpu_load_slice(p, &p->b, k0);
    scope_close(f->e, mark);
}

static void store_slice(flash *f, product *p, ins *slice) {
    if (p == &f->qk) gpu_store_slice(p, &p->a, slice);
    gpu_store_slice(p, &p->b, slice);
}

// acc += the products of one K tile; the rows of its first operand are in `a`, from word `at` on.
static void multiply(flash *f, product *p, ins *slice, ins *a, ins *at, ins *acc) {
    lbuild *b = f->b;
    ltype t = lt(LK_F32, 1);
    ins *k = gpu_unroll(b, "k", p->t.words), *x[GROUP], *y[GROUP];
    for (int i = 0; i < GROUP; i++) {
        ins *row = lb_sub(b, f->row[i], f->qk.a.first);
        x[i] = lb_load(b, t, a, gpu_shared_at(&f->qk, &f->qk.a, row, lb_add(b, at, k)), 0);
    }
    for (int run = 0; run < p->t.n / RUN; run++) {
        for (int c = 0; c < GROUP; c++) {
            ins *column = idx_addk(b, f->column, run * RUN + c),
                *from = idx_mulk(b, slice, gpu_slice_words(p, &p->b));
            from = lb_add(b, from, gpu_shared_at(p, &p->b, column, k));
            y[c] = lb_load(b, t, p->b.shared, from, 0);
        }
        for (int i = 0; i < GROUP; i++)
            for (int c = 0; c < GROUP; c++) {
                ins *to = flash_element(f, lb_idx(b, run), i, c);
                lb_store(b, acc, to, lb_muladd(b, x[i], y[c], lb_load(b, t, acc, to, 0)), 0);
            }
    }
    lb_end(b, k);
}

// acc += the products of all K tiles from `first` to `last`, double-buffered in shared memory, which is free
// after the last barrier.
static void sum_slices(flash *f, product *p, ins *first, ins *last, ins *acc) {
    lbuild *b = f->b;
    int deep = p->t.words;
    load_slice(f, p, first);
    store_slice(f, p, lb_idx(b, 0));
    lb_barrier(b);
    ins *k0 = lb_for(b, "k0", first, last, lb_idx(b, deep), LOOP_SERIAL);
    scope mark = scope_open(f->e);
    ins *done = lb_sub(b, k0, first), *two = lb_idx(b, 2), *slice = gpu_mod(b, gpu_divk(b, done, deep), two),
        *next = idx_addk(b, k0, deep), *more = lb_cmp(b, L_SLT, next, last);
    ins *fetch = lb_if(b, more);
    load_slice(f, p, next);
    lb_end(b, fetch);
    if (p == &f->qk) multiply(f, p, slice, p->a.shared, idx_mulk(b, slice, deep), acc);
    else multiply(f, p, slice, f->weights, done, acc);
    ins *keep = lb_if(b, more);
    store_slice(f, p, lb_sub(b, lb_idx(b, 1), slice));
    lb_end(b, keep);
    lb_barrier(b);
    scope_close(f->e, mark);
    lb_end(b, k0);
}

static void block(flash *f, ins *j0) {
    lbuild *b = f->b;
    f->qk.b.first = j0;
    flash_clear(f, f->scores, GROUP * GROUP);
    sum_slices(f, &f->qk, lb_idx(b, 0), emit_dim(f->e, f->qk.depth), f->scores);
    flash_softmax(f, j0);
    ins *last = lb_bin(b, L_SMIN, idx_addk(b, j0, KEYS), f->keys);
    sum_slices(f, &f->pv, j0, last, f->acc);
}

const flash_unit flash_threads = {"tiled attention", .fits = fits,   .products = products, .memory = memory,
                                  .rows = rows,      .weigh = weigh, .block = block};
