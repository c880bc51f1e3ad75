// Shared by the files that write host code: one host function being built.
#ifndef ONNXC_CODEGEN_HOST_HOST_IMPL_H
#define ONNXC_CODEGEN_HOST_HOST_IMPL_H
#include "codegen/host/host.h"
#include "passes/memory/memory_plan.h"
#include "passes/schedule/common/schedule.h"
#include "runtime-lite/onnxc.h"

enum { INTERFACE_VERSION = ONNXC_INTERFACE, HOOK_NO_KERNEL = -1 };

// Constants that kernels of a GPU read: their places in one block.
typedef struct device_constant {
    const char *name; // of the object's symbol
    int64_t offset, bytes;
    int64_t in_file; // where it lies in the file of weights, if there is one
} device_constant;
typedef struct device_constants {
    VEC(device_constant *) list;
    map by_name;
    int64_t bytes; // of the block
} device_constants;

// What all programs of a module have in common.
typedef struct shared {
    text messages;  // NUL-terminated, one after the other
    map message_at; // message -> offset + 1
    map declared;   // runtime functions
    map by_content; // hash of a constant -> buffers
    device_constants on_device;
} shared;

// Of one program, for all CPU levels.
struct hosting {
    arena *arena;
    diag *diag;
    program *p;
    lmodule *m;
    const build_options *o;
    build *result;
    interface *io;
    shared *shared;
    int first_kernel;   // what the hook is told of its kernel 0
    const char *suffix; // of its names
    memory_plan plan;
    dim *device_workspace;      // bytes, with a GPU
    const struct gpu_code *gpu; // that its kernels run on; NULL: the CPU
    int64_t align;
    buffer **scratch;              // by kernel id: its scratch where only the run knows the size, else NULL
    bool heap;                     // the run allocates
    bool calls;                    // library functions
    bool makes;                    // ... that allocate strings or sequences
    map used;                      // constant buffers by id -> symbol name
    const target *const *variants; // the CPU levels
    int nvariants;
    struct host *h;              // by variant
    bool generic;                // the module has the generic entry and the descriptor
    VEC(struct hosting *) parts; // of the module: what is built for each of its programs
};

typedef struct host {
    hosting *all;
    const target *t;
    kernel_code **code; // by kernel id, for this variant
    const char *suffix; // of its names
    lbuild b;
    // The interface: flat arrays, or the structs.
    ins *data, *dims, *capacity;
    ins *in, *out;
    ins *workspace, *size;
    ins *context, *weights, *hook_user; // NULL: the model has none
    ins *message;                       // where a message's address goes; NULL: nowhere
    map atoms;                          // dim id -> value, or variable of an opaque
    map kept, sized;                    // dim id -> value, and checked as a size, until a variable changes
    ins **offset;                  // by buffer id: bytes from the workspace, made at entry; NULL: constant
    ins **scratch;                 // by kernel id, likewise
    ins **heap;                    // by buffer id: pointer variable
    ins *status;                   // variable: the code so far; NULL: failures return at once
    ins *too_small;                // variable: an output had too little room; NULL: none can
    ins *kernel_status;            // one i32 that kernels set
    ins *task_context, *task_dims; // arguments of kernels on several threads
    ins *library_data, *library_numbers; // arguments of library functions
    // With a GPU.
    ins *gpu_run;                                 // the runtime's struct of this run
    ins *launch_values;                           // sizes and arguments of a launch
    ins *device, *device_weights, *device_status; // addresses there
    ins **at_caller;                              // by buffer id: its memory or the caller's; NULL: its own
    int *status_slot;                             // by kernel id
    int statuses;
    bool unchecked; // kernels were launched whose status nobody read
    int depth;      // of bodies around the step
    ins *made;      // one pointer: blocks that library functions allocated; NULL: none does
    bool asks_size; // a function that gives the workspace's size: failures return -1
} host;

static inline ltype i64(void) { return lt(LK_I64, 1); }
static inline ltype i32(void) { return lt(LK_I32, 1); }

// host.c
ins *named_local(lbuild *b, const char *name, lkind elem, int64_t n);
// A function of the runtime that C text brings along: that library file's.
const char *library_function(hosting *a, const char *name, const char *file, ltype result, ltype param);
const char *runtime_function(hosting *a, const char *name, ltype result, int n, const ltype *params);
const char *constant_symbol(hosting *a, const buffer *root);
int64_t constant_place(hosting *a, const buffer *root); // in the file of weights
bool on_heap(const buffer *b);                          // allocated during the run, not planned

// host_dims.c
void host_forget_dims(host *h);                     // a variable changes, or a block may be left or repeated
ins *host_dim(host *h, const dim *d);               // i64
ins *host_index(host *h, const dim *d);             // index kind
ins *to_index(host *h, ins *v);                     // i64 to index kind
ins *host_size(host *h, const dim *d, ins **large); // i64; *large |= it went past what memory can be
void host_bind_symbols(host *h, ins *(*dim_of)(host *, int input, int axis));
void host_bind_arguments(host *h, ins *const *values); // by symbol
void host_check_negative(host *h);
void host_variables(host *h); // for opaque dims

// host_entry.c
void host_fail_if(host *h, ins *cond, onnxc_status code, const char *message);
ins *io_pointer(host *h, bool output, int i);
ins *io_dim(host *h, bool output, int i, int axis);
ins *io_capacity(host *h, int i);
// host_context.c
void begin_weights(hosting *a);
const char *weights_head_symbol(const hosting *a);
void end_weights(hosting *a);
void take_context(host *h); // from the parameters; checks it
void write_context_entries(hosting *a, const target *t);
bool has_open(const hosting *a, const target *t);
// All exported functions. The main program's own variants run it, or those of its versions that were written.
void write_entries(hosting *a, host *variants, int n);
void write_version(hosting *a, host *variants, int n); // the functions that run one version
// NAME_run_cpu and NAME_run_cuda, between which the entry chooses by the context.
void write_on_cpu(hosting *a, host *variants, int n);
void write_on_gpu(hosting *a, host *h);
// host_threads.c
typedef struct arguments {
    ins *at[512];
    int n;
} arguments;
void add_argument(host *h, arguments *a, ins *x);
bool runs_parallel(const host *h, const kernel_code *c);
int kernel_threads(const host *h, const kernel_code *c); // at most
dim *thread_scratch(const kernel_code *c);               // bytes
void make_task_arrays(host *h);
void call_parallel(host *h, const kernel_code *c, ins *scratch);
// host_lib.c
void make_library_arrays(host *h);
void library_step(host *h, const step *s);
void release_made(host *h);
// host_gpu.c
void prepare_gpu(host *h);
void begin_gpu(host *h); // inside of the loop that failures leave
void end_gpu(host *h);   // behind it
void launch_kernel(host *h, const kernel_code *c, ins *scratch);
void wait_on_gpu(host *h);
void check_launched(host *h, void (*report)(host *h, const kernel_code *c, ins *status));
bool copies_across(const host *h, const buffer *to, const buffer *from);
void copy_across(host *h, const buffer *to, const buffer *from, ins *bytes);
ins *alloc_on_gpu(host *h, ins *bytes);
void free_on_gpu(host *h, ins *pointer);
ins *device_pointer(host *h, const buffer *b);
ins *open_on_gpu(host *h, ins *options, ins *context);
// host_steps.c
void host_steps(host *h);
const char *located(host *h, const loc *at, const char *message); // naming the node
ins *buffer_pointer(host *h, const buffer *b);
void write_output_dims(host *h, bool all); // all: those too that the run computes
#endif
