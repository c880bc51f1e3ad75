// In: several relocatable objects. Out: one, as from "ld -r", but without merging sections. Sections and
// symbols are renumbered, also in relocations and groups. Local symbols come first, as ELF requires; a global
// symbol is defined if any of the objects defines it.
#include "codegen/object/elf_impl.h"
#include <string.h>

typedef struct part {
    elf_object o;
    int *section; // old number -> new; 0: left out
    int *symbol;  // likewise
} part;

typedef struct join {
    part *parts;
    int n;
    elf_object all;
    text names;  // of symbols and sections
    map globals; // name -> number
} join;

// ---------------------------------------------------------------- sections
static bool is_table(const elf_object *o, int i) {
    return i == o->symtab || i == o->strtab || i == o->shstrtab;
}

// Sections of which an object has one.
static bool is_once(const elf_object *o, int i) {
    static const char *const names[] = {".note.GNU-stack", ".note.gnu.property", ".comment"};
    const char *name = elf_section_name(o, i);
    for (int k = 0; k < 3; k++)
        if (strcmp(name, names[k]) == 0) return true;
    return o->sections.at[i].sh_type >= SHT_LOPROC && strstr(name, "attributes");
}

static void add_part_section(join *j, part *p, int i) {
    Elf64_Shdr s = p->o.sections.at[i];
    s.sh_name = elf_add_string(&j->all, &j->names, elf_section_name(&p->o, i));
    p->section[i] = j->all.sections.n;
    VEC_PUSH(j->all.arena, &j->all.sections, s);
    VEC_PUSH(j->all.arena, &j->all.contents, p->o.contents.at[i]);
}

static void add_part_sections(join *j, part *p, bool first) {
    p->section = ARENA_ARRAY(j->all.arena, int, p->o.sections.n + 1);
    for (int i = 1; i < p->o.sections.n; i++) {
        int type = (int)p->o.sections.at[i].sh_type;
        bool addresses =
            type == 0x6fff4c03; // SHT_LLVM_ADDRSIG: numbers of symbols, for identical code folding
        if (is_table(&p->o, i) || addresses || (!first && is_once(&p->o, i))) continue;
        add_part_section(j, p, i);
    }
}

// ---------------------------------------------------------------- symbols
static bool is_local(const Elf64_Sym *s) { return ELF64_ST_BIND(s->st_info) == STB_LOCAL; }

static bool is_in_section(const Elf64_Sym *s) {
    return s->st_shndx != SHN_UNDEF && s->st_shndx < SHN_LORESERVE;
}

static bool is_left_out(const part *p, const Elf64_Sym *s) {
    if (!is_in_section(s)) return false;
    if (s->st_shndx >= p->o.sections.n) elf_broken(&p->o, "a symbol is not in any section");
    return !p->section[s->st_shndx];
}

static Elf64_Sym moved_symbol(join *j, const part *p, const Elf64_Sym *s) {
    Elf64_Sym own = *s;
    if (is_left_out(p, s)) elf_broken(&p->o, "the section of a symbol was left out");
    if (is_in_section(s)) own.st_shndx = (Elf64_Section)p->section[s->st_shndx];
    own.st_name =
        s->st_name ? elf_add_string(&j->all, &j->names, elf_string_at(&p->o, p->o.strtab, s->st_name)) : 0;
    return own;
}

static int add_symbol(join *j, Elf64_Sym s) {
    VEC_PUSH(j->all.arena, &j->all.symbols, s);
    return j->all.symbols.n - 1;
}

static void add_part_locals(join *j, part *p, bool first) {
    p->symbol = ARENA_ARRAY(j->all.arena, int, p->o.symbols.n + 1);
    for (int i = 1; i < p->o.symbols.n; i++) {
        const Elf64_Sym *s = &p->o.symbols.at[i];
        bool file = ELF64_ST_TYPE(s->st_info) == STT_FILE;
        if (is_local(s) && !is_left_out(p, s) && (first || !file))
            p->symbol[i] = add_symbol(j, moved_symbol(j, p, s));
    }
}

// Symbols defined by parts of a library become local.
static void add_part_inner(join *j, part *p) {
    for (int i = 1; i < p->o.symbols.n; i++) {
        Elf64_Sym s = p->o.symbols.at[i];
        const char *name = elf_string_at(&p->o, p->o.strtab, s.st_name);
        if (is_local(&s) || s.st_shndx == SHN_UNDEF || map_get(&j->globals, name)) continue;
        s.st_info = ELF64_ST_INFO(STB_LOCAL, ELF64_ST_TYPE(s.st_info));
        s.st_other &= (unsigned char)~3; // the visibility
        p->symbol[i] = add_symbol(j, moved_symbol(j, p, &s));
        map_put(&j->globals, name, (void *)(intptr_t)p->symbol[i]);
    }
}

static void add_part_globals(join *j, part *p) {
    for (int i = 1; i < p->o.symbols.n; i++) {
        const Elf64_Sym *s = &p->o.symbols.at[i];
        if (is_local(s) || p->symbol[i]) continue;
        const char *name = elf_string_at(&p->o, p->o.strtab, s->st_name);
        int known = (int)(intptr_t)map_get(&j->globals, name);
        if (!known) {
            known = add_symbol(j, moved_symbol(j, p, s));
            map_put(&j->globals, name, (void *)(intptr_t)known);
        } else if (s->st_shndx != SHN_UNDEF) {
            Elf64_Sym *old = &j->all.symbols.at[known];
            if (old->st_shndx != SHN_UNDEF) elf_broken(&p->o, "two of its parts define the same symbol");
            uint32_t at = old->st_name;
            *old = moved_symbol(j, p, s);
            old->st_name = at;
        }
        p->symbol[i] = known;
    }
}

// ---------------------------------------------------------------- relocations and groups
static int new_symbol(const part *p, uint64_t old) {
    if (old >= (uint64_t)p->o.symbols.n) elf_broken(&p->o, "it refers to a symbol that it does not contain");
    return p->symbol[old];
}

static int new_section(const part *p, uint64_t old) {
    if (old >= (uint64_t)p->o.sections.n)
        elf_broken(&p->o, "it refers to a section that it does not contain");
    return p->section[old];
}

// An entry is the offset, then the symbol's number and the type, then possibly an addend.
static bytes renumber_relocations(const part *p, const Elf64_Shdr *s, bytes content) {
    size_t entry = s->sh_entsize, info = p->o.wide ? 8 : 4;
    char *own = arena_grow(p->o.arena, content.at, content.n, content.n + 1);
    if (entry < 2 * info) elf_broken(&p->o, "its relocation entries have an unexpected size");
    for (size_t at = 0; at + entry <= content.n; at += entry) {
        Elf64_Xword wide;
        Elf32_Word narrow;
        if (p->o.wide) {
            memcpy(&wide, own + at + info, sizeof wide);
            wide = ELF64_R_INFO((Elf64_Xword)new_symbol(p, ELF64_R_SYM(wide)), ELF64_R_TYPE(wide));
            memcpy(own + at + info, &wide, sizeof wide);
        } else {
            memcpy(&narrow, own + at + info, sizeof narrow);
            narrow = ELF32_R_INFO((Elf32_Word)new_symbol(p, ELF32_R_SYM(narrow)), ELF32_R_TYPE(narrow));
            memcpy(own + at + info, &narrow, sizeof narrow);
        }
    }
    return (bytes){own, content.n};
}

// A word of flags, then the numbers of the sections.
static bytes renumber_group(const part *p, bytes content) {
    uint32_t *own = memcpy(arena_alloc(p->o.arena, content.n + 4), content.at, content.n);
    for (size_t i = 1; i < content.n / 4; i++) own[i] = (uint32_t)new_section(p, own[i]);
    return (bytes){own, content.n};
}

static void renumber(join *j, const part *p) {
    for (int i = 1; i < p->o.sections.n; i++) {
        if (!p->section[i]) continue;
        Elf64_Shdr *s = &j->all.sections.at[p->section[i]];
        bytes *content = &j->all.contents.at[p->section[i]];
        bool relocations = s->sh_type == SHT_REL || s->sh_type == SHT_RELA;
        if (relocations || s->sh_type == SHT_GROUP) s->sh_link = (uint32_t)j->all.symtab;
        else if (s->sh_link) s->sh_link = (uint32_t)new_section(p, s->sh_link);
        if (relocations) {
            s->sh_info = (uint32_t)new_section(p, s->sh_info);
            *content = renumber_relocations(p, s, *content);
        } else if (s->sh_type == SHT_GROUP) {
            s->sh_info = (uint32_t)new_symbol(p, s->sh_info);
            *content = renumber_group(p, *content);
        }
    }
}

// ---------------------------------------------------------------- the object
static int add_section(join *j, Elf64_Shdr s, const char *name) {
    s.sh_name = elf_add_string(&j->all, &j->names, name);
    VEC_PUSH(j->all.arena, &j->all.sections, s);
    VEC_PUSH(j->all.arena, &j->all.contents, (bytes){0});
    return j->all.sections.n - 1;
}

static void add_tables(join *j, int locals) {
    elf_object *o = &j->all;
    Elf64_Shdr strings = {.sh_type = SHT_STRTAB, .sh_addralign = 1};
    Elf64_Shdr symbols = {.sh_type = SHT_SYMTAB,
                          .sh_addralign = o->wide ? 8 : 4,
                          .sh_entsize = o->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym),
                          .sh_info = (uint32_t)locals};
    o->strtab = o->shstrtab = add_section(j, strings, ".strtab");
    symbols.sh_link = (uint32_t)o->strtab;
    o->symtab = add_section(j, symbols, ".symtab");
    o->header.e_shstrndx = (Elf64_Half)o->shstrtab;
}

bytes elf_join(arena *a, diag *d, const bytes *objects, int n, int inner, const char *what) {
    join j = {.parts = ARENA_ARRAY(a, part, n), .n = n, .names = {.arena = a}, .globals = {.arena = a}};
    for (int i = 0; i < n; i++) j.parts[i].o = elf_object_read(a, d, objects[i], what);
    const elf_object *first = &j.parts[0].o;
    j.all = (elf_object){.arena = a, .diag = d, .what = what, .wide = first->wide, .header = first->header};
    text_addn(&j.names, "", 1);
    VEC_PUSH(a, &j.all.sections, (Elf64_Shdr){0});
    VEC_PUSH(a, &j.all.contents, (bytes){0});
    VEC_PUSH(a, &j.all.symbols, (Elf64_Sym){0});
    for (int i = 0; i < n; i++) add_part_sections(&j, &j.parts[i], i == 0);
    for (int i = 0; i < n; i++) add_part_locals(&j, &j.parts[i], i == 0);
    for (int i = inner; i < n; i++) add_part_inner(&j, &j.parts[i]);
    int locals = j.all.symbols.n;
    for (int i = 0; i < n; i++) add_part_globals(&j, &j.parts[i]);
    add_tables(&j, locals);
    for (int i = 0; i < n; i++) renumber(&j, &j.parts[i]);
    elf_set_content(&j.all, j.all.strtab, (bytes){j.names.s, j.names.n});
    elf_set_content(&j.all, j.all.symtab, elf_encode_symbols(&j.all));
    elf_lay_out(&j.all);
    text t = {.arena = a};
    sink to = sink_text(&t);
    elf_object_write(&j.all, NULL, &to);
    return (bytes){t.s, t.n};
}
