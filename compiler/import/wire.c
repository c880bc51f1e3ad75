// Checks a protobuf file against the descriptors of protobuf-c before protobuf-c unpacks it, and writes the
// slim copy for protobuf-c: one pass checks and counts, a second one writes. The slim copy has no raw data,
// no unknown fields and no field that the import does not read; lengths of messages take a fixed five bytes,
// so that they can be filled in afterwards.
#include "compiler/import/wire.h"
#include "compiler/base/protobuf.h"
#include "proto/onnx.pb-c.h"
#include <string.h>

enum { DEPTH_MOST = 100 };

// Memory limit for the unpacked message: real models need a few times their slim size.
static const size_t memory_base = 256u << 20, memory_factor = 64;

// A message being walked; the chain is the path in error messages.
typedef struct frame {
    const struct frame *up;
    const ProtobufCMessageDescriptor *kind;
    const ProtobufCFieldDescriptor *field; // current field; NULL before the first
    int depth;
} frame;

typedef struct walker {
    arena *arena;
    diag *diag;
    const uint8_t *data;
    size_t size;
    uint8_t *out;  // NULL while counting
    size_t length; // bytes of slim copy so far
    size_t memory; // that protobuf-c will allocate
} walker;

static void path(text *t, const frame *f) {
    if (f->up) path(t, f->up);
    else text_add(t, f->kind->short_name);
    if (f->field) text_printf(t, ".%s", f->field->name);
}

static _Noreturn void fail(walker *w, const frame *f, size_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static _Noreturn void fail(walker *w, const frame *f, size_t at, const char *format, ...) {
    ARENA_VARIADIC(w->arena, what, format);
    text t = {.arena = w->arena};
    path(&t, f);
    if (f->depth <= 1) diag_hint(w->diag, "the file may be truncated, or may not be an ONNX model");
    diag_fatal(w->diag, NULL, "broken protobuf at byte %zu, in %s: %s", at, text_str(&t), what);
}

// ---- Reading

static uint64_t read_varint(walker *w, const frame *f, size_t *at, size_t end) {
    uint64_t v = 0;
    size_t start = *at;
    for (int shift = 0; shift < 70; shift += 7) {
        if (*at >= end) fail(w, f, start, "a number is truncated");
        uint8_t byte = w->data[(*at)++];
        if (shift == 63 && byte > 1) break;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return v;
    }
    fail(w, f, start, "a number is longer than 64 bits");
}

static size_t read_length(walker *w, const frame *f, size_t *at, size_t end) {
    size_t start = *at;
    uint64_t n = read_varint(w, f, at, end);
    if (n > end - *at)
        fail(w, f, start, "a length of %llu bytes, but only %zu remain", (unsigned long long)n, end - *at);
    return (size_t)n;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *kind, uint64_t id) {
    for (unsigned i = 0; i < kind->n_fields; i++)
        if (kind->fields[i].id == id) return &kind->fields[i];
    return NULL;
}

// ---- Writing

static void put(walker *w, const void *bytes, size_t n) {
    if (w->out && n) memcpy(w->out + w->length, bytes, n);
    w->length += n;
}

static void put_varint(walker *w, uint64_t v) {
    uint8_t bytes[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    put(w, bytes, n);
}

// ---- Checks of single fields

static int wire_type(ProtobufCType t) {
    switch (t) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM: return WIRE_VARINT;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return WIRE_64;
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return WIRE_32;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    }
    return WIRE_BYTES;
}

static void check_string(walker *w, const frame *f, size_t at, size_t n) {
    for (size_t i = at; i < at + n;) {
        uint32_t code = 0;
        int size = utf8_decode((const char *)w->data + i, at + n - i, &code);
        if (!size || !code) fail(w, f, i, w->data[i] ? "text that is not UTF-8" : "a NUL within text");
        i += (size_t)size;
    }
}

// Texts that nothing refers to. Protobuf for C++ reads any bytes, so some programs write the encoding of their users.
static bool is_remark(const frame *f) {
    const char *name = f->field->name;
    if (f->kind == &onnx__string_string_entry_proto__descriptor)
        return f->up->kind != &onnx__tensor_proto__descriptor; // not the places of external data
    bool named = f->kind == &onnx__node_proto__descriptor || f->kind == &onnx__graph_proto__descriptor;
    if (named && strcmp(name, "name") == 0) return true;
    return strcmp(name, "doc_string") == 0 || strncmp(name, "producer_", 9) == 0;
}

// Writes a text, with '?' for bytes that are not UTF-8.
static void put_remark(walker *w, size_t at, size_t n) {
    size_t end = at + n;
    while (at < end) {
        uint32_t code = 0;
        int size = utf8_decode((const char *)w->data + at, end - at, &code);
        bool valid = size && code;
        put(w, valid ? (const char *)w->data + at : "?", valid ? (size_t)size : 1);
        at += valid ? (size_t)size : 1;
    }
}

// Checks the numbers of a packed field; returns their count.
static size_t check_packed(walker *w, const frame *f, size_t at, size_t n) {
    int type = wire_type(f->field->type);
    size_t width = type == WIRE_32 ? 4 : 8;
    if (type != WIRE_VARINT && n % width)
        fail(w, f, at, "%zu bytes of packed numbers are not a multiple of %zu", n, width);
    if (type != WIRE_VARINT) return n / width;
    size_t count = 0;
    for (size_t end = at + n; at < end; count++) read_varint(w, f, &at, end);
    return count;
}

static void need(walker *w, const frame *f, size_t at, size_t bytes) {
    w->memory += bytes;
    if (w->memory / memory_factor > w->size && w->memory > memory_base)
        fail(w, f, at, "too many small fields: more than %zu MiB of memory for a file of %zu bytes",
             w->memory >> 20, w->size);
}

// ---- Fields left out of the slim copy

// Fields that the import does not read.
static bool is_dropped(const ProtobufCMessageDescriptor *kind, const ProtobufCFieldDescriptor *f) {
    static const struct dropped {
        const ProtobufCMessageDescriptor *kind;
        const char *field;
    } dropped[] = {
        {&onnx__node_proto__descriptor, "doc_string"},
        {&onnx__node_proto__descriptor, "metadata_props"},
        {&onnx__node_proto__descriptor, "device_configurations"},
        {&onnx__attribute_proto__descriptor, "doc_string"},
        {&onnx__tensor_proto__descriptor, "doc_string"},
        {&onnx__tensor_proto__descriptor, "metadata_props"},
        {&onnx__value_info_proto__descriptor, "metadata_props"},
        {&onnx__graph_proto__descriptor, "quantization_annotation"},
        {&onnx__graph_proto__descriptor, "metadata_props"},
        {&onnx__function_proto__descriptor, "doc_string"},
        {&onnx__function_proto__descriptor, "value_info"},
        {&onnx__function_proto__descriptor, "metadata_props"},
        {&onnx__model_proto__descriptor, "training_info"},
        {&onnx__model_proto__descriptor, "configuration"},
    };
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        if (dropped[i].kind == kind && strcmp(dropped[i].field, f->name) == 0) return true;
    return false;
}

static bool is_raw_data(const ProtobufCMessageDescriptor *kind, const ProtobufCFieldDescriptor *f) {
    return kind == &onnx__tensor_proto__descriptor && strcmp(f->name, "raw_data") == 0;
}

// ---- The walk

static void walk_message(walker *w, frame *f, size_t at, size_t end);

static void walk_submessage(walker *w, frame *f, size_t at, size_t n) {
    const ProtobufCMessageDescriptor *kind = f->field->descriptor;
    frame inner = {.up = f, .kind = kind, .depth = f->depth + 1};
    if (inner.depth > DEPTH_MOST) fail(w, f, at, "messages are nested more than %d deep", DEPTH_MOST);
    need(w, f, at, kind->sizeof_message + sizeof(void *));
    size_t place = w->length;
    put(w, "\0\0\0\0", LENGTH_BYTES);
    walk_message(w, &inner, at, at + n);
    if (w->out) pb_fill_length(w->out + place, w->length - place - LENGTH_BYTES);
}

// The contents of a length-prefixed field, after its tag.
static void walk_bytes(walker *w, frame *f, size_t at, size_t n) {
    const ProtobufCFieldDescriptor *field = f->field;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        walk_submessage(w, f, at, n);
        return;
    }
    if (is_raw_data(f->kind, field)) {
        wire_span span = {at, n};
        need(w, f, at, sizeof span);
        put_varint(w, sizeof span);
        put(w, &span, sizeof span);
        return;
    }
    bool text = field->type == PROTOBUF_C_TYPE_STRING, bytes = field->type == PROTOBUF_C_TYPE_BYTES;
    bool remark = text && is_remark(f);
    if (text && !remark) check_string(w, f, at, n);
    need(w, f, at, text || bytes ? n + 16 : check_packed(w, f, at, n) * 8);
    put_varint(w, n);
    if (remark) put_remark(w, at, n);
    else put(w, w->data + at, n);
}

static void check_wire_type(walker *w, const frame *f, size_t at, int type) {
    int expected = wire_type(f->field->type);
    bool packed = type == WIRE_BYTES && f->field->label == PROTOBUF_C_LABEL_REPEATED;
    if (type != expected && !packed) fail(w, f, at, "wire type %d instead of %d", type, expected);
}

// Length of the value at *at, which moves past a length prefix.
static size_t value_size(walker *w, const frame *f, int type, size_t *at, size_t end) {
    size_t start = *at;
    if (type == WIRE_BYTES) return read_length(w, f, at, end);
    if (type == WIRE_VARINT) {
        read_varint(w, f, at, end);
        size_t n = *at - start;
        *at = start;
        return n;
    }
    size_t n = type == WIRE_64 ? 8 : 4;
    if (n > end - start) fail(w, f, start, "a number is truncated");
    return n;
}

// Walks one field with its tag; returns its end.
static size_t walk_field(walker *w, frame *f, size_t at, size_t end) {
    size_t start = at;
    f->field = NULL;
    uint64_t tag = read_varint(w, f, &at, end);
    int type = (int)(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        fail(w, f, start, "field number %llu", (unsigned long long)(tag >> 3));
    if (type != WIRE_VARINT && type != WIRE_64 && type != WIRE_BYTES && type != WIRE_32)
        fail(w, f, start, "wire type %d, which ONNX does not use", type);
    f->field = find_field(f->kind, tag >> 3);
    if (f->field) check_wire_type(w, f, start, type);
    size_t n = value_size(w, f, type, &at, end);
    if (!f->field || is_dropped(f->kind, f->field)) return at + n;
    put_varint(w, tag);
    if (type == WIRE_BYTES) {
        walk_bytes(w, f, at, n);
        return at + n;
    }
    need(w, f, start, 8);
    put(w, w->data + at, n);
    return at + n;
}

static void walk_message(walker *w, frame *f, size_t at, size_t end) {
    while (at < end) at = walk_field(w, f, at, end);
}

static void walk(walker *w, const ProtobufCMessageDescriptor *kind) {
    frame top = {.kind = kind, .depth = 1};
    w->length = w->memory = 0;
    walk_message(w, &top, 0, w->size);
}

// ---- Unpacking

static void *allocate(void *a, size_t size) { return arena_alloc(a, size ? size : 1); }
static void release(void *a, void *pointer) { (void)a, (void)pointer; }

ProtobufCMessage *wire_unpack(arena *a, diag *d, const ProtobufCMessageDescriptor *kind, const uint8_t *data,
                              size_t size) {
    walker w = {.arena = a, .diag = d, .data = data, .size = size};
    walk(&w, kind);
    if (w.length > INT32_MAX)
        diag_fatal(d, NULL, "the file has more than 2 GiB besides raw_data, which protobuf does not allow");
    w.out = arena_alloc(a, w.length + 1);
    walk(&w, kind);
    ProtobufCAllocator in_arena = {allocate, release, a};
    ProtobufCMessage *m = protobuf_c_message_unpack(kind, &in_arena, w.length, w.out);
    if (!m) diag_defect(d, NULL, "protobuf-c refuses a %s that passed all checks", kind->short_name);
    return m;
}
