// Products of unpacked columns in pairs of bf16 (--precision=bf16), where a CPU multiplies them faster than f32. In: a
// contraction of f32 whose constant has at most a byte an element and is unpacked for many rows (contract_widen.c). Out: at
// the start of a call, rows[j] = bf16(A[j]); columns are unpacked to pairs of bf16, and
//
//   for k in steps of 2: acc[r][v] = pair(acc[r][v], rows[m0 + r][k, k + 1], wide[k / 2][v])
#include "ir/kernel/program.h"
#include "ir/loops/convert.h"
#include "passes/match/form.h"
#include "passes/schedule/cpu/contract_tiling.h"

enum { BF16_BYTES = 2, LINE = 64 };

static bool rounds_pairs(const target *t, const contraction *c) {
    bool allowed = t->precision == PRECISION_BF16 || t->precision == PRECISION_INT8;
    return t->bf16_pairs && allowed && can_unpack(c) && unpacks_for_rows(t, c) && c->term_a == c->a &&
           dtype_is_float(c->a->buffer->dtype) && dtype_bits(c->a->buffer->dtype) <= 32;
}

static int64_t before_pairs(const target *t, const contraction *c) {
    int64_t n = contraction_scratch(t, c) + widened_bytes(t, c) + digit_bytes(t, c);
    return (n + LINE - 1) / LINE * LINE;
}

dim *pairs_scratch(const target *t, const contraction *c) {
    if (!rounds_pairs(t, c)) return NULL;
    dim *rows = dim_mulk(buffer_physical_count(c->a->buffer), BF16_BYTES);
    return dim_addk(rows, before_pairs(t, c) + (int64_t)target_lanes(t, 32) * BF16_BYTES);
}

bool find_pairs(tiling *t, ins *scratch) {
    int last = t->k.n ? t->k.at[t->k.n - 1] : -1;
    if (!rounds_pairs(t->e->t, t->c) || last < 0 || !unpacks_pairs(t) || !steps_by_one(t->a, last) ||
        !rows_are_compact(t))
        return false;
    t->rounded_rows = lb_offset(&t->e->b, scratch, lb_idx(&t->e->b, before_pairs(t->e->t, t->c)), 1);
    return true;
}

static void round_vector(tiling *t, ins *j, ins *left) {
    lbuild *b = &t->e->b;
    const buffer *a = t->c->a->buffer;
    ins *x = load_lanes(b, a->dtype, pointer_of(t->e, a), lb_add(b, t->rounded_from, j), t->lanes, left);
    ins *code = lb_conv(b, L_ITRUNC, LK_I16, code_of_float(b, DT_BF16, x, false));
    lb_store(b, lb_offset(b, t->rounded_rows, j, BF16_BYTES), lb_idx(b, 0), code, BF16_BYTES);
}

void round_to_pairs(tiling *t) {
    lbuild *b = &t->e->b;
    ins *n = range_of_rows(t, 1, &t->rounded_from), *whole = emit_int_floor(b, n, t->lanes);
    ins *j = lb_for(b, "round", lb_idx(b, 0), whole, lb_idx(b, t->lanes), LOOP_SERIAL);
    round_vector(t, j, NULL);
    lb_end(b, j);
    ins *some = lb_if(b, lb_cmp(b, L_SLT, whole, n));
    round_vector(t, whole, lb_sub(b, n, whole));
    lb_end(b, some);
}

ins *pair_of_factors(lbuild *b, ins *even, ins *odd) {
    ins *low = code_of_float(b, DT_BF16, even, false), *high = code_of_float(b, DT_BF16, odd, false);
    return lb_bin(b, L_OR, low, lb_bin(b, L_SHL, high, lb_int(b, high->type, 16)));
}

void accumulate_pairs(tiling *t, const tile *x, ins **acc, ins *at_a, ins *at_b) {
    lbuild *b = &t->e->b;
    ins *fb[MAX_VECTORS], *row = emit_index(t->e, t->row_stride);
    for (int v = 0; v < x->vectors; v++) fb[v] = load_widened(t, x, at_b, v);
    for (int r = 0; r < x->rows; r++) {
        ins *at = lb_sub(b, lb_add(b, at_a, idx_mulk(b, row, r)), t->rounded_from);
        ins *from = lb_offset(b, t->rounded_rows, at, BF16_BYTES);
        ins *pair = lb_splat(b, lb_load(b, lt(LK_I32, 1), from, lb_idx(b, 0), BF16_BYTES), t->lanes);
        for (int v = 0; v < x->vectors; v++) {
            ins *var = acc[r * x->vectors + v];
            lb_set(b, var, lb_dot(b, L_PAIR_BF16, lb_get(b, var), pair, fb[v]));
        }
    }
}
