// Compares interfaces. In: a pipeline and a report of before. Out: errors that say what was and what is.
#include "compiler/output/check_interface.h"
#include "compiler/base/json_read.h"
#include "compiler/import/file.h"
#include "compiler/report/report.h"
#include <string.h>

// "float[N, 4]", as the messages call a type.
static const char *type_of(arena *a, const json_value *v) {
    text t = {.arena = a};
    const json_value *dims = json_member(v, "dims"), *item = json_member(v, "item");
    if (strcmp(json_string_of(v, "kind"), "tensor") != 0) text_printf(&t, "%s ", json_string_of(v, "kind"));
    text_add(&t, json_string_of(v, "dtype"));
    if (dims) text_add(&t, "[");
    for (int i = 0; dims && i < dims->items.n; i++)
        text_printf(&t, "%s%s", i ? ", " : "", dims->items.at[i]->text ? dims->items.at[i]->text : "?");
    if (dims) text_add(&t, "]");
    if (item) text_printf(&t, "of %s", type_of(a, item));
    return text_str(&t);
}

static const json_value *find(const json_value *list, const char *name) {
    for (int i = 0; list && i < list->items.n; i++)
        if (strcmp(json_string_of(list->items.at[i], "name"), name) == 0) return list->items.at[i];
    return NULL;
}

static void compare(pipeline *p, const char *file, const char *what, const json_value *now,
                    const json_value *before) {
    arena *a = p->arena;
    int places = now->items.n < before->items.n ? now->items.n : before->items.n, errors = p->diag->errors;
    for (int i = 0; i < before->items.n; i++) {
        const json_value *old = before->items.at[i], *new = find(now, json_string_of(old, "name"));
        const char *was = type_of(a, old), *is = new ? type_of(a, new) : "";
        if (!new)
            diag_error(p->diag, NULL, "%s '%s' of '%s' is missing from the model", what,
                       json_string_of(old, "name"), file);
        else if (strcmp(was, is) != 0)
            diag_error(p->diag, NULL, "%s '%s' is %s, but %s in '%s'", what, json_string_of(old, "name"), is,
                       was, file);
    }
    for (int i = 0; i < now->items.n; i++)
        if (!find(before, json_string_of(now->items.at[i], "name")))
            diag_error(p->diag, NULL, "%s '%s' is not in '%s'", what,
                       json_string_of(now->items.at[i], "name"), file);
    for (int i = 0; i < places && p->diag->errors == errors; i++) {
        const char *is = json_string_of(now->items.at[i], "name"),
                   *was = json_string_of(before->items.at[i], "name");
        if (strcmp(is, was) != 0)
            diag_error(p->diag, NULL, "%s %d is '%s', but '%s' in '%s'", what, i, is, was, file);
    }
}

void check_interface(pipeline *p, const char *file) {
    enum { FILE_MOST = 1 << 28 };
    size_t at = 0;
    mapped m = file_map(p->arena, p->diag, file, FILE_MOST);
    const char *report = report_json(p);
    const json_value *before = json_parse(p->arena, (const char *)m.data, m.size, &at),
                     *now = json_parse(p->arena, report, strlen(report), NULL);
    VEC_PUSH(p->arena, &p->files, arena_strdup(p->arena, file));
    if (!before) diag_fatal(p->diag, NULL, "--check-interface: '%s' is not valid JSON at byte %zu", file, at);
    static const char *const parts[] = {"inputs", "outputs"}, *const names[] = {"input", "output"};
    for (int i = 0; i < 2; i++) {
        const json_value *old = json_member(before, parts[i]), *new = json_member(now, parts[i]);
        if (!old || old->kind != JSON_LIST) {
            diag_hint(p->diag, "onnxc MODEL -o FILE.json writes such a file");
            diag_fatal(p->diag, NULL, "--check-interface: '%s' has no list of %s", file, parts[i]);
        }
        compare(p, file, names[i], new, old);
    }
    diag_check(p->diag);
}
