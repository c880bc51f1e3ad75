// Models on NVIDIA's GPUs, by the driver's interface. In: the object's code and weights, the caller's
// options. Out: contexts, and the functions that emitted code calls in a run.
#include "runtime-lite/core/runtime.h"
#include "runtime-lite/cuda/cuda_graph.h"
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_ROOM = 256, BLOCK_ALIGN = 512, SLACK = 1 << 16, SHARED_ANYWHERE = 48 << 10 };

// A model on a GPU, shared by its contexts.
typedef struct loaded {
    struct loaded *next;
    const onnxc_gpu_images *images;
    int ordinal, device, users;
    cuda_context context;
    cuda_module module;
    cuda_function *functions;
    cuda_address weights;
} loaded;

typedef struct block {
    struct block *next;
    cuda_address at;
    size_t size;
    bool used, kept;             // kept: a graph of the caller has its address
    const struct session *giver; // run that freed it, but has not started all its work; NULL: none
} block;

// A run: its deferred work and planned memory.
typedef struct session {
    struct session *next;
    block *workspace;
    cuda_work work;
    int mode;      // capture mode of the thread before the run
    bool captured; // by the caller
} session;

typedef struct onnxc_gpu {
    onnxc_context face; // the caller's view
    loaded *model;
    cuda_stream stream;
    bool own_stream, device_pointers;
    system_lock lock; // guards blocks and unused sessions
    block *blocks;
    session *sessions;
    cuda_graphs graphs;
    onnxc_context *file; // the mapped weights; NULL: the object contains them
} gpu;

static system_lock models_lock = SYSTEM_LOCK;
static loaded *models;
static const cuda_driver *cuda; // set under models_lock, before the first model is loaded
static _Thread_local char message[512];

const char *onnxc_rt_gpu_message(void) { return message; }

#define SAY(code, ...) (snprintf(message, sizeof message, __VA_ARGS__), (code))

static int code_of(int error) { return error == CUDA_OUT_OF_MEMORY ? ONNXC_NO_MEMORY : ONNXC_GPU_FAILED; }

static int failed(int error, const char *doing) {
    const char *name = NULL, *text = NULL;
    if (!error) return ONNXC_OK;
    cuda->error_name(error, &name);
    cuda->error_text(error, &text);
    return SAY(code_of(error), "%s: %s (%s)", doing, text ? text : "unknown error", name ? name : "?");
}

// Makes the context current. Captures of other threads must not forbid calls in between, so the capture mode
// is relaxed; *mode: the previous one.
static int enter(cuda_context context, int *mode) {
    int error = cuda->push(context);
    *mode = CUDA_CAPTURE_RELAXED;
    if (!error && cuda->exchange_mode) cuda->exchange_mode(mode);
    return error;
}

static void leave(int mode) {
    if (cuda->exchange_mode) cuda->exchange_mode(&mode);
    cuda->pop(&(cuda_context){0});
}

// ---------------------------------------------------------------- the code
static const onnxc_gpu_image *image_at(const onnxc_gpu_images *all, uint32_t i) {
    return (const onnxc_gpu_image *)(const void *)(all + 1) + i;
}

// Machine code runs on its architecture and, unless it is architecture-specific, on newer ones with the same
// first digit; PTX on all newer ones.
static bool runs_on(const onnxc_gpu_image *i, int sm) {
    if (i->kind == ONNXC_GPU_OWN_CODE) return i->sm == sm;
    return i->sm <= sm && (i->kind == ONNXC_GPU_PTX || i->sm / 10 == sm / 10);
}

static int rank_of(const onnxc_gpu_image *i) {
    return (i->kind == ONNXC_GPU_OWN_CODE ? 2 : i->kind == ONNXC_GPU_CODE) * 1000 + i->sm;
}

// The best image of a lower rank.
static const onnxc_gpu_image *best_image(const onnxc_gpu_images *all, int sm, int below) {
    const onnxc_gpu_image *best = NULL;
    for (uint32_t i = 0; i < all->nimages; i++) {
        const onnxc_gpu_image *new = image_at(all, i);
        bool better = runs_on(new, sm) && rank_of(new) < below;
        if (better && (!best || rank_of(best) < rank_of(new))) best = new;
    }
    return best;
}

typedef struct image_name {
    char s[16];
} image_name;
static image_name name_of(const onnxc_gpu_image *i) {
    image_name n;
    snprintf(n.s, sizeof n.s, "%s sm_%d%s", i->kind == ONNXC_GPU_PTX ? "PTX" : "code", i->sm,
             i->kind == ONNXC_GPU_OWN_CODE ? "a" : "");
    return n;
}

static int no_image(const onnxc_gpu_images *all, int sm) {
    char list[256] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < all->nimages && n < sizeof list - 32; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", name_of(image_at(all, i)).s);
    return SAY(ONNXC_NO_GPU, "the GPU is sm_%d, but the object has %s", sm, list);
}

// Dynamic shared memory of each function. More than SHARED_ANYWHERE must be requested.
static const uint32_t *shared_of(const onnxc_gpu_images *all) {
    return (const uint32_t *)(const void *)((const char *)all + all->shared);
}

// most: maximum for a block on this GPU.
static int load_function(loaded *m, uint32_t i, const char *name, int most) {
    uint32_t shared = shared_of(m->images)[i];
    if (shared > SHARED_ANYWHERE && shared > (uint32_t)most)
        return SAY(ONNXC_NO_GPU, "%s needs %u bytes of shared memory, but a block of the GPU has %d", name,
                   (unsigned)shared, most);
    int error = cuda->function(&m->functions[i], m->module, name);
    if (!error && shared > SHARED_ANYWHERE)
        error = cuda->function_set(m->functions[i], CUDA_FUNCTION_SHARED_MOST, (int)shared);
    return failed(error, name);
}

static int load_functions(loaded *m) {
    const char *name = (const char *)m->images + m->images->names;
    int most = 0,
        code = failed(cuda->device_attribute(&most, CUDA_SHARED_MOST, m->device), "querying the GPU");
    if (code) return code;
    m->functions = calloc(m->images->nfunctions + 1, sizeof *m->functions);
    if (!m->functions) return SAY(ONNXC_NO_MEMORY, "no memory");
    for (uint32_t i = 0; i < m->images->nfunctions; i++, name += strlen(name) + 1) {
        code = load_function(m, i, name, most);
        if (code) return code;
    }
    return ONNXC_OK;
}

// Whether the driver rejects this image, but may accept another one; it may be older than the NVRTC that
// compiled it.
static bool is_unfit(int error) {
    static const int all[] = {CUDA_INVALID_IMAGE, CUDA_NO_BINARY, CUDA_INVALID_PTX,   CUDA_NO_JIT,
                              CUDA_PTX_TOO_NEW,   CUDA_JIT_OFF,   CUDA_INVALID_SOURCE};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] == error) return true;
    return false;
}

// Appends the reason of a failure to why.
static int load_image(loaded *m, const onnxc_gpu_image *i, char *why, size_t size) {
    char log[256] = "", doing[32];
    int options[] = {CUDA_JIT_LOG, CUDA_JIT_LOG_SIZE};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    int error = cuda->load(&m->module, (const char *)m->images + i->offset, 2, options, values);
    if (!error) return error;
    size_t n = strlen(why);
    snprintf(doing, sizeof doing, "loading %s", name_of(i).s);
    failed(error, doing);
    log[sizeof log - 1] = 0;
    log[strcspn(log, "\n")] = 0;
    snprintf(why + n, size - n, "%s%.200s%s%.200s", n ? "; " : "", message, *log ? ": " : "", log);
    m->module = NULL;
    return error;
}

// Loads the best image that the driver accepts.
static int load_best(loaded *m, int sm) {
    char why[sizeof message - 64] = "";
    int error = 0, version = 0;
    const onnxc_gpu_image *i = best_image(m->images, sm, INT_MAX);
    if (!i) return no_image(m->images, sm);
    for (; i; i = best_image(m->images, sm, rank_of(i))) {
        error = load_image(m, i, why, sizeof why);
        if (!error) return load_functions(m);
        if (!is_unfit(error)) return SAY(code_of(error), "%s", why);
    }
    cuda->version(&version);
    return SAY(ONNXC_NO_GPU, "%s; the driver knows CUDA %d.%d", why, version / 1000, version % 1000 / 10);
}

static int load_code(loaded *m) {
    int sm, code = failed(cuda_capability(cuda, m->device, &sm), "querying the GPU");
    return code || !m->images->nfunctions ? code : load_best(m, sm);
}

// ---------------------------------------------------------------- weights
typedef struct uploading {
    const loaded *model;
    const void *file;
    cuda_stream stream;
    int error;
} uploading;

// The data that an object passes to open it.
typedef struct object_data {
    const onnxc_gpu_images *images;
    onnxc_rt_gpu_upload *upload;
    int64_t weights;
    const void *file; // NULL: the object contains the constants
} object_data;

const void *onnxc_rt_gpu_file(void *user) { return ((const uploading *)user)->file; }

void onnxc_rt_gpu_put(void *user, int64_t offset, const void *from, int64_t bytes) {
    uploading *u = user;
    if (u->error || !bytes) return;
    u->error = cuda->to_device(u->model->weights + (uint64_t)offset, from, (size_t)bytes, u->stream);
}

static int load_weights(loaded *m, const object_data *from) {
    if (!from->weights) return ONNXC_OK;
    int code = failed(cuda->alloc(&m->weights, (size_t)from->weights), "allocating the weights");
    if (code) return code;
    uploading u = {m, from->file, NULL, 0};
    u.error = cuda->stream_create(&u.stream, CUDA_NON_BLOCKING);
    if (u.error) return failed(u.error, "making a stream");
    from->upload(&u);
    int error = cuda->stream_wait(u.stream);
    cuda->stream_destroy(u.stream);
    return failed(u.error ? u.error : error, "uploading the weights");
}

// ---------------------------------------------------------------- models
static void drop_model(loaded *m) {
    int mode;
    if (m->context && !enter(m->context, &mode)) {
        if (m->weights) cuda->free(m->weights);
        if (m->module) cuda->unload(m->module);
        leave(mode);
    }
    if (m->context) cuda->release(m->device);
    free(m->functions);
    free(m);
}

static int find_device(loaded *m) {
    int count = 0, code = failed(cuda->device_count(&count), "counting the GPUs");
    if (code) return code;
    if (m->ordinal < 0 || m->ordinal >= count)
        return SAY(ONNXC_NO_GPU, "there is no GPU %d: the driver has %d", m->ordinal, count);
    code = failed(cuda->device_get(&m->device, m->ordinal), "selecting the GPU");
    return code ? code : failed(cuda->retain(&m->context, m->device), "opening the GPU");
}

static int fill_model(loaded *m, const object_data *from) {
    int mode, code = find_device(m);
    if (!code) code = failed(enter(m->context, &mode), "opening the GPU");
    if (code) return code;
    code = load_code(m);
    if (!code) code = load_weights(m, from);
    leave(mode);
    return code;
}

// Requires models_lock.
static int take_model(const object_data *from, int ordinal, loaded **model) {
    const char *why = NULL;
    cuda = cuda_driver_open(&why);
    if (!cuda) return SAY(ONNXC_NO_GPU, "%s", why);
    for (loaded *m = models; m; m = m->next)
        if (m->images == from->images && m->ordinal == ordinal) {
            m->users++;
            *model = m;
            return ONNXC_OK;
        }
    loaded *m = calloc(1, sizeof *m);
    if (!m) return SAY(ONNXC_NO_MEMORY, "no memory");
    *m = (loaded){.images = from->images, .ordinal = ordinal, .users = 1};
    int code = fill_model(m, from);
    if (code) {
        drop_model(m);
        return code;
    }
    m->next = models;
    models = *model = m;
    return ONNXC_OK;
}

static void leave_model(loaded *m) {
    system_lock_take(&models_lock);
    if (--m->users == 0) {
        loaded **at = &models;
        while (*at != m) at = &(*at)->next;
        *at = m->next;
        drop_model(m);
    }
    system_lock_release(&models_lock);
}

// ---------------------------------------------------------------- contexts
static int open_gpu(gpu *g, const onnxc_options *o, const object_data *from) {
    system_lock_take(&models_lock);
    int code = take_model(from, o->device, &g->model);
    system_lock_release(&models_lock);
    if (code) return code;
    g->face.device = o->device;
    g->face.gpu = g;
    g->device_pointers = o->device_pointers != 0;
    g->stream = o->stream;
    cuda_graphs_open(cuda, &g->graphs, o->no_graphs);
    if (g->stream) return ONNXC_OK;
    int mode;
    code = failed(enter(g->model->context, &mode), "opening the GPU");
    if (code) return code;
    code = failed(cuda->stream_create(&g->stream, 0), "making a stream");
    g->own_stream = !code;
    leave(mode);
    return code;
}

static void close_gpu(gpu *g) {
    int mode;
    if (g->model && !enter(g->model->context, &mode)) {
        if (g->stream) cuda->stream_wait(g->stream);
        cuda_graphs_close(cuda, &g->graphs);
        for (block *b = g->blocks; b; b = b->next) cuda->free(b->at);
        if (g->own_stream) cuda->stream_destroy(g->stream);
        leave(mode);
    }
    for (block *b = g->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    for (session *s = g->sessions, *next; s; s = next) {
        next = s->next;
        free(s->work.words);
        free(s);
    }
    if (g->model) leave_model(g->model);
    onnxc_rt_close(g->file);
    system_lock_destroy(&g->lock);
    free(g);
}

// file: the mapped weights, which the context then owns; NULL: none.
static int open_context(const onnxc_options *options, object_data from, onnxc_context *file,
                        onnxc_context **context) {
    onnxc_options o = {0};
    if (options) memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    gpu *g = calloc(1, sizeof *g);
    if (!g) return ONNXC_NO_MEMORY;
    system_lock_init(&g->lock);
    message[0] = 0;
    if (file) {
        g->face.weights = from.file = file->weights;
        g->face.weights_size = file->weights_size;
    }
    int code = open_gpu(g, &o, &from);
    if (code && o.message && o.message_size) snprintf(o.message, o.message_size, "%s", message);
    if (code) {
        close_gpu(g);
        return code;
    }
    g->file = file;
    *context = &g->face;
    return ONNXC_OK;
}

int onnxc_rt_gpu_open(const onnxc_options *options, const onnxc_gpu_images *images,
                      onnxc_rt_gpu_upload *upload, int64_t weights, onnxc_context **context) {
    if (!context) return ONNXC_NULL_POINTER;
    *context = NULL;
    return open_context(options, (object_data){images, upload, weights, NULL}, NULL, context);
}

int onnxc_rt_gpu_open_file(const onnxc_options *options, const onnxc_gpu_images *images,
                           onnxc_rt_gpu_upload *upload, int64_t weights, onnxc_context **context,
                           const onnxc_weights_head *head) {
    onnxc_context *file;
    if (!context) return ONNXC_NULL_POINTER;
    *context = NULL;
    int code = onnxc_rt_open(options, head, &file);
    if (code) return code;
    code = open_context(options, (object_data){images, upload, weights, NULL}, file, context);
    if (code) onnxc_rt_close(file);
    return code;
}

// Callers that pass a stream or device addresses need the GPU.
static bool must_have_gpu(const onnxc_options *o) {
    bool says = o && o->size >= offsetof(onnxc_options, message);
    return says && (o->device_pointers || o->stream || o->device > 0);
}

static bool wants_cpu(const onnxc_options *o) {
    return o && o->size >= offsetof(onnxc_options, device_pointers) && o->device < 0;
}

int onnxc_rt_gpu_or_cpu_open(const onnxc_options *options, const onnxc_gpu_images *images,
                             onnxc_rt_gpu_upload *upload, int64_t weights, onnxc_context **context) {
    int code =
        wants_cpu(options) ? ONNXC_NO_GPU : onnxc_rt_gpu_open(options, images, upload, weights, context);
    if (code != ONNXC_NO_GPU || must_have_gpu(options)) return code;
    if (!context) return ONNXC_NULL_POINTER;
    *context = calloc(1, sizeof **context);
    if (!*context) return ONNXC_NO_MEMORY;
    (*context)->device = -1;
    return ONNXC_OK;
}

int onnxc_rt_gpu_or_cpu_open_file(const onnxc_options *options, const onnxc_gpu_images *images,
                                  onnxc_rt_gpu_upload *upload, int64_t weights, onnxc_context **context,
                                  const onnxc_weights_head *head) {
    int code = wants_cpu(options) ? ONNXC_NO_GPU
                                  : onnxc_rt_gpu_open_file(options, images, upload, weights, context, head);
    if (code != ONNXC_NO_GPU || must_have_gpu(options)) return code;
    code = onnxc_rt_open(options, head, context);
    if (!code) (*context)->device = -1;
    return code;
}

void onnxc_rt_gpu_close(onnxc_context *c) {
    if (c && c->gpu) close_gpu(c->gpu);
    else onnxc_rt_close(c);
}

// ---------------------------------------------------------------- memory Blocks are kept for the next
// Blocks are cached. All work of a context is in one stream, so a block can be reused while kernels that use it
// are still running. Deferred kernels precede only other work of the same run.
static bool is_free(const block *b, const session *s) { return !b->used && (!b->giver || b->giver == s); }

static block *find_block(gpu *g, const session *s, size_t bytes) {
    block *best = NULL;
    for (block *b = g->blocks; b; b = b->next) {
        bool fits = is_free(b, s) && b->size >= bytes && b->size <= 2 * bytes + SLACK;
        if (fits && (!best || b->size < best->size)) best = b;
    }
    return best;
}

static void drop_block(gpu *g, block *b) {
    block **at = &g->blocks;
    while (*at != b) at = &(*at)->next;
    *at = b->next;
    cuda->free(b->at);
    free(b);
}

static bool may_go(const block *b) { return is_free(b, NULL) && !b->kept; }

static void drop_free_blocks(gpu *g) {
    cuda->stream_wait(g->stream);
    for (block *b = g->blocks, *next; b; b = next) {
        next = b->next;
        if (may_go(b)) drop_block(g, b);
    }
}

// A growing request replaces the block of the previous one.
static void make_room(gpu *g, size_t bytes) {
    block *largest = NULL;
    for (block *b = g->blocks; b; b = b->next)
        if (may_go(b) && b->size < bytes && 2 * b->size >= bytes && (!largest || b->size > largest->size))
            largest = b;
    if (!largest) return;
    cuda->stream_wait(g->stream);
    drop_block(g, largest);
}

// Waiting is impossible during a capture. Otherwise unused blocks are freed if memory runs out.
static int new_block(gpu *g, bool captured, size_t bytes, block **made) {
    block *b = calloc(1, sizeof *b);
    if (!b) return SAY(ONNXC_NO_MEMORY, "no memory");
    if (!captured) make_room(g, bytes);
    b->size = (bytes + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    int error = cuda->alloc(&b->at, b->size);
    if (error == CUDA_OUT_OF_MEMORY && !captured) {
        drop_free_blocks(g);
        error = cuda->alloc(&b->at, b->size);
    }
    if (error) {
        free(b);
        return failed(error, "allocating memory on the GPU");
    }
    b->next = g->blocks;
    g->blocks = *made = b;
    return ONNXC_OK;
}

static int take_block(gpu *g, const session *s, size_t bytes, block **taken) {
    bytes = bytes ? bytes : 1;
    system_lock_take(&g->lock);
    block *b = find_block(g, s, bytes);
    int code = b ? ONNXC_OK : new_block(g, s->captured, bytes, &b);
    if (!code) {
        b->used = true;
        b->giver = NULL;
        b->kept |= s->captured;
    }
    system_lock_release(&g->lock);
    *taken = b;
    return code;
}

static void *pointer_to(cuda_address a) { return (void *)(uintptr_t)a; }
static cuda_address address_of(const void *p) { return (uintptr_t)p; }

// Rounded up, so that values that grow in each run do not need a new block every time.
static size_t with_room(size_t bytes) {
    size_t step = BLOCK_ALIGN;
    while (step * 8 < bytes) step *= 2;
    return (bytes + step - 1) / step * step;
}

// Starts the deferred work. Other runs can then use the memory that this run has freed.
static int start(const onnxc_gpu_run *run) {
    gpu *g = run->gpu;
    session *s = run->session;
    int error = s->work.n ? cuda_work_start(cuda, &g->graphs, &s->work, g->stream) : 0;
    system_lock_take(&g->lock);
    for (block *b = g->blocks; b; b = b->next)
        if (b->giver == s) b->giver = NULL;
    system_lock_release(&g->lock);
    return failed(error, "starting kernels");
}

void *onnxc_rt_gpu_alloc(onnxc_gpu_run *run, int64_t bytes) {
    block *b = NULL;
    size_t size = with_room((size_t)bytes);
    int code = take_block(run->gpu, run->session, size, &b);
    if (code == ONNXC_NO_MEMORY && !start(run)) code = take_block(run->gpu, run->session, size, &b);
    return code ? NULL : pointer_to(b->at);
}

void onnxc_rt_gpu_free(onnxc_gpu_run *run, void *at) {
    if (!at) return;
    gpu *g = run->gpu;
    system_lock_take(&g->lock);
    for (block *b = g->blocks; b; b = b->next)
        if (b->used && b->at == address_of(at)) {
            b->used = false;
            b->giver = run->session;
        }
    system_lock_release(&g->lock);
}

// ---------------------------------------------------------------- a run
static session *take_session(gpu *g) {
    system_lock_take(&g->lock);
    session *s = g->sessions;
    if (s) g->sessions = s->next;
    system_lock_release(&g->lock);
    if (!s) s = calloc(1, sizeof *s);
    int status = 0;
    if (s)
        s->captured =
            !g->own_stream && cuda_has_graphs(cuda) && !cuda->is_capturing(g->stream, &status) && status;
    return s;
}

static void give_session(gpu *g, session *s) {
    system_lock_take(&g->lock);
    if (s->workspace) s->workspace->used = false;
    s->workspace = NULL;
    s->next = g->sessions;
    g->sessions = s;
    system_lock_release(&g->lock);
}

static int begin(gpu *g, session *s, size_t before, size_t workspace) {
    if (!s) return SAY(ONNXC_NO_MEMORY, "no memory");
    int code = take_block(g, s, before + workspace, &s->workspace);
    if (code || !before) return code;
    return failed(cuda_work_fill(&s->work, s->workspace->at, 0, before), "clearing GPU memory");
}

int onnxc_rt_gpu_begin(onnxc_gpu_run *run, const onnxc_context *context, const onnxc_gpu_images *images,
                       int64_t workspace, int statuses) {
    *run = (onnxc_gpu_run){0};
    gpu *g = context->gpu;
    if (!g || g->model->images != images) return SAY(ONNXC_NO_GPU, "the context belongs to another model");
    size_t before = ((size_t)statuses * sizeof(int32_t) + STATUS_ROOM - 1) / STATUS_ROOM * STATUS_ROOM;
    int mode, code = failed(enter(g->model->context, &mode), "using the GPU");
    if (code) return code;
    session *s = take_session(g);
    code = begin(g, s, before, (size_t)workspace);
    if (code) {
        if (s) give_session(g, s);
        leave(mode);
        return code;
    }
    s->mode = mode;
    cuda_address at = s->workspace->at;
    *run = (onnxc_gpu_run){pointer_to(at + before), pointer_to(g->model->weights), pointer_to(at), g, s,
                           (size_t)statuses};
    return ONNXC_OK;
}

// Deferred work of a failed run is dropped.
int onnxc_rt_gpu_end(onnxc_gpu_run *run, int status) {
    gpu *g = run->gpu;
    if (!g) return ONNXC_OK;
    session *s = run->session;
    if (status) {
        s->work.n = 0;
        s->work.count = 0;
    }
    int mode = s->mode, code = start(run),
        waited = code || status || !g->device_pointers ? cuda->stream_wait(g->stream) : 0;
    give_session(g, s);
    leave(mode);
    return code ? code : failed(waited, "waiting for the GPU");
}

// Kernels need addresses that are aligned like those of cuMemAlloc.
void *onnxc_rt_gpu_caller(onnxc_gpu_run *run, void *caller, void *own, int on_device) {
    bool aligned = (uintptr_t)caller % 64 == 0;
    return caller && run->gpu->device_pointers == (on_device != 0) && (aligned || !on_device) ? caller : own;
}

static int check_sizes(const int64_t *values) {
    static const int64_t most[] = {INT32_MAX, 65535, 65535};
    for (int i = 0; i < 3; i++)
        if (values[i] > most[i])
            return SAY(ONNXC_TOO_LARGE, "a kernel needs %lld blocks, more than a GPU can launch",
                       (long long)values[i]);
    return ONNXC_OK;
}

int onnxc_rt_gpu_launch(onnxc_gpu_run *run, int function, int n, const int64_t *values) {
    session *s = run->session;
    int code = check_sizes(values);
    if (code || values[0] <= 0 || values[1] <= 0 || values[2] <= 0) return code;
    const loaded *m = run->gpu->model;
    uint32_t shared = shared_of(m->images)[function];
    return failed(cuda_work_launch(&s->work, m->functions[function], values, shared, n, values + 6),
                  "a kernel's arguments");
}

// Both sides are on the host. Waits for pending transfers from or to the caller's memory.
static int copy_on_host(gpu *g, void *to, const void *from, size_t n, bool at_caller) {
    int code = at_caller ? failed(cuda->stream_wait(g->stream), "waiting for the GPU") : ONNXC_OK;
    if (!code) memmove(to, from, n);
    return code;
}

// Memory of host steps is reused immediately, so these copies are complete on return.
static int copy_to_device(gpu *g, void *to, const void *from, size_t n, bool at_caller) {
    int error = cuda->to_device(address_of(to), from, n, g->stream);
    if (!error && !at_caller) error = cuda->stream_wait(g->stream);
    return failed(error, "copying to the GPU");
}

static int copy_to_host(gpu *g, void *to, const void *from, size_t n, bool at_caller) {
    int error = cuda->to_host(to, address_of(from), n, g->stream);
    if (!error && !at_caller) error = cuda->stream_wait(g->stream);
    return failed(error, "copying from the GPU");
}

int onnxc_rt_gpu_copy(onnxc_gpu_run *run, void *to, const void *from, int64_t bytes, int to_side,
                      int from_side) {
    gpu *g = run->gpu;
    size_t n = (size_t)bytes;
    bool to_caller = to_side == ONNXC_AT_CALLER, from_caller = from_side == ONNXC_AT_CALLER;
    bool to_gpu = to_caller ? g->device_pointers : to_side == ONNXC_ON_DEVICE;
    bool from_gpu = from_caller ? g->device_pointers : from_side == ONNXC_ON_DEVICE;
    if (to == from || !n) return ONNXC_OK;
    if (to_gpu && from_gpu)
        return failed(cuda_work_copy(&((session *)run->session)->work, address_of(to), address_of(from), n),
                      "copying on the GPU");
    int code = to_gpu || from_gpu ? start(run) : ONNXC_OK;
    if (code) return code;
    if (to_gpu) return copy_to_device(g, to, from, n, from_caller);
    if (from_gpu) return copy_to_host(g, to, from, n, to_caller);
    return copy_on_host(g, to, from, n, to_caller);
}

int onnxc_rt_gpu_wait(onnxc_gpu_run *run) {
    int code = start(run);
    return code ? code : failed(cuda->stream_wait(run->gpu->stream), "waiting for the GPU");
}

int onnxc_rt_gpu_status(onnxc_gpu_run *run, int32_t *statuses) {
    int code = start(run);
    if (code) return code;
    return copy_to_host(run->gpu, statuses, run->status, run->statuses * sizeof *statuses, false);
}
