// Operators: everything onnxc knows of one is its op_def and its line in ir/ops/list.h.
#ifndef ONNXC_IR_GRAPH_OP_H
#define ONNXC_IR_GRAPH_OP_H
#include "ir/graph/graph.h"

typedef struct op_def op_def;
typedef struct lowering lowering; // ir/kernel/lower.h

// One upgrade step, run at import for files whose operator version is below `since`, oldest step
// first: rewrites n, written in the meaning of the version before, into the meaning of `since`.
// It may add nodes before n (and after it, by giving n's outputs to new nodes).
typedef struct op_upgrade {
    int since;
    void (*apply)(node *n);
} op_upgrade;

struct op_def {
    const char *name;
    const char *domain; // "" for ai.onnx, "ai.onnx.ml", "com.microsoft", ...
    // Versions come from the generated table (ir/graph/schema.c). All of them are supported when the
    // newest is, given the upgrades.
    op_upgrade upgrades[8]; // ends with since = 0
    // Sets the types of all outputs (dims, and contents where known) from those of the inputs; reports
    // a mismatch with infer_error. NULL: the upgrade rewrites it away before inference.
    void (*infer)(node *n);
    // Adds kernels or steps to the program. NULL: not implemented (exit 2), unless `expand` is set.
    void (*lower)(lowering *l, node *n);
    // Rewrites n into other nodes of the graph after types are known (function operators); the new
    // nodes are inferred and expanded in turn.
    void (*expand)(node *n);
    // Before inference, when the types of n's inputs are known: builds n's outputs from other operators
    // (ir/ops/decompose.h); n itself is deleted afterwards. Ranks that it asks for must be known.
    void (*decompose)(node *n);
    // Before inference, when the types of n's inputs are known, and again after it: replaces n, which goes, or
    // one of its inputs by other nodes that come before it. False: it stays as it is.
    bool (*canonicalise)(node *n);
    // Whether output i lacks a rank, or a length, that is known where the node computes it (If: a branch).
    bool (*has_hidden_rank)(const node *n, int i);
    // Takes a later node of the same graph, which reads such an output, and what stands between them into
    // itself. False: it cannot. Inference goes on at n, or, where nothing more is known, at the node after
    // user.
    bool (*sink_into)(node *n, node *user);
    // Output 0 is a sequence of maps, one for each row of input 0; its columns belong to these keys. As the
    // model's output it is given as that table.
    const constant *(*map_keys)(const node *n);
    // Every output is a view of input 0's elements in the same order (Reshape, Squeeze, Identity ...).
    bool is_view;
    // Takes tensors whose rank is known only at run time, as handles (ir/kernel/lower.h); other operators
    // need inputs of known rank.
    bool takes_any_rank;
    bool has_side_effect_on_random; // random operators: never folded or merged
};

// Defines an operator of ai.onnx, or of another domain, with the given fields of op_def.
#define OPERATOR(op, ...) OPERATOR_OF("", op, __VA_ARGS__)
#define OPERATOR_OF(domain_name, op, ...)                                                                    \
    const op_def op_##op = {.name = #op, .domain = domain_name, __VA_ARGS__}

// The table that stands for v where v is a sequence of maps, and the keys of its columns; else NULL.
value *value_table(const value *v, const constant **labels);

// NULL when this build has none of that name.
const op_def *op_find(const char *domain, const char *name);
int op_count(void);
const op_def *op_at(int i); // in list order

// The generated table of the standard: for every operator, every version with its arities,
// attributes and type constraints (tools/schema.py makes it from onnx.defs).
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
// The version in force for that opset: the newest with since <= opset; NULL when none.
const schema_version *schema_for_opset(const schema_op *op, int opset);
int schema_newest_opset(const char *domain); // 0: unknown domain
// Gives n the attributes that v has defaults for and n lacks.
void node_fill_defaults(node *n, const schema_version *v);

// ---- For infer functions. All stop with a message that names the node.
_Noreturn void infer_error(const node *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Input i's type as tensor; error when missing.
const type *infer_in(const node *n, int i);
// Its rank; when unknown, leaves inference of this node with outputs of unknown rank (through infer_unknown).
int infer_rank(const node *n, int i);
bool infer_has_rank(const node *n, int i);
void infer_set(node *n, int out, dtype elem, int rank,
               dim *const *dims);                     // ignored when the output is not wanted
void infer_set_unknown(node *n, int out, dtype elem); // rank unknown
void infer_same(node *n, int out, int in);            // type of input `in`
// Normalised axis in [0, rank) (or [0, rank] when one_past), error otherwise.
int infer_axis(const node *n, int64_t axis, int rank);
// The numpy broadcast of all inputs first..last: fills dims, returns rank (RANK_UNKNOWN when one is unknown).
int infer_broadcast(const node *n, int first, int last, dim **dims);
// The same for one pair of sizes (axis for the message).
dim *infer_broadcast_dim(const node *n, dim *a, dim *b, int axis);
// Input i broadcasts to these sizes without stretching them.
void infer_broadcast_into(const node *n, int i, int rank, dim *const *dims, const char *what);
// a and b must be the same size: the better known one; error when surely different. When unknown, a run-time
// check is recorded (module requires it at lowering).
dim *infer_same_dim(const node *n, dim *a, dim *b, const char *what);
// Contents of an integer input as dims: NULL when not known. *n_out gets the count.
dim **infer_contents(const node *n, int i, int *count);
// The input's data when it is a constant, else NULL.
const constant *infer_constant(const node *n, int i);
// Gives output `out` known contents.
void infer_set_contents(node *n, int out, dim *const *contents, int count);
dims *infer_dims(const node *n);   // the dim table
arena *infer_arena(const node *n); // module's arena
dim *infer_k(const node *n, int64_t k);
// A fresh unknown size 0..hi (hi may be NULL) for a data-dependent output.
dim *infer_unknown_dim(const node *n, const char *stem, const dim *hi);
// The i-th of those that inference made for n, NULL when there are fewer.
dim *infer_made_dim(const node *n, int i);
// Infers one node / a region (types of g's inputs must be set).
void infer_node(node *n);
void infer_graph(graph *g);
void infer_from(graph *g, int place); // from node number `place` on
// diag_attempt for a step that infers nodes.
bool infer_attempt(const node *n, void (*step)(void *user), void *user, const diag_message **why);
const type *infer_declared(const value *v); // what the model says of v, even where inference knows better

// ---- For upgrades and expansions: new nodes beside n, with n's location.
// A node of operator `op` before n, with inputs in (nin of them) and one output, returned. op is named in its
// newest meaning: an operator of ai.onnx, or "DOMAIN:NAME".
value *insert_before(node *n, const char *op, int nin, value *const *in, node **made);
value *insert_ints(node *n, const int64_t *v, int count); // constant int64[count]
value *insert_scalar(node *n, dtype t, double v);         // constant rank 0
// After n: n's output i is replaced for all users by op(n's old output ...); returns the new node, whose
// input 0 is n's output i and whose other inputs are more_in[0..nin).
node *insert_after(node *n, int i, const char *op, int nin, value *const *more_in);
// n's output i is replaced for all users by v (v must not depend on it). Of a v made after n only the
// place stays, under n's output: v itself must not be used afterwards.
void replace_output(node *n, int i, value *v);
#endif
