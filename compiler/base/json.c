// JSON text (RFC 8259). Invalid UTF-8 becomes U+FFFD.
#include "compiler/base/json.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

json json_new(arena *a) { return (json){.out = {.arena = a}}; }
json json_new_indented(arena *a) { return (json){.out = {.arena = a}, .indent = 2}; }
const char *json_done(const json *j) { return text_str(&j->out); }

static void new_line(json *j) {
    if (!j->indent) return;
    text_add(&j->out, "\n");
    for (int i = 0; i < j->depth * j->indent; i++) text_add(&j->out, " ");
}

static void add_string(json *j, const char *s) {
    text *t = &j->out;
    text_add(t, "\"");
    while (*s) {
        uint32_t code;
        size_t n = (size_t)utf8_decode(s, strnlen(s, 4), &code);
        if (n == 0) text_add(t, "\\ufffd"), n = 1;
        else if (*s == '"' || *s == '\\') text_printf(t, "\\%c", *s);
        else if (*s == '\n') text_add(t, "\\n");
        else if ((unsigned char)*s < 0x20 || *s == 0x7f) text_printf(t, "\\u%04x", (unsigned)*s);
        else text_addn(t, s, n);
        s += n;
    }
    text_add(t, "\"");
}

static void begin(json *j, const char *key) {
    if (j->comma) text_add(&j->out, j->indent ? "," : ", ");
    if (j->depth) new_line(j);
    j->comma = true;
    if (!key) return;
    add_string(j, key);
    text_add(&j->out, ": ");
}

void json_open(json *j, const char *key, char bracket) {
    begin(j, key);
    text_addn(&j->out, &bracket, 1);
    j->depth++;
    j->comma = false;
}

void json_close(json *j, char bracket) {
    j->depth--;
    if (j->comma) new_line(j);
    text_addn(&j->out, &bracket, 1);
    j->comma = true;
}

void json_text(json *j, const char *key, const char *s) {
    begin(j, key);
    if (s) add_string(j, s);
    else text_add(&j->out, "null");
}
void json_int(json *j, const char *key, int64_t v) { begin(j, key), text_printf(&j->out, "%" PRId64, v); }
void json_number(json *j, const char *key, double v) {
    begin(j, key);
    if (isfinite(v)) text_printf(&j->out, "%.17g", v);
    else text_add(&j->out, "null");
}
void json_bool(json *j, const char *key, bool v) { begin(j, key), text_add(&j->out, v ? "true" : "false"); }
void json_raw(json *j, const char *key, const char *s) { begin(j, key), text_add(&j->out, s); }
