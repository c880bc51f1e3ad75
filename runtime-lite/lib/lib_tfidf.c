// Counts n-grams. Written: counts (float) [rows, columns]. Read: tokens (int64) [rows, n], table: offset and
// number of the n-grams of each length from 1, then n-grams in ascending order, each followed by its column.
// Numbers: rows, n, columns, minimum and maximum length, maximum number of tokens skipped between two.
#include "runtime-lite/lib/lib.h"

static int tfidf_compare(const int64_t *gram, const int64_t *tokens, int64_t step, int64_t length) {
    int64_t j;
    for (j = 0; j < length; j++)
        if (gram[j] != tokens[j * step]) return gram[j] < tokens[j * step] ? -1 : 1;
    return 0;
}

static int64_t tfidf_column(const int64_t *table, const int64_t *tokens, int64_t step, int64_t length) {
    const int64_t *grams = table + table[2 * (length - 1)];
    int64_t low = 0, count = table[2 * (length - 1) + 1], high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (tfidf_compare(grams + middle * (length + 1), tokens, step, length) < 0) low = middle + 1;
        else high = middle;
    }
    if (low == count || tfidf_compare(grams + low * (length + 1), tokens, step, length)) return -1;
    return grams[low * (length + 1) + length];
}

ONNXC_LIB int onnxc_lib_tfidf(void **call, void *const *data, const int64_t *numbers) {
    int64_t n = numbers[1], columns = numbers[2], row, length, step, i, column;
    const int64_t *table = (const int64_t *)data[2];
    (void)call;
    for (row = 0; row < numbers[0]; row++) {
        float *out = (float *)data[0] + row * columns;
        const int64_t *tokens = (const int64_t *)data[1] + row * n;
        for (i = 0; i < columns; i++) out[i] = 0;
        for (length = numbers[3]; length <= numbers[4]; length++)
            for (step = 1; step <= numbers[5] + 1; step++) {
                if (length == 1 && step > 1) break; /* a single token has no gaps */
                if (length > 1 && (n - 1) / step < length - 1) break;
                for (i = 0; i + step * (length - 1) < n; i++) {
                    column = tfidf_column(table, tokens + i, step, length);
                    if (column >= 0) out[column] += 1;
                }
            }
    }
    return 0;
}
