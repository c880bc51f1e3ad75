// Inside one kernel of the interpreter: expressions over strips of positions, and plans of stages.
#ifndef ONNXC_IR_KERNEL_INTERP_STAGE_H
#define ONNXC_IR_KERNEL_INTERP_STAGE_H
#include "ir/kernel/interp_kernel.h"

enum { STRIP = 1024 };

typedef struct run {
    interp *in;
    const kernel *k;
    arena *arena;
    const stage *s;
    int64_t *extent, *pos; // by axis
    int64_t **lane_at;     // by axis: its position in each lane; NULL: its pos, plus the lane on strip_axis
    int strip_axis;        // -1: none
    int64_t lanes;
    int64_t *offset;             // by lane, of the access at hand
    memory *local;               // by local id
    cell **cells;                // by expression id: STRIP cells
    uint8_t *varies;             // by expression id: differs along the strip
    cell *state[32], *other[32]; // by component: STRIP cells
    int half;                    // of a complex128 element being moved
} run;

typedef struct product product;
typedef struct plan {
    int parallel[MAX_RANK * 4], nparallel;
    int inner[MAX_RANK * 4], ninner; // reduce or scan axes
    bool fold;                       // the strip axis is the last of inner
    int strip_axis;
    uint8_t *varies;
    expr_list init, step, before, after, end;
    product *product; // NULL: position by position
} plan;

static inline cell strip_result(const run *r, const expr *e, int64_t lane) {
    return r->cells[e->id][r->varies[e->id] ? lane : 0];
}
void strip_cells(run *r, const expr_list *c); // memory for them, and which vary
void strip_eval(run *r, const expr_list *c, int64_t n);
void strip_charge(run *r, int64_t work); // stops beyond the limit
void strip_round(run *r, int64_t n);     // the states
void strip_writes(run *r, write_when when, int64_t n);

// A stage that is one large sum of products; NULL: another.
product *product_find(run *r, const plan *p);
void product_run(run *r, const plan *p, product *x);
#endif
