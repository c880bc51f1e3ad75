// Reads numpy's files: .npy, and .npz, a zip archive of them. Sizes in the file are untrusted: they are
// checked before memory is allocated.
#include "compiler/import/file.h"
#include "compiler/values/values.h"
#include "runtime-lite/onnxc.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { SHOWN = 60 }; // bytes of the file's text quoted in messages

static const char *shown(arena *a, const char *s) {
    text t = {.arena = a};
    text_add_safe(&t, s, SHOWN);
    return text_str(&t);
}

// ---------------------------------------------------------------- .npy
typedef struct npy_header {
    const char *descr; // NULL: absent
    bool fortran, has_order, has_shape;
    int rank;
    int64_t dims[MAX_RANK];
    const uint8_t *data;
    size_t size;
} npy_header;

typedef struct npy_reader {
    arena *arena;
    const char *s;   // rest of the header
    const char *why; // error; NULL: none so far
} npy_reader;

static bool wrong(npy_reader *r, const char *why) {
    if (!r->why) r->why = why;
    return false;
}

static bool take(npy_reader *r, const char *word) {
    while (*r->s == ' ' || *r->s == '\n') r->s++;
    size_t n = strlen(word);
    if (strncmp(r->s, word, n) != 0) return false;
    r->s += n;
    return true;
}

// A Python string; NULL: none is next. None that numpy writes has a backslash.
static const char *quoted(npy_reader *r) {
    char mark = take(r, "'") ? '\'' : take(r, "\"") ? '"' : 0;
    const char *end = mark ? strchr(r->s, mark) : NULL;
    if (!end) return NULL;
    const char *word = arena_strndup(r->arena, r->s, (size_t)(end - r->s));
    r->s = end + 1;
    return word;
}

// size = digits ['L']
static bool npy_size(npy_reader *r, int64_t *size) {
    *size = 0;
    if (take(r, "-")) return wrong(r, "its shape has a negative size");
    if (*r->s < '0' || *r->s > '9') return wrong(r, "its shape is not a list of integers");
    for (; *r->s >= '0' && *r->s <= '9'; r->s++)
        if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, *r->s - '0', size))
            return wrong(r, "its shape has a size of more than 64 bits");
    take(r, "L");
    return true;
}

// shape = '(' [size {',' size} [',']] ')', with a comma after an only size
static bool npy_shape(npy_reader *r, npy_header *h) {
    bool comma = true;
    if (!take(r, "(")) return wrong(r, "its shape is not a tuple");
    while (!take(r, ")")) {
        if (!comma) return wrong(r, "its shape lacks a comma");
        if (h->rank == MAX_RANK) return wrong(r, "its shape has too many dimensions");
        if (!npy_size(r, &h->dims[h->rank++])) return false;
        comma = take(r, ",");
    }
    return comma || h->rank > 1 || wrong(r, "its shape is not a tuple");
}

// Product of the nonzero sizes; false: it overflows.
static bool npy_countable(const npy_header *h) {
    int64_t count = 1;
    for (int j = 0; j < h->rank; j++)
        if (h->dims[j] && __builtin_mul_overflow(count, h->dims[j], &count)) return false;
    return dtype_size(DT_C128, count) >= 0;
}

static bool npy_entry(npy_reader *r, npy_header *h) {
    const char *key = quoted(r);
    if (!key || !take(r, ":")) return wrong(r, "its header is not a dictionary");
    if (strcmp(key, "descr") == 0) {
        h->descr = quoted(r);
        if (!h->descr)
            return wrong(r, *r->s == '[' ? "its elements are structures" : "it does not name a type");
    } else if (strcmp(key, "fortran_order") == 0) {
        h->has_order = true;
        h->fortran = take(r, "True");
        if (!h->fortran && !take(r, "False")) return wrong(r, "its 'fortran_order' is not a bool");
    } else if (strcmp(key, "shape") == 0) {
        if (h->has_shape) return wrong(r, "its header has two shapes");
        h->has_shape = true;
        return npy_shape(r, h);
    } else {
        return wrong(r, "its header has an unknown entry");
    }
    return true;
}

// header = '{' {string ':' value [',']} '}'
static bool npy_dictionary(npy_reader *r, npy_header *h) {
    if (!take(r, "{")) return wrong(r, "its header is not a dictionary");
    while (!take(r, "}")) {
        if (!npy_entry(r, h)) return false;
        if (!take(r, ",") && *r->s != '}') return wrong(r, "its header is not a dictionary");
    }
    take(r, "");
    if (*r->s) return wrong(r, "its header has text after the dictionary");
    if (!h->descr || !h->has_order || !h->has_shape)
        return wrong(r, "its header lacks 'descr', 'fortran_order' or 'shape'");
    return npy_countable(h) || wrong(r, "its shape has more elements than 64 bits can count");
}

// Versions 1 to 3 differ in the length's width and the encoding of what no header of ours may hold.
static bool npy_parse(npy_reader *r, npy_header *h, const uint8_t *data, size_t size) {
    if (size < 6 || memcmp(data, "\x93NUMPY", 6) != 0) return wrong(r, "its magic number is wrong");
    if (size < 12) return wrong(r, "its header is truncated");
    if (data[6] < 1 || data[6] > 3) return wrong(r, "its format version is not 1, 2 or 3");
    size_t start = data[6] == 1 ? 10 : 12, n = data[8] | (size_t)data[9] << 8;
    if (data[6] != 1) n |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (n > size - start) return wrong(r, "its header is truncated");
    r->s = arena_strndup(r->arena, (const char *)data + start, n);
    if (strlen(r->s) != n) return wrong(r, "its header contains a NUL");
    h->data = data + start + n;
    h->size = size - start - n;
    return npy_dictionary(r, h);
}

// ml_dtypes writes its types as opaque bytes (V1, V2): the port says which is meant. '=' and '|' are the
// machine's own order.
static dtype npy_dtype(const char *descr, dtype hint) {
    bool bytes = strcmp(descr + (*descr != 0), "i1") == 0 || strcmp(descr + (*descr != 0), "u1") == 0;
    if (!*descr || !strchr(bytes ? "<=|>" : "<=|", descr[0])) return DT_NONE;
    for (int t = 1; t < DT_COUNT && descr[1] != 'V'; t++)
        if (descr[1] && strcmp(descr + 1, dtype_npy((dtype)t)) == 0) return (dtype)t;
    bool opaque = descr[1] == 'V' && hint != DT_NONE && hint != DT_STRING;
    return opaque && atoi(descr + 2) == (dtype_bits(hint) + 7) / 8 ? hint : DT_NONE;
}

// One element to a byte in numpy, several in ONNX.
static void npy_pack(tensor *t, const uint8_t *data) {
    for (int64_t i = 0; i < t->count; i++) {
        int bits = dtype_bits(t->dtype), per = 8 / bits;
        ((uint8_t *)t->data)[i / per] |= (uint8_t)((data[i] & ((1 << bits) - 1)) << (i % per * bits));
    }
}

// The bytes of an element of numpy's strings, U with four to a character and S with one; 0: other elements.
static int64_t npy_string_width(const char *descr) {
    const int64_t most = 1 << 24;
    bool wide = strncmp(descr, "<U", 2) == 0 || strncmp(descr, "=U", 2) == 0;
    char *end;
    if (!wide && strncmp(descr, "|S", 2) != 0) return 0;
    long long n = strtoll(descr + 2, &end, 10);
    return !*end && n > 0 && n <= most ? n * (wide ? 4 : 1) : 0;
}

// A string of numpy, which ends before the NULs that fill its element. What is no character becomes U+FFFD.
static onnxc_string npy_string(arena *a, const uint8_t *s, int64_t width, bool wide) {
    text t = {.arena = a};
    while (width && !s[width - 1]) width--;
    if (!wide) return (onnxc_string){arena_strndup(a, (const char *)s, (size_t)width), (size_t)width};
    for (int64_t i = 0; i < width; i += 4) {
        uint32_t c = s[i] | (uint32_t)s[i + 1] << 8 | (uint32_t)s[i + 2] << 16 | (uint32_t)s[i + 3] << 24;
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
        char bytes[] = {(char)(c < 0x80      ? c
                               : c < 0x800   ? 0xc0 | c >> 6
                               : c < 0x10000 ? 0xe0 | c >> 12
                                             : 0xf0 | c >> 18),
                        (char)(0x80 | (c >> 12 & 63)), (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63))};
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        text_addn(&t, bytes, 1);
        text_addn(&t, bytes + 5 - n, n - 1);
    }
    return (onnxc_string){text_str(&t), t.n};
}

static void npy_from_fortran(arena *a, tensor *t) {
    int64_t size = dtype_size(t->dtype, 1), at[MAX_RANK] = {0};
    char *to = tensor_new(a, t->dtype, t->rank, t->dims).data;
    for (int64_t i = 0; i < t->count; i++) {
        int64_t from = 0;
        for (int j = t->rank - 1; j >= 0; j--) from = from * t->dims[j] + at[j];
        memcpy(to + i * size, (char *)t->data + from * size, (size_t)size);
        for (int j = t->rank - 1; j >= 0 && ++at[j] == t->dims[j]; j--) at[j] = 0;
    }
    t->data = to;
}

static void check_size(diag *d, const char *what, const npy_header *h, dtype t, int64_t count,
                       int64_t bytes) {
    if (bytes >= 0 && (uint64_t)bytes <= h->size) return;
    diag_fatal(d, NULL, "'%s' is truncated: %lld elements of %s take %lld bytes, but it has %zu", what,
               (long long)count, dtype_name(t), (long long)bytes, h->size);
}

static tensor npy_strings(arena *a, diag *d, const char *what, const npy_header *h, int64_t width) {
    int64_t count = 1, bytes;
    for (int j = 0; j < h->rank; j++) count *= h->dims[j];
    if (__builtin_mul_overflow(count, width, &bytes)) bytes = INT64_MAX;
    check_size(d, what, h, DT_STRING, count, bytes);
    tensor x = tensor_new(a, DT_STRING, h->rank, h->dims);
    for (int64_t i = 0; i < count; i++)
        ((onnxc_string *)x.data)[i] = npy_string(a, h->data + i * width, width, h->descr[1] == 'U');
    if (h->fortran && x.rank > 1) npy_from_fortran(a, &x);
    return x;
}

tensor npy_read(arena *a, diag *d, const char *what, const uint8_t *data, size_t size, dtype hint) {
    npy_header h = {0};
    npy_reader r = {.arena = a};
    if (!npy_parse(&r, &h, data, size)) diag_fatal(d, NULL, "'%s' is not a .npy file: %s", what, r.why);
    int64_t width = npy_string_width(h.descr);
    if (width) return npy_strings(a, d, what, &h, width);
    dtype t = npy_dtype(h.descr, hint);
    if (t == DT_NONE) {
        if (h.descr[0] && h.descr[1] == 'O')
            diag_hint(d, "numpy's astype(str) converts arrays of objects to strings");
        if (h.descr[0] == '>')
            diag_hint(d, "numpy's byteswap() and newbyteorder() convert big-endian arrays");
        diag_fatal(d, NULL, "'%s' has elements of numpy type '%s', which cannot be read", what,
                   shown(a, h.descr));
    }
    int64_t count = 1;
    for (int j = 0; j < h.rank; j++) count *= h.dims[j];
    bool packed = dtype_bits(t) < 8;
    int64_t bytes = packed ? count : dtype_size(t, count);
    check_size(d, what, &h, t, count, bytes);
    tensor x = tensor_new(a, t, h.rank, h.dims);
    if (packed) npy_pack(&x, h.data);
    else if (bytes) memcpy(x.data, h.data, (size_t)bytes);
    tensor_normalize(&x);
    if (h.fortran && x.rank > 1 && !packed) npy_from_fortran(a, &x);
    return x;
}

// ---------------------------------------------------------------- .npz: a zip archive of .npy files
enum {
    ZIP_END = 22,
    ZIP_ENTRY = 46,
    ZIP_LOCAL = 30,
    ZIP_COMMENT_MOST = 65535,
    ZIP_ENCRYPTED = 1,
    DEFLATE_MOST = 1032 // the most bytes that one byte of deflate unfolds to
};

static uint32_t get16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t get32(const uint8_t *p) { return get16(p) | get16(p + 2) << 16; }
static uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

// Whether n bytes at this place are in the file.
static bool has_room(const mapped *m, uint64_t at, uint64_t n) { return at <= m->size && n <= m->size - at; }

typedef struct zip_entry {
    const char *name;
    uint32_t flags, method, crc;
    uint64_t packed, size, local;
} zip_entry;
typedef VEC(zip_entry) zip_entries;

// Sizes of 4 GiB and more are in an extra field, in this order, those only that do not fit.
static void zip64_sizes(zip_entry *e, const uint8_t *extra, size_t n) {
    while (n >= 4 && get16(extra + 2) + 4 <= n) {
        size_t length = get16(extra + 2);
        const uint8_t *p = extra + 4, *end = p + length;
        uint64_t *fields[] = {&e->size, &e->packed, &e->local};
        for (int j = 0; get16(extra) == 1 && j < 3 && p + 8 <= end; j++)
            if (*fields[j] == UINT32_MAX) *fields[j] = get64(p), p += 8;
        extra = end;
        n -= length + 4;
    }
}

// Where the last record begins, which a comment may follow.
static uint64_t zip_end(diag *d, const mapped *m) {
    size_t end = m->size < ZIP_END ? 0 : m->size - ZIP_END;
    size_t least = end > ZIP_COMMENT_MOST ? end - ZIP_COMMENT_MOST : 0;
    if (m->size < ZIP_END) diag_fatal(d, NULL, "'%s' is not a .npz file: it has %zu bytes", m->path, m->size);
    while (end > least && get32(m->data + end) != 0x06054b50) end--;
    if (get32(m->data + end) != 0x06054b50)
        diag_fatal(d, NULL, "'%s' is not a .npz file, or is truncated: it has no zip directory at its end",
                   m->path);
    return end;
}

static zip_entries zip_list(arena *a, diag *d, const mapped *m) {
    zip_entries list = {0};
    uint64_t end = zip_end(d, m), at = get32(m->data + end + 16);
    uint32_t n = get16(m->data + end + 10);
    for (uint32_t i = 0; i < n; i++) {
        bool ok = has_room(m, at, ZIP_ENTRY) && get32(m->data + at) == 0x02014b50;
        const uint8_t *p = m->data + at;
        size_t name = ok ? get16(p + 28) : 0, extra = ok ? get16(p + 30) : 0;
        if (!ok || !has_room(m, at, ZIP_ENTRY + name + extra))
            diag_fatal(d, NULL, "'%s' is damaged: member %u of %u is not where it should be", m->path, i, n);
        zip_entry e = {arena_strndup(a, (const char *)p + ZIP_ENTRY, name),
                       get16(p + 8),
                       get16(p + 10),
                       get32(p + 16),
                       get32(p + 20),
                       get32(p + 24),
                       get32(p + 42)};
        zip64_sizes(&e, p + ZIP_ENTRY + name, extra);
        VEC_PUSH(a, &list, e);
        at += ZIP_ENTRY + name + extra + get16(p + 32);
    }
    return list;
}

static const uint8_t *zip_inflate(arena *a, const uint8_t *from, const zip_entry *e) {
    if (e->packed > UINT32_MAX || e->size > UINT32_MAX) return NULL;
    uint8_t *to = arena_alloc(a, e->size + 1);
    z_stream z = {
        .next_in = (Bytef *)from, .avail_in = (uInt)e->packed, .next_out = to, .avail_out = (uInt)e->size};
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return NULL;
    int result = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return result == Z_STREAM_END && z.total_out == e->size && z.total_in == e->packed ? to : NULL;
}

static const uint8_t *zip_extract(arena *a, diag *d, const mapped *m, const zip_entry *e) {
    const char *name = shown(a, e->name);
    bool ok = has_room(m, e->local, ZIP_LOCAL) && get32(m->data + e->local) == 0x04034b50;
    uint64_t at =
        ok ? e->local + ZIP_LOCAL + get16(m->data + e->local + 26) + get16(m->data + e->local + 28) : 0;
    if (!ok || !has_room(m, at, e->packed))
        diag_fatal(d, NULL, "'%s': member '%s' is damaged: its %llu bytes are not in the file's %zu", m->path,
                   name, (unsigned long long)e->packed, m->size);
    if (e->flags & ZIP_ENCRYPTED) diag_fatal(d, NULL, "'%s': member '%s' is encrypted", m->path, name);
    if (e->method != 0 && e->method != Z_DEFLATED)
        diag_fatal(d, NULL, "'%s': member '%s' has an unknown compression method (%u)", m->path, name,
                   e->method);
    if (e->method == 0 ? e->size != e->packed : e->size / DEFLATE_MOST > e->packed)
        diag_fatal(d, NULL, "'%s': member '%s' is damaged: %llu bytes cannot hold %llu", m->path, name,
                   (unsigned long long)e->packed, (unsigned long long)e->size);
    const uint8_t *data = e->method == 0 ? m->data + at : zip_inflate(a, m->data + at, e);
    if (!data || crc32_z(0, data, e->size) != e->crc)
        diag_fatal(d, NULL, "'%s': member '%s' is damaged: %s", m->path, name,
                   data ? "its checksum differs" : "its compressed data are invalid");
    return data;
}

tensor npz_read(arena *a, diag *d, const port *p, const char *path) {
    mapped m = file_map(a, d, path, INT64_MAX);
    zip_entries list = zip_list(a, d, &m);
    const char *wanted = arena_printf(a, "%s.npy", p->name);
    for (int j = 0; j < list.n; j++) {
        const zip_entry *e = &list.at[j];
        if (list.n > 1 && strcmp(e->name, wanted) != 0 && strcmp(e->name, p->name) != 0) continue;
        return npy_read(a, d, arena_printf(a, "%s/%s", path, shown(a, e->name)), zip_extract(a, d, &m, e),
                        e->size, p->dtype);
    }
    diag_fatal(d, NULL, "'%s' has no member '%s'", path, wanted);
}
