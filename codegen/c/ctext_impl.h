// Shared by the files of the C and CUDA emitter. A function passes through plan (liveness, values to inline,
// arithmetic without overflow), statements and expressions; the module adds the prelude, data and prototypes.
#ifndef ONNXC_CODEGEN_C_CTEXT_IMPL_H
#define ONNXC_CODEGEN_C_CTEXT_IMPL_H
#include "codegen/c/prelude.h"
#include "compiler/base/sink.h"
#include "ir/loops/loops_gpu.h"
#include "ir/target.h"

typedef enum dialect { DIALECT_C, DIALECT_CUDA } dialect;

typedef struct cmod {
    const lmodule *m;
    dialect dialect;
    arena *arena; // of the whole text
    diag *d;
    const char *prefix; // of names in the prelude; no symbol of the module begins with it
    map symbols;        // names of functions, data and calls -> "": reserved for local names
    map funcs, data;    // name -> lfunc, ldata
    map used;           // names that functions refer to
    map defined, early; // functions written, and those referred to before their definition
    map helpers;        // names of functions of the prelude in use
    map warpgroup;      // names of warpgroup products, waits and fences -> gpu_ins
    map by_bits;        // names of data that is written as bits, because it contains infinities or NaNs
    const char *section_macro; // of constants in a separate section; NULL: not defined yet
    bool memory;               // string.h is needed
    bool doubles;              // values of f64
} cmod;

typedef enum csign { SIGN_SIGNED, SIGN_UNSIGNED, SIGN_LITERAL } csign;

// Precedence of C's operators.
typedef enum prec {
    PREC_COND = 1,
    PREC_OR,
    PREC_AND,
    PREC_BITOR,
    PREC_BITXOR,
    PREC_BITAND,
    PREC_EQ,
    PREC_REL,
    PREC_SHIFT,
    PREC_ADD,
    PREC_MUL,
    PREC_UNARY,
    PREC_POSTFIX,
} prec;

// A C expression for a value. C promotes integers narrower than int, so an expression may be wider than its
// kind if its value is right for its sign. An i32 with `bits` has a type that C promotes to int, which may have
// 16 bits; the value fits in that many bits, with its sign.
typedef struct cexpr {
    const char *s;
    prec prec;
    csign sign;  // integers
    lop top;     // topmost operation if it is + - *, else L_COUNT
    int64_t lit; // SIGN_LITERAL
    int bits;    // 0: the type has 32 bits on all machines
} cexpr;

// The target of a pointer.
typedef enum cptr_kind {
    PTR_BYTES,  // unknown; C type void *
    PTR_ELEM,   // elements of `type`
    PTR_STRUCT, // struct `type`
    PTR_MEMBER, // an expression p->name, whose type the struct declares
    PTR_FUNC,   // a function's name
} cptr_kind;
typedef struct cptr {
    cptr_kind kind;
    const char *type;
    lkind elem; // PTR_ELEM: storage class of the elements
    csign sign;
    bool constant;
} cptr;

// Dead; not reached yet, or rematerialised at each use; waiting for its user; named; written.
typedef enum cstate { STATE_DEAD, STATE_LIVE, STATE_PENDING, STATE_NAMED, STATE_DONE } cstate;

// Side table, by instruction.
typedef struct cinfo {
    cstate state;
    bool local; // its only user is in the same block, so it may be inlined into the user's expression
    bool data;  // has uses other than as an index, a bound, or a part of these
    bool small; // computed from counters, sizes and small constants only
    bool alias; // rematerialised at each use: i + 1, or a variable or member that keeps its value
    bool reads; // pending: its tree reads memory
    int uses, cost;
    int pos, end;    // position in the text; of a structure, also the last position inside
    int stamp;       // number of the statement whose tree contains it
    uint64_t vars;   // pending: variables that its tree reads; structure: variables set inside (bit id % 64)
    bool writes;     // structure: contains writes to memory or calls
    bool syncs;      // structure: contains synchronisation of threads
    lkind access;    // pointer: kind of the accesses through it; LK_VOID: none
    bool mixed;      // pointer: accesses of several kinds
    const ins *user; // the only user
    const ins *parent; // enclosing structure; NULL: the function
    const lblock *block;
    const ins *sets; // L_VAR, L_LOCAL: list of instructions that write it, last one first
    const ins *next_set;
    const char *name; // STATE_NAMED, parameters, counters, variables, locals
    csign sign;       // STATE_NAMED
} cinfo;

typedef struct cname {
    const char *name, *stem;
    int old; // previous counter of the stem
} cname;

typedef struct cfn {
    cmod *mod;
    const lfunc *f;
    arena *arena; // lives as long as the function is written
    text *out;
    int indent;
    cinfo *info;
    VEC(const ins *) order; // all instructions, outer before inner
    VEC(const ins *) pending;
    map names, stems;
    VEC(cname) scope;
    int stamp;
} cfn;

// Products are rounded before additions (no contraction).
static inline bool cfn_is_strict(const cfn *c) {
    return c->f->strict_fp || c->mod->m->target->fp == FP_STRICT;
}
static inline cinfo *info_of(const cfn *c, const ins *x) { return &c->info[x->id]; }

// ctext_plan.c
void ctext_plan(cfn *c);
bool cplan_has_effect(const ins *x);            // must stay in place, even if unused
bool cplan_no_wrap(const cfn *c, const ins *x); // + - * in plain signed arithmetic cannot overflow

// ctext_expr.c
cexpr cexpr_of(cfn *c, const ins *x); // its name, or its expression tree if it has no name
cexpr cexpr_tree(cfn *c, const ins *x);
int cexpr_known(const ins *x);         // result of a comparison: 0, 1; -1: not known
cexpr cexpr_not(cfn *c, const ins *x); // negation of a bool
cexpr cexpr_make(prec p, csign sign, const char *s);
cexpr cexpr_signed(cfn *c, const ins *x);                   // an integer operand as signed
const char *cexpr_passed(cfn *c, const ins *x, csign sign); // for a variable of that sign
const char *cexpr_paren(cfn *c, cexpr e, prec least);
const char *cexpr_scaled(cfn *c, const ins *index, int64_t factor, prec least); // index * factor; NULL: 0
const char *cprelude(cfn *c, const char *stem, const char *kind); // a function of the prelude, marked as used
const char *ckind_suffix(lkind k, csign sign);
csign cparam_sign(const lparam *p); // p NULL: signed
const char *ctype_name(lkind k, csign sign);

// ctext_mem.c
cptr cptr_of(cfn *c, const ins *x);
cptr cptr_of_param(const lparam *p);
cptr cptr_of_dtype(dtype t, bool constant);
const char *cptr_text(arena *a, cptr p); // "const float *"
cexpr cmem_load(cfn *c, const ins *x, const ins *ptr, const ins *index);
const char *cmem_store(cfn *c, const ins *x, const ins *ptr, const ins *index, const ins *value);
const char *cmem_place(cfn *c, const ins *x, lkind k, const ins *ptr, const ins *index,
                       csign *sign);           // x[i] or NULL
const char *cmem_member(cfn *c, const ins *x); // p->name; NULL: the struct has no C type
cexpr cmem_field(cfn *c, const ins *x);
const char *cmem_arg(cfn *c, const ins *x, const cptr *want); // pointer argument; want NULL: any type
cexpr cmem_offset(cfn *c, const ins *x);

// ctext_stmt.c
void cstmt_function(cfn *c);                         // the body with its braces
void cstmt_wrap(text *t, int indent, const char *s); // a line, broken before column 110
const char *cname_new(cfn *c, const char *hint, const char *fallback);

// ctext_data.c
void cdata_write(cmod *m, const ldata *d, const sink *out);
bool cdata_has_non_finite(cmod *m, const ldata *d);
const char *cfloat_text(arena *a, double v,
                        lkind k); // shortest text that reads back; NULL: not finite
void ccomment(text *t, int indent, const char *s);

// ctext_warpgroup.c: the function of GPU_WGMMA, _FENCE or _WAIT, in the form of codegen/c/prelude
const char *cwarpgroup_function(arena *a, const char *name, const gpu_ins *g);

// ctext.c: both dialects
void ctext_emit(const lmodule *m, dialect dialect, const char *header, const sink *out, diag *d);
#endif
