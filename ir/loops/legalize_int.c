// Soft integers: 64-bit division, products and shifts from 32-bit parts, and division without a divider. In:
// one scalar instruction. Out: a call of a helper, or a few instructions.
#include "ir/loops/legalize_impl.h"
#include "ir/target.h"

bool is_small_freestanding(const target *t) {
    return t->freestanding && t->ptr_bits == 32 && !t->arch.is_text;
}

static ins *low_half(lbuild *b, ins *x) { return lb_conv(b, L_ITRUNC, LK_I32, x); }
static ins *high_half(lbuild *b, ins *x) {
    return lb_conv(b, L_ITRUNC, LK_I32, lb_bin(b, L_LSHR, x, lb_int_like(b, x, 32)));
}
static ins *join(lbuild *b, ins *high, ins *low) {
    ins *h = lb_conv(b, L_ZEXT, LK_I64, high);
    return lb_bin(b, L_OR, lb_bin(b, L_SHL, h, lb_int_like(b, h, 32)), lb_conv(b, L_ZEXT, LK_I64, low));
}

// ---------------------------------------------------------------- division
//   rest = 0; for each bit of x from the top: rest = rest << 1 | bit; if (rest >= y) rest -= y, q |= 1
// The bits of the quotient are shifted into x from below. If rest loses its top bit, it is large enough.

static void make_unsigned_division(lbuild *b, lfunc *f, int want_rest) {
    ins *x0 = f->params.at[0].value, *y = f->params.at[1].value;
    int bits = 8 * lkind_bytes(x0->type.kind);
    ins *zero = lb_int_like(b, y, 0), *one = lb_int_like(b, y, 1), *top = lb_int_like(b, y, bits - 1);
    ins *x = lb_var(b, "bits", x0), *rest = lb_var(b, "rest", zero);
    ltype count = lt(LK_I32, 1);
    ins *i = lb_for(b, "i", lb_int(b, count, 0), lb_int(b, count, bits), lb_int(b, count, 1), LOOP_SERIAL);
    ins *now = lb_get(b, x), *r = lb_get(b, rest);
    ins *carry = lb_cmp(b, L_SLT, r, zero);
    r = lb_bin(b, L_OR, lb_bin(b, L_SHL, r, one), lb_bin(b, L_LSHR, now, top));
    ins *fits = lb_bin(b, L_OR, carry, lb_cmp(b, L_ULE, y, r));
    lb_set(b, rest, lb_select(b, fits, lb_bin(b, L_SUB, r, y), r));
    lb_set(b, x, lb_bin(b, L_OR, lb_bin(b, L_SHL, now, one), lb_conv(b, L_ZEXT, y->type.kind, fits)));
    lb_end(b, i);
    lb_return(b, lb_get(b, want_rest ? rest : x));
}

static ins *magnitude(lbuild *b, ins *x) {
    ins *minus = lb_bin(b, L_SUB, lb_int_like(b, x, 0), x);
    return lb_select(b, lb_cmp(b, L_SLT, x, lb_int_like(b, x, 0)), minus, x);
}

static ins *unsigned_division(lmodule *m, lbuild *b, bool rest, ins *x, ins *y) {
    int bits = 8 * lkind_bytes(x->type.kind);
    const char *name = bits == 64 ? rest ? "onnxc_urem64" : "onnxc_udiv64"
                       : rest     ? "onnxc_urem32"
                                  : "onnxc_udiv32";
    return call_helper(m, b, name, x->type, 2, (ins *[]){x, y}, make_unsigned_division, rest);
}

static ins *division(lmodule *m, lbuild *b, const ins *d) {
    ins *x = d->args[0], *y = d->args[1];
    bool rest = d->op == L_SREM || d->op == L_UREM;
    if (d->op == L_UDIV || d->op == L_UREM) return unsigned_division(m, b, rest, x, y);
    ins *r = unsigned_division(m, b, rest, magnitude(b, x), magnitude(b, y));
    ins *minus = lb_cmp(b, L_SLT, rest ? x : lb_bin(b, L_XOR, x, y), lb_int_like(b, x, 0));
    return lb_select(b, minus, lb_bin(b, L_SUB, lb_int_like(b, r, 0), r), r);
}

// No target divides 8 or 16 bits.
static ins *narrow_division(lbuild *b, const ins *d) {
    bool is_signed = d->op == L_SDIV || d->op == L_SREM;
    ins *args[2];
    for (int i = 0; i < 2; i++) args[i] = lb_conv(b, is_signed ? L_SEXT : L_ZEXT, LK_I32, d->args[i]);
    return lb_conv(b, L_ITRUNC, d->type.kind, lb_op(b, d->op, lt(LK_I32, 1), 2, args));
}

// ---------------------------------------------------------------- shifts by n < 64, in halves
// n < 32: both halves shift by n, and n bits move from one to the other; otherwise one half moves to the other and
// shifts by n - 32.

static ins *shift_pieces(lbuild *b, lop op, ins *x, ins *n64) {
    ins *n = low_half(b, n64), *low = low_half(b, x), *high = high_half(b, x);
    ins *k = lb_bin(b, L_AND, n, lb_int_like(b, n, 31)), *far = lb_cmp(b, L_ULE, lb_int_like(b, n, 32), n);
    ins *back = lb_bin(b, L_SUB, lb_int_like(b, n, 31), k), *one = lb_int_like(b, n, 1),
        *zero = lb_int_like(b, n, 0);
    if (op == L_SHL) {
        ins *l = lb_bin(b, L_SHL, low, k);
        ins *pass = lb_bin(b, L_LSHR, lb_bin(b, L_LSHR, low, one), back);
        ins *h = lb_bin(b, L_OR, lb_bin(b, L_SHL, high, k), pass);
        return join(b, lb_select(b, far, l, h), lb_select(b, far, zero, l));
    }
    ins *h = lb_bin(b, op, high, k), *pass = lb_bin(b, L_SHL, lb_bin(b, L_SHL, high, one), back);
    ins *l = lb_bin(b, L_OR, lb_bin(b, L_LSHR, low, k), pass);
    ins *fill = op == L_ASHR ? lb_bin(b, L_ASHR, high, lb_int_like(b, n, 31)) : zero;
    return join(b, lb_select(b, far, fill, h), lb_select(b, far, h, l));
}

static void make_shift(lbuild *b, lfunc *f, int op) {
    lb_return(b, shift_pieces(b, (lop)op, f->params.at[0].value, f->params.at[1].value));
}

static ins *shift(lmodule *m, lbuild *b, const ins *x) {
    if (x->args[1]->op == L_CONST) return NULL;
    const char *name = x->op == L_SHL ? "onnxc_shl64" : x->op == L_LSHR ? "onnxc_lshr64" : "onnxc_ashr64";
    return call_helper(m, b, name, x->type, 2, x->args, make_shift, x->op);
}

// ---------------------------------------------------------------- products of 64 bits from 16 x 16

// All 64 bits of the product of two numbers of 32, whose high halves `shift` gives: L_LSHR, or L_ASHR for signed ones.
static ins *product32(lbuild *b, lop shift, ins *x, ins *y) {
    ins *mask = lb_int_like(b, x, 0xffff), *half = lb_int_like(b, x, 16);
    ins *xl = lb_bin(b, L_AND, x, mask), *xh = lb_bin(b, shift, x, half);
    ins *yl = lb_bin(b, L_AND, y, mask), *yh = lb_bin(b, shift, y, half);
    ins *ll = lb_bin(b, L_MUL, xl, yl), *lh = lb_bin(b, L_MUL, xl, yh), *hl = lb_bin(b, L_MUL, xh, yl);
    hl = lb_bin(b, L_ADD, hl, lb_bin(b, L_LSHR, ll, half)); // stays below 2^32, or 2^31
    lh = lb_bin(b, L_ADD, lh, lb_bin(b, L_AND, hl, mask));
    ins *high = lb_bin(b, L_ADD, lb_bin(b, L_MUL, xh, yh), lb_bin(b, shift, hl, half));
    high = lb_bin(b, L_ADD, high, lb_bin(b, shift, lh, half));
    return join(b, high, lb_bin(b, L_OR, lb_bin(b, L_SHL, lh, half), lb_bin(b, L_AND, ll, mask)));
}

static void make_product(lbuild *b, lfunc *f, int detail) {
    (void)detail;
    ins *x = f->params.at[0].value, *y = f->params.at[1].value;
    ins *p = product32(b, L_LSHR, low_half(b, x), low_half(b, y));
    ins *cross = lb_bin(b, L_ADD, lb_bin(b, L_MUL, low_half(b, x), high_half(b, y)),
                        lb_bin(b, L_MUL, high_half(b, x), low_half(b, y)));
    lb_return(b, lb_bin(b, L_ADD, p, join(b, cross, lb_int_like(b, cross, 0))));
}

static void make_product32(lbuild *b, lfunc *f, int shift) {
    lb_return(b, product32(b, (lop)shift, f->params.at[0].value, f->params.at[1].value));
}

static bool is_word(const ins *x, lop extend) { return x->op == extend && x->args[0]->type.kind == LK_I32; }

static ins *product(lmodule *m, lbuild *b, const ins *x) {
    if (!b->target->no_wide_product) return NULL;
    ins *p = x->args[0], *q = x->args[1];
    bool words = is_word(p, L_ZEXT) && is_word(q, L_ZEXT), numbers = is_word(p, L_SEXT) && is_word(q, L_SEXT);
    if (words || numbers)
        return call_helper(m, b, words ? "onnxc_mul32" : "onnxc_smul32", x->type, 2,
                           (ins *[]){p->args[0], q->args[0]}, make_product32, words ? L_LSHR : L_ASHR);
    return call_helper(m, b, "onnxc_mul64", x->type, 2, x->args, make_product, 0);
}

ins *soft_int_expand(lmodule *m, lbuild *b, const ins *x) {
    bool wide = x->type.kind == LK_I64, divides = lop_class(x->op) == LC_DIVIDE;
    if (divides && (wide || b->target->no_divider))
        return wide || x->type.kind == LK_I32 ? division(m, b, x) : narrow_division(b, x);
    if (!wide) return NULL;
    if (x->op == L_MUL) return product(m, b, x);
    return lop_class(x->op) == LC_SHIFT ? shift(m, b, x) : NULL;
}
