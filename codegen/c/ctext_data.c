// In: a module's data. Out: C arrays whose initializers have exactly the same bits, written in chunks.
#include "codegen/c/ctext_impl.h"
#include <ctype.h>

enum { CHUNK = 1 << 16, COLUMNS = 110 };

// A literal of the type.
static void literal(char s[REAL_SIZE + 4], double v, bool is_float) {
    real_text(s, v, is_float);
    if (!strpbrk(s, ".e")) strcat(s, ".0");
    if (is_float) strcat(s, "f");
}

const char *cfloat_text(arena *a, double v, lkind k) {
    char buf[64];
    if (v != v || v - v != 0) return NULL;
    literal(buf, v, k == LK_F32);
    return arena_strdup(a, buf);
}

// ---------------------------------------------------------------- elements

static dtype element_type(const ldata *d) {
    if (d->dtype == DT_NONE || d->dtype == DT_STRING || dtype_bits(d->dtype) < 8) return DT_U8;
    if (d->dtype == DT_C64) return DT_F32;
    return d->dtype == DT_C128 ? DT_F64 : d->dtype;
}

static bool is_real(dtype t) { return t == DT_F32 || t == DT_F64; }

static bool is_finite(dtype t, const uint8_t *p) {
    uint32_t u32;
    uint64_t u64;
    memcpy(&u32, p, 4);
    if (t == DT_F32) return (u32 & 0x7f800000) != 0x7f800000;
    memcpy(&u64, p, 8);
    return (u64 & 0x7ff0000000000000) != 0x7ff0000000000000;
}

bool cdata_has_non_finite(cmod *m, const ldata *d) {
    dtype t = element_type(d);
    int size = dtype_bits(t) / 8;
    uint8_t *chunk = arena_alloc(m->arena, CHUNK);
    if (!is_real(t) || d->variable) return false;
    for (int64_t at = 0; at < d->bytes; at += CHUNK) {
        int64_t n = d->bytes - at < CHUNK ? d->bytes - at : CHUNK;
        ldata_copy(d, at, chunk, n);
        for (int64_t i = 0; i + size <= n; i += size)
            if (!is_finite(t, chunk + i)) return true;
    }
    return false;
}

static void element(char *buf, size_t size, dtype t, const uint8_t *p, bool bits) {
    uint64_t u = 0;
    memcpy(&u, p, (size_t)dtype_bits(t) / 8);
    bool hex = bits || dtype_class_of(t) == DC_FLOAT;
    if (is_real(t) && !bits) literal(buf, dtype_load_float(t, p, 0), t == DT_F32);
    else if (hex)
        snprintf(buf, size, "0x%0*llx%s", dtype_bits(t) / 4, (unsigned long long)u,
                 dtype_bits(t) > 16 ? "u" : "");
    else if (t == DT_U64) snprintf(buf, size, "%lluu", (unsigned long long)u);
    else if (t == DT_I64 && u == (uint64_t)INT64_MIN) snprintf(buf, size, "-9223372036854775807 - 1");
    else if (t == DT_U32) snprintf(buf, size, "%lluu", (unsigned long long)u);
    else if (t == DT_I32 && u == (uint32_t)INT32_MIN) snprintf(buf, size, "-2147483647 - 1");
    else snprintf(buf, size, "%lld", (long long)(t == DT_BOOL ? u : (uint64_t)dtype_load_int(t, p, 0)));
}

typedef struct filler {
    text line, out;
    bool first;
} filler;

static void put_element(filler *f, const char *s) {
    size_t column = f->out.n - f->line.n, n = strlen(s); // line.n: where the current line begins
    if (!f->first) text_add(&f->out, ",");
    if (column + n + 3 > COLUMNS) {
        text_add(&f->out, "\n    ");
        f->line.n = f->out.n - 4;
    } else if (!f->first) {
        text_add(&f->out, " ");
    }
    text_add(&f->out, s);
    f->first = false;
}

static void write_elements(cmod *m, const ldata *d, dtype t, bool bits, const sink *out) {
    arena *a = arena_within(m->arena);
    uint8_t *chunk = arena_alloc(a, CHUNK);
    int size = dtype_bits(t) / 8;
    filler f = {.out.arena = a, .first = true};
    char buf[64];
    text_add(&f.out, "    ");
    for (int64_t at = 0; at < d->bytes; at += CHUNK) {
        int64_t n = d->bytes - at < CHUNK ? d->bytes - at : CHUNK;
        ldata_copy(d, at, chunk, n);
        for (int64_t i = 0; i + size <= n; i += size) {
            element(buf, sizeof buf, t, chunk + i, bits);
            put_element(&f, buf);
        }
        sink_addn(out, f.out.s, f.line.n);
        memmove(f.out.s, f.out.s + f.line.n, f.out.n - f.line.n + 1);
        f.out.n -= f.line.n;
        f.line.n = 0;
    }
    sink_addn(out, f.out.s, f.out.n);
    arena_destroy(a);
}

static const char *macro_of(cmod *m, const char *name) {
    char *macro = arena_strdup(m->arena, name);
    for (char *c = macro; *c; c++) *c = (char)toupper((unsigned char)*c);
    return macro;
}

// Memory in a section. Its macro can be defined by programs, too.
static void write_variable(cmod *m, const ldata *d, const sink *out) {
    const char *macro = macro_of(m, d->name);
    sink_add(out,
             arena_printf(m->arena,
                          "#ifndef %s\n#define %s __attribute__((section(\"%s\"), aligned(%d)))\n#endif\n"
                          "static %s uint8_t %s[%lld];\n\n",
                          macro, macro, d->section, d->align, macro, d->name, (long long)d->bytes));
}

// NAME_CONST, which programs for other compilers define themselves.
static const char *section_macro(cmod *m, const ldata *d, const sink *out) {
    if (m->section_macro) return m->section_macro;
    const char *macro = macro_of(m, arena_printf(m->arena, "%s_CONST", m->m->name));
    sink_add(out,
             arena_printf(m->arena, "#ifndef %s\n#define %s __attribute__((section(\"%s\")))\n#endif\n\n",
                          macro, macro, d->section));
    return m->section_macro = macro;
}

void cdata_write(cmod *m, const ldata *d, const sink *out) {
    if (d->variable) {
        write_variable(m, d, out);
        return;
    }
    dtype t = element_type(d);
    bool bits = map_get(&m->by_bits, d->name) != NULL, cuda = m->dialect == DIALECT_CUDA;
    int64_t n = d->bytes / (dtype_bits(t) / 8);
    const char *linkage = cuda                                         ? "static __device__ "
                          : d->exported || !map_get(&m->used, d->name) ? ""
                                                                       : "static ";
    const char *align =
        cuda && d->align > dtype_bits(t) / 8 ? arena_printf(m->arena, "__align__(%d) ", d->align) : "";
    if (d->section) linkage = arena_printf(m->arena, "%s%s ", linkage, section_macro(m, d, out));
    const char *type = cptr_of_dtype(t, false).type, *word = t == DT_F32 ? "uint32_t" : "uint64_t";
    const char *head =
        bits ? arena_printf(m->arena,
                            "%sconst %sunion {\n    %s bits[%lld];\n    %s value[%lld];\n} %s = {{\n",
                            linkage, align, word, (long long)n, type, (long long)n, d->name)
             : arena_printf(m->arena, "%sconst %s%s %s[%lld] = {\n", linkage, align, type, d->name,
                            (long long)(n ? n : 1));
    sink_add(out, head);
    if (n) write_elements(m, d, t, bits, out);
    else sink_add(out, "    0");
    sink_add(out, bits ? "\n}};\n\n" : "\n};\n\n");
}

// ---------------------------------------------------------------- comments

// As // lines. A backslash at the end of a line would continue the comment.
void ccomment(text *t, int indent, const char *s) {
    while (s && *s) {
        size_t n = strcspn(s, "\n");
        text_printf(t, "%*s//%s", indent, "", n ? " " : "");
        const char *line = blank_text(t->arena, arena_strndup(t->arena, s, n), '.');
        for (size_t i = 0; i < n; i++) {
            bool bad = (line[i] == '\\' && i + 1 == n) || (line[i] == '?' && line[i + 1] == '?');
            text_addn(t, bad ? "." : &line[i], 1);
        }
        text_add(t, "\n");
        s += n + (s[n] == '\n');
    }
}
