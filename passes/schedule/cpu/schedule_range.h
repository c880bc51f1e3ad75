// Loops over the positions for which a condition may hold.
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_RANGE_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_RANGE_H
#include "passes/schedule/common/nest.h"

// Rows of an axis without a loop.
typedef struct row_block {
    int axis;
    ins *first, *last;
} row_block;

// Narrows begin and end of a loop over `axis` to the positions for which the condition may hold, for any of the rows.
// Operands that are compared with the position use axes whose loops are open, and that of the rows (NULL: none).
void range_of_condition(emitter *e, expr *condition, int axis, const row_block *rows, ins **begin, ins **end);
#endif
