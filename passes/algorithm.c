// The choice among the algorithms of the table. Costs are cycles of one core: work at the rate of its vectors
// and traffic at the width of its paths, added up.
#include "passes/algorithm.h"
#include "compiler/base/diag.h"
#include "passes/winograd.h"

// A prediction must promise this much, or the plain kernel stays.
static const double LEAST_GAIN = 1.15;

double algorithm_cycles(const algorithm_cost *c, const target *t) {
    double vector_bytes = !t ? 64 : t->vector_bits ? t->vector_bits / 8 : 4;
    double flops = vector_bytes / 2 * (!t || t->fma ? 2 : 1), cache = vector_bytes / 4,
           memory = cache < 3.5 ? cache : 3.5;
    return c->flops / flops + c->cached / cache + c->constants / memory;
}

static bool is_legal(const target *t) { return t->fp != FP_STRICT; }

// Code and constants stay small where size is asked for, and scalars gain nothing from wide transforms.
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

// The new position of the step.
static int consider(chooser *c, region *r, int at, const algorithm *a) {
    kernel *k = r->steps.at[at]->kernel;
    choice wish = a->wish(c->o);
    void *form = wish == CHOICE_NEVER ? NULL : a->match(c->scratch, k);
    if (!form) return at;
    algorithm_cost direct = a->direct(form), cost = a->cost(form);
    double gain = least_gain(c, &direct, &cost);
    if (wish != CHOICE_ALWAYS && !is_worthwhile(c->t, gain)) {
        diag_remark(
            c->p->diag, k->loc,
            "kernel %s: direct, not %s: predicted gain %.2fx, %.1f MB of constants instead of %.1f MB",
            k->name, a->name, gain, 1e-6 * cost.constants, 1e-6 * direct.constants);
        return at;
    }
    diag_remark(c->p->diag, k->loc,
                "kernel %s: %s: predicted gain %.2fx, difference at most about %g of the largest result, "
                "%.1f MB of workspace and "
                "%.1f MB of constants",
                k->name, a->name, gain, a->error, 1e-6 * cost.workspace, 1e-6 * cost.constants);
    return a->apply(c->p, r, at, form);
}

static void choose_in(chooser *c, region *r) {
    for (int j = 0; j < r->steps.n; j++) {
        step *s = r->steps.at[j];
        for (int b = 0; b < 2; b++)
            if (s->body[b]) choose_in(c, s->body[b]);
        if (s->kind != STEP_KERNEL || s->kernel->algorithm) continue;
        for (const algorithm *const *a = algorithms; *a && !r->steps.at[j]->kernel->algorithm; a++)
            j = consider(c, r, j, *a);
    }
}

const algorithm *const algorithms[] = {&winograd_algorithm, NULL};

void choose_algorithms(program *p, const target *t, const algorithm_options *o) {
    if (!is_legal(t)) return;
    chooser c = {p, t, o, arena_new()};
    choose_in(&c, p->main);
    arena_destroy(c.scratch);
    program_verify(p);
}
