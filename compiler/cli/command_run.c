// onnxc run: compiles or interprets a model, or opens a library, and runs it once; prints, writes or compares
// the outputs.
#include "compiler/cli/divergence.h"
#include "compiler/cli/inner.h"
#include "compiler/cli/run_stream.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct run_options {
    io_options io;
    inner_options inner;
    const char *interpret;
    string_list compare;
    tolerance tolerance;
} run_options;

#define AT(field) offsetof(run_options, field)
static const option run_table[] = {
    IO_OPTIONS(run_options, io),
    {"--output", "-o", "NAME=FILE", OPT_LIST, AT(io.outputs), "Inputs and outputs",
     "write an output, or any value inside of the model (in loops: of the last iteration), to FILE (.npy, "
     ".npz, .pb, .csv, raw .bin)"},
    {"--output-dir", NULL, "DIR", OPT_TEXT, AT(io.output_dir), "Inputs and outputs",
     "write the outputs to DIR/output_0.pb, output_1.pb ..."},
    {"--all", NULL, NULL, OPT_FLAG, AT(io.all), "Inputs and outputs",
     "print all elements, even of large tensors"},
    INNER_OPTIONS(run_options, inner),
    {"--interpret", NULL, "[=program|gpu]", OPT_TEXT, AT(interpret), "Run",
     "run the interpreter instead of compiled code; =program: on the program after fusion and layout; =gpu: "
     "on kernels as scheduled for a GPU"},
    {"--compare", NULL, "interpret|DIR|NAME=FILE", OPT_LIST, AT(compare), "Run",
     "compare outputs with the interpreter's, with DIR/output_0.pb ..., or with FILE; exit code 4 if they "
     "differ"},
    {"--rtol", NULL, "X", OPT_REAL, AT(tolerance.rtol), "Run",
     "|got - want| <= atol + rtol * |want|; default: 1e-3"},
    {"--atol", NULL, "X", OPT_REAL, AT(tolerance.atol), "Run", "default: 1e-5"},
    {NULL},
};

static runnable *open_model(session *s, const source *from, const char *interpret, probes *inside) {
    pipeline *p = session_pipeline(s, &s->options);
    p->probes = inside;
    return runnable_new(p, from, interpret);
}

static tensor *run_once(session *s, runnable *r, const tensor *in, inner *x) {
    tensor *out = ARENA_ARRAY(s->arena, tensor, r->nout + 1);
    const char *message = NULL;
    bool done = run_signal(s->arena, &s->diag, r, in, out, &message);
    inner_end(x);
    if (!done) diag_fatal(&s->diag, NULL, "%s", message ? message : "the run failed");
    return out;
}

// ---------------------------------------------------------------- comparing
static bool report(session *s, const char *name, const import_value *got, const import_value *want,
                   tolerance t) {
    comparison c = compare_values(s->arena, got, want, t);
    printf("%s: %s: %s\n", safe_text(s->arena, name), c.same ? "same" : "differs",
           comparison_text(s->arena, &c));
    return c.same;
}

// Reports the first value that differs from the interpreter. fused: an output differs.
static void find_divergence(session *s, const source *from, const tensor *in, tolerance t, bool fused) {
    if (source_is_program(from) || s->options.runner || s->options.stream.n)
        return; // without nodes; in another process; in one of many steps
    divergence d = {.arena = s->arena, .tolerance = t};
    run_once(s, open_model(s, from, "", divergence_wanted(&d)), in, NULL);
    run_once(s, open_model(s, from, NULL, divergence_got(&d)), in, NULL);
    if (!d.node) {
        printf(fused ? "no node differs from the interpreter when every value is kept: the difference comes "
                       "from a pass that rewrites across nodes (compare with -O0)\n"
                     : "no node differs from the interpreter\n");
        return;
    }
    printf("first node that differs from the interpreter: '%s' (%s), value '%s' %s\n",
           safe_text(s->arena, d.node->as.loc->node), safe_text(s->arena, d.node->as.op),
           safe_text(s->arena, d.name), comparison_text(s->arena, &d.how));
}

static bool compare_with(session *s, const char *with, const source *from, const runnable *r,
                         const tensor *in, const tensor *out, tolerance t) {
    arena *a = s->arena;
    bool same = true;
    struct stat st;
    if (strcmp(with, "interpret") == 0) {
        tensor *want = run_once(s, open_model(s, from, "", NULL), in, NULL);
        for (int j = 0; j < r->nout; j++)
            same &= report(s, r->out[j].name, value_of_port(a, &r->out[j], &out[j]),
                           value_of_port(a, &r->out[j], &want[j]), t);
    } else if (stat(with, &st) == 0 && S_ISDIR(st.st_mode)) {
        for (int j = 0; j < r->nout; j++) {
            int state = r->out[j].next_of;
            if (state && r->in[state - 1].begins_zero) continue; // not an output of the model
            import_value *want =
                import_value_file(a, &s->diag, arena_printf(a, "%s/output_%d.pb", with, j), r->out[j].kind);
            same &= report(s, r->out[j].name, value_of_port(a, &r->out[j], &out[j]),
                           samples_in(a, &r->out[j], &out[j], want), t);
        }
    } else {
        const char *file;
        int j = match_port(with, r->out, r->nout, &file);
        if (j < 0)
            diag_fatal(
                &s->diag, NULL,
                "--compare %s: expected 'interpret', a folder, or NAME=FILE with the name of an output",
                with);
        port whole = whole_signal(&r->out[j]);
        import_value *want = value_read(a, &s->diag, &whole, file);
        return report(s, r->out[j].name, value_of_port(a, &r->out[j], &out[j]),
                      samples_in(a, &r->out[j], &out[j], want), t);
    }
    return same;
}

static _Noreturn void lacks_nodes(session *s, const char *option) {
    diag_fatal(&s->diag, NULL, "%s: '%s' is already compiled and has no nodes: run the model itself", option,
               s->args.at[0]);
}

static void check_library(session *s, const run_options *o) {
    if (o->interpret) lacks_nodes(s, "--interpret");
    for (int i = 0; i < o->compare.n; i++)
        if (strcmp(o->compare.at[i], "interpret") == 0) lacks_nodes(s, "--compare interpret");
    session_compiled(s, s->args.at[0]);
}

// compiled: the model is a library or a program as text, without nodes.
static inner *see_inside(session *s, run_options *o, bool compiled) {
    const inner_options *in = &o->inner;
    const char *option = in->dump ? "--dump" : in->stats ? "--stats" : in->values ? "--values" : NULL;
    if (option && o->interpret && strcmp(o->interpret, "gpu") == 0)
        diag_fatal_missing(&s->diag, NULL, "--interpret=gpu runs kernels alone: use --interpret with %s",
                           option);
    if (!compiled) return inner_new(s, &o->inner, &o->io);
    if (option) lacks_nodes(s, option);
    return NULL;
}

static int run(session *s, void *own) {
    run_options *o = own;
    source from = session_model(s);
    s->diag.file = from.path;
    check_output_names(s, &o->io, &o->compare);
    bool library = runnable_is_library(from.path);
    if (library) check_library(s, o);
    options_use_native(&s->options);
    expect_inputs(s, &o->io);
    inner *x = see_inside(s, o, library || source_is_program(&from));
    runnable *r = library ? runnable_open(s->arena, &s->diag, from.path)
                          : open_model(s, &from, o->interpret, inner_probes(x));
    tensor *in = read_inputs(s, &o->io, r, false);
    inner_inputs(x, r, in);
    tensor *out = run_once(s, r, in, x);
    o->io.quiet |= o->inner.dump || o->inner.values || o->inner.stats;
    if (!o->compare.n || o->io.output_dir || o->io.outputs.n) write_outputs(s, &o->io, r, out);
    bool same = true, as_interpreted = true;
    for (int i = 0; i < o->compare.n; i++) {
        bool agrees = compare_with(s, o->compare.at[i], &from, r, in, out, o->tolerance);
        same &= agrees;
        as_interpreted &= agrees || strcmp(o->compare.at[i], "interpret") != 0;
    }
    if (!same && !o->interpret && !library) find_divergence(s, &from, in, o->tolerance, !as_interpreted);
    return same ? DIAG_OK : DIAG_DIFFERS;
}

static const run_options run_defaults = {
    .io.signals = true, .tolerance = {1e-3, 1e-5}, .inner.dump_limit = 100};
const verb verb_run = {
    .name = "run",
    .usage = "onnxc run MODEL|LIB [options]",
    .summary = "Compiles a model if necessary, runs it once, and prints, writes or compares its outputs.",
    .table = run_table,
    .size = sizeof(run_options),
    .defaults = &run_defaults,
    .run = run,
};
