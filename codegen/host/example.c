// The output of --emit=example. In: a model's interface and the sizes of its inputs. Out: a program that runs the
// model once on zeros, and its makefile.
#include "codegen/host/example.h"
#include <string.h>

typedef struct example {
    arena *arena;
    const build *b;
    const interface *io;
    const example_inputs *inputs;
    text t;
} example;

enum { GUESS = 1024, SHOWN = 10 };

// ---------------------------------------------------------------- sizes
typedef struct chosen {
    const interface *io;
    const example_inputs *inputs;
} chosen;

static bool chosen_size(void *user, const dim *atom, int64_t *value) {
    const chosen *c = user;
    for (int j = 0; j < c->io->symbols.n; j++)
        if (c->io->symbols.at[j] == atom) return *value = c->inputs->sizes[j], true;
    return false;
}

bool example_size(const interface *io, const example_inputs *inputs, const dim *d, int64_t *size) {
    chosen c = {io, inputs};
    return dim_eval(d, chosen_size, &c, size);
}

// -1: data-dependent.
static int64_t size_of(const example *e, const dim *d) {
    int64_t v;
    return example_size(e->io, e->inputs, d, &v) ? v : -1;
}

static int64_t elements(const example *e, const io_tensor *t) {
    const buffer *b = t->buffer;
    dim *count = buffer_count(b);
    if (t->room) {
        count = dim_const(count->table, t->room);
        for (int j = 0; j < b->rank; j++)
            if (j != t->growth_axis) count = dim_mul(count, b->dims[j]);
    }
    int64_t n = size_of(e, count);
    if (n >= 0) return n;
    n = t >= e->io->out && t < e->io->out + e->io->nout ? e->inputs->counts[t - e->io->out] : 0;
    return n > GUESS ? n : GUESS;
}

// In elements of the C type: narrow elements are packed, complex numbers are two.
static int64_t array_length(const example *e, const io_tensor *t) {
    if (t->buffer->holds) return 1;
    int64_t n = elements(e, t), bits = dtype_bits(t->buffer->dtype);
    if (bits < 8) n = dtype_size(t->buffer->dtype, n);
    if (t->buffer->dtype == DT_C64 || t->buffer->dtype == DT_C128) n *= 2;
    return n > 0 ? n : 1;
}

// ---------------------------------------------------------------- main.c
static bool is_member(const io_tensor *t, const char *kind) { return *kind == 'i' || !t->state; }

static void add_strings(example *e, const char *name, int64_t n) {
    text_printf(&e->t, "static onnxc_string %s[] = {", name);
    for (int64_t j = 0; j < n; j++) text_printf(&e->t, "%s{\"\", 0}", j ? ", " : "");
    text_add(&e->t, "};\n");
}

static void add_elements(example *e, const onnxc_value *v, const char *name) {
    const char *data = arena_printf(e->arena, "%s_data", name);
    int64_t n = v->count > 0 ? v->count : 1, bits = dtype_bits((dtype)v->dtype);
    bool complex = v->dtype == DT_C64 || v->dtype == DT_C128;
    if (v->dtype == DT_STRING) add_strings(e, data, n);
    else
        text_printf(&e->t, "static %s %s[%lld];\n", dtype_c((dtype)v->dtype), data,
                    (long long)(bits < 8  ? dtype_size((dtype)v->dtype, n)
                                : complex ? 2 * n
                                          : n));
    if (!v->rank) return;
    text_printf(&e->t, "static const int64_t %s_dims[] = {", name);
    for (int j = 0; j < v->rank; j++) text_printf(&e->t, "%s%lld", j ? ", " : "", (long long)v->dims[j]);
    text_add(&e->t, "};\n");
}

// An array of values, after those of their items.
static void add_values(example *e, const onnxc_value *v, int64_t n, const char *name) {
    for (int64_t j = 0; j < n; j++) {
        const char *item = arena_printf(e->arena, "%s_%lld", name, (long long)j);
        if (v[j].kind == 1) add_elements(e, &v[j], item);
        else if (v[j].kind == 3) add_values(e, v[j].data, 2, item);
        else if (v[j].kind == 2 && v[j].count) add_values(e, v[j].data, v[j].count, item);
    }
    text_printf(&e->t, "static onnxc_value %s[] = {\n", name);
    for (int64_t j = 0; j < n; j++) {
        text_printf(&e->t, "    {.kind = %d, .count = %lld", v[j].kind, (long long)v[j].count);
        if (v[j].kind == 1)
            text_printf(&e->t, ", .dtype = %d, .rank = %lld", v[j].dtype, (long long)v[j].rank);
        if (v[j].kind == 1 && v[j].rank) text_printf(&e->t, ", .dims = %s_%lld_dims", name, (long long)j);
        if (v[j].kind == 1) text_printf(&e->t, ", .data = %s_%lld_data", name, (long long)j);
        else if (v[j].kind == 3 || v[j].count) text_printf(&e->t, ", .data = %s_%lld", name, (long long)j);
        text_add(&e->t, "},\n");
    }
    text_add(&e->t, "};\n");
}

static void add_arrays(example *e, const io_tensor *all, int n, const char *kind) {
    for (int j = 0; j < n; j++) {
        const buffer *b = all[j].buffer;
        const char *name = arena_printf(e->arena, "%s_%s", kind, all[j].name);
        if (!is_member(&all[j], kind)) continue;
        if (b->holds && *kind == 'i') add_values(e, &e->inputs->values[j], 1, name);
        else if (b->dtype == DT_STRING && !b->holds && *kind == 'i')
            add_strings(e, name, array_length(e, &all[j]));
        else
            text_printf(&e->t, "static %s %s[%lld];\n", interface_ctype(b), name,
                        (long long)array_length(e, &all[j]));
    }
}
static void add_members(example *e, const io_tensor *all, int n, const char *kind) {
    for (int j = 0; j < n; j++) {
        const io_tensor *t = &all[j];
        if (!is_member(t, kind)) continue;
        for (int i = 0; i < t->buffer->rank && *kind == 'i'; i++)
            if (t->dims[i])
                text_printf(&e->t, "        .%s = %lld,\n", t->dims[i],
                            (long long)size_of(e, t->buffer->dims[i]));
        if (t->capacity)
            text_printf(&e->t, "        .%s = %lld, // capacity in elements\n", t->capacity,
                        (long long)elements(e, t));
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
    for (int j = 0; j < io->pools.n; j++)
        if (!io->pools.at[j].pool->section)
            text_printf(&e->t,
                        "    static _Alignas(%s_WORKSPACE_ALIGN) unsigned char pool_%s[%s_BYTES + 1];\n",
                        io->macro, io->pools.at[j].name, io->pools.at[j].macro);
    if (io->pools.n) return;
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
        text_printf(&e->t, "%s%lld", j ? ", " : "", (long long)e->inputs->sizes[j]);
    text_printf(&e->t, ");\n    void *workspace = aligned_alloc(%s_WORKSPACE_ALIGN, workspace_size);\n",
                io->macro);
}

static void add_pools(example *e) {
    for (int j = 0; j < e->io->pools.n; j++) {
        const io_pool *x = &e->io->pools.at[j];
        if (!x->pool->section)
            text_printf(&e->t, "        .%s = pool_%s, .%s = sizeof pool_%s,\n", x->name, x->name, x->size,
                        x->name);
    }
}

// Of one element of an output, and of a value in memory.
static const char *format_of(dtype d, const char **cast) {
    bool real = d == DT_F32 || d == DT_F64 || d == DT_C64 || d == DT_C128;
    *cast = d == DT_STRING ? "" : real ? "(double)" : "(long long)";
    return d == DT_STRING ? "\\\"%s\\\"" : real ? "%g" : "%lld";
}

static void add_print(example *e, const io_tensor *t) {
    const char *cast, *format = format_of(t->buffer->dtype, &cast);
    bool text = t->buffer->dtype == DT_STRING;
    int64_t n = array_length(e, t);
    text_printf(&e->t, "    printf(\"%s:\");\n", t->name);
    if (t->buffer->holds) {
        text_printf(&e->t, "    print_value(out_%s);\n    free(out_%s->data);\n", t->name, t->name);
        return;
    }
    if (t->data_sized) {
        text_add(&e->t, "    int64_t count = 1;\n");
        for (int j = 0; j < t->buffer->rank; j++)
            if (t->dims[j]) text_printf(&e->t, "    count *= out.%s;\n", t->dims[j]);
            else text_printf(&e->t, "    count *= %lld;\n", (long long)dim_value(t->buffer->dims[j]));
        text_printf(&e->t, "    for (int i = 0; i < count && i < %d; i++) ", SHOWN);
    } else {
        text_printf(&e->t, "    for (int i = 0; i < %lld; i++) ", (long long)(n < SHOWN ? n : SHOWN));
    }
    text_printf(&e->t, "printf(\" %s\", %sout_%s[i]%s);\n    printf(\"\\n\");\n", format, cast, t->name,
                text ? ".data" : "");
    if (text) text_printf(&e->t, "    free((void *)out_%s[0].data); // of all strings\n", t->name);
}

// A case for each type of C; other elements are shown as integers.
static void add_print_value(example *e) {
    static const dtype shown[] = {DT_F32, DT_F64, DT_STRING, DT_U8,  DT_I8,  DT_U16,
                                  DT_I16, DT_I32, DT_I64,    DT_U32, DT_U64, DT_BOOL};
    text_add(&e->t,
             "\nstatic void print_value(const onnxc_value *v) {\n"
             "    if (v->kind != 1) printf(\" %s of %lld\\n\", v->kind == 2 ? \"sequence\" : v->kind == 3 ? "
             "\"map\" : \"optional\", (long long)v->count);\n"
             "    for (int64_t i = 0; v->kind == 2 && i < v->count; i++) print_value((const onnxc_value "
             "*)v->data + i);\n"
             "    for (int64_t i = 0; v->kind == 3 && i < 2; i++) print_value((const onnxc_value *)v->data + "
             "i);\n");
    text_printf(&e->t,
                "    for (int64_t i = 0; v->kind == 1 && i < v->count && i < %d; i++) {\n        switch "
                "(v->dtype) {\n",
                SHOWN);
    for (size_t j = 0; j < sizeof shown / sizeof *shown; j++) {
        const char *cast, *format = format_of(shown[j], &cast);
        text_printf(&e->t, "        case %d: printf(\" %s\", %s((const %s *)v->data)[i]%s); break;\n",
                    shown[j], format, cast, dtype_c(shown[j]), shown[j] == DT_STRING ? ".data" : "");
    }
    text_add(&e->t, "        }\n    }\n    if (v->kind == 1) printf(\"\\n\");\n}\n");
}

static void add_run(example *e) {
    const interface *io = e->io;
    text_printf(&e->t, "    int failed = %s_run(%s&in, &out, %s);\n    if (failed) {\n", io->name,
                io->opens ? "context, " : "", io->pools.n ? "NULL, 0" : "workspace, workspace_size");
    if (io->messages)
        text_printf(&e->t, "        fprintf(stderr, \"%s_run: %%d: %%s\\n\", failed, out.%s);\n", io->name,
                    io->message);
    else text_printf(&e->t, "        printf(\"%s_run: %%d\\n\", failed);\n", io->name);
    text_add(&e->t, "        return 1;\n    }\n");
}

static bool has_values(const interface *io) {
    for (int j = 0; j < io->nout; j++)
        if (io->out[j].buffer->holds) return true;
    return false;
}

void example_main(arena *a, const build *b, const example_inputs *inputs, const sink *to) {
    const interface *io = b->io;
    example e = {.arena = a, .b = b, .io = io, .inputs = inputs, .t = {.arena = a}};
    text_printf(&e.t,
                "// Runs the model '%s' once. Put your data into the inputs; %s.h describes every member.\n",
                io->name, io->name);
    text_printf(&e.t, "#include \"%s.h\"\n#include <stdio.h>\n#include <stdlib.h>\n\n", io->name);
    if (inputs->fails && io->nin)
        text_add(&e.t,
                 "// The model refuses zeros of the sizes that were tried: choose sizes that suit it.\n");
    text_add(&e.t, "// Inputs, all zero here.\n");
    add_arrays(&e, io->in, io->nin, "in");
    text_add(&e.t, "// Outputs, filled in by the run.\n");
    add_arrays(&e, io->out, io->nout, "out");
    if (has_values(io)) add_print_value(&e);
    text_add(&e.t, "\nint main(void) {\n    // All other memory that a run needs. Concurrent calls need one "
                   "workspace each.\n");
    add_context(&e);
    add_workspace(&e);
    bool members = io->nin || io->callers;
    text_printf(&e.t, "\n    %s_in in = {%s", io->name, members ? "\n" : "0};\n");
    add_members(&e, io->in, io->nin, "in");
    add_pools(&e);
    text_printf(&e.t, "%s    %s_out out = {\n", members ? "    };\n" : "", io->name);
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
