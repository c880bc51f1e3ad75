// Widening of 16-bit floats. In: a program. Out: the same, with f32 storage of temporaries that products read
// many times, and the same values.
#include "ir/kernel/edit.h"
#include "ir/target.h"
#include "passes/match/contract.h"
#include "passes/match/form.h"
#include "passes/passes.h"
#include "passes/rewrite/storage_type.h"
#include "passes/schedule/cpu/schedule_groups.h"

// Each element must contribute to at least this many results to pay for the additional traffic.
enum { MANY = 32 };

typedef struct widening {
    program *p;
    const target *t;
    bool *wanted; // by id of the root: a product would gain
    map copies;   // input's id -> its copy
} widening;

static bool is_half(const buffer *b) { return b->dtype == DT_F16 || b->dtype == DT_BF16; }

// ---------------------------------------------------------------- profitability
// To how many results each element of the operand of a single sum contributes on average, in windows as well; 0: not known.
static double results_of_element(const kernel *k, const buffer *b) {
    const dim *count = buffer_count(b);
    if (k->stages.n > 1 || !dim_is_const(count) || !dim_value(count)) return 0;
    double products = 1;
    for (int a = 0; a < k->axes.n; a++) {
        const dim *extent = k->axes.at[a].extent;
        if (!dim_is_const(extent)) return 0;
        products *= (double)dim_value(extent);
    }
    return products / (double)dim_value(count);
}

// Whether each element of the operand contributes to many results.
static bool has_many_results(const kernel *k, const expr *operand) {
    if (results_of_element(k, operand->buffer) >= MANY) return true;
    double n = 1;
    for (int a = 0; a < k->axes.n; a++) {
        const dim *extent = k->axes.at[a].extent;
        if (k->axes.at[a].kind != AXIS_PARALLEL || index_uses_axis(operand, a)) continue;
        n *= dim_is_const(extent) ? (double)dim_value(extent) : MANY;
    }
    return n >= MANY;
}

static bool gains(const kernel *k, const expr *operand) {
    const buffer *b = operand->buffer;
    return is_half(b) && b->role != BUF_CONST && b->role != BUF_LOCAL && has_many_results(k, operand);
}

// A column operand is packed at run time, which widens it.
static bool is_packed_at_run_time(const contraction *c) {
    return c->n >= 0 && c->a->buffer->role != BUF_CONST;
}

// Products of pairs read bf16 as it is.
static bool stays(const widening *w, const contraction *c) {
    return w->t->bf16_products && c->term_a == c->a && c->a->buffer->dtype == DT_BF16 &&
           c->b->buffer->dtype == DT_BF16 && c->b->buffer->role == BUF_CONST && pair_axis(c) >= 0;
}

static void want_operands(widening *w, const kernel *k) {
    contraction c;
    for (int j = 0; j < k->stages.n; j++) {
        if (k->stages.n == 1 ? !contraction_find(k, &c) : !contraction_in_stage(k, k->stages.at[j], &c))
            continue;
        if (stays(w, &c)) continue;
        if (gains(k, c.a)) w->wanted[buffer_root(c.a->buffer)->id] = true;
        if (gains(k, c.b) && !is_packed_at_run_time(&c)) w->wanted[buffer_root(c.b->buffer)->id] = true;
    }
}

// ---------------------------------------------------------------- temporaries
static void round_writes(const widening *w, kernel *k) {
    write_list all = kernel_write_list(k);
    for (int j = 0; j < all.n; j++) {
        write *to = all.at[j];
        const buffer *root = to->to->role == BUF_LOCAL ? NULL : buffer_root(to->to);
        if (root && w->wanted[root->id]) to->value = x_round_to(k, to->value, root->dtype, true);
    }
}

static void widen_temporaries(widening *w) {
    for (int j = 0; j < w->p->kernels.n; j++) round_writes(w, w->p->kernels.at[j]);
    change_types(w->p, w->wanted, w->p->buffers.n, DT_F32);
}

// ---------------------------------------------------------------- inputs
static buffer *copy_input(widening *w, buffer *from, const loc *at) {
    buffer *to = map_get_number(&w->copies, (uint64_t)from->id);
    if (to) return to;
    program *p = w->p;
    to = program_temp(p, arena_printf(p->arena, "%s.f32", from->name), DT_F32, from->rank, from->dims);
    kernel *k = kernel_new(p, arena_printf(p->arena, "widen_%s", from->name), at);
    stage *s = kernel_stage(k);
    expr *index[MAX_RANK];
    for (int j = 0; j < from->rank; j++) {
        index[j] = stage_own_axis(k, s, AXIS_PARALLEL, "i", from->dims[j]);
    }
    stage_write(k, s, to, index, x_read(k, from, index));
    insert_kernel(p, p->main, 0, k);
    map_put_number(&w->copies, (uint64_t)from->id, to);
    return to;
}

// Inputs never change: one copy at the start of the program serves all readers. Runtime sizes are not known
// there.
static void copy_inputs(widening *w, kernel *k) {
    contraction c;
    if (!contraction_find(k, &c) || stays(w, &c)) return;
    expr *operands[2] = {c.a, c.b};
    for (int j = 0; j < 2; j++) {
        buffer *from = operands[j]->buffer;
        if (!gains(k, operands[j]) || from->role != BUF_INPUT || from->view_of || from->rank == 0) continue;
        if (j == 1 && is_packed_at_run_time(&c)) continue;
        bool open = false;
        for (int d = 0; d < from->rank; d++) open |= dim_is_opaque(from->dims[d]);
        if (open) continue;
        state *st = &c.s->states.at[0];
        st->step = expr_swap_reads(k, st->step, from, copy_input(w, from, k->loc));
        if (!contraction_find(k, &c)) return;
        operands[0] = c.a, operands[1] = c.b;
    }
}

void pass_widen(pass_context *c) {
    program *p = c->program;
    if (!c->target->vector_bits) return;
    arena *scratch = arena_new();
    widening w = {.p = p, .t = c->target, .copies = {.arena = scratch}};
    w.wanted = ARENA_ARRAY(scratch, bool, p->buffers.n + 1);
    const bool *fixed = fixed_types(scratch, p);
    int nkernels = p->kernels.n;
    for (int j = 0; j < nkernels; j++) want_operands(&w, p->kernels.at[j]);
    for (int j = 0; j < p->buffers.n; j++) w.wanted[j] &= !fixed[j];
    widen_temporaries(&w);
    for (int j = 0; j < nkernels; j++) copy_inputs(&w, p->kernels.at[j]);
    arena_destroy(scratch);
}
