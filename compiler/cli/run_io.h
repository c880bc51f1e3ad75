// Inputs and outputs of the verbs run and bench: from options to tensors and files.
#ifndef ONNXC_COMPILER_CLI_RUN_IO_H
#define ONNXC_COMPILER_CLI_RUN_IO_H
#include "compiler/cli/command.h"
#include "compiler/run/runnable.h"

typedef struct io_options {
    string_list inputs, outputs;
    const char *input_dir, *output_dir;
    int64_t seed;
    bool all;
    bool quiet;   // prints no outputs
    bool signals; // inputs of streams may have more samples than a step
} io_options;

// clang-format off
#define IO_OPTIONS(type, field) \
    {"--input", NULL, "NAME=FILE", OPT_LIST, offsetof(type, field.inputs), "Inputs and outputs", \
     "read an input from FILE (.npy, .npz, .pb, .csv, raw .bin), or generate it: NAME=random[:LO..HI]; " \
     "'NAME=' may be left out if there is one input"}, \
    {"--input-dir", NULL, "DIR", OPT_TEXT, offsetof(type, field.input_dir), "Inputs and outputs", \
     "read the inputs in order from DIR/input_0.pb, input_1.pb ..."}, \
    {"--seed", NULL, "N", OPT_NUMBER, offsetof(type, field.seed), "Inputs and outputs", \
     "seed of random inputs; default: 0"}
// clang-format on

// The port of "NAME=REST"; the longest name counts, since names may contain '='. With one port, "REST" alone is
// enough, unless it is that port's name: then the file was forgotten. -1: none.
int match_port(const char *v, const port *ports, int n, const char **rest);
// Keeps inputs with default values that these options set as inputs of the next model.
void expect_inputs(session *s, const io_options *o);
// One tensor for each input of r. Those without an option are random if `fill`, otherwise an error.
tensor *read_inputs(session *s, const io_options *o, const runnable *r, bool fill);
// None may be the file of the model, an input, another output or an expected value.
void check_output_names(session *s, const io_options *o, const string_list *compare);
void write_outputs(session *s, const io_options *o, const runnable *r, const tensor *out);
#endif
