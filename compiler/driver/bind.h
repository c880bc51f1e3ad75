// Applies options about the interface to the imported module before inference.
#ifndef ONNXC_COMPILER_DRIVER_BIND_H
#define ONNXC_COMPILER_DRIVER_BIND_H
#include "compiler/driver/options.h"
#include "compiler/driver/versions.h"
#include "ir/graph/graph.h"

// --io-dtype, --io-layout and --last: first, since the other options refer to the interface that callers see.
void bind_io(arena *a, diag *d, module *m, const options *o);
// --dim and --shape. Unknown names, contradictions and negative sizes are errors. lists: the parsed --dim
// options; choice: the range selected from each list; NULL: all.
void bind_options(arena *a, diag *d, module *m, const options *o, const size_list *lists, const int *choice);
// --constant: after bind_options.
void bind_constants(arena *a, diag *d, module *m, const options *o);
// --stream: after bind_options.
void bind_streams(arena *a, diag *d, module *m, const options *o);
// --state: before the module is lowered.
void bind_growing_branches(const module *m, const options *o);
// --state, and the states that passes have made, of the lowered program.
void bind_states(program *p, diag *d, const options *o);
// Makes every wanted axis of every input a symbol, "input.axis", and drops declared shapes of other values.
void bind_symbolic(module *m, bool (*wanted)(void *user, const value *v, int axis), void *user);
// Graph input i becomes the constant c.
void bind_constant(module *m, int i, constant *c);
#endif
