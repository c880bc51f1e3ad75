// The interpreter: runs programs of unscheduled kernels. It is the meaning of a model, the oracle of the backends
// and the engine of constant folding.
#ifndef ONNXC_INTERP_H
#define ONNXC_INTERP_H
#include "ir/program.h"

// A tensor in memory, row-major, packed types packed.
typedef struct tensor {
    dtype dtype;
    int rank;
    int64_t dims[MAX_RANK];
    int64_t count;
    void *data;
} tensor;

typedef struct interp_limits {
    int64_t work;  // scalar operations, 0: no limit
    int64_t bytes; // memory, 0: no limit
} interp_limits;

typedef enum interp_result {
    INTERP_OK,
    INTERP_FAILED, // the model's own check failed or an input does not fit; *message says what
    INTERP_LIMIT,  // ran past the limits
} interp_result;

// in: one tensor for each program input; out: filled, data in arena a. A kernel that reads or writes outside a
// buffer is a defect (leaves through the program's diag).
interp_result interp_program(const program *p, arena *a, const tensor *in, tensor *out, interp_limits limits,
                             const char **message);
// As above; watch(user, buffer, tensor) sees every buffer after the kernel that wrote it.
interp_result interp_program_watched(const program *p, arena *a, const tensor *in, tensor *out,
                                     interp_limits limits, const char **message,
                                     void (*watch)(void *user, const buffer *b, const tensor *t), void *user);
#endif
