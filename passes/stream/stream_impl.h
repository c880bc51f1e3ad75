// Shared by the files of the pass that makes a stream of a model.
//   sizes.c    sizes of the signal that the export made constants
//   loops.c    loops over the samples become Scans
//   reach.c    which samples of its inputs a node reads for each sample of its outputs
//   plan.c     rates and leads of all values; the samples of its inputs that each node gets in a step
//   pairs.c    values with two axes of time: attention to a number of earlier samples
//   ends.c     values at the end of the signal
//   frames.c   frames that indices take of a signal
//   relative.c scores by distance
//   exported_relative.c those of an export for one length
//   overlap.c  frames that are added where they overlap
//   leading.c  values of the first samples
//   reflect.c  padding that reflects the signal, or fills up its end
//   past.c     samples of earlier steps, kept as states of the model
//   stream.c   the pass: the graph of one step
#ifndef ONNXC_PASSES_STREAM_STREAM_IMPL_H
#define ONNXC_PASSES_STREAM_STREAM_IMPL_H
#include "ir/graph/op.h"
#include "passes/passes.h"
#include "passes/stream/reach.h"

enum { PROBE = 1024 }; // samples of the signal for which values of positions are computed

// Samples of a value before those of a step. `fill` counts as the value of samples before the first one, also where these were
// computed; NULL: none is read.
typedef struct past {
    const constant *fill;
    const value *first; // what stands before the first sample, computed by the steps; NULL: nothing that is
    bool edge;          // the first sample itself does
    int64_t length;
    value *all; // the past, then the samples of the step
} past;

// A value along time. After step k, that is after (k + 1) * rate samples at the rate of the value, its samples up to
// (k + 1) * rate + lead are known. A step computes `rate` samples: from k * rate + lead on.
typedef struct signal {
    int axis;
    dtype elem;
    int64_t rate, lead;
    bool still;           // the same for all samples: without rate, lead and past
    value *now;           // the samples of a step
    const constant *head; // samples 0 to lead - 1, which precede the first step; NULL: lead <= 0, or `begins`
    bool begins;          // the first step computes them
    value *begin;         // in that step; begins only
    VEC(past) pasts;
    bool
        pair; // it has a second axis, of keys: from `before` samples before the samples of the step to `ahead` after them
    int keys;
    bool constant;      // a pair of positions that is the same in every step
    int64_t period;     // after which it repeats along both axes; 1: it depends on the distance alone
    bool outside_known; // for all keys farther away
    double outside;
    const node *late; // that reads ahead most, of all that the value depends on; NULL: none
} signal;

// Samples [from, to) of an input, counted from sample k * rate, and the past that they are in; -1: in none.
typedef struct span {
    bool used;
    int64_t from, to;
    int past;
} span;

// A small tensor of sizes of the signal, as inference knows it for the whole signal.
typedef struct sizes {
    type type;
    dim **contents;
    int count;
} sizes;

// A value at the end of a signal that ends with the step. A negative lead counts samples before the end.
typedef struct ending {
    int64_t lead;
    const node *late; // that reads ahead; NULL: none
} ending;

// What an axis of time stands for in a node with two of them.
typedef enum pair_role { ROLE_NONE, ROLE_QUERY, ROLE_KEY } pair_role;

// Products of queries and a table by distance: distance d is in column zero - d.
typedef struct relative {
    const constant *table;
    int64_t length;       // in queries, of the signal that has these distances
    int64_t zero, growth; // growth: of `zero`, by query
    bool ahead;           // distances of later keys are there, too
} relative;

// A node in the graph of a step.
typedef struct plan {
    node *node;
    value **in;   // of the node, in the graph over the whole signal
    bool reads;   // signals, or sizes of signals
    reach *reach; // NULL: no output is a signal
    span *inputs;
    int64_t every;  // samples of an input to one of the outputs, at most
    int64_t start;  // the position of the step's first sample among the samples that the node computes
    int64_t early;  // samples before those of the step that it computes again, for the first step
    bool moves;     // the node is replaced by its input
    bool carries;   // its states are states of the stream
    bool constant;  // its outputs are constants of all steps
    bool positions; // it counts samples
    type counts;    // its type then
    double first, step;
    const constant *indices; // of frames, for a signal of some length; NULL: it takes none
    int indices_axis;        // along which they grow
    bool leading;            // it takes the first samples alone
    bool pairs;              // its outputs have two axes of time
    pair_role *roles;        // of inputs with one
    bool sums_keys;
    const relative *relative; // the product of queries and a table; NULL: it is none
    op_sequence sequence;
    value *
        *joined; // by output: its samples of the step, where they differ from the output of the node itself
} plan;

typedef struct streaming {
    pass_context *context;
    module *module;
    arena *arena;
    graph *graph;
    const dim *length; // of the signal
    map signals;       // id of value -> signal
    map sized;         // id of value that depends on the length without being a signal -> sizes
    map endings;       // id of value -> ending
    VEC(plan) plans;
    int64_t delay; // that callers accept
    map probes;    // id of value that depends on positions alone -> its elements for a signal of some length
    map relatives; // id of value -> relative
    map doubtful;  // id of value of positions that may change where the probe has ended
    int64_t before, ahead; // keys that masks let a query see
    value *step;           // number of the step, a state; NULL: not needed so far
    node *at;              // new nodes are inserted before it
} streaming;

static inline bool is_one_sample(const value *v, int axis) {
    return dim_is_const(v->type.dims[axis]) && dim_value(v->type.dims[axis]) == 1;
}

static inline signal *signal_of(const streaming *s, const value *v) {
    return v ? map_get_number(&s->signals, (uint64_t)v->id) : NULL;
}

// sizes.c
int64_t exported_size(const streaming *s, const dim *d); // the size that d had at the export; -1: not known
// The elements of a value that depends on constants alone; NULL: it depends on more.
const constant *known_elements(streaming *s, value *v);
value *size_along(streaming *s, value *v, int axis); // of rank 1
bool dim_at(const streaming *s, const dim *d, int64_t length,
            int64_t *v); // for a signal of that length; false: not known
bool dim_at_steps(const streaming *s, const dim *d, int64_t v[2]); // for many steps, and for one step more

// loops.c
// Turns a Loop over the samples into a Scan. NULL, or why n is no such loop; it stays in any case, without users where
// it was replaced.
const char *loop_to_scan(streaming *s, node *n);
// Replaces a Loop of a few iterations, such as one over equal layers, by the nodes of its iterations. The first of them, or NULL.
node *loop_to_layers(streaming *s, node *n);
bool replace_length(streaming *s, node *n); // of a sequence of all samples; false: n is no such node

// plan.c
void plan_graph(streaming *s);
void forget_types(streaming *s);                     // that nodes compute
bool has_length(const streaming *s, const value *v); // among the contents of a small tensor
sizes *sizes_of(const streaming *s, const value *v);
// The sizes for a signal of `length` samples; NULL: they depend on more.
constant *sizes_at(const streaming *s, const sizes *z, int64_t length);

// From p->reach and the signals that the node reads: its rate, lead and samples.
void plan_windows(streaming *s, plan *p);

// The past that has the samples of an input before a step.
void add_past(streaming *s, signal *in, span *at, const window *w);
// Refuses an output that comes later than callers accept, of which `late` is the reason.
void accept_delay(streaming *s, int output, int64_t lead, const node *late);

// frames.c
bool plan_frames(streaming *s, plan *p);           // false: it takes none by indices of positions
int64_t frames_in(const plan *p, int64_t samples); // whose samples are all among the first ones
constant *indices_of(streaming *s, const plan *p, int64_t count); // of so many frames; NULL: too many

// Whether indices grow evenly along the axis, from each sample to the next; to->lo and to->hi are of the first one.
bool window_of_indices(const constant *c, int axis, window *to);

// Replaces the output of n, a Gather of repeated samples by these indices, which are those of a signal of so many samples. False: they
// are others, or c is NULL.
bool repeat_samples(streaming *s, node *n, const constant *c, int64_t samples);

// relative.c
bool find_relative(
    streaming *s,
    node *n); // replaces the output of n, which only dead nodes then use; false: it is no such node
void take_relative(streaming *s, const plan *p);
bool moves_elements(const node *n);
// v for a signal of that length: each element is its own number. NULL: too many.
constant *numbered(streaming *s, const value *v, int64_t length);
// The column c of distance 0, if y[q, k] = x[q, c - (q - k)] for all keys up to the query; -1: it is something else. *ahead: so it
// is for later keys. From the numbers of x's elements, and where nodes moved them to.
int64_t column_of_zero(const constant *from, const constant *to, int64_t length, bool *ahead);

// exported_relative.c
// Replaces what nodes make of a product n of queries by a table; n and these are deleted. The last new node; NULL: n is no such product.
node *adjust_relative(streaming *s, node *n);

// overlap.c: replace n by sums of frames; false: it is no such node. `data`, `places`: of a scatter, for a signal of some
// length; NULL: they depend on more.
bool add_blocks(streaming *s, const node *n);
bool add_scattered(streaming *s, const node *n, const constant *data, const constant *places);

// leading.c
bool plan_leading(streaming *s, plan *p); // false: it takes others, or more
void take_leading(streaming *s, plan *p); // once the node has its samples

// reflect.c
bool pad_signal(streaming *s, node *n); // replaces n; false: it is no such padding

// ends.c
bool is_axis(const node *n, int64_t axis, int time); // of the first input, negative ones from the end
// The place of the axis of time among those of a Slice with constant places, and its step; -1: it has none.
int64_t place_in_slice(const node *n, int time, int64_t *step);
// The last states of a sequence over these samples.
void add_last_states(streaming *s, const plan *p, const value *samples);
bool plan_ending(streaming *s, const plan *p); // false: it reads no value at the end
bool plan_last(streaming *s, plan *p);         // false: it takes more than the last samples
void plan_ending_output(streaming *s, int i);

// pairs.c
int64_t stride_of(const constant *c, int axis); // elements between two neighbours along the axis
void find_probes(streaming *s);
void find_bands(streaming *s);
bool of_positions(const streaming *s, const value *v); // it depends on positions alone
bool is_pair(const streaming *s, const type *t, int *query, int *keys);
// The number of samples, a divisor of `rate`, after which a pair of positions repeats along both axes; 0: there is none.
int64_t period_of_pair(const streaming *s, const value *v, int64_t rate);
// Whether it is known for distances up to that one.
bool extends_to(streaming *s, const value *v, int64_t distance);
// The elements of a constant pair for queries from `lead` on; NULL: too many.
const constant *pair_of_step(streaming *s, const value *v, const signal *as, int64_t lead);
// The value of a mask outside of its band; false: it has no band.
bool outside_of_mask(streaming *s, const value *v, double *outside);
bool read_pairs(streaming *s, plan *p, const char **why); // sets the roles of the inputs
void set_outside(streaming *s, const plan *p, signal *out, int rank);

// past.c: nodes are inserted before s->at, and inferred.
value *make(streaming *s, const char *op, int nin, value *const *in, const attr *a);
static inline value *ints(streaming *s, const int64_t *v, int n) {
    return value_int64s(s->graph, NULL, v, n);
}
value *join(streaming *s, value *a, value *b, int axis);
// The outputs of n with the inputs that `as` has for its own, by index; NULL: not known at compile time.
constant **evaluate_copy(streaming *s, const node *n, map *as);
value *slice_of(streaming *s, value *v, int axis, int64_t from, int64_t to);
value *pad_axis(streaming *s, value *v, int axis, int64_t before, int64_t after, const char *mode);
// A state of the stream: an input of the graph; state_next makes v the output that updates it.
value *state_new(streaming *s, const char *name, const type *t);
void state_next(streaming *s, value *state, value *v);
// `first` in steps 0 to `until`, state in later ones.
value *state_or_first(streaming *s, value *state, value *first, int64_t until);
value *step_number(streaming *s);
// v with samples before the first of the signal replaced by the fill; v begins with sample number `from` of its step.
value *hide_early(streaming *s, value *v, int axis, int64_t rate, int64_t from, value *fill);
value *samples_of(streaming *s, const value *of, const span *at); // the samples of an input that a node gets
// What stands before the first sample of the step, which is that of the signal: so many samples.
value *before_first(streaming *s, const signal *of, const window *w, int64_t samples);
// Output `out` of the node over the samples of its inputs before the first step; of a signal the first `lead` of its samples.
// NULL: not known at compile time.
const constant *head_of(streaming *s, const plan *p, int out, int64_t lead);
// `count` elements, first, first + step ..., of rank 1; -1: a scalar.
constant *numbers(streaming *s, dtype t, int64_t count, double first, double step);
constant *fill_with(streaming *s, dtype t, double v); // of one element
bool is_zero(const constant *c);
constant *new_constant(streaming *s, dtype elem, int rank,
                       const int64_t *dims); // NULL: beyond the limits of constant folding
int64_t length_of(const value *v, int axis);
#endif
