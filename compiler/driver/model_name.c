// In: --name, or the paths of an output and of a model. Out: the C identifier that prefixes emitted names.
#include "compiler/base/fs.h"
#include "compiler/driver/formats.h"
#include <ctype.h>
#include <string.h>

bool is_identifier(const char *s) {
    if (!isalpha((unsigned char)*s) && *s != '_') return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_') return false;
    return true;
}

enum { NAME_MOST = 31 }; // leaves room for names of kernels and tensors

// "my-model.v2.onnx" is my_model_v2, "3d.onnx" is m_3d.
static const char *identifier_of_file(arena *a, const char *path) {
    const char *base = base_name(path), *dot = strrchr(base, '.');
    size_t n = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    bool prefix = n == 0 || isdigit((unsigned char)*base);
    char *s = arena_printf(a, "%s%.*s", prefix ? "m_" : "", (int)n, base);
    for (char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p)) *p = '_';
    return fit_identifier(a, s, NAME_MOST);
}

// Outputs that other programs link or load, one file each.
static bool names_symbols(const options *o, const format *f) {
    if (!f || !o->output || is_stream(o->output)) return false;
    return f->kind != OUTPUT_VIEW && f->id != FORMAT_EXE && f->id != FORMAT_EXAMPLE;
}

// libmnist.a and mnist.o are mnist, mnist.onnx.o of mnist.onnx is mnist, too.
static const char *name_of_output(arena *a, const options *o, const format *f, const char *model) {
    const char *name = base_name(o->output);
    size_t n = strlen(name) - strlen(extension_of(name));
    bool library = f->id == FORMAT_LIB || f->id == FORMAT_SHARED;
    if (strcmp(arena_strndup(a, name, n), model) == 0) return model;
    return library && strncmp(name, "lib", 3) == 0 && isalnum((unsigned char)name[3]) ? name + 3 : name;
}

const char *model_identifier(arena *a, diag *d, const options *o, const char *path) {
    const format *f = format_of_options(o);
    const char *model = path && strcmp(path, "-") != 0 ? base_name(path) : "model";
    if (o->name && !is_identifier(o->name)) diag_error(d, NULL, "--name '%s' is not a C identifier", o->name);
    if (o->name) return o->name;
    return identifier_of_file(a, names_symbols(o, f) ? name_of_output(a, o, f, model) : model);
}
