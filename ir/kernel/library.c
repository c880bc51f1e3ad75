// The table of library functions.
#include "ir/kernel/library.h"

static const struct {
    const char *name;
    onnxc_lib_function *f;
    bool allocates;
} functions[] = {
#define X(name, allocates) {#name, onnxc_lib_##name, allocates},
    ONNXC_LIBRARY(X)
#undef X
};

int library_count(void) { return sizeof functions / sizeof *functions; }
const char *library_name(int i) { return functions[i].name; }

static int place_of(const char *name) {
    for (int i = 0; i < library_count(); i++)
        if (strcmp(functions[i].name, name) == 0) return i;
    return -1;
}

onnxc_lib_function *library_find(const char *name) {
    int i = place_of(name);
    return i < 0 ? NULL : functions[i].f;
}

bool library_allocates(const char *name) {
    int i = place_of(name);
    return i >= 0 && functions[i].allocates;
}
