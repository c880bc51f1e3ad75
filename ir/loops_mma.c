// Products of fragments (PTX ISA, "Matrix fragments"): register r of thread 4 g + t holds row g + 8 (r % 2)
// of a, columns from per * t + 4 * per * (r / 2) on; b the same without the row's bit. Sums in double are
// rounded once.
#include "ir/loops_mma.h"
#include <string.h>

static const lmma all[] = {
    {"mma_m16n8k8_f16", DT_F16, DT_F16, 16, 8, 2, 1, 4},
    {"mma_m16n8k16_f16", DT_F16, DT_F16, 16, 16, 4, 2, 4},
    {"mma_m16n8k16_bf16", DT_BF16, DT_BF16, 16, 16, 4, 2, 4},
    {"mma_m16n8k8_tf32", DT_F32, DT_F32, 16, 8, 4, 2, 4},
    {"mma_m8n8k16_s8", DT_I8, DT_I8, 8, 16, 1, 1, 2},
    {"mma_m16n8k32_s8", DT_I8, DT_I8, 16, 32, 4, 2, 4},
    {"mma_m16n8k32_u8s8", DT_U8, DT_I8, 16, 32, 4, 2, 4},
    {"mma_m16n8k32_s8u8", DT_I8, DT_U8, 16, 32, 4, 2, 4},
    {"mma_m16n8k32_u8", DT_U8, DT_U8, 16, 32, 4, 2, 4},
};

const lmma *lmma_named(const char *name) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0) return &all[i];
    return NULL;
}

// Of f32, TF32 has the upper 19 bits.
static double element(dtype t, uint32_t word, int j) {
    if (t == DT_F32) word &= 0xffffe000u;
    return dtype_is_float(t) ? dtype_load_float(t, &word, j) : (double)dtype_load_int(t, &word, j);
}

static double product_at(const lmma *t, const uint32_t *const *registers, int row, int column, int p) {
    int per = 32 / dtype_bits(t->a), quarter = p / per % 4, half = p / per / 4;
    uint32_t a = registers[row % 8 * 4 + quarter][row / 8 + half * (t->m / 8)],
             b = registers[column * 4 + quarter][t->na + half];
    return element(t->a, a, p % per) * element(t->b, b, p % per);
}

void lmma_apply(const lmma *t, int lane, const uint32_t *const *registers, uint32_t *d) {
    bool floats = dtype_is_float(t->a);
    for (int i = 0; i < t->nd; i++) {
        float f;
        memcpy(&f, &d[i], sizeof f);
        double sum = floats ? (double)f : (double)(int32_t)d[i];
        for (int p = 0; p < t->k; p++)
            sum += product_at(t, registers, lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2, p);
        f = (float)sum;
        if (floats) memcpy(&d[i], &f, sizeof f);
        else d[i] = (uint32_t)(int64_t)sum;
    }
}

void lmma_squares(int lane, const uint32_t *const *rows, bool turned, uint32_t *d) {
    for (int q = 0; q < 4; q++) {
        int at = lane / 4, pair = lane % 4;
        d[q] = rows[8 * q + at][pair];
        if (!turned) continue;
        uint32_t low = rows[8 * q + 2 * pair][at / 2], high = rows[8 * q + 2 * pair + 1][at / 2];
        d[q] = (low >> 16 * (at % 2) & 0xffff) | high >> 16 * (at % 2) << 16;
    }
}
