// In: a model and a time. Out: choices for its kernels that were measured to be faster than what the cost
// models choose. Two questions, each with its own trial variants of the model:
//
//   for each kernel with several algorithms:   every algorithm's kernel against the others
//   for each kernel with the best of them:      one choice after the other, each against the best so far
//
// Kernels that take most of the time come first; equal ones are measured once.
#include "compiler/tune/tune.h"
#include "codegen/host/host.h"
#include "compiler/base/clock.h"
#include "compiler/base/integers.h"
#include "compiler/tune/measure.h"
#include "ir/kernel/program.h"
#include "passes/match/contract.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_GAIN      1.03 // minimum gain over the cost models' choices
#define LEAST_WINS      0.7  // of the rounds: disturbances affect few of them
#define STEP_GAIN       1.01 // minimum gain over the best so far
#define ALGORITHM_SHARE 0.4  // maximum share of the time
enum { USUAL_SIZE = 8, ROUNDS = 5, LAST_ROUNDS = 11, MOST_ALGORITHMS = 8 };

typedef struct tuner {
    pipeline *p;
    const int *choice; // of sizes, NULL: the model's own
    arena *arena;
    choice_table *table;
    double end;
    VEC(const char *) remarks;
    int measured, gained, late;
} tuner;

// ---------------------------------------------------------------- sizes
// A symbol has its maximum, or USUAL_SIZE. Sizes that checks of the program forbid are not tried.
typedef struct sizes {
    bool fit;
} sizes;

static bool look_up(void *user, const dim *atom, int64_t *v) {
    const sizes *x = user;
    if (atom->kind != DIM_SYMBOL || !x->fit) return false;
    *v = USUAL_SIZE;
    if (*v < atom->min) *v = atom->min;
    if (atom->divisor > 1) *v = round_up(*v, atom->divisor);
    if (atom->max < INT64_MAX) *v = atom->max;
    return true;
}

static sizes sizes_of(program *p) {
    sizes x = {.fit = true};
    step_list steps = program_steps(p->arena, p);
    for (int j = 0; j < steps.n; j++) {
        int64_t v;
        if (steps.at[j].s->kind == STEP_CHECK && dim_eval(steps.at[j].s->dim, look_up, &x, &v) && v == 0)
            x.fit = false;
    }
    return x;
}

// ---------------------------------------------------------------- answers
static void keep(tuner *x, const char *key, const char *name, const choices *c, double gain) {
    choice_entry e = {
        .kernel = key, .target = target_key(x->arena, x->p->target), .about = name, .c = *c, .gain = gain};
    choice_table_put(x->table, &e);
    x->measured++;
    if (gain <= 1) return;
    x->gained++;
    VEC_PUSH(x->p->arena, &x->remarks,
             arena_printf(x->p->arena, "kernel %s: measured %.2f times as fast with %s", name, gain,
                          choices_text(x->arena, c)));
}

static bool is_answered(const tuner *x, const char *key) {
    choice_table *t = x->table;
    return map_get(&t->entries, arena_printf(x->arena, "%s %s", key, target_key(x->arena, x->p->target)));
}

// ---------------------------------------------------------------- algorithms
typedef struct site {
    const char *key, *name;
    int model;                             // algorithm chosen by the cost model
    kernel *by_algorithm[MOST_ALGORITHMS]; // NULL: not possible
    sizes sizes[MOST_ALGORITHMS];
} site;
typedef struct survey {
    tuner *x;
    map sites;  // by key
    int forced; // algorithm
} survey;

static void note_site(void *user, const char *key, kernel *k, int number, int model) {
    survey *s = user;
    site *own = map_get(&s->sites, key);
    if (!own) {
        own = ARENA_NEW(s->x->arena, site);
        own->key = arena_strdup(s->x->arena, key), own->name = k->name, own->model = model;
        map_put(&s->sites, key, own);
    }
    if (number == s->forced && !own->by_algorithm[number]) own->by_algorithm[number] = k;
}

static pipeline *trial_pipeline(tuner *x, const choices *forced, survey *s) {
    choice_table *t = x->table;
    if (forced) {
        t = choice_table_new(x->arena);
        t->of = forced;
    }
    return pipeline_trial(x->p, x->arena, x->choice, t, s ? note_site : NULL, s);
}

static void compare_algorithms(tuner *x, const site *s, double seconds) {
    arena *a = arena_within(x->arena);
    bench *b[MOST_ALGORITHMS];
    trial *t[MOST_ALGORITHMS];
    int n = 0, tried[MOST_ALGORITHMS], best = 0;
    bool model = false; // it comes first
    double medians[MOST_ALGORITHMS], wins[MOST_ALGORITHMS];
    for (int j = 0; j < MOST_ALGORITHMS; j++) {
        int w = j == 0 ? s->model : j <= s->model ? j - 1 : j;
        if (!s->by_algorithm[w]) continue;
        b[n] = bench_new(a, x->p->diag, s->by_algorithm[w], x->p->target,
                         &(dim_values){look_up, (void *)&s->sizes[w]});
        t[n] = b[n] ? bench_compile(b[n], a, &(choices){0}) : NULL;
        if (!t[n]) continue;
        model |= j == 0;
        bench_first(b[n], t[n]);
        tried[n++] = w;
    }
    if (n > 1 && model) {
        bench_compare(b, t, n, ROUNDS, seconds, medians, wins);
        for (int j = 1; j < n; j++)
            if (medians[j] < medians[best]) best = j;
        double gain = medians[0] / medians[best];
        bool better = gain > LEAST_GAIN && wins[best] >= LEAST_WINS;
        keep(x, s->key, s->name, &(choices){.algorithm = better ? tried[best] : 0}, better ? gain : 1);
    }
    arena_destroy(a);
}

static void tune_algorithms(tuner *x) {
    survey s = {.x = x, .sites.arena = x->arena};
    double begin = clock_now();
    choices *forced = ARENA_ARRAY(x->arena, choices, MOST_ALGORITHMS);
    for (s.forced = DIRECT;
         s.forced < MOST_ALGORITHMS && (s.forced == DIRECT || algorithms[s.forced - DIRECT - 1]);
         s.forced++) {
        forced[s.forced].algorithm = s.forced;
        pipeline *v = trial_pipeline(x, &forced[s.forced], &s);
        if (!v->program || s.sites.n == 0) return;
        for (int j = 0; j < s.sites.n; j++)
            ((site *)s.sites.slots[j].value)->sizes[s.forced] = sizes_of(v->program);
    }
    double end = begin + ALGORITHM_SHARE * (x->end - begin);
    for (int j = 0; j < s.sites.n; j++) {
        const site *own = s.sites.slots[j].value;
        if (is_answered(x, own->key)) continue;
        if (clock_now() >= end) x->late++;
        else compare_algorithms(x, own, (end - clock_now()) / (s.sites.n - j) / 2);
    }
}

// ---------------------------------------------------------------- schedules
typedef struct item {
    kernel *k;
    const char *key;
    int uses;
    double seconds; // of a run
} item;

typedef struct search {
    tuner *x;
    const item *item;
    bench *b;
    choices best;
    double share; // seconds for one comparison
    VEC(uint64_t) seen;
    VEC(choices) next; // to be compared with the best
} search;

// Loops seen before cannot be better.
static void consider(search *s, choices c) {
    uint64_t loops = bench_loops(s->b, &c);
    for (int j = 0; j < s->seen.n; j++)
        if (s->seen.at[j] == loops) return;
    VEC_PUSH(s->x->arena, &s->seen, loops);
    VEC_PUSH(s->x->arena, &s->next, c);
}

static void compare(search *s) {
    int n = s->next.n + 1, m = 1;
    if (n == 1 || clock_now() >= s->x->end) return;
    arena *a = arena_within(s->x->arena);
    bench **b = ARENA_ARRAY(a, bench *, n);
    trial **t = ARENA_ARRAY(a, trial *, n);
    double *medians = ARENA_ARRAY(a, double, n), *wins = ARENA_ARRAY(a, double, n);
    int *which = ARENA_ARRAY(a, int, n), best = 0;
    b[0] = s->b, t[0] = bench_compile(s->b, a, &s->best);
    for (int j = 0; j < s->next.n; j++) {
        b[m] = s->b, t[m] = bench_compile(s->b, a, &s->next.at[j]);
        if (t[m]) which[m++] = j;
    }
    if (t[0]) bench_compare(b, t, m, ROUNDS, s->share, medians, wins);
    for (int j = 1; j < m && t[0]; j++)
        if (medians[j] * STEP_GAIN < medians[0] && (!best || medians[j] < medians[best])) best = j;
    if (best) s->best = s->next.at[which[best]];
    s->next.n = 0;
    arena_destroy(a);
}

static void try_numbers(search *s, int *field, const int *values, int n) {
    int was = *field;
    for (int j = 0; j < n; j++) {
        *field = values[j];
        consider(s, s->best);
    }
    *field = was;
    compare(s);
}

static void try_blocks(search *s) {
    static const int depths[] = {128, 256, 512, 1024, 2048};
    choices c = s->best;
    c.blocks = NO;
    consider(s, c);
    c.blocks = YES;
    for (size_t j = 0; j < sizeof depths / sizeof *depths; j++) {
        c.depth = depths[j];
        consider(s, c);
    }
    compare(s);
}

#define TRY(field, ...)                                                                                      \
    try_numbers(s, &s->best.field, (const int[]){__VA_ARGS__}, sizeof(const int[]){__VA_ARGS__} / sizeof(int))

static void try_all(search *s) {
    TRY(vectors, 1, 2, 3, 4);
    TRY(rows, 14, 12, 10, 8, 7, 6, 5, 4);
    try_blocks(s);
    TRY(steps, 1, 2);
    TRY(ahead, NO, YES);
    if (s->x->p->target->threads != 1) TRY(tasks, TASKS_COLUMNS, TASKS_ROWS);
    TRY(axis, 1, 2, 3, 4, 5, 6, 7, 8);
}

// Compares with the cost models' choices again, for longer.
static double final_gain(search *s) {
    arena *a = arena_within(s->x->arena);
    double medians[2] = {0, 0}, wins[2] = {0, 0};
    bench *b[] = {s->b, s->b};
    trial *t[] = {bench_compile(s->b, a, &(choices){0}), bench_compile(s->b, a, &s->best)};
    if (t[0] && t[1]) bench_compare(b, t, 2, LAST_ROUNDS, 2 * s->share, medians, wins);
    arena_destroy(a);
    return wins[1] >= LEAST_WINS ? medians[0] / medians[1] : 0;
}

static void tune_kernel(tuner *x, const item *i, sizes *sz, double seconds) {
    arena *a = arena_within(x->arena);
    search s = {.x = x, .item = i, .share = seconds / 16};
    s.b = bench_new(a, x->p->diag, i->k, x->p->target, &(dim_values){look_up, sz});
    trial *first = s.b ? bench_compile(s.b, a, &s.best) : NULL;
    if (first) {
        bench_first(s.b, first);
        consider(&s, s.best); // known
        s.next.n = 0;
        try_all(&s);
        bool chosen = memcmp(&s.best, &(choices){0}, sizeof s.best) != 0;
        double gain = chosen ? final_gain(&s) : 1;
        bool better = chosen && gain > LEAST_GAIN;
        if (better) keep(x, i->key, i->k->name, &s.best, gain);
        else if (clock_now() < x->end) keep(x, i->key, i->k->name, &(choices){0}, 1);
        else x->late++;
    }
    arena_destroy(a);
}

static double first_seconds(tuner *x, kernel *k, sizes *sz) {
    arena *a = arena_within(x->arena);
    bench *b = bench_new(a, x->p->diag, k, x->p->target, &(dim_values){look_up, sz});
    trial *t = b ? bench_compile(b, a, &(choices){0}) : NULL;
    double seconds = t ? bench_first(b, t) : 0;
    arena_destroy(a);
    return seconds;
}

static int by_weight(const void *a, const void *b) {
    const item *x = a, *y = b;
    double u = x->seconds * x->uses, v = y->seconds * y->uses;
    return (u < v) - (u > v);
}

typedef struct item_list {
    tuner *x;
    VEC(item) all;
    map by_key;
} item_list;

static void add_item(item_list *l, kernel *k) {
    const char *key = kernel_key(l->x->arena, k);
    size_t known = (size_t)map_get(&l->by_key, key);
    if (known) {
        l->all.at[known - 1].uses++;
        return;
    }
    if (is_answered(l->x, key)) return;
    VEC_PUSH(l->x->arena, &l->all, (item){.k = k, .key = key, .uses = 1});
    map_put(&l->by_key, key, (void *)(size_t)l->all.n);
}

static void tune_schedules(tuner *x) {
    item_list l = {.x = x, .by_key.arena = x->arena};
    pipeline *v = trial_pipeline(x, NULL, NULL);
    double all = 0;
    if (!v->program) return;
    sizes sz = sizes_of(v->program);
    step_list steps = program_steps(x->arena, v->program);
    for (int j = 0; j < steps.n; j++)
        if (steps.at[j].s->kind == STEP_KERNEL && !calls_cblas(steps.at[j].s->kernel))
            add_item(&l, steps.at[j].s->kernel);
    for (int j = 0; j < l.all.n && clock_now() < x->end; j++) {
        l.all.at[j].seconds = first_seconds(x, l.all.at[j].k, &sz);
        all += l.all.at[j].seconds * l.all.at[j].uses;
    }
    if (l.all.n) qsort(l.all.at, (size_t)l.all.n, sizeof *l.all.at, by_weight);
    for (int j = 0; j < l.all.n; j++) {
        double weight = l.all.at[j].seconds * l.all.at[j].uses, left = x->end - clock_now();
        if (left <= 0) x->late++;
        else if (weight > 0) tune_kernel(x, &l.all.at[j], &sz, left * weight / all);
        all -= weight;
    }
}

// ---------------------------------------------------------------- entry
static void check_machine(pipeline *p) {
    if (p->text_target)
        diag_fatal(p->diag, NULL, "--tune measures code for this machine, but C text is portable");
    static const char hint[] =
        "use --mcpu=native; results from other machines come from their --tune-db FILE";
    bool one = p->variants.n == 1, here = one && target_runs_here(p->arena, p->diag, p->target);
    if (!here) diag_hint(p->diag, "%s", hint);
    if (!one && target_is_host_arch(p->target))
        diag_fatal(p->diag, NULL,
                   "--tune measures code for this machine's CPU, but this is code for several CPUs");
    if (!here)
        diag_fatal(p->diag, NULL, "--tune measures on this machine, which cannot run code for %s%s%s",
                   p->target->triple, p->target->cpu && *p->target->cpu ? " " : "",
                   p->target->cpu ? p->target->cpu : "");
}

static void forget_uses(choice_table *t) {
    for (int j = 0; j < t->entries.n; j++) ((choice_entry *)t->entries.slots[j].value)->used = false;
}

void tune_kernels(pipeline *p, choice_table *t) {
    check_machine(p);
    tuner x = {.p = p, .arena = arena_within(p->arena), .table = t};
    double begin = clock_now();
    int *choices, n = pipeline_choices(p, &choices);
    for (int j = 0; j < n; j++) {
        double now = clock_now(), left = begin + options_tune_seconds(p->options) - now;
        x.end = now + left / (n - j);
        x.choice = choices ? choices + j * p->options->dims.n : NULL;
        if (!p->options->algorithms.n) tune_algorithms(&x);
        tune_schedules(&x);
    }
    arena_destroy(x.arena);
    forget_uses(t);
    for (int j = 0; j < x.remarks.n; j++) diag_remark(p->diag, NULL, "%s", x.remarks.at[j]);
    diag_remark(p->diag, NULL, "--tune: %d kernels measured in %.1f s, %d with tuned choices%s", x.measured,
                clock_now() - begin, x.gained,
                x.late ? arena_printf(p->arena, "; %d not measured for lack of time", x.late) : "");
}
