// In: a COFF object of LLVM. Out: its symbols; the object with one more section, for the module's data. Sections and
// symbols keep their numbers, so relocations stay valid: data that code refers to are already undefined symbols and become
// defined, other data are appended. Layout: header, section headers, LLVM's sections, symbols, strings, the data.
#include "codegen/object/coff.h"
#include "compiler/base/integers.h"
#include "ir/loops/weights.h"
#include "ir/target.h"
#include <string.h>

enum {
    MACHINE_X86_64 = 0x8664,
    MACHINE_ARM64 = 0xaa64,
    HEADER = 20,
    BIG_HEADER = 56,
    SECTION = 40,
    SYMBOL = 18,
    BIG_SYMBOL = 20,
    SHORT_NAME = 8,
    CLASS_EXTERNAL = 2,
    CLASS_STATIC = 3,
    CLASS_WEAK = 105,
    DATA_ALIGN = 64,
    ALIGN_64 = 0x00700000,
    READ_ONLY_DATA = 0x40000040,
};

// The number after the magic ones that tells bigobj from import libraries.
static const unsigned char big_id[16] = {0xc7, 0xa1, 0xba, 0xd1, 0xee, 0xba, 0xa9, 0x4b,
                                         0xaf, 0x20, 0xfa, 0xf6, 0x6a, 0xa4, 0xdc, 0xb8};

typedef struct coff {
    arena *arena;
    diag *diag;
    bytes file;
    const char *what;
    bool big;
    uint32_t nsections, symbols_at, nsymbols; // records, including the auxiliary ones of symbols
    size_t header, symbol;                    // bytes of each
    bytes strings;
} coff;

static _Noreturn void broken(const coff *o, const char *why) {
    diag_fatal(o->diag, NULL, "%s is not a readable COFF object: %s", o->what, why);
}

static uint32_t get(const void *at, size_t n) {
    uint32_t v = 0;
    memcpy(&v, at, n); // little-endian, as is this machine (elf.c)
    return v;
}

static const unsigned char *part(const coff *o, uint64_t at, uint64_t n) {
    if (at > o->file.n || n > o->file.n - at) broken(o, "it is truncated");
    return (const unsigned char *)o->file.at + at;
}

static bool is_big(bytes b) {
    const unsigned char *p = b.at;
    return b.n >= BIG_HEADER && get(p, 4) == 0xffff0000 && get(p + 4, 2) >= 2 &&
           !memcmp(p + 12, big_id, sizeof big_id);
}

bool coff_is_object(bytes b) {
    uint32_t machine = b.n >= HEADER ? get(b.at, 2) : 0;
    return machine == MACHINE_X86_64 || machine == MACHINE_ARM64 || is_big(b);
}

static coff coff_read(arena *a, diag *d, bytes file, const char *what) {
    coff o = {.arena = a, .diag = d, .file = file, .what = what, .big = is_big(file)};
    o.header = o.big ? BIG_HEADER : HEADER;
    o.symbol = o.big ? BIG_SYMBOL : SYMBOL;
    const unsigned char *h = part(&o, 0, o.header);
    o.nsections = o.big ? get(h + 44, 4) : get(h + 2, 2);
    o.symbols_at = get(h + (o.big ? 48 : 8), 4);
    o.nsymbols = get(h + (o.big ? 52 : 12), 4);
    if (!o.symbols_at) return o;
    uint64_t end = o.symbols_at + (uint64_t)o.nsymbols * o.symbol;
    part(&o, o.header, (uint64_t)o.nsections * SECTION);
    o.strings.n = get(part(&o, end, 4), 4);
    o.strings.at = part(&o, end, o.strings.n);
    return o;
}

// ---------------------------------------------------------------- symbols
static const unsigned char *symbol_at(const coff *o, uint32_t i) {
    return (const unsigned char *)o->file.at + o->symbols_at + (size_t)i * o->symbol;
}

static int32_t section_of(const coff *o, const unsigned char *symbol) {
    return o->big ? (int32_t)get(symbol + 12, 4) : (int16_t)get(symbol + 12, 2);
}

static uint32_t class_of(const coff *o, const unsigned char *symbol) { return symbol[o->symbol - 2]; }
static uint32_t followers_of(const coff *o, const unsigned char *symbol) { return symbol[o->symbol - 1]; }

static const char *name_of(const coff *o, const unsigned char *symbol) {
    if (get(symbol, 4))
        return arena_strndup(o->arena, (const char *)symbol, strnlen((const char *)symbol, SHORT_NAME));
    uint32_t at = get(symbol + 4, 4);
    if (at >= o->strings.n || !memchr((const char *)o->strings.at + at, 0, o->strings.n - at))
        broken(o, "a name is outside its string table");
    return (const char *)o->strings.at + at;
}

object_symbols coff_read_symbols(arena *a, diag *d, bytes object, const char *what) {
    coff o = coff_read(a, d, object, what);
    object_symbols all = {0};
    for (uint32_t i = 0; i < o.nsymbols; i++) {
        const unsigned char *s = symbol_at(&o, i);
        uint32_t class = class_of(&o, s);
        bool common = !section_of(&o, s) && get(s + 8, 4), weak = class == CLASS_WEAK;
        if (class == CLASS_EXTERNAL || weak)
            VEC_PUSH(a, &all, (object_symbol){name_of(&o, s), section_of(&o, s) || common, false, weak});
        i += followers_of(&o, s);
    }
    return all;
}

// ---------------------------------------------------------------- adding data
typedef struct writer {
    coff o;
    const lmodule *m;
    text symbols, strings;
    int64_t data_bytes;
} writer;

static void set(void *at, uint32_t v, size_t n) { memcpy(at, &v, n); }

static void set_name(writer *w, unsigned char *symbol, const char *name) {
    if (strlen(name) <= SHORT_NAME) {
        memcpy(symbol, name, strlen(name));
        return;
    }
    set(symbol + 4, (uint32_t)w->strings.n, 4);
    text_addn(&w->strings, name, strlen(name) + 1);
}

// A name that DLLs export must be external; other names would only collide with names of other models.
static void define(writer *w, unsigned char *symbol, const ldata *d, int64_t offset) {
    bool big = w->o.big;
    set(symbol + 8, (uint32_t)offset, 4);
    set(symbol + 12, w->o.nsections + 1, big ? 4 : 2);
    symbol[w->o.symbol - 2] = d->exported ? CLASS_EXTERNAL : CLASS_STATIC;
}

// Name -> 1 + number.
static map undefined_symbols(const coff *o) {
    map m = {.arena = o->arena};
    for (uint32_t i = 0; i < o->nsymbols; i++) {
        const unsigned char *s = symbol_at(o, i);
        if (class_of(o, s) == CLASS_EXTERNAL && !section_of(o, s))
            map_put(&m, name_of(o, s), (void *)(intptr_t)(i + 1));
        i += followers_of(o, s);
    }
    return m;
}

static void add_data(writer *w) {
    map undefined = undefined_symbols(&w->o);
    for (int i = 0; i < w->m->data.n; i++) {
        const ldata *d = w->m->data.at[i];
        intptr_t number = (intptr_t)map_get(&undefined, d->name);
        unsigned char own[BIG_SYMBOL] = {0};
        if (d->align > DATA_ALIGN)
            diag_defect(w->o.diag, NULL, "constant %s is aligned to %d bytes", d->name, d->align);
        w->data_bytes = round_up(w->data_bytes, d->align > 0 ? d->align : 1);
        if (number) {
            define(w, (unsigned char *)w->symbols.s + (size_t)(number - 1) * w->o.symbol, d, w->data_bytes);
        } else {
            set_name(w, own, d->name);
            define(w, own, d, w->data_bytes);
            text_addn(&w->symbols, (const char *)own, w->o.symbol);
        }
        w->data_bytes += d->bytes;
    }
}

// ---------------------------------------------------------------- writing
static uint64_t data_at(const writer *w) {
    uint64_t end = w->o.symbols_at + (uint64_t)SECTION + w->symbols.n + w->strings.n;
    return (uint64_t)round_up((int64_t)end, DATA_ALIGN);
}

// Everything after the section headers moves by the size of one.
static void put_header(const writer *w, const sink *to) {
    const coff *o = &w->o;
    unsigned char *h = memcpy(arena_alloc(o->arena, o->header), o->file.at, o->header);
    set(h + (o->big ? 44 : 2), o->nsections + 1, o->big ? 4 : 2);
    set(h + (o->big ? 48 : 8), o->symbols_at + SECTION, 4);
    set(h + (o->big ? 52 : 12), (uint32_t)(w->symbols.n / o->symbol), 4);
    sink_addn(to, (const char *)h, o->header);
}

static void put_sections(const writer *w, const sink *to) {
    enum { RAW_AT = 20, RELOCATIONS_AT = 24, RAW_SIZE = 16, FLAGS = 36 };
    const coff *o = &w->o;
    for (uint32_t i = 0; i < o->nsections; i++) {
        unsigned char s[SECTION];
        memcpy(s, (const char *)o->file.at + o->header + (size_t)i * SECTION, SECTION);
        for (int field = RAW_AT; field <= RELOCATIONS_AT; field += 4)
            if (get(s + field, 4)) set(s + field, get(s + field, 4) + SECTION, 4);
        sink_addn(to, (const char *)s, SECTION);
    }
    unsigned char own[SECTION] = ".rdata";
    set(own + RAW_SIZE, (uint32_t)w->data_bytes, 4);
    set(own + RAW_AT, w->data_bytes ? (uint32_t)data_at(w) : 0, 4);
    set(own + FLAGS, READ_ONLY_DATA | ALIGN_64, 4);
    sink_addn(to, (const char *)own, SECTION);
}

void coff_write(arena *a, diag *d, bytes object, const lmodule *m, const sink *to) {
    writer w = {
        .o = coff_read(a, d, object, m->name), .m = m, .symbols = {.arena = a}, .strings = {.arena = a}};
    if (!w.o.symbols_at) broken(&w.o, "it has no symbols");
    size_t headers = w.o.header + (size_t)w.o.nsections * SECTION;
    text_addn(&w.symbols, (const char *)symbol_at(&w.o, 0), (size_t)w.o.nsymbols * w.o.symbol);
    text_addn(&w.strings, w.o.strings.at, w.o.strings.n);
    add_data(&w);
    set(w.strings.s, (uint32_t)w.strings.n, 4);
    put_header(&w, to);
    put_sections(&w, to);
    sink_addn(to, (const char *)part(&w.o, headers, w.o.symbols_at - headers), w.o.symbols_at - headers);
    sink_addn(to, w.symbols.s, w.symbols.n);
    sink_addn(to, w.strings.s, w.strings.n);
    object_write_data(a, m, data_at(&w) - (w.o.symbols_at + (uint64_t)SECTION + w.symbols.n + w.strings.n),
                      to);
}
