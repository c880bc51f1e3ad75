// Shared by the files of the import: its state and parts.
#ifndef ONNXC_COMPILER_IMPORT_IMPL_H
#define ONNXC_COMPILER_IMPORT_IMPL_H
#include "compiler/import/file.h"
#include "compiler/import/wire.h"
#include "ir/graph/op.h"
#include "proto/onnx.pb-c.h"
#include <string.h>

enum { DEPTH_MOST = 200 }; // of regions and calls

typedef struct importer {
    arena *arena;
    diag *diag;
    import_options options; // limits filled in
    const uint8_t *data;    // the model file
    size_t size;
    const char *folders[3]; // of external data
    map external;           // location -> mapped
    module *module;
    const Onnx__ModelProto *model;
    map functions; // domain, name and overload -> FunctionProto
    map ops;       // "domain:name" -> op_def; filled on demand
    map missing;   // operators missing in this build
    map defaults;  // name -> constant: defaults of optional inputs
    map dropped;   // of these, required inputs
    map reserved;  // names of the main graph, which no other value may have
    value *absent; // an omitted function input
    int nodes;     // number so far
    int calls;     // inlined so far
    int depth;     // of regions and calls
} importer;

importer importer_new(arena *a, diag *d, const import_options *options);

// ---- tensor.c. Messages name the tensor; `at` is its node, or NULL.
constant *import_tensor(importer *im, const loc *at, const Onnx__TensorProto *t);
constant *import_sparse_tensor(importer *im, const loc *at, const Onnx__SparseTensorProto *t);

// ---- type.c. name: of the value
type import_type(importer *im, const loc *at, const char *name, const Onnx__TypeProto *t);

// ---- graph.c: names, graphs and calls of local functions
// The model itself, or one call of a local function.
typedef struct body {
    const struct body *caller;           // NULL for the model
    const Onnx__FunctionProto *function; // for calls only, like the rest
    const Onnx__NodeProto *call;
    struct scope *call_scope; // of the caller
    const loc *via;           // location of the call
    const char *name;         // of the function, for messages
    Onnx__OperatorSetIdProto **opsets;
    size_t nopsets;
} body;

// The names of one graph or function body.
typedef struct scope {
    struct scope *outer; // visible too; NULL for the main graph and for function bodies
    const body *body;
    graph *graph;
    const char *name;
    map values;   // name -> value; im->absent: an omitted function input
    map declared; // name -> ValueInfoProto
    map made_by;  // name -> its place in the list of this graph's NodeProtos
} scope;

graph *import_region(importer *im, scope *outer, const loc *at, const Onnx__GraphProto *g);
void import_main(importer *im);
// The value of that name; NULL for "" and for omitted inputs. A name not defined, or only later, is an error
// at `at`, and the result NULL.
value *find_value(importer *im, const scope *s, const loc *at, const char *name);
// Binds name to v in s; an error if it is already bound.
void bind_value(importer *im, scope *s, const loc *at, const char *name, value *v);
// The name in the module for the value `name` of s, and its declaration (or NULL).
const char *module_name(importer *im, const scope *s, const char *name, const Onnx__ValueInfoProto **info);

// ---- node.c: operators, their versions and attributes
void import_node(importer *im, scope *s, loc *at, const Onnx__NodeProto *n);
// Calls import_options.node for n, which belongs to s.
void announce_node(importer *im, const scope *s, const Onnx__NodeProto *n, model_node *seen);
// Reports operators missing in this build.
void report_missing(importer *im);

static inline const char *text_or_empty(const char *s) { return s ? s : ""; }
// Domains with several names: "" and "ai.onnx", and those that older versions of QONNX's operators were written in.
const char *domain_of(const char *s);
#endif
