/* onnxc.h: calling compiled models.
 *
 * Every model NAME that onnxc compiles comes with a header NAME.h that needs nothing else:
 *
 *     NAME_in in = {.image = pixels};
 *     NAME_out out = {.logits = scores};
 *     int failed = NAME_run(&in, &out, workspace, sizeof workspace);
 *
 * This header is for programs that do not know their models when they are compiled (tools, bindings,
 * servers): they see every model alike, through its descriptor. It also declares what the runtime
 * library (libonnxc-rt) offers.
 *
 * Rules that hold for all models
 *   - Tensors are dense and row-major. bool is one byte, 0 or 1. float16 and bfloat16 are their bits in a
 *     uint16_t, 8-bit floats in a uint8_t, complex numbers pairs (real, imaginary). 4-bit and 2-bit elements
 *     are packed, the first one in the low bits.
 *   - Outputs and the workspace must not overlap each other or the inputs.
 *   - The workspace may hold anything before a call and holds nothing of use after it. Calls that
 *     run at the same time need workspaces of their own; nothing else is shared.
 *   - A failed call returns one of the codes below. Codes up to ONNXC_BAD_DIM and ONNXC_WORKSPACE_* come
 *     before anything was written.
 */
#ifndef ONNXC_H
#define ONNXC_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The interface between objects and the runtime. An object links with a runtime of the same number only. */
#define ONNXC_INTERFACE 1

#ifndef ONNXC_STATUS
#define ONNXC_STATUS
typedef enum onnxc_status {
    ONNXC_OK = 0,
    ONNXC_NULL_POINTER = 1,    /* a struct, tensor or workspace is a null pointer */
    ONNXC_BAD_DIM = 2,         /* a dimension is not what the model takes, or the dimensions disagree */
    ONNXC_WORKSPACE_SIZE = 3,  /* the workspace is too small */
    ONNXC_WORKSPACE_ALIGN = 4, /* the workspace does not begin at a multiple of NAME_WORKSPACE_ALIGN */
    ONNXC_TOO_SMALL = 5,       /* an output has more elements than its capacity: its dims say how many */
    ONNXC_TOO_LARGE = 6,       /* sizes that no memory can hold */
    ONNXC_NO_MEMORY = 7,       /* allocation failed */
    ONNXC_CHECK_FAILED = 8,    /* the data break a rule of the model: an index out of range ... */
    ONNXC_CANCELLED = 9,       /* the hook said so */
    ONNXC_BAD_CPU = 10,        /* this machine lacks instructions that the object was compiled for */
    ONNXC_BAD_WEIGHTS = 11,    /* the file of weights is not there, or belongs to another model */
    ONNXC_NO_GPU = 12,         /* no driver, no such GPU, or the object has no code for it */
    ONNXC_GPU_FAILED = 13      /* the GPU's driver reports an error */
} onnxc_status;
#endif

/* ---- Contexts (models compiled with --weights FILE or --device cuda)
 *
 * What such a model needs from one call to the next. NAME_open maps the file of weights; any number of
 * threads may run the model with one context. Without a system there is no NAME_open: the program itself sets
 * `weights`.
 *
 * On a GPU NAME_open loads the code and the weights, which all contexts of one model on one GPU share. All
 * runs with one context go through its stream, one after the other; the workspace of NAME_run holds what the
 * host does itself. With device_pointers runs do not wait for the GPU, unless the model checks its data or
 * the host has to look at them: wait for the stream. A model for cuda,cpu runs on the CPU where no GPU can
 * run it, unless the options name what only a GPU has; the context's device and the options' message say so.
 * Strings, sequences and optionals are the host's always.
 */
#ifndef ONNXC_CONTEXT
#define ONNXC_CONTEXT
typedef struct onnxc_context {
    const void *weights; /* the file's bytes, aligned to 64 */
    size_t weights_size;
    int mapped;            /* by NAME_open: NAME_close unmaps it */
    int device;            /* number of the GPU; -1: the CPU */
    struct onnxc_gpu *gpu; /* NULL: none */
} onnxc_context;
/* NULL stands for all zeros. */
typedef struct onnxc_options {
    size_t size;         /* sizeof(onnxc_options): tells which members there are */
    const char *weights; /* path of the file; NULL: the name that --weights gave, in the current folder */
    const void *data;    /* not NULL: the file's bytes, aligned to 64, in the place of a path */
    size_t data_size;
    int device;          /* number of the GPU; -1: the CPU */
    int device_pointers; /* not 0: inputs and outputs lie on the GPU */
    void *stream;        /* a CUstream or cudaStream_t of the GPU's primary context; NULL: one of its own */
    char *message;       /* NULL, or room for a text that says why NAME_open fails */
    size_t message_size;
    int no_graphs; /* not 0: kernels are started one by one, also where the same run came before */
} onnxc_options;
#endif

/* What a code means, in a few words. */
const char *onnxc_status_text(int status);

/* Strings, sequences, optionals and maps. What a model gives belongs to the caller: the strings of a tensor
 * lie in one block, and so does all that a value holds; onnxc_strings_free and onnxc_value_free free it. What
 * it takes is only read. */
#ifndef ONNXC_VALUE_TYPES
#define ONNXC_VALUE_TYPES
typedef struct onnxc_string {
    const char *data; /* UTF-8; what a model gives ends with a NUL that size does not count */
    size_t size;
} onnxc_string;

typedef struct onnxc_value {
    int32_t kind;  /* 0: nothing (an empty optional), 1: a tensor, 2: a sequence, 3: a map */
    int32_t dtype; /* of a tensor: ONNX's TensorProto.DataType */
    int64_t rank,
        count; /* of a tensor: dims and elements; of a sequence: count items; of a map: count keys */
    const int64_t *dims;
    void *
        data; /* of a tensor: its elements (onnxc_string for strings); of a sequence: onnxc_value[count]; of a
                 map: onnxc_value[2], its keys and its values, each a tensor of rank 1 with count elements */
} onnxc_value;
#endif

void onnxc_strings_free(onnxc_string *strings, int64_t count); /* free(strings[0].data) when there are any */
void onnxc_value_free(onnxc_value *value);                     /* free(value->data) */

/* ---- Any model
 *
 * A model is a few symbols; NAME.h has NAME_MODEL as the initializer of such a struct:
 *
 *     onnxc_model m = MNIST_MODEL;
 */
typedef struct onnxc_model {
    const void *descriptor; /* a struct onnxc_descriptor */
    /* data: one pointer for each input, then for each output; then the context of a model that has `open`;
     * then what the hook of --hook gets as its user. dims: those of all inputs, then of all outputs, one
     * after the other (onnxc_tensor_info.first_dim). The outputs' are written: also when the answer is
     * ONNXC_TOO_SMALL, then they say what is needed. capacity: by output, the elements that fit; 1 for an
     * onnxc_value. message: NULL, or set to a text that says what was wrong when the run fails. */
    int (*run)(void *const *data, int64_t *dims, const int64_t *capacity, void *workspace,
               size_t workspace_size, const char **message);
    /* Bytes of workspace for inputs of these dims; -1: the model does not take them. */
    int64_t (*workspace)(const int64_t *dims);
    /* NULL for models that need no context. */
    int (*open)(const onnxc_options *options, onnxc_context **context);
    void (*close)(onnxc_context *context);
} onnxc_model;

/* The descriptor is one block without pointers, in the byte order of the target (little-endian). Members that
 * are called texts and arrays are offsets from its start. */
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
    uint32_t weights;        /* text: name of the file of weights; "": the object holds them */
    uint32_t unused;
} onnxc_descriptor;

typedef struct onnxc_tensor_info {
    uint32_t name;       /* text: the model's name of it */
    uint32_t identifier; /* text: the member in NAME_in or NAME_out */
    uint32_t doc;        /* text */
    int32_t dtype;       /* ONNX's TensorProto.DataType */
    uint32_t rank, dims; /* array of onnxc_dim_info */
    uint32_t first_dim;  /* place of its dims in the flat array */
    uint32_t data_sized; /* output whose dims follow from the data: guess a capacity, or call twice */
    uint32_t state; /* output (--state): 1 + the input whose memory it takes, its own pointer is not read;
                       else 0 */
    /* The tensor is given in its quantised form (--io-dtype): real = (stored - zero_point) * scale; else 0.
     */
    int32_t zero_point;
    float scale;
    uint32_t kind; /* 0: a tensor; 1: data is a struct onnxc_value, dtype, rank and dims mean nothing */
    uint32_t type; /* text: "float[N, 3]", "sequence(float[...])" */
    uint32_t
        has_default; /* input (--override): its pointer may be NULL, then the model's own value is taken */
    /* Output: a table that stands for a sequence of maps (`type`), one for each row; these are the keys of
     * its columns. 0: it stands for itself. */
    uint32_t nlabels, labels; /* array of onnxc_label_info */
    int32_t label_dtype;      /* 7: int64, 8: strings */
    uint32_t unused;
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
 * All models of a process share one pool of threads, made when it is first needed. When several calls come at
 * once, one has the pool and the others use their own thread only.
 */
typedef struct onnxc_threads {
    int count; /* 0: onnxc_default_threads() */
    /* NULL, or the program's own threads: calls body(arg, i) once for every i in [0, n), several at once or
     * not, and returns when all are done. */
    void (*parallel_for)(void *user, int n, void (*body)(void *arg, int i), void *arg);
    void *user;
} onnxc_threads;

/* What models called by this thread from now on use; NULL: the defaults. Answers what was set before. The
 * struct must live as long as it is set. */
const onnxc_threads *onnxc_use_threads(const onnxc_threads *threads);
/* The CPUs that this process may use: its affinity, and the quota of its cgroup. */
int onnxc_default_threads(void);

/* ---- Models in shared libraries (onnxc --emit shared) */
typedef struct onnxc_library onnxc_library;
/* name: of the model; NULL: the only one. NULL on failure, with *message set to a text that lives until this
 * thread's next call. */
onnxc_library *onnxc_library_open(const char *path, const char *name, const char **message);
onnxc_model onnxc_library_model(const onnxc_library *library);
void onnxc_library_close(onnxc_library *library);

#ifdef __cplusplus
}
#endif
#endif
