// Measures the peak of multiply-adds with independent chains in registers.
#include "codegen/llvm/load.h"
#include "compiler/base/clock.h"
#include "compiler/cli/command.h"

enum { CHAINS = 12, STEPS = 100000, REPEATS = 40 };
typedef void peak_function(float *to, int64_t n);

// for k < n: acc[i] = acc[i] * x + x, for all chains i
static void build(lmodule *m, diag *d, const target *t, int lanes) {
    lfunc *f = lfunc_new(m, "peak", lt(LK_VOID, 1));
    f->exported = true;
    ins *to = lfunc_param(f, "to", lt_ptr(), LK_F32, DT_F32, false);
    ins *n = lfunc_param(f, "n", lt(LK_I64, 1), LK_VOID, DT_I64, false);
    lbuild b = lbuild_new(f, t, d);
    ltype v = lt(LK_F32, lanes);
    ins *acc[CHAINS], *x = lb_load(&b, v, to, lb_idx(&b, 0), 0);
    for (int i = 0; i < CHAINS; i++) acc[i] = lb_var(&b, "acc", lb_load(&b, v, to, lb_idx(&b, i * lanes), 0));
    ins *k = lb_for(&b, "k", lb_idx(&b, 0), n, lb_idx(&b, 1), LOOP_SERIAL);
    for (int i = 0; i < CHAINS; i++) lb_set(&b, acc[i], lb_muladd(&b, lb_get(&b, acc[i]), x, x));
    lb_end(&b, k);
    for (int i = 0; i < CHAINS; i++) lb_store(&b, to, lb_idx(&b, i * lanes), lb_get(&b, acc[i]), 0);
    lb_return(&b, NULL);
}

double measure_peak(arena *a, diag *d, const target *t) {
    int lanes = target_lanes(t, 32);
    lmodule *m = lmodule_new(a, "peak", t);
    build(m, d, t, lanes);
    loaded *l = load_module(a, d, m, NULL, 0);
    peak_function *f;
    *(void **)&f = loaded_symbol(l, "peak");
    float *data = ARENA_ARRAY(a, float, CHAINS *lanes);
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start = clock_now();
        f(data, STEPS);
        double seconds = clock_now() - start;
        if (seconds < best) best = seconds;
    }
    return 2.0 * STEPS * CHAINS * lanes / best;
}
