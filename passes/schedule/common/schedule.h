// Schedules: from a kernel and parameters to loops. A schedule builds and does not transform: other
// parameters mean building anew.
#ifndef ONNXC_PASSES_SCHEDULE_COMMON_SCHEDULE_H
#define ONNXC_PASSES_SCHEDULE_COMMON_SCHEDULE_H
#include "ir/kernel/kernel.h"
#include "ir/loops/loops.h"
#include "ir/target.h"

// A kernel as a function: f(buffers..., dims..., [scratch], [begin, end], [status])
//   buffers  pointers in this order; dims as index-kind integers in this order;
//   scratch  pointer to scratch bytes, private to one call, when scratch != NULL;
//   begin, end  the range of tasks to run, when tasks != NULL (tasks run in any order, in several threads);
//   status   pointer to an integer of status_kind, when has_status: set to 1 + number of the failed X_CHECK message; if
//            it is an int64, that is its low byte, and the rest the index of check_operands.
typedef struct kernel_code {
    const kernel *kernel;
    const char *schedule; // its name for reports, NULL: loops
    lfunc *f;
    int nbuffers;
    buffer **buffers;
    int ndims;
    dim **dims;
    dim *scratch;
    bool marks_scratch; // the first word of a thread's scratch must be 0 before its first tasks
    dim *tasks;
    bool has_status;
    bool has_tiles;          // uses matrix tiles
    dim *grid[3], *block[3]; // GPU launch sizes, NULL on the CPU
} kernel_code;

lkind status_kind(const kernel *k, const target *t);
// The number of the failed message, of a status that is not 0.
static inline int status_message(const kernel *k, int64_t status) {
    return (int)(k->messages.n > 255 ? status : status & 255) - 1;
}
void find_residents(const program *p); // before its kernels are scheduled
kernel_code *schedule_kernel(lmodule *m, kernel *k, const target *t, diag *d);
#endif
