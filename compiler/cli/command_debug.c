// onnxc debug: runs a model node by node. Probes before and after every node give the events; at a stop, the event's
// function reads commands.
#include "compiler/base/fs.h"
#include "compiler/cli/debug.h"
#include "compiler/run/probe_call.h"
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

typedef struct debug_options {
    io_options io;
    const char *commands;
    string_list first;
    bool compiled;
} debug_options;

#define AT(field) offsetof(debug_options, field)
static const option debug_table[] = {
    IO_OPTIONS(debug_options, io),
    {"--commands", "-x", "FILE", OPT_TEXT, AT(commands), "Debug", "read commands from FILE before others"},
    {"--ex", NULL, "COMMAND", OPT_LIST, AT(first), "Debug", "a command to begin with; may be repeated"},
    {"--compiled", NULL, NULL, OPT_FLAG, AT(compiled), "Debug",
     "run compiled code, which is faster, instead of the interpreter; every value is kept"},
    {NULL},
};

// ---------------------------------------------------------------- breakpoints
static bool equals(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

static bool has_value(const probed_node *n, const char *name) {
    bool has = false;
    for (int i = 0; i < n->as.nout; i++) has |= equals(n->out[i], name);
    return has;
}

static bool matches_regex(const regex_t *re, const probed_node *n) {
    bool found = regexec(re, n->as.loc->node, 0, NULL, 0) == 0;
    for (int i = 0; i < n->as.nout; i++) found |= n->out[i] && regexec(re, n->out[i], 0, NULL, 0) == 0;
    return found;
}

static int mark(debugger *d, const char *said, const regex_t *re, int way, bool *at) {
    int n = 0;
    for (int j = 0; j < d->probes->nodes.n; j++) {
        const probed_node *x = d->probes->nodes.at[j];
        bool named = equals(x->as.loc->node, said) || (!x->as.call && has_value(x, said));
        at[j] = way == 0 ? named : way == 1 ? equals(x->as.op, said) : matches_regex(re, x);
        n += at[j];
    }
    return n;
}

int debug_resolve(debugger *d, const char *said, bool *at) {
    regex_t re;
    int n = mark(d, said, NULL, 0, at);
    if (!n) n = mark(d, said, NULL, 1, at);
    if (n || regcomp(&re, said, REG_EXTENDED | REG_NOSUB)) return n;
    n = mark(d, said, &re, 2, at);
    regfree(&re);
    return n;
}

// Its number; 0: none.
static int breakpoint_at(debugger *d, const probed_node *n) {
    for (int j = 0; j < d->breakpoints.n; j++) {
        breakpoint *b = d->breakpoints.at[j];
        if (!b || !b->at[n->index]) continue;
        b->hits++;
        return j + 1;
    }
    return 0;
}

// ---------------------------------------------------------------- stops
static bool motion_ends(debugger *d, const probed_node *n) {
    int depth = d->from ? d->from->depth : 0;
    switch (d->motion) {
    case MOVE_STEP: return --d->count <= 0;
    case MOVE_NEXT: return (!d->from || n->depth <= depth) && --d->count <= 0;
    case MOVE_FINISH: return n->depth < depth;
    case MOVE_CONTINUE: break;
    }
    return false;
}

// Reads commands until one resumes the run.
static void debug_stop(debugger *d) {
    d->resume = false;
    while (!d->resume && !d->quit && !d->restart) {
        const char *line = line_read(&d->lines, "(onnxc) ");
        if (!line) d->quit = true;
        else debug_command(d, line);
    }
    d->from = d->here;
}

// ---------------------------------------------------------------- events
debug_value *debug_find(debugger *d, const char *name) { return map_get(&d->values, name); }

static void keep(debugger *d, const probe_event *e, const probe_value *v) {
    debug_value *own = map_get(&d->values, v->name);
    if (!own) {
        own = ARENA_NEW(d->arena, debug_value);
        map_put(&d->values, v->name, own);
    }
    *own = (debug_value){.name = v->name, .node = e->node, .time = d->time};
    own->value = probe_read(d->arena, v, true);
    if (v->form == PROBE_NUMBERS) own->memory = v->tensor;
}

static bool is_watched(const debugger *d, const debug_value *v) {
    if (!v->value->tensor || v->value->kind != TYPE_TENSOR) return false;
    stats s = stats_none();
    tensor t = tensor_of(d->arena, v->value->tensor);
    stats_add(&s, &t);
    return (d->watch_nan && s.nans) || (d->watch_inf && s.infs);
}

static void after_node(debugger *d, const probe_event *e) {
    d->previous = d->here = e->node;
    if (!d->watch_nan && !d->watch_inf) return;
    for (int i = 0; i < e->n; i++) {
        const debug_value *v = debug_find(d, e->values[i].name);
        if (!is_watched(d, v)) continue;
        printf("watch: after %s\n", debug_node_text(d, e->node));
        debug_show_summary(d, v->name);
        debug_stop(d);
        return;
    }
}

static void before_node(debugger *d, const probe_event *e) {
    bool begins = !d->started;
    d->started = true;
    d->runs[e->node->index]++;
    d->here = e->node;
    int at = breakpoint_at(d, e->node);
    if (at && d->motion == MOVE_CONTINUE && --d->count > 0) at = 0;
    if (!motion_ends(d, e->node) && !at && !begins) return;
    if (at) printf("breakpoint %d, %s\n", at, d->breakpoints.at[at - 1]->said);
    debug_show_place(d);
    debug_stop(d);
}

static bool see(void *user, const probe_event *e) {
    debugger *d = user;
    d->time++;
    for (int i = 0; i < e->n; i++) keep(d, e, &e->values[i]);
    if (e->before) before_node(d, e);
    else after_node(d, e);
    return !d->quit && !d->restart;
}

// ---------------------------------------------------------------- runs
static void keep_inputs(debugger *d) {
    for (int j = 0; j < d->model->nin; j++) {
        const port *p = &d->model->in[j];
        if (p->has_default && !d->in[j].data) continue;
        debug_value *v = ARENA_NEW(d->arena, debug_value);
        *v = (debug_value){.name = p->name};
        v->value = value_of_port(d->arena, p, &d->in[j]);
        if (!p->boxed && p->dtype != DT_STRING) v->memory = d->in[j];
        map_put(&d->values, p->name, v);
    }
}

static void run_model(debugger *d) {
    const char *message = NULL;
    d->started = d->ended = d->failed = d->restart = false;
    d->motion = MOVE_CONTINUE, d->from = d->here = d->previous = NULL, d->time = 0;
    d->values = (map){.arena = d->arena};
    d->runs = ARENA_ARRAY(d->arena, int, d->probes->nodes.n + 1);
    d->out = ARENA_ARRAY(d->arena, tensor, d->model->nout + 1);
    keep_inputs(d);
    bool done = d->model->run(d->model, d->arena, d->in, d->out, &message);
    if (d->quit || d->restart) return;
    d->ended = true, d->failed = !done;
    if (done) printf("the run is complete\n");
    else printf("the run failed: %s\n", message ? message : "without a message");
    if (!done && d->here) printf("at %s\n", debug_node_text(d, d->here));
    debug_stop(d);
}

static FILE *open_commands(session *s, const char *path) {
    FILE *f = path ? fopen(path, "r") : NULL;
    if (f && is_folder(path)) diag_fatal(&s->diag, NULL, "cannot read '%s': it is a folder", path);
    if (path && !f) diag_fatal(&s->diag, NULL, "cannot read '%s': %s", path, strerror(errno));
    return f;
}

static int debug(session *s, void *own) {
    debug_options *o = own;
    source from = session_model(s);
    s->diag.file = from.path;
    if (runnable_is_library(from.path) || source_is_program(&from))
        diag_fatal(&s->diag, NULL, "'%s' is already compiled and has no nodes: debug the model itself",
                   from.path);
    options_use_native(&s->options);
    VEC_PUSH(s->arena, &s->options.disabled, "cse"); // equal nodes stay two
    expect_inputs(s, &o->io);
    debugger d = {.session = s, .arena = s->arena, .compiled = o->compiled};
    d.probes = probes_new(s->arena);
    d.probes->before = true, d.probes->user = &d, d.probes->see = see;
    d.pipeline = session_pipeline(s, &s->options);
    d.pipeline->probes = d.probes;
    d.model = runnable_new(d.pipeline, &from, o->compiled ? NULL : "");
    d.in = read_inputs(s, &o->io, d.model, false);
    d.lines = line_reader_new(s->arena, open_commands(s, o->commands));
    d.lines.first = o->first;
    session_clear_progress(s);
    do run_model(&d);
    while (d.restart && !d.quit);
    return d.failed ? DIAG_USER : DIAG_OK;
}

const verb verb_debug = {
    .name = "debug",
    .usage = "onnxc debug MODEL [options]",
    .summary = "Runs a model node by node: breakpoints, values, statistics. 'help' at its prompt lists the "
               "commands.",
    .table = debug_table,
    .size = sizeof(debug_options),
    .run = debug,
};
