// In: arithmetic, comparisons, conversions and operations on lanes. Out: LLVM IR, without library calls if
// the legaliser prepared the function for the target.
#include "codegen/llvm/llvm_impl.h"
#include <string.h>

static LLVMValueRef arg(emit *e, const ins *x, int i) { return value_of(e, x->args[i]); }
static bool is_float(const ins *x) { return lkind_is_float(x->type.kind); }

// LLVM's opcode or predicate for integers, the one for floats, or the intrinsic.
static const struct {
    int ints, floats;
    const char *intrinsic;
} in_llvm[L_COUNT] = {
#define INS(...)
#define BINARY(op, name, class, ints, floats, c)    [op] = {ints, floats, NULL},
#define COMPARE(op, name, ints, floats, c, inverse) [op] = {ints, floats, NULL},
#define CONVERT(op, name, class, llvm)              [op] = {llvm, 0, NULL},
#define INTRINSIC(op, name, operands, class, llvm)  [op] = {0, 0, llvm},
#define REDUCE(op, name, two, llvm)                 [op] = {0, 0, llvm},
#include "ir/loops/loops.def"
};

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

static LLVMValueRef call_same(emit *e, const char *name, const ins *x) {
    LLVMTypeRef type = type_of(e, x->type);
    LLVMValueRef args[3];
    for (int i = 0; i < x->nargs; i++) args[i] = arg(e, x, i);
    return call_intrinsic(e, name, &type, 1, args, x->nargs);
}

// ---------------------------------------------------------------- constants and lanes
static LLVMValueRef emit_iota(emit *e, const ins *x) {
    LLVMValueRef *all = ARENA_ARRAY(e->arena, LLVMValueRef, x->type.lanes);
    LLVMTypeRef t = e->kinds[x->type.kind];
    for (int i = 0; i < x->type.lanes; i++)
        all[i] = is_float(x) ? LLVMConstReal(t, i) : LLVMConstInt(t, (unsigned)i, 0);
    return x->type.lanes == 1 ? all[0] : LLVMConstVector(all, x->type.lanes);
}

static LLVMValueRef emit_const(emit *e, const ins *x) {
    if (x->op == L_NULL) return LLVMConstNull(e->kinds[LK_PTR]);
    if (x->op == L_IOTA) return emit_iota(e, x);
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
    LLVMValueRef v = emit_sve_shuffle(e, x);
    if (!v) v = shuffle(e, a, b, x->mask, x->type.lanes);
    return x->type.lanes == 1 ? LLVMBuildExtractElement(e->b, v, lane_number(e, 0), "") : v;
}

// ---------------------------------------------------------------- arithmetic
static bool is_strict(const emit *e) { return e->f->strict_fp || e->t->fp == FP_STRICT; }

// Without the instruction LLVM would call a library function.
static bool has_fma(const emit *e, ltype t) {
    return e->t->fma && (t.kind == LK_F32 || (t.kind == LK_F64 && e->t->f64));
}

static LLVMValueRef relaxed_muladd(emit *e, const ins *x) {
    int most = 128 / lkind_bits(x->type.kind), lanes = x->type.lanes;
    LLVMValueRef *parts = ARENA_ARRAY(e->arena, LLVMValueRef, lanes / most);
    LLVMTypeRef type = type_of(e, lt(x->type.kind, most));
    for (int i = 0; i < lanes; i += most) {
        LLVMValueRef args[3] = {slice(e, arg(e, x, 0), i, most), slice(e, arg(e, x, 1), i, most),
                                slice(e, arg(e, x, 2), i, most)};
        parts[i / most] = call_intrinsic(e, "llvm.wasm.relaxed.madd", &type, 1, args, 3);
    }
    return concat(e, parts, lanes / most);
}

// Only L_MULADD may be fused: other contraction or reassociation would break the exact arithmetic of the
// elementary functions. Fast-math flags cannot express this, since LLVM drops them when it merges equal
// products.
static LLVMValueRef emit_muladd(emit *e, const ins *x) {
    LLVMValueRef by_lane = !is_strict(e) && has_fma(e, x->type) ? emit_sve_muladd(e, x) : NULL;
    if (by_lane) return by_lane;
    if (x->op == L_FMA || (!is_strict(e) && has_fma(e, x->type))) return call_same(e, "llvm.fma", x);
    bool whole = (x->type.kind == LK_F32 || x->type.kind == LK_F64) &&
                 x->type.lanes * lkind_bits(x->type.kind) % 128 == 0;
    if (e->t->relaxed_muladd && whole && !is_strict(e)) return relaxed_muladd(e, x);
    return LLVMBuildFAdd(e->b, LLVMBuildFMul(e->b, arg(e, x, 0), arg(e, x, 1), ""), arg(e, x, 2), "");
}

// Two operands by the instruction op.
static LLVMValueRef combine_floats(emit *e, lop op, LLVMValueRef a, LLVMValueRef b) {
    if (op != L_FMIN && op != L_FMAX) return LLVMBuildBinOp(e->b, (LLVMOpcode)in_llvm[op].floats, a, b, "");
    LLVMRealPredicate p = op == L_FMIN ? LLVMRealOLT : LLVMRealOGT;
    return LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, p, a, b, ""), a, b, "");
}

// Adds the upper half to the lower one until one lane is left, in the same order, hence with the same bits,
// on every target. An odd lane is added to the first one.
static LLVMValueRef reduce_floats(emit *e, lop op, LLVMValueRef v, int lanes) {
    while (lanes > 1) {
        int half = lanes / 2;
        LLVMValueRef odd = lanes % 2 ? LLVMBuildExtractElement(e->b, v, lane_number(e, lanes - 1), "") : NULL;
        if (half == 1) {
            v = combine_floats(e, op, LLVMBuildExtractElement(e->b, v, lane_number(e, 0), ""),
                               LLVMBuildExtractElement(e->b, v, lane_number(e, 1), ""));
            return odd ? combine_floats(e, op, v, odd) : v;
        }
        v = combine_floats(e, op, slice(e, v, 0, half), slice(e, v, half, half));
        if (odd) {
            LLVMValueRef first = LLVMBuildExtractElement(e->b, v, lane_number(e, 0), "");
            v = LLVMBuildInsertElement(e->b, v, combine_floats(e, op, first, odd), lane_number(e, 0), "");
        }
        lanes = half;
    }
    return v;
}

static LLVMValueRef emit_reduce(emit *e, const ins *x) {
    const ins *from = x->args[0];
    LLVMValueRef v = value_of(e, from);
    if (from->type.lanes == 1) return v;
    if (is_float(from)) return reduce_floats(e, lop_across(x->op, from->type.kind), v, from->type.lanes);
    LLVMTypeRef type = LLVMTypeOf(v);
    return call_intrinsic(e, in_llvm[x->op].intrinsic, &type, 1, &v, 1);
}

static LLVMValueRef emit_compare(emit *e, const ins *x) {
    LLVMValueRef a = arg(e, x, 0), b = arg(e, x, 1);
    return is_float(x->args[0]) ? LLVMBuildFCmp(e->b, (LLVMRealPredicate)in_llvm[x->op].floats, a, b, "")
                                : LLVMBuildICmp(e->b, (LLVMIntPredicate)in_llvm[x->op].ints, a, b, "");
}

static LLVMValueRef emit_cast(emit *e, const ins *x, LLVMOpcode op) {
    LLVMValueRef wide = op == LLVMSExt ? gathered_lanes(e, arg(e, x, 0), x->type) : NULL;
    if (wide) return wide;
    return LLVMBuildCast(e->b, op, arg(e, x, 0), type_of(e, x->type), "");
}

// Bitcasts include those between pointers and integers of the same width.
static LLVMValueRef emit_bitcast(emit *e, const ins *x) {
    bool from = x->args[0]->type.kind == LK_PTR, to = x->type.kind == LK_PTR;
    if (from != to) return emit_cast(e, x, from ? LLVMPtrToInt : LLVMIntToPtr);
    return emit_cast(e, x, LLVMBitCast);
}

// x86 only (target->scale_instr).
static LLVMValueRef emit_scaling(emit *e, const ins *x, LLVMValueRef a, LLVMValueRef b) {
    int lanes = x->type.lanes;
    LLVMValueRef none = LLVMConstNull(type_of(e, x->type)),
                 all = const_int(e, lt(lanes == 16 ? LK_I16 : LK_I8, 1), -1),
                 args[] = {a, b, none, all, const_int(e, lt(LK_I32, 1), 4)}; // rounded as elsewhere
    if (lanes == 16) return call_target_intrinsic(e, "llvm.x86.avx512.mask.scalef.ps.512", args, 5);
    return call_target_intrinsic(
        e, lanes == 8 ? "llvm.x86.avx512.mask.scalef.ps.256" : "llvm.x86.avx512.mask.scalef.ps.128", args, 4);
}

static LLVMValueRef emit_binary(emit *e, const ins *x) {
    LLVMValueRef product = emit_widened_product(e, x);
    if (product) return product;
    LLVMValueRef a = arg(e, x, 0), b = arg(e, x, 1);
    if (x->op == L_SCALE) return emit_scaling(e, x, a, b);
    if (is_float(x)) return combine_floats(e, x->op, a, b);
    return LLVMBuildBinOp(e->b, (LLVMOpcode)in_llvm[x->op].ints, a, b, "");
}

// x86, RISC-V with vectors, and ARM but for NEON (target->round_to_int).
static LLVMValueRef emit_rounded(emit *e, LLVMValueRef x, int lanes) {
    LLVMTypeRef type = LLVMTypeOf(x);
    if (e->t->arch.vector_lengths) // LLVM makes one instruction of both, but several of llvm.lrint
        return LLVMBuildFPToSI(e->b, call_intrinsic(e, "llvm.rint", &type, 1, &x, 1),
                               type_of(e, lt(LK_I32, lanes)), "");
    if (lanes == 1)
        return LLVMBuildBitCast(e->b,
                                call_intrinsic(e, "llvm.arm.vcvtr", (LLVMTypeRef[]){LLVMTypeOf(x)}, 1, &x, 1),
                                type_of(e, lt(LK_I32, 1)), "");
    int most = target_lanes(e->t, 32);
    if (lanes > most) {
        LLVMValueRef *parts = ARENA_ARRAY(e->arena, LLVMValueRef, lanes / most);
        for (int j = 0; j < lanes / most; j++) parts[j] = emit_rounded(e, slice(e, x, j * most, most), most);
        return concat(e, parts, lanes / most);
    }
    if (e->t->dot_across) { // Helium
        LLVMTypeRef types[2] = {type_of(e, lt(LK_I32, lanes)), LLVMTypeOf(x)};
        LLVMValueRef is_signed[2] = {const_int(e, lt(LK_I32, 1), 0), x};
        return call_intrinsic(e, "llvm.arm.mve.vcvtn", types, 2, is_signed, 2);
    }
    LLVMValueRef args[4] = {x, LLVMConstNull(type_of(e, lt(LK_I32, lanes))), const_int(e, lt(LK_I16, 1), -1),
                            const_int(e, lt(LK_I32, 1), 8)}; // to nearest, no exceptions
    if (lanes == 16) return call_target_intrinsic(e, "llvm.x86.avx512.mask.cvtps2dq.512", args, 4);
    return call_target_intrinsic(e, lanes == 8 ? "llvm.x86.avx.cvt.ps2dq.256" : "llvm.x86.sse2.cvtps2dq",
                                 args, 1);
}

// 4 lanes on AArch64, 8 or 16 on x86. After a plain fptrunc LLVM would move arithmetic that it then does lane by lane.
static LLVMValueRef emit_to_bf16(emit *e, const ins *x) {
    LLVMValueRef from = arg(e, x, 0);
    if (x->type.lanes == 4)
        return slice(e, call_target_intrinsic(e, "llvm.aarch64.neon.bfcvtn", &from, 1), 0, 4);
    bool wide = x->type.lanes == 16;
    return call_target_intrinsic(
        e, wide ? "llvm.x86.avx512bf16.cvtneps2bf16.512" : "llvm.x86.avx512bf16.cvtneps2bf16.256", &from, 1);
}

// LLVM would compare halves before a widening instead of floats after it, lane by lane where comparisons of halves are
// missing.
static LLVMValueRef emit_widened(emit *e, const ins *x) {
    LLVMValueRef wide = emit_cast(e, x, LLVMFPExt);
    LLVMTypeRef type = LLVMTypeOf(wide);
    if (x->args[0]->type.kind != LK_F16 || x->type.lanes == 1) return wide;
    return call_intrinsic(e, "llvm.arithmetic.fence", &type, 1, &wide, 1);
}

static LLVMValueRef emit_intrinsic(emit *e, const ins *x) {
    bool plain = x->op == L_RINT && e->t->arch.no_roundeven;
    return call_same(e, plain ? "llvm.rint" : in_llvm[x->op].intrinsic, x);
}

// x86 only (target->permuted_words).
static LLVMValueRef emit_permute(emit *e, const ins *x) {
    static const char *const names[2][2] = {
        {"llvm.x86.avx2.permd", "llvm.x86.avx2.permps"},
        {"llvm.x86.avx512.permvar.si.512", "llvm.x86.avx512.permvar.sf.512"}};
    LLVMValueRef args[] = {arg(e, x, 0), arg(e, x, 1)};
    return call_target_intrinsic(e, names[x->type.lanes == 16][lkind_is_float(x->type.kind)], args, 2);
}

static LLVMValueRef emit_lanes(emit *e, const ins *x) {
    if (x->op == L_SPLAT) return splat(e, arg(e, x, 0), x->type.lanes);
    if (x->op == L_SHUFFLE) return emit_shuffle(e, x);
    if (x->op == L_PERMUTE) return emit_permute(e, x);
    LLVMValueRef lane = lane_number(e, (int)x->i);
    return x->op == L_EXTRACT ? LLVMBuildExtractElement(e->b, arg(e, x, 0), lane, "")
                              : LLVMBuildInsertElement(e->b, arg(e, x, 0), arg(e, x, 1), lane, "");
}

LLVMValueRef emit_pure(emit *e, const ins *x) {
    switch (lop_class(x->op)) {
    case LC_CONST: return emit_const(e, x);
    case LC_LANES: return emit_lanes(e, x);
    case LC_REDUCE: return emit_reduce(e, x);
    case LC_ARITHMETIC:
    case LC_FLOAT:
    case LC_DIVIDE:
    case LC_BITS:
    case LC_SHIFT: return emit_binary(e, x);
    case LC_MULADD: return emit_muladd(e, x);
    case LC_SIGN: return x->op == L_FNEG ? LLVMBuildFNeg(e->b, arg(e, x, 0), "") : emit_intrinsic(e, x);
    case LC_MIN_MAX:
    case LC_SQRT:
    case LC_ROUND: return emit_intrinsic(e, x);
    case LC_COMPARE: return emit_compare(e, x);
    case LC_SELECT: return LLVMBuildSelect(e->b, arg(e, x, 0), arg(e, x, 1), arg(e, x, 2), "");
    case LC_RESIZE:
    case LC_TO_FLOAT:
    case LC_TO_INT:
        if (x->op == L_RINTI || x->op == L_RINTSAT) return emit_rounded(e, arg(e, x, 0), x->type.lanes);
        if (x->op == L_SATU8 || x->op == L_SATS8)
            return emit_saturated(e, arg(e, x, 0), x->type.lanes, x->op == L_SATS8);
        return emit_cast(e, x, (LLVMOpcode)in_llvm[x->op].ints);
    case LC_PRECISION:
        if (x->op == L_FTRUNC && x->type.kind == LK_BF16) return emit_to_bf16(e, x);
        if (x->op == L_FEXT) return emit_widened(e, x);
        return emit_cast(e, x, (LLVMOpcode)in_llvm[x->op].ints);
    case LC_BITCAST: return emit_bitcast(e, x);
    case LC_DOT:
    case LC_BLOCK: return emit_dot(e, x);
    case LC_PLACE:
    case LC_MEMORY:
    case LC_POINTER:
    case LC_VARIABLE:
    case LC_CONTROL:
    case LC_CALL:
    case LC_TILE:
    case LC_THREADS:
    case LC_GPU:
    case LC_COMMENT: break;
    }
    diag_defect(e->diag, NULL, "function %s: %s has effects", e->f->name, lop_name(x->op));
}
