// Reduced precision of products (--precision) on CPUs. In: a program. Out, for bf16: products of f32 temporaries and
// constants, and attention, whose operands are rounded to bf16 where they are stored; their sums stay f32. For f16: f32 constants of
// products that are rounded to f16, unless one is out of its range; other operands stay as they are. If no variant has a
// unit for such products, constants are rounded where reading them takes the time.
#include "ir/kernel/edit.h"
#include "ir/kernel/uses.h"
#include "ir/target.h"
#include "passes/match/attention.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"
#include "passes/passes.h"
#include "passes/rewrite/storage_type.h"
#include "passes/schedule/cpu/schedule_groups.h"
#include <math.h>

typedef struct reduction {
    program *p;
    bool *fixed;  // by id of the root: its type cannot change
    bool *narrow; // by id of the root: becomes bf16
    buffer **to;  // by id: a constant's rounded copy
    int n;        // of these ids
    int *readers; // by id: kernels that would gain from a rounded constant
} reduction;

// A product of a temporary and a constant, in pairs along K.
static bool may_round(const reduction *r, const kernel *k, contraction *c) {
    if (k->algorithm || !contraction_find(k, c) || c->n < 0 || c->s->states.at[0].dtype != DT_F32)
        return false;
    const buffer *a = c->a->buffer, *b = c->b->buffer;
    bool plain = c->term_a == c->a && c->term_b == c->b && !c->b->guard;
    bool constant = b->role == BUF_CONST && !b->view_of && !b->layout && b->dtype == DT_F32;
    return plain && constant && a->dtype == DT_F32 && !r->fixed[buffer_root(a)->id] && pair_axis(c) >= 0;
}

static buffer *rounded_copy(reduction *r, const buffer *b, dtype as) {
    if (!r->to[b->id])
        r->to[b->id] = program_constant(r->p, b->name, constant_rounded(r->p->arena, b->data, as));
    return r->to[b->id];
}

// ---------------------------------------------------------------- constants alone
static bool fits_f16(const constant *c) {
    for (int64_t j = 0; j < (c->kind == CONST_SPLAT && c->count ? 1 : c->count); j++)
        if (!(fabs(constant_float(c, j)) <= 65504)) return false;
    return true;
}

// Winograd's products have constants whose errors grow.
static bool may_narrow(const kernel *k, contraction *c, dtype as) {
    if (k->algorithm || !contraction_find(k, c) || c->n < 0 || c->s->states.at[0].dtype != DT_F32)
        return false;
    const buffer *b = c->b->buffer;
    bool constant = b->role == BUF_CONST && !b->view_of && !b->layout && b->dtype == DT_F32;
    return constant && c->term_b == c->b && !c->b->guard && (as != DT_F16 || fits_f16(b->data));
}

static void narrow_constant(reduction *r, kernel *k, const contraction *c, dtype as) {
    state *st = &c->s->states.at[0];
    st->step = expr_swap_reads(k, st->step, c->b->buffer, rounded_copy(r, c->b->buffer, as));
}

static void narrow_constants(reduction *r) {
    contraction c;
    for (int j = 0; j < r->p->kernels.n; j++) {
        kernel *k = r->p->kernels.at[j];
        if (may_narrow(k, &c, DT_F16)) narrow_constant(r, k, &c, DT_F16);
    }
}

// Memory delivers a constant more slowly than a few rows use it.
static bool waits_for_memory(const contraction *c) {
    enum { FEW_ROWS = 8 };
    dim *rows = dim_mul(axes_extent(c->k, c->m.at, c->m.n), axes_extent(c->k, c->batch.at, c->batch.n));
    return rows->max <= FEW_ROWS && dim_value(buffer_bytes(c->b->buffer)) > L2_BYTES;
}

// ---------------------------------------------------------------- tables
static bool is_table(const uses *u, const buffer *b) {
    const buffer_uses *of = &u->of[b->id];
    return b->role == BUF_CONST && !of->viewed && !of->by_others && !of->output && !of->fallback &&
           dim_value(buffer_bytes(b)) >= LEAST_TABLE_BYTES;
}

static bool gathers(const site *at, const buffer *b) {
    return at->s->kind == STEP_KERNEL && kernel_only_gathers(at->s->kernel, b);
}

// How many kernels only gather rows of b.
static int gatherers(const uses *u, const buffer *b) {
    int n = 0;
    for (int j = 0; j < u->of[b->id].sites.n && is_table(u, b); j++)
        n += gathers(u->of[b->id].sites.at[j], b);
    return n;
}

// A large table from which other kernels only gather rows (tied embeddings) is stored once, rounded.
static void share_tables(reduction *r) {
    const uses *u = uses_build(r->p->arena, r->p);
    for (int j = 0; j < r->p->buffers.n; j++) {
        const buffer *b = r->p->buffers.at[j];
        const site_list *sites = &u->of[b->id].sites;
        if (b->id >= r->n || !r->to[b->id] || !sites->n || gatherers(u, b) < sites->n) continue;
        for (int i = 0; i < sites->n; i++) kernel_swap_reads(sites->at[i]->s->kernel, b, r->to[b->id]);
    }
}

// Without a unit all else would be widened again. A constant with other readers would be stored
// twice, unless they gather rows of it.
static void narrow_streams(reduction *r, dtype as) {
    contraction c;
    const uses *u = uses_build(r->p->arena, r->p);
    for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j < r->p->kernels.n; j++) {
            kernel *k = r->p->kernels.at[j];
            if (!may_narrow(k, &c, as) || !waits_for_memory(&c)) continue;
            const buffer *b = c.b->buffer;
            if (!pass) r->readers[b->id]++;
            else if (uses_are_direct(u, b, r->readers[b->id] + gatherers(u, b)))
                narrow_constant(r, k, &c, as);
        }
}

// ---------------------------------------------------------------- bf16
static void round_operand(reduction *r, const expr *x) {
    if (x->op != X_READ || x->guard || x->buffer->dtype != DT_F32) return;
    const buffer *root = buffer_root(x->buffer);
    if (!r->fixed[root->id]) r->narrow[root->id] = true;
}

static void examine(reduction *r) {
    contraction c;
    attention a;
    for (int j = 0; j < r->p->kernels.n; j++) {
        kernel *k = r->p->kernels.at[j];
        if (may_round(r, k, &c)) r->narrow[buffer_root(c.a->buffer)->id] = true;
        else if (attention_match(k, &a))
            round_operand(r, a.q), round_operand(r, a.key), round_operand(r, a.v);
    }
}

static void narrow_operands(reduction *r) {
    contraction c;
    int n = r->p->buffers.n;
    examine(r);
    for (int j = 0; j < r->p->kernels.n; j++) {
        kernel *k = r->p->kernels.at[j];
        if (!may_round(r, k, &c)) continue;
        state *st = &c.s->states.at[0];
        st->step = expr_swap_reads(k, st->step, c.b->buffer, rounded_copy(r, c.b->buffer, DT_BF16));
    }
    change_types(r->p, r->narrow, n, DT_BF16);
    for (int j = 0; j < r->p->buffers.n; j++) {
        int root = buffer_root(r->p->buffers.at[j])->id;
        r->p->buffers.at[j]->rounded = root < n && r->narrow[root];
    }
}

void pass_precision(pass_context *context) {
    program *p = context->program;
    precision to = context->target->precision;
    if (to != PRECISION_BF16 && to != PRECISION_F16) return;
    if (!context->target->half_units && context->versions.n) return; // which share constants
    arena *scratch = arena_new();
    int n = p->buffers.n;
    reduction r = {p,
                   fixed_types(scratch, p),
                   ARENA_ARRAY(scratch, bool, n + 1),
                   ARENA_ARRAY(scratch, buffer *, n + 1),
                   n,
                   ARENA_ARRAY(scratch, int, n + 1)};
    if (!context->target->half_units) narrow_streams(&r, to == PRECISION_F16 ? DT_F16 : DT_BF16);
    else if (to == PRECISION_F16) narrow_constants(&r);
    else narrow_operands(&r);
    share_tables(&r);
    program_compact(p);
    arena_destroy(scratch);
}
