// The table of library functions.
#include "ir/kernel/library.h"

static const struct {
    const char *name;
    onnxc_lib_function *f;
    int needs;
} functions[] = {
#define X(name, needs) {#name, onnxc_lib_##name, needs},
    ONNXC_LIBRARY(X)
#undef X
};

int library_count(void) { return sizeof functions / sizeof *functions; }
const char *library_name(int i) { return functions[i].name; }

static int index_of(const char *name) {
    int i = library_count() - 1;
    while (i >= 0 && strcmp(functions[i].name, name) != 0) i--;
    return i;
}

onnxc_lib_function *library_find(const char *name) {
    int i = index_of(name);
    return i < 0 ? NULL : functions[i].f;
}

bool library_allocates(const char *name) {
    int i = index_of(name);
    return i >= 0 && functions[i].needs > 0;
}

bool library_calls_runtime(const char *name) {
    int i = index_of(name);
    return i >= 0 && functions[i].needs > 1;
}
