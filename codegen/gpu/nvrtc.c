// NVRTC by dlopen: finds the library and its functions, and compiles a module's text.
#include "codegen/gpu/nvrtc.h"
#include <dlfcn.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

// The C interface of all versions since 11.2.
typedef struct program *program;
struct nvrtc_api {
    int (*Version)(int *major, int *minor);
    int (*GetNumSupportedArchs)(int *n);
    int (*GetSupportedArchs)(int *archs);
    int (*CreateProgram)(program *p, const char *source, const char *name, int nheaders,
                         const char *const *headers, const char *const *names);
    int (*DestroyProgram)(program *p);
    int (*CompileProgram)(program p, int noptions, const char *const *options);
    int (*GetPTXSize)(program p, size_t *n);
    int (*GetPTX)(program p, char *to);
    int (*GetCUBINSize)(program p, size_t *n);
    int (*GetCUBIN)(program p, char *to);
    int (*GetProgramLogSize)(program p, size_t *n);
    int (*GetProgramLog)(program p, char *to);
    const char *(*GetErrorString)(int code);
};

static const char *const functions[] = {
    "Version",           "GetNumSupportedArchs",
    "GetSupportedArchs", "CreateProgram",
    "DestroyProgram",    "CompileProgram",
    "GetPTXSize",        "GetPTX",
    "GetCUBINSize",      "GetCUBIN",
    "GetProgramLogSize", "GetProgramLog",
    "GetErrorString",
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };
_Static_assert(sizeof(struct nvrtc_api) == FUNCTIONS * sizeof(void *), "one name for each function");

// ---------------------------------------------------------------- loading the library

// Opens the last match in order of names, which is the newest version.
static void *open_matching(arena *a, const char *pattern, const char **path) {
    glob_t g;
    void *dl = NULL;
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = g.gl_pathc; i-- > 0 && !dl;)
            if ((dl = dlopen(g.gl_pathv[i], RTLD_NOW | RTLD_LOCAL))) *path = arena_strdup(a, g.gl_pathv[i]);
    globfree(&g);
    return dl;
}

static const char *glob_escape(arena *a, const char *s) {
    text t = {.arena = a};
    for (; *s; s++) {
        if (strchr("*?[\\", *s)) text_add(&t, "\\");
        text_addn(&t, s, 1);
    }
    return text_str(&t);
}

static void *open_in(arena *a, const char *folder, const char **path) {
    static const char *const inside[] = {"",
                                         "/lib64",
                                         "/lib",
                                         "/targets/*/lib",
                                         "/cuda_nvrtc/lib",
                                         "/nvidia/cuda_nvrtc/lib",
                                         "/nvidia/cu[0-9]*/lib"};
    void *dl = NULL;
    for (size_t i = 0; i < sizeof inside / sizeof *inside && !dl; i++)
        dl = open_matching(a, arena_printf(a, "%s%s/libnvrtc.so*", folder, inside[i]), path);
    return dl;
}

static void *open_anywhere(arena *a, const char **path) {
    static const char *const folders[] = {"/usr/local/cuda", "/usr/local/cuda-[0-9]*", "/opt/cuda"};
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                        "libnvrtc.so"};
    void *dl = NULL;
    for (int i = 0; i < 3 && !dl; i++) dl = open_in(a, folders[i], path);
    for (int i = 0; i < 4 && !dl; i++)
        if ((dl = dlopen(names[i], RTLD_NOW | RTLD_LOCAL))) *path = names[i];
    return dl;
}

static void *open_library(arena *a, const char *where, const char **path) {
    struct stat st;
    if (!where) return open_anywhere(a, path);
    if (stat(where, &st) == 0 && S_ISDIR(st.st_mode)) return open_in(a, glob_escape(a, where), path);
    *path = where;
    return dlopen(strchr(where, '/') ? where : arena_printf(a, "./%s", where), RTLD_NOW | RTLD_LOCAL);
}

static bool find_functions(arena *a, void *dl, struct nvrtc_api *api) {
    for (int i = 0; i < FUNCTIONS; i++) {
        void *f = dlsym(dl, arena_printf(a, "nvrtc%s", functions[i]));
        if (!f) return false;
        memcpy((char *)api + i * sizeof f, &f, sizeof f);
    }
    return true;
}

static void report_missing(diag *d, const char *where) {
    if (!d) return;
    diag_hint(d, "install the CUDA toolkit, or NVIDIA's PyPI package nvidia-cuda-nvrtc, and name its folder "
                 "with --nvrtc; --emit=cuda does not need NVRTC");
    if (where) diag_missing(d, NULL, "no NVRTC library at %s", where);
    else diag_missing(d, NULL, "no NVRTC library was found");
}

nvrtc *nvrtc_open(arena *a, const char *where, diag *d) {
    nvrtc *n = ARENA_NEW(a, nvrtc);
    int *archs;
    n->api = ARENA_NEW(a, struct nvrtc_api);
    void *dl = open_library(a, where, &n->path); // never closed, since it has its own threads and caches
    if (!dl || !find_functions(a, dl, n->api) || n->api->Version(&n->major, &n->minor)) {
        report_missing(d, where);
        return NULL;
    }
    if (n->api->GetNumSupportedArchs(&n->narchs) == 0) {
        n->archs = archs = ARENA_ARRAY(a, int, n->narchs);
        n->api->GetSupportedArchs(archs);
    }
    return n;
}

// ---------------------------------------------------------------- compiling

bool nvrtc_knows(const nvrtc *n, int sm) {
    if (sm > GPU_OWN && n->major < 12) return false;
    for (int i = 0; i < n->narchs; i++)
        if (n->archs[i] == gpu_arch_number(sm)) return true;
    return n->narchs == 0;
}

static const char *archs_text(const nvrtc *n, arena *a, const char *between) {
    text t = {.arena = a};
    for (int i = 0; i < n->narchs; i++) {
        text_printf(&t, "%ssm_%d", i ? between : "", n->archs[i]);
        if (n->archs[i] == 90 && nvrtc_knows(n, GPU_OWN + 90)) text_printf(&t, "%ssm_90a", between);
    }
    return text_str(&t);
}

const char *nvrtc_list_text(arena *a, const char *where) {
    const nvrtc *n = nvrtc_open(a, where, NULL);
    if (!n)
        return "GPU architectures: no NVRTC library was found; --emit=ptx and --emit=cubin need one (--nvrtc "
               "PATH)\n";
    return arena_printf(a, "GPU architectures (--gpu-arch) of NVRTC %d.%d, %s:\n  %s\n", n->major, n->minor,
                        n->path, n->narchs ? archs_text(n, a, " ") : "(not reported)");
}

static void check_arch(const nvrtc *n, arena *a, int sm, diag *d) {
    if (nvrtc_knows(n, sm)) return;
    diag_hint(d, "--gpu-arch takes one of %s, or name an NVRTC of another version with --nvrtc",
              archs_text(n, a, ", "));
    diag_fatal_missing(d, NULL, "NVRTC %d.%d (%s) cannot compile for sm_%d%s", n->major, n->minor, n->path,
                       gpu_arch_number(sm), gpu_arch_letter(sm));
}

static const char *log_of(const nvrtc *n, arena *a, program p) {
    size_t size = 0;
    if (n->api->GetProgramLogSize(p, &size) || !size) return "";
    char *log = arena_alloc(a, size + 1);
    n->api->GetProgramLog(p, log);
    return log;
}

// Returns the compiled program. On failure it is destroyed and d has the log.
static program compile(const nvrtc *n, arena *a, const char *name, const char *cuda, const char *arch,
                       bool verbose, diag *d) {
    enum { INVALID_OPTION = 5 };
    const char *options[] = {arch, "--std=c++17", "--fmad=false", "--ptxas-options=-v"};
    program p = NULL;
    int code = n->api->CreateProgram(&p, cuda, arena_printf(a, "%s.cu", name), 0, NULL, NULL);
    if (code) diag_defect(d, NULL, "NVRTC: %s", n->api->GetErrorString(code));
    code = n->api->CompileProgram(p, verbose ? 4 : 3, options);
    if (!code) return p;
    if (code == INVALID_OPTION && verbose) { // the first versions of NVRTC 11 have no options for ptxas
        n->api->DestroyProgram(&p);
        return compile(n, a, name, cuda, arch, false, d);
    }
    const char *log = log_of(n, a, p);
    n->api->DestroyProgram(&p);
    diag_defect(d, NULL, "NVRTC rejected the emitted CUDA text (%s):\n%s", n->api->GetErrorString(code), log);
}

// Reads a result. On failure the program is destroyed.
static char *read_result(const nvrtc *n, arena *a, program p, int (*size)(program, size_t *),
                         int (*get)(program, char *), size_t *bytes, diag *d) {
    char *to = NULL;
    int code = size(p, bytes);
    if (!code) code = get(p, to = arena_alloc(a, *bytes + 1));
    if (!code) return to;
    n->api->DestroyProgram(&p);
    diag_defect(d, NULL, "NVRTC: %s", n->api->GetErrorString(code));
}

static const char *read_ptx(const nvrtc *n, arena *a, program p, diag *d) {
    size_t size;
    const char *ptx = read_result(n, a, p, n->api->GetPTXSize, n->api->GetPTX, &size, d);
    return size > 1 ? ptx : NULL;
}

static const char *arch_option(arena *a, const char *kind, int sm) {
    return arena_printf(a, "--gpu-architecture=%s_%d%s", kind, gpu_arch_number(sm), gpu_arch_letter(sm));
}

// ---------------------------------------------------------------- the cache
// An entry is PTX and ptxas's log, each NUL-terminated, then the code; each may be empty.

static const char *key_of(const nvrtc *n, arena *a, const char *name, const char *cuda, const char *arch,
                          bool with_ptx) {
    const char *library = cache_build(a, (const void *)(uintptr_t)n->api->CompileProgram);
    const char *parts[] = {cache_identity(a), library, name, cuda, arch, with_ptx ? "PTX" : ""};
    return cache_key(a, parts, sizeof parts / sizeof *parts);
}

// The text at *from, which advances beyond its NUL; NULL: none.
static const char *next_text(const char **from, const char *end) {
    const char *nul = *from < end ? memchr(*from, 0, (size_t)(end - *from)) : NULL, *s = *from;
    if (!nul) return NULL;
    *from = nul + 1;
    return s;
}

static bool find_made(const nvrtc *n, arena *a, const char *key, nvrtc_made *m) {
    bytes b;
    if (!cache_find(n->cache, a, key, &b)) return false;
    const char *at = b.at, *end = at + b.n;
    const char *ptx = next_text(&at, end), *log = ptx ? next_text(&at, end) : NULL;
    if (!log) return false;
    *m = (nvrtc_made){at, (size_t)(end - at), *ptx ? ptx : NULL, log};
    return true;
}

static void keep_made(const nvrtc *n, arena *a, const char *key, const nvrtc_made *m) {
    text t = {.arena = a};
    text_addn(&t, m->ptx ? m->ptx : "", m->ptx ? strlen(m->ptx) + 1 : 1);
    text_addn(&t, m->log, strlen(m->log) + 1);
    if (m->size) text_addn(&t, m->code, m->size);
    cache_keep(n->cache, a, key, (bytes){t.s, t.n});
}

static nvrtc_made make(const nvrtc *n, arena *a, const char *name, const char *cuda, const char *arch,
                       bool with_ptx, bool with_code, diag *d) {
    nvrtc_made m = {.log = ""};
    const char *key = n->cache ? key_of(n, a, name, cuda, arch, with_ptx) : NULL;
    if (key && find_made(n, a, key, &m)) return m;
    program p = compile(n, a, name, cuda, arch, with_code, d);
    if (with_ptx) m.ptx = read_ptx(n, a, p, d);
    if (with_code) {
        m.code = read_result(n, a, p, n->api->GetCUBINSize, n->api->GetCUBIN, &m.size, d);
        m.log = log_of(n, a, p);
    }
    n->api->DestroyProgram(&p);
    if (key) keep_made(n, a, key, &m);
    return m;
}

const char *nvrtc_ptx(const nvrtc *n, arena *a, const char *name, const char *cuda, int sm, diag *d) {
    check_arch(n, a, sm, d);
    nvrtc_made m = make(n, a, name, cuda, arch_option(a, "compute", sm), true, false, d);
    return m.ptx ? m.ptx : "";
}

nvrtc_made nvrtc_cubin(const nvrtc *n, arena *a, const char *name, const char *cuda, int sm, bool with_ptx,
                       diag *d) {
    check_arch(n, a, sm, d);
    return make(n, a, name, cuda, arch_option(a, "sm", sm), with_ptx, true, d);
}
