// K slices (tiles along K) of a product's operands on GPUs. In: an operand and where its slice begins. Out:
// register staging: every thread loads some words of it into registers, by vector loads of a unit where they
// are aligned, and later stores them into shared memory, which lies
//
//   [word of K][side + pad]    for multiply-adds: threads read neighbouring rows at once
//   [side][words of K + pad]   for tensor cores: warps read 8 rows of 4 words at once
//   [K][side + pad]            for tensor cores too, where 16-bit elements are adjacent along the rows
//
//   lines of 128 bytes, along K or, of 16-bit elements that are adjacent there, along 64 rows
//                              for warpgroups, with permuted chunks of 16 bytes (ir/loops/loops_mma.h)
//   core matrices              for them too, as it lies in memory (schedule_gpu_bulk.c)
//
// If both operands are stored in the multiplied type, GPUs from sm_80 on copy them asynchronously without
// registers (gpu_issue_slice, cp.async); only partial or unaligned units are staged in registers.
//
// Padding avoids bank conflicts between the 32 threads of a warp.
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/schedule/gpu/schedule_gpu_product.h"

enum { PAD = 4, RUN = 16, UNIT = 8 };

static int per_word(const product *p) { return p->tensor ? p->tensor->per : 1; }
int gpu_slice_depth(const product *p) { return p->t.words * per_word(p); }
int gpu_slice_words(const product *p, const operand *o) {
    if (p->warpgroups) return o->side * p->t.words;
    if (o->transposed) return p->t.words * (o->side + 2 * PAD);
    return p->tensor ? o->side * (p->t.words + PAD) : (o->side + PAD) * p->t.words;
}

// The offset in words of chunk `number` of 16 bytes of a line.
static ins *chunk_at(lbuild *b, ins *line, ins *number) {
    ins *place = lb_bin(b, L_XOR, gpu_modk(b, line, 8), number);
    return lb_add(b, idx_mulk(b, line, 32), idx_mulk(b, place, 4));
}

// The offset of 8 rows from `row` on at one position of K, or of 16 bytes along K: both start at a chunk.
static ins *swizzled_at(product *p, const operand *o, ins *row, ins *k) {
    lbuild *b = p->g->b;
    if (!o->transposed) return chunk_at(b, row, gpu_divk(b, k, 4 * per_word(p)));
    ins *more = idx_mulk(b, gpu_divk(b, row, 64), gpu_slice_depth(p));
    return chunk_at(b, lb_add(b, more, k), gpu_divk(b, gpu_modk(b, row, 64), UNIT));
}

ins *gpu_shared_at(product *p, const operand *o, ins *row, ins *word) {
    lbuild *b = p->g->b;
    ins *far = p->tensor ? row : word, *near = p->tensor ? word : row;
    int pitch = (p->tensor ? p->t.words : o->side) + PAD;
    return lb_add(b, idx_mulk(b, far, pitch), near);
}

ins *gpu_transposed_at(product *p, const operand *o, ins *row, ins *k) {
    lbuild *b = p->g->b;
    return lb_add(b, idx_mulk(b, k, o->side + 2 * PAD), row);
}

// ---------------------------------------------------------------- units

static int units_of(const product *p, const operand *o) {
    return o->side / o->unit_rows * (p->t.words / o->unit_words);
}
int gpu_staged_words(const product *p, const operand *o) { return o->side * p->t.words / p->threads; }

// Whether runs of `many` adjacent positions of the flattened axes, starting at multiples of that, stay within
// the last axis: it is the only one, or a multiple of the run.
static bool runs_stay(const product *p, const int *axes, int n, int many) {
    const dim *last = n ? p->g->e->extent[axes[n - 1]] : NULL;
    bool alone = true;
    for (int j = 0; j < n - 1; j++) alone &= dim_is(p->g->e->extent[axes[j]], 1);
    return n && (alone || (dim_is_const(last) && dim_value(last) % many == 0));
}

static ins *both(lbuild *b, ins *x, ins *y) { return x && y ? lb_bin(b, L_AND, x, y) : x ? x : y; }

// Whether every term of an offset other than the term of `axis` can be a multiple of n; *when: the runtime
// condition, NULL: always.
static bool are_multiples(product *p, const access *a, int axis, int n, ins **when) {
    lbuild *b = p->g->b;
    *when = NULL;
    for (int j = -1; j < p->c->k->axes.n; j++) {
        expr *term = j < 0 ? a->base : a->coef[j];
        if (j == axis || (term->op == X_CONST && term->i % n == 0)) continue;
        if (term->op == X_CONST) return false;
        ins *rest = gpu_modk(b, emit_index(p->g->e, term), n);
        *when = both(b, *when, lb_cmp(b, L_EQ, rest, lb_idx(b, 0)));
    }
    return true;
}

// The condition that the buffer is aligned to this number of bytes, at most 16; NULL: always.
static ins *is_aligned(product *p, const buffer *from, int bytes) {
    lbuild *b = p->g->b;
    int64_t offset = 0;
    for (const buffer *v = from; v->view_of; v = v->view_of) offset |= dtype_size(v->dtype, v->view_offset);
    if (p->g->e->t->placed && offset % bytes == 0) return NULL;
    ltype t = lt(LK_I64, 1);
    ins *address = lb_bitcast(b, t, pointer_of(p->g->e, from));
    return lb_cmp(b, L_EQ, lb_bin(b, L_AND, address, lb_int(b, t, bytes - 1)), lb_int(b, t, 0));
}

static int run_bytes(const operand *o) {
    return o->along_k ? o->unit_words * 4 : o->unit_rows * dtype_bits(o->read->buffer->dtype) / 8;
}

// Asynchronous copies have units of 16 bytes: 4 words of a row, or 8 adjacent elements along the rows.
static bool may_be_async(const product *p, const operand *o) {
    return p->tensor && p->g->e->t->sm >= 80 && (o->along_k || p->tensor->per == 2);
}

static bool is_stored(const product *p, const operand *o) {
    return p->tensor ? !o->as : o->term == o->read && dtype_bits(o->read->buffer->dtype) == 32;
}

// Whether the guard is provably uniform along the axis.
static bool guards_runs(const expr *read, int axis) {
    return !read->guard ||
           (!expr_any(read->guard, expr_reads_or_checks) && !expr_uses_axis(read->guard, axis));
}

// Units are four words along K, or eight rows of a word (four if threads multiply), if the operand is stored
// that way.
void gpu_choose_units(product *p, operand *o) {
    lbuild *b = p->g->b;
    const access *a = entry_of(p->g->e, o->read)->read;
    const int *axes = o->along_k ? p->c->k_axes.at : o->axes;
    int n = o->along_k ? p->c->k_axes.n : o->naxes;
    o->unit_rows = o->unit_words = 1;
    if (o->cores || (p->warpgroups && !o->along_k && !o->transposed)) return;
    if (!is_stored(p, o) || !a->affine || !n || !guards_runs(o->read, axes[n - 1])) return;
    if (!steps_by_one(a, axes[n - 1])) return;
    o->unit_rows = o->along_k ? 1 : p->tensor ? 8 : 4, o->unit_words = o->along_k ? 4 : 1;
    int bytes = run_bytes(o), bits = dtype_bits(o->read->buffer->dtype);
    bool shared_out =
        (p->async || may_be_async(p, o) ? o->side * p->t.words / 4 : units_of(p, o)) % p->threads == 0;
    shared_out &= runs_stay(p, axes, n, bytes * 8 / bits);
    ins *when;
    if (!shared_out || !are_multiples(p, a, axes[n - 1], bytes * 8 / bits, &when)) {
        o->unit_rows = o->unit_words = 1;
        return;
    }
    o->aligned = both(b, is_aligned(p, o->read->buffer, bytes), when);
}

bool gpu_pairs_fit(product *p, const access *to, const buffer *of, ins **when) {
    const operand *o = &p->b;
    int last = o->naxes ? o->axes[o->naxes - 1] : -1;
    if (last < 0 || !to->affine || !steps_by_one(to, last) || !runs_stay(p, o->axes, o->naxes, 2))
        return false;
    if (!are_multiples(p, to, last, 2, when)) return false;
    *when = both(p->g->b, is_aligned(p, of, dtype_bits(of->dtype) / 4), *when);
    return true;
}

// The position of the thread's unit j in the K tile: coalesced loads, as far as stores to shared memory stay
// free of bank conflicts.
static void place(product *p, const operand *o, ins *j, ins **row, ins **word) {
    lbuild *b = p->g->b;
    ins *per_row = lb_idx(b, p->t.words / o->unit_words),
        *i = lb_add(b, p->g->thread, idx_mulk(b, j, p->threads));
    if (!p->tensor && !o->along_k && gpu_is_wide(o)) {
        ins *runs = lb_idx(b, o->side / o->unit_rows);
        *word = gpu_div(b, i, runs);
        *row = idx_mulk(b, gpu_mod(b, i, runs), o->unit_rows);
        return;
    }
    if (o->along_k || gpu_is_wide(o)) {
        *word = idx_mulk(b, gpu_mod(b, i, per_row), o->unit_words);
        *row = idx_mulk(b, gpu_div(b, i, per_row), o->unit_rows);
        return;
    }
    ins *run = lb_idx(b, p->tensor ? RUN : o->side), *of_runs = gpu_div(b, i, run);
    *word = gpu_mod(b, of_runs, per_row);
    *row = lb_add(b, gpu_mod(b, i, run), lb_mul(b, gpu_div(b, of_runs, per_row), run));
}

static ins *open_units(product *p, const operand *o) {
    lbuild *b = p->g->b;
    return gpu_unroll(b, "j", units_of(p, o) / p->threads);
}

// ---------------------------------------------------------------- words, element by element

static bool is_multiple(const dim *d, int of) {
    return of == 1 || (dim_is_const(d) && dim_value(d) % of == 0);
}

// The condition that `at` is below the extent; NULL: always.
static ins *below(product *p, ins *at, dim *extent, int block) {
    return is_multiple(extent, block) ? NULL : lb_cmp(p->g->b, L_SLT, at, emit_dim(p->g->e, extent));
}

// Whether `rows` x `deep` elements from (at, k) on are all inside of the operand; NULL: always.
static ins *all_inside(product *p, const operand *o, ins *at, ins *k, int rows, int deep) {
    lbuild *b = p->g->b;
    ins *last = idx_addk(b, at, rows - 1), *deepest = idx_addk(b, k, deep - 1);
    return both(b, below(p, last, o->extent, o->side), below(p, deepest, p->depth, gpu_slice_depth(p)));
}

scope gpu_open_element(product *p, const operand *o, ins *at, ins *k) {
    scope s = scope_open(p->g->e);
    gpu_set_counters(p->g, o->axes, o->naxes, at);
    gpu_set_counters(p->g, p->c->k_axes.at, p->c->k_axes.n, k);
    return s;
}
void gpu_close_element(product *p, const operand *o, scope s) {
    gpu_clear_counters(p->g, o->axes, o->naxes);
    gpu_clear_counters(p->g, p->c->k_axes.at, p->c->k_axes.n);
    scope_close(p->g->e, s);
}

// The bits of an element for tensor cores, in the low part of a word.
static ins *element_bits(product *p, const operand *o) {
    emitter *e = p->g->e;
    lbuild *b = p->g->b;
    const buffer *from = o->read->buffer;
    dtype as = o->as;
    if (as == DT_F32) return tf32_bits(b, emit_value(e, o->term));
    if (as == DT_BF16) return code_of_float(b, as, emit_value(e, o->term), false);
    int bits = as ? 16 : dtype_bits(from->dtype);
    lkind k = bits == 32 ? LK_I32 : bits == 16 ? LK_I16 : LK_I8;
    ins *v =
        as ? lb_bitcast(b, lt(k, 1), lb_conv(b, L_FTRUNC, LK_F16, emit_value(e, o->term)))
           : lb_load(b, lt(k, 1), pointer_of(e, from), emit_index(e, entry_of(e, o->read)->read->offset), 0);
    return bits == 32 ? v : lb_conv(b, L_ZEXT, LK_I32, v);
}

// Combines the element at the current counters into variable v.
static void add_element(product *p, operand *o, ins *v, int number) {
    emitter *e = p->g->e;
    lbuild *b = p->g->b;
    if (!p->tensor) {
        lb_set(b, v, emit_value(e, o->term));
        return;
    }
    bool guarded = !o->as && o->read->guard; // otherwise the value contains the guard
    scope guard = scope_if(e, guarded ? emit_value(e, o->read->guard) : NULL);
    ins *bits = element_bits(p, o), *shift = lb_int(b, lt(LK_I32, 1), number * (32 / p->tensor->per));
    lb_set(b, v, lb_bin(b, L_OR, lb_get(b, v), lb_bin(b, L_SHL, bits, shift)));
    scope_close(e, guard);
}

static void load_one(product *p, operand *o, ins *v, ins *at, ins *k, int number) {
    ins *inside = all_inside(p, o, at, k, 1, 1);
    scope valid = scope_if(p->g->e, inside), element = gpu_open_element(p, o, at, k);
    add_element(p, o, v, number);
    gpu_close_element(p, o, element);
    scope_close(p->g->e, valid);
}

// A word along K or, by_rows, along the rows; elements outside of the operand are 0.
static ins *load_word(product *p, operand *o, ins *at, ins *k, bool by_rows) {
    lbuild *b = p->g->b;
    ins *v = lb_var(b, "v", emit_zero(b, lt(p->word, 1)));
    for (int number = 0; number < per_word(p); number++) {
        ins *to = idx_addk(b, by_rows ? at : k, number);
        load_one(p, o, v, by_rows ? to : at, by_rows ? k : to, number);
    }
    return lb_get(b, v);
}

// Loads the words of a unit one by one to staged words from `to` on.
static void load_words(product *p, operand *o, ins *at, ins *k, ins *to) {
    lbuild *b = p->g->b;
    ins *w = gpu_unroll(b, "w", o->unit_rows * o->unit_words);
    scope mark = scope_open(p->g->e);
    if (o->along_k) k = lb_add(b, k, idx_mulk(b, w, per_word(p)));
    else at = lb_add(b, at, w);
    lb_store(b, o->staged, lb_add(b, to, w), load_word(p, o, at, k, false), 0);
    scope_close(p->g->e, mark);
    lb_end(b, w);
}

// ---------------------------------------------------------------- units at once

static gpu_ins copy_of(int bytes) { return (gpu_ins){.op = GPU_COPY, .count = bytes}; }

// Copies a run from (at, k) on. Asynchronous copies write zeros where the operand's guard is false or the run
// is not `inside` (NULL: it is); others require the elements to exist.
static void copy_run(product *p, operand *o, ins *at, ins *k, ins *to, gpu_ins how, ins *inside) {
    gpu *g = p->g;
    const buffer *from = o->read->buffer;
    scope mark = gpu_open_element(p, o, at, k);
    bool guarded = how.op == GPU_CP_ASYNC && o->read->guard;
    ins *offset = emit_index(g->e, entry_of(g->e, o->read)->read->offset);
    ins *there = both(g->b, inside, guarded ? emit_value(g->e, o->read->guard) : NULL);
    if (there) offset = lb_select(g->b, there, offset, lb_int(g->b, offset->type, 0));
    ins *place = lb_offset(g->b, pointer_of(g->e, from), offset, dtype_bits(from->dtype) / 8);
    if (there) how.op = GPU_CP_ASYNC_ZFILL;
    lb_gpu(g->b, how, (ins *[]){to, place, there ? lb_conv(g->b, L_ZEXT, LK_I32, there) : NULL});
    gpu_close_element(p, o, mark);
}

// Row r of the runs, one per position of K, as a word.
static ins *word_of_runs(product *p, const operand *o, ins *runs, int r) {
    lbuild *b = p->g->b;
    ltype t = lt(LK_I32, 1);
    int per = per_word(p), bits = 32 / per;
    ins *word = lb_int(b, t, 0);
    for (int e = 0; e < per; e++) {
        ins *v = lb_load(b, t, runs, lb_idx(b, e * run_bytes(o) / 4 + r / per), 0);
        v = lb_bin(b, L_LSHR, v, lb_int(b, t, r % per * bits));
        v = lb_bin(b, L_AND, v, lb_int(b, t, (1 << bits) - 1));
        word = lb_bin(b, L_OR, word, lb_bin(b, L_SHL, v, lb_int(b, t, e * bits)));
    }
    return word;
}

static void load_rows(product *p, operand *o, ins *at, ins *k, ins *to) {
    lbuild *b = p->g->b;
    int per = per_word(p), words = run_bytes(o) / 4;
    ins *runs = lb_local(b, LK_I32, per * words, 16, false);
    for (int e = 0; e < per; e++)
        copy_run(p, o, at, idx_addk(b, k, e), lb_offset(b, runs, lb_idx(b, e * words), 4),
                 copy_of(run_bytes(o)), NULL);
    for (int r = 0; r < o->unit_rows; r++)
        lb_store(b, o->staged, idx_addk(b, to, r), word_of_runs(p, o, runs, r), 0);
}

static ins *guard_at(product *p, const operand *o, ins *at, ins *k) {
    gpu *g = p->g;
    scope mark = gpu_open_element(p, o, at, k);
    ins *holds = emit_value(g->e, o->read->guard);
    gpu_close_element(p, o, mark);
    return holds;
}

// Whether units are never cut by an edge: all of their elements are inside or none is.
static bool is_uncut(const product *p, const operand *o, int rows, int deep) {
    return is_multiple(o->extent, rows) && is_multiple(p->depth, deep);
}

static void clear_words(product *p, const operand *o, ins *to) {
    lbuild *b = p->g->b;
    ins *zero = emit_zero(b, lt(p->word, 1));
    for (int w = 0; w < o->unit_rows * o->unit_words; w++)
        lb_store(b, o->staged, idx_addk(b, to, w), zero, 0);
}

// A vector load if all elements of the unit exist, otherwise word by word.
static void load_unit(product *p, operand *o, ins *at, ins *k, ins *to) {
    lbuild *b = p->g->b;
    int rows = o->unit_rows, deep = o->unit_words * per_word(p);
    ins *there = all_inside(p, o, at, k, rows, deep);
    if (o->read->guard) there = both(b, there, guard_at(p, o, at, k));
    ins *at_once = both(b, o->aligned, there), *branch = at_once ? lb_if(b, at_once) : NULL;
    if (o->along_k || !p->tensor)
        copy_run(p, o, at, k, lb_offset(b, o->staged, to, 4), copy_of(run_bytes(o)), NULL);
    else load_rows(p, o, at, k, to);
    if (!branch) return;
    lb_else(b, branch);
    if (!o->aligned && is_uncut(p, o, rows, deep)) clear_words(p, o, to);
    else load_words(p, o, at, k, to);
    lb_end(b, branch);
}

// ---------------------------------------------------------------- slices

void gpu_load_slice(product *p, operand *o, ins *k0) {
    lbuild *b = p->g->b;
    ins *j = open_units(p, o), *row, *word;
    scope mark = scope_open(p->g->e);
    place(p, o, j, &row, &word);
    ins *at = lb_add(b, o->first, row), *k = lb_add(b, k0, idx_mulk(b, word, per_word(p)));
    if (gpu_is_wide(o)) load_unit(p, o, at, k, idx_mulk(b, j, o->unit_rows * o->unit_words));
    else lb_store(b, o->staged, j, load_word(p, o, at, k, false), 0);
    scope_close(p->g->e, mark);
    lb_end(b, j);
}

// Stores n contiguous words of the thread's unit j, from its word `first` on, to (row, word) of the K tile.
static void store_words(product *p, operand *o, ins *slice, ins *j, int first, int n, ins *row, ins *word) {
    lbuild *b = p->g->b;
    ins *to = lb_add(b, idx_mulk(b, slice, gpu_slice_words(p, o)), gpu_shared_at(p, o, row, word)),
        *from = idx_addk(b, idx_mulk(b, j, o->unit_rows * o->unit_words), first);
    if (n == 1) lb_store(b, o->shared, to, lb_load(b, lt(p->word, 1), o->staged, from, 0), 0);
    else lb_gpu(b, copy_of(16), (ins *[]){lb_offset(b, o->shared, to, 4), lb_offset(b, o->staged, from, 4)});
}

void gpu_store_slice(product *p, operand *o, ins *slice) {
    lbuild *b = p->g->b;
    ins *j = open_units(p, o), *row, *word;
    int words = o->unit_rows * o->unit_words;
    bool side_by_side = gpu_is_wide(o) && o->along_k == (p->tensor != NULL);
    place(p, o, j, &row, &word);
    if (side_by_side) store_words(p, o, slice, j, 0, words, row, word);
    for (int n = 0; n < words && !side_by_side; n++)
        store_words(p, o, slice, j, n, 1, o->along_k ? row : idx_addk(b, row, n),
                    o->along_k ? idx_addk(b, word, n) : word);
    lb_end(b, j);
}

// ---------------------------------------------------------------- slices past the registers

static bool fits_async(const product *p, const operand *o) { return gpu_is_wide(o) && may_be_async(p, o); }

static void fit_registers(const product *p, operand *o) {
    if (units_of(p, o) % p->threads) o->unit_rows = o->unit_words = 1;
}

void gpu_choose_async(product *p) {
    enum { SHARED_MOST = 48 << 10, MANY = 5 };
    p->async = p->warpgroups || (p->tensor && fits_async(p, &p->a) && fits_async(p, &p->b));
    p->copies = p->async && (gpu_is_wide(&p->a) || gpu_is_wide(&p->b));
    p->stages = 2;
    if (p->warpgroups) {
        int deep = gpu_slice_depth(p);
        int64_t all = dim_is_const(p->depth) ? (dim_value(p->depth) + deep - 1) / deep : MANY;
        p->stages = all <= 2 ? 2 : all < MANY ? 3 : p->t.stages;
        p->overlaps = p->stages > 3;
        return;
    }
    if (!p->async) {
        fit_registers(p, &p->a), fit_registers(p, &p->b);
        return;
    }
    p->a.transposed = !p->a.along_k, p->b.transposed = !p->b.along_k;
    int bytes = 4 * (gpu_slice_words(p, &p->a) + gpu_slice_words(p, &p->b));
    if (3 * bytes <= SHARED_MOST) p->stages = 3;
}

// How a unit is copied: by a vector copy, as it is never cut; word by word; or decided at run time.
typedef enum unit_copy { AT_ONCE, BY_WORDS, EITHER } unit_copy;

static void issue_words(product *p, operand *o, ins *at, ins *k, ins *to) {
    lbuild *b = p->g->b;
    ins *w = gpu_unroll(b, "w", 4);
    scope mark = scope_open(p->g->e);
    ins *far = idx_mulk(b, w, per_word(p));
    if (o->transposed) at = lb_add(b, at, far);
    else k = lb_add(b, k, far);
    ins *word = load_word(p, o, at, k, o->transposed);
    lb_store(b, o->shared, lb_add(b, to, w), word, 0);
    scope_close(p->g->e, mark);
    lb_end(b, w);
}

static int issued_rows(const operand *o) { return o->transposed ? UNIT : 1; }
static int issued_depth(const product *p, const operand *o) { return o->transposed ? 1 : 4 * per_word(p); }

// Copies four words at (at, k) to shared memory from word `to` on.
static void issue_unit(product *p, operand *o, unit_copy how, ins *at, ins *k, ins *to) {
    lbuild *b = p->g->b;
    ins *inside = how == BY_WORDS ? NULL : all_inside(p, o, at, k, issued_rows(o), issued_depth(p, o));
    ins *at_once = how == EITHER ? both(b, o->aligned, inside) : NULL,
        *branch = at_once ? lb_if(b, at_once) : NULL;
    if (how != BY_WORDS)
        copy_run(p, o, at, k, lb_offset(b, o->shared, to, 4), (gpu_ins){GPU_CP_ASYNC},
                 how == AT_ONCE ? inside : NULL);
    if (branch) lb_else(b, branch);
    if (how == BY_WORDS || branch) issue_words(p, o, at, k, to);
    if (branch) lb_end(b, branch);
}

// Adjacent threads copy adjacent units in memory, or units of adjacent rows if those are contiguous.
static void issue_units(product *p, operand *o, unit_copy how, ins *k0, ins *slice) {
    lbuild *b = p->g->b;
    int units = o->side * p->t.words / 4, per_run = o->transposed ? o->side / UNIT : p->t.words / 4;
    ins *j = gpu_unroll(b, "j", units / p->threads);
    scope mark = scope_open(p->g->e);
    bool by_rows = p->warpgroups && !o->along_k && !o->transposed;
    ins *i = lb_add(b, p->g->thread, idx_mulk(b, j, p->threads));
    ins *far = by_rows ? gpu_modk(b, i, o->side) : gpu_divk(b, i, per_run);
    ins *near = by_rows ? gpu_divk(b, i, o->side) : gpu_modk(b, i, per_run);
    ins *row = o->transposed ? idx_mulk(b, near, UNIT) : far;
    ins *k = o->transposed ? far : idx_mulk(b, near, 4 * per_word(p));
    ins *place = p->warpgroups   ? swizzled_at(p, o, row, k)
                 : o->transposed ? gpu_divk(b, gpu_transposed_at(p, o, row, k), 2)
                                 : gpu_shared_at(p, o, row, idx_mulk(b, near, 4));
    place = lb_add(b, place, idx_mulk(b, slice, gpu_slice_words(p, o)));
    issue_unit(p, o, how, lb_add(b, o->first, row), lb_add(b, k0, k), place);
    scope_close(p->g->e, mark);
    lb_end(b, j);
}

// If no unit is cut, the alignment alone decides: one branch for all units.
void gpu_issue_slice(product *p, operand *o, ins *k0, ins *slice) {
    lbuild *b = p->g->b;
    bool wide = gpu_is_wide(o), uncut = wide && is_uncut(p, o, issued_rows(o), issued_depth(p, o));
    if (!uncut || !o->aligned) {
        issue_units(p, o, uncut ? AT_ONCE : wide ? EITHER : BY_WORDS, k0, slice);
        return;
    }
    ins *aligned = lb_if(b, o->aligned);
    issue_units(p, o, AT_ONCE, k0, slice);
    lb_else(b, aligned);
    issue_units(p, o, BY_WORDS, k0, slice);
    lb_end(b, aligned);
}
