/* onnxc_compiler.h: the compiler as a library (libonnxc).
 *
 * The in-process equivalent of the command line: compiles a model from a file or from memory to a file or to
 * memory, or loads it so that it can be called through its descriptor (onnxc.h).
 *
 *     const char *options[] = {"-O3", "--mcpu=native"};
 *     onnxc_job job = {
 *         .size = sizeof job,
 *         .model = "mnist.onnx",
 *         .options = options,
 *         .noptions = 2,
 *         .message = show,
 *     };
 *     onnxc_loaded *loaded;
 *     if (onnxc_load(&job, &loaded) == ONNXC_COMPILED) {
 *         onnxc_model model = onnxc_loaded_model(loaded);
 *         ...
 *         onnxc_unload(loaded);
 *     }
 *
 * No function exits, prints, reads the environment or keeps state between calls, so several threads may
 * compile at the same time, each with its own job. Callbacks run in the calling thread.
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

/* Result of a compilation; values up to ONNXC_COMPILER_DEFECT are also exit codes of the command line. */
typedef enum onnxc_result {
    ONNXC_COMPILED = 0,
    ONNXC_WRONG_MODEL = 1,     /* the model or the options are wrong */
    ONNXC_NOT_SUPPORTED = 2,   /* the model is valid but needs something that this build lacks */
    ONNXC_COMPILER_DEFECT = 3, /* a bug in onnxc */
    ONNXC_STOPPED = 5 /* `cancelled` of the job returned non-zero, or its `memory_limit` was reached */
} onnxc_result;

typedef enum onnxc_severity { ONNXC_REMARK, ONNXC_WARNING, ONNXC_ERROR } onnxc_severity;

/* A message; its texts are valid during the callback only. */
typedef struct onnxc_message {
    onnxc_severity severity;
    onnxc_result result;          /* its consequence for the compilation */
    const char *full;             /* as the command line shows it */
    const char *text;             /* without location and severity */
    const char *hint;             /* NULL: none */
    const char *file, *node, *op; /* location; any may be NULL: errors of options have no file */
    int version;                  /* of the operator; 0: unknown */
} onnxc_message;

typedef struct onnxc_job {
    size_t size;       /* sizeof(onnxc_job), which tells the members that exist */
    const char *model; /* path of the model; with `data`, its name in messages */
    const void *data;  /* the model in memory; NULL: read the file */
    size_t data_size;
    const char *data_folder;    /* folder of external data, for a model in memory; NULL: it has none */
    const char *const *options; /* as on the command line: "-O3", "--target=aarch64-linux-gnu", "-o", "x.o" */
    int noptions;
    size_t memory_limit; /* maximum memory of the compiler in bytes, else ONNXC_STOPPED; 0: no limit */
    void *user;          /* passed to the callbacks, each of which may be NULL */
    void (*message)(void *user, const onnxc_message *m);
    void (*print)(void *user, const char *pass, const char *text); /* for --print-after and --time-passes */
    int (*cancelled)(void *user); /* called between passes; non-zero stops the compilation */
} onnxc_job;

/* Writes the outputs that the options ask for (-o, --emit, --header ...). Files are written
 * completely or not at all. */
ONNXC_API onnxc_result onnxc_compile(const onnxc_job *job);

/* Returns the main output in memory instead of writing a file; free it with onnxc_free. */
ONNXC_API onnxc_result onnxc_compile_to_memory(const onnxc_job *job, void **output, size_t *output_size);
ONNXC_API void onnxc_free(void *output);

/* Loads the model into this process, compiled for this machine's CPU unless the options say otherwise. */
typedef struct onnxc_loaded onnxc_loaded;
ONNXC_API onnxc_result onnxc_load(const onnxc_job *job, onnxc_loaded **loaded);
ONNXC_API onnxc_model onnxc_loaded_model(const onnxc_loaded *loaded);
ONNXC_API void onnxc_unload(onnxc_loaded *loaded); /* NULL is allowed */

ONNXC_API const char *onnxc_compiler_version(void);

#ifdef __cplusplus
}
#endif
#endif
