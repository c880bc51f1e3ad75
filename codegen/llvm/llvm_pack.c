// i32 to bytes with saturation. In: vectors of i32. Out: with AVX-512 the packing instructions for two or four
// registers at a time, which work within lanes of 128 bits, so a permutation of words puts the bytes in order; on Helium its narrowing moves;
// otherwise minimum, maximum and truncation, which LLVM selects instructions for.
#include "codegen/llvm/llvm_impl.h"

static LLVMValueRef as(emit *e, LLVMValueRef x, lkind k, int lanes) {
    return LLVMBuildBitCast(e->b, x, type_of(e, lt(k, lanes)), "");
}

static LLVMValueRef two(emit *e, const char *name, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef args[2] = {x, y};
    return call_target_intrinsic(e, name, args, 2);
}

// Words of 32 bits of x in the order of `from`.
static LLVMValueRef reordered(emit *e, LLVMValueRef x, const int *from, int words) {
    LLVMValueRef *mask = ARENA_ARRAY(e->arena, LLVMValueRef, words);
    for (int j = 0; j < words; j++) mask[j] = const_int(e, lt(LK_I32, 1), from[j]);
    x = as(e, x, LK_I32, words);
    x = LLVMBuildShuffleVector(e->b, x, x, LLVMConstVector(mask, (unsigned)words), "");
    return as(e, x, LK_I8, 4 * words);
}

// Halves of 16 bits: each lane of 128 bits has the halves of the first register, then the halves of the second.
static LLVMValueRef halves(emit *e, LLVMValueRef x, int from) {
    return two(e, "llvm.x86.avx512.packssdw.512", slice(e, x, from, 16), slice(e, x, from + 16, 16));
}

static LLVMValueRef pack_four(emit *e, LLVMValueRef x, bool is_signed) {
    static const int order[] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const char *name = is_signed ? "llvm.x86.avx512.packsswb.512" : "llvm.x86.avx512.packuswb.512";
    return reordered(e, two(e, name, halves(e, x, 0), halves(e, x, 32)), order, 16);
}

static LLVMValueRef pack_two(emit *e, LLVMValueRef x, bool is_signed) {
    static const int order[] = {0, 4, 2, 6, 1, 5, 3, 7};
    LLVMValueRef h = halves(e, x, 0);
    const char *name = is_signed ? "llvm.x86.avx2.packsswb" : "llvm.x86.avx2.packuswb";
    return reordered(e, two(e, name, slice(e, h, 0, 16), slice(e, h, 16, 16)), order, 8);
}

// Helium saturates to half of a lane's bits at a time, twice, and leaves the byte in the lowest of each word.
static LLVMValueRef narrow_words(emit *e, LLVMValueRef x, bool is_signed) {
    static const lkind kinds[] = {LK_I32, LK_I16, LK_I8};
    for (int j = 0; j < 2; j++) {
        LLVMTypeRef types[2] = {type_of(e, lt(kinds[j + 1], 8 << j)), type_of(e, lt(kinds[j], 4 << j))};
        LLVMValueRef no = const_int(e, lt(LK_I32, 1), 0),
                     to_unsigned = const_int(e, lt(LK_I32, 1), j && !is_signed);
        LLVMValueRef args[5] = {LLVMGetUndef(types[0]), x, to_unsigned, no, no};
        x = call_intrinsic(e, "llvm.arm.mve.vqmovn", types, 2, args, 5);
    }
    return LLVMBuildTrunc(e->b, as(e, x, LK_I32, 4), type_of(e, lt(LK_I8, 4)), "");
}

LLVMValueRef emit_saturated(emit *e, LLVMValueRef x, int lanes, bool is_signed) {
    if (e->t->avx512 && lanes == 64) return pack_four(e, x, is_signed);
    if (e->t->avx512 && lanes == 32) return pack_two(e, x, is_signed);
    if (e->t->dot_across && lanes == 4) return narrow_words(e, x, is_signed);
    if (rounding_saturates(
            e->t)) { // LLVM would move an addition behind a minimum and a maximum, which are two instructions each then
        LLVMValueRef args[2] = {x, const_int(e, lt(LK_I32, 1), 8)};
        x = call_target_intrinsic(e, is_signed ? "llvm.arm.ssat" : "llvm.arm.usat", args, 2);
        return LLVMBuildTrunc(e->b, x, type_of(e, lt(LK_I8, 1)), "");
    }
    ltype type = lt(LK_I32, lanes);
    LLVMTypeRef overload = type_of(e, type);
    LLVMValueRef low[2] = {x, const_int(e, type, is_signed ? INT8_MIN : 0)};
    LLVMValueRef high[2] = {call_intrinsic(e, "llvm.smax", &overload, 1, low, 2),
                            const_int(e, type, is_signed ? INT8_MAX : UINT8_MAX)};
    x = call_intrinsic(e, "llvm.smin", &overload, 1, high, 2);
    return LLVMBuildTrunc(e->b, x, type_of(e, lt(LK_I8, lanes)), "");
}
