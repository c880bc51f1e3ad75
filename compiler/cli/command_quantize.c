// onnxc quantize: a float model becomes a quantised one in ONNX's standard operators.
#include "compiler/base/fs.h"
#include "compiler/base/outfile.h"
#include "compiler/cli/kernel_hook.h"
#include "compiler/cli/run_io.h"
#include "compiler/output/onnx_write.h"
#include "compiler/quantize/quantize.h"
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define AT(field) offsetof(quantize_options, field)
#define DATA      "Calibration"
#define WHAT      "Quantisation"
static const option quantize_table[] = {
    {"--to", NULL, "int8|int16|int8-weights|int4-weights|int2-weights|f16|bf16", OPT_CHOICE, AT(to), WHAT,
     "int8, int16: weights as int8, values between nodes as 8 or 16 bits (default: int8); *-weights: weights "
     "alone, in "
     "blocks; f16, bf16: weights and arithmetic"},
    {"--activations", NULL, "s8|u8|s8-symmetric|u8-symmetric|s16|u16|s16-symmetric", OPT_CHOICE,
     AT(activations), WHAT, "type of values between nodes; default: s8, or s16-symmetric with --to=int16"},
    {"--weights", NULL, "minmax|mse|kquant|gptq", OPT_CHOICE, AT(weights), WHAT,
     "how scales of weights are found; kquant (weighted least squares; the default) and gptq (later elements "
     "compensate for the errors of earlier ones; needs samples) are for weights alone; default otherwise: "
     "minmax"},
    {"--block", NULL, "N", OPT_NUMBER, AT(block), WHAT,
     "elements of weights with one scale, for weights alone; default: 32"},
    {"--symmetric-weights", NULL, NULL, OPT_FLAG, AT(symmetric_weights), WHAT,
     "no zero points for weights alone: int4 and int2 instead of uint4 and uint2"},
    {"--per-tensor", NULL, NULL, OPT_FLAG, AT(per_tensor), WHAT, "one scale for all channels of a weight"},
    {"--reduce-range", NULL, NULL, OPT_FLAG, AT(reduce_range), WHAT,
     "7 bits for weights: for CPUs whose 16-bit sums of byte products saturate"},
    {"--equalise", "--equalize", NULL, OPT_FLAG, AT(equalise), WHAT,
     "move factors between the channels of consecutive products until their weights are equally large, if "
     "that raises the "
     "signal-to-noise ratio; for int8 and int16"},
    {"--bias-correction", NULL, NULL, OPT_FLAG, AT(bias_correction), WHAT,
     "correct biases by the mean error that rounded weights cause in calibration, if that raises the "
     "signal-to-noise ratio; "
     "for int8 and int16"},
    {"--keep", NULL, "NODE", OPT_LIST, AT(keep), WHAT,
     "leave nodes in float: a node's name, an operator, or /a regular expression/ for names; may be "
     "repeated"},
    {"--node", NULL, "NODE=SETTING", OPT_LIST, AT(node), WHAT,
     "other settings for single nodes: float, int8, int16, per-tensor, minmax, percentile:P, entropy, mse, "
     "or "
     "LO..HI, the range of the output; may be repeated"},
    {"--max-loss", NULL, "cos=X|top1=P%|sqnr=DB", OPT_LIST, AT(max_loss), WHAT,
     "leave the nodes in float that cost most accuracy for their gain in time, until the outputs are this "
     "close to those of "
     "the float model: cosine, share of changed answers (or of lost ones, with --labels), signal-to-noise "
     "ratio; may be "
     "repeated"},
    {"--report", NULL, "FILE", OPT_TEXT, AT(report), WHAT,
     "write what was done to each node, its range, error and gain (.html, .json, otherwise text)"},
    {"--measure", NULL, NULL, OPT_FLAG, AT(measure), WHAT, "print the loss of accuracy and the gain in time"},
    {"--labels", NULL, "FILE", OPT_TEXT, AT(labels), DATA,
     "right answers to the samples, int64 (.npy), for top1"},
    {"--data", NULL, "DIR", OPT_TEXT, AT(data), DATA,
     "samples: folders with input_0.pb ... or NAME.npy, or files .npz, .npy, .pb; without it, random inputs"},
    {"--samples", NULL, "N", OPT_NUMBER, AT(samples), DATA, "use the first N samples; default: all"},
    {"--ranges", NULL, "minmax|percentile|entropy|mse", OPT_CHOICE, AT(ranges), DATA,
     "how ranges of values are found; default: mse"},
    {"--percentile", NULL, "P", OPT_REAL, AT(percentile), DATA,
     "share of elements within the range; default: 99.999"},
    {"--seed", NULL, "N", OPT_NUMBER, AT(seed), DATA, "seed of random inputs; default: 0"},
    {NULL},
};

static void show_step(void *user, const char *what) {
    session *s = user;
    if (!message_terminal()) return;
    session_clear_progress(s);
    fprintf(stderr, "%s ...", what);
    fflush(stderr);
    s->progress_shown = true;
}

static int64_t size_of_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

// Before calibration, which takes time.
static void check_outputs(session *s, const char *model, const char *report) {
    const char *to = s->options.output;
    if (!to) {
        diag_hint(&s->diag, "-o model_q.onnx");
        diag_fatal(&s->diag, NULL, "no output file is given");
    }
    if (!is_stdout(to) && !ends_with(to, ".onnx"))
        diag_fatal(&s->diag, NULL, "-o %s: quantize writes .onnx files", to);
    outfile_protect(&s->diag, model);
    outfile_check(&s->diag, to);
    if (report) outfile_check(&s->diag, report);
    if (report && same_file(report, to))
        diag_fatal(&s->diag, NULL, "two outputs have the file name '%s'", to);
}

// Weights go to a separate file if the model came with one, or if protobuf's 2 GiB would not hold them.
static void write_model(session *s, const module *m, bool external) {
    const int64_t most = (int64_t)2000 << 20;
    const char *path = s->options.output;
    outfile *file = outfile_open(s->arena, &s->diag, path, false), *data = NULL;
    sink to = outfile_sink(file), weights = {0};
    onnx_external beside = {.location = arena_printf(s->arena, "%s.data", base_name(path)), .to = &weights};
    if (external || onnx_weight_bytes(m) > most) {
        data = outfile_open(s->arena, &s->diag, arena_printf(s->arena, "%s.data", path), false);
        weights = outfile_sink(data);
    }
    onnx_write(m, &s->options.opsets, &to, data ? &beside : NULL);
    if (data) outfile_commit(data);
    outfile_commit(file);
}

// One sample after the other needs as much memory; fresh pages from the system would cost more than its use.
static void keep_memory(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

static int quantize(session *s, void *own) {
    quantize_options *o = own;
    keep_memory();
    source from = session_model(s);
    check_outputs(s, from.path, o->report);
    s->diag.file = from.path;
    options *here = ARENA_NEW(s->arena, options);
    *here = s->options;
    here->output = here->emit = here->tune = NULL;
    o->cross = here->triple != NULL;
    here->triple = here->cpu = here->features = here->multiversion = here->device = NULL;
    here->machine = (string_list){0}, here->freestanding = false;
    options_use_native(here);
    quantize_input in = {.arena = s->arena,
                         .diag = &s->diag,
                         .options = here,
                         .own = o,
                         .source = from,
                         .import = {.external_data_dir = s->options.external_data_dir},
                         .hook = kernel_hook,
                         .use_timer = kernel_hook_use,
                         .progress = show_step,
                         .user = s};
    in.import.files = &in.files;
    quantize_result r = quantize_model(&in);
    session_clear_progress(s);
    write_model(s, r.module, in.files.n > 1);
    int64_t before = (int64_t)from.size, after = size_of_file(s->options.output);
    for (int i = 0; i < in.files.n; i++) before += size_of_file(in.files.at[i]);
    if (in.files.n > 1) after += size_of_file(arena_printf(s->arena, "%s.data", s->options.output));
    quantize_set_sizes(r.plan, before, after);
    fputs(quantize_summary(s->arena, r.plan), is_stdout(s->options.output) ? stderr : stdout);
    if (o->report) quantize_write_report(s->arena, &s->diag, r.plan, o->report);
    return DIAG_OK;
}

static const quantize_options quantize_defaults = {
    .to = "int8", .ranges = "mse", .percentile = 99.999, .block = 32};
const verb verb_quantize = {
    .name = "quantize",
    .usage = "onnxc quantize MODEL --data DIR -o FILE.onnx [options]",
    .summary =
        "Quantises a model: weights, and with samples for calibration also the values between nodes, become "
        "integers\n"
        "or narrower floats. The result has ONNX's standard operators, which other tools read as well.",
    .table = quantize_table,
    .size = sizeof(quantize_options),
    .defaults = &quantize_defaults,
    .run = quantize,
};
