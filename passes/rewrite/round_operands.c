// Rounding of operands. In: a program for a GPU whose f32 products may have reduced precision (--precision).
// Out: constants that all readers would round at run time are rounded at compile time, and temporaries that
// products or attention round are rounded where they are stored, for all of their readers: f16 or bf16 take half
// the memory, and operands stored as they are multiplied are copied to shared memory without registers.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "passes/match/attention.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"
#include "passes/passes.h"
#include "passes/rewrite/storage_type.h"
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

static const constant *tf32_constant(arena *a, const constant *c) {
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
    dtype as;       // F32: tf32
    int *preferred; // by buffer id: the number of products that round a constant
    bool *fixed;    // by id of the root: it stays as it is
    bool *rounds;   // by id of the root: a temporary that is rounded
    buffer **to;    // by buffer id: a constant's rounded copy, NULL: none
} roundings;

static void note_temporary(roundings *r, const expr *read) {
    const buffer *root = buffer_root(read->buffer);
    if (read->buffer->dtype == DT_F32 && !r->fixed[root->id]) r->rounds[root->id] = true;
}

static void note_operand(roundings *r, const contraction *c, const expr *read) {
    const tensor_type *tensor = gpu_tensor_type(r->t, c);
    const buffer *b = read->buffer;
    if (!tensor || tensor->as != r->as || !gpu_is_plain(read == c->a ? c->term_a : c->term_b, read)) return;
    bool is_const = b->role == BUF_CONST && !b->view_of && !b->layout && b->dtype == DT_F32;
    if (is_const) r->preferred[b->id]++;
    else note_temporary(r, read);
}

// The threads of attention in f32 multiply without tensor cores.
static void note_factor(roundings *r, const expr *factor) {
    if (r->as != DT_F32 && factor->op == X_READ) note_temporary(r, factor);
}

static void note_kernel(roundings *r, kernel *k) {
    contraction c;
    attention a;
    if (contraction_find(k, &c)) {
        if (!gpu_product_fits(&c)) return;
        note_operand(r, &c, c.a);
        note_operand(r, &c, c.b);
    } else if (attention_match(k, &a)) {
        note_factor(r, a.q), note_factor(r, a.key), note_factor(r, a.v);
    }
}

static void read_instead(roundings *r, kernel *k) {
    contraction c;
    if (!contraction_find(k, &c)) return;
    state *st = &c.s->states.at[0];
    const buffer *const both[] = {c.a->buffer, c.b->buffer};
    for (int j = 0; j < 2; j++)
        if (r->to[both[j]->id]) st->step = expr_swap_reads(k, st->step, both[j], r->to[both[j]->id]);
}

static buffer *rounded_copy(roundings *r, const buffer *b) {
    arena *a = r->p->arena;
    bool tf = r->as == DT_F32;
    buffer *to =
        program_constant(r->p, b->name, tf ? tf32_constant(a, b->data) : constant_rounded(a, b->data, r->as));
    to->tf32 = tf;
    return to;
}

static void round_temporaries(roundings *r) {
    if (r->as != DT_F32) change_types(r->p, r->rounds, r->p->buffers.n, r->as);
    else
        for (int j = 0; j < r->p->buffers.n; j++)
            r->p->buffers.at[j]->tf32 |= r->rounds[buffer_root(r->p->buffers.at[j])->id];
}

static dtype rounded_type(precision p) {
    return p == PRECISION_F16    ? DT_F16
           : p == PRECISION_BF16 ? DT_BF16
           : p == PRECISION_TF32 ? DT_F32
                                 : DT_NONE;
}

void pass_round(pass_context *c) {
    program *p = c->program;
    dtype as = rounded_type(c->target->precision);
    if (!as) return;
    arena *scratch = arena_new();
    int n = p->buffers.n;
    roundings r = {p,
                   c->target,
                   as,
                   ARENA_ARRAY(scratch, int, n + 1),
                   fixed_types(scratch, p),
                   ARENA_ARRAY(scratch, bool, n + 1),
                   ARENA_ARRAY(scratch, buffer *, n + 1)};
    const uses *u = uses_build(scratch, p);
    for (int j = 0; j < u->n; j++)
        if (u->sites[j].s->kind == STEP_KERNEL) note_kernel(&r, u->sites[j].s->kernel);
    round_temporaries(&r);
    for (int j = 0; j < n; j++) {
        const buffer *b = p->buffers.at[j];
        if (r.preferred[j] && uses_are_direct(u, b, r.preferred[j])) r.to[j] = rounded_copy(&r, b);
    }
    for (int j = 0; j < p->kernels.n; j++) read_instead(&r, p->kernels.at[j]);
    arena_destroy(scratch);
}
