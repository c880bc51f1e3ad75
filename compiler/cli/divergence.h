// The first node of a model whose values differ between two runs.
#ifndef ONNXC_COMPILER_CLI_DIVERGENCE_H
#define ONNXC_COMPILER_CLI_DIVERGENCE_H
#include "compiler/driver/probes.h"
#include "compiler/values/compare.h"

typedef struct divergence {
    arena *arena;
    tolerance tolerance;
    // After both runs.
    const probed_node *node; // NULL: none differs
    const char *name;        // of its value
    comparison how;
    // Private.
    map wanted;    // name -> its values in the first run
    int64_t count; // of values
    int64_t order; // of the value found so far
} divergence;

probes *divergence_wanted(divergence *d); // for the run whose values are right
probes *divergence_got(divergence *d);    // for the run afterwards that is to be checked
#endif
