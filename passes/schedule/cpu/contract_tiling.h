// Sizes of a contraction's tiles and blocks, from the extents and the target's registers and class of caches.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_TILING_H
#define ONNXC_PASSES_SCHEDULE_CPU_CONTRACT_TILING_H
#include "passes/schedule/cpu/schedule_contract.h"

// A piece of rows comes out even in tiles of 6 and of 14.
enum { MAX_ROWS = 14, MAX_VECTORS = 4, MAX_SIDES = 4, PIECE_ROWS = 42 };

// Blocks around the tiles. Axes m[0 .. m_at) and k[0 .. k_at) are walked outside, one position at a time.
typedef struct block_plan {
    bool on, splits; // splits: K goes in blocks too
    bool nested;     // the axis outside of m_at goes in blocks too: as many positions as the run has room for
    int64_t columns; // in a chunk
    int m_at, k_at;  // positions in m and k of the axes that go in blocks
    int64_t m_step, k_step; // positions of those axes in a block
    int64_t m_inner;        // positions of the axes of M inside of m_at
} block_plan;

typedef struct tiling {
    emitter *e;
    const contraction *c;
    access *a, *b, *write;
    axis_list m, k;           // after joining
    int tile_m;               // M axis that is tiled, -1: none
    int lanes, rows, vectors; // L, MR (of the columns at hand), NV at most
    bool packed;
    expr *side[MAX_SIDES]; // reads of B's factor along N beside the operand: scales, zero points
    int nsides;
    ins *side_value[MAX_SIDES][MAX_VECTORS]; // by vector, NULL: not loaded yet
    int quad;                                // reduce axis that goes in fours (schedule_int8.h), -1: none
    ins *panel_stride;                       // elements from one panel to the next
    expr *row_stride;                        // elements of A from one row to the next
    bool heavy;                              // the epilogue is looped over, not unrolled
    lfunc *finisher;                         // ... in this function, NULL: not made yet
    block_plan block;
    ins *partial;                        // sums of the blocks of K so far: [column / width][row][width]
    ins *m_begin, *m_end;                // of the block's axis of M, NULL: all
    ins *outer_begin, *outer_end;        // of the axis outside of it, where that is nested
    ins *m_middle;                       // where tiles of a row less begin, NULL: not known
    ins *k_begin, *k_end;                // of the block's axis of K, NULL: all
    ins *chunk, *chunk_end;              // its columns
    int prefetch_panels, prefetch_parts; // of B's next tile are prefetched, each by another tile; 0: none
    bool prefetch_done;                  // by the step of K before this one
    ins *prefetch;                       // elements from this tile's position in B to what it prefetches
    ins *further, *last;                 // whether the block of K is not the first, is the last
} tiling;

// One run of the micro-kernel.
typedef struct tile {
    int rows, vectors;
    ins *m0, *n0;
    ins *last; // columns of the last vector, NULL: all
} tile;

// All positions of the axes together, INT64_MAX: not known.
int64_t positions(const kernel *k, const axis_list *l);
// The order of M and K, joined where they can be, and the axis of M that goes in tiles.
void choose_axes(tiling *t);
// The width for which all columns cost least, in vectors.
void choose_tile(tiling *t);
// Rows of the tiles beside so many vectors, balanced: no tiny last tile.
int tile_rows(const tiling *t, int vectors);
// Into how many parts each panel of B's next tile is split, to be prefetched while this one is in use.
void choose_prefetch(tiling *t, int vectors);
// Elements from this tile's place in B to the part that it fetches, NULL: none; and a step of K's share of
// it.
ins *prefetch_offset(tiling *t, const tile *x);
void emit_prefetch(tiling *t, ins *at_b);
// Blocks, where K is long and there are rows enough to use B's panel again.
void choose_blocks(tiling *t);

// What the kernel's threads share out: positions of the batch or of the other outer axes, else columns or
// rows.
void choose_tasks(tiling *t, const axis_list *outer);

// Whether the epilogue is too long to stand once for each vector of a tile.
bool is_heavy_epilogue(const contraction *c);
// Writes f(acc) for the whole tile.
void write_tile(tiling *t, const tile *x, ins **acc);
#endif
