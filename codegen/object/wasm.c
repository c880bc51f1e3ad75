// In: a relocatable WebAssembly object. Out: its symbols, or the object with the module's data. Each datum becomes a
// segment at the end of the data section. Symbols keep their numbers: data that code refers to are already undefined
// symbols and become defined, other data are appended.
#include "codegen/object/wasm.h"
#include "codegen/object/elf.h"
#include "compiler/base/protobuf.h"
#include "ir/loops/weights.h"
#include <string.h>

enum { CUSTOM = 0, IMPORT = 2, CODE = 10, DATA = 11, DATA_COUNT = 12 };                        // sections
enum { SEGMENTS = 5, SYMBOLS = 8 };                                                            // of "linking"
enum { OF_FUNCTION, OF_DATA, OF_GLOBAL, OF_SECTION, OF_TAG, OF_TABLE, KINDS };                 // of symbols
enum { WEAK = 0x1, LOCAL = 0x2, BINDING = 0x3, HIDDEN = 0x4, UNDEFINED = 0x10, NAMED = 0x40 }; // flags
enum { IS_FUNCTION, IS_TABLE, IS_MEMORY, IS_GLOBAL, IS_TAG };                                  // of imports
enum { HEADER = 8, LINKING_VERSION = 2 };
static const char magic[HEADER] = "\0asm\1\0\0";

typedef struct section {
    int id;
    bytes content;
} section;

typedef struct symbol {
    int kind;
    uint64_t flags, index, offset, size;
    bytes name;
} symbol;

typedef struct object {
    arena *arena;
    diag *diag;
    const char *what;
    VEC(section) sections;
    VEC(bytes) imports[KINDS]; // names by the kind of their symbols
    VEC(symbol) symbols;
    int linking, data, data_count; // numbers of sections; -1: there is none
} object;

// ---------------------------------------------------------------- reading
typedef struct reader {
    const object *o;
    const char *at, *end;
} reader;

static _Noreturn void broken(const object *o) {
    diag_fatal(o->diag, NULL, "%s is not a readable WebAssembly object", o->what);
}

static reader reader_of(const object *o, bytes b) { return (reader){o, b.at, (const char *)b.at + b.n}; }

static uint64_t get_number(reader *r) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (r->at == r->end) break;
        unsigned char c = (unsigned char)*r->at++;
        v |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) return v;
    }
    broken(r->o);
}

static bytes get_bytes(reader *r) {
    uint64_t n = get_number(r);
    if (n > (uint64_t)(r->end - r->at)) broken(r->o);
    bytes b = {r->at, n};
    r->at += n;
    return b;
}

static bytes rest(const reader *r) { return (bytes){r->at, (size_t)(r->end - r->at)}; }

static bool is_text(bytes b, const char *s) { return b.n == strlen(s) && !memcmp(b.at, s, b.n); }

static void skip_limits(reader *r) {
    uint64_t flags = get_number(r);
    get_number(r);
    if (flags & 1) get_number(r);
}

static void read_imports(object *o, bytes content) {
    static const int kinds[] = {[IS_FUNCTION] = OF_FUNCTION,
                                [IS_TABLE] = OF_TABLE,
                                [IS_MEMORY] = KINDS,
                                [IS_GLOBAL] = OF_GLOBAL,
                                [IS_TAG] = OF_TAG};
    reader r = reader_of(o, content);
    for (uint64_t n = get_number(&r); n > 0; n--) {
        get_bytes(&r);
        bytes name = get_bytes(&r);
        uint64_t kind = get_number(&r);
        if (kind > IS_TAG) broken(o);
        if (kind != IS_MEMORY) get_number(&r); // a type
        if (kind == IS_MEMORY || kind == IS_TABLE) skip_limits(&r);
        if (kind == IS_GLOBAL || kind == IS_TAG) get_number(&r);
        if (kinds[kind] < KINDS) VEC_PUSH(o->arena, &o->imports[kinds[kind]], name);
    }
}

static symbol read_symbol(object *o, reader *r) {
    symbol s = {.kind = (int)get_number(r), .flags = get_number(r)};
    bool defined = !(s.flags & UNDEFINED);
    if (s.kind == OF_DATA) {
        s.name = get_bytes(r);
        if (!defined) return s;
        s.index = get_number(r), s.offset = get_number(r), s.size = get_number(r);
        return s;
    }
    if (s.kind < 0 || s.kind >= KINDS) broken(o);
    s.index = get_number(r);
    if (s.kind == OF_SECTION) return s;
    if (defined || (s.flags & NAMED)) {
        s.name = get_bytes(r);
    } else {
        if (s.index >= (uint64_t)o->imports[s.kind].n) broken(o);
        s.name = o->imports[s.kind].at[s.index];
    }
    return s;
}

static void read_linking(object *o, reader *r) {
    if (get_number(r) != LINKING_VERSION) broken(o);
    while (r->at < r->end) {
        uint64_t kind = get_number(r);
        reader part = reader_of(o, get_bytes(r));
        if (kind != SYMBOLS) continue;
        for (uint64_t n = get_number(&part); n > 0; n--) {
            symbol s = read_symbol(o, &part);
            VEC_PUSH(o->arena, &o->symbols, s);
        }
    }
}

bool wasm_is_object(bytes file) { return file.n >= HEADER && !memcmp(file.at, magic, HEADER); }

static object *read_object(arena *a, diag *d, bytes file, const char *what) {
    object *o = ARENA_NEW(a, object);
    *o = (object){.arena = a, .diag = d, .what = what, .linking = -1, .data = -1, .data_count = -1};
    reader r = reader_of(o, file);
    for (r.at += HEADER; r.at < r.end;) {
        section s = {.id = (int)get_number(&r)};
        s.content = get_bytes(&r);
        if (s.id == IMPORT) read_imports(o, s.content);
        if (s.id == DATA) o->data = o->sections.n;
        if (s.id == DATA_COUNT) o->data_count = o->sections.n;
        reader inside = reader_of(o, s.content);
        if (s.id == CUSTOM && is_text(get_bytes(&inside), "linking")) {
            o->linking = o->sections.n;
            read_linking(o, &inside);
        }
        VEC_PUSH(a, &o->sections, s);
    }
    if (o->linking < 0) broken(o);
    return o;
}

object_symbols wasm_read_symbols(arena *a, diag *d, bytes file, const char *what) {
    const object *o = read_object(a, d, file, what);
    object_symbols found = {0};
    for (int i = 0; i < o->symbols.n; i++) {
        const symbol *s = &o->symbols.at[i];
        if (s->kind == OF_SECTION) continue;
        VEC_PUSH(a, &found,
                 (object_symbol){arena_strndup(a, s->name.at, s->name.n), !(s->flags & UNDEFINED),
                                 (s->flags & BINDING) == LOCAL, (s->flags & BINDING) == WEAK});
    }
    return found;
}

// ---------------------------------------------------------------- the data section
static void put_bytes(text *t, bytes b) {
    pb_varint(t, b.n);
    text_addn(t, b.at, b.n);
}

// Sections in front of it keep their numbers. Relocations and symbols of sections name others by number.
static void insert_data_section(object *o) {
    int at = 0;
    for (int i = 0; i < o->sections.n; i++)
        if (o->sections.at[i].id != CUSTOM) at = i + 1;
    VEC_PUSH(o->arena, &o->sections, (section){0});
    memmove(&o->sections.at[at + 1], &o->sections.at[at],
            (size_t)(o->sections.n - 1 - at) * sizeof *o->sections.at);
    o->sections.at[at] = (section){DATA, {"\0", 1}};
    o->data = at;
    o->linking += o->linking >= at;
    for (int i = 0; i < o->symbols.n; i++)
        if (o->symbols.at[i].kind == OF_SECTION)
            o->symbols.at[i].index += o->symbols.at[i].index >= (uint64_t)at;
    for (int i = 0; i < o->sections.n; i++) {
        section *s = &o->sections.at[i];
        reader r = reader_of(o, s->content);
        bytes name = s->id == CUSTOM ? get_bytes(&r) : (bytes){"", 0};
        if (name.n < 6 || memcmp(name.at, "reloc.", 6) != 0) continue;
        uint64_t target = get_number(&r);
        bytes others = rest(&r);
        text t = {.arena = o->arena};
        put_bytes(&t, name);
        pb_varint(&t, target + (target >= (uint64_t)at));
        text_addn(&t, others.at, others.n);
        s->content = (bytes){t.s, t.n};
    }
}

// An active segment at 0, which the linker moves.
static bytes segment_head(object *o, const ldata *d) {
    text t = {.arena = o->arena};
    text_addn(&t, "\0\x41\0\x0b", 4);
    pb_varint(&t, (uint64_t)d->bytes);
    return (bytes){t.s, t.n};
}

static void count_segments(object *o, const lmodule *m) {
    if (o->data_count < 0) return;
    text t = {.arena = o->arena};
    section *s = &o->sections.at[o->data_count];
    reader r = reader_of(o, s->content);
    pb_varint(&t, get_number(&r) + (uint64_t)m->data.n);
    s->content = (bytes){t.s, t.n};
}

// ---------------------------------------------------------------- symbols
static void define_data(object *o, const lmodule *m, uint64_t first) {
    map undefined = {.arena = o->arena}; // name -> number + 1
    for (int i = 0; i < o->symbols.n; i++) {
        const symbol *s = &o->symbols.at[i];
        if (s->kind == OF_DATA && (s->flags & UNDEFINED))
            map_put(&undefined, arena_strndup(o->arena, s->name.at, s->name.n), (void *)(intptr_t)(i + 1));
    }
    for (int i = 0; i < m->data.n; i++) {
        const ldata *d = m->data.at[i];
        intptr_t number = (intptr_t)map_get(&undefined, d->name);
        symbol s = {.kind = OF_DATA,
                    .flags = d->exported ? 0 : HIDDEN,
                    .index = first + (uint64_t)i,
                    .size = (uint64_t)d->bytes,
                    .name = {d->name, strlen(d->name)}};
        if (number) o->symbols.at[number - 1] = s;
        else VEC_PUSH(o->arena, &o->symbols, s);
    }
}

static void put_symbol(text *t, const symbol *s) {
    bool defined = !(s->flags & UNDEFINED);
    pb_varint(t, (uint64_t)s->kind);
    pb_varint(t, s->flags);
    if (s->kind != OF_DATA) pb_varint(t, s->index);
    if (s->kind != OF_SECTION && (s->kind == OF_DATA || defined || (s->flags & NAMED))) put_bytes(t, s->name);
    if (s->kind != OF_DATA || !defined) return;
    pb_varint(t, s->index);
    pb_varint(t, s->offset);
    pb_varint(t, s->size);
}

static bytes symbol_table(object *o) {
    text t = {.arena = o->arena};
    pb_varint(&t, (uint64_t)o->symbols.n);
    for (int i = 0; i < o->symbols.n; i++) put_symbol(&t, &o->symbols.at[i]);
    return (bytes){t.s, t.n};
}

static int log2_of(int align) {
    int n = 0;
    while (align > 1 << n) n++;
    return n;
}

static bytes segment_table(object *o, const lmodule *m, bytes old) {
    text t = {.arena = o->arena};
    reader r = reader_of(o, old);
    pb_varint(&t, (old.n ? get_number(&r) : 0) + (uint64_t)m->data.n);
    text_addn(&t, r.at, (size_t)(r.end - r.at));
    for (int i = 0; i < m->data.n; i++) {
        const ldata *d = m->data.at[i];
        const char *name = arena_printf(o->arena, ".rodata.%s", d->name);
        put_bytes(&t, (bytes){name, strlen(name)});
        pb_varint(&t, (uint64_t)log2_of(d->align));
        pb_varint(&t, 0);
    }
    return (bytes){t.s, t.n};
}

static void put_part(text *t, int kind, bytes content) {
    pb_varint(t, (uint64_t)kind);
    put_bytes(t, content);
}

static void rewrite_linking(object *o, const lmodule *m) {
    section *s = &o->sections.at[o->linking];
    reader r = reader_of(o, s->content);
    text t = {.arena = o->arena};
    bytes segments = {0};
    put_bytes(&t, get_bytes(&r));
    pb_varint(&t, get_number(&r));
    while (r.at < r.end) {
        int kind = (int)get_number(&r);
        bytes part = get_bytes(&r);
        if (kind == SEGMENTS) segments = part;
        else if (kind != SYMBOLS) put_part(&t, kind, part);
    }
    put_part(&t, SEGMENTS, segment_table(o, m, segments));
    put_part(&t, SYMBOLS, symbol_table(o));
    s->content = (bytes){t.s, t.n};
}

// ---------------------------------------------------------------- writing
static void put_head(object *o, const sink *to, int id, uint64_t n) {
    text t = {.arena = o->arena};
    pb_varint(&t, (uint64_t)id);
    pb_varint(&t, n);
    sink_addn(to, t.s, t.n);
}

static void write_data(object *o, const lmodule *m, const sink *to) {
    reader r = reader_of(o, o->sections.at[o->data].content);
    text count = {.arena = o->arena};
    pb_varint(&count, get_number(&r) + (uint64_t)m->data.n);
    bytes old = rest(&r), *heads = ARENA_ARRAY(o->arena, bytes, m->data.n + 1);
    uint64_t n = count.n + old.n;
    for (int i = 0; i < m->data.n; i++) {
        heads[i] = segment_head(o, m->data.at[i]);
        n += heads[i].n + (uint64_t)m->data.at[i]->bytes;
    }
    put_head(o, to, DATA, n);
    sink_addn(to, count.s, count.n);
    sink_addn(to, old.at, old.n);
    for (int i = 0; i < m->data.n; i++) {
        sink_addn(to, heads[i].at, heads[i].n);
        weights_write(o->arena, m->data.at[i], to);
    }
}

void wasm_write(arena *a, diag *d, bytes file, const lmodule *m, const sink *to) {
    object *o = read_object(a, d, file, m->name);
    elf_check_data(d, m);
    if (o->data < 0) insert_data_section(o);
    reader r = reader_of(o, o->sections.at[o->data].content);
    define_data(o, m, get_number(&r));
    count_segments(o, m);
    rewrite_linking(o, m);
    sink_addn(to, magic, HEADER);
    for (int i = 0; i < o->sections.n; i++) {
        const section *s = &o->sections.at[i];
        if (i == o->data) {
            write_data(o, m, to);
            continue;
        }
        put_head(o, to, s->id, s->content.n);
        sink_addn(to, s->content.at, s->content.n);
    }
}
