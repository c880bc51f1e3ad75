// Which positions are the rows of matrix tiles, and how many of them a tile has.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_TILE_ROWS_H
#define ONNXC_PASSES_SCHEDULE_CPU_TILE_ROWS_H
#include "passes/schedule/cpu/contract_tiling.h"

// Rows of n positions.
typedef struct row_plan {
    int pair_axis; // outside of t->tile_m, if that fills one tile at most; -1: none
    int64_t pitch; // of its positions in those of tile_m, if both are one axis of an image; 0: they are not
    int rows;      // of a full block of two tiles
} row_plan;

// Tasks are chosen before image_pitch is asked.
int pair_axis_of(const tiling *t);
int64_t image_pitch(const tiling *t, int pair_axis);

// From the first to the last one, with those between the rows of the image.
int64_t image_positions(const tiling *t, int pair_axis, int64_t pitch);

// Equal tiles: as few blocks as possible, of as few rows as that takes.
int balanced_rows(int64_t n);

// Blocks of rows that are multiplied by the same columns.
int64_t row_blocks(const tiling *t, const row_plan *r);
#endif
