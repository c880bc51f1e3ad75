// B's factor in contractions: vectors of its columns, and panels of them that are unpacked once for all rows.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_FACTOR_H
#define ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_FACTOR_H
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"

typedef struct tiling tiling; // contract_tiling.h
typedef struct tile tile;

// Vector v of an expression, given the value of a part of it, such as B's read; NULL: none.
ins *emit_column(tiling *t, const tile *x, int v, expr *what, const expr *part, ins *value);
// B's factor at an element of column vector v.
ins *factor_b(tiling *t, const tile *x, ins *at, int v);
// An element of A in all lanes, where products of bytes are those of 16 bits.
ins *byte_of_a(tiling *t, ins *at);
// Sides: B's other reads along N. Loads those that are invariant in the remaining loops; returns which, for the end of
// the current loop.
void find_sides(tiling *t);
unsigned load_sides(tiling *t, const tile *x);
void forget_sides(tiling *t, unsigned which);

// Receives the factors of n neighbours along K in column vector v. `place`: the first one's position, times PANEL.
typedef struct factor_store {
    void (*store)(void *user, ins *place, int v, ins *const *factors, int n);
    void *user;
} factor_store;

// Whether B is a packed constant of at most a byte whose factors of f32 can be unpacked.
bool can_unpack(const contraction *c);
bool unpacks_pairs(const tiling *t); // an even number of neighbours at a time
// Unpacks a tile's columns at all positions of the current block of K; returns the first one's element of B.
ins *unpack_columns(tiling *t, const tile *x, const factor_store *to);
#endif
