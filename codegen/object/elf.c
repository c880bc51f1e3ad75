// In: a relocatable ELF object. Out: the object with data sections. Sections and symbols keep their numbers,
// so relocations and groups stay valid: data that code refers to are already undefined symbols and become
// defined, other data are appended as globals. Layout: header, sections in order, new sections, section
// headers.
#include "codegen/object/elf_impl.h"
#include "codegen/object/stack.h"
#include "compiler/base/integers.h"
#include "compiler/base/outfile.h"
#include "ir/loops/weights.h"
#include "ir/target.h"
#include <elf.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "structures are read and written as they are laid out in memory");
enum { SECTIONS_MOST = 0xfeff, LARGE_FLAG = 0x10000000 };

// ---------------------------------------------------------------- classes
// The same struct of class C (Elf32, Elf64).
#define HEADER_OF(C, h)                                                                                      \
    (C##_Ehdr) {                                                                                             \
        .e_type = (h)->e_type, .e_machine = (h)->e_machine, .e_version = (h)->e_version,                     \
        .e_entry = (C##_Addr)(h)->e_entry, .e_shoff = (C##_Off)(h)->e_shoff, .e_flags = (h)->e_flags,        \
        .e_ehsize = (h)->e_ehsize, .e_shentsize = (h)->e_shentsize, .e_shnum = (h)->e_shnum,                 \
        .e_shstrndx = (h)->e_shstrndx                                                                        \
    }
#define SECTION_OF(C, s)                                                                                     \
    (C##_Shdr) {                                                                                             \
        (s)->sh_name, (s)->sh_type, (C##_Off)(s)->sh_flags, (C##_Addr)(s)->sh_addr, (C##_Off)(s)->sh_offset, \
            (C##_Off)(s)->sh_size, (s)->sh_link, (s)->sh_info, (C##_Off)(s)->sh_addralign,                   \
            (C##_Off)(s)->sh_entsize                                                                         \
    }
#define SYMBOL_OF(C, s)                                                                                      \
    (C##_Sym) {                                                                                              \
        .st_name = (s)->st_name, .st_info = (s)->st_info, .st_other = (s)->st_other,                         \
        .st_shndx = (s)->st_shndx, .st_value = (C##_Addr)(s)->st_value, .st_size = (C##_Off)(s)->st_size     \
    }

// ---------------------------------------------------------------- reading
_Noreturn void elf_broken(const elf_object *o, const char *why) {
    diag_fatal(o->diag, NULL, "%s is not a readable ELF object: %s", o->what, why);
}

static const void *part(const elf_object *o, uint64_t offset, uint64_t n) {
    if (offset > o->file.n || n > o->file.n - offset) elf_broken(o, "it is truncated");
    return (const char *)o->file.at + offset;
}

bool elf_is_object(bytes b) { return b.n > EI_NIDENT && !memcmp(b.at, ELFMAG, SELFMAG); }

static void read_header(elf_object *o) {
    const unsigned char *ident = part(o, 0, EI_NIDENT);
    if (memcmp(ident, ELFMAG, SELFMAG)) elf_broken(o, "the magic number is missing");
    if (ident[EI_DATA] != ELFDATA2LSB) elf_broken(o, "it is big-endian");
    o->wide = ident[EI_CLASS] == ELFCLASS64;
    if (o->wide) memcpy(&o->header, part(o, 0, sizeof o->header), sizeof o->header);
    else {
        Elf32_Ehdr h;
        memcpy(&h, part(o, 0, sizeof h), sizeof h);
        o->header = HEADER_OF(Elf64, &h);
        memcpy(o->header.e_ident, h.e_ident, EI_NIDENT);
    }
    if (o->header.e_type != ET_REL) elf_broken(o, "it is not relocatable");
    if (!o->header.e_shnum) elf_broken(o, "it has no sections, or too many");
}

static void read_sections(elf_object *o) {
    for (int i = 0; i < o->header.e_shnum; i++) {
        size_t size = o->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
        const void *at = part(o, o->header.e_shoff + (uint64_t)i * size, size);
        Elf64_Shdr s;
        Elf32_Shdr narrow;
        if (o->wide) memcpy(&s, at, sizeof s);
        else {
            memcpy(&narrow, at, sizeof narrow);
            s = SECTION_OF(Elf64, &narrow);
        }
        bool empty = s.sh_type == SHT_NOBITS || s.sh_type == SHT_NULL;
        bytes content = {empty ? NULL : part(o, s.sh_offset, s.sh_size), empty ? 0 : s.sh_size};
        VEC_PUSH(o->arena, &o->sections, s);
        VEC_PUSH(o->arena, &o->contents, content);
        if (s.sh_type == SHT_SYMTAB) o->symtab = i;
    }
    o->shstrtab = o->header.e_shstrndx;
    if (o->shstrtab >= o->sections.n) elf_broken(o, "its section names are missing");
    if (!o->symtab) return;
    o->strtab = (int)o->sections.at[o->symtab].sh_link;
    if (o->strtab >= o->sections.n) elf_broken(o, "its symbol names are missing");
}

static void read_symbols(elf_object *o) {
    size_t size = o->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
    bytes table = o->symtab ? o->contents.at[o->symtab] : (bytes){0};
    for (size_t at = 0; at + size <= table.n; at += size) {
        Elf64_Sym s;
        Elf32_Sym narrow;
        const char *from = (const char *)table.at + at;
        if (o->wide) memcpy(&s, from, sizeof s);
        else {
            memcpy(&narrow, from, sizeof narrow);
            s = SYMBOL_OF(Elf64, &narrow);
        }
        VEC_PUSH(o->arena, &o->symbols, s);
    }
}

elf_object elf_object_read(arena *a, diag *d, bytes file, const char *what) {
    elf_object o = {.arena = a, .diag = d, .file = file, .what = what};
    read_header(&o);
    read_sections(&o);
    read_symbols(&o);
    return o;
}

const char *elf_string_at(const elf_object *o, int table, uint32_t at) {
    bytes t = o->contents.at[table];
    if (at >= t.n || !memchr((const char *)t.at + at, 0, t.n - at))
        elf_broken(o, "a name is outside its string table");
    return (const char *)t.at + at;
}

const char *elf_section_name(const elf_object *o, int i) {
    return elf_string_at(o, o->shstrtab, o->sections.at[i].sh_name);
}

elf_file *elf_read(arena *a, diag *d, bytes file, const char *what) {
    elf_object o = elf_object_read(a, d, file, what);
    elf_file *f = ARENA_NEW(a, elf_file);
    f->bits = o.wide ? 64 : 32;
    f->machine = o.header.e_machine;
    for (int i = 0; i < o.sections.n; i++) {
        const Elf64_Shdr *s = &o.sections.at[i];
        VEC_PUSH(a, &f->sections,
                 (elf_section){elf_section_name(&o, i), s->sh_type, s->sh_flags, s->sh_size, s->sh_addralign,
                               o.contents.at[i]});
    }
    for (int i = 1; i < o.symbols.n; i++) {
        const Elf64_Sym *s = &o.symbols.at[i];
        int type = ELF64_ST_TYPE(s->st_info), bind = ELF64_ST_BIND(s->st_info);
        if (type == STT_SECTION || type == STT_FILE) continue;
        const char *section = s->st_shndx == SHN_UNDEF          ? NULL
                              : s->st_shndx < (int)o.sections.n ? elf_section_name(&o, s->st_shndx)
                                                                : "*ABS*";
        VEC_PUSH(a, &f->symbols,
                 (elf_symbol){elf_string_at(&o, o.strtab, s->st_name), section, s->st_value, s->st_size,
                              bind == STB_LOCAL, bind == STB_WEAK,
                              ELF64_ST_VISIBILITY(s->st_other) == STV_HIDDEN, type == STT_FUNC});
    }
    return f;
}

// ---------------------------------------------------------------- adding data
uint32_t elf_add_string(elf_object *o, text *table, const char *s) {
    if (table->n + strlen(s) + 1 > UINT32_MAX)
        diag_fatal_missing(o->diag, NULL, "the object has too many symbol names");
    uint32_t at = (uint32_t)table->n;
    text_addn(table, s, strlen(s) + 1);
    return at;
}

static text copy_table(elf_object *o, int section) {
    text t = {.arena = o->arena};
    text_addn(&t, o->contents.at[section].at, o->contents.at[section].n);
    return t;
}

// Name -> number.
static map undefined_symbols(elf_object *o) {
    map m = {.arena = o->arena};
    for (int i = 1; i < o->symbols.n; i++)
        if (o->symbols.at[i].st_shndx == SHN_UNDEF)
            map_put(&m, elf_string_at(o, o->strtab, o->symbols.at[i].st_name), (void *)(intptr_t)i);
    return m;
}

void elf_check_data(diag *d, const lmodule *m) {
    int64_t total = 0, most = m->target->ptr_bits == 32 ? INT32_MAX : ((int64_t)1 << 31) - (1 << 26);
    for (int i = 0; i < m->data.n; i++) total += m->data.at[i]->bytes;
    if (data_is_large(m) || total <= most) return;
    diag_hint(d, "--weights FILE keeps them outside the object");
    diag_fatal_missing(d, NULL, "%lld bytes of constants are more than code for %s can address",
                       (long long)total, m->target->triple);
}

// Adds a section and a symbol for each datum. The contents are written later.
static void add_data(elf_object *o, const lmodule *m, text *names, text *section_names) {
    map undefined = undefined_symbols(o);
    bool large = data_is_large(m);
    for (int i = 0; i < m->data.n; i++) {
        const ldata *d = m->data.at[i];
        intptr_t number = (intptr_t)map_get(&undefined, d->name);
        const char *in = d->section ? d->section
                         : large    ? ".lrodata"
                                    : ".rodata",
                   *name = d->variable ? in : arena_printf(o->arena, "%s.%s", in, d->name);
        Elf64_Shdr s = {.sh_name = elf_add_string(o, section_names, name),
                        .sh_type = d->variable ? SHT_NOBITS : SHT_PROGBITS,
                        .sh_flags = SHF_ALLOC | (d->variable ? SHF_WRITE
                                                 : large     ? LARGE_FLAG
                                                             : 0),
                        .sh_size = (uint64_t)d->bytes,
                        .sh_addralign = (uint64_t)(d->align > 0 ? d->align : 1)};
        Elf64_Sym y = {.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                       .st_other = d->exported ? STV_DEFAULT : STV_HIDDEN,
                       .st_shndx = (Elf64_Section)o->sections.n,
                       .st_size = (uint64_t)d->bytes};
        y.st_name = number ? o->symbols.at[number].st_name : elf_add_string(o, names, d->name);
        VEC_PUSH(o->arena, &o->sections, s);
        VEC_PUSH(o->arena, &o->contents, (bytes){0});
        if (number) o->symbols.at[number] = y;
        else VEC_PUSH(o->arena, &o->symbols, y);
    }
}

bytes elf_encode_symbols(const elf_object *o) {
    size_t size = o->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
    char *table = arena_calloc(o->arena, (size_t)o->symbols.n, size);
    for (int i = 0; i < o->symbols.n; i++) {
        Elf32_Sym narrow = SYMBOL_OF(Elf32, &o->symbols.at[i]);
        memcpy(table + (size_t)i * size, o->wide ? (void *)&o->symbols.at[i] : (void *)&narrow, size);
    }
    return (bytes){table, (size_t)o->symbols.n * size};
}

void elf_set_content(elf_object *o, int section, bytes content) {
    o->contents.at[section] = content;
    o->sections.at[section].sh_size = content.n;
}

// ---------------------------------------------------------------- writing
typedef struct writer {
    const sink *to;
    uint64_t at;
} writer;

static void put(writer *w, const void *p, size_t n) {
    sink_addn(w->to, p, n);
    w->at += n;
}

static void pad_to(writer *w, uint64_t offset) {
    static const char zeros[256];
    while (w->at < offset)
        put(w, zeros, offset - w->at < sizeof zeros ? (size_t)(offset - w->at) : sizeof zeros);
}

void elf_lay_out(elf_object *o) {
    uint64_t at = o->wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
    for (int i = 1; i < o->sections.n; i++) {
        Elf64_Shdr *s = &o->sections.at[i];
        s->sh_offset = at = (uint64_t)round_up((int64_t)at, s->sh_addralign ? (int64_t)s->sh_addralign : 1);
        if (s->sh_type != SHT_NOBITS) at += s->sh_size;
    }
    o->header.e_shoff = (uint64_t)round_up((int64_t)at, 8);
    o->header.e_shnum = (Elf64_Half)o->sections.n;
    uint64_t end = o->header.e_shoff + (uint64_t)o->sections.n * sizeof(Elf32_Shdr);
    if (!o->wide && end > UINT32_MAX)
        diag_fatal_missing(o->diag, NULL, "a 32-bit object cannot hold %llu bytes", (unsigned long long)end);
}

static void put_header(writer *w, const elf_object *o) {
    Elf32_Ehdr narrow = HEADER_OF(Elf32, &o->header);
    memcpy(narrow.e_ident, o->header.e_ident, EI_NIDENT);
    if (o->wide) put(w, &o->header, sizeof o->header);
    else put(w, &narrow, sizeof narrow);
}

static void put_section_headers(writer *w, const elf_object *o) {
    pad_to(w, o->header.e_shoff);
    for (int i = 0; i < o->sections.n; i++) {
        Elf32_Shdr narrow = SECTION_OF(Elf32, &o->sections.at[i]);
        if (o->wide) put(w, &o->sections.at[i], sizeof(Elf64_Shdr));
        else put(w, &narrow, sizeof narrow);
    }
}

void elf_object_write(const elf_object *o, const lmodule *m, const sink *to) {
    writer w = {.to = to};
    int ndata = m ? m->data.n : 0, first = o->sections.n - ndata;
    put_header(&w, o);
    for (int i = 1; i < o->sections.n; i++) {
        if (o->sections.at[i].sh_type == SHT_NOBITS) continue;
        pad_to(&w, o->sections.at[i].sh_offset);
        if (i >= first) {
            weights_write(o->arena, m->data.at[i - first], to);
            w.at += o->sections.at[i].sh_size;
        } else put(&w, o->contents.at[i].at, o->contents.at[i].n);
    }
    put_section_headers(&w, o);
}

void elf_write(arena *a, diag *d, bytes file, const lmodule *m, const sink *to) {
    elf_object o = elf_object_read(a, d, file, m->name);
    if (!o.symtab) elf_broken(&o, "it has no symbols");
    stack_drop_frames(&o);
    elf_check_data(d, m);
    if (o.sections.n + m->data.n > SECTIONS_MOST)
        diag_fatal_missing(d, NULL, "%d constants need more sections than an object can hold (%d)", m->data.n,
                           SECTIONS_MOST);
    text names = copy_table(&o, o.strtab), other = {0};
    text *section_names = &names;
    if (o.shstrtab != o.strtab) {
        other = copy_table(&o, o.shstrtab);
        section_names = &other;
    }
    add_data(&o, m, &names, section_names);
    elf_set_content(&o, o.strtab, (bytes){names.s, names.n});
    if (section_names == &other) elf_set_content(&o, o.shstrtab, (bytes){other.s, other.n});
    elf_share_names(&o);
    elf_set_content(&o, o.symtab, elf_encode_symbols(&o));
    elf_lay_out(&o);
    elf_object_write(&o, m, to);
}

void elf_write_file(arena *a, diag *d, bytes file, const lmodule *m, const char *path) {
    outfile *f = outfile_open(a, d, path, false);
    sink to = outfile_sink(f);
    elf_write(a, d, file, m, &to);
    outfile_commit(f);
}
