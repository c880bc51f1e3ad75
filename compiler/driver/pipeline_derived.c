// Pipelines derived from the original one, up to the program: versions for other sizes, the GPU besides the
// CPU, trials with other choices. They report only errors.
#include "codegen/gpu/gpu.h"
#include "codegen/host/host.h"
#include "codegen/llvm/digest.h"
#include "compiler/driver/pipeline_impl.h"
#include "ir/kernel/program.h"
#include <string.h>

// ---------------------------------------------------------------- one pipeline
static pipeline *derived_new(pipeline *p, arena *a, const options *o, const pipeline_hooks *hooks) {
    pipeline *v = pipeline_new(a, p->diag, o, hooks);
    v->of = p;
    v->source = p->source;
    v->goal = p->goal;
    v->name = p->name;
    v->probes = p->probes;
    v->lists = p->lists;
    v->patched_to = p->patched_to;
    return v;
}

// The sink of a muted diag: remarks and warnings were reported by the original pipeline.
typedef struct muted {
    void (*sink)(void *user, const diag_message *m);
    void *user;
} muted;
static void only_errors(void *user, const diag_message *m) {
    const muted *of = user;
    if (m->severity == SEV_ERROR && of->sink) of->sink(of->user, m);
}

static void run_muted(pipeline *v, goal g) {
    muted *of = ARENA_NEW(v->diag->arena, muted);
    *of = (muted){v->diag->sink, v->diag->user};
    v->diag->sink = only_errors, v->diag->user = of;
    bool go_on = run_level(v, GOAL_GRAPH) && run_level(v, GOAL_KERNELS) && run_level(v, GOAL_PROGRAM);
    if (go_on && g == GOAL_LOOPS) step_schedule(v), step_memory(v);
    v->diag->sink = of->sink, v->diag->user = of->user;
}

// ---------------------------------------------------------------- sizes
void parse_sizes(pipeline *p) {
    const string_list *said = &p->options->dims;
    p->lists = ARENA_ARRAY(p->arena, size_list, said->n + 1);
    for (int j = 0; j < said->n; j++) size_list_parse(p->arena, p->diag, said->at[j], &p->lists[j]);
    diag_check(p->diag);
    for (int j = 0; j < said->n; j++)
        for (int i = 0; i < j; i++)
            if (strcmp(p->lists[i].name, p->lists[j].name) == 0 && p->lists[i].at.n + p->lists[j].at.n > 2)
                diag_fatal(p->diag, NULL, "--dim: '%s' is given twice", p->lists[i].name);
}

string_list sizes_with_versions(const pipeline *p) {
    string_list names = {0};
    for (int j = 0; j < p->options->dims.n; j++)
        if (p->lists[j].at.n > 1) VEC_PUSH(p->arena, &names, p->lists[j].name);
    return names;
}

bool has_interface_of_another(const pipeline *p) { return p->of && p->of->module; }

size_rule *size_rules(pipeline *p, int *n) {
    size_rule *rules = ARENA_ARRAY(p->arena, size_rule, p->options->dims.n + 1);
    *n = 0;
    for (int j = 0; j < p->options->dims.n; j++) {
        const size_list *l = &p->lists[j];
        if (l->at.n < 2) continue;
        dim *d = dim_symbol(p->program->dims, l->name);
        rules[(*n)++] = (size_rule){size_list_holds(d, l), size_list_rule(p->arena, l)};
    }
    return rules;
}

void add_size_checks(pipeline *p) {
    int n;
    const size_rule *rules = size_rules(p, &n);
    for (int j = 0; j < n; j++) {
        step *s = step_insert(p->program, p->program->main, 0, STEP_CHECK, NULL);
        s->dim = rules[j].holds;
        s->message = rules[j].message;
    }
}

// ---------------------------------------------------------------- versions
int pipeline_choices(pipeline *p, int **choices) {
    *choices = NULL;
    return sizes_with_versions(p).n
               ? version_choices(p->arena, p->diag, p->lists, p->options->dims.n, choices)
               : 1;
}

static const char *unique_suffix(pipeline *p, const char *suffix) {
    const char *s = suffix;
    for (int k = 2, j = 0; j < p->versions.n; j++) {
        if (strcmp(p->versions.at[j].suffix, s) != 0) continue;
        s = arena_printf(p->arena, "%s_%d", suffix, k++);
        j = -1;
    }
    return s;
}

static dim *version_condition(pipeline *p, const int *choice) {
    dim *all = dim_const(p->program->dims, 1);
    for (int j = 0; j < p->options->dims.n; j++)
        if (p->lists[j].at.n > 1)
            all = dim_mul(all, size_range_holds(dim_symbol(p->program->dims, p->lists[j].name),
                                                &p->lists[j].at.at[choice[j]]));
    return all;
}

static pipeline *run_version(pipeline *p, const int *choice) {
    pipeline *v = derived_new(p, p->arena, p->options, &p->hooks);
    v->target = p->target;
    v->gpu_target = p->gpu_target;
    v->choice = choice;
    v->label = version_label(p->arena, p->lists, p->options->dims.n, choice);
    run_muted(v, GOAL_PROGRAM);
    return v;
}

void run_versions(pipeline *p) {
    int *choices, ndims = p->options->dims.n, first_kernel = 0;
    if (!sizes_with_versions(p).n) return;
    if (options_for_both(p->options))
        diag_fatal_missing(
            p->diag, NULL,
            "--dim: several sizes are not supported with --device=%s: make one object for the CPU and one "
            "for the GPU",
            p->options->device);
    int n = pipeline_choices(p, &choices);
    for (int k = 0; k < n; k++) {
        const int *choice = choices + k * ndims;
        pipeline *v = run_version(p, choice);
        const char *suffix = unique_suffix(p, version_suffix(p->arena, p->lists, ndims, choice));
        version own = {v->label, suffix, v->program, version_condition(p, choice)};
        own.first_kernel = first_kernel;
        if (v->program) first_kernel += v->program->kernels.n;
        VEC_PUSH(p->arena, &p->pipelines, v);
        VEC_PUSH(p->arena, &p->versions, own);
        p->stopped |= v->stopped;
    }
}

// ---------------------------------------------------------------- the GPU, trials
void run_for_gpu(pipeline *p) {
    options *own = ARENA_NEW(p->arena, options);
    *own = *p->options;
    own->device = "cuda";
    pipeline *v = derived_new(p, p->arena, own, &p->hooks);
    set_gpu_target(v);
    v->label = "cuda";
    run_muted(v, GOAL_PROGRAM);
    p->stopped |= v->stopped;
    p->gpu_program = v->program;
    if (!p->stopped) p->gpu = gpu_schedule(v->program, p->name, v->gpu_target, true, p->diag);
}

int64_t pipeline_workspace(pipeline *p, arena *a, int64_t patched_to) {
    options *own = ARENA_NEW(a, options);
    *own = *p->options;
    own->print_after = own->stop_after = own->max_workspace = NULL, own->time_passes = false;
    pipeline_hooks hooks = {.user = p->hooks.user,
                            .edit = p->hooks.edit,
                            .cancelled = p->hooks.cancelled,
                            .input = p->hooks.input};
    pipeline *v = derived_new(p, a, own, &hooks);
    v->target = p->target, v->variants = p->variants, v->patched_to = patched_to;
    v->probes = NULL;
    v->model_digest = digest_new(a);
    run_muted(v, GOAL_LOOPS);
    return v->program && v->program->workspace && dim_is_const(v->program->workspace)
               ? dim_value(v->program->workspace)
               : -1;
}

pipeline *pipeline_trial(pipeline *p, arena *a, const int *choice, const struct choice_table *t,
                         algorithm_hook *chosen, void *user) {
    options *own = ARENA_NEW(a, options);
    *own = *p->options;
    own->print_after = own->stop_after = NULL, own->time_passes = false;
    pipeline_hooks hooks = {.user = p->hooks.user, .edit = p->hooks.edit, .cancelled = p->hooks.cancelled};
    pipeline *v = derived_new(p, a, own, &hooks);
    v->target = ARENA_NEW(a, target);
    *v->target = *p->target;
    v->target->choices = t;
    VEC_PUSH(a, &v->variants, v->target);
    v->choice = choice;
    v->probes = NULL;
    v->algorithms.chosen = chosen, v->algorithms.user = user;
    run_muted(v, GOAL_PROGRAM);
    return v;
}
