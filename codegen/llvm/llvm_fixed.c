// What LLVM 19 gets wrong on Helium, after LLVM's passes.
//
// It makes one instruction (VCVT with a number of fraction bits) of a conversion between f32 and integers and a product with a power of
// two, but takes that number for a value, and encodes its register, where the function has the number as a constant of its own
// (ARMDAGToDAGISel::transformFixedFloatingPointConversion). Here both become the intrinsic of that instruction, whose number is always
// a constant.
//
// VCMP with 0 or a scalar has that as its second operand: LLVM makes the condition x < c of c > x, which VCMP defines as not x >= c, so
// that it holds where x is no number. Here it becomes -x > -c, or 0 an operand of its own, which -0 is. So do the halves of
// x < c or x > c, which LLVM itself makes of comparisons with infinity.
#include "codegen/llvm/llvm_impl.h"
#include <math.h>

enum { LANES = 4, WORD = 32 };

static bool has_opcode(LLVMValueRef v, LLVMOpcode a, LLVMOpcode b) {
    return LLVMIsAInstruction(v) && (LLVMGetInstructionOpcode(v) == a || LLVMGetInstructionOpcode(v) == b);
}

static LLVMTypeKind lane_kind(LLVMValueRef v) {
    LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetTypeKind(LLVMGetElementType(t))
                                                    : LLVMVoidTypeKind;
}

static unsigned lane_bits(LLVMValueRef v) { return LLVMGetIntTypeWidth(LLVMGetElementType(LLVMTypeOf(v))); }

// The exponent of 2 in all lanes of a constant that matter; 0: they hold something else.
static int exponent_of(LLVMValueRef v) {
    int exponent = 0;
    for (unsigned j = 0; j < LLVMGetVectorSize(LLVMTypeOf(v)); j++) {
        LLVMValueRef lane = LLVMIsAConstant(v) ? LLVMGetAggregateElement(v, j) : NULL;
        LLVMBool inexact;
        int own; // one more
        if (lane && LLVMIsUndef(lane)) continue;
        if (!lane || !LLVMIsAConstantFP(lane) || frexp(LLVMConstRealGetDouble(lane, &inexact), &own) != 0.5)
            return 0;
        if (exponent && own - 1 != exponent) return 0;
        exponent = own - 1;
    }
    return exponent;
}

// The operand that v, of f32, multiplies by 2^*exponent; NULL: v is something else. A sum of equal operands is such a product.
static LLVMValueRef scaled_operand(LLVMValueRef v, int *exponent) {
    if (lane_kind(v) != LLVMFloatTypeKind || !has_opcode(v, LLVMFMul, LLVMFAdd)) return NULL;
    LLVMValueRef a = LLVMGetOperand(v, 0), b = LLVMGetOperand(v, 1);
    bool sum = LLVMGetInstructionOpcode(v) == LLVMFAdd;
    *exponent = sum ? a == b : exponent_of(b);
    return *exponent ? a : NULL;
}

// The instruction on four lanes at a time, of words: bits of fractions in the integers.
static LLVMValueRef converted(emit *e, LLVMValueRef x, lkind to, int bits, bool is_signed) {
    int lanes = (int)LLVMGetVectorSize(LLVMTypeOf(x)), nparts = lanes < LANES ? 1 : lanes / LANES;
    LLVMValueRef *parts = ARENA_ARRAY(e->arena, LLVMValueRef, nparts);
    for (int j = 0; j < nparts; j++) {
        LLVMValueRef args[3] = {const_int(e, lt(LK_I32, 1), !is_signed), slice(e, x, j * LANES, LANES),
                                const_int(e, lt(LK_I32, 1), bits)};
        LLVMTypeRef types[2] = {type_of(e, lt(to, LANES)), LLVMTypeOf(args[1])};
        parts[j] = call_intrinsic(e, "llvm.arm.mve.vcvt.fix", types, 2, args, 3);
    }
    return slice(e, concat(e, parts, nparts), 0, lanes);
}

// An integer times 2^-bits, as f32.
static LLVMValueRef from_fixed(emit *e, LLVMValueRef v) {
    int exponent;
    LLVMValueRef cast = scaled_operand(v, &exponent);
    if (!cast || exponent >= 0 || exponent < -WORD || !has_opcode(cast, LLVMSIToFP, LLVMUIToFP)) return NULL;
    LLVMValueRef x = LLVMGetOperand(cast, 0);
    if (lane_bits(x) > WORD) return NULL;
    bool is_signed = LLVMGetInstructionOpcode(cast) == LLVMSIToFP;
    LLVMTypeRef words = type_of(e, lt(LK_I32, (int)LLVMGetVectorSize(LLVMTypeOf(x))));
    x = is_signed ? LLVMBuildSExt(e->b, x, words, "") : LLVMBuildZExt(e->b, x, words, "");
    return converted(e, x, LK_F32, -exponent, is_signed);
}

// f32 times 2^bits, as an integer.
static LLVMValueRef to_fixed(emit *e, LLVMValueRef v) {
    if (!has_opcode(v, LLVMFPToSI, LLVMFPToUI) || lane_kind(v) != LLVMIntegerTypeKind || lane_bits(v) > WORD)
        return NULL;
    int exponent;
    LLVMValueRef x = scaled_operand(LLVMGetOperand(v, 0), &exponent);
    if (!x || exponent < 0 || exponent > WORD) return NULL;
    bool is_signed = lane_bits(v) < WORD || LLVMGetInstructionOpcode(v) == LLVMFPToSI;
    return LLVMBuildTrunc(e->b, converted(e, x, LK_I32, exponent, is_signed), LLVMTypeOf(v), "");
}

static void replace(LLVMValueRef v, LLVMValueRef by) {
    LLVMValueRef operand = LLVMGetOperand(v, 0);
    LLVMReplaceAllUsesWith(v, by);
    LLVMInstructionEraseFromParent(v);
    if (!LLVMGetFirstUse(operand)) LLVMInstructionEraseFromParent(operand);
}

static bool is_splat(LLVMValueRef v) {
    if (!LLVMIsAShuffleVectorInst(v)) return LLVMIsAConstant(v);
    for (unsigned j = 0; j < LLVMGetNumMaskElements(v); j++)
        if (LLVMGetMaskValue(v, j) != 0) return false;
    return true;
}

// Whether the comparison is that of an element of the splat on side j with a smaller one, or the opposite of it.
static bool is_of_smaller(LLVMRealPredicate p, int j) {
    if (j) return p == LLVMRealOLT || p == LLVMRealOLE || p == LLVMRealUGT || p == LLVMRealUGE;
    return p == LLVMRealOGT || p == LLVMRealOGE || p == LLVMRealULT || p == LLVMRealULE;
}

static LLVMValueRef negated(emit *e, LLVMValueRef v, LLVMValueRef comparison) {
    LLVMPositionBuilderBefore(e->b, comparison);
    return LLVMBuildFNeg(e->b, v, "");
}

static void mend_comparison(emit *e, LLVMValueRef v) {
    LLVMValueRef x[2] = {LLVMGetOperand(v, 0), LLVMGetOperand(v, 1)};
    LLVMRealPredicate p = LLVMGetFCmpPredicate(v);
    LLVMTypeRef t = LLVMTypeOf(x[0]);
    if (LLVMGetTypeKind(t) != LLVMVectorTypeKind) return;
    LLVMValueRef zero = splat(e, LLVMConstReal(LLVMGetElementType(t), -0.0), (int)LLVMGetVectorSize(t));
    int other = is_splat(x[0]) && is_of_smaller(p, 0) ? 0 : 1;
    bool zeros = LLVMIsNull(x[0]) || LLVMIsNull(x[1]);
    if (!zeros && (!is_splat(x[other]) || !is_of_smaller(p, other))) return;
    for (int j = 0; j < 2; j++)
        if (LLVMIsNull(x[j])) LLVMSetOperand(v, (unsigned)j, zero);
        else if (!zeros) LLVMSetOperand(v, (unsigned)!j, negated(e, x[j], v));
}

// Two numbers that differ, or the opposite.
static LLVMValueRef halves_of(emit *e, LLVMValueRef v) {
    if (LLVMGetInstructionOpcode(v) != LLVMFCmp) return NULL;
    LLVMRealPredicate p = LLVMGetFCmpPredicate(v);
    LLVMValueRef x = LLVMGetOperand(v, 0), y = LLVMGetOperand(v, 1);
    if ((p != LLVMRealONE && p != LLVMRealUEQ) || LLVMGetTypeKind(LLVMTypeOf(x)) != LLVMVectorTypeKind)
        return NULL;
    bool differ = p == LLVMRealONE;
    LLVMValueRef more = LLVMBuildFCmp(e->b, differ ? LLVMRealOGT : LLVMRealUGE, x, y, "");
    LLVMValueRef less = LLVMBuildFCmp(e->b, differ ? LLVMRealOLT : LLVMRealULE, x, y, "");
    mend_comparison(e, more);
    mend_comparison(e, less);
    LLVMPositionBuilderBefore(e->b, v);
    return differ ? LLVMBuildOr(e->b, more, less, "") : LLVMBuildAnd(e->b, more, less, "");
}

static void mend_block(emit *e, LLVMBasicBlockRef block) {
    for (LLVMValueRef v = LLVMGetFirstInstruction(block), next; v; v = next) {
        next = LLVMGetNextInstruction(v);
        LLVMPositionBuilderBefore(e->b, v);
        LLVMValueRef halves = halves_of(e, v);
        if (halves) {
            LLVMReplaceAllUsesWith(v, halves);
            LLVMInstructionEraseFromParent(v);
            continue;
        }
        if (LLVMGetInstructionOpcode(v) == LLVMFCmp) mend_comparison(e, v);
        LLVMValueRef fixed = from_fixed(e, v);
        if (!fixed) fixed = to_fixed(e, v);
        if (fixed) replace(v, fixed);
    }
}

void mend_for_helium(emit *e) {
    if (!e->m->target->dot_across) return; // Helium
    for (LLVMValueRef f = LLVMGetFirstFunction(e->module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block; block = LLVMGetNextBasicBlock(block))
            mend_block(e, block);
}
