// In: two models. Out: what a run of each costs, and how their outputs differ.
#include "compiler/cli/diff.h"
#include "compiler/report/report.h"
#include "ir/kernel/kernel_cost.h"
#include "ir/kernel/program.h"
#include "passes/memory/memory_plan.h"
#include <math.h>
#include <string.h>

enum { OPEN_SIZE = 8 }; // of inputs for which nobody gives one, as for --tune

// ---------------------------------------------------------------- compiled models
typedef struct compilation {
    diff *d;
    diff_side *side;
} compilation;

static void compile(void *user) {
    const compilation *c = user;
    source *from = ARENA_NEW(c->d->arena, source);
    *from = session_source(c->d->session, c->side->path);
    c->d->session->diag.file = from->path;
    c->side->compiled = session_pipeline(c->d->session, &c->d->session->options);
    c->side->run = runnable_new(c->side->compiled, from, NULL);
}

// NULL: both can run; else why not.
static const char *compile_both(diff *d) {
    for (int k = 0; k < 2; k++) {
        const diag_message *why;
        compilation c = {d, &d->side[k]};
        if (!c.side->run && !diag_attempt(&d->session->diag, compile, &c, &why))
            return arena_printf(d->arena, "%s: %s", c.side->path, why->text);
    }
    return NULL;
}

static void note(diff *d, diff_section *s, const char *kind, const char *text) {
    diff_add(d, s, (diff_item){.sign = ' ', .kind = kind, .text = text, .snr = NAN});
}

// ---------------------------------------------------------------- cost
static void add_figure(diff *d, diff_section *s, const char *name, const dim *a, const dim *b) {
    const char *x = dim_text(d->arena, a), *y = dim_text(d->arena, b);
    text t = {.arena = d->arena};
    text_add(&t, x);
    if (strcmp(x, y) != 0) text_printf(&t, " -> %s", y);
    if (dim_is_const(a) && dim_is_const(b) && dim_value(a) && strcmp(x, y) != 0)
        text_printf(&t, " (%+.1f %%)", 100 * ((double)dim_value(b) / (double)dim_value(a) - 1));
    diff_add(d, s,
             (diff_item){.sign = ' ', .kind = "figure", .name = name, .text = text_str(&t), .snr = NAN});
}

typedef struct cost {
    dim *kernels, *flops, *bytes, *constants, *workspace;
} cost;

static cost cost_of(pipeline *p) {
    report_part *parts;
    report_part *part = (report_parts(p, &parts), parts);
    const program *g = part->program;
    dims *t = g->dims;
    cost c = {dim_const(t, g->kernels.n), dim_const(t, 0), dim_const(t, 0),
              dim_const(t, report_collect(p).parameter_bytes), dim_const(t, 0)};
    for (int j = 0; j < g->kernels.n; j++) {
        kernel_cost k = kernel_cost_of(g->kernels.at[j]);
        c.flops = dim_add(c.flops, k.flops);
        c.bytes = dim_add(c.bytes, dim_add(k.read, k.written));
    }
    if (part->plan) c.workspace = part->plan->workspace;
    return c;
}

void diff_cost(diff *d) {
    diff_section *s = diff_begin(d, "cost");
    const char *why = compile_both(d);
    if (why) {
        note(d, s, "note", arena_printf(d->arena, "not known: %s", why));
        return;
    }
    cost a = cost_of(d->side[0].compiled), b = cost_of(d->side[1].compiled);
    add_figure(d, s, "kernels", a.kernels, b.kernels);
    add_figure(d, s, "arithmetic operations", a.flops, b.flops);
    add_figure(d, s, "bytes read and written by kernels", a.bytes, b.bytes);
    add_figure(d, s, "bytes of constants", a.constants, b.constants);
    add_figure(d, s, "bytes of workspace", a.workspace, b.workspace);
}

// ---------------------------------------------------------------- outputs
static int port_named(const port *ports, int n, const char *name) {
    for (int j = 0; j < n; j++)
        if (strcmp(ports[j].name, name) == 0) return j;
    return -1;
}

// The input of the first model for input j of the second: of its name, else at its place; -1: none.
static int partner(const runnable *a, const runnable *b, int j) {
    int i = port_named(a->in, a->nin, b->in[j].name);
    return i >= 0 ? i : j < a->nin && port_named(b->in, b->nin, a->in[j].name) < 0 ? j : -1;
}

static const char *take_inputs(diff *d, const tensor *in, tensor *other) {
    const runnable *a = d->side[0].run, *b = d->side[1].run;
    for (int j = 0; j < b->nin; j++) {
        int i = partner(a, b, j);
        if (i < 0 && b->in[j].has_default) continue;
        if (i < 0) return arena_printf(d->arena, "'%s' has no input '%s'", d->side[0].path, b->in[j].name);
        const port *p = &a->in[i], *q = &b->in[j];
        if (p->boxed != q->boxed || p->dtype != q->dtype || (!p->boxed && p->rank != q->rank))
            return arena_printf(d->arena, "input '%s' is %s, but '%s' is %s", p->name, port_text(d->arena, p),
                                q->name, port_text(d->arena, q));
        other[j] = in[i];
    }
    return NULL;
}

static void compare_output(diff *d, diff_section *s, int i, int j, const tensor *got, const tensor *want) {
    const runnable *a = d->side[0].run, *b = d->side[1].run;
    import_value *x = value_of_port(d->arena, &a->out[i], want),
                 *y = value_of_port(d->arena, &b->out[j], got);
    comparison *c = ARENA_NEW(d->arena, comparison);
    *c = compare_values(d->arena, y, x, d->tolerance);
    diff_item item = {
        .sign = c->same ? ' ' : '~', .kind = "output", .name = a->out[i].name, .numbers = c, .snr = NAN};
    text t = {.arena = d->arena};
    text_printf(&t, "%s: %s", c->same ? "same" : "differs", comparison_text(d->arena, c));
    if (!c->why && y->kind == TYPE_TENSOR && dtype_is_float(got->dtype) && got->dtype == want->dtype) {
        item.snr = signal_to_noise(got, want);
        if (isfinite(item.snr)) text_printf(&t, ", SNR %.1f dB", item.snr);
    }
    item.text = text_str(&t);
    diff_add(d, s, item);
}

// Random inputs need sizes where the model leaves them open.
static void choose_sizes(diff *d) {
    const runnable *r = d->side[0].run;
    for (int j = 0; j < r->nin; j++) {
        const port *p = &r->in[j];
        for (int i = 0; i < p->rank; i++)
            if (p->dims[i] < 0 && p->sizes[i] && !options_dim(&d->session->options, p->sizes[i]))
                VEC_PUSH(d->arena, &d->session->options.dims,
                         arena_printf(d->arena, "%s=%d", p->sizes[i], OPEN_SIZE));
    }
}

typedef struct both_runs {
    diff *d;
    const io_options *io;
    tensor *in, *out[2];
} both_runs;

static void run_both(void *user) {
    both_runs *x = user;
    diff *d = x->d;
    const char *why = NULL;
    d->session->diag.file = d->side[0].path;
    choose_sizes(d);
    x->in = read_inputs(d->session, x->io, d->side[0].run, true);
    tensor *other = ARENA_ARRAY(d->arena, tensor, d->side[1].run->nin + 1);
    if ((why = take_inputs(d, x->in, other))) diag_fatal(&d->session->diag, NULL, "%s", why);
    for (int k = 0; k < 2; k++) {
        runnable *r = d->side[k].run;
        x->out[k] = ARENA_ARRAY(d->arena, tensor, r->nout + 1);
        d->session->diag.file = d->side[k].path;
        if (!r->run(r, d->arena, k ? other : x->in, x->out[k], &why))
            diag_fatal(&d->session->diag, NULL, "%s", why ? why : "the run failed");
    }
}

void diff_outputs(diff *d, const io_options *io) {
    diff_section *s = diff_begin(d, "outputs");
    const diag_message *why;
    both_runs x = {.d = d, .io = io};
    const char *no_code = compile_both(d);
    if (no_code || !diag_attempt(&d->session->diag, run_both, &x, &why)) {
        const char *hint = no_code || !why->hint ? "" : arena_printf(d->arena, " (%s)", why->hint);
        note(d, s, "note", arena_printf(d->arena, "not compared: %s%s", no_code ? no_code : why->text, hint));
        return;
    }
    const runnable *a = d->side[0].run, *b = d->side[1].run;
    for (int i = 0; i < a->nout; i++) {
        int j = port_named(b->out, b->nout, a->out[i].name);
        if (j < 0 && i < b->nout && port_named(a->out, a->nout, b->out[i].name) < 0) j = i;
        if (j >= 0) compare_output(d, s, i, j, &x.out[1][j], &x.out[0][i]);
    }
    s->summary = io->input_dir || io->inputs.n
                     ? "with the given inputs"
                     : arena_printf(d->arena, "with random inputs, --seed %lld", (long long)io->seed);
}
