// GPU kernels from small models: in the loops interpreter and, as CUDA text, on a CPU behind the shim, against the
// unscheduled kernels.
#include "test/unit/gpu_models.h"

// Forward; gpu_faults.c runs all models whose inputs it may move with permuted threads.
static void kernels_are_right_in_the_interpreter(void **state) {
    fixture *x = *state;
    for (int i = 0; i < MODELS; i += EVERY) {
        compiled c = compile(x, &models[i], FP_DEFAULT);
        linterp_order forward = ORDER_FORWARD;
        const char *error =
            models[i].placed ? interpreted_error(x, &c) : run_compiled(x, &c, gpu_interpret, &forward);
        if (error) fail_msg("%s: %s", models[i].name, error);
    }
}

static const char *call_function(void *user, arena *a, const gpu_launch *l) {
    (void)user;
    linterp *li = linterp_new(a, NULL);
    return linterp_call(li, l->code->f, l->args, NULL) ? NULL : linterp_error(li);
}

// What the kernels compute as scheduled for C.
static tensor result_of_c(fixture *x, const compiled *c) {
    target *t = target_for_c(x->a, &(target_options){.fp = FP_STRICT, .threads = 1});
    gpu_code code = {.module = lmodule_new(x->a, "c", t),
                     .kernels = ARENA_ARRAY(x->a, kernel_code *, c->program->kernels.n)};
    for (int i = 0; i < c->program->kernels.n; i++)
        if (c->code->kernels[i])
            code.kernels[i] = schedule_kernel(code.module, c->program->kernels.at[i], t, &x->d);
    gpu_machine m = {.launch = call_function};
    tensor out = {0};
    const char *message = NULL;
    if (gpu_run(c->program, &code, &m, x->a, c->in, &out, &message) != INTERP_OK) fail_msg("%s", message);
    return out;
}

static void strict_kernels_have_the_bits_of_c(void **state) {
    fixture *x = *state;
    for (int i = 0; i < MODELS; i += EVERY) {
        if (models[i].sm) continue; // what newer GPUs have rounds in its own way: strict kernels are the same
        compiled c = compile(x, &models[i], FP_STRICT);
        c.want = result_of_c(x, &c);
        c.exact = true;
        linterp_order order = ORDER_PERMUTED;
        const char *error = run_compiled(x, &c, gpu_interpret, &order);
        if (error) fail_msg("%s: %s", models[i].name, error);
    }
}

static void schedules_are_as_meant(void **state) {
    for (int i = 0; i < MODELS; i++) {
        compiled c = compile(*state, &models[i], FP_DEFAULT);
        bool found = false;
        for (int j = 0; j < c.code->nkernels; j++)
            if (c.code->kernels[j]) found |= !strcmp(c.code->kernels[j]->schedule, models[i].schedule);
        if (!found) fail_msg("%s: no kernel is scheduled as %s", models[i].name, models[i].schedule);
    }
}

// With permuted threads; forward, text_has_the_bits_of_the_interpreter runs all.
static void kernels_are_right_on_the_shim(void **state) {
    fixture *x = *state;
    compiled c[MODELS];
    gpu_shim *s = load_on_shim(x, some_models(x, c, FP_DEFAULT, 0, EVERY));
    s->order = ORDER_PERMUTED;
    for (int i = 0; i < MODELS; i += EVERY) {
        const char *error = run_compiled(x, &c[i], gpu_shim_launch, s);
        if (error) fail_msg("%s: %s", models[i].name, error);
    }
    int *no_groups = dlsym(s->library, "shim_no_wgmma"); // as on GPUs without wgmma
    *no_groups = 1;
    for (int i = 0; i < MODELS; i += EVERY) {
        const char *error = models[i].warpgroups ? error_on_shim(x, &c[i], s) : NULL;
        if (error) fail_msg("%s by small products: %s", models[i].name, error);
    }
}

// In the text only muladd may be one rounding: what the interpreter computes bit by bit, the text does too.
// Each model in one mode.
static void text_has_the_bits_of_the_interpreter(void **state) {
    fixture *x = *state;
    for (fp_mode fp = FP_STRICT; fp <= FP_FAST; fp++) {
        compiled c[MODELS];
        gpu_shim *s = load_on_shim(x, some_models(x, c, fp, (int)fp, 3 * EVERY));
        for (int i = (int)fp; i < MODELS; i += 3 * EVERY) {
            linterp_order order = ORDER_FORWARD;
            gpu_machine m = {.launch = gpu_interpret, .user = &order};
            const char *message = NULL;
            gpu_run(c[i].program, c[i].code, &m, x->a, c[i].in, &c[i].want, &message);
            c[i].exact = true;
            const char *error = message ? message : run_compiled(x, &c[i], gpu_shim_launch, s);
            if (error) fail_msg("%s, fp %d: %s", models[i].name, (int)fp, error);
        }
    }
}

// ---------------------------------------------------------------- the module

static void equal_kernels_are_one_function(void **state) {
    static const model m = {
        "twice",
        "tiled product",
        "in x float 19 50\nin w float 50 50\nout y float *\na = MatMul x w\ny = MatMul a w",
        {{19, 50}, {50, 50}}};
    fixture *x = *state;
    compiled c = compile(x, &m, FP_DEFAULT);
    int kernels = 0;
    for (int j = 0; j < c.code->nkernels; j++) kernels += c.code->kernels[j] != NULL;
    assert_true(kernels > c.code->module->funcs.n);
    const char *error = interpreted_error(x, &c);
    if (error) fail_msg("%s", error);
}

static int kernels_of(const compiled *c) {
    int n = 0;
    for (int j = 0; j < c->code->nkernels; j++) n += c->code->kernels[j] != NULL;
    return n;
}

// Long sums with few results: in pieces, unless that changes bits, is not worth it, or the sizes are open.
static void long_sums_are_split(void **state) {
    static const model
        thin = {"thin",
                "",
                "in a float 3 512\nin b float 512 37\nout y float *\ny = MatMul a b",
                {{3, 512}, {512, 37}}},
        halves = {"halves",
                  "",
                  "in a float16 3 512\nin b float16 512 37\nout y float16 *\ny = MatMul a b",
                  {{3, 512}, {512, 37}}},
        conv = {"conv",
                "",
                "in x float 2 64 4 5\nin w float 5 64 3 3\nout y float *\ny = Conv x w @pads=I,1,1,1,1",
                {{2, 64, 4, 5}, {5, 64, 3, 3}}},
        bytes = {"bytes",
                 "",
                 "in a uint8 3 512\nin b int8 512 37\nout y int32 *\ny = MatMulInteger a b",
                 {{3, 512}, {512, 37}}},
        prime = {"prime",
                 "",
                 "in a float 3 521\nin b float 521 37\nout y float *\ny = MatMul a b",
                 {{3, 521}, {521, 37}}},
        open = {"open",
                "",
                "in a float M 512\nin b float 512 37\nout y float *\ny = MatMul a b",
                {{3, 512}, {512, 37}}},
        rows =
            {"rows",
             "",
             "in a float16 B M 512\nin b float16 512 37\nin c float16 37\nout y float16 *\nt = MatMul a b\n"
             "y = Add t c",
             {{2, 3, 512}, {512, 37}, {37}}},
        dequantized = {"dequantized", // the passes leave an axis behind
                       "",
                       "opset - 23\nin a float M 512\nin b int8 512 37\nin s float 16 37\nout y float *\n"
                       "w = DequantizeLinear b s @axis=i,0 @block_size=i,32\ny = MatMul a w",
                       {{3, 512}, {512, 37}, {16, 37}}},
        many = {"many",
                "",
                "in a float M 512\nin b float 512 37\nout y float *\ny = MatMul a b",
                {{65, 512}, {512, 37}}},
        long_open = {"long_open",
                     "",
                     "in a float 3 K\nin b float K 37\nout y float *\ny = MatMul a b",
                     {{3, 512}, {512, 37}}};
    const model *const split[] = {&thin, &halves, &conv, &bytes}, *const whole[] = {&prime, &long_open},
                       *const either[] = {&open, &rows, &dequantized, &many};
    for (int j = 0; j < 4; j++) {
        compiled c = compile(*state, split[j], FP_DEFAULT), strict = compile(*state, split[j], FP_STRICT);
        const char *error = interpreted_error(*state, &c);
        if (error) fail_msg("%s: %s", split[j]->name, error);
        assert_int_equal(kernels_of(&c), 2);
        assert_int_equal(kernels_of(&strict), 1);
    }
    for (int j = 0; j < 4; j++) { // as the run finds the number of rows
        compiled c = compile(*state, either[j], FP_DEFAULT);
        if (either[j] == &dequantized) c.near = 1e-3; // terms of hundreds make up results of ones
        const char *error = interpreted_error(*state, &c);
        if (error) fail_msg("%s: %s", either[j]->name, error);
        assert_int_equal(kernels_of(&c), 3);
    }
    for (int j = 0; j < 2; j++) {
        compiled c = compile(*state, whole[j], FP_DEFAULT);
        assert_int_equal(kernels_of(&c), 1);
    }
}

// The image between two convolutions, and the weights of the second: 16 bytes of channels at once.
static void images_lie_channels_last(void **state) {
    static const model m = {
        "between",
        "",
        "in x float16 N 3 11 13\ninit z int64 = int64 0\ninit e1 int64 = int64 432\ninit e2 int64 = int64 "
        "1152\n"
        "init one int64 = int64 1\ninit seven int64 = int64 7\ninit s1 int64 4 = int64 16 3 3 3\n"
        "init s2 int64 4 = int64 8 16 3 3\nout y float16 *\n"
        "r1 = Range z e1 one\nm1 = Mod r1 seven\nc1 = Cast m1 @to=i,10\nw1 = Reshape c1 s1\n"
        "r2 = Range z e2 one\nm2 = Mod r2 seven\nc2 = Cast m2 @to=i,10\nw2 = Reshape c2 s2\n"
        "a = Conv x w1 @pads=I,1,1,1,1\nb = Tanh a\np = MaxPool b @kernel_shape=I,2,2\n"
        "y = Conv p w2 @pads=I,1,1,1,1 @strides=I,2,1",
        {{2, 3, 11, 13}},
        .sm = 80};
    compiled c = compile(*state, &m, FP_DEFAULT), strict = compile(*state, &m, FP_STRICT);
    int laid = 0, weights = 0;
    for (int j = 0; j < c.program->buffers.n; j++) {
        const buffer *b = c.program->buffers.at[j];
        laid += b->layout && b->role != BUF_CONST, weights += b->layout && b->role == BUF_CONST;
    }
    assert_int_equal(laid, 2); // before the pool and after it
    assert_int_equal(weights, 1);
    assert_non_null(strstr(cuda_text(*state, c.code->module), "cp_async_zfill("));
    assert_null(strstr(cuda_text(*state, strict.code->module), "cp_async"));
    c.near = 4e-3;
    const char *error = interpreted_error(*state, &c);
    if (error) fail_msg("%s", error);
}

// With --precision, what products read is stored as they multiply it, for all readers; images of 1x1 convolutions
// lie channels-last; a residual is loaded in pairs.
static void operands_are_stored_rounded(void **state) {
    static const model m = {
        "rounded",
        "",
        "in x float N 16 9 10\ninit z int64 = int64 0\ninit one int64 = int64 1\ninit seven int64 = int64 7\n"
        "init e1 int64 = int64 1024\ninit e2 int64 = int64 4096\ninit s1 int64 4 = int64 64 16 1 1\n"
        "init s2 int64 4 = int64 64 64 1 1\ninit fifty float = float 50\nout y float *\n"
        "r1 = Range z e1 one\nm1 = Mod r1 seven\nc1 = Cast m1 @to=i,1\nd1 = Div c1 fifty\nw1 = Reshape d1 "
        "s1\n"
        "r2 = Range z e2 one\nm2 = Mod r2 seven\nc2 = Cast m2 @to=i,1\nd2 = Div c2 fifty\nw2 = Reshape d2 "
        "s2\n"
        "a = Conv x w1\nb = Tanh a\nc = Conv b w2\nd = Add c b\ne = Tanh d\ny = Conv e w2",
        {{2, 16, 9, 10}},
        .sm = 80,
        .placed = true};
    static const precision all[] = {PRECISION_TF32, PRECISION_BF16, PRECISION_F16};
    for (int j = 0; j < 3; j++) {
        model of = m;
        of.precision = all[j];
        compiled c = compile(*state, &of, FP_DEFAULT);
        int rounded = 0, laid = 0;
        for (int i = 0; i < c.program->buffers.n; i++) {
            const buffer *b = c.program->buffers.at[i];
            if (b->role != BUF_TEMP) continue;
            rounded += b->tf32 || dtype_bits(b->dtype) == 16;
            laid += b->layout != NULL;
        }
        assert_int_equal(rounded, 2);
        assert_int_equal(laid, 2);
        const char *text = cuda_text(*state, c.code->module), *copies = strstr(text, "cp_async");
        assert_non_null(copies);
        const char *error = interpreted_error(*state, &c);
        if (error) fail_msg("precision %d: %s", (int)all[j], error);
    }
}

// A convolution reads a part of a wider image and writes the next one: nothing is copied, 16 bytes come at
// once.
static void parts_of_images_lie_channels_last(void **state) {
    static const model m = {
        "joined",
        "",
        "in x float16 N 3 11 13\ninit z int64 = int64 0\ninit e1 int64 = int64 432\ninit e2 int64 = int64 "
        "2304\ninit one int64 = int64 1\ninit seven int64 = int64 7\ninit s1 int64 4 = int64 16 3 3 3\ninit "
        "s2 int64 4 = int64 16 16 3 3\ninit s3 int64 4 = int64 8 32 3 3\nout y float16 *\nr1 = Range z e1 "
        "one\nm1 = Mod r1 seven\nc1 = Cast m1 @to=i,10\nw1 = Reshape c1 s1\nr2 = Range z e2 one\nm2 = Mod r2 "
        "seven\nc2 = Cast m2 @to=i,10\nw2 = Reshape c2 s2\nw3 = Reshape c2 s3\na = Conv x w1 "
        "@pads=I,1,1,1,1\nb = Sigmoid a\nc = Conv b w2 @pads=I,1,1,1,1\nd = Sigmoid c\nj = Concat b d "
        "@axis=i,1\ny = Conv j w3 @pads=I,1,1,1,1",
        {{2, 3, 11, 13}},
        .sm = 80,
        .processors = 1};
    compiled c = compile(*state, &m, FP_DEFAULT);
    const buffer *whole = NULL;
    int laid = 0, reading = 0, writing = 0;
    for (int j = 0; j < c.program->buffers.n; j++) {
        const buffer *b = c.program->buffers.at[j];
        if (b->layout && b->role != BUF_CONST) laid++, whole = b;
    }
    assert_int_equal(laid, 1);
    for (int j = 0; j < c.program->kernels.n; j++) {
        const kernel *k = c.program->kernels.at[j];
        reading += kernel_reads(k, whole), writing += kernel_writes(k, whole);
        assert_int_equal(k->stages.n, 1);
    }
    assert_int_equal(reading, 2);
    assert_int_equal(writing, 2);
    const char *text = cuda_text(*state, c.code->module), *first = strstr(text, "cp_async_zfill(");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "cp_async_zfill("));
    c.near = 4e-3;
    const char *error = interpreted_error(*state, &c);
    if (error) fail_msg("%s", error);
}

// What the caller gave is copied, by as many threads as it has elements.
static void joined_parts_are_kernels(void **state) {
    static const model m = {"beside",
                            "",
                            "in a float 1 6 40\nin b float 1 9 40\nout y float *\ny = Concat a b @axis=i,1",
                            {{1, 6, 40}, {1, 9, 40}}};
    compiled c = compile(*state, &m, FP_DEFAULT);
    assert_int_equal(c.program->kernels.n, 2);
    for (int j = 0; j < 2; j++) assert_string_equal(c.code->kernels[j]->schedule, "points");
    const char *error = interpreted_error(*state, &c);
    if (error) fail_msg("%s", error);
}

static const buffer *constant_with(const compiled *c, dtype t, int rank) {
    for (int j = 0; j < c->program->buffers.n; j++) {
        const buffer *b = c->program->buffers.at[j];
        if (b->role == BUF_CONST && b->dtype == t && b->rank == rank) return b;
    }
    return NULL;
}

// What only products read is rounded and laid out for them; what others read too, or what slices along K do
// not fill, stays as it is.
static void constants_are_made_for_products(void **state) {
    static const model
        alone = {"alone",
                 "",
                 "in a float M 64\nout y float *\n" CONSTANT_B("2", "64 32", "2048", "1") "y = MatMul a b",
                 {{19, 64}},
                 1,
                 PRECISION_BF16,
                 .sm = 90,
                 .warpgroups = true},
        shared = {"shared",
                  "",
                  "in a float M 64\nin w float 32\nout y float *\n" CONSTANT_B(
                      "2", "64 32", "2048",
                      "1") "t = MatMul a b\nd = Mul b w\nl = ReduceL2 d @axes=I,0 @keepdims=i,0\ny = Add t l",
                  {{19, 64}, {32}},
                  1,
                  PRECISION_BF16,
                  .sm = 90,
                  .warpgroups = true};
    static const model thin = {
        "thin",
        "",
        "in a float16 M 8\nout y float16 *\n" CONSTANT_B("2", "8 16000", "128000", "10") "y = MatMul a b",
        {{1, 8}},
        1,
        .sm = 90,
        .warpgroups = true};
    compiled c = compile(*state, &alone, FP_DEFAULT), strict = compile(*state, &alone, FP_STRICT),
             both = compile(*state, &shared, FP_DEFAULT), wide = compile(*state, &thin, FP_DEFAULT);
    assert_null(constant_with(&wide, DT_F16, 2)->layout);
    assert_non_null(constant_with(&c, DT_BF16, 2));
    assert_non_null(constant_with(&c, DT_BF16, 2)->layout);
    assert_null(constant_with(&strict, DT_BF16, 2));
    assert_null(constant_with(&both, DT_BF16, 2));
    assert_null(constant_with(&both, DT_F32, 2)->layout);
    both.near = 0.3; // sums of terms up to 12
    const char *error = interpreted_error(*state, &both);
    if (error) fail_msg("%s", error);
}

// Few queries over many keys: in pieces, unless that changes bits; the run chooses where it alone knows.
static void few_queries_are_split(void **state) {
    static const model
        known = {"known",
                 "",
                 "in q float16 2 3 16\nin k float16 2 16 600\nin v float16 2 600 16\nout y float16 *\n"
                 "s = MatMul q k\np = Softmax s\ny = MatMul p v",
                 {{2, 3, 16}, {2, 16, 600}, {2, 600, 16}}},
        open = {"open",
                "",
                "in q float16 B M 16\nin k float16 B 16 N\nin v float16 B N 16\nout y float16 *\n"
                "s = MatMul q k\np = Softmax s\ny = MatMul p v",
                {{2, 3, 16}, {2, 16, 70}, {2, 70, 16}}},
        open_long = {"open_long",
                     "",
                     "in q float16 B M 16\nin k float16 B 16 N\nin v float16 B N 16\n"
                     "out y float16 *\ns = MatMul q k\np = Softmax s\ny = MatMul p v",
                     {{2, 3, 16}, {2, 16, 600}, {2, 600, 16}}},
        shown = {"shown",
                 "",
                 "in q float16 2 3 16\nin k float16 2 16 600\nin v float16 2 600 16\nout y float *\n"
                 "s = MatMul q k\np = Softmax s\nt = MatMul p v\ny = Cast t @to=i,1",
                 {{2, 3, 16}, {2, 16, 600}, {2, 600, 16}}};
    const model *const all[] = {&known, &open, &open_long, &shown};
    static const int kernels[] = {2, 3, 3, 1};
    for (int j = 0; j < 4; j++) {
        compiled c = compile(*state, all[j], FP_DEFAULT), strict = compile(*state, all[j], FP_STRICT);
        c.near = 1e-3;
        const char *error = interpreted_error(*state, &c);
        if (error) fail_msg("%s: %s", all[j]->name, error);
        assert_int_equal(kernels_of(&c), kernels[j]);
        assert_true(kernels_of(&strict) >= 1);
    }
}

// Sizes that are known take 32-bit positions; unknown or large ones do not.
static void positions_are_as_wide_as_needed(void **state) {
    static const model small = {"small", "", "in x float 3 50\nout y float *\ny = Transpose x", {{3, 50}}},
                       open = {"open", "", "in x float N 50\nout y float *\ny = Transpose x", {{3, 50}}};
    fixture *x = *state;
    compiled c[] = {compile(x, &small, FP_DEFAULT), compile(x, &open, FP_DEFAULT)};
    assert_non_null(strstr(cuda_text(x, c[0].code->module), "int32_t block = "));
    assert_null(strstr(cuda_text(x, c[0].code->module), "int64_t block = "));
    assert_non_null(strstr(cuda_text(x, c[1].code->module), "int64_t block = "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(kernels_are_right_in_the_interpreter),
        TEST(strict_kernels_have_the_bits_of_c),
        TEST(schedules_are_as_meant),
        TEST(kernels_are_right_on_the_shim),
        TEST(text_has_the_bits_of_the_interpreter),
        TEST(equal_kernels_are_one_function),
        TEST(long_sums_are_split),
        TEST(images_lie_channels_last),
        TEST(operands_are_stored_rounded),
        TEST(parts_of_images_lie_channels_last),
        TEST(joined_parts_are_kernels),
        TEST(constants_are_made_for_products),
        TEST(few_queries_are_split),
        TEST(positions_are_as_wide_as_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
