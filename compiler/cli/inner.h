// Values inside of a model for the command run: --dump writes them, --values prints them, --stats describes
// them, --output names single ones.
#ifndef ONNXC_COMPILER_CLI_INNER_H
#define ONNXC_COMPILER_CLI_INNER_H
#include "compiler/cli/run_io.h"
#include "compiler/driver/probes.h"

typedef struct inner_options {
    const char *dump, *values, *stats;
    int64_t dump_limit;
} inner_options;

// clang-format off
#define INNER_OPTIONS(type, field) \
    {"--dump", NULL, "DIR", OPT_TEXT, offsetof(type, field.dump), "Inside of the model", \
     "write every value that a node computes to DIR as .npy (sequences, strings and types that numpy lacks: " \
     ".pb), and a list of them to DIR/index.json"}, \
    {"--dump-limit", NULL, "N", OPT_NUMBER, offsetof(type, field.dump_limit), "Inside of the model", \
     "write each value of a body for at most N iterations, 0: all; default: 100"}, \
    {"--stats", NULL, "[=FILE.json]", OPT_TEXT, offsetof(type, field.stats), "Inside of the model", \
     "print minimum, maximum, mean, deviation, NaN, infinities and zeros of every value, and where the first " \
     "NaN and the first infinity come from; or write them to FILE.json"}, \
    {"--values", NULL, "REGEX", OPT_TEXT, offsetof(type, field.values), "Inside of the model", \
     "print values with names, or names of nodes, that contain a match of REGEX (POSIX, extended); with --dump " \
     "and --stats: only these values"}
// clang-format on

typedef struct inner inner;
// NULL: nothing inside of the model is wanted. Outputs of io that are values inside of the model are taken from its
// list once the model is imported.
inner *inner_new(session *s, const inner_options *o, io_options *io);
probes *inner_probes(inner *x);
void inner_inputs(inner *x, const runnable *r, const tensor *in); // before the run
void inner_end(inner *x);                                         // after it, even if it failed
#endif
