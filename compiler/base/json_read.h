// Reading JSON, by jansson.
#ifndef ONNXC_COMPILER_BASE_JSON_READ_H
#define ONNXC_COMPILER_BASE_JSON_READ_H
#include "compiler/base/diag.h"
#include <jansson.h>

// The value lives as long as the arena. Invalid JSON is a fatal error: `what`, line, column and reason.
json_t *json_parse(arena *a, diag *d, const char *what, const char *s, size_t n);
const char *json_text_of(const json_t *v, const char *key); // "" if v has no such text
#endif
