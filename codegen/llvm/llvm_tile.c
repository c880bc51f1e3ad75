// Matrix tiles as AMX instructions, by the intrinsics that name the tile register. LLVM's own allocation of tiles
// (x86_amx) would configure them once more for each call and spill them around it; the two must not be mixed.
#include "codegen/llvm/llvm_impl.h"
#include "ir/loops/loops_tiles.h"

static LLVMValueRef number(emit *e, int64_t tile) { return LLVMConstInt(e->kinds[LK_I8], (unsigned)tile, 0); }

static LLVMValueRef transfer(emit *e, const ins *x, const char *name) {
    LLVMValueRef stride = value_of(e, x->args[1]);
    LLVMValueRef args[] = {number(e, x->i), value_of(e, x->args[0]), stride};
    return call_target_intrinsic(e, name, args, 3);
}

static LLVMValueRef multiply(emit *e, const ins *x, const char *name) {
    LLVMValueRef args[3];
    for (int i = 0; i < 3; i++) args[i] = number(e, tile_of_dot(x, i));
    return call_target_intrinsic(e, name, args, 3);
}

static const char *const products[L_COUNT] = {
    [L_TILE_UU8] = "llvm.x86.tdpbuud",    [L_TILE_US8] = "llvm.x86.tdpbusd",
    [L_TILE_SU8] = "llvm.x86.tdpbsud",    [L_TILE_SS8] = "llvm.x86.tdpbssd",
    [L_TILE_BF16] = "llvm.x86.tdpbf16ps",
};

LLVMValueRef emit_tile(emit *e, const ins *x) {
    if (products[x->op]) return multiply(e, x, products[x->op]);
    if (x->op == L_TILE_LOAD) return transfer(e, x, "llvm.x86.tileloadd64");
    if (x->op == L_TILE_STORE) return transfer(e, x, "llvm.x86.tilestored64");
    if (x->op == L_TILE_RELEASE) return call_target_intrinsic(e, "llvm.x86.tilerelease", NULL, 0);
    LLVMValueRef one = x->op == L_TILE_ZERO ? number(e, x->i) : value_of(e, x->args[0]);
    return call_target_intrinsic(e, x->op == L_TILE_ZERO ? "llvm.x86.tilezero" : "llvm.x86.ldtilecfg", &one,
                                 1);
}
