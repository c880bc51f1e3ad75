// Products of f16 and bf16 values by tiles of bf16, from operands as they are stored for vectors. An f16 value is
// exactly the sum of two bf16, high and low, so a product of two is three products of tiles with f32 sums:
//
//   a * b = high(a) * low(b) + high(a) * high(b) + low(a) * high(b)      without low * low, at most 2^-16 of it
//
// The parts of A are made once per call, those of B's panels before the rows that use them, in scratch memory:
// one packing of constants thus serves all CPU levels. Infinities and NaN have no such parts, so a call that finds some
// in A runs the schedule for vectors instead, and constants with some do so always.
//
// With --precision=bf16 the operands may also be rounded: A of f32, and B of a byte or less with its scales
// (contract_factor.h). Each is one part then. Calls with few rows leave B packed and run the schedule for vectors.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_TILE_PARTS_H
#define ONNXC_PASSES_SCHEDULE_CPU_TILE_PARTS_H
#include "passes/match/contract.h"
#include "passes/schedule/common/emit.h"

typedef struct tiling tiling; // contract_tiling.h

enum { MOST_PARTS = 2, MARK_BYTES = 64 }; // the parts lie after the mark
typedef struct tile_parts {
    int a, b;         // parts of each operand: 1 if its values are bf16
    bool rest;        // A's values have more bits than their parts
    bool rounds;      // B is unpacked, and both are rounded: one part each
    tiling *unpacked; // then how B is, with a separate emitter
    bool in_blocks;   // A's part is in the blocks of rows of the schedule: [block][K / 32][rows][32]
    ins *mark;        // what the parts of A in scratch memory are (a mark_of_parts), NULL: not made yet
    ins *first_row, *end_row, *rows; // then those of this call, and those of a block
    ins *row;                        // that where the current block begins if none overlaps another
    bool apart;                      // a pair is positions k and k + 16 of 32, else neighbours
    int64_t depth;                   // elements of K
    ins *plane_a[MOST_PARTS], *from; // parts of A's elements from number `from` on
    ins *plane_b[MOST_PARTS];        // parts of two panels
    ins *first_column, *column;      // of the panels; of the one that is unpacked, from there
    ins *source[2], *next;           // the panels, and a variable: their next row of pairs
    int panels;
} tile_parts;

// NULL: the target has no tiles for these operands, or they do not pay. All else is set by the functions below.
tile_parts *tile_parts_find(arena *scratch, const target *t, const contraction *c);
dim *tile_parts_scratch(const tile_parts *p, const contraction *c); // bytes
// Sets `unpacked` of rounded operands; false: B's panels have another form.
bool find_unpacked_parts(tile_parts *p, const emitter *e, const contraction *c);
// Whether the accesses allow them, after choose_axes. Of rounded operands, K then is one axis.
bool tile_parts_fit(tile_parts *p, tiling *t);
// The rows of this call; those of a block, `full` if there are at least `rows` in all (schedule_tiles.c).
void find_part_rows(tile_parts *p, tiling *t);
void find_part_blocks(tile_parts *p, tiling *t, int rows, ins *full);
// Makes the parts of the rows of this call; their blocks must be known. The result holds if they have any and there are enough rows; NULL: always.
ins *split_rows(tile_parts *p, tiling *t, ins *scratch);
// Tasks share out the columns evenly.
int64_t columns_of_rounded_task(const contraction *c);
int64_t parts_columns(const tile_parts *p); // whose parts are there at a time
// Begins the panels from column n0 to `end`, in blocks of this number: makes the parts of their first `chunk` positions
// of K, or of all. Later calls make those of the next rows of pairs, if there are any; they divide half a chunk. last:
// columns of the last one, NULL: all.
void begin_panels(tile_parts *p, tiling *t, ins *n0, ins *end, int panels, ins *last, int chunk);
void split_next_pairs(tile_parts *p, tiling *t, int rows);
// Where the tiles of part j begin, at the current counters, and the bytes from one row to the next.
ins *part_of_rows(const tile_parts *p, tiling *t, int j);
ins *stride_of_rows(const tile_parts *p, tiling *t);
ins *part_of_panel(const tile_parts *p, tiling *t, int j, ins *n0, int panel);

// The products of a step: product j is that of A's part part_a[j] and B's part part_b[j].
typedef struct part_products {
    int n, part_a[3], part_b[3];
} part_products;
part_products products_of_parts(const tile_parts *p);
#endif
