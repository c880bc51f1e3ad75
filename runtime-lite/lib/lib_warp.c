// Dynamic time warping: the path of least cost from the first to the last element of a matrix. Written: the path's rows
// and columns [2, rows + columns] from its start on, as many as the length, the length; scratch of 2 (columns + 1)
// floats, of rows * columns bytes. Read: costs [rows, columns]. Numbers: rows, columns.
#include "runtime-lite/lib/lib.h"

static float warp_infinity(void) {
    uint32_t bits = 0x7f800000;
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

// Steps that lead to each element: 0 from both neighbours before, 1 from the row before, 2 from the column before.
static void warp_steps(const float *cost, float *sums, signed char *steps, int64_t rows, int64_t columns) {
    int64_t i, j;
    float *above = sums, *row = sums + columns + 1, *other;
    for (j = 0; j <= columns; j++) above[j] = j ? warp_infinity() : 0;
    for (i = 0; i < rows; i++) {
        row[0] = warp_infinity();
        for (j = 0; j < columns; j++) {
            float both = above[j], up = above[j + 1], left = row[j], least = left;
            signed char step = 2;
            if (both < up && both < left) step = 0, least = both;
            else if (up < both && up < left) step = 1, least = up;
            row[j + 1] = least + cost[i * columns + j];
            steps[i * columns + j] = step;
        }
        other = above, above = row, row = other;
    }
}

ONNXC_LIB int onnxc_lib_warp(void **call, void *const *data, const int64_t *numbers) {
    int64_t rows = numbers[0], columns = numbers[1], most = rows + columns, i = rows, j = columns, n = 0, k;
    int32_t *path = (int32_t *)data[0];
    const signed char *steps = (const signed char *)data[3];
    (void)call;
    warp_steps((const float *)data[4], (float *)data[2], (signed char *)data[3], rows, columns);
    while (i > 0 && j > 0) {
        signed char step = steps[(i - 1) * columns + j - 1];
        n++;
        path[most - n] = (int32_t)(i - 1), path[2 * most - n] = (int32_t)(j - 1);
        i -= step != 2, j -= step != 1;
    }
    for (k = 0; k < n; k++) path[k] = path[most - n + k], path[most + k] = path[2 * most - n + k];
    *(int64_t *)data[1] = n;
    return 0;
}
