// Values to files: .npy, .npz, ONNX's .pb, numbers in text, raw bytes, as the file's ending says.
#include "compiler/base/fs.h"
#include "compiler/base/outfile.h"
#include "compiler/values/values.h"
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

static void put(text *out, uint64_t v, int bytes) {
    for (int j = 0; j < bytes; j++) text_addn(out, (char[]){(char)(v >> (8 * j))}, 1);
}

// A zip archive of one stored member; its time is the format's first.
static void npz_write(text *out, diag *d, const import_value *v, const tensor *t, const char *path) {
    text npy = {.arena = out->arena}, fields = {.arena = out->arena};
    npy_write(&npy, d, t, path);
    if (npy.n > UINT32_MAX) diag_fatal(d, NULL, "'%s': too large for .npz", path);
    const char *name = arena_printf(out->arena, "%s.npy", v->name);
    put(&fields, 20, 2), put(&fields, 0, 4), put(&fields, 0, 2), put(&fields, 33, 2);
    put(&fields, crc32(crc32(0, NULL, 0), (const Bytef *)npy.s, (uInt)npy.n), 4);
    put(&fields, npy.n, 4), put(&fields, npy.n, 4), put(&fields, strlen(name), 2), put(&fields, 0, 2);
    put(out, 0x04034b50, 4), text_addn(out, fields.s, fields.n), text_add(out, name),
        text_addn(out, npy.s, npy.n);
    size_t directory = out->n;
    put(out, 0x02014b50, 4), put(out, 20, 2), text_addn(out, fields.s, fields.n), put(out, 0, 8),
        put(out, 0, 6), text_add(out, name);
    size_t size = out->n - directory;
    put(out, 0x06054b50, 4), put(out, 0, 4), put(out, 1, 2), put(out, 1, 2), put(out, size, 4),
        put(out, directory, 4), put(out, 0, 2);
}

// ---------------------------------------------------------------- protobuf: field numbers are those of
// onnx.proto
enum { VARINT = 0, BYTES = 2 };
static void put_varint(text *out, uint64_t v) {
    for (; v >= 128; v >>= 7) put(out, (v & 127) | 128, 1);
    put(out, v, 1);
}
static void put_number(text *out, int field, uint64_t v) {
    put_varint(out, (uint64_t)field << 3 | VARINT), put_varint(out, v);
}
static void put_bytes(text *out, int field, const void *s, size_t n) {
    put_varint(out, (uint64_t)field << 3 | BYTES);
    put_varint(out, n);
    text_addn(out, s, n);
}

static void pb_tensor(text *out, const constant *c, const char *name) {
    for (int j = 0; j < c->rank; j++) put_number(out, 1, (uint64_t)c->dims[j]);
    put_number(out, 2, (uint64_t)c->elem);
    for (int64_t i = 0; c->kind == CONST_STRINGS && i < c->count; i++)
        put_bytes(out, 6, c->strings[i], c->string_sizes[i]);
    if (*name) put_bytes(out, 8, name, strlen(name));
    if (c->kind == CONST_STRINGS) return;
    tensor t = tensor_of(out->arena, c);
    put_bytes(out, 9, t.data, (size_t)dtype_size(c->elem, c->count));
}

static void pb_value(text *out, const import_value *v);
static void put_value(text *out, int field, const import_value *v) {
    text inner = {.arena = out->arena};
    pb_value(&inner, v);
    put_bytes(out, field, inner.s, inner.n);
}

// SequenceProto.DataType and OptionalProto.DataType number alike; a tensor is 1.
static int pb_kind(type_kind k) {
    switch (k) {
    case TYPE_NONE: return 0;
    case TYPE_TENSOR: return 1;
    case TYPE_SPARSE: return 2;
    case TYPE_SEQUENCE: return 3;
    case TYPE_MAP: return 4;
    case TYPE_OPTIONAL: return 5;
    }
    return 0;
}

static void pb_map(text *out, const import_value *v) {
    put_number(out, 2, (uint64_t)v->keys->elem);
    bool strings = v->keys->kind == CONST_STRINGS;
    for (int j = 0; j < v->n; j++) {
        if (strings) put_bytes(out, 4, v->keys->strings[j], v->keys->string_sizes[j]);
        else put_number(out, 3, (uint64_t)constant_int(v->keys, j));
    }
    import_value values = {.kind = TYPE_SEQUENCE, .name = "", .n = v->n, .items = v->items};
    put_value(out, 5, &values);
}

static void pb_value(text *out, const import_value *v) {
    if (v->kind == TYPE_TENSOR) {
        pb_tensor(out, v->tensor, v->name ? v->name : "");
        return;
    }
    if (v->name && *v->name) put_bytes(out, 1, v->name, strlen(v->name));
    if (v->kind == TYPE_MAP) {
        pb_map(out, v);
        return;
    }
    int kind = v->n ? pb_kind(v->items[0].kind) : 1;
    put_number(out, 2, (uint64_t)kind);
    for (int j = 0; j < v->n; j++) put_value(out, kind + 2, &v->items[j]);
}

// ---------------------------------------------------------------- text
static void csv_write(text *out, const tensor *t) {
    int64_t row = t->rank ? t->dims[t->rank - 1] : 1;
    for (int64_t i = 0; i < t->count; i++) {
        if (i) text_add(out, i % row ? "," : "\n");
        element_print(out, t, i);
    }
    text_add(out, "\n");
}

void value_write(arena *a, diag *d, const import_value *v, const char *path) {
    text out = {.arena = a};
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
