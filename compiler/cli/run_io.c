// Reads and generates inputs; writes and prints outputs.
#include "compiler/cli/run_io.h"
#include "compiler/base/fs.h"
#include "compiler/cli/run_stream.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// The one port that needs a value by itself: no state that begins with zeros, no default. -1: none, or several.
static int only_port(const port *ports, int n) {
    int only = -1;
    for (int j = 0; j < n; j++) {
        if (ports[j].begins_zero || ports[j].has_default) continue;
        if (only >= 0) return -1;
        only = j;
    }
    return only;
}

int match_port(const char *v, const port *ports, int n, const char **rest) {
    int best = -1, only = strchr(v, '=') ? -1 : only_port(ports, n);
    size_t length = 0;
    for (int j = 0; j < n; j++) {
        size_t k = strlen(ports[j].name);
        if (strncmp(v, ports[j].name, k) == 0 && v[k] == '=' && (best < 0 || k > length))
            best = j, length = k;
    }
    *rest = best < 0 ? v : v + length + 1;
    return only >= 0 && strcmp(v, ports[only].name) != 0 ? only : best;
}

static int find_port(session *s, const char *option, const char *v, const port *ports, int n,
                     const char **rest) {
    int j = match_port(v, ports, n, rest);
    if (j >= 0) return j;
    text t = {.arena = s->arena};
    for (j = 0; j < n; j++) text_printf(&t, "%s%s", j ? ", " : "", ports[j].name);
    if (n) diag_hint(&s->diag, "the model has %s", text_str(&t));
    diag_fatal(&s->diag, NULL, strchr(v, '=') ? "%s %s: no such name" : "%s %s: not of the form NAME=FILE",
               option, v);
}

static tensor random_input(session *s, const io_options *o, const port *p, const char *range) {
    int64_t sizes[MAX_RANK];
    for (int j = 0; j < p->rank; j++) sizes[j] = options_size(&s->options, p->sizes[j]);
    return value_random(s->arena, &s->diag, p, sizes, range, (uint64_t)o->seed);
}

static tensor read_input(session *s, const io_options *o, const port *p, const char *path) {
    port open = o->signals ? whole_signal(p) : *p;
    return tensor_of_value(s->arena, p, value_read(s->arena, &s->diag, &open, path));
}

static tensor named_input(session *s, const io_options *o, const port *p, const char *from) {
    struct stat st;
    bool number = *from && strspn(from, "+-.0123456789eE,[] ") == strlen(from);
    if (number && stat(from, &st) != 0) {
        diag_hint(&s->diag,
                  "numbers stand in a file: .npy, .npz, .pb, .csv or raw; %s=random:5..5 is 5 everywhere",
                  p->name);
        diag_fatal(&s->diag, NULL, "--input %s=%s: there is no file '%s'", p->name, from, from);
    }
    if (strcmp(from, "random") == 0) return random_input(s, o, p, "");
    if (strncmp(from, "random:", 7) == 0) return random_input(s, o, p, from + 7);
    return read_input(s, o, p, from);
}

void expect_inputs(session *s, const io_options *o) {
    s->given = &o->inputs;
    s->files = (input_files){.arena = s->arena, .folder = o->input_dir};
}

tensor *read_inputs(session *s, const io_options *o, const runnable *r, bool fill) {
    tensor *in = ARENA_ARRAY(s->arena, tensor, r->nin + 1);
    bool *given = ARENA_ARRAY(s->arena, bool, r->nin + 1), *named = ARENA_ARRAY(s->arena, bool, r->nin + 1);
    for (int j = 0; o->input_dir && j < r->nin; j++) {
        if (r->in[j].begins_zero) continue; // not an input of the model
        int number = j < s->files.number.n ? s->files.number.at[j] : j;
        const char *path = input_file(s->arena, o->input_dir, number);
        in[j] = read_input(s, o, &r->in[j], path);
        given[j] = true;
    }
    for (int i = 0; i < o->inputs.n; i++) {
        const char *from;
        int j = find_port(s, "--input", o->inputs.at[i], r->in, r->nin, &from);
        if (named[j])
            diag_fatal(&s->diag, NULL, "--input %s: '%s' has a value already", o->inputs.at[i],
                       r->in[j].name);
        in[j] = named_input(s, o, &r->in[j], from);
        given[j] = named[j] = true;
    }
    for (int j = 0; j < r->nin; j++) {
        if (given[j]) continue;
        if (r->in[j].has_default) {
            in[j] = tensor_of_default(&r->in[j]);
            continue;
        }
        if (fill || r->in[j].begins_zero) {
            in[j] =
                r->in[j].begins_zero ? state_before(s->arena, r, in, j) : random_input(s, o, &r->in[j], "");
            continue;
        }
        diag_hint(&s->diag, "--input %s=FILE or --input %s=random", r->in[j].name, r->in[j].name);
        diag_error(&s->diag, NULL, "input '%s' (%s) is missing", r->in[j].name,
                   port_text(s->arena, &r->in[j]));
    }
    diag_check(&s->diag);
    return in;
}

// What may be the file of "NAME=FILE", as names may contain '=', or of "FILE"; the next one after it, or NULL.
static const char *next_file(const char *v) {
    const char *equals = strchr(v, '=');
    return equals ? equals + 1 : NULL;
}
static const char *first_file(const char *v) { return strchr(v, '=') ? next_file(v) : v; }

static bool may_be_one_file(const char *v, const char *other) {
    for (const char *a = first_file(v); a; a = next_file(a))
        for (const char *b = first_file(other); b; b = next_file(b))
            if (same_file(a, b)) return true;
    return false;
}

static void check_output_name(session *s, const char *v, const char *option, const string_list *others,
                              int n) {
    for (int i = 0; i < n; i++)
        if (may_be_one_file(v, others->at[i]))
            diag_fatal(&s->diag, NULL, "--output %s: that is the file of %s %s", v, option, others->at[i]);
}

void check_output_names(session *s, const io_options *o, const string_list *compare) {
    for (int i = 0; i < o->outputs.n; i++) {
        const char *v = o->outputs.at[i];
        if (may_be_one_file(v, s->args.at[0]))
            diag_fatal(&s->diag, NULL, "--output %s: that is the model", v);
        check_output_name(s, v, "--input", &o->inputs, o->inputs.n);
        check_output_name(s, v, "--compare", compare, compare->n);
        check_output_name(s, v, "--output", &o->outputs, i);
        value_check_path(&s->diag, v);
    }
}

void write_outputs(session *s, const io_options *o, const runnable *r, const tensor *out) {
    if (o->output_dir && mkdir(o->output_dir, 0777) && errno != EEXIST)
        diag_fatal(&s->diag, NULL, "cannot make folder '%s': %s", o->output_dir, strerror(errno));
    for (int j = 0; o->output_dir && j < r->nout; j++)
        value_write(s->arena, &s->diag, value_of_port(s->arena, &r->out[j], &out[j]),
                    arena_printf(s->arena, "%s/output_%d.pb", o->output_dir, j));
    for (int i = 0; i < o->outputs.n; i++) {
        const char *path;
        int j = find_port(s, "--output", o->outputs.at[i], r->out, r->nout, &path);
        value_write(s->arena, &s->diag, value_of_port(s->arena, &r->out[j], &out[j]), path);
    }
    if (o->output_dir || o->outputs.n || o->quiet) return;
    text t = {.arena = s->arena};
    for (int j = 0; j < r->nout; j++) value_print(&t, value_of_port(s->arena, &r->out[j], &out[j]), o->all);
    fputs(text_str(&t), stdout);
}
