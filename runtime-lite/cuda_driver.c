// CUDA's driver, if this machine has one. In: nothing. Out: its functions.
#include "runtime-lite/cuda.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

typedef struct opened {
    cuda_driver driver;
    const char *why; // NULL: it is there
} opened;
static opened the_driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *find_functions(void *library, cuda_driver *d) {
    static const char *const symbols[] = {
#define X(name, symbol, parameters) symbol,
        CUDA_FUNCTIONS(X) CUDA_GRAPH_FUNCTIONS(X)
#undef X
    };
#define X(name, symbol, parameters) +1
    enum { N = sizeof symbols / sizeof *symbols, NEEDED = 0 CUDA_FUNCTIONS(X) };
#undef X
    _Static_assert(sizeof *d == N * sizeof(void *), "one symbol for each function");
    for (int i = 0; i < N; i++) {
        void *f = dlsym(library, symbols[i]);
        if (!f && i < NEEDED) return "NVIDIA's driver (libcuda.so.1) is too old";
        memcpy((char *)d + (size_t)i * sizeof f, &f, sizeof f);
    }
    return NULL;
}

int cuda_has_graphs(const cuda_driver *d) {
#define X(name, symbol, parameters) &&d->name
    return 1 CUDA_GRAPH_FUNCTIONS(X);
#undef X
}

// Never closed: it keeps threads of its own.
static void open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    the_driver.why = library ? find_functions(library, &the_driver.driver)
                             : "NVIDIA's driver is not installed: there is no libcuda.so.1";
    if (!the_driver.why && the_driver.driver.init(0))
        the_driver.why = "NVIDIA's driver does not start: there is no GPU, or it is not allowed here";
}

const cuda_driver *cuda_driver_open(const char **why) {
    pthread_once(&once, open_driver);
    *why = the_driver.why;
    return the_driver.why ? NULL : &the_driver.driver;
}
