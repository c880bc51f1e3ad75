// Protobuf's text format, converted to binary by the descriptors of protobuf-c.
// https://protobuf.dev/reference/protobuf/textformat-spec
#include "compiler/import/text/formats.h"
#include "compiler/import/text/scan.h"
#include <string.h>

typedef struct reader {
    scanner s;
    wire_out out;
} reader;

static void message(reader *r, wire_kind *kind, char close);

// ---------------------------------------------------------------- strings
static uint32_t digits(scanner *s, int base, int most) {
    uint32_t v = 0;
    int n = 0;
    for (; n < most && s->at < s->end; n++, s->at++) {
        int d = hex_digit(*s->at);
        if (d < 0 || d >= base) break;
        v = v * (uint32_t)base + (uint32_t)d;
    }
    if (!n) scan_fail(s, "an escape in a string has no digits");
    return v;
}

static void add_utf8(text *t, uint32_t c) {
    char b[4];
    int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int j = n - 1; j > 0; j--, c >>= 6) b[j] = (char)(0x80 | (c & 0x3f));
    b[0] = (char)(lead[n] | c);
    text_addn(t, b, (size_t)n);
}

static void escape(scanner *s, text *t) {
    static const char names[] = "abfnrtv\\'\"?", values[] = "\a\b\f\n\r\t\v\\'\"?";
    if (s->at >= s->end) scan_fail(s, "unterminated string");
    char c = *s->at;
    const char *known = c ? strchr(names, c) : NULL;
    if (known) {
        text_addn(t, values + (known - names), 1);
        s->at++;
        return;
    }
    if (c >= '0' && c <= '7') {
        char byte = (char)digits(s, 8, 3);
        text_addn(t, &byte, 1);
        return;
    }
    s->at++;
    if (c == 'x' || c == 'X') {
        char byte = (char)digits(s, 16, 2);
        text_addn(t, &byte, 1);
    } else if (c == 'u' || c == 'U') {
        uint32_t code = digits(s, 16, c == 'u' ? 4 : 8);
        if (code > 0x10ffff) scan_fail(s, "U+%X is not a character", (unsigned)code);
        add_utf8(t, code);
    } else {
        scan_fail(s, "'\\%c' is not an escape sequence of protobuf's text format", c);
    }
}

static void one_string(scanner *s, text *t) {
    char quote = *s->at++;
    while (s->at < s->end && *s->at != quote && *s->at != '\n') {
        const char *from = s->at;
        while (s->at < s->end && *s->at != quote && *s->at != '\n' && *s->at != '\\') s->at++;
        text_addn(t, from, (size_t)(s->at - from));
        if (s->at < s->end && *s->at == '\\') s->at++, escape(s, t);
    }
    if (s->at >= s->end || *s->at != quote) scan_fail(s, "unterminated string");
    s->at++;
}

static void string_value(reader *r, wire_field *f) {
    text t = {.arena = r->s.arena};
    int c = scan_peek(&r->s);
    if (c != '"' && c != '\'') scan_fail(&r->s, "field '%s' needs a string", f->name);
    for (; c == '"' || c == '\''; c = scan_peek(&r->s)) one_string(&r->s, &t);
    wire_bytes(&r->out, f, text_str(&t), t.n);
}

// ---------------------------------------------------------------- numbers
static bool boolean(const char *t, int64_t *v) {
    bool yes = strcmp(t, "true") == 0 || strcmp(t, "True") == 0 || strcmp(t, "t") == 0 || strcmp(t, "1") == 0;
    bool no =
        strcmp(t, "false") == 0 || strcmp(t, "False") == 0 || strcmp(t, "f") == 0 || strcmp(t, "0") == 0;
    *v = yes;
    return yes || no;
}

static bool enumerator(wire_field *f, const char *t, int64_t *v) {
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value_by_name(f->descriptor, t);
    if (known) *v = known->value;
    return known || scan_int(t, v);
}

static bool floating(wire_field *f, char *t, double *v) {
    size_t n = strlen(t);
    bool word = n && (t[n - 1] == 'f' || t[n - 1] == 'F') && strcmp(t, "inf") != 0 && strcmp(t, "-inf") != 0;
    if (word) t[n - 1] = 0; // 1.5f
    return f->type == PROTOBUF_C_TYPE_FLOAT ? scan_float(t, v) : scan_real(t, v);
}

static const char *number_text(reader *r, wire_field *f) {
    bool minus = scan_match(&r->s, '-'); // white space may follow
    const char *word = scan_peek_word(&r->s), *t = word ? scan_word(&r->s) : scan_number(&r->s);
    if (!t) scan_fail(&r->s, "field '%s' has no value", f->name);
    return minus ? arena_printf(r->s.arena, "-%s", t) : t;
}

static void number_value(reader *r, wire_field *f) {
    const char *t = number_text(r, f);
    int64_t v;
    double x;
    bool is_real = f->type == PROTOBUF_C_TYPE_FLOAT || f->type == PROTOBUF_C_TYPE_DOUBLE;
    bool ok = is_real                           ? floating(f, arena_strdup(r->s.arena, t), &x)
              : f->type == PROTOBUF_C_TYPE_BOOL ? boolean(t, &v)
              : f->type == PROTOBUF_C_TYPE_ENUM ? enumerator(f, t, &v)
                                                : scan_int(t, &v);
    if (!ok) scan_fail(&r->s, "'%s' is not a valid value for field '%s'", t, f->name);
    if (is_real) wire_real(&r->out, f, x);
    else wire_int(&r->out, f, (uint64_t)v);
}

// ---------------------------------------------------------------- messages
static void value(reader *r, wire_field *f) {
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        char open = (char)scan_peek(&r->s);
        if (open != '{' && open != '<') scan_fail(&r->s, "field '%s' needs a message in braces", f->name);
        scan_expect(&r->s, open);
        size_t mark = wire_begin(&r->out, f);
        message(r, wire_field_kind(f), open == '{' ? '}' : '>');
        wire_end(&r->out, mark);
    } else if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES) {
        string_value(r, f);
    } else {
        number_value(r, f);
    }
}

static void values(reader *r, wire_field *f) {
    if (f->label != PROTOBUF_C_LABEL_REPEATED || !scan_match(&r->s, '[')) {
        value(r, f);
        return;
    }
    if (scan_match(&r->s, ']')) return;
    do value(r, f);
    while (scan_next(&r->s, ']'));
}

static void message(reader *r, wire_kind *kind, char close) {
    scan_nest(&r->s);
    while (close ? !scan_match(&r->s, close) : scan_peek(&r->s) != 0) {
        const char *name = scan_word(&r->s);
        if (!name) scan_fail(&r->s, "expected the name of a field of %s", kind->short_name);
        wire_field *f = wire_field_named(kind, name);
        if (!f) scan_fail(&r->s, "%s has no field '%s'", kind->short_name, name);
        bool colon = scan_match(&r->s, ':');
        if (!colon && f->type != PROTOBUF_C_TYPE_MESSAGE) scan_expect(&r->s, ':');
        values(r, f);
        if (!scan_match(&r->s, ',')) scan_match(&r->s, ';');
    }
    r->s.depth--;
}

wire_out read_text_format(arena *a, diag *d, wire_kind *kind, const char *s, size_t n) {
    reader r = {.s = {.arena = a, .diag = d, .begin = s, .at = s, .end = s + n}, .out = {.arena = a}};
    message(&r, kind, 0);
    return r.out;
}
