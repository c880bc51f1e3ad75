// In: --custom-lib. Out: functions of that shared library.
#include "compiler/run/custom.h"
#include "compiler/run/probe_call.h"
#include "ir/kernel/program.h"
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

// dlopen searches only the system's folders for a name without a slash; a file of that name goes before.
static void *open_library(arena *a, const char *path, int how) {
    struct stat st;
    bool here = !strchr(path, '/') && stat(path, &st) == 0;
    return dlopen(here ? arena_printf(a, "./%s", path) : path, how);
}

onnxc_custom_function *custom_find(arena *a, diag *d, const options *o, const char *symbol, bool global) {
    onnxc_custom_function *f;
    const char *path = o->custom_lib;
    if (strcmp(symbol, PROBE_SYMBOL) == 0 && global)
        diag_fatal_missing(
            d, NULL,
            "--emit=c: values inside the model can be seen in machine code and the interpreter only");
    if (strcmp(symbol, PROBE_SYMBOL) == 0) return probe_call;
    if (!path)
        diag_fatal(d, NULL, "--custom-lib=FILE must give the shared library that has the function '%s'",
                   symbol);
    void *library = open_library(a, path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!library) diag_fatal(d, NULL, "--custom-lib: %s", dlerror());
    *(void **)&f = dlsym(library, symbol);
    if (!f) diag_fatal(d, NULL, "--custom-lib=%s: the library has no function '%s'", path, symbol);
    return f;
}

string_list custom_symbols(arena *a, const program *p) {
    string_list names = {0};
    step_list steps = program_steps(a, p);
    for (int j = 0; j < steps.n; j++) {
        const char *symbol = steps.at[j].s->symbol;
        bool known = !symbol;
        for (int i = 0; i < names.n && !known; i++) known = strcmp(names.at[i], symbol) == 0;
        if (!known) VEC_PUSH(a, &names, symbol);
    }
    return names;
}
