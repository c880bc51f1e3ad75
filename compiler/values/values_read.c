// Reads values from files: ONNX's .pb, numbers as text, raw bytes; numpy's formats are in values_npy.c.
#include "compiler/base/fs.h"
#include "compiler/import/file.h"
#include "compiler/values/values.h"
#include "runtime-lite/core/numbers.h"
#include "runtime-lite/onnxc.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 60 }; // bytes of the file's text quoted in messages

// ---------------------------------------------------------------- text and raw bytes
// Sizes for `count` elements: those of the port, with at most one variable size inferred.
static void fit_dims(diag *d, const port *p, const char *path, int64_t count, int64_t *dims) {
    int64_t known = 1;
    int open = -1, nopen = 0;
    bool over = false;
    for (int j = 0; j < p->rank; j++) {
        dims[j] = p->dims[j];
        if (dims[j] < 0) open = j, nopen++;
        else over |= __builtin_mul_overflow(known, dims[j], &known);
    }
    bool fits = p->rank >= 0 && !over && nopen <= 1 && (nopen ? known && count % known == 0 : count == known);
    if (nopen > 1) diag_hint(d, "--dim and --shape bind open sizes");
    const char *elements = count == 1 ? "element" : "elements";
    if (!fits && p->rank >= 0 && !nopen && !over)
        diag_fatal(d, NULL, "'%s' has %lld %s, but input '%s' (%s) has %lld", path, (long long)count,
                   elements, p->name, port_text(d->arena, p), (long long)known);
    if (!fits)
        diag_fatal(d, NULL, "'%s' has %lld %s, which do not determine the sizes of input '%s' (%s)", path,
                   (long long)count, elements, p->name, port_text(d->arena, p));
    if (open >= 0) dims[open] = count / known;
}

static bool csv_int(const char *s, dtype t, uint64_t *v) {
    int64_t lo = t == DT_BOOL ? 0 : dtype_int_min(t), hi = t == DT_BOOL ? 1 : dtype_int_max(t);
    return number_int(s, lo, hi, t == DT_U64, v);
}

static bool csv_store(const char *s, const tensor *t, int64_t i) {
    bool yes = number_is_word(s, "true");
    if (yes || number_is_word(s, "false")) {
        dtype_store_int(t->dtype, t->data, i, yes);
        return true;
    }
    if (!dtype_is_float(t->dtype)) {
        uint64_t v;
        if (!csv_int(s, t->dtype, &v)) return false;
        dtype_store_int(t->dtype, t->data, i, (int64_t)v);
        return true;
    }
    char *end;
    double x = strtod(s, &end);
    dtype_store_float(t->dtype, t->data, i, x, true);
    return end == s + number_word_size(s);
}

static int line_of(const char *all, const char *at) {
    int line = 1;
    for (const char *s = all; s < at; s++) line += *s == '\n';
    return line;
}

// Strings are fields of RFC 4180, one for each element: in quotes where they contain commas, quotes (twice) or
// ends of lines.
typedef struct csv_strings {
    arena *arena;
    diag *diag;
    const char *path, *all, *s; // s: the next field; NULL: there is none
} csv_strings;

static onnxc_string csv_quoted(csv_strings *c) {
    text t = {.arena = c->arena};
    const char *begin = c->s++, *end;
    for (; (end = strchr(c->s, '"')) && end[1] == '"'; c->s = end + 2)
        text_addn(&t, c->s, (size_t)(end + 1 - c->s));
    if (!end)
        diag_fatal(c->diag, NULL, "'%s', line %d: a quote is not closed", c->path, line_of(c->all, begin));
    text_addn(&t, c->s, (size_t)(end - c->s));
    c->s = end + 1;
    if (*c->s == '\r' && (c->s[1] == '\n' || !c->s[1])) c->s++;
    if (!strchr(",\n", *c->s))
        diag_fatal(c->diag, NULL, "'%s', line %d: a comma must follow the field in quotes", c->path,
                   line_of(c->all, c->s));
    return (onnxc_string){text_str(&t), t.n};
}

static onnxc_string csv_string(csv_strings *c) {
    onnxc_string field = {c->s, strcspn(c->s, ",\n")};
    if (*c->s == '"') {
        field = csv_quoted(c);
    } else {
        c->s += field.size;
        if (*c->s != ',' && field.size && c->s[-1] == '\r') field.size--;
    }
    c->s = *c->s == ',' || (*c->s && c->s[1]) ? c->s + 1 : NULL; // a file ends with the end of a line
    return field;
}

static tensor csv_read_strings(arena *a, diag *d, const port *p, const char *path, const char *all) {
    const char *mark = "\xef\xbb\xbf"; // which some programs write first
    const char *s = strncmp(all, mark, strlen(mark)) == 0 ? all + strlen(mark) : all;
    csv_strings c = {a, d, path, all, *s ? s : NULL};
    VEC(onnxc_string) fields = {0};
    int64_t dims[MAX_RANK];
    while (c.s) VEC_PUSH(a, &fields, csv_string(&c));
    fit_dims(d, p, path, fields.n, dims);
    tensor t = tensor_new(a, DT_STRING, p->rank, dims);
    if (fields.n) memcpy(t.data, fields.at, (size_t)fields.n * sizeof *fields.at);
    return t;
}

static tensor csv_read(arena *a, diag *d, const port *p, const char *path) {
    if (dtype_class_of(p->dtype) == DC_COMPLEX)
        diag_fatal(d, NULL, "'%s': input '%s' is %s, which cannot be read from text", path, p->name,
                   port_text(a, p));
    mapped m = file_map(a, d, path, INT64_MAX);
    const char *nul = m.size ? memchr(m.data, 0, m.size) : NULL;
    if (nul)
        diag_fatal(d, NULL, "'%s' is not text: byte %lld is NUL", path,
                   (long long)(nul - (const char *)m.data));
    const char *all = arena_strndup(a, (const char *)m.data, m.size);
    if (p->dtype == DT_STRING) return csv_read_strings(a, d, p, path, all);
    int64_t dims[MAX_RANK], count = 0, i = 0;
    for (const char *s = number_next_word(all); s; s = number_next_word(s + number_word_size(s))) count++;
    fit_dims(d, p, path, count, dims);
    tensor t = tensor_new(a, p->dtype, p->rank, dims);
    for (const char *s = number_next_word(all); s; s = number_next_word(s + number_word_size(s))) {
        if (csv_store(s, &t, i++)) continue;
        text shown = {.arena = a};
        text_add_safe(&shown, arena_strndup(a, s, number_word_size(s)), SHOWN);
        diag_fatal(d, NULL, "'%s', line %d: '%s' is not a valid %s", path, line_of(all, s), text_str(&shown),
                   dtype_name(p->dtype));
    }
    return t;
}

// Several elements per byte: the sizes give the number in the last byte.
static tensor raw_read(arena *a, diag *d, const port *p, const char *path) {
    mapped m = file_map(a, d, path, INT64_MAX);
    int bits = dtype_bits(p->dtype);
    int64_t dims[MAX_RANK], count = (int64_t)m.size * 8 / bits, known = 1;
    bool fixed = p->rank >= 0;
    if (p->dtype == DT_STRING)
        diag_fatal(d, NULL,
                   "'%s': input '%s' has strings, which can be read from .pb, .npy, .npz and .csv files only",
                   path, p->name);
    if ((int64_t)m.size * 8 % bits)
        diag_fatal(d, NULL, "'%s' has %zu bytes, which is not a multiple of the %d bytes of an element of %s",
                   path, m.size, bits / 8, dtype_name(p->dtype));
    for (int j = 0; j < p->rank && fixed; j++)
        fixed = p->dims[j] >= 0 && !__builtin_mul_overflow(known, p->dims[j], &known);
    if (fixed && dtype_size(p->dtype, known) == (int64_t)m.size) count = known;
    if (fixed && count != known)
        diag_fatal(d, NULL, "'%s' has %zu bytes, but input '%s' (%s) takes %lld", path, m.size, p->name,
                   port_text(a, p), (long long)dtype_size(p->dtype, known));
    fit_dims(d, p, path, count, dims);
    tensor t = tensor_new(a, p->dtype, p->rank, dims);
    if (m.size) memcpy(t.data, m.data, m.size);
    tensor_normalize(&t);
    return t;
}

// ---------------------------------------------------------------- any file
static void check_fits(arena *a, diag *d, const port *p, const tensor *t, const char *path) {
    bool fits = t->dtype == p->dtype && (p->rank == RANK_UNKNOWN || t->rank == p->rank);
    for (int j = 0; fits && j < p->rank; j++) fits = p->dims[j] < 0 || p->dims[j] == t->dims[j];
    if (fits) return;
    diag_fatal(d, NULL, "'%s' contains %s, but '%s' is %s", path, tensor_text(a, t), p->name,
               port_text(a, p));
}

// The argument of "sequence(...)"; NULL: another type.
static const char *inner_type(arena *a, const char *type, const char *kind) {
    size_t n = strlen(kind), m = strlen(type);
    if (strncmp(type, kind, n) != 0 || type[n] != '(' || m < n + 2) return NULL;
    return arena_strndup(a, type + n + 1, m - n - 2);
}

static const char *value_text(arena *a, const import_value *v) {
    if (v->kind == TYPE_TENSOR) return arena_printf(a, "a tensor of %s", dtype_name(v->tensor->elem));
    return v->kind == TYPE_SEQUENCE ? "a sequence" : v->kind == TYPE_MAP ? "a map" : "an optional";
}

static bool is_tensor_of(const char *type, dtype elem) {
    size_t n = strlen(dtype_name(elem));
    return strncmp(type, dtype_name(elem), n) == 0 && (!type[n] || type[n] == '[');
}

static void check_map(arena *a, diag *d, const port *p, const char *type, const import_value *v,
                      const char *path) {
    const char *key = dtype_name(v->keys->elem);
    size_t n = strlen(key);
    if (strncmp(type + 4, key, n) != 0 || type[4 + n] != ',')
        diag_fatal(d, NULL, "'%s' contains a map with keys of %s, but '%s' (%s) has %s", path, key, p->name,
                   port_text(a, p), type);
    for (int j = 0; j < v->n; j++) {
        if (map_takes(map_value_type(type), &v->items[j])) continue;
        bool single = v->items[j].kind != TYPE_TENSOR || v->items[j].tensor->count == 1;
        diag_fatal(d, NULL, "'%s' contains a map of %s%s, but '%s' (%s) has %s", path,
                   value_text(a, &v->items[j]), single ? "" : " with several elements", p->name,
                   port_text(a, p), type);
    }
}

// The run checks boxed values too, since they need not be from files.
static void check_boxed(arena *a, diag *d, const port *p, const char *type, const import_value *v,
                        const char *path) {
    if (v->kind == TYPE_MAP && strncmp(type, "map(", 4) == 0) {
        check_map(a, d, p, type, v, path);
        return;
    }
    const char *inner = v->kind == TYPE_SEQUENCE   ? inner_type(a, type, "sequence")
                        : v->kind == TYPE_OPTIONAL ? inner_type(a, type, "optional")
                                                   : NULL;
    if (v->kind == TYPE_TENSOR ? !is_tensor_of(type, v->tensor->elem) : !inner)
        diag_fatal(d, NULL, "'%s' contains %s, but '%s' (%s) has %s", path, value_text(a, v), p->name,
                   port_text(a, p), type);
    for (int j = 0; j < v->n; j++) check_boxed(a, d, p, inner, &v->items[j], path);
}

static import_value *pb_read(arena *a, diag *d, const port *p, const char *path) {
    import_value *v = import_value_file(a, d, path, p->kind);
    v->name = p->name;
    if (p->boxed) {
        if (p->type) check_boxed(a, d, p, p->type, v, path);
        return v;
    }
    if (v->kind != TYPE_TENSOR) return v;
    tensor t = tensor_of(a, v->tensor);
    check_fits(a, d, p, &t, path);
    if (v->tensor->elem != DT_STRING) v->tensor = constant_of(a, &t);
    return v;
}

import_value *value_read(arena *a, diag *d, const port *p, const char *path) {
    if (p->kind != TYPE_TENSOR && !ends_with(path, ".pb"))
        diag_fatal(d, NULL, "'%s': input '%s' is %s, which can be read from .pb files only", path, p->name,
                   port_text(a, p));
    if (ends_with(path, ".pb")) return pb_read(a, d, p, path);
    tensor t;
    if (ends_with(path, ".npy")) {
        mapped m = file_map(a, d, path, INT64_MAX);
        t = npy_read(a, d, path, m.data, m.size, p->dtype);
    } else if (ends_with(path, ".npz")) {
        t = npz_read(a, d, p, path);
    } else {
        t = ends_with(path, ".csv") ? csv_read(a, d, p, path) : raw_read(a, d, p, path);
    }
    check_fits(a, d, p, &t, path);
    return value_of_tensor(a, p->name, &t);
}
