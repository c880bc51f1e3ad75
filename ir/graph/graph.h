// The graph: SSA values and nodes in topological order, with regions that see outer values.
// After import every node has the meaning of the newest version of its operator.
#ifndef ONNXC_IR_GRAPH_GRAPH_H
#define ONNXC_IR_GRAPH_GRAPH_H
#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "ir/graph/dim.h"
#include "ir/graph/dtype.h"

typedef struct value value;
typedef struct node node;
typedef struct graph graph;
typedef struct module module;
typedef struct constant constant;
typedef struct attr attr;
struct op_def; // ir/graph/op.h

// RANK_ANY: of the items of a sequence that has none.
enum { MAX_RANK = 32, RANK_UNKNOWN = -1, RANK_ANY = -2 };

typedef enum type_kind {
    TYPE_NONE,
    TYPE_TENSOR,
    TYPE_SPARSE,
    TYPE_SEQUENCE,
    TYPE_OPTIONAL,
    TYPE_MAP
} type_kind;
typedef struct type {
    type_kind kind;
    dtype elem;        // tensor element; map: key type
    int rank;          // RANK_UNKNOWN when not known
    dim **dims;        // rank of them, none NULL
    struct type *item; // element of sequence, optional; value of map
} type;

// Tensor data known at compile time, in ONNX's raw layout: little-endian, sub-byte types packed.
// CONST_ROUNDED: weights in a narrower float type, rounded when they are read, so that no copy is held in memory. In
// programs only.
typedef enum constant_kind { CONST_BYTES, CONST_SPLAT, CONST_STRINGS, CONST_ROUNDED } constant_kind;
struct constant {
    constant_kind kind;
    dtype elem;
    int rank;
    int64_t *dims;
    int64_t count;        // product of dims
    const uint8_t *data;  // CONST_BYTES: dtype_size(elem, count) bytes, maybe in a mapped file (unaligned!)
    uint8_t splat[16];    // CONST_SPLAT: one element (sub-byte types in the low bits)
    const char **strings; // CONST_STRINGS: count of them
    size_t *string_sizes; // bytes each (strings may hold NULs)
    const struct constant *from; // CONST_ROUNDED: a CONST_BYTES with the same number of elements
};

// Who reads a value: input `index` of node, or (node NULL) output `index` of graph.
typedef struct use {
    node *node;
    graph *graph;
    int index;
} use;

struct value {
    int id;           // dense in the module
    const char *name; // unique in the module, never NULL
    const char *doc;
    type type;
    node *def;                // NULL: graph input, region input or constant
    int def_index;            // which output of def, or which input of graph
    graph *graph;             // where it is defined; NULL: its node was deleted
    constant *constant;       // known data, NULL otherwise
    const constant *fallback; // graph input: the default value when callers leave it out; NULL: they may not
    dim **contents;           // contents of a small integer/bool tensor as dims, row-major; NULL unknown
    int ncontents;
    VEC(use) uses; // maintained by the functions below: read only
};

typedef enum attr_kind {
    ATTR_NONE = 0, // ONNX AttributeProto.AttributeType codes
    ATTR_FLOAT = 1,
    ATTR_INT = 2,
    ATTR_STRING = 3,
    ATTR_TENSOR = 4,
    ATTR_GRAPH = 5,
    ATTR_FLOATS = 6,
    ATTR_INTS = 7,
    ATTR_STRINGS = 8,
    ATTR_TENSORS = 9,
    ATTR_GRAPHS = 10,
    ATTR_SPARSE_TENSOR = 11,
    ATTR_SPARSE_TENSORS = 12,
    ATTR_TYPE = 13,
    ATTR_TYPES = 14,
} attr_kind;
struct attr {
    const char *name;
    attr_kind kind;
    int n; // length of the list kinds
    union {
        float f;
        int64_t i;
        struct {
            const char *s;
            size_t size;
        };
        constant *tensor;
        graph *graph;
        float *floats;
        int64_t *ints;
        const char **strings;
        graph **graphs;
        type *type;
    };
};

struct node {
    int id; // dense in the module
    const struct op_def *op;
    loc *loc;
    const char *doc; // NULL: none
    bool given;      // by the model; types of other nodes may be wider than the standard's
    int nin, nout;
    value **in;  // NULL: omitted optional input; set by node_set_in only
    value **out; // NULL: optional output not wanted
    int nattrs;
    attr *attrs;    // only those given, plus defaults of the newest version; read with the functions below
    graph *graph;   // NULL: deleted
    int *use_at;    // in[i]->uses.at[use_at[i]] is this use
    int place_hint; // approximate index in graph->nodes: see node_place
};

struct graph {
    int id;
    const char *name;
    module *module;
    graph *outer; // NULL: main graph
    node *owner;  // the node whose region this is
    VEC(value *) inputs;
    VEC(value *) outputs;           // written by graph_add_output and graph_set_output only
    VEC(const char *) output_names; // names of the outputs as they were added: a model's interface
    VEC(node *) nodes;              // topological order
};

// Two sizes that must be equal and that inference could not compare: a check at run time.
typedef struct dim_check {
    dim *a, *b;
    const loc *at;
    const graph *in; // the graph of the node that needs it
    const char *what;
} dim_check;

// A symbol for which the checks of the model allow one size only.
typedef struct required_size {
    const char *symbol;
    int64_t size;
} required_size;

// An input or output that callers pass in its quantised form.
typedef struct io_scale {
    bool output;
    int index;
    float scale; // real = (stored - zero_point) * scale
    int zero_point;
} io_scale;

// An output of strings that callers receive as indices into a list.
typedef struct io_index {
    int output;
    const constant *labels;
} io_index;

// An input of a stream, and the number of its samples that a step takes (passes/stream).
typedef struct stream_input {
    value *input;
    int axis;
    int64_t samples, exported; // exported: the size of the axis in the model; 0: it is symbolic
} stream_input;

// An output of a stream, and the number of its samples that a step gives.
typedef struct stream_output {
    int index, axis;
    int64_t samples, delay; // delay: how many samples it comes later than the output of the original model
} stream_output;

// An output that is the input of the next run, in its memory.
typedef struct io_state {
    const char *output, *input;
} io_state;

struct module {
    arena *arena;
    diag *diag;
    dims *dims;
    graph *main;
    const char *file; // for messages
    const char *name; // graph name of the model
    const char *producer, *producer_name, *producer_version, *domain, *doc, *graph_doc;
    int64_t model_version;
    int ir_version;
    map opsets;                 // domain -> newest version that the model and its functions import
    VEC(value *) values;        // by id
    VEC(node *) nodes;          // by id (deleted nodes stay, unlinked)
    VEC(const char *) metadata; // key, value, key, value ...
    map names;                  // of values, to keep them unique
    map suffixes;               // of names, to make them unique
    int ngraphs;
    VEC(dim_check) checks;
    VEC(required_size) required; // set by a pass
    VEC(io_scale) scales;
    VEC(io_index) indices;
    VEC(stream_input) streams;
    bool is_step;                      // the graph computes one step of the stream; set by the pass
    VEC(stream_output) stream_outputs; // set by the pass
    int64_t stream_capacity; // samples of the signal that attention to all earlier ones sees; 0: not given
    bool rings;              // of streams: long pasts are states of twice their size that do not move
    bool own_operators;   // nodes may be of onnxc's own operators, which a graph for other tools cannot have
    int64_t stream_delay; // how many samples outputs of a stream may come later than in the original model
    VEC(io_state) states; // made by passes
    int nchwc_block;      // channels in a block of com.microsoft.nchwc (--nchwc-block); 0: not given
    int vector_bits;      // of the target, 0: none or not known; for operators with several lowerings
    bool on_cpu;          // kernels certainly run where library functions do
    struct infer_state *infer; // private to ir/graph/infer.c
};

module *module_new(arena *a, diag *d, const char *file);
graph *graph_new(module *m, graph *outer, const char *name);
bool graph_sees(const graph *g, const graph *scope); // g is scope, or inside of it
// The name is made unique with a suffix if it is taken; NULL makes one up.
value *value_new(graph *g, const char *name);
value *graph_add_input(graph *g, const char *name, type t);
void graph_drop_input(graph *g, int i); // it must have no users
void graph_add_output(graph *g, value *v);
void graph_set_output(graph *g, int i, value *v); // the output keeps its name
void graph_set_noutputs(graph *g, int n);         // drops outputs at the end
// A constant of g; its data are not copied.
value *value_constant(graph *g, const char *name, constant *c);
value *value_int64s(graph *g, const char *name, const int64_t *v, int rank1_count); // rank-1 int64 tensor
value *value_int64(graph *g, int64_t v);                                            // rank-0
value *value_number(graph *g, const char *name, dtype t, double v);                 // rank-0
constant *constant_new(arena *a, dtype elem, int rank, const int64_t *dims); // CONST_BYTES, data zeroed
constant *constant_splat(arena *a, dtype elem, int rank, const int64_t *dims, const void *element);
// Whether `as` represents all of its elements.
bool constant_fits(const constant *c, dtype as);
// c with elements rounded to a float type of whole bytes.
const constant *constant_rounded(arena *a, const constant *c, dtype as);
// Element i of any numeric constant (splat too).
double constant_float(const constant *c, int64_t i);
bool constant_is_finite(const constant *c); // without infinities and NaN; of real numbers
int64_t constant_int(const constant *c, int64_t i);
void constant_copy(const constant *c, int64_t i, dtype to_type, void *to,
                   int64_t at);                              // to[at] = c[i], converted
int compare_places(const constant *c, int64_t x, int64_t y); // < 0, 0, > 0: c[x] against c[y]
// Sorts keys ascending (NaN last) and drops duplicates: order[i] is the index of the i-th key in c, of equal
// ones the last; returns their number.
int64_t sort_keys(const constant *c, int64_t *order);
// The elements of c at these indices, as a tensor of rank 1.
constant *pick_constant(arena *a, const constant *c, const int64_t *places, int64_t count);

// A node at the end of g, or before `before` (NULL: end). Outputs are made by node_output.
node *node_new(graph *g, node *before, const struct op_def *op, const loc *at, int nin, value *const *in);
// Sets input i (NULL: none); past the end, the inputs in between are omitted.
void node_set_in(node *n, int i, value *v);
void node_set_nin(node *n, int nin); // drops inputs at the end, or adds omitted ones
// Adds (i = nout) or replaces output i with a new value.
value *node_output(node *n, int i, const char *name);
void node_set_attr(node *n, attr a); // replaces one of the same name
void node_remove_attr(node *n, const char *name);
void node_delete(node *n); // its outputs must have no users; its regions go with it
// Moves n to g (of the same module, perhaps n's own graph) before `before` (NULL: to the end).
void node_move(node *n, graph *g, node *before);
// Moves output i of `from`, with its users, to the end of n's outputs.
void node_adopt_output(node *n, node *from, int i);
void node_drop_output(node *n, int i); // it must have no users
// A copy of n, with its regions, at the end of g, where everything that n reads must be visible. `as` maps
// ids of values to their replacements; the new outputs are added to it. They have the types of n's outputs
// without sizes.
node *node_copy(const node *n, graph *g, map *as);
// A copy of region g to take its place, with the same names and the types that the model declares.
typedef struct region_copy {
    graph *graph;
    int first, end; // ids of its values
} region_copy;
region_copy region_copied(graph *g);
void region_take_names(const region_copy *copy); // once the original is gone
// Calls fn for each value that n or its regions read, values of the regions included.
void node_reads(const node *n, void (*fn)(void *user, value *v), void *user);
// Moves all nodes and constants of region g to graph `to`, before `before` (NULL: to its end). The region's
// inputs must have no users left; its outputs stay listed.
void graph_inline(graph *g, graph *to, node *before);
int node_place(const node *n);                      // index in n->graph->nodes
node *node_next(const node *n);                     // NULL: n is the last
void value_replace(value *old, value *replacement); // in all nodes, regions and outputs of the module
int value_uses(const value *v);                     // counts node inputs (also in regions) and graph outputs

// The i-th graph of an attribute, or of all attributes of a node; NULL: there are fewer.
graph *attr_graph(const attr *a, int i);
graph *node_region(const node *n, int i);

// Attributes. `node_attr` is NULL when absent; the typed getters return the fallback when absent, and a wrong
// kind is a fatal error.
const attr *node_attr(const node *n, const char *name);
int64_t node_int(const node *n, const char *name, int64_t fallback);
double node_float(const node *n, const char *name, double fallback);
const char *node_string(const node *n, const char *name, const char *fallback);
// Index of the attribute among the words, which spaces separate; 0 when absent; another value is a fatal
// error.
int node_choice(const node *n, const char *name, const char *words);
bool node_flag(const node *n, const char *name, bool fallback); // an int; other than 0 or 1: a fatal error
const int64_t *node_ints(const node *n, const char *name, int *count); // NULL and 0 when absent
graph *node_graph(const node *n, const char *name);                    // NULL when absent
static inline value *node_in(const node *n, int i) { return i < n->nin ? n->in[i] : NULL; }
static inline value *node_out(const node *n, int i) { return i < n->nout ? n->out[i] : NULL; }

type type_tensor(arena *a, dtype elem, int rank, dim *const *dims);
type type_tensor_const(dims *t, arena *a, dtype elem, int rank, const int64_t *dims);
const char *type_kind_name(type_kind k); // "tensor"
bool type_equal(const type *a, const type *b);
const char *type_text(arena *a, const type *t); // "float[N, 3, 224]"; "float[...]" when rank is unknown

// Checks all invariants; a violation is a defect of onnxc.
void graph_verify(module *m);
// Text of the module; graph_parse reads it back to the same text.
const char *graph_print(arena *a, const module *m);
// The same text without the data of constants, which `see` gets in the order of the text.
const char *graph_outline(arena *a, const module *m, void (*see)(void *user, const void *data, size_t size),
                          void *user);
module *graph_parse(arena *a, diag *d, const char *file, const char *text);
#endif
