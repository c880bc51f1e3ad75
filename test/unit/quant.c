// Quantised models: that integer contractions give the bits of the unfused model as interpreted, for every
// x86 level that this machine has, for matrix tiles and for AArch64 on every machine, and for edges of shapes, padding and zero
// points; that the inner loops for a Cortex-M4 hold dot products and no floats; that packed weights stay packed.
#include "codegen/llvm/jit.h"
#include "codegen/target/targets.h"
#include "compiler/driver/pass_run.h"
#include "ir/kernel/layout.h"
#include "ir/kernel/lower.h"
#include "runtime-lite/core/runtime.h"
#include "test/build_graph.h"
#include "test/unit/loops_machine.h"
#include "test/unit/random.h"
#include <stddef.h>
#include <stdio.h>

// ---------------------------------------------------------------- models
// RESIDUAL: the convolution's quantised result and its input, dequantised, are added and quantised.
typedef enum kind { CONV_INTEGERS, CONV_QDQ, RESIDUAL, MATMUL_INTEGERS, MATMUL_QDQ } kind;
typedef struct quant_case {
    kind kind;
    dtype x, w;
    int64_t zero_x, zero_w;
    bool channels; // a scale for each output channel
    int64_t batch, in, height, width, out, tall, wide, stride, dilation, group, pads[4];
    bool stored;    // the input is quantised already
    int64_t layers; // products: of matrices, each with separate weights; 0: one
    bool open;      // the number of rows, or of images, is known at run time only
} quant_case;

static constant *random_bytes(arena *a, dtype t, int rank, const int64_t *dims, uint32_t seed) {
    constant *c = constant_new(a, t, rank, dims);
    for (int64_t j = 0; j < dtype_size(t, c->count); j++) ((uint8_t *)c->data)[j] = (uint8_t)next(&seed);
    return c;
}

static constant *scales(arena *a, int64_t n, double least, uint32_t seed) {
    constant *c = constant_new(a, DT_F32, n > 0, &n);
    for (int64_t j = 0; j < c->count; j++)
        ((float *)c->data)[j] = (float)(least * (1 + next(&seed) % 997 / 500.0));
    return c;
}

static bool is_conv(const quant_case *c) { return c->kind <= RESIDUAL; }

static void set_window(node *n, const quant_case *c) {
    set_ints(n, "pads", 4, c->pads[0], c->pads[1], c->pads[2], c->pads[3]);
    set_ints(n, "strides", 2, c->stride, c->stride, 0, 0);
    set_ints(n, "dilations", 2, c->dilation, c->dilation, 0, 0);
    set_int(n, "group", c->group);
}

static value *weights(graph *g, const quant_case *c) {
    int64_t conv[4] = {c->out, c->in / (c->group ? c->group : 1), c->tall, c->wide},
            product[3] = {c->layers, c->in, c->out};
    int one = !c->layers; // axis of the product that is left out
    return value_constant(
        g, "w",
        random_bytes(g->module->arena, c->w, is_conv(c) ? 4 : 3 - one, is_conv(c) ? conv : product + one, 3));
}

// x quantised -> integer operator
static value *integer_model(graph *g, const quant_case *c, value *xq, value *scale_x, value *zero_x) {
    value *w = weights(g, c), *zero_w = scalar(g, "zw", c->w, (double)c->zero_w);
    if (!is_conv(c)) return apply(g, "MatMulInteger", 4, (value *[]){xq, w, zero_x, zero_w}, "y");
    arena *a = g->module->arena;
    value *scale_w = value_constant(g, "sw", scales(a, c->channels ? c->out : 0, 0.002, 4));
    if (c->channels) { // zero points come with the scales
        constant *z = constant_new(a, c->w, 1, &c->out);
        for (int64_t j = 0; j < c->out; j++) dtype_store_int(c->w, (void *)z->data, j, c->zero_w);
        zero_w = value_constant(g, "zws", z);
    }
    value *in[] = {
        xq, scale_x, zero_x, w, scale_w, zero_w, scalar(g, "sy", DT_F32, 0.0913), scalar(g, "zy", c->x, 5)};
    value *y = apply(g, "QLinearConv", 8, in, "y");
    set_window(y->def, c);
    return y;
}

// x quantised -> DequantizeLinear -> Conv or MatMul -> bias, Relu -> QuantizeLinear
static value *qdq_model(graph *g, const quant_case *c, value *xq, value *scale_x, value *zero_x) {
    arena *a = g->module->arena;
    value *x = apply(g, "DequantizeLinear", 3, (value *[]){xq, scale_x, zero_x}, "xf");
    value *scale_w = value_constant(g, "sw", scales(a, c->channels ? c->out : 0, 0.002, 4));
    value *w = apply(g, "DequantizeLinear", 2, (value *[]){weights(g, c), scale_w}, "wf");
    set_int(w->def, "axis", is_conv(c) ? 0 : 1);
    value *bias = value_constant(g, "b", scales(a, c->out, 0.1, 5)), *y;
    if (is_conv(c)) {
        y = apply(g, "Conv", 3, (value *[]){x, w, bias}, "c");
        set_window(y->def, c);
    } else {
        y = apply(g, "Add", 2, (value *[]){apply(g, "MatMul", 2, (value *[]){x, w}, "m"), bias}, "c");
    }
    if (c->kind == RESIDUAL) {
        value *form[] = {y, scalar(g, "sc", DT_F32, 0.0531),
                         scalar(g, "zc", c->x, 1 + (double)c->zero_x / 2)};
        form[0] = apply(g, "QuantizeLinear", 3, form, "cq");
        y = apply(g, "Add", 2, (value *[]){apply(g, "DequantizeLinear", 3, form, "cf"), x}, "sum");
    }
    y = apply(g, "Relu", 1, &y, "r");
    return apply(g, "QuantizeLinear", 3,
                 (value *[]){y, scalar(g, "sy", DT_F32, 0.0913), scalar(g, "zy", c->x, 3)}, "y");
}

static program *lowered(module *m) {
    pass_context p = {.module = m, .opt = 2, .fold_work = 1000000, .fold_bytes = 1 << 20};
    run_passes(&p, GOAL_GRAPH, NULL);
    return lower_module(m);
}

// The rank of the input.
static int input_dims(const quant_case *c, int64_t dims[4]) {
    const int64_t conv[] = {c->batch, c->in, c->height, c->width}, product[] = {c->layers, c->batch, c->in};
    int one = !c->layers, rank = is_conv(c) ? 4 : 3 - one;
    memcpy(dims, is_conv(c) ? conv : product + one, (size_t)rank * sizeof *dims);
    return rank;
}

static program *build(arena *a, diag *d, const quant_case *c) {
    module *m = module_new(a, d, "quant.onnx");
    graph *g = graph_new(m, NULL, "quant");
    m->main = g;
    m->name = "quant";
    int64_t sizes[4];
    int rank = input_dims(c, sizes);
    dim *size[4];
    for (int j = 0; j < rank; j++) size[j] = dim_const(m->dims, sizes[j]);
    if (c->open) size[c->layers > 0] = dim_symbol(m->dims, "M");
    value *x = graph_add_input(g, "x", type_tensor(a, c->stored ? c->x : DT_F32, rank, size));
    value *scale = scalar(g, "sx", DT_F32, 0.0371), *zero = scalar(g, "zx", c->x, (double)c->zero_x);
    value *xq = c->stored ? x : apply(g, "QuantizeLinear", 3, (value *[]){x, scale, zero}, "xq");
    bool integers = c->kind == CONV_INTEGERS || c->kind == MATMUL_INTEGERS;
    graph_add_output(g, integers ? integer_model(g, c, xq, scale, zero) : qdq_model(g, c, xq, scale, zero));
    return lowered(m);
}

static void run_program_passes(program *p, const target *t) {
    pass_context c = {.program = p, .target = t, .opt = 2};
    run_passes(&c, GOAL_PROGRAM, NULL);
}

static tensor input_of(arena *a, const quant_case *c) {
    tensor x = {.dtype = c->stored ? c->x : DT_F32, .count = 1};
    x.rank = input_dims(c, x.dims);
    for (int j = 0; j < x.rank; j++) x.count *= x.dims[j];
    x.data = arena_alloc(a, (size_t)dtype_size(x.dtype, x.count) + 16);
    uint32_t seed = 7;
    for (int64_t j = 0; j < x.count; j++) {
        if (c->stored) ((uint8_t *)x.data)[j] = (uint8_t)next(&seed);
        else ((float *)x.data)[j] = ((float)(next(&seed) & 0xffff) - 32768) / 6000;
    }
    return x;
}

// ---------------------------------------------------------------- the same bits
static tensor run(arena *a, program *p, const tensor *x, const interp_hooks *hooks) {
    tensor y;
    const char *message = NULL;
    assert_int_equal(interp_program_hooked(p, a, x, &y, (interp_limits){0}, &message, hooks), INTERP_OK);
    return y;
}

static tensor run_compiled(arena *a, diag *d, program *p, const tensor *x, const target *t) {
    interp_hooks hooks = {.kernel = jit_kernel, .user = jit_program(a, d, p, t)};
    return run(a, p, x, &hooks);
}

static void check_same(const tensor *want, const tensor *got) {
    assert_int_equal(got->count, want->count);
    assert_memory_equal(got->data, want->data, (size_t)dtype_size(want->dtype, want->count));
}

static bool can_run(arena *a, diag *d, const target *t) {
    return target_runs_here(a, d, t) && (!t->amx_int8 || onnxc_rt_tiles());
}

static void check_with(const quant_case *c, const char *cpu, const char *features, fp_mode fp) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target *t = target_from_options(a, &d, &(target_options){.cpu = cpu, .features = features, .fp = fp});
    if (can_run(a, &d, t)) {
        tensor x = input_of(a, c), want = run(a, build(a, &d, c), &x, &(interp_hooks){0});
        program *p = build(a, &d, c);
        run_program_passes(p, t);
        tensor got = run_compiled(a, &d, p, &x, t);
        check_same(&want, &got);
    }
    arena_destroy(a);
}

static void check_case(const quant_case *c, const char *cpu, fp_mode fp) { check_with(c, cpu, NULL, fp); }
// How instructions multiply bytes, and how constants are packed for the best CPU of an object.
static const struct arm_level {
    const char *features;
    bool wide_groups;
} arm_levels[] = {{"", false}, {"", true}, {"+dotprod", false}, {"+dotprod", true}, {"+dotprod,+i8mm", true}};
enum { ARM_LEVELS = sizeof arm_levels / sizeof *arm_levels };

// AArch64, by the interpreter of loops.
static void check_arm(const quant_case *c, int level) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target *t = target_from_options(a, &d,
                                    &(target_options){.triple = "aarch64-linux-gnu",
                                                      .cpu = "generic",
                                                      .features = arm_levels[level].features,
                                                      .fp = FP_DEFAULT});
    assert_int_equal(t->wide_groups, t->i8mm);
    t->wide_groups = arm_levels[level].wide_groups;
    tensor x = input_of(a, c), want = run(a, build(a, &d, c), &x, &(interp_hooks){0});
    program *p = build(a, &d, c);
    run_program_passes(p, t);
    loops_machine *m = loops_machine_new(a, &d, p, t);
    tensor got = run(a, p, &x, &(interp_hooks){.kernel = loops_machine_kernel, .user = m});
    check_same(&want, &got);
    arena_destroy(a);
}

// By the interpreter of loops, and by this machine if it has tiles. Whether a kernel uses tiles.
static bool check_tiles(const quant_case *c, fp_mode fp) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target *t = target_from_options(a, &d,
                                    &(target_options){.triple = "x86_64-linux-gnu",
                                                      .cpu = "x86-64-v4",
                                                      .features = "+avx512vnni,+amx-tile,+amx-int8",
                                                      .fp = fp});
    tensor x = input_of(a, c), want = run(a, build(a, &d, c), &x, &(interp_hooks){0});
    program *p = build(a, &d, c);
    run_program_passes(p, t);
    loops_machine *m = loops_machine_new(a, &d, p, t);
    tensor got = run(a, p, &x, &(interp_hooks){.kernel = loops_machine_kernel, .user = m});
    check_same(&want, &got);
    if (can_run(a, &d, t)) {
        got = run_compiled(a, &d, p, &x, t);
        check_same(&want, &got);
    }
    bool uses = loops_machine_count(m, p, "matrix tiles") > 0;
    arena_destroy(a);
    return uses;
}

static void check_levels(const quant_case *c) {
    static const char *const levels[] = {"x86-64", "x86-64-v3", "native"};
    for (size_t j = 0; j < sizeof levels / sizeof *levels; j++) check_case(c, levels[j], FP_DEFAULT);
    check_with(c, "x86-64-v3", "+avxvnni", FP_DEFAULT);
    check_tiles(c, FP_DEFAULT);
    for (int level = 0; level < ARM_LEVELS; level++) check_arm(c, level);
}

static const quant_case convs[] = {
    // one channel: fours along the window's row
    {CONV_QDQ, DT_I8, DT_I8, -128, 0, true, 1, 1, 49, 10, 64, 10, 4, 2, 1, 1, {4, 1, 5, 1}, true},
    {CONV_QDQ, DT_U8, DT_I8, 255, 0, false, 1, 3, 11, 10, 5, 3, 3, 2, 1, 1, {1, 1, 1, 1}, false},
    {CONV_QDQ, DT_I8, DT_I8, 127, 0, true, 2, 16, 7, 7, 24, 3, 3, 1, 1, 1, {1, 1, 1, 1}, false},
    {CONV_QDQ, DT_U8, DT_I8, 0, 0, true, 1, 8, 8, 8, 16, 1, 1, 1, 1, 1, {0}, true},
    {CONV_QDQ, DT_I8, DT_I8, 3, 0, true, 1, 6, 9, 9, 6, 3, 3, 1, 1, 6, {1, 0, 2, 1}, false},
    {CONV_QDQ, DT_U8, DT_I8, 100, 0, true, 1, 8, 9, 9, 12, 3, 3, 1, 1, 2, {1, 1, 1, 1}, false},
    {CONV_QDQ, DT_U8, DT_U8, 77, 0, false, 1, 5, 9, 12, 33, 2, 4, 1, 2, 1, {0, 1, 1, 2}, false},
    {CONV_INTEGERS, DT_U8, DT_I8, 255, -128, false, 1, 5, 9, 12, 33, 2, 4, 1, 2, 1, {0, 1, 1, 2}, true},
    {CONV_INTEGERS, DT_U8, DT_U8, 77, 200, true, 1, 8, 9, 9, 12, 3, 3, 1, 1, 1, {1, 1, 1, 1}, false},
    {CONV_INTEGERS, DT_I8, DT_I8, -128, 127, false, 1, 40, 12, 1, 20, 3, 1, 1, 1, 1, {0}, true},
};

static void convolutions_keep_every_bit(void **state) {
    (void)state;
    for (size_t j = 0; j < sizeof convs / sizeof *convs; j++) check_levels(&convs[j]);
}

static void products_keep_every_bit(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},    {3, 5, 7},    {7, 64, 33},
                                        {13, 31, 17}, {1, 130, 48}, {5, 3, 100}};
    static const struct {
        dtype x, w;
        int64_t zero_x, zero_w;
    } types[] = {{DT_U8, DT_I8, 255, 0},
                 {DT_U8, DT_I8, 0, 127},
                 {DT_I8, DT_I8, -128, -128},
                 {DT_U8, DT_U8, 128, 255},
                 {DT_I8, DT_U8, 127, 7}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            quant_case c = {.kind = MATMUL_INTEGERS,
                            .x = types[t].x,
                            .w = types[t].w,
                            .zero_x = types[t].zero_x,
                            .zero_w = types[t].zero_w,
                            .batch = shapes[s][0],
                            .in = shapes[s][1],
                            .out = shapes[s][2],
                            .stored = (s + t) % 2};
            check_case(&c, "native", FP_DEFAULT);
            check_case(&c, "x86-64-v3", t ? FP_DEFAULT : FP_STRICT);
            check_tiles(&c, t ? FP_DEFAULT : FP_STRICT);
            check_arm(&c, (int)(s + t) % ARM_LEVELS);
            check_arm(&c, ARM_LEVELS - 1);
        }
}

// Blocks of rows and columns in any number, tails of K, and rows known late, a single one too.
static void blocks_keep_every_bit(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{2, 8, 2},   {3, 16, 5},  {4, 24, 16},  {5, 40, 17}, {12, 9, 33},
                                        {13, 21, 4}, {6, 130, 8}, {31, 70, 20}, {1, 33, 48}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int open = 0; open < 2; open++) {
            quant_case c = {.kind = s % 2 ? MATMUL_INTEGERS : MATMUL_QDQ,
                            .x = s % 3 ? DT_U8 : DT_I8,
                            .w = s % 4 == 1 ? DT_U8 : DT_I8,
                            .zero_x = s % 3 ? 131 : -5,
                            .channels = true,
                            .batch = shapes[s][0],
                            .in = shapes[s][1],
                            .out = shapes[s][2],
                            .stored = s % 5 < 3,
                            .open = open};
            check_arm(&c, ARM_LEVELS - 1);
            check_arm(&c, (int)s % (ARM_LEVELS - 1));
        }
}

static void product_chains_keep_every_bit(void **state) {
    (void)state;
    for (int channels = 0; channels < 2; channels++) {
        quant_case c = {.kind = MATMUL_QDQ,
                        .x = channels ? DT_U8 : DT_I8,
                        .w = DT_I8,
                        .zero_x = channels ? 255 : -128,
                        .channels = channels,
                        .batch = 7,
                        .in = 66,
                        .out = 33};
        check_levels(&c);
        check_case(&c, "native", FP_STRICT);
    }
}

// ---------------------------------------------------------------- matrix tiles
static void products_fill_tiles(void **state) {
    (void)state;
    static const struct {
        int64_t rows, in, out;
        bool tiles;
    } all[] = {{1, 64, 48, false},  {2, 64, 1, false},    {2, 64, 15, true},   {15, 64, 15, true},
               {16, 64, 16, true},  {17, 64, 17, true},   {31, 64, 31, true},  {32, 64, 33, true},
               {33, 128, 48, true}, {49, 192, 33, true},  {100, 64, 48, true}, {100, 640, 32, true},
               {17, 80, 17, true},  {33, 144, 33, true},  {49, 96, 16, true},  {64, 4, 20, true},
               {33, 28, 48, true},  {20, 60, 33, true},   {17, 36, 17, true},  {17, 3, 17, false},
               {33, 66, 33, false}, {33, 100, 31, false}, {130, 256, 80, true}};
    for (size_t j = 0; j < sizeof all / sizeof *all; j++)
        for (int integers = 0; integers < 2; integers++) {
            quant_case c = {.kind = integers ? MATMUL_INTEGERS : MATMUL_QDQ,
                            .x = j % 2 ? DT_U8 : DT_I8,
                            .w = DT_I8,
                            .zero_x = j % 2 ? 128 : 0,
                            .channels = j % 3 == 0,
                            .batch = all[j].rows,
                            .in = all[j].in,
                            .out = all[j].out,
                            .stored = true};
            if (check_tiles(&c, FP_DEFAULT) != all[j].tiles)
                fail_msg("%d x %d x %d", (int)all[j].rows, (int)all[j].in, (int)all[j].out);
        }
}

// Each pair of element types has an instruction of its own.
static void tiles_have_signs(void **state) {
    (void)state;
    for (int x = 0; x < 2; x++)
        for (int w = 0; w < 2; w++) {
            quant_case c = {.kind = MATMUL_INTEGERS,
                            .x = x ? DT_U8 : DT_I8,
                            .w = w ? DT_U8 : DT_I8,
                            .batch = 35,
                            .in = 128,
                            .out = 35,
                            .stored = true};
            assert_true(check_tiles(&c, FP_DEFAULT));
        }
}

static void rows_known_late_fill_tiles(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 2, 16, 17, 31, 32, 40, 65};
    for (size_t j = 0; j < sizeof rows / sizeof *rows; j++)
        for (int integers = 0; integers < 2; integers++) {
            quant_case c = {.kind = integers ? MATMUL_INTEGERS : MATMUL_QDQ,
                            .x = DT_U8,
                            .w = DT_I8,
                            .zero_x = 7,
                            .channels = true,
                            .batch = rows[j],
                            .in = j % 2 ? 192 : 64,
                            .out = 49,
                            .stored = true,
                            .open = true};
            assert_true(check_tiles(&c, FP_DEFAULT));
        }
}

static void batches_fill_tiles(void **state) {
    (void)state;
    static const int64_t rows[] = {2, 16, 17, 40};
    for (size_t j = 0; j < sizeof rows / sizeof *rows; j++)
        for (int open = 0; open < 2; open++) {
            quant_case c = {.kind = MATMUL_INTEGERS,
                            .x = DT_U8,
                            .w = DT_I8,
                            .batch = rows[j],
                            .in = 128,
                            .out = 33,
                            .stored = true,
                            .layers = 3,
                            .open = open};
            assert_true(check_tiles(&c, FP_DEFAULT));
        }
}

// Rows of pixels that fill no tile, one, and several; two short rows at a time and one more.
static const quant_case tiled_convs[] = {
    {CONV_QDQ, DT_U8, DT_I8, 0, 0, true, 1, 64, 7, 7, 48, 3, 3, 1, 1, 1, {1, 1, 1, 1}, true},
    {CONV_QDQ, DT_I8, DT_I8, 0, 0, true, 1, 64, 6, 14, 33, 3, 3, 1, 1, 1, {1, 1, 1, 1}, true},
    {CONV_QDQ, DT_U8, DT_I8, 128, 0, false, 2, 32, 5, 20, 17, 3, 3, 1, 1, 1, {1, 1, 1, 1}, true},
    {CONV_QDQ, DT_I8, DT_I8, 5, 0, true, 1, 64, 3, 56, 16, 3, 3, 1, 1, 1, {1, 1, 1, 1}, true},
    {CONV_QDQ, DT_U8, DT_I8, 9, 0, true, 1, 64, 13, 13, 40, 3, 3, 2, 1, 1, {1, 1, 1, 1}, true},
    {CONV_QDQ, DT_U8, DT_I8, 0, 0, true, 1, 128, 14, 14, 31, 1, 1, 1, 1, 1, {0}, true},
    {CONV_QDQ, DT_U8, DT_I8, 0, 0, true, 1, 64, 14, 14, 31, 1, 1, 2, 1, 1, {0}, true},
    {CONV_QDQ, DT_I8, DT_I8, -3, 0, true, 1, 80, 9, 16, 20, 3, 3, 1, 1, 1, {1, 1, 1, 1}, true},
    {CONV_QDQ, DT_I8, DT_I8, 0, 0, true, 2, 64, 12, 12, 33, 3, 3, 1, 2, 1, {2, 2, 2, 2}, true},
    {CONV_INTEGERS, DT_U8, DT_I8, 0, 0, false, 3, 64, 1, 9, 48, 1, 3, 1, 1, 1, {0, 1, 0, 1}, true},
    {CONV_QDQ, DT_U8, DT_I8, 0, 0, true, 1, 128, 8, 8, 64, 3, 3, 1, 1, 2, {1, 1, 1, 1}, true},
    // few channels, padded to groups
    {CONV_QDQ, DT_U8, DT_I8, 123, 0, true, 1, 3, 32, 33, 64, 7, 7, 2, 1, 1, {3, 3, 3, 3}, false},
    {CONV_QDQ, DT_I8, DT_I8, -5, 0, true, 2, 2, 9, 18, 33, 3, 3, 1, 1, 1, {1, 0, 1, 2}, false},
    {CONV_QDQ, DT_U8, DT_I8, 0, 0, false, 1, 6, 8, 20, 17, 3, 5, 1, 1, 1, {1, 2, 1, 2}, true},
    {CONV_INTEGERS, DT_U8, DT_I8, 9, 3, false, 1, 3, 8, 20, 32, 1, 4, 1, 2, 1, {0, 1, 0, 1}, true},
    // sums with a residual, in blocks with an odd number of rows, several steps and one
    {RESIDUAL, DT_U8, DT_I8, 128, 0, true, 1, 64, 7, 7, 64, 3, 3, 1, 1, 1, {1, 1, 1, 1}, true},
    {RESIDUAL, DT_U8, DT_I8, 3, 0, true, 1, 64, 14, 14, 64, 1, 1, 1, 1, 1, {0}, true},
    {RESIDUAL, DT_I8, DT_I8, -7, 0, true, 2, 64, 5, 13, 64, 1, 1, 1, 1, 1, {0}, true},
    // B in the L1 cache: columns inside of rows
    {CONV_QDQ, DT_U8, DT_I8, 0, 0, true, 1, 64, 14, 14, 128, 1, 1, 1, 1, 1, {0}, true},
    {CONV_QDQ, DT_I8, DT_I8, 0, 0, true, 1, 32, 9, 11, 96, 1, 1, 1, 1, 1, {0}, true},
    // no rows, and weights larger than a cache
    {CONV_INTEGERS, DT_U8, DT_I8, 0, 0, false, 1, 128, 0, 8, 1024, 3, 3, 1, 1, 1, {1, 1, 1, 1}, true},
};

static void convolutions_fill_tiles(void **state) {
    (void)state;
    for (size_t j = 0; j < sizeof tiled_convs / sizeof *tiled_convs; j++)
        for (int open = 0; open < 2; open++) {
            quant_case c = tiled_convs[j];
            c.open = open;
            if (!check_tiles(&c, FP_DEFAULT)) fail_msg("convolution %d, open %d", (int)j, open);
        }
}

// ---------------------------------------------------------------- loops
typedef struct loop_look {
    int dots, floats; // in innermost loops that hold dot products
} loop_look;

static bool is_loop(const ins *x) { return x->op == L_FOR || x->op == L_LOOP; }

// Counts what is directly or deeper in the block; *loops: whether there is a loop in it.
static void count_ins(const lblock *b, loop_look *l, bool *loops) {
    for (const ins *x = b->first; x; x = x->next) {
        if (is_loop(x)) *loops = true;
        if (lop_class(x->op) == LC_DOT) l->dots++;
        if (lkind_is_float((lkind)x->type.kind)) l->floats++;
        for (int j = 0; j < 2; j++)
            if (x->body[j]) count_ins(x->body[j], l, loops);
    }
}

static void look_at_loops(const lblock *b, loop_look *all) {
    for (const ins *x = b->first; x; x = x->next) {
        for (int j = 0; j < 2; j++) {
            if (!x->body[j]) continue;
            loop_look here = {0};
            bool loops = false;
            count_ins(x->body[j], &here, &loops);
            if (is_loop(x) && !loops && here.dots) all->dots += here.dots, all->floats += here.floats;
            look_at_loops(x->body[j], all);
        }
    }
}

static void inner_loops_have_no_floats(void **state) {
    (void)state;
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target *t = target_from_options(
        a, &d, &(target_options){.triple = "thumbv7em-none-eabihf", .cpu = "cortex-m4", .fp = FP_DEFAULT});
    for (int j = 0; j < 4; j++) {
        program *p = build(a, &d, &convs[j]);
        run_program_passes(p, t);
        lmodule *m = lmodule_new(a, "m4", t);
        loop_look all = {0};
        for (int i = 0; i < p->kernels.n; i++)
            look_at_loops(schedule_kernel(m, p->kernels.at[i], t, &d)->f->body, &all);
        assert_true(all.dots > 0);
        assert_int_equal(all.floats, 0);
    }
    arena_destroy(a);
}

// A window for each channel: bytes are multiplied and added by one instruction where that takes u8 and s8.
static void windows_add_products_of_bytes(void **state) {
    (void)state;
    static const quant_case c = {CONV_QDQ, DT_U8, DT_I8, 7, 0, true, 1,  48,           9,
                                 11,       48,    3,     3, 2, 1,    48, {1, 1, 1, 1}, true};
    check_levels(&c);
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target *t = target_from_options(
        a, &d,
        &(target_options){
            .triple = "x86_64-linux-gnu", .cpu = "x86-64-v4", .features = "+avx512vnni", .fp = FP_DEFAULT});
    program *p = build(a, &d, &c);
    run_program_passes(p, t);
    lmodule *m = lmodule_new(a, "windows", t);
    loop_look all = {0};
    for (int i = 0; i < p->kernels.n; i++)
        look_at_loops(schedule_kernel(m, p->kernels.at[i], t, &d)->f->body, &all);
    assert_true(all.dots >= 9);
    arena_destroy(a);
}

// ---------------------------------------------------------------- weights
// x float[M, K] times weights of type t in blocks of 32 along K.
static program *weights_model(arena *a, diag *d, dtype t, int64_t m_size, int64_t k, int64_t n) {
    module *m = module_new(a, d, "weights.onnx");
    graph *g = graph_new(m, NULL, "weights");
    m->main = g;
    m->name = "weights";
    dim *size[2] = {dim_const(m->dims, m_size), dim_const(m->dims, k)};
    int64_t w[2] = {k, n}, s[2] = {k / 32, n};
    constant *scale = constant_new(a, DT_F32, 2, s);
    uint32_t seed = 9;
    for (int64_t j = 0; j < scale->count; j++) ((float *)scale->data)[j] = (float)(1 + next(&seed) % 7) / 64;
    value *in[3] = {value_constant(g, "w", random_bytes(a, t, 2, w, 1)), value_constant(g, "s", scale),
                    value_constant(g, "z", random_bytes(a, t, 2, s, 2))};
    value *x = graph_add_input(g, "x", type_tensor(a, DT_F32, 2, size)),
          *f = apply(g, "DequantizeLinear", 3, in, "wf");
    set_int(f->def, "axis", 0);
    set_int(f->def, "block_size", 32);
    graph_add_output(g, apply(g, "MatMul", 2, (value *[]){x, f}, "y"));
    return lowered(m);
}

static void check_packed(const program *p, dtype t) {
    for (int j = 0; j < p->kernels.n; j++) {
        buffer **b;
        int n = kernel_buffers(p->kernels.at[j], &b);
        for (int i = 0; i < n; i++) {
            assert_int_not_equal(b[i]->role, BUF_TEMP); // nothing holds expanded weights
            if (b[i]->role == BUF_CONST && b[i]->dims[0] == dim_const(p->dims, 96))
                assert_int_equal(b[i]->dtype, t);
        }
    }
}

// Small integers and scales that are powers of two times less than eight: sums are exact in any order.
static void check_packed_weights(dtype weights, int64_t rows) {
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    target *t = target_from_options(a, &d, &(target_options){.cpu = "native", .fp = FP_DEFAULT});
    tensor x = {.dtype = DT_F32, .rank = 2, .dims = {rows, 96}, .count = rows * 96};
    float *data = x.data = arena_alloc(a, (size_t)x.count * sizeof *data);
    uint32_t seed = 5;
    for (int64_t i = 0; i < x.count; i++) data[i] = (float)(next(&seed) % 15) - 7;
    tensor want = run(a, weights_model(a, &d, weights, rows, 96, 50), &x, &(interp_hooks){0});
    program *p = weights_model(a, &d, weights, rows, 96, 50);
    run_program_passes(p, t);
    check_packed(p, weights);
    tensor got = run_compiled(a, &d, p, &x, t);
    check_same(&want, &got);
    arena_destroy(a);
}

static void packed_weights_stay_packed(void **state) {
    (void)state;
    static const dtype types[] = {DT_I4, DT_U4, DT_I2, DT_U2, DT_I8};
    for (size_t j = 0; j < sizeof types / sizeof *types; j++)
        for (int64_t rows = 1; rows < 9; rows += 7) check_packed_weights(types[j], rows);
}

// Panels of packed elements, written in pieces.
static void packed_panels(void **state) {
    (void)state;
    static const dtype types[] = {DT_I4, DT_U2};
    for (size_t j = 0; j < sizeof types / sizeof *types; j++) {
        arena *a = arena_new();
        diag d = {.arena = a, .sink = show_message};
        int64_t size[2] = {5, 19}, per_byte = 8 / dtype_bits(types[j]);
        program *p = program_new(module_new(a, &d, "panels.onnx"));
        buffer *b = program_constant(p, "w", random_bytes(a, types[j], 2, size, 11));
        b->layout = &(layout){.n = 3, .order = {{1, 0}, {0, 0}, {1, 16}}};
        uint8_t packed[2 * 5 * 16];
        int64_t bytes = dim_value(buffer_bytes(b));
        for (int64_t at = 0; at < bytes; at += 2) layout_produce(b, at, packed + at, 2);
        for (int64_t row = 0; row < 5; row++)
            for (int64_t col = 0; col < 32; col++) {
                int64_t want = col < 19 ? dtype_load_int(types[j], b->data->data, row * 19 + col) : 0;
                assert_int_equal(dtype_load_int(types[j], packed, (col / 16 * 5 + row) * 16 + col % 16),
                                 want);
            }
        assert_int_equal(bytes, 2 * 5 * 16 / per_byte);
        arena_destroy(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_keep_every_bit),
        cmocka_unit_test(products_keep_every_bit),
        cmocka_unit_test(blocks_keep_every_bit),
        cmocka_unit_test(product_chains_keep_every_bit),
        cmocka_unit_test(products_fill_tiles),
        cmocka_unit_test(tiles_have_signs),
        cmocka_unit_test(rows_known_late_fill_tiles),
        cmocka_unit_test(batches_fill_tiles),
        cmocka_unit_test(convolutions_fill_tiles),
        cmocka_unit_test(inner_loops_have_no_floats),
        cmocka_unit_test(windows_add_products_of_bytes),
        cmocka_unit_test(packed_weights_stay_packed),
        cmocka_unit_test(packed_panels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
