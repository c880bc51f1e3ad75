// CBLAS by dlopen. In: --blas. Out: its products.
#include "compiler/run/blas.h"
#include <dlfcn.h>
#include <string.h>

static const char *const installed[] = {"libopenblas.so.0", "libopenblas.so", "libblas.so.3"};

// Integers of 64 bits in the interface are another one under the same names.
static bool takes_int(void *library) {
    const char *(*config)(void);
    *(void **)&config = dlsym(library, "openblas_get_config");
    return !config || !strstr(config(), "USE64BITINT");
}

static blas functions_of(void *library, const options *o) {
    blas b = {0};
    void (*set_threads)(int);
    if (!library || !takes_int(library)) return b;
    *(void **)&b.dgemm = dlsym(library, "cblas_dgemm");
    *(void **)&b.sgemm = dlsym(library, "cblas_sgemm");
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    if (!b.dgemm || !b.sgemm) return (blas){0};
    if (set_threads) set_threads(o->threads > 1 ? (int)(o->threads < 256 ? o->threads : 256) : 1);
    return b;
}

blas blas_open(diag *d, const options *o) {
    int how =
        RTLD_NOW | (options_cblas(o) ? RTLD_GLOBAL : RTLD_LOCAL); // C text in a library finds it by name
    if (o->blas && !options_cblas(o)) {
        if (strcmp(o->blas, "none") == 0) return (blas){0};
        void *library = dlopen(o->blas, how);
        if (!library) diag_fatal(d, NULL, "--blas: %s", dlerror());
        blas b = functions_of(library, o);
        if (!b.dgemm)
            diag_fatal(d, NULL,
                       "--blas=%s: the library has no cblas_sgemm and cblas_dgemm with sizes of type int",
                       o->blas);
        return b;
    }
    for (size_t j = 0; j < sizeof installed / sizeof *installed; j++) {
        blas b = functions_of(dlopen(installed[j], how), o);
        if (b.dgemm) return b;
    }
    return (blas){0};
}
