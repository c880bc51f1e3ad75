// Attention on tensor cores: the products of schedule_gpu_attention.c. A warp has 16 rows: a thread has
// columns 2 t and 2 t + 1 of rows g and g + 8 of each fragment of 8 columns (schedule_gpu_mma.c). Heads of
// more than 128 elements take 8 warps, where pairs of warps compute the same weights and half of the results
// each.
#include "compiler/base/integers.h"
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/schedule/gpu/schedule_gpu_flash.h"

enum {
    KEYS = 64,
    FEWER_KEYS = 32,
    WARP = 32,
    WARPS = FLASH_ROWS / 16,
    DEEP = 128,
    DEEPEST = 256,
    FRAGMENT = 4
};

// ---------------------------------------------------------------- applicability

// Whether a factor may be multiplied in 16-bit type t: its reads are of that type, or f32 that --precision
// allows to be rounded to it.
static bool factor_fits(arena *scratch, expr *x, dtype t, dtype allowed) {
    expr_list reads = reads_only(expr_nodes(scratch, x));
    for (int j = 0; j < reads.n; j++) {
        dtype read = reads.at[j]->buffer->dtype;
        if (read != t && (allowed != t || read != DT_F32)) return false;
    }
    return reads.n;
}

static dtype allowed_type(const target *t) {
    return t->precision == PRECISION_F16 ? DT_F16 : t->precision == PRECISION_BF16 ? DT_BF16 : DT_NONE;
}

static bool type_fits(const attention *a, dtype t, dtype allowed) {
    bool narrow = a->kept || dtype_bits(a->value->writes.at[0].to->dtype) ==
                                 16; // pieces of passes/rewrite/split_attention.c
    arena *scratch = a->k->arena;
    return factor_fits(scratch, a->q, t, allowed) && factor_fits(scratch, a->key, t, allowed) &&
           factor_fits(scratch, a->v, t, allowed) && (narrow || allowed == t);
}

// DT_NONE: no tensor cores.
static dtype flash_tensor_dtype(const emitter *e, const attention *a) {
    dtype allowed = allowed_type(e->t);
    return type_fits(a, DT_F16, allowed) ? DT_F16 : type_fits(a, DT_BF16, allowed) ? DT_BF16 : DT_NONE;
}

static bool is_short(const dim *d) { return dim_is_const(d) && dim_value(d) <= DEEPEST; }

static bool fits(const emitter *e, const attention *a) {
    return is_short(e->k->axes.at[a->d].extent) && is_short(e->k->axes.at[a->e].extent) &&
           flash_tensor_dtype(e, a) != DT_NONE;
}

// ---------------------------------------------------------------- operands

static ins *warp_of(flash *f) { return gpu_divk(f->b, f->g->thread, WARP); }

static void products(flash *f) {
    const attention *a = f->a;
    emitter *e = f->e;
    const tensor_type *tensor = gpu_tensor_of(flash_tensor_dtype(e, a));
    int64_t depth = dim_value(e->extent[a->d]), width = dim_value(e->extent[a->e]);
    int halves = depth > DEEP || width > DEEP ? 2 : 1, step = halves == 2 ? 64 : 16;
    f->block = halves == 2 ? FEWER_KEYS : KEYS;
    depth = round_up(depth, step), width = round_up(width, step);
    product p = {.tensor = tensor,
                 .kind = LK_F32,
                 .word = LK_I32,
                 .async = true,
                 .stages = 1,
                 .threads = halves * WARPS * WARP};
    product qk = p, pv = p;
    qk.t = (tile){.m = FLASH_ROWS, .n = f->block, .words = (int)depth / 2};
    pv.t = (tile){.m = FLASH_ROWS, .n = (int)width, .words = f->block / 2};
    f->each = 2, f->per = 2, f->far = 8, f->threads_of_row = 4;
    f->width = (int)width / halves;
    flash_set_products(f, qk, pv);
}

// ---------------------------------------------------------------- memory

static void memory(flash *f) {
    lbuild *b = f->b;
    product *qk = &f->qk, *pv = &f->pv;
    gpu_choose_units(qk, &qk->a), gpu_choose_units(qk, &qk->b), gpu_choose_units(pv, &pv->b);
    f->copies = gpu_is_wide(&qk->a) || gpu_is_wide(&qk->b) || gpu_is_wide(&pv->b);
    int q = gpu_slice_words(qk, &qk->a), k = gpu_slice_words(qk, &qk->b);
    qk->a.shared = qk->b.shared = lb_local(b, LK_I32, q > k ? q : k, 16, true);
    pv->b.shared = lb_local(b, LK_I32, gpu_slice_words(pv, &pv->b), 16, true);
    f->query = lb_local(b, LK_I32, qk->t.words / 8 * FRAGMENT, 16, false);
    f->scores = lb_local(b, LK_F32, f->block / 8 * FRAGMENT, 16, false);
    f->weights = lb_local(b, LK_I32, f->block / 16 * FRAGMENT, 16, false);
    f->acc = lb_local(b, LK_F32, f->width / 8 * FRAGMENT, 16, false);
}

static void rows(flash *f) {
    lbuild *b = f->b;
    ins *lane = gpu_modk(b, f->g->thread, WARP), *warp = warp_of(f);
    ins *of_rows = gpu_modk(b, warp, WARPS), *half = gpu_divk(b, warp, WARPS);
    bool halves = f->qk.threads > WARPS * WARP;
    f->column = idx_mulk(b, gpu_modk(b, lane, 4), 2);
    f->result_column = halves ? lb_add(b, f->column, idx_mulk(b, half, f->width)) : f->column;
    ins *row =
        lb_add(b, lb_add(b, f->qk.a.first, idx_mulk(b, halves ? of_rows : warp, 16)), gpu_divk(b, lane, 4));
    for (int r = 0; r < f->each; r++) f->row[r] = idx_addk(b, row, 8 * r);
}

static void issue(flash *f, product *p, operand *o, ins *k0) {
    emitter_stage(f->e, p->c->s, -1, 1, false);
    scope mark = scope_open(f->e);
    gpu_issue_slice(p, o, k0, lb_idx(f->b, 0));
    scope_close(f->e, mark);
    if (f->copies) lb_gpu(f->b, (gpu_ins){GPU_CP_ASYNC_COMMIT}, NULL);
}
static void issue_keys(flash *f, ins *j0) {
    f->qk.b.first = j0;
    issue(f, &f->qk, &f->qk.b, lb_idx(f->b, 0));
}
static void meet(flash *f) {
    if (f->copies) lb_gpu(f->b, (gpu_ins){GPU_CP_ASYNC_WAIT}, NULL);
    lb_barrier(f->b);
}

static void begin(flash *f) {
    lbuild *b = f->b;
    issue(f, &f->qk, &f->qk.a, lb_idx(b, 0));
    meet(f);
    ins *k = gpu_unroll(b, "k", f->qk.t.words / 8), *warp = warp_of(f);
    if (f->qk.threads > WARPS * WARP) warp = gpu_modk(b, warp, WARPS);
    gpu_load_fragments(&f->qk, &f->qk.a, 1, true, lb_idx(b, 0), warp, idx_mulk(b, k, 8),
                       lb_offset(b, f->query, k, 4 * FRAGMENT));
    lb_end(b, k);
    lb_barrier(b);
    issue_keys(f, lb_idx(b, 0));
}

// acc += a * b over the operand's `columns` columns from columns * part on.
static void multiply(flash *f, product *p, ins *a, ins *acc, int columns, ins *part) {
    lbuild *b = f->b;
    int n = columns / 16;
    ins *fb = lb_local(b, LK_I32, n * FRAGMENT, 16, false), *zero = lb_idx(b, 0);
    ins *k = gpu_unroll(b, "k", p->t.words / 8);
    gpu_load_fragments(p, &p->b, n, false, zero, part, idx_mulk(b, k, 8), fb);
    ins *j = gpu_unroll(b, "j", 2 * n);
    gpu_multiply(b, p->tensor, lb_offset(b, acc, j, 4 * FRAGMENT), lb_offset(b, a, k, 4 * FRAGMENT),
                 lb_offset(b, fb, j, 8));
    lb_end(b, j);
    lb_end(b, k);
}

static ins *bits_of(flash *f, ins *v) {
    lbuild *b = f->b;
    if (f->qk.tensor->a == DT_BF16) return code_of_float(b, DT_BF16, v, false);
    return lb_conv(b, L_ZEXT, LK_I32, lb_bitcast(b, lt(LK_I16, 1), lb_conv(b, L_FTRUNC, LK_F16, v)));
}

// The weights of row r of a fragment, as a word of the second product's fragments of a; they are added to the
// sum.
static void weigh(flash *f, ins *run, int r, ins *top) {
    lbuild *b = f->b;
    ins *word = lb_int(b, lt(LK_I32, 1), 0);
    for (int c = 0; c < f->per; c++) {
        ins *p = flash_weight(f, run, r, c, top);
        word = lb_bin(b, L_OR, word, lb_bin(b, L_SHL, bits_of(f, p), lb_int(b, lt(LK_I32, 1), 16 * c)));
    }
    lb_store(b, f->weights, idx_addk(b, idx_mulk(b, run, 2), r), word, 0);
}

static void block(flash *f, ins *j0) {
    lbuild *b = f->b;
    ins *zero = lb_idx(b, 0), *half = zero;
    meet(f);
    issue(f, &f->pv, &f->pv.b, j0);
    flash_clear(f, f->scores, f->block / 8 * FRAGMENT);
    multiply(f, &f->qk, f->query, f->scores, f->block, zero);
    flash_softmax(f, j0);
    meet(f);
    ins *next = idx_addk(b, j0, f->block), *more = lb_if(b, lb_cmp(b, L_SLT, next, f->keys));
    issue_keys(f, next);
    lb_end(b, more);
    if (f->qk.threads > WARPS * WARP) half = gpu_divk(b, warp_of(f), WARPS);
    multiply(f, &f->pv, f->weights, f->acc, f->width, half);
}

// If no row uses any key, the first copies are still pending.
static void end(flash *f) {
    if (f->copies) lb_gpu(f->b, (gpu_ins){GPU_CP_ASYNC_WAIT}, NULL);
}

const flash_unit flash_tensor = {"tensor attention", .fits = fits,   .products = products,
                                 .memory = memory,   .rows = rows,   .begin = begin,
                                 .end = end,         .weigh = weigh, .block = block};
