// Weights of f32 that 16 bits represent exactly, as exports of models trained in bf16 or f16 have them. In: a program. Out:
// the same values, with such constants stored as bf16 or f16 where only products and gathers of rows read them: half
// the size, and half the time where memory delivers them more slowly than a few rows use them.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "ir/target.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"
#include "passes/passes.h"

// Conversions take time where a few rows read smaller constants from a near cache.
enum { LEAST_BYTES = L2_LEAST_BYTES };

// Whether b is the packed operand of a sum of products in f32. Reading the other operand, a scalar for all
// columns at a time, would convert each element alone.
static bool is_weight(const kernel *k, stage *s, const buffer *b) {
    contraction c;
    bool found = k->stages.n == 1 ? contraction_find(k, &c) : contraction_in_stage(k, s, &c);
    return found && c.n >= 0 && c.s->states.at[0].dtype == DT_F32 && c.b->buffer == b && c.term_b == c.b &&
           !c.b->guard;
}

static bool multiplies(const kernel *k, const buffer *b) {
    if (k->algorithm) return false; // whose constants are rounded anyway
    for (int j = 0; j < k->stages.n; j++)
        if (is_weight(k, k->stages.at[j], b)) return true;
    return false;
}

static bool reads_halves_well(const site *at, const buffer *b) {
    if (at->s->kind != STEP_KERNEL) return false;
    return kernel_only_gathers(at->s->kernel, b) || multiplies(at->s->kernel, b);
}

static bool may_change(const uses *u, const buffer *b) {
    if (b->role != BUF_CONST || b->view_of || b->layout || b->dtype != DT_F32) return false;
    const buffer_uses *of = &u->of[b->id];
    if (!of->sites.n || of->viewed || of->by_others || of->output || of->fallback) return false;
    if (dim_value(buffer_bytes(b)) < LEAST_BYTES) return false;
    for (int j = 0; j < of->sites.n; j++)
        if (!reads_halves_well(of->sites.at[j], b)) return false;
    return true;
}

// DT_F32: neither type represents all elements.
static dtype exact_type(const target *t, const constant *c) {
    if (constant_fits(c, DT_BF16)) return DT_BF16;
    return t->narrow_scales && constant_fits(c, DT_F16) ? DT_F16 : DT_F32;
}

void pass_exact_halves(pass_context *context) {
    program *p = context->program;
    if (!context->target->vector_bits) return;
    arena *scratch = arena_new();
    const uses *u = uses_build(scratch, p);
    for (int j = 0, n = p->buffers.n; j < n; j++) {
        const buffer *b = p->buffers.at[j];
        dtype to = may_change(u, b) ? exact_type(context->target, b->data) : DT_F32;
        if (to == DT_F32) continue;
        buffer *half = program_constant(p, b->name, constant_rounded(p->arena, b->data, to));
        const site_list *sites = &u->of[b->id].sites;
        for (int i = 0; i < sites->n; i++) kernel_swap_reads(sites->at[i]->s->kernel, b, half);
        diag_remark(p->diag, NULL, "'%s' is stored as %s, which represents all of its elements", b->name,
                    dtype_name(to));
    }
    program_compact(p);
    arena_destroy(scratch);
}
