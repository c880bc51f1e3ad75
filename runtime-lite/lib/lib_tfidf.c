// Counts n-grams. Written: counts (float) [rows, columns]. Read: tokens (int64) [rows, n], negative ones are in no n-gram; table: for
// each length from 1 on where its n-grams are, each followed by its column, and where their slots are (lib_slots.h); then these.
// Numbers: rows, n, columns, minimum and maximum length, maximum number of tokens skipped between two.
#include "runtime-lite/lib/lib.h"
#include "runtime-lite/lib/lib_slots.h"

static int64_t tfidf_column(const int64_t *table, const int64_t *tokens, int64_t step, int64_t length) {
    const int64_t *gram, *slots = table + table[2 * length - 1];
    int64_t number, j;
    for (j = 0; j < length; j++)
        if (tokens[j * step] < 0) return -1;
    number = lib_candidate(slots, lib_hash_words((uint64_t)slots[0], tokens, step, length));
    if (number < 0) return -1;
    gram = table + table[2 * length - 2] + number * (length + 1);
    for (j = 0; j < length; j++)
        if (gram[j] != tokens[j * step]) return -1;
    return gram[length];
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
