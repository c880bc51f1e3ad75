// The program: host code as steps over buffers. It is printed, verified and interpreted.
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
    int64_t
        rows; // STEP_LOOP over patches of images (passes/memory/patch.h): rows of its last image in a step; 0: another loop
    // STEP_LIB (runtime-lite/lib/lib.h). The first nwritten of args are written; NULL: omitted. A non-zero
    // result r of the function fails the run with messages[r - 1].
    const char *lib;
    int nargs, nwritten, nnumbers, nmessages;
    buffer **args;
    dim **numbers;
    const char *const *messages;
    const char *symbol; // not NULL: the user's function that `custom` calls (runtime-lite/lib/lib_custom.c)
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
    int *state;            // by output: 1 + the input whose memory it is stored in, or 0; NULL: all 0
    VEC(dim *) variables;  // opaque dims set by steps
    region *main;
    dim *workspace; // bytes, after planning
};

program *program_new(module *m);
buffer *program_buffer(program *p, const char *name, buffer_role role, dtype t, int rank, dim *const *dims);
// A temporary: TEMP, or HEAP if its size is opaque and a step must allocate it.
buffer *program_temp(program *p, const char *name, dtype t, int rank, dim *const *dims);
buffer *program_constant(program *p, const char *name, const constant *c);
buffer *program_view(program *p, buffer *of, const char *name, int rank, dim *const *dims);
// The axis along which a state grows: its output has other elements there than its input; -1: none. Its memory then has
// room for the largest size of the input.
int state_axis(const program *p, int output);
int64_t state_room(const program *p, int output);
const char *state_full_message(const program *p, int output);
const buffer *buffer_root(const buffer *b);                                         // through view_of
buffer *root_of(const buffer *b);                                                   // the same, not const
step *step_new(program *p, region *r, step_kind kind, const loc *at);               // appended
step *step_insert(program *p, region *r, int at, step_kind kind, const loc *where); // before step `at`
step *step_kernel(program *p, region *r, kernel *k);
// The step becomes a STEP_IF with empty bodies.
void step_branch(program *p, step *s, dim *condition);
step *insert_kernel(program *p, region *r, int at, kernel *k); // before step `at`
int step_index(const region *r, const step *s);
// A library call with room for its arguments and numbers, which the caller sets.
step *step_library(program *p, region *r, const char *lib, const loc *at, int nwritten, int nargs,
                   int nnumbers);
// If a STEP_CHECK compares two sizes, s->dim->a and s->dim->b, the words between them in its message; otherwise NULL.
const char *check_compares(const step *s);
const char *program_print(arena *a, const program *p);
// Parses what program_print or anyone else wrote; errors have their line. The module of the program has only
// a name.
program *program_parse(arena *a, diag *d, const char *file, const char *text);
void program_verify(program *p);
// All steps in order; steps of a body follow their owner.
typedef struct step_site {
    step *s;
    region *region; // that holds it
    int index;      // in that region
    int depth;      // of the region: 0 is the program's
} step_site;
typedef VEC(step_site) step_list;
step_list program_steps(arena *a, const program *p);
#endif
