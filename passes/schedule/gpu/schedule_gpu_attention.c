// Attention on GPUs, with an online softmax (Milakov and Gimelshein 2018; Dao 2023). In: a kernel that
// attention_match knows. Out, in every block, for FLASH_ROWS rows of queries:
//
//   for j0 in steps of a block of keys:
//     S = Q K^T; S = f(S): scale, mask ...; m' = max(m, max S); P = exp(S - m')
//     l = l exp(m - m') + sum P; acc = acc exp(m - m')
//     acc += P V
//   write g(acc, l)
//
// The products use tensor cores on 16-bit floats (schedule_gpu_flash_tensor.c) or multiply-adds of f32
// (schedule_gpu_flash_threads.c). For tensor cores, the weights are rounded to 16 bits, as the result is.
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/schedule/gpu/schedule_gpu_flash.h"
#include <math.h>

bool gpu_attention_fits(const emitter *e, attention *a) {
    if (e->t->fp == FP_STRICT || e->k->nouter > MAX_AXES || !attention_match(e->k, a)) return false;
    return flash_tensor.fits(e, a) || flash_threads.fits(e, a);
}

// ---------------------------------------------------------------- operands

// The last read of a factor that is contiguous along the axis, NULL: none; *any: its last read.
static const expr *linear_read(emitter *e, expr *term, int axis, const expr **any) {
    expr_list reads = reads_only(expr_nodes(e->scratch, term));
    const expr *linear = NULL;
    *any = reads.n ? reads.at[reads.n - 1] : NULL;
    for (int j = 0; j < reads.n; j++) {
        const access *a = entry_of(e, reads.at[j])->read;
        if (a && a->affine && a->coef[axis]->op == X_CONST && a->coef[axis]->i == 1) linear = reads.at[j];
    }
    return linear;
}

// A factor that is not a plain read is computed and rounded element by element; one of its reads determines
// the order of threads.
static void set_factor(product *p, operand *o, expr *term) {
    const expr *any, *linear = linear_read(p->g->e, term, p->c->k_axes.at[0], &any);
    bool plain = p->tensor && any && any->buffer->dtype == p->tensor->a && gpu_is_plain(term, any);
    gpu_set_operand(p, o, plain || !linear ? any : linear, term);
    if (!p->tensor) return;
    o->as = plain ? DT_NONE : p->tensor->a;
    o->transposed = !o->along_k;
}

// The last outer axes along which keys and values are invariant are the rows of queries; the others select
// the block.
static void split_axes(flash *f) {
    const attention *a = f->a;
    product *p = &f->qk;
    int first = f->e->k->nouter;
    while (first > 0 && !expr_uses_axis(a->key, first - 1) && !expr_uses_axis(a->v, first - 1)) first--;
    for (int j = 0; j < f->e->k->nouter; j++) {
        if (j >= first && !dim_is(f->e->extent[j], 1)) p->a.axes[p->a.naxes++] = j;
        else p->outer[p->nouter++] = j;
    }
}

static void set_product(flash *f, product *p, const contraction *c) {
    p->g = f->g;
    p->c = c;
    p->depth = f->e->extent[c->k_axes.at[0]];
    p->a.side = p->t.m, p->b.side = p->t.n;
}

void flash_set_products(flash *f, product qk, product pv) {
    const attention *a = f->a;
    emitter *e = f->e;
    f->score = (contraction){.k = e->k, .s = (stage *)a->score, .k_axes = {1, {a->d}}};
    f->value = (contraction){.k = e->k, .s = (stage *)a->value, .k_axes = {1, {a->jv}}};
    f->qk = qk, f->pv = pv;
    set_product(f, &f->qk, &f->score);
    set_product(f, &f->pv, &f->value);
    split_axes(f);
    f->qk.b.axes[f->qk.b.naxes++] = a->j;
    f->pv.b.axes[f->pv.b.naxes++] = a->e;
    emitter_stage(e, a->score, -1, 1, false);
    set_factor(&f->qk, &f->qk.a, a->q);
    set_factor(&f->qk, &f->qk.b, a->key);
    emitter_stage(e, a->value, -1, 1, false);
    set_factor(&f->pv, &f->pv.b, a->v);
    f->pv.b.first = lb_idx(f->b, 0);
}

// ---------------------------------------------------------------- the block

static void set_block(flash *f) {
    product *p = &f->qk;
    dims *d = f->e->k->program->dims;
    dim *tiles = dim_ceildiv(p->a.extent, dim_const(d, FLASH_ROWS));
    gpu_launch(f->g, dim_mul(tiles, gpu_product_of(f->e, p->outer, p->nouter)), p->threads);
    ins *n = emit_dim(f->e, tiles);
    p->a.first = idx_mulk(f->b, gpu_mod(f->b, f->g->grid, n), FLASH_ROWS);
    gpu_set_counters(f->g, p->outer, p->nouter, gpu_div(f->b, f->g->grid, n));
}

static void set_rows(flash *f) {
    product *p = &f->qk;
    f->unit->rows(f);
    for (int r = 0; r < f->each; r++) {
        f->inside[r] = lb_cmp(f->b, L_SLT, f->row[r], emit_dim(f->e, p->a.extent));
        gpu_set_counters(f->g, p->a.axes, p->a.naxes, f->row[r]);
        for (int j = 0; j < p->a.naxes; j++) f->at[r][j] = f->e->counter[p->a.axes[j]];
        gpu_clear_counters(f->g, p->a.axes, p->a.naxes);
    }
}
static void use_row(flash *f, int r) {
    for (int j = 0; j < f->qk.a.naxes; j++) f->e->counter[f->qk.a.axes[j]] = f->at[r][j];
}

// ---------------------------------------------------------------- keys that no row of the block sees

// Whether `last` provably has its maximum in the last row of the block.
static bool grows_with_rows(flash *f, expr *last) {
    kernel *k = f->e->k;
    const product *p = &f->qk;
    bool moves = false;
    if (expr_any(last, expr_is_check)) return false;
    for (int j = 0; j < p->a.naxes; j++) moves |= expr_uses_axis(last, p->a.axes[j]);
    if (!moves) return true;
    expr *base, **coef = ARENA_ARRAY(f->e->scratch, expr *, k->axes.n);
    if (p->a.naxes != 1 || !expr_affine(k, last, &base, coef)) return false;
    const expr *step = coef[p->a.axes[0]];
    return step->op == X_CONST && step->i >= 0;
}

// If scores are -inf except for keys j < last (j <= last), the loop skips the other keys (causal masks).
static void limit_keys(flash *f, const expr *only) {
    lbuild *b = f->b;
    emitter *e = f->e;
    ltype t = lt(LK_I64, 1);
    if (only->op == X_AND) limit_keys(f, only->arg[0]), limit_keys(f, only->arg[1]);
    if (only->op != X_LT && only->op != X_LE) return;
    expr *key = only->arg[0], *last = only->arg[1];
    if (key->op != X_AXIS || key->axis != f->a->j || expr_uses_axis(last, f->a->j) ||
        !grows_with_rows(f, last))
        return;
    ins *end = lb_bin(b, L_SMIN, idx_addk(b, f->qk.a.first, FLASH_ROWS), emit_dim(e, f->qk.a.extent));
    scope mark = scope_open(e);
    gpu_set_counters(f->g, f->qk.a.axes, f->qk.a.naxes, idx_subk(b, end, 1));
    ins *n = emit_value(e, last);
    gpu_clear_counters(f->g, f->qk.a.axes, f->qk.a.naxes);
    scope_close(e, mark);
    if (only->op == X_LE) n = lb_add(b, n, lb_int(b, t, 1));
    ins *all = f->keys->type.kind == LK_I64 ? f->keys : lb_conv(b, L_SEXT, LK_I64, f->keys);
    n = lb_bin(b, L_SMAX, lb_bin(b, L_SMIN, n, all), lb_int(b, t, 0));
    f->keys = f->keys->type.kind == LK_I64 ? n : lb_conv(b, L_ITRUNC, f->keys->type.kind, n);
}

static void set_keys(flash *f) {
    const expr *score = f->a->score->writes.at[0].value;
    f->keys = emit_dim(f->e, f->e->extent[f->a->j]);
    if (score->op != X_SELECT || score->arg[2]->op != X_CONST || score->arg[2]->f != -INFINITY) return;
    emitter_stage(f->e, f->a->score, -1, 1, false);
    limit_keys(f, score->arg[0]);
}

// ---------------------------------------------------------------- softmax of one block of keys

void flash_clear(flash *f, ins *floats, int n) {
    ins *i = gpu_unroll(f->b, "i", n);
    lb_store(f->b, floats, i, lb_float(f->b, lt(LK_F32, 1), 0), 0);
    lb_end(f->b, i);
}

static void make_memory(flash *f) {
    lbuild *b = f->b;
    f->unit->memory(f);
    for (int r = 0; r < f->each; r++) {
        f->top[r] = lb_var(b, "top", lb_float(b, lt(LK_F32, 1), -INFINITY));
        f->sum[r] = lb_var(b, "sum", lb_float(b, lt(LK_F32, 1), 0));
    }
}

ins *flash_element(flash *f, ins *run, int r, int c) {
    return idx_addk(f->b, idx_mulk(f->b, run, f->each * f->per), f->per * r + c);
}

// S = f(S), -inf past the last key; `best` becomes the maximum.
static void mask(flash *f, ins *j0, ins *fragment, int r, int c, ins *best) {
    lbuild *b = f->b;
    emitter *e = f->e;
    ltype t = lt(LK_F32, 1);
    ins *at = flash_element(f, fragment, r, c),
        *j = idx_addk(b, lb_add(b, j0, idx_mulk(b, fragment, f->far)), c);
    j = lb_add(b, j, f->column);
    ins *s = lb_var(b, "s", lb_float(b, t, -INFINITY)), *valid = lb_cmp(b, L_SLT, j, f->keys);
    scope there = scope_if(e, f->reads ? lb_bin(b, L_AND, valid, f->inside[r]) : valid);
    use_row(f, r);
    e->counter[f->a->j] = j;
    e->state[0] = lb_load(b, t, f->scores, at, 0);
    lb_set(b, s, emit_value(e, f->a->score->writes.at[0].value));
    e->counter[f->a->j] = NULL;
    scope_close(e, there);
    lb_store(b, f->scores, at, lb_get(b, s), 0);
    lb_set(b, best, lb_bin(b, L_FMAX, lb_get(b, s), lb_get(b, best)));
}

static ins *of_row(flash *f, ins *v, lop op) {
    for (int lane = 1; lane < f->threads_of_row; lane *= 2)
        v = lb_bin(f->b, op, v, lb_shfl_xor(f->b, v, lane));
    return v;
}

static ins *exp_of(flash *f, ins *x) { return emit_operation(f->b, X_EXP, DT_F32, x, NULL); }

ins *flash_weight(flash *f, ins *run, int r, int c, ins *top) {
    lbuild *b = f->b;
    ins *s = lb_load(b, lt(LK_F32, 1), f->scores, flash_element(f, run, r, c), 0);
    ins *p = exp_of(f, lb_sub(b, s, top));
    lb_set(b, f->sum[r], lb_add(b, lb_get(b, f->sum[r]), p));
    return p;
}

static void rescale_results(flash *f, int r, ins *rescale) {
    lbuild *b = f->b;
    ins *i = gpu_unroll(b, "i", f->width / f->far);
    for (int c = 0; c < f->per; c++) {
        ins *at = flash_element(f, i, r, c);
        lb_store(b, f->acc, at, lb_mul(b, lb_load(b, lt(LK_F32, 1), f->acc, at, 0), rescale), 0);
    }
    lb_end(b, i);
}

static void softmax_row(flash *f, ins *j0, int r) {
    lbuild *b = f->b;
    ltype t = lt(LK_F32, 1);
    ins *zero = lb_float(b, t, 0), *lowest = lb_float(b, t, -INFINITY), *old = lb_get(b, f->top[r]);
    ins *best = lb_var(b, "best", old), *i = gpu_unroll(b, "i", f->block / f->far);
    for (int c = 0; c < f->per; c++) mask(f, j0, i, r, c, best);
    lb_end(b, i);
    ins *top = of_row(f, lb_get(b, best), L_FMAX);
    // No key allowed so far: any finite number keeps exp(-inf - top) = 0.
    ins *safe = lb_select(b, lb_cmp(b, L_EQ, top, lowest), zero, top);
    ins *rescale = lb_select(b, lb_cmp(b, L_EQ, old, lowest), zero, exp_of(f, lb_sub(b, old, safe)));
    lb_set(b, f->top[r], top);
    lb_set(b, f->sum[r], lb_mul(b, lb_get(b, f->sum[r]), rescale));
    i = gpu_unroll(b, "i", f->block / f->far);
    f->unit->weigh(f, i, r, safe);
    lb_end(b, i);
    rescale_results(f, r, rescale);
}

void flash_softmax(flash *f, ins *j0) {
    emitter_stage(f->e, f->a->score, -1, 1, false);
    for (int r = 0; r < f->each; r++) softmax_row(f, j0, r);
    gpu_clear_counters(f->g, f->qk.a.axes, f->qk.a.naxes);
}

// ---------------------------------------------------------------- results

static void write_row(flash *f, access *to, int r) {
    lbuild *b = f->b;
    emitter *e = f->e;
    const attention *a = f->a;
    int64_t width = dim_value(e->extent[a->e]);
    lb_set(b, e->local[a->total->id], of_row(f, lb_get(b, f->sum[r]), L_ADD));
    lb_set(b, e->local[a->top->id], lb_get(b, f->top[r]));
    ins *there = lb_if(b, f->inside[r]), *i = gpu_unroll(b, "i", f->width / f->far);
    for (int c = 0; c < f->per; c++) {
        ins *column = idx_addk(b, lb_add(b, idx_mulk(b, i, f->far), f->result_column), c);
        ins *narrow = width != f->pv.b.side ? lb_if(b, lb_cmp(b, L_SLT, column, lb_idx(b, width))) : NULL;
        scope mark = scope_open(e);
        use_row(f, r);
        e->counter[a->e] = column;
        e->state[0] = lb_load(b, lt(LK_F32, 1), f->acc, flash_element(f, i, r, c), 0);
        emit_write(e, &a->value->writes.at[0], to, NULL);
        e->counter[a->e] = NULL;
        scope_close(e, mark);
        if (narrow) lb_end(b, narrow);
    }
    lb_end(b, i);
    lb_end(b, there);
}

// Stores maximum and sum, in the first thread of the row.
static void keep_row(flash *f, int r) {
    lbuild *b = f->b;
    emitter *e = f->e;
    const stage *s = f->a->kept;
    emitter_stage(e, s, -1, 1, false);
    ins *first = lb_cmp(b, L_EQ, f->result_column, lb_idx(b, 0)),
        *there = lb_if(b, lb_bin(b, L_AND, first, f->inside[r]));
    scope mark = scope_open(e);
    use_row(f, r);
    for (int j = 0; j < s->writes.n; j++)
        emit_write(e, &s->writes.at[j], access_make(e, s->writes.at[j].to, s->writes.at[j].index), NULL);
    scope_close(e, mark);
    lb_end(b, there);
    emitter_stage(e, f->a->value, -1, 1, false);
}

static void write_rows(flash *f) {
    emitter *e = f->e;
    const write *w = &f->a->value->writes.at[0];
    emitter_stage(e, f->a->value, -1, 1, false);
    access *to = access_make(e, w->to, w->index);
    e->local[f->a->total->id] = lb_var(f->b, "total", lb_float(f->b, lt(LK_F32, 1), 0));
    e->local[f->a->top->id] = lb_var(f->b, "highest", lb_float(f->b, lt(LK_F32, 1), 0));
    for (int r = 0; r < f->each; r++) {
        write_row(f, to, r);
        if (f->a->kept) keep_row(f, r);
    }
}

void gpu_schedule_attention(gpu *g, const attention *a) {
    emitter *e = g->e;
    flash f = {.g = g, .e = e, .b = g->b, .a = a};
    f.reads = expr_any(a->score->writes.at[0].value, expr_reads_or_checks);
    e->state = ARENA_ARRAY(e->scratch, ins *, 1);
    f.unit = flash_tensor.fits(e, a) ? &flash_tensor : &flash_threads;
    f.unit->products(&f);
    e->code->schedule = f.unit->schedule;
    set_block(&f);
    scope mark = scope_open(e);
    make_memory(&f);
    set_keys(&f);
    set_rows(&f);
    flash_clear(&f, f.acc, f.each * f.per * f.width / f.far);
    if (f.unit->begin) f.unit->begin(&f);
    ins *j0 = lb_for(f.b, "j0", lb_idx(f.b, 0), f.keys, lb_idx(f.b, f.block), LOOP_SERIAL);
    scope inner = scope_open(e);
    f.unit->block(&f, j0);
    scope_close(e, inner);
    lb_end(f.b, j0);
    if (f.unit->end) f.unit->end(&f);
    write_rows(&f);
    scope_close(e, mark);
    gpu_land(g);
}
