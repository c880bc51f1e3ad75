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
#include "ir/graph/int_range.h"

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

// The memory space of a buffer. Kernels access only SPACE_DEVICE if there is a device; without one,
// everything is SPACE_HOST.
typedef enum space {
    SPACE_HOST,   // accessible to host code
    SPACE_DEVICE, // the GPU's
    SPACE_CALLER, // inputs and outputs, in host or device memory as the context says; only copied
} space;

// The physical layout of a buffer. Entry i of `order` is a physical axis, outermost first: logical axis
// `axis` split by `tile` (0: what remains of the axis after its other tiles). Row-major is {0,0},{1,0},... A
// channels-blocked image: {0,0},{1,0},{2,0},{3,0},{1,16}. pad_lo/pad_hi widen a logical axis by a halo of
// `fill`, which the writers of the buffer maintain. Between neighbours along entry `gap_entry` there are `gap`
// unused elements; rows of locals with a gap are written from their beginning to their end, one stage after the other, so that
// vectors may write what is behind the elements of a stage, as far as the gap goes. Memory has room for room[axis] elements of
// an axis; 0: for the elements it has.
// Where the innermost entry is a tile of columns, rows of the last panel of constants have only `last` columns; 0: all.
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
    int64_t room[MAX_RANK];
    int64_t last;
} layout;

struct buffer {
    int id; // dense in the program (locals: in the kernel, from 0)
    const char *name;
    buffer_role role;
    dtype dtype;  // as stored
    bool rounded; // f32 that CPUs with units for it store as bf16 (passes/rewrite/precision.c)
    bool tf32;    // f32 that GPUs round to tf32 where they store it (passes/rewrite/round_operands.c)
    int rank;
    dim **dims;           // logical; dims[-1] is the constant 1, so that rank 0 has a dim too
    const layout *layout; // NULL: row-major, dense
    const constant *data; // BUF_CONST: logical row-major data (packed when written out)
    buffer *fallback;     // BUF_INPUT: constant used when callers pass none; NULL: they must
    buffer *view_of;      // NULL, or the buffer whose memory this one shares, same element order
    int64_t view_offset;  // in elements
    int io;               // BUF_INPUT/OUTPUT: position in the model's inputs/outputs
    const value *value;   // the value that it holds; NULL: the compiler made the buffer
    const type *holds; // BUF_INPUT/OUTPUT: type of a struct onnxc_value (sequence, optional); NULL: a tensor
    const constant *labels; // BUF_OUTPUT: keys of the maps that this table represents; or NULL
    dim *offset;            // BUF_TEMP after planning: byte offset in the workspace
    int pool;               // number of the pool that it is in
    int beyond;             // bytes after its end that kernels may read, whatever they are
    int region;             // program region (loop body) that owns it, 0 main
    space space;
    const buffer *caller; // the input or output whose memory it uses if that is in the right space; or NULL
};

dim *buffer_count(const buffer *b);             // logical elements
dim *buffer_physical_count(const buffer *b);    // elements with tiles and halo, as laid out
dim *buffer_bytes(const buffer *b);             // as stored, sub-byte types packed
dim *layout_extent(const buffer *b, int entry); // of physical axis `entry`; row-major: of that logical axis
dim *layout_stride(const buffer *b, int entry); // elements between neighbours along a physical axis
int64_t layout_gap(const layout *l, int entry); // the unused part of that distance
bool layout_equal(const layout *a, const layout *b);

// The last of the panels that physical axis `entry` counts, with narrower rows than the panels before it. It begins
// `first` elements from the beginning. Elements without meaning follow its last row, so that vectors as wide as a whole
// row may be read.
typedef struct last_panel {
    int entry;
    int64_t number, first, rows, columns, tile;
} last_panel;
last_panel layout_last_panel(const buffer *b); // of a layout that has one

// ---------------------------------------------------------------- scalar expressions
typedef enum expr_op {
#define OP(op, ...) op,
#include "ir/kernel/expr_ops.def"
    X_COUNT
} expr_op;

// Classes of operations.
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

// Of X_CHECK. In `numbered`, \1 is the index that was checked and \2 the size that it must not reach.
typedef struct check_message {
    const char *text, *numbered;
    const loc *loc; // of the node whose check it is; NULL: the kernel's
} check_message;

struct expr {
    expr_op op;
    dtype dtype; // a compute type (dtype_compute); X_READ: of the buffer's dtype
    int id;      // dense in the kernel; operands have smaller ids
    expr *arg[3];
    int axis; // X_AXIS: kernel axis; X_STATE/X_OTHER: component; X_CHECK: message's number in the kernel
    dtype to; // X_ROUND_TO: storage type; X_CAST from float: also the storage type when it is a small float
    bool saturate; // X_ROUND_TO, X_CAST to float8
    uint64_t axes; // kernel axes that it depends on, as bits; bit 63 stands for all from 63 on
    union {
        double f;  // X_CONST of float dtype
        int64_t i; // X_CONST of int or bool dtype (uint64 by two's complement)
        dim *dim;
        const check_message *message; // X_CHECK
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
int expr_operands(const expr *e, expr **out /* MAX_RANK + 3 */); // also index, guard and fill of a read

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
// NULL means true.
static inline expr *x_both(kernel *k, expr *a, expr *b) { return a && b ? x_and(k, a, b) : a ? a : b; }
// Converts between storage types: `to` may be any numeric type; the result has dtype_compute(to) and a value
// that `to` can hold (f32 -> f16 rounds). float -> int truncates, saturates at the limits and gives 0 for NaN
// (ONNX leaves it open); float -> bool is != 0; int -> int wraps.
expr *x_cast(kernel *k, expr *a, dtype to, bool saturate);
expr *x_round_to(kernel *k, expr *a, dtype storage, bool saturate);
expr *x_bitcast(kernel *k, expr *a, dtype to); // of the same width
// buffer[index...], in the compute type of the buffer.
expr *x_read(kernel *k, buffer *b, expr *const *index);
expr *x_read_first(kernel *k, buffer *b); // element 0
// With a guard; fill NULL means 0.
expr *x_read_guarded(kernel *k, buffer *b, expr *const *index, expr *guard, expr *fill);
// The index clamped to [0, extent), after adding extent to negative ones (when wrap), with a check that fails
// the run with `message` if it was outside.
expr *x_checked_index(kernel *k, expr *index, dim *extent, bool wrap, const char *message);
expr *x_checked_position(kernel *k, expr *index, dim *extent, int axis); // on that axis, may be negative
int kernel_message(kernel *k, const char *text, const char *numbered);   // numbered NULL: made of text
int kernel_message_of(kernel *k, const check_message *m); // its number, perhaps of another kernel's message
const char *failure_text(arena *a, const kernel *k, int message); // with the node
// With the node and the placeholders of numbers.
const char *failure_numbered(arena *a, const kernel *k, int message);
// With the node of the location, if there is one.
const char *text_located(arena *a, const loc *at, const char *said);
// \1 and \2 replaced by numbers.
const char *text_numbered(arena *a, const char *text, int64_t first, int64_t second);
// The index that check compares with a size, before it was made positive, and the size; false: check is no such comparison.
bool check_operands(const expr *check, const expr **index, const expr **size);

// e without folding; its id and axes are set.
expr *x_as_written(kernel *k, const expr *e);
expr *x_check(kernel *k, expr *a, expr *holds, int message); // a; the run fails with message where not holds

// index = base + sum of coef[axis] * axis, where base and coef contain no axes and reads. False: not affine.
bool expr_affine(kernel *k, expr *index, expr **base, expr **coef /* naxes */);
// The coefficient of one axis in an index that is linear in this axis; NULL: it is not linear.
expr *expr_slope(kernel *k, expr *index, int axis);
// e with every node replaced by map's result (NULL: rebuilt with mapped operands). e may belong to another
// kernel: the result is built in k.
expr *expr_rewrite(kernel *k, expr *e, expr *(*map)(void *user, expr *e), void *user);
// e rebuilt in k with operands done[id].
expr *expr_rebuild(kernel *k, const expr *e, expr *const *done);
// The distinct nodes under e, operands first, e last.
typedef struct expr_list {
    int n;
    expr **at;
} expr_list;
expr_list expr_nodes(arena *a, expr *e);
expr_list reads_only(expr_list l);               // the reads of l, filtered in place
bool expr_is_multiple(const expr *e, int64_t n); // provably, of an integer
static inline bool expr_is_read(const expr *e) { return e->op == X_READ; }
static inline bool expr_is_state(const expr *e) { return e->op == X_STATE; }
static inline bool expr_is_check(const expr *e) { return e->op == X_CHECK; }
static inline bool expr_reads_or_checks(const expr *e) { return e->op == X_READ || e->op == X_CHECK; }
bool expr_any(expr *e, bool (*is)(const expr *e)); // of the nodes under e
bool expr_uses_axis(const expr *e, int axis);
// Of an int64 (ir/kernel/expr_range.c): the range of its values; whether it, and what it is computed of, is known to fit 32 bits;
// whether it is known that no product or sum in it wraps, as it does not in positions, but may in data of the model.
int_range expr_range(const kernel *k, const expr *e);
bool expr_is_short(const kernel *k, const expr *e);
bool expr_never_wraps(const kernel *k, const expr *e);

// ---------------------------------------------------------------- stages and kernels
typedef enum axis_kind { AXIS_PARALLEL, AXIS_REDUCE, AXIS_SCAN } axis_kind;
typedef struct axis {
    const char *name;
    axis_kind kind;
    dim *extent;
} axis;

// RED_MAX of floats is NaN if an element is; RED_NUMBER_MAX ignores NaN, which saves comparisons where the result cannot show
// the difference, as in a softmax: its sum is NaN.
typedef enum reduce_op {
    RED_SUM,
    RED_PROD,
    RED_MIN,
    RED_MAX,
    RED_NUMBER_MAX,
    RED_AND,
    RED_OR,
    RED_CUSTOM
} reduce_op;
typedef struct state {
    dtype dtype; // compute type
    reduce_op op;
    expr *init; // may read; must not use the stage's reduce axes
    expr *step; // RED_CUSTOM: the new state from X_STATE(i); others: the term combined into the state
    // RED_CUSTOM: from X_STATE(i) and X_OTHER(i), either of which may be initial and then changes nothing; NULL: cannot be
    // split (scan)
    expr *merge;
} state;

typedef enum write_when { WRITE_END, WRITE_BEFORE, WRITE_AFTER } write_when;
typedef enum write_combine { COMBINE_SET, COMBINE_ADD, COMBINE_MUL, COMBINE_MIN, COMBINE_MAX } write_combine;
typedef struct write {
    buffer *to;
    expr **index; // to->rank of them
    // Stored as by x_cast; small floats saturate, except float8, which casts made representable.
    expr *value;
    expr *guard; // NULL: always
    write_when when;
    write_combine combine; // except SET: to[index] = to[index] op value; iterations may collide
} write;

struct stage {
    VEC(int) axes; // the stage's own kernel axes (not the outer ones) in loop order, parallel ones first
    VEC(state) states;
    VEC(write) writes;
};

struct kernel {
    int id; // dense in the program
    arena *arena;
    program *program;
    const char *name; // from the operator and node names
    const loc *loc;
    VEC(const loc *) nodes; // all graph nodes that it implements
    VEC(axis) axes;
    int nouter; // the first nouter axes are parallel and shared by all stages
    VEC(stage *) stages;
    VEC(buffer *) locals;
    VEC(const check_message *) messages; // of X_CHECK
    VEC(expr *) exprs;                   // by id
    map shared;                          // equal expressions
    const buffer *in_place; // operand whose memory its result has (a state): unchanged elements need no write
    bool resident; // its constants stay in a cache from one run to the next (passes/schedule/residency.c)
    const char *algorithm; // chosen rewrite for reports ("direct", "winograd", "flash"), NULL: none
};

kernel *kernel_new(program *p, const char *name, const loc *at);
int kernel_axis(kernel *k, axis_kind kind, const char *name, dim *extent); // returns its number
stage *kernel_stage(kernel *k);                                            // a new, empty stage at the end
void stage_axis(kernel *k, stage *s, int axis);
// Adds an axis to s alone; returns its index.
expr *stage_own_axis(kernel *k, stage *s, axis_kind kind, const char *name, dim *extent);
// Adds a state component and returns the expression that reads it after the loop.
expr *stage_reduce(kernel *k, stage *s, reduce_op op,
                   expr *term);                              // starting from the neutral element
expr *stage_state(kernel *k, stage *s, dtype t, expr *init); // RED_CUSTOM; set step (and merge) with:
void stage_step(stage *s, int component, expr *step, expr *merge);
write *stage_write(kernel *k, stage *s, buffer *to, expr *const *index, expr *value); // WRITE_END, SET
buffer *kernel_local(kernel *k, const char *name, dtype t, int rank, dim *const *dims);
expr *reduce_neutral(kernel *k, reduce_op op, dtype t);
bool state_begins_neutral(const state *s);
// The distinct expressions of the selected parts of the stage, operands first: part by part, states before
// writes.
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
void buffer_list_add(arena *a, buffer_list *l, buffer *b); // unless the list has it
// All buffers that it reads or writes, once each, written ones first, without locals.
int kernel_buffers(const kernel *k, buffer ***out);
bool kernel_writes(const kernel *k, const buffer *b);
bool kernel_only_sets(const kernel *k, const buffer *b); // it never combines with the contents of b
bool stage_reads(const stage *s, const buffer *b);
bool kernel_reads(const kernel *k, const buffer *b);
expr *kernel_only_read(const kernel *k, const buffer *root); // through views; NULL: none or several
// Replaces every root expression of states and writes by map's result.
void kernel_map_roots(kernel *k, expr *(*map)(void *user, expr *root), void *user);
// Applies expr_rewrite to every root.
void kernel_rewrite(kernel *k, expr *(*map)(void *user, expr *e), void *user);
const char *kernel_print(arena *a, const kernel *k);
// The text without names of the model, and with its buffers: equal for kernels that do the same.
const char *kernel_outline(arena *a, const kernel *k);
void kernel_verify(const kernel *k, diag *d);
#endif
