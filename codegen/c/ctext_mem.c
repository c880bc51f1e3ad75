// In: pointers, loads and stores of a function. Out: their C types and expressions. Accesses are typed if the
// types agree, otherwise by memcpy, in accordance with C's rules on aliasing.
#include "codegen/c/ctext_impl.h"

// Kinds of the same class may alias in C.
static lkind storage_class(lkind k) {
    if (k == LK_F16 || k == LK_BF16) return LK_I16;
    return k == LK_I1 ? LK_I8 : k;
}

static bool is_bits(lkind k) { return k == LK_I1 || k == LK_F16 || k == LK_BF16; }

static cptr elem_ptr(lkind k, csign sign, bool constant) {
    if (is_bits(k)) sign = SIGN_UNSIGNED;
    k = storage_class(k);
    return (cptr){PTR_ELEM, ctype_name(k, sign), k, sign, constant};
}

static cptr byte_ptr(bool constant) { return (cptr){.kind = PTR_BYTES, .constant = constant}; }

// Booleans, small floats and packed integers are bytes.
cptr cptr_of_dtype(dtype t, bool constant) {
    bool packed = dtype_bits(t) < 8, is_signed = dtype_is_int(t) && dtype_is_signed(t) && !packed;
    if (t == DT_NONE) return byte_ptr(constant);
    if (t == DT_C64 || t == DT_C128) return elem_ptr(t == DT_C64 ? LK_F32 : LK_F64, SIGN_SIGNED, constant);
    return elem_ptr(lkind_of(t), is_signed ? SIGN_SIGNED : SIGN_UNSIGNED, constant);
}

cptr cptr_of_param(const lparam *p) {
    if (p->ctype) return (cptr){.kind = PTR_STRUCT, .type = p->ctype, .constant = p->is_const};
    if (p->dtype != DT_NONE && (p->elem == LK_VOID || p->elem == lkind_of(p->dtype)))
        return cptr_of_dtype(p->dtype, p->is_const);
    return p->elem ? elem_ptr(p->elem, SIGN_SIGNED, p->is_const) : byte_ptr(p->is_const);
}

const char *cptr_text(arena *a, cptr p) {
    const char *type = p.kind == PTR_ELEM || p.kind == PTR_STRUCT ? p.type : "void";
    if (p.kind == PTR_ELEM && p.elem == LK_PTR) return p.constant ? "void *const *" : "void **";
    return arena_printf(a, "%s%s *", p.constant ? "const " : "", type);
}

static bool same_elem(cptr p, cptr q) {
    return p.kind == PTR_ELEM && q.kind == PTR_ELEM && p.elem == q.elem && p.sign == q.sign;
}

// The type of a computed pointer: the type of the accesses through it, else the type of its base.
static cptr by_access(cfn *c, const ins *x, cptr natural) {
    lkind k = info_of(c, x)->access;
    if (!k || info_of(c, x)->mixed) return natural;
    if (natural.kind == PTR_ELEM && storage_class(k) == natural.elem) return natural;
    return elem_ptr(k, SIGN_SIGNED, natural.constant);
}

static cptr symbol_ptr(cfn *c, const ins *x) {
    const ldata *d = map_get(&c->mod->data, x->name);
    if (map_get(&c->mod->funcs, x->name)) return (cptr){.kind = PTR_FUNC};
    if (!d) return byte_ptr(false);
    return cptr_of_dtype(d->dtype == DT_NONE ? DT_U8 : d->dtype, !d->variable);
}

cptr cptr_of(cfn *c, const ins *x) {
    if (x->op == L_PARAM) return cptr_of_param(&c->f->params.at[x->i]);
    if (x->op == L_LOCAL) return elem_ptr(x->elem, SIGN_SIGNED, false);
    if (x->op == L_SYMBOL) return symbol_ptr(c, x);
    if (x->op == L_FIELD)
        return cmem_member(c, x) && info_of(c, x)->state != STATE_NAMED ? (cptr){.kind = PTR_MEMBER}
                                                                        : byte_ptr(false);
    if (x->op == L_GET) return cptr_of(c, x->args[0]);
    if (x->op == L_VAR) return by_access(c, x, cptr_of(c, x->args[0]));
    if (x->op == L_SELECT) {
        cptr p = cptr_of(c, x->args[1]), q = cptr_of(c, x->args[2]);
        bool constant = p.constant || q.constant;
        if (!same_elem(p, q)) p = by_access(c, x, byte_ptr(constant));
        p.constant = constant;
        return p;
    }
    if (x->op != L_OFFSET) return by_access(c, x, byte_ptr(false));
    cptr base = cptr_of(c, x->args[0]);
    if (base.kind != PTR_ELEM || x->i % lkind_bytes(base.elem)) base = byte_ptr(base.constant);
    return by_access(c, x, base);
}

// The pointer as char *, for address arithmetic.
static const char *as_bytes(cfn *c, const ins *ptr, bool constant) {
    return arena_printf(c->arena, "(%schar *)%s", constant ? "const " : "",
                        cexpr_paren(c, cexpr_of(c, ptr), PREC_UNARY));
}

static const char *add_bytes(cfn *c, const ins *ptr, const ins *index, int64_t scale, bool constant) {
    const char *offset = cexpr_scaled(c, index, scale, PREC_MUL), *base = as_bytes(c, ptr, constant);
    return offset ? arena_printf(c->arena, "%s + %s", base, offset) : base;
}

cexpr cmem_offset(cfn *c, const ins *x) {
    cptr base = cptr_of(c, x->args[0]), result = cptr_of(c, x);
    int size = result.kind == PTR_ELEM ? lkind_bytes(result.elem) : 1;
    if (same_elem(base, result) && x->i % size == 0) {
        const char *offset = cexpr_scaled(c, x->args[1], x->i / size, PREC_MUL);
        const char *p = cexpr_paren(c, cexpr_of(c, x->args[0]), PREC_ADD);
        return cexpr_make(PREC_ADD, SIGN_SIGNED, offset ? arena_printf(c->arena, "%s + %s", p, offset) : p);
    }
    const char *bytes = add_bytes(c, x->args[0], x->args[1], x->i, base.constant);
    if (result.kind != PTR_ELEM) return cexpr_make(PREC_ADD, SIGN_SIGNED, bytes);
    return cexpr_make(PREC_UNARY, SIGN_SIGNED,
                      arena_printf(c->arena, "(%s)(%s)", cptr_text(c->arena, result), bytes));
}

// ---------------------------------------------------------------- elements

static bool is_inline(cfn *c, const ins *x) { return info_of(c, x)->state != STATE_NAMED; }

const char *cmem_place(cfn *c, const ins *x, lkind k, const ins *ptr, const ins *index, csign *sign) {
    lkind class = storage_class(k);
    int size = lkind_bytes(k);
    const char *sum = NULL;
    *sign = SIGN_SIGNED;
    if (x->align && x->align < size) return NULL;
    while (ptr->op == L_OFFSET && is_inline(c, ptr) && ptr->i % size == 0 &&
           same_elem(cptr_of(c, ptr->args[0]), cptr_of(c, ptr)) && cptr_of(c, ptr).elem == class) {
        const char *term = cexpr_scaled(c, ptr->args[1], ptr->i / size, PREC_ADD);
        if (term) sum = sum ? arena_printf(c->arena, "%s + %s", term, sum) : term;
        ptr = ptr->args[0];
    }
    cptr p = cptr_of(c, ptr);
    const char *base = cexpr_paren(c, cexpr_of(c, ptr), PREC_POSTFIX);
    if (p.kind == PTR_ELEM && p.elem == class) *sign = p.sign;
    else if (size == 1) base = arena_printf(c->arena, "((const int8_t *)%s)", base);
    else return NULL;
    const char *last = cexpr_scaled(c, index, 1, PREC_ADD);
    if (sum && last) sum = arena_printf(c->arena, "%s + %s", sum, last);
    else if (last) sum = last;
    return arena_printf(c->arena, "%s[%s]", base, sum ? sum : "0");
}

static const char *address(cfn *c, const ins *ptr, const ins *index, int size, bool constant) {
    if (index->op == L_CONST && !index->i) return cexpr_of(c, ptr).s;
    return add_bytes(c, ptr, index, size, constant);
}

cexpr cmem_load(cfn *c, const ins *x, const ins *ptr, const ins *index) {
    lkind k = x->type.kind;
    csign sign;
    const char *s = cmem_place(c, x, k, ptr, index, &sign);
    if (!s) {
        lkind class = storage_class(k);
        s = arena_printf(c->arena, "%s(%s)", cprelude(c, "load", ckind_suffix(class, SIGN_SIGNED)),
                         address(c, ptr, index, lkind_bytes(k), true));
    }
    if (k == LK_I1) return cexpr_make(PREC_EQ, SIGN_SIGNED, arena_printf(c->arena, "%s != 0", s));
    return cexpr_make(PREC_POSTFIX, is_bits(k) ? SIGN_UNSIGNED : sign, s);
}

// The value that a store writes. Pointers in memory are not const: as integers they lose it without a warning of -Wcast-qual.
static const char *stored(cfn *c, const ins *value, csign sign) {
    if (value->type.kind == LK_PTR)
        return arena_printf(c->arena, "(void *)(uintptr_t)%s",
                            cexpr_paren(c, cexpr_of(c, value), PREC_UNARY));
    return cexpr_passed(c, value, sign);
}

const char *cmem_store(cfn *c, const ins *x, const ins *ptr, const ins *index, const ins *value) {
    lkind k = value->type.kind, class = storage_class(k);
    csign sign;
    const char *place = cmem_place(c, x, k, ptr, index, &sign);
    if (place && !strncmp(place, "((const ", 8)) place = arena_printf(c->arena, "((%s", place + 8);
    if (place) return arena_printf(c->arena, "%s = %s", place, stored(c, value, sign));
    return arena_printf(c->arena, "%s(%s, %s)", cprelude(c, "store", ckind_suffix(class, SIGN_SIGNED)),
                        address(c, ptr, index, lkind_bytes(k), false), stored(c, value, sign));
}

// ---------------------------------------------------------------- structs and arguments

const char *cmem_member(cfn *c, const ins *x) {
    const ins *base = x->args[0];
    const char *b = NULL;
    if (base->op == L_PARAM && c->f->params.at[base->i].ctype) b = cexpr_of(c, base).s;
    if (base->op == L_FIELD && is_inline(c, base)) b = cmem_member(c, base);
    return b ? arena_printf(c->arena, "%s->%s", b, x->name) : NULL;
}

cexpr cmem_field(cfn *c, const ins *x) {
    const char *s = cmem_member(c, x);
    if (!s)
        s = arena_printf(c->arena, "%s(%s + %lld)",
                         cprelude(c, "load", ckind_suffix(storage_class(x->type.kind), 0)),
                         as_bytes(c, x->args[0], true), (long long)x->i);
    return cexpr_make(PREC_POSTFIX, SIGN_SIGNED, s);
}

static bool needs_cast(const ins *x, cptr have, cptr want) {
    if (x->op == L_NULL) return false;
    if (have.constant && !want.constant) return true;
    if (want.kind == PTR_BYTES) return false;
    if (have.kind == PTR_MEMBER) // declared with the type of its dtype, of which narrow ones have several
        return want.kind == PTR_ELEM && want.sign == SIGN_UNSIGNED && lkind_bytes(want.elem) < 4;
    if (want.kind == PTR_STRUCT) return have.kind != PTR_STRUCT || strcmp(have.type, want.type);
    return !same_elem(have, want);
}

// A pointer to pointers, which may be const, is cast by way of void *, and what loses const by way of an integer: without warnings.
const char *cmem_arg(cfn *c, const ins *x, const cptr *want) {
    cptr have = cptr_of(c, x), unknown = byte_ptr(have.constant);
    cexpr e = cexpr_of(c, x);
    bool raw = have.kind == PTR_BYTES && e.prec != PREC_POSTFIX; // char * arithmetic
    if (have.kind == PTR_FUNC || (!want && !raw) || (want && !needs_cast(x, have, *want))) return e.s;
    bool pointers = want && (want->kind == PTR_ELEM ? want->elem == LK_PTR
                                                    : want->kind == PTR_STRUCT && strchr(want->type, '*'));
    bool drops = have.constant && want && !want->constant;
    return arena_printf(c->arena, "(%s)%s%s", cptr_text(c->arena, want ? *want : unknown),
                        pointers ? "(void *)"
                        : drops  ? "(uintptr_t)"
                                 : "",
                        cexpr_paren(c, e, PREC_UNARY));
}
