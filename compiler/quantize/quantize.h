// onnxc quantize: a float model becomes a model with stored integers or narrower floats, in ONNX's standard
// operators. In: a model, samples for calibration, settings. Out: the quantised module and what was done to each node.
#ifndef ONNXC_COMPILER_QUANTIZE_QUANTIZE_H
#define ONNXC_COMPILER_QUANTIZE_QUANTIZE_H
#include "compiler/run/kernel_timer.h"

typedef struct quantize_options {
    const char *to;          // int8, int16, int8-weights, int4-weights, int2-weights, f16, bf16
    const char *data;        // folder or file of samples; NULL: random
    const char *activations; // s8, u8, s8-symmetric, u8-symmetric, s16, s16-symmetric, u16; NULL: by `to`
    const char *ranges;      // minmax, percentile, entropy, mse
    double percentile;
    const char *weights; // how scales of weights are found: minmax, mse, kquant, gptq; NULL: by `to`
    int64_t block;       // elements with one scale of weights alone
    string_list keep, node, max_loss;
    const char *labels, *report;
    int64_t samples, seed;
    bool measure;
    bool cross; // the target is not this machine
    bool per_tensor, reduce_range, symmetric_weights, bias_correction, equalise;
} quantize_options;

// The parts of a run that the command prints.
typedef struct quantize_result {
    module *module; // to be written
    struct plan *plan;
} quantize_result;

typedef struct quantize_input {
    arena *arena;
    diag *diag;
    const options *options; // of the compilation, for this machine
    const quantize_options *own;
    source source;
    import_options import;
    file_list files; // that the import has read
    // Runs before each kernel, for the timer in use, which this library, without variables, cannot hold.
    int (*hook)(void *user, uint32_t kernel);
    void (*use_timer)(kernel_timer *t);
    void (*progress)(void *user, const char *what);
    void *user;
} quantize_input;

// Errors leave through the diag.
quantize_result quantize_model(const quantize_input *in);
// Of the model's files, for the report.
void quantize_set_sizes(struct plan *p, int64_t before, int64_t after);
// As text for a terminal.
const char *quantize_summary(arena *a, const struct plan *p);
// A file: HTML or JSON, by its ending.
void quantize_write_report(arena *a, diag *d, const struct plan *p, const char *path);
#endif
