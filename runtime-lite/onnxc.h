/* onnxc.h: calling compiled models.
 *
 * Every model NAME that onnxc compiles comes with a header NAME.h that needs nothing else:
 *
 *     NAME_in in = {.image = pixels};
 *     NAME_out out = {.logits = scores};
 *     int failed = NAME_run(&in, &out, workspace, sizeof workspace);
 *
 * This header is for programs that do not know their models at compile time (tools, bindings, servers).
 * They access all models in the same way, through descriptors. It also declares the functions of the
 * runtime library (libonnxc-rt).
 *
 * Rules for all models
 *   - Tensors are dense and row-major. A bool is one byte, 0 or 1. float16 and bfloat16 are stored as their
 *     bits in a uint16_t, 8-bit floats in a uint8_t, and complex numbers as pairs (real, imaginary). 4-bit
 *     and 2-bit elements are packed, the first one in the low bits.
 *   - Outputs and the workspace must not overlap each other or the inputs.
 *   - The contents of the workspace are arbitrary before a call and meaningless after it. Concurrent calls
 *     need separate workspaces; nothing else is shared.
 *   - A failed call returns one of the codes below. A call that fails with a code up to ONNXC_BAD_DIM or
 *     with ONNXC_WORKSPACE_* has not written anything.
 */
#ifndef ONNXC_H
#define ONNXC_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the interface between objects, descriptors, the runtime and programs, all of which must have the
 * same. It changes with any of the declarations below (docs/versioning.md). */
#define ONNXC_INTERFACE 2

#ifndef ONNXC_STATUS
#define ONNXC_STATUS
typedef enum onnxc_status {
    ONNXC_OK = 0,
    ONNXC_NULL_POINTER = 1,    /* a struct, tensor or workspace is a null pointer */
    ONNXC_BAD_DIM = 2,         /* a dimension is not one that the model accepts, or dimensions disagree */
    ONNXC_WORKSPACE_SIZE = 3,  /* the workspace is too small */
    ONNXC_WORKSPACE_ALIGN = 4, /* the workspace is not aligned to NAME_WORKSPACE_ALIGN bytes */
    ONNXC_TOO_SMALL = 5,       /* an output exceeds its capacity; its dims are the sizes needed */
    ONNXC_TOO_LARGE = 6,       /* the sizes exceed any memory */
    ONNXC_NO_MEMORY = 7,       /* allocation failed */
    ONNXC_CHECK_FAILED = 8,    /* the data violate a rule of the model: an index out of range ... */
    ONNXC_CANCELLED = 9,       /* the hook returned non-zero */
    ONNXC_BAD_CPU = 10,        /* this CPU lacks instructions that the object was compiled for */
    ONNXC_BAD_WEIGHTS = 11,    /* the weights file is missing or belongs to another model */
    ONNXC_NO_GPU = 12,         /* no driver, no such GPU, or no code for it in the object */
    ONNXC_GPU_FAILED = 13      /* the GPU driver reported an error */
} onnxc_status;
#endif

/* ---- Contexts (models compiled with --weights FILE or --device cuda)
 *
 * A context is what such a model needs across calls. NAME_open maps the weights file; any number of threads
 * may run the model with one context. Freestanding models have no NAME_open: the program sets `weights`
 * itself.
 *
 * On a GPU, NAME_open loads the code and the weights, which are shared by all contexts of the model on that
 * GPU. Runs with the same context are queued on its stream one after the other; the workspace passed to
 * NAME_run holds the host's temporaries. With device_pointers a run returns without waiting for the GPU,
 * unless the model checks its data or the host needs them: synchronise with the stream before reading the
 * outputs. A model compiled for cuda,cpu falls back to the CPU if no GPU can run it, unless the options ask
 * for something that only a GPU has; the context's device and the options' message tell. Strings, sequences
 * and optionals are always in host memory.
 */
#ifndef ONNXC_CONTEXT
#define ONNXC_CONTEXT
typedef struct onnxc_context {
    const void *weights; /* contents of the weights file, 64-byte aligned */
    size_t weights_size;
    int mapped;            /* non-zero: NAME_open mapped the file, NAME_close unmaps it */
    int device;            /* GPU number; -1: the CPU */
    struct onnxc_gpu *gpu; /* NULL: none */
} onnxc_context;
/* A NULL pointer to options means all zeros. */
typedef struct onnxc_options {
    size_t size; /* sizeof(onnxc_options), which tells the members that exist */
    const char
        *weights; /* path of the weights file; NULL: the name given with --weights, in the current folder */
    const void *data; /* not NULL: contents of the file, 64-byte aligned, used instead of a path */
    size_t data_size;
    int device;          /* GPU number; -1: the CPU */
    int device_pointers; /* non-zero: inputs and outputs are in GPU memory */
    void *stream;  /* a CUstream or cudaStream_t of the GPU's primary context; NULL: NAME_open creates one */
    char *message; /* NULL, or a buffer for the reason why NAME_open failed */
    size_t message_size;
    int no_graphs; /* non-zero: kernels are launched one by one, even if a run is repeated */
} onnxc_options;
#endif

/* A short description of a status code. */
const char *onnxc_status_text(int status);

/* Strings, sequences, optionals and maps. The caller owns those that a model returns. All strings of a tensor
 * are in one block, and so is everything in a value; onnxc_strings_free and onnxc_value_free free it. Inputs
 * are only read. */
#ifndef ONNXC_VALUE_TYPES
#define ONNXC_VALUE_TYPES
typedef struct onnxc_string {
    const char *data; /* UTF-8; in outputs followed by a NUL, which size does not count */
    size_t size;
} onnxc_string;

typedef struct onnxc_value {
    int32_t kind;  /* 0: nothing (an empty optional), 1: a tensor, 2: a sequence, 3: a map */
    int32_t dtype; /* of a tensor: ONNX's TensorProto.DataType */
    int64_t rank;  /* of a tensor */
    int64_t count; /* of a tensor: elements; of a sequence: items; of a map: keys */
    const int64_t *dims;
    void *data; /* of a tensor: its elements (onnxc_string for strings)
                 * of a sequence: onnxc_value[count]
                 * of a map: onnxc_value[2], the unique keys and the values, both tensors [count] */
} onnxc_value;
#endif

void onnxc_strings_free(onnxc_string *strings, int64_t count); /* free(strings[0].data) if count > 0 */
void onnxc_value_free(onnxc_value *value);                     /* free(value->data) */

/* ---- Any model
 *
 * A model is a struct of pointers. NAME.h defines NAME_MODEL, its initializer:
 *
 *     onnxc_model m = MNIST_MODEL;
 */
typedef struct onnxc_model {
    const void *descriptor; /* a struct onnxc_descriptor */
    /* data: pointers to all inputs, then to all outputs, then to the context if the model has `open`, then
     *     the user pointer of the hook if the model was compiled with --hook.
     * dims: the dims of all inputs, then of all outputs, at onnxc_tensor_info.first_dim. The run writes those
     *     of the outputs, even if it returns ONNXC_TOO_SMALL: they are then the sizes needed.
     * capacity: for each output, the elements it has room for; 1 for an onnxc_value.
     * message: may be NULL; set to the reason if the run fails. The text remains valid until the next failed run
     *     in this thread. */
    int (*run)(void *const *data, int64_t *dims, const int64_t *capacity, void *workspace,
               size_t workspace_size, const char **message);
    /* Workspace size in bytes for inputs of these dims; -1: the model does not accept them. */
    int64_t (*workspace)(const int64_t *dims);
    /* NULL for models without a context. */
    int (*open)(const onnxc_options *options, onnxc_context **context);
    void (*close)(onnxc_context *context);
} onnxc_model;

/* The descriptor is one block without pointers, in the byte order of the target (little-endian). Members
 * described as texts and arrays are offsets from its start. */
typedef struct onnxc_descriptor {
    char magic[8];              /* "onnxc-m" */
    uint32_t interface_version; /* ONNXC_INTERFACE */
    uint32_t bytes;             /* of the whole block */
    uint32_t name, graph_name, doc, producer, version, target, model_hash, options_hash; /* texts */
    uint32_t ninputs, inputs;     /* array of onnxc_tensor_info */
    uint32_t noutputs, outputs;   /* array of onnxc_tensor_info */
    uint32_t nsymbols, symbols;   /* array of onnxc_symbol_info */
    uint32_t nmetadata, metadata; /* array of pairs of texts: key, value */
    uint32_t ndims;               /* of all inputs and outputs together */
    uint32_t workspace_align;
    int64_t workspace_bytes; /* -1: depends on dims */
    uint32_t weights;        /* text: name of the weights file; "": the weights are in the object */
    uint32_t unused;
} onnxc_descriptor;

typedef struct onnxc_tensor_info {
    uint32_t name;       /* text: its name in the model */
    uint32_t identifier; /* text: the member in NAME_in or NAME_out */
    uint32_t doc;        /* text */
    int32_t dtype;       /* ONNX's TensorProto.DataType */
    uint32_t rank, dims; /* array of onnxc_dim_info */
    uint32_t first_dim;  /* index of its first dim in the array of all dims */
    uint32_t data_sized; /* output whose dims depend on the data: guess a capacity, or call twice */
    uint32_t state;      /* output (--state): 1 + the input it updates; its own pointer is ignored. 0: none */
    /* Quantised tensor (--io-dtype): real = (stored - zero_point) * scale; otherwise 0. */
    int32_t zero_point;
    float scale;
    uint32_t kind; /* 0: a tensor; 1: data is a struct onnxc_value; dtype, rank and dims are unused */
    uint32_t type; /* text: "float[N, 3]", "sequence(float[...])" */
    /* Input with a default value (--override): NULL as its pointer selects that value. */
    uint32_t has_default;
    /* Output: a table that represents a sequence of maps (see `type`), one map per row; the labels are the
     * keys of its columns. 0: an ordinary output. */
    uint32_t nlabels, labels; /* array of onnxc_label_info */
    int32_t label_dtype;      /* 7: int64, 8: strings */
    /* Output with a state that grows: the elements that the input's memory has room for along the axis in which
     * the dims of both differ, to which the caller sets the input's dim before each run. 0: it does not grow. */
    uint32_t room;
} onnxc_tensor_info;

typedef struct onnxc_dim_info {
    int64_t value; /* -1: not constant */
    uint32_t text; /* "3", "batch", "2*N + 1" */
    uint32_t unused;
} onnxc_dim_info;

typedef struct onnxc_label_info {
    int64_t number;       /* of an int64 label */
    uint32_t text, bytes; /* of a string: text, and its length */
} onnxc_label_info;

typedef struct onnxc_symbol_info {
    int64_t min, max;
    uint32_t name; /* text */
    uint32_t unused;
} onnxc_symbol_info;

static inline const char *onnxc_text(const onnxc_descriptor *d, uint32_t text) {
    return (const char *)d + text;
}
static inline const onnxc_tensor_info *onnxc_inputs(const onnxc_descriptor *d) {
    return (const onnxc_tensor_info *)(const void *)((const char *)d + d->inputs);
}
static inline const onnxc_tensor_info *onnxc_outputs(const onnxc_descriptor *d) {
    return (const onnxc_tensor_info *)(const void *)((const char *)d + d->outputs);
}
static inline const onnxc_dim_info *onnxc_dims(const onnxc_descriptor *d, const onnxc_tensor_info *t) {
    return (const onnxc_dim_info *)(const void *)((const char *)d + t->dims);
}
static inline const onnxc_label_info *onnxc_labels(const onnxc_descriptor *d, const onnxc_tensor_info *t) {
    return (const onnxc_label_info *)(const void *)((const char *)d + t->labels);
}

/* ---- Threads (models compiled with --threads other than 1)
 *
 * All models of a process share one thread pool, created when it is first needed. Of several concurrent
 * calls, one uses the pool and the others run in their own thread only.
 */
typedef struct onnxc_threads {
    int count; /* 0: onnxc_default_threads() */
    /* NULL, or the program's own thread pool: calls body(arg, i) once for every i in [0, n), in parallel or
     * not, and returns when all calls have returned. */
    void (*parallel_for)(void *user, int n, void (*body)(void *arg, int i), void *arg);
    void *user;
} onnxc_threads;

/* Sets the threads used by models that this thread calls from now on; NULL: the defaults. Returns the
 * previous setting. The struct must live as long as it is set. */
const onnxc_threads *onnxc_use_threads(const onnxc_threads *threads);
/* The number of CPUs that this process may use, by its affinity and the quota of its cgroup. */
int onnxc_default_threads(void);

/* ---- Models in shared libraries (onnxc --emit shared) */
typedef struct onnxc_library onnxc_library;
/* name: name of the model; NULL: the only one. Returns NULL on failure, with *message set to a text that is
 * valid until the next call in this thread. */
onnxc_library *onnxc_library_open(const char *path, const char *name, const char **message);
onnxc_model onnxc_library_model(const onnxc_library *library);
void onnxc_library_close(onnxc_library *library);

#ifdef __cplusplus
}
#endif
#endif
