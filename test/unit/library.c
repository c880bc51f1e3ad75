// Library functions of runtime-lite, called as emitted code calls them: orders, ties, ends of the ranges.
#include "ir/kernel/library.h"
#include "ir/ops/text/string.h"
#include "runtime-lite/lib/lib_types.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
// after the headers that it needs
#include <cmocka.h>

enum { F32 = 1, I32 = 6, I64 = 7, F64 = 11, MOST = 512 };

static void topk(const float *x, int64_t n, int64_t k, int largest, int64_t *indices) {
    float values[MOST];
    int64_t scratch[6 * MOST];
    void *data[] = {values, indices, scratch, (void *)x};
    assert_int_equal(onnxc_lib_topk(NULL, data, (int64_t[]){F32, 1, n, 1, k, largest}), 0);
    for (int64_t i = 0; i < k; i++) assert_memory_equal(&values[i], &x[indices[i]], sizeof *x);
}

// NaN is above infinity, zeros of both signs are one value, equal values come in order.
static void topk_orders(void **state) {
    const float x[] = {0.0f, NAN, -0.0f, INFINITY, -INFINITY, 1, NAN, 0.0f};
    static const int64_t down[] = {1, 6, 3, 5, 0, 2, 7, 4}, up[] = {4, 0, 2, 7, 5, 3, 1, 6};
    int64_t indices[8];
    (void)state;
    for (int64_t k = 0; k <= 8; k++) {
        topk(x, 8, k, 1, indices);
        assert_memory_equal(indices, down, (size_t)k * sizeof *indices);
        topk(x, 8, k, 0, indices);
        assert_memory_equal(indices, up, (size_t)k * sizeof *indices);
    }
}

// Whether few are selected or all sorted, the front is the same.
static void topk_selects_as_it_sorts(void **state) {
    float x[MOST];
    int64_t all[MOST], some[MOST];
    (void)state;
    for (int largest = 0; largest < 2; largest++)
        for (int every = 3; every < 4 * MOST; every *= 7) { // NaNs: more, as many and fewer than are selected
            for (int i = 0; i < MOST; i++) x[i] = i % every ? (float)(i * 7919 % 101 - 50) : NAN;
            topk(x, MOST, MOST, largest, all);
            for (int64_t k = 1; k < MOST; k = k + 1 + k / 3) {
                topk(x, MOST, k, largest, some);
                assert_memory_equal(some, all, (size_t)k * sizeof *some);
            }
        }
}

// Elements of any type and distance are selected as the first of them in order.
static void topk_selects_from_columns(void **state) {
    enum { N = 150, COLUMNS = 3, ALL = N * COLUMNS, FEW = 7 };
    static const int64_t types[] = {F32, F64, I32, I64};
    static float f[ALL];
    static double d[ALL];
    static int32_t w[ALL];
    static int64_t l[ALL], whole[ALL], few[COLUMNS * FEW], scratch[6 * N];
    void *const x[] = {f, d, w, l};
    (void)state;
    for (int j = 0; j < ALL; j++) {
        int64_t v = j * 7919 % 101 - 50;
        f[j] = j % 31 ? (float)v : NAN, d[j] = j % 29 ? (double)v : NAN, w[j] = (int32_t)v, l[j] = v;
    }
    for (int t = 0; t < 4; t++)
        for (int largest = 0; largest < 2; largest++) {
            onnxc_lib_topk(NULL, (void *[]){NULL, whole, scratch, x[t]},
                           (int64_t[]){types[t], 1, N, COLUMNS, N, largest});
            onnxc_lib_topk(NULL, (void *[]){NULL, few, scratch, x[t]},
                           (int64_t[]){types[t], 1, N, COLUMNS, FEW, largest});
            assert_memory_equal(few, whole, sizeof few);
        }
}

// Integers of any width, signed or not, and floats of 16 bits, NaN too, of which many are equal, side by side and in columns.
static void topk_selects_short_types(void **state) {
    enum { ALL = 450, FEW = 7 };
    // uint8 to int64, uint32, uint64, float16, bfloat16
    static const int64_t types[] = {2, 3, 4, 5, 6, 7, 12, 13, 10, 16};
    static uint64_t x[ALL];
    static int64_t whole[ALL], few[3 * FEW], scratch[6 * ALL];
    (void)state;
    for (int j = 0; j < ALL; j++) x[j] = (uint64_t)(j * 7919 % 101) * 0xf731d9b5a2468ce1u;
    for (int j = 0; j < 40; j++) {
        int64_t type = types[j / 4], largest = j & 1, columns = j & 2 ? 3 : 1, n = ALL / columns;
        onnxc_lib_topk(NULL, (void *[]){NULL, whole, scratch, x},
                       (int64_t[]){type, 1, n, columns, n, largest});
        onnxc_lib_topk(NULL, (void *[]){NULL, few, scratch, x},
                       (int64_t[]){type, 1, n, columns, FEW, largest});
        assert_memory_equal(few, whole, (size_t)(columns * FEW) * sizeof *few);
    }
}

// The first of many, which are looked for among those below a bound, also where the samples of the bound are not like the others.
static void topk_of_many(void **state) {
    enum { MANY = 5000, STEP = 9 };
    static float x[MANY];
    static int64_t whole[MANY], some[MANY], scratch[6 * MANY];
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        int64_t largest = kind & 1, pattern = kind / 2;
        for (int i = 0; i < MANY; i++) x[i] = (float)(i * 7919 % (pattern == 3 ? 7 : 3001) - 1500);
        for (int i = 0; i < MANY && (pattern == 1 || pattern == 2); i += STEP)
            x[i] = pattern == 1 ? 9999.0f + (float)i : i % 2 ? NAN : -9999.0f;
        onnxc_lib_topk(NULL, (void *[]){NULL, whole, scratch, x},
                       (int64_t[]){F32, 1, MANY, 1, MANY, largest});
        for (int64_t k = 313; k <= MANY; k += 521) {
            onnxc_lib_topk(NULL, (void *[]){NULL, some, scratch, x},
                           (int64_t[]){F32, 1, MANY, 1, k, largest});
            assert_memory_equal(some, whole, (size_t)k * sizeof *some);
        }
    }
}

// Keys of eight bytes, of which any may be the same in all, or all of them.
static void topk_of_long_keys(void **state) {
    static int64_t x[MOST], values[MOST], indices[MOST], scratch[4 * MOST];
    (void)state;
    for (int bits = 0; bits <= 64; bits += 4)
        for (int64_t k = MOST / 10; k <= MOST; k += MOST / 10) {
            uint64_t number = 1;
            bool taken[MOST] = {false};
            for (int i = 0; i < MOST; i++) {
                number = number * 6364136223846793005u + 1442695040888963407u;
                x[i] = bits ? (int64_t)(number >> (64 - bits) << (bits < 32 ? 28 : 0)) : 7;
            }
            void *data[] = {values, indices, scratch, x};
            assert_int_equal(onnxc_lib_topk(NULL, data, (int64_t[]){I64, 1, MOST, 1, k, 1}), 0);
            for (int64_t i = 0; i < k; i++) {
                assert_false(taken[indices[i]]);
                taken[indices[i]] = true;
                assert_true(values[i] == x[indices[i]]);
                if (i)
                    assert_true(values[i - 1] > values[i] ||
                                (values[i - 1] == values[i] && indices[i - 1] < indices[i]));
            }
            for (int i = 0; i < MOST; i++)
                assert_true(taken[i] || x[i] < values[k - 1] ||
                            (x[i] == values[k - 1] && i > indices[k - 1]));
        }
}

// Numbers in blocks and the last ones, below, among and above any number of keys, NaN too.
static void numbers_are_found(void **state) {
    enum { N = 61, KEYS = 20 };
    int64_t keys[KEYS], x[N], out[N];
    double f[KEYS], y[N];
    (void)state;
    for (int i = 0; i < KEYS; i++) keys[i] = i < 2 ? INT64_MIN + i : 3 * i - 20, f[i] = 0.5 * (double)i;
    for (int i = 0; i < N; i++) x[i] = i ? i - 25 : INT64_MIN, y[i] = i % 7 ? 0.25 * (i - 5) : NAN;
    f[KEYS - 1] = NAN;
    for (int64_t m = 0; m <= KEYS; m++)
        for (int64_t n = 0; n <= N; n++) {
            void *whole[] = {out, x, keys, NULL}, *floats[] = {out, y, f, NULL};
            assert_int_equal(onnxc_lib_number_find(NULL, whole, (int64_t[]){I64, n, m}), 0);
            for (int64_t i = 0, at; i < n; i++) {
                for (at = m - 1; at >= 0 && keys[at] != x[i];) at--;
                assert_int_equal(out[i], at);
            }
            assert_int_equal(onnxc_lib_number_find(NULL, floats, (int64_t[]){F64, n, m}), 0);
            for (int64_t i = 0, at; i < n; i++) {
                for (at = m - 1; at >= 0 && f[at] != y[i] && !(isnan(f[at]) && isnan(y[i]));) at--;
                assert_int_equal(out[i], at);
            }
        }
}

static uint64_t same_hash(const void *user, uint64_t seed, int64_t key) {
    (void)user, (void)key;
    return seed;
}

// Files may have keys whose hashes are equal with each seed.
static void equal_hashes_have_no_slots(void **state) {
    arena *a = arena_new();
    (void)state;
    assert_null(slots_constant(a, 2, same_hash, NULL));
    assert_non_null(slots_constant(a, 1, same_hash, NULL));
    assert_non_null(slots_constant(a, 0, same_hash, NULL));
    arena_destroy(a);
}

static void unique_counts(void **state) {
    const int64_t x[] = {5, -1, 5, INT64_MIN, -1, 5};
    int64_t first[6], counts[6], inverse[6], total, scratch[48];
    void *data[] = {first, counts, inverse, &total, scratch, (void *)x};
    (void)state;
    onnxc_lib_unique(NULL, data, (int64_t[]){I64, 1, 6, 1, 1});
    assert_int_equal(total, 3);
    assert_memory_equal(first, ((int64_t[]){3, 1, 0}), 3 * sizeof *first);
    assert_memory_equal(counts, ((int64_t[]){1, 2, 3}), 3 * sizeof *counts);
    assert_memory_equal(inverse, ((int64_t[]){2, 1, 2, 0, 1, 2}), sizeof inverse);
    onnxc_lib_unique(NULL, data, (int64_t[]){I64, 1, 6, 1, 0});
    assert_memory_equal(first, ((int64_t[]){0, 1, 3}), 3 * sizeof *first);
    assert_memory_equal(inverse, ((int64_t[]){0, 1, 0, 2, 1, 0}), sizeof inverse);
    onnxc_lib_unique(NULL, data, (int64_t[]){I64, 1, 0, 1, 1});
    assert_int_equal(total, 0);
}

static double wave(int64_t turn, int64_t n, int quarter) {
    return cos(6.28318530717958647692 * (double)(turn % n) / (double)n - 1.57079632679489661923 * quarter);
}

// The largest difference from the definition, for two signals of each of `inner` places.
static double fourier_error(int64_t n, int64_t inner, int64_t lanes, int inverse) {
    enum { MOST = 2 * 3 * 96 };
    static double x[2][MOST], y[2][MOST], scratch[96 * (14 + 12 * 4)];
    int64_t kept = n / 2 + 1;
    double worst = 0;
    for (int64_t i = 0; i < 2 * n * inner; i++)
        x[0][i] = wave(i * i, 101, 0), x[1][i] = inverse ? wave(i * i * i, 97, 1) : 0;
    onnxc_lib_fourier(NULL, (void *[]){y[0], y[1], scratch, x[0], inverse ? x[1] : NULL},
                      (int64_t[]){F64, 2, n, inner, kept, inverse, lanes});
    for (int64_t at = 0; at < 2 * kept * inner; at++) {
        int64_t k = at / inner % kept, from = at / inner / kept * n * inner + at % inner;
        double re = 0, im = 0;
        for (int64_t i = 0; i < n; i++) {
            double a = x[0][from + i * inner], b = x[1][from + i * inner];
            double c = wave(i * k, n, 0), s = wave(i * k, n, 1) * (inverse ? 1 : -1);
            re += a * c - b * s, im += a * s + b * c;
        }
        worst = fmax(worst, fmax(fabs(y[0][at] - re), fabs(y[1][at] - im)));
    }
    return worst;
}

static void fourier_of_all_lengths(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 96; n++)
        for (int64_t inner = 1; inner <= 3; inner += 2)
            for (int64_t lanes = 1; lanes <= 4; lanes += 3)
                for (int inverse = 0; inverse < 2; inverse++)
                    assert_true(fourier_error(n, inner, lanes, inverse) < 1e-13 * (double)n);
}

// A box of no area overlaps nothing; NaN as a score is not above any threshold.
static void nms_edges(void **state) {
    const float boxes[] = {0, 0, 1, 1, 0, 0, 1, 1, 0.5f, 0.5f, 0.5f, 0.5f, 1, 1, 0, 0}, iou = 0.5f,
                score = 0.1f;
    const float scores[] = {0.9f, NAN, 0.8f, 0.9f};
    int64_t chosen[12], total, scratch[16];
    void *data[] = {chosen, &total, scratch, (void *)boxes, (void *)scores, (void *)&iou, (void *)&score};
    (void)state;
    onnxc_lib_nms(NULL, data, (int64_t[]){1, 1, 4, 4, 0});
    assert_int_equal(total, 2);
    assert_memory_equal(chosen, ((int64_t[]){0, 0, 0, 0, 0, 2}), 6 * sizeof *chosen);
    onnxc_lib_nms(NULL, data, (int64_t[]){1, 1, 4, 0, 0});
    assert_int_equal(total, 0);
}

// Few of many boxes leave a heap in the order in which all are sorted, equal scores by index.
static void nms_of_few_is_a_part_of_all(void **state) {
    enum { N = 400, FEW = 9 };
    static float boxes[4 * N], scores[N], iou = 0.3f;
    static int64_t all[3 * N], few[3 * FEW], scratch[4 * N];
    int64_t total;
    (void)state;
    for (int j = 0; j < N; j++) {
        float x = (float)(j * 37 % 101), y = (float)(j * 61 % 89), size = (float)(5 + j % 20);
        memcpy(boxes + 4 * j, (float[]){x, y, x + size, y + size}, 4 * sizeof *boxes);
        scores[j] = (float)(j * 53 % 17);
    }
    void *data[] = {all, &total, scratch, boxes, scores, &iou, NULL};
    onnxc_lib_nms(NULL, data, (int64_t[]){1, 1, N, N, 0});
    assert_in_range(total, FEW, N - 1);
    data[0] = few;
    onnxc_lib_nms(NULL, data, (int64_t[]){1, 1, N, FEW, 0});
    assert_int_equal(total, FEW);
    assert_memory_equal(few, all, sizeof few);
}

// Sequences never change: two that grow from the same one do not see each other's items.
static int64_t grown(void **made, int64_t sequence, int64_t number) {
    int64_t item, out;
    onnxc_lib_value_new(made, (void *[]){&item, &number}, (int64_t[]){I64, 0});
    onnxc_lib_sequence_insert(made, (void *[]){&out, &sequence, &item, NULL}, (int64_t[]){I64});
    return out;
}

static int64_t number_at(void **made, int64_t sequence, int64_t position) {
    int64_t item, number;
    if (onnxc_lib_sequence_at(made, (void *[]){&item, &sequence, &position}, (int64_t[]){I64})) return -1;
    onnxc_lib_value_read(made, (void *[]){&number, &item}, NULL);
    return number;
}

static void sequences_do_not_change(void **state) {
    void *made = NULL;
    int64_t empty, length;
    (void)state;
    onnxc_lib_sequence_new(&made, (void *[]){&empty}, (int64_t[]){0});
    int64_t base = empty;
    for (int64_t i = 0; i < 100; i++) base = grown(&made, base, i);
    int64_t left = grown(&made, base, 1000), right = grown(&made, base, 2000),
            more = grown(&made, left, 1001);
    onnxc_lib_sequence_length(&made, (void *[]){&length, &base}, NULL);
    assert_int_equal(length, 100);
    assert_int_equal(number_at(&made, base, 100), -1);
    assert_int_equal(number_at(&made, left, 100), 1000);
    assert_int_equal(number_at(&made, right, -1), 2000);
    assert_int_equal(number_at(&made, more, 100), 1000);
    assert_int_equal(number_at(&made, more, -1), 1001);
    assert_int_equal(number_at(&made, more, 57), 57);
    onnxc_lib_release(&made, NULL, NULL);
    assert_null(made);
}

// ---------------------------------------------------------------- maps
enum { STRING = 8, MAP = 3, SEQUENCE = 2 };

typedef struct test_map {
    int64_t keys[4];
    float values[4];
    onnxc_value parts[2], map;
} test_map;

static void make_map(test_map *m, int64_t n, const int64_t *keys) {
    for (int64_t i = 0; i < n; i++) m->keys[i] = keys[i], m->values[i] = 0.5f + (float)keys[i];
    m->parts[0] = (onnxc_value){1, I64, 1, n, NULL, m->keys};
    m->parts[1] = (onnxc_value){1, F32, 1, n, NULL, m->values};
    m->map = (onnxc_value){.kind = MAP, .count = n, .data = m->parts};
}

static int take(void **call, const onnxc_value *v, const int64_t *type, int64_t *handle) {
    void *data[] = {handle, (void *)v};
    return onnxc_lib_value_import(call, data, type);
}

static const int64_t of_floats[] = {MAP, I64, F32};

// What comes in any order is in that of the keys; the caller's memory stays as it is.
static void maps_are_put_in_order(void **state) {
    test_map m;
    void *call = NULL;
    int64_t handle, keys, values;
    (void)state;
    make_map(&m, 4, (int64_t[]){7, INT64_MIN, INT64_MAX, -1});
    assert_int_equal(take(&call, &m.map, of_floats, &handle), 0);
    assert_int_equal(onnxc_lib_map_part(&call, (void *[]){&keys, &handle}, (int64_t[]){0}), 0);
    assert_int_equal(onnxc_lib_map_part(&call, (void *[]){&values, &handle}, (int64_t[]){1}), 0);
    const onnxc_value *k = (const onnxc_value *)(uintptr_t)keys, *v = (const onnxc_value *)(uintptr_t)values;
    assert_int_equal(k->rank, 1);
    assert_int_equal(k->dims[0], 4);
    assert_memory_equal(k->data, ((int64_t[]){INT64_MIN, -1, 7, INT64_MAX}), 4 * sizeof(int64_t));
    assert_float_equal(((const float *)v->data)[1], -0.5, 0);
    assert_float_equal(((const float *)v->data)[2], 7.5, 0);
    assert_int_equal(m.keys[0], 7);
    make_map(&m, 0, NULL);
    m.parts[0].data = m.parts[1].data = NULL;
    assert_int_equal(take(&call, &m.map, of_floats, &handle), 0);
    onnxc_lib_release(&call, NULL, NULL);
}

static void wrong_maps_are_refused(void **state) {
    static const int64_t keys[] = {3, 1, 2};
    test_map m;
    void *call = NULL;
    int64_t handle;
    (void)state;
#define REFUSED(code, change)                                                                                \
    make_map(&m, 3, keys);                                                                                   \
    change;                                                                                                  \
    assert_int_equal(take(&call, &m.map, of_floats, &handle), code)
    REFUSED(0, (void)0);
    REFUSED(1, m.map.data = NULL);
    REFUSED(1, m.map.count = 2);
    REFUSED(1, m.map.count = -3);
    REFUSED(1, m.map.kind = SEQUENCE);
    REFUSED(1, m.map.kind = 0);
    REFUSED(1, m.parts[0].kind = SEQUENCE);
    REFUSED(1, m.parts[0].dtype = STRING);
    REFUSED(1, m.parts[0].data = NULL);
    REFUSED(1, m.parts[0].count = 4);
    REFUSED(1, m.parts[1].dtype = I64);
    REFUSED(1, m.parts[1].data = NULL);
    REFUSED(1, m.parts[1].count = -1);
    REFUSED(2, m.keys[0] = 2);
    REFUSED(2, m.keys[0] = m.keys[1] = m.keys[2]);
#undef REFUSED
    onnxc_lib_release(&call, NULL, NULL);
}

// A map that is to be an optional one, an item of a sequence, an item of one that may be nothing.
static void maps_lie_in_other_values(void **state) {
    test_map m[2];
    void *call = NULL;
    int64_t handle;
    (void)state;
    make_map(&m[0], 2, (int64_t[]){2, 1});
    make_map(&m[1], 1, (int64_t[]){5});
    onnxc_value items[] = {m[0].map, m[1].map}, list = {.kind = SEQUENCE, .count = 2, .data = items},
                nothing = {0};
    static const int64_t optional[] = {0, MAP, I64, F32}, sequence[] = {SEQUENCE, MAP, I64, F32},
                         both[] = {0, SEQUENCE, MAP, I64, F32};
    assert_int_equal(take(&call, &m[0].map, optional, &handle), 0);
    assert_int_equal(take(&call, &nothing, optional, &handle), 0);
    assert_int_equal(handle, 0);
    assert_int_equal(take(&call, &list, optional, &handle), 1);
    assert_int_equal(take(&call, &list, both, &handle), 0);
    assert_int_equal(take(&call, &list, sequence, &handle), 0);
    onnxc_value given;
    assert_int_equal(onnxc_lib_value_export(&call, (void *[]){&given, &handle}, NULL), 0);
    const onnxc_value *first = given.data, *keys = first->data;
    assert_int_equal(given.count, 2);
    assert_int_equal(first->kind, MAP);
    assert_memory_equal(keys->data, ((int64_t[]){1, 2}), 2 * sizeof(int64_t));
    free(given.data);
    items[1].kind = 1;
    assert_int_equal(take(&call, &list, sequence, &handle), 1);
    list.data = NULL;
    assert_int_equal(take(&call, &list, sequence, &handle), 1);
    onnxc_lib_release(&call, NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topk_orders),
        cmocka_unit_test(topk_selects_as_it_sorts),
        cmocka_unit_test(topk_selects_from_columns),
        cmocka_unit_test(topk_selects_short_types),
        cmocka_unit_test(topk_of_many),
        cmocka_unit_test(topk_of_long_keys),
        cmocka_unit_test(numbers_are_found),
        cmocka_unit_test(equal_hashes_have_no_slots),
        cmocka_unit_test(unique_counts),
        cmocka_unit_test(fourier_of_all_lengths),
        cmocka_unit_test(nms_edges),
        cmocka_unit_test(nms_of_few_is_a_part_of_all),
        cmocka_unit_test(sequences_do_not_change),
        cmocka_unit_test(maps_are_put_in_order),
        cmocka_unit_test(wrong_maps_are_refused),
        cmocka_unit_test(maps_lie_in_other_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
