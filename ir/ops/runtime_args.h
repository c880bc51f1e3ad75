// Arguments that are shapes, positions and counts: constants, symbolic values, or data known only at run
// time. In the last case inference gives the value runtime symbols (opaque dims) as its symbolic value, and
// lowering sets these from its buffer.
#ifndef ONNXC_IR_OPS_RUNTIME_ARGS_H
#define ONNXC_IR_OPS_RUNTIME_ARGS_H
#include "ir/kernel/lower.h"
#include "ir/ops/contents.h"
#include "ir/ops/upgrade.h"

// The symbolic value of integer input i; runtime symbols if only its (small) size is known. NULL: left out,
// or the size is unknown.
dim **infer_contents_or_opaque(node *n, int i, int *count);
// The same for a required argument. If its length is unknown, `expected` elements are assumed, as the
// operator requires, and checked at run time; without an expectation (-1) all outputs get unknown rank, and
// the result is false.
bool infer_argument(node *n, int i, int expected, dim ***contents, int *count, dtype elem);
// The length of the first list of known length among inputs first..last; -1 if there is none.
int infer_common_length(const node *n, int first, int last);
// A size that is counted at run time: a runtime symbol named after the first output in use, at most `most`
// (NULL: unbounded).
dim *infer_count_dim(const node *n, dim *most);
// Reports the first element of input i that is constant and outside [-size, size), where size is that of the
// element's axis: element e is a position on axis e % count.
void infer_positions(const node *n, int i, dim *const *sizes, int count);
// Reports constant axes of an argument that are outside [-rank, rank) or given twice.
void infer_distinct_axes(const node *n, dim *const *axes, int count, int rank);
// The sizes of a type if all are constant; false if not, or if there are more than `most` elements.
bool infer_static(const type *t, int64_t most, int64_t *sizes, int64_t *count);
// Output `out` has the shape of input `in`, whose rank may be unknown, and the element type elem.
void infer_set_like(node *n, int out, dtype elem, int in);
// Input i, if given, has one element; `what` says what there may be one of.
void infer_one_element(const node *n, int i, const char *what);
// Input i, if given, has these sizes; `what` describes a pair of them that differs, NULL: by the input's name and the axis.
void infer_shape(const node *n, int i, const char *name, int rank, dim *const *want, const char *what);
int infer_supported_rank(const node *n, int rank); // the rank of an output; error above MAX_RANK
// The symbolic value of output 0 by permuting or repeating that of input 0: source maps each element of
// output 0 to its position in input 0.
typedef int64_t (*contents_source)(const void *user, const int64_t *at);
void infer_move_contents(node *n, contents_source source, const void *user);

// Sets the runtime symbols in the symbolic values of n's inputs and in the sizes of n's outputs. To be called
// first in a lower function, before lower_out.
void lower_arguments(lowering *l, node *n);
// The symbolic value of argument i in a lower function. `length` is its length as implied by the output's
// rank (-1: not implied; a fatal error if it is unknown).
dim **lower_argument(lowering *l, node *n, int i, int length, int *count);
_Noreturn void lower_unknown_length(lowering *l, const node *n);
// Declares that output 0 has sizes d: sets runtime symbols that are still unset (of a declared shape), checks
// the other sizes.
void lower_sizes(lowering *l, node *n, dim *const *d);
// Checks that d >= 0.
void lower_check_size(lowering *l, const node *n, dim *d, const char *message);
void declare_variable(lowering *l, dim *d); // a runtime symbol that steps set
bool is_declared(const program *p, const dim *d);
// Sets the runtime symbol `target` from an element of b.
step *lower_set_dim(lowering *l, const node *n, dim *target, buffer *b, int64_t element);
// A step that calls a library function on BUFFERS(...), the first nwritten of which it writes, and DIMS(...).
step *lower_call(lowering *l, const node *n, const char *function, int nwritten, buffer *const *args,
                 int nargs, dim *const *numbers, int nnumbers);
#define BUFFERS(...) (buffer *[]){__VA_ARGS__}, (int)(sizeof((buffer *[]){__VA_ARGS__}) / sizeof(buffer *))
#define DIMS(...)    (dim *[]){__VA_ARGS__}, (int)(sizeof((dim *[]){__VA_ARGS__}) / sizeof(dim *))
// If the symbolic value of output 0 is known at entry: emits a kernel that writes it, and returns true.
bool lower_known_contents(lowering *l, node *n);

// pointwise_stage for a node with several kernels, distinguished by suffix.
stage *suffixed_stage(lowering *l, const node *n, const char *suffix, buffer *out, kernel **k, expr **index);
// Row-major position of an index in a tensor of these sizes.
int64_t flat_position(const int64_t *at, const int64_t *sizes, int rank);

expr *x_inside(kernel *k, expr *i, dim *extent);  // 0 <= i < extent
expr *x_clamped(kernel *k, expr *i, dim *extent); // the nearest position in [0, extent)
// to[i...] = from[i...], converted if the types differ; nothing if `to` is NULL
void lower_convert(lowering *l, const node *n, const char *suffix, buffer *from, buffer *to);

dim *dim_is_axis(dim *axis, int a, int rank); // whether axis, in [-rank, rank), denotes axis a
dim *dim_not(dim *condition);
dim *dim_or(dim *a, dim *b);
dim *dim_and(dim *a, dim *b);
dim *dim_at_most(dim *a, dim *b); // a <= b
#endif
