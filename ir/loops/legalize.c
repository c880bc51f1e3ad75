// The legaliser: replaces instructions that the target lacks by expansions, whose instructions are legalised
// in turn. In: a module. Out: the module, with helper functions.
#include "ir/loops/convert.h"
#include "ir/loops/legalize_impl.h"
#include "ir/loops/loops_share.h"
#include "ir/target.h"
#include <string.h>

typedef struct walk {
    lmodule *module;
    lfunc *f;
    diag *diag;
    VEC(ins *) now; // by id: the replacement of an instruction; NULL: itself
} walk;

// ---------------------------------------------------------------- rounding to integers by adding 2^23 or
// 2^52

static ins *copy_sign(lbuild *b, ins *magnitude, ins *sign) {
    ltype t = magnitude->type;
    bool wide = t.kind == LK_F64;
    ltype it = lt(wide ? LK_I64 : LK_I32, t.lanes);
    ins *top = lb_int(b, it, wide ? INT64_MIN : INT32_MIN),
        *rest = lb_int(b, it, wide ? INT64_MAX : INT32_MAX);
    ins *m = lb_bin(b, L_AND, lb_bitcast(b, it, magnitude), rest);
    return lb_bitcast(b, t, lb_bin(b, L_OR, m, lb_bin(b, L_AND, lb_bitcast(b, it, sign), top)));
}

// Larger numbers are integers, and NaN is not smaller.
static ins *round_half_even(lbuild *b, ins *x) {
    if (soft_float_kind(b->target, x->type.kind)) return lb_un(b, L_RINT, x);
    ins *big = lb_float(b, x->type, x->type.kind == LK_F64 ? 0x1p52 : 0x1p23), *t = lb_un(b, L_FABS, x);
    ins *r = lb_bin(b, L_SUB, lb_bin(b, L_ADD, t, big), big);
    return copy_sign(b, lb_select(b, lb_cmp(b, L_SLT, t, big), r, t), x);
}

// Corrects by one if it was rounded in the other direction.
static ins *expand_rounding(lbuild *b, lop op, ins *x) {
    ins *one = lb_float(b, x->type, 1);
    if (op == L_RINT) return round_half_even(b, x);
    if (op == L_TRUNC) {
        ins *t = lb_un(b, L_FABS, x), *r = round_half_even(b, t);
        return copy_sign(b, lb_select(b, lb_cmp(b, L_SLT, t, r), lb_bin(b, L_SUB, r, one), r), x);
    }
    ins *r = round_half_even(b, x);
    if (op == L_FLOOR)
        return copy_sign(b, lb_select(b, lb_cmp(b, L_SLT, x, r), lb_bin(b, L_SUB, r, one), r), x);
    return copy_sign(b, lb_select(b, lb_cmp(b, L_SLT, r, x), lb_bin(b, L_ADD, r, one), r), x);
}

// ---------------------------------------------------------------- half floats

static dtype half_dtype(lkind k) { return k == LK_F16 ? DT_F16 : DT_BF16; }

static ins *widen_half(lbuild *b, ins *x) {
    if (x->type.kind == LK_F16 && b->target->f16_convert) return lb_conv(b, L_FEXT, LK_F32, x);
    ins *code = lb_conv(b, L_ZEXT, LK_I32, lb_conv(b, L_BITCAST, LK_I16, x));
    return float_of_code(b, half_dtype(x->type.kind), code);
}

static bool half_is_legal(const target *t, lop op, lkind from, lkind to, int lanes) {
    if (op == L_FTRUNC && from == LK_F32 && to == LK_BF16) return rounds_to_bf16(t, lanes);
    bool direct = (op == L_FEXT && from == LK_F16 && to == LK_F32) ||
                  (op == L_FTRUNC && from == LK_F32 && to == LK_F16);
    return direct && t->f16_convert;
}

// LLVM would call a function for f64 to f16 even if it has an instruction for f32.
static ins *narrow_to_half(lbuild *b, lkind to, ins *x) {
    ins *f = x->type.kind == LK_F64 ? f64_to_odd(b, x) : x;
    if (half_is_legal(b->target, L_FTRUNC, LK_F32, to, x->type.lanes)) return lb_conv(b, L_FTRUNC, to, f);
    ins *code = lb_conv(b, L_ITRUNC, LK_I16, code_of_float(b, half_dtype(to), f, false));
    return lb_conv(b, L_BITCAST, to, code);
}

static bool is_float_arithmetic(lclass c) {
    return c == LC_REDUCE || c == LC_ARITHMETIC || c == LC_MULADD || c == LC_FLOAT || c == LC_SIGN ||
           c == LC_SQRT || c == LC_ROUND || c == LC_COMPARE;
}

// Arithmetic on halves: in f32, rounded once.
static ins *half_arithmetic(lbuild *b, const ins *x) {
    ins *args[3];
    for (int i = 0; i < x->nargs; i++) args[i] = widen_half(b, x->args[i]);
    if (lop_class(x->op) == LC_COMPARE) return lb_cmp(b, x->op, args[0], args[1]);
    ins *r = lb_op(b, x->op, lt(LK_F32, x->type.lanes), x->nargs, args);
    return narrow_to_half(b, x->type.kind, r);
}

static ins *expand_half(lbuild *b, const ins *x) {
    lkind from = x->nargs ? x->args[0]->type.kind : LK_VOID, to = x->type.kind;
    if (!lkind_is_half(from) && !lkind_is_half(to)) return NULL;
    if (half_is_legal(b->target, x->op, from, to, x->type.lanes)) return NULL;
    if (lkind_is_half(from) && is_float_arithmetic(lop_class(x->op))) return half_arithmetic(b, x);
    if (x->op == L_FEXT || x->op == L_FTOSI || x->op == L_FTOUI)
        return lb_conv(b, x->op, to, widen_half(b, x->args[0]));
    if (x->op == L_FTRUNC) return narrow_to_half(b, to, x->args[0]);
    if (x->op == L_SITOF || x->op == L_UITOF) // exact in f64 up to 2^53, far beyond the range of halves
        return narrow_to_half(b, to, lb_conv(b, x->op, LK_F64, x->args[0]));
    return NULL;
}

// ---------------------------------------------------------------- helper functions

static lfunc *find_function(const lmodule *m, const char *name) {
    for (int i = 0; i < m->funcs.n; i++)
        if (strcmp(m->funcs.at[i]->name, name) == 0) return m->funcs.at[i];
    return NULL;
}

lfunc *need_helper(lmodule *m, lbuild *b, const char *name, ltype result, int nargs, const ltype *types,
                   make_helper *make, int detail) {
    lfunc *f = find_function(m, name);
    if (f) return f;
    f = lfunc_new(m, name, result);
    f->target = b->target;
    f->arithmetic = true;
    for (int i = 0; i < nargs; i++)
        lfunc_param(f, arena_printf(m->arena, "x%d", i), types[i], LK_VOID, DT_NONE, false);
    lbuild fb = lbuild_new(f, b->target, b->diag);
    make(&fb, f, detail);
    return f;
}

ins *call_helper(lmodule *m, lbuild *b, const char *name, ltype result, int nargs, ins *const *args,
                 make_helper *make, int detail) {
    enum { MOST_OPERANDS = 3 };
    ltype types[MOST_OPERANDS];
    for (int i = 0; i < nargs; i++) types[i] = args[i]->type;
    return lb_call(b, result, need_helper(m, b, name, result, nargs, types, make, detail)->name, nargs, args);
}

// ---------------------------------------------------------------- one lane at a time

// A reduction as repeated two-operand instructions, upper half onto lower half.
static ins *expand_reduction(lbuild *b, const ins *x) {
    lop op = lop_across(x->op, x->type.kind);
    int n = x->args[0]->type.lanes;
    ins *v[1 << 10];
    for (int i = 0; i < n; i++) v[i] = lb_extract(b, x->args[0], i);
    for (; n > 1; n = (n + 1) / 2)
        for (int i = 0; i < n / 2; i++) v[i] = lb_bin(b, op, v[i], v[(n + 1) / 2 + i]);
    return v[0];
}

static bool is_conversion(lop op) { return lop_class(op) == LC_TO_FLOAT || lop_class(op) == LC_TO_INT; }

static bool needs_soft_float(const target *t, const ins *x) {
    lclass c = lop_class(x->op);
    lkind from = x->nargs ? x->args[0]->type.kind : LK_VOID;
    bool computes = (is_float_arithmetic(c) && c != LC_SIGN) || c == LC_PRECISION || is_conversion(x->op);
    return computes && (soft_float_kind(t, x->type.kind) || soft_float_kind(t, from));
}

static bool needs_soft_int(const target *t, const ins *x) {
    lclass c = lop_class(x->op);
    bool op = c == LC_DIVIDE || c == LC_SHIFT || x->op == L_MUL || is_conversion(x->op);
    if (!op || !is_small_freestanding(t)) return false;
    return x->type.kind == LK_I64 || x->args[0]->type.kind == LK_I64 || (c == LC_DIVIDE && t->no_divider);
}

// LLVM uses 64-bit integers between vectors of doubles and of narrower integers.
static bool splits_badly(const target *t, const ins *x) {
    bool doubles = x->type.kind == LK_F64 || (x->nargs && x->args[0]->type.kind == LK_F64);
    return is_small_freestanding(t) && is_conversion(x->op) && x->type.lanes > 1 && doubles;
}

static ins *lane_of(lbuild *b, const ins *x, int lane) {
    ins *args[3];
    for (int i = 0; i < x->nargs; i++) args[i] = lb_extract(b, x->args[i], lane);
    return lb_op(b, x->op, lt(x->type.kind, 1), x->nargs, args);
}

static ins *expand_lanes(lbuild *b, const ins *x) {
    ins *v = NULL;
    for (int l = 0; l < x->type.lanes; l++) {
        ins *one = lane_of(b, x, l);
        v = v ? lb_insert(b, v, one, l) : lb_splat(b, one, x->type.lanes);
    }
    return v;
}

// Vectors of 32-bit Arm take denormal numbers as 0, other than its scalars.
static bool flushes(const target *t, const ins *x) {
    lclass c = lop_class(x->op);
    bool computes = is_float_arithmetic(c) && c != LC_SIGN;
    return t->scalar_floats && computes && x->args[0]->type.kind == LK_F32 && x->args[0]->type.lanes > 1;
}

static ins *expand_flushed(lbuild *b, const ins *x) {
    return lop_class(x->op) == LC_REDUCE ? expand_reduction(b, x) : expand_lanes(b, x);
}

static ins *expand_soft(walk *w, lbuild *b, const ins *x) {
    bool soft_float = needs_soft_float(b->target, x), soft_int = needs_soft_int(b->target, x);
    if (splits_badly(b->target, x)) return expand_lanes(b, x);
    if (!soft_float && !soft_int) return NULL;
    if (lop_class(x->op) == LC_REDUCE) return expand_reduction(b, x);
    if (x->type.lanes > 1) return expand_lanes(b, x);
    if (soft_float || is_conversion(x->op)) return soft_float_expand(w->module, b, x);
    return soft_int_expand(w->module, b, x);
}

// ---------------------------------------------------------------- the walk

static ins *expand(walk *w, lbuild *b, const ins *x) {
    const target *t = b->target;
    ins *r = expand_half(b, x);
    if (r) return r;
    bool by_bits = x->op == L_RINT && soft_float_kind(t, x->type.kind);
    if (lop_class(x->op) == LC_ROUND && (!t->round_instr || (x->type.kind == LK_F64 && !t->f64)) && !by_bits)
        return expand_rounding(b, x->op, x->args[0]);
    if (x->op == L_FMA && !t->fma) return lb_muladd(b, x->args[0], x->args[1], x->args[2]);
    if (flushes(t, x)) return expand_flushed(b, x);
    return expand_soft(w, b, x);
}

static void remember(walk *w, const ins *x, ins *now) {
    while (w->now.n <= x->id) VEC_PUSH(w->f->arena, &w->now, NULL);
    w->now.at[x->id] = now;
}

static ins *current(const walk *w, ins *x) {
    ins *now = x->id < w->now.n ? w->now.at[x->id] : NULL;
    return now ? now : x;
}

static void walk_block(walk *w, lblock *block);

static void walk_ins(walk *w, lblock *out, ins *x) {
    for (int i = 0; i < x->nargs; i++) {
        ins *now = current(w, x->args[i]);
        if (now == x->args[i]) continue;
        x->args[i]->uses--;
        now->uses++;
        x->args[i] = now;
    }
    lblock parts = {0};
    lbuild b = {.arena = w->f->arena, .f = w->f, .block = &parts, .target = w->f->target, .diag = w->diag};
    ins *r = expand(w, &b, x);
    if (!r) {
        lblock_append(out, x);
        for (int i = 0; i < 2; i++)
            if (x->body[i]) walk_block(w, x->body[i]);
        return;
    }
    for (int i = 0; i < x->nargs; i++) x->args[i]->uses--;
    for (ins *p = parts.first, *next; p; p = next) {
        next = p->next;
        walk_ins(w, out, p);
    }
    remember(w, x, current(w, r));
}

static void walk_block(walk *w, lblock *block) {
    ins *x = block->first;
    *block = (lblock){0};
    for (ins *next; x; x = next) {
        next = x->next;
        walk_ins(w, block, x);
    }
}

void legalize(lmodule *m, diag *d) {
    for (int i = 0; i < m->funcs.n; i++) { // helpers are appended
        walk w = {.module = m, .f = m->funcs.at[i], .diag = d};
        if (w.f->body && !w.f->original) walk_block(&w, w.f->body);
        lfunc_follow(w.f);
    }
}
