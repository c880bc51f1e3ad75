// Tasks of a kernel, which threads share: positions of an axis, pieces of it, or pairs of positions of two axes.
#ifndef ONNXC_PASSES_SCHEDULE_COMMON_EMIT_TASKS_H
#define ONNXC_PASSES_SCHEDULE_COMMON_EMIT_TASKS_H
#include "ir/graph/dim.h"
#include "ir/loops/loops.h"

typedef struct emitter emitter;
// Makes the positions of an axis the kernel's tasks; its loop then runs over the range passed to the
// function.
void emitter_tasks(emitter *e, int axis, dim *tasks);
// Chooses from axes whose loops are opened in this order: the first one that has at least this number of positions or an open
// one; of a batch, which may have a single sample, and the next axis, the tasks are the pairs of positions. Chunks of `piece`
// positions of axis `chunked` are its tasks, but in pairs only if it is open: loops of known bounds have less code. Where there is no
// other pair, they are pieces of `part` of its positions, if that is not 0 and there are several.
enum { MAX_TASK_AXES = 64 };
typedef struct task_axes {
    int n, axes[MAX_TASK_AXES], least;
    int chunked; // -1: none
    int64_t piece, part;
    int single; // an axis that is not in pairs, -1: none
} task_axes;
void emitter_choose_tasks(emitter *e, const task_axes *a);
// Tasks of which each is a piece of the inner axis at a position of the outer one, whose loop is around it.
void emitter_task_pairs(emitter *e, int outer, int inner, dim *pieces);
// Tasks of `piece` positions of the inner axis or of more, if the last ones are too few for a task: none has fewer unless the axis
// does. outer: the axis around its loop, or -1.
void emitter_task_pieces(emitter *e, int outer, int inner, int64_t piece);
// Tasks of which each is a piece of the inner axis and one of the outer axis. The schedule makes the loop over pieces of the outer
// axis, whose range in this call grid_range tells, and sets task_at to its counter.
void emitter_task_grid(emitter *e, int outer, int inner, dim *outer_pieces, dim *pieces);
void grid_range(emitter *e, ins **begin, ins **end);
// Pairs of pieces of `piece` positions of all axes of the kernel's stages that are marked, which divides their extents.
void emitter_task_columns(emitter *e, int outer, int inner, const bool *columns, int64_t piece);
// A number of positions that may be small and is known only at run time.
bool may_be_single(const dim *n);
// The bounds of the loop over an axis.
void axis_range(emitter *e, int axis, ins **begin, ins **end);
// The same for an axis split into chunks of `piece` positions, each a task.
void piece_range(emitter *e, int axis, int64_t piece, ins **begin, ins **end);
#endif
