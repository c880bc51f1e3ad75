// A relocatable ELF object in memory, with 64-bit structs for both classes. Shared by the files that change
// objects.
#ifndef ONNXC_CODEGEN_OBJECT_ELF_IMPL_H
#define ONNXC_CODEGEN_OBJECT_ELF_IMPL_H
#include "codegen/object/elf.h"
#include <elf.h>

typedef struct elf_object {
    arena *arena;
    diag *diag;
    bytes file;
    const char *what;
    bool wide; // ELF64
    Elf64_Ehdr header;
    VEC(Elf64_Shdr) sections;
    VEC(bytes) contents;
    VEC(Elf64_Sym) symbols;
    int symtab, strtab, shstrtab; // numbers of sections
} elf_object;

_Noreturn void elf_broken(const elf_object *o, const char *why);
elf_object elf_object_read(arena *a, diag *d, bytes file, const char *what);
const char *elf_string_at(const elf_object *o, int table, uint32_t at);
const char *elf_section_name(const elf_object *o, int i);
uint32_t elf_add_string(elf_object *o, text *table, const char *s); // its offset
void elf_share_names(elf_object *o);                                // in the string tables
bytes elf_encode_symbols(const elf_object *o);
void elf_set_content(elf_object *o, int section, bytes content);
void elf_lay_out(elf_object *o);
// The last sections are m's data, which are streamed; m may be NULL.
void elf_object_write(const elf_object *o, const lmodule *m, const sink *to);
#endif
