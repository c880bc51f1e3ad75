// Element types: every code of the small floats, rounding, saturation and packing.
#include "ir/graph/dtype.h"
#include "compiler/base/arena.h"
#include "runtime-lite/lib/lib_value.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

// FNV-1a hashes of what ml_dtypes gives: all codes as doubles (NaNs as 0x7ff8 << 48), and the codes that
// all float16 and then all bfloat16 numbers convert to, without and with saturation.
typedef struct golden {
    dtype t;
    uint64_t decoded, encoded, saturated;
} golden;
static const golden goldens[] = {
    {DT_F16, 0xfe87bb782adb2fc5, 0, 0},
    {DT_BF16, 0x5e93c8468f9404d5, 0, 0},
    {DT_F8E4M3FN, 0x4d4ded90c4f5d9b5, 0x006e8d91e1210c15, 0xb7830ddb879b68a5},
    {DT_F8E4M3FNUZ, 0x33a06c4d119992b0, 0xd65bd55ed1c238a5, 0x8797350c22291be5},
    {DT_F8E5M2, 0x61a099e723174195, 0x7c85355eb4d46ea5, 0xbced0e2316c17045},
    {DT_F8E5M2FNUZ, 0x08d9906cc5ea2650, 0x77ce2e17de254ba5, 0xe4585f6fe7f4fd65},
    {DT_F8E8M0, 0x04b7d9d85633d505, 0, 0},
};
enum { NGOLDENS = sizeof goldens / sizeof *goldens };

static double decode(dtype t, uint32_t code) {
    uint8_t bytes[2] = {(uint8_t)code, (uint8_t)(code >> 8)};
    return dtype_load_float(t, bytes, 0);
}

static uint32_t encode(dtype t, double v, bool saturate) {
    uint8_t bytes[2] = {0};
    dtype_store_float(t, bytes, 0, v, saturate);
    return bytes[0] | (uint32_t)bytes[1] << 8;
}

// FNV-1a, as the goldens were made.
static uint64_t hash_each(uint64_t h, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    for (size_t j = 0; j < n; j++) h = hash_bytes(h, p + j, 1);
    return h;
}

static void all_codes_decode(void **state) {
    (void)state;
    for (int g = 0; g < NGOLDENS; g++) {
        uint64_t h = HASH_SEED;
        for (uint32_t code = 0; code < 1u << dtype_bits(goldens[g].t); code++) {
            double v = decode(goldens[g].t, code);
            uint64_t bits;
            memcpy(&bits, &v, sizeof v);
            if (isnan(v)) bits = UINT64_C(0x7ff8) << 48;
            h = hash_each(h, &bits, sizeof bits);
        }
        if (h != goldens[g].decoded) fail_msg("%s: %016llx", dtype_name(goldens[g].t), (unsigned long long)h);
    }
}

static uint64_t hash_encoded(dtype t, dtype from, uint64_t h, bool saturate) {
    for (uint32_t i = 0; i < 65536; i++) {
        uint8_t code = (uint8_t)encode(t, decode(from, i), saturate);
        h = hash_bytes(h, &code, 1);
    }
    return h;
}

static void float8_encodes_like_the_reference(void **state) {
    (void)state;
    for (int g = 0; g < NGOLDENS; g++) {
        dtype t = goldens[g].t;
        if (!goldens[g].encoded) continue;
        uint64_t plain = hash_encoded(t, DT_BF16, hash_encoded(t, DT_F16, HASH_SEED, false), false);
        uint64_t clamped = hash_encoded(t, DT_BF16, hash_encoded(t, DT_F16, HASH_SEED, true), true);
        if (plain != goldens[g].encoded || clamped != goldens[g].saturated) fail_msg("%s", dtype_name(t));
    }
}

// All bfloat16 codes with some lower bits that make and break ties.
static uint64_t hash_from_f32(dtype t) {
    static const uint32_t lower[] = {0, 0x7fff, 0x8000, 0x8001, 0x1000, 0x1001, 0x0fff, 0x3000};
    uint64_t h = HASH_SEED;
    for (int k = 0; k < 8; k++)
        for (uint32_t i = 0; i < 65536; i++) {
            uint32_t bits = i << 16 | lower[k];
            float f;
            memcpy(&f, &bits, sizeof f);
            if (isnan(f)) continue;
            uint16_t code = (uint16_t)encode(t, (double)f, true);
            h = hash_each(h, &code, sizeof code);
        }
    return h;
}

static void f16_and_bf16_encode_like_the_reference(void **state) {
    (void)state;
    assert_true(hash_from_f32(DT_F16) == 0xccde5bf7d3535c85);
    assert_true(hash_from_f32(DT_BF16) == 0x566675dff0d6e26d);
}

static void codes_come_back_and_ties_go_to_even(void **state) {
    (void)state;
    static const dtype types[] = {DT_F16,        DT_BF16,   DT_F8E4M3FN, DT_F8E4M3FNUZ, DT_F8E5M2,
                                  DT_F8E5M2FNUZ, DT_F4E2M1, DT_F6E2M3,   DT_F6E3M2};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        const float_format *f = dtype_small_float(types[k]);
        uint32_t top = 1u << (f->ebits + f->mbits);
        for (uint32_t c = 0; c < top; c++) {
            double v = decode(types[k], c), next = c + 1 < top ? decode(types[k], c + 1) : NAN;
            if (isnan(v)) continue;
            assert_int_equal(encode(types[k], v, false), c);
            if (c) assert_int_equal(encode(types[k], -v, false), c | top);
            if (!isfinite(v) || !isfinite(next)) continue;
            double tie = (v + next) / 2;
            assert_int_equal(encode(types[k], tie, true), c + (c & 1));
            assert_int_equal(encode(types[k], nextafter(tie, 0), true), c);
            assert_int_equal(encode(types[k], nextafter(tie, INFINITY), true), c + 1);
        }
    }
}

static void range_ends_follow_cast(void **state) {
    (void)state;
    assert_int_equal(encode(DT_F16, 65519.99, false), 0x7bff);
    assert_int_equal(encode(DT_F16, 65520, true), 0x7c00); // saturate is for float8 only
    assert_int_equal(encode(DT_BF16, 3.4e38, true), 0x7f80);
    assert_int_equal(encode(DT_F8E4M3FN, 1e9, true), 0x7e);
    assert_int_equal(encode(DT_F8E4M3FN, 1e9, false), 0x7f);
    assert_int_equal(encode(DT_F8E4M3FN, -INFINITY, false), 0xff);
    assert_int_equal(encode(DT_F8E4M3FN, NAN, true), 0x7f);
    assert_int_equal(encode(DT_F8E4M3FNUZ, INFINITY, false), 0x80);
    assert_int_equal(encode(DT_F8E4M3FNUZ, -0.0, false), 0);
    assert_int_equal(encode(DT_F8E4M3FNUZ, -1e-9, false), 0);
    assert_int_equal(encode(DT_F8E5M2, -INFINITY, true), 0xfb);
    assert_int_equal(encode(DT_F8E5M2, -INFINITY, false), 0xfc);
    assert_int_equal(encode(DT_F8E5M2FNUZ, 1e9, true), 0x7f);
    assert_int_equal(encode(DT_F4E2M1, INFINITY, false), 7);
    assert_int_equal(encode(DT_F4E2M1, -100, false), 15);
    assert_int_equal(encode(DT_F4E2M1, NAN, false), 7);
    assert_int_equal(encode(DT_F4E2M1, 5, false), 6);
    assert_int_equal(encode(DT_F6E2M3, 8, false), 31);
    assert_int_equal(encode(DT_F6E3M2, -INFINITY, false), 63);
}

static void float6_is_packed_in_files(void **state) {
    (void)state;
    // byte0 = x0 | x1 << 6, byte1 = x1 >> 2 | x2 << 4, byte2 = x2 >> 4 | x3 << 2
    static const uint8_t elements[5] = {1, 62, 39, 20, 33}, packed[4] = {0x81, 0x7f, 0x52, 0x21};
    uint8_t raw[4], back[5];
    assert_int_equal(dtype_raw_size(DT_F6E2M3, 5), 4);
    assert_int_equal(dtype_raw_size(DT_F6E3M2, 8), 6);
    assert_int_equal(dtype_raw_size(DT_U4, 5), 3);
    dtype_pack(raw, elements, 5);
    assert_memory_equal(raw, packed, 4);
    dtype_unpack(back, raw, 5);
    assert_memory_equal(back, elements, 5);
}

static void e8m0_rounds_as_asked(void **state) {
    (void)state;
    assert_int_equal(dtype_to_e8m0(1, E8M0_UP, true), 127);
    assert_int_equal(dtype_to_e8m0(1.01, E8M0_UP, true), 128);
    assert_int_equal(dtype_to_e8m0(1.99, E8M0_DOWN, true), 127);
    assert_int_equal(dtype_to_e8m0(1.5, E8M0_NEAREST, true), 128);
    assert_int_equal(dtype_to_e8m0(1.49, E8M0_NEAREST, true), 127);
    assert_int_equal(dtype_to_e8m0(0, E8M0_UP, true), 0);
    assert_int_equal(dtype_to_e8m0(0, E8M0_NEAREST, false), 0xff);
    assert_int_equal(dtype_to_e8m0(INFINITY, E8M0_UP, true), 0xfe);
    assert_int_equal(dtype_to_e8m0(0x1p127, E8M0_UP, false), 0xfe);
    assert_int_equal(dtype_to_e8m0(0x1.1p127, E8M0_UP, false), 0xff);
    assert_int_equal(dtype_to_e8m0(NAN, E8M0_UP, true), 0xff);
    assert_int_equal(encode(DT_F8E8M0, 3, true), 129);
}

static void library_functions_count_the_same_bytes(void **state) {
    (void)state;
    for (int t = 1; t < DT_COUNT; t++)
        for (int64_t n = 0; n < 9; n++) assert_int_equal(lib_bytes(t, n), dtype_size((dtype)t, n));
}

static void sub_byte_types_pack_low_bits_first(void **state) {
    (void)state;
    uint8_t bytes[2] = {0};
    for (int i = 0; i < 4; i++) dtype_store_int(DT_I4, bytes, i, i - 3);
    assert_int_equal(bytes[0], 0xed);
    assert_int_equal(bytes[1], 0x0f);
    for (int i = 0; i < 4; i++) assert_int_equal(dtype_load_int(DT_I4, bytes, i), i - 3);
    for (int i = 0; i < 4; i++) dtype_store_int(DT_U2, bytes, i, 3 - i);
    assert_int_equal(bytes[0], 0x1b);
    assert_int_equal(dtype_load_int(DT_I2, bytes, 0), -1);
    assert_int_equal(dtype_load_int(DT_U2, bytes, 0), 3);
    assert_int_equal(dtype_size(DT_U4, 3), 2);
    assert_int_equal(dtype_size(DT_I2, 5), 2);
    assert_int_equal(dtype_size(DT_F64, 3), 24);
    assert_int_equal(dtype_size(DT_F64, INT64_MAX / 4), -1);
    assert_int_equal(dtype_size(DT_U2, INT64_MAX), INT64_MAX / 4 + 1);
}

static void ints_wrap_and_floats_clamp(void **state) {
    (void)state;
    uint8_t bytes[8];
    dtype_store_int(DT_I8, bytes, 0, 200);
    assert_int_equal(dtype_load_int(DT_I8, bytes, 0), -56);
    dtype_store_float(DT_U8, bytes, 0, 1e9, true);
    assert_int_equal(bytes[0], 255);
    dtype_store_float(DT_I64, bytes, 0, -1e30, true);
    assert_true(dtype_load_int(DT_I64, bytes, 0) == INT64_MIN);
    dtype_store_float(DT_U64, bytes, 0, 0x1p63, true);
    assert_true(dtype_load_float(DT_U64, bytes, 0) == 0x1p63);
    dtype_store_int(DT_F32, bytes, 0, 0x4000004000000001); // through double this would round twice
    assert_true(dtype_load_float(DT_F32, bytes, 0) == 0x1.000002p62);
    dtype_store_float(DT_BOOL, bytes, 0, NAN, true);
    assert_int_equal(bytes[0], 1);
    assert_true(dtype_int_min(DT_I4) == -8 && dtype_int_max(DT_U4) == 15 &&
                dtype_int_max(DT_U64) == INT64_MAX);
}

static void names_and_codes_agree(void **state) {
    (void)state;
    for (int t = 1; t < DT_COUNT; t++) {
        assert_int_equal(dtype_from_name(dtype_name((dtype)t)), t);
        assert_int_equal(dtype_from_onnx(t), t);
        assert_true(dtype_compute(dtype_compute((dtype)t)) == dtype_compute((dtype)t));
    }
    assert_int_equal(dtype_from_onnx(99), DT_NONE);
    assert_int_equal(dtype_from_onnx(-1), DT_NONE);
    assert_int_equal(dtype_from_name("float32"), DT_NONE);
    assert_false(dtype_is_signed(DT_F8E8M0));
    assert_int_equal(dtype_compute(DT_I2), DT_I8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_codes_decode),
        cmocka_unit_test(library_functions_count_the_same_bytes),
        cmocka_unit_test(float8_encodes_like_the_reference),
        cmocka_unit_test(f16_and_bf16_encode_like_the_reference),
        cmocka_unit_test(codes_come_back_and_ties_go_to_even),
        cmocka_unit_test(range_ends_follow_cast),
        cmocka_unit_test(float6_is_packed_in_files),
        cmocka_unit_test(e8m0_rounds_as_asked),
        cmocka_unit_test(sub_byte_types_pack_low_bits_first),
        cmocka_unit_test(ints_wrap_and_floats_clamp),
        cmocka_unit_test(names_and_codes_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
