/* What emitted code calls. These functions belong to the interface of one number (ONNXC_INTERFACE): programs
 * do not call them. */
#ifndef ONNXC_RUNTIME_H
#define ONNXC_RUNTIME_H
#include "runtime-lite/onnxc.h"

/* Called first by every object that needs the runtime; its name makes sure that both are of one version.
 * Answers the CPU level: on x86-64 the N of x86-64-vN (0: not even 1; 5: 4 with AVX512_VNNI), elsewhere 1. */
int onnxc_interface_1(void);

/* Aligned to 64 bytes; NULL when there is no memory. Of 0 bytes too there is a block. */
void *onnxc_rt_alloc(int64_t bytes);
void onnxc_rt_free(void *block); /* NULL: nothing */

/* Runs task(context, begin, end, thread) so that [0, tasks) is covered, by at most max_threads threads at
 * once, each with a number below max_threads of its own. Returns when all is done. */
typedef void onnxc_rt_task(void *const *context, int64_t begin, int64_t end, int thread);
void onnxc_rt_parallel(onnxc_rt_task *task, void *const *context, int64_t tasks, int max_threads);

/* The first 64 bytes of a file of weights, which the object knows too, and behind them there the file's name.
 */
typedef struct onnxc_weights_head {
    char magic[8];  /* "onnxc-w" */
    uint64_t bytes; /* of the file */
    uint8_t id[48];
} onnxc_weights_head;
int onnxc_rt_open(const onnxc_options *options, const onnxc_weights_head *head, onnxc_context **context);
void onnxc_rt_close(onnxc_context *context); /* NULL: nothing */

/* ---- GPUs. All answers that are int are an onnxc_status; onnxc_rt_gpu_message says more of this thread's
 * last failure. */
enum {
    ONNXC_GPU_CODE,    /* machine code for this architecture and those of the same first digit */
    ONNXC_GPU_PTX,     /* text for this and newer ones, with a NUL at its end */
    ONNXC_GPU_OWN_CODE /* machine code for this one alone: sm_90a */
};
typedef struct onnxc_gpu_image {
    int32_t sm; /* architecture: 80 for sm_80 */
    int32_t kind;
    uint64_t offset, size;
} onnxc_gpu_image;
/* The object's code for GPUs: this head, onnxc_gpu_image[nimages], at `shared` a uint32_t for each function,
 * the bytes of shared memory that its launches bring, then the functions' names one after the other. */
typedef struct onnxc_gpu_images {
    char magic[8];  /* "onnxc-g" */
    uint64_t bytes; /* of the whole block */
    uint32_t nfunctions, names, nimages, shared;
} onnxc_gpu_images;
/* One run of a model; begins with what emitted code reads: addresses on the device. */
typedef struct onnxc_gpu_run {
    void *workspace, *weights, *status;
    struct onnxc_gpu *gpu; /* NULL: it did not begin */
    void *session;
    size_t statuses;
} onnxc_gpu_run;

/* upload calls onnxc_rt_gpu_put for every constant; it is called when the model comes to that device for the
 * first time. */
typedef void onnxc_rt_gpu_upload(void *user);
int onnxc_rt_gpu_open(const onnxc_options *options, const onnxc_gpu_images *images,
                      onnxc_rt_gpu_upload *upload, int64_t weights, onnxc_context **context);
/* The same; without a GPU that can run it a context for the CPU, and the reason in options->message. */
int onnxc_rt_gpu_or_cpu_open(const onnxc_options *options, const onnxc_gpu_images *images,
                             onnxc_rt_gpu_upload *upload, int64_t weights, onnxc_context **context);
/* The same of a model whose constants lie in a file; upload asks onnxc_rt_gpu_file where that is mapped. */
int onnxc_rt_gpu_open_file(const onnxc_options *options, const onnxc_gpu_images *images,
                           onnxc_rt_gpu_upload *upload, int64_t weights, onnxc_context **context,
                           const onnxc_weights_head *head);
int onnxc_rt_gpu_or_cpu_open_file(const onnxc_options *options, const onnxc_gpu_images *images,
                                  onnxc_rt_gpu_upload *upload, int64_t weights, onnxc_context **context,
                                  const onnxc_weights_head *head);
const void *onnxc_rt_gpu_file(void *user);
void onnxc_rt_gpu_put(void *user, int64_t offset, const void *from, int64_t bytes);
void onnxc_rt_gpu_close(onnxc_context *context); /* NULL: nothing */
int onnxc_rt_gpu_begin(onnxc_gpu_run *run, const onnxc_context *context, const onnxc_gpu_images *images,
                       int64_t workspace, int statuses);
/* status: of the run so far. After it the caller's host memory is as the run leaves it. */
int onnxc_rt_gpu_end(onnxc_gpu_run *run, int status);
/* The caller's memory where that lies on the wanted side, else `own`. */
void *onnxc_rt_gpu_caller(onnxc_gpu_run *run, void *caller, void *own, int on_device);
/* values: grid x, y, z, block x, y, z, then each argument. */
int onnxc_rt_gpu_launch(onnxc_gpu_run *run, int function, int arguments, const int64_t *values);
enum { ONNXC_ON_HOST, ONNXC_ON_DEVICE, ONNXC_AT_CALLER };
int onnxc_rt_gpu_copy(onnxc_gpu_run *run, void *to, const void *from, int64_t bytes, int to_side,
                      int from_side);
/* Everything so far is over. */
int onnxc_rt_gpu_wait(onnxc_gpu_run *run);
/* What the kernels said of the data so far, after waiting for them. */
int onnxc_rt_gpu_status(onnxc_gpu_run *run, int32_t *statuses);
void *onnxc_rt_gpu_alloc(onnxc_gpu_run *run, int64_t bytes); /* NULL when there is no memory */
void onnxc_rt_gpu_free(onnxc_gpu_run *run, void *block);     /* NULL: nothing */
const char *onnxc_rt_gpu_message(void);

/* What main of a program made by --emit exe calls: reads inputs, runs, writes or prints outputs. The exit
 * code. */
int onnxc_program(const onnxc_model *model, int argc, char **argv);

#endif
