// SVE: vectors of fixed length are at the start of registers that may be longer. Out: products of bytes and of bf16, which
// LLVM has for whole registers only, and shuffles, which LLVM does in memory.
//
// Blocks, and the lanes that products take of an operand, are counted in each part of 128 bits, so four words that count
// for all of a vector are repeated in all parts.
#include "codegen/llvm/llvm_impl.h"

enum { PART_BITS = 128, PART_WORDS = 4 };

// ---------------------------------------------------------------- registers
static LLVMTypeRef register_type(const emit *e, lkind k) {
    return LLVMScalableVectorType(e->kinds[k], (unsigned)(PART_BITS / lkind_bits(k)));
}

static LLVMValueRef number(const emit *e, lkind k, int v) { return const_int(e, lt(k, 1), v); }

static LLVMValueRef to_register(emit *e, LLVMValueRef v, lkind k) {
    LLVMTypeRef types[2] = {register_type(e, k), LLVMTypeOf(v)};
    LLVMValueRef args[3] = {LLVMGetPoison(types[0]), v, number(e, LK_I64, 0)};
    return call_intrinsic(e, "llvm.vector.insert", types, 2, args, 3);
}

static LLVMValueRef from_register(emit *e, LLVMValueRef v, LLVMTypeRef to) {
    LLVMTypeRef types[2] = {to, LLVMTypeOf(v)};
    LLVMValueRef args[2] = {v, number(e, LK_I64, 0)};
    return call_intrinsic(e, "llvm.vector.extract", types, 2, args, 2);
}

// Four words in every part.
static LLVMValueRef repeat(emit *e, LLVMValueRef four) {
    LLVMTypeRef type = register_type(e, LK_I32);
    LLVMValueRef args[2] = {to_register(e, four, LK_I32), number(e, LK_I64, 0)};
    return call_intrinsic(e, "llvm.aarch64.sve.dupq.lane", &type, 1, args, 2);
}

// ---------------------------------------------------------------- products
typedef struct product {
    lop op;
    const char *whole, *lane_of_b, *lane_of_c; // the lane is the last argument
} product;

static const product products[] = {
    {L_DOT4_SS, "llvm.aarch64.sve.sdot", "llvm.aarch64.sve.sdot.lane", "llvm.aarch64.sve.sdot.lane"},
    {L_DOT4_UU, "llvm.aarch64.sve.udot", "llvm.aarch64.sve.udot.lane", "llvm.aarch64.sve.udot.lane"},
    {L_DOT4_US, "llvm.aarch64.sve.usdot", "llvm.aarch64.sve.sudot.lane", "llvm.aarch64.sve.usdot.lane"},
    {L_BLOCK_SS8, "llvm.aarch64.sve.smmla", NULL, NULL},
    {L_BLOCK_UU8, "llvm.aarch64.sve.ummla", NULL, NULL},
    {L_BLOCK_US8, "llvm.aarch64.sve.usmmla", NULL, NULL},
    {L_DOT2_BF16, "llvm.aarch64.sve.bfdot", "llvm.aarch64.sve.bfdot.lane.v2",
     "llvm.aarch64.sve.bfdot.lane.v2"},
    {L_BLOCK_BF16, "llvm.aarch64.sve.bfmmla", NULL, NULL}};

static const product *find_product(lop op) {
    const product *p = products;
    while (p->op != op) p++;
    return p;
}

static LLVMValueRef elements(emit *e, LLVMValueRef words, bool floats) {
    return LLVMBuildBitCast(e->b, words, register_type(e, floats ? LK_BF16 : LK_I8), "");
}

LLVMValueRef emit_sve_product(emit *e, lop op, LLVMValueRef acc, LLVMValueRef b, LLVMValueRef c,
                              const word_lane *l) {
    const product *p = find_product(op);
    bool floats = op == L_DOT2_BF16 || op == L_BLOCK_BF16;
    LLVMTypeRef type = LLVMTypeOf(acc), sum = register_type(e, LK_I32);
    LLVMValueRef args[4] = {to_register(e, acc, floats ? LK_F32 : LK_I32)}, r;
    const char *name = !l->four ? p->whole : l->of_b ? p->lane_of_b : p->lane_of_c;
    if (l->four) {
        args[1] = elements(e, to_register(e, l->of_b ? c : b, LK_I32), floats);
        args[2] = elements(e, repeat(e, l->four), floats);
        args[3] = number(e, LK_I32, l->lane);
    } else {
        args[1] = elements(e, to_register(e, b, LK_I32), floats);
        args[2] = elements(e, to_register(e, c, LK_I32), floats);
    }
    r = call_intrinsic(e, name, &sum, !floats, args, l->four ? 4 : 3);
    return from_register(e, r, type);
}

LLVMValueRef emit_sve_muladd(emit *e, const ins *x) {
    const ins *four;
    int bits = x->type.lanes * lkind_bits(x->type.kind);
    if (e->t->sve_bits <= PART_BITS || x->type.kind != LK_F32 || bits != e->t->vector_bits) return NULL;
    int lane = lane_of_four(x->args[0], &four);
    if (lane < 0) return NULL;
    LLVMTypeRef type = register_type(e, LK_F32);
    LLVMValueRef words = LLVMBuildBitCast(e->b, value_of(e, four), type_of(e, lt(LK_I32, PART_WORDS)), "");
    LLVMValueRef all = LLVMBuildBitCast(e->b, repeat(e, words), type, "");
    LLVMValueRef args[4] = {to_register(e, value_of(e, x->args[2]), LK_F32),
                            to_register(e, value_of(e, x->args[1]), LK_F32), all, number(e, LK_I32, lane)};
    LLVMValueRef r = call_intrinsic(e, "llvm.aarch64.sve.fmla.lane", &type, 1, args, 4);
    return from_register(e, r, type_of(e, x->type));
}

// ---------------------------------------------------------------- shuffles
static bool repeats_four(const ins *x) {
    bool all = x->args[0]->type.lanes == PART_WORDS && lkind_bits(x->type.kind) == 32;
    for (int i = 0; i < x->type.lanes; i++) all = all && x->mask[i] == i % PART_WORDS;
    return all;
}

static bool has_table(const emit *e, ltype t) {
    int bits = lkind_bits(t.kind), all = bits * t.lanes;
    return bits >= 8 && all <= e->t->vector_bits && !(t.lanes & (t.lanes - 1));
}

// The lanes of one operand that the mask names, as bits; others have any value.
static LLVMValueRef look_up(emit *e, const ins *x, int operand) {
    static const lkind ints[] = {[8] = LK_I8, [16] = LK_I16, [32] = LK_I32, [64] = LK_I64};
    int lanes = x->type.lanes, from = x->args[0]->type.lanes;
    lkind k = ints[lkind_bits(x->type.kind)];
    LLVMValueRef *at = ARENA_ARRAY(e->arena, LLVMValueRef, lanes), v = value_of(e, x->args[operand]);
    for (int i = 0; i < lanes; i++) {
        int lane = x->mask[i] - operand * from;
        at[i] = number(e, k, lane < 0 || lane >= from ? 0 : lane);
    }
    LLVMTypeRef type = register_type(e, k);
    v = LLVMBuildBitCast(e->b, v, type_of(e, lt(k, from)), "");
    LLVMValueRef args[2] = {to_register(e, v, k), to_register(e, LLVMConstVector(at, (unsigned)lanes), k)};
    LLVMValueRef r = call_intrinsic(e, "llvm.aarch64.sve.tbl", &type, 1, args, 2);
    return LLVMBuildBitCast(e->b, from_register(e, r, type_of(e, lt(k, lanes))), type_of(e, x->type), "");
}

LLVMValueRef emit_sve_shuffle(emit *e, const ins *x) {
    int lanes = x->type.lanes, from = x->args[0]->type.lanes, second = 0, in_order = 0;
    if (!e->t->sve_bits || lkind_bits(x->type.kind) * lanes <= PART_BITS) return NULL;
    if (repeats_four(x)) {
        LLVMTypeRef type = type_of(e, x->type), words = type_of(e, lt(LK_I32, lanes));
        LLVMValueRef four =
            LLVMBuildBitCast(e->b, value_of(e, x->args[0]), type_of(e, lt(LK_I32, PART_WORDS)), "");
        return LLVMBuildBitCast(e->b, from_register(e, repeat(e, four), words), type, "");
    }
    for (int i = 0; i < lanes; i++) second += x->mask[i] >= from, in_order += x->mask[i] == x->mask[0] + i;
    if (in_order == lanes || !has_table(e, x->type) || !has_table(e, x->args[0]->type)) return NULL;
    if (!second || second == lanes) return look_up(e, x, second > 0);
    LLVMValueRef *first = ARENA_ARRAY(e->arena, LLVMValueRef, lanes);
    for (int i = 0; i < lanes; i++) first[i] = number(e, LK_I1, x->mask[i] < from);
    return LLVMBuildSelect(e->b, LLVMConstVector(first, (unsigned)lanes), look_up(e, x, 0), look_up(e, x, 1),
                           "");
}
