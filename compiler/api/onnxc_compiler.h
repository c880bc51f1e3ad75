/* onnxc_compiler.h: the compiler as a library (libonnxc).
 *
 * Does what the command line does, in process: compiles a model from a file or from memory to a file or to
 * memory, or loads it at once to be called through its descriptor (onnxc.h).
 *
 *     const char *options[] = {"-O3", "--mcpu=native"};
 *     onnxc_job job = {.size = sizeof job, .model = "mnist.onnx", .options = options, .noptions = 2, .message
 * = show}; onnxc_loaded *l; if (onnxc_load(&job, &l) == ONNXC_COMPILED) { onnxc_model m =
 * onnxc_loaded_model(l);
 *         ...
 *         onnxc_unload(l);
 *     }
 *
 * Nothing here exits, prints, reads the environment or keeps state between calls: several threads may compile
 * at once, each with its own job. Callbacks come in the thread that made the call.
 */
#ifndef ONNXC_COMPILER_H
#define ONNXC_COMPILER_H
#include "runtime-lite/onnxc.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ONNXC_API __attribute__((visibility("default")))
#else
#define ONNXC_API
#endif

/* What a compilation came to; those up to ONNXC_COMPILER_DEFECT are also the exit codes of the command line.
 */
typedef enum onnxc_result {
    ONNXC_COMPILED = 0,
    ONNXC_WRONG_MODEL = 1,     /* the model or the options are wrong */
    ONNXC_NOT_SUPPORTED = 2,   /* the model is right but needs something that this build lacks */
    ONNXC_COMPILER_DEFECT = 3, /* a defect of onnxc */
    ONNXC_STOPPED = 5          /* the job's `cancelled` said so */
} onnxc_result;

typedef enum onnxc_severity { ONNXC_REMARK, ONNXC_WARNING, ONNXC_ERROR } onnxc_severity;

/* A message; its texts live during the callback only. */
typedef struct onnxc_message {
    onnxc_severity severity;
    onnxc_result result;          /* what it means for the compilation */
    const char *full;             /* as the command line shows it */
    const char *text;             /* without place and severity */
    const char *hint;             /* NULL: none */
    const char *file, *node, *op; /* where; any may be NULL */
    int version;                  /* of the operator, 0: not known */
} onnxc_message;

typedef struct onnxc_job {
    size_t size;       /* sizeof(onnxc_job): tells which members there are */
    const char *model; /* path of the model; with `data`, what messages call it */
    const void *data;  /* the model in memory, NULL: read the file */
    size_t data_size;
    const char *data_folder;    /* where the external data of a model in memory lie; NULL: it has none */
    const char *const *options; /* as on the command line: "-O3", "--target=aarch64-linux-gnu", "-o", "x.o" */
    int noptions;
    size_t memory_limit; /* most bytes the compiler may hold, 0: no limit */
    void *user;          /* handed to the callbacks, each of which may be NULL */
    void (*message)(void *user, const onnxc_message *m);
    void (*print)(void *user, const char *pass, const char *text); /* for --print-after and --time-passes */
    int (*cancelled)(void *user); /* asked between passes: non-zero stops the compilation */
} onnxc_job;

/* Writes what the options ask for (-o, --emit, --header ...). Files appear whole or not at all. */
ONNXC_API onnxc_result onnxc_compile(const onnxc_job *job);

/* The main output in memory instead of in a file; give it back with onnxc_free. */
ONNXC_API onnxc_result onnxc_compile_to_memory(const onnxc_job *job, void **output, size_t *output_size);
ONNXC_API void onnxc_free(void *output);

/* The model as code in this process, for this machine's CPU unless the options name another. */
typedef struct onnxc_loaded onnxc_loaded;
ONNXC_API onnxc_result onnxc_load(const onnxc_job *job, onnxc_loaded **loaded);
ONNXC_API onnxc_model onnxc_loaded_model(const onnxc_loaded *loaded);
ONNXC_API void onnxc_unload(onnxc_loaded *loaded); /* NULL: nothing */

ONNXC_API const char *onnxc_compiler_version(void);

#ifdef __cplusplus
}
#endif
#endif
