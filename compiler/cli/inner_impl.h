// Shared by inner.c, which collects values, and inner_stats.c, which shows statistics.
#ifndef ONNXC_COMPILER_CLI_INNER_IMPL_H
#define ONNXC_COMPILER_CLI_INNER_IMPL_H
#include "compiler/cli/inner.h"
#include "compiler/values/stats.h"
#include <regex.h>

// What is known of a value of the model.
typedef struct inner_value {
    const char *name;
    const probed_node *node; // NULL: an input of the model
    int output;
    int64_t runs;     // how often it was computed
    const char *type; // of the last time, "float[2, 3]"
    dtype dtype;      // DT_NONE: not a tensor
    int rank;
    int64_t dims[MAX_RANK];
    stats all, last;         // of all runs; of the last one
    bool shown;              // by --values
    const char *output_file; // of --output; NULL: none
} inner_value;

// Where the first NaN or infinity comes from.
typedef struct origin {
    const inner_value *value; // NULL: there is none
    int64_t count, of, run;   // such elements, of how many, in which run
    const char *at;           // the first of them
    string_list inputs;       // of the node, with their ranges
} origin;

struct inner {
    session *session;
    const inner_options *options;
    io_options *io;
    probes *probes;
    const runnable *model;
    const tensor *in; // its inputs
    bool begun;       // the run
    regex_t regex;
    VEC(inner_value *) values;
    map by_name; // -> inner_value
    map outputs; // of --output: name -> file
    origin nan, inf;
    text printed; // by --values
    json index;   // of --dump
    map files;    // names of files already written, in lower case
    int64_t left_out;
};

void inner_note(inner *x, inner_value *v, const tensor *t); // statistics of v, and whether it is an origin
void inner_show_stats(inner *x);
#endif
