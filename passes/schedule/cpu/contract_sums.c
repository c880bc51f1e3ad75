// Sums of a tile beside those of its elements. Where there are few, steps of K take turns with several of each element, since
// a multiply-add takes longer than the next one needs to begin:
//
//   for k, u < sets: acc[u][r][v] += a[r] * b[k + u][v]
//   acc[r][v] = acc[0][r][v] + acc[1][r][v] + ...
//
// And where factors of B are invariant in a block of K, such as scales, they multiply the sums of the block:
//
//   for block: part = 0, for k in block: part[r][v] += a[r] * (b[k][v] - zero[v]), acc[r][v] += part[r][v] * scale[v]
#include "ir/loops/convert.h"
#include "passes/schedule/cpu/contract_tiling.h"

// Whether there are registers for this number of sums of each element, the sum of all blocks, and B's factors.
static bool has_room(const tiling *t, const tile *x, int sets) {
    return (sets + 1) * x->rows * x->vectors + 2 * x->vectors + 2 <= t->e->t->vector_regs;
}

// Steps of the innermost loop over K.
static int64_t steps_of_k(const tiling *t) {
    const dim *k = t->k.n ? t->e->extent[t->k.at[t->k.n - 1]] : NULL;
    if (t->k_begin && t->block.k_at == t->k.n - 1) return t->block.k_step;
    return !k ? 0 : dim_is_const(k) ? dim_value(k) : INT64_MAX;
}

// Few sums would wait for each other: a multiply-add takes longer than the next one needs to begin.
int sets_of(const tiling *t, const tile *x) {
    enum { ENOUGH = 8, MOST = 4, LEAST_STEPS = 8 };
    int sums = x->rows * x->vectors, sets = 1;
    int64_t turns = steps_of_k(t) / LEAST_STEPS;
    if (t->c->s->states.at[0].dtype == DT_I32 || t->lanes == 1 || t->group_axis >= 0 || t->bytes ||
        t->rounded_rows || t->e->t->fp == FP_STRICT || is_microcontroller(t->e->t) || !unrolls_k(t))
        return 1;
    while (2 * sets <= MOST && 2 * sets <= turns && 2 * sets * sums <= ENOUGH && has_room(t, x, 2 * sets))
        sets *= 2;
    return sets;
}

ins *sum_of_sets(tiling *t, ins *const *acc, int sums, int j) {
    lbuild *b = &t->e->b;
    ins *sum = lb_get(b, acc[j]);
    for (int i = 1; i < t->sets; i++) sum = lb_add(b, sum, lb_get(b, acc[i * sums + j]));
    return sum;
}

// ---------------------------------------------------------------- blocks
bool has_room_for_block(const tiling *t, const tile *x) { return has_room(t, x, t->sets); }
bool has_room_for_steps(const tiling *t, const tile *x) { return has_room(t, x, 0); }

void begin_block_sums(tiling *t, const tile *x, ins **part) {
    lbuild *b = &t->e->b;
    ins *zero = emit_zero(b, lt(compute_kind(t->c->s->states.at[0].dtype), t->lanes));
    for (int j = 0; j < t->sets * x->rows * x->vectors; j++) part[j] = lb_var(b, "block", zero);
}

void end_block_sums(tiling *t, const tile *x, ins **acc, ins *const *part) {
    lbuild *b = &t->e->b;
    int sums = x->rows * x->vectors;
    for (int v = 0; v < x->vectors; v++) {
        ins *scale = emit_column(t, x, v, t->word.scale, NULL, NULL);
        for (int j = v; j < sums; j += x->vectors)
            lb_set(b, acc[j], emit_muladd(b, sum_of_sets(t, part, sums, j), scale, lb_get(b, acc[j])));
    }
}

bool sums_blocks(const tiling *t, const tile *x) {
    enum { LEAST = 8 };
    const dim *block = t->e->extent[t->k.at[t->k.n - 1]];
    return t->word.scale && !t->words && !t->is_wide && !t->unpacks && t->k.n > 1 && dim_is_const(block) &&
           dim_value(block) >= LEAST && has_room_for_block(t, x);
}
