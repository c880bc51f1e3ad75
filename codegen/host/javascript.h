// An ES module that runs a model in browsers and Node.js, and its types for TypeScript.
#ifndef ONNXC_CODEGEN_HOST_JAVASCRIPT_H
#define ONNXC_CODEGEN_HOST_JAVASCRIPT_H
#include "codegen/host/host.h"
#include "compiler/base/bytes.h"
#include "compiler/base/sink.h"

extern const char javascript_loader[]; // codegen/host/loader.js

// Fails for a model with values that JavaScript cannot pass.
void javascript_check(diag *d, const build *b);
// wasm: the linked module.
void javascript_write(arena *a, const build *b, const program *p, bytes wasm, const sink *out);
void javascript_write_types(arena *a, const build *b, const program *p, const sink *out);
#endif
