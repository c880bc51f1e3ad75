// Dot products of bytes and 16-bit integers in 32-bit lanes: one instruction if the target has it (x86 VNNI,
// AArch64 sdot and usdot, ARM smlad), otherwise 16-bit products (x86 pmaddwd, WebAssembly i32x4.dot_i16x8_s) or plain multiplications. All have
// the same bits. Products of blocks and of bf16 are instructions of AArch64. RISC-V adds products of 16 bits.
#include "codegen/llvm/llvm_impl.h"

typedef struct dot {
    lop op;
    int lanes;              // of the accumulator
    LLVMValueRef acc, b, c; // all of them lanes x i32
    word_lane word;         // SVE
} dot;

static LLVMTypeRef words(const emit *e, int lanes) { return type_of(e, lt(LK_I32, lanes)); }
static LLVMValueRef word(const emit *e, int lanes, int64_t v) { return const_int(e, lt(LK_I32, lanes), v); }

static bool first_is_signed(lop op) { return op != L_DOT4_US && op != L_DOT4_UU; }
static bool second_is_signed(lop op) { return op != L_DOT4_UU && op != L_DOT2_U8; }
static bool halves_by_bytes(lop op) { return op == L_DOT2_S8 || op == L_DOT2_U8; }
static bool adds_two(lop op) { return op == L_DOT2 || halves_by_bytes(op); }

// ---------------------------------------------------------------- plain
// Field j (bits wide) of each word, widened to the whole word.
static LLVMValueRef field(emit *e, LLVMValueRef x, int lanes, int j, int bits, bool is_signed) {
    int up = 32 - bits * (j + 1);
    if (up) x = LLVMBuildShl(e->b, x, word(e, lanes, up), "");
    LLVMValueRef down = word(e, lanes, 32 - bits);
    return is_signed ? LLVMBuildAShr(e->b, x, down, "") : LLVMBuildLShr(e->b, x, down, "");
}

static LLVMValueRef plain(emit *e, const dot *d) {
    int bits = adds_two(d->op) ? 16 : 8, of_c = d->op == L_DOT2 ? 16 : 8;
    LLVMValueRef sum = d->acc;
    for (int j = 0; j < 32 / bits; j++) {
        LLVMValueRef b = field(e, d->b, d->lanes, j, bits, first_is_signed(d->op));
        LLVMValueRef c = field(e, d->c, d->lanes, j * bits / of_c, of_c, second_is_signed(d->op));
        sum = LLVMBuildAdd(e->b, sum, LLVMBuildMul(e->b, b, c, ""), "");
    }
    return sum;
}

// ---------------------------------------------------------------- x86, WebAssembly
static LLVMValueRef vpdpbusd(emit *e, int lanes, LLVMValueRef acc, LLVMValueRef u, LLVMValueRef s) {
    LLVMValueRef args[3] = {acc, u, s};
    const char *name = lanes == 16  ? "llvm.x86.avx512.vpdpbusd.512"
                       : lanes == 8 ? "llvm.x86.avx512.vpdpbusd.256"
                                    : "llvm.x86.avx512.vpdpbusd.128";
    return call_target_intrinsic(e, name, args, 3);
}

// Signed times signed: b + 128 is unsigned, so 128 * c is subtracted from the result. Unsigned times unsigned: c - 128 is
// signed, so -128 * b is.
static LLVMValueRef x86_vnni(emit *e, const dot *d) {
    if (d->op == L_DOT4_US) return vpdpbusd(e, d->lanes, d->acc, d->b, d->c);
    LLVMValueRef offset = word(e, d->lanes, (int32_t)0x80808080u);
    if (d->op == L_DOT4_UU) {
        LLVMValueRef all = vpdpbusd(e, d->lanes, d->acc, d->b, LLVMBuildXor(e->b, d->c, offset, ""));
        return LLVMBuildSub(e->b, all, vpdpbusd(e, d->lanes, word(e, d->lanes, 0), d->b, offset), "");
    }
    LLVMValueRef sum = vpdpbusd(e, d->lanes, d->acc, LLVMBuildXor(e->b, d->b, offset, ""), d->c);
    LLVMValueRef extra = vpdpbusd(e, d->lanes, word(e, d->lanes, 0), offset, d->c);
    return LLVMBuildSub(e->b, sum, extra, "");
}

// Sums of two products of 16 bits in each lane of 32.
static LLVMValueRef products_of_halves(emit *e, int lanes, LLVMValueRef b, LLVMValueRef c) {
    LLVMTypeRef halves = type_of(e, lt(LK_I16, 2 * lanes));
    LLVMValueRef args[2] = {LLVMBuildBitCast(e->b, b, halves, ""), LLVMBuildBitCast(e->b, c, halves, "")};
    const char *name = e->t->arch.dot == DOT_WASM ? "llvm.wasm.dot"
                       : lanes == 16              ? "llvm.x86.avx512.pmaddw.d.512"
                       : lanes == 8               ? "llvm.x86.avx2.pmadd.wd"
                                                  : "llvm.x86.sse2.pmadd.wd";
    return call_target_intrinsic(e, name, args, 2);
}

// Bytes 0 and 2 (odd: 1 and 3) of each word, widened to halves.
static LLVMValueRef bytes_as_halves(emit *e, LLVMValueRef x, int lanes, bool odd, bool is_signed) {
    ltype halves = lt(LK_I16, 2 * lanes);
    LLVMValueRef eight = const_int(e, halves, 8);
    x = LLVMBuildBitCast(e->b, x, type_of(e, halves), "");
    if (!odd) x = LLVMBuildShl(e->b, x, eight, "");
    return is_signed ? LLVMBuildAShr(e->b, x, eight, "") : LLVMBuildLShr(e->b, x, eight, "");
}

static LLVMValueRef by_halves(emit *e, const dot *d) {
    if (adds_two(d->op)) {
        LLVMValueRef c = d->c;
        if (halves_by_bytes(d->op)) c = bytes_as_halves(e, c, d->lanes, false, second_is_signed(d->op));
        return LLVMBuildAdd(e->b, d->acc, products_of_halves(e, d->lanes, d->b, c), "");
    }
    LLVMValueRef sum = d->acc;
    for (int odd = 0; odd < 2; odd++) {
        LLVMValueRef b = bytes_as_halves(e, d->b, d->lanes, odd, first_is_signed(d->op));
        LLVMValueRef c = bytes_as_halves(e, d->c, d->lanes, odd, second_is_signed(d->op));
        sum = LLVMBuildAdd(e->b, sum, products_of_halves(e, d->lanes, b, c), "");
    }
    return sum;
}

static LLVMValueRef x86_pairs(emit *e, const dot *d) {
    LLVMTypeRef halves = type_of(e, lt(LK_BF16, 2 * d->lanes));
    LLVMValueRef args[3] = {d->acc, LLVMBuildBitCast(e->b, d->b, halves, ""),
                            LLVMBuildBitCast(e->b, d->c, halves, "")};
    const char *name = d->lanes == 16  ? "llvm.x86.avx512bf16.dpbf16ps.512"
                       : d->lanes == 8 ? "llvm.x86.avx512bf16.dpbf16ps.256"
                                       : "llvm.x86.avx512bf16.dpbf16ps.128";
    return call_target_intrinsic(e, name, args, 3);
}

// ---------------------------------------------------------------- ARM
// Sums of products of bytes.
static LLVMValueRef aarch64_bytes(emit *e, const char *name, LLVMValueRef acc, LLVMValueRef b,
                                  LLVMValueRef c) {
    LLVMTypeRef types[2] = {words(e, 4), type_of(e, lt(LK_I8, 16))};
    LLVMValueRef args[3] = {acc, LLVMBuildBitCast(e->b, b, types[1], ""),
                            LLVMBuildBitCast(e->b, c, types[1], "")};
    return call_intrinsic(e, name, types, 2, args, 3);
}

static LLVMValueRef sve_product(emit *e, const dot *d) {
    return emit_sve_product(e, d->op, d->acc, d->b, d->c, &d->word);
}

// Without usdot: b - 128 is signed, so 128 * c is added to the result.
static LLVMValueRef aarch64_dot(emit *e, const dot *d) {
    static const char sdot[] = "llvm.aarch64.neon.sdot";
    if (d->op == L_DOT4_SS) return aarch64_bytes(e, sdot, d->acc, d->b, d->c);
    if (d->op == L_DOT4_UU) return aarch64_bytes(e, "llvm.aarch64.neon.udot", d->acc, d->b, d->c);
    if (e->t->i8mm) return aarch64_bytes(e, "llvm.aarch64.neon.usdot", d->acc, d->b, d->c);
    LLVMValueRef offset = word(e, 4, (int32_t)0x80808080u);
    LLVMValueRef sum = aarch64_bytes(e, sdot, d->acc, LLVMBuildXor(e->b, d->b, offset, ""), d->c);
    return LLVMBuildSub(e->b, sum, aarch64_bytes(e, sdot, word(e, 4, 0), offset, d->c), "");
}

// Without the dot product: sums of two 16-bit products each, from the low and from the high bytes.
static LLVMValueRef aarch64_halves(emit *e, const dot *d) {
    bool is_signed = d->op != L_DOT4_UU;
    LLVMTypeRef bytes = type_of(e, lt(LK_I8, 16)), halves = type_of(e, lt(LK_I16, 8)),
                types[2] = {words(e, 4), halves};
    LLVMValueRef b = LLVMBuildBitCast(e->b, d->b, bytes, ""), c = LLVMBuildBitCast(e->b, d->c, bytes, ""),
                 product[2], sum[2];
    const char *widening_sum = is_signed ? "llvm.aarch64.neon.saddlp" : "llvm.aarch64.neon.uaddlp";
    for (int i = 0; i < 2; i++) {
        LLVMValueRef part[2] = {slice(e, b, 8 * i, 8), slice(e, c, 8 * i, 8)};
        product[i] = call_intrinsic(e, is_signed ? "llvm.aarch64.neon.smull" : "llvm.aarch64.neon.umull",
                                    &halves, 1, part, 2);
    }
    if (d->op == L_DOT4_SH) {
        sum[0] = call_intrinsic(e, "llvm.aarch64.neon.addp", &halves, 1, product, 2);
        return LLVMBuildAdd(e->b, d->acc, call_intrinsic(e, widening_sum, types, 2, sum, 1), "");
    }
    for (int i = 0; i < 2; i++) sum[i] = call_intrinsic(e, widening_sum, types, 2, &product[i], 1);
    return LLVMBuildAdd(e->b, d->acc, call_intrinsic(e, "llvm.aarch64.neon.addp", types, 1, sum, 2), "");
}

static LLVMValueRef aarch64_block(emit *e, const dot *d) {
    if (d->op == L_BLOCK_SS8) return aarch64_bytes(e, "llvm.aarch64.neon.smmla", d->acc, d->b, d->c);
    if (d->op == L_BLOCK_UU8) return aarch64_bytes(e, "llvm.aarch64.neon.ummla", d->acc, d->b, d->c);
    if (d->op == L_BLOCK_US8) return aarch64_bytes(e, "llvm.aarch64.neon.usmmla", d->acc, d->b, d->c);
    LLVMTypeRef types[2] = {type_of(e, lt(LK_F32, 4)), type_of(e, lt(LK_BF16, 8))};
    LLVMValueRef c = LLVMIsABitCastInst(d->c) ? LLVMGetOperand(d->c, 0) : d->c; // a lane of floats stays one
    LLVMValueRef args[3] = {d->acc, LLVMBuildBitCast(e->b, d->b, types[1], ""),
                            LLVMBuildBitCast(e->b, c, types[1], "")};
    if (d->op == L_DOT2_BF16) return call_intrinsic(e, "llvm.aarch64.neon.bfdot", types, 2, args, 3);
    return call_target_intrinsic(e, "llvm.aarch64.neon.bfmmla", args, 3);
}

// Whether x is shifted down by a byte; *from: what is shifted.
static bool is_next_byte(LLVMValueRef x, LLVMValueRef *from) {
    if (!LLVMIsAInstruction(x) || LLVMGetInstructionOpcode(x) != LLVMLShr) return false;
    LLVMValueRef by = LLVMGetOperand(x, 1);
    *from = LLVMGetOperand(x, 0);
    return LLVMIsAConstantInt(by) && LLVMConstIntGetZExtValue(by) == 8;
}

// The instruction that widens bytes 0 and 2 rotates its operand.
static LLVMValueRef two_bytes(emit *e, LLVMValueRef x, bool odd, bool is_signed) {
    LLVMTypeRef type = words(e, 1);
    odd |= !odd && is_next_byte(x, &x);
    LLVMValueRef rotated[3] = {x, x, word(e, 1, 24)};
    if (odd) x = call_intrinsic(e, "llvm.fshl", &type, 1, rotated, 3);
    return call_target_intrinsic(e, is_signed ? "llvm.arm.sxtb16" : "llvm.arm.uxtb16", &x, 1);
}

static LLVMValueRef smlad(emit *e, LLVMValueRef b, LLVMValueRef c, LLVMValueRef acc) {
    return call_target_intrinsic(e, "llvm.arm.smlad", (LLVMValueRef[]){b, c, acc}, 3);
}

static LLVMValueRef arm_dsp(emit *e, const dot *d) {
    if (d->op == L_DOT2) return smlad(e, d->b, d->c, d->acc);
    if (adds_two(d->op)) return smlad(e, d->b, two_bytes(e, d->c, false, second_is_signed(d->op)), d->acc);
    LLVMValueRef sum = d->acc;
    for (int odd = 0; odd < 2; odd++)
        sum = smlad(e, two_bytes(e, d->b, odd, first_is_signed(d->op)),
                    two_bytes(e, d->c, odd, second_is_signed(d->op)), sum);
    return sum;
}

// ---------------------------------------------------------------- choice
typedef LLVMValueRef dot_fn(emit *e, const dot *d);

// The function for this target, with its maximum of lanes, and minimum among smaller powers of two.
static dot_fn *choose(const emit *e, lop op, int *most, int *least) {
    const target *t = e->t;
    *least = 4;
    *most = t->vector_bits / 32;
    if (op == L_PAIR_BF16) return x86_pairs;
    if (t->arch.dot == DOT_X86) return t->vnni && !adds_two(op) ? x86_vnni : by_halves;
    if (t->arch.dot == DOT_WASM && t->vector_bits) return by_halves;
    bool mixed = op == L_DOT4_US && !t->i8mm;
    if (t->sve_bits && !adds_two(op) && !mixed) return sve_product;
    if (lop_class(op) == LC_BLOCK || (t->arch.dot == DOT_AARCH64 && t->vnni && !adds_two(op))) {
        *most = 4;
        return lop_class(op) == LC_BLOCK ? aarch64_block : aarch64_dot;
    }
    if (t->arch.dot == DOT_AARCH64 && t->vector_bits && !adds_two(op) && op != L_DOT4_US) {
        *most = 4;
        return aarch64_halves;
    }
    if (t->arch.dot == DOT_ARM && t->dsp && !t->vector_bits) {
        *most = *least = 1;
        return arm_dsp;
    }
    *most = *least = 0;
    return plain;
}

static LLVMValueRef as_words(emit *e, LLVMValueRef v, int lanes) {
    return LLVMBuildBitCast(e->b, v, words(e, lanes), "");
}

int lane_of_four(const ins *operand, const ins **four) {
    while (operand->op == L_BITCAST && operand->args[0]->type.lanes == operand->type.lanes)
        operand = operand->args[0];
    const ins *one = operand->op == L_SPLAT ? operand->args[0] : operand;
    if (one == operand || one->op != L_EXTRACT || one->args[0]->type.lanes != 4) return -1;
    *four = one->args[0];
    return lkind_bits(one->type.kind) == 32 ? (int)one->i : -1;
}

static word_lane find_lane(emit *e, const ins *x) {
    const ins *four;
    for (int i = 1; i < 3 && e->t->sve_bits && (lop_class(x->op) == LC_DOT || x->op == L_DOT2_BF16); i++) {
        int lane = lane_of_four(x->args[i], &four);
        if (lane >= 0) return (word_lane){as_words(e, value_of(e, four), 4), lane, i == 1};
    }
    return (word_lane){0};
}

LLVMValueRef emit_dot(emit *e, const ins *x) {
    int lanes = x->type.lanes, most, least;
    dot_fn *fn = choose(e, x->op, &most, &least);
    dot d = {x->op,
             lanes,
             value_of(e, x->args[0]),
             as_words(e, value_of(e, x->args[1]), lanes),
             as_words(e, value_of(e, x->args[2]), lanes),
             find_lane(e, x)};
    bool power = !(lanes & (lanes - 1));
    if (!power || lanes < least || (least == 1 && lanes > 1)) fn = plain;
    if (fn == plain || lanes <= most) return fn(e, &d);
    LLVMValueRef *parts = ARENA_ARRAY(e->arena, LLVMValueRef, lanes / most);
    for (int i = 0; i < lanes; i += most) {
        dot part = d;
        part.lanes = most;
        part.acc = slice(e, d.acc, i, most), part.b = slice(e, d.b, i, most), part.c = slice(e, d.c, i, most);
        parts[i / most] = fn(e, &part);
    }
    return concat(e, parts, lanes / most);
}

// ---------------------------------------------------------------- RISC-V
// Whether x widens lanes of at most 16 bits to 32, as signed 16 bits hold them.
static bool widens_halves(const ins *x) {
    if (x->op != L_SEXT && x->op != L_ZEXT) return false;
    lkind from = (lkind)x->args[0]->type.kind;
    return x->type.lanes > 1 && (from == LK_I8 || (from == LK_I16 && x->op == L_SEXT));
}

// Its lanes as 16 bits.
static LLVMValueRef halves_of(emit *e, const ins *x) {
    LLVMValueRef from = value_of(e, x->args[0]);
    if (x->args[0]->type.kind == LK_I16) return from;
    LLVMOpcode op = x->op == L_SEXT ? LLVMSExt : LLVMZExt;
    return LLVMBuildCast(e->b, op, from, type_of(e, lt(LK_I16, x->type.lanes)), "");
}

// A vector whose length is a multiple of the shortest register's.
static LLVMTypeRef scalable(const emit *e, lkind k, int lanes) {
    int unit = e->t->register_bits / 64;
    return LLVMScalableVectorType(e->kinds[k], (unsigned)(lanes > unit ? lanes / unit : 1));
}

static LLVMValueRef as_scalable(emit *e, LLVMValueRef v, lkind k, int lanes) {
    LLVMTypeRef types[2] = {scalable(e, k, lanes), LLVMTypeOf(v)};
    LLVMValueRef args[3] = {LLVMGetPoison(types[0]), v, const_int(e, lt(LK_I64, 1), 0)};
    return call_intrinsic(e, "llvm.vector.insert", types, 2, args, 3);
}

// LLVM finds vwmacc itself, but not in loops with many products.
static LLVMValueRef vwmacc(emit *e, LLVMValueRef acc, const ins *a, const ins *b, int lanes) {
    enum { TAIL_AGNOSTIC = 1 };
    const ins *from = a->args[0];
    bool one = from->op == L_SPLAT && from->type.kind == LK_I16;
    ltype index = lt(e->t->ptr_bits == 64 ? LK_I64 : LK_I32, 1);
    LLVMValueRef x = one ? value_of(e, from->args[0]) : as_scalable(e, halves_of(e, a), LK_I16, lanes);
    LLVMValueRef args[5] = {as_scalable(e, acc, LK_I32, lanes), x,
                            as_scalable(e, halves_of(e, b), LK_I16, lanes), const_int(e, index, lanes),
                            const_int(e, index, TAIL_AGNOSTIC)};
    LLVMTypeRef types[4] = {LLVMTypeOf(args[0]), LLVMTypeOf(x), LLVMTypeOf(args[2]), type_of(e, index)};
    LLVMValueRef sum = call_intrinsic(e, "llvm.riscv.vwmacc", types, 4, args, 5);
    LLVMTypeRef back[2] = {words(e, lanes), types[0]};
    LLVMValueRef place[2] = {sum, const_int(e, lt(LK_I64, 1), 0)};
    return call_intrinsic(e, "llvm.vector.extract", back, 2, place, 2);
}

// VMLADAVA: a scalar and all products of two vectors of bytes, or of 16 bits where only one has signs. LLVM finds it itself if all
// operations are in one block, but moves those on operands that stay in registers out of loops.
static LLVMValueRef sum_across(emit *e, const ins *x) {
    const ins *sum = x->args[1], *product = sum->op == L_HADD ? sum->args[0] : sum;
    int lanes = product->type.lanes;
    if (x->op != L_ADD || sum->op != L_HADD || product->op != L_MUL || x->type.kind != LK_I32) return NULL;
    const ins *a = product->args[0], *b = product->args[1];
    if (!widens_halves(a) || !widens_halves(b)) return NULL;
    bool bytes = a->args[0]->type.kind == LK_I8 && b->args[0]->type.kind == LK_I8 && a->op == b->op;
    if (lanes * (bytes ? 8 : 16) != e->t->vector_bits) return NULL;
    LLVMTypeRef type = type_of(e, lt(bytes ? LK_I8 : LK_I16, lanes));
    LLVMValueRef no = const_int(e, lt(LK_I32, 1), 0);
    LLVMValueRef args[6] = {const_int(e, lt(LK_I32, 1), bytes && a->op == L_ZEXT),
                            no,
                            no,
                            value_of(e, x->args[0]),
                            bytes ? value_of(e, a->args[0]) : halves_of(e, a),
                            bytes ? value_of(e, b->args[0]) : halves_of(e, b)};
    return call_intrinsic(e, "llvm.arm.mve.vmldava", &type, 1, args, 6);
}

LLVMValueRef emit_widened_product(emit *e, const ins *x) {
    enum { MOST_REGISTERS = 8 };
    const target *t = e->t;
    if (t->dot_across) return sum_across(e, x);
    int lanes = x->type.lanes;
    bool fits = lanes * 32 <= MOST_REGISTERS * t->register_bits && !(lanes & (lanes - 1));
    if (!t->arch.widens_products || !fits || x->op != L_ADD || x->type.kind != LK_I32) return NULL;
    for (int j = 0; j < 2; j++) {
        const ins *product = x->args[j];
        if (product->op == L_MUL && widens_halves(product->args[0]) && widens_halves(product->args[1]))
            return vwmacc(e, value_of(e, x->args[1 - j]), product->args[0], product->args[1], lanes);
    }
    return NULL;
}
