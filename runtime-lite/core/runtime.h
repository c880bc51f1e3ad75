/* The functions that emitted code calls. They belong to one version of the interface (ONNXC_INTERFACE);
 * programs must not call them. */
#ifndef ONNXC_RUNTIME_H
#define ONNXC_RUNTIME_H
#include "runtime-lite/onnxc.h"

/* Every object that needs the runtime calls this first; the name ensures that both have the same version.
 * Returns the CPU level: N of x86-64-vN (5: x86-64-v4 with AVX512_VNNI); AArch64: 2 with the dot product, 3 with i8mm
 * and bf16, too; else 1. */
int onnxc_interface_2(void);
/* Whether the CPU has AVX-VNNI and all of x86-64-v3. */
int onnxc_rt_avx_vnni(void);
/* Whether the CPU has level 5 and AVX512_BF16 as AMD's have it, who multiply twice as many numbers by it as in f32. */
int onnxc_rt_bf16_pairs(void);
/* Bits of this thread's vector registers where the CPU decides on their length (SVE under Linux); 0: it does not. */
int onnxc_rt_vector_bits(void);
/* Whether the CPU has matrix tiles (AMX for int8 and bf16, and AVX512_BF16) and the operating system lets this
 * process use them, which it is asked here. */
int onnxc_rt_tiles(void);
/* The same, but the operating system is asked when the program starts, or when the library with the object is loaded. */
int onnxc_rt_tiles_at_start(void);

/* The text with numbers in place of \1 and \2, and what \3 refers to, in memory of this thread until its next failed run. */
const char *onnxc_rt_message(const char *text, int64_t first, int64_t second);

/* Aligned to 64 bytes; NULL: out of memory. A block of 0 bytes is not NULL. */
void *onnxc_rt_alloc(int64_t bytes);
void onnxc_rt_free(void *block); /* accepts NULL */

/* Calls task(context, begin, end, thread) for ranges that cover [0, tasks), on at most max_threads
 * threads, which have different numbers below max_threads. Returns when all calls have returned. */
typedef void onnxc_rt_task(void *const *context, int64_t begin, int64_t end, int thread);
void onnxc_rt_parallel(onnxc_rt_task *task, void *const *context, int64_t tasks, int max_threads);

/* The first 64 bytes of a weights file. The object has a copy, followed by the file's name. */
typedef struct onnxc_weights_head {
    char magic[8];  /* "onnxc-w" */
    uint64_t bytes; /* of the file */
    uint8_t id[48];
} onnxc_weights_head;
int onnxc_rt_open(const onnxc_options *options, const onnxc_weights_head *head, onnxc_context **context);
void onnxc_rt_close(onnxc_context *context); /* accepts NULL */

/* ---- GPUs. All int results are an onnxc_status; onnxc_rt_gpu_message describes the last failure in this
 * thread. */
enum {
    ONNXC_GPU_CODE,    /* machine code for this architecture and newer ones with the same first digit */
    ONNXC_GPU_PTX,     /* NUL-terminated text for this architecture and newer ones */
    ONNXC_GPU_OWN_CODE /* machine code for this architecture only: sm_90a */
};
typedef struct onnxc_gpu_image {
    int32_t sm; /* architecture: 80 for sm_80 */
    int32_t kind;
    uint64_t offset, size;
} onnxc_gpu_image;
/* The object's code for GPUs: this head, onnxc_gpu_image[nimages], at `shared` a uint32_t for each
 * function, its bytes of dynamic shared memory, then the names of the functions. */
typedef struct onnxc_gpu_images {
    char magic[8];  /* "onnxc-g" */
    uint64_t bytes; /* of the whole block */
    uint32_t nfunctions, names, nimages, shared;
} onnxc_gpu_images;
/* A run of a model. Emitted code reads the first members, which are device addresses. */
typedef struct onnxc_gpu_run {
    void *workspace, *weights, *status;
    struct onnxc_gpu *gpu; /* NULL: the run has not begun */
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
/* The same for a model with a weights file; onnxc_rt_gpu_file returns the mapped file to upload. */
int onnxc_rt_gpu_open_file(const onnxc_options *options, const onnxc_gpu_images *images,
                           onnxc_rt_gpu_upload *upload, int64_t weights, onnxc_context **context,
                           const onnxc_weights_head *head);
int onnxc_rt_gpu_or_cpu_open_file(const onnxc_options *options, const onnxc_gpu_images *images,
                                  onnxc_rt_gpu_upload *upload, int64_t weights, onnxc_context **context,
                                  const onnxc_weights_head *head);
const void *onnxc_rt_gpu_file(void *user);
void onnxc_rt_gpu_put(void *user, int64_t offset, const void *from, int64_t bytes);
void onnxc_rt_gpu_close(onnxc_context *context); /* accepts NULL */
int onnxc_rt_gpu_begin(onnxc_gpu_run *run, const onnxc_context *context, const onnxc_gpu_images *images,
                       int64_t workspace, int statuses);
/* status: of the run so far. On return, the caller's host memory has its final contents. */
int onnxc_rt_gpu_end(onnxc_gpu_run *run, int status);
/* The caller's memory if it is on the requested side, else `own`. */
void *onnxc_rt_gpu_caller(onnxc_gpu_run *run, void *caller, void *own, int on_device);
/* values: grid x, y, z, block x, y, z, then each argument. */
int onnxc_rt_gpu_launch(onnxc_gpu_run *run, int function, int arguments, const int64_t *values);
enum { ONNXC_ON_HOST, ONNXC_ON_DEVICE, ONNXC_AT_CALLER };
int onnxc_rt_gpu_copy(onnxc_gpu_run *run, void *to, const void *from, int64_t bytes, int to_side,
                      int from_side);
/* Waits for all work so far. */
int onnxc_rt_gpu_wait(onnxc_gpu_run *run);
/* Waits for all kernels and returns their statuses. */
int onnxc_rt_gpu_status(onnxc_gpu_run *run, int32_t *statuses);
void *onnxc_rt_gpu_alloc(onnxc_gpu_run *run, int64_t bytes); /* NULL: out of memory */
void onnxc_rt_gpu_free(onnxc_gpu_run *run, void *block);     /* accepts NULL */
const char *onnxc_rt_gpu_message(void);

/* A state that grows, as callers have it whose tensors have no room: `outer` blocks of `inner` bytes for each element
 * along the axis. */
typedef struct onnxc_rt_state {
    uint32_t axis;
    int64_t outer, inner, room;
} onnxc_rt_state;
/* Of an output with room, for these dims of the input; element: its bytes. */
onnxc_rt_state onnxc_rt_state_of(const onnxc_descriptor *d, uint32_t output, const int64_t *dims,
                                 int64_t element);
/* Copies `size` elements along the axis of a tensor into memory with room, or back. */
void onnxc_rt_state_fill(const onnxc_rt_state *s, void *room, const void *tensor, int64_t size);
void onnxc_rt_state_read(const onnxc_rt_state *s, void *tensor, const void *room, int64_t size);

/* The main function of programs from --emit exe: reads inputs, runs the model, writes or prints outputs.
 * Returns the exit code. */
int onnxc_program(const onnxc_model *model, int argc, char **argv);

#endif
