// Lowering: what the operators' lower functions use to turn a node into kernels and steps.
#ifndef ONNXC_IR_KERNEL_LOWER_H
#define ONNXC_IR_KERNEL_LOWER_H
#include "ir/graph/op.h"
#include "ir/kernel/program.h"

struct lowering {
    program *program;
    region *region; // where steps go
    map buffers;    // value id -> buffer
    int depth;
    map checked;   // index in the module's checks -> those that have their step
    map certain;   // by id: dims that an earlier check of the main region found to be 1
    region *entry; // steps before all others: handles of constant strings
};

// The whole module to a program of unscheduled kernels, one or more per node.
program *lower_module(module *m);
void lower_graph(lowering *l, graph *g); // the nodes of one (sub)graph into l->region

// Buffer that holds v: input, constant or temporary, made on first use. The buffer's dims are v's.
buffer *lower_buffer(lowering *l, value *v);
// A constant that is no value of the graph; of strings their handles.
buffer *lower_constant(lowering *l, const char *name, const constant *c);
buffer *lower_in(lowering *l, const node *n, int i);  // NULL when left out
buffer *lower_out(lowering *l, const node *n, int i); // NULL when not wanted
// Also of a tensor whose rank only the run knows: the handle of a value, like a sequence. lower_buffer gives
// such inputs.
buffer *lower_handle_out(lowering *l, const node *n, int i);
// Output `out` is input `in`'s memory under another shape.
void lower_view(lowering *l, node *n, int out, int in);
// A kernel named after n, appended as a step. suffix tells several kernels of one node apart (NULL: only
// one).
kernel *lower_kernel(lowering *l, const node *n, const char *suffix);
// A temporary for values between kernels of one node.
buffer *lower_temp(lowering *l, const node *n, const char *suffix, dtype t, int rank, dim *const *dims);

// How the program holds a value: strings are handles (int64) as are, in a scalar, sequences and optionals.
type lower_type(const type *t);
// A step that calls a library function, which the caller gives its arguments and numbers.
step *lower_library(lowering *l, const node *n, const char *function, int nwritten, int nargs, int nnumbers);

// The run fails with message unless holds != 0. Nothing when that is certain.
void lower_check(lowering *l, const node *n, dim *holds, const char *message);
// The steps for inference's checks of n whose opaque dims are set by now. Called around n's lower function,
// which calls it itself when it sets dims that its kernels rely on.
void lower_checks(lowering *l, const node *n);

// ---- Building blocks for kernels
// One parallel axis for each dim of b; index[] gets the axis expressions. Axes are added to the outer ones
// when the kernel has no stage yet and `outer`.
void axes_over(kernel *k, stage *s, const buffer *b, expr **index);
// Reads b at the (right-aligned) broadcast of index[0..rank): numpy rules, run-time stride 0 when it is
// not known whether a dim is 1.
expr *read_broadcast(kernel *k, buffer *b, expr *const *index, int rank);
// The single-stage kernel out[i...] = f(...) over out's dims; the caller builds value from index and ends
// with stage_write. Returns the stage.
stage *pointwise_stage(lowering *l, const node *n, buffer *out, kernel **k, expr **index);
#endif
