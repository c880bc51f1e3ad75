// How often the blocks of a module's functions run, if that follows from constants.
#ifndef ONNXC_IR_LOOPS_LOOPS_COUNT_H
#define ONNXC_IR_LOOPS_LOOPS_COUNT_H
#include "ir/loops/loops.h"

// The number of a block; the body of the function is 0.
static inline int lblock_number(const ins *owner, int which) { return 1 + 2 * owner->id + which; }

typedef struct counted_block {
    const lfunc *kernel; // in whose call it runs; NULL: in none
    const lfunc *f;      // whose body has the block
    int block;
    double times; // on average, of each copy that an emitter makes of it
} counted_block;

// Calls `visit` for the blocks that a call of `entry` runs, possibly several times for the same one. Of conditions that
// depend on data, each branch is taken half of the time, and one that returns is never taken. False: trip counts depend on
// data, or counting takes too long.
bool loops_count(arena *scratch, const lmodule *m, const lfunc *entry,
                 void (*visit)(void *user, const counted_block *b), void *user);
#endif
