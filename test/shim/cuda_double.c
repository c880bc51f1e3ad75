// In the place of libcuda.so.1 where there is no GPU, and stricter than it where it may be. Device memory
// cannot be touched but by copies and kernels, streams do nothing before somebody waits for them, kernels are
// CUDA text behind cuda_shim.h with threads in a permuted order; what a capture forbids ends it, a kernel
// that fails takes the context with it, and a process that was forked has no driver. CUDA_DOUBLE_DEVICES,
// CUDA_DOUBLE_SM and CUDA_DOUBLE_VERSION say what GPUs there are and how old the driver is; the functions at
// the end let tests make calls fail and count what is left.
#define _GNU_SOURCE
#include "runtime-lite/cuda/cuda.h"
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// As the runtime sees them.
#define X(name, symbol, parameters) int symbol parameters;
CUDA_FUNCTIONS(X)
CUDA_GRAPH_FUNCTIONS(X)
#undef X

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    DEINITIALIZED = 4,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY = 209,
    INVALID_PTX = 218,
    UNSUPPORTED_PTX_VERSION = 222,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_IMPLICIT = 906,
    CAPTURE_WRONG_THREAD = 908
};
enum { GLOBAL, THREAD_LOCAL, RELAXED };
enum { PAGE = 4096, PARTS = 64, ARGUMENTS = 512, CONTEXTS = 16, DEVICES = 64, SHARED_ANYWHERE = 48 << 10 };
// NVRTC's stand-in is of this version; addresses are no more aligned than the driver promises.
enum { MADE_BY = 12090, ALIGN = 256 };
typedef cuda_address address;

// One for each device.
typedef struct cuda_context_s {
    int users, error; // error: of a kernel that failed
} context;

typedef struct memory {
    struct memory *next;
    const context *of;
    char *at, *pages;
    size_t mapped, bytes;
} memory;

typedef struct dim3 {
    unsigned x, y, z;
} dim3;
typedef int launcher(dim3 grid, dim3 block, int order, uint64_t seed, void (*body)(void *), void *args);
typedef struct cuda_function_s {
    launcher *launch;
    void (*run)(void *args);
    int (*save)(void *const *args, void *to);
    int64_t *brought; // of dynamic shared memory
    int most;         // that it may bring
    int threads;      // that it is compiled for, at most
} function;

typedef enum kind { TO_DEVICE, TO_HOST, ON_DEVICE, FILL, LAUNCH } kind;
typedef struct work {
    struct work *next;
    kind kind;
    void *to;
    const void *from;
    size_t n;
    unsigned char value;
    function f;
    dim3 grid, block;
    unsigned shared;
    uint64_t arguments[ARGUMENTS];
} work;

typedef enum capturing { NOT, ACTIVE, INVALIDATED } capturing;
typedef struct cuda_stream_s {
    struct cuda_stream_s *next;
    const context *of;
    work *first, **last;
    unsigned flags;
    capturing capturing;
    int mode;
    pthread_t by; // who began to capture
} stream;

// What a stream was given while it captured.
typedef struct cuda_graph_s {
    work *first;
} graph;
typedef struct cuda_graph_exec_s {
    work *first;
} graph_exec;

typedef struct cuda_module_s {
    void *parts[PARTS];
    char *text[PARTS];
    int nparts;
    function *functions[4096];
    int nfunctions;
} module;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static memory *memories;
static stream *all_streams, default_stream;
static size_t live_bytes;
static pid_t process; // that initialised the driver
static int ended;     // as at the end of a process
static int lost;      // a kernel broke what this process has of the driver
static int allocations, modules, streams, retained, launches, syncs, graphs, graphs_made, graphs_launched;
static char fail_what[32];
static int fail_after;
static uint64_t seed = 1;
static context contexts[DEVICES];
static _Thread_local context *current[CONTEXTS];
static _Thread_local int depth, thread_mode;

// Whether this call of `what` is to fail.
static int fails(const char *what) {
    if (strcmp(fail_what, what) || fail_after-- != 0) return 0;
    fail_what[0] = 0;
    return 1;
}

static int number_of(const char *variable, int otherwise) {
    const char *s = getenv(variable);
    return s ? atoi(s) : otherwise;
}

// ---------------------------------------------------------------- memory
static void open_memory(int open) {
    for (memory *m = memories; m; m = m->next)
        mprotect(m->pages, m->mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static int is_device(const void *p, size_t n) {
    for (memory *m = memories; m; m = m->next)
        if ((const char *)p >= m->at && (const char *)p + n <= m->at + m->bytes) return 1;
    return 0;
}

static context *here(void) { return depth ? current[depth - 1] : NULL; }

static void demand(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "cuda_double: %s\n", what);
    abort();
}

// Behind it, and before, lies a page that nobody may touch.
static int allocate(address *at, size_t n) {
    if (fails("alloc")) return OUT_OF_MEMORY;
    memory *m = calloc(1, sizeof *m);
    m->bytes = n;
    m->of = here();
    m->mapped = (n + PAGE - 1) / PAGE * PAGE;
    char *all =
        mmap(NULL, m->mapped + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return free(m), OUT_OF_MEMORY;
    m->pages = all + PAGE;
    m->at = m->pages + m->mapped - (n + ALIGN - 1) / ALIGN * ALIGN;
    mprotect(m->pages, m->mapped, PROT_READ | PROT_WRITE);
    memset(m->at, 0xff, n < 1 << 20 ? n : 1 << 20);
    mprotect(m->pages, m->mapped, PROT_NONE);
    m->next = memories;
    memories = m;
    live_bytes += n;
    allocations++;
    *at = (uintptr_t)m->at;
    return OK;
}

static int release(address at) {
    for (memory **m = &memories; *m; m = &(*m)->next) {
        memory *gone = *m;
        if ((uintptr_t)gone->at != at) continue;
        *m = gone->next;
        live_bytes -= gone->bytes;
        munmap(gone->pages - PAGE, gone->mapped + 2 * PAGE);
        free(gone);
        return OK;
    }
    return INVALID_VALUE;
}

// ---------------------------------------------------------------- captures
static void invalidate(stream *s) { s->capturing = INVALIDATED; }

// What is not enqueued anywhere, such as an allocation: CUDA calls it potentially unsafe.
static int unsafe(void) {
    int code = OK;
    for (stream *s = all_streams; s; s = s->next) {
        int own = s->capturing && pthread_equal(s->by, pthread_self());
        int forbidden = s->capturing &&
                        ((own && s->mode != RELAXED) || (!own && s->mode == GLOBAL && thread_mode == GLOBAL));
        if (!forbidden || thread_mode == RELAXED) continue;
        invalidate(s);
        code = CAPTURE_UNSUPPORTED;
    }
    return code;
}

// The default stream waits for all that are not non-blocking, which nobody can do who captures.
static int implicit(const stream *s) {
    int code = OK;
    for (stream *other = all_streams; !s && other; other = other->next)
        if (other->capturing && !(other->flags & CUDA_NON_BLOCKING))
            invalidate(other), code = CAPTURE_IMPLICIT;
    return code;
}

static int known(const stream *s) {
    const stream *at = all_streams;
    while (s && at && at != s) at = at->next;
    demand(!s || at, "a stream is used that is not there");
    return !s || s->of == here() ? OK : INVALID_HANDLE;
}

// Whether the stream takes work now.
static int takes(const stream *s) {
    int code = known(s);
    if (!code) code = implicit(s);
    return code ? code : s && s->capturing == INVALIDATED ? CAPTURE_INVALIDATED : OK;
}

// ---------------------------------------------------------------- streams
static void enqueue(stream *s, const work *w) {
    stream *to = s ? s : &default_stream;
    work *own = malloc(sizeof *own);
    *own = *w;
    own->next = NULL;
    if (!to->last || !to->first) to->last = &to->first;
    *to->last = own;
    to->last = &own->next;
}

static int run(work *w) {
    void *arguments[ARGUMENTS];
    switch (w->kind) {
    case TO_DEVICE:
        demand(is_device(w->to, w->n) && !is_device(w->from, 1), "a copy to the device between wrong sides");
        memcpy(w->to, w->from, w->n);
        return 0;
    case TO_HOST:
        demand(!is_device(w->to, 1) && is_device(w->from, w->n), "a copy to the host between wrong sides");
        memcpy(w->to, w->from, w->n);
        return 0;
    case ON_DEVICE:
        demand(is_device(w->to, w->n) && is_device(w->from, w->n),
               "a copy on the device from or to elsewhere");
        memmove(w->to, w->from, w->n);
        return 0;
    case FILL:
        demand(is_device(w->to, w->n), "a fill elsewhere than on the device");
        memset(w->to, w->value, w->n);
        return 0;
    case LAUNCH:
        for (int i = 0; i < ARGUMENTS; i++) arguments[i] = &w->arguments[i];
        *w->f.brought = w->shared;
        return w->f.launch(w->grid, w->block, 2, seed++, w->f.run, arguments) ? LAUNCH_FAILED : 0;
    }
    return INVALID_VALUE;
}

// Of as many processes as the file has bytes.
static int breaks_process(void) {
    const char *file = getenv("CUDA_DOUBLE_BREAK");
    struct stat s;
    return !lost && file && !stat(file, &s) && s.st_size && !truncate(file, s.st_size - 1);
}

// What was enqueued runs now.
static int drain(stream *s) {
    stream *of = s ? s : &default_stream;
    int code = known(s);
    if (!code) code = unsafe();
    if (!code) code = implicit(s);
    if (!code && of->capturing) invalidate(of), code = CAPTURE_UNSUPPORTED;
    if (code) return code;
    int error = fails("wait") ? LAUNCH_FAILED : OK, broken = fails("kernel") ? ILLEGAL_ADDRESS : OK;
    open_memory(1);
    for (work *w = of->first, *next; w; w = next) {
        next = w->next;
        if (!error && !broken) broken = run(w);
        free(w);
    }
    open_memory(0);
    of->first = NULL;
    of->last = &of->first;
    syncs++;
    if (breaks_process()) lost = broken = ILLEGAL_ADDRESS;
    if (broken) here()->error = broken;
    return error ? error : broken;
}

// ---------------------------------------------------------------- modules
// A way to call each kernel of the text: run_K for the launcher, save_K to keep its arguments until then.
static void add_callers(FILE *f, const char *text) {
    fputs("template <class... T, std::size_t... I> static int save_each(void (*)(T...), void *const *from, "
          "char *to,"
          " std::index_sequence<I...>) { (memcpy(to + 8 * I, from[I], sizeof(T)), ...); return "
          "(int)sizeof...(T); }\n"
          "template <class... T> static int save(void (*f)(T...), void *const *from, char *to) {"
          " return save_each(f, from, to, std::index_sequence_for<T...>()); }\n",
          f);
    for (const char *at = text; (at = strstr(at, "__global__"));) {
        const char *name = strstr(at, " k_"), *end = name ? strchr(name, '(') : NULL;
        at += 10;
        if (!end) return;
        int n = (int)(end - name - 1);
        name++;
        fprintf(f, "extern \"C\" void run_%.*s(void *a) { shim_call(%.*s, (void *const *)a); }\n", n, name, n,
                name);
        fprintf(
            f, "extern \"C\" int save_%.*s(void *const *a, void *to) { return save(%.*s, a, (char *)to); }\n",
            n, name, n, name);
    }
}

static int compile(const char *cu, const char *so) {
    int status;
    pid_t child;
    extern char **environ;
    const char *args[] = {"c++",
                          "-std=c++17",
                          "-O0",
                          "-ffp-contract=off",
                          "-w",
                          "-fPIC",
                          "-shared",
                          "-o",
                          so,
                          "-include",
                          SHIM_FOLDER "/cuda_shim.h",
                          "-x",
                          "c++",
                          cu,
                          "-x",
                          "none",
                          SHIM_OBJECT,
                          NULL};
    if (posix_spawnp(&child, "c++", NULL, NULL, (char **)args, environ)) return 1;
    return waitpid(child, &status, 0) < 0 || status;
}

static void *load_part(const char *text) {
    char folder[] = "/tmp/cuda_double.XXXXXX", cu[64], so[64];
    if (!mkdtemp(folder)) return NULL;
    snprintf(cu, sizeof cu, "%s/part.cu", folder);
    snprintf(so, sizeof so, "%s/part.so", folder);
    FILE *f = fopen(cu, "w");
    fputs(text, f);
    add_callers(f, text);
    fclose(f);
    void *library = compile(cu, so) ? NULL : dlopen(so, RTLD_NOW | RTLD_LOCAL);
    unlink(cu), unlink(so), rmdir(folder);
    return library;
}

static int capability(void) { return number_of("CUDA_DOUBLE_SM", 86); }

static int version(void) { return number_of("CUDA_DOUBLE_VERSION", MADE_BY); }

// Code and text of a newer NVRTC: machine code runs on all drivers of the same first number.
static int too_new(int virtual) {
    if (virtual) return version() < MADE_BY ? UNSUPPORTED_PTX_VERSION : OK;
    return version() / 1000 < MADE_BY / 1000 ? INVALID_IMAGE : OK;
}

static int load(module *m, const char *image) {
    static const char between[] = "//part\n";
    int virtual = !strncmp(image, "//compute_", 10), sm = atoi(image + (virtual ? 10 : 5));
    if (!virtual && strncmp(image, "//sm_", 5)) return INVALID_PTX;
    int own = image[strcspn(image, "\n") - 1] == 'a', code = too_new(virtual);
    if (fails(virtual ? "load_ptx" : "load_code")) return virtual ? INVALID_PTX : NO_BINARY;
    if (code) return code;
    if (sm > capability() || (!virtual && sm / 10 != capability() / 10)) return NO_BINARY;
    if (own && sm != capability()) return NO_BINARY;
    for (const char *at = strstr(image, between); at && m->nparts < PARTS;) {
        const char *begin = at + sizeof between - 1, *end = strstr(begin, between);
        char *text = end ? strndup(begin, (size_t)(end - begin)) : strdup(begin);
        void *part = load_part(text);
        m->text[m->nparts] = text;
        if (!part) return free(text), INVALID_PTX;
        *(int *)dlsym(part, "shim_no_wgmma") = !own;
        m->parts[m->nparts++] = part;
        at = end;
    }
    return OK;
}

static void drop_module(module *m) {
    for (int i = 0; i < m->nfunctions; i++) free(m->functions[i]);
    for (int i = 0; i < m->nparts; i++) dlclose(m->parts[i]), free(m->text[i]);
    free(m);
}

static int load_new(module **made, const void *image) {
    module *m = calloc(1, sizeof *m);
    int code = unsafe();
    if (!code) code = load(m, image);
    if (code) return drop_module(m), code;
    modules++;
    *made = m;
    return OK;
}

// What __launch_bounds__ says before the name.
static int threads_of(const char *text, const char *name) {
    static const char word[] = "__launch_bounds__(";
    char call[512];
    snprintf(call, sizeof call, " %s(", name);
    const char *at = strstr(text, call);
    while (at && at > text && strncmp(at, word, sizeof word - 1) && *at != ';' && *at != '}') at--;
    return at && !strncmp(at, word, sizeof word - 1) ? atoi(at + sizeof word - 1) : 1024;
}

static int find(module *m, const char *name, function **found) {
    char run[512], save[512];
    snprintf(run, sizeof run, "run_%s", name);
    snprintf(save, sizeof save, "save_%s", name);
    for (int i = 0; i < m->nparts; i++) {
        void *of[] = {dlsym(m->parts[i], "shim_launch"), dlsym(m->parts[i], run), dlsym(m->parts[i], save),
                      dlsym(m->parts[i], "shim_dynamic_brought")};
        if (!of[1] || m->nfunctions == 4096) continue;
        function *f = m->functions[m->nfunctions++] = malloc(sizeof *f);
        memcpy(f, of, sizeof of);
        f->most = SHARED_ANYWHERE;
        f->threads = threads_of(m->text[i], name);
        *found = f;
        return OK;
    }
    return NOT_FOUND;
}

// ---------------------------------------------------------------- the driver's functions
static int ready(void) { return ended ? DEINITIALIZED : process != getpid() ? NOT_INITIALIZED : lost; }

static int usable(void) {
    int code = ready();
    return code ? code : !depth ? INVALID_CONTEXT : here()->error;
}

#define ALWAYS(condition, expression)                                                                        \
    pthread_mutex_lock(&lock);                                                                               \
    int code = (condition);                                                                                  \
    if (!code) code = (expression);                                                                          \
    pthread_mutex_unlock(&lock);                                                                             \
    return code
#define LOCKED(expression) ALWAYS(usable(), expression)

static int device_count(void) { return number_of("CUDA_DOUBLE_DEVICES", 1); }
static int is_no_device(int device) { return device < 0 || device >= device_count() ? INVALID_DEVICE : OK; }

static int start(unsigned flags) {
    if (flags) return INVALID_VALUE;
    if (!device_count()) return NO_DEVICE;
    if (process && process != getpid()) return NOT_INITIALIZED;
    process = getpid();
    return OK;
}
int cuInit(unsigned flags) { ALWAYS(ended ? DEINITIALIZED : OK, start(flags)); }
int cuDriverGetVersion(int *made) { return *made = version(), OK; }
int cuDeviceGetCount(int *n) { ALWAYS(ready(), (*n = device_count(), OK)); }
int cuDeviceGet(int *device, int ordinal) { ALWAYS(ready(), (*device = ordinal, is_no_device(ordinal))); }

// That a block can have.
static int most_shared(void) {
    int sm = capability();
    return (sm < 80 ? 64 : sm == 80 || sm == 87 ? 163 : sm / 10 == 9 || sm / 10 == 10 ? 227 : 99) << 10;
}

static int attribute_of(int attribute) {
    return attribute == CUDA_SHARED_MOST        ? most_shared()
           : attribute == CUDA_CAPABILITY_MAJOR ? capability() / 10
           : attribute == CUDA_CAPABILITY_MINOR ? capability() % 10
                                                : 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    ALWAYS(ready(), (*value = attribute_of(attribute), is_no_device(device)));
}

static int retain(context **of, int device) {
    if (is_no_device(device)) return INVALID_DEVICE;
    *of = &contexts[device];
    contexts[device].users++, retained++;
    return OK;
}
int cuDevicePrimaryCtxRetain(context **of, int device) { ALWAYS(ready(), retain(of, device)); }

static int drop_stream(stream *s);
// With the last user goes what is broken, and all that it had. What works must have been given back.
static int release_context(int device) {
    context *of = &contexts[device];
    if (is_no_device(device) || !of->users) return INVALID_CONTEXT;
    retained--;
    if (--of->users || !of->error) return OK;
    of->error = OK;
    for (memory *m = memories, *next; m; m = next) {
        next = m->next;
        if (m->of == of) release((uintptr_t)m->at);
    }
    for (stream *s = all_streams, *next; s; s = next) {
        next = s->next;
        if (s->of == of) drop_stream(s);
    }
    modules = graphs = 0;
    return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) { ALWAYS(ready(), release_context(device)); }

int cuCtxPushCurrent_v2(context *of) {
    if (ready()) return ready();
    if (!of || depth == CONTEXTS || !of->users) return INVALID_CONTEXT;
    current[depth++] = of;
    return OK;
}
int cuCtxPopCurrent_v2(context **of) {
    if (ready()) return ready();
    if (!depth) return INVALID_CONTEXT;
    *of = current[--depth];
    return OK;
}

static const char *log_text = "";
static void write_log(int code, unsigned n, const int *options, void *const *values) {
    char *to = NULL;
    size_t size = 0;
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == CUDA_JIT_LOG) to = values[i];
        if (options[i] == CUDA_JIT_LOG_SIZE) size = (size_t)(uintptr_t)values[i];
    }
    if (to && size) snprintf(to, size, "%s", code == INVALID_PTX ? log_text : "");
}
int cuModuleLoadDataEx(module **m, const void *image, unsigned n, int *options, void **values) {
    int failed;
    log_text = "ptxas application ptx input, line 1; fatal   : what a stand-in says";
    LOCKED((failed = load_new(m, image), write_log(failed, n, options, values), failed));
}
int cuModuleUnload(module *m) { LOCKED((drop_module(m), modules--, unsafe())); }
int cuModuleGetFunction(function **f, module *m, const char *name) { LOCKED(find(m, name, f)); }

static int set_attribute(function *f, int attribute, int value) {
    if (attribute != CUDA_FUNCTION_SHARED_MOST || value < 0 || value > most_shared()) return INVALID_VALUE;
    f->most = value;
    return OK;
}
int cuFuncSetAttribute(function *f, int attribute, int value) { LOCKED(set_attribute(f, attribute, value)); }

static int alloc(address *at, size_t n) {
    int code = n ? unsafe() : INVALID_VALUE;
    return code ? code : allocate(at, n);
}
int cuMemAlloc_v2(address *at, size_t n) { LOCKED(alloc(at, n)); }
static int give_back(address at) {
    int code = unsafe();
    return code ? code : release(at);
}
int cuMemFree_v2(address at) { LOCKED(give_back(at)); }

// A graph would read memory of the host that is long gone.
static int copy(kind k, void *to, const void *from, size_t n, stream *s, const char *what) {
    int code = takes(s);
    if (!code && k != ON_DEVICE && s && s->capturing) invalidate(s), code = CAPTURE_UNSUPPORTED;
    if (!code && fails(what)) code = LAUNCH_FAILED;
    if (!code) enqueue(s, &(work){.kind = k, .to = to, .from = from, .n = n});
    return code;
}
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t n, stream *s) {
    LOCKED(copy(TO_DEVICE, (void *)(uintptr_t)to, from, n, s, "to_device"));
}
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t n, stream *s) {
    LOCKED(copy(TO_HOST, to, (void *)(uintptr_t)from, n, s, "to_host"));
}
int cuMemcpyDtoDAsync_v2(address to, address from, size_t n, stream *s) {
    LOCKED(copy(ON_DEVICE, (void *)(uintptr_t)to, (void *)(uintptr_t)from, n, s, "on_device"));
}
static int fill(address to, unsigned char value, size_t n, stream *s) {
    int code = takes(s);
    if (!code) enqueue(s, &(work){.kind = FILL, .to = (void *)(uintptr_t)to, .n = n, .value = value});
    return code;
}
int cuMemsetD8Async(address to, unsigned char value, size_t n, stream *s) { LOCKED(fill(to, value, n, s)); }

static int fits(dim3 grid, dim3 block) {
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    return grid.x && grid.y && grid.z && threads && threads <= 1024 && block.z <= 64 && grid.x <= INT32_MAX &&
           grid.y <= 65535 && grid.z <= 65535;
}
static int launch(function *f, dim3 grid, dim3 block, unsigned shared, stream *s, void *const *arguments) {
    int code = takes(s);
    work w = {.kind = LAUNCH, .f = *f, .grid = grid, .block = block, .shared = shared};
    if (!code && fails("launch")) code = LAUNCH_FAILED;
    if (!code && (shared > (unsigned)f->most || !fits(grid, block))) code = INVALID_VALUE;
    if (!code && block.x * block.y * block.z > (unsigned)f->threads) code = INVALID_VALUE;
    if (code) {
        if (s && s->capturing) invalidate(s);
        return code;
    }
    f->save(arguments, w.arguments);
    enqueue(s, &w);
    launches++;
    return OK;
}
int cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, stream *s, void **arguments, void **extra) {
    (void)extra;
    LOCKED(launch(f, (dim3){gx, gy, gz}, (dim3){bx, by, bz}, shared, s, arguments));
}

static int make_stream(stream **made, unsigned flags) {
    stream *s = *made = calloc(1, sizeof *s);
    *s = (stream){.next = all_streams, .of = here(), .flags = flags};
    all_streams = s;
    streams++;
    return flags & ~(unsigned)CUDA_NON_BLOCKING ? INVALID_VALUE : OK;
}
int cuStreamCreate(stream **s, unsigned flags) { LOCKED(make_stream(s, flags)); }

static int drop_stream(stream *s) {
    stream **at = &all_streams;
    demand(!s->first || s->of->error || !s->of->users, "a stream is destroyed that has work left");
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    for (work *w = s->first, *next; w; w = next) next = w->next, free(w);
    free(s);
    streams--;
    return OK;
}
static int destroy(stream *s) {
    int code = known(s);
    return code ? code : drop_stream(s);
}
int cuStreamDestroy_v2(stream *s) { LOCKED(destroy(s)); }
int cuStreamSynchronize(stream *s) { LOCKED(drain(s)); }

// ---------------------------------------------------------------- graphs
#ifndef OLD_DRIVER
static int begin(stream *s, int mode) {
    int code = takes(s);
    if (!code && (fails("capture") || !s || s->capturing || s->first)) code = CAPTURE_UNSUPPORTED;
    if (!code) s->capturing = ACTIVE, s->mode = mode, s->by = pthread_self();
    return code;
}
int cuStreamBeginCapture_v2(stream *s, int mode) {
    LOCKED(mode < GLOBAL || mode > RELAXED ? INVALID_VALUE : begin(s, mode));
}

static void drop_work(work *first) {
    for (work *w = first, *next; w; w = next) next = w->next, free(w);
}

static int end(stream *s, graph **made) {
    int code = known(s);
    if (code || !s->capturing) return code ? code : CAPTURE_UNMATCHED;
    if (s->mode != RELAXED && !pthread_equal(s->by, pthread_self())) return CAPTURE_WRONG_THREAD;
    int lost = s->capturing == INVALIDATED;
    *made = NULL;
    if (lost) drop_work(s->first);
    else *made = calloc(1, sizeof **made), (*made)->first = s->first, graphs++;
    s->first = NULL, s->last = &s->first, s->capturing = NOT;
    return lost ? CAPTURE_INVALIDATED : OK;
}
int cuStreamEndCapture(stream *s, graph **made) { LOCKED(end(s, made)); }

int cuThreadExchangeStreamCaptureMode(int *mode) {
    int before = thread_mode;
    if (ready()) return ready();
    if (*mode < GLOBAL || *mode > RELAXED) return INVALID_VALUE;
    thread_mode = *mode, *mode = before;
    return OK;
}

static int is_capturing(stream *s, int *status) {
    int code = known(s);
    if (!code) code = implicit(s);
    if (!code) *status = s ? (int)s->capturing : NOT;
    return code;
}
int cuStreamIsCapturing(stream *s, int *status) { LOCKED(is_capturing(s, status)); }

static work *copy_of(const work *first) {
    work *all = NULL, **last = &all;
    for (; first; first = first->next) {
        *last = malloc(sizeof **last);
        **last = *first;
        last = &(*last)->next;
    }
    *last = NULL;
    return all;
}

static int instantiate(graph_exec **made, const graph *from) {
    if (fails("instantiate")) return OUT_OF_MEMORY;
    *made = calloc(1, sizeof **made);
    (*made)->first = copy_of(from->first);
    graphs++, graphs_made++;
    return OK;
}
int cuGraphInstantiateWithFlags(graph_exec **made, graph *from, unsigned long long flags) {
    LOCKED(flags ? INVALID_VALUE : instantiate(made, from));
}

int cuGraphDestroy(graph *g) { LOCKED((drop_work(g->first), free(g), graphs--, OK)); }
int cuGraphExecDestroy(graph_exec *g) { LOCKED((drop_work(g->first), free(g), graphs--, OK)); }

static int launch_graph(const graph_exec *g, stream *s) {
    int code = takes(s);
    if (!code && fails("graph")) code = LAUNCH_FAILED;
    for (const work *w = g->first; w && !code; w = w->next) enqueue(s, w);
    graphs_launched += !code;
    return code;
}
int cuGraphLaunch(graph_exec *g, stream *s) { LOCKED(launch_graph(g, s)); }
#endif

static const struct error {
    int code;
    const char *name, *text;
} errors[] = {
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
};

static const struct error *error_of(int code) {
    static const struct error none;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) return &errors[i];
    return &none;
}

// Of what the driver does not know there is no text.
int cuGetErrorName(int code, const char **name) {
    *name = error_of(code)->name;
    return *name ? OK : INVALID_VALUE;
}
int cuGetErrorString(int code, const char **text) {
    *text = error_of(code)->text;
    return *text ? OK : INVALID_VALUE;
}

// ---------------------------------------------------------------- for tests
// The call of `what` (alloc, load_code, load_ptx, launch, to_device, to_host, on_device, wait, capture,
// instantiate, graph) that comes after so many others fails; kernel: the work that somebody waits for does,
// and the context is of no use from then on.
void cuda_double_fail(const char *what, int after) {
    snprintf(fail_what, sizeof fail_what, "%s", what);
    fail_after = after;
}
// bytes allocated now, allocations ever, modules, streams, retained contexts now, launches and waits ever
void cuda_double_counts(int64_t counts[7]) {
    const int64_t all[] = {(int64_t)live_bytes, allocations, modules, streams, retained, launches, syncs};
    memcpy(counts, all, sizeof all);
}
// graphs there now, made ever, launched ever
void cuda_double_graphs(int64_t counts[3]) {
    const int64_t all[] = {graphs, graphs_made, graphs_launched};
    memcpy(counts, all, sizeof all);
}
// From now on the driver is as at the end of a process, or no longer.
void cuda_double_end(int is) { ended = is; }
