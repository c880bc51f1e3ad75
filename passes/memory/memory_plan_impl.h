// Shared by the files that place temporaries: the intervals in which they live.
#ifndef ONNXC_PASSES_MEMORY_MEMORY_PLAN_IMPL_H
#define ONNXC_PASSES_MEMORY_MEMORY_PLAN_IMPL_H
#include "ir/kernel/uses.h"
#include "passes/memory/memory_plan.h"

// Another interval, with which this one lives at one step only.
typedef struct relation {
    const struct interval *other;
    const overlap *how;
    bool result; // this one is the result
} relation;

typedef struct interval {
    const buffer *buffer; // or:
    const kernel *kernel; // the kernel whose scratch memory it is
    dim *size, *factor;
    int64_t coef, at; // bytes per unit of the factor
    int pool;         // number; the number of pools: it fits none
    double accesses;  // a rough count
    live_range live;
    struct interval *same; // shares the memory of this one
    VEC(relation) related; // intervals that may overlap it
    int id;
} interval;

typedef struct planner {
    program *p;
    space where;
    int64_t align;
    dim *const *scratch;
    VEC(interval *) intervals;
    interval **of; // by buffer id
    bool *moved;   // by buffer id: heap memory that is moved
    int64_t bounded;
    const uses *uses;
    const overlaps *overlaps;  // NULL: none
    const memory_pools *pools; // NULL: the workspace
    memory_plan plan;
} planner;

// memory_plan.c
interval *memory_of(interval *i); // that whose memory it shares
// pack.c
// How i may overlap the other, NULL: not at all.
const relation *relation_of(const interval *i, const interval *other);
// Whether i may be at that place beside others, some of which it may overlap.
bool interval_fits(const planner *n, const interval *i, int64_t at, interval **others, int count);
// Packs intervals of one factor; returns the size of the area. placed: memory for the list.
int64_t pack_intervals(const planner *n, interval **all, int count, interval **placed);
// pools.c
void place_in_pools(planner *n);
#endif
