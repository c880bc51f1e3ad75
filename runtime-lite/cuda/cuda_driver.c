// Loads the functions of CUDA's driver, if this machine has one.
#include "runtime-lite/cuda/cuda.h"
#include "runtime-lite/system/system.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#ifdef _WIN32
#define CUDA_LIBRARY "nvcuda.dll"
#else
#define CUDA_LIBRARY "libcuda.so.1"
#endif

typedef struct opened {
    cuda_driver driver;
    bool available;
    char why[256]; // reason why it is not available
} opened;
static opened the_driver;
static system_once once = SYSTEM_ONCE;

// Returns NULL or the missing symbol.
static const char *find_functions(void *library, cuda_driver *d) {
    static const char *const symbols[] = {
#define X(name, symbol, parameters) #symbol,
        CUDA_FUNCTIONS(X) CUDA_GRAPH_FUNCTIONS(X)
#undef X
    };
#define X(name, symbol, parameters) +1
    enum { N = sizeof symbols / sizeof *symbols, NEEDED = 0 CUDA_FUNCTIONS(X) };
#undef X
    _Static_assert(sizeof *d == N * sizeof(void *), "one symbol for each function");
    for (int i = 0; i < N; i++) {
        void *f = system_symbol(library, symbols[i]);
        if (!f && i < NEEDED) return symbols[i];
        memcpy((char *)d + (size_t)i * sizeof f, &f, sizeof f);
    }
    return NULL;
}

int cuda_has_graphs(const cuda_driver *d) {
#define X(name, symbol, parameters) &&d->name
    return 1 CUDA_GRAPH_FUNCTIONS(X);
#undef X
}

int cuda_capability(const cuda_driver *d, int device, int *sm) {
    int major = 0, minor = 0, error = d->device_attribute(&major, CUDA_CAPABILITY_MAJOR, device);
    if (!error) error = d->device_attribute(&minor, CUDA_CAPABILITY_MINOR, device);
    *sm = major * 10 + minor;
    return error;
}

#define BECAUSE(...) snprintf(the_driver.why, sizeof the_driver.why, __VA_ARGS__)

static void start_driver(const cuda_driver *d) {
    const char *name = NULL, *text = NULL;
    int error = d->init(0);
    the_driver.available = !error;
    if (!error) return;
    d->error_name(error, &name);
    d->error_text(error, &text);
    BECAUSE("NVIDIA's driver failed to initialise: %s (%s)", text ? text : "unknown error",
            name ? name : "?");
}

// Never closed, because the driver has its own threads.
static void open_driver(void) {
    void *library = system_library(CUDA_LIBRARY);
    const char *lacks = library ? find_functions(library, &the_driver.driver) : NULL;
    if (!library) BECAUSE("NVIDIA's driver was not found: %s", system_library_error());
    else if (lacks) BECAUSE("NVIDIA's driver (" CUDA_LIBRARY ") is too old: it has no %s", lacks);
    else start_driver(&the_driver.driver);
}

const cuda_driver *cuda_driver_open(const char **why) {
    system_call_once(&once, open_driver);
    *why = the_driver.why;
    return the_driver.available ? &the_driver.driver : NULL;
}
