// Imports an ONNX model as a module: every node is upgraded to the newest version of its operator, and local
// functions are inlined. Types are those declared in the model; inference comes next.
#ifndef ONNXC_COMPILER_IMPORT_IMPORT_H
#define ONNXC_COMPILER_IMPORT_IMPORT_H
#include "ir/graph/graph.h"

typedef VEC(const char *) file_list;

// An input with an initializer as default value (IR version 4 and later).
typedef enum default_use {
    DEFAULT_IS_CONSTANT, // callers cannot replace it
    DEFAULT_IS_OPTIONAL, // an input that callers may omit
    DEFAULT_IS_DROPPED,  // a required input
} default_use;
typedef struct model_input {
    const char *name;
    int index, ninputs, nplain; // nplain: inputs without default
    bool has_default, overridable;
} model_input;

// A node of the model as the file has it, or a call of one of the model's functions, for import_options.node.
typedef struct model_node {
    bool done; // it was imported; else: it is about to be, and only the first line below is set
    bool call; // of a function, whose nodes follow until it is done
    graph *graph;
    const loc *loc;
    const char *domain, *op;
    int nin, nout, nattrs;
    value *const *in, *const *out; // NULL: omitted
    const attr *attrs;             // those in the file; none for calls
} model_node;

struct op_def;
typedef struct import_options {
    const char *external_data_dir; // one more folder for external tensor data, NULL: none
    file_list *files;              // receives the path of every file read; NULL: not needed
    default_use (*input)(void *user, const model_input *i); // for every input; NULL: defaults are constants
    // Called before and after every node, in the order of a run; it may add nodes to its graph. NULL: not needed.
    void (*node)(void *user, const model_node *n);
    void *user;
    const struct op_def *const *custom; // operators of the user's; ends with NULL; NULL: none
    int64_t max_file;                   // bytes of the model file (0: 2^40)
    int64_t max_external;               // bytes of one external data file (0: 2^42)
    int64_t max_dense;                  // bytes of one sparse tensor made dense (0: 2^30)
    int max_nodes;                      // nodes after inlining (0: 500,000)
} import_options;

// A model is binary protobuf, protobuf's text or JSON format, or ONNX's text syntax.
// Errors leave through d. Constants point into the mapped file, which lives as long as a, or into the given
// bytes, which must. "-" is standard input.
module *import_onnx_file(arena *a, diag *d, const char *path, const import_options *options);
// name: of the file, in messages. folder: of external data; NULL: there must be none.
module *import_onnx_memory(arena *a, diag *d, const char *name, const char *folder, const void *data,
                           size_t size, const import_options *options);

// A file with one value (TensorProto, SequenceProto, OptionalProto, as in ONNX's test data).
typedef struct import_value {
    type_kind kind;
    const char *name; // "" if the file has none
    constant *tensor; // TYPE_TENSOR (sparse ones made dense); also a sequence of maps that forms a table
    int n;            // TYPE_SEQUENCE, TYPE_MAP: items; TYPE_OPTIONAL: 0 or 1
    struct import_value *items; // n of them; map: the values
    constant *keys;             // TYPE_MAP: rank 1, int or string
} import_value;
import_value *import_value_file(arena *a, diag *d, const char *path, type_kind kind);
#endif
