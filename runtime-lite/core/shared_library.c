// Models in shared libraries. In: a file and optionally a model's name. Out: the model's symbols.
#include "runtime-lite/core/runtime.h"
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
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
typedef struct symbols {
    const ElfW(Sym) * table;
    const char *names;
    const uint32_t *hash; // GNU hash table
} symbols;

static symbols find_symbols(const struct link_map *map) {
    symbols s = {NULL, NULL, NULL};
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
        const void *at = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_SYMTAB) s.table = at;
        if (d->d_tag == DT_STRTAB) s.names = at;
        if (d->d_tag == DT_GNU_HASH) s.hash = at;
    }
    return s;
}

// The number of symbols, which only the hash table implies: one more than the last symbol in its chains.
static uint32_t count_symbols(const symbols *s) {
    uint32_t buckets = s->hash[0], first = s->hash[1], bloom = s->hash[2], last = 0;
    const uint32_t *bucket = s->hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4), *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last) last = bucket[i];
    if (last < first) return first;
    while (!(chain[last - first] & 1)) last++;
    return last + 1;
}

// The name of the only model; NULL and a message if there is none or several.
static const char *only_model(void *handle, const char *path, const char **message) {
    static const char ending[] = "_descriptor";
    static _Thread_local char found[256];
    struct link_map *map = NULL;
    int models = 0;
    symbols s = {NULL, NULL, NULL};
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) s = find_symbols(map);
    uint32_t n = s.table && s.names && s.hash ? count_symbols(&s) : 0;
    for (uint32_t i = 1; i < n; i++) {
        const char *name = s.names + s.table[i].st_name;
        size_t length = strlen(name);
        if (s.table[i].st_shndx == SHN_UNDEF || length < sizeof ending) continue;
        if (strcmp(name + length - (sizeof ending - 1), ending) != 0) continue;
        snprintf(found, sizeof found, "%.*s", (int)(length - (sizeof ending - 1)), name);
        models++;
    }
    if (models == 1) return found;
    if (models) SAY("'%s' contains %d models: name one", path, models);
    else SAY("'%s' contains no model", path);
    return NULL;
}

// ---------------------------------------------------------------- opening
static void *symbol(void *handle, const char *name, const char *ending) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", name, ending);
    return dlsym(handle, full);
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
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle) {
        SAY("%s", dlerror());
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
    if (l && l->handle) dlclose(l->handle);
    free(l);
}
