// In: a program, its GPU code, inputs. Out: outputs. Kernels run as scheduled for a GPU on a substitute, such
// as the interpreter of loops; host steps are interpreted.
#ifndef ONNXC_CODEGEN_GPU_GPU_RUN_H
#define ONNXC_CODEGEN_GPU_GPU_RUN_H
#include "codegen/gpu/gpu.h"
#include "ir/kernel/interp.h"
#include "ir/loops/loops_interp.h"

typedef struct gpu_region {
    void *at;
    int64_t bytes;
    bool writable;
} gpu_region;

typedef struct gpu_launch {
    const kernel_code *code;
    const uint64_t *args; // bits of each parameter
    int64_t grid[3], block[3];
    const gpu_region *memory; // accessible memory
    int nmemory;
} gpu_launch;

// Runs one kernel. Returns NULL or an error message.
typedef const char *gpu_launcher(void *user, arena *a, const gpu_launch *l);
typedef struct gpu_machine {
    gpu_launcher *launch;
    void *user;
    const char *error; // set by gpu_run: the message of the launch that failed and ended the run
} gpu_machine;

// Like interp_program; also INTERP_FAILED if a launch fails.
interp_result gpu_run(const program *p, const gpu_code *g, gpu_machine *m, arena *a, const tensor *in,
                      tensor *out, const char **message);
// The interpreter of loops as a launcher; user: a const linterp_order *.
const char *gpu_interpret(void *user, arena *a, const gpu_launch *l);
#endif
