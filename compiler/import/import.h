// Import: in, an ONNX model; out, a module in which every node has the meaning of its operator's newest
// version and local functions are inlined. Values have the types the model declares; inference comes next.
#ifndef ONNXC_COMPILER_IMPORT_IMPORT_H
#define ONNXC_COMPILER_IMPORT_IMPORT_H
#include "ir/graph/graph.h"

typedef VEC(const char *) file_list;

// An input of the model that an initializer gives a default value (IR version 4 and later).
typedef enum default_use {
    DEFAULT_IS_CONSTANT, // callers cannot give another
    DEFAULT_IS_OPTIONAL, // an input that has this value when callers give none
    DEFAULT_IS_DROPPED,  // an input like others
} default_use;
typedef struct model_input {
    const char *name;
    int index, ninputs, nplain; // nplain: how many have no default value
    bool has_default, overridable;
} model_input;

typedef struct import_options {
    const char *external_data_dir; // one more folder for external tensor data, NULL: none
    file_list *files;              // gets the path of every file read, NULL: not wanted
    default_use (*input)(void *user, const model_input *i); // of every input; NULL: defaults are constants
    void *user;
    int64_t max_file;     // bytes of the model file (0: 2^40)
    int64_t max_external; // bytes of one external data file (0: 2^42)
    int64_t max_dense;    // bytes of one sparse tensor made dense (0: 2^30)
    int max_nodes;        // nodes after inlining (0: 500,000)
} import_options;

// A model is binary protobuf, protobuf's text or JSON format, or ONNX's text syntax.
// Both leave through d on errors. Constants point into the mapped file or the given bytes, which must live
// as long as a; the mapping does. A path of "-" is standard input.
module *import_onnx_file(arena *a, diag *d, const char *path, const import_options *options);
// name stands for the file in messages. folder is where external data lies, NULL: there must be none.
module *import_onnx_memory(arena *a, diag *d, const char *name, const char *folder, const void *data,
                           size_t size, const import_options *options);

// A file that holds one value (TensorProto, SequenceProto, OptionalProto, as in ONNX's test data).
typedef struct import_value {
    type_kind kind;
    const char *name; // "" when the file gives none
    constant *tensor; // TYPE_TENSOR (sparse ones are made dense); of a sequence of maps that is a table: that
    int n;            // TYPE_SEQUENCE, TYPE_MAP: items; TYPE_OPTIONAL: 0 or 1
    struct import_value *items; // n of them; map: the values
    constant *keys;             // TYPE_MAP: rank 1, int or string
} import_value;
import_value *import_value_file(arena *a, diag *d, const char *path, type_kind kind);
#endif
