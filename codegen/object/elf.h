// ELF relocatable objects, 32 and 64 bits, little-endian: reading symbols, and adding the module's data to an
// object that LLVM made, straight from where the data come from.
#ifndef ONNXC_CODEGEN_OBJECT_ELF_H
#define ONNXC_CODEGEN_OBJECT_ELF_H
#include "compiler/base/bytes.h"
#include "compiler/base/sink.h"
#include "ir/loops/loops.h"

typedef struct elf_symbol {
    const char *name;
    const char *section; // NULL: undefined
    uint64_t value, size;
    bool local, weak, hidden, function;
} elf_symbol;
typedef struct elf_section {
    const char *name;
    uint32_t type;
    uint64_t flags, size, align;
    bytes content; // empty for what takes no room in the file
} elf_section;
typedef struct elf_file {
    int bits, machine;
    VEC(elf_section) sections;
    VEC(elf_symbol) symbols; // without section and file symbols
} elf_file;

bool elf_is_object(bytes b);
// `what` names the file in messages.
elf_file *elf_read(arena *a, diag *d, bytes object, const char *what);
// One object of several for the same target: their sections one after the other, what one defines and another
// refers to connected. Local names stay local, and what those from `inner` on define becomes so. `what` names
// them in messages.
bytes elf_join(arena *a, diag *d, const bytes *objects, int n, int inner, const char *what);
// The object with every ldata of m in a section of its own and the symbol defined (hidden unless exported).
// Memory does not grow with the data.
void elf_write(arena *a, diag *d, bytes object, const lmodule *m, const sink *to);
void elf_write_file(arena *a, diag *d, bytes object, const lmodule *m, const char *path);
#endif
