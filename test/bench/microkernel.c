// Does the code generator keep a register tile in registers? Builds the inner kernel of matrix multiplication
// (6x64 on AVX-512, 6x16 on AVX2; B in panels of 16 columns) as loops, compiles and loads it, and compares
// its speed with the peak of fused multiply-adds measured by a kernel of nothing else. Prints a table; exits
// 1 below 95 %.
#include "codegen/llvm/load.h"
#include "codegen/target/targets.h"
#include "test/build_graph.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PANEL = 16, ROWS_MOST = 14, VECTORS_MOST = 4, PEAK_CHAINS = 12, REPEATS = 500 };

typedef struct shape {
    const char *cpu;
    int rows, columns, lanes, depth;
} shape;
typedef void tile_fn(const float *a, const float *b, float *c, int64_t k);
typedef void peak_fn(float *to, int64_t n);

// c[rows][columns] = a[rows][K] * b[columns/16][K][16], all of it in registers until the end.
static void build_tile(lmodule *m, diag *d, const target *t, const shape *s, const char *name) {
    lfunc *f = lfunc_new(m, name, lt(LK_VOID, 1));
    f->noalias = f->kernel = true;
    ins *a = lfunc_param(f, "a", lt_ptr(), LK_F32, DT_F32, true);
    ins *pack = lfunc_param(f, "b", lt_ptr(), LK_F32, DT_F32, true);
    ins *c = lfunc_param(f, "c", lt_ptr(), LK_F32, DT_F32, false);
    ins *depth = lfunc_param(f, "k", lt(LK_I64, 1), LK_VOID, DT_I64, false);
    lbuild b = lbuild_new(f, t, d);
    int vectors = s->columns / s->lanes;
    ltype v = lt(LK_F32, s->lanes);
    ins *acc[ROWS_MOST][VECTORS_MOST];
    for (int i = 0; i < s->rows; i++)
        for (int j = 0; j < vectors; j++) acc[i][j] = lb_var(&b, "acc", lb_float(&b, v, 0));
    ins *k = lb_for(&b, "k", lb_idx(&b, 0), depth, lb_idx(&b, 1), LOOP_SERIAL);
    ins *row = lb_bin(&b, L_MUL, k, lb_idx(&b, PANEL)), *x[VECTORS_MOST];
    for (int j = 0; j < vectors; j++) {
        int64_t at = (int64_t)(j * s->lanes / PANEL) * s->depth * PANEL + j * s->lanes % PANEL;
        x[j] = lb_load(&b, v, pack, lb_bin(&b, L_ADD, row, lb_idx(&b, at)), 4 * s->lanes);
    }
    for (int i = 0; i < s->rows; i++) {
        ins *one = lb_load(&b, lt(LK_F32, 1), a, lb_bin(&b, L_ADD, k, lb_idx(&b, (int64_t)i * s->depth)), 0);
        ins *all = lb_splat(&b, one, s->lanes);
        for (int j = 0; j < vectors; j++)
            lb_set(&b, acc[i][j], lb_muladd(&b, all, x[j], lb_get(&b, acc[i][j])));
    }
    lb_end(&b, k);
    for (int i = 0; i < s->rows; i++)
        for (int j = 0; j < vectors; j++)
            lb_store(&b, c, lb_idx(&b, i * s->columns + j * s->lanes), lb_get(&b, acc[i][j]), 0);
    lb_return(&b, NULL);
}

// Independent chains of multiply-adds on registers only.
static void build_peak(lmodule *m, diag *d, const target *t, int lanes, const char *name) {
    lfunc *f = lfunc_new(m, name, lt(LK_VOID, 1));
    ins *to = lfunc_param(f, "to", lt_ptr(), LK_F32, DT_F32, false);
    ins *n = lfunc_param(f, "n", lt(LK_I64, 1), LK_VOID, DT_I64, false);
    lbuild b = lbuild_new(f, t, d);
    ltype v = lt(LK_F32, lanes);
    ins *acc[PEAK_CHAINS], *factor = lb_load(&b, v, to, lb_idx(&b, 0), 0);
    for (int i = 0; i < PEAK_CHAINS; i++)
        acc[i] = lb_var(&b, "acc", lb_load(&b, v, to, lb_idx(&b, i * lanes), 0));
    ins *k = lb_for(&b, "k", lb_idx(&b, 0), n, lb_idx(&b, 1), LOOP_SERIAL);
    for (int i = 0; i < PEAK_CHAINS; i++)
        lb_set(&b, acc[i], lb_muladd(&b, lb_get(&b, acc[i]), factor, factor));
    lb_end(&b, k);
    for (int i = 0; i < PEAK_CHAINS; i++) lb_store(&b, to, lb_idx(&b, i * lanes), lb_get(&b, acc[i]), 0);
    lb_return(&b, NULL);
}

static double peak_speed(peak_fn *fn, int lanes) {
    static float to[PEAK_CHAINS * 16];
    enum { N = 20000 };
    double start = cpu_seconds();
    fn(to, N);
    return 2.0 * PEAK_CHAINS * lanes * N / (cpu_seconds() - start) / 1e9;
}

static double tile_speed(tile_fn *fn, const shape *s, const float *a, const float *b, float *c) {
    int calls = 20000 / s->depth;
    double start = cpu_seconds();
    for (int i = 0; i < calls; i++) fn(a, b, c, s->depth);
    return 2.0 * s->rows * s->columns * s->depth * calls / (cpu_seconds() - start) / 1e9;
}

static double worst_error(const shape *s, const float *a, const float *b, const float *c) {
    double worst = 0;
    for (int i = 0; i < s->rows; i++)
        for (int j = 0; j < s->columns; j++) {
            double sum = 0;
            for (int k = 0; k < s->depth; k++)
                sum += (double)a[i * s->depth + k] * b[(j / PANEL * s->depth + k) * PANEL + j % PANEL];
            worst = fmax(worst, fabs(sum - c[i * s->columns + j]));
        }
    return worst;
}

static bool measure(arena *arena, diag *d, const shape *s) {
    target_options o = {.cpu = s->cpu, .fp = FP_DEFAULT};
    target *t = target_from_options(arena, d, &o);
    if (!target_runs_here(arena, d, t)) return true;
    lmodule *m = lmodule_new(arena, "microkernel", t);
    build_tile(m, d, t, s, "tile");
    build_peak(m, d, t, s->lanes, "peak");
    loaded *l = load_module(arena, d, m, NULL, 0);
    double best = 0, peak = 0;
    tile_fn *tile = (tile_fn *)(uintptr_t)loaded_symbol(l, "tile");
    peak_fn *top = (peak_fn *)(uintptr_t)loaded_symbol(l, "peak");
    size_t na = (size_t)(s->rows * s->depth), nb = (size_t)(s->columns * s->depth),
           nc = (size_t)(s->rows * s->columns);
    float *a = aligned_alloc(64, (na * sizeof *a + 63) / 64 * 64), *b = aligned_alloc(64, nb * sizeof *b);
    float *c = aligned_alloc(64, (nc * sizeof *c + 63) / 64 * 64);
    for (size_t i = 0; i < na; i++) a[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    for (size_t i = 0; i < nb; i++) b[i] = (float)(i * 53 % 211) / 211 - 0.5f;
    for (int i = 0; i < REPEATS; i++) {
        peak = fmax(peak, peak_speed(top, s->lanes));
        best = fmax(best, tile_speed(tile, s, a, b, c));
    }
    double share = best / peak, error = worst_error(s, a, b, c);
    bool fast = share >= 0.95, right = error < 1e-4;
    printf("%-10s %2dx%-3d %7.1f of %7.1f GFLOP/s  %5.1f %%  error %.1e%s%s\n", s->cpu, s->rows, s->columns,
           best, peak, 100 * share, error, fast ? "" : "  too slow", right ? "" : "  wrong");
    free(a), free(b), free(c);
    return fast && right;
}

static __attribute__((noinline)) bool measure_all(arena *a, diag *d) {
    static const shape shapes[] = {{"x86-64-v4", 6, 64, 16, 96},
                                   {"x86-64-v4", 8, 48, 16, 128},
                                   {"x86-64-v4", 14, 32, 16, 128},
                                   {"x86-64-v3", 6, 16, 8, 256}};
    bool good = true;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) good &= measure(a, d, &shapes[i]);
    return good;
}

int main(void) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    return DIAG_TRY(&d, jump) ? !measure_all(a, &d) : DIAG_DEFECT;
}
