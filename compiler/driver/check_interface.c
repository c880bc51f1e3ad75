// In: the graph of a pipeline, and an earlier report. Out: errors that state the old and the new types.
#include "compiler/driver/check_interface.h"
#include "compiler/base/json_read.h"
#include "compiler/import/file.h"
#include <string.h>

// "float[N, 4]", as messages show a type. In: the type in a report. value_type does the same for a value.
static const char *reported_type(arena *a, const json_t *v) {
    text t = {.arena = a};
    const json_t *dims = json_object_get(v, "dims"), *item = json_object_get(v, "item"), *n;
    if (strcmp(json_text_of(v, "kind"), "tensor") != 0) text_printf(&t, "%s ", json_text_of(v, "kind"));
    text_add(&t, json_text_of(v, "dtype"));
    if (dims) text_add(&t, "[");
    size_t i;
    json_array_foreach(dims, i, n) {
        text_add(&t, i ? ", " : "");
        if (json_is_integer(n)) text_printf(&t, "%lld", (long long)json_integer_value(n));
        else text_add(&t, json_is_string(n) ? json_string_value(n) : "?");
    }
    if (dims) text_add(&t, "]");
    if (item) text_printf(&t, "of %s", reported_type(a, item));
    return text_str(&t);
}

static const char *value_type(arena *a, const type *v) {
    if (v->kind == TYPE_TENSOR && v->rank >= 0) return type_text(a, v);
    return arena_printf(a, "%s%s%s%s%s", v->kind == TYPE_TENSOR ? "" : type_kind_name(v->kind),
                        v->kind == TYPE_TENSOR ? "" : " ", v->elem != DT_NONE ? dtype_name(v->elem) : "",
                        v->item ? "of " : "", v->item ? value_type(a, v->item) : "");
}

// The inputs or outputs of the model.
typedef struct ports {
    value *const *values;
    const char *const *names;
    int n;
} ports;

static const char *reported_name(const json_t *list, int i) {
    return json_text_of(json_array_get(list, (size_t)i), "name");
}

static int find_port(const ports *list, const char *name) {
    int i = 0;
    while (i < list->n && strcmp(list->names[i], name) != 0) i++;
    return i;
}

static bool is_reported(const json_t *list, const char *name) {
    bool found = false;
    for (int i = 0; i < (int)json_array_size(list); i++) found |= strcmp(reported_name(list, i), name) == 0;
    return found;
}

static void compare(pipeline *p, const char *file, const char *what, const ports *now, const json_t *before) {
    arena *a = p->arena;
    int had = (int)json_array_size(before), errors = p->diag->errors;
    for (int i = 0; i < had; i++) {
        const char *name = reported_name(before, i);
        int new = find_port(now, name);
        const char *was = reported_type(a, json_array_get(before, (size_t)i));
        const char *is = new < now->n ? value_type(a, &now->values[new]->type) : "";
        if (new == now->n)
            diag_error(p->diag, NULL, "%s '%s' of '%s' is missing from the model", what, name, file);
        else if (strcmp(was, is) != 0)
            diag_error(p->diag, NULL, "%s '%s' is %s, but %s in '%s'", what, name, is, was, file);
    }
    for (int i = 0; i < now->n; i++)
        if (!is_reported(before, now->names[i]))
            diag_error(p->diag, NULL, "%s '%s' is not in '%s'", what, now->names[i], file);
    for (int i = 0; i < now->n && i < had && p->diag->errors == errors; i++) {
        const char *is = now->names[i], *was = reported_name(before, i);
        if (strcmp(is, was) != 0)
            diag_error(p->diag, NULL, "%s %d is '%s', but '%s' in '%s'", what, i, is, was, file);
    }
}

static const json_t *reported_list(pipeline *p, const char *file, const json_t *report, const char *key) {
    const json_t *list = json_object_get(report, key);
    if (json_is_array(list)) return list;
    diag_hint(p->diag, "onnxc MODEL -o FILE.json writes such a file");
    diag_fatal(p->diag, NULL, "--check-interface: '%s' has no list of %s", file, key);
}

void check_interface(pipeline *p, const char *file) {
    enum { FILE_MOST = 1 << 28 };
    const graph *g = p->module->main;
    mapped m = file_map(p->arena, p->diag, file, FILE_MOST);
    const char *what = arena_printf(p->arena, "--check-interface: '%s' is not valid JSON: ", file);
    const json_t *before = json_parse(p->arena, p->diag, what, (const char *)m.data, m.size);
    VEC_PUSH(p->arena, &p->files, arena_strdup(p->arena, file));
    const char **names = ARENA_ARRAY(p->arena, const char *, g->inputs.n + 1);
    for (int i = 0; i < g->inputs.n; i++) names[i] = g->inputs.at[i]->name;
    ports inputs = {g->inputs.at, names, g->inputs.n};
    ports outputs = {g->outputs.at, g->output_names.at, g->outputs.n};
    compare(p, file, "input", &inputs, reported_list(p, file, before, "inputs"));
    compare(p, file, "output", &outputs, reported_list(p, file, before, "outputs"));
    diag_check(p->diag);
}
