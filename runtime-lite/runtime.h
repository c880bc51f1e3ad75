/* What emitted code calls. These functions belong to the interface of one number (ONNXC_INTERFACE): programs
 * do not call them. */
#ifndef ONNXC_RUNTIME_H
#define ONNXC_RUNTIME_H
#include "runtime-lite/onnxc.h"

/* Called first by every object that needs the runtime; its name makes sure that both are of one version.
 * Answers the CPU level: on x86-64 the N of x86-64-vN (0: not even 1), elsewhere 1. */
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

/* What main of a program made by --emit exe calls: reads inputs, runs, writes or prints outputs. The exit
 * code. */
int onnxc_program(const onnxc_model *model, int argc, char **argv);

#endif
