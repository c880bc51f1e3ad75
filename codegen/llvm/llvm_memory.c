// In: loads, stores and addresses. Out: LLVM IR. Addresses are byte offsets with constants last, so that
// neighbouring accesses share a base register. Partial vectors are masked if the target has masks, otherwise
// copied element by element through a stack buffer.
#include "codegen/llvm/llvm_impl.h"

static LLVMTypeRef index_type(const emit *e) { return e->kinds[e->t->ptr_bits == 64 ? LK_I64 : LK_I32]; }
static LLVMValueRef index_const(const emit *e, int64_t v) {
    return LLVMConstInt(index_type(e), (unsigned long long)v, 1);
}

static LLVMValueRef to_index(emit *e, const ins *x) {
    LLVMValueRef v = value_of(e, x);
    int bits = kind_bits(e, x->type.kind);
    if (bits == e->t->ptr_bits) return v;
    return LLVMBuildCast(e->b, bits < e->t->ptr_bits ? LLVMSExt : LLVMTrunc, v, index_type(e), "");
}

static bool const_operand(const ins *x, const ins **other, int64_t *c) {
    const ins *a = x->args[0], *b = x->args[1];
    bool swapped = b->op != L_CONST;
    if (swapped && (a->op != L_CONST || x->op == L_SHL)) return false;
    *other = swapped ? b : a;
    *c = swapped ? a->i : b->i;
    return true;
}

static int64_t wrapping_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t wrapping_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

// ptr + index * scale bytes. Splits the index into x * scale + constant as far as possible, which wrapping
// arithmetic allows only for indices as wide as a pointer.
static LLVMValueRef address(emit *e, LLVMValueRef ptr, const ins *index, int64_t scale) {
    int64_t constant = 0, c;
    const ins *other;
    bool exact = kind_bits(e, index->type.kind) == e->t->ptr_bits;
    while (exact && (index->op == L_ADD || index->op == L_MUL || index->op == L_SHL) &&
           const_operand(index, &other, &c)) {
        if (index->op == L_SHL) c = (int64_t)((uint64_t)1 << (c & 63));
        if (index->op == L_ADD) constant = wrapping_add(constant, wrapping_mul(c, scale));
        else scale = wrapping_mul(scale, c);
        index = other;
    }
    if (index->op == L_CONST) constant = wrapping_add(constant, wrapping_mul(index->i, scale));
    else if (scale == 1) ptr = byte_offset(e, ptr, to_index(e, index));
    else ptr = byte_offset(e, ptr, LLVMBuildMul(e->b, to_index(e, index), index_const(e, scale), ""));
    return constant ? byte_offset(e, ptr, index_const(e, constant)) : ptr;
}

static LLVMValueRef element_address(emit *e, const ins *x, lkind k) {
    return address(e, value_of(e, x->args[0]), x->args[1], kind_bytes(e, k));
}

// ---------------------------------------------------------------- whole values
// Booleans are bytes in memory.
static LLVMValueRef load_at(emit *e, LLVMValueRef p, ltype t, int align) {
    bool truth = t.kind == LK_I1;
    ltype stored = truth ? lt(LK_I8, t.lanes) : t;
    LLVMValueRef v = LLVMBuildLoad2(e->b, type_of(e, stored), p, "");
    LLVMSetAlignment(v, (unsigned)(align ? align : kind_bytes(e, t.kind)));
    return truth ? LLVMBuildICmp(e->b, LLVMIntNE, v, const_int(e, stored, 0), "") : v;
}

static LLVMValueRef store_at(emit *e, LLVMValueRef p, LLVMValueRef v, ltype t, int align) {
    if (t.kind == LK_I1) v = LLVMBuildZExt(e->b, v, type_of(e, lt(LK_I8, t.lanes)), "");
    LLVMValueRef s = LLVMBuildStore(e->b, v, p);
    LLVMSetAlignment(s, (unsigned)(align ? align : kind_bytes(e, t.kind)));
    return s;
}

// ---------------------------------------------------------------- partial vectors
static bool has_masks(const emit *e, ltype t) {
    int bits = kind_bits(e, t.kind);
    if (!e->t->masked || t.lanes == 1 || t.kind == LK_I1) return false;
    return bits >= e->t->masked_least;
}

static LLVMValueRef clamped_count(emit *e, const ins *n, int lanes) {
    LLVMValueRef args[2] = {to_index(e, n), index_const(e, lanes)};
    LLVMTypeRef index = index_type(e);
    return call_intrinsic(e, "llvm.smin", &index, 1, args, 2);
}

// The mask of lanes below n, compared in integers as wide as the elements, which can hold every lane number.
static LLVMValueRef lane_mask(emit *e, const ins *n, ltype t) {
    static const lkind by_bytes[9] = {[1] = LK_I8, [2] = LK_I16, [4] = LK_I32, [8] = LK_I64};
    lkind k = by_bytes[kind_bytes(e, t.kind)];
    if (k == LK_I8 && t.lanes > 127) k = LK_I16;
    LLVMTypeRef lane = e->kinds[k];
    LLVMValueRef count = clamped_count(e, n, t.lanes);
    int bits = kind_bits(e, k);
    if (bits < e->t->ptr_bits) count = LLVMBuildTrunc(e->b, count, lane, "");
    else if (bits > e->t->ptr_bits) count = LLVMBuildSExt(e->b, count, lane, "");
    LLVMValueRef *numbers = ARENA_ARRAY(e->arena, LLVMValueRef, t.lanes);
    for (int i = 0; i < t.lanes; i++) numbers[i] = LLVMConstInt(lane, (unsigned)i, 0);
    LLVMValueRef iota = LLVMConstVector(numbers, t.lanes);
    return LLVMBuildICmp(e->b, LLVMIntSLT, iota, splat(e, count, t.lanes), "");
}

static LLVMValueRef alignment(const emit *e, ltype t) {
    return LLVMConstInt(e->kinds[LK_I32], (unsigned)kind_bytes(e, t.kind), 0);
}

// The number of lanes below n, from 0 to all, of 32 bits.
static LLVMValueRef vector_length(emit *e, const ins *n, int lanes) {
    LLVMTypeRef index = index_type(e), word = e->kinds[LK_I32];
    LLVMValueRef low[2] = {clamped_count(e, n, lanes), index_const(e, 0)};
    LLVMValueRef count = call_intrinsic(e, "llvm.smax", &index, 1, low, 2);
    return e->t->ptr_bits > 32 ? LLVMBuildTrunc(e->b, count, word, "") : count;
}

static LLVMValueRef all_lanes(emit *e, ltype t) { return LLVMConstAllOnes(type_of(e, lt(LK_I1, t.lanes))); }

static void set_alignment(emit *e, LLVMValueRef call, unsigned argument, ltype t) {
    LLVMAttributeRef bytes = enum_attribute(e, "align", (uint64_t)kind_bytes(e, t.kind));
    LLVMAddCallSiteAttribute(call, argument + 1, bytes);
}

// Other lanes are 0, not the lanes of the previous register.
static LLVMValueRef load_length(emit *e, const ins *x, LLVMValueRef p, const ins *n) {
    LLVMTypeRef types[2] = {type_of(e, x->type), e->kinds[LK_PTR]};
    LLVMValueRef all = all_lanes(e, x->type), length = vector_length(e, n, x->type.lanes);
    LLVMValueRef loaded = call_intrinsic(e, "llvm.vp.load", types, 2, (LLVMValueRef[]){p, all, length}, 3);
    set_alignment(e, loaded, 0, x->type);
    LLVMValueRef args[4] = {all, loaded, LLVMConstNull(types[0]), length};
    return call_intrinsic(e, "llvm.vp.merge", types, 1, args, 4);
}

static LLVMValueRef store_length(emit *e, LLVMValueRef p, const ins *v, const ins *n) {
    LLVMTypeRef types[2] = {type_of(e, v->type), e->kinds[LK_PTR]};
    LLVMValueRef args[4] = {value_of(e, v), p, all_lanes(e, v->type), vector_length(e, n, v->type.lanes)};
    LLVMValueRef stored = call_intrinsic(e, "llvm.vp.store", types, 2, args, 4);
    set_alignment(e, stored, 1, v->type);
    return stored;
}

static LLVMValueRef masked_load(emit *e, const ins *x, LLVMValueRef p, const ins *n) {
    if (e->t->arch.vector_lengths) return load_length(e, x, p, n);
    LLVMTypeRef types[2] = {type_of(e, x->type), e->kinds[LK_PTR]};
    LLVMValueRef args[4] = {p, alignment(e, x->type), lane_mask(e, n, x->type), LLVMConstNull(types[0])};
    return call_intrinsic(e, "llvm.masked.load", types, 2, args, 4);
}

static LLVMValueRef masked_store(emit *e, LLVMValueRef p, const ins *v, const ins *n) {
    if (e->t->arch.vector_lengths) return store_length(e, p, v, n);
    LLVMTypeRef types[2] = {type_of(e, v->type), e->kinds[LK_PTR]};
    LLVMValueRef args[4] = {value_of(e, v), p, alignment(e, v->type), lane_mask(e, n, v->type)};
    return call_intrinsic(e, "llvm.masked.store", types, 2, args, 4);
}

//     for (i = 0; i < n && i < lanes; i++) to[i] = from[i];
static void copy_elements(emit *e, LLVMValueRef to, LLVMValueRef from, lkind k, LLVMValueRef n) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), body = new_block(e, "copy"),
                      after = new_block(e, "copied");
    LLVMValueRef zero = index_const(e, 0), bytes = index_const(e, kind_bytes(e, k));
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, n, zero, ""), body, after);
    enter_block(e, body);
    LLVMValueRef i = LLVMBuildPhi(e->b, index_type(e), "");
    LLVMValueRef at = LLVMBuildMul(e->b, i, bytes, "");
    LLVMValueRef v = load_at(e, byte_offset(e, from, at), lt(k, 1), 0);
    store_at(e, byte_offset(e, to, at), v, lt(k, 1), 0);
    LLVMValueRef next = LLVMBuildNSWAdd(e->b, i, index_const(e, 1), ""), in[2] = {zero, next};
    LLVMAddIncoming(i, in, (LLVMBasicBlockRef[]){before, body}, 2);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, n, ""), body, after);
    enter_block(e, after);
}

static LLVMValueRef stack_vector(emit *e, ltype t) {
    int bytes = kind_bytes(e, t.kind) * t.lanes, align = 1;
    while (align < bytes && align < 64) align *= 2;
    return build_alloca(e, e->kinds[LK_I8], bytes, align);
}

static LLVMValueRef emit_loadn(emit *e, const ins *x) {
    LLVMValueRef p = element_address(e, x, x->type.kind);
    if (has_masks(e, x->type)) return masked_load(e, x, p, x->args[2]);
    LLVMValueRef buffer = stack_vector(e, x->type);
    ltype stored = lt(x->type.kind == LK_I1 ? LK_I8 : x->type.kind, x->type.lanes);
    store_at(e, buffer, LLVMConstNull(type_of(e, stored)), stored, 0);
    copy_elements(e, buffer, p, stored.kind, clamped_count(e, x->args[2], x->type.lanes));
    return load_at(e, buffer, x->type, 0);
}

// Lanes first to first + n of v.
static LLVMValueRef some_lanes(emit *e, LLVMValueRef v, int first, int n) {
    LLVMValueRef mask[64], poison = LLVMGetPoison(LLVMTypeOf(v));
    for (int i = 0; i < n; i++) mask[i] = LLVMConstInt(e->kinds[LK_I32], (unsigned)(first + i), 0);
    return LLVMBuildShuffleVector(e->b, v, poison, LLVMConstVector(mask, (unsigned)n), "");
}

// A known number of lanes is stored in parts of 8, 4, 2 and 1 where masks are registers of words: masked stores of AVX2 take ten cycles
// and more on some CPUs.
static bool stores_parts(const emit *e, ltype t, const ins *n) {
    return e->t->masked_least > 8 && t.kind != LK_I1 && t.lanes <= 64 && n->op == L_CONST && n->i >= 0 &&
           n->i <= t.lanes;
}

static LLVMValueRef store_parts(emit *e, LLVMValueRef p, const ins *v, int n) {
    LLVMValueRef last = NULL;
    int at = 0;
    for (int part = 64; part; part /= 2) {
        if (!(n & part)) continue;
        LLVMValueRef to = byte_offset(e, p, index_const(e, (int64_t)at * kind_bytes(e, v->type.kind)));
        last = store_at(e, to, some_lanes(e, value_of(e, v), at, part), lt(v->type.kind, part), 0);
        at += part;
    }
    return last;
}

// The same for a number that only the run knows, by branches that go the same way for all rows of one length.
static bool stores_halves(const emit *e, ltype t) {
    enum { MOST = 32 };
    bool halves = (t.lanes & (t.lanes - 1)) == 0 && t.lanes <= MOST && t.kind != LK_I1;
    return e->t->masked && e->t->masked_least > 8 && halves && !e->t->size_level;
}

static LLVMValueRef one_of(emit *e, LLVMValueRef x, LLVMBasicBlockRef from, LLVMValueRef y,
                           LLVMBasicBlockRef other) {
    LLVMValueRef phi = LLVMBuildPhi(e->b, LLVMTypeOf(x), ""), in[2] = {x, y};
    LLVMAddIncoming(phi, in, (LLVMBasicBlockRef[]){from, other}, 2);
    return phi;
}

//     if (n & 4) store(p, low half of v), p += 4, v = high half; else v = low half; the same for 2 and 1
static void store_halves(emit *e, LLVMValueRef p, const ins *v, const ins *n) {
    int lanes = v->type.lanes, bytes = kind_bytes(e, v->type.kind);
    LLVMTypeRef index = index_type(e);
    LLVMValueRef rest = value_of(e, v), low[2] = {clamped_count(e, n, lanes), index_const(e, 0)};
    LLVMValueRef count = call_intrinsic(e, "llvm.smax", &index, 1, low, 2);
    for (int part = lanes; part; part /= 2) {
        bool all = part == lanes;
        LLVMValueRef first = all ? rest : some_lanes(e, rest, 0, part),
                     second = all ? rest : some_lanes(e, rest, part, part);
        LLVMValueRef bit = LLVMBuildAnd(e->b, count, index_const(e, part), "");
        LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), store = new_block(e, "part"),
                          after = new_block(e, "rest");
        LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntNE, bit, index_const(e, 0), ""), store, after);
        enter_block(e, store);
        store_at(e, p, first, lt(v->type.kind, part), 0);
        LLVMValueRef next = byte_offset(e, p, index_const(e, (int64_t)part * bytes));
        LLVMBuildBr(e->b, after);
        enter_block(e, after);
        p = one_of(e, p, before, next, store), rest = one_of(e, first, before, second, store);
    }
}

static LLVMValueRef emit_storen(emit *e, const ins *x) {
    const ins *v = x->args[2], *n = x->args[3];
    LLVMValueRef p = element_address(e, x, v->type.kind);
    if (stores_parts(e, v->type, n)) return store_parts(e, p, v, (int)n->i);
    if (stores_halves(e, v->type)) {
        store_halves(e, p, v, n);
        return NULL;
    }
    if (has_masks(e, v->type)) return masked_store(e, p, v, n);
    LLVMValueRef buffer = stack_vector(e, v->type);
    store_at(e, buffer, value_of(e, v), v->type, 0);
    copy_elements(e, p, buffer, v->type.kind == LK_I1 ? LK_I8 : v->type.kind,
                  clamped_count(e, n, v->type.lanes));
    return NULL;
}

// ---------------------------------------------------------------- indexed lanes
static LLVMValueRef lane(emit *e, LLVMValueRef v, int i) {
    return LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->kinds[LK_I32], (unsigned)i, 0), "");
}

static LLVMValueRef lane_address(emit *e, const ins *x, lkind k, int i) {
    LLVMValueRef at = lane(e, value_of(e, x->args[1]), i);
    if (kind_bits(e, x->args[1]->type.kind) < e->t->ptr_bits) at = LLVMBuildSExt(e->b, at, index_type(e), "");
    return byte_offset(e, value_of(e, x->args[0]),
                       LLVMBuildMul(e->b, at, index_const(e, kind_bytes(e, k)), ""));
}

LLVMValueRef joined_lanes(emit *e, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef mask[2 * 64];
    unsigned n = 2 * LLVMGetVectorSize(LLVMTypeOf(a));
    for (unsigned i = 0; i < n; i++) mask[i] = LLVMConstInt(e->kinds[LK_I32], i, 0);
    return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(mask, n), "");
}

// LLVM keeps 32-bit indices only in vectors of a legal width.
static LLVMValueRef gather_lanes(emit *e, const ins *x, int first, int n) {
    lkind k = x->type.kind;
    int most = e->t->vector_bits / kind_bits(e, k);
    if (n > most) {
        LLVMValueRef low = gather_lanes(e, x, first, n / 2);
        return joined_lanes(e, low, gather_lanes(e, x, first + n / 2, n / 2));
    }
    LLVMValueRef at = value_of(e, x->args[1]);
    if (n < x->type.lanes) at = some_lanes(e, at, first, n);
    LLVMTypeRef type = type_of(e, lt(k, n));
    LLVMValueRef p = LLVMBuildGEP2(e->b, e->kinds[k], value_of(e, x->args[0]), &at, 1, "");
    LLVMTypeRef types[2] = {type, LLVMTypeOf(p)};
    LLVMValueRef args[4] = {p, const_int(e, lt(LK_I32, 1), kind_bytes(e, k)),
                            LLVMConstAllOnes(type_of(e, lt(LK_I1, n))), LLVMGetPoison(type)};
    return call_intrinsic(e, "llvm.masked.gather", types, 2, args, 4);
}

static bool has_gather(const emit *e, const ins *x) {
    int lanes = x->type.lanes;
    return e->t->gathers && kind_bits(e, x->type.kind) >= 32 && lanes >= 4 && !(lanes & (lanes - 1));
}

// Lane j of a vector of integers is first + step * j; step NULL: 0.
typedef struct progression {
    LLVMValueRef first, step;
} progression;

static bool find_progression(emit *e, const ins *x, progression *p);

static LLVMValueRef sum_of_steps(emit *e, lop op, LLVMValueRef x, LLVMValueRef y) {
    if (!y) return x;
    if (op == L_SUB) return x ? LLVMBuildSub(e->b, x, y, "") : LLVMBuildNeg(e->b, y, "");
    return x ? LLVMBuildAdd(e->b, x, y, "") : y;
}

static bool progression_of_two(emit *e, const ins *x, progression *p) {
    progression a, b;
    if (!find_progression(e, x->args[0], &a) || !find_progression(e, x->args[1], &b)) return false;
    if (x->op != L_MUL) {
        p->first = x->op == L_ADD ? LLVMBuildAdd(e->b, a.first, b.first, "")
                                  : LLVMBuildSub(e->b, a.first, b.first, "");
        p->step = sum_of_steps(e, x->op, a.step, b.step);
        return true;
    }
    if (a.step && b.step) return false;
    p->first = LLVMBuildMul(e->b, a.first, b.first, "");
    p->step = a.step   ? LLVMBuildMul(e->b, a.step, b.first, "")
              : b.step ? LLVMBuildMul(e->b, b.step, a.first, "")
                       : NULL;
    return true;
}

static bool find_progression(emit *e, const ins *x, progression *p) {
    LLVMTypeRef one = type_of(e, lt((lkind)x->type.kind, 1));
    *p = (progression){0};
    if (x->op == L_CONST || x->op == L_IOTA) {
        p->first = LLVMConstInt(one, x->op == L_CONST ? (uint64_t)x->i : 0, 1);
        p->step = x->op == L_IOTA ? LLVMConstInt(one, 1, 0) : NULL;
        return true;
    }
    if (x->op == L_SPLAT) p->first = value_of(e, x->args[0]);
    if (x->op == L_ADD || x->op == L_SUB || x->op == L_MUL) return progression_of_two(e, x, p);
    return p->first != NULL;
}

// By one instruction of RISC-V, for elements of any size; NULL: the indices are not a progression.
static LLVMValueRef load_strided(emit *e, const ins *x) {
    lkind k = (lkind)x->type.kind;
    progression at;
    if (!e->t->arch.strided_loads || k == LK_I1 || !find_progression(e, x->args[1], &at) || !at.step)
        return NULL;
    LLVMTypeRef index = index_type(e), types[3] = {type_of(e, x->type), e->kinds[LK_PTR], index};
    LLVMValueRef first = LLVMBuildIntCast2(e->b, at.first, index, 1, ""),
                 step = LLVMBuildIntCast2(e->b, at.step, index, 1, "");
    LLVMValueRef args[4] = {LLVMBuildGEP2(e->b, e->kinds[k], value_of(e, x->args[0]), &first, 1, ""),
                            LLVMBuildMul(e->b, step, index_const(e, kind_bytes(e, k)), ""),
                            all_lanes(e, x->type), const_int(e, lt(LK_I32, 1), x->type.lanes)};
    LLVMValueRef loaded = call_intrinsic(e, "llvm.experimental.vp.strided.load", types, 3, args, 4);
    set_alignment(e, loaded, 0, x->type);
    return loaded;
}

static const char gather_name[] = "llvm.arm.mve.vldr.gather.offset",
                  scatter_name[] = "llvm.arm.mve.vstr.scatter.offset";

// ---- Helium: lanes are as wide as their offsets from one address, and may be wider than the elements
// Offsets in bytes of lanes `first` to first + n, from *base on; NULL: not known to fit this number of bits.
static LLVMValueRef constant_offsets(emit *e, const ins *x, lkind k, int first, int n, lkind lane,
                                     LLVMValueRef *base) {
    progression at;
    int bytes = kind_bytes(e, k);
    if (!find_progression(e, x->args[1], &at) || !at.step || !LLVMIsAConstantInt(at.step)) return NULL;
    int64_t step = LLVMConstIntGetSExtValue(at.step), last = step * bytes * (n - 1);
    if (step < 0 || last >= (int64_t)1 << kind_bits(e, lane)) return NULL;
    LLVMValueRef offset[64], start = LLVMBuildIntCast2(e->b, at.first, index_type(e), 1, "");
    for (int j = 0; j < n; j++) offset[j] = LLVMConstInt(e->kinds[lane], (uint64_t)(step * bytes * j), 0);
    start = LLVMBuildAdd(e->b, start, index_const(e, step * first), "");
    *base = LLVMBuildGEP2(e->b, e->kinds[k], *base, &start, 1, "");
    return LLVMConstVector(offset, (unsigned)n);
}

// Lanes first to first + n.
static LLVMValueRef gather_wide_lanes(emit *e, const ins *x, int first, int n) {
    lkind k = x->type.kind, lane = n <= 4 ? LK_I32 : n == 8 ? LK_I16 : LK_I8;
    LLVMValueRef base = value_of(e, x->args[0]), at = NULL;
    bool fits = n <= 16 && kind_bits(e, k) <= kind_bits(e, lane);
    if (fits) at = constant_offsets(e, x, k, first, n, lane, &base);
    if (n > 4 && !at)
        return joined_lanes(e, gather_wide_lanes(e, x, first, n / 2),
                            gather_wide_lanes(e, x, first + n / 2, n / 2));
    int shift = at ? 0 : kind_bits(e, k) / 16; // a logarithm
    if (!at) {
        at = value_of(e, x->args[1]);
        if (n < x->type.lanes) at = some_lanes(e, at, first, n);
        at = LLVMBuildIntCast2(e->b, at, type_of(e, lt(lane, n)), 1, "");
    }
    LLVMTypeRef wide = type_of(e, lt(lane, n)), types[3] = {wide, LLVMTypeOf(base), wide};
    LLVMValueRef args[5] = {base, at, const_int(e, lt(LK_I32, 1), kind_bits(e, k)),
                            const_int(e, lt(LK_I32, 1), shift),
                            const_int(e, lt(LK_I32, 1), kind_bits(e, k) == kind_bits(e, lane))};
    LLVMValueRef v = call_intrinsic(e, gather_name, types, 3, args, 5);
    if (lkind_is_float(k)) return LLVMBuildBitCast(e->b, v, type_of(e, lt(k, n)), "");
    return LLVMBuildTrunc(e->b, v, type_of(e, lt(k, n)), "");
}

LLVMValueRef gathered_lanes(emit *e, LLVMValueRef v, ltype type) {
    if (!LLVMIsATruncInst(v)) return NULL;
    LLVMValueRef wide = LLVMGetOperand(v, 0), from = LLVMIsACallInst(wide) ? LLVMGetCalledValue(wide) : NULL;
    unsigned gather = LLVMLookupIntrinsicID(gather_name, sizeof gather_name - 1);
    if (!from || LLVMGetIntrinsicID(from) != gather) return NULL;
    return LLVMBuildIntCast2(e->b, wide, type_of(e, type), 1, "");
}

static bool fits_wide_lanes(const emit *e, ltype t) {
    lkind k = t.kind;
    int lanes = t.lanes, bits = k == LK_I1 ? 64 : kind_bits(e, k);
    return e->t->dot_across && lanes >= 4 && !(lanes & (lanes - 1)) &&
           (lkind_is_float(k) ? bits == 32 : bits <= 32);
}

// Helium, sixteen bytes at positions that are bytes.
static LLVMValueRef gather_register(emit *e, LLVMValueRef base, LLVMValueRef at) {
    LLVMTypeRef bytes = LLVMTypeOf(at), types[3] = {bytes, LLVMTypeOf(base), bytes};
    LLVMValueRef args[5] = {base, at, const_int(e, lt(LK_I32, 1), 8), const_int(e, lt(LK_I32, 1), 0),
                            const_int(e, lt(LK_I32, 1), 1)};
    return call_intrinsic(e, gather_name, types, 3, args, 5);
}

// Positions that are bytes; NULL: they are not, or one by one is faster.
static LLVMValueRef gather_by_bytes(emit *e, const ins *x) {
    const ins *at = x->args[1];
    int lanes = x->type.lanes;
    if (x->type.kind != LK_I8 || at->op != L_ZEXT || at->args[0]->type.kind != LK_I8) return NULL;
    LLVMValueRef base = value_of(e, x->args[0]), bytes = value_of(e, at->args[0]);
    if (e->t->dot_across && lanes * 8 == e->t->vector_bits) return gather_register(e, base, bytes);
    return x->i > UINT8_MAX ? emit_byte_lookup(e, base, bytes, lanes) : NULL;
}

static LLVMValueRef emit_gather(emit *e, const ins *x) {
    if (x->type.lanes == 1) return load_at(e, element_address(e, x, x->type.kind), x->type, 0);
    LLVMValueRef found = gather_by_bytes(e, x);
    if (found) return found;
    if (fits_wide_lanes(e, x->type)) return gather_wide_lanes(e, x, 0, x->type.lanes);
    LLVMValueRef strided = load_strided(e, x);
    if (strided) return strided;
    if (has_gather(e, x)) return gather_lanes(e, x, 0, x->type.lanes);
    LLVMValueRef v = LLVMGetPoison(type_of(e, x->type));
    for (int i = 0; i < x->type.lanes; i++) {
        LLVMValueRef one = load_at(e, lane_address(e, x, x->type.kind, i), lt(x->type.kind, 1), 0);
        v = LLVMBuildInsertElement(e->b, v, one, LLVMConstInt(e->kinds[LK_I32], (unsigned)i, 0), "");
    }
    return v;
}

// Lanes first to first + n. Elements of 8 and 16 bits have constant distances.
static void scatter_wide_lanes(emit *e, const ins *x, LLVMValueRef value, int first, int n) {
    lkind k = x->args[2]->type.kind, lane = n <= 4 ? LK_I32 : n == 8 ? LK_I16 : LK_I8;
    int bits = kind_bits(e, k), shift = 0;
    ltype wide = lt(lane, n);
    LLVMValueRef base = value_of(e, x->args[0]), at = NULL;
    if (n <= 16 && bits <= kind_bits(e, lane)) at = constant_offsets(e, x, k, first, n, lane, &base);
    if (n > 4 && !at) {
        scatter_wide_lanes(e, x, value, first, n / 2);
        scatter_wide_lanes(e, x, value, first + n / 2, n / 2);
        return;
    }
    if (!at) {
        at = LLVMBuildIntCast2(e->b, some_lanes(e, value_of(e, x->args[1]), first, n), type_of(e, wide), 1,
                               "");
        shift = bits / 16; // a logarithm
    }
    if (n < x->args[2]->type.lanes) value = some_lanes(e, value, first, n);
    if (lkind_is_float(k)) value = LLVMBuildBitCast(e->b, value, type_of(e, wide), "");
    else if (LLVMIsATruncInst(value) && LLVMTypeOf(LLVMGetOperand(value, 0)) == type_of(e, wide))
        value = LLVMGetOperand(value, 0);
    else value = LLVMBuildIntCast2(e->b, value, type_of(e, wide), 0, "");
    LLVMTypeRef types[3] = {LLVMTypeOf(base), type_of(e, wide), type_of(e, wide)};
    LLVMValueRef args[5] = {base, at, value, const_int(e, lt(LK_I32, 1), bits),
                            const_int(e, lt(LK_I32, 1), shift)};
    call_intrinsic(e, scatter_name, types, 3, args, 5);
}

static LLVMValueRef emit_scatter(emit *e, const ins *x) {
    const ins *v = x->args[2];
    LLVMValueRef value = value_of(e, v);
    if (v->type.lanes == 1) return store_at(e, element_address(e, x, v->type.kind), value, v->type, 0);
    if (fits_wide_lanes(e, v->type)) {
        scatter_wide_lanes(e, x, value, 0, v->type.lanes);
        return NULL;
    }
    for (int i = 0; i < v->type.lanes; i++)
        store_at(e, lane_address(e, x, v->type.kind, i), lane(e, value, i), lt(v->type.kind, 1), 0);
    return NULL;
}

// ---------------------------------------------------------------- fields, atomics, prefetches
static LLVMValueRef field_address(emit *e, const ins *x) {
    LLVMValueRef p = value_of(e, x->args[0]);
    return x->i ? byte_offset(e, p, index_const(e, x->i)) : p;
}

static LLVMValueRef emit_atomic_add(emit *e, const ins *x) {
    const ins *v = x->args[2];
    LLVMAtomicRMWBinOp op = lkind_is_float(v->type.kind) ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
    return LLVMBuildAtomicRMW(e->b, op, element_address(e, x, v->type.kind), value_of(e, v),
                              LLVMAtomicOrderingMonotonic, 0);
}

// Schedules align arrays to cache lines; on cores without caches, that would only make frames larger.
static int local_align(const target *t, int align) {
    int most = t->vector_bits / 8 > t->arch.stack_align ? t->vector_bits / 8 : t->arch.stack_align;
    return t->freestanding && most && align > most ? most : align;
}

static LLVMValueRef emit_local(emit *e, const ins *x) {
    lkind k = x->elem == LK_I1 || x->elem == LK_VOID ? LK_I8 : x->elem;
    return build_alloca(e, e->kinds[k], x->i ? x->i : 1, local_align(e->t, x->align));
}

static LLVMValueRef emit_store(emit *e, const ins *x) {
    const ins *v = x->args[2];
    return store_at(e, element_address(e, x, v->type.kind), value_of(e, v), v->type, x->align);
}

// For reading, into the L2 cache.
static LLVMValueRef emit_prefetch(emit *e, const ins *x) {
    LLVMValueRef p = address(e, value_of(e, x->args[0]), x->args[1], 1);
    LLVMTypeRef type = LLVMTypeOf(p);
    LLVMValueRef args[4] = {p, const_int(e, lt(LK_I32, 1), 0), const_int(e, lt(LK_I32, 1), 2),
                            const_int(e, lt(LK_I32, 1), 1)};
    call_intrinsic(e, "llvm.prefetch", &type, 1, args, 4);
    return NULL;
}

LLVMValueRef emit_memory(emit *e, const ins *x) {
    if (x->op == L_LOAD) return load_at(e, element_address(e, x, x->type.kind), x->type, x->align);
    if (x->op == L_STORE) return emit_store(e, x);
    if (x->op == L_LOADN) return emit_loadn(e, x);
    if (x->op == L_STOREN) return emit_storen(e, x);
    if (x->op == L_GATHER) return emit_gather(e, x);
    if (x->op == L_SCATTER) return emit_scatter(e, x);
    if (x->op == L_PREFETCH) return emit_prefetch(e, x);
    if (x->op == L_OFFSET) return address(e, value_of(e, x->args[0]), x->args[1], x->i);
    if (x->op == L_FIELD) return load_at(e, field_address(e, x), x->type, 0);
    if (x->op == L_SETFIELD)
        return store_at(e, field_address(e, x), value_of(e, x->args[1]), x->args[1]->type, 0);
    if (x->op == L_LOCAL) return emit_local(e, x);
    return emit_atomic_add(e, x);
}
