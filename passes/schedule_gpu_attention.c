// Attention on tensor cores, with an online softmax (Milakov and Gimelshein 2018; Dao 2023). In: a kernel
// that attention_match knows, over floats of 16 bits. Out, in every block, for ROWS rows of queries:
//
//   the fragments of Q to registers, through the keys' place in shared memory
//   start the copies of keys 0 .. KEYS
//   for j0 in steps of KEYS:
//     wait; barrier; start the copies of the values
//     S = Q K^T; S = f(S): scale, mask ...; m' = max(m, max S); P = exp(S - m')
//     l = l exp(m - m') + sum P; acc = acc exp(m - m')
//     wait; barrier; start the copies of the next keys
//     acc += P V
//   write g(acc, l)
//
// A warp has 16 rows: a thread has, of rows g and g + 8 of each fragment of 8 columns, columns 2 t and 2 t +
// 1 (schedule_gpu_mma.c). Weights are rounded to 16 bits between the two products, as the result is.
#include "passes/schedule_gpu_attention.h"
#include "codegen/convert.h"
#include "ir/program.h"
#include "passes/emit_dim.h"
#include "passes/schedule_gpu_product.h"
#include <math.h>

enum { ROWS = 64, KEYS = 64, WARP = 32, WARPS = ROWS / 16, DEEPEST = 128, FRAGMENT = 4, HALVES = 2 };

typedef struct flash {
    gpu *g;
    emitter *e;
    lbuild *b;
    const attention *a;
    contraction score, value; // what `qk` and `pv` are about
    product qk, pv;
    ins *query, *scores, *weights, *acc; // fragments
    ins *top[HALVES], *sum[HALVES];      // of the thread's rows, as far as the thread saw them
    ins *row[HALVES], *column;           // where its results begin
    ins *inside[HALVES];                 // whether there is such a row
    ins *at[HALVES][MAX_AXES];           // its counters
    ins *keys;                           // how many there are for the block
    bool reads;                          // whether scores read more than their products
    bool copies;                         // whether some come past the registers
} flash;

// ---------------------------------------------------------------- whether it fits

typedef struct reads_of {
    dtype t;
    bool all;           // are of that type
    const expr *any;    // read
    const expr *linear; // read whose neighbours lie along `axis`
    int axis;
    emitter *e;
} reads_of;
static void see_read(void *user, expr *x) {
    reads_of *r = user;
    if (x->op != X_READ) return;
    r->all &= x->buffer->dtype == r->t;
    r->any = x;
}

// What 16 bits a factor may be multiplied in: those of all that it reads, which are those of the model's own
// tensor there, or those that f32 may be rounded to.
static bool factor_fits(expr *x, dtype t, dtype allowed) {
    reads_of r = {.t = t, .all = true};
    expr_walk(x, see_read, &r);
    reads_of full = {.t = DT_F32, .all = true};
    expr_walk(x, see_read, &full);
    return r.any && (r.all || (full.all && allowed == t));
}

static dtype allowed_type(const target *t) {
    return t->precision == PRECISION_F16 ? DT_F16 : t->precision == PRECISION_BF16 ? DT_BF16 : DT_NONE;
}

static bool type_fits(const attention *a, dtype t, dtype allowed) {
    bool narrow =
        a->kept || dtype_bits(a->value->writes.at[0].to->dtype) == 16; // pieces: passes/split_attention.c
    return factor_fits(a->q, t, allowed) && factor_fits(a->key, t, allowed) &&
           factor_fits(a->v, t, allowed) && (narrow || allowed == t);
}

static dtype tensor_dtype(const emitter *e, const attention *a) {
    dtype allowed = allowed_type(e->t);
    return type_fits(a, DT_F16, allowed) ? DT_F16 : type_fits(a, DT_BF16, allowed) ? DT_BF16 : DT_NONE;
}

static bool is_short(const dim *d) { return dim_is_const(d) && dim_value(d) <= DEEPEST; }

bool gpu_attention_fits(const emitter *e, attention *a) {
    return e->t->fp != FP_STRICT && attention_match(e->k, a) && is_short(e->k->axes.at[a->d].extent) &&
           is_short(e->k->axes.at[a->e].extent) && tensor_dtype(e, a) != DT_NONE;
}

// ---------------------------------------------------------------- operands

static ins *add(flash *f, ins *x, ins *y) { return lb_bin(f->b, L_ADD, x, y); }
static ins *times(flash *f, ins *x, int64_t by) { return lb_bin(f->b, L_MUL, x, lb_idx(f->b, by)); }
static ins *open_unrolled(flash *f, const char *name, int n) {
    return lb_for(f->b, name, lb_idx(f->b, 0), lb_idx(f->b, n), lb_idx(f->b, 1), LOOP_UNROLL);
}
static void call(flash *f, const char *name) { lb_call(f->b, lt(LK_VOID, 1), name, 0, NULL); }

static void see_linear(void *user, expr *x) {
    reads_of *r = user;
    const access *a = x->op == X_READ ? entry_of(r->e, x)->read : NULL;
    r->any = x->op == X_READ ? x : r->any;
    if (a && a->affine && a->coef[r->axis]->op == X_CONST && a->coef[r->axis]->i == 1) r->linear = x;
}

// A factor that is more than a read is computed and rounded element by element; one of its reads says how
// threads should walk.
static void set_factor(product *p, operand *o, expr *term) {
    const axis_list *k = &p->c->k_axes;
    reads_of r = {.e = p->g->e, .axis = k->at[0]};
    expr_walk(term, see_linear, &r);
    bool plain = r.any && r.any->buffer->dtype == p->tensor->a && gpu_is_plain(term, r.any);
    gpu_set_operand(p, o, plain || !r.linear ? r.any : r.linear, term);
    o->as = plain ? DT_NONE : p->tensor->a;
    o->turned = !o->along_k;
}

static product product_of(flash *f, const contraction *c, int rows, int64_t depth,
                          const tensor_type *tensor) {
    product p = {
        .g = f->g, .c = c, .tensor = tensor, .kind = LK_F32, .word = LK_I32, .async = true, .slices = 1};
    p.t = (tile){.m = ROWS, .n = rows, .words = (int)((depth + 15) / 16 * 8)};
    p.threads = WARPS * WARP;
    p.depth = f->e->extent[c->k_axes.at[0]];
    p.a.side = ROWS, p.b.side = rows;
    return p;
}

// Queries whose keys and values are the same: those of the last axes of the kernel's outer ones. The others
// are the block's.
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

static void set_products(flash *f) {
    const attention *a = f->a;
    emitter *e = f->e;
    const tensor_type *tensor = gpu_tensor_of(tensor_dtype(e, a));
    f->score = (contraction){.k = e->k, .s = (stage *)a->score, .k_axes = {1, {a->d}}};
    f->value = (contraction){.k = e->k, .s = (stage *)a->value, .k_axes = {1, {a->jv}}};
    int width = (int)(dim_value(e->extent[a->e]) + 15) / 16 * 16;
    f->qk = product_of(f, &f->score, KEYS, dim_value(e->extent[a->d]), tensor);
    f->pv = product_of(f, &f->value, width, KEYS, tensor);
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
    dim *tiles = dim_ceildiv(p->a.extent, dim_const(d, ROWS));
    gpu_launch(f->g, dim_mul(tiles, gpu_product_of(f->e, p->outer, p->nouter)), p->threads);
    ins *n = emit_dim(f->e, tiles);
    p->a.first = times(f, gpu_rest(f->b, f->g->grid, n), ROWS);
    gpu_set_counters(f->g, p->outer, p->nouter, gpu_quotient(f->b, f->g->grid, n));
}

static void set_rows(flash *f) {
    lbuild *b = f->b;
    product *p = &f->qk;
    ins *lane = gpu_rest(b, f->g->thread, lb_idx(b, WARP)),
        *warp = gpu_quotient(b, f->g->thread, lb_idx(b, WARP));
    f->column = times(f, gpu_rest(b, lane, lb_idx(b, 4)), 2);
    ins *row = add(f, add(f, p->a.first, times(f, warp, 16)), gpu_quotient(b, lane, lb_idx(b, 4)));
    for (int r = 0; r < HALVES; r++) {
        f->row[r] = add(f, row, lb_idx(b, 8 * r));
        f->inside[r] = lb_cmp(b, L_SLT, f->row[r], emit_dim(f->e, p->a.extent));
        gpu_set_counters(f->g, p->a.axes, p->a.naxes, f->row[r]);
        for (int j = 0; j < p->a.naxes; j++) f->at[r][j] = f->e->counter[p->a.axes[j]];
        gpu_clear_counters(f->g, p->a.axes, p->a.naxes);
    }
}
static void use_row(flash *f, int r) {
    for (int j = 0; j < f->qk.a.naxes; j++) f->e->counter[f->qk.a.axes[j]] = f->at[r][j];
}

// ---------------------------------------------------------------- keys that no row of the block sees

static void see_check(void *user, expr *x) { *(bool *)user |= x->op == X_CHECK; }

// Whether `last` is at its greatest in the block's last row, as far as this can tell.
static bool grows_with_rows(flash *f, expr *last) {
    kernel *k = (kernel *)f->e->k; // only gets expressions
    const product *p = &f->qk;
    bool checks = false, moves = false;
    expr_walk(last, see_check, &checks);
    for (int j = 0; j < p->a.naxes; j++) moves |= expr_uses_axis(last, p->a.axes[j]);
    if (checks || !moves) return !checks;
    expr *base, **coef = ARENA_ARRAY(f->e->scratch, expr *, k->axes.n);
    if (p->a.naxes != 1 || !expr_affine(k, last, &base, coef)) return false;
    const expr *step = coef[p->a.axes[0]];
    return step->op == X_CONST && step->i >= 0;
}

// Where scores are -inf but for keys j < last (j <= last), the others need no thread.
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
    ins *end = lb_bin(b, L_SMIN, add(f, f->qk.a.first, lb_idx(b, ROWS)), emit_dim(e, f->qk.a.extent));
    int mark = scope_open(e);
    gpu_set_counters(f->g, f->qk.a.axes, f->qk.a.naxes, lb_bin(b, L_SUB, end, lb_idx(b, 1)));
    ins *n = emit_value(e, last);
    gpu_clear_counters(f->g, f->qk.a.axes, f->qk.a.naxes);
    scope_close(e, mark);
    if (only->op == X_LE) n = lb_bin(b, L_ADD, n, lb_int(b, t, 1));
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

// ---------------------------------------------------------------- memory

static void make_memory(flash *f) {
    lbuild *b = f->b;
    product *qk = &f->qk, *pv = &f->pv;
    gpu_choose_units(qk, &qk->a), gpu_choose_units(qk, &qk->b), gpu_choose_units(pv, &pv->b);
    f->copies = qk->a.aligned || qk->b.aligned || pv->b.aligned;
    int q = gpu_slice_words(qk, &qk->a), k = gpu_slice_words(qk, &qk->b);
    qk->a.shared = qk->b.shared = lb_local(b, LK_I32, q > k ? q : k, 16, true);
    pv->b.shared = lb_local(b, LK_I32, gpu_slice_words(pv, &pv->b), 16, true);
    f->query = lb_local(b, LK_I32, qk->t.words / 8 * FRAGMENT, 16, false);
    f->scores = lb_local(b, LK_F32, KEYS / 8 * FRAGMENT, 16, false);
    f->weights = lb_local(b, LK_I32, KEYS / 16 * FRAGMENT, 16, false);
    f->acc = lb_local(b, LK_F32, pv->b.side / 8 * FRAGMENT, 16, false);
    for (int r = 0; r < HALVES; r++) {
        f->top[r] = lb_var(b, "top", lb_float(b, lt(LK_F32, 1), -INFINITY));
        f->sum[r] = lb_var(b, "sum", lb_float(b, lt(LK_F32, 1), 0));
    }
}

static void clear(flash *f, ins *fragments, int n) {
    ins *i = open_unrolled(f, "i", n);
    lb_store(f->b, fragments, i, lb_float(f->b, lt(LK_F32, 1), 0), 0);
    lb_end(f->b, i);
}

static void issue(flash *f, product *p, operand *o, ins *k0) {
    emitter_stage(f->e, p->c->s, -1, 1, false);
    int mark = scope_open(f->e);
    gpu_issue_slice(p, o, k0, lb_idx(f->b, 0));
    scope_close(f->e, mark);
    if (f->copies) call(f, "async_commit");
}
static void issue_keys(flash *f, ins *j0) {
    f->qk.b.first = j0;
    issue(f, &f->qk, &f->qk.b, lb_idx(f->b, 0));
}
static void meet(flash *f) {
    if (f->copies) call(f, "async_wait_0");
    lb_barrier(f->b);
}

static void load_query(flash *f) {
    lbuild *b = f->b;
    issue(f, &f->qk, &f->qk.a, lb_idx(b, 0));
    meet(f);
    ins *k = open_unrolled(f, "k", f->qk.t.words / 8), *warp = gpu_quotient(b, f->g->thread, lb_idx(b, WARP));
    gpu_load_fragments(&f->qk, &f->qk.a, 1, true, lb_idx(b, 0), warp, times(f, k, 8),
                       lb_offset(b, f->query, k, 4 * FRAGMENT));
    lb_end(b, k);
    lb_barrier(b);
}

// acc += a * b over the columns of the operand, which are n pairs of fragments.
static void multiply(flash *f, product *p, ins *a, ins *acc) {
    lbuild *b = f->b;
    int n = p->b.side / 16;
    ins *fb = lb_local(b, LK_I32, n * FRAGMENT, 16, false), *zero = lb_idx(b, 0);
    ins *k = open_unrolled(f, "k", p->t.words / 8);
    gpu_load_fragments(p, &p->b, n, false, zero, zero, times(f, k, 8), fb);
    ins *j = open_unrolled(f, "j", 2 * n);
    ins *args[] = {lb_offset(b, acc, j, 4 * FRAGMENT), lb_offset(b, a, k, 4 * FRAGMENT),
                   lb_offset(b, fb, j, 8)};
    lb_call(b, lt(LK_VOID, 1), p->tensor->name, 3, args);
    lb_end(b, j);
    lb_end(b, k);
}

// ---------------------------------------------------------------- softmax of one block of keys

// Where column c of the thread's two lies in row r of a fragment.
static ins *element(flash *f, ins *fragment, int r, int c) {
    return add(f, times(f, fragment, FRAGMENT), lb_idx(f->b, 2 * r + c));
}

// f(S), -inf past the last key; the maximum joins `best`.
static void mask(flash *f, ins *j0, ins *fragment, int r, int c, ins *best) {
    lbuild *b = f->b;
    emitter *e = f->e;
    ltype t = lt(LK_F32, 1);
    ins *at = element(f, fragment, r, c), *j = add(f, add(f, j0, times(f, fragment, 8)), lb_idx(b, c));
    j = add(f, j, f->column);
    ins *s = lb_var(b, "s", lb_float(b, t, -INFINITY)), *valid = lb_cmp(b, L_SLT, j, f->keys);
    ins *there = lb_if(b, f->reads ? lb_bin(b, L_AND, valid, f->inside[r]) : valid);
    int mark = scope_open(e);
    use_row(f, r);
    e->counter[f->a->j] = j;
    e->state[0] = lb_load(b, t, f->scores, at, 0);
    lb_set(b, s, emit_value(e, f->a->score->writes.at[0].value));
    e->counter[f->a->j] = NULL;
    scope_close(e, mark);
    lb_end(b, there);
    lb_store(b, f->scores, at, lb_get(b, s), 0);
    lb_set(b, best, lb_bin(b, L_FMAX, lb_get(b, s), lb_get(b, best)));
}

// What four threads of a row have, to one value for each.
static ins *of_row(flash *f, ins *v, lop op) {
    for (int lane = 1; lane <= 2; lane *= 2) v = lb_bin(f->b, op, v, lb_shfl_xor(f->b, v, lane));
    return v;
}

static ins *exp_of(flash *f, ins *x) {
    expr operand = {.op = X_STATE, .dtype = DT_F32}, op = {.op = X_EXP, .dtype = DT_F32, .arg = {&operand}};
    return expr_apply(f->b, &op, &x);
}

static ins *bits_of(flash *f, ins *v) {
    lbuild *b = f->b;
    if (f->qk.tensor->a == DT_BF16) return code_of_float(b, DT_BF16, v, false);
    return lb_conv(b, L_ZEXT, LK_I32, lb_bitcast(b, lt(LK_I16, 1), lb_conv(b, L_FTRUNC, LK_F16, v)));
}

// P = exp(S - m) as a's fragments of the second product; their sum is added to `sum`.
static void weigh(flash *f, ins *fragment, int r, ins *top, ins *sum) {
    lbuild *b = f->b;
    ins *word = lb_int(b, lt(LK_I32, 1), 0);
    for (int c = 0; c < 2; c++) {
        ins *s = lb_load(b, lt(LK_F32, 1), f->scores, element(f, fragment, r, c), 0);
        ins *p = exp_of(f, lb_bin(b, L_SUB, s, top));
        lb_set(b, sum, lb_bin(b, L_ADD, lb_get(b, sum), p));
        word = lb_bin(b, L_OR, word, lb_bin(b, L_SHL, bits_of(f, p), lb_int(b, lt(LK_I32, 1), 16 * c)));
    }
    lb_store(b, f->weights, add(f, times(f, fragment, 2), lb_idx(b, r)), word, 0);
}

static void fade_results(flash *f, int r, ins *fade) {
    lbuild *b = f->b;
    ins *i = open_unrolled(f, "i", f->pv.b.side / 8);
    for (int c = 0; c < 2; c++) {
        ins *at = element(f, i, r, c);
        lb_store(b, f->acc, at, lb_bin(b, L_MUL, lb_load(b, lt(LK_F32, 1), f->acc, at, 0), fade), 0);
    }
    lb_end(b, i);
}

// One of the thread's two rows.
static void softmax_row(flash *f, ins *j0, int r) {
    lbuild *b = f->b;
    ltype t = lt(LK_F32, 1);
    ins *zero = lb_float(b, t, 0), *lowest = lb_float(b, t, -INFINITY), *old = lb_get(b, f->top[r]);
    ins *best = lb_var(b, "best", old), *i = open_unrolled(f, "i", KEYS / 8);
    for (int c = 0; c < 2; c++) mask(f, j0, i, r, c, best);
    lb_end(b, i);
    ins *top = of_row(f, lb_get(b, best), L_FMAX);
    // Nothing allowed so far: any finite number keeps exp(-inf - top) = 0.
    ins *safe = lb_select(b, lb_cmp(b, L_EQ, top, lowest), zero, top);
    ins *fade = lb_select(b, lb_cmp(b, L_EQ, old, lowest), zero, exp_of(f, lb_bin(b, L_SUB, old, safe)));
    lb_set(b, f->top[r], top);
    lb_set(b, f->sum[r], lb_bin(b, L_MUL, lb_get(b, f->sum[r]), fade));
    i = open_unrolled(f, "i", KEYS / 8);
    weigh(f, i, r, safe, f->sum[r]);
    lb_end(b, i);
    fade_results(f, r, fade);
}

static void block_of_keys(flash *f, ins *j0) {
    lbuild *b = f->b;
    meet(f);
    issue(f, &f->pv, &f->pv.b, j0);
    clear(f, f->scores, KEYS / 8 * FRAGMENT);
    multiply(f, &f->qk, f->query, f->scores);
    emitter_stage(f->e, f->a->score, -1, 1, false);
    for (int r = 0; r < HALVES; r++) softmax_row(f, j0, r);
    gpu_clear_counters(f->g, f->qk.a.axes, f->qk.a.naxes);
    meet(f);
    ins *next = add(f, j0, lb_idx(b, KEYS)), *more = lb_if(b, lb_cmp(b, L_SLT, next, f->keys));
    issue_keys(f, next);
    lb_end(b, more);
    multiply(f, &f->pv, f->weights, f->acc);
}

// ---------------------------------------------------------------- results

static void write_row(flash *f, access *to, int r) {
    lbuild *b = f->b;
    emitter *e = f->e;
    const attention *a = f->a;
    int64_t width = dim_value(e->extent[a->e]);
    lb_set(b, e->local[a->total->id], of_row(f, lb_get(b, f->sum[r]), L_ADD));
    lb_set(b, e->local[a->top->id], lb_get(b, f->top[r]));
    ins *there = lb_if(b, f->inside[r]), *i = open_unrolled(f, "i", f->pv.b.side / 8);
    for (int c = 0; c < 2; c++) {
        ins *column = add(f, add(f, times(f, i, 8), f->column), lb_idx(b, c));
        ins *narrow = width % 16 ? lb_if(b, lb_cmp(b, L_SLT, column, lb_idx(b, width))) : NULL;
        int mark = scope_open(e);
        use_row(f, r);
        e->counter[a->e] = column;
        e->state[0] = lb_load(b, lt(LK_F32, 1), f->acc, element(f, i, r, c), 0);
        emit_write(e, &a->value->writes.at[0], to, NULL);
        e->counter[a->e] = NULL;
        scope_close(e, mark);
        if (narrow) lb_end(b, narrow);
    }
    lb_end(b, i);
    lb_end(b, there);
}

// Maximum and sum, by the first of the row's four threads.
static void keep_row(flash *f, int r) {
    lbuild *b = f->b;
    emitter *e = f->e;
    const stage *s = f->a->kept;
    emitter_stage(e, s, -1, 1, false);
    ins *first = lb_cmp(b, L_EQ, f->column, lb_idx(b, 0)),
        *there = lb_if(b, lb_bin(b, L_AND, first, f->inside[r]));
    int mark = scope_open(e);
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
    for (int r = 0; r < HALVES; r++) {
        write_row(f, to, r);
        if (f->a->kept) keep_row(f, r);
    }
}

static void see_any(void *user, expr *x) { *(bool *)user |= x->op == X_READ || x->op == X_CHECK; }

void gpu_schedule_attention(gpu *g, const attention *a) {
    emitter *e = g->e;
    flash f = {.g = g, .e = e, .b = g->b, .a = a};
    e->code->schedule = "tensor attention";
    e->state = ARENA_ARRAY(e->scratch, ins *, 1);
    expr_walk(a->score->writes.at[0].value, see_any, &f.reads);
    set_products(&f);
    set_block(&f);
    int mark = scope_open(e);
    make_memory(&f);
    set_keys(&f);
    set_rows(&f);
    clear(&f, f.acc, f.pv.b.side / 8 * FRAGMENT);
    load_query(&f);
    issue_keys(&f, lb_idx(f.b, 0));
    ins *j0 = lb_for(f.b, "j0", lb_idx(f.b, 0), f.keys, lb_idx(f.b, KEYS), LOOP_SERIAL);
    int inner = scope_open(e);
    block_of_keys(&f, j0);
    scope_close(e, inner);
    lb_end(f.b, j0);
    write_rows(&f);
    scope_close(e, mark);
    gpu_land(g);
}
