// Shared by the files of this folder.
//   quantize.c   the order of the steps
//   prepare.c    the model before quantisation: types, folded constants and batch normalisations
//   rules.c      which nodes and values are quantised
//   pattern.c    --keep and --node
//   samples.c    calibration data
//   calibrate.c  runs the model over the samples and collects statistics
//   range.c      from statistics to ranges, scales and zero points
//   weights.c    weights as int8 beside quantised values
//   weights_only.c, blocks.c, gptq.c   weights alone, in blocks
//   halves.c     f16 and bf16
//   bias.c       biases that make up for the mean error of rounded weights
//   equalise.c   weights of consecutive products on one scale
//   tables.c     embeddings
//   evaluate.c   what quantisation loses; measure.c: what it gains; search.c: --max-loss
//   report.c     what is printed and written about it
//   qdq.c        writes QuantizeLinear and DequantizeLinear into the graph
#ifndef ONNXC_COMPILER_QUANTIZE_IMPL_H
#define ONNXC_COMPILER_QUANTIZE_IMPL_H
#include "compiler/quantize/quantize.h"
#include "ir/graph/op.h"
#include <string.h>

typedef struct plan plan;

// Of the standard.
static inline bool is_op(const node *n, const char *name) { return node_is(n, name) && !*n->op->domain; }

static inline bool is_conv(const node *n) { return is_op(n, "Conv") || is_op(n, "ConvTranspose"); }

// What an operator is to a quantiser.
typedef enum role {
    ROLE_FLOAT,   // stays as it is
    ROLE_PRODUCT, // has weights and a sum of products
    ROLE_BIAS,    // adds a constant row to a product
    ROLE_CLAMP,   // Relu, Clip: part of the node before it
    ROLE_MOVE,    // elements are moved or selected: input and output have one scale
    ROLE_JOIN,    // Concat
    ROLE_POOL,    // averages
    ROLE_PAIR,    // pointwise, of two computed values
    ROLE_POINT,   // pointwise, of one computed value
} role;

// Occurrences of values by size: bin i has the elements in [i - BINS/2, i - BINS/2 + 1) * width. Zeros are counted apart.
enum { BINS = 8192 };
typedef struct histogram {
    double width; // a power of two; 0: empty
    int64_t *bins;
    int64_t zeros;
} histogram;

typedef struct qvalue {
    bool quantised;
    bool observed;      // statistics are needed
    int group;          // values with one scale: the index of their representative
    double least, most; // seen in calibration; least > most: nothing seen
    int64_t count;
    histogram seen;
    // The result:
    double lo, hi;
    dtype type;
    float scale;
    int zero;
    bool fixed; // the range is given by --node
    // Compared with the float model, for the report.
    double signal, noise, dot, norm;
} qvalue;

typedef struct qnode {
    role role;
    bool candidate; // operator and types allow it
    bool quantised;
    bool table;               // of embeddings, as int8 (tables.c)
    bool kept;                // by --keep, --node or the search
    const char *why;          // a reason for staying in float
    double sensitivity, gain; // of the search; NAN: not measured
    double weight_signal, weight_noise;
    const char *ranges; // of its output, by --node; NULL: the default
    double percentile;
    bool per_tensor;
    dtype activation;         // of its inputs, by --node; DT_NONE: the default
    double *sums;             // of a product's input, by channel, over the samples; NULL: not collected
    int64_t channels, summed; // elements in each sum
} qnode;

// Inputs and outputs of one run of the float model, for comparisons.
typedef struct held_sample {
    const char *name;
    tensor *in, *out;
} held_sample;

struct plan {
    arena *arena;
    diag *diag;
    const quantize_input *in;
    const quantize_options *own;
    module *module; // prepared
    int nnodes, nvalues;
    qnode *nodes;   // by id
    qvalue *values; // by id
    dtype activation;
    bool symmetric;
    int threads; // for work of this process
    int64_t nsamples;
    bool random;
    bool infinities;                     // values may have some
    bool correct;                        // biases, by the means of inputs
    double bias_noise[2], bias_signal;   // of the outputs, without and with corrected biases
    struct equalisation *equalisation;   // of weights; NULL: none
    int pairs;                           // of products, that could be equalised
    double equal_noise[2], equal_signal; // of the outputs, without and with it
    double seconds[4];                   // calibration, quantisation, search, measuring
    double calibration_work;             // CPU seconds of this thread
    int64_t bytes_before, bytes_after;
    double time_before, time_after; // of one run; 0: not measured
    struct loss *loss;              // NULL: not measured
    void (*apply)(plan *p);         // changes p->module as planned
    void *state;                    // of apply
    VEC(held_sample) held;
    int64_t held_bytes, held_most;
};

// Node i of the prepared model, also of a body; NULL: it has been removed.
static inline node *node_of(const plan *p, int i) {
    node *n = p->module->nodes.at[i];
    return n->graph ? n : NULL;
}
// The node whose body n is in; NULL: n is in the main graph.
static inline const node *body_owner(const node *n) { return n->graph->owner; }

// prepare.c: types, folding. The result is the same for the same model, so that ids of nodes and values of one import
// hold for all.
void prepare(module *m);
module *prepared_module(const quantize_input *in);
void prepare_again(const plan *p, module *m); // another import, with equalised weights

// rules.c
void find_roles(plan *p);
void choose_nodes(plan *p); // from candidates and kept nodes; then the values
bool reads_quantised(const plan *p, const node *n, int i);
int group_of(const plan *p, int value);

// pattern.c
void apply_patterns(plan *p);
bool is_percentile(double p);                    // more than half of the elements
const char *node_label(arena *a, const node *n); // its name, or one made of its operator and output

// samples.c
typedef struct samples samples;
samples *samples_open(const plan *p, const runnable *r);
typedef void sample_hook(void *user, arena *a, const char *name, const tensor *in);
void samples_each(samples *s, int64_t most, sample_hook *fn, void *user);

// calibrate.c: runs the float model; `see` gets every observed value of every sample. NULL: ranges are collected.
typedef void see_hook(void *user, int value, const tensor *t);
void calibrate(plan *p, see_hook *see, void *user);

// weights_only.c, halves.c: plans
void plan_weights_only(plan *p);
void plan_halves(plan *p);

// bias.c: --bias-correction
void bias_sum_inputs(plan *p, int value, const tensor *t); // of a sample
// Of n with weights w and their errors.
const constant *bias_corrected(const plan *p, const node *n, const constant *w, const float *error,
                               const constant *bias);
void bias_add_missing(const plan *p, node *n); // zeros, so that there is something to correct
void bias_decide(plan *p);

// equalise.c: --equalise
typedef struct equalisation equalisation;
void equalise(const equalisation *e, module *m);
void decide_equalisation(plan *p);

// tables.c
void find_tables(plan *p);
void quantise_tables(plan *p);

// evaluate.c
typedef struct loss {
    double signal, noise; // of the outputs
    double cosine;        // the smallest of all outputs
    int64_t rows,
        changed; // answers: the largest element of each row; how many differ from the float model's
    int64_t labelled, right_before, right_after; // with --labels
} loss;
double decibels(double signal, double noise);
void hold_samples(plan *p); // if none are held yet
// Compiles the model into which `edit` turns the imported module.
runnable *compile_edited(const plan *p, arena *a, void (*edit)(void *user, module *m), void *user);
void edit_quantised(void *plan, module *m); // for compile_edited: prepares and applies
// Over the first `most` held samples; extra: a further input, or NULL.
loss measure_loss(plan *p, runnable *r, int most, const tensor *extra);
void compare_values_of(plan *p); // signal and noise of every value that the report shows

// measure.c
double multiplications(const node *n);   // of a product, as far as sizes are known
void measure_gains(plan *p);             // seconds that each node saves
void measure_times(plan *p);             // of a run with the first held sample
bool is_quick_to_measure(const plan *p); // a small model with samples, of which this costs little
// search.c
void check_goals(const plan *p); // of --max-loss
void search_mixture(plan *p);

// range.c
void choose_ranges(plan *p);

// weights.c
bool is_finite(const constant *c);
// The DequantizeLinear of a constant, before n.
// axis: of channels, -1: none. bias: of n's input 2, NULL: it stays.
value *quantised_weights(plan *p, node *n, int input, int axis, const float *input_scale,
                         const constant *bias);

// qdq.c
void insert_qdq(plan *p);
node *new_node(graph *g, node *before, const char *op, const char *name, int nin, value *const *in);
value *new_output(node *n, const char *name);
constant *floats(arena *a, int rank, const int64_t *dims);

// report.c
const char *seconds_text(arena *a, double seconds);
#endif
