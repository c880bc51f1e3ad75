// Relocatable ELF objects, 32 and 64 bits, little-endian: reads symbols, joins objects, and adds the module's
// data to LLVM's object, straight from the source of the data.
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
    bytes content; // empty for SHT_NOBITS
} elf_section;
typedef struct elf_file {
    int bits, machine;
    VEC(elf_section) sections;
    VEC(elf_symbol) symbols; // without section and file symbols
} elf_file;

bool elf_is_object(bytes b);
// `what` names the file in messages.
elf_file *elf_read(arena *a, diag *d, bytes object, const char *what);
// Joins objects for the same target: concatenates their sections and resolves symbols between them. Symbols
// defined by objects from `inner` on become local. `what` names the objects in messages.
bytes elf_join(arena *a, diag *d, const bytes *objects, int n, int inner, const char *what);
// Writes the object with every ldata of m in its own section and its symbol defined (hidden unless exported).
// Data are streamed.
void elf_write(arena *a, diag *d, bytes object, const lmodule *m, const sink *to);
// Fails if code for the target cannot address all data of m.
void elf_check_data(diag *d, const lmodule *m);
void elf_write_file(arena *a, diag *d, bytes object, const lmodule *m, const char *path);
#endif
