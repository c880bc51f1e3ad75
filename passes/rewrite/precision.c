// Reduced precision of products (--precision=bf16) on CPUs. In: a program. Out: products of f32 temporaries and
// constants whose operands are rounded to bf16 where they are stored; their sums stay f32.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "ir/target.h"
#include "passes/match/contract.h"
#include "passes/passes.h"
#include "passes/rewrite/storage_type.h"
#include "passes/schedule/cpu/schedule_groups.h"

typedef struct reduction {
    program *p;
    bool *fixed;  // by id of the root: its type cannot change
    bool *narrow; // by id of the root: becomes bf16
    buffer **to;  // by id: a constant's rounded copy
} reduction;

// A product of a temporary and a constant, in pairs along K.
static bool may_round(const reduction *r, const kernel *k, contraction *c) {
    if (!contraction_find(k, c) || c->n < 0 || c->s->states.at[0].dtype != DT_F32) return false;
    const buffer *a = c->a->buffer, *b = c->b->buffer;
    bool plain = c->term_a == c->a && c->term_b == c->b && !c->b->guard;
    bool constant = b->role == BUF_CONST && !b->view_of && !b->layout && b->dtype == DT_F32;
    return plain && constant && a->dtype == DT_F32 && !r->fixed[buffer_root(a)->id] && pair_axis(c) >= 0;
}

static void examine(reduction *r) {
    contraction c;
    for (int j = 0; j < r->p->kernels.n; j++) {
        if (!may_round(r, r->p->kernels.at[j], &c)) continue;
        r->narrow[buffer_root(c.a->buffer)->id] = true;
    }
}

static buffer *rounded_copy(reduction *r, const buffer *b) {
    if (!r->to[b->id])
        r->to[b->id] = program_constant(r->p, b->name, constant_rounded(r->p->arena, b->data, DT_BF16));
    return r->to[b->id];
}

void pass_precision(pass_context *context) {
    program *p = context->program;
    if (context->target->precision != PRECISION_BF16) return;
    arena *scratch = arena_new();
    int n = p->buffers.n;
    reduction r = {p, fixed_types(scratch, p), ARENA_ARRAY(scratch, bool, n + 1),
                   ARENA_ARRAY(scratch, buffer *, n + 1)};
    examine(&r);
    contraction c;
    for (int j = 0; j < p->kernels.n; j++) {
        kernel *k = p->kernels.at[j];
        if (!may_round(&r, k, &c)) continue;
        state *st = &c.s->states.at[0];
        st->step = expr_swap_reads(k, st->step, c.b->buffer, rounded_copy(&r, c.b->buffer));
    }
    change_types(p, r.narrow, DT_BF16);
    program_compact(p);
    arena_destroy(scratch);
}
