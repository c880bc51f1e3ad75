// The wire walker: bytes that are not valid protobuf and the message for each; raw_data left in the file.
#include "compiler/import/wire.h"
#include "proto/onnx.pb-c.h"
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

static void note(void *user, const diag_message *m) { text_add(user, m->full); }

static const Onnx__ModelProto *unpack(arena *a, text *t, const void *data, size_t size) {
    diag *d = ARENA_NEW(a, diag);
    jmp_buf jump;
    *t = (text){.arena = a};
    *d = (diag){.arena = a, .sink = note, .user = t, .file = "m"};
    if (!DIAG_TRY(d, jump)) return NULL;
    return (const Onnx__ModelProto *)wire_unpack(a, d, &onnx__model_proto__descriptor, data, size);
}

static void broken_bytes(void **state) {
    (void)state;
#define B(bytes) bytes, sizeof bytes - 1
#define HINT     "\nhint: the file may be truncated, or may not be an ONNX model"
    static const struct broken {
        const char *bytes;
        size_t size;
        const char *message;
    } table[] = {
        {B("\x08"),
         "m: error: broken protobuf at byte 1, in ModelProto.ir_version: a number is truncated" HINT},
        {B("\x08\x80\x80"),
         "m: error: broken protobuf at byte 1, in ModelProto.ir_version: a number is truncated" HINT},
        {B("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
         "m: error: broken protobuf at byte 1, in ModelProto.ir_version: a number is longer than 64 "
         "bits" HINT},
        {B("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
         "m: error: broken protobuf at byte 1, in ModelProto.ir_version: a number is longer than 64 "
         "bits" HINT},
        {B("\x80"), "m: error: broken protobuf at byte 0, in ModelProto: a number is truncated" HINT},
        {B("\x00\x01"), "m: error: broken protobuf at byte 0, in ModelProto: field number 0" HINT},
        {B("\x80\x80\x80\x80\x10\x01"),
         "m: error: broken protobuf at byte 0, in ModelProto: field number 536870912" HINT},
        {B("\x0b"),
         "m: error: broken protobuf at byte 0, in ModelProto: wire type 3, which ONNX does not use" HINT},
        {B("\x0c"),
         "m: error: broken protobuf at byte 0, in ModelProto: wire type 4, which ONNX does not use" HINT},
        {B("\x0f"),
         "m: error: broken protobuf at byte 0, in ModelProto: wire type 7, which ONNX does not use" HINT},
        {B("\x0a\x00"),
         "m: error: broken protobuf at byte 0, in ModelProto.ir_version: wire type 2 instead of 0" HINT},
        {B("\x3a\x05\x0a"), "m: error: broken protobuf at byte 1, in ModelProto.graph: a length of 5 bytes, "
                            "but only 1 remain" HINT},
        {B("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
         "m: error: broken protobuf at byte 1, in ModelProto.graph: a length of 18446744073709551615 bytes, "
         "but only 0 remain" HINT},
        {B("\x3a\x06\x0a\x04\x0a\x02\xc0\xaf"),
         "m: error: broken protobuf at byte 6, in ModelProto.graph.node.input: text that is not UTF-8"},
        {B("\x3a\x07\x0a\x05\x0a\x03\xed\xa0\x80"),
         "m: error: broken protobuf at byte 6, in ModelProto.graph.node.input: text that is not UTF-8"},
        {B("\x3a\x06\x0a\x04\x0a\x02"
           "a\xe2"),
         "m: error: broken protobuf at byte 7, in ModelProto.graph.node.input: text that is not UTF-8"},
        {B("\x3a\x07\x0a\x05\x0a\x03"
           "a\0b"),
         "m: error: broken protobuf at byte 7, in ModelProto.graph.node.input: a NUL within text"},
        // the location of external data
        {B("\x3a\x08\x2a\x06\x6a\x04\x12\x02\xd6\xd0"),
         "m: error: broken protobuf at byte 8, in ModelProto.graph.initializer.external_data.value: text "
         "that is "
         "not UTF-8"},
        {B("\x3a\x07\x2a\x05\x22\x03\0\0\0"),
         "m: error: broken protobuf at byte 6, in ModelProto.graph.initializer.float_data: 3 bytes of packed "
         "numbers are not a multiple of 4"},
        {B("\x3a\x06\x2a\x04\x3a\x02\x01\x80"),
         "m: error: broken protobuf at byte 7, in ModelProto.graph.initializer.int64_data: a number is "
         "truncated"},
        {B("\x3a\x07\x2a\x05\x25\0\0\0"), "m: error: broken protobuf at byte 1, in ModelProto.graph: a "
                                          "length of 7 bytes, but only 6 remain" HINT},
        {B("\x3a\x06\x2a\x04\x25\0\0\0"), "m: error: broken protobuf at byte 5, in "
                                          "ModelProto.graph.initializer.float_data: a number is truncated"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        arena *a = arena_new();
        text t;
        assert_null(unpack(a, &t, table[i].bytes, table[i].size));
        assert_string_equal(text_str(&t), table[i].message);
        arena_destroy(a);
    }
}

// Bytes that are not UTF-8 in texts for readers do not matter.
static void remarks(void **state) {
    (void)state;
    arena *a = arena_new();
    text t;
    const Onnx__ModelProto *m = unpack(a, &t,
                                       B("\x12\x02\xd6\xd0\x32\x03\xe9\0z\x3a\x0b\x12\x02\xd6k\x0a\x05\x1a"
                                         "\x03n\xc3\xa9\x72\x04\x12\x02v\xff"));
    assert_non_null(m);
    assert_string_equal(m->producer_name, "??");
    assert_string_equal(m->doc_string, "??z");
    assert_string_equal(m->graph->name, "?k");
    assert_string_equal(m->graph->node[0]->name, "n\xc3\xa9");
    assert_string_equal(m->metadata_props[0]->value, "v?");
    arena_destroy(a);
}

// depth messages within each other, of the field with that tag, written from the end of the buffer; returns
// the start.
static uint8_t *nest(uint8_t *end, int depth, const char *tags) {
    uint8_t *at = end;
    size_t ntags = strlen(tags);
    for (int i = depth - 1; i >= 0; i--) {
        size_t size = (size_t)(end - at);
        *--at = (uint8_t)(size >> 7);
        *--at = (uint8_t)(size & 0x7f) | 0x80;
        *--at = (uint8_t)tags[(size_t)i < ntags ? (size_t)i : ntags - 3 + ((size_t)i - ntags) % 3];
    }
    return at;
}

static void deep_nesting(void **state) {
    (void)state;
    // ModelProto.graph, then GraphProto.node, NodeProto.attribute, AttributeProto.g over and over
    static const char tags[] = "\x3a\x0a\x2a\x32";
    uint8_t bytes[1024], *end = bytes + sizeof bytes;
    arena *a = arena_new();
    text t;
    uint8_t *start = nest(end, 99, tags);
    assert_non_null(unpack(a, &t, start, (size_t)(end - start)));
    start = nest(end, 100, tags);
    assert_null(unpack(a, &t, start, (size_t)(end - start)));
    assert_non_null(strstr(text_str(&t), ": messages are nested more than 100 deep"));
    arena_destroy(a);
}

static void many_small_messages(void **state) {
    (void)state;
    arena *a = arena_new();
    size_t parts = 3000000, inner = 2 * parts;
    uint8_t *bytes = arena_alloc(a, inner + 5);
    bytes[0] = 0x3a;
    for (int i = 0; i < 4; i++, inner >>= 7) bytes[1 + i] = (uint8_t)((inner & 0x7f) | (i < 3 ? 0x80 : 0));
    for (size_t i = 0; i < parts; i++) bytes[5 + 2 * i] = 0x2a; // empty initializers
    text t;
    assert_null(unpack(a, &t, bytes, 2 * parts + 5));
    assert_non_null(strstr(
        text_str(&t),
        "in ModelProto.graph.initializer: too many small fields: more than 366 MiB of memory for a file "
        "of 6000005 bytes"));
    arena_destroy(a);
}

static void raw_data_stays_in_the_file(void **state) {
    (void)state;
    arena *a = arena_new();
    Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
    Onnx__GraphProto g = ONNX__GRAPH_PROTO__INIT;
    Onnx__TensorProto w[2] = {ONNX__TENSOR_PROTO__INIT, ONNX__TENSOR_PROTO__INIT}, *list[] = {&w[0], &w[1]};
    size_t large = 1 << 20;
    m.graph = &g;
    g.n_initializer = 2, g.initializer = list, g.doc_string = "kept";
    w[0].doc_string = "dropped";
    for (int i = 0; i < 2; i++) {
        w[i].has_raw_data = 1;
        w[i].raw_data.len = i ? large : 3;
        w[i].raw_data.data = arena_alloc(a, large);
        memset(w[i].raw_data.data, 'a' + i, large);
    }
    uint8_t *bytes = arena_alloc(a, 2 * large);
    size_t size = onnx__model_proto__pack(&m, bytes), before = arena_bytes(a);
    text t;
    const Onnx__ModelProto *got = unpack(a, &t, bytes, size);
    assert_true(arena_bytes(a) - before < 100000);
    assert_string_equal(got->graph->doc_string, "kept");
    assert_null(got->graph->initializer[0]->doc_string);
    for (int i = 0; i < 2; i++) {
        wire_span span;
        assert_int_equal(got->graph->initializer[i]->raw_data.len, sizeof span);
        memcpy(&span, got->graph->initializer[i]->raw_data.data, sizeof span);
        assert_int_equal(span.size, i ? large : 3);
        assert_memory_equal(bytes + span.offset, w[i].raw_data.data, span.size);
    }
    arena_destroy(a);
}

static void unknown_fields_are_skipped(void **state) {
    (void)state;
    static const char bytes[] = "\x08\x07\xf8\x06\x01\xf9\x06........\xfa\x06\x02zz\xfd\x06....\x28\x05";
    arena *a = arena_new();
    text t;
    const Onnx__ModelProto *m = unpack(a, &t, bytes, sizeof bytes - 1);
    assert_non_null(m);
    assert_int_equal(m->ir_version, 7);
    assert_int_equal(m->model_version, 5);
    assert_int_equal(m->base.n_unknown_fields, 0);
    arena_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_bytes),
        cmocka_unit_test(remarks),
        cmocka_unit_test(deep_nesting),
        cmocka_unit_test(many_small_messages),
        cmocka_unit_test(raw_data_stays_in_the_file),
        cmocka_unit_test(unknown_fields_are_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
