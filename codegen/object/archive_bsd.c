// Writes archives as Apple's tools want them: names in front of the members, members at multiples of eight, and an index that
// names the place of each member.
// Layout: magic, index ("__.SYMDEF"), members; each with a 60-byte text header and its padded name.
#include "codegen/object/archive.h"
#include "codegen/object/object.h"
#include "compiler/base/integers.h"
#include <stdint.h>
#include <string.h>

enum { MAGIC = 8, HEADER = 60, ALIGN = 8 };

typedef struct layout {
    text names;              // of symbols, each with its NUL
    VEC(uint32_t) name_at;   // of each symbol
    VEC(int) owners;         // member of each symbol
    VEC(uint64_t) member_at; // headers
} layout;

// Bytes of a name in front of contents at a multiple of ALIGN.
static uint64_t name_bytes(uint64_t header_at, const char *name) {
    uint64_t end = header_at + HEADER + strlen(name) + 1;
    return (uint64_t)round_up((int64_t)end, ALIGN) - header_at - HEADER;
}

static uint64_t index_bytes(const layout *l) {
    return 8 + 8 * (uint64_t)l->owners.n + (uint64_t)round_up((int64_t)l->names.n, ALIGN);
}

static const char index_name[] = "__.SYMDEF";

static layout plan(arena *a, diag *d, const archive *r) {
    layout l = {.names = {.arena = a}};
    for (int i = 0; i < r->members.n; i++) {
        object_symbols all = object_read_symbols(a, d, r->members.at[i].content, r->members.at[i].name);
        for (int k = 0; k < all.n; k++) {
            if (all.at[k].local || !all.at[k].defined) continue;
            VEC_PUSH(a, &l.name_at, (uint32_t)l.names.n);
            VEC_PUSH(a, &l.owners, i);
            text_addn(&l.names, all.at[k].name, strlen(all.at[k].name) + 1);
        }
    }
    uint64_t at = MAGIC + HEADER + name_bytes(MAGIC, index_name) + index_bytes(&l);
    for (int i = 0; i < r->members.n; i++) {
        VEC_PUSH(a, &l.member_at, at);
        at += HEADER + name_bytes(at, r->members.at[i].name);
        at = (uint64_t)round_up((int64_t)(at + r->members.at[i].content.n), ALIGN);
    }
    if (at > UINT32_MAX)
        diag_fatal_missing(d, NULL, "an archive for macOS has at most 4 GiB, not %llu bytes",
                           (unsigned long long)at);
    return l;
}

static void put_zeros(const sink *to, uint64_t n) { sink_addn(to, (const char[ALIGN]){0}, (size_t)n); }
static void put_word(const sink *to, uint32_t v) { sink_addn(to, (const char *)&v, sizeof v); }

// The size includes the padded name and the padded contents.
static void put_header(arena *a, const sink *to, uint64_t at, const char *name, uint64_t contents) {
    uint64_t n = name_bytes(at, name), size = n + (uint64_t)round_up((int64_t)contents, ALIGN);
    const char *field = arena_printf(a, "#1/%llu", (unsigned long long)n);
    sink_add(to, arena_printf(a, "%-16s%-12d%-6d%-6d%-8s%-10llu`\n", field, 0, 0, 0, "100644",
                              (unsigned long long)size));
    sink_add(to, name);
    put_zeros(to, (n - strlen(name)) % ALIGN);
}

static void put_padding(const sink *to, uint64_t n) {
    put_zeros(to, (uint64_t)round_up((int64_t)n, ALIGN) - n);
}

static void put_index(arena *a, const sink *to, const layout *l) {
    put_header(a, to, MAGIC, index_name, index_bytes(l));
    put_word(to, (uint32_t)(8 * l->owners.n));
    for (int i = 0; i < l->owners.n; i++) {
        put_word(to, l->name_at.at[i]);
        put_word(to, (uint32_t)l->member_at.at[l->owners.at[i]]);
    }
    put_word(to, (uint32_t)round_up((int64_t)l->names.n, ALIGN));
    sink_addn(to, l->names.s, l->names.n);
    put_padding(to, l->names.n);
}

void archive_write_bsd(arena *a, diag *d, const archive *r, const sink *to) {
    layout l = plan(a, d, r);
    sink_add(to, "!<arch>\n");
    put_index(a, to, &l);
    for (int i = 0; i < r->members.n; i++) {
        const archive_member *m = &r->members.at[i];
        put_header(a, to, l.member_at.at[i], m->name, m->content.n);
        sink_addn(to, m->content.at, m->content.n);
        put_padding(to, m->content.n);
    }
}
