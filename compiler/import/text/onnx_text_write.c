// ONNX's text syntax. In: the bytes of a ModelProto of onnxc's own, without functions and external data. Out: text
// that onnx.parser and onnx_text.c read. The grammar is at the head of onnx_text.c.
#include "compiler/import/text/text_write.h"
#include "ir/graph/dtype.h"
#include "proto/onnx.pb-c.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct writer {
    text out;
    diag *diag;
    const char *node; // for messages
} writer;

static void add(writer *w, const char *s) { text_add(&w->out, s); }

static void add_quoted(writer *w, const char *s, size_t n) {
    add(w, "\"");
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '"' || s[i] == '\\') add(w, "\\");
        text_addn(&w->out, s + i, 1);
    }
    add(w, "\"");
}

static void add_name(writer *w, const char *s) {
    bool plain = s && (isalpha((unsigned char)*s) || *s == '_');
    for (const char *c = s; plain && *c; c++) plain = isalnum((unsigned char)*c) || *c == '_';
    const ProtobufCEnumDescriptor *types = &onnx__tensor_proto__data_type__descriptor;
    for (unsigned i = 0; plain && i < types->n_values; i++) plain = strcasecmp(types->values[i].name, s) != 0;
    static const char *const words[] = {"seq", "optional", "map", "sparse_tensor", "opaque"};
    for (size_t i = 0; plain && i < sizeof words / sizeof *words; i++) plain = strcmp(words[i], s) != 0;
    if (plain) add(w, s);
    else add_quoted(w, s ? s : "", s ? strlen(s) : 0);
}

static void add_real(writer *w, double v, bool single) {
    char s[REAL_SIZE];
    if (isnan(v)) add(w, "nan");
    else if (isinf(v)) add(w, v < 0 ? "-inf" : "inf");
    else if (v == 0 && signbit(v)) add(w, "-0.0"); // -0 is an integer
    else real_text(s, v, single), add(w, s);
}

// ---------------------------------------------------------------- types
static void add_element_type(writer *w, int elem) {
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(&onnx__tensor_proto__data_type__descriptor, elem);
    for (const char *c = v ? v->name : "undefined"; *c; c++) {
        char low = (char)tolower((unsigned char)*c);
        text_addn(&w->out, &low, 1);
    }
}

static void add_shape(writer *w, const Onnx__TensorShapeProto *shape) {
    if (!shape) add(w, "[]");
    for (size_t i = 0; shape && i < shape->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *d = shape->dim[i];
        add(w, i ? "," : "[");
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
            text_printf(&w->out, "%" PRId64, d->dim_value);
        else if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && *d->dim_param)
            add_name(w, d->dim_param);
        else add(w, "?");
    }
    if (shape && shape->n_dim) add(w, "]");
}

static void add_type(writer *w, const Onnx__TypeProto *t) {
    switch (t->value_case) {
    case ONNX__TYPE_PROTO__VALUE__NOT_SET:
    case ONNX__TYPE_PROTO__VALUE_OPAQUE_TYPE: return;
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
        add_element_type(w, t->tensor_type->elem_type);
        add_shape(w, t->tensor_type->shape);
        return;
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        add(w, "seq(");
        add_type(w, t->sequence_type->elem_type);
        break;
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        add(w, "optional(");
        add_type(w, t->optional_type->elem_type);
        break;
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        add(w, "map(");
        add_element_type(w, t->map_type->key_type);
        add(w, ", ");
        add_type(w, t->map_type->value_type);
        break;
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        add(w, "sparse_tensor(");
        add_element_type(w, t->sparse_tensor_type->elem_type);
        add_shape(w, t->sparse_tensor_type->shape);
        break;
    case _ONNX__TYPE_PROTO__VALUE__CASE_IS_INT_SIZE: return;
    }
    add(w, ")");
}

static void add_value(writer *w, const Onnx__ValueInfoProto *v) {
    if (v->type && v->type->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET) {
        add_type(w, v->type);
        add(w, " ");
    }
    add_name(w, v->name);
}

// ---------------------------------------------------------------- tensors
static void add_element(writer *w, dtype t, const uint8_t *data, int64_t i) {
    int bits = dtype_bits(t);
    int64_t code = 0;
    if (t == DT_F32) {
        add_real(w, dtype_load_float(t, data, i), true);
    } else if (t == DT_F64) {
        add_real(w, dtype_load_float(t, data, i), false);
    } else if (dtype_is_int(t) || t == DT_BOOL) {
        int64_t v = dtype_load_int(t, data, i);
        if (t == DT_U64) text_printf(&w->out, "%" PRIu64, (uint64_t)v);
        else text_printf(&w->out, "%" PRId64, v);
    } else if (bits < 8) { // small floats as their bits
        text_printf(&w->out, "%d", data[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1));
    } else {
        memcpy(&code, data + i * (bits / 8), (size_t)bits / 8);
        text_printf(&w->out, "%" PRId64, code);
    }
}

// Complex numbers are two floats.
static void add_complex(writer *w, const Onnx__TensorProto *t, int64_t count) {
    bool narrow = t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX64;
    for (int64_t i = 0; i < 2 * count; i++) {
        if (i) add(w, ", ");
        add_element(w, narrow ? DT_F32 : DT_F64, t->raw_data.data, i);
    }
}

static void add_tensor(writer *w, const Onnx__TensorProto *t, const char *name) {
    dtype elem = dtype_from_onnx(t->data_type);
    int64_t count = 1;
    add_element_type(w, t->data_type);
    for (size_t i = 0; i < t->n_dims; i++) {
        text_printf(&w->out, "%s%" PRId64, i ? "," : "[", t->dims[i]);
        count *= t->dims[i];
    }
    add(w, t->n_dims ? "] " : " ");
    if (name) add_name(w, name), add(w, " = ");
    add(w, "{");
    bool complex = t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX64 ||
                   t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX128;
    if (complex) add_complex(w, t, count);
    const uint8_t *data = t->raw_data.data;
    if (data && dtype_raw_size(elem, 4) != dtype_size(elem, 4)) {
        uint8_t *unpacked = arena_alloc(w->out.arena, (size_t)count + 1);
        dtype_unpack(unpacked, data, count);
        data = unpacked;
    }
    for (int64_t i = 0; !complex && i < count; i++) {
        if (i) add(w, ", ");
        if (elem == DT_STRING) add_quoted(w, (const char *)t->string_data[i].data, t->string_data[i].len);
        else add_element(w, elem, data, i);
    }
    add(w, "}");
}

// ---------------------------------------------------------------- nodes and graphs
static void add_graph(writer *w, const Onnx__GraphProto *g, int indent);

static void add_strings(writer *w, const ProtobufCBinaryData *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (i) add(w, ", ");
        add_quoted(w, (const char *)s[i].data, s[i].len);
    }
}

// The name of the attribute's type in the syntax; NULL: the syntax has none.
static const char *attribute_type(const Onnx__AttributeProto *a) {
    static const char *const names[] = {[ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT] = "float",
                                        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT] = "int",
                                        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING] = "string",
                                        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR] = "tensor",
                                        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH] = "graph",
                                        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS] = "floats",
                                        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS] = "ints",
                                        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS] = "strings",
                                        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS] = "graphs",
                                        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTO] = "type_proto"};
    return (size_t)a->type < sizeof names / sizeof *names ? names[a->type] : NULL;
}

static void add_attribute(writer *w, const Onnx__AttributeProto *a, int indent) {
    const char *type = attribute_type(a);
    if (!type)
        diag_fatal_missing(w->diag, NULL, "node '%s': ONNX's text syntax has no form for attribute '%s'",
                           w->node, a->name);
    bool list = type[strlen(type) - 1] == 's';
    text_printf(&w->out, "%s: %s = %s", a->name, type, list ? "[" : "");
    if (a->has_f) add_real(w, (double)a->f, true);
    if (a->has_i) text_printf(&w->out, "%" PRId64, a->i);
    if (a->has_s) add_quoted(w, (const char *)a->s.data, a->s.len);
    if (a->t) add_tensor(w, a->t, NULL);
    if (a->g) add_graph(w, a->g, indent + 2);
    if (a->tp) add_type(w, a->tp);
    for (size_t i = 0; i < a->n_floats; i++) {
        if (i) add(w, ", ");
        add_real(w, (double)a->floats[i], true);
    }
    for (size_t i = 0; i < a->n_ints; i++) text_printf(&w->out, "%s%" PRId64, i ? ", " : "", a->ints[i]);
    add_strings(w, a->strings, a->n_strings);
    for (size_t i = 0; i < a->n_graphs; i++) {
        if (i) add(w, ", ");
        add_graph(w, a->graphs[i], indent + 2);
    }
    if (list) add(w, "]");
}

static void add_names(writer *w, char **names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (i) add(w, ", ");
        add_name(w, names[i]);
    }
}

static void add_node(writer *w, const Onnx__NodeProto *n, int indent) {
    w->node = n->name && *n->name ? n->name : n->op_type;
    text_printf(&w->out, "%*s", indent, "");
    if (n->name && *n->name) add(w, "["), add_name(w, n->name), add(w, "] ");
    add_names(w, n->output, n->n_output);
    add(w, " = ");
    if (n->domain && *n->domain) text_printf(&w->out, "%s.", n->domain);
    add(w, n->op_type);
    for (size_t i = 0; i < n->n_attribute; i++) {
        add(w, i ? ", " : " <");
        add_attribute(w, n->attribute[i], indent);
    }
    add(w, n->n_attribute ? "> (" : " (");
    add_names(w, n->input, n->n_input);
    add(w, ")\n");
}

static void add_values(writer *w, Onnx__ValueInfoProto **values, size_t n) {
    add(w, "(");
    for (size_t i = 0; i < n; i++) {
        if (i) add(w, ", ");
        add_value(w, values[i]);
    }
    add(w, ")");
}

static void add_graph(writer *w, const Onnx__GraphProto *g, int indent) {
    const char *before = " <";
    add_name(w, g->name && *g->name ? g->name : "graph");
    add(w, " ");
    add_values(w, g->input, g->n_input);
    add(w, " => ");
    add_values(w, g->output, g->n_output);
    for (size_t i = 0; i < g->n_initializer; i++, before = ",") {
        text_printf(&w->out, "%s\n%*s", before, indent + 2, "");
        add_tensor(w, g->initializer[i], g->initializer[i]->name);
    }
    for (size_t i = 0; i < g->n_value_info; i++, before = ",") {
        text_printf(&w->out, "%s\n%*s", before, indent + 2, "");
        add_value(w, g->value_info[i]);
    }
    add(w, *before == ',' ? ">\n" : "\n");
    text_printf(&w->out, "%*s{\n", indent, "");
    for (size_t i = 0; i < g->n_node; i++) add_node(w, g->node[i], indent + 2);
    text_printf(&w->out, "%*s}", indent, "");
}

// ---------------------------------------------------------------- the model
static void add_key(writer *w, const char *key, const char *s) {
    if (!s || !*s) return;
    text_printf(&w->out, ",\n  %s: ", key);
    add_quoted(w, s, strlen(s));
}

static void add_header(writer *w, const Onnx__ModelProto *m) {
    text_printf(&w->out, "<\n  ir_version: %" PRId64 ",\n  opset_import: [", m->ir_version);
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const char *domain = m->opset_import[i]->domain;
        if (i) add(w, ", ");
        add_quoted(w, domain ? domain : "", domain ? strlen(domain) : 0);
        text_printf(&w->out, ": %" PRId64, m->opset_import[i]->version);
    }
    add(w, "]");
    add_key(w, "producer_name", m->producer_name);
    add_key(w, "producer_version", m->producer_version);
    add_key(w, "domain", m->domain);
    if (m->has_model_version) text_printf(&w->out, ",\n  model_version: %" PRId64, m->model_version);
    add_key(w, "doc_string", m->doc_string);
    for (size_t i = 0; i < m->n_metadata_props; i++) {
        const Onnx__StringStringEntryProto *p = m->metadata_props[i];
        add(w, i ? ", " : ",\n  metadata_props: [");
        add_quoted(w, p->key, strlen(p->key));
        add(w, ": ");
        add_quoted(w, p->value ? p->value : "", p->value ? strlen(p->value) : 0);
    }
    add(w, m->n_metadata_props ? "]\n>\n" : "\n>\n");
}

static void *allocate(void *a, size_t n) { return arena_alloc(a, n); }
static void release(void *a, void *p) { (void)a, (void)p; }

text write_onnx_text(arena *a, diag *d, const void *model, size_t n) {
    writer w = {.out = {.arena = a}, .diag = d};
    ProtobufCAllocator memory = {.alloc = allocate, .free = release, .allocator_data = a};
    Onnx__ModelProto *m = onnx__model_proto__unpack(&memory, n, model);
    if (!m) diag_defect(d, NULL, "the written model is not a ModelProto");
    add_header(&w, m);
    add_graph(&w, m->graph, 0);
    add(&w, "\n");
    return w.out;
}
