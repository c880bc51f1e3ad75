// Reads archives into members and writes members as archives.
// Layout: magic, symbol index ("/" or "/SYM64/"), long names ("//"), members; each with a 60-byte text
// header, padded to even length.
#include "codegen/object/archive.h"
#include "codegen/object/object.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 8, HEADER = 60, NAME = 16, SIZE_AT = 48, SIZE_DIGITS = 10, SHORT_NAME_MOST = 15 };
#define MEMBER_MOST 9999999999u // ten digits

// ---------------------------------------------------------------- reading
static _Noreturn void broken(diag *d, const char *what) {
    diag_fatal(d, NULL, "%s is not a readable archive", what);
}

static const char *member_name(arena *a, diag *d, const char *header, bytes long_names, const char *what) {
    if (header[0] != '/') return arena_strndup(a, header, strcspn(header, "/"));
    size_t at = strtoul(header + 1, NULL, 10);
    if (at >= long_names.n) broken(d, what);
    const char *s = (const char *)long_names.at + at, *end = memchr(s, '/', long_names.n - at);
    if (!end) broken(d, what);
    return arena_strndup(a, s, (size_t)(end - s));
}

// In archives of BSD and macOS, the name "#1/N" says that N bytes of the member are its name.
static archive_member bsd_member(arena *a, diag *d, const char *header, bytes content, const char *what) {
    size_t n = strtoul(header + 3, NULL, 10);
    if (n > content.n) broken(d, what);
    const char *name = content.at;
    return (archive_member){arena_strndup(a, name, strnlen(name, n)), {name + n, content.n - n}};
}

static void add_member(arena *a, archive *r, archive_member m) {
    if (strncmp(m.name, "__.SYMDEF", 9) != 0) VEC_PUSH(a, &r->members, m);
}

archive archive_read(arena *a, diag *d, bytes file, const char *what) {
    archive r = {0};
    bytes long_names = {0};
    const char *p = file.at;
    if (file.n < MAGIC || memcmp(p, "!<arch>\n", MAGIC)) broken(d, what);
    for (size_t at = MAGIC; at + HEADER <= file.n;) {
        char header[HEADER + 1] = {0};
        memcpy(header, p + at, HEADER);
        size_t n = strtoul(arena_strndup(a, header + SIZE_AT, SIZE_DIGITS), NULL, 10);
        at += HEADER;
        if (n > file.n - at) broken(d, what);
        bytes content = {p + at, n};
        if (!strncmp(header, "// ", 3)) long_names = content;
        else if (!strncmp(header, "#1/", 3)) add_member(a, &r, bsd_member(a, d, header, content, what));
        else if (strncmp(header, "/ ", 2) && strncmp(header, "/SYM64/", 7))
            add_member(a, &r, (archive_member){member_name(a, d, header, long_names, what), content});
        at += n + n % 2;
    }
    return r;
}

// ---------------------------------------------------------------- writing
typedef struct layout {
    text names;      // symbols of the index, each with its NUL
    VEC(int) owners; // member of each symbol
    text long_names;
    VEC(const char *) headers; // the name fields
    uint64_t *offsets;
    bool wide; // 64-bit index
} layout;

static void add_symbols(arena *a, diag *d, layout *l, const archive_member *m, int number) {
    if (!object_is_one(m->content)) return;
    object_symbols found = object_read_symbols(a, d, m->content, m->name);
    for (int i = 0; i < found.n; i++) {
        const object_symbol *s = &found.at[i];
        if (s->local || !s->defined) continue;
        text_addn(&l->names, s->name, strlen(s->name) + 1);
        VEC_PUSH(a, &l->owners, number);
    }
}

static void add_name(arena *a, layout *l, const char *name) {
    if (strlen(name) <= SHORT_NAME_MOST) {
        VEC_PUSH(a, &l->headers, arena_printf(a, "%s/", name));
        return;
    }
    VEC_PUSH(a, &l->headers, arena_printf(a, "/%zu", l->long_names.n));
    text_printf(&l->long_names, "%s/\n", name);
}

static uint64_t even(uint64_t n) { return n + n % 2; }

static uint64_t index_size(const layout *l) {
    uint64_t word = l->wide ? 8 : 4;
    return word * ((uint64_t)l->owners.n + 1) + l->names.n;
}

static void place_members(layout *l, const archive *r) {
    uint64_t at = MAGIC + HEADER + even(index_size(l));
    if (l->long_names.n) at += HEADER + even(l->long_names.n);
    for (int i = 0; i < r->members.n; i++) {
        l->offsets[i] = at;
        at += HEADER + even(r->members.at[i].content.n);
    }
}

static layout plan(arena *a, diag *d, const archive *r) {
    layout l = {.names = {.arena = a}, .long_names = {.arena = a}};
    l.offsets = ARENA_ARRAY(a, uint64_t, r->members.n);
    for (int i = 0; i < r->members.n; i++) {
        add_symbols(a, d, &l, &r->members.at[i], i);
        add_name(a, &l, r->members.at[i].name);
    }
    place_members(&l, r);
    if (!r->members.n || l.offsets[r->members.n - 1] <= UINT32_MAX) return l;
    l.wide = true;
    place_members(&l, r);
    return l;
}

static void put_header(const sink *to, const char *name, uint64_t size) {
    char header[2 * HEADER]; // check_sizes rejects headers longer than HEADER
    snprintf(header, sizeof header, "%-16s%-12d%-6d%-6d%-8s%-10" PRIu64 "`\n", name, 0, 0, 0, "644", size);
    sink_addn(to, header, HEADER);
}

static void put_big_endian(const sink *to, uint64_t v, int n) {
    char b[8];
    for (int i = 0; i < n; i++) b[i] = (char)(v >> 8 * (n - 1 - i));
    sink_addn(to, b, (size_t)n);
}

static void put_padding(const sink *to, uint64_t n) {
    if (n % 2) sink_addn(to, "\n", 1);
}

static void put_index(const sink *to, const layout *l) {
    int word = l->wide ? 8 : 4;
    put_header(to, l->wide ? "/SYM64/" : "/", even(index_size(l)));
    put_big_endian(to, (uint64_t)l->owners.n, word);
    for (int i = 0; i < l->owners.n; i++) put_big_endian(to, l->offsets[l->owners.at[i]], word);
    sink_addn(to, l->names.s, l->names.n);
    if (index_size(l) % 2) sink_addn(to, "", 1);
}

static void check_sizes(diag *d, const archive *r) {
    for (int i = 0; i < r->members.n; i++)
        if (r->members.at[i].content.n > MEMBER_MOST)
            diag_fatal_missing(d, NULL, "%s has %zu bytes, more than an archive can hold",
                               r->members.at[i].name, r->members.at[i].content.n);
}

void archive_write(arena *a, diag *d, const archive *r, const sink *to) {
    check_sizes(d, r);
    layout l = plan(a, d, r);
    sink_add(to, "!<arch>\n");
    put_index(to, &l);
    if (l.long_names.n) {
        put_header(to, "//", l.long_names.n);
        sink_addn(to, l.long_names.s, l.long_names.n);
        put_padding(to, l.long_names.n);
    }
    for (int i = 0; i < r->members.n; i++) {
        bytes content = r->members.at[i].content;
        put_header(to, l.headers.at[i], content.n);
        sink_addn(to, content.at, content.n);
        put_padding(to, content.n);
    }
}

// ---------------------------------------------------------------- needed members
// Marks symbols: defined ones in `defined`, undefined strong ones in `wanted`.
static void note_symbols(arena *a, diag *d, const archive_member *m, map *defined, map *wanted) {
    static const char here = 1;
    if (!object_is_one(m->content)) return;
    object_symbols found = object_read_symbols(a, d, m->content, m->name);
    for (int i = 0; i < found.n; i++) {
        const object_symbol *s = &found.at[i];
        if (s->defined && !s->local) map_put(defined, s->name, (void *)&here);
        else if (!s->defined && !s->weak) map_put(wanted, s->name, (void *)&here);
    }
}

static bool is_needed(const object_symbols *f, const map *defined, const map *wanted) {
    for (int i = 0; i < f->n; i++) {
        const object_symbol *s = &f->at[i];
        if (s->defined && !s->local && map_get(wanted, s->name) && !map_get(defined, s->name)) return true;
    }
    return false;
}

void archive_add_needed(arena *a, diag *d, archive *to, const archive *from) {
    map defined = {.arena = a}, wanted = {.arena = a};
    bool *taken = ARENA_ARRAY(a, bool, from->members.n), more = true;
    object_symbols *files = ARENA_ARRAY(a, object_symbols, from->members.n + 1);
    for (int i = 0; i < to->members.n; i++) note_symbols(a, d, &to->members.at[i], &defined, &wanted);
    for (int i = 0; i < from->members.n; i++)
        if (object_is_one(from->members.at[i].content))
            files[i] = object_read_symbols(a, d, from->members.at[i].content, from->members.at[i].name);
    while (more) {
        more = false;
        for (int i = 0; i < from->members.n; i++) {
            if (taken[i] || !is_needed(&files[i], &defined, &wanted)) continue;
            note_symbols(a, d, &from->members.at[i], &defined, &wanted);
            taken[i] = more = true;
        }
    }
    for (int i = 0; i < from->members.n; i++)
        if (taken[i]) VEC_PUSH(a, &to->members, from->members.at[i]);
}
