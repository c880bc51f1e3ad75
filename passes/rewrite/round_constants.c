// Rounding of constants. In: a program for a GPU whose f32 products may have reduced precision (--precision).
// Out: constants that all readers would round at run time are rounded at compile time, and stored as f16 or
// bf16.
#include "passes/rewrite/round_constants.h"
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/match/contract.h"
#include "passes/passes.h"
#include "passes/schedule/gpu/schedule_gpu_product.h"
#include <string.h>

// ---------------------------------------------------------------- rounding

// The bits of an f32 whose last 13 are 0.
static uint32_t tf32(double v) {
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffff) > 0x7f800000) return u | 0x400000;
    return (u & 0x7fffffff) == 0x7f800000 ? u : (u + 0xfff + (u >> 13 & 1)) & 0xffffe000u;
}

const constant *tf32_constant(arena *a, const constant *c) {
    if (c->kind == CONST_SPLAT) {
        uint32_t bits = tf32(constant_float(c, 0));
        return constant_splat(a, DT_F32, c->rank, c->dims, &bits);
    }
    constant *to = constant_new(a, DT_F32, c->rank, c->dims);
    for (int64_t j = 0; j < c->count; j++) {
        uint32_t bits = tf32(constant_float(c, j));
        memcpy((uint8_t *)to->data + j * (int64_t)sizeof bits, &bits, sizeof bits);
    }
    return to;
}

// ---------------------------------------------------------------- entry

typedef struct roundings {
    program *p;
    const target *t;
    dtype as;
    int *preferred; // by buffer id: the number of products that round it
    buffer **to;    // its rounded copy, NULL: none
} roundings;

static bool rounds(const roundings *r, const contraction *c, const expr *read) {
    const tensor_type *tensor = gpu_tensor_type(r->t, c);
    const buffer *b = read->buffer;
    bool is_const = b->role == BUF_CONST && !b->view_of && !b->layout && b->dtype == DT_F32;
    return is_const && tensor && tensor->as == r->as &&
           gpu_is_plain(read == c->a ? c->term_a : c->term_b, read);
}

static void prefer_in_kernel(roundings *r, kernel *k) {
    contraction c;
    if (!contraction_find(k, &c) || !gpu_product_fits(&c)) return;
    if (rounds(r, &c, c.a)) r->preferred[c.a->buffer->id]++;
    if (rounds(r, &c, c.b)) r->preferred[c.b->buffer->id]++;
}

static void read_instead(roundings *r, kernel *k) {
    contraction c;
    if (!contraction_find(k, &c)) return;
    state *st = &c.s->states.at[0];
    const buffer *const both[] = {c.a->buffer, c.b->buffer};
    for (int j = 0; j < 2; j++)
        if (r->to[both[j]->id]) st->step = expr_swap_reads(k, st->step, both[j], r->to[both[j]->id]);
}

void pass_round(pass_context *c) {
    program *p = c->program;
    const target *t = c->target;
    dtype as = t->precision == PRECISION_F16 ? DT_F16 : t->precision == PRECISION_BF16 ? DT_BF16 : DT_NONE;
    if (!as) return;
    arena *scratch = arena_new();
    int n = p->buffers.n;
    roundings r = {p, t, as, ARENA_ARRAY(scratch, int, n + 1), ARENA_ARRAY(scratch, buffer *, n + 1)};
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < u->n; j++)
        if (u->sites[j].s->kind == STEP_KERNEL) prefer_in_kernel(&r, u->sites[j].s->kernel);
    for (int j = 0; j < n; j++) {
        const buffer *b = p->buffers.at[j];
        if (r.preferred[j] && uses_are_direct(u, b, r.preferred[j]))
            r.to[j] = program_constant(p, b->name, constant_rounded(p->arena, b->data, as));
    }
    for (int j = 0; j < p->kernels.n; j++) read_instead(&r, p->kernels.at[j]);
    arena_destroy(scratch);
}
