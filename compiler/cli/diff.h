// The parts of onnxc diff.
//   command_diff.c      options, the order of the sections, exit code
//   diff_match.c        which node of one model is which of the other
//   diff_structure.c    interface, opsets, metadata, nodes
//   diff_weights.c      constants
//   diff_runs.c         cost and outputs
//   diff_report.c       text and JSON
#ifndef ONNXC_COMPILER_CLI_DIFF_H
#define ONNXC_COMPILER_CLI_DIFF_H
#include "compiler/cli/run_io.h"
#include "compiler/driver/probes.h"
#include "compiler/values/compare.h"

// Where an input of a node comes from.
typedef enum diff_from { FROM_NOTHING, FROM_NODE, FROM_INPUT, FROM_BODY_INPUT, FROM_CONSTANT } diff_from;
typedef struct diff_ref {
    diff_from from;
    int at;     // node, model input or constant; of inputs of a body: their position
    int output; // of the node
} diff_ref;

typedef struct diff_constant {
    const char *name;
    const constant *data;
    uint64_t type, content; // hashes
    int match;              // constant of the other model; -1: none
    int dequantised;        // the DequantizeLinear by which the pair match; -1: none
} diff_constant;

typedef struct diff_node {
    const probed_node *is;
    const char *name; // NULL: unnamed
    diff_ref *in;
    // Hashes: of the operator and its attributes; with its constants; with all it depends on.
    uint64_t kind, local, cone;
    int owner; // the node whose body has it; -1: none
    int match; // node of the other model; -1: none
} diff_node;

typedef struct diff_side {
    const char *path;
    pipeline *compiled; // for cost and outputs; NULL: not yet
    runnable *run;
    pipeline *pipeline; // after the import
    probes *probes;
    VEC(diff_node) nodes;
    VEC(diff_constant) constants;
    map refs; // name of a value -> diff_ref
} diff_side;

// A difference, or a figure of both models.
typedef struct diff_item {
    char sign; // '-' of the first model only, '+' of the second only, '~' changed, ' ' the same
    const char *kind, *name, *text;
    const comparison *numbers; // NULL: none
    double snr;                // in dB; NAN: none
} diff_item;

typedef struct diff_section {
    const char *name, *summary;
    VEC(diff_item) items;
    bool differs;
} diff_section;

typedef struct diff {
    session *session;
    arena *arena;
    diff_side side[2];
    tolerance tolerance;
    VEC(diff_section *) sections;
} diff;

diff_section *diff_begin(diff *d, const char *name);
void diff_add(diff *d, diff_section *s, diff_item item); // other signs than ' ' make the section differ
void diff_read(diff *d, diff_side *s, const char *path);
void diff_match(diff *d);
void diff_interface(diff *d);
void diff_opsets(diff *d);
void diff_metadata(diff *d);
void diff_structure(diff *d);
void diff_weights(diff *d);
void diff_cost(diff *d);
void diff_outputs(diff *d, const io_options *io);
double signal_to_noise(const tensor *got, const tensor *want); // in dB
const char *diff_text(diff *d);
const char *diff_json(diff *d);
#endif
