// The interpreter: runs programs of unscheduled kernels. It is the meaning of a model, the oracle of the
// backends and the engine of constant folding.
#ifndef ONNXC_IR_KERNEL_INTERP_H
#define ONNXC_IR_KERNEL_INTERP_H
#include "ir/graph/tensor.h"
#include "ir/kernel/program.h"
#include "runtime-lite/lib/lib.h"

typedef struct interp_limits {
    int64_t work;  // scalar operations, 0: no limit
    int64_t bytes; // memory, 0: no limit
} interp_limits;

typedef enum interp_result {
    INTERP_OK,
    INTERP_FAILED, // the model's own check failed or an input does not fit; *message says what
    INTERP_LIMIT,  // ran past the limits
} interp_result;

// in: one tensor for each program input; out: filled, data in arena a. A kernel that reads or writes outside
// a buffer is a defect (leaves through the program's diag).
interp_result interp_program(const program *p, arena *a, const tensor *in, tensor *out, interp_limits limits,
                             const char **message);
// cblas_dgemm.
typedef void interp_dgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                          const double *a, int lda, const double *b, int ldb, double beta, double *c,
                          int ldc);
// What a caller may do during the run.
struct interp;
typedef struct interp_hooks {
    void (*watch)(void *user, const buffer *b,
                  const tensor *t); // sees every buffer after the kernel that wrote it
    bool (*kernel)(void *user, struct interp *in, const kernel *k); // runs k instead (false: not done)
    void *user;
    // Called for large sums of float products, which it may add in any order; NULL, or
    // answers NULL: exact order.
    interp_dgemm *(*dgemm)(void *user);
    // The function of a custom operator; NULL, or answers NULL: the run fails.
    onnxc_custom_function *(*custom)(void *user, const char *symbol);
} interp_hooks;
interp_result interp_program_hooked(const program *p, arena *a, const tensor *in, tensor *out,
                                    interp_limits limits, const char **message, const interp_hooks *hooks);
#endif
