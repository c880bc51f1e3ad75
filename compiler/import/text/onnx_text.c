// ONNX's text syntax. In: text. Out: a ModelProto as protobuf. The grammar is in ONNX's docs/Syntax.md
// and of its parser:
//   model ::= '<' key ':' value, ... '>' graph function*
//   graph ::= name '(' inputs ')' '=>' '(' outputs ')' '<' values and initializers '>' '{' node* '}'
//   node  ::= '[' name ']' outputs '=' domain '.' type ':' overload '<' attributes '>' '(' inputs ')'
#include "compiler/import/text/formats.h"
#include "compiler/import/text/scan.h"
#include "ir/graph/dtype.h"
#include "proto/onnx.pb-c.h"
#include <string.h>

typedef struct parser {
    scanner s;
    wire_out out;
} parser;

#define FIELD(message, name) wire_field_named(&onnx__##message##__descriptor, name)

static void put_text(parser *p, wire_field *f, const char *s) { wire_bytes(&p->out, f, s, strlen(s)); }
static void put_int(parser *p, wire_field *f, int64_t v) { wire_int(&p->out, f, (uint64_t)v); }

// ---------------------------------------------------------------- words and literals
// In double quotes; a backslash quotes the next character.
static char *quoted(parser *p, size_t *n) {
    scanner *s = &p->s;
    text t = {.arena = s->arena};
    scan_expect(s, '"');
    while (s->at < s->end && *s->at != '"') {
        if (*s->at == '\\') s->at++;
        if (s->at < s->end) text_addn(&t, s->at++, 1);
    }
    if (s->at >= s->end) scan_fail(s, "unterminated string");
    s->at++;
    *n = t.n;
    return arena_strndup(s->arena, text_str(&t), t.n);
}

static const char *string_literal(parser *p) {
    size_t n;
    if (scan_peek(&p->s) != '"') scan_fail(&p->s, "expected a string in double quotes");
    return quoted(p, &n);
}

static const char *optional_name(parser *p) {
    return scan_peek(&p->s) == '"' ? string_literal(p) : scan_word(&p->s);
}

static const char *required_name(parser *p) {
    const char *name = optional_name(p);
    if (!name) scan_fail(&p->s, "expected a name");
    return name;
}

static const char *required_word(parser *p) {
    const char *word = scan_word(&p->s);
    if (!word) scan_fail(&p->s, "expected a word");
    return word;
}

static const char *number_text(parser *p) {
    const char *t = scan_number(&p->s);
    if (!t) scan_fail(&p->s, "expected a number");
    return t;
}

static int64_t int_literal(parser *p) {
    int64_t v;
    const char *t = number_text(p);
    if (!scan_int(t, &v)) scan_fail(&p->s, "'%s' is not a 64-bit integer", t);
    return v;
}

static double float_literal(parser *p, bool narrow) {
    double v;
    const char *t = number_text(p);
    if (!(narrow ? scan_float(t, &v) : scan_real(t, &v)))
        scan_fail(&p->s, "'%s' is not a %s", t, narrow ? "float" : "double");
    return v;
}

static bool is_float_word(const char *w) {
    return w && (strcasecmp(w, "inf") == 0 || strcasecmp(w, "infinity") == 0 || strcasecmp(w, "nan") == 0);
}

// ---------------------------------------------------------------- types
static const char *const structured[] = {"seq", "optional", "map", "sparse_tensor", "opaque"};
typedef enum type_form {
    TYPE_IS_SEQ,
    TYPE_IS_OPTIONAL,
    TYPE_IS_MAP,
    TYPE_IS_SPARSE,
    TYPE_IS_OPAQUE,
    TYPE_IS_TENSOR
} type_form;

typedef struct text_dim {
    const char *name; // NULL: see value
    int64_t value;    // -1: unknown
} text_dim;
typedef struct text_type {
    type_form form;
    int elem; // ONNX's element type, or the type of a map's keys
    bool has_shape;
    VEC(text_dim) dims;
    struct text_type *inner;
    const char *domain, *name; // of an opaque type
} text_type;

// ONNX's type of that name; 0: none.
static int element_type(const char *word) {
    const ProtobufCEnumDescriptor *all = &onnx__tensor_proto__data_type__descriptor;
    for (unsigned j = 0; j < all->n_values; j++)
        if (all->values[j].value && strcasecmp(all->values[j].name, word) == 0) return all->values[j].value;
    return 0;
}

static int structured_type(const char *word) {
    for (int j = 0; j < TYPE_IS_TENSOR; j++)
        if (strcmp(word, structured[j]) == 0) return j;
    return -1;
}

static bool next_is_type(parser *p) {
    const char *word = scan_peek_word(&p->s);
    return word && (element_type(word) || structured_type(word) >= 0);
}

static text_dim parse_dim(parser *p) {
    if (scan_match(&p->s, '?')) return (text_dim){NULL, -1};
    const char *name = optional_name(p);
    return name ? (text_dim){name, -1} : (text_dim){NULL, int_literal(p)};
}

// float: a scalar; float[]: of unknown rank.
static void parse_shape(parser *p, text_type *t) {
    t->has_shape = !scan_match(&p->s, '[');
    if (t->has_shape || scan_match(&p->s, ']')) return;
    t->has_shape = true;
    do VEC_PUSH(p->s.arena, &t->dims, parse_dim(p));
    while (scan_next(&p->s, ']'));
}

static int required_element(parser *p) {
    const char *word = required_word(p);
    int elem = element_type(word);
    if (!elem) scan_fail(&p->s, "'%s' is not an element type", word);
    return elem;
}

static void parse_opaque(parser *p, text_type *t) {
    if (scan_peek(&p->s) == ')') return;
    text id = {.arena = p->s.arena};
    do text_printf(&id, "%s%s", id.n ? "." : "", required_word(p));
    while (scan_match(&p->s, '.'));
    t->name = text_str(&id);
    if (scan_match(&p->s, ',')) t->domain = t->name, t->name = required_word(p);
}

static text_type *parse_type(parser *p) {
    scan_nest(&p->s);
    text_type *t = ARENA_NEW(p->s.arena, text_type);
    const char *word = required_word(p);
    t->elem = element_type(word);
    int form = t->elem ? TYPE_IS_TENSOR : structured_type(word);
    if (form < 0) scan_fail(&p->s, "'%s' is not a type", word);
    t->form = (type_form)form;
    if (t->form != TYPE_IS_TENSOR) scan_expect(&p->s, '(');
    switch (t->form) {
    case TYPE_IS_TENSOR: parse_shape(p, t); break;
    case TYPE_IS_SPARSE:
        t->elem = required_element(p);
        parse_shape(p, t);
        break;
    case TYPE_IS_MAP:
        t->elem = required_element(p);
        scan_expect(&p->s, ',');
        t->inner = parse_type(p);
        break;
    case TYPE_IS_SEQ:
    case TYPE_IS_OPTIONAL: t->inner = parse_type(p); break;
    case TYPE_IS_OPAQUE: parse_opaque(p, t); break;
    }
    if (t->form != TYPE_IS_TENSOR) scan_expect(&p->s, ')');
    p->s.depth--;
    return t;
}

static void put_shape(parser *p, wire_field *shape, const text_type *t) {
    if (!t->has_shape) return;
    size_t mark = wire_begin(&p->out, shape);
    for (int j = 0; j < t->dims.n; j++) {
        size_t dim = wire_begin(&p->out, FIELD(tensor_shape_proto, "dim"));
        if (t->dims.at[j].name)
            put_text(p, FIELD(tensor_shape_proto__dimension, "dim_param"), t->dims.at[j].name);
        else if (t->dims.at[j].value != -1)
            put_int(p, FIELD(tensor_shape_proto__dimension, "dim_value"), t->dims.at[j].value);
        wire_end(&p->out, dim);
    }
    wire_end(&p->out, mark);
}

static void put_type(parser *p, wire_field *f, const text_type *t) {
    static const char *const fields[] = {"sequence_type",      "optional_type", "map_type",
                                         "sparse_tensor_type", "opaque_type",   "tensor_type"};
    size_t mark = wire_begin(&p->out, f);
    wire_field *form = FIELD(type_proto, fields[t->form]);
    wire_kind *kind = form ? wire_field_kind(form) : NULL;
    if (!form) diag_fatal_missing(p->s.diag, NULL, "type '%s' is not supported", structured[t->form]);
    size_t inner = wire_begin(&p->out, form);
    if (t->form == TYPE_IS_TENSOR || t->form == TYPE_IS_SPARSE) {
        put_int(p, wire_field_named(kind, "elem_type"), t->elem);
        put_shape(p, wire_field_named(kind, "shape"), t);
    }
    if (t->form == TYPE_IS_MAP) {
        put_int(p, wire_field_named(kind, "key_type"), t->elem);
        put_type(p, wire_field_named(kind, "value_type"), t->inner);
    }
    if (t->form == TYPE_IS_SEQ || t->form == TYPE_IS_OPTIONAL)
        put_type(p, wire_field_named(kind, "elem_type"), t->inner);
    if (t->domain) put_text(p, wire_field_named(kind, "domain"), t->domain);
    if (t->name) put_text(p, wire_field_named(kind, "name"), t->name);
    wire_end(&p->out, inner);
    wire_end(&p->out, mark);
}

// ---------------------------------------------------------------- tensors
static void put_pairs(parser *p, wire_field *f, char open, char close) {
    for (bool more = scan_open(&p->s, open, close); more; more = scan_next(&p->s, close)) {
        size_t mark = wire_begin(&p->out, f);
        put_text(p, FIELD(string_string_entry_proto, "key"), string_literal(p));
        scan_expect(&p->s, ':');
        put_text(p, FIELD(string_string_entry_proto, "value"), string_literal(p));
        wire_end(&p->out, mark);
    }
}

// Types of less than a byte: the text has one number per element, int32_data packs them.
static void put_packed(parser *p, const text_type *t, int bits) {
    size_t n = 0, room = 64;
    uint8_t *to = arena_calloc(p->s.arena, room, 1);
    do {
        if (n * (size_t)bits / 8 >= room) {
            to = arena_grow(p->s.arena, to, room, 2 * room);
            room *= 2;
        }
        int64_t v = int_literal(p);
        if (v < -(1 << (bits - 1)) || v >= 1 << bits)
            scan_fail(&p->s, "%lld does not fit %d bits", (long long)v, bits);
        to[n * (size_t)bits / 8] |= (uint8_t)((v & ((1 << bits) - 1)) << (int)(n * (size_t)bits % 8));
        n++;
    } while (scan_match(&p->s, ','));
    int64_t count = 1;
    for (int j = 0; j < t->dims.n; j++)
        if (__builtin_mul_overflow(count, t->dims.at[j].value, &count)) count = -1;
    if ((int64_t)n != count)
        scan_fail(&p->s, "the tensor has %zu elements, but its shape needs %lld", n, (long long)count);
    wire_bytes(&p->out, FIELD(tensor_proto, "raw_data"), to, (n * (size_t)bits + 7) / 8);
}

static void put_element(parser *p, int elem) {
    switch (elem) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
    case ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX64:
        wire_real(&p->out, FIELD(tensor_proto, "float_data"), float_literal(p, true));
        return;
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
    case ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX128:
        wire_real(&p->out, FIELD(tensor_proto, "double_data"), float_literal(p, false));
        return;
    case ONNX__TENSOR_PROTO__DATA_TYPE__STRING: {
        size_t n;
        const char *s = quoted(p, &n);
        wire_bytes(&p->out, FIELD(tensor_proto, "string_data"), s, n);
        return;
    }
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        put_int(p, FIELD(tensor_proto, "int64_data"), int_literal(p));
        return;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT32:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT64:
        put_int(p, FIELD(tensor_proto, "uint64_data"), int_literal(p));
        return;
    }
    int64_t v = int_literal(p); // small types: 16-bit and 8-bit floats as bits
    if (v < INT32_MIN || v > INT32_MAX) scan_fail(&p->s, "%lld does not fit the tensor's type", (long long)v);
    put_int(p, FIELD(tensor_proto, "int32_data"), v);
}

// The values of a tensor in braces, or their external location in brackets; name may be NULL.
static void put_tensor(parser *p, wire_field *f, const text_type *t, const char *name) {
    size_t mark = wire_begin(&p->out, f);
    if (t->form != TYPE_IS_TENSOR || !t->has_shape)
        scan_fail(&p->s, "a constant needs a tensor type with a shape");
    if (name) put_text(p, FIELD(tensor_proto, "name"), name);
    put_int(p, FIELD(tensor_proto, "data_type"), t->elem);
    for (int j = 0; j < t->dims.n; j++) {
        if (t->dims.at[j].value < 0) scan_fail(&p->s, "the dimensions of a constant must be numbers");
        put_int(p, FIELD(tensor_proto, "dims"), t->dims.at[j].value);
    }
    int bits = dtype_bits(dtype_from_onnx(t->elem));
    if (scan_peek(&p->s) == '[') {
        put_int(p, FIELD(tensor_proto, "data_location"), ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
        put_pairs(p, FIELD(tensor_proto, "external_data"), '[', ']');
    } else {
        scan_expect(&p->s, '{');
        if (scan_peek(&p->s) != '}' && bits && bits < 8) {
            put_packed(p, t, bits);
        } else if (scan_peek(&p->s) != '}') {
            do put_element(p, t->elem);
            while (scan_match(&p->s, ','));
        }
        scan_expect(&p->s, '}');
    }
    wire_end(&p->out, mark);
}

// ---------------------------------------------------------------- values
// A name with an optional type; returns the type, or NULL.
static const text_type *typed_name(parser *p, const char **name) {
    const text_type *t = next_is_type(p) ? parse_type(p) : NULL;
    *name = required_name(p);
    return t;
}

static void put_value_info(parser *p, wire_field *f, const text_type *t, const char *name) {
    size_t mark = wire_begin(&p->out, f);
    put_text(p, FIELD(value_info_proto, "name"), name);
    if (t) put_type(p, FIELD(value_info_proto, "type"), t);
    wire_end(&p->out, mark);
}

// Values as field `info`, and those with "= {...}" as initializers: both, or (alone) only these.
static void put_values(parser *p, const char *info, char open, char close, bool alone) {
    for (bool more = scan_open(&p->s, open, close); more; more = scan_next(&p->s, close)) {
        const char *name;
        const text_type *t = typed_name(p, &name);
        bool has_data = scan_match(&p->s, '=');
        if (!has_data || !alone) put_value_info(p, FIELD(graph_proto, info), t, name);
        if (has_data && !t) scan_fail(&p->s, "'%s' has data but no type", name);
        if (has_data) put_tensor(p, FIELD(graph_proto, "initializer"), t, name);
    }
}

static void expect_arrow(parser *p) {
    scan_expect(&p->s, '=');
    if (p->s.at >= p->s.end || *p->s.at != '>') scan_fail(&p->s, "expected '=>'");
    p->s.at++;
}

// ---------------------------------------------------------------- attributes
static void put_graph(parser *p, wire_field *f);

// Types of attributes; literals have the first three.
typedef enum attribute_kind {
    ATTR_IS_FLOAT,
    ATTR_IS_INT,
    ATTR_IS_STRING,
    ATTR_IS_TENSOR,
    ATTR_IS_GRAPH,
    ATTR_IS_TYPE
} attribute_kind;
// Numbers and strings of a value are kept until the type of the whole list is known.
typedef struct literal {
    attribute_kind kind;
    const char *text;
    size_t n;
} literal;
typedef VEC(literal) literal_list;

static const struct attribute_type {
    const char *name, *one, *many;
    int type, list_type;
} attribute_types[] = {
#define TYPE(name, one, many, code)                                                                          \
    {name, one, many, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##code,                                         \
     ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##code##S}
    [ATTR_IS_FLOAT] = TYPE("float", "f", "floats", FLOAT),
    [ATTR_IS_INT] = TYPE("int", "i", "ints", INT),
    [ATTR_IS_STRING] = TYPE("string", "s", "strings", STRING),
    [ATTR_IS_TENSOR] = TYPE("tensor", "t", "tensors", TENSOR),
    [ATTR_IS_GRAPH] = TYPE("graph", "g", "graphs", GRAPH),
    [ATTR_IS_TYPE] = TYPE("type_proto", "tp", "type_protos", TYPE_PROTO),
};
enum { ATTRIBUTE_TYPES = sizeof attribute_types / sizeof *attribute_types };

// Index into attribute_types of "floats" or "float"; sets *list.
static int annotated_type(parser *p, bool *list) {
    const char *word = required_word(p);
    for (int j = 0; j < ATTRIBUTE_TYPES; j++) {
        *list = strcmp(word, attribute_types[j].many) == 0;
        if (*list || strcmp(word, attribute_types[j].name) == 0) return j;
    }
    scan_fail(&p->s, "'%s' is not an attribute type", word);
}

// Writes a type, a tensor or a graph; returns the index of its attribute type.
static int put_structured(parser *p, bool list) {
    if (!next_is_type(p)) {
        put_graph(p, FIELD(attribute_proto, list ? "graphs" : "g"));
        return ATTR_IS_GRAPH;
    }
    const text_type *t = parse_type(p);
    int next = scan_peek(&p->s);
    if (next == '{' || next == '=' || next == '"' || scan_peek_word(&p->s)) {
        const char *name = optional_name(p);
        scan_match(&p->s, '=');
        put_tensor(p, FIELD(attribute_proto, list ? "tensors" : "t"), t, name);
        return ATTR_IS_TENSOR;
    }
    put_type(p, FIELD(attribute_proto, list ? "type_protos" : "tp"), t);
    return ATTR_IS_TYPE;
}

// Adds a number or string to the list, or writes anything else: then returns the index of its attribute type,
// otherwise -1.
static int attribute_value(parser *p, bool list, literal_list *out) {
    literal l = {.kind = ATTR_IS_STRING};
    const char *word = scan_peek_word(&p->s);
    if (word && !is_float_word(word)) return put_structured(p, list);
    if (scan_peek(&p->s) == '"') {
        l.text = quoted(p, &l.n);
    } else {
        int64_t v;
        l.text = number_text(p);
        l.kind = scan_int(l.text, &v) ? ATTR_IS_INT : ATTR_IS_FLOAT;
    }
    VEC_PUSH(p->s.arena, out, l);
    return -1;
}

static void put_literal(parser *p, wire_field *f, int type, const literal *l) {
    int64_t v = 0;
    double x = 0;
    bool ok = type == ATTR_IS_STRING ? l->kind == ATTR_IS_STRING
              : type == ATTR_IS_INT  ? l->kind == ATTR_IS_INT && scan_int(l->text, &v)
                                     : l->kind != ATTR_IS_STRING && scan_float(l->text, &x);
    if (!ok) scan_fail(&p->s, "'%s' is not a valid value for an attribute of this type", l->text);
    if (type == ATTR_IS_STRING) wire_bytes(&p->out, f, l->text, l->n);
    else if (type == ATTR_IS_INT) put_int(p, f, v);
    else wire_real(&p->out, f, x);
}

// The type by the literals: floats if one of them is.
static int literal_type(const literal_list *l) {
    int type = l->at[0].kind;
    for (int j = 0; j < l->n; j++)
        if (type == ATTR_IS_INT && l->at[j].kind == ATTR_IS_FLOAT) type = ATTR_IS_FLOAT;
    return type;
}

static void put_attribute_values(parser *p, int annotated, bool list) {
    literal_list literals = {0};
    int type = annotated;
    bool brackets = scan_match(&p->s, '[');
    if (brackets && annotated >= 0 && !list) scan_fail(&p->s, "an attribute of one value cannot be a list");
    if (!brackets && list) scan_fail(&p->s, "expected a list in brackets");
    if (brackets && scan_match(&p->s, ']')) {
        if (annotated < 0) scan_fail(&p->s, "an empty list needs a type: name : ints = []");
    } else {
        do {
            int written = attribute_value(p, brackets, &literals);
            if (written >= 0 && type >= 0 && type != written) scan_fail(&p->s, "the values differ in type");
            if (written >= 0) type = written;
        } while (brackets && scan_match(&p->s, ','));
        if (brackets) scan_expect(&p->s, ']');
    }
    if (literals.n && type < 0) type = literal_type(&literals);
    const struct attribute_type *t = &attribute_types[type];
    wire_field *f = FIELD(attribute_proto, brackets ? t->many : t->one);
    for (int j = 0; j < literals.n; j++) {
        if (type != ATTR_IS_FLOAT && type != ATTR_IS_INT && type != ATTR_IS_STRING)
            scan_fail(&p->s, "'%s' is not a %s", literals.at[j].text, t->name);
        put_literal(p, f, type, &literals.at[j]);
    }
    put_int(p, FIELD(attribute_proto, "type"), brackets ? t->list_type : t->type);
}

static void put_attribute_named(parser *p, wire_field *f, const char *name) {
    size_t mark = wire_begin(&p->out, f);
    int annotated = -1;
    bool list = false;
    put_text(p, FIELD(attribute_proto, "name"), name);
    if (scan_match(&p->s, ':')) annotated = annotated_type(p, &list);
    scan_expect(&p->s, '=');
    if (scan_match(&p->s, '@')) {
        put_text(p, FIELD(attribute_proto, "ref_attr_name"), required_name(p));
        if (annotated >= 0)
            put_int(p, FIELD(attribute_proto, "type"),
                    list ? attribute_types[annotated].list_type : attribute_types[annotated].type);
    } else {
        put_attribute_values(p, annotated, list);
    }
    wire_end(&p->out, mark);
}

static bool put_attributes(parser *p, wire_field *f) {
    if (!scan_match(&p->s, '<')) return false;
    do put_attribute_named(p, f, required_name(p));
    while (scan_next(&p->s, '>'));
    return true;
}

// ---------------------------------------------------------------- nodes and graphs
// Comma-separated names; an empty one is "" or nothing before a comma.
static void put_names(parser *p, wire_field *f) {
    do {
        const char *name = optional_name(p);
        if (!name && scan_peek(&p->s) != ',') return;
        put_text(p, f, name ? name : "");
    } while (scan_match(&p->s, ','));
}

static void put_node(parser *p, wire_field *f) {
    size_t mark = wire_begin(&p->out, f);
    if (scan_match(&p->s, '[')) {
        const char *name = optional_name(p);
        if (name) put_text(p, FIELD(node_proto, "name"), name);
        scan_expect(&p->s, ']');
    }
    put_names(p, FIELD(node_proto, "output"));
    scan_expect(&p->s, '=');
    text domain = {.arena = p->s.arena};
    const char *type = required_word(p);
    for (; scan_match(&p->s, '.'); type = required_word(p))
        text_printf(&domain, "%s%s", domain.n ? "." : "", type);
    put_text(p, FIELD(node_proto, "op_type"), type);
    if (domain.n) put_text(p, FIELD(node_proto, "domain"), text_str(&domain));
    if (scan_match(&p->s, ':')) put_text(p, FIELD(node_proto, "overload"), required_word(p));
    bool have = put_attributes(p, FIELD(node_proto, "attribute"));
    scan_expect(&p->s, '(');
    put_names(p, FIELD(node_proto, "input"));
    scan_expect(&p->s, ')');
    if (!have) put_attributes(p, FIELD(node_proto, "attribute"));
    wire_end(&p->out, mark);
}

static void put_nodes(parser *p, wire_field *f) {
    scan_expect(&p->s, '{');
    while (!scan_ended(&p->s) && scan_peek(&p->s) != '}') put_node(p, f);
    scan_expect(&p->s, '}');
}

static void put_graph(parser *p, wire_field *f) {
    scan_nest(&p->s);
    size_t mark = wire_begin(&p->out, f);
    put_text(p, FIELD(graph_proto, "name"), required_name(p));
    put_values(p, "input", '(', ')', false);
    expect_arrow(p);
    put_values(p, "output", '(', ')', false);
    if (scan_peek(&p->s) == '<') put_values(p, "value_info", '<', '>', true);
    put_nodes(p, FIELD(graph_proto, "node"));
    wire_end(&p->out, mark);
    p->s.depth--;
}

// ---------------------------------------------------------------- functions and models
static void put_opsets(parser *p, wire_field *f) {
    for (bool more = scan_open(&p->s, '[', ']'); more; more = scan_next(&p->s, ']')) {
        size_t mark = wire_begin(&p->out, f);
        put_text(p, FIELD(operator_set_id_proto, "domain"), string_literal(p));
        scan_expect(&p->s, ':');
        put_int(p, FIELD(operator_set_id_proto, "version"), int_literal(p));
        wire_end(&p->out, mark);
    }
}

// "<key: value, ...>": fields of the model or function.
static void put_header(parser *p, wire_kind *kind) {
    static const char *const known[] = {"ir_version",       "opset_import",   "producer_name",
                                        "producer_version", "domain",         "doc_string",
                                        "model_version",    "metadata_props", "overload"};
    if (!scan_match(&p->s, '<')) return;
    do {
        const char *key = required_word(p);
        wire_field *f = NULL;
        for (unsigned j = 0; j < sizeof known / sizeof *known; j++)
            if (strcmp(key, known[j]) == 0) f = wire_field_named(kind, key);
        if (!f) scan_fail(&p->s, "'%s' is not a key of a %s", key, kind->short_name);
        scan_expect(&p->s, ':');
        if (strcmp(key, "opset_import") == 0) put_opsets(p, f);
        else if (strcmp(key, "metadata_props") == 0) put_pairs(p, f, '[', ']');
        else if (f->type == PROTOBUF_C_TYPE_INT64) put_int(p, f, int_literal(p));
        else put_text(p, f, string_literal(p));
    } while (scan_next(&p->s, '>'));
}

// Names; those with a type also as value_info.
static void put_function_values(parser *p, const char *field) {
    for (bool more = scan_open(&p->s, '(', ')'); more; more = scan_next(&p->s, ')')) {
        const char *name;
        const text_type *t = typed_name(p, &name);
        put_text(p, FIELD(function_proto, field), name);
        if (t) put_value_info(p, FIELD(function_proto, "value_info"), t, name);
    }
}

static void put_function(parser *p, wire_field *f) {
    size_t mark = wire_begin(&p->out, f);
    put_header(p, &onnx__function_proto__descriptor);
    put_text(p, FIELD(function_proto, "name"), required_name(p));
    bool attributes = scan_match(&p->s, '<');
    for (; attributes; attributes = scan_next(&p->s, '>')) {
        const char *name = required_name(p);
        int next = scan_peek(&p->s);
        if (next == ':' || next == '=')
            put_attribute_named(p, FIELD(function_proto, "attribute_proto"), name);
        else put_text(p, FIELD(function_proto, "attribute"), name);
    }
    put_function_values(p, "input");
    expect_arrow(p);
    put_function_values(p, "output");
    bool values = scan_peek(&p->s) == '<' && scan_open(&p->s, '<', '>');
    for (; values; values = scan_next(&p->s, '>')) {
        const char *name;
        const text_type *t = typed_name(p, &name);
        put_value_info(p, FIELD(function_proto, "value_info"), t, name);
    }
    put_nodes(p, FIELD(function_proto, "node"));
    wire_end(&p->out, mark);
}

wire_out read_onnx_text(arena *a, diag *d, const char *s, size_t n) {
    parser p = {.s = {.arena = a, .diag = d, .begin = s, .at = s, .end = s + n}, .out = {.arena = a}};
    put_header(&p, &onnx__model_proto__descriptor);
    put_graph(&p, FIELD(model_proto, "graph"));
    while (scan_peek(&p.s)) put_function(&p, FIELD(model_proto, "functions"));
    return p.out;
}
