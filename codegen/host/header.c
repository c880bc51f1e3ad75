// The C header of a model. In: names and members of its interface. Out: text that C99 and C++ compilers take
// without a word, with the model's own names, shapes and documentation in comments.
#include "codegen/host/header.h"
#include "codegen/c/library.h"
#include "codegen/host/real_time.h"
#include "ir/kernel/kernel_cost.h"
#include "passes/memory/memory_peak.h"
#include <string.h>

enum { LABELS_IN_LINE = 8 };

typedef struct header {
    arena *arena;
    const build *b;
    const interface *io;
    text t;
} header;

// s within a // comment: one line, nothing that continues it or is a trigraph.
static const char *comment_text(arena *a, const char *s) {
    char *c = blank_text(a, s ? s : "", ' ');
    for (char *p = c; *p; p++)
        if (*p == '\\' || (*p == '?' && p[1] == '?')) *p = *p == '\\' ? '/' : ' ';
    return c;
}

// The type of a tensor; a member of the struct stands for a size whose text is long.
static const char *shape_text(header *h, const io_tensor *tensor) {
    const buffer *b = tensor->buffer;
    if (b->holds) return comment_text(h->arena, type_text(h->arena, b->holds));
    text t = {.arena = h->arena};
    text_printf(&t, "%s[", dtype_name(b->dtype));
    for (int j = 0; j < b->rank; j++) {
        const char *size = dim_text(h->arena, b->dims[j]);
        if (tensor->dims[j] && strlen(size) > DIM_SHORT) size = tensor->dims[j];
        text_printf(&t, "%s%s", j ? ", " : "", size);
    }
    text_add(&t, "]");
    return comment_text(h->arena, text_str(&t));
}

static void add_doc(header *h, const char *doc) {
    while (doc && *doc) {
        size_t n = strcspn(doc, "\n");
        text_printf(&h->t, "// %s\n", comment_text(h->arena, arena_strndup(h->arena, doc, n)));
        doc += n + (doc[n] == '\n');
    }
}

static void head(header *h, const program *p) {
    const interface *io = h->io;
    text_printf(&h->t, "// %s.h: made by onnxc from the model '%s'. onnxc.h has the rules for all models.\n",
                io->name, comment_text(h->arena, p->module->name));
    add_doc(h, p->module->doc);
    text_printf(&h->t, "#ifndef ONNXC_MODEL_%s_H\n#define ONNXC_MODEL_%s_H\n", io->macro, io->macro);
    text_add(&h->t,
             "#include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    text_add(&h->t,
             "#ifndef ONNXC_STATUS\n#define ONNXC_STATUS\n"
             "typedef enum onnxc_status {\n"
             "    ONNXC_OK = 0,\n"
             "    ONNXC_NULL_POINTER = 1,    // a struct, tensor or workspace is a null pointer\n"
             "    ONNXC_BAD_DIM = 2,         // a dimension is not one that the model accepts\n"
             "    ONNXC_WORKSPACE_SIZE = 3,  // the workspace is too small\n"
             "    ONNXC_WORKSPACE_ALIGN = 4, // the workspace is not aligned\n"
             "    ONNXC_TOO_SMALL = 5,       // an output is too small; its dims are the sizes needed\n"
             "    ONNXC_TOO_LARGE = 6,       // the sizes exceed any memory\n"
             "    ONNXC_NO_MEMORY = 7,       // allocation failed\n"
             "    ONNXC_CHECK_FAILED = 8,    // the data violate a rule of the model\n"
             "    ONNXC_CANCELLED = 9,       // the hook returned non-zero\n"
             "    ONNXC_BAD_CPU = 10,        // this CPU lacks instructions that the model needs\n"
             "    ONNXC_BAD_WEIGHTS = 11,    // the weights file is missing or belongs to another model\n"
             "    ONNXC_NO_GPU = 12,         // no driver, no such GPU, or no code for it\n"
             "    ONNXC_GPU_FAILED = 13      // the GPU driver reported an error\n"
             "} onnxc_status;\n#endif\n\n");
    if (!io->context) return;
    text_add(&h->t,
             "#ifndef ONNXC_CONTEXT\n#define ONNXC_CONTEXT\n"
             "typedef struct onnxc_context {\n"
             "    const void *weights; // contents of the weights file, 64-byte aligned\n"
             "    size_t weights_size;\n"
             "    int mapped;\n"
             "    int device;            // GPU number; -1: the model runs on the CPU\n"
             "    struct onnxc_gpu *gpu; // NULL: none\n"
             "} onnxc_context;\n"
             "typedef struct onnxc_options {\n"
             "    size_t size;         // sizeof(onnxc_options)\n"
             "    const char *weights; // path of the weights file; NULL: the one given with --weights\n"
             "    const void *data;    // or its contents, 64-byte aligned\n"
             "    size_t data_size;\n"
             "    int device;          // GPU number; -1: the CPU\n"
             "    int device_pointers; // non-zero: inputs and outputs are in GPU memory\n"
             "    void *stream;        // a CUstream; NULL: the context creates one\n"
             "    char *message;       // NULL, or a buffer for the reason why no GPU is used\n"
             "    size_t message_size;\n"
             "    int no_graphs;       // non-zero: kernels are launched one by one\n"
             "} onnxc_options;\n#endif\n\n");
}

static void quant_macros(header *h, const io_tensor *t) {
    if (!t->quant) return;
    text_printf(&h->t, "// Real value = (%s - zero point) * scale.\n", t->name);
    char scale[REAL_SIZE];
    real_text(scale, (double)t->quant->scale, true);
    text_printf(&h->t, "#define %s_%s_SCALE %s%sf\n", h->io->macro, t->macro, scale,
                strpbrk(scale, ".e") ? "" : ".0");
    text_printf(&h->t, "#define %s_%s_ZERO_POINT %d\n", h->io->macro, t->macro, t->quant->zero_point);
}

// A C string literal; trigraphs and bytes beyond ASCII are spelled out.
static void add_literal(text *t, const char *s, size_t n) {
    text_add(t, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') text_printf(t, "\\%c", c);
        else if (c < 32 || c > 126 || c == '?') text_printf(t, "\\%03o", c);
        else text_printf(t, "%c", c);
    }
    text_add(t, "\"");
}

static void label_macros(header *h, const io_tensor *t) {
    const constant *c = t->labels;
    const char *macro = h->io->macro;
    if (!c) return;
    bool strings = c->elem == DT_STRING;
    text_printf(&h->t, "// Labels of the %s of '%s': const %s labels[] = %s_%s_LABELS;\n",
                t->buffer->labels ? "columns" : "indices", comment_text(h->arena, t->original),
                strings ? "char *const" : "int64_t", macro, t->macro);
    text_printf(&h->t, "#define %s_%s_NLABELS %lld\n", macro, t->macro, (long long)c->count);
    text_printf(&h->t, "#define %s_%s_LABELS {", macro, t->macro);
    for (int64_t j = 0; j < c->count; j++) {
        text_add(&h->t, j == 0 ? "" : j % LABELS_IN_LINE ? ", " : ", \\\n    ");
        if (strings) add_literal(&h->t, c->strings[j], c->string_sizes[j]);
        else if (constant_int(c, j) == INT64_MIN) text_add(&h->t, "-9223372036854775807 - 1");
        else text_printf(&h->t, "%lld", (long long)constant_int(c, j));
    }
    text_add(&h->t, "}\n");
    for (int64_t j = 0; strings && j < c->count; j++)
        text_printf(&h->t, "#define %s_%s %lld\n", macro, t->label_macros[j], (long long)j);
}

static void tensor_macros(header *h, const io_tensor *t) {
    const buffer *b = t->buffer;
    if (b->holds) return;
    dim *count = buffer_count(b);
    for (int j = 0; j < b->rank; j++)
        if (dim_is_const(b->dims[j]))
            text_printf(&h->t, "#define %s_%s_DIM%d %lld\n", h->io->macro, t->macro, j,
                        (long long)dim_value(b->dims[j]));
    quant_macros(h, t);
    if (dim_is_const(count))
        text_printf(&h->t, "#define %s_%s_COUNT %lld\n", h->io->macro, t->macro, (long long)dim_value(count));
    label_macros(h, t);
}

static void dim_members(header *h, const io_tensor *t, bool output) {
    for (int j = 0; j < t->buffer->rank; j++) {
        if (!t->dims[j]) continue;
        text_printf(&h->t, "    int64_t %s; // %s%s\n", t->dims[j], output ? "set by the run: " : "",
                    comment_text(h->arena, dim_brief(h->arena, t->buffer->dims[j])));
    }
    if (t->capacity)
        text_printf(&h->t, "    int64_t %s; // capacity of %s, in elements\n", t->capacity, t->name);
}

static void pointer_member(header *h, const io_tensor *t, bool output) {
    const value *v = t->buffer->value;
    text_printf(&h->t, "    %s%s *%s; // '%s': %s%s", output || t->state ? "" : "const ",
                interface_ctype(t->buffer), t->name, comment_text(h->arena, t->original), shape_text(h, t),
                dtype_bits(t->buffer->dtype) < 8 ? ", packed, low bits first" : "");
    if (!output && t->state)
        text_printf(&h->t, ". State: the run replaces it by '%s'",
                    comment_text(h->arena, h->io->out[t->state - 1].original));
    if (!output && t->growth)
        text_printf(&h->t, ", with room for %lld along axis %d", (long long)t->room, t->growth_axis);
    if (t->buffer->labels) text_printf(&h->t, ". One row per map, see %s_%s_LABELS", h->io->macro, t->macro);
    else if (t->labels) text_printf(&h->t, ". Indices into %s_%s_LABELS; -1: none", h->io->macro, t->macro);
    if (t->buffer->fallback) text_add(&h->t, ". NULL: the model's default value");
    text_printf(&h->t, "%s%s\n", v && v->doc && *v->doc ? ". " : "", comment_text(h->arena, v ? v->doc : ""));
}

static void pool_sizes(header *h) {
    for (int j = 0; j < h->io->pools.n; j++) {
        const io_pool *x = &h->io->pools.at[j];
        if (!x->pool->section) text_printf(&h->t, "    int64_t %s; // size of %s\n", x->size, x->name);
    }
}

static int pool_members(header *h) {
    for (int j = 0; j < h->io->pools.n; j++) {
        const io_pool *x = &h->io->pools.at[j];
        if (!x->pool->section)
            text_printf(&h->t, "    void *%s; // memory: %s_BYTES bytes, aligned to %s_WORKSPACE_ALIGN\n",
                        x->name, x->macro, h->io->macro);
    }
    return h->io->callers;
}

static void struct_type(header *h, const io_tensor *all, int n, bool output) {
    const char *kind = output ? "out" : "in";
    bool message = output && h->io->messages;
    int members = 0;
    text_printf(&h->t, "typedef struct %s_%s {\n", h->io->name, kind);
    for (int j = 0; j < n; j++)
        if (!output || !all[j].state) dim_members(h, &all[j], output);
    if (!output) pool_sizes(h);
    for (int j = 0; j < n; j++) {
        if (output && all[j].state) continue;
        pointer_member(h, &all[j], output);
        members++;
    }
    for (int j = 0; j < h->io->growths.n && !output; j++, members++) {
        const io_growth *g = &h->io->growths.at[j];
        text_printf(&h->t,
                    "    int64_t *%s; // size of the states along axis %d, 0 to %lld: the run adds to it\n",
                    g->name, g->axis, (long long)h->io->out[g->output].room);
    }
    if (!output) members += pool_members(h);
    if (!output && h->io->hook_user) {
        text_printf(&h->t, "    void *%s; // passed to the hook\n", h->io->hook_user);
        members++;
    }
    if (message)
        text_printf(&h->t, "    const char *%s; // set if the run fails: the reason\n", h->io->message);
    if (!members && !message) text_add(&h->t, "    char unused; // a struct needs a member\n");
    text_printf(&h->t, "} %s_%s;\n\n", h->io->name, kind);
}

// One struct for all states of a stream, and the function that gives it to the run.
static void state_struct(header *h, const program *p) {
    const interface *io = h->io;
    if (!p->module->states.n || !p->state) return;
    for (int j = 0; j < io->nin; j++)
        if (io->in[j].state && !dim_is_const(buffer_count(io->in[j].buffer))) return;
    text_printf(&h->t,
                "// The past of a stream: zeros before its first samples.\ntypedef struct %s_state {\n",
                io->name);
    for (int j = 0; j < io->nin; j++) {
        const io_tensor *t = &io->in[j];
        if (!t->state) continue;
        int64_t count = dtype_bits(t->buffer->dtype) < 8 ? dim_value(buffer_bytes(t->buffer))
                                                         : dim_value(buffer_count(t->buffer));
        text_printf(&h->t, "    %s %s[%lld];\n", interface_ctype(t->buffer), t->name,
                    (long long)(count ? count : 1));
    }
    text_printf(&h->t, "} %s_state;\nstatic inline void %s_use_state(%s_in *in, %s_state *state) {\n",
                io->name, io->name, io->name, io->name);
    for (int j = 0; j < io->nin; j++)
        if (io->in[j].state) text_printf(&h->t, "    in->%s = state->%s;\n", io->in[j].name, io->in[j].name);
    text_add(&h->t, "}\n\n");
}

static bool has_rule(const header *h, const char *name) {
    size_t n = strlen(name);
    for (int j = 0; j < h->b->nrules; j++)
        if (strncmp(h->b->rules[j].message, name, n) == 0 && h->b->rules[j].message[n] == ' ') return true;
    return false;
}

// Sizes that --dim bounds, or for which there are versions.
static void size_comments(header *h) {
    for (int j = 0; j < h->b->nrules; j++)
        text_printf(&h->t, "// %s: the code has a version for each.\n",
                    comment_text(h->arena, h->b->rules[j].message));
    for (int j = 0; j < h->io->symbols.n; j++) {
        const dim *d = h->io->symbols.at[j];
        const char *name = dim_text(h->arena, d);
        if (d->max >= INT64_MAX / 2 || has_rule(h, name)) continue;
        text_printf(&h->t, "// %s must be from %lld to %lld.\n", comment_text(h->arena, name),
                    (long long)d->min, (long long)d->max);
    }
}

// On microcontrollers, where memory is short.
static void workspace_use(header *h, const program *p) {
    if (h->b->nversions || !h->b->module->target->freestanding) return;
    memory_uses peaks = memory_peaks(h->arena, p, &h->b->plan);
    patch_loops patches = memory_patches(h->arena, p);
    if (peaks.n && peaks.at[0].kernel)
        text_printf(&h->t, "// Most of the %s, %lld bytes, is in use at kernel %d, %s.\n",
                    h->io->pools.n ? "memory in pools" : "workspace", (long long)peaks.at[0].bytes,
                    peaks.at[0].kernel->id, comment_text(h->arena, peaks.at[0].kernel->name));
    for (int j = 0; j < patches.n; j++) {
        const patch_loop *l = &patches.at[j];
        text_printf(&h->t, "// Kernels %d to %d run in %lld steps of %lld row%s.\n", l->first, l->last,
                    (long long)l->steps, (long long)l->rows, l->rows == 1 ? "" : "s");
    }
}

static void workspace(header *h) {
    const interface *io = h->io;
    const dim *size = h->b->workspace;
    text_printf(&h->t, "#define %s_WORKSPACE_ALIGN %lld\n", io->macro, (long long)h->b->align);
    if (dim_is_const(size))
        text_printf(&h->t, "#define %s_WORKSPACE_BYTES %lld\n", io->macro, (long long)dim_value(size));
    else if (size->max < INT64_MAX / 2)
        text_printf(&h->t, "#define %s_WORKSPACE_BYTES_MAX %lld\n", io->macro, (long long)size->max);
    if (dim_is_const(size)) {
        text_printf(&h->t, "size_t %s_workspace_bytes(void);\n", io->name);
        return;
    }
    text_add(&h->t, "// Returns (size_t)-1 if the model does not accept inputs of these dims.\n");
    if (h->b->scratch_threads > 1)
        text_printf(&h->t,
                    "// Part of it is scratch memory for each thread that the work at these sizes keeps "
                    "busy, at most "
                    "%d\n// (--threads N sets the most threads).\n",
                    h->b->scratch_threads);
    text_printf(&h->t, "size_t %s_workspace_bytes(", io->name);
    for (int j = 0; j < io->symbols.n; j++)
        text_printf(&h->t, "%sint64_t %s", j ? ", " : "", io->arguments[j]);
    text_add(&h->t, io->symbols.n ? ");\n" : "void);\n");
}

// What lies in a pool, on microcontrollers.
static void pool_contents(header *h, int pool) {
    const memory_plan *plan = &h->b->plan;
    if (h->b->nversions || !h->b->module->target->freestanding) return;
    for (int j = 0; j < plan->allocations.n; j++) {
        const allocation *m = &plan->allocations.at[j];
        if (m->pool != pool) continue;
        text name = {.arena = h->arena};
        text_add_short(&name, m->buffer ? m->buffer->name : m->kernel->name);
        text_printf(&h->t, "//   %lld to %lld: %s%s\n", (long long)dim_value(m->offset),
                    (long long)(dim_value(m->offset) + dim_value(m->size) - 1),
                    m->buffer ? "" : "scratch memory of ", comment_text(h->arena, text_str(&name)));
    }
}

static void pools(header *h) {
    for (int j = 0; j < h->io->pools.n; j++) {
        const io_pool *x = &h->io->pools.at[j];
        text_printf(&h->t, "// Pool '%s' of %lld bytes, %s %s: what is in use of it.\n", x->pool->name,
                    (long long)x->pool->bytes, x->pool->section ? "in section" : "which callers pass as",
                    x->pool->section ? x->pool->section : x->name);
        pool_contents(h, j);
        text_printf(&h->t, "#define %s_BYTES %lld\n", x->macro, (long long)x->bytes);
    }
}

static const char *thread_rule(const interface *io) {
    if (io->callers < io->pools.n)
        return "One run at a time: runs use the same memory, the pools in sections.";
    if (io->pools.n)
        return "Thread-safe, provided that each thread has its own pools; the workspace may be NULL.";
    return "Thread-safe, provided that each thread has its own workspace.";
}

static void stack(header *h) {
    const build *b = h->b;
    if (!b->stack) return;
    if (b->stack < 0) {
        text_printf(&h->t, "// The stack of a call is not known: %s.\n",
                    comment_text(h->arena, b->stack_note));
        return;
    }
    text_printf(&h->t,
                "// The deepest stack of a call, below the stack pointer of the caller%s%s.\n#define "
                "%s_STACK_BYTES %lld\n",
                b->stack_note ? ", " : "", b->stack_note ? comment_text(h->arena, b->stack_note) : "",
                h->io->macro, (long long)b->stack);
}

static void cycles(header *h, const program *p) {
    const build *b = h->b;
    if (!b->cost) return;
    text_printf(&h->t,
                "// Estimated cycles of a run on %s, if memory answers at once: without wait states of flash "
                "and without cache "
                "misses.\n#define %s_CYCLES %.0f\n",
                b->module->target->cpu, h->io->macro, b->cost->all.cycles);
    text_add(&h->t, "// By kernel: multiply-accumulates, cycles, name.\n");
    dim *const *macs = kernel_macs(h->arena, p);
    for (int i = 0; i < p->kernels.n; i++) {
        const kernel *k = p->kernels.at[i];
        text_printf(&h->t, "//  %4d %10s %10.0f  %s\n", i, dim_text(h->arena, macs[i]),
                    build_kernel_cost(b, i).cycles, comment_text(h->arena, k->name));
    }
}

static void real_time_macro(header *h) {
    const real_time *r = h->b->real_time;
    const char *condition = real_time_condition(h->arena, r), *space = *condition ? " " : "";
    if (r->faults.n)
        text_printf(&h->t, "// Not real-time safe: %s.\n",
                    comment_text(h->arena, real_time_reasons(h->arena, r)));
    else
        text_printf(
            &h->t,
            "// Real-time safe%s%s: a run allocates no memory, takes no lock and makes no system call.\n",
            space, condition);
    text_printf(&h->t, "#define %s_REAL_TIME %d\n", h->io->macro, !r->faults.n);
}

static void context_functions(header *h) {
    const interface *io = h->io;
    if (!io->context) return;
    if (h->b->weights_head)
        text_printf(&h->t, "\n#define %s_WEIGHTS_BYTES %lld\n", io->macro, (long long)h->b->weights_bytes);
    if (!io->opens) {
        text_add(
            &h->t,
            "// The program sets context.weights to the contents of the weights file, 64-byte aligned.\n");
        return;
    }
    text_printf(&h->t,
                "%s; options may be NULL. Returns 0 or an onnxc_status.\n"
                "int %s_open(const onnxc_options *options, onnxc_context **context);\n"
                "void %s_close(onnxc_context *context);\n",
                h->b->weights_head ? "// Maps the weights file" : "\n// Loads code and weights onto a GPU",
                io->name, io->name);
}

static void check_weights(header *h) {
    if (!h->b->check_weights) return;
    text_printf(
        &h->t,
        "\n// Compares all constants with what they were when the model was compiled, by their CRC-32: 0, or "
        "ONNXC_BAD_WEIGHTS.\nint %s_check_weights(%s);\n",
        h->io->name, h->io->context ? "const onnxc_context *context" : "void");
}

static void output_dims(header *h) {
    const interface *io = h->io;
    if (!io->output_dims) return;
    text_printf(&h->t,
                "\n// Sets the sizes of the outputs that a run with the sizes of *in will have. A size that "
                "depends on\n"
                "// data is the largest possible one, or -1 if there is none. Returns 0 or an onnxc_status.\n"
                "int %s_output_dims(const %s_in *in, %s_out *out);\n",
                io->name, io->name, io->name);
}

static void functions(header *h, const program *p) {
    const interface *io = h->io;
    workspace_use(h, p);
    workspace(h);
    pools(h);
    stack(h);
    cycles(h, p);
    real_time_macro(h);
    output_dims(h);
    context_functions(h);
    check_weights(h);
    text_printf(&h->t,
                "\n// Returns 0 or an onnxc_status. %s\n"
                "int %s_run(%sconst %s_in *in, %s_out *out, void *workspace, size_t workspace_size);\n",
                thread_rule(io), io->name, io->context ? "const onnxc_context *context, " : "", io->name,
                io->name);
    if (!io->generic) return;
    text_printf(
        &h->t,
        "\n// The generic interface, the same for all models: %s_MODEL initializes an onnxc_model.\n"
        "extern %sconst int64_t %s_descriptor[];\n"
        "int %s_run_generic(void *const *data, int64_t *dims, const int64_t *capacity, void *workspace,\n"
        "    size_t workspace_size, const char **message);\n"
        "int64_t %s_workspace_generic(const int64_t *dims);\n"
        "#define %s_MODEL {%s_descriptor, %s_run_generic, %s_workspace_generic, %s, %s}\n",
        io->macro, h->b->imported ? "__declspec(dllimport) " : "", io->name, io->name, io->name, io->macro,
        io->name, io->name, io->name, io->opens ? arena_printf(h->arena, "%s_open", io->name) : "0",
        io->opens ? arena_printf(h->arena, "%s_close", io->name) : "0");
}

static bool has_values(const io_tensor *all, int n) {
    for (int j = 0; j < n; j++)
        if (all[j].buffer->holds || all[j].buffer->dtype == DT_STRING) return true;
    return false;
}

// Types of strings, sequences and optionals, as in onnxc.h.
static void value_types(header *h) {
    if (!has_values(h->io->in, h->io->nin) && !has_values(h->io->out, h->io->nout)) return;
    text_add(&h->t, library_source_of("lib_types.h"));
    text_add(&h->t, "\n");
}

void header_write(const build *b, const program *p, const sink *out) {
    header h = {.arena = p->arena, .b = b, .io = b->io, .t = {.arena = p->arena}};
    head(&h, p);
    value_types(&h);
    for (int j = 0; j < h.io->nin; j++) {
        const io_tensor *t = &h.io->in[j];
        tensor_macros(&h, t);
        if (t->growth)
            text_printf(&h.t, "#define %s_%s_ROOM%d %lld\n", h.io->macro, t->macro, t->growth_axis,
                        (long long)t->room);
    }
    for (int j = 0; j < h.io->nout; j++) tensor_macros(&h, &h.io->out[j]);
    text_add(&h.t, "\n");
    size_comments(&h);
    struct_type(&h, h.io->in, h.io->nin, false);
    struct_type(&h, h.io->out, h.io->nout, true);
    state_struct(&h, p);
    functions(&h, p);
    text_add(&h.t, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    sink_addn(out, h.t.s, h.t.n);
}
