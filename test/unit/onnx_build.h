// Models for tests: in, a few lines of text; out, the bytes of an ONNX file. One statement per line:
//   ir N                     opset DOMAIN N (- for the default domain)
//   in|out|vi NAME [TYPE [DIM ...]]         without TYPE untyped, DIM * stands for no shape
//   init NAME TYPE DIM ... = FIELD VALUE ...  FIELD: raw (a number of zero bytes), float, int32, int64,
//                                             uint64, double, string, segment, ext (key=value ...); a
//                                             second field follows +
//   sparse NAME TYPE DIM ... = COUNT IWIDTH INDEX ...  COUNT zeros; IWIDTH numbers to an index, 0: linear
//   OUT ... = OP IN ... [ATTR ...]          _ is the empty name; OP is [domain:]name[/node-name]
//   ATTR is @name=KIND,VALUE with KIND i f s I F S, r (reference, VALUE is the attribute's name) or g
//   sub ... endsub            lines of the graph that the next node's g attribute takes
//   func DOMAIN NAME IN ... -> OUT ... [@attr ...] ... endfunc    its lines are opset and node
#ifndef ONNXC_TEST_ONNX_BUILD_H
#define ONNXC_TEST_ONNX_BUILD_H
#include "compiler/base/arena.h"
#include "ir/graph/dtype.h"
#include "proto/onnx.pb-c.h"
#include <stdlib.h>
#include <string.h>

typedef struct builder {
    arena *arena;
    Onnx__ModelProto model;
    Onnx__GraphProto *graph; // lines go here
    Onnx__GraphProto *outer[8];
    int depth;
    Onnx__GraphProto *sub; // finished, for the next g attribute
    Onnx__FunctionProto *function;
    bool no_opset, sparse;
    char *rest; // of the line
} builder;

// One more element of a protobuf-c list.
#define ADD(b, list, n, item)                                                                                \
    ((list) = arena_grow((b)->arena, (list), (n) * sizeof *(list), ((n) + 1) * sizeof *(list)),              \
     (list)[(n)++] = (item))

static char *word(builder *b) { return strtok_r(NULL, " ", &b->rest); }

static char *name_word(builder *b) {
    char *w = word(b);
    return w && strcmp(w, "_") == 0 ? "" : w;
}

#define NEW(b, type, init, at)                                                                               \
    type *at = ARENA_NEW((b)->arena, type);                                                                  \
    init(at)

static int type_code(const char *name) {
    dtype t = dtype_from_name(name);
    return t != DT_NONE ? (int)t : atoi(name);
}

static void build_dims(builder *b, Onnx__TypeProto__Tensor *t) {
    char *w = word(b);
    if (w && strcmp(w, "*") == 0) return;
    NEW(b, Onnx__TensorShapeProto, onnx__tensor_shape_proto__init, shape);
    t->shape = shape;
    for (; w; w = word(b)) {
        NEW(b, Onnx__TensorShapeProto__Dimension, onnx__tensor_shape_proto__dimension__init, d);
        if (strchr("-0123456789", *w)) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = atoll(w);
        } else if (strcmp(w, "?") != 0) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = w;
        }
        ADD(b, shape->dim, shape->n_dim, d);
    }
}

static Onnx__ValueInfoProto *build_value_info(builder *b) {
    NEW(b, Onnx__ValueInfoProto, onnx__value_info_proto__init, v);
    v->name = name_word(b);
    char *kind = word(b);
    if (!kind) return v;
    NEW(b, Onnx__TypeProto, onnx__type_proto__init, t);
    NEW(b, Onnx__TypeProto__Tensor, onnx__type_proto__tensor__init, tensor);
    tensor->has_elem_type = 1;
    tensor->elem_type = type_code(kind);
    t->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    t->tensor_type = tensor;
    v->type = t;
    build_dims(b, tensor);
    return v;
}

static void build_data(builder *b, Onnx__TensorProto *t, const char *field) {
    for (char *w = word(b); w; w = word(b)) {
        if (strcmp(w, "+") == 0) field = word(b);
        else if (strcmp(field, "segment") == 0) {
            t->segment = ARENA_NEW(b->arena, Onnx__TensorProto__Segment);
            onnx__tensor_proto__segment__init(t->segment);
        } else if (strcmp(field, "raw") == 0) {
            t->has_raw_data = 1;
            t->raw_data.len = (size_t)atoll(w);
            t->raw_data.data = arena_alloc(b->arena, t->raw_data.len + 1);
        } else if (strcmp(field, "float") == 0) ADD(b, t->float_data, t->n_float_data, (float)atof(w));
        else if (strcmp(field, "double") == 0) ADD(b, t->double_data, t->n_double_data, atof(w));
        else if (strcmp(field, "int32") == 0) ADD(b, t->int32_data, t->n_int32_data, (int32_t)atoll(w));
        else if (strcmp(field, "int64") == 0) ADD(b, t->int64_data, t->n_int64_data, atoll(w));
        else if (strcmp(field, "uint64") == 0) ADD(b, t->uint64_data, t->n_uint64_data, strtoull(w, NULL, 0));
        else if (strcmp(field, "string") == 0)
            ADD(b, t->string_data, t->n_string_data, ((ProtobufCBinaryData){strlen(w), (uint8_t *)w}));
        else {
            NEW(b, Onnx__StringStringEntryProto, onnx__string_string_entry_proto__init, e);
            char *equal = strchr(w, '=');
            *equal = 0;
            e->key = w;
            e->value = equal + 1;
            t->has_data_location = 1;
            t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
            ADD(b, t->external_data, t->n_external_data, e);
        }
    }
}

static Onnx__TensorProto *build_tensor(builder *b) {
    NEW(b, Onnx__TensorProto, onnx__tensor_proto__init, t);
    t->name = name_word(b);
    t->has_data_type = 1;
    t->data_type = type_code(word(b));
    char *w = word(b);
    for (; w && strcmp(w, "=") != 0; w = word(b)) ADD(b, t->dims, t->n_dims, atoll(w));
    if (w && !b->sparse && (w = word(b))) build_data(b, t, w);
    return t;
}

static Onnx__SparseTensorProto *build_sparse(builder *b) {
    NEW(b, Onnx__SparseTensorProto, onnx__sparse_tensor_proto__init, s);
    NEW(b, Onnx__TensorProto, onnx__tensor_proto__init, indices);
    b->sparse = true;
    s->values = build_tensor(b);
    b->sparse = false;
    s->dims = s->values->dims, s->n_dims = s->values->n_dims;
    s->values->dims = NULL, s->values->n_dims = 0;
    int64_t count = atoll(word(b)), width = atoll(word(b));
    ADD(b, s->values->dims, s->values->n_dims, count);
    s->values->has_raw_data = 1;
    s->values->raw_data.len = (size_t)dtype_size((dtype)s->values->data_type, count);
    s->values->raw_data.data = arena_alloc(b->arena, s->values->raw_data.len + 1);
    memset(s->values->raw_data.data, 1, s->values->raw_data.len);
    s->indices = indices;
    indices->has_data_type = 1, indices->data_type = DT_I64;
    for (char *w = word(b); w; w = word(b)) ADD(b, indices->int64_data, indices->n_int64_data, atoll(w));
    ADD(b, indices->dims, indices->n_dims, (int64_t)indices->n_int64_data / (width ? width : 1));
    if (width) ADD(b, indices->dims, indices->n_dims, width);
    return s;
}

static void build_list(builder *b, Onnx__AttributeProto *a, char kind, char *values) {
    char *rest;
    for (char *w = strtok_r(values, ",", &rest); w; w = strtok_r(NULL, ",", &rest)) {
        if (kind == 'I') ADD(b, a->ints, a->n_ints, atoll(w));
        else if (kind == 'F') ADD(b, a->floats, a->n_floats, (float)atof(w));
        else ADD(b, a->strings, a->n_strings, ((ProtobufCBinaryData){strlen(w), (uint8_t *)w}));
    }
}

static Onnx__AttributeProto *build_attr(builder *b, char *w) {
    static const char kinds[] = "?fistgFIS";
    NEW(b, Onnx__AttributeProto, onnx__attribute_proto__init, a);
    char *equal = strchr(w, '='), *value = equal + 3;
    char kind = equal[1];
    *equal = 0;
    a->name = w;
    a->has_type = kind != 'r';
    if (kind != 'r') a->type = (Onnx__AttributeProto__AttributeType)(strchr(kinds, kind) - kinds);
    switch (kind) {
    case 'i': a->has_i = 1, a->i = atoll(value); break;
    case 'f': a->has_f = 1, a->f = (float)atof(value); break;
    case 's': a->has_s = 1, a->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)value}; break;
    case 'r': a->ref_attr_name = value; break;
    case 'g': a->g = b->sub; break;
    default: build_list(b, a, kind, value);
    }
    return a;
}

static Onnx__NodeProto *build_node(builder *b, char *first) {
    NEW(b, Onnx__NodeProto, onnx__node_proto__init, n);
    char *w = strcmp(first, "_") == 0 ? "" : first;
    for (; w && strcmp(w, "=") != 0; w = name_word(b)) ADD(b, n->output, n->n_output, w);
    char *op = word(b), *colon = strchr(op, ':'), *slash = strchr(op, '/');
    if (slash) *slash = 0, n->name = slash + 1;
    if (colon) *colon = 0, n->domain = op;
    n->op_type = colon ? colon + 1 : op;
    while ((w = name_word(b))) {
        if (*w == '@') ADD(b, n->attribute, n->n_attribute, build_attr(b, w + 1));
        else ADD(b, n->input, n->n_input, w);
    }
    return n;
}

static void build_function(builder *b) {
    NEW(b, Onnx__FunctionProto, onnx__function_proto__init, f);
    f->domain = word(b);
    f->name = word(b);
    char *w;
    while ((w = word(b)) && strcmp(w, "->") != 0) ADD(b, f->input, f->n_input, w);
    while ((w = word(b))) {
        if (*w != '@') ADD(b, f->output, f->n_output, w);
        else if (strchr(w, '=')) ADD(b, f->attribute_proto, f->n_attribute_proto, build_attr(b, w + 1));
        else ADD(b, f->attribute, f->n_attribute, w + 1);
    }
    ADD(b, b->model.functions, b->model.n_functions, f);
    b->function = f;
}

static void build_opset(builder *b) {
    NEW(b, Onnx__OperatorSetIdProto, onnx__operator_set_id_proto__init, o);
    char *domain = word(b);
    o->domain = strcmp(domain, "-") == 0 ? "" : domain;
    o->has_version = 1;
    o->version = atoll(word(b));
    if (b->function) ADD(b, b->function->opset_import, b->function->n_opset_import, o);
    else ADD(b, b->model.opset_import, b->model.n_opset_import, o);
}

static void build_line(builder *b, char *line) {
    char *what = strtok_r(line, " ", &b->rest);
    Onnx__GraphProto *g = b->graph;
    if (!what) return;
    if (strcmp(what, "ir") == 0) b->model.has_ir_version = 1, b->model.ir_version = atoll(word(b));
    else if (strcmp(what, "opset") == 0) build_opset(b);
    else if (strcmp(what, "noopset") == 0) b->no_opset = true;
    else if (strcmp(what, "sparse") == 0)
        ADD(b, g->sparse_initializer, g->n_sparse_initializer, build_sparse(b));
    else if (strcmp(what, "in") == 0) ADD(b, g->input, g->n_input, build_value_info(b));
    else if (strcmp(what, "out") == 0) ADD(b, g->output, g->n_output, build_value_info(b));
    else if (strcmp(what, "vi") == 0) ADD(b, g->value_info, g->n_value_info, build_value_info(b));
    else if (strcmp(what, "init") == 0) ADD(b, g->initializer, g->n_initializer, build_tensor(b));
    else if (strcmp(what, "func") == 0) build_function(b);
    else if (strcmp(what, "endfunc") == 0) b->function = NULL;
    else if (strcmp(what, "sub") == 0) {
        NEW(b, Onnx__GraphProto, onnx__graph_proto__init, inner);
        inner->name = "sub";
        b->outer[b->depth++] = b->graph;
        b->graph = inner;
    } else if (strcmp(what, "endsub") == 0) {
        b->sub = b->graph;
        b->graph = b->outer[--b->depth];
    } else if (b->function) ADD(b, b->function->node, b->function->n_node, build_node(b, what));
    else ADD(b, g->node, g->n_node, build_node(b, what));
}

// Without an "ir" line the IR version is 8, without "opset" and "noopset" lines of the model it is opset 17.
static uint8_t *build_model(arena *a, const char *text, size_t *size) {
    builder b = {.arena = a};
    onnx__model_proto__init(&b.model);
    b.model.has_ir_version = 1;
    b.model.ir_version = 8;
    b.graph = ARENA_NEW(a, Onnx__GraphProto);
    onnx__graph_proto__init(b.graph);
    b.graph->name = "g";
    b.model.graph = b.graph;
    char *rest, *lines = arena_strdup(a, text);
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        build_line(&b, line);
    if (!b.model.n_opset_import && !b.no_opset) build_line(&b, arena_strdup(a, "opset - 17"));
    uint8_t *bytes = arena_alloc(a, onnx__model_proto__get_packed_size(&b.model) + 1);
    *size = onnx__model_proto__pack(&b.model, bytes);
    return bytes;
}
#endif
