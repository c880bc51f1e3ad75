// In the place of libcuda.so.1 where there is no GPU. Device memory cannot be touched but by copies and
// kernels, streams do nothing before somebody waits for them, kernels are CUDA text behind cuda_shim.h with
// threads in a permuted order. CUDA_DOUBLE_DEVICES and CUDA_DOUBLE_SM say what GPUs there are; the functions
// at the end let tests make calls fail and count what is left.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NO_BINARY = 209,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900
};
enum { PAGE = 4096, PARTS = 64, ARGUMENTS = 600, CONTEXTS = 16, SHARED_ANYWHERE = 48 << 10 };
typedef uint64_t address;

typedef struct memory {
    struct memory *next;
    char *at;
    size_t mapped, bytes;
} memory;

typedef struct dim3 {
    unsigned x, y, z;
} dim3;
typedef int launcher(dim3 grid, dim3 block, int order, uint64_t seed, void (*body)(void *), void *args);
typedef struct function {
    launcher *launch;
    void (*run)(void *args);
    int (*save)(void *const *args, void *to);
    int64_t *brought; // of dynamic shared memory
    int most;         // that it may bring
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

typedef struct stream {
    work *first, **last;
    int error, capturing;
} stream;

// What a stream was given while it captured.
typedef struct graph {
    work *first;
} graph;

typedef struct module {
    void *parts[PARTS];
    int nparts;
    function *functions[4096];
    int nfunctions;
} module;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static memory *memories;
static stream default_stream;
static size_t live_bytes;
static int allocations, modules, streams, retained, launches, syncs, graphs, graphs_made, graphs_launched;
static char fail_what[32];
static int fail_after;
static uint64_t seed = 1;
static int contexts[64]; // one for each device
static _Thread_local void *current[CONTEXTS];
static _Thread_local int depth;

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
        mprotect(m->at, m->mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static int is_device(const void *p, size_t n) {
    for (memory *m = memories; m; m = m->next)
        if ((const char *)p >= m->at && (const char *)p + n <= m->at + m->bytes) return 1;
    return 0;
}

static void demand(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "cuda_double: %s\n", what);
    abort();
}

// A page that nobody may touch lies on each side.
static int allocate(address *at, size_t n) {
    if (fails("alloc")) return OUT_OF_MEMORY;
    memory *m = calloc(1, sizeof *m);
    m->bytes = n;
    m->mapped = (n + PAGE - 1) / PAGE * PAGE;
    char *all =
        mmap(NULL, m->mapped + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return OUT_OF_MEMORY;
    m->at = all + PAGE;
    mprotect(m->at, m->mapped, PROT_READ | PROT_WRITE);
    memset(m->at, 0xff, n < 1 << 20 ? n : 1 << 20);
    mprotect(m->at, m->mapped, PROT_NONE);
    m->next = memories;
    memories = m;
    live_bytes += n;
    allocations++;
    *at = (uintptr_t)m->at;
    return 0;
}

static int release(address at) {
    for (memory **m = &memories; *m; m = &(*m)->next) {
        memory *gone = *m;
        if ((uintptr_t)gone->at != at) continue;
        *m = gone->next;
        live_bytes -= gone->bytes;
        munmap(gone->at - PAGE, gone->mapped + 2 * PAGE);
        free(gone);
        return 0;
    }
    return INVALID_VALUE;
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

// What was enqueued runs now.
static int drain(stream *s) {
    stream *of = s ? s : &default_stream;
    if (of->capturing) return CAPTURE_UNSUPPORTED;
    int error = fails("wait") ? LAUNCH_FAILED : 0;
    open_memory(1);
    for (work *w = of->first, *next; w; w = next) {
        next = w->next;
        if (!error) error = run(w);
        free(w);
    }
    open_memory(0);
    of->first = NULL;
    of->last = &of->first;
    syncs++;
    return error;
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

static int load(module *m, const char *image) {
    static const char between[] = "//part\n";
    int virtual = !strncmp(image, "//compute_", 10), sm = atoi(image + (virtual ? 10 : 5));
    if (!virtual && strncmp(image, "//sm_", 5)) return INVALID_PTX;
    int own = image[strcspn(image, "\n") - 1] == 'a';
    if (sm > capability() || (!virtual && sm / 10 != capability() / 10)) return NO_BINARY;
    if (own && sm != capability()) return NO_BINARY;
    for (const char *at = strstr(image, between); at && m->nparts < PARTS;) {
        const char *begin = at + sizeof between - 1, *end = strstr(begin, between);
        char *text = end ? strndup(begin, (size_t)(end - begin)) : strdup(begin);
        void *part = load_part(text);
        free(text);
        if (!part) return INVALID_PTX;
        *(int *)dlsym(part, "shim_no_groups") = !own;
        m->parts[m->nparts++] = part;
        at = end;
    }
    return 0;
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
        *found = f;
        return 0;
    }
    return NOT_FOUND;
}

// ---------------------------------------------------------------- the driver's functions
#define LOCKED(expression)                                                                                   \
    pthread_mutex_lock(&lock);                                                                               \
    int code = depth ? (expression) : INVALID_CONTEXT;                                                       \
    pthread_mutex_unlock(&lock);                                                                             \
    return code

static int device_count(void) { return number_of("CUDA_DOUBLE_DEVICES", 1); }

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : device_count() ? 0 : NO_DEVICE; }
int cuDeviceGetCount(int *n) {
    *n = device_count();
    return 0;
}
int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < 0 || ordinal >= device_count() ? INVALID_DEVICE : 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? capability() / 10 : attribute == 76 ? capability() % 10 : 0;
    return device < 0 || device >= device_count() ? INVALID_DEVICE : 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    pthread_mutex_lock(&lock);
    *context = &contexts[device];
    contexts[device]++, retained++;
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    pthread_mutex_lock(&lock);
    contexts[device]--, retained--;
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuCtxPushCurrent_v2(void *context) {
    if (!context || depth == CONTEXTS) return INVALID_CONTEXT;
    current[depth++] = context;
    return 0;
}
int cuCtxPopCurrent_v2(void **context) {
    if (!depth) return INVALID_CONTEXT;
    *context = current[--depth];
    return 0;
}

int cuModuleLoadData(module **m, const void *image) {
    *m = calloc(1, sizeof **m);
    modules++;
    LOCKED(load(*m, image));
}
int cuModuleUnload(module *m) {
    for (int i = 0; i < m->nfunctions; i++) free(m->functions[i]);
    for (int i = 0; i < m->nparts; i++) dlclose(m->parts[i]);
    free(m);
    modules--;
    return 0;
}
int cuModuleGetFunction(function **f, module *m, const char *name) { LOCKED(find(m, name, f)); }

int cuFuncSetAttribute(function *f, int attribute, int value) {
    enum { OPT_IN = 99 << 10, LARGE = 227 << 10 };
    if (attribute != 8 || value < 0 || value > (capability() == 90 || capability() == 100 ? LARGE : OPT_IN))
        return INVALID_VALUE;
    f->most = value;
    return 0;
}

int cuMemAlloc_v2(address *at, size_t n) { LOCKED(n ? allocate(at, n) : INVALID_VALUE); }
int cuMemFree_v2(address at) { LOCKED(release(at)); }

static int copy(kind k, void *to, const void *from, size_t n, stream *s, const char *what) {
    if (fails(what)) return LAUNCH_FAILED;
    enqueue(s, &(work){.kind = k, .to = to, .from = from, .n = n});
    return 0;
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
int cuMemsetD8Async(address to, unsigned char value, size_t n, stream *s) {
    LOCKED((enqueue(s, &(work){.kind = FILL, .to = (void *)(uintptr_t)to, .n = n, .value = value}), 0));
}

static int launch(function *f, dim3 grid, dim3 block, unsigned shared, stream *s, void *const *arguments) {
    if (fails("launch")) return LAUNCH_FAILED;
    work w = {.kind = LAUNCH, .f = *f, .grid = grid, .block = block, .shared = shared};
    if (shared > (unsigned)f->most) return INVALID_VALUE;
    if (!grid.x || !grid.y || !grid.z || !block.x || block.x * block.y * block.z > 1024) return INVALID_VALUE;
    f->save(arguments, w.arguments);
    enqueue(s, &w);
    launches++;
    return 0;
}
int cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, stream *s, void **arguments, void **extra) {
    (void)extra;
    LOCKED(launch(f, (dim3){gx, gy, gz}, (dim3){bx, by, bz}, shared, s, arguments));
}

int cuStreamCreate(stream **s, unsigned flags) {
    (void)flags;
    *s = calloc(1, sizeof **s);
    LOCKED((streams++, 0));
}
static int destroy(stream *s) {
    demand(!s->first, "a stream is destroyed that has work left");
    free(s);
    streams--;
    return 0;
}
int cuStreamDestroy_v2(stream *s) { LOCKED(destroy(s)); }
int cuStreamSynchronize(stream *s) { LOCKED(drain(s)); }

// ---------------------------------------------------------------- graphs
#ifndef OLD_DRIVER
static int begin(stream *s) {
    if (fails("capture") || s->capturing || s->first) return CAPTURE_UNSUPPORTED;
    return s->capturing = 1, 0;
}
int cuStreamBeginCapture_v2(stream *s, int mode) { LOCKED(mode != 1 ? INVALID_VALUE : begin(s)); }

static int end(stream *s, graph **made) {
    if (!s->capturing) return INVALID_VALUE;
    *made = calloc(1, sizeof **made);
    (*made)->first = s->first;
    s->first = NULL, s->last = &s->first, s->capturing = 0;
    graphs++;
    return 0;
}
int cuStreamEndCapture(stream *s, graph **made) { LOCKED(end(s, made)); }

int cuStreamIsCapturing(stream *s, int *status) {
    *status = s && s->capturing;
    return 0;
}

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

static int instantiate(graph **made, const graph *from) {
    if (fails("instantiate")) return OUT_OF_MEMORY;
    *made = calloc(1, sizeof **made);
    (*made)->first = copy_of(from->first);
    graphs++, graphs_made++;
    return 0;
}
int cuGraphInstantiateWithFlags(graph **made, graph *from, unsigned long long flags) {
    LOCKED(flags ? INVALID_VALUE : instantiate(made, from));
}

static int drop(graph *g) {
    for (work *w = g->first, *next; w; w = next) next = w->next, free(w);
    free(g);
    graphs--;
    return 0;
}
int cuGraphDestroy(graph *g) { LOCKED(drop(g)); }
int cuGraphExecDestroy(graph *g) { LOCKED(drop(g)); }

static int launch_graph(const graph *g, stream *s) {
    if (fails("graph")) return LAUNCH_FAILED;
    for (const work *w = g->first; w; w = w->next) enqueue(s, w);
    graphs_launched++;
    return 0;
}
int cuGraphLaunch(graph *g, stream *s) { LOCKED(launch_graph(g, s)); }
#endif

int cuGetErrorName(int code, const char **name) {
    *name = code == OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : code == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
                                    : "CUDA_ERROR";
    return 0;
}
int cuGetErrorString(int code, const char **text) {
    *text = code == OUT_OF_MEMORY   ? "out of memory"
            : code == LAUNCH_FAILED ? "unspecified launch failure"
                                    : "an error";
    return 0;
}

// ---------------------------------------------------------------- for tests
// The call of `what` (alloc, launch, to_device, to_host, on_device, wait, capture, instantiate, graph) that
// comes after so many others fails.
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
