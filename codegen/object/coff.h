// Relocatable COFF objects for x86-64 and AArch64, also in the form for many sections (bigobj).
#ifndef ONNXC_CODEGEN_OBJECT_COFF_H
#define ONNXC_CODEGEN_OBJECT_COFF_H
#include "codegen/object/object.h"

bool coff_is_object(bytes b);
object_symbols coff_read_symbols(arena *a, diag *d, bytes object, const char *what);
void coff_write(arena *a, diag *d, bytes object, const lmodule *m, const sink *to);
#endif
