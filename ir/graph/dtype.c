// Element types: the table of dtype.h, and exact loads and correctly rounded stores of single
// elements. In: raw ONNX storage. Out: double or int64_t, and back.
#include "ir/graph/dtype.h"
#include <math.h>
#include <string.h>

typedef struct dtype_info {
    const char *name;
    int bits;
    dtype_class class;
    const char *c, *npy;
    dtype_field field;
    float_format format;
} dtype_info;

static const dtype_info infos[DT_COUNT] = {
#define X(e, name, code, bits, class, ebits, mbits, special, c, npy, field)                                  \
    [e] = {name, bits, class, c, npy, field, SMALL_FLOAT(ebits, mbits, special)},
    DTYPES(X)
#undef X
};

static bool is_dtype(dtype t) { return (int)t >= 0 && t < DT_COUNT; }

const char *dtype_name(dtype t) { return is_dtype(t) ? infos[t].name : "invalid"; }
int dtype_bits(dtype t) { return is_dtype(t) ? infos[t].bits : 0; }
dtype_class dtype_class_of(dtype t) { return is_dtype(t) ? infos[t].class : DC_NONE; }
dtype_field dtype_field_of(dtype t) { return is_dtype(t) ? infos[t].field : NO_DATA; }
const char *dtype_c(dtype t) { return is_dtype(t) ? infos[t].c : "void"; }
const char *dtype_npy(dtype t) { return is_dtype(t) ? infos[t].npy : ""; }
int dtype_precision(dtype t) { return is_dtype(t) ? infos[t].format.mbits + 1 : 0; }
const float_format *dtype_small_float(dtype t) {
    return is_dtype(t) && infos[t].bits <= 16 && infos[t].format.special ? &infos[t].format : NULL;
}

dtype dtype_from_name(const char *name) {
    for (int t = 1; t < DT_COUNT; t++)
        if (!strcmp(infos[t].name, name)) return (dtype)t;
    return DT_NONE;
}

dtype dtype_from_onnx(int code) { return code > 0 && code < DT_COUNT ? (dtype)code : DT_NONE; }

bool dtype_is_float(dtype t) { return dtype_class_of(t) == DC_FLOAT; }
bool dtype_is_int(dtype t) { return dtype_class_of(t) == DC_INT || dtype_class_of(t) == DC_UINT; }
bool dtype_is_signed(dtype t) {
    return dtype_class_of(t) == DC_INT || (dtype_class_of(t) == DC_FLOAT && t != DT_F8E8M0);
}

dtype dtype_compute(dtype t) {
    if (dtype_is_float(t) && dtype_bits(t) < 32) return DT_F32;
    if (t == DT_U4 || t == DT_U2) return DT_U8;
    if (t == DT_I4 || t == DT_I2) return DT_I8;
    return t;
}

int64_t dtype_size(dtype t, int64_t n) {
    int bits = dtype_bits(t);
    if (bits < 8) return n / (8 / bits) + (n % (8 / bits) != 0);
    int64_t size;
    return __builtin_mul_overflow(n, bits / 8, &size) ? -1 : size;
}

static bool is_float6(dtype t) { return t == DT_F6E2M3 || t == DT_F6E3M2; }

int64_t dtype_raw_size(dtype t, int64_t n) {
    return is_float6(t) ? n / 4 * 3 + (n % 4 * 6 + 7) / 8 : dtype_size(t, n);
}

int64_t dtype_int_min(dtype t) { return dtype_class_of(t) == DC_INT ? INT64_MIN >> (64 - dtype_bits(t)) : 0; }

int64_t dtype_int_max(dtype t) {
    if (dtype_class_of(t) == DC_BOOL) return 1;
    if (dtype_class_of(t) == DC_INT) return INT64_MAX >> (64 - dtype_bits(t));
    return dtype_bits(t) == 64 ? INT64_MAX : (INT64_C(1) << dtype_bits(t)) - 1;
}

// ---- Bits of one element.

static uint64_t load_bits(int bits, const void *data, int64_t i) {
    const uint8_t *p = data;
    if (bits < 8) {
        int per_byte = 8 / bits;
        return (p[i / per_byte] >> (i % per_byte * bits)) & ((1u << bits) - 1);
    }
    uint64_t v = 0;
    int bytes = bits / 8;
    for (int k = 0; k < bytes; k++) v |= (uint64_t)p[i * bytes + k] << (8 * k);
    return v;
}

static void store_bits(int bits, void *data, int64_t i, uint64_t v) {
    uint8_t *p = data;
    if (bits < 8) {
        int per_byte = 8 / bits, shift = (int)(i % per_byte) * bits, mask = (1 << bits) - 1;
        p[i / per_byte] = (uint8_t)((p[i / per_byte] & ~(mask << shift)) | ((int)v & mask) << shift);
        return;
    }
    int bytes = bits / 8;
    for (int k = 0; k < bytes; k++) p[i * bytes + k] = (uint8_t)(v >> (8 * k));
}

void dtype_unpack(void *to, const void *raw, int64_t n) {
    const uint8_t *p = raw;
    for (int64_t i = 0; i < n; i++) {
        int64_t byte = i / 4 * 3 + i % 4 * 6 / 8;
        int shift = (int)(i % 4) * 6 % 8, word = p[byte];
        if (shift > 2) word |= p[byte + 1] << 8;
        ((uint8_t *)to)[i] = (uint8_t)(word >> shift & 63);
    }
}

void dtype_pack(void *raw, const void *from, int64_t n) {
    uint8_t *p = raw;
    memset(p, 0, (size_t)dtype_raw_size(DT_F6E2M3, n));
    for (int64_t i = 0; i < n; i++) {
        int64_t byte = i / 4 * 3 + i % 4 * 6 / 8;
        int shift = (int)(i % 4) * 6 % 8, word = (((const uint8_t *)from)[i] & 63) << shift;
        p[byte] |= (uint8_t)word;
        if (shift > 2) p[byte + 1] |= (uint8_t)(word >> 8);
    }
}

// ---- Small floating formats.

uint8_t dtype_to_e8m0(double v, e8m0_round mode, bool saturate) {
    if (isnan(v)) return 0xff;
    v = fabs(v);
    if (v < 0x1p-127) return saturate ? 0 : 0xff;
    if (v > 0x1p127) return saturate ? 0xfe : 0xff;
    int e;
    double m = frexp(v, &e); // v = m * 2^e, 0.5 <= m < 1
    int code = e - 1 + 127;
    if ((mode == E8M0_UP && m > 0.5) || (mode == E8M0_NEAREST && m >= 0.75)) code++;
    return (uint8_t)code;
}

// ---- Loads and stores.

// Floats of 32 and of 64 bits.
static double load_ieee(int bits, const void *data, int64_t i) {
    uint64_t word = load_bits(bits, data, i);
    float f;
    double d;
    memcpy(&f, &word, sizeof f);
    memcpy(&d, &word, sizeof d);
    return bits == 32 ? f : d;
}

static void store_ieee(int bits, void *data, int64_t i, double d) {
    uint64_t word = 0;
    float f = (float)d;
    memcpy(&word, bits == 32 ? (void *)&f : (void *)&d, (size_t)bits / 8);
    store_bits(bits, data, i, word);
}

double dtype_load_float(dtype t, const void *data, int64_t i) {
    const float_format *f = dtype_small_float(t);
    if (f) return small_float_decode(f, (uint32_t)load_bits(dtype_bits(t), data, i));
    if (t == DT_F32 || t == DT_F64) return load_ieee(dtype_bits(t), data, i);
    if (t == DT_C64) return load_ieee(32, data, 2 * i);
    if (t == DT_C128) return load_ieee(64, data, 2 * i);
    if (t == DT_F8E8M0) {
        int code = (int)load_bits(8, data, i);
        return code == 0xff ? NAN : ldexp(1, code - 127);
    }
    int64_t v = dtype_load_int(t, data, i);
    return t == DT_U64 ? (double)(uint64_t)v : (double)v;
}

// Truncates; clamps to the range of the type; NaN gives 0.
static int64_t to_int(dtype t, double v) {
    if (isnan(v)) return 0;
    if (t == DT_U64) return v >= 0x1p64 ? -1 : v <= 0 ? 0 : (int64_t)(uint64_t)v;
    if (v >= 0x1p63 || v > (double)dtype_int_max(t)) return dtype_int_max(t);
    if (v < (double)dtype_int_min(t)) return dtype_int_min(t);
    return (int64_t)v;
}

int64_t dtype_load_int(dtype t, const void *data, int64_t i) {
    switch (dtype_class_of(t)) {
    case DC_FLOAT:
    case DC_COMPLEX: return to_int(DT_I64, dtype_load_float(t, data, i));
    case DC_INT: {
        int unused = 64 - dtype_bits(t);
        return (int64_t)(load_bits(dtype_bits(t), data, i) << unused) >> unused;
    }
    case DC_UINT: return (int64_t)load_bits(dtype_bits(t), data, i);
    case DC_BOOL: return load_bits(8, data, i) != 0;
    case DC_NONE:
    case DC_STRING: return 0;
    }
    return 0;
}

void dtype_store_float(dtype t, void *data, int64_t i, double v, bool saturate) {
    const float_format *f = dtype_small_float(t);
    if (f) {
        // Only the 8-bit and smaller formats know saturation; 4 bits have nothing else.
        bool clamp = f->special == FORMAT_FINITE || (saturate && dtype_bits(t) == 8);
        store_bits(dtype_bits(t), data, i, small_float_encode(f, v, clamp));
    } else if (t == DT_F32 || t == DT_F64) store_ieee(dtype_bits(t), data, i, v);
    else if (t == DT_C64) store_ieee(32, data, 2 * i, v), store_ieee(32, data, 2 * i + 1, 0);
    else if (t == DT_C128) store_ieee(64, data, 2 * i, v), store_ieee(64, data, 2 * i + 1, 0);
    else if (t == DT_F8E8M0) store_bits(8, data, i, dtype_to_e8m0(v, E8M0_UP, saturate));
    else if (t == DT_BOOL) store_bits(8, data, i, v != 0);
    else dtype_store_int(t, data, i, to_int(t, v));
}

void dtype_store_int(dtype t, void *data, int64_t i, int64_t v) {
    switch (dtype_class_of(t)) {
    case DC_FLOAT:
    case DC_COMPLEX:
        if (t == DT_F32) store_ieee(32, data, i, (float)v);
        else dtype_store_float(t, data, i, (double)v, true);
        return;
    case DC_INT:
    case DC_UINT: store_bits(dtype_bits(t), data, i, (uint64_t)v); return;
    case DC_BOOL: store_bits(8, data, i, v != 0); return;
    case DC_NONE:
    case DC_STRING: return;
    }
}

void dtype_copy(dtype to_type, void *to, int64_t at, dtype from_type, const void *from, int64_t i) {
    if (dtype_is_float(to_type))
        dtype_store_float(to_type, to, at, dtype_load_float(from_type, from, i), true);
    else dtype_store_int(to_type, to, at, dtype_load_int(from_type, from, i));
}
