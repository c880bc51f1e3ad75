// One stage as a loop nest, for the loops of CPUs and the grids of GPUs.
#ifndef ONNXC_PASSES_SCHEDULE_COMMON_NEST_H
#define ONNXC_PASSES_SCHEDULE_COMMON_NEST_H
#include "passes/schedule/common/emit.h"

typedef struct nest {
    emitter *e;
    const stage *s;
    access **writes; // by write
    int parallel[64], nparallel;
    int inner[64], ninner; // reduce and scan axes
    int vaxis, lanes;      // vaxis may be the last of parallel or the last of inner
    bool reduce_vector;
    int sums;       // of a reduction along the vector axis: states side by side
    bool masked;    // the tail of the vector axis is masked, else scalar
    bool overlaps;  // ... or a whole vector, which writes some elements again
    bool by_row;    // the vector axis is an outer axis of the kernel, whose loop is open
    bool scatters;  // ... and its vectors may be scattered
    bool piecewise; // blocked summation
    int apart;  // states side by side in each lane, between which the steps of the last inner axis alternate
    ins **vars; // of states
    // A window (schedule_window.c): `tile` positions of waxis (-1: none) at a time, `positions` in the loop
    // under construction; the inner axes from `unrolled` on are unrolled completely.
    int waxis, tile, positions, unrolled;
    ins *base;    // first position of the tile
    bool narrows; // guards of windows bound their loops, however near the windows are
    const expr
        *guarded; // the read whose guard is the part of it that the bounds of loops do not imply; NULL: none
} nest;

// The stage's axes and accesses; alone: it is the kernel's only stage, whose outer axes count as its own.
nest *nest_new(emitter *e, const stage *s, bool alone);
// The loops and their bodies; the vector axis is chosen already.
void nest_loops(nest *n);
// The whole stage: chooses its vector axis, which is `lanes` if that is not -1, and its loops.
void nest_stage(emitter *e, const stage *s, bool alone, int lanes);
// The predicted benefit of vectorising the axis; 0: illegal. *lanes is set if legal.
int nest_vector_score(nest *n, int axis, bool reduce, int *lanes);
// Whether different positions may be in different tasks: they share no byte and combine no element.
bool nest_writes_disjoint(const stage *s);
// Whether the tail of the vector axis may be masked.
bool nest_masks(const nest *n);
// The number of vectors per loop body that share scalar work (unroll-and-jam).
int vectors_at_once(const nest *n);
// Whether the inner loop iterates on its states until they settle, and by reads at positions that they say
// (schedule_walk.c), the number of vectors that do so side by side,
// and the loop.
bool nest_iterates(const nest *n);
bool nest_walks(const nest *n);
int walk_vectors(const nest *n);
void iterate(nest *n);
// The bounds of the loop over an inner axis, narrowed to the positions that contribute to the reduction.
void nest_range(nest *n, int axis, ins **begin, ins **end);
// After the loops: reads have their guards again.
void nest_leave_ranges(nest *n);
// The bounds of the loop over a parallel axis, narrowed to the positions that a kernel whose result has the memory
// of an operand changes.
void nest_update_range(nest *n, int axis, ins **begin, ins **end);
// The body for one position of the parallel axes, whose counters are set: states, reduce loops, writes.
void nest_point(nest *n);
// Its parts: the reduction, to the end; initialised variables of the states; one step; writes of a kind.
void nest_reduce(nest *n);
void nest_init(nest *n);
void nest_step(nest *n);
void nest_write(nest *n, write_when when);
// How the loop over the last inner axis reduces (schedule_sums.c), and that loop.
void nest_choose_sums(nest *n);
void nest_sum(nest *n);
// The initial value of a state, and its next one after a step.
ins *nest_initial(nest *n, const state *st, int lanes);
ins *nest_next_state(nest *n, const state *st, ins *old);
// Loops over an axis, with what is invariant in them hoisted; the second one over all of it, within nest_range or
// nest_update_range.
scope nest_open_loop(nest *n, int axis, ins *begin, ins *end, int64_t step, loop_role role);
scope nest_open_axis(nest *n, int axis, loop_role role);
// The body where the vector axis is the last reduce axis (schedule_reduce.c): states, loops, writes.
void nest_point_reduced(nest *n);
// Chooses positions of a parallel axis that are reduced together, in tiles of waxis.
void reduce_choose(nest *n);
void nest_move_last(int *axes, int n, int axis); // the axis becomes the last of them
// into := the states of into and from as one; the states of all lanes as one.
void nest_merge(nest *n, ins **into, ins *const *from);
void nest_merge_lanes(nest *n, ins **acc);
// Whether the nest is a window, and the code for n->positions positions of it.
void window_choose(nest *n);
void window_point(nest *n);
enum { NEST_GRAIN = 4096 }; // positions of the vector axis per task
// The body for one position, or one tile of a window's axis.
void nest_any_point(nest *n);
// Whether vectors may write elements twice.
bool nest_writes_twice(const nest *n);
// The loops over the parallel axis that runs in vectors (schedule_vector.c).
void nest_vector_axis(nest *n);
// Parts of the vector axis of a nest that only copies and maps, in each of which positions of reads are linear
// (schedule_parts.c).
enum { NEST_PARTS = 8 };
typedef struct nest_parts {
    int n;
    int64_t begin[NEST_PARTS + 1]; // of the part, and the end of the last one
    expr_list reads;               // reads that are not linear along the whole axis, or not of all of it
    access **whole;                // their accesses
} nest_parts;
// False: the axis is better left whole.
bool nest_parts_find(const nest *n, int axis, nest_parts *p);
// Reads move as they do in the part, until the nest enters another one or leaves them.
void nest_part_enter(nest *n, const nest_parts *p, int part);
void nest_parts_leave(nest *n, const expr_list *reads, access *const *whole);
// The longest part of a vector axis of open size, if reads move one by one there; where it begins and ends.
typedef struct nest_run {
    int nfrom, nto;
    expr *from[NEST_PARTS],
        *to[NEST_PARTS]; // from all of the former to any of the latter, which do not depend on the position
    expr_list reads;
    access **whole;
    expr **offset, **guard; // in the part
} nest_run;
bool nest_run_find(const nest *n, int axis, nest_run *r);
void nest_run_enter(nest *n, const nest_run *r); // left as parts are
// Makes the current states visible to expressions.
void nest_use_states(nest *n);
#endif
