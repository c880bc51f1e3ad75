// Products of vector registers as matrices: their meaning as interpreted, what the verifier refuses, and which CPUs
// of AArch64 get which instructions.
#include "codegen/llvm/llvm.h"
#include "codegen/target/targets.h"
#include "compiler/driver/pass_run.h"
#include "ir/kernel/lower.h"
#include "ir/loops/loops_blocks.h"
#include "ir/target.h"
#include "test/build_graph.h"
#include "test/unit/loops_machine.h"
#include <stdio.h>

// ---------------------------------------------------------------- meaning
static void blocks_of_bytes(void **state) {
    (void)state;
    uint8_t b[16], c[16];
    uint64_t words[3][BLOCK_LANES];
    for (int i = 0; i < 16; i++) b[i] = (uint8_t)(250 - 17 * i), c[i] = (uint8_t)(i < 2 ? 128 : 29 * i + 100);
    for (int l = 0; l < BLOCK_LANES; l++) {
        uint32_t w[2];
        memcpy(&w[0], b + 4 * l, 4);
        memcpy(&w[1], c + 4 * l, 4);
        words[0][l] = (uint32_t)(l - 2), words[1][l] = w[0], words[2][l] = w[1];
    }
    const uint64_t *const operands[] = {words[0], words[1], words[2]};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            int us = 2 * i + j - 2, ss = us, uu = us;
            for (int k = 0; k < 8; k++) {
                us += b[8 * i + k] * (int8_t)c[8 * j + k];
                ss += (int8_t)b[8 * i + k] * (int8_t)c[8 * j + k];
                uu += b[8 * i + k] * c[8 * j + k];
            }
            assert_int_equal((int32_t)block_lane(L_BLOCK_US8, operands, 2 * i + j), us);
            assert_int_equal((int32_t)block_lane(L_BLOCK_SS8, operands, 2 * i + j), ss);
            assert_int_equal((int32_t)block_lane(L_BLOCK_UU8, operands, 2 * i + j), uu);
        }
}

// Sums and operands, and what bfmmla and bfdot of qemu's CPU "max" made of them: plain numbers, overflow, denormals,
// sums rounded to odd.
static const uint32_t bf16_cases[][20] = {
    {0x3e88596c, 0x428885db, 0xc496017e, 0xc5733ac5, 0xc1dd406d, 0xc310c266, 0xbf6f41f9,
     0x438d3c98, 0x3cdfc241, 0xbc73bd20, 0xc2383c48, 0xbf343f9c, 0xc32ec797, 0x44ab4751,
     0xc5292095, 0xc57ce9b5, 0xc3332957, 0x4291495b, 0xc4909715, 0xc57f9ee9},
    {0x401b3098, 0x3d84fb17, 0x44f9dd8a, 0x41de2f61, 0x3c544001, 0xbe6ec0a3, 0x40bfc18a,
     0x3c9c3c6a, 0xbeb0434c, 0x3dfbbf3d, 0x3e1440b3, 0x3c3fc151, 0x43d0ab87, 0x429bc091,
     0xc4be4461, 0xc28815df, 0x43cecdd1, 0x40730325, 0x44ede965, 0x41dcb1c1},
    {0x60c7f9b0, 0x150f3e62, 0xcbb8fe4,  0xcf3816b6, 0x10ead40f, 0x5ecde2ec, 0x93d4da,
     0x6ad0cb4d, 0xd8550eca, 0x9351ed37, 0x87d82305, 0x536e6617, 0x7f800000, 0xff800000,
     0x79128aff, 0x7ec15fff, 0x60c7f9af, 0x7f800000, 0xb86283ff, 0x7ec15fff},
    {0xfdf5389c, 0xaa982e,   0xaaaf2790, 0xcea90742, 0x9d7dfc2b, 0x7d4f1f79, 0xd0ff903,
     0xfc94bf7f, 0xc3979244, 0xa23464eb, 0xd077e92e, 0xa0240a31, 0xfdf5389b, 0x7f800000,
     0xe4e9fafb, 0x7f800000, 0xfdf5389b, 0xe0118bff, 0x7f800000, 0x5d3d9fff},
    {0xf4a32cc8, 0xebe0993a, 0x34d6287c, 0xafdd730e, 0x75a03aa5, 0x78b4d417, 0xb1843e33,
     0x5222806b, 0x1ea14b7a, 0xd921bd7e, 0x86232f1b, 0x2e2c56b4, 0xff800000, 0xec252625,
     0xebcbc3ff, 0x40d9afff, 0xf4a32cc7, 0xff800000, 0x34d62bdf, 0x40d9afff},
    {0x8c2879a8, 0xa80d91a, 0x8b94d35c, 0x9a4c0ee, 0x8dc070e,  0x1a3e981e, 0x21bb0037,
     0x7e89c4e,  0x46b820d, 0xde19e98,  0x3aa09a,  0x8d799ffa, 0x8c2879a8, 0xa80d91a,
     0x8b94d35c, 0x9a4c0ee, 0x8c2879a8, 0xa80d91a, 0x8b94d35c, 0x9a4c0ee},
    {0x849a6114, 0x13fd6f66, 0x84f75b88, 0x82c075fa, 0x82bb8fe3, 0x83940c2c, 0x87159e2a,
     0x94100791, 0x9a100ae5, 0x860e0a51, 0x50b0b72,  0x9f4998eb, 0x849a6114, 0x13fd6f66,
     0x84f75b88, 0x82c075fa, 0x849a6114, 0x13fd6f66, 0x84f75b88, 0x82c075fa},
    {0xf6dc96a0, 0x739118d2, 0xf5f503d4, 0xf74fe026, 0xde92f0ca, 0x6c44ff5d, 0x6bc95ef2,
     0x5bb5ee7d, 0xe702f7e9, 0x7902f0a1, 0x7e3c5ee9, 0xe3347826, 0x7f800000, 0xff800000,
     0x7fc00000, 0x7fc00000, 0x7f800000, 0x7f800000, 0x7f800000, 0xff800000},
    {0xf5f8568c, 0xf57b9b9e, 0x7ae6ac80, 0xf59609b2, 0x736fed07, 0xf51fe69c, 0xefafe55d,
     0xe0f2df80, 0xe07af60f, 0x696ae251, 0xecafdcdf, 0x5d0f615d, 0x7fc00000, 0x7fc00000,
     0x7fc00000, 0x7fc00000, 0x7fc00000, 0x7fc00000, 0x7f800000, 0xff800000},
    {0xfa97bbb8, 0xf9b135aa, 0x74c5ae6c, 0x7f1f1e7e, 0x5a4af992, 0x64cdeddb, 0xdf7c75be,
     0x6f6af02d, 0xed68e3a2, 0xf98c7491, 0x6de168c9, 0x62edf3ad, 0x7fc00000, 0x7fc00000,
     0x7fc00000, 0x7fc00000, 0x7fc00000, 0xff800000, 0x7fc00000, 0x7f800000},
};

static void sums_of_bf16_round_to_odd(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof bf16_cases / sizeof *bf16_cases; n++) {
        uint64_t words[3][BLOCK_LANES];
        for (int j = 0; j < 3 * BLOCK_LANES; j++) words[j / BLOCK_LANES][j % BLOCK_LANES] = bf16_cases[n][j];
        const uint64_t *const operands[] = {words[0], words[1], words[2]};
        for (int l = 0; l < BLOCK_LANES; l++) {
            assert_int_equal(block_lane(L_BLOCK_BF16, operands, l), bf16_cases[n][12 + l]);
            assert_int_equal(block_lane(L_DOT2_BF16, operands, l), bf16_cases[n][16 + l]);
        }
    }
}

// vdpbf16ps: each addition is rounded to the nearest, the odd product's first; denormals are 0.
static void pairs_of_x86_round_twice(void **state) {
    (void)state;
    static const struct {
        uint64_t acc, x, y, sum;
    } cases[] = {{0x3f800000, 0x40000000, 0x40000000, 0x40a00000},  // 1 + 2 * 2, and 0 * 0 in the even half
                 {0x4b800000, 0x3f803f80, 0x3f803f80, 0x4b800000},  // 2^24 + 1 + 1
                 {0x4b800000, 0x3f804000, 0x3f803f80, 0x4b800001},  // 2^24 + 1 + 2
                 {0x00400000, 0x00000000, 0x00000000, 0x00000000},  // a denormal sum
                 {0x00000000, 0x00403f80, 0x7e803f80, 0x3f800000},  // a denormal operand
                 {0x7f800000, 0x3f80bf80, 0x3f803f80, 0x7f800000}}; // infinity
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const uint64_t *const operands[] = {&cases[n].acc, &cases[n].x, &cases[n].y};
        assert_int_equal(block_lane(L_PAIR_BF16, operands, 0), cases[n].sum);
    }
}

// ---------------------------------------------------------------- verifier
static const char *error_of(lop op, ltype sum, ltype words, const target *t) {
    ins acc = {.type = sum}, word = {.type = words};
    ins *args[] = {&acc, &word, &word};
    return block_ins_error(&(ins){.op = op, .type = sum, .nargs = 3, .args = args}, t);
}

static void wrong_blocks_are_refused(void **state) {
    (void)state;
    const target none = {0}, both = {.i8mm = true, .bf16mm = true, .bf16_pairs = true};
    ltype ints = lt(LK_I32, 4), floats = lt(LK_F32, 4);
    static const lop ops[] = {L_BLOCK_US8, L_BLOCK_SS8, L_BLOCK_UU8, L_BLOCK_BF16, L_DOT2_BF16, L_PAIR_BF16};
    for (int i = 0; i < 6; i++) {
        ltype sum = i < 3 ? ints : floats, other = i < 3 ? floats : ints;
        assert_null(error_of(ops[i], sum, ints, &both));
        assert_non_null(error_of(ops[i], sum, ints, &none));
        assert_non_null(error_of(ops[i], other, ints, &both));
        assert_non_null(error_of(ops[i], lt(sum.kind, 6), lt(LK_I32, 6), &both));
        assert_non_null(error_of(ops[i], sum, lt(LK_I8, 16), &both));
    }
}

// ---------------------------------------------------------------- machine code
static value *filled(graph *g, const char *name, dtype t, int64_t k, int64_t n) {
    constant *c = constant_new(g->module->arena, t, 2, (int64_t[]){k, n});
    for (int64_t j = 0; j < c->count; j++)
        dtype_store_float(t, (void *)c->data, j, (double)(j * 7 % 19), true);
    return value_constant(g, name, c);
}

// x w of bytes, or Relu(x w) w rounded to bf16; w has 64 rows. Bytes of w are an input if w is unsigned: those of constants
// would change their sign.
static program *product(arena *a, diag *d, dtype xt, dtype wt, int64_t rows) {
    bool of_bytes = xt != DT_F32;
    module *m = module_new(a, d, "blocks.onnx");
    graph *g = graph_new(m, NULL, "blocks");
    m->main = g, m->name = "blocks";
    dim *size[3] = {dim_const(m->dims, rows), dim_const(m->dims, 64), dim_const(m->dims, 64)};
    value *x = graph_add_input(g, "x", type_tensor(a, xt, 2, size)),
          *w = wt == DT_U8 ? graph_add_input(g, "w", type_tensor(a, wt, 2, size + 1))
                           : filled(g, "w", wt, 64, 64),
          *y;
    y = apply(g, of_bytes ? "MatMulInteger" : "MatMul", 2, (value *[]){x, w}, "");
    if (!of_bytes) y = apply(g, "MatMul", 2, (value *[]){apply(g, "Relu", 1, &y, ""), w}, "");
    graph_add_output(g, y);
    pass_context c = {.module = m, .opt = 2, .fold_work = 1000000, .fold_bytes = 1 << 20};
    run_passes(&c, GOAL_GRAPH, NULL);
    return lower_module(m);
}

static const char *code_for(arena *a, diag *d, const char *cpu, const char *features, dtype x, dtype w,
                            int64_t rows) {
    bool of_bytes = x != DT_F32;
    target_options o = {.triple = "aarch64-linux-gnu", .cpu = cpu, .features = features, .fp = FP_DEFAULT};
    o.precision = of_bytes ? PRECISION_OWN : PRECISION_BF16;
    target *t = target_from_options(a, d, &o);
    t->bf16_products = t->half_units = !of_bytes;
    program *p = product(a, d, x, w, rows);
    run_passes(&(pass_context){.program = p, .target = t, .opt = 2}, GOAL_PROGRAM, NULL);
    loops_machine *m = loops_machine_new(a, d, p, t);
    bytes code = llvm_emit(m->module, EMIT_ASM, a, d);
    return arena_strndup(a, code.at, code.n);
}

// The instruction for so many rows, NULL: none of the others either.
static void check_code(const char *cpu, const char *features, dtype x, dtype w, int64_t rows,
                       const char *wanted) {
    static const char *const all[] = {"\tsdot",   "\tudot",  "\tusdot", "\tsmmla",
                                      "\tusmmla", "\tummla", "\tbfdot", "\tbfmmla"};
    arena *a = arena_new();
    diag d = {.arena = a, .sink = show_message};
    jmp_buf jump;
    if (!DIAG_TRY(&d, jump)) fail();
    const char *code = code_for(a, &d, cpu, features, x, w, rows);
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
        bool want = wanted && !strcmp(all[j] + 1, wanted);
        if ((strstr(code, all[j]) != NULL) != want)
            fail_msg("%s%s: %s in the code of %d rows: expected %d", cpu, features, all[j] + 1, (int)rows,
                     want);
    }
    arena_destroy(a);
}

static void cpus_use_their_units(void **state) {
    (void)state;
    static const struct {
        const char *cpu, *features, *rows, *row, *bf16_rows, *bf16_row;
    } all[] = {{"generic", "", NULL, NULL, NULL, NULL},
               {"cortex-a72", "", NULL, NULL, NULL, NULL},
               {"generic", "+v8.2a,+dotprod", "sdot", "sdot", NULL, NULL},
               {"neoverse-n1", "", "sdot", "sdot", NULL, NULL},
               {"apple-m1", "", "sdot", "sdot", NULL, NULL},
               {"neoverse-v1", "", "smmla", "sdot", "bfmmla", "bfdot"},
               {"neoverse-n2", "", "smmla", "sdot", "bfmmla", "bfdot"},
               {"apple-m2", "", "smmla", "sdot", "bfmmla", "bfdot"},
               {"neoverse-n1", "+i8mm", "smmla", "sdot", NULL, NULL},
               {"neoverse-n1", "+bf16", "sdot", "sdot", "bfmmla", "bfdot"},
               {"neoverse-n2", "-i8mm,-bf16", "sdot", "sdot", NULL, NULL}};
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
        const char *cpu = all[j].cpu, *features = all[j].features;
        check_code(cpu, features, DT_I8, DT_I8, 8, all[j].rows);
        check_code(cpu, features, DT_I8, DT_I8, 1, all[j].row);
        check_code(cpu, features, DT_F32, DT_F32, 8, all[j].bf16_rows);
        check_code(cpu, features, DT_F32, DT_F32, 1, all[j].bf16_row);
    }
}

// Without the mixed product, A takes the sign of B.
static void signs_have_products(void **state) {
    (void)state;
    static const struct {
        dtype x, w;
        const char *dot, *block;
    } all[] = {{DT_I8, DT_I8, "sdot", "smmla"},
               {DT_U8, DT_I8, "sdot", "usmmla"},
               {DT_I8, DT_U8, "udot", "usmmla"},
               {DT_U8, DT_U8, "udot", "ummla"}};
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
        check_code("neoverse-n1", "", all[j].x, all[j].w, 64, all[j].dot);
        check_code("neoverse-n2", "", all[j].x, all[j].w, 64, all[j].block);
        check_code("cortex-a72", "", all[j].x, all[j].w, 64, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_bytes),          cmocka_unit_test(sums_of_bf16_round_to_odd),
        cmocka_unit_test(pairs_of_x86_round_twice), cmocka_unit_test(wrong_blocks_are_refused),
        cmocka_unit_test(cpus_use_their_units),     cmocka_unit_test(signs_have_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
