// The commands of onnxc debug. In: a line. Out: what it shows or changes.
#include "compiler/cli/debug.h"
#include "compiler/values/values.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct command {
    const char *name, *alias, *arguments, *help;
    void (*run)(debugger *d, const char *rest);
} command;
static const command commands[];

// ---------------------------------------------------------------- moving on
static void move(debugger *d, motion m, const char *rest) {
    int64_t n = 1;
    if (d->ended) {
        printf("the run has ended; 'restart' runs the model again\n");
        return;
    }
    if (*rest && !parse_int64(rest, 1, &n)) {
        printf("'%s' is not a number of steps\n", rest);
        return;
    }
    d->motion = m, d->count = n, d->resume = true;
}
static void do_step(debugger *d, const char *rest) { move(d, MOVE_STEP, rest); }
static void do_next(debugger *d, const char *rest) { move(d, MOVE_NEXT, rest); }
static void do_finish(debugger *d, const char *rest) { move(d, MOVE_FINISH, rest); }
static void do_continue(debugger *d, const char *rest) { move(d, MOVE_CONTINUE, rest); }
static void do_restart(debugger *d, const char *rest) { (void)rest, d->restart = true; }
static void do_quit(debugger *d, const char *rest) { (void)rest, d->quit = true; }

// ---------------------------------------------------------------- where to stop
static void list_breakpoints(const debugger *d) {
    bool any = false;
    for (int j = 0; j < d->breakpoints.n; j++) {
        const breakpoint *b = d->breakpoints.at[j];
        if (b) printf("%d: %s, hit %d time%s\n", j + 1, b->said, b->hits, b->hits == 1 ? "" : "s");
        any |= b != NULL;
    }
    if (!any) printf("no breakpoints\n");
}

static void do_break(debugger *d, const char *rest) {
    if (!*rest) {
        list_breakpoints(d);
        return;
    }
    breakpoint *b = ARENA_NEW(d->arena, breakpoint);
    *b = (breakpoint){.said = rest, .at = ARENA_ARRAY(d->arena, bool, d->probes->nodes.n + 1)};
    int n = debug_resolve(d, rest, b->at), first = 0;
    if (!n) {
        printf("no node, value or operator matches '%s'\n", rest);
        return;
    }
    VEC_PUSH(d->arena, &d->breakpoints, b);
    while (!b->at[first]) first++;
    printf("breakpoint %d: ", d->breakpoints.n);
    if (n == 1) printf("%s\n", debug_node_text(d, d->probes->nodes.at[first]));
    else printf("%d nodes, the first is %s\n", n, debug_node_text(d, d->probes->nodes.at[first]));
}

static void do_delete(debugger *d, const char *rest) {
    int64_t n;
    if (!*rest) d->breakpoints.n = 0;
    else if (!parse_int64(rest, 1, &n) || n > d->breakpoints.n) printf("there is no breakpoint %s\n", rest);
    else d->breakpoints.at[n - 1] = NULL;
}

static void do_watch(debugger *d, const char *rest) {
    if (strcmp(rest, "nan") == 0) d->watch_nan = true;
    else if (strcmp(rest, "inf") == 0) d->watch_inf = true;
    else if (strcmp(rest, "off") == 0) d->watch_nan = d->watch_inf = false;
    else if (*rest) printf("watch nan, watch inf or watch off\n");
    printf("watching for: %s\n", d->watch_nan && d->watch_inf ? "NaN, infinities"
                                 : d->watch_nan               ? "NaN"
                                 : d->watch_inf               ? "infinities"
                                                              : "nothing");
}

// ---------------------------------------------------------------- looking
static void do_print(debugger *d, const char *rest) {
    bool all = strncmp(rest, "-a ", 3) == 0;
    if (all) rest += 3;
    if (*rest) debug_show_value(d, rest, all);
    else debug_show_outputs(d);
}

static void do_stats(debugger *d, const char *rest) { debug_show_stats(d, rest); }
static void do_where(debugger *d, const char *rest) { (void)rest, debug_show_place(d); }

// One of the nodes that a name means; NULL: reported.
static const probed_node *one_node(debugger *d, const char *said) {
    int64_t number;
    const char *digits = *said == '#' ? said + 1 : said;
    if (!*said) return d->here;
    if (parse_int64(digits, 0, &number) && number < d->probes->nodes.n) return d->probes->nodes.at[number];
    bool *at = ARENA_ARRAY(d->arena, bool, d->probes->nodes.n + 1);
    if (!debug_resolve(d, said, at)) {
        printf("no node, value or operator matches '%s'\n", said);
        return NULL;
    }
    int first = 0;
    while (!at[first]) first++;
    return d->probes->nodes.at[first];
}

static void do_info(debugger *d, const char *rest) {
    const probed_node *n = one_node(d, rest);
    if (n) debug_show_node(d, n);
    else if (!*rest) debug_show_place(d);
}

static void do_list(debugger *d, const char *rest) {
    enum { LISTED = 11 };
    const probed_node *n = one_node(d, rest);
    if (n || !*rest) debug_show_list(d, n, LISTED);
}

// ---------------------------------------------------------------- changing values
typedef struct reading {
    debugger *d;
    port port;
    const char *path;
    import_value *value; // the result; of a writing: what is written
} reading;

static void read_file(void *user) {
    reading *r = user;
    r->value = value_read(r->d->arena, &r->d->session->diag, &r->port, r->path);
}
static void write_file(void *user) {
    reading *r = user;
    value_write(r->d->arena, &r->d->session->diag, r->value, r->path);
}

static bool attempt(debugger *d, void (*step)(void *user), reading *r) {
    const diag_message *why;
    bool done = diag_attempt(&d->session->diag, step, r, &why);
    if (!done) printf("%s\n", why->text);
    return done;
}

static bool is_visible(const debugger *d, const debug_value *v) {
    const probed_node *n = v->node;
    if (!n || !n->owner) return true;
    for (const probed_node *o = d->here; o; o = o->owner)
        if (o->owner == n->owner) return true;
    return false;
}

// NULL: the value's memory is in use by the run.
static const char *not_settable(const debugger *d, const debug_value *v) {
    if (d->ended) return "the run has ended";
    if (!v->memory.data) return "it is known before the run, or not a tensor of numbers";
    if (!is_visible(d, v)) return "the body that computed it has ended";
    if (d->compiled && v->node && v->node != d->previous)
        return "compiled code may have used its memory for other values: only outputs of the node that ran "
               "last "
               "can be set";
    return NULL;
}

static void fill(tensor *t, const char *number) {
    double v = strtod(number, NULL);
    for (int64_t i = 0; i < t->count; i++) dtype_store_float(t->dtype, t->data, i, v, true);
    tensor_normalize(t);
}

static bool is_number(const char *s) {
    char *end;
    strtod(s, &end);
    return end != s && !*end;
}

static void set_value(debugger *d, debug_value *v, const char *from) {
    tensor *t = &v->memory, given;
    reading r = {.d = d, .path = from, .port = {.name = v->name, .kind = TYPE_TENSOR, .dtype = t->dtype}};
    r.port.rank = t->rank;
    for (int j = 0; j < t->rank; j++) {
        r.port.dims[j] = t->dims[j];
        r.port.sizes[j] = arena_printf(d->arena, "%lld", (long long)t->dims[j]);
    }
    if (is_number(from)) {
        fill(t, from);
    } else {
        if (!attempt(d, read_file, &r)) return;
        given = tensor_of(d->arena, r.value->tensor);
        if (t->count) memcpy(t->data, given.data, (size_t)dtype_size(t->dtype, t->count));
    }
    tensor copy = tensor_new(d->arena, t->dtype, t->rank, t->dims);
    if (t->count) memcpy(copy.data, t->data, (size_t)dtype_size(t->dtype, t->count));
    v->value = value_of_tensor(d->arena, v->name, &copy);
    debug_show_summary(d, v->name);
}

// Splits "NAME = FILE"; false: reported.
static bool split(debugger *d, const char *rest, const char **name, const char **file) {
    const char *equals = strstr(rest, " = ");
    size_t skip = 3;
    if (!equals) equals = strrchr(rest, '='), skip = 1;
    if (!equals || equals == rest || !equals[skip]) {
        printf("expected NAME = FILE\n");
        return false;
    }
    *name = arena_strndup(d->arena, rest, (size_t)(equals - rest));
    *file = equals + skip;
    return true;
}

static void do_set(debugger *d, const char *rest) {
    const char *name, *file;
    if (!split(d, rest, &name, &file)) return;
    debug_value *v = debug_find(d, name);
    if (!v) {
        if (debug_known(d, name)) printf("'%s' is a constant\n", name);
        return;
    }
    const char *why = not_settable(d, v);
    if (why) printf("'%s' cannot be set: %s\n", name, why);
    else set_value(d, v, file);
}

static void do_write(debugger *d, const char *rest) {
    const char *name, *file;
    if (!split(d, rest, &name, &file)) return;
    const import_value *v = debug_known(d, name);
    reading r = {.d = d, .path = file};
    if (!v) return;
    import_value copy = *v;
    r.value = &copy;
    attempt(d, write_file, &r);
}

// ---------------------------------------------------------------- about commands
static void do_history(debugger *d, const char *rest) {
    (void)rest;
    for (int i = 0; i < d->lines.history.n; i++) printf("%4d  %s\n", i + 1, d->lines.history.at[i]);
}

static void do_help(debugger *d, const char *rest) {
    enum { HELP_COLUMN = 26 };
    (void)d, (void)rest;
    for (const command *c = commands; c->name; c++) {
        const char *form = arena_printf(d->arena, "%s%s%s%s%s", c->name, *c->alias ? ", " : "", c->alias,
                                        *c->arguments ? " " : "", c->arguments);
        printf("  %-*s %s\n", HELP_COLUMN, form, c->help);
    }
    printf("WHAT is the name of a node or of a value, an operator, or a regular expression for names. An "
           "empty line\n"
           "repeats the last command.\n");
}

static const command commands[] = {
    {"step", "s", "[N]", "run to the next node, into bodies and functions", do_step},
    {"next", "n", "[N]", "run to the next node, over bodies and functions", do_next},
    {"finish", "f", "", "run to the end of this body or function", do_finish},
    {"continue", "c", "[N]", "run to the next breakpoint, or the Nth, or the end", do_continue},
    {"restart", "r", "", "run from the start", do_restart},
    {"break", "b", "[WHAT]", "stop before these nodes; alone: list the breakpoints", do_break},
    {"delete", "d", "[N]", "delete breakpoint N, or all", do_delete},
    {"watch", "", "nan|inf|off", "stop after a node that computes NaN or infinities", do_watch},
    {"print", "p", "[-a] [VALUE]", "a value or a part of it, h[0, 1:3, ..., -1]; -a: all elements", do_print},
    {"stats", "", "[VALUE]", "type and range of a value, or of all values", do_stats},
    {"info", "i", "[WHAT]", "a node: inputs, outputs, attributes; alone: the next one", do_info},
    {"list", "l", "[WHAT]", "nodes around the next one, or around others", do_list},
    {"where", "w", "", "the node that runs next", do_where},
    {"set", "", "VALUE = FILE", "replace the elements by those of a file, or by one number", do_set},
    {"write", "", "VALUE = FILE", "write a value (.npy, .npz, .pb, .csv, raw .bin)", do_write},
    {"history", "", "", "commands so far", do_history},
    {"help", "h", "", "this list", do_help},
    {"quit", "q", "", "leave", do_quit},
    {NULL},
};

// By name, alias, or the beginning of one name; NULL: reported.
static const command *find(debugger *d, const char *word) {
    const command *found = NULL;
    int n = 0;
    for (const command *c = commands; c->name; c++) {
        if (strcmp(c->name, word) == 0 || strcmp(c->alias, word) == 0) return c;
        if (strncmp(c->name, word, strlen(word)) == 0) found = c, n++;
    }
    if (n == 1) return found;
    const char *names[sizeof commands / sizeof *commands];
    int known = 0;
    for (const command *c = commands; c->name; c++) names[known++] = c->name;
    const char *near = nearest_word(d->arena, word, names, known);
    if (n > 1) printf("'%s' begins more than one command; 'help' lists them\n", word);
    else
        printf("there is no command '%s'; %s\n", word,
               near ? arena_printf(d->arena, "did you mean '%s'?", near) : "'help' lists them");
    return NULL;
}

void debug_command(debugger *d, const char *line) {
    while (isspace((unsigned char)*line)) line++;
    if (*line == '#') return; // a comment in a file
    if (!*line) line = d->last ? d->last : "";
    if (!*line) return;
    d->last = line;
    size_t n = strcspn(line, " \t");
    const command *c = find(d, arena_strndup(d->arena, line, n));
    while (isspace((unsigned char)line[n])) n++;
    size_t end = strlen(line);
    while (end > n && isspace((unsigned char)line[end - 1])) end--;
    if (c) c->run(d, arena_strndup(d->arena, line + n, end - n));
}
