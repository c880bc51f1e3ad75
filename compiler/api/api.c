// The C interface of libonnxc; every compilation has its own arena and diagnostics.
#include "compiler/api/onnxc_compiler.h"
#include "compiler/output/output.h"
#include "compiler/run/runnable.h"
#include "compiler/tune/tune.h"
#include <dlfcn.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

typedef struct compilation {
    arena *arena;
    diag diag;
    onnxc_job job;
    options options;
    source source;
    pipeline *pipeline;
    bool native;
    bool out_of_memory; // the job's limit was reached
    onnxc_result result;
} compilation;

struct onnxc_loaded {
    arena *arena;
    onnxc_model model;
};

// ---------------------------------------------------------------- callbacks
static onnxc_severity severity_of(diag_severity s) {
    switch (s) {
    case SEV_REMARK: return ONNXC_REMARK;
    case SEV_WARNING: return ONNXC_WARNING;
    case SEV_ERROR: return ONNXC_ERROR;
    }
    return ONNXC_ERROR;
}

static onnxc_result result_of(diag_class c) {
    switch (c) {
    case DIAG_OK: return ONNXC_COMPILED;
    case DIAG_USER:
    case DIAG_DIFFERS: return ONNXC_WRONG_MODEL;
    case DIAG_MISSING: return ONNXC_NOT_SUPPORTED;
    case DIAG_DEFECT: return ONNXC_COMPILER_DEFECT;
    }
    return ONNXC_COMPILER_DEFECT;
}

static onnxc_result result_of_job(const compilation *c, diag_class class) {
    bool stopped = c->out_of_memory || (c->pipeline && c->pipeline->was_cancelled);
    return class != DIAG_OK && stopped ? ONNXC_STOPPED : result_of(class);
}

static void pass_message(void *user, const diag_message *m) {
    const compilation *c = user;
    if (!c->job.message) return;
    const loc *at = m->loc;
    onnxc_message out = {.severity = severity_of(m->severity),
                         .result = result_of_job(c, m->class),
                         .full = m->full,
                         .text = m->text,
                         .hint = m->hint,
                         .file = at && at->file ? at->file : c->diag.file,
                         .node = at ? at->node : NULL,
                         .op = at ? at->op : NULL,
                         .version = at ? at->version : 0};
    c->job.message(c->job.user, &out);
}

static void pass_print(void *user, const char *pass, const char *text) {
    const compilation *c = user;
    if (c->job.print) c->job.print(c->job.user, pass, text);
}

static bool ask_cancelled(void *user) {
    const compilation *c = user;
    return c->job.cancelled && c->job.cancelled(c->job.user);
}

static void out_of_memory(void *user) {
    compilation *c = user;
    c->out_of_memory = true;
    arena_set_limit(c->arena, 0, NULL, NULL); // for the message
    diag_fatal(&c->diag, NULL, "the compilation needs more memory than its limit of %zu bytes",
               c->job.memory_limit);
}

// ---------------------------------------------------------------- a job
// Installed files are found relative to the library.
static const char *library_folder(arena *a) {
    Dl_info found = {0};
    if (!dladdr(&onnxc_compiler_version, &found) || !found.dli_fname) return NULL;
    char *path = realpath(found.dli_fname, NULL), *slash = path ? strrchr(path, '/') : NULL;
    const char *folder = slash ? arena_strndup(a, path, (size_t)(slash - path)) : NULL;
    free(path);
    return folder;
}

// Errors of options name no file: the model is not their place.
static void read_options(compilation *c) {
    const char *file = c->diag.file;
    c->diag.file = NULL;
    option_set sets[] = {{compile_options, &c->options}};
    string_list args = option_expand(c->arena, &c->diag, c->job.noptions, c->job.options), rest = {0};
    option_parse(c->arena, &c->diag, sets, 1, &args, &rest, &c->options.unused);
    if (rest.n) diag_error(&c->diag, NULL, "'%s' is not an option", rest.at[0]);
    if (!c->job.model && !c->job.data) diag_error(&c->diag, NULL, "no model given");
    c->options.program_folder = library_folder(c->arena);
    options_apply(&c->options, &c->diag);
    options_check(c->arena, &c->diag, &c->options);
    if (c->native) options_use_native(&c->options);
    diag_check(&c->diag);
    c->diag.file = file;
}

static void begin(compilation *c) {
    const char *name = c->job.model ? c->job.model : "model";
    c->diag.file = name;
    c->source = c->job.data ? (source){name, c->job.data, c->job.data_size, c->job.data_folder}
                            : source_at(c->arena, &c->diag, name);
    read_options(c);
    pipeline_hooks hooks = {
        .user = c, .print = pass_print, .time = pass_print, .cancelled = ask_cancelled, .tune = tune_kernels};
    c->pipeline = pipeline_new(c->arena, &c->diag, &c->options, &hooks);
}

// Runs body in a new compilation; errors are part of the result. Numbers have decimal points in any locale of the
// program.
static onnxc_result run_job(const onnxc_job *job, bool native, void (*body)(compilation *, void *), void *arg,
                            arena *a) {
    compilation *c = ARENA_NEW(a, compilation);
    *c = (compilation){.arena = a, .options = options_default(), .native = native};
    memcpy(&c->job, job, job->size < sizeof c->job ? job->size : sizeof c->job);
    c->diag = (diag){.arena = a, .sink = pass_message, .user = c};
    arena_set_limit(a, c->job.memory_limit, out_of_memory, c);
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);
    jmp_buf jump;
    if (DIAG_TRY(&c->diag, jump)) {
        begin(c);
        body(c, arg);
    } else {
        c->result = result_of_job(c, c->diag.class);
    }
    arena_set_limit(a, 0, NULL, NULL);
    uselocale(before);
    if (plain) freelocale(plain);
    return c->result;
}

static void write_files(compilation *c, void *arg) {
    (void)arg;
    output_compile(c->pipeline, &c->source, NULL);
}

onnxc_result onnxc_compile(const onnxc_job *job) {
    arena *a = arena_new();
    onnxc_result r = run_job(job, false, write_files, NULL, a);
    arena_destroy(a);
    return r;
}

static void write_memory(compilation *c, void *arg) { output_compile(c->pipeline, &c->source, arg); }

onnxc_result onnxc_compile_to_memory(const onnxc_job *job, void **output, size_t *output_size) {
    arena *a = arena_new();
    bytes b = {0};
    *output = NULL;
    *output_size = 0;
    onnxc_result r = run_job(job, false, write_memory, &b, a);
    if (r == ONNXC_COMPILED && b.at) *output = malloc(b.n + 1);
    if (*output) memcpy(*output, b.at, b.n), *output_size = b.n;
    if (r == ONNXC_COMPILED && b.at && !*output) r = ONNXC_STOPPED;
    arena_destroy(a);
    return r;
}

void onnxc_free(void *output) { free(output); }

static void load(compilation *c, void *arg) {
    onnxc_loaded *l = arg;
    l->model = runnable_model(runnable_new(c->pipeline, &c->source, NULL));
}

onnxc_result onnxc_load(const onnxc_job *job, onnxc_loaded **loaded) {
    arena *a = arena_new();
    onnxc_loaded *l = ARENA_NEW(a, onnxc_loaded);
    l->arena = a;
    onnxc_result r = run_job(job, true, load, l, a);
    *loaded = r == ONNXC_COMPILED ? l : NULL;
    if (r != ONNXC_COMPILED) arena_destroy(a);
    return r;
}

onnxc_model onnxc_loaded_model(const onnxc_loaded *loaded) { return loaded->model; }

void onnxc_unload(onnxc_loaded *loaded) {
    if (loaded) arena_destroy(loaded->arena);
}

const char *onnxc_compiler_version(void) { return ONNXC_VERSION; }
