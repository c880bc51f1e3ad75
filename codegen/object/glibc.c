// In: an object, the runtime library. Out: the functions of glibc that get older versions of their symbols (runtime-lite/core/glibc_versions.h).
#include "codegen/object/glibc.h"
#include "codegen/object/elf.h"
#include <string.h>

static const struct {
    const char *name, *library;
} WRAPPED[] = {
    {"pthread_create", "libpthread.so.0"},
    {"pthread_mutex_trylock", "libpthread.so.0"},
    {"pthread_once", "libpthread.so.0"},
    {"pthread_sigmask", "libpthread.so.0"},
    {"dlopen", "libdl.so.2"},
    {"dlsym", "libdl.so.2"},
    {"dlerror", "libdl.so.2"},
};

static void collect(arena *a, diag *d, map *to, const archive_member *m, bool defined) {
    elf_file *f = elf_read(a, d, m->content, m->name);
    for (int i = 0; i < f->symbols.n; i++) {
        const elf_symbol *s = &f->symbols.at[i];
        if (!s->local && (s->section != NULL) == defined) map_put(to, s->name, f);
    }
}

glibc_wraps glibc_wraps_of(arena *a, diag *d, bytes object, const archive *runtime) {
    glibc_wraps w = {0};
    archive r = {0};
    map wanted = {.arena = a}, wrappers = {.arena = a};
    VEC_PUSH(a, &r.members, (archive_member){"model.o", object});
    archive_add_needed(a, d, &r, runtime);
    for (int i = 1; i < r.members.n; i++) collect(a, d, &wanted, &r.members.at[i], false);
    for (int i = 0; i < runtime->members.n; i++)
        if (strncmp(runtime->members.at[i].name, "glibc_", 6) == 0)
            collect(a, d, &wrappers, &runtime->members.at[i], true);
    for (size_t i = 0; i < sizeof WRAPPED / sizeof *WRAPPED; i++) {
        const char *name = WRAPPED[i].name;
        if (!map_get(&wanted, name) || !map_get(&wrappers, arena_printf(a, "__wrap_%s", name))) continue;
        VEC_PUSH(a, &w.names, name);
        w.libraries[strncmp(name, "dl", 2) == 0] = WRAPPED[i].library;
    }
    return w;
}
