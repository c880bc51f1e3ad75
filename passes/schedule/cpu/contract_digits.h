// Products of few rows with weights of at most 8 bits, as sums of bytes (contract_digits.c), and the rows that they take
// (contract_digit_rows.c).
#ifndef ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_DIGITS_H
#define ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_DIGITS_H
#include "passes/schedule/cpu/contract_tiling.h"

enum { DIGITS = 4, BYTE = 8 };

// Whether rows can be split, with their digits after the other parts of the scratch memory (NULL: no).
bool find_digits(tiling *t, ins *scratch);
// Splits the rows of this call; whether there are few enough, and digits represent all of them.
ins *digit_rows_split(tiling *t);
// All columns of these rows.
void digit_rows(tiling *t);

// ---------------------------------------------------------------- rows
static inline int weight_bits(const contraction *c) { return dtype_bits(c->b->buffer->dtype); }
// Elements in a word of B, and words of digits beside it.
static inline int digit_group(const contraction *c) { return WORD_BITS / weight_bits(c); }
static inline int digit_parts(const contraction *c) { return BYTE / weight_bits(c); }
static inline ins *word_const(const tiling *t, int64_t v) {
    return lb_int(&t->e->b, lt(LK_I32, t->lanes), (int32_t)v);
}

int64_t digit_rows_bytes(const target *t, int64_t k); // memory for rows of k elements
// Splits row m, as row number r; returns how many elements digits do not represent (more than rests_room: too many).
ins *split_row(tiling *t, ins *m, ins *r);
int64_t rests_room(const tiling *t);
ins *digits_of_row(const tiling *t, ins *r); // in the order of dot products
ins *digit_offset(const tiling *t, ins *r, ins *segment,
                  int j); // -offset times the sum of a segment's digits j
ins *digit_total(const tiling *t, ins *r, ins *segment, int j); // the sum, as f32
ins *digit_power(const tiling *t, ins *r, ins *segment); // by which a segment's integers are multiplied
ins *digit_rests(const tiling *t, ins *r);               // the number of elements that are listed
ins *digit_rest_at(const tiling *t, ins *r, ins *i);     // the position of one,
ins *digit_rest(const tiling *t, ins *r, ins *i);        // and what its digits leave out
#endif
