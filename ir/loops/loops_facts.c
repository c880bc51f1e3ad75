// Static properties of kinds, instructions and roles, from ir/loops/loops.def and the tables here.
#include "ir/loops/loops.h"
#include "ir/target.h"

static const struct {
    const char *name;
    lclass class;
    int operands;
    bool pure;
    lop across;
} ops[L_COUNT] = {
#define INS(op, name, operands, class)  [op] = {name, class, operands, false, L_COUNT},
#define PURE(op, name, operands, class) [op] = {name, class, operands, true, L_COUNT},
#define REDUCE(op, name, two, llvm)     [op] = {name, LC_REDUCE, 1, true, two},
#include "ir/loops/loops.def"
};

const char *lop_name(lop op) { return op < L_COUNT ? ops[op].name : "?"; }
lclass lop_class(lop op) { return ops[op].class; }
int lop_operands(lop op) { return ops[op].operands; }
bool lop_is_pure(lop op) { return ops[op].pure; }

bool lop_commutes(lop op) {
    lclass c = lop_class(op);
    return c == LC_MIN_MAX || c == LC_BITS || op == L_ADD || op == L_MUL || op == L_EQ || op == L_NE;
}

lop lop_across(lop reduce, lkind k) {
    if (lkind_is_float(k) && reduce == L_HSMIN) return L_FMIN;
    if (lkind_is_float(k) && reduce == L_HSMAX) return L_FMAX;
    return ops[reduce].across;
}

// ---------------------------------------------------------------- kinds

static const struct {
    const char *name;
    int bits;
    bool is_int, is_float;
} kinds[] = {
    [LK_VOID] = {"void", 0, false, false}, [LK_I1] = {"i1", 1, true, false},
    [LK_I8] = {"i8", 8, true, false},      [LK_I16] = {"i16", 16, true, false},
    [LK_I32] = {"i32", 32, true, false},   [LK_I64] = {"i64", 64, true, false},
    [LK_F16] = {"f16", 16, false, true},   [LK_BF16] = {"bf16", 16, false, true},
    [LK_F32] = {"f32", 32, false, true},   [LK_F64] = {"f64", 64, false, true},
    [LK_PTR] = {"ptr", 64, false, false},
};

const char *lkind_name(lkind k) { return kinds[k].name; }
int lkind_bits(lkind k) { return kinds[k].bits; }
int lkind_bytes(lkind k) { return (kinds[k].bits + 7) / 8; }
bool lkind_is_int(lkind k) { return kinds[k].is_int; }
bool lkind_is_float(lkind k) { return kinds[k].is_float; }

lkind lkind_of(dtype t) {
    if (t == DT_F32) return LK_F32;
    if (t == DT_F64) return LK_F64;
    if (t == DT_F16) return LK_F16;
    if (t == DT_BF16) return LK_BF16;
    if (t == DT_STRING) return LK_PTR;
    switch (dtype_bits(t)) {
    case 2:
    case 4:
    case 8: return LK_I8;
    case 16: return LK_I16;
    case 32: return LK_I32;
    case 64: return LK_I64;
    }
    return LK_VOID; // none, complex128
}

lkind lindex_kind(const target *t) { return t->ptr_bits == 32 ? LK_I32 : LK_I64; }

// ---------------------------------------------------------------- roles

int64_t lfor_trips(const ins *x) {
    const ins *begin = x->args[0], *end = x->args[1], *step = x->args[2];
    if (begin->op != L_CONST || end->op != L_CONST || step->op != L_CONST || step->i <= 0) return -1;
    return end->i <= begin->i ? 0 : (end->i - begin->i - 1) / step->i + 1;
}

bool lfor_is_unrolled(const ins *x) {
    int64_t trips = lfor_trips(x);
    return trips >= 0 && (x->role == LOOP_UNROLL || trips <= 1);
}

int loop_grid_axis(loop_role r) {
    return r == LOOP_GRID_X ? 0 : r == LOOP_GRID_Y ? 1 : r == LOOP_GRID_Z ? 2 : -1;
}
int loop_thread_axis(loop_role r) {
    return r == LOOP_THREAD_X ? 0 : r == LOOP_THREAD_Y ? 1 : r == LOOP_THREAD_Z ? 2 : -1;
}
