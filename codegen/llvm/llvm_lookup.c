// Lookups of bytes in a table of 256 by vector instructions that find bytes in registers (x86 pshufb and vpermi2b, AArch64
// tbl): the table is in one or several registers. In: the table's address, a vector of bytes. Out: the bytes at these
// positions.
#include "codegen/llvm/llvm_impl.h"

enum { TABLE = 256, PART = 16, FEW = 16 };

static LLVMTypeRef bytes_type(emit *e, int lanes) { return type_of(e, lt(LK_I8, lanes)); }

static LLVMValueRef load_part(emit *e, LLVMValueRef table, int at, int lanes) {
    LLVMValueRef offset = const_int(e, lt(LK_I32, 1), at);
    LLVMValueRef p = LLVMBuildGEP2(e->b, e->kinds[LK_I8], table, &offset, 1, "");
    LLVMValueRef v = LLVMBuildLoad2(e->b, bytes_type(e, lanes), p, "");
    LLVMSetAlignment(v, 1);
    return v;
}

// Lanes of a where the bit of x is 0, of b where it is 1.
static LLVMValueRef chosen(emit *e, LLVMValueRef x, int bit, LLVMValueRef a, LLVMValueRef b) {
    ltype t = lt(LK_I8, (int)LLVMGetVectorSize(LLVMTypeOf(x)));
    LLVMValueRef up = LLVMBuildShl(e->b, x, const_int(e, t, 7 - bit), "");
    return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, up, const_int(e, t, 0), ""), b, a, "");
}

// Each part of 16 bytes is looked up; the upper bits tell which part counts.
static LLVMValueRef by_parts(emit *e, LLVMValueRef table, LLVMValueRef x, int lanes) {
    const char *name = lanes == 64 ? "llvm.x86.avx512.pshuf.b.512" : "llvm.x86.avx2.pshuf.b";
    LLVMValueRef found[TABLE / PART],
        low = LLVMBuildAnd(e->b, x, const_int(e, lt(LK_I8, lanes), PART - 1), ""), mask[64];
    for (int i = 0; i < lanes; i++) mask[i] = LLVMConstInt(e->kinds[LK_I32], (unsigned)(i % PART), 0);
    for (int j = 0; j < TABLE / PART; j++) {
        LLVMValueRef part = load_part(e, table, PART * j, PART);
        part = LLVMBuildShuffleVector(e->b, part, part, LLVMConstVector(mask, (unsigned)lanes), "");
        found[j] = call_target_intrinsic(e, name, (LLVMValueRef[]){part, low}, 2);
    }
    for (int bit = 4, n = TABLE / PART; bit < 8; bit++, n /= 2)
        for (int j = 0; j < n / 2; j++) found[j] = chosen(e, x, bit, found[2 * j], found[2 * j + 1]);
    return found[0];
}

static LLVMValueRef by_halves(emit *e, LLVMValueRef table, LLVMValueRef x) {
    LLVMValueRef half[2];
    for (int j = 0; j < 2; j++) {
        LLVMValueRef args[3] = {load_part(e, table, 128 * j, 64), x, load_part(e, table, 128 * j + 64, 64)};
        half[j] = call_target_intrinsic(e, "llvm.x86.avx512.vpermi2var.qi.512", args, 3);
    }
    return chosen(e, x, 7, half[0], half[1]);
}

// Positions beyond the four registers of one instruction leave what others found.
static LLVMValueRef by_quarters(emit *e, LLVMValueRef table, LLVMValueRef x) {
    LLVMTypeRef type = bytes_type(e, PART);
    LLVMValueRef found = NULL;
    for (int j = 0; j < 4; j++) {
        LLVMValueRef args[6] = {found};
        for (int i = 0; i < 4; i++) args[1 + i] = load_part(e, table, 64 * j + PART * i, PART);
        args[5] = LLVMBuildSub(e->b, x, const_int(e, lt(LK_I8, PART), 64 * j), "");
        found = j ? call_intrinsic(e, "llvm.aarch64.neon.tbx4", &type, 1, args, 6)
                  : call_intrinsic(e, "llvm.aarch64.neon.tbl4", &type, 1, args + 1, 5);
    }
    return found;
}

static LLVMValueRef look_up(emit *e, LLVMValueRef table, LLVMValueRef x, int lanes, int width) {
    bool arm = e->t->arch.dot == DOT_AARCH64;
    if (lanes < width) return slice(e, look_up(e, table, joined_lanes(e, x, x), 2 * lanes, width), 0, lanes);
    if (lanes > width)
        return joined_lanes(e, look_up(e, table, slice(e, x, 0, lanes / 2), lanes / 2, width),
                            look_up(e, table, slice(e, x, lanes / 2, lanes / 2), lanes / 2, width));
    if (arm) return by_quarters(e, table, x);
    return e->t->permutes_bytes ? by_halves(e, table, x) : by_parts(e, table, x, width);
}

LLVMValueRef emit_byte_lookup(emit *e, LLVMValueRef table, LLVMValueRef x, int lanes) {
    bool arm = e->t->arch.dot == DOT_AARCH64, even = !(lanes & (lanes - 1));
    if (!e->t->arch.looks_up_bytes || !even || lanes < FEW || e->t->vector_bits < (arm ? 128 : 256))
        return NULL;
    bool wide = e->t->permutes_bytes || (e->t->avx512 && lanes > 32);
    return look_up(e, table, x, lanes, arm ? PART : wide ? 64 : 32);
}
