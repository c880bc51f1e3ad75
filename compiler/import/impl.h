// What the files of the import share: the import under way and its parts.
#ifndef ONNXC_COMPILER_IMPORT_IMPL_H
#define ONNXC_COMPILER_IMPORT_IMPL_H
#include "compiler/import/file.h"
#include "compiler/import/wire.h"
#include "ir/graph/op.h"
#include "proto/onnx.pb-c.h"
#include <string.h>

typedef struct importer {
    arena *arena;
    diag *diag;
    import_options options; // limits filled in
    const uint8_t *data;    // the model file
    size_t size;
    const char *folders[3]; // where external data may lie
    map external;           // location -> mapped
    module *module;
    const Onnx__ModelProto *model;
    map functions; // domain, name and overload -> FunctionProto
    map ops;       // "domain:name" -> op_def, those looked up so far
    map missing;   // operators that this build lacks
    map defaults;  // name -> constant: inputs' default values that callers may replace
    map dropped;   // those of them that are inputs like others
    map reserved;  // names of the main graph's values: nothing else may take them
    value *absent; // stands for a function input that a call leaves out
    int nodes;     // made so far
    int calls;     // of functions, inlined so far
    int depth;     // of regions and calls
} importer;

importer importer_new(arena *a, diag *d, const import_options *options);

// ---- tensor.c. All name the tensor in messages; `at` is the node it belongs to, or NULL.
constant *import_tensor(importer *im, const loc *at, const Onnx__TensorProto *t);
constant *import_sparse_tensor(importer *im, const loc *at, const Onnx__SparseTensorProto *t);

// ---- type.c. name is the value's.
type import_type(importer *im, const loc *at, const char *name, const Onnx__TypeProto *t);

// ---- graph.c: names, graphs and calls of local functions
// The model itself, or one call of a local function.
typedef struct body {
    const struct body *caller;           // NULL for the model
    const Onnx__FunctionProto *function; // the rest is for calls only
    const Onnx__NodeProto *call;
    struct scope *call_scope; // where the call stands
    const loc *via;           // location of the call
    const char *name;         // of the function, as messages show it
    Onnx__OperatorSetIdProto **opsets;
    size_t nopsets;
} body;

// The names of one graph or function body.
typedef struct scope {
    struct scope *outer; // whose names are seen too; NULL for the main graph and for function bodies
    const body *body;
    graph *graph;
    const char *name;
    map values;   // name -> value; im->absent for a function input that the call leaves out
    map declared; // name -> ValueInfoProto
    map made_by;  // name -> NodeProto of this graph
} scope;

graph *import_region(importer *im, scope *outer, const loc *at, const Onnx__GraphProto *g);
void import_main(importer *im);
// The value of that name; NULL for "" and for inputs left out. What is defined nowhere or only later is an
// error at `at`, after which NULL comes back too.
value *find_value(importer *im, const scope *s, const loc *at, const char *name);
// Makes name stand for v in s; an error when it already stands for something.
void bind_value(importer *im, scope *s, const loc *at, const char *name, value *v);
// How the value that s calls `name` shall be called in the module, and what the model says of it (or NULL).
const char *module_name(importer *im, const scope *s, const char *name, const Onnx__ValueInfoProto **info);

// ---- node.c: operators, their versions and attributes
void import_node(importer *im, scope *s, loc *at, const Onnx__NodeProto *n);
// Version of the operator set of that domain, 0 when it is not imported.
int64_t opset_version(const body *b, const char *domain);
// Reports the operators that this build lacks.
void report_missing(importer *im);

static inline const char *text_or_empty(const char *s) { return s ? s : ""; }
// "" and "ai.onnx" are the same domain.
static inline const char *domain_of(const char *s) { return !s || strcmp(s, "ai.onnx") == 0 ? "" : s; }
#endif
