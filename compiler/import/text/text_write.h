// Text formats of models, from binary protobuf: the inverse of formats.h.
#ifndef ONNXC_COMPILER_IMPORT_TEXT_TEXT_WRITE_H
#define ONNXC_COMPILER_IMPORT_TEXT_TEXT_WRITE_H
#include "compiler/base/diag.h"

// model: a ModelProto of onnxc's own, with data in raw_data. The results live in a.
text write_text_format(arena *a, const void *model, size_t n);
text write_json(arena *a, const void *model, size_t n);
// ONNX's text syntax has no sparse tensors: a fatal error of d.
text write_onnx_text(arena *a, diag *d, const void *model, size_t n);
#endif
