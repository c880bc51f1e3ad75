// Writes values to files: .npy, .npz, ONNX's .pb, numbers as text, raw bytes, by the extension.
#include "compiler/base/fs.h"
#include "compiler/base/outfile.h"
#include "compiler/base/protobuf.h"
#include "compiler/values/values.h"
#include "runtime-lite/core/numbers.h"
#include "runtime-lite/onnxc.h"
#include <string.h>
#include <zlib.h>

// ---------------------------------------------------------------- .npy and .npz
static void npy_write(text *out, diag *d, const tensor *t, const char *path) {
    const char *code = dtype_npy(t->dtype);
    if (!*code) diag_fatal(d, NULL, "'%s': %s cannot be written as .npy", path, dtype_name(t->dtype));
    text h = {.arena = out->arena};
    text_printf(&h, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                dtype_bits(t->dtype) > 8 ? '<' : '|', code);
    for (int j = 0; j < t->rank; j++)
        text_printf(&h, "%lld,%s", (long long)t->dims[j], j + 1 < t->rank ? " " : "");
    text_add(&h, "), }");
    while ((h.n + 11) % 64) text_add(&h, " ");
    text_add(&h, "\n");
    text_addn(out, "\x93NUMPY\1\0", 8);
    text_addn(out, (char[]){(char)(h.n & 255), (char)(h.n >> 8)}, 2);
    text_addn(out, h.s, h.n);
    if (dtype_bits(t->dtype) >= 8) {
        text_addn(out, t->data, (size_t)dtype_size(t->dtype, t->count));
        return;
    }
    int bits = dtype_bits(t->dtype), per = 8 / bits;
    for (int64_t i = 0; i < t->count; i++) {
        char c = (char)(((const uint8_t *)t->data)[i / per] >> (i % per * bits) & ((1 << bits) - 1));
        text_addn(out, &c, 1);
    }
}

// A zip archive with one stored member, dated the earliest time of the format.
static void npz_write(text *out, diag *d, const import_value *v, const tensor *t, const char *path) {
    text npy = {.arena = out->arena}, fields = {.arena = out->arena};
    npy_write(&npy, d, t, path);
    if (npy.n > UINT32_MAX) diag_fatal(d, NULL, "'%s': too large for .npz", path);
    const char *name = arena_printf(out->arena, "%s.npy", v->name);
    // Shared by both records of the member: version, flags and method, time, date, checksum, sizes, length of
    // the name.
    pb_fixed(&fields, 20, 2);
    pb_fixed(&fields, 0, 6);
    pb_fixed(&fields, 33, 2);
    pb_fixed(&fields, crc32(crc32(0, NULL, 0), (const Bytef *)npy.s, (uInt)npy.n), 4);
    pb_fixed(&fields, npy.n, 4);
    pb_fixed(&fields, npy.n, 4);
    pb_fixed(&fields, strlen(name), 4);
    pb_fixed(out, 0x04034b50, 4);
    text_addn(out, fields.s, fields.n);
    text_add(out, name);
    text_addn(out, npy.s, npy.n);
    size_t directory = out->n;
    pb_fixed(out, 0x02014b50, 4);
    pb_fixed(out, 20, 2);
    text_addn(out, fields.s, fields.n);
    pb_fixed(out, 0, 8);
    pb_fixed(out, 0, 6);
    text_add(out, name);
    size_t size = out->n - directory;
    pb_fixed(out, 0x06054b50, 4);
    pb_fixed(out, 0x1000100000000, 8);
    pb_fixed(out, size, 4);
    pb_fixed(out, directory, 6);
}

// ---------------------------------------------------------------- protobuf, by the field numbers of onnx.proto
static void pb_tensor(text *out, const constant *c, const char *name) {
    for (int j = 0; j < c->rank; j++) pb_int(out, 1, (uint64_t)c->dims[j]);
    pb_int(out, 2, (uint64_t)c->elem);
    for (int64_t i = 0; c->kind == CONST_STRINGS && i < c->count; i++)
        pb_bytes(out, 6, c->strings[i], c->string_sizes[i]);
    if (*name) pb_bytes(out, 8, name, strlen(name));
    if (c->kind == CONST_STRINGS) return;
    tensor t = tensor_of(out->arena, c);
    size_t size = (size_t)dtype_raw_size(c->elem, c->count);
    void *raw = t.data;
    if ((int64_t)size != dtype_size(c->elem, c->count)) {
        raw = arena_alloc(out->arena, size + 1);
        dtype_pack(raw, t.data, c->count);
    }
    pb_bytes(out, 9, raw, size);
}

static void pb_value(text *out, const import_value *v);
static void put_value(text *out, int field, const import_value *v) {
    text inner = {.arena = out->arena};
    pb_value(&inner, v);
    pb_bytes(out, field, inner.s, inner.n);
}

// Values of SequenceProto.DataType and OptionalProto.DataType.
static const int pb_kinds[] = {
    [TYPE_TENSOR] = 1, [TYPE_SPARSE] = 2, [TYPE_SEQUENCE] = 3, [TYPE_MAP] = 4, [TYPE_OPTIONAL] = 5};

static void pb_map(text *out, const import_value *v) {
    pb_int(out, 2, (uint64_t)v->keys->elem);
    bool strings = v->keys->kind == CONST_STRINGS;
    for (int j = 0; j < v->n; j++) {
        if (strings) pb_bytes(out, 4, v->keys->strings[j], v->keys->string_sizes[j]);
        else pb_int(out, 3, (uint64_t)constant_int(v->keys, j));
    }
    import_value values = {.kind = TYPE_SEQUENCE, .name = "", .n = v->n, .items = v->items};
    put_value(out, 5, &values);
}

static void pb_value(text *out, const import_value *v) {
    if (v->kind == TYPE_TENSOR) {
        pb_tensor(out, v->tensor, v->name ? v->name : "");
        return;
    }
    if (v->name && *v->name) pb_bytes(out, 1, v->name, strlen(v->name));
    if (v->kind == TYPE_MAP) {
        pb_map(out, v);
        return;
    }
    int kind = v->n ? pb_kinds[v->items[0].kind] : 1;
    pb_int(out, 2, (uint64_t)kind);
    for (int j = 0; j < v->n; j++) put_value(out, kind + 2, &v->items[j]);
}

// ---------------------------------------------------------------- text
// As RFC 4180 has it: in quotes, those of the string twice.
static void csv_write_string(text *out, onnxc_string s) {
    text_add(out, "\"");
    for (size_t i = 0; i < s.size; i++) {
        if (s.data[i] == '"') text_add(out, "\"");
        text_addn(out, s.data + i, 1);
    }
    text_add(out, "\"");
}

static void csv_write(text *out, const tensor *t) {
    int64_t row = t->rank ? t->dims[t->rank - 1] : 1;
    for (int64_t i = 0; i < t->count; i++) {
        if (i) text_add(out, i % row ? "," : "\n");
        if (t->dtype == DT_STRING) csv_write_string(out, ((const onnxc_string *)t->data)[i]);
        else element_print(out, t, i);
    }
    text_add(out, "\n");
}

void value_check_path(diag *d, const char *path) {
    const char *unknown = number_unknown_extension(path);
    if (!unknown) return;
    diag_hint(d, "the extension is .npy, .npz, .pb, .csv, or .bin for raw bytes");
    diag_fatal(d, NULL, "'%s': values have no format '%s'", path, unknown);
}

void value_write(arena *a, diag *d, const import_value *v, const char *path) {
    text out = {.arena = a};
    value_check_path(d, path);
    if (ends_with(path, ".pb")) {
        pb_value(&out, v);
    } else {
        if (!v->tensor)
            diag_fatal(d, NULL, "'%s': '%s' is not a tensor: only a .pb file can hold it", path, v->name);
        tensor t = tensor_of(a, v->tensor);
        if (ends_with(path, ".npy")) npy_write(&out, d, &t, path);
        else if (ends_with(path, ".npz")) npz_write(&out, d, v, &t, path);
        else if (ends_with(path, ".csv")) csv_write(&out, &t);
        else if (t.dtype == DT_STRING)
            diag_fatal(d, NULL, "'%s': strings can be written to .pb and .csv files only", path);
        else text_addn(&out, t.data, (size_t)dtype_size(t.dtype, t.count));
    }
    outfile_write_whole(a, d, path, (bytes){out.s, out.n});
}
