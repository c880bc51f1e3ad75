// Runs the model custom.onnxtxt for N = 2, and again through the generic interface if it has one.
#include "custom.h"
#include <stdio.h>

static _Alignas(CUSTOM_WORKSPACE_ALIGN) unsigned char workspace[CUSTOM_WORKSPACE_BYTES];

static void show(int failed, const float *y, const int64_t *j, const float *s) {
    printf("%d:", failed);
    for (int i = 0; i < 6; i++) printf(" %g %d %g", y[i], (int)j[i], s[i]);
    printf("\n");
}

int main(void) {
    float x[6] = {3, -1, 2, 0, 5, -4}, y[6] = {0}, s[6] = {0};
    int64_t k[6] = {1, 2, 3, 4, 5, 6}, j[6] = {0};
    custom_in in = {.x = x, .k = k};
    custom_out out = {.y = y, .j = j, .s = s};
    int failed = custom_run(&in, &out, workspace, sizeof workspace);
    show(failed, y, j, s);
#ifdef CUSTOM_MODEL
    onnxc_model m = CUSTOM_MODEL;
    void *data[] = {x, k, y, j, s};
    int64_t dims[10] = {2, 3, 2, 3}, capacity[] = {6, 6, 6};
    const char *message = NULL;
    x[0] = 7;
    failed = m.run(data, dims, capacity, workspace, sizeof workspace, &message);
    show(failed, y, j, s);
#endif
    return failed;
}
