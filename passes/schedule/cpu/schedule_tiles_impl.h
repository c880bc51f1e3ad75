// Shared by the files that schedule matrix tiles (schedule_tiles.c): the loops, and the results of the previous block.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_TILES_IMPL_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_TILES_IMPL_H
#include "ir/loops/loops_tiles.h"
#include "passes/schedule/cpu/contract_tiling.h"
#include "passes/schedule/cpu/tile_parts.h"
#include "passes/schedule/cpu/tile_rows.h"

enum { COLUMNS = TILE_BYTES / TILE_GROUP, WIDTH = 2 * COLUMNS, LEAST_ROWS = 2 };
enum { TILE_A = 4, TILE_B = 6 }; // sums are in 0 to 3: 2 * row of tiles + column

// Rows of a region, begin to end, in blocks of high[0] + high[1] rows; high[1] is NULL if one tile is enough.
typedef struct region {
    ins *begin, *end, *high[2];
    bool overlaps;              // the last block begins earlier
    bool across;                // the second tile is the next position of pair_axis
    ins *pair_begin, *pair_end; // positions of that axis
} region;

typedef struct tiles {
    tiling t;
    tile_parts *parts; // of the operands, NULL: they are stored as tiles take them
    lop product;
    int size, chunk;       // bytes of an element, elements of a step along K
    int64_t steps;         // of K
    row_plan r;            // the second tile of rows has the next position of pair_axis, if there is one
    ins *inside;           // whether a row of that axis is to be written; NULL: all
    ins *config, *scratch; // local memory
    ins *row, *rows_left;  // variables: the next row of the previous block to write, and their end
    ins *old_n, **old;     // variables: its column, its counters by axis
    const region *region;  // current
    ins *skip;             // rows of the block that the one before has written
    bool alternates;       // every other block goes through K backwards
    ins *back;             // whether this one does, NULL: no block
    int columns;           // tiles of columns in a block
    ins *last;             // columns in the last one, NULL: all
    ins *n0;
    int64_t wide;    // columns of all blocks of the same rows that follow each other
    ins *n1, *n_end; // the first of them and their end
    bool simple;     // the epilogue reads nothing for each row
    int64_t lines;   // of the next panels that a step prefetches
    ins *ahead;      // variable: bytes from B to the next such line
    emitter *writer; // with the counters of the previous block
} tiles;

// Elements of the scratch from one tile of columns to the next.
enum { SCRATCH_COLUMN = 2 * TILE_ROWS * COLUMNS };

static inline int accumulator(int row, int column) { return 2 * row + column; }

// schedule_tiles_write.c: results of the previous block. Its sums in a tile go to the scratch.
void store_sums(tiles *x, int row, int column);
// Writes the rows before `end`, as far as there are any; NULL: all.
void write_rows_before(tiles *x, ins *end);
// Writes the next n rows, an even number.
void write_rows(tiles *x, int64_t n);
// Writes those of the first row of tiles, an even number.
void write_first_rows(tiles *x);
#endif
