// Reading JSON (RFC 8259).
#ifndef ONNXC_COMPILER_BASE_JSON_READ_H
#define ONNXC_COMPILER_BASE_JSON_READ_H
#include "compiler/base/arena.h"
#include <stdbool.h>

typedef enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT } json_kind;
typedef struct json_value json_value;
struct json_value {
    json_kind kind;
    bool truth;
    const char *text;        // JSON_TEXT; JSON_NUMBER: as it was written
    VEC(json_value *) items; // of lists and objects
    VEC(const char *) keys;  // of objects
};

// NULL when s is no JSON; *at is then where it goes wrong.
json_value *json_parse(arena *a, const char *s, size_t n, size_t *at);
const json_value *json_member(const json_value *v, const char *key); // NULL: none
const char *json_string_of(const json_value *v, const char *key);    // "" when there is no such text
#endif
