// Steps of the driver in the table of passes: import and lowering with the options applied, the build of the
// module, machine code.
#include "codegen/gpu/gpu.h"
#include "codegen/host/host.h"
#include "codegen/host/host_checksum.h"
#include "codegen/llvm/digest.h"
#include "compiler/base/fs.h"
#include "compiler/base/outfile.h"
#include "compiler/driver/bind.h"
#include "compiler/driver/budget.h"
#include "compiler/driver/check_interface.h"
#include "compiler/driver/custom.h"
#include "compiler/driver/gpu_images.h"
#include "compiler/driver/pipeline_impl.h"
#include "compiler/driver/probes.h"
#include "compiler/import/file.h"
#include "ir/kernel/lower.h"
#include "ir/kernel/program.h"
#include "ir/loops/legalize.h"
#include "ir/loops/numbers.h"
#include "ir/loops/roll.h"
#include <string.h>

// ---------------------------------------------------------------- import
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

static void see_node(void *user, const model_node *n) {
    const pipeline *p = user;
    probes_import_node(p->probes, n);
}

source source_at(arena *a, diag *d, const char *path) {
    if (strcmp(path, "-") != 0) return (source){.path = path};
    mapped m = file_read_stdin(a, d);
    return (source){.path = path, .data = m.data, .size = m.size};
}

enum { TEXT_MOST = 1 << 30 };
static const char *source_text(pipeline *p, const source *s) {
    mapped m = {.data = s->data, .size = s->size};
    if (!s->data) {
        m = file_map(p->arena, p->diag, s->path, TEXT_MOST);
        outfile_protect(p->diag, s->path);
    }
    if (memchr(m.data, 0, m.size)) diag_fatal(p->diag, NULL, "the text has a NUL");
    return arena_strndup(p->arena, (const char *)m.data, m.size);
}

// A graph as --emit=ir writes it.
static module *read_graph(pipeline *p, const source *s) {
    VEC_PUSH(p->arena, &p->files, s->path);
    return graph_parse(p->arena, p->diag, s->path, source_text(p, s));
}

static module *import_source(pipeline *p, const source *s) {
    if (ends_with(s->path, ".ir")) return read_graph(p, s);
    import_options o = {.external_data_dir = p->options->external_data_dir,
                        .files = &p->files,
                        .custom = custom_ops(p->arena, p->diag, p->options),
                        .input = use_of_default,
                        .node = p->probes ? see_node : NULL,
                        .user = p};
    if (s->data) return import_onnx_memory(p->arena, p->diag, s->path, s->folder, s->data, s->size, &o);
    return import_onnx_file(p->arena, p->diag, s->path, &o);
}

// Digest of the imported model, independent of its file format.
static void digest_model(pipeline *p) {
    if (!p->model_digest) return;
    const char *outline = graph_outline(p->arena, p->module, add_to_digest, p->model_digest);
    digest_add(p->model_digest, outline, strlen(outline));
}

void step_import(pipeline *p) {
    if (p->probes) probes_begin(p->probes);
    p->module = import_source(p, p->source);
    const char *block = p->options->nchwc_block;
    p->module->nchwc_block = !block ? 0 : strcmp(block, "8") == 0 ? 8 : 16;
    check_overrides(p, p->module);
    digest_model(p);
    if (p->probes) probes_add(p->probes, p->module);
    if (p->hooks.edit) p->hooks.edit(p->hooks.user, p->module);
    bind_io(p->arena, p->diag, p->module, p->options);
    bind_options(p->arena, p->diag, p->module, p->options, p->lists, p->choice);
    bind_constants(p->arena, p->diag, p->module, p->options);
    bind_streams(p->arena, p->diag, p->module, p->options);
    if (has_interface_of_another(p)) {
        p->module->required = p->of->module->required;
        replace_required_sizes(p->module);
    }
    p->module->own_operators = p->goal != GOAL_GRAPH;
    p->module->rings = p->module->own_operators && !options_small(p->options);
}

// ---------------------------------------------------------------- programs as text
bool source_is_program(const source *s) { return ends_with(s->path, ".kernels"); }

void check_program_options(pipeline *p) {
    const options *o = p->options;
    bool for_models = o->dims.n || o->shapes.n || o->io_dtype.n || o->io_layout.n || o->last.n ||
                      o->state.n || o->fixed.n || o->override.n;
    if (for_models || options_for_both(o) || o->tune)
        diag_fatal(p->diag, NULL,
                   "a program as text takes no options of the model, no --tune, and at most one --device");
}

static void read_program(pipeline *p) {
    const source *s = p->source;
    const char *text = source_text(p, s);
    p->program = program_parse(p->arena, p->diag, s->path, text);
    p->module = p->program->module;
    if (p->model_digest) digest_add(p->model_digest, text, strlen(text));
}

// ---------------------------------------------------------------- lowering
static int widest_vectors(const pipeline *p) {
    int bits = 0;
    for (int i = 0; i < p->variants.n && !p->gpu_target; i++)
        if (p->variants.at[i]->vector_bits > bits) bits = p->variants.at[i]->vector_bits;
    return bits;
}

void step_lower(pipeline *p) {
    if (source_is_program(p->source)) {
        read_program(p);
        return;
    }
    p->module->vector_bits = widest_vectors(p);
    p->module->on_cpu = !p->gpu_target;
    bind_growing_branches(p->module, p->options);
    p->program = lower_module(p->module);
    bind_states(p->program, p->diag, p->options);
    if (p->of) return;
    drop_variants_for_units(p);
    add_size_checks(p);
    if (p->options->check_interface) check_interface(p, p->options->check_interface);
}

// ---------------------------------------------------------------- the build
// Hash of the options and the resulting targets.
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
    const char *tuned = tuned_choices_text(p);
    digest_add(d, tuned, strlen(tuned));
    return digest_text(d);
}

// The name under which the program looks for the file by default.
static const char *weights_name(const options *o) {
    const char *path = options_weights(o), *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

static const char *const_section(pipeline *p) {
    const char *s = p->options->const_section;
    const target *t = p->target;
    if (s && !t->arch.is_text && t->format != OBJECT_ELF)
        diag_fatal_missing(p->diag, NULL, "--const-section for %s is not supported by this build", t->triple);
    return s;
}

static const memory_pools *pools(pipeline *p) {
    memory_pools *all = ARENA_NEW(p->arena, memory_pools);
    const target *t = p->target;
    *all = options_pools(p->arena, p->options);
    for (int j = 0; j < all->n; j++)
        if (all->at[j].section && !t->arch.is_text && t->format != OBJECT_ELF)
            diag_fatal_missing(p->diag, NULL, "--pool with a section for %s is not supported by this build",
                               t->triple);
    return all;
}

// Schedules the kernels of the program, or of all its versions into one module.
static void schedule_for_gpu(pipeline *p) {
    const target *t = p->gpu_target ? p->gpu_target : p->target;
    bool with_host = !options_kernels_alone(p->options);
    for (int j = p->versions.n - 1; j >= 0; j--) {
        version *v = &p->versions.at[j];
        v->gpu = p->gpu = gpu_schedule_version(p->gpu, v->program, p->name, v->suffix, t, with_host, p->diag);
    }
    if (!p->versions.n) p->gpu = gpu_schedule(p->program, p->name, t, with_host, p->diag);
    p->loops = p->gpu->module;
}

static void schedule_for_host(pipeline *p) {
    build_options *b = ARENA_NEW(p->arena, build_options);
    *b = (build_options){.name = p->name,
                         .hook = p->options->hook,
                         .capacities = p->options->capacities,
                         .waits = p->hook != NULL,
                         .real_time = p->options->real_time,
                         .runtime = p->runs_here,
                         .version = ONNXC_VERSION,
                         .model_hash = digest_text(p->model_digest),
                         .options_hash = options_hash(p),
                         .weights = weights_name(p->options),
                         .const_section = const_section(p),
                         .pools = pools(p),
                         .check_weights = p->options->check_weights,
                         .gpu = p->gpu,
                         .gpu_program = p->gpu_program,
                         .versions = p->versions.at,
                         .nversions = p->versions.n};
    b->rules = size_rules(p, &b->nrules);
    p->host_builder = host_begin(p->program, p->variants.at, p->variants.n, b, p->diag);
    p->loops = host_schedule(p->host_builder);
    p->loops->debug_info = p->options->debug_info;
}

void step_schedule(pipeline *p) {
    bool gpu = options_for_gpu(p->options);
    if (gpu) schedule_for_gpu(p);
    if (!gpu || p->gpu_target) schedule_for_host(p);
}
void step_memory(pipeline *p) { host_plan(p->host_builder); }
void step_host(pipeline *p) {
    p->build = host_write(p->host_builder);
    check_workspace(p);
    check_pools(p);
    check_real_time(p);
}
void step_legalise(pipeline *p) { legalize(p->loops, p->diag); }
void step_numbers(pipeline *p) {
    if (!p->target->arch.is_text) share_numbers(p->loops, p->diag);
}
void step_roll(pipeline *p) {
    if (!p->target->arch.is_text) roll_repeats(p->loops, p->diag);
}
void step_checksum(pipeline *p) {
    if (p->options->check_weights && p->build) write_checksum(p->build, p->diag);
}
void step_images(pipeline *p) {
    if (p->gpu_want == GPU_USES) note_gpu_uses(p);
    if (p->gpu_want == GPU_IMAGES && p->build) add_gpu_images(p);
}

// ---------------------------------------------------------------- code and files
void step_codegen(pipeline *p) { p->code = p->make_code(p); }
void step_write(pipeline *p) { p->write_files(p); }
