// The table of library functions.
#include "ir/library.h"

static const struct {
    const char *name;
    onnxc_lib_function *f;
} functions[] = {
#define X(name) {#name, onnxc_lib_##name},
    ONNXC_LIBRARY(X)
#undef X
};

int library_count(void) { return sizeof functions / sizeof *functions; }
const char *library_name(int i) { return functions[i].name; }

onnxc_lib_function *library_find(const char *name) {
    for (int i = 0; i < library_count(); i++)
        if (strcmp(functions[i].name, name) == 0) return functions[i].f;
    return NULL;
}
