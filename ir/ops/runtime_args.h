// Arguments that say shapes, positions and counts: known as constants, as dims, or only when the model runs.
// In the last case inference gives the value opaque dims as contents, and lowering sets those from its
// buffer.
#ifndef ONNXC_IR_OPS_RUNTIME_ARGS_H
#define ONNXC_IR_OPS_RUNTIME_ARGS_H
#include "ir/kernel/lower.h"
#include "ir/ops/contents.h"
#include "ir/ops/upgrade.h"

// Contents of integer input i; of a value of known small size whose elements are not known, opaque dims.
// NULL: left out, or its size is not known.
dim **infer_contents_or_opaque(node *n, int i, int *count);
// The same for an argument that must be there. One of unknown length is taken to have `expected` elements, as
// the operator demands (a check sees to it); when nothing is expected (-1) all outputs get unknown rank:
// false.
bool infer_argument(node *n, int i, int expected, dim ***contents, int *count, dtype elem);
// The length of the first of inputs first..last that is a list of known length, -1 when none is.
int infer_common_length(const node *n, int first, int last);
// A size that is counted at run time: a runtime symbol named after the first output that is wanted, at most
// `most` (NULL: any).
dim *infer_count_dim(const node *n, const dim *most);
// The type's sizes when all are constants; false when not, or when there are more than `most` elements.
bool infer_static(const type *t, int64_t most, int64_t *sizes, int64_t *count);
// Output `out` has the shape of input `in`, whose rank may be unknown, and the element type elem.
void infer_set_like(node *n, int out, dtype elem, int in);
// Input i, if given, has these sizes; `what` describes a pair of them that differs.
void infer_shape(const node *n, int i, const char *name, int rank, dim *const *want, const char *what);
int infer_supported_rank(const node *n, int rank); // the rank of an output; error above MAX_RANK
// Output 0's contents by those of input 0: source gives the position in input 0 of each element of output 0.
typedef int64_t (*contents_source)(const void *user, const int64_t *at);
void infer_move_contents(node *n, contents_source source, const void *user);

// Sets the opaque dims that stand for elements of n's inputs and that n's outputs are sized by. First of all
// in a lower function, before lower_out.
void lower_arguments(lowering *l, node *n);
// Contents of argument i in a lower function, where `length` is what the output's rank says of its length
// (-1: nothing, stops when it is not known).
dim **lower_argument(lowering *l, node *n, int i, int length, int *count);
_Noreturn void lower_unknown_length(lowering *l, const node *n);
// Output 0's sizes are d: sets those that are unset opaque dims (of a declared shape), checks the others.
void lower_sizes(lowering *l, node *n, dim *const *d);
// Checks that d >= 0.
void lower_check_size(lowering *l, const node *n, dim *d, const char *message);
void declare_variable(lowering *l, dim *d); // an opaque dim that steps set
// Sets opaque `target` from an element of b.
step *lower_set_dim(lowering *l, const node *n, dim *target, buffer *b, int64_t element);
// A step that calls a library function on BUFFERS(...), the first nwritten of which it writes, and DIMS(...).
step *lower_call(lowering *l, const node *n, const char *function, int nwritten, buffer *const *args,
                 int nargs, dim *const *numbers, int nnumbers);
#define BUFFERS(...) (buffer *[]){__VA_ARGS__}, (int)(sizeof((buffer *[]){__VA_ARGS__}) / sizeof(buffer *))
#define DIMS(...)    (dim *[]){__VA_ARGS__}, (int)(sizeof((dim *[]){__VA_ARGS__}) / sizeof(dim *))
// When all of output 0's elements are known from the model's sizes: a kernel that writes them.
bool lower_known_contents(lowering *l, node *n);

// pointwise_stage for one of several kernels of n, told apart by suffix.
stage *suffixed_stage(lowering *l, const node *n, const char *suffix, buffer *out, kernel **k, expr **index);
// Row-major position of at in a tensor of those sizes.
int64_t flat_position(const int64_t *at, const int64_t *sizes, int rank);

expr *x_inside(kernel *k, expr *i, dim *extent);  // 0 <= i < extent
expr *x_both(kernel *k, expr *a, expr *b);        // a and b; NULL means true
expr *x_clamped(kernel *k, expr *i, dim *extent); // the nearest position in [0, extent)
// to[i...] = from[i...], converted if the types differ; nothing if `to` is NULL
void lower_convert(lowering *l, const node *n, const char *suffix, buffer *from, buffer *to);

dim *dim_is_axis(dim *axis, int a, int rank); // axis, in [-rank, rank), names axis a
dim *dim_not(dim *condition);
dim *dim_or(dim *a, dim *b);
dim *dim_and(dim *a, dim *b);
dim *dim_at_most(dim *a, dim *b); // a <= b
#endif
