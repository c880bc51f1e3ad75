// JSON writer: adds commas, indentation and escapes.
#ifndef ONNXC_COMPILER_BASE_JSON_H
#define ONNXC_COMPILER_BASE_JSON_H
#include "compiler/base/arena.h"
#include <stdbool.h>

typedef struct json {
    text out;
    bool comma; // not the first item of this object or list
    int indent; // spaces per level; 0: one line
    int depth;
} json;

json json_new(arena *a);
json json_new_indented(arena *a);
// key is NULL in lists and at the top.
void json_open(json *j, const char *key, char bracket);  // '{' or '['
void json_close(json *j, char bracket);                  // '}' or ']'
void json_text(json *j, const char *key, const char *s); // NULL: null
void json_int(json *j, const char *key, int64_t v);
void json_number(json *j, const char *key, double v); // not finite: null
void json_bool(json *j, const char *key, bool v);
void json_raw(json *j, const char *key, const char *s); // s is JSON
const char *json_done(const json *j);
#endif
