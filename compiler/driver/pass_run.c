// In: rows of the table of passes, and a model. Out: the model after them. Each row is announced, run,
// verified, timed and, if requested, printed; --stop-after ends the pipeline.
#include "compiler/driver/pass_run.h"
#include "codegen/llvm/llvm.h"
#include "compiler/base/clock.h"
#include "compiler/driver/pipeline_impl.h"
#include "ir/kernel/program.h"
#include <limits.h>
#include <string.h>

enum { ROUNDS = 4, FOLD_WORK = 200 * 1000 * 1000, FOLD_BYTES = 64 << 20 };

// ---------------------------------------------------------------- names
static bool has_name(const pass *r, const char *name) {
    return strcmp(r->name, name) == 0 || (r->group && strcmp(r->group, name) == 0);
}

const pass *pass_find(const char *name) {
    const pass *found = NULL;
    for (const pass *r = passes; r->name; r++)
        if (has_name(r, name)) found = r;
    return found;
}

bool pass_may_be_disabled(const char *name) {
    for (const pass *r = passes; r->name; r++)
        if (has_name(r, name) && !(r->flags & REQUIRED)) return true;
    return false;
}

static bool is_first(const pass *r, bool group) {
    for (const pass *x = passes; x < r; x++)
        if (group ? x->group && strcmp(x->group, r->group) == 0 : strcmp(x->name, r->name) == 0) return false;
    return true;
}

static void add_names(text *t, bool groups, bool over_kernels) {
    const char *before = groups ? "; groups: " : "";
    for (const pass *r = passes; r->name; r++) {
        bool listed = !over_kernels || r->level == GOAL_PROGRAM;
        if (!listed || (groups && !r->group) || !is_first(r, groups)) continue;
        text_printf(t, "%s%s", before, groups ? r->group : r->name);
        before = ", ";
    }
}

const char *pass_names(arena *a, bool over_kernels) {
    text t = {.arena = a};
    add_names(&t, false, over_kernels);
    add_names(&t, true, over_kernels);
    return text_str(&t);
}

// "fuse:Conv" prints kernels with Conv in their names after fuse. NULL: nothing is printed.
static const char *printed_pass(arena *a, const options *o) {
    const char *said = o->print_after;
    return said ? arena_strndup(a, said, strcspn(said, ":")) : NULL;
}

bool pass_shows_code(arena *a, const options *o) {
    const char *asked[] = {printed_pass(a, o), o->stop_after};
    for (int j = 0; j < 2; j++) {
        const pass *r = asked[j] ? pass_find(asked[j]) : NULL;
        if (r && r->level == GOAL_FILES) return true;
    }
    return false;
}

// ---------------------------------------------------------------- which rows run
static unsigned targets_of(const pipeline *p) {
    unsigned output = (p->make_code ? ON_CODE : 0) | (p->write_files ? ON_FILES : 0);
    if (!options_for_gpu(p->options)) return output | ON_CPU | (p->gpu ? ON_GPU_HOST : 0);
    if (p->gpu_target) return output | ON_GPU_HOST;
    return output | (options_kernels_alone(p->options) ? ON_GPU_ALONE : ON_GPU_SEEN);
}

static bool is_disabled(const pipeline *p, const pass *r) {
    const string_list *l = &p->options->disabled;
    for (int j = 0; j < l->n && !(r->flags & REQUIRED); j++)
        if (has_name(r, l->at[j])) return true;
    return false;
}

static bool fits(const pass *r, const pass_context *c, unsigned on) {
    bool strict = c->target && c->target->fp == FP_STRICT;
    return (r->on & on) && c->opt >= r->opt && !(strict && (r->flags & RELAXED));
}

static pass_context context_of(const pipeline *p) {
    pass_context c = {.module = p->module,
                      .program = p->program,
                      .target = p->gpu_target ? p->gpu_target : p->target,
                      .opt = options_level(p->options),
                      .fold_work = FOLD_WORK,
                      .fold_bytes = FOLD_BYTES,
                      .algorithms = options_algorithms(p->options)};
    c.versions = sizes_with_versions(p);
    c.states = p->options->state;
    c.derived = has_interface_of_another(p);
    c.max_workspace = p->patched_to;
    // Winograd's convolutions compute several rows at a time, in kernels that patches do not take apart.
    if (p->patched_to && !p->options->algorithms.n) c.algorithms.winograd = CHOICE_NEVER;
    c.algorithms.chosen = p->algorithms.chosen, c.algorithms.user = p->algorithms.user;
    c.algorithms.variants = p->gpu_target ? &p->gpu_target : p->variants.at;
    c.algorithms.nvariants = p->gpu_target ? 1 : p->variants.n;
    return c;
}

// --passes names the passes over kernels to run, at any -O level.
static bool is_chosen(const pipeline *p, const pass *r) {
    string_list names = options_passes(p->arena, p->options);
    for (int j = 0; j < names.n; j++)
        if (has_name(r, names.at[j])) return true;
    return false;
}

static bool runs(const pipeline *p, const pass *r) {
    pass_context c = context_of(p);
    bool named = p->options->passes && r->level == GOAL_PROGRAM;
    if (named) c.opt = INT_MAX;
    return fits(r, &c, targets_of(p)) && !is_disabled(p, r) && (!named || is_chosen(p, r));
}

static bool is_last_of(const pipeline *p, const char *name, const pass *r) {
    if (!has_name(r, name)) return false;
    for (const pass *x = r + 1; x->name; x++)
        if (has_name(x, name) && runs(p, x)) return false;
    return true;
}

// ---------------------------------------------------------------- printing
const char *loops_text(arena *a, const lmodule *m) {
    text t = {.arena = a};
    for (int j = 0; j < m->funcs.n; j++) text_add(&t, lfunc_print(a, m->funcs.at[j]));
    return text_str(&t);
}

static const char *code_text(pipeline *p) {
    if (p->loops->target->arch.is_text) return loops_text(p->arena, p->loops);
    bytes b = llvm_emit(p->loops, EMIT_ASM, p->arena, p->diag);
    return arena_strndup(p->arena, b.at, b.n);
}

static const char *text_after(pipeline *p, const pass *r) {
    if (r->level == GOAL_FILES && p->loops) return code_text(p);
    if (p->loops) return loops_text(p->arena, p->loops);
    return p->program ? program_print(p->arena, p->program) : graph_print(p->arena, p->module);
}

// The kernels with `name` in their names.
static const char *kernels_after(pipeline *p, const char *name) {
    text t = {.arena = p->arena};
    for (int j = 0; p->loops && j < p->loops->funcs.n; j++)
        if (strstr(p->loops->funcs.at[j]->name, name))
            text_add(&t, lfunc_print(p->arena, p->loops->funcs.at[j]));
    for (int j = 0; p->program && !p->loops && j < p->program->kernels.n; j++)
        if (strstr(p->program->kernels.at[j]->name, name))
            text_add(&t, kernel_print(p->arena, p->program->kernels.at[j]));
    return t.n ? text_str(&t) : "no kernel with that name\n";
}

static void print_after(pipeline *p, const pass *r) {
    const char *name = printed_pass(p->arena, p->options);
    if (!name || !p->hooks.print) return;
    bool all = strcmp(name, "all") == 0, own = all || strcmp(name, r->name) == 0;
    const char *kernels = strchr(p->options->print_after, ':');
    if ((!own && !is_last_of(p, name, r)) || (kernels && r->level == GOAL_GRAPH)) return;
    const char *said = kernels ? kernels_after(p, kernels + 1) : text_after(p, r);
    bool same = all && p->printed && strcmp(p->printed, said) == 0;
    p->printed = said;
    const char *title = own ? r->name : name;
    if (p->label) title = arena_printf(p->arena, "%s, %s", title, p->label);
    p->hooks.print(p->hooks.user, title, same ? "no change\n" : said);
}

static void print_times(pipeline *p, goal level) {
    for (const pass *r = passes; r->name; r++) {
        double seconds = p->seconds[r - passes];
        if (r->level != level || !seconds || !p->options->time_passes || !p->hooks.time) continue;
        p->hooks.time(p->hooks.user, r->name,
                      arena_printf(p->arena, "%-16s %10.3f ms\n", r->name, 1e3 * seconds));
    }
}

// ---------------------------------------------------------------- running
static void verify(const pass *r, const pass_context *c, pipeline *p) {
    switch (r->level) {
    case GOAL_GRAPH:
        if (!r->run) break; // imported graphs have no types yet
        diag_check(c->module->diag);
        graph_verify(c->module);
        break;
    case GOAL_KERNELS: break; // lowering verifies its result
    case GOAL_PROGRAM: program_verify(c->program); break;
    case GOAL_LOOPS:
        for (int j = 0; j < p->loops->funcs.n; j++)
            if (!p->loops->funcs.at[j]->original) lfunc_verify(p->loops->funcs.at[j], p->diag);
        break;
    case GOAL_FILES: break;
    }
}

// Passes up to code generation take about CODEGEN_BEGINS of the time, most of it those over loops.
static double share_before(const pass *r) {
    static const double begins[] = {[GOAL_GRAPH] = 0,
                                    [GOAL_KERNELS] = 0.05,
                                    [GOAL_PROGRAM] = 0.06,
                                    [GOAL_LOOPS] = 0.12,
                                    [GOAL_FILES] = CODEGEN_BEGINS};
    return r->level == GOAL_FILES && !r[1].name ? 1 : begins[r->level];
}

// False: --stop-after ends here.
static bool run_row(pipeline *p, const pass *r, bool *changed) {
    pass_context c = context_of(p);
    double start = clock_now();
    if (p->hooks.progress)
        p->hooks.progress(p->hooks.user, r->name, share_before(r), p->program ? p->program->kernels.n : 0);
    if (r->run) r->run(&c);
    else r->step(p);
    verify(r, &c, p);
    diag_check(p->diag);
    *changed = c.changed;
    p->seconds[r - passes] += clock_now() - start;
    print_after(p, r);
    bool stop = p->options->stop_after && is_last_of(p, p->options->stop_after, r);
    p->stopped |= stop;
    if (p->hooks.cancelled && p->hooks.cancelled(p->hooks.user)) {
        p->was_cancelled = true;
        diag_fatal(p->diag, NULL, "cancelled after pass '%s'", r->name);
    }
    return !stop;
}

// State of rows that are repeated. Times count changes.
typedef struct rounds {
    int changes;
    int *changed; // by row: time of its last change
    int *began;   // by row with `again`: when its round began
    int *count;   // and the number of its rounds
} rounds;

static rounds rounds_new(arena *a) {
    int n = 0;
    while (passes[n].name) n++;
    return (rounds){0, ARENA_ARRAY(a, int, n), ARENA_ARRAY(a, int, n), ARENA_ARRAY(a, int, n)};
}

static const pass *next_row(rounds *x, const pass *r) {
    const pass *first = r;
    ptrdiff_t i = r - passes;
    bool any = false;
    if (!r->again) return r + 1;
    while (strcmp(first->name, r->again) != 0) first--;
    for (ptrdiff_t j = first - passes; j <= i; j++) any |= x->changed[j] > x->began[i];
    if (!any || ++x->count[i] == ROUNDS) return r + 1;
    for (ptrdiff_t j = first - passes; j <= i; j++) {
        x->began[j] = x->changes;
        if (j < i) x->count[j] = 0;
    }
    return first;
}

// name: only rows with this name or group; NULL: all.
static bool run_rows(pipeline *p, goal level, const char *name) {
    rounds x = rounds_new(p->arena);
    bool go_on = true;
    for (const pass *r = passes; r->name && go_on; r = next_row(&x, r)) {
        bool changed = false;
        if (r->level == level && (!name || has_name(r, name)) && runs(p, r)) go_on = run_row(p, r, &changed);
        if (changed) x.changed[r - passes] = ++x.changes;
    }
    return go_on;
}

bool run_level(pipeline *p, goal level) {
    bool go_on = true, named = p->options->passes && level == GOAL_PROGRAM;
    string_list names = options_passes(p->arena, p->options);
    p->seconds = ARENA_ARRAY(p->arena, double, pass_find("write") - passes + 1);
    if (!named) go_on = run_rows(p, level, NULL);
    for (int j = 0; named && j < names.n && go_on; j++) go_on = run_rows(p, level, names.at[j]);
    print_times(p, level);
    return go_on;
}

void run_passes(pass_context *c, goal level, const char *group) {
    arena *scratch = arena_new();
    rounds x = rounds_new(scratch);
    unsigned on = c->target && c->target->arch.is_gpu ? ON_GPU_SEEN : ON_CPU;
    for (const pass *r = passes; r->name; r = next_row(&x, r)) {
        if (r->level != level || !r->run || !fits(r, c, on) || (group && !has_name(r, group))) continue;
        c->changed = false;
        r->run(c);
        verify(r, c, NULL);
        if (c->changed) x.changed[r - passes] = ++x.changes;
    }
    arena_destroy(scratch);
}
