// Relocatable objects of any format: their symbols, and the module's data added to what LLVM wrote.
#ifndef ONNXC_CODEGEN_OBJECT_OBJECT_H
#define ONNXC_CODEGEN_OBJECT_OBJECT_H
#include "compiler/base/bytes.h"
#include "compiler/base/sink.h"
#include "ir/loops/loops.h"

typedef struct object_symbol {
    const char *name;
    bool defined, local, weak;
} object_symbol;
typedef VEC(object_symbol) object_symbols;

bool object_is_one(bytes file);
// `what` names the file in messages.
object_symbols object_read_symbols(arena *a, diag *d, bytes file, const char *what);
// Writes the object with every ldata of m defined (hidden unless exported). Data are streamed.
void object_write(arena *a, diag *d, bytes object, const lmodule *m, const sink *to);
// That many zeros, then the module's data at the distances that their alignments need.
void object_write_data(arena *a, const lmodule *m, uint64_t padding, const sink *to);
#endif
