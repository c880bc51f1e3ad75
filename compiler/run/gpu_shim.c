// Compiles CUDA text to a shared library for this machine, and launches its kernels.
#include "compiler/run/gpu_shim.h"
#include "codegen/c/cuda.h"
#include "compiler/base/outfile.h"
#include "compiler/base/process.h"
#include "compiler/driver/option.h"
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

enum { SEED = 7 };

// As in test/shim/cuda_shim.h.
typedef struct shim_dim3 {
    unsigned x, y, z;
} shim_dim3;
typedef int launcher(shim_dim3 grid, shim_dim3 block, int order, uint64_t seed, void (*body)(void *args),
                     void *args);

// run_K(args) calls kernel K with the arguments that args point to.
static bytes text_for_shim(arena *a, diag *d, const lmodule *m) {
    text t = {.arena = a};
    sink s = sink_text(&t);
    cuda_write(m, &s, d);
    for (int i = 0; i < m->funcs.n; i++) {
        const char *name = m->funcs.at[i]->name;
        if (m->funcs.at[i]->kernel)
            text_printf(&t, "extern \"C\" void run_%s(void *args) { shim_call(%s, (void *const *)args); }\n",
                        name, name);
    }
    return (bytes){text_str(&t), t.n};
}

// The shim: its object file if it is compiled already, which saves most of the time for a small model.
static const char *shim_code(arena *a, const char *folder) {
    const char *object = arena_printf(a, "%s/cuda_shim.o", folder);
    struct stat st;
    return stat(object, &st) == 0 ? object : arena_printf(a, "%s/cuda_shim.c", folder);
}

static void build_library(arena *a, diag *d, const char *folder, const char *cu, const char *so) {
    const char *shim = shim_code(a, folder);
    bool compiled = shim[strlen(shim) - 1] == 'o';
    static const char flags[] =
        "c++ -std=c++17 -O1 -ffp-contract=off -Wall -Wextra -Werror -Wno-unknown-pragmas "
        "-fPIC -shared";
    const char *header = arena_printf(a, "%s/cuda_shim.h", folder), *language = compiled ? "none" : "c++";
    const char *const files[] = {"-o", so, "-include", header, "-x", "c++", cu, "-x", language, shim};
    string_list args = split_words(a, flags, ' ');
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) VEC_PUSH(a, &args, files[i]);
    int code = process_run(a, d, &args);
    if (code < 0) diag_fatal(d, NULL, "the C++ compiler 'c++' cannot be started");
    if (code) diag_defect(d, NULL, "the C++ compiler rejected the CUDA text (exit code %d)", code);
}

static void close_library(void *library) { dlclose(library); }

gpu_shim *gpu_shim_open(arena *a, diag *d, const lmodule *m, const char *folder, linterp_order order) {
    const char *own = temporary_folder(a, d), *cu = arena_printf(a, "%s/model.cu", own),
               *so = arena_printf(a, "%s/model.so", own);
    outfile_write_whole(a, d, cu, text_for_shim(a, d, m));
    build_library(a, d, folder, cu, so);
    gpu_shim *s = ARENA_NEW(a, gpu_shim);
    s->order = order;
    s->library = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!s->library) diag_defect(d, NULL, "%s", dlerror());
    arena_on_destroy(a, close_library, s->library);
    s->launch = dlsym(s->library, "shim_launch");
    if (!s->launch) diag_fatal(d, NULL, "'%s' contains no shim", folder);
    return s;
}

const char *gpu_shim_launch(void *user, arena *a, const gpu_launch *l) {
    const gpu_shim *s = user;
    const lfunc *f = l->code->f;
    void **pointers = ARENA_ARRAY(a, void *, f->params.n + 1);
    for (int i = 0; i < f->params.n; i++) pointers[i] = (void *)&l->args[i]; // low bytes first
    launcher *go;
    void (*body)(void *);
    void *found = dlsym(s->library, arena_printf(a, "run_%s", f->name));
    if (!found) return "the library lacks the kernel";
    memcpy(&go, &s->launch, sizeof go);
    memcpy(&body, &found, sizeof body);
    shim_dim3 grid = {(unsigned)l->grid[0], (unsigned)l->grid[1], (unsigned)l->grid[2]},
              block = {(unsigned)l->block[0], (unsigned)l->block[1], (unsigned)l->block[2]};
    return go(grid, block, (int)s->order, SEED, body, pointers) ? "deadlock: the threads wait for each other"
                                                                : NULL;
}
