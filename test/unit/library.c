// Library functions of runtime-lite, called as emitted code calls them: orders, ties, ends of the ranges.
#include "ir/library.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
// after the headers that it needs
#include <cmocka.h>

enum { F32 = 1, I64 = 7, MOST = 512 };

static void topk(const float *x, int64_t n, int64_t k, int largest, int64_t *indices) {
    float values[MOST];
    int64_t scratch[4 * MOST];
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
    for (int i = 0; i < MOST; i++) x[i] = (float)(i * 7919 % 101);
    topk(x, MOST, MOST, 1, all);
    for (int64_t k = 1; k < MOST; k = 3 * k + 1) {
        topk(x, MOST, k, 1, some);
        assert_memory_equal(some, all, (size_t)k * sizeof *some);
    }
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

// A box of no area overlaps nothing; a score that is no number is above no threshold.
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topk_orders),
        cmocka_unit_test(topk_selects_as_it_sorts),
        cmocka_unit_test(unique_counts),
        cmocka_unit_test(nms_edges),
        cmocka_unit_test(sequences_do_not_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
