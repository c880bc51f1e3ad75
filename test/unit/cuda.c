// Emitted CUDA text: on a CPU behind the shim, in three orders of threads, and through NVRTC and ptxas where
// they are installed. A barrier left out must show.
#include "codegen/c/cuda.h"
#include "codegen/c/prelude.h"
#include "codegen/gpu/gpu.h"
#include "ir/loops/loops_gpu.h"
#include "ir/target.h"
#include "test/build_graph.h"
#include "test/shim/cuda_shim.h"
#include "test/unit/text_fixture.h"

static const target gpu = {.arch = {.is_text = true, .is_gpu = true},
                           .ptr_bits = 64,
                           .f32 = true,
                           .f64 = true,
                           .fma = true,
                           .little_endian = true,
                           .fp = FP_DEFAULT,
                           .sm = 75};

static int set_up(void **state) { return set_up_for(state, &gpu); }

static const char *text_of(fixture *x) {
    text t = {.arena = x->a};
    sink s = sink_text(&t);
    jmp_buf buf;
    if (!DIAG_TRY(&x->d, buf)) fail_msg("the emitter failed");
    verify_all(x);
    cuda_write(x->m, &s, &x->d);
    return text_str(&t);
}

typedef int launcher(shim_dim3 grid, shim_dim3 block, shim_order order, uint64_t seed, void (*body)(void *),
                     void *args);

static void *load_text_on_shim(fixture *x, const char *s) {
    const char *path = workdir_write(x->dir, "test.cu", s, strlen(s));
    const char *compiler = have_program(x->a, "g++") ? "g++" : "clang++";
    if (!have_program(x->a, compiler)) skip();
    return compile_and_load(
        x->dir,
        arena_printf(x->a,
                     "%s -std=c++17 -O1 -Wall -Wextra -Werror -Wno-unknown-pragmas -Itest/shim -include "
                     "test/shim/cuda_shim.h -x c++",
                     compiler),
        arena_printf(x->a, "%s test/shim/cuda_shim.c", path));
}
static void *load_on_shim(fixture *x) { return load_text_on_shim(x, text_of(x)); }

// The kernel's parameters here are all pointers or int64_t.
typedef struct kernel_args {
    void (*f)(void *, void *, void *, int64_t, int64_t, int64_t);
    void *p[3];
    int64_t n[3];
} kernel_args;

static void call_kernel(void *args) {
    kernel_args *k = args;
    k->f(k->p[0], k->p[1], k->p[2], k->n[0], k->n[1], k->n[2]);
}

static int launch(void *dl, const char *name, shim_dim3 grid, shim_dim3 block, shim_order order,
                  kernel_args k) {
    launcher *go;
    void *f = find_function(dl, name), *g = find_function(dl, "shim_launch");
    memcpy(&k.f, &f, sizeof f);
    memcpy(&go, &g, sizeof g);
    return go(grid, block, order, 7, call_kernel, &k);
}

// ---------------------------------------------------------------- building

static lfunc *begin(fixture *x, const char *name, int64_t tx, int64_t ty) {
    lfunc *f = begin_kernel(x, name, nothing());
    f->threads[0] = tx, f->threads[1] = ty, f->threads[2] = 1;
    return f;
}

// shared[ty * 16 + tx] = row < rows && column < columns ? p[row * columns + column] : 0
static void fill_tile(fixture *x, ins *shared, ins *ty, ins *tx, ins *p, ins *row, ins *rows, ins *column,
                      ins *columns) {
    lbuild *b = &x->b;
    ins *v = lb_var(b, "v", lb_float(b, f32(), 0));
    ins *inside = lb_if(b, lb_bin(b, L_AND, lb_cmp(b, L_SLT, row, rows), lb_cmp(b, L_SLT, column, columns)));
    lb_set(b, v, lb_load(b, f32(), p, add(x, mul(x, row, columns), column), 0));
    lb_end(b, inside);
    lb_store(b, shared, add(x, mul(x, ty, idx(x, 16)), tx), lb_get(b, v), 0);
}

// C[M, N] = A[M, K] * B[K, N] in 16 x 16 tiles through shared memory; barriers: which of the two are there.
static void build_gemm(fixture *x, int barriers) {
    begin(x, "gemm", 16, 16);
    lbuild *b = &x->b;
    ins *A = ptr_in(x, "A", DT_F32), *B = ptr_in(x, "B", DT_F32), *C = ptr_out(x, "C", DT_F32);
    ins *M = num(x, "M"), *N = num(x, "N"), *K = num(x, "K");
    ins *tile_a = lb_local(b, LK_F32, 256, 16, true), *tile_b = lb_local(b, LK_F32, 256, 16, true);
    ins *by = lb_for(b, "row0", idx(x, 0), M, idx(x, 16), LOOP_GRID_Y);
    ins *bx = lb_for(b, "column0", idx(x, 0), N, idx(x, 16), LOOP_GRID_X);
    ins *ty = loop(x, "ty", idx(x, 16), LOOP_THREAD_Y), *tx = loop(x, "tx", idx(x, 16), LOOP_THREAD_X);
    ins *row = add(x, by, ty), *column = add(x, bx, tx), *acc = lb_var(b, "acc", lb_float(b, f32(), 0));
    ins *k0 = lb_for(b, "k0", idx(x, 0), K, idx(x, 16), LOOP_SERIAL);
    fill_tile(x, tile_a, ty, tx, A, row, M, add(x, k0, tx), K);
    fill_tile(x, tile_b, ty, tx, B, add(x, k0, ty), K, column, N);
    if (barriers & 1) lb_barrier(b);
    ins *k = loop(x, "k", idx(x, 16), LOOP_UNROLL);
    ins *u = lb_load(b, f32(), tile_a, add(x, mul(x, ty, idx(x, 16)), k), 0);
    ins *v = lb_load(b, f32(), tile_b, add(x, mul(x, k, idx(x, 16)), tx), 0);
    lb_set(b, acc, lb_muladd(b, u, v, lb_get(b, acc)));
    lb_end(b, k);
    if (barriers & 2) lb_barrier(b);
    lb_end(b, k0);
    ins *inside = lb_if(b, lb_bin(b, L_AND, lb_cmp(b, L_SLT, row, M), lb_cmp(b, L_SLT, column, N)));
    lb_store(b, C, add(x, mul(x, row, N), column), lb_get(b, acc), 0);
    lb_end(b, inside);
    lb_end(b, tx);
    lb_end(b, ty);
    lb_end(b, bx);
    lb_end(b, by);
}

// (1 + x / 64) ^ 64, near enough to exp for a test.
static ins *powers(fixture *x, ins *v) {
    lbuild *b = &x->b;
    v = lb_muladd(b, v, lb_float(b, f32(), 1.0 / 64), lb_float(b, f32(), 1));
    for (int i = 0; i < 6; i++) v = lb_bin(b, L_MUL, v, v);
    return v;
}

// The warp's combination of v: partners swap five times.
static ins *warp_reduce(fixture *x, lop op, ins *v) {
    for (int lane = 16; lane; lane /= 2) v = lb_bin(&x->b, op, v, lb_shfl_xor(&x->b, v, lane));
    return v;
}

// Of a block of 64 threads: each warp by shuffles, then both through shared memory.
static ins *block_reduce(fixture *x, lop op, ins *v, ins *t, ins *shared) {
    lbuild *b = &x->b;
    v = warp_reduce(x, op, v);
    lb_barrier(b);
    ins *first = lb_if(b, lb_cmp(b, L_EQ, lb_bin(b, L_SREM, t, idx(x, 32)), idx(x, 0)));
    lb_store(b, shared, lb_bin(b, L_SDIV, t, idx(x, 32)), v, 0);
    lb_end(b, first);
    lb_barrier(b);
    return lb_bin(b, op, lb_load(b, f32(), shared, idx(x, 0), 0), lb_load(b, f32(), shared, idx(x, 1), 0));
}

static void build_softmax(fixture *x) {
    begin(x, "softmax", 64, 1);
    lbuild *b = &x->b;
    ins *p = ptr_in(x, "x", DT_F32), *y = ptr_out(x, "y", DT_F32);
    lfunc_param(b->f, "unused", lt_ptr(), LK_F32, DT_F32, true);
    ins *rows = num(x, "rows"), *n = num(x, "n"), *shared = lb_local(b, LK_F32, 2, 0, true);
    ins *r = loop(x, "row", rows, LOOP_GRID_X), *t = loop(x, "t", idx(x, 64), LOOP_THREAD_X);
    ins *row = mul(x, r, n), *most = lb_var(b, "most", lb_float(b, f32(), -1e30)),
        *sum = lb_var(b, "sum", lb_float(b, f32(), 0));
    ins *i = lb_for(b, "i", t, n, idx(x, 64), LOOP_SERIAL);
    lb_set(b, most, lb_bin(b, L_FMAX, lb_load(b, f32(), p, add(x, row, i), 0), lb_get(b, most)));
    lb_end(b, i);
    ins *m = block_reduce(x, L_FMAX, lb_get(b, most), t, shared);
    i = lb_for(b, "i", t, n, idx(x, 64), LOOP_SERIAL);
    ins *e = powers(x, lb_bin(b, L_SUB, lb_load(b, f32(), p, add(x, row, i), 0), m));
    lb_store(b, y, add(x, row, i), e, 0);
    lb_set(b, sum, add(x, lb_get(b, sum), e));
    lb_end(b, i);
    ins *whole = block_reduce(x, L_ADD, lb_get(b, sum), t, shared);
    i = lb_for(b, "i", t, n, idx(x, 64), LOOP_SERIAL);
    lb_store(b, y, add(x, row, i), lb_bin(b, L_FDIV, lb_load(b, f32(), y, add(x, row, i), 0), whole), 0);
    lb_end(b, i);
    lb_end(b, t);
    lb_end(b, r);
}

// One thread an element: f16 -> f32 -> rounded, its root, back; a count and sums by atomic addition; dot
// products.
static void build_elements(fixture *x) {
    begin(x, "elements", 32, 1);
    lbuild *b = &x->b;
    ins *p = ptr_in(x, "x", DT_F16), *y = ptr_out(x, "y", DT_F16), *sums = ptr_out(x, "sums", DT_I64),
        *n = num(x, "n");
    ins *g = lb_for(b, "first", idx(x, 0), n, idx(x, 32), LOOP_GRID_X),
        *t = loop(x, "t", idx(x, 32), LOOP_THREAD_X);
    ins *i = add(x, g, t), *inside = lb_if(b, lb_cmp(b, L_SLT, i, n));
    ins *v = lb_conv(b, L_FEXT, LK_F32, lb_load(b, lt(LK_F16, 1), p, i, 0));
    v = lb_un(b, L_SQRT, lb_un(b, L_FABS, lb_un(b, L_RINT, v)));
    lb_store(b, y, i, lb_conv(b, L_FTRUNC, LK_F16, lb_bin(b, L_ADD, v, lb_un(b, L_FLOOR, v))), 0);
    lb_atomic_add(b, sums, idx(x, 0), lb_conv(b, L_ZEXT, LK_I64, lb_cmp(b, L_SLT, lb_float(b, f32(), 2), v)));
    ins *word = lb_conv(b, L_ITRUNC, LK_I32, mul(x, i, idx(x, 0x01020384)));
    ins *d = lb_dot(b, L_DOT4_US, lb_int(b, i32(), 1), word, word);
    d = lb_dot(b, L_DOT2, lb_dot(b, L_DOT4_SS, d, word, word), word, word);
    lb_atomic_add(b, sums, idx(x, 1), lb_conv(b, L_SEXT, LK_I64, d));
    lb_end(b, inside);
    lb_end(b, t);
    lb_end(b, g);
}

// More rounds than threads: they go on in steps of the block.
static void build_strides(fixture *x) {
    begin(x, "strides", 32, 1);
    ins *p = ptr_in(x, "x", DT_F32), *y = ptr_out(x, "y", DT_F32);
    lfunc_param(x->b.f, "z", lt_ptr(), LK_F32, DT_F32, false);
    ins *n = num(x, "n"), *i = lb_for(&x->b, "i", idx(x, 3), n, idx(x, 2), LOOP_THREAD_X);
    lb_store(&x->b, y, i, mul(x, lb_load(&x->b, f32(), p, i, 0), lb_float(&x->b, f32(), 2)), 0);
    lb_end(&x->b, i);
}

// ---------------------------------------------------------------- on the shim

enum { M = 35, N = 50, K = 41 };

// How many elements of the product come out wrong.
static int gemm_errors(void *dl, shim_order order) {
    static float a[M * K], b[K * N], c[M * N];
    int wrong = 0;
    for (int i = 0; i < M * K; i++) a[i] = (float)(i * 7 % 13 - 6);
    for (int i = 0; i < K * N; i++) b[i] = (float)(i * 5 % 11 - 5);
    memset(c, 0xff, sizeof c);
    kernel_args k = {.p = {a, b, c}, .n = {M, N, K}};
    assert_int_equal(launch(dl, "gemm", (shim_dim3){4, 3, 1}, (shim_dim3){16, 16, 1}, order, k), 0);
    for (int i = 0; i < M * N; i++) {
        float want = 0;
        for (int p = 0; p < K; p++) want += a[i / N * K + p] * b[p * N + i % N];
        wrong += c[i] != want;
    }
    return wrong;
}

static void gemm_is_right_in_every_order(void **state) {
    build_gemm(*state, 3);
    void *dl = load_on_shim(*state);
    for (int order = SHIM_FORWARD; order <= SHIM_PERMUTED; order++)
        assert_int_equal(gemm_errors(dl, order), 0);
    dlclose(dl);
}

static void missing_barriers_show(void **state) {
    fixture *x = *state;
    for (int left = 0; left < 3; left++) {
        int worst = 0;
        x->m = lmodule_new(x->a, "test", &gpu);
        build_gemm(x, left);
        void *dl = load_on_shim(x);
        for (int order = SHIM_FORWARD; order <= SHIM_PERMUTED; order++) {
            int wrong = gemm_errors(dl, order);
            if (wrong > worst) worst = wrong;
        }
        assert_true(worst > 0);
        dlclose(dl);
    }
}

static void softmax_is_right_in_every_order(void **state) {
    enum { ROWS = 3, COLUMNS = 150 };
    static float p[ROWS * COLUMNS], y[ROWS * COLUMNS];
    build_softmax(*state);
    void *dl = load_on_shim(*state);
    for (int i = 0; i < ROWS * COLUMNS; i++) p[i] = (float)(i * 37 % 101) / 25;
    for (int order = SHIM_FORWARD; order <= SHIM_PERMUTED; order++) {
        kernel_args k = {.p = {p, y, NULL}, .n = {ROWS, COLUMNS}};
        memset(y, 0xff, sizeof y);
        assert_int_equal(launch(dl, "softmax", (shim_dim3){ROWS, 1, 1}, (shim_dim3){64, 1, 1}, order, k), 0);
        for (int r = 0; r < ROWS; r++) {
            double most = 0, sum = 0;
            for (int i = 0; i < COLUMNS; i++) most = fmax(most, p[r * COLUMNS + i]);
            for (int i = 0; i < COLUMNS; i++) sum += pow(1 + (p[r * COLUMNS + i] - most) / 64, 64);
            for (int i = 0; i < COLUMNS; i++)
                assert_true(fabs(y[r * COLUMNS + i] - pow(1 + (p[r * COLUMNS + i] - most) / 64, 64) / sum) <
                            1e-6);
        }
    }
    dlclose(dl);
}

static void elements_are_exact(void **state) {
    enum { COUNT = 100 };
    uint16_t p[COUNT], y[COUNT];
    int64_t sums[2] = {0, 0}, count = 0, dots = 0;
    build_elements(*state);
    void *dl = load_on_shim(*state);
    for (int i = 0; i < COUNT; i++) dtype_store_float(DT_F16, p, i, i * 0.37 - 9, false);
    kernel_args k = {.p = {p, y, sums}, .n = {COUNT}};
    assert_int_equal(launch(dl, "elements", (shim_dim3){4, 1, 1}, (shim_dim3){32, 1, 1}, SHIM_PERMUTED, k),
                     0);
    for (int i = 0; i < COUNT; i++) {
        uint16_t want;
        float v = sqrtf(fabsf(rintf((float)dtype_load_float(DT_F16, p, i))));
        dtype_store_float(DT_F16, &want, 0, v + floorf(v), false);
        assert_int_equal(y[i], want);
        count += v > 2;
        uint32_t w = (uint32_t)i * 0x01020384u;
        dots += 1 + (int16_t)w * (int16_t)w + (int16_t)(w >> 16) * (int16_t)(w >> 16);
        for (int s = 0; s < 32; s += 8)
            dots += (uint8_t)(w >> s) * (int8_t)(w >> s) + (int8_t)(w >> s) * (int8_t)(w >> s);
    }
    assert_int_equal(sums[0], count);
    assert_int_equal(sums[1], dots);
    dlclose(dl);
}

static void threads_go_on_in_strides(void **state) {
    float p[150], y[150] = {0};
    build_strides(*state);
    void *dl = load_on_shim(*state);
    for (int i = 0; i < 150; i++) p[i] = (float)i;
    kernel_args k = {.p = {p, y, NULL}, .n = {149}};
    assert_int_equal(launch(dl, "strides", (shim_dim3){1, 1, 1}, (shim_dim3){32, 1, 1}, SHIM_REVERSE, k), 0);
    for (int i = 0; i < 150; i++) assert_true(y[i] == (i >= 3 && i < 149 && i % 2 ? 2 * p[i] : 0));
    dlclose(dl);
}

// ---------------------------------------------------------------- tensor cores

#define MMA(a, b, m, k) {GPU_MMA, a, b, m, 8, k}
static const gpu_ins mmas[] = {
    MMA(DT_F16, DT_F16, 16, 8),    MMA(DT_I8, DT_I8, 8, 16),   MMA(DT_F16, DT_F16, 16, 16),
    MMA(DT_BF16, DT_BF16, 16, 16), MMA(DT_F32, DT_F32, 16, 8), MMA(DT_I8, DT_I8, 16, 32),
    MMA(DT_U8, DT_I8, 16, 32),
};
enum { MMAS = sizeof mmas / sizeof *mmas };

// Registers of all threads lie one thread after the other: d += a * b on them.
static void build_mma(fixture *x, const gpu_ins *t) {
    begin(x, arena_printf(x->a, "test_%s", gpu_ins_name(x->a, t)), 32, 1);
    lbuild *b = &x->b;
    bool floats = t->b != DT_I8;
    int per = 32 / dtype_bits(t->a), n[3] = {t->m / 4, t->m * t->k / per / 32, 8 * t->k / per / 32};
    ins *mem[3], *regs[3];
    mem[0] = ptr_out(x, "d", floats ? DT_F32 : DT_I32);
    for (int i = 1; i < 3; i++) mem[i] = ptr_in(x, i == 1 ? "a" : "b", DT_U32);
    ins *lane = loop(x, "lane", idx(x, 32), LOOP_THREAD_X);
    for (int i = 0; i < 3; i++) {
        lkind k = i == 0 && floats ? LK_F32 : LK_I32;
        regs[i] = lb_local(b, k, n[i], 0, false);
        for (int r = 0; r < n[i]; r++)
            lb_store(b, regs[i], idx(x, r),
                     lb_load(b, lt(k, 1), mem[i], add(x, mul(x, lane, idx(x, n[i])), idx(x, r)), 0), 0);
    }
    lb_gpu(b, *t, regs);
    for (int r = 0; r < n[0]; r++)
        lb_store(b, mem[0], add(x, mul(x, lane, idx(x, n[0])), idx(x, r)),
                 lb_load(b, floats ? f32() : i32(), regs[0], idx(x, r), 0), 0);
    lb_end(b, lane);
}

// As the PTX ISA numbers them: element e of a thread's part of a.
static void place_a(const gpu_ins *t, int lane, int e, int *row, int *column) {
    int bits = dtype_bits(t->a), group = lane / 4, in = lane % 4;
    if (bits == 32) {
        *row = e % 2 ? group + 8 : group;
        *column = e < 2 ? in : in + 4;
    } else if (bits == 16) {
        *row = e < 2 || (e >= 4 && e < 6) ? group : group + 8;
        *column = in * 2 + (e & 1) + (e >= 4 ? 8 : 0);
    } else {
        *row = t->m == 8 || e < 4 || (e >= 8 && e < 12) ? group : group + 8;
        *column = in * 4 + (e & 3) + (e >= 8 ? 16 : 0);
    }
}

static void place_b(const gpu_ins *t, int lane, int e, int *row, int *column) {
    int bits = dtype_bits(t->a), per = 32 / bits;
    *row = lane % 4 * per + e % per + e / per * 4 * per;
    *column = lane / 4;
}

static void put(dtype t, void *to, int i, int v) {
    if (dtype_is_float(t)) dtype_store_float(t, to, i, v, false);
    else dtype_store_int(t, to, i, v);
}

static void check_mma(fixture *x, void *dl, const gpu_ins *t) {
    int a[16][32], b[32][8], na = t->m * t->k / 32, nb = 8 * t->k / 32, nd = t->m / 4, row, column;
    uint32_t ra[32 * 4], rb[32 * 2], d[32 * 4];
    bool floats = t->b != DT_I8;
    for (int i = 0; i < 16 * 32; i++) a[i / 32][i % 32] = i * 7 % 23 - (t->a == DT_U8 ? 0 : 11);
    for (int i = 0; i < 32 * 8; i++) b[i / 8][i % 8] = i * 5 % 19 - 9;
    for (int lane = 0; lane < 32; lane++) {
        for (int e = 0; e < na; e++)
            place_a(t, lane, e, &row, &column), put(t->a, ra, lane * na + e, a[row][column]);
        for (int e = 0; e < nb; e++)
            place_b(t, lane, e, &row, &column), put(t->b, rb, lane * nb + e, b[row][column]);
        for (int e = 0; e < nd; e++) put(floats ? DT_F32 : DT_I32, d, lane * nd + e, 1000 + e);
    }
    kernel_args k = {.p = {d, ra, rb}};
    const char *name = arena_printf(x->a, "test_%s", gpu_ins_name(x->a, t));
    assert_int_equal(launch(dl, name, (shim_dim3){1, 1, 1}, (shim_dim3){32, 1, 1}, SHIM_PERMUTED, k), 0);
    for (int i = 0; i < 32 * nd; i++) {
        int lane = i / nd, e = i % nd, want = 1000 + e;
        for (int p = 0; p < t->k; p++)
            want += a[lane / 4 + (e > 1 ? 8 : 0)][p] * b[p][lane % 4 * 2 + (e & 1)];
        assert_true((floats ? dtype_load_float(DT_F32, d, i) : (double)dtype_load_int(DT_I32, d, i)) == want);
    }
}

static void tensor_cores_multiply(void **state) {
    for (int i = 0; i < MMAS; i++) build_mma(*state, &mmas[i]);
    void *dl = load_on_shim(*state);
    for (int i = 0; i < MMAS; i++) check_mma(*state, dl, &mmas[i]);
    dlclose(dl);
}

// ---------------------------------------------------------------- the text

static void text_reads_well(void **state) {
    fixture *x = *state;
    build_gemm(x, 3);
    build_elements(x);
    const char *s = text_of(x);
    assert_non_null(strstr(s, "extern \"C\" __global__ __launch_bounds__(256) void gemm("));
    assert_non_null(strstr(s, "    __shared__ __align__(16) float tile[256];\n"));
    assert_non_null(strstr(s, "int64_t row0 = (int64_t)blockIdx.y * 16;\n    if (row0 < M) {\n"));
    assert_non_null(strstr(s, "int64_t ty = (int64_t)threadIdx.y;\n"));
    assert_non_null(strstr(s, "#pragma unroll\n"));
    assert_non_null(strstr(s, "__syncthreads();\n"));
    for (const char *p = s, *e; (e = strchr(p, '\n')); p = e + 1) assert_true(e - p <= 110);
}

static void barriers_in_guarded_loops_are_refused(void **state) {
    fixture *x = *state;
    begin(x, "bad", 64, 1);
    ins *t = loop(x, "t", num(x, "n"), LOOP_THREAD_X);
    lb_barrier(&x->b);
    lb_end(&x->b, t);
    text out = {.arena = x->a};
    sink s = sink_text(&out);
    jmp_buf buf;
    if (DIAG_TRY(&x->d, buf)) {
        cuda_write(x->m, &s, &x->d);
        fail_msg("a barrier that some threads miss was taken");
    }
    assert_int_equal(x->d.class, DIAG_DEFECT);
    assert_int_equal(out.n, 0);
}

// ---------------------------------------------------------------- NVRTC and ptxas

static void assemble(fixture *x, const char *ptx, int sm) {
    const char *ptxas = find_ptxas(x->a), *path = workdir_write(x->dir, "test.ptx", ptx, strlen(ptx));
    if (!ptxas) return;
    const char *command =
        arena_printf(x->a, "%s -arch=sm_%d -o %s/test.cubin %s", ptxas, sm, x->dir.path, path);
    if (system(command) != 0) fail_msg("%s", command);
}

static void ptx_for_every_arch(fixture *x, const nvrtc *n, int from, const char *kernel) {
    static const int archs[] = {75, 80, 90};
    const char *s = text_of(x);
    jmp_buf buf;
    if (!DIAG_TRY(&x->d, buf)) fail_msg("NVRTC failed");
    for (int i = 0; i < 3; i++) {
        if (archs[i] < from || !nvrtc_knows(n, archs[i])) continue;
        const char *ptx = nvrtc_ptx(n, x->a, "test", s, archs[i], &x->d);
        assert_non_null(strstr(ptx, arena_printf(x->a, ".entry %s(", kernel)));
        assemble(x, ptx, archs[i]);
        nvrtc_made made = nvrtc_cubin(n, x->a, "test", s, archs[i], false, &x->d);
        assert_true(made.size > 64 && !memcmp(made.code,
                                              "\x7f"
                                              "ELF",
                                              4));
        const gpu_use *uses = gpu_read_uses(x->m, made.log);
        for (int j = 0; j < x->m->funcs.n; j++) assert_in_range(uses[j].registers, 4, 255);
    }
}

// All snippets; a kernel refers to each function, so that its instructions are assembled.
static void every_snippet_compiles(void **state) {
    fixture *x = *state;
    text kernel = {.arena = x->a};
    text_add(&kernel, "#ifdef __CUDACC__\nextern \"C\" __global__ void all(const void *volatile *to) {\n");
    for (const prelude_snippet *p = prelude_snippets; p->name; p++)
        if (strstr(p->cuda ? p->cuda : p->c, "INLINE"))
            text_printf(&kernel, "    *to = (const void *)ox_%s;\n", p->name);
    text_add(&kernel, "}\n#endif\n");
    const char *s = prelude_text(x->a, true, "ox_", NULL, text_str(&kernel));
    dlclose(load_text_on_shim(x, s));
    nvrtc *n = nvrtc_open(x->a, NULL, NULL);
    if (!n) skip();
    jmp_buf buf;
    if (!DIAG_TRY(&x->d, buf)) fail_msg("NVRTC failed");
    for (int i = 0; i < 4; i++) {
        int arch = (const int[]){75, 80, 90, 90}[i];
        if (nvrtc_knows(n, arch)) assert_true(nvrtc_cubin(n, x->a, "test", s, arch, i == 3, &x->d).size > 64);
    }
}

static void expect_use(const gpu_use *u, int registers, int stack, int spilled, int shared) {
    assert_int_equal(u->registers, registers);
    assert_int_equal(u->stack, stack);
    assert_int_equal(u->spilled, spilled);
    assert_int_equal(u->shared, shared);
}

static void uses_are_read(void **state) {
    fixture *x = *state;
    build_softmax(x);
    build_elements(x);
    const char *first = x->m->funcs.at[0]->name, *second = x->m->funcs.at[1]->name;
    const char *said = arena_printf(
        x->a,
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function '%s' for 'sm_80'\n"
        "ptxas info    : Function properties for %s\n"
        "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 72 registers, used 1 barriers, 9216 bytes smem, 392 bytes cmem[0]\n"
        "ptxas info    : Function properties for %s_not\n"
        "    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Function properties for %s\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 14 registers, 376 bytes cmem[0]",
        first, first, first, second);
    const gpu_use *uses = gpu_read_uses(x->m, said);
    expect_use(&uses[0], 72, 8, 16, 9216);
    expect_use(&uses[1], 14, 0, 0, 0);
    uses = gpu_read_uses(x->m, "nothing of use\n\n bytes smem");
    assert_int_equal(uses[0].registers + uses[0].shared, 0);
}

static void ptx_is_accepted(void **state) {
    fixture *x = *state;
    nvrtc *n = nvrtc_open(x->a, NULL, NULL);
    if (!n) skip();
    build_gemm(x, 3);
    build_softmax(x);
    build_elements(x);
    build_mma(x, &mmas[0]);
    build_mma(x, &mmas[1]);
    ptx_for_every_arch(x, n, 75, "softmax");
    x->m = lmodule_new(x->a, "test", &gpu);
    for (int i = 2; i < MMAS; i++) build_mma(x, &mmas[i]);
    ptx_for_every_arch(x, n, 80, "test_mma_m16n8k32_u8s8");
}

// p1[t] = p0[t] * p0[t] + p0[t], as one operation or two.
static void build_muladd(fixture *x, const char *name, bool fused) {
    begin(x, name, 32, 1);
    lbuild *b = &x->b;
    ins *p = ptr_in(x, "p", DT_F32), *y = ptr_out(x, "y", DT_F32),
        *t = loop(x, "t", idx(x, 32), LOOP_THREAD_X);
    ins *v = lb_load(b, f32(), p, t, 0);
    lb_store(b, y, t, fused ? lb_muladd(b, v, v, v) : add(x, mul(x, v, v), v), 0);
    lb_end(b, t);
}

static void ptx_fuses_muladd_only(void **state) {
    fixture *x = *state;
    nvrtc *n = nvrtc_open(x->a, NULL, NULL);
    if (!n) skip();
    for (int fused = 0; fused < 2; fused++) {
        x->m = lmodule_new(x->a, "test", &gpu);
        build_muladd(x, "kernel", fused);
        const char *s = text_of(x), *ptx;
        jmp_buf jump;
        if (!DIAG_TRY(&x->d, jump)) fail_msg("NVRTC failed");
        ptx = nvrtc_ptx(n, x->a, "test", s, n->archs[0], &x->d);
        assert_int_equal(strstr(ptx, "fma.rn.f32") != NULL, fused);
        // ptxas fuses these unless their rounding is spelled out.
        assert_int_equal(strstr(ptx, "mul.rn.f32") && strstr(ptx, "add.rn.f32"), !fused);
    }
}

static void nvrtc_errors_are_reported(void **state) {
    fixture *x = *state;
    assert_null(nvrtc_open(x->a, "/nowhere", &x->d));
    assert_int_equal(x->d.class, DIAG_MISSING);
    nvrtc *n = nvrtc_open(x->a, NULL, NULL);
    if (!n) skip();
    jmp_buf buf;
    if (DIAG_TRY(&x->d, buf)) {
        nvrtc_ptx(n, x->a, "test", "", 12, &x->d);
        fail_msg("sm_12 was taken");
    }
    if (DIAG_TRY(&x->d, buf)) {
        nvrtc_ptx(n, x->a, "test", "no C", n->archs[0], &x->d);
        fail_msg("nonsense was taken");
    }
    assert_int_equal(x->d.class, DIAG_DEFECT);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(gemm_is_right_in_every_order),
        TEST(missing_barriers_show),
        TEST(softmax_is_right_in_every_order),
        TEST(elements_are_exact),
        TEST(threads_go_on_in_strides),
        TEST(tensor_cores_multiply),
        TEST(text_reads_well),
        TEST(barriers_in_guarded_loops_are_refused),
        TEST(every_snippet_compiles),
        TEST(ptx_is_accepted),
        TEST(uses_are_read),
        TEST(ptx_fuses_muladd_only),
        TEST(nvrtc_errors_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
