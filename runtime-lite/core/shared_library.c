// Models in shared libraries. In: a file and optionally a model's name. Out: the model's symbols.
#include "runtime-lite/core/runtime.h"
#include "runtime-lite/system/system.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct onnxc_library {
    void *handle;
    onnxc_model model;
};

static _Thread_local char message_text[512];

#define SAY(...) (snprintf(message_text, sizeof message_text, __VA_ARGS__), *message = message_text)

// ---------------------------------------------------------------- names of the library's models
typedef struct models {
    char name[256]; // of the last one
    int n;
} models;

static void note_model(void *user, const char *name) {
    static const char ending[] = "_descriptor";
    models *m = user;
    size_t length = strlen(name), suffix = sizeof ending - 1;
    if (length <= suffix || strcmp(name + length - suffix, ending) != 0) return;
    snprintf(m->name, sizeof m->name, "%.*s", (int)(length - suffix), name);
    m->n++;
}

// The name of the only model; NULL and a message if there is none or several.
static const char *only_model(void *handle, const char *path, const char **message) {
    static _Thread_local models m;
    m.n = 0;
    system_library_names(handle, note_model, &m);
    if (m.n == 1) return m.name;
    if (m.n) SAY("'%s' contains %d models: name one", path, m.n);
    else SAY("'%s' contains no model", path);
    return NULL;
}

// ---------------------------------------------------------------- opening
static void *symbol(void *handle, const char *name, const char *ending) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", name, ending);
    return system_symbol(handle, full);
}

static int bind(onnxc_library *l, const char *name) {
    void *run = symbol(l->handle, name, "_run_generic"),
         *workspace = symbol(l->handle, name, "_workspace_generic");
    l->model.descriptor = symbol(l->handle, name, "_descriptor");
    memcpy(&l->model.run, &run, sizeof run); // POSIX: a function's address fits
    memcpy(&l->model.workspace, &workspace, sizeof workspace);
    void *open = symbol(l->handle, name, "_open"), *close = symbol(l->handle, name, "_close");
    memcpy(&l->model.open, &open, sizeof open);
    memcpy(&l->model.close, &close, sizeof close);
    return l->model.descriptor && run && workspace;
}

// Nothing else of a descriptor is read before this: all versions of the interface begin in the same way.
static int is_known(const onnxc_descriptor *d, const char *path, const char *name, const char **message) {
    if (memcmp(d->magic, "onnxc-m", 8) != 0)
        SAY("'%s_descriptor' in '%s' is not a descriptor of a model", name, path);
    else if (d->interface_version != ONNXC_INTERFACE)
        SAY("model '%s' in '%s' has interface version %u, but this program needs %d; compile the model again "
            "with "
            "the onnxc that belongs to the program",
            name, path, (unsigned)d->interface_version, ONNXC_INTERFACE);
    else return 1;
    return 0;
}

static int open_into(onnxc_library *l, const char *path, const char *name, const char **message) {
    l->handle = system_library(path);
    if (!l->handle) {
        SAY("%s", system_library_error());
        return 0;
    }
    if (!name) name = only_model(l->handle, path, message);
    if (!name) return 0;
    if (!bind(l, name)) {
        SAY("'%s' contains no model '%s'", path, name);
        return 0;
    }
    return is_known(l->model.descriptor, path, name, message);
}

onnxc_library *onnxc_library_open(const char *path, const char *name, const char **message) {
    const char *unwanted;
    if (!message) message = &unwanted;
    onnxc_library *l = calloc(1, sizeof *l);
    if (!l) {
        SAY("out of memory");
        return NULL;
    }
    if (open_into(l, path, name, message)) return l;
    onnxc_library_close(l);
    return NULL;
}

onnxc_model onnxc_library_model(const onnxc_library *l) { return l->model; }

void onnxc_library_close(onnxc_library *l) {
    if (l && l->handle) system_library_close(l->handle);
    free(l);
}
