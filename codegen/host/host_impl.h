// Shared by the files that write host code: one host function being built.
#ifndef ONNXC_CODEGEN_HOST_HOST_IMPL_H
#define ONNXC_CODEGEN_HOST_HOST_IMPL_H
#include "codegen/host/host.h"
#include "passes/memory/memory_plan.h"
#include "passes/schedule/common/schedule.h"
#include "runtime-lite/onnxc.h"

enum { INTERFACE_VERSION = ONNXC_INTERFACE, HOOK_NO_KERNEL = -1 };

// The constants that GPU kernels read, in one block of device memory.
typedef struct device_constant {
    const char *name; // symbol of the object
    int64_t offset, bytes;
    int64_t in_file; // offset in the weights file, if there is one
} device_constant;
typedef struct device_constants {
    VEC(device_constant *) list;
    map by_name;
    int64_t bytes; // total
} device_constants;

typedef struct sentences sentences; // host_messages.c

// State shared by all programs of a module.
typedef struct shared {
    text messages;  // concatenated, each NUL-terminated
    map message_at; // message -> offset + 1
    sentences *sentences;
    map declared;   // runtime functions
    map by_content; // hash of a constant -> buffers
    map bodies;     // of kernels, by hash (ir/loops/loops_share.h)
    device_constants on_device;
} shared;

// Builds the host code of one program, for all CPU levels.
struct host_builder {
    arena *arena;
    diag *diag;
    program *p;
    lmodule *m;
    const build_options *o;
    build *result;
    interface *io;
    shared *shared;
    int first_kernel;   // number of its kernel 0 for the hook
    const char *suffix; // of function names
    memory_plan plan;
    overlaps overlaps;          // of kernels of bare machines
    int64_t traced;             // steps that finding them took
    dim *device_workspace;      // bytes on the GPU
    const struct gpu_code *gpu; // its kernels; NULL: they run on the CPU
    int64_t align;
    buffer **scratch;         // by kernel id: heap buffer for scratch memory of data-dependent size, or NULL
    const buffer **result_of; // by id of a heap buffer: the output that it becomes if that has room, or NULL
    bool heap;                // the run allocates memory
    bool calls;               // the run calls library functions
    bool makes;               // some of them allocate strings or sequences
    map used;                 // constant buffers by id -> symbol name
    const target *const *variants; // the CPU levels
    int nvariants;
    const bool *minor;    // kernels whose code of the lowest level all levels run, by id; NULL: none
    kernel_code **lowest; // that code
    struct host *h;       // by variant
    bool generic;         // the module has the generic entry and the descriptor
    VEC(struct host_builder *) parts; // one builder for each program of the module
};

typedef struct host {
    host_builder *builder;
    const target *t;
    kernel_code **code; // by kernel id, for this variant
    const char *suffix; // of function names
    ins *level;         // the CPU level of the run, by its position in `builder->h`; NULL: the level of `t`
    lbuild b;
    // The interface: flat arrays, or the structs.
    ins *data, *dims, *capacity;
    ins *in, *out;
    ins *workspace, *size;
    ins **pools;                        // by number: their addresses; NULL: memory is in the workspace
    ins *context, *weights, *hook_user; // NULL: the model has none
    ins *message;                       // receives the address of a message; NULL: messages are dropped
    map atoms;                          // dim id -> value; the variable of an opaque dim
    map values, sizes;                  // caches: dim id -> value, and value that was checked as a size
    map natural;                        // cache: dim id -> value that is not negative
    map read;                           // opaque dims of which there are cached values
    ins **offset;                  // by buffer id: offset in the workspace, computed at entry; NULL: constant
    ins **scratch;                 // by kernel id, likewise
    ins **heap;                    // by buffer id: pointer variable; NULL: its place is planned
    ins *status;                   // variable: the code so far; NULL: failures return immediately
    ins *too_small;                // variable: an output exceeds its capacity; NULL: this cannot happen
    ins *kernel_status;            // i32 set by kernels
    ins *task_context, *task_dims; // arguments of multithreaded kernels
    ins *library_data, *library_numbers; // arguments of library functions
    // With a GPU.
    ins *gpu_run;                                 // the runtime's struct of this run
    ins *launch_values;                           // sizes and arguments of a launch
    ins *device, *device_weights, *device_status; // device addresses
    ins **at_caller;  // by buffer id: the caller's memory or its own; NULL: its own
    int *status_slot; // by kernel id
    int statuses;
    bool unchecked;   // kernels were launched whose status has not been read
    int depth;        // nested regions around the current step
    ins *made;        // list of blocks that library functions allocated; NULL: none allocates
    bool says_in_out; // messages go into NAME_out
    bool asks_size;   // the function returns the workspace size, or -1 if it fails
} host;

static inline ltype i64(void) { return lt(LK_I64, 1); }
static inline ltype i32(void) { return lt(LK_I32, 1); }
static inline ltype size_type(const host *h) { return lt(lindex_kind(h->t), 1); }
static inline ins *idx(host *h, int64_t v) { return lb_idx(&h->b, v); }

// host.c
const char *local_name(host *h, const char *name, const char *fallback); // of a variable
ins *named_local(lbuild *b, const char *name, lkind elem, int64_t n);
// Declares a runtime function whose source file C text includes.
const char *library_function(host_builder *a, const char *name, const char *file, ltype result, ltype param);
const char *runtime_function(host_builder *a, const char *name, ltype result, int n, const ltype *params);
// host_overlap.c
struct uses; // ir/kernel/uses.h
void find_overlaps(host_builder *a, const struct uses *u, const kernel_code *c);
const char *constant_symbol(host_builder *a, const buffer *root);
int64_t constant_place(host_builder *a, const buffer *root); // offset in the weights file
bool on_heap(const buffer *b);                               // allocated during the run, not planned

// host_dims.c
void host_forget_dims(host *h);                     // a variable changes, or a block may be left or repeated
ins *host_dim(host *h, const dim *d);               // i64
ins *host_index(host *h, const dim *d);             // index kind
ins *to_index(host *h, ins *v);                     // i64 to index kind
ins *host_size(host *h, const dim *d, ins **large); // i64; *large |= it exceeds any memory
ins *host_negative(host *h, const dim *d);          // a condition; NULL: it is known not to hold
void host_set_dim(host *h, const dim *d, ins *v);   // an opaque dim
void host_bind_symbols(host *h);
void host_bind_arguments(host *h, ins *const *values); // by symbol
void host_check_negative(host *h);
void host_variables(host *h); // one for each opaque dim

// host_entry.c
const target *host_target(const host *h); // for which host code is compiled
void host_fail_if(host *h, ins *cond, onnxc_status code, const char *message);
// A message with numbers in place of \1 and \2, which the runtime writes; the plain one is for objects without it.
typedef struct said {
    const char *plain, *numbered; // NULL: no numbers
    ins *first, *second;          // i64; NULL: none
} said;
void host_fail_saying(host *h, ins *cond, onnxc_status code, const said *message);
ins *io_pointer(host *h, bool output, int i);
ins *io_dim(host *h, bool output, int i, int axis);
ins *io_capacity(host *h, int i); // NULL: the interface does not have it
// Opens a branch in which output i has room for its elements, and closes it: else *too_small is set.
ins *open_capacity(host *h, const buffer *output);
void close_capacity(host *h, ins *fits, const buffer *output);
// host_messages.c
sentences *sentences_new(arena *a, text *table);
// Adds what onnxc_rt_message reads, and returns its offset. numbers: \1 and \2 stand for such.
int64_t sentences_add(sentences *s, const char *text, bool numbers);
// host_results.c
void find_results(host_builder *a);
// Sets the address of a buffer that becomes an output, and opens a branch for the case that the buffer needs memory of
// the run.
ins *open_own_memory(host *h, const buffer *of);
ins *open_own_free(host *h, const buffer *of); // opens a branch for the case that the buffer has such memory
// host_context.c
void begin_weights(host_builder *a);
const char *weights_head_symbol(const host_builder *a);
void end_weights(host_builder *a);
void load_context(host *h); // from the parameters, with checks
void write_context_entries(host_builder *a, const target *t);
bool has_open(const host_builder *a, const target *t);
// All exported functions. They run the variants of the main program, or the versions that were written.
void write_entries(host_builder *a, host *variants, int n);
void write_version(host_builder *a, host *variants, int n); // the functions of one version
// NAME_run_cpu and NAME_run_cuda; the entry calls one of them, depending on the context.
void write_on_cpu(host_builder *a, host *variants, int n);
void write_on_gpu(host_builder *a, host *h);
// The arguments of a call.
typedef struct arguments {
    ins *at[512];
    int n;
} arguments;
void add_argument(host *h, arguments *a, ins *x);
// host_minor.c
bool *find_minor_kernels(arena *a, const program *p, kernel_code *const *code); // by id
// host_levels.c
// The kernels of one step that CPU levels call in one way; without host code for all levels, one.
typedef struct callees {
    const kernel_code **code;
    int *level; // by callee
    int n;
    int nlevels; // they share the code of minor kernels
    dim **dims;  // of all callees
    int ndims;
} callees;
bool share_host_code(const host *variants, int n);                   // whether levels can
const kernel_code *next_code(const host *h, int kernel, int *level); // of the levels; NULL: no more
void call_by_levels(host *h, const kernel *k, void (*call)(host *h, const callees *all));
ins *is_level(host *h, const callees *all, int j);
dim *tasks_of(const kernel_code *c);
ins *dim_of_level(host *h, const callees *all, dim *(*of)(const kernel_code *c)); // i64; NULL: none has it
int place_of_dim(const callees *all, const dim *d);
// host_threads.c
bool runs_parallel(const host *h, const kernel_code *c);
int kernel_threads(const host *h, const kernel_code *c);    // maximum
dim *parallel_scratch(const host *h, const kernel_code *c); // bytes for all threads
void make_task_arrays(host *h);
void call_parallel(host *h, const callees *all, ins *scratch); // scratch NULL: no callee has it
// host_lib.c
void make_library_arrays(host *h);
void library_step(host *h, const step *s);
void release_made(host *h);
// host_pools.c
void measure_pools(host_builder *a);      // once memory is planned
bool passes_pools(const host_builder *a); // callers do
void load_pools(host *h);                 // their addresses
void check_pool_members(host *h);         // members of NAME_in
ins *pool_array(host *h);                 // of addresses, from NAME_in
ins *split_workspace(host *h);            // likewise, one after the other in the workspace
void reserve_pools(host_builder *a);      // in sections
// host_gpu.c
void prepare_gpu(host *h);
void begin_gpu(host *h); // inside the loop that failures leave
void end_gpu(host *h);   // after it
void launch_kernel(host *h, const kernel_code *c, ins *scratch);
void wait_on_gpu(host *h);
void check_launched(host *h, void (*report)(host *h, const kernel_code *c, ins *status));
bool copies_across(const host *h, const buffer *to, const buffer *from);
void copy_across(host *h, const buffer *to, const buffer *from, ins *bytes);
ins *alloc_on_gpu(host *h, ins *bytes);
void free_on_gpu(host *h, ins *pointer);
ins *open_on_gpu(host *h, ins *options, ins *context);
// host_steps.c
void host_steps(host *h);
const char *located(host *h, const loc *at, const char *message); // prefixed by the node
ins *buffer_pointer(host *h, const buffer *b);
#endif
