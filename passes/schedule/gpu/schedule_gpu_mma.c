// Sums of products on tensor cores. In: K tiles (slices) of both operands in shared memory, as words of
// adjacent elements along K. Out: warps multiply fragments of 16 x 8 results and 8 words of K (PTX ISA,
// "Matrix fragments"): thread 4 g + t of a warp holds words t and t + 4 of rows g and g + 8 of a, of column g
// of b, and results of columns 2 t and 2 t + 1.
#include "ir/kernel/program.h"
#include "passes/schedule/gpu/schedule_gpu_product.h"

enum { STEP = 8, ROWS = 16 };

// Products of small floats are exact in f32, products of bytes in i32.
static const tensor_type types[] = {
    {DT_F16, DT_F16, 2}, {DT_BF16, DT_BF16, 2}, {DT_I8, DT_I8, 4},
    {DT_U8, DT_I8, 4},   {DT_I8, DT_U8, 4},     {DT_U8, DT_U8, 4},
};
enum { TYPES = sizeof types / sizeof *types };
// Types for f32 if reduced precision is allowed.
static const tensor_type reduced[] = {
    [PRECISION_TF32] = {.per = 1, .as = DT_F32},
    [PRECISION_BF16] = {.per = 2, .as = DT_BF16},
    [PRECISION_F16] = {.per = 2, .as = DT_F16},
};

// An instruction of the type for m x n results and 32 bytes along K.
static gpu_ins product_of(const tensor_type *t, gpu_op op, int m, int n) {
    return (gpu_ins){
        .op = op, .a = t->as ? t->as : t->a, .b = t->as ? t->as : t->b, .m = m, .n = n, .k = STEP * t->per};
}

void gpu_multiply(lbuild *b, const tensor_type *t, ins *d, ins *x, ins *y) {
    lb_gpu(b, product_of(t, GPU_MMA, ROWS, 8), (ins *[]){d, x, y});
}

// Whether a factor is the read itself, 0 where its guard is false.
bool gpu_is_plain(const expr *term, const expr *read) {
    while (term->op == X_CAST && term->dtype == DT_I32) term = term->arg[0];
    if (term != read) return false;
    const expr *fill = read->guard ? read->fill : NULL;
    return !fill || (fill->op == X_CONST && (dtype_is_float(fill->dtype) ? fill->f == 0 : fill->i == 0));
}

static const tensor_type *stored_type(const contraction *c, dtype sum) {
    if (!gpu_is_plain(c->term_a, c->a) || !gpu_is_plain(c->term_b, c->b)) return NULL;
    for (int j = 0; j < TYPES; j++) {
        const tensor_type *t = &types[j];
        if (c->a->buffer->dtype == t->a && c->b->buffer->dtype == t->b)
            return sum == (t->per == 2 ? DT_F32 : DT_I32) ? t : NULL;
    }
    return NULL;
}

// Whether a factor may be computed and then rounded to t: in the model it is a tensor of that type, for
// example dequantised weights.
static bool is_made_of(arena *scratch, expr *term, dtype t) {
    expr_list reads = reads_only(expr_nodes(scratch, term));
    bool any = false;
    for (int j = 0; j < reads.n; j++) {
        dtype read = reads.at[j]->buffer->dtype;
        if (read != t && (!dtype_is_int(read) || dtype_bits(read) > 8)) return false;
        any |= read == t;
    }
    return any;
}

static const tensor_type *rounded_type(const contraction *c, dtype sum) {
    if (sum != DT_F32) return NULL;
    for (int j = 0; j < TYPES; j++)
        if (types[j].per == 2 && is_made_of(c->k->arena, c->term_a, types[j].a) &&
            is_made_of(c->k->arena, c->term_b, types[j].a))
            return &types[j];
    return NULL;
}

const tensor_type *gpu_tensor_of(dtype t) {
    for (int j = 0; j < TYPES; j++)
        if (types[j].a == t && types[j].b == t) return &types[j];
    return NULL;
}

const tensor_type *gpu_tensor_type(const target *to, const contraction *c) {
    dtype sum = c->s->states.at[0].dtype;
    if (to->fp == FP_STRICT) return NULL;
    const tensor_type *t = stored_type(c, sum);
    if (!t) t = rounded_type(c, sum);
    return t || sum != DT_F32 || to->precision == PRECISION_OWN ? t : &reduced[to->precision];
}

// ldmatrix_x4: the address of the lane's row of its 8x8 matrix, of those from row `row` and word `word` on.
// The matrices are numbered by rows first if rows_first, else by words.
static ins *matrix_row(product *p, const operand *o, bool rows_first, ins *slice, ins *row, ins *word) {
    lbuild *b = p->g->b;
    ins *lane = gpu_modk(b, p->g->thread, 32), *eight = lb_idx(b, 8), *two = lb_idx(b, 2);
    ins *matrix = gpu_div(b, lane, eight), *mine = gpu_mod(b, lane, eight);
    ins *even = gpu_mod(b, matrix, two), *upper = gpu_div(b, matrix, two);
    ins *rows = lb_mul(b, rows_first ? even : upper, eight), *deep = rows_first ? upper : even, *at;
    if (o->transposed) {
        ins *k = lb_add(b, lb_mul(b, word, two), lb_mul(b, deep, eight));
        at = gpu_transposed_at(p, o, lb_add(b, row, rows), lb_add(b, k, mine));
        at = gpu_div(b, at, two);
    } else {
        at =
            gpu_shared_at(p, o, lb_add(b, row, lb_add(b, rows, mine)), lb_add(b, word, idx_mulk(b, deep, 4)));
    }
    return lb_add(b, at, idx_mulk(b, slice, gpu_slice_words(p, o)));
}

void gpu_load_fragments(product *p, const operand *o, int n, bool is_a, ins *slice, ins *warp, ins *word,
                        ins *to) {
    lbuild *b = p->g->b;
    ins *i = gpu_unroll(b, "i", n);
    ins *row = lb_add(b, idx_mulk(b, warp, n * ROWS), idx_mulk(b, i, ROWS));
    ins *from = matrix_row(p, o, is_a, slice, row, word);
    lb_gpu(b, (gpu_ins){.op = GPU_LDMATRIX, .transposed = o->transposed},
           (ins *[]){lb_offset(b, to, i, 16), lb_offset(b, o->shared, from, 4)});
    lb_end(b, i);
}

void gpu_multiply_tensors(product *p, ins *slice) {
    lbuild *b = p->g->b;
    int nm = p->t.each_m / 2, nn = p->t.each_n / 2;
    ins *fa = lb_local(b, LK_I32, nm * 4, 16, false), *fb = lb_local(b, LK_I32, nn * 2, 16, false);
    ins *step = lb_for(b, "k", lb_idx(b, 0), lb_idx(b, p->t.words), lb_idx(b, STEP), LOOP_UNROLL);
    gpu_load_fragments(p, &p->a, nm, true, slice, p->lane_m[0], step, fa);
    gpu_load_fragments(p, &p->b, nn / 2, false, slice, p->lane_n[0], step, fb);
    ins *i = gpu_unroll(b, "i", nm);
    ins *j = gpu_unroll(b, "j", nn);
    ins *at = lb_add(b, idx_mulk(b, i, nn), j);
    gpu_multiply(b, p->tensor, lb_offset(b, p->acc, at, 16), lb_offset(b, fa, i, 16), lb_offset(b, fb, j, 8));
    lb_end(b, j);
    lb_end(b, i);
    lb_end(b, step);
}

// ---------------------------------------------------------------- warpgroups

enum { WARPGROUP = 128, WARPGROUP_ROWS = 64, LINE = 32, CHUNK = 16 };

static gpu_order order_of(const operand *o) {
    return o->cores ? ORDER_CORES : o->transposed ? ORDER_M : ORDER_K;
}

// The address of step k of an operand's rows from 64 * group on; lines of `transposed` ones are positions of
// K.
static ins *wgmma_operand(product *p, const operand *o, ins *slice, ins *group, int k) {
    lbuild *b = p->g->b;
    int rows = o->transposed ? gpu_slice_depth(p) * LINE : WARPGROUP_ROWS * LINE;
    ins *at = idx_mulk(b, slice, gpu_slice_words(p, o));
    if (group) at = lb_add(b, at, idx_mulk(b, group, rows));
    at = idx_addk(b, at, k * (o->transposed ? CHUNK * LINE : o->cores ? 2 * LINE : STEP));
    return lb_offset(b, o->shared, at, 4);
}

void gpu_begin_wgmma(product *p, ins *slice) {
    lbuild *b = p->g->b;
    ins *group = p->t.m > WARPGROUP_ROWS ? gpu_divk(b, p->g->thread, WARPGROUP) : NULL;
    // Leading byte offsets: from 64 rows to the next; unused if lines run along K.
    ins *lead[] = {lb_int(b, lt(LK_I32, 1), p->a.transposed ? gpu_slice_depth(p) * LINE * 4 : CHUNK),
                   lb_int(b, lt(LK_I32, 1), p->b.transposed ? gpu_slice_depth(p) * LINE * 4 : CHUNK)};
    gpu_ins multiply = product_of(p->tensor, GPU_WGMMA, WARPGROUP_ROWS, p->t.n);
    multiply.order_a = order_of(&p->a), multiply.order_b = order_of(&p->b);
    lb_gpu(b, product_of(p->tensor, GPU_WGMMA_FENCE, WARPGROUP_ROWS, p->t.n), &p->acc);
    for (int k = 0; k < p->t.words / STEP; k++) {
        ins *args[] = {p->acc, wgmma_operand(p, &p->a, slice, group, k), lead[0],
                       wgmma_operand(p, &p->b, slice, NULL, k), lead[1]};
        lb_gpu(b, multiply, args);
    }
    lb_gpu(b, (gpu_ins){GPU_WGMMA_COMMIT}, NULL);
}

static void wait_wgmma(product *p, int left) {
    gpu_ins wait = product_of(p->tensor, GPU_WGMMA_WAIT, WARPGROUP_ROWS, p->t.n);
    wait.count = left;
    lb_gpu(p->g->b, wait, &p->acc);
}
void gpu_wait_wgmma(product *p) { wait_wgmma(p, p->overlaps); }
void gpu_finish_wgmma(product *p) { wait_wgmma(p, 0); }
