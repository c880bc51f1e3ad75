// Shared by all schedules to turn a kernel's expressions into instructions: buffers as pointers, accesses as
// element offsets, counters of the axes, and a cache of values that are valid in the open scopes.
#ifndef ONNXC_PASSES_SCHEDULE_COMMON_EMIT_H
#define ONNXC_PASSES_SCHEDULE_COMMON_EMIT_H
#include "passes/match/form.h"
#include "passes/schedule/common/choices.h"
#include "passes/schedule/common/emit_dim.h"
#include "passes/schedule/common/emit_tasks.h"
#include "passes/schedule/common/schedule.h"

// A buffer access as an element offset: base + sum of coef[axis] * axis if affine. Otherwise coef[axis] is
// set for the axes in which the offset is linear; the rest of it may depend on anything.
typedef struct access {
    buffer *buffer;
    expr *offset;       // in elements of the physical storage
    expr *const *index; // logical; NULL: not as the offset is
    bool affine;
    expr *base, **coef; // by kernel axis
    // If not affine, by kernel axis; NULL: unknown.
    int64_t *repeats; // c: floordiv(axis, c) plus terms that do not use the axis; 0: another form
    bool *runs;       // whether it grows by at most one per position
} access;

// Whether it moves by one element per position of the axis.
static inline bool steps_by_one(const access *a, int axis) {
    return a->coef[axis] && expr_is_int(a->coef[axis], 1);
}
// The distance of its elements along the axis if whole vectors contain several of them, else 0.
int access_stride(const access *a, int axis);

// Cached values of expressions that depend on an axis, saved while another counter stands for the axis.
typedef struct saved_values {
    struct emitter *e;
    int axis;
    VEC(struct saved_value) list;
} saved_values;

struct emit_log {
    int id, which;
};

struct requantisers {
    map list; // passes/schedule/common/requantise.c
};

typedef struct emitter {
    kernel *k;
    const target *t;
    const choices *choices; // overrides of the cost models
    lbuild b;
    lmodule *module;
    struct requantisers *requantisers; // by id of the expression, shared by copies of the emitter
    arena *scratch;                    // lives as long as the schedule of this kernel
    kernel_code *code;
    ins **pointer;  // by program buffer id
    ins **local;    // by local id: pointer, or variable if rank is 0
    map dim_params; // dim id -> ins
    map dim_scales; // dim id -> the factor by which the parameter is larger than the dim
    dim **extent;   // by axis: as scheduled (collapsed axes have 1)
    ins **counter; // by axis: current value (index kind, lane 0 of the vector axis); NULL outside of its loop
    int vaxis, lanes;     // current vector axis (-1: none) and its lanes
    bool whole_steps;     // the counter of vaxis is a multiple of `lanes`
    ins *active;          // number of active lanes (NULL: all); inactive lanes are undefined and never stored
    ins **state, **other; // by component
    struct emit_entry {
        ins *value, *index, *vindex; // cached while their scope is open
        ins *narrow;                 // the same: an index per lane as i32, modulo 2^32
        access *read;                // X_READ: set by emitter_stage
        expr *guard;    // X_READ: in a part of the vector axis, in place of its own one; NULL: that
        uint8_t varies; // along the vector axis: 0 not known yet, 1 no, 2 yes
        bool hoistable; // as of visit `seen`
        int seen;
    } *entries; // by expression id
    int nentries, visit;
    VEC(struct emit_log) log;   // values in the order made
    ins *status, *status_param; // variable and parameter, NULL: kernel has no checks
    int half;                   // of a complex128 element
    ins *task_begin, *task_end; // parameters, NULL: the function runs everything
    int task_axis;              // axis whose positions are the tasks, -1: none
    int task_outer;             // ... at each position of this axis, -1: none
    dim *task_pieces;           // tasks at each of those positions
    ins *task_at;               // in a grid: the piece of task_outer in whose loop this is
    const bool *task_columns;   // by axis: whether those tasks are pieces of it, too; NULL: of none
    int64_t task_piece; // positions in them, or in pieces of task_axis; 0: the loops know their number
    ins *scratch_param; // GPU
    dim *scratch_piece; // GPU: scratch bytes per block
    bool shared_locals; // GPU: rank 0 locals are shared memory
    const stage *stage; // now
    bool state_varies, variables_vary;
    int row_axis,
        row_lanes; // number of rows of the axis that arrays among the locals hold side by side; 0: one row
} emitter;

struct emit_entry *entry_of(emitter *e, const expr *x);
expr *guard_of(emitter *e, const expr *x); // the condition under which an element is read, NULL: always
saved_values values_save(emitter *e, expr *what, int axis);
void values_restore(saved_values *a);
emitter *emitter_new(lmodule *m, kernel *k, const target *t, diag *d, kernel_code *code);
// Adds parameters for buffers, dims, scratch, tasks and status, in kernel_code's order. own_scratch: bytes
// for the schedule itself (NULL: none); returns the pointer to them.
ins *emitter_signature(emitter *e, bool tasks, dim *own_scratch);
void emitter_dims(emitter *e);      // parameters for sizes (emit_params.c)
void emitter_drop_dims(emitter *e); // those without uses
// On a GPU: the same parameters; locals are created within the block by emitter_block_locals: in shared
// memory while they fit, else in scratch memory per block.
void emitter_signature_gpu(emitter *e, bool locals); // locals: whether there are any
// A copy without open loops, whose axes are collapsed on their own.
emitter emitter_apart(const emitter *e);
void emitter_status(emitter *e); // a variable of this thread for failed checks
void emitter_block_locals(emitter *e, ins *block);
void emitter_finish(emitter *e); // stores the status, drops unused parameters
void emitter_store_status(emitter *e);
// The small float type whose elements the stage only moves; DT_NONE: none.
dtype emit_moved(emitter *e, const stage *s);
// Prepares a stage: accesses of its reads, and which values vary along vaxis.
void emitter_stage(emitter *e, const stage *s, int vaxis, int lanes, bool state_varies);
access *access_make(emitter *e, buffer *b, expr *const *index);
// The same elements as `a` wherever its offset is the given one.
access *access_at(emitter *e, const access *a, expr *offset);
// Collapses adjacent axes of order[0..n) (outermost first, of one kind) if all accesses allow it; returns the
// new n.
int collapse_axes(emitter *e, access *const *writes, int *order, int n);

// Whether b is a scalar local, which has no address.
bool emit_is_variable(const emitter *e, const buffer *b);
// Whether what is behind an active lane of a vector along the vector axis, `span` elements in all, is memory of the buffer that may
// be read and written: a row of a local, or the gap behind it.
bool emit_has_gap(const emitter *e, const access *a, int span);
ins *pointer_of(emitter *e, const buffer *b);      // parameter or local
void use_value(emitter *e, const expr *x, ins *v); // x has value v until the scope closes
ins *emit_value(emitter *e, expr *x);              // a scalar if x is uniform along the vector axis
ins *emit_vector(emitter *e, expr *x);             // always `lanes` lanes
ins *emit_index(emitter *e, expr *x);              // int64 expression as index-kind scalar for lane 0
ins *emit_indices(emitter *e, expr *x);            // of all lanes
ins *emit_dim(emitter *e, dim *d);                 // index kind
bool emit_varies(emitter *e, const expr *x);       // along the vector axis
ins *emit_active_indices(emitter *e, ins *at);     // 0 for inactive lanes
ins *emit_cache(emitter *e, const expr *x, int which, ins *v); // v, valid until the scope closes: 3: narrow
ins *splat_to(emitter *e, ins *v, bool vector);
ins *load_access(emitter *e, access *a, bool vector);
ins *load_guarded(emitter *e, expr *x, access *a,
                  bool vector);                  // the fill value where x's guard does not hold
ins *emit_position_compare(emitter *e, expr *x); // NULL: no comparison of the lanes' positions
// The elements at indices of 32 bits; NULL: the indices are not known to fit.
ins *emit_narrow_gather(emitter *e, const access *a);
// The elements at a stride along the vector axis that access_stride knows; NULL: another access.
ins *emit_strided(emitter *e, const access *a);
// Whether gathers of the read use indices of 32 bits, if lanes are positions of that axis, or states.
bool emit_gathers_narrow(emitter *e, const expr *x, int axis);
// Vectors of a cast from i64 to a float, by way of 32 bits; NULL: another form, or its range is not known to fit.
ins *emit_small_as_float(emitter *e, const expr *x);
// value NULL: w->value is computed here, inside the guard.
void emit_write(emitter *e, const write *w, access *to, ins *value);
// The value as writes to `to` store it: rounded, if it is stored as tf32.
ins *emit_stored(emitter *e, const buffer *to, ins *v);
// Hoists the loop-invariant parts of x (index arithmetic and safe reads) out of loops that are opened later.
void emit_hoist(emitter *e, expr *x);
bool emit_is_invariant(emitter *e, expr *x); // a scalar that is loop-invariant in them
void emit_hoist_stage(emitter *e, const stage *s, access *const *writes); // of all expressions of the stage
// `lanes` elements; n: only the first n of them, NULL: all.
ins *load_lanes(lbuild *b, dtype t, ins *p, ins *at, int lanes, ins *n);
// old combined with term by the reduction.
ins *emit_reduce(emitter *e, reduce_op op, dtype t, ins *old, ins *term);
// All lanes of v reduced to one.
ins *emit_horizontal(emitter *e, reduce_op op, dtype t, ins *v);
// A scope of cached values, and the loop or branch whose body it is. Closing it drops the values cached since
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
scope scope_parallel(emitter *e, int axis); // over axis_range
void scope_close(emitter *e, scope s);
// The partial last vector of an axis, positions begin to end, if there are any: lanes past the end are
// inactive.
scope open_partial_vector(emitter *e, int axis, ins *begin, ins *end);
void close_partial_vector(emitter *e, scope s);
#endif
