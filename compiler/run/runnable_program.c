// Programs run by a command: an emulator, on another machine, or directly. In: a pipeline and the command.
// Out: a runnable whose inputs and outputs are passed in files.
#include "compiler/base/fs.h"
#include "compiler/base/process.h"
#include "compiler/output/output.h"
#include "compiler/run/runnable_impl.h"
#include <stdio.h>

typedef struct outside {
    diag *diag;
    const char *folder, *program;
    string_list command; // before the program
} outside;

// The command with all inputs, whose files are written.
static string_list command_with(const runnable *r, arena *a, const tensor *in) {
    const outside *o = r->impl;
    string_list args = {0};
    for (int i = 0; i < o->command.n; i++) VEC_PUSH(a, &args, o->command.at[i]);
    VEC_PUSH(a, &args, o->program);
    for (int j = 0; j < r->nin; j++) {
        if (r->in[j].has_default && !in[j].data) continue;
        const char *path = arena_printf(a, "%s/in%d.npy", o->folder, j);
        value_write(a, o->diag, value_of_tensor(a, r->in[j].name, &in[j]), path);
        VEC_PUSH(a, &args, arena_printf(a, "--input=%s=%s", r->in[j].name, path));
    }
    return args;
}

static bool run_command(const outside *o, arena *a, const string_list *args, const char **message) {
    int code = process_run(a, o->diag, args);
    if (code < 0) diag_fatal(o->diag, NULL, "'%s' cannot be started", args->at[0]);
    if (code) *message = arena_printf(a, "the program ended with exit code %d", code);
    return code == 0;
}

static bool run_outside(runnable *r, arena *a, const tensor *in, tensor *out, const char **message) {
    const outside *o = r->impl;
    string_list args = command_with(r, a, in);
    for (int j = 0; j < r->nout; j++)
        VEC_PUSH(a, &args, arena_printf(a, "--output=%s=%s/out%d.npy", r->out[j].name, o->folder, j));
    if (!run_command(o, a, &args, message)) return false;
    for (int j = 0; j < r->nout; j++) {
        port p = table_port(&r->out[j]);
        const char *path = arena_printf(a, "%s/out%d.npy", o->folder, j);
        if (!path_exists(path)) {
            *message = arena_printf(a, "'%s' ended without writing output '%s'", args.at[0], r->out[j].name);
            return false;
        }
        import_value *v = value_read(a, o->diag, &p, path);
        out[j] = tensor_of(a, v->tensor);
    }
    return true;
}

bool runnable_times(const runnable *r, arena *a, const tensor *in, int64_t runs, double *seconds,
                    const char **message) {
    const outside *o = r->impl;
    const char *path = arena_printf(a, "%s/times", o->folder);
    string_list args = command_with(r, a, in);
    VEC_PUSH(a, &args, arena_printf(a, "--times=%s", path));
    VEC_PUSH(a, &args, arena_printf(a, "--runs=%lld", (long long)runs));
    if (!run_command(o, a, &args, message)) return false;
    FILE *from = fopen(path, "r");
    int64_t n = 0;
    while (from && n < runs && fscanf(from, "%lf", &seconds[n]) == 1) n++;
    if (from) fclose(from);
    if (n < runs)
        *message = arena_printf(a, "the program timed %lld of %lld runs", (long long)n, (long long)runs);
    return n == runs;
}

// Programs read and write numbers in whole bytes (runtime-lite/core/program.c).
static void check_port(diag *d, const port *x) {
    bool numbers = !x->boxed && x->dtype != DT_STRING && x->dtype != DT_F8E8M0 && dtype_bits(x->dtype) >= 8;
    if (!numbers)
        diag_fatal_missing(d, NULL, "--runner: '%s' is %s, which programs cannot read and write", x->name,
                           x->boxed ? x->type : dtype_name(x->dtype));
}

runnable *program_model(pipeline *p, const source *s) {
    outside *o = ARENA_NEW(p->arena, outside);
    options *own = ARENA_NEW(p->arena, options);
    *o = (outside){p->diag, temporary_folder(p->arena, p->diag), NULL,
                   option_words(p->arena, p->diag, p->options->runner)};
    o->program = arena_printf(p->arena, "%s/program", o->folder);
    *own = *p->options;
    own->emit = "exe";
    own->output = o->program;
    own->header = own->depfile = NULL;
    p->options = own;
    output_compile(p, s, NULL);
    if (p->stopped) diag_fatal(p->diag, NULL, "--stop-after leaves nothing to run");
    runnable *r = ARENA_NEW(p->arena, runnable);
    *r = (runnable){.impl = o, .run = run_outside};
    runnable_set_ports(p, r);
    for (int j = 0; j < r->nin; j++) check_port(p->diag, &r->in[j]);
    for (int j = 0; j < r->nout; j++) check_port(p->diag, &r->out[j]);
    return r;
}
