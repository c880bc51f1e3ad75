// What the two forms of schedule_attention.c share: blocks of f32 (that file), in bf16 too, and of matrix
// tiles.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_ATTENTION_IMPL_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_ATTENTION_IMPL_H
#include "ir/loops/loops_tiles.h"
#include "ir/loops/math.h"
#include "passes/schedule/cpu/schedule_attention.h"
#include "passes/schedule/cpu/schedule_range.h"

// Queries in a block; keys of vectors; most elements of a query or value.
enum { FLASH_ROWS = 2 * TILE_ROWS, FLASH_KEYS = 64, FLASH_COLUMNS = 512 };

typedef struct flash {
    emitter *e;
    const attention *a;
    lbuild *b;
    ltype vec;
    int64_t depth, width, padded;                          // d, E, E rounded up to whole vectors
    ins *keys, *values, *query, *scores, *acc, *top, *sum; // scratch
    ins *rows, *nj;                                        // rows of this block; number of keys
    ins *stored;                                           // keys for which tiles have room
    int packed_at;                                         // keys and values are packed outside of this axis
    access *out;
    bool few;   // few rows, without blocks
    int shared; // of few rows: the axis of query heads with the same keys and values, -1: none
} flash;

static inline ins *flash_loop(flash *f, const char *name, ins *begin, ins *end, int64_t step) {
    return lb_for(f->b, name, begin, end, lb_idx(f->b, step), LOOP_SERIAL);
}

// ---------------------------------------------------------------- products of blocks in vector registers
bool attention_has_blocks(const attention *a, const target *t);
void attention_blocks_pack(flash *f);                // keys and values of a head
void attention_blocks_pack_query(flash *f, ins *i0); // f->rows queries
void attention_blocks_scores(flash *f, ins *j0);     // of f->rows queries and a block of keys
void attention_blocks_store_weights(flash *f, ins *row, ins *column, ins *weights);
void attention_blocks_values(flash *f, ins *j0, ins *n); // adds n weighted values
ins *flash_first_lanes(flash *f, ins *n);                // whether a lane is one of the first n
// Elements column .. column + lanes of x along its axis as f32, those past `left` of them 0.
ins *flash_elements(flash *f, const stage *s, expr *x, int axis, int64_t column, int64_t left);
// Narrows a range of keys to those that the scores of these rows, or of the current one (NULL), do not exclude.
void flash_key_range(flash *f, const row_block *rows, ins **begin, ins **end);

// ---------------------------------------------------------------- few rows
bool attention_reads_rows(const attention *a);  // keys and values in place, unpacked
dim *attention_few_scratch(const attention *a); // bytes
void attention_few_begin(flash *f, ins *scratch);
void attention_few_row(flash *f, ins *i); // acc, top and sum of a query, of all heads that share keys
// A loop over these heads, in which acc, top and sum are those of one.
typedef struct attention_head {
    flash all;
    scope loop;
} attention_head;
attention_head attention_head_begin(flash *f);
void attention_head_end(flash *f, attention_head h);

// ---------------------------------------------------------------- matrix tiles
bool attention_has_tiles(const attention *a, const target *t);
dim *attention_tiles_scratch(const attention *a); // bytes
void attention_tiles_begin(flash *f, ins *scratch);
void attention_tiles_pack(flash *f);          // keys and values of a head
void attention_tiles_rows(flash *f, ins *i0); // acc, top and sum of f->rows queries
ins *attention_tiles_sum(flash *f, ins *row); // of its weights
ins *attention_tiles_top(flash *f, ins *row); // its largest score
void attention_tiles_end(flash *f);
#endif
