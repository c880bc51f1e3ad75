// Text formats of models: each is converted to binary protobuf.
#ifndef ONNXC_COMPILER_IMPORT_TEXT_FORMATS_H
#define ONNXC_COMPILER_IMPORT_TEXT_FORMATS_H
#include "compiler/base/diag.h"
#include "compiler/import/text/wire_out.h"
#include <stdbool.h>

typedef enum model_format { FORMAT_BINARY, FORMAT_TEXT_PROTO, FORMAT_JSON, FORMAT_ONNX_TEXT } model_format;

// The format of the bytes; the extension of name decides if they are ambiguous.
model_format format_of(const char *name, const uint8_t *data, size_t n);

// Errors leave through d, with line and column. The result lives in a.
wire_out read_text_format(arena *a, diag *d, wire_kind *kind, const char *s, size_t n);
wire_out read_json(arena *a, diag *d, wire_kind *kind, const char *s, size_t n);
wire_out read_onnx_text(arena *a, diag *d, const char *s, size_t n);
#endif
