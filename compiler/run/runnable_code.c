// Compiled models. In: a module to load into this process, or a shared library. Out: a runnable that calls
// the generic interface.
#include "codegen/c/ctext.h"
#include "codegen/host/header.h"
#include "codegen/llvm/llvm.h"
#include "codegen/llvm/load.h"
#include "compiler/base/outfile.h"
#include "compiler/base/process.h"
#include "compiler/driver/probes.h"
#include "compiler/import/file.h"
#include "compiler/output/output.h"
#include "compiler/run/blas.h"
#include "compiler/run/custom.h"
#include "compiler/run/runnable_impl.h"
#include "ir/kernel/library.h"
#include "runtime-lite/core/runtime.h"
#include <elf.h>
#include <stdio.h>
#include <string.h>

enum { ATTEMPTS = 4 }; // data-dependent sizes of outputs become known one after the other

typedef struct code {
    onnxc_model model;
    onnxc_context *context; // NULL: it needs none
    const onnxc_descriptor *d;
} code;

// ---------------------------------------------------------------- the descriptor
static constant *labels_of(arena *a, const onnxc_descriptor *d, const onnxc_tensor_info *t) {
    int64_t n = t->nlabels;
    constant *c = constant_new(a, dtype_from_onnx(t->label_dtype), 1, &n);
    for (int64_t j = 0; j < n; j++) {
        const onnxc_label_info *label = &onnxc_labels(d, t)[j];
        if (c->elem == DT_STRING)
            c->strings[j] = onnxc_text(d, label->text), c->string_sizes[j] = label->bytes;
        else dtype_store_int(DT_I64, (uint8_t *)c->data, j, label->number);
    }
    return c;
}

static port port_of(arena *a, const onnxc_descriptor *d, const onnxc_tensor_info *t) {
    port p = {.name = onnxc_text(d, t->name),
              .kind = TYPE_TENSOR,
              .dtype = dtype_from_onnx(t->dtype),
              .rank = (int)t->rank,
              .has_default = t->has_default != 0};
    if (t->kind) {
        p.type = onnxc_text(d, t->type);
        p.boxed = true;
        p.kind = strncmp(p.type, "optional", 8) == 0   ? TYPE_OPTIONAL
                 : strncmp(p.type, "sequence", 8) == 0 ? TYPE_SEQUENCE
                 : strncmp(p.type, "map", 3) == 0      ? TYPE_MAP
                                                       : TYPE_TENSOR;
        const char *end = strchr(p.type, '['); // of a tensor without a rank, "float[...]"
        if (p.kind == TYPE_TENSOR && end) {
            p.dtype = dtype_from_name(arena_strndup(a, p.type, (size_t)(end - p.type)));
            p.rank = RANK_UNKNOWN;
        }
    }
    if (t->nlabels) p.kind = TYPE_SEQUENCE, p.type = onnxc_text(d, t->type), p.labels = labels_of(a, d, t);
    const onnxc_dim_info *dims = onnxc_dims(d, t);
    for (int j = 0; j < p.rank; j++) {
        p.dims[j] = dims[j].value;
        p.sizes[j] = dims[j].value >= 0 ? arena_printf(a, "%lld", (long long)dims[j].value)
                                        : onnxc_text(d, dims[j].text);
    }
    return p;
}

static runnable *from_model(arena *a, onnxc_model m,
                            bool (*run)(runnable *, arena *, const tensor *, tensor *, const char **)) {
    const onnxc_descriptor *d = m.descriptor;
    code *c = ARENA_NEW(a, code);
    *c = (code){.model = m, .d = d};
    runnable *r = ARENA_NEW(a, runnable);
    *r = (runnable){.name = onnxc_text(d, d->name),
                    .nin = (int)d->ninputs,
                    .nout = (int)d->noutputs,
                    .impl = c,
                    .run = run};
    r->in = ARENA_ARRAY(a, port, r->nin + 1);
    r->out = ARENA_ARRAY(a, port, r->nout + 1);
    for (int j = 0; j < r->nin; j++) r->in[j] = port_of(a, d, &onnxc_inputs(d)[j]);
    for (int j = 0; j < r->nout; j++) r->out[j] = port_of(a, d, &onnxc_outputs(d)[j]);
    return r;
}

onnxc_model runnable_model(const runnable *r) { return ((const code *)r->impl)->model; }

// ---------------------------------------------------------------- running
static bool inputs_fit(arena *a, const runnable *r, const tensor *in, const char **message) {
    for (int j = 0; j < r->nin; j++) {
        if (r->in[j].boxed || (in[j].dtype == r->in[j].dtype && in[j].rank == r->in[j].rank)) continue;
        *message = arena_printf(a, "input '%s' is %s, but a tensor of %s and rank %d is given", r->in[j].name,
                                port_text(a, &r->in[j]), dtype_name(in[j].dtype), in[j].rank);
        return false;
    }
    return true;
}

// Whether `bytes` fit into the memory left, *have, which is reduced.
static bool fits_memory(arena *a, int64_t *have, const char *what, const char *shape, int64_t bytes,
                        const char **message) {
    if (bytes >= 0 && bytes <= *have) return *have -= bytes, true;
    const char *takes = bytes < 0
                            ? "more bytes than 64 bits can count"
                            : arena_printf(a, "%lld bytes (%.1f GiB)", (long long)bytes, bytes * 0x1p-30);
    *message = arena_printf(a, "%s%s takes %s: more memory than the %.1f GiB available", what, shape, takes,
                            *have * 0x1p-30);
    return false;
}

static bool output_fits(arena *a, const runnable *r, int j, const int64_t *dims, int64_t *have,
                        const char **message) {
    text shape = {.arena = a};
    int64_t count = 1;
    bool empty = false, over = false;
    for (int i = 0; i < r->out[j].rank; i++) {
        text_printf(&shape, "%s%lld", i ? ", " : "", (long long)dims[i]);
        empty |= dims[i] == 0;
        over |= __builtin_mul_overflow(count, dims[i], &count);
    }
    int64_t bytes = empty ? 0 : over ? -1 : dtype_size(r->out[j].dtype, count);
    return fits_memory(a, have,
                       arena_printf(a, "output '%s' (%s", r->out[j].name, dtype_name(r->out[j].dtype)),
                       arena_printf(a, "[%s])", text_str(&shape)), bytes, message);
}

// Of a call through the generic interface.
typedef struct arguments {
    void **data; // inputs, outputs, context
    int64_t *dims, *capacity;
} arguments;

static arguments arguments_new(arena *a, const runnable *r, const tensor *in) {
    const code *c = r->impl;
    arguments x = {ARENA_ARRAY(a, void *, r->nin + r->nout + 3), ARENA_ARRAY(a, int64_t, c->d->ndims + 1),
                   ARENA_ARRAY(a, int64_t, r->nout + 1)};
    x.data[r->nin + r->nout] = c->context;
    for (int j = 0; j < r->nin; j++) {
        bool none = !in[j].count && !r->in[j].boxed && !r->in[j].has_default;
        x.data[j] = none ? NULL : in[j].data; // as callers may, so that tests find what reads it
        memcpy(x.dims + onnxc_inputs(c->d)[j].first_dim, in[j].dims, (size_t)in[j].rank * sizeof *x.dims);
    }
    return x;
}

// The memory of a state that grows, with the input's elements.
static void *state_memory(arena *a, const runnable *r, const arguments *x, int output, const tensor *in) {
    const code *c = r->impl;
    onnxc_rt_state s = onnxc_rt_state_of(c->d, (uint32_t)output, x->dims, dtype_bits(in->dtype) / 8);
    int64_t bytes = s.outer * s.inner * s.room, size = in->dims[s.axis];
    void *memory = tensor_new(a, DT_U8, 1, &bytes).data;
    if (size <= s.room) onnxc_rt_state_fill(&s, memory, in->data, size); // the run refuses others
    return memory;
}

// Makes tensors of states that grew.
static void take_states(arena *a, const runnable *r, const arguments *x, tensor *out) {
    const code *c = r->impl;
    for (int j = 0; j < r->nout; j++) {
        const onnxc_tensor_info *t = &onnxc_outputs(c->d)[j];
        if (!t->room) continue;
        onnxc_rt_state s = onnxc_rt_state_of(c->d, (uint32_t)j, x->dims, dtype_bits(out[j].dtype) / 8);
        out[j] = tensor_new(a, out[j].dtype, out[j].rank, out[j].dims);
        onnxc_rt_state_read(&s, out[j].data, x->data[t->state - 1], out[j].dims[s.axis]);
    }
}

// Allocates outputs for the dims known so far.
static bool make_outputs(arena *a, const runnable *r, const arguments *x, const tensor *in, tensor *out,
                         const char **message) {
    const code *c = r->impl;
    int64_t have = (int64_t)available_memory();
    for (int j = 0; j < r->nout; j++) {
        const onnxc_tensor_info *t = &onnxc_outputs(c->d)[j];
        for (int i = 0; i < r->out[j].rank; i++)
            out[j].dims[i] = r->out[j].dims[i] >= 0 ? r->out[j].dims[i]
                             : t->state             ? in[t->state - 1].dims[i]
                                                    : x->dims[t->first_dim + (uint32_t)i];
        if (!r->out[j].boxed && !output_fits(a, r, j, out[j].dims, &have, message)) return false;
        if (!r->out[j].boxed) out[j] = tensor_new(a, r->out[j].dtype, r->out[j].rank, out[j].dims);
        else out[j] = (tensor){.dtype = DT_U8, .count = 1, .data = ARENA_NEW(a, onnxc_value)};
        x->data[r->nin + j] = out[j].count ? out[j].data : NULL;
        if (t->state) // the memory of the input belongs to the caller: run on a copy
            x->data[t->state - 1] = t->room ? state_memory(a, r, x, j, &in[t->state - 1]) : out[j].data;
        if (t->state && !t->room)
            memcpy(out[j].data, in[t->state - 1].data, (size_t)dtype_size(out[j].dtype, out[j].count));
        x->capacity[j] = out[j].count;
    }
    return true;
}

static bool run_code(runnable *r, arena *a, const tensor *in, tensor *out, const char **message) {
    const code *c = r->impl;
    if (!inputs_fit(a, r, in, message)) return false;
    arguments x = arguments_new(a, r, in);
    int64_t bytes = c->model.workspace(x.dims), size = bytes > 0 ? bytes : 0,
            have = (int64_t)available_memory();
    if (!fits_memory(a, &have, "the workspace", "", size, message)) return false;
    void *workspace = tensor_new(a, DT_U8, 1, &size).data;
    runnable_own_outputs(r, a, out);
    int status = ONNXC_TOO_SMALL;
    for (int i = 0; i < ATTEMPTS && status == ONNXC_TOO_SMALL; i++) {
        if (!make_outputs(a, r, &x, in, out, message)) return false;
        *message = NULL;
        probes_start(r->probes);
        status = c->model.run(x.data, x.dims, x.capacity, workspace, (size_t)size, message);
    }
    for (int j = 0; j < r->nout; j++) {
        const int64_t *d = x.dims + onnxc_outputs(c->d)[j].first_dim;
        out[j].count = 1;
        for (int i = 0; i < out[j].rank; i++) out[j].count *= out[j].dims[i] = d[i];
    }
    if (status == ONNXC_OK) take_states(a, r, &x, out);
    if (status == ONNXC_OK) return true;
    if (!*message) *message = arena_printf(a, "the run failed with code %d", status);
    return false;
}

struct prepared_call {
    onnxc_model model;
    const runnable *r;
    tensor *out;
    arguments x;
    void *workspace;
    size_t size;
};

prepared_call *runnable_prepare(runnable *r, arena *a, const tensor *in, const char **message) {
    const code *c = r->impl;
    tensor *out = ARENA_ARRAY(a, tensor, r->nout + 1);
    if (!r->run(r, a, in, out, message)) return NULL;
    prepared_call *p = ARENA_NEW(a, prepared_call);
    *p = (prepared_call){.model = c->model, .r = r, .out = out, .x = arguments_new(a, r, in)};
    for (int j = 0; j < r->nout; j++) {
        const onnxc_tensor_info *t = &onnxc_outputs(c->d)[j];
        p->x.data[r->nin + j] = out[j].data;
        p->x.capacity[j] = out[j].count;
        if (t->state)
            p->x.data[t->state - 1] = t->room ? state_memory(a, r, &p->x, j, &in[t->state - 1]) : out[j].data;
    }
    int64_t bytes = c->model.workspace(p->x.dims);
    p->workspace = tensor_new(a, DT_U8, 1, &bytes).data;
    p->size = (size_t)bytes;
    return p;
}

int prepared_run(prepared_call *c) {
    return c->model.run(c->x.data, c->x.dims, c->x.capacity, c->workspace, c->size, NULL);
}

void prepared_release(prepared_call *c) { runnable_release_outputs(c->r, c->out); }

// ---------------------------------------------------------------- code in this process
static const load_name runtime_names[] = {
#define NAME(f) {#f, (const void *)f}
    NAME(onnxc_interface_2),
    NAME(onnxc_rt_alloc),
    NAME(onnxc_rt_free),
    NAME(onnxc_rt_message),
    NAME(onnxc_rt_tiles),
    NAME(onnxc_rt_avx_vnni),
    NAME(onnxc_rt_bf16_pairs),
    NAME(onnxc_rt_vector_bits),
    NAME(onnxc_rt_parallel),
    NAME(onnxc_rt_gpu_open),
    NAME(onnxc_rt_gpu_or_cpu_open),
    NAME(onnxc_rt_gpu_put),
    NAME(onnxc_rt_gpu_close),
    NAME(onnxc_rt_gpu_begin),
    NAME(onnxc_rt_gpu_end),
    NAME(onnxc_rt_gpu_caller),
    NAME(onnxc_rt_gpu_launch),
    NAME(onnxc_rt_gpu_copy),
    NAME(onnxc_rt_gpu_wait),
    NAME(onnxc_rt_gpu_status),
    NAME(onnxc_rt_gpu_alloc),
    NAME(onnxc_rt_gpu_free),
    NAME(onnxc_rt_gpu_message),
    {"onnxc_rt_tiles_at_start", (const void *)onnxc_rt_tiles}}; // this program has started

static void close_context(void *user) {
    const code *c = user;
    if (c->context) c->model.close(c->context);
}

// path: of the library, which may have its weights beside it; NULL: code in this process.
static void open_context(arena *a, diag *d, code *c, const char *path) {
    if (!c->model.open) return;
    const char *slash = path ? strrchr(path, '/') : NULL,
               *where = path ? arena_printf(a, "'%s': ", path) : "";
    char why[256] = "";
    onnxc_options o = {.size = sizeof o, .message = why, .message_size = sizeof why};
    int failed = c->model.open(&o, &c->context);
    if (failed == ONNXC_BAD_WEIGHTS && slash) {
        o.weights = arena_printf(a, "%.*s/%s", (int)(slash - path), path, onnxc_text(c->d, c->d->weights));
        failed = c->model.open(&o, &c->context);
    }
    if (failed) diag_fatal(d, NULL, "%s%s", where, *why ? why : onnxc_status_text(failed));
    if (c->context->device < 0) diag_warning(d, WARN_CPU_FALLBACK, NULL, "the CPU runs the model: %s", why);
    arena_on_destroy(a, close_context, c);
}

static bytes loadable_code(pipeline *p) {
    emit_means by = pipeline_means(p);
    return llvm_emit_loadable(p->loops, &by, p->arena, p->diag);
}

static blas needed_blas(pipeline *p) {
    blas b = blas_open(p->diag, p->options);
    if (!b.dgemm)
        diag_fatal(p->diag, NULL, "--blas=cblas: no library with cblas_sgemm and cblas_dgemm is installed");
    return b;
}

runnable *loaded_model(pipeline *p) {
    const char *name = p->build->io->name;
    enum { N = sizeof runtime_names / sizeof *runtime_names };
    string_list custom = custom_symbols(p->arena, p->program);
    load_name *names = ARENA_ARRAY(p->arena, load_name, N + library_count() + custom.n + 4);
    int n = N;
    memcpy(names, runtime_names, sizeof runtime_names);
    if (options_cblas(p->options)) {
        blas b = needed_blas(p);
        names[n++] = (load_name){"cblas_sgemm", *(const void **)&b.sgemm};
        names[n++] = (load_name){"cblas_dgemm", *(const void **)&b.dgemm};
    }
    for (int j = 0; j < library_count(); j++)
        names[n++] = (load_name){arena_printf(p->arena, "onnxc_lib_%s", library_name(j)),
                                 (const void *)library_find(library_name(j))};
    names[n++] = (load_name){"onnxc_lib_custom", (const void *)onnxc_lib_custom};
    for (int j = 0; j < custom.n; j++)
        names[n++] = (load_name){
            custom.at[j], (const void *)custom_find(p->arena, p->diag, p->options, custom.at[j], false)};
    if (p->hook) names[n++] = (load_name){p->options->hook, (const void *)p->hook};
    if (p->options->hook && !p->hook)
        diag_fatal(p->diag, NULL, "--hook: compiled code that onnxc runs itself cannot call '%s'",
                   p->options->hook);
    p->make_code = loadable_code;
    pipeline_output(p);
    loaded *l = load_emitted(p->arena, p->diag, p->loops, p->code, names, n);
    onnxc_model m = {.descriptor = loaded_symbol(l, arena_printf(p->arena, "%s_descriptor", name))};
    *(void **)&m.run = loaded_symbol(l, arena_printf(p->arena, "%s_run_generic", name));
    *(void **)&m.workspace = loaded_symbol(l, arena_printf(p->arena, "%s_workspace_generic", name));
    if (!m.descriptor || !m.run || !m.workspace)
        diag_defect(p->diag, NULL, "the loaded model lacks its generic interface");
    if (p->build->io->opens) {
        *(void **)&m.open = loaded_symbol(l, arena_printf(p->arena, "%s_open", name));
        *(void **)&m.close = loaded_symbol(l, arena_printf(p->arena, "%s_close", name));
    }
    runnable *r = from_model(p->arena, m, run_code);
    open_context(p->arena, p->diag, r->impl, NULL);
    return r;
}

// ---------------------------------------------------------------- shared libraries
bool runnable_is_library(const char *path) {
    char magic[SELFMAG] = {0};
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    bool elf = fread(magic, 1, SELFMAG, f) == SELFMAG && memcmp(magic, ELFMAG, SELFMAG) == 0;
    fclose(f);
    return elf;
}

static bool is_object(const mapped *m) {
    Elf64_Ehdr head; // up to the type, both classes are the same
    if (m->size < sizeof head) return false;
    memcpy(&head, m->data, sizeof head);
    return head.e_type == ET_REL;
}

// Whether the file has everything that the loader would map: the loader does not check, and a truncated file
// would crash the process.
static bool is_whole(const mapped *m) {
    Elf64_Ehdr head;
    if (m->size < sizeof head) return false;
    memcpy(&head, m->data, sizeof head);
    if (head.e_ident[EI_CLASS] != ELFCLASS64) return true; // the loader refuses what is not the machine's own
    uint64_t bytes = (uint64_t)head.e_phnum * sizeof(Elf64_Phdr);
    if (head.e_phoff > m->size || bytes > m->size - head.e_phoff) return false;
    for (int i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;
        memcpy(&part, m->data + head.e_phoff + (size_t)i * sizeof part, sizeof part);
        if (part.p_offset > m->size || part.p_filesz > m->size - part.p_offset) return false;
    }
    return true;
}

static void close_library(void *library) { onnxc_library_close(library); }

runnable *runnable_open(arena *a, diag *d, const char *path) {
    const char *message = NULL;
    mapped file = file_map(a, d, path, INT64_MAX);
    if (is_object(&file)) {
        diag_hint(d, "compile the model to a shared library (-o NAME.so), or run the model itself");
        diag_fatal(d, NULL, "'%s' is an object file, which has to be linked first", path);
    }
    if (!is_whole(&file))
        diag_fatal(d, NULL, "the library '%s' is truncated: it has %zu bytes", path, file.size);
    onnxc_library *library =
        onnxc_library_open(strchr(path, '/') ? path : arena_printf(a, "./%s", path), NULL, &message);
    if (!library) diag_fatal(d, NULL, "%s", message ? message : "cannot open the library");
    arena_on_destroy(a, close_library, library);
    runnable *r = from_model(a, onnxc_library_model(library), run_code);
    open_context(a, d, r->impl, path);
    return r;
}

// ---------------------------------------------------------------- C text
static void write_file(pipeline *p, const char *path, void (*write)(pipeline *p, const sink *to)) {
    outfile *o = outfile_open(p->arena, p->diag, path, false);
    sink to = outfile_sink(o);
    write(p, &to);
    outfile_commit(o);
}
static void write_text(pipeline *p, const sink *to) { ctext_write(p->loops, "model.h", to, p->diag); }
runnable *text_model(pipeline *p) {
    arena *a = p->arena;
    if (options_cblas(p->options)) needed_blas(p);
    string_list custom = custom_symbols(a, p->program);
    for (int j = 0; j < custom.n; j++) custom_find(p->arena, p->diag, p->options, custom.at[j], true);
    const char *folder = temporary_folder(a, p->diag), *c = arena_printf(a, "%s/model.c", folder),
               *so = arena_printf(a, "%s/model.so", folder);
    write_file(p, c, write_text);
    write_file(p, arena_printf(a, "%s/model.h", folder), output_header);
    string_list args = split_words(a, "cc -std=c99 -O1 -fPIC -shared -w -o", ' ');
    VEC_PUSH(a, &args, so);
    VEC_PUSH(a, &args, c);
    if (output_runtime(p)) VEC_PUSH(a, &args, output_runtime(p));
    int code = process_run(a, p->diag, &args);
    if (code < 0) diag_fatal(p->diag, NULL, "the C compiler 'cc' cannot be started");
    if (code) diag_defect(p->diag, NULL, "the C compiler rejected the C text (exit code %d)", code);
    return runnable_open(a, p->diag, so);
}
