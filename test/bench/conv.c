// How fast are convolutions? For each shape: the direct kernel as a share of the peak of fused multiply-adds,
// and Winograd as a ratio to it with its difference, all measured in turns in one run, as CPU time. Copies
// between layouts at the model's boundary are listed beside the memory's speed for a copy. Options: a CPU's
// name.
#include "codegen/llvm/jit.h"
#include "codegen/llvm/load.h"
#include "codegen/target/targets.h"
#include "passes/rewrite/algorithm.h"
#include "test/build_graph.h"
#include "test/conv_model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PEAK_CHAINS = 12, ROUNDS = 8, REPEATS = 8 };
typedef void peak_fn(float *to, int64_t n);

// Independent chains of multiply-adds on registers only.
static peak_fn *build_peak(arena *a, diag *d, const target *t) {
    lmodule *m = lmodule_new(a, "peak", t);
    lfunc *f = lfunc_new(m, "peak", lt(LK_VOID, 1));
    f->exported = true;
    ins *to = lfunc_param(f, "to", lt_ptr(), LK_F32, DT_F32, false);
    ins *n = lfunc_param(f, "n", lt(LK_I64, 1), LK_VOID, DT_I64, false);
    lbuild b = lbuild_new(f, t, d);
    ltype v = lt(LK_F32, target_lanes(t, 32));
    ins *acc[PEAK_CHAINS], *factor = lb_load(&b, v, to, lb_idx(&b, 0), 0);
    for (int i = 0; i < PEAK_CHAINS; i++)
        acc[i] = lb_var(&b, "acc", lb_load(&b, v, to, lb_idx(&b, (int64_t)i * v.lanes), 0));
    ins *k = lb_for(&b, "k", lb_idx(&b, 0), n, lb_idx(&b, 1), LOOP_SERIAL);
    for (int i = 0; i < PEAK_CHAINS; i++)
        lb_set(&b, acc[i], lb_muladd(&b, lb_get(&b, acc[i]), factor, factor));
    lb_end(&b, k);
    for (int i = 0; i < PEAK_CHAINS; i++)
        lb_store(&b, to, lb_idx(&b, (int64_t)i * v.lanes), lb_get(&b, acc[i]), 0);
    lb_return(&b, NULL);
    loaded *l = load_module(a, d, m, NULL, 0);
    return (peak_fn *)(uintptr_t)loaded_symbol(l, "peak");
}

static double peak_seconds(peak_fn *fn, int lanes) { // of one operation
    static float to[PEAK_CHAINS * 16];
    enum { N = 20000 };
    double start = cpu_seconds();
    fn(to, N);
    return (cpu_seconds() - start) / (2.0 * PEAK_CHAINS * lanes * N);
}

typedef struct variant {
    program *p;
    jit *code;
    tensor y;
    double conv, copies; // seconds, best
    double *kernel;      // by id, best
} variant;

static variant build(arena *a, diag *d, const target *t, const conv_case *c, choice winograd) {
    variant v = {.p = conv_program(a, d, c), .conv = INFINITY, .copies = INFINITY};
    choose_algorithms(v.p, t, &(algorithm_options){.winograd = winograd});
    run_passes(&(pass_context){.program = v.p, .target = t, .opt = 2}, GOAL_PROGRAM, "layout");
    v.code = jit_program(a, d, v.p, t);
    v.kernel = ARENA_ARRAY(a, double, v.p->kernels.n);
    for (int j = 0; j < v.p->kernels.n; j++) v.kernel[j] = INFINITY;
    return v;
}

static bool is_boundary(const kernel *k) {
    return strncmp(k->name, "layout_", 7) == 0 || strncmp(k->name, "halo_", 5) == 0;
}

static void time_once(variant *v, struct interp *in) {
    double conv = 0, copies = 0;
    const region *r = v->p->main;
    for (int j = 0; j < r->steps.n; j++) {
        const kernel *k = r->steps.at[j]->kernel;
        double before = jit_time(v->code, k);
        jit_kernel(v->code, in, k);
        double s = jit_time(v->code, k) - before;
        *(is_boundary(k) ? &copies : &conv) += s;
        v->kernel[k->id] = fmin(v->kernel[k->id], s);
    }
    v->conv = fmin(v->conv, conv), v->copies = fmin(v->copies, copies);
}

// At the last kernel every buffer has its memory: the whole model runs over and over from there.
static bool time_kernels(void *user, struct interp *in, const kernel *k) {
    variant *v = user;
    const region *r = v->p->main;
    if (k == r->steps.at[r->steps.n - 1]->kernel)
        for (int j = 0; j < REPEATS; j++) time_once(v, in);
    return jit_kernel(v->code, in, k);
}

static void run_variant(variant *v, const tensor *x) {
    arena *a = arena_new();
    const char *message = NULL;
    tensor y;
    interp_program_hooked(v->p, a, x, &y, (interp_limits){0}, &message,
                          &(interp_hooks){.kernel = time_kernels, .user = v});
    memcpy(v->y.data, y.data, (size_t)y.count * sizeof(float));
    v->y.count = y.count;
    arena_destroy(a);
}

static double difference(const variant *a, const variant *b) {
    double worst = 0, most = 0;
    const float *x = a->y.data, *y = b->y.data;
    for (int64_t j = 0; j < a->y.count; j++) {
        worst = fmax(worst, fabs((double)x[j] - y[j]));
        most = fmax(most, fabs((double)x[j]));
    }
    return worst / most;
}

static double copy_seconds(float *to, const float *from, int64_t n) {
    double start = cpu_seconds();
    memcpy(to, from, (size_t)n * sizeof *to);
    return cpu_seconds() - start;
}

static void list_kernels(const variant *v) {
    for (int j = 0; j < v->p->kernels.n; j++)
        printf("        %-24s %8.1f us  %s\n", v->p->kernels.at[j]->name, 1e6 * v->kernel[j],
               jit_schedule(v->code, v->p->kernels.at[j]));
}

static __attribute__((noinline)) void measure(diag *d, const char *cpu, const conv_case *c, bool details) {
    arena *a = arena_new();
    target_options o = {.cpu = cpu, .fp = FP_DEFAULT};
    target *t = target_from_options(a, d, &o);
    int lanes = target_lanes(t, 32);
    peak_fn *peak_code = build_peak(a, d, t);
    variant direct = build(a, d, t, c, CHOICE_NEVER), winograd = build(a, d, t, c, CHOICE_ALWAYS);
    int64_t outs = c->batch * c->outputs * (c->height + c->pads[0] + c->pads[2] - 2) *
                   (c->width + c->pads[1] + c->pads[3] - 2);
    direct.y.data = arena_alloc(a, (size_t)outs * 4), winograd.y.data = arena_alloc(a, (size_t)outs * 4);
    tensor x = {.dtype = DT_F32, .rank = 4, .dims = {c->batch, c->channels, c->height, c->width}};
    x.count = c->batch * c->channels * c->height * c->width;
    float *data = arena_alloc(a, (size_t)x.count * 4), *other = arena_alloc(a, (size_t)x.count * 4);
    uint32_t seed = 7;
    for (int64_t j = 0; j < x.count; j++) data[j] = conv_random(&seed);
    x.data = data;
    double peak = INFINITY, copy = INFINITY;
    for (int r = 0; r < ROUNDS; r++) {
        for (int j = 0; j < REPEATS; j++) {
            peak = fmin(peak, peak_seconds(peak_code, lanes));
            copy = fmin(copy, copy_seconds(other, data, x.count));
        }
        run_variant(&direct, &x);
        run_variant(&winograd, &x);
    }
    double work = 2.0 * 9 * (double)(outs * c->channels);
    printf("%4lldx%-4lld %3lldx%-3lld  peak %6.1f GFLOP/s  direct %8.1f us %5.1f %%  winograd %8.1f us "
           "%5.2fx  difference %.1e  "
           "copies %6.1f us, of memory %5.1f\n",
           (long long)c->channels, (long long)c->outputs, (long long)c->height, (long long)c->width,
           1e-9 / peak, 1e6 * direct.conv, 100 * work * peak / direct.conv, 1e6 * winograd.conv,
           direct.conv / winograd.conv, difference(&direct, &winograd), 1e6 * direct.copies, 1e6 * copy);
    if (details) list_kernels(&direct), list_kernels(&winograd);
    arena_destroy(a);
}

int main(int n, char **args) {
    static const conv_case cases[] = {
        {1, 64, 56, 56, 64, {1, 1, 1, 1}},   {1, 128, 28, 28, 128, {1, 1, 1, 1}},
        {1, 256, 14, 14, 256, {1, 1, 1, 1}}, {1, 512, 7, 7, 512, {1, 1, 1, 1}},
        {1, 32, 112, 112, 32, {1, 1, 1, 1}}, {1, 64, 57, 55, 96, {1, 1, 1, 1}},
        {4, 16, 28, 28, 16, {0, 0, 0, 0}},
    };
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) return DIAG_DEFECT;
    int only = n > 2 ? 1 : (int)(sizeof cases / sizeof *cases);
    for (int j = 0; j < only; j++) measure(&d, n > 1 ? args[1] : "native", &cases[j], n > 2);
    return 0;
}
