// Emitted C and CUDA text through real compilers: writes it to a folder of its own, compiles and loads it.
#ifndef COMPILE_TEXT_H
#define COMPILE_TEXT_H
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

typedef struct workdir {
    arena *a;
    const char *path;
} workdir;

static inline workdir workdir_new(arena *a) {
    const char *tmp = getenv("TMPDIR");
    char *path = arena_printf(a, "%s/onnxc-text-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(path));
    return (workdir){a, path};
}

static inline void workdir_remove(workdir w) {
    if (getenv("KEEP_TEXT")) return;
    assert_int_equal(system(arena_printf(w.a, "rm -rf '%s'", w.path)), 0);
}

static inline const char *workdir_write(workdir w, const char *name, const char *s, size_t n) {
    const char *path = arena_printf(w.a, "%s/%s", w.path, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(s, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline int have_program(arena *a, const char *name) {
    return system(arena_printf(a, "command -v %s >/dev/null 2>&1", name)) == 0;
}

// NULL: not installed.
static inline const char *find_ptxas(arena *a) {
    if (have_program(a, "ptxas")) return "ptxas";
    return have_program(a, "/usr/local/cuda/bin/ptxas") ? "/usr/local/cuda/bin/ptxas" : NULL;
}

// Runs the compiler on sources (a list in shell syntax); the loaded library.
static inline void *compile_and_load(workdir w, const char *compiler, const char *sources) {
    static int count;
    const char *lib = arena_printf(w.a, "%s/lib%d.so", w.path, count++);
    const char *command = arena_printf(w.a, "%s -fPIC -shared -o %s %s", compiler, lib, sources);
    if (system(command) != 0) fail_msg("does not compile: %s", command);
    void *dl = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!dl) fail_msg("%s", dlerror());
    return dl;
}

static inline void *find_function(void *dl, const char *name) {
    void *f = dlsym(dl, name);
    if (!f) fail_msg("no function %s", name);
    return f;
}
#endif
