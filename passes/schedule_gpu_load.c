// Slices of a product's operands on GPUs. In: an operand and where its slice begins. Out: every thread
// fetches some words of it from memory into registers, and later stores them into shared memory, which lies
//
//   [word of K][side + pad]    for multiply-adds: threads read neighbouring rows at once
//   [side][words of K + pad]   for tensor cores: threads read 8 rows and 4 words at once
//
// The pads keep 32 threads' words in 32 different banks.
#include "ir/program.h"
#include "passes/emit_dim.h"
#include "passes/schedule_gpu_product.h"

enum { PAD = 4, RUN = 16 };

static int per_word(const product *p) { return p->tensor ? p->tensor->per : 1; }
int gpu_slice_depth(const product *p) { return p->t.words * per_word(p); }
int gpu_slice_words(const product *p, int side) {
    return p->tensor ? side * (p->t.words + PAD) : (side + PAD) * p->t.words;
}

ins *gpu_shared_at(product *p, int side, ins *row, ins *word) {
    lbuild *b = p->g->b;
    ins *far = p->tensor ? row : word, *near = p->tensor ? word : row;
    return lb_bin(b, L_ADD, lb_bin(b, L_MUL, far, lb_idx(b, (p->tensor ? p->t.words : side) + PAD)), near);
}

// Which word of the slice is the thread's number j: neighbouring threads take what lies side by side in
// memory.
static void place(product *p, const operand *o, ins *j, ins **row, ins **word) {
    lbuild *b = p->g->b;
    ins *words = lb_idx(b, p->t.words),
        *i = lb_bin(b, L_ADD, p->g->thread, lb_bin(b, L_MUL, j, lb_idx(b, p->threads)));
    if (o->along_k) {
        *word = gpu_rest(b, i, words), *row = gpu_quotient(b, i, words);
        return;
    }
    ins *run = lb_idx(b, p->tensor ? RUN : o->side), *of_runs = gpu_quotient(b, i, run);
    *word = gpu_rest(b, of_runs, words);
    *row = lb_bin(b, L_ADD, gpu_rest(b, i, run), lb_bin(b, L_MUL, gpu_quotient(b, of_runs, words), run));
}

static ins *open_words(product *p, const operand *o) {
    lbuild *b = p->g->b;
    return lb_for(b, "j", lb_idx(b, 0), lb_idx(b, o->side * p->t.words / p->threads), lb_idx(b, 1),
                  LOOP_UNROLL);
}

static bool is_multiple(const dim *d, int of) { return dim_is_const(d) && dim_value(d) % of == 0; }

// Whether position `at` is below the extent; NULL: always.
static ins *below(product *p, ins *at, dim *extent, int block) {
    return is_multiple(extent, block) ? NULL : lb_cmp(p->g->b, L_SLT, at, emit_dim(p->g->e, extent));
}
static ins *both(lbuild *b, ins *x, ins *y) { return x && y ? lb_bin(b, L_AND, x, y) : x ? x : y; }

// The stored bits of an element as the low ones of a word.
static ins *stored_bits(product *p, const operand *o) {
    emitter *e = p->g->e;
    lbuild *b = p->g->b;
    const buffer *from = o->read->buffer;
    lkind k = dtype_bits(from->dtype) == 8 ? LK_I8 : LK_I16;
    ins *v = lb_load(b, lt(k, 1), pointer_of(e, from), emit_index(e, entry_of(e, o->read)->read->offset), 0);
    return lb_conv(b, L_ZEXT, LK_I32, v);
}

// The element at the counters as they are, combined into variable v.
static void add_element(product *p, operand *o, ins *v, int number) {
    emitter *e = p->g->e;
    lbuild *b = p->g->b;
    if (!p->tensor) {
        lb_set(b, v, emit_value(e, o->term));
        return;
    }
    ins *guard = o->read->guard ? lb_if(b, emit_value(e, o->read->guard)) : NULL;
    int mark = scope_open(e);
    ins *bits = stored_bits(p, o), *shift = lb_int(b, lt(LK_I32, 1), number * (32 / p->tensor->per));
    lb_set(b, v, lb_bin(b, L_OR, lb_get(b, v), lb_bin(b, L_SHL, bits, shift)));
    scope_close(e, mark);
    if (guard) lb_end(b, guard);
}

static void load_element_of_word(product *p, operand *o, ins *v, ins *at, ins *k, int number) {
    gpu *g = p->g;
    const axis_list *ka = &p->c->k_axes;
    k = lb_bin(g->b, L_ADD, k, lb_idx(g->b, number));
    ins *inside = both(g->b, below(p, at, o->extent, o->side), below(p, k, p->depth, gpu_slice_depth(p)));
    ins *valid = inside ? lb_if(g->b, inside) : NULL;
    int mark = scope_open(g->e);
    gpu_set_counters(g, o->axes, o->naxes, at);
    gpu_set_counters(g, ka->at, ka->n, k);
    add_element(p, o, v, number);
    gpu_clear_counters(g, o->axes, o->naxes);
    gpu_clear_counters(g, ka->at, ka->n);
    scope_close(g->e, mark);
    if (valid) lb_end(g->b, valid);
}

// Elements outside of the operand are 0.
void gpu_load_slice(product *p, operand *o, ins *k0) {
    lbuild *b = p->g->b;
    ltype t = lt(p->word, 1);
    ins *j = open_words(p, o), *row, *word;
    int mark = scope_open(p->g->e);
    place(p, o, j, &row, &word);
    ins *at = lb_bin(b, L_ADD, o->first, row),
        *k = lb_bin(b, L_ADD, k0, lb_bin(b, L_MUL, word, lb_idx(b, per_word(p))));
    ins *v = lb_var(b, "v", lkind_is_float(p->word) ? lb_float(b, t, 0) : lb_int(b, t, 0));
    for (int number = 0; number < per_word(p); number++) load_element_of_word(p, o, v, at, k, number);
    lb_store(b, o->staged, j, lb_get(b, v), 0);
    scope_close(p->g->e, mark);
    lb_end(b, j);
}

void gpu_store_slice(product *p, operand *o, ins *slice) {
    lbuild *b = p->g->b;
    ins *j = open_words(p, o), *row, *word;
    place(p, o, j, &row, &word);
    ins *to = lb_bin(b, L_ADD, lb_bin(b, L_MUL, slice, lb_idx(b, gpu_slice_words(p, o->side))),
                     gpu_shared_at(p, o->side, row, word));
    lb_store(b, o->shared, to, lb_load(b, lt(p->word, 1), o->staged, j, 0), 0);
    lb_end(b, j);
}
