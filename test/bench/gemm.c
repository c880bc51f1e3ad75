// Matrix products against the peak of fused multiply-adds measured in the same run, through the whole
// compiler: graph, lowering, layout, schedule, LLVM. Tile kernel and peak run in turns; the best of each
// counts, in CPU time. Exits 1 below 90 % for 512 and 85 % for primes.
#include "codegen/jit.h"
#include "codegen/load.h"
#include "codegen/targets.h"
#include "ir/lower.h"
#include "passes/layout.h"
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHAINS = 12, PEAK_STEPS = 200000, ROUNDS = 40 };
typedef void peak_fn(float *to, int64_t n);

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void show(void *user, const diag_message *m) {
    (void)user;
    fprintf(stderr, "%s\n", m->full);
}

// CHAINS accumulators that only multiply and add.
static peak_fn *build_peak(arena *a, diag *d, const target *t) {
    lmodule *m = lmodule_new(a, "peak", t);
    lfunc *f = lfunc_new(m, "peak", lt(LK_VOID, 1));
    f->target = t, f->exported = true;
    ins *to = lfunc_param(f, "to", lt_ptr(), LK_F32, DT_F32, false),
        *n = lfunc_param(f, "n", lt(LK_I64, 1), LK_VOID, DT_I64, true);
    lbuild b = lbuild_new(f, t, d);
    int lanes = target_lanes(t, 32);
    ltype v = lt(LK_F32, lanes);
    ins *acc[CHAINS], *x = lb_load(&b, v, to, lb_idx(&b, 0), 4),
                      *y = lb_load(&b, v, to, lb_idx(&b, lanes), 4);
    for (int j = 0; j < CHAINS; j++) acc[j] = lb_var(&b, "acc", lb_float(&b, v, j));
    ins *loop = lb_for(&b, "i", lb_idx(&b, 0), n, lb_idx(&b, 1), LOOP_SERIAL);
    for (int j = 0; j < CHAINS; j++) lb_set(&b, acc[j], lb_muladd(&b, x, y, lb_get(&b, acc[j])));
    lb_end(&b, loop);
    for (int j = 0; j < CHAINS; j++) lb_store(&b, to, lb_idx(&b, (int64_t)j * lanes), lb_get(&b, acc[j]), 4);
    peak_fn *fn;
    *(void **)&fn = loaded_symbol(load_module(a, d, m, NULL, 0), "peak");
    return fn;
}

// y = a b with b constant; rows symbolic when dynamic.
static program *build_product(arena *a, diag *d, int64_t m, int64_t k, int64_t n, bool dynamic) {
    module *mod = module_new(a, d, "gemm");
    mod->name = "gemm";
    mod->main = mod->main ? mod->main : graph_new(mod, NULL, "main");
    graph *g = mod->main;
    dim *rows = dynamic ? dim_symbol(mod->dims, "M") : dim_const(mod->dims, m);
    dim *shape[2] = {rows, dim_const(mod->dims, k)};
    value *x = graph_add_input(g, "a", type_tensor(a, DT_F32, 2, shape));
    constant *c = constant_new(a, DT_F32, 2, (int64_t[]){k, n});
    for (int64_t j = 0; j < k * n; j++)
        dtype_store_float(DT_F32, (void *)c->data, j, (double)(j % 17) / 16 - 0.5, true);
    value *in[2] = {x, value_constant(g, "b", c)};
    static const loc at = {.node = "MatMul", .op = "MatMul"};
    node *p = node_new(g, NULL, op_find("", "MatMul"), &at, 2, in);
    graph_add_output(g, node_output(p, 0, "y"));
    infer_graph(g);
    program *made = lower_module(mod);
    assign_layouts(made);
    return made;
}

static double measure(arena *a, diag *d, const target *t, peak_fn *peak, int64_t m, int64_t k, int64_t n,
                      bool dynamic) {
    program *p = build_product(a, d, m, k, n, dynamic);
    jit *j = jit_program(a, d, p, t);
    interp_hooks hooks = {.kernel = jit_kernel, .user = j};
    tensor in = {.dtype = DT_F32,
                 .rank = 2,
                 .dims = {m, k},
                 .count = m * k,
                 .data = calloc((size_t)(m * k), 4)},
           out;
    float scratch[CHAINS * 16] = {0};
    double best_peak = 0, best = 0;
    for (int r = 0; r < ROUNDS; r++) {
        double start = cpu_seconds();
        peak(scratch, PEAK_STEPS);
        double rate = 2.0 * CHAINS * target_lanes(t, 32) * PEAK_STEPS / (cpu_seconds() - start);
        if (rate > best_peak) best_peak = rate;
        int64_t before = jit_time(j, p->kernels.at[0]);
        if (interp_program_hooked(p, a, &in, &out, (interp_limits){0}, NULL, &hooks) != INTERP_OK) exit(3);
        rate = 2e9 * (double)(m * k * n) / (double)(jit_time(j, p->kernels.at[0]) - before);
        if (rate > best) best = rate;
    }
    free(in.data);
    printf("%-10s %4lldx%lldx%lld%s  %6.1f of %6.1f GFLOP/s  %5.1f %%\n", t->cpu, (long long)m, (long long)k,
           (long long)n, dynamic ? " M dynamic" : "          ", 1e-9 * best, 1e-9 * best_peak,
           100 * best / best_peak);
    return best / best_peak;
}

// The bench on one CPU's code; true when every product reaches its share.
static bool measure_cpu(arena *a, diag *d, const char *cpu) {
    target *t = target_from_options(a, d, &(target_options){.cpu = cpu, .fp = FP_DEFAULT, .threads = 1});
    if (!target_runs_here(a, d, t) || !t->vector_bits) return true;
    peak_fn *peak = build_peak(a, d, t);
    bool ok = measure(a, d, t, peak, 512, 512, 512, false) >= 0.9;
    ok &= measure(a, d, t, peak, 512, 512, 512, true) >= 0.9;
    ok &= measure(a, d, t, peak, 509, 503, 499, false) >= 0.85;
    ok &= measure(a, d, t, peak, 509, 503, 499, true) >= 0.85;
    return ok;
}

int main(void) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) return 3;
    bool native = measure_cpu(a, &d, "native"), v3 = measure_cpu(a, &d, "x86-64-v3");
    arena_destroy(a);
    return native && v3 ? 0 : 1;
}
