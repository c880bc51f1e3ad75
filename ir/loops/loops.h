// Loops: the low-level IR. Functions are trees of loops and blocks of portable instructions on scalars and
// vectors. Schedules turn kernels into functions, and so does the host code generator for programs; emitters
// know nothing else. Values are structured SSA: an instruction may use what precedes it in its block or an
// enclosing one. Mutable scalars and vectors are variables (L_VAR/L_GET/L_SET).
#ifndef ONNXC_IR_LOOPS_LOOPS_H
#define ONNXC_IR_LOOPS_LOOPS_H
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "ir/graph/dtype.h"

typedef enum lkind {
    LK_VOID,
    LK_I1,
    LK_I8,
    LK_I16,
    LK_I32,
    LK_I64,
    LK_F16,
    LK_BF16,
    LK_F32,
    LK_F64,
    LK_PTR,
} lkind;
typedef struct ltype {
    uint8_t kind;   // lkind; integers have no sign
    uint16_t lanes; // 1: scalar
} ltype;

// Classes of instructions; ir/loops/loops.def lists all.
typedef enum lclass {
    LC_CONST,      // constants
    LC_PLACE,      // parameters, symbols, local memory
    LC_LANES,      // moves lanes
    LC_REDUCE,     // combines all lanes
    LC_ARITHMETIC, // two operands, ints or floats
    LC_MULADD,
    LC_FLOAT,   // two floats
    LC_DIVIDE,  // two ints
    LC_MIN_MAX, // two ints
    LC_BITS,    // two ints
    LC_SHIFT,   // two ints
    LC_SIGN,    // changes the sign bit
    LC_SQRT,
    LC_ROUND, // float to an integral float
    LC_COMPARE,
    LC_SELECT,
    LC_RESIZE,    // int to int
    LC_TO_FLOAT,  // int to float
    LC_TO_INT,    // float to int
    LC_PRECISION, // float to float
    LC_BITCAST,
    LC_DOT,
    LC_BLOCK,   // products of vector registers as matrices: ir/loops/loops_blocks.h
    LC_MEMORY,  // elements at a pointer and an index
    LC_POINTER, // bytes at a pointer
    LC_VARIABLE,
    LC_CONTROL,
    LC_CALL,
    LC_TILE,    // matrix tiles: ir/loops/loops_tiles.h
    LC_THREADS, // threads of a GPU block
    LC_GPU,     // GPU warps and warpgroups: ir/loops/loops_gpu.h
    LC_COMMENT,
} lclass;

typedef enum lop {
#define INS(op, ...) op,
#include "ir/loops/loops.def"
    L_COUNT
} lop;
const char *lop_name(lop op);
lclass lop_class(lop op);
int lop_operands(lop op);            // -1: a list
bool lop_is_pure(lop op);            // leval computes it
bool lop_commutes(lop op);           // on integers
lop lop_across(lop reduce, lkind k); // the two-operand instruction that a reduction repeats

// How a loop may run. GRID and THREAD become the indices of the device; PARALLEL: iterations are independent
// (still serial inside one task).
typedef enum loop_role {
    LOOP_SERIAL,
    LOOP_PARALLEL,
    LOOP_UNROLL,
    LOOP_GRID_X,
    LOOP_GRID_Y,
    LOOP_GRID_Z,
    LOOP_THREAD_X,
    LOOP_THREAD_Y,
    LOOP_THREAD_Z
} loop_role;

typedef struct ins ins;
typedef struct gpu_ins gpu_ins;
typedef struct lblock {
    ins *first, *last;
} lblock;
struct ins {
    lop op;
    ltype type;
    int id;   // dense in the function
    int uses; // number of uses as an operand
    int nargs;
    ins **args;
    int64_t i; // L_CONST; L_OFFSET: scale; L_LOAD: bytes that matter, 0: all ...
    double f;
    const char *name; // symbol, member, or a name for the text forms (loop counters, variables); may be NULL
    const int *mask;  // L_SHUFFLE
    const gpu_ins *gpu;
    lkind elem;  // L_LOCAL; L_OFFSET
    bool shared; // L_LOCAL
    int align; // L_LOAD, L_STORE ...: known alignment in bytes (0: the alignment of one element); L_LOCAL: requested
    loop_role role;
    lblock *body[2];
    ins *next;
};

typedef struct lparam {
    const char *name;
    ltype type;
    lkind elem;        // LK_PTR: what it points to (LK_VOID: unknown bytes)
    dtype dtype;       // of the elements, for the text forms' types (signedness)
    bool is_const;     // the pointee is not written
    bool constant;     // ... by nobody: a constant of the model
    const char *ctype; // C type of a struct pointer ("mnist_in") or number ("size_t"), else NULL
    ins *value;
} lparam;
typedef struct lfunc {
    arena *arena;
    const char *name;
    const struct target *target; // compilation target, which differs between variants of a kernel; never NULL
    const char *comment;         // for text output: node names and pseudo-code, may have several lines
    ltype result;
    VEC(lparam) params;
    lblock *body;             // NULL: declared only
    struct lfunc *original;   // whose body this is (ir/loops/loops_share.h); NULL: its own
    const struct lfunc *runs; // a task of threads: the kernel, all that it calls; else NULL
    bool exported, noalias, strict_fp, kernel;
    bool half_vectors; // of half the width: their lanes are cheaper to reach
    bool ends_tiles;   // what a kernel does with a tile of sums, which it may do by a pointer
    bool arithmetic;   // an operation that the target lacks: what it branches on is data
    int nins;
    int64_t grid[3], threads[3]; // GPU: launch sizes when constant, else 0
    const char *ctype;           // C type of the result ("int", "size_t"), NULL: the type of its kind
    const char *library;         // declared only: runtime-lite's function of that name, NULL: none
} lfunc;

// The base of a pointer: a parameter, a local array or other memory.
static inline const ins *ins_base(const ins *x) {
    while (x->op == L_OFFSET) x = x->args[0];
    return x;
}
// Adds x to a set of instructions, by id; false: the set had it.
static inline bool ins_mark(bool *set, const ins *x) {
    bool fresh = !set[x->id];
    set[x->id] = true;
    return fresh;
}

// Read-only data of the module, at a symbol, or memory. The object writer writes data from their constant, bypassing the
// code generator.
typedef struct ldata {
    const char *name;
    int64_t bytes;
    int align;
    const void *bytes_or_null;                                        // small data
    void (*produce)(void *user, int64_t offset, void *to, int64_t n); // else: produces n bytes from offset
    void *user;
    dtype dtype; // elements, for the C text
    bool exported;
    bool variable;       // memory, which the object reserves and programs write
    const char *section; // of ELF objects and C; NULL: the section of read-only data
} ldata;
void ldata_copy(const ldata *d, int64_t offset, void *to, int64_t n); // n bytes from offset
typedef struct lmodule {
    arena *arena;
    const char *name;
    const struct target *target;
    bool debug_info; // -g
    VEC(lfunc *) funcs;
    VEC(ldata *) data;
    VEC(const char *)
    preamble; // C text: lines before the functions (struct types are in the header)
} lmodule;

// Whether the module's data must be out of reach of 32-bit addresses (.lrodata).
bool data_is_large(const lmodule *m);

lmodule *lmodule_new(arena *a, const char *name, const struct target *t);
lfunc *lfunc_new(lmodule *m, const char *name, ltype result);
ins *lfunc_param(lfunc *f, const char *name, ltype type, lkind elem, dtype dt, bool is_const);
void lfunc_take_param(lfunc *f, lparam p); // of another list of parameters, with its value
void lfunc_drop_param(lfunc *f, int i);    // nothing uses its value
const char *lfunc_print(arena *a, const lfunc *f);
// GPU: dynamic shared memory of the launch in bytes: 0, or all of the function's if it exceeds what a kernel
// may declare or needs larger alignment; and the offset of an L_LOCAL in it.
int64_t lfunc_dynamic_shared(const lfunc *f);
int64_t lfunc_shared_offset(const lfunc *f, const ins *local);
void lfunc_verify(const lfunc *f, diag *d); // types, dominance, structure; violations are defects

ins *lblock_append(lblock *to, ins *x); // returns x
bool lblock_any(const lblock *b,
                bool (*is)(const ins *x)); // whether an instruction is, also in blocks inside
// Moves the instructions of `made` in front of *link, and returns the new place of *link.
ins **lblock_splice(lblock *made, ins **link);
// Takes x, which comes after `before` (NULL: it is the first one), out of the block; b->last stays.
void lblock_drop(lblock *b, ins *before, const ins *x);

// ---------------------------------------------------------------- builder
typedef struct lbuild {
    arena *arena;
    lfunc *f;
    lblock *block;
    const struct target *target;
    diag *diag;
    // Values of elements of this small float type, or truths, are their codes, as stored; DT_NONE: of none.
    dtype codes;
} lbuild;

static inline ltype lt(lkind k, int lanes) { return (ltype){(uint8_t)k, (uint16_t)lanes}; }
static inline ltype lt_ptr(void) { return lt(LK_PTR, 1); }
const char *lkind_name(lkind k); // "i32"
int lkind_bytes(lkind k);        // LK_PTR: 8; LK_I1: 1
int lkind_bits(lkind k);         // LK_I1: 1
bool lkind_is_float(lkind k);
bool lkind_is_int(lkind k);
static inline bool lkind_is_half(lkind k) { return k == LK_F16 || k == LK_BF16; }
int64_t lfor_trips(const ins *x);    // of a loop with constant bounds; -1: not constant
bool lfor_is_unrolled(const ins *x); // by emitters of machine code
int loop_grid_axis(loop_role r);     // 0 to 2 for LOOP_GRID_X to LOOP_GRID_Z, else -1
int loop_thread_axis(loop_role r);   // likewise for LOOP_THREAD_X to LOOP_THREAD_Z
lkind lkind_of(dtype t);             // storage kind: bool, u8, i8, f8 -> I8; packed types -> I8; c64 -> I64
lkind lindex_kind(const struct target *t); // I64, or I32 on 32-bit targets

lbuild lbuild_new(lfunc *f, const struct target *t, diag *d);
ins *lb_int(lbuild *b, ltype t, int64_t v);
ins *lb_float(lbuild *b, ltype t, double v);
ins *lb_idx(lbuild *b, int64_t v); // index kind scalar
static inline ins *lb_int_like(lbuild *b, const ins *like, int64_t v) { return lb_int(b, like->type, v); }
// An f32 in each lane of `like`.
static inline ins *lb_f32_like(lbuild *b, const ins *like, double v) {
    return lb_float(b, lt(LK_F32, like->type.lanes), v);
}
ins *lb_un(lbuild *b, lop op, ins *x);
ins *lb_bin(lbuild *b, lop op, ins *x,
            ins *y); // folds constants and neutral integer operands; splats a scalar operand
ins *lb_cmp(lbuild *b, lop op, ins *x, ins *y);
ins *lb_select(lbuild *b, ins *c, ins *x, ins *y);
ins *lb_muladd(lbuild *b, ins *x, ins *y, ins *z);
ins *lb_conv(lbuild *b, lop op, lkind to, ins *x); // SEXT ... BITCAST to another kind of the same lanes
ins *lb_bitcast(lbuild *b, ltype to, ins *x);
ins *lb_splat(lbuild *b, ins *x, int lanes);
ins *lb_iota(lbuild *b, ltype t);
ins *lb_extract(lbuild *b, ins *x, int lane);
ins *lb_insert(lbuild *b, ins *v, ins *x, int lane);
ins *lb_shuffle(lbuild *b, ins *x, ins *y, const int *mask, int lanes);
ins *lb_permute(lbuild *b, ins *x, ins *at); // lanes of x at the positions `at`
ins *lb_hreduce(lbuild *b, lop op, ins *x);
ins *lb_load(lbuild *b, ltype t, ins *ptr, ins *index, int align);
// Of which only the first `bytes` matter: the others may change at any time, but are in memory.
ins *lb_load_part(lbuild *b, ltype t, ins *ptr, ins *index, int bytes);
ins *lb_loadn(lbuild *b, ltype t, ins *ptr, ins *index, ins *n);
void lb_store(lbuild *b, ins *ptr, ins *index, ins *v, int align);
void lb_storen(lbuild *b, ins *ptr, ins *index, ins *v, ins *n);
ins *lb_gather(lbuild *b, ltype t, ins *ptr, ins *indices);
void lb_scatter(lbuild *b, ins *ptr, ins *indices, ins *v);
void lb_prefetch(lbuild *b, ins *ptr, ins *bytes);
ins *lb_offset(lbuild *b, ins *ptr, ins *index, int64_t scale);
ins *lb_field(lbuild *b, ltype t, ins *ptr, const char *name, int64_t offset);
void lb_setfield(lbuild *b, ins *ptr, const char *name, int64_t offset, ins *v);
ins *lb_local(lbuild *b, lkind elem, int64_t n, int align, bool shared);
ins *lb_symbol(lbuild *b, const char *name);
ins *lb_var(lbuild *b, const char *name, ins *init);
ins *lb_get(lbuild *b, ins *var);
void lb_set(lbuild *b, ins *var, ins *v);
// for (...) { } : ins *i = lb_for(b, ...); body...; lb_end(b, i). Same for if, else, loop.
ins *lb_for(lbuild *b, const char *name, ins *begin, ins *end, ins *step, loop_role role);
ins *lb_if(lbuild *b, ins *cond);
void lb_else(lbuild *b, ins *the_if);
ins *lb_loop(lbuild *b);
void lb_break(lbuild *b, ins *cond);
void lb_end(lbuild *b, ins *opened);
ins *lb_call(lbuild *b, ltype result, const char *name, int nargs, ins *const *args);
void lb_return(lbuild *b, ins *v); // v may be NULL
void lb_comment(lbuild *b, const char *s);
// x and y have any kind of the same total bits and are cast to acc's type, with four bytes (two halves) per
// lane, low first.
ins *lb_dot(lbuild *b, lop op, ins *acc, ins *x, ins *y);
void lb_barrier(lbuild *b);
ins *lb_shfl_xor(lbuild *b, ins *x, int lane_xor);
ins *lb_atomic_add(lbuild *b, ins *ptr, ins *index, ins *v);
ins *lb_null(lbuild *b);
// Any instruction without folding (L_CALLPTR ...); the caller sets .i, .name, .mask.
ins *lb_op(lbuild *b, lop op, ltype type, int nargs, ins *const *args);
#endif
