// One stage as a loop nest: what the CPU's loops and the GPU's grids share.
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
    bool masked;    // the rest of the vector axis runs under a mask, else one by one
    bool by_row;    // the vector axis is one of the kernel's outer axes, whose loop is open
    bool piecewise; // sums go in pieces
    ins **vars;     // of states
    // A window (schedule_window.c): positions of waxis (-1: none) are taken `tile` at a time, `positions` in
    // the loop that is being built; the inner axes from `unrolled` on have no loops.
    int waxis, tile, positions, unrolled;
    ins *base; // position 0 of those at once
} nest;

// The stage's axes and accesses; alone: it is the kernel's only stage, its outer axes count as its own.
nest *nest_new(emitter *e, const stage *s, bool alone);
// Its loops, with what they hold; the axis of vectors is chosen.
void nest_loops(nest *n);
// All of it: finds its schedule.
void nest_stage(emitter *e, const stage *s, bool alone);
// How much the axis promises as the one of vectors; 0: it may not be. *lanes is set where it may.
int nest_vector_score(nest *n, int axis, bool reduce, int *lanes);
// Whether different positions may be different tasks: they share no byte and combine no element.
bool nest_writes_apart(const stage *s);
// Whether what is left of whole vectors may run under a mask.
bool nest_masks(const nest *n);
// How many vectors of its axis should go through one step together, since they share scalar work.
int vectors_at_once(const nest *n);
// Where the loop over an inner axis begins and ends: over what the reduction takes at all.
void nest_range(nest *n, int axis, ins **begin, ins **end);
// Everything for one position of the parallel axes, whose counters are set: states, reduce loops, writes.
void nest_point(nest *n);
// Its parts: variables for the states at their initial values; one step; writes of a kind.
void nest_init(nest *n);
void nest_step(nest *n);
void nest_write(nest *n, write_when when);
// Whether the nest is a window, and the code of n->positions positions of it.
void window_choose(nest *n);
void window_point(nest *n);
// The kernel's states as they are now become what expressions see.
void nest_use_states(nest *n);
#endif
