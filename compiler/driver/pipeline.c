// Import, graph passes, lowering, program passes, loops: in this order, each printable, each verified.
#include "compiler/driver/pipeline.h"
#include "codegen/gpu/gpu.h"
#include "codegen/host/host.h"
#include "codegen/llvm/cache.h"
#include "codegen/llvm/digest.h"
#include "codegen/llvm/llvm.h"
#include "compiler/base/clock.h"
#include "compiler/driver/bind.h"
#include "compiler/driver/gpu_images.h"
#include "compiler/import/file.h"
#include "compiler/output/check_interface.h"
#include "compiler/tune/tune.h"
#include "ir/kernel/lower.h"
#include "ir/kernel/program.h"
#include "passes/memory/spaces.h"
#include "passes/passes.h"
#include <ctype.h>
#include <string.h>

enum { FOLD_WORK = 200 * 1000 * 1000, FOLD_BYTES = 64 << 20 };

static bool wanted(const char *option, const char *pass) {
    return option && (strcmp(option, pass) == 0 || strcmp(option, "all") == 0);
}

static void begin(pipeline *p, const char *pass) {
    if (p->hooks.progress) p->hooks.progress(p->hooks.user, pass);
    p->started = clock_now();
}

const char *loops_text(arena *a, const lmodule *m) {
    text t = {.arena = a};
    for (int j = 0; j < m->funcs.n; j++) text_add(&t, lfunc_print(a, m->funcs.at[j]));
    return text_str(&t);
}

static const char *text_of(pipeline *p) {
    if (p->loops) return loops_text(p->arena, p->loops);
    return p->program ? program_print(p->arena, p->program) : graph_print(p->arena, p->module);
}

// After a pass: what the user wants to see of it. True: go on.
static bool end(pipeline *p, const char *pass) {
    const options *o = p->options;
    double seconds = clock_now() - p->started;
    diag_check(p->diag);
    if (o->time_passes && p->hooks.print)
        p->hooks.print(p->hooks.user, pass, arena_printf(p->arena, "%-12s %10.3f ms\n", pass, 1e3 * seconds));
    if (wanted(o->print_after, pass) && p->hooks.print) {
        const char *title = p->label ? arena_printf(p->arena, "%s, %s", pass, p->label) : pass;
        p->hooks.print(p->hooks.user, title, text_of(p));
    }
    if (o->stop_after && strcmp(o->stop_after, pass) == 0) p->stopped = true;
    if (p->hooks.cancelled && p->hooks.cancelled(p->hooks.user)) {
        p->was_cancelled = true;
        diag_fatal(p->diag, NULL, "cancelled after pass '%s'", pass);
    }
    return !p->stopped;
}

static bool run_passes(pipeline *p) {
    pass_context c = {p->module, options_level(p->options), FOLD_WORK, FOLD_BYTES};
    for (const pass *g = graph_passes; g->name; g++) {
        if (c.opt < g->min_opt) continue;
        begin(p, g->name);
        g->run(&c);
        diag_check(p->diag);
        graph_verify(p->module);
        if (!end(p, g->name)) return false;
    }
    return true;
}

static bool run_program_pass(pipeline *p, const program_pass *g, program_context *c) {
    begin(p, g->name);
    g->run(c);
    program_verify(p->program);
    return end(p, g->name);
}

static bool run_named_passes(pipeline *p, program_context *c) {
    string_list names = options_passes(p->arena, p->options);
    for (int i = 0; i < names.n; i++)
        for (const program_pass *g = program_passes; g->name; g++)
            if (strcmp(g->name, names.at[i]) == 0 && !run_program_pass(p, g, c)) return false;
    return true;
}

static bool run_program_passes(pipeline *p) {
    const target *t = p->gpu_target ? p->gpu_target : p->target;
    program_context c = {p->program, t, options_level(p->options), options_algorithms(p->options),
                         options_kernels_alone(p->options)};
    c.algorithms.chosen = p->algorithms.chosen, c.algorithms.user = p->algorithms.user;
    c.algorithms.variants = p->gpu_target ? &t : p->variants.at;
    c.algorithms.nvariants = p->gpu_target ? 1 : p->variants.n;
    if (p->options->passes) return run_named_passes(p, &c);
    for (const program_pass *g = program_passes; g->name; g++)
        if (c.opt >= g->min_opt && !run_program_pass(p, g, &c)) return false;
    if (!p->gpu_target) return true;
    begin(p, "place");
    assign_spaces(p->program);
    program_verify(p->program);
    return end(p, "place");
}

static void add_to_digest(void *user, const void *data, size_t size) { digest_add(user, data, size); }

static default_use use_of_default(void *user, const model_input *i) {
    const pipeline *p = user;
    const string_list *named = &p->options->override;
    default_use use = p->hooks.input ? p->hooks.input(p->hooks.user, i) : DEFAULT_IS_CONSTANT;
    for (int j = 0; j < named->n && use == DEFAULT_IS_CONSTANT; j++) {
        bool own = strcmp(named->at[j], i->name) == 0;
        if (own && !i->overridable)
            diag_error(p->diag, NULL, "--override=%s: that input has no default value that can be replaced",
                       i->name);
        if (own || strcmp(named->at[j], "all") == 0) use = DEFAULT_IS_OPTIONAL;
    }
    return use;
}

static void check_overrides(pipeline *p, const module *m) {
    const string_list *named = &p->options->override;
    for (int j = 0; j < named->n; j++) {
        bool found = strcmp(named->at[j], "all") == 0;
        for (int i = 0; i < m->main->inputs.n; i++)
            found |= strcmp(m->main->inputs.at[i]->name, named->at[j]) == 0;
        if (!found) diag_error(p->diag, NULL, "--override=%s: the model has no such input", named->at[j]);
    }
}

static module *import_source(pipeline *p, const source *s) {
    import_options o = {.external_data_dir = p->options->external_data_dir,
                        .files = &p->files,
                        .input = use_of_default,
                        .user = p};
    if (s->data) return import_onnx_memory(p->arena, p->diag, s->path, s->folder, s->data, s->size, &o);
    return import_onnx_file(p->arena, p->diag, s->path, &o);
}

// Of the model as imported: the same for all formats that it may be written in.
static void digest_model(pipeline *p) {
    if (!p->model_digest) return;
    const char *outline = graph_outline(p->arena, p->module, add_to_digest, p->model_digest);
    digest_add(p->model_digest, outline, strlen(outline));
}

// The text is the same for all architectures. Host code only waits: one variant for all CPUs.
static void set_gpu_target(pipeline *p) {
    target_options t = options_target(p->arena, p->options), gpu = t;
    int *archs, narchs = options_gpu_archs(p->arena, p->diag, p->options, &archs), oldest = 75;
    bool own = false;
    for (int i = 0; i < narchs; i++) {
        int sm = gpu_arch_number(archs[i]);
        oldest = i && oldest < sm ? oldest : sm;
        own |= sm != archs[i];
    }
    gpu.cpu = arena_printf(p->arena, "sm_%d%s", oldest, own ? ",sm_90a" : "");
    p->target = target_for_text(p->arena, ARCH_CUDA, &gpu);
    VEC_PUSH(p->arena, &p->variants, p->target);
    if (!options_gpu_host(p->options)) return;
    p->target->placed = true; // by runtime-lite/cuda/cuda.c, whatever the caller gives
    p->gpu_target = p->target;
    p->target = target_from_options(p->arena, p->diag, &t);
    p->variants.at[0] = p->target;
    if (!p->target->hosted || p->target->freestanding || p->target->ptr_bits != 64)
        diag_fatal_missing(p->diag, NULL, "--device=cuda: host code for %s is not supported by this build",
                           p->target->triple);
}

static void set_targets(pipeline *p) {
    if (options_for_gpu(p->options)) {
        set_gpu_target(p);
        return;
    }
    target_options t = options_target(p->arena, p->options);
    p->target =
        p->text_target ? target_for_text(p->arena, ARCH_C, &t) : target_from_options(p->arena, p->diag, &t);
    const char *names = p->text_target ? NULL : options_variants(p->options, p->target);
    string_list cpus = {0};
    if (names) cpus = split_words(p->arena, names, ',');
    for (int i = 0; i < cpus.n; i++)
        VEC_PUSH(p->arena, &p->variants, target_with_cpu(p->arena, p->diag, p->target, cpus.at[i]));
    if (!names) VEC_PUSH(p->arena, &p->variants, p->target);
    p->target = (target *)p->variants.at[0];
}

// The options, and the targets that they came to.
static const char *options_hash(pipeline *p) {
    digest *d = digest_new(p->arena);
    const char *said = options_text(p->arena, p->options);
    digest_add(d, said, strlen(said));
    for (int i = 0; i < p->variants.n; i++) {
        const target *t = p->variants.at[i];
        const char *s = arena_printf(p->arena, "%s %s %s\n", t->triple ? t->triple : "", t->cpu ? t->cpu : "",
                                     t->features ? t->features : "");
        digest_add(d, s, strlen(s));
    }
    const char *tuned = tune_used_text(p);
    digest_add(d, tuned, strlen(tuned));
    return digest_text(d);
}

// As the program will look for it, unless it says otherwise.
static const char *weights_name(const options *o) {
    const char *path = options_weights(o), *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

// ---------------------------------------------------------------- versions
static void parse_sizes(pipeline *p) {
    const string_list *said = &p->options->dims;
    p->lists = ARENA_ARRAY(p->arena, size_list, said->n + 1);
    for (int j = 0; j < said->n; j++) size_list_parse(p->arena, p->diag, said->at[j], &p->lists[j]);
    diag_check(p->diag);
    for (int j = 0; j < said->n; j++)
        for (int i = 0; i < j; i++)
            if (strcmp(p->lists[i].name, p->lists[j].name) == 0 && p->lists[i].at.n + p->lists[j].at.n > 2)
                diag_fatal(p->diag, NULL, "--dim: '%s' is given twice", p->lists[i].name);
}

static bool several_sizes(const pipeline *p) {
    for (int j = 0; j < p->options->dims.n; j++)
        if (p->lists[j].at.n > 1) return true;
    return false;
}

// Every version is imported on its own: what comes in through a pipe must lie in memory.
static const source *readable_again(pipeline *p, const source *s) {
    enum { MODEL_MOST = 1 << 30 };
    if (s->data || strcmp(s->path, "-") != 0) return s;
    mapped m = file_read_stdin(p->arena, p->diag, MODEL_MOST);
    source *own = ARENA_NEW(p->arena, source);
    *own = (source){.path = "<stdin>", .data = m.data, .size = m.size};
    return own;
}

static bool run_import(pipeline *p, const source *s) {
    begin(p, "import");
    p->module = import_source(p, s);
    check_overrides(p, p->module);
    digest_model(p);
    if (p->hooks.edit) p->hooks.edit(p->hooks.user, p->module);
    bind_io(p->arena, p->diag, p->module, p->options);
    bind_options(p->arena, p->diag, p->module, p->options, p->lists, p->choice);
    return end(p, "import");
}

static void run_lower(pipeline *p) {
    begin(p, "lower");
    p->program = lower_module(p->module);
    bind_states(p->program, p->diag, p->options);
}

static bool has_bytes_for_weights(const program *p) {
    for (int j = 0; j < p->buffers.n; j++) {
        const buffer *b = p->buffers.at[j];
        if (b->role == BUF_CONST && (b->dtype == DT_I8 || b->dtype == DT_U8) && b->rank >= 2) return true;
    }
    return false;
}

// A variant that differs only in products of bytes is for models that have some.
static void drop_variant_for_bytes(pipeline *p) {
    if (p->options->multiversion || p->variants.n < 2 || has_bytes_for_weights(p->program)) return;
    if (*p->variants.at[p->variants.n - 1]->features) p->variants.n--;
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

static void run_way(pipeline *v, const source *s) {
    if (!run_import(v, s) || !run_passes(v)) return;
    if (v->all_outputs) bind_all_outputs(v->module);
    run_lower(v);
    if (end(v, "lower")) run_program_passes(v);
}

// The way of a version up to its program.
static pipeline *run_version(pipeline *p, const source *s, const int *choice) {
    pipeline *v = pipeline_new(p->arena, p->diag, p->options, &p->hooks);
    v->target = p->target;
    v->gpu_target = p->gpu_target;
    v->name = p->name;
    v->all_outputs = p->all_outputs;
    v->lists = p->lists;
    v->choice = choice;
    v->label = version_label(p->arena, p->lists, p->options->dims.n, choice);
    run_way(v, s);
    return v;
}

// What every version says anew was said of the model already.
typedef struct hush {
    diag *diag;
    void (*sink)(void *user, const diag_message *m);
    void *user;
} hush;
static void only_errors(void *user, const diag_message *m) {
    const hush *h = user;
    if (m->severity == SEV_ERROR && h->sink) h->sink(h->user, m);
}

static void run_versions(pipeline *p, const source *s) {
    int *choices, ndims = p->options->dims.n, first_kernel = 0;
    if (!several_sizes(p)) return;
    if (options_for_both(p->options))
        diag_fatal_missing(
            p->diag, NULL,
            "--dim: several sizes are not supported with --device=%s: make one object for the CPU and one "
            "for the GPU",
            p->options->device);
    int n = version_choices(p->arena, p->diag, p->lists, ndims, &choices);
    hush h = {p->diag, p->diag->sink, p->diag->user};
    p->diag->sink = only_errors, p->diag->user = &h;
    for (int k = 0; k < n; k++) {
        const int *choice = choices + k * ndims;
        pipeline *v = run_version(p, s, choice);
        const char *suffix = unique_suffix(p, version_suffix(p->arena, p->lists, ndims, choice));
        version own = {v->label, suffix, v->program, version_condition(p, choice)};
        own.first_kernel = first_kernel;
        if (v->program) first_kernel += v->program->kernels.n;
        VEC_PUSH(p->arena, &p->ways, v);
        VEC_PUSH(p->arena, &p->versions, own);
        p->stopped |= v->stopped;
    }
    p->diag->sink = h.sink, p->diag->user = h.user;
}

// The way of the program for a GPU, where the CPU has one too.
static void run_for_gpu(pipeline *p, const source *s) {
    options *own = ARENA_NEW(p->arena, options);
    *own = *p->options;
    own->device = "cuda";
    pipeline *v = pipeline_new(p->arena, p->diag, own, &p->hooks);
    set_gpu_target(v);
    v->name = p->name;
    v->all_outputs = p->all_outputs;
    v->lists = p->lists;
    v->label = "cuda";
    hush h = {p->diag, p->diag->sink, p->diag->user};
    p->diag->sink = only_errors, p->diag->user = &h;
    run_way(v, s);
    p->diag->sink = h.sink, p->diag->user = h.user;
    p->stopped |= v->stopped;
    p->gpu_program = v->program;
    if (!p->stopped) p->gpu = gpu_schedule(v->program, p->name, v->gpu_target, true, p->diag);
}

static size_rule *size_rules(pipeline *p, int *n) {
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

// The program that is interpreted takes no other sizes than the compiled one.
static void check_sizes(pipeline *p) {
    int n;
    const size_rule *rules = size_rules(p, &n);
    for (int j = 0; j < n; j++) {
        step *s = step_insert(p->program, p->program->main, 0, STEP_CHECK, NULL);
        s->dim = rules[j].holds;
        s->message = rules[j].message;
    }
}

// Kernels of the program, or of all its versions in one module.
static void schedule_for_gpu(pipeline *p) {
    const target *t = p->gpu_target ? p->gpu_target : p->target;
    bool with_host = !options_kernels_alone(p->options);
    for (int j = p->versions.n - 1; j >= 0; j--) {
        version *v = &p->versions.at[j];
        v->gpu = p->gpu = gpu_schedule_version(p->gpu, v->program, p->name, v->suffix, t, with_host, p->diag);
    }
    if (!p->versions.n) p->gpu = gpu_schedule(p->program, p->name, t, with_host, p->diag);
}

// ---------------------------------------------------------------- programs as text
bool source_is_program(const source *s) {
    size_t n = strlen(s->path), ending = strlen(".kernels");
    return n > ending && strcmp(s->path + n - ending, ".kernels") == 0;
}

static void check_program_options(pipeline *p) {
    const options *o = p->options;
    bool for_models =
        o->dims.n || o->shapes.n || o->io_dtype.n || o->io_layout.n || o->state.n || o->override.n;
    if (for_models || options_for_both(o) || o->tune)
        diag_fatal(p->diag, NULL,
                   "programs as text take no options of the model, no --tune and one --device");
}

static bool read_program(pipeline *p, const source *s) {
    enum { TEXT_MOST = 1 << 30 };
    check_program_options(p);
    begin(p, "lower");
    mapped m = {.data = s->data, .size = s->size};
    if (!s->data) m = file_map(p->arena, p->diag, s->path, TEXT_MOST);
    if (memchr(m.data, 0, m.size)) diag_fatal(p->diag, NULL, "the text has a NUL");
    const char *text = arena_strndup(p->arena, (const char *)m.data, m.size);
    p->program = program_parse(p->arena, p->diag, s->path, text);
    p->module = p->program->module;
    if (p->model_digest) digest_add(p->model_digest, text, m.size);
    return end(p, "lower");
}

// ---------------------------------------------------------------- tuning
pipeline *pipeline_trial(pipeline *p, arena *a, const source *s, const int *choice,
                         const struct choice_table *t, way_hook *chosen, void *user) {
    options *own = ARENA_NEW(a, options);
    *own = *p->options;
    own->print_after = own->stop_after = NULL, own->time_passes = false;
    pipeline_hooks hooks = {.user = p->hooks.user, .edit = p->hooks.edit, .cancelled = p->hooks.cancelled};
    pipeline *v = pipeline_new(a, p->diag, own, &hooks);
    v->target = ARENA_NEW(a, target);
    *v->target = *p->target;
    v->target->choices = t;
    VEC_PUSH(a, &v->variants, v->target);
    v->name = p->name;
    v->all_outputs = p->all_outputs;
    v->lists = p->lists;
    v->choice = choice;
    v->algorithms.chosen = chosen, v->algorithms.user = user;
    hush h = {p->diag, p->diag->sink, p->diag->user};
    p->diag->sink = only_errors, p->diag->user = &h;
    run_way(v, s);
    p->diag->sink = h.sink, p->diag->user = h.user;
    return v;
}

int pipeline_choices(pipeline *p, int **choices) {
    *choices = NULL;
    return several_sizes(p) ? version_choices(p->arena, p->diag, p->lists, p->options->dims.n, choices) : 1;
}

void pipeline_choose(pipeline *p, const struct choice_table *t) {
    for (int j = 0; j < p->variants.n; j++) {
        target *own = ARENA_NEW(p->arena, target);
        *own = *p->variants.at[j];
        own->choices = t;
        p->variants.at[j] = own;
    }
    p->target = (target *)p->variants.at[0];
}

// ---------------------------------------------------------------- the whole way
static void run_loops(pipeline *p) {
    begin(p, "loops");
    if (options_for_gpu(p->options)) schedule_for_gpu(p);
    if (p->gpu && p->gpu_want == GPU_USES) note_gpu_uses(p);
    if (p->gpu && !p->gpu_target && !p->gpu_program) {
        p->loops = p->gpu->module;
        end(p, "loops");
        return;
    }
    build_options b = {.name = p->name,
                       .hook = p->options->hook,
                       .waits = p->hook != NULL,
                       .version = ONNXC_VERSION,
                       .model_hash = digest_text(p->model_digest),
                       .options_hash = options_hash(p),
                       .weights = weights_name(p->options),
                       .gpu = p->gpu,
                       .gpu_program = p->gpu_program,
                       .versions = p->versions.at,
                       .nversions = p->versions.n};
    b.rules = size_rules(p, &b.nrules);
    p->build = build_program(p->program, p->variants.at, p->variants.n, &b, p->diag);
    p->loops = p->build->module;
    p->loops->debug_info = p->options->debug_info;
    if (p->gpu && p->gpu_want == GPU_IMAGES) add_gpu_images(p);
    for (int j = 0; j < p->loops->funcs.n; j++)
        if (p->loops->funcs.at[j]->body) lfunc_verify(p->loops->funcs.at[j], p->diag);
    end(p, "loops");
}

// Up to lowering. True: there is more to do.
static bool run_to_program(pipeline *p, const source *s, goal g) {
    if (!run_import(p, s) || !run_passes(p)) return false;
    if (p->all_outputs) bind_all_outputs(p->module);
    if (g == GOAL_GRAPH) return false;
    run_lower(p);
    drop_variant_for_bytes(p);
    check_sizes(p);
    if (p->options->check_interface) check_interface(p, p->options->check_interface);
    return end(p, "lower") && g != GOAL_KERNELS;
}

void pipeline_run(pipeline *p, const source *s, goal g) {
    if (g >= GOAL_PROGRAM) set_targets(p);
    p->name = model_identifier(p->arena, p->diag, p->options, s->path);
    if (g == GOAL_LOOPS) p->model_digest = digest_new(p->arena);
    if (p->options->times) VEC_PUSH(p->arena, &p->files, p->options->times);
    parse_sizes(p);
    if (several_sizes(p) || options_for_both(p->options) || p->options->tune) s = readable_again(p, s);
    if (p->options->tune && p->hooks.progress) p->hooks.progress(p->hooks.user, "tune");
    tune_model(p, s, g);

    if (source_is_program(s)) {
        if (g == GOAL_GRAPH) diag_fatal(p->diag, NULL, "a program as text has no graph");
        if (!read_program(p, s) || g == GOAL_KERNELS) return;
    } else if (!run_to_program(p, s, g)) {
        return;
    }

    run_versions(p, s);
    if (p->stopped) return;
    if (!p->versions.n || g == GOAL_PROGRAM)
        if (!run_program_passes(p) || g == GOAL_PROGRAM) return;
    if (options_for_both(p->options)) run_for_gpu(p, s);
    if (!p->stopped) run_loops(p);
    tune_report(p);
}

pipeline *pipeline_new(arena *a, diag *d, const options *o, const pipeline_hooks *hooks) {
    pipeline *p = ARENA_NEW(a, pipeline);
    *p = (pipeline){.arena = a, .diag = d, .options = o};
    if (hooks) p->hooks = *hooks;
    return p;
}

string_list pipeline_program_passes(arena *a) {
    string_list names = {0};
    for (const program_pass *g = program_passes; g->name; g++) VEC_PUSH(a, &names, g->name);
    return names;
}

string_list pipeline_passes(arena *a) {
    string_list names = {0};
    VEC_PUSH(a, &names, "import");
    for (const pass *g = graph_passes; g->name; g++) VEC_PUSH(a, &names, g->name);
    VEC_PUSH(a, &names, "lower");
    string_list own = pipeline_program_passes(a);
    for (int i = 0; i < own.n; i++) VEC_PUSH(a, &names, own.at[i]);
    VEC_PUSH(a, &names, "place");
    VEC_PUSH(a, &names, "loops");
    return names;
}

emit_means pipeline_means(pipeline *p) {
    enum { THREADS_MOST = 256 };
    const options *o = p->options;
    return (emit_means){.threads = o->jobs < THREADS_MOST ? (int)o->jobs : THREADS_MOST,
                        .cache = o->cache ? cache_open(p->arena, p->diag, o->cache) : NULL};
}

static bool is_identifier(const char *s) {
    if (!isalpha((unsigned char)*s) && *s != '_') return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_') return false;
    return true;
}

// "my-model.v2.onnx" is my_model_v2, "3d.onnx" is m_3d.
static const char *identifier_of_file(arena *a, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    if (strcmp(path, "-") == 0) return "model";
    size_t n = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    bool prefix = n == 0 || isdigit((unsigned char)*base);
    char *s = arena_printf(a, "%s%.*s", prefix ? "m_" : "", (int)n, base);
    for (char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p)) *p = '_';
    return s;
}

const char *model_identifier(arena *a, diag *d, const options *o, const char *path) {
    if (!o->name) return identifier_of_file(a, path ? path : "-");
    if (!is_identifier(o->name)) diag_error(d, NULL, "--name '%s' is not a C identifier", o->name);
    return o->name;
}
