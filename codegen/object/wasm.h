// Relocatable WebAssembly objects, as LLVM writes them and wasm-ld reads them (tool-conventions, "Linking").
#ifndef ONNXC_CODEGEN_OBJECT_WASM_H
#define ONNXC_CODEGEN_OBJECT_WASM_H
#include "codegen/object/object.h"

bool wasm_is_object(bytes file);
object_symbols wasm_read_symbols(arena *a, diag *d, bytes file, const char *what);
void wasm_write(arena *a, diag *d, bytes object, const lmodule *m, const sink *to);
#endif
