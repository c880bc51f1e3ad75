// The schedule of kernels of several stages (softmax, normalizations, cumulative sums).
#ifndef ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_ROWS_H
#define ONNXC_PASSES_SCHEDULE_CPU_SCHEDULE_ROWS_H
#include "passes/schedule/common/emit.h"

// All stages for each position of the outer axes, or for a vector of positions. The choice comes before emitter_signature, which
// makes arrays of rows as large as it takes.
typedef struct row_vectors row_vectors;
row_vectors *rows_choose(emitter *e);
void schedule_rows(row_vectors *r);
// The same in two parts, for kernels with an alternative schedule: makes the first outer axis with several
// positions the tasks; emits all stages for each position.
void rows_choose_tasks(emitter *e, int single);
// task_columns.c: false, and nothing chosen, if the kernel has no such columns.
bool share_columns(emitter *e);
void schedule_rows_one_by_one(emitter *e);
#endif
