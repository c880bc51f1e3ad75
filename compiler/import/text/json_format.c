// Protobuf's JSON format, converted to binary.
#include "compiler/base/json_read.h"
#include "compiler/import/text/formats.h"
#include <math.h>
#include <string.h>

enum { DEPTH_MOST = 100, WORD_MOST = 200 };

typedef struct reader {
    arena *arena;
    diag *diag;
    wire_out out;
    int depth;
} reader;

static void message(reader *r, wire_kind *kind, json_t *from);

static _Noreturn void refuse(reader *r, wire_field *f, const json_t *v) {
    char *shown = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    const char *some = arena_printf(r->arena, "%.60s", shown ? shown : "");
    free(shown);
    diag_fatal(r->diag, NULL, "'%s' is not a valid value for field '%s'", some, f->name);
}

// ---------------------------------------------------------------- names
// opsetImport -> opset_import; names as in the schema stay.
static const char *schema_name(arena *a, const char *camel) {
    text t = {.arena = a};
    for (const char *c = camel; *c; c++) {
        char low = (char)(*c + ('a' - 'A'));
        if (*c >= 'A' && *c <= 'Z') text_add(&t, "_"), text_addn(&t, &low, 1);
        else text_addn(&t, c, 1);
    }
    return text_str(&t);
}

static wire_field *find_field(reader *r, wire_kind *kind, const char *name) {
    wire_field *f = wire_field_named(kind, name);
    if (!f && strlen(name) < WORD_MOST) f = wire_field_named(kind, schema_name(r->arena, name));
    if (!f && strcmp(kind->short_name, "ModelProto") == 0 && strcmp(name, "name") == 0)
        diag_hint(r->diag, "a report of 'onnxc inspect' is not a model; '-o NAME.onnx.json' writes one");
    if (!f) diag_fatal(r->diag, NULL, "%s has no field '%.60s'", kind->short_name, name);
    return f;
}

// ---------------------------------------------------------------- values
static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1; // RFC 4648, both alphabets
}

static void bytes_value(reader *r, wire_field *f, const json_t *v) {
    const char *s = json_string_value(v);
    size_t n = json_string_length(v), made = 0;
    while (n && s[n - 1] == '=') n--;
    uint8_t *to = arena_alloc(r->arena, n / 4 * 3 + 4);
    uint32_t bits = 0;
    for (size_t j = 0; j < n; j++) {
        int digit = base64_digit(s[j]);
        if (digit < 0) diag_fatal(r->diag, NULL, "field '%s' is not base64 text", f->name);
        bits = bits << 6 | (uint32_t)digit;
        if (j % 4) to[made++] = (uint8_t)(bits >> (6 - 2 * (j % 4)));
    }
    if (n % 4 == 1) diag_fatal(r->diag, NULL, "field '%s' is not base64 text", f->name);
    wire_bytes(&r->out, f, to, made);
}

static bool whole(double x, int64_t *v) {
    if (!(x >= -9223372036854775808.0 && x < 18446744073709551616.0) || x != floor(x)) return false;
    *v = x < 9223372036854775808.0 ? (int64_t)x : (int64_t)(uint64_t)x;
    return true;
}

static int64_t int_value(reader *r, wire_field *f, const json_t *v) {
    int64_t i = 0;
    char *end;
    if (json_is_integer(v)) return json_integer_value(v);
    if (json_is_real(v) && whole(json_real_value(v), &i)) return i;
    const char *s = json_string_value(v);
    if (!s || !*s || strspn(s, "-0123456789") != strlen(s)) refuse(r, f, v);
    i = *s == '-' ? (int64_t)strtoll(s, &end, 10) : (int64_t)strtoull(s, &end, 10);
    if (*end) refuse(r, f, v);
    return i;
}

static double real_value(reader *r, wire_field *f, const json_t *v) {
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    static const double values[] = {NAN, INFINITY, -INFINITY};
    if (json_is_number(v)) return json_number_value(v);
    const char *s = json_string_value(v);
    if (!s) refuse(r, f, v);
    for (int j = 0; j < 3; j++)
        if (strcmp(s, words[j]) == 0) return values[j];
    json_t *number = json_loads(s, JSON_DECODE_ANY, NULL); // reads numbers in any locale
    bool ok = json_is_number(number);
    double x = json_number_value(number);
    json_decref(number);
    if (!ok) refuse(r, f, v);
    return x;
}

static void value(reader *r, wire_field *f, json_t *v) {
    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE: {
        size_t mark = wire_begin(&r->out, f);
        message(r, wire_field_kind(f), v);
        wire_end(&r->out, mark);
        return;
    }
    case PROTOBUF_C_TYPE_STRING:
        if (!json_is_string(v)) refuse(r, f, v);
        wire_bytes(&r->out, f, json_string_value(v), json_string_length(v));
        return;
    case PROTOBUF_C_TYPE_BYTES:
        if (!json_is_string(v)) refuse(r, f, v);
        bytes_value(r, f, v);
        return;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE: wire_real(&r->out, f, real_value(r, f, v)); return;
    case PROTOBUF_C_TYPE_BOOL:
        if (!json_is_boolean(v)) refuse(r, f, v);
        wire_int(&r->out, f, json_is_true(v));
        return;
    case PROTOBUF_C_TYPE_ENUM: {
        const ProtobufCEnumValue *known =
            json_is_string(v)
                ? protobuf_c_enum_descriptor_get_value_by_name(f->descriptor, json_string_value(v))
                : NULL;
        wire_int(&r->out, f, (uint64_t)(known ? known->value : int_value(r, f, v)));
        return;
    }
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: wire_int(&r->out, f, (uint64_t)int_value(r, f, v)); return;
    }
}

static void message(reader *r, wire_kind *kind, json_t *from) {
    if (!json_is_object(from)) diag_fatal(r->diag, NULL, "%s must be an object in braces", kind->short_name);
    if (++r->depth > DEPTH_MOST)
        diag_fatal(r->diag, NULL, "messages are nested deeper than %d levels", DEPTH_MOST);
    const char *name;
    json_t *v, *item;
    json_object_foreach(from, name, v) {
        wire_field *f = find_field(r, kind, name);
        size_t j;
        if (json_is_null(v)) continue; // same as absent
        if (f->label != PROTOBUF_C_LABEL_REPEATED) {
            value(r, f, v);
            continue;
        }
        if (!json_is_array(v)) refuse(r, f, v);
        json_array_foreach(v, j, item) value(r, f, item);
    }
    r->depth--;
}

wire_out read_json(arena *a, diag *d, wire_kind *kind, const char *s, size_t n) {
    reader r = {.arena = a, .diag = d, .out = {.arena = a}};
    message(&r, kind, json_parse(a, d, "", s, n));
    return r.out;
}
