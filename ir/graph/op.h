// Operators: an op_def and a line in ir/ops/list.h are all that onnxc knows of an operator.
#ifndef ONNXC_IR_GRAPH_OP_H
#define ONNXC_IR_GRAPH_OP_H
#include "ir/graph/graph.h"
#include <string.h>

typedef struct op_def op_def;

// An operator that hands states from sample to sample: the inputs and outputs that have samples, with their time axes,
// and for each state the input with its initial value and the output with its final one.
enum { SEQUENCE_MOST = 16 };
typedef struct op_sequence {
    int nin, in[SEQUENCE_MOST], in_axis[SEQUENCE_MOST];
    int nout, out[SEQUENCE_MOST], out_axis[SEQUENCE_MOST];
    int nstates, first[SEQUENCE_MOST], last[SEQUENCE_MOST];
    bool has_batch; // items along this axis of input 0, in any direction, do not depend on each other
    int batch_axis;
    bool has_rows; // along this axis of input 0, which do not depend on each other
    int row_axis;
    // Without inputs for states: the state is the last sample of the output, and is used as the sample of the input before
    // the next one.
    bool is_running;
    double neutral; // used before the first sample
    bool exclusive; // output samples exclude the current input sample
} op_sequence;
typedef struct lowering lowering; // ir/kernel/lower.h

// One upgrade step, run at import for files whose operator version is below `since`, oldest step first:
// rewrites n from its meaning in the previous version to its meaning in `since`. It may add nodes before n (and
// after it, by giving n's outputs to new nodes).
typedef struct op_upgrade {
    int since;
    void (*apply)(node *n); // NULL: newer versions only allow more
    // The inverse for files of older opsets (ir/ops/downgrade.h); NULL: older versions cannot express n.
    bool (*undo)(node *as);
} op_upgrade;

struct op_def {
    const char *name;
    const char *domain; // "" for ai.onnx, "ai.onnx.ml", "com.microsoft", ...
    // Versions come from the generated table (ir/graph/schema.c). All are supported if the newest is, given
    // the upgrades.
    op_upgrade upgrades[8]; // ends with since = 0
    // Whether version `since` has words for the attributes of a node that an upgrade made; NULL: it always has.
    bool (*expressible)(const node *as, int since);
    // Sets the types of all outputs (dims, and contents where known) from the types of the inputs; reports
    // a mismatch with infer_error. NULL: the upgrade rewrites it away before inference.
    void (*infer)(node *n);
    // Adds kernels or steps to the program. NULL: not implemented (exit 2), unless `expand` is set.
    void (*lower)(lowering *l, node *n);
    // Rewrites n into other nodes of the graph after types are known (function operators); the new
    // nodes are inferred and expanded in turn.
    void (*expand)(node *n);
    // Before inference, when the types of n's inputs are known: builds n's outputs from other operators
    // (ir/ops/decompose.h); n is deleted afterwards. Needed ranks must be known.
    void (*decompose)(node *n);
    // Rewrites n, after types are known, into products of large matrices and other nodes, if CPUs with vectors gain by that,
    // in more memory; n is deleted afterwards. False: it stays.
    bool (*as_product)(node *n);
    // Words: attributes that name tensors of the graph. The import adds these tensors to the inputs of the node, in
    // this order.
    const char *named_tensors;
    // Canonicalises n before its inference, when the types of its inputs are known, and again after it: replaces
    // n, or one of its inputs, by other nodes before it. False: nothing changed.
    bool (*canonicalise)(node *n);
    // Whether output i hides a rank or length that is known inside the node (If: in a branch).
    bool (*has_hidden_rank)(const node *n, int i);
    // Moves a later node of the graph that reads such an output, and the nodes between, into n. False:
    // impossible. Inference continues at n, or at the node after user if nothing more is known.
    bool (*sink_into)(node *n, node *user);
    // Keys of the maps in output 0, a sequence with a map for each row of input 0. As an output of the model
    // it is passed as that table.
    const constant *(*map_keys)(const node *n);
    // For operators with states that run along a sequence: --stream turns them into a step before they are expanded. False:
    // this node does not run forward over the whole sequence.
    bool (*sequence)(const node *n, op_sequence *s);
    // Every output has the elements of input 0 in the same order (Reshape, Squeeze, Identity ...).
    bool is_view;
    bool converts;   // output 0 has the elements of input 0 in another type (Cast, DequantizeLinear)
    bool permutes;   // output 0 has the elements of input 0 in another order
    bool is_product; // of matrices: other kernels that only move its operands are inlined into it
    bool looks_up;   // output 0 has the rows of input 0 that input 1 selects
    // Takes tensors whose rank is known only at run time, as handles (ir/kernel/lower.h); other operators
    // need inputs of known rank.
    bool takes_any_rank;
    bool has_side_effect_on_random; // random operators: never folded or merged
    bool uses_system;               // libraries of the machine that runs the model: never folded
    const struct custom_op *custom; // --custom-op (ir/ops/custom.h); NULL: an operator of this build
};

// Defines an operator of ai.onnx, or of another domain, with the given fields of op_def.
#define OPERATOR(op, ...) OPERATOR_OF("", op, __VA_ARGS__)
#define OPERATOR_OF(domain_name, op, ...)                                                                    \
    const op_def op_##op = {.name = #op, .domain = domain_name, __VA_ARGS__}

// The table that represents v, a sequence of maps, and the keys of its columns; else NULL.
value *value_table(const value *v, const constant **labels);

// NULL: this build has no such operator.
const op_def *op_find(const char *domain, const char *name);
int op_count(void);
const op_def *op_at(int i); // in list order

// The generated table of the standard: all versions of all operators with arities, attributes and type
// constraints (tools/schema.py makes it from onnx.defs).
typedef struct schema_param {
    const char *name;
    char option; // 's'ingle, 'o'ptional, 'v'ariadic
    bool homogeneous;
    int8_t type_var;      // index in type_vars, -1: fixed types
    uint64_t fixed_types; // type set, see SCHEMA_*
} schema_param;
typedef struct schema_attr {
    const char *name;
    int8_t kind; // attr_kind
    bool required;
    const char *def; // default as text (ints "1 2", floats with 9 digits, strings as they are), NULL: none
} schema_attr;
typedef struct schema_version {
    int since;
    bool deprecated;
    bool is_function;                     // the standard gives a body
    int min_in, max_in, min_out, max_out; // max INT_MAX for variadic
    int nin, nout, nattrs, nvars;
    const schema_param *in, *out;
    const schema_attr *attrs;
    const struct schema_type_var {
        const char *name;
        uint64_t types;
    } *type_vars;
} schema_version;
typedef struct schema_op {
    const char *domain, *name;
    int nversions;
    const schema_version *versions; // ascending
} schema_op;
// Type sets: bit 1 << DT_x for tensor(x); bit 32 + DT_x for seq(tensor(x)); SCHEMA_OTHER for optional,
// map, sparse and nested kinds (checked by the operator itself).
#define SCHEMA_TENSOR(t) (UINT64_C(1) << (t))
#define SCHEMA_SEQ(t)    (UINT64_C(1) << (32 + (t)))
#define SCHEMA_OTHER     (UINT64_C(1) << 63)
const schema_op *schema_find(const char *domain, const char *name);
int schema_count(void);
const schema_op *schema_at(int i);
// The newest version with since <= opset; NULL: none.
const schema_version *schema_for_opset(const schema_op *op, int opset);
int schema_newest_opset(const char *domain); // 0: unknown domain
// Compares the operator's name only, not its domain.
static inline bool node_is(const node *n, const char *name) { return strcmp(n->op->name, name) == 0; }
// Adds the attributes that n lacks and v has defaults for.
void node_fill_defaults(node *n, const schema_version *v);

// ---- For infer functions. All stop with a message that names the node.
_Noreturn void infer_error(const node *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The model is right, and onnxc lacks what it asks for.
_Noreturn void infer_lacks(const node *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Type of input i, a tensor; an error if it is missing.
const type *infer_in(const node *n, int i);
// Its rank; if unknown, leaves the inference of this node, with outputs of unknown rank.
int infer_rank(const node *n, int i);
bool infer_has_rank(const node *n, int i);
void infer_set(node *n, int out, dtype elem, int rank,
               dim *const *dims);                     // ignored when the output is not wanted
void infer_set_unknown(node *n, int out, dtype elem); // rank unknown
void infer_same(node *n, int out, int in);            // type of input `in`
// Normalised axis in [0, rank) (or [0, rank] when one_past), error otherwise.
int infer_axis(const node *n, int64_t axis, int rank);
int node_axis(const node *n, int64_t fallback, int rank); // of the attribute axis
int infer_optional_axis(const node *n); // of input 0; -1: without the attribute, the input is flattened
// The numpy broadcast of inputs first..last: fills dims, returns the rank (RANK_UNKNOWN: one is unknown).
int infer_broadcast(const node *n, int first, int last, dim **dims);
// Broadcast of one pair of sizes (axis: for the message).
dim *infer_broadcast_dim(const node *n, dim *a, dim *b, int axis);
// Input i broadcasts to these sizes without stretching them.
void infer_broadcast_into(const node *n, int i, int rank, dim *const *dims, const char *what);
// The more precise of a and b, which must be equal: an error if they differ, a run-time check (added at
// lowering) if that is not known.
dim *infer_same_dim(const node *n, dim *a, dim *b, const char *what);
// Symbolic contents of an integer input; NULL: not known. *count: of its elements.
dim **infer_contents(const node *n, int i, int *count);
// The input's data when it is a constant, else NULL.
const constant *infer_constant(const node *n, int i);
// Sets the symbolic contents of output `out`.
void infer_set_contents(node *n, int out, dim *const *contents, int count);
dims *infer_dims(const node *n);   // the dim table
arena *infer_arena(const node *n); // module's arena
dim *infer_k(const node *n, int64_t k);
// A new opaque size 0..hi (hi may be NULL) for a data-dependent output. A node is inferred again when sizes become
// known, and then gets the same ones in the same order: it makes one for each axis, needed or not.
dim *infer_unknown_dim(const node *n, const char *stem, const dim *hi);
// The same for a size that data decide: what the file declares of it is that of one run.
dim *infer_data_dim(const node *n, const char *stem, const dim *hi);
// The i-th of these that inference made for n; NULL: there are fewer.
dim *infer_made_dim(const node *n, int i);
// Infers one node / a region (types of g's inputs must be set).
void infer_node(node *n);
void infer_graph(graph *g);
void infer_from(graph *g, int place); // from node number `place` on
void infer_until(graph *g, int place, const node *end);
// diag_attempt for a step that infers nodes.
bool infer_attempt(const node *n, void (*step)(void *user), void *user, const diag_message **why);
// The nodes of g will not run: nodes elsewhere that have their locations need none of their checks.
void infer_forget_checks(const graph *g);
const type *infer_declared(const value *v); // the declared type of v, even where inference found a better one

// ---- For upgrades and expansions: new nodes beside n, with n's location.
// A node of operator `op`, in its newest meaning, before n; returns its only output. `op` is an operator of
// ai.onnx, or "DOMAIN:NAME".
value *insert_before(node *n, const char *op, int nin, value *const *in, node **made);
// Constant int64[count], often one for each axis after the first ones. A negative count is an error of n: it lacks axes.
value *insert_ints(node *n, const int64_t *v, int count);
value *insert_constant(node *n, constant *c);
value *insert_scalar(node *n, dtype t, double v); // constant rank 0
// The numbers of an attribute: float and int as scalars, floats and ints as lists; NULL for other kinds.
constant *attr_numbers(arena *a, const attr *t);
// Replaces n's output i, for all users, by op(output i, more_in...) after n; returns the new node.
node *insert_after(node *n, int i, const char *op, int nin, value *const *more_in);
// Replaces n's output i, for all users, by v, which must not depend on it. If v was made after n, it takes
// the place of n's output and must not be used afterwards.
void replace_output(node *n, int i, value *v);
#endif
