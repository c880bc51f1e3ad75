// Protobuf's text and JSON formats, by the descriptors of protobuf-c. In: the bytes of a ModelProto. Out: text.
#include "compiler/import/text/text_write.h"
#include "compiler/base/json.h"
#include "compiler/import/text/wire_out.h"
#include "proto/onnx.pb-c.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct span {
    const uint8_t *at, *end;
} span;

// One field of a message: a number, or bytes.
typedef struct item {
    wire_field *field;
    uint64_t number;
    span bytes;
} item;

static uint64_t read_varint(span *s) {
    uint64_t v = 0;
    for (int shift = 0; s->at < s->end; shift += 7) {
        uint8_t byte = *s->at++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80 || shift > 56) break;
    }
    return v;
}

static uint64_t read_fixed(span *s, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes && s->at < s->end; i++) v |= (uint64_t)*s->at++ << 8 * i;
    return v;
}

static bool next_item(span *s, wire_kind *kind, item *i) {
    if (s->at >= s->end) return false;
    uint64_t tag = read_varint(s);
    i->field = protobuf_c_message_descriptor_get_field(kind, (unsigned)(tag >> 3));
    switch (tag & 7) {
    case WIRE_VARINT: i->number = read_varint(s); break;
    case WIRE_64: i->number = read_fixed(s, 8); break;
    case WIRE_32: i->number = read_fixed(s, 4); break;
    case WIRE_BYTES: {
        size_t n = (size_t)read_varint(s), most = (size_t)(s->end - s->at);
        i->bytes = (span){s->at, s->at + (n < most ? n : most)};
        s->at = i->bytes.end;
    }
    }
    return i->field != NULL;
}

static double real_of(const item *i) {
    if (i->field->type == PROTOBUF_C_TYPE_FLOAT) {
        uint32_t bits = (uint32_t)i->number;
        float v;
        memcpy(&v, &bits, sizeof v);
        return (double)v;
    }
    double v;
    memcpy(&v, &i->number, sizeof v);
    return v;
}

static bool is_real(const item *i) {
    return i->field->type == PROTOBUF_C_TYPE_FLOAT || i->field->type == PROTOBUF_C_TYPE_DOUBLE;
}

static const char *enumerator(const item *i) {
    const ProtobufCEnumValue *v =
        i->field->type == PROTOBUF_C_TYPE_ENUM
            ? protobuf_c_enum_descriptor_get_value(i->field->descriptor, (int)(int64_t)i->number)
            : NULL;
    return v ? v->name : NULL;
}

static const char *integer(arena *a, const item *i) {
    if (i->field->type == PROTOBUF_C_TYPE_UINT64) return arena_printf(a, "%" PRIu64, i->number);
    return arena_printf(a, "%" PRId64, (int64_t)i->number);
}

// Readers take -0 as an integer.
static const char *finite_text(arena *a, const item *i) {
    if (real_of(i) == 0 && signbit(real_of(i))) return "-0.0";
    char *s = arena_alloc(a, REAL_SIZE);
    real_text(s, real_of(i), i->field->type == PROTOBUF_C_TYPE_FLOAT);
    return s;
}

// ---------------------------------------------------------------- the text format
static void add_bytes(text *t, span s) {
    text_add(t, "\"");
    for (; s.at < s.end; s.at++) {
        char c = (char)*s.at;
        if (c == '"' || c == '\\') text_printf(t, "\\%c", c);
        else if (c == '\n') text_add(t, "\\n");
        else if (c >= ' ' && c <= '~') text_addn(t, &c, 1);
        else text_printf(t, "\\%03o", *s.at);
    }
    text_add(t, "\"");
}

static void add_text_value(text *t, const item *i) {
    double v = is_real(i) ? real_of(i) : 0;
    const char *word = enumerator(i);
    if (word) text_add(t, word);
    else if (i->field->type == PROTOBUF_C_TYPE_STRING || i->field->type == PROTOBUF_C_TYPE_BYTES)
        add_bytes(t, i->bytes);
    else if (!is_real(i)) text_add(t, integer(t->arena, i));
    else if (isnan(v)) text_add(t, "nan");
    else if (isinf(v)) text_add(t, v < 0 ? "-inf" : "inf");
    else text_add(t, finite_text(t->arena, i));
}

static void add_text_message(text *t, wire_kind *kind, span s, int indent) {
    for (item i; next_item(&s, kind, &i);) {
        text_printf(t, "%*s%s", indent, "", i.field->name);
        if (i.field->type == PROTOBUF_C_TYPE_MESSAGE) {
            text_add(t, " {\n");
            add_text_message(t, i.field->descriptor, i.bytes, indent + 2);
            text_printf(t, "%*s}\n", indent, "");
        } else {
            text_add(t, ": ");
            add_text_value(t, &i);
            text_add(t, "\n");
        }
    }
}

static span whole(const void *model, size_t n) { return (span){model, (const uint8_t *)model + n}; }

text write_text_format(arena *a, const void *model, size_t n) {
    text t = {.arena = a};
    add_text_message(&t, &onnx__model_proto__descriptor, whole(model, n), 0);
    return t;
}

// ---------------------------------------------------------------- JSON
// opset_import -> opsetImport
static const char *json_name(arena *a, const char *name) {
    text t = {.arena = a};
    for (; *name; name++) {
        char c = *name;
        if (c == '_' && name[1] >= 'a' && name[1] <= 'z') c = (char)(*++name - ('a' - 'A'));
        text_addn(&t, &c, 1);
    }
    return text_str(&t);
}

static const char *base64(arena *a, span s) { // RFC 4648
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = (size_t)(s.end - s.at), made = 0;
    char *to = arena_alloc(a, n / 3 * 4 + 8);
    to[made++] = '"';
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t v = (uint32_t)s.at[i] << 16;
        if (left > 1) v |= (uint32_t)s.at[i + 1] << 8;
        if (left > 2) v |= s.at[i + 2];
        to[made++] = digits[v >> 18];
        to[made++] = digits[v >> 12 & 63];
        to[made++] = left > 1 ? digits[v >> 6 & 63] : '=';
        to[made++] = left > 2 ? digits[v & 63] : '=';
    }
    to[made] = '"';
    return to;
}

static void add_json_message(json *j, const char *key, wire_kind *kind, span s);

static void add_json_value(json *j, const char *key, const item *i) {
    arena *a = j->out.arena;
    double v = is_real(i) ? real_of(i) : 0;
    size_t n = (size_t)(i->bytes.end - i->bytes.at);
    const char *word = enumerator(i);
    if (i->field->type == PROTOBUF_C_TYPE_MESSAGE) add_json_message(j, key, i->field->descriptor, i->bytes);
    else if (word) json_text(j, key, word);
    else if (i->field->type == PROTOBUF_C_TYPE_STRING)
        json_text(j, key, arena_strndup(a, (const char *)i->bytes.at, n));
    else if (i->field->type == PROTOBUF_C_TYPE_BYTES) json_raw(j, key, base64(a, i->bytes));
    else if (i->field->type == PROTOBUF_C_TYPE_INT64 || i->field->type == PROTOBUF_C_TYPE_UINT64)
        json_text(j, key, integer(a, i));
    else if (!is_real(i)) json_raw(j, key, integer(a, i));
    else if (isnan(v)) json_text(j, key, "NaN");
    else if (isinf(v)) json_text(j, key, v < 0 ? "-Infinity" : "Infinity");
    else json_raw(j, key, finite_text(a, i));
}

// Lists contain all occurrences of a repeated field, which need not be adjacent.
static void add_json_field(json *j, wire_kind *kind, span s, wire_field *f) {
    const char *key = json_name(j->out.arena, f->name);
    bool list = f->label == PROTOBUF_C_LABEL_REPEATED, open = false;
    for (item i; next_item(&s, kind, &i);) {
        if (i.field != f) continue;
        if (list && !open) json_open(j, key, '[');
        open = list;
        add_json_value(j, list ? NULL : key, &i);
    }
    if (open) json_close(j, ']');
}

static void add_json_message(json *j, const char *key, wire_kind *kind, span s) {
    json_open(j, key, '{');
    for (unsigned k = 0; k < kind->n_fields; k++) add_json_field(j, kind, s, &kind->fields[k]);
    json_close(j, '}');
}

text write_json(arena *a, const void *model, size_t n) {
    json j = json_new_indented(a);
    add_json_message(&j, NULL, &onnx__model_proto__descriptor, whole(model, n));
    text_add(&j.out, "\n");
    return j.out;
}
