/* Elements of tensors in programs from --emit exe. */
#include "runtime-lite/core/program.h"
#include <string.h>

const element *program_element(const onnxc_tensor_info *t) {
    static const element elements[DT_COUNT] = {
#define X(e, name, code, bits, class, ebits, mbits, special, c, npy, field)                                  \
    [e] = {name, npy, bits, class, SMALL_FLOAT(ebits, mbits, bits <= 16 ? special : FORMAT_NONE)},
        DTYPES(X)
#undef X
    };
    if (t->kind || t->dtype <= 0 || t->dtype >= DT_COUNT) return NULL; /* a sequence, optional or map */
    const element *e = &elements[t->dtype];
    return *e->npy && e->bits >= 8 ? e : NULL; /* neither strings nor packed elements */
}
size_t program_element_size(const onnxc_tensor_info *t) { return (size_t)program_element(t)->bits / 8; }

static uint64_t load_bits(int bytes, const void *data, int64_t i) {
    uint64_t v = 0;
    for (int j = 0; j < bytes; j++) v |= (uint64_t)((const uint8_t *)data)[i * bytes + j] << 8 * j;
    return v;
}

static void store_bits(int bytes, void *data, int64_t i, uint64_t v) {
    for (int j = 0; j < bytes; j++) ((uint8_t *)data)[i * bytes + j] = (uint8_t)(v >> 8 * j);
}

/* Floats of 32 and 64 bits, also those that are a part of a complex number. */
static double load_wide(int bits, const void *data, int64_t i) {
    return bits == 32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

double program_load(const element *e, const void *data, int64_t i) {
    uint64_t v = e->class == DC_COMPLEX ? 0 : load_bits(e->bits / 8, data, i);
    switch (e->class) {
    case DC_FLOAT:
        if (e->format.special) return small_float_decode(&e->format, (uint32_t)v);
        if (e->bits == 8) return v == 255 ? NAN : ldexp(1, (int)v - 127); /* float8e8m0 */
        return load_wide(e->bits, data, i);
    case DC_COMPLEX: return load_wide(e->bits / 2, data, i);
    case DC_INT: return (double)((int64_t)(v << (64 - e->bits)) >> (64 - e->bits));
    case DC_UINT:
    case DC_BOOL: return (double)v;
    case DC_NONE:
    case DC_STRING: break;
    }
    return 0;
}

void program_store(const element *e, void *data, int64_t i, double v) {
    int bits = e->class == DC_COMPLEX ? e->bits / 2 : e->bits;
    if (e->format.special) store_bits(bits / 8, data, i, small_float_encode(&e->format, v, true));
    else if (bits == 32) ((float *)data)[i] = (float)v;
    else if (bits == 64) ((double *)data)[i] = v;
}

void program_store_int(const element *e, void *data, int64_t i, uint64_t v) {
    store_bits(e->bits / 8, data, i, e->class == DC_BOOL ? v != 0 : v);
}
