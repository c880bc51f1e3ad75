// Products of fragments (PTX ISA, "Matrix fragments"): register r of thread 4 g + t holds row g + 8 (r % 2)
// of a, columns from per * t + 4 * per * (r / 2) on; b the same without the row's bit. Sums in double are
// rounded once.
#include "ir/loops/loops_mma.h"
#include <stdio.h>
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

// ---------------------------------------------------------------- groups of warps

static const struct {
    const char *name;
    dtype a, b;
} group_types[] = {
    {"f16", DT_F16, DT_F16}, {"bf16", DT_BF16, DT_BF16}, {"tf32", DT_F32, DT_F32}, {"s8", DT_I8, DT_I8},
    {"u8s8", DT_U8, DT_I8},  {"s8u8", DT_I8, DT_U8},     {"u8", DT_U8, DT_U8},
};
enum { GROUP_TYPES = sizeof group_types / sizeof *group_types };

static lgroup_order order_of(char letter) {
    return letter == 'm' ? GROUP_M : letter == 'c' ? GROUP_CORES : GROUP_K;
}

bool lgroup_named(const char *name, lgroup *g) {
    int n = 0, at = 0;
    char type[8] = "", orders[4] = "";
    if (sscanf(name, "group_n%d_%7[a-z0-9]_%3[kmc]%n", &n, type, orders, &at) != 3 || name[at]) return false;
    if (n < 8 || n > 256 || n % 8 || strlen(orders) != 2) return false;
    for (int i = 0; i < GROUP_TYPES; i++)
        if (!strcmp(group_types[i].name, type)) {
            *g = (lgroup){group_types[i].a, group_types[i].b, n, order_of(orders[0]), order_of(orders[1])};
            return dtype_bits(g->a) == 16 || !strchr(orders, 'm');
        }
    return false;
}

int lgroup_registers(const lgroup *g) { return g->n / 2; }
int lgroup_depth(const lgroup *g) { return 256 / dtype_bits(g->a); }

uintptr_t lgroup_place(uintptr_t p, lgroup_order order, int64_t lead, int bytes, int row, int k) {
    enum { LINE = 128, CHUNK = 16, CORE = 8 * CHUNK };
    bool turned = order == GROUP_M;
    if (order == GROUP_CORES)
        return p + (uintptr_t)(row / 8 * 8 * CORE + k * bytes / CHUNK * CORE + row % 8 * CHUNK +
                               k * bytes % CHUNK);
    uintptr_t line = (uintptr_t)(turned ? k : row) * LINE, in = (uintptr_t)((turned ? row % 64 : k) * bytes);
    uintptr_t at = p + line + in + (turned ? (uintptr_t)(row / 64 * lead) : 0);
    return at ^ (at >> 7 & 7) << 4;
}

// Thread 32 w + 4 g + t has rows 16 w + g and 8 more, columns 2 t and 2 t + 1 of each eight.
void lgroup_apply(const lgroup *g, int thread, const double *a, const double *b, uint32_t *d) {
    int depth = lgroup_depth(g), lane = thread % 32;
    for (int i = 0; i < lgroup_registers(g); i++) {
        const double *x = a + (thread / 32 * 16 + lane / 4 + i / 2 % 2 * 8) * depth,
                     *y = b + (i / 4 * 8 + lane % 4 * 2 + i % 2) * depth;
        float f;
        memcpy(&f, &d[i], sizeof f);
        bool floats = dtype_is_float(g->a);
        double sum = floats ? (double)f : (double)(int32_t)d[i];
        for (int k = 0; k < depth; k++) sum += x[k] * y[k];
        f = (float)sum;
        if (floats) memcpy(&d[i], &f, sizeof f);
        else d[i] = (uint32_t)(int64_t)sum;
    }
}
