// JSON by jansson, freed with an arena. The text is untrusted.
#include "compiler/base/json_read.h"

static void drop(void *root) { json_decref(root); }

json_t *json_parse(arena *a, diag *d, const char *what, const char *s, size_t n) {
    json_error_t error;
    json_t *root = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!root) diag_fatal(d, NULL, "%sline %d, column %d: %s", what, error.line, error.column, error.text);
    arena_on_destroy(a, drop, root);
    return root;
}

const char *json_text_of(const json_t *v, const char *key) {
    const char *s = json_string_value(json_object_get(v, key));
    return s ? s : "";
}
