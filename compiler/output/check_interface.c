// Compares interfaces. In: a pipeline and a report of before. Out: errors that say what was and what is.
#include "compiler/output/check_interface.h"
#include "compiler/base/json_read.h"
#include "compiler/import/file.h"
#include "compiler/report/report.h"
#include <string.h>

// "float[N, 4]", as the messages call a type.
static const char *type_of(arena *a, const json_t *v) {
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
    if (item) text_printf(&t, "of %s", type_of(a, item));
    return text_str(&t);
}

static const char *name_at(const json_t *list, size_t i) {
    return json_text_of(json_array_get(list, i), "name");
}

static const json_t *find(const json_t *list, const char *name) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(name_at(list, i), name) == 0) return json_array_get(list, i);
    return NULL;
}

static void compare(pipeline *p, const char *file, const char *what, const json_t *now,
                    const json_t *before) {
    arena *a = p->arena;
    size_t have = json_array_size(now), had = json_array_size(before);
    int errors = p->diag->errors;
    for (size_t i = 0; i < had; i++) {
        const char *name = name_at(before, i);
        const json_t *new = find(now, name);
        const char *was = type_of(a, json_array_get(before, i)), *is = new ? type_of(a, new) : "";
        if (!new) diag_error(p->diag, NULL, "%s '%s' of '%s' is missing from the model", what, name, file);
        else if (strcmp(was, is) != 0)
            diag_error(p->diag, NULL, "%s '%s' is %s, but %s in '%s'", what, name, is, was, file);
    }
    for (size_t i = 0; i < have; i++)
        if (!find(before, name_at(now, i)))
            diag_error(p->diag, NULL, "%s '%s' is not in '%s'", what, name_at(now, i), file);
    for (size_t i = 0; i < have && i < had && p->diag->errors == errors; i++) {
        const char *is = name_at(now, i), *was = name_at(before, i);
        if (strcmp(is, was) != 0)
            diag_error(p->diag, NULL, "%s %d is '%s', but '%s' in '%s'", what, (int)i, is, was, file);
    }
}

void check_interface(pipeline *p, const char *file) {
    enum { FILE_MOST = 1 << 28 };
    mapped m = file_map(p->arena, p->diag, file, FILE_MOST);
    const char *report = report_json(p);
    const char *what = arena_printf(p->arena, "--check-interface: '%s' is not valid JSON: ", file);
    json_t *before = json_parse(p->arena, p->diag, what, (const char *)m.data, m.size),
           *now = json_parse(p->arena, p->diag, "the report: ", report, strlen(report));
    VEC_PUSH(p->arena, &p->files, arena_strdup(p->arena, file));
    static const char *const parts[] = {"inputs", "outputs"}, *const names[] = {"input", "output"};
    for (int i = 0; i < 2; i++) {
        const json_t *old = json_object_get(before, parts[i]), *new = json_object_get(now, parts[i]);
        if (!json_is_array(old)) {
            diag_hint(p->diag, "onnxc MODEL -o FILE.json writes such a file");
            diag_fatal(p->diag, NULL, "--check-interface: '%s' has no list of %s", file, parts[i]);
        }
        compare(p, file, names[i], new, old);
    }
    diag_check(p->diag);
}
