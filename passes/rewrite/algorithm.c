// The choice among the algorithms of the table. Costs are cycles of one core: operations at the rate of its
// vectors plus traffic at its bandwidths.
#include "passes/rewrite/algorithm.h"
#include "compiler/base/diag.h"
#include "passes/match/contract.h"
#include "passes/rewrite/winograd.h"
#include "passes/schedule/common/choices.h"

// The least predicted speedup for which a kernel is replaced.
static const double LEAST_GAIN = 1.15;

double algorithm_cycles(const algorithm_cost *c, const target *t) {
    double vector_bytes = !t ? 64 : t->vector_bits ? t->vector_bits / 8 : 4;
    double flops = vector_bytes / 2 * (!t || t->fma ? 2 : 1), cache = vector_bytes / 4,
           memory = cache < 3.5 ? cache : 3.5;
    return c->flops / flops + c->cached / cache + c->constants / memory;
}

static bool is_legal(const target *t) { return t->fp != FP_STRICT; }

// Not at optimisation for size, where code and constants should stay small; and scalar code does not gain
// from wide transforms.
static bool is_worthwhile(const target *t, double gain) {
    return t->vector_bits && !t->size_level && gain >= LEAST_GAIN;
}

typedef struct chooser {
    program *p;
    const target *t;
    const algorithm_options *o;
    arena *scratch;
} chooser;

static double least_gain(const chooser *c, const algorithm_cost *direct, const algorithm_cost *cost) {
    double least = algorithm_cycles(direct, c->t) / algorithm_cycles(cost, c->t);
    for (int j = 0; j < c->o->nvariants; j++) {
        const target *t = c->o->variants[j];
        double gain = algorithm_cycles(direct, t) / algorithm_cycles(cost, t);
        if (gain < least) least = gain;
    }
    return least;
}

typedef struct option {
    const algorithm *algorithm;
    void *form;
    algorithm_cost direct, cost;
    double gain;
    bool preferred;
} option;

static void refuse(const chooser *c, const kernel *k, const option *o) {
    diag_remark(c->p->diag, k->loc,
                "kernel %s: direct, not %s: predicted gain %.2fx, %.1f MB of constants instead of %.1f MB",
                k->name, o->algorithm->name, o->gain, 1e-6 * o->cost.constants, 1e-6 * o->direct.constants);
}

// The measured choice, if all variants agree on it; 0: none.
static int measured(const chooser *c, const kernel *k) {
    int number = c->o->winograd == CHOICE_AUTO ? choices_of(c->t, k)->algorithm : 0;
    for (int j = 0; j < c->o->nvariants; j++)
        if (choices_of(c->o->variants[j], k)->algorithm != number) number = 0;
    return number;
}

// The algorithm with the largest predicted gain, or the measured one. False: none is applicable.
static bool best_option(const chooser *c, kernel *k, int number, option *best) {
    *best = (option){0};
    for (const algorithm *const *a = algorithms; *a; a++) {
        choice preference = c->o->only && c->o->only != *a ? CHOICE_NEVER : (*a)->choice_of(c->o);
        if (number > DIRECT && number != DIRECT + 1 + (int)(a - algorithms)) preference = CHOICE_NEVER;
        void *form = preference == CHOICE_NEVER ? NULL : (*a)->match(c->scratch, k);
        if (!form) continue;
        option o = {*a, form, (*a)->direct(form), (*a)->cost(form), 0, preference == CHOICE_ALWAYS};
        o.gain = least_gain(c, &o.direct, &o.cost);
        if (o.gain > best->gain) *best = o;
    }
    return best->algorithm != NULL;
}

static int algorithm_index(const algorithm *x) {
    int number = DIRECT + 1;
    while (algorithms[number - DIRECT - 1] != x) number++;
    return number;
}

// Whether a CPU of the code multiplies weights that are, or will be, of 16 bits by matrix tiles, faster than any
// algorithm here.
static bool has_tiles_for(const chooser *c, const kernel *k) {
    contraction of;
    if (!contraction_find(k, &of)) return false;
    const buffer *b = of.a->buffer->role == BUF_CONST ? of.a->buffer : of.b->buffer;
    bool tiles = c->t->amx_bf16;
    for (int j = 0; j < c->o->nvariants; j++) tiles |= c->o->variants[j]->amx_bf16;
    return tiles && (b->dtype == DT_F16 || b->dtype == DT_BF16 || c->t->precision == PRECISION_F16 ||
                     c->t->precision == PRECISION_BF16);
}

static bool is_profitable(const chooser *c, const kernel *k, const option *o) {
    return o->preferred || (is_worthwhile(c->t, o->gain) && !has_tiles_for(c, k));
}

static int index_chosen_by_model(const chooser *c, kernel *k) {
    option o;
    bool other = best_option(c, k, 0, &o) && is_profitable(c, k, &o);
    return other ? algorithm_index(o.algorithm) : DIRECT;
}

static void change(chooser *c, region *r, step *s, const option *o) {
    kernel *k = s->kernel;
    diag_remark(c->p->diag, k->loc,
                "kernel %s: %s: predicted gain %.2fx, difference at most about %g of the largest result, "
                "%.1f MB of workspace and "
                "%.1f MB of constants",
                k->name, o->algorithm->name, o->gain, o->algorithm->error, 1e-6 * o->cost.workspace,
                1e-6 * o->cost.constants);
    o->algorithm->apply(c->p, r, s, o->form, c->t);
}

static void consider(chooser *c, region *r, step *s) {
    kernel *k = s->kernel;
    option o;
    int number = measured(c, k);
    if (!best_option(c, k, number, &o)) return;
    const char *key = c->o->chosen ? kernel_key(c->scratch, k) : NULL;
    int model = key ? index_chosen_by_model(c, k) : 0;
    bool direct = number ? number == DIRECT : !is_profitable(c, k, &o);
    if (direct) refuse(c, k, &o);
    else change(c, r, s, &o);
    if (key) c->o->chosen(c->o->user, key, s->kernel, direct ? DIRECT : algorithm_index(o.algorithm), model);
}

const algorithm *const algorithms[] = {&winograd_algorithm, &small_winograd_algorithm, NULL};

void choose_algorithms(program *p, const target *t, const algorithm_options *o) {
    if (!is_legal(t)) return;
    chooser c = {p, t, o, arena_new()};
    step_list steps = program_steps(c.scratch, p);
    for (int j = 0; j < steps.n; j++) {
        step *s = steps.at[j].s;
        if (s->kind == STEP_KERNEL && !s->kernel->algorithm) consider(&c, steps.at[j].region, s);
    }
    arena_destroy(c.scratch);
    program_verify(p);
}
