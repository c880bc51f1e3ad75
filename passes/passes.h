// The passes over the graph, in the order of the table in passes/passes.c.
#ifndef ONNXC_PASSES_PASSES_H
#define ONNXC_PASSES_PASSES_H
#include "ir/graph/graph.h"
#include "passes/rewrite/algorithm.h"

typedef struct pass_context {
    module *module;
    int opt;                       // 0: only what is needed for a right answer
    int64_t fold_work, fold_bytes; // limits of constant folding
} pass_context;
typedef struct pass {
    const char *name;
    void (*run)(pass_context *c);
    int min_opt; // runs at this level and above
} pass;
extern const pass graph_passes[]; // ends with a NULL name

void pass_infer(pass_context *c);  // types and symbolic contents of every value
void pass_expand(pass_context *c); // function operators become other nodes
void pass_fold(pass_context *c);   // nodes over constants become constants
void pass_dce(pass_context *c);    // nodes without users go
void pass_cse(pass_context *c);    // equal nodes become one

// Sizes that only the run would have known are those of `now` from here on, everywhere in the module; whether
// there were any.
bool replace_unknown_dims(module *m, dim *const *before, dim *const *now, int count);

// The passes over the program, in order, after lowering.
struct program;
struct target;
typedef struct program_context {
    struct program *program;
    const struct target *target; // what the code is for: layouts and algorithms depend on its kind
    int opt;
    algorithm_options algorithms;
    bool alone; // kernels of a GPU that others start: memory lies as the text of a kernel says
} program_context;
typedef struct program_pass {
    const char *name;
    void (*run)(program_context *c);
    int min_opt;
} program_pass;
extern const program_pass program_passes[]; // ends with a NULL name

// What runs after each pass, when given, with its name.
typedef void (*pass_hook)(void *user, const char *pass, double seconds);
void run_graph_passes(pass_context *c, pass_hook hook, void *user);
#endif
