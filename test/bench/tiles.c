// Products and convolutions by matrix tiles as shares of the tiles' peak, where the CPU has tiles: bf16 with f32 sums, and
// bytes; bias and ReLU included, output in bf16 or bytes. A loop of products on tile registers alone runs directly before
// and after each sample; a sample counts if both agree to 3 %, since the unit's speed changes from one second to the next.
#include "codegen/llvm/jit.h"
#include "codegen/llvm/load.h"
#include "codegen/target/targets.h"
#include "compiler/base/integers.h"
#include "compiler/driver/pass_run.h"
#include "ir/kernel/lower.h"
#include "ir/loops/loops_tiles.h"
#include "runtime-lite/core/runtime.h"
#include "test/build_graph.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PROBE = 2000, UNROLLED = 8, ROUNDS = 400, ENOUGH = 25, SUMS = 4 };
typedef void probe_fn(void *config, int64_t n);

// ---------------------------------------------------------------- the peak
static void build_probe(lmodule *m, const target *t, diag *d, const char *name, lop product) {
    lfunc *f = lfunc_new(m, name, lt(LK_VOID, 1));
    f->target = t, f->exported = true;
    ins *memory = lfunc_param(f, "config", lt_ptr(), LK_I64, DT_I64, false);
    ins *n = lfunc_param(f, "n", lt(LK_I64, 1), LK_VOID, DT_I64, true);
    lbuild b = lbuild_new(f, t, d);
    tile_shape shapes[TILES];
    for (int j = 0; j < TILES; j++) shapes[j] = (tile_shape){TILE_ROWS, TILE_BYTES};
    lb_tile_shapes(&b, memory, shapes);
    ins *loop = lb_for(&b, "i", lb_idx(&b, 0), n, lb_idx(&b, 1), LOOP_SERIAL);
    for (int j = 0; j < UNROLLED; j++) lb_tile_dot(&b, product, j % SUMS, SUMS + j % 2, SUMS + 2 + j / 2 % 2);
    lb_end(&b, loop);
    lb_tile_release(&b);
}

static double probe_seconds(probe_fn *probe) { // of one product of tiles
    static _Alignas(TILE_CONFIG_BYTES) char config[TILE_CONFIG_BYTES];
    double start = cpu_seconds();
    probe(config, PROBE);
    return (cpu_seconds() - start) / (PROBE * UNROLLED);
}

// ---------------------------------------------------------------- models
typedef struct shape {
    int64_t m, k, n;    // or channels k to n of
    int64_t side, taps; // an image and a window, both square; 0: a product of matrices
} shape;

static value *numbers(graph *g, const char *name, dtype t, int rank, const int64_t *dims, double by) {
    constant *c = constant_new(g->module->arena, t, rank, dims);
    for (int64_t j = 0; j < c->count; j++)
        dtype_store_float(t, (void *)c->data, j, (double)(j % 13 - 6) * by, true);
    return value_constant(g, name, c);
}

static value *product(graph *g, const shape *s, value *x, value *w, value *bias, bool window) {
    if (!s->side)
        return apply(g, "Add", 2, (value *[]){apply(g, "MatMul", 2, (value *[]){x, w}, "p"), bias}, "s");
    value *y = apply(g, "Conv", 3, (value *[]){x, w, bias}, "s");
    int64_t *pads = ARENA_ARRAY(g->module->arena, int64_t, 4);
    for (int j = 0; j < 4 && window; j++) pads[j] = s->taps / 2;
    node_set_attr(y->def, (attr){.name = "pads", .kind = ATTR_INTS, .n = 4, .ints = pads});
    return y;
}

static value *weights(graph *g, const shape *s, const char *name, dtype t, int64_t in, int64_t out,
                      int64_t taps) {
    int64_t product_dims[] = {in, out}, window[] = {out, in, taps, taps};
    return numbers(g, name, t, s->side ? 4 : 2, s->side ? window : product_dims, t == DT_I8 ? 9 : 0.01);
}

// x and y are bytes.
static value *byte_layer(graph *g, const shape *s, value *x) {
    value *scale = scalar(g, "sx", DT_F32, 0.02), *zero = scalar(g, "zx", DT_U8, 0);
    value *sw = scalar(g, "sw", DT_F32, 0.003), *zw = scalar(g, "zw", DT_I8, 0),
          *sy = scalar(g, "sy", DT_F32, 0.05);
    value *xf = apply(g, "DequantizeLinear", 3, (value *[]){x, scale, zero}, "xf");
    value *w = apply(g, "DequantizeLinear", 3,
                     (value *[]){weights(g, s, "w", DT_I8, s->k, s->n, s->taps), sw, zw}, "wf");
    value *r = product(g, s, xf, w, numbers(g, "bias", DT_F32, 1, &s->n, 0.1), true);
    r = apply(g, "Relu", 1, &r, "r");
    return apply(g, "QuantizeLinear", 3, (value *[]){r, sy, zero}, "y");
}

// Temporaries are bf16, so layers before and after it make and read them.
static value *bf16_layer(graph *g, const shape *s, value *x) {
    enum { LAST = 16 };
    int64_t last = LAST;
    value *h = apply(g, "Relu", 1, &x, "h");
    h = product(g, s, h, weights(g, s, "w", DT_F32, s->k, s->n, s->taps),
                numbers(g, "bias", DT_F32, 1, &s->n, 0.1), true);
    h = apply(g, "Relu", 1, &h, "r");
    return product(g, s, h, weights(g, s, "v", DT_F32, s->n, LAST, 1),
                   numbers(g, "end", DT_F32, 1, &last, 0.1), false);
}

static program *build(arena *a, diag *d, const target *t, const shape *s, bool bytes) {
    module *m = module_new(a, d, "tiles");
    graph *g = m->main = graph_new(m, NULL, "tiles");
    m->name = "tiles";
    dim *product_dims[] = {dim_const(m->dims, s->m), dim_const(m->dims, s->k)};
    dim *side = dim_const(m->dims, s->side), *image[] = {dim_const(m->dims, 1), product_dims[1], side, side};
    type in = type_tensor(a, bytes ? DT_U8 : DT_F32, s->side ? 4 : 2, s->side ? image : product_dims);
    value *x = graph_add_input(g, "x", in);
    graph_add_output(g, bytes ? byte_layer(g, s, x) : bf16_layer(g, s, x));
    run_passes(&(pass_context){.module = m, .opt = 2, .fold_work = 1 << 24, .fold_bytes = 1 << 26},
               GOAL_GRAPH, NULL);
    program *p = lower_module(m);
    run_passes(&(pass_context){.program = p, .target = t, .opt = 2}, GOAL_PROGRAM, NULL);
    return p;
}

// ---------------------------------------------------------------- samples
typedef struct timing {
    const program *p;
    jit *code;
    probe_fn *probe;
    double work;          // products of full tiles
    double share[ENOUGH]; // kept ones
    double seconds[ENOUGH];
    int kept, taken;
} timing;

static const kernel *last_kernel(const program *p) {
    const kernel *last = NULL;
    for (int j = 0; j < p->main->steps.n; j++)
        if (p->main->steps.at[j]->kernel) last = p->main->steps.at[j]->kernel;
    return last;
}

// The product; not what changes layouts at the model's boundary, or adds halos.
static const kernel *product_kernel(const program *p) {
    const kernel *found = NULL;
    for (int j = 0; j < p->kernels.n; j++) {
        const kernel *k = p->kernels.at[j];
        bool is = !strncmp(k->name, "MatMul", 6) || !strncmp(k->name, "Conv", 4);
        if (is && !found) found = k;
    }
    return found;
}

static void sample(timing *t, struct interp *in, const kernel *k) {
    for (int j = 0; j < 3; j++) jit_kernel(t->code, in, k);
    double before = probe_seconds(t->probe), start = cpu_seconds();
    jit_kernel(t->code, in, k);
    double own = cpu_seconds() - start, after = probe_seconds(t->probe), peak = (before + after) / 2;
    t->taken++;
    if (fabs(before - after) > 0.03 * peak) return;
    t->seconds[t->kept] = own;
    t->share[t->kept++] = t->work * peak / own;
}

// At the last kernel every buffer has its memory.
static bool time_product(void *user, struct interp *in, const kernel *k) {
    timing *t = user;
    const kernel *product = product_kernel(t->p);
    if (k == last_kernel(t->p) && product)
        while (t->taken < ROUNDS && t->kept < ENOUGH) sample(t, in, product);
    return jit_kernel(t->code, in, k);
}

static int by_value(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void measure(const target *t, diag *d, probe_fn *probe, const shape *s, bool bytes) {
    arena *a = arena_new();
    int64_t positions = s->side ? s->side * s->side : s->m, depth = s->k * (s->side ? s->taps * s->taps : 1);
    timing time = {.p = build(a, d, t, s, bytes), .probe = probe};
    time.work =
        (double)(positions * depth * s->n) / (TILE_ROWS * TILE_ROWS * (bytes ? TILE_BYTES : TILE_BYTES / 2));
    time.code = jit_program(a, d, time.p, t);
    tensor x = {.dtype = bytes ? DT_U8 : DT_F32, .rank = s->side ? 4 : 2, .count = positions * s->k}, y;
    int64_t image[] = {1, s->k, s->side, s->side}, matrix[] = {s->m, s->k};
    memcpy(x.dims, s->side ? image : matrix, (size_t)x.rank * sizeof *x.dims);
    // Aligned: a row of a tile that lies in two lines takes several times as long to load.
    x.data =
        (void *)round_up((int64_t)(intptr_t)arena_alloc(a, (size_t)dtype_size(x.dtype, x.count) + 64), 64);
    for (int64_t j = 0; j < x.count; j++) dtype_store_float(x.dtype, x.data, j, (double)(j % 11), true);
    interp_hooks hooks = {.kernel = time_product, .user = &time};
    if (interp_program_hooked(time.p, a, &x, &y, (interp_limits){0}, NULL, &hooks) != INTERP_OK) exit(3);
    char name[64];
    if (s->side)
        snprintf(name, sizeof name, "%lldx%lld conv, %lld to %lld at %lld^2", (long long)s->taps,
                 (long long)s->taps, (long long)s->k, (long long)s->n, (long long)s->side);
    else snprintf(name, sizeof name, "%lldx%lldx%lld", (long long)s->m, (long long)s->k, (long long)s->n);
    printf("%-28s %-5s", name, bytes ? "int8" : "bf16");
    if (!time.kept) printf("  no sample of %d lies between equal peaks\n", time.taken);
    qsort(time.share, (size_t)time.kept, sizeof(double), by_value);
    qsort(time.seconds, (size_t)time.kept, sizeof(double), by_value);
    if (time.kept)
        printf(" %8.1f us  best %4.1f %%  median %4.1f %%  of %d samples, %d dropped\n",
               1e6 * time.seconds[time.kept / 2], 100 * time.share[time.kept - 1],
               100 * time.share[time.kept / 2], time.taken, time.taken - time.kept);
    arena_destroy(a);
}

static const shape shapes[] = {
    {512, 512, 512, 0, 0},  {128, 768, 768, 0, 0}, {128, 768, 3072, 0, 0}, {128, 3072, 768, 0, 0},
    {196, 1024, 256, 0, 0}, {784, 512, 128, 0, 0}, {49, 2048, 512, 0, 0},  {0, 64, 64, 56, 3},
};

int main(void) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) return 3;
    target_options o = {.cpu = "native", .precision = PRECISION_BF16, .fp = FP_DEFAULT, .threads = 1};
    target *t = target_from_options(a, &d, &o);
    if (!t->amx_int8 || !t->amx_bf16 || !onnxc_rt_tiles()) {
        printf("this machine has no matrix tiles, or the system refuses them\n");
        return 0;
    }
    t->bf16_products = t->half_units = true;
    lmodule *m = lmodule_new(a, "probes", t);
    build_probe(m, t, &d, "probe_bf16", L_TILE_BF16);
    build_probe(m, t, &d, "probe_bytes", L_TILE_US8);
    probe_fn *probe[2];
    loaded *l = load_module(a, &d, m, NULL, 0);
    *(void **)&probe[0] = loaded_symbol(l, "probe_bf16");
    *(void **)&probe[1] = loaded_symbol(l, "probe_bytes");
    for (int j = 0; j < (int)(sizeof shapes / sizeof *shapes); j++)
        for (int bytes = 0; bytes < 2; bytes++) measure(t, &d, probe[bytes], &shapes[j], bytes);
    arena_destroy(a);
    return 0;
}
