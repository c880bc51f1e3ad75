// Kernels: what is computed. A kernel is a list of stages over axes; each stage reads buffers through
// index expressions, may carry a state over its reduce or scan axes, and writes. The unscheduled
// kernel is the meaning of everything built from it.
//
//   for o in outer axes (shared by all stages):
//     stage:  for p in the stage's own parallel axes:
//               state = init
//               for r in reduce axes (any order) | scan axes (in order):
//                 [writes BEFORE]  state = step(state)  [writes AFTER]
//               writes END
#ifndef ONNXC_IR_KERNEL_KERNEL_H
#define ONNXC_IR_KERNEL_KERNEL_H
#include "ir/graph/graph.h"

typedef struct buffer buffer;
typedef struct kernel kernel;
typedef struct stage stage;
typedef struct expr expr;
typedef struct program program; // ir/kernel/program.h

// ---------------------------------------------------------------- buffers
typedef enum buffer_role {
    BUF_INPUT,  // caller's memory, read only
    BUF_OUTPUT, // caller's memory
    BUF_CONST,  // data of a constant
    BUF_TEMP,   // size known from dims at entry: planned in the workspace
    BUF_HEAP,   // size known only during the run: allocated and freed by program steps
    BUF_LOCAL,  // inside one kernel, one instance per iteration of the outer axes
} buffer_role;

// Whose memory it lies in. Kernels touch SPACE_DEVICE only where there is a device; without one all is
// SPACE_HOST.
typedef enum space {
    SPACE_HOST,   // what host code can touch
    SPACE_DEVICE, // the GPU's
    SPACE_CALLER, // inputs and outputs: the host's or the GPU's, as the context says; touched by copies only
} space;

// How a buffer lies in memory. Entry i of `order` is one physical axis, outermost first: logical axis
// `axis` split by `tile` (0: what remains of that axis after its other entries took their tiles).
// Row-major is order = {0,0},{1,0},... A channels-blocked image: {0,0},{1,0},{2,0},{3,0},{1,16}.
// pad_lo/pad_hi widen a logical axis by a halo that holds `fill` (writers of the buffer keep it filled).
// Neighbours in entry `gap_entry` lie `gap` elements further apart than what is inside of them; nobody reads
// these.
typedef struct layout {
    int n;
    struct layout_entry {
        int axis;
        int64_t tile;
    } order[2 * MAX_RANK];
    int64_t pad_lo[MAX_RANK], pad_hi[MAX_RANK];
    double fill;
    int gap_entry;
    int64_t gap;
} layout;

struct buffer {
    int id; // dense in the program (locals: in the kernel, from 0)
    const char *name;
    buffer_role role;
    dtype dtype; // as stored
    int rank;
    dim **dims;           // logical; dims[-1] is the constant 1, so that rank 0 has a dim too
    const layout *layout; // NULL: row-major, dense
    const constant *data; // BUF_CONST: logical row-major data (packed when written out)
    buffer *fallback;     // BUF_INPUT: the constant that stands for it when callers give none, or NULL
    buffer *view_of;      // NULL, or the buffer whose memory this one shares, same element order
    int64_t view_offset;  // in elements
    int io;               // BUF_INPUT/OUTPUT: position in the model's inputs/outputs
    const value *value;   // that it holds, NULL for compiler-made ones
    const type *holds; // BUF_INPUT/OUTPUT: a struct onnxc_value with a sequence or optional; NULL: a tensor
    const constant *labels; // BUF_OUTPUT: a table that stands for maps with these keys; or NULL
    dim *offset;            // BUF_TEMP after planning: byte offset in the workspace
    int region;             // program region (loop body) that owns it, 0 main
    space space;
    const buffer *caller; // the input or output that it may be, where that lies in the right place; or NULL
};

dim *buffer_count(const buffer *b);             // logical elements
dim *buffer_physical_count(const buffer *b);    // elements with tiles and halo, as laid out
dim *buffer_bytes(const buffer *b);             // of the storage, sub-byte types packed
dim *layout_extent(const buffer *b, int entry); // of physical axis `entry` (row-major: of that logical axis)
dim *layout_stride(const buffer *b, int entry); // elements between neighbours in an entry of b's layout
int64_t layout_gap(const layout *l, int entry); // of these, what lies behind all that is inside
bool layout_equal(const layout *a, const layout *b);

// ---------------------------------------------------------------- scalar expressions
typedef enum expr_op {
#define OP(op, ...) op,
#include "ir/kernel/expr_ops.def"
    X_COUNT
} expr_op;

// What operations have in common.
typedef enum expr_class {
    XC_LEAF,
    XC_CONVERT,
    XC_ARITHMETIC, // of ints and floats
    XC_INTEGER,    // of ints alone
    XC_BITS,       // of ints and bool
    XC_FUNCTION,   // of floats
    XC_ROUND,
    XC_TEST,    // of one operand, bool result
    XC_COMPARE, // of two
    XC_SELECT,
    XC_CHECK,
} expr_class;

struct expr {
    expr_op op;
    dtype dtype; // a compute type (dtype_compute); X_READ: of the buffer's dtype
    int id;      // dense in the kernel; operands have smaller ids
    expr *arg[3];
    int axis; // X_AXIS: kernel axis; X_STATE/X_OTHER: component; X_CHECK: message
    dtype to; // X_ROUND_TO: storage type; X_CAST from float: also the storage type when it is a small float
    bool saturate; // X_ROUND_TO, X_CAST to float8
    uint64_t axes; // kernel axes that it depends on, by bit; bit 63: one from 63 on
    union {
        double f;  // X_CONST of float dtype
        int64_t i; // X_CONST of int or bool dtype (uint64 by two's complement)
        dim *dim;
        struct {
            buffer *buffer;
            expr **index; // buffer->rank int64 expressions; must be in range wherever guard holds
            expr *guard;  // bool, NULL: always
            expr *fill;   // value where the guard is false (buffer's compute type)
        };
    };
};
const char *expr_op_name(expr_op op);
const char *expr_op_infix(expr_op op); // "+", or NULL
expr_class expr_op_class(expr_op op);
int expr_arity(expr_op op);
int expr_op_cost(expr_op op);                                    // in simple operations
int expr_operands(const expr *e, expr **out /* MAX_RANK + 3 */); // with indices, guard and fill of a read

// Constructors fold constants, drop neutral elements (x+0, x*1 for ints; for floats only what is exact
// for every value) and share equal nodes within the kernel.
expr *x_float(kernel *k, dtype t, double v);
expr *x_int(kernel *k, dtype t, int64_t v);
static inline expr *x_i64(kernel *k, int64_t v) { return x_int(k, DT_I64, v); }
expr *x_zero(kernel *k, dtype t);             // of a compute type
expr *x_number(kernel *k, dtype t, double v); // float, int or bool by t
expr *x_axis(kernel *k, int axis);
expr *x_dim(kernel *k, dim *d);
expr *x_state(kernel *k, int component, dtype t);
expr *x_other(kernel *k, int component, dtype t);
expr *x_un(kernel *k, expr_op op, expr *a);
expr *x_bin(kernel *k, expr_op op, expr *a, expr *b); // operands of one dtype; comparisons give bool
expr *x_select(kernel *k, expr *c, expr *a, expr *b);
static inline expr *x_add(kernel *k, expr *a, expr *b) { return x_bin(k, X_ADD, a, b); }
static inline expr *x_sub(kernel *k, expr *a, expr *b) { return x_bin(k, X_SUB, a, b); }
static inline expr *x_mul(kernel *k, expr *a, expr *b) { return x_bin(k, X_MUL, a, b); }
static inline expr *x_div(kernel *k, expr *a, expr *b) { return x_bin(k, X_DIV, a, b); }
static inline expr *x_lt(kernel *k, expr *a, expr *b) { return x_bin(k, X_LT, a, b); }
static inline expr *x_and(kernel *k, expr *a, expr *b) { return x_bin(k, X_AND, a, b); }
// From storage meaning to storage meaning: `to` may be any numeric dtype; the result has dtype_compute(to)
// and a value that `to` can hold (f32 -> f16 rounds). float -> int truncates toward zero, out of range
// saturates to the type's limits and NaN gives 0 (ONNX leaves it open); float -> bool is != 0; int -> int
// wraps.
expr *x_cast(kernel *k, expr *a, dtype to, bool saturate);
expr *x_round_to(kernel *k, expr *a, dtype storage, bool saturate);
expr *x_bitcast(kernel *k, expr *a, dtype to); // of the same width
// buffer[index...]; reading needs no cast: the result is in the buffer's compute type.
expr *x_read(kernel *k, buffer *b, expr *const *index);
expr *x_read_first(kernel *k, buffer *b); // element 0
// Same with a guard; fill NULL means 0.
expr *x_read_guarded(kernel *k, buffer *b, expr *const *index, expr *guard, expr *fill);
// Index clamped to [0, extent) after adding extent to negative ones (when wrap), with a check that fails the
// run with `message` when it was outside.
expr *x_checked_index(kernel *k, expr *index, dim *extent, bool wrap, const char *message);

// e as it is, nothing folded; its id and axes are set.
expr *x_as_written(kernel *k, const expr *e);
expr *x_check(kernel *k, expr *a, expr *holds, int message); // a; the run fails with message where not holds

// index = base + sum of coef[axis] * axis with coefs and base free of axes and reads. False when not affine.
bool expr_affine(kernel *k, expr *index, expr **base, expr **coef /* naxes */);
// The coefficient of one axis in an index that is linear in it, whatever else it depends on; NULL when it is
// not.
expr *expr_slope(kernel *k, expr *index, int axis);
// e with every node replaced by map's answer (NULL: rebuild with mapped operands). Works across kernels:
// nodes of the result are made in k.
expr *expr_rewrite(kernel *k, expr *e, expr *(*map)(void *user, expr *e), void *user);
// e as a node of k with done[id] for each operand.
expr *expr_rebuild(kernel *k, const expr *e, expr *const *done);
// The distinct nodes under e, operands first, e last.
typedef struct expr_list {
    int n;
    expr **at;
} expr_list;
expr_list expr_nodes(arena *a, expr *e);
expr_list reads_only(expr_list l);                 // those of l that read, in its place
bool expr_any(expr *e, bool (*is)(const expr *e)); // of the nodes under e
bool expr_uses_axis(const expr *e, int axis);

// ---------------------------------------------------------------- stages and kernels
typedef enum axis_kind { AXIS_PARALLEL, AXIS_REDUCE, AXIS_SCAN } axis_kind;
typedef struct axis {
    const char *name;
    axis_kind kind;
    dim *extent;
} axis;

typedef enum reduce_op { RED_SUM, RED_PROD, RED_MIN, RED_MAX, RED_AND, RED_OR, RED_CUSTOM } reduce_op;
typedef struct state {
    dtype dtype; // compute type
    reduce_op op;
    expr *init;  // may read; must not use the stage's reduce axes
    expr *step;  // RED_CUSTOM: the new state from X_STATE(i); others: the term combined into the state
    expr *merge; // RED_CUSTOM: of X_STATE(i) and X_OTHER(i); NULL: cannot be split (scan)
} state;

typedef enum write_when { WRITE_END, WRITE_BEFORE, WRITE_AFTER } write_when;
typedef enum write_combine { COMBINE_SET, COMBINE_ADD, COMBINE_MUL, COMBINE_MIN, COMBINE_MAX } write_combine;
typedef struct write {
    buffer *to;
    expr **index; // to->rank of them
    expr *value;  // converted to the buffer's storage type when stored (x_cast semantics; small floats but
                  // float8, which casts have made representable, saturate)
    expr *guard;  // NULL: always
    write_when when;
    write_combine combine; // other than SET: to[index] = to[index] op value; iterations may collide
} write;

struct stage {
    VEC(int) axes; // the stage's own kernel axes (not the outer ones), parallel ones first, in loop order
    VEC(state) states;
    VEC(write) writes;
};

struct kernel {
    int id; // dense in the program
    arena *arena;
    program *program;
    const char *name; // from the operator and node names
    const loc *loc;
    VEC(const loc *) nodes; // all graph nodes it came from
    VEC(axis) axes;
    int nouter; // the first nouter axes are parallel and shared by all stages
    VEC(stage *) stages;
    VEC(buffer *) locals;
    VEC(const char *) messages; // of X_CHECK
    VEC(expr *) exprs;          // by id
    map shared;                 // equal expressions
    const char *algorithm;      // chosen rewrite for reports ("direct", "winograd", "flash"), NULL: none
};

kernel *kernel_new(program *p, const char *name, const loc *at);
int kernel_axis(kernel *k, axis_kind kind, const char *name, dim *extent); // returns its number
stage *kernel_stage(kernel *k);                                            // a new, empty stage at the end
void stage_axis(kernel *k, stage *s, int axis);
// A new axis that belongs to s alone, as the index on it.
expr *stage_own_axis(kernel *k, stage *s, axis_kind kind, const char *name, dim *extent);
// Adds a state component and returns the expression that reads it after the loop.
expr *stage_reduce(kernel *k, stage *s, reduce_op op,
                   expr *term);                              // init is the neutral element of term's dtype
expr *stage_state(kernel *k, stage *s, dtype t, expr *init); // RED_CUSTOM; set step (and merge) with:
void stage_step(stage *s, int component, expr *step, expr *merge);
write *stage_write(kernel *k, stage *s, buffer *to, expr *const *index, expr *value); // WRITE_END, SET
buffer *kernel_local(kernel *k, const char *name, dtype t, int rank, dim *const *dims);
expr *reduce_neutral(kernel *k, reduce_op op, dtype t);
bool state_begins_neutral(const state *s);
// The distinct expressions of the stage's parts, operands first: part by part, states before writes.
enum stage_part {
    PART_INIT = 1,
    PART_STEP = 2,
    PART_MERGE = 4,
    PART_INDEX = 8, // of writes
    PART_VALUE = 16,
    PART_GUARD = 32, // of writes
    PART_STATES = PART_INIT | PART_STEP | PART_MERGE,
    PART_WRITES = PART_INDEX | PART_VALUE | PART_GUARD,
    PART_ALL = PART_STATES | PART_WRITES,
};
expr_list stage_nodes(arena *a, const stage *s, unsigned parts);
expr_list kernel_nodes(arena *a, const kernel *k, unsigned parts);
bool stage_any(const stage *s, bool (*is)(const expr *e)); // of all its expressions
typedef VEC(buffer *) buffer_list;
void buffer_list_add(arena *a, buffer_list *l, buffer *b); // unless it is there
// All buffers it reads or writes, each once, writes first (locals left out).
int kernel_buffers(const kernel *k, buffer ***out);
bool kernel_writes(const kernel *k, const buffer *b);
bool kernel_only_sets(const kernel *k, const buffer *b); // adds nothing to what b holds
bool stage_reads(const stage *s, const buffer *b);
bool kernel_reads(const kernel *k, const buffer *b);
expr *kernel_only_read(const kernel *k, const buffer *root); // of its memory; NULL: none, or several
// Replaces every expression of states and writes that is no operand of another by map's answer.
void kernel_map_roots(kernel *k, expr *(*map)(void *user, expr *root), void *user);
// Every expression of the kernel as expr_rewrite makes it.
void kernel_rewrite(kernel *k, expr *(*map)(void *user, expr *e), void *user);
const char *kernel_print(arena *a, const kernel *k);
// The same without the names that a model gives, and with its buffers: the same for kernels that do the same.
const char *kernel_outline(arena *a, const kernel *k);
void kernel_verify(const kernel *k, diag *d);
#endif
