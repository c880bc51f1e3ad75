// Arithmetic, comparisons, conversions and lanes of loops into LLVM IR. Nothing here becomes a library call
// on a target that the legaliser prepared the function for.
#include "codegen/llvm/llvm_impl.h"
#include <string.h>

static LLVMValueRef arg(emit *e, const ins *x, int i) { return value_of(e, x->args[i]); }
static bool is_float(const ins *x) { return lkind_is_float(x->type.kind); }

LLVMValueRef call_intrinsic(emit *e, const char *name, LLVMTypeRef *overloads, int noverloads,
                            LLVMValueRef *args, int nargs) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) diag_defect(e->diag, NULL, "LLVM has no intrinsic %s", name);
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(e->module, id, overloads, (size_t)noverloads);
    LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, overloads, (size_t)noverloads);
    return LLVMBuildCall2(e->b, type, f, args, (unsigned)nargs, "");
}

LLVMValueRef call_target_intrinsic(emit *e, const char *name, LLVMValueRef *args, int nargs) {
    return call_intrinsic(e, name, NULL, 0, args, nargs);
}

static LLVMValueRef call_same(emit *e, const char *name, const ins *x, int nargs) {
    LLVMTypeRef type = type_of(e, x->type);
    LLVMValueRef args[3];
    for (int i = 0; i < nargs; i++) args[i] = arg(e, x, i);
    return call_intrinsic(e, name, &type, 1, args, nargs);
}

// ---------------------------------------------------------------- constants and lanes
static LLVMValueRef emit_const(emit *e, const ins *x) {
    if (!is_float(x)) return const_int(e, x->type, x->i);
    LLVMValueRef c = LLVMConstReal(e->kinds[x->type.kind], x->f);
    if (x->type.lanes == 1) return c;
    LLVMValueRef *all = ARENA_ARRAY(e->arena, LLVMValueRef, x->type.lanes);
    for (int i = 0; i < x->type.lanes; i++) all[i] = c;
    return LLVMConstVector(all, x->type.lanes);
}

static LLVMValueRef lane_number(emit *e, int i) { return LLVMConstInt(e->kinds[LK_I32], (unsigned)i, 0); }

static LLVMValueRef shuffle(emit *e, LLVMValueRef x, LLVMValueRef y, const int *mask, int lanes) {
    LLVMValueRef *m = ARENA_ARRAY(e->arena, LLVMValueRef, lanes);
    for (int i = 0; i < lanes; i++) m[i] = lane_number(e, mask[i]);
    return LLVMBuildShuffleVector(e->b, x, y, LLVMConstVector(m, (unsigned)lanes), "");
}

LLVMValueRef splat(emit *e, LLVMValueRef scalar, int lanes) {
    if (lanes == 1) return scalar;
    LLVMValueRef undefined = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(scalar), (unsigned)lanes));
    LLVMValueRef one = LLVMBuildInsertElement(e->b, undefined, scalar, lane_number(e, 0), "");
    return shuffle(e, one, undefined, ARENA_ARRAY(e->arena, int, lanes), lanes);
}

LLVMValueRef slice(emit *e, LLVMValueRef v, int from, int n) {
    if (LLVMGetVectorSize(LLVMTypeOf(v)) == (unsigned)n) return v;
    int *mask = ARENA_ARRAY(e->arena, int, n);
    for (int i = 0; i < n; i++) mask[i] = from + i;
    return shuffle(e, v, LLVMGetPoison(LLVMTypeOf(v)), mask, n);
}

LLVMValueRef concat(emit *e, LLVMValueRef *parts, int nparts) {
    for (; nparts > 1; nparts /= 2) {
        int lanes = 2 * (int)LLVMGetVectorSize(LLVMTypeOf(parts[0]));
        int *mask = ARENA_ARRAY(e->arena, int, lanes);
        for (int i = 0; i < lanes; i++) mask[i] = i;
        for (int i = 0; i < nparts / 2; i++)
            parts[i] = shuffle(e, parts[2 * i], parts[2 * i + 1], mask, lanes);
    }
    return parts[0];
}

static LLVMValueRef emit_iota(emit *e, const ins *x) {
    LLVMValueRef *all = ARENA_ARRAY(e->arena, LLVMValueRef, x->type.lanes);
    LLVMTypeRef t = e->kinds[x->type.kind];
    for (int i = 0; i < x->type.lanes; i++)
        all[i] = is_float(x) ? LLVMConstReal(t, i) : LLVMConstInt(t, (unsigned)i, 0);
    return x->type.lanes == 1 ? all[0] : LLVMConstVector(all, x->type.lanes);
}

static LLVMValueRef emit_shuffle(emit *e, const ins *x) {
    LLVMValueRef a = arg(e, x, 0), b = arg(e, x, 1);
    if (x->args[0]->type.lanes == 1) { // LLVM shuffles vectors only
        a = splat(e, a, 2);
        b = splat(e, b, 2);
        int *mask = ARENA_ARRAY(e->arena, int, x->type.lanes);
        for (int i = 0; i < x->type.lanes; i++) mask[i] = 2 * x->mask[i];
        LLVMValueRef v = shuffle(e, a, b, mask, x->type.lanes);
        return x->type.lanes == 1 ? LLVMBuildExtractElement(e->b, v, lane_number(e, 0), "") : v;
    }
    LLVMValueRef v = shuffle(e, a, b, x->mask, x->type.lanes);
    return x->type.lanes == 1 ? LLVMBuildExtractElement(e->b, v, lane_number(e, 0), "") : v;
}

// ---------------------------------------------------------------- arithmetic
static bool is_strict(const emit *e) { return e->f->strict_fp || e->t->fp == FP_STRICT; }

// Where it is an instruction; elsewhere LLVM would call a library function.
static bool has_fma(const emit *e, ltype t) {
    return e->t->fma && (t.kind == LK_F32 || (t.kind == LK_F64 && e->t->f64));
}

// Nothing but L_MULADD may fuse: contraction or reassociation elsewhere would undo the rounding tricks of the
// elementary functions. No flag says so, since LLVM drops it where another product is the same.
static LLVMValueRef emit_muladd(emit *e, const ins *x) {
    if (!is_strict(e) && has_fma(e, x->type)) return call_same(e, "llvm.fma", x, 3);
    return LLVMBuildFAdd(e->b, LLVMBuildFMul(e->b, arg(e, x, 0), arg(e, x, 1), ""), arg(e, x, 2), "");
}

static LLVMValueRef float_extreme(emit *e, LLVMRealPredicate p, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, p, a, b, ""), a, b, "");
}

static LLVMValueRef combine_halves(emit *e, lop op, LLVMValueRef a, LLVMValueRef b) {
    if (op == L_HADD) return LLVMBuildFAdd(e->b, a, b, "");
    if (op == L_HMUL) return LLVMBuildFMul(e->b, a, b, "");
    return float_extreme(e, op == L_HSMIN || op == L_HUMIN ? LLVMRealOLT : LLVMRealOGT, a, b);
}

// Floats: the upper half onto the lower one until one lane is left: the same order, hence the same bits, on
// every target. An odd lane is carried along.
static LLVMValueRef reduce_floats(emit *e, lop op, LLVMValueRef v, int lanes) {
    while (lanes > 1) {
        int half = lanes / 2;
        LLVMValueRef odd = lanes % 2 ? LLVMBuildExtractElement(e->b, v, lane_number(e, lanes - 1), "") : NULL;
        if (half == 1) {
            v = combine_halves(e, op, LLVMBuildExtractElement(e->b, v, lane_number(e, 0), ""),
                               LLVMBuildExtractElement(e->b, v, lane_number(e, 1), ""));
            return odd ? combine_halves(e, op, v, odd) : v;
        }
        v = combine_halves(e, op, slice(e, v, 0, half), slice(e, v, half, half));
        if (odd) {
            LLVMValueRef first = LLVMBuildExtractElement(e->b, v, lane_number(e, 0), "");
            v = LLVMBuildInsertElement(e->b, v, combine_halves(e, op, first, odd), lane_number(e, 0), "");
        }
        lanes = half;
    }
    return v;
}

static const char *reduce_name(lop op) {
    return op == L_HADD    ? "llvm.vector.reduce.add"
           : op == L_HMUL  ? "llvm.vector.reduce.mul"
           : op == L_HSMIN ? "llvm.vector.reduce.smin"
           : op == L_HSMAX ? "llvm.vector.reduce.smax"
           : op == L_HUMIN ? "llvm.vector.reduce.umin"
           : op == L_HUMAX ? "llvm.vector.reduce.umax"
           : op == L_HOR   ? "llvm.vector.reduce.or"
                           : "llvm.vector.reduce.and";
}

static LLVMValueRef emit_reduce(emit *e, const ins *x) {
    const ins *from = x->args[0];
    LLVMValueRef v = value_of(e, from);
    if (from->type.lanes == 1) return v;
    if (is_float(from)) return reduce_floats(e, x->op, v, from->type.lanes);
    LLVMTypeRef type = LLVMTypeOf(v);
    return call_intrinsic(e, reduce_name(x->op), &type, 1, &v, 1);
}

static LLVMValueRef emit_float_binary(emit *e, const ins *x, LLVMValueRef a, LLVMValueRef b) {
    if (x->op == L_ADD) return LLVMBuildFAdd(e->b, a, b, "");
    if (x->op == L_SUB) return LLVMBuildFSub(e->b, a, b, "");
    return LLVMBuildFMul(e->b, a, b, "");
}

static LLVMValueRef emit_compare(emit *e, const ins *x, LLVMRealPredicate real, LLVMIntPredicate integer) {
    LLVMValueRef a = arg(e, x, 0), b = arg(e, x, 1);
    return is_float(x->args[0]) ? LLVMBuildFCmp(e->b, real, a, b, "")
                                : LLVMBuildICmp(e->b, integer, a, b, "");
}

static LLVMValueRef emit_cast(emit *e, const ins *x, LLVMOpcode op) {
    return LLVMBuildCast(e->b, op, arg(e, x, 0), type_of(e, x->type), "");
}

static LLVMValueRef emit_select(emit *e, const ins *x) {
    return LLVMBuildSelect(e->b, arg(e, x, 0), arg(e, x, 1), arg(e, x, 2), "");
}

// Integers that are as wide as pointers may be reinterpreted as such.
static LLVMValueRef emit_bitcast(emit *e, const ins *x) {
    bool from = x->args[0]->type.kind == LK_PTR, to = x->type.kind == LK_PTR;
    if (from != to) return emit_cast(e, x, from ? LLVMPtrToInt : LLVMIntToPtr);
    return emit_cast(e, x, LLVMBitCast);
}

static LLVMValueRef emit_binary(emit *e, const ins *x, LLVMOpcode op) {
    return LLVMBuildBinOp(e->b, op, arg(e, x, 0), arg(e, x, 1), "");
}

// ARM and RISC-V have no instruction for the first that LLVM would select.
static const char *rint_name(const target *t) {
    return t->arch == ARCH_ARM || t->arch == ARCH_RISCV ? "llvm.rint" : "llvm.roundeven";
}

static LLVMValueRef emit_sum_or_product(emit *e, const ins *x, LLVMOpcode integer) {
    return is_float(x) ? emit_float_binary(e, x, arg(e, x, 0), arg(e, x, 1)) : emit_binary(e, x, integer);
}

LLVMValueRef emit_arithmetic(emit *e, const ins *x) {
    switch (x->op) {
    case L_CONST: return emit_const(e, x);
    case L_SPLAT: return splat(e, arg(e, x, 0), x->type.lanes);
    case L_IOTA: return emit_iota(e, x);
    case L_EXTRACT: return LLVMBuildExtractElement(e->b, arg(e, x, 0), lane_number(e, (int)x->i), "");
    case L_INSERT:
        return LLVMBuildInsertElement(e->b, arg(e, x, 0), arg(e, x, 1), lane_number(e, (int)x->i), "");
    case L_SHUFFLE: return emit_shuffle(e, x);
    case L_HADD:
    case L_HMUL:
    case L_HSMIN:
    case L_HSMAX:
    case L_HUMIN:
    case L_HUMAX:
    case L_HOR:
    case L_HAND: return emit_reduce(e, x);
    case L_ADD: return emit_sum_or_product(e, x, LLVMAdd);
    case L_SUB: return emit_sum_or_product(e, x, LLVMSub);
    case L_MUL: return emit_sum_or_product(e, x, LLVMMul);
    case L_MULADD: return emit_muladd(e, x);
    case L_FMA: return call_same(e, "llvm.fma", x, 3);
    case L_FDIV: return emit_binary(e, x, LLVMFDiv);
    case L_SDIV: return emit_binary(e, x, LLVMSDiv);
    case L_UDIV: return emit_binary(e, x, LLVMUDiv);
    case L_SREM: return emit_binary(e, x, LLVMSRem);
    case L_UREM: return emit_binary(e, x, LLVMURem);
    case L_SMIN: return call_same(e, "llvm.smin", x, 2);
    case L_SMAX: return call_same(e, "llvm.smax", x, 2);
    case L_UMIN: return call_same(e, "llvm.umin", x, 2);
    case L_UMAX: return call_same(e, "llvm.umax", x, 2);
    case L_FMIN: return float_extreme(e, LLVMRealOLT, arg(e, x, 0), arg(e, x, 1));
    case L_FMAX: return float_extreme(e, LLVMRealOGT, arg(e, x, 0), arg(e, x, 1));
    case L_AND: return emit_binary(e, x, LLVMAnd);
    case L_OR: return emit_binary(e, x, LLVMOr);
    case L_XOR: return emit_binary(e, x, LLVMXor);
    case L_SHL: return emit_binary(e, x, LLVMShl);
    case L_LSHR: return emit_binary(e, x, LLVMLShr);
    case L_ASHR: return emit_binary(e, x, LLVMAShr);
    case L_FNEG: return LLVMBuildFNeg(e->b, arg(e, x, 0), "");
    case L_FABS: return call_same(e, "llvm.fabs", x, 1);
    case L_SQRT: return call_same(e, "llvm.sqrt", x, 1);
    case L_FLOOR: return call_same(e, "llvm.floor", x, 1);
    case L_CEIL: return call_same(e, "llvm.ceil", x, 1);
    case L_TRUNC: return call_same(e, "llvm.trunc", x, 1);
    case L_RINT: return call_same(e, rint_name(e->t), x, 1);
    case L_EQ: return emit_compare(e, x, LLVMRealOEQ, LLVMIntEQ);
    case L_NE: return emit_compare(e, x, LLVMRealUNE, LLVMIntNE);
    case L_SLT: return emit_compare(e, x, LLVMRealOLT, LLVMIntSLT);
    case L_SLE: return emit_compare(e, x, LLVMRealOLE, LLVMIntSLE);
    case L_ULT: return emit_compare(e, x, LLVMRealOLT, LLVMIntULT);
    case L_ULE: return emit_compare(e, x, LLVMRealOLE, LLVMIntULE);
    case L_SELECT: return emit_select(e, x);
    case L_SEXT: return emit_cast(e, x, LLVMSExt);
    case L_ZEXT: return emit_cast(e, x, LLVMZExt);
    case L_ITRUNC: return emit_cast(e, x, LLVMTrunc);
    case L_SITOF: return emit_cast(e, x, LLVMSIToFP);
    case L_UITOF: return emit_cast(e, x, LLVMUIToFP);
    case L_FTOSI: return emit_cast(e, x, LLVMFPToSI);
    case L_FTOUI: return emit_cast(e, x, LLVMFPToUI);
    case L_FEXT: return emit_cast(e, x, LLVMFPExt);
    case L_FTRUNC: return emit_cast(e, x, LLVMFPTrunc);
    case L_BITCAST: return emit_bitcast(e, x);
    case L_PARAM:
    case L_SYMBOL:
    case L_NULL:
    case L_LOAD:
    case L_LOADN:
    case L_STORE:
    case L_STOREN:
    case L_GATHER:
    case L_SCATTER:
    case L_PREFETCH:
    case L_OFFSET:
    case L_FIELD:
    case L_SETFIELD:
    case L_LOCAL:
    case L_VAR:
    case L_GET:
    case L_SET:
    case L_FOR:
    case L_IF:
    case L_LOOP:
    case L_BREAK:
    case L_RETURN:
    case L_CALL:
    case L_CALLPTR:
    case L_DOT4_US:
    case L_DOT4_SS:
    case L_DOT2:
    case L_BARRIER:
    case L_SHFL_XOR:
    case L_ATOMIC_ADD:
    case L_COMMENT:
    case L_COUNT: break;
    }
    diag_defect(e->diag, NULL, "function %s: instruction %d is not arithmetic", e->f->name, (int)x->op);
}
