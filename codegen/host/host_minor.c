// Minor kernels: a run spends so little time on them that all CPU levels share those of the lowest level. In a detector, the code
// that computes boxes is as long as that of the convolutions. In: a program, and its kernels' code at the lowest level. Out: a flag
// for each kernel.
//
// Cycles of a kernel are estimated from above and those of a run from below, at several sizes of the inputs. The kernels that take
// the least time for the length of their code are minor, as long as they take 2.5 % of a run together.
#include "codegen/host/host_impl.h"
#include "ir/kernel/kernel_cost.h"
#include <stdlib.h>

enum { MOST_SYMBOLS = 16 };
static const double most_of_run = 1.0 / 40;
static const int64_t usual_sizes[] = {1, 32, 1024};
enum { USUAL = sizeof usual_sizes / sizeof *usual_sizes };

// All sizes of inputs are `size`; or only one is, and the others are 1.
typedef struct scenario {
    const dim *only;
    int64_t size;
} scenario;

typedef struct estimate {
    const kernel *k;
    dim *times; // calls in a run; NULL: data decide
    kernel_cost cost;
    double share; // the largest one
} estimate;

typedef struct minors {
    arena *arena;
    estimate *of; // by kernel
    int n;
    VEC(const dim *) symbols;
    scenario scenarios[USUAL + MOST_SYMBOLS];
    int nscenarios;
} minors;

// ---------------------------------------------------------------- calls
static void count_calls(minors *m, const region *r, dim *times) {
    for (int j = 0; r && j < r->steps.n; j++) {
        const step *s = r->steps.at[j];
        bool counted = is_counted_loop(s) && times;
        for (int b = 0; b < 2; b++) count_calls(m, s->body[b], counted ? dim_mul(times, s->dim) : NULL);
        if (s->kind != STEP_KERNEL) continue;
        estimate *e = &m->of[s->kernel->id];
        e->times = times && (!e->k || e->times) ? e->k ? dim_add(e->times, times) : times : NULL;
        e->k = s->kernel;
        e->cost = kernel_cost_of(s->kernel);
    }
}

// ---------------------------------------------------------------- sizes
static bool size_of(void *user, const dim *atom, int64_t *value) {
    const scenario *s = user;
    int64_t most = INT64_MAX;
    bool decided = atom->kind == DIM_OPAQUE;
    *value = !s->only || s->only == atom || decided ? s->size : 1;
    if (decided && atom->most && dim_eval(atom->most, size_of, user, &most) && most < *value) *value = most;
    if (*value < atom->min) *value = atom->min;
    if (*value > atom->max) *value = atom->max;
    return true;
}

static double value_of(const scenario *s, const dim *d, double unknown) {
    int64_t v;
    return dim_eval(d, size_of, (void *)s, &v) ? (double)v : unknown;
}

static void add_symbols(minors *m, const dim *d) {
    atom_list atoms = dim_atoms(m->arena, d);
    for (int j = 0; j < atoms.n; j++) {
        bool known = atoms.at[j]->kind == DIM_OPAQUE;
        for (int i = 0; i < m->symbols.n; i++) known |= m->symbols.at[i] == atoms.at[j];
        if (!known) VEC_PUSH(m->arena, &m->symbols, atoms.at[j]);
    }
}

static void find_scenarios(minors *m) {
    for (int j = 0; j < m->n; j++) {
        if (!m->of[j].times) continue;
        const kernel_cost *c = &m->of[j].cost;
        const dim *all[] = {m->of[j].times, c->work, c->read, c->written};
        for (int i = 0; i < 4; i++) add_symbols(m, all[i]);
    }
    for (int j = 0; j < USUAL; j++) m->scenarios[m->nscenarios++] = (scenario){NULL, usual_sizes[j]};
    for (int j = 0; j < m->symbols.n && j < MOST_SYMBOLS; j++)
        m->scenarios[m->nscenarios++] = (scenario){m->symbols.at[j], usual_sizes[USUAL - 1]};
}

// ---------------------------------------------------------------- shares
// With vectors of 512 bits, and of 128.
static double cycles(const scenario *s, const estimate *e, bool fast) {
    double unknown = fast ? 0 : (double)INT64_MAX, work = value_of(s, e->cost.work, unknown);
    double bytes = value_of(s, e->cost.read, unknown) + value_of(s, e->cost.written, unknown);
    double once = fast ? work / 64 + bytes / 64 : work / 2 + bytes / 16;
    return value_of(s, e->times, unknown) * once;
}

static void find_shares(minors *m, const scenario *s) {
    double run = 0;
    for (int j = 0; j < m->n; j++)
        if (m->of[j].times) run += cycles(s, &m->of[j], true);
    for (int j = 0; j < m->n; j++) {
        estimate *e = &m->of[j];
        double share = e->times && run > 0 ? cycles(s, e, false) / run : 1;
        if (share > e->share) e->share = share;
    }
}

// What a level stores as bf16, its own kernels read.
static bool has_rounded(const kernel *k) {
    buffer **all;
    int n = kernel_buffers(k, &all);
    for (int j = 0; j < n; j++)
        if (buffer_root(all[j])->rounded) return true;
    return false;
}

// ---------------------------------------------------------------- code
// Kernels of one body, which a level has once.
typedef struct body {
    const lfunc *f;
    double share;
    bool must_differ;
} body;

static double share_of_instruction(const body *b) { return b->share / (b->f->nins + 1); }

static int by_share(const void *x, const void *y) {
    const body *const *a = x, *const *b = y;
    double first = share_of_instruction(*a), second = share_of_instruction(*b);
    if (first != second) return first < second ? -1 : 1;
    return *a < *b ? -1 : *a > *b;
}

// The bodies of the kernels, in the order of their first kernels; returns their number.
static int find_bodies(minors *m, kernel_code *const *code, body *bodies, int *of_kernel) {
    int n = 0;
    map known = {.arena = m->arena};
    for (int j = 0; j < m->n; j++) {
        of_kernel[j] = -1;
        if (!code[j]) continue;
        const lfunc *f = code[j]->f->original ? code[j]->f->original : code[j]->f;
        int at = (int)(intptr_t)map_get_number(&known, (uint64_t)(uintptr_t)f) - 1;
        if (at < 0) map_put_number(&known, (uint64_t)(uintptr_t)f, (void *)(intptr_t)((at = n++) + 1));
        of_kernel[j] = at;
        bodies[at].f = f;
        bodies[at].share += m->of[j].share;
        bodies[at].must_differ |= !m->of[j].k || has_rounded(m->of[j].k);
    }
    return n;
}

bool *find_minor_kernels(arena *a, const program *p, kernel_code *const *code) {
    arena *scratch = arena_within(a);
    int n = p->kernels.n, *of_kernel = ARENA_ARRAY(scratch, int, n + 1);
    bool *minor = ARENA_ARRAY(a, bool, n + 1), *minor_body = ARENA_ARRAY(scratch, bool, n + 1);
    minors m = {.arena = scratch, .of = ARENA_ARRAY(scratch, estimate, n + 1), .n = n};
    count_calls(&m, p->main, dim_const(p->dims, 1));
    find_scenarios(&m);
    for (int j = 0; j < m.nscenarios; j++) find_shares(&m, &m.scenarios[j]);
    body *bodies = ARENA_ARRAY(scratch, body, n + 1), **sorted = ARENA_ARRAY(scratch, body *, n + 1);
    int nbodies = m.symbols.n <= MOST_SYMBOLS ? find_bodies(&m, code, bodies, of_kernel) : 0;
    for (int j = 0; j < nbodies; j++) sorted[j] = &bodies[j];
    qsort(sorted, (size_t)nbodies, sizeof *sorted, by_share);
    double sum = 0;
    for (int j = 0; j < nbodies; j++) {
        if (sorted[j]->must_differ || sum + sorted[j]->share > most_of_run) continue;
        sum += sorted[j]->share;
        minor_body[sorted[j] - bodies] = true;
    }
    for (int j = 0; j < n && nbodies; j++) minor[j] = of_kernel[j] >= 0 && minor_body[of_kernel[j]];
    arena_destroy(scratch);
    return minor;
}
