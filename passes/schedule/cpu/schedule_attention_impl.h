// What the two forms of schedule_attention.c share: blocks of f32 (that file) and of matrix tiles.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_ATTENTION_IMPL_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_ATTENTION_IMPL_H
#include "ir/loops/loops_tiles.h"
#include "passes/schedule/cpu/schedule_attention.h"

enum { FLASH_ROWS = 2 * TILE_ROWS }; // queries in a block

typedef struct flash {
    emitter *e;
    const attention *a;
    lbuild *b;
    ltype vec;
    int64_t depth, width, padded;                          // d, E, E rounded up to whole vectors
    ins *keys, *values, *query, *scores, *acc, *top, *sum; // scratch
    ins *rows, *nj;                                        // rows of this block; number of keys
    access *out;
} flash;

static inline ins *flash_loop(flash *f, const char *name, ins *begin, ins *end, int64_t step) {
    return lb_for(f->b, name, begin, end, lb_idx(f->b, step), LOOP_SERIAL);
}

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
