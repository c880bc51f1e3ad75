// The program: the model as host steps over buffers. It prints, verifies and is interpreted; memory planning,
// threads, hooks and error handling work on it and exist once.
#ifndef ONNXC_IR_KERNEL_PROGRAM_H
#define ONNXC_IR_KERNEL_PROGRAM_H
#include "ir/kernel/kernel.h"

typedef struct step step;
typedef struct region {
    VEC(step *) steps;
} region;

typedef enum step_kind {
    STEP_KERNEL,  // run `kernel`
    STEP_CHECK,   // fail with `message` unless dim `dim` != 0
    STEP_SET_DIM, // opaque `target` = dim `dim` if not NULL, else integer element `index` of `buffer`
    STEP_ALLOC,   // heap `buffer`, sized by its dims now
    STEP_FREE,    // heap `buffer`
    STEP_COPY,    // `buffer` = contents of `from` (same shape and layout, dtype)
    STEP_MOVE,    // heap `buffer` takes over the memory of heap `from` (its old memory must have been freed)
    STEP_IF,      // condition: element 0 of bool `buffer`, or dim `dim` != 0; body[0] then, body[1] else
    STEP_LOOP,    // for target = 0; target < dim (NULL: no bound) and `buffer`[0] (NULL: always); body[0]
    STEP_LIB,     // runtime-lite's library function `lib` on `args` and `numbers`
} step_kind;

struct step {
    step_kind kind;
    const loc *loc;
    kernel *kernel;
    dim *dim;
    dim *target;
    buffer *buffer, *from;
    int64_t index;
    const char *message;
    region *body[2];
    // STEP_LIB (runtime-lite/lib/lib.h). The first nwritten of args are written; NULL: left out. What the
    // function answers, minus 1, is the message with which the run fails.
    const char *lib;
    int nargs, nwritten, nnumbers, nmessages;
    buffer **args;
    dim **numbers;
    const char *const *messages;
};

struct program {
    arena *arena;
    diag *diag;
    dims *dims;
    module *module;
    const char *name;
    VEC(buffer *) buffers;
    VEC(kernel *) kernels;
    VEC(buffer *) inputs;  // in model order
    VEC(buffer *) outputs; // in model order
    int *state;            // by output: 1 + the input whose memory it takes, else 0; NULL: no output does
    VEC(dim *) variables;  // opaque dims set by steps
    region *main;
    dim *workspace; // bytes, after planning
};

program *program_new(module *m);
buffer *program_buffer(program *p, const char *name, buffer_role role, dtype t, int rank, dim *const *dims);
// What a step makes for others: TEMP, or HEAP where a step before must allocate it.
buffer *program_temp(program *p, const char *name, dtype t, int rank, dim *const *dims);
buffer *program_constant(program *p, const char *name, const constant *c);
buffer *program_view(program *p, buffer *of, const char *name, int rank, dim *const *dims);
const buffer *buffer_root(const buffer *b);                                         // through view_of
buffer *root_of(const buffer *b);                                                   // the same, to be changed
step *step_new(program *p, region *r, step_kind kind, const loc *at);               // appended
step *step_insert(program *p, region *r, int at, step_kind kind, const loc *where); // before step `at`
step *step_kernel(program *p, region *r, kernel *k);
step *insert_kernel(program *p, region *r, int at, kernel *k); // before step `at`
int step_index(const region *r, const step *s);
// A library step with room for that many arguments and numbers, which the caller sets.
step *step_library(program *p, region *r, const char *lib, const loc *at, int nwritten, int nargs,
                   int nnumbers);
const char *program_print(arena *a, const program *p);
// What program_print wrote, or anyone else; errors have the line. The program's module holds its name alone.
program *program_parse(arena *a, diag *d, const char *file, const char *text);
void program_verify(program *p);
// Every step in order, those of bodies after the step that owns them.
typedef struct step_site {
    step *s;
    region *region; // that holds it
    int index;      // in that region
    int depth;      // of the region: 0 is the program's
} step_site;
typedef VEC(step_site) step_list;
step_list program_steps(arena *a, const program *p);
#endif
