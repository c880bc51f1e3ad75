// Matrix tiles: their instructions as text, checks of functions and of runs, and products in the interpreter of
// loops, against sums in plain C and, where this machine has tiles, against its instructions bit by bit.
#include "codegen/llvm/load.h"
#include "codegen/target/targets.h"
#include "ir/loops/loops_interp.h"
#include "ir/loops/loops_tiles.h"
#include "ir/target.h"
#include "runtime-lite/core/runtime.h"
#include "test/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h must follow the headers it needs.
#include <cmocka.h>

static const char features[] = "+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16";
static const ltype nothing = {LK_VOID, 1}, f32 = {LK_F32, 1};

// A function f(config, a, b, c) of pointers is being built.
typedef struct fixture {
    arena *arena;
    diag diag;
    const char *message;
    target *target;
    lmodule *module;
    lfunc *f;
    lbuild b;
} fixture;

static void remember(void *user, const diag_message *m) { ((fixture *)user)->message = m->text; }

static void open_function(fixture *x) {
    static const char *const names[] = {"config", "a", "b", "c"};
    *x = (fixture){.arena = arena_new()};
    x->diag = (diag){.arena = x->arena, .sink = remember, .user = x};
    target_options o = {
        .triple = "x86_64-linux-gnu", .cpu = "x86-64-v4", .features = features, .fp = FP_DEFAULT};
    x->target = target_from_options(x->arena, &x->diag, &o);
    x->module = lmodule_new(x->arena, "tiles", x->target);
    x->f = lfunc_new(x->module, "f", nothing);
    x->f->exported = true;
    for (int i = 0; i < 4; i++) lfunc_param(x->f, names[i], lt_ptr(), LK_I8, DT_I8, false);
    x->b = lbuild_new(x->f, x->target, &x->diag);
}

static ins *param(fixture *x, int i) { return x->f->params.at[i].value; }
static ins *stride(fixture *x, int64_t bytes) { return lb_idx(&x->b, bytes); }

// c += a * b, with tiles 0, 1 and 2, rows 64 bytes apart.
static void build_product(fixture *x, lop op) {
    lbuild *b = &x->b;
    lb_tile_config(b, param(x, 0));
    lb_tile_load(b, 0, param(x, 3), stride(x, TILE_BYTES));
    lb_tile_load(b, 1, param(x, 1), stride(x, TILE_BYTES));
    lb_tile_load(b, 2, param(x, 2), stride(x, TILE_BYTES));
    lb_tile_dot(b, op, 0, 1, 2);
    lb_tile_store(b, 0, param(x, 3), stride(x, TILE_BYTES));
    lb_tile_release(b);
    lb_return(b, NULL);
}

// ---------------------------------------------------------------- text and checks
static void instructions_print(void **state) {
    (void)state;
    fixture x;
    open_function(&x);
    lb_tile_zero(&x.b, 7);
    build_product(&x, L_TILE_SU8);
    assert_string_equal(lfunc_print(x.arena, x.f),
                        "export func @f(%config: ptr i8, %a: ptr i8, %b: ptr i8, %c: ptr i8) {\n"
                        "  tile_zero tile 7\n"
                        "  tile_config %config\n"
                        "  tile_load %c, 64 tile 0\n"
                        "  tile_load %a, 64 tile 1\n"
                        "  tile_load %b, 64 tile 2\n"
                        "  tile_dot_s8u8 tile 0 += 1 * 2\n"
                        "  tile_store %c, 64 tile 0\n"
                        "  tile_release\n"
                        "  return\n"
                        "}\n");
    lfunc_verify(x.f, &x.diag);
    arena_destroy(x.arena);
}

static void tile_eight(fixture *x) { lb_tile_zero(&x->b, 8); }
static void tile_sixteen(fixture *x) { lb_tile_zero(&x->b, 16); }
static void tile_below_zero(fixture *x) { lb_tile_load(&x->b, -1, param(x, 1), stride(x, 64)); }
static void factor_nine(fixture *x) { lb_tile_dot(&x->b, L_TILE_UU8, 0, 1, 9); }
static void more_than_three(fixture *x) { lb_tile_dot(&x->b, L_TILE_UU8, 0, 1, 2 | 3 << 4); }
static void same_factors(fixture *x) { lb_tile_dot(&x->b, L_TILE_SS8, 0, 1, 1); }
static void sum_is_a_factor(fixture *x) { lb_tile_dot(&x->b, L_TILE_BF16, 2, 1, 2); }
static void from_a_number(fixture *x) { lb_tile_load(&x->b, 0, stride(x, 64), stride(x, 64)); }
static void to_a_number(fixture *x) { lb_tile_store(&x->b, 0, stride(x, 64), stride(x, 64)); }
static void config_of_a_number(fixture *x) { lb_tile_config(&x->b, stride(x, 64)); }
static void stride_of_floats(fixture *x) { lb_tile_load(&x->b, 0, param(x, 1), lb_float(&x->b, f32, 64)); }
static void stride_of_lanes(fixture *x) {
    lb_tile_load(&x->b, 0, param(x, 1), lb_int(&x->b, lt(LK_I64, 2), 64));
}
static void good_bytes(fixture *x) { lb_tile_dot(&x->b, L_TILE_UU8, 0, 1, 2); }
static void good_bf16(fixture *x) { lb_tile_dot(&x->b, L_TILE_BF16, 7, 6, 5); }

// The verifier's message; NULL: none.
static const char *verified(fixture *x, void (*build)(fixture *x), bool bytes, bool bf16) {
    jmp_buf jump;
    open_function(x);
    x->target->amx_int8 = bytes, x->target->amx_bf16 = bf16;
    build(x);
    if (DIAG_TRY(&x->diag, jump)) lfunc_verify(x->f, &x->diag);
    else assert_int_equal(x->diag.class, DIAG_DEFECT);
    return x->message;
}

static void wrong_functions_are_caught(void **state) {
    (void)state;
    static const struct {
        void (*build)(fixture *x);
        bool bytes, bf16;
        const char *says; // NULL: it is right
    } all[] = {
        {good_bytes, true, true, NULL},
        {good_bf16, true, true, NULL},
        {good_bytes, true, false, NULL},
        {good_bf16, false, true, NULL},
        {good_bytes, false, false, "the target has no matrix tiles"},
        {good_bytes, false, true, "does not multiply such tiles"},
        {good_bf16, true, false, "does not multiply such tiles"},
        {tile_eight, true, true, "no such tile"},
        {tile_sixteen, true, true, "no such tile"},
        {tile_below_zero, true, true, "no such tile"},
        {factor_nine, true, true, "no such tile"},
        {more_than_three, true, true, "no such tile"},
        {same_factors, true, true, "the three tiles of a product differ"},
        {sum_is_a_factor, true, true, "the three tiles of a product differ"},
        {from_a_number, true, true, "operand 0 is not a pointer"},
        {to_a_number, true, true, "operand 0 is not a pointer"},
        {config_of_a_number, true, true, "operand 0 is not a pointer"},
        {stride_of_floats, true, true, "operand 1 is not a number of bytes"},
        {stride_of_lanes, true, true, "operand 1 is not a number of bytes"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fixture x;
        const char *m = verified(&x, all[i].build, all[i].bytes, all[i].bf16);
        if (!m != !all[i].says || (m && !strstr(m, all[i].says)))
            fail_msg("%d: '%s' instead of '%s'", (int)i, m ? m : "", all[i].says ? all[i].says : "");
        arena_destroy(x.arena);
    }
}

// ---------------------------------------------------------------- runs
typedef struct config {
    _Alignas(64) uint8_t bytes[TILE_CONFIG_BYTES];
} config;

static void set_shape(config *c, int tile, int rows, int bytes) {
    c->bytes[0] = 1;
    c->bytes[TILE_CONFIG_WIDTHS + 2 * tile] = (uint8_t)bytes;
    c->bytes[TILE_CONFIG_WIDTHS + 2 * tile + 1] = (uint8_t)(bytes >> 8);
    c->bytes[TILE_CONFIG_HEIGHTS + tile] = (uint8_t)rows;
}

// Tiles 0, 1 and 2 for m rows, n columns and k groups.
static config config_for(int m, int n, int k) {
    config c = {0};
    set_shape(&c, 0, m, n * TILE_GROUP);
    set_shape(&c, 1, m, k * TILE_GROUP);
    set_shape(&c, 2, k, n * TILE_GROUP);
    return c;
}

typedef struct operands {
    _Alignas(64) uint8_t a[TILE_ROWS][TILE_BYTES], b[TILE_ROWS][TILE_BYTES], c[TILE_ROWS][TILE_BYTES];
} operands;

// The interpreter's message; memory holds as many rows of a, b and c as said.
static const char *run_error(fixture *x, const config *c, operands *o, int a, int b, int sums) {
    linterp *in = linterp_new(x->arena, x->module);
    linterp_memory(in, c->bytes, sizeof c->bytes, false);
    if (a) linterp_memory(in, o->a, a * TILE_BYTES, false);
    if (b) linterp_memory(in, o->b, b * TILE_BYTES, false);
    if (sums) linterp_memory(in, o->c, sums * TILE_BYTES, true);
    uint64_t args[] = {(uintptr_t)c->bytes, (uintptr_t)o->a, (uintptr_t)o->b, (uintptr_t)o->c};
    return linterp_call(in, x->f, args, NULL) ? NULL : linterp_error(in);
}

static void build_bytes(fixture *x) { build_product(x, L_TILE_SS8); }
static void build_without_config(fixture *x) { lb_tile_dot(&x->b, L_TILE_SS8, 0, 1, 2); }
static void zero_without_config(fixture *x) { lb_tile_zero(&x->b, 0); }
static void load_without_config(fixture *x) { lb_tile_load(&x->b, 0, param(x, 1), stride(x, TILE_BYTES)); }
static void store_after_release(fixture *x) {
    lb_tile_config(&x->b, param(x, 0));
    lb_tile_release(&x->b);
    lb_tile_store(&x->b, 0, param(x, 3), stride(x, TILE_BYTES));
}
static void third_tile(fixture *x) {
    lb_tile_config(&x->b, param(x, 0));
    lb_tile_zero(&x->b, 3);
}
static void store_over_a(fixture *x) {
    lb_tile_config(&x->b, param(x, 0));
    lb_tile_store(&x->b, 0, param(x, 1), stride(x, TILE_BYTES));
}
static void store_to_c(fixture *x) {
    lb_tile_config(&x->b, param(x, 0));
    lb_tile_store(&x->b, 0, param(x, 3), stride(x, TILE_BYTES));
}

static void check_run(void (*build)(fixture *x), const config *c, int a, int b, int sums, const char *says) {
    static operands o;
    fixture x;
    open_function(&x);
    build(&x);
    lfunc_verify(x.f, &x.diag);
    const char *error = run_error(&x, c, &o, a, b, sums);
    if (!error != !says || (error && !strstr(error, says)))
        fail_msg("'%s' instead of '%s'", error ? error : "", says ? says : "");
    arena_destroy(x.arena);
}

static void wrong_runs_are_found(void **state) {
    (void)state;
    config good = config_for(5, 3, 7), c = good;
    check_run(build_bytes, &good, 5, 7, 5, NULL);
    check_run(build_bytes, &good, 4, 7, 5, "load out of bounds");
    check_run(build_bytes, &good, 5, 6, 5, "load out of bounds");
    check_run(build_bytes, &good, 5, 7, 4, "load out of bounds");
    check_run(store_over_a, &good, 16, 0, 0, "store to read-only memory");
    check_run(store_to_c, &good, 0, 0, 5, NULL);
    check_run(store_to_c, &good, 0, 0, 4, "store out of bounds");
    check_run(build_without_config, &good, 16, 16, 16, "a tile is not configured");
    check_run(zero_without_config, &good, 16, 16, 16, "the tile is not configured");
    check_run(load_without_config, &good, 16, 16, 16, "the tile is not configured");
    check_run(store_after_release, &good, 16, 16, 16, "the tile is not configured");
    check_run(third_tile, &good, 16, 16, 16, "the tile is not configured");
    set_shape(&c, 0, 6, 12);
    check_run(build_bytes, &c, 16, 16, 16, "the shapes of tiles do not match");
    set_shape(&c, 0, 5, 16);
    check_run(build_bytes, &c, 16, 16, 16, "the shapes of tiles do not match");
    c = good, set_shape(&c, 2, 8, 12);
    check_run(build_bytes, &c, 16, 16, 16, "the shapes of tiles do not match");
    c = good, set_shape(&c, 1, 5, 27);
    check_run(build_bytes, &c, 16, 16, 16, "the shapes of tiles do not match");
    c = good, set_shape(&c, 0, 5, 13), set_shape(&c, 2, 7, 13);
    check_run(build_bytes, &c, 16, 16, 16, "the shapes of tiles do not match");
}

static void wrong_configurations_are_found(void **state) {
    (void)state;
    config good = config_for(16, 16, 16), c = good;
    check_run(build_bytes, &good, 16, 16, 16, NULL);
    c.bytes[0] = 2;
    check_run(build_bytes, &c, 16, 16, 16, "a configuration of another palette");
    c = good, set_shape(&c, 1, 17, 64);
    check_run(build_bytes, &c, 16, 16, 16, "no shape of a tile");
    c = good, set_shape(&c, 1, 16, 65);
    check_run(build_bytes, &c, 16, 16, 16, "no shape of a tile");
    c = good, set_shape(&c, 1, 16, 256 + 64);
    check_run(build_bytes, &c, 16, 16, 16, "no shape of a tile");
    c = good, set_shape(&c, 1, 0, 64);
    check_run(build_bytes, &c, 16, 16, 16, "no shape of a tile");
    c = good, set_shape(&c, 1, 16, 0);
    check_run(build_bytes, &c, 16, 16, 16, "no shape of a tile");
    static const int reserved[] = {1, 2, 15, 32, 47, 56, 63};
    for (int i = 0; i < 7; i++) {
        c = good, c.bytes[reserved[i]] = 1;
        check_run(build_bytes, &c, 16, 16, 16, "a configuration with reserved bytes");
    }
}

// ---------------------------------------------------------------- this machine's tiles
typedef void native(const uint8_t *config, void *a, void *b, void *c);

// NULL: it has none.
static native *compiled(fixture *x) {
    if (!target_runs_here(x->arena, &x->diag, x->target) || !onnxc_rt_tiles()) return NULL;
    loaded *l = load_module(x->arena, &x->diag, x->module, NULL, 0);
    native *f = (native *)(uintptr_t)loaded_symbol(l, "f");
    assert_non_null(f);
    return f;
}

static const int shapes[][3] = {{16, 16, 16}, {1, 1, 1},  {1, 16, 16}, {16, 1, 16}, {16, 16, 1},
                                {7, 13, 5},   {13, 7, 9}, {15, 16, 3}, {2, 3, 16}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void fill_bytes(operands *o, uint32_t seed, int extreme) {
    uint8_t *p = (uint8_t *)o;
    static const uint8_t ends[] = {0, 127, 128, 255};
    for (size_t i = 0; i < sizeof *o; i++) p[i] = extreme ? ends[next(&seed) % 4] : (uint8_t)next(&seed);
}

static int64_t product_of_bytes(lop op, uint8_t x, uint8_t y) {
    bool left = op == L_TILE_SS8 || op == L_TILE_SU8, right = op == L_TILE_SS8 || op == L_TILE_US8;
    return (int64_t)(left ? (int8_t)x : x) * (right ? (int8_t)y : y);
}

// The sums of 32 bits, which wrap.
static void add_bytes(lop op, operands *o, int m, int n, int k) {
    for (int row = 0; row < m; row++)
        for (int column = 0; column < n; column++) {
            uint32_t sum;
            memcpy(&sum, &o->c[row][4 * column], 4);
            for (int i = 0; i < 4 * k; i++)
                sum += (uint32_t)product_of_bytes(op, o->a[row][i], o->b[i / 4][4 * column + i % 4]);
            memcpy(&o->c[row][4 * column], &sum, 4);
        }
}

static void check_bytes(lop op, const int *shape, uint32_t seed) {
    static operands want, got, here;
    fixture x;
    open_function(&x);
    build_product(&x, op);
    lfunc_verify(x.f, &x.diag);
    config c = config_for(shape[0], shape[1], shape[2]);
    fill_bytes(&want, seed, seed % 2);
    got = here = want;
    add_bytes(op, &want, shape[0], shape[1], shape[2]);
    const char *error = run_error(&x, &c, &got, shape[0], shape[2], shape[0]);
    if (error) fail_msg("%s", error);
    assert_memory_equal(&got, &want, sizeof want);
    native *f = compiled(&x);
    if (f) {
        f(c.bytes, here.a, here.b, here.c);
        assert_memory_equal(&here, &want, sizeof want);
    }
    arena_destroy(x.arena);
}

static void products_of_bytes(void **state) {
    (void)state;
    static const lop ops[] = {L_TILE_UU8, L_TILE_US8, L_TILE_SU8, L_TILE_SS8};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < SHAPES; j++) check_bytes(ops[i], shapes[j], (uint32_t)(2 * i + j));
}

// ---------------------------------------------------------------- bf16
// Kinds of operands: like weights; with denormal numbers and results; any bits, so that some are infinite or NaN.
typedef enum numbers { PLAIN, TINY, ANY, KINDS } numbers;

static uint16_t bf16_number(numbers kind, uint32_t *seed) {
    uint32_t u = next(seed), exponent = kind == PLAIN ? 120 + u % 14 : u % 130;
    if (kind == ANY) return (uint16_t)(u % 16 ? next(seed) & 0xbfff : next(seed));
    return (uint16_t)((next(seed) & 0x807f) | exponent << 7);
}

static void fill_bf16(operands *o, numbers kind, uint32_t seed) {
    for (int i = 0; i < TILE_ROWS; i++)
        for (int j = 0; j < TILE_BYTES; j += 2) {
            uint16_t a = bf16_number(kind, &seed), b = bf16_number(kind, &seed), c = bf16_number(kind, &seed);
            memcpy(&o->a[i][j], &a, 2), memcpy(&o->b[i][j], &b, 2), memcpy(&o->c[i][j], &c, 2);
        }
}

static double bf16_at(const uint8_t *p) {
    uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

static float f32_at(const uint8_t *p) {
    float v;
    memcpy(&v, p, 4);
    return v;
}

// Within the rounding of 2 k + 1 additions of f32.
static void check_near(const operands *old, const operands *got, int m, int n, int k) {
    for (int row = 0; row < m; row++)
        for (int column = 0; column < n; column++) {
            double want = f32_at(&old->c[row][4 * column]), size = fabs(want);
            for (int i = 0; i < 2 * k; i++) {
                double term = bf16_at(&old->a[row][2 * i]) * bf16_at(&old->b[i / 2][4 * column + i % 2 * 2]);
                want += term, size += fabs(term);
            }
            assert_true(fabs(f32_at(&got->c[row][4 * column]) - want) <= size * (2 * k + 1) * 0x1p-24);
        }
}

static void check_same_bits(const operands *x, const operands *y) {
    for (int row = 0; row < TILE_ROWS; row++)
        for (int j = 0; j < TILE_BYTES; j += 4) {
            float v = f32_at(&x->c[row][j]), w = f32_at(&y->c[row][j]);
            bool same = isnan(v) ? isnan(w) : !memcmp(&v, &w, sizeof v);
            if (!same) fail_msg("row %d, column %d: %a instead of %a", row, j / 4, v, w);
        }
}

static void check_bf16(const int *shape, numbers kind, uint32_t seed) {
    static operands old, got, here;
    fixture x;
    open_function(&x);
    build_product(&x, L_TILE_BF16);
    lfunc_verify(x.f, &x.diag);
    config c = config_for(shape[0], shape[1], shape[2]);
    fill_bf16(&old, kind, seed);
    got = here = old;
    const char *error = run_error(&x, &c, &got, shape[0], shape[2], shape[0]);
    if (error) fail_msg("%s", error);
    if (kind == PLAIN) check_near(&old, &got, shape[0], shape[1], shape[2]);
    native *f = compiled(&x);
    if (f) {
        f(c.bytes, here.a, here.b, here.c);
        check_same_bits(&got, &here);
    }
    arena_destroy(x.arena);
}

static void products_of_bf16(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int j = 0; j < SHAPES; j++)
            for (uint32_t seed = 1; seed <= 3; seed++) check_bf16(shapes[j], (numbers)kind, seed);
}

// One product of x and y onto a sum, as in the processor: denormal numbers are zeros.
static float one_product(float x, float y, float sum) {
    operands o = {0};
    uint32_t a, b;
    fixture f;
    open_function(&f);
    build_product(&f, L_TILE_BF16);
    memcpy(&a, &x, 4), memcpy(&b, &y, 4), memcpy(o.c, &sum, 4);
    a >>= 16, b >>= 16;
    memcpy(o.a, &a, 2), memcpy(o.b, &b, 2);
    config c = config_for(1, 1, 1);
    assert_null(run_error(&f, &c, &o, 1, 1, 1));
    arena_destroy(f.arena);
    return f32_at(o.c[0]);
}

static void denormal_numbers_are_zero(void **state) {
    (void)state;
    assert_true(one_product(0x1p-130f, 0x1p100f, 3) == 3);
    assert_true(one_product(0x1p-126f, 1, 0) == 0x1p-126f);
    assert_true(one_product(0x1p-126f, 0.5f, 0) == 0);
    assert_true(one_product(0, 0, 0x1p-127f) == 0);
    assert_true(isnan(one_product(INFINITY, 0, 1)));
    assert_true(isnan(one_product(NAN, 1, 1)));
    assert_true(one_product(INFINITY, -1, 1) == -INFINITY);
    assert_true(isnan(one_product(INFINITY, 1, -INFINITY)));
}

// ---------------------------------------------------------------- strides
// Tile 1 gets one row over and over, tile 3 the rows of a backwards; they are stored in every other row.
static void build_strides(fixture *x) {
    lbuild *b = &x->b;
    lb_tile_config(b, param(x, 0));
    lb_tile_load(b, 1, param(x, 1), stride(x, 0));
    lb_tile_load(b, 3, lb_offset(b, param(x, 1), stride(x, 3 * TILE_BYTES), 1), stride(x, -TILE_BYTES));
    lb_tile_store(b, 1, param(x, 3), stride(x, 2 * TILE_BYTES));
    lb_tile_store(b, 3, lb_offset(b, param(x, 3), stride(x, TILE_BYTES), 1), stride(x, 2 * TILE_BYTES));
    lb_tile_release(b);
    lb_return(b, NULL);
}

static void check_strides(const operands *old, const operands *got) {
    for (int row = 0; row < TILE_ROWS; row++) {
        const uint8_t *from = row >= 8 ? old->c[row] : row % 2 ? old->a[3 - row / 2] : old->a[0];
        size_t bytes = row % 2 ? TILE_BYTES : 12;
        assert_memory_equal(got->c[row], from, bytes);
        assert_memory_equal(got->c[row] + bytes, old->c[row] + bytes, TILE_BYTES - bytes);
    }
}

static void rows_lie_anywhere(void **state) {
    (void)state;
    static operands old, got;
    fixture x;
    open_function(&x);
    build_strides(&x);
    lfunc_verify(x.f, &x.diag);
    config c = {0};
    set_shape(&c, 1, 4, 12);
    set_shape(&c, 3, 4, TILE_BYTES);
    fill_bytes(&old, 5, 0);
    got = old;
    assert_null(run_error(&x, &c, &got, 4, 0, 8));
    check_strides(&old, &got);
    native *f = compiled(&x);
    if (f) {
        got = old;
        f(c.bytes, got.a, got.b, got.c);
        check_strides(&old, &got);
    }
    arena_destroy(x.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_print),        cmocka_unit_test(wrong_functions_are_caught),
        cmocka_unit_test(wrong_runs_are_found),      cmocka_unit_test(wrong_configurations_are_found),
        cmocka_unit_test(products_of_bytes),         cmocka_unit_test(products_of_bf16),
        cmocka_unit_test(denormal_numbers_are_zero), cmocka_unit_test(rows_lie_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
