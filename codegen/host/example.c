// The output of --emit=example. In: a model's interface. Out: a program that runs the model once on zeros,
// with one choice of the symbolic sizes, and its makefile.
#include "codegen/host/example.h"
#include <string.h>

typedef struct example {
    arena *arena;
    const build *b;
    const interface *io;
    text t;
} example;

enum { OPEN_SIZE = 2, GUESS = 1024, SHOWN = 10 };

// ---------------------------------------------------------------- sizes
static dim *chosen_size(void *user, dim *atom) {
    (void)user;
    if (atom->kind != DIM_SYMBOL) return atom;
    int64_t v = OPEN_SIZE;
    if (v < atom->min) v = atom->min;
    if (v > atom->max) v = atom->max;
    if (atom->divisor > 1 && v % atom->divisor) v += atom->divisor - v % atom->divisor;
    return dim_const(atom->table, v);
}

// -1: data-dependent.
static int64_t size_of(const dim *d) {
    dim *v = dim_substitute((dim *)(uintptr_t)d, chosen_size, NULL);
    return dim_is_const(v) ? dim_value(v) : -1;
}

static int64_t elements(const io_tensor *t) {
    const buffer *b = t->buffer;
    dim *count = buffer_count(b);
    if (t->room) {
        count = dim_const(count->table, t->room);
        for (int j = 0; j < b->rank; j++)
            if (j != t->growth_axis) count = dim_mul(count, b->dims[j]);
    }
    int64_t n = size_of(count);
    return n >= 0 ? n : GUESS;
}

// In elements of the C type: narrow elements are packed, complex numbers are two.
static int64_t array_length(const io_tensor *t) {
    int64_t n = elements(t), bits = dtype_bits(t->buffer->dtype);
    if (bits < 8) n = dtype_size(t->buffer->dtype, n);
    if (t->buffer->dtype == DT_C64 || t->buffer->dtype == DT_C128) n *= 2;
    return n > 0 ? n : 1;
}

// ---------------------------------------------------------------- main.c
static bool is_member(const io_tensor *t, const char *kind) { return *kind == 'i' || !t->state; }

static void add_arrays(example *e, const io_tensor *all, int n, const char *kind) {
    for (int j = 0; j < n; j++)
        if (is_member(&all[j], kind))
            text_printf(&e->t, "static %s %s_%s[%lld];\n", interface_ctype(all[j].buffer), kind, all[j].name,
                        (long long)array_length(&all[j]));
}

static void add_members(example *e, const io_tensor *all, int n, const char *kind) {
    for (int j = 0; j < n; j++) {
        const io_tensor *t = &all[j];
        if (!is_member(t, kind)) continue;
        for (int i = 0; i < t->buffer->rank && *kind == 'i'; i++)
            if (t->dims[i])
                text_printf(&e->t, "        .%s = %lld,\n", t->dims[i],
                            (long long)size_of(t->buffer->dims[i]));
        if (t->capacity)
            text_printf(&e->t, "        .%s = %lld, // capacity in elements\n", t->capacity,
                        (long long)elements(t));
        text_printf(&e->t, "        .%s = %s_%s,\n", t->name, kind, t->name);
    }
    for (int j = 0; j < e->io->growths.n && *kind == 'i'; j++)
        text_printf(&e->t, "        .%s = &(int64_t){0},\n", e->io->growths.at[j].name);
}

static void add_context(example *e) {
    const interface *io = e->io;
    if (!io->opens) return;
    text_add(
        &e->t,
        "    char why[256] = \"\";\n"
        "    onnxc_options options = {.size = sizeof options, .message = why, .message_size = sizeof why};\n"
        "    onnxc_context *context;\n");
    text_printf(&e->t,
                "    int code = %s_open(&options, &context);\n"
                "    if (code) {\n        fprintf(stderr, \"%s_open: %%d: %%s\\n\", code, why);\n        "
                "return 1;\n    }\n",
                io->name, io->name);
}

static void add_workspace(example *e) {
    const interface *io = e->io;
    if (dim_is_const(e->b->workspace)) {
        text_printf(
            &e->t,
            "    static _Alignas(%s_WORKSPACE_ALIGN) unsigned char workspace[%s_WORKSPACE_BYTES + 1];\n"
            "    size_t workspace_size = %s_WORKSPACE_BYTES;\n",
            io->macro, io->macro, io->macro);
        return;
    }
    text_printf(&e->t,
                "    // The workspace size depends on the input sizes.\n    size_t workspace_size = "
                "%s_workspace_bytes(",
                io->name);
    for (int j = 0; j < io->symbols.n; j++)
        text_printf(&e->t, "%s%lld", j ? ", " : "", (long long)size_of(io->symbols.at[j]));
    text_printf(&e->t, ");\n    void *workspace = aligned_alloc(%s_WORKSPACE_ALIGN, workspace_size);\n",
                io->macro);
}

static void add_print(example *e, const io_tensor *t) {
    dtype d = t->buffer->dtype;
    bool real = d == DT_F32 || d == DT_F64 || d == DT_C64 || d == DT_C128;
    const char *format = real ? "%g" : "%lld", *cast = real ? "(double)" : "(long long)";
    int64_t n = array_length(t);
    text_printf(&e->t, "    printf(\"%s:\");\n", t->name);
    if (t->data_sized) {
        text_add(&e->t, "    int64_t count = 1;\n");
        for (int j = 0; j < t->buffer->rank; j++)
            if (t->dims[j]) text_printf(&e->t, "    count *= out.%s;\n", t->dims[j]);
            else text_printf(&e->t, "    count *= %lld;\n", (long long)dim_value(t->buffer->dims[j]));
        text_printf(&e->t, "    for (int i = 0; i < count && i < %d; i++) ", SHOWN);
    } else {
        text_printf(&e->t, "    for (int i = 0; i < %lld; i++) ", (long long)(n < SHOWN ? n : SHOWN));
    }
    text_printf(&e->t, "printf(\" %s\", %sout_%s[i]);\n    printf(\"\\n\");\n", format, cast, t->name);
}

static void add_run(example *e) {
    const interface *io = e->io;
    text_printf(&e->t,
                "    int failed = %s_run(%s&in, &out, workspace, workspace_size);\n    if (failed) {\n",
                io->name, io->opens ? "context, " : "");
    if (io->messages)
        text_printf(&e->t, "        fprintf(stderr, \"%s_run: %%d: %%s\\n\", failed, out.%s);\n", io->name,
                    io->message);
    else text_printf(&e->t, "        printf(\"%s_run: %%d\\n\", failed);\n", io->name);
    text_add(&e->t, "        return 1;\n    }\n");
}

static void check_types(diag *d, const io_tensor *all, int n) {
    for (int j = 0; j < n; j++)
        if (all[j].buffer->dtype == DT_STRING || all[j].buffer->dtype == DT_NONE || all[j].buffer->holds)
            diag_missing(d, NULL, "--emit=example: '%s' is not a numeric tensor", all[j].original);
}

void example_main(arena *a, diag *d, const build *b, const sink *to) {
    const interface *io = b->io;
    example e = {.arena = a, .b = b, .io = io, .t = {.arena = a}};
    check_types(d, io->in, io->nin);
    check_types(d, io->out, io->nout);
    diag_check(d);
    text_printf(&e.t,
                "// Runs the model '%s' once. Put your data into the inputs; %s.h describes every member.\n",
                io->name, io->name);
    text_printf(&e.t, "#include \"%s.h\"\n#include <stdio.h>\n#include <stdlib.h>\n\n", io->name);
    text_add(&e.t, "// Inputs, all zero here.\n");
    add_arrays(&e, io->in, io->nin, "in");
    text_add(&e.t, "// Outputs, filled in by the run.\n");
    add_arrays(&e, io->out, io->nout, "out");
    text_add(&e.t, "\nint main(void) {\n    // All other memory that a run needs. Concurrent calls need one "
                   "workspace each.\n");
    add_context(&e);
    add_workspace(&e);
    text_printf(&e.t, "\n    %s_in in = {%s", io->name, io->nin ? "\n" : "0};\n");
    add_members(&e, io->in, io->nin, "in");
    text_printf(&e.t, "%s    %s_out out = {\n", io->nin ? "    };\n" : "", io->name);
    add_members(&e, io->out, io->nout, "out");
    text_add(&e.t, "    };\n");
    add_run(&e);
    text_add(&e.t, "\n");
    for (int j = 0; j < io->nout; j++) {
        if (io->out[j].state) continue;
        if (io->out[j].data_sized) text_add(&e.t, "    {\n");
        add_print(&e, &io->out[j]);
        if (io->out[j].data_sized) text_add(&e.t, "    }\n");
    }
    if (!dim_is_const(b->workspace)) text_add(&e.t, "    free(workspace);\n");
    if (io->opens) text_printf(&e.t, "    %s_close(context);\n", io->name);
    text_add(&e.t, "    return 0;\n}\n");
    sink_addn(to, e.t.s, e.t.n);
}

// ---------------------------------------------------------------- Makefile
void example_makefile(arena *a, const build *b, const sink *to) {
    text t = {.arena = a};
    const char *name = b->io->name;
    text_printf(&t,
                "# Builds main.c with the model. %s.a contains its code, its weights and the parts of "
                "onnxc's runtime it needs.\n"
                "# To recompile the model: onnxc MODEL.onnx -o %s.a\n"
                "# Compiled for %s; CC must be a compiler for it.\n"
                "CC     ?= cc\n"
                "CFLAGS ?= -O2 -Wall -Wextra\n"
                "LDLIBS ?=%s\n\n"
                "main: main.c %s.h %s.a\n"
                "\t$(CC) -std=c11 $(CFLAGS) $(LDFLAGS) main.c %s.a -o $@ $(LDLIBS)\n\n"
                "run: main\n\t./main\n\nclean:\n\trm -f main\n\n.PHONY: run clean\n",
                name, name, b->module->target->triple,
                !b->module->target->hosted ? ""
                : b->io->opens             ? " -lpthread -ldl"
                                           : " -lpthread",
                name, name, name);
    sink_addn(to, t.s, t.n);
}
