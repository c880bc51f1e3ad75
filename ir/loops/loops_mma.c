// Products of fragments (PTX ISA, "Matrix fragments"): register r of thread 4 g + t holds row g + 8 (r % 2)
// of a, columns from per * t + 4 * per * (r / 2) on; b the same without the row's bit. Sums in double are
// rounded once.
#include "ir/loops/loops_mma.h"
#include <string.h>

// TF32 has the upper 19 bits of f32.
static double element(dtype t, uint32_t word, int j) {
    if (t == DT_F32) word &= 0xffffe000u;
    return dtype_is_float(t) ? dtype_load_float(t, &word, j) : (double)dtype_load_int(t, &word, j);
}

static double product_at(const gpu_ins *g, const uint32_t *const *registers, int row, int column, int p) {
    int per = 32 / dtype_bits(g->a), quarter = p / per % 4, half = p / per / 4;
    uint32_t a = registers[row % 8 * 4 + quarter][row / 8 + half * (g->m / 8)],
             b = registers[column * 4 + quarter][gpu_words_a(g) + half];
    return element(g->a, a, p % per) * element(g->b, b, p % per);
}

static double read_sum(const gpu_ins *g, uint32_t word) {
    return dtype_is_float(g->a) ? dtype_load_float(DT_F32, &word, 0) : (double)(int32_t)word;
}

static void write_sum(const gpu_ins *g, double sum, uint32_t *word) {
    float f = (float)sum;
    if (dtype_is_float(g->a)) memcpy(word, &f, sizeof f);
    else *word = (uint32_t)(int64_t)sum;
}

void mma_apply(const gpu_ins *g, int lane, const uint32_t *const *registers, uint32_t *d) {
    for (int i = 0; i < gpu_sums(g); i++) {
        double sum = read_sum(g, d[i]);
        for (int p = 0; p < g->k; p++)
            sum += product_at(g, registers, lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2, p);
        write_sum(g, sum, &d[i]);
    }
}

void mma_load_matrices(int lane, const uint32_t *const *rows, bool transposed, uint32_t *d) {
    for (int q = 0; q < 4; q++) {
        int at = lane / 4, pair = lane % 4;
        d[q] = rows[8 * q + at][pair];
        if (!transposed) continue;
        uint32_t low = rows[8 * q + 2 * pair][at / 2], high = rows[8 * q + 2 * pair + 1][at / 2];
        d[q] = (low >> 16 * (at % 2) & 0xffff) | high >> 16 * (at % 2) << 16;
    }
}

// ---------------------------------------------------------------- warpgroups

uintptr_t wgmma_address(uintptr_t p, gpu_order order, int64_t lead, int bytes, int row, int k) {
    enum { LINE = 128, CHUNK = 16, CORE = 8 * CHUNK };
    bool transposed = order == ORDER_M;
    if (order == ORDER_CORES)
        return p + (uintptr_t)(row / 8 * 8 * CORE + k * bytes / CHUNK * CORE + row % 8 * CHUNK +
                               k * bytes % CHUNK);
    uintptr_t line = (uintptr_t)(transposed ? k : row) * LINE,
              in = (uintptr_t)((transposed ? row % 64 : k) * bytes);
    uintptr_t at = p + line + in + (transposed ? (uintptr_t)(row / 64 * lead) : 0);
    return at ^ (at >> 7 & 7) << 4;
}

// Thread 32 w + 4 g + t has rows 16 w + g and 8 more, columns 2 t and 2 t + 1 of each eight.
void wgmma_apply(const gpu_ins *g, int thread, const double *a, const double *b, uint32_t *d) {
    int lane = thread % 32;
    for (int i = 0; i < gpu_sums(g); i++) {
        const double *x = a + (thread / 32 * 16 + lane / 4 + i / 2 % 2 * 8) * g->k,
                     *y = b + (i / 4 * 8 + lane % 4 * 2 + i % 2) * g->k;
        double sum = read_sum(g, d[i]);
        for (int k = 0; k < g->k; k++) sum += x[k] * y[k];
        write_sum(g, sum, &d[i]);
    }
}
