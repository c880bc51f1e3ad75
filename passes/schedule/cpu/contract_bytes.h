// Products of constants of 2 or 4 bits with rows that are rounded to bytes, where --precision=int8 allows it.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_BYTES_H
#define ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_BYTES_H
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"

typedef struct tiling tiling; // contract_tiling.h
typedef struct tile tile;

// How the words of B are multiplied by bytes.
typedef struct byte_rows {
    expr *scale, *zero; // of a block, NULL: 1; the constant `offset`
    int64_t offset;     // subtracted from the unsigned elements, besides `zero`
    bool is_signed;     // elements have a sign bit
    int64_t block;      // neighbours along K that share a scale
    ins *from;          // A's first element
    ins *bytes, *scales,
        *sums; // by element; by block: as f32, or with a constant zero point -offset times them as i32
} byte_rows;

// Bytes of scratch memory; NULL: rows are not rounded.
dim *byte_rows_scratch(const target *t, const contraction *c);
// Whether the accesses allow it, after choose_axes: then sets t->bytes.
bool find_byte_rows(tiling *t, ins *scratch);
void round_to_bytes(tiling *t); // the rows of this call
// Adds the products of a block of K.
void add_byte_block(tiling *t, const tile *x, ins **acc, ins *start_b);
#endif
