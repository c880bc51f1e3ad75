// What a pass works on, and the passes over the graph and the program. The table in compiler/driver/pipeline.c
// has their order, and when each of them runs.
#ifndef ONNXC_PASSES_PASSES_H
#define ONNXC_PASSES_PASSES_H
#include "ir/graph/graph.h"
#include "passes/rewrite/algorithm.h"

struct program;
struct target;
typedef struct pass_context {
    module *module;                // of passes over the graph
    struct program *program;       // of those over the program
    const struct target *target;   // what the code is for: layouts and algorithms depend on its kind
    int opt;                       // 0: only what is needed for a right answer
    int64_t fold_work, fold_bytes; // limits of constant folding
    algorithm_options algorithms;
    bool changed; // set by passes that are repeated until nothing changes
} pass_context;

// Over the graph.
void pass_infer(pass_context *c);  // types and symbolic contents of every value
void pass_expand(pass_context *c); // function operators become other nodes
void pass_fold(pass_context *c);   // nodes over constants become constants
void pass_cse(pass_context *c);    // equal nodes become one
void pass_dce(pass_context *c);    // nodes without users go

// Over the program: fusion (passes/fuse/fuse_impl.h). Early, what only moves data stays apart, to be read through;
// late, arithmetic goes into it as well.
void pass_literals(pass_context *c);      // elements of constants that are known become literals
void pass_merge_concats(pass_context *c); // concatenations that grow become one
void pass_dead_code(pass_context *c);     // what nobody reads goes
void pass_early_epilogue(pass_context *c);
void pass_early_inline(pass_context *c);
void pass_early_rows(pass_context *c);
void pass_early_attention(pass_context *c);
void pass_late_epilogue(pass_context *c);
void pass_late_inline(pass_context *c);
void pass_late_rows(pass_context *c);
void pass_late_attention(pass_context *c);
void pass_reciprocal(pass_context *c); // divisions by what is the same for a row become products

void pass_narrow(pass_context *c);   // temporaries that are a function of a byte are stored as the byte
void pass_signs(pass_context *c);    // operands of integer products get the signs that the target multiplies
void pass_products(pass_context *c); // sums of products of dequantised values become those of integers
void pass_tables(pass_context *c);   // what one byte decides is looked up

void pass_winograd(
    pass_context *c); // kernels that compute the same in another way (passes/rewrite/algorithm.h)
void pass_split_sums(pass_context *c);
void pass_split_attention(pass_context *c);

void pass_widen(pass_context *c);         // temporaries of 16-bit floats hold f32
void pass_channels(pass_context *c);      // convolutions' images lie channels-last
void pass_elide_concats(pass_context *c); // kernels write their parts of a concatenation themselves
void pass_halos(pass_context *c);         // halos instead of guards
void pass_panels(pass_context *c);        // operands of products are packed
void pass_split_stages(pass_context *c);
void pass_round(pass_context *c); // constants as --precision lets products round them
void pass_gpu_layout(pass_context *c);
void pass_place(pass_context *c); // buffers lie on the device or on the host

// Sizes that only the run would have known are those of `now` from here on, everywhere in the module; whether
// there were any.
bool replace_unknown_dims(module *m, dim *const *before, dim *const *now, int count);
#endif
