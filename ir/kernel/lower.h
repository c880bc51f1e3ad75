// Lowering: helpers with which the operators turn nodes into kernels and steps.
#ifndef ONNXC_IR_KERNEL_LOWER_H
#define ONNXC_IR_KERNEL_LOWER_H
#include "ir/graph/op.h"
#include "ir/kernel/program.h"

struct lowering {
    program *program;
    region *region; // where steps go
    map buffers;    // value id -> buffer
    int depth;
    map checked;   // index in the module's checks -> not NULL once the program has its step
    map certain;   // by id of dim: checked by a step that always runs
    region *entry; // steps at the entry: handles of constant strings
};

// The whole module to a program of unscheduled kernels, one or more per node.
program *lower_module(module *m);
// A program of n alone, with inputs for what it reads besides constants; outputs that n omits are NULL.
program *lower_alone(node *n);
void lower_graph(lowering *l, graph *g); // the nodes of one (sub)graph into l->region

// The buffer that holds v: input, constant or temporary, created on first use, with the dims of v.
buffer *lower_buffer(lowering *l, value *v);
void map_value(lowering *l, value *v, buffer *b); // b holds v from now on
// A constant that is not a value of the graph; of strings: their handles.
buffer *lower_constant(lowering *l, const char *name, const constant *c);
buffer *lower_in(lowering *l, const node *n, int i);  // NULL: omitted
buffer *lower_out(lowering *l, const node *n, int i); // NULL: unused
// Like lower_out, also for a tensor of unknown rank: then a handle, as for sequences. lower_buffer returns
// such inputs.
buffer *lower_handle_out(lowering *l, const node *n, int i);
// Output `out` is input `in`'s memory under another shape.
void lower_view(lowering *l, node *n, int out, int in);
// Appends a kernel named after n. suffix distinguishes several kernels of a node (NULL: the only one).
kernel *lower_kernel(lowering *l, const node *n, const char *suffix);
// A temporary for values between kernels of one node.
buffer *lower_temp(lowering *l, const node *n, const char *suffix, dtype t, int rank, dim *const *dims);

// The type in which the program holds a value: strings are handles (int64), sequences and optionals a scalar
// handle.
type lower_type(const type *t);
// Appends a library call; the caller sets its arguments and numbers.
step *lower_library(lowering *l, const node *n, const char *function, int nwritten, int nargs, int nnumbers);

// Fails the run with message if holds == 0. No step is added if it certainly holds.
void lower_check(lowering *l, const node *n, dim *holds, const char *message);
// Adds the checks that inference recorded for n and whose opaque dims are set by now. Called around n's lower
// function, which may call it after setting dims that its kernels rely on.
void lower_checks(lowering *l, const node *n);

// ---- Building blocks for kernels
// Adds a parallel axis for each dim of b; index[] receives the axis expressions. s NULL: to the outer axes of
// the kernel.
void axes_over(kernel *k, stage *s, const buffer *b, expr **index);
// Reads b at the right-aligned broadcast of index[0..rank) by numpy's rules, with a run-time stride of 0 or 1
// if it is not known whether a dim is 1.
expr *read_broadcast(kernel *k, buffer *b, expr *const *index, int rank);
// A single-stage kernel out[i...] = f(...) over the dims of out; the caller builds the value from index and
// ends with stage_write.
stage *pointwise_stage(lowering *l, const node *n, buffer *out, kernel **k, expr **index);
#endif
