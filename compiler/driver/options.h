// The options of a compilation, shared by all commands and the library.
#ifndef ONNXC_COMPILER_DRIVER_OPTIONS_H
#define ONNXC_COMPILER_DRIVER_OPTIONS_H
#include "codegen/target/targets.h"
#include "compiler/driver/option.h"
#include "passes/memory/memory_plan.h"
#include "passes/rewrite/algorithm.h"

typedef struct options {
    // outputs
    const char *output, *emit, *header, *depfile, *name;
    // target
    const char *triple, *cpu, *features, *multiversion, *device, *sysroot, *linker, *runtime, *runner, *nvrtc;
    string_list machine, gpu_arch;
    const char *max_workspace, *max_flash;
    string_list pools;
    bool check_weights;
    bool freestanding, debug_info, capacities, real_time;
    bool runs_here;  // on this machine's GPUs, immediately; not an option
    int64_t threads; // 0: not given
    // effort
    const char *level, *fp, *precision, *blas, *tune, *tune_db, *cache;
    int64_t jobs; // 0: the default
    int64_t stream_delay, stream_capacity;
    // model
    string_list dims, shapes, io_dtype, io_layout, last, state, stream, fixed, override, opsets, custom_op;
    const char *weights, *const_section, *hook, *external_data_dir, *check_interface, *custom_lib,
        *nchwc_block;
    // messages and insight
    string_list warnings;
    string_list unused;     // flags of C compilers
    string_list algorithms; // -f...
    string_list disabled;   // passes
    bool remarks, time_passes, verbose;
    int64_t error_limit;
    const char *program_folder; // folder of onnxc, for files installed beside it; not an option
    const char *diagnostics, *color, *print_after, *stop_after, *times, *passes;
} options;

extern const option compile_options[];
options options_default(void);
// One line per given option that changes the code: for the hash in the descriptor.
const char *options_text(arena *a, const options *o);
// Values that are no good, and what is asked for and not there yet (one DIAG_MISSING error each).
const char *options_weights(const options *o); // path of the file; NULL: embedded
// Reports a name that no function of the program can have.
void check_symbol(diag *d, const char *option, const char *symbol);
void options_check(arena *a, diag *d, const options *o);
// Copies the settings of diagnostics to d.
void options_apply(const options *o, diag *d);
// Selects this machine's CPU and GPUs, unless the options name others, for code that is run immediately.
void options_use_native(options *o);
target_options options_target(arena *a, const options *o);
// CPUs to compile for, "a,b,c", the most basic first; NULL: only the CPU of t.
const char *options_variants(arena *a, const options *o, const target *t);
// Whether kernels are for a GPU: --device, or the output is CUDA text, PTX or a cubin.
bool options_for_gpu(const options *o);
bool options_for_both(const options *o);      // CPU and GPU
bool options_gpu_host(const options *o);      // with host code that launches the kernels
bool options_kernels_alone(const options *o); // as CUDA text, PTX or a cubin
// The architectures of --gpu-arch, or of this machine's GPUs, numbered as in codegen/gpu/nvrtc.h; another
// form is an error.
int options_gpu_archs(arena *a, diag *d, const options *o, int **archs);
double options_tune_seconds(const options *o); // of --tune; 0: its value is not a time
fp_mode options_fp(const options *o);
bool options_cblas(const options *o); // emitted code calls a CBLAS
precision options_precision(const options *o);
algorithm_options options_algorithms(const options *o);
string_list options_passes(arena *a, const options *o); // of --passes; may be empty
// What --dim says of a size, after "NAME=" (NULL: nothing), and the number, if it says one (-1: none).
const char *options_dim(const options *o, const char *name);
int64_t options_size(const options *o, const char *name);
int options_level(const options *o);  // 0..3; -Os and -Oz: 2
bool options_small(const options *o); // -Os or -Oz
// Bytes of --max-workspace and --max-flash; -1: not given.
int64_t options_max_workspace(const options *o);
int64_t options_max_flash(const options *o);
memory_pools options_pools(arena *a, const options *o); // of --pool
#endif
