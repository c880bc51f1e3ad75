// Sums of products on tensor cores. In: slices of both operands in shared memory, as words of neighbours
// along K. Out: warps multiply fragments of 16 x 8 results and 8 words of K (PTX ISA, "Matrix fragments"):
// thread 4 g + t of a warp holds words t and t + 4 of rows g and g + 8 of a, of column g of b, and results of
// columns 2 t and 2 t + 1.
#include "ir/program.h"
#include "passes/schedule_gpu_product.h"

enum { STEP = 8, ROWS = 16, COLUMNS = 8 };

// Products of small floats are exact in f32, those of bytes in i32.
static const tensor_type types[] = {
    {DT_F16, DT_F16, "mma_m16n8k16_f16", 2}, {DT_BF16, DT_BF16, "mma_m16n8k16_bf16", 2},
    {DT_I8, DT_I8, "mma_m16n8k32_s8", 4},    {DT_U8, DT_I8, "mma_m16n8k32_u8s8", 4},
    {DT_I8, DT_U8, "mma_m16n8k32_s8u8", 4},  {DT_U8, DT_U8, "mma_m16n8k32_u8", 4},
};
enum { TYPES = sizeof types / sizeof *types };
// What f32 may become where less precision is allowed.
static const tensor_type reduced[] = {
    [PRECISION_TF32] = {.name = "mma_m16n8k8_tf32", .per = 1, .as = DT_F32},
    [PRECISION_BF16] = {.name = "mma_m16n8k16_bf16", .per = 2, .as = DT_BF16},
    [PRECISION_F16] = {.name = "mma_m16n8k16_f16", .per = 2, .as = DT_F16},
};

// A factor that is the read itself, 0 where its guard is false.
static bool is_plain(const expr *term, const expr *read) {
    while (term->op == X_CAST && term->dtype == DT_I32) term = term->arg[0];
    if (term != read) return false;
    const expr *fill = read->guard ? read->fill : NULL;
    return !fill || (fill->op == X_CONST && (dtype_is_float(fill->dtype) ? fill->f == 0 : fill->i == 0));
}

static const tensor_type *stored_type(const contraction *c, dtype sum) {
    if (!is_plain(c->term_a, c->a) || !is_plain(c->term_b, c->b)) return NULL;
    for (int j = 0; j < TYPES; j++) {
        const tensor_type *t = &types[j];
        if (c->a->buffer->dtype == t->a && c->b->buffer->dtype == t->b)
            return sum == (t->per == 2 ? DT_F32 : DT_I32) ? t : NULL;
    }
    return NULL;
}

const tensor_type *gpu_tensor_type(const emitter *e, const contraction *c) {
    dtype sum = c->s->states.at[0].dtype;
    if (e->t->fp == FP_STRICT) return NULL;
    const tensor_type *t = stored_type(c, sum);
    return t || sum != DT_F32 || e->t->precision == PRECISION_OWN ? t : &reduced[e->t->precision];
}

// The words of one fragment: `rows` of row + 8 i, words word and word + 4.
static void load_fragment(product *p, const operand *o, int rows, ins *slice, ins *row, ins *word, ins *to,
                          ins *at) {
    lbuild *b = p->g->b;
    ins *base = lb_bin(b, L_MUL, slice, lb_idx(b, gpu_slice_words(p, o->side)));
    for (int r = 0; r < 2 * rows; r++) {
        ins *x = lb_bin(b, L_ADD, row, lb_idx(b, r % rows * 8)),
            *w = lb_bin(b, L_ADD, word, lb_idx(b, r / rows * 4));
        ins *from = lb_bin(b, L_ADD, base, gpu_shared_at(p, o->side, x, w));
        lb_store(b, to, lb_bin(b, L_ADD, at, lb_idx(b, r)), lb_load(b, lt(LK_I32, 1), o->shared, from, 0), 0);
    }
}

// All fragments of an operand that the warp's results need, at one step along K.
static void load_fragments(product *p, const operand *o, int n, int rows, ins *slice, ins *warp, ins *word,
                           ins *to) {
    lbuild *b = p->g->b;
    ins *i = lb_for(b, "i", lb_idx(b, 0), lb_idx(b, n), lb_idx(b, 1), LOOP_UNROLL);
    ins *group = gpu_quotient(b, gpu_rest(b, p->g->thread, lb_idx(b, 32)), lb_idx(b, 4));
    ins *row = lb_bin(b, L_ADD, lb_bin(b, L_MUL, warp, lb_idx(b, n * rows * 8)),
                      lb_bin(b, L_ADD, lb_bin(b, L_MUL, i, lb_idx(b, rows * 8)), group));
    load_fragment(p, o, rows, slice, row, word, to, lb_bin(b, L_MUL, i, lb_idx(b, 2 * rows)));
    lb_end(b, i);
}

void gpu_multiply_tensors(product *p, ins *slice) {
    lbuild *b = p->g->b;
    int nm = p->t.each_m / 2, nn = p->t.each_n / 2;
    ins *fa = lb_local(b, LK_I32, nm * 4, 16, false), *fb = lb_local(b, LK_I32, nn * 2, 16, false);
    ins *step = lb_for(b, "k", lb_idx(b, 0), lb_idx(b, p->t.words), lb_idx(b, STEP), LOOP_UNROLL);
    ins *word = lb_bin(b, L_ADD, step, gpu_rest(b, p->g->thread, lb_idx(b, 4)));
    load_fragments(p, &p->a, nm, 2, slice, p->lane_m[0], word, fa);
    load_fragments(p, &p->b, nn, 1, slice, p->lane_n[0], word, fb);
    ins *i = lb_for(b, "i", lb_idx(b, 0), lb_idx(b, nm), lb_idx(b, 1), LOOP_UNROLL);
    ins *j = lb_for(b, "j", lb_idx(b, 0), lb_idx(b, nn), lb_idx(b, 1), LOOP_UNROLL);
    ins *at = lb_bin(b, L_ADD, lb_bin(b, L_MUL, i, lb_idx(b, nn)), j);
    ins *args[] = {lb_offset(b, p->acc, at, 16), lb_offset(b, fa, i, 16), lb_offset(b, fb, j, 8)};
    lb_call(b, lt(LK_VOID, 1), p->tensor->name, 3, args);
    lb_end(b, j);
    lb_end(b, i);
    lb_end(b, step);
}
