// The context of a pass, and the passes over the graph and the program. The table in
// compiler/driver/pipeline.c lists their order and when each of them runs.
#ifndef ONNXC_PASSES_PASSES_H
#define ONNXC_PASSES_PASSES_H
#include "ir/graph/graph.h"
#include "passes/rewrite/algorithm.h"

struct program;
struct target;
typedef struct pass_context {
    module *module;                // for passes over the graph
    struct program *program;       // for passes over the program
    const struct target *target;   // layouts and algorithms depend on its kind
    int opt;                       // 0: only what correctness requires
    int64_t fold_work, fold_bytes; // limits of constant folding
    algorithm_options algorithms;
    int64_t max_workspace; // bytes; 0: any
    string_list versions;  // symbols for whose sizes there are several versions of the program
    string_list states;    // "output=input", with --state
    bool derived;          // the module has the interface of another one
    bool changed;          // set by passes that are repeated until nothing changes
} pass_context;

// Over the graph.
void pass_infer(pass_context *c);        // types and symbolic contents of every value
void pass_expand(pass_context *c);       // function operators become other nodes
void pass_fold(pass_context *c);         // constant folding
void pass_cse(pass_context *c);          // common subexpression elimination
void pass_dce(pass_context *c);          // dead code elimination
void pass_sizes(pass_context *c);        // symbols that can have one size only
void pass_state_rows(pass_context *c);   // rows of states that concatenations replace
void pass_matrices(pass_context *c);     // operators become products of matrices where CPUs gain by that
void pass_stream_sizes(pass_context *c); // --stream: infers, without sizes that are those of the export
void pass_stream(pass_context *c);       // --stream: the graph of one step over a few samples
// The input that comes back as output j of the main graph (--state); NULL: none does.
const value *state_input(const pass_context *c, const graph *g, int j);
// The outputs of a node whose inputs are constants, by index; NULL: not within the limits of constant folding.
constant **evaluate_node(node *n, const pass_context *c);

// Over the program: fusion (passes/fuse/fuse_impl.h). The early passes keep kernels that only move data
// apart, so that others read through them; the late ones also inline arithmetic into them.
void pass_phases(pass_context *c);         // epilogues of values that several kernels write
void pass_constants(pass_context *c);      // small results of kernels that read nothing become constants
void pass_late_constants(pass_context *c); // and those of short constants that no sum of products reads
void pass_literals(pass_context *c);       // reads of known elements of constants become literals
void pass_merge_concats(pass_context *c);  // chains of growing concatenations become one
void pass_merge_updates(pass_context *c);  // versions of a value that is updated in parts become one
void pass_merge_parts(pass_context *c);    // parts of it that are taken out and put back are updated in place
void pass_early_carried(pass_context *c);  // values that loops carry are updated where they are
void pass_dead_code(pass_context *c);      // dead code elimination
void pass_factors(pass_context *c); // constant factors of operands move to the other operand or the sum
void pass_early_epilogue(pass_context *c);
void pass_early_inline(pass_context *c);
void pass_early_rows(pass_context *c);
void pass_early_attention(pass_context *c);
void pass_late_epilogue(pass_context *c);
void pass_late_inline(pass_context *c);
void pass_late_rows(pass_context *c);
void pass_late_attention(pass_context *c);
void pass_late_carried(pass_context *c);
void pass_heads(pass_context *c);         // attention over repeated heads becomes groups of heads
void pass_states(pass_context *c);        // states that grow are not read through views; parts of states
void pass_slices(pass_context *c);        // positions that nothing reads are not computed
void pass_weight_scales(pass_context *c); // weights take up a linear function of their sum
void pass_reciprocal(pass_context *c);    // division by a value of the row becomes multiplication

void pass_narrow(pass_context *c); // temporaries that are functions of a byte are stored as the byte
void pass_signs(
    pass_context *c); // operands of integer products get the signedness that the target multiplies
void pass_products(pass_context *c);     // products of dequantised values become integer products
void pass_byte_maxima(pass_context *c);  // maxima of dequantised bytes become maxima of bytes
void pass_fold_scales(pass_context *c);  // products of constants of channels
void pass_tables(pass_context *c);       // functions of one byte become lookup tables
void pass_integer_sums(pass_context *c); // of bytes as floats
void pass_float_tables(pass_context *c); // ... also cheap ones of floats, without floating point
void pass_fixed_rows(
    pass_context *c); // products of floats and small constants become sums of integers without floating point
void pass_fixed_point(pass_context *c); // requantisation in few instructions, on microcontrollers

void pass_cblas(pass_context *c);    // large products of matrices call a CBLAS
void pass_winograd(pass_context *c); // alternative algorithms (passes/rewrite/algorithm.h)
void pass_split_sums(pass_context *c);
void pass_split_attention(pass_context *c);
void pass_key_ranges(pass_context *c); // keys that a mask in memory allows

void pass_widen(pass_context *c); // temporaries of 16-bit floats become f32
void pass_output_views(pass_context *c);
void pass_image_shapes(pass_context *c);
void pass_channels(pass_context *c);      // channels-last layouts for convolutions
void pass_pad_channels(pass_context *c);  // few channels padded to groups of K
void pass_precision(pass_context *c);     // operands of products rounded as --precision allows, on CPUs
void pass_exact_halves(pass_context *c);  // weights of f32 that 16 bits represent exactly
void pass_elide_concats(pass_context *c); // producers write directly into concatenations
void pass_halos(pass_context *c);         // padding in memory instead of guards
void pass_spread_rows(pass_context *c);   // rows of products' operands in different sets of the L1 cache
void pass_panels(pass_context *c);        // packed operands of products
void pass_split_stages(pass_context *c);
void pass_unswitch(pass_context *c);    // conditions on sizes become branches of the host code
void pass_split_axes(pass_context *c);  // of which indices take quotients
void pass_row_values(pass_context *c);  // functions that several stages of a row need are computed once
void pass_row_windows(pass_context *c); // windows of a row are reduced to columns, then along the row
void pass_few_rows(pass_context *c);    // stages and parts of reductions become kernels where rows are few
void pass_round(pass_context *c);       // operands of products rounded as --precision allows, on GPUs
void pass_gpu_layout(pass_context *c);
void pass_sink(pass_context *c);    // rows that iterations of a loop read one by one are computed there
void pass_patches(pass_context *c); // kernels at the peak of memory run on a few rows at a time
void pass_order(pass_context *c);   // of kernels, by the peak of memory
void pass_place(pass_context *c);   // memory spaces: device, host or caller's choice

// Replaces runtime symbols before[i], whose values became known, by now[i] in the whole module; returns
// whether there were any.
bool replace_unknown_dims(module *m, dim *const *before, dim *const *now, int count);
void replace_required_sizes(module *m);
void rebuild_sizes(module *m); // after the range of a symbol has changed
#endif
