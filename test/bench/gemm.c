// Matrix products against the peak of fused multiply-adds measured in the same run, through the whole
// compiler: graph, lowering, layout, schedule, LLVM. Tile kernel and peak run in turns; the best of each
// counts, in CPU time. Exits 1 below 90 % for 512 and 85 % for primes.
#include "codegen/jit.h"
#include "codegen/load.h"
#include "codegen/targets.h"
#include "ir/lower.h"
#include "passes/passes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHAINS = 12, PEAK_STEPS = 20000, ROUNDS = 40 };
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

// y[batch, m, n] = a[batch, m, k] b[batch, k, n], batch 1: no such axis.
typedef struct product {
    const char *what;
    int64_t batch, m, k, n;
    bool dynamic;        // the rows are a symbol
    bool input_b;        // b is no constant
    bool turn_a, turn_b; // stored the other way round and turned by a node
    bool gelu;           // an epilogue of many operations
    double least;        // share of the peak that it must reach, 0: only shown
    bool once;           // bounded by memory: shown in GB/s of b
} product;

static value *turned(graph *g, value *x, int rank) {
    static const loc at = {.node = "Transpose", .op = "Transpose"};
    node *n = node_new(g, NULL, op_find("", "Transpose"), &at, 1, &x);
    int64_t *order = ARENA_ARRAY(g->module->arena, int64_t, rank);
    for (int j = 0; j < rank; j++) order[j] = j;
    order[rank - 1] = rank - 2, order[rank - 2] = rank - 1;
    node_set_attr(n, (attr){.name = "perm", .kind = ATTR_INTS, .n = rank, .ints = order});
    return node_output(n, 0, "turned");
}

// An operand of `rows` x `columns`, stored turned where asked for.
static value *operand(graph *g, const char *name, int64_t batch, dim *rows, dim *columns, bool turn,
                      bool constant) {
    dims *t = g->module->dims;
    arena *a = g->module->arena;
    dim *shape[3] = {dim_const(t, batch), turn ? columns : rows, turn ? rows : columns};
    int rank = batch > 1 ? 3 : 2;
    dim **first = batch > 1 ? shape : shape + 1;
    value *v;
    if (constant) {
        int64_t sizes[3];
        for (int j = 0; j < rank; j++) sizes[j] = dim_value(first[j]);
        struct constant *c = constant_new(a, DT_F32, rank, sizes);
        for (int64_t j = 0; j < c->count; j++)
            dtype_store_float(DT_F32, (void *)c->data, j, (double)(j % 17) / 16 - 0.5, true);
        v = value_constant(g, name, c);
    } else {
        v = graph_add_input(g, name, type_tensor(a, DT_F32, rank, first));
    }
    return turn ? turned(g, v, rank) : v;
}

static program *build_product(arena *a, diag *d, const target *t, const product *p) {
    module *mod = module_new(a, d, "gemm");
    mod->name = "gemm";
    mod->main = graph_new(mod, NULL, "main");
    graph *g = mod->main;
    dim *rows = p->dynamic ? dim_symbol(mod->dims, "M") : dim_const(mod->dims, p->m),
        *depth = dim_const(mod->dims, p->k), *columns = dim_const(mod->dims, p->n);
    value *in[2] = {operand(g, "a", p->batch, rows, depth, p->turn_a, false),
                    operand(g, "b", p->batch, depth, columns, p->turn_b, !p->input_b)};
    static const loc at = {.node = "MatMul", .op = "MatMul"}, at_gelu = {.node = "Gelu", .op = "Gelu"};
    value *y = node_output(node_new(g, NULL, op_find("", "MatMul"), &at, 2, in), 0, "product");
    if (p->gelu) y = node_output(node_new(g, NULL, op_find("", "Gelu"), &at_gelu, 1, &y), 0, "y");
    graph_add_output(g, y);
    pass_context passes = {.module = mod, .opt = 2, .fold_work = 1 << 24, .fold_bytes = 1 << 26};
    run_graph_passes(&passes, NULL, NULL);
    program_context c = {.program = lower_module(mod), .target = t, .opt = 2};
    for (const program_pass *x = program_passes; x->name; x++) x->run(&c);
    return c.program;
}

typedef struct timing {
    const program *p;
    jit *code;
    double best; // seconds for all kernels once
    int repeats;
} timing;

// At the last kernel every buffer has its memory: the whole runs again and again from there.
static bool time_kernels(void *user, struct interp *in, const kernel *k) {
    timing *t = user;
    const region *r = t->p->main;
    const kernel *last = NULL;
    for (int j = 0; j < r->steps.n; j++)
        if (r->steps.at[j]->kernel) last = r->steps.at[j]->kernel;
    for (int i = 0; k == last && i < t->repeats; i++) {
        double start = cpu_seconds();
        for (int j = 0; j < r->steps.n; j++)
            if (r->steps.at[j]->kernel) jit_kernel(t->code, in, r->steps.at[j]->kernel);
        double s = cpu_seconds() - start;
        if (s < t->best) t->best = s;
    }
    return jit_kernel(t->code, in, k);
}

static tensor input(const product *p, int64_t rows, int64_t columns, bool turn) {
    tensor t = {.dtype = DT_F32, .rank = p->batch > 1 ? 3 : 2, .count = p->batch * rows * columns};
    int64_t sizes[3] = {p->batch, turn ? columns : rows, turn ? rows : columns};
    for (int j = 0; j < t.rank; j++) t.dims[j] = sizes[j + 3 - t.rank];
    float *data = calloc((size_t)t.count, sizeof *data);
    for (int64_t j = 0; j < t.count; j++) data[j] = (float)(j % 13) / 16 - 0.375f;
    t.data = data;
    return t;
}

static bool measure(const target *t, diag *d, peak_fn *peak, const product *p) {
    arena *a = arena_new();
    timing time = {.p = build_product(a, d, t, p), .best = INFINITY};
    time.code = jit_program(a, d, time.p, t);
    tensor in[2] = {input(p, p->m, p->k, p->turn_a), input(p, p->k, p->n, p->turn_b)}, out;
    double work = 2.0 * (double)(p->batch * p->m * p->k * p->n), best_peak = 0;
    time.repeats = 1 + (int)(1e9 / ROUNDS / (work + 1e5));
    interp_hooks hooks = {.kernel = time_kernels, .user = &time};
    float scratch[CHAINS * 16] = {0};
    for (int r = 0; r < ROUNDS; r++) {
        double start = cpu_seconds();
        peak(scratch, PEAK_STEPS);
        best_peak =
            fmax(best_peak, 2.0 * CHAINS * target_lanes(t, 32) * PEAK_STEPS / (cpu_seconds() - start));
        arena *run = arena_new();
        if (interp_program_hooked(time.p, run, in, &out, (interp_limits){0}, NULL, &hooks) != INTERP_OK)
            exit(3);
        arena_destroy(run);
    }
    free((void *)in[0].data), free((void *)in[1].data);
    double share = work / time.best / best_peak;
    char name[64];
    snprintf(name, sizeof name, "%lldx%lldx%lldx%lld", (long long)p->batch, (long long)p->m, (long long)p->k,
             (long long)p->n);
    printf("%-11s %-18s %-24s %8.1f us  %6.1f of %6.1f GFLOP/s  %5.1f %%", t->cpu, name, p->what,
           1e6 * time.best, 1e-9 * work / time.best, 1e-9 * best_peak, 100 * share);
    if (p->once) printf("  %5.1f GB/s", 4e-9 * (double)(p->batch * p->k * p->n) / time.best);
    printf("%s\n", share < p->least ? "  too slow" : "");
    arena_destroy(a);
    return share >= p->least;
}

static const product products[] = {
    {.what = "", .batch = 1, .m = 512, .k = 512, .n = 512, .least = 0.9},
    {.what = "M dynamic", .batch = 1, .m = 512, .k = 512, .n = 512, .dynamic = true, .least = 0.9},
    {.what = "", .batch = 1, .m = 509, .k = 503, .n = 499, .least = 0.85},
    {.what = "M dynamic", .batch = 1, .m = 509, .k = 503, .n = 499, .dynamic = true, .least = 0.85},
    {.what = "", .batch = 1, .m = 1024, .k = 1024, .n = 1024},
    {.what = "", .batch = 1, .m = 2048, .k = 512, .n = 768},
    {.what = "", .batch = 1, .m = 128, .k = 768, .n = 3072},
    {.what = "erf-GELU", .batch = 1, .m = 128, .k = 768, .n = 3072, .gelu = true},
    {.what = "", .batch = 1, .m = 128, .k = 3072, .n = 768},
    {.what = "", .batch = 1, .m = 128, .k = 768, .n = 768},
    {.what = "A turned", .batch = 1, .m = 512, .k = 512, .n = 512, .turn_a = true},
    {.what = "B turned", .batch = 1, .m = 512, .k = 512, .n = 512, .turn_b = true},
    {.what = "B an input", .batch = 1, .m = 512, .k = 512, .n = 512, .input_b = true},
    {.what = "B a turned input", .batch = 1, .m = 512, .k = 512, .n = 512, .input_b = true, .turn_b = true},
    {.what = "inputs: scores", .batch = 12, .m = 128, .k = 64, .n = 128, .input_b = true, .turn_b = true},
    {.what = "inputs: values", .batch = 12, .m = 128, .k = 128, .n = 64, .input_b = true},
    {.what = "small", .batch = 64, .m = 16, .k = 16, .n = 16, .input_b = true},
    {.what = "small", .batch = 64, .m = 7, .k = 9, .n = 11, .input_b = true},
    {.what = "M dynamic", .batch = 1, .m = 5, .k = 512, .n = 512, .dynamic = true},
    {.what = "one row", .batch = 1, .m = 1, .k = 512, .n = 512, .once = true},
    {.what = "one row", .batch = 1, .m = 1, .k = 1024, .n = 8192, .once = true},
    {.what = "one row, M dynamic", .batch = 1, .m = 1, .k = 1024, .n = 8192, .dynamic = true, .once = true},
    {.what = "one row, B an input", .batch = 1, .m = 1, .k = 1024, .n = 8192, .input_b = true, .once = true},
    {.what = "one row, B turned input",
     .batch = 1,
     .m = 1,
     .k = 1024,
     .n = 8192,
     .input_b = true,
     .turn_b = true,
     .once = true},
    {.what = "one column, A in", .batch = 1, .m = 8192, .k = 1024, .n = 1, .once = true},
};

// The bench on one CPU's code; true when every product reaches its share.
static bool measure_cpu(diag *d, const char *cpu, int first, int last) {
    arena *a = arena_new();
    target *t = target_from_options(a, d, &(target_options){.cpu = cpu, .fp = FP_DEFAULT, .threads = 1});
    bool ok = true;
    if (target_runs_here(a, d, t) && t->vector_bits) {
        peak_fn *peak = build_peak(a, d, t);
        for (int j = first; j < last; j++) ok &= measure(t, d, peak, &products[j]);
    }
    arena_destroy(a);
    return ok;
}

// Arguments: the first and last line of the table (from 0).
int main(int n, char **args) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show};
    jmp_buf jump;
    int all = (int)(sizeof products / sizeof *products), first = n > 1 ? atoi(args[1]) : 0,
        last = n > 2   ? atoi(args[2]) + 1
               : n > 1 ? first + 1
                       : all;
    if (last > all) last = all;
    if (!DIAG_TRY(&d, jump)) return 3;
    bool native = measure_cpu(&d, "native", first, last), v3 = measure_cpu(&d, "x86-64-v3", first, last);
    arena_destroy(a);
    return native && v3 ? 0 : 1;
}
