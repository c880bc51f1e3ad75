// Shared by the files that write host code: one host function being built.
#ifndef ONNXC_HOST_IMPL_H
#define ONNXC_HOST_IMPL_H
#include "codegen/host.h"
#include "passes/memory.h"
#include "passes/schedule.h"
#include "runtime-lite/onnxc.h"

enum { INTERFACE_VERSION = ONNXC_INTERFACE };

// What all programs of a module have in common.
typedef struct shared {
    text messages;  // NUL-terminated, one after the other
    map message_at; // message -> offset + 1
    map declared;   // runtime functions
    map by_content; // hash of a constant -> buffers
} shared;

// Of one program, for all CPU levels.
typedef struct hosting {
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
    int64_t align;
    buffer **scratch; // by kernel id: its scratch where only the run knows the size, else NULL
    bool heap;        // the run allocates
    bool calls;       // library functions
    bool makes;       // ... that allocate strings or sequences
    map used;         // constant buffers by id -> symbol name
} hosting;

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
void end_weights(hosting *a);
void take_context(host *h); // from the parameters; checks it
void write_context_entries(hosting *a, const target *t);
bool has_open(const hosting *a, const target *t);
// All exported functions. The main program's own variants run it, or those of its versions that were written.
void write_entries(hosting *a, host *variants, int n);
void write_version(hosting *a, host *variants, int n); // the functions that run one version
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
// host_steps.c
void host_steps(host *h);
const char *located(host *h, const loc *at, const char *message); // naming the node
ins *buffer_pointer(host *h, const buffer *b);
void write_output_dims(host *h, bool all); // all: those too that the run computes
#endif
