// What the command line says about a model's interface, done to the imported module before inference.
#ifndef ONNXC_COMPILER_DRIVER_BIND_H
#define ONNXC_COMPILER_DRIVER_BIND_H
#include "compiler/driver/options.h"
#include "compiler/driver/versions.h"
#include "ir/graph/graph.h"

// --io-dtype and --io-layout: before the others, which mean the interface as callers see it.
void bind_io(arena *a, diag *d, module *m, const options *o);
// --dim and --shape. Unknown names, contradictions and sizes below 0 are errors. lists: what each --dim says;
// choice: by list, which of its ranges; NULL: all of them.
void bind_options(arena *a, diag *d, module *m, const options *o, const size_list *lists, const int *choice);
// --state, of the lowered program.
void bind_states(program *p, diag *d, const options *o);
// Every wanted axis of every input gets a size of its own, "input.axis"; declarations of other shapes are
// dropped.
void bind_symbolic(module *m, bool (*wanted)(void *user, const value *v, int axis), void *user);
// Graph input i becomes the constant c.
void bind_constant(module *m, int i, constant *c);
// The computed values of the main graph become outputs too, after the model's own.
void bind_all_outputs(module *m);
#endif
