// In: events of a run's probes. Out: files, statistics.
#include "compiler/base/fs.h"
#include "compiler/base/outfile.h"
#include "compiler/cli/inner_impl.h"
#include "compiler/run/probe_call.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_NAME_MOST = 120 };

// ---------------------------------------------------------------- which values
static bool matches(const inner *x, const char *name) { return regexec(&x->regex, name, 0, NULL, 0) == 0; }

static bool is_selected(const inner *x, const probed_node *n, const char *name) {
    const char *node = n && n->as.loc->node ? n->as.loc->node : "";
    return !x->options->values || matches(x, name) || (*node && matches(x, node));
}

static bool wants(void *user, const probed_node *n, int output) {
    const inner *x = user;
    const char *name = n->out[output];
    if (map_get(&x->outputs, name) || x->options->stats) return true;
    return (x->options->dump || x->options->values) && is_selected(x, n, name);
}

// --values alone.
static bool prints(const inner *x) { return x->options->values && !x->options->dump && !x->options->stats; }

static bool is_model_output(const module *m, const char *said) {
    for (int j = 0; j < m->main->output_names.n; j++) {
        const char *name = m->main->output_names.at[j];
        if (strncmp(said, name, strlen(name)) == 0 && said[strlen(name)] == '=') return true;
    }
    return false;
}

// The part of NAME=FILE before an equals sign that is the name of a value inside of the model; NULL: none.
static const char *inner_name(inner *x, const char *said, const char **file) {
    const char *found = NULL;
    for (const char *equals = strchr(said, '='); equals; equals = strchr(equals + 1, '=')) {
        const char *name = arena_strndup(x->session->arena, said, (size_t)(equals - said));
        if (map_get(&x->probes->by_name, name)) found = name, *file = equals + 1;
    }
    return found;
}

static void hint_stats(inner *x) {
    diag_hint(&x->session->diag, "'onnxc run --stats' lists the values of the model");
}

static void hint_near(inner *x, const char *said) {
    string_list names = {0};
    const map *known = &x->probes->by_name;
    for (int i = 0; i < known->n; i++) VEC_PUSH(x->session->arena, &names, known->slots[i].key);
    const char *name = arena_strndup(x->session->arena, said, strcspn(said, "=")),
               *near = nearest_word(x->session->arena, name, names.at, names.n);
    if (near) diag_hint(&x->session->diag, "did you mean '%s'?", near);
    else hint_stats(x);
}

static void refuse_runner(session *s, const char *what) {
    if (s->options.runner)
        diag_fatal_missing(&s->diag, NULL, "%s needs a run in this process: leave --runner out", what);
}

// Takes the values inside of the model from the list of --output.
static void imported(void *user, const module *m) {
    inner *x = user;
    string_list *said = &x->io->outputs, kept = {0};
    for (int i = 0; i < said->n; i++) {
        const char *file = NULL, *name = NULL;
        if (!is_model_output(m, said->at[i])) name = inner_name(x, said->at[i], &file);
        if (name) map_put(&x->outputs, name, (void *)(uintptr_t)file);
        else VEC_PUSH(x->session->arena, &kept, said->at[i]);
        if (name || is_model_output(m, said->at[i]) || !strchr(said->at[i], '=')) continue;
        hint_near(x, said->at[i]);
        diag_error(&x->session->diag, NULL, "--output %s: the model has no value of that name", said->at[i]);
    }
    if (x->outputs.n) x->io->quiet = true, x->io->outputs = kept;
    if (x->outputs.n) refuse_runner(x->session, "--output of a value inside of the model");
}

// ---------------------------------------------------------------- files
// A name that every file system takes, with characters of `name`; distinct even if case does not count.
static const char *file_name(inner *x, const char *name, const char *suffix) {
    arena *a = x->session->arena;
    size_t n = strlen(name), half = FILE_NAME_MOST / 2;
    char *safe = n <= FILE_NAME_MOST ? arena_strdup(a, name)
                                     : arena_printf(a, "%.*s_%s", (int)half, name, name + n - half);
    for (char *c = safe; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-+", *c)) *c = '_';
    if (*safe == '.' || !*safe) safe = arena_printf(a, "_%s", safe);
    for (int k = 1;; k++) {
        const char *made =
            k == 1 ? arena_printf(a, "%s%s", safe, suffix) : arena_printf(a, "%s~%d%s", safe, k, suffix);
        char *key = arena_strdup(a, made);
        for (char *c = key; *c; c++) *c = (char)tolower((unsigned char)*c);
        if (map_get(&x->files, key)) continue;
        map_put(&x->files, key, x);
        return made;
    }
}

static const char *suffix_of(inner *x, const inner_value *v, const import_value *value, bool repeats) {
    bool npy = value->tensor && *dtype_npy(value->tensor->elem);
    const char *ending = npy ? "npy" : "pb";
    return repeats ? arena_printf(x->session->arena, ".%lld.%s", (long long)v->runs - 1, ending)
                   : arena_printf(x->session->arena, ".%s", ending);
}

static bool is_in_loop(const probed_node *n) {
    for (const probed_node *o = n ? n->owner : NULL; o; o = o->owner)
        if (!o->as.call && strcmp(o->as.op, "If") != 0) return true;
    return false;
}

static void index_value(inner *x, const inner_value *v, const char *file, bool repeats) {
    json *j = &x->index;
    json_open(j, NULL, '{');
    json_text(j, "name", v->name);
    json_text(j, "node", v->node ? v->node->as.loc->node : NULL);
    json_text(j, "op", v->node ? v->node->as.op : "input");
    if (v->node) json_int(j, "output", v->output);
    if (repeats) json_int(j, "iteration", v->runs - 1);
    json_text(j, "type", v->type);
    json_text(j, "dtype", v->dtype == DT_NONE ? NULL : dtype_name(v->dtype));
    json_open(j, "shape", '[');
    for (int i = 0; i < v->rank; i++) json_int(j, NULL, v->dims[i]);
    json_close(j, ']');
    json_text(j, "file", file);
    json_close(j, '}');
}

static void dump(inner *x, arena *a, const inner_value *v, const import_value *value) {
    bool repeats = v->runs > 1 || is_in_loop(v->node);
    if (x->options->dump_limit && v->runs > x->options->dump_limit) {
        x->left_out++;
        return;
    }
    const char *file = file_name(x, v->name, suffix_of(x, v, value, repeats));
    value_write(a, &x->session->diag, value, arena_printf(a, "%s/%s", x->options->dump, file));
    index_value(x, v, file, repeats);
}

static void begin_index(inner *x) {
    x->index = json_new_indented(x->session->arena);
    json_open(&x->index, NULL, '{');
    json_text(&x->index, "model", x->session->args.at[0]);
    json_open(&x->index, "values", '[');
    x->files = (map){.arena = x->session->arena};
    x->left_out = 0;
}

static void end_dump(inner *x) {
    json *j = &x->index;
    json_close(j, ']');
    json_int(j, "left_out", x->left_out);
    json_close(j, '}');
    text_add(&j->out, "\n");
    outfile_write_whole(x->session->arena, &x->session->diag,
                        arena_printf(x->session->arena, "%s/index.json", x->options->dump),
                        (bytes){json_done(j), j->out.n});
    if (x->left_out)
        diag_warning(&x->session->diag, WARN_DUMP_LIMIT, NULL,
                     "--dump-limit: %lld value%s of later iterations not written", (long long)x->left_out,
                     x->left_out == 1 ? "" : "s");
}

// ---------------------------------------------------------------- events
static const char *type_of(arena *a, const import_value *v) {
    static const char *const kinds[] = {[TYPE_NONE] = "nothing",
                                        [TYPE_SPARSE] = "sparse",
                                        [TYPE_SEQUENCE] = "sequence",
                                        [TYPE_OPTIONAL] = "optional",
                                        [TYPE_MAP] = "map"};
    if (v->kind != TYPE_TENSOR)
        return arena_printf(a, "%s of %d item%s", kinds[v->kind], v->n, v->n == 1 ? "" : "s");
    tensor t = {.dtype = v->tensor->elem, .rank = v->tensor->rank};
    memcpy(t.dims, v->tensor->dims, (size_t)t.rank * sizeof *t.dims);
    return tensor_text(a, &t);
}

static inner_value *find(inner *x, const probed_node *n, int output, const char *name) {
    inner_value *v = map_get(&x->by_name, name);
    if (v) return v;
    v = ARENA_NEW(x->session->arena, inner_value);
    *v = (inner_value){.name = name, .node = n, .output = output, .all = stats_none()};
    v->shown = is_selected(x, n, name);
    v->output_file = map_get(&x->outputs, name);
    VEC_PUSH(x->session->arena, &x->values, v);
    map_put(&x->by_name, name, v);
    return v;
}

static void print(inner *x, arena *a, const inner_value *v, const import_value *value) {
    import_value named = *value;
    named.name = v->name;
    if (v->runs > 1 || is_in_loop(v->node))
        named.name = arena_printf(a, "%s (iteration %lld)", v->name, (long long)v->runs - 1);
    value_print(&x->printed, &named, x->io->all);
}

static void take(inner *x, inner_value *v, arena *scratch, const import_value *value) {
    tensor t = {0};
    v->runs++;
    v->type = type_of(x->session->arena, value);
    v->dtype = value->tensor ? value->tensor->elem : DT_NONE;
    v->rank = 0;
    if (value->tensor) {
        t = tensor_of(scratch, value->tensor);
        v->rank = t.rank;
        memcpy(v->dims, t.dims, (size_t)t.rank * sizeof *t.dims);
    }
    if (x->options->stats) inner_note(x, v, value->tensor ? &t : NULL);
    if (x->options->dump && v->shown) dump(x, scratch, v, value);
    if (prints(x) && v->shown) print(x, scratch, v, value);
    if (v->output_file) value_write(scratch, &x->session->diag, value, v->output_file);
}

static void take_inputs(inner *x) {
    for (int j = 0; j < x->model->nin; j++) {
        const port *p = &x->model->in[j];
        arena *scratch = arena_within(x->session->arena);
        if (x->in[j].data || !p->has_default)
            take(x, find(x, NULL, 0, p->name), scratch, value_of_port(scratch, p, &x->in[j]));
        arena_destroy(scratch);
    }
}

static void start(void *user) {
    inner *x = user;
    x->begun = true;
    x->values.n = 0;
    x->by_name = (map){.arena = x->session->arena};
    x->nan = x->inf = (origin){0};
    x->printed = (text){.arena = x->session->arena};
    if (x->options->dump) begin_index(x);
    if (x->options->dump || x->options->values || x->options->stats) take_inputs(x);
}

static bool see(void *user, const probe_event *e) {
    inner *x = user;
    arena *scratch = arena_within(x->session->arena);
    for (int i = 0; i < e->n; i++) {
        const probe_value *v = &e->values[i];
        take(x, find(x, e->node, v->output, v->name), scratch, probe_read(scratch, v, false));
    }
    arena_destroy(scratch);
    return true;
}

// ---------------------------------------------------------------- the run
inner *inner_new(session *s, const inner_options *o, io_options *io) {
    const char *asked = o->dump ? "--dump" : o->stats ? "--stats" : o->values ? "--values" : NULL;
    if (!asked && !io->outputs.n) return NULL;
    if (asked) refuse_runner(s, asked);
    inner *x = ARENA_NEW(s->arena, inner);
    *x = (inner){.session = s, .options = o, .io = io, .probes = probes_new(s->arena)};
    x->by_name.arena = x->outputs.arena = x->files.arena = s->arena;
    x->probes->user = x;
    x->probes->imported = imported, x->probes->start = start, x->probes->wants = wants, x->probes->see = see;
    int bad = o->values ? regcomp(&x->regex, o->values, REG_EXTENDED | REG_NOSUB) : 0;
    if (bad) {
        char why[128];
        regerror(bad, &x->regex, why, sizeof why);
        diag_fatal(&s->diag, NULL, "--values %s: %s", o->values, why);
    }
    return x;
}

probes *inner_probes(inner *x) { return x ? x->probes : NULL; }

void inner_inputs(inner *x, const runnable *r, const tensor *in) {
    if (!x) return;
    const char *folder = x->options->dump;
    if (folder && mkdir(folder, 0777) && errno != EEXIST)
        diag_fatal(&x->session->diag, NULL, "cannot make folder '%s': %s", folder, strerror(errno));
    x->model = r, x->in = in;
}

static void check_values(inner *x) {
    for (int i = 0; i < x->values.n; i++)
        if (x->values.at[i]->shown) return;
    hint_stats(x);
    diag_fatal(&x->session->diag, NULL, "--values %s: no value or node of the model matches",
               x->options->values);
}

void inner_end(inner *x) {
    if (!x || !x->begun) return;
    if (x->options->values) check_values(x);
    fputs(text_str(&x->printed), stdout);
    if (x->options->dump) end_dump(x);
    if (x->options->stats) inner_show_stats(x);
    if (x->options->values) regfree(&x->regex);
}
