// Attention by matrix tiles, and by blocks of AArch64 (--precision=bf16): as interpreted instructions, each access inside
// its buffer and the scratch memory full of NaN, and on this machine if it has tiles. Errors stay within what rounding explains.
#include "codegen/llvm/jit.h"
#include "codegen/target/targets.h"
#include "compiler/driver/pass_run.h"
#include "compiler/import/import.h"
#include "ir/kernel/lower.h"
#include "runtime-lite/core/runtime.h"
#include "test/build_graph.h"
#include "test/unit/loops_machine.h"
#include "test/unit/onnx_build.h"
#include "test/unit/random.h"
#include <math.h>
#include <stdio.h>

typedef struct sizes {
    int64_t heads, queries, keys, depth, width;
    bool causal, open; // open: queries and keys are known at run time only
    bool stored;       // queries, keys and values are results of kernels, stored as bf16
    bool nan;          // a query and, with several heads, a value are NaN
    bool unread;       // keys and values that causality excludes are NaN, so that whoever reads them shows it
    int groups;        // heads of queries for each of keys and values; 0: 1
} sizes;

static tensor random_tensor(arena *a, int64_t heads, int64_t rows, int64_t columns, uint32_t seed) {
    tensor t = {
        .dtype = DT_F32, .rank = 4, .dims = {1, heads, rows, columns}, .count = heads * rows * columns};
    float *data = t.data = arena_alloc(a, (size_t)t.count * sizeof *data + 64);
    for (int64_t j = 0; j < t.count; j++) data[j] = (float)next(&seed) / (1 << 23) - 1;
    return t;
}

static int groups_of(const sizes *s) { return s->groups ? s->groups : 1; }

// Rows that no query sees.
static void forget_rows(tensor *t, const sizes *s, int64_t columns) {
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t j = s->queries * columns; j < s->keys * columns; j++)
            ((float *)t->data)[h * s->keys * columns + j] = NAN;
}

static program *build(arena *a, diag *d, const sizes *s) {
    const char *m = s->open ? "M" : arena_printf(a, "%d", (int)s->queries),
               *n = s->open ? "N" : arena_printf(a, "%d", (int)s->keys);
    int heads = (int)s->heads, depth = (int)s->depth, width = (int)s->width, all = heads * groups_of(s);
    const char *text =
        arena_printf(a,
                     "opset - 23\nin q float 1 %d %s %d\nin k float 1 %d %s %d\nin v float 1 %d %s "
                     "%d\nout y float *\n%s @is_causal=i,%d",
                     all, m, depth, heads, n, depth, heads, n, width,
                     s->stored ? "a = Softmax q\nb = Softmax k\nc = Softmax v\ny = Attention a b c"
                               : "y = Attention q k v",
                     s->causal);
    size_t size;
    const void *bytes = build_model(a, text, &size);
    module *mo = import_onnx_memory(a, d, "attention", NULL, bytes, size, NULL);
    pass_context c = {.module = mo, .opt = 2, .fold_work = 1000000, .fold_bytes = 1 << 20};
    run_passes(&c, GOAL_GRAPH, NULL);
    return lower_module(mo);
}

// The largest error of a score: both factors of each term are off by 2^-8 of themselves.
static double score_error(const sizes *s, const tensor *q, const tensor *k) {
    double most = 0;
    int groups = groups_of(s);
    for (int64_t h = 0; h < s->heads * groups; h++)
        for (int64_t i = 0; i < s->queries; i++)
            for (int64_t j = 0; j < s->keys; j++) {
                const float *x = (const float *)q->data + (h * s->queries + i) * s->depth,
                            *y = (const float *)k->data + (h / groups * s->keys + j) * s->depth;
                double sum = 0;
                for (int64_t d = 0; d < s->depth; d++) sum += fabs((double)x[d] * y[d]);
                most = fmax(most, sum);
            }
    return most * (0x1p-7 + 0x1p-16) / sqrt((double)s->depth);
}

// Weights e^score / sum are off by twice the scores' error, then rounded, as are values, which are below 1.
static void check_near(const tensor *want, const tensor *got, double scores) {
    double most = expm1(2 * scores) + 0x1p-7 + 0x1p-14;
    assert_int_equal(got->count, want->count);
    for (int64_t j = 0; j < want->count; j++) {
        double x = ((const float *)want->data)[j], y = ((const float *)got->data)[j];
        if (isnan(x) ? !isnan(y) : !(fabs(x - y) <= most))
            fail_msg("element %d is %.9g instead of %.9g", (int)j, y, x);
    }
}

static const target_options units[] = {
    {.triple = "x86_64-linux-gnu",
     .cpu = "x86-64-v4",
     .features = "+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16",
     .precision = PRECISION_BF16,
     .fp = FP_DEFAULT},
    {.triple = "aarch64-linux-gnu",
     .cpu = "generic",
     .features = "+bf16",
     .precision = PRECISION_BF16,
     .fp = FP_DEFAULT},
};
enum { UNITS = sizeof units / sizeof *units };

static bool has_blocks(const lblock *b) {
    for (const ins *x = b ? b->first : NULL; x; x = x->next)
        if (x->op == L_BLOCK_BF16 || has_blocks(x->body[0]) || has_blocks(x->body[1])) return true;
    return false;
}

static void check_sizes(const sizes *s, const target_options *unit) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target *t = target_from_options(a, &d, unit);
    t->bf16_products = t->half_units = true;
    tensor in[] = {random_tensor(a, s->heads * groups_of(s), s->queries, s->depth, 1),
                   random_tensor(a, s->heads, s->keys, s->depth, 2),
                   random_tensor(a, s->heads, s->keys, s->width, 3)};
    if (s->nan) ((float *)in[0].data)[s->queries / 2 * s->depth] = NAN;
    if (s->nan && s->heads > 1) ((float *)in[2].data)[(s->heads - 1) * s->keys * s->width] = NAN;
    tensor want = run_program(a, build(a, &d, s), in, &(interp_hooks){0});
    program *p = build(a, &d, s);
    pass_context c = {.program = p, .target = t, .opt = 2};
    run_passes(&c, GOAL_PROGRAM, NULL);
    loops_machine *m = loops_machine_new(a, &d, p, t);
    int tiled = 0, rounded = 0;
    for (int j = 0; j < p->buffers.n; j++)
        rounded += p->buffers.at[j]->role == BUF_TEMP && p->buffers.at[j]->dtype == DT_BF16;
    if (s->stored) assert_true(rounded >= 3);
    for (int j = 0; j < p->kernels.n; j++) tiled += m->code[j]->has_tiles || has_blocks(m->code[j]->f->body);
    assert_int_equal(tiled, t->amx_bf16 || s->depth % 8 == 0);
    double scores = score_error(s, &in[0], &in[1]);
    if (s->unread) forget_rows(&in[1], s, s->depth), forget_rows(&in[2], s, s->width);
    tensor got = run_program(a, p, in, &(interp_hooks){.kernel = loops_machine_kernel, .user = m});
    check_near(&want, &got, scores);
    if (target_runs_here(a, &d, t) && (!t->amx_bf16 || onnxc_rt_tiles())) {
        got = run_program(a, p, in, &(interp_hooks){.kernel = jit_kernel, .user = jit_program(a, &d, p, t)});
        check_near(&want, &got, scores);
    }
    arena_destroy(a);
}

// Blocks of queries, keys and columns that are full and that are not; depths that fill pairs and that do not.
static void attention_is_near(void **state) {
    (void)state;
    static const sizes all[] = {
        {2, 8, 64, 32, 16},   {1, 33, 65, 40, 24},  {2, 64, 130, 64, 64}, {1, 31, 63, 16, 48},
        {1, 66, 129, 20, 17}, {1, 9, 20, 1, 5},     {1, 32, 128, 33, 16}, {1, 16, 3, 31, 33},
        {1, 65, 2, 64, 31},   {1, 34, 300, 16, 16}, {1, 8, 513, 32, 20},  {2, 40, 256, 16, 32},
    };
    for (size_t j = 0; j < sizeof all / sizeof *all; j++)
        for (int form = 0; form < 4; form++) {
            sizes s = all[j];
            s.causal = form % 2, s.open = form / 2, s.nan = form == 1 || form == 2, s.stored = (form + j) % 2;
            if (form / 2 != (int)j % 2 && form % 2 != (int)j / 2 % 2) continue; // three of four
            for (int unit = 0; unit < UNITS; unit++) check_sizes(&s, &units[unit]);
        }
}

// Prompts in a cache of which a part is filled.
static void keys_out_of_range_are_not_read(void **state) {
    (void)state;
    static const sizes all[] = {{2, 40, 300, 32, 32, .groups = 3},
                                {1, 9, 130, 16, 20},
                                {2, 70, 71, 64, 16, .groups = 2},
                                {1, 260, 600, 16, 16}};
    for (size_t j = 0; j < sizeof all / sizeof *all; j++)
        for (int open = 0; open < 2; open++) {
            sizes s = all[j];
            s.causal = s.unread = true, s.open = open;
            for (int unit = 0; unit < UNITS; unit++) check_sizes(&s, &units[unit]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_near),
        cmocka_unit_test(keys_out_of_range_are_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
