// In: an instruction whose operands are named or inlined. Out: a C expression: its text, precedence, and the
// sign of its type, with only those parentheses that C requires or whose absence gcc and clang warn about.
#include "codegen/c/ctext_impl.h"

#define FMT(...) arena_printf(c->arena, __VA_ARGS__)

enum { INT_BITS_LEAST = 16 }; // of C's int

const char *ctype_name(lkind k, csign sign) {
    static const char *const names[][2] = {
        [LK_VOID] = {"void", "void"},        [LK_I1] = {"bool", "bool"},
        [LK_I8] = {"int8_t", "uint8_t"},     [LK_I16] = {"int16_t", "uint16_t"},
        [LK_I32] = {"int32_t", "uint32_t"},  [LK_I64] = {"int64_t", "uint64_t"},
        [LK_F16] = {"uint16_t", "uint16_t"}, [LK_BF16] = {"uint16_t", "uint16_t"},
        [LK_F32] = {"float", "float"},       [LK_F64] = {"double", "double"},
        [LK_PTR] = {"void *", "void *"},
    };
    return names[k][sign == SIGN_UNSIGNED];
}

const char *ckind_suffix(lkind k, csign sign) {
    static const char *const names[][2] = {
        [LK_VOID] = {"", ""},      [LK_I1] = {"i8", "u8"},       [LK_I8] = {"i8", "u8"},
        [LK_I16] = {"i16", "u16"}, [LK_I32] = {"i32", "u32"},    [LK_I64] = {"i64", "u64"},
        [LK_F16] = {"f16", "f16"}, [LK_BF16] = {"bf16", "bf16"}, [LK_F32] = {"f32", "f32"},
        [LK_F64] = {"f64", "f64"}, [LK_PTR] = {"ptr", "ptr"},
    };
    return names[k][sign == SIGN_UNSIGNED];
}

const char *cprelude(cfn *c, const char *stem, const char *kind) {
    const char *name = kind ? FMT("%s_%s", stem, kind) : stem;
    map_put(&c->mod->helpers, name, "");
    return FMT("%s%s", c->mod->prefix, name);
}

cexpr cexpr_make(prec p, csign sign, const char *s) {
    return (cexpr){.s = s, .prec = p, .sign = sign, .top = L_COUNT};
}

const char *cexpr_paren(cfn *c, cexpr e, prec least) { return e.prec >= least ? e.s : FMT("(%s)", e.s); }

// ---------------------------------------------------------------- constants

static const char *int_text(cfn *c, lkind k, int64_t v, bool is_unsigned) {
    if (is_unsigned && v < 0) {
        uint64_t u = lkind_bits(k) == 64 ? (uint64_t)v : (uint64_t)v & ((1ull << lkind_bits(k)) - 1);
        return lkind_bits(k) < 32 ? FMT("%llu", (unsigned long long)u)
                                  : FMT("0x%llxu", (unsigned long long)u);
    }
    if (v == INT64_MIN || (k == LK_I32 && v == INT32_MIN)) return FMT("(%lld - 1)", (long long)(v + 1));
    return FMT("%lld", (long long)v);
}

// Bits of an i32 whose C type may be int, as the type of small literals is. CUDA's int has 32 bits.
static int short_bits(cfn *c, lkind k, int bits) {
    return k == LK_I32 && bits <= INT_BITS_LEAST + 1 && c->mod->dialect == DIALECT_C ? bits : 0;
}

static int literal_bits(cfn *c, lkind k, int64_t v) {
    for (int bits = 1; bits <= INT_BITS_LEAST; bits++)
        if (v >= -(1 << (bits - 1)) && v < 1 << (bits - 1)) return short_bits(c, k, bits);
    return 0;
}

static cexpr cexpr_int(cfn *c, lkind k, int64_t v) {
    if (k == LK_I1) return cexpr_make(PREC_POSTFIX, SIGN_SIGNED, v ? "true" : "false");
    cexpr e = cexpr_make(v < 0 ? PREC_UNARY : PREC_POSTFIX, SIGN_LITERAL, int_text(c, k, v, false));
    e.lit = v;
    e.bits = literal_bits(c, k, v);
    return e;
}

static cexpr bits_const(cfn *c, lkind k, double v) {
    float f = (float)v;
    uint32_t u32;
    uint64_t u64;
    memcpy(&u32, &f, sizeof u32);
    memcpy(&u64, &v, sizeof u64);
    const char *name = cprelude(c, "from_bits", ckind_suffix(k, SIGN_SIGNED));
    return cexpr_make(PREC_POSTFIX, SIGN_SIGNED,
                      k == LK_F32 ? FMT("%s(0x%xu)", name, u32)
                                  : FMT("%s(0x%llxu)", name, (unsigned long long)u64));
}

static cexpr float_const(cfn *c, lkind k, double v) {
    if (lkind_is_half(k)) {
        uint16_t h;
        dtype_store_float(k == LK_F16 ? DT_F16 : DT_BF16, &h, 0, v, false);
        return cexpr_make(PREC_POSTFIX, SIGN_UNSIGNED, FMT("0x%04x", h));
    }
    const char *s = cfloat_text(c->arena, v, k);
    return s ? cexpr_make(*s == '-' ? PREC_UNARY : PREC_POSTFIX, SIGN_SIGNED, s) : bits_const(c, k, v);
}

static cexpr constant(cfn *c, const ins *x) {
    if (x->op == L_NULL)
        return cexpr_make(PREC_POSTFIX, SIGN_SIGNED, c->mod->dialect == DIALECT_C ? "NULL" : "nullptr");
    return lkind_is_int(x->type.kind) ? cexpr_int(c, x->type.kind, x->i) : float_const(c, x->type.kind, x->f);
}

// ---------------------------------------------------------------- sign

static cexpr cast(cfn *c, const char *type, csign sign, cexpr e) {
    return cexpr_make(PREC_UNARY, sign, FMT("(%s)%s", type, cexpr_paren(c, e, PREC_UNARY)));
}

static cexpr with_sign(cfn *c, lkind k, cexpr e, csign sign) {
    if (e.sign == sign || k == LK_I1) return e;
    if (e.sign == SIGN_LITERAL) {
        bool negative = sign == SIGN_SIGNED && e.lit < 0;
        cexpr n = cexpr_make(negative ? PREC_UNARY : PREC_POSTFIX, sign,
                             int_text(c, k, e.lit, !negative && e.lit < 0));
        n.bits = negative || e.lit >= 0 ? e.bits : 0;
        return n;
    }
    return cast(c, ctype_name(k, sign), sign, e);
}

cexpr cexpr_signed(cfn *c, const ins *x) { return with_sign(c, x->type.kind, cexpr_of(c, x), SIGN_SIGNED); }
// As an initial value or argument of a type of that sign, without a conversion that -Wsign-conversion warns about.
const char *cexpr_passed(cfn *c, const ins *x, csign sign) {
    lkind k = x->type.kind;
    bool narrow = k == LK_I8 || k == LK_I16, named = info_of(c, x)->state == STATE_NAMED;
    if (narrow && x->op == L_ITRUNC && !named)
        return cast(c, ctype_name(k, sign), sign, cexpr_of(c, x->args[0])).s;
    cexpr e = cexpr_of(c, x);
    bool fits = e.sign == SIGN_LITERAL && (sign == SIGN_SIGNED || e.lit >= 0);
    return !lkind_is_int(k) || fits ? e.s : with_sign(c, k, e, sign).s;
}

static cexpr as_unsigned(cfn *c, const ins *x) {
    return with_sign(c, x->type.kind, cexpr_of(c, x), SIGN_UNSIGNED);
}

// Converts both to one sign: signed if either is signed.
static csign unify(cfn *c, lkind k, cexpr *a, cexpr *b) {
    csign sign = SIGN_SIGNED;
    if (a->sign != SIGN_SIGNED && b->sign != SIGN_SIGNED &&
        (a->sign == SIGN_UNSIGNED || b->sign == SIGN_UNSIGNED))
        sign = SIGN_UNSIGNED;
    *a = with_sign(c, k, *a, sign);
    *b = with_sign(c, k, *b, sign);
    return sign;
}

// Makes an operation on two values that C promotes to int one of 32 bits, if `bits` are too many.
static void make_long(cfn *c, cexpr *a, const cexpr *b, int bits) {
    if (a->bits && b->bits && bits > INT_BITS_LEAST) *a = cast(c, "int32_t", SIGN_SIGNED, *a);
}

static int most_bits(const cexpr *a, const cexpr *b) { return a->bits > b->bits ? a->bits : b->bits; }

static cexpr infix(cfn *c, const char *op, prec p, csign sign, cexpr a, prec left, cexpr b, prec right) {
    return cexpr_make(p, sign, FMT("%s %s %s", cexpr_paren(c, a, left), op, cexpr_paren(c, b, right)));
}

const char *cexpr_scaled(cfn *c, const ins *index, int64_t factor, prec least) {
    cexpr e = cexpr_signed(c, index);
    if (index->op == L_CONST) {
        int64_t v = (int64_t)((uint64_t)index->i * (uint64_t)factor);
        return v ? cexpr_paren(c, cexpr_int(c, LK_I64, v), least) : NULL;
    }
    if (factor == 1) return cexpr_paren(c, e, least);
    if (lkind_bits(index->type.kind) < c->f->target->ptr_bits || e.bits)
        e = cast(c, "int64_t", SIGN_SIGNED, e);
    return FMT("%s * %lld", cexpr_paren(c, e, PREC_MUL), (long long)factor);
}

// ---------------------------------------------------------------- arithmetic

static const char *const signs[L_COUNT] = {
#define INS(...)
#define BINARY(op, name, class, ints, floats, c)    [op] = c,
#define COMPARE(op, name, ints, floats, c, inverse) [op] = c,
#include "ir/loops/loops.def"
};

// a op b with op one of + - *. The right operand keeps its parentheses unless reassociation is exact.
static cexpr sum(cfn *c, lop op, bool exact, csign sign, cexpr a, cexpr b) {
    prec p = op == L_MUL ? PREC_MUL : PREC_ADD;
    int bits = op == L_MUL ? a.bits + b.bits : most_bits(&a, &b) + 1;
    make_long(c, &a, &b, bits);
    bool loose = exact && (sign == SIGN_SIGNED || a.sign == SIGN_UNSIGNED) &&
                 ((op == L_ADD && b.top != L_MUL && b.prec == PREC_ADD) || (op == L_MUL && b.top == L_MUL));
    cexpr e = infix(c, signs[op], p, sign, a, p, b, loose ? p : (prec)(p + 1));
    e.top = op;
    e.bits = a.bits && b.bits ? bits : 0;
    return e;
}

// + - * that wrap: narrow types in int, signed if overflow is impossible, otherwise unsigned.
static cexpr wrapping(cfn *c, const ins *x) {
    lkind k = x->type.kind;
    cexpr a = cexpr_of(c, x->args[0]), b = cexpr_of(c, x->args[1]);
    if (lkind_bits(k) < 32) {
        if (k == LK_I16 && x->op == L_MUL) a = cast(c, "uint32_t", SIGN_UNSIGNED, a);
        else if (k == LK_I16 && c->mod->dialect == DIALECT_C) a = cast(c, "int32_t", SIGN_SIGNED, a);
        return cast(c, ctype_name(k, SIGN_SIGNED), SIGN_SIGNED, sum(c, x->op, false, SIGN_SIGNED, a, b));
    }
    if (cplan_no_wrap(c, x)) {
        a = with_sign(c, k, a, SIGN_SIGNED);
        b = with_sign(c, k, b, SIGN_SIGNED);
        if (x->op == L_ADD && x->args[1]->op == L_CONST && x->args[1]->i < 0 && x->args[1]->i > INT32_MIN) {
            return sum(c, L_SUB, false, SIGN_SIGNED, a, cexpr_int(c, k, -x->args[1]->i));
        }
        return sum(c, x->op, true, SIGN_SIGNED, a, b);
    }
    a = with_sign(c, k, a, SIGN_UNSIGNED);
    b = with_sign(c, k, b, SIGN_UNSIGNED);
    return sum(c, x->op, true, SIGN_UNSIGNED, a, b);
}

static cexpr divide(cfn *c, const ins *x) {
    lkind k = x->type.kind;
    csign sign = x->op == L_SDIV || x->op == L_SREM ? SIGN_SIGNED : SIGN_UNSIGNED;
    cexpr a = with_sign(c, k, cexpr_of(c, x->args[0]), sign),
          b = with_sign(c, k, cexpr_of(c, x->args[1]), sign);
    make_long(c, &a, &b, most_bits(&a, &b) + 1);
    return infix(c, signs[x->op], PREC_MUL, sign, a, PREC_MUL, b, PREC_UNARY);
}

static cexpr bool_op(cfn *c, const ins *x) {
    cexpr a = cexpr_of(c, x->args[0]), b = cexpr_of(c, x->args[1]);
    bool not = x->op == L_XOR && x->args[1]->op == L_CONST && x->args[1]->i;
    if (not) return cexpr_not(c, x->args[0]);
    if (x->op == L_AND || x->op == L_MUL || x->op == L_UMIN || x->op == L_SMAX)
        return infix(c, "&&", PREC_AND, SIGN_SIGNED, a, PREC_AND, b, PREC_EQ);
    if (x->op == L_OR || x->op == L_UMAX || x->op == L_SMIN)
        return infix(c, "||", PREC_OR, SIGN_SIGNED, a, a.prec == PREC_OR ? PREC_OR : PREC_EQ, b, PREC_EQ);
    return infix(c, "!=", PREC_EQ, SIGN_SIGNED, a, PREC_POSTFIX, b, PREC_POSTFIX);
}

// An operand of & | ^ ~. Compilers warn about an uncast comparison.
static cexpr bits_of(cfn *c, const ins *x) {
    bool truth = x->op == L_ZEXT && x->args[0]->type.kind == LK_I1 && info_of(c, x)->state != STATE_NAMED;
    return truth ? cast(c, ctype_name(x->type.kind, SIGN_SIGNED), SIGN_SIGNED, cexpr_of(c, x))
                 : cexpr_of(c, x);
}

static cexpr bitwise(cfn *c, const ins *x) {
    lkind k = x->type.kind;
    prec p = x->op == L_AND ? PREC_BITAND : x->op == L_OR ? PREC_BITOR : PREC_BITXOR;
    cexpr a = bits_of(c, x->args[0]), b = bits_of(c, x->args[1]);
    if (x->op == L_XOR && x->args[1]->op == L_CONST && x->args[1]->i == -1) {
        a = with_sign(c, k, a, lkind_bits(k) < 32 ? SIGN_SIGNED : a.sign);
        make_long(c, &a, &b, a.bits);
        return cexpr_make(PREC_UNARY, a.sign, FMT("~%s", cexpr_paren(c, a, PREC_UNARY)));
    }
    csign sign = unify(c, k, &a, &b);
    make_long(c, &a, &b, most_bits(&a, &b));
    cexpr e = infix(c, signs[x->op], p, sign, a, a.prec == p ? p : PREC_UNARY, b, PREC_UNARY);
    e.bits = a.bits && b.bits ? most_bits(&a, &b) : 0;
    return e;
}

static cexpr shift(cfn *c, const ins *x) {
    lkind k = x->type.kind;
    cexpr a = cexpr_of(c, x->args[0]), n = cexpr_of(c, x->args[1]);
    if (x->op != L_SHL) {
        csign sign = x->op == L_LSHR ? SIGN_UNSIGNED : SIGN_SIGNED;
        bool far = n.sign != SIGN_LITERAL || n.lit >= INT_BITS_LEAST - 1;
        if (a.sign == SIGN_LITERAL || (a.bits && (far || a.bits > INT_BITS_LEAST)))
            a = cast(c, ctype_name(k, sign), sign, a);
        return infix(c, ">>", PREC_SHIFT, sign, with_sign(c, k, a, sign), PREC_UNARY, n, PREC_UNARY);
    }
    const char *type = ctype_name(lkind_bits(k) < 32 ? LK_I32 : k, SIGN_UNSIGNED);
    if (lkind_bits(k) < 32 || a.sign != SIGN_UNSIGNED) a = cast(c, type, SIGN_UNSIGNED, a);
    cexpr e = infix(c, "<<", PREC_SHIFT, SIGN_UNSIGNED, a, PREC_UNARY, n, PREC_UNARY);
    return lkind_bits(k) < 32 ? cast(c, ctype_name(k, SIGN_SIGNED), SIGN_SIGNED, e) : e;
}

csign cparam_sign(const lparam *p) {
    return p && p->dtype != DT_NONE && dtype_class_of(p->dtype) == DC_UINT ? SIGN_UNSIGNED : SIGN_SIGNED;
}

// Argument k of memcpy and the like: of these, 2 is the number of bytes, a size_t, and what 1 points to is const.
static bool is_of_memory(const ins *x, int k, int which) {
    return x->op == L_CALL && k == which && !strncmp(x->name, "mem", 3);
}

static const char *cexpr_args(cfn *c, const ins *x, int from, const lfunc *callee) {
    text t = {.arena = c->arena};
    for (int k = from; k < x->nargs; k++) {
        const lparam *p = callee && k - from < callee->params.n ? &callee->params.at[k - from] : NULL;
        cptr want = {0};
        if (p && p->type.kind == LK_PTR) want = cptr_of_param(p);
        want.constant |= is_of_memory(x, k, 1);
        csign sign = is_of_memory(x, k, 2) ? SIGN_UNSIGNED : cparam_sign(p);
        if (k > from) text_add(&t, ", ");
        text_add(&t, x->args[k]->type.kind == LK_PTR ? cmem_arg(c, x->args[k], p ? &want : NULL)
                                                     : cexpr_passed(c, x->args[k], sign));
    }
    return text_str(&t);
}

static cexpr call(cfn *c, csign sign, const char *name, const char *args) {
    return cexpr_make(PREC_POSTFIX, sign, FMT("%s(%s)", name, args));
}

static cexpr int_min_max(cfn *c, const ins *x) {
    csign sign = x->op == L_UMIN || x->op == L_UMAX ? SIGN_UNSIGNED : SIGN_SIGNED;
    const char *stem = x->op == L_SMIN || x->op == L_UMIN ? "min" : "max";
    const char *args = FMT("%s, %s", cexpr_passed(c, x->args[0], sign), cexpr_passed(c, x->args[1], sign));
    return call(c, sign, cprelude(c, stem, ckind_suffix(x->type.kind, sign)), args);
}

// ---------------------------------------------------------------- floating point

// An operand of float arithmetic. f16 and bf16 are computed in f32, whose double rounding is innocuous.
static cexpr float_of(cfn *c, const ins *x) {
    cexpr e = cexpr_of(c, x);
    if (!lkind_is_half(x->type.kind)) return e;
    return call(c, SIGN_SIGNED, cprelude(c, ckind_suffix(x->type.kind, 0), "to_f32"), e.s);
}

static cexpr narrow(cfn *c, lkind to, cexpr e) {
    return lkind_is_half(to) ? call(c, SIGN_UNSIGNED, cprelude(c, "f32_to", ckind_suffix(to, 0)), e.s) : e;
}

static lkind float_kind(lkind k) { return lkind_is_half(k) ? LK_F32 : k; }

static cexpr float_bin(cfn *c, const ins *x) {
    cexpr a = float_of(c, x->args[0]), b = float_of(c, x->args[1]);
    if (x->op == L_FDIV)
        return narrow(c, x->type.kind, infix(c, "/", PREC_MUL, SIGN_SIGNED, a, PREC_MUL, b, PREC_UNARY));
    return narrow(c, x->type.kind, sum(c, x->op, false, SIGN_SIGNED, a, b));
}

static const char *three_floats(cfn *c, const ins *x) {
    return FMT("%s, %s, %s", float_of(c, x->args[0]).s, float_of(c, x->args[1]).s, float_of(c, x->args[2]).s);
}

// Without a library, only CUDA has it.
static cexpr fused(cfn *c, const ins *x) {
    const char *name = x->type.kind == LK_F64 ? "fma" : "fmaf";
    return narrow(c, x->type.kind, call(c, SIGN_SIGNED, name, three_floats(c, x)));
}

static cexpr muladd(cfn *c, const ins *x) {
    lkind k = x->type.kind;
    if (!cfn_is_strict(c) && c->mod->dialect == DIALECT_CUDA) return fused(c, x);
    if (!cfn_is_strict(c))
        return narrow(
            c, k,
            call(c, SIGN_SIGNED, cprelude(c, "muladd", ckind_suffix(float_kind(k), 0)), three_floats(c, x)));
    cexpr product = sum(c, L_MUL, false, SIGN_SIGNED, float_of(c, x->args[0]), float_of(c, x->args[1]));
    return narrow(c, k, sum(c, L_ADD, false, SIGN_SIGNED, product, float_of(c, x->args[2])));
}

static cexpr float_min_max(cfn *c, const ins *x) {
    const char *s = FMT("%s, %s", float_of(c, x->args[0]).s, float_of(c, x->args[1]).s);
    const char *kind = ckind_suffix(float_kind(x->type.kind), 0);
    return narrow(c, x->type.kind,
                  call(c, SIGN_SIGNED, cprelude(c, x->op == L_FMIN ? "min" : "max", kind), s));
}

static cexpr float_un(cfn *c, const ins *x) {
    cexpr e = float_of(c, x->args[0]);
    if (x->op == L_FNEG) {
        const char *s = cexpr_paren(c, e, PREC_UNARY);
        return narrow(c, x->type.kind,
                      cexpr_make(PREC_UNARY, SIGN_SIGNED, *s == '-' ? FMT("-(%s)", s) : FMT("-%s", s)));
    }
    const char *stem = x->op == L_FABS ? "abs" : lop_name(x->op);
    const char *name = cprelude(c, stem, ckind_suffix(float_kind(x->type.kind), 0));
    return narrow(c, x->type.kind, call(c, SIGN_SIGNED, name, e.s));
}

// ---------------------------------------------------------------- comparisons

// Values that x can have as a signed or unsigned number, when its C type may be narrower than its kind.
static bool narrow_range(const ins *x, bool is_unsigned, int64_t *lo, int64_t *hi) {
    lkind k = x->type.kind;
    bool zext = x->op == L_ZEXT, sext = x->op == L_SEXT;
    if (sext && is_unsigned) return false;
    if (zext || sext) k = x->args[0]->type.kind;
    else if (lkind_bits(k) > 16 && !is_unsigned) return false;
    if (lkind_bits(k) > 32) return false;
    bool from_zero = zext || (!sext && is_unsigned);
    *lo = from_zero ? 0 : -(1ll << (lkind_bits(k) - 1));
    *hi = from_zero ? (1ll << lkind_bits(k)) - 1 : (1ll << (lkind_bits(k) - 1)) - 1;
    return true;
}

static bool holds(lop op, int64_t a, int64_t b) {
    return op == L_EQ ? a == b : op == L_NE ? a != b : op == L_SLT || op == L_ULT ? a < b : a <= b;
}

// Compilers warn about comparisons of a narrow value with a constant outside its range.
int cexpr_known(const ins *x) {
    if (lop_class(x->op) != LC_COMPARE) return -1;
    bool ints = lkind_is_int(x->args[0]->type.kind);
    if (x->args[0] == x->args[1] && ints) return x->op == L_EQ || x->op == L_SLE || x->op == L_ULE;
    bool is_unsigned = x->op == L_ULT || x->op == L_ULE, swap = x->args[0]->op == L_CONST;
    const ins *v = x->args[swap], *k = x->args[!swap];
    int64_t lo, hi;
    if (!lkind_is_int(v->type.kind) || v->type.kind == LK_I1) return -1;
    if (k->op == L_CONST && !k->i && is_unsigned && swap == (x->op == L_ULE)) return swap;
    if (k->op != L_CONST || v->op == L_CONST || !narrow_range(v, is_unsigned, &lo, &hi)) return -1;
    int64_t n =
        is_unsigned && k->i < 0
            ? k->i & (int64_t)(lkind_bits(k->type.kind) == 64 ? -1 : (1ll << lkind_bits(k->type.kind)) - 1)
            : k->i;
    if (is_unsigned && n < 0) n = INT64_MAX;
    if (x->op == L_EQ || x->op == L_NE) return n < lo || n > hi ? x->op == L_NE : -1;
    bool low = swap ? holds(x->op, n, lo) : holds(x->op, lo, n),
         high = swap ? holds(x->op, n, hi) : holds(x->op, hi, n);
    return low == high ? low : -1;
}

static cexpr compare_bools(cfn *c, const ins *x) {
    cexpr a = cexpr_of(c, x->args[0]), b = cexpr_of(c, x->args[1]);
    bool equality = x->op == L_EQ || x->op == L_NE;
    if (equality && x->args[1]->op == L_CONST) {
        if (x->args[1]->i == (x->op == L_EQ)) return a;
        return cexpr_not(c, x->args[0]);
    }
    if (equality) return infix(c, signs[x->op], PREC_EQ, SIGN_SIGNED, a, PREC_POSTFIX, b, PREC_POSTFIX);
    // As a signed number, true is -1.
    bool is_signed = x->op == L_SLT || x->op == L_SLE, strict = x->op == L_SLT || x->op == L_ULT;
    cexpr low = is_signed ? a : b, high = is_signed ? b : a;
    high = cexpr_make(PREC_UNARY, SIGN_SIGNED, FMT("!%s", cexpr_paren(c, high, PREC_UNARY)));
    if (strict) return infix(c, "&&", PREC_AND, SIGN_SIGNED, low, PREC_EQ, high, PREC_EQ);
    return infix(c, "||", PREC_OR, SIGN_SIGNED, low, PREC_EQ, high, PREC_EQ);
}

static cexpr compare_pointers(cfn *c, const ins *x, const char *op) {
    const char *t[2];
    for (int k = 0; k < 2; k++) {
        cptr plain = {.kind = PTR_BYTES, .constant = true};
        bool null = x->args[!k]->op == L_NULL || x->args[k]->op == L_NULL;
        t[k] = null ? cexpr_paren(c, cexpr_of(c, x->args[k]), PREC_ADD)
                    : FMT("(%s)%s", cptr_text(c->arena, plain),
                          cexpr_paren(c, cexpr_of(c, x->args[k]), PREC_UNARY));
    }
    return cexpr_make(PREC_EQ, SIGN_SIGNED, FMT("%s %s %s", t[0], op, t[1]));
}

static cexpr compare_numbers(cfn *c, const ins *x, const char *op) {
    lkind k = x->args[0]->type.kind;
    prec p = x->op == L_EQ || x->op == L_NE ? PREC_EQ : PREC_REL;
    cexpr a, b;
    if (!lkind_is_int(k)) {
        a = float_of(c, x->args[0]);
        b = float_of(c, x->args[1]);
    } else {
        csign sign = x->op == L_ULT || x->op == L_ULE ? SIGN_UNSIGNED : SIGN_SIGNED;
        a = cexpr_of(c, x->args[0]);
        b = cexpr_of(c, x->args[1]);
        if (p == PREC_EQ) sign = unify(c, k, &a, &b);
        a = with_sign(c, k, a, sign);
        b = with_sign(c, k, b, sign);
        make_long(c, &a, &b, most_bits(&a, &b));
    }
    if (lkind_is_int(k) && !strcmp(a.s, b.s)) // compilers warn about it
        return cexpr_int(c, LK_I1, !strcmp(op, "==") || !strcmp(op, "<=") || !strcmp(op, ">="));
    return infix(c, op, p, SIGN_SIGNED, a, PREC_ADD, b, PREC_ADD);
}

static cexpr compare(cfn *c, const ins *x) {
    lkind k = x->args[0]->type.kind;
    if (k == LK_PTR) return compare_pointers(c, x, signs[x->op]);
    if (k == LK_I1) return compare_bools(c, x);
    if (cexpr_known(x) >= 0) return cexpr_int(c, LK_I1, cexpr_known(x));
    return compare_numbers(c, x, signs[x->op]);
}

// Inverts comparisons; comparisons of floats only if the result for NaN stays right.
cexpr cexpr_not(cfn *c, const ins *x) {
    static const char *const inverse[L_COUNT] = {
#define INS(...)
#define COMPARE(op, name, ints, floats, c, inverse) [op] = inverse,
#include "ir/loops/loops.def"
    };
    bool in_place = info_of(c, x)->state != STATE_NAMED && inverse[x->op] && cexpr_known(x) < 0;
    lkind k = in_place ? (lkind)x->args[0]->type.kind : LK_VOID;
    bool equality = x->op == L_EQ || x->op == L_NE;
    if (k == LK_PTR) return compare_pointers(c, x, inverse[x->op]);
    if ((lkind_is_int(k) && k != LK_I1) || (lkind_is_float(k) && equality))
        return compare_numbers(c, x, inverse[x->op]);
    return cexpr_make(PREC_UNARY, SIGN_SIGNED, FMT("!%s", cexpr_paren(c, cexpr_of(c, x), PREC_POSTFIX)));
}

static cexpr choose(cfn *c, const char *cond, cexpr a, cexpr b, csign sign) {
    return cexpr_make(PREC_COND, sign,
                      FMT("%s ? %s : %s", cond, cexpr_paren(c, a, PREC_OR), cexpr_paren(c, b, PREC_OR)));
}

static cexpr select_value(cfn *c, const ins *x) {
    const char *cond = cexpr_paren(c, cexpr_of(c, x->args[0]), PREC_OR);
    if (x->type.kind == LK_PTR) {
        cptr want = cptr_of(c, x);
        return choose(c, cond, cexpr_make(PREC_UNARY, 0, cmem_arg(c, x->args[1], &want)),
                      cexpr_make(PREC_UNARY, 0, cmem_arg(c, x->args[2], &want)), SIGN_SIGNED);
    }
    cexpr a = cexpr_of(c, x->args[1]), b = cexpr_of(c, x->args[2]);
    if (x->type.kind == LK_I64 && a.sign == SIGN_LITERAL && b.sign == SIGN_LITERAL)
        a = cast(c, "int64_t", SIGN_SIGNED, a);
    csign sign = lkind_is_int(x->type.kind) ? unify(c, x->type.kind, &a, &b) : a.sign;
    make_long(c, &a, &b, most_bits(&a, &b));
    cexpr e = choose(c, cond, a, b, sign);
    e.bits = a.bits && b.bits ? most_bits(&a, &b) : 0;
    return e;
}

// ---------------------------------------------------------------- conversions

static cexpr extend(cfn *c, const ins *x) {
    const ins *from = x->args[0];
    lkind k = x->type.kind, k0 = from->type.kind;
    csign sign = x->op == L_SEXT ? SIGN_SIGNED : SIGN_UNSIGNED;
    cexpr e = cexpr_of(c, from);
    if (k0 == LK_I1 && x->op == L_SEXT)
        e = choose(c, cexpr_paren(c, e, PREC_OR), cexpr_int(c, k, -1), cexpr_int(c, k, 0), SIGN_SIGNED);
    else if (k0 != LK_I1) e = with_sign(c, k0, e, sign);
    if (k == LK_I64 && (k0 != LK_I1 || x->op == L_ZEXT))
        return cast(c, ctype_name(k, SIGN_SIGNED), SIGN_SIGNED, e);
    cexpr promoted = cexpr_make(e.prec, SIGN_SIGNED, e.s); // C promotes it to int, which keeps its value
    promoted.bits = short_bits(c, k, lkind_bits(k0) + (x->op == L_ZEXT));
    return promoted;
}

static cexpr int_trunc(cfn *c, const ins *x) {
    cexpr e = cexpr_of(c, x->args[0]);
    if (x->type.kind == LK_I1)
        return cexpr_make(PREC_EQ, SIGN_SIGNED, FMT("(%s & 1) != 0", cexpr_paren(c, e, PREC_UNARY)));
    csign sign = e.sign == SIGN_UNSIGNED ? SIGN_UNSIGNED : SIGN_SIGNED;
    return cast(c, ctype_name(x->type.kind, sign), sign, e);
}

static cexpr int_to_float(cfn *c, const ins *x) {
    const ins *from = x->args[0];
    lkind k = x->type.kind;
    cexpr e = x->op == L_SITOF ? cexpr_signed(c, from) : as_unsigned(c, from);
    if (from->type.kind == LK_I1 && x->op == L_SITOF)
        e = choose(c, cexpr_paren(c, e, PREC_OR), cexpr_int(c, LK_I32, -1), cexpr_int(c, LK_I32, 0),
                   SIGN_SIGNED);
    if (!lkind_is_half(k)) return cast(c, ctype_name(k, 0), SIGN_SIGNED, e);
    // Round to odd in f32, so that the second rounding is exact.
    e = call(c, SIGN_SIGNED, cprelude(c, "to_odd", "f32"), cast(c, "double", 0, e).s);
    return narrow(c, k, e);
}

static cexpr float_to_int(cfn *c, const ins *x) {
    csign sign = x->op == L_FTOUI ? SIGN_UNSIGNED : SIGN_SIGNED;
    cexpr e = float_of(c, x->args[0]);
    if (x->type.kind == LK_I1) e = cast(c, "int32_t", SIGN_SIGNED, e);
    return cast(c, ctype_name(x->type.kind, sign), sign, e);
}

static cexpr float_to_float(cfn *c, const ins *x) {
    lkind from = x->args[0]->type.kind, to = x->type.kind;
    cexpr e = float_of(c, x->args[0]);
    if (from == LK_F64 && lkind_is_half(to)) e = call(c, SIGN_SIGNED, cprelude(c, "to_odd", "f32"), e.s);
    else if (float_kind(from) != float_kind(to)) e = cast(c, ctype_name(float_kind(to), 0), SIGN_SIGNED, e);
    return narrow(c, to, e);
}

static cexpr bitcast(cfn *c, const ins *x) {
    lkind from = x->args[0]->type.kind, to = x->type.kind;
    cexpr e = cexpr_of(c, x->args[0]);
    if (from == LK_F32 || from == LK_F64)
        return call(c, SIGN_UNSIGNED, cprelude(c, "bits", ckind_suffix(from, 0)), e.s);
    if (to == LK_F32 || to == LK_F64)
        return call(c, SIGN_SIGNED, cprelude(c, "from_bits", ckind_suffix(to, 0)),
                    cexpr_passed(c, x->args[0], SIGN_UNSIGNED));
    if (lkind_is_half(to)) return with_sign(c, LK_I16, e, SIGN_UNSIGNED);
    if (from == LK_PTR || to == LK_PTR)
        return cast(c, to == LK_PTR ? "void *" : ctype_name(to, SIGN_SIGNED), SIGN_SIGNED,
                    cast(c, "intptr_t", SIGN_SIGNED, e));
    return e;
}

// ---------------------------------------------------------------- symbols, calls and GPU instructions

static void use_symbol(cfn *c, const char *name) {
    map_put(&c->mod->used, name, "");
    if (!map_get(&c->mod->defined, name)) map_put(&c->mod->early, name, "");
}

static cexpr symbol(cfn *c, const ins *x) {
    use_symbol(c, x->name);
    bool bits = map_get(&c->mod->by_bits, x->name) != NULL;
    return cexpr_make(PREC_POSTFIX, SIGN_SIGNED, bits ? FMT("%s.value", x->name) : x->name);
}

static cexpr load_pointer(cfn *c, const ins *x, cexpr e) {
    cptr p = cptr_of(c, x);
    return x->type.kind == LK_PTR && p.kind == PTR_ELEM ? cast(c, cptr_text(c->arena, p), SIGN_SIGNED, e) : e;
}

static cexpr load(cfn *c, const ins *x) {
    cexpr e = load_pointer(c, x, cmem_load(c, x, x->args[0], x->args[1]));
    if (x->op != L_LOADN) return e;
    const char *cond = FMT("%s > 0", cexpr_paren(c, cexpr_signed(c, x->args[2]), PREC_ADD));
    lkind k = x->type.kind;
    cexpr zero = lkind_is_int(k) ? with_sign(c, k, cexpr_int(c, k, 0), e.sign)
                 : k == LK_PTR   ? cexpr_make(PREC_POSTFIX, SIGN_SIGNED, "NULL")
                                 : float_const(c, k, 0);
    return choose(c, cond, e, zero, e.sign);
}

static const char *callee_pointer(cfn *c, const ins *x) {
    if (x->args[0]->op == L_FIELD && cmem_member(c, x->args[0])) return cexpr_of(c, x->args[0]).s;
    text t = {.arena = c->arena};
    for (int k = 1; k < x->nargs; k++)
        text_printf(&t, "%s%s", k > 1 ? ", " : "", ctype_name(x->args[k]->type.kind, SIGN_SIGNED));
    return FMT("((%s (*)(%s))(uintptr_t)%s)", ctype_name(x->type.kind, SIGN_SIGNED),
               x->nargs > 1 ? text_str(&t) : "void", cexpr_paren(c, cexpr_of(c, x->args[0]), PREC_UNARY));
}

static cexpr calls(cfn *c, const ins *x) {
    if (x->op == L_CALLPTR) return call(c, SIGN_SIGNED, callee_pointer(c, x), cexpr_args(c, x, 1, NULL));
    const lfunc *f = map_get(&c->mod->funcs, x->name);
    use_symbol(c, x->name);
    if (!strncmp(x->name, "mem", 3)) c->mod->memory = true;
    return load_pointer(c, x, call(c, SIGN_SIGNED, x->name, cexpr_args(c, x, 0, f)));
}

// Accumulators are float or int32_t arrays, operands in registers are uint32_t; others are bytes and numbers.
static cexpr gpu_instruction(cfn *c, const ins *x) {
    const char *name = gpu_ins_name(c->mod->arena, x->gpu);
    const cptr words = {PTR_ELEM, "uint32_t", LK_I32, SIGN_UNSIGNED, true};
    bool floats = dtype_is_float(x->gpu->a), sums = x->gpu->a != DT_NONE, all = x->gpu->op == GPU_MMA;
    const cptr results = {PTR_ELEM, floats ? "float" : "int32_t", floats ? LK_F32 : LK_I32, 0, false};
    text t = {.arena = c->arena};
    for (int k = 0; k < (all ? 3 : sums); k++)
        text_printf(&t, "%s%s", k ? ", " : "", cmem_arg(c, x->args[k], k ? &words : &results));
    if (!all && x->nargs > sums) text_printf(&t, "%s%s", sums ? ", " : "", cexpr_args(c, x, sums, NULL));
    if (sums && !all) map_put(&c->mod->warpgroup, name, (void *)x->gpu);
    return call(c, SIGN_SIGNED, cprelude(c, name, NULL), text_str(&t));
}

static cexpr shuffle_xor(cfn *c, const ins *x) {
    lkind k = x->type.kind;
    cexpr e = cexpr_of(c, x->args[0]);
    e = call(c, SIGN_SIGNED, "__shfl_xor_sync", FMT("0xffffffffu, %s, %lld", e.s, (long long)x->i));
    if (k == LK_I64 || k == LK_I32 || k == LK_F32 || k == LK_F64) return e;
    return cast(c, ctype_name(k, 0), lkind_is_half(k) ? SIGN_UNSIGNED : SIGN_SIGNED, e);
}

static cexpr dot(cfn *c, const ins *x) {
    return call(c, SIGN_SIGNED, cprelude(c, lop_name(x->op), NULL), cexpr_args(c, x, 0, NULL));
}

static cexpr two_operands(cfn *c, const ins *x) {
    lclass class = lop_class(x->op);
    if (x->type.kind == LK_I1 && class != LC_DIVIDE && class != LC_SHIFT) return bool_op(c, x);
    if (x->op == L_FMIN || x->op == L_FMAX) return float_min_max(c, x);
    if (lkind_is_float(x->type.kind)) return float_bin(c, x);
    return class == LC_DIVIDE    ? divide(c, x)
           : class == LC_SHIFT   ? shift(c, x)
           : class == LC_BITS    ? bitwise(c, x)
           : class == LC_MIN_MAX ? int_min_max(c, x)
                                 : wrapping(c, x);
}

// With one lane, an operation on lanes is one of its operands.
static cexpr one_lane(cfn *c, const ins *x) {
    int from = x->op == L_INSERT || (x->op == L_SHUFFLE && x->mask[0] > 0);
    return cexpr_of(c, x->args[from]);
}

cexpr cexpr_tree(cfn *c, const ins *x) {
    switch (lop_class(x->op)) {
    case LC_CONST: return constant(c, x);
    case LC_PLACE: return symbol(c, x);
    case LC_LANES:
    case LC_REDUCE:
    case LC_VARIABLE: return one_lane(c, x);
    case LC_ARITHMETIC:
    case LC_FLOAT:
    case LC_DIVIDE:
    case LC_MIN_MAX:
    case LC_BITS:
    case LC_SHIFT: return two_operands(c, x);
    case LC_MULADD: return x->op == L_FMA ? fused(c, x) : muladd(c, x);
    case LC_SIGN:
    case LC_SQRT:
    case LC_ROUND: return float_un(c, x);
    case LC_COMPARE: return compare(c, x);
    case LC_SELECT: return select_value(c, x);
    case LC_RESIZE: return x->op == L_ITRUNC ? int_trunc(c, x) : extend(c, x);
    case LC_TO_FLOAT: return int_to_float(c, x);
    case LC_TO_INT: return float_to_int(c, x);
    case LC_PRECISION: return float_to_float(c, x);
    case LC_BITCAST: return bitcast(c, x);
    case LC_DOT: return dot(c, x);
    case LC_MEMORY: return load(c, x);
    case LC_POINTER: return x->op == L_OFFSET ? cmem_offset(c, x) : cmem_field(c, x);
    case LC_CALL: return calls(c, x);
    case LC_THREADS: return shuffle_xor(c, x);
    case LC_GPU: return gpu_instruction(c, x);
    case LC_BLOCK: // not in C
    case LC_TILE:
    case LC_CONTROL: // statements
    case LC_COMMENT: break;
    }
    diag_defect(c->mod->d, NULL, "function %s: %s is not an expression", c->f->name, lop_name(x->op));
}

cexpr cexpr_of(cfn *c, const ins *x) {
    const cinfo *n = info_of(c, x);
    return n->state == STATE_NAMED ? cexpr_make(PREC_POSTFIX, n->sign, n->name) : cexpr_tree(c, x);
}
