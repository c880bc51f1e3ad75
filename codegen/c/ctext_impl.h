// Inside of the C-family emitter: one function goes through plan (what lives, what is inlined, what may not
// overflow), statements and expressions; the module adds helpers, data and prototypes.
#ifndef ONNXC_CODEGEN_C_CTEXT_IMPL_H
#define ONNXC_CODEGEN_C_CTEXT_IMPL_H
#include "codegen/c/prelude.h"
#include "compiler/base/sink.h"
#include "ir/loops/loops_gpu.h"
#include "ir/target.h"
#include <locale.h>

typedef enum dialect { DIALECT_C, DIALECT_CUDA } dialect;

typedef struct cmod {
    const lmodule *m;
    dialect dialect;
    arena *arena; // of the whole text
    diag *d;
    const char *prefix; // of helper names; no symbol of the module begins so
    map symbols;        // function, data and call names -> "": no local name may be one
    map funcs, data;    // name -> lfunc, ldata
    map used;           // names that functions refer to
    map defined, early; // functions written, and those referred to before
    map helpers;        // names of helpers that the text needs
    map warpgroup;      // names of products of warpgroups, waits and fences -> gpu_ins
    map by_bits;        // names of data that is written as bits (it has infinities or NaNs)
    bool memory;        // memcpy and the like
    locale_t locale;    // "C": numbers have points
} cmod;

typedef enum csign { SIGN_SIGNED, SIGN_UNSIGNED, SIGN_LITERAL } csign;

// Binding strength of C's operators.
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

// A C expression for a value. Integers narrower than int are promoted by C, so an expression may be wider
// than its kind as long as its value is right for its sign.
typedef struct cexpr {
    const char *s;
    prec prec;
    csign sign;  // integers
    lop top;     // operation at the top when it is + - *, else L_COUNT
    int64_t lit; // SIGN_LITERAL
} cexpr;

// What a pointer points to.
typedef enum cptr_kind {
    PTR_BYTES,  // unknown; C type void *
    PTR_ELEM,   // elements of `type`
    PTR_STRUCT, // struct `type`
    PTR_MEMBER, // an expression p->name of whatever type the struct gives it
    PTR_FUNC,   // a function's name
} cptr_kind;
typedef struct cptr {
    cptr_kind kind;
    const char *type;
    lkind elem; // PTR_ELEM: storage class of the elements
    csign sign;
    bool constant;
} cptr;

// Nothing needs it, not met yet (or written anew at each use), waits for its user, has a name, is written.
typedef enum cstate { STATE_DEAD, STATE_LIVE, STATE_PENDING, STATE_NAMED, STATE_DONE } cstate;

// Side table: one for each instruction.
typedef struct cinfo {
    cstate state;
    bool local; // its only user stands in the same block: may be written inside the user's expression
    bool data;  // used other than as an index, bound or part of one
    bool small; // computed from counters, sizes and small constants only
    bool alias; // written again at each use: a variable or member that keeps its value, i + 1
    bool reads; // pending: its tree reads memory
    int uses, cost;
    int pos, end;      // position in the text; of a structure also its last
    int stamp;         // of the statement whose tree it is in
    uint64_t vars;     // pending: variables its tree reads; structure: variables set inside (bit id % 64)
    bool writes;       // structure: memory is written or a function called inside
    bool syncs;        // structure: threads wait for each other inside
    lkind access;      // pointer: kind of the accesses through it, LK_VOID: none
    bool mixed;        // ... of several kinds
    const ins *user;   // the only user
    const ins *parent; // structure that it stands in, NULL: the function
    const lblock *block;
    const ins *sets; // L_VAR, L_LOCAL: the last instruction that writes it, linked by
    const ins *next_set;
    const char *name; // STATE_NAMED, parameters, counters, variables, locals
    csign sign;       // of the named
} cinfo;

typedef struct cname {
    const char *name, *stem;
    int old; // counter of the stem before
} cname;

typedef struct cfn {
    cmod *mod;
    const lfunc *f;
    arena *arena; // gone after the function
    text *out;
    int indent;
    cinfo *info;
    VEC(const ins *) order; // all instructions, outer before inner
    VEC(const ins *) pending;
    map names, stems;
    VEC(cname) scope;
    int stamp;
} cfn;

// Products are rounded before they are added to.
static inline bool cfn_is_strict(const cfn *c) {
    return c->f->strict_fp || c->mod->m->target->fp == FP_STRICT;
}
static inline cinfo *info_of(const cfn *c, const ins *x) { return &c->info[x->id]; }

// ctext_plan.c
void ctext_plan(cfn *c);
bool cplan_has_effect(const ins *x);            // stays where it is, whether used or not
bool cplan_no_wrap(const cfn *c, const ins *x); // + - * in plain signed arithmetic cannot overflow

// ctext_expr.c
cexpr cexpr_of(cfn *c, const ins *x);   // as an operand: its name or its tree
cexpr cexpr_tree(cfn *c, const ins *x); // its tree
int cexpr_foregone(const ins *x);       // 0, 1: the comparison is always so; -1: open
cexpr cexpr_not(cfn *c, const ins *x);  // of a truth value
cexpr cexpr_make(prec p, csign sign, const char *s);
cexpr cexpr_int(cfn *c, lkind k, int64_t v);
cexpr cexpr_signed(cfn *c, const ins *x);                   // integer operand as a signed number
const char *cexpr_passed(cfn *c, const ins *x, csign sign); // for a place of that sign
const char *cexpr_paren(cfn *c, cexpr e, prec least);
const char *cexpr_scaled(cfn *c, const ins *index, int64_t factor, prec least); // index * factor; NULL: 0
const char *cexpr_args(cfn *c, const ins *x, int from, const lfunc *callee);
const char *chelper(cfn *c, const char *stem, const char *kind); // notes its use; its name with the prefix
const char *ckind_suffix(lkind k, csign sign);
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
const char *cmem_member(cfn *c, const ins *x); // p->name, NULL when the type of the struct is not known
cexpr cmem_field(cfn *c, const ins *x);
const char *cmem_arg(cfn *c, const ins *x, const cptr *want); // pointer for a parameter (NULL: not known)
cexpr cmem_offset(cfn *c, const ins *x);

// ctext_stmt.c
void cstmt_function(cfn *c);                         // the body with its braces, to c->out
void cstmt_wrap(text *t, int indent, const char *s); // a line, broken before column 110
const char *cname_new(cfn *c, const char *hint, const char *fallback);

// ctext_data.c
void cdata_write(cmod *m, const ldata *d, const sink *out);
bool cdata_has_non_finite(cmod *m, const ldata *d);
const char *cfloat_text(cmod *m, arena *a, double v, lkind k); // shortest that reads back; NULL: not finite
void ccomment(text *t, int indent, const char *s);

// ctext_warpgroup.c: the function of GPU_WGMMA, _FENCE or _WAIT, in the form of codegen/c/prelude
const char *cwarpgroup_function(arena *a, const char *name, const gpu_ins *g);

// ctext.c: both dialects
void ctext_emit(const lmodule *m, dialect dialect, const char *header, const sink *out, diag *d);
#endif
