// What every schedule uses to turn a kernel's expressions into instructions: buffers as pointers, accesses as
// element offsets, counters of the axes, and values kept until their scope ends.
#ifndef ONNXC_PASSES_SCHEDULE_COMMON_EMIT_H
#define ONNXC_PASSES_SCHEDULE_COMMON_EMIT_H
#include "passes/schedule/common/choices.h"
#include "passes/schedule/common/emit_dim.h"
#include "passes/schedule/common/schedule.h"

// One buffer access as an element offset: base + sum of coef[axis] * axis when affine. Else coef[axis] is
// there for the axes in which the offset is linear, whatever the rest of it depends on.
typedef struct access {
    buffer *buffer;
    expr *offset; // in elements of the physical storage
    bool affine;
    expr *base, **coef; // by kernel axis
    // Where it is not affine, by kernel axis; NULL: not known.
    int64_t *repeats; // c: a sum of floordiv(axis, c) and of what does not use the axis; 0: none
    bool *runs;       // whether it grows by one at most from each position to the next
} access;

// Cached values of expressions that depend on an axis, saved while another counter stands for the axis.
typedef struct saved_values {
    struct emitter *e;
    int axis;
    VEC(struct saved_value) list;
} saved_values;

struct emit_log {
    int id, which;
};

typedef struct emitter {
    kernel *k;
    const target *t;
    const choices *choices; // that are not left to cost models
    lbuild b;
    lmodule *module;
    arena *scratch; // lives as long as the schedule of this kernel
    kernel_code *code;
    ins **pointer;        // by program buffer id
    ins **local;          // by local id: pointer, or variable when rank is 0
    map dim_params;       // dim id -> ins
    dim **extent;         // by axis: as scheduled (collapsed axes have 1)
    ins **counter;        // by axis: now (index kind, lane 0 of the vector axis); NULL outside its loop
    int vaxis, lanes;     // vector axis (-1: none) and its lanes now
    bool whole_steps;     // its counter is a multiple of `lanes`
    ins *active;          // active mask (NULL: all lanes); inactive lanes are undefined and never stored
    ins **state, **other; // by component
    struct emit_entry {
        ins *value, *index, *vindex; // made in a scope that is still open
        access *read;                // X_READ: prepared by emitter_stage
        uint8_t varies;              // along the vector axis: 0 not known yet, 1 no, 2 yes
        bool available;              // as of visit `seen`
        int seen;
    } *entries; // by expression id
    int nentries, epoch;
    VEC(struct emit_log) log;   // values in the order made
    ins *status;                // variable, NULL: kernel has no checks
    int half;                   // of a complex128 element
    ins *task_begin, *task_end; // parameters, NULL: the function does everything
    int task_axis;              // whose positions the tasks are, -1: none
    ins *scratch_param;         // GPU
    dim *scratch_piece;         // GPU: bytes of scratch for one block
    bool shared_locals;         // GPU: rank 0 locals are shared memory
    const stage *stage;         // now
    bool state_varies, variables_vary;
} emitter;

struct emit_entry *entry_of(emitter *e, const expr *x);
saved_values values_save(emitter *e, expr *what, int axis);
void values_restore(saved_values *a);
emitter *emitter_new(lmodule *m, kernel *k, const target *t, diag *d, kernel_code *code);
// Parameters for buffers, dims, scratch, tasks and status, in kernel_code's order. own_scratch: bytes that
// the schedule itself wants (NULL: none); returns the pointer to them.
ins *emitter_signature(emitter *e, bool tasks, dim *own_scratch);
// The positions of an axis become the kernel's tasks; its loop then runs over the range that the function
// got.
void emitter_tasks(emitter *e, int axis, dim *tasks);
// Where the loop over the axis begins and ends.
void axis_range(emitter *e, int axis, ins **begin, ins **end);
// The same for an axis that is walked in pieces of `piece` positions, each a task.
void piece_range(emitter *e, int axis, int64_t piece, ins **begin, ins **end);
// On a GPU: the same parameters, but locals are made inside of the block by emitter_block_locals: shared
// while they fit, else in scratch, one piece for each block.
void emitter_signature_gpu(emitter *e, bool locals); // whether there will be any
void emitter_status(emitter *e);                     // a variable of this scope (thread) for failed checks
void emitter_block_locals(emitter *e, ins *block);
void emitter_finish(emitter *e); // stores the status
// Prepares a stage: accesses of its reads, what varies along axis v.
void emitter_stage(emitter *e, const stage *s, int vaxis, int lanes, bool state_varies);
access *access_make(emitter *e, buffer *b, expr *const *index);
// Joins neighbouring axes of order[0..n) (outermost first, of one kind) whose accesses allow it; returns the
// new n.
int collapse_axes(emitter *e, access *const *writes, int *order, int n);

// Whether it is a scalar of the kernel's own, which has no address.
bool emit_is_variable(const emitter *e, const buffer *b);
ins *pointer_of(emitter *e, const buffer *b);      // parameter or local
void use_value(emitter *e, const expr *x, ins *v); // x is v until the scope closes
ins *emit_value(emitter *e, expr *x);              // scalar where x does not vary along the vector axis
ins *emit_vector(emitter *e, expr *x);             // always `lanes` lanes
ins *emit_index(emitter *e, expr *x);              // int64 expression as index-kind scalar for lane 0
ins *emit_dim(emitter *e, dim *d);                 // index kind
// value NULL: w->value is made here (inside of the guard).
void emit_write(emitter *e, const write *w, access *to, ins *value);
// Hoists the loop-invariant parts of x (index arithmetic and safe reads) out of loops that are opened later.
void emit_hoist(emitter *e, expr *x);
bool emit_is_invariant(emitter *e, expr *x); // a scalar that is loop-invariant in them
void emit_hoist_stage(emitter *e, const stage *s, access *const *writes); // of everything in the stage
// old combined with term as the reduction says; one more state, in the same type.
ins *emit_reduce(emitter *e, reduce_op op, dtype t, ins *old, ins *term);
// All lanes of v reduced to one.
ins *emit_horizontal(emitter *e, reduce_op op, dtype t, ins *v);
// A scope of cached values, and the loop or branch that it is the body of. Closing it drops the values cached since
// it was opened, and ends the loop or branch.
typedef struct scope {
    ins *head; // NULL: straight-line code
    int axis;  // whose counter the loop is, -1: none
    int mark;
} scope;
scope scope_open(emitter *e);
scope scope_if(emitter *e, ins *condition); // NULL: always
scope scope_else(emitter *e, scope s);
scope scope_for(emitter *e, const char *name, ins *begin, ins *end, int64_t step, loop_role role);
scope scope_axis(emitter *e, int axis, ins *begin, ins *end, int64_t step, loop_role role);
void scope_close(emitter *e, scope s);
// The partial last vector of an axis, positions begin to end, if there are any: lanes past the end are inactive.
scope open_partial_vector(emitter *e, int axis, ins *begin, ins *end);
void close_partial_vector(emitter *e, scope s);
#endif
