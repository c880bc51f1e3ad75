// In: --name, or the path of a model. Out: the C identifier that prefixes emitted names.
#include "compiler/driver/pipeline.h"
#include <ctype.h>
#include <string.h>

bool is_identifier(const char *s) {
    if (!isalpha((unsigned char)*s) && *s != '_') return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_') return false;
    return true;
}

// "my-model.v2.onnx" is my_model_v2, "3d.onnx" is m_3d.
static const char *identifier_of_file(arena *a, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    if (strcmp(path, "-") == 0) return "model";
    size_t n = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    bool prefix = n == 0 || isdigit((unsigned char)*base);
    char *s = arena_printf(a, "%s%.*s", prefix ? "m_" : "", (int)n, base);
    for (char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p)) *p = '_';
    return s;
}

const char *model_identifier(arena *a, diag *d, const options *o, const char *path) {
    if (!o->name) return identifier_of_file(a, path ? path : "-");
    if (!is_identifier(o->name)) diag_error(d, NULL, "--name '%s' is not a C identifier", o->name);
    return o->name;
}
