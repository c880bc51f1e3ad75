// Values inside of a model, shown while it runs. In: which values are wanted. Out: probes in the imported graph
// (ir/ops/probe.h), which keep these values in memory through all passes and give them to the caller.
#ifndef ONNXC_COMPILER_DRIVER_PROBES_H
#define ONNXC_COMPILER_DRIVER_PROBES_H
#include "compiler/import/import.h"
#include "ir/graph/tensor.h"
#include "ir/ops/probe.h"

// A node of the model, or a call of one of its functions, in the order of the file.
typedef struct probed_node {
    int index;                          // in probes.nodes
    model_node as;                      // as the first import found it
    const char *const *in, *const *out; // names of its values, unique in the model; NULL: omitted
    // The node whose body, or the call whose function, has it; NULL: the model.
    const struct probed_node *owner;
    int depth;  // the number of owners
    int end;    // the index after those within
    int *seen;  // the outputs whose values events have, in their order
    bool first; // of its body, which has these inputs:
    int nstates;
    const char *const *states;
} probed_node;

// A value that a probe found.
typedef struct probe_value {
    const char *name;
    int output; // of the node; -1: an input of the body that begins with the node
    probe_form form;
    tensor tensor; // in the run's memory; PROBE_STRINGS: of handles; PROBE_VALUE, PROBE_OPTIONAL: one handle
} probe_value;

typedef struct probe_event {
    const probed_node *node;
    bool before; // the node is about to run, and values are the inputs of the body that it begins
    int n;
    const probe_value *values;
} probe_event;

typedef struct probes {
    arena *arena;
    bool before; // events before all nodes
    void *user;
    // After the import, before `wants`: may report unknown names.
    void (*imported)(void *user, const module *m);
    // At the start of a run, which is repeated when the size of an output became known. NULL: not needed.
    void (*start)(void *user);
    bool (*wants)(void *user, const probed_node *n, int output); // NULL: every value
    bool (*see)(void *user, const probe_event *e);               // during the run; false: it fails

    VEC(probed_node *) nodes; // by the first import
    map by_name;              // of a value -> the node that computes it

    struct probe_places *places; // private to probes.c
} probes;

probes *probes_new(arena *a);
void probes_begin(probes *p);                             // before an import
void probes_import_node(void *user, const model_node *n); // import_options.node
void probes_add(probes *p, module *m);                    // after it
void probes_start(probes *p);                             // p may be NULL
#endif
