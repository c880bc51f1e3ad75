// Loops: how it is computed. Functions are trees of loops and blocks that hold portable instructions on
// scalars and vectors. Kernels (by the schedules) and host code (from the program) both become functions;
// emitters know nothing else. Values are structured SSA: an instruction may use what precedes it in its block
// or an enclosing one. Mutable scalars and vectors are variables (L_VAR/L_GET/L_SET).
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

// X(enumerator, text name, operands (-1: list)). "same": operands and result have one type.
#define LOOP_OPS(X)                                                                                          \
    X(L_CONST, "const", 0)     /* .i or .f, the same in all lanes */                                         \
    X(L_PARAM, "param", 0)     /* number .i of the function */                                               \
    X(L_SYMBOL, "symbol", 0)   /* address of global or function .name; LK_PTR */                             \
    X(L_NULL, "null", 0)       /* null pointer */                                                            \
    X(L_SPLAT, "splat", 1)     /* scalar to all lanes */                                                     \
    X(L_IOTA, "iota", 0)       /* 0, 1, 2 ... */                                                             \
    X(L_EXTRACT, "extract", 1) /* lane .i */                                                                 \
    X(L_INSERT, "insert", 2)   /* vector, scalar into lane .i */                                             \
    X(L_SHUFFLE, "shuffle", 2) /* lanes .mask[0..lanes) of the concatenation of both */                      \
    X(L_HADD, "hadd", 1)       /* lanes to one: sum (ints wrap; floats pairwise, any order) */               \
    X(L_HMUL, "hmul", 1)                                                                                     \
    X(L_HSMIN, "hsmin", 1) /* signed ints; floats like L_FMIN */                                             \
    X(L_HSMAX, "hsmax", 1)                                                                                   \
    X(L_HUMIN, "humin", 1)                                                                                   \
    X(L_HUMAX, "humax", 1)                                                                                   \
    X(L_HOR, "hor", 1)                                                                                       \
    X(L_HAND, "hand", 1)                                                                                     \
    X(L_ADD, "add", 2) /* ints wrap; same */                                                                 \
    X(L_SUB, "sub", 2)                                                                                       \
    X(L_MUL, "mul", 2)                                                                                       \
    X(L_MULADD, "muladd", 3) /* float a * b + c, fused where the target has it and fp is not strict */       \
    X(L_FMA, "fma", 3)       /* float a * b + c rounded once, only where target->fma */                      \
    X(L_FDIV, "fdiv", 2)                                                                                     \
    X(L_SDIV, "sdiv", 2) /* divisor known non-zero, no MIN / -1 */                                           \
    X(L_UDIV, "udiv", 2)                                                                                     \
    X(L_SREM, "srem", 2)                                                                                     \
    X(L_UREM, "urem", 2)                                                                                     \
    X(L_SMIN, "smin", 2)                                                                                     \
    X(L_SMAX, "smax", 2)                                                                                     \
    X(L_UMIN, "umin", 2)                                                                                     \
    X(L_UMAX, "umax", 2)                                                                                     \
    X(L_FMIN, "fmin", 2) /* a < b ? a : b (b when either is NaN) */                                          \
    X(L_FMAX, "fmax", 2) /* a > b ? a : b */                                                                 \
    X(L_AND, "and", 2)                                                                                       \
    X(L_OR, "or", 2)                                                                                         \
    X(L_XOR, "xor", 2)                                                                                       \
    X(L_SHL, "shl", 2) /* count < width */                                                                   \
    X(L_LSHR, "lshr", 2)                                                                                     \
    X(L_ASHR, "ashr", 2)                                                                                     \
    X(L_FNEG, "fneg", 1)                                                                                     \
    X(L_FABS, "fabs", 1)                                                                                     \
    X(L_SQRT, "sqrt", 1)                                                                                     \
    X(L_FLOOR, "floor", 1) /* FLOOR..RINT: f32, f64 */                                                       \
    X(L_CEIL, "ceil", 1)                                                                                     \
    X(L_TRUNC, "trunc", 1)                                                                                   \
    X(L_RINT, "rint", 1) /* halves to even */                                                                \
    X(L_EQ, "eq", 2)     /* comparisons: ints and floats (ordered: false on NaN), I1 result */               \
    X(L_NE, "ne", 2)     /* floats: unordered or different */                                                \
    X(L_SLT, "slt", 2)   /* signed ints and floats */                                                        \
    X(L_SLE, "sle", 2)                                                                                       \
    X(L_ULT, "ult", 2)                                                                                       \
    X(L_ULE, "ule", 2)                                                                                       \
    X(L_SELECT, "select", 3) /* I1 (scalar or lanes) ? b : c */                                              \
    X(L_SEXT, "sext", 1)     /* integer to wider integer; I1 gives 0 / -1 */                                 \
    X(L_ZEXT, "zext", 1)                                                                                     \
    X(L_ITRUNC, "itrunc", 1) /* to narrower integer */                                                       \
    X(L_SITOF, "sitof", 1)                                                                                   \
    X(L_UITOF, "uitof", 1)                                                                                   \
    X(L_FTOSI, "ftosi", 1) /* toward zero; operand known in range */                                         \
    X(L_FTOUI, "ftoui", 1)                                                                                   \
    X(L_FEXT, "fext", 1)         /* F16, BF16, F32 to wider float */                                         \
    X(L_FTRUNC, "ftrunc", 1)     /* to narrower float, nearest even */                                       \
    X(L_BITCAST, "bitcast", 1)   /* same total bits */                                                       \
    X(L_LOAD, "load", 2)         /* pointer, index (in elements of the result's kind); consecutive lanes */  \
    X(L_LOADN, "loadn", 3)       /* pointer, index, n: the first n lanes, the others 0 and not touched */    \
    X(L_STORE, "store", 3)       /* pointer, index, value */                                                 \
    X(L_STOREN, "storen", 4)     /* pointer, index, value, n: the first n lanes */                           \
    X(L_GATHER, "gather", 2)     /* pointer, vector of indices */                                            \
    X(L_SCATTER, "scatter", 3)   /* pointer, vector of indices (distinct), value */                          \
    X(L_PREFETCH, "prefetch", 2) /* pointer, index in bytes: a hint; the place need not exist */             \
    X(L_OFFSET, "offset", 2)     /* pointer + index * .i bytes */                                            \
    X(L_FIELD, "field", 1) /* pointer to struct: value of member .name at byte .i, of the result's type */   \
    X(L_SETFIELD, "setfield", 2) /* pointer to struct, value: member .name at byte .i */                     \
    X(L_LOCAL, "local", 0) /* pointer to .i elements of kind .elem, private (stack) or shared (.shared) */   \
    X(L_VAR, "var", 1)     /* a variable with an initial value; used by GET and SET only */                  \
    X(L_GET, "get", 1)                                                                                       \
    X(L_SET, "set", 2)          /* variable, value */                                                        \
    X(L_FOR, "for", 3)          /* begin, end, step > 0; the value is the counter; .body[0] */               \
    X(L_IF, "if", 1)            /* .body[0] then, .body[1] else or NULL */                                   \
    X(L_LOOP, "loop", 0)        /* .body[0] until L_BREAK */                                                 \
    X(L_BREAK, "break", 1)      /* leaves the innermost L_LOOP when its I1 operand holds */                  \
    X(L_RETURN, "return", -1)   /* none or one operand; only as the last of a block */                       \
    X(L_CALL, "call", -1)       /* .name(operands...) */                                                     \
    X(L_CALLPTR, "callptr", -1) /* operand 0 is the function pointer */                                      \
    X(L_DOT4_US, "dot4_us", 3) /* i32 acc + sum of 4 unsigned bytes of b times 4 signed bytes of c, wraps */ \
    X(L_DOT4_SS, "dot4_ss", 3) /* both signed */                                                             \
    X(L_DOT2, "dot2", 3)       /* i32 acc + sum of 2 signed halves of b times those of c */                  \
    X(L_BARRIER, "barrier", 0) /* all threads of the block */                                                \
    X(L_SHFL_XOR, "shfl_xor", 1) /* value of the thread whose lane number differs by xor .i in its warp */   \
    X(L_ATOMIC_ADD, "atomic_add", 3) /* pointer, index, value */                                             \
    X(L_COMMENT, "comment", 0)       /* .name, for the text forms */

typedef enum lop {
#define X(e, name, n) e,
    LOOP_OPS(X)
#undef X
        L_COUNT
} lop;

// How a loop may run. Emitters turn GRID and THREAD into the device's indices; PARALLEL says that iterations
// are independent (it stays serial inside one task).
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
typedef struct lblock {
    ins *first, *last;
} lblock;
struct ins {
    lop op;
    ltype type;
    int id;   // dense in the function
    int uses; // operand uses so far
    int nargs;
    ins **args;
    int64_t i;
    double f;
    const char *name; // symbol, member, or a name for the text forms (loop counters, variables); may be NULL
    const int *mask;  // L_SHUFFLE
    lkind elem;       // L_LOCAL; L_OFFSET
    bool shared;      // L_LOCAL
    int align; // L_LOAD, L_STORE ...: known alignment in bytes (0: that of one element); L_LOCAL: wanted
    loop_role role;
    lblock *body[2];
    ins *next;
};

typedef struct lparam {
    const char *name;
    ltype type;
    lkind elem;        // LK_PTR: what it points to (LK_VOID: unknown bytes)
    dtype dtype;       // of the elements, for the text forms' types (signedness)
    bool is_const;     // not written through
    const char *ctype; // C type of a pointer to a struct ("mnist_in") or of a number ("size_t"), else NULL
    ins *value;
} lparam;
typedef struct lfunc {
    arena *arena;
    const char *name;
    const struct target *target; // what it is compiled for (variants of one kernel differ); never NULL
    const char *comment;         // for the text forms: node names and pseudo-code, may hold newlines
    ltype result;
    VEC(lparam) params;
    lblock *body; // NULL: declared only
    bool exported, noalias, strict_fp, kernel;
    int nins;
    int64_t grid[3], threads[3]; // GPU: launch sizes when constant, else 0
    const char *ctype;           // C type of the result ("int", "size_t"), NULL: that of its kind
    const char *library;         // declared only: runtime-lite's function of that name, NULL: none
} lfunc;

// Read-only data of the module, at its symbol. Written from its constant by the object writer, never through
// the code generator.
typedef struct ldata {
    const char *name;
    int64_t bytes;
    int align;
    const void *bytes_or_null;                                        // small data
    void (*produce)(void *user, int64_t offset, void *to, int64_t n); // else: fills n bytes from offset
    void *user;
    dtype dtype; // elements, for the C text
    bool exported;
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
    preamble; // C text forms: lines before the functions (struct types come from the header)
} lmodule;

lmodule *lmodule_new(arena *a, const char *name, const struct target *t);
lfunc *lfunc_new(lmodule *m, const char *name, ltype result);
ins *lfunc_param(lfunc *f, const char *name, ltype type, lkind elem, dtype dt, bool is_const);
const char *lfunc_print(arena *a, const lfunc *f);
// GPU: bytes of shared memory that the launch must bring: 0, or all of the function's, where they are more
// than a kernel may declare or lie at larger multiples than usual; and where an L_LOCAL lies among them.
int64_t lfunc_dynamic_shared(const lfunc *f);
int64_t lfunc_shared_offset(const lfunc *f, const ins *local);
void lfunc_verify(const lfunc *f, diag *d); // types, dominance, structure; violations are defects

// ---------------------------------------------------------------- builder
typedef struct lbuild {
    arena *arena;
    lfunc *f;
    lblock *block;
    const struct target *target;
    diag *diag;
} lbuild;

static inline ltype lt(lkind k, int lanes) { return (ltype){(uint8_t)k, (uint16_t)lanes}; }
static inline ltype lt_ptr(void) { return lt(LK_PTR, 1); }
const char *lop_name(lop op);
const char *lkind_name(lkind k); // "i32"
int lkind_bytes(lkind k);        // LK_PTR: 8; LK_I1: 1
bool lkind_is_float(lkind k);
lkind lkind_of(dtype t); // storage kind: bool, u8, i8, f8 -> I8; packed types -> I8; c64 -> I64
lkind lindex_kind(const struct target *t); // I64, or I32 on 32-bit targets

lbuild lbuild_new(lfunc *f, const struct target *t, diag *d);
ins *lb_int(lbuild *b, ltype t, int64_t v);
ins *lb_float(lbuild *b, ltype t, double v);
ins *lb_idx(lbuild *b, int64_t v); // index kind scalar
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
ins *lb_hreduce(lbuild *b, lop op, ins *x);
ins *lb_load(lbuild *b, ltype t, ins *ptr, ins *index, int align);
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
// x and y in any kind of the same total bits; they become acc's type, four bytes (two halves) to a lane, low
// first.
ins *lb_dot(lbuild *b, lop op, ins *acc, ins *x, ins *y);
void lb_barrier(lbuild *b);
ins *lb_shfl_xor(lbuild *b, ins *x, int lane_xor);
ins *lb_atomic_add(lbuild *b, ins *ptr, ins *index, ins *v);
ins *lb_null(lbuild *b);
// Any instruction as it is, without folding (L_CALLPTR ...); its .i, .name, .mask are set by the caller.
ins *lb_op(lbuild *b, lop op, ltype type, int nargs, ins *const *args);
#endif
