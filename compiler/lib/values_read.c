// Files to values: numpy's .npy and .npz, ONNX's .pb, numbers in text, raw bytes.
#include "compiler/import/file.h"
#include "compiler/lib/option.h"
#include "compiler/lib/values.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static bool ends_with(const char *s, const char *ending) {
    size_t n = strlen(s), m = strlen(ending);
    return n >= m && strcmp(s + n - m, ending) == 0;
}

// ---------------------------------------------------------------- .npy
typedef struct npy_header {
    const char *descr;
    bool fortran;
    int rank;
    int64_t dims[MAX_RANK];
    const uint8_t *data;
    size_t size;
} npy_header;

static const char *npy_field(const char *header, const char *name) {
    const char *at = strstr(header, name);
    if (!at) return NULL;
    at = strchr(at, ':');
    if (at) at++;
    while (at && *at == ' ') at++;
    return at;
}

static bool npy_shape(npy_header *h, const char *s) {
    if (!s || *s++ != '(') return false;
    while (*s && *s != ')') {
        char *end;
        long long n = strtoll(s, &end, 10);
        if (end == s || n < 0 || h->rank == MAX_RANK) return false;
        h->dims[h->rank++] = n;
        for (s = end; *s == ',' || *s == ' ' || *s == 'L';) s++;
    }
    return *s == ')';
}

// Header of the .npy format, versions 1 to 3: a Python dictionary.
static bool npy_parse(arena *a, npy_header *h, const uint8_t *data, size_t size) {
    if (size < 10 || memcmp(data, "\x93NUMPY", 6) != 0) return false;
    size_t start = data[6] == 1 ? 10 : 12, n = data[8] | (size_t)data[9] << 8;
    if (data[6] != 1 && size < 12) return false;
    if (data[6] != 1) n |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (start + n > size) return false;
    const char *text = arena_strndup(a, (const char *)data + start, n);
    const char *descr = npy_field(text, "'descr'"), *order = npy_field(text, "'fortran_order'");
    if (!descr || *descr != '\'' || !order || !npy_shape(h, npy_field(text, "'shape'"))) return false;
    h->descr = arena_strndup(a, descr + 1, strcspn(descr + 1, "'"));
    h->fortran = *order == 'T';
    h->data = data + start + n;
    h->size = size - start - n;
    return true;
}

// ml_dtypes writes its types as opaque bytes (V1, V2): the port says which is meant.
static dtype npy_dtype(const char *descr, dtype hint) {
    static const struct {
        const char *code;
        dtype t;
    } table[] = {{"f4", DT_F32}, {"f8", DT_F64}, {"f2", DT_F16}, {"b1", DT_BOOL}, {"i1", DT_I8},
                 {"i2", DT_I16}, {"i4", DT_I32}, {"i8", DT_I64}, {"u1", DT_U8},   {"u2", DT_U16},
                 {"u4", DT_U32}, {"u8", DT_U64}, {"c8", DT_C64}, {"c16", DT_C128}};
    if (descr[0] == '>' || !descr[0]) return DT_NONE;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(descr + 1, table[i].code) == 0) return table[i].t;
    bool bytes = descr[1] == 'V' && hint != DT_NONE;
    return bytes && atoi(descr + 2) == (dtype_bits(hint) + 7) / 8 ? hint : DT_NONE;
}

// One element to a byte in numpy, several in ONNX.
static void npy_pack(tensor *t, const uint8_t *data) {
    for (int64_t i = 0; i < t->count; i++) {
        int bits = dtype_bits(t->dtype), per = 8 / bits;
        ((uint8_t *)t->data)[i / per] |= (uint8_t)((data[i] & ((1 << bits) - 1)) << (i % per * bits));
    }
}

static void npy_from_fortran(arena *a, tensor *t) {
    int64_t size = dtype_bits(t->dtype) / 8, at[MAX_RANK] = {0};
    char *to = tensor_new(a, t->dtype, t->rank, t->dims).data;
    for (int64_t i = 0; i < t->count; i++) {
        int64_t from = 0;
        for (int j = t->rank - 1; j >= 0; j--) from = from * t->dims[j] + at[j];
        memcpy(to + i * size, (char *)t->data + from * size, (size_t)size);
        for (int j = t->rank - 1; j >= 0 && ++at[j] == t->dims[j]; j--) at[j] = 0;
    }
    t->data = to;
}

tensor npy_read(arena *a, diag *d, const char *what, const uint8_t *data, size_t size, dtype hint) {
    npy_header h = {0};
    if (!npy_parse(a, &h, data, size)) diag_fatal(d, NULL, "'%s' is no .npy file", what);
    dtype t = npy_dtype(h.descr, hint);
    if (t == DT_NONE)
        diag_fatal(d, NULL, "'%s' holds elements of numpy's type '%s', which cannot be read", what, h.descr);
    int64_t count = 1, bytes;
    bool over = false;
    for (int j = 0; j < h.rank; j++) over |= __builtin_mul_overflow(count, h.dims[j], &count);
    bool packed = dtype_bits(t) < 8;
    bytes = over ? -1 : packed ? count : dtype_size(t, count);
    if (bytes < 0 || (uint64_t)bytes > h.size) diag_fatal(d, NULL, "'%s' is cut short", what);
    tensor x = tensor_new(a, t, h.rank, h.dims);
    if (packed) npy_pack(&x, h.data);
    else if (bytes) memcpy(x.data, h.data, (size_t)bytes);
    if (h.fortran && x.rank > 1 && !packed) npy_from_fortran(a, &x);
    return x;
}

// ---------------------------------------------------------------- .npz: a zip archive of .npy files
enum { ZIP_END = 22, ZIP_ENTRY = 46, ZIP_LOCAL = 30, ZIP_COMMENT_MOST = 65535 };

static uint32_t get16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t get32(const uint8_t *p) { return get16(p) | get16(p + 2) << 16; }
static uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

typedef struct zip_entry {
    const char *name;
    uint32_t method;
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

static zip_entries zip_list(arena *a, diag *d, const mapped *m) {
    zip_entries list = {0};
    size_t end = m->size < ZIP_END ? 0 : m->size - ZIP_END;
    size_t least = end > ZIP_COMMENT_MOST ? end - ZIP_COMMENT_MOST : 0;
    while (end > least && get32(m->data + end) != 0x06054b50) end--;
    if (m->size < ZIP_END || get32(m->data + end) != 0x06054b50)
        diag_fatal(d, NULL, "'%s' is no .npz file", m->path);
    uint64_t at = get32(m->data + end + 16);
    for (uint32_t n = get16(m->data + end + 10); n; n--) {
        if (at + ZIP_ENTRY > m->size || get32(m->data + at) != 0x02014b50) break;
        const uint8_t *p = m->data + at;
        size_t name = get16(p + 28), extra = get16(p + 30);
        if (at + ZIP_ENTRY + name + extra > m->size) break;
        zip_entry e = {arena_strndup(a, (const char *)p + ZIP_ENTRY, name), get16(p + 10), get32(p + 20),
                       get32(p + 24), get32(p + 42)};
        zip64_sizes(&e, p + ZIP_ENTRY + name, extra);
        VEC_PUSH(a, &list, e);
        at += ZIP_ENTRY + name + extra + get16(p + 32);
    }
    return list;
}

static const uint8_t *zip_extract(arena *a, diag *d, const mapped *m, const zip_entry *e) {
    bool ok = e->local + ZIP_LOCAL <= m->size && get32(m->data + e->local) == 0x04034b50;
    uint64_t at =
        ok ? e->local + ZIP_LOCAL + get16(m->data + e->local + 26) + get16(m->data + e->local + 28) : 0;
    ok = ok && at <= m->size && e->packed <= m->size - at && e->size < (uint64_t)1 << 40;
    if (!ok) diag_fatal(d, NULL, "'%s': member '%s' is damaged", m->path, e->name);
    if (e->method == 0 && e->packed == e->size) return m->data + at;
    if (e->method != Z_DEFLATED)
        diag_fatal(d, NULL, "'%s': member '%s' is packed in an unknown way", m->path, e->name);
    uint8_t *to = arena_alloc(a, e->size + 1);
    z_stream z = {.next_in = (Bytef *)(m->data + at),
                  .avail_in = (uInt)e->packed,
                  .next_out = to,
                  .avail_out = (uInt)e->size};
    ok = e->packed <= UINT32_MAX && e->size <= UINT32_MAX && inflateInit2(&z, -MAX_WBITS) == Z_OK;
    int result = ok ? inflate(&z, Z_FINISH) : Z_DATA_ERROR;
    if (ok) inflateEnd(&z);
    if (result != Z_STREAM_END || z.total_out != e->size)
        diag_fatal(d, NULL, "'%s': member '%s' is damaged", m->path, e->name);
    return to;
}

tensor npz_read(arena *a, diag *d, const port *p, const char *path) {
    mapped m = file_map(a, d, path, INT64_MAX);
    zip_entries list = zip_list(a, d, &m);
    const char *wanted = arena_printf(a, "%s.npy", p->name);
    for (int j = 0; j < list.n; j++) {
        const zip_entry *e = &list.at[j];
        if (list.n > 1 && strcmp(e->name, wanted) != 0 && strcmp(e->name, p->name) != 0) continue;
        return npy_read(a, d, arena_printf(a, "%s/%s", path, e->name), zip_extract(a, d, &m, e), e->size,
                        p->dtype);
    }
    diag_fatal(d, NULL, "'%s' has no member '%s'", path, wanted);
}

// ---------------------------------------------------------------- text and raw bytes
// Sizes for `count` elements: the port's, with at most one open size worked out.
static void fit_dims(diag *d, const port *p, const char *path, int64_t count, int64_t *dims) {
    int64_t known = 1;
    int open = -1, nopen = 0;
    for (int j = 0; j < p->rank; j++) {
        dims[j] = p->dims[j];
        if (dims[j] < 0) open = j, nopen++;
        else known *= dims[j];
    }
    bool fits = p->rank >= 0 && nopen <= 1 && (nopen ? known && count % known == 0 : count == known);
    if (nopen > 1) diag_hint(d, "--dim and --shape bind open sizes");
    if (!fits)
        diag_fatal(d, NULL, "'%s' has %lld elements, which do not tell the sizes of input '%s'", path,
                   (long long)count, p->name);
    if (open >= 0) dims[open] = count / known;
}

static tensor csv_read(arena *a, diag *d, const port *p, const char *path) {
    mapped m = file_map(a, d, path, INT64_MAX);
    const char *s = arena_strndup(a, (const char *)m.data, m.size);
    VEC(double) v = {0};
    while (*s) {
        char *end;
        if (isspace((unsigned char)*s) || *s == ',' || *s == ';') {
            s++;
            continue;
        }
        double x = strncmp(s, "true", 4) == 0    ? (end = (char *)s + 4, 1.0)
                   : strncmp(s, "false", 5) == 0 ? (end = (char *)s + 5, 0.0)
                                                 : strtod(s, &end);
        if (end == s) diag_fatal(d, NULL, "'%s': '%.*s' is no number", path, (int)strcspn(s, ",; \t\r\n"), s);
        VEC_PUSH(a, &v, x);
        s = end;
    }
    int64_t dims[MAX_RANK];
    fit_dims(d, p, path, v.n, dims);
    tensor t = tensor_new(a, p->dtype, p->rank, dims);
    for (int j = 0; j < v.n; j++) {
        if (dtype_is_float(p->dtype)) dtype_store_float(p->dtype, t.data, j, v.at[j], true);
        else dtype_store_int(p->dtype, t.data, j, (int64_t)v.at[j]);
    }
    return t;
}

static tensor raw_read(arena *a, diag *d, const port *p, const char *path) {
    mapped m = file_map(a, d, path, INT64_MAX);
    int64_t dims[MAX_RANK];
    fit_dims(d, p, path, (int64_t)m.size * 8 / dtype_bits(p->dtype), dims);
    tensor t = tensor_new(a, p->dtype, p->rank, dims);
    if (m.size) memcpy(t.data, m.data, m.size);
    return t;
}

// ---------------------------------------------------------------- any file
static void check_fits(arena *a, diag *d, const port *p, const tensor *t, const char *path) {
    bool fits = t->dtype == p->dtype && (p->rank == RANK_UNKNOWN || t->rank == p->rank);
    for (int j = 0; fits && j < p->rank; j++) fits = p->dims[j] < 0 || p->dims[j] == t->dims[j];
    if (fits) return;
    text s = {.arena = a};
    for (int j = 0; j < t->rank; j++) text_printf(&s, "%s%lld", j ? ", " : "", (long long)t->dims[j]);
    diag_fatal(d, NULL, "'%s' holds %s[%s], but '%s' is %s", path, dtype_name(t->dtype), text_str(&s),
               p->name, port_text(a, p));
}

import_value *value_read(arena *a, diag *d, const port *p, const char *path) {
    if (ends_with(path, ".pb") || p->kind != TYPE_TENSOR) {
        import_value *v = import_value_file(a, d, path, p->kind);
        v->name = p->name;
        if (v->kind != TYPE_TENSOR || v->tensor->elem == DT_STRING) return v;
        tensor t = tensor_of(a, v->tensor);
        check_fits(a, d, p, &t, path);
        v->tensor = constant_of(a, &t);
        return v;
    }
    tensor t;
    if (ends_with(path, ".npy")) {
        mapped m = file_map(a, d, path, INT64_MAX);
        t = npy_read(a, d, path, m.data, m.size, p->dtype);
    } else if (ends_with(path, ".npz")) {
        t = npz_read(a, d, p, path);
    } else if (p->dtype == DT_STRING) {
        diag_fatal(d, NULL, "input '%s' holds strings: they are read from .pb files only", p->name);
    } else {
        t = ends_with(path, ".csv") ? csv_read(a, d, p, path) : raw_read(a, d, p, path);
    }
    check_fits(a, d, p, &t, path);
    return value_of_tensor(a, p->name, &t);
}
