// In: a Mach-O object of LLVM. Out: its symbols; the object with one more section, for the module's data. Code refers to
// data by undefined symbols, which become defined. As defined symbols come before undefined ones, symbols are renumbered, also in
// relocations. Layout: header, load commands, sections, the data, relocations, symbols, indirect symbols, names.
#include "codegen/object/macho.h"
#include "compiler/base/integers.h"
#include "ir/loops/weights.h"
#include "ir/target.h"
#include <string.h>

enum {
    MAGIC_64 = 0xfeedfacf,
    OBJECT_FILE = 1,
    LC_SYMTAB = 0x2,
    LC_DYSYMTAB = 0xb,
    LC_SEGMENT_64 = 0x19,
    LC_DATA_IN_CODE = 0x29,
    LC_LINKER_OPTIMIZATION_HINT = 0x2e,
    TYPE_EXTERNAL = 0x01,
    TYPE_PRIVATE = 0x10, // external within what is linked
    TYPE_MASK = 0x0e,
    TYPE_SECTION = 0x0e,
    DESC_WEAK_REFERENCE = 0x40,
    RELOCATION = 8,
    INDIRECT_LOCAL = 0xc0000000, // flags of indirect symbols without a number
    SECTIONS_MOST = 255,
    DATA_ALIGN_LOG = 6,
};

// As in <mach-o/loader.h>, <mach-o/nlist.h> and <mach-o/reloc.h>.
typedef struct head {
    uint32_t magic, cpu, subtype, type, ncommands, commands, flags, reserved;
} head;
typedef struct command {
    uint32_t kind, size;
} command;
typedef struct segment {
    command command;
    char name[16];
    uint64_t address, memory, offset, bytes;
    uint32_t protection[2], nsections, flags;
} segment;
typedef struct section {
    char name[16], segment[16];
    uint64_t address, bytes;
    uint32_t offset, align, relocations, nrelocations, flags, reserved[3];
} section;
typedef struct symtab {
    command command;
    uint32_t symbols, nsymbols, names, bytes;
} symtab;
typedef struct dysymtab {
    command command;
    uint32_t local, nlocal, defined, ndefined, undefined, nundefined;
    uint32_t unused[6], indirect, nindirect, more[4];
} dysymtab;
typedef struct linkedit {
    command command;
    uint32_t offset, bytes;
} linkedit;
typedef struct symbol {
    uint32_t name;
    uint8_t type, section;
    uint16_t desc;
    uint64_t value;
} symbol;

typedef struct macho {
    arena *arena;
    diag *diag;
    bytes file;
    const char *what;
    head head;
    char *commands; // a copy
    segment *segment;
    section *sections;
    symtab *symtab;
    dysymtab *dysymtab; // NULL: none
    VEC(symbol) symbols;
} macho;

static _Noreturn void broken(const macho *o, const char *why) {
    diag_fatal(o->diag, NULL, "%s is not a readable Mach-O object: %s", o->what, why);
}

static const char *part(const macho *o, uint64_t at, uint64_t n) {
    if (at > o->file.n || n > o->file.n - at) broken(o, "it is truncated");
    return (const char *)o->file.at + at;
}

bool macho_is_object(bytes b) {
    head h;
    if (b.n < sizeof h) return false;
    memcpy(&h, b.at, sizeof h);
    return h.magic == MAGIC_64 && h.type == OBJECT_FILE;
}

// The command at an offset, if it has this number of bytes.
static void *command_at(const macho *o, uint32_t at, size_t least) {
    const command *c = (const command *)(void *)(o->commands + at);
    if (c->size < least) broken(o, "a load command is too short");
    return (void *)(uintptr_t)c;
}

static void read_commands(macho *o) {
    o->commands = arena_grow(o->arena, part(o, sizeof o->head, o->head.commands), o->head.commands,
                             o->head.commands + 8);
    for (uint32_t i = 0, at = 0; i < o->head.ncommands; i++) {
        if (at > o->head.commands - sizeof(command)) broken(o, "its load commands are truncated");
        const command *c = command_at(o, at, sizeof *c);
        if (c->size > o->head.commands - at) broken(o, "its load commands are truncated");
        if (c->kind == LC_SEGMENT_64) o->segment = command_at(o, at, sizeof(segment));
        if (c->kind == LC_SYMTAB) o->symtab = command_at(o, at, sizeof(symtab));
        if (c->kind == LC_DYSYMTAB) o->dysymtab = command_at(o, at, sizeof(dysymtab));
        at += c->size;
    }
    if (!o->segment) broken(o, "it has no sections");
    if ((o->segment->command.size - sizeof(segment)) / sizeof(section) < o->segment->nsections)
        broken(o, "its sections are truncated");
    o->sections = (section *)(o->segment + 1);
}

static macho macho_read(arena *a, diag *d, bytes file, const char *what) {
    macho o = {.arena = a, .diag = d, .file = file, .what = what};
    memcpy(&o.head, part(&o, 0, sizeof o.head), sizeof o.head);
    read_commands(&o);
    if (!o.symtab) return o;
    const char *all = part(&o, o.symtab->symbols, (uint64_t)o.symtab->nsymbols * sizeof(symbol));
    part(&o, o.symtab->names, o.symtab->bytes);
    for (uint32_t i = 0; i < o.symtab->nsymbols; i++) {
        symbol s;
        memcpy(&s, all + i * sizeof s, sizeof s);
        VEC_PUSH(a, &o.symbols, s);
    }
    return o;
}

static const char *name_of(const macho *o, const symbol *s) {
    const char *names = (const char *)o->file.at + o->symtab->names;
    if (s->name >= o->symtab->bytes || !memchr(names + s->name, 0, o->symtab->bytes - s->name))
        broken(o, "a name is outside its string table");
    return names + s->name;
}

static bool is_local(const symbol *s) { return !(s->type & TYPE_EXTERNAL); }

// A common symbol has its size as a value.
static bool is_defined(const symbol *s) { return (s->type & TYPE_MASK) != 0; }

object_symbols macho_read_symbols(arena *a, diag *d, bytes object, const char *what) {
    macho o = macho_read(a, d, object, what);
    object_symbols all = {0};
    for (int i = 0; i < o.symbols.n; i++) {
        const symbol *s = &o.symbols.at[i];
        bool defined = is_defined(s), common = !defined && s->value;
        if (!is_local(s))
            VEC_PUSH(a, &all,
                     (object_symbol){name_of(&o, s), defined || common, false,
                                     !defined && (s->desc & DESC_WEAK_REFERENCE)});
    }
    return all;
}

// ---------------------------------------------------------------- adding data
typedef struct writer {
    macho o;
    const lmodule *m;
    text names;
    VEC(symbol) symbols; // in their new order
    uint32_t *number;    // old number -> new
    uint64_t address;    // of the data
    int64_t data_bytes;
    uint64_t padding; // before them in the file
} writer;

static void place_data(writer *w) {
    for (int i = 0; i < w->m->data.n; i++) {
        const ldata *d = w->m->data.at[i];
        if (d->align > 1 << DATA_ALIGN_LOG)
            diag_defect(w->o.diag, NULL, "constant %s is aligned to %d bytes", d->name, d->align);
        w->data_bytes = round_up(w->data_bytes, d->align > 0 ? d->align : 1) + d->bytes;
    }
    w->address = (uint64_t)round_up((int64_t)w->o.segment->memory, 1 << DATA_ALIGN_LOG);
    w->padding = w->address - w->o.segment->memory;
}

// Name of an undefined symbol -> 1 + number.
static map undefined_symbols(const macho *o) {
    map m = {.arena = o->arena};
    for (int i = 0; i < o->symbols.n; i++)
        if (!is_defined(&o->symbols.at[i]))
            map_put(&m, name_of(o, &o->symbols.at[i]), (void *)(intptr_t)(i + 1));
    return m;
}

static void define_data(writer *w) {
    map undefined = undefined_symbols(&w->o);
    uint64_t at = w->address;
    for (int i = 0; i < w->m->data.n; i++) {
        const ldata *d = w->m->data.at[i];
        const char *name = arena_printf(w->o.arena, "_%s", d->name);
        intptr_t number = (intptr_t)map_get(&undefined, name);
        at = (uint64_t)round_up((int64_t)at, d->align > 0 ? d->align : 1);
        symbol s = {.type = TYPE_SECTION | TYPE_EXTERNAL | (d->exported ? 0 : TYPE_PRIVATE),
                    .section = (uint8_t)(w->o.segment->nsections + 1),
                    .value = at};
        s.name = number ? w->o.symbols.at[number - 1].name : (uint32_t)w->names.n;
        if (number) w->o.symbols.at[number - 1] = s;
        else {
            text_addn(&w->names, name, strlen(name) + 1);
            VEC_PUSH(w->o.arena, &w->o.symbols, s);
        }
        at += (uint64_t)d->bytes;
    }
}

// Local, then defined, then undefined symbols.
static void sort_symbols(writer *w) {
    const macho *o = &w->o;
    uint32_t begin[4] = {0};
    w->number = ARENA_ARRAY(o->arena, uint32_t, o->symbols.n + 1);
    for (int class = 0; class < 3; class ++) {
        for (int i = 0; i < o->symbols.n; i++) {
            const symbol *s = &o->symbols.at[i];
            if ((is_local(s) ? 0 : is_defined(s) ? 1 : 2) != class) continue;
            w->number[i] = (uint32_t)w->symbols.n;
            VEC_PUSH(o->arena, &w->symbols, *s);
        }
        begin[class + 1] = (uint32_t)w->symbols.n;
    }
    if (!o->dysymtab) return;
    o->dysymtab->nlocal = o->dysymtab->defined = begin[1];
    o->dysymtab->ndefined = begin[2] - begin[1];
    o->dysymtab->undefined = begin[2];
    o->dysymtab->nundefined = begin[3] - begin[2];
}

// ---------------------------------------------------------------- writing
static uint32_t contents_end(const macho *o) { return (uint32_t)(o->segment->offset + o->segment->bytes); }

// Where a part of the file after the sections goes.
static uint32_t moved(const writer *w, uint32_t at) {
    const symtab *t = w->o.symtab;
    uint64_t by = sizeof(section) + w->padding + (uint64_t)w->data_bytes;
    if (at > t->symbols) by += ((uint64_t)w->symbols.n - t->nsymbols) * sizeof(symbol);
    if (at + by + w->names.n > UINT32_MAX)
        diag_fatal_missing(w->o.diag, NULL, "a Mach-O object has at most 4 GiB");
    return at ? (uint32_t)(at + by) : 0;
}

static section data_section(const writer *w) {
    section s = {.name = "__weights",
                 .segment = "__TEXT",
                 .address = w->address,
                 .bytes = (uint64_t)w->data_bytes,
                 .offset = (uint32_t)(contents_end(&w->o) + sizeof(section) + w->padding),
                 .align = DATA_ALIGN_LOG};
    return s;
}

static void put_sections(const writer *w, const sink *to) {
    const macho *o = &w->o;
    segment g = *o->segment;
    g.command.size += (uint32_t)sizeof(section);
    g.memory = w->address + (uint64_t)w->data_bytes;
    g.offset += sizeof(section);
    g.bytes += w->padding + (uint64_t)w->data_bytes;
    g.nsections++;
    sink_addn(to, (const char *)&g, sizeof g);
    for (uint32_t i = 0; i < o->segment->nsections; i++) {
        section s = o->sections[i];
        if (s.offset) s.offset += (uint32_t)sizeof(section);
        s.relocations = moved(w, s.relocations);
        sink_addn(to, (const char *)&s, sizeof s);
    }
    section own = data_section(w);
    sink_addn(to, (const char *)&own, sizeof own);
}

static void move_tables(const writer *w, command *c) {
    if (c->kind == LC_SYMTAB) {
        symtab *t = (symtab *)(void *)c;
        *t = (symtab){*c, moved(w, t->symbols), (uint32_t)w->symbols.n, moved(w, t->names),
                      (uint32_t)w->names.n};
    } else if (c->kind == LC_DYSYMTAB) {
        dysymtab *t = (dysymtab *)(void *)c;
        t->indirect = moved(w, t->indirect);
    } else if (c->kind == LC_DATA_IN_CODE || c->kind == LC_LINKER_OPTIMIZATION_HINT) {
        linkedit *t = (linkedit *)(void *)c;
        t->offset = moved(w, t->offset);
    }
}

static void put_commands(const writer *w, const sink *to) {
    const macho *o = &w->o;
    head h = o->head;
    h.commands += (uint32_t)sizeof(section);
    sink_addn(to, (const char *)&h, sizeof h);
    for (uint32_t i = 0, at = 0; i < h.ncommands; i++) {
        const command *c = command_at(o, at, sizeof *c);
        char *own = arena_grow(o->arena, c, c->size, c->size + 8);
        if (c->kind == LC_SEGMENT_64) put_sections(w, to);
        else {
            move_tables(w, (command *)(void *)own);
            sink_addn(to, own, c->size);
        }
        at += c->size;
    }
}

static uint32_t renumbered(const writer *w, uint32_t old) {
    if (old >= (uint32_t)w->o.symbols.n) broken(&w->o, "it refers to a symbol that it does not contain");
    return w->number[old];
}

// An entry is the address, then the symbol's number in 24 bits, of which bit 27 says that it is one.
static void renumber_relocations(const writer *w, char *file) {
    enum { NUMBER = 0xffffff, EXTERNAL = 1 << 27 };
    for (uint32_t i = 0; i < w->o.segment->nsections; i++) {
        const section *s = &w->o.sections[i];
        part(&w->o, s->relocations, (uint64_t)s->nrelocations * RELOCATION);
        for (uint32_t k = 0; k < s->nrelocations; k++) {
            char *at = file + s->relocations + (size_t)k * RELOCATION + 4;
            uint32_t info;
            memcpy(&info, at, 4);
            if (info & EXTERNAL) info = (info & ~(uint32_t)NUMBER) | renumbered(w, info & NUMBER);
            memcpy(at, &info, 4);
        }
    }
}

static void renumber_indirect(const writer *w, char *file) {
    const dysymtab *t = w->o.dysymtab;
    if (!t) return;
    part(&w->o, t->indirect, (uint64_t)t->nindirect * 4);
    for (uint32_t i = 0; i < t->nindirect; i++) {
        uint32_t number;
        memcpy(&number, file + t->indirect + (size_t)i * 4, 4);
        if (!(number & INDIRECT_LOCAL)) number = renumbered(w, number);
        memcpy(file + t->indirect + (size_t)i * 4, &number, 4);
    }
}

void macho_write(arena *a, diag *d, bytes object, const lmodule *m, const sink *to) {
    writer w = {.o = macho_read(a, d, object, m->name), .m = m, .names = {.arena = a}};
    const symtab *t = w.o.symtab;
    if (!t) broken(&w.o, "it has no symbols");
    uint32_t begin = (uint32_t)(sizeof(head) + w.o.head.commands), end = contents_end(&w.o),
             behind = t->symbols + t->nsymbols * (uint32_t)sizeof(symbol);
    if (w.o.segment->nsections >= SECTIONS_MOST || end < begin || t->symbols < end || t->names < behind)
        broken(&w.o, "its parts have an unexpected order");
    text_addn(&w.names, part(&w.o, t->names, t->bytes), t->bytes);
    place_data(&w);
    define_data(&w);
    sort_symbols(&w);
    char *file = arena_grow(a, object.at, object.n, object.n + 1);
    renumber_relocations(&w, file);
    renumber_indirect(&w, file);
    put_commands(&w, to);
    sink_addn(to, file + begin, end - begin);
    object_write_data(a, m, w.padding, to);
    sink_addn(to, file + end, t->symbols - end);
    sink_addn(to, (const char *)w.symbols.at, (size_t)w.symbols.n * sizeof(symbol));
    sink_addn(to, file + behind, t->names - behind);
    sink_addn(to, w.names.s, w.names.n);
}
