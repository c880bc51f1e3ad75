// Relocatable Mach-O objects for x86-64 and arm64.
#ifndef ONNXC_CODEGEN_OBJECT_MACHO_H
#define ONNXC_CODEGEN_OBJECT_MACHO_H
#include "codegen/object/object.h"

bool macho_is_object(bytes b);
object_symbols macho_read_symbols(arena *a, diag *d, bytes object, const char *what);
void macho_write(arena *a, diag *d, bytes object, const lmodule *m, const sink *to);
#endif
